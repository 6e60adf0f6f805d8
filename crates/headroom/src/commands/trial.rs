//! `headroom trial`: which settings matter. Flags become an experiment here; it is run by the crate `trial`.

mod init;

use crate::commands::knob::{blocking, restore_line};
use crate::commands::load::{account_with_tls, credentials_with_tls, named, tls::TlsArgs};
use crate::commands::refused;
use crate::environment::Environment;
use crate::version;
use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use fleet::Address;
use knob::apply::Manner;
use knob::journal::Author;
use knob::managed::Managed;
use knob::{Host, Session};
use load::Target;
use load::workload::Named;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use term::{CommandLine, StopSignals, exit, terminal};
use trial::carry_out::{CarryOutError, CarryOutOutcome, CarryOutRequest, carry_out};
use trial::compare::Comparisons;
use trial::past::Past;
use trial::report::{self, Report};
use trial::rig::HostRig;
use trial::run::{Experiment, RunError};
use trial::spec::Spec;

const EXAMPLES: &str = "\
Examples:
  headroom trial init --server 127.0.0.1:3306 --budget 15m > t.toml
      A spec with what this server offers. Read it, and leave out what you do not want to try.
  headroom trial plan t.toml
      Cells, order, time, and the smallest effect it can find. Nothing is touched.
  headroom trial run t.toml --dry-run
      Every write that it would make.
  headroom trial run t.toml
      Runs it. Ctrl-C puts everything back; --resume goes on.
  headroom trial report trial-t --html t.html
      The result as a page.";

/// Compare settings by an experiment.
#[derive(Subcommand, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) enum TrialCommand {
    /// Write a spec from what a server and this host offer.
    Init(init::InitArgs),
    /// What a spec would run, how long it takes, and what it can find.
    Plan(PlanArgs),
    /// Run it, or go on with it.
    Run(Box<RunArgs>),
    /// What came of it.
    Report(ReportArgs),
    /// Two experiments beside each other, or one setup over time.
    Compare(CompareArgs),
}

/// What a spec would run, how long it takes, and what it can find.
///
/// No server is needed and nothing is touched.
#[derive(Args, Debug, Clone)]
#[command(after_help = "Examples:\n  headroom trial plan t.toml\n  headroom trial plan t.toml --noise 0.08 \
                  --json\n\nExit code 1 when it does not fit into the spec's budget.")]
pub(crate) struct PlanArgs {
    /// The spec.
    spec: PathBuf,
    /// Noise of one trial as a share; after a run its report says what it was.
    #[arg(long, value_name = "SHARE", default_value_t = 0.04)]
    noise: f64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Run a spec, or go on with it.
///
/// Warning: it changes settings of the server (and of this host, where the spec says so) again and again
/// while it runs, and loads the server with all it has. Use a server that serves nobody else.
///
/// Each original is in the journal, on disk, before its setting is written, and is put back after each trial;
/// after a crash or kill the next `headroom trial run --resume` or `headroom knob restore` puts it back.
#[derive(Args, Debug, Clone)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// The spec.
    spec: PathBuf,
    /// Where figures are kept [default: trial-NAME, by the spec's file name].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Go on with what is there.
    #[arg(long, conflicts_with = "dry_run")]
    resume: bool,
    /// Show every write, and make none.
    #[arg(long)]
    dry_run: bool,
    /// The server [default: the spec's].
    #[arg(long, short, value_name = "HOST:PORT")]
    server: Option<Address>,
    /// Account that may set global variables and use the database [default: from the option file, else
    /// $HEADROOM_USER].
    #[arg(long, short, value_name = "NAME")]
    user: Option<String>,
    /// Option file with user, password and TLS, in the format of ~/.my.cnf (which is the default).
    #[arg(long, value_name = "FILE")]
    option_file: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArgs,
    /// A program that changes the same settings by itself, and may go on running. Repeatable.
    #[arg(long, value_name = "PROGRAM")]
    beside: Vec<String>,
    /// For server variables that need a restart: a program, called as PROGRAM NAME VALUE, that sets it and
    /// restarts the server.
    #[arg(long, value_name = "PROGRAM")]
    restart_with: Option<PathBuf>,
    /// How the server is restarted, for what needs that (allocator, file system, limits, variables) [default:
    /// the spec's]. `headroom lab managed` prints one for a lab.
    #[arg(long, value_name = "FILE", conflicts_with = "restart_with")]
    managed: Option<PathBuf>,
    /// The directory of the journal of settings [default: /var/lib/headroom/knobs for root, else
    /// ~/.local/share/headroom/knobs].
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// Print the report as JSON in the end, or {"refused": WHY} where a program is not named or a
    /// setting is not back.
    #[arg(long)]
    json: bool,
}

const RUN_EXAMPLES: &str = "\
Examples:
  headroom trial run t.toml --dry-run
  headroom trial run t.toml --option-file ~/.my.cnf
  headroom trial run t.toml --resume

