//! Every check that stops a switchover, brought about on real servers and mended again.

use crate::moving::{DEADLINE, Fleet, quick};
use lab::{Fault, Spec};
use mysql_async::prelude::Queryable;
use std::time::{Duration, Instant};
use switchover::check::{Finding, Level, Limits};
use switchover::journal::Journal;
use switchover::perform;
use switchover::step::{State, Step};
use testkit::mysqld;

async fn findings(fleet: &Fleet, limits: Limits) -> Vec<Finding> {
    fleet.survey_of("a2").await.checks(limits, true)
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

/// How the two flavours say the same.
struct Words {
    stop: &'static str,
    start: &'static str,
    stop_applier: &'static str,
    by_file: &'static str,
    by_gtid: &'static str,
    other_channel: &'static str,
    no_other_channel: &'static str,
    status: &'static str,
    not_logged: &'static str,
    see_locks: &'static [&'static str],
    newest_log: &'static str,
}

const MARIADB: Words = Words {
    stop: "STOP SLAVE",
    start: "START SLAVE",
    stop_applier: "STOP SLAVE SQL_THREAD",
    by_file: "CHANGE MASTER TO MASTER_USE_GTID = no",
    by_gtid: "CHANGE MASTER TO MASTER_USE_GTID = slave_pos",
    other_channel: "CHANGE MASTER 'other' TO MASTER_HOST = '127.0.0.1'",
    no_other_channel: "RESET SLAVE 'other' ALL",
    status: "SHOW SLAVE STATUS",
    not_logged: "log_slave_updates = OFF\n",
    see_locks: &["INSTALL SONAME 'metadata_lock_info'"],
    newest_log: "SHOW MASTER STATUS",
};

const MYSQL: Words = Words {
    stop: "STOP REPLICA",
    start: "START REPLICA",
    stop_applier: "STOP REPLICA SQL_THREAD",
    by_file: "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 0",
    by_gtid: "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 1",
    other_channel: "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1' FOR CHANNEL 'other'",
    no_other_channel: "RESET REPLICA ALL FOR CHANNEL 'other'",
    status: "SHOW REPLICA STATUS",
    not_logged: "log_replica_updates = OFF\n",
    see_locks: &["SET sql_log_bin = 0", "GRANT SELECT ON performance_schema.* TO admin"],
    newest_log: "SHOW BINARY LOG STATUS",
};

/// Brings about each check that stops a move, on one lab, and mends it. One host has one version:
/// that check has a test of its own below.
async fn walk_through_the_checks(fleet: &Fleet, words: &Words) {
    no_stop(fleet).await;
    writers(fleet).await;
    replication(fleet, words).await;
    transactions_and_locks(fleet, words).await;
    accounts(fleet).await;
    logs(fleet, words).await;
    // Last: a history of its own is not mended.
    on(
        fleet,
        "a2",
        &["SET GLOBAL read_only = OFF", "INSERT INTO app.writes VALUES (4)", "SET GLOBAL read_only = ON"],
    )
    .await;
    assert!(only_stop(fleet, "errant transactions", Limits::default()).await.starts_with("a2 has"));
}

