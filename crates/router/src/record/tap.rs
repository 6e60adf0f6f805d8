//! Tap: one session's part in a recording. Hears its tracker beside insight, and tells the recording.
//!
//! A command is told when it has been answered, with how. One that is not answered (`COM_STMT_CLOSE`) waits for those before
//! it, so that a session's commands stand in the recording in the order in which they were sent.
//!
//! **Sessions that are under way when recording begins** join at their next command outside a transaction: a transaction of which
//! the beginning is missing is none. What they had prepared is told first, as far as it is kept ([`prepared`]), so that its executions
//! can be sent again. Those that never come out of a transaction, and those that cannot be read, are counted.

mod prepared;

use super::{Course, Recorder};
use crate::listener::Listener;
use crate::server_counters::ServerSlot;
use insight::Session as Insight;
use prepared::{Prepared, Statement, Types};
use recording::{Answer, Closed, Event, Opened, Said};
use sql::is_secret;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use wire::read::Reader;
use wire::{Capabilities, Command, Finish, Observer, Phase, Progress, Start, Tracker, attributes};

/// MariaDB's word for the statement prepared last.
const LAST: u32 = u32::MAX;
/// A body that is longer is left out.
const LONGEST: usize = 16 << 20;

/// One session's part, whether somebody records or not.
#[derive(Debug, Default)]
pub(crate) struct Tap {
    recorder: Arc<Recorder>,
    listener: Option<Arc<Listener>>,
    /// The recording that this session knows of, 0 for none.
    seen: u64,
    /// It is to be recorded from its next command outside a transaction.
    joining: Option<Joining>,
    recorded: Option<Box<Recorded>>,
    prepared: Prepared,
}

/// A session that waits for the end of its transaction; counted while it does.
#[derive(Debug)]
struct Joining(Arc<Course>);

/// A session that is recorded.
#[derive(Debug)]
struct Recorded {
    course: Arc<Course>,
    session: u64,
    /// When the chunk that is being read came.
    now: Instant,
    /// When the first bytes of a packet came that were too few to tell what it is.
    begun: Option<Instant>,
    /// Commands not told yet, oldest first.
    flights: VecDeque<Flight>,
    /// The newest of them is coming in pieces.
    coming: bool,
    /// Commands of which the start was heard and the end not: they were under way when recording began.
    unheard: u64,
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
struct Flight {
    said: Said,
    at: Instant,
    command: Command,
    attributes: bool,
    /// Bytes of its body that count among those of all sessions.
    held: usize,
}

impl Tap {
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

    /// These bytes came from the client.
    #[inline]
    pub(crate) fn client_bytes(
        &mut self,
        insight: &mut Insight,
        tracker: &mut Tracker,
        bytes: &[u8],
        slot: &ServerSlot,
    ) {
        if self.recorder.number() != self.seen {
            self.change(tracker, slot, false);
        }
        if self.joining.is_some() {
            self.join(tracker, slot);
        }
        self.prepared.catch_up(tracker.progress());
        let Some(recorded) = &mut self.recorded else {
            return insight.client_bytes_heard(tracker, bytes, &mut self.prepared);
        };
        recorded.now = Instant::now();
        recorded.catch_up(tracker.progress());
        insight.client_bytes_heard(tracker, bytes, &mut (&mut **recorded, &mut self.prepared));
        recorded.progress = tracker.progress();
    }

    /// These bytes came from the server.
    #[inline]
    pub(crate) fn server_bytes(
        &mut self,
        insight: &mut Insight,
        tracker: &mut Tracker,
        bytes: &[u8],
        slot: &ServerSlot,
    ) {
        if self.recorder.number() != self.seen {
            self.change(tracker, slot, false);
        }
        self.prepared.catch_up(tracker.progress());
        let Some(recorded) = &mut self.recorded else {
            return insight.server_bytes_heard(tracker, bytes, &mut self.prepared);
        };
        recorded.now = Instant::now();
        recorded.catch_up(tracker.progress());
        insight.server_bytes_heard(tracker, bytes, &mut (&mut **recorded, &mut self.prepared));
        recorded.progress = tracker.progress();
    }

