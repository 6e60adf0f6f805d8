//! `headroom-bench plan`: predictions beside what is known.
//!
//! | part | asked | how it is known |
//! |---|---|---|
//! | `queue` | the true mean response time at 70 % of the load, and the true saturation, inside the 95 % interval in at least 93 % of the cases that are not refused; fitted on at most half of the range | simulated servers with known parameters |
//! | `law` | the true throughput at twice the concurrency that was seen, the same | the scalability law with 3 % noise |
//! | `placement` | as cheap as by exhaustive search; no rule broken; 500 roles on 100 hosts in under 60 s | another search; the rules |
//! | `replicas` | a plan that is called safe carries all reads after the loss of each zone | simulated readers |
//! | `memory` | miss ratio at sizes of the buffer pool that are not part of the curve within 0.03, p99 within 20 %; Hatena's step | a real server on a disk of 1000 requests a second |
//! | `cores` | from 1 core to 2: mean response time and capacity within 20 %, or refused | a real server in a cpuset cgroup |
//! | `disks` | from a slow disk to a fast one: mean and p99 within 20 %, or refused | a real server on a disk of 800, then 3000 requests a second |
//!
//! What is asked of simulated servers is what `headroom plan` answers: the same functions, not a copy.

mod cores;
mod disks;
mod filled_server;
mod memory;
mod pair;
mod simulated;

use super::output::{Directory, finish, write};
use super::promise::{Promise, table};
use anyhow::Context;
use clap::{Args, ValueEnum};
use plan::placement::{self, Host, Question, Role};
use probe::Machine;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use term::terminal;

/// Of the intervals, less what chance may take.
const HELD: f64 = 0.93;

/// Flags of `headroom-bench plan`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ForecastArgs {
    /// Parts [default: all].
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Simulated servers, and instances of the other parts in proportion.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    cases: u32,
    /// Length of a step on the real server.
    #[arg(long, value_name = "DURATION", default_value = "6s", value_parser = fleet::parse_duration)]
    step: Duration,
    /// Length of a window at a size of the buffer pool.
    #[arg(long, value_name = "DURATION", default_value = "2500ms", value_parser = fleet::parse_duration)]
    window: Duration,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the run's files go [default: benchmarks/runs/plan/YYYY-MM-DD-plan].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Queue,
    Law,
    Placement,
    Replicas,
    Memory,
    Cores,
    Disks,
}

#[derive(Default, Serialize)]
struct Report {
    machine: Option<Machine>,
    promises: Vec<Promise>,
    queue: Vec<simulated::Case>,
    law: Vec<simulated::Case>,
    placement: Vec<Placed>,
    memory: Option<memory::Memory>,
    cores: Option<cores::Cores>,
    disks: Option<disks::DisksRun>,
}

/// An instance of a placement.
#[derive(Clone, Debug, Serialize)]
struct Placed {
    roles: usize,
    hosts: usize,
    price: Option<f64>,
    gap: Option<f64>,
    /// By exhaustive search, where that is possible.
    exhaustive: Option<f64>,
    /// Rules broken.
    broken: usize,
    seconds: f64,
}

/// Does it.
pub(crate) async fn run(args: ForecastArgs) -> anyhow::Result<ExitCode> {
    let directory = Directory::new(args.out.as_deref(), "plan", args.cases < 200)?;
    let wanted = |part| args.only.is_empty() || args.only.contains(&part);
    let mut report =
        Report { machine: Some(Machine::look(&[], Duration::from_millis(500)).await?), ..Report::default() };
    if wanted(Part::Queue) {
        terminal::complain("queue: simulated servers");
        report.queue = (0..args.cases).map(|case| simulated::queue(args.seed + u64::from(case))).collect();
        for figure in ["mean_s", "saturation"] {
            report.promises.push(covered("queue", figure, &report.queue));
        }
    }
    if wanted(Part::Law) {
        terminal::complain("law: simulated servers");
        report.law = (0..args.cases).map(|case| simulated::law(args.seed + u64::from(case))).collect();
        report.promises.push(covered("law", "per_s", &report.law));
    }
    if wanted(Part::Placement) {
        terminal::complain("placement: random instances");
        report.placement = placements(args.seed, args.cases);
        report.promises.extend(of_placements(&report.placement));
    }
    if wanted(Part::Replicas) {
        terminal::complain("replicas: every zone lost in turn");
        let (plans, survived) = simulated::replicas(args.seed, args.cases);
        report.promises.push(Promise::new(
            "every plan called safe survives the simulated loss of each zone",
            format!("{survived} of {plans}"),
            survived == plans && plans > 0,
        ));
    }
    if wanted(Part::Memory) {
        let memory = memory::measure(args.window).await.context("memory: the real server")?;
        report.promises.extend(memory.promises());
        report.memory = Some(memory);
    }
    if wanted(Part::Cores) {
        let cores = cores::measure(args.step).await.context("cores: the real server")?;
        report.promises.extend(cores.promises());
        report.cores = Some(cores);
    }
    if wanted(Part::Disks) {
        let disks = disks::measure(args.step).await.context("disks: the real server")?;
        report.promises.extend(disks.promises());
        report.disks = Some(disks);
    }
    let met = crate::promise::all_met(&report.promises);
    let text = format!("# Plan, {}\n\n{}", directory.date(), table(&report.promises));
    let directory = directory.create()?;
    if let Some(memory) = &report.memory {
        write(&directory, memory::PAGE, &memory.page())?;
    }
    finish(&directory, "plan.json", &report, &text, met, args.json)
}

