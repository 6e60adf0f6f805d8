//! What is in the maps, as bytes: the twin of `bpf/layout.h`. A test compiles nothing but counts sizes;
//! whoever changes a structure changes [`LAYOUT`], so that maps pinned by an older headroom are not taken for
//! new ones.

use crate::bytes::{u32_at, u64_at};
use crate::clock::monotonic_ns;
use crate::sys::MapSpec;
use serde::Serialize;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Number of this layout.
pub(crate) const LAYOUT: u32 = 4;
/// Picks in a page, at most.
pub const SLOTS: usize = 256;
/// Listeners of a process, at most.
pub const LISTENERS: usize = 64;
/// Pairs of a listener and a server, at most.
pub const TARGETS: usize = 1024;
/// Sessions, at most; more go through the ordinary listener.
const SESSIONS: usize = 65_536;
/// Sessions that are held back, at most; one at a time is.
const HELD: usize = 64;

const HASH: u32 = 1;
const ARRAY: u32 = 2;
const RING: u32 = 27;
/// Memory for entries that exist, not for all that could.
const NO_PREALLOC: u32 = 1;
/// Bytes of the wakeups' ring: a power of two and whole pages, whatever their size.
const WAKEUP_SIZE: u32 = 65_536;
/// Bytes of the ring of pieces; the same holds.
const PIECES_SIZE: u32 = 4 << 20;

/// How long a server that failed a connection is suspect, unless user space says earlier that it is healthy.
pub(crate) const SUSPECT_FOR: Duration = Duration::from_secs(1);

pub(crate) const SESSION_LEFT: u32 = 4;
const SESSION_OPEN: u32 = 1;
const SESSION_ENDED: u32 = 2;
const TARGET_LOOPBACK: u32 = 1;
const TARGET_CLOSES_MEAN_NOTHING: u32 = 2;
const NAME: usize = 96;

/// Every map, in the order of [`Map`].
pub(crate) const MAPS: [MapSpec; 13] = [
    array("about", ABOUT_SIZE, 1),
    hash("listeners", KEY_SIZE, LISTENER_SIZE, LISTENERS * 4),
    array("active", 4, LISTENERS),
    array("pages", PAGE_SIZE, LISTENERS * 2),
    array("targets", TARGET_SIZE, TARGETS),
    array("target_counters", COUNTERS_SIZE, TARGETS),
    array("connect_counts", CONNECTS_SIZE, LISTENERS),
    hash("sessions", 8, SESSION_SIZE, SESSIONS),
    ring("wakeups", WAKEUP_SIZE),
    hash("mirrored", 8, 4, SESSIONS),
    ring("pieces", PIECES_SIZE),
    array("missed", 8, 1),
    hash("held", 8, 16, HELD),
];

/// Index into [`MAPS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Map {
    About,
    Listeners,
    Active,
    Pages,
    Targets,
    TargetCounters,
    ConnectCounts,
    Sessions,
    /// Wakes user space when a server becomes suspect.
    Wakeups,
    /// Sessions whose packets are all mirrored.
    Mirrored,
    /// What is told.
    Pieces,
    /// How many pieces there was no room for.
    Missed,
    /// Sessions whose data is held back.
    Held,
}

pub(crate) const KEY_SIZE: usize = 20;
const ABOUT_SIZE: usize = 48 + NAME;
const LISTENER_SIZE: usize = 8;
const PAGE_SIZE: usize = 16 + 4 * SLOTS;
const TARGET_SIZE: usize = 40;
const COUNTERS_SIZE: usize = 64;
const CONNECTS_SIZE: usize = 32;
const SESSION_SIZE: usize = 40;

const fn array(name: &'static str, value: usize, entries: usize) -> MapSpec {
    MapSpec { name, kind: ARRAY, key: 4, value: value as u32, entries: entries as u32, flags: 0 }
}

const fn hash(name: &'static str, key: usize, value: usize, entries: usize) -> MapSpec {
    let (key, value, entries) = (key as u32, value as u32, entries as u32);
    MapSpec { name, kind: HASH, key, value, entries, flags: NO_PREALLOC }
}

const fn ring(name: &'static str, size: u32) -> MapSpec {
    MapSpec { name, kind: RING, key: 0, value: 0, entries: size, flags: 0 }
}

/// What holds for all listeners of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) alive_until: u64,
    pub(crate) keep_until: u64,
    pub(crate) netns: u64,
    pub(crate) suspect: u64,
    /// Random, of the process that writes.
    pub(crate) owner: u64,
    /// Its id, for people.
    pub(crate) process: u32,
    pub(crate) layout: u32,
    pub(crate) name: String,
}

