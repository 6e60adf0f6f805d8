//! `headroom-bench verdict`: bottlenecks really made on a lab's servers, and which of them is named: the
//! confusion table.
//!
//! Each is made at some strengths, some times over, in an order drawn anew for each round. Every making is
//! bounded in time and ends by itself; afterwards the verdict has to go before the next begins, else that is
//! said. What counts is the verdict in force when the making ends; how long it took to be named first is
//! measured beside it.
//!
//! The host's own trouble is evidence too: on a machine that is busy with something else "the CPU" is a right
//! answer. How busy it was before anything was made stands in the report, and the table is worth only what
//! that figure allows.

mod application;
mod client;
mod limit;
mod making;
mod packets;
mod table;

use super::output::{Directory, finish, read_kept, scratch};
use super::volume::{USUAL_PER_S, Volume};
use agent::{Monitor, MonitorOptions};
use anyhow::Context;
use clap::Args;
use config::{Credentials, FleetConfig, Matcher, OwnZone, ZoneRule};
use console::watch_view::{VerdictView, WatchView};
use diagnose::verdict::{Ceilings, Name, figure as words};
use fleet::Address;
use lab::{Account, Lab, Spec};
use making::{Making, VerdictFixture};
use probe::machine;
use rand::seq::SliceRandom;
use rand::{SeedableRng, rngs::StdRng};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use term::{exit, interrupted, terminal};

/// The file of a run that holds all of it.
const OUTCOMES: &str = "outcomes.json";
/// Of each server: enough for its logs and indexes, a quarter of its largest table.
const POOL_MIB: u32 = 48;
/// Windows that are judged.
const WINDOW: Duration = Duration::from_secs(10);
/// How busy the machine is by itself is looked at for this long at least before each making.
const LOOK_BEFORE: Duration = Duration::from_secs(2);
/// A verdict that is still in force this long after its cause has gone is noted.
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// Flags of `headroom-bench verdict`.
#[derive(Args, Clone, Debug)]
pub(crate) struct VerdictArgs {
    /// How often each is made at each strength.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    times: u32,
    /// Strengths, 0 to 2.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 2],
          value_parser = clap::value_parser!(u32).range(0..=2))]
    strengths: Vec<u32>,
    /// Seconds of each making.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(14..=900))]
    seconds: u64,
    /// Only these, by name.
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Making>,
    /// A smoke run: each once at the middle strength.
    #[arg(long)]
    quick: bool,
    /// Say what would be made and how long that would take, and make nothing.
    #[arg(long)]
    plan: bool,
    /// Add to the run that is kept in this directory: so a long run can be made in parts.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "quick"])]
    add_to: Option<std::path::PathBuf>,
    /// Another server program.
    #[arg(long)]
    program: Option<std::path::PathBuf>,
    /// From which the order is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the run's files go [default: benchmarks/runs/verdict/YYYY-MM-DD-verdict, with --quick
    /// target/bench].
    #[arg(long)]
    out: Option<std::path::PathBuf>,
    /// Say the evidence of each making as it ends.
    #[arg(long)]
    evidence: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// What came of one making.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) made: Making,
    pub(super) strength: u32,
    /// The verdict in force when it ended.
    pub(super) named: Option<Name>,
    pub(super) text: String,
    pub(super) runner_up: Option<Name>,
    /// The evidence of what was named and of what came next, as figures.
    pub(super) evidence: Vec<String>,
    /// How long until the right one was named first.
    pub(super) named_after_s: Option<f64>,
    /// Share of the seconds from then on in which it was in force.
    pub(super) kept: f64,
    /// Whether the verdict went within [`GONE_WITHIN`] of its cause.
    pub(super) gone: bool,
    /// CPU busy before it was made, 0 to 1.
    pub(super) busy_before: f64,
    /// How long it was made.
    #[serde(default)]
    pub(super) seconds: u64,
    /// What was in force at how many looks, one a second.
    #[serde(default)]
    pub(super) looks: BTreeMap<String, u32>,
    /// Gaps in what was read of the host and the servers while it was made.
    #[serde(default)]
    pub(super) gaps: u64,
}

