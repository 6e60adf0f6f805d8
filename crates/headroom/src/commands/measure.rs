//! `headroom measure`: the largest rate that still meets an objective, and the headroom over today's rate.
//! Which rate is tried next, and which trials count, is `load::measure`'s to say.

mod current;

use crate::commands::load::{TargetArgs, WorkloadArgs, or_wrong_command_line};
use crate::environment::Environment;
use anyhow::bail;
use clap::Args;
use config::DataPath;
use fleet::Address;
use load::measure::{Goal, Measurement, Objective, TodaysRate, text};
use load::{Arrivals, Plan};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use term::{exit, terminal};

const EXAMPLES: &str = "\
Examples:
  headroom measure oltp_read_only --objective 'p99 < 15ms' --server db1 --database sbtest --table-size 100000
  headroom measure shop.toml --objective 'p95 < 50ms' --reader db2 --reader db3 --writer db1 --current 320
      How many times today's 320 transactions a second can be served.
  headroom measure shop.toml --objective 'p95 < 50ms' --server copy1 --current-from db1
      The same, and today's rate is asked of db1: statements a second over 10 s.
  headroom measure ... --trials trials.jsonl
      Each trial is kept in the file; interrupted, the same command goes on where it was.

Exit code 1: no rate could be shown to meet the objective, or the measurement was unsound (the text says why).";

/// The most that a transaction is waited for is its objective's time, and at least this.
const GRACE: Duration = Duration::from_millis(100);
/// Widths that can be asked for, in %: below them thousands of trials, above them no figure.
const WIDTHS: RangeInclusive<f64> = 0.5..=20.0;

/// Find the largest rate that still meets an objective.
///
/// Sends the workload in an open loop at one rate after the other, in repeated trials. Answers that are late,
/// failed, never came or were never asked for count as lost.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MeasureArgs {
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    target: TargetArgs,
    /// What must hold, e.g. 'p99 < 15ms'.
    #[arg(long, value_parser = Objective::parse)]
    objective: Objective,
    /// Today's rate in transactions a second: the headroom over it is printed.
    #[arg(long, alias = "now", value_name = "PER_SECOND")]
    current: Option<f64>,
    /// The server (or router) that carries today's load: its statements a second are asked, for 10 s.
    #[arg(long, value_name = "ADDR", conflicts_with = "current")]
    current_from: Option<Address>,
    /// Length of a trial.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = fleet::parse_duration)]
    trial: Duration,
    /// How wide the interval may be in the end, in %: the narrower, the more trials.
    #[arg(long, value_name = "PERCENT", default_value_t = 4.0)]
    width: f64,
    /// Trials of full length at most.
    #[arg(long, value_name = "N", default_value_t = 80, value_parser = clap::value_parser!(u32).range(6..=1000))]
    at_most: u32,
    /// Load before the first trial, not counted, at the first rate.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = fleet::parse_duration)]
    warm_up: Duration,
    /// The first rate that is tried.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 100.0)]
    start: f64,
    /// No rate above this is tried.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 1e6)]
    most: f64,
    /// Clients: the most transactions at a time. Too few would be the limit themselves.
    #[arg(long, short, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// Threads that send [default: one for every 64 clients, at most one a core].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// From which keys and moments follow.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep every trial in this file, and go on from what is in it.
    #[arg(long, value_name = "FILE")]
    trials: Option<PathBuf>,
    /// Refuse workloads that change data; the sessions are read-only for the server too.
    #[arg(long)]
    read_only: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Does it.
pub(crate) async fn run(args: MeasureArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let plan = args.plan(environment)?;
    let mut flag = term::StopFlag::listen(|| ());
    let stop = flag.flag();
    let observed = match &args.current_from {
        Some(address) => {
            let who = args.target.credentials(environment)?;
            terminal::complain(&format!("asking {address} for today's rate, 10 s"));
            let per_second = tokio::select! {
                per_second = current::queries_per_second(address, &who) => per_second?,
                () = flag.until_set() => bail!("interrupted while {address} was asked for today's rate"),
            };
            Some((per_second, address.to_string()))
        }
        None => None,
    };
    let json = args.json;
    let measurement = args.measurement(observed);
    let measured =
        tokio::task::spawn_blocking(move || measurement.run(plan, &stop, terminal::complain)).await?;
    let measured = measured.map_err(or_wrong_command_line)?;
    let done = measured.capacity.is_some_and(|capacity| capacity.lower.is_some());
    if json {
        terminal::print_json(&measured)?;
    } else {
        terminal::print(&text::text(&measured))?;
    }
    Ok(if done { exit::DONE } else { exit::no() })
}

impl MeasureArgs {
    fn plan(&self, environment: &Environment) -> anyhow::Result<Plan> {
        if !(self.start > 0.0 && self.most >= self.start && self.current.is_none_or(|now| now > 0.0)) {
            return Err(exit::usage_error(
                "--start and --current must be above 0, and --most at least --start",
            ));
        }
        if !WIDTHS.contains(&self.width) {
            let (from, to) = (WIDTHS.start(), WIDTHS.end());
            return Err(exit::usage_error(format!("--width must be from {from} to {to} %")));
        }
        let workload = self.workload.named()?.workload();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Plan {
            workload: Arc::new(workload),
            target: self.target.resolve(environment)?,
            clients: self.clients,
            idle: 0,
            read_only: self.read_only,
            threads: self.threads.map_or_else(|| Plan::usual_threads(self.clients, cores), usize::from),
            busy: false,
            data_path: DataPath::Auto,
            arrivals: Arrivals::poisson(self.start),
            warm_up: self.warm_up,
            time: self.trial,
            // Whoever waits longer than the objective is lost anyway.
            grace: self.objective.within.max(GRACE),
            seed: self.seed,
            objective: Some(self.objective.within),
        })
    }

    /// What is to be found out.
    fn measurement(&self, observed: Option<(f64, String)>) -> Measurement {
        Measurement {
            goal: Goal {
                width: self.width / 100.0,
                trials: self.at_most,
                ..Goal::new(self.objective, self.trial, self.start, self.most)
            },
            objective: self.objective,
            target: self.target.words(),
            trials: self.trials.clone(),
            today: match (self.current, observed) {
                (Some(per_second), _) => Some(TodaysRate::Stated { per_second }),
                (None, Some((per_second, at))) => Some(TodaysRate::Statements { per_second, at }),
                (None, None) => None,
            },
        }
    }
}
