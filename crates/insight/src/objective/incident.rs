//! An incident from its opening to its end. It ends only after a calm of some length: one that comes and goes
//! within that time is one incident, told once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Which of the two pairs of windows found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It burns so fast that somebody must look now.
    Fast,
    /// It burns for long.
    Slow,
}

/// What is counted.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
pub const WEEKS: usize = 4;
/// Openings remembered at most.
const MOST: usize = 4096;

/// The incidents of one objective.
#[derive(Clone, Debug, Default)]
pub struct Book {
    open: Option<Open>,
    openings: VecDeque<Instant>,
    opened: u64,
    closed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Open {
    pub since: Instant,
    pub pace: Pace,
    /// The greatest burn rate of the short window so far.
    pub worst: f64,
    /// Since when it has been calm, if it is.
    pub calm_since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    Opened(Open),
    Closed(Open),
}

impl Book {
    /// One more look: whether something fires, whether it is calm, and how long a calm ends it.
    pub fn next(
        &mut self,
        now: Instant,
        pace: Option<Pace>,
        calm: bool,
        long_enough: Duration,
        burn: Option<f64>,
    ) -> Option<Change> {
        let burn = burn.unwrap_or(0.0);
        let Some(mut open) = self.open else {
            let open = Open { since: now, pace: pace?, worst: burn, calm_since: None };
            self.open = Some(open);
            self.opened += 1;
            self.openings.push_back(now);
            if self.openings.len() > MOST {
                self.openings.pop_front();
            }
            return Some(Change::Opened(open));
        };
        open.worst = open.worst.max(burn);
        open.calm_since = if calm { open.calm_since.or(Some(now)) } else { None };
        let ended = open.calm_since.is_some_and(|since| now.saturating_duration_since(since) >= long_enough);
        self.open = (!ended).then_some(open);
        self.closed += u64::from(ended);
        ended.then_some(Change::Closed(open))
    }

    pub fn open(&self) -> Option<Open> {
        self.open
    }

    /// Incidents opened since the start.
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// Incidents closed since the start.
    pub fn closed(&self) -> u64 {
        self.closed
    }

    /// Incidents opened in each of the last weeks, the present one (the last seven days) first.
    pub fn by_week(&self, now: Instant) -> [u64; WEEKS] {
        let mut weeks = [0; WEEKS];
        for opening in &self.openings {
            let ago = now.saturating_duration_since(*opening).as_secs() / WEEK.as_secs();
            if let Some(week) = weeks.get_mut(ago as usize) {
                *week += 1;
            }
        }
        weeks
    }
}
