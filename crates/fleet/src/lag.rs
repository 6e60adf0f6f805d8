//! Lag: how old the oldest change of the primary is that a replica has not applied yet.

use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// A lag and where it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Lag {
    /// At least this old (the truth lies between this and `at_least + uncertainty`).
    #[serde(serialize_with = "as_ms", rename = "at_least_ms")]
    pub at_least: Duration,
    /// How much older it may be: the time between two samples.
    #[serde(serialize_with = "as_ms", rename = "uncertainty_ms")]
    pub uncertainty: Duration,
    /// Where the figure comes from.
    pub source: LagSource,
}

/// Where a lag figure comes from, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LagSource {
    /// Our own samples of the primary's GTID position against the replica's applied position.
    GtidSamples,
    /// The same by binary log file and offset.
    FileSamples,
    /// Aurora's `replica_lag_in_milliseconds`.
    Aurora,
    /// The server's own `Seconds_Behind_Master` / `Seconds_Behind_Source` (whole seconds, may jump).
    SecondsBehind,
}

impl Lag {
    /// The worst it can be: what limits are compared with.
    pub fn at_most(&self) -> Duration {
        self.at_least.saturating_add(self.uncertainty)
    }
}

impl fmt::Display for LagSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::GtidSamples => "gtid samples",
            Self::FileSamples => "binlog position samples",
            Self::Aurora => "aurora",
            Self::SecondsBehind => "seconds behind",
        })
    }
}

fn as_ms<S: serde::Serializer>(d: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(d.as_secs_f64() * 1e3)
}
