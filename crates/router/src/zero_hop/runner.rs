//! Runner: the thread that keeps the kernel's programs in force, and tells them ten times a second what to
//! do.

use super::close::BypassCloser;
use super::count::KernelCounts;
use super::login_probe::{LoginProber, LoginProbes, wakeups};
use super::mirror::Mirroring;
use super::overview::{Identity, ListenerZeroHop, ZeroHopOverview, ZeroHopStatus};
use super::page::Pages;
use super::step::{Standing, Step, step};
use crate::listener::Listener;
use crate::shared_state::SharedState;
use arc_swap::ArcSwap;
use config::{RouterConfig, ZeroHop as Mode};
use fleet::Address;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::MissedTickBehavior;
use zerohop::{Bypass, Spec};

/// Time between two looks.
const TICK: Duration = Duration::from_millis(100);
/// The kernel considers this process gone when it has been silent for this long: ten looks missed. For this
/// long at most are writers sent to the primary that was known last.
pub(super) const ALIVE: Duration = Duration::from_secs(1);

/// Whether programs are in force.
enum State {
    New,
    Off,
    /// Why; taken out once it has been said.
    Unavailable(Option<zerohop::Error>),
    SwitchedOff,
    TakenOver,
    On(Box<Bypass>),
}

impl State {
    fn standing(&self) -> Standing {
        match self {
            Self::New => Standing::New,
            Self::Off => Standing::Off,
            Self::Unavailable(_) => Standing::Unavailable,
            Self::SwitchedOff => Standing::SwitchedOff,
            Self::TakenOver => Standing::TakenOver,
            Self::On(_) => Standing::InForce,
        }
    }
}

/// What others say of this process.
#[derive(Clone, Debug, Default)]
pub(super) struct Signals {
    /// The listeners are about to close.
    pub(super) leaving: Arc<AtomicBool>,
    /// The process that this one takes over from has not left: it says where connections go.
    pub(super) waits: Arc<AtomicBool>,
    /// Another process has taken over. Locked while something is written: nothing is any more once this is
    /// set.
    pub(super) handed_over: Arc<Mutex<bool>>,
}

/// Everything the thread carries from look to look.
pub(super) struct Runner {
    shared: Arc<SharedState>,
    identity: Identity,
    prober: Arc<dyn LoginProber>,
    overview: Arc<ArcSwap<ZeroHopOverview>>,
    signals: Signals,
    state: State,
    /// The cgroup that the programs in force were asked for.
    cgroup: Option<PathBuf>,
    why_not: String,
    ticks: u32,
    /// The addresses whose connections are ours to decide about.
    claimed: Vec<SocketAddr>,
    counts: KernelCounts,
    pages: Pages,
    mirroring: Mirroring,
    login_probes: LoginProbes,
    closer: BypassCloser,
    /// A server has answered.
    answered: Arc<Notify>,
    /// The kernel has woken us.
    woken: Arc<Notify>,
}

impl Runner {
    pub(super) fn new(
        shared: Arc<SharedState>,
        identity: Identity,
        prober: Arc<dyn LoginProber>,
        overview: Arc<ArcSwap<ZeroHopOverview>>,
        signals: Signals,
    ) -> Self {
        let answered = Arc::new(Notify::new());
        let mirroring = Mirroring::default();
        Self {
            shared,
            identity,
            prober,
            overview,
            signals,
            state: State::New,
            cgroup: None,
            why_not: String::new(),
            ticks: 0,
            claimed: Vec::new(),
            counts: KernelCounts::default(),
            pages: Pages::new(mirroring.target_names()),
            mirroring,
            login_probes: LoginProbes::new(answered.clone()),
            closer: BypassCloser::new(answered.clone()),
            answered,
            woken: Arc::default(),
        }
    }

    /// The first look.
    ///
    /// # Errors
    /// Zero-hop is required and is not available.
    pub(super) fn begin(&mut self, listeners: &[Arc<Listener>]) -> Result<(), zerohop::Error> {
        let config = self.shared.routing().view.config.clone();
        if config.zero_hop == Mode::Require && self.signals.waits.load(Relaxed) {
            zerohop::possible_in(config.zero_hop_cgroup.as_deref())?;
        }
        self.open_or_close(&config, listeners);
        if let (Mode::Require, State::Unavailable(error)) = (config.zero_hop, &mut self.state)
            && let Some(error) = error.take()
        {
            return Err(error);
        }
        self.look(listeners);
        Ok(())
    }

