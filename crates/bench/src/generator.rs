//! `headroom-bench load`: headroom's load generator beside sysbench, on the same server in the same run.
//!
//! | case | what it shows |
//! |---|---|
//! | point selects and read-write at 16 clients, closed loop | the same QPS, at what CPU of the client |
//! | the same, the client in a session of its own | the same, where the kernel shares the cores out between groups |
//! | the same, the server on the last core and the client on the first | the same, as on two machines |
//! | point selects over a unix socket, and by 64 clients | how much of that is TCP's, and what more answers at a time spare |
//! | the null server, the client pinned to one core | how much one core can send at most |
//! | the null server in an open loop that takes half of the core | the generator's own part of a latency, asleep between arrivals and with `--busy` |
//! | a server that stands still for 500 ms once (`freeze.rs`) | who sees it, and who does not |
//! | statements by digest, keys by chi-square (`likeness.rs`) | that it is the same load |
//!
//! Of each latency at the null server the generator tells its own part: by how much it began late, and read
//! the answer later than it had arrived by the kernel's time stamp. Beside it stands what the machine alone
//! makes a thread wait that never sleeps (`stalls.rs`).
//!
//! The null server has the last core to itself and never sleeps there, the client has the first: where both
//! share cores, or a core has to wake up for each answer, it is the machine's scheduling that is measured.
//!
//! Where a server and its clients share cores, a client that has a thread for each connection profits: the
//! kernel lets the two of a connection run on one core, and its packets wake nobody on another, which costs
//! both sides where an interrupt from core to core goes by way of a host. Clients elsewhere never have that,
//! so the pair is measured apart as well.
//!
//! A server that is a service, or in a container, is in a scheduling group of its own (a session with
//! `sched_autogroup`, a cgroup), and its clients in another: the kernel lets groups run in turn, so that a
//! client gets a core sooner and for fewer answers at a time.
//!
//! CPU is that of the whole client process from its start to its end, read from `/proc` when it has ended and
//! before it is reaped: its start and the logins are on the bill, alike for both. How much of it is the
//! client's own code stands beside it: the rest is the kernel's, which sends a packet and wakes a thread of
//! the server for each statement. What the same query costs the server stands there too: who sends how
//! decides also when the server's threads run, and beside whom.

mod env;
mod freeze;
mod likeness;
mod promises;
mod table;

use super::promise::Promise;
use super::server::Server;
use super::stalls::MachineStalls;
use super::{output, sysbench};
use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use env::{BenchEnv, ClientPlace};
use freeze::FreezeResult;
use lab::process::Process;
use likeness::Likeness;
use plan::Ratio;
use plan::quantile::median;
use probe::Machine;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use term::{interrupted, terminal};

const GRACE: Duration = Duration::from_secs(45);
const QUIET_LOOK: Duration = Duration::from_secs(2);

/// Flags of `headroom-bench load`.
#[derive(Args, Clone, Debug)]
pub(crate) struct GeneratorArgs {
    /// How often everything is measured; ratios are taken within a round.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of each load.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Rows of the table.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rows: u32,
    /// Only these, by name, and nothing else: many rounds of one take little time.
    #[arg(long, value_name = "CASES", value_delimiter = ',', value_enum)]
    only: Vec<Case>,
    /// One round of 2 s, to see that everything works.
    #[arg(long)]
    quick: bool,
    /// From which the order is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the run's files go [default: benchmarks/runs/load/YYYY-MM-DD-load, with --quick target/bench].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print everything as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Tool {
    Sysbench,
    Headroom,
}

/// What is sent, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Case {
    /// 16 clients, point selects, prepared.
    PointSelects,
    /// 16 clients, point selects as text.
    PointSelectsText,
    /// 16 clients, read-write, prepared.
    ReadWrite,
    /// Point selects, the client in a session of its own.
    PointSelectsOwnSession,
    /// Read-write, the client in a session of its own.
    ReadWriteOwnSession,
    /// Point selects, client and server on a core each.
    PointSelectsApart,
    /// Read-write, client and server on a core each.
    ReadWriteApart,
    /// Point selects over the server's unix socket.
    PointSelectsSocket,
    /// Point selects by 64 clients.
    PointSelectsMany,
    /// 16 clients on one core, text, the null server; then, at a rate that takes half of the core, the
    /// generator's own latency.
    OneCore,
}

/// 1 where sessions are scheduling groups.
const AUTOGROUP: &str = "/proc/sys/kernel/sched_autogroup_enabled";
const CLIENTS: u32 = 16;
const MANY_CLIENTS: u32 = 64;

/// One load.
#[derive(Clone, Debug, Serialize)]
struct Sample {
    round: u32,
    case: Case,
    tool: Tool,
    qps: f64,
    /// CPU of the client process, microseconds a query.
    client_cpu_us: f64,
    /// Of that, in its own code and not in the kernel.
    client_user_us: f64,
    /// CPU of the server process, microseconds a query; none for the null server.
    server_cpu_us: Option<f64>,
    p50_ms: f64,
    p99_ms: f64,
}

