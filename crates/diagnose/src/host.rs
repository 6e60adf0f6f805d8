//! This host, from `/proc`, `/sys` and cgroups: one family a file, each a pure reading of bytes and a pure
//! difference of two readings. `sampler` is the thin loop's hand: it keeps the files open and reads them all
//! at once.
//!
//! A [`Reading`] is counters at a moment; a [`Sample`] is what happened between two readings, as figures with
//! units. What a kernel does not offer is `None` or empty, never zero in disguise where the difference
//! matters.

pub mod cgroup;
pub mod cpu;
pub mod disk;
pub mod frequency;
pub mod interrupt;
pub mod memory;
pub mod nic;
pub mod pressure;
pub mod process;
mod sampler;
pub mod softnet;
pub mod table;
pub mod tcp;
mod text;

pub use sampler::{Roots, Sampler};

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many of the busiest interrupts a sample names.
const BUSIEST: usize = 8;

/// Whether a server is on this machine, as far as its address says: the host's figures are the server's then.
/// No name server is asked, which may take long: a name is this machine's if it is `localhost` or the host's
/// own, or if `/etc/hosts` gives it an address of this machine. Any other counts as elsewhere.
pub fn is_here(address: &fleet::Address) -> bool {
    let Some(host) = address.host() else { return true };
    if let Ok(ip) = host.parse::<IpAddr>() {
        return is_of_this_host(ip);
    }
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    is_name_here(host, &own, || std::fs::read("/etc/hosts").unwrap_or_default())
}

fn is_of_this_host(ip: IpAddr) -> bool {
    let family = if ip.is_ipv4() { "ipv4" } else { "ipv6" };
    let binds_any = || {
        let allowed = std::fs::read(format!("/proc/sys/net/{family}/ip_nonlocal_bind"));
        allowed.is_ok_and(|text| text.starts_with(b"1"))
    };
    // Packets to a second address of a network leave from its first.
    let source = || {
        let routes = || std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
        source_towards(ip).map(|from| if from != ip && ends_here(ip, &routes()) { ip } else { from })
    };
    is_own(ip, UdpSocket::bind((ip, 0)).is_ok(), binds_any, source)
}

/// Only an address of this machine can be bound, unless the system lets any be, as on hosts with a floating
/// address (`ip_nonlocal_bind`): then packets to an own one leave from it.
fn is_own(
    ip: IpAddr,
    can_bind: bool,
    binds_any: impl FnOnce() -> bool,
    source: impl FnOnce() -> Option<IpAddr>,
) -> bool {
    let is_local = ip.is_loopback() || ip.is_unspecified();
    can_bind && (is_local || !binds_any() || source() == Some(ip))
}

/// The address that packets to `ip` leave from. To connect a datagram socket sends nothing.
fn source_towards(ip: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((ip, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Whether `/proc/net/fib_trie` has an address, of IPv4, as one of this machine.
fn ends_here(ip: IpAddr, routes: &str) -> bool {
    let leaf = format!("|-- {ip}");
    let mut lines = routes.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let mut kinds = lines.clone().take_while(|line| line.starts_with('/'));
        if line == leaf && kinds.any(|kind| kind == "/32 host LOCAL") {
            return true;
        }
    }
    false
}

/// `own`: this host's name; `hosts`: the text of `/etc/hosts`.
fn is_name_here(name: &str, own: &str, hosts: impl FnOnce() -> Vec<u8>) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.eq_ignore_ascii_case("localhost") || name.eq_ignore_ascii_case(own) {
        return true;
    }
    String::from_utf8_lossy(&hosts()).lines().any(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let ip = words.next().and_then(|word| word.parse::<IpAddr>().ok());
        words.any(|other| name.eq_ignore_ascii_case(other)) && ip.is_some_and(is_of_this_host)
    })
}

/// Counters of this host at a moment.
#[derive(Clone, Debug)]
pub struct Reading {
    /// When, by the clock that neither jumps nor stops.
    pub at: Instant,
    /// How long the reading took.
    pub took: Duration,
    /// CPU time the reading took.
    pub cost: Duration,
    /// `/proc/stat`.
    pub cpu: cpu::Reading,
    /// The host's pressure.
    pub pressure: Pressures<pressure::Reading>,
    pub memory: memory::Reading,
    /// Disks, partitions left out.
    pub disks: disk::Reading,
    /// Network interfaces.
    pub nics: nic::Reading,
    /// Backlogs, by CPU.
    pub softnet: softnet::Reading,
    pub tcp: tcp::Reading,
    /// Neighbours, IPv4.
    pub neighbours: table::Reading,
    /// Tracked connections; `None` when the kernel tracks none.
    pub conntrack: Option<table::Reading>,
    pub seldom: Arc<SlowReading>,
}

/// What costs more to read and changes little.
#[derive(Clone, Debug)]
pub struct SlowReading {
    pub at: Instant,
    /// `/proc/interrupts`.
    pub interrupts: interrupt::Reading,
    /// `/proc/softirqs`.
    pub softirqs: interrupt::Reading,
    /// Interface -> what its link carries each way, bytes a second.
    pub links: Vec<(String, f64)>,
    pub frequency: frequency::Reading,
}

/// CPU, memory and io, each where the kernel offers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressures<T> {
    /// Runnable but not running.
    pub cpu: Option<T>,
    pub memory: Option<T>,
    /// Waiting for a disk.
    pub io: Option<T>,
}

