//! Find: a server for a new session. Picked, connected to, its greeting awaited; when it fails, the next one, until the
//! deadline. The client has not seen a byte, so none of this costs it an error.
//!
//! **Slow is not dead.** A server that has not greeted within `attempt_deadline` is left for the next one. When nobody else is
//! left, those that were only slow are tried again with twice the time, and again, until `connect_deadline`: on a host
//! where everything waits for a processor all of them are slow, and a late session is better than none.

use crate::board::Sight;
use crate::connect::{Failure, Greeted, connect};
use crate::hold::Hold;
use crate::pick::{Ask, Because, Refused, pick};
use crate::refuse;
use crate::stream::Stream;
use crate::tally::Seat;
use crate::view::Candidate;
use crate::worker::Worker;
use fleet::{Address, ListenerRole, ServerName, State};
use std::sync::Arc;
use tokio::time::Instant;
use wire::ErrPacket;

/// A session that has its server.
pub(crate) struct Placed {
    pub(crate) seat: Seat,
    pub(crate) because: Because,
    pub(crate) greeted: Greeted,
    pub(crate) reach: Address,
    /// The server is told who the client is.
    pub(crate) tell_client: bool,
}

/// Why a session got no server.
pub(crate) enum Denied {
    /// Tell the client.
    Refused(ErrPacket),
    /// The same, and it is this host that has run out of something.
    Ourselves(ErrPacket),
    /// The client has left meanwhile.
    ClientLeft,
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
    fn out_of_time(&mut self, next: &ServerName) -> Refused {
        let mut reasons = std::mem::take(&mut self.failed);
        let why = "known and not tried, because the deadline passed before (too many clients at once for this host)";
        reasons.push((next.clone(), why.to_owned()));
        Refused { reasons }
    }

    /// Forgets that those failed that were only slow, and gives them twice the time; `false` when there is none.
    fn try_slow_ones_again(&mut self) -> bool {
        let slow = std::mem::take(&mut self.slow);
        self.failed.retain(|(server, _)| !slow.contains(server));
        self.patience = self.patience.saturating_mul(2);
        !slow.is_empty()
    }
}

/// A server for reads. Refused as soon as nobody is left, but for those that were only slow, which are tried again until the
/// deadline; waits for the very first look at the fleet.
pub(crate) async fn reader(worker: &Worker, at: Instant) -> Result<Placed, Denied> {
    let mut changes = worker.board.changes();
    let config = worker.board.sight().view.config.clone();
    let until = at + config.connect_deadline;
    let mut tried = Tried::default();
    loop {
        let sight = worker.board.sight();
        match attempt(worker, &sight, ListenerRole::Reader, until, &mut tried).await? {
            Ok(placed) => return Ok(placed),
            Err(_) if Instant::now() < until && tried.try_slow_ones_again() => {}
            Err(refused) => {
                let snapshot = &sight.view.snapshot;
                let anybody_unasked = snapshot.servers.iter().any(|server| server.state == State::Unasked);
                let waits = (!snapshot.settled || anybody_unasked) && Instant::now() < until;
                if !waits || tokio::time::timeout_at(until, changes.changed()).await.is_err() {
                    return Err(Denied::Refused(refuse::nobody(ListenerRole::Reader, &refused)));
                }
            }
        }
    }
}

/// The server that takes writes. While none is known, or it cannot be reached, the session is held up to a deadline.
pub(crate) async fn writer(worker: &Worker, client: &Stream, at: Instant) -> Result<Placed, Denied> {
    let mut changes = worker.board.changes();
    let config = worker.board.sight().view.config.clone();
    let mut hold: Option<Hold> = None;
    loop {
        // Marked as seen before looking, so that a change during the attempt ends the wait at once.
        changes.borrow_and_update();
        let sight = worker.board.sight();
        let until = at + config.hold_deadline.max(config.attempt_deadline);
        let refused =
            match attempt(worker, &sight, ListenerRole::Writer, until, &mut Tried::default()).await? {
                Ok(placed) => return Ok(placed),
                Err(refused) => refused,
            };
        if hold.is_none() {
            hold = Hold::take(&worker.board.held);
        }
        let Some(hold) = &hold else {
            return Err(Denied::Refused(refuse::too_many_held(Hold::MOST)));
        };
        match hold.wait(&mut changes, client, until).await {
            crate::hold::Ended::Changed => {}
            crate::hold::Ended::ClientLeft => return Err(Denied::ClientLeft),
            crate::hold::Ended::Deadline => {
                return Err(Denied::Refused(refuse::nobody(ListenerRole::Writer, &refused)));
            }
        }
    }
}

