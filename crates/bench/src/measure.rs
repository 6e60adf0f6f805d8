//! `headroom-bench measure`: searches whose answer is known, and a real server's again and again.
//!
//! | case | asked | how it is known |
//! |---|---|---|
//! | M/M/1: one place, 0.5 ms on average, p95 < 6.5 ms | within 3 % | `lab::null::theory`, exact |
//! | M/D/4: four places, 2 ms each, p95 < 6 ms | within 3 % | the same |
//! | a MariaDB server on this machine, read-only transactions: as much as the CPU gives | the repetitions within 5 % | themselves |
//! | the same server 10 ms away, point selects: as much as a pool of 16 connections carries | the same | the same |
//!
//! The objectives are several milliseconds, so that wake-ups that are late by a tenth of one do not matter;
//! the queues are worked out ahead, by a server that has the last core to itself and never sleeps there. The
//! search is that of `headroom measure`, in this process.
//!
//! The repetitions on the real server take turns, a trial of each: a shared machine's speed moves by a tenth
//! and more within minutes, and one search after the other would find how the machine drifts, not how well
//! the search repeats. Trials of 5 s, so that a round of five is over before the machine's mood is. Each
//! search begins at a rate of its own: from the same one all would begin with the same trials.
//!
//! What the machine alone makes a thread wait is looked at before each round (`stalls.rs`): a limit that the
//! CPU sets moves with it. One that distance and connections set does not, and shows how well the search
//! itself repeats.
//!
//! **How long a trial has to be.** Theory speaks of an endless run. In an M/M/1 queue with m served a second
//! and r asked for, answers that are late come in clusters: a busy period serves N with E[N^2] / E[N] = (1 +
//! u^2) / (1 - u)^2 (u = r/m), about 30 at u = 0.77, and returns to the same height again and again. So k
//! late answers scatter by about sqrt(55 k), and as their share falls by exp(-t) for each unit of m - r, a
//! trial of T seconds knows the limit r only to within sqrt(55 / (s r T)) / (t r), where s is the share and t
//! the objective's time (a simulated queue agrees):
//!
//! | m | objective | T | one trial's scatter |
//! |---|---|---|---|
//! | 1000 | p99 < 20 ms | 10 s | 5.6 % |
//! | 2000 | p95 < 6.5 ms | 20 s | 1.8 % |
//!
//! The first was asked here at first: its answers were as far off as they had to be. The scripted searches go
//! on until 2 %.

mod table;

use super::promise::Promise;
use super::server::Server;
use super::stalls::{self, MachineStalls};
use super::{output, server, sysbench};
use anyhow::{Context, anyhow};
use clap::Args;
use config::DataPath;
use lab::null::{Service, Time, theory};
use load::measure::{Capacity, Findings, Goal, Objective, Search, Trial};
use load::workload::sysbench::Options;
use load::{Arrivals, Plan};
use probe::Machine;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use term::terminal;

const QUIET_LOOK: Duration = Duration::from_secs(2);
/// Where the searches begin: they have to come the rest of the way by themselves. Repetitions begin at
/// different rates, or all would try the same ones and agree to the digit.
const START: f64 = 200.0;
/// Trials on the scripted servers are this many times as long.
const SCRIPTED_TRIALS: u32 = 4;
/// `upper / lower` at the end of a scripted search, less 1.
const SCRIPTED_WIDTH: f64 = 0.02;
/// A search may take this many times as long as its trials: some do not count, and after bad ones it waits.
const PATIENCE: f64 = 1.5;
/// Clients of a scripted search: the queue is the server's, as theory has it.
const CLIENTS: u32 = 128;
/// Clients of a search on the real server, as many as a pool for two cores has: who finds none free waits
/// before the server. With 128 the server itself has the queue, runs slower the longer it is, and a stall of
/// a moment decides whether a trial ever recovers: between 1300 and 2000 a second both happened.
const LAB_CLIENTS: u32 = 16;
const ROWS: u32 = 20_000;
const LAB_WIDTH: f64 = 0.04;
const LAB_OBJECTIVE: &str = "p99 < 15ms";
/// How far away the distant server is, there and back, plus up to a tenth.
const AWAY: Duration = Duration::from_millis(10);
/// Before each round of trials the machine alone is looked at for this long.
const LOOK: Duration = Duration::from_millis(200);
/// A stall that is longer shows in a response time.
const BEYOND_US: f64 = 50.0;

