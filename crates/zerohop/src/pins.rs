//! What is pinned on bpffs, of whichever process, alive or gone: shown and removed.

use crate::bytes::{u32_at, u64_at};
use crate::clock::monotonic_ns;
use crate::layout::{self, About, ConnectCounts, LISTENERS, MAPS, Map, TARGETS, TargetCounters};
use crate::maps::sessions;
use crate::mounts;
use crate::pin_files::{LINK, clear, link_name, map_name};
use crate::sys::{self, MapFd};
use serde::Serialize;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything pinned under one name.
#[derive(Clone, Debug, Serialize)]
pub struct PinSet {
    pub name: String,
    /// The directory on bpffs.
    pub directory: PathBuf,
    /// What it stands for: a configuration file or the listeners.
    pub title: String,
    /// The process that writes it.
    pub owner: u32,
    /// Whether that process has spoken lately.
    pub alive: bool,
    /// Whether connections bypass the listeners now.
    pub in_force: bool,
    /// Programs attached, by name.
    pub programs: Vec<String>,
    /// Every listener.
    pub listeners: Vec<PinnedListener>,
    /// Bypassing sessions that are not over.
    pub sessions: usize,
    /// Made by a headroom whose maps this one cannot read; it can be removed.
    pub unreadable: bool,
    /// The network namespace in which its listeners are, as the kernel numbers them; 0 is unknown.
    #[serde(skip)]
    netns: u64,
    /// Until when its connections bypass the listeners, CLOCK_MONOTONIC in ns.
    #[serde(skip)]
    keep_until: u64,
}

/// A listener that the kernel knows.
#[derive(Clone, Debug, Serialize)]
pub struct PinnedListener {
    /// What applications dial.
    pub address: SocketAddr,
    /// What became of their connections.
    #[serde(rename = "connects")]
    pub counts: ConnectCounts,
    /// Every server, with sessions open now.
    pub servers: Vec<(SocketAddr, u64)>,
}

impl PinSet {
    /// Whether `which` names these pins, or one of their listeners.
    pub fn is_called(&self, which: &str) -> bool {
        let address = which.parse::<SocketAddr>().ok();
        self.name == which || self.listeners.iter().any(|listener| Some(listener.address) == address)
    }
}

/// What was removed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Removal {
    /// Names of what was removed whole.
    pub names: Vec<String>,
    /// Listeners that were removed alone.
    pub listeners: Vec<SocketAddr>,
    /// Sessions that stay: they are ordinary connections between application and server.
    pub sessions: usize,
    /// bpffs, mounted by us, was unmounted.
    pub unmounted: bool,
}

/// Everything that is pinned here, as far as this user can see it.
pub fn list() -> Vec<PinSet> {
    look().unwrap_or_default()
}

