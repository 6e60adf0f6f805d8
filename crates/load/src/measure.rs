//! The largest rate that still meets an objective, by counting losses and searching for a threshold.
//!
//! What counts as *lost* is a transaction that was answered later than the objective's time, failed, was not
//! answered or was never begun (RFC 9971, adapted to transactions). Then `p99 <= 15 ms` is the same as `at
//! most 1 % are lost`, and no percentile has to be estimated: each trial sends a rate for some seconds, and
//! is *good* when it loses at most that.
//!
//! The *capacity* is the rate at which half of the trials are good. Near it the same rate is good in one
//! trial and bad in the next, because something else took the CPU for a moment and the queue did not drain:
//! over how wide a range is a property of the server and of its surroundings, and unknown. So the answer is
//! an interval, and a search ends when that is narrow enough ([`belief`]).
//!
//! **How it goes.** Short trials double the rate from `start` until one is bad, or halve it until one is
//! good; they tell where to look and weigh little. Then every trial of full length is sent where it will
//! narrow the interval most, until its bounds lie at most `width` apart, or `trials` were sent.
//!
//! Example, a limit of 1000: short trials at 100, 200, 400, 800 are good, 1600 is bad. If it is sharp, some
//! 20 full ones follow until it is known to 4 %; if nine of ten are good at 957 and one of ten at 1045, some
//! 40; at 916 and 1092, some 60.
//!
//! Everything here is a pure function of trials; whether a trial counts at all is judged when it is made
//! ([`Trial::of`]), and whether the whole is sound when it has ended ([`Goal::doubt`]). What sends them is
//! the loop in `search.rs`.

mod belief;
mod doubt;
mod measurement;
pub mod noise;
mod report;
mod search;
mod sound;
pub mod text;
mod trend;
mod trial;
mod trial_file;

pub use doubt::Doubt;
pub use measurement::{Measurement, TodaysRate};
pub use report::MeasureReport;
pub use search::{Findings, Search, SearchRun};
pub use sound::Unsound;
pub use trial::Trial;
pub use trial_file::{Heading, TrialFile};

use belief::{Belief, Observation};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A text that is no objective.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectiveError {
    /// Not of the form.
    #[error("'{text}' is no objective; write for example 'p99 < 15ms'")]
    Form { text: String },
    /// Its time is none.
    #[error(transparent)]
    Time(#[from] fleet::DurationError),
}

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
    /// Full trials at most.
    pub trials: u32,
    /// Seconds of a short trial, which tells where to look.
    pub short: f64,
    /// The first rate.
    pub start: f64,
    /// No rate above this is tried.
    pub most: f64,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Next {
    Send {
        /// Transactions a second.
        rate: f64,
        /// For how long, in seconds.
        seconds: f64,
    },
    /// The answer is known.
    Done(Capacity),
}

/// The answer, in transactions a second. The capacity lies between its bounds with a probability of 90 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Capacity {
    /// Half of the trials at this rate meet the objective. `None` when not even the lowest rate that was
    /// tried met it.
    pub rate: Option<f64>,
    /// The capacity is larger with a probability of 95 %; `None` with `rate`.
    pub lower: Option<f64>,
    /// It is smaller with a probability of 95 %; `None` when that is above `most`, and with `rate`.
    pub upper: Option<f64>,
    /// Nine of ten trials at this rate meet the objective.
    pub nine_of_ten: Option<f64>,
    /// One of ten does; `None` when that is above `most`.
    pub one_of_ten: Option<f64>,
}