/// Flags of `headroom-bench measure`.
#[derive(Args, Clone, Debug)]
pub(crate) struct MeasureBenchArgs {
    /// Length of a trial on the real server; four times that on the scripted ones.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = fleet::parse_duration)]
    trial: Duration,
    /// Searches on the real server; 0 leaves it out.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(..=20))]
    repetitions: u32,
    /// Searches on each scripted server; 0 leaves them out.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(..=20))]
    scripted: u32,
    /// From which moments, keys and times follow.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the run's files go [default: benchmarks/runs/load/YYYY-MM-DD-load-measure].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print everything as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// One search.
#[derive(Serialize)]
struct SearchResult {
    case: String,
    objective: String,
    /// The limit by theory.
    exact: Option<f64>,
    /// `None` when it was refused.
    capacity: Option<Capacity>,
    refused: Option<String>,
    voided: Vec<String>,
    trials: Vec<Trial>,
}

/// What the machine was like during the searches of a case.
#[derive(Serialize)]
struct Meanwhile {
    case: String,
    /// Before each round of trials.
    looks: Vec<MachineStalls>,
}

#[derive(Serialize)]
struct Report {
    date: String,
    machine: Machine,
    promises: Vec<Promise>,
    searches: Vec<SearchResult>,
    meanwhile: Vec<Meanwhile>,
}

/// Searches, keeps what came of it, prints; "no" when a promise was missed.
pub(crate) async fn run(args: MeasureBenchArgs) -> anyhow::Result<ExitCode> {
    let directory = output::Directory::new(args.out.as_deref(), "load-measure", false)?;
    args.announce(&directory)?;
    let mut machine = Machine::look(&[], QUIET_LOOK).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    tokio::spawn(async move {
        term::interrupted().await;
        flag.store(true, Ordering::Relaxed);
    });
    let (mut searches, mut meanwhile) = (Vec::new(), Vec::new());
    for number in 0..args.scripted {
        for (case, objective, service) in scripted(args.seed + u64::from(number)) {
            let null = server::null(service.clone())?;
            let scripted = SearchCase::scripted(case, objective, null.address(), args.trial);
            let mut searched = args.search(&scripted, number, &stop).await?;
            let objective = Objective::parse(objective).map_err(|e| anyhow!(e))?;
            searched.exact = theory::largest_rate(&service, objective.quantile, objective.within);
            searches.push(searched);
        }
    }
    if args.repetitions > 0 && !stop.load(Ordering::Relaxed) {
        let server = Server::up(&output::scratch(), LAB_CLIENTS * args.repetitions).await?;
        machine.programs.push(("server".to_owned(), server.version.clone()));
        let found = args.on_the_lab(&server, &stop).await;
        server.down().await?;
        for (of_case, looks) in found? {
            searches.extend(of_case);
            meanwhile.push(looks);
        }
    }
    let promises = table::promises(&searches);
    let report = Report { date: directory.date().to_owned(), machine, promises, searches, meanwhile };
    let met = crate::promise::all_met(&report.promises);
    output::finish(&directory.create()?, "searches.json", &report, &table::markdown(&report), met, args.json)
}

/// Servers whose limit is known.
fn scripted(seed: u64) -> [(&'static str, &'static str, Service); 2] {
    let exponential = Time::Exponential(Duration::from_micros(500), seed);
    let constant = Time::Constant(Duration::from_millis(2));
    [
        ("M/M/1, 0.5 ms", "p95 < 6.5ms", Service::Queue { servers: 1, time: exponential }),
        ("M/D/4, 2 ms", "p95 < 6ms", Service::Queue { servers: 4, time: constant }),
    ]
}

impl SearchResult {
    fn rate(&self) -> Option<f64> {
        self.capacity?.rate
    }
}

/// A server that is searched.
struct SearchCase {
    case: &'static str,
    objective: &'static str,
    address: SocketAddr,
    workload: &'static str,
    clients: u32,
    trial: Duration,
    width: f64,
}

impl SearchCase {
    fn goal(&self) -> anyhow::Result<(Objective, Goal)> {
        let objective = Objective::parse(self.objective).map_err(|error| anyhow!(error))?;
        Ok((objective, Goal { width: self.width, ..Goal::new(objective, self.trial, START, 1e6) }))
    }

    fn searched(&self, findings: Findings) -> SearchResult {
        let Findings { capacity, refused, voided, trials } = findings;
        let (case, objective) = (self.case.to_owned(), self.objective.to_owned());
        SearchResult { case, objective, exact: None, capacity, refused, voided, trials }
    }

    fn near(address: SocketAddr, trial: Duration) -> Self {
        Self::lab(("MariaDB beside us", "oltp_read_only"), address, trial)
    }

    fn away(address: SocketAddr, trial: Duration) -> Self {
        Self::lab(("MariaDB 10 ms away", "oltp_point_select"), address, trial)
    }

    fn lab((case, workload): (&'static str, &'static str), address: SocketAddr, trial: Duration) -> Self {
        let objective = LAB_OBJECTIVE;
        Self { case, objective, address, workload, clients: LAB_CLIENTS, trial, width: LAB_WIDTH }
    }

