//! How each bottleneck is made: real sessions, threads and statements, bounded in time. Dropping a making ends it.

use anyhow::{Context, bail};
use clap::ValueEnum;
use lab::{Account, Lab};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use observe::verdict::Name;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Of the lab's servers: few, so that they can be used up.
pub(super) const MAX_CONNECTIONS: u32 = 80;
/// Rows of the table that does not fit the pool; 420 bytes each.
const BIG: u32 = 250_000;
/// The rows must be there by then.
const LOADED_WITHIN: Duration = Duration::from_secs(120);

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Making {
    /// A few clients with time to spare: nothing.
    Healthy,
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
}

impl Making {
    /// All of them.
    pub(super) const ALL: [Self; 8] = [
        Self::Healthy,
        Self::RowLocks,
        Self::MetadataLocks,
        Self::FlushBound,
        Self::CpuHog,
        Self::Connections,
        Self::BufferPool,
        Self::SingleThreadedApply,
    ];

    /// The verdict that is right.
    pub(super) fn expected(self) -> Option<Name> {
        Some(match self {
            Self::Healthy => return None,
            Self::RowLocks => Name::RowLocks,
            Self::MetadataLocks => Name::MetadataLocks,
            Self::FlushBound => Name::FlushBound,
            Self::CpuHog => Name::Cpu,
            Self::Connections => Name::Connections,
            Self::BufferPool => Name::BufferPool,
            Self::SingleThreadedApply => Name::SingleThreadedApply,
        })
    }

    /// The server at which it is looked for.
    pub(super) fn server(self) -> &'static str {
        if self == Self::SingleThreadedApply { "b1" } else { "a1" }
    }
}

impl fmt::Display for Making {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().as_ref().map_or("?", |value| value.get_name()))
    }
}

/// A lab with tables to make trouble on.
pub(super) struct Stage<'a> {
    lab: &'a Lab,
    app: Opts,
}

