//! Find: a server for a new session. Picked, connected to, its greeting awaited; when it fails, the next one,
//! until the deadline. The client has not seen a byte, so none of this costs it an error.
//!
//! **Slow is not dead.** A server that has not greeted within `attempt_deadline` is left for the next one.
//! When nobody else is left, those that were only slow are tried again with twice the time, and again, until
//! `connect_deadline`: on a host where everything waits for a processor all of them are slow, and a late
//! session is better than none. A writer has one server to go to: it gives it twice the time, too, whenever
//! it may be tried again. It has `attempt_deadline` for that also where `hold_deadline` is shorter, but waits
//! for no longer than that. The way to a server and back is not its slowness, so each attempt has the round
//! trips of a connection and a greeting beside that.

use crate::connect::{ConnectError, GreetedServer, connect};
use crate::hold::Hold;
use crate::pick::{Because, NoEligibleServer, PickRequest, pick};
use crate::refusal::RefusalReason;
use crate::server_counters::ServerSlot;
use crate::shared_state::RoutingState;
use crate::stream::Stream;
use crate::view::Candidate;
use crate::worker::context::WorkerContext;
use fleet::{Address, ListenerRole, ServerName, State};
use std::sync::Arc;
use tokio::time::Instant;

/// Round trips from a connect to the greeting: one for the connection, at most one for the greeting, and one
/// for a packet that is lost.
const ROUND_TRIPS: u32 = 3;

/// A session that has its server.
pub(crate) struct ServerConnection {
    pub(crate) slot: ServerSlot,
    pub(crate) because: Because,
    pub(crate) greeted: GreetedServer,
    pub(crate) reach: Address,
    /// The server is sent the client's address.
    pub(crate) send_client_address: bool,
}

/// Why a session got no server.
#[derive(Debug)]
pub(crate) enum FindError {
    /// No server may be picked or could be reached: each with its reason.
    NoServer(NoEligibleServer),
    /// As many writer sessions as may wait for a primary do so already.
    TooManyHeld,
    /// This host has run out of descriptors, or of ports for the one server there is: no other would do
    /// better.
    OwnHost(String),
    /// The client has left meanwhile.
    ClientLeft,
}

impl FindError {
    /// What the refusal counts as.
    pub(crate) fn reason(&self) -> RefusalReason {
        match self {
            Self::NoServer(_) | Self::TooManyHeld => RefusalReason::NoServer,
            Self::OwnHost(_) => RefusalReason::NoDescriptor,
            Self::ClientLeft => RefusalReason::LeftAtOnce,
        }
    }
}

/// Servers that failed this session.
struct Tried {
    failed: Vec<(ServerName, String)>,
    /// Those of them that were only slow.
    slow: Vec<ServerName>,
    /// How many times `attempt_deadline` each has.
    patience: u32,
}

impl Default for Tried {
    fn default() -> Self {
        Self { failed: Vec::new(), slow: Vec::new(), patience: 1 }
    }
}

impl Tried {
    fn add(&mut self, server: &ServerName, why: String, slow: bool) {
        self.failed.push((server.clone(), why));
        if slow {
            self.slow.push(server.clone());
        }
    }

    /// Time is up though this server could have been tried.
    fn out_of_time(&mut self, next: &ServerName) -> NoEligibleServer {
        let mut reasons = std::mem::take(&mut self.failed);
        let why = "known and not tried, because the deadline passed before (too many clients at once for this host)";
        reasons.push((next.clone(), why.to_owned()));
        NoEligibleServer { reasons }
    }

    /// Forgets what failed: the fleet looks different. What was slow before gets twice the time.
    fn begin_again(&mut self) {
        self.try_slow_ones_again();
        self.failed.clear();
    }

    /// Forgets that those failed that were only slow, and gives them twice the time; `false` when there is
    /// none.
    fn try_slow_ones_again(&mut self) -> bool {
        let slow = std::mem::take(&mut self.slow);
        self.failed.retain(|(server, _)| !slow.contains(server));
        if slow.is_empty() {
            return false;
        }
        self.patience = self.patience.saturating_mul(2);
        true
    }
}

