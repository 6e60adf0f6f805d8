//! The thread that serves all links: one loop over what sockets report and what is due.
//!
//! What is due next is a timerfd among the sockets: precise to what the machine's timers are, where the
//! timeout of `epoll_wait` is in milliseconds and other waits get the kernel's 50 us of slack, as long as the
//! distances simulated here. Everything is registered once, edge-triggered; a round trip costs four wake-ups,
//! two reads, two writes and two settings of the timer, and no allocation once the queues have grown.

use super::session::{Around, LinkSession, Next, Side};
use super::{Counters, LinkEnd, Mode, Order, OrderWithReply};
use crate::layout;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, Result};
use rustix::net::sockopt::{set_socket_reuseaddr, set_tcp_nodelay};
use rustix::net::{bind, connect};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, clock_gettime, timerfd_create,
    timerfd_settime,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

/// Largest read: also how much one session may take before another has its turn.
const READ: usize = 64 << 10;
const EVENTS: usize = 256;
const SECOND: u64 = 1_000_000_000;
/// Where the ports of connections to servers come from, and how many of them are tried for one.
const PORTS: RangeInclusive<u16> = 32_768..=60_999;
const PORTS_TRIED: u32 = 64;
/// What an event is about: the bell, a listener, or a session's side.
const BELL: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
const LISTENER: u64 = 1 << 63;

/// The relay; moved into its thread.
pub(super) struct Relay {
    epoll: OwnedFd,
    bell: Arc<OwnedFd>,
    orders: mpsc::Receiver<OrderWithReply>,
    links: Vec<LinkEnd>,
    counters: Arc<[Counters]>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Freed while events are handled: usable for others only afterwards, so that no event goes to a
    /// stranger.
    freed: Vec<u32>,
    due: BinaryHeap<Reverse<Due>>,
    timer: OwnedFd,
    /// When the timer goes off, once it is set.
    armed: Option<u64>,
    rng: SmallRng,
    /// The port that the next connection to a server tries first.
    port: u16,
    scratch: Box<[u8]>,
}

/// When a session wants to go on: (nanoseconds, slot, the slot's use).
type Due = (u64, u32, u32);

/// A place for a session.
struct Slot {
    /// Counts the sessions that had this place.
    usage: u32,
    /// Earliest entry in the queue of what is due, where there is one.
    due: Option<u64>,
    peer: SocketAddrV4,
    session: Option<LinkSession>,
}

