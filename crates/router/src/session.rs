//! Session: one client's life, from accepted to closed.
//!
//! A server is found for it (`find`): up to here the client has not seen a byte. Then the login is carried through, within a deadline
//! of its own, and the relay takes over.

use crate::abandon::abandon;
use crate::closed::Closed;
use crate::connect::Greeted;
use crate::door::{self, Place};
use crate::find::{self, Denied, Placed};
use crate::identity;
use crate::login::{Failed, Means, Opened, Why, change_user, log_in};
use crate::refuse;
use crate::relay::polled::Polled;
use crate::relay::ring::Handed;
use crate::relay::{Ended, Relay};
use crate::roster::{Entry, Listed};
use crate::stream::{Socket, Stream, Waiting};
use crate::tally::Seat;
use crate::tls::{LoginKeys, ToServers};
use crate::turned_away::{Refused, TurnedAway};
use crate::worker::{Counted, Stay, Worker};
use config::ClientTlsMode;
use fleet::{Address, ListenerRole};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::time::Instant;
use wire::bridge::{Bridge, FromClient, Refusal, Terms};
use wire::{ErrPacket, Phase, Tracker};

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
    /// Counted on the thread that lets it in.
    pub(crate) counted: Counted,
}

/// Lets a client in: from accepted to relayed, or turned away.
pub(crate) async fn run(worker: Rc<Worker>, arrival: Arrival) {
    let Arrival { socket, peer, role, at, mut place, counted } = arrival;
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
            place.refuse(why, Refused::told(&error));
            client.send_now(&error.before_greeting());
            return;
        }
    };
    place.client = peer.map(|peer| peer.ip());
    // A health check is mostly gone by now. No server needs to hear of it.
    if client.waiting() == Waiting::End {
        return left_at_once(&place);
    }
    let placed = match role {
        ListenerRole::Reader => find::reader(&worker, at).await,
        ListenerRole::Writer => find::writer(&worker, &client, at).await,
    };
    match placed {
        Ok(placed) => begin(&worker, client, placed, peer, Stay { place, counted }).await,
        Err(Denied::ClientLeft) => {}
        Err(Denied::Refused(error)) => refused(&place, &mut client, TurnedAway::NoServer, &error),
        Err(Denied::Ourselves(error)) => refused(&place, &mut client, TurnedAway::NoDescriptor, &error),
    }
}

/// Counts a client that has left without a word. Not told to the log: health checks come all day.
fn left_at_once(place: &Place) {
    place.door.turned_away.add(TurnedAway::LeftAtOnce);
}