/// Everything that is pinned here.
///
/// # Errors
/// The directory is not ours to look into: what is pinned is not known.
pub fn look() -> io::Result<Vec<PinSet>> {
    let Some(home) = mounts::look_for_home()? else { return Ok(Vec::new()) };
    let entries = std::fs::read_dir(&home).map_err(|error| mounts::not_seen(&home, &error))?;
    let mut all: Vec<PinSet> = entries.flatten().filter_map(|entry| read(&entry.path())).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Whether a process that lives says where connections go by what is pinned under this name.
pub fn is_alive(name: &str) -> bool {
    let about = || {
        let file = mounts::home()?.join(name).join(map_name(MAPS[Map::About as usize].name));
        let map = MapFd::get(&file, &MAPS[Map::About as usize]).ok()?;
        map.lookup(&0u32.to_ne_bytes()).ok()?
    };
    about().is_some_and(|bytes| About::read(&bytes).alive_until >= monotonic_ns())
}

/// Removes what is pinned under these names, or all of it where none is given. What ends here for
/// applications: new connections go to the ordinary listener again. Sessions stay.
///
/// # Errors
/// A directory that cannot be removed, with its name.
pub fn remove(names: &[String]) -> io::Result<Removal> {
    let mut removed = Removal::default();
    for pinned in list() {
        if names.is_empty() || names.contains(&pinned.name) {
            clear(&pinned.directory);
            if pinned.directory.exists() {
                let why = format!("{} cannot be removed; are you root?", pinned.directory.display());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            removed.sessions += pinned.sessions;
            removed.names.push(pinned.name);
        }
    }
    removed.unmounted = mounts::remove_home();
    Ok(removed)
}

/// What was pinned for addresses that somebody else listens on now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The title of what was taken over.
    pub taken_over: Option<String>,
    /// Titles of what does not decide about these addresses any more.
    pub overruled: Vec<String>,
    /// How many remains of processes that ended long ago were removed.
    pub remains: usize,
}

/// Without sessions, what a dead process has left is removed by the next start; with sessions after this
/// long.
const REMAINS_FOR: Duration = Duration::from_secs(3600);

/// Whoever listens on an address decides where its connections go. What others have pinned for `bound` in
/// this network namespace is taken over under the name `own` where that is possible (`take_over`; nothing is
/// pinned under it, and the other process has ended), and otherwise removed, and so are the remains of
/// processes that ended long ago.
///
/// # Errors
/// What the system said.
pub fn claim(bound: &[SocketAddr], own: &str, take_over: bool) -> io::Result<Claim> {
    let mut claimed = Claim::default();
    let others: Vec<PinSet> = list().into_iter().filter(|pinned| pinned.name != own).collect();
    if others.is_empty() {
        return Ok(claimed);
    }
    let (netns, now) = (sys::netns_cookie()?, monotonic_ns());
    for pinned in others {
        let theirs = pinned.listeners.iter().map(|listener| listener.address);
        let ours: Vec<SocketAddr> =
            theirs.filter(|at| bound.iter().any(|bound| covers(*bound, *at))).collect();
        if pinned.netns == netns && !ours.is_empty() {
            let to = pinned.directory.with_file_name(own);
            if take_over && !pinned.alive && !pinned.unreadable && !to.exists() {
                std::fs::rename(&pinned.directory, &to)?;
                claimed.taken_over = Some(pinned.title);
                continue;
            }
            if pinned.unreadable || ours.len() == pinned.listeners.len() {
                clear(&pinned.directory);
            } else {
                forget(&pinned, &ours)?;
            }
            claimed.overruled.push(pinned.title);
        } else if remains(&pinned, now) {
            clear(&pinned.directory);
            claimed.remains += 1;
        }
    }
    Ok(claimed)
}

/// Removes what these names and addresses of listeners are called by, or all of it where none is given.
///
/// # Errors
/// As [`remove`] and [`remove_listeners`].
pub fn remove_called(which: &[String]) -> io::Result<Removal> {
    let addresses: Vec<SocketAddr> = which.iter().filter_map(|which| which.parse().ok()).collect();
    let names: Vec<String> = which.iter().filter(|w| w.parse::<SocketAddr>().is_err()).cloned().collect();
    let whole = which.is_empty() || !names.is_empty();
    let mut removed = if whole { remove(&names)? } else { Removal::default() };
    if !addresses.is_empty() {
        let alone = remove_listeners(&addresses)?;
        removed.names.extend(alone.names);
        removed.listeners.extend(alone.listeners);
        removed.sessions += alone.sessions;
        removed.unmounted |= alone.unmounted;
    }
    Ok(removed)
}

/// Removes what is pinned for these listeners in this network namespace; what has no other is removed whole.
/// Sessions stay.
///
/// # Errors
/// What the system said.
pub fn remove_listeners(addresses: &[SocketAddr]) -> io::Result<Removal> {
    let mut removed = Removal::default();
    let netns = sys::netns_cookie()?;
    for pinned in list().into_iter().filter(|pinned| pinned.netns == netns) {
        let theirs = pinned.listeners.iter().map(|listener| listener.address);
        let which: Vec<SocketAddr> = theirs.filter(|at| addresses.contains(at)).collect();
        if which.is_empty() {
            continue;
        }
        if which.len() == pinned.listeners.len() || pinned.unreadable {
            let whole = remove(std::slice::from_ref(&pinned.name))?;
            removed.sessions += whole.sessions;
            removed.unmounted |= whole.unmounted;
            removed.names.extend(whole.names);
        } else {
            forget(&pinned, &which)?;
            let of = |listener: &&PinnedListener| which.contains(&listener.address);
            let open = pinned.listeners.iter().filter(of).flat_map(|l| &l.servers).map(|(_, open)| open);
            removed.sessions += open.sum::<u64>() as usize;
        }
        removed.listeners.extend(which);
    }
    Ok(removed)
}

/// Whether who is bound to `bound` gets connections to `dialled`.
fn covers(bound: SocketAddr, dialled: SocketAddr) -> bool {
    let any = bound.ip().is_unspecified() && (bound.is_ipv6() || dialled.is_ipv4());
    bound.port() == dialled.port() && (any || bound.ip() == dialled.ip())
}

/// Whether nobody will come back for this. What has never been in force may be just being made by another
/// process.
fn remains(pinned: &PinSet, now: u64) -> bool {
    let long_ago = pinned.keep_until.saturating_add(REMAINS_FOR.as_nanos() as u64) < now;
    let over = pinned.keep_until != 0 && !pinned.alive && pinned.keep_until < now && !pinned.unreadable;
    over && (pinned.sessions == 0 || long_ago)
}

fn forget(pinned: &PinSet, addresses: &[SocketAddr]) -> io::Result<()> {
    let listeners = MapFd::get_any(&pinned.directory.join(map_name("listeners")))?;
    for address in addresses {
        match listeners.delete(&layout::key(*address)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn read(directory: &Path) -> Option<PinSet> {
    let name = directory.file_name()?.to_str()?.to_owned();
    let links = |entry: std::fs::DirEntry| Some(entry.file_name().to_str()?.strip_prefix(LINK)?.to_owned());
    let mut programs: Vec<String> = std::fs::read_dir(directory).ok()?.flatten().filter_map(links).collect();
    programs.sort();
    let get = |spec: &sys::MapSpec| MapFd::get(&directory.join(map_name(spec.name)), spec).ok();
    let maps: Option<Vec<MapFd>> = MAPS.iter().map(get).collect();
    let mut pinned = PinSet {
        name,
        directory: directory.to_owned(),
        title: String::new(),
        owner: 0,
        alive: false,
        in_force: false,
        programs,
        listeners: Vec::new(),
        sessions: 0,
        unreadable: maps.is_none(),
        netns: 0,
        keep_until: 0,
    };
    let Some(maps) = maps else {
        // Our mark of a mount is a directory too, and has neither maps nor links.
        let any =
            directory.join(map_name("about")).exists() || directory.join(link_name("connect4")).exists();
        pinned.guess(directory);
        return any.then_some(pinned);
    };
    let map = |map: Map| &maps[map as usize];
    let about = About::read(&map(Map::About).lookup(&0u32.to_ne_bytes()).ok()??);
    let now = monotonic_ns();
    pinned.title = about.name;
    pinned.owner = about.process;
    (pinned.netns, pinned.keep_until) = (about.netns, about.keep_until);
    pinned.alive = about.alive_until >= now;
    pinned.in_force = about.keep_until >= now && pinned.programs.iter().any(|p| p == "connect4");
    pinned.sessions = sessions(map(Map::Sessions)).map(|s| s.len()).unwrap_or(0);
    pinned.listeners =
        listeners(map(Map::Listeners), map(Map::Targets), map(Map::TargetCounters), map(Map::ConnectCounts));
    Some(pinned)
}

impl PinSet {
    /// What every layout has had at the same place: the namespace, and the addresses of the listeners.
    fn guess(&mut self, directory: &Path) {
        let map = |name: &str| MapFd::get_any(&directory.join(map_name(name))).ok();
        let about = map("about").and_then(|about| about.lookup(&0u32.to_ne_bytes()).ok()?);
        self.netns = about.filter(|about| about.len() >= 24).map_or(0, |about| u64_at(&about, 16));
        let keys = map("listeners").and_then(|listeners| listeners.keys(LISTENERS * 4).ok());
        let addresses = keys.into_iter().flatten().filter(|key| key.len() == layout::KEY_SIZE);
        let address = |key: Vec<u8>| layout::address_at(&key, 0);
        self.listeners = addresses
            .map(|key| PinnedListener {
                address: address(key),
                counts: ConnectCounts::default(),
                servers: Vec::new(),
            })
            .collect();
    }
}

fn listeners(listeners: &MapFd, targets: &MapFd, counters: &MapFd, connects: &MapFd) -> Vec<PinnedListener> {
    let value = |map: &MapFd, number: u32| map.lookup(&number.to_ne_bytes()).ok().flatten();
    let mut servers: Vec<(u32, SocketAddr, u64)> = Vec::new();
    for number in 0..TARGETS as u32 {
        let target = value(targets, number).as_deref().and_then(layout::read_target);
        if let (Some((listener, server)), Some(counters)) = (target, value(counters, number)) {
            servers.push((listener, server, TargetCounters::read(&counters).open()));
        }
    }
    let read = |key: Vec<u8>| {
        let number = u32_at(&listeners.lookup(&key).ok()??, 0);
        let of = |(listener, server, open): &(u32, SocketAddr, u64)| {
            (*listener == number).then_some((*server, *open))
        };
        Some(PinnedListener {
            address: layout::address_at(&key, 0),
            counts: ConnectCounts::read(&value(connects, number)?),
            servers: servers.iter().filter_map(of).collect(),
        })
    };
    let mut all: Vec<PinnedListener> =
        listeners.keys(LISTENERS * 4).unwrap_or_default().into_iter().filter_map(read).collect();
    all.sort_by_key(|l| l.address);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_bound_to_all_addresses_of_a_port_has_those_of_one() {
        let covers = |bound: &str, dialled: &str| covers(bound.parse().unwrap(), dialled.parse().unwrap());
        assert!(covers("127.0.0.1:3306", "127.0.0.1:3306"));
        assert!(covers("0.0.0.0:3306", "127.0.0.1:3306") && covers("[::]:3306", "10.0.0.5:3306"));
        assert!(!covers("0.0.0.0:3306", "[::1]:3306") && !covers("0.0.0.0:3306", "127.0.0.1:3307"));
        assert!(!covers("127.0.0.1:3306", "127.0.0.2:3306"));
    }
}
