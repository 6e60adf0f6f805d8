//! `headroom plan load`: more load or more cores, from what was measured before.

use super::KeepArgs;
use crate::commands::report::usual_store;
use crate::environment::Environment;
use anyhow::Context;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use whatif::load_answer::{LoadAnswer, LoadQuestion, answer};
use whatif::load_point::{Observations, Source};
use whatif::words::parse_above_zero;

const EXAMPLES: &str = "\
Examples:
  headroom plan load --runs 20 --cores 8
      From the last 20 runs of headroom load; of those, the ones of the newest's load.
  headroom plan load --trials trials.jsonl --cores 8 --current 400 --growth 1.5,2
  curl -s 'http://127.0.0.1:9307/history.json?from=-3600' > h.json; headroom plan load --history h.json --cores 8

Exit code 1: nothing is predicted (the text says why).";

/// What is asked about more load.
#[derive(Args, Debug, Clone)]
pub(crate) struct GrowthArgs {
    /// How many times today's load, or where that is not known the highest rate sent.
    #[arg(long, value_name = "TIMES", value_delimiter = ',', default_values_t = [1.0, 1.5, 2.0, 3.0], value_parser = parse_above_zero)]
    growth: Vec<f64>,
    /// Other numbers of cores.
    #[arg(long, value_name = "CORES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    cores_then: Vec<u32>,
    /// Today's rate in transactions a second; beside an agent's history, in statements
    /// [default: counted by plan ladder where the server is busy; the highest of a history; else not known].
    #[arg(long, value_name = "PER_SECOND", value_parser = parse_above_zero)]
    pub(super) current: Option<f64>,
    /// p99 must be shorter than this, ms: the largest rate that meets it is named.
    #[arg(long, value_name = "MS", value_parser = parse_above_zero)]
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
}

/// Does it.
pub(crate) fn run(args: &LoadArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let seen = args.source(environment)?.read()?;
    args.keep.finish(&args.growth.answer(args.cores, seen), environment)
}

impl GrowthArgs {
    /// The answer to what the flags ask of what was seen.
    pub(super) fn answer(&self, cores: u32, of: Observations) -> LoadAnswer {
        let question = LoadQuestion {
            baseline: of.baseline(self.current),
            subject: of.subject,
            workload: of.workload,
            cores,
            growths: self.growth.clone(),
            cores_then: self.cores_then.clone(),
            objective_ms: self.objective_ms,
            notes: of.notes,
        };
        answer(&question, of.seen)
    }
}

impl LoadArgs {
    fn source(&self, environment: &Environment) -> anyhow::Result<Source> {
        if let Some(path) = &self.trials {
            return Ok(Source::Trials(path.clone()));
        }
        if let Some(file) = &self.history {
            return Ok(Source::Agent { file: file.clone(), server: self.server.clone() });
        }
        let path = self.store.clone().or_else(|| usual_store(environment));
        let history = path.context("no home directory is known; name the history with --store")?;
        Ok(Source::Runs { history, last: self.runs.unwrap_or(1) })
    }
}
