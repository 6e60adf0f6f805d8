//! The server behind all subjects: one mariadbd of a lab, reached at its real address (no link), all data in
//! memory, nothing synced to disk.

use super::sysbench::{ACCOUNT, DATABASE};
use anyhow::Context;
use lab::null::{NullServer, Service};
use lab::{Account, Fault, Lab, Spec};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ZONE: &str = "a";
const NAME: &str = "a1";
/// Holds the table several times over.
const BUFFER_POOL_MIB: u32 = 256;
/// Sessions beside those of the bench: headroom's questions, the lab's own.
const SPARE_SESSIONS: u32 = 100;

/// A server that answers.
#[derive(Debug)]
pub(crate) struct Server {
    lab: Lab,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Its unix socket.
    pub(crate) socket: PathBuf,
    /// Its process.
    pub(crate) pid: u32,
    /// What it says of its version.
    pub(crate) version: String,
}

impl Server {
    /// Brings it up below `base` with an account and an empty database for the load; `sessions` may be open
    /// at once.
    pub(crate) async fn up(base: &Path, sessions: u32) -> anyhow::Result<Self> {
        // As MariaDB comes: on, it takes a third of the CPU of a point select, and all subjects would look
        // alike.
        Self::with(base, sessions, false).await
    }

    /// The same where statements are to be counted by digest: not for figures.
    pub(crate) async fn with_digests(base: &Path, sessions: u32) -> anyhow::Result<Self> {
        Self::with(base, sessions, true).await
    }

    async fn with(base: &Path, sessions: u32, performance_schema: bool) -> anyhow::Result<Self> {
        let mut spec = Spec::new(&[(ZONE, 1)])
            .option("max_connections", &(sessions + SPARE_SESSIONS).to_string())
            // Neither the table nor its statistics change; 1,000 sessions must not queue for a thread.
            .option("thread_cache_size", "256");
        spec.server.buffer_pool_mib = BUFFER_POOL_MIB;
        spec.server.performance_schema = performance_schema;
        let lab = Lab::up(&spec, base).await.context("bringing up the server")?;
        let mut root = lab.connect(NAME).await?;
        for statement in [
            format!("CREATE DATABASE {DATABASE}"),
            format!("CREATE USER '{ACCOUNT}'@'%'"),
            format!("GRANT ALL ON {DATABASE}.* TO '{ACCOUNT}'@'%'"),
        ] {
            root.query_drop(statement).await?;
        }
        let asked: Option<(String, String)> = root.query_first("SELECT VERSION(), @@pid_file").await?;
        root.disconnect().await?;
        let (version, pid_file) = asked.context("the server did not tell its version")?;
        let pid = std::fs::read_to_string(&pid_file).context("reading the server's pid file")?;
        let pid = pid.trim().parse().context("the server's pid file holds no number")?;
        let address = SocketAddr::from(lab.real(NAME)?);
        let socket = lab.socket(NAME)?;
        Ok(Self { lab, address, socket, pid, version })
    }

    /// The option file that headroom asks it with.
    pub(crate) fn option_file(&self) -> PathBuf {
        self.lab.credentials_file(Account::Headroom)
    }

    /// A session that may do everything.
    pub(crate) async fn session(&self) -> anyhow::Result<Conn> {
        Ok(self.lab.connect(NAME).await?)
    }

    /// Where it is reached as if it were so far away, there and back, plus up to a tenth.
    pub(crate) async fn at_a_distance(&self, time: Duration) -> anyhow::Result<SocketAddr> {
        self.lab.set_round_trip(ZONE, ZONE, time).await?;
        Ok(self.lab.reach(ZONE, NAME)?.into())
    }

    /// Lets the process stand still for a while (SIGSTOP), once.
    pub(crate) async fn freeze(&self, time: Duration) -> anyhow::Result<()> {
        self.lab.fault(NAME, Fault::Freeze).await?;
        tokio::time::sleep(time).await;
        Ok(self.lab.heal(NAME).await?)
    }

    /// Waits until every client has left: its statements have been counted.
    pub(crate) async fn wait_gone(&self, limit: Duration) -> anyhow::Result<()> {
        Ok(self.lab.wait_gone(NAME, ACCOUNT, limit).await?)
    }

    /// A directory that goes away with the server.
    pub(crate) fn directory(&self) -> &Path {
        self.lab.dir()
    }

    /// Shuts it down and removes everything of it.
    pub(crate) async fn down(self) -> anyhow::Result<()> {
        Ok(self.lab.down().await?)
    }
}

/// A null server on the last core, where there are several; only while it is measured, because it never
/// sleeps there.
pub(crate) fn null(service: Service) -> anyhow::Result<NullServer> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let server = match cores {
        1 => NullServer::start(service),
        cores => NullServer::on_its_own_core(service, cores - 1),
    };
    server.context("starting the null server")
}