impl Relay {
    pub(super) fn new(
        links: Vec<LinkEnd>,
        counters: Arc<[Counters]>,
        orders: mpsc::Receiver<OrderWithReply>,
        bell: Arc<OwnedFd>,
    ) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &*bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), LISTENER_EVENTS)?;
        for (index, link) in links.iter().enumerate() {
            epoll::add(&epoll, &link.listener, listener_data(index), LISTENER_EVENTS)?;
        }
        let mut rng = SmallRng::from_os_rng();
        Ok(Self {
            epoll,
            bell,
            orders,
            links,
            counters,
            slots: Vec::new(),
            free: Vec::new(),
            freed: Vec::new(),
            due: BinaryHeap::new(),
            timer,
            armed: None,
            port: rng.random_range(PORTS),
            rng,
            scratch: vec![0; READ].into_boxed_slice(),
        })
    }

    /// Serves until told to quit.
    pub(super) fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            events.clear();
            let waited = self.set_timer().and_then(|limit| {
                epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), limit.as_ref())
            });
            match waited {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::error!(%error, "the links have stopped: epoll failed");
                    return;
                }
            }
            let mut rung = false;
            let now = self.now();
            for event in &events {
                match event.data.u64() {
                    BELL => rung = true,
                    TIMER => {}
                    data if data & LISTENER != 0 => self.accept((data & !LISTENER) as usize, now),
                    data => self.report(data, event.flags, now),
                }
            }
            self.free.append(&mut self.freed);
            if rung && !self.obey() {
                return;
            }
            self.advance_due();
            self.free.append(&mut self.freed);
        }
    }

    fn now(&self) -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec.unsigned_abs() * SECOND + now.tv_nsec.unsigned_abs()
    }

    /// Sets the timer to what is due next. Returns how long to wait for events at most: not at all when
    /// something is due already.
    fn set_timer(&mut self) -> Result<Option<Timespec>> {
        let Some(&Reverse((at, ..))) = self.due.peek() else { return Ok(None) };
        let now = self.now();
        if at <= now {
            return Ok(Some(Timespec::default()));
        }
        // A timer that has gone off is set anew even to the same time: it does not go off again by itself.
        if self.armed.is_none_or(|armed| at != armed || armed <= now) {
            let value = Timespec { tv_sec: (at / SECOND) as i64, tv_nsec: (at % SECOND) as i64 };
            let setting = Itimerspec { it_interval: Timespec::default(), it_value: value };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)?;
            self.armed = Some(at);
        }
        Ok(None)
    }

    fn accept(&mut self, link: usize, now: u64) {
        while self.links[link].listener.accepts() {
            let Some((client, peer)) = self.links[link].listener.accept() else { return };
            let slot = self.free.pop().unwrap_or_else(|| {
                self.slots.push(Slot { usage: 0, due: None, peer, session: None });
                (self.slots.len() - 1) as u32
            });
            let around = Around {
                now,
                pace: self.links[link].pace,
                stalled: false,
                counters: &self.counters[link],
                rng: &mut self.rng,
                scratch: &mut self.scratch,
            };
            let session = LinkSession::new(link, client, &around);
            if let Err(error) =
                epoll::add(&self.epoll, session.client(), data(slot, Side::Client), SOCKET_EVENTS)
            {
                tracing::warn!(%error, "a link lost a connection");
                self.free.push(slot);
                continue;
            }
            self.counters[link].connections.fetch_add(1, Ordering::Relaxed);
            self.counters[link].open.fetch_add(1, Ordering::Relaxed);
            let place = &mut self.slots[slot as usize];
            *place = Slot { usage: place.usage.wrapping_add(1), due: None, peer, session: Some(session) };
            self.advance(slot, now);
        }
    }

    fn report(&mut self, data: u64, flags: epoll::EventFlags, now: u64) {
        use epoll::EventFlags as Flags;
        let slot = (data >> 1) as u32;
        let side = if data & 1 == 0 { Side::Client } else { Side::Server };
        let Some(session) = self.slots[slot as usize].session.as_mut() else { return };
        let hung_up = flags.intersects(Flags::RDHUP | Flags::HUP | Flags::ERR);
        session.report(side, flags.contains(Flags::IN), flags.contains(Flags::OUT), hung_up);
        self.advance(slot, now);
    }

    fn advance_due(&mut self) {
        let now = self.now();
        while let Some(&Reverse((at, slot, usage))) = self.due.peek() {
            if at > now {
                return;
            }
            self.due.pop();
            let place = &mut self.slots[slot as usize];
            if place.usage == usage && place.session.is_some() {
                if place.due == Some(at) {
                    place.due = None;
                }
                self.advance(slot, now);
            }
        }
    }

    /// Lets a session go on and notes when it wants to again.
    fn advance(&mut self, slot: u32, now: u64) {
        let place = &mut self.slots[slot as usize];
        let Some(session) = place.session.as_mut() else { return };
        let link = &self.links[session.link];
        let mut around = Around {
            now,
            pace: link.pace,
            stalled: matches!(link.listener.mode(), Mode::Silent | Mode::Dropping),
            counters: &self.counters[session.link],
            rng: &mut self.rng,
            scratch: &mut self.scratch,
        };
        match session.advance(&mut around, place.peer) {
            Next::Wait(None) => {}
            Next::Wait(Some(at)) => {
                if place.due.is_none_or(|due| at < due) {
                    place.due = Some(at);
                    self.due.push(Reverse((at, slot, place.usage)));
                }
            }
            Next::Connect(peer) => match open_upstream(&self.epoll, link, peer, slot, &mut self.port) {
                Ok(socket) => session.connecting(socket),
                Err(error) => {
                    tracing::debug!(server = %link.server, %error, "a link cannot reach its server");
                    self.close(slot);
                }
            },
            Next::Close => self.close(slot),
        }
    }

    fn close(&mut self, slot: u32) {
        if let Some(session) = self.slots[slot as usize].session.take() {
            self.counters[session.link].open.fetch_sub(1, Ordering::Relaxed);
            self.freed.push(slot);
            session.close();
        }
    }

    /// Does what it was told; `false` is "quit".
    fn obey(&mut self) -> bool {
        let mut count = [0; 8];
        // Nothing to read is possible: orders may be done before their ring is heard.
        let _ = rustix::io::read(&*self.bell, &mut count);
        while let Ok((order, done)) = self.orders.try_recv() {
            match order {
                Order::Quit => {
                    for slot in 0..self.slots.len() {
                        self.close(slot as u32);
                    }
                    let _ = done.send(());
                    return false;
                }
                Order::Pace(link, pace) => self.links[link].pace = pace,
                Order::Mode(link, mode) => self.set_mode(link, mode),
            }
            // Whoever no longer waits for the answer is content without it.
            let _ = done.send(());
        }
        true
    }

    fn set_mode(&mut self, link: usize, mode: Mode) {
        let end = &mut self.links[link];
        if let Err(error) = end.listener.set_mode(mode) {
            tracing::error!(server = %end.server, ?mode, %error, "a link cannot change its mode");
        }
        // A listener that listens again is looked at again: edges before that were not for us.
        let modified = epoll::modify(&self.epoll, &end.listener, listener_data(link), LISTENER_EVENTS);
        if let Err(error) = modified {
            tracing::error!(%error, "a link cannot watch its listener");
        }
        let now = self.now();
        let on_link = |slot: &Slot| slot.session.as_ref().is_some_and(|s| s.link == link);
        let slots: Vec<u32> =
            (0..self.slots.len() as u32).filter(|s| on_link(&self.slots[*s as usize])).collect();
        for slot in slots {
            self.advance(slot, now);
        }
        self.accept(link, now);
    }
}

