//! `headroom trial`: which settings matter. Flags become an experiment here; it is run by the crate `trial`.

mod init;

use crate::commands::knob::{blocking, connect_as};
use crate::commands::load::{account_with_tls, named, tls::TlsArgs};
use crate::environment::Environment;
use crate::version;
use anyhow::{Context, bail};
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
use std::time::Duration;
use term::{CommandLine, exit, terminal};
use tokio::signal::unix::{SignalKind, signal};
use trial::compare;
use trial::report::{self, Report};
use trial::rig::HostRig;
use trial::run::{self as runner, End, Event, Experiment, RunError};
use trial::spec::Spec;
use trial::store::{self, Begun, Store};

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
    /// Print the report as JSON in the end.
    #[arg(long)]
    json: bool,
}

const RUN_EXAMPLES: &str = "\
Examples:
  headroom trial run t.toml --dry-run
  headroom trial run t.toml --option-file ~/.my.cnf
  headroom trial run t.toml --resume

Exit code 1 when the experiment is void (its A/A cell differs) or a setting is not as it was before.";

/// What came of an experiment.
#[derive(Args, Debug, Clone)]
#[command(after_help = "Examples:\n  headroom trial report trial-t\n  headroom trial report trial-t --html \
                  t.html\n  headroom trial report trial-t --csv > t.csv\n\nExit code 1 when it is not over, or \
                  void.")]
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
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
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

fn read(dir: &Path) -> anyhow::Result<(Experiment, store::History, Report)> {
    let history = store::read(dir)?;
    let spec = Spec::parse(&history.spec, "spec.toml")?;
    let experiment = Experiment::new(spec, &history.begun.refused)?;
    let report = report::report(&experiment, &history);
    Ok((experiment, history, report))
}

fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let all: Vec<_> = args.dirs.iter().map(|dir| read(dir)).collect::<Result<_, _>>()?;
    let sides: Vec<compare::Side<'_>> = args
        .dirs
        .iter()
        .zip(&all)
        .map(|(dir, (experiment, history, report))| {
            let name = dir.display().to_string();
            compare::Side { name, experiment, history, report }
        })
        .collect();
    let comparisons: Vec<_> = sides[1..].iter().map(|other| compare::compare(&sides[0], other)).collect();
    let drift = if sides.len() > 2 { compare::drift(&sides) } else { Vec::new() };
    if args.json {
        terminal::print_json(&serde_json::json!({ "comparisons": comparisons, "drift": drift }))?;
    } else {
        let texts: Vec<String> = comparisons.iter().map(trial::text::comparison).collect();
        terminal::print(&(texts.join("\n") + &trial::text::drift(&drift)))?;
    }
    Ok(if comparisons.iter().all(compare::Comparison::is_possible) { exit::DONE } else { exit::no() })
}

fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let (experiment, history, report) = read(&args.dir)?;
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
    let as_before = report.differ.as_ref().is_none_or(Vec::is_empty);
    let sound = report.ended && as_before && report.loads.iter().all(|load| !load.void);
    if sound { exit::DONE } else { exit::no() }
}

async fn experiment(args: RunArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let (spec, text) = spec(&args.spec)?;
    let address = spec.address(args.server.as_ref()).map_err(exit::usage_error)?;
    let stop = Arc::new(AtomicBool::new(false));
    on_stop(&stop)?;
    let (account, tls) = account_with_tls(
        args.user.as_deref(),
        args.option_file.as_deref(),
        &spec.load.database,
        &args.tls,
        environment,
    )?;
    let mut target = Target::single(address.clone(), account);
    target.tls = tls;
    let connect = connect_as(args.user.as_deref(), args.option_file.as_deref(), environment)?;
    let options = spec.load.options();
    let named = named(&spec.load.workload, &options)?;
    let tables = matches!(named, Named::Sysbench(_)).then_some(options);
    let workload = Arc::new(named.workload());
    // The spec's is beside the spec.
    let beside_spec = |name: &String| args.spec.parent().unwrap_or(Path::new("")).join(name);
    let managed = args.managed.clone().or_else(|| spec.managed.as_ref().map(beside_spec));
    if !spec.hosts.is_empty() && (managed.is_some() || args.restart_with.is_some()) {
        return Err(exit::usage_error(
            "servers of several hosts are not restarted: leave --managed and --restart-with out",
        ));
    }
    let program = match (&managed, &args.restart_with) {
        (Some(path), None) => Some(Managed::read(path)?.program()),
        (_, program) => program.as_ref().map(|path| Host::new("/").whole_path(path)).transpose()?,
    };
    let author = Author {
        user: rustix::process::getuid().as_raw().to_string(),
        pid: std::process::id(),
        command: format!("headroom trial run {}", args.spec.display()),
    };
    let manner = Manner { author, keep: false, restart: program, patience: Duration::from_secs(2) };
    let json = args.json;
    let journals = args.journal.clone().map_or_else(|| environment.journals("knobs"), Ok)?;
    let done = blocking(move || {
        let host = Host::new("/");
        let session = Session::open(host.clone(), &journals, connect)?;
        let (server, beside) = (Some(address.to_string()), args.beside.clone());
        let mut rig = HostRig::new(session, host, server, manner, beside, workload, target, stop.clone());
        (rig.reset, rig.tables, rig.hosts) = (spec.reset.clone(), tables, spec.hosts.clone());
        go(&args, spec, &text, rig, &stop)
    });
    let done = match done.await {
        // "No" is the answer, as the help has it: it ran, and a setting is not as it was.
        Err(error) if matches!(error.downcast_ref(), Some(RunError::NotBack(_))) => {
            terminal::complain(&format!("headroom: {error:#}"));
            return Ok(exit::no());
        }
        done => done?,
    };
    let Some(report) = done else { return Ok(exit::DONE) };
    if json {
        terminal::print_json(&report)?;
    } else {
        terminal::print(&trial::text::report(&report))?;
    }
    Ok(verdict(&report))
}

