//! A lab on which a primary is moved, and what a test asks of it.

use config::{Credentials, FleetConfig};
use fleet::{Address, ServerName, Snapshot};
use lab::{Account, Fault, Lab, Spec};
use mysql_async::prelude::Queryable;
use std::path::Path;
use std::time::Duration;
use switchover::Flags;
use switchover::check::{self, Level, Limits};
use switchover::failover::confirm::Rule;
use switchover::failover::scene::Scene;
use switchover::journal::Journal;
use switchover::perform::{self, Deadlines, FenceBy, Logins, Outcome, Progress};
use switchover::step::{State, Step};
use switchover::survey::Survey;
use testkit::disk::SmallDisk;

/// What stands in it beside a lab's server comes last in its option file.
const OVERRIDE: &str = "override.cnf";
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

pub(crate) struct Fleet {
    /// Where a1 has its data, if apart. Dropped first: a server on a frozen disk cannot be killed.
    pub(crate) disk: Option<SmallDisk>,
    pub(crate) lab: Lab,
    base: tempfile::TempDir,
    pub(crate) journals: tempfile::TempDir,
}

impl Fleet {
    pub(crate) async fn up(spec: Spec) -> Self {
        Self::up_with(spec, false).await
    }

    /// Servers come up read-only, as they should be run; then a1 takes writes.
    pub(crate) async fn up_read_only(spec: Spec) -> Self {
        Self::up_with(spec, true).await
    }

    async fn up_with(spec: Spec, read_only: bool) -> Self {
        let base = tempfile::tempdir().unwrap();
        let lab = Lab::up(&spec, base.path()).await.unwrap();
        let mut a1 = lab.connect("a1").await.unwrap();
        if read_only {
            a1.query_drop("SET GLOBAL read_only = OFF").await.unwrap();
        }
        a1.query_drop("CREATE TABLE app.writes (id BIGINT NOT NULL PRIMARY KEY)").await.unwrap();
        for replica in ["a2", "b1"] {
            lab.wait_applied(replica, "a1", DEADLINE * 6).await.unwrap();
        }
        Self { disk: None, lab, base, journals: tempfile::tempdir().unwrap() }
    }

    /// a1 has its data on a small disk of its own from now on; it was restarted and takes writes.
    pub(crate) async fn on_small_disk(self) -> Self {
        let fleet = self.on_small_disk_of("a1").await;
        fleet.lab.connect("a1").await.unwrap().query_drop("SET GLOBAL read_only = OFF").await.unwrap();
        fleet
    }

    pub(crate) async fn on_small_disk_of(mut self, server: &str) -> Self {
        let disk = self.disk.insert(SmallDisk::new(self.base.path(), 512));
        self.lab.fault(server, Fault::Stop).await.unwrap();
        let directory = self.lab.dir().join(server);
        let data = disk.take_data(&directory.join("data"));
        // By its own name too: that is what the server compares with the mounts.
        std::fs::write(directory.join(OVERRIDE), format!("datadir = {}\n", data.display())).unwrap();
        self.lab.heal(server).await.unwrap();
        self
    }

    /// Restarted with these lines in its option file; it comes up as a replica does.
    pub(crate) async fn restart_with(&self, server: &str, options: &str) {
        self.lab.fault(server, Fault::Stop).await.unwrap();
        std::fs::write(self.lab.dir().join(server).join(OVERRIDE), options).unwrap();
        self.lab.heal(server).await.unwrap();
    }

    /// The account with no more than what the guide grants.
    pub(crate) fn logins(&self) -> Logins {
        let admin = Credentials {
            user: Some("admin".to_owned()),
            password: Some(self.lab.password(Account::Admin).to_owned()),
            ..Credentials::default()
        };
        let replication = ("repl".to_owned(), self.lab.password(Account::Repl).to_owned());
        Logins { admin, replication, flags: Flags::default() }
    }

