//! Session: observes what a tracker finds in one session, times its commands and hands them to the thread's
//! ledger.
//!
//! Whoever feeds the tracker takes a [`CommandObserver`] for each chunk of bytes, shows the tracker the chunk
//! with it, and ends it with [`CommandObserver::finish`].
//!
//! A command's time runs from the moment at which its first byte was read from the client to that at which
//! the last byte of its answer was read from the server. Commands sent ahead run each from their own first
//! byte, so they overlap. The clock is read once for each chunk of bytes.
//!
//! **Whose a command is.** A tag in its text or attributes says the endpoint; for a prepared statement the
//! tags of its text. In a transaction a statement without tags belongs to the endpoint of the tagged one
//! before it, so that `COMMIT` counts where its transaction does; the statement that opens a transaction
//! waits for the next one and goes with that. What is left belongs to its user, or, when that has no name, to
//! its listener.

mod text;

use crate::figures::Measurement;
use crate::ledger::{Cell, Labels, Ledger, Readable, SessionCount, StatementKey, Tag, Text, named};
use sql::Dialect;
use sql::fold::Map;
use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;
use text::{PartialStatement, text};
use wire::tracker::OpaqueBecause;
use wire::{Command, Event, Finish, Observer, Phase, Progress, Start, Status, Tracker, attributes};

/// Prepared statements of one session that are known by their text.
const PREPARED: usize = 1024;

/// One session's part in insight; nothing at all when its listener is not measured.
#[derive(Debug, Default)]
pub struct Session(Option<Box<Measured>>);

#[derive(Debug)]
struct Measured {
    ledger: Rc<RefCell<Ledger>>,
    state: SessionState,
}

/// What is known of a session.
#[derive(Debug)]
struct SessionState {
    labels: Labels,
    listener: Box<str>,
    /// The user is known, and the endpoint of what has no tag with it.
    identified: bool,
    untagged: u32,
    /// Commands not answered yet, oldest first; the tracker bounds them.
    pending: VecDeque<PendingCommand>,
    prepared: Map<u32, StatementKey>,
    /// The statement whose preparation was asked for last (MariaDB lets it be executed before it has an id).
    last_prepared: StatementKey,
    /// The statement that is coming in pieces.
    coming: Option<PartialStatement>,
    /// When the first bytes of a packet came that were too few to tell what it is.
    begun: Option<Instant>,
    /// The tag of the transaction under way.
    transaction: Tag,
    /// The command that was answered last, not counted yet.
    answered: Option<(PendingCommand, Measurement)>,
    /// The one that opened a transaction, waiting for the next command's tag.
    opened: Option<(PendingCommand, Measurement)>,
    ended: bool,
    /// It counts as readable until it has ended.
    readable: Option<Readable>,
    /// The ledger's era that `labels` and `untagged` are of.
    era: u64,
    /// What it has sent, where it stands for others.
    sent: SessionCount,
    /// Commands whose start and the end was heard, or noticed later.
    progress: Progress,
}

/// A command that is not answered, or not counted yet.
#[derive(Clone, Copy, Debug)]
struct PendingCommand {
    command: Command,
    started: Instant,
    first_byte: Option<Instant>,
    /// What it counts as.
    key: StatementKey,
    /// What it prepares.
    prepares: StatementKey,
    bytes: u64,
    in_transaction: bool,
}

/// A session while one chunk of bytes is read.
#[derive(Debug)]
#[must_use = "what was seen counts once it is finished"]
pub struct CommandObserver<'a> {
    ledger: RefMut<'a, Ledger>,
    state: &'a mut SessionState,
    now: Instant,
    dialect: Dialect,
    in_transaction: bool,
}

impl Session {
    /// A session of a listener that is not measured.
    pub fn off() -> Self {
        Self(None)
    }

    /// A session that begins on this server. `listener` is what people call it, e.g. `reader 127.0.0.1:3306`.
    pub fn begin(ledger: Rc<RefCell<Ledger>>, server: &str, listener: &str) -> Self {
        Self::begin_one_in(1, ledger, server, listener)
    }

