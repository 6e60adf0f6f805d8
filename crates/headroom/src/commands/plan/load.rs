//! `headroom plan load`: more load or more cores, from what was measured before.

use super::{KeepArgs, verdict};
use crate::commands::report::usual_store;
use crate::environment::Environment;
use ::load::store::Store;
use anyhow::{Context, anyhow};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use term::{exit, terminal};
use whatif::ledger::{Entry, Kind, Observed, now};
use whatif::load_answer::{LoadAnswer, LoadQuestion, answer};
use whatif::load_point::{self, LoadPoint};

const EXAMPLES: &str = "\
Examples:
  headroom plan load --runs 20 --cores 8
      From the last 20 runs of headroom load; of those, the ones of the newest's workload and target.
  headroom plan load --trials trials.jsonl --cores 8 --current 400 --growth 1.5,2
  curl -s 'http://db1:9105/history.json?from=-3600' > h.json; headroom plan load --history h.json --cores 8

Exit code 1: nothing is predicted (the text says why).";

/// What is asked about more load.
#[derive(Args, Debug, Clone)]
pub(crate) struct GrowthArgs {
    /// How many times today's load.
    #[arg(long, value_name = "TIMES", value_delimiter = ',', default_values_t = [1.0, 1.5, 2.0, 3.0])]
    growth: Vec<f64>,
    /// Other numbers of cores.
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    cores_then: Vec<u32>,
    /// Today's rate in transactions a second [default: the highest that was seen].
    #[arg(long, value_name = "PER_SECOND")]
    current: Option<f64>,
    /// p99 must be shorter than this, ms: the largest rate that meets it is named.
    #[arg(long, value_name = "MS")]
    objective_ms: Option<f64>,
}

/// More load or more cores, from what was measured before.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
#[group(id = "source", required = true, multiple = false, args = ["runs", "trials", "history"])]
pub(crate) struct LoadArgs {
    /// The last N runs of headroom load.
    #[arg(long, value_name = "N")]
    runs: Option<u32>,
    /// A file of headroom measure --trials.
    #[arg(long, value_name = "FILE")]
    trials: Option<PathBuf>,
    /// What an agent answers at /history.json, in a file.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// The server in that history, where the agent watches several.
    #[arg(long, value_name = "NAME", requires = "history")]
    server: Option<String>,
    /// The history of runs [default: headroom/history.sqlite in the user's data directory].
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Cores that the server may use.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    cores: u32,
    #[command(flatten)]
    growth: GrowthArgs,
    #[command(flatten)]
    keep: KeepArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Does it.
pub(crate) fn run(args: &LoadArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let (subject, workload, seen) = args.seen(environment)?;
    let question = args.growth.question(subject, workload, args.cores, &seen)?;
    finish(&answer(&question, seen), &args.keep, args.json, environment)
}

/// Keeps and shows an answer.
pub(super) fn finish(
    answer: &LoadAnswer,
    keep: &KeepArgs,
    json: bool,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let observed = |one: &LoadPoint| {
        let figures = [("mean_ms", Some(one.mean_ms)), ("p99_ms", one.p99_ms)];
        let cores = Some(answer.cores);
        let of = move |(what, value): (&str, Option<f64>), at: f64| {
            value.map(|value| Observed { what: what.to_owned(), at, cores, value })
        };
        figures.into_iter().filter_map(|figure| of(figure, one.per_s)).collect::<Vec<_>>()
    };
    let entry = Entry {
        at: now(),
        kind: Kind::Load,
        subject: answer.subject.clone(),
        workload: answer.workload.clone(),
        predictions: answer.predictions(),
        seen: answer.seen.iter().filter(|one| !one.closed).flat_map(observed).collect(),
        answer: serde_json::to_value(answer)?,
    };
    if json {
        terminal::print_json(answer)?;
    } else {
        terminal::print(&answer.text())?;
    }
    keep.keep(&entry, environment)?;
    Ok(verdict(answer.says_something()))
}

impl GrowthArgs {
    /// The question that the flags ask of what was seen.
    pub(super) fn question(
        &self,
        subject: String,
        workload: String,
        cores: u32,
        seen: &[LoadPoint],
    ) -> anyhow::Result<LoadQuestion> {
        let positive =
            self.growth.iter().chain(&self.current).chain(&self.objective_ms).all(|one| *one > 0.0);
        if !positive || self.cores_then.contains(&0) {
            return Err(exit::usage_error(
                "--growth, --current, --objective-ms and --cores-then must be above 0",
            ));
        }
        let most = seen.iter().filter(|one| !one.closed).map(|one| one.per_s).fold(0.0, f64::max);
        Ok(LoadQuestion {
            subject,
            workload,
            cores,
            today_per_s: self.current.unwrap_or(most),
            growths: self.growth.clone(),
            cores_then: self.cores_then.clone(),
            objective_ms: self.objective_ms,
        })
    }
}

impl LoadArgs {
    /// Whose load, of what, and what was seen.
    fn seen(&self, environment: &Environment) -> anyhow::Result<(String, String, Vec<LoadPoint>)> {
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        };
        if let Some(path) = &self.trials {
            let wrong = |why: String| anyhow!("{}: {why}", path.display());
            let (heading, seen) = load_point::of_trials(&read(path)?).map_err(wrong)?;
            return Ok((heading.target, heading.workload, seen));
        }
        if let Some(path) = &self.history {
            let wrong = |why: String| anyhow!("{}: {why}", path.display());
            let seen = load_point::of_agent(&read(path)?, self.server.as_deref()).map_err(wrong)?;
            return Ok((
                self.server.clone().unwrap_or_else(|| "the server".to_owned()),
                "statements".to_owned(),
                seen,
            ));
        }
        let path = self.store.clone().or_else(|| usual_store(environment));
        let path = path.context("no home directory is known; name the history with --store")?;
        let runs = Store::open(&path)?.last(self.runs.unwrap_or(1))?;
        let newest = runs.first().context("the history has no run; headroom load run makes one")?;
        let (target, workload) = (newest.target.clone(), newest.outcome.workload.clone());
        let same = runs.iter().filter(|run| run.target == target && run.outcome.workload == workload);
        let seen = same.filter_map(|run| LoadPoint::of_run(&run.outcome, None)).collect();
        Ok((target, workload, seen))
    }
}
