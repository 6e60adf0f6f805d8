//! How often a server is asked, and why not more often.

use serde::Serialize;
use std::time::Duration;

/// How often a server is asked by us.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asking {
    /// The time between two visits now.
    #[serde(serialize_with = "as_ms", rename = "interval_ms")]
    pub interval: Duration,
    /// The time between two samples of its counters (sessions, buffer pool) now: longer than that of visits
    /// where many ask. `None` before the first.
    #[serde(skip)]
    pub counters: Option<Duration>,
    /// How many routers ask it, as counted on the server; `None` where they cannot be counted.
    pub routers: Option<u64>,
    /// Why it is not asked as often as configured, in words; `None` if it is.
    pub because: Option<String>,
}

impl Asking {
    /// The interval in tenths of a second, for words.
    pub fn rounded(&self) -> Duration {
        Duration::from_millis((self.interval.as_millis() as u64 + 50) / 100 * 100)
    }
}

fn as_ms<S: serde::Serializer>(time: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_f64(time.as_secs_f64() * 1_000.0)
}
