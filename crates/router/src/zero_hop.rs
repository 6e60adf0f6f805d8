//! Zero-hop: where the kernel allows it, connections to a listener go straight to the picked server, past this process.
//!
//! `zerohop` is the mechanism; here is what it is told. Ten times a second, at every change of the view, and when the kernel
//! rings because a server came to be in doubt:
//!
//! 1. `count`: what the kernel counted becomes part of the tallies, so that pick and placement see sessions that go past
//!    as they see those of the relay; a server that refused one is suspected as if it had refused us.
//! 2. `page`: each listener's next picks, made by the same [`pick`](crate::pick) that places relayed sessions, are written
//!    for the kernel to take one by one. It decides nothing itself.
//! 3. `well`: a server that is in doubt because sessions ended is asked for a login, and is not in doubt when it gives one.
//! 4. `mirror`: the kernel copies what passes on sessions, so that their state is known, and measured where insight asks for it.
//! 5. `leave`: sessions that placement wants gone are closed, when their state is known and lets them be.
//!
//! **In doubt the ordinary listener**, which can wait, try others and refuse in words: when nobody is eligible, for a
//! server that just failed, beyond `max_sessions`, for listeners whose options need the path (`fit`), and for sessions that
//! insight measures where the kernel cannot mirror them.
//!
//! **When this process is killed** all of it stays in the kernel: readers go on to the servers picked last for `zero_hop_keep`,
//! writers for [`ALIVE`]. When it ends on purpose and nobody takes over, it removes what it has pinned.
//!
//! **Whoever listens on an address** decides about its connections: what another process has pinned for it is taken over or
//! removed ([`zerohop::pins::claim`]), also where this one's zero-hop is off.

mod count;
mod fit;
mod leave;
pub(crate) mod mirror;
mod page;
mod resolve;
mod well;

use crate::board::Board;
use crate::door::Door;
use crate::error::Error;
use arc_swap::ArcSwap;
use config::{RouterConfig, ZeroHop as Mode};
use count::Counts;
use fleet::{Address, ListenerRole, ServerName};
use leave::Leaving;
use mirror::Mirroring;
use page::Pages;
use resolve::Resolver;
use serde::Serialize;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::MissedTickBehavior;
use well::{Logins, listen_for_rings};
use zerohop::{Bypass, Fate, Spec};

/// Time between two looks.
const TICK: Duration = Duration::from_millis(100);
/// The kernel takes us for gone when it has not heard of us for so long: ten looks missed. For so long at most are writers sent to
/// the primary that was known last.
const ALIVE: Duration = Duration::from_secs(1);
/// Once it could not be had, it is tried again after so many ticks: somebody may have mounted what was missing.
const TRY_AGAIN: u32 = 100;

/// Tells one configuration's pins from another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Letters, digits, `-` and `_`; the same for the next process of this configuration.
    pub name: String,
    /// For people: the configuration file, or the listeners.
    pub title: String,
}

/// The answer of a server, or why there is none, in words.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send>>;

/// Asks servers.
pub trait Witness: Send + Sync {
    /// Whether it lets one log in now.
    fn login(&self, server: &ServerName) -> Answer<()>;
}

/// Whether connections bypass the router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ZeroHopStatus {
    /// Programs are in force.
    pub in_force: bool,
    /// Which, or why not.
    pub words: String,
    /// What limits the closing of bypassed sessions, if anything.
    pub limits: Vec<String>,
}

/// Whether a listener's connections bypass the router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ListenerZeroHop {
    /// They do, but for those that `words` tell of.
    pub in_force: bool,
    /// Which, or why not.
    pub words: String,
    /// Sessions now.
    pub sessions: usize,
    /// What became of connection attempts, ever.
    pub fate: Fate,
}

/// What the status shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) whole: ZeroHopStatus,
    /// By the address as bound.
    pub(crate) listeners: HashMap<Address, ListenerZeroHop>,
}

/// The thread that does it.
#[derive(Debug)]
pub(crate) struct ZeroHop {
    shown: Arc<ArcSwap<Shown>>,
    leaving: Arc<AtomicBool>,
    handed_over: Arc<AtomicBool>,
}

