//! How each bottleneck is made: real sessions, threads and statements, bounded in time. Dropping a making
//! ends it.

use super::application::{Application, Slow};
use super::client::{self, Work};
use super::limit::{CpusAllowed, FilesAllowed, Limit, Limited};
use super::packets::Packets;
use crate::volume::{Filled, Frozen, Lifted, Volume};
use anyhow::{Context, bail};
use clap::ValueEnum;
use diagnose::verdict::{Name, Timing};
use lab::{Account, Lab};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use probe::fio::{Job, Kind};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Of the lab's servers: few, so that they can be used up.
pub(super) const MAX_CONNECTIONS: u32 = 80;
/// Rows of the table that does not fit the pool; 420 bytes each.
pub(super) const BIG: u32 = 400_000;
/// Of the file that is read and written beside the server.
const BESIDE_MIB: u32 = 512;
/// Between the zones where nothing is slow: nothing to speak of.
pub(super) const NEAR: Duration = Duration::from_micros(50);
/// The rows must be there by then.
const LOADED_WITHIN: Duration = Duration::from_secs(120);
/// What the replica has yet to apply after a making must be applied by then.
const APPLIED_WITHIN: Duration = Duration::from_secs(120);
/// A statement that is slow to apply takes this long, seconds.
const SLOW_S: f64 = 0.05;

/// Clients that a rate is shared out among.
const PACED: u32 = 8;
/// The capacity is found with this many clients in this many seconds.
const CAPACITY: (u32, f64) = (4, 3.0);

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Making {
    /// Reads at 30, 40 and 50 % of the rate that the server was found to carry: nothing.
    Healthy,
    /// Durable changes at 30, 40 and 50 % of what the server was found to carry: nothing.
    HealthyWrites,
    /// Nine reads for each change, likewise: nothing.
    HealthyMixed,
    /// Sums over two hundred rows, likewise: nothing.
    HealthyReports,
    /// Point reads likewise, under limits of CPU, threads and files far above what it needs: nothing.
    HealthyLimited,
    /// One row that everybody updates.
    RowLocks,
    /// DDL behind a transaction left open, readers behind the DDL.
    MetadataLocks,
    /// Small durable transactions.
    FlushBound,
    /// Programs that compute beside the server.
    CpuHog,
    /// Nearly all connections open.
    Connections,
    /// Reads over a table many times as large as the pool.
    BufferPool,
    /// A primary that writes in parallel what its replica must apply one by one.
    SingleThreadedApply,
    /// Somebody else's requests on the server's disk, up to what it can do.
    Disk,
    /// Small packets that one CPU has to handle.
    Softirq,
    /// An application whose server is in another zone, milliseconds away.
    SlowLink,
    /// An application that takes its time between its statements.
    SlowApplication,
    /// Reads without a pause at a server whose cgroup allows half a core and less.
    CpuLimit,
    /// The same at a server that may run on one CPU only.
    CpuPinned,
    /// A session that holds `FLUSH TABLES WITH READ LOCK`.
    GlobalLock,
    /// Writes that a redo log of 4 MiB holds for some seconds.
    RedoLog,
    /// A snapshot left open while rows change.
    Purge,
    /// GROUP BY over a TEXT column.
    TemporaryTables,
    /// A connection for each statement.
    NewConnections,
    /// More tables in use than the cache of open tables holds.
    TableCache,
    /// A statement without an index.
    OneStatement,
    /// One session at a long statement, while the other CPUs rest.
    OneSession,
    /// Commits that wait for a replica that no longer acknowledges.
    SemiSync,
    /// A file system that is frozen while sessions commit.
    CommitsHang,
    /// A file system that is nearly full.
    DiskSpace,
    /// Changes of a table without a key: the replica reads the table for each.
    ApplyWithoutKey,
    /// A server that may open hardly more files than it has open.
    OpenFiles,
    /// A server whose cgroup allows hardly more threads than it has.
    ThreadLimit,
}

