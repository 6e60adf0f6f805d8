//! Session: one client's life, from accepted to closed.
//!
//! A server is found for it (`find`): up to here the client has not seen a byte. Then the login is carried
//! through, within a deadline of its own, and the relay takes over.

use crate::abandon::abandon;
use crate::admission::{Admission, AdmissionPermit, Arrival};
use crate::closed::Closed;
use crate::connect::GreetedServer;
use crate::find::{self, FindError, ServerConnection};
use crate::identity::{self, HeaderError};
use crate::listener;
use crate::login::{CompletedLogin, FailedLogin, LoginContext, LoginError, change_user, log_in};
use crate::refusal::{RefusalDetails, RefusalReason};
use crate::refuse;
use crate::relay::polled::Polled;
use crate::relay::ring::Handed;
use crate::relay::{Outcome, Relay};
use crate::server_counters::ServerSlot;
use crate::session_registry::{Registration, SessionHandle};
use crate::stream::{Socket, Stream, Waiting};
use crate::tls::{LoginKeys, ToServers};
use crate::worker::context::WorkerContext;
use config::ClientTlsMode;
use fleet::{Address, Blame, ListenerRole};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::time::Instant;
use tracing::{Instrument, Span};
use wire::bridge::{Bridge, FromClient, Refusal, Terms};
use wire::{ErrPacket, Phase, Tracker};

/// Lets a client in: from accepted to relayed, or refused.
pub(crate) async fn run(worker: Rc<WorkerContext>, arrival: Arrival) {
    let Arrival { socket, peer, role, at, mut admission } = arrival;
    let mut client = match socket.into_stream() {
        Ok(client) => client,
        Err(error) => {
            tracing::debug!(%error, "client disconnected before its session began");
            return;
        }
    };
    let permit = &mut admission.permit;
    let peer = match identify(&worker, permit, &mut client, peer).await {
        Ok(peer) => peer,
        Err(None) => return left_at_once(permit),
        Err(Some((why, error))) => return refused(permit, &mut client, why, &error),
    };
    permit.client = peer.map(|peer| peer.ip());
    match peer {
        Some(peer) => Span::current().record("client", tracing::field::display(peer)),
        None => Span::current().record("client", "(unix socket)"),
    };
    // A health check is mostly gone by now. No server needs to hear of it.
    if client.waiting() == Waiting::End {
        return left_at_once(permit);
    }
    let found = match role {
        ListenerRole::Reader => find::reader(&worker, at).await,
        ListenerRole::Writer => find::writer(&worker, &client, at).await,
    };
    match found {
        Ok(connection) => begin(&worker, client, connection, peer, admission).await,
        Err(FindError::ClientLeft) => {}
        Err(error) => refused(permit, &mut client, error.reason(), &refuse::no_server(role, &error)),
    }
}

/// Counts a client that has left without a word. Not logged: health checks come all day.
fn left_at_once(permit: &AdmissionPermit) {
    permit.listener.refusals.add(RefusalReason::LeftAtOnce);
}

/// Tells a client that has not seen a byte why there is no session for it.
fn refused(permit: &AdmissionPermit, client: &mut Stream, why: RefusalReason, error: &ErrPacket) {
    permit.refuse(why, RefusalDetails::sent(error));
    client.send_now(&error.before_greeting());
}

/// Logs the client in, and has what follows relayed.
async fn begin(
    worker: &Rc<WorkerContext>,
    client: Stream,
    connection: ServerConnection,
    peer: Option<SocketAddr>,
    mut admission: Admission,
) {
    let ServerConnection { slot, because, mut greeted, reach, send_client_address } = connection;
    Span::current().record("server", tracing::field::display(&slot.counters.name()));
    if let (true, Some(client)) = (send_client_address, peer)
        && let Err(error) = identity::send_proxy_header(&mut greeted.server, client).await
    {
        tracing::debug!(server = %slot.counters.name(), %error, "server disconnected before the session began");
    }
    tracing::trace!(server = %slot.counters.name(), %because, "session begins");
    let GreetedServer { server, greeting } = greeted;
    let greeting = greeting.get(wire::packet::HEADER..).unwrap_or_default();
    match introduce(worker, &admission.permit, (client, server), greeting, &reach).await {
        Ok(opened) => {
            admission.permit.logged_in();
            slot.counters.logged_in();
            worker.shared.greeted(&slot.counters.name());
            count(&admission.permit, &opened);
            relay(worker, opened, slot, admission, reach);
        }
        Err(mut failed) => {
            let unused = failed.unused.take();
            let broken_off = !matches!(failed.why, LoginError::Denied);
            slot.ended(not_logged_in(worker, &admission.permit, &slot, failed));
            let in_order = match unused {
                Some(server) => abandon(*server, greeting).await,
                None => !broken_off,
            };
            if !in_order && slot.counters.broken_off() {
                // A login of ours that ends well resets what the server holds against this host.
                worker
                    .shared
                    .request_check(&slot.counters.name(), "logins through this router were broken off");
            }
        }
    }
}