    /// The same, of a session that was picked as one in `one_in` and stands for as many.
    pub fn begin_one_in(one_in: u32, ledger: Rc<RefCell<Ledger>>, server: &str, listener: &str) -> Self {
        let labels = {
            let mut ledger = ledger.borrow_mut();
            ledger.counts.sessions += 1;
            let names = ledger.names();
            Labels {
                server: named(&names.servers, server),
                listener: named(&names.listeners, listener),
                user: 0,
                one_in,
            }
        };
        let mut state = SessionState::new(labels, listener, ledger.borrow().era);
        state.readable = Some(ledger.borrow_mut().readable(server, one_in));
        Self(Some(Box::new(Measured { ledger, state })))
    }

    /// Observes the next bytes of either side; the first was read at `now`: the tracker is shown
    /// them with this observer, which is then finished. `None` when there is nothing to measure.
    #[inline]
    pub fn observe(
        &mut self,
        tracker: &Tracker,
        now: impl FnOnce() -> Instant,
    ) -> Option<CommandObserver<'_>> {
        let measured = self.0.as_mut().filter(|measured| !measured.state.ended)?;
        Some(measured.observe(tracker, now()))
    }

    /// Bytes of it are missing from here on: it cannot be read on, and is counted so.
    pub fn lose(&mut self) {
        let Some(measured) = &mut self.0 else { return };
        if !measured.state.ended {
            measured.state.lost(&mut measured.ledger.borrow_mut());
        }
    }
}

impl Measured {
    fn observe(&mut self, tracker: &Tracker, now: Instant) -> CommandObserver<'_> {
        let Self { ledger, state } = self;
        state.catch_up(tracker.progress());
        let mut ledger = ledger.borrow_mut();
        if state.era != ledger.era {
            // The numbers that it knows itself by may have been given up.
            (state.era, state.identified) = (ledger.era, false);
        }
        if !state.identified && matches!(tracker.phase(), Phase::Idle | Phase::Busy) {
            state.identify(&mut ledger, tracker.user());
        }
        let status = tracker.status();
        let dialect = Dialect {
            mariadb: tracker.is_mariadb(),
            plain_backslash: status.contains(Status::NO_BACKSLASH_ESCAPES),
            ansi_quotes: tracker.is_mariadb() && status.contains(Status::ANSI_QUOTES),
        };
        CommandObserver { ledger, state, now, dialect, in_transaction: tracker.in_transaction() }
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let (mut ledger, state) = (self.ledger.borrow_mut(), &mut self.state);
        for (pending, measurement) in [state.opened.take(), state.answered.take()].into_iter().flatten() {
            state.count(&mut ledger, &pending, &measurement);
        }
        ledger.counts.unanswered += state.pending.len() as u64;
        if let Some(coming) = state.coming.take() {
            ledger.give(coming.into_buffer());
        }
    }
}

