//! One connection through a link: two streams, one each way, that arrive later than they were sent.

use super::queue::{Delayed, End};
use super::{Counters, Pace};
use rand::Rng;
use rand::rngs::SmallRng;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A way of 1.5 round trips: three times one way, until the handshake's last packet reaches the server.
const HANDSHAKE_WAYS: u64 = 3;

#[derive(Debug)]
pub(super) struct LinkSession {
    pub(super) link: usize,
    client: OwnedFd,
    upstream: Upstream,
    to_server: Way,
    to_client: Way,
    /// The client spoke last: what the server says next completes a round trip.
    asked: bool,
}

/// The server's side.
#[derive(Debug)]
enum Upstream {
    /// The client's connection attempt is still on its way; it arrives at this time.
    Coming(u64),
    /// Connected or being connected: until then the socket reports neither readable nor writable. A refusal
    /// shows as an error when it is read, and travels back to the client as a reset.
    Socket(OwnedFd),
}

#[derive(Debug, Default)]
struct Way {
    queue: Delayed,
    /// The sender's socket may have more.
    readable: bool,
    /// The sender hung up: read on until the end shows.
    hung_up: bool,
    /// The receiver's socket takes more.
    writable: bool,
    /// The end was delivered.
    done: bool,
}

/// Which end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// What the relay does next with a session.
#[derive(Debug)]
pub(super) enum Next {
    /// Nothing before this time, or before one of its sockets reports something.
    Wait(Option<u64>),
    /// Connect to the server, for this client.
    Connect(SocketAddrV4),
    Close,
}

/// What a session needs from outside to go on.
pub(super) struct Around<'a> {
    /// Nanoseconds.
    pub(super) now: u64,
    pub(super) pace: Pace,
    /// The link delivers nothing.
    pub(super) stalled: bool,
    pub(super) counters: &'a Counters,
    pub(super) rng: &'a mut SmallRng,
    pub(super) scratch: &'a mut [u8],
}

impl LinkSession {
    /// A client that was just accepted.
    pub(super) fn new(link: usize, client: OwnedFd, around: &Around<'_>) -> Self {
        let arrives = around.now + HANDSHAKE_WAYS * nanoseconds(around.pace.one_way);
        let to_client = Way { writable: true, ..Way::default() };
        let upstream = Upstream::Coming(arrives);
        Self { link, client, upstream, to_server: Way::default(), to_client, asked: false }
    }

    pub(super) fn client(&self) -> &OwnedFd {
        &self.client
    }

    /// The connection to the server is being made on this socket.
    pub(super) fn connecting(&mut self, socket: OwnedFd) {
        self.upstream = Upstream::Socket(socket);
    }

    /// A socket reports that it can be read, written, or was hung up.
    pub(super) fn report(&mut self, side: Side, readable: bool, writable: bool, hung_up: bool) {
        let (out, back) = match side {
            Side::Client => (&mut self.to_server, &mut self.to_client),
            Side::Server => (&mut self.to_client, &mut self.to_server),
        };
        out.readable |= readable || hung_up;
        out.hung_up |= hung_up;
        back.writable |= writable;
    }

    /// Takes in what was sent, delivers what has arrived.
    pub(super) fn advance(&mut self, around: &mut Around<'_>, peer: SocketAddrV4) -> Next {
        if around.stalled {
            return Next::Wait(None);
        }
        self.take_in_from_client(around);
        let server = match &self.upstream {
            Upstream::Coming(at) if *at <= around.now => return Next::Connect(peer),
            Upstream::Coming(at) => return Next::Wait(Some(*at)),
            Upstream::Socket(server) => server,
        };
        let taken = self.to_client.take_in(server, around);
        if taken > 0 && std::mem::take(&mut self.asked) {
            count(&around.counters.round_trips, 1);
        }
        count(&around.counters.bytes_to_client, taken);
        if self.to_server.deliver(server, around.now).is_err() {
            self.to_client.queue.finish(End::Reset, around.arrival());
        }
        if self.to_client.deliver(&self.client, around.now).is_err() {
            self.to_server.queue.finish(End::Reset, around.arrival());
        }
        // What was left for want of room.
        count(&around.counters.bytes_to_client, self.to_client.take_in(server, around));
        self.take_in_from_client(around);
        self.next(around.now)
    }

