//! The transactions of a thread in a phase: begun when they are due and a client is free, taken step by step,
//! counted when they are over.

use super::client::Task;
use super::clients::Clients;
use super::connections::{ConnectionEvent, ConnectionLost, Connections};
use super::recorder::Recorder;
use super::thread::Share;
use super::{Message, Phase, Shared, cpu_time_ns};
use crate::arrivals::{Arrivals, Schedule};
use crate::counts::{Failure, PhaseCounts};
use crate::error::LoadError;
use crate::reply::Reply;
use crate::workload::{ClientDraws, Step};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// The loop looks at the clock at least this often.
const TICK_NS: u64 = 50_000_000;

/// A phase on one thread, from its beginning to its end.
pub(super) struct PhaseRun<'a> {
    shared: &'a Shared,
    phase: &'a Phase,
    connections: &'a mut Connections,
    clients: &'a mut Clients,
    starts: Starts,
    recorder: Recorder<'a>,
    messages: &'a Sender<Message>,
    /// Used again for each statement.
    scratch: Vec<u8>,
}

/// When transactions begin.
enum Starts {
    /// When a client is free, and has thought for this time.
    Closed {
        think_ns: u64,
    },
    Open(Schedule),
}

/// When the next transaction begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStart {
    At(u64),
    /// It is due, and nobody is free: the end of a transaction or of the phase comes next.
    Overdue,
    /// Nothing begins by itself any more.
    Never,
}