impl Outcome {
    /// Whether what was made is what was named.
    fn is_right(&self) -> bool {
        self.named == self.made.expected()
    }
}

/// Everything a run found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) server: String,
    /// On what its parts were made, and with which headroom.
    #[serde(default)]
    pub(super) machines: Vec<String>,
    pub(super) seconds: u64,
    pub(super) outcomes: Vec<Outcome>,
    /// Point reads a second that the primary was found to carry: what "healthy" is a share of.
    pub(super) capacity: f64,
    /// What the disk was found to take when idle.
    pub(super) ceilings: Ceilings,
    /// CPUs and memory that watching took.
    pub(super) watching_cpu_share: f64,
    pub(super) watching_resident_bytes: u64,
}

/// Runs it.
pub(crate) async fn run(args: VerdictArgs) -> anyhow::Result<ExitCode> {
    let makings = makings(&args);
    // The window before a making is the time in which the verdict of the last one goes.
    let usual = (Duration::from_secs(args.seconds) + WINDOW + LOOK_BEFORE).as_secs() * makings.len() as u64;
    let words = format!("{} makings, about {} min", makings.len(), usual.div_ceil(60));
    if args.plan {
        let lines: String = makings.iter().map(|(made, strength)| format!("{made} {strength}\n")).collect();
        terminal::print(&format!("{lines}{words}\n"))?;
        return Ok(exit::DONE);
    }
    let before = args.add_to.as_deref().map(kept).transpose()?;
    let directory = match &args.add_to {
        Some(_) => None,
        None => Some(Directory::new(args.out.as_deref(), "verdict", args.quick)?),
    };
    terminal::complain(&words);
    let machine = machine::Machine::look(&[], LOOK_BEFORE).await?.line();
    let mut run = make(&args, makings).await?;
    run.machines.push(machine);
    if let Some(before) = before {
        run.outcomes.splice(0..0, before.outcomes);
        run.machines.splice(0..0, before.machines);
        run.machines.dedup();
    }
    let path = match (directory, args.add_to) {
        (Some(directory), _) => directory.create()?,
        (None, path) => path.context("neither a new directory nor one to add to")?,
    };
    let text = table::markdown(&run, &machine::today());
    finish(&path, OUTCOMES, &run, &text, table::right(&run.outcomes) >= 0.9, args.json)
}

/// What is made in which order: each time all of them, in an order drawn anew.
fn makings(args: &VerdictArgs) -> Vec<(Making, u32)> {
    let mut rng = StdRng::seed_from_u64(args.seed);
    let (times, strengths) = if args.quick { (1, vec![1]) } else { (args.times, args.strengths.clone()) };
    let mut all = Vec::new();
    for _ in 0..times {
        let mut block: Vec<(Making, u32)> = Making::ALL
            .iter()
            .filter(|making| args.only.is_empty() || args.only.contains(making))
            .flat_map(|making| strengths.iter().map(|strength| (*making, *strength)))
            .collect();
        block.shuffle(&mut rng);
        all.extend(block);
    }
    all
}

fn kept(directory: &Path) -> anyhow::Result<Run> {
    let text = read_kept(directory, OUTCOMES)?;
    let path = directory.join(OUTCOMES);
    serde_json::from_str(&text).with_context(|| format!("{} is of another version", path.display()))
}

