//! Three servers in two zones and a router in each, and the moves between them.

use super::history::ServerContent;
use crate::binary;
use ::switchover::Flags;
use ::switchover::check::{Level, Limits};
use ::switchover::journal::Journal;
use ::switchover::perform::{self, Deadlines, Logins, Outcome};
use ::switchover::survey::Survey;
use anyhow::{Context, bail};
use config::Credentials;
use console::admin_client::AdminClient;
use fleet::{Address, Role, Server, ServerName, Snapshot, State, WriterStatus};
use lab::process::Process;
use lab::{Account, DATABASE, Lab, RouterOptions, Spec};
use mysql_async::OptsBuilder;
use mysql_async::prelude::Queryable;
use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zerohop::RouterPins;

const ZONES: [&str; 2] = ["a", "b"];
const SERVERS: [&str; 3] = ["a1", "a2", "b1"];
const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
const STATEMENT: Duration = Duration::from_secs(10);

/// What is to be brought up.
pub(super) struct FixtureSpec {
    pub(super) clients: u32,
    pub(super) zero_hop: bool,
    pub(super) program: Option<PathBuf>,
    /// Servers come up read-only and truncate what was never acknowledged; every commit waits for a replica,
    /// for a day if need be.
    pub(super) semi_sync: bool,
    /// Round trip between any two hosts; `None` is the lab's.
    pub(super) round_trip: Option<Duration>,
}

const SEMI_SYNC: [(&str, &str); 6] = [
    ("read_only", "ON"),
    ("init_rpl_role", "SLAVE"),
    ("rpl_semi_sync_slave_enabled", "ON"),
    ("rpl_semi_sync_master_timeout", "86400000"),
    ("rpl_semi_sync_master_wait_point", "AFTER_SYNC"),
    ("slave_net_timeout", "4"),
];

/// Everything that was started.
pub(super) struct MoveFixture {
    pub(super) lab: Lab,
    routers: Vec<(Process, RouterPins)>,
    writers: Vec<SocketAddrV4>,
    pub(super) primary: String,
    pub(super) journals: PathBuf,
}

impl MoveFixture {
    /// Brings everything up: durable servers, as a primary that must lose nothing is run.
    pub(super) async fn up(base: &Path, args: &FixtureSpec) -> anyhow::Result<Self> {
        let mut spec =
            Spec::new(&[("a", 2), ("b", 1)]).option("max_connections", &(args.clients * 3 + 100).to_string());
        spec.server.performance_schema = false;
        if let Some(program) = &args.program {
            spec = spec.program(program);
        }
        if args.semi_sync {
            spec = SEMI_SYNC.iter().fold(spec, |spec, (name, value)| spec.option(name, value));
        }
        if let Some(round_trip) = args.round_trip {
            (spec.network.within, spec.network.between) = (round_trip, round_trip);
        }
        let lab = Lab::up(&spec, base).await.context("bringing up the servers")?;
        let mut root = lab.connect(SERVERS[0]).await?;
        if args.semi_sync {
            root.query_drop("SET GLOBAL read_only = OFF").await?;
            root.query_drop("SET GLOBAL rpl_semi_sync_master_enabled = ON").await?;
        }
        for statement in [
            "CREATE TABLE app.appends (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, client INT NOT NULL, \
             number BIGINT NOT NULL, KEY (client, number)) ENGINE = InnoDB",
            "CREATE TABLE app.registers (client INT NOT NULL PRIMARY KEY, number BIGINT NOT NULL) ENGINE = InnoDB",
        ] {
            root.query_drop(statement).await?;
        }
        root.disconnect().await?;
        let journals = lab.dir().join("switchover");
        let mut fixture =
            Self { lab, routers: Vec::new(), writers: Vec::new(), primary: SERVERS[0].to_owned(), journals };
        for zone in ZONES {
            fixture.route(zone, args.zero_hop).await?;
        }
        Ok(fixture)
    }