    /// Seen by the account that only watches; servers are called as the lab calls them.
    async fn snapshot(&self) -> Snapshot {
        let address = self.lab.real("b1").unwrap();
        let credentials = Credentials {
            user: Some("headroom".to_owned()),
            password: Some(self.lab.password(Account::Headroom).to_owned()),
            ..Credentials::default()
        };
        let seeds = vec![Address::tcp(address.ip().to_string(), address.port())];
        let config = FleetConfig { seeds, credentials, ..FleetConfig::default() };
        let until = std::time::Instant::now() + DEADLINE * 6;
        let mut snapshot = loop {
            let snapshot = observe::survey(&config).await;
            if snapshot.primary().is_some() || std::time::Instant::now() > until {
                break snapshot;
            }
        };
        let servers = self.lab.servers();
        for server in &mut snapshot.servers {
            let called = server.name.to_string();
            let name = servers.iter().find(|name| self.lab.real(name).unwrap().to_string() == called);
            let name = name.unwrap_or_else(|| panic!("{called} is no server of the lab"));
            if snapshot.writer == (fleet::WriterStatus::Known { server: server.name.clone() }) {
                snapshot.writer = fleet::WriterStatus::Known { server: ServerName::new(name) };
            }
            server.name = ServerName::new(name);
            let real = self.lab.real(name).unwrap();
            server.reach = Address::tcp(real.ip().to_string(), real.port());
        }
        snapshot
    }

    /// The fleet by name and address, nobody asked.
    pub(crate) fn known(&self) -> Snapshot {
        let mut snapshot = Snapshot::empty(std::time::Instant::now());
        for name in self.lab.servers() {
            let real = self.lab.real(&name).unwrap();
            let reach = Address::tcp(real.ip().to_string(), real.port());
            snapshot.servers.push(fleet::Server::unasked(ServerName::new(&name), reach));
        }
        snapshot
    }

