//! What a tick does with what was read, in four steps: [`Evaluator::read`] takes the windows of this host and
//! of every server, [`judge`] names the bottlenecks in them, [`Evaluator::store`] adds to the history and
//! holds objectives against it, [`Evaluator::draw`] makes the view of it all. Only the first reads the clock
//! and `/proc`.

use crate::history::HistoryStore;
use crate::meter::Meter;
use crate::monitor::MonitorOptions;
use crate::objectives::WatchedObjectives;
use crate::router;
use crate::series::HostNow;
use crate::server_task::{self, Event};
use crate::watched_server::WatchedServer;
use config::Credentials;
use console::admin_client::AdminClient;
use console::fleet_view;
use console::own_limit::OwnLimit;
use console::sample_view::{HostSampleView, ServerSampleView, Shows};
use console::watch_view::{self, RouterWatch, ServerWatch, VerdictView, WatchView};
use diagnose::Recent;
use diagnose::host::{Roots, Sampler as HostSampler};
use diagnose::verdict::{
    Ceilings, RequestBaseline, RequestComparison, Settler, Timing, TimingBaseline, Vantage, Verdict, Window,
};
use fleet::{Role, Server, ServerName, Snapshot};
use observe::{MORE_SERVERS, MOST_SERVERS};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Everything that is known of this host, its servers and the router.
pub(crate) struct Evaluator {
    options: MonitorOptions,
    router: Option<watch::Receiver<Option<Arc<RouterWatch>>>>,
    /// Ends the asking of this router.
    router_asked_by: CancellationToken,
    history: HistoryStore,
    promises: WatchedObjectives,
    usual: TimingBaseline,
    usual_requests: RequestBaseline,
    /// By the router's last answer.
    requests: Option<RequestComparison>,
    who: Credentials,
    tell: mpsc::Sender<Event>,
    stop: CancellationToken,
    sampler: HostSampler,
    host: Recent,
    servers: BTreeMap<ServerName, WatchedServer>,
    settlings: Settlings,
    gaps: u64,
    cost: Meter,
    own_limit: OwnLimit,
}

/// What was read up to a moment.
pub(crate) struct Windows {
    at: Instant,
    host: Window,
    servers: BTreeMap<ServerName, Window>,
}

/// What has been named so far, so that an answer does not flap.
#[derive(Default)]
pub(crate) struct Settlings {
    host: Settler,
    servers: BTreeMap<ServerName, Settler>,
}

/// What is named now.
pub(crate) struct Verdicts {
    host: VerdictView,
    servers: BTreeMap<ServerName, VerdictView>,
}

/// Names the bottleneck of this host and of each server. The same windows after the same past give the same
/// verdicts.
pub(crate) fn judge(windows: &Windows, settlings: &mut Settlings) -> Verdicts {
    let shown = |verdict: &Verdict| watch_view::verdict(verdict);
    settlings.servers.retain(|name, _| windows.servers.contains_key(name));
    Verdicts {
        host: shown(&settlings.host.next(&windows.host)),
        servers: windows
            .servers
            .iter()
            .map(|(name, window)| {
                let settling = settlings.servers.entry(name.clone()).or_default();
                (name.clone(), shown(&settling.next(window)))
            })
            .collect(),
    }
}

impl Settlings {
    /// What this server does is not known without a gap any more.
    fn gap(&mut self, server: &ServerName) {
        if let Some(settling) = self.servers.get_mut(server) {
            settling.gap();
        }
    }
}

impl Evaluator {
    pub(crate) fn new(
        options: MonitorOptions,
        who: Credentials,
        history: HistoryStore,
        tell: mpsc::Sender<Event>,
        stop: CancellationToken,
    ) -> Self {
        let window = options.window;
        let router = options.router.clone();
        let router_asked_by = stop.child_token();
        Self {
            router: router.map(|client| router::ask(client, history.clone(), router_asked_by.clone())),
            router_asked_by,
            history,
            promises: WatchedObjectives::new(options.objectives.clone()),
            options,
            usual: TimingBaseline::default(),
            usual_requests: RequestBaseline::default(),
            requests: None,
            who,
            tell,
            stop,
            sampler: HostSampler::new(Roots::default()),
            host: Recent::new(window),
            servers: BTreeMap::new(),
            settlings: Settlings::default(),
            gaps: 0,
            cost: Meter::start(),
            own_limit: OwnLimit::default(),
        }
    }

    /// One tick: reads, judges, stores and draws.
    pub(crate) fn tick(&mut self, snapshot: Option<&Snapshot>) -> WatchView {
        if let Some(snapshot) = snapshot {
            self.follow(snapshot);
        }
        let windows = self.read(snapshot);
        let verdicts = judge(&windows, &mut self.settlings);
        self.store(&windows, &verdicts, snapshot);
        self.draw(&windows, verdicts, snapshot)
    }

