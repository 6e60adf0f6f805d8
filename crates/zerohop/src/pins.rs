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
    /// Names.
    pub names: Vec<String>,
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

/// Removes a directory of pins.
pub(crate) fn clear(directory: &Path) {
    clear_files(directory);
    // What cannot be removed shows in that its directory stays.
    let _ = std::fs::remove_dir(directory);
}

/// Removes the pins: links first, so that no program runs on maps that are gone. When this returns, none runs any more.
pub(crate) fn clear_files(directory: &Path) {
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
    };
    let Some(maps) = maps else {
        // Our mark of a mount is a directory too, and has neither maps nor links.
        let any =
            directory.join(map_name("about")).exists() || directory.join(link_name("connect4")).exists();
        return any.then_some(pinned);
    };
    let map = |map: Map| &maps[map as usize];
    let about = About::read(&map(Map::About).lookup(&0u32.to_ne_bytes()).ok()??);
    let now = monotonic_ns();
    pinned.title = about.name;
    pinned.owner = about.owner;
    pinned.alive = about.alive_until >= now;
    pinned.in_force = about.keep_until >= now && pinned.programs.iter().any(|p| p == "connect4");
    pinned.sessions = sessions(map(Map::Sessions)).map(|s| s.len()).unwrap_or(0);
    pinned.listeners = listeners(map(Map::Listeners), map(Map::Targets), map(Map::Tallies), map(Map::Fates));
    Some(pinned)
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
