//! The trial: a real one over at least 64 cells on a server of its own, an A/A one over cells that differ in
//! nothing, and simulated ones with the noise that the two have shown.
//!
//! Everything is written as it goes: each run is a line in the run's directory as soon as it ends, `--resume`
//! goes on with it, and whatever cuts it short, what is there becomes a report.

mod bed;
mod simulate;
mod spec;

use super::{binary, output};
use crate::promise::Promise;
use ::trial::report::Report;
use ::trial::run::Experiment;
use ::trial::simulation::Noise;
use ::trial::spec::Spec;
use ::trial::verdict::Verdict;
use anyhow::{Context, bail};
use bed::Bed;
use clap::Args;
use serde::Serialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use term::terminal;
use tokio::signal::unix::{SignalKind, signal};

/// The two experiments, each in a folder of that name.
const EXPERIMENTS: [&str; 2] = ["real", "same"];
/// What `headroom trial run` keeps of each.
const LINES: &str = "trials.jsonl";
const NOISE: &str = "noise.json";

/// Flags of `headroom-bench trial`.
#[derive(Args, Clone, Debug)]
pub(crate) struct TrialBenchArgs {
    /// How long all of it may take; each run is as short as that asks for.
    #[arg(long, default_value = "100m", value_parser = fleet::parse_duration)]
    budget: Duration,
    /// Only the simulations, with the noise kept in this run's directory (or a file). A run of its own.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["resume", "small"])]
    simulate: Option<PathBuf>,
    /// Only the trial over cells that differ in nothing, and simulations with the noise that it shows.
    #[arg(long)]
    identical: bool,
    /// Go on with the run of this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    resume: Option<PathBuf>,
    /// Few cells on a small data set, to see that everything works: two minutes are enough.
    #[arg(long)]
    small: bool,
    /// Simulated experiments of each kind.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    experiments: u32,
    /// Where the run's files go [default: benchmarks/runs/trial/YYYY-MM-DD-trial].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Where the server's data live while it runs: some gigabytes on the disk that is to be measured.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// The server's port on 127.0.0.1.
    #[arg(long, default_value_t = 23_700, value_parser = clap::value_parser!(u16).range(1024..=32_000))]
    port: u16,
    /// Leave server and data, to look at them.
    #[arg(long)]
    keep: bool,
    /// Print everything as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// All that came of it.
#[derive(Debug, Serialize)]
struct Outcome {
    machine: String,
    budget_s: u64,
    seconds: f64,
    /// Whether a signal or an error ended it early.
    cut: Option<String>,
    cells: usize,
    factors: usize,
    real: Option<Vec<LoadFigures>>,
    same: Option<SameFigures>,
    noise: Option<Noise>,
    simulated: Option<simulate::Simulated>,
    promises: Vec<Promise>,
}

#[derive(Debug, Serialize)]
struct LoadFigures {
    load: String,
    trials: usize,
    void_trials: usize,
    unsteady: usize,
    baseline: Option<f64>,
    winner: Option<String>,
    gain: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    /// The winner beside the worst cell that was measured.
    over_worst: Option<f64>,
    void: bool,
    back: Option<f64>,
}

/// Verdicts over cells that differ in nothing.
#[derive(Debug, Serialize)]
struct SameFigures {
    cells: usize,
    better: usize,
    worse: usize,
    void: usize,
    complete: bool,
}

pub(crate) async fn run(args: TrialBenchArgs) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.simulate {
        return only_simulated(&args, path);
    }
    let began = Instant::now();
    let headroom = binary::headroom()?;
    let directory = match &args.resume {
        Some(directory) if directory.is_dir() => {
            for name in EXPERIMENTS {
                output::unpack(&directory.join(name), LINES)?;
            }
            directory.clone()
        }
        Some(directory) => bail!("{} is no directory of a run", directory.display()),
        None => {
            let what = if args.identical { "trial-identical" } else { "trial" };
            output::Directory::new(args.out.as_deref(), what, args.small)?.create()?
        }
    };
    let scratch = args.scratch.clone().unwrap_or_else(|| output::scratch().join("trial"));
    terminal::complain(&format!("a server of its own below {}", scratch.display()));
    let bed = Bed::up(&scratch, args.port, args.small, &headroom).await?;
    let mut cut = None;
    // What is left for trials: a little for the start, the end and the simulations is kept back.
    let left = args.budget.saturating_sub(began.elapsed()).saturating_sub(Duration::from_secs(45));
    let same = if args.identical { left } else { left.mul_f64(0.15) };
    let specs =
        [("real", spec::real(&bed, left.saturating_sub(same), args.small)), ("same", spec::same(&bed, same))];
    for (name, text) in specs.into_iter().skip(usize::from(args.identical)) {
        if cut.is_some() {
            break;
        }
        let file = directory.join(format!("{name}.toml"));
        // A run that goes on keeps the spec that it was begun with.
        if !file.exists() {
            output::write(&directory, &format!("{name}.toml"), &text)?;
        }
        cut = experiment(&headroom, &bed, &directory, name).await.err().map(|error| format!("{error:#}"));
        if let Some(why) = &cut {
            terminal::complain(&format!("cut short: {why}; what was measured becomes the report"));
        }
    }
    let version = bed.version.clone();
    if args.keep {
        terminal::complain(&format!("left as it is: {}", scratch.display()));
    } else {
        bed.down()?;
    }
    let outcome = report(&args, &directory, began.elapsed(), cut, &version)?;
    finish(&args, &directory, &outcome)
}

