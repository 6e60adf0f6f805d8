//! A planned move of the primary on real servers: what was acknowledged is there, roles are as they should be, a failure
//! before the point of no return leaves everything as it was.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use fleet::config::{Credentials, FleetConfig};
use fleet::{Address, ServerName, Snapshot};
use lab::{Account, Lab, Spec};
use mysql_async::prelude::Queryable;
use std::time::Duration;
use switchover::check::{self, Level, Limits};
use switchover::journal::{self, Journal};
use switchover::perform::{self, Deadlines, Logins, Outcome};
use switchover::step::{State, Step};
use switchover::survey::Survey;

const DEADLINE: Duration = Duration::from_secs(10);

struct Fleet {
    lab: Lab,
    _base: tempfile::TempDir,
    journals: tempfile::TempDir,
}

impl Fleet {
    async fn up() -> Self {
        let base = tempfile::tempdir().unwrap();
        let lab = Lab::up(&Spec::new(&[("a", 2), ("b", 1)]), base.path()).await.unwrap();
        let mut a1 = lab.connect("a1").await.unwrap();
        a1.query_drop("CREATE TABLE app.writes (id BIGINT NOT NULL PRIMARY KEY)").await.unwrap();
        for replica in ["a2", "b1"] {
            lab.wait_applied(replica, "a1", DEADLINE).await.unwrap();
        }
        Self { lab, _base: base, journals: tempfile::tempdir().unwrap() }
    }

    /// As root through the socket of each server: roles by the lab's own account would do as well.
    fn logins(&self) -> Logins {
        let root = Credentials {
            user: Some("root".to_owned()),
            password: Some(self.lab.password(Account::Root).to_owned()),
            ..Credentials::default()
        };
        let replication = ("repl".to_owned(), self.lab.password(Account::Repl).to_owned());
        Logins { admin: root, replication }
    }

    /// Seen by the account that only watches; reached through sockets, where root may log in.
    async fn snapshot(&self) -> Snapshot {
        let address = self.lab.real("b1").unwrap();
        let credentials = Credentials {
            user: Some("headroom".to_owned()),
            password: Some(self.lab.password(Account::Headroom).to_owned()),
            ..Credentials::default()
        };
        let seeds = vec![Address::tcp(address.ip().to_string(), address.port())];
        let mut snapshot =
            observe::survey(&FleetConfig { seeds, credentials, ..FleetConfig::default() }).await;
        let servers = self.lab.servers();
        for server in &mut snapshot.servers {
            let called = server.name.to_string();
            let name = servers.iter().find(|name| self.lab.real(name).unwrap().to_string() == called);
            let name = name.unwrap_or_else(|| panic!("{called} is no server of the lab"));
            if snapshot.writer == (fleet::WriterStatus::Known { server: server.name.clone() }) {
                snapshot.writer = fleet::WriterStatus::Known { server: ServerName::new(name) };
            }
            server.name = ServerName::new(name);
            server.reach = Address::Unix(self.lab.socket(name).unwrap());
        }
        snapshot
    }

    async fn survey(&self, candidate: &str) -> Survey {
        let snapshot = self.snapshot().await;
        Survey::read(&snapshot, &ServerName::new(candidate), &self.logins().admin, DEADLINE).await.unwrap()
    }

    async fn switch(&self, candidate: &str, deadlines: Deadlines) -> Outcome {
        let survey = self.survey(candidate).await;
        let findings = survey.checks(Limits::default(), true);
        assert_ne!(check::worst(&findings), Level::Stop, "{findings:#?}");
        let plan = survey.plan(deadlines, "test");
        let mut journal = Journal::create(self.journals.path(), &plan).unwrap();
        perform::run(&plan, &self.logins(), &mut journal, State::START, &|| false, &mut |_| ()).await.unwrap()
    }

    async fn read_only(&self, server: &str) -> bool {
        let mut conn = self.lab.connect(server).await.unwrap();
        let value: Option<String> = conn.query_first("SELECT @@GLOBAL.read_only").await.unwrap();
        !matches!(value.as_deref(), Some("0" | "OFF"))
    }
}

fn quick() -> Deadlines {
    Deadlines { prepare_ms: 100, ..Deadlines::default() }
}

