//! `headroom-bench switchover`: the primary is moved again and again while clients write through two routers;
//! what they were told is held against what the servers have, and what they waited is told for each move.

mod by_hand;
mod clients;
pub(super) mod failover;
mod fixture;
mod history;
mod report;
mod under_writes;

use super::output;
use ::switchover::step::State;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use clients::{Response, Writers};
use fixture::{FixtureSpec, MoveFixture};
use history::Anomalies;
use probe::Machine;
use report::{Move, Report};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use term::{interrupted, terminal};
use under_writes::{LEAD, QUICK, QUIET_LOOK, WriteArgs};

/// Longer than any move may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// A move that takes longer hangs.
const MOVE: Duration = Duration::from_secs(90);

/// Flags of `headroom-bench switchover`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SwitchoverBenchArgs {
    /// How often the primary is moved.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    moves: u32,
    #[command(flatten)]
    writes: WriteArgs,
    /// Server program [default: MariaDB of this machine]; target/mysql/mysqld for MySQL.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Let sessions bypass the routers where the kernel allows it.
    #[arg(long)]
    zero_hop: bool,
    /// Beside each move another one by hand, through HAProxy, in turn.
    #[arg(long, conflicts_with = "zero_hop")]
    by_hand: bool,
}

/// Measures, writes the run's directory, prints the tables; "no" when a promise was missed.
pub(crate) async fn run(mut args: SwitchoverBenchArgs) -> anyhow::Result<ExitCode> {
    if args.by_hand {
        return by_hand::run(args).await;
    }
    if args.writes.quick {
        args.moves = QUICK;
    }
    let what = if args.program.is_some() { "switchover-mysql" } else { "switchover" };
    let directory = output::Directory::new(args.writes.out.as_deref(), what, args.writes.quick)?;
    terminal::complain(&format!(
        "{} moves under {} transactions a second over {} clients, about {:.0} min. Result: {}",
        args.moves,
        args.writes.rate,
        args.writes.clients,
        f64::from(args.moves) * 2.5 / 60.0 + 0.5,
        directory.path().display()
    ));
    let mut machine = Machine::look(&[], QUIET_LOOK).await?;
    let mut fixture = MoveFixture::up(&output::scratch(), &args.wanted()).await?;
    machine.programs.push(("server".to_owned(), fixture.version()));
    let measured = tokio::select! {
        measured = measure(&args, &mut fixture) => measured,
        () = interrupted() => Err(anyhow!("interrupted: everything that was started is stopped")),
    };
    fixture.down().await?;
    let Measured { moves, anomalies, errors, transactions } = measured?;
    let report = Report::new(directory.date(), machine, &args, moves, anomalies, errors, transactions);
    let met = crate::promise::all_met(&report.promises);
    output::finish(&directory.create()?, "run.json", &report, &report.markdown(), met, args.writes.json)
}

impl SwitchoverBenchArgs {
    fn wanted(&self) -> FixtureSpec {
        let (clients, zero_hop, program) = (self.writes.clients, self.zero_hop, self.program.clone());
        FixtureSpec { clients, zero_hop, program, semi_sync: false, round_trip: None }
    }
}

struct Measured {
    moves: Vec<Move>,
    anomalies: Anomalies,
    errors: std::collections::BTreeMap<String, u64>,
    transactions: u64,
}

async fn measure(args: &SwitchoverBenchArgs, fixture: &mut MoveFixture) -> anyhow::Result<Measured> {
    let writers = Writers::start(&fixture.writers(), args.writes.clients, args.writes.rate, PATIENCE);
    tokio::time::sleep(LEAD).await;
    let mut spans = Vec::new();
    for number in 1..=args.moves {
        let candidate = fixture.next_candidate(number);
        let begun = Instant::now();
        let (outcome, remarks) = tokio::time::timeout(MOVE, fixture.switch(&candidate))
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
    let servers = fixture.finals().await.context("reading what the servers have")?;
    let anomalies = under_writes::anomalies(&seen, &servers, true);
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
