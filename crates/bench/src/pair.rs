//! `headroom-bench pair`: two ways to one server in turn, a fraction of a second each, over sessions that
//! stay open.
//!
//! A difference of a few per cent drowns between loads of seconds: a machine's mood changes faster. Here both
//! ways have their sessions at the same time, and one load generator sends over the one and over the other in
//! turn, A B B A, while the other rests. What is compared is a **block**: sessions made anew, then some
//! turns; a block gives one ratio, because sessions that stay where the scheduler put them err alike in all
//! turns of a block.
//!
//! With `--before` an earlier program is the other way: what a change costs, relayed and bypassed.
//!
//! The router of a way lives as long as its comparison. Its CPU is counted in both turns: what it uses while
//! nothing comes by it is its own housekeeping, what it uses beyond that is the price of what goes by.

mod block;
mod report;

use super::server::Server;
use super::subject::{PORTS, Running, SubjectEnv, ports_are_free};
use super::{output, schedule::Subject, sysbench};
use crate::binary;
use anyhow::{Context, anyhow};
use block::{Pair, Side, TURNS, WARM_UP};
use clap::{Args, ValueEnum};
use config::DataPath;
use load::workload::sysbench::Options;
use load::{Arrivals, Plan, Workload};
use plan::Ratio;
use probe::Machine;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use term::{interrupted, terminal};

/// Before the sessions of a block are made. For some milliseconds after sessions have ended the kernel takes
/// their server for one that may be dying, and leaves new ones to the relay (decision 7).
const REST: Duration = Duration::from_millis(100);
/// Beside the turns: resting, making sessions, warming up.
const BESIDE_S: f64 = 0.7;
const GRACE: Duration = Duration::from_secs(5);
const QUIET_LOOK: Duration = Duration::from_secs(2);
/// A run that takes this many times as long as planned hangs.
const PATIENCE: f64 = 4.0;

/// Flags of `headroom-bench pair`.
#[derive(Args, Clone, Debug)]
pub(crate) struct PairArgs {
    /// Blocks of each comparison: each gives one ratio.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(2..=1000))]
    blocks: u32,
    /// Milliseconds of each turn; a block has four for each way.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(50..=10_000))]
    turn: u64,
    /// Clients at once of the comparisons of zero-hop with direct.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 256],
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    clients: Vec<u32>,
    /// Only these comparisons.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<What>,
    /// An earlier headroom program: this one is compared with it, relayed and with zero-hop, insight on.
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
    /// Rows of the table.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rows: u32,
    /// A smoke run of about half a minute.
    #[arg(long)]
    quick: bool,
    /// The first of twelve ports on 127.0.0.1 that are taken for the run.
    #[arg(long, default_value_t = 23_400, value_parser = clap::value_parser!(u16).range(1024..=32_000))]
    port: u16,
    /// From which keys are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the run's files go [default: benchmarks/runs/pair/YYYY-MM-DD-pair, with --quick target/bench].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print everything as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// Kinds of comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    Control,
    ZeroHop,
    InsightPast,
    InsightRelayed,
    Before,
}

/// What is held against what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
enum Comparison {
    /// Direct against direct: differs by chance alone, which is a test of the method.
    Control { clients: u32 },
    /// Zero-hop without insight against direct.
    ZeroHop { clients: u32 },
    /// Insight on against off, past the router.
    InsightPast { clients: u32 },
    /// Insight on against off, through the relay.
    InsightRelayed { clients: u32 },
    /// This program against the earlier one, through the relay.
    BeforeRelayed { clients: u32 },
    /// This program against the earlier one, sessions bypass both.
    BeforeZeroHop { clients: u32 },
}

/// Both ways over the turns of a block.
#[derive(Clone, Debug, Serialize)]
struct Block {
    #[serde(flatten)]
    comparison: Comparison,
    ours: Side,
    other: Side,
    /// All sessions that should bypass a router did. One in which some did not says what a relay costs, and
    /// is left out.
    as_meant: bool,
}

