//! What all clients of a soak share: where to go, what to compare with, what is counted, and what has gone
//! wrong so far.

use super::blame::{How, Lapse, Sort, sort};
use super::client::Kind;
use super::question::Answers;
use mysql_async::OptsBuilder;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Failures that are kept in full; the rest is counted.
const KEPT: usize = 5000;

/// Shared by all clients.
#[derive(Debug)]
pub(super) struct ClientPool {
    pub(super) reader: OptsBuilder,
    pub(super) writer: OptsBuilder,
    pub(super) answers: Answers,
    /// Servers' names by the address they bind.
    pub(super) names: HashMap<String, String>,
    /// Between two statements of a client of weight one.
    pub(super) interval: Duration,
    pub(super) seed: u64,
    pub(super) stop: CancellationToken,
    pub(super) counts: Counts,
    started: Instant,
    lapses: Mutex<Vec<Lapse>>,
    failures: Mutex<Vec<Failure>>,
    slowest: Mutex<Slowest>,
}

/// What has been done, all clients together.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) sessions: AtomicU64,
    pub(super) statements: AtomicU64,
    pub(super) transactions: AtomicU64,
    pub(super) wrong: AtomicU64,
    by_fault: AtomicU64,
    moved: AtomicU64,
    unexplained: AtomicU64,
}

/// The same at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Totals {
    pub(super) sessions: u64,
    pub(super) statements: u64,
    pub(super) transactions: u64,
    /// Result sets whose checksum was another one.
    pub(super) wrong: u64,
    /// Failures by sort.
    pub(super) by_fault: u64,
    pub(super) moved: u64,
    pub(super) unexplained: u64,
}

/// One failure.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Failure {
    /// When all was well last.
    pub(super) since_s: f64,
    pub(super) at_s: f64,
    pub(super) kind: Kind,
    pub(super) server: Option<String>,
    pub(super) how: How,
    pub(super) sort: Sort,
    pub(super) text: String,
}

/// The statements that took longest.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Slowest {
    /// Of all.
    pub(super) any: Option<Slow>,
    /// Of those whose server had no fault meanwhile.
    pub(super) undisturbed: Option<Slow>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Slow {
    pub(super) seconds: f64,
    pub(super) at_s: f64,
    pub(super) server: String,
    pub(super) what: String,
}

impl ClientPool {
    pub(super) fn new(
        [reader, writer]: [OptsBuilder; 2],
        answers: Answers,
        names: HashMap<String, String>,
        interval: Duration,
        seed: u64,
    ) -> Self {
        Self {
            reader,
            writer,
            answers,
            names,
            interval,
            seed,
            stop: CancellationToken::new(),
            counts: Counts::default(),
            started: Instant::now(),
            lapses: Mutex::default(),
            failures: Mutex::default(),
            slowest: Mutex::default(),
        }
    }

    /// Seconds since the start.
    pub(super) fn now(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    pub(super) fn begin(&self, server: &str, what: &'static str) {
        let (server, began_s) = (server.to_owned(), self.now());
        let lapse = Lapse { server, what, began_s, struck_s: None, ended_s: None };
        held(&self.lapses).push(lapse);
    }

    /// The last fault that began is in force.
    pub(super) fn struck(&self) {
        let now = self.now();
        if let Some(lapse) = held(&self.lapses).last_mut() {
            lapse.struck_s = Some(now);
        }
    }

    /// The last fault that began is over.
    pub(super) fn end(&self) {
        let now = self.now();
        if let Some(lapse) = held(&self.lapses).last_mut() {
            lapse.ended_s = Some(now);
        }
    }

    pub(super) fn lapses(&self) -> Vec<Lapse> {
        held(&self.lapses).clone()
    }

    pub(super) fn failures(&self) -> Vec<Failure> {
        held(&self.failures).clone()
    }

    pub(super) fn slowest(&self) -> Slowest {
        held(&self.slowest).clone()
    }

    /// Something failed that had been well at `since_s`.
    pub(super) fn failed(&self, kind: Kind, server: Option<&str>, how: How, since_s: f64, text: String) {
        let at_s = self.now();
        let sort = sort(how, server, since_s, at_s, &held(&self.lapses));
        let counts = &self.counts;
        let count = match sort {
            Sort::Fault => &counts.by_fault,
            Sort::Moved => &counts.moved,
            Sort::Unexplained => &counts.unexplained,
        };
        count.fetch_add(1, Relaxed);
        let mut failures = held(&self.failures);
        // What nothing explains is kept whatever else there is.
        if failures.len() < KEPT || (sort == Sort::Unexplained && failures.len() < 2 * KEPT) {
            let server = server.map(str::to_owned);
            failures.push(Failure { since_s, at_s, kind, server, how, sort, text });
        }
    }

    /// A statement was answered; `what` is made only for the slowest.
    pub(super) fn took(&self, server: &str, began_s: f64, what: impl Fn() -> String) {
        let at_s = self.now();
        let seconds = at_s - began_s;
        let mut slowest = held(&self.slowest);
        let more = |slow: &Option<Slow>| slow.as_ref().is_none_or(|slow| seconds > slow.seconds);
        let (any, undisturbed) = (more(&slowest.any), more(&slowest.undisturbed));
        if !any && !undisturbed {
            return;
        }
        let slow = Slow { seconds, at_s, server: server.to_owned(), what: what() };
        let lapses = held(&self.lapses);
        if undisturbed && sort(How::Silent, Some(server), began_s, at_s, &lapses) != Sort::Fault {
            slowest.undisturbed = Some(slow.clone());
        }
        if any {
            slowest.any = Some(slow);
        }
    }

    pub(super) fn counted(&self) -> Totals {
        let counts = &self.counts;
        Totals {
            sessions: counts.sessions.load(Relaxed),
            statements: counts.statements.load(Relaxed),
            transactions: counts.transactions.load(Relaxed),
            wrong: counts.wrong.load(Relaxed),
            by_fault: counts.by_fault.load(Relaxed),
            moved: counts.moved.load(Relaxed),
            unexplained: counts.unexplained.load(Relaxed),
        }
    }
}

/// A client that panicked leaves nothing half written here.
fn held<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
