//! A snapshot: the whole fleet as it was last seen. `observe` publishes one after each round of questions;
//! `router` decides on it. Immutable, shared behind an `Arc`.

use crate::{Demand, EpochStatus, KnownZone, Server, ServerName};
use serde::Serialize;
use std::time::Instant;

/// The fleet as last seen.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// When its last answer came in.
    #[serde(skip)]
    pub at: Instant,
    /// Counts up with each snapshot.
    pub round: u64,
    /// Every server that anybody named has been asked once. Before, no primary is named, and who finds no
    /// server waits.
    pub settled: bool,
    /// Every server known, by name.
    pub servers: Vec<Server>,
    /// Who takes writes.
    pub writer: WriterStatus,
    /// How far switchovers and failovers have come.
    pub epoch: EpochStatus,
    /// Our own zone, if known.
    pub own_zone: Option<KnownZone>,
    /// Reads born per zone.
    pub demand: Demand,
    /// What the operator should know: fallbacks in force, missing privileges with the statement that mends
    /// them.
    pub remarks: Vec<String>,
}

/// Who takes writes, or why nobody does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum WriterStatus {
    /// This server.
    Known {
        /// The primary.
        server: ServerName,
    },
    /// Nobody can be named; writes are held.
    Unknown {
        /// Why, in words: no server answers, two are writable, none is writable ...
        why: String,
    },
}

impl Snapshot {
    /// What is known before the first round.
    pub fn empty(at: Instant) -> Self {
        Self {
            at,
            round: 0,
            settled: false,
            servers: Vec::new(),
            writer: WriterStatus::Unknown { why: "no server has been asked yet".to_owned() },
            epoch: EpochStatus::default(),
            own_zone: None,
            demand: Demand::unknown(),
            remarks: Vec::new(),
        }
    }

    /// One server by name.
    pub fn server(&self, name: &ServerName) -> Option<&Server> {
        self.servers.iter().find(|s| s.name == *name)
    }

    /// The fleet as it looks at `now`: servers whose last answer is too old are silent. `None` when nothing
    /// differs.
    pub fn aged(&self, now: Instant) -> Option<Self> {
        self.servers.iter().any(|server| server.is_overdue(now)).then(|| Self {
            servers: self.servers.iter().cloned().map(|server| server.aged(now)).collect(),
            ..self.clone()
        })
    }

    /// The server that takes writes, if one is known.
    pub fn primary(&self) -> Option<&Server> {
        match &self.writer {
            WriterStatus::Known { server } => self.server(server),
            WriterStatus::Unknown { .. } => None,
        }
    }
}