async fn writers(fleet: &Fleet) {
    let limits = Limits::default();
    on(fleet, "a1", &["SET GLOBAL read_only = ON"]).await;
    assert_eq!(only_stop(fleet, "one writer", limits).await, "a1 refuses writes");
    on(fleet, "a1", &["SET GLOBAL read_only = OFF"]).await;
    on(fleet, "b1", &["SET GLOBAL read_only = OFF"]).await;
    assert_eq!(only_stop(fleet, "one writer", limits).await, "b1 take writes too");
    on(fleet, "b1", &["SET GLOBAL read_only = ON"]).await;
    no_stop(fleet).await;
    let without = fleet.survey_of("a2").await.checks(limits, false);
    let stops: Vec<_> = without.iter().filter(|finding| finding.level == Level::Stop).collect();
    assert!(matches!(stops.as_slice(), [stop] if stop.check == "replication account"), "{stops:?}");
    let mut survey = fleet.survey_of("a2").await;
    let (admin, user) = (fleet.logins().admin, "repl".to_owned());
    survey.try_replication_login(&(user, "wrong".to_owned()), &admin, DEADLINE).await;
    let refused = survey.checks(limits, true);
    let refused = refused.iter().find(|finding| finding.check == "replication account").unwrap();
    assert!(refused.level == Level::Stop && refused.facts.contains("error 1045"), "{refused:?}");
    // The address that a2 was given leads to b1.
    let b1 = fleet.survey_of("b1").await.login.unwrap();
    survey.login = Some(b1);
    let wrong = survey.checks(limits, true);
    let wrong = wrong.iter().find(|finding| finding.check == "replication account").unwrap();
    assert!(wrong.level == Level::Stop && wrong.facts.contains("leads to server_id"), "{wrong:?}");
}

async fn replication(fleet: &Fleet, words: &Words) {
    let limits = Limits::default();
    on(fleet, "a2", &[words.stop_applier]).await;
    let stops = findings(fleet, limits).await;
    let stopped = stops.iter().find(|finding| finding.check == "threads run").unwrap();
    assert!(stopped.level == Level::Stop && stopped.facts.contains("applying thread of a2"), "{stopped:?}");
    // Such a replica does not say how far behind it is either.
    assert_eq!(level_of(&stops, "lag"), Level::Stop);
    on(fleet, "a2", &[words.start]).await;
    no_stop(fleet).await;

    on(fleet, "a2", &[words.stop, words.by_file, words.start]).await;
    assert!(only_stop(fleet, "GTID", limits).await.contains("by file and offset"));
    on(fleet, "a2", &[words.stop, words.by_gtid, words.start]).await;
    no_stop(fleet).await;

    on(fleet, "a2", &[words.other_channel]).await;
    let stops = findings(fleet, limits).await;
    let channels = stops.iter().find(|finding| finding.check == "channels").unwrap();
    assert!(channels.level == Level::Stop && channels.facts.contains("a2 has 2 channels"), "{channels:?}");
    on(fleet, "a2", &[words.no_other_channel]).await;
    no_stop(fleet).await;

    // a2 follows b1 for a while, by its address; user and password stay.
    let mut conn = fleet.lab.connect("a2").await.unwrap();
    let row: mysql_async::Row = conn.query_first(words.status).await.unwrap().unwrap();
    let mysql = words.status.contains("REPLICA");
    let prefix = if mysql { "Source" } else { "Master" };
    let host: String = row.get(format!("{prefix}_Host").as_str()).unwrap();
    let port: u16 = row.get(format!("{prefix}_Port").as_str()).unwrap();
    let follow = |host: &str, port: u16| match mysql {
        true => format!("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{host}', SOURCE_PORT = {port}"),
        false => format!("CHANGE MASTER TO MASTER_HOST = '{host}', MASTER_PORT = {port}"),
    };
    let b1 = fleet.lab.real("b1").unwrap();
    on(fleet, "a2", &[words.stop, &follow(&b1.ip().to_string(), b1.port()), words.start]).await;
    assert!(only_stop(fleet, "candidate follows", limits).await.contains("which is not a1"));
    on(fleet, "a2", &[words.stop, &follow(&host, port), words.start]).await;
    no_stop(fleet).await;

    // b1 follows the primary by a channel with a name: no statement would mean it.
    let channel = words.status.replace("SHOW", "").replace("STATUS", "");
    let (reset, password) = (channel.trim(), fleet.logins().replication.1);
    let named = match mysql {
        true => [
            format!("RESET {reset} ALL"),
            format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{host}', SOURCE_PORT = {port}, SOURCE_USER = 'repl', \
                 SOURCE_PASSWORD = '{password}', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1 FOR CHANNEL 'n'"
            ),
            "START REPLICA FOR CHANNEL 'n'".to_owned(),
        ],
        false => [
            format!("RESET {reset} ALL"),
            format!(
                "CHANGE MASTER 'n' TO MASTER_HOST = '{host}', MASTER_PORT = {port}, MASTER_USER = 'repl', \
                 MASTER_PASSWORD = '{password}', MASTER_USE_GTID = slave_pos"
            ),
            "START SLAVE 'n'".to_owned(),
        ],
    };
    let unnamed: Vec<String> = match mysql {
        true => vec![
            "STOP REPLICA FOR CHANNEL 'n'".to_owned(),
            "RESET REPLICA ALL FOR CHANNEL 'n'".to_owned(),
            named[1].replace(" FOR CHANNEL 'n'", ""),
        ],
        false => vec![
            "STOP SLAVE 'n'".to_owned(),
            "RESET SLAVE 'n' ALL".to_owned(),
            named[1].replace("MASTER 'n'", "MASTER"),
        ],
    };
    on(fleet, "b1", &[words.stop]).await;
    on(fleet, "b1", &named.each_ref().map(String::as_str)).await;
    assert!(only_stop(fleet, "channels", limits).await.starts_with("b1 replicates by a channel named 'n'"));
    on(fleet, "b1", &unnamed.iter().map(String::as_str).collect::<Vec<_>>()).await;
    on(fleet, "b1", &[words.start]).await;
    no_stop(fleet).await;

    fleet.lab.fault("a2", Fault::Lag { seconds: 600 }).await.unwrap();
    on(fleet, "a1", &["INSERT INTO app.writes VALUES (10)"]).await;
    // Whether it is behind just now or not.
    assert!(only_stop(fleet, "lag", limits).await.contains("600 s late on purpose"));
    fleet.lab.heal("a2").await.unwrap();
    fleet.lab.wait_applied("a2", "a1", DEADLINE * 6).await.unwrap();
    no_stop(fleet).await;
}

