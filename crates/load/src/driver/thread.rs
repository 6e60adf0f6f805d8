//! The loop of one thread: arrivals that are due, answers that have come, connections to be made again.

use super::client::{Client, Task};
use super::connection::{Connection, Got, Trouble};
use super::poll::{Happened, Poll};
use super::{CONNECT, Message, Phase, Shared};
use crate::arrivals::{Arrivals, Schedule};
use crate::error::LoadError;
use crate::reply::Reply;
use crate::tally::{Failure, Second, Tally};
use crate::workload::{ClientDraws, Step};
use rustix::time::{ClockId, clock_gettime};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

/// Read from a socket at once, at most.
const BUFFER: usize = 64 * 1024;
/// Connections of a thread that may be in the making at the same time: more would overflow the server's backlog.
const CONNECTS_AT_ONCE: usize = 16;
/// A lost connection is tried again after this.
const RETRY: u64 = 100_000_000;
/// After a phase, lost connections are made again for at most this long.
const RECONNECT: u64 = 2_000_000_000;
/// The loop looks at the clock at least this often.
const TICK: u64 = 50_000_000;
const SECOND: u64 = 1_000_000_000;

/// Runs a thread until its commands end.
pub(super) fn run(
    shared: &Shared,
    (number, threads): (usize, usize),
    commands: &Receiver<Phase>,
    tell: &Sender<Message>,
) {
    // 50 us of slack, the default, would make every arrival late.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let mut thread = match Thread::new(shared, number, threads, tell) {
        Ok(thread) => thread,
        Err(error) => return drop(tell.send(Message::Connected(Err(error)))),
    };
    let connected = thread.connect_all();
    let failed = connected.is_err();
    if tell.send(Message::Connected(connected)).is_err() || failed {
        return;
    }
    while let Ok(phase) = commands.recv() {
        let done = thread.phase(&phase);
        thread.reconnect();
        if tell.send(Message::Done(Box::new(done))).is_err() {
            break;
        }
    }
    thread.quit();
}

struct Thread<'a> {
    shared: &'a Shared,
    share: (usize, usize),
    tell: &'a Sender<Message>,
    poll: Poll,
    clients: Vec<Client>,
    /// Those of client n begin at n times the number of lanes.
    connections: Vec<Connection>,
    /// Connections to be opened, with the moment from which on.
    down: VecDeque<(u64, usize)>,
    opening: usize,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
    /// Clients without a transaction (open loop), longest first.
    free: VecDeque<usize>,
    /// Clients that think, with the moment at which they go on.
    thinking: BinaryHeap<Reverse<(u64, usize)>>,
    schedule: Option<Schedule>,
    think: u64,
    phase: Option<Phase>,
    in_flight: usize,
    tally: Tally,
    second: Second,
    last_trouble: Option<LoadError>,
}

impl<'a> Thread<'a> {
    fn new(
        shared: &'a Shared,
        number: usize,
        threads: usize,
        tell: &'a Sender<Message>,
    ) -> Result<Self, LoadError> {
        let (mut clients, mut connections) = (Vec::new(), Vec::new());
        for client in (0..shared.clients).skip(number).step_by(threads.max(1)) {
            clients.push(Client::new(client, shared.workload.slots));
            for (lane, peers) in &shared.lanes {
                let peer = peers[client as usize % peers.len()].clone();
                connections.push(Connection::new(peer, *lane, connections.len() as u64));
            }
        }
        Ok(Self {
            shared,
            share: (number, threads),
            tell,
            poll: Poll::new()?,
            down: (0..connections.len()).map(|token| (0, token)).collect(),
            clients,
            connections,
            opening: 0,
            buffer: vec![0; BUFFER],
            scratch: Vec::with_capacity(256),
            free: VecDeque::new(),
            thinking: BinaryHeap::new(),
            schedule: None,
            think: 0,
            phase: None,
            in_flight: 0,
            tally: Tally::new(&shared.workload),
            second: Second::new(0),
            last_trouble: None,
        })
    }

    /// Opens everything once; the first refusal ends it.
    fn connect_all(&mut self) -> Result<(), LoadError> {
        let deadline = self.shared.now() + CONNECT.as_nanos() as u64;
        while self.connections.iter().any(|connection| !connection.is_ready()) {
            let now = self.shared.now();
            if now > deadline {
                let ready = self.connections.iter().filter(|connection| connection.is_ready()).count();
                let clients = self.connections.len();
                return Err(LoadError::NotReady { ready, clients, seconds: CONNECT.as_secs() });
            }
            self.open_some(now);
            self.wait(now + TICK, now)?;
            if let Some(trouble) = self.last_trouble.take() {
                return Err(trouble);
            }
        }
        Ok(())
    }

