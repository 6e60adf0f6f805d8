//! One thread's sessions, and the loop that sends what is due.

use super::connection::{Progress, ReplayConnection, State};
use super::prepared::REFUSED;
use super::{CommandOutcome, ReplayContext, ThreadResult};
use crate::driver::epoll::Epoll;
use crate::driver::{ConnectionError, cpu_time_ns};
use crate::error::LoadError;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use wire::Command;

/// Read from a socket at once, at most.
const BUFFER: usize = 64 * 1024;
/// Connections in the making at once, before the first command is due: more would overflow the server's
/// backlog.
const AT_ONCE: usize = 16;
/// Sessions that were there before are connected within this time.
const CONNECT: Duration = Duration::from_secs(30);
/// A session is opened this long before it has to be logged in.
const AHEAD_NS: u64 = 100_000_000;
/// The loop looks at the clock at least this often.
const TICK_NS: u64 = 50_000_000;

/// One thread's part of a replay.
pub(super) struct Player<'a> {
    context: &'a ReplayContext<'a>,
    epoll: Epoll,
    connections: Vec<ReplayConnection<'a>>,
    /// When something is due for which session; at most one entry each.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    /// Sessions that have not ended.
    open: usize,
    /// Why the first session was lost, if one was.
    first_error: Option<ConnectionError>,
    start: Instant,
    buffer: Vec<u8>,
    result: ThreadResult,
}

impl<'a> Player<'a> {
    /// Takes every n-th session, with n threads, and opens those that are there from the beginning.
    pub(super) fn connect(
        context: &'a ReplayContext<'a>,
        (number, threads): (usize, usize),
    ) -> Result<Self, LoadError> {
        // 50 us of slack, the default, would make every arrival late.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mine = context.script.sessions.iter().skip(number).step_by(threads);
        // A session that sends nothing is not opened.
        let mine = mine.filter(|session| !session.steps.is_empty()).enumerate();
        let connections: Vec<_> = mine
            .map(|(at, session)| ReplayConnection::new(session, at as u64, context.plan.read_only))
            .collect();
        let mut player = Self {
            context,
            epoll: Epoll::new()?,
            open: connections.len(),
            first_error: None,
            connections,
            due: BinaryHeap::new(),
            start: Instant::now(),
            buffer: vec![0; BUFFER],
            result: ThreadResult::default(),
        };
        player.connect_first()?;
        Ok(player)
    }

    fn connect_first(&mut self) -> Result<(), LoadError> {
        let first = |connection: &ReplayConnection<'_>| connection.script.at_us == 0;
        let clients = self.connections.iter().filter(|connection| first(connection)).count();
        let deadline = Instant::now() + CONNECT;
        loop {
            let ready =
                self.connections.iter().filter(|connection| matches!(connection.state, State::Ready)).count();
            if let Some(error) = self.first_error.take() {
                return Err(error.at(self.context.peer.address.clone()));
            }
            if ready == clients {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(LoadError::NotReady { ready, clients, seconds: CONNECT.as_secs() });
            }
            let connecting = self.connections.iter().filter(|connection| connection.is_connecting()).count();
            let down = |at: &usize| {
                first(&self.connections[*at]) && matches!(self.connections[*at].state, State::Down)
            };
            let next: Vec<usize> =
                (0..self.connections.len()).filter(down).take(AT_ONCE.saturating_sub(connecting)).collect();
            for at in next {
                self.open(at);
            }
            self.wait(Duration::from_nanos(TICK_NS))?;
        }
    }

    /// Sends everything from `start` on.
    pub(super) fn play(&mut self, start: Instant) -> Result<ThreadResult, LoadError> {
        self.start = start;
        while let Some(wait) = start.checked_duration_since(Instant::now()).filter(|wait| !wait.is_zero()) {
            self.wait(wait)?;
        }
        let cpu_ns = cpu_time_ns();
        for at in 0..self.connections.len() {
            self.connections[at].free_since_ns = 0;
            match self.connections[at].state {
                State::Ready => self.advance(at),
                State::Down => {
                    let opens_ns = self.moment_ns(self.connections[at].script.at_us).saturating_sub(AHEAD_NS);
                    self.due.push(Reverse((opens_ns, at)));
                }
                _ => {}
            }
        }
        let last_ns = self.moment_ns(self.context.script.length_us);
        let patience_ns = last_ns + self.context.plan.grace.as_nanos() as u64;
        while self.open > 0 && !self.context.stop.load(Relaxed) {
            let now_ns = self.now_ns();
            if now_ns > patience_ns {
                break;
            }
            while let Some(Reverse((moment_ns, at))) = self.due.peek().copied() {
                if moment_ns > now_ns {
                    break;
                }
                self.due.pop();
                match self.connections[at].state {
                    State::Down => self.open(at),
                    _ => self.advance(at),
                }
            }
            let tick_ns = now_ns + TICK_NS;
            let next_ns = self.due.peek().map_or(tick_ns, |Reverse((moment_ns, _))| tick_ns.min(*moment_ns));
            self.wait(Duration::from_nanos(next_ns.saturating_sub(self.now_ns())))?;
        }
        self.end();
        self.result.cpu_ns = cpu_time_ns().saturating_sub(cpu_ns);
        Ok(std::mem::take(&mut self.result))
    }

