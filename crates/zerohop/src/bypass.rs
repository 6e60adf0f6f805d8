//! Programs, maps and links of one `headroom route`: brought into the kernel, or taken over from the process
//! before.
//!
//! **Taking over** keeps maps and links and puts this build's programs into the links, each at once: no
//! `connect()` meets a moment without a program, and sessions stay known. Maps of another layout are left out
//! of it: all is made new, and then the old removed.
//!
//! **Writing a page** never shows half of it: a listener has two, the one not in force is written, then the
//! switch is set. A program that had read the old switch is done long before that page is written again.

use crate::attach::{self, HOLD};
use crate::bytes::{u32_at, u64_at};
use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::layout::{
    self, About, ConnectCounts, LAYOUT, LISTENERS, Listener, MAPS, Map, SESSION_LEFT, SLOTS, SUSPECT_FOR,
    Session, TARGETS, TargetCounters,
};
use crate::maps::{self, sessions};
use crate::pin_files::link_name;
use crate::sys::{self, MapFd};
use crate::{mounts, object};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A process that dies between the hold and the end leaves a session held back for this long at most. One
/// that is stopped for longer between the look and the end could end a session that is in use.
const HOLD_FOR: Duration = Duration::from_secs(30);

/// Which programs are wanted where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Tells one configuration's pins from another's; letters, digits, `-` and `_`.
    pub name: String,
    /// For people: what the name stands for.
    pub title: String,
    /// The cgroup whose processes are served; `None` is the root of the cgroup v2 mount.
    pub cgroup: Option<PathBuf>,
}

/// Programs in force. Dropping it leaves them in force.
#[derive(Debug)]
pub struct Bypass {
    maps: Vec<MapFd>,
    directory: PathBuf,
    cgroup: PathBuf,
    about: About,
    /// Taken over from another process.
    inherited: bool,
    /// bpffs was mounted for this.
    mounted: bool,
    targets: HashMap<(u32, SocketAddr), Target>,
    listeners: HashMap<SocketAddr, Listener>,
    /// Whether the programs that mirror are there; unknown at first.
    mirroring: Option<bool>,
    /// The same of the program that holds back what clients send.
    holding: Option<bool>,
}

/// What the kernel has to know of a listener apart from its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Its clients write: once this process has been silent for the time that [`Bypass::beat`] names, nobody
    /// knows the primary, and connections are left alone.
    pub writes: bool,
    /// It has a list of clients: a socket that is bound to an address of its own is left to it.
    pub checks: bool,
}

/// A pair of a listener and a server, known to the kernel by a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub number: u32,
    /// Whether sessions that the server ends first are no sign of a failure.
    pub closes_mean_nothing: bool,
    /// When it was last known to be healthy, CLOCK_MONOTONIC in ns; 0 for never.
    pub healthy_at: u64,
}

/// A listener's upcoming picks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Targets in turn; `None` is the ordinary listener. At most [`SLOTS`].
    pub picks: Vec<Option<u32>>,
    /// Where it goes on after the last pick.
    pub wrap: usize,
    /// One in this many sessions is mirrored ([`Mirror`](crate::Mirror)); 0 is none.
    pub mirror: u32,
}

/// Whether this process could bring programs into the kernel; nothing is left behind by asking.
///
/// # Errors
/// What is missing, in words.
pub fn possible() -> Result<(), Error> {
    possible_in(None)
}

/// The same for processes of this cgroup; `None` is the root of the cgroup v2 mount.
///
/// # Errors
/// As [`possible`].
pub fn possible_in(cgroup: Option<&Path>) -> Result<(), Error> {
    object::programs().map_err(|why| Error::NoProgram { why })?;
    mounts::cgroup(cgroup)?;
    MapFd::create(&MAPS[Map::Active as usize]).map_err(|e| Error::kernel("use bpf(2)", e))?;
    sys::netns_cookie().map_err(|e| Error::kernel("tell network namespaces apart", e)).map(drop)
}

