//! A primary that answers while its commits hang, made for real: its data stands on a small disk of its own,
//! which is frozen, or filled, while clients write. A replica takes over, nothing acknowledged is lost, and
//! the old one comes back once its disk does.

use crate::guard::Running;
use crate::moving::{DEADLINE, Fleet, quick};
use fleet::ServerName;
use lab::{Account, Fault, Spec};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use switchover::facts;
use switchover::failover::confirm::Rule;
use switchover::failover::rejoin::{self, RejoinOutcome};
use switchover::failover::scene::Scene;
use switchover::failover::source;
use switchover::journal::Journal;
use switchover::perform::{self, FenceBy, Progress};
use switchover::step::State;

/// A busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(90);
const RULE: Rule = Rule { looks: 3, over: Duration::from_secs(2) };

/// What the disk of the primary does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    Hangs,
    IsFull,
}

impl Disk {
    pub(crate) fn begin(self, fleet: &Fleet) {
        let disk = fleet.disk.as_ref().unwrap();
        match self {
            Self::Hangs => disk.freeze(),
            Self::IsFull => disk.fill(),
        }
    }

    pub(crate) fn end(self, fleet: &Fleet) {
        let disk = fleet.disk.as_ref().unwrap();
        match self {
            Self::Hangs => disk.thaw(),
            Self::IsFull => disk.empty(),
        }
    }
}

/// Clients of the primary: each inserts rows of some KiB, one a transaction, and remembers what it was told
/// is written.
pub(crate) struct Writers {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<BTreeSet<i64>>>,
}

impl Writers {
    pub(crate) const TABLE: &str = "CREATE TABLE app.appends (id BIGINT NOT NULL PRIMARY KEY, text TEXT)";

    pub(crate) fn start(fleet: &Fleet) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let opts = fleet.lab.opts("a", "a1", Account::App).unwrap();
        let write = |client: i64| tokio::spawn(append(opts.clone(), client * 1_000_000, stop.clone()));
        Self { tasks: (1..=4).map(write).collect(), stop }
    }

    /// What they were told is written.
    pub(crate) async fn stop(self) -> BTreeSet<i64> {
        self.stop.store(true, Relaxed);
        let mut acknowledged = BTreeSet::new();
        for task in self.tasks {
            acknowledged.append(&mut task.await.unwrap());
        }
        acknowledged
    }
}