/// Brings the lab up on a disk of its own, makes everything, and takes it down.
async fn make(args: &VerdictArgs, makings: Vec<(Making, u32)>) -> anyhow::Result<Run> {
    let mut spec = Spec::new(&[("a", 1), ("b", 1)]).round_trip(making::NEAR, making::NEAR);
    spec.server.program = args.program.clone();
    spec.server.durable = true;
    spec.server.buffer_pool_mib = POOL_MIB;
    let mut spec = spec
        .option("max_connections", &making::MAX_CONNECTIONS.to_string())
        .option("performance_schema", "ON")
        // A redo log must not be smaller than this.
        .option("innodb_log_buffer_size", "2097152");
    if args.program.is_none() {
        // MariaDB tells who holds a lock on everything with this plugin only.
        spec = spec.option("plugin_load_add", "metadata_lock_info");
    }
    let volume = Volume::make(&scratch(), USUAL_PER_S)?;
    let ceilings = volume.ceilings().await?;
    let lab = Lab::up(&spec, volume.path()).await?;
    let fixture = VerdictFixture::set(&lab, &volume, WINDOW).await.context("preparing the tables")?;
    let watching = MonitorOptions {
        application: Some(fixture.timings()),
        ..MonitorOptions::against(ceilings.clone(), WINDOW)
    };
    let station = Monitor::start(Some(fleet(&lab)?), watching);
    let mut outcomes = Vec::new();
    let ended = tokio::select! {
        ended = all(args, makings, &fixture, &station, &mut outcomes) => ended,
        () = interrupted() => {
            terminal::complain("interrupted: what was made until now is kept");
            Ok(())
        }
    };
    let cost = station.views().borrow().cost;
    station.stop().await;
    let (server, capacity) = (lab.version(), fixture.capacity());
    drop(fixture);
    lab.down().await?;
    if let Err(error) = ended {
        if outcomes.is_empty() {
            return Err(error);
        }
        terminal::complain(&format!("ended early, what was made until now is kept: {error:#}"));
    }
    Ok(Run {
        server,
        machines: Vec::new(),
        seconds: args.seconds,
        outcomes,
        capacity,
        ceilings,
        watching_cpu_share: cost.cpu_share,
        watching_resident_bytes: cost.resident_bytes,
    })
}

async fn all(
    args: &VerdictArgs,
    makings: Vec<(Making, u32)>,
    fixture: &VerdictFixture<'_>,
    station: &Monitor,
    outcomes: &mut Vec<Outcome>,
) -> anyhow::Result<()> {
    let mut ended = Instant::now();
    for (made, strength) in makings {
        let time = Duration::from_secs(args.seconds);
        let outcome = one(fixture, station, (made, strength), time, &mut ended).await?;
        let after = outcome.named_after_s.map_or(String::new(), |s| format!(", after {s:.0} s"));
        let right = if outcome.is_right() { "right" } else { "WRONG" };
        terminal::complain(&format!("{right}: {made} at strength {strength}: {}{after}", outcome.text));
        if args.evidence {
            outcome.evidence.iter().for_each(|line| terminal::complain(&format!("    {line}")));
        }
        outcomes.push(outcome);
    }
    Ok(())
}

