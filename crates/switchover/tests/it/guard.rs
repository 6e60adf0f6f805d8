//! Guards on real servers: one of two acts, a second one takes its place, a pause is kept, and a second death
//! is left to a person.

use crate::moving::{DEADLINE, Fleet};
use config::{Credentials, FleetConfig};
use fleet::{Address, ServerName};
use lab::{Account, Fault, Spec};
use mysql_async::prelude::Queryable;
use observe::Watcher;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use switchover::Flags;
use switchover::facts;
use switchover::failover::confirm::Rule;
use switchover::failover::rejoin::{self, RejoinOutcome};
use switchover::failover::risk::LossRisk;
use switchover::guard::decide::Caution;
use switchover::guard::status::{self, GuardOverview};
use switchover::guard::{Guard, GuardOptions, GuardStatus};
use switchover::perform::Deadlines;
use switchover::step::Step;

/// A busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

type Gray = tokio::sync::watch::Receiver<Option<(ServerName, String)>>;

/// A guard as a process would be: its connections end with it.
pub(crate) struct Running {
    thread: std::thread::JoinHandle<()>,
    kill: tokio::sync::oneshot::Sender<()>,
    status: Arc<Mutex<Option<GuardStatus>>>,
    by: &'static str,
    journals: std::path::PathBuf,
}

impl Running {
    fn start(fleet: &Fleet, by: &'static str) -> Self {
        Self::start_with(fleet, by, None)
    }