async fn transactions_and_locks(fleet: &Fleet, words: &Words) {
    let limits = Limits::default();
    on(
        fleet,
        "a1",
        &["XA START 'left'", "INSERT INTO app.writes VALUES (1)", "XA END 'left'", "XA PREPARE 'left'"],
    )
    .await;
    let until = Instant::now() + DEADLINE * 6;
    // The prepared transaction is detached from its session a moment after that has ended.
    loop {
        let mut conn = fleet.lab.connect("a1").await.unwrap();
        let there: Vec<mysql_async::Row> = conn.query("XA RECOVER").await.unwrap();
        if !there.is_empty() {
            break;
        }
        assert!(Instant::now() < until);
    }
    let patient = Limits { transaction: DEADLINE * 60, ..limits };
    assert!(only_stop(fleet, "XA", patient).await.contains("1 prepared"));
    on(fleet, "a1", &["XA ROLLBACK 'left'"]).await;
    no_stop(fleet).await;

    let mut open = fleet.lab.connect("a1").await.unwrap();
    open.query_drop("BEGIN").await.unwrap();
    open.query_drop("INSERT INTO app.writes VALUES (2)").await.unwrap();
    let brief = Limits { transaction: Duration::from_secs(1), ..limits };
    let facts = only_stop(fleet, "open transactions", brief).await;
    assert!(facts.contains(&format!("session {}", open.id())), "{facts}");
    open.query_drop("ROLLBACK").await.unwrap();
    no_stop(fleet).await;

    // A session that holds the lock and does nothing: nobody waits for it yet. Who holds it must be seen.
    let unseen = level_of(&findings(fleet, limits).await, "locks");
    assert_eq!(unseen, Level::Warn, "what is not known is no pass");
    on(fleet, "a1", words.see_locks).await;
    assert_eq!(level_of(&findings(fleet, limits).await, "locks"), Level::Pass);
    if fleet.lab.version().contains("MySQL") {
        // The list of locks is empty then.
        let set = |to: &str| {
            format!(
                "UPDATE performance_schema.setup_instruments SET ENABLED = '{to}' WHERE NAME = 'wait/lock/metadata/sql/mdl'"
            )
        };
        on(fleet, "a1", &[&set("NO")]).await;
        assert_eq!(level_of(&findings(fleet, limits).await, "locks"), Level::Warn);
        on(fleet, "a1", &[&set("YES")]).await;
        assert_eq!(level_of(&findings(fleet, limits).await, "locks"), Level::Pass);
    }
    for (take, give) in
        [("FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES"), ("LOCK TABLES app.writes WRITE", "UNLOCK TABLES")]
    {
        let mut backup = fleet.lab.connect("a1").await.unwrap();
        backup.query_drop(take).await.unwrap();
        let facts = only_stop(fleet, "locks", limits).await;
        assert!(facts.contains(&format!("session {}", backup.id())), "{take}: {facts}");
        backup.query_drop(give).await.unwrap();
        no_stop(fleet).await;
    }
}

