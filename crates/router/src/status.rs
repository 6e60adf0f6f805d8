//! Status: what the router would tell an operator now. One value, for the page, the JSON and the metrics.

use crate::closed::Closed;
use crate::event::{EventRecord, Kind};
use crate::flow::Flow;
use crate::listener::Listener;
use crate::path::Path;
use crate::pending_move::PendingMove;
use crate::pick::Because;
use crate::record::RecordingStatus;
use crate::server_counters::Totals;
use crate::shared_state::{RoutingState, SharedState};
use crate::view::View;
use crate::zero_hop::{ListenerZeroHop, ZeroHop, ZeroHopStatus};
use fleet::{Address, DemandSource, Lag, ListenerRole, Role, ServerName, State, WriterStatus, Zone};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Everything an operator may want to know of the data plane.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Number of the snapshot in force.
    pub round: u64,
    /// How old its last answer is, milliseconds.
    pub snapshot_age_ms: u64,
    /// Where we stand.
    pub own_zone: Option<Zone>,
    /// Who takes writes.
    pub writer: WriterStatus,
    /// Every server.
    pub servers: Vec<ServerStatus>,
    /// Which share of each zone's reads goes where.
    pub flow: Flow,
    /// How demand was measured.
    pub demand_source: DemandSource,
    /// Every listener.
    pub listeners: Vec<ListenerStatus>,
    /// Sessions of all listeners.
    pub sessions: usize,
    /// How many the limit of file descriptors leaves room for; `None` where there is no limit.
    pub most_sessions: Option<usize>,
    /// Writer sessions that wait for a primary.
    pub held: usize,
    /// What is done instead of what was asked for.
    pub fallbacks: Vec<FallbackStatus>,
    /// Sessions that should leave a server and have not yet, and what that waits for.
    pub leaving: Vec<PendingMove>,
    /// The last changes, oldest first.
    #[serde(skip)]
    pub events: Vec<EventRecord>,
    /// The way of sessions' bytes: `io_uring` or `epoll`.
    pub data_path: &'static str,
    /// Threads of the data plane, with their sessions.
    pub threads: Vec<usize>,
    /// Whether connections bypass the router.
    pub zero_hop: ZeroHopStatus,
    /// The recording under way.
    pub recording: Option<RecordingStatus>,
    /// What is wrong with our own threads and tasks, in words; empty when nothing is.
    pub troubles: Vec<String>,
    /// Threads and tasks of ours that ended and were started anew, ever.
    pub restarts: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct ServerStatus {
    pub name: ServerName,
    pub reach: Address,
    pub role: Role,
    /// Why it has that role.
    pub because: String,
    /// Whether it answers.
    pub state: State,
    /// Where it stands.
    pub zone: Option<Zone>,
    /// For how long it has answered, or not; `None` while nothing was noted of it.
    pub state_for: Option<Duration>,
    /// For how long it has had its role.
    pub role_for: Option<Duration>,
    /// For how long it may be picked for reads, or may not for the reason it has.
    pub reads_for: Option<Duration>,
    /// How far behind.
    pub lag: Option<Lag>,
    /// Whether it may be picked for reads.
    pub reads: Eligibility,
    /// Whether it may be picked for writes.
    pub writes: Eligibility,
    /// What its capacity is made of, whether or not it may be picked.
    pub capacity: crate::capacity::Capacity,
    /// Why it counts for less than its weight because it is slow, in words; `None` when it does not.
    pub slow: Option<String>,
    /// Why it counts for less than its weight because it warms up, in words; `None` when it is warm.
    pub warming: Option<String>,
    /// Why it is the clock that says how warm it is, in words; `None` where its misses say so.
    pub warm_by_clock: Option<&'static str>,
    /// For how many average sessions one of its reader sessions counts, by what they do; `None` while that is
    /// not known, which counts as one.
    pub per_session: Option<f64>,
    /// The same in words; `None` unless sessions count by their work and it has some.
    pub work: Option<String>,
    /// The share of our own reads that should go there, 0 to 1.
    pub share: f64,
    /// Milliseconds until what is left of its sessions is cut, while it is drained by command.
    pub draining_ms: Option<u64>,
    /// Reader sessions of ours.
    pub readers: u32,
    /// Writer sessions of ours.
    pub writers: u32,
    /// Of both, those that bypass the router.
    pub bypassed: u32,
    /// Sessions begun, ever.
    pub connections: u64,
    /// New sessions it failed, ever.
    pub failures: u64,
    /// Bytes relayed to it.
    pub bytes_to_server: u64,
    /// Bytes relayed from it.
    pub bytes_to_client: u64,
    /// Commands of relayed sessions that it answered whole, as far as sessions can be read (not with TLS).
    pub commands: u64,
    /// Commands of sessions that bypass the router, estimated from those that are mirrored; `None` where none
    /// was.
    pub commands_bypassed: Option<u64>,
    /// Picks by reason, ever; reasons that never came up are left out.
    pub picks: BTreeMap<&'static str, u64>,
    /// Sessions ended by reason, ever; reasons that never came up are left out.
    pub closed: BTreeMap<&'static str, u64>,
    /// Its commits hang, although it answers.
    pub gray: Option<crate::gray::Gray>,
}