    /// One that acts on this evidence that the primary is gray.
    pub(crate) fn start_with(fleet: &Fleet, by: &'static str, gray: Option<Gray>) -> Self {
        let options = GuardOptions {
            interval: Duration::from_millis(200),
            deadline: Duration::from_secs(2),
            rule: Rule { looks: 3, over: Duration::from_millis(600) },
            within: Duration::from_secs(30),
            caution: Caution { not_again_within: Duration::from_secs(3600), act_on_gray: gray.is_some() },
            dry_run: false,
            fence: None,
            deadlines: Deadlines { verify_ms: 5_000, ..Deadlines::default() },
            journals: fleet.journals.path().join(by),
            by: by.to_owned(),
            flags: Flags::default(),
        };
        let (config, admin, journals) = (config(fleet), fleet.logins().admin, options.journals.clone());
        let status = Arc::new(Mutex::new(None));
        let told = status.clone();
        let (kill, killed) = tokio::sync::oneshot::channel::<()>();
        let guarding = async move || {
            let watcher = Watcher::start(config);
            let guard = Guard::new(options, admin, watcher.snapshots(), gray).unwrap();
            let tell = |status: &GuardStatus| *told.lock().unwrap() = Some(status.clone());
            tokio::select! {
                () = guard.run(std::future::pending(), tell) => {}
                _ = killed => {}
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let thread = std::thread::spawn(move || runtime.block_on(guarding()));
        Self { thread, kill, status, by, journals }
    }

    pub(crate) async fn until(&self, what: &str, is: impl Fn(&GuardStatus) -> bool) -> GuardStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            let status = self.status.lock().unwrap().clone();
            if let Some(status) = status.as_ref().filter(|status| is(status)) {
                return status.clone();
            }
            assert!(Instant::now() < until, "{}: not {what}: {status:#?}\n{}", self.by, self.journal());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// How far it came, for whoever reads why a test failed.
    fn journal(&self) -> String {
        let newest = switchover::journal::newest(&self.journals);
        newest.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
    }

    fn is_active(&self) -> bool {
        self.status.lock().unwrap().as_ref().is_some_and(|status| status.active)
    }

    /// As kill -9 would.
    pub(crate) async fn kill(self) {
        let _ = self.kill.send(());
        tokio::task::spawn_blocking(|| self.thread.join()).await.unwrap().unwrap();
    }
}

fn config(fleet: &Fleet) -> FleetConfig {
    let credentials = Credentials {
        user: Some("headroom".to_owned()),
        password: Some(fleet.lab.password(Account::Headroom).to_owned()),
        ..Credentials::default()
    };
    let address = |name: &String| {
        let real = fleet.lab.real(name).unwrap();
        Address::tcp(real.ip().to_string(), real.port())
    };
    let seeds = fleet.lab.servers().iter().map(address).collect();
    FleetConfig { seeds, credentials, interval: Duration::from_millis(200), ..FleetConfig::default() }
}

async fn writers(fleet: &Fleet) -> Vec<&'static str> {
    let mut writers = Vec::new();
    for server in ["a1", "a2", "b1"] {
        if let Ok(mut conn) = fleet.lab.connect(server).await {
            let read_only: Option<String> = conn.query_first("SELECT @@GLOBAL.read_only").await.unwrap();
            if matches!(read_only.as_deref(), Some("0" | "OFF")) {
                writers.push(server);
            }
        }
    }
    writers
}

async fn failovers(fleet: &Fleet, server: &str) -> Option<i64> {
    let mut conn = fleet.lab.connect(server).await.unwrap();
    conn.query_first("SELECT COUNT(*) FROM headroom.switchover WHERE state = 'done'").await.unwrap()
}

#[tokio::test]
async fn one_of_two_guards_acts_once_and_neither_while_paused_or_a_second_time() {
    let spec = Spec::new(&[("a", 2), ("b", 1)])
        .option("init_rpl_role", "SLAVE")
        .option("rpl_semi_sync_slave_enabled", "ON")
        .option("slave_net_timeout", "4");
    let fleet = Fleet::up(spec).await;
    fleet.semi_sync("a1", &["a2", "b1"]).await;
    let (one, two) = (Running::start(&fleet, "one"), Running::start(&fleet, "two"));
    let until = Instant::now() + PATIENCE;
    while one.is_active() == two.is_active() {
        assert!(Instant::now() < until, "one of two is active");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (active, standby) = if one.is_active() { (one, two) } else { (two, one) };
    standby.until("standing by", |status| status.decision.word() == "standby" && status.rounds > 2).await;

    // Paused: nothing happens. It is known from the primary, before any replica has it.
    let (who, snapshot) = (fleet.logins().admin, observe::survey(&config(&fleet)).await);
    for replica in ["a2", "b1"] {
        fleet.lab.connect(replica).await.unwrap().query_drop("STOP SLAVE SQL_THREAD").await.unwrap();
    }
    let paused =
        status::pause(&snapshot, &who, true, None, "a person", "a new disk", DEADLINE).await.unwrap();
    active.until("paused", |status| status.pause.is_some()).await;
    let mut waited = 0;
    let brief = Duration::from_secs(2);
    let waits = |left: &[ServerName]| waited = left.len();
    let late = status::replicas_without(paused.generation, &snapshot, &who, brief, DEADLINE, waits).await;
    assert_eq!((late.len(), waited), (2, 2), "{late:?}");
    for replica in ["a2", "b1"] {
        fleet.lab.connect(replica).await.unwrap().query_drop("START SLAVE SQL_THREAD").await.unwrap();
    }
    let late = status::replicas_without(paused.generation, &snapshot, &who, PATIENCE, DEADLINE, |_| ()).await;
    assert_eq!(late, Vec::<ServerName>::new());
    let found = GuardOverview::read(&snapshot, &who, DEADLINE, &Flags::default()).await;
    assert!(found.is_guarded() && found.pause.is_some() && found.loss.is_ok(), "{found:#?}");
    fleet.lab.fault("a1", Fault::Kill).await.unwrap();
    let paused = active.until("paused beside a dead primary", |s| s.decision.word() == "paused").await;
    active.until("still looking", |status| status.rounds > paused.rounds + 4).await;
    assert_eq!(writers(&fleet).await, Vec::<&str>::new());
    fleet.lab.heal("a1").await.unwrap();
    // Restarted in place without the switch: its replicas show the same as before, and it does not wait.
    // A replica that found nobody looks again after a minute.
    let until = Instant::now() + 2 * PATIENCE;
    loop {
        let snapshot = observe::survey(&config(&fleet)).await;
        let restarted = GuardOverview::read(&snapshot, &who, DEADLINE, &Flags::default()).await.loss;
        if restarted == Err(LossRisk::SourceOff) {
            break;
        }
        assert!(Instant::now() < until, "{restarted:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    fleet.semi_sync("a1", &["a2", "b1"]).await;
    active.until("well again", |status| status.decision.word() == "watch").await;
    let snapshot = observe::survey(&config(&fleet)).await;
    status::pause(&snapshot, &who, false, None, "a person", "", DEADLINE).await.unwrap();
    standby.until("not paused", |status| status.pause.is_none()).await;
    active.until("not paused", |status| status.pause.is_none()).await;

    // Closed to writes, as one that was restarted is: nobody is dead, and nobody takes writes.
    fleet.lab.connect("a1").await.unwrap().query_drop("SET GLOBAL read_only = ON").await.unwrap();
    let closed = active.until("asking for a1 to be opened", |status| status.decision.word() == "ask").await;
    assert!(closed.decision.why().contains("SET GLOBAL read_only = OFF"), "{closed:#?}");
    assert!(closed.metrics().contains("headroom_guard_person_needed 1"), "{}", closed.metrics());
    standby.until("leaving it to the active one", |status| status.decision.word() == "standby").await;
    fleet.lab.connect("a1").await.unwrap().query_drop("SET GLOBAL read_only = OFF").await.unwrap();
    active.until("well again", |status| status.decision.word() == "watch").await;

    // The primary and the active guard die together: the other one acts, once.
    fleet.lab.fault("a1", Fault::Kill).await.unwrap();
    active.kill().await;
    standby.until("failed over", |status| status.failovers == 1).await;
    let third = Running::start(&fleet, "third");
    let writers = writers(&fleet).await;
    let [new] = writers.as_slice() else { panic!("{writers:?} take writes") };
    assert_eq!(failovers(&fleet, new).await, Some(1));

    // The old one is brought back; then the new one dies, too soon: a person is asked, and nobody acts.
    fleet.lab.heal("a1").await.unwrap();
    let (logins, known) = (fleet.logins(), fleet.known());
    let read = async |name: &str| {
        let server = known.server(&ServerName::new(name)).unwrap();
        facts::read(&server.name, &server.reach, &logins.admin, DEADLINE).await.unwrap()
    };
    let rejoined = rejoin::rejoin(&read("a1").await, &read(new).await, &[], &logins, DEADLINE).await.unwrap();
    assert_eq!(rejoined, RejoinOutcome::Follows);
    let guarded = |status: &GuardStatus| status.decision.word() == "watch" && status.lock.held == 2;
    standby.until("guarding the new primary", guarded).await;
    fleet.lab.fault(new, Fault::Kill).await.unwrap();
    let asks = standby.until("asking", |status| status.decision.word() == "ask").await;
    assert!(asks.decision.why().contains("a second one is for a person"), "{asks:#?}");
    assert!(asks.metrics().contains("headroom_guard_person_needed 1"), "{}", asks.metrics());
    standby.until("still asking", |status| status.rounds > asks.rounds + 4).await;
    assert!(!third.is_active());
    assert_eq!(self::writers(&fleet).await, Vec::<&str>::new());
    let journal =
        std::fs::read_to_string(fleet.journals.path().join(standby.by).join("guard.jsonl")).unwrap();
    assert!(
        journal.contains("\"decision\":\"act\"") && journal.contains("\"decision\":\"ask\""),
        "{journal}"
    );
    standby.kill().await;
    third.kill().await;
    fleet.lab.down().await.unwrap();
}

/// The guard is killed between the promotion and its record: the next one of that name finishes it.
#[tokio::test]
async fn a_failover_that_was_cut_off_is_finished_by_the_guard_that_comes_next() {
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)]).option("slave_net_timeout", "4")).await;
    fleet.lab.fault("a1", Fault::Kill).await.unwrap();
    fleet.cut_off(&fleet.journals.path().join("one"), Step::Mark).await;
    let next = Running::start(&fleet, "one");
    let done = next.until("finished", |status| status.failovers == 1).await;
    assert!(done.last_attempt.as_ref().is_some_and(|text| text.contains("a2 takes writes")), "{done:#?}");
    assert_eq!(failovers(&fleet, "a2").await, Some(1));
    fleet.lab.connect("a2").await.unwrap().query_drop("INSERT INTO app.writes VALUES (1)").await.unwrap();
    fleet.lab.wait_applied("b1", "a2", DEADLINE * 6).await.unwrap();
    next.kill().await;
    fleet.lab.down().await.unwrap();
}

/// The host of the tool that failed over was lost: a guard elsewhere tells the replicas.
#[tokio::test]
async fn a_failover_that_another_host_recorded_and_did_not_end_is_ended() {
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)]).option("slave_net_timeout", "4")).await;
    fleet.lab.fault("a1", Fault::Kill).await.unwrap();
    fleet.cut_off(&fleet.journals.path().join("elsewhere"), Step::Repoint).await;
    assert_eq!(failovers(&fleet, "a2").await, Some(1));
    let guard = Running::start(&fleet, "another");
    let done = guard.until("ended", |status| status.failovers == 1).await;
    assert!(
        done.last_attempt.as_ref().is_some_and(|text| text.contains("takes writes in the place of")),
        "{done:#?}"
    );
    fleet.lab.connect("a2").await.unwrap().query_drop("INSERT INTO app.writes VALUES (1)").await.unwrap();
    fleet.lab.wait_applied("b1", "a2", DEADLINE * 6).await.unwrap();
    assert_eq!(failovers(&fleet, "a2").await, Some(1));
    guard.kill().await;
    fleet.lab.down().await.unwrap();
}