/// The generator's own part of a latency, at the null server.
#[derive(Clone, Debug, Serialize)]
struct OwnLatency {
    /// The client never slept.
    busy: bool,
    rate: f64,
    cpu_share: f64,
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    lateness_p99_ms: f64,
    /// Of each latency what the generator itself added, where it is known: begun late, read late.
    own_p95_ms: Option<f64>,
    own_p99_ms: Option<f64>,
    /// The share of answers that took longer than [`promises::OWN_P99_US`].
    beyond: f64,
    /// What the machine alone costs on the same two cores, just before.
    machine: MachineStalls,
}

/// Both tools in one case, over the rounds.
#[derive(Clone, Debug, Serialize)]
struct Row {
    case: Case,
    sysbench_qps: f64,
    headroom_qps: f64,
    qps: Option<Ratio>,
    client_cpu: Option<Ratio>,
    sysbench_cpu_us: f64,
    headroom_cpu_us: f64,
    sysbench_user_us: f64,
    headroom_user_us: f64,
    /// CPU of the server.
    server_cpu: Option<Ratio>,
    /// CPU of client and server together.
    both_cpu: Option<Ratio>,
    p99: Option<Ratio>,
}

/// All that is kept of a run.
#[derive(Clone, Debug, Serialize)]
struct Report {
    date: String,
    machine: Machine,
    warnings: Vec<String>,
    rounds: u32,
    seconds: u32,
    rows: Vec<Row>,
    own_latency: Vec<OwnLatency>,
    frozen: Vec<FreezeResult>,
    likeness: Option<Likeness>,
    promises: Vec<Promise>,
    samples: Vec<Sample>,
}

/// What was measured on the server for figures.
#[derive(Default)]
struct Measured {
    samples: Vec<Sample>,
    own_latency: Vec<OwnLatency>,
    frozen: Vec<FreezeResult>,
}

/// Measures, writes the run's directory, prints the table; "no" when a promise was missed.
pub(crate) async fn run(mut args: GeneratorArgs) -> anyhow::Result<ExitCode> {
    if args.quick {
        (args.rounds, args.seconds) = (1, 2);
    }
    let tools = [find("sysbench")?, find("taskset")?];
    let directory = output::Directory::new(args.out.as_deref(), "load", args.quick)?;
    let (cells, beside) = args.loads();
    let seconds = cells * (args.seconds + 1) + beside;
    // Each load that hangs is given up, and the first that is ends the run.
    let most = Duration::from_secs(u64::from(2 * seconds)) + 2 * GRACE;
    terminal::complain(&format!(
        "{cells} loads of {} s{}: about {:.0} min, at most {:.0}. Result: {}",
        args.seconds,
        if args.is_whole() { ", then a stall and a comparison of statements and keys" } else { "" },
        f64::from(seconds) / 60.0,
        most.as_secs_f64() / 60.0,
        directory.path().display()
    ));
    let mut machine = Machine::look(&[("sysbench", tools[0].as_path())], QUIET_LOOK).await?;
    let server = Server::up(&output::scratch(), freeze::OPEN_CLIENTS).await?;
    machine.programs.push(("server".to_owned(), server.version.clone()));
    let measured = tokio::select! {
        measured = measure(&args, &tools, &server) => measured,
        () = tokio::time::sleep(most) => Err(anyhow!("not over after {most:?}: given up")),
        () = interrupted() => Err(anyhow!("interrupted: everything that was started is stopped")),
    };
    server.down().await?;
    let Measured { samples, own_latency, frozen } = measured?;
    let likeness = if args.is_whole() { Some(compare(&tools[0], most).await?) } else { None };
    let rows: Vec<Row> = args.cases().into_iter().filter_map(|case| Row::of(case, &samples)).collect();
    let mut promises = promises::of(&rows, &own_latency);
    if let Some(likeness) = &likeness {
        promises.push(freeze::promise(&frozen));
        promises.extend(likeness.promises());
    }
    let report = Report {
        date: directory.date().to_owned(),
        warnings: warnings(&machine, &args),
        machine,
        rounds: args.rounds,
        seconds: args.seconds,
        rows,
        own_latency,
        frozen,
        likeness,
        promises,
        samples,
    };
    let met = crate::promise::all_met(&report.promises);
    output::finish(&directory.create()?, "samples.json", &report, &table::markdown(&report), met, args.json)
}

