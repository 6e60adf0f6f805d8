//! What the clients of a making do, each on a connection of its own.

use super::application::{Times, note};
use super::fixture::{BIG, PACED};
use super::words::Words;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A point read of a row that is in memory, now and again; what it took counts as the application's.
pub(super) async fn read_the_usual(
    mut conn: Conn,
    until: Instant,
    number: u32,
    times: Times,
) -> anyhow::Result<()> {
    let mut at = number;
    while Instant::now() < until {
        at = usual(at);
        let asked = Instant::now();
        conn.query_drop(point_read(at)).await?;
        note(&times, asked);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// What a healthy application sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Point reads of rows that are in memory.
    Reads,
    /// Durable changes of one row each.
    Writes,
    /// Nine reads, then a change.
    Mixed,
    /// Sums over two hundred neighbouring rows.
    Reports,
}

impl Work {
    pub(super) const ALL: [Self; 4] = [Self::Reads, Self::Writes, Self::Mixed, Self::Reports];

    /// Whether it changes something: then what it costs shows only once changed pages have to be written.
    pub(super) fn writes(self) -> bool {
        matches!(self, Self::Writes | Self::Mixed)
    }

    fn statement(self, number: u32) -> String {
        let changed = number.wrapping_mul(7919) % SCANNED;
        match self {
            Self::Mixed if number.is_multiple_of(10) => Self::Writes.statement(number),
            Self::Reads | Self::Mixed => point_read(usual(number)),
            Self::Writes => format!("UPDATE app.scan SET n = n + 1 WHERE id = {changed}"),
            Self::Reports => {
                format!("SELECT SUM(n) FROM app.scan WHERE id BETWEEN {changed} AND {}", changed + 200)
            }
        }
    }
}

/// Without a pause; how many of them ended after `from`.
pub(super) async fn send_on(
    mut conn: Conn,
    (from, until): (Instant, Instant),
    number: u32,
    work: Work,
) -> anyhow::Result<u64> {
    let (mut at, mut ended) = (number, 0);
    while Instant::now() < until {
        conn.query_drop(work.statement(at)).await?;
        at = at.wrapping_add(7);
        ended += u64::from(Instant::now() > from);
    }
    Ok(ended)
}

/// The same at a rate: what could not be sent in time is sent as soon as it can be. Each client begins a
/// little after the one before it: all at once would be a queue at each tick.
pub(super) async fn paced(
    mut conn: Conn,
    until: Instant,
    number: u32,
    every: Duration,
    work: Work,
) -> anyhow::Result<()> {
    let first = tokio::time::Instant::now() + every * (number % PACED) / PACED;
    let (mut at, mut tick) = (number, tokio::time::interval_at(first, every));
    while Instant::now() < until {
        tick.tick().await;
        at = at.wrapping_add(7);
        conn.query_drop(work.statement(at)).await?;
    }
    Ok(())
}

/// A point read anywhere in a table that does not fit the pool, twenty times a second.
pub(super) async fn read_now_and_then(mut conn: Conn, until: Instant, number: u32) -> anyhow::Result<()> {
    let mut at = u64::from(number) + 1;
    while Instant::now() < until {
        at = step(at);
        conn.query_drop(point_read(((at >> 33) % u64::from(BIG)) as u32)).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn usual(at: u32) -> u32 {
    (at + 7) % 1000
}

fn point_read(id: u32) -> String {
    format!("SELECT filler FROM app.big WHERE id = {id}")
}

/// A walk of 64-bit steps: any page is as likely as any other.
fn step(at: u64) -> u64 {
    at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

pub(super) async fn update_the_hot_row(mut conn: Conn, until: Instant, _: u32) -> anyhow::Result<()> {
    while Instant::now() < until {
        conn.query_drop("BEGIN").await?;
        conn.query_drop("UPDATE app.hot SET n = n + 1 WHERE id = 1").await?;
        // What an application does with the row before it commits.
        tokio::time::sleep(Duration::from_millis(5)).await;
        conn.query_drop("COMMIT").await?;
    }
    Ok(())
}

pub(super) async fn alter(mut conn: Conn, _: Instant, _: u32) -> anyhow::Result<()> {
    conn.query_drop("ALTER TABLE app.shape COMMENT 'altered'").await?;
    Ok(())
}

pub(super) async fn read_the_shape(mut conn: Conn, until: Instant, number: u32) -> anyhow::Result<()> {
    // Behind the DDL, also where that takes a moment to arrive.
    tokio::time::sleep(Duration::from_millis(500 + 10 * u64::from(number))).await;
    while Instant::now() < until {
        conn.query_drop("SELECT * FROM app.shape").await?;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

pub(super) async fn insert(mut conn: Conn, until: Instant, number: u32) -> anyhow::Result<()> {
    while Instant::now() < until {
        conn.query_drop(format!("INSERT INTO app.journal (n) VALUES ({number})")).await?;
    }
    Ok(())
}

pub(super) async fn idle(conn: Conn, until: Instant, _: u32) -> anyhow::Result<()> {
    tokio::time::sleep(until.saturating_duration_since(Instant::now())).await;
    conn.disconnect().await?;
    Ok(())
}

pub(super) async fn read_anywhere(mut conn: Conn, until: Instant, number: u32) -> anyhow::Result<()> {
    let mut at = u64::from(number) + 1;
    while Instant::now() < until {
        at = step(at);
        let start = (at >> 33) % u64::from(BIG - 200);
        let ids: Vec<String> =
            (0..8).map(|step| ((start + step * 31_337) % u64::from(BIG)).to_string()).collect();
        let list = ids.join(",");
        conn.query_drop(format!("SELECT MAX(filler) FROM app.big WHERE id IN ({list})")).await?;
    }
    Ok(())
}

/// Statements that take their time again where they are applied, as long as [`pace`] says there.
pub(super) async fn write_slowly(
    mut root: Conn,
    until: Instant,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<()> {
    root.query_drop("SET SESSION binlog_format = 'STATEMENT'").await?;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        root.query_drop("INSERT INTO app.journal (n) SELECT SLEEP(s) FROM app.pace").await?;
    }
    Ok(())
}

/// How long each of those statements takes on this server from now on, for none of the others to know.
pub(super) async fn pace(root: &mut Conn, seconds: f64) -> anyhow::Result<()> {
    root.query_drop("SET SESSION sql_log_bin = 0").await?;
    Ok(root.query_drop(format!("UPDATE app.pace SET s = {seconds}")).await?)
}

/// Rows of the table that has no index for what is asked of it.
pub(super) const SCANNED: u32 = 20_000;
/// Tables beside the others: more than the cache of open tables holds in their making.
pub(super) const TABLES: u32 = 300;
/// Rows of the table that is locked as a whole.
pub(super) const WHOLE: u32 = 100;

/// Point reads without a pause, not counted.
pub(super) async fn read_without_pause(conn: Conn, until: Instant, number: u32) -> anyhow::Result<()> {
    send_on(conn, (until, until), number, Work::Reads).await.map(|_| ())
}

/// A lock on everything, until then.
pub(super) async fn lock_everything(mut root: Conn, until: Instant) -> anyhow::Result<()> {
    root.query_drop("FLUSH TABLES WITH READ LOCK").await?;
    tokio::time::sleep(until.saturating_duration_since(Instant::now())).await;
    Ok(root.query_drop("UNLOCK TABLES").await?)
}

pub(super) async fn insert_behind_the_lock(conn: Conn, until: Instant, number: u32) -> anyhow::Result<()> {
    tokio::time::sleep(Duration::from_millis(500)).await;
    insert(conn, until, number).await
}

/// Rows of a few pages, anew and anew.
pub(super) async fn rewrite(mut conn: Conn, until: Instant, number: u32) -> anyhow::Result<()> {
    let mut at = u64::from(number) + 1;
    while Instant::now() < until {
        at = step(at);
        let start = (at >> 33) % 20_000;
        let letter = char::from(b'a' + (at >> 60) as u8);
        conn.query_drop(format!(
            "UPDATE app.big SET filler = REPEAT('{letter}', 400) WHERE id BETWEEN {start} AND {}",
            start + 40
        ))
        .await?;
    }
    Ok(())
}

pub(super) async fn hold_a_snapshot(mut conn: Conn, until: Instant, _: u32) -> anyhow::Result<()> {
    conn.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
    conn.query_drop("SELECT * FROM app.shape").await?;
    tokio::time::sleep(until.saturating_duration_since(Instant::now())).await;
    Ok(conn.query_drop("COMMIT").await?)
}

/// One row after the other, a transaction each.
pub(super) async fn change_at_a_rate(
    mut conn: Conn,
    until: Instant,
    number: u32,
    every: Duration,
) -> anyhow::Result<()> {
    let first = tokio::time::Instant::now() + every * (number % PACED) / PACED;
    let (mut at, mut tick) = (number * 97, tokio::time::interval_at(first, every));
    while Instant::now() < until {
        tick.tick().await;
        at = usual(at);
        conn.query_drop(format!("UPDATE app.scan SET n = n + 1 WHERE id = {}", at + number * 1000)).await?;
    }
    Ok(())
}

pub(super) async fn group_by_text(mut conn: Conn, until: Instant, number: u32) -> anyhow::Result<()> {
    while Instant::now() < until {
        conn.query_drop(format!(
            "SELECT body, COUNT(*) FROM app.notes WHERE id > {} GROUP BY body ORDER BY 2",
            number % 3
        ))
        .await?;
    }
    Ok(())
}

pub(super) async fn connect_for_each(to: Opts, until: Instant) -> anyhow::Result<()> {
    let mut at = 0;
    while Instant::now() < until {
        let mut conn = Conn::new(to.clone()).await?;
        at = usual(at);
        conn.query_drop(point_read(at)).await?;
        conn.disconnect().await?;
    }
    Ok(())
}

pub(super) async fn read_many_tables(mut conn: Conn, until: Instant, number: u32) -> anyhow::Result<()> {
    let mut at = number;
    while Instant::now() < until {
        at = (at + 1) % TABLES;
        conn.query_drop(format!("SELECT COUNT(*) FROM app.many_{at}")).await?;
    }
    Ok(())
}

pub(super) async fn scan(mut conn: Conn, until: Instant, number: u32) -> anyhow::Result<()> {
    let mut at = number;
    while Instant::now() < until {
        at = usual(at);
        conn.query_drop(format!("SELECT COUNT(*) FROM app.scan WHERE n = {at}")).await?;
    }
    Ok(())
}

/// One statement that takes a CPU for as long as it is let; it is killed at the end.
pub(super) async fn compute(mut conn: Conn, mut killer: Conn, until: Instant) -> anyhow::Result<()> {
    let id = conn.id();
    let kill = async {
        tokio::time::sleep(until.saturating_duration_since(Instant::now())).await;
        killer.query_drop(format!("KILL QUERY {id}")).await
    };
    // That it was killed is its error.
    let run = conn.query_drop("SELECT SUM(CRC32(a.n + b.n)) FROM app.scan a JOIN app.scan b");
    let (_, killed) = tokio::join!(run, kill);
    Ok(killed?)
}

/// The replica gets nothing any more, so that commits wait for it; at the end they are released.
pub(super) async fn stop_acknowledging(
    mut primary: Conn,
    mut replica: Conn,
    until: Instant,
    words: &'static Words,
) -> anyhow::Result<()> {
    let (at_primary, at_replica) = words.semi_sync;
    replica.query_drop(words.stop_receiver).await?;
    tokio::time::sleep(until.saturating_duration_since(Instant::now())).await;
    primary.query_drop(format!("SET GLOBAL {at_primary}_enabled = OFF")).await?;
    replica.query_drop(format!("SET GLOBAL {at_replica}_enabled = OFF")).await?;
    Ok(replica.query_drop(words.start_receiver).await?)
}

/// Updates one row of a table that is locked as a whole meanwhile, for 20 ms.
pub(super) async fn hold_the_table(mut root: Conn, until: Instant, number: u32) -> anyhow::Result<()> {
    root.query_drop("SET SESSION sql_log_bin = 0").await?;
    while Instant::now() < until {
        let id = number % WHOLE;
        root.query_drop(format!("UPDATE app.whole SET n = n + 1 + SLEEP(0.02) WHERE id = {id}")).await?;
    }
    Ok(())
}

/// Inserts some rows with one statement, 20 ms each, and anew: others get no auto-increment value meanwhile.
pub(super) async fn insert_many_slowly(mut root: Conn, until: Instant) -> anyhow::Result<()> {
    root.query_drop("SET SESSION sql_log_bin = 0").await?;
    while Instant::now() < until {
        root.query_drop("INSERT INTO app.journal (n) SELECT SLEEP(0.02) FROM app.scan WHERE id < 25").await?;
    }
    Ok(())
}

/// Statements that take a thread of a pool, and no CPU.
pub(super) async fn sleep_in_the_pool(mut conn: Conn, until: Instant, _: u32) -> anyhow::Result<()> {
    while Instant::now() < until {
        conn.query_drop("DO SLEEP(0.01)").await?;
    }
    Ok(())
}

/// Statements that keep one of the engine's places for threads, and no CPU. A transaction that is open
/// already is one that the server shows while it waits for its place. A row asked for by its key alone is
/// read while the statement is planned, and its place is given back before it sleeps: hence the range.
pub(super) async fn sleep_in_the_engine(mut conn: Conn, until: Instant, _: u32) -> anyhow::Result<()> {
    while Instant::now() < until {
        conn.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
        conn.query_drop("SELECT SLEEP(0.01) FROM app.scan WHERE id < 1000 LIMIT 1").await?;
        conn.query_drop("COMMIT").await?;
    }
    Ok(())
}

/// Reads of rows anywhere in a table whose file is mapped: pages that are not in memory are major faults.
pub(super) async fn read_mapped(mut conn: Conn, until: Instant, number: u32) -> anyhow::Result<()> {
    let mut at = u64::from(number) + 1;
    while Instant::now() < until {
        at = step(at);
        let start = (at >> 33) % u64::from(BIG);
        let ids: Vec<String> =
            (0..8).map(|step| ((start + step * 31_337) % u64::from(BIG)).to_string()).collect();
        let list = ids.join(",");
        conn.query_drop(format!("SELECT MAX(filler) FROM app.mapped WHERE id IN ({list})")).await?;
    }
    Ok(())
}

/// A setting that does nothing here and is read without a lock: how long a change of
/// [`change_and_sleep`] takes on a server, in hundredths of a second.
pub(super) const SLEEPS: &str = "max_sp_recursion_depth";

/// One row after the other, in rows of its own; each change takes its time where [`SLEEPS`] says so, which is
/// where it is applied.
pub(super) async fn change_and_sleep(
    mut root: Conn,
    until: Instant,
    number: u32,
    every: Duration,
) -> anyhow::Result<()> {
    root.query_drop("SET SESSION binlog_format = 'STATEMENT'").await?;
    let (mut at, mut tick) = (0, tokio::time::interval(every));
    while Instant::now() < until {
        tick.tick().await;
        at = usual(at);
        root.query_drop(format!(
            "UPDATE app.scan SET n = n + 1 + SLEEP(@@GLOBAL.{SLEEPS} / 100) WHERE id = {}",
            at + number * 1000
        ))
        .await?;
    }
    Ok(())
}

/// Rows at the end of the table, four times a second: one look through the table here, and one for each of
/// them where they are applied (MariaDB), or for each event of them (MySQL).
pub(super) async fn change_without_a_key(mut root: Conn, until: Instant, rows: u32) -> anyhow::Result<()> {
    root.query_drop("SET SESSION binlog_format = 'ROW'").await?;
    let mut tick = tokio::time::interval(Duration::from_millis(250));
    let mut at = 0u8;
    while Instant::now() < until {
        tick.tick().await;
        at = at.wrapping_add(1);
        let letter = char::from(b'a' + at % 26);
        root.query_drop(format!(
            "UPDATE app.keyless SET filler = REPEAT('{letter}', 200) WHERE n >= {}",
            SCANNED - rows
        ))
        .await?;
    }
    Ok(())
}
