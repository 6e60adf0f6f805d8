//! Shared state: what the threads of the data plane share: the view in force with the counters of its
//! servers, what our own side knows of servers, and the way to report a failure.

use crate::event::{self, History, Picture};
use crate::health::Health;
use crate::heat::{Heats, Reader};
use crate::last_writer::LastWriter;
use crate::names::Names;
use crate::pending_move::PendingMove;
use crate::record::Recorder;
use crate::server_counters::ServerCounters;
use crate::speed::{Change, Peer, Speed, Speeds, Times};
use crate::suspect::Suspects;
use crate::tls::ServerTlsState;
use crate::view::{OwnState, View};
use crate::work::{self, Done, Works};
use crate::zero_hop::mirror_handle::MirrorHandle;
use arc_swap::ArcSwap;
use config::{Capacity as Switches, RouterConfig};
use fleet::{ListenerRole, Role, Server, ServerName, Snapshot, State};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;

/// A view with the counters of its servers, in the same order.
#[derive(Debug)]
pub(crate) struct RoutingState {
    pub(crate) view: View,
    pub(crate) counters: Vec<Arc<ServerCounters>>,
    /// For how many average sessions one of each server counts, where its work is known.
    pub(crate) per_session: Vec<Option<f64>>,
}

/// What is called when a server failed a session.
pub(crate) type Report = Box<dyn Fn(&ServerName, &str) + Send + Sync>;

/// Shared by all threads of one router.
pub(crate) struct SharedState {
    routing: ArcSwap<RoutingState>,
    /// Counts the changes of `routing`; whoever waits for one subscribes.
    epoch: watch::Sender<u64>,
    inputs: Mutex<Inputs>,
    comparison: Mutex<Comparison>,
    report: Report,
    /// This router's phase among all routers; see `apportion`.
    pub(crate) phase: f64,
    /// Threads that let sessions in; each may have a ring's thread beside it.
    pub(crate) threads: usize,
    /// The number of the next session.
    next_session: AtomicU64,
    /// Sessions held until a primary is known.
    pub(crate) held: AtomicUsize,
    /// Where the servers' host names lead.
    pub(crate) names: Names,
    /// Writes are held for a switchover, and no writer session is left on its server.
    pub(crate) writes_drained: Arc<AtomicBool>,
    pub(crate) server_tls: ServerTlsState,
    /// Sessions that should leave and have not yet.
    pending_moves: Mutex<Vec<PendingMove>>,
    /// What has changed.
    history: Mutex<History>,
    /// The names that the threads' ledgers share.
    pub(crate) insight: Arc<insight::Shared>,
    /// Whether somebody records.
    pub(crate) recorder: Arc<Recorder>,
    /// The thread that follows bypassed sessions, if there is one.
    pub(crate) mirror: Arc<MirrorHandle>,
    /// How the threads and tasks are.
    pub(crate) health: Arc<Health>,
    /// The rebalancer is to panic, for a test.
    pub(crate) rebalancer_fails: AtomicBool,
    /// The same of the thread that adds up what statements tell.
    pub(crate) insight_fails: AtomicBool,
}

/// What our own side knows; behind a lock that only new sessions, failures and the rebalancer take.
#[derive(Debug)]
struct Inputs {
    config: Arc<RouterConfig>,
    snapshot: Arc<Snapshot>,
    drains: HashMap<ServerName, Drain>,
    last_writer: LastWriter,
    suspects: Suspects,
    /// As last compared; those not named have all of their weight.
    speeds: HashMap<ServerName, Speed>,
    /// We send reads, and nothing has told for a while which server is slow.
    speeds_unknown: bool,
    heats: Heats,
    /// For how many average sessions one of each counts, where that is known.
    per_session: HashMap<ServerName, f64>,
    counters: HashMap<ServerName, Arc<ServerCounters>>,
    /// By the names that servers had, those that they have now: sessions count under the name that their
    /// server had when they began.
    new_names: HashMap<ServerName, ServerName>,
}

/// What [`SharedState::compare`] goes on from, and nothing else reads.
#[derive(Debug, Default)]
struct Comparison {
    speeds: Speeds,
    works: Works,
}