/// Who the client is: a proxy whose word counts tells it, and then it has to be one that may come. Fails with
/// the refusal; with none where the proxy has closed without a word.
async fn identify(
    worker: &WorkerContext,
    permit: &AdmissionPermit,
    client: &mut Stream,
    peer: Option<SocketAddr>,
) -> Result<Option<SocketAddr>, Option<(RefusalReason, ErrPacket)>> {
    let terms = permit.listener.terms();
    let Some(proxy) = peer.filter(|peer| terms.access.trusts(peer.ip())) else { return Ok(peer) };
    let until = Instant::now() + worker.shared.routing().view.config.login_deadline;
    let client = match identity::read_proxy_header(client, until).await {
        Ok(client) => client,
        Err(HeaderError::Silent) => return Err(None),
        Err(why) => {
            return Err(Some((RefusalReason::ProxyHeader, refuse::no_proxy_header(&why.to_string()))));
        }
    };
    match client.unwrap_or(proxy) {
        who if terms.access.admits(who.ip()) => Ok(Some(who)),
        who => Err(Some((RefusalReason::NotAllowed, refuse::not_allowed(who.ip())))),
    }
}

/// Client and server get to know each other.
async fn introduce(
    worker: &WorkerContext,
    permit: &AdmissionPermit,
    (client, server): (Stream, Stream),
    greeting: &[u8],
    reach: &Address,
) -> Result<CompletedLogin, FailedLogin> {
    let (tls, to_server) = (permit.listener.terms(), worker.shared.server_tls.to_servers());
    let keys = worker.shared.server_tls.login_keys();
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
fn relay(
    worker: &Rc<WorkerContext>,
    mut opened: CompletedLogin,
    slot: ServerSlot,
    admission: Admission,
    reach: Address,
) {
    if opened.bridge.translates() {
        tokio::task::spawn_local(translate(worker.clone(), opened, slot, admission, reach));
        return;
    }
    let (client, server) = opened.streams;
    let tracker = opened.bridge.take_tracker();
    let fit = worker.ring.as_ref().filter(|ring| ring.is_fit() && client.is_plain() && server.is_plain());
    let Some(ring) = fit else { return poll(worker, (client, server), tracker, slot, admission) };
    let handed = match (client.into_socket(), server.into_socket()) {
        (Ok(client), Ok(server)) => ring.hand(Handed { client, server, tracker, slot, admission }),
        (Err(error), _) | (_, Err(error)) => {
            return tracing::warn!(%error, "cannot hand a session over to the io_uring thread");
        }
    };
    // The ring has ended this moment.
    if let Err(handed) = handed {
        let Handed { client, server, tracker, slot, admission } = *handed;
        let streams = [client, server].map(|fd| Socket::of(fd).into_stream());
        match streams {
            [Ok(client), Ok(server)] => poll(worker, (client, server), tracker, slot, admission),
            [Err(error), _] | [_, Err(error)] => {
                tracing::warn!(%error, "cannot take a session back from the io_uring thread");
            }
        }
    }
}

/// Relays here, in a task of this thread.
fn poll(
    worker: &Rc<WorkerContext>,
    streams: (Stream, Stream),
    tracker: Tracker,
    slot: ServerSlot,
    admission: Admission,
) {
    let handle = SessionHandle::at(slot, &admission.permit.listener, &worker.ledger, &worker.shared.recorder);
    let registration = Registration::new(&worker.registry, handle.clone());
    let polled = Polled::new(streams, Relay::new(tracker, handle), worker.pool.clone());
    tokio::task::spawn_local(async move {
        let closed = match polled.await {
            Outcome::Closed(why) => why,
            Outcome::ChangeUser => Closed::NotLoggedIn,
        };
        let handle = registration.handle.clone();
        drop(registration);
        handle.slot.ended(closed);
        drop(admission);
    });
}

/// Relays to the end where passwords have to be translated: each change of user is a login in between.
async fn translate(
    worker: Rc<WorkerContext>,
    opened: CompletedLogin,
    slot: ServerSlot,
    admission: Admission,
    reach: Address,
) {
    let handle = SessionHandle::at(slot, &admission.permit.listener, &worker.ledger, &worker.shared.recorder);
    let registration = Registration::new(&worker.registry, handle.clone());
    let closed = translated(&worker, &admission.permit, opened, &handle, &reach).await;
    drop(registration);
    handle.slot.ended(closed);
}

async fn translated(
    worker: &Rc<WorkerContext>,
    permit: &AdmissionPermit,
    opened: CompletedLogin,
    handle: &Rc<SessionHandle>,
    reach: &Address,
) -> Closed {
    let CompletedLogin { mut streams, mut bridge } = opened;
    let mut relay = Relay::new(bridge.take_tracker(), handle.clone()).handing_over();
    loop {
        let mut polled = Polled::new(streams, relay, worker.pool.clone());
        if let Outcome::Closed(why) = (&mut polled).await {
            return why;
        }
        (streams, relay) = polled.into_parts();
        bridge.change_user(relay.into_tracker());
        let login = introduce_again(worker, permit, streams, bridge, reach);
        match Box::pin(login.instrument(handle.slot.span().clone())).await {
            Ok(opened) => (streams, bridge) = (opened.streams, opened.bridge),
            Err(failed) => return not_logged_in(worker, permit, &handle.slot, failed),
        }
        relay = Relay::new(bridge.take_tracker(), handle.clone()).handing_over();
    }
}

/// The client comes as somebody else.
async fn introduce_again(
    worker: &WorkerContext,
    permit: &AdmissionPermit,
    streams: (Stream, Stream),
    bridge: Bridge,
    reach: &Address,
) -> Result<CompletedLogin, FailedLogin> {
    let (tls, to_server) = (permit.listener.terms(), worker.shared.server_tls.to_servers());
    let keys = worker.shared.server_tls.login_keys();
    let means = means(worker, &tls, to_server.as_deref(), reach, keys);
    change_user(streams, bridge, &means).await
}

fn means<'a>(
    worker: &'a WorkerContext,
    tls: &'a listener::Terms,
    to_server: Option<&'a ToServers>,
    reach: &'a Address,
    keys: LoginKeys<'a>,
) -> LoginContext<'a> {
    let until = Instant::now() + worker.shared.routing().view.config.login_deadline;
    LoginContext { from_client: tls.from_clients.as_ref(), to_server, reach, keys, until }
}

