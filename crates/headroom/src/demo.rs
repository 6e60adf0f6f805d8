//! `headroom demo`: the published experiment on real servers of this machine, start to finish, in under two minutes.
//! What it shows and how each number is obtained: docs/guide/demo.md.

mod faults;
mod figures;
mod html;
mod keep;
mod phases;
mod plan;
mod progress;
mod routers;
mod stage;
#[cfg(test)]
mod still_life;
mod summary;

use crate::environment::Environment;
use anyhow::Context;
use clap::Args;
use figures::{About, PhaseFigures, Report, verdicts};
use plan::{PRIMARY, Plan, ZONES};
use probe::machine::{Machine, today};
use progress::Progress;
use stage::Stage;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use term::{Paint, exit, interrupted, print, print_json};

const EXAMPLES: &str = "\
Examples:
  headroom demo                             about two minutes, then a table and headroom-demo.html
  headroom demo --json --report demo.html   the same figures as JSON on standard output
  headroom demo --keep                      afterwards servers, routers and status pages stay until Ctrl-C

Exit code 1 when something that was asked was not met: the table says what.";

/// Show the product's main job on real servers of this machine.
///
/// Starts a primary and four replicas in three zones with simulated distance, sends the traffic of a small API from
/// every zone, and measures: reads in one zone, over zones round robin, over zones with headroom; a zone without a
/// reader; a reader that is killed, silenced, and comes back. Nothing is left behind.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    /// Where the page with charts goes.
    #[arg(long, value_name = "FILE", default_value = "headroom-demo.html")]
    report: PathBuf,
    /// Leave servers, routers, status pages and a little traffic up until Ctrl-C, and print how to connect.
    #[arg(long)]
    keep: bool,
    /// How often the slices of each phase alternate; more take longer and say more.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Round-trip time between zones; within a zone it is 0.12 ms.
    #[arg(long, value_name = "DURATION", default_value = "0.7ms", value_parser = round_trip)]
    round_trip: Duration,
    /// Requests per second of GET /timeline that each zone takes when demand is even; the others follow.
    #[arg(long, value_name = "NUMBER", default_value_t = 2.5)]
    rate: f64,
    /// Only these parts: c (with a and b), d, e.
    #[arg(long, value_name = "PARTS", value_delimiter = ',', default_values_t = ['c', 'd', 'e'], value_parser = part)]
    only: Vec<char>,
    /// Send all sessions through the routers, also where the kernel would let them bypass these (zero-hop).
    #[arg(long)]
    relay: bool,
    /// From which arrivals and keys are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the servers' files go while it runs [default: the system's directory for temporary files].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl DemoArgs {
    fn plan(&self) -> anyhow::Result<Plan> {
        if !(0.1..=100.0).contains(&self.rate) {
            return Err(exit::usage_error(format!("--rate is between 0.1 and 100, not {}", self.rate)));
        }
        let mut plan = Plan::new(self.rounds, self.seed);
        plan.rates = plan.rates.times(self.rate / plan.rates.timeline);
        plan.between_zones = self.round_trip;
        plan.relay = self.relay;
        plan.keep_parts(&self.only);
        Ok(plan)
    }
}

/// A part of the demo, by its letter.
fn part(text: &str) -> Result<char, String> {
    match text {
        "c" | "d" | "e" => Ok(text.chars().next().unwrap_or_default()),
        // They are measured with (c), which is compared with them.
        "a" | "b" => Err(format!("'{text}' is measured with c; write c")),
        _ => Err(format!("'{text}' is no part of the demo; there are c (with a and b), d, e")),
    }
}

/// A round-trip time: `0.7ms`, `700us`.
fn round_trip(text: &str) -> Result<Duration, String> {
    let refuse = || format!("'{text}' is not a round-trip time; write for instance 1ms, at most 1s");
    let (number, unit) = match text.strip_suffix("us") {
        Some(number) => (number, 1e-6),
        None => (text.strip_suffix("ms").ok_or_else(refuse)?, 1e-3),
    };
    let seconds = number.trim().parse::<f64>().map_err(|_| refuse())? * unit;
    if (0.0..=1.0).contains(&seconds) { Ok(Duration::from_secs_f64(seconds)) } else { Err(refuse()) }
}

