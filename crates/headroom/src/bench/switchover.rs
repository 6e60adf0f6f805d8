//! `headroom bench switchover`: the primary is moved again and again while clients write through two routers; what they
//! were told is held against what the servers have, and what they waited is told for each move.

mod clients;
pub(super) mod failover;
mod history;
mod report;
mod stage;

use super::output;
use ::switchover::step::State;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use clients::{Response, Writers};
use history::{Anomalies, check};
use probe::Machine;
use report::{Move, Report};
use stage::{Stage, Wanted};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use term::{interrupted, terminal};

/// Longer than any move may take.
const PATIENCE: Duration = Duration::from_secs(60);
const QUIET_LOOK: Duration = Duration::from_secs(2);
/// Writers go on for this long before the first move and after the last.
const LEAD: Duration = Duration::from_secs(3);
/// A move that takes longer hangs.
const MOVE: Duration = Duration::from_secs(90);

/// Flags of `headroom bench switchover`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SwitchoverBenchArgs {
    /// How often the primary is moved.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    moves: u32,
    /// Clients that write, half of them through each router.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(2..=1000))]
    clients: u32,
    /// Transactions a second that all clients together begin.
    #[arg(long, default_value_t = 200.0)]
    rate: f64,
    /// Server program [default: MariaDB of this machine]; target/mysql/mysqld for MySQL.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Let sessions bypass the routers where the kernel allows it.
    #[arg(long)]
    zero_hop: bool,
    /// A smoke run: three moves.
    #[arg(long)]
    quick: bool,
    /// Where the run's files go [default: benchmarks/runs/YYYY-MM-DD-switchover, with --quick target/bench].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print everything as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// Measures, writes the run's directory, prints the tables; "no" when a promise was missed.
pub(crate) async fn run(mut args: SwitchoverBenchArgs) -> anyhow::Result<ExitCode> {
    if args.quick {
        args.moves = 3;
    }
    let what = if args.program.is_some() { "switchover-mysql" } else { "switchover" };
    let directory = output::Directory::new(args.out.as_deref(), what, args.quick)?;
    terminal::complain(&format!(
        "{} moves under {} transactions a second over {} clients, about {:.0} min. Result: {}",
        args.moves,
        args.rate,
        args.clients,
        f64::from(args.moves) * 2.5 / 60.0 + 0.5,
        directory.path().display()
    ));
    let mut machine = Machine::look(&[], QUIET_LOOK).await?;
    let mut stage = Stage::up(&output::scratch(), &args.wanted()).await?;
    machine.programs.push(("server".to_owned(), stage.version()));
    let measured = tokio::select! {
        measured = measure(&args, &mut stage) => measured,
        () = interrupted() => Err(anyhow!("interrupted: everything that was started is stopped")),
    };
    stage.down().await?;
    let Measured { moves, anomalies, errors, transactions } = measured?;
    let report = Report::new(directory.date(), machine, &args, moves, anomalies, errors, transactions);
    let met = report.promises.iter().all(|promise| promise.met);
    output::finish(&directory.create()?, "run.json", &report, &report.markdown(), met, args.json)
}

impl SwitchoverBenchArgs {
    fn wanted(&self) -> Wanted {
        let (clients, zero_hop, program) = (self.clients, self.zero_hop, self.program.clone());
        Wanted { clients, zero_hop, program, semi_sync: false }
    }
}

struct Measured {
    moves: Vec<Move>,
    anomalies: Anomalies,
    errors: std::collections::BTreeMap<String, u64>,
    transactions: u64,
}

async fn measure(args: &SwitchoverBenchArgs, stage: &mut Stage) -> anyhow::Result<Measured> {
    let writers = Writers::start(&stage.writers(), args.clients, args.rate, PATIENCE);
    tokio::time::sleep(LEAD).await;
    let mut spans = Vec::new();
    for number in 1..=args.moves {
        let candidate = stage.next_candidate(number);
        let begun = Instant::now();
        let (outcome, remarks) = tokio::time::timeout(MOVE, stage.switch(&candidate))
            .await
            .map_err(|_| anyhow!("move {number} hangs"))??;
        let ended = Instant::now();
        if outcome.state != State::Done {
            terminal::complain(&format!("move {number} to {candidate}: {:?}", outcome.state));
        }
        spans.push((number, candidate, begun, ended, outcome, remarks));
        if number % 10 == 0 {
            terminal::complain(&format!("{number} of {} moves", args.moves));
        }
    }
    tokio::time::sleep(LEAD).await;
    let seen = writers.stop().await;
    let mut anomalies = Anomalies::default();
    for (server, found) in stage.finals().await.context("reading what the servers have")? {
        let on_this = check(&seen.clients, &found);
        if !on_this.none() {
            terminal::complain(&format!("on {server}: {on_this:?}"));
        }
        anomalies.add(on_this);
    }
    let moves = spans
        .into_iter()
        .map(|(number, candidate, begun, ended, outcome, remarks)| Move {
            number,
            candidate,
            done: outcome.state == State::Done,
            held_ms: outcome.writes_held_ms,
            waited_ms: longest(&seen.responses, begun, ended),
            steps: outcome.steps,
            routers: outcome.routers,
            remarks: [outcome.remarks, remarks].concat(),
        })
        .collect();
    let transactions = seen.responses.len() as u64;
    if transactions == 0 {
        bail!("no transaction was made");
    }
    Ok(Measured { moves, anomalies, errors: seen.errors, transactions })
}

/// The longest response of what was due during a move: what the client that fared worst had to wait.
fn longest(responses: &[Response], begun: Instant, ended: Instant) -> Option<f64> {
    let during = responses.iter().filter(|response| response.due >= begun && response.due <= ended);
    during.map(|response| response.took.as_secs_f64() * 1e3).max_by(f64::total_cmp)
}
