//! Session recorder: one session's part in a recording. Observes what its tracker finds, and tells the
//! recording.
//!
//! A command is told when it has been answered, with how. One that is not answered (`COM_STMT_CLOSE`) waits
//! for those before it, so that a session's commands stand in the recording in the order in which they were
//! sent.
//!
//! **Sessions that are under way when recording begins** join at their next command outside a transaction: a
//! transaction whose beginning is missing is none. What they had prepared is told first, as far as it
//! is kept ([`super::prepared`]), so that its executions can be sent again. Those that never come out of a
//! transaction, and those that cannot be read, are counted.

use super::prepared::{Prepared, Statement, Types};
use super::{Recorder, RecordingSink};
use crate::listener::Listener;
use crate::server_counters::ServerSlot;
use recording::{Answer, Event, RecordedCommand, SessionEnd, SessionStart};
use sql::is_secret;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use wire::read::Reader;
use wire::{
    Capabilities, Command, Event as Found, Finish, Observer, Phase, Progress, Start, Tracker, attributes,
};

/// MariaDB's word for the statement prepared last.
const LAST: u32 = u32::MAX;
/// A body that is longer is left out.
const LONGEST: usize = 16 << 20;

/// One session's part, whether somebody records or not.
#[derive(Debug, Default)]
pub(crate) struct SessionRecorder {
    recorder: Arc<Recorder>,
    listener: Option<Arc<Listener>>,
    /// The recording that this session knows of, 0 for none.
    seen: u64,
    /// It is to be recorded from its next command outside a transaction.
    joining: Option<Joining>,
    recorded: Option<Box<RecordedSession>>,
    prepared: Prepared,
}

/// A session while one chunk of bytes is read.
#[derive(Debug)]
#[must_use = "a session's progress is kept once it is finished"]
pub(crate) struct RecordingObserver<'a> {
    recorded: Option<&'a mut RecordedSession>,
    prepared: &'a mut Prepared,
}

/// A session that waits for the end of its transaction; counted while it does.
#[derive(Debug)]
struct Joining(Arc<RecordingSink>);

/// A session that is recorded.
#[derive(Debug)]
struct RecordedSession {
    sink: Arc<RecordingSink>,
    session: u64,
    /// When the chunk that is being read came.
    now: Instant,
    /// When the first bytes of a packet came that were too few to tell what it is.
    begun: Option<Instant>,
    /// Commands not told yet, oldest first.
    pending: VecDeque<PendingCommand>,
    /// The newest of them is coming in pieces.
    coming: bool,
    /// Commands whose start was seen and the end not: they were under way when recording began.
    unseen: u64,
    progress: Progress,
    /// Prepared statements whose text was left out.
    secret: HashSet<u32>,
    /// What the first execution of a statement that was prepared before has to say of its parameters.
    types: HashMap<u32, Types>,
    /// The statement prepared last is one of them (MariaDB executes it as number -1, ahead of the answer).
    last_is_secret: bool,
}

/// A command under way.
#[derive(Debug)]
struct PendingCommand {
    record: RecordedCommand,
    at: Instant,
    command: Command,
    attributes: bool,
    /// Bytes of its body that count among those of all sessions.
    held: usize,
}

impl SessionRecorder {
    /// The tap of a session that came by this listener.
    pub(crate) fn new(recorder: &Arc<Recorder>, listener: &Arc<Listener>) -> Self {
        let prepared = Prepared::new(recorder);
        Self { recorder: recorder.clone(), listener: Some(listener.clone()), prepared, ..Self::default() }
    }

    /// A session is relayed from here on; `fresh`: it has just logged in.
    pub(crate) fn begins(&mut self, tracker: &Tracker, slot: &ServerSlot) {
        if self.recorder.number() != self.seen {
            self.change(tracker, slot, true);
        }
    }

