//! A lab, a watcher on it, and waiting for what the watcher should see.

use config::{Credentials, FleetConfig, Matcher, OwnZone, ZoneRule};
use fleet::{Address, Role, Server, Snapshot, WriterStatus, Zone};
use lab::{Account, Lab, Spec};
use mysql_async::prelude::Queryable;
use observe::Watcher;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::watch;

/// A lab and what a watcher in it is told.
pub(crate) struct Scene {
    pub(crate) lab: Lab,
    _base: TempDir,
}

impl Scene {
    pub(crate) async fn up(spec: &Spec) -> Self {
        let base = tempfile::tempdir().unwrap();
        let lab = Lab::up(spec, base.path()).await.unwrap();
        Self { lab, _base: base }
    }

    /// One look from one server on: whoever answers late is not silent.
    pub(crate) async fn survey(&self, seed: &str) -> Snapshot {
        let config = FleetConfig { deadline: Duration::from_secs(20), ..self.config(&[seed]) };
        observe::survey(&config).await
    }

    /// Watching from one server on, zones by the networks of the lab.
    pub(crate) fn config(&self, seeds: &[&str]) -> FleetConfig {
        let zone = |(at, zone): (usize, &Zone)| ZoneRule {
            zone: zone.clone(),
            members: vec![Matcher::Net(format!("127.{}.0.0/16", at + 1).parse().unwrap())],
            demand: None,
        };
        FleetConfig {
            seeds: seeds.iter().map(|seed| self.address(seed)).collect(),
            interval: Duration::from_millis(200),
            credentials: Credentials {
                user: Some(Account::Headroom.user().to_owned()),
                password: Some(self.lab.password(Account::Headroom).to_owned()),
                ..Credentials::default()
            },
            zones: self.lab.zones().iter().enumerate().map(zone).collect(),
            own_zone: OwnZone::Named(self.lab.zones()[0].clone()),
            ..FleetConfig::default()
        }
    }

    pub(crate) fn address(&self, server: &str) -> Address {
        let real = self.lab.real(server).unwrap();
        Address::tcp(real.ip().to_string(), real.port())
    }

    pub(crate) fn name(&self, server: &str) -> String {
        self.address(server).to_string()
    }

    /// A statement on a server, as root.
    pub(crate) async fn run(&self, server: &str, statement: &str) {
        self.lab.connect(server).await.unwrap().query_drop(statement).await.unwrap();
    }

    pub(crate) fn watch(&self, seeds: &[&str]) -> Watching<'_> {
        self.watch_with(self.config(seeds))
    }

    pub(crate) fn watch_with(&self, config: FleetConfig) -> Watching<'_> {
        let watcher = Watcher::start(config);
        let snapshots = watcher.snapshots();
        Watching { scene: self, watcher, snapshots }
    }
}

/// A watcher and its snapshots.
pub(crate) struct Watching<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) watcher: Watcher,
    snapshots: watch::Receiver<Arc<Snapshot>>,
}

impl Watching<'_> {
    /// The first snapshot for which `holds`; shows the last one if none comes.
    pub(crate) async fn until(&mut self, what: &str, holds: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let now = self.snapshots.borrow_and_update().clone();
            if holds(&now) {
                return now;
            }
            assert!(Instant::now() < deadline, "never seen: {what}; last seen:\n{now:#?}");
            let _ = tokio::time::timeout(Duration::from_secs(1), self.snapshots.changed()).await;
        }
    }

    /// The first snapshot in which one server is as `holds` wants it.
    pub(crate) async fn until_server(
        &mut self,
        server: &str,
        what: &str,
        holds: impl Fn(&Server) -> bool,
    ) -> Server {
        let name = self.scene.name(server);
        let find = |s: &Snapshot| s.servers.iter().find(|s| s.name.as_str() == name).cloned();
        let snapshot = self.until(&format!("{server} {what}"), |s| find(s).is_some_and(|s| holds(&s))).await;
        find(&snapshot).unwrap()
    }

    /// Everything as the lab was brought up: `primary` takes writes, all others replicate.
    pub(crate) async fn until_sound(&mut self, primary: &str) -> Arc<Snapshot> {
        let (count, name) = (self.scene.lab.servers().len(), self.scene.name(primary));
        self.until("a sound fleet", |s| {
            s.servers.len() == count
                && writer(s) == Some(name.as_str())
                && s.servers.iter().all(|s| s.state == fleet::State::Answering)
                && s.servers.iter().filter(|s| s.role == Role::Replica).count() == count - 1
                && s.servers
                    .iter()
                    .all(|s| s.role == Role::Primary || s.replication == fleet::Replication::Running)
        })
        .await
    }
}

pub(crate) fn writer(snapshot: &Snapshot) -> Option<&str> {
    match &snapshot.writer {
        WriterStatus::Known { server } => Some(server.as_str()),
        WriterStatus::Unknown { .. } => None,
    }
}

pub(crate) fn why_unknown(snapshot: &Snapshot) -> &str {
    match &snapshot.writer {
        WriterStatus::Known { .. } => "",
        WriterStatus::Unknown { why } => why,
    }
}