/// Ctrl-C, TERM and HUP: from here on they end the trial that runs, and everything is put back.
fn on_stop(stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let (mut signal, stop) = (signal(kind)?, stop.clone());
        tokio::spawn(async move {
            while signal.recv().await.is_some() {
                terminal::complain("to end: putting everything back");
                stop.store(true, Ordering::Relaxed);
            }
        });
    }
    Ok(())
}

/// `None` after a dry run.
fn go(
    args: &RunArgs,
    spec: Spec,
    text: &str,
    mut rig: HostRig,
    stop: &AtomicBool,
) -> anyhow::Result<Option<Report>> {
    let dir = args.dir.clone().unwrap_or_else(|| {
        let stem = args.spec.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        PathBuf::from(format!("trial-{stem}"))
    });
    // First what a dead process left: it may have stopped the server.
    if !args.dry_run {
        let recovered = rig.session.recover();
        for one in &recovered {
            let how =
                if one.is_back() { "is put back" } else { "is NOT put back: see headroom knob journal" };
            terminal::complain(&format!("left by a dead process: {} {how}", one.knobs.join(", ")));
        }
        if !recovered.iter().all(knob::session::RestoreOutcome::is_back) {
            bail!("a setting that a dead process left is not as it was; nothing was tried");
        }
    }
    // A server that does not answer is no fault of the spec.
    for address in rig.addresses() {
        rig.session.server(&address)?;
    }
    let (mut store, begun, trials) = if args.resume {
        let (store, history) = Store::resume(&dir, text, &rig.words())?;
        (Some(store), history.begun, history.trials)
    } else {
        let (start, refused) = runner::look(&spec, &mut rig).map_err(usage)?;
        let begun = Begun {
            format: 0,
            at: store::now(),
            version: version::version().to_owned(),
            server: rig.words(),
            elsewhere: rig.is_elsewhere(),
            start,
            refused,
        };
        (None, begun, Vec::new())
    };
    if begun.elsewhere {
        terminal::complain("memory of the server is not watched: it is on another machine");
    }
    for level in &begun.refused {
        terminal::complain(&format!("refused, not tried: {}={}: {}", level.knob, level.level, level.why));
    }
    let experiment = Experiment::new(spec, &begun.refused)?;
    if !args.resume {
        experiment.check_stages()?;
    }
    if args.dry_run {
        dry_run(&experiment, &mut rig, args.json)?;
        return Ok(None);
    }
    if experiment.possible.is_empty() {
        bail!("every cell has a level that cannot be set here; there is nothing to compare");
    }
    let store = match &mut store {
        Some(store) => store,
        None => store.insert(Store::create(&dir, text, &begun)?),
    };
    let mut tell = |event: &Event<'_>| tell(&experiment, event);
    let end = runner::run(&experiment, &begun, trials, store, &mut rig, stop, &mut tell).map_err(usage)?;
    if end == End::Interrupted {
        bail!("interrupted; everything is as it was. To go on: {}", resume_command(args, &dir));
    }
    terminal::complain(&format!("as a page: headroom trial report {} --html report.html", dir.display()));
    Ok(Some(report::report(&experiment, &store::read(&dir)?)))
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

/// A spec that does not fit is a wrong command line.
fn usage(error: RunError) -> anyhow::Error {
    match error {
        RunError::Spec(error) => exit::usage_error(error.to_string()),
        other => other.into(),
    }
}

fn dry_run(experiment: &Experiment, rig: &mut HostRig, json: bool) -> anyhow::Result<()> {
    let all = trial::preview::of(experiment, rig);
    if json { terminal::print_json(&all) } else { terminal::print(&trial::preview::text(&all)) }
}

fn tell(experiment: &Experiment, event: &Event<'_>) {
    match event {
        Event::Begins { next, left, time_left } => {
            let place = &next.place;
            terminal::complain(&format!(
                "{left} left, {}: stage {} block {}: {}",
                trial::text::length(*time_left),
                place.stage + 1,
                place.block + 1,
                experiment.words(next.run)
            ));
        }
        Event::Over(trial) => {
            terminal::complain(&format!(
                "  {}",
                trial::text::outcome(experiment.spec.metric, &trial.outcome)
            ));
        }
        Event::Returning => terminal::complain("the baseline once more: is everything as it was?"),
    }
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
