//! The router between a real driver's pool and real servers, with `observe` watching: readers die, freeze,
//! return, are drained.

#![allow(clippy::print_stdout, reason = "its figures are shown")]

use crate::watching;
use config::{FleetConfig, Listener, Matcher, RouterConfig, ZoneRule};
use fleet::{Address, ListenerRole, ServerName, Zone};
use lab::{Fault, Lab, Spec};
use mysql_async::prelude::Queryable;
use mysql_async::{OptsBuilder, Pool, PoolConstraints, PoolOpts};
use observe::Watcher;
use router::{Router, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Connections of the pool, and workers that share it.
const POOL: usize = 8;
const WORKERS: usize = 6;

struct Stand {
    lab: Lab,
    watcher: Watcher,
    router: Router,
    /// The router's zone.
    own: &'static str,
}

impl Stand {
    /// Primary a1, replicas a2, b1, c1, and a router in zone b.
    async fn up(base: &std::path::Path, roles: &[ListenerRole]) -> Self {
        let spec = Spec::new(&[("a", 2), ("b", 1), ("c", 1)]);
        Self::up_with(base, roles, &spec, "b", RouterConfig::default()).await
    }

    async fn up_with(
        base: &std::path::Path,
        roles: &[ListenerRole],
        spec: &Spec,
        own: &'static str,
        config: RouterConfig,
    ) -> Self {
        let lab = Lab::up(spec, base).await.unwrap();
        let net = |zone: &str, n: u8| ZoneRule {
            zone: Zone::new(zone),
            members: vec![Matcher::Net(format!("127.{n}.0.0/16").parse().unwrap())],
            demand: None,
        };
        let watcher = Watcher::start(FleetConfig {
            zones: vec![net("a", 1), net("b", 2), net("c", 3)],
            ..watching::fleet(&lab, own)
        });
        let suspicion = watcher.suspicion();
        let suspect = move |server: &ServerName, why: &str| suspicion.suspect(server, why);
        let listener = |role: &ListenerRole| Listener::new(Address::tcp("127.0.0.1", 0), *role);
        let listeners = roles.iter().map(listener).collect();
        let router = Router::start(config, listeners, watcher.snapshots(), suspect).unwrap();
        let stand = Self { lab, watcher, router, own };
        stand.until("three replicas are eligible", 60, |s| eligible(s) == 3).await;
        stand
    }

    fn opts(&self, listener: usize) -> OptsBuilder {
        watching::opts(&self.lab, &self.router.status().listeners[listener].address)
    }

    fn name(&self, server: &str) -> ServerName {
        let status = self.router.status();
        let reach = self.lab.reach(self.own, server).unwrap();
        let found =
            status.servers.iter().find(|s| s.reach == Address::tcp(reach.ip().to_string(), reach.port()));
        found.unwrap_or_else(|| panic!("{server} is not in {:?}", status.servers)).name.clone()
    }

    async fn until(&self, what: &str, seconds: u64, holds: impl Fn(&Status) -> bool) -> Duration {
        let begun = Instant::now();
        while !holds(&self.router.status()) {
            let status = || serde_json::to_string_pretty(&self.router.status().servers).unwrap();
            assert!(begun.elapsed() < Duration::from_secs(seconds), "never: {what}; {}", status());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        begun.elapsed()
    }

    /// Ten new sessions, one after the other: what eight of them took at most. The machine may stand still
    /// for one or two; a server that does not answer would have most of them, being in the router's zone.
    async fn connects(&self) -> Duration {
        let mut took = Vec::new();
        for _ in 0..10 {
            let begun = Instant::now();
            let conn = mysql_async::Conn::new(self.opts(0)).await.unwrap();
            took.push(begun.elapsed());
            drop(conn);
        }
        took.sort_unstable();
        took[7]
    }

    async fn down(self) {
        self.router.stop(Duration::from_secs(2)).await;
        self.watcher.stop().await;
        self.lab.down().await.unwrap();
    }
}

fn eligible(status: &Status) -> usize {
    status.servers.iter().filter(|s| s.reads.eligible).count()
}

fn on<'a>(status: &'a Status, server: &ServerName) -> &'a router::status::ServerStatus {
    status.servers.iter().find(|s| s.name == *server).unwrap()
}

/// An application: workers that take a connection from the pool, ask something, and give it back.
struct App {
    errors: Arc<AtomicUsize>,
    done: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    workers: Vec<tokio::task::JoinHandle<()>>,
}

