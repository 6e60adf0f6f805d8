//! The router: threads of the data plane, listeners and the rebalancer; started, changed and stopped.

use crate::accept;
use crate::closed::Closed;
use crate::collect::{self, Insight};
use crate::error::Error;
use crate::fault::Fault;
use crate::health::Health;
use crate::listener::Listener;
use crate::path::{self, Path};
use crate::rebalancer;
use crate::record::{Recording, RecordingRequest};
use crate::reserve::most_sessions;
use crate::shared_state::{Drain, Report, SharedState};
use crate::sockets::{OpenedBy, PausedSocket, Sockets};
use crate::status::{self, Status};
use crate::supervise;
use crate::tls::{FromClients, ServerKey, ToServers};
use crate::worker::{self, Message, Ready, RebalanceCommand, WorkerHandle};
use crate::zero_hop::{self, ZeroHop};
use config::{Listener as ListenerConfig, RouterConfig};
use fleet::{Address, ServerName, Snapshot};
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, LocalSet};

/// How often a stop looks whether the last session has left.
const STOP_LOOK: Duration = Duration::from_millis(20);
/// How long cut sessions have to end.
const AFTER_CUT: Duration = Duration::from_millis(500);

/// The data plane. Stops (cutting its sessions) when dropped; use [`Router::stop`] to end in peace.
pub struct Router {
    shared: Arc<SharedState>,
    workers: Arc<[WorkerHandle]>,
    path: Path,
    /// What the limit of file descriptors leaves room for.
    most_sessions: Option<usize>,
    stopping: Arc<AtomicBool>,
    insight: Insight,
    parts: Mutex<Parts>,
    /// The listeners that are open, for zero-hop; it ends when this is dropped.
    open_listeners: watch::Sender<Vec<Arc<Listener>>>,
    zero_hop: OnceLock<ZeroHop>,
    /// The process that this one takes over from has not left.
    waits: Arc<AtomicBool>,
}

/// What reload and stop change.
struct Parts {
    listeners: Vec<Arc<Listener>>,
    /// To the thread that accepts; it ends when this is dropped.
    open: Option<mpsc::UnboundedSender<(Arc<Listener>, OwnedFd)>>,
    threads: Vec<JoinHandle<()>>,
}

/// What a reload changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Listeners opened.
    pub opened: Vec<Address>,
    /// Listeners closed; their sessions stay until they end by themselves.
    pub closed: Vec<Address>,
    /// Listeners that changed role or limit, for new sessions.
    pub changed: Vec<Address>,
    /// Listeners whose certificate, or authority, is another one in the same file.
    pub renewed: Vec<Address>,
    /// Whether the authority or certificate of TLS to the servers was renewed.
    pub server_tls_renewed: bool,
    /// Whether anything of `[router]` changed.
    pub router: bool,
    /// Things that only take effect at the next start, in words.
    pub at_next_start: Vec<String>,
}

impl Router {
    /// Set while writes are held for a switchover and no writer session is left on its server.
    pub fn writes_drained(&self) -> Arc<AtomicBool> {
        self.shared.writes_drained.clone()
    }

    /// Opens the listeners and starts the threads. `suspect` is called, from any thread, when a server failed
    /// a session. Works inside a tokio runtime and outside of one.
    ///
    /// # Errors
    /// When a listener cannot be opened or a thread not be started; then nothing is left open.
    pub fn start(
        config: RouterConfig,
        listeners: Vec<ListenerConfig>,
        snapshots: watch::Receiver<Arc<Snapshot>>,
        suspect: impl Fn(&ServerName, &str) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        Self::start_on(config, listeners, &mut Sockets::default(), snapshots, suspect)
    }

