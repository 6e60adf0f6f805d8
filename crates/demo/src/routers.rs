//! The product itself: one `headroom route` per zone, as child processes of this very binary, with the
//! configuration an operator of that zone would write. They end with the demo, whatever happens to it.

use crate::scenario::{PRIMARY, ZONES};
use anyhow::{Context, bail};
use console::admin_client::AdminClient;
use console::status_view::StatusView;
use fleet::Address;
use lab::process::Process;
use lab::{Lab, RouterAddresses, RouterOptions, Status};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use zerohop::RouterPins;

/// A router finds a handful of servers in well under this time.
const READY_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

/// One router per zone, in the order of [`ZONES`].
#[derive(Debug)]
pub(crate) struct Routers {
    routers: Vec<ZoneRouter>,
}

/// The router of one zone.
#[derive(Debug)]
pub(crate) struct ZoneRouter {
    /// Its zone.
    pub(crate) zone: &'static str,
    /// Readers connect here.
    pub(crate) reader: SocketAddrV4,
    /// Writers connect here.
    pub(crate) writer: SocketAddrV4,
    /// The same for applications on this host: unix sockets, as they would use beside a router.
    pub(crate) reader_socket: PathBuf,
    /// The same.
    pub(crate) writer_socket: PathBuf,
    /// Status page and JSON.
    pub(crate) admin: SocketAddrV4,
    /// Which way sessions go.
    pub(crate) way: Way,
    program: Process,
    client: AdminClient,
    /// Goes away after the program.
    pinned: RouterPins,
}

/// Which way an application's sessions go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Straight to the server that the router picked, by its TCP listeners' addresses; all but those it
    /// names.
    Bypass(String),
    /// Through the router, by its unix sockets; and why.
    Relay(String),
}

impl Way {
    fn of(status: &StatusView) -> Self {
        let tcp = status.listeners.iter().filter(|listener| !listener.address.starts_with('/'));
        let (past, through): (Vec<_>, Vec<_>) = tcp.map(|l| &l.zero_hop).partition(|z| z.in_force);
        match (past.first(), through.first()) {
            (Some(past), None) => Self::Bypass(past.text.clone()),
            (_, through) => Self::Relay(through.map(|z| z.text.clone()).unwrap_or_default()),
        }
    }

    /// For the report.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Bypass(words) => format!("zero-hop: {}", words.replace("this process", "the router")),
            Self::Relay(why) => format!("through the routers, by unix sockets ({why})"),
        }
    }
}

impl Routers {
    /// Starts one router per zone; replicas that are not among `readers` are reserved, so they get no reads.
    /// Returns when each router may pick every reader.
    pub(crate) async fn start(lab: &Lab, readers: &[&str], relay: bool) -> anyhow::Result<Self> {
        let mut routers = Self { routers: Vec::new() };
        let status = lab.status().await;
        for (zone, _) in ZONES {
            routers.routers.push(ZoneRouter::start(&status, zone, readers, relay)?);
        }
        let deadline = Instant::now() + READY_WITHIN;
        for router in &mut routers.routers {
            router.wait_ready(readers, deadline).await?;
        }
        Ok(routers)
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[ZoneRouter] {
        &self.routers
    }

    /// The router of a zone.
    pub(crate) fn of(&self, zone: &str) -> anyhow::Result<&ZoneRouter> {
        self.routers.iter().find(|r| r.zone == zone).with_context(|| format!("no router runs in zone {zone}"))
    }

    /// Asks them to end and waits.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        let mut stopping = JoinSet::new();
        let mut pinned = Vec::new();
        for router in self.routers {
            stopping.spawn(router.program.stop());
            pinned.push(router.pinned);
        }
        while let Some(stopped) = stopping.join_next().await {
            stopped??;
        }
        drop(pinned);
        Ok(())
    }
}

impl ZoneRouter {
    fn start(status: &Status, zone: &'static str, readers: &[&str], relay: bool) -> anyhow::Result<Self> {
        let RouterAddresses { reader, writer, admin } = status.router_addresses(zone)?;
        let dir = &status.dir;
        let socket = |role: &str| dir.join(format!("router-{zone}-{role}.sock"));
        let (reader_socket, writer_socket) = (socket("reader"), socket("writer"));
        let names = status.servers.iter().map(|server| server.name.clone());
        let options = RouterOptions {
            zero_hop: Some(if relay { "off" } else { "auto" }),
            reserved: names.filter(|name| name != PRIMARY && !readers.contains(&name.as_str())).collect(),
            threads: Some(1),
            reader_socket: Some(reader_socket.clone()),
            writer_socket: Some(writer_socket.clone()),
        };
        let file = dir.join(format!("router-{zone}.toml"));
        std::fs::write(&file, status.router_config(zone, &options)?)
            .with_context(|| format!("writing {}", file.display()))?;
        let arguments =
            ["route", "--config"].into_iter().map(str::to_owned).chain([file.display().to_string()]);
        let log = dir.join(format!("router-{zone}.log"));
        let binary = std::env::current_exe().context("finding this program's own file")?;
        let program = Process::start("headroom route", &binary, &arguments.collect::<Vec<_>>(), &log)?;
        let client = AdminClient::new(Some(&admin.to_string()));
        let (way, pinned) = (Way::Relay(String::new()), RouterPins::new(file, term::complain));
        Ok(Self { zone, reader, writer, reader_socket, writer_socket, admin, way, program, client, pinned })
    }

    /// Where the zone's application finds readers and the writer.
    pub(crate) fn addresses(&self) -> (Vec<Address>, Address) {
        match self.way {
            Way::Bypass(_) => (vec![address(self.reader)], address(self.writer)),
            Way::Relay(_) => {
                let unix = |path: &PathBuf| Address::Unix(path.clone());
                (vec![unix(&self.reader_socket)], unix(&self.writer_socket))
            }
        }
    }

    async fn wait_ready(&mut self, readers: &[&str], deadline: Instant) -> anyhow::Result<()> {
        loop {
            self.program.alive()?;
            let seen = self.client.status().await;
            let missing = match &seen {
                Ok(status) => not_eligible(status, readers),
                Err(error) => vec![format!("{error:#}")],
            };
            if let Ok(status) = &seen
                && missing.is_empty()
            {
                self.way = Way::of(status);
                return Ok(());
            }
            if Instant::now() > deadline {
                let limit = READY_WITHIN.as_secs();
                bail!(
                    "the router of zone {} is not ready after {limit} s: {}",
                    self.zone,
                    missing.join("; ")
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// The readers (and the primary) that a router may not pick, each with its reason.
fn not_eligible(status: &StatusView, readers: &[&str]) -> Vec<String> {
    let look = |name: &str, writes: bool| {
        let Some(server) = status.fleet.servers.iter().find(|s| s.name == name) else {
            return Some(format!("{name} is not known yet"));
        };
        let eligible = server.routing.as_ref().map(|r| if writes { &r.writes } else { &r.reads });
        match eligible {
            Some(e) if e.eligible => None,
            Some(e) => Some(format!("{name}: {}", e.reason.as_deref().unwrap_or("not eligible"))),
            None => Some(format!("{name} is not routed")),
        }
    };
    readers.iter().filter_map(|r| look(r, false)).chain(look(PRIMARY, true)).collect()
}

/// As the applications take it.
pub(crate) fn address(at: SocketAddrV4) -> Address {
    Address::tcp(at.ip().to_string(), at.port())
}
