//! Board: what the threads of the data plane share: the view in force with the tallies of its servers, what our own
//! side knows of servers, and the way to report a failure.

use crate::event::{self, History, Picture};
use crate::names::Names;
use crate::record::Recorder;
use crate::steward::Leaving;
use crate::supervise::Health;
use crate::suspect::Suspects;
use crate::tally::Tally;
use crate::tls::Secrecy;
use crate::view::{OwnState, View};
use crate::zero_hop::mirror::Line;
use arc_swap::ArcSwap;
use config::RouterConfig;
use fleet::{ListenerRole, ServerName, Snapshot};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};
use tokio::sync::watch;

/// A view with the tallies of its servers, in the same order.
#[derive(Debug)]
pub(crate) struct Sight {
    pub(crate) view: View,
    pub(crate) tallies: Vec<Arc<Tally>>,
}

/// What is called when a server failed a session.
pub(crate) type Report = Box<dyn Fn(&ServerName, &str) + Send + Sync>;

/// Shared by all threads of one router.
pub(crate) struct Board {
    sight: ArcSwap<Sight>,
    /// Counts the sights; whoever waits for a change subscribes.
    epoch: watch::Sender<u64>,
    known: Mutex<Known>,
    report: Report,
    /// This router's phase among all routers; see `apportion`.
    pub(crate) phase: f64,
    /// Threads that let sessions in; each may have a ring's thread beside it.
    pub(crate) threads: usize,
    /// Sessions held until a primary is known.
    pub(crate) held: AtomicUsize,
    /// Where the servers' host names lead.
    pub(crate) names: Names,
    /// Writes are held for a switchover, and no writer session is left on its server.
    pub(crate) writes_drained: Arc<AtomicBool>,
    /// TLS to the servers.
    pub(crate) secrecy: Secrecy,
    /// Sessions that should leave and have not yet.
    leaving: Mutex<Vec<Leaving>>,
    /// What has changed.
    history: Mutex<History>,
    /// The names that the threads' ledgers share.
    pub(crate) insight: Arc<insight::Shared>,
    /// Whether somebody records.
    pub(crate) recorder: Arc<Recorder>,
    /// The thread that hears sessions past this process, if there is one.
    pub(crate) mirror: Arc<Line>,
    /// How the threads and tasks are.
    pub(crate) health: Arc<Health>,
    /// The rebalancer is to panic, for a test.
    pub(crate) rebalancer_fails: AtomicBool,
}

/// What our own side knows; behind a lock that only new sessions, failures and the steward take.
#[derive(Debug)]
struct Known {
    config: Arc<RouterConfig>,
    snapshot: Arc<Snapshot>,
    drains: HashMap<ServerName, Drain>,
    suspects: Suspects,
    tallies: HashMap<ServerName, Arc<Tally>>,
}