    fn scripted(case: &'static str, objective: &'static str, address: SocketAddr, trial: Duration) -> Self {
        let trial = SCRIPTED_TRIALS * trial;
        Self {
            case,
            objective,
            address,
            workload: "oltp_point_select",
            clients: CLIENTS,
            trial,
            width: SCRIPTED_WIDTH,
        }
    }
}

impl MeasureBenchArgs {
    /// Says how long everything takes, usually and at most.
    fn announce(&self, directory: &output::Directory) -> anyhow::Result<()> {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let seconds = |asked: SearchCase, times: u32| -> anyhow::Result<(f64, f64)> {
            let (_, goal) = asked.goal()?;
            let times = f64::from(times);
            Ok((times * goal.seconds_left(&[]), times * goal.seconds_at_most(&[]) * PATIENCE))
        };
        let (mut usual, mut most) = seconds(SearchCase::near(nowhere, self.trial), 2 * self.repetitions)?;
        for (case, objective, _) in scripted(self.seed) {
            let asked = SearchCase::scripted(case, objective, nowhere, self.trial);
            let more = seconds(asked, self.scripted)?;
            (usual, most) = (usual + more.0, most + more.1);
        }
        terminal::complain(&format!(
            "{} searches, about {:.0} min, at most {:.0}. Result: {}",
            2 * (self.scripted + self.repetitions),
            usual / 60.0,
            most / 60.0,
            directory.path().display()
        ));
        Ok(())
    }

    async fn on_the_lab(
        &self,
        server: &Server,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Vec<(Vec<SearchResult>, Meanwhile)>> {
        let target = sysbench::target(server.address);
        let options = options();
        tokio::task::spawn_blocking(move || load::tables::prepare(&target, &options, 2, 1, |_| ())).await??;
        let away = server.at_a_distance(AWAY).await?;
        let mut cases = Vec::new();
        for asked in [SearchCase::away(away, self.trial), SearchCase::near(server.address, self.trial)] {
            if !stop.load(Ordering::Relaxed) {
                cases.push(self.repeat(&asked, stop).await?);
            }
        }
        Ok(cases)
    }

    /// Several searches for one limit, in turn.
    async fn repeat(
        &self,
        asked: &SearchCase,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<(Vec<SearchResult>, Meanwhile)> {
        terminal::complain(&format!("{}, {}, {} searches", asked.case, asked.objective, self.repetitions));
        let times = f64::from(self.repetitions);
        let prepared = (0..self.repetitions)
            .map(|number| self.prepared(asked, number, times))
            .collect::<Result<Vec<_>, _>>()?;
        let stop = stop.clone();
        let (all, looks) = tokio::task::spawn_blocking(move || in_turn(prepared, &stop)).await??;
        let searched = all.into_iter().map(|found| asked.searched(found)).collect();
        Ok((searched, Meanwhile { case: asked.case.to_owned(), looks }))
    }

    /// One search, as `headroom measure` does it.
    async fn search(
        &self,
        asked: &SearchCase,
        number: u32,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<SearchResult> {
        terminal::complain(&format!("{}, {}", asked.case, asked.objective));
        let (search, plan) = self.prepared(asked, number, 1.0)?;
        let stop = stop.clone();
        let run = move || search.run(plan, Vec::new(), &stop, terminal::complain);
        Ok(asked.searched(tokio::task::spawn_blocking(run).await??))
    }

    /// A search and what it sends; this many take turns, and share the time.
    fn prepared(&self, asked: &SearchCase, number: u32, in_turn: f64) -> anyhow::Result<(Search, Plan)> {
        let (wanted, mut goal) = asked.goal()?;
        goal.start *= (f64::from(number) / in_turn).fract().exp2();
        let workload =
            load::workload::sysbench::workload(asked.workload, &options()).context("sysbench's own")?;
        let plan = Plan {
            workload: workload.into(),
            target: sysbench::target(asked.address),
            clients: asked.clients,
            idle: 0,
            read_only: true,
            threads: 1,
            busy: false,
            data_path: DataPath::Auto,
            arrivals: Arrivals::poisson(goal.start),
            warm_up: Duration::from_secs(2),
            time: asked.trial,
            grace: Duration::from_millis(100),
            // Other keys and moments each time: what repeats is the answer.
            seed: self.seed + 1000 * u64::from(number),
            objective: Some(wanted.within),
        };
        let longest = Some(Duration::from_secs_f64(goal.seconds_at_most(&[]) * PATIENCE * in_turn));
        Ok((Search { goal, objective: wanted, file: None, longest }, plan))
    }
}

/// Searches, a trial of each in turn, and what the machine was like before each round.
fn in_turn(
    prepared: Vec<(Search, Plan)>,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<(Vec<Findings>, Vec<MachineStalls>)> {
    let (searches, plans): (Vec<Search>, Vec<Plan>) = prepared.into_iter().unzip();
    let begun = searches.iter().zip(plans).map(|(search, plan)| search.begin(plan, Vec::new(), stop));
    let mut runs = begun.collect::<Result<Vec<_>, _>>()?;
    let last = std::thread::available_parallelism().map_or(1, usize::from) - 1;
    let mut looks = Vec::new();
    let mut going = true;
    while going {
        looks.push(stalls::look([0, last], LOOK, BEYOND_US)?);
        going = false;
        for (number, run) in runs.iter_mut().enumerate() {
            let say = |line: &str| terminal::complain(&format!("{}: {line}", number + 1));
            going |= run.step(stop, say)?;
        }
    }
    Ok((runs.into_iter().map(|run| run.findings).collect(), looks))
}

fn options() -> Options {
    Options { tables: 1, table_size: ROWS, ..Options::default() }
}
