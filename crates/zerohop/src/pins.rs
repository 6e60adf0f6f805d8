//! What is pinned on bpffs, of whichever process, alive or gone: shown and removed.

use crate::attach::{LINK, link_name};
use crate::bypass::monotonic_ns;
use crate::layout::{self, About, Fate, LISTENERS, MAPS, Map, TARGETS, Tally};
use crate::maps::{map_name, sessions};
use crate::mounts;
use crate::sys::{self, MapFd};
use serde::Serialize;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything pinned under one name.
#[derive(Clone, Debug, Serialize)]
pub struct Pinned {
    /// The name.
    pub name: String,
    /// The directory on bpffs.
    pub directory: PathBuf,
    /// What it stands for: a configuration file or the listeners.
    pub title: String,
    /// The process that writes it.
    pub owner: u32,
    /// Whether that process has spoken lately.
    pub alive: bool,
    /// Whether connections are sent past now.
    pub in_force: bool,
    /// Programs attached, by name.
    pub programs: Vec<String>,
    /// Every listener.
    pub listeners: Vec<PinnedListener>,
    /// Sessions that were sent past and are not over.
    pub sessions: usize,
    /// Made by a headroom whose maps this one cannot read; it can be removed.
    pub unreadable: bool,
    /// The network namespace in which its listeners are, as the kernel numbers them; 0 is unknown.
    #[serde(skip)]
    netns: u64,
    /// Until when it sends connections past, CLOCK_MONOTONIC in ns.
    #[serde(skip)]
    keep_until: u64,
}

/// A listener that the kernel knows.
#[derive(Clone, Debug, Serialize)]
pub struct PinnedListener {
    /// What applications dial.
    pub address: SocketAddr,
    /// What became of their connections.
    pub fate: Fate,
    /// Every server, with sessions open now.
    pub servers: Vec<(SocketAddr, u64)>,
}

/// What was removed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Removed {
    /// Names of what was removed whole.
    pub names: Vec<String>,
    /// Listeners that were removed alone.
    pub listeners: Vec<SocketAddr>,
    /// Sessions that stay: they are ordinary connections between application and server.
    pub sessions: usize,
    /// bpffs, mounted by us, was unmounted.
    pub unmounted: bool,
}

