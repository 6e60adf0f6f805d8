//! The reason of a pick, in words that are the same wherever it is shown.

use fleet::Zone;
use serde::{Serialize, Serializer};
use std::fmt;

/// Why a server was picked. `words` is the same in trace, metric label and status page; `Display` adds the
/// zones.
#[derive(Clone, Debug, PartialEq)]
pub enum Because {
    /// It stands in our zone.
    OwnZone,
    /// Our zone has more reads than its share of capacity; this zone has room.
    Overflow {
        /// The zone that has room.
        to: Option<Zone>,
    },
    /// Our zone has no eligible reader.
    NoReaderInZone {
        /// Ours.
        own: Zone,
        /// The zone whose share it is.
        to: Option<Zone>,
    },
    /// We do not know our zone.
    OwnZoneUnknown {
        /// The zone whose share it is.
        to: Option<Zone>,
    },
    /// Those that should have served were tried and failed.
    OthersFailed {
        /// The zone that serves instead.
        to: Option<Zone>,
    },
    /// No replica is left, and reads are allowed on the primary.
    NoReplica,
    /// Nothing is left but servers that just failed a session or gave no answer in time.
    LastResort,
    /// A writer session on the primary.
    Primary,
}

impl Because {
    /// Every kind, in the order of [`Because::index`].
    pub const WORDS: [&'static str; 8] = [
        "own zone",
        "own zone is full",
        "no reader in own zone",
        "own zone unknown",
        "others failed",
        "no replica eligible",
        "last resort",
        "primary",
    ];

    /// The kind's number, for counters.
    pub fn index(&self) -> usize {
        match self {
            Self::OwnZone => 0,
            Self::Overflow { .. } => 1,
            Self::NoReaderInZone { .. } => 2,
            Self::OwnZoneUnknown { .. } => 3,
            Self::OthersFailed { .. } => 4,
            Self::NoReplica => 5,
            Self::LastResort => 6,
            Self::Primary => 7,
        }
    }

    /// The kind in stable words.
    pub fn words(&self) -> &'static str {
        Self::WORDS[self.index()]
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            |zone: &Option<Zone>| zone.as_ref().map_or_else(|| "(unknown)".to_owned(), ToString::to_string);
        match self {
            Self::OwnZone | Self::Primary | Self::LastResort => f.write_str(self.words()),
            Self::Overflow { to } => write!(f, "own zone is full: overflow to zone {}", name(to)),
            Self::NoReaderInZone { own, to } => {
                write!(f, "no reader in zone {own}: share of zone {}", name(to))
            }
            Self::OwnZoneUnknown { to } => write!(f, "own zone unknown: share of zone {}", name(to)),
            Self::OthersFailed { to } => write!(f, "others failed: zone {}", name(to)),
            Self::NoReplica => f.write_str("no replica eligible: primary"),
        }
    }
}

impl Serialize for Because {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
