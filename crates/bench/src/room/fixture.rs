//! The fixture of `headroom-bench room`: a lab whose readers each have a limit of CPU time, and `headroom
//! route` in each zone.

use super::clients::{Clients, Demand, Order, Pace};
use super::cpu_limit::CpuLimit;
use crate::binary;
use anyhow::{Context, bail};
use console::admin_client::AdminClient;
use console::status_view::{ServerView, StatusView};
use lab::process::Process;
use lab::{Account, Fault, Lab, RouterOptions, Spec};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddrV4;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const READY_WITHIN: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(200);
/// How long it is counted what readers carry, and by how many sessions of each.
const CARRY_FOR: Duration = Duration::from_secs(10);
const CARRYING: usize = 4;

/// Servers, and what each may use.
#[derive(Debug)]
pub(super) struct RoomLab {
    pub(super) lab: Lab,
    /// By name, without the primary.
    limits: BTreeMap<String, CpuLimit>,
    control: BTreeMap<String, Conn>,
    full: f64,
}

/// What the routers are told.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    pub(super) speed: bool,
    pub(super) work: bool,
    pub(super) heat: bool,
    /// Of servers, by name; the others have 1.
    pub(super) weights: BTreeMap<String, f64>,
}

/// A router of one zone.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) zone: String,
    process: Process,
    client: AdminClient,
    reader: SocketAddrV4,
    password: String,
}

impl RoomLab {
    /// The primary in a zone of its own, and as many readers in each of these zones; each reader may use
    /// `full` of a core.
    pub(super) async fn up(base: &Path, zones: &[(&str, u8)], full: f64) -> anyhow::Result<Self> {
        let all: Vec<(&str, u8)> = zones.iter().copied().chain([("p", 1)]).collect();
        let mut spec = Spec::new(&all).primary("p1").option("max_connections", "400");
        spec.server.buffer_pool_mib = 32;
        spec.server.performance_schema = false;
        // A reader that is restarted has nothing in its buffer pool, and reads past the system's cache.
        let spec = spec
            .option("innodb_buffer_pool_load_at_startup", "OFF")
            .option("innodb_buffer_pool_dump_at_shutdown", "OFF")
            .option("innodb_flush_method", "O_DIRECT");
        let lab = Lab::up(&spec, base).await.context("bringing up the servers")?;
        let (limits, control) = (BTreeMap::new(), BTreeMap::new());
        let mut room = Self { lab, limits, control, full };
        for server in room.lab.servers().into_iter().filter(|server| server != "p1") {
            room.limit(&server).await?;
        }
        Ok(room)
    }

    /// Limits a server that has just been started.
    async fn limit(&mut self, server: &str) -> anyhow::Result<()> {
        let mut root = self.lab.connect(server).await?;
        let pid = pid(&mut root).await?;
        self.limits.remove(server);
        let limit = CpuLimit::new(server, pid)?;
        limit.set(self.full)?;
        self.limits.insert(server.to_owned(), limit);
        self.control.insert(server.to_owned(), root);
        Ok(())
    }

    /// A connection to a reader that no limit of ours counts.
    pub(super) fn control(&mut self, server: &str) -> anyhow::Result<&mut Conn> {
        self.control.get_mut(server).context("no such reader")
    }

    /// Shuts a reader down in order and starts it again.
    pub(super) async fn restart(&mut self, server: &str) -> anyhow::Result<()> {
        if let Some(conn) = self.control.remove(server) {
            // The server closes it as well.
            let _ = conn.disconnect().await;
        }
        self.lab.fault(server, Fault::Stop).await?;
        self.lab.heal(server).await?;
        self.limit(server).await
    }

    pub(super) fn readers(&self) -> Vec<String> {
        self.limits.keys().cloned().collect()
    }

    /// Lets a reader use this part of what the others may.
    pub(super) fn set_speed(&self, server: &str, part: f64) -> anyhow::Result<()> {
        self.limits.get(server).context("no such reader")?.set(self.full * part)
    }

    /// Statements that each reader has answered, by its own count.
    pub(super) async fn statements(&mut self) -> anyhow::Result<BTreeMap<String, u64>> {
        let mut all = BTreeMap::new();
        for (server, conn) in &mut self.control {
            let row: Option<(String, u64)> = conn.query_first("SHOW GLOBAL STATUS LIKE 'Com_select'").await?;
            all.insert(server.clone(), row.map_or(0, |(_, count)| count));
        }
        Ok(all)
    }

    /// How often `MD5` must be computed to keep a core busy for about this long.
    pub(super) async fn calibrate(&mut self, time: Duration) -> anyhow::Result<u64> {
        let mut conn = self.lab.connect("p1").await?;
        const TIMES: u64 = 200_000;
        let begun = Instant::now();
        conn.query_drop(format!("SELECT BENCHMARK({TIMES}, MD5('room'))")).await?;
        let each = begun.elapsed().as_secs_f64() / TIMES as f64;
        conn.disconnect().await?;
        Ok((time.as_secs_f64() / each) as u64)
    }