impl Making {
    /// All of them.
    pub(super) const ALL: [Self; 32] = [
        Self::Healthy,
        Self::HealthyWrites,
        Self::HealthyMixed,
        Self::HealthyReports,
        Self::HealthyLimited,
        Self::RowLocks,
        Self::MetadataLocks,
        Self::FlushBound,
        Self::CpuHog,
        Self::Connections,
        Self::BufferPool,
        Self::SingleThreadedApply,
        Self::Disk,
        Self::Softirq,
        Self::SlowLink,
        Self::SlowApplication,
        Self::CpuLimit,
        Self::CpuPinned,
        Self::GlobalLock,
        Self::RedoLog,
        Self::Purge,
        Self::TemporaryTables,
        Self::NewConnections,
        Self::TableCache,
        Self::OneStatement,
        Self::OneSession,
        Self::SemiSync,
        Self::CommitsHang,
        Self::DiskSpace,
        Self::ApplyWithoutKey,
        Self::OpenFiles,
        Self::ThreadLimit,
    ];

    /// The verdict that is right.
    pub(super) fn expected(self) -> Option<Name> {
        Some(match self {
            Self::Healthy
            | Self::HealthyWrites
            | Self::HealthyMixed
            | Self::HealthyReports
            | Self::HealthyLimited => return None,
            Self::RowLocks => Name::RowLocks,
            Self::MetadataLocks => Name::MetadataLocks,
            Self::FlushBound => Name::FlushBound,
            Self::CpuHog => Name::Cpu,
            Self::Connections => Name::Connections,
            Self::BufferPool => Name::BufferPool,
            Self::SingleThreadedApply => Name::SingleThreadedApply,
            Self::Disk => Name::DiskLatency,
            Self::Softirq => Name::SoftirqOnOneCpu,
            Self::SlowLink => Name::CrossZone,
            Self::SlowApplication => Name::NotTheDatabase,
            Self::CpuLimit => Name::CpuLimit,
            Self::CpuPinned => Name::CpuPinned,
            Self::GlobalLock => Name::GlobalLock,
            Self::RedoLog => Name::RedoLog,
            Self::Purge => Name::Purge,
            Self::TemporaryTables => Name::TemporaryTables,
            Self::NewConnections => Name::NewConnections,
            Self::TableCache => Name::TableCache,
            Self::OneStatement => Name::OneStatement,
            Self::OneSession => Name::OneSession,
            Self::SemiSync => Name::SemiSync,
            Self::CommitsHang => Name::CommitsHang,
            Self::DiskSpace => Name::DiskSpace,
            Self::ApplyWithoutKey => Name::ApplyWithoutKey,
            Self::OpenFiles => Name::OpenFiles,
            Self::ThreadLimit => Name::ThreadLimit,
        })
    }

    /// Whether it is a load that nothing holds back.
    pub(super) fn is_healthy(self) -> bool {
        self.expected().is_none()
    }

    /// Settings of a1 while it is made.
    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // Only the log shall be short: nobody waits for a flush.
            Self::RedoLog => &[
                ("innodb_log_file_size", "4194304"),
                ("innodb_flush_log_at_trx_commit", "0"),
                ("sync_binlog", "0"),
            ],
            Self::Purge => &[("innodb_flush_log_at_trx_commit", "0"), ("sync_binlog", "0")],
            Self::TableCache => &[("table_open_cache", "50")],
            _ => &[],
        }
    }

    /// The server at which it is looked for.
    pub(super) fn server(self) -> &'static str {
        let replica = matches!(self, Self::SingleThreadedApply | Self::SlowLink | Self::ApplyWithoutKey);
        if replica { "b1" } else { "a1" }
    }
}

impl fmt::Display for Making {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().as_ref().map_or("?", |value| value.get_name()))
    }
}

