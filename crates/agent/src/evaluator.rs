//! Where readings come together: each server's, this host's, what the router tells; once a second all of it
//! is judged.

use crate::course::HostNow;
use crate::history::Kept;
use crate::meter::Meter;
use crate::monitor::Watching;
use crate::promise::Promises;
use crate::router;
use crate::server_task::{self, News};
use crate::watched_server::Watched;
use config::Credentials;
use console::admin_client::AdminClient;
use console::watch_view::RouterWatch;
use console::watch_view::{self, ServerWatch, WatchView};
use diagnose::Recent;
use diagnose::host::{Roots, Sampler as HostSampler};
use diagnose::verdict::{RequestBaseline, RequestComparison, Settler, TimingBaseline, Vantage, Window};
use fleet::{Role, Server, ServerName, Snapshot};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Servers watched at most: memory is bounded.
const MOST_SERVERS: usize = 64;

/// The state of the loop.
pub(crate) struct Desk {
    watching: Watching,
    router: Option<watch::Receiver<Option<Arc<RouterWatch>>>>,
    /// Ends the asking of this router.
    router_asked_by: CancellationToken,
    kept: Kept,
    promises: Promises,
    usual: TimingBaseline,
    usual_requests: RequestBaseline,
    /// By the router's last answer.
    requests: Option<RequestComparison>,
    who: Credentials,
    tell: mpsc::Sender<News>,
    stop: CancellationToken,
    sampler: HostSampler,
    host: Recent,
    host_settling: Settler,
    servers: BTreeMap<ServerName, Watched>,
    gaps: u64,
    cost: Meter,
}

impl Desk {
    pub(crate) fn new(
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
            usual: TimingBaseline::default(),
            usual_requests: RequestBaseline::default(),
            requests: None,
            who,
            tell,
            stop,
            sampler: HostSampler::new(Roots::default()),
            host: Recent::new(window),
            host_settling: Settler::default(),
            servers: BTreeMap::new(),
            gaps: 0,
            cost: Meter::start(),
        }
    }

    pub(crate) fn take(&mut self, news: News) {
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
    pub(crate) fn ask_router(&mut self, router: Option<AdminClient>) {
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
    pub(crate) fn ask_as(&mut self, who: Credentials) {
        if who == self.who {
            return;
        }
        self.who = who;
        for (name, watched) in &mut self.servers {
            watched.asked_by.cancel();
            watched.asked_by = server_task::begin(name, &watched.reach, &self.who, &self.tell, &self.stop);
        }
    }

    /// A task for each server of the fleet, none for those that left it.
    pub(crate) fn follow(&mut self, snapshot: &Snapshot) {
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
            let asked_by = server_task::begin(&server.name, &server.reach, &self.who, &self.tell, &self.stop);
            let watched = Watched {
                recent: Recent::new(self.watching.window),
                settling: Settler::default(),
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
        let told =
            heard.borrow_and_update().as_ref().map(|router| router::requests(router)).unwrap_or_default();
        self.requests = self.usual_requests.next(&told);
    }

    fn hold_to_promises(&mut self, now: Instant) {
        let servers =
            self.servers.iter().map(|(name, watched)| (name.to_string(), watched.heard())).collect();
        let router = self.router.as_ref().and_then(|heard| heard.borrow().clone());
        self.promises.hold(now, &servers, router.as_deref());
    }

    pub(crate) fn judge(&mut self, snapshot: Option<&Snapshot>) -> WatchView {
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
        let verdict = watch_view::verdict(&self.host_settling.next(&here));
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
            window.vantage = known.and_then(|server| place(server, snapshot, &window));
            if watched.on_this_host != watched.host_settled {
                watched.settling.gap();
                watched.host_settled = watched.on_this_host;
            }
            let verdict = watch_view::verdict(&watched.settling.next(&window));
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
                    .map_or(String::new(), |server| console::fleet_view::replication(&server.replication)),
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
fn place(server: &Server, snapshot: Option<&Snapshot>, window: &Window) -> Option<Vantage> {
    let own = &snapshot?.own_zone.as_ref()?.zone;
    let other_zone = server.zone_name()? != own;
    Some(Vantage { other_zone, round_trip_ms: window.server.as_ref()?.round_trip_ms })
}

fn unanswered(known: Option<&Server>) -> Option<String> {
    known.is_none().then(|| "it left the fleet".to_owned())
}
