//! What `/status.json`, the page, the metrics and `headroom status` show: one set of plain values, filled
//! from the last snapshot and the router's own status. The words are those of the log; the field names are a
//! promise to whoever reads the JSON, so they change only by addition.

use crate::objectives::view::{ObjectiveView, WebhookView};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What clients and servers in no known zone are called.
pub const NO_ZONE: &str = "(unknown)";

/// Everything a running `headroom route` shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusView {
    /// Who answers.
    pub process: ProcessView,
    /// The fleet as last seen.
    #[serde(flatten)]
    pub fleet: FleetView,
    /// Share of the reads born in each zone that goes to each zone.
    pub flow: FlowView,
    /// The way of sessions' bytes: `io_uring` or `epoll`; empty while nothing is routed.
    pub data_path: String,
    /// Sessions of all listeners that the limit of file descriptors leaves room for; `null` where there is no
    /// limit.
    pub most_sessions: Option<u64>,
    /// Where clients come.
    pub listeners: Vec<ListenerView>,
    /// Whether their connections bypass the router.
    pub zero_hop: ZeroHopView,
    /// The recording under way: literals of people's data leave this process.
    pub recording: Option<RecordingView>,
    /// What is not as it should be and how it is made up for; each has a name that metrics use too.
    pub fallbacks: Vec<FallbackView>,
    /// Sessions that should leave a server and have not yet, and what that waits for.
    pub leaving: Vec<LeavingView>,
    /// The last changes, newest first: 200 at most, since this process started.
    pub events: Vec<EventView>,
    /// What is wrong with the router's own threads and tasks, in words; empty when nothing is.
    pub troubles: Vec<String>,
    /// Threads and tasks of the router that ended and were started anew, since the start.
    pub restarts: u64,
    /// What is promised of statements, and whether it is kept.
    pub objectives: Vec<ObjectiveView>,
    /// Who is told when it is not.
    pub webhook: Option<WebhookView>,
    /// What happened since the start.
    pub counters: CountersView,
}

/// One change of what this view shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventView {
    /// When, ms since 1970.
    pub at_ms: u64,
    /// Seconds ago.
    pub age_s: f64,
    /// `info` or `warn`.
    pub severity: String,
    /// `membership`, `state`, `role`, `replication`, `eligible`, `writer`, `fallback` or `flow`.
    pub kind: String,
    /// The server, fallback or zone it is about; empty for the writer.
    pub subject: String,
    /// What happened.
    pub text: String,
    /// For how long it had been as it was before; `null` for what is new.
    pub lasted_s: Option<f64>,
}

/// Sessions that should leave a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeavingView {
    /// The server.
    pub server: String,
    /// `reader` or `writer`.
    pub role: String,
    /// How many of its sessions.
    pub sessions: u64,
    /// Why.
    pub why: String,
    /// What it waits for.
    pub waits_for: String,
}

/// A recording under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordingView {
    /// Seconds since it began.
    pub since_s: f64,
    /// Seconds until it ends by itself.
    pub left_s: f64,
    /// One session in this many is recorded.
    pub one_in: u32,
    /// Sessions recorded.
    pub sessions: u64,
    /// Commands recorded.
    pub commands: u64,
    /// Bytes recorded.
    pub bytes: u64,
    /// Events dropped because the command that records could not keep up.
    pub lost: u64,
}

impl RecordingView {
    /// In words.
    pub fn text(&self) -> String {
        let which = match self.one_in {
            0 | 1 => "what all clients send is recorded, literals included".to_owned(),
            n => format!("what one session in {n} sends is recorded, literals included"),
        };
        let lost = match self.lost {
            0 => String::new(),
            lost => format!(", {lost} events lost"),
        };
        format!(
            "{which}: {} commands of {} sessions so far{lost}; it ends by itself in {:.0} s",
            self.commands, self.sessions, self.left_s
        )
    }
}

/// The process that answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessView {
    /// Version of Headroom.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Whether it takes no new clients any more and waits for its sessions to end.
    pub stopping: bool,
    /// Seconds since it started.
    pub uptime_s: f64,
    /// The configuration file; `null` when flags were given in its place.
    pub config: Option<String>,
    /// The last time the file was read again, if ever.
    pub reload: Option<ReloadView>,
    /// That it uses up the CPU limit of its own cgroup, in words; `null` where none does.
    pub held_back: Option<String>,
}

/// One reading of the configuration file after the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReloadView {
    /// Whether it was taken over.
    pub accepted: bool,
    /// Seconds ago.
    pub age_s: f64,
    /// What changed, or why it was refused.
    pub notes: Vec<String>,
}

