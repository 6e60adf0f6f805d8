//! Relay: bytes both ways between a client and its server, until one side leaves or placement says so.
//!
//! One task a session polls both directions. What one read brought is written at once, without asking for readiness
//! first; a direction is not read again before the other side has taken everything, so a session never holds more than
//! one buffer a direction, and none while nothing is under way. Per query: two reads, two writes, no allocation, no
//! lock, no clock.
//!
//! **Closing in peace.** An order to close is carried out only when the tracker says idle, nothing is under way, and
//! the kernel holds no byte from either side. Then the server gets `COM_QUIT`, as from any polite client, and both
//! sockets are closed. A byte that has come voids the order. What remains is a request that the client sends in the
//! microseconds between our look and its seeing the end; a pool that checks its connections does not meet it, because
//! of the quiet time.
//!
//! **Pool checks.** `COM_PING` and `COM_RESET_CONNECTION` are what pools send before they hand a connection out (or
//! when they take it back), and they are ready for it to fail: then they open a new one and the application sees
//! nothing. So a session that is wanted elsewhere is closed *in answer to* such a check, however busy it is otherwise.
//! After a reset the server would have dropped all state of the session anyway.

use crate::buffer::Pool;
use crate::closed::Closed;
use crate::roster::{Entry, Facts, Order};
use crate::stream::{Stream, Waiting};
use crate::tally::Wanted;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use wire::{Command, Phase, Tracker};

/// How long a server may take to close after its client has left, when we cannot see what it is doing.
const LINGER: Duration = Duration::from_secs(30);

/// A `COM_QUIT` packet.
const QUIT: [u8; 5] = [1, 0, 0, 0, Command::Quit.byte()];

/// One session's bytes. Resolves to why it ended; both sockets are closed when it is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    client: Stream,
    server: Stream,
    up: Half,
    down: Half,
    tracker: Tracker,
    entry: Rc<Entry>,
    pool: Rc<Pool>,
    /// Commands already counted.
    counted: u64,
    linger: Option<Pin<Box<Sleep>>>,
}

/// One direction.
#[derive(Debug, Default)]
struct Half {
    /// What the other side has not taken yet: the buffer, and the part of it that is left.
    left: Option<(Box<[u8]>, usize, usize)>,
    /// The source has said its last.
    ended: bool,
    /// And the target has been told.
    done: bool,
}

/// Which end broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Source,
    Target,
}

/// What to do with bytes that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Pass,
    /// Close the session instead of passing them on.
    Close(Closed),
}

/// Why a direction stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Its source ended and its target knows.
    Done,
    Broken(Broken),
    Close(Closed),
}

impl Relay {
    /// Takes over after the server's greeting has been read but not passed on: `greeting` goes to the client first.
    pub(crate) fn new(
        (client, server): (Stream, Stream),
        greeting: &[u8],
        entry: Rc<Entry>,
        pool: Rc<Pool>,
    ) -> Self {
        let mut tracker = Tracker::new();
        tracker.server_bytes(greeting);
        let mut buffer = pool.take();
        let length = greeting.len().min(buffer.len());
        buffer[..length].copy_from_slice(&greeting[..length]);
        let down = Half { left: Some((buffer, 0, length)), ..Half::default() };
        let up = Half::default();
        Self { client, server, up, down, tracker, entry, pool, counted: 0, linger: None }
    }

    fn client_to_server(&mut self, cx: &mut Context<'_>) -> Poll<Stop> {
        let (tracker, entry) = (&mut self.tracker, &self.entry);
        self.up.pump(cx, &mut self.client, &mut self.server, &self.pool, |bytes| {
            if let Some(why) = answers_pool_check(bytes, tracker, entry) {
                return Seen::Close(why);
            }
            entry.cancel();
            tracker.client_bytes(bytes);
            entry.seat.to_server(bytes.len());
            entry.moved(tracker);
            Seen::Pass
        })
    }

    fn server_to_client(&mut self, cx: &mut Context<'_>) -> Poll<Stop> {
        let (tracker, entry, counted) = (&mut self.tracker, &self.entry, &mut self.counted);
        self.down.pump(cx, &mut self.server, &mut self.client, &self.pool, |bytes| {
            entry.cancel();
            tracker.server_bytes(bytes);
            let completed = tracker.commands_completed();
            entry.seat.to_client(bytes.len(), completed - *counted);
            *counted = completed;
            entry.moved(tracker);
            Seen::Pass
        })
    }

    /// Whether nothing is under way and the kernel holds nothing from either side: the moment to close in peace.
    fn may_close(&self) -> bool {
        self.up.left.is_none()
            && self.down.left.is_none()
            && self.entry.facts().idle
            && !self.entry.facts().in_transaction
            && self.server.waiting() == Waiting::Nothing
            && self.client.waiting() == Waiting::Nothing
    }

    /// Says goodbye to the server as a client would. One small packet into an idle connection always fits.
    fn say_goodbye(&self) {
        if self.entry.facts().idle && self.up.left.is_none() {
            self.server.send_now(&QUIT);
        }
    }

    /// The client has left. The server gets to finish what it does; when it has nothing to do, this is the end.
    fn after_client(&mut self, cx: &mut Context<'_>) -> Poll<Closed> {
        match self.tracker.phase() {
            Phase::Idle | Phase::Closing(_) => return Poll::Ready(Closed::ClientLeft),
            Phase::Busy | Phase::Infile => return Poll::Pending,
            _ => {}
        }
        let linger = self.linger.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        linger.as_mut().poll(cx).map(|()| Closed::ClientLeft)
    }
}