/// A server's sessions.
#[derive(Debug)]
struct Sessions {
    server: ServerName,
    readers: u32,
    /// For how many those stand whose statements are seen.
    readable: f64,
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

impl std::fmt::Debug for SharedState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedState")
            .field("phase", &self.phase)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl SharedState {
    pub(crate) fn new(config: RouterConfig, snapshot: Arc<Snapshot>, threads: usize, report: Report) -> Self {
        let insight = insight::Shared::new(config.insight.clone());
        let mut inputs = Inputs {
            config: Arc::new(config),
            last_writer: LastWriter::of(&snapshot.writer),
            snapshot,
            drains: HashMap::new(),
            suspects: Suspects::default(),
            speeds: HashMap::new(),
            speeds_unknown: false,
            heats: Heats::default(),
            per_session: HashMap::new(),
            counters: HashMap::new(),
            new_names: HashMap::new(),
        };
        let routing = inputs.routing(threads, Instant::now());
        Self {
            routing: ArcSwap::from_pointee(routing),
            epoch: watch::Sender::new(0),
            inputs: Mutex::new(inputs),
            comparison: Mutex::default(),
            report,
            phase: rand::random_range(0.0..1.0),
            threads,
            next_session: AtomicU64::new(1),
            held: AtomicUsize::new(0),
            names: Names::default(),
            writes_drained: Arc::default(),
            server_tls: ServerTlsState::default(),
            pending_moves: Mutex::default(),
            history: Mutex::default(),
            insight,
            recorder: Arc::default(),
            mirror: Arc::default(),
            health: Arc::default(),
            rebalancer_fails: AtomicBool::new(false),
            insight_fails: AtomicBool::new(false),
        }
    }

    /// A number for a session, by which its log lines are found.
    pub(crate) fn next_session(&self) -> u64 {
        self.next_session.fetch_add(1, Relaxed)
    }

    /// The routing state in force.
    pub(crate) fn routing(&self) -> Arc<RoutingState> {
        self.routing.load_full()
    }

    /// Is notified of every new routing state from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.epoch.subscribe()
    }

    /// A server failed a session of ours: avoided from now on, and looked at by `observe` at once. Whether
    /// that is news: sessions that fail together are one piece of it.
    pub(crate) fn suspect(&self, server: &ServerName, why: &str) -> bool {
        let added = {
            let mut inputs = self.inputs();
            let round = inputs.snapshot.round;
            inputs.suspects.add(server, why, round, Instant::now())
        };
        if added.closes {
            self.renew(None);
            (self.report)(server, why);
        }
        added.news
    }

    /// Something happened to a server that may mean nothing: `observe` looks at it at once.
    pub(crate) fn request_check(&self, server: &ServerName, why: &str) {
        (self.report)(server, why);
    }

    /// A server greeted a session of ours: nothing is held against it.
    pub(crate) fn greeted(&self, server: &ServerName) {
        let mut inputs = self.inputs();
        if inputs.suspects.knows(server) {
            inputs.suspects.clear(server);
            drop(inputs);
            self.renew(None);
        }
    }

    /// Works out the routing state again, from a newer snapshot if there is one.
    pub(crate) fn renew(&self, snapshot: Option<Arc<Snapshot>>) {
        let now = Instant::now();
        let mut inputs = self.inputs();
        let (mut new_names, mut undrained) = (Vec::new(), None);
        if let Some(snapshot) = snapshot {
            new_names = renamed(&inputs.snapshot, &snapshot);
            inputs.rename(&new_names);
            let new_primary = inputs.last_writer.note(&snapshot.writer);
            undrained = new_primary.filter(|server| inputs.drains.remove(server).is_some());
            inputs.snapshot = snapshot;
        }
        let snapshot = inputs.snapshot.clone();
        inputs.suspects.review(&snapshot, now);
        let routing = inputs.routing(self.threads, now);
        let picture = Picture::of(&routing.view, &self.server_tls.without());
        // Stored under the lock, so that of two renewals at once the later one stays; noted under it, so that
        // the events stand in their order. The log may block and comes after.
        self.routing.store(Arc::new(routing));
        let events =
            if snapshot.settled { self.history().note(picture, now, SystemTime::now()) } else { Vec::new() };
        drop(inputs);
        for (before, name) in new_names {
            tracing::info!("server {before} is called {name} from now on; its sessions and its drain stay");
        }
        if let Some(server) = undrained {
            tracing::warn!(%server, "{server} has become the primary: its drain has ended");
        }
        event::log(&events);
        self.epoch.send_modify(|epoch| *epoch += 1);
    }

