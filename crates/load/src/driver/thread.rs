//! The loop of one thread: arrivals that are due, answers that have come, connections to be made again.

mod connections;
mod transactions;

use super::client::Client;
use super::connection::Connection;
use super::sockets::Sockets;
use super::{Message, Phase, Shared};
use crate::arrivals::{Arrivals, Schedule};
use crate::error::LoadError;
use crate::tally::{Failure, Second, Tally};
use rustix::time::{ClockId, clock_gettime};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};

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
    let (mut thread, why_not_ring) = match Thread::new(shared, number, threads, tell) {
        Ok(thread) => thread,
        Err(error) => return drop(tell.send(Message::Connected(Err(error)))),
    };
    let connected = thread.connect_all();
    let failed = connected.is_err();
    if tell.send(Message::Connected(connected.map(|()| why_not_ring))).is_err() || failed {
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
    sockets: Sockets,
    clients: Vec<Client>,
    /// Those of client n begin at n times the number of lanes.
    connections: Vec<Connection>,
    /// Connections to be opened, with the moment from which on.
    down: VecDeque<(u64, usize)>,
    opening: usize,
    scratch: Vec<u8>,
    /// Clients without a transaction that wait for something to do, longest first.
    free: VecDeque<usize>,
    /// Transactions at a time, at most.
    most: usize,
    /// Since when there has been room for another transaction.
    room_since: u64,
    /// Clients that think, with the moment at which they go on.
    thinking: BinaryHeap<Reverse<(u64, usize)>>,
    schedule: Option<Schedule>,
    think: u64,
    phase: Option<Phase>,
    in_flight: usize,
    tally: Tally,
    second: Second,
    excuse: transactions::Excuse,
    last_trouble: Option<LoadError>,
}

impl<'a> Thread<'a> {
    fn new(
        shared: &'a Shared,
        number: usize,
        threads: usize,
        tell: &'a Sender<Message>,
    ) -> Result<(Self, Option<String>), LoadError> {
        let (sockets, why_not_ring) = Sockets::new(shared.data_path, shared.busy)?;
        let (mut clients, mut connections) = (Vec::new(), Vec::new());
        for client in (0..shared.connections).skip(number).step_by(threads.max(1)) {
            clients.push(Client::new(client, shared.workload.slots));
            for (lane, peers) in &shared.lanes {
                let peer = peers[client as usize % peers.len()].clone();
                connections.push(Connection::new(peer, *lane, connections.len()));
            }
        }
        let thread = Self {
            shared,
            share: (number, threads),
            tell,
            sockets,
            down: (0..connections.len()).map(|token| (0, token)).collect(),
            clients,
            connections,
            opening: 0,
            scratch: Vec::with_capacity(256),
            free: VecDeque::new(),
            most: (0..shared.clients as usize).skip(number).step_by(threads.max(1)).count(),
            room_since: 0,
            thinking: BinaryHeap::new(),
            schedule: None,
            think: 0,
            phase: None,
            in_flight: 0,
            tally: Tally::new(&shared.workload),
            second: Second::new(0),
            excuse: transactions::Excuse::default(),
            last_trouble: None,
        };
        Ok((thread, why_not_ring))
    }

    /// Runs one phase to its end.
    fn phase(&mut self, phase: &Phase) -> Result<Tally, LoadError> {
        self.begin_phase(phase);
        let cpu = cpu_time();
        // Busy threads use all of their CPU: what they looked for in vain is not work.
        let (mut vain, mut idle_since) = (0, None);
        loop {
            let now = self.shared.now();
            vain += idle_since.take().map_or(0, |since| now - since);
            self.roll_second(now);
            self.open_some(now);
            let begun = self.tally.arrivals;
            let next = self.begin_due(now, phase);
            let stopped = phase.stop.load(Ordering::Relaxed);
            let over = now >= phase.end && self.in_flight == 0 && next.is_none();
            if over || now >= phase.grace || stopped {
                break;
            }
            let until = next.unwrap_or(u64::MAX).min(now + TICK).min(phase.grace);
            let until = if now < phase.end { until.min(phase.end) } else { until };
            let until = until.min(self.second_ends());
            let work = self.wait(until, now)?;
            idle_since = (self.shared.busy && !work && self.tally.arrivals == begun).then_some(now);
        }
        self.end_phase(phase);
        self.tally.cpu = cpu_time().saturating_sub(cpu).saturating_sub(vain);
        self.tally.wall = self.shared.now().min(phase.grace).saturating_sub(phase.start);
        Ok(std::mem::replace(&mut self.tally, Tally::new(&self.shared.workload)))
    }

    fn begin_phase(&mut self, phase: &Phase) {
        self.tally = Tally::new(&self.shared.workload);
        self.second = Second::new(0);
        self.phase = Some(phase.clone());
        self.thinking.clear();
        self.free.clear();
        self.room_since = phase.start;
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
            self.clients[place].queued = false;
            if self.is_free(place) {
                self.release(place, phase.start);
            }
        }
        self.engage(phase.start);
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
        self.tally.saturated_sends += self.sockets.saturated();
        self.phase = None;
        let over = std::mem::replace(&mut self.second, Second::new(0));
        let _ = self.tell.send(Message::Second(over));
    }
}

/// CPU time of this thread, in ns.
fn cpu_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}
