//! Session: hears one session's tracker, times its commands and hands them to the thread's ledger.
//!
//! A command's time runs from the moment at which its first byte was read from the client to that at which the last byte of
//! its answer was read from the server. Commands sent ahead run each from their own first byte, so they overlap. The clock
//! is read once for each chunk of bytes.
//!
//! **Whose a command is.** A tag in its text or attributes says the endpoint; for a prepared statement the tags of its text.
//! In a transaction a statement without tags belongs to the endpoint of the tagged one before it, so that `COMMIT` counts
//! where its transaction does; the statement that opens a transaction waits for the next one and goes with that. What
//! is left belongs to its user, or, when that has no name, to its listener.

mod flight;

use crate::digest::Dialect;
use crate::figures::Done;
use crate::fold::Map;
use crate::ledger::{Cell, Ledger, Place, Tag, Text, Told, named};
use flight::{Coming, Flight, text};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;
use wire::tracker::OpaqueBecause;
use wire::{Command, Finish, Observer, Phase, Progress, Start, Status, Tracker, attributes};

/// Prepared statements of one session that are known by their text.
const PREPARED: usize = 1024;

/// One session's part in insight; nothing at all when its listener is not measured.
#[derive(Debug, Default)]
pub struct Session(Option<Box<Watch>>);

#[derive(Debug)]
struct Watch {
    ledger: Rc<RefCell<Ledger>>,
    life: Life,
}

/// What is known of a session.
#[derive(Debug)]
struct Life {
    place: Place,
    listener: Box<str>,
    /// The user is known, and the endpoint of what has no tag with it.
    identified: bool,
    untagged: u32,
    /// Commands not answered yet, oldest first; the tracker bounds them.
    flight: VecDeque<Flight>,
    prepared: Map<u32, Told>,
    /// The statement whose preparation was asked for last (MariaDB lets it be executed before it has an id).
    last_prepared: Told,
    /// The statement that is coming in pieces.
    coming: Option<Coming>,
    /// When the first bytes of a packet came that were too few to tell what it is.
    begun: Option<Instant>,
    /// The tag of the transaction under way.
    transaction: Tag,
    /// The command that was answered last, not counted yet.
    answered: Option<(Flight, Done)>,
    /// The one that opened a transaction, waiting for the next command's tag.
    opened: Option<(Flight, Done)>,
    ended: bool,
    /// Commands of which the start and the end was heard, or noticed later.
    progress: Progress,
}

impl Session {
    /// A session of a listener that is not measured.
    pub fn off() -> Self {
        Self(None)
    }

    /// A session that begins on this server. `listener` is what people call it, e.g. `reader 127.0.0.1:3306`.
    pub fn begin(ledger: Rc<RefCell<Ledger>>, server: &str, listener: &str) -> Self {
        let place = {
            let mut ledger = ledger.borrow_mut();
            ledger.counts.sessions += 1;
            let names = ledger.names();
            Place {
                server: named(&names.servers, server),
                listener: named(&names.listeners, listener),
                user: 0,
            }
        };
        let life = Life {
            place,
            listener: listener.into(),
            identified: false,
            untagged: 0,
            flight: VecDeque::new(),
            prepared: Map::default(),
            last_prepared: Told::default(),
            coming: None,
            begun: None,
            transaction: Tag::default(),
            answered: None,
            opened: None,
            ended: false,
            progress: Progress::default(),
        };
        Self(Some(Box::new(Watch { ledger, life })))
    }

    /// Shows the tracker bytes of the client.
    #[inline]
    pub fn client_bytes(&mut self, tracker: &mut Tracker, bytes: &[u8]) {
        self.client_bytes_heard(tracker, bytes, &mut ());
    }

    /// The same, and `also` hears what insight hears.
    #[inline]
    pub fn client_bytes_heard(&mut self, tracker: &mut Tracker, bytes: &[u8], also: &mut impl Observer) {
        match &mut self.0 {
            Some(watch) => watch.client_bytes(tracker, bytes, Instant::now(), also),
            _ => tracker.client_bytes_heard(bytes, also),
        }
    }

    /// Shows the tracker bytes that the client sent at `at`: of a session that is heard of later.
    pub fn client_bytes_at(&mut self, tracker: &mut Tracker, bytes: &[u8], at: Instant) {
        match &mut self.0 {
            Some(watch) => watch.client_bytes(tracker, bytes, at, &mut ()),
            _ => tracker.client_bytes(bytes),
        }
    }

    /// Shows the tracker bytes that the server sent and that came at `at`.
    pub fn server_bytes_at(&mut self, tracker: &mut Tracker, bytes: &[u8], at: Instant) {
        match &mut self.0 {
            Some(watch) => watch.server_bytes(tracker, bytes, at, &mut ()),
            _ => tracker.server_bytes(bytes),
        }
    }

    /// Bytes of it are missing from here on: it cannot be read on, and is counted so.
    pub fn lose(&mut self) {
        let Some(watch) = &mut self.0 else { return };
        if !watch.life.ended {
            watch.life.lost(&mut watch.ledger.borrow_mut());
        }
    }