async fn append(opts: Opts, mut number: i64, stop: Arc<AtomicBool>) -> BTreeSet<i64> {
    let (mut acknowledged, limit) = (BTreeSet::new(), Duration::from_secs(3));
    while !stop.load(Relaxed) {
        let Ok(Ok(mut conn)) = tokio::time::timeout(limit, Conn::new(opts.clone())).await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        while !stop.load(Relaxed) {
            number += 1;
            let insert = format!("INSERT INTO app.appends VALUES ({number}, REPEAT('x', 3000))");
            match tokio::time::timeout(limit, conn.query_drop(insert)).await {
                Ok(Ok(())) => acknowledged.insert(number),
                _ => break,
            };
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    acknowledged
}

pub(crate) fn spec() -> Spec {
    Spec::new(&[("a", 2), ("b", 1)])
        .option("read_only", "ON")
        .option("init_rpl_role", "SLAVE")
        .option("rpl_semi_sync_slave_enabled", "ON")
        .option("rpl_semi_sync_master_timeout", "86400000")
        .option("slave_net_timeout", "4")
}

async fn up() -> Fleet {
    let fleet = Fleet::up_read_only(spec()).await.on_small_disk().await;
    fleet.semi_sync("a1", &["a2", "b1"]).await;
    fleet.lab.connect("a1").await.unwrap().query_drop(Writers::TABLE).await.unwrap();
    fleet
}

pub(crate) async fn ids(fleet: &Fleet, server: &str) -> BTreeSet<i64> {
    let mut conn = fleet.lab.connect(server).await.unwrap();
    let ids: Vec<i64> = conn.query("SELECT id FROM app.appends").await.unwrap();
    ids.into_iter().collect()
}

pub(crate) async fn scene(fleet: &Fleet) -> Scene {
    let (known, a1, logins) = (fleet.known(), ServerName::new("a1"), fleet.logins());
    let limit = Duration::from_secs(5);
    Scene::read(&known, Some(&a1), &logins.admin, limit, &logins.flags).await.unwrap()
}

/// Waits until `failover --gray` would believe it; the evidence.
pub(crate) async fn gray(fleet: &Fleet) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        match scene(fleet).await.confirm_gray(&fleet.logins().admin, &RULE, Duration::from_secs(2)).await {
            Ok(evidence) => return evidence,
            Err(error) => assert!(Instant::now() < until, "not gray: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn rejoin(fleet: &Fleet, new: &str) -> Result<RejoinOutcome, switchover::Error> {
    let (logins, known) = (fleet.logins(), fleet.known());
    let read = async |name: &str| {
        let server = known.server(&ServerName::new(name)).unwrap();
        facts::read(&server.name, &server.reach, &logins.admin, DEADLINE).await
    };
    rejoin::rejoin(&read("a1").await?, &read(new).await?, &[], &logins, DEADLINE).await
}

/// The disk works again; the old primary is ended, as a fence would, and comes back as a replica.
async fn comes_back(fleet: &Fleet, disk: Disk, new: &str, acknowledged: &BTreeSet<i64>) {
    let found = ids(fleet, new).await;
    let lost: Vec<_> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    disk.end(fleet);
    fleet.lab.fault("a1", Fault::Kill).await.unwrap();
    fleet.lab.heal("a1").await.unwrap();
    assert_eq!(rejoin(fleet, new).await.unwrap(), RejoinOutcome::Follows);
    for server in ["a1", "a2", "b1"].into_iter().filter(|server| *server != new) {
        fleet.lab.wait_applied(server, new, DEADLINE * 6).await.unwrap();
        assert!(fleet.read_only(server).await, "{server}");
        assert_eq!(ids(fleet, server).await, ids(fleet, new).await, "{server}");
    }
}

async fn is_replaced(disk: Disk) {
    if !testkit::root_or_not_tested("a disk of its own needs root") {
        return;
    }
    let fleet = up().await;
    let logins = fleet.logins();
    let writers = Writers::start(&fleet);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let well = scene(&fleet).await.confirm_gray(&logins.admin, &RULE, DEADLINE).await.unwrap_err();
    disk.begin(&fleet);
    let evidence = gray(&fleet).await;
    assert!(matches!(well, switchover::Error::Refused { .. }), "a healthy one is left alone: {well}");
    assert!(evidence.contains("none has ended"), "{evidence}");
    assert_eq!(evidence.contains("disk is full"), disk == Disk::IsFull, "{evidence}");
    let scene = scene(&fleet).await;
    let seen = source::ask(&scene.primary, &logins.admin, DEADLINE).await;
    let fence = FenceBy::SemiSync { facts: scene.rule_out_loss(&seen).unwrap() };
    let candidate = scene.choose(None).unwrap();
    let plan = scene.plan(&candidate, fence, quick(), "test").unwrap().of_gray_primary();
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let mut steps = Vec::new();
    let mut progress = |progress: Progress<'_>| match progress {
        Progress::Begins { step, .. } => steps.push(format!("{step}")),
        Progress::Ended { event, took, .. } => steps.push(format!("{event:?} {took:?}")),
    };
    let run = perform::run(&plan, &logins, &mut journal, State::START, &|| false, &mut progress);
    let outcome = tokio::time::timeout(PATIENCE, run).await;
    let outcome = outcome.unwrap_or_else(|_| panic!("hangs: {steps:#?}")).unwrap();
    assert_eq!(outcome.state, State::Done, "{outcome:#?}");
    assert_eq!(outcome.remarks, Vec::<String>::new());
    let new = candidate.to_string();
    // Reads go on there, and it still says that it takes writes.
    assert!(!fleet.read_only("a1").await && !fleet.read_only(&new).await);
    let acknowledged = writers.stop().await;
    assert!(!acknowledged.is_empty());
    comes_back(&fleet, disk, &new, &acknowledged).await;
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn a_primary_whose_disk_hangs_is_replaced_and_comes_back_without_a_loss() {
    is_replaced(Disk::Hangs).await;
}

#[tokio::test]
async fn a_primary_whose_disk_is_full_is_replaced_and_comes_back_without_a_loss() {
    is_replaced(Disk::IsFull).await;
}

async fn is_replaced_by_a_guard(disk: Disk) {
    if !testkit::root_or_not_tested("a disk of its own needs root") {
        return;
    }
    let fleet = up().await;
    let (names, gray) = tokio::sync::watch::channel(None);
    let guard = Running::start_with(&fleet, "guard", Some(gray));
    let writers = Writers::start(&fleet);
    let active =
        guard.until("active", |s| s.active && s.decision.word() == "watch" && s.primary.is_some()).await;
    disk.begin(&fleet);
    // What a router would say.
    let a1 = active.primary.unwrap();
    names.send_replace(Some((a1.clone(), "3 commits under way, none has ended for 5 s".to_owned())));
    let done = guard.until("failed over", |status| status.failovers == 1).await;
    let attempt = done.last_attempt.unwrap();
    assert!(attempt.contains(&format!("in the place of {a1}")), "{attempt}");
    let took_over = |name: &&str| attempt.starts_with(&fleet.lab.real(name).unwrap().to_string());
    let new = ["a2", "b1"].into_iter().find(took_over).unwrap();
    let acknowledged = writers.stop().await;
    comes_back(&fleet, disk, new, &acknowledged).await;
    guard.kill().await;
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn a_guard_that_may_replaces_a_primary_whose_disk_hangs() {
    is_replaced_by_a_guard(Disk::Hangs).await;
}

#[tokio::test]
async fn a_guard_that_may_replaces_a_primary_whose_disk_is_full() {
    is_replaced_by_a_guard(Disk::IsFull).await;
}
