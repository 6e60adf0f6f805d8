//! `headroom measure`: the largest rate that still meets an objective, and the headroom over today's rate. Which rate is
//! tried next is `load::measure`'s to say; here the trials are sent, kept and shown.

use crate::environment::Environment;
use crate::exit;
use crate::load_command::{TargetArgs, WorkloadArgs};
use crate::table::Table;
use crate::terminal;
use anyhow::{Context, bail};
use clap::Args;
use load::measure::{Capacity, Goal, Next, Objective, Trial};
use load::{Arrivals, Load, Plan};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  headroom measure oltp_read_only --objective 'p99 < 15ms' --server db1 --database sbtest --table-size 100000
  headroom measure shop.toml --objective 'p95 < 50ms' --reader db2 --reader db3 --writer db1 --now 320
      How many times today's 320 transactions a second can be served.
  headroom measure ... --trials trials.jsonl
      Each trial is kept in the file; interrupted, the same command goes on where it was.

Exit code 1: no rate could be shown to meet the objective, or the measurement was unsound (the text says why).";

/// After a trial that lost too much, the server gets this long to work off what was begun.
const SETTLE: Duration = Duration::from_secs(1);
/// A trial that was unsound is repeated this often before the search is given up.
const REPEATS: u32 = 2;

/// Find the largest rate that still meets an objective.
///
/// Sends the workload in an open loop at one rate after the other, in repeated trials. Answers that are late, failed,
/// never came or were never asked for count as lost.
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
    #[arg(long, value_name = "PER_SECOND")]
    now: Option<f64>,
    /// Length of a trial.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = fleet::config::duration)]
    trial: Duration,
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
    /// Refuse workloads that change data.
    #[arg(long)]
    read_only: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What came of it.
#[derive(Serialize)]
struct Measured {
    workload: String,
    objective: Objective,
    goal: Goal,
    /// `None` when the search was given up; `refused` says why.
    capacity: Option<Capacity>,
    refused: Option<String>,
    now: Option<f64>,
    /// Capacity over today's rate.
    headroom: Option<f64>,
    trials: Vec<Trial>,
}

/// Does it.
pub(crate) async fn run(args: MeasureArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    if !(args.start > 0.0 && args.most >= args.start && args.now.is_none_or(|now| now > 0.0)) {
        bail!("--start and --now must be above 0, and --most at least --start");
    }
    let workload = args.workload.named()?.workload();
    if args.read_only && workload.writes {
        bail!("{} changes data, and --read-only forbids that", workload.name);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan {
        workload: Arc::new(workload),
        target: args.target.resolve(environment)?,
        clients: args.clients,
        threads: args.threads.map_or_else(|| Plan::usual_threads(args.clients, cores), usize::from),
        arrivals: Arrivals::poisson(args.start),
        warm_up: Duration::ZERO,
        time: args.trial,
        // Whoever waits longer than the objective is lost anyway.
        grace: args.objective.within.max(Duration::from_millis(100)),
        seed: args.seed,
        objective: Some(args.objective.within),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            flag.store(true, Ordering::Relaxed);
        }
    });
    let json = args.json;
    let measured = tokio::task::spawn_blocking(move || measure(&args, plan, &stop)).await??;
    let done = measured.capacity.is_some_and(|capacity| capacity.lower.is_some());
    if json {
        terminal::print_json(&measured)?;
    } else {
        terminal::print(&text(&measured))?;
    }
    Ok(if done { exit::DONE } else { exit::no() })
}