Exit code 1 when the experiment is void (its A/A cell differs), a setting is not as it was before, or a
program that changes the same settings runs here and is not named (--beside).";

/// What came of an experiment.
#[derive(Args, Debug, Clone)]
#[command(after_help = "Examples:\n  headroom trial report trial-t\n  headroom trial report trial-t --html \
                  t.html\n  headroom trial report trial-t --csv > t.csv\n\nExit code 1 when it is not over, is \
                  void, or a setting is not as it was.")]
pub(crate) struct ReportArgs {
    /// The directory of `headroom trial run`.
    dir: PathBuf,
    /// Write one page that needs nothing else.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print a line for each trial.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

/// Two experiments beside each other: two hosts, versions or dates.
///
/// The baseline of each beside that of the first, and what each setting gains. With more than two directories
/// also the baseline over time.
#[derive(Args, Debug, Clone)]
#[command(after_help = "Examples:\n  headroom trial compare trial-old trial-new\n  headroom trial compare \
                  trial-2026-*\n\nExit code 1 when they cannot be compared.")]
pub(crate) struct CompareArgs {
    /// Directories of `headroom trial run`.
    #[arg(required = true, num_args = 2.., value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Does what was asked.
pub(crate) async fn run(command: TrialCommand, environment: &Environment) -> anyhow::Result<ExitCode> {
    match command {
        TrialCommand::Init(args) => init::init(args, environment).await,
        TrialCommand::Plan(args) => plan(&args),
        TrialCommand::Run(args) => experiment(*args, environment).await,
        TrialCommand::Report(args) => report(&args),
        TrialCommand::Compare(args) => compare(&args),
    }
}

/// The spec and its text.
fn spec(path: &Path) -> anyhow::Result<(Spec, String)> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        anyhow!(
            "cannot read {}: {error}; name a spec that is there, and that this user may read (headroom trial init \
             --server HOST:PORT > FILE writes one)",
            path.display()
        )
    })?;
    let spec = Spec::parse(&text, &path.display().to_string())?;
    Ok((spec, text))
}

fn plan(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let (spec, _) = spec(&args.spec)?;
    if !(args.noise > 0.0 && args.noise < 1.0) {
        return Err(exit::usage_error("--noise is a share above 0 and below 1, such as 0.04"));
    }
    let experiment = Experiment::new(spec, &[])?;
    experiment.check_stages()?;
    let plan = trial::text::Plan::of(&experiment, args.noise);
    if args.json {
        terminal::print_json(&plan)?;
    } else {
        terminal::print(&plan.text())?;
    }
    Ok(if plan.fits { exit::DONE } else { exit::no() })
}

fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let all: Vec<_> = args
        .dirs
        .iter()
        .map(|dir| anyhow::Ok((dir.display().to_string(), Past::read(dir)?)))
        .collect::<Result<_, _>>()?;
    let compared = Comparisons::of(&all);
    if args.json {
        terminal::print_json(&compared)?;
    } else {
        terminal::print(&trial::text::comparisons(&compared))?;
    }
    Ok(if compared.is_possible() { exit::DONE } else { exit::no() })
}

fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let Past { experiment, history, report } = Past::read(&args.dir)?;
    if let Some(path) = &args.html {
        let page = trial::page::html(&report);
        std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
        terminal::complain(&format!("written: {}", path.display()));
    }
    if args.csv {
        terminal::print(&report::csv(&experiment, &history))?;
    } else if args.json {
        terminal::print_json(&report)?;
    } else {
        terminal::print(&trial::text::report(&report))?;
    }
    Ok(verdict(&report))
}

fn verdict(report: &Report) -> ExitCode {
    if report.is_sound() { exit::DONE } else { exit::no() }
}