/// A comparison over its blocks.
#[derive(Clone, Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    comparison: Comparison,
    ours_qps: f64,
    other_qps: f64,
    qps: Option<Ratio>,
    p50: Option<Ratio>,
    p99: Option<Ratio>,
    /// CPU of our router as a share of one core: in its turns, and while it rests.
    router_cpu: Option<(f64, f64)>,
    /// Blocks left out because some of their sessions were relayed.
    left_out: usize,
}

/// All that is kept of a run.
#[derive(Debug, Serialize)]
struct Report {
    date: String,
    machine: Machine,
    warnings: Vec<String>,
    blocks_each: u32,
    turn_ms: u64,
    rows: Vec<Row>,
    promises: Vec<super::promise::Promise>,
    blocks: Vec<Block>,
}

/// Measures, writes the run's directory, prints the tables; "no" when a promise was missed.
pub(crate) async fn run(mut args: PairArgs) -> anyhow::Result<ExitCode> {
    if args.only.contains(&What::Before) && args.before.is_none() {
        return Err(anyhow!("--only before compares with an earlier program: name it with --before"));
    }
    if args.quick {
        (args.blocks, args.turn) = (2, 100);
    }
    let directory = output::Directory::new(args.out.as_deref(), "pair", args.quick)?;
    ports_are_free(args.port)?;
    ports_are_free(args.port + PORTS)?;
    let (comparisons, mut warnings) = args.comparisons();
    let planned = args.seconds(comparisons.len());
    terminal::complain(&format!(
        "{} comparisons of {} blocks, about {:.0} min. Result: {}",
        comparisons.len(),
        args.blocks,
        planned / 60.0,
        directory.path().display()
    ));
    let most = Duration::from_secs_f64(planned * PATIENCE + 60.0);
    let mut machine = Machine::look(&[], QUIET_LOOK).await?;
    let sessions = args.clients.iter().copied().max().unwrap_or(0).max(INSIGHT_CLIENTS);
    let server = Server::up(&output::scratch(), 2 * sessions).await?;
    machine.programs.push(("server".to_owned(), server.version.clone()));
    let stop = Arc::new(AtomicBool::new(false));
    let measured = tokio::select! {
        measured = args.measure(&comparisons, &server, sessions, &machine, &stop) => measured,
        () = tokio::time::sleep(most) => Err(anyhow!("not over after {most:?}: given up")),
        () = interrupted() => Err(anyhow!("interrupted: everything that was started is stopped")),
    };
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    server.down().await?;
    let blocks = measured?;
    warnings.extend(args.warnings(&machine));
    let rows: Vec<Row> = comparisons.iter().filter_map(|comparison| Row::of(*comparison, &blocks)).collect();
    let report = Report {
        date: directory.date().to_owned(),
        machine,
        warnings,
        blocks_each: args.blocks,
        turn_ms: args.turn,
        promises: report::promises(&rows),
        rows,
        blocks,
    };
    let met = crate::promise::all_met(&report.promises);
    output::finish(&directory.create()?, "blocks.json", &report, &report::markdown(&report), met, args.json)
}

/// Clients of the comparisons of insight, and of the control.
const INSIGHT_CLIENTS: u32 = 16;

impl PairArgs {
    /// What can be compared here, and what cannot in words.
    fn comparisons(&self) -> (Vec<Comparison>, Vec<String>) {
        let clients = INSIGHT_CLIENTS;
        let mut comparisons = vec![Comparison::Control { clients }];
        let mut warnings = Vec::new();
        match zerohop::possible() {
            Ok(()) => {
                let zero_hop = |clients: &u32| Comparison::ZeroHop { clients: *clients };
                comparisons.extend(self.clients.iter().map(zero_hop));
                comparisons.push(Comparison::InsightPast { clients });
            }
            Err(why) => warnings.push(format!("no zero-hop here: {why}")),
        }
        comparisons.push(Comparison::InsightRelayed { clients });
        let relayed = |clients: &u32| Comparison::BeforeRelayed { clients: *clients };
        comparisons.extend(self.before.iter().flat_map(|_| self.clients.iter().map(relayed)));
        // Last: what an earlier program pinned in the kernel can outlive it, and then
        // sessions bypass the router that is started next on its address.
        if zerohop::possible().is_ok() {
            comparisons.extend(self.before.iter().map(|_| Comparison::BeforeZeroHop { clients }));
        }
        comparisons.retain(|comparison| self.only.is_empty() || self.only.contains(&comparison.what()));
        (comparisons, warnings)
    }

