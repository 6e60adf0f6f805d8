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

/// The bounds for people: `3 ms`, `0 to 500 ms`, `12.3 s`. One figure where both bounds look the same, or
/// where the upper one is less than a tenth more than the lower one.
impl fmt::Display for Lag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = bounds(self.at_least, self.at_most());
        f.pad(&words)
    }
}

/// Two bounds for people, with the unit once where it is the same.
pub fn bounds(at_least: Duration, at_most: Duration) -> String {
    let (low, high) = (words(at_least), words(at_most));
    if low == high || at_most.as_secs_f64() <= at_least.as_secs_f64() * 1.1 {
        return join(&low);
    }
    if low.1 == high.1 || at_least.is_zero() {
        return format!("{} to {}", low.0, join(&high));
    }
    format!("{} to {}", join(&low), join(&high))
}

fn join((figure, unit): &(String, &str)) -> String {
    format!("{figure} {unit}")
}

fn words(lag: Duration) -> (String, &'static str) {
    match lag.as_secs_f64() {
        s if s < 0.9995 => (format!("{:.0}", s * 1e3), "ms"),
        s if s < 600.0 => (format!("{s:.1}"), "s"),
        s => (format!("{:.0}", s / 60.0), "min"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_is_said_with_its_bounds() {
        let of = |least, most| bounds(Duration::from_millis(least), Duration::from_millis(most));
        assert_eq!(of(0, 500), "0 to 500 ms");
        assert_eq!(of(0, 1500), "0 to 1.5 s");
        assert_eq!(of(700, 1500), "700 ms to 1.5 s");
        assert_eq!(of(0, 0), "0 ms");
        assert_eq!(of(12_300, 12_800), "12.3 s");
        assert_eq!(of(700_000, 701_000), "12 min");
    }
}