impl ZeroHop {
    /// Starts the thread; it ends when the sender of `doors` is dropped.
    pub(crate) fn start(
        board: Arc<Board>,
        doors: watch::Receiver<Vec<Arc<Door>>>,
        identity: Identity,
        witness: Arc<dyn Witness>,
    ) -> Result<(Self, JoinHandle<()>), Error> {
        let shown = Arc::new(ArcSwap::default());
        let leaving = Arc::new(AtomicBool::new(false));
        let handed_over = Arc::new(AtomicBool::new(false));
        let mut course = Course::new(board, identity, witness, shown.clone(), leaving.clone());
        course.handed_over = handed_over.clone();
        let config = course.board.sight().view.config.clone();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Thread)?;
        let entered = runtime.enter();
        course.open_or_close(&config, &doors.borrow());
        if let (Mode::Require, State::Not(error)) = (config.zero_hop, &mut course.state) {
            let error = error.take().unwrap_or(zerohop::Error::Removed);
            // The caller may be a task, in which no runtime can be dropped.
            drop(entered);
            runtime.shutdown_background();
            return Err(Error::ZeroHop(error));
        }
        course.look(&doors.borrow());
        drop(entered);
        let thread = std::thread::Builder::new()
            .name("headroom-0-hop".to_owned())
            .spawn(move || {
                runtime.block_on(course.run(doors));
                runtime.shutdown_background();
            })
            .map_err(Error::Thread)?;
        Ok((Self { shown, leaving, handed_over }, thread))
    }

    pub(crate) fn status(&self) -> Shown {
        self.shown.load().as_ref().clone()
    }

    /// The listeners are about to close: the kernel shall not count on them any more.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Relaxed);
    }

    /// Another process has taken over: what is in the kernel is its from now on, and is not touched here any more.
    pub(crate) fn hand_over(&self) {
        self.handed_over.store(true, Relaxed);
    }
}

/// Whether programs are in force.
enum State {
    /// Not asked for.
    Off,
    /// They cannot be had; taken out once it has been said.
    Not(Option<zerohop::Error>),
    On(Box<Bypass>),
}

/// Everything the thread carries from look to look.
struct Course {
    board: Arc<Board>,
    identity: Identity,
    witness: Arc<dyn Witness>,
    shown: Arc<ArcSwap<Shown>>,
    leaving: Arc<AtomicBool>,
    handed_over: Arc<AtomicBool>,
    state: State,
    why_not: String,
    ticks: u32,
    /// The addresses whose connections are ours to decide about.
    claimed: Vec<SocketAddr>,
    counts: Counts,
    pages: Pages,
    mirroring: Mirroring,
    resolver: Resolver,
    logins: Logins,
    going: Leaving,
    /// A server has answered.
    answered: Arc<Notify>,
    /// The kernel has rung.
    rung: Arc<Notify>,
}

impl Course {
    fn new(
        board: Arc<Board>,
        identity: Identity,
        witness: Arc<dyn Witness>,
        shown: Arc<ArcSwap<Shown>>,
        leaving: Arc<AtomicBool>,
    ) -> Self {
        let answered = Arc::new(Notify::new());
        let mirroring = Mirroring::default();
        Self {
            board,
            identity,
            witness,
            shown,
            leaving,
            handed_over: Arc::default(),
            state: State::Off,
            why_not: String::new(),
            ticks: 0,
            claimed: Vec::new(),
            counts: Counts::default(),
            pages: Pages::new(mirroring.named()),
            mirroring,
            resolver: Resolver::default(),
            logins: Logins::new(answered.clone()),
            going: Leaving::new(answered.clone()),
            answered,
            rung: Arc::default(),
        }
    }