    /// Makes again what the phase has cut or lost, as far as the server lets us in that time: the next phase is to begin
    /// with all its clients.
    fn reconnect(&mut self) {
        let deadline = self.shared.now() + RECONNECT;
        loop {
            let now = self.shared.now();
            self.open_some(now);
            if now > deadline || (self.down.is_empty() && self.opening == 0) {
                return;
            }
            if self.wait(now + TICK / 10, now).is_err() {
                return;
            }
        }
    }

    /// Runs one phase to its end.
    fn phase(&mut self, phase: &Phase) -> Result<Tally, LoadError> {
        self.begin_phase(phase);
        let cpu = cpu_time();
        loop {
            let now = self.shared.now();
            self.roll_second(now);
            self.open_some(now);
            let next = self.begin_due(now, phase);
            let stopped = phase.stop.load(Ordering::Relaxed);
            let over = now >= phase.end && self.in_flight == 0 && next.is_none();
            if over || now >= phase.grace || stopped {
                break;
            }
            let until = next.unwrap_or(u64::MAX).min(now + TICK).min(phase.grace);
            let until = if now < phase.end { until.min(phase.end) } else { until };
            let until = until.min(self.second_ends());
            self.wait(until, now)?;
        }
        self.end_phase(phase);
        self.tally.cpu = cpu_time().saturating_sub(cpu);
        self.tally.wall = self.shared.now().min(phase.grace).saturating_sub(phase.start);
        Ok(std::mem::replace(&mut self.tally, Tally::new(&self.shared.workload)))
    }

    fn begin_phase(&mut self, phase: &Phase) {
        self.tally = Tally::new(&self.shared.workload);
        self.second = Second::new(0);
        self.phase = Some(phase.clone());
        self.thinking.clear();
        self.free.clear();
        self.schedule = None;
        let (number, threads) = self.share;
        match &phase.arrivals {
            Arrivals::Open(open) => {
                self.schedule = Some(Schedule::new(open, phase.seed, number, threads));
            }
            Arrivals::Closed { think } => self.think = think.as_nanos() as u64,
        }
        for place in 0..self.clients.len() {
            let number = u64::from(self.clients[place].number);
            self.clients[place].reseed(phase.seed, number);
            self.clients[place].free_since = phase.start;
            if self.is_free(place) {
                self.release(place, phase.start);
            }
        }
    }

    /// A client has nothing to do: it waits for an arrival or thinks.
    fn release(&mut self, place: usize, now: u64) {
        self.clients[place].free_since = now;
        if self.schedule.is_some() {
            self.free.push_back(place);
        } else {
            self.thinking.push(Reverse((now + if now > 0 { self.think } else { 0 }, place)));
        }
    }

    /// Begins what is due; returns when the next is, if there is a next and a client for it.
    fn begin_due(&mut self, now: u64, phase: &Phase) -> Option<u64> {
        match &phase.arrivals {
            Arrivals::Closed { .. } => loop {
                let Reverse((at, place)) = *self.thinking.peek()?;
                if at >= phase.end || now >= phase.end {
                    return None;
                }
                if at > now {
                    return Some(at);
                }
                self.thinking.pop();
                if self.is_free(place) {
                    self.begin(place, at, now, None);
                }
            },
            Arrivals::Open(_) => loop {
                let at = phase.start + self.schedule.as_ref()?.peek().at;
                if at >= phase.end {
                    return None;
                }
                if at > now {
                    return Some(at);
                }
                let Some(place) = self.free.pop_front() else {
                    // Due, and nobody free: the end of a transaction or of the phase comes next.
                    return Some(u64::MAX);
                };
                if self.is_free(place) {
                    let arrival = self.schedule.as_mut()?.take();
                    self.begin(place, at, now, Some(arrival.number));
                }
            },
        }
    }

    fn begin(&mut self, place: usize, due: u64, now: u64, arrival: Option<u64>) {
        let Some(phase) = &self.phase else { return };
        let client = &mut self.clients[place];
        self.tally.arrivals += 1;
        if let Some(number) = arrival {
            client.reseed(phase.seed, number);
            let could = due.max(client.free_since);
            self.tally.lateness.saturating_record(now.saturating_sub(could));
        }
        let transaction = self.shared.workload.choose(&mut client.rng);
        // In a closed loop nobody waits, so that the intended start is the actual one.
        let due = if arrival.is_some() { due } else { now };
        client.task =
            Some(Task { transaction, step: 0, due, began: now, statement: 0, sent: now, failed: false });
        self.in_flight += 1;
        self.advance(place, now);
    }

