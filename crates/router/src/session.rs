//! Session: one client's life, from accepted to closed.
//!
//! Pick a server, connect, wait for its greeting; when it fails, the next one, until the deadline. Up to here the
//! client has not seen a byte, so none of this costs it an error. Then the login is carried through, within a deadline
//! of its own, and the relay takes over.

use crate::board::Sight;
use crate::closed::Closed;
use crate::connect::{Failure, Greeted, connect};
use crate::door::{self, Place};
use crate::hold::Hold;
use crate::identity;
use crate::login::{Failed, Means, Opened, Why, change_user, log_in};
use crate::pick::{Ask, Because, Refused, pick};
use crate::refuse;
use crate::relay::polled::Polled;
use crate::relay::ring::Handed;
use crate::relay::{Ended, Relay};
use crate::roster::Entry;
use crate::stream::{Socket, Stream};
use crate::tally::Seat;
use crate::tls::ToServers;
use crate::turned_away::TurnedAway;
use crate::view::Candidate;
use crate::worker::{Counted, Stay, Worker};
use fleet::config::ClientTlsMode;
use fleet::{Address, ListenerRole, ServerName, State};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::time::Instant;
use wire::bridge::{Bridge, FromClient, Refusal, Terms};
use wire::{ErrPacket, Phase};

/// A client that has been accepted and waits for a server.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) socket: Socket,
    /// Where it comes from; `None` by unix socket.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) role: ListenerRole,
    pub(crate) at: Instant,
    /// Its place among the sessions of its listener.
    pub(crate) place: Place,
}

/// A session that has its server.
struct Placed {
    seat: Seat,
    because: Because,
    greeted: Greeted,
    reach: Address,
    /// The server is told who the client is.
    tell_client: bool,
}

/// Why a session got no server.
enum Denied {
    /// Tell the client.
    Refused(ErrPacket),
    /// The client has left meanwhile.
    ClientLeft,
}

/// Lets a client in: from accepted to relayed, or turned away.
pub(crate) async fn run(worker: Rc<Worker>, arrival: Arrival, counted: Counted) {
    let Arrival { socket, peer, role, at, place } = arrival;
    let mut client = match socket.into_stream() {
        Ok(client) => client,
        Err(error) => {
            tracing::debug!(%error, "client left before its session began");
            return;
        }
    };
    let peer = match identify(&worker, &place, &mut client, peer).await {
        Ok(peer) => peer,
        Err((why, error)) => {
            tracing::info!(client = ?peer, code = error.code, text = error.message, "session refused");
            place.door.turned_away.add(why);
            client.send_now(&error.before_greeting());
            return;
        }
    };
    let placed = match role {
        ListenerRole::Reader => reader(&worker, at).await,
        ListenerRole::Writer => writer(&worker, &client, at).await,
    };
    match placed {
        Ok(placed) => begin(&worker, client, placed, peer, Stay { place, counted }).await,
        Err(Denied::ClientLeft) => {}
        Err(Denied::Refused(error)) => {
            tracing::info!(%role, code = error.code, text = error.message, "session refused");
            place.door.turned_away.add(TurnedAway::NoServer);
            client.send_now(&error.before_greeting());
        }
    }
}

/// Logs the client in, and has what follows relayed.
async fn begin(
    worker: &Rc<Worker>,
    client: Stream,
    placed: Placed,
    peer: Option<SocketAddr>,
    mut stay: Stay,
) {
    let Placed { seat, because, mut greeted, reach, tell_client } = placed;
    if let (true, Some(client)) = (tell_client, peer)
        && let Err(error) = identity::tell(&mut greeted.server, client).await
    {
        tracing::debug!(server = %seat.tally.name, %error, "the server left before its session began");
    }
    tracing::trace!(server = %seat.tally.name, %because, "session begins");
    match introduce(worker, &stay.place, client, greeted, &reach).await {
        Ok(opened) => {
            stay.place.logged_in();
            worker.board.greeted(&seat.tally.name);
            count(&stay.place, &opened);
            relay(worker, opened, seat, stay, reach);
        }
        Err(failed) => seat.ended(not_logged_in(worker, &stay.place, &seat, failed)),
    }
}

