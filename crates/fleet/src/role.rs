//! Roles: what a server is in its fleet, and what a listener is for.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a server is, by what the servers themselves answer; never by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The one server that takes writes.
    Primary,
    /// Applies another server's changes, directly or through another replica.
    Replica,
    /// Claims to be writable beside the primary, or was the primary and still answers: gets neither writes
    /// nor reads.
    Stray,
    /// Not known (yet): it never answered, or the fleet contradicts itself.
    Unknown,
}

/// What clients of a listener want.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListenerRole {
    /// Reads that may be a little behind: goes to the nearest replica with room.
    Reader,
    /// Writes, and reads that must see them: goes to the primary.
    Writer,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Primary => "primary",
            Self::Replica => "replica",
            Self::Stray => "stray",
            Self::Unknown => "unknown",
        })
    }
}

impl fmt::Display for ListenerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reader => "reader",
            Self::Writer => "writer",
        })
    }
}