/// Everything that is pinned here.
pub fn list() -> Vec<Pinned> {
    let Some(home) = mounts::home() else { return Vec::new() };
    let Ok(entries) = std::fs::read_dir(home) else { return Vec::new() };
    let mut all: Vec<Pinned> = entries.flatten().filter_map(|entry| read(&entry.path())).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Removes what is pinned under these names, or all of it where none is given. What ends here for applications: new
/// connections go to the ordinary listener again. Sessions stay.
///
/// # Errors
/// A directory that cannot be removed, with its name.
pub fn remove(names: &[String]) -> io::Result<Removed> {
    let mut removed = Removed::default();
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
pub struct Claimed {
    /// The title of what was taken over.
    pub taken_over: Option<String>,
    /// Titles of what does not decide about these addresses any more.
    pub overruled: Vec<String>,
    /// How many remains of processes that ended long ago were removed.
    pub remains: usize,
}

/// Without sessions, what a dead process has left is removed by the next start; with sessions after this long.
const REMAINS_FOR: Duration = Duration::from_secs(3600);

/// Whoever listens on an address decides where its connections go. What others have pinned for `bound` in this network
/// namespace is taken over under the name `own` where that is possible (`take_over`; nothing is pinned under it, and the
/// other process is gone), and otherwise removed, and so are the remains of processes that ended long ago.
///
/// # Errors
/// What the system said.
pub fn claim(bound: &[SocketAddr], own: &str, take_over: bool) -> io::Result<Claimed> {
    let mut claimed = Claimed::default();
    let others: Vec<Pinned> = list().into_iter().filter(|pinned| pinned.name != own).collect();
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

/// Removes what is pinned for these listeners in this network namespace; what has no other is removed whole. Sessions stay.
///
/// # Errors
/// What the system said.
pub fn remove_listeners(addresses: &[SocketAddr]) -> io::Result<Removed> {
    let mut removed = Removed::default();
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

/// Whether nobody will come back for this. What has never been in force may be just being made by another process.
fn remains(pinned: &Pinned, now: u64) -> bool {
    let long_ago = pinned.keep_until.saturating_add(REMAINS_FOR.as_nanos() as u64) < now;
    let over = pinned.keep_until != 0 && !pinned.alive && pinned.keep_until < now && !pinned.unreadable;
    over && (pinned.sessions == 0 || long_ago)
}

fn forget(pinned: &Pinned, addresses: &[SocketAddr]) -> io::Result<()> {
    let listeners = MapFd::get_any(&pinned.directory.join(map_name("listeners")))?;
    for address in addresses {
        match listeners.delete(&layout::key(*address)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Removes a directory of pins.
pub(crate) fn clear(directory: &Path) {
    clear_files(directory);
    // What cannot be removed shows in that its directory stays.
    let _ = std::fs::remove_dir(directory);
}

/// Removes the pins: links first, so that no program runs on maps that are gone. When this returns, none runs any more.
pub(crate) fn clear_files(directory: &Path) {
    if !mounts::is_on_bpffs(directory) {
        return;
    }
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let is_link = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(LINK));
        if is_link && let Ok(link) = sys::get(&file) {
            // One whose cgroup is gone is detached already.
            let _ = sys::detach(&link);
        }
        let _ = std::fs::remove_file(file);
    }
}

fn read(directory: &Path) -> Option<Pinned> {
    let name = directory.file_name()?.to_str()?.to_owned();
    let links = |entry: std::fs::DirEntry| Some(entry.file_name().to_str()?.strip_prefix(LINK)?.to_owned());
    let mut programs: Vec<String> = std::fs::read_dir(directory).ok()?.flatten().filter_map(links).collect();
    programs.sort();
    let get = |spec: &layout::MapSpec| MapFd::get(&directory.join(map_name(spec.name)), spec).ok();
    let maps: Option<Vec<MapFd>> = MAPS.iter().map(get).collect();
    let mut pinned = Pinned {
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
    pinned.listeners = listeners(map(Map::Listeners), map(Map::Targets), map(Map::Tallies), map(Map::Fates));
    Some(pinned)
}

impl Pinned {
    /// What every layout has had at the same place: the namespace, and the addresses of the listeners.
    fn guess(&mut self, directory: &Path) {
        let map = |name: &str| MapFd::get_any(&directory.join(map_name(name))).ok();
        let about = map("about").and_then(|about| about.lookup(&0u32.to_ne_bytes()).ok()?);
        self.netns = about.filter(|about| about.len() >= 24).map_or(0, |about| layout::u64_at(&about, 16));
        let keys = map("listeners").and_then(|listeners| listeners.keys(LISTENERS * 4).ok());
        let addresses = keys.into_iter().flatten().filter(|key| key.len() == layout::KEY_SIZE);
        let address = |key: Vec<u8>| layout::address_at(&key, 0);
        self.listeners = addresses
            .map(|key| PinnedListener { address: address(key), fate: Fate::default(), servers: Vec::new() })
            .collect();
    }
}

fn listeners(listeners: &MapFd, targets: &MapFd, tallies: &MapFd, fates: &MapFd) -> Vec<PinnedListener> {
    let value = |map: &MapFd, number: u32| map.lookup(&number.to_ne_bytes()).ok().flatten();
    let mut servers: Vec<(u32, SocketAddr, u64)> = Vec::new();
    for number in 0..TARGETS as u32 {
        let target = value(targets, number).as_deref().and_then(layout::read_target);
        if let (Some((listener, server)), Some(tally)) = (target, value(tallies, number)) {
            servers.push((listener, server, Tally::read(&tally).open()));
        }
    }
    let read = |key: Vec<u8>| {
        let number = layout::u32_at(&listeners.lookup(&key).ok()??, 0);
        let of = |(listener, server, open): &(u32, SocketAddr, u64)| {
            (*listener == number).then_some((*server, *open))
        };
        Some(PinnedListener {
            address: layout::address_at(&key, 0),
            fate: Fate::read(&value(fates, number)?),
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