    /// The same, with listening sockets that are open already; those of no listener are left in `sockets`.
    ///
    /// # Errors
    /// As [`Router::start`].
    pub fn start_on(
        config: RouterConfig,
        listeners: Vec<ListenerConfig>,
        sockets: &mut Sockets,
        snapshots: watch::Receiver<Arc<Snapshot>>,
        suspect: impl Fn(&ServerName, &str) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        unique(&listeners)?;
        let (to_servers, server_key) = (ToServers::load(&config.tls)?, ServerKey::load(&config.tls)?);
        let waits = Arc::new(AtomicBool::new(sockets.opened_by() == OpenedBy::Predecessor));
        let opened = open_all(listeners, sockets, &[])?;
        let threads = config.threads.unwrap_or_else(|| path::threads(cores())).max(1);
        let data_path = config.data_path;
        let report: Report = Box::new(suspect);
        let snapshot = snapshots.borrow().clone();
        let shared = Arc::new(SharedState::new(config, snapshot, threads, report));
        begin_tls(&shared, to_servers, server_key);
        let mut path = Path::new(data_path);
        let (first, ready) = ready_worker(&shared, 0, &mut path)?;
        let (mut handles, mut joins) = (vec![first], Vec::new());
        for thread in 1..threads {
            let (handle, ready) = ready_worker(&shared, thread, &mut path)?;
            handles.push(handle);
            joins.push(ready.start().map_err(Error::Thread)?);
        }
        let workers: Arc<[WorkerHandle]> = handles.into();
        let stopping = Arc::new(AtomicBool::new(false));
        let (open, inbox) = mpsc::unbounded_channel();
        let most_sessions = most_sessions(workers.len());
        let rebalancer = rebalancer::keep(shared.clone(), snapshots, workers.clone(), stopping.clone());
        let health = shared.health.clone();
        joins.push(start_accepting(ready, rebalancer, workers.clone(), most_sessions, inbox, health)?);
        supervise::start(shared.health.clone(), &workers).map_err(Error::Thread)?;
        let mut listeners = Vec::new();
        for (listener, fd) in opened {
            listeners.push(listener.clone());
            open.send((listener, fd)).map_err(|_| Error::Stopped)?;
        }
        let open_listeners = watch::Sender::new(listeners.clone());
        let parts = Mutex::new(Parts { listeners, open: Some(open), threads: joins });
        let insight = collect::start(shared.clone(), &workers).map_err(Error::Thread)?;
        let zero_hop = OnceLock::new();
        Ok(Self {
            shared,
            workers,
            path,
            most_sessions,
            stopping,
            insight,
            parts,
            open_listeners,
            zero_hop,
            waits,
        })
    }

    /// Lets connections bypass this process where the configuration wants it and the kernel allows it, from
    /// now on (or from [`Router::predecessor_left`] on) and through reloads. `prober` logs in to servers that
    /// the kernel found suspect.
    ///
    /// # Errors
    /// Where the configuration requires it and it is not available.
    pub fn start_zero_hop(
        &self,
        identity: zero_hop::Identity,
        prober: Arc<dyn zero_hop::LoginProber>,
    ) -> Result<(), Error> {
        let (shared, listeners) = (self.shared.clone(), self.open_listeners.subscribe());
        let (zero_hop, thread) = ZeroHop::start(shared, listeners, identity, prober, self.waits.clone())?;
        self.parts().threads.push(thread);
        let _ = self.zero_hop.set(zero_hop);
        Ok(())
    }

    /// Changes what differs and nothing else. Sessions stay, those of closed listeners too.
    ///
    /// # Errors
    /// When a new listener cannot be opened; then nothing has changed.
    pub fn reconfigure(
        &self,
        config: RouterConfig,
        listeners: Vec<ListenerConfig>,
    ) -> Result<Changes, Error> {
        let mut parts = self.parts();
        if self.stopping.load(Relaxed) {
            return Err(Error::Stopped);
        }
        let sender = parts.open.clone().ok_or(Error::Stopped)?;
        unique(&listeners)?;
        let known = |address: &Address| parts.listeners.iter().any(|l| l.address == *address);
        let (kept, added): (Vec<_>, Vec<_>) = listeners.into_iter().partition(|l| known(&l.address));
        // Everything that can fail comes before anything that changes. Files are read again: certificates are
        // renewed.
        let (to_servers, server_key) = (ToServers::load(&config.tls)?, ServerKey::load(&config.tls)?);
        let mut from_clients = Vec::new();
        for listener in &kept {
            from_clients.push(FromClients::load(&listener.tls)?);
        }
        let closes = |l: &&Arc<Listener>| kept.iter().all(|kept| kept.address != l.address);
        let closing: Vec<_> = parts.listeners.iter().filter(closes).cloned().collect();
        let opened = open_all(added, &mut Sockets::default(), &closing)?;
        let mut changes = Changes::default();
        let mut kept: Vec<_> = kept.iter().zip(from_clients).collect();
        parts.listeners.retain(|listener| {
            match kept.iter_mut().find(|(l, _)| l.address == listener.address) {
                Some((config, tls)) => {
                    let change = listener.change(config, tls.take());
                    if change.configuration {
                        changes.changed.push(listener.address.clone());
                    }
                    if change.certificate {
                        changes.renewed.push(listener.address.clone());
                    }
                    true
                }
                None => {
                    listener.close();
                    changes.closed.push(listener.address.clone());
                    false
                }
            }
        });
        for (listener, fd) in opened {
            changes.opened.push(listener.address.clone());
            parts.listeners.push(listener.clone());
            sender.send((listener, fd)).map_err(|_| Error::Stopped)?;
        }
        self.open_listeners.send_replace(parts.listeners.clone());
        changes.server_tls_renewed = begin_tls(&self.shared, to_servers, server_key);
        let before = self.shared.routing().view.config.clone();
        changes.at_next_start = at_next_start(&before, &config);
        changes.router = *before != config;
        if changes.router {
            self.shared.reconfigure(config);
        }
        Ok(changes)
    }