/// Something that is being made.
pub(super) struct Made {
    clients: JoinSet<anyhow::Result<()>>,
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl<'a> Stage<'a> {
    /// Makes the tables, and waits until the replica has them.
    pub(super) async fn set(lab: &'a Lab) -> anyhow::Result<Self> {
        let mut root = lab.connect("a1").await?;
        for statement in [
            "CREATE TABLE app.hot (id INT PRIMARY KEY, n BIGINT NOT NULL)",
            "INSERT INTO app.hot VALUES (1, 0), (2, 0)",
            "CREATE TABLE app.shape (id INT PRIMARY KEY, n INT)",
            "INSERT INTO app.shape VALUES (1, 1)",
            "CREATE TABLE app.journal (id BIGINT AUTO_INCREMENT PRIMARY KEY, n INT)",
            "CREATE TABLE app.big (id INT PRIMARY KEY, filler VARCHAR(400) NOT NULL)",
        ] {
            root.query_drop(statement).await?;
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
        Ok(Self { lab, app: lab.opts("a", "a1", Account::App)? })
    }

    /// What a server is called by those who watch it.
    pub(super) fn name(&self, server: &str) -> String {
        self.lab.real(server).map_or_else(|_| server.to_owned(), |real| real.to_string())
    }

    /// Begins; it ends by itself after `time`.
    pub(super) async fn make(&self, what: Making, strength: u32, time: Duration) -> anyhow::Result<Made> {
        let level = 1 << strength.min(4);
        let mut made = Made::new();
        let until = Instant::now() + time;
        match what {
            Making::Healthy => made.clients(self, 2 * level, until, healthy).await?,
            Making::RowLocks => made.clients(self, 8 * level, until, update_the_hot_row).await?,
            Making::MetadataLocks => {
                // A transaction that has read the table, then DDL, then readers: in this order.
                let mut holder = self.connect().await?;
                holder.query_drop("BEGIN").await?;
                holder.query_drop("SELECT * FROM app.shape").await?;
                let wait = until.saturating_duration_since(Instant::now());
                made.clients.spawn(async move {
                    tokio::time::sleep(wait).await;
                    holder.query_drop("COMMIT").await.context("ending the open transaction")
                });
                made.clients(self, 1, until, alter).await?;
                made.clients(self, 6 * level, until, read_the_shape).await?;
            }
            Making::FlushBound => made.clients(self, 8 * level, until, insert).await?,
            Making::CpuHog => made.hogs(2 * level, until),
            Making::Connections => {
                let share = [0.93, 0.96, 0.98][strength.min(2) as usize];
                let open = (f64::from(MAX_CONNECTIONS) * share) as u32;
                // Some are there already: ours, the replica's, the watchers'.
                made.clients(self, open.saturating_sub(4), until, idle).await?;
            }
            Making::BufferPool => made.clients(self, 4 * level, until, read_anywhere).await?,
            Making::SingleThreadedApply => {
                for _ in 0..4 * level {
                    let root = self.lab.connect("a1").await?;
                    made.clients.spawn(write_slowly(root, until, made.stop.clone()));
                }
            }
        }
        Ok(made)
    }

    async fn connect(&self) -> anyhow::Result<Conn> {
        Ok(Conn::new(self.app.clone()).await?)
    }
}

impl Made {
    fn new() -> Self {
        Self { clients: JoinSet::new(), stop: Arc::default(), threads: Vec::new() }
    }

    async fn clients<F>(
        &mut self,
        stage: &Stage<'_>,
        count: u32,
        until: Instant,
        work: impl Fn(Conn, Instant, u32) -> F,
    ) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        for number in 0..count {
            self.clients.spawn(work(stage.connect().await?, until, number));
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

async fn healthy(mut conn: Conn, until: Instant, number: u32) -> anyhow::Result<()> {
    let mut at = number;
    while Instant::now() < until {
        at = (at + 7) % 1000;
        conn.query_drop(format!("SELECT filler FROM app.big WHERE id = {at}")).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn update_the_hot_row(mut conn: Conn, until: Instant, _: u32) -> anyhow::Result<()> {
    while Instant::now() < until {
        conn.query_drop("BEGIN").await?;
        conn.query_drop("UPDATE app.hot SET n = n + 1 WHERE id = 1").await?;
        // What an application does with the row before it commits.
        tokio::time::sleep(Duration::from_millis(5)).await;
        conn.query_drop("COMMIT").await?;
    }
    Ok(())
}

async fn alter(mut conn: Conn, _: Instant, _: u32) -> anyhow::Result<()> {
    conn.query_drop("ALTER TABLE app.shape COMMENT 'altered'").await?;
    Ok(())
}

async fn read_the_shape(mut conn: Conn, until: Instant, number: u32) -> anyhow::Result<()> {
    // Behind the DDL, also where that takes a moment to arrive.
    tokio::time::sleep(Duration::from_millis(500 + 10 * u64::from(number))).await;
    while Instant::now() < until {
        conn.query_drop("SELECT * FROM app.shape").await?;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

async fn insert(mut conn: Conn, until: Instant, number: u32) -> anyhow::Result<()> {
    while Instant::now() < until {
        conn.query_drop(format!("INSERT INTO app.journal (n) VALUES ({number})")).await?;
    }
    Ok(())
}

async fn idle(conn: Conn, until: Instant, _: u32) -> anyhow::Result<()> {
    tokio::time::sleep(until.saturating_duration_since(Instant::now())).await;
    conn.disconnect().await?;
    Ok(())
}

async fn read_anywhere(mut conn: Conn, until: Instant, number: u32) -> anyhow::Result<()> {
    let mut at = u64::from(number) + 1;
    while Instant::now() < until {
        // A walk of 64-bit steps: any page is as likely as any other.
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let start = (at >> 33) % u64::from(BIG - 200);
        let ids: Vec<String> =
            (0..8).map(|step| ((start + step * 31_337) % u64::from(BIG)).to_string()).collect();
        let list = ids.join(",");
        conn.query_drop(format!("SELECT MAX(filler) FROM app.big WHERE id IN ({list})")).await?;
    }
    Ok(())
}

/// Statements that take their time again where they are applied.
async fn write_slowly(mut root: Conn, until: Instant, stop: Arc<AtomicBool>) -> anyhow::Result<()> {
    root.query_drop("SET SESSION binlog_format = 'STATEMENT'").await?;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        root.query_drop("INSERT INTO app.journal (n) SELECT SLEEP(0.05)").await?;
    }
    Ok(())
}
