//! The largest rate that still meets an objective, by a loss-ratio search.
//!
//! After RFC 9971 (multiple loss ratio search), adapted to transactions: what counts as *lost* is a transaction that was
//! answered later than the objective's time, failed, was not answered or was never begun. Then `p99 <= 15 ms` is the same
//! as `at most 1 % are lost`, and no percentile has to be estimated: each trial is a count, lost of all.
//!
//! **Classes.** A trial sends a rate for some seconds. All full trials of a rate together make it one of:
//!
//! | class | when |
//! |---|---|
//! | lower bound | even if all trials that the goal still grants were bad, good ones would be the majority |
//! | upper bound | even if all of them were good, bad ones would be the majority, or it would be a tie |
//! | undecided | else: more trials are needed |
//!
//! The *relevant* lower bound is the largest lower bound below the smallest upper bound: after an inversion (a higher rate
//! went well by luck) the answer stays on the safe side.
//!
//! **Course.** Short trials double the rate from `start` until one is bad, or halve it until one is good; they only tell
//! where to look. Then the interval is halved (in the logarithm) with trials of full length, each repeated
//! until its class is known, until `upper / lower <= 1 + width`.
//!
//! Example, a limit of 1000, 5 trials of 10 s, width 3 %: short trials at 100, 200, 400, 800 are good, 1600 is bad; halving
//! in the logarithm tries 1131, 951, 1037, 993, 1015; three good of five suffice for a lower bound, three bad for an upper
//! one: about 5 x 3 trials, 150 s.
//!
//! Everything here is a pure function of trials; whether a trial counts at all is judged when it is made ([`Trial::of`]).
//! What sends them is outside.

pub mod noise;
mod sound;
mod trend;
mod trial;

pub use sound::Unsound;
pub use trial::Trial;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// What is asked: at most this share lost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// The share of transactions that must be quick enough: 0.99 for p99.
    pub quantile: f64,
    /// Quick enough.
    pub within: Duration,
}

/// How precisely, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// Largest share lost in a good trial: 1 - quantile.
    pub loss: f64,
    /// `upper / lower` is at most 1 and this.
    pub width: f64,
    /// Seconds of a full trial.
    pub trial: f64,
    /// Full trials that a rate gets at most.
    pub trials: u32,
    /// Seconds of a short trial, which only brackets.
    pub short: f64,
    /// The first rate.
    pub start: f64,
    /// No rate above this is tried.
    pub most: f64,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Next {
    /// Send this.
    Send {
        /// Transactions a second.
        rate: f64,
        /// For how long, in seconds.
        seconds: f64,
    },
    /// The answer is known.
    Done(Capacity),
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// The largest rate that was shown to meet the objective; `None` when not even the lowest tried did.
    pub lower: Option<f64>,
    /// The smallest rate above it that was shown to miss it; `None` when everything up to `most` met it.
    pub upper: Option<f64>,
}

/// A rate that missed the objective in a full trial, and a higher one that met it in another (the widest such pair): the
/// limit moved while it was looked for, or such trials are too short to tell. RFC 9971 calls it a loss inversion.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Contradiction {
    /// Transactions a second that missed it.
    pub missed: f64,
    /// More of them that met it.
    pub met: f64,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { missed, met } = self;
        write!(f, "{missed:.1} a second missed the objective in one trial and {met:.1} met it in another")
    }
}

/// Growth of the rate while no trial was bad.
const STEP: f64 = 2.0;
/// Short trials that a search needs, as a rule.
const USUAL_DOUBLINGS: f64 = 5.0;
/// Below this share of the start rate the search gives up.
const LEAST: f64 = 1e-3;

/// What short trials have shown.
struct Hint {
    good: Option<f64>,
    bad: Option<f64>,
}

/// What is known of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Undecided,
}

impl Objective {
    /// 99 for p99, without the dust of binary fractions.
    pub fn percent(&self) -> f64 {
        (self.quantile * 1e6).round() / 1e4
    }

