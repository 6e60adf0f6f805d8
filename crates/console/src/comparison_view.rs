//! What `/compare.json` shows: two stretches of the history side by side.

use crate::history_view::Subject;
use diagnose::verdict::Unit;
use serde::{Deserialize, Serialize};

/// The answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ComparisonView {
    pub before: SideView,
    pub after: SideView,
    pub rows: Vec<RowView>,
    /// What limits it, in words.
    pub notes: Vec<String>,
}

/// One of the two stretches, by the calendar of now: seconds of the Unix epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SideView {
    pub from_epoch_s: f64,
    pub to_epoch_s: f64,
    pub seconds: f64,
}

/// One figure on both sides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RowView {
    /// Whose figures.
    #[serde(flatten)]
    pub subject: Subject,
    /// Whose figures, for people.
    pub who: String,
    /// Its name.
    pub figure: String,
    /// What it is called.
    pub label: String,
    pub unit: Unit,
    pub before: Option<Estimate>,
    pub after: Option<Estimate>,
    /// After over before.
    pub ratio: Option<RatioView>,
}

/// A figure of a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub mean: f64,
    /// 95 % interval of the mean; null where the stretch is too short for one.
    pub interval: Option<(f64, f64)>,
    /// Readings it is the mean of.
    pub readings: u64,
    /// Standard error of the mean, relative to it, and the slices it is from.
    #[serde(skip)]
    pub error: Option<(f64, usize)>,
}

/// How many times as large.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatioView {
    pub ratio: f64,
    /// 95 % interval.
    pub interval: Option<(f64, f64)>,
}
