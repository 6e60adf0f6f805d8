//! How each bottleneck is made: real sessions, threads and statements, bounded in time. Dropping a making
//! ends it.

use super::application::Application;
use super::client::{self, Work};
use super::conntrack::Tracked;
use super::limit::{CpusAllowed, FilesAllowed, Limit, Limited};
use super::lossy::LossyWay;
use super::making::{Bed, Making};
use super::neighbour::Neighbours;
use super::packets::{Pace, Packets};
use super::stream::Stream;
use super::tables::{big, forget_the_binary_logs, tables};
use super::words::Words;
use crate::volume::Volume;
use anyhow::{Context, bail};
use diagnose::verdict::Timing;
use lab::{Account, Flavour, Lab};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use probe::fio::{Job, Kind};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
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
/// Of them where only the application reads them.
const SMALL: u32 = 1000;
/// Of the file that is read and written beside the server.
const BESIDE_MIB: u32 = 512;
/// Between the zones where nothing is slow: nothing to speak of.
pub(super) const NEAR: Duration = Duration::from_micros(50);
/// The rows must be there by then.
pub(super) const LOADED_WITHIN: Duration = Duration::from_secs(120);
/// What the replica has yet to apply after a making must be applied by then. Changes of a table without a key
/// take it many times as long as they took the primary, on a slow machine minutes.
const APPLIED_WITHIN: Duration = Duration::from_secs(600);
/// A statement that is slow to apply takes this long, seconds.
pub(super) const SLOW_S: f64 = 0.05;
/// The same in hundredths of a second.
const SLOW_HUNDREDTHS: u32 = 5;

/// Clients that a rate is shared out among.
pub(super) const PACED: u32 = 8;
/// Clients whose changes are applied in parallel.
const PARALLEL: u32 = 16;
/// The capacity is found with this many clients in this many seconds.
const CAPACITY: (u32, f64) = (4, 3.0);
/// Before those, where something is changed: seconds after which changed pages are written as fast as pages
/// are changed. Until then a disk may seem to carry twice what it does.
const WRITES_BEFORE: f64 = 15.0;
/// Limits far above what a healthy server needs: CPUs, bytes of memory beside what it has, and the share that
/// its threads and open files are of what it may have.
const FAR_ABOVE: (f64, u64, f64) = (16.0, 4 << 30, 0.2);
/// Of the memory of a server that reads a table of 160 MiB by mapping its file: for its page cache.
const MAPPED_MIB: [u64; 3] = [112, 80, 56];

/// A lab with tables to make trouble on, and an application that is always there.
pub(super) struct VerdictFixture<'a> {
    lab: &'a Lab,
    bed: Bed,
    words: &'static Words,
    /// Straight to a1: what a simulated link costs is no part of any making but one.
    app: Opts,
    volume: &'a Volume,
    application: Application,
    /// What a1 carries of each kind of load, a second.
    capacity: [f64; 4],
    /// Settings of a1 that some makings change, as they were.
    usual: Vec<(&'static str, String)>,
    /// How many threads of b1 apply in parallel where nothing else is wanted.
    appliers: String,
}

/// Something that is being made.
pub(super) struct Made {
    clients: JoinSet<anyhow::Result<()>>,
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
    beside: Option<Child>,
    /// What ends when it is dropped: limits, packets, what was filled or frozen.
    held: Vec<Box<dyn Send>>,
    /// What clients need until they have ended.
    way: Option<LossyWay>,
}