async fn accounts(fleet: &Fleet) {
    let limits = Limits::default();
    let mysql = fleet.lab.version().contains("MySQL");
    // Not even root writes to a replica of MySQL, logged or not.
    if mysql {
        on(fleet, "a2", &["SET GLOBAL super_read_only = OFF"]).await;
    }
    on(fleet, "a2", &["SET sql_log_bin = 0", "REVOKE RELOAD ON *.* FROM admin"]).await;
    assert_eq!(only_stop(fleet, "own privileges", limits).await, "on a2 admin@% lacks RELOAD ON *.*");
    on(fleet, "a2", &["SET sql_log_bin = 0", "GRANT RELOAD ON *.* TO admin"]).await;
    assert_eq!(level_of(&findings(fleet, limits).await, "own privileges"), Level::Pass);
    on(fleet, "a1", &["SET sql_log_bin = 0", "CREATE USER only_here@localhost IDENTIFIED BY 'one'"]).await;
    assert!(only_stop(fleet, "accounts", limits).await.contains("only_here@localhost"));
    // It is there, and may less; then it has another password.
    on(fleet, "a2", &["SET sql_log_bin = 0", "CREATE USER only_here@localhost IDENTIFIED BY 'one'"]).await;
    on(fleet, "a1", &["SET sql_log_bin = 0", "GRANT SELECT ON app.* TO only_here@localhost"]).await;
    let differing = async || {
        let findings = findings(fleet, limits).await;
        let found = findings.into_iter().find(|finding| finding.check == "accounts").unwrap();
        let is_so = found.facts.contains("differ on a2")
            && found.facts.contains("only_here@localhost")
            && found.level == Level::Warn;
        (is_so, found.facts)
    };
    let (is_so, facts) = differing().await;
    assert!(is_so, "privileges: {facts}");
    if !mysql {
        on(fleet, "a2", &["SET sql_log_bin = 0", "GRANT SELECT ON app.* TO only_here@localhost"]).await;
        assert!(!differing().await.0);
        on(fleet, "a2", &["SET sql_log_bin = 0", "SET PASSWORD FOR only_here@localhost = PASSWORD('two')"])
            .await;
        let (is_so, facts) = differing().await;
        assert!(is_so, "passwords: {facts}");
    }
    for server in ["a1", "a2"] {
        on(fleet, server, &["SET sql_log_bin = 0", "DROP USER only_here@localhost"]).await;
    }
    if mysql {
        on(fleet, "a2", &["SET GLOBAL super_read_only = ON"]).await;
    }
    no_stop(fleet).await;
}