    pub(crate) fn reconfigure(&self, config: RouterConfig) {
        self.inputs().config = Arc::new(config);
        self.renew(None);
    }

    /// Starts to empty a server; a second call sets a new deadline.
    pub(crate) fn drain(&self, server: &ServerName, deadline: Instant) {
        let now = Instant::now();
        let mut inputs = self.inputs();
        let since = inputs.drains.get(server).map_or(now, |d| d.since);
        inputs.drains.insert(server.clone(), Drain { since, deadline, cut: false });
        drop(inputs);
        self.renew(None);
    }

    /// Takes a server into service again; `false` when it was not being drained.
    pub(crate) fn undrain(&self, server: &ServerName) -> bool {
        let was = self.inputs().drains.remove(server).is_some();
        self.renew(None);
        was
    }

    /// Compares the servers' times, what their sessions did, and how warm they are. What changed is logged,
    /// and in force with the next routing state. `readable`: for how many sessions those stand that are seen.
    pub(crate) fn compare(
        &self,
        fresh: &[Times],
        readable: &HashMap<ServerName, f64>,
        elapsed: Duration,
        now: Instant,
    ) {
        let mut comparison = self.comparison.lock().unwrap_or_else(PoisonError::into_inner);
        let routing = self.routing();
        let given = routing.view.given(&routing.loads());
        let (peers, sessions, switches, new_names): (Vec<Peer>, Vec<Sessions>, _, _) = {
            let mut inputs = self.inputs();
            inputs.forget_old_names();
            let new_names = inputs.new_names.clone();
            let mut here: HashMap<&ServerName, f64> = HashMap::new();
            for (name, sessions) in readable {
                *here.entry(new_names.get(name).unwrap_or(name)).or_default() += sessions;
            }
            let readers = |(name, counters): (&ServerName, &Arc<ServerCounters>)| {
                let readers = counters.sessions(ListenerRole::Reader);
                let readable = here.get(name).copied().unwrap_or_default();
                Sessions { server: name.clone(), readers, readable }
            };
            let with_given = |peer: Peer| Peer { given: given.get(&peer.name).copied(), ..peer };
            let peers = inputs.snapshot.servers.iter().filter_map(peer).map(with_given).collect();
            let sessions = inputs.counters.iter().map(readers).collect();
            (peers, sessions, inputs.config.capacity, new_names.clone())
        };
        let fresh = by_new_names(fresh, &new_names);
        comparison.rename(&new_names);
        // Every login takes the lock of the inputs, so what takes time is done without it.
        let changes = comparison.update(&fresh, &peers, &sessions, switches, elapsed, now);
        let Comparison { speeds, works } = &*comparison;
        let warm = {
            let mut inputs = self.inputs();
            // It may have got another name meanwhile.
            inputs.speeds = peers
                .iter()
                .map(|peer| (current(&peer.name, &inputs.new_names), speeds.of(&peer.name)))
                .collect();
            let sends = sessions.iter().any(|sessions| sessions.readers > 0);
            inputs.speeds_unknown = sends && speeds.are_unknown(now);
            inputs.per_session = sessions
                .iter()
                .filter_map(|Sessions { server, .. }| {
                    Some((current(server, &inputs.new_names), works.per_session(server)?))
                })
                .collect();
            let reader = |server: &Server| Reader::of(server, &speeds.of(&server.name));
            let readers: Vec<Reader> = inputs.snapshot.servers.iter().filter_map(reader).collect();
            let config = inputs.config.clone();
            inputs.heats.update(&readers, &config, now)
        };
        warm.iter().for_each(|ended| tracing::info!(server = %ended.server, "{ended}"));
        for Change { server, before, now: speed } in changes {
            match speed.reason(now) {
                Some(reason) => tracing::info!(%server, before, factor = speed.factor, "{server} {reason}"),
                None => {
                    tracing::info!(%server, before, factor = 1.0, "{server} counts for all of its weight again");
                }
            }
        }
    }