    /// Takes steps until a statement is out or the transaction is over.
    fn advance(&mut self, place: usize, now: u64) {
        let shared = self.shared;
        let client = &mut self.clients[place];
        let Some(task) = &mut client.task else { return };
        let mut draws = ClientDraws {
            rng: &mut client.rng,
            slots: &mut client.slots,
            client: (client.number, shared.clients),
            last_insert_id: client.last_insert_id,
            scratch: &mut self.scratch,
        };
        for step in &shared.workload.transactions[task.transaction].steps[task.step..] {
            task.step += 1;
            match step {
                Step::Draw { slot, draw } => draws.slots[*slot] = draw.number(&mut draws),
                Step::Send { statement, variant } => {
                    let variant = variant.map_or(0, |slot| (draws.slots[slot] - 1).max(0) as usize);
                    task.statement = *statement;
                    task.sent = now;
                    let lane = shared.workload.statements[*statement].lane;
                    let lane = shared.lanes.iter().position(|(other, _)| *other == lane).unwrap_or(0);
                    let token = place * shared.lanes.len() + lane;
                    let sent =
                        self.connections[token].send(&self.poll, shared, *statement, variant, &mut draws);
                    if let Err(trouble) = sent {
                        self.lost(token, trouble, now);
                    }
                    return;
                }
            }
        }
        self.finish(place, now, None);
    }

    /// Takes the answer to a client's statement.
    fn replied(&mut self, token: usize, reply: Reply, now: u64) {
        let place = token / self.shared.lanes.len();
        let client = &mut self.clients[place];
        let Some(task) = &mut client.task else { return };
        if task.failed {
            return self.finish(place, now, None);
        }
        let measured = self.phase.as_ref().is_some_and(|phase| now <= phase.grace);
        let count = &mut self.tally.statements[task.statement];
        if measured {
            self.tally.queries += 1;
            self.second.queries += 1;
            count.rows += reply.rows;
        }
        if let Some(code) = reply.error {
            let failure = Failure::Code(code);
            count.fail(failure);
            self.tally.transactions[task.transaction].fail(failure);
            self.second.failed += 1;
            task.failed = true;
            if self.connections[token].in_transaction {
                if let Err(trouble) = self.connections[token].send_text(&self.poll, "ROLLBACK") {
                    self.lost(token, trouble, now);
                }
                return;
            }
            return self.finish(place, now, None);
        }
        count.response.saturating_record(now.saturating_sub(task.sent));
        if reply.last_insert_id > 0 {
            client.last_insert_id = reply.last_insert_id;
        }
        self.advance(place, now);
    }

    /// Counts a transaction that is over, and gives its client something new to do.
    fn finish(&mut self, place: usize, now: u64, failure: Option<Failure>) {
        let Some(task) = self.clients[place].task.take() else { return };
        let Some(phase) = &self.phase else { return };
        self.in_flight -= 1;
        let count = &mut self.tally.transactions[task.transaction];
        if let Some(failure) = failure {
            if !task.failed {
                count.fail(failure);
                self.second.failed += 1;
            }
        } else if !task.failed {
            let open = phase.arrivals.is_open();
            // A closed loop counts what ends in time; an open one everything that was due in time.
            if open || now <= phase.end {
                let response = now.saturating_sub(task.due);
                count.response.saturating_record(response);
                self.second.response.saturating_record(response);
                self.tally.late += u64::from(phase.objective.is_some_and(|objective| response > objective));
                if open {
                    count.service.saturating_record(now.saturating_sub(task.began));
                }
            }
        }
        if self.is_free(place) {
            self.next(place, now);
        }
    }

    /// What a free client does next. A closed loop without think time goes on at once, without a look at the queue.
    fn next(&mut self, place: usize, now: u64) {
        let Some(phase) = &self.phase else { return };
        if self.schedule.is_none() && self.think == 0 {
            if now < phase.end {
                self.begin(place, now, now, None);
            }
            return;
        }
        self.release(place, now);
    }

    fn is_free(&self, place: usize) -> bool {
        let lanes = self.shared.lanes.len();
        self.clients[place].task.is_none()
            && self.connections[place * lanes..(place + 1) * lanes].iter().all(Connection::is_ready)
    }

