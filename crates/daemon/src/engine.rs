//! The watcher, which asks the servers, and the router, which relays clients: started, changed and stopped
//! together.

use crate::error::EngineError;
use crate::recorder::Missing;
use crate::router_view;
use anyhow::Context;
use config::Config;
use console::control::take_over::{DrainOrder, Orders};
use console::status_view::StatusView;
use console::{PendingReport, fleet_view};
use fleet::{ServerName, Snapshot, State};
use insight::Since;
use observe::Watcher;
use router::zero_hop::{Identity, LoginProber, LoginResult};
use router::{Recording, RecordingRequest, Router, Sockets};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Discovery counts as done when it has brought no new server for this long.
const NOBODY_NEW: Duration = Duration::from_millis(1200);

/// A drain's deadline is no later than this.
const LONGEST_DRAIN: Duration = Duration::from_secs(10 * 365 * 86_400);

/// A running data plane and its eyes.
pub struct Engine {
    /// Taken out when it has stopped. Locked for moments, never over an await.
    running: Mutex<Option<Running>>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
}

struct Running {
    watcher: Watcher,
    /// Shared with nobody but [`Engine::empty`], which waits for it without the lock.
    router: Arc<Router>,
}

impl Engine {
    /// Starts both. Credentials are resolved already; `identity` is what this router's zero-hop is known by.
    ///
    /// # Errors
    /// A listener's address cannot be bound; nothing runs then.
    pub async fn start(config: &Config, identity: Identity, sockets: &mut Sockets) -> anyhow::Result<Self> {
        let watcher = Watcher::start_remembering(config.fleet.clone(), config.router.epoch_file.clone());
        let snapshots = watcher.snapshots();
        let suspicion = watcher.suspicion();
        let suspect = move |server: &ServerName, why: &str| suspicion.suspect(server, why);
        let (router, listeners) = (config.router.clone(), config.listeners.clone());
        let started = Router::start_on(router, listeners, sockets, snapshots.clone(), suspect);
        let logins = watcher.login_probe();
        let started = started.and_then(|router| {
            router.start_zero_hop(identity, Arc::new(Prober(logins)))?;
            Ok(router)
        });
        match started {
            Ok(router) => {
                watcher.confirm_hold_with(router.writes_drained());
                let running = Running { watcher, router: Arc::new(router) };
                Ok(Self { running: Mutex::new(Some(running)), snapshots })
            }
            Err(error) => {
                watcher.stop().await;
                Err(error.into())
            }
        }
    }

    /// The first complete look at the fleet, or what there is after `limit`.
    pub async fn first_look(&self, limit: Duration) -> Arc<Snapshot> {
        let mut snapshots = self.snapshots.clone();
        let complete = async {
            let (mut known, mut since) = (0, Instant::now());
            // Complete: everybody was asked, and for a while that brought nobody new.
            while snapshots.changed().await.is_ok() {
                let snapshot = snapshots.borrow_and_update().clone();
                let asked = snapshot.servers.iter().all(|server| server.state != State::Unasked);
                if snapshot.servers.len() != known || !asked || snapshot.primary().is_none() {
                    (known, since) = (snapshot.servers.len(), Instant::now());
                } else if since.elapsed() > NOBODY_NEW {
                    break;
                }
            }
        };
        // Out of time: what there is must do.
        let _ = tokio::time::timeout(limit, complete).await;
        self.snapshots.borrow().clone()
    }

    /// Everything the admin address shows, but for what only the process knows.
    pub fn status(&self) -> StatusView {
        let snapshot = self.snapshots.borrow().clone();
        let status = self.running().as_ref().map(|running| running.router.status());
        match status {
            Some(status) => router_view::view(&snapshot, &status, Instant::now()),
            None => {
                StatusView { fleet: fleet_view::view(&snapshot, Instant::now()), ..StatusView::default() }
            }
        }
    }

    /// How many sessions the limit of file descriptors leaves room for.
    pub fn most_sessions(&self) -> Option<usize> {
        self.running().as_ref().and_then(|running| running.router.most_sessions())
    }

    /// Counts the times that every thread of the data plane has shown that it lives, and says why the process
    /// had better end, as soon as there is a reason; `None` when it has stopped.
    pub fn life(&self) -> Option<(watch::Receiver<u64>, watch::Receiver<Option<String>>)> {
        self.running().as_ref().map(|running| (running.router.rounds(), running.router.failure()))
    }

    /// What is wrong with the threads of the data plane now, in words.
    pub fn troubles(&self) -> Vec<String> {
        self.running().as_ref().map(|running| running.router.troubles()).unwrap_or_default()
    }

    /// Makes a fault, for the soak.
    pub fn inject(&self, fault: router::fault::Fault) {
        if let Some(running) = self.running().as_ref() {
            running.router.inject(fault);
        }
    }

    /// What statements tell since then; `None` when it has stopped.
    pub fn report(&self, since: Since) -> PendingReport {
        let insight = self.running().as_ref().map(|running| running.router.insight());
        Box::pin(async move { insight?.report(since).await })
    }

