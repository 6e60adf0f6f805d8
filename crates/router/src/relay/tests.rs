//! One session between two in-memory ends, byte by byte.

use super::polled::Polled;
use super::ring::{Driver, Handed};
use super::*;
use crate::admission::Admission;
use crate::login_bytes::{self, framed};
use crate::server_counters::{ServerCounters, ServerSlot};
use crate::stream::Stream;
use config::InsightConfig;
use fleet::{ListenerRole, ServerName};
use rustix::event::{Timespec, epoll};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::LocalSet;
use wire::response::OkPacket;
use wire::{Capabilities, Status};

const CAPABILITIES: Capabilities = Capabilities::PROTOCOL_41.union(Capabilities::SECURE_CONNECTION);

/// Who moves the bytes. What relay promises, each keeps.
#[derive(Clone, Copy, Debug)]
enum Mover {
    Polled,
    Ring,
}

/// A relay between two in-memory ends, logged in and idle; what is left to do is up to the test.
struct Bench {
    client: UnixStream,
    server: UnixStream,
    handle: Rc<SessionHandle>,
    relay: tokio::task::JoinHandle<Outcome>,
}

/// Runs a test with each mover.
async fn with_each(test: impl AsyncFn(Bench)) {
    for mover in [Mover::Polled, Mover::Ring] {
        let local = LocalSet::new();
        let run = async { test(bench(mover).await).await };
        let in_time = tokio::time::timeout(Duration::from_secs(20), local.run_until(run)).await;
        assert!(in_time.is_ok(), "{mover:?} never ended");
    }
}

fn ok(sequence: u8, status: Status) -> Vec<u8> {
    let ok =
        OkPacket { affected_rows: 0, last_insert_id: 0, status, warnings: 0, info: &[], raw_changes: &[] };
    framed(sequence, &ok.encode(CAPABILITIES))
}

/// An OK packet that says much.
fn long_ok(sequence: u8, length: usize) -> Vec<u8> {
    let info = vec![b'x'; length];
    let ok = OkPacket {
        affected_rows: 0,
        last_insert_id: 0,
        status: Status::AUTOCOMMIT,
        warnings: 0,
        info: &info,
        raw_changes: &[],
    };
    framed(sequence, &ok.encode(CAPABILITIES))
}

async fn pass(from: &mut UnixStream, to: &mut UnixStream, bytes: &[u8]) {
    from.write_all(bytes).await.unwrap();
    let mut got = vec![0; bytes.len()];
    to.read_exact(&mut got).await.unwrap();
    assert_eq!(got, bytes);
}

/// A session that has been greeted.
fn greeted() -> Tracker {
    let mut tracker = Tracker::new();
    tracker.server_bytes(&login_bytes::greeting(CAPABILITIES));
    tracker
}

fn login() -> Vec<u8> {
    login_bytes::login(CAPABILITIES)
}

fn slot() -> ServerSlot {
    ServerSlot::take(Arc::new(ServerCounters::new(ServerName::new("r"), 1)), ListenerRole::Reader, 0)
}

async fn bench(mover: Mover) -> Bench {
    let (mut client, near) = UnixStream::pair().unwrap();
    let (mut server, far) = UnixStream::pair().unwrap();
    // The least the kernel allows, a few kibibytes.
    rustix::net::sockopt::set_socket_send_buffer_size(&near, 1).unwrap();
    let (tracker, slot) = (greeted(), slot());
    let (near, far) = (Stream::Unix(near), Stream::Unix(far));
    let (handle, relay) = match mover {
        Mover::Polled => {
            let handle = SessionHandle::new(slot);
            let relay = Relay::new(tracker, handle.clone());
            (handle, tokio::task::spawn_local(Polled::new((near, far), relay, Rc::default())))
        }
        Mover::Ring => {
            let (client, server) = (near.into_socket().unwrap(), far.into_socket().unwrap());
            on_a_ring(Handed { client, server, tracker, slot, admission: Admission::unused() })
        }
    };
    pass(&mut client, &mut server, &login()).await;
    pass(&mut server, &mut client, &ok(2, Status::AUTOCOMMIT)).await;
    Bench { client, server, handle, relay }
}

