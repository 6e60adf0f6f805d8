//! Counts over sliding windows, from a total that only grows: a ring of totals, one a step, whose length is
//! fixed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Totals kept at most, whatever the windows are.
const MOST: usize = 4096;

/// The totals of the past.
#[derive(Clone, Debug)]
pub struct Windows {
    /// Two kept totals are at least so far apart.
    step: Duration,
    /// Older ones are of no use.
    longest: Duration,
    /// Moment, good, all; oldest first.
    kept: VecDeque<(Instant, u64, u64)>,
    newest: Option<(Instant, u64, u64)>,
}

impl Windows {
    /// For windows up to `longest`.
    pub fn new(step: Duration, longest: Duration) -> Self {
        let step = step.max(longest / (MOST as u32 - 2));
        Self { step, longest, kept: VecDeque::new(), newest: None }
    }

    /// The totals now. Smaller ones than before mean that counting began anew.
    pub fn add(&mut self, now: Instant, good: u64, all: u64) {
        let good = good.min(all);
        if self.newest.is_some_and(|(_, before_good, before_all)| {
            all < before_all || good < before_good || all - before_all < good - before_good
        }) {
            self.kept.clear();
        }
        self.newest = Some((now, good, all));
        let last = self.kept.back().map(|(at, _, _)| *at);
        if last.is_none_or(|at| now.saturating_duration_since(at) >= self.step) {
            self.kept.push_back((now, good, all));
        }
        // The newest of those that are too old is where the longest window begins.
        while self.kept.get(1).is_some_and(|(at, _, _)| now.saturating_duration_since(*at) >= self.longest) {
            self.kept.pop_front();
        }
    }

    /// Good ones and all of the last `window`, and how much of it there is a past of, 0 to 1; `None` before
    /// there is any.
    pub fn over(&self, now: Instant, window: Duration) -> Option<(u64, u64, f64)> {
        let (_, good, all) = self.newest?;
        let old_enough = |(at, _, _): &&(Instant, u64, u64)| now.saturating_duration_since(*at) >= window;
        let (from, from_good, from_all) = self.kept.iter().rev().find(old_enough).or(self.kept.front())?;
        let past = now.saturating_duration_since(*from).as_secs_f64() / window.as_secs_f64().max(1e-9);
        Some((good - from_good, all - from_all, past.min(1.0)))
    }

    /// Totals kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}