    /// Empties a server: no new sessions, those it has are closed when idle, and after `deadline` (the
    /// configured drain deadline when `None`) what is left is cut. Lasts until [`Router::undrain`]. Returns
    /// whether the server is known.
    pub fn drain(&self, server: &ServerName, deadline: Option<Duration>) -> bool {
        let view = self.shared.routing();
        let deadline = deadline.unwrap_or(view.view.config.rebalance.drain_deadline);
        if view.view.index(server).is_none() {
            return false;
        }
        tracing::info!(%server, deadline_s = deadline.as_secs_f64(), "draining server");
        self.shared.drain(server, Instant::now() + deadline);
        true
    }

    /// Goes on with the drains that were ordered of a process before this one, each with the time left to its
    /// deadline, and ends all others. Their servers need not be known yet.
    pub fn continue_drains(&self, drains: &[(ServerName, Duration)]) {
        for server in self.shared.drains().into_keys().filter(|s| drains.iter().all(|(name, _)| name != s)) {
            self.shared.undrain(&server);
        }
        for (server, left) in drains {
            self.shared.drain(server, Instant::now() + *left);
        }
    }

    /// The servers being drained, each with the time left to its deadline.
    pub fn drains(&self) -> Vec<(ServerName, Duration)> {
        let now = Instant::now();
        let left = |drain: &Drain| drain.deadline.saturating_duration_since(now);
        self.shared.drains().into_iter().map(|(server, drain)| (server, left(&drain))).collect()
    }

    /// Takes a drained server into service again; `false` when it was not being drained.
    pub fn undrain(&self, server: &ServerName) -> bool {
        self.shared.undrain(server)
    }

    /// What an operator may want to know now.
    pub fn status(&self) -> Status {
        let threads = self.workers.iter().map(WorkerHandle::sessions).collect();
        let zero_hop = self.zero_hop.get();
        let status = status::status(&self.shared, &self.parts().listeners, threads, &self.path, zero_hop);
        Status { most_sessions: self.most_sessions, ..status }
    }

    /// How many sessions of all listeners the limit of file descriptors leaves room for; `None` where there
    /// is no limit.
    pub fn most_sessions(&self) -> Option<usize> {
        self.most_sessions
    }

    /// What the statements that passed through tell.
    pub fn insight(&self) -> Insight {
        self.insight.clone()
    }

    /// Records what clients send through here, until the time is over or the recording is dropped. While it
    /// goes on new connections do not bypass this process.
    ///
    /// # Errors
    /// When a recording is under way.
    pub fn record(&self, wanted: RecordingRequest) -> Result<Recording, Error> {
        self.shared.recorder.start(wanted)
    }

    /// Counts the times that every thread and ring has shown that it lives, four a second; stands still when
    /// one of them does.
    pub fn rounds(&self) -> watch::Receiver<u64> {
        self.shared.health.rounds()
    }

    /// Why this process had better end, as soon as there is a reason: a thread has ended or stands still for
    /// good, and its sessions hang.
    pub fn failure(&self) -> watch::Receiver<Option<String>> {
        self.shared.health.failure()
    }

    /// What is wrong with our own threads and tasks now, in words; empty when nothing is.
    pub fn troubles(&self) -> Vec<String> {
        self.shared.health.troubles()
    }

