//! Small packets over a pair of interfaces that one CPU has to handle alone: all that come to the far end go
//! to CPU 0, as those of a network card without several queues do. A sender on the last CPU sends to a
//! multicast group, and each packet is handed to every socket of the group in the soft interrupt: the more
//! sockets, the more work for CPU 0.
//!
//! Sent without a pause they keep CPU 0 busy. Sent in bursts, each longer than the backlog of a CPU
//! (`net.core.netdev_max_backlog`), they are dropped though CPU 0 has time in between.

use super::super::process::run_here_on;
use super::veth::{FAR, NEAR, Pair};
use anyhow::Context;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 77, 1);
const PORT: u16 = 9;
/// Sockets that send in turn. Packets count against the buffer of the one that sent them until they have
/// arrived, some 270 in all: one socket alone would wait before a backlog is full.
const SENDING: usize = 16;
/// Packets between two looks at the clock.
const LOOK: u32 = 256;
/// Of a burst, as a multiple of what a backlog holds: some are handled meanwhile, and as many as the backlog
/// holds have been taken from it and wait.
const BACKLOGS: u32 = 4;
/// What a backlog holds where the kernel does not say.
const USUAL_BACKLOG: u32 = 1000;
/// Bursts for a backlog of more than this would be one stream.
pub(super) const MOST: u32 = 10_000;

/// How packets are sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    Steady,
    /// Bursts, this often a second.
    Bursts(u32),
}

/// A stream of packets; dropped, it ends and the pair is removed.
pub(super) struct Packets {
    stop: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
    sockets: Vec<UdpSocket>,
    _pair: Pair,
}

impl Packets {
    /// Begins; each packet goes to `sockets` of them.
    pub(super) fn begin(sockets: u32, pace: Pace, until: Instant) -> anyhow::Result<Self> {
        let pair = Pair::make()?;
        pair.hand_to_one_cpu()?;
        let sockets = pair.far(move || (0..sockets).map(|_| listener()).collect())?;
        let mut packets = Self { stop: Arc::default(), sender: None, sockets, _pair: pair };
        let sending = (0..SENDING).map(|_| sender()).collect::<anyhow::Result<Vec<_>>>()?;
        let stop = packets.stop.clone();
        packets.sender = Some(std::thread::spawn(move || send(&sending, pace, until, &stop)));
        Ok(packets)
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(sender) = self.sender.take() {
            let _ = sender.join();
        }
        self.sockets.clear();
    }
}

fn send(sockets: &[UdpSocket], pace: Pace, until: Instant, stop: &AtomicBool) {
    let last = std::thread::available_parallelism().map_or(0, |cpus| cpus.get() - 1);
    let _ = run_here_on(last);
    let (packets, every) = match pace {
        Pace::Steady => (LOOK, Duration::ZERO),
        Pace::Bursts(per_s) => (BACKLOGS * backlog(), Duration::from_secs(1) / per_s.max(1)),
    };
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        for socket in sockets.iter().cycle().take(packets as usize) {
            // A full queue is the point of it.
            let _ = socket.send_to(&[0; 16], (GROUP, PORT));
        }
        std::thread::sleep(every.saturating_sub(began.elapsed()));
    }
}

/// Packets that the backlog of a CPU holds.
pub(super) fn backlog() -> u32 {
    let read = std::fs::read_to_string("/proc/sys/net/core/netdev_max_backlog");
    read.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(USUAL_BACKLOG)
}

fn sender() -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind((NEAR, 0)).context("binding to the pair")?;
    rustix::net::sockopt::set_ip_multicast_if(socket.as_fd(), &NEAR)?;
    Ok(socket)
}

fn listener() -> anyhow::Result<UdpSocket> {
    use rustix::net::{AddressFamily, SocketAddrV4, SocketType, bind, socket, sockopt};
    let fd = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    bind(&fd, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT)).context("binding in the namespace")?;
    let socket = UdpSocket::from(fd);
    socket.join_multicast_v4(&GROUP, &FAR).context("joining the group")?;
    Ok(socket)
}