    async fn route(&mut self, zone: &str, zero_hop: bool) -> anyhow::Result<()> {
        let status = self.lab.status().await;
        let addresses = status.router_addresses(zone)?;
        let options = RouterOptions {
            zero_hop: Some(if zero_hop { "require" } else { "off" }),
            threads: Some(1),
            ..RouterOptions::default()
        };
        let file = self.lab.dir().join(format!("bench-{zone}.toml"));
        std::fs::write(&file, status.router_config(zone, &options)?).context("writing a configuration")?;
        let binary = binary::headroom()?;
        let arguments = ["route".to_owned(), "--config".to_owned(), file.display().to_string()];
        let log = self.lab.dir().join(format!("bench-{zone}.log"));
        let mut program = Process::start("headroom route", &binary, &arguments, &log)?;
        let client = AdminClient::new(Some(&addresses.admin.to_string()));
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            program.alive()?;
            match client.status().await {
                Ok(status) if status.fleet.writer.is_some() => break,
                _ if Instant::now() > deadline => bail!("the router of zone {zone} knows no primary"),
                _ => tokio::time::sleep(POLL).await,
            }
        }
        self.routers.push((program, RouterPins::new(file, term::complain)));
        self.writers.push(addresses.writer);
        Ok(())
    }

    pub(super) fn version(&self) -> String {
        self.lab.version()
    }

    /// Where clients write: one address a router.
    pub(super) fn writers(&self) -> Vec<OptsBuilder> {
        self.writers.iter().map(|at| self.writer_at(*at)).collect()
    }

    /// How clients log in at an address.
    pub(super) fn writer_at(&self, at: SocketAddrV4) -> OptsBuilder {
        OptsBuilder::default()
            .ip_or_hostname(at.ip().to_string())
            .tcp_port(at.port())
            .user(Some(Account::App.user()))
            .pass(Some(self.lab.password(Account::App).to_owned()))
            .db_name(Some(DATABASE))
            .prefer_socket(false)
            .max_allowed_packet(Some(16 << 20))
            .wait_timeout(Some(28_800))
    }

    /// Round the servers, so that each is moved to from each of the others.
    pub(super) fn next_candidate(&self, number: u32) -> String {
        let others: Vec<&str> = SERVERS.into_iter().filter(|server| *server != self.primary).collect();
        others[number as usize / 2 % others.len()].to_owned()
    }

    /// Moves the primary, and looks whether the fleet is as it should be.
    pub(super) async fn switch(&mut self, candidate: &str) -> anyhow::Result<(Outcome, Vec<String>)> {
        let logins = self.logins();
        let survey =
            Survey::read(&self.snapshot()?, &ServerName::new(candidate), &logins.admin, STATEMENT).await?;
        let stops = survey.checks(Limits::default(), true).into_iter().filter(|f| f.level == Level::Stop);
        let mut remarks: Vec<String> = stops.map(|f| format!("check {}: {}", f.check, f.facts)).collect();
        let plan = survey.plan(Deadlines::default(), "bench");
        let mut journal = Journal::create(&self.journals, &plan)?;
        let start = ::switchover::step::State::START;
        let outcome = perform::run(&plan, &logins, &mut journal, start, &|| false, &mut |_| ()).await?;
        if outcome.state == ::switchover::step::State::Done {
            self.primary = candidate.to_owned();
        }
        remarks.extend(self.wrong().await?);
        Ok((outcome, remarks))
    }

    /// What is not as it should be after a move: who takes writes, who replicates.
    pub(super) async fn wrong(&self) -> anyhow::Result<Vec<String>> {
        let mut wrong = Vec::new();
        for server in SERVERS {
            let mut conn = self.lab.connect(server).await?;
            let read_only: Option<String> = conn.query_first("SELECT @@GLOBAL.read_only").await?;
            let takes_writes = matches!(read_only.as_deref(), Some("0" | "OFF"));
            if takes_writes != (server == self.primary) {
                wrong.push(format!("{server} {} writes", if takes_writes { "takes" } else { "refuses" }));
            }
            conn.disconnect().await?;
            if server != self.primary {
                let applied = self.lab.wait_applied(server, &self.primary, READY_WITHIN).await;
                wrong.extend(applied.err().map(|error| format!("{server} does not follow: {error}")));
            }
        }
        Ok(wrong)
    }

    /// What the primary has.
    pub(super) async fn of_primary(&self) -> anyhow::Result<BTreeMap<String, ServerContent>> {
        Ok(BTreeMap::from([(self.primary.clone(), self.has(&self.primary).await?)]))
    }

    async fn has(&self, server: &str) -> anyhow::Result<ServerContent> {
        let mut conn = self.lab.connect(server).await?;
        let rows = conn.query("SELECT client, number FROM app.appends ORDER BY id").await?;
        let registers: Vec<(u32, u64)> = conn.query("SELECT client, number FROM app.registers").await?;
        conn.disconnect().await?;
        Ok(ServerContent { rows, registers: registers.into_iter().collect() })
    }

    /// What each server has, once all have the same.
    pub(super) async fn finals(&self) -> anyhow::Result<BTreeMap<String, ServerContent>> {
        let mut finals = BTreeMap::new();
        for server in SERVERS {
            if server != self.primary {
                self.lab.wait_applied(server, &self.primary, READY_WITHIN).await?;
            }
            finals.insert(server.to_owned(), self.has(server).await?);
        }
        Ok(finals)
    }

    pub(super) async fn down(self) -> anyhow::Result<()> {
        for (program, pinned) in self.routers {
            program.stop().await?;
            drop(pinned);
        }
        Ok(self.lab.down().await?)
    }

    pub(super) fn logins(&self) -> Logins {
        let admin = Credentials {
            user: Some(Account::Admin.user().to_owned()),
            password: Some(self.lab.password(Account::Admin).to_owned()),
            ..Credentials::default()
        };
        let replication = (Account::Repl.user().to_owned(), self.lab.password(Account::Repl).to_owned());
        Logins { admin, replication, flags: Flags::default() }
    }

    /// The fleet as we know it: a look of seconds before each move would only make the bench longer.
    pub(super) fn snapshot(&self) -> anyhow::Result<Snapshot> {
        let mut snapshot = Snapshot::empty(Instant::now());
        for server in SERVERS {
            // Over the links, as from another host: they can break.
            let over = self.lab.reach(ZONES[1], server)?;
            let reach = Address::tcp(over.ip().to_string(), over.port());
            let mut known = Server::unasked(ServerName::new(server), reach);
            known.role = if server == self.primary { Role::Primary } else { Role::Replica };
            known.state = State::Answering;
            snapshot.servers.push(known);
        }
        snapshot.writer = WriterStatus::Known { server: ServerName::new(&self.primary) };
        Ok(snapshot)
    }
}