    /// Makes a fault. For tests.
    #[doc(hidden)]
    pub fn inject(&self, fault: Fault) {
        match fault {
            Fault::ThreadPanics(at)
            | Fault::ThreadStalls(at, _)
            | Fault::ThreadEnds(at)
            | Fault::Ring(at, _) => {
                if let Some(worker) = self.workers.get(at) {
                    let _ = worker.send(Message::Fault(fault));
                }
            }
            Fault::ListenerPanics(at) => {
                if let Some(listener) = self.parts().listeners.get(at) {
                    listener.fail();
                }
            }
            Fault::RebalancerPanics => self.shared.rebalancer_fails.store(true, Relaxed),
            Fault::InsightPanics => self.shared.insight_fails.store(true, Relaxed),
        }
    }

    /// Sessions now, those that wait for a server included.
    pub fn sessions(&self) -> usize {
        self.workers.iter().map(WorkerHandle::sessions).sum()
    }

    /// The listening sockets once more, for a process that takes over.
    pub fn listening(&self) -> Vec<OwnedFd> {
        self.parts().listeners.iter().filter_map(|listener| listener.socket()).collect()
    }

    /// The process that this one takes over from has left: what it had is ours from now on, but for the files
    /// of unix sockets that are `lent`, by [`Router::lent_files`] of it. Zero-hop begins.
    pub fn predecessor_left(&self, lent: &[PathBuf]) {
        self.waits.store(false, Relaxed);
        self.parts().listeners.iter().for_each(|listener| listener.predecessor_left(lent));
    }

    /// The files of unix sockets that systemd opened: whoever takes over leaves them alone, too.
    pub fn lent_files(&self) -> Vec<PathBuf> {
        self.parts().listeners.iter().filter_map(|listener| listener.lent_file().cloned()).collect()
    }

    /// Another process listens on our sockets from now on: accepts nobody, and leaves what stands in the file
    /// system. Sessions stay; end them with [`Router::empty`] or [`Router::stop`].
    pub fn hand_over(&self) {
        if let Some(zero_hop) = self.zero_hop.get() {
            zero_hop.hand_over();
        }
        self.parts().listeners.iter().for_each(|listener| listener.hand_over());
    }

    /// Ends in peace: [`Router::empty`], then its threads end. Returns how many sessions were cut.
    pub async fn stop(self, deadline: Duration) -> usize {
        let cut = self.empty(deadline).await;
        let threads = std::mem::take(&mut self.parts().threads);
        drop(self);
        let joined = tokio::task::spawn_blocking(|| threads.into_iter().for_each(|t| drop(t.join())));
        let _ = joined.await;
        cut
    }

    /// Accepts nobody any more, closes idle sessions outside transactions, waits for the others until
    /// `deadline`, then cuts what is left and says so in the log. Returns how many were cut.
    /// [`Router::status`] goes on telling.
    pub async fn empty(&self, deadline: Duration) -> usize {
        if !self.stopping.swap(true, Relaxed) {
            // From here on the kernel leaves out what would have come to a listener.
            if let Some(zero_hop) = self.zero_hop.get() {
                zero_hop.leave();
            }
            self.parts().listeners.iter().for_each(|listener| listener.close());
        }
        let until = Instant::now() + deadline;
        while self.sessions() > 0 && Instant::now() < until {
            tokio::time::sleep(STOP_LOOK).await;
        }
        let cut = self.sessions();
        self.workers.iter().for_each(|w| {
            let _ = w.send(Message::Rebalance(RebalanceCommand::CutAll(Closed::StopDeadline)));
        });
        let until = Instant::now() + AFTER_CUT;
        while self.sessions() > 0 && Instant::now() < until {
            tokio::time::sleep(STOP_LOOK).await;
        }
        cut
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // The accepting thread ends with its channel; with it go the last handles of the other threads.
        let mut parts = self.parts();
        parts.open = None;
        // Closed once only: whoever comes after us may have a unix socket of the same name by now.
        if !self.stopping.load(Relaxed) {
            parts.listeners.drain(..).for_each(|listener| listener.close());
        }
    }
}