const LISTENER_EVENTS: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::ET);
const SOCKET_EVENTS: epoll::EventFlags = epoll::EventFlags::IN
    .union(epoll::EventFlags::OUT)
    .union(epoll::EventFlags::RDHUP)
    .union(epoll::EventFlags::ET);

fn listener_data(link: usize) -> epoll::EventData {
    epoll::EventData::new_u64(LISTENER | link as u64)
}

fn data(slot: u32, side: Side) -> epoll::EventData {
    epoll::EventData::new_u64(u64::from(slot) << 1 | u64::from(side == Side::Server))
}

/// Starts connecting to the server from the client's zone.
fn open_upstream(
    epoll: &OwnedFd,
    link: &LinkEnd,
    peer: SocketAddrV4,
    slot: u32,
    port: &mut u16,
) -> Result<OwnedFd> {
    let socket = connect_in_turn(layout::source(link.from, *peer.ip()), link.server, port)?;
    // Only now: a socket that does not connect yet reports a hang-up.
    epoll::add(epoll, &socket, data(slot, Side::Server), SOCKET_EVENTS)?;
    Ok(socket)
}

/// The ports are taken in turn. The kernel, asked for any, looks at each that still waits for stray packets,
/// which after some thousand connections of one zone keeps a core busy. It is asked only where many in a row
/// are taken, as by the sessions of a large pool that stay open side by side.
fn connect_in_turn(from: Ipv4Addr, server: SocketAddrV4, port: &mut u16) -> Result<OwnedFd> {
    for _ in 0..PORTS_TRIED {
        let source = SocketAddrV4::new(from, *port);
        *port = if port == PORTS.end() { *PORTS.start() } else { *port + 1 };
        match connect_from(source, server) {
            Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) => {}
            connected => return connected,
        }
    }
    connect_from(SocketAddrV4::new(from, 0), server)
}

fn connect_from(source: SocketAddrV4, server: SocketAddrV4) -> Result<OwnedFd> {
    let socket = super::listener::stream_socket()?;
    set_tcp_nodelay(&socket, true)?;
    // Ports whose last connection is only waiting for stray packets may be used again.
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &source)?;
    match connect(&socket, &server) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_connection_finds_a_port_beside_many_that_stay_open_side_by_side() {
        let to = Ipv4Addr::new(127, 203, 0, 1);
        let listener = TcpListener::bind((to, 0)).unwrap();
        let server = SocketAddrV4::new(to, listener.local_addr().unwrap().port());
        let from = Ipv4Addr::new(127, 203, 0, 9);
        let first = *PORTS.start();
        let mut port = first;
        let open: Vec<OwnedFd> =
            (0..PORTS_TRIED).map(|_| connect_in_turn(from, server, &mut port).unwrap()).collect();
        // All ports have had their turn.
        port = first;
        let further = connect_in_turn(from, server, &mut port);
        assert!(further.is_ok(), "{further:?} beside {}", open.len());
    }
}