/// A server being emptied by command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drain {
    pub(crate) since: Instant,
    /// When what is left is cut.
    pub(crate) deadline: Instant,
    /// Whether that has been done and said.
    pub(crate) cut: bool,
}

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Board")
            .field("phase", &self.phase)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl Board {
    pub(crate) fn new(config: RouterConfig, snapshot: Arc<Snapshot>, threads: usize, report: Report) -> Self {
        let insight = insight::Shared::new(config.insight.clone());
        let known = Known {
            config: Arc::new(config),
            snapshot,
            drains: HashMap::new(),
            suspects: Suspects::default(),
            tallies: HashMap::new(),
        };
        let mut known = known;
        let sight = known.sight(threads, Instant::now());
        Self {
            sight: ArcSwap::from_pointee(sight),
            epoch: watch::Sender::new(0),
            known: Mutex::new(known),
            report,
            phase: rand::random_range(0.0..1.0),
            threads,
            held: AtomicUsize::new(0),
            names: Names::default(),
            writes_drained: Arc::default(),
            secrecy: Secrecy::default(),
            leaving: Mutex::default(),
            history: Mutex::default(),
            insight,
            recorder: Arc::default(),
            mirror: Arc::default(),
            health: Arc::default(),
            rebalancer_fails: AtomicBool::new(false),
        }
    }

    /// The sight in force.
    pub(crate) fn sight(&self) -> Arc<Sight> {
        self.sight.load_full()
    }

    /// Hears of every new sight from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.epoch.subscribe()
    }

    /// A server failed a session of ours: avoided from now on, and looked at by `observe` at once. Whether that is news: sessions
    /// that fail together are one piece of it.
    pub(crate) fn suspect(&self, server: &ServerName, why: &str) -> bool {
        let new = {
            let mut known = self.known();
            let round = known.snapshot.round;
            known.suspects.add(server, why, round, Instant::now())
        };
        if new {
            self.renew(None);
            (self.report)(server, why);
        }
        new
    }

    /// Something happened to a server that may mean nothing: `observe` looks at it at once.
    pub(crate) fn doubt(&self, server: &ServerName, why: &str) {
        (self.report)(server, why);
    }

    /// A server greeted a session of ours: nothing is held against it.
    pub(crate) fn greeted(&self, server: &ServerName) {
        let mut known = self.known();
        if known.suspects.knows(server) {
            known.suspects.clear(server);
            drop(known);
            self.renew(None);
        }
    }

    /// Works out the sight anew, from a newer snapshot if there is one.
    pub(crate) fn renew(&self, snapshot: Option<Arc<Snapshot>>) {
        let now = Instant::now();
        let mut known = self.known();
        if let Some(snapshot) = snapshot {
            known.snapshot = snapshot;
        }
        let snapshot = known.snapshot.clone();
        known.suspects.review(&snapshot, now);
        let sight = known.sight(self.threads, now);
        let picture = Picture::of(&sight.view, &self.secrecy.without());
        // Stored under the lock, so that of two renewals at once the later one stays; noted under it, so that
        // the events stand in their order. The log may block and comes after.
        self.sight.store(Arc::new(sight));
        let events =
            if snapshot.settled { self.history().note(picture, now, SystemTime::now()) } else { Vec::new() };
        drop(known);
        event::log(&events);
        self.epoch.send_modify(|epoch| *epoch += 1);
    }

    pub(crate) fn reconfigure(&self, config: RouterConfig) {
        self.known().config = Arc::new(config);
        self.renew(None);
    }

    /// Starts to empty a server; a second call sets a new deadline.
    pub(crate) fn drain(&self, server: &ServerName, deadline: Instant) {
        let now = Instant::now();
        let mut known = self.known();
        let since = known.drains.get(server).map_or(now, |d| d.since);
        known.drains.insert(server.clone(), Drain { since, deadline, cut: false });
        drop(known);
        self.renew(None);
    }

    /// Takes a server into service again; `false` when it was not being drained.
    pub(crate) fn undrain(&self, server: &ServerName) -> bool {
        let was = self.known().drains.remove(server).is_some();
        self.renew(None);
        was
    }

    /// The drains under way.
    pub(crate) fn drains(&self) -> HashMap<ServerName, Drain> {
        self.known().drains.clone()
    }

    /// The servers whose drain deadline has passed and whose sessions have not been cut yet; asked once each.
    pub(crate) fn overdue_drains(&self, now: Instant) -> Vec<ServerName> {
        let mut known = self.known();
        let due = known.drains.iter_mut().filter(|(_, d)| !d.cut && d.deadline <= now);
        due.map(|(name, drain)| {
            drain.cut = true;
            name.clone()
        })
        .collect()
    }

    /// Sessions that should leave and have not yet, as the steward last found.
    pub(crate) fn leaving(&self) -> Vec<Leaving> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn tell_leaving(&self, leaving: Vec<Leaving>) {
        *self.leaving.lock().unwrap_or_else(PoisonError::into_inner) = leaving;
    }

    /// What has changed, and since when things are as they are.
    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tallies of servers that are no longer in the fleet but still have sessions of ours.
    pub(crate) fn departed(&self) -> Vec<Arc<Tally>> {
        let known = self.known();
        let gone = known.tallies.values().filter(|t| known.snapshot.server(&t.name).is_none());
        gone.cloned().collect()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // A panic elsewhere leaves these maps whole: every change to them is one insertion or removal.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn sight(&mut self, threads: usize, now: Instant) -> Sight {
        let own = OwnState {
            draining: self.drains.keys().cloned().collect::<HashSet<_>>(),
            suspects: self.suspects.clone(),
        };
        let view = View::new(self.snapshot.clone(), self.config.clone(), &own, now);
        let snapshot = &self.snapshot;
        let used = |t: &Tally| t.sessions(ListenerRole::Reader) + t.sessions(ListenerRole::Writer) > 0;
        self.tallies.retain(|name, tally| snapshot.server(name).is_some() || used(tally));
        let tally = |name: &ServerName| {
            let new = || Arc::new(Tally::new(name.clone(), 2 * threads));
            self.tallies.entry(name.clone()).or_insert_with(new).clone()
        };
        let tallies = view.candidates.iter().map(|c| &c.name).map(tally).collect();
        Sight { view, tallies }
    }
}

impl Sight {
    /// Our own reader sessions on each candidate.
    pub(crate) fn readers(&self) -> Vec<u32> {
        self.tallies.iter().map(|t| t.sessions(ListenerRole::Reader)).collect()
    }
}
