//! `headroom-bench`: what proves the figures that Headroom publishes: the relay beside HAProxy and a direct
//! connection, the load generator beside sysbench, the demo's ratios, switchovers under writes, verdicts on
//! bottlenecks really made. Never shipped, and used by no crate; it starts `headroom` as a child process.
//! What is measured and how to read it: docs/guide/benchmarks.md.
//!
//! It uses `agent`, `console`, `fleet`, `insight`, `lab`, `load`, `observe`, `plan`, `probe`, `switchover`,
//! `term`, `trial`, `wire` and `zerohop`. Read first:
//!
//! * `output.rs`: where a run's files go, and how it ends;
//! * `promise.rs`: what was asked beside what was measured;
//! * `relay.rs`: the relay table, from subjects to samples.

mod agent;
mod asking;
mod binary;
mod bound;
mod cgroup;
mod client;
mod demo;
mod forecast;
mod generator;
mod load;
mod measure;
mod output;
mod pair;
mod process;
mod progress;
mod promise;
mod relay;
mod replay;
mod report;
mod room;
mod sample;
mod schedule;
mod server;
mod soak;
mod stalls;
mod subject;
mod switchover;
mod sysbench;
mod trial;
mod verdict;
mod volume;

use clap::{Args, Parser, Subcommand};
use schedule::{Condition, Plan, Subject};
use std::path::PathBuf;
use std::process::ExitCode;
use term::{exit, terminal};

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 something that was asked was not met; 2 error; 64 wrong command line.

What is measured and how to read it: docs/guide/benchmarks.md. It starts the headroom beside it: cargo build --release.";

/// What proves Headroom's figures: each bench is one run on this machine, kept with its raw data.
#[derive(Parser, Clone, Debug)]
#[command(name = "headroom-bench", version, after_help = EXIT_CODES, max_term_width = 110)]
struct Cli {
    /// What to measure.
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// The relay: direct, HAProxy and headroom under the same loads, interleaved.
    Relay(RelayArgs),
    /// What zero-hop and insight cost: two ways to one server in turn, over sessions that stay open.
    Pair(pair::PairArgs),
    /// The demo's promises, over several demos.
    Demo(DemoBenchArgs),
    /// The load generator beside sysbench, interleaved.
    Load(generator::GeneratorArgs),
    /// Record and replay: the same statements, at their moments.
    Replay(replay::ReplayBenchArgs),
    /// The search for the largest rate, against servers whose limit is known.
    Measure(measure::MeasureBenchArgs),
    /// Predictions of `headroom plan` beside what is known: simulated servers, random instances, one core to
    /// two.
    Plan(forecast::ForecastArgs),
    /// Relay and demo, one after the other.
    All(AllArgs),
    /// What the agent costs, beside node_exporter and mysqld_exporter.
    Agent(agent::AgentBenchArgs),
    /// What routers that only ask cost a server, and how soon all know of a promotion.
    Asking(asking::AskingBenchArgs),
    /// The primary moved again and again under writes: what clients waited, and whether anything was lost.
    Switchover(switchover::SwitchoverBenchArgs),
    /// The primary dies again and again under writes: time to notice, decide, promote, first write; nothing
    /// lost.
    Failover(switchover::failover::FailoverBenchArgs),
    /// Verdicts: bottlenecks really made, and which is named.
    Verdict(verdict::VerdictArgs),
    /// A real trial over at least 64 cells, one over identical cells, and simulated ones with the noise seen.
    Trial(trial::TrialBenchArgs),
    /// The router under load for an hour while servers die and come back: no byte changed, memory flat.
    Soak(soak::SoakArgs),
    /// Replicas of unequal speed, pools of unequal habits: does each replica get what it can carry?
    Room(room::RoomArgs),
}