    /// Observes the next bytes of either side; the first was read at `now`: the tracker is shown
    /// them with this observer, which is then finished.
    #[inline]
    pub(crate) fn observe(
        &mut self,
        tracker: &Tracker,
        slot: &ServerSlot,
        now: impl FnOnce() -> Instant,
    ) -> RecordingObserver<'_> {
        if self.recorder.number() != self.seen {
            self.change(tracker, slot, false);
        }
        if self.joining.is_some() {
            self.join(tracker, slot);
        }
        let progress = tracker.progress();
        self.prepared.catch_up(progress);
        let mut recorded = self.recorded.as_deref_mut();
        if let Some(recorded) = &mut recorded {
            recorded.now = now();
            recorded.catch_up(progress);
        }
        RecordingObserver { recorded, prepared: &mut self.prepared }
    }

    /// A recording has begun or ended since the last look.
    #[cold]
    fn change(&mut self, tracker: &Tracker, slot: &ServerSlot, fresh: bool) {
        self.seen = self.recorder.number();
        self.recorded = None;
        self.joining = None;
        let Some(sink) = self.recorder.sink(self.seen) else { return };
        if matches!(tracker.phase(), Phase::Opaque(_) | Phase::Lost(_)) {
            return sink.cannot_be_read();
        }
        if !sink.chooses() {
            return;
        }
        if fresh {
            return self.open(&sink, tracker, slot, true);
        }
        sink.waits(true);
        self.joining = Some(Joining(sink));
    }

    /// The session is recorded from here on if it is in no transaction.
    #[cold]
    fn join(&mut self, tracker: &Tracker, slot: &ServerSlot) {
        if !tracker.is_idle() || tracker.in_transaction() {
            return;
        }
        let Some(joining) = self.joining.take() else { return };
        let sink = joining.0.clone();
        drop(joining);
        self.open(&sink, tracker, slot, false);
        let Some(recorded) = &mut self.recorded else { return };
        for statement in self.prepared.known() {
            recorded.prepared_before(statement);
        }
    }

    fn open(&mut self, sink: &Arc<RecordingSink>, tracker: &Tracker, slot: &ServerSlot, fresh: bool) {
        let (session, sink) = (sink.number_session(), sink.clone());
        let now = Instant::now();
        let progress = tracker.progress();
        sink.push(&Event::SessionStart(SessionStart {
            session,
            at_us: if fresh { sink.micros(now) } else { 0 },
            fresh,
            mariadb: tracker.is_mariadb(),
            several_statements: tracker.capabilities().contains(Capabilities::MULTI_STATEMENTS),
            user: tracker.user().unwrap_or_default().to_owned(),
            database: tracker.database().unwrap_or_default().to_owned(),
            listener: self
                .listener
                .as_ref()
                .map(|listener| format!("{} {}", slot.role, listener.bound))
                .unwrap_or_default(),
            server: slot.counters.name().to_string(),
        }));
        self.recorded = Some(Box::new(RecordedSession {
            sink,
            session,
            now,
            begun: None,
            pending: VecDeque::new(),
            coming: false,
            unseen: progress.started - progress.completed,
            progress,
            secret: HashSet::new(),
            types: HashMap::new(),
            last_is_secret: false,
        }));
    }
}

impl Drop for Joining {
    fn drop(&mut self) {
        self.0.waits(false);
    }
}

impl Drop for RecordedSession {
    fn drop(&mut self) {
        let held = self.pending.iter().map(|pending| pending.held).sum();
        self.sink.release(held);
        let at_us = self.sink.micros(Instant::now());
        self.sink.push(&Event::SessionEnd(SessionEnd { session: self.session, at_us }));
    }
}

impl RecordedSession {
    /// The tracker has been shown bytes elsewhere (a change of user that was carried through as a login):
    /// what was answered there is told without its answer.
    fn catch_up(&mut self, progress: Progress) {
        if progress == self.progress {
            return;
        }
        let outstanding = (progress.started - progress.completed) as usize;
        while self.pending.len() > outstanding {
            let Some(pending) = self.pending.pop_front() else { break };
            self.tell(pending);
        }
        self.unseen = self.unseen.min(outstanding as u64);
        self.secret.clear();
        self.types.clear();
    }

    fn pending(&mut self, start: &Start<'_>) -> PendingCommand {
        let at = self.begun.take().unwrap_or(self.now);
        let held = if self.sink.hold(start.body.len()) { start.body.len() } else { 0 };
        let record = RecordedCommand {
            session: self.session,
            at_us: self.sink.micros(at),
            command: start.command.byte(),
            body: start.body[..held].to_vec(),
            left_out: held < start.body.len(),
            ..RecordedCommand::default()
        };
        PendingCommand { record, at, command: start.command, attributes: start.attributes, held }
    }

    /// What was prepared before is told by its text, so that its executions can be sent again.
    fn prepared_before(&mut self, statement: &Statement) {
        let (id, text) = (statement.id, &statement.text);
        self.last_is_secret = text.is_empty();
        if let Some(types) = statement.types() {
            self.types.insert(id, types);
        }
        if text.is_empty() {
            self.secret.insert(id);
            return;
        }
        self.sink.push(&Event::Command(RecordedCommand {
            session: self.session,
            at_us: self.sink.micros(self.now),
            command: Command::StmtPrepare.byte(),
            body: text.clone(),
            before: true,
            answer: Some(Answer { prepared: Some(id), ..Answer::default() }),
            ..RecordedCommand::default()
        }));
    }

    fn add(&mut self, start: &Start<'_>) {
        let pending = self.pending(start);
        self.pending.push_back(pending);
        self.coming = !start.whole;
        if start.whole {
            self.finish_body();
        }
    }