/// Tries servers one after the other until one greets, none is left (inner error), or this host is at its end.
async fn attempt(
    worker: &Worker,
    sight: &Arc<Sight>,
    role: ListenerRole,
    until: Instant,
    tried: &mut Tried,
) -> Result<Result<Placed, Refused>, Denied> {
    let mut sight = sight.clone();
    loop {
        let view = &sight.view;
        let have = sight.readers();
        let phase = worker.board.phase;
        let ask = Ask { role, from: view.own_zone.as_ref(), have: &have, tried: &tried.failed, phase };
        let picked = match pick(view, &ask, &mut rand::rng()) {
            Ok(picked) if Instant::now() < until => picked,
            Ok(picked) => return Ok(Err(tried.out_of_time(&view.candidates[picked.server].name))),
            Err(refused) => return Ok(Err(refused)),
        };
        let candidate = &view.candidates[picked.server];
        let seat = Seat::take(sight.tallies[picked.server].clone(), role, worker.thread);
        let limit = until.min(Instant::now() + view.config.attempt_deadline * tried.patience);
        let greeted = connect(&candidate.reach, &worker.board.names, limit).await;
        match greeted.and_then(|greeted| offers_enough(worker, candidate, greeted)) {
            Ok(greeted) => {
                seat.connected(&picked.because);
                let reach = candidate.reach.clone();
                let tell_client = candidate.proxy_protocol;
                return Ok(Ok(Placed { seat, because: picked.because, greeted, reach, tell_client }));
            }
            Err(Failure::Ourselves(why)) => {
                tracing::warn!(server = %candidate.name, why, "cannot open a connection");
                return Err(Denied::Ourselves(refuse::own_fault(&why)));
            }
            Err(failure) => {
                let slow = matches!(failure, Failure::Slow(_));
                let (Failure::Server(why) | Failure::Slow(why) | Failure::Ourselves(why)) = failure;
                seat.failed();
                drop(seat);
                let name = &candidate.name;
                if worker.board.suspect(name, &why) {
                    tracing::warn!(server = %name, why, "server failed a new session; the next one is tried");
                } else {
                    tracing::debug!(server = %name, why, "server failed a new session; the next one is tried");
                }
                tried.add(&candidate.name, why, slow);
            }
        }
        sight = worker.board.sight();
    }
}

/// Refuses a server that offers no TLS where that is demanded, or that would not understand what it is to be told: the
/// client has not seen a byte, so the next can be tried.
fn offers_enough(worker: &Worker, server: &Candidate, greeted: Greeted) -> Result<Greeted, Failure> {
    let to_servers = worker.board.secrecy.to_servers();
    if to_servers.is_none() && !server.proxy_protocol {
        return Ok(greeted);
    }
    let greeting = wire::Greeting::parse(greeted.payload());
    if server.proxy_protocol && greeting.as_ref().is_ok_and(|g| g.flavour() == wire::greeting::Flavour::MySql)
    {
        let why =
            "takes no PROXY protocol header (MySQL; MariaDB does): remove proxy_protocol from its [[server]]";
        return Err(Failure::Server(why.to_owned()));
    }
    let Some(to_servers) = to_servers.filter(|_| !matches!(greeted.server, Stream::Unix(_))) else {
        return Ok(greeted);
    };
    let offers = greeting.is_ok_and(|greeting| greeting.capabilities.contains(wire::Capabilities::SSL));
    if !offers && !to_servers.preferred {
        return Err(Failure::Server("offers no TLS, and [router.tls] demands it".to_owned()));
    }
    worker.board.secrecy.offered(&server.name, offers);
    Ok(greeted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_had_no_time_to_try_a_server_is_told_so_and_not_that_none_is_known() {
        let mut tried = Tried::default();
        let told = |refused: &Refused| refuse::nobody(ListenerRole::Writer, refused).message;
        let refused = tried.out_of_time(&ServerName::new("a1"));
        assert!(told(&refused).contains("a1: known and not tried"), "{}", told(&refused));
        tried.add(&ServerName::new("a2"), "connection refused".to_owned(), false);
        let refused = tried.out_of_time(&ServerName::new("a1"));
        assert!(
            told(&refused).contains("a2: connection refused; a1: known and not tried"),
            "{}",
            told(&refused)
        );
        assert!(told(&Refused::default()).contains("no server is known yet"));
    }
}