/// Growth of the rate while no trial was bad.
const STEP: f64 = 2.0;
/// Below this share of the start rate the search gives up.
const LEAST: f64 = 1e-3;
/// What lies outside the interval, on either side.
const TAIL: f64 = 0.05;
/// Standard deviations between the tails.
const INTERVAL: f64 = 3.29;
/// Fewer full trials are no measurement, however well they agree.
const FEWEST: usize = 6;
/// The interval's width is divided into this number of steps: what is rounded by them does not show.
const STEPS: f64 = 10.0;
/// A trial has gone wrong by something else than its rate once in fifty times.
const LAPSE: f64 = 0.02;
/// A short one often says the opposite of a full one: queues need seconds to fill, and caches to warm.
const LAPSE_SHORT: f64 = 0.25;
/// The limit may lie this factor above and below whatever was tried.
const BEYOND: f64 = 4.0;
/// A search is given up when trials in a row that do not count took as long as this number of full ones,
const PATIENCE: f64 = 3.0;
/// and, where the reason may pass by itself, at least this number of seconds: a host's bad minute does not
/// end a search of ten.
const PATIENCE_PASSING: f64 = 120.0;
/// Odds of nine to one, as a logarithm.
const NINE: f64 = 2.197_224_577_336_219_6;
/// Trials that a search needs as a rule, before anything is known.
const USUAL_SHORT: f64 = 5.0;
const USUAL_FULL: f64 = 30.0;
/// How widely good and bad ones mix as a rule; it weighs as much as this number of full trials.
const USUAL_SPREAD: f64 = 0.02;
const USUAL_WEIGHT: f64 = 10.0;

impl Objective {
    /// 99 for p99, without the dust of binary fractions.
    pub fn percent(&self) -> f64 {
        (self.quantile * 1e6).round() / 1e4
    }

    /// Largest share lost that still meets it, without the dust of binary fractions: `1 - 0.9` is less than
    /// a tenth, and a tenth lost would miss p90.
    pub fn loss(&self) -> f64 {
        ((1.0 - self.quantile) * 1e9).round() / 1e9
    }

    /// Reads `p99 < 15ms` (also `<=`, and p50 to p99.99).
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn parse(text: &str) -> Result<Self, ObjectiveError> {
        let wrong = || ObjectiveError::Form { text: text.to_owned() };
        let (percentile, within) = text.split_once('<').ok_or_else(wrong)?;
        let within = within.strip_prefix('=').unwrap_or(within);
        let percent: f64 =
            percentile.trim().strip_prefix(['p', 'P']).and_then(|p| p.parse().ok()).ok_or_else(wrong)?;
        if !(percent > 0.0 && percent < 100.0) {
            return Err(wrong());
        }
        let within = fleet::parse_duration(within)?;
        if within.is_zero() {
            return Err(wrong());
        }
        Ok(Self { quantile: percent / 100.0, within })
    }
}

impl Goal {
    /// Width 4 %, at most 80 trials of `trial`, short trials of a third of that.
    pub fn new(objective: Objective, trial: Duration, start: f64, most: f64) -> Self {
        let trial = trial.as_secs_f64();
        Self { loss: objective.loss(), width: 0.04, trial, trials: 80, short: trial / 3.0, start, most }
    }

    /// What to do after these trials.
    pub fn next(&self, trials: &[Trial]) -> Next {
        if let Some(rate) = self.bracketing(trials) {
            return Next::Send { rate, seconds: self.short };
        }
        let Some(belief) = self.belief(trials) else {
            return Next::Done(Capacity::default());
        };
        let (lower, upper) = belief.interval(TAIL);
        let full = self.full(trials).count();
        if upper <= self.start * LEAST {
            return Next::Done(Capacity::default());
        }
        let narrow = full >= FEWEST && upper <= lower * (1.0 + self.width);
        if narrow || lower >= self.most || full >= self.trials as usize {
            return Next::Done(self.capacity(&belief));
        }
        Next::Send { rate: belief.most_telling(LAPSE).min(self.most), seconds: self.trial }
    }

    /// How many trials of this length in a row may not count before the search is given up, the last of
    /// them for this reason. The short ones of its beginning get more chances, since one stall of the machine
    /// decides them.
    pub fn chances(&self, seconds: f64, why: &Unsound) -> u32 {
        let patience = PATIENCE * self.trial;
        let patience = if why.lasts() { patience } else { patience.max(PATIENCE_PASSING) };
        (patience / seconds).round().max(1.0) as u32
    }

    /// The rate of the next short trial, while there has not been a good one and a bad one.
    fn bracketing(&self, trials: &[Trial]) -> Option<f64> {
        let (good, bad) = self.hint(trials);
        match (good, bad) {
            (None, None) => Some(self.start.min(self.most)),
            (Some(good), None) if good < self.most => Some((good * STEP).min(self.most)),
            (None, Some(bad)) if bad > self.start * LEAST => Some(bad / STEP),
            _ => None,
        }
    }