    /// Shows the tracker bytes of the server.
    #[inline]
    pub fn server_bytes(&mut self, tracker: &mut Tracker, bytes: &[u8]) {
        self.server_bytes_heard(tracker, bytes, &mut ());
    }

    /// The same, and `also` hears what insight hears.
    #[inline]
    pub fn server_bytes_heard(&mut self, tracker: &mut Tracker, bytes: &[u8], also: &mut impl Observer) {
        match &mut self.0 {
            Some(watch) => watch.server_bytes(tracker, bytes, Instant::now(), also),
            _ => tracker.server_bytes_heard(bytes, also),
        }
    }
}

impl Watch {
    fn client_bytes(&mut self, tracker: &mut Tracker, bytes: &[u8], now: Instant, also: &mut impl Observer) {
        if self.life.ended {
            return tracker.client_bytes_heard(bytes, also);
        }
        self.life.catch_up(tracker.progress());
        let mut ledger = self.ledger.borrow_mut();
        if !self.life.identified && matches!(tracker.phase(), Phase::Idle | Phase::Busy) {
            self.life.identify(&mut ledger, tracker.user());
        }
        let status = tracker.status();
        let dialect = Dialect {
            mariadb: tracker.is_mariadb(),
            plain_backslash: status.contains(Status::NO_BACKSLASH_ESCAPES),
            ansi_quotes: tracker.is_mariadb() && status.contains(Status::ANSI_QUOTES),
        };
        let in_transaction = tracker.in_transaction();
        let mut hearing = Hearing { ledger: &mut ledger, life: &mut self.life, now, dialect, in_transaction };
        tracker.client_bytes_heard(bytes, &mut (&mut hearing, also));
        self.life.progress = tracker.progress();
        self.life.notice_end(&mut ledger, tracker.phase());
    }

    fn server_bytes(&mut self, tracker: &mut Tracker, bytes: &[u8], now: Instant, also: &mut impl Observer) {
        if self.life.ended {
            return tracker.server_bytes_heard(bytes, also);
        }
        self.life.catch_up(tracker.progress());
        let mut ledger = self.ledger.borrow_mut();
        let in_transaction = tracker.in_transaction();
        let dialect = Dialect::default();
        let mut hearing = Hearing { ledger: &mut ledger, life: &mut self.life, now, dialect, in_transaction };
        tracker.server_bytes_heard(bytes, &mut (&mut hearing, also));
        self.life.progress = tracker.progress();
        self.life.after_answers(&mut ledger, tracker.in_transaction());
        self.life.notice_end(&mut ledger, tracker.phase());
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut ledger = self.ledger.borrow_mut();
        for (flight, done) in [self.life.opened.take(), self.life.answered.take()].into_iter().flatten() {
            self.life.count(&mut ledger, &flight, &done);
        }
        ledger.counts.unanswered += self.life.flight.len() as u64;
        if let Some(coming) = self.life.coming.take() {
            ledger.give(coming.kept);
        }
    }
}

impl Life {
    fn identify(&mut self, ledger: &mut Ledger, user: Option<&str>) {
        self.identified = true;
        let names = ledger.names();
        self.place.user = named(&names.users, user.unwrap_or("(no name)"));
        self.untagged = match user {
            Some(user) => named(&names.endpoints, &format!("(user {user})")),
            None => named(&names.endpoints, &format!("({})", self.listener)),
        };
    }

    /// The tracker has been shown bytes elsewhere (a change of user that was carried through as a login): commands that
    /// were answered meanwhile are let go, uncounted.
    fn catch_up(&mut self, progress: Progress) {
        if progress == self.progress {
            return;
        }
        let outstanding = (progress.started - progress.completed) as usize;
        while self.flight.len() > outstanding {
            self.flight.pop_front();
        }
        self.prepared = Map::default();
        self.identified = false;
        self.progress = progress;
    }

    /// The statement of a command is known: it gets the tag it goes by, and so does what waited for it.
    fn settle(&mut self, ledger: &mut Ledger, mut flight: Flight) {
        let tag = &mut flight.told.tag;
        if tag.endpoint.is_none() && flight.in_transaction {
            *tag = Tag { request: tag.request.or(self.transaction.request), ..self.transaction };
        } else if flight.in_transaction {
            self.transaction = *tag;
        }
        if let Some((mut opened, done)) = self.opened.take() {
            opened.told.tag = *tag;
            self.count(ledger, &opened, &done);
        }
        self.flight.push_back(flight);
    }

    /// Answers have been read: counts what can be, and follows the transaction.
    fn after_answers(&mut self, ledger: &mut Ledger, in_transaction: bool) {
        let Some((flight, done)) = self.answered.take() else { return };
        let tagged = flight.told.tag.endpoint.is_some();
        if !in_transaction {
            self.transaction = Tag::default();
        } else if tagged && self.flight.is_empty() {
            self.transaction = flight.told.tag;
        }
        if in_transaction && !flight.in_transaction && !tagged && self.flight.is_empty() {
            self.opened = Some((flight, done));
        } else {
            self.count(ledger, &flight, &done);
        }
    }

