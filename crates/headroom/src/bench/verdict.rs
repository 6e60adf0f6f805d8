//! `headroom bench verdict`: bottlenecks really made on a lab's servers, and which of them is named: the confusion table.
//!
//! Each is made at some strengths, some times over, in an order drawn anew for each round. Every making is bounded in
//! time and ends by itself; afterwards the verdict has to go before the next begins, else that is said. What counts is
//! the verdict in force when the making ends; how long it took to be named first is measured beside it.
//!
//! The host's own trouble is evidence too: on a machine that is busy with something else "the CPU" is a right answer. How
//! busy it was before anything was made stands in the report, and the table is worth only what that figure allows.

mod making;
mod table;

use super::output::{Directory, scratch};
use crate::watch_command::{Station, WatchView};
use crate::{exit, interrupted, machine, terminal};
use anyhow::Context;
use clap::Args;
use fleet::Address;
use fleet::config::{Credentials, FleetConfig, Matcher, OwnZone, ZoneRule};
use lab::{Account, Lab, Spec};
use making::{Making, Stage};
use observe::verdict::Name;
use rand::seq::SliceRandom;
use rand::{SeedableRng, rngs::StdRng};
use serde::Serialize;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Windows that are judged.
const WINDOW: Duration = Duration::from_secs(10);
/// A verdict that is still in force so long after its cause has gone is noted.
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// Flags of `headroom bench verdict`.
#[derive(Args, Clone, Debug)]
pub(crate) struct VerdictArgs {
    /// How often each is made at each strength.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of each making.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(14..=300))]
    seconds: u64,
    /// Only these, by name.
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Making>,
    /// A smoke run: one round at the middle strength.
    #[arg(long)]
    quick: bool,
    /// Another server program.
    #[arg(long)]
    program: Option<std::path::PathBuf>,
    /// From which the order is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the run's files go [default: benchmarks/runs/YYYY-MM-DD-verdict, with --quick target/bench].
    #[arg(long)]
    out: Option<std::path::PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// What came of one making.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) made: Making,
    pub(super) strength: u32,
    /// The verdict in force when it ended.
    pub(super) named: Option<Name>,
    pub(super) text: String,
    pub(super) runner_up: Option<Name>,
    /// How long until the right one was named first.
    pub(super) named_after_s: Option<f64>,
    /// Share of the seconds from then on in which it was in force.
    pub(super) kept: f64,
    /// Whether the verdict went within [`GONE_WITHIN`] of its cause.
    pub(super) gone: bool,
    /// CPU busy before it was made, 0 to 1.
    pub(super) busy_before: f64,
}

/// Everything a run found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    pub(super) server: String,
    pub(super) seconds: u64,
    pub(super) outcomes: Vec<Outcome>,
    /// CPUs and memory that watching took.
    pub(super) watching_cpu_share: f64,
    pub(super) watching_resident_bytes: u64,
}

/// Runs it.
pub(crate) async fn run(args: VerdictArgs) -> anyhow::Result<ExitCode> {
    let directory = Directory::new(args.out.as_deref(), "verdict", args.quick)?;
    let mut spec = Spec::new(&[("a", 1), ("b", 1)]);
    spec.server.program = args.program.clone();
    spec.server.durable = true;
    spec.server.buffer_pool_mib = 16;
    let spec = spec.option("max_connections", &making::MAX_CONNECTIONS.to_string());
    let lab = Lab::up(&spec, &scratch()).await?;
    let stage = Stage::set(&lab).await.context("preparing the tables")?;
    let station = Station::start(Some(fleet(&lab)), WINDOW);
    let outcome = tokio::select! {
        outcome = all(&args, &stage, &station) => outcome,
        () = interrupted::interrupted() => Err(anyhow::anyhow!("interrupted")),
    };
    let cost = station.views().borrow().cost;
    station.stop().await;
    let server = lab.version();
    drop(stage);
    lab.down().await?;
    let run = Run {
        server,
        seconds: args.seconds,
        outcomes: outcome?,
        watching_cpu_share: cost.cpu_share,
        watching_resident_bytes: cost.resident_bytes,
    };
    let date = directory.date().to_owned();
    let path = directory.create()?;
    let text = table::markdown(&run, &date);
    std::fs::write(path.join("outcomes.json"), serde_json::to_string_pretty(&run)?)?;
    std::fs::write(path.join("summary.md"), &text)?;
    if args.json {
        terminal::print_json(&run)?;
    } else {
        terminal::print(&format!("{text}\nkept in {}\n", path.display()))?;
    }
    Ok(if table::right(&run.outcomes) >= 0.9 { exit::DONE } else { exit::no() })
}

