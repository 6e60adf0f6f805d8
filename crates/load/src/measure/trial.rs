//! One trial: a rate that was sent for a while, and what was lost of it.

use super::Objective;
use super::sound::{self, Unsound};
use crate::Outcome;
use crate::outcome::Times;
use serde::{Deserialize, Serialize};

/// What one trial counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Transactions a second.
    pub rate: f64,
    /// Its length in seconds.
    pub seconds: f64,
    /// Transactions that were due.
    pub due: u64,
    /// Of these, lost: late, failed, not answered, not begun.
    pub lost: u64,
    /// Of the lost, such as would have been in time without the generator's own lateness.
    #[serde(default)]
    pub excused: u64,
    /// Mean response time of the answers that came; 0 in trials of a time when it was not kept.
    #[serde(default)]
    pub mean_ms: f64,
    /// Half of the answers came within this time.
    #[serde(default)]
    pub p50_ms: f64,
    /// 99 % of the answers came within this time; of those that came at all.
    #[serde(default)]
    pub p99_ms: f64,
    /// The objective's percentile of those that came.
    #[serde(default)]
    pub at_objective_ms: f64,
    /// The same from the actual start, without the wait for a free client; 0 in trials of a time when it was
    /// not kept.
    #[serde(default)]
    pub service_at_objective_ms: f64,
    /// Statements for each transaction.
    #[serde(default)]
    pub queries_each: f64,
}

impl Trial {
    /// What a run in an open loop with this objective counted; `rate` is what was asked for.
    ///
    /// # Errors
    /// Why it must not count.
    pub fn of(outcome: &Outcome, rate: f64, seconds: f64, objective: Objective) -> Result<Self, Unsound> {
        let totals = &outcome.totals;
        let at_objective = |times: &Times| {
            let found = times.at(&[objective.quantile]).and_then(|found| found.first().copied());
            found.unwrap_or_default()
        };
        let trial = Self {
            rate,
            seconds,
            due: totals.arrivals,
            lost: totals.late + totals.failed + totals.unfinished + totals.not_started,
            excused: totals.excused,
            mean_ms: outcome.response.mean_ms,
            p50_ms: outcome.response.p50_ms,
            p99_ms: outcome.response.p99_ms,
            at_objective_ms: at_objective(&outcome.response),
            service_at_objective_ms: outcome.service.as_ref().map_or(0.0, at_objective),
            queries_each: totals.queries as f64 / (totals.done + totals.failed).max(1) as f64,
        };
        sound::check(&trial, outcome, objective)?;
        Ok(trial)
    }

    /// The share that was lost.
    pub fn loss(&self) -> f64 {
        self.lost as f64 / self.due.max(1) as f64
    }
}