    /// a1 is dead: a2 takes over, and the tool is killed where this step begins: its first statement may have
    /// been sent.
    pub(crate) async fn cut_off(&self, journals: &Path, at: Step) {
        let (logins, a1, a2) = (self.logins(), ServerName::new("a1"), ServerName::new("a2"));
        let known = self.known();
        let scene = Scene::read(&known, Some(&a1), &logins.admin, DEADLINE, &logins.flags).await.unwrap();
        let rule = Rule { looks: 3, over: Duration::from_millis(600) };
        scene.confirm(&logins.admin, &rule, DEADLINE * 6).await.unwrap();
        let scene = Scene::read(&known, Some(&a1), &logins.admin, DEADLINE, &logins.flags).await.unwrap();
        let plan = scene.plan(&a2, FenceBy::Nothing, Deadlines::default(), "one").unwrap();
        let mut journal = Journal::create(journals, &plan).unwrap();
        let (reached, cut) = tokio::sync::oneshot::channel();
        let mut reached = Some(reached);
        let mut progress = |progress: Progress<'_>| {
            if matches!(progress, Progress::Begins { step, .. } if step == at) {
                reached.take().map(|reached| reached.send(()));
            }
        };
        let run = perform::run(&plan, &logins, &mut journal, State::START, &|| false, &mut progress);
        tokio::select! {
            biased;
            cut = cut => cut.unwrap(),
            outcome = run => panic!("{outcome:#?}"),
        }
    }

    /// With a1 as the primary, whatever it says of itself.
    pub(crate) async fn survey_of(&self, candidate: &str) -> Survey {
        let mut snapshot = self.known();
        snapshot.writer = fleet::WriterStatus::Known { server: ServerName::new("a1") };
        self.survey_in(&snapshot, candidate).await
    }

    pub(crate) async fn survey(&self, candidate: &str) -> Survey {
        let snapshot = self.snapshot().await;
        self.survey_in(&snapshot, candidate).await
    }

    async fn survey_in(&self, snapshot: &Snapshot, candidate: &str) -> Survey {
        let (logins, candidate) = (self.logins(), ServerName::new(candidate));
        let mut survey = Survey::read(snapshot, &candidate, &logins.admin, DEADLINE).await.unwrap();
        survey.try_replication_login(&logins.replication, &logins.admin, DEADLINE).await;
        survey
    }

    pub(crate) async fn switch(&self, candidate: &str, deadlines: Deadlines) -> Outcome {
        let survey = self.survey(candidate).await;
        let findings = survey.checks(Limits::default(), true);
        assert_ne!(check::worst(&findings), Level::Stop, "{findings:#?}");
        let plan = survey.plan(deadlines, "test");
        let mut journal = Journal::create(self.journals.path(), &plan).unwrap();
        perform::run(&plan, &self.logins(), &mut journal, State::START, &|| false, &mut |_| ()).await.unwrap()
    }

    /// Every commit waits for a replica, for a day if need be.
    pub(crate) async fn semi_sync(&self, primary: &str, replicas: &[&str]) {
        for server in self.lab.servers() {
            let mut conn = self.lab.connect(&server).await.unwrap();
            conn.query_drop("SET GLOBAL rpl_semi_sync_master_timeout = 86400000").await.unwrap();
            conn.query_drop("SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC").await.unwrap();
        }
        let mut conn = self.lab.connect(primary).await.unwrap();
        conn.query_drop("SET GLOBAL rpl_semi_sync_master_enabled = ON").await.unwrap();
        let until = std::time::Instant::now() + DEADLINE;
        let ask = "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'";
        let mut clients = String::new();
        // A source that drops the old link of a replica after the new one has come counts one too few for
        // good.
        while clients != replicas.len().to_string() {
            assert!(std::time::Instant::now() < until, "{clients} semi-sync replicas of {primary}");
            for replica in replicas {
                let mut conn = self.lab.connect(replica).await.unwrap();
                for statement in ["SET GLOBAL rpl_semi_sync_slave_enabled = ON", "STOP SLAVE", "START SLAVE"]
                {
                    conn.query_drop(statement).await.unwrap();
                }
            }
            for _ in 0..50 {
                (_, clients) = conn.query_first::<(String, String), _>(ask).await.unwrap().unwrap();
                if clients == replicas.len().to_string() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        for replica in replicas {
            self.lab.wait_applied(replica, primary, DEADLINE).await.unwrap();
        }
    }

    pub(crate) async fn read_only(&self, server: &str) -> bool {
        let mut conn = self.lab.connect(server).await.unwrap();
        let value: Option<String> = conn.query_first("SELECT @@GLOBAL.read_only").await.unwrap();
        !matches!(value.as_deref(), Some("0" | "OFF"))
    }
}

/// A fleet whose servers have defaults that no statement of ours may depend on.
pub(crate) async fn with_other_defaults(fleet: Fleet, statement_time: &str) {
    for server in ["a1", "a2", "b1"] {
        let mut conn = fleet.lab.connect(server).await.unwrap();
        for statement in [
            "SET GLOBAL sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES'",
            &format!("SET GLOBAL {statement_time}"),
            "SET GLOBAL autocommit = 0",
        ] {
            conn.query_drop(statement).await.unwrap();
        }
    }
    let mut survey = fleet.survey("a2").await;
    // A name that must be escaped: it is text of the record too.
    survey.primary.server = ServerName::new(r"a\1");
    let plan = survey.plan(quick(), "test");
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let outcome = perform::run(&plan, &fleet.logins(), &mut journal, State::START, &|| false, &mut |_| ())
        .await
        .unwrap();
    assert_eq!(outcome.state, State::Done, "{outcome:#?}");
    assert_eq!(outcome.remarks, Vec::<String>::new());
    for server in ["a1", "a2", "b1"] {
        let mut conn = fleet.lab.connect(server).await.unwrap();
        let (state, plan): (String, String) =
            conn.query_first("SELECT state, plan FROM headroom.switchover").await.unwrap().unwrap();
        assert_eq!(state, "done", "{server}");
        assert!(plan.contains(r#""name":"a\\1""#), "{server}: {plan}");
    }
    fleet.lab.down().await.unwrap();
}

/// Whoever resumes may tell the servers a second time what they do already.
pub(crate) async fn resumed_at_the_end(fleet: Fleet) {
    let plan = fleet.survey("a2").await.plan(quick(), "test");
    let (logins, mut state) = (fleet.logins(), State::START);
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    for _ in 0..2 {
        let outcome =
            perform::run(&plan, &logins, &mut journal, state, &|| false, &mut |_| ()).await.unwrap();
        assert_eq!(outcome.state, State::Done, "{outcome:#?}");
        assert_eq!(outcome.remarks, Vec::<String>::new());
        state = State::Forward { step: Step::Repoint };
    }
    let mut a2 = fleet.lab.connect("a2").await.unwrap();
    a2.query_drop("INSERT INTO app.writes VALUES (1)").await.unwrap();
    for server in ["a1", "b1"] {
        fleet.lab.wait_applied(server, "a2", DEADLINE * 6).await.unwrap();
    }
    fleet.lab.down().await.unwrap();
}

/// The primary takes a write, by these statements of root, after the candidate was waited for: it is not
/// promoted, and nothing is lost.
pub(crate) async fn opened_before_the_promotion(fleet: Fleet, opens: &[&str]) {
    let plan = fleet.survey("a2").await.plan(quick(), "test");
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let mut progress = |progress: Progress<'_>| {
        if matches!(progress, Progress::Begins { step: Step::Promote, undo: false }) {
            // The step waits until it has happened; a runtime of its own, because this one is busy here.
            let write = async {
                let mut root = fleet.lab.connect("a1").await.unwrap();
                for statement in opens.iter().chain(&["INSERT INTO app.writes VALUES (1)"]) {
                    root.query_drop(*statement).await.unwrap();
                }
                root.disconnect().await.unwrap();
            };
            let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            std::thread::scope(|scope| scope.spawn(|| runtime().block_on(write)).join().unwrap());
        }
    };
    let logins = fleet.logins();
    let outcome =
        perform::run(&plan, &logins, &mut journal, State::START, &|| false, &mut progress).await.unwrap();
    let State::Undone { why } = &outcome.state else { panic!("{outcome:#?}") };
    assert!(why.contains("a1: is not closed to writes any more"), "{why}");
    assert_eq!(outcome.remarks, Vec::<String>::new());
    assert!(!fleet.read_only("a1").await && fleet.read_only("a2").await);
    for server in ["a2", "b1"] {
        fleet.lab.wait_applied(server, "a1", DEADLINE * 6).await.unwrap();
        let mut conn = fleet.lab.connect(server).await.unwrap();
        let there: Option<i64> = conn.query_first("SELECT COUNT(*) FROM app.writes").await.unwrap();
        assert_eq!(there, Some(1), "{server}");
    }
    fleet.lab.down().await.unwrap();
}

/// No time for routers that are not there, and enough for servers that others delay.
pub(crate) fn quick() -> Deadlines {
    Deadlines {
        prepare_ms: 100,
        drain_ms: 20_000,
        freeze_ms: 20_000,
        await_ms: 60_000,
        ..Deadlines::default()
    }
}

/// Moves the primary around, with writes before each move, and compares all servers after it.
pub(crate) async fn there_and_back(fleet: Fleet, candidates: &[&str]) {
    let mut written = 0i64;
    for candidate in candidates.iter().copied() {
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
                fleet.lab.wait_applied(server, candidate, DEADLINE * 6).await.unwrap();
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
    let last = candidates.last().copied();
    let other = if last == Some("a1") { "a2" } else { "a1" };
    let findings = fleet.survey(other).await.checks(Limits::default(), true);
    let errant = findings.iter().find(|finding| finding.check == "errant transactions").unwrap();
    assert_eq!(errant.level, Level::Pass, "{errant:?}");
    fleet.lab.down().await.unwrap();
}