async fn measure(args: &GeneratorArgs, tools: &[PathBuf; 2], server: &Server) -> anyhow::Result<Measured> {
    let log = server.directory().join("bench.log");
    let prepare = sysbench::prepare(server.address, args.rows);
    Process::start("sysbench", &tools[0], &prepare, &log)?.finish(GRACE).await?;
    let env = BenchEnv { args, tools, server, log };
    let mut rng = SmallRng::seed_from_u64(args.seed);
    let mut measured = Measured::default();
    for round in 1..=args.rounds {
        let mut cells: Vec<(Case, Tool)> = args
            .cases()
            .into_iter()
            .flat_map(|case| [(case, Tool::Sysbench), (case, Tool::Headroom)])
            .collect();
        cells.shuffle(&mut rng);
        for (case, tool) in cells {
            let sample = env.sample(round, case, tool).await?;
            terminal::complain(&table::line(&sample));
            measured.samples.push(sample);
        }
        let most =
            measured.samples.iter().rev().find(|s| s.case == Case::OneCore && s.tool == Tool::Headroom);
        if let Some(most) = most.map(|sample| sample.qps) {
            for busy in [false, true] {
                measured.own_latency.push(env.own_latency(most, busy).await?);
            }
        }
    }
    if args.is_whole() {
        terminal::complain("the server stands still for 500 ms, three times");
        measured.frozen = freeze::measure(&env).await?;
    }
    Ok(measured)
}

async fn compare(sysbench: &Path, most: Duration) -> anyhow::Result<Likeness> {
    terminal::complain("statements and keys");
    tokio::select! {
        likeness = tokio::time::timeout(most, likeness::measure(sysbench)) => likeness.context("given up")?,
        () = interrupted() => bail!("interrupted: everything that was started is stopped"),
    }
}

impl GeneratorArgs {
    /// In their usual order, each once.
    fn cases(&self) -> Vec<Case> {
        let all = Case::value_variants().iter().copied();
        all.filter(|case| self.is_whole() || self.only.contains(case)).collect()
    }

    fn is_whole(&self) -> bool {
        self.only.is_empty()
    }

    /// How many loads, and for how many seconds more.
    fn loads(&self) -> (u32, u32) {
        let cases = self.cases();
        // Its own latency asleep and busy, and as long again the machine alone.
        let open = if cases.contains(&Case::OneCore) { 4 } else { 0 };
        let more = if self.is_whole() { likeness::ABOUT_SECONDS + 3 * (freeze::SECONDS + 1) } else { 0 };
        (self.rounds * (2 * cases.len() as u32 + open), more)
    }
}

impl Row {
    fn of(case: Case, samples: &[Sample]) -> Option<Self> {
        let of = |tool: Tool| samples.iter().filter(move |s| s.case == case && s.tool == tool);
        let middle = |tool: Tool, value: fn(&Sample) -> f64| median(&of(tool).map(value).collect::<Vec<_>>());
        let ratio = |value: fn(&Sample) -> Option<f64>| {
            let pair = |ours: &Sample| {
                let theirs = of(Tool::Sysbench).find(|theirs| theirs.round == ours.round)?;
                Some((value(ours)?, value(theirs)?))
            };
            Ratio::of(&of(Tool::Headroom).filter_map(pair).collect::<Vec<_>>())
        };
        Some(Self {
            case,
            sysbench_qps: middle(Tool::Sysbench, |s| s.qps)?,
            headroom_qps: middle(Tool::Headroom, |s| s.qps)?,
            qps: ratio(|s| Some(s.qps)),
            client_cpu: ratio(|s| Some(s.client_cpu_us)),
            sysbench_cpu_us: middle(Tool::Sysbench, |s| s.client_cpu_us)?,
            headroom_cpu_us: middle(Tool::Headroom, |s| s.client_cpu_us)?,
            sysbench_user_us: middle(Tool::Sysbench, |s| s.client_user_us)?,
            headroom_user_us: middle(Tool::Headroom, |s| s.client_user_us)?,
            server_cpu: ratio(|s| s.server_cpu_us),
            both_cpu: ratio(|s| Some(s.client_cpu_us + s.server_cpu_us?)),
            p99: ratio(|s| Some(s.p99_ms)),
        })
    }
}

fn warnings(machine: &Machine, args: &GeneratorArgs) -> Vec<String> {
    let mut warnings = machine.warnings();
    if args.rounds < 3 || args.seconds < 5 {
        warnings.push("a smoke run: it shows that everything works, not how fast".to_owned());
    }
    let groups = std::fs::read_to_string(AUTOGROUP).is_ok_and(|enabled| enabled.trim() == "1");
    if args.cases().into_iter().any(|case| ClientPlace::of(case) == ClientPlace::OwnSession) && !groups {
        warnings.push(format!(
            "{AUTOGROUP} is not 1: a session of its own is no scheduling group of its own here"
        ));
    }
    warnings
}

fn find(name: &str) -> anyhow::Result<PathBuf> {
    let directories = ["/usr/local/bin", "/usr/bin", "/bin"];
    let found = directories.iter().map(|d| Path::new(d).join(name)).find(|path| path.is_file());
    found.with_context(|| format!("{name} is missing; run scripts/install.sh bench"))
}