/// Whether a server may be picked, or why not.
#[derive(Clone, Debug, Serialize)]
pub struct Eligibility {
    /// It may.
    pub eligible: bool,
    /// Its weight by speed and warmth; 0 when it may not.
    pub capacity: f64,
    /// Why not, in words.
    pub reason: Option<String>,
    /// Its stable name, for metrics.
    pub reason_name: Option<&'static str>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ListenerStatus {
    /// The address, as bound.
    pub address: Address,
    /// What its clients want.
    pub role: ListenerRole,
    pub sessions: usize,
    /// Sessions beyond this are refused.
    pub max_sessions: usize,
    /// Clients accepted, ever.
    pub accepted: u64,
    /// Clients that are logging in now.
    pub connecting: usize,
    /// Clients beyond this are refused while this many are logging in.
    pub max_connecting: usize,
    /// What it does with TLS from its clients.
    pub tls: &'static str,
    /// Whether it asks them for a certificate: `off`, `wanted`, `required`.
    pub tls_client_cert: &'static str,
    /// Logins by what carried them, ever: in the open (`plain`), in TLS that ends here (`tls`), in TLS that
    /// passes through or another form that cannot be read (`opaque`).
    pub logins: BTreeMap<&'static str, u64>,
    /// Clients that got no session, ever, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Whether its connections bypass the router.
    pub zero_hop: ListenerZeroHop,
}

/// A fallback in force.
#[derive(Clone, Debug, Serialize)]
pub struct FallbackStatus {
    /// Its stable name.
    pub name: &'static str,
    /// What happens instead, in words.
    pub words: String,
}

/// Puts it all together.
pub(crate) fn status(
    shared: &SharedState,
    listeners: &[Arc<Listener>],
    threads: Vec<usize>,
    path: &Path,
    zero_hop: Option<&ZeroHop>,
) -> Status {
    let zero_hop = zero_hop.map(ZeroHop::status).unwrap_or_default();
    let routing = shared.routing();
    let now = Instant::now();
    let drains = shared.drains();
    let drain_left = |name: &ServerName| -> Option<Duration> {
        drains.get(name).map(|drain| drain.deadline.saturating_duration_since(now))
    };
    let view = &routing.view;
    let snapshot = &view.snapshot;
    let shares = view.shares(view.own_zone.as_ref());
    let listeners: Vec<ListenerStatus> =
        listeners.iter().map(|listener| listener_status(listener, &zero_hop)).collect();
    let history = shared.history();
    let lasts = |kind, name: &ServerName| {
        history.since(kind, name.as_str()).map(|since| now.saturating_duration_since(since))
    };
    let lasts = |name: &ServerName| [Kind::State, Kind::Role, Kind::Eligible].map(|kind| lasts(kind, name));
    Status {
        round: snapshot.round,
        snapshot_age_ms: now.saturating_duration_since(snapshot.at).as_millis() as u64,
        own_zone: view.own_zone.clone(),
        writer: snapshot.writer.clone(),
        servers: (0..snapshot.servers.len())
            .map(|at| {
                let name = &snapshot.servers[at].name;
                server(&routing, at, shares[at], drain_left(name), lasts(name))
            })
            .collect(),
        flow: view.flow.clone(),
        demand_source: snapshot.demand.source,
        sessions: listeners.iter().map(|l| l.sessions + l.zero_hop.sessions).sum(),
        listeners,
        most_sessions: None,
        held: shared.held.load(Relaxed),
        fallbacks: fallbacks(shared, view, path),
        leaving: shared.pending_moves(),
        events: history.events(),
        data_path: path.name(),
        threads,
        zero_hop: zero_hop.whole.clone(),
        recording: shared.recorder.status(),
        troubles: shared.health.troubles(),
        restarts: shared.health.restarts(),
    }
}