    fn seconds(&self, comparisons: usize) -> f64 {
        let block = TURNS.len() as f64 * self.turn as f64 / 1e3 + BESIDE_S;
        comparisons as f64 * f64::from(self.blocks) * block
    }

    fn warnings(&self, machine: &Machine) -> Vec<String> {
        let mut warnings = machine.warnings();
        if self.quick {
            warnings.push("a smoke run: it shows that everything works, not how fast".to_owned());
        }
        warnings
    }

    async fn measure(
        &self,
        comparisons: &[Comparison],
        server: &Server,
        sessions: u32,
        machine: &Machine,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Vec<Block>> {
        let (at, options) = (sysbench::target(server.address), self.options());
        tokio::task::spawn_blocking(move || load::tables::prepare(&at, &options, 2, 1, |_| ())).await??;
        let directory = server.directory().join("bench");
        let env = |number: u16| -> anyhow::Result<SubjectEnv> {
            // Of their own, or the two programs would write one configuration and have one another's pins.
            let directory = directory.join(number.to_string());
            std::fs::create_dir_all(&directory).context("making a directory for configurations")?;
            Ok(SubjectEnv {
                server: server.address,
                option_file: server.option_file(),
                first_port: self.port + number * PORTS,
                directory,
                cores: machine.cores,
                sessions,
                haproxy: PathBuf::new(),
                haproxy_newer: None,
                mysql_router: None,
                headroom: PathBuf::new(),
            })
        };
        let ourselves = binary::headroom()?;
        let mut blocks = Vec::new();
        for comparison in comparisons {
            let [ours, other] = comparison.subjects();
            let program = match comparison {
                Comparison::BeforeRelayed { .. } | Comparison::BeforeZeroHop { .. } => self.before.as_ref(),
                _ => None,
            };
            let other_program = program.unwrap_or(&ourselves).clone();
            let mut ours =
                Running::start(ours, &SubjectEnv { headroom: ourselves.clone(), ..env(0)? }).await?;
            let other_site = SubjectEnv { headroom: other_program, ..env(1)? };
            let other = match Running::start(other, &other_site).await {
                Err(error) if matches!(comparison, Comparison::BeforeZeroHop { .. }) => {
                    // What an earlier program pins may have another layout, and then nobody can say who
                    // bypasses it.
                    terminal::complain(&format!(
                        "bypassed sessions of the earlier program cannot be counted: {error:#}"
                    ));
                    ours.stop().await?;
                    continue;
                }
                other => other?,
            };
            let router = ours.pid()?;
            for number in 0..self.blocks {
                tokio::time::sleep(REST).await;
                let before = [ours.past(), other.past()];
                let mut ways =
                    [self.plan(*comparison, ours.address)?, self.plan(*comparison, other.address)?];
                // Who is first has its threads at the server first.
                let swapped = number % 2 == 1;
                if swapped {
                    ways.reverse();
                }
                let pair = Pair {
                    ways,
                    turn: Duration::from_millis(self.turn),
                    router,
                    seed: self.seed + 1000 * u64::from(number),
                    stop: stop.clone(),
                };
                let mut sides = tokio::task::spawn_blocking(move || pair.block()).await??;
                if swapped {
                    sides.reverse();
                }
                let clients = u64::from(comparison.clients());
                let went = |now: Option<u64>, before: Option<u64>| {
                    now.zip(before).is_none_or(|(now, before)| now - before >= clients)
                };
                let as_meant = went(ours.past(), before[0]) && went(other.past(), before[1]);
                let [ours, other] = sides;
                blocks.push(Block { comparison: *comparison, ours, other, as_meant });
            }
            if let Some(row) = Row::of(*comparison, &blocks) {
                terminal::complain(&report::line(&row));
            }
            ours.stop().await?;
            other.stop().await?;
        }
        Ok(blocks)
    }

    fn options(&self) -> Options {
        Options { tables: 1, table_size: self.rows, ..Options::default() }
    }

    fn plan(&self, comparison: Comparison, address: SocketAddr) -> anyhow::Result<Plan> {
        let workload = load::workload::sysbench::workload("oltp_point_select", &self.options());
        let clients = comparison.clients();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Plan {
            workload: Arc::<Workload>::from(workload.context("sysbench's own")?),
            target: sysbench::target(address),
            clients,
            idle: 0,
            read_only: true,
            threads: Plan::usual_threads(clients, cores),
            busy: false,
            data_path: DataPath::Auto,
            arrivals: Arrivals::closed(),
            warm_up: WARM_UP,
            time: Duration::from_millis(self.turn),
            grace: GRACE,
            seed: self.seed,
            objective: None,
        })
    }
}

