//! A server as last seen: who it is, how it is reached, what it said, and what that means.

use crate::{Address, Lag, Role, Weight, Zone};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What people call a server: the name from the configuration, else the `host:port` it calls itself. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ServerName(Arc<str>);

/// One server as last seen.
#[derive(Clone, Debug, Serialize)]
pub struct Server {
    /// What people call it; unique in a snapshot.
    pub name: ServerName,
    /// How we reach it (after the address map).
    pub reach: Address,
    /// Flavour and version in the server's words, e.g. `MariaDB 10.11.19`; `None` before it answered once.
    pub version: Option<String>,
    /// What it is.
    pub role: Role,
    /// Why it has that role, or what is odd about it, in words.
    pub because: String,
    /// Whether it answers.
    pub state: State,
    /// Where it stands, if known.
    pub zone: Option<Zoned>,
    /// How far behind; `None` on a primary or when unknown (then `replication` or `because` says why).
    pub lag: Option<Lag>,
    /// The server's own figure (`Seconds_Behind_Master` and kin), seconds, beside ours.
    pub seconds_behind: Option<u64>,
    /// State of its replication threads.
    pub replication: Replication,
    /// What it replicates from, by name where it is one of ours.
    pub source: Option<String>,
    /// Relative capacity.
    pub weight: Weight,
    /// Set when the operator keeps it out of routing (an admin or analytics node): which rule says so.
    pub reserved: Option<String>,
    /// Whether the operator says that it takes a PROXY protocol header.
    pub proxy_protocol: bool,
    /// Whether a switchover away from it is announced.
    pub announced: crate::Announcement,
    /// What it carries, as it says itself.
    pub load: Load,
    /// Since when it has been answering without a gap; warm-up counts from here. `None` while it does not answer,
    /// and for a server that already answered when we started (it is warm as far as we know).
    #[serde(skip)]
    pub back_since: Option<Instant>,
    /// Round-trip time of our own probe, shortest of the recent ones.
    #[serde(serialize_with = "as_optional_ms", rename = "round_trip_ms")]
    pub round_trip: Option<Duration>,
}

/// Whether a server answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum State {
    /// Its last probe was answered within the deadline.
    Answering,
    /// Accepts TCP or nothing at all, but gave no answer within the deadline.
    Silent {
        /// What was waited for.
        why: String,
    },
    /// Refused, closed, or answered with an error.
    Failing {
        /// The error, without secrets, with what mends it where we know.
        why: String,
    },
    /// Not asked yet.
    Unasked,
}

/// The replication threads of a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Replication {
    /// It replicates from nobody.
    None,
    /// Both threads run.
    Running,
    /// A thread does not run.
    Stopped {
        /// Which one.
        thread: Thread,
        /// The server's last error, or that it was stopped by command.
        why: String,
    },
    /// The server manages its own replication (Aurora, shared storage).
    Managed,
    /// It could not be asked (a privilege is missing, it does not answer).
    Unknown,
}

/// A replication thread, in the words both flavours now use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Thread {
    /// The one that receives (IO thread).
    Receiver,
    /// The one that applies (SQL thread).
    Applier,
    /// Both.
    Both,
}

/// A zone and how we know it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Zoned {
    /// The zone.
    pub zone: Zone,
    /// How we know.
    pub by: ZonedBy,
}

/// How a zone became known, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ZonedBy {
    /// A rule of the configuration (name, CIDR, label).
    Rule,
    /// The server or the cloud says so.
    Metadata,
    /// Grouped by measured round-trip time.
    RoundTrip,
}

/// What a server carries, from its own counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Load {
    /// Client sessions open now, ours for watching not counted.
    pub sessions: u32,
    /// Statements running now, ours not counted.
    pub running: u32,
    /// Statements per second over the last interval; 0 until two samples exist.
    pub statements_per_second: f64,
}

impl ServerName {
    /// Names a server.
    pub fn new(name: &str) -> Self {
        Self(Arc::from(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Server {
    /// A server of which nothing is known but its address.
    pub fn unasked(name: ServerName, reach: Address) -> Self {
        Self {
            name,
            reach,
            version: None,
            role: Role::Unknown,
            because: "not asked yet".to_owned(),
            state: State::Unasked,
            zone: None,
            lag: None,
            seconds_behind: None,
            replication: Replication::Unknown,
            source: None,
            weight: Weight::ONE,
            reserved: None,
            proxy_protocol: false,
            announced: crate::Announcement::Nothing,
            load: Load::default(),
            back_since: None,
            round_trip: None,
        }
    }

    /// The zone's name, if known.
    pub fn zone_name(&self) -> Option<&Zone> {
        self.zone.as_ref().map(|z| &z.zone)
    }
}

fn as_optional_ms<S: serde::Serializer>(d: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match d {
        Some(d) => to.serialize_some(&(d.as_secs_f64() * 1e3)),
        None => to.serialize_none(),
    }
}