/// A listener that the kernel knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) number: u32,
    /// Its connections bypass only while this process speaks.
    pub(crate) writes: bool,
    /// It checks its clients: sockets bound to an address of their own are left to it.
    pub(crate) checks: bool,
}

impl Listener {
    pub(crate) fn bytes(self) -> Vec<u8> {
        let flags = u32::from(self.writes) | u32::from(self.checks) << 1;
        [self.number.to_ne_bytes(), flags.to_ne_bytes()].concat()
    }

    pub(crate) fn read(bytes: &[u8]) -> Self {
        let flags = u32_at(bytes, 4);
        Self { number: u32_at(bytes, 0), writes: flags & 1 != 0, checks: flags & 2 != 0 }
    }
}

/// What the kernel counted of one target since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetCounters {
    /// Its picks go to the ordinary listener until then, CLOCK_MONOTONIC in ns.
    pub suspect_until: u64,
    /// Sessions that were opened.
    pub opened: u64,
    /// Sessions of those that have ended.
    pub ended: u64,
    /// Connection attempts that failed.
    pub refused: u64,
    /// Connection attempts that got no answer for a second.
    pub hung: u64,
    /// Sessions that the server ended first.
    pub lost: u64,
    /// Bytes that ended sessions sent to the server.
    pub to_server: u64,
    /// Bytes that they received.
    pub to_client: u64,
}

/// What became of `connect()` calls on a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectCounts {
    /// Sent straight to a server.
    pub bypassed: u64,
    /// Left to the ordinary listener because that was the next pick.
    pub chosen: u64,
    /// Left to it because the picked server had just failed.
    pub suspect: u64,
    /// Left to it because the table of sessions is full, or the client's socket cannot reach the server's
    /// address.
    pub unfit: u64,
}

/// A session that bypasses the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The kernel's name of its socket.
    pub cookie: u64,
    /// Where it went.
    pub target: u32,
    /// The listener that was dialled.
    pub listener: u32,
    pub dialled: SocketAddr,
    /// It is open: connected, and neither side has closed.
    pub open: bool,
    pub(crate) since: u64,
    pub(crate) state: u32,
}

impl TargetCounters {
    /// When it came to be suspect, if it still is by the clock: what user space has said since does not count
    /// here.
    pub fn suspect_since(&self) -> Option<u64> {
        let since = self.suspect_until.saturating_sub(SUSPECT_FOR.as_nanos() as u64);
        (self.suspect_until > monotonic_ns()).then_some(since)
    }

    /// Sessions now.
    pub fn open(&self) -> u64 {
        self.opened.saturating_sub(self.ended)
    }

    pub(crate) fn read(bytes: &[u8]) -> Self {
        let at = |n: usize| u64_at(bytes, 8 * n);
        Self {
            suspect_until: at(0),
            opened: at(1),
            ended: at(2),
            refused: at(3),
            hung: at(4),
            lost: at(5),
            to_server: at(6),
            to_client: at(7),
        }
    }
}

impl ConnectCounts {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let at = |n: usize| u64_at(bytes, 8 * n);
        Self { bypassed: at(0), chosen: at(1), suspect: at(2), unfit: at(3) }
    }
}

impl Session {
    /// How long ago it was dialled.
    pub fn age(&self) -> Duration {
        Duration::from_nanos(monotonic_ns().saturating_sub(self.since))
    }

    pub(crate) fn read(cookie: u64, bytes: &[u8]) -> Self {
        let state = u32_at(bytes, 36);
        Self {
            cookie,
            since: u64_at(bytes, 0),
            target: u32_at(bytes, 8),
            listener: u32_at(bytes, 12),
            dialled: address_at(bytes, 16),
            open: state & SESSION_OPEN != 0 && state & SESSION_ENDED == 0,
            state,
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.since.to_ne_bytes().to_vec();
        bytes.extend(self.target.to_ne_bytes());
        bytes.extend(self.listener.to_ne_bytes());
        bytes.extend(key(self.dialled));
        bytes.extend(self.state.to_ne_bytes());
        bytes
    }
}

impl About {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ABOUT_SIZE);
        for value in [self.alive_until, self.keep_until, self.netns, self.suspect, self.owner] {
            bytes.extend(value.to_ne_bytes());
        }
        bytes.extend(self.process.to_ne_bytes());
        bytes.extend(self.layout.to_ne_bytes());
        let mut name = self.name.as_bytes().to_vec();
        name.resize(NAME, 0);
        bytes.extend(name);
        bytes
    }

    pub(crate) fn read(bytes: &[u8]) -> Self {
        let name = &bytes[48..];
        let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        Self {
            alive_until: u64_at(bytes, 0),
            keep_until: u64_at(bytes, 8),
            netns: u64_at(bytes, 16),
            suspect: u64_at(bytes, 24),
            owner: u64_at(bytes, 32),
            process: u32_at(bytes, 40),
            layout: u32_at(bytes, 44),
            name: String::from_utf8_lossy(&name[..end]).into_owned(),
        }
    }
}