#[tokio::test]
async fn the_primary_moves_there_and_back_and_nothing_acknowledged_is_lost() {
    let fleet = Fleet::up().await;
    let mut written = 0i64;
    for candidate in ["a2", "a1", "b1"] {
        let primary = fleet.survey(candidate).await.primary.server.to_string();
        let mut conn = fleet.lab.connect(&primary).await.unwrap();
        for _ in 0..20 {
            written += 1;
            conn.query_drop(format!("INSERT INTO app.writes VALUES ({written})")).await.unwrap();
        }
        let outcome = fleet.switch(candidate, quick()).await;
        assert_eq!(outcome.state, State::Done, "{outcome:#?}");
        assert_eq!(outcome.remarks, Vec::<String>::new());
        assert!(!fleet.read_only(candidate).await && fleet.read_only(&primary).await);
        for server in ["a1", "a2", "b1"] {
            if server != candidate {
                fleet.lab.wait_applied(server, candidate, DEADLINE).await.unwrap();
            }
            let mut conn = fleet.lab.connect(server).await.unwrap();
            let there: Option<i64> = conn.query_first("SELECT COUNT(*) FROM app.writes").await.unwrap();
            assert_eq!(there, Some(written), "{server}");
            let epochs: Option<i64> = conn
                .query_first("SELECT COUNT(*) FROM headroom.switchover WHERE state = 'done'")
                .await
                .unwrap();
            assert!(epochs.is_some_and(|epochs| epochs > 0));
        }
    }
    let findings = fleet.survey("a1").await.checks(Limits::default(), true);
    let errant = findings.iter().find(|finding| finding.check == "errant transactions").unwrap();
    assert_eq!(errant.level, Level::Pass, "{errant:?}");
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn a_transaction_that_never_ends_is_named_and_everything_is_as_before() {
    let fleet = Fleet::up().await;
    let mut open = fleet.lab.connect("a1").await.unwrap();
    let survey = fleet.survey("a2").await;
    open.query_drop("BEGIN").await.unwrap();
    open.query_drop("INSERT INTO app.writes VALUES (1)").await.unwrap();
    let plan = survey.plan(Deadlines { drain_ms: 300, ..quick() }, "test");
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let outcome = perform::run(&plan, &fleet.logins(), &mut journal, State::START, &|| false, &mut |_| ())
        .await
        .unwrap();
    let State::Undone { why } = &outcome.state else { panic!("{outcome:#?}") };
    assert!(why.contains(&format!("session {}", open.id())) && why.contains("root@"), "{why}");
    assert!(!fleet.read_only("a1").await && fleet.read_only("a2").await);
    open.query_drop("COMMIT").await.unwrap();
    fleet.lab.wait_applied("a2", "a1", DEADLINE).await.unwrap();
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn killed_after_any_step_it_is_resumed_or_undone_from_the_journal() {
    let fleet = Fleet::up().await;
    let mut primary = "a1";
    for about in switchover::step::STEPS {
        let candidate = if primary == "a1" { "a2" } else { "a1" };
        let plan = fleet.survey(candidate).await.plan(quick(), "test");
        let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
        let path = journal.path().to_owned();
        // Whoever did it vanishes in the middle: the future is dropped where the step has just begun.
        let (begins, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let logins = fleet.logins();
        let mut progress = |progress: perform::Progress<'_>| {
            if let perform::Progress::Begins { step, .. } = progress {
                let _ = begins.send(step);
            }
        };
        {
            let run = perform::run(&plan, &logins, &mut journal, State::START, &|| false, &mut progress);
            let until = async {
                while begun.recv().await.is_some_and(|step| step != about.step) {}
                tokio::time::sleep(Duration::from_millis(3)).await;
            };
            tokio::select! { _ = run => {}, () = until => {} }
        }
        drop(journal);
        let (mut journal, lines) = Journal::reopen(&path).unwrap();
        let (step, undo, ended) = journal::last(&lines).unwrap();
        assert!(!undo);
        let promoted = perform::promoted(&plan, &logins).await;
        let state = State::resume(step, ended, promoted);
        let outcome =
            perform::run(&plan, &logins, &mut journal, state, &|| false, &mut |_| ()).await.unwrap();
        match outcome.state {
            State::Done => primary = candidate,
            State::Undone { .. } => assert!(step <= Step::Promote),
            _ => panic!("{outcome:#?}"),
        }
        let other = if primary == "a1" { "a2" } else { "a1" };
        assert!(!fleet.read_only(primary).await && fleet.read_only(other).await, "{}", about.name);
        for server in ["a1", "a2", "b1"].iter().filter(|server| **server != primary) {
            fleet.lab.wait_applied(server, primary, DEADLINE).await.unwrap();
        }
    }
    fleet.lab.down().await.unwrap();
}