/// A server for reads. Refused as soon as nobody is left, but for those that were only slow, which are tried
/// again until the deadline; waits for the very first look at the fleet.
pub(crate) async fn reader(worker: &WorkerContext, at: Instant) -> Result<ServerConnection, FindError> {
    let mut changes = worker.shared.changes();
    let config = worker.shared.routing().view.config.clone();
    let until = at + config.connect_deadline;
    let mut tried = Tried::default();
    loop {
        let routing = worker.shared.routing();
        match attempt(worker, &routing, ListenerRole::Reader, until, &mut tried).await {
            Err(FindError::NoServer(_)) if Instant::now() < until && tried.try_slow_ones_again() => {}
            Err(FindError::NoServer(reasons)) => {
                let snapshot = &routing.view.snapshot;
                let anybody_unasked = snapshot.servers.iter().any(|server| server.state == State::Unasked);
                let waits = (!snapshot.settled || anybody_unasked) && Instant::now() < until;
                if !waits || tokio::time::timeout_at(until, changes.changed()).await.is_err() {
                    return Err(FindError::NoServer(reasons));
                }
            }
            done => return done,
        }
    }
}

/// The server that takes writes. While none is known, or it cannot be reached, the session waits up to a
/// deadline.
pub(crate) async fn writer(
    worker: &WorkerContext,
    client: &Stream,
    at: Instant,
) -> Result<ServerConnection, FindError> {
    let mut changes = worker.shared.changes();
    let config = worker.shared.routing().view.config.clone();
    let mut hold: Option<Hold> = None;
    let mut tried = Tried::default();
    loop {
        // Marked as seen before looking, so that a change during the attempt ends the wait at once.
        changes.borrow_and_update();
        let routing = worker.shared.routing();
        let held_until = at + config.hold_deadline;
        let until = held_until.max(at + config.attempt_deadline);
        tried.begin_again();
        let reasons = match attempt(worker, &routing, ListenerRole::Writer, until, &mut tried).await {
            Err(FindError::NoServer(reasons)) => reasons,
            done => return done,
        };
        if Instant::now() >= held_until {
            return Err(FindError::NoServer(reasons));
        }
        if hold.is_none() {
            hold = Hold::take(&worker.shared.held);
        }
        let Some(hold) = &hold else { return Err(FindError::TooManyHeld) };
        match hold.wait(&mut changes, client, held_until).await {
            crate::hold::Ended::Changed => {}
            crate::hold::Ended::ClientLeft => return Err(FindError::ClientLeft),
            crate::hold::Ended::Deadline => return Err(FindError::NoServer(reasons)),
        }
    }
}