    /// Statements a second that the readers answer together, each within its limit and all at the same time:
    /// cores that share their units, and clients beside them, make each slower than it is alone.
    pub(super) async fn carry(&self, statement: &Arc<str>, seed: u64) -> anyhow::Result<f64> {
        let mut clients = Vec::new();
        for reader in self.readers() {
            let zone = reader.trim_end_matches(|c: char| c.is_ascii_digit());
            let opts = OptsBuilder::from_opts(self.lab.opts(zone, &reader, Account::App)?);
            let (sessions, order, pace) = (CARRYING, Order::OldestFirst, Pace::Closed(CARRYING));
            let demand = Demand { sessions, order, pace, statement: statement.clone(), seed };
            clients.push(Clients::start(&opts.prefer_socket(false), &demand).await?);
        }
        tokio::time::sleep(CARRY_FOR / 5).await;
        clients.iter().for_each(|clients| drop(clients.take()));
        let begun = Instant::now();
        tokio::time::sleep(CARRY_FOR).await;
        let answered: usize = clients.iter().map(|clients| clients.take().times_ms.len()).sum();
        anyhow::ensure!(answered > 0, "the readers answered nothing");
        Ok(answered as f64 / begun.elapsed().as_secs_f64())
    }

    /// Starts a router in each zone, and waits until each has all readers.
    pub(super) async fn routes(&self, zones: &[&str], way: &Way) -> anyhow::Result<Vec<Route>> {
        let mut routes = Vec::new();
        for zone in zones {
            routes.push(self.route(zone, way).await?);
        }
        for route in &mut routes {
            route.ready(self.limits.len()).await?;
        }
        Ok(routes)
    }

    async fn route(&self, zone: &str, way: &Way) -> anyhow::Result<Route> {
        let status = self.lab.status().await;
        let options = RouterOptions { zero_hop: Some("off"), threads: Some(1), ..RouterOptions::default() };
        let mut config = status.router_config(zone, &options)?;
        for (server, weight) in &way.weights {
            let name = format!("name = \"{server}\"");
            anyhow::ensure!(config.contains(&name), "the configuration names no {server}");
            config = config.replace(&name, &format!("{name}\nweight = {weight}"));
        }
        let Way { speed, work, heat, .. } = way;
        write!(config, "\n[router.capacity]\nspeed = {speed}\nwork = {work}\nheat = {heat}\n")?;
        let (file, log) = (self.lab.dir().join("room.toml"), self.lab.dir().join(format!("room-{zone}.log")));
        let file = file.with_file_name(format!("room-{zone}.toml"));
        std::fs::write(&file, config).context("writing the configuration")?;
        let arguments = ["route", "--config"].map(str::to_owned);
        let arguments: Vec<String> = arguments.into_iter().chain([file.display().to_string()]).collect();
        let process = Process::start("headroom route", &binary::headroom()?, &arguments, &log)?;
        let addresses = status.router_addresses(zone)?;
        let client = AdminClient::new(Some(&addresses.admin.to_string()));
        let password = self.lab.password(Account::App).to_owned();
        Ok(Route { zone: zone.to_owned(), process, client, reader: addresses.reader, password })
    }

    /// Shuts everything down.
    pub(super) async fn down(self) -> anyhow::Result<()> {
        let Self { lab, limits, control, .. } = self;
        for conn in control.into_values() {
            conn.disconnect().await?;
        }
        let down = lab.down().await;
        drop(limits);
        Ok(down?)
    }
}

/// The process of a server on this host.
pub(super) async fn pid(conn: &mut Conn) -> anyhow::Result<u32> {
    let file: Option<String> = conn.query_first("SELECT @@pid_file").await?;
    let pid = std::fs::read_to_string(file.unwrap_or_default()).context("reading a pid file")?;
    pid.trim().parse().context("a pid file holds no number")
}

impl Route {
    pub(super) async fn status(&self) -> anyhow::Result<StatusView> {
        self.client.status().await
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        Ok(self.process.stop().await?)
    }

    /// Where clients of its zone log in.
    pub(super) fn opts(&self) -> OptsBuilder {
        OptsBuilder::default()
            .ip_or_hostname(self.reader.ip().to_string())
            .tcp_port(self.reader.port())
            .user(Some(Account::App.user()))
            .pass(Some(&self.password))
            .prefer_socket(false)
    }

    async fn ready(&mut self, readers: usize) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            self.process.alive()?;
            let reads = |s: &&ServerView| s.routing.as_ref().is_some_and(|routing| routing.reads.eligible);
            let eligible =
                self.client.status().await.map_or(0, |s| s.fleet.servers.iter().filter(reads).count());
            if eligible == readers {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{eligible} of {readers} readers eligible after {} s", READY_WITHIN.as_secs());
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
