//! A simulated buffer pool: what it holds grows by what it misses, as fast as its disk is.

use fleet::heat::{PoolCounters, PoolLoad};
use std::time::{Duration, Instant};

/// Pages that a statement reads. The upper pages of an index are few, and there again at once; these many are
/// spread over all pages of the data.
const READS: f64 = 5.0;
const SPREAD: f64 = 1.5;
const PAGES: f64 = 40_000.0;
/// Pages a second that the disk can read, and what one takes it while nothing waits.
const DISK: f64 = 2_000.0;
const DISK_MS: f64 = 0.5;

pub(super) struct BufferPool {
    /// The share of the pages that is there.
    held: f64,
    up_s: f64,
    requests: f64,
    misses: f64,
    /// Pages that wait for the disk.
    waiting: f64,
}

impl BufferPool {
    pub(super) fn warm() -> Self {
        Self { held: 1.0, up_s: 10_000.0, requests: 1e9, misses: 1e6, waiting: 0.0 }
    }

    pub(super) fn cold() -> Self {
        Self { held: 0.0, up_s: 0.0, requests: 0.0, misses: 0.0, waiting: 0.0 }
    }

    pub(super) fn held(&self) -> f64 {
        self.held
    }

    fn missed_by(&self, statements: f64) -> f64 {
        statements * SPREAD * (1.0 - self.held)
    }

    /// Some time with this many statements a second.
    pub(super) fn serve(&mut self, statements: f64, seconds: f64) {
        self.up_s += seconds;
        let wanted = self.missed_by(statements) * seconds + self.waiting;
        let read = wanted.min(DISK * seconds);
        // Clients wait for answers: no more than two seconds' worth stands in line.
        self.waiting = (wanted - read).min(2.0 * DISK);
        self.requests += statements * READS * seconds;
        self.misses += read;
        self.held = (self.held + read / PAGES).min(1.0);
    }

    /// What statements wait for the disk, on average.
    pub(super) fn wait_ms(&self, statements: f64) -> f64 {
        let each = SPREAD * (1.0 - self.held);
        let busy = (self.missed_by(statements) / DISK).min(0.95);
        each * (DISK_MS / (1.0 - busy) + 1000.0 * self.waiting / DISK)
    }

    pub(super) fn counters(&self, at: Instant) -> PoolCounters {
        let (requests, misses) = (self.requests as u64, self.misses as u64);
        PoolCounters { at, up: Duration::from_secs_f64(self.up_s), requests, misses, load: PoolLoad::None }
    }
}