    async fn run(mut self, mut doors: watch::Receiver<Vec<Arc<Door>>>) {
        let mut changes = self.board.changes();
        let answered = self.answered.clone();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                changed = doors.changed() => if changed.is_err() { break },
                () = answered.notified() => {}
                changed = changes.changed() => if changed.is_err() { break },
                () = self.rung.notified() => {}
                _ = ticks.tick() => {
                    self.ticks = self.ticks.wrapping_add(1);
                    let config = self.board.sight().view.config.clone();
                    let now = doors.borrow().clone();
                    self.open_or_close(&config, &now);
                }
            }
            let doors = doors.borrow_and_update().clone();
            self.look(&doors);
        }
        self.end();
    }

    /// This process ends on purpose, and nobody has taken over: nothing of it stays in force. Sessions do.
    fn end(&mut self) {
        if !matches!(self.state, State::On(_)) || self.handed_over.load(Relaxed) {
            return;
        }
        self.state = State::Off;
        self.why_not = "this router is stopping".to_owned();
        self.counts.clear(&self.board);
        self.mirroring.stop(&self.board);
        match zerohop::pins::remove(std::slice::from_ref(&self.identity.name)) {
            Ok(_) => tracing::info!("zero-hop is removed from the kernel; open sessions stay"),
            Err(error) => tracing::warn!(%error, "zero-hop cannot be removed"),
        }
    }

    /// Overrules what others have pinned for our addresses.
    fn claim(&mut self, doors: &[Arc<Door>], take_over: bool) {
        let bound: Vec<SocketAddr> = doors.iter().filter_map(|door| bound(&door.bound)).collect();
        if bound == self.claimed {
            return;
        }
        match zerohop::pins::claim(&bound, &self.identity.name, take_over) {
            Ok(claimed) => {
                if let Some(from) = claimed.taken_over {
                    tracing::info!(from, "took over what an earlier router had pinned for these addresses");
                }
                for from in claimed.overruled {
                    tracing::warn!(from, "removed what another router had pinned for these addresses");
                }
                if claimed.remains > 0 {
                    tracing::info!(
                        remains = claimed.remains,
                        "removed what routers had left that ended long ago"
                    );
                }
                self.claimed = bound;
            }
            Err(error) => {
                tracing::warn!(%error, "what other routers have pinned for these addresses cannot be removed");
                self.claimed = bound;
            }
        }
    }

    /// Brings the state to what the configuration asks for.
    fn open_or_close(&mut self, config: &RouterConfig, doors: &[Arc<Door>]) {
        if self.handed_over.load(Relaxed) || self.leaving.load(Relaxed) {
            return;
        }
        match (&self.state, config.zero_hop) {
            (State::Off, Mode::Off) if self.ticks > 0 => return,
            (State::On(_), Mode::Auto | Mode::Require) => return,
            (State::Not(_), Mode::Auto | Mode::Require) if !self.ticks.is_multiple_of(TRY_AGAIN) => return,
            (_, Mode::Off) => {
                self.state = State::Off;
                self.why_not = "zero_hop = \"off\"".to_owned();
                self.counts.clear(&self.board);
                self.mirroring.stop(&self.board);
                // Also what a process before us has left when it was on.
                match zerohop::pins::remove(std::slice::from_ref(&self.identity.name)) {
                    Ok(removed) if removed.names.is_empty() => {}
                    Ok(_) => tracing::info!("zero-hop is off: what was pinned is removed, sessions stay"),
                    Err(error) => tracing::warn!(%error, "zero-hop cannot be removed"),
                }
                return;
            }
            _ => {}
        }
        self.claim(doors, true);
        let spec = Spec {
            name: self.identity.name.clone(),
            title: self.identity.title.clone(),
            cgroup: config.zero_hop_cgroup.clone(),
        };
        match Bypass::open(&spec) {
            Ok(bypass) => {
                let (cgroup, pins) = (bypass.cgroup().display(), bypass.directory().display());
                let (inherited, mounted) = (bypass.inherited(), bypass.mounted());
                tracing::info!(%cgroup, %pins, inherited, "zero-hop is in force");
                if mounted {
                    tracing::info!(
                        "/sys/fs/bpf was not mounted: it is now (headroom zero-hop off unmounts it)"
                    );
                }
                self.counts = Counts::resume(&bypass);
                self.pages = Pages::new(self.mirroring.named());
                self.why_not.clear();
                self.rung = listen_for_rings(&bypass);
                self.state = State::On(Box::new(bypass));
            }
            Err(error) => self.cannot(error),
        }
    }

    /// No programs (any more), and why.
    fn cannot(&mut self, error: zerohop::Error) {
        let why = error.to_string();
        if why != self.why_not {
            tracing::warn!("no zero-hop: {why}; the ordinary listeners serve");
        }
        self.why_not = why;
        self.counts.clear(&self.board);
        self.mirroring.stop(&self.board);
        self.state = State::Not(Some(error));
    }

    /// One look: counts, pages, sessions that should leave, what the status shows.
    fn look(&mut self, doors: &[Arc<Door>]) {
        if self.handed_over.load(Relaxed) {
            self.mirroring.stop(&self.board);
            return;
        }
        if self.leaving.load(Relaxed) {
            self.end();
        } else {
            self.claim(doors, false);
        }
        if let State::On(bypass) = &mut self.state {
            let config = &self.board.sight().view.config;
            let (keep, follow) = (config.zero_hop_keep, config.replace.enabled);
            let (board, resolver) = (&self.board, &mut self.resolver);
            let done = bypass.beat(ALIVE, keep).and_then(|()| {
                let mirrors = self.mirroring.look(bypass, board, doors, follow);
                let named = self.mirroring.named();
                self.counts.take(bypass, board, doors, resolver, (mirrors, &named))?;
                self.pages.write(bypass, board, doors, resolver, &self.counts, mirrors)?;
                self.logins.look(bypass, &self.counts, &self.witness)?;
                self.going.look(bypass, board, &self.counts)
            });
            if let Err(error) = done {
                self.cannot(error);
            }
        }
        self.shown.store(Arc::new(self.show(doors)));
    }

    fn show(&self, doors: &[Arc<Door>]) -> Shown {
        let State::On(bypass) = &self.state else {
            let plain = ListenerZeroHop { words: self.why_not.clone(), ..ListenerZeroHop::default() };
            let listeners = doors.iter().map(|door| (door.bound.clone(), plain.clone())).collect();
            let whole = ZeroHopStatus { words: self.why_not.clone(), ..ZeroHopStatus::default() };
            return Shown { whole, listeners };
        };
        let words = format!("in the kernel, for processes of {}", bypass.cgroup().display());
        let limits = self.going.limits();
        let listeners = doors
            .iter()
            .map(|door| (door.bound.clone(), self.pages.show(&door.bound, bypass, &self.counts)))
            .collect();
        Shown { whole: ZeroHopStatus { in_force: true, words, limits }, listeners }
    }
}

/// The address whose connections come to a listener; a unix socket has none.
fn bound(address: &Address) -> Option<SocketAddr> {
    match address {
        Address::Tcp { host, port } => Some(SocketAddr::new(host.parse().ok()?, *port)),
        Address::Unix { .. } => None,
    }
}

/// The role of a listener that a session came by.
pub(crate) type Role = ListenerRole;
