//! A dead primary on real servers: nobody takes over while anybody is connected to it, whoever received most
//! does, nothing acknowledged is lost with semi-sync, and the old one comes back only without anything of its
//! own.

use crate::moving::{DEADLINE, Fleet, quick};
use fleet::ServerName;
use lab::{Fault, Spec};
use mysql_async::prelude::Queryable;
use std::time::Duration;
use switchover::facts;
use switchover::failover::confirm::Rule;
use switchover::failover::events;
use switchover::failover::rejoin::{self, RejoinOutcome};
use switchover::failover::risk::SourceEvidence;
use switchover::failover::scene::Scene;
use switchover::failover::source;
use switchover::failover::unfinished::{self, Found, Successor};
use switchover::journal::Journal;
use switchover::perform::{self, FenceBy, Outcome, Progress};
use switchover::step::{State, Step};
use switchover::{Error, Flags};

const RULE: Rule = Rule { looks: 3, over: Duration::from_millis(600) };

/// Servers that come up read-only, and truncate what was never acknowledged when they crashed.
fn three() -> Spec {
    Spec::new(&[("a", 2), ("b", 1)])
        .option("init_rpl_role", "SLAVE")
        .option("rpl_semi_sync_slave_enabled", "ON")
        .option("slave_net_timeout", "4")
}

async fn scene(fleet: &Fleet) -> Result<Scene, Error> {
    let (known, a1, logins) = (fleet.known(), ServerName::new("a1"), fleet.logins());
    Scene::read(&known, Some(&a1), &logins.admin, Duration::from_secs(5), &logins.flags).await
}

async fn take_over(fleet: &Fleet, scene: &Scene, fence: FenceBy) -> Outcome {
    let candidate = scene.choose(None).unwrap();
    let plan = scene.plan(&candidate, fence, quick(), "test").unwrap();
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    perform::run(&plan, &fleet.logins(), &mut journal, State::START, &|| false, &mut |_| ()).await.unwrap()
}

async fn rejoin(fleet: &Fleet, old: &str, new: &str) -> RejoinOutcome {
    let logins = fleet.logins();
    let known = fleet.known();
    let read = async |name: &str| {
        let server = known.server(&ServerName::new(name)).unwrap();
        facts::read(&server.name, &server.reach, &logins.admin, DEADLINE).await.unwrap()
    };
    rejoin::rejoin(&read(old).await, &read(new).await, &[], &logins, DEADLINE).await.unwrap()
}

async fn ids(fleet: &Fleet, server: &str) -> Vec<i64> {
    let mut conn = fleet.lab.connect(server).await.unwrap();
    conn.query("SELECT id FROM app.writes ORDER BY id").await.unwrap()
}