    /// The drains under way.
    pub(crate) fn drains(&self) -> HashMap<ServerName, Drain> {
        self.inputs().drains.clone()
    }

    /// The servers whose drain deadline has passed and whose sessions have not been cut yet. Asked again
    /// while there are sessions: some were logging in when the others were cut.
    pub(crate) fn overdue_drains(&self, now: Instant) -> Vec<ServerName> {
        let mut inputs = self.inputs();
        let Inputs { drains, counters, .. } = &mut *inputs;
        let used = |name: &ServerName| counters.get(name).is_some_and(|counters| in_use(counters));
        let due = drains.iter_mut().filter(|(name, d)| d.deadline <= now && (!d.cut || used(name)));
        due.map(|(name, drain)| {
            drain.cut = true;
            name.clone()
        })
        .collect()
    }

    /// Sessions that should leave and have not yet, as the rebalancer last found.
    pub(crate) fn pending_moves(&self) -> Vec<PendingMove> {
        self.pending_moves.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_pending_moves(&self, pending: Vec<PendingMove>) {
        *self.pending_moves.lock().unwrap_or_else(PoisonError::into_inner) = pending;
    }

    /// What has changed, and since when things are as they are.
    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counters of servers that are no longer in the fleet but still have sessions of ours.
    pub(crate) fn departed(&self) -> Vec<Arc<ServerCounters>> {
        let inputs = self.inputs();
        let gone = inputs.counters.values().filter(|t| inputs.snapshot.server(&t.name()).is_none());
        gone.cloned().collect()
    }

    fn inputs(&self) -> MutexGuard<'_, Inputs> {
        // A panic elsewhere leaves these maps whole: every change to them is one insertion or removal.
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The servers that have another name in `now` than `before`: the old one and the new one. A server is the
/// same where its address is. Names that two servers exchange are not followed.
fn renamed(before: &Snapshot, now: &Snapshot) -> Vec<(ServerName, ServerName)> {
    let left = before.servers.iter().filter(|server| now.server(&server.name).is_none());
    let new_name = |old: &Server| {
        let is = |new: &&Server| new.reach == old.reach && before.server(&new.name).is_none();
        now.servers.iter().find(is).map(|new| (old.name.clone(), new.name.clone()))
    };
    left.filter_map(new_name).collect()
}

impl Inputs {
    /// What is known of a server by its old name is known by its new one.
    fn rename(&mut self, names: &[(ServerName, ServerName)]) {
        for (before, name) in names {
            if let Some(drain) = self.drains.remove(before) {
                self.drains.insert(name.clone(), drain);
            }
            self.last_writer.rename(before, name);
            self.suspects.rename(before, name);
            self.heats.rename(before, name);
            self.new_names.values_mut().filter(|now| **now == *before).for_each(|now| *now = name.clone());
            self.new_names.insert(before.clone(), name.clone());
            if let Some(speed) = self.speeds.remove(before) {
                self.speeds.insert(name.clone(), speed);
            }
            if let Some(per_session) = self.per_session.remove(before) {
                self.per_session.insert(name.clone(), per_session);
            }
            // One by the new name is of a server that has left the fleet, and has sessions of ours still.
            if !self.counters.contains_key(name)
                && let Some(counters) = self.counters.remove(before)
            {
                counters.rename(name.clone());
                self.counters.insert(name.clone(), counters);
            }
        }
    }

    /// A name that a server has again is its own, and one that has left has none.
    fn forget_old_names(&mut self) {
        let snapshot = &self.snapshot;
        self.new_names
            .retain(|before, name| snapshot.server(before).is_none() && snapshot.server(name).is_some());
    }

    fn routing(&mut self, threads: usize, now: Instant) -> RoutingState {
        let own = OwnState {
            draining: self.drains.keys().cloned().collect::<HashSet<_>>(),
            suspects: self.suspects.clone(),
            speeds: self.speeds.clone(),
            speeds_unknown: self.speeds_unknown,
            heats: self.snapshot.servers.iter().map(|s| (s.name.clone(), self.heats.of(&s.name))).collect(),
        };
        let view = View::new(self.snapshot.clone(), self.config.clone(), &own, now);
        let snapshot = &self.snapshot;
        self.counters.retain(|name, counters| snapshot.server(name).is_some() || in_use(counters));
        let counters = |name: &ServerName| {
            let new = || Arc::new(ServerCounters::new(name.clone(), 2 * threads));
            self.counters.entry(name.clone()).or_insert_with(new).clone()
        };
        let counters = view.candidates.iter().map(|c| &c.name).map(counters).collect();
        let per_session = view.candidates.iter().map(|c| self.per_session.get(&c.name).copied()).collect();
        RoutingState { view, counters, per_session }
    }
}

/// Whether a server has sessions of ours, those that are logging in among them.
fn in_use(counters: &ServerCounters) -> bool {
    counters.sessions(ListenerRole::Reader) + counters.sessions(ListenerRole::Writer) > 0
}

/// What a server is called now that was called so.
fn current(name: &ServerName, names: &HashMap<ServerName, ServerName>) -> ServerName {
    names.get(name).unwrap_or(name).clone()
}

/// Times by the names that servers have now.
fn by_new_names<'t>(fresh: &'t [Times], names: &HashMap<ServerName, ServerName>) -> Cow<'t, [Times]> {
    if names.is_empty() {
        return Cow::Borrowed(fresh);
    }
    let renamed = |times: &Times| Times { server: current(&times.server, names), ..times.clone() };
    Cow::Owned(fresh.iter().map(renamed).collect())
}

