//! Real servers with performance_schema, and a router in front of them that measures.

use crate::watching;
use config::{InsightConfig, Listener, RouterConfig};
use fleet::{Address, ListenerRole};
use insight::{Dimension, Filter, Report, Since};
use lab::{Lab, Spec};
use mysql_async::OptsBuilder;
use observe::Watcher;
use router::{Router, Status};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) struct Stand {
    pub(crate) lab: Lab,
    watcher: Watcher,
    pub(crate) router: Router,
}

impl Stand {
    /// Reader and writer listeners in zone a, in front of whatever `spec` says.
    pub(crate) async fn up(base: &Path, spec: Spec, insight: InsightConfig) -> Self {
        let lab = Lab::up(&spec, base).await.unwrap();
        let watcher = Watcher::start(watching::fleet(&lab, "a"));
        let listeners = [ListenerRole::Reader, ListenerRole::Writer]
            .map(|role| Listener::new(Address::tcp("127.0.0.1", 0), role));
        let config = RouterConfig { insight, threads: Some(2), ..RouterConfig::default() };
        let router = Router::start(config, listeners.into(), watcher.snapshots(), |_, _| {}).unwrap();
        let stand = Self { lab, watcher, router };
        stand
            .until("a server may be picked for each role", |s| {
                s.servers.iter().any(|s| s.reads.eligible) && s.servers.iter().any(|s| s.writes.eligible)
            })
            .await;
        stand
    }

    /// The address of a listener: 0 for reads, 1 for writes.
    pub(crate) fn address(&self, listener: usize) -> Address {
        self.router.status().listeners[listener].address.clone()
    }

    pub(crate) fn opts(&self, listener: usize) -> OptsBuilder {
        watching::opts(&self.lab, &self.address(listener)).db_name(Some("app"))
    }

    pub(crate) async fn report(&self) -> Report {
        self.router.insight().report(Since::Start).await.unwrap()
    }

    /// Counts by name.
    pub(crate) async fn counts(&self, by: Dimension) -> BTreeMap<String, u64> {
        let rows = self.report().await.rows(by, &Filter::default());
        rows.into_iter().map(|row| (row.name, row.figures.count)).collect()
    }

    async fn until(&self, what: &str, holds: impl Fn(&Status) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds(&self.router.status()) {
            assert!(Instant::now() < deadline, "never: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn down(self) {
        self.router.stop(Duration::from_secs(2)).await;
        self.watcher.stop().await;
        self.lab.down().await.unwrap();
    }
}