/// Tells a client that has not seen a byte why there is no session for it.
fn refused(place: &Place, client: &mut Stream, why: TurnedAway, error: &ErrPacket) {
    place.refuse(why, Refused::told(error));
    client.send_now(&error.before_greeting());
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
    let Greeted { server, greeting } = greeted;
    let greeting = greeting.get(wire::packet::HEADER..).unwrap_or_default();
    match introduce(worker, &stay.place, (client, server), greeting, &reach).await {
        Ok(opened) => {
            stay.place.logged_in();
            seat.tally.logged_in();
            worker.board.greeted(&seat.tally.name);
            count(&stay.place, &opened);
            relay(worker, opened, seat, stay, reach);
        }
        Err(mut failed) => {
            let unused = failed.unused.take();
            let broken_off = !matches!(failed.why, Why::Denied);
            seat.ended(not_logged_in(worker, &stay.place, &seat, failed));
            let in_order = match unused {
                Some(server) => abandon(*server, greeting).await,
                None => !broken_off,
            };
            if !in_order && seat.tally.broken_off() {
                // A login of ours that ends well resets what the server holds against this host.
                worker.board.doubt(&seat.tally.name, "logins through this router were broken off");
            }
        }
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
    (client, server): (Stream, Stream),
    greeting: &[u8],
    reach: &Address,
) -> Result<Opened, Failed> {
    let (tls, to_server) = (place.door.terms(), worker.board.secrecy.to_servers());
    let keys = worker.board.secrecy.login_keys();
    let terms = Terms {
        from_client: from_client(tls.mode),
        to_server: to_server.is_some(),
        client_is_local: matches!(client, Stream::Unix(_)),
        server_is_local: matches!(server, Stream::Unix(_)),
        retrieves_key: keys.server.retrieved,
    };
    let means = means(worker, &tls, to_server.as_deref(), reach, keys);
    log_in(client, server, greeting, terms, &means).await
}

/// Starts the relay; this task and its memory end here. What the ring can carry goes to its thread.
fn relay(worker: &Rc<Worker>, mut opened: Opened, seat: Seat, stay: Stay, reach: Address) {
    if opened.bridge.translates() {
        tokio::task::spawn_local(translate(worker.clone(), opened, seat, stay, reach));
        return;
    }
    let (client, server) = opened.streams;
    let tracker = opened.bridge.take_tracker();
    let fit = worker.ring.as_ref().filter(|ring| ring.is_fit() && client.is_plain() && server.is_plain());
    let Some(ring) = fit else { return poll(worker, (client, server), tracker, seat, stay) };
    let handed = match (client.into_socket(), server.into_socket()) {
        (Ok(client), Ok(server)) => ring.hand(Handed { client, server, tracker, seat, stay }),
        (Err(error), _) | (_, Err(error)) => {
            return tracing::warn!(%error, "a session cannot be handed over");
        }
    };
    // The ring has ended this moment.
    if let Err(handed) = handed {
        let Handed { client, server, tracker, seat, stay } = *handed;
        let streams = [client, server].map(|fd| Socket::of(fd).into_stream());
        match streams {
            [Ok(client), Ok(server)] => poll(worker, (client, server), tracker, seat, stay),
            [Err(error), _] | [_, Err(error)] => tracing::warn!(%error, "a session cannot be taken back"),
        }
    }
}

/// Relays here, in a task of this thread.
fn poll(worker: &Rc<Worker>, streams: (Stream, Stream), tracker: Tracker, seat: Seat, stay: Stay) {
    let entry = Entry::at(seat, &stay.place.door, &worker.ledger, &worker.board.recorder);
    let listed = Listed::new(worker, entry.clone());
    let polled = Polled::new(streams, Relay::new(tracker, entry), worker.pool.clone());
    tokio::task::spawn_local(async move {
        let closed = match polled.await {
            Ended::Closed(why) => why,
            Ended::ChangeUser => Closed::NotLoggedIn,
        };
        let entry = listed.entry.clone();
        drop(listed);
        entry.seat.ended(closed);
        drop(stay);
    });
}

/// Relays to the end where passwords have to be translated: each change of user is a login in between.
async fn translate(worker: Rc<Worker>, opened: Opened, seat: Seat, stay: Stay, reach: Address) {
    let entry = Entry::at(seat, &stay.place.door, &worker.ledger, &worker.board.recorder);
    let listed = Listed::new(&worker, entry.clone());
    let closed = translated(&worker, &stay.place, opened, &entry, &reach).await;
    drop(listed);
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
    let keys = worker.board.secrecy.login_keys();
    let means = means(worker, &tls, to_server.as_deref(), reach, keys);
    change_user(streams, bridge, &means).await
}

fn means<'a>(
    worker: &'a Worker,
    tls: &'a door::Terms,
    to_server: Option<&'a ToServers>,
    reach: &'a Address,
    keys: LoginKeys<'a>,
) -> Means<'a> {
    let until = Instant::now() + worker.board.sight().view.config.login_deadline;
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
    let suspect = |why: &str| {
        worker.board.suspect(server, why);
    };
    let (turned_away, error, closed) = match failed.why {
        Why::Denied => return Closed::ServerLeft,
        Why::ClientLeft => {
            if failed.silent {
                left_at_once(place);
            }
            return Closed::ClientLeft;
        }
        Why::ClientTls(error) => {
            let happened = format!("its TLS did not come about: {error}");
            place.refuse(TurnedAway::ClientTls, Refused::because(happened).at(server));
            return Closed::ClientLeft;
        }
        Why::Unproven(why) => {
            (TurnedAway::ClientCertificate, refuse::client_certificate(&why.to_string()), Closed::NotLoggedIn)
        }
        Why::ClientSlow => (TurnedAway::LoginDeadline, refuse::slow(deadline), Closed::NotLoggedIn),
        Why::Refused(why) => (away(why), refuse::login(why), Closed::NotLoggedIn),
        Why::Server(why) => {
            seat.failed();
            suspect(&why);
            (TurnedAway::ServerFailed, refuse::broke_off(server, &why), Closed::ServerLeft)
        }
        Why::ServerTls(error) => {
            let why = format!("TLS: {}", ::tls::words(&error));
            seat.failed();
            suspect(&why);
            (TurnedAway::ServerTls, refuse::broke_off(server, &why), Closed::ServerLeft)
        }
    };
    place.refuse(turned_away, Refused::told(&error).at(server));
    if let Some((mut client, sequence)) = failed.client {
        client.send_now(&error.packet(sequence, wire::Capabilities::PROTOCOL_41));
    }
    closed
}

fn away(why: Refusal) -> TurnedAway {
    match why {
        Refusal::TlsRequired => TurnedAway::TlsRequired,
        Refusal::BadHandshake { .. } | Refusal::OtherKey | Refusal::WouldLeak | Refusal::KeyInClear => {
            TurnedAway::BadLogin
        }
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