    fn end(&mut self) {
        for at in 0..self.connections.len() {
            if !matches!(self.connections[at].state, State::Over) {
                let why = match self.connections[at].state {
                    State::Busy { .. } => Some("a command was not answered in time"),
                    State::Ready if self.connections[at].next == self.connections[at].script.steps.len() => {
                        None
                    }
                    _ => Some("the end came before its last command"),
                };
                self.connections[at].close(&self.epoll);
                if let Some(why) = why {
                    self.lost(why.to_owned());
                }
            }
        }
    }

    /// Nanoseconds since the start; 0 before it.
    fn now_ns(&self) -> u64 {
        Instant::now().saturating_duration_since(self.start).as_nanos() as u64
    }

    /// When what was recorded at this moment is due, in nanoseconds since the start.
    fn moment_ns(&self, recorded_us: u64) -> u64 {
        (recorded_us as f64 * 1e3 / self.context.plan.speed) as u64
    }

    fn open(&mut self, at: usize) {
        if let Err(error) = self.connections[at].open(&self.context.peer, &self.epoll) {
            self.fail(at, error);
        }
    }

    /// A session has nothing out: its next step is sent if it is due, else waited for; after the last it ends
    /// as it did.
    fn advance(&mut self, at: usize) {
        while matches!(self.connections[at].state, State::Ready) {
            if !self.connections[at].setup.is_empty() {
                let now_ns = self.now_ns();
                match self.connections[at].go_on(&self.epoll, now_ns) {
                    Ok(_) => return,
                    Err(error) => return self.fail(at, error),
                }
            }
            let script = self.connections[at].script;
            let Some(&number) = script.steps.get(self.connections[at].next) else {
                return self.finish(at);
            };
            let step = &self.context.script.steps[number as usize];
            let (due_ns, now_ns) = (self.moment_ns(step.at_us), self.now_ns());
            if due_ns > now_ns {
                return self.due.push(Reverse((due_ns, at)));
            }
            match self.connections[at].send((number, step), (due_ns, now_ns), &self.epoll) {
                Ok(None) => return,
                Ok(Some(outcome)) => self.record(number, outcome),
                Err(error) => return self.fail(at, error),
            }
        }
    }

    /// All its steps are done.
    fn finish(&mut self, at: usize) {
        let closes = self.connections[at].script.closed_us.map(|closed| self.moment_ns(closed));
        match closes {
            Some(closes_ns) if closes_ns > self.now_ns() => self.due.push(Reverse((closes_ns, at))),
            _ => {
                self.connections[at].close(&self.epoll);
                self.open -= 1;
            }
        }
    }

    fn record(&mut self, step: u32, outcome: CommandOutcome) {
        self.context.done.fetch_add(1, Relaxed);
        self.context.failed.fetch_add(u64::from(outcome.error.is_some()), Relaxed);
        self.result.outcomes.push((step, outcome));
        self.result.ended_ns = self.now_ns();
    }

    fn fail(&mut self, at: usize, error: ConnectionError) {
        self.connections[at].state = State::Over;
        self.connections[at].close(&self.epoll);
        self.open -= 1;
        self.lost(error.to_string());
        self.first_error.get_or_insert(error);
    }

    fn lost(&mut self, why: String) {
        *self.result.lost.entry(why).or_default() += 1;
    }

    /// Waits for sockets, and takes what they brought.
    fn wait(&mut self, longest: Duration) -> Result<(), LoadError> {
        let count = self.epoll.wait(longest)?;
        for n in 0..count {
            let ready = self.epoll.ready(n);
            let at = ready.token as usize;
            if ready.writable
                && let Err(error) = self.connections[at].writable(&self.epoll, self.context)
            {
                self.fail(at, error);
            }
            if ready.readable {
                self.read(at);
            }
        }
        Ok(())
    }

    fn read(&mut self, at: usize) {
        if matches!(self.connections[at].state, State::Over | State::Down | State::Connecting) {
            return;
        }
        let (start, context) = (self.start, self.context);
        let now_ns = || Instant::now().saturating_duration_since(start).as_nanos() as u64;
        match self.connections[at].readable(&self.epoll, context, &mut self.buffer, now_ns) {
            Ok(Progress::Nothing) => {}
            Ok(Progress::Ready) => self.advance_if_begun(at),
            Ok(Progress::Answered(step, outcome)) => {
                let sent = &context.script.steps[step as usize];
                let prepared = &mut self.connections[at].prepared;
                if sent.command == Command::StmtPrepare && outcome.error.is_some() {
                    prepared.last(REFUSED);
                }
                if let Some(number) = sent.recorded.and_then(|answer| answer.prepared) {
                    prepared.recorded(number);
                }
                self.record(step, outcome);
                self.advance(at);
            }
            Err(error) => self.fail(at, error),
        }
    }

    /// Before the start, whoever is ready waits for it.
    fn advance_if_begun(&mut self, at: usize) {
        if self.connections[at].script.at_us > 0 || self.connections[at].next > 0 {
            self.advance(at);
        }
    }
}