    /// Begins a recording, and says which sessions bypass this process and which do not.
    ///
    /// # Errors
    /// The router is stopping, or another recording is under way.
    pub fn record(&self, wanted: RecordingRequest) -> Result<(Recording, Missing), EngineError> {
        let running = self.running();
        let running = running.as_ref().ok_or(EngineError::Stopping)?;
        let recording = running.router.record(wanted).map_err(EngineError::Recording)?;
        let status = running.router.status();
        let bypassed = status.servers.iter().map(|server| u64::from(server.bypassed)).sum();
        let relayed = status.listeners.iter().map(|listener| listener.sessions as u64).sum();
        Ok((recording, Missing { bypassed, relayed }))
    }

    /// Takes over what changed. Listeners first, because they alone can fail.
    ///
    /// # Errors
    /// A new listener's address cannot be bound; nothing changed then.
    pub fn reconfigure(&self, config: &Config) -> anyhow::Result<Vec<String>> {
        let running = self.running();
        let running = running.as_ref().context("the router is stopping; nothing is changed any more")?;
        let changes = running.router.reconfigure(config.router.clone(), config.listeners.clone())?;
        running.watcher.reconfigure(config.fleet.clone());
        Ok(router_view::changes(&changes))
    }

    /// Empties a server by command.
    ///
    /// # Errors
    /// There is no such server, or the router is stopping.
    pub fn drain(&self, server: &str, deadline: Option<Duration>) -> Result<(), EngineError> {
        let name = self.known(server)?;
        let running = self.running();
        let running = running.as_ref().ok_or(EngineError::Stopping)?;
        let begun = running.router.drain(&name, deadline);
        begun.then_some(()).ok_or_else(|| EngineError::NotKnownYet { server: server.to_owned() })
    }

    /// Lets it take sessions again, also where it has left the fleet meanwhile.
    ///
    /// # Errors
    /// There is no such server, it was not being drained, or the router is stopping.
    pub fn undrain(&self, server: &str) -> Result<(), EngineError> {
        let ended = {
            let running = self.running();
            let running = running.as_ref().ok_or(EngineError::Stopping)?;
            running.router.undrain(&ServerName::new(server))
        };
        if ended {
            return Ok(());
        }
        self.known(server)?;
        Err(EngineError::NotDrained { server: server.to_owned() })
    }

    /// What commands have asked for, for a process that takes over.
    pub fn orders(&self) -> Orders {
        let of = |running: &Running| (running.router.drains(), running.router.lent_files());
        let (drains, lent) = self.running().as_ref().map(of).unwrap_or_default();
        let order = |(server, left): (ServerName, Duration)| DrainOrder {
            server: server.to_string(),
            left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        };
        Orders { drains: drains.into_iter().map(order).collect(), lent }
    }

    /// Goes on with what commands had asked of the process before this one.
    pub fn continue_orders(&self, orders: &Orders) {
        let drain = |order: &DrainOrder| {
            (ServerName::new(&order.server), Duration::from_millis(order.left_ms).min(LONGEST_DRAIN))
        };
        let drains: Vec<(ServerName, Duration)> = orders.drains.iter().map(drain).collect();
        if let Some(running) = self.running().as_ref() {
            running.router.continue_drains(&drains);
        }
    }

    /// The process that this one takes over from has left, with these orders.
    pub fn predecessor_left(&self, orders: &Orders) {
        if let Some(running) = self.running().as_ref() {
            running.router.predecessor_left(&orders.lent);
        }
    }

    /// The listening sockets once more.
    pub fn listening(&self) -> Vec<OwnedFd> {
        self.running().as_ref().map(|running| running.router.listening()).unwrap_or_default()
    }

    /// Another process accepts the clients from now on.
    pub fn hand_over(&self) {
        if let Some(running) = self.running().as_ref() {
            running.router.hand_over();
        }
    }

    /// Stops taking clients and lets sessions end for at most `deadline`. Returns how many sessions were cut.
    pub async fn empty(&self, deadline: Duration) -> usize {
        let Some(router) = self.running().as_ref().map(|running| running.router.clone()) else { return 0 };
        // Meanwhile the admin address goes on telling what is where.
        router.empty(deadline).await
    }

    /// Stops asking, and ends the threads; sessions that are left are cut. What was counted is not told any
    /// more.
    pub async fn stop(&self) {
        let Some(Running { watcher, router }) = self.running().take() else { return };
        if let Some(router) = Arc::into_inner(router) {
            router.stop(Duration::ZERO).await;
        }
        watcher.stop().await;
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, server: &str) -> Result<ServerName, EngineError> {
        let snapshot = self.snapshots.borrow();
        let found = snapshot.servers.iter().find(|known| known.name.as_str() == server);
        found.map(|known| known.name.clone()).ok_or_else(|| {
            let mut known: Vec<String> = snapshot.servers.iter().map(|s| s.name.to_string()).collect();
            known.sort_unstable();
            EngineError::UnknownServer { server: server.to_owned(), known }
        })
    }
}

/// Test logins, in the terms of the router.
struct Prober(observe::LoginProbe);

impl LoginProber for Prober {
    fn login(&self, server: &ServerName) -> LoginResult {
        let (logins, server) = (self.0.clone(), server.clone());
        Box::pin(async move { logins.log_in(&server).await.is_ok() })
    }
}