    /// Waits until a moment, and takes what happened.
    fn wait(&mut self, until: u64, now: u64) -> Result<(), LoadError> {
        let count = self.poll.wait(Duration::from_nanos(until.saturating_sub(now)))?;
        for n in 0..count {
            self.take(self.poll.happened(n));
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self, happened: Happened) {
        let token = happened.token as usize;
        let connection = &mut self.connections[token];
        match connection.take(happened, &self.poll, self.shared, &mut self.buffer) {
            Ok(None) => {}
            Ok(Some(Got::Reply(reply))) => self.replied(token, reply, self.shared.now()),
            Ok(Some(Got::Ready)) => {
                self.opening -= 1;
                let place = token / self.shared.lanes.len();
                if self.phase.is_some() && self.is_free(place) {
                    self.next(place, self.shared.now());
                }
            }
            Err(trouble) => self.lost(token, trouble, self.shared.now()),
        }
    }

    /// A connection broke: its transaction has failed, and it is made again after a while.
    fn lost(&mut self, token: usize, trouble: Trouble, now: u64) {
        let connection = &mut self.connections[token];
        if connection.is_down() && !matches!(trouble, Trouble::Io(_)) {
            return;
        }
        if connection.is_connecting() {
            self.opening -= 1;
        }
        let error = trouble.into_error(&connection.peer);
        tracing::debug!(%error, "a connection was lost");
        self.last_trouble = Some(error);
        connection.close();
        self.tally.reconnects += 1;
        self.down.push_back((now + RETRY, token));
        let place = token / self.shared.lanes.len();
        if let Some(task) = self.clients[place].task {
            self.tally.statements[task.statement].fail(Failure::ConnectionLost);
            self.finish(place, now, Some(Failure::ConnectionLost));
        }
    }

    fn open_some(&mut self, now: u64) {
        while self.opening < CONNECTS_AT_ONCE {
            match self.down.front() {
                Some((from, _)) if *from <= now => {}
                _ => return,
            }
            let Some((_, token)) = self.down.pop_front() else { return };
            self.opening += 1;
            if let Err(trouble) = self.connections[token].open(&self.poll) {
                self.opening -= 1;
                self.lost(token, trouble, now);
            }
        }
    }

    fn second_ends(&self) -> u64 {
        let start = self.phase.as_ref().map_or(0, |phase| phase.start);
        start + (self.second.index + 1) * SECOND
    }

    /// Tells the second that is over. What ends in the grace after the phase belongs to its last second.
    fn roll_second(&mut self, now: u64) {
        let Some(phase) = &self.phase else { return };
        while now >= self.second_ends() && self.second_ends() < phase.end {
            let next = Second::new(self.second.index + 1);
            let over = std::mem::replace(&mut self.second, next);
            // Nobody listens any more: the run is being given up.
            let _ = self.tell.send(Message::Second(over));
        }
    }

    /// Counts what is left, and cuts the connections whose answers nobody waits for any more.
    fn end_phase(&mut self, phase: &Phase) {
        let end = self.shared.now();
        let open = phase.arrivals.is_open();
        for place in 0..self.clients.len() {
            let Some(task) = self.clients[place].task.take() else { continue };
            if open && !task.failed {
                self.tally.transactions[task.transaction].fail(Failure::Unfinished);
                self.second.failed += 1;
                self.tally.waiting.saturating_record(end.saturating_sub(task.due));
            }
            self.cut(place);
        }
        self.in_flight = 0;
        if let Some(schedule) = &mut self.schedule {
            while phase.start + schedule.peek().at < phase.end.min(end) {
                let at = phase.start + schedule.take().at;
                self.tally.arrivals += 1;
                self.tally.not_started += 1;
                self.tally.waiting.saturating_record(end.saturating_sub(at));
            }
        }
        for connection in &mut self.connections {
            self.tally.saturated_sends += std::mem::take(&mut connection.saturated);
        }
        self.phase = None;
        let over = std::mem::replace(&mut self.second, Second::new(0));
        let _ = self.tell.send(Message::Second(over));
    }

    fn cut(&mut self, place: usize) {
        let lanes = self.shared.lanes.len();
        for token in place * lanes..(place + 1) * lanes {
            if self.connections[token].is_busy() {
                self.connections[token].close();
                self.down.push_back((0, token));
            }
        }
    }

    fn quit(&mut self) {
        for connection in &mut self.connections {
            connection.quit(&self.poll);
        }
    }
}

/// CPU time of this thread, in ns.
fn cpu_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}
