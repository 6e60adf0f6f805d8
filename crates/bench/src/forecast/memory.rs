//! The buffer pool's curve on a real server: measured at five sizes, held against four that were measured in
//! the same pass and are not part of the curve.
//!
//! The data are four times the smallest pool. The disk is a volume of the bench's own with a fixed number of
//! requests a second (`volume.rs`), read past the page cache, so that a miss costs what it would on a
//! provisioned volume whatever the machine's own disk does. Eight clients send ten point selects in a
//! transaction and pause in between.
//!
//! The third skew is Hatena's step at scale: the rows that are read fill one and a half times the smallest
//! pool, so that the smallest is to twice its size as 16 GB is to 32 GB for a working set of 24 GB.

use super::filled_server::{FilledServer, fill};
use crate::output::scratch;
use crate::promise::Promise;
use crate::sysbench::{ACCOUNT, DATABASE, target};
use crate::volume::Volume;
use anyhow::{Context, bail};
use config::Credentials;
use lab::{Lab, Spec};
use load::workload::sysbench::{Options, workload};
use load::{Arrivals, Distribution, Plan};
use mysql_async::prelude::Queryable;
use plan::Interval;
use plan::memory::{Curve, Measured};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use term::terminal;
use whatif::memory::{Experiment, Measurement, MemoryAnswer, PoolServer, answer};
use whatif::pool_load::PoolLoad;
use whatif::words::{bytes, figure, interval, percent};

/// Some 270 MB.
const ROWS: u32 = 1_200_000;
/// Requests of the disk a second.
const DISK_PER_S: u32 = 1000;
const CLIENTS: u32 = 8;
const THINK: Duration = Duration::from_millis(20);
const POINTS: u32 = 10;
/// Sizes of the curve and of what is held against it, as multiples of the smallest.
const CURVE: [f64; 5] = [1.0, 1.45, 2.0, 3.0, 4.6];
const HELD: [f64; 4] = [1.2, 1.7, 2.45, 3.7];
/// Size of the data, as a multiple of the smallest pool.
const DATA: f64 = 4.0;
/// The part of the rows that Hatena's step reads: 24 of 64.
const HOT: f64 = 0.375;
const WINDOWS: u32 = 4;
const WARM_MOST: Duration = Duration::from_secs(25);
/// Until what was written is on the disk.
const CLEAN: Duration = Duration::from_secs(120);
const MISSES_WITHIN: f64 = 0.03;
const P99_WITHIN: f64 = 0.20;
/// After Hatena's step the disk is read so much less.
const STEP: f64 = 0.1;

/// What was predicted and what came, skew by skew.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Memory {
    data_bytes: u64,
    disk_per_s: u32,
    skews: Vec<Skew>,
}

#[derive(Clone, Debug, Serialize)]
struct Skew {
    name: String,
    /// From the sizes of the curve.
    answer: MemoryAnswer,
    /// Sizes that are not part of it.
    held: Vec<Measured>,
    pairs: Vec<Pair>,
}

/// A size that was predicted and measured.
#[derive(Clone, Debug, Serialize)]
struct Pair {
    bytes: u64,
    miss_ratio: Interval,
    miss_ratio_came: f64,
    p99_ms: Interval,
    p99_ms_came: f64,
}

/// Measures.
pub(super) async fn measure(window: Duration) -> anyhow::Result<Memory> {
    let volume = Volume::make(&scratch(), DISK_PER_S)?;
    let largest = (f64::from(ROWS) * 230.0 * CURVE[4] / DATA) as u64 >> 20;
    let mut spec = Spec::new(&[("a", 1)])
        .option("innodb_flush_method", "O_DIRECT")
        .option("innodb_max_dirty_pages_pct", "0")
        .option("innodb_max_dirty_pages_pct_lwm", "0")
        .option("innodb_buffer_pool_size_max", &format!("{}M", largest + 64));
    spec.server.buffer_pool_mib = u32::try_from(largest)?;
    let lab = Lab::up(&spec, volume.path()).await.context("bringing up the server on a disk of its own")?;
    let measured = all_skews(&lab, &volume, window).await;
    lab.down().await?;
    measured
}