fn measure(args: &MeasureArgs, plan: Plan, stop: &Arc<AtomicBool>) -> anyhow::Result<Measured> {
    let goal = Goal::new(args.objective, args.trial, args.start, args.most);
    let mut trials = args.trials.as_deref().map(kept).transpose()?.unwrap_or_default();
    if !trials.is_empty() {
        terminal::complain(&format!("{} trials are there already", trials.len()));
    }
    let workload = plan.workload.name.clone();
    let load = Load::connect(plan)?;
    let mut unsound = 0;
    let (capacity, refused) = loop {
        let (rate, seconds) = match goal.next(&trials) {
            Next::Done(capacity) => break (Some(capacity), None),
            Next::Send { rate, seconds } => (rate, seconds),
        };
        let seed = args.seed + trials.len() as u64;
        let time = Duration::from_secs_f64(seconds);
        let outcome = load.send(&Arrivals::poisson(rate), time, seed, stop, |_| ())?;
        if stop.load(Ordering::Relaxed) {
            break (None, Some("interrupted; --trials lets the same command go on".to_owned()));
        }
        if let Some(why) = outcome.void.first() {
            terminal::complain(&format!("{rate:.1} a second: unsound: {why}"));
            unsound += 1;
            if unsound > REPEATS {
                break (None, Some(why.clone()));
            }
            continue;
        }
        unsound = 0;
        let trial = Trial::of(&outcome, rate, seconds);
        let lost = trial.lost as f64 / trial.due.max(1) as f64;
        terminal::complain(&format!(
            "{rate:>9.1} a second for {seconds:.0} s: p99 {:.2} ms, {:.2} % lost{}",
            outcome.response.p99_ms,
            lost * 100.0,
            left(&goal, &trials)
        ));
        if let Some(path) = &args.trials {
            keep(path, &trial)?;
        }
        trials.push(trial);
        if lost > goal.loss {
            std::thread::sleep(SETTLE);
        }
    };
    let lower = capacity.and_then(|capacity| capacity.lower);
    let headroom = lower.zip(args.now).map(|(lower, now)| lower / now);
    Ok(Measured {
        workload,
        objective: args.objective,
        goal,
        capacity,
        refused,
        now: args.now,
        headroom,
        trials,
    })
}

fn left(goal: &Goal, trials: &[Trial]) -> String {
    let seconds = goal.seconds_left(trials);
    if seconds >= 1.0 { format!(" (about {seconds:.0} s left)") } else { String::new() }
}

/// The trials of an earlier run, one JSON object a line.
fn kept(path: &Path) -> anyhow::Result<Vec<Trial>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let line = |(number, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), number + 1))
    };
    text.lines().enumerate().map(line).collect()
}

fn keep(path: &Path, trial: &Trial) -> anyhow::Result<()> {
    let file = std::fs::File::options().create(true).append(true).open(path);
    let mut file = file.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(writeln!(file, "{}", serde_json::to_string(trial)?)?)
}

fn text(measured: &Measured) -> String {
    let mut rates: Vec<f64> = measured.trials.iter().map(|trial| trial.rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let mut table = Table::new(&[">rate", ">trials", ">seconds", ">lost %, each time"]);
    for rate in rates {
        let of: Vec<&Trial> = measured.trials.iter().filter(|trial| trial.rate == rate).collect();
        let lost = of.iter().map(|t| format!("{:.2}", t.lost as f64 / t.due.max(1) as f64 * 100.0));
        table.row(vec![
            format!("{rate:.1}"),
            of.len().to_string(),
            format!("{:.0}", of.iter().map(|t| t.seconds).sum::<f64>()),
            lost.collect::<Vec<_>>().join(" "),
        ]);
    }
    let mut text = table.text();
    let objective = format!("p{} < {:?}", measured.objective.quantile * 100.0, measured.objective.within);
    text.push('\n');
    let _ = match (&measured.refused, measured.capacity) {
        (Some(why), _) => writeln!(text, "No figure: {why}"),
        (None, Some(Capacity { lower: Some(lower), upper: Some(upper) })) => writeln!(
            text,
            "{}: {lower:.1} transactions a second meet {objective}; {upper:.1} do not",
            measured.workload
        ),
        (None, Some(Capacity { lower: Some(lower), upper: None })) => {
            writeln!(
                text,
                "{}: {lower:.1} transactions a second meet {objective}; more was not tried (--most)",
                measured.workload
            )
        }
        _ => writeln!(text, "{}: not even the lowest rate tried meets {objective}", measured.workload),
    };
    if let (Some(headroom), Some(now)) = (measured.headroom, measured.now) {
        let _ = writeln!(text, "Headroom: {headroom:.2} times today's {now} a second");
    }
    text
}
