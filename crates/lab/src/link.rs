//! Links: the simulated network. A link is the address by which one zone reaches one server; what passes
//! takes time.
//!
//! A chunk that arrives at t is passed on at t + d, d = round trip / 2 x (1 + jitter x u) with u even in
//! 0..1, never before a chunk that came earlier. So a round trip takes at least the configured time, plus
//! what this machine needs to copy and to wake up (printed by the tests, some tens of microseconds). The end
//! of a stream and a reset travel at the same pace. A connection reaches the server 1.5 round trips after the
//! client called `connect`: on a real network the third packet of the handshake arrives then, and the server
//! greets. What it does not simulate: the client's own `connect` returns at once, bandwidth is unlimited,
//! nothing is lost.
//!
//! All links of a lab share one thread (see `relay`). It works in user space on loopback addresses: no root,
//! no kernel module, and both ends are ordinary sockets. The server sees the client's own address where that
//! lies in the zone.

use crate::layout::Layout;
use crate::{Error, Network};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

mod listener;
mod queue;
mod relay;
mod session;

pub(crate) use listener::Listener;

/// The relay obeys in microseconds; later than this it is broken.
const OBEYS_WITHIN: Duration = Duration::from_secs(5);

/// What a link does with those who come. Later ones are stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Passes everything on.
    Open,
    /// Refuses connections; what is connected stays.
    Refusing,
    /// Takes connections and keeps them, but delivers nothing in either direction.
    Silent,
    /// Does not answer connection attempts at all (`connect` hangs), and delivers nothing.
    Dropping,
}

/// What a link is made of.
#[derive(Debug)]
pub(crate) struct LinkEnd {
    pub(crate) listener: Listener,
    /// Index of the zone it starts in.
    pub(crate) from: usize,
    /// The server's own address.
    pub(crate) server: SocketAddrV4,
    pub(crate) pace: Pace,
}

/// How long one way takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    pub(crate) one_way: Duration,
    /// A way takes up to this share longer.
    pub(crate) jitter: f64,
}

/// What a link has carried.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    connections: AtomicU64,
    open: AtomicU64,
    bytes_to_server: AtomicU64,
    bytes_to_client: AtomicU64,
    round_trips: AtomicU64,
}

/// What a link has carried since the lab came up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// Zone it starts in.
    pub from: String,
    /// Zone it leads to.
    pub to: String,
    pub server: String,
    /// Connections so far.
    pub connections: u64,
    /// Connections open now.
    pub open: u64,
    /// Bytes that clients sent.
    pub bytes_to_server: u64,
    /// Bytes that the server sent.
    pub bytes_to_client: u64,
    /// How often the server answered after a client had sent something.
    pub round_trips: u64,
    /// Configured round-trip time now, microseconds.
    pub round_trip_us: u64,
}

#[derive(Debug)]
enum Order {
    Mode(usize, Mode),
    Pace(usize, Pace),
    Quit,
}

/// An order, and where to say that it was carried out.
type OrderWithReply = (Order, mpsc::Sender<()>);

/// All links of a lab and the thread that serves them; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Links {
    orders: mpsc::Sender<OrderWithReply>,
    bell: Arc<OwnedFd>,
    counters: Arc<[Counters]>,
    thread: Option<JoinHandle<()>>,
}

impl Links {
    /// Starts serving; `ends` are in the order of [`Layout::links`].
    pub(crate) fn start(ends: Vec<LinkEnd>) -> Result<Self, Error> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = Arc::new(bell.map_err(|e| Error::io("make an eventfd")(e.into()))?);
        let counters: Arc<[Counters]> = ends.iter().map(|_| Counters::default()).collect();
        let (orders, inbox) = mpsc::channel();
        let relay = relay::Relay::new(ends, counters.clone(), inbox, bell.clone())
            .map_err(|e| Error::io("make the relay of the links")(e.into()))?;
        let thread = thread::Builder::new().name("lab-links".to_owned()).spawn(move || relay.run());
        let thread = Some(thread.map_err(Error::io("start a thread"))?);
        Ok(Self { orders, bell, counters, thread })
    }

    /// Changes what a link does; done when this returns.
    pub(crate) fn set_mode(&self, link: usize, mode: Mode) -> Result<(), Error> {
        self.tell(Order::Mode(link, mode))
    }

    /// Changes how long a link is; what is under way arrives as it was sent.
    pub(crate) fn set_pace(&self, link: usize, pace: Pace) -> Result<(), Error> {
        self.tell(Order::Pace(link, pace))
    }

    pub(crate) fn counters(&self, link: usize) -> &Counters {
        &self.counters[link]
    }

    fn tell(&self, order: Order) -> Result<(), Error> {
        let (done, is_done) = mpsc::channel();
        self.orders.send((order, done)).map_err(|_| Error::Down)?;
        ring(&self.bell);
        is_done.recv_timeout(OBEYS_WITHIN).map_err(|_| Error::Down)
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        // An error says that the thread has ended already.
        let _ = self.tell(Order::Quit);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Pace {
    /// The pace of the link from a zone to a server, by the description.
    pub(crate) fn of(network: &Network, layout: &Layout, from: usize, server: usize) -> Self {
        let to = layout.servers[server].zone;
        let round_trip = network.round_trip(&layout.zones[from], &layout.zones[to]);
        Self { one_way: round_trip / 2, jitter: network.jitter }
    }
}

impl Counters {
    /// A reading; `pace` is what is configured now.
    pub(crate) fn report(&self, layout: &Layout, link: (usize, usize), pace: Pace) -> LinkReport {
        let (from, server) = link;
        let place = &layout.servers[server];
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LinkReport {
            from: layout.zones[from].to_string(),
            to: layout.zones[place.zone].to_string(),
            server: place.name.to_string(),
            connections: read(&self.connections),
            open: read(&self.open),
            bytes_to_server: read(&self.bytes_to_server),
            bytes_to_client: read(&self.bytes_to_client),
            round_trips: read(&self.round_trips),
            round_trip_us: u64::try_from((pace.one_way * 2).as_micros()).unwrap_or(u64::MAX),
        }
    }
}

/// Wakes the relay.
fn ring(bell: &OwnedFd) {
    // Full means that it will wake anyway.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

#[cfg(test)]
mod tests;