    /// What a server's task tells.
    pub(crate) fn take(&mut self, event: Event) {
        match event {
            Event::Read { server, reading, on_this_host } => {
                let Some(watched) = self.servers.get_mut(&server) else { return };
                // The host's evidence counts from now on, or does not any more.
                let moved = std::mem::replace(&mut watched.on_this_host, on_this_host) != on_this_host;
                watched.why_not = None;
                let gap = watched.recent.add_server(Arc::new(*reading));
                self.gaps += u64::from(gap);
                if gap || moved {
                    self.settlings.gap(&server);
                }
            }
            Event::Failed { server, why } => {
                let Some(watched) = self.servers.get_mut(&server) else { return };
                if watched.why_not.is_none() {
                    self.gaps += 1;
                    tracing::info!(%server, why, "not answered");
                }
                self.history.lose(server.as_str(), &why);
                watched.why_not = Some(why);
                watched.recent.lose_server();
                self.settlings.gap(&server);
            }
        }
    }

    /// Asks another router from now on, or none.
    pub(crate) fn ask_router(&mut self, router: Option<AdminClient>) {
        let address =
            |client: &Option<AdminClient>| client.as_ref().map(|client| client.address().to_owned());
        if address(&router) == address(&self.options.router) {
            return;
        }
        self.router_asked_by.cancel();
        self.router_asked_by = self.stop.child_token();
        let stop = self.router_asked_by.clone();
        self.router = router.clone().map(|client| router::ask(client, self.history.clone(), stop));
        self.requests = None;
        self.options.router = router;
    }