    /// Largest share lost that still meets it.
    pub fn loss(&self) -> f64 {
        1.0 - self.quantile
    }

    /// Reads `p99 < 15ms` (also `<=`, and p50 to p99.99).
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no objective; write for example 'p99 < 15ms'");
        let (percentile, within) = text.split_once('<').ok_or_else(wrong)?;
        let within = within.strip_prefix('=').unwrap_or(within);
        let percent: f64 =
            percentile.trim().strip_prefix(['p', 'P']).and_then(|p| p.parse().ok()).ok_or_else(wrong)?;
        if !(percent > 0.0 && percent < 100.0) {
            return Err(wrong());
        }
        let within = fleet::config::duration(within)?;
        if within.is_zero() {
            return Err(wrong());
        }
        Ok(Self { quantile: percent / 100.0, within })
    }
}

impl Goal {
    /// Width 3 %, at most five trials of `trial` seconds a rate, short trials of a third of that.
    pub fn new(objective: Objective, trial: Duration, start: f64, most: f64) -> Self {
        let trial = trial.as_secs_f64();
        Self { loss: objective.loss(), width: 0.03, trial, trials: 5, short: trial / 3.0, start, most }
    }

    /// What to do after these trials.
    pub fn next(&self, trials: &[Trial]) -> Next {
        let hint = match self.bracket(trials) {
            Ok(hint) => hint,
            Err(next) => return next,
        };
        let (lower, upper) = self.bounds(trials);
        if let Some(rate) = self.undecided(trials, lower, upper) {
            return self.full(rate);
        }
        let wide = |low: f64, high: f64| high > low * (1.0 + self.width);
        let middle = |low: f64, high: f64| self.full((low * high).sqrt());
        match (lower, upper) {
            (Some(low), Some(high)) if wide(low, high) => middle(low, high),
            (Some(_), Some(_)) => Next::Done(Capacity { lower, upper }),
            (Some(low), None) if low >= self.most => Next::Done(Capacity { lower, upper }),
            // What short trials said tells where to look for the other end.
            (Some(low), None) => match hint.bad {
                Some(bad) if wide(low, bad) => middle(low, bad),
                Some(bad) if bad > low => self.full(bad),
                Some(bad) => self.full((low * self.stride(trials, |rate| rate >= bad)).min(self.most)),
                None => self.full((low * STEP).min(self.most)),
            },
            (None, Some(high)) if high <= self.start * LEAST => Next::Done(Capacity { lower, upper }),
            (None, Some(high)) => match hint.good {
                Some(good) if wide(good, high) => middle(good, high),
                Some(good) if good < high => self.full(good),
                Some(good) => self.full(high / self.stride(trials, |rate| rate <= good)),
                None => self.full(high / STEP),
            },
            (None, None) => match (hint.good, hint.bad) {
                (Some(good), Some(bad)) => middle(good, bad),
                (Some(good), None) => self.full(good),
                (None, bad) => Next::Done(Capacity { lower: None, upper: bad }),
            },
        }
    }

    /// Short trials until one was good and one bad, or the end of the range is reached.
    fn bracket(&self, trials: &[Trial]) -> Result<Hint, Next> {
        let short = || trials.iter().filter(|trial| !self.is_full(trial));
        let good = short().filter(|t| !self.is_bad(t)).map(|t| t.rate).max_by(f64::total_cmp);
        let bad = short().filter(|t| self.is_bad(t)).map(|t| t.rate).min_by(f64::total_cmp);
        let send = |rate: f64| Err(Next::Send { rate, seconds: self.short });
        match (good, bad) {
            (None, None) => send(self.start.min(self.most)),
            (Some(good), None) if good < self.most => send((good * STEP).min(self.most)),
            (None, Some(bad)) if bad > self.start * LEAST => send(bad / STEP),
            _ => Ok(Hint { good, bad }),
        }
    }