/// Moves a session's bytes on a ring that takes turns with the test, until the session has ended.
fn on_a_ring(handed: Handed) -> (Rc<SessionHandle>, tokio::task::JoinHandle<Outcome>) {
    let size = uring::Size { requests: 8, completions: 16, chunks: 4, chunk_bytes: 1024 };
    let ledger = insight::Ledger::new(insight::Shared::new(InsightConfig::default()));
    let ledger = Rc::new(std::cell::RefCell::new(ledger));
    let mut driver =
        Driver::new(uring::Ring::new(size).expect("this test needs io_uring"), ledger, Arc::default());
    driver.take(handed);
    let handle = driver.registry.first().unwrap();
    let theirs = handle.clone();
    let turns = async move {
        while driver.count() > 0 {
            driver.turn(Some(Duration::from_millis(1))).unwrap();
            driver.obey();
            tokio::task::yield_now().await;
        }
        let closed = theirs.slot.counters.totals().closed;
        Outcome::Closed(Closed::from_index(closed.iter().position(|n| *n == 1).unwrap()))
    };
    (handle, tokio::task::spawn_local(turns))
}

fn want_one(handle: &SessionHandle) {
    let quiet = Duration::ZERO;
    let request = CloseRequest { quota: 1, quiet, ..CloseRequest::of(Closed::Balance) };
    handle.slot.counters.close_quota(ListenerRole::Reader).set(Some(request));
}

/// Orders the close as the registry does.
fn order(handle: &SessionHandle) {
    want_one(handle);
    assert!(handle.slot.leave());
    handle.order(Order::CloseIfIdle(Closed::Balance));
}