/// This host between two readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Length of the window, seconds.
    pub seconds: f64,
    /// CPU time that reading it takes, milliseconds a reading.
    pub cost_ms: f64,
    pub cpu: cpu::Sample,
    /// How fast its CPUs run.
    #[serde(default)]
    pub frequency: frequency::Sample,
    pub pressure: Pressures<pressure::Sample>,
    pub memory: memory::Sample,
    pub disks: Vec<disk::Sample>,
    /// Network interfaces.
    pub nics: Vec<nic::Sample>,
    /// Backlogs, by CPU.
    pub softnet: Vec<softnet::Sample>,
    pub tcp: tcp::Sample,
    /// Neighbours, IPv4.
    pub neighbours: table::Sample,
    /// Tracked connections.
    pub conntrack: Option<table::Sample>,
    pub interrupts: Vec<interrupt::Sample>,
    /// The busiest soft interrupts.
    pub softirqs: Vec<interrupt::Sample>,
}

impl Reading {
    /// What happened since `before`; `None` when no time has passed.
    pub fn since(&self, before: &Self) -> Option<Sample> {
        let seconds = self.at.checked_duration_since(before.at)?.as_secs_f64();
        if seconds < 1e-3 {
            return None;
        }
        let apart = self.seldom.at.saturating_duration_since(before.seldom.at).as_secs_f64();
        let busiest = |of: fn(&SlowReading) -> &interrupt::Reading| {
            if apart < 1e-3 {
                return Vec::new();
            }
            of(&self.seldom).busiest(of(&before.seldom), apart, BUSIEST)
        };
        let mut nics = nic::since(&self.nics, &before.nics, seconds);
        for nic in &mut nics {
            let link = self.seldom.links.iter().find(|(name, _)| *name == nic.name);
            nic.link_bytes_per_s = link.map(|(_, speed)| *speed);
        }
        Some(Sample {
            seconds,
            cost_ms: self.cost.as_secs_f64() * 1e3,
            cpu: self.cpu.since(&before.cpu, seconds),
            frequency: self.seldom.frequency.since(&before.seldom.frequency, apart >= 1e-3),
            pressure: self.pressure.since(&before.pressure, seconds),
            memory: self.memory.since(&before.memory, seconds),
            disks: disk::since(&self.disks, &before.disks, seconds),
            nics,
            softnet: softnet::since(&self.softnet, &before.softnet, seconds),
            tcp: self.tcp.since(&before.tcp, seconds),
            neighbours: self.neighbours.since(&before.neighbours, seconds),
            conntrack: self.conntrack.zip(before.conntrack).map(|(now, before)| now.since(&before, seconds)),
            interrupts: busiest(|seldom| &seldom.interrupts),
            softirqs: busiest(|seldom| &seldom.softirqs),
        })
    }
}

impl Pressures<pressure::Reading> {
    fn since(&self, before: &Self, seconds: f64) -> Pressures<pressure::Sample> {
        let one = |now: Option<pressure::Reading>, before: Option<pressure::Reading>| {
            now.zip(before).map(|(now, before)| now.since(&before, seconds))
        };
        Pressures {
            cpu: one(self.cpu, before.cpu),
            memory: one(self.memory, before.memory),
            io: one(self.io, before.io),
        }
    }
}

impl Sample {
    /// How many CPUs are online.
    pub fn cpus(&self) -> usize {
        self.cpu.each.len().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::{ends_here, is_here, is_name_here, is_own};
    use std::net::IpAddr;

    #[test]
    fn a_server_is_here_if_its_address_is_one_of_this_machine() {
        let here = |address: &str| is_here(&address.parse().unwrap());
        assert!(here("127.0.0.1:3306") && here("localhost:3306") && here("/run/mysqld/mysqld.sock"));
        assert!(!here("192.0.2.7:3306") && !here("db.example:3306"));
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        assert!(here(&format!("{own}:3306")), "{own}");
    }

    #[test]
    fn an_address_that_can_be_bound_because_any_can_is_not_this_machines() {
        let [theirs, ours]: [IpAddr; 2] = ["192.0.2.7", "192.0.2.1"].map(|ip| ip.parse().unwrap());
        let own = |ip: IpAddr, can_bind, binds_any| is_own(ip, can_bind, || binds_any, || Some(ours));
        assert!(!own(theirs, true, true) && !own(theirs, false, false));
        assert!(own(ours, true, true) && own(ours, true, false));
        assert!(own(theirs, true, false), "a second address: packets to it leave from the first");
        assert!(own("127.0.1.1".parse().unwrap(), true, true));
    }

    #[test]
    fn a_second_address_of_a_network_is_found_among_the_routes() {
        const ROUTES: &str = "Local:\n  +-- 10.9.0.0/24 2 0 2\n     |-- 10.9.0.1\n        /32 host LOCAL\n     \
                              |-- 10.9.0.2\n        /24 link UNICAST\n        /32 host LOCAL\n     \
                              |-- 10.9.0.255\n        /32 link BROADCAST\n";
        let here = |ip: &str| ends_here(ip.parse().unwrap(), ROUTES);
        assert!(here("10.9.0.1") && here("10.9.0.2"));
        assert!(!here("10.9.0.255") && !here("10.9.0.25") && !here("10.9.0.3"));
    }

    #[test]
    fn a_name_is_here_if_it_is_the_hosts_own_or_its_hosts_file_gives_it_an_own_address() {
        const HOSTS: &str =
            "127.0.0.1 localhost # shop-c\n127.0.1.1\tdb1.example.org db1\n192.0.2.7 shop-b\n";
        let here = |name: &str| is_name_here(name, "db-host-1", || HOSTS.into());
        for name in ["localhost", "LocalHost.", "db-host-1", "DB-Host-1", "db1", "db1.example.org"] {
            assert!(here(name), "{name}");
        }
        for name in ["shop-b", "shop-c", "db-host-10", "db1.example", "127.0.1.1"] {
            assert!(!here(name), "{name}");
        }
    }
}
