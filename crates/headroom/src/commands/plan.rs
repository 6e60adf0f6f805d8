//! `headroom plan`: what more load, cores, memory, hosts, replicas or a zone would mean. Flags become
//! questions here; they are answered by the crate `whatif`, with the models of `plan`.

mod disks;
mod estimate;
mod files;
mod ladder;
mod load;
mod memory;

use crate::commands::refused;
use crate::commands::report::usual_store;
use crate::environment::Environment;
use anyhow::Context;
use clap::Subcommand;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use term::{exit, terminal};
use whatif::ledger::{self, Answer, Entry};

const EXAMPLES: &str = "\
Examples:
  headroom plan ladder oltp_read_only --server replica1 --database sbtest --table-size 100000 --objective-ms 20
      Sends a few rates, up to half of what the cores can do, and predicts the rest: 30 s.
  headroom plan load --runs 20 --cores 8 --cores-then 16
      The same from runs of headroom load that are in the history already.

Each answer is kept with its predictions, for headroom plan report and headroom plan check. --no-keep keeps none.";

/// What would more load, cores, memory, hosts, replicas or a zone mean?
#[derive(Subcommand, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) enum PlanCommand {
    /// More load or more cores, from a ladder of rates that is sent to a server.
    Ladder(Box<ladder::LadderArgs>),
    /// More load or more cores, from runs, trials or an agent's history that are there already.
    Load(load::LoadArgs),
    /// Another size of the buffer pool, from sizes that are tried.
    Memory(Box<memory::MemoryArgs>),
    /// A larger buffer pool, estimated from the reads of the disk: nothing is resized.
    Estimate(estimate::EstimateArgs),
    /// Another host's disk, from what headroom probe measured there.
    Disks(Box<disks::DisksArgs>),
    /// Which role on which host, from an inventory.
    Placement(files::PlacementArgs),
    /// How many readers in each zone.
    Replicas(files::ReplicasArgs),
    /// One page: what each purchase would buy, ranked.
    Report(files::ReportArgs),
    /// Past predictions beside what came.
    Check(files::CheckArgs),
}

/// Does what was asked.
pub(crate) async fn run(command: PlanCommand, environment: &Environment) -> anyhow::Result<ExitCode> {
    match command {
        PlanCommand::Ladder(args) => ladder::run(*args, environment).await,
        PlanCommand::Load(args) => load::run(&args, environment),
        PlanCommand::Memory(args) => memory::run(*args, environment).await,
        PlanCommand::Estimate(args) => estimate::run(args, environment).await,
        PlanCommand::Disks(args) => disks::run(*args, environment).await,
        PlanCommand::Placement(args) => files::placement(&args, environment).await,
        PlanCommand::Replicas(args) => files::replicas(&args, environment),
        PlanCommand::Report(args) => files::report(&args, environment).await,
        PlanCommand::Check(args) => files::check(&args, environment),
    }
}

/// What becomes of an answer.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct KeepArgs {
    /// The file that answers are kept in [default: headroom/plan.jsonl in the user's data directory].
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Do not keep the answer.
    #[arg(long)]
    no_keep: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl KeepArgs {
    fn path(&self, environment: &Environment) -> anyhow::Result<PathBuf> {
        ledger_path(self.ledger.as_ref(), environment)
    }

    /// Shows an answer, keeps it, and turns it into an exit code.
    fn finish(&self, answer: &impl Answer, environment: &Environment) -> anyhow::Result<ExitCode> {
        show(answer, Answer::text, self.json)?;
        if !self.no_keep {
            let path = self.path(environment)?;
            ledger::keep(&path, &Entry::of(answer)?)?;
            terminal::complain(&format!("kept in {}: headroom plan report shows it", path.display()));
        }
        Ok(verdict(answer.is_good()))
    }
}

/// Past answers; of lines that cannot be read it is said how many there are.
fn past(path: &Path) -> anyhow::Result<Vec<Entry>> {
    let past = ledger::read(path)?;
    past.note(path).iter().for_each(|note| terminal::complain(note));
    Ok(past.entries)
}

/// As JSON or as text.
fn show<T: serde::Serialize>(what: &T, text: impl FnOnce(&T) -> String, json: bool) -> anyhow::Result<()> {
    if json { terminal::print_json(what) } else { terminal::print(&text(what)) }
}

/// No answer is an answer, with its reason and exit code 1; as JSON it is `{"refused": WHY}`.
fn none(what: &str, why: impl std::fmt::Display, json: bool) -> anyhow::Result<ExitCode> {
    terminal::complain(&format!("headroom: no {what}: {why}"));
    refused(&why.to_string(), json)
}

/// The file that is named, else the usual one beside the history.
fn ledger_path(named: Option<&PathBuf>, environment: &Environment) -> anyhow::Result<PathBuf> {
    let usual = || usual_store(environment).map(|history| history.with_file_name("plan.jsonl"));
    named
        .cloned()
        .or_else(usual)
        .context("no home directory is known; name a file with --ledger, or use --no-keep")
}

/// 0 when there is an answer, 1 when it was refused.
fn verdict(answered: bool) -> ExitCode {
    if answered { exit::DONE } else { exit::no() }
}
