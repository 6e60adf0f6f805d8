//! Epochs: every switchover and failover has one, higher than all before. What a process that routes writes
//! knows of them.

use crate::ServerName;
use serde::Serialize;

/// How far the operations that move the primary have come, as one process knows it. It never goes back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EpochStatus {
    /// The highest epoch of a finished operation that was ever seen; 0 before the first.
    pub highest: u64,
    /// Where it was seen.
    pub source: EpochSource,
    /// Whether it is known after a restart without asking the servers.
    pub survives_restart: bool,
    /// Why it could not be read or written, where it should survive a restart.
    pub trouble: Option<String>,
    /// Servers that answer and do not say their epoch, with the reason: their claims cannot be checked.
    pub unknown: Vec<(ServerName, String)>,
    /// Claims that are ignored now.
    pub ignored: Vec<IgnoredClaim>,
    /// Claims that were ignored since the start; one that lasts counts once.
    pub ignored_total: u64,
}

/// Where the highest epoch was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum EpochSource {
    /// Nowhere: no operation is known.
    #[default]
    Nothing,
    /// It was remembered from before a restart.
    Remembered,
    /// In this server's own table.
    Server {
        /// Which.
        server: ServerName,
    },
}

/// A server's word that does not count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct IgnoredClaim {
    /// Who claims.
    pub server: ServerName,
    /// Its own epoch.
    pub epoch: u64,
    /// What it claims.
    pub claim: Claim,
}

/// What a server says of itself that concerns the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// It takes writes, by an epoch that is over.
    Writes,
    /// It announces a switchover, by an epoch that is over.
    Announces,
    /// It takes writes while the operation that promotes it has not recorded its epoch yet.
    Unrecorded,
}

impl Claim {
    /// As logs, metrics and the status call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Writes => "writes",
            Self::Announces => "announces",
            Self::Unrecorded => "unrecorded",
        }
    }
}
