//! The demo: the published experiment on real servers of this machine, start to finish, in about two minutes.
//! What it shows and how each number is obtained: docs/guide/demo.md.
//!
//! It uses `fleet`, `lab`, `zerohop`, `probe`, `plan`, `chart`, `console` and `term`, and starts `headroom
//! route` as a child process. Read first:
//!
//! * `scenario.rs`: what happens, as data;
//! * `routers.rs`: the product itself, one router per zone;
//! * `figures.rs`: from what was counted to figures, and to "asked and measured".

mod faults;
mod figures;
mod fixture;
mod html;
mod keep;
mod moves;
mod phases;
mod progress;
mod routers;
#[cfg(test)]
mod sample_report;
mod scenario;
mod summary;

use anyhow::{Context, bail};
use figures::{About, PhaseFigures, Report, verdicts};
use fixture::Fixture;
pub use lab::app::PoolOrder;
use probe::machine::{Machine, today};
use progress::Progress;
use scenario::{PRIMARY, Scenario, ZONES};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use term::{Paint, StopSignals, exit, print, print_json};

/// What a demo is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Print the figures as JSON.
    pub json: bool,
    /// Where the page with charts goes.
    pub report: PathBuf,
    /// Leave everything up until Ctrl-C.
    pub keep: bool,
    /// How often the slices of each phase alternate.
    pub rounds: u32,
    /// Round-trip time between zones.
    pub round_trip: Duration,
    /// Requests per second of GET /timeline that each zone takes when demand is even; the others follow.
    pub rate: f64,
    /// Only these parts: c (with a and b), d, e, f.
    pub parts: Vec<char>,
    /// All sessions go through the routers.
    pub relay: bool,
    /// Which session the applications' pools hand out.
    pub order: PoolOrder,
    /// From which arrivals and keys are drawn.
    pub seed: u64,
    /// Where the servers' files go while it runs: a directory that labs lie in.
    pub base: PathBuf,
    /// How text is coloured.
    pub paint: Paint,
}

impl Options {
    fn scenario(&self) -> Scenario {
        let mut scenario = Scenario::new(self.rounds, self.seed);
        scenario.rates = scenario.rates.times(self.rate / scenario.rates.timeline);
        scenario.between_zones = self.round_trip;
        scenario.relay = self.relay;
        scenario.order = self.order;
        scenario.keep_parts(&self.parts);
        scenario
    }
}

/// Runs the demo; Ctrl-C, TERM or a closed terminal at any time takes everything down. "No" when something
/// that was asked was not met.
///
/// # Errors
/// Servers, routers or applications cannot be started, or end by themselves; the page cannot be written; it
/// was interrupted before there was a result.
pub async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let mut stop = StopSignals::listen()?;
    let scenario = options.scenario();
    let (fixture, code) = tokio::select! {
        shown = shown(&options, &scenario) => shown?,
        () = stop.received() => bail!("interrupted before its end; servers and routers are removed"),
    };
    if options.keep {
        tokio::select! {
            kept = keep::run(&fixture, &scenario) => kept?,
            () = fixture.lab.asked_down() => {}
            () = stop.received() => {}
        }
    }
    tokio::select! {
        down = fixture.lab.down() => down?,
        // Impatience: dropping the lab kills what is left.
        () = stop.received() => {}
    }
    Ok(code)
}

/// Measures and shows; gives what is still up, and the exit code.
async fn shown(options: &Options, scenario: &Scenario) -> anyhow::Result<(Fixture, ExitCode)> {
    let began = Instant::now();
    let progress = Progress::new(u64::from(scenario.slices()) + 9);
    let machine = Machine::look(&[], Duration::from_millis(200)).await?;
    progress.step("starting a primary and four replicas in three zones");
    let fixture = Fixture::set(scenario, &options.base).await?;
    let mut report = tokio::select! {
        report = measure(&fixture, scenario, &machine, &progress) => report?,
        () = fixture.lab.asked_down() => bail!("headroom lab down took its servers away; there is no result"),
    };
    report.about.took_s = began.elapsed().as_secs_f64();
    progress.done();
    // Before the page, which may be refused: what took minutes is not lost with it.
    if options.json {
        print_json(&report)?;
    } else {
        print(&summary::text(&report, options.paint))?;
    }
    std::fs::write(&options.report, html::page(&report))
        .with_context(|| format!("writing {}", options.report.display()))?;
    if !options.json {
        print(&format!("\nCharts, and how each number was obtained: {}\n", options.report.display()))?;
    }
    let code = if report.met() == report.verdicts.len() { exit::DONE } else { exit::no() };
    Ok((fixture, code))
}

/// Runs the whole scenario on a lab with data, with progress on standard error.
async fn measure(
    fixture: &Fixture,
    scenario: &Scenario,
    machine: &Machine,
    progress: &Progress,
) -> anyhow::Result<Report> {
    let mut phases: Vec<PhaseFigures> = Vec::new();
    for group in &scenario.groups {
        phases.extend(phases::run(fixture, scenario, group, progress).await?);
    }
    let (faults, series) = match &scenario.faults {
        Some(faults) => faults::run(fixture, scenario, faults, progress).await.map(|(f, c)| (f, Some(c)))?,
        None => (Vec::new(), None),
    };
    let moves = match &scenario.moves {
        Some(how) => moves::run(fixture, scenario, how, progress).await?,
        None => Vec::new(),
    };
    let about = about(scenario, fixture, machine);
    Ok(Report { about, verdicts: verdicts(&phases, &faults, &moves), phases, faults, series, moves })
}

fn about(scenario: &Scenario, fixture: &Fixture, machine: &Machine) -> About {
    let ms = |time: Duration| time.as_micros() as f64 / 1e3;
    let headroom = machine.programs.iter().find(|(name, _)| name == "headroom");
    let of_zone = |zone: &str| {
        let servers = fixture.lab.servers().into_iter();
        servers.filter(|s| scenario::zone_of(s) == zone).collect()
    };
    About {
        date: today(),
        servers: fixture.lab.version(),
        headroom: headroom.map(|(_, version)| version.clone()).unwrap_or_default(),
        cpu: machine.cpu.clone(),
        cores: machine.cores,
        within_zone_ms: ms(lab::Network::default().within),
        between_zones_ms: ms(scenario.between_zones),
        zones: ZONES.iter().map(|(zone, _)| ((*zone).to_owned(), of_zone(zone))).collect(),
        primary: PRIMARY.to_owned(),
        rounds: scenario.groups.first().map_or(0, |g| g.rounds),
        slice_s: scenario.slice.as_secs_f64(),
        reader_sessions: scenario.reader_sessions,
        seed: scenario.seed,
        sessions: fixture.ways(),
        newest_first: scenario.order == PoolOrder::NewestFirst,
        lab_up_s: fixture.lab.came_up_in().as_secs_f64(),
        took_s: 0.0,
    }
}
