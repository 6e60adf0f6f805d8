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
//! 4. `mirror`: where insight measures a listener, the kernel tells what passes on the sessions it measures.
//! 5. `leave`: sessions that placement wants gone are ended, when the server itself says that they are idle.
//!
//! **In doubt the ordinary listener**, which can wait, try others and refuse in words: when nobody is eligible, for a
//! server that just failed, beyond `max_sessions`, for listeners whose options need the path (`fit`), and for sessions that
//! insight measures where the kernel cannot mirror them.
//!
//! **When this process ends** all of it stays in the kernel for `zero_hop_keep`, so that a restart loses no connection;
//! after that, connections go to the listener's address as if nothing had been there.

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
use count::Counts;
use fleet::config::{RouterConfig, ZeroHop as Mode};
use fleet::{Address, ListenerRole, ServerName};
use leave::Leaving;
use mirror::Mirroring;
use page::Pages;
use resolve::Resolver;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
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
/// The kernel takes us for gone when it has not heard of us for so long: ten looks missed.
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

/// Which sessions of a server may be closed, by its own word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// Clients, as the server sees them, whose sessions wait for a statement outside a transaction.
    pub idle: HashSet<SocketAddr>,
    /// Clients whose sessions do not.
    pub busy: HashSet<SocketAddr>,
    /// Whether any session of anybody has a transaction open. Sessions that the server knows by another address (behind
    /// NAT) may be closed only when none has.
    pub any_transaction: bool,
}

/// The answer of a server, or why there is none, in words.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send>>;

/// Asks servers what nobody can hear who is not in the path.
pub trait Witness: Send + Sync {
    /// Which of its sessions are idle.
    fn idle(&self, server: &ServerName) -> Answer<Idle>;
    /// Whether it lets one log in now.
    fn login(&self, server: &ServerName) -> Answer<()>;
}

/// Whether connections go past this process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ZeroHopStatus {
    /// Programs are in force.
    pub in_force: bool,
    /// Which, or why not.
    pub words: String,
    /// What limits the ending of sessions that go past, if anything: servers that cannot be asked.
    pub limits: Vec<String>,
}

/// Whether a listener's connections go past this process.
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
        course.open_or_close(&config);
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
                    self.open_or_close(&config);
                }
            }
            let doors = doors.borrow_and_update().clone();
            self.look(&doors);
        }
        if let State::On(bypass) = &mut self.state
            && !self.handed_over.load(Relaxed)
        {
            // Whoever comes next takes over; until then nobody listens.
            let keep = self.board.sight().view.config.zero_hop_keep;
            let _ = bypass.beat(Duration::ZERO, keep);
            tracing::info!(
                keep_s = keep.as_secs_f64(),
                "zero-hop stays in the kernel for the next start; headroom zero-hop off removes it"
            );
        }
    }

    /// Brings the state to what the configuration asks for.
    fn open_or_close(&mut self, config: &RouterConfig) {
        if self.handed_over.load(Relaxed) {
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
        if let State::On(bypass) = &mut self.state {
            let keep = self.board.sight().view.config.zero_hop_keep;
            let alive = if self.leaving.load(Relaxed) { Duration::ZERO } else { ALIVE };
            let done = bypass.beat(alive, keep).and_then(|()| {
                let mirrors = self.mirroring.look(bypass, &self.board, doors);
                self.counts.take(bypass, &self.board, doors, &mut self.resolver, mirrors)?;
                self.pages.write(bypass, &self.board, doors, &mut self.resolver, &self.counts, mirrors)?;
                self.logins.look(bypass, &self.counts, &self.witness)?;
                self.going.look(bypass, &self.board, &self.witness, &self.counts)
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

/// The role of a listener that a session came by.
pub(crate) type Role = ListenerRole;