    fn take_in_from_client(&mut self, around: &mut Around<'_>) {
        let taken = self.to_server.take_in(&self.client, around);
        self.asked |= taken > 0;
        count(&around.counters.bytes_to_server, taken);
    }

    fn next(&self, now: u64) -> Next {
        let ways = [&self.to_server, &self.to_client];
        let broken = ways.iter().any(|way| way.queue.ended(now) == Some(End::Reset));
        if broken || ways.iter().all(|way| way.done) {
            return Next::Close;
        }
        // What cannot be written now waits for its socket, not for a time.
        let open = ways.iter().filter(|way| way.writable && !way.done);
        // A reset needs no writable socket.
        let resets = ways.iter().filter_map(|way| way.queue.reset_at());
        Next::Wait(open.filter_map(|way| way.queue.next()).chain(resets).min())
    }

    /// Closes both sides; whoever has not seen an orderly end sees a reset.
    pub(super) fn close(self) {
        let reset = |socket: &OwnedFd, done: bool| {
            if !done {
                // Fails only when it is closed already.
                let _ = set_socket_linger(socket, Some(Duration::ZERO));
            }
        };
        reset(&self.client, self.to_client.done);
        if let Upstream::Socket(server) = &self.upstream {
            reset(server, self.to_server.done);
        }
    }
}

impl Way {
    /// Reads what the sender has sent; returns how many bytes.
    fn take_in(&mut self, from: &OwnedFd, around: &mut Around<'_>) -> u64 {
        let mut taken = 0;
        while self.readable && self.queue.has_room() {
            match rustix::io::read(from, &mut *around.scratch) {
                Ok(0) => {
                    self.queue.finish(End::Finished, around.arrival());
                    self.readable = false;
                }
                Ok(count) => {
                    taken += count as u64;
                    let arrival = around.arrival();
                    self.queue.push(&around.scratch[..count], arrival);
                    // A short read took everything; what comes later is reported anew.
                    self.readable = count == around.scratch.len() || self.hung_up;
                }
                Err(Errno::AGAIN) => self.readable = false,
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.queue.finish(End::Reset, around.arrival());
                    self.readable = false;
                }
            }
        }
        taken
    }

    /// Writes what has arrived. An error says that the receiver has closed.
    fn deliver(&mut self, to: &OwnedFd, now: u64) -> Result<(), Errno> {
        while self.writable {
            let arrived = self.queue.arrived(now);
            if arrived.is_empty() {
                break;
            }
            match send(to, arrived, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.writable = count == arrived.len();
                    self.queue.delivered(count);
                }
                Err(Errno::AGAIN) => self.writable = false,
                Err(Errno::INTR) => {}
                Err(error) => {
                    self.queue.discard();
                    self.readable = false;
                    self.writable = false;
                    self.done = true;
                    return Err(error);
                }
            }
        }
        if !self.done && self.queue.ended(now) == Some(End::Finished) {
            self.done = true;
            // Fails only when the receiver has closed, which its own direction tells.
            let _ = shutdown(to, Shutdown::Write);
        }
        Ok(())
    }
}

impl Around<'_> {
    /// When something sent now arrives.
    fn arrival(&mut self) -> u64 {
        let way = nanoseconds(self.pace.one_way);
        if self.pace.jitter <= 0.0 || way == 0 {
            return self.now + way;
        }
        // Below 2^53 ns (104 days) a float is exact.
        let later = way as f64 * self.pace.jitter * self.rng.random::<f64>();
        self.now + way + later as u64
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn count(counter: &AtomicU64, add: u64) {
    if add > 0 {
        counter.fetch_add(add, Ordering::Relaxed);
    }
}