    fn count(&self, ledger: &mut Ledger, flight: &Flight, done: &Done) {
        let endpoint = flight.told.tag.endpoint.unwrap_or(self.untagged);
        ledger.record(Cell::new(flight.told.digest, endpoint, self.place), done);
        if let Some(id) = flight.told.tag.request {
            ledger.request(id, endpoint, flight.started, done.time);
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
        self.ended = true;
    }

    fn lost(&mut self, ledger: &mut Ledger) {
        ledger.counts.lost += 1;
        ledger.counts.unanswered += self.flight.len() as u64;
        self.flight.clear();
        self.ended = true;
    }
}

/// A session while bytes are read.
struct Hearing<'a> {
    ledger: &'a mut Ledger,
    life: &'a mut Life,
    now: Instant,
    dialect: Dialect,
    in_transaction: bool,
}

impl Hearing<'_> {
    fn flight(&mut self, start: &Start<'_>) -> Flight {
        Flight {
            command: start.command,
            started: self.life.begun.take().unwrap_or(self.now),
            first_byte: None,
            told: Told::default(),
            prepares: Told::default(),
            bytes: start.bytes,
            in_transaction: self.in_transaction,
        }
    }

    /// A statement's text is there.
    fn read(&mut self, mut flight: Flight, text: &Text<'_>) {
        self.ledger.counts.long += u64::from(!text.tail.is_empty());
        let told = self.ledger.statement(text, self.dialect);
        if flight.command == Command::StmtPrepare {
            flight.prepares = told;
            self.life.last_prepared = told;
            flight.told = Told { digest: self.ledger.command(flight.command), tag: told.tag };
        } else {
            flight.told = told;
        }
        self.life.settle(self.ledger, flight);
    }

    fn execute(&mut self, mut flight: Flight, start: &Start<'_>) {
        let id = start.body.first_chunk::<4>().map_or(0, |id| u32::from_le_bytes(*id));
        let known = if id == u32::MAX { Some(&self.life.last_prepared) } else { self.life.prepared.get(&id) };
        flight.told = known.copied().unwrap_or_default();
        if known.is_none() {
            self.ledger.counts.unknown_prepared += 1;
        }
        if start.attributes
            && start.command == Command::StmtExecute
            && let Some(attributes) = attributes::of_execute(start.body)
        {
            let tag = self.ledger.attributes(attributes);
            let of_text = flight.told.tag;
            flight.told.tag =
                Tag { endpoint: tag.endpoint.or(of_text.endpoint), request: tag.request.or(of_text.request) };
        }
        self.life.settle(self.ledger, flight);
    }
}

impl Observer for Hearing<'_> {
    fn begins(&mut self) {
        self.life.begun.get_or_insert(self.now);
    }

    fn started(&mut self, start: Start<'_>) {
        let mut flight = self.flight(&start);
        match start.command {
            Command::Query | Command::StmtPrepare => {
                let attributes = start.attributes && start.command == Command::Query;
                if start.whole {
                    self.read(flight, &text(start.body, attributes));
                } else {
                    let mut kept = self.ledger.buffer();
                    kept.extend_from_slice(start.body);
                    self.life.coming = Some(Coming { kept, attributes });
                    self.life.flight.push_back(flight);
                }
            }
            Command::StmtExecute | Command::StmtBulkExecute => self.execute(flight, &start),
            command => {
                flight.told.digest = self.ledger.command(command);
                self.life.settle(self.ledger, flight);
            }
        }
    }

    fn more(&mut self, body: &[u8]) {
        if let Some(coming) = &mut self.life.coming {
            coming.add(body);
        }
    }

    fn whole(&mut self) {
        let Some(coming) = self.life.coming.take() else { return };
        let Some(flight) = self.life.flight.pop_back() else { return };
        self.read(flight, &coming.text());
        self.ledger.give(coming.kept);
    }

    fn closed(&mut self, statement: u32) {
        self.life.prepared.remove(&statement);
    }

    fn answering(&mut self) {
        if let Some(flight) = self.life.flight.front_mut() {
            flight.first_byte = Some(self.now);
        }
    }

    fn finished(&mut self, finish: Finish) {
        let Some(flight) = self.life.flight.pop_front() else { return };
        if let Some((earlier, done)) = self.life.answered.take() {
            self.life.count(self.ledger, &earlier, &done);
        }
        if let Some(id) = finish.prepared
            && self.life.prepared.len() < PREPARED
        {
            self.life.prepared.insert(id, flight.prepares);
        }
        if finish.error.is_none() && matches!(flight.command, Command::ResetConnection | Command::ChangeUser)
        {
            self.life.prepared = Map::default();
            self.life.identified = false;
        }
        let since = |at: Instant| at.saturating_duration_since(flight.started);
        let done = Done {
            time: since(self.now),
            first_byte: since(flight.first_byte.unwrap_or(self.now)),
            bytes_to_server: flight.bytes,
            finish,
        };
        self.life.answered = Some((flight, done));
    }
}

#[cfg(test)]
#[path = "session/tests.rs"]
mod tests;