/// `ended` is when the last making ended, and then when this one did.
async fn one(
    fixture: &VerdictFixture<'_>,
    station: &Monitor,
    (made, strength): (Making, u32),
    time: Duration,
    ended: &mut Instant,
) -> anyhow::Result<Outcome> {
    let mut views = station.views();
    let server = fixture.name(made.server());
    // A window before, in which nothing of the last making is; much of it may have passed while its verdict
    // went.
    let rest = WINDOW.saturating_sub(ended.elapsed()).max(LOOK_BEFORE);
    let before = machine::cpu_times();
    tokio::time::sleep(rest).await;
    let busy_before = machine::busy(before, machine::cpu_times());
    let gaps_before = views.borrow().gaps;
    let began = Instant::now();
    let making = fixture.make(made, strength, time).await?;
    let (mut named_after_s, mut since, mut kept) = (None, 0u32, 0u32);
    let mut looks: BTreeMap<String, u32> = BTreeMap::new();
    let mut last = None;
    while began.elapsed() < time {
        let left = time.saturating_sub(began.elapsed());
        if tokio::time::timeout(left, views.changed()).await.is_err() {
            break;
        }
        let view = views.borrow_and_update().clone();
        let now = named(&view, &server);
        *looks.entry(table::called(now).to_owned()).or_default() += 1;
        let right = now == made.expected();
        if right && named_after_s.is_none() && made.expected().is_some() {
            named_after_s = Some(began.elapsed().as_secs_f64());
        }
        if named_after_s.is_some() || made.expected().is_none() {
            since += 1;
            kept += u32::from(right);
        }
        last = Some(view);
    }
    making.end().await?;
    fixture.tidy().await?;
    *ended = Instant::now();
    let last = last.context("nothing was judged")?;
    let seen = last.servers.iter().find(|s| s.name == server);
    let gone = gone(&mut views, &server, made).await;
    Ok(Outcome {
        made,
        strength,
        named: named(&last, &server),
        text: seen.map_or("not seen".to_owned(), |s| s.verdict.text.clone()),
        runner_up: seen.and_then(|s| s.verdict.runner_up.as_ref()).map(|next| next.name),
        evidence: seen.map(|seen| evidence(&seen.verdict)).unwrap_or_default(),
        named_after_s,
        kept: if since > 0 { f64::from(kept) / f64::from(since) } else { 0.0 },
        gone,
        busy_before,
        seconds: time.as_secs(),
        looks,
        gaps: last.gaps - gaps_before,
    })
}

async fn gone(
    views: &mut tokio::sync::watch::Receiver<std::sync::Arc<WatchView>>,
    server: &str,
    made: Making,
) -> bool {
    let Some(expected) = made.expected() else { return true };
    let holds = |view: &std::sync::Arc<WatchView>| named(view, server) != Some(expected);
    tokio::time::timeout(GONE_WITHIN, views.wait_for(holds)).await.is_ok_and(|seen| seen.is_ok())
}

fn named(view: &WatchView, server: &str) -> Option<Name> {
    let seen = view.servers.iter().find(|s| s.name == server)?;
    seen.verdict.bottleneck.as_ref().map(|bottleneck| bottleneck.name)
}

/// What was named, what came next, and all of their figures.
fn evidence(verdict: &VerdictView) -> Vec<String> {
    let all = [("named", &verdict.bottleneck), ("next", &verdict.runner_up)];
    let lines =
        all.into_iter().filter_map(|(place, one)| Some((place, one.as_ref()?))).flat_map(|(place, one)| {
            let head = format!("{place}: {}, load {:.2}, weight {:.2}", one.called, one.load, one.weight);
            let figures = one.evidence.iter().map(|figure| {
                let from = figure
                    .threshold
                    .map_or(String::new(), |t| format!(" (counts from {})", words(t, figure.unit)));
                format!("  {}: {}{from}", figure.what, words(figure.value, figure.unit))
            });
            std::iter::once(head).chain(figures)
        });
    lines.collect()
}

/// Both servers of the lab: the primary at its own address, the replica as it is seen from the primary's
/// zone.
fn fleet(lab: &Lab) -> anyhow::Result<FleetConfig> {
    let address = |at: SocketAddrV4| Address::tcp(at.ip().to_string(), at.port());
    let (a1, b1) = (lab.real("a1")?, lab.real("b1")?);
    let zone = |(at, zone): (usize, &fleet::Zone)| {
        let net = format!("127.{}.0.0/16", at + 1).parse().ok()?;
        Some(ZoneRule { zone: zone.clone(), members: vec![Matcher::Net(net)], demand: None })
    };
    Ok(FleetConfig {
        seeds: vec![address(a1)],
        address_map: vec![(address(b1), address(lab.reach("a", "b1")?))],
        credentials: Credentials {
            user: Some(Account::Headroom.user().to_owned()),
            password: Some(lab.password(Account::Headroom).to_owned()),
            ..Credentials::default()
        },
        zones: lab.zones().iter().enumerate().filter_map(zone).collect(),
        own_zone: lab.zones().first().map_or(OwnZone::Auto, |zone| OwnZone::Named(zone.clone())),
        ..FleetConfig::default()
    })
}
