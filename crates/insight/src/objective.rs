//! Objectives: whether a promise about statements ("99 % within 15 ms") is being broken badly enough to tell
//! a person.
//!
//! The method is the multiwindow, multi-burn-rate alert of the SRE workbook (Beyer and others, *The Site
//! Reliability Workbook*, chapter 5, "Alerting on SLOs", <https://sre.google/workbook/alerting-on-slos/>,
//! method 6).
//!
//! With `b` the share of bad statements in a window and `1 - s` the share that may be bad, the *burn rate* is
//! `b / (1 - s)`: 1 spends the budget exactly in its time, 14.4 spends 2 % of thirty days' budget in an hour.
//! An incident opens when the burn rate of a long window **and** that of its last twelfth are above a limit:
//! the long one says that it matters, the short one that it is still so. There are two such pairs: fast (an
//! hour, 14.4) and slow (six hours, 6). Two things are ours: the slow pair opens nothing while the shortest
//! window of all is calm, and what came before the start counts as good.
//!
//! Worked example: 99 % within 15 ms, 100 statements a second, and from some moment on each takes 40 ms.
//! After five minutes 300 s x 100 of an hour's 360,000 are bad: 8.3 %, a burn rate of 8.3. After 8 min 38 s
//! it is 14.4, and the last five minutes have 100: the incident opens.
//!
//! [`burn`] counts, [`incident`] keeps an incident from flapping. Nothing here has a clock or a socket.

pub mod burn;
pub mod incident;

use burn::Windows;
use config::Objective;
pub use incident::Pace;
use incident::{Book, Change};
use std::time::{Duration, Instant};

/// A short window is this part of its long one.
pub const PART: u32 = 12;
/// Fewer statements in a long window are too few to judge by.
pub const LEAST: u64 = 20;

/// Burn rates at a moment; `None` where nothing, or too little, was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Burning {
    /// Over the fast window.
    pub fast: Option<f64>,
    /// Over its last twelfth.
    pub fast_short: Option<f64>,
    /// Over the slow window.
    pub slow: Option<f64>,
    /// Over its last twelfth.
    pub slow_short: Option<f64>,
}

#[derive(Debug)]
pub struct Tracked {
    objective: Objective,
    windows: Windows,
    book: Book,
    burning: Burning,
}

impl Tracked {
    pub fn new(objective: Objective) -> Self {
        // A short window of ten steps is told well enough, and no step is below a second: figures come no
        // faster.
        let step = (objective.fast / PART / 10).max(Duration::from_millis(500));
        let windows = Windows::new(step, objective.slow.max(objective.fast));
        Self { objective, windows, book: Book::default(), burning: Burning::default() }
    }

    /// How often it wants to be told.
    pub fn every(&self) -> Duration {
        (self.objective.fast / PART / 5).clamp(Duration::from_secs(1), Duration::from_secs(10))
    }

    /// Statements since the start of counting, and how many of them were good. What happened to the incident,
    /// if anything.
    pub fn next(&mut self, now: Instant, good: u64, all: u64) -> Option<Change> {
        self.windows.add(now, good, all);
        self.burning = self.burning_at(now);
        let pace = pace(&self.objective, &self.burning);
        let calm = pace.is_none() && self.burning.fast_short.is_none_or(|burn| burn < 1.0);
        self.book.next(now, pace, calm, self.objective.calm, self.burning.fast_short)
    }

    pub fn objective(&self) -> &Objective {
        &self.objective
    }

    /// Burn rates at the last [`Tracked::next`].
    pub fn burning(&self) -> Burning {
        self.burning
    }

    pub fn book(&self) -> &Book {
        &self.book
    }

    fn burning_at(&self, now: Instant) -> Burning {
        let allowed = 1.0 - self.objective.share;
        let over = |window: Duration| {
            let (good, all, past) = self.windows.over(now, window)?;
            (all > 0).then(|| ((all - good) as f64 / all as f64 / allowed, all, past))
        };
        // Of a long window that is not full yet, what is missing counts as good: a start makes nobody
        // nervous.
        let long =
            |window| over(window).filter(|(_, all, _)| *all >= LEAST).map(|(burn, _, past)| burn * past);
        let short = |window: Duration| over(window / PART).map(|(burn, ..)| burn);
        let Objective { fast, slow, .. } = self.objective;
        Burning { fast: long(fast), fast_short: short(fast), slow: long(slow), slow_short: short(slow) }
    }
}

/// Whether these burn rates open an incident, and at which pace.
pub fn pace(objective: &Objective, burning: &Burning) -> Option<Pace> {
    let both = |long: Option<f64>, short: Option<f64>, limit: f64| {
        long.is_some_and(|burn| burn >= limit) && short.is_some_and(|burn| burn >= limit)
    };
    if both(burning.fast, burning.fast_short, objective.fast_burn) {
        Some(Pace::Fast)
    } else if both(burning.slow, burning.slow_short, objective.slow_burn)
        // Half an hour tells slowly that it is over.
        && burning.fast_short.is_some_and(|burn| burn >= 1.0)
    {
        Some(Pace::Slow)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