impl Comparison {
    /// What is known of servers by their old names is known by their new ones.
    fn rename(&mut self, names: &HashMap<ServerName, ServerName>) {
        for (before, name) in names {
            self.speeds.rename(before, name);
            self.works.rename(before, name);
        }
    }

    /// Takes in what was measured in the `elapsed` time up to `now`, with the reader sessions that there are
    /// now, and says which speeds changed.
    fn update(
        &mut self,
        fresh: &[Times],
        peers: &[Peer],
        sessions: &[Sessions],
        switches: Switches,
        elapsed: Duration,
        now: Instant,
    ) -> Vec<Change> {
        let changes = self.speeds.update(fresh, peers, switches, elapsed, now);
        if switches.work {
            self.works.update(&done(sessions, fresh, &self.speeds.typical_ns()), elapsed);
        } else {
            self.works = Works::default();
        }
        changes
    }
}

/// What the sessions of each server did; `typical_ns` is what a digest takes wherever it is sent. One that is
/// not in it counts as what it took here.
fn done(sessions: &[Sessions], fresh: &[Times], typical_ns: &HashMap<u32, f64>) -> Vec<Done> {
    let mut by_server: HashMap<&ServerName, Vec<&Times>> = HashMap::new();
    for times in fresh {
        by_server.entry(&times.server).or_default().push(times);
    }
    let done = |Sessions { server, readers, readable }: &Sessions| {
        let (server, sessions, readable) = (server.clone(), *readers, *readable);
        let mut done = Done { server, sessions, readable, statements: 0.0, work: 0.0, busy_s: 0.0 };
        for times in by_server.get(&done.server).into_iter().flatten() {
            done.statements += times.count;
            done.work += times.of_all * typical_ns.get(&times.digest).copied().unwrap_or(times.mean_ns());
            // What is long keeps a session busy however seldom it comes.
            done.busy_s += times.of_all / times.count * times.sum_ns / 1e9;
        }
        done
    };
    sessions.iter().map(done).collect()
}

impl RoutingState {
    /// What our own reader sessions are on each candidate, in average ones.
    pub(crate) fn readers(&self) -> Vec<u32> {
        self.loads().into_iter().map(|load| load.round() as u32).collect()
    }