    pub(super) async fn run(mut self, mut listeners: watch::Receiver<Vec<Arc<Listener>>>) {
        let mut changes = self.shared.changes();
        let answered = self.answered.clone();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                changed = listeners.changed() => if changed.is_err() { break },
                () = answered.notified() => {}
                changed = changes.changed() => if changed.is_err() { break },
                () = self.woken.notified() => {}
                _ = ticks.tick() => {
                    self.ticks = self.ticks.wrapping_add(1);
                    let config = self.shared.routing().view.config.clone();
                    let now = listeners.borrow().clone();
                    self.open_or_close(&config, &now);
                }
            }
            let listeners = listeners.borrow_and_update().clone();
            self.look(&listeners);
        }
        let handed_over = self.signals.handed_over.clone();
        if !*handed_over.lock().unwrap_or_else(PoisonError::into_inner) {
            self.end();
        }
    }

    /// This process ends on purpose, and nobody has taken over: nothing of it stays in force. Sessions do.
    fn end(&mut self) {
        if !matches!(self.state, State::On(_)) {
            return;
        }
        self.turn_off(self.is_anothers(), "this router is stopping");
    }

    /// Nothing of what is bypassed stays in force; what another process has pinned since does
    /// (`is_anothers`).
    fn turn_off(&mut self, is_anothers: bool, why: &str) {
        let removed = self.remove(is_anothers);
        self.state = State::Off;
        self.why_not = why.to_owned();
        self.counts.clear(&self.shared);
        self.mirroring.stop(&self.shared);
        match removed {
            Ok(false) => {}
            Ok(true) => tracing::info!(why, "zero-hop is removed from the kernel; open sessions stay"),
            Err(error) => tracing::warn!(%error, "zero-hop cannot be removed"),
        }
    }

    /// Whether another process that lives writes what is pinned under our name.
    fn is_anothers(&self) -> bool {
        match &self.state {
            State::On(bypass) => matches!(bypass.is_ours(), Err(zerohop::Error::TakenOver { .. })),
            _ => zerohop::pins::is_alive(&self.identity.name),
        }
    }

    /// Removes what is pinned under our name, unless it is `anothers`; says whether anything was.
    fn remove(&self, anothers: bool) -> io::Result<bool> {
        if anothers {
            return Ok(false);
        }
        let removed = zerohop::pins::remove(std::slice::from_ref(&self.identity.name))?;
        Ok(!removed.names.is_empty())
    }

    /// Overrules what others have pinned for our addresses.
    fn claim(&mut self, listeners: &[Arc<Listener>], take_over: bool) {
        let bound: Vec<SocketAddr> = listeners.iter().filter_map(|listener| bound(&listener.bound)).collect();
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
                        "removed what routers left behind that ended long ago"
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
    fn open_or_close(&mut self, config: &RouterConfig, listeners: &[Arc<Listener>]) {
        let handed_over = self.signals.handed_over.clone();
        let handed_over = handed_over.lock().unwrap_or_else(PoisonError::into_inner);
        if *handed_over || self.signals.leaving.load(Relaxed) {
            return;
        }
        if self.signals.waits.load(Relaxed) {
            // Were this process to fail now, the other one would go on with what it had.
            self.why_not = "the process before this one still says where connections go".to_owned();
            return;
        }
        let moves = self.cgroup != config.zero_hop_cgroup;
        let lives = || zerohop::pins::is_alive(&self.identity.name);
        match step(self.state.standing(), config.zero_hop, moves, self.ticks, lives) {
            Step::Stay => {}
            Step::Open => self.open(config, listeners),
            Step::Move => self.move_to(config),
            Step::Close => self.close(),
        }
    }

    fn close(&mut self) {
        // What a process before us has left is removed as well, however long ago it lived.
        self.turn_off(!matches!(self.state, State::New) && self.is_anothers(), "zero_hop = \"off\"");
    }

    fn open(&mut self, config: &RouterConfig, listeners: &[Arc<Listener>]) {
        self.claim(listeners, true);
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
                self.counts = KernelCounts::resume(&bypass);
                self.pages.begin_again();
                self.why_not.clear();
                self.woken = wakeups(&bypass);
                self.cgroup.clone_from(&spec.cgroup);
                self.state = State::On(Box::new(bypass));
            }
            Err(error) => self.cannot(error),
        }
    }

    /// The configuration names another cgroup.
    fn move_to(&mut self, config: &RouterConfig) {
        let State::On(bypass) = &mut self.state else { return };
        self.cgroup.clone_from(&config.zero_hop_cgroup);
        match bypass.move_to(config.zero_hop_cgroup.as_deref()) {
            Ok(()) => tracing::info!(cgroup = %bypass.cgroup().display(), "zero-hop serves another cgroup"),
            Err(error) => self.cannot(error),
        }
    }

    /// No programs (any more), and why. Where that is nobody's wish they would stay in force, with picks that
    /// nobody writes any more: they are removed.
    fn cannot(&mut self, error: zerohop::Error) {
        let why = error.to_string();
        if why != self.why_not {
            tracing::warn!("no zero-hop: {why}; the ordinary listeners serve");
        }
        self.why_not = why;
        self.counts.clear(&self.shared);
        self.mirroring.stop(&self.shared);
        self.state = match error {
            zerohop::Error::Removed => State::SwitchedOff,
            zerohop::Error::TakenOver { .. } => State::TakenOver,
            error => {
                match self.remove(self.is_anothers()) {
                    Ok(false) => {}
                    Ok(true) => tracing::info!("what zero-hop had pinned is removed; open sessions stay"),
                    Err(error) => tracing::warn!(%error, "zero-hop cannot be removed"),
                }
                State::Unavailable(Some(error))
            }
        };
    }

    /// One look: counts, pages, sessions that should leave, what the status shows.
    fn look(&mut self, listeners: &[Arc<Listener>]) {
        let handed_over = self.signals.handed_over.clone();
        let handed_over = handed_over.lock().unwrap_or_else(PoisonError::into_inner);
        if *handed_over {
            self.mirroring.stop(&self.shared);
            return;
        }
        if self.signals.leaving.load(Relaxed) {
            self.end();
        } else if !matches!(self.state, State::New) {
            self.claim(listeners, false);
        }
        if let State::On(bypass) = &mut self.state {
            let config = &self.shared.routing().view.config;
            let (keep, follow) = (config.zero_hop_keep, config.rebalance.enabled);
            let shared = &self.shared;
            let done = bypass.beat(ALIVE, keep).and_then(|()| {
                let mirrors = self.mirroring.look(bypass, shared, listeners, follow);
                let target_names = self.mirroring.target_names();
                self.counts.take(bypass, shared, listeners, (mirrors, &target_names))?;
                self.pages.write(bypass, shared, listeners, &self.counts, mirrors)?;
                self.login_probes.look(bypass, &self.counts, &self.prober)?;
                self.closer.look(bypass, shared, &self.counts)
            });
            if let Err(error) = done {
                self.cannot(error);
            }
        }
        self.overview.store(Arc::new(self.show(listeners)));
    }

    fn show(&self, listeners: &[Arc<Listener>]) -> ZeroHopOverview {
        let State::On(bypass) = &self.state else {
            let plain = ListenerZeroHop { words: self.why_not.clone(), ..ListenerZeroHop::default() };
            let listeners =
                listeners.iter().map(|listener| (listener.bound.clone(), plain.clone())).collect();
            let whole = ZeroHopStatus { words: self.why_not.clone(), ..ZeroHopStatus::default() };
            return ZeroHopOverview { whole, listeners };
        };
        let words = format!("in the kernel, for processes of {}", bypass.cgroup().display());
        let limits = self.closer.limits();
        let listeners = listeners
            .iter()
            .map(|listener| (listener.bound.clone(), self.pages.show(&listener.bound, bypass, &self.counts)))
            .collect();
        ZeroHopOverview { whole: ZeroHopStatus { in_force: true, words, limits }, listeners }
    }
}

/// The address whose connections come to a listener; a unix socket has none.
fn bound(address: &Address) -> Option<SocketAddr> {
    match address {
        Address::Tcp { host, port } => Some(SocketAddr::new(host.parse().ok()?, *port)),
        Address::Unix { .. } => None,
    }
}
