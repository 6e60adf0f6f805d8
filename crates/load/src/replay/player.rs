//! Player: one thread's sessions, and the loop that sends what is due.

use super::live::{Got, Live, Stage};
use super::{Common, Part, Took};
use crate::driver::poll::Poll;
use crate::error::LoadError;
use rustix::time::{ClockId, clock_gettime};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Read from a socket at once, at most.
const BUFFER: usize = 64 * 1024;
/// Connections in the making at once, before the first command is due: more would overflow the server's backlog.
const AT_ONCE: usize = 16;
/// Sessions that were there before have so long to be.
const CONNECT: Duration = Duration::from_secs(30);
/// A session is opened this long before it has to be logged in.
const AHEAD: u64 = 100_000_000;
/// The loop looks at the clock at least this often.
const TICK: u64 = 50_000_000;

/// One thread's part of a replay.
pub(super) struct Player<'a> {
    common: &'a Common<'a>,
    poll: Poll,
    lives: Vec<Live<'a>>,
    /// When something is due for which session; at most one entry each.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    /// Sessions that have not ended.
    open: usize,
    start: Instant,
    buffer: Vec<u8>,
    part: Part,
}

impl<'a> Player<'a> {
    /// Takes every so-manieth session, and opens those that are there from the beginning.
    pub(super) fn connect(
        common: &'a Common<'a>,
        (number, threads): (usize, usize),
    ) -> Result<Self, LoadError> {
        // 50 us of slack, the default, would make every arrival late.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mine = common.script.sessions.iter().skip(number).step_by(threads);
        // A session of which nothing is sent is not opened.
        let mine = mine.filter(|session| !session.steps.is_empty()).enumerate();
        let lives: Vec<_> =
            mine.map(|(at, session)| Live::new(session, at as u64, common.plan.read_only)).collect();
        let mut player = Self {
            common,
            poll: Poll::new()?,
            open: lives.len(),
            lives,
            due: BinaryHeap::new(),
            start: Instant::now(),
            buffer: vec![0; BUFFER],
            part: Part::default(),
        };
        player.connect_first()?;
        Ok(player)
    }

    fn connect_first(&mut self) -> Result<(), LoadError> {
        let first = |live: &Live<'_>| live.script.at_us == 0;
        let clients = self.lives.iter().filter(|live| first(live)).count();
        let deadline = Instant::now() + CONNECT;
        loop {
            let ready = self.lives.iter().filter(|live| matches!(live.stage, Stage::Ready)).count();
            if let Some(why) = self.part.lost.keys().next() {
                let address = self.common.peer.address.clone();
                return Err(LoadError::Login { address, what: why.clone() });
            }
            if ready == clients {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(LoadError::NotReady { ready, clients, seconds: CONNECT.as_secs() });
            }
            let connecting = self.lives.iter().filter(|live| live.is_connecting()).count();
            let down = |at: &usize| first(&self.lives[*at]) && matches!(self.lives[*at].stage, Stage::Down);
            let next: Vec<usize> =
                (0..self.lives.len()).filter(down).take(AT_ONCE.saturating_sub(connecting)).collect();
            for at in next {
                self.open(at);
            }
            self.wait(Duration::from_nanos(TICK))?;
        }
    }

    /// Sends everything from `start` on.
    pub(super) fn play(&mut self, start: Instant) -> Result<Part, LoadError> {
        self.start = start;
        while let Some(wait) = start.checked_duration_since(Instant::now()).filter(|wait| !wait.is_zero()) {
            self.wait(wait)?;
        }
        let cpu = cpu_time();
        for at in 0..self.lives.len() {
            self.lives[at].free_since = 0;
            match self.lives[at].stage {
                Stage::Ready => self.advance(at),
                Stage::Down => {
                    let opens = self.moment(self.lives[at].script.at_us).saturating_sub(AHEAD);
                    self.due.push(Reverse((opens, at)));
                }
                _ => {}
            }
        }
        let last = self.moment(self.common.script.length_us);
        let patience = last + self.common.plan.grace.as_nanos() as u64;
        while self.open > 0 && !self.common.stop.load(Relaxed) {
            let now = self.now();
            if now > patience {
                break;
            }
            while let Some(Reverse((moment, at))) = self.due.peek().copied() {
                if moment > now {
                    break;
                }
                self.due.pop();
                match self.lives[at].stage {
                    Stage::Down => self.open(at),
                    _ => self.advance(at),
                }
            }
            let next = self.due.peek().map_or(u64::MAX, |Reverse((moment, _))| *moment).min(now + TICK);
            self.wait(Duration::from_nanos(next.saturating_sub(self.now())))?;
        }
        self.end();
        self.part.cpu = cpu_time().saturating_sub(cpu);
        Ok(std::mem::take(&mut self.part))
    }