async fn all(args: &VerdictArgs, stage: &Stage<'_>, station: &Station) -> anyhow::Result<Vec<Outcome>> {
    let mut rng = StdRng::seed_from_u64(args.seed);
    let (rounds, strengths) = if args.quick { (1, 1..=1) } else { (args.rounds, 0..=2) };
    let mut outcomes = Vec::new();
    for _ in 0..rounds {
        let mut block: Vec<(Making, u32)> = Making::ALL
            .iter()
            .filter(|making| args.only.is_empty() || args.only.contains(making))
            .flat_map(|making| strengths.clone().map(|strength| (*making, strength)))
            .collect();
        block.shuffle(&mut rng);
        for (made, strength) in block {
            let outcome = one(stage, station, made, strength, Duration::from_secs(args.seconds)).await?;
            let after = outcome.named_after_s.map_or(String::new(), |s| format!(", after {s:.0} s"));
            terminal::complain(&format!("{made} at strength {strength}: {}{after}", outcome.text));
            outcomes.push(outcome);
        }
    }
    Ok(outcomes)
}

async fn one(
    stage: &Stage<'_>,
    station: &Station,
    made: Making,
    strength: u32,
    time: Duration,
) -> anyhow::Result<Outcome> {
    let mut views = station.views();
    let server = stage.name(made.server());
    let before = machine::cpu_times();
    // A window before: nothing of the last making is in it.
    tokio::time::sleep(WINDOW).await;
    let busy_before = machine::busy(before, machine::cpu_times());
    let began = Instant::now();
    let making = stage.make(made, strength, time).await?;
    let (mut named_after_s, mut since, mut kept) = (None, 0u32, 0u32);
    let mut last = None;
    while began.elapsed() < time {
        let left = time.saturating_sub(began.elapsed());
        if tokio::time::timeout(left, views.changed()).await.is_err() {
            break;
        }
        let view = views.borrow_and_update().clone();
        let right = named(&view, &server) == made.expected();
        if right && named_after_s.is_none() {
            named_after_s = Some(began.elapsed().as_secs_f64());
        }
        if named_after_s.is_some() {
            since += 1;
            kept += u32::from(right);
        }
        last = Some(view);
    }
    making.end().await?;
    let last = last.context("nothing was judged")?;
    let seen = last.servers.iter().find(|s| s.name == server);
    let gone = gone(&mut views, &server, made).await;
    Ok(Outcome {
        made,
        strength,
        named: named(&last, &server),
        text: seen.map_or("not seen".to_owned(), |s| s.verdict.text.clone()),
        runner_up: seen.and_then(|s| s.verdict.runner_up.as_ref()).map(|next| next.name),
        named_after_s,
        kept: if since > 0 { f64::from(kept) / f64::from(since) } else { 0.0 },
        gone,
        busy_before,
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

/// Both servers of the lab, seen from the primary's zone.
fn fleet(lab: &Lab) -> FleetConfig {
    let seed = |server: String| {
        let real = lab.real(&server).ok()?;
        Some(Address::tcp(real.ip().to_string(), real.port()))
    };
    let zone = |(at, zone): (usize, &fleet::Zone)| {
        let net = format!("127.{}.0.0/16", at + 1).parse().ok()?;
        Some(ZoneRule { zone: zone.clone(), members: vec![Matcher::Net(net)], demand: None })
    };
    FleetConfig {
        seeds: lab.servers().into_iter().filter_map(seed).collect(),
        credentials: Credentials {
            user: Some(Account::Headroom.user().to_owned()),
            password: Some(lab.password(Account::Headroom).to_owned()),
            ..Credentials::default()
        },
        zones: lab.zones().iter().enumerate().filter_map(zone).collect(),
        own_zone: lab.zones().first().map_or(OwnZone::Auto, |zone| OwnZone::Named(zone.clone())),
        ..FleetConfig::default()
    }
}
