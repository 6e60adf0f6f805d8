//! Small packets over a veth pair that one CPU has to handle alone: the peer's only queue goes to CPU 0,
//! as the one interrupt of a network card without several queues does. A sender on the last CPU sends to a
//! multicast group, and each packet is handed to every socket of the group in the soft interrupt: the more
//! sockets, the more work for CPU 0.
//!
//! The pair's far end is in a network namespace of its own; addresses are from the block for benchmarks (RFC
//! 2544).

use super::super::process::run_here_on;
use anyhow::{Context, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

const NAMESPACE: &str = "headroom-bench";
const NEAR: (&str, &str) = ("hrbench0", "198.18.77.1/30");
const FAR: (&str, &str) = ("hrbench1", "198.18.77.2/30");
const FAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 77, 2);
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 77, 1);
const PORT: u16 = 9;
/// Packets between two looks at the clock.
const BURST: u32 = 256;

/// A stream of packets; dropped, it ends and the pair is removed.
pub(super) struct Packets {
    stop: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
    sockets: Vec<UdpSocket>,
}

impl Packets {
    /// Begins; each packet goes to `sockets` of them.
    pub(super) fn begin(sockets: u32, until: Instant) -> anyhow::Result<Self> {
        remove();
        let mut packets = Self { stop: Arc::default(), sender: None, sockets: Vec::new() };
        pair()?;
        packets.sockets = std::thread::spawn(move || join_in_namespace(sockets))
            .join()
            .map_err(|_| anyhow::anyhow!("the thread in the namespace broke down"))??;
        let socket = UdpSocket::bind((Ipv4Addr::new(198, 18, 77, 1), 0)).context("binding to the pair")?;
        rustix::net::sockopt::set_ip_multicast_if(socket.as_fd(), &Ipv4Addr::new(198, 18, 77, 1))?;
        let stop = packets.stop.clone();
        packets.sender = Some(std::thread::spawn(move || send(&socket, until, &stop)));
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
        remove();
    }
}

fn send(socket: &UdpSocket, until: Instant, stop: &AtomicBool) {
    let last = std::thread::available_parallelism().map_or(0, |cpus| cpus.get() - 1);
    let _ = run_here_on(last);
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        for _ in 0..BURST {
            // A full queue is the point of it.
            let _ = socket.send_to(&[0; 16], (GROUP, PORT));
        }
    }
}

fn pair() -> anyhow::Result<()> {
    ip(&["netns", "add", NAMESPACE])?;
    ip(&["link", "add", NEAR.0, "type", "veth", "peer", "name", FAR.0, "netns", NAMESPACE])?;
    ip(&["address", "add", NEAR.1, "dev", NEAR.0])?;
    ip(&["link", "set", NEAR.0, "up"])?;
    ip(&["-n", NAMESPACE, "address", "add", FAR.1, "dev", FAR.0])?;
    ip(&["-n", NAMESPACE, "link", "set", FAR.0, "up"])?;
    let one_cpu = format!("echo 1 > /sys/class/net/{}/queues/rx-0/rps_cpus", FAR.0);
    ip(&["netns", "exec", NAMESPACE, "sh", "-c", &one_cpu]).map(|_| ())
}

fn remove() {
    // Not there is as good as removed.
    let _ = ip(&["link", "delete", NEAR.0]);
    let _ = ip(&["netns", "delete", NAMESPACE]);
}

/// Sockets of the group, made in the namespace by a thread that goes there and ends.
fn join_in_namespace(sockets: u32) -> anyhow::Result<Vec<UdpSocket>> {
    let namespace = File::open(format!("/run/netns/{NAMESPACE}")).context("opening the namespace")?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .context("entering the namespace (needs root)")?;
    (0..sockets).map(|_| listener()).collect()
}

fn listener() -> anyhow::Result<UdpSocket> {
    use rustix::net::{AddressFamily, SocketAddrV4, SocketType, bind, socket, sockopt};
    let fd = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    bind(&fd, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT)).context("binding in the namespace")?;
    let socket = UdpSocket::from(fd);
    socket.join_multicast_v4(&GROUP, &FAR_ADDRESS).context("joining the group")?;
    Ok(socket)
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("ip").args(arguments).output().context("starting ip (package iproute2)")?;
    if !output.status.success() {
        bail!("ip {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