impl<'a> PhaseRun<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        phase: &'a Phase,
        share: Share,
        connections: &'a mut Connections,
        clients: &'a mut Clients,
        messages: &'a Sender<Message>,
    ) -> Self {
        let starts = match &phase.arrivals {
            Arrivals::Open(open) => {
                Starts::Open(Schedule::new(open, phase.seed.moments, share.number, share.threads))
            }
            Arrivals::Closed { think } => Starts::Closed { think_ns: think.as_nanos() as u64 },
        };
        let recorder = Recorder::new(phase, &shared.workload);
        let scratch = Vec::with_capacity(256);
        Self { shared, phase, connections, clients, starts, recorder, messages, scratch }
    }

    /// Runs it to its end.
    pub(super) fn run(mut self) -> Result<PhaseCounts, LoadError> {
        self.connections.take_counts();
        self.clients.begin_phase(self.phase.seed.keys, self.phase.start_ns, self.connections);
        // The moment of the start is in the future, so that all begin together.
        self.think(self.phase.start_ns);
        let cpu_ns = cpu_time_ns();
        // Busy threads use all of their CPU: what they looked for in vain is not work.
        let (mut vain_ns, mut idle_since_ns) = (0, None);
        loop {
            let now_ns = self.shared.now_ns();
            vain_ns += idle_since_ns.take().map_or(0, |since_ns| now_ns - since_ns);
            while let Some(second) = self.recorder.take_second(now_ns) {
                // If nobody listens any more, the run is being given up.
                let _ = self.messages.send(Message::Second(second));
            }
            self.connections.make_again(now_ns);
            let begun = self.recorder.arrivals();
            let next = self.begin_due(now_ns);
            let over = self.clients.in_flight() == 0 && next == NextStart::Never;
            let stopped = self.phase.stop.load(Ordering::Relaxed);
            if (now_ns >= self.phase.end_ns && over) || now_ns >= self.phase.grace_ns || stopped {
                break;
            }
            let work = self.wait(self.looks_again_at_ns(next, now_ns), now_ns)?;
            idle_since_ns =
                (self.shared.busy && !work && self.recorder.arrivals() == begun).then_some(now_ns);
        }
        let (shared, phase) = (self.shared, self.phase);
        let mut counts = self.end();
        counts.cpu_ns = cpu_time_ns().saturating_sub(cpu_ns).saturating_sub(vain_ns);
        counts.wall_ns = shared.now_ns().min(phase.grace_ns).saturating_sub(phase.start_ns);
        Ok(counts)
    }

    /// When the loop looks at the clock again if nothing happens.
    fn looks_again_at_ns(&self, next: NextStart, now_ns: u64) -> u64 {
        let mut until_ns = (now_ns + TICK_NS).min(self.phase.grace_ns).min(self.recorder.second_ends_ns());
        if let NextStart::At(at_ns) = next {
            until_ns = until_ns.min(at_ns);
        }
        if now_ns < self.phase.end_ns { until_ns.min(self.phase.end_ns) } else { until_ns }
    }

    /// Waits until a moment, and takes what happened; returns whether that was anything, or anything was
    /// sent.
    fn wait(&mut self, until_ns: u64, now_ns: u64) -> Result<bool, LoadError> {
        let longest_ns = if self.shared.busy { 0 } else { until_ns.saturating_sub(now_ns) };
        let work = self.connections.wait(Duration::from_nanos(longest_ns))?;
        while let Some(event) = self.connections.next_event() {
            let now_ns = self.shared.now_ns();
            match event {
                ConnectionEvent::Ready { client } => self.next(client, now_ns),
                ConnectionEvent::Reply { client, reply, read_late_ns } => {
                    self.replied(client, &reply, read_late_ns, now_ns);
                }
                ConnectionEvent::Lost { client } => self.lost(client, now_ns),
            }
        }
        Ok(work)
    }

    /// Counts what is left, and cuts the connections whose answers nobody waits for any more.
    fn end(self) -> PhaseCounts {
        let Self { phase, connections, clients, mut starts, mut recorder, .. } = self;
        let end_ns = self.shared.now_ns();
        for (client, task) in clients.abandon() {
            recorder.unfinished(&task, end_ns);
            connections.cut(client);
        }
        if let Starts::Open(schedule) = &mut starts {
            let due = std::iter::from_fn(|| schedule.take()).map(|arrival| phase.start_ns + arrival.at_ns);
            let until_ns = phase.end_ns.min(end_ns);
            due.take_while(|due_ns| *due_ns < until_ns)
                .for_each(|due_ns| recorder.not_started(due_ns, end_ns));
        }
        let (mut counts, second) = recorder.finish();
        (counts.reconnects, counts.saturated_sends) = connections.take_counts();
        let _ = self.messages.send(Message::Second(second));
        counts
    }

    /// In a closed loop, those whose turn it is begin to think.
    fn think(&mut self, now_ns: u64) {
        if let Starts::Closed { think_ns } = self.starts {
            self.clients.think(now_ns + think_ns, self.connections);
        }
    }

    /// Begins what is due; returns when the next is.
    fn begin_due(&mut self, mut now_ns: u64) -> NextStart {
        loop {
            let due_ns = match &self.starts {
                Starts::Closed { .. } => self.clients.thinks_until_ns(),
                Starts::Open(schedule) => schedule.peek().map(|next| self.phase.start_ns + next.at_ns),
            };
            let Some(due_ns) = due_ns.filter(|due_ns| *due_ns < self.phase.end_ns) else {
                return NextStart::Never;
            };
            match &mut self.starts {
                Starts::Closed { .. } if now_ns >= self.phase.end_ns => return NextStart::Never,
                _ if due_ns > now_ns => return NextStart::At(due_ns),
                Starts::Closed { .. } => match self.clients.take_thinker(self.connections) {
                    Some(client) => self.begin(client, due_ns, now_ns, None),
                    None => self.think(now_ns),
                },
                Starts::Open(schedule) => {
                    let Some(client) = self.clients.take_turn(self.connections) else {
                        return NextStart::Overdue;
                    };
                    let arrival = schedule.take().map(|arrival| arrival.number);
                    self.begin(client, due_ns, now_ns, arrival);
                    // The next of a burst begins later by what it took to send this one.
                    now_ns = self.shared.now_ns();
                }
            }
        }
    }

    fn begin(&mut self, number: usize, due_ns: u64, now_ns: u64, arrival: Option<u64>) {
        self.recorder.begun();
        let (mut lateness_ns, mut delay_ns) = (0, 0);
        let could_begin_ns = self.clients.could_begin_since_ns(number);
        let client = self.clients.at(number);
        if let Some(arrival) = arrival {
            client.reseed(self.phase.seed.keys, arrival);
            lateness_ns = now_ns.saturating_sub(due_ns.max(could_begin_ns));
            delay_ns = self.recorder.begun_late_by(lateness_ns, now_ns);
        }
        let task = Task {
            transaction: self.shared.workload.choose(&mut client.rng),
            step: 0,
            // In a closed loop nobody waits, so that the intended start is the actual one.
            due_ns: if arrival.is_some() { due_ns } else { now_ns },
            began_ns: now_ns,
            statement: 0,
            sent_ns: now_ns,
            delay_ns,
            own_ns: Some(lateness_ns),
            failed: false,
        };
        self.clients.begin(number, task);
        self.advance(number, now_ns);
    }

    /// Takes steps until a statement is out or the transaction is over.
    fn advance(&mut self, number: usize, now_ns: u64) {
        let shared = self.shared;
        let client = self.clients.at(number);
        let Some(task) = &mut client.task else { return };
        let mut draws = ClientDraws {
            rng: &mut client.rng,
            slots: &mut client.slots,
            client: (client.number, shared.connections),
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
                    task.sent_ns = now_ns;
                    let sent = self.connections.send(number, *statement, variant, &mut draws, now_ns);
                    if sent == Err(ConnectionLost) {
                        self.lost(number, now_ns);
                    }
                    return;
                }
            }
        }
        self.finish(number, now_ns, None);
    }

    /// Takes the answer to a client's statement, and by how much it was read late, where that is known.
    fn replied(&mut self, number: usize, reply: &Reply, read_late_ns: Option<u64>, now_ns: u64) {
        let client = self.clients.at(number);
        let Some(task) = &mut client.task else { return };
        // The stamp is of the wall clock: where that was set forward in between, an answer seems to have been
        // there before it was asked for.
        let since_sent_ns = now_ns.saturating_sub(task.sent_ns);
        task.own_ns = task.own_ns.zip(read_late_ns).map(|(own, late)| own + late.min(since_sent_ns));
        if task.failed && reply.error.is_some() {
            // A ROLLBACK that was refused.
            return self.finish(number, now_ns, None);
        }
        if !task.failed {
            self.recorder.answered(task, reply, now_ns);
        }
        if task.failed || reply.error.is_some() {
            task.failed = true;
            return match self.connections.roll_back(number, now_ns) {
                Ok(true) => {}
                Ok(false) => self.finish(number, now_ns, None),
                Err(ConnectionLost) => self.lost(number, now_ns),
            };
        }
        if reply.last_insert_id > 0 {
            client.last_insert_id = reply.last_insert_id;
        }
        self.advance(number, now_ns);
    }

    /// A connection of this client broke: its transaction has failed.
    fn lost(&mut self, number: usize, now_ns: u64) {
        if let Some(task) = self.clients.at(number).task {
            self.connections.cut_open(number);
            self.recorder.connection_lost(&task);
            self.finish(number, now_ns, Some(Failure::ConnectionLost));
        }
    }

    /// Counts a transaction that is over, and gives its client something new to do.
    fn finish(&mut self, number: usize, now_ns: u64, failure: Option<Failure>) {
        let Some(task) = self.clients.end(number, now_ns) else { return };
        match failure {
            _ if task.failed => {}
            Some(failure) => self.recorder.failed(&task, failure),
            None => self.recorder.done(&task, now_ns),
        }
        if failure == Some(Failure::ConnectionLost) {
            // Not begun from here: with a dead server that would go through all connections, each inside the
            // other.
            return self.think(now_ns);
        }
        self.next(number, now_ns);
    }

    /// What comes next, now that a client may have become free. A closed loop without think time goes on at
    /// once.
    fn next(&mut self, number: usize, now_ns: u64) {
        self.clients.release(number, now_ns, self.connections);
        match self.starts {
            Starts::Closed { think_ns: 0 } if now_ns < self.phase.end_ns => {
                if let Some(number) = self.clients.take_turn(self.connections) {
                    self.begin(number, now_ns, now_ns, None);
                }
            }
            Starts::Closed { think_ns: 0 } => {}
            _ => self.think(now_ns),
        }
    }
}