impl Future for Relay {
    type Output = Closed;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Closed> {
        let this = self.get_mut();
        if let Poll::Ready(stop) = this.client_to_server(cx) {
            match stop {
                Stop::Done => {}
                Stop::Broken(Broken::Source) => return Poll::Ready(Closed::ClientLeft),
                Stop::Broken(Broken::Target) => return Poll::Ready(Closed::ServerLeft),
                Stop::Close(why) => {
                    this.say_goodbye();
                    return Poll::Ready(why);
                }
            }
        }
        match this.server_to_client(cx) {
            Poll::Pending => {}
            Poll::Ready(Stop::Broken(Broken::Target)) => return Poll::Ready(Closed::ClientLeft),
            Poll::Ready(_) if this.up.ended => return Poll::Ready(Closed::ClientLeft),
            Poll::Ready(_) => return Poll::Ready(Closed::ServerLeft),
        }
        if this.up.done {
            return this.after_client(cx);
        }
        match this.entry.ordered() {
            Some(Order::Cut(why)) => {
                this.say_goodbye();
                return Poll::Ready(why);
            }
            Some(Order::CloseIfIdle(why)) if this.may_close() => {
                this.say_goodbye();
                return Poll::Ready(why);
            }
            Some(Order::CloseIfIdle(_)) => this.entry.cancel(),
            None => {}
        }
        this.entry.waits(cx.waker());
        Poll::Pending
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        for half in [&mut self.up, &mut self.down] {
            if let Some((buffer, ..)) = half.left.take() {
                self.pool.give(buffer);
            }
        }
    }
}

impl Half {
    /// Moves what can be moved now. `see` sees every byte once, before it is passed on.
    fn pump(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut Stream,
        target: &mut Stream,
        pool: &Pool,
        mut see: impl FnMut(&[u8]) -> Seen,
    ) -> Poll<Stop> {
        loop {
            if self.done {
                return Poll::Ready(Stop::Done);
            }
            if self.left.is_some() && ready!(self.drain(cx, target, pool)).is_err() {
                return Poll::Ready(Stop::Broken(Broken::Target));
            }
            if self.ended {
                // The target may be gone already; it has been told either way.
                let _ = ready!(Pin::new(&mut *target).poll_shutdown(cx));
                self.done = true;
                continue;
            }
            let mut buffer = pool.take();
            let mut read = ReadBuf::new(&mut buffer);
            let outcome = Pin::new(&mut *source).poll_read(cx, &mut read);
            let length = read.filled().len();
            match outcome {
                Poll::Ready(Ok(())) if length > 0 => {}
                other => {
                    pool.give(buffer);
                    match other {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(Err(_)) => return Poll::Ready(Stop::Broken(Broken::Source)),
                        Poll::Ready(Ok(())) => self.ended = true,
                    }
                    continue;
                }
            }
            if let Seen::Close(why) = see(&buffer[..length]) {
                pool.give(buffer);
                return Poll::Ready(Stop::Close(why));
            }
            self.left = Some((buffer, 0, length));
        }
    }

    /// Writes what is left and gives the buffer back.
    fn drain(&mut self, cx: &mut Context<'_>, target: &mut Stream, pool: &Pool) -> Poll<io::Result<()>> {
        while let Some((buffer, from, to)) = &mut self.left {
            match ready!(Pin::new(&mut *target).poll_write(cx, &buffer[*from..*to])) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(written) => *from += written,
                Err(error) => return Poll::Ready(Err(error)),
            }
            if *from == *to
                && let Some((buffer, ..)) = self.left.take()
            {
                pool.give(buffer);
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Whether these bytes are a pool's check on a session that is wanted elsewhere and may be closed instead of answered.
fn answers_pool_check(bytes: &[u8], tracker: &Tracker, entry: &Entry) -> Option<Closed> {
    let [1, 0, 0, 0, command] = bytes else { return None };
    let reset = match Command::from_byte(*command) {
        Command::Ping => false,
        Command::ResetConnection => true,
        _ => return None,
    };
    let wish = entry.seat.tally.wish(entry.seat.role);
    // State that a pool makes for itself again does not outlive a check; a reset ends all state, transactions too.
    let wanted = Wanted { light_state_too: true, all_state_too: reset, ..wish.now()? };
    let facts = Facts::of(tracker);
    let allowed = facts.may_close(wanted) || (reset && facts.idle);
    (allowed && wish.take()).then_some(wanted.why)
}

#[cfg(test)]
mod tests {
    use super::*;
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
        relay: tokio::task::JoinHandle<Closed>,
    }

    fn framed(mut sequence: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        packet::write(&mut out, &mut sequence, payload);
        out
    }

    fn ok(sequence: u8, status: Status) -> Vec<u8> {
        let ok = OkPacket {
            affected_rows: 0,
            last_insert_id: 0,
            status,
            warnings: 0,
            info: &[],
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
        let relay = tokio::task::spawn_local(Relay::new(streams, &greeting, entry.clone(), Rc::default()));
        let mut got = vec![0; greeting.len()];
        client.read_exact(&mut got).await.unwrap();
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
                assert_eq!(b.relay.await.unwrap(), Closed::Balance);
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
                assert_eq!(b.relay.await.unwrap(), Closed::Balance);
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
                assert_eq!(b.relay.await.unwrap(), Closed::DrainDeadline);
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
                assert_eq!(b.relay.await.unwrap(), Closed::Balance);
            })
            .await;
    }
}
