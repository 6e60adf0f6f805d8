//! What is read, by whom, and where it comes together: a task a server asks it, one loop reads this host, judges every
//! window and publishes a [`WatchView`] a second. Servers come and go with the fleet's snapshot.

mod watched;

use super::EVERY;
use super::course::HostNow;
use super::history::Kept;
use super::meter::Meter;
use super::promise::Promises;
use super::router::{self, RouterWatch};
use super::view::{self, ServerWatch, WatchView};
use crate::admin_client::AdminClient;
use crate::objectives::Objectives;
use fleet::config::{Credentials, FleetConfig};
use fleet::{Address, Role, Server, ServerName, Snapshot};
use observe::host::{Places, Sampler as HostSampler};
use observe::server::{Reading, Sampler};
use observe::verdict::{Ceilings, Compared, Place, Settling, Timing, Usual, UsualRequests, Window};
use observe::{Recent, Watcher};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use watched::Watched;

/// An answer that takes longer is none.
const DEADLINE: Duration = Duration::from_secs(5);
/// After a failed reading the next one waits so long.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// Servers watched at most: memory is bounded.
const MOST_SERVERS: usize = 64;

/// How it is watched.
#[derive(Clone)]
pub(crate) struct Watching {
    /// Length of the windows that are judged.
    pub(crate) window: Duration,
    /// What this host can do at most.
    pub(crate) ceilings: Ceilings,
    /// How an application in front of the servers does, where somebody times it.
    pub(crate) application: Option<watch::Receiver<Option<Timing>>>,
    /// The router in front of the servers, where one is to be asked.
    pub(crate) router: Option<AdminClient>,
    /// What is promised of the servers.
    pub(crate) objectives: Objectives,
}

/// Everything that watches, until it is stopped.
pub(crate) struct Station {
    views: watch::Receiver<Arc<WatchView>>,
    kept: Kept,
    changes: mpsc::Sender<Asked>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Who is asked.
#[derive(Clone)]
pub(crate) struct Asked {
    /// The servers; `None` is this host alone.
    pub(crate) fleet: Option<FleetConfig>,
    /// The router in front of them.
    pub(crate) router: Option<AdminClient>,
}

/// What a server's task tells the loop.
enum News {
    Read { server: ServerName, reading: Box<Reading>, on_this_host: bool },
    Failed { server: ServerName, why: String },
}

impl Watching {
    /// Against these ceilings.
    pub(crate) fn against(ceilings: Ceilings, window: Duration) -> Self {
        Self { window, ceilings, application: None, router: None, objectives: Objectives::default() }
    }

    /// And ask this router.
    pub(crate) fn asking(self, router: Option<AdminClient>) -> Self {
        Self { router, ..self }
    }

    /// And hold the servers to this.
    pub(crate) fn promising(self, objectives: Objectives) -> Self {
        Self { objectives, ..self }
    }
}

impl Station {
    /// Begins to watch this host and, if there is one, a fleet.
    pub(crate) fn start(fleet: Option<FleetConfig>, watching: Watching) -> Self {
        let (publish, views) = watch::channel(Arc::new(WatchView::default()));
        let (stop, kept) = (CancellationToken::new(), Kept::new());
        let (changes, changed) = mpsc::channel(1);
        let told = Told { publish, changed };
        let task = tokio::spawn(observe_all(fleet, watching, kept.clone(), told, stop.clone()));
        Self { views, kept, changes, stop, task }
    }

    /// Says who is asked from now on; what was read stays. A station without a fleet begins to watch one, none forgets its own.
    pub(crate) fn changes(&self) -> mpsc::Sender<Asked> {
        self.changes.clone()
    }

    /// What was read so far.
    pub(crate) fn history(&self) -> Kept {
        self.kept.clone()
    }

    /// What was last published, and changes of it.
    pub(crate) fn views(&self) -> watch::Receiver<Arc<WatchView>> {
        self.views.clone()
    }

    /// Ends every connection.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

/// How the loop is spoken with.
struct Told {
    publish: watch::Sender<Arc<WatchView>>,
    changed: mpsc::Receiver<Asked>,
}

async fn observe_all(
    fleet: Option<FleetConfig>,
    watching: Watching,
    kept: Kept,
    mut told: Told,
    stop: CancellationToken,
) {
    let who = fleet.as_ref().map(|fleet| fleet.credentials.clone()).unwrap_or_default();
    let mut watcher = fleet.map(Watcher::start);
    let mut snapshots = watcher.as_ref().map(Watcher::snapshots);
    let (tell, mut news) = mpsc::channel(256);
    let mut desk = Desk::new(watching, who, kept, tell, stop.clone());
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(one) = news.recv() => desk.take(one),
            Some(Asked { fleet, router }) = told.changed.recv() => {
                desk.ask_router(router);
                if let Some(fleet) = fleet {
                    desk.ask_as(fleet.credentials.clone());
                    match &watcher {
                        Some(watcher) => watcher.reconfigure(fleet),
                        None => watcher = Some(Watcher::start(fleet)),
                    }
                    snapshots = watcher.as_ref().map(Watcher::snapshots);
                }
            }
            _ = tick.tick() => {
                let snapshot = snapshots.as_ref().map(|snapshots| snapshots.borrow().clone());
                if let Some(snapshot) = &snapshot {
                    desk.follow(snapshot);
                }
                told.publish.send_replace(Arc::new(desk.judge(snapshot.as_deref())));
            }
        }
    }
    if let Some(watcher) = watcher {
        watcher.stop().await;
    }
}

