//! The fixture of a soak: a primary and two replicas, the tables, and `headroom route` in front of them.

use super::client_pool::ClientPool;
use super::question::{Answers, fill};
use crate::{binary, output};
use anyhow::{Context, bail};
use console::admin_client::AdminClient;
use console::status_view::StatusView;
use lab::process::Process;
use lab::{Account, DATABASE, Lab, RouterOptions, Spec};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::process::ChildStdin;
use zerohop::RouterPins;

/// Where applications are, and so the router.
const ZONE: &str = "a";
pub(super) const PRIMARY: &str = "a1";
/// Servers and router are ready, and replicas caught up, in well under this.
const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
/// More than the widest row.
const PACKET: usize = 64 << 20;

/// Everything that was started.
#[derive(Debug)]
pub(super) struct SoakFixture {
    pub(super) lab: Lab,
    route: Process,
    /// Where the router hears which of its parts are to fail; until somebody takes it.
    pub(super) faults: Option<ChildStdin>,
    client: AdminClient,
    log: PathBuf,
    reader: SocketAddrV4,
    writer: SocketAddrV4,
    /// Goes away after the router.
    pinned: RouterPins,
}

impl SoakFixture {
    /// Brings everything up.
    pub(super) async fn up(base: &Path, clients: u32, zero_hop: bool) -> anyhow::Result<Self> {
        let mut spec = Spec::new(&[(ZONE, 2), ("b", 1)])
            .option("max_allowed_packet", &PACKET.to_string())
            .option("max_connections", &(clients * 2 + 100).to_string());
        spec.server.buffer_pool_mib = 64;
        spec.server.performance_schema = false;
        let lab = Lab::up(&spec, base).await.context("bringing up the servers")?;
        let status = lab.status().await;
        let addresses = status.router_addresses(ZONE)?;
        let zero_hop = if zero_hop { "require" } else { "off" };
        let options = RouterOptions { zero_hop: Some(zero_hop), ..RouterOptions::default() };
        let (file, log) = (lab.dir().join("soak.toml"), lab.dir().join("soak.log"));
        std::fs::write(&file, status.router_config(ZONE, &options)?).context("writing the configuration")?;
        let mut root = lab.connect(PRIMARY).await?;
        fill(&mut root).await.context("filling the table")?;
        root.disconnect().await?;
        let arguments = ["route", "--faults-from-stdin", "--config"].map(str::to_owned);
        let arguments: Vec<String> = arguments.into_iter().chain([file.display().to_string()]).collect();
        let binary = binary::headroom()?;
        let (route, faults) = Process::start_with_input("headroom route", &binary, &arguments, &log)?;
        let client = AdminClient::new(Some(&addresses.admin.to_string()));
        let (reader, writer) = (addresses.reader, addresses.writer);
        let (faults, pinned) = (Some(faults), RouterPins::new(file, term::complain));
        let mut fixture = Self { lab, route, faults, client, log, reader, writer, pinned };
        fixture.ready().await?;
        Ok(fixture)
    }

    /// The router's process.
    pub(super) fn pid(&mut self) -> anyhow::Result<u32> {
        Ok(self.route.pid()?)
    }

    /// What the router says of itself.
    pub(super) async fn status(&self) -> anyhow::Result<StatusView> {
        self.client.status().await
    }

    /// What clients share; every question is asked of the primary first, and of each replica, which must
    /// agree.
    pub(super) async fn pool(&self, interval: Duration, seed: u64) -> anyhow::Result<ClientPool> {
        let mut names = HashMap::new();
        for server in self.lab.servers() {
            names.insert(self.lab.real(&server)?.ip().to_string(), server);
        }
        let mut conn = self.direct(PRIMARY).await?;
        let answers = Answers::of(&mut conn).await.context("asking the primary directly")?;
        conn.disconnect().await?;
        let opts = [self.reader, self.writer].map(|at| self.opts(at));
        Ok(ClientPool::new(opts, answers, names, interval, seed))
    }

    /// A session of the application's account, past the router and its links.
    pub(super) async fn direct(&self, server: &str) -> anyhow::Result<Conn> {
        Ok(Conn::new(self.opts(self.lab.real(server)?)).await?)
    }

    /// Stops everything; the router's log is kept in `keep`.
    pub(super) async fn down(self, keep: &Path) -> anyhow::Result<()> {
        let Self { lab, route, log, pinned, .. } = self;
        let stopped = route.stop().await;
        drop(pinned);
        let log = std::fs::read(&log).context("reading the router's log")?;
        output::keep(keep, "route.log", &log)?;
        lab.down().await?;
        Ok(stopped?)
    }

    /// No set-up statements: what a client sends is what it asks.
    fn opts(&self, at: SocketAddrV4) -> OptsBuilder {
        OptsBuilder::default()
            .ip_or_hostname(at.ip().to_string())
            .tcp_port(at.port())
            .user(Some(Account::App.user()))
            .pass(Some(self.lab.password(Account::App)))
            .max_allowed_packet(Some(PACKET))
            .wait_timeout(Some(28_800))
            .prefer_socket(false)
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            self.route.alive()?;
            let eligible = self.client.status().await.map_or(0, |status| {
                let reads = |s: &&console::status_view::ServerView| {
                    s.routing.as_ref().is_some_and(|routing| routing.reads.eligible)
                };
                status.fleet.servers.iter().filter(reads).count()
            });
            if eligible == self.lab.servers().len() - 1 && self.caught_up().await? {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{eligible} replicas eligible after {} s", READY_WITHIN.as_secs());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Whether every server has the same table.
    async fn caught_up(&self) -> anyhow::Result<bool> {
        let mut sums = Vec::new();
        for server in self.lab.servers() {
            let mut root = self.lab.connect(&server).await?;
            let table = format!("CHECKSUM TABLE {DATABASE}.soak, {DATABASE}.soak_written");
            let found: Vec<(String, Option<u64>)> = root.query(table).await?;
            root.disconnect().await?;
            sums.push(found);
        }
        Ok(sums.windows(2).all(|pair| pair[0] == pair[1] && pair[0].iter().all(|(_, sum)| sum.is_some())))
    }
}