async fn receiver(fleet: &Fleet, server: &str, statement: &str) {
    fleet.lab.connect(server).await.unwrap().query_drop(statement).await.unwrap();
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_with_semi_sync_and_the_old_primary_follows_afterwards() {
    let fleet = Fleet::up(three()).await;
    fleet.semi_sync("a1", &["a2", "b1"]).await;
    let mut conn = fleet.lab.connect("a1").await.unwrap();
    let writing = tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        for number in 1i64.. {
            if conn.query_drop(format!("INSERT INTO app.writes VALUES ({number})")).await.is_err() {
                break;
            }
            acknowledged.push(number);
        }
        acknowledged
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let alive = scene(&fleet).await.unwrap();
    let refused = alive.confirm(&fleet.logins().admin, &RULE, DEADLINE).await.unwrap_err();
    assert!(refused.to_string().contains("it is not dead"), "{refused}");
    let seen = source::ask(&alive.primary, &fleet.logins().admin, DEADLINE).await;
    fleet.lab.fault("a1", Fault::Kill).await.unwrap();
    let acknowledged = writing.await.unwrap();
    assert!(!acknowledged.is_empty());
    let confirmed = alive.confirm(&fleet.logins().admin, &RULE, DEADLINE * 6).await.unwrap();
    assert!(confirmed.took >= RULE.over);
    let dead = scene(&fleet).await.unwrap();
    let facts = dead.rule_out_loss(&seen).unwrap();
    assert!(dead.rule_out_loss(&SourceEvidence::Unknown).is_err(), "nobody looked");
    let outcome = take_over(&fleet, &dead, FenceBy::SemiSync { facts }).await;
    assert_eq!(outcome.state, State::Done, "{outcome:#?}");
    assert_eq!(outcome.remarks, Vec::<String>::new());
    let new = dead.choose(None).unwrap().to_string();
    let found = ids(&fleet, &new).await;
    let lost: Vec<i64> = acknowledged.iter().copied().filter(|id| !found.contains(id)).collect();
    assert_eq!(lost, Vec::<i64>::new());
    assert!(!fleet.read_only(&new).await);
    fleet.lab.heal("a1").await.unwrap();
    assert_eq!(rejoin(&fleet, "a1", &new).await, RejoinOutcome::Follows);
    for server in ["a1", "a2", "b1"].iter().filter(|server| **server != new) {
        fleet.lab.wait_applied(server, &new, DEADLINE * 6).await.unwrap();
        assert!(fleet.read_only(server).await, "{server}");
        assert_eq!(ids(&fleet, server).await, found, "{server}");
    }
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn whoever_received_most_takes_over_once_it_has_applied_it_and_what_nobody_else_has_is_shown() {
    let fleet = Fleet::up(three()).await;
    let mut a1 = fleet.lab.connect("a1").await.unwrap();
    fleet.lab.fault("b1", Fault::Lag { seconds: 2 }).await.unwrap();
    receiver(&fleet, "a2", "STOP SLAVE IO_THREAD").await;
    a1.query_drop("INSERT INTO app.writes VALUES (1)").await.unwrap();
    let position: Option<String> = a1.query_first("SELECT @@GLOBAL.gtid_binlog_pos").await.unwrap();
    let until = std::time::Instant::now() + DEADLINE * 6;
    loop {
        let now = scene(&fleet).await.unwrap();
        let b1 = now.replicas.iter().find(|facts| facts.server.as_str() == "b1").unwrap();
        if Some(&b1.channels[0].received) == position.as_ref() {
            break;
        }
        assert!(std::time::Instant::now() < until, "b1 has not received it: {:?}", b1.channels);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    receiver(&fleet, "b1", "STOP SLAVE IO_THREAD").await;
    // Acknowledged, and on no replica: what asynchronous replication loses.
    a1.query_drop("INSERT INTO app.writes VALUES (2)").await.unwrap();
    fleet.lab.fault("a1", Fault::Kill).await.unwrap();
    let stopped = scene(&fleet).await.unwrap();
    let unseen = stopped.confirm(&fleet.logins().admin, &RULE, Duration::from_secs(2)).await.unwrap_err();
    assert!(unseen.to_string().contains("0 of 2 replicas have lost it"), "{unseen}");
    assert!(stopped.all_stopped());
    stopped.start_receivers(&fleet.logins().admin, DEADLINE).await.unwrap();
    stopped.confirm(&fleet.logins().admin, &RULE, DEADLINE * 6).await.unwrap();
    let dead = scene(&fleet).await.unwrap();
    let loss = dead.rule_out_loss(&SourceEvidence::Stated).unwrap_err();
    assert!(loss.to_string().contains("lost"), "{loss}");
    assert_eq!(dead.choose(None).unwrap().as_str(), "b1");
    let behind = dead.choose(Some(&ServerName::new("a2"))).unwrap_err();
    assert!(behind.to_string().contains("has received less than b1"), "{behind}");
    let outcome = take_over(&fleet, &dead, FenceBy::Nothing).await;
    assert_eq!(outcome.state, State::Done, "{outcome:#?}");
    assert_eq!(ids(&fleet, "b1").await, [1]);
    fleet.lab.connect("b1").await.unwrap().query_drop("INSERT INTO app.writes VALUES (3)").await.unwrap();
    fleet.lab.heal("a1").await.unwrap();
    let RejoinOutcome::Refused { own, mend } = rejoin(&fleet, "a1", "b1").await else {
        panic!("2 is on a1 alone")
    };
    assert_eq!(own.count, 1, "{own:?}");
    assert!(mend.contains("mariadb-backup"), "{mend}");
    assert!(fleet.read_only("a1").await);
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn nothing_is_promoted_when_the_command_that_fences_fails() {
    let fleet = Fleet::up(three()).await;
    fleet.lab.fault("a1", Fault::Kill).await.unwrap();
    let dead = scene(&fleet).await.unwrap();
    let outcome = take_over(&fleet, &dead, FenceBy::Command { command: "exit 3".to_owned() }).await;
    let State::Undone { why } = &outcome.state else { panic!("{outcome:#?}") };
    assert!(why.contains("a1: is not fenced") && why.contains("3"), "{why}");
    assert!(fleet.read_only("a2").await && fleet.read_only("b1").await);
    // One that takes too long fences nobody later on: what it has started ends with it.
    let started = fleet.journals.path().join("started");
    let command = format!("sleep 1000 & echo $! > '{}'; wait", started.display());
    let mut plan =
        dead.plan(&dead.choose(None).unwrap(), FenceBy::Command { command }, quick(), "test").unwrap();
    plan.deadlines.fence_ms = 2_500;
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let outcome = perform::run(&plan, &fleet.logins(), &mut journal, State::START, &|| false, &mut |_| ())
        .await
        .unwrap();
    let State::Undone { why } = &outcome.state else { panic!("{outcome:#?}") };
    assert!(why.contains("did not end within 2.5 s"), "{why}");
    let of_sleep = format!("/proc/{}/cmdline", std::fs::read_to_string(started).unwrap().trim());
    let until = std::time::Instant::now() + DEADLINE * 6;
    while std::fs::read_to_string(&of_sleep).is_ok_and(|line| line.starts_with("sleep")) {
        assert!(std::time::Instant::now() < until, "the sleep goes on");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let seen = fleet.journals.path().join("fenced");
    let command = format!("echo \"$1 $HEADROOM_ADDRESS\" > '{}'", seen.display());
    // Back since it was decided on: nothing is stopped, and nobody is promoted.
    fleet.lab.heal("a1").await.unwrap();
    let until = std::time::Instant::now() + DEADLINE * 6;
    let connected = |facts: &facts::Facts| facts.channels[0].receiver_runs;
    while !scene(&fleet).await.unwrap().replicas.iter().all(connected) {
        assert!(std::time::Instant::now() < until, "replicas connect to a1 again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let outcome = take_over(&fleet, &dead, FenceBy::Command { command: "true".to_owned() }).await;
    let State::Undone { why } = &outcome.state else { panic!("{outcome:#?}") };
    assert!(why.contains("is connected to it again"), "{why}");
    assert!(fleet.read_only("a2").await && fleet.read_only("b1").await);
    fleet.lab.fault("a1", Fault::Kill).await.unwrap();
    // Receivers try again: it can be confirmed and decided anew.
    dead.confirm(&fleet.logins().admin, &RULE, DEADLINE * 6).await.unwrap();
    let outcome = take_over(&fleet, &dead, FenceBy::Command { command }).await;
    assert_eq!(outcome.state, State::Done, "{outcome:#?}");
    let address = fleet.lab.real("a1").unwrap();
    assert_eq!(std::fs::read_to_string(seen).unwrap().trim(), format!("a1 {address}"));
    let new = dead.choose(None).unwrap();
    let mut conn = fleet.lab.connect(new.as_str()).await.unwrap();
    let kept: Option<String> = conn.query_first("SELECT plan FROM headroom.switchover").await.unwrap();
    let kept = kept.unwrap();
    assert!(kept.contains("a command was given") && !kept.contains("HEADROOM_ADDRESS"), "{kept}");
    assert!(outcome.steps.iter().all(|took| took.step != Step::Hold));
    fleet.lab.down().await.unwrap();
}

/// a2 has received what it cannot apply: at first somebody has locked the table, then the row is there
/// already.
#[tokio::test]
async fn a_wait_for_the_relay_logs_ends_when_somebody_asks_and_when_it_would_never_end() {
    let fleet = Fleet::up(three()).await;
    let mut locks = fleet.lab.connect("a2").await.unwrap();
    for statement in
        ["SET SESSION sql_log_bin = 0", "INSERT INTO app.writes VALUES (2)", "LOCK TABLES app.writes WRITE"]
    {
        locks.query_drop(statement).await.unwrap();
    }
    let mut a1 = fleet.lab.connect("a1").await.unwrap();
    a1.query_drop("INSERT INTO app.writes VALUES (1)").await.unwrap();
    a1.query_drop("INSERT INTO app.writes VALUES (2)").await.unwrap();
    let position: Option<String> = a1.query_first("SELECT @@GLOBAL.gtid_binlog_pos").await.unwrap();
    let has_received = async |fleet: &Fleet| {
        let replicas = scene(fleet).await.unwrap().replicas;
        let a2 = replicas.iter().find(|facts| facts.server.as_str() == "a2").unwrap();
        Some(&a2.channels[0].received) == position.as_ref()
    };
    let until = std::time::Instant::now() + DEADLINE * 6;
    while !has_received(&fleet).await {
        assert!(std::time::Instant::now() < until, "a2 has not received it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    fleet.lab.fault("a1", Fault::Kill).await.unwrap();
    let dead = scene(&fleet).await.unwrap();
    dead.confirm(&fleet.logins().admin, &RULE, DEADLINE * 6).await.unwrap();
    let mut plan = dead.plan(&ServerName::new("a2"), FenceBy::Nothing, quick(), "test").unwrap();
    plan.deadlines.await_ms = 600_000;

    // Asked for a while after the wait began.
    let waits = std::cell::Cell::new(None);
    let mut progress = |progress: Progress<'_>| {
        if matches!(progress, Progress::Begins { step: Step::Await, undo: false }) {
            waits.set(Some(std::time::Instant::now()));
        }
    };
    let asks = || waits.get().is_some_and(|at: std::time::Instant| at.elapsed() > Duration::from_millis(500));
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let (logins, minute) = (fleet.logins(), Duration::from_secs(60));
    let run = perform::run(&plan, &logins, &mut journal, State::START, &asks, &mut progress);
    let outcome = tokio::time::timeout(minute, run).await.unwrap().unwrap();
    assert_eq!(outcome.state, State::Undone { why: "interrupted".to_owned() }, "{outcome:#?}");
    assert!(fleet.read_only("a2").await && receivers_run(&fleet).await);

    // Its own row is in the way of the second one that it received.
    drop(locks);
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let mut progress = |_: Progress<'_>| ();
    let run = perform::run(&plan, &logins, &mut journal, State::START, &|| false, &mut progress);
    let outcome = tokio::time::timeout(minute, run).await.unwrap().unwrap();
    let State::Undecided { why } = &outcome.state else { panic!("{outcome:#?}") };
    assert!(why.contains("a2: its applying thread has stopped") && why.contains("Duplicate entry"), "{why}");
    assert!(fleet.read_only("a2").await && fleet.read_only("b1").await);
    // A start would throw its relay logs away.
    assert!(why.contains("Save these first") && has_received(&fleet).await, "{why}");
    fleet.lab.down().await.unwrap();
}

/// b1 does not acknowledge: once a2 is promoted nobody does, and its writes must not wait for that.
#[tokio::test]
async fn writes_do_not_wait_where_nobody_is_left_to_acknowledge() {
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)]).option("slave_net_timeout", "4")).await;
    let mut a1 = fleet.lab.connect("a1").await.unwrap();
    for event in ["nightly ON SCHEDULE EVERY 1 DAY", "stopped ON SCHEDULE EVERY 1 DAY DISABLE"] {
        let create = format!("CREATE DEFINER = 'root'@'localhost' EVENT app.{event} DO SELECT 1");
        a1.query_drop(create).await.unwrap();
    }
    fleet.semi_sync("a1", &["a2"]).await;
    fleet.lab.fault("a1", Fault::Kill).await.unwrap();
    let dead = scene(&fleet).await.unwrap();
    dead.confirm(&fleet.logins().admin, &RULE, DEADLINE * 6).await.unwrap();
    let a2 = ServerName::new("a2");
    // Only what is decided on is read while clients wait.
    assert!(dead.replicas.iter().all(|facts| facts.accounts.is_none() && facts.purged.is_none()));
    assert!(dead.semi_sync_stays_off(&a2) && !dead.semi_sync_stays_off(&ServerName::new("b1")));
    let plan = dead.plan(&a2, FenceBy::Nothing, quick(), "test").unwrap();
    assert!(plan.semi_sync_stays_off && !plan.semi_sync);
    // A replica calls both the same: which of them a1 ran nobody can tell, and neither is enabled.
    let left: Vec<&str> = plan.events_left.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(left, ["nightly", "stopped"]);
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let outcome = perform::run(&plan, &fleet.logins(), &mut journal, State::START, &|| false, &mut |_| ())
        .await
        .unwrap();
    let flags = Flags::new("--config f.toml");
    let result = switchover::text::outcome(&plan, &outcome, journal.path(), &flags, term::Paint::off());
    assert!(result.contains("headroom failover --rejoin a1 --config f.toml\n"), "{result}");
    assert!(result.contains("2 events do not run at a2"), "{result}");
    assert!(result.contains("ALTER DEFINER = 'root'@'localhost' EVENT `app`.`nightly` ENABLE"), "{result}");
    assert_eq!((outcome.state, outcome.remarks), (State::Done, Vec::new()));
    let mut conn = fleet.lab.connect("a2").await.unwrap();
    let written =
        tokio::time::timeout(DEADLINE * 6, conn.query_drop("INSERT INTO app.writes VALUES (1)")).await;
    written.expect("it waits for nobody").unwrap();
    // What a1 ran it runs no more once it is back, and it alone knows which that was.
    conn.query_drop("GRANT SET USER ON *.* TO admin").await.unwrap();
    fleet.lab.heal("a1").await.unwrap();
    assert_eq!(rejoin(&fleet, "a1", "a2").await, RejoinOutcome::Follows);
    let (logins, known) = (fleet.logins(), fleet.known());
    let read = async |name: &str| {
        let server = known.server(&ServerName::new(name)).unwrap();
        facts::read(&server.name, &server.reach, &logins.admin, DEADLINE).await.unwrap()
    };
    let stopped = events::stop(&read("a1").await, &read("a2").await, &logins.admin, DEADLINE).await;
    let [note] = stopped.notes.as_slice() else { panic!("{stopped:?}") };
    assert!(note.contains("EVENT `app`.`nightly` ENABLE") && !note.contains("`stopped`"), "{note}");
    assert_eq!(stopped.remarks, Vec::<String>::new());
    let ask = "SELECT STATUS FROM information_schema.EVENTS WHERE EVENT_NAME = 'nightly'";
    for server in ["a1", "a2"] {
        let mut conn = fleet.lab.connect(server).await.unwrap();
        let status: Option<String> = conn.query_first(ask).await.unwrap();
        assert_eq!(status.as_deref(), Some("SLAVESIDE_DISABLED"), "{server}");
    }
    fleet.lab.down().await.unwrap();
}

async fn unfinished(fleet: &Fleet) -> Result<Found, Error> {
    let admin = fleet.logins().admin;
    let flags = Flags::default();
    let successor = Successor { who: &admin, by: "another", deadlines: quick(), flags: &flags };
    unfinished::find(&fleet.known(), successor, Duration::from_secs(5)).await
}

async fn receivers_run(fleet: &Fleet) -> bool {
    let tries = |facts: &facts::Facts| facts.channels[0].receiver_tries && facts.channels[0].applier_runs;
    scene(fleet).await.unwrap().replicas.iter().all(tries)
}

/// The journal is on a host that was lost: nobody was promoted, or a2 was and nobody else knows.
#[tokio::test]
async fn another_host_ends_what_was_cut_off_by_what_the_servers_show() {
    let fleet = Fleet::up(three()).await;
    fleet.semi_sync("a1", &["a2", "b1"]).await;
    assert!(matches!(unfinished(&fleet).await.unwrap(), Found::Nothing));
    fleet.lab.fault("a1", Fault::Kill).await.unwrap();
    let lost = fleet.journals.path().join("lost");
    for step in [Step::Await, Step::StopReplication] {
        fleet.cut_off(&lost, step).await;
        let Found::NobodyPromoted(stopped) = unfinished(&fleet).await.unwrap() else { panic!("{step}") };
        assert_eq!(stopped.primary.as_str(), "a1");
        stopped.start(&fleet.logins().admin, DEADLINE).await.unwrap();
        assert!(receivers_run(&fleet).await, "{step}");
        assert!(matches!(unfinished(&fleet).await.unwrap(), Found::Nothing), "{step}");
    }
    fleet.cut_off(&lost, Step::Mark).await;
    let Found::Promoted(left) = unfinished(&fleet).await.unwrap() else { panic!("a2 was promoted") };
    assert_eq!((left.from, left.plan.semi_sync), (Step::Mark, true), "{}", left.why);
    let mut journal = Journal::create(fleet.journals.path(), &left.plan).unwrap();
    let state = State::Forward { step: left.from };
    let outcome =
        perform::run(&left.plan, &fleet.logins(), &mut journal, state, &|| false, &mut |_| ()).await.unwrap();
    assert_eq!((outcome.state, outcome.remarks), (State::Done, Vec::new()));
    let mut conn = fleet.lab.connect("a2").await.unwrap();
    conn.query_drop("INSERT INTO app.writes VALUES (1)").await.unwrap();
    fleet.lab.wait_applied("b1", "a2", DEADLINE * 6).await.unwrap();
    assert!(matches!(unfinished(&fleet).await.unwrap(), Found::Nothing));
    fleet.lab.heal("a1").await.unwrap();
    assert_eq!(rejoin(&fleet, "a1", "a2").await, RejoinOutcome::Follows);
    assert!(matches!(unfinished(&fleet).await.unwrap(), Found::Nothing));
    fleet.lab.down().await.unwrap();
}

/// A replica that somebody opened to writes is no new primary.
#[tokio::test]
async fn a_replica_that_was_opened_by_mistake_is_not_gone_on_with() {
    let fleet = Fleet::up(three()).await;
    receiver(&fleet, "a2", "SET GLOBAL read_only = OFF").await;
    let two = unfinished(&fleet).await.unwrap_err().to_string();
    assert!(two.contains("takes writes, and so does a2"), "{two}");
    receiver(&fleet, "a2", "STOP SLAVE").await;
    // Seen from where a1 cannot be read: b1 is connected to it.
    let mut known = fleet.known();
    known.servers.retain(|server| server.name.as_str() != "a1");
    let admin = fleet.logins().admin;
    let flags = Flags::default();
    let successor = Successor { who: &admin, by: "another", deadlines: quick(), flags: &flags };
    let refused = unfinished::find(&known, successor, DEADLINE).await.unwrap_err().to_string();
    assert!(refused.contains("takes writes"), "{refused}");
    fleet.lab.down().await.unwrap();
}