/// Flags of `headroom-bench relay`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RelayArgs {
    /// How often everything is measured; ratios are taken within a round.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of each load.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Clients at once, one condition each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 256],
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    clients: Vec<u32>,
    /// Idle sessions beside 16 clients, a condition of its own; 0 leaves it out.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(..=20_000))]
    idle: u32,
    /// Connect-query-close cycles of each round; 0 leaves them out.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(..=5000))]
    connects: u32,
    /// Rows of the table.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rows: u32,
    /// A smoke run of about a minute: one round of 2 s, to see that everything works.
    #[arg(long)]
    quick: bool,
    /// The first of six ports on 127.0.0.1 that are taken for the run.
    #[arg(long, default_value_t = 23_300, value_parser = clap::value_parser!(u16).range(1024..=32_000))]
    port: u16,
    /// From which the order is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the run's files go [default: benchmarks/runs/relay/YYYY-MM-DD-relay, with --quick target/bench].
    #[arg(long)]
    out: Option<PathBuf>,
    /// HAProxy to compare with [default: the distribution's].
    #[arg(long)]
    haproxy: Option<PathBuf>,
    /// A newer HAProxy, as a further subject [default: target/haproxy-new/haproxy where it is, not with
    /// --quick].
    #[arg(long)]
    haproxy_newer: Option<PathBuf>,
    /// MySQL Router, as a further subject [default: target/mysqlrouter/mysqlrouter where it is, not with
    /// --quick].
    #[arg(long)]
    mysql_router: Option<PathBuf>,
    /// Only these of the subjects, by name: direct, haproxy, haproxy-newer, mysql-router, headroom,
    /// headroom-insight-off, headroom-zero-hop, headroom-zero-hop-insight. Fewer of them make more rounds
    /// possible, which narrow intervals need.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    subjects: Vec<String>,
    /// Measure HAProxy twice: the second should differ by chance alone, which is a test of the method.
    #[arg(long)]
    control: bool,
    /// Print everything as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// Flags of `headroom-bench demo`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DemoBenchArgs {
    /// How many demos.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=50))]
    repetitions: u32,
    /// Where the run's files go [default: benchmarks/runs/demo/YYYY-MM-DD-demo].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print medians as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Flags of `headroom-bench all`.
#[derive(Args, Clone, Debug)]
struct AllArgs {
    #[command(flatten)]
    relay: RelayArgs,
    /// How many demos.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=50))]
    repetitions: u32,
}

impl AllArgs {
    /// With `--out` each gets a directory of its own below it.
    fn split(self) -> (RelayArgs, DemoBenchArgs) {
        let below = |what: &str| self.relay.out.as_ref().map(|out| out.join(what));
        let demo = DemoBenchArgs { repetitions: self.repetitions, out: below("demo"), json: self.relay.json };
        (RelayArgs { out: below("relay"), ..self.relay }, demo)
    }
}

impl RelayArgs {
    fn plan(&self, rivals: &[Subject]) -> anyhow::Result<Plan> {
        let mut subjects = vec![Subject::Direct, Subject::Haproxy];
        subjects.extend(rivals);
        subjects.extend(self.control.then_some(Subject::HaproxyAgain));
        subjects.extend([Subject::HeadroomInsightOff, Subject::Headroom]);
        let known: Vec<&str> = subjects.iter().map(|subject| subject.name()).collect();
        if let Some(unknown) = self.subjects.iter().find(|name| !known.contains(&name.as_str())) {
            anyhow::bail!("no subject {unknown:?} on this machine; there are {}", known.join(", "));
        }
        subjects.retain(|s| self.subjects.is_empty() || self.subjects.iter().any(|name| name == s.name()));
        let mut conditions: Vec<Condition> =
            self.clients.iter().map(|&clients| Condition::Load { clients, idle: 0 }).collect();
        conditions.extend((self.idle > 0).then_some(Condition::Load { clients: 16, idle: self.idle }));
        conditions.extend((self.connects > 0).then_some(Condition::Connect { cycles: self.connects }));
        let (rounds, seconds) = if self.quick { (1, 2) } else { (self.rounds, self.seconds) };
        Ok(Plan { subjects, conditions, rounds, seconds, warm_up_seconds: 1, seed: self.seed })
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { exit::usage() } else { exit::DONE };
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            terminal::complain(&format!("headroom-bench: cannot start: {error}"));
            return exit::error();
        }
    };
    let outcome = runtime.block_on(run(cli.what));
    runtime.shutdown_background();
    outcome.unwrap_or_else(|error| {
        terminal::complain(&format!("headroom-bench: {}", exit::reason(&error)));
        if error.is::<exit::UsageError>() { exit::usage() } else { exit::error() }
    })
}

/// Runs one of them.
async fn run(what: What) -> anyhow::Result<ExitCode> {
    match what {
        What::Relay(args) => relay::run(args).await,
        What::Pair(args) => pair::run(args).await,
        What::Demo(args) => demo::run(args).await,
        What::Load(args) => generator::run(args).await,
        What::Replay(args) => replay::run(args).await,
        What::Measure(args) => measure::run(args).await,
        What::Plan(args) => forecast::run(args).await,
        What::Agent(args) => agent::run(args).await,
        What::Asking(args) => asking::run(args).await,
        What::Switchover(args) => switchover::run(args).await,
        What::Failover(args) => switchover::failover::run(args).await,
        What::Verdict(args) => verdict::run(args).await,
        What::Trial(args) => trial::run(args).await,
        What::Soak(args) => soak::run(args).await,
        What::Room(args) => room::run(args).await,
        What::All(args) => {
            let (relay, demo) = args.split();
            relay::run(relay).await?;
            demo::run(demo).await
        }
    }
}