/// An address as key of `listeners`, and as the programs see it.
pub(crate) fn key(address: SocketAddr) -> Vec<u8> {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = ip.octets().to_vec();
    bytes.extend(u32::from(address.port().to_be()).to_ne_bytes());
    bytes
}

/// The reverse of [`key`].
pub(crate) fn address_at(bytes: &[u8], at: usize) -> SocketAddr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[at..at + 16]);
    let ip = Ipv6Addr::from(octets);
    let port = u16::from_be(u32_at(bytes, at + 16) as u16);
    SocketAddr::new(ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4), port)
}

/// A target's entry.
pub(crate) fn target(
    listener: u32,
    address: SocketAddr,
    closes_mean_nothing: bool,
    healthy_at: u64,
) -> Vec<u8> {
    let mut bytes = key(address);
    bytes.extend(listener.to_ne_bytes());
    let loopback = address.ip().to_canonical().is_loopback();
    let flags = [(loopback, TARGET_LOOPBACK), (closes_mean_nothing, TARGET_CLOSES_MEAN_NOTHING)];
    let flags: u32 = flags.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum();
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(healthy_at.to_ne_bytes());
    bytes
}

/// The listener and the address of a target's entry; `None` for one that was never written.
pub(crate) fn read_target(bytes: &[u8]) -> Option<(u32, SocketAddr)> {
    let address = address_at(bytes, 0);
    (address.port() != 0).then(|| (u32_at(bytes, 20), address))
}

/// A page with these picks, of whose sessions one in `mirror` is mirrored (0: none); the cursor starts at 0.
/// `wrap` must be less than the number of picks.
pub(crate) fn page(picks: &[Option<u32>], wrap: usize, mirror: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PAGE_SIZE);
    for value in [0, picks.len() as u32, wrap as u32, mirror] {
        bytes.extend(value.to_ne_bytes());
    }
    for pick in picks {
        bytes.extend(pick.map_or(0, |target| target + 1).to_ne_bytes());
    }
    bytes.resize(PAGE_SIZE, 0);
    bytes
}

/// How many picks of a page have been taken.
pub(crate) fn cursor(page: &[u8]) -> u32 {
    u32_at(page, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_the_size_that_its_map_says() {
        let address = "10.0.0.5:3306".parse().unwrap();
        let about = About {
            alive_until: 1,
            keep_until: 2,
            netns: 3,
            suspect: 4,
            owner: 5,
            process: 7,
            layout: 6,
            name: "x".into(),
        };
        let size = |map: Map| MAPS[map as usize].value as usize;
        assert_eq!(about.bytes().len(), size(Map::About));
        assert_eq!(page(&[None, Some(3)], 0, 16).len(), size(Map::Pages));
        assert_eq!(target(1, address, false, 0).len(), size(Map::Targets));
        assert_eq!(key(address).len(), MAPS[Map::Listeners as usize].key as usize);
        assert_eq!(Listener { number: 1, writes: true, checks: true }.bytes().len(), size(Map::Listeners));
        assert_eq!(Session::read(1, &[0; 40]).bytes().len(), size(Map::Sessions));
        assert_eq!(About::read(&about.bytes()), about);
    }

    #[test]
    fn maps_stand_in_the_order_of_their_names() {
        for (map, name) in [
            (Map::About, "about"),
            (Map::Pages, "pages"),
            (Map::Wakeups, "wakeups"),
            (Map::Missed, "missed"),
            (Map::Held, "held"),
        ] {
            assert_eq!(MAPS[map as usize].name, name);
        }
    }

    #[test]
    fn addresses_come_back_as_they_went_in() {
        for text in ["127.0.0.1:3306", "[::1]:3307", "[2001:db8::7]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(address_at(&key(address), 0), address);
            assert_eq!(read_target(&target(7, address, true, 9)), Some((7, address)));
        }
        assert_eq!(read_target(&[0; TARGET_SIZE]), None);
    }
}