    /// How far to step beyond what a short trial was wrong about: it was nearly right, so twice the width first, then
    /// twice as far each time.
    fn stride(&self, trials: &[Trial], beyond: impl Fn(f64) -> bool) -> f64 {
        let mut rates: Vec<f64> =
            trials.iter().filter(|t| self.is_full(t) && beyond(t.rate)).map(|t| t.rate).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        (1.0 + self.width).powi(1 << rates.len().min(5)).min(STEP)
    }

    fn full(&self, rate: f64) -> Next {
        Next::Send { rate, seconds: self.trial }
    }

    /// A rate between the bounds that has had a full trial and is not decided.
    fn undecided(&self, trials: &[Trial], lower: Option<f64>, upper: Option<f64>) -> Option<f64> {
        let between =
            |rate: f64| lower.is_none_or(|lower| rate > lower) && upper.is_none_or(|upper| rate < upper);
        let full = trials.iter().filter(|t| self.is_full(t) && between(t.rate)).map(|t| t.rate);
        full.filter(|rate| self.class(trials, *rate) == Class::Undecided).min_by(f64::total_cmp)
    }

    /// The relevant lower bound and the smallest upper bound.
    fn bounds(&self, trials: &[Trial]) -> (Option<f64>, Option<f64>) {
        let full = || trials.iter().filter(|t| self.is_full(t)).map(|t| t.rate);
        let of = |class: Class| full().filter(move |rate| self.class(trials, *rate) == class);
        let upper = of(Class::Upper).min_by(f64::total_cmp);
        let below = |rate: &f64| upper.is_none_or(|upper| *rate < upper);
        (of(Class::Lower).filter(below).max_by(f64::total_cmp), upper)
    }

    fn class(&self, trials: &[Trial], rate: f64) -> Class {
        let count = |bad: bool| {
            let full = trials.iter().filter(|t| t.rate == rate && self.is_full(t));
            full.filter(|trial| self.is_bad(trial) == bad).count()
        };
        let (good, bad) = (count(false), count(true));
        let missing = (self.trials as usize).saturating_sub(good + bad);
        if good > bad + missing {
            Class::Lower
        } else if bad > good + missing || missing == 0 {
            // A tie with nothing left to send is no proof that the objective is met.
            Class::Upper
        } else {
            Class::Undecided
        }
    }

    fn is_bad(&self, trial: &Trial) -> bool {
        trial.lost as f64 > self.loss * trial.due as f64
    }

    fn is_full(&self, trial: &Trial) -> bool {
        trial.seconds >= self.trial * 0.99
    }

    /// Whether full trials contradict each other by more than the width.
    pub fn contradiction(&self, trials: &[Trial]) -> Option<Contradiction> {
        let full =
            |bad| trials.iter().filter(move |t| self.is_full(t) && self.is_bad(t) == bad).map(|t| t.rate);
        let missed = full(true).min_by(f64::total_cmp)?;
        let met = full(false).max_by(f64::total_cmp)?;
        (met > missed * (1.0 + self.width)).then_some(Contradiction { missed, met })
    }

    /// Seconds that the search may still take, about: what it takes to halve the interval down to its width.
    pub fn seconds_left(&self, trials: &[Trial]) -> f64 {
        let (lower, upper) = self.bounds(trials);
        let hint = self.bracket(trials).ok();
        let lower = lower.or_else(|| hint.as_ref().and_then(|hint| hint.good));
        let upper = upper.or_else(|| hint.as_ref().and_then(|hint| hint.bad));
        let ratio = match (lower, upper) {
            (Some(lower), Some(upper)) => (upper / lower).max(1.0),
            _ => STEP,
        };
        let halvings = (ratio.ln() / (1.0 + self.width).ln()).log2().max(0.0).ceil();
        // Three trials of five decide, mostly.
        let each = f64::from(self.trials).mul_add(0.5, 0.5) * self.trial;
        halvings.mul_add(each, if hint.is_some() { 0.0 } else { USUAL_DOUBLINGS * self.short })
    }
}

#[cfg(test)]
mod tests;