impl CommandObserver<'_> {
    /// The tracker has read the bytes: counts what was answered.
    pub fn finish(observer: Option<Self>, tracker: &Tracker) {
        let Some(Self { mut ledger, state, .. }) = observer else { return };
        state.progress = tracker.progress();
        state.after_answers(&mut ledger, tracker.in_transaction());
        state.notice_end(&mut ledger, tracker.phase());
    }

    fn pending(&mut self, start: &Start<'_>) -> PendingCommand {
        PendingCommand {
            command: start.command,
            started: self.state.begun.take().unwrap_or(self.now),
            first_byte: None,
            key: StatementKey::default(),
            prepares: StatementKey::default(),
            bytes: start.bytes,
            in_transaction: self.in_transaction,
        }
    }

    /// A statement's text is there.
    fn read(&mut self, mut pending: PendingCommand, text: &Text<'_>) {
        self.ledger.counts.long += u64::from(!text.tail.is_empty());
        let prepares = pending.command == Command::StmtPrepare;
        let key = self.ledger.statement(text, self.dialect, prepares);
        if prepares {
            pending.prepares = key;
            self.state.last_prepared = key;
            pending.key = StatementKey { digest: self.ledger.command(pending.command), tag: key.tag };
        } else {
            pending.key = key;
        }
        self.state.settle(&mut self.ledger, pending);
    }

    fn execute(&mut self, mut pending: PendingCommand, start: &Start<'_>) {
        let id = start.body.first_chunk::<4>().map_or(0, |id| u32::from_le_bytes(*id));
        let known =
            if id == u32::MAX { Some(&self.state.last_prepared) } else { self.state.prepared.get(&id) };
        pending.key = known.copied().unwrap_or_default();
        if known.is_none() {
            self.ledger.counts.unknown_prepared += 1;
        }
        if start.attributes
            && start.command == Command::StmtExecute
            && let Some(attributes) = attributes::of_execute(start.body)
        {
            let tag = self.ledger.attributes(attributes);
            let of_text = pending.key.tag;
            pending.key.tag =
                Tag { endpoint: tag.endpoint.or(of_text.endpoint), request: tag.request.or(of_text.request) };
        }
        self.state.settle(&mut self.ledger, pending);
    }

    fn command(&mut self, start: Start<'_>) {
        let mut pending = self.pending(&start);
        match start.command {
            Command::Query | Command::StmtPrepare => {
                let attributes = start.attributes && start.command == Command::Query;
                if start.whole {
                    self.read(pending, &text(start.body, attributes));
                } else {
                    let buffer = self.ledger.buffer();
                    self.state.coming = Some(PartialStatement::begin(buffer, start.body, attributes));
                    self.state.pending.push_back(pending);
                }
            }
            Command::StmtExecute | Command::StmtBulkExecute => self.execute(pending, &start),
            command => {
                pending.key.digest = self.ledger.command(command);
                self.state.settle(&mut self.ledger, pending);
            }
        }
    }

    fn body_end(&mut self) {
        let Some(coming) = self.state.coming.take() else { return };
        let Some(pending) = self.state.pending.pop_back() else { return };
        self.read(pending, &coming.text());
        self.ledger.give(coming.into_buffer());
    }

    fn answer_end(&mut self, finish: Finish) {
        let Some(pending) = self.state.pending.pop_front() else { return };
        if let Some((earlier, measurement)) = self.state.answered.take() {
            self.state.count(&mut self.ledger, &earlier, &measurement);
        }
        if let Some(id) = finish.prepared
            && self.state.prepared.len() < PREPARED
        {
            self.state.prepared.insert(id, pending.prepares);
        }
        if finish.error.is_none() && matches!(pending.command, Command::ResetConnection | Command::ChangeUser)
        {
            self.state.prepared = Map::default();
            self.state.identified = false;
        }
        let since = |at: Instant| at.saturating_duration_since(pending.started);
        let measurement = Measurement {
            time: since(self.now),
            first_byte: since(pending.first_byte.unwrap_or(self.now)),
            bytes_to_server: pending.bytes,
            finish,
        };
        self.state.answered = Some((pending, measurement));
    }
}

impl Observer for CommandObserver<'_> {
    #[inline]
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Packet => {
                self.state.begun.get_or_insert(self.now);
            }
            Event::Command(start) if start.command.is_answered() => self.command(start),
            Event::Command(start) => {
                // Its first byte is not that of the next command.
                self.state.begun = None;
                if let Some(statement) = start.closes() {
                    self.state.prepared.remove(&statement);
                }
            }
            Event::Body(body) => {
                if let Some(coming) = &mut self.state.coming {
                    coming.push(body);
                }
            }
            Event::BodyEnd => self.body_end(),
            Event::Answer => {
                if let Some(pending) = self.state.pending.front_mut() {
                    pending.first_byte = Some(self.now);
                }
            }
            Event::AnswerEnd(finish) => self.answer_end(finish),
        }
    }
}