/// Runs the demo; Ctrl-C at any time takes everything down.
pub(crate) async fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    tokio::select! {
        outcome = shown(&args) => outcome,
        () = interrupted() => {
            term::complain("stopped; servers and routers are removed");
            Ok(ExitCode::from(130))
        }
    }
}

async fn shown(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let plan = args.plan()?;
    let base = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let began = Instant::now();
    let progress = Progress::new(u64::from(plan.slices()) + 7);
    let machine = Machine::look(&[], Duration::from_millis(200)).await?;
    progress.step("starting a primary and four replicas in three zones");
    let stage = Stage::set(&plan, &base).await?;
    let mut report = measure(&stage, &plan, &machine, &progress).await?;
    report.about.took_s = began.elapsed().as_secs_f64();
    progress.done();
    std::fs::write(&args.report, html::page(&report))
        .with_context(|| format!("writing {}", args.report.display()))?;
    if args.json {
        print_json(&report)?;
    } else {
        print(&summary::text(&report, Paint::for_stdout(Environment::read().no_colour)))?;
        print(&format!("\nCharts, and how each number was obtained: {}\n", args.report.display()))?;
    }
    if args.keep {
        keep::run(&stage, &plan).await?;
    }
    stage.lab.down().await?;
    Ok(if report.met() == report.verdicts.len() { exit::DONE } else { exit::no() })
}

/// Runs the whole plan on a lab with data, with progress on standard error.
async fn measure(
    stage: &Stage,
    plan: &Plan,
    machine: &Machine,
    progress: &Progress,
) -> anyhow::Result<Report> {
    let mut phases: Vec<PhaseFigures> = Vec::new();
    for group in &plan.groups {
        phases.extend(phases::run(stage, plan, group, progress).await?);
    }
    let (faults, course) = match &plan.faults {
        Some(faults) => faults::run(stage, plan, faults, progress).await.map(|(f, c)| (f, Some(c)))?,
        None => (Vec::new(), None),
    };
    let about = about(plan, stage, machine);
    Ok(Report { about, verdicts: verdicts(&phases, &faults), phases, faults, course })
}

fn about(plan: &Plan, stage: &Stage, machine: &Machine) -> About {
    let ms = |time: Duration| time.as_micros() as f64 / 1e3;
    let headroom = machine.programs.iter().find(|(name, _)| name == "headroom");
    let of_zone = |zone: &str| {
        let servers = stage.lab.servers().into_iter();
        servers.filter(|s| plan::zone_of(s) == zone).collect()
    };
    About {
        date: today(),
        servers: stage.lab.version(),
        headroom: headroom.map(|(_, version)| version.clone()).unwrap_or_default(),
        cpu: machine.cpu.clone(),
        cores: machine.cores,
        within_zone_ms: ms(lab::Network::default().within),
        between_zones_ms: ms(plan.between_zones),
        zones: ZONES.iter().map(|(zone, _)| ((*zone).to_owned(), of_zone(zone))).collect(),
        primary: PRIMARY.to_owned(),
        rounds: plan.groups.first().map_or(0, |g| g.rounds),
        slice_s: plan.slice.as_secs_f64(),
        reader_sessions: plan.reader_sessions,
        seed: plan.seed,
        sessions: stage.ways(),
        lab_up_s: stage.lab.came_up_in().as_secs_f64(),
        took_s: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Wrapped {
        #[command(flatten)]
        args: DemoArgs,
    }

    #[test]
    fn a_part_that_is_none_is_refused_before_anything_is_started() {
        let only = |parts: &str| Wrapped::try_parse_from(["demo", "--only", parts]).map(|w| w.args.only);
        assert_eq!(only("d,e").unwrap(), ['d', 'e']);
        assert!(only("z").unwrap_err().to_string().contains("there are c (with a and b), d, e"));
        assert!(only("a").unwrap_err().to_string().contains("measured with c"));
        assert!(only("c,z").is_err());
    }

    #[test]
    fn zones_are_as_far_apart_as_in_the_lab_unless_told_otherwise() {
        let plan = |flags: &[&str]| {
            Wrapped::parse_from(std::iter::once(&"demo").chain(flags)).args.plan().unwrap().between_zones
        };
        assert_eq!(plan(&[]), lab::Network::default().between);
        assert_eq!(plan(&["--round-trip", "2ms"]), Duration::from_millis(2));
    }
}
