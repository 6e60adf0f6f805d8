//! A simulated buffer pool: what it holds grows by what it misses, as fast as its disk is.

use fleet::heat::{PoolCounters, PoolLoad};
use std::time::{Duration, Instant};

/// Pages that a statement reads. The upper pages of an index are few, and there again at once.
const READS: f64 = 5.0;
/// Page reads of a server itself after its start, a second and for how long; they miss nothing.
const OWN_READS: f64 = 3_000.0;
const OWN_READS_S: f64 = 3.0;

/// What a cold pool costs.
#[derive(Clone, Copy)]
pub(super) struct Disk {
    /// Pages that a statement reads spread over all pages of the data, and how many these are.
    spread: f64,
    pages: f64,
    /// Pages a second that the disk can read, and what one takes it while nothing waits.
    per_s: f64,
    pub(super) each_ms: f64,
}

impl Disk {
    /// A third of all statements on a cold pool want twice what it can read.
    pub(super) const SLOW: Self = Self { spread: 1.5, pages: 40_000.0, per_s: 2_000.0, each_ms: 0.5 };
    /// It can read what a third of all statements want, and a statement hardly notices.
    pub(super) const FAST: Self = Self { spread: 1.0, pages: 48_000.0, per_s: 3_900.0, each_ms: 0.05 };
}

pub(super) struct BufferPool {
    disk: Disk,
    /// The share of the pages that is there.
    held: f64,
    up_s: f64,
    requests: f64,
    misses: f64,
    /// Pages that wait for the disk.
    waiting: f64,
}

impl BufferPool {
    pub(super) fn warm(disk: Disk) -> Self {
        Self { disk, held: 1.0, up_s: 10_000.0, requests: 1e9, misses: 1e6, waiting: 0.0 }
    }

    /// Nothing is there any more.
    pub(super) fn restart(&mut self) {
        *self = Self { held: 0.0, up_s: 0.0, requests: 0.0, misses: 0.0, ..Self::warm(self.disk) };
    }

    pub(super) fn held(&self) -> f64 {
        self.held
    }

    fn missed_by(&self, statements: f64) -> f64 {
        statements * self.disk.spread * (1.0 - self.held)
    }

    /// Some time with this many statements a second.
    pub(super) fn serve(&mut self, statements: f64, seconds: f64) {
        self.up_s += seconds;
        let wanted = self.missed_by(statements) * seconds + self.waiting;
        let read = wanted.min(self.disk.per_s * seconds);
        // Clients wait for answers: no more than two seconds' worth stands in line.
        self.waiting = (wanted - read).min(2.0 * self.disk.per_s);
        let own = if self.up_s <= OWN_READS_S { OWN_READS } else { 0.0 };
        self.requests += (statements * READS + own) * seconds;
        self.misses += read;
        self.held = (self.held + read / self.disk.pages).min(1.0);
    }

    /// What statements wait for the disk, on average.
    pub(super) fn wait_ms(&self, statements: f64) -> f64 {
        let Disk { spread, per_s, each_ms, .. } = self.disk;
        let each = spread * (1.0 - self.held);
        let busy = (self.missed_by(statements) / per_s).min(0.95);
        each * (each_ms / (1.0 - busy) + 1000.0 * self.waiting / per_s)
    }

    pub(super) fn counters(&self, at: Instant) -> PoolCounters {
        let (requests, misses) = (self.requests as u64, self.misses as u64);
        PoolCounters { at, up: Duration::from_secs_f64(self.up_s), requests, misses, load: PoolLoad::None }
    }
}
