//! From one core to two on a real server: it is put into a cpuset cgroup with one CPU, a ladder of rates up
//! to half of what that carries is sent, two cores are predicted; then it gets the second CPU, and the same
//! rates are sent.
//!
//! The transactions are read-only ranges that cost milliseconds of CPU, so that the load generator beside the
//! server costs next to nothing.

use super::pair::Pair;
use crate::promise::Promise;
use crate::server::Server;
use crate::sysbench;
use anyhow::{Context, bail};
use load::workload::sysbench::Options;
use load::{Plan, tables};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use term::terminal;
use whatif::baseline::Baseline;
use whatif::ladder::Ladder;
use whatif::load_answer::{LoadAnswer, LoadQuestion, answer};
use whatif::load_point::LoadPoint;

const ROWS: u32 = 20_000;
/// Rows of a range: some milliseconds of CPU for each transaction.
const RANGE: u32 = 1_500;
const CLIENTS: u32 = 32;
/// Rates that are predicted on two cores, as shares of one core's saturation.
const RATES: [f64; 3] = [0.6, 1.0, 1.4];
const CGROUP: &str = "/sys/fs/cgroup/cpuset/headroom-bench-plan";

/// What was predicted and what came.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cores {
    /// From one core.
    answer: LoadAnswer,
    pairs: Vec<Pair>,
}

/// The server's cgroup; dropped, its processes go back where they came from.
struct Cpuset(PathBuf);

impl Cpuset {
    fn make(pid: u32) -> anyhow::Result<Self> {
        let path = PathBuf::from(CGROUP);
        if !Path::new("/sys/fs/cgroup/cpuset/cpuset.cpus").exists() {
            bail!("there is no cpuset hierarchy of cgroup v1 at /sys/fs/cgroup/cpuset");
        }
        std::fs::create_dir_all(&path).context("making a cpuset cgroup; this needs root")?;
        std::fs::write(path.join("cpuset.mems"), "0")?;
        let set = Self(path);
        set.cpus("0")?;
        std::fs::write(set.0.join("cgroup.procs"), pid.to_string())?;
        Ok(set)
    }

    fn cpus(&self, list: &str) -> anyhow::Result<()> {
        std::fs::write(self.0.join("cpuset.cpus"), list)
            .with_context(|| format!("giving the server CPUs {list}"))
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        let inside = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in inside.lines() {
            let _ = std::fs::write("/sys/fs/cgroup/cpuset/cgroup.procs", pid);
        }
        if let Err(error) = std::fs::remove_dir(&self.0) {
            tracing::warn!(%error, "the cpuset cgroup of the bench stays");
        }
    }
}

/// Measures.
pub(super) async fn measure(step: Duration) -> anyhow::Result<Cores> {
    let server = Server::up(&crate::output::scratch(), CLIENTS * 4).await?;
    let (address, pid) = (server.address, server.pid);
    let credentials =
        config::Credentials { user: Some(sysbench::ACCOUNT.to_owned()), ..config::Credentials::default() };
    let measured = tokio::task::spawn_blocking(move || {
        let options = Options {
            tables: 1,
            table_size: ROWS,
            range_size: RANGE,
            point_selects: 1,
            ..Options::default()
        };
        let target = sysbench::target(address);
        tables::prepare(&target, &options, 2, 1, |_| {})?;
        let workload =
            load::workload::sysbench::workload("oltp_read_only", &options).context("sysbench's own")?;
        let plan =
            Plan { read_only: true, threads: 1, ..Plan::new(Arc::new(workload), target, CLIENTS, step) };
        let to = fleet::Address::tcp(address.ip().to_string(), address.port());
        let mut asked = whatif::server::Server::open(&to, &credentials)?;
        let set = Cpuset::make(pid)?;
        let stop = Arc::new(AtomicBool::new(false));
        let ladder = Ladder {
            step,
            rounds: 3,
            rates: Vec::new(),
            clients: Vec::new(),
            cores: None,
            disk_reads_per_s: None,
            count_others_s: None,
        };
        terminal::complain("cores: one");
        let one = ladder.climb(&plan, Some(&mut asked), &stop, terminal::complain)?;
        one.notes.iter().for_each(|note| terminal::complain(note));
        let question = |today: f64, growths: Vec<f64>| LoadQuestion {
            subject: "a real server".to_owned(),
            workload: "oltp_read_only".to_owned(),
            cores: one.cores,
            baseline: Baseline::named(today),
            growths,
            cores_then: vec![2],
            objective_ms: None,
            notes: Vec::new(),
        };
        let full = answer(&question(1.0, vec![]), one.seen.clone());
        let Some(now) = full.by_cores.first().map(|with| with.saturation.estimate) else {
            return Ok(Cores { pairs: Vec::new(), answer: full });
        };
        let found = answer(&question(now, RATES.to_vec()), one.seen.clone());
        set.cpus("0-1")?;
        terminal::complain("cores: two");
        let rates = RATES.map(|share| share * now).to_vec();
        let ladder = Ladder { rates, clients: vec![8], ..ladder };
        let two = ladder.climb(&plan, Some(&mut asked), &stop, terminal::complain)?;
        two.notes.iter().for_each(|note| terminal::complain(note));
        Ok(Cores { pairs: pairs(&found, &two.seen), answer: found })
    });
    let cores: anyhow::Result<Cores> = measured.await?;
    server.down().await?;
    cores
}

fn pairs(predicted: &LoadAnswer, came: &[LoadPoint]) -> Vec<Pair> {
    let middle = |of: &dyn Fn(&&LoadPoint) -> bool, value: fn(&LoadPoint) -> f64| {
        let values: Vec<f64> = came.iter().filter(of).map(value).collect();
        plan::quantile::median(&values)
    };
    let mut all = Vec::new();
    for row in predicted.rows.iter().filter(|row| row.cores == 2) {
        let near = |one: &&LoadPoint| !one.closed && (one.per_s / row.per_s - 1.0).abs() < 0.08;
        all.push(Pair {
            what: format!("mean ms at {:.0} a second", row.per_s),
            predicted: row.mean_ms,
            came: middle(&near, |one| one.mean_ms),
            refused: row.refused.clone(),
        });
    }
    let most = predicted.by_cores.iter().find(|with| with.cores == 2).map(|with| with.saturation);
    let busiest = |one: &&LoadPoint| one.closed && one.at_work > 4.0;
    all.push(Pair {
        what: "capacity, a second".to_owned(),
        predicted: most,
        came: middle(&busiest, |one| one.per_s),
        refused: None,
    });
    all
}

impl Cores {
    pub(super) fn promises(&self) -> Vec<Promise> {
        if self.pairs.is_empty() {
            let why = self.answer.queue_refused.clone().unwrap_or_default();
            return vec![Promise::new(
                "from 1 core to 2: within 20 %, or refused",
                format!("refused: {why}"),
                true,
            )];
        }
        self.pairs.iter().map(|pair| pair.promise("from 1 core to 2")).collect()
    }
}
