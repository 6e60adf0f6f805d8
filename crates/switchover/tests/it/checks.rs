//! Every check that stops a switchover, brought about on real servers and mended again.

use crate::moving::{DEADLINE, Fleet, quick};
use lab::Spec;
use mysql_async::prelude::Queryable;
use std::time::{Duration, Instant};
use switchover::check::{Finding, Level, Limits};
use switchover::journal::Journal;
use switchover::perform;
use switchover::step::{State, Step};
use testkit::mysqld;

async fn findings(fleet: &Fleet, limits: Limits) -> Vec<Finding> {
    fleet.survey("a2").await.checks(limits, true)
}

/// Waits until this check, and no other, stops a move to a2, and returns its facts.
async fn only_stop(fleet: &Fleet, check: &str, limits: Limits) -> String {
    let until = Instant::now() + DEADLINE * 3;
    loop {
        let findings = findings(fleet, limits).await;
        let stops: Vec<_> = findings.iter().filter(|finding| finding.level == Level::Stop).collect();
        match stops.as_slice() {
            [stop] if stop.check == check => {
                assert!(stop.mend.as_ref().is_some_and(|mend| !mend.is_empty()), "{stop:?}");
                return stop.facts.clone();
            }
            _ => {
                let found = findings.iter().find(|finding| finding.check == check);
                assert!(Instant::now() < until, "{stops:#?} {found:?}");
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn no_stop(fleet: &Fleet) {
    let until = Instant::now() + DEADLINE * 3;
    loop {
        let findings = findings(fleet, Limits::default()).await;
        let stops: Vec<_> = findings.iter().filter(|finding| finding.level == Level::Stop).collect();
        if stops.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "{stops:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn on(fleet: &Fleet, server: &str, statements: &[&str]) {
    let mut conn = fleet.lab.connect(server).await.unwrap();
    for statement in statements {
        conn.query_drop(*statement).await.unwrap_or_else(|error| panic!("{server}: {statement}: {error}"));
    }
    conn.disconnect().await.unwrap();
}

#[tokio::test]
async fn each_check_that_stops_is_seen_on_real_servers_and_passes_once_it_is_mended() {
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)])).await;
    let limits = Limits::default();
    no_stop(&fleet).await;

    on(&fleet, "a2", &["STOP SLAVE SQL_THREAD"]).await;
    let findings = findings(&fleet, limits).await;
    let stopped = findings.iter().find(|finding| finding.check == "threads run").unwrap();
    assert!(stopped.level == Level::Stop && stopped.facts.contains("applying thread of a2"), "{stopped:?}");
    on(&fleet, "a2", &["START SLAVE"]).await;
    no_stop(&fleet).await;

    on(&fleet, "a2", &["STOP SLAVE", "CHANGE MASTER TO MASTER_USE_GTID = no", "START SLAVE"]).await;
    assert!(only_stop(&fleet, "GTID", limits).await.contains("by file and offset"));
    on(&fleet, "a2", &["STOP SLAVE", "CHANGE MASTER TO MASTER_USE_GTID = slave_pos", "START SLAVE"]).await;
    no_stop(&fleet).await;

    on(
        &fleet,
        "a1",
        &["XA START 'left'", "INSERT INTO app.writes VALUES (1)", "XA END 'left'", "XA PREPARE 'left'"],
    )
    .await;
    let until = Instant::now() + DEADLINE;
    // The prepared transaction is detached from its session a moment after that has ended.
    loop {
        let mut conn = fleet.lab.connect("a1").await.unwrap();
        let there: Vec<mysql_async::Row> = conn.query("XA RECOVER").await.unwrap();
        if !there.is_empty() {
            break;
        }
        assert!(Instant::now() < until);
    }
    assert!(
        only_stop(&fleet, "XA", Limits { transaction: DEADLINE * 6, ..limits }).await.contains("1 prepared")
    );
    on(&fleet, "a1", &["XA ROLLBACK 'left'"]).await;
    no_stop(&fleet).await;

    let mut open = fleet.lab.connect("a1").await.unwrap();
    open.query_drop("BEGIN").await.unwrap();
    open.query_drop("INSERT INTO app.writes VALUES (2)").await.unwrap();
    let brief = Limits { transaction: Duration::from_secs(1), ..limits };
    let facts = only_stop(&fleet, "open transactions", brief).await;
    assert!(facts.contains(&format!("session {}", open.id())), "{facts}");
    open.query_drop("ROLLBACK").await.unwrap();
    no_stop(&fleet).await;

    on(&fleet, "a1", &["SET sql_log_bin = 0", "CREATE USER only_here@localhost"]).await;
    assert!(only_stop(&fleet, "accounts", limits).await.contains("only_here@localhost"));
    on(&fleet, "a1", &["SET sql_log_bin = 0", "DROP USER only_here@localhost"]).await;
    no_stop(&fleet).await;

    // b1 stands still while a2 throws away what b1 would need.
    on(&fleet, "b1", &["STOP SLAVE"]).await;
    on(&fleet, "a1", &["INSERT INTO app.writes VALUES (3)"]).await;
    fleet.lab.wait_applied("a2", "a1", DEADLINE).await.unwrap();
    purge(&fleet, "a2", "SHOW MASTER STATUS").await;
    assert!(only_stop(&fleet, "purged logs", limits).await.starts_with("b1 lacks"));
    on(&fleet, "b1", &["START SLAVE"]).await;
    no_stop(&fleet).await;

    // Last: a history of its own is not mended.
    on(&fleet, "a2", &["INSERT INTO app.writes VALUES (4)"]).await;
    assert!(only_stop(&fleet, "errant transactions", limits).await.starts_with("a2 has"));
    fleet.lab.down().await.unwrap();
}

/// All logs but the last.
async fn purge(fleet: &Fleet, server: &str, status: &str) {
    let mut conn = fleet.lab.connect(server).await.unwrap();
    conn.query_drop("FLUSH BINARY LOGS").await.unwrap();
    let row: mysql_async::Row = conn.query_first(status).await.unwrap().unwrap();
    let last: String = row.get(0).unwrap();
    // MariaDB keeps one that its storage engine may still need, without a word.
    let until = Instant::now() + DEADLINE * 3;
    loop {
        conn.query_drop(format!("PURGE BINARY LOGS TO '{last}'")).await.unwrap();
        let logs: Vec<mysql_async::Row> = conn.query("SHOW BINARY LOGS").await.unwrap();
        if logs.len() == 1 {
            return;
        }
        assert!(Instant::now() < until, "{server} keeps {} logs", logs.len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) async fn purged_logs_and_a_held_lock_stop_it_on_mysql() {
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)]).program(mysqld())).await;
    let limits = Limits::default();
    no_stop(&fleet).await;
    on(&fleet, "b1", &["STOP REPLICA"]).await;
    on(&fleet, "a1", &["INSERT INTO app.writes VALUES (3)"]).await;
    fleet.lab.wait_applied("a2", "a1", DEADLINE).await.unwrap();
    purge(&fleet, "a2", "SHOW BINARY LOG STATUS").await;
    assert!(only_stop(&fleet, "purged logs", limits).await.starts_with("b1 lacks"));
    on(&fleet, "b1", &["START REPLICA"]).await;
    no_stop(&fleet).await;
    // A session that holds the lock and does nothing: nobody waits for it yet.
    on(&fleet, "a1", &["GRANT SELECT ON performance_schema.* TO admin"]).await;
    let mut backup = fleet.lab.connect("a1").await.unwrap();
    backup.query_drop("FLUSH TABLES WITH READ LOCK").await.unwrap();
    let facts = only_stop(&fleet, "locks", limits).await;
    assert!(facts.contains(&format!("session {}", backup.id())), "{facts}");
    backup.query_drop("UNLOCK TABLES").await.unwrap();
    no_stop(&fleet).await;
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn a_host_without_the_journal_ends_what_was_begun_and_an_old_journal_touches_nothing() {
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)])).await;
    let logins = fleet.logins();
    let mut primary = "a1";
    for killed_at in [Step::StopReplication, Step::Mark] {
        let candidate = if primary == "a1" { "a2" } else { "a1" };
        let plan = fleet.survey(candidate).await.plan(quick(), "test");
        let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
        let (begins, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let mut progress = |progress: perform::Progress<'_>| {
            if let perform::Progress::Begins { step, .. } = progress {
                let _ = begins.send(step);
            }
        };
        {
            // The future is dropped where the step has just begun, as by kill -9.
            let run = perform::run(&plan, &logins, &mut journal, State::START, &|| false, &mut progress);
            let until = async { while begun.recv().await.is_some_and(|step| step != killed_at) {} };
            tokio::select! { biased; () = until => {}, _ = run => {} }
        }
        drop(journal);
        let found = perform::left_behind(&fleet.known(), &logins.admin, DEADLINE).await.unwrap();
        let found = found.expect("the servers know what was begun");
        assert_eq!(found, plan);
        let promoted = perform::promoted(&found, &logins).await;
        let state = State::resume(Step::Promote, None, promoted);
        let elsewhere = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(elsewhere.path(), &found).unwrap();
        let outcome =
            perform::run(&found, &logins, &mut journal, state, &|| false, &mut |_| ()).await.unwrap();
        match outcome.state {
            State::Undone { .. } => assert_eq!(killed_at, Step::StopReplication),
            State::Done => {
                assert_eq!(killed_at, Step::Mark);
                primary = candidate;
            }
            _ => panic!("{outcome:#?}"),
        }
        let other = if primary == "a1" { "a2" } else { "a1" };
        assert!(!fleet.read_only(primary).await && fleet.read_only(other).await, "{killed_at}");
        for server in ["a1", "a2", "b1"].iter().filter(|server| **server != primary) {
            fleet.lab.wait_applied(server, primary, DEADLINE).await.unwrap();
        }
        let over = perform::left_behind(&fleet.known(), &logins.admin, DEADLINE).await.unwrap();
        assert_eq!(over, None);
        // The first plan again, once a later one is recorded: nothing of it may be done any more.
        let later = perform::superseded(&plan, &logins).await;
        assert_eq!(later, None, "it is the newest");
        let old = perform::Plan { epoch: plan.epoch - 1, ..plan };
        assert_eq!(perform::superseded(&old, &logins).await, Some(old.epoch + 1));
    }
    fleet.lab.down().await.unwrap();
}