    /// A recording has begun or ended since the last look.
    #[cold]
    fn change(&mut self, tracker: &Tracker, slot: &ServerSlot, fresh: bool) {
        self.seen = self.recorder.number();
        self.recorded = None;
        self.joining = None;
        let Some(course) = self.recorder.course(self.seen) else { return };
        if matches!(tracker.phase(), Phase::Opaque(_) | Phase::Lost(_)) {
            return course.cannot_be_read();
        }
        if !course.chooses() {
            return;
        }
        if fresh {
            return self.open(&course, tracker, slot, true);
        }
        course.waits(true);
        self.joining = Some(Joining(course));
    }

    /// The session is recorded from here on if it is in no transaction.
    #[cold]
    fn join(&mut self, tracker: &Tracker, slot: &ServerSlot) {
        if !tracker.is_idle() || tracker.in_transaction() {
            return;
        }
        let Some(joining) = self.joining.take() else { return };
        let course = joining.0.clone();
        drop(joining);
        self.open(&course, tracker, slot, false);
        let Some(recorded) = &mut self.recorded else { return };
        for statement in self.prepared.known() {
            recorded.prepared_before(statement);
        }
    }

    fn open(&mut self, course: &Arc<Course>, tracker: &Tracker, slot: &ServerSlot, fresh: bool) {
        let (session, course) = (course.number_session(), course.clone());
        let now = Instant::now();
        let progress = tracker.progress();
        course.tell(&Event::Opened(Opened {
            session,
            at_us: if fresh { course.micros(now) } else { 0 },
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
            server: slot.counters.name.to_string(),
        }));
        self.recorded = Some(Box::new(Recorded {
            course,
            session,
            now,
            begun: None,
            flights: VecDeque::new(),
            coming: false,
            unheard: progress.started - progress.completed,
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

impl Drop for Recorded {
    fn drop(&mut self) {
        let held = self.flights.iter().map(|flight| flight.held).sum();
        self.course.release(held);
        let at_us = self.course.micros(Instant::now());
        self.course.tell(&Event::Closed(Closed { session: self.session, at_us }));
    }
}

impl Recorded {
    /// The tracker has been shown bytes elsewhere (a change of user that was carried through as a login): what was answered
    /// there is told without its answer.
    fn catch_up(&mut self, progress: Progress) {
        if progress == self.progress {
            return;
        }
        let outstanding = (progress.started - progress.completed) as usize;
        while self.flights.len() > outstanding {
            let Some(flight) = self.flights.pop_front() else { break };
            self.tell(flight);
        }
        self.unheard = self.unheard.min(outstanding as u64);
        self.secret.clear();
        self.types.clear();
    }

    fn flight(&mut self, start: &Start<'_>) -> Flight {
        let at = self.begun.take().unwrap_or(self.now);
        let held = if self.course.hold(start.body.len()) { start.body.len() } else { 0 };
        let said = Said {
            session: self.session,
            at_us: self.course.micros(at),
            command: start.command.byte(),
            body: start.body[..held].to_vec(),
            left_out: held < start.body.len(),
            ..Said::default()
        };
        Flight { said, at, command: start.command, attributes: start.attributes, held }
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
        self.course.tell(&Event::Said(Said {
            session: self.session,
            at_us: self.course.micros(self.now),
            command: Command::StmtPrepare.byte(),
            body: text.clone(),
            before: true,
            answer: Some(Answer { prepared: Some(id), ..Answer::default() }),
            ..Said::default()
        }));
    }

    fn add(&mut self, start: &Start<'_>) {
        let flight = self.flight(start);
        self.flights.push_back(flight);
        self.coming = !start.whole;
        if start.whole {
            self.came_whole();
        }
    }

    fn comes(&mut self, body: &[u8]) {
        let Some(flight) = self.flights.back_mut().filter(|_| self.coming) else { return };
        if flight.said.left_out {
            return;
        }
        if flight.said.body.len() + body.len() > LONGEST || !self.course.hold(body.len()) {
            flight.said.body = Vec::new();
            flight.said.left_out = true;
            self.course.release(std::mem::take(&mut flight.held));
            return;
        }
        flight.held += body.len();
        flight.said.body.extend_from_slice(body);
    }

    /// The newest command is there: only what may be kept of it stays.
    fn came_whole(&mut self) {
        self.coming = false;
        let Some(flight) = self.flights.back_mut() else { return };
        let body = &mut flight.said.body;
        match flight.command {
            // What did not fit is not known: in doubt it held a password.
            Command::StmtPrepare if flight.said.left_out => self.last_is_secret = true,
            _ if flight.said.left_out => {}
            Command::Query | Command::StmtPrepare => {
                if flight.attributes
                    && flight.command == Command::Query
                    && let Some((_, text)) = attributes::of_query(body)
                {
                    *body = text.to_vec();
                }
                let secret = is_secret(body);
                if secret {
                    flight.said.leave_out(0);
                }
                if flight.command == Command::StmtPrepare {
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
                    flight.said.leave_out(4);
                } else if flight.attributes && flight.command == Command::StmtExecute {
                    match attributes::without(body) {
                        Some(plain) => *body = plain,
                        None => flight.said.leave_out(4),
                    }
                }
                if !flight.said.left_out
                    && flight.command == Command::StmtExecute
                    && let Some(types) = known.and_then(|id| self.types.remove(&id))
                {
                    types.put_into(&mut flight.said.body);
                }
            }
            Command::ChangeUser => {
                let database = changed_database(body).unwrap_or_default();
                flight.said.body = database;
                flight.said.left_out = true;
            }
            _ => {}
        }
        if !flight.command.is_answered() && self.flights.len() == 1 {
            self.tell_unanswered();
        }
    }

    /// Tells the oldest commands that are whole and get no answer.
    fn tell_unanswered(&mut self) {
        while let Some(flight) = self.flights.front() {
            let still_coming = self.coming && self.flights.len() == 1;
            if flight.command.is_answered() || still_coming {
                return;
            }
            if let Some(flight) = self.flights.pop_front() {
                self.tell(flight);
            }
        }
    }

    fn tell(&self, flight: Flight) {
        self.course.release(flight.held);
        self.course.tell(&Event::Said(flight.said));
    }
}

impl Observer for Recorded {
    fn begins(&mut self) {
        self.begun.get_or_insert(self.now);
    }

    fn started(&mut self, start: Start<'_>) {
        self.add(&start);
    }

    fn more(&mut self, body: &[u8]) {
        self.comes(body);
    }

    fn whole(&mut self) {
        if self.coming {
            self.came_whole();
        }
    }

    fn closed(&mut self, statement: u32) {
        self.secret.remove(&statement);
        self.types.remove(&statement);
    }

    fn silent(&mut self, start: Start<'_>) {
        self.add(&start);
    }

    fn silent_more(&mut self, body: &[u8]) {
        self.comes(body);
    }

    fn silent_whole(&mut self) {
        self.whole();
    }

    fn answering(&mut self) {}

    fn finished(&mut self, finish: Finish) {
        if self.unheard > 0 {
            self.unheard -= 1;
            return;
        }
        let Some(mut flight) = self.flights.pop_front() else { return };
        let took = self.now.saturating_duration_since(flight.at);
        flight.said.answer = Some(Answer {
            took_us: took.as_micros() as u64,
            error: finish.error,
            rows: finish.rows,
            affected: finish.affected,
            prepared: finish.prepared,
        });
        if let (Some(statement), true) = (finish.prepared, flight.said.left_out) {
            self.secret.insert(statement);
        }
        self.tell(flight);
        self.tell_unanswered();
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
#[path = "tap/tests.rs"]
mod tests;