    fn end(&mut self) {
        for at in 0..self.lives.len() {
            if !matches!(self.lives[at].stage, Stage::Over) {
                let why = match self.lives[at].stage {
                    Stage::Busy { .. } => Some("a command was not answered in time"),
                    Stage::Ready if self.lives[at].next == self.lives[at].script.steps.len() => None,
                    _ => Some("the end came before its last command"),
                };
                self.lives[at].close(&self.poll);
                if let Some(why) = why {
                    self.lost(why.to_owned());
                }
            }
        }
    }

    /// Nanoseconds since the start; 0 before it.
    fn now(&self) -> u64 {
        Instant::now().saturating_duration_since(self.start).as_nanos() as u64
    }

    /// When what was recorded at this moment is due, in nanoseconds since the start.
    fn moment(&self, recorded_us: u64) -> u64 {
        (recorded_us as f64 * 1e3 / self.common.plan.speed) as u64
    }

    fn open(&mut self, at: usize) {
        if let Err(why) = self.lives[at].open(&self.common.peer, &self.poll) {
            self.fail(at, why);
        }
    }

    /// A session has nothing out: its next step is sent if it is due, else waited for; after the last it ends as it did.
    fn advance(&mut self, at: usize) {
        while matches!(self.lives[at].stage, Stage::Ready) {
            if !self.lives[at].setup.is_empty() {
                match self.lives[at].go_on(&self.poll) {
                    Ok(_) => return,
                    Err(why) => return self.fail(at, why),
                }
            }
            let script = self.lives[at].script;
            let Some(&number) = script.steps.get(self.lives[at].next) else {
                return self.finish(at);
            };
            let step = &self.common.script.steps[number as usize];
            let (due, now) = (self.moment(step.at_us), self.now());
            if due > now {
                return self.due.push(Reverse((due, at)));
            }
            match self.lives[at].send((number, step), (due, now), &self.poll) {
                Ok(None) => return,
                Ok(Some(took)) => self.took(number, took),
                Err(why) => return self.fail(at, why),
            }
        }
    }

    /// All its steps are done.
    fn finish(&mut self, at: usize) {
        let closes = self.lives[at].script.closed_us.map(|closed| self.moment(closed));
        match closes {
            Some(closes) if closes > self.now() => self.due.push(Reverse((closes, at))),
            _ => {
                self.lives[at].close(&self.poll);
                self.open -= 1;
            }
        }
    }

    fn took(&mut self, step: u32, took: Took) {
        self.common.done.fetch_add(1, Relaxed);
        self.common.failed.fetch_add(u64::from(took.error.is_some()), Relaxed);
        self.part.took.push((step, took));
        self.part.ended = self.now();
    }

    fn fail(&mut self, at: usize, why: String) {
        self.lives[at].stage = Stage::Over;
        self.lives[at].close(&self.poll);
        self.open -= 1;
        self.lost(why);
    }

    fn lost(&mut self, why: String) {
        *self.part.lost.entry(why).or_default() += 1;
    }

    /// Waits for sockets, and takes what they brought.
    fn wait(&mut self, longest: Duration) -> Result<(), LoadError> {
        let count = self.poll.wait(longest)?;
        for n in 0..count {
            let happened = self.poll.happened(n);
            let at = happened.token as usize;
            if happened.writable
                && let Err(why) = self.lives[at].writable(&self.poll, self.common)
            {
                self.fail(at, why);
            }
            if happened.readable {
                self.read(at);
            }
        }
        Ok(())
    }

    fn read(&mut self, at: usize) {
        if matches!(self.lives[at].stage, Stage::Over | Stage::Down | Stage::Connecting) {
            return;
        }
        let (start, common) = (self.start, self.common);
        let now = || Instant::now().saturating_duration_since(start).as_nanos() as u64;
        match self.lives[at].readable(&self.poll, common, &mut self.buffer, now) {
            Ok(Got::Nothing) => {}
            Ok(Got::Ready) => self.advance_if_begun(at),
            Ok(Got::Answered(step, took)) => {
                let recorded = common.script.steps[step as usize].recorded;
                let number = recorded.and_then(|answer| answer.prepared);
                if let (None, Some(number)) = (took.error, number) {
                    self.lives[at].prepared.recorded(number);
                }
                self.took(step, took);
                self.advance(at);
            }
            Err(why) => self.fail(at, why),
        }
    }

    /// Before the start, whoever is ready waits for it.
    fn advance_if_begun(&mut self, at: usize) {
        if self.lives[at].script.at_us > 0 || self.lives[at].next > 0 {
            self.advance(at);
        }
    }
}

/// CPU time of this thread, nanoseconds.
fn cpu_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