async fn logs(fleet: &Fleet, words: &Words) {
    let limits = Limits::default();
    // b1 stands still while a2 throws away what b1 would need.
    on(fleet, "b1", &[words.stop]).await;
    on(fleet, "a1", &["INSERT INTO app.writes VALUES (3)"]).await;
    fleet.lab.wait_applied("a2", "a1", DEADLINE * 6).await.unwrap();
    purge(fleet, "a2", words.newest_log).await;
    assert!(only_stop(fleet, "purged logs", limits).await.starts_with("b1 lacks"));
    on(fleet, "b1", &[words.start]).await;
    no_stop(fleet).await;

    for (option, facts) in
        [(words.not_logged, "does not log what it replicates"), ("skip_log_bin\n", "writes no binary log")]
    {
        fleet.restart_with("a2", option).await;
        assert!(only_stop(fleet, "binary log", limits).await.contains(facts), "{option}");
        fleet.restart_with("a2", "").await;
        no_stop(fleet).await;
    }
}

fn level_of(findings: &[Finding], check: &str) -> Level {
    findings.iter().find(|finding| finding.check == check).unwrap().level
}

#[tokio::test]
async fn each_check_that_stops_is_seen_on_real_servers_and_passes_once_it_is_mended() {
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)])).await;
    walk_through_the_checks(&fleet, &MARIADB).await;
    fleet.lab.down().await.unwrap();
}

pub(crate) async fn each_check_that_stops_is_seen_on_mysql() {
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)]).program(mysqld())).await;
    walk_through_the_checks(&fleet, &MYSQL).await;
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn a_candidate_that_is_newer_than_another_server_is_refused() {
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)])).await;
    let mut survey = fleet.survey_of("a2").await;
    survey.candidate.version = "99.1.0-MariaDB".parse().unwrap();
    let findings = survey.checks(Limits::default(), true);
    let found = findings.iter().find(|finding| finding.check == "version").unwrap();
    assert!(
        found.level == Level::Stop && found.facts.ends_with("is older than a2: it cannot follow it"),
        "{found:?}"
    );
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn a_candidate_whose_disk_is_nearly_full_is_refused_and_one_that_does_not_say_is_named() {
    if !testkit::root_or_not_tested("a disk of its own needs root") {
        return;
    }
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)])).await.on_small_disk_of("a2").await;
    let limits = Limits::default();
    let unknown = findings(&fleet, limits).await;
    let unknown = unknown.iter().find(|finding| finding.check == "free disk").unwrap();
    assert!(unknown.level == Level::Warn && unknown.facts.contains("does not say"), "{unknown:?}");
    on(&fleet, "a2", &["SET sql_log_bin = 0", "INSTALL SONAME 'disks'", "GRANT FILE ON *.* TO admin"]).await;
    on(&fleet, "a1", &["SET sql_log_bin = 0", "GRANT FILE ON *.* TO admin"]).await;
    no_stop(&fleet).await;
    let disk = fleet.disk.as_ref().unwrap();
    disk.fill_but(64);
    let facts = only_stop(&fleet, "free disk", limits).await;
    assert!(facts.contains("MiB left") && facts.contains("data") && facts.contains("of a2"), "{facts}");
    disk.empty();
    no_stop(&fleet).await;
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
            fleet.lab.wait_applied(server, primary, DEADLINE * 6).await.unwrap();
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