/// Waits until the relay has found an order and not carried it out.
async fn voided(handle: &SessionHandle) {
    while handle.standing_order().is_some() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_idle_session_is_closed_in_peace() {
    with_each(async |mut b| {
        order(&b.handle);
        assert_eq!(b.relay.await.unwrap(), Outcome::Closed(Closed::Balance));
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        b.server.read_to_end(&mut to_server).await.unwrap();
        b.client.read_to_end(&mut to_client).await.unwrap();
        assert_eq!((to_server.as_slice(), to_client.as_slice()), (QUIT.as_slice(), [].as_slice()));
    })
    .await;
}

#[tokio::test]
async fn the_client_sees_the_end_before_the_server_is_told() {
    with_each(async |b| {
        // The kernel hands out what happened in the order in which it did.
        let seen = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        for (stream, number) in [(&b.client, 0), (&b.server, 1)] {
            epoll::add(&seen, stream, epoll::EventData::new_u64(number), epoll::EventFlags::IN).unwrap();
        }
        order(&b.handle);
        assert_eq!(b.relay.await.unwrap(), Outcome::Closed(Closed::Balance));
        let nothing = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(9) };
        let mut events = [nothing; 2];
        epoll::wait(&seen, &mut events[..], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
        assert_eq!(events.map(|event| event.data.u64()), [0, 1]);
    })
    .await;
}

#[tokio::test]
async fn a_byte_that_has_come_voids_the_order_and_gives_the_right_back() {
    with_each(async |mut b| {
        let query = framed(0, b"\x03SELECT 1");
        // Both before the relay runs again: the bytes are in the kernel when it finds the order.
        rustix::io::write(&b.client, &query).unwrap();
        order(&b.handle);
        let mut got = vec![0; query.len()];
        b.server.read_exact(&mut got).await.unwrap();
        assert_eq!(got, query);
        pass(&mut b.server, &mut b.client, &ok(1, Status::AUTOCOMMIT)).await;
        assert_eq!(b.handle.slot.counters.close_quota(ListenerRole::Reader).remaining(), 1);
        assert_eq!(b.handle.standing_order(), None);
        assert!(!b.relay.is_finished());
    })
    .await;
}

#[tokio::test]
async fn half_a_packet_a_statement_or_a_transaction_voids_the_order_too() {
    with_each(async |mut b| {
        let query = framed(0, b"\x03SELECT 1");
        pass(&mut b.client, &mut b.server, &query[..6]).await;
        order(&b.handle);
        voided(&b.handle).await;
        pass(&mut b.client, &mut b.server, &query[6..]).await;
        order(&b.handle);
        voided(&b.handle).await;
        pass(&mut b.server, &mut b.client, &ok(1, Status::AUTOCOMMIT.union(Status::IN_TRANS))).await;
        order(&b.handle);
        voided(&b.handle).await;
        pass(&mut b.client, &mut b.server, &query).await;
        pass(&mut b.server, &mut b.client, &ok(1, Status::AUTOCOMMIT)).await;
        order(&b.handle);
        assert_eq!(b.relay.await.unwrap(), Outcome::Closed(Closed::Balance));
    })
    .await;
}

#[tokio::test]
async fn an_order_to_cut_ends_even_a_statement() {
    with_each(async |mut b| {
        pass(&mut b.client, &mut b.server, &framed(0, b"\x03SELECT 1")).await;
        b.handle.order(Order::Cut(Closed::DrainDeadline));
        assert_eq!(b.relay.await.unwrap(), Outcome::Closed(Closed::DrainDeadline));
    })
    .await;
}

#[tokio::test]
async fn a_ping_is_answered_unless_the_session_is_wanted_elsewhere() {
    with_each(async |mut b| {
        let ping = framed(0, &[Command::Ping.byte()]);
        pass(&mut b.client, &mut b.server, &ping).await;
        pass(&mut b.server, &mut b.client, &ok(1, Status::AUTOCOMMIT)).await;
        want_one(&b.handle);
        b.client.write_all(&ping).await.unwrap();
        assert_eq!(b.relay.await.unwrap(), Outcome::Closed(Closed::Balance));
    })
    .await;
}

#[tokio::test]
async fn a_client_that_has_said_its_last_gets_all_of_its_answer_however_late_it_reads() {
    with_each(async |mut b| {
        pass(&mut b.client, &mut b.server, &framed(0, b"\x03SELECT 1")).await;
        b.client.shutdown().await.unwrap();
        assert_eq!(b.server.read(&mut [0]).await.unwrap(), 0, "the server is told");
        // More than the kernel keeps for a client that does not read (see `bench`), so that the relay holds
        // the rest.
        let answer = long_ok(1, 40_000);
        b.server.write_all(&answer).await.unwrap();
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        let mut got = Vec::new();
        b.client.read_to_end(&mut got).await.unwrap();
        assert!(got == answer, "{} of {} bytes", got.len(), answer.len());
        assert_eq!(b.relay.await.unwrap(), Outcome::Closed(Closed::ClientLeft));
    })
    .await;
}

#[tokio::test]
async fn what_was_sent_ahead_of_a_goodbye_is_answered_to_a_client_that_has_said_its_last() {
    with_each(async |mut b| {
        let ahead = [framed(0, b"\x03SELECT 1"), QUIT.to_vec()].concat();
        pass(&mut b.client, &mut b.server, &ahead).await;
        b.client.shutdown().await.unwrap();
        assert_eq!(b.server.read(&mut [0]).await.unwrap(), 0, "the server is told");
        let answer = long_ok(1, 10_000);
        b.server.write_all(&answer).await.unwrap();
        drop(b.server);
        let mut got = Vec::new();
        b.client.read_to_end(&mut got).await.unwrap();
        assert!(got == answer, "{} of {} bytes", got.len(), answer.len());
        assert_eq!(b.relay.await.unwrap(), Outcome::Closed(Closed::ClientLeft));
    })
    .await;
}

#[tokio::test]
async fn a_server_that_dies_in_the_middle_of_a_result_ends_the_session_after_what_it_sent() {
    with_each(async |mut b| {
        pass(&mut b.client, &mut b.server, &framed(0, b"\x03SELECT 1")).await;
        let half = &long_ok(1, 40_000)[..30_000];
        b.server.write_all(half).await.unwrap();
        drop(b.server);
        let mut got = Vec::new();
        b.client.read_to_end(&mut got).await.unwrap();
        assert!(got == half, "{} of {} bytes", got.len(), half.len());
        assert_eq!(b.relay.await.unwrap(), Outcome::Closed(Closed::ServerLeft));
    })
    .await;
}

#[tokio::test]
async fn a_server_that_closes_after_a_goodbye_has_not_left() {
    with_each(async |mut b| {
        pass(&mut b.client, &mut b.server, &QUIT).await;
        drop(b.server);
        assert_eq!(b.client.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(b.relay.await.unwrap(), Outcome::Closed(Closed::ClientLeft));
    })
    .await;
}

#[tokio::test]
async fn a_packet_of_more_than_sixteen_mebibytes_passes_and_the_session_is_idle_after_it() {
    with_each(async |b| {
        let Bench { mut client, mut server, handle, relay } = b;
        let mut query = vec![3];
        query.resize(17 << 20, b' ');
        let query = framed(0, &query);
        let sent = query.clone();
        let sending = tokio::task::spawn_local(async move {
            client.write_all(&sent).await.unwrap();
            client
        });
        let mut got = vec![0; query.len()];
        server.read_exact(&mut got).await.unwrap();
        assert!(got == query);
        let mut client = sending.await.unwrap();
        pass(&mut server, &mut client, &ok(2, Status::AUTOCOMMIT)).await;
        assert!(handle.facts().idle);
        order(&handle);
        assert_eq!(relay.await.unwrap(), Outcome::Closed(Closed::Balance));
    })
    .await;
}

#[test]
fn a_change_of_user_whose_password_is_translated_waits_for_all_answers_before_it() {
    let change = framed(0, b"\x11other\0\0\0");
    let query = framed(0, b"\x03SELECT 1");
    let relay = || {
        let mut tracker = greeted();
        tracker.client_bytes(&login());
        tracker.server_bytes(&ok(2, Status::AUTOCOMMIT));
        Relay::new(tracker, SessionHandle::new(slot())).handing_over()
    };
    let refused = Action::Close(Closed::NotLoggedIn);
    let mut in_turn = relay();
    assert_eq!(in_turn.client_bytes(&query), Action::Pass);
    in_turn.server_bytes(&ok(1, Status::AUTOCOMMIT));
    assert_eq!(in_turn.client_bytes(&change[..6]), Action::Pass);
    assert_eq!(in_turn.client_bytes(&change[6..]), Action::PassAndHandOver);
    let mut ahead = relay();
    assert_eq!(ahead.client_bytes(&query), Action::Pass);
    assert_eq!(ahead.client_bytes(&change), refused);
    assert_eq!(relay().client_bytes(&[query.as_slice(), change.as_slice()].concat()), refused);
    assert_eq!(relay().client_bytes(&[change.as_slice(), &query[..6]].concat()), refused);
}

#[tokio::test]
async fn a_change_of_user_is_handed_over_before_its_answer_is_read() {
    let (mut client, near) = UnixStream::pair().unwrap();
    let (mut server, far) = UnixStream::pair().unwrap();
    // As in `bench`: the relay holds what the client does not read.
    rustix::net::sockopt::set_socket_send_buffer_size(&near, 1).unwrap();
    let relay = Relay::new(greeted(), SessionHandle::new(slot())).handing_over();
    let mut polled = Polled::new((Stream::Unix(near), Stream::Unix(far)), relay, Rc::default());
    let switch = framed(1, b"\xfeother\0nonce");
    let talk = async {
        pass(&mut client, &mut server, &login()).await;
        pass(&mut server, &mut client, &ok(2, Status::AUTOCOMMIT)).await;
        pass(&mut client, &mut server, &framed(0, b"\x03SELECT 1")).await;
        // The relay reads it at once, and then holds most of it.
        let answer = long_ok(1, 16_000);
        server.write_all(&answer).await.unwrap();
        let mut got = vec![0; answer.len()];
        client.read_exact(&mut got[..1]).await.unwrap();
        pass(&mut client, &mut server, &framed(0, b"\x11other\0\0\0")).await;
        server.write_all(&switch).await.unwrap();
        client.read_exact(&mut got[1..]).await.unwrap();
        assert!(got == answer, "the older answer comes whole");
    };
    let limit = Duration::from_secs(20);
    let both = async { tokio::join!(&mut polled, talk) };
    let (outcome, ()) = tokio::time::timeout(limit, both).await.expect("it is handed over");
    assert_eq!(outcome, Outcome::ChangeUser);
    let ((_client, mut far), _relay) = polled.into_parts();
    let mut got = vec![0; switch.len()];
    let read = tokio::time::timeout(limit, far.read_exact(&mut got)).await;
    read.expect("whoever goes on reads it").unwrap();
    assert_eq!(got, switch);
}