/// Opens all of these or none. Those of `closing` that are in their way listen no more then.
fn open_all(
    listeners: Vec<ListenerConfig>,
    sockets: &mut Sockets,
    closing: &[Arc<Listener>],
) -> Result<Vec<(Arc<Listener>, OwnedFd)>, Error> {
    // Dropped last: they cannot listen again while those that were opened do.
    let mut paused = Vec::new();
    let mut opened: Vec<(Arc<Listener>, OwnedFd)> = Vec::new();
    for listener in listeners {
        let made = match Listener::open(&listener, sockets) {
            Err(Error::Listen { source, .. })
                if source.kind() == io::ErrorKind::AddrInUse && make_way(&listener, closing, &mut paused) =>
            {
                Listener::open(&listener, sockets)
            }
            made => made,
        };
        match made.map_err(|error| in_the_way(error, &listener, sockets)) {
            Ok(pair) => opened.push(pair),
            Err(error) => {
                // Takes the socket files that were made away again.
                opened.iter().for_each(|(listener, _)| listener.close());
                return Err(error);
            }
        }
    }
    paused.into_iter().for_each(PausedSocket::replaced);
    Ok(opened)
}

/// Says which of the sockets that were given to us is in the way, if one is. It is not paused, as one of our
/// own is: who has it would not listen again if this process failed later.
fn in_the_way(error: Error, wanted: &ListenerConfig, sockets: &Sockets) -> Error {
    let Error::Listen { address, source } = error else { return error };
    let overlaps = |held: &&Address| {
        config::listeners_clash(wanted, &ListenerConfig::new((*held).clone(), wanted.role)).is_some()
    };
    match sockets.addresses().find(overlaps) {
        Some(held) if source.kind() == io::ErrorKind::AddrInUse => {
            Error::InTheWay { address, held: held.clone(), opened_by: sockets.opened_by() }
        }
        _ => Error::Listen { address, source },
    }
}

/// Pauses what is about to close and overlaps with `wanted`, as 127.0.0.1:3306 does with 0.0.0.0:3306;
/// `false` when there is none.
fn make_way(wanted: &ListenerConfig, closing: &[Arc<Listener>], paused: &mut Vec<PausedSocket>) -> bool {
    let overlaps = |listener: &&Arc<Listener>| config::listeners_clash(wanted, &listener.config()).is_some();
    let sockets = closing.iter().filter(overlaps).filter_map(|listener| listener.socket());
    let before = paused.len();
    // One that does not listen is not in the way.
    paused.extend(sockets.filter_map(|socket| PausedSocket::new(socket).ok()));
    paused.len() > before
}

/// What differs and cannot be changed while it runs, in words.
fn at_next_start(before: &RouterConfig, now: &RouterConfig) -> Vec<String> {
    let differs = [
        (before.threads != now.threads, "threads: the number of threads changes at the next start"),
        (before.insight != now.insight, "[router.insight] takes effect at the next start"),
        (before.data_path != now.data_path, "data_path: the data path changes at the next start"),
        (before.epoch_file != now.epoch_file, "epoch_file takes effect at the next start"),
    ];
    differs.into_iter().filter(|(differs, _)| *differs).map(|(_, words)| words.to_owned()).collect()
}

fn unique(listeners: &[ListenerConfig]) -> Result<(), Error> {
    let mut seen = HashSet::new();
    let any_port = |a: &Address| matches!(a, Address::Tcp { port: 0, .. });
    match listeners.iter().find(|l| !any_port(&l.address) && !seen.insert(&l.address)) {
        Some(twice) => Err(Error::Twice { address: twice.address.clone() }),
        None => Ok(()),
    }
}

/// From now on TLS to the servers is begun this way. Where it is, clients without it are given a key of ours
/// for their passwords; making that takes a while. Returns whether its files were renewed.
fn begin_tls(shared: &Arc<SharedState>, to_servers: Option<ToServers>, server_key: ServerKey) -> bool {
    if to_servers.is_some() {
        let shared = shared.clone();
        // A thread that is not available now is one the first such client pays for.
        let _ = std::thread::Builder::new().spawn(move || shared.server_tls.keys.prepare());
    }
    shared.server_tls.change(to_servers, server_key)
}

