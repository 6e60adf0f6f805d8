//! The part `cold`: a reader is restarted with an empty buffer pool, under a load that needs it. What does
//! the tier's p99 do meanwhile, by its heat and by the clock?
//!
//! Each reader's disk reads are limited, as on a cloud's volume. With all of its share at once a cold reader
//! needs more of them than there are, so its statements wait in line.

use super::disk_limit::DiskLimit;
use super::fixture::{RoomLab, Route, Way, pid};
use super::report::Cell;
use super::{Bench, Part, RoomArgs, SLOW, quantile};
use anyhow::bail;
use lab::DATABASE;
use mysql_async::prelude::Queryable;
use plan::quantile::sorted;
use std::sync::Arc;
use std::time::{Duration, Instant};
use term::terminal;

/// Rows, four on a page: 20 MiB of a buffer pool of 32.
const ROWS: u32 = 5_000;
const ROW_BYTES: u32 = 3_700;
/// Pages a second that a reader may read. Cold, with all of its share, it would want 180.
const DISK_READS: u32 = 100;
/// Seconds at the start that are not measured, and those that are what it was before.
const SETTLES: u64 = 8;
const BEFORE: u64 = 15;
const BACK_WITHIN: Duration = Duration::from_secs(60);

/// A row that is drawn at random, and some work.
pub(super) fn statement(times: u64) -> String {
    format!(
        "SELECT BENCHMARK({times}, MD5('room')), LENGTH(t.pad) \
         FROM (SELECT 1 + FLOOR(RAND() * {ROWS}) AS id) k JOIN {DATABASE}.room t ON t.id = k.id"
    )
}

pub(super) async fn in_turn(
    args: &RoomArgs,
    lab: &mut RoomLab,
    statement: &Arc<str>,
) -> anyhow::Result<Vec<Cell>> {
    fill(lab).await?;
    warm(lab).await?;
    let carried = lab.carry(statement, args.seed).await?;
    let by = |heat: bool| Way { speed: true, heat, ..Way::default() };
    let mut cells = Vec::new();
    for round in 1..=args.rounds {
        let mut ways = [("heat", by(true)), ("clock", by(false))];
        if round % 2 == 0 {
            ways.reverse();
        }
        for (name, way) in ways {
            terminal::complain(&format!("Cold, round {round}: by {name}"));
            warm(lab).await?;
            let mut bench = Bench { args, part: Part::Cold, lab, statement, carried, round };
            cells.push(bench.restart(name, &way).await?);
        }
    }
    Ok(cells)
}

impl Bench<'_> {
    /// Before, the restart, and the warm-up.
    async fn restart(&mut self, name: &str, way: &Way) -> anyhow::Result<Cell> {
        let routes = self.lab.routes(self.zones(), way).await?;
        let clients = self.clients(&routes, 1.0).await?;
        let mut cell = Cell::new("Cold", self.round, name, 1.0);
        cell.carried_per_s = self.carried;
        self.watch(&routes, &clients, SETTLES, &mut cell).await?;
        let mut before = Vec::new();
        for _ in 0..BEFORE {
            before.extend(self.watch(&routes, &clients, 1, &mut cell).await?);
        }
        cell.before_p99_ms = Some(quantile(&sorted(before), 0.99));
        cell.slow_at_s = cell.series.len();
        self.lab.restart(SLOW).await?;
        let data = self.lab.lab.dir().to_owned();
        let limit = DiskLimit::new(SLOW, pid(self.lab.control(SLOW)?).await?, &data, DISK_READS)?;
        self.until_back(&routes[0]).await?;
        // Sessions that were on it broke with it: no matter of the warm-up.
        clients.iter().for_each(|clients| drop(clients.take()));
        cell.errors.clear();
        let counted = self.lab.statements().await?;
        let mut times = Vec::new();
        for _ in 0..self.args.warm_up {
            times.extend(self.watch(&routes, &clients, 1, &mut cell).await?);
        }
        let after = self.lab.statements().await?;
        cell.statements = after.iter().map(|(name, n)| (name.clone(), n - counted[name])).collect();
        let times = sorted(times);
        cell.answers = times.len();
        (cell.p50_ms, cell.p99_ms) = (quantile(&times, 0.5), quantile(&times, 0.99));
        cell.recovered_at_s = cell.series.len();
        drop((clients, limit));
        for route in routes {
            route.stop().await?;
        }
        Ok(cell)
    }

    /// Until the router lets reads go to the restarted reader.
    async fn until_back(&self, route: &Route) -> anyhow::Result<()> {
        let deadline = Instant::now() + BACK_WITHIN;
        loop {
            let status = route.status().await?;
            let server = status.fleet.servers.iter().find(|server| server.name == SLOW);
            let routing = server.and_then(|server| server.routing.as_ref());
            if routing.is_some_and(|r| r.reads.eligible && r.warmth.is_some_and(|warmth| warmth < 1.0)) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "the router takes {SLOW} for warm, or gives it no reads, {} s after its restart",
                    BACK_WITHIN.as_secs()
                );
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The table, on all servers.
async fn fill(lab: &RoomLab) -> anyhow::Result<()> {
    let mut conn = lab.lab.connect("p1").await?;
    conn.query_drop(format!(
        "CREATE TABLE {DATABASE}.room (id INT PRIMARY KEY, pad VARCHAR({ROW_BYTES}) CHARACTER SET latin1 NOT NULL)"
    ))
    .await?;
    for first in (1..=ROWS).step_by(500) {
        let rows: Vec<String> = (first..(first + 500).min(ROWS + 1))
            .map(|id| format!("({id}, REPEAT('r', {ROW_BYTES}))"))
            .collect();
        conn.query_drop(format!("INSERT INTO {DATABASE}.room VALUES {}", rows.join(", "))).await?;
    }
    conn.disconnect().await?;
    for reader in lab.readers() {
        lab.lab.wait_applied(&reader, "p1", Duration::from_secs(60)).await?;
    }
    Ok(())
}

/// Every page is in the buffer pool of every reader.
async fn warm(lab: &mut RoomLab) -> anyhow::Result<()> {
    for reader in lab.readers() {
        let conn = lab.control(&reader)?;
        for _ in 0..2 {
            let sum: Option<u64> =
                conn.query_first(format!("SELECT SUM(LENGTH(pad)) FROM {DATABASE}.room")).await?;
            if sum != Some(u64::from(ROWS * ROW_BYTES)) {
                bail!("{reader} holds other data than was written: {sum:?} bytes");
            }
        }
    }
    Ok(())
}