/// Counts a login by what carries it.
fn count(permit: &AdmissionPermit, opened: &CompletedLogin) {
    let logins = &permit.listener.logins;
    let counter = match opened.bridge.tracker().phase() {
        Phase::Opaque(_) => &logins.opaque,
        _ if opened.streams.0.is_tls() => &logins.tls,
        _ => &logins.plain,
    };
    counter.fetch_add(1, Relaxed);
}

/// Sends the client, logs and counts why a login failed.
fn not_logged_in(
    worker: &WorkerContext,
    permit: &AdmissionPermit,
    slot: &ServerSlot,
    failed: FailedLogin,
) -> Closed {
    let server = &slot.counters.name();
    let deadline = worker.shared.routing().view.config.login_deadline;
    let is_servers_fault = failed.why.blame() == Blame::Server;
    let (reason, error) = match failed.why {
        LoginError::Denied => return Closed::ServerLeft,
        LoginError::ClientLeft => {
            if failed.silent {
                left_at_once(permit);
            }
            return Closed::ClientLeft;
        }
        LoginError::ClientTls(error) => {
            let happened = format!("its TLS did not come about: {error}");
            permit.refuse(RefusalReason::ClientTls, RefusalDetails::because(happened).at(server));
            return Closed::ClientLeft;
        }
        LoginError::CertificateRejected(why) => {
            (RefusalReason::ClientCertificate, refuse::client_certificate(&why.to_string()))
        }
        LoginError::ClientSlow { server_waited: None } => {
            (RefusalReason::LoginDeadline, refuse::slow(deadline))
        }
        LoginError::ClientSlow { server_waited: Some(waited) } => {
            (RefusalReason::LoginDeadline, refuse::too_slow_for(server, waited))
        }
        LoginError::Refused(why) => (refusal_reason(why), refuse::login(why)),
        LoginError::Server(why) => {
            worker.shared.suspect(server, &why);
            (RefusalReason::ServerFailed, refuse::broke_off(server, &why))
        }
        LoginError::Unanswered => {
            // A server may let this one client wait: PAM asks a phone, `connection_control` slows down who
            // sends wrong passwords. Whoever can connect could else take it from everybody. So `observe` logs
            // in itself, and what it finds counts for all.
            let why = "no answer to a login";
            worker.shared.request_check(server, why);
            (RefusalReason::ServerFailed, refuse::broke_off(server, why))
        }
        LoginError::ServerTls(error) => {
            let why = format!("TLS: {}", ::tls::words(&error));
            worker.shared.suspect(server, &why);
            (RefusalReason::ServerTls, refuse::broke_off(server, &why))
        }
    };
    if is_servers_fault {
        slot.failed();
    }
    permit.refuse(reason, RefusalDetails::sent(&error).at(server));
    if let Some((mut client, sequence)) = failed.client {
        client.send_now(&error.packet(sequence, wire::Capabilities::PROTOCOL_41));
    }
    if is_servers_fault { Closed::ServerLeft } else { Closed::NotLoggedIn }
}

fn refusal_reason(why: Refusal) -> RefusalReason {
    match why {
        Refusal::TlsRequired => RefusalReason::TlsRequired,
        Refusal::BadHandshake { .. } | Refusal::OtherKey | Refusal::WouldLeak | Refusal::KeyInClear => {
            RefusalReason::BadLogin
        }
        Refusal::NoServerKey | Refusal::BadServer => RefusalReason::ServerFailed,
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
