//! `headroom report`: runs of the history as one self-contained HTML page: courses over time, percentile
//! curves, and two runs side by side. No script, nothing loaded from elsewhere: it can be mailed and kept.

use crate::environment::Environment;
use anyhow::{Context, bail};
use clap::Args;
use load::report::{PageView, RunView};
use load::store::Store;
use std::path::PathBuf;
use std::process::ExitCode;
use term::{exit, terminal};

const EXAMPLES: &str = "\
Examples:
  headroom report                        the last run, to headroom-report.html
  headroom report 12 17 --out cmp.html   runs 12 and 17 side by side
  headroom report --list                 what is in the history";

/// Runs that --list shows at most.
const LISTED: u32 = 50;

/// Turn runs of the history into one HTML page.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Numbers of one or two runs [default: the last].
    #[arg(value_name = "RUN", num_args = 0..=2)]
    run: Vec<i64>,
    /// The history [default: headroom/history.sqlite in the user's data directory].
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// The page.
    #[arg(long, value_name = "FILE", default_value = "headroom-report.html")]
    out: PathBuf,
    /// List the last runs instead.
    #[arg(long)]
    list: bool,
    /// Print JSON: what --list lists, or which page was written.
    #[arg(long)]
    json: bool,
}

/// The history's usual place.
pub(crate) fn usual_store(environment: &Environment) -> Option<PathBuf> {
    let data = environment.data.clone();
    let home = || environment.home.as_ref().map(|home| home.join(".local/share"));
    data.or_else(home).map(|directory| directory.join("headroom/history.sqlite"))
}

/// Does it.
pub(crate) fn run(args: &ReportArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let path = args.store.clone().or_else(|| usual_store(environment));
    let path = path.context("no home directory is known; name the history with --store")?;
    if !path.exists() {
        bail!("there is no history at {}; headroom load run makes one", path.display());
    }
    let store = Store::open(&path)?;
    if args.list {
        let runs = store.last(LISTED)?;
        if args.json {
            terminal::print_json(&runs.iter().map(RunView::from).collect::<Vec<_>>())?;
        } else {
            terminal::print(&load::report::list(&runs))?;
        }
        return Ok(exit::DONE);
    }
    let runs = if args.run.is_empty() {
        store.last(1)?
    } else {
        let find = |id: &i64| {
            store.run(*id)?.with_context(|| format!("{} has no run {id}; --list shows them", path.display()))
        };
        args.run.iter().map(find).collect::<anyhow::Result<Vec<_>>>()?
    };
    if runs.is_empty() {
        bail!("the history {} has no run yet", path.display());
    }
    std::fs::write(&args.out, load::report::html(&runs))
        .with_context(|| format!("writing {}", args.out.display()))?;
    if args.json {
        let runs = runs.iter().map(|run| run.id).collect();
        terminal::print_json(&PageView { page: args.out.clone(), runs })?;
    } else {
        terminal::print(&format!("{}\n", args.out.display()))?;
    }
    Ok(exit::DONE)
}
