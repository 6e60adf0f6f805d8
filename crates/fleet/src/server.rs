//! A server as last seen: who it is, how it is reached, what it said, and what that means.

use crate::{Address, Lag, Role, Weight, Zone};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What people call a server: the name from the configuration, else the `host:port` it calls itself. Cheap to
/// clone.
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
    pub zone: Option<KnownZone>,
    /// How far behind; `None` on a primary or when unknown (then `replication` or `because` says why). A
    /// server that does not answer has none: unknown is not zero.
    pub lag: Option<Lag>,
    /// The lag when it was last known, and when that was; kept while `lag` is `None`.
    #[serde(skip)]
    pub last_lag: Option<(Lag, Instant)>,
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
    /// What its buffer pool has counted; `None` while it does not say.
    #[serde(skip)]
    pub pool: Option<crate::heat::PoolCounters>,
    /// Since when it has been answering without a gap; warm-up counts from here. `None` while it does not
    /// answer, and for a server that already answered when we started (it is warm as far as we know).
    #[serde(skip)]
    pub back_since: Option<Instant>,
    /// When it last answered.
    #[serde(skip)]
    pub answered_at: Option<Instant>,
    /// Until when that answer counts. Later, whoever looks takes the server for silent (see
    /// [`Server::aged`]): whatever asks may have died, and an answer without an age would hold for ever.
    /// `None` for one that is given no age.
    #[serde(skip)]
    pub answer_holds_until: Option<Instant>,
    /// How often we ask it; `None` before it answered.
    pub asking: Option<crate::Asking>,
    /// Set while a discovered server has not yet given as many agreeing answers as it takes to be picked.
    pub newcomer: Option<Newcomer>,
    /// What our last question took that is the same one for all servers of a flavour, and when it was
    /// answered. It may be older than the last answer: some visits ask for more.
    #[serde(skip)]
    pub question_time: Option<(Duration, Instant)>,
    /// Round-trip time of our own probe, shortest of the recent ones.
    #[serde(serialize_with = "as_optional_ms", rename = "round_trip_ms")]
    pub round_trip: Option<Duration>,
    /// What our account may not ask it.
    pub lacks: Vec<Lack>,
}

/// A privilege that our account lacks on a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lack {
    /// What is not known because of it.
    pub unknown: String,
    /// The statement that grants it, without its semicolon.
    pub grant: String,
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

/// A server that the operator did not name, in its first answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Newcomer {
    /// Answers in a row that agreed with each other.
    pub agreeing: u32,
    /// How many it takes.
    pub wanted: u32,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct KnownZone {
    /// The zone.
    pub zone: Zone,
    /// How we know.
    pub by: ZoneSource,
}

/// How a zone became known, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ZoneSource {
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
    /// A server about which nothing is known but its address.
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
            last_lag: None,
            seconds_behind: None,
            replication: Replication::Unknown,
            source: None,
            weight: Weight::ONE,
            reserved: None,
            proxy_protocol: false,
            announced: crate::Announcement::Nothing,
            load: Load::default(),
            pool: None,
            back_since: None,
            answered_at: None,
            answer_holds_until: None,
            asking: None,
            newcomer: None,
            question_time: None,
            round_trip: None,
            lacks: Vec::new(),
        }
    }

    /// Whether it counts as answering although its last answer is too old.
    pub fn is_overdue(&self, now: Instant) -> bool {
        self.state == State::Answering && self.answer_holds_until.is_some_and(|until| now > until)
    }

    /// The server as it looks at `now`: silent, and of unknown lag, once its last answer is too old.
    #[must_use]
    pub fn aged(mut self, now: Instant) -> Self {
        if !self.is_overdue(now) {
            return self;
        }
        let age = self.answered_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.state = State::Silent { why: format!("its last answer is {:.1} s old", age.as_secs_f64()) };
        self.forget_what_was_measured();
        self
    }

    /// What only a present answer can say becomes unknown; the lag is kept as the last one known.
    pub fn forget_what_was_measured(&mut self) {
        if let (Some(lag), Some(at)) = (self.lag.take(), self.answered_at) {
            self.last_lag = Some((lag, at));
        }
        self.seconds_behind = None;
        self.replication = Replication::Unknown;
        self.back_since = None;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LagSource;

    #[test]
    fn an_answer_that_is_too_old_is_silence_and_its_lag_is_not_known() {
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let mut server = Server::unasked(ServerName::new("r"), Address::tcp("r", 3306));
        server.state = State::Answering;
        let lag =
            Lag { at_least: Duration::ZERO, uncertainty: Duration::ZERO, source: LagSource::GtidSamples };
        (server.lag, server.seconds_behind) = (Some(lag), Some(0));
        assert_eq!(server.clone().aged(at(99)).state, State::Answering, "one without an age has none");
        (server.answered_at, server.answer_holds_until) = (Some(start), Some(at(4)));
        assert_eq!(server.clone().aged(at(4)).lag, Some(lag));
        let old = server.aged(at(9));
        assert_eq!(old.state, State::Silent { why: "its last answer is 9.0 s old".to_owned() });
        assert_eq!((old.lag, old.seconds_behind, old.last_lag), (None, None, Some((lag, start))));
    }
}