/// Runs `headroom trial run`, or goes on with it. A signal is passed on, and ends it in order.
async fn experiment(headroom: &Path, bed: &Bed, directory: &Path, name: &str) -> anyhow::Result<()> {
    let (spec, dir) = (directory.join(format!("{name}.toml")), directory.join(name));
    let mut command = tokio::process::Command::new(headroom);
    command.args(["trial", "run"]).arg(&spec).arg("--dir").arg(&dir);
    command.arg("--option-file").arg(bed.option_file()).arg("--restart-with").arg(bed.program());
    command.arg("--journal").arg(bed.journal());
    for tuner in ["tuned", "bpftune", "irqbalance"] {
        command.args(["--beside", tuner]);
    }
    if dir.join(LINES).exists() {
        command.arg("--resume");
    }
    command.stdout(std::process::Stdio::null());
    let mut child = command.spawn().context("starting headroom trial run")?;
    let (mut interrupt, mut end) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut stopped = false;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            _ = interrupt.recv() => stopped = true,
            _ = end.recv() => stopped = true,
        }
        if let Some(pid) = child.id().and_then(|pid| rustix::process::Pid::from_raw(pid as i32)) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    };
    match status.code() {
        _ if stopped => bail!("a signal; go on with --resume {}", directory.display()),
        // "No" is an answer: the A/A cell differs, and the report says so.
        Some(0 | 1) => Ok(()),
        _ => bail!("headroom trial run {}: {status}", spec.display()),
    }
}

/// Reads an experiment that is over, or cut short.
fn read(directory: &Path, name: &str) -> Option<(Experiment, trial::store::History, Report)> {
    let history = trial::store::read(&directory.join(name)).ok()?;
    let spec = Spec::parse(&history.spec, name).ok()?;
    let experiment = Experiment::new(spec, &history.begun.refused).ok()?;
    let report = trial::report::report(&experiment, &history);
    Some((experiment, history, report))
}

