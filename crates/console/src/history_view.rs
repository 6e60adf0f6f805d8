//! What `/history.json` shows: figures of a stretch on a grid, what was said, and the gaps.

use diagnose::verdict::{Name, Unit};
use serde::{Deserialize, Serialize};

/// Whose series they are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum Subject {
    /// The host that is watched.
    Host,
    /// A host, as the agent on it tells; by the agent's address.
    Agent(String),
    /// A server.
    Server(String),
    /// All statements that pass a router, as it times them.
    Router,
    /// Those of one endpoint.
    Endpoint(String),
}

/// The answer. Moments are seconds of the history, by a clock that does not jump; `now_epoch_s` says what the
/// calendar calls now.
#[derive(Clone, Debug, Serialize)]
pub struct HistoryView {
    /// Now, by the history.
    pub now_s: f64,
    /// Now, by the calendar: seconds of the Unix epoch.
    pub now_epoch_s: f64,
    /// The first cell begins here.
    pub from_s: f64,
    /// The last cell ends here.
    pub to_s: f64,
    /// Length of a cell: values are means over it.
    pub step_s: f64,
    /// Who has been heard of.
    pub subjects: Vec<SubjectView>,
    /// Where the calendar jumped.
    pub jumps: Vec<JumpView>,
    /// What is kept.
    pub kept: KeptView,
}

/// One subject.
#[derive(Clone, Debug, Serialize)]
pub struct SubjectView {
    /// Who.
    #[serde(flatten)]
    pub subject: Subject,
    /// Its figures.
    pub series: Vec<SeriesView>,
    /// What was said of it, oldest first; empty of what nothing is said of.
    pub verdicts: Vec<SpanView>,
    /// Where nothing was read.
    pub gaps: Vec<GapView>,
}

/// One figure over time.
#[derive(Clone, Debug, Serialize)]
pub struct SeriesView {
    pub name: &'static str,
    pub label: &'static str,
    pub unit: Unit,
    /// A mean for each cell; null where it was not read.
    pub values: Vec<Option<f32>>,
}

/// What was said over a stretch.
#[derive(Clone, Debug, Serialize)]
pub struct SpanView {
    pub from_s: f64,
    pub to_s: f64,
    /// The bottleneck; null where there was none.
    pub name: Option<Name>,
    /// In words.
    pub called: &'static str,
}

/// A gap.
#[derive(Clone, Debug, Serialize)]
pub struct GapView {
    pub from_s: f64,
    /// Null while it lasts.
    pub to_s: Option<f64>,
    pub why: String,
}

/// A jump of the calendar.
#[derive(Clone, Debug, Serialize)]
pub struct JumpView {
    pub at_s: f64,
    pub by_s: f64,
}

/// What is kept, and in how much memory.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct KeptView {
    /// Readings one by one, for this long.
    pub readings_s: u64,
    /// Means of a minute, for this long.
    pub minutes_s: u64,
    pub bytes: usize,
    pub bytes_at_most: usize,
    /// Points left out because there were too many subjects.
    pub untold: u64,
}

impl Subject {
    /// For people.
    pub fn called(&self) -> String {
        match self {
            Self::Host => "this host".to_owned(),
            Self::Agent(name) | Self::Server(name) => name.clone(),
            Self::Router => "through the router".to_owned(),
            Self::Endpoint(name) => format!("endpoint {name}"),
        }
    }
}