#[tokio::test]
async fn a_transaction_of_its_own_is_seen_on_a_replica_that_has_gone_on_replicating() {
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)])).await;
    for server in ["a1", "a2", "b1"] {
        on(&fleet, server, &["SET GLOBAL gtid_strict_mode = OFF"]).await;
    }
    let write = "INSERT INTO app.writes VALUES (1)";
    on(&fleet, "a2", &["SET GLOBAL read_only = OFF", write, "SET GLOBAL read_only = ON"]).await;
    // The primary goes on under higher numbers.
    on(&fleet, "a1", &["INSERT INTO app.writes VALUES (2)", "INSERT INTO app.writes VALUES (3)"]).await;
    fleet.lab.wait_applied("a2", "a1", DEADLINE * 6).await.unwrap();
    let survey = fleet.survey_of("a2").await;
    assert_eq!(survey.candidate.position, survey.primary.position, "the positions say nothing");
    let findings = survey.checks(Limits::default(), true);
    let errant = findings.iter().find(|finding| finding.check == "errant transactions").unwrap();
    // a1's log has never had anything of a2.
    assert!(errant.level == Level::Warn && errant.facts.starts_with("a2 wrote"), "{errant:?}");
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn a_transaction_of_its_own_stops_a_replica_of_which_the_primary_has_older_ones() {
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)])).await;
    for candidate in ["a2", "a1"] {
        let outcome = fleet.switch(candidate, quick()).await;
        assert_eq!(outcome.state, State::Done, "{outcome:#?}");
    }
    for server in ["a1", "a2", "b1"] {
        on(&fleet, server, &["SET GLOBAL gtid_strict_mode = OFF"]).await;
    }
    no_stop(&fleet).await;
    let write = "INSERT INTO app.writes VALUES (1)";
    on(&fleet, "a2", &["SET GLOBAL read_only = OFF", write, "SET GLOBAL read_only = ON"]).await;
    on(&fleet, "a1", &["INSERT INTO app.writes VALUES (2)", "INSERT INTO app.writes VALUES (3)"]).await;
    fleet.lab.wait_applied("a2", "a1", DEADLINE * 6).await.unwrap();
    assert!(only_stop(&fleet, "errant transactions", Limits::default()).await.starts_with("a2 wrote"));
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn a_tool_that_sleeps_is_not_replaced_unasked_and_touches_nothing_when_it_wakes_up_replaced() {
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)])).await;
    let logins = fleet.logins();
    let plan = fleet.survey("a2").await.plan(quick(), "test");
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let (begins, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let mut progress = |progress: perform::Progress<'_>| {
        if let perform::Progress::Begins { step, .. } = progress {
            let _ = begins.send(step);
        }
    };
    let run = perform::run(&plan, &logins, &mut journal, State::START, &|| false, &mut progress);
    let mut run = std::pin::pin!(run);
    let until = async { while begun.recv().await.is_some_and(|step| step != Step::StopReplication) {} };
    tokio::select! { biased; () = until => {}, outcome = &mut run => panic!("{outcome:?}") }
    // From here on it sleeps, with its connections open: a stopped process.
    let elsewhere = tempfile::tempdir().unwrap();
    let found = perform::left_behind(&fleet.known(), &logins.admin, DEADLINE).await.unwrap().unwrap();
    let mut other = Journal::create(elsewhere.path(), &found).unwrap();
    let state = State::resume(Step::Promote, None, perform::promoted(&found, &logins).await);
    let refused = perform::run(&found, &logins, &mut other, state.clone(), &|| false, &mut |_| ()).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("going on") && refused.contains("--take-over"), "{refused}");
    assert!(fleet.read_only("a1").await, "nothing was touched");

    let ended = perform::end_sessions(&found, &logins).await.unwrap();
    assert!(ended.iter().any(|session| session.contains("on a2")), "{ended:?}");
    let outcome = perform::run(&found, &logins, &mut other, state, &|| false, &mut |_| ()).await.unwrap();
    assert!(matches!(outcome.state, State::Undone { .. }), "{outcome:#?}");
    let mut a1 = fleet.lab.connect("a1").await.unwrap();
    a1.query_drop("INSERT INTO app.writes VALUES (1)").await.unwrap();

    let outcome = run.await.unwrap();
    assert!(!matches!(outcome.state, State::Done), "{outcome:#?}");
    assert!(!fleet.read_only("a1").await && fleet.read_only("a2").await, "{outcome:#?}");
    a1.query_drop("INSERT INTO app.writes VALUES (2)").await.unwrap();
    for server in ["a2", "b1"] {
        fleet.lab.wait_applied(server, "a1", DEADLINE * 6).await.unwrap();
    }
    drop(a1);
    fleet.lab.down().await.unwrap();
}