impl Comparison {
    fn what(self) -> What {
        match self {
            Self::Control { .. } => What::Control,
            Self::ZeroHop { .. } => What::ZeroHop,
            Self::InsightPast { .. } => What::InsightPast,
            Self::InsightRelayed { .. } => What::InsightRelayed,
            Self::BeforeRelayed { .. } | Self::BeforeZeroHop { .. } => What::Before,
        }
    }

    fn clients(self) -> u32 {
        match self {
            Self::Control { clients }
            | Self::ZeroHop { clients }
            | Self::InsightPast { clients }
            | Self::InsightRelayed { clients }
            | Self::BeforeRelayed { clients }
            | Self::BeforeZeroHop { clients } => clients,
        }
    }

    /// What is asked about, and what it is held against.
    fn subjects(self) -> [Subject; 2] {
        match self {
            Self::Control { .. } => [Subject::Direct, Subject::Direct],
            Self::ZeroHop { .. } => [Subject::HeadroomZeroHop, Subject::Direct],
            Self::InsightPast { .. } => [Subject::HeadroomZeroHopInsight, Subject::HeadroomZeroHop],
            Self::InsightRelayed { .. } => [Subject::Headroom, Subject::HeadroomInsightOff],
            Self::BeforeRelayed { .. } => [Subject::Headroom, Subject::Headroom],
            Self::BeforeZeroHop { .. } => [Subject::HeadroomZeroHopInsight, Subject::HeadroomZeroHopInsight],
        }
    }
}

impl Row {
    fn of(comparison: Comparison, blocks: &[Block]) -> Option<Self> {
        let all: Vec<&Block> = blocks.iter().filter(|block| block.comparison == comparison).collect();
        let of: Vec<&Block> = all.iter().copied().filter(|block| block.as_meant).collect();
        let middle = |figure: &dyn Fn(&Block) -> f64| {
            plan::quantile::median(&of.iter().map(|block| figure(block)).collect::<Vec<_>>())
        };
        let ratio = |figure: fn(&Side) -> f64| {
            Ratio::of(&of.iter().map(|b| (figure(&b.ours), figure(&b.other))).collect::<Vec<_>>())
        };
        // A mean and not a median: CPU time is counted in ticks, and most turns of a router that rests have
        // none.
        let mean = |side: fn(&Block) -> &Side| {
            let shares: Option<Vec<f64>> = of.iter().map(|block| side(block).router_cpu).collect();
            shares.map(|shares| shares.iter().sum::<f64>() / shares.len() as f64)
        };
        Some(Self {
            comparison,
            ours_qps: middle(&|block| block.ours.qps)?,
            other_qps: middle(&|block| block.other.qps)?,
            qps: ratio(|side| side.qps),
            p50: ratio(|side| side.p50_ms),
            p99: ratio(|side| side.p99_ms),
            router_cpu: mean(|block| &block.ours).zip(mean(|block| &block.other)),
            left_out: all.len() - of.len(),
        })
    }
}