    /// The highest good and the lowest bad rate of the short trials.
    fn hint(&self, trials: &[Trial]) -> (Option<f64>, Option<f64>) {
        let short = || trials.iter().filter(|trial| !self.is_full(trial));
        let good = short().filter(|t| !self.is_bad(t)).map(|t| t.rate).max_by(f64::total_cmp);
        (good, short().filter(|t| self.is_bad(t)).map(|t| t.rate).min_by(f64::total_cmp))
    }

    /// What is believed after these trials; `None` when no rate was good, not even a thousandth of the first.
    fn belief(&self, trials: &[Trial]) -> Option<Belief> {
        let (good, _) = self.hint(trials);
        let around = self.full(trials).map(|trial| trial.rate).chain(good);
        let low = around.min_by(f64::total_cmp)?;
        let high = trials.iter().map(|trial| trial.rate).max_by(f64::total_cmp)?;
        let observations: Vec<Observation> = trials.iter().map(|trial| self.observation(trial)).collect();
        Some(Belief::after(&observations, (low / BEYOND, high * BEYOND), self.width / STEPS))
    }

    fn observation(&self, trial: &Trial) -> Observation {
        let lapse = if self.is_full(trial) { LAPSE } else { LAPSE_SHORT };
        Observation { rate: trial.rate, good: !self.is_bad(trial), lapse }
    }

    fn capacity(&self, belief: &Belief) -> Capacity {
        let tried = |rate: f64| (rate < self.most).then_some(rate);
        let (lower, upper) = belief.interval(TAIL);
        let (rate, mixing) = (belief.quantile(0.5), (belief.spread() * NINE).exp());
        Capacity {
            rate: Some(rate.min(self.most)),
            lower: Some(lower.min(self.most)),
            upper: tried(upper),
            nine_of_ten: Some((rate / mixing).min(self.most)),
            one_of_ten: tried(rate * mixing),
        }
    }

    fn full<'a>(&self, trials: &'a [Trial]) -> impl Iterator<Item = &'a Trial> {
        let goal = *self;
        trials.iter().filter(move |trial| goal.is_full(trial))
    }

    fn is_bad(&self, trial: &Trial) -> bool {
        trial.lost as f64 > self.loss * trial.due as f64
    }

    fn is_full(&self, trial: &Trial) -> bool {
        trial.seconds >= self.trial * 0.99
    }

    /// Where the limit lies by these trials, with a probability of 90 %; `None` while they only look for the
    /// region.
    pub fn interval(&self, trials: &[Trial]) -> Option<(f64, f64)> {
        self.full(trials).next()?;
        self.belief(trials).map(|belief| belief.interval(TAIL))
    }

    /// Seconds that the search may still take, about: trials that halve what is not known down to the range
    /// over which good and bad ones mix, and those that it takes within that range.
    pub fn seconds_left(&self, trials: &[Trial]) -> f64 {
        if self.bracketing(trials).is_some() {
            let short = (USUAL_SHORT - trials.len() as f64).max(1.0);
            return short.mul_add(self.short, USUAL_FULL.min(f64::from(self.trials)) * self.trial);
        }
        let Some(belief) = self.belief(trials) else { return 0.0 };
        let sent = self.full(trials).count();
        let (now, wanted) = (belief.deviation(), self.width.ln_1p() / INTERVAL);
        let spread = belief.spread()
            * (USUAL_SPREAD / belief.spread()).powf(USUAL_WEIGHT / (USUAL_WEIGHT + sent as f64));
        let mixed = wanted.max(2.0 * spread);
        let halvings = (now / mixed).log2().max(0.0);
        let rest = 4.0 * spread * spread * (wanted.powi(-2) - now.min(mixed).powi(-2)).max(0.0);
        let least = FEWEST.saturating_sub(sent) as f64;
        let most = (self.trials as usize).saturating_sub(sent) as f64;
        (halvings + rest).ceil().max(least).min(most) * self.trial
    }

    /// Seconds that the search may still take at most.
    pub fn seconds_at_most(&self, trials: &[Trial]) -> f64 {
        let left = (self.trials as usize).saturating_sub(self.full(trials).count());
        let short = (2.0 * USUAL_SHORT - trials.len() as f64).max(0.0);
        short.mul_add(self.short, left as f64 * self.trial)
    }
}

#[cfg(test)]
mod tests;