/// Makes a worker ready on the path in force, or on the next best if that is allowed and this one is not
/// available.
fn ready_worker(
    shared: &Arc<SharedState>,
    thread: usize,
    path: &mut Path,
) -> Result<(WorkerHandle, Ready), Error> {
    match worker::ready(shared.clone(), thread, path.is_ring()) {
        Ok(ready) => Ok(ready),
        Err(unavailable) => {
            path.fall_back(unavailable)?;
            ready_worker(shared, thread, path)
        }
    }
}

/// The first thread: accepts for all listeners, runs the rebalancer, and is a worker like the others. A
/// thread of its own for accepting would cost each new session a wake-up more.
fn start_accepting(
    ready: Ready,
    rebalancer: impl Future<Output = ()> + Send + 'static,
    workers: Arc<[WorkerHandle]>,
    most_sessions: Option<usize>,
    mut inbox: mpsc::UnboundedReceiver<(Arc<Listener>, OwnedFd)>,
    health: Arc<Health>,
) -> Result<JoinHandle<()>, Error> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Thread)?;
    let serve = async move {
        let worker = tokio::task::spawn_local(ready.serve());
        let mut tasks = JoinSet::new();
        tasks.spawn(rebalancer);
        loop {
            tokio::select! {
                opened = inbox.recv() => match opened {
                    Some((listener, fd)) => {
                        tasks.spawn(accept::keep(listener, fd, workers.clone(), most_sessions, health.clone()));
                    }
                    None => break,
                },
                // Closed listeners end. Whatever else ends here cannot be started again.
                Some(Err(error)) = tasks.join_next() => health.fail(format!("a task has ended: {error}")),
            }
        }
        // With these go their handles, and with the last handle the worker.
        drop((tasks, workers));
        let _ = worker.await;
    };
    let run = move || {
        LocalSet::new().block_on(&runtime, serve);
        runtime.shutdown_background();
    };
    std::thread::Builder::new().name("headroom-0".to_owned()).spawn(run).map_err(Error::Thread)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::ListenerRole;
    use std::net::TcpListener;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn reader(address: Address) -> ListenerConfig {
        ListenerConfig::new(address, ListenerRole::Reader)
    }

    #[test]
    fn a_process_that_fails_to_take_over_leaves_the_socket_files_of_the_one_before() {
        let base = tempfile::tempdir().unwrap();
        let (theirs, ours) = (base.path().join("theirs.sock"), base.path().join("ours.sock"));
        let running = UnixListener::bind(&theirs).unwrap();
        let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = occupied.local_addr().unwrap().port();
        let given = vec![OwnedFd::from(running.try_clone().unwrap())];
        let mut sockets = Sockets::new(given, OpenedBy::Predecessor).unwrap();
        let wanted =
            [Address::Unix(theirs.clone()), Address::Unix(ours.clone()), Address::tcp("127.0.0.1", port)];
        let failed = open_all(wanted.into_iter().map(reader).collect(), &mut sockets, &[]);
        assert!(matches!(failed, Err(Error::Listen { .. })), "{failed:?}");
        UnixStream::connect(&theirs).expect("the process before goes on");
        assert!(!ours.exists(), "what was made for nothing is taken away again");
    }

    #[test]
    fn a_reload_says_what_takes_effect_at_the_next_start() {
        let before = RouterConfig::default();
        let now = RouterConfig {
            threads: Some(7),
            epoch_file: Some("/var/lib/headroom/epoch".into()),
            zero_hop_cgroup: Some("/sys/fs/cgroup/app".into()),
            ..RouterConfig::default()
        };
        let said = at_next_start(&before, &now);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("threads") && said[1].starts_with("epoch_file"), "{said:?}");
        assert!(at_next_start(&now, &now).is_empty());
    }

    #[test]
    fn a_socket_that_was_given_to_us_and_is_in_the_way_is_named() {
        for (opened_by, advice) in
            [(OpenedBy::Predecessor, "reload it first"), (OpenedBy::Systemd, "socket unit")]
        {
            let running = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = running.local_addr().unwrap().port();
            let mut sockets = Sockets::new(vec![running.into()], opened_by).unwrap();
            let failed = open_all(vec![reader(Address::tcp("0.0.0.0", port))], &mut sockets, &[]);
            let words = failed.err().unwrap().to_string();
            let expected = format!("cannot listen on 0.0.0.0:{port} beside 127.0.0.1:{port}; ");
            assert!(words.starts_with(&expected) && words.contains(advice), "{words}");
        }
    }
}
