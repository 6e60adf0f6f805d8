//! What a measurement came to: what `headroom measure --json` prints.

use super::{Capacity, Goal, Objective, Trial};
use serde::Serialize;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasureReport {
    pub workload: String,
    pub target: String,
    pub objective: Objective,
    pub goal: Goal,
    /// `None` when the search was given up; `refused` says why.
    pub capacity: Option<Capacity>,
    pub refused: Option<String>,
    /// Today's rate in transactions a second, stated or observed.
    pub current: Option<f64>,
    /// How today's rate is known.
    pub current_from: Option<String>,
    /// The lower bound of the capacity over today's rate.
    pub headroom: Option<f64>,
    /// By how much this machine woke up late, sending nothing, at the objective's percentile, in ms.
    pub noise_ms: f64,
    /// The limit is that of the clients, as far as trials show: more of them may find a higher one.
    pub too_few_clients: bool,
    /// Trials that did not count, with the reason.
    pub voided: Vec<String>,
    pub trials: Vec<Trial>,
}