/// Servers without TLS though it is preferred.
fn unencrypted(shared: &SharedState) -> Option<FallbackStatus> {
    let names: Vec<String> = shared.server_tls.without().iter().map(ToString::to_string).collect();
    let words = || format!("{} offers no TLS: its sessions are not encrypted", names.join(", "));
    (!names.is_empty()).then(|| FallbackStatus { name: "server_without_tls", words: words() })
}

fn fallbacks(shared: &SharedState, view: &View, path: &Path) -> Vec<FallbackStatus> {
    let of_view = view.fallbacks.iter().map(|f| FallbackStatus { name: f.name(), words: f.to_string() });
    let of_path = path.why_not_ring.iter().map(|why| FallbackStatus {
        name: "epoll",
        words: format!("sessions are relayed with epoll instead of io_uring, at a higher cost: {why}"),
    });
    let of_rings = shared.health.rings_lost();
    let of_rings = of_rings.into_iter().map(|(ring, why)| FallbackStatus {
        name: "epoll",
        words: format!(
            "{ring} has ended ({why}): its thread relays new sessions with epoll, at a higher cost, until the next start"
        ),
    });
    of_view.chain(of_path).chain(of_rings).chain(unencrypted(shared)).collect()
}

fn listener_status(listener: &Listener, zero_hop: &crate::zero_hop::ZeroHopOverview) -> ListenerStatus {
    let logins = &listener.logins;
    ListenerStatus {
        address: listener.bound.clone(),
        role: listener.role(),
        sessions: listener.sessions(),
        max_sessions: listener.max_sessions(),
        accepted: listener.accepted.load(Relaxed),
        connecting: listener.connecting(),
        max_connecting: listener.max_connecting(),
        tls: listener.terms().mode.word(),
        tls_client_cert: listener.config().tls.client_cert.word(),
        logins: [("plain", &logins.plain), ("tls", &logins.tls), ("opaque", &logins.opaque)]
            .map(|(word, count)| (word, count.load(Relaxed)))
            .into(),
        refused: listener.refusals.all().collect(),
        zero_hop: zero_hop.listeners.get(&listener.bound).cloned().unwrap_or_default(),
    }
}

/// What a server's reader sessions count for by what they do, in words.
fn work(per_session: Option<f64>) -> String {
    match per_session {
        Some(count) => format!("a session counts as {count:.2} average ones, by what it does"),
        None => "what its sessions do is unknown: each counts as the mean".to_owned(),
    }
}

fn server(
    routing: &RoutingState,
    at: usize,
    share: f64,
    draining: Option<Duration>,
    [state_for, role_for, reads_for]: [Option<Duration>; 3],
) -> ServerStatus {
    let (candidate, seen) = (&routing.view.candidates[at], &routing.view.snapshot.servers[at]);
    let eligibility = |verdict: &crate::eligible::Verdict| Eligibility {
        eligible: verdict.is_eligible(),
        capacity: verdict.capacity(),
        reason: verdict.reason().map(ToString::to_string),
        reason_name: verdict.reason().map(crate::eligible::Reason::name),
    };
    let Totals {
        readers,
        writers,
        bypassed,
        connections,
        failures,
        bytes_to_server,
        bytes_to_client,
        commands,
        commands_bypassed,
        picks,
        closed,
    } = routing.counters[at].totals();
    ServerStatus {
        name: candidate.name.clone(),
        reach: candidate.reach.clone(),
        role: candidate.role,
        because: seen.because.clone(),
        state: seen.state.clone(),
        zone: candidate.zone.clone(),
        state_for,
        role_for,
        reads_for,
        lag: seen.lag,
        reads: eligibility(&candidate.reads),
        writes: eligibility(&candidate.writes),
        capacity: candidate.capacity,
        slow: candidate.speed.reason(Instant::now()),
        warming: candidate.heat.reason(candidate.capacity.warmth, Instant::now()),
        warm_by_clock: candidate.heat.by_clock(&routing.view.config),
        per_session: routing.per_session[at],
        work: (routing.view.config.capacity.work && readers > 0).then(|| work(routing.per_session[at])),
        share,
        draining_ms: draining.map(|d| d.as_millis() as u64),
        readers,
        writers,
        bypassed,
        connections,
        failures,
        bytes_to_server,
        bytes_to_client,
        commands,
        commands_bypassed: Some(commands_bypassed).filter(|commands| *commands > 0),
        picks: named(&Because::WORDS, &picks),
        closed: named(&Closed::WORDS, &closed),
        gray: routing.counters[at].gray(),
    }
}

fn named(words: &[&'static str], counts: &[u64]) -> BTreeMap<&'static str, u64> {
    words.iter().copied().zip(counts.iter().copied()).filter(|(_, count)| *count > 0).collect()
}