fn covered(part: &str, figure: &str, cases: &[simulated::Case]) -> Promise {
    let own: Vec<&simulated::Figure> =
        cases.iter().flat_map(|case| &case.figures).filter(|one| one.name == figure).collect();
    let told: Vec<&&simulated::Figure> = own.iter().filter(|one| one.interval.is_some()).collect();
    let held = told.iter().filter(|one| one.holds()).count();
    let errors: Vec<f64> = told.iter().filter_map(|one| one.error()).collect();
    let width: Vec<f64> = told.iter().filter_map(|one| one.width()).collect();
    let (share, middle) = (held as f64 / told.len().max(1) as f64, plan::quantile::median);
    Promise::new(
        &format!("{part}, {figure}: the truth is inside the 95 % interval in at least 93 % of the cases"),
        format!(
            "{:.1} % of {} ({} refused); error {:.1} % and half width {:.1} % in the middle",
            share * 100.0,
            told.len(),
            own.len() - told.len(),
            middle(&errors).unwrap_or(0.0) * 100.0,
            middle(&width).unwrap_or(0.0) * 100.0
        ),
        share >= HELD && told.len() * 2 >= own.len(),
    )
}

fn instance(rng: &mut StdRng, roles: usize, hosts: usize) -> Question {
    const ZONES: [&str; 3] = ["a", "b", "c"];
    let role = |at: usize, rng: &mut StdRng| Role {
        name: format!("r{at}"),
        group: rng.random_bool(0.4).then(|| format!("g{}", at / 3)),
        demand: [
            rng.random_range(0.3..3.0),
            rng.random_range(2.0..24.0),
            rng.random_range(10.0..1200.0),
            rng.random_range(1.0..100.0),
            rng.random_range(1.0..100.0),
        ],
    };
    let host = |at: usize, rng: &mut StdRng| {
        let size: f64 = rng.random_range(0.7..1.6);
        let ceiling = [12.0 * size, 96.0 * size, 5000.0 * size, 500.0 * size, 1000.0];
        let (name, zone) = (format!("h{at}"), ZONES[at % 3].to_owned());
        Host { name, zone, ceiling, price: f64::from(rng.random_range(50..200)), watts: None, work: None }
    };
    Question {
        roles: (0..roles).map(|at| role(at, rng)).collect(),
        hosts: (0..hosts).map(|at| host(at, rng)).collect(),
        fill: 0.8,
        apart: false,
    }
}

/// Two of five instances are small enough for an exhaustive search; the last is the large one.
fn placements(seed: u64, cases: u32) -> Vec<Placed> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut all = Vec::new();
    let many = cases.div_ceil(5).max(10) * 2;
    for at in 0..=many {
        let (roles, hosts) = match at {
            last if last == many => (500, 100),
            small if small % 5 < 2 => (rng.random_range(4..8), rng.random_range(3..6)),
            _ => (rng.random_range(8..31), rng.random_range(6..13)),
        };
        let question = instance(&mut rng, roles, hosts);
        let began = Instant::now();
        let time = Duration::from_secs(if roles > 100 { 50 } else { 10 });
        let found = placement::solve(&question, time).ok();
        all.push(Placed {
            roles,
            hosts,
            price: found.as_ref().map(|found| found.price),
            gap: found.as_ref().map(placement::Placement::gap),
            exhaustive: (roles < 8).then(|| simulated::exhaustive(&question)).flatten(),
            broken: found.as_ref().map_or(0, |found| placement::check(&question, &found.on).len()),
            seconds: began.elapsed().as_secs_f64(),
        });
        if at % 20 == 0 {
            terminal::complain(&format!("placement: {at} of {many}"));
        }
    }
    all
}

fn of_placements(all: &[Placed]) -> Vec<Promise> {
    let small: Vec<&Placed> = all.iter().filter(|one| one.roles < 8).collect();
    let same = small.iter().filter(|one| match (one.price, one.exhaustive) {
        (Some(price), Some(best)) => (price - best).abs() < 1e-6,
        (found, best) => found.is_none() == best.is_none(),
    });
    let same = same.count();
    let middle: Vec<&Placed> = all.iter().filter(|one| (8..100).contains(&one.roles)).collect();
    let best = middle.iter().filter(|one| one.gap.is_none_or(|gap| gap < 1e-6)).count();
    let gaps: f64 = middle.iter().filter_map(|one| one.gap).fold(0.0, f64::max);
    let broken: usize = all.iter().map(|one| one.broken).sum();
    let mut promises = vec![
        Promise::new(
            "small instances: the price of an exhaustive search",
            format!("{same} of {}", small.len()),
            same == small.len(),
        ),
        Promise::new(
            "up to 30 roles on 12 hosts: proved to be the cheapest",
            format!("{best} of {}; the largest gap {:.1} %", middle.len(), gaps * 100.0),
            best == middle.len(),
        ),
        Promise::new("no placement breaks a rule", format!("{broken} broken"), broken == 0),
    ];
    if let Some(large) = all.iter().find(|one| one.roles >= 100) {
        let gap =
            large.gap.map_or_else(|| "none found".to_owned(), |gap| format!("gap {:.1} %", gap * 100.0));
        promises.push(Promise::new(
            "500 roles on 100 hosts in under 60 s, with its gap",
            format!("{:.1} s, {gap}", large.seconds),
            large.seconds < 60.0 && large.gap.is_some(),
        ));
    }
    promises
}