impl SessionState {
    /// Of a session that begins.
    fn new(labels: Labels, listener: &str, era: u64) -> Self {
        Self {
            labels,
            listener: listener.into(),
            identified: false,
            untagged: 0,
            pending: VecDeque::new(),
            prepared: Map::default(),
            last_prepared: StatementKey::default(),
            coming: None,
            begun: None,
            transaction: Tag::default(),
            answered: None,
            opened: None,
            ended: false,
            readable: None,
            era,
            sent: SessionCount::default(),
            progress: Progress::default(),
        }
    }

    fn identify(&mut self, ledger: &mut Ledger, user: Option<&str>) {
        self.identified = true;
        let names = ledger.names();
        self.labels.listener = named(&names.listeners, &self.listener);
        self.labels.user = named(&names.users, user.unwrap_or("(no name)"));
        self.untagged = match user {
            Some(user) => named(&names.endpoints, &format!("(user {user})")),
            None => named(&names.endpoints, &format!("({})", self.listener)),
        };
    }

    /// The tracker has been shown bytes elsewhere (a change of user that was carried through as a login):
    /// commands that were answered meanwhile are let go, uncounted.
    fn catch_up(&mut self, progress: Progress) {
        if progress == self.progress {
            return;
        }
        let outstanding = (progress.started - progress.completed) as usize;
        while self.pending.len() > outstanding {
            self.pending.pop_front();
        }
        self.prepared = Map::default();
        self.identified = false;
        self.progress = progress;
    }

    /// The statement of a command is known: it gets the tag it goes by, and so does what waited for it.
    fn settle(&mut self, ledger: &mut Ledger, mut pending: PendingCommand) {
        let tag = &mut pending.key.tag;
        if tag.endpoint.is_none() && pending.in_transaction {
            *tag = Tag { request: tag.request.or(self.transaction.request), ..self.transaction };
        } else if pending.in_transaction {
            self.transaction = *tag;
        }
        if let Some((mut opened, measurement)) = self.opened.take() {
            opened.key.tag = *tag;
            self.count(ledger, &opened, &measurement);
        }
        self.pending.push_back(pending);
    }

    /// Answers have been read: counts what can be, and follows the transaction.
    fn after_answers(&mut self, ledger: &mut Ledger, in_transaction: bool) {
        let Some((pending, measurement)) = self.answered.take() else { return };
        let tagged = pending.key.tag.endpoint.is_some();
        if !in_transaction {
            self.transaction = Tag::default();
        } else if tagged && self.pending.is_empty() {
            self.transaction = pending.key.tag;
        }
        if in_transaction && !pending.in_transaction && !tagged && self.pending.is_empty() {
            self.opened = Some((pending, measurement));
        } else {
            self.count(ledger, &pending, &measurement);
        }
    }

    fn count(&mut self, ledger: &mut Ledger, pending: &PendingCommand, measurement: &Measurement) {
        let endpoint = pending.key.tag.endpoint.unwrap_or(self.untagged);
        ledger.record(Cell::new(pending.key.digest, endpoint, self.labels), measurement);
        if self.labels.one_in > 1 {
            ledger.sample(self.labels, &mut self.sent);
        }
        if let Some(id) = pending.key.tag.request {
            ledger.request(id, endpoint, pending.started, measurement.time);
        }
    }

    /// A session that cannot be read on is counted once.
    fn notice_end(&mut self, ledger: &mut Ledger, phase: Phase) {
        let counts = &mut ledger.counts;
        match phase {
            Phase::Opaque(OpaqueBecause::Tls) => counts.opaque_tls += 1,
            Phase::Opaque(OpaqueBecause::Compression) => counts.opaque_compression += 1,
            Phase::Opaque(OpaqueBecause::OldProtocol) => counts.opaque_old += 1,
            Phase::Lost(_) => self.lost(ledger),
            _ => return,
        }
        (self.ended, self.readable) = (true, None);
    }

    fn lost(&mut self, ledger: &mut Ledger) {
        ledger.counts.lost += 1;
        ledger.counts.unanswered += self.pending.len() as u64;
        self.pending.clear();
        (self.ended, self.readable) = (true, None);
    }
}

#[cfg(test)]
mod tests;
