//! Session: one client's life, from accepted to closed.
//!
//! Pick a server, connect, wait for its greeting; when it fails, the next one, until the deadline. Up to here the
//! client has not seen a byte, so none of this costs it an error. Then the relay takes over.

use crate::board::Sight;
use crate::closed::Closed;
use crate::connect::{Failure, Greeted, connect};
use crate::hold::Hold;
use crate::pick::{Ask, Because, Refused, pick};
use crate::refuse;
use crate::relay::polled::Polled;
use crate::roster::Entry;
use crate::stream::{Socket, Stream};
use crate::tally::Seat;
use crate::worker::Worker;
use fleet::{ListenerRole, ServerName, State};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use tokio::time::Instant;
use wire::ErrPacket;

/// A client that has been accepted and waits for a server.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) socket: Socket,
    pub(crate) role: ListenerRole,
    pub(crate) at: Instant,
    /// Its place among the sessions of its listener.
    pub(crate) place: Place,
}

/// Counts a session at its listener, until dropped.
#[derive(Debug)]
pub(crate) struct Place {
    taken: Arc<AtomicUsize>,
    unserved: Arc<AtomicU64>,
}

/// A session that has its server.
struct Placed {
    seat: Seat,
    because: Because,
    greeted: Greeted,
}

/// Why a session got no server.
enum Denied {
    /// Tell the client.
    Refused(ErrPacket),
    /// The client has left meanwhile.
    ClientLeft,
}

impl Place {
    /// Takes a place if fewer than `limit` are taken.
    pub(crate) fn take(taken: &Arc<AtomicUsize>, unserved: &Arc<AtomicU64>, limit: usize) -> Option<Self> {
        let room = |n: usize| (n < limit).then_some(n + 1);
        let place = || Self { taken: taken.clone(), unserved: unserved.clone() };
        taken.fetch_update(Relaxed, Relaxed, room).ok().map(|_| place())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Relaxed);
    }
}

/// Runs a session to its end.
pub(crate) async fn run(worker: Rc<Worker>, arrival: Arrival) {
    let Arrival { socket, role, at, place } = arrival;
    let client = match socket.into_stream() {
        Ok(client) => client,
        Err(error) => {
            tracing::debug!(%error, "client left before its session began");
            return;
        }
    };
    let placed = match role {
        ListenerRole::Reader => reader(&worker, at).await,
        ListenerRole::Writer => writer(&worker, &client, at).await,
    };
    match placed {
        Ok(placed) => relay(&worker, client, placed).await,
        Err(Denied::ClientLeft) => {}
        Err(Denied::Refused(error)) => {
            tracing::info!(%role, code = error.code, text = error.message, "session refused");
            place.unserved.fetch_add(1, Relaxed);
            client.send_now(&error.before_greeting());
        }
    }
    drop(place);
}

async fn relay(worker: &Rc<Worker>, client: Stream, placed: Placed) {
    let Placed { seat, because, greeted } = placed;
    tracing::trace!(server = %seat.tally.name, %because, "session begins");
    let entry = Entry::new(seat);
    worker.roster.add(entry.clone());
    let streams = (client, greeted.server);
    let closed = Polled::new(streams, &greeted.greeting, entry.clone(), worker.pool.clone()).await;
    worker.roster.remove(&entry);
    entry.seat.closed(closed);
    match closed {
        Closed::ClientLeft | Closed::ServerLeft => {
            tracing::trace!(server = %entry.seat.tally.name, why = closed.words(), "session ends");
        }
        _ => tracing::debug!(server = %entry.seat.tally.name, why = closed.words(), "session closed"),
    }
}

/// A server for reads. Refused as soon as nobody is left; waits only for the very first look at the fleet.
async fn reader(worker: &Worker, at: Instant) -> Result<Placed, Denied> {
    let mut changes = worker.board.changes();
    let config = worker.board.sight().view.config.clone();
    let until = at + config.connect_deadline;
    let mut tried = Vec::new();
    loop {
        let sight = worker.board.sight();
        match attempt(worker, &sight, ListenerRole::Reader, until, &mut tried).await? {
            Ok(placed) => return Ok(placed),
            Err(refused) => {
                let snapshot = &sight.view.snapshot;
                let anybody_unasked = snapshot.servers.iter().any(|server| server.state == State::Unasked);
                let unasked = (snapshot.round == 0 || anybody_unasked) && Instant::now() < until;
                if !unasked || tokio::time::timeout_at(until, changes.changed()).await.is_err() {
                    return Err(Denied::Refused(refuse::nobody(ListenerRole::Reader, &refused)));
                }
            }
        }
    }
}

/// The server that takes writes. While none is known, or it cannot be reached, the session is held up to a deadline.
async fn writer(worker: &Worker, client: &Stream, at: Instant) -> Result<Placed, Denied> {
    let mut changes = worker.board.changes();
    let config = worker.board.sight().view.config.clone();
    let mut hold: Option<Hold> = None;
    loop {
        // Marked as seen before looking, so that a change during the attempt ends the wait at once.
        changes.borrow_and_update();
        let sight = worker.board.sight();
        let until = at + config.hold_deadline.max(config.attempt_deadline);
        let refused = match attempt(worker, &sight, ListenerRole::Writer, until, &mut Vec::new()).await? {
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
    tried: &mut Vec<(ServerName, String)>,
) -> Result<Result<Placed, Refused>, Denied> {
    let mut sight = sight.clone();
    loop {
        let view = &sight.view;
        let have = sight.readers();
        let phase = worker.board.phase;
        let ask = Ask { role, from: view.own_zone.as_ref(), have: &have, tried, phase };
        let picked = match pick(view, &ask, &mut rand::rng()) {
            Ok(picked) if Instant::now() < until => picked,
            Ok(_) => return Ok(Err(Refused { reasons: std::mem::take(tried) })),
            Err(refused) => return Ok(Err(refused)),
        };
        let candidate = &view.candidates[picked.server];
        let seat = Seat::take(sight.tallies[picked.server].clone(), role, worker.thread);
        let limit = until.min(Instant::now() + view.config.attempt_deadline);
        match connect(&candidate.reach, limit).await {
            Ok(greeted) => {
                seat.connected(&picked.because);
                worker.board.greeted(&candidate.name);
                return Ok(Ok(Placed { seat, because: picked.because, greeted }));
            }
            Err(Failure::Ourselves(why)) => {
                tracing::warn!(server = %candidate.name, why, "cannot open a connection");
                return Err(Denied::Refused(refuse::own_fault(&why)));
            }
            Err(Failure::Server(why)) => {
                seat.failed();
                drop(seat);
                tracing::warn!(server = %candidate.name, why, "server failed a new session; the next one is tried");
                worker.board.suspect(&candidate.name, &why);
                tried.push((candidate.name.clone(), why));
            }
        }
        sight = worker.board.sight();
    }
}