fn report(
    args: &TrialBenchArgs,
    directory: &Path,
    took: Duration,
    cut: Option<String>,
    version: &str,
) -> anyhow::Result<Outcome> {
    let (real, same) = (read(directory, "real"), read(directory, "same"));
    for (name, one) in [("real", &real), ("same", &same)] {
        let Some((experiment, history, report)) = one else { continue };
        let json = serde_json::to_string_pretty(report)? + "\n";
        output::keep(directory, &format!("{name}.json"), json.as_bytes())?;
        let csv = trial::report::csv(experiment, history);
        output::keep(directory, &format!("{name}.csv"), csv.as_bytes())?;
        output::write(directory, &format!("{name}.html"), &trial::page::html(report))?;
    }
    // The A/A trial's has a series. Without one, what the baselines of the real trial show.
    let of = |one: &Option<(Experiment, trial::store::History, Report)>, identical| {
        let (experiment, history, _) = one.as_ref()?;
        Noise::of(experiment, &history.trials, identical)
    };
    let noise = of(&same, true).or_else(|| of(&real, false));
    let simulated = match &noise {
        Some(noise) => {
            output::keep(directory, NOISE, (serde_json::to_string(noise)? + "\n").as_bytes())?;
            Some(simulate::simulate(noise, args.experiments))
        }
        None => None,
    };
    let mut outcome = Outcome {
        machine: format!(
            "{} CPUs, Linux {}, {version}",
            std::thread::available_parallelism().map_or(0, usize::from),
            std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim()
        ),
        budget_s: args.budget.as_secs(),
        seconds: took.as_secs_f64(),
        cut,
        cells: real.as_ref().map_or(0, |(experiment, ..)| experiment.possible.len()),
        factors: real.as_ref().map_or(0, |(experiment, ..)| experiment.spec.factors.len()),
        real: real
            .as_ref()
            .map(|(.., report)| report.loads.iter().map(|load| figures(report, load)).collect()),
        same: same.as_ref().map(|(.., report)| same_figures(report)),
        noise,
        simulated,
        promises: Vec::new(),
    };
    outcome.promises = promises(&outcome, real.as_ref().map(|(.., report)| report));
    Ok(outcome)
}

fn figures(report: &Report, load: &trial::report::LoadReport) -> LoadFigures {
    let ratio = load.winner.as_ref().map(|winner| winner.ratio);
    let seen = load.cells.iter().filter_map(|cell| cell.ratio.map(|ratio| ratio.estimate).or(cell.seen));
    let worst = match report.metric.good() {
        trial::verdict::Good::More => seen.fold(1.0, f64::min),
        trial::verdict::Good::Less => seen.fold(1.0, f64::max),
    };
    LoadFigures {
        load: load.words.clone(),
        trials: load.cells.iter().map(|cell| cell.figures.len()).sum(),
        void_trials: load.void_trials.len(),
        unsteady: load.unsteady,
        baseline: load.baseline,
        winner: load.winner.as_ref().map(|winner| trial::text::settings(&winner.settings)),
        gain: ratio.map(|ratio| ratio.estimate),
        low: ratio.map(|ratio| ratio.low),
        high: ratio.map(|ratio| ratio.high),
        over_worst: ratio.map(|ratio| ratio.estimate / worst),
        void: load.void,
        back: load.back,
    }
}

fn same_figures(report: &Report) -> SameFigures {
    let count = |verdict: Verdict| {
        let judged = trial::report::Standing::Judged { verdict };
        report.loads.iter().flat_map(|load| &load.cells).filter(|cell| cell.standing == judged).count()
    };
    SameFigures {
        cells: report.loads.iter().map(|load| load.cells.len()).sum(),
        better: count(Verdict::Better),
        worse: count(Verdict::Worse),
        void: report.loads.iter().filter(|load| load.void).count(),
        complete: report.complete,
    }
}