    fn loads(&self) -> Vec<f64> {
        let sessions: Vec<u32> = self.counters.iter().map(|t| t.sessions(ListenerRole::Reader)).collect();
        work::loads(&sessions, &self.per_session)
    }
}

/// A server whose speed may be compared: the primary has other work as well.
fn peer(server: &Server) -> Option<Peer> {
    let fits = server.role == Role::Replica && server.state == State::Answering && server.reserved.is_none();
    let Server { name, round_trip, question_time, version, .. } = server;
    fits.then(|| Peer {
        round_trip: *round_trip,
        question: *question_time,
        dialect: version.as_deref().map(dialect),
        ..Peer::new(name.clone())
    })
}

/// Flavour and release series of a version as people write it: `MySQL 8.4` of `MySQL 8.4.3`, and
/// `MySQL 8.0 (Aurora)` of `MySQL 8.0.0 (Aurora 3.04.0)`.
fn dialect(version: &str) -> String {
    let (version, aurora) = match version.split_once(" (Aurora") {
        Some((version, _)) => (version, " (Aurora)"),
        None => (version, ""),
    };
    let series = version.rsplit_once('.').map_or(version, |(series, _)| series);
    format!("{series}{aurora}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_counters::ServerSlot;

    #[test]
    fn sessions_that_were_logging_in_when_the_others_were_cut_are_cut_as_well() {
        let (start, name) = (Instant::now(), ServerName::new("r0"));
        let server = Server::unasked(name.clone(), "r0:3306".parse().unwrap());
        let snapshot = Snapshot { servers: vec![server], ..Snapshot::empty(start) };
        let shared = SharedState::new(RouterConfig::default(), Arc::new(snapshot), 1, Box::new(|_, _| {}));
        shared.drain(&name, start);
        let due = || shared.overdue_drains(start);
        assert_eq!((due(), due()), (vec![name.clone()], vec![]), "once, where nobody is left");
        let late = ServerSlot::take(shared.routing().counters[0].clone(), ListenerRole::Reader, 0);
        assert_eq!((due(), due()), (vec![name.clone()], vec![name.clone()]));
        drop(late);
        assert!(due().is_empty());
    }

    #[test]
    fn a_question_has_the_age_of_its_own_answer() {
        let mut server = Server::unasked(ServerName::new("r0"), "r0:3306".parse().unwrap());
        (server.role, server.state) = (Role::Replica, State::Answering);
        let asked = Instant::now();
        server.question_time = Some((Duration::from_millis(2), asked));
        server.answered_at = Some(asked + Duration::from_secs(60));
        assert_eq!(peer(&server).unwrap().question, server.question_time);
    }

    #[test]
    fn servers_of_one_flavour_and_series_are_asked_the_same() {
        for (version, is) in [
            ("MariaDB 10.11.19", "MariaDB 10.11"),
            ("MySQL 8.4.3", "MySQL 8.4"),
            ("MySQL 8.0.0 (Aurora 3.04.0)", "MySQL 8.0 (Aurora)"),
        ] {
            assert_eq!(dialect(version), is);
        }
    }

    #[test]
    fn a_server_is_as_slow_under_its_new_name() {
        let server = |name: &str, address: &str| {
            let server = Server::unasked(ServerName::new(name), address.parse().unwrap());
            Server { role: Role::Replica, state: State::Answering, ..server }
        };
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let snapshot = |name: &str| Snapshot {
            servers: vec![server(name, "r0:3306"), server("r1", "r1:3306")],
            ..Snapshot::empty(start)
        };
        let capacity = Switches { speed: true, work: true, heat: true };
        let config = RouterConfig { capacity, ..RouterConfig::default() };
        let shared = SharedState::new(config, Arc::new(snapshot("r0")), 1, Box::new(|_, _| {}));
        // Of sessions that began under the old name.
        let times = |name: &str, ms: f64| Times {
            server: ServerName::new(name),
            digest: 1,
            count: 50.0,
            of_all: 50.0,
            log_sum: 50.0 * (ms * 1e6).ln(),
            sum_ns: 50.0 * ms * 1e6,
        };
        let fresh = [times("r0", 4.0), times("r1", 1.0)];
        let compare = |seconds: std::ops::Range<u32>| {
            seconds.for_each(|at| shared.compare(&fresh, &HashMap::new(), second, start + second * at));
        };
        let factor = |name: &str| shared.inputs().speeds.get(&ServerName::new(name)).map(|s| s.factor);
        compare(0..60);
        let slow = factor("r0").unwrap();
        assert!(slow < 0.35, "{slow}");
        shared.renew(Some(Arc::new(snapshot("new"))));
        assert_eq!((factor("r0"), factor("new")), (None, Some(slow)));
        compare(60..90);
        let still = factor("new").unwrap();
        assert!(factor("r0").is_none() && still < 0.35, "{still}");
        let comparison = shared.comparison.lock().unwrap();
        assert!(comparison.speeds.of(&ServerName::new("new")).times.is_some_and(|times| times > 3.0));
    }

    #[test]
    fn a_comparison_of_many_digests_takes_a_moment() {
        let servers: Vec<ServerName> = (0..8).map(|at| ServerName::new(&format!("r{at}"))).collect();
        let times = |server: &ServerName, digest| Times {
            server: server.clone(),
            digest,
            count: 10.0,
            of_all: 10.0,
            log_sum: 10.0 * 1e6f64.ln(),
            sum_ns: 10.0 * 1e6,
        };
        let fresh: Vec<Times> =
            servers.iter().flat_map(|name| (1..4000).map(move |digest| times(name, digest))).collect();
        let peers: Vec<Peer> = servers.iter().cloned().map(Peer::new).collect();
        let one = |name: &ServerName| Sessions { server: name.clone(), readers: 1, readable: 1.0 };
        let sessions: Vec<Sessions> = servers.iter().map(one).collect();
        let (mut comparison, switches) =
            (Comparison::default(), Switches { speed: true, work: true, heat: true });
        let now = Instant::now();
        for _ in 0..2 {
            comparison.update(&fresh, &peers, &sessions, switches, Duration::from_secs(1), now);
        }
        // With one walk over all of them for each it is a thousand times as long.
        assert!(now.elapsed() < Duration::from_secs(10), "{:?}", now.elapsed());
    }

    #[test]
    fn statements_count_for_what_they_take_also_where_speeds_are_not_used() {
        let switches = config::Capacity { speed: false, work: true, heat: true };
        let r0 = ServerName::new("r0");
        let times = |digest, ns: f64| Times {
            server: r0.clone(),
            digest,
            count: 10.0,
            of_all: 10.0,
            log_sum: 10.0 * ns.ln(),
            sum_ns: 10.0 * ns,
        };
        let (mut speeds, now) = (Speeds::default(), Instant::now());
        let peers = [Peer::new(r0.clone())];
        let work = |fresh: &[Times], speeds: &Speeds| {
            done(&[Sessions { server: r0.clone(), readers: 1, readable: 1.0 }], fresh, &speeds.typical_ns())
                [0]
            .work
        };
        let (cheap, dear) = (times(1, 1e6), times(2, 1e9));
        for _ in 0..2 {
            speeds.update(&[cheap.clone(), dear.clone()], &peers, switches, Duration::from_secs(1), now);
        }
        assert!(work(std::slice::from_ref(&dear), &speeds) > 900.0 * work(&[cheap], &speeds));
        let unknown = times(3, 1e9);
        assert!(work(&[unknown], &speeds) > 9e9, "one that is not known counts as what it took");
        let sampled = Times { of_all: 160.0, ..times(3, 1e9) };
        let one = [Sessions { server: r0.clone(), readers: 16, readable: 16.0 }];
        let done = done(&one, &[sampled], &speeds.typical_ns());
        assert!(done[0].statements == 10.0 && done[0].work > 159e9, "all their work, of ten: {done:?}");
        let off = config::Capacity { work: false, ..switches };
        speeds.update(&[dear], &peers, off, Duration::from_secs(1), now);
        assert!(speeds.typical_ns().is_empty(), "nothing is kept that nobody uses");
    }
}