/// The loop's state.
struct Desk {
    watching: Watching,
    router: Option<watch::Receiver<Option<Arc<RouterWatch>>>>,
    /// Ends the asking of this router.
    router_asked_by: CancellationToken,
    kept: Kept,
    promises: Promises,
    usual: Usual,
    usual_requests: UsualRequests,
    /// By the router's last answer.
    requests: Option<Compared>,
    who: Credentials,
    tell: mpsc::Sender<News>,
    stop: CancellationToken,
    sampler: HostSampler,
    host: Recent,
    host_settling: Settling,
    servers: BTreeMap<ServerName, Watched>,
    gaps: u64,
    cost: Meter,
}

impl Desk {
    fn new(
        watching: Watching,
        who: Credentials,
        kept: Kept,
        tell: mpsc::Sender<News>,
        stop: CancellationToken,
    ) -> Self {
        let window = watching.window;
        let router = watching.router.clone();
        let router_asked_by = stop.child_token();
        Self {
            router: router.map(|client| router::ask(client, kept.clone(), router_asked_by.clone())),
            router_asked_by,
            kept,
            promises: Promises::new(watching.objectives.clone()),
            watching,
            usual: Usual::default(),
            usual_requests: UsualRequests::default(),
            requests: None,
            who,
            tell,
            stop,
            sampler: HostSampler::new(Places::default()),
            host: Recent::new(window),
            host_settling: Settling::default(),
            servers: BTreeMap::new(),
            gaps: 0,
            cost: Meter::start(),
        }
    }

    fn take(&mut self, news: News) {
        match news {
            News::Read { server, reading, on_this_host } => {
                let Some(watched) = self.servers.get_mut(&server) else { return };
                watched.on_this_host = on_this_host;
                watched.why_not = None;
                if watched.recent.add_server(Arc::new(*reading)) {
                    watched.settling.gap();
                    self.gaps += 1;
                }
            }
            News::Failed { server, why } => {
                let Some(watched) = self.servers.get_mut(&server) else { return };
                if watched.why_not.is_none() {
                    self.gaps += 1;
                    tracing::info!(%server, why, "not answered");
                }
                self.kept.lose(server.as_str(), &why);
                watched.why_not = Some(why);
                watched.recent.lose_server();
                watched.settling.gap();
            }
        }
    }

    /// Asks another router from now on, or none.
    fn ask_router(&mut self, router: Option<AdminClient>) {
        let address =
            |client: &Option<AdminClient>| client.as_ref().map(|client| client.address().to_owned());
        if address(&router) == address(&self.watching.router) {
            return;
        }
        self.router_asked_by.cancel();
        self.router_asked_by = self.stop.child_token();
        let stop = self.router_asked_by.clone();
        self.router = router.clone().map(|client| router::ask(client, self.kept.clone(), stop));
        self.requests = None;
        self.watching.router = router;
    }

    /// Asks every server with these credentials from now on; what it said before stays.
    fn ask_as(&mut self, who: Credentials) {
        if who == self.who {
            return;
        }
        self.who = who;
        for (name, watched) in &mut self.servers {
            watched.asked_by.cancel();
            watched.asked_by = begin(name, &watched.reach, &self.who, &self.tell, &self.stop);
        }
    }

    /// A task for each server of the fleet, none for those that left it.
    fn follow(&mut self, snapshot: &Snapshot) {
        self.servers.retain(|name, watched| {
            let stays = snapshot.server(name).is_some();
            if !stays {
                watched.asked_by.cancel();
                self.kept.leave(name.as_str());
            }
            stays
        });
        for server in &snapshot.servers {
            if self.servers.contains_key(&server.name) || self.servers.len() >= MOST_SERVERS {
                continue;
            }
            let asked_by = begin(&server.name, &server.reach, &self.who, &self.tell, &self.stop);
            let watched = Watched {
                recent: Recent::new(self.watching.window),
                settling: Settling::default(),
                host_settled: false,
                on_this_host: false,
                data_disk: None,
                why_not: Some("not asked yet".to_owned()),
                kept_at: None,
                reach: server.reach.clone(),
                asked_by,
            };
            self.servers.insert(server.name.clone(), watched);
        }
    }

    /// What it says of requests holds until it answers again.
    fn hear_router(&mut self) {
        let Some(heard) = self.router.as_mut().filter(|heard| heard.has_changed().unwrap_or(false)) else {
            return;
        };
        let told = heard.borrow_and_update().as_ref().map(|router| router.requests()).unwrap_or_default();
        self.requests = self.usual_requests.next(&told);
    }