/// Who the client is: a proxy whose word counts tells it, and then it has to be one that may come.
async fn identify(
    worker: &Worker,
    place: &Place,
    client: &mut Stream,
    peer: Option<SocketAddr>,
) -> Result<Option<SocketAddr>, (TurnedAway, ErrPacket)> {
    let terms = place.door.terms();
    let Some(proxy) = peer.filter(|peer| terms.access.trusts(peer.ip())) else { return Ok(peer) };
    let until = Instant::now() + worker.board.sight().view.config.login_deadline;
    let told = identity::told_by_proxy(client, until).await;
    let told = told.map_err(|why| (TurnedAway::ProxyHeader, refuse::no_proxy_header(&why)))?;
    match told.unwrap_or(proxy) {
        who if terms.access.admits(who.ip()) => Ok(Some(who)),
        who => Err((TurnedAway::NotAllowed, refuse::not_allowed(who.ip()))),
    }
}

/// Client and server get to know each other.
async fn introduce(
    worker: &Worker,
    place: &Place,
    client: Stream,
    greeted: Greeted,
    reach: &Address,
) -> Result<Opened, Failed> {
    let Greeted { server, greeting } = greeted;
    let (tls, to_server) = (place.door.terms(), worker.board.secrecy.to_servers());
    let terms = Terms {
        from_client: from_client(tls.mode),
        to_server: to_server.is_some(),
        client_is_local: matches!(client, Stream::Unix(_)),
        server_is_local: matches!(server, Stream::Unix(_)),
    };
    let means = means(worker, &tls, to_server.as_deref(), reach);
    let payload = greeting.get(wire::packet::HEADER..).unwrap_or_default();
    log_in(client, server, payload, terms, &means).await
}

/// Starts the relay; this task and its memory end here. What the ring can carry goes to its thread.
fn relay(worker: &Rc<Worker>, mut opened: Opened, seat: Seat, stay: Stay, reach: Address) {
    if opened.bridge.translates() {
        tokio::task::spawn_local(translate(worker.clone(), opened, seat, stay, reach));
        return;
    }
    let (client, server) = opened.streams;
    let tracker = opened.bridge.take_tracker();
    if let Some(ring) = worker.ring.as_ref().filter(|_| client.is_plain() && server.is_plain()) {
        match (client.into_socket(), server.into_socket()) {
            (Ok(client), Ok(server)) => ring.hand(Handed { client, server, tracker, seat, stay }),
            (Err(error), _) | (_, Err(error)) => tracing::warn!(%error, "a session cannot be handed over"),
        }
        return;
    }
    let entry = Entry::at(seat, &stay.place.door, &worker.ledger, &worker.board.recorder);
    worker.roster.add(entry.clone());
    let relay = Relay::new(tracker, entry.clone());
    let polled = Polled::new((client, server), relay, worker.pool.clone());
    let worker = worker.clone();
    tokio::task::spawn_local(async move {
        let closed = match polled.await {
            Ended::Closed(why) => why,
            Ended::ChangeUser => Closed::NotLoggedIn,
        };
        worker.roster.remove(&entry);
        entry.seat.ended(closed);
        drop(stay);
    });
}

/// Relays to the end where passwords have to be translated: each change of user is a login in between.
async fn translate(worker: Rc<Worker>, opened: Opened, seat: Seat, stay: Stay, reach: Address) {
    let entry = Entry::at(seat, &stay.place.door, &worker.ledger, &worker.board.recorder);
    worker.roster.add(entry.clone());
    let closed = translated(&worker, &stay.place, opened, &entry, &reach).await;
    worker.roster.remove(&entry);
    entry.seat.ended(closed);
}

async fn translated(
    worker: &Rc<Worker>,
    place: &Place,
    opened: Opened,
    entry: &Rc<Entry>,
    reach: &Address,
) -> Closed {
    let Opened { mut streams, mut bridge } = opened;
    let mut relay = Relay::new(bridge.take_tracker(), entry.clone()).handing_over();
    loop {
        let mut polled = Polled::new(streams, relay, worker.pool.clone());
        if let Ended::Closed(why) = (&mut polled).await {
            return why;
        }
        (streams, relay) = polled.into_parts();
        bridge.change_user(relay.into_tracker());
        match Box::pin(introduce_again(worker, place, streams, bridge, reach)).await {
            Ok(opened) => (streams, bridge) = (opened.streams, opened.bridge),
            Err(failed) => return not_logged_in(worker, place, &entry.seat, failed),
        }
        relay = Relay::new(bridge.take_tracker(), entry.clone()).handing_over();
    }
}

