//! One real server, and runs against it.

use fleet::Address;
use lab::{Fault, Lab, Spec};
use load::workload::sysbench::{self, Options};
use load::{Account, Arrivals, LoadError, Outcome, Plan, Target};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) struct Stand {
    pub(crate) lab: Lab,
    _base: TempDir,
}

impl Stand {
    /// A primary without replicas.
    pub(crate) async fn up(performance_schema: bool) -> Self {
        let mut spec = Spec::new(&[("a", 1)]);
        spec.server.performance_schema = performance_schema;
        Self::with(spec).await
    }

    pub(crate) async fn with(spec: Spec) -> Self {
        let base = tempfile::tempdir().unwrap();
        let lab = Lab::up(&spec, base.path()).await.unwrap();
        Self { lab, _base: base }
    }

    pub(crate) async fn down(self) {
        self.lab.down().await.unwrap();
    }

    pub(crate) fn address(&self) -> SocketAddrV4 {
        self.lab.real("a1").unwrap()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.lab.socket("a1").unwrap()
    }

    pub(crate) fn account(&self) -> Account {
        Account {
            user: lab::Account::App.user().to_owned(),
            password: self.lab.password(lab::Account::App).to_owned(),
            database: lab::DATABASE.to_owned(),
        }
    }

    pub(crate) async fn root(&self) -> Conn {
        self.lab.connect("a1").await.unwrap()
    }

    /// Waits until this many clients of a run are connected, and some of them have asked something.
    pub(crate) async fn is_under_way(&self, clients: u32) {
        let mut root = self.root().await;
        let user = self.account().user;
        let ask = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '{user}'");
        let deadline = Instant::now() + Duration::from_secs(60);
        while root.query_first::<u32, _>(ask.as_str()).await.unwrap() < Some(clients) {
            assert!(Instant::now() < deadline, "they do not connect");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        root.disconnect().await.unwrap();
    }

    pub(crate) fn options() -> Options {
        Options { tables: 2, table_size: 1000, ..Options::default() }
    }

    pub(crate) fn target(&self) -> Target {
        let address = self.address();
        Target::single(Address::tcp(address.ip().to_string(), address.port()), self.account())
    }

    pub(crate) async fn prepare(&self, options: &Options) {
        let (target, options) = (self.target(), options.clone());
        tokio::task::spawn_blocking(move || load::tables::prepare(&target, &options, 2, 1, |_| ()))
            .await
            .unwrap()
            .unwrap();
    }

    pub(crate) async fn statements(&self, statements: &[String]) {
        let (target, statements) = (self.target(), statements.to_vec());
        tokio::task::spawn_blocking(move || load::tables::statements(&target, &statements))
            .await
            .unwrap()
            .unwrap();
    }

    /// Four clients in a closed loop for a short while.
    pub(crate) fn plan(&self, workload: &str, options: &Options) -> Plan {
        Plan {
            workload: sysbench::workload(workload, options).unwrap().into(),
            target: self.target(),
            clients: 4,
            idle: 0,
            read_only: false,
            threads: 2,
            busy: false,
            data_path: super::DATA_PATH,
            arrivals: Arrivals::closed(),
            warm_up: Duration::ZERO,
            time: Duration::from_millis(300),
            grace: Duration::from_secs(2),
            seed: 1,
            objective: None,
        }
    }

    pub(crate) async fn try_run(&self, plan: Plan) -> Result<Outcome, LoadError> {
        let asked = plan.data_path;
        let run = move || load::run(&plan, &Default::default(), |_| ());
        let outcome = tokio::task::spawn_blocking(run).await.unwrap()?;
        assert_eq!(outcome.generator.data_path, asked.as_str());
        Ok(outcome)
    }

    pub(crate) async fn run(&self, plan: Plan) -> Outcome {
        self.try_run(plan).await.unwrap()
    }

    /// A run in which something is done: again, and longer, where the machine let nothing end in its time.
    pub(crate) async fn run_some(&self, plan: Plan) -> Outcome {
        for longer in [1, 4, 16] {
            let outcome = self.run(Plan { time: plan.time * longer, ..plan.clone() }).await;
            if outcome.totals.done > 0 || outcome.totals.failed > 0 {
                return outcome;
            }
        }
        self.run(Plan { time: plan.time * 64, ..plan }).await
    }

    /// A run in whose middle the server stands still for a while.
    pub(crate) async fn run_frozen(&self, plan: Plan, freeze: Duration) -> Outcome {
        let middle = plan.time / 2;
        let fault = async {
            tokio::time::sleep(middle).await;
            self.lab.fault("a1", Fault::Freeze).await.unwrap();
            tokio::time::sleep(freeze).await;
            self.lab.heal("a1").await.unwrap();
        };
        tokio::join!(self.run(plan), fault).0
    }
}