fn promises(outcome: &Outcome, real: Option<&Report>) -> Vec<Promise> {
    let mut all = Vec::new();
    let mut ask = |what: &str, asked: &str, measured: String, met: bool| {
        all.push(Promise::new(&format!("{what}: {asked}"), measured, met));
    };
    if let Some(real) = real {
        let cells = format!("{} cells over {} factors", outcome.cells, outcome.factors);
        let enough = outcome.cells >= 64 && outcome.factors >= 6;
        ask("cells", "at least 64 over at least 6 factors", cells, enough);
        let minutes = format!("{:.0} minutes", outcome.seconds / 60.0);
        ask("time", "within 100 minutes", minutes, real.ended && outcome.seconds < 6_000.0);
    }
    for load in outcome.real.iter().flatten() {
        let percent = trial::text::percent;
        let measured = match (load.gain, load.low, load.high, load.over_worst) {
            (Some(gain), Some(low), Some(high), Some(worst)) => format!(
                "{}: {} [{} to {}], {} over the worst cell",
                load.load,
                percent(gain),
                percent(low),
                percent(high),
                percent(worst)
            ),
            _ => format!("{}: none", load.load),
        };
        ask("winner", "confirmed on fresh blocks", measured, load.gain.is_some());
    }
    if let Some(same) = &outcome.same {
        let wrong = same.better + same.worse;
        let measured = format!("{wrong} verdicts over {} identical cells", same.cells);
        // Without verdicts there are no false ones: that says nothing before all blocks are run.
        let met = same.complete.then_some(wrong == 0);
        all.push(Promise::new("A/A over real cells: no verdict", measured, met));
    }
    all.extend(outcome.simulated.iter().flat_map(simulate::promises));
    all
}

fn finish(args: &TrialBenchArgs, directory: &Path, outcome: &Outcome) -> anyhow::Result<ExitCode> {
    for dir in EXPERIMENTS.map(|name| directory.join(name)) {
        if dir.join(LINES).exists() {
            output::pack(&dir, LINES)?;
        }
    }
    let met = crate::promise::all_met(&outcome.promises) && outcome.cut.is_none();
    output::finish(directory, "report.json", outcome, &text(outcome), met, args.json)
}

fn text(outcome: &Outcome) -> String {
    let mut text = format!(
        "# Trial\n\n{}. Budget {} min, took {:.0} min.\n",
        outcome.machine,
        outcome.budget_s / 60,
        outcome.seconds / 60.0
    );
    if let Some(why) = &outcome.cut {
        text.push_str(&format!("\n**Cut short:** {why}\n"));
    }
    text.push_str(&format!(
        "
{}",
        crate::promise::table(&outcome.promises)
    ));
    for load in outcome.real.iter().flatten() {
        let winner = load.winner.as_deref().unwrap_or("no cell is confirmed better");
        text.push_str(&format!(
            "\n{}: baseline {:.1} a second; {winner}. {} void trials, {} with an unsteady warm-up{}.\n",
            load.load,
            load.baseline.unwrap_or_default(),
            load.void_trials,
            load.unsteady,
            if load.void { "; VOID: the A/A cell differs" } else { "" }
        ));
    }
    if let Some((noise, simulated)) = outcome.noise.as_ref().zip(outcome.simulated.as_ref()) {
        text.push_str(&simulate::text(noise, simulated));
    }
    text
}

/// A run of its own: the noise as it was measured, and what the method makes of it.
fn only_simulated(args: &TrialBenchArgs, path: &Path) -> anyhow::Result<ExitCode> {
    let (folder, name) = match (path.parent(), path.file_name().and_then(OsStr::to_str)) {
        _ if path.is_dir() => (path, NOISE),
        (Some(folder), Some(name)) => (folder, name.strip_suffix(".gz").unwrap_or(name)),
        _ => bail!("{} is no file", path.display()),
    };
    let text = output::read_kept(folder, name)?;
    let noise: Noise =
        serde_json::from_str(&text).with_context(|| format!("{} is no noise", path.display()))?;
    let simulated = simulate::simulate(&noise, args.experiments);
    let directory = output::Directory::new(args.out.as_deref(), "trial-simulated", false)?.create()?;
    output::keep(&directory, NOISE, text.as_bytes())?;
    let tables = crate::promise::table(&simulate::promises(&simulated));
    let text = format!("# Trial, simulated\n\n{tables}{}", simulate::text(&noise, &simulated));
    output::finish(&directory, "report.json", &simulated, &text, simulated.is_met(), args.json)
}