impl App {
    fn start(opts: OptsBuilder) -> Self {
        Self::start_with(opts, false, Duration::from_millis(3))
    }

    /// With `prepares`, every connection of the pool holds a prepared statement from its first use on.
    fn start_with(opts: OptsBuilder, prepares: bool, pause: Duration) -> Self {
        let constraints = PoolConstraints::new(POOL, POOL).unwrap();
        let pool =
            Pool::new(opts.pool_opts(
                PoolOpts::default().with_constraints(constraints).with_reset_connection(!prepares),
            ));
        let (errors, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let stop = Arc::new(AtomicBool::new(false));
        let workers = (0..WORKERS).map(|_| {
            let (pool, errors, done, stop) = (pool.clone(), errors.clone(), done.clone(), stop.clone());
            tokio::spawn(async move {
                while !stop.load(SeqCst) {
                    let ask = async {
                        let mut conn = pool.get_conn().await?;
                        match prepares {
                            true => conn.exec_first::<u32, _, _>("SELECT ?", (1,)).await,
                            false => conn.query_first::<u32, _>("SELECT 1").await,
                        }
                    };
                    match ask.await {
                        Ok(_) => done.fetch_add(1, SeqCst),
                        Err(error) => {
                            println!("  application: {error}");
                            errors.fetch_add(1, SeqCst)
                        }
                    };
                    tokio::time::sleep(pause).await;
                }
            })
        });
        let workers = workers.collect();
        Self { errors, done, stop, workers }
    }

    fn errors(&self) -> usize {
        self.errors.load(SeqCst)
    }

    async fn stop(self) -> usize {
        self.stop.store(true, SeqCst);
        for worker in self.workers {
            tokio::time::timeout(Duration::from_secs(60), worker).await.unwrap().unwrap();
        }
        self.done.load(SeqCst)
    }
}

#[tokio::test]
async fn a_reader_is_killed_frozen_drained_and_each_time_gets_its_traffic_back() {
    let base = tempfile::tempdir().unwrap();
    let stand = Stand::up(base.path(), &[ListenerRole::Reader]).await;
    let b1 = stand.name("b1");
    let app = App::start(stand.opts(0));
    let readers = |s: &Status| on(s, &b1).readers;
    stand.until("b1 has sessions", 60, |s| readers(s) > 0).await;

    stand.lab.fault("b1", Fault::Kill).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (at_kill, took) = (app.errors(), stand.connects().await);
    println!("killed: {at_kill} errors in flight; a second later a new session takes at most {took:?}");
    assert!(at_kill <= POOL, "{at_kill}");
    assert!(took < Duration::from_millis(400), "{took:?}");

    stand.lab.heal("b1").await.unwrap();
    let back = stand.until("traffic is back", 60, |s| readers(s) >= 2).await;
    println!("returned: two sessions are back after {back:?}");
    assert_eq!(app.errors(), at_kill, "nobody was cut for it");

    stand.lab.fault("b1", Fault::Freeze).await.unwrap();
    stand.until("frozen and seen so", 60, |s| !on(s, &b1).reads.eligible).await;
    let took = stand.connects().await;
    println!(
        "frozen: a new session takes at most {took:?}; {} sessions wait on it",
        readers(&stand.router.status())
    );
    assert!(took < Duration::from_millis(400), "{took:?}");
    stand.lab.heal("b1").await.unwrap();
    stand.until("b1 answers", 60, |s| on(s, &b1).reads.eligible).await;
    let back = stand.until("traffic is back", 60, |s| readers(s) >= 2).await;
    println!("thawed: two sessions are back after {back:?}");
    assert_eq!(app.errors(), at_kill, "what waited was answered");

    stand.router.drain(&b1, Some(Duration::from_secs(60)));
    let empty = stand.until("drained", 60, |s| readers(s) == 0).await;
    println!("drained in {empty:?}");
    stand.router.undrain(&b1);
    let back = stand.until("traffic is back", 60, |s| readers(s) >= 2).await;
    println!("in service again: two sessions are back after {back:?}");
    assert_eq!(app.errors(), at_kill);
    let status = stand.router.status();
    for server in &status.servers {
        println!(
            "{} readers {} commands {} picks {:?} closed {:?}",
            server.name, server.readers, server.commands, server.picks, server.closed
        );
    }
    println!("{} statements answered", app.stop().await);
    stand.down().await;
}

#[tokio::test]
async fn writes_wait_for_the_new_primary_and_leave_the_old_one() {
    let base = tempfile::tempdir().unwrap();
    let stand = Stand::up(base.path(), &[ListenerRole::Writer]).await;
    let mut before = mysql_async::Conn::new(stand.opts(0)).await.unwrap();
    let port: Option<String> = before.query_first("SELECT @@bind_address").await.unwrap();
    println!("writes go to {port:?}");
    let (a1, b1) = (stand.name("a1"), stand.name("b1"));
    assert_eq!(on(&stand.router.status(), &a1).writers, 1);
    stand.lab.fault("b1", Fault::Promote).await.unwrap();
    stand.until("the old primary is left", 60, |s| on(s, &a1).writers == 0).await;
    assert!(before.query_drop("SELECT 1").await.is_err());
    let mut after = mysql_async::Conn::new(stand.opts(0)).await.unwrap();
    assert_eq!(on(&stand.router.status(), &b1).writers, 1);
    after.query_drop("CREATE TABLE app.written (id INT PRIMARY KEY)").await.unwrap();
    drop((before, after));
    stand.lab.heal_all().await.unwrap();
    stand.down().await;
}

#[tokio::test]
async fn sessions_with_prepared_statements_leave_a_replica_that_lost_its_source_and_return() {
    let base = tempfile::tempdir().unwrap();
    let spec = Spec::new(&[("a", 2), ("b", 1), ("c", 1)]).replica_of("c1", "b1");
    let config = RouterConfig {
        max_lag: Duration::from_secs(3),
        warm_up: Duration::from_secs(1),
        ..RouterConfig::default()
    };
    let stand = Stand::up_with(base.path(), &[ListenerRole::Reader], &spec, "c", config).await;
    // The pool resets no connection, which would close its statements.
    let keep = stand.opts(0).stmt_cache_size(8);
    let app = App::start_with(keep, true, Duration::from_millis(150));
    let c1 = stand.name("c1");
    // As the flow table says, to less than a session.
    let all = |s: &Status| f64::from(s.servers.iter().map(|s| s.readers).sum::<u32>());
    let placed = |s: &Status| {
        let c1 = on(s, &c1);
        c1.share > 0.0 && (f64::from(c1.readers) - c1.share * all(s)).abs() < 1.0
    };
    stand.until("c1 has its share", 60, |s| on(s, &c1).readers > 0 && placed(s)).await;

    // Lag grows only while somebody writes.
    let mut root = stand.lab.connect("a1").await.unwrap();
    root.query_drop("CREATE TABLE app.ticks (n INT)").await.unwrap();
    let writes = tokio::spawn(async move {
        while root.query_drop("INSERT INTO app.ticks VALUES (1)").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let by_gtid = |s: &Status| on(s, &c1).lag.is_some_and(|lag| lag.source == fleet::LagSource::GtidSamples);
    stand.until("c1 has applied a change", 60, by_gtid).await;
    stand.lab.fault("b1", Fault::Kill).await.unwrap();
    let says = stand.until("c1 is behind", 60, |s| on(s, &c1).reads.reason_name == Some("behind")).await;
    println!("c1 is behind after {says:?}: {:?}", on(&stand.router.status(), &c1).because);
    assert!(on(&stand.router.status(), &c1).because.contains("itself a replica, which does not answer"));
    stand.until("what it waits for is said", 60, |s| s.leaving.iter().any(|l| l.server == c1)).await;
    let left = stand.until("c1 is left", 60, |s| on(s, &c1).readers == 0 && s.leaving.is_empty()).await;
    println!("left after {left:?}");

    stand.lab.heal("b1").await.unwrap();
    let back = stand.until("its share is back", 90, |s| on(s, &c1).readers > 0 && placed(s)).await;
    println!("back after {back:?}");
    let events: Vec<String> = stand.router.status().events.iter().map(|e| e.event.text.clone()).collect();
    for expected in ["b1 takes reads", "c1 takes no new reads", "c1 takes reads"] {
        let (server, words) = expected.split_once(' ').unwrap();
        let line = format!("{} {words}", stand.name(server));
        assert!(events.iter().any(|event| event.starts_with(&line)), "{line}: {events:#?}");
    }
    writes.abort();
    app.stop().await;
    stand.down().await;
}
