//! Demand: reads born in a zone, as shares of all reads, with the way they were measured.

use crate::Zone;
use serde::Serialize;
use std::fmt;

/// The measured demand per zone. Shares sum to 1, or the list is empty when nothing is known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// One entry a zone in which reads are born, by zone name.
    pub zones: Vec<ZoneShare>,
    /// How it was measured.
    pub source: DemandSource,
    /// Reads per second over the whole fleet that the shares stand on (0 when the source counts no reads).
    pub reads_per_second: f64,
    /// Share of reads whose client host lies in no known zone; they are left out of `zones`.
    pub unplaced: f64,
    /// The servers count reads, and there are next to none: then shares are not measured because there is
    /// nothing to measure, which is no fallback.
    pub idle: bool,
}

/// The share of reads born in one zone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ZoneShare {
    /// The zone.
    pub zone: Zone,
    /// 0 to 1.
    pub share: f64,
}

/// How demand was measured, best first. A weaker source than the first is a fallback and is shown as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DemandSource {
    /// Statement counters per client host (performance_schema, or MariaDB's user statistics).
    StatementCounters,
    /// Sessions per client host, busy ones weighing more (process list).
    Sessions,
    /// Shares written in the configuration.
    Configured,
    /// Nothing known: every zone that has a reader or is our own counts the same.
    Equal,
}

impl Demand {
    /// Nothing known yet.
    pub fn unknown() -> Self {
        Self {
            zones: Vec::new(),
            source: DemandSource::Equal,
            reads_per_second: 0.0,
            unplaced: 0.0,
            idle: false,
        }
    }

    /// The share of one zone; 0 for a zone without reads.
    pub fn share(&self, zone: &Zone) -> f64 {
        self.zones.iter().find(|z| z.zone == *zone).map_or(0.0, |z| z.share)
    }

    /// What the shares stand on, in words.
    pub fn basis(&self) -> String {
        match self.source {
            DemandSource::Equal if self.idle => "no reads yet: equal shares".to_owned(),
            source if self.idle => format!("no reads yet: {source}"),
            source => source.to_string(),
        }
    }
}

impl fmt::Display for DemandSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::StatementCounters => "statement counters by client host",
            Self::Sessions => "sessions by client host",
            Self::Configured => "configured shares",
            Self::Equal => "equal shares, as nothing is measured",
        })
    }
}