/// The fleet: also what `headroom fleet --json` prints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetView {
    /// Counts up with each round of questions.
    pub round: u64,
    /// How old the last answer is, ms.
    pub age_ms: f64,
    /// Our own zone.
    pub own_zone: Option<ZoneView>,
    /// The server that takes writes.
    pub writer: Option<String>,
    /// Why none can be named.
    pub writer_unknown_because: Option<String>,
    /// How far switchovers and failovers have come.
    pub epoch: EpochView,
    /// Reads born per zone.
    pub demand: DemandView,
    /// Every server, primary first, then by zone and name.
    pub servers: Vec<ServerView>,
    /// What the operator should know.
    pub remarks: Vec<String>,
}

/// Epochs of switchovers and failovers, as this process knows them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EpochView {
    /// The highest that was ever seen; 0 before the first.
    pub highest: u64,
    /// Where, in words.
    pub source: String,
    /// Whether it is known after a restart without asking the servers.
    pub survives_restart: bool,
    /// Why it could not be remembered.
    pub trouble: Option<String>,
    /// Servers that do not say theirs, each with the reason.
    pub unknown: Vec<(String, String)>,
    /// What is ignored now.
    pub ignored: Vec<IgnoredClaimView>,
    /// What was ignored since the start.
    pub ignored_total: u64,
}

/// A server's word that does not count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IgnoredClaimView {
    /// Who claims.
    pub server: String,
    /// Its own epoch.
    pub epoch: u64,
    /// `writes`, `announces` or `unrecorded`.
    pub claim: String,
}

/// A zone and how it is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ZoneView {
    /// Its name.
    pub zone: String,
    /// `rule`, `metadata` or `round_trip`.
    pub by: String,
}

/// Demand per zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DemandView {
    /// How it is measured, in words.
    pub source: String,
    /// Reads per second over the whole fleet; `null` where the servers do not count them.
    pub reads_per_second: Option<f64>,
    /// The servers count reads, and there are next to none.
    pub idle: bool,
    /// Share of reads that no zone could be given.
    pub unplaced: f64,
    /// Share per zone.
    pub zones: BTreeMap<String, f64>,
}

/// One server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerView {
    /// What people call it.
    pub name: String,
    /// How we reach it.
    pub reach: String,
    /// Flavour and version.
    pub version: Option<String>,
    /// `primary`, `replica`, `stray` or `unknown`.
    pub role: String,
    /// Why, in words.
    pub because: String,
    /// `answering`, `silent`, `failing` or `unasked`.
    pub state: String,
    /// What is wrong when it is not answering.
    pub state_because: Option<String>,
    /// For how many seconds it has been so; `null` in `headroom fleet`.
    pub state_for_s: Option<f64>,
    /// For how many seconds it has had its role; `null` in `headroom fleet`.
    pub role_for_s: Option<f64>,
    /// Where it stands.
    pub zone: Option<ZoneView>,
    /// How far behind, in words: `0 to 500 ms`, `unknown since 4 min 12 s`, `-` where there is none.
    pub lag_text: String,
    /// For how many seconds a replica's lag has not been known; `null` while it is, and where it never was.
    pub lag_unknown_for_s: Option<f64>,
    /// At least this far behind, ms; `null` while that is not known.
    pub lag_ms: Option<f64>,
    /// At most this far behind, ms: what `max_lag` is compared with.
    pub lag_at_most_ms: Option<f64>,
    /// Where the figure comes from.
    pub lag_source: Option<String>,
    /// The server's own figure, s.
    pub seconds_behind: Option<u64>,
    /// Replication in words: `running`, `stopped (applier): ...`.
    pub replication: String,
    /// What it replicates from.
    pub source: Option<String>,
    /// Relative capacity.
    pub weight: f64,
    /// The rule that keeps it out of routing.
    pub reserved: Option<String>,
    /// Client sessions by its own count, ours for watching left out.
    pub all_sessions: u32,
    /// Statements that run there now, by its own count.
    pub running: u32,
    /// Statements per second by its own count.
    pub statements_per_second: f64,
    /// Its share of the statements of all replicas; `null` on a server that is none, or does not answer.
    pub share_of_load: Option<f64>,
    /// Round-trip time of our probe, ms.
    pub round_trip_ms: Option<f64>,
    /// Milliseconds between two visits of ours to it now; `null` before it answered.
    pub asked_every_ms: Option<f64>,
    /// Milliseconds between two samples of its counters now, by which its warmth is known; `null` before the
    /// first.
    pub counted_every_ms: Option<f64>,
    /// How many routers ask it, by the seats they take there; `null` where they cannot be counted.
    pub routers: Option<u64>,
    /// Why it is not asked as often as configured; `null` if it is.
    pub asked_because: Option<String>,
    /// What this router does with it; `null` in `headroom fleet`.
    pub routing: Option<RoutingView>,
}