    fn hold_to_promises(&mut self, now: Instant) {
        let servers =
            self.servers.iter().map(|(name, watched)| (name.to_string(), watched.heard())).collect();
        let router = self.router.as_ref().and_then(|heard| heard.borrow().clone());
        self.promises.hold(now, &servers, router.as_deref());
    }

    fn judge(&mut self, snapshot: Option<&Snapshot>) -> WatchView {
        if self.host.add_host(Arc::new(self.sampler.read())) {
            self.host_settling.gap();
            self.gaps += 1;
        }
        let now = Instant::now();
        self.kept.tick(now);
        let mut here = self.host.window(now);
        here.ceilings = self.watching.ceilings.clone();
        let timing = self.watching.application.as_ref().and_then(|timings| *timings.borrow());
        let application = timing.and_then(|timing| self.usual.next(timing));
        self.hear_router();
        let verdict = view::verdict(&self.host_settling.next(&here));
        if let Some((at, sample)) = self.host.latest_host() {
            let disk = self.servers.values().find_map(|watched| watched.data_disk.as_ref()?.1.clone());
            self.kept.host(at, &HostNow { sample, disk }, &verdict);
        }
        self.hold_to_promises(now);
        let mut servers = Vec::new();
        for (name, watched) in &mut self.servers {
            let known = snapshot.and_then(|snapshot| snapshot.server(name));
            let mut window = watched.recent.window(now);
            window.host = here.host.clone().filter(|_| watched.on_this_host);
            window.ceilings = here.ceilings.clone();
            window.application = application;
            window.requests = self.requests.clone();
            window.data_disk = watched.data_disk(&window);
            window.lag_ms = known.and_then(|s| s.lag.as_ref()).map(|lag| lag.at_least.as_secs_f64() * 1e3);
            window.place = known.and_then(|server| place(server, snapshot, &window));
            if watched.on_this_host != watched.host_settled {
                watched.settling.gap();
                watched.host_settled = watched.on_this_host;
            }
            let verdict = view::verdict(&watched.settling.next(&window));
            let lag_ms = window.lag_ms.filter(|_| known.is_some_and(|server| server.role == Role::Replica));
            watched.keep(name, &window, lag_ms, &verdict, &self.kept);
            servers.push(ServerWatch {
                name: name.to_string(),
                role: known.map_or("?".to_owned(), |server| server.role.to_string()),
                zone: known.and_then(|server| server.zone.as_ref()).map(|zoned| zoned.zone.to_string()),
                on_this_host: watched.on_this_host,
                agent: None,
                source: known.and_then(|server| server.source.clone()),
                replication: known
                    .map_or(String::new(), |server| crate::fleet_view::replication(&server.replication)),
                unanswered: watched.why_not.clone().or_else(|| unanswered(known)),
                lag_ms,
                sample: window.server,
                verdict,
            });
        }
        let router = self.router.as_ref().and_then(|heard| heard.borrow().clone());
        let (objectives, webhook) = self.promises.view(router.as_deref());
        WatchView {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            window_s: self.watching.window.as_secs_f64(),
            host: here.host,
            verdict,
            hosts: Vec::new(),
            servers,
            writer: snapshot.and_then(Snapshot::primary).map(|server| server.name.to_string()),
            router,
            objectives,
            webhook,
            gaps: self.gaps,
            cost: self.cost.read(),
        }
    }
}

/// Where we are, as seen from the server, if both zones are known.
fn place(server: &Server, snapshot: Option<&Snapshot>, window: &Window) -> Option<Place> {
    let own = &snapshot?.own_zone.as_ref()?.zone;
    let other_zone = server.zone_name()? != own;
    Some(Place { other_zone, round_trip_ms: window.server.as_ref()?.round_trip_ms })
}

fn unanswered(known: Option<&Server>) -> Option<String> {
    known.is_none().then(|| "it left the fleet".to_owned())
}

/// Begins to ask one server, until what is returned is cancelled.
fn begin(
    server: &ServerName,
    reach: &Address,
    who: &Credentials,
    tell: &mpsc::Sender<News>,
    stop: &CancellationToken,
) -> CancellationToken {
    let stop = stop.child_token();
    let sampler = Sampler::new(reach.clone(), who.clone(), DEADLINE);
    tokio::spawn(ask(server.clone(), sampler, tell.clone(), stop.clone()));
    stop
}

/// Asks one server until it is told to stop.
async fn ask(server: ServerName, mut sampler: Sampler, tell: mpsc::Sender<News>, stop: CancellationToken) {
    loop {
        let asked = tokio::select! {
            () = stop.cancelled() => return,
            asked = sampler.read() => asked,
        };
        let (news, pause) = match asked {
            Ok(reading) => {
                let pause = Sampler::pause(&reading, EVERY);
                let on_this_host = sampler.is_on_this_host().unwrap_or(false);
                (News::Read { server: server.clone(), reading: Box::new(reading), on_this_host }, pause)
            }
            Err(error) => (News::Failed { server: server.clone(), why: error.to_string() }, AFTER_FAILURE),
        };
        if tell.send(news).await.is_err() {
            return;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