/// A lab with tables to make trouble on, and an application that is always there.
pub(super) struct VerdictFixture<'a> {
    lab: &'a Lab,
    /// Straight to a1: what a simulated link costs is no part of any making but one.
    app: Opts,
    volume: &'a Volume,
    application: Application,
    /// What a1 carries of each kind of load, a second.
    capacity: [f64; 4],
    /// Settings that some makings change, as they were.
    usual: Vec<(&'static str, String)>,
}

/// Something that is being made.
pub(super) struct Made {
    clients: JoinSet<anyhow::Result<()>>,
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
    beside: Option<Child>,
    packets: Option<Packets>,
    slow: Option<Slow>,
    lifted: Option<Lifted>,
    limited: Option<Limited>,
    frozen: Option<Frozen>,
    filled: Option<Filled>,
    files: Option<FilesAllowed>,
    cpus: Option<CpusAllowed>,
}

impl<'a> VerdictFixture<'a> {
    /// Makes the tables, and waits until the replica has them.
    pub(super) async fn set(lab: &'a Lab, volume: &'a Volume, window: Duration) -> anyhow::Result<Self> {
        let mut root = lab.connect("a1").await?;
        for statement in [
            "CREATE TABLE app.hot (id INT PRIMARY KEY, n BIGINT NOT NULL)",
            "INSERT INTO app.hot VALUES (1, 0), (2, 0)",
            "CREATE TABLE app.shape (id INT PRIMARY KEY, n INT)",
            "INSERT INTO app.shape VALUES (1, 1)",
            "CREATE TABLE app.pace (s DOUBLE NOT NULL)",
            &format!("INSERT INTO app.pace VALUES ({SLOW_S})"),
            "CREATE TABLE app.journal (id BIGINT AUTO_INCREMENT PRIMARY KEY, n INT)",
            "CREATE TABLE app.notes (id INT PRIMARY KEY, body TEXT NOT NULL)",
            "CREATE TABLE app.scan (id INT PRIMARY KEY, n INT NOT NULL)",
            "INSERT INTO app.notes VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')",
            "CREATE TABLE app.keyless (n INT NOT NULL, filler VARCHAR(200) NOT NULL)",
            "CREATE TABLE app.big (id INT PRIMARY KEY, filler VARCHAR(400) NOT NULL)",
        ] {
            root.query_drop(statement).await?;
        }
        for start in (0..client::SCANNED).step_by(10_000) {
            let values: Vec<String> = (start..start + 10_000).map(|id| format!("({id},{id})")).collect();
            root.query_drop(format!("INSERT INTO app.scan VALUES {}", values.join(","))).await?;
        }
        root.query_drop("INSERT INTO app.keyless SELECT id, REPEAT('k', 200) FROM app.scan ORDER BY id")
            .await?;
        for number in 0..client::TABLES {
            root.query_drop(format!("CREATE TABLE app.many_{number} (id INT PRIMARY KEY)")).await?;
        }
        let rows = 10_000;
        for start in (0..BIG).step_by(rows) {
            let values: Vec<String> =
                (start..start + rows as u32).map(|id| format!("({id},REPEAT('x',400))")).collect();
            root.query_drop(format!("INSERT INTO app.big VALUES {}", values.join(","))).await?;
        }
        let deadline = Instant::now() + LOADED_WITHIN;
        let mut replica = lab.connect("b1").await?;
        while replica.query_first::<u32, _>("SELECT COUNT(*) FROM app.big").await.ok().flatten() != Some(BIG)
        {
            if Instant::now() > deadline {
                bail!("the rows did not reach b1 within {} s", LOADED_WITHIN.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let app = direct(lab, "a1")?;
        let mut capacity = [0.0; 4];
        for work in Work::ALL {
            capacity[work as usize] = self::capacity(&app, work).await?;
        }
        beside(volume, Kind::Write, 8, 0)
            .run()
            .await
            .context("making the file for requests beside the server")?;
        // A server whose own IO is limited has another bottleneck than a slow disk.
        let limited = if volume.limits_by_io_max() { Vec::new() } else { lab.servers() };
        for server in limited {
            volume.limit(pid(lab, &server)?)?;
        }
        let application = Application::start(&app, window).await?;
        let mut usual = Vec::new();
        for (setting, _) in Making::ALL.iter().flat_map(|making| making.settings()) {
            // MySQL's redo log is changed by another name: its making is MariaDB's.
            let value: Option<String> =
                root.query_first(format!("SELECT @@GLOBAL.{setting}")).await.ok().flatten();
            usual.extend(value.map(|value| (*setting, value)));
        }
        usual.dedup();
        Ok(Self { lab, app, volume, application, capacity, usual })
    }

    /// How the application does.
    pub(super) fn timings(&self) -> watch::Receiver<Option<Timing>> {
        self.application.timings()
    }

    /// Point reads that a1 was found to carry, a second.
    pub(super) fn capacity(&self) -> f64 {
        self.capacity[Work::Reads as usize]
    }

    /// What a server is called by those who watch it.
    pub(super) fn name(&self, server: &str) -> String {
        self.lab.real(server).map_or_else(|_| server.to_owned(), |real| real.to_string())
    }

    /// Begins; it ends by itself after `time`.
    pub(super) async fn make(&self, what: Making, strength: u32, time: Duration) -> anyhow::Result<Made> {
        let level = 1 << strength.min(4);
        let mut made = Made::new();
        for (setting, value) in what.settings() {
            self.lab.connect("a1").await?.query_drop(format!("SET GLOBAL {setting} = {value}")).await?;
        }
        let until = Instant::now() + time;
        match what {
            Making::Healthy
            | Making::HealthyWrites
            | Making::HealthyMixed
            | Making::HealthyReports
            | Making::HealthyLimited => self.healthy(&mut made, what, strength, until).await?,
            Making::RowLocks => made.clients(self, 8 * level, until, client::update_the_hot_row).await?,
            Making::MetadataLocks => self.lock_the_shape(&mut made, 6 * level, until).await?,
            Making::FlushBound => {
                // Small writes would reach the limit on requests first: only the flush shall be slow.
                made.lifted = Some(self.volume.lifted()?);
                made.clients(self, 4 * level, until, client::insert).await?;
            }
            Making::CpuHog => {
                self.paced(&mut made, self.capacity() * 0.2, until).await?;
                made.hogs(2 * level, until);
            }
            Making::Connections => {
                let share = [0.93, 0.96, 0.98][strength.min(2) as usize];
                let wanted = (f64::from(MAX_CONNECTIONS) * share) as u32;
                let there = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE host <> ''";
                let there: Option<u32> = self.lab.connect("a1").await?.query_first(there).await?;
                made.clients(self, wanted.saturating_sub(there.unwrap_or(0)), until, client::idle).await?;
            }
            Making::BufferPool => made.clients(self, 4 * level, until, client::read_anywhere).await?,
            Making::SingleThreadedApply => {
                for _ in 0..4 * level {
                    let root = self.lab.connect("a1").await?;
                    made.clients.spawn(client::write_slowly(root, until, made.stop.clone()));
                }
            }
            Making::Disk => {
                made.clients(self, 4, until, client::read_now_and_then).await?;
                let seconds = u32::try_from(time.as_secs()).unwrap_or(60);
                let fio = beside(self.volume, Kind::RandomMixed, 8 * level, seconds).start()?;
                self.volume.limit(fio.id().context("fio has ended already")?)?;
                made.beside = Some(fio);
            }
            Making::Softirq => {
                self.paced(&mut made, self.capacity() * 0.05, until).await?;
                made.packets = Some(Packets::begin(8 * level, until)?);
            }
            Making::SlowLink => {
                let far = Duration::from_millis([1, 2, 5][strength.min(2) as usize]);
                self.lab.set_round_trip("a", "b", far).await?;
                let b1 = self.lab.opts("a", "b1", Account::App)?;
                for number in 0..8 {
                    let (conn, times) = (Conn::new(b1.clone()).await?, self.application.statements());
                    made.clients.spawn(client::read_the_usual(conn, until, number, times));
                }
            }
            Making::CpuLimit => {
                let pid = pid(self.lab, "a1")?;
                let cpus = Limit::Cpus([0.5, 0.3, 0.2][strength.min(2) as usize]);
                made.limited = Some(Limited::of(pid, &[cpus])?);
                made.clients(self, 4, until, client::read_without_pause).await?;
            }
            Making::CpuPinned => {
                made.cpus = Some(CpusAllowed::of(pid(self.lab, "a1")?, 0)?);
                made.clients(self, 4 * level, until, client::read_without_pause).await?;
            }
            Making::GlobalLock => {
                let root = self.lab.connect("a1").await?;
                made.clients.spawn(client::lock_everything(root, until));
                made.clients(self, 4 * level, until, client::insert_behind_the_lock).await?;
            }
            Making::RedoLog => {
                made.lifted = Some(self.volume.lifted()?);
                for number in 0..4 * level {
                    let root = self.unlogged().await?;
                    made.clients.spawn(client::rewrite(root, until, number));
                }
            }
            Making::Purge => {
                made.lifted = Some(self.volume.lifted()?);
                made.clients(self, 1, until, client::hold_a_snapshot).await?;
                let every =
                    Duration::from_secs_f64(f64::from(PACED) / (2000.0 + 500.0 * f64::from(strength)));
                for number in 0..PACED {
                    let root = self.unlogged().await?;
                    made.clients.spawn(client::change_at_a_rate(root, until, number, every));
                }
            }
            Making::TemporaryTables => {
                made.clients(self, 2 * level, until, client::group_by_text).await?;
            }
            Making::NewConnections => {
                for _ in 0..2 * level {
                    made.clients.spawn(client::connect_for_each(self.app.clone(), until));
                }
            }
            Making::TableCache => made.clients(self, 2 * level, until, client::read_many_tables).await?,
            Making::OneStatement => {
                self.paced(&mut made, self.capacity() * 0.1, until).await?;
                made.clients(self, 2 * level, until, client::scan).await?;
            }
            Making::OneSession => {
                self.paced(&mut made, self.capacity() * [0.0, 0.01, 0.02][strength.min(2) as usize], until)
                    .await?;
                let (conn, killer) = (self.connect().await?, self.lab.connect("a1").await?);
                made.clients.spawn(client::compute(conn, killer, until));
            }
            Making::SemiSync => {
                self.acknowledged().await?;
                let (primary, replica) = (self.lab.connect("a1").await?, self.lab.connect("b1").await?);
                made.clients(self, 4 * level, until, client::insert).await?;
                made.clients.spawn(client::stop_acknowledging(primary, replica, until));
            }
            Making::CommitsHang => {
                self.paced(&mut made, self.capacity() * 0.02, until).await?;
                made.clients(self, 2 * level, until, client::insert).await?;
                made.frozen = Some(self.volume.freeze(time)?);
            }
            Making::DiskSpace => {
                self.paced(&mut made, self.capacity() * 0.1, until).await?;
                let full = [0.96, 0.97, 0.98][strength.min(2) as usize];
                made.filled = Some(self.volume.fill(full)?);
            }
            Making::ApplyWithoutKey => {
                made.lifted = Some(self.volume.lifted()?);
                let rows = [150, 200, 250][strength.min(2) as usize];
                let root = self.lab.connect("a1").await?;
                made.clients.spawn(client::change_without_a_key(root, until, rows));
            }
            Making::OpenFiles => {
                self.paced(&mut made, self.capacity() * 0.1, until).await?;
                let share = [0.93, 0.96, 0.98][strength.min(2) as usize];
                made.files = Some(FilesAllowed::of(pid(self.lab, "a1")?, share)?);
            }
            Making::ThreadLimit => {
                self.paced(&mut made, self.capacity() * 0.1, until).await?;
                let share = [0.96, 0.98, 1.0][strength.min(2) as usize];
                let pid = pid(self.lab, "a1")?;
                made.limited = Some(Limited::of(pid, &[Limited::threads(pid, share)?])?);
            }
            Making::SlowApplication => {
                let extra = Duration::from_millis([40, 80, 160][strength.min(2) as usize]);
                made.slow = Some(self.application.slow(extra));
            }
        }
        Ok(made)
    }

    /// A load at a share of what the server carries of it.
    async fn healthy(
        &self,
        made: &mut Made,
        what: Making,
        strength: u32,
        until: Instant,
    ) -> anyhow::Result<()> {
        let work = match what {
            Making::HealthyWrites => Work::Writes,
            Making::HealthyMixed => Work::Mixed,
            Making::HealthyReports => Work::Reports,
            _ => Work::Reads,
        };
        let most = self.capacity[work as usize];
        if what == Making::HealthyLimited {
            let pid = pid(self.lab, "a1")?;
            made.limited = Some(Limited::of(pid, &[Limit::Cpus(16.0), Limited::threads(pid, 0.2)?])?);
            made.files = Some(FilesAllowed::of(pid, 0.2)?);
        }
        self.send(made, most * [0.3, 0.4, 0.5][strength.min(2) as usize], until, work).await
    }

    /// Point reads at a rate.
    async fn paced(&self, made: &mut Made, per_s: f64, until: Instant) -> anyhow::Result<()> {
        self.send(made, per_s, until, Work::Reads).await
    }

    async fn send(&self, made: &mut Made, per_s: f64, until: Instant, work: Work) -> anyhow::Result<()> {
        let every = Duration::from_secs_f64(f64::from(PACED) / per_s.max(1.0));
        let send = |conn: Conn, until: Instant, number: u32| client::paced(conn, until, number, every, work);
        made.clients(self, PACED, until, send).await
    }

    /// A transaction that has read the table, then DDL, then readers: in this order.
    async fn lock_the_shape(&self, made: &mut Made, readers: u32, until: Instant) -> anyhow::Result<()> {
        let mut holder = self.connect().await?;
        holder.query_drop("BEGIN").await?;
        holder.query_drop("SELECT * FROM app.shape").await?;
        let wait = until.saturating_duration_since(Instant::now());
        made.clients.spawn(async move {
            tokio::time::sleep(wait).await;
            holder.query_drop("COMMIT").await.context("ending the open transaction")
        });
        made.clients(self, 1, until, client::alter).await?;
        made.clients(self, readers, until, client::read_the_shape).await
    }

    /// Undoes what does not end with its making: the distance, and what the replica has yet to apply. That
    /// may be minutes of slow statements, which would be named in whatever is made next.
    pub(super) async fn tidy(&self) -> anyhow::Result<()> {
        let mut primary = self.lab.connect("a1").await?;
        for (setting, value) in &self.usual {
            primary.query_drop(format!("SET GLOBAL {setting} = {value}")).await?;
        }
        primary.disconnect().await?;
        self.lab.set_round_trip("a", "b", NEAR).await?;
        let mut replica = self.lab.connect("b1").await?;
        client::pace(&mut replica, 0.0).await?;
        let lifted = self.volume.lifted()?;
        self.lab.wait_applied("b1", "a1", APPLIED_WITHIN).await?;
        drop(lifted);
        client::pace(&mut replica, SLOW_S).await?;
        Ok(replica.disconnect().await?)
    }

    /// Commits wait for b1's acknowledgement from now on, however long that takes.
    async fn acknowledged(&self) -> anyhow::Result<()> {
        let mut replica = self.lab.connect("b1").await?;
        for statement in
            ["SET GLOBAL rpl_semi_sync_slave_enabled = ON", "STOP SLAVE IO_THREAD", "START SLAVE IO_THREAD"]
        {
            replica.query_drop(statement).await?;
        }
        let mut primary = self.lab.connect("a1").await?;
        primary.query_drop("SET GLOBAL rpl_semi_sync_master_timeout = 3600000").await?;
        primary.query_drop("SET GLOBAL rpl_semi_sync_master_enabled = ON").await?;
        let deadline = Instant::now() + LOADED_WITHIN;
        loop {
            let clients = "SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_master_clients'";
            let clients: Option<(String, String)> = primary.query_first(clients).await?;
            if clients.is_some_and(|(_, clients)| clients == "1") {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("b1 does not acknowledge commits within {} s", LOADED_WITHIN.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// A session whose writes no replica has to apply.
    async fn unlogged(&self) -> anyhow::Result<Conn> {
        let mut root = self.lab.connect("a1").await?;
        root.query_drop("SET SESSION sql_log_bin = 0").await?;
        Ok(root)
    }

    async fn connect(&self) -> anyhow::Result<Conn> {
        Ok(Conn::new(self.app.clone()).await?)
    }
}

impl Made {
    fn new() -> Self {
        Self {
            clients: JoinSet::new(),
            stop: Arc::default(),
            threads: Vec::new(),
            beside: None,
            packets: None,
            slow: None,
            lifted: None,
            limited: None,
            frozen: None,
            filled: None,
            files: None,
            cpus: None,
        }
    }

    async fn clients<F>(
        &mut self,
        fixture: &VerdictFixture<'_>,
        count: u32,
        until: Instant,
        work: impl Fn(Conn, Instant, u32) -> F,
    ) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        for number in 0..count {
            self.clients.spawn(work(fixture.connect().await?, until, number));
        }
        Ok(())
    }

    fn hogs(&mut self, count: u32, until: Instant) {
        for _ in 0..count {
            let stop = self.stop.clone();
            self.threads.push(std::thread::spawn(move || {
                while Instant::now() < until && !stop.load(Ordering::Relaxed) {
                    std::hint::black_box((0..50_000u64).fold(0, u64::wrapping_add));
                }
            }));
        }
    }

    /// Waits until all of it has ended.
    pub(super) async fn end(mut self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        (self.packets, self.slow, self.lifted, self.limited) = (None, None, None, None);
        (self.frozen, self.filled, self.cpus) = (None, None, None);
        if let Some(mut fio) = self.beside.take() {
            fio.kill().await.context("ending fio")?;
        }
        let ended = tokio::time::timeout(Duration::from_secs(30), async {
            while let Some(client) = self.clients.join_next().await {
                client??;
            }
            anyhow::Ok(())
        });
        ended.await.context("clients did not end within 30 s")?
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Requests on the server's disk that are not the server's.
fn beside(volume: &Volume, kind: Kind, depth: u32, seconds: u32) -> Job {
    let block = if kind == Kind::Write { 1 << 20 } else { 16 << 10 };
    Job { file: volume.path().join("beside"), mib: BESIDE_MIB, kind, block, depth, rate: None, seconds }
}

/// The process of a server.
fn pid(lab: &Lab, server: &str) -> anyhow::Result<u32> {
    let file = lab.dir().join(server).join("pid");
    let pid = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    pid.trim().parse().context("a process id")
}

/// The application's account at a server's own address.
fn direct(lab: &Lab, server: &str) -> anyhow::Result<Opts> {
    let (real, opts) = (lab.real(server)?, lab.opts("a", server, Account::App)?);
    let opts = OptsBuilder::from_opts(opts).ip_or_hostname(real.ip().to_string()).tcp_port(real.port());
    Ok(opts.into())
}

/// Statements a second with a few clients that do not wait.
async fn capacity(app: &Opts, work: Work) -> anyhow::Result<f64> {
    let until = Instant::now() + Duration::from_secs_f64(CAPACITY.1);
    let mut clients = JoinSet::new();
    for number in 0..CAPACITY.0 {
        clients.spawn(client::send_on(Conn::new(app.clone()).await?, until, number, work));
    }
    let mut reads = 0;
    while let Some(client) = clients.join_next().await {
        reads += client??;
    }
    Ok(reads as f64 / CAPACITY.1)
}