async fn experiment(args: RunArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let (spec, text) = spec(&args.spec)?;
    let address = spec.address(args.server.as_ref()).map_err(|error| exit::usage_error(error.to_string()))?;
    let stop = Arc::new(AtomicBool::new(false));
    on_stop(stop.clone())?;
    let (user, option_file) = (args.user.as_deref(), args.option_file.as_deref());
    let (account, tls) = account_with_tls(user, option_file, &spec.load.database, &args.tls, environment)?;
    let mut target = Target::single(address.clone(), account);
    target.tls = tls;
    let connect = knob::session::as_account(credentials_with_tls(user, option_file, &args.tls, environment)?);
    let options = spec.load.options();
    let named = named(&spec.load.workload, &options)?;
    let tables = matches!(named, Named::Sysbench(_)).then_some(options);
    let workload = Arc::new(named.workload());
    // The spec's is beside the spec, and gives way to a program that is named.
    let beside_spec = |name: &String| args.spec.parent().unwrap_or(Path::new("")).join(name);
    let managed = args.managed.clone().or_else(|| spec.managed.as_ref().map(beside_spec));
    let managed = managed.filter(|_| args.restart_with.is_none());
    if !spec.hosts.is_empty() && (managed.is_some() || args.restart_with.is_some()) {
        return Err(exit::usage_error(
            "servers of several hosts are not restarted: leave --managed and --restart-with out",
        ));
    }
    let host = Host::new("/");
    let author = Author::here(format!("headroom trial run {}", args.spec.display()));
    let restart = Managed::restart_by(&host, managed.as_deref(), args.restart_with.as_deref())?;
    let manner = Manner { restart, ..Manner::of(author) };
    let journals = args.journal.clone().map_or_else(|| environment.journals("knobs"), Ok)?;
    let (dir, server, beside) = (args.dir(), Some(address.to_string()), args.beside.clone());
    let (reset, hosts) = (spec.reset.clone(), spec.hosts.clone());
    let version = version::version().to_owned();
    let restore =
        restore_line(args.journal.as_deref(), None, args.user.as_deref(), args.option_file.as_deref());
    let (resume, dry_run) = (args.resume, args.dry_run);
    let request = CarryOutRequest { spec, text, dir: dir.clone(), resume, dry_run, restore, version };
    let done = blocking(move || {
        let session = Session::open(host.clone(), &journals, connect)?;
        let mut rig = HostRig::new(session, host, server, manner, beside, workload, target, stop.clone());
        (rig.reset, rig.tables, rig.hosts) = (reset, tables, hosts);
        Ok(carry_out(request, &mut rig, &stop, terminal::complain))
    });
    match done.await? {
        Ok(CarryOutOutcome::Preview(all)) => {
            if args.json {
                terminal::print_json(&all)?;
            } else {
                terminal::print(&trial::preview::text(&all))?;
            }
            Ok(exit::DONE)
        }
        Ok(CarryOutOutcome::Report(report)) => {
            let page = format!("as a page: headroom trial report {} --html report.html", dir.display());
            terminal::complain(&page);
            if args.json {
                terminal::print_json(&report)?;
            } else {
                terminal::print(&trial::text::report(&report))?;
            }
            Ok(verdict(&report))
        }
        Err(
            error @ (CarryOutError::Interrupted
            | CarryOutError::Run(RunError::Unanswered { .. } | RunError::Hindered(_))),
        ) => {
            bail!("{error}. To go on: {}", resume_command(&args, &dir));
        }
        // A spec that does not fit is a wrong command line.
        Err(error) if error.is_usage() => Err(exit::usage_error(error.to_string())),
        // "No" is the answer, as the help has it.
        Err(error) if error.is_refused() => {
            terminal::complain(&format!("headroom: {error}"));
            refused(&error.to_string(), args.json)
        }
        Err(other) => Err(other.into()),
    }
}

/// Ctrl-C, TERM and HUP: from here on they end the trial that runs, and everything is put back.
fn on_stop(stop: Arc<AtomicBool>) -> std::io::Result<()> {
    let mut signals = StopSignals::listen()?;
    tokio::spawn(async move {
        loop {
            signals.received().await;
            terminal::complain("to end: putting everything back");
            stop.store(true, Ordering::Relaxed);
        }
    });
    Ok(())
}

impl RunArgs {
    /// Where figures are kept.
    fn dir(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| {
            let stem = self.spec.file_stem();
            let stem = stem.map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
            PathBuf::from(format!("trial-{stem}"))
        })
    }
}

/// How this experiment goes on: with every flag that it was begun with.
fn resume_command(args: &RunArgs, dir: &Path) -> String {
    let mut command = CommandLine::new("headroom trial run");
    command.word(&args.spec.display().to_string());
    command.path("--dir", Some(dir));
    command.word("--resume");
    command.flag("--server", args.server.as_ref().map(Address::to_string).as_deref());
    command.flag("--user", args.user.as_deref());
    command.path("--option-file", args.option_file.as_deref());
    for (flag, value) in args.tls.flags() {
        command.flag(flag, Some(&value));
    }
    for program in &args.beside {
        command.flag("--beside", Some(program));
    }
    command.path("--restart-with", args.restart_with.as_deref());
    command.path("--managed", args.managed.as_deref());
    command.path("--journal", args.journal.as_deref());
    command.line()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct TrialRun {
        #[command(flatten)]
        run: RunArgs,
    }

    #[test]
    fn an_experiment_goes_on_with_the_flags_that_it_was_begun_with() {
        let flags = "--server db1:3306 --user root --option-file /o.cnf --ssl-mode REQUIRED --ssl-ca /ca.pem \
                     --beside numad --managed a1.toml --journal /j";
        let words = ["headroom", "my spec.toml"].into_iter().chain(flags.split_whitespace());
        let line = TrialRun::try_parse_from(words).unwrap();
        let expected = format!("headroom trial run 'my spec.toml' --dir d --resume {flags}");
        assert_eq!(resume_command(&line.run, Path::new("d")), expected);
    }
}
