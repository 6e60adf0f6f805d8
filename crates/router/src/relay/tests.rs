//! One session between two in-memory ends, byte by byte.

use super::polled::Polled;
use super::*;
use crate::stream::Stream;
use crate::tally::{Seat, Tally};
use fleet::{ListenerRole, ServerName};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::LocalSet;
use wire::response::OkPacket;
use wire::{Capabilities, Greeting, Login, Status, packet};

const CAPABILITIES: Capabilities = Capabilities::PROTOCOL_41.with(Capabilities::SECURE_CONNECTION);

/// A relay between two in-memory ends, logged in and idle; what is left to do is up to the test.
struct Bench {
    client: UnixStream,
    server: UnixStream,
    entry: Rc<Entry>,
    relay: tokio::task::JoinHandle<Ended>,
}

fn framed(mut sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    packet::write(&mut out, &mut sequence, payload);
    out
}

fn ok(sequence: u8, status: Status) -> Vec<u8> {
    let ok =
        OkPacket { affected_rows: 0, last_insert_id: 0, status, warnings: 0, info: &[], raw_changes: &[] };
    framed(sequence, &ok.encode(CAPABILITIES))
}

async fn pass(from: &mut UnixStream, to: &mut UnixStream, bytes: &[u8]) {
    from.write_all(bytes).await.unwrap();
    let mut got = vec![0; bytes.len()];
    to.read_exact(&mut got).await.unwrap();
    assert_eq!(got, bytes);
}

async fn bench() -> Bench {
    let (mut client, near) = UnixStream::pair().unwrap();
    let (mut server, far) = UnixStream::pair().unwrap();
    let greeting = Greeting {
        version: "x".to_owned(),
        connection_id: 1,
        nonce: vec![b'n'; 20],
        capabilities: CAPABILITIES,
        charset: 45,
        status: Status::AUTOCOMMIT,
        auth_plugin: String::new(),
    };
    let greeting = framed(0, &greeting.encode());
    let tally = Arc::new(Tally::new(ServerName::new("r"), 1));
    let entry = Entry::new(Seat::take(tally, ListenerRole::Reader, 0));
    let streams = (Stream::Unix(near), Stream::Unix(far));
    let mut tracker = Tracker::new();
    tracker.server_bytes(&greeting);
    let relay = Relay::new(tracker, entry.clone());
    let relay = tokio::task::spawn_local(Polled::new(streams, relay, Rc::default()));
    let login = Login { capabilities: CAPABILITIES, charset: 45, user: b"u", ..Login::default() };
    pass(&mut client, &mut server, &framed(1, &login.encode())).await;
    pass(&mut server, &mut client, &ok(2, Status::AUTOCOMMIT)).await;
    Bench { client, server, entry, relay }
}

fn want_one(entry: &Entry) {
    let quiet = Duration::ZERO;
    let wanted =
        Wanted { quota: 1, why: Closed::Balance, quiet, light_state_too: false, all_state_too: false };
    entry.seat.tally.wish(ListenerRole::Reader).set(Some(wanted));
}

/// Orders the close as the roster does.
fn order(entry: &Entry) {
    want_one(entry);
    assert!(entry.seat.tally.wish(ListenerRole::Reader).take());
    entry.order(Order::CloseIfIdle(Closed::Balance));
}

#[tokio::test]
async fn an_idle_session_is_closed_in_peace() {
    LocalSet::new()
        .run_until(async {
            let mut b = bench().await;
            order(&b.entry);
            assert_eq!(b.relay.await.unwrap(), Ended::Closed(Closed::Balance));
            let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
            b.server.read_to_end(&mut to_server).await.unwrap();
            b.client.read_to_end(&mut to_client).await.unwrap();
            assert_eq!((to_server.as_slice(), to_client.as_slice()), (QUIT.as_slice(), [].as_slice()));
        })
        .await;
}

#[tokio::test]
async fn a_byte_that_has_come_voids_the_order_and_gives_the_right_back() {
    LocalSet::new()
        .run_until(async {
            let mut b = bench().await;
            let query = framed(0, b"\x03SELECT 1");
            // Both before the relay runs again: the bytes are in the kernel when it finds the order.
            rustix::io::write(&b.client, &query).unwrap();
            order(&b.entry);
            let mut got = vec![0; query.len()];
            b.server.read_exact(&mut got).await.unwrap();
            assert_eq!(got, query);
            pass(&mut b.server, &mut b.client, &ok(1, Status::AUTOCOMMIT)).await;
            assert_eq!(b.entry.seat.tally.wish(ListenerRole::Reader).left(), 1);
            assert_eq!(b.entry.ordered(), None);
            assert!(!b.relay.is_finished());
        })
        .await;
}

#[tokio::test]
async fn half_a_packet_a_statement_or_a_transaction_voids_the_order_too() {
    LocalSet::new()
        .run_until(async {
            let mut b = bench().await;
            let query = framed(0, b"\x03SELECT 1");
            pass(&mut b.client, &mut b.server, &query[..6]).await;
            order(&b.entry);
            tokio::task::yield_now().await;
            pass(&mut b.client, &mut b.server, &query[6..]).await;
            order(&b.entry);
            tokio::task::yield_now().await;
            pass(&mut b.server, &mut b.client, &ok(1, Status::AUTOCOMMIT.with(Status::IN_TRANS))).await;
            order(&b.entry);
            tokio::task::yield_now().await;
            pass(&mut b.client, &mut b.server, &query).await;
            pass(&mut b.server, &mut b.client, &ok(1, Status::AUTOCOMMIT)).await;
            order(&b.entry);
            assert_eq!(b.relay.await.unwrap(), Ended::Closed(Closed::Balance));
        })
        .await;
}

#[tokio::test]
async fn an_order_to_cut_ends_even_a_statement() {
    LocalSet::new()
        .run_until(async {
            let mut b = bench().await;
            pass(&mut b.client, &mut b.server, &framed(0, b"\x03SELECT 1")).await;
            b.entry.order(Order::Cut(Closed::DrainDeadline));
            assert_eq!(b.relay.await.unwrap(), Ended::Closed(Closed::DrainDeadline));
        })
        .await;
}

#[tokio::test]
async fn a_ping_is_answered_unless_the_session_is_wanted_elsewhere() {
    LocalSet::new()
        .run_until(async {
            let mut b = bench().await;
            let ping = framed(0, &[Command::Ping.byte()]);
            pass(&mut b.client, &mut b.server, &ping).await;
            pass(&mut b.server, &mut b.client, &ok(1, Status::AUTOCOMMIT)).await;
            want_one(&b.entry);
            b.client.write_all(&ping).await.unwrap();
            assert_eq!(b.relay.await.unwrap(), Ended::Closed(Closed::Balance));
        })
        .await;
}
