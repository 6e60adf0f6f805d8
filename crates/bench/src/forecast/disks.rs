//! From a slow disk to a fast one on a real server: its volume takes 800 reads a second, a ladder of rates is
//! sent, and what a disk of 3000 would give is predicted from a probe of each; then the limit is raised, and
//! the same rates are sent, and higher ones.
//!
//! A transaction reads many rows, so that its response time is far above what the generator beside the server
//! is late by.
//!
//! Both disks are the machine's own below limits of requests, so that they differ by a known factor; what a
//! single request takes differs by the way the kernel holds requests back.

use super::filled_server::{FilledServer, fill};
use super::pair::Pair;
use crate::output::scratch;
use crate::promise::Promise;
use crate::sysbench::{ACCOUNT, target};
use crate::volume::Volume;
use anyhow::{Context, bail};
use config::Credentials;
use lab::{Lab, Spec};
use load::Plan;
use load::workload::sysbench::{Options, workload};
use probe::Scope;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use term::terminal;
use whatif::baseline::Baseline;
use whatif::disks::{self, DisksAnswer, DisksQuestion, NamedDisk, answer};
use whatif::ladder::Ladder;
use whatif::load_point::{LoadPoint, Observations};
use whatif::server::Server;

/// Some 90 MB beside a pool of 32.
const ROWS: u32 = 400_000;
const POOL_MIB: u32 = 32;
/// Reads a second of the disk that is there, and of the other.
const SLOW: u32 = 800;
const FAST: u32 = 3000;
const CLIENTS: u32 = 32;
/// Reads of a row in a transaction.
const POINTS: u32 = 20;
/// Rates that are predicted, as multiples of the highest that was sent on the slow disk.
const GROWTHS: [f64; 3] = [0.6, 1.0, 3.0];
const PROBE_MIB: u32 = 256;
const PROBE_S: u32 = 2;

/// What was predicted and what came.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DisksRun {
    /// From the slow disk.
    answer: DisksAnswer,
    pairs: Vec<Pair>,
}

/// This process is limited as the server is, so that what it starts to measure the disk is.
struct Ourselves;

impl Drop for Ourselves {
    fn drop(&mut self) {
        for root in ["/sys/fs/cgroup/blkio/cgroup.procs", "/sys/fs/cgroup/cgroup.procs"] {
            if Path::new(root).exists() {
                let _ = std::fs::write(root, std::process::id().to_string());
                return;
            }
        }
    }
}

/// Measures.
pub(super) async fn measure(step: Duration) -> anyhow::Result<DisksRun> {
    let mut volume = Volume::make(&scratch(), SLOW)?;
    let mut spec = Spec::new(&[("a", 1)]).option("innodb_flush_method", "O_DIRECT");
    spec.server.buffer_pool_mib = POOL_MIB;
    let lab = Lab::up(&spec, volume.path()).await.context("bringing up the server on a disk of its own")?;
    let measured = both(&lab, &mut volume, step).await;
    lab.down().await?;
    measured
}

async fn both(lab: &Lab, volume: &mut Volume, step: Duration) -> anyhow::Result<DisksRun> {
    let FilledServer { address, options, .. } = fill(lab, volume, ROWS, POINTS).await?;
    let here = probed("slow", volume).await?;
    terminal::complain("disks: the slow one");
    let slow = climb(address, &options, step, Vec::new(), here.disk.reads_per_s).await?;
    let highest = slow.iter().map(|one| one.per_s).fold(0.0, f64::max);
    if highest <= 0.0 {
        bail!("nothing sound was measured on the slow disk");
    }
    volume.change(FAST)?;
    let other = probed("fast", volume).await?;
    let question = DisksQuestion {
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        baseline: Baseline::named(highest),
        growths: GROWTHS.to_vec(),
        here,
        other: other.clone(),
        flushes: 0.0,
    };
    let found = answer(&question, Observations::of("a real server".into(), "point reads".into(), slow));
    terminal::complain("disks: the fast one");
    let rates = GROWTHS.map(|growth| growth * highest).to_vec();
    let fast = climb(address, &options, step, rates, other.disk.reads_per_s).await?;
    Ok(DisksRun { pairs: pairs(&found, &fast), answer: found })
}

/// What the volume takes now.
async fn probed(name: &str, volume: &Volume) -> anyhow::Result<NamedDisk> {
    terminal::complain(&format!("disks: probing the {name} one"));
    volume.limit(std::process::id())?;
    let _back = Ourselves;
    let scope = Scope {
        directory: Some(volume.path().to_owned()),
        file_mib: PROBE_MIB,
        seconds: PROBE_S,
        servers: None,
    };
    let probe = scope.measure(0.0, &mut |_: &str| {}).await?;
    let disk = disks::of_probe(&probe).context("the probe left the disk out")?;
    Ok(NamedDisk { name: name.to_owned(), ..disk })
}

async fn climb(
    address: SocketAddr,
    options: &Options,
    step: Duration,
    rates: Vec<f64>,
    reads_per_s: f64,
) -> anyhow::Result<Vec<LoadPoint>> {
    let workload = workload("oltp_read_only", options).context("sysbench's own")?;
    let plan =
        Plan { read_only: true, threads: 1, ..Plan::new(Arc::new(workload), target(address), CLIENTS, step) };
    let to = fleet::Address::tcp(address.ip().to_string(), address.port());
    let who = Credentials { user: Some(ACCOUNT.to_owned()), ..Credentials::default() };
    tokio::task::spawn_blocking(move || {
        let mut asked = Server::open(&to, &who)?;
        let ladder = Ladder {
            step,
            rounds: 3,
            rates,
            clients: Vec::new(),
            cores: None,
            disk_reads_per_s: Some(reads_per_s),
            count_others_s: None,
        };
        let climbed =
            ladder.climb(&plan, Some(&mut asked), &Arc::new(AtomicBool::new(false)), terminal::complain)?;
        climbed.notes.iter().for_each(|note| terminal::complain(note));
        Ok(climbed.seen)
    })
    .await?
}

fn pairs(predicted: &DisksAnswer, came: &[LoadPoint]) -> Vec<Pair> {
    let middle = |per_s: f64, value: fn(&LoadPoint) -> Option<f64>| {
        let near = came.iter().filter(|one| !one.closed && (one.per_s / per_s - 1.0).abs() < 0.08);
        plan::quantile::median(&near.filter_map(value).collect::<Vec<_>>())
    };
    let rows = predicted.rows.iter().filter(|row| row.disk == "fast");
    let of = |row: &disks::AtDisk| {
        let (per_s, refused) = (row.per_s, row.refused.clone());
        [
            Pair {
                what: format!("mean ms at {per_s:.0} a second"),
                predicted: row.mean_ms,
                came: middle(per_s, |one| Some(one.mean_ms)),
                refused: refused.clone(),
            },
            Pair {
                what: format!("p99 ms at {per_s:.0} a second"),
                predicted: row.p99_ms,
                came: middle(per_s, |one| one.p99_ms),
                refused,
            },
        ]
    };
    rows.flat_map(of).collect()
}

impl DisksRun {
    pub(super) fn promises(&self) -> Vec<Promise> {
        if let Some(why) = &self.answer.refused {
            return vec![Promise::new(
                "from 800 to 3000 reads a second: within 20 %",
                format!("refused: {why}"),
                false,
            )];
        }
        self.pairs.iter().map(|pair| pair.promise("from 800 to 3000 reads a second")).collect()
    }
}