async fn all_skews(lab: &Lab, volume: &Volume, window: Duration) -> anyhow::Result<Memory> {
    let FilledServer { address, mut root, options, data_bytes } = fill(lab, volume, ROWS, POINTS).await?;
    let zipf = Distribution::Zipfian { exponent: 0.8 };
    let hot = (f64::from(ROWS) * HOT) as u32;
    let mut skews = Vec::new();
    for (name, options) in [
        ("uniform", options.clone()),
        ("zipfian, 0.8", Options { distribution: zipf, ..options.clone() }),
        ("all reads in 24/64 of the rows", Options { table_size: hot, ..options.clone() }),
    ] {
        {
            let _lifted = volume.lifted()?;
            clean(&mut root).await?;
            // Larger than the data: all of it is read into the pool once.
            root.query_drop(format!(
                "SELECT COUNT(*) FROM {DATABASE}.sbtest1 FORCE INDEX (PRIMARY) WHERE pad = ''"
            ))
            .await?;
        }
        terminal::complain(&format!("memory: {name}"));
        let directory = lab.dir().join("journal");
        let run = move || one_skew(address, &options, data_bytes, window, &directory);
        let measured = tokio::task::spawn_blocking(run).await??;
        skews.push(Skew::new(name, measured, data_bytes)?);
    }
    root.disconnect().await?;
    Ok(Memory { data_bytes, disk_per_s: DISK_PER_S, skews })
}

