//! What is read, by whom, and where it comes together: a task a server asks it (`server_task.rs`), one loop
//! reads this host, judges every window (`evaluator.rs`) and publishes a [`WatchView`] a second. Servers come
//! and go with the fleet's snapshot.

use crate::EVERY;
use crate::evaluator::Evaluator;
use crate::history::HistoryStore;
use config::FleetConfig;
use console::admin_client::AdminClient;
use console::objectives::Objectives;
use console::watch_view::WatchView;
use diagnose::verdict::{Ceilings, Timing};
use observe::Watcher;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How it is watched.
#[derive(Clone)]
pub struct MonitorOptions {
    /// Length of the windows that are judged.
    pub window: Duration,
    /// What this host can do at most.
    pub ceilings: Ceilings,
    /// How an application in front of the servers does, where somebody times it.
    pub application: Option<watch::Receiver<Option<Timing>>>,
    /// The router in front of the servers, where one is to be asked.
    pub router: Option<AdminClient>,
    /// What is promised of the servers.
    pub objectives: Objectives,
}

/// Everything that watches, until it is stopped.
pub struct Monitor {
    views: watch::Receiver<Arc<WatchView>>,
    history: HistoryStore,
    changes: mpsc::Sender<Reconfigure>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Who is asked, and against what it is judged.
#[derive(Clone)]
pub struct Reconfigure {
    /// The servers; `None` is this host alone.
    pub fleet: Option<FleetConfig>,
    /// The router in front of them.
    pub router: Option<AdminClient>,
    /// What this host can do at most.
    pub ceilings: Ceilings,
}

impl MonitorOptions {
    /// Against these ceilings.
    pub fn against(ceilings: Ceilings, window: Duration) -> Self {
        Self { window, ceilings, application: None, router: None, objectives: Objectives::default() }
    }

    /// And ask this router.
    pub fn asking(self, router: Option<AdminClient>) -> Self {
        Self { router, ..self }
    }

    /// And hold the servers to this.
    pub fn promising(self, objectives: Objectives) -> Self {
        Self { objectives, ..self }
    }
}

impl Monitor {
    /// Begins to watch this host and, if there is one, a fleet.
    pub fn start(fleet: Option<FleetConfig>, options: MonitorOptions) -> Self {
        let (publish, views) = watch::channel(Arc::new(WatchView::default()));
        let (stop, history) = (CancellationToken::new(), HistoryStore::new());
        let (changes, changed) = mpsc::channel(1);
        let channels = Channels { publish, changed };
        let task = tokio::spawn(observe_all(fleet, options, history.clone(), channels, stop.clone()));
        Self { views, history, changes, stop, task }
    }

    /// Says who is asked from now on, and against which ceilings; what was read stays. A monitor without a
    /// fleet begins to watch one, none forgets its own.
    pub fn changes(&self) -> mpsc::Sender<Reconfigure> {
        self.changes.clone()
    }

    /// What was read so far.
    pub(crate) fn history(&self) -> HistoryStore {
        self.history.clone()
    }

    /// What was last published, and changes of it.
    pub fn views(&self) -> watch::Receiver<Arc<WatchView>> {
        self.views.clone()
    }

    /// Ends every connection.
    pub async fn stop(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

/// How the loop is spoken with.
struct Channels {
    publish: watch::Sender<Arc<WatchView>>,
    changed: mpsc::Receiver<Reconfigure>,
}

async fn observe_all(
    fleet: Option<FleetConfig>,
    options: MonitorOptions,
    history: HistoryStore,
    mut channels: Channels,
    stop: CancellationToken,
) {
    let who = fleet.as_ref().map(|fleet| fleet.credentials.clone()).unwrap_or_default();
    let mut watcher = fleet.map(Watcher::start);
    let mut snapshots = watcher.as_ref().map(Watcher::snapshots);
    let (tell, mut events) = mpsc::channel(256);
    let mut evaluator = Evaluator::new(options, who, history, tell, stop.clone());
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(event) = events.recv() => evaluator.take(event),
            Some(Reconfigure { fleet, router, ceilings }) = channels.changed.recv() => {
                evaluator.ask_router(router);
                evaluator.judge_against(ceilings);
                if let Some(fleet) = fleet {
                    evaluator.ask_as(fleet.credentials.clone());
                    match &watcher {
                        Some(watcher) => watcher.reconfigure(fleet),
                        None => watcher = Some(Watcher::start(fleet)),
                    }
                    snapshots = watcher.as_ref().map(Watcher::snapshots);
                }
            }
            _ = tick.tick() => {
                let snapshot = snapshots.as_ref().map(|snapshots| snapshots.borrow().clone());
                channels.publish.send_replace(Arc::new(evaluator.tick(snapshot.as_deref())));
            }
        }
    }
    if let Some(watcher) = watcher {
        watcher.stop().await;
    }
}