    /// Judges against these ceilings from now on.
    pub(crate) fn judge_against(&mut self, ceilings: Ceilings) {
        self.options.ceilings = ceilings;
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

    /// A task for each server of the fleet, none for those that left it. One that is reached elsewhere from
    /// now on (another address map, another server of that name) is watched anew.
    fn follow(&mut self, snapshot: &Snapshot) {
        self.servers.retain(|name, watched| {
            let stays = snapshot.server(name).is_some();
            if !stays {
                watched.asked_by.cancel();
                self.history.leave(name.as_str());
            }
            stays
        });
        for server in &snapshot.servers {
            match self.servers.get(&server.name) {
                Some(watched) if watched.reach == server.reach => continue,
                Some(watched) => {
                    watched.asked_by.cancel();
                    self.settlings.servers.remove(&server.name);
                }
                None if self.servers.len() >= MOST_SERVERS => continue,
                None => {}
            }
            let asked_by = server_task::begin(&server.name, &server.reach, &self.who, &self.tell, &self.stop);
            let watched = WatchedServer::new(self.options.window, server.reach.clone(), asked_by);
            self.servers.insert(server.name.clone(), watched);
        }
    }

    /// The windows up to now of this host, read anew, and of every server, as last read.
    fn read(&mut self, snapshot: Option<&Snapshot>) -> Windows {
        if self.host.add_host(Arc::new(self.sampler.read())) {
            self.settlings.host.gap();
            self.gaps += 1;
        }
        let at = Instant::now();
        let mut host = self.host.window(at);
        host.ceilings = self.options.ceilings.clone();
        let timing = self.options.application.as_ref().and_then(|timings| *timings.borrow());
        let application = timing.and_then(|timing| self.usual.next(timing));
        self.read_router();
        let router = self.router.as_ref().and_then(|answers| answers.borrow().clone());
        let mut servers = BTreeMap::new();
        for (name, watched) in &mut self.servers {
            let known = snapshot.and_then(|snapshot| snapshot.server(name));
            let mut window = watched.recent.window(at);
            window.host = host.host.clone().filter(|_| watched.on_this_host);
            window.ceilings = host.ceilings.clone();
            window.application = application;
            window.requests = self.requests.clone();
            watched.surround(&mut window, at, self.options.window);
            window.lag_ms = known.and_then(|s| s.lag.as_ref()).map(|lag| lag.at_least.as_secs_f64() * 1e3);
            let own =
                snapshot.and_then(|snapshot| snapshot.own_zone.as_ref()).map(|zoned| zoned.zone.as_str());
            let zone = known.and_then(Server::zone_name).map(fleet::Zone::as_str);
            window.vantage =
                own.zip(zone).and_then(|(own, zone)| place(own, zone, timing, router.as_deref(), &window));
            servers.insert(name.clone(), window);
        }
        Windows { at, host, servers }
    }

    /// What the router says of requests holds until it answers again.
    fn read_router(&mut self) {
        let Some(answers) = self.router.as_mut().filter(|answers| answers.has_changed().unwrap_or(false))
        else {
            return;
        };
        let requests = answers.borrow_and_update().as_ref().map(|router| router::requests(router));
        self.requests = self.usual_requests.next(&requests.unwrap_or_default());
    }

    /// Adds what is new to the history, and holds objectives against it.
    fn store(&mut self, windows: &Windows, verdicts: &Verdicts, snapshot: Option<&Snapshot>) {
        self.history.tick(windows.at);
        if let Some((at, sample)) = self.host.latest_host() {
            let disk = self.servers.values().find_map(WatchedServer::known_disk);
            let now = HostNow { sample: HostSampleView::of(&sample), disk };
            self.history.host(at, &now, &verdicts.host);
        }
        let answers =
            self.servers.iter().map(|(name, watched)| (name.to_string(), watched.answer())).collect();
        let router = self.router.as_ref().and_then(|answers| answers.borrow().clone());
        self.promises.hold(windows.at, &answers, router.as_deref());
        for (name, watched) in &mut self.servers {
            if let (Some(window), Some(verdict)) = (windows.servers.get(name), verdicts.servers.get(name)) {
                let known = snapshot.and_then(|snapshot| snapshot.server(name));
                watched.keep(name, window, lag_ms(window, known), verdict, &self.history);
            }
        }
    }

    /// The view of it all.
    fn draw(&self, windows: &Windows, mut verdicts: Verdicts, snapshot: Option<&Snapshot>) -> WatchView {
        let servers = windows.servers.iter().filter_map(|(name, window)| {
            let verdict = verdicts.servers.remove(name)?;
            let known = snapshot.and_then(|snapshot| snapshot.server(name));
            Some(server(name, self.servers.get(name)?, window, known, verdict))
        });
        let servers = servers.collect();
        let router = self.router.as_ref().and_then(|answers| answers.borrow().clone());
        let (objectives, webhook) = self.promises.view(router.as_deref());
        WatchView {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            window_s: self.options.window.as_secs_f64(),
            host: Shows::of(&windows.host.host),
            verdict: verdicts.host,
            hosts: Vec::new(),
            servers,
            left_out: snapshot.and_then(|snapshot| left_out(snapshot, &self.servers)),
            writer: snapshot.and_then(Snapshot::primary).map(|server| server.name.to_string()),
            router,
            objectives,
            webhook,
            gaps: self.gaps,
            cost: self.cost.read(),
            held_back: self.own_limit.held_back(),
        }
    }
}

/// That servers of the fleet are not asked, in words: memory is bounded here and where they are found.
fn left_out<T>(snapshot: &Snapshot, asked: &BTreeMap<ServerName, T>) -> Option<String> {
    let more = snapshot.remarks.iter().any(|remark| remark.as_str() == MORE_SERVERS)
        || snapshot.servers.iter().any(|server| !asked.contains_key(&server.name));
    more.then(|| format!("not every server of the fleet is watched: at most {MOST_SERVERS} are"))
}

/// One server, as it is shown.
fn server(
    name: &ServerName,
    watched: &WatchedServer,
    window: &Window,
    known: Option<&Server>,
    verdict: VerdictView,
) -> ServerWatch {
    let left = || known.is_none().then(|| "it left the fleet".to_owned());
    ServerWatch {
        name: name.to_string(),
        role: known.map_or("?".to_owned(), |server| server.role.to_string()),
        zone: known.and_then(|server| server.zone.as_ref()).map(|zoned| zoned.zone.to_string()),
        on_this_host: watched.on_this_host,
        agent: None,
        source: known.and_then(|server| server.source.clone()),
        replication: known.map_or(String::new(), |server| fleet_view::replication(&server.replication)),
        unanswered: watched.why_not.clone().or_else(left),
        lag_ms: lag_ms(window, known),
        sample: window.server.as_ref().map(ServerSampleView::of_sample),
        limits: Shows::of(&window.limits),
        space: Shows::of(&window.space),
        verdict,
    }
}

/// How far behind a replica is; of nothing else that is said.
fn lag_ms(window: &Window, known: Option<&Server>) -> Option<f64> {
    window.lag_ms.filter(|_| known.is_some_and(|server| server.role == Role::Replica))
}

/// Where `own` zone is, as seen from a server in `zone`. Statements are known to go there when a router's
/// flow has reads that do, or when an application in this zone waits for its statements as long as a round
/// trip.
fn place(
    own: &str,
    zone: &str,
    timing: Option<Timing>,
    router: Option<&RouterWatch>,
    window: &Window,
) -> Option<Vantage> {
    let round_trip_ms = window.server.as_ref()?.round_trip_ms;
    let timed = timing.is_some_and(|timing| timing.statement_p99_ms >= round_trip_ms);
    let flows = router.is_some_and(|router| router::sends_reads(&router.flow, own, zone));
    Some(Vantage { other_zone: own != zone, asked_from_here: timed || flows, round_trip_ms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::status_view::FlowView;
    use diagnose::{host, server};
    use fleet::Address;
    use std::time::Duration;

    /// A window in which all CPUs of the host were busy.
    fn busy() -> Window {
        let mut host = host::Sample::default();
        host.cpu.all.user = 1.0;
        host.cpu.running = 64;
        Window { host: Some(host), server: Some(server::Sample::default()), ..Window::default() }
    }

    fn windows(servers: &[&str]) -> Windows {
        Windows {
            at: Instant::now(),
            host: busy(),
            servers: servers.iter().map(|name| (ServerName::new(name), busy())).collect(),
        }
    }

    #[test]
    fn the_same_windows_after_the_same_past_give_the_same_verdicts() {
        let (mut one, mut other) = (Settlings::default(), Settlings::default());
        for _ in 0..4 {
            let windows = windows(&["db1", "db2"]);
            let (a, b) = (judge(&windows, &mut one), judge(&windows, &mut other));
            assert_eq!(a.host.text, b.host.text);
            assert_eq!(a.servers.len(), 2);
        }
    }

    #[test]
    fn statements_are_known_to_cross_by_a_routers_flow_or_an_applications_timing() {
        let sample = server::Sample { round_trip_ms: 0.7, ..server::Sample::default() };
        let window = Window { server: Some(sample), ..Window::default() };
        let asked = |timing, router: Option<&RouterWatch>| {
            place("a", "b", timing, router, &window).unwrap().asked_from_here
        };
        let flow = |crossing: f64| {
            let (zones, demand) = (vec!["a".to_owned(), "b".to_owned()], vec![0.5, 0.5]);
            let rows = vec![vec![1.0 - crossing, crossing], vec![0.0, 1.0]];
            let flow = FlowView { zones, demand, capacity: vec![0.5, 0.5], rows };
            RouterWatch { flow, ..RouterWatch::default() }
        };
        let timing = |statement_p99_ms| Some(Timing { request_p99_ms: 9.0, statement_p99_ms });
        assert!(!asked(None, None), "a distance alone");
        assert!(asked(None, Some(&flow(0.3))) && !asked(None, Some(&flow(0.0))));
        assert!(asked(timing(0.9), None) && !asked(timing(0.2), None));
    }

    #[test]
    fn a_fleet_of_more_servers_than_are_watched_is_said_to_be_seen_in_part() {
        let mut snapshot = Snapshot::empty(Instant::now());
        let asked = BTreeMap::<ServerName, ()>::new();
        assert_eq!(left_out(&snapshot, &asked), None);
        snapshot.remarks = vec!["no writer: none is writable".to_owned()];
        assert_eq!(left_out(&snapshot, &asked), None);
        snapshot.remarks.push(MORE_SERVERS.to_owned());
        assert!(left_out(&snapshot, &asked).unwrap().contains("at most 256"));
    }

    #[tokio::test]
    async fn a_server_that_is_reached_elsewhere_is_asked_there_and_no_more_where_it_was() {
        let options = MonitorOptions::against(Ceilings::default(), Duration::from_secs(10));
        let (tell, _events) = mpsc::channel(1);
        let (who, history) = (Credentials::default(), HistoryStore::new());
        let mut evaluator = Evaluator::new(options, who, history, tell, CancellationToken::new());
        let mut follow = |port: u16| {
            let mut snapshot = Snapshot::empty(Instant::now());
            let reach = Address::tcp("127.0.0.1", port);
            snapshot.servers = vec![Server::unasked(ServerName::new("db1"), reach.clone())];
            evaluator.follow(&snapshot);
            let watched = &evaluator.servers[&ServerName::new("db1")];
            assert_eq!(watched.reach, reach);
            watched.asked_by.clone()
        };
        let first = follow(1);
        assert!(!first.is_cancelled());
        follow(1);
        assert!(!first.is_cancelled(), "nothing has changed");
        let second = follow(2);
        assert!(first.is_cancelled() && !second.is_cancelled());
    }

    #[test]
    fn what_is_not_read_any_more_leaves_no_past_behind() {
        let mut settlings = Settlings::default();
        judge(&windows(&["db1", "db2"]), &mut settlings);
        let verdicts = judge(&windows(&["db2"]), &mut settlings);
        assert_eq!(verdicts.servers.keys().map(ServerName::as_str).collect::<Vec<_>>(), ["db2"]);
        assert_eq!(settlings.servers.len(), 1);
    }
}
