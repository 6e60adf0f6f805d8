//! The lab with its data, and the applications of a phase opened on it.

use crate::routers::{Routers, address};
use crate::scenario::{PRIMARY, Phase, Scenario, ZONES};
use anyhow::{Context, anyhow, bail};
use lab::app::{self, App, AppCounts, AppSpec, Rates, Traffic};
use lab::{Account, Lab, Spec};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The rows must reach every replica by then.
const LOADED_WITHIN: Duration = Duration::from_secs(30);
/// As a driver's read timeout is set in production: seconds, not milliseconds.
const STATEMENT_DEADLINE: Duration = Duration::from_secs(5);
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// A lab with data on it.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) lab: Lab,
    /// All ticks count from here.
    pub(crate) epoch: Instant,
    /// Which way sessions went, as each router said.
    ways: Mutex<BTreeSet<String>>,
}

/// One application per zone, in the order of [`ZONES`].
#[derive(Debug)]
pub(crate) struct Apps {
    apps: Vec<App>,
}

impl Fixture {
    /// Servers up, replicating, loaded.
    pub(crate) async fn set(scenario: &Scenario, base: &Path) -> anyhow::Result<Self> {
        let within = lab::Network::default().within;
        let spec = Spec::new(&ZONES).primary(PRIMARY).round_trip(within, scenario.between_zones);
        let lab = Lab::up(&spec, base).await?;
        let fixture = Self { lab, epoch: Instant::now(), ways: Mutex::default() };
        app::load(&mut fixture.lab.connect(PRIMARY).await?, scenario.data)
            .await
            .context("loading the tables")?;
        let deadline = Instant::now() + LOADED_WITHIN;
        for server in fixture.lab.servers() {
            let mut session = fixture.lab.connect(&server).await?;
            while !app::is_ready(&mut session).await? {
                if Instant::now() > deadline {
                    bail!("the rows did not reach {server} within {} s", LOADED_WITHIN.as_secs());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(fixture)
    }

    /// Opens the applications of all zones as a phase places them.
    pub(crate) async fn open(
        &self,
        scenario: &Scenario,
        phase: &Phase,
        readers: &[&str],
        routers: Option<&Routers>,
    ) -> anyhow::Result<Apps> {
        let mut opening = JoinSet::new();
        for (zone, _) in ZONES {
            let (reader_addresses, writer) = match phase.policy.readers(zone, readers) {
                Some(direct) => {
                    let reach = |server: &str| Ok::<_, lab::Error>(address(self.lab.reach(zone, server)?));
                    let direct = direct.into_iter().map(reach).collect::<Result<Vec<_>, _>>()?;
                    (direct, reach(PRIMARY)?)
                }
                None => {
                    let router = routers.context("no router runs")?.of(zone)?;
                    self.ways.lock().unwrap_or_else(PoisonError::into_inner).insert(router.way.words());
                    router.addresses()
                }
            };
            let spec = AppSpec {
                zone: zone.into(),
                readers: reader_addresses,
                writer,
                reader_sessions: scenario.reader_sessions,
                writer_sessions: scenario.writer_sessions,
                order: scenario.order,
                password: self.lab.password(Account::App).to_owned(),
                statement_deadline: STATEMENT_DEADLINE,
                connect_deadline: CONNECT_DEADLINE,
                data: scenario.data,
                epoch: self.epoch,
            };
            opening.spawn(App::open(spec));
        }
        let mut apps = Vec::new();
        while let Some(opened) = opening.join_next().await {
            apps.push(opened?.map_err(|f| {
                anyhow!("an application could not open its sessions: {}: {}", f.kind, f.said)
            })?);
        }
        apps.sort_by(|x, y| x.zone().cmp(y.zone()));
        Ok(Apps { apps })
    }

    /// Which way sessions went where headroom placed them.
    pub(crate) fn ways(&self) -> String {
        let ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        ways.iter().cloned().collect::<Vec<_>>().join("; ")
    }

    /// Seconds since the epoch.
    pub(crate) fn now(&self) -> f64 {
        self.seconds(Instant::now())
    }

    /// An instant as seconds since the epoch.
    pub(crate) fn seconds(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.epoch).as_secs_f64()
    }
}

impl Apps {
    /// Begins traffic in every zone.
    pub(crate) fn begin(&self, phase: &Phase, even: Rates, seed: u64) -> Vec<Traffic> {
        let zones = self.apps.iter().enumerate();
        zones.map(|(zone, app)| app.begin(phase.rates(zone, even), seed * 1000 + zone as u64)).collect()
    }

    /// What each zone counted since the last call.
    pub(crate) fn take(&self) -> Vec<(String, AppCounts)> {
        self.apps.iter().map(|app| (app.zone().to_string(), app.take())).collect()
    }

    /// The application of each zone.
    pub(crate) fn all(&self) -> &[App] {
        &self.apps
    }

    /// Closes their sessions.
    pub(crate) async fn close(self) {
        let mut closing = JoinSet::new();
        for app in self.apps {
            closing.spawn(async move { app.close().await });
        }
        while closing.join_next().await.is_some() {}
    }
}

/// Ends traffic and waits for requests under way.
pub(crate) async fn end(traffic: Vec<Traffic>) {
    for traffic in traffic {
        traffic.stop().await;
    }
}