    fn push_body(&mut self, body: &[u8]) {
        let Some(pending) = self.pending.back_mut().filter(|_| self.coming) else { return };
        if pending.record.left_out {
            return;
        }
        if pending.record.body.len() + body.len() > LONGEST || !self.sink.hold(body.len()) {
            pending.record.body = Vec::new();
            pending.record.left_out = true;
            self.sink.release(std::mem::take(&mut pending.held));
            return;
        }
        pending.held += body.len();
        pending.record.body.extend_from_slice(body);
    }

    /// The newest command is there: only what may be kept of it stays.
    fn finish_body(&mut self) {
        self.coming = false;
        let Some(pending) = self.pending.back_mut() else { return };
        let body = &mut pending.record.body;
        match pending.command {
            // What did not fit is not known: in doubt it held a password.
            Command::StmtPrepare if pending.record.left_out => self.last_is_secret = true,
            _ if pending.record.left_out => {}
            Command::Query | Command::StmtPrepare => {
                if pending.attributes
                    && pending.command == Command::Query
                    && let Some((_, text)) = attributes::of_query(body)
                {
                    *body = text.to_vec();
                }
                let secret = is_secret(body);
                if secret {
                    pending.record.leave_out(0);
                }
                if pending.command == Command::StmtPrepare {
                    self.last_is_secret = secret;
                }
            }
            // All that bring values for a prepared statement.
            Command::StmtExecute | Command::StmtBulkExecute | Command::StmtSendLongData => {
                let known = body.first_chunk().map(|id| u32::from_le_bytes(*id));
                let secret = match known {
                    Some(LAST) => self.last_is_secret,
                    Some(id) => self.secret.contains(&id),
                    None => false,
                };
                if secret {
                    pending.record.leave_out(4);
                } else if pending.attributes && pending.command == Command::StmtExecute {
                    match attributes::without(body) {
                        Some(plain) => *body = plain,
                        None => pending.record.leave_out(4),
                    }
                }
                if !pending.record.left_out
                    && pending.command == Command::StmtExecute
                    && let Some(types) = known.and_then(|id| self.types.remove(&id))
                {
                    types.put_into(&mut pending.record.body);
                }
            }
            Command::ChangeUser => {
                let database = changed_database(body).unwrap_or_default();
                pending.record.body = database;
                pending.record.left_out = true;
            }
            _ => {}
        }
        if !pending.command.is_answered() && self.pending.len() == 1 {
            self.tell_unanswered();
        }
    }

    /// Tells the oldest commands that are whole and get no answer.
    fn tell_unanswered(&mut self) {
        while let Some(pending) = self.pending.front() {
            let still_coming = self.coming && self.pending.len() == 1;
            if pending.command.is_answered() || still_coming {
                return;
            }
            if let Some(pending) = self.pending.pop_front() {
                self.tell(pending);
            }
        }
    }

    fn finished(&mut self, finish: Finish) {
        if self.unseen > 0 {
            self.unseen -= 1;
            return;
        }
        let Some(mut pending) = self.pending.pop_front() else { return };
        let took = self.now.saturating_duration_since(pending.at);
        pending.record.answer = Some(Answer {
            took_us: took.as_micros() as u64,
            error: finish.error,
            error_unknown: false,
            rows: finish.rows,
            affected: Some(finish.affected),
            prepared: finish.prepared,
        });
        if let (Some(statement), true) = (finish.prepared, pending.record.left_out) {
            self.secret.insert(statement);
        }
        self.tell(pending);
        self.tell_unanswered();
    }

    fn tell(&self, pending: PendingCommand) {
        self.sink.release(pending.held);
        self.sink.push(&Event::Command(pending.record));
    }
}

impl RecordingObserver<'_> {
    /// The tracker has read the bytes.
    #[inline]
    pub(crate) fn finish(self, tracker: &Tracker) {
        if let Some(recorded) = self.recorded {
            recorded.progress = tracker.progress();
        }
    }
}

impl Observer for RecordingObserver<'_> {
    #[inline]
    fn event(&mut self, event: Found<'_>) {
        if let Some(recorded) = &mut self.recorded {
            recorded.event(event);
        }
        self.prepared.event(event);
    }
}

impl Observer for RecordedSession {
    fn event(&mut self, event: Found<'_>) {
        match event {
            Found::Packet => {
                self.begun.get_or_insert(self.now);
            }
            Found::Command(start) => {
                if let Some(statement) = start.closes() {
                    self.secret.remove(&statement);
                    self.types.remove(&statement);
                }
                self.add(&start);
            }
            Found::Body(body) => self.push_body(body),
            Found::BodyEnd if self.coming => self.finish_body(),
            Found::BodyEnd | Found::Answer => {}
            Found::AnswerEnd(finish) => self.finished(finish),
        }
    }
}

/// The database that a `COM_CHANGE_USER` asks for; the proof in it is not kept.
fn changed_database(body: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(body);
    reader.until_nul()?;
    let proof = reader.u8()?;
    reader.skip(usize::from(proof))?;
    Some(reader.until_nul()?.to_vec())
}

#[cfg(test)]
mod tests;