/// The client comes as somebody else.
async fn introduce_again(
    worker: &Worker,
    place: &Place,
    streams: (Stream, Stream),
    bridge: Bridge,
    reach: &Address,
) -> Result<Opened, Failed> {
    let (tls, to_server) = (place.door.terms(), worker.board.secrecy.to_servers());
    let means = means(worker, &tls, to_server.as_deref(), reach);
    change_user(streams, bridge, &means).await
}

fn means<'a>(
    worker: &'a Worker,
    tls: &'a door::Terms,
    to_server: Option<&'a ToServers>,
    reach: &'a Address,
) -> Means<'a> {
    let until = Instant::now() + worker.board.sight().view.config.login_deadline;
    let keys = &worker.board.secrecy.keys;
    Means { from_client: tls.from_clients.as_ref(), to_server, reach, keys, until }
}

/// Counts a login by what carries it.
fn count(place: &Place, opened: &Opened) {
    let kind = match opened.bridge.tracker().phase() {
        Phase::Opaque(_) => 2,
        _ => usize::from(opened.streams.0.is_tls()),
    };
    place.door.logins[kind].fetch_add(1, Relaxed);
}

/// Tells the client, the log and the counters why a login came to nothing.
fn not_logged_in(worker: &Worker, place: &Place, seat: &Seat, failed: Failed) -> Closed {
    let server = &seat.tally.name;
    let deadline = worker.board.sight().view.config.login_deadline;
    let suspect = |why: &str| worker.board.suspect(server, why);
    let (turned_away, error, closed) = match failed.why {
        Why::Denied => return Closed::ServerLeft,
        Why::ClientLeft => return Closed::ClientLeft,
        Why::ClientTls(error) => {
            tracing::info!(%server, %error, "a client's TLS did not come about");
            place.door.turned_away.add(TurnedAway::ClientTls);
            return Closed::ClientLeft;
        }
        Why::ClientSlow => (TurnedAway::LoginDeadline, refuse::slow(deadline), Closed::NotLoggedIn),
        Why::Refused(why) => (away(why), refuse::login(why), Closed::NotLoggedIn),
        Why::Server(why) => {
            seat.failed();
            suspect(&why);
            (TurnedAway::ServerFailed, refuse::broke_off(server, &why), Closed::ServerLeft)
        }
        Why::ServerTls(error) => {
            let why = format!("TLS: {error}");
            seat.failed();
            suspect(&why);
            (TurnedAway::ServerTls, refuse::broke_off(server, &why), Closed::ServerLeft)
        }
    };
    place.door.turned_away.add(turned_away);
    tracing::info!(%server, code = error.code, text = error.message, "login refused");
    if let Some((mut client, sequence)) = failed.client {
        client.send_now(&error.packet(sequence, wire::Capabilities::PROTOCOL_41));
    }
    closed
}

fn away(why: Refusal) -> TurnedAway {
    match why {
        Refusal::TlsRequired => TurnedAway::TlsRequired,
        Refusal::BadHandshake { .. } | Refusal::OtherKey | Refusal::WouldLeak => TurnedAway::BadLogin,
        Refusal::NoServerKey | Refusal::BadServer => TurnedAway::ServerFailed,
    }
}

fn from_client(mode: ClientTlsMode) -> FromClient {
    match mode {
        ClientTlsMode::Passthrough => FromClient::Passthrough,
        ClientTlsMode::Off => FromClient::Off,
        ClientTlsMode::Preferred => FromClient::Preferred,
        ClientTlsMode::Required => FromClient::Required,
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
                let waits = (!snapshot.settled || anybody_unasked) && Instant::now() < until;
                if !waits || tokio::time::timeout_at(until, changes.changed()).await.is_err() {
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
        let greeted = connect(&candidate.reach, limit).await;
        match greeted.and_then(|greeted| offers_enough(worker, candidate, greeted)) {
            Ok(greeted) => {
                seat.connected(&picked.because);
                let reach = candidate.reach.clone();
                let tell_client = candidate.proxy_protocol;
                return Ok(Ok(Placed { seat, because: picked.because, greeted, reach, tell_client }));
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