/// Until no page waits to be written.
async fn clean(root: &mut mysql_async::Conn) -> anyhow::Result<()> {
    let until = Instant::now() + CLEAN;
    loop {
        let dirty: Option<(String, u64)> =
            root.query_first("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'").await?;
        match dirty {
            Some((_, 0)) => return Ok(()),
            _ if Instant::now() > until => bail!("pages are still dirty after {} s", CLEAN.as_secs()),
            _ => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

fn size(data_bytes: u64, multiple: f64) -> u64 {
    ((data_bytes as f64 / DATA * multiple) as u64 >> 20) << 20
}

fn one_skew(
    address: SocketAddr,
    options: &Options,
    data_bytes: u64,
    window: Duration,
    journal: &Path,
) -> anyhow::Result<Measurement> {
    let server = PoolServer {
        address: fleet::Address::tcp(address.ip().to_string(), address.port()),
        who: Credentials { user: Some(ACCOUNT.to_owned()), ..Credentials::default() },
        journal: journal.to_owned(),
        command: "headroom-bench plan".to_owned(),
    };
    let experiment = Experiment {
        sizes: CURVE.iter().chain(&HELD).map(|multiple| size(data_bytes, *multiple)).collect(),
        window,
        windows: WINDOWS,
        warm_most: WARM_MOST,
        arrivals: Arrivals::Closed { think: THINK },
    };
    let sent = Arc::new(workload("oltp_read_only", options).context("sysbench's own")?);
    let plan = Plan { read_only: true, threads: 1, ..Plan::new(sent, target(address), CLIENTS, window) };
    let stop = Arc::new(AtomicBool::new(false));
    Ok(experiment.run(&server, &PoolLoad::Workload(plan), &stop, terminal::complain)?)
}

impl Skew {
    fn new(name: &str, measured: Measurement, data_bytes: u64) -> anyhow::Result<Self> {
        let is_held = |one: &Measured| HELD.iter().any(|multiple| size(data_bytes, *multiple) == one.bytes);
        let (held, sizes): (Vec<Measured>, Vec<Measured>) = measured.sizes.into_iter().partition(is_held);
        let curve = Curve::new(&sizes, 0.95)?;
        let middle = |values: &[f64]| plan::quantile::median(values).unwrap_or(f64::NAN);
        let pairs = held.iter().filter_map(|one| {
            let predicted = curve.at(one.bytes)?;
            Some(Pair {
                bytes: one.bytes,
                miss_ratio: predicted.miss_ratio,
                miss_ratio_came: middle(&one.miss_ratio),
                p99_ms: predicted.p99_ms?,
                p99_ms_came: middle(&one.p99_ms),
            })
        });
        let pairs = pairs.collect();
        let measurement = Measurement { sizes, ..measured };
        let answer = answer("a lab".to_owned(), name.to_owned(), measurement)?;
        Ok(Self { name: name.to_owned(), answer, held, pairs })
    }

    fn promises(&self) -> Vec<Promise> {
        let misses = self.pairs.iter().map(|pair| (pair.miss_ratio.estimate - pair.miss_ratio_came).abs());
        let worst = misses.fold(0.0, f64::max);
        let p99 = |pair: &Pair| pair.p99_ms.estimate / pair.p99_ms_came - 1.0;
        let off = self.pairs.iter().map(|pair| p99(pair).abs()).fold(0.0, f64::max);
        let each = |of: &dyn Fn(&Pair) -> String| {
            self.pairs.iter().map(|pair| format!("{}: {}", bytes(pair.bytes), of(pair))).collect::<Vec<_>>()
        };
        let whole = self.pairs.len() == HELD.len();
        vec![
            Promise::new(
                &format!(
                    "memory, {}: misses at sizes not measured within {MISSES_WITHIN} absolute",
                    self.name
                ),
                format!(
                    "at most {worst:.3} off; {}",
                    each(&|pair| format!(
                        "{}, came {:.2} %",
                        percent(&pair.miss_ratio),
                        pair.miss_ratio_came * 100.0
                    ))
                    .join("; ")
                ),
                whole && worst <= MISSES_WITHIN,
            ),
            Promise::new(
                &format!("memory, {}: p99 there within 20 %", self.name),
                format!(
                    "at most {:.0} % off; {}",
                    off * 100.0,
                    each(&|pair| format!("{}, came {}", interval(&pair.p99_ms), figure(pair.p99_ms_came)))
                        .join("; ")
                ),
                whole && off <= P99_WITHIN,
            ),
        ]
    }

    /// Reads of the disk a second and p99 at a multiple of the smallest size.
    fn at(&self, data_bytes: u64, multiple: f64) -> Option<(f64, f64)> {
        let found = self.answer.measured.iter().find(|one| one.bytes == size(data_bytes, multiple))?;
        let middle = |values: &[f64]| plan::quantile::median(values);
        let requests = middle(&found.per_s)? * found.requests_each;
        Some((middle(&found.miss_ratio)? * requests, middle(&found.p99_ms)?))
    }
}

impl Memory {
    pub(super) fn promises(&self) -> Vec<Promise> {
        let mut all: Vec<Promise> = self.skews.iter().flat_map(Skew::promises).collect();
        let last = self.skews.last();
        let step = last.and_then(|skew| skew.at(self.data_bytes, 1.0).zip(skew.at(self.data_bytes, 2.0)));
        if let Some(((reads, p99), (reads_then, p99_then))) = step {
            all.push(Promise::new(
                "Hatena's step, 16 to 32 in the ratio: reads of the disk fall to a tenth or less",
                format!(
                    "{} to {} reads a second, p99 {} to {} ms",
                    figure(reads),
                    figure(reads_then),
                    figure(p99),
                    figure(p99_then)
                ),
                reads_then <= STEP * reads,
            ));
        }
        all
    }

    /// The curves with what was held against them.
    pub(super) fn page(&self) -> String {
        let mut body = format!(
            "<p>Data of {}, a disk of {} requests a second, {CLIENTS} clients with {POINTS} point selects a transaction.</p>",
            bytes(self.data_bytes),
            self.disk_per_s
        );
        for skew in &self.skews {
            body += &format!(
                "<h2>{}</h2><div class=\"charts\">{}</div>",
                skew.name,
                whatif::memory_chart::figures(&skew.answer, &skew.held)
            );
        }
        whatif::page::document("The buffer pool's curve, and sizes that are not part of it", &body)
    }
}

/// The file of the charts.
pub(super) const PAGE: &str = "memory.html";