impl<'a> VerdictFixture<'a> {
    /// Makes the tables, and waits until the replica has them. In a lab for one making it is only what the
    /// application reads, and no replica follows.
    pub(super) async fn set(
        lab: &'a Lab,
        volume: &'a Volume,
        window: Duration,
        bed: Bed,
    ) -> anyhow::Result<Self> {
        let words = Words::of(lab.flavour());
        let app = direct(lab, "a1")?;
        let mut capacity = [0.0; 4];
        match bed {
            Bed::Usual => {
                tables(lab).await?;
                forget_the_binary_logs(lab).await?;
                limit(lab, volume)?;
                for work in Work::ALL {
                    capacity[work as usize] = self::capacity(&app, work).await?;
                }
                beside(volume, Kind::Write, 8, 0)
                    .run()
                    .await
                    .context("making the file for requests beside the server")?;
            }
            Bed::Pooled => {
                lab.connect("b1").await?.query_drop(words.stop_replica).await?;
                let mut root = lab.connect("a1").await?;
                big(&mut root, SMALL).await?;
                limit(lab, volume)?;
            }
        }
        let application = Application::start(&app, window).await?;
        let mut root = lab.connect("a1").await?;
        let mut usual = Vec::new();
        for (setting, _) in Making::every().iter().flat_map(|making| making.settings(lab.flavour())) {
            let value: Option<String> =
                root.query_first(format!("SELECT @@GLOBAL.{setting}")).await.ok().flatten();
            usual.extend(value.map(|value| (setting, value)));
        }
        let appliers = format!("SELECT @@GLOBAL.{}", words.appliers);
        let appliers: Option<String> = lab.connect("b1").await?.query_first(appliers).await?;
        let appliers = appliers.context("b1 does not tell how many threads apply")?;
        Ok(Self { lab, bed, words, app, volume, application, capacity, usual, appliers })
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

    /// Sets what something is made under, and says whether that is anything.
    pub(super) async fn prepare(&self, what: Making) -> anyhow::Result<bool> {
        let settings = what.settings(self.lab.flavour());
        for (setting, value) in &settings {
            self.lab.connect("a1").await?.query_drop(format!("SET GLOBAL {setting} = {value}")).await?;
        }
        Ok(!settings.is_empty())
    }

    /// Begins; it ends by itself after `time`.
    pub(super) async fn make(&self, what: Making, strength: u32, time: Duration) -> anyhow::Result<Made> {
        let level = 1 << strength.min(4);
        let by_strength = strength.min(2) as usize;
        let mut made = Made::new();
        if let Some(threads) = what.appliers(self.lab.flavour()) {
            self.apply_with(&threads.to_string()).await?;
        }
        let until = Instant::now() + time;
        match what {
            Making::Healthy
            | Making::HealthyWrites
            | Making::HealthyMixed
            | Making::HealthyReports
            | Making::HealthyLimited
            | Making::HealthyWritesLimited
            | Making::HealthyMixedLimited
            | Making::HealthyReportsLimited => self.healthy(&mut made, what, strength, until).await?,
            Making::RowLocks => made.clients(self, 8 * level, until, client::update_the_hot_row).await?,
            Making::MetadataLocks => self.lock_the_shape(&mut made, 6 * level, until).await?,
            Making::TableLocks => {
                for number in 0..4 * level {
                    let root = self.lab.connect("a1").await?;
                    made.clients.spawn(client::hold_the_table(root, until, number));
                }
            }
            Making::AutoIncrement => {
                let root = self.lab.connect("a1").await?;
                made.clients.spawn(client::insert_many_slowly(root, until));
                made.clients(self, 4 * level, until, client::insert_behind_the_lock).await?;
            }
            Making::FlushBound => {
                // Small writes would reach the limit on requests first: only the flush shall be slow.
                made.hold(self.volume.lifted()?);
                made.clients(self, 4 * level, until, client::insert).await?;
            }
            Making::CpuHog => {
                self.paced(&mut made, self.capacity() * 0.2, until).await?;
                made.hogs(2 * level, until);
            }
            Making::Connections => {
                let share = [0.93, 0.96, 0.98][by_strength];
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
            Making::ReplicationLag => {
                self.sleep_where_applied(SLOW_HUNDREDTHS).await?;
                let per_s = [200.0, 300.0, 480.0][by_strength];
                let every = Duration::from_secs_f64(f64::from(PARALLEL) / per_s);
                for number in 0..PARALLEL {
                    let root = self.lab.connect("a1").await?;
                    made.clients.spawn(client::change_and_sleep(root, until, number, every));
                }
            }
            Making::Disk => {
                made.clients(self, READERS, until, client::read_now_and_then).await?;
                let seconds = u32::try_from(time.as_secs()).unwrap_or(60);
                let fio = beside(self.volume, Kind::RandomMixed, requests(strength), seconds).start()?;
                self.volume.limit(fio.id().context("fio has ended already")?)?;
                made.beside = Some(fio);
            }
            Making::Softirq => {
                self.paced(&mut made, self.capacity() * 0.05, until).await?;
                made.hold(Packets::begin(8 * level, Pace::Steady, until)?);
            }
            Making::PacketDrops => {
                self.paced(&mut made, self.capacity() * 0.05, until).await?;
                made.hold(Packets::begin(24, Pace::Bursts(2 * level), until)?);
            }
            Making::Retransmits => {
                let lost = [0.10, 0.15, 0.25][by_strength];
                let way = LossyWay::open(self.lab.dir(), self.lab.real("a1")?, lost)?;
                let path = way.path().to_str().context("a path that is no text")?;
                let opts = OptsBuilder::from_opts(self.app.clone()).socket(Some(path));
                for number in 0..16 {
                    let conn = Conn::new(opts.clone()).await?;
                    made.clients.spawn(client::read_without_pause(conn, until, number));
                }
                made.way = Some(way);
            }
            Making::Nic => {
                self.paced(&mut made, self.capacity() * 0.05, until).await?;
                made.hold(Stream::begin([0.88, 0.94, 1.0][by_strength], until)?);
            }
            Making::NeighbourTable => {
                self.paced(&mut made, self.capacity() * 0.1, until).await?;
                made.hold(Neighbours::begin([0.97, 0.98, 0.99][by_strength], until)?);
            }
            Making::ConntrackTable => {
                self.paced(&mut made, self.capacity() * 0.1, until).await?;
                let share = [0.96, 0.97, 0.98][by_strength];
                let filled = tokio::task::spawn_blocking(move || Tracked::begin(share, time));
                made.hold(filled.await??);
            }
            Making::SlowLink => {
                let far = Duration::from_millis([1, 2, 5][by_strength]);
                self.lab.set_round_trip("a", "b", far).await?;
                let b1 = self.lab.opts("a", "b1", Account::App)?;
                for number in 0..8 {
                    let (conn, times) = (Conn::new(b1.clone()).await?, self.application.statements());
                    made.clients.spawn(client::read_the_usual(conn, until, number, times));
                }
            }
            Making::CpuLimit => {
                let pid = pid(self.lab, "a1")?;
                made.hold(Limited::of(pid, &[Limit::Cpus([0.5, 0.3, 0.2][by_strength])])?);
                made.clients(self, 4, until, client::read_without_pause).await?;
            }
            Making::CpuPinned => {
                made.hold(CpusAllowed::of(pid(self.lab, "a1")?, 0)?);
                made.clients(self, 4 * level, until, client::read_without_pause).await?;
            }
            Making::MemoryLimit => {
                self.forget_the_mapped_table().await?;
                let limit = Limit::Memory(MAPPED_MIB[by_strength] << 20);
                made.hold(Limited::of(pid(self.lab, "a1")?, &[limit])?);
                made.clients(self, 4, until, client::read_mapped).await?;
            }
            Making::IoLimit => {
                let per_s = [800, 400, 200][by_strength];
                made.hold(self.volume.enclose(pid(self.lab, "a1")?, per_s)?);
                made.clients(self, 4 * level, until, client::read_anywhere).await?;
            }
            Making::GlobalLock => {
                let root = self.lab.connect("a1").await?;
                made.clients.spawn(client::lock_everything(root, until));
                made.clients(self, 4 * level, until, client::insert_behind_the_lock).await?;
            }
            Making::RedoLog => {
                made.hold(self.volume.lifted()?);
                for number in 0..4 * level {
                    let root = self.unlogged().await?;
                    made.clients.spawn(client::rewrite(root, until, number));
                }
            }
            Making::Purge => {
                made.hold(self.volume.lifted()?);
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
            Making::Admission => {
                let clients = [16, 24, 40][by_strength];
                match self.bed {
                    Bed::Pooled => made.clients(self, clients, until, client::sleep_in_the_pool).await?,
                    Bed::Usual => made.clients(self, clients, until, client::sleep_in_the_engine).await?,
                }
            }
            Making::TableCache => made.clients(self, 2 * level, until, client::read_many_tables).await?,
            Making::OneStatement => {
                self.paced(&mut made, self.capacity() * 0.1, until).await?;
                made.clients(self, 2 * level, until, client::scan).await?;
            }
            Making::OneSession => {
                self.paced(&mut made, self.capacity() * [0.0, 0.01, 0.02][by_strength], until).await?;
                let (conn, killer) = (self.connect().await?, self.lab.connect("a1").await?);
                made.clients.spawn(client::compute(conn, killer, until));
            }
            Making::SemiSync => {
                self.acknowledged().await?;
                let (primary, replica) = (self.lab.connect("a1").await?, self.lab.connect("b1").await?);
                made.clients(self, 4 * level, until, client::insert).await?;
                made.clients.spawn(client::stop_acknowledging(primary, replica, until, self.words));
            }
            Making::CommitsHang => {
                self.paced(&mut made, self.capacity() * 0.02, until).await?;
                made.clients(self, 2 * level, until, client::insert).await?;
                made.hold(self.volume.freeze(time)?);
            }
            Making::DiskSpace => {
                self.paced(&mut made, self.capacity() * 0.1, until).await?;
                let full = [0.96, 0.97, 0.98][by_strength];
                made.hold(self.volume.fill(full)?);
            }
            Making::ApplyWithoutKey => {
                made.hold(self.volume.lifted()?);
                let rows = [150, 200, 250][by_strength];
                // MySQL looks through the table once for all rows of an event, about twenty of these.
                let rows = if self.lab.flavour() == Flavour::MySql { 10 * rows } else { rows };
                let root = self.lab.connect("a1").await?;
                made.clients.spawn(client::change_without_a_key(root, until, rows));
            }
            Making::OpenFiles => {
                self.paced(&mut made, self.capacity() * 0.1, until).await?;
                let share = [0.93, 0.96, 0.98][by_strength];
                made.hold(FilesAllowed::of(pid(self.lab, "a1")?, share)?);
            }
            Making::ThreadLimit => {
                self.paced(&mut made, self.capacity() * 0.1, until).await?;
                let share = [0.96, 0.98, 1.0][by_strength];
                let pid = pid(self.lab, "a1")?;
                let limited = Arc::new(Limited::of(pid, &[Limited::threads(pid, share)?])?);
                made.hold(limited.clone());
                made.clients.spawn(limited.keep_threads(pid, share, until));
            }
            Making::SlowApplication => {
                let extra = Duration::from_millis([40, 80, 160][by_strength]);
                made.hold(self.application.slow(extra));
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
        let (work, limited) = what.healthy().context("no healthy load")?;
        if limited {
            let pid = pid(self.lab, "a1")?;
            let (cpus, memory, share) = FAR_ABOVE;
            let threads = Limited::threads(pid, share)?;
            made.hold(Limited::of(pid, &[Limit::Cpus(cpus), Limit::Memory(memory), threads])?);
            made.hold(FilesAllowed::of(pid, share)?);
        }
        let most = self.capacity[work as usize];
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

    /// Undoes what does not end with its making: settings, the distance, and what the replica has yet to
    /// apply. That may be minutes of slow statements, which would be named in whatever is made next.
    pub(super) async fn tidy(&self, what: Making) -> anyhow::Result<()> {
        let mut primary = self.lab.connect("a1").await?;
        for (setting, value) in &self.usual {
            primary.query_drop(format!("SET GLOBAL {setting} = {value}")).await?;
        }
        match what {
            Making::MemoryLimit => primary.query_drop(CLOSE_THE_MAPPED_TABLE).await?,
            // One that could not be begun may have left it on; where it was never there, it is off.
            Making::SemiSync => {
                let off = format!("SET GLOBAL {}_enabled = OFF", self.words.semi_sync.0);
                let _ = primary.query_drop(off).await;
            }
            _ => {}
        }
        primary.disconnect().await?;
        if self.bed != Bed::Usual {
            return Ok(());
        }
        self.lab.set_round_trip("a", "b", NEAR).await?;
        let mut replica = self.lab.connect("b1").await?;
        client::pace(&mut replica, 0.0).await?;
        self.sleep_where_applied(0).await?;
        let lifted = self.volume.lifted()?;
        self.lab.wait_applied("b1", "a1", APPLIED_WITHIN).await?;
        drop(lifted);
        client::pace(&mut replica, SLOW_S).await?;
        replica.disconnect().await?;
        if what.appliers(self.lab.flavour()).is_some() {
            self.apply_with(&self.appliers).await?;
        }
        forget_the_binary_logs(self.lab).await
    }

    /// This many threads of b1 apply from now on.
    async fn apply_with(&self, threads: &str) -> anyhow::Result<()> {
        let mut replica = self.lab.connect("b1").await?;
        replica.query_drop(self.words.stop_replica).await?;
        replica.query_drop(format!("SET GLOBAL {} = {threads}", self.words.appliers)).await?;
        Ok(replica.query_drop(self.words.start_replica).await?)
    }

    /// How long each change that sleeps takes on b1 from now on.
    async fn sleep_where_applied(&self, hundredths: u32) -> anyhow::Result<()> {
        let mut replica = self.lab.connect("b1").await?;
        Ok(replica.query_drop(format!("SET GLOBAL {} = {hundredths}", client::SLEEPS)).await?)
    }

    /// Closes the table whose file is mapped, and throws its pages out of memory: pages count against the
    /// limit of whoever brings them in.
    async fn forget_the_mapped_table(&self) -> anyhow::Result<()> {
        self.lab.connect("a1").await?.query_drop(CLOSE_THE_MAPPED_TABLE).await?;
        for kind in ["MYD", "MYI"] {
            let path = self.lab.dir().join("a1/data").join(format!("app/mapped.{kind}"));
            let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
            file.sync_all()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }

    /// Commits wait for b1's acknowledgement from now on, however long that takes.
    async fn acknowledged(&self) -> anyhow::Result<()> {
        let (at_primary, at_replica) = self.words.semi_sync;
        let mut primary = self.lab.connect("a1").await?;
        let mut replica = self.lab.connect("b1").await?;
        if let Some((source, library)) = self.words.semi_sync_plugins {
            install(&mut primary, at_primary, source).await?;
            install(&mut replica, at_replica, library).await?;
        }
        replica.query_drop(format!("SET GLOBAL {at_replica}_enabled = ON")).await?;
        replica.query_drop(self.words.stop_receiver).await?;
        replica.query_drop(self.words.start_receiver).await?;
        primary.query_drop(format!("SET GLOBAL {at_primary}_timeout = 3600000")).await?;
        primary.query_drop(format!("SET GLOBAL {at_primary}_enabled = ON")).await?;
        let deadline = Instant::now() + LOADED_WITHIN;
        loop {
            let clients: Option<(String, String)> = primary.query_first(self.words.acknowledging()).await?;
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
        let (clients, held) = (JoinSet::new(), Vec::new());
        Self { clients, stop: Arc::default(), threads: Vec::new(), beside: None, held, way: None }
    }

    /// It ends with the making.
    fn hold(&mut self, what: impl Send + 'static) {
        self.held.push(Box::new(what));
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
        self.held.clear();
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

/// No replica shall do the same.
const CLOSE_THE_MAPPED_TABLE: &str = "FLUSH NO_WRITE_TO_BINLOG TABLES app.mapped";

/// Loads a plugin that is not there yet.
async fn install(root: &mut Conn, name: &str, library: &str) -> anyhow::Result<()> {
    let there = format!("SELECT COUNT(*) FROM information_schema.PLUGINS WHERE plugin_name = '{name}'");
    if root.query_first::<u32, _>(there).await? == Some(0) {
        let statement = format!("INSTALL PLUGIN {name} SONAME '{library}'");
        root.query_drop(statement).await.with_context(|| format!("loading the plugin {name}"))?;
    }
    Ok(())
}

/// How many requests are under way beside the server where its disk is the bottleneck. With the disk limited
/// to 3,000 of each kind a second, 16 keep each waiting for 2.7 ms; with eight it was 1.3 ms, which is not
/// three times what an idle disk takes everywhere.
fn requests(strength: u32) -> u32 {
    16 << strength.min(4)
}

/// Clients whose reads wait behind those requests, twenty a second of each, seven in ten of them for a page
/// that the pool lacks: at 2.7 ms or more, more than one of them waits at any time. A disk that fewer wait
/// for holds nobody back, however busy it is.
const READERS: u32 = 40;

/// Requests on the server's disk that are not the server's.
fn beside(volume: &Volume, kind: Kind, depth: u32, seconds: u32) -> Job {
    let block = if kind == Kind::Write { 1 << 20 } else { 16 << 10 };
    Job { file: volume.path().join("beside"), mib: BESIDE_MIB, kind, block, depth, rate: None, seconds }
}

/// What the disk does for the servers from now on. What they are found to carry is measured after this: half
/// of what a quicker disk allows may be all that this one does.
fn limit(lab: &Lab, volume: &Volume) -> anyhow::Result<()> {
    // A server whose own IO is limited has another bottleneck than a slow disk.
    let limited = if volume.limits_by_io_max() { Vec::new() } else { lab.servers() };
    limited.iter().try_for_each(|server| volume.limit(pid(lab, server)?))
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
    let before = if work.writes() { WRITES_BEFORE } else { 0.0 };
    let from = Instant::now() + Duration::from_secs_f64(before);
    let until = from + Duration::from_secs_f64(CAPACITY.1);
    let mut clients = JoinSet::new();
    for number in 0..CAPACITY.0 {
        clients.spawn(client::send_on(Conn::new(app.clone()).await?, (from, until), number, work));
    }
    let mut ended = 0;
    while let Some(client) = clients.join_next().await {
        ended += client??;
    }
    Ok(ended as f64 / CAPACITY.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::USUAL_PER_S;

    #[test]
    fn requests_beside_the_server_keep_each_waiting_for_long_at_every_strength() {
        // Little's law: half of them are reads, and half of what is done a second.
        let wait_ms = |strength| 1e3 * f64::from(requests(strength)) / f64::from(2 * USUAL_PER_S);
        assert!(wait_ms(0) > 2.5 && wait_ms(1) > 5.0 && wait_ms(2) > 10.0);
        assert_eq!(requests(9), requests(4));
        let waiting = 0.7 * f64::from(READERS) / (50.0 / wait_ms(0) + 1.0);
        assert!(waiting > 1.0, "{waiting}");
    }
}