/// Tries servers one after the other until one greets, none is left, or this host is at its end.
async fn attempt(
    worker: &WorkerContext,
    routing: &Arc<RoutingState>,
    role: ListenerRole,
    until: Instant,
    tried: &mut Tried,
) -> Result<ServerConnection, FindError> {
    let mut routing = routing.clone();
    loop {
        let view = &routing.view;
        let have = routing.readers();
        let phase = worker.shared.phase;
        let request =
            PickRequest { role, from: view.own_zone.as_ref(), have: &have, tried: &tried.failed, phase };
        let picked = match pick(view, &request, &mut rand::rng()) {
            Ok(picked) if Instant::now() < until => picked,
            Ok(picked) => {
                let next = &view.candidates[picked.server].name;
                return Err(FindError::NoServer(tried.out_of_time(next)));
            }
            Err(reasons) => return Err(FindError::NoServer(reasons)),
        };
        let candidate = &view.candidates[picked.server];
        let slot = ServerSlot::take(routing.counters[picked.server].clone(), role, worker.thread);
        let way = view.snapshot.servers[picked.server].round_trip.unwrap_or_default() * ROUND_TRIPS;
        let limit =
            until.min(Instant::now() + view.config.attempt_deadline.saturating_mul(tried.patience) + way);
        let greeted = connect(&candidate.reach, &worker.shared.names, limit).await;
        match greeted.and_then(|greeted| offers_enough(worker, candidate, greeted)) {
            Ok(greeted) => {
                slot.connected(&picked.because);
                let reach = candidate.reach.clone();
                let send_client_address = candidate.proxy_protocol;
                let because = picked.because;
                return Ok(ServerConnection { slot, because, greeted, reach, send_client_address });
            }
            // Nothing is held against the server.
            Err(ConnectError::NoPort(why)) if role == ListenerRole::Reader => {
                tracing::warn!(server = %candidate.name, why, "no connection; trying the next server");
                tried.add(&candidate.name, why, false);
            }
            Err(error) if !error.blame().may_succeed_elsewhere() => {
                let why = error.into_words();
                tracing::warn!(server = %candidate.name, why, "cannot open a connection");
                return Err(FindError::OwnHost(why));
            }
            Err(error) => {
                let slow = error.is_slow();
                let why = error.into_words();
                failed(worker, &candidate.name, &slot, &why);
                tried.add(&candidate.name, why, slow);
            }
        }
        drop(slot);
        routing = worker.shared.routing();
    }
}

/// Counts and logs that a server failed a session; the first of several that fail together is a warning.
fn failed(worker: &WorkerContext, server: &ServerName, slot: &ServerSlot, why: &str) {
    slot.failed();
    if worker.shared.suspect(server, why) {
        tracing::warn!(%server, why, "server failed a new session; trying the next one");
    } else {
        tracing::debug!(%server, why, "server failed a new session; trying the next one");
    }
}

/// Refuses a server that offers no TLS where that is demanded, or that would not understand what it is to be
/// told: the client has not seen a byte, so the next can be tried.
fn offers_enough(
    worker: &WorkerContext,
    server: &Candidate,
    greeted: GreetedServer,
) -> Result<GreetedServer, ConnectError> {
    let to_servers = worker.shared.server_tls.to_servers();
    if to_servers.is_none() && !server.proxy_protocol {
        return Ok(greeted);
    }
    let greeting = wire::Greeting::parse(greeted.payload());
    if server.proxy_protocol && greeting.as_ref().is_ok_and(|g| g.flavour() == wire::greeting::Flavour::MySql)
    {
        let why =
            "takes no PROXY protocol header (MySQL; MariaDB does): remove proxy_protocol from its [[server]]";
        return Err(ConnectError::Server(why.to_owned()));
    }
    let Some(to_servers) = to_servers.filter(|_| !matches!(greeted.server, Stream::Unix(_))) else {
        return Ok(greeted);
    };
    let offers = greeting.is_ok_and(|greeting| greeting.capabilities.contains(wire::Capabilities::SSL));
    if !offers && !to_servers.preferred {
        return Err(ConnectError::Server("offers no TLS, and [router.tls] demands it".to_owned()));
    }
    worker.shared.server_tls.offered(&server.name, offers);
    Ok(greeted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_had_no_time_to_try_a_server_hears_so_and_not_that_none_is_known() {
        let mut tried = Tried::default();
        let text = |reasons: &NoEligibleServer| crate::refuse::nobody(ListenerRole::Writer, reasons).message;
        let refused = tried.out_of_time(&ServerName::new("a1"));
        assert!(text(&refused).contains("a1: known and not tried"), "{}", text(&refused));
        tried.add(&ServerName::new("a2"), "connection refused".to_owned(), false);
        let refused = tried.out_of_time(&ServerName::new("a1"));
        assert!(
            text(&refused).contains("a2: connection refused; a1: known and not tried"),
            "{}",
            text(&refused)
        );
        assert!(text(&NoEligibleServer::default()).contains("no server is known yet"));
    }
}