impl Bypass {
    /// Brings everything into the kernel, or takes over what is there under this name. Nothing bypasses
    /// before [`Bypass::beat`] and [`Bypass::set_page`].
    ///
    /// # Errors
    /// What is missing, in words. Nothing is left behind then that was not there before.
    pub fn open(spec: &Spec) -> Result<Self, Error> {
        let programs = object::programs().map_err(|why| Error::NoProgram { why })?;
        let (cgroup, cgroup_path) = mounts::cgroup(spec.cgroup.as_deref())?;
        // Asked first of all, so that one who may not leaves nothing behind.
        let probe = MapFd::create(&MAPS[Map::Active as usize]).map_err(|e| Error::kernel("use bpf(2)", e))?;
        drop(probe);
        let netns = sys::netns_cookie().map_err(|e| Error::kernel("tell network namespaces apart", e))?;
        let (directory, mounted) = mounts::make_directory(&spec.name)?;
        let opened = (|| {
            let (maps, inherited) = maps::open(&directory)?;
            let (_, needed): (Vec<_>, Vec<_>) =
                programs.into_iter().partition(|p| attach::sees_packets(&p.name));
            attach::put_in_force(&needed, &maps, &directory, &cgroup)?;
            Ok((maps, inherited))
        })();
        let (maps, inherited) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                attach::clean_up_after_failure(&directory);
                return Err(error);
            }
        };
        let about = About {
            alive_until: 0,
            keep_until: 0,
            netns,
            suspect: SUSPECT_FOR.as_nanos() as u64,
            owner: random(),
            process: std::process::id(),
            layout: LAYOUT,
            name: spec.title.chars().take(90).collect(),
        };
        let (targets, listeners) = (HashMap::new(), HashMap::new());
        let mut bypass = Self {
            maps,
            directory,
            cgroup: cgroup_path,
            about,
            inherited,
            mounted,
            targets,
            listeners,
            mirroring: None,
            holding: None,
        };
        bypass.remember().map_err(|e| Error::kernel("read its own maps", e))?;
        Ok(bypass)
    }

    /// The directory of the pins.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The cgroup whose processes are served.
    pub fn cgroup(&self) -> &Path {
        &self.cgroup
    }

    /// Whether it was taken over from another process.
    pub fn inherited(&self) -> bool {
        self.inherited
    }

    /// Whether bpffs was mounted for it.
    pub fn mounted(&self) -> bool {
        self.mounted
    }

    /// Says that the ordinary listener is there for `alive`, and that connections of readers may bypass it
    /// for `keep` even when it has ended.
    ///
    /// # Errors
    /// When another process has taken over or the pins were removed: this one has nothing to say any more.
    pub fn beat(&mut self, alive: Duration, keep: Duration) -> Result<(), Error> {
        self.is_ours()?;
        let now = monotonic_ns();
        self.about.alive_until = now + alive.as_nanos() as u64;
        self.about.keep_until = now + keep.as_nanos() as u64;
        let written = self.map(Map::About).update(&0u32.to_ne_bytes(), &self.about.bytes(), false);
        written.map_err(|e| Error::kernel("write its own maps", e))
    }

    /// Whether it is this process that says where connections go.
    ///
    /// # Errors
    /// Another process has taken over, the pins were removed, or the kernel does not say.
    pub fn is_ours(&self) -> Result<(), Error> {
        if !self.directory.join(link_name("connect4")).exists() {
            return Err(Error::Removed);
        }
        let there = self.map(Map::About).lookup(&0u32.to_ne_bytes());
        let there = there.map_err(|e| Error::kernel("read its own maps", e))?;
        let there = there.map(|bytes| About::read(&bytes)).filter(|there| there.owner != self.about.owner);
        match there {
            // Before the first beat the one before may still be named there.
            Some(there) if self.about.keep_until != 0 => Err(Error::TakenOver { owner: there.process }),
            _ => Ok(()),
        }
    }

    /// Attaches all programs that are in force to another cgroup; `None` is the root of the cgroup v2 mount.
    /// Connections of processes that are in one of both alone are left to the ordinary listener for a moment.
    ///
    /// # Errors
    /// That cgroup is none, or what the kernel said; then some programs may be in one and some in the other.
    pub fn move_to(&mut self, cgroup: Option<&Path>) -> Result<(), Error> {
        let (file, path) = mounts::cgroup(cgroup)?;
        let mut programs = object::programs().map_err(|why| Error::NoProgram { why })?;
        programs.retain(|program| match program.name.as_str() {
            HOLD => self.holding == Some(true),
            name if attach::mirrors(name) => self.mirroring == Some(true),
            _ => true,
        });
        attach::put_in_force(&programs, &self.maps, &self.directory, &file)?;
        self.cgroup = path;
        Ok(())
    }

    /// The number of the listener at this address, made if need be.
    ///
    /// # Errors
    /// When there are too many.
    pub fn listener(&mut self, address: SocketAddr, terms: Terms) -> Result<u32, Error> {
        let known = self.listeners.get(&address).copied();
        let number = match known {
            Some(listener) => listener.number,
            None => {
                let taken = |n: &u32| self.listeners.values().any(|listener| listener.number == *n);
                let number = (0..LISTENERS as u32).find(|n| !taken(n));
                number.ok_or(Error::TooMany { what: "listeners with zero-hop", most: LISTENERS })?
            }
        };
        let listener = Listener { number, writes: terms.writes, checks: terms.checks };
        if known == Some(listener) {
            return Ok(number);
        }
        if known.is_none() {
            // No picks of whoever had the number before.
            self.set_page(number, &Page::default())?;
        }
        // Of one that somebody has removed meanwhile, nothing is entered again.
        let entry =
            self.map(Map::Listeners).update(&layout::key(address), &listener.bytes(), known.is_some());
        match entry {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::kernel("enter a listener", error));
            }
            _ => {}
        }
        self.listeners.insert(address, listener);
        Ok(number)
    }

    /// Whether a listener that was entered has been removed from outside ([`crate::pins::remove_listeners`],
    /// or by a router that listens on its address now).
    ///
    /// # Errors
    /// What the kernel said.
    pub fn was_removed(&self, address: SocketAddr) -> Result<bool, Error> {
        let there = self.map(Map::Listeners).lookup(&layout::key(address));
        let there = there.map_err(|e| Error::kernel("read its own maps", e))?.is_some();
        Ok(!there && self.listeners.contains_key(&address))
    }

    /// The number of the listener at this address, if it has one.
    pub fn number_of(&self, address: SocketAddr) -> Option<u32> {
        self.listeners.get(&address).map(|listener| listener.number)
    }

    /// Connections to this address are left alone from now on. Bypassing sessions stay.
    pub fn forget_listener(&mut self, address: SocketAddr) {
        if self.listeners.remove(&address).is_some() {
            // Absent is as good as removed.
            let _ = self.map(Map::Listeners).delete(&layout::key(address));
        }
    }

    /// Addresses of the listeners that the kernel knows.
    pub fn listeners(&self) -> Vec<SocketAddr> {
        self.listeners.keys().copied().collect()
    }

    /// The number of this pair, made if need be from one that is in no page of `in_use` and has no session.
    ///
    /// # Errors
    /// When there are too many.
    pub fn target(
        &mut self,
        listener: u32,
        server: SocketAddr,
        closes_mean_nothing: bool,
    ) -> Result<u32, Error> {
        let known = self.targets.get(&(listener, server)).copied();
        if let Some(known) = known
            && known.closes_mean_nothing == closes_mean_nothing
        {
            return Ok(known.number);
        }
        let number = match known {
            Some(known) => known.number,
            None => self.free_number()?,
        };
        let healthy_at = known.map_or(0, |known| known.healthy_at);
        self.enter(listener, server, Target { number, closes_mean_nothing, healthy_at })?;
        Ok(number)
    }

    /// The server was healthy at `healthy_at` (CLOCK_MONOTONIC, ns): it is not suspect for what was before.
    /// Nothing is done where there is no such pair.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn mark_healthy(&mut self, listener: u32, server: SocketAddr, healthy_at: u64) -> Result<(), Error> {
        match self.targets.get(&(listener, server)).copied() {
            Some(known) if known.healthy_at < healthy_at => {
                self.enter(listener, server, Target { healthy_at, ..known })
            }
            _ => Ok(()),
        }
    }

    fn enter(&mut self, listener: u32, server: SocketAddr, target: Target) -> Result<(), Error> {
        let entry = layout::target(listener, server, target.closes_mean_nothing, target.healthy_at);
        let written = self.map(Map::Targets).update(&target.number.to_ne_bytes(), &entry, false);
        written.map_err(|e| Error::kernel("enter a server", e))?;
        self.targets.insert((listener, server), target);
        Ok(())
    }

    /// Every pair that was ever made, with its number.
    pub fn targets(&self) -> impl Iterator<Item = (u32, SocketAddr, u32)> + '_ {
        self.targets.iter().map(|((listener, server), target)| (*listener, *server, target.number))
    }

    /// When this pair was last known to be healthy, CLOCK_MONOTONIC in ns; 0 for never.
    pub fn healthy_at(&self, listener: u32, server: SocketAddr) -> u64 {
        self.targets.get(&(listener, server)).map_or(0, |target| target.healthy_at)
    }

    /// Forgets a pair that is in no page and has no session; its number may be given to another.
    pub fn forget_target(&mut self, listener: u32, server: SocketAddr) {
        if let Some(target) = self.targets.remove(&(listener, server)) {
            let number = target.number.to_ne_bytes();
            let empty = |map: Map| vec![0; MAPS[map as usize].value as usize];
            let _ = self.map(Map::Targets).update(&number, &empty(Map::Targets), false);
            let _ = self.map(Map::TargetCounters).update(&number, &empty(Map::TargetCounters), false);
        }
    }

    fn free_number(&self) -> Result<u32, Error> {
        let taken: std::collections::HashSet<u32> = self.targets.values().map(|t| t.number).collect();
        let free = (0..TARGETS as u32).find(|n| !taken.contains(n));
        free.ok_or(Error::TooMany { what: "pairs of listener and server", most: TARGETS })
    }

    /// Replaces a listener's upcoming picks, at once.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn set_page(&self, listener: u32, page: &Page) -> Result<(), Error> {
        let kernel = |e| Error::kernel("write its own maps", e);
        let picks = &page.picks[..page.picks.len().min(SLOTS)];
        let side = self.side(listener).map_err(kernel)? ^ 1;
        let bytes = layout::page(picks, page.wrap.min(picks.len().saturating_sub(1)), page.mirror);
        self.map(Map::Pages).update(&(listener * 2 + side).to_ne_bytes(), &bytes, false).map_err(kernel)?;
        self.map(Map::Active).update(&listener.to_ne_bytes(), &side.to_ne_bytes(), false).map_err(kernel)
    }

    /// How many picks of the page in force have been taken.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn taken(&self, listener: u32) -> Result<u32, Error> {
        let kernel = |e| Error::kernel("read its own maps", e);
        let page = (listener * 2 + self.side(listener).map_err(kernel)?).to_ne_bytes();
        let page = self.map(Map::Pages).lookup(&page).map_err(kernel)?;
        Ok(page.map_or(0, |page| layout::cursor(&page)))
    }

    fn side(&self, listener: u32) -> io::Result<u32> {
        let side = self.map(Map::Active).lookup(&listener.to_ne_bytes())?;
        Ok(side.map_or(0, |bytes| u32_at(&bytes, 0) & 1))
    }

    /// What the kernel counted of a target.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn counters(&self, target: u32) -> Result<TargetCounters, Error> {
        let found = self.map(Map::TargetCounters).lookup(&target.to_ne_bytes());
        let found = found.map_err(|e| Error::kernel("read its own maps", e))?;
        Ok(found.map(|bytes| TargetCounters::read(&bytes)).unwrap_or_default())
    }

    /// What became of connections to a listener.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn connect_counts(&self, listener: u32) -> Result<ConnectCounts, Error> {
        let found = self.map(Map::ConnectCounts).lookup(&listener.to_ne_bytes());
        let found = found.map_err(|e| Error::kernel("read its own maps", e))?;
        Ok(found.map(|bytes| ConnectCounts::read(&bytes)).unwrap_or_default())
    }

    /// Every bypassing session that is not over.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn sessions(&self) -> Result<Vec<Session>, Error> {
        sessions(self.map(Map::Sessions)).map_err(|e| Error::kernel("read its own maps", e))
    }

    /// Notes that the end of this session will be our doing, no failure of its server. `false` when it is
    /// over already.
    pub fn will_end(&self, session: &Session) -> bool {
        let marked = Session { state: session.state | SESSION_LEFT, ..*session };
        self.map(Map::Sessions).update(&session.cookie.to_ne_bytes(), &marked.bytes(), true).is_ok()
    }

    /// Takes that back for a session that has not been ended after all.
    pub fn will_not_end(&self, session: &Session) {
        // It may have ended by itself meanwhile: nothing is owed to it then.
        let _ = self.map(Map::Sessions).update(&session.cookie.to_ne_bytes(), &session.bytes(), true);
    }

    /// Brings the programs that mirror sessions into the cgroup, or takes them out: as long as they are
    /// there, each of its packets is looked at.
    ///
    /// # Errors
    /// What the kernel said; then they are not there.
    pub fn set_mirroring(&mut self, on: bool) -> Result<(), Error> {
        if self.mirroring == Some(on) {
            return Ok(());
        }
        self.mirroring = Some(false);
        let done = self.set_programs(attach::mirrors, on);
        self.mirroring = Some(on && done.is_ok());
        done
    }

    /// Brings the program that holds back what clients send into the cgroup, or takes it out: as long as it
    /// is there, each packet of the cgroup is looked at.
    ///
    /// # Errors
    /// What the kernel said; then it is not there.
    pub fn set_holding(&mut self, on: bool) -> Result<(), Error> {
        if self.holding == Some(on) {
            return Ok(());
        }
        self.holding = Some(false);
        let done = self.set_programs(|name| name == HOLD, on);
        self.holding = Some(on && done.is_ok());
        done
    }

    /// Whether sessions can be held back, and so be closed.
    pub fn holds(&self) -> bool {
        self.holding == Some(true)
    }

    fn set_programs(&self, which: impl Fn(&str) -> bool, on: bool) -> Result<(), Error> {
        let mut programs = object::programs().map_err(|why| Error::NoProgram { why })?;
        programs.retain(|program| which(&program.name));
        let done = if on {
            let (cgroup, _) = mounts::cgroup(Some(&self.cgroup))?;
            attach::put_in_force(&programs, &self.maps, &self.directory, &cgroup)
        } else {
            Ok(())
        };
        if !on || done.is_err() {
            attach::put_out_of_force(programs.iter().map(|p| p.name.as_str()), &self.directory);
        }
        done
    }

    /// From here on nothing that the client sends leaves the host, for [`HOLD_FOR`] at most.
    ///
    /// # Errors
    /// What the system said; then nothing is held back.
    pub fn hold(&self, session: &Session) -> io::Result<()> {
        let until = monotonic_ns() + HOLD_FOR.as_nanos() as u64;
        let entry = [until.to_ne_bytes(), [0; 8]].concat();
        self.map(Map::Held).update(&session.cookie.to_ne_bytes(), &entry, false)
    }

    /// Ends that. Returns how many packets with data were dropped: TCP sends them again if the session is
    /// still there.
    pub fn release(&self, session: &Session) -> u64 {
        let key = session.cookie.to_ne_bytes();
        let entry = self.map(Map::Held).lookup(&key).ok().flatten();
        // Absent is as good as removed.
        let _ = self.map(Map::Held).delete(&key);
        entry.map_or(0, |entry| u64_at(&entry, 8))
    }

    /// Sessions on a target, connections under way among them.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn sessions_on(&self, target: u32) -> Result<usize, Error> {
        Ok(self.sessions()?.iter().filter(|session| session.target == target).count())
    }

    pub(crate) fn map(&self, map: Map) -> &MapFd {
        &self.maps[map as usize]
    }

    /// What the process before has left in the maps.
    fn remember(&mut self) -> io::Result<()> {
        for key in self.map(Map::Listeners).keys(LISTENERS * 4)? {
            if let Some(value) = self.map(Map::Listeners).lookup(&key)? {
                self.listeners.insert(layout::address_at(&key, 0), Listener::read(&value));
            }
        }
        if !self.inherited {
            return Ok(());
        }
        // The process before may have died while it held a session back.
        for key in self.map(Map::Held).keys(MAPS[Map::Held as usize].entries as usize)? {
            let _ = self.map(Map::Held).delete(&key);
        }
        for number in 0..TARGETS as u32 {
            let entry = self.map(Map::Targets).lookup(&number.to_ne_bytes())?;
            if let Some((listener, server)) = entry.as_deref().and_then(layout::read_target) {
                let target = Target { number, closes_mean_nothing: false, healthy_at: 0 };
                self.targets.insert((listener, server), target);
            }
        }
        Ok(())
    }
}

/// A number that no other process has, also where each container's first process has the id 1.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // Its keys come from the system's randomness, and are others in each process and at each call.
    RandomState::new().hash_one(std::process::id())
}