/// What this router does with a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoutingView {
    /// Whether it may be picked for reads.
    pub reads: EligibleView,
    /// Whether it may be picked for writes.
    pub writes: EligibleView,
    /// For how many seconds it has or has not been eligible for reads.
    pub reads_for_s: Option<f64>,
    /// How fast it is beside the others, 1/4 to 1; 1 while that is not known.
    pub speed: Option<f64>,
    /// Why it counts for less because it is slow, in words.
    pub slow: Option<String>,
    /// How warm it is, above 0 to 1.
    pub warmth: Option<f64>,
    /// Why it counts for less because it warms up, in words.
    pub warming: Option<String>,
    /// Why it is the clock that says how warm it is, or ended its warm-up, in words; `null` where its misses
    /// said so.
    pub warm_by_clock: Option<String>,
    /// For how many average sessions one of its reader sessions counts, by what they do; `null` while that is
    /// not known, which counts as one.
    pub work_per_session: Option<f64>,
    /// The same in words, also where it is not known; `null` unless sessions count by their work.
    pub work: Option<String>,
    /// Share of our own reads that should go there.
    pub share: f64,
    /// Whether it is being emptied by command.
    pub draining: bool,
    /// Milliseconds until what is left of its sessions is cut.
    pub draining_ms: Option<u64>,
    /// Our sessions on it now.
    pub sessions: u64,
    /// Those of reader listeners.
    pub readers: u64,
    /// Those of writer listeners.
    pub writers: u64,
    /// Those of both that bypass the router.
    pub bypassed: u64,
    /// Connections we made to it.
    pub connections: u64,
    /// Connections that failed, the client having noticed nothing.
    pub failures: u64,
    /// Bytes from clients to it.
    pub bytes_to_server: u64,
    /// Bytes from it to clients.
    pub bytes_to_client: u64,
    /// Commands of sessions through the router.
    pub commands: u64,
    /// Commands of sessions that bypass the router, estimated from those that are measured; `null` where none
    /// was.
    pub commands_bypassed: Option<u64>,
    /// How often it was picked, by reason.
    pub picks: BTreeMap<String, u64>,
    /// Sessions on it that ended, by reason.
    pub closed: BTreeMap<String, u64>,
    /// Its commits hang although it answers (a gray failure): the evidence.
    pub gray: Option<String>,
}

/// Whether a server may be picked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EligibleView {
    /// It may.
    pub eligible: bool,
    /// Its weight by speed and warmth; 0 when it may not.
    pub capacity: f64,
    /// Why not, in words.
    pub reason: Option<String>,
    /// Why not, in one word of a fixed list, for metrics.
    pub reason_label: Option<String>,
}

/// The flow table: row i, column j is the share of the reads born in `zones[i]` that goes to servers of
/// `zones[j]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowView {
    /// The zones; "(unknown)" is whoever lies in none.
    pub zones: Vec<String>,
    /// Share of all reads born in each.
    pub demand: Vec<f64>,
    /// Share of the eligible capacity in each.
    pub capacity: Vec<f64>,
    /// The table.
    pub rows: Vec<Vec<f64>>,
}

/// A listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListenerView {
    /// Where.
    pub address: String,
    /// `reader` or `writer`.
    pub role: String,
    /// Open now through the router.
    pub sessions: u64,
    /// Open now, those that bypass the router among them.
    pub open: u64,
    /// More than these are refused.
    pub max_sessions: u64,
    /// Logging in now.
    pub connecting: u64,
    /// More than these are refused while they are logging in.
    pub max_connecting: u64,
    /// `passthrough`, `off`, `preferred` or `required`.
    pub tls: String,
    /// Whether it asks clients for a certificate: `off`, `optional` or `required`.
    pub tls_client_cert: String,
    /// Accepted by the router since the start.
    pub accepted: u64,
    /// Accepted, and those that the kernel sent to a server directly.
    pub connections: u64,
    /// Logins since the start: `plain`, `tls` (ended here), `opaque` (cannot be read).
    pub logins: BTreeMap<String, u64>,
    /// Refused since the start, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Whether its connections bypass the router.
    pub zero_hop: ListenerZeroHopView,
}

/// Whether connections go straight to a server, bypassing this process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ZeroHopView {
    /// Programs are in force in the kernel.
    pub in_force: bool,
    /// For whom, or why not.
    pub text: String,
    /// What limits the ending of sessions that bypass the router, if anything.
    pub limits: Vec<String>,
}

/// The same of a listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListenerZeroHopView {
    /// New connections bypass the router, but for those that `text` tells of.
    pub in_force: bool,
    /// Which, or why not.
    pub text: String,
    /// Sessions that bypass the router now; `sessions` of the listener does not count them.
    pub sessions: u64,
    /// Connections that bypassed the router since the programs were brought in.
    pub bypassed: u64,
    /// Connections that the kernel left to the listener, by reason.
    pub ordinary: BTreeMap<String, u64>,
}

/// A fallback in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FallbackView {
    /// Its name, a word of a fixed list.
    pub name: String,
    /// What it means now.
    pub text: String,
}

/// Since the start, and now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CountersView {
    /// Writer connections that wait for a primary now.
    pub holding: u64,
    /// Sessions that ended, on all servers, by reason: by themselves, moved, drained, cut.
    pub closed: BTreeMap<String, u64>,
}
