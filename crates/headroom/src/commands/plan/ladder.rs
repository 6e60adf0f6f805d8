//! `headroom plan ladder`: more load or more cores, from a ladder of rates that is sent to a server.

use super::KeepArgs;
use super::load::{GrowthArgs, finish};
use crate::commands::knob::credentials_as;
use crate::commands::load::{TargetArgs, WorkloadArgs};
use crate::environment::Environment;
use clap::Args;
use load::Plan;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use term::terminal;
use whatif::ladder::Ladder;
use whatif::load_answer::answer;
use whatif::server::Server;

const EXAMPLES: &str = "\
Examples:
  headroom plan ladder oltp_read_only --server replica1 --database sbtest --table-size 100000
  headroom plan ladder shop.toml --server copy1 --growth 2,4 --cores-then 16,32 --objective-ms 20
  headroom plan ladder shop.toml --server copy1 --clients 1,2,4,8,16
      Closed loops too: the scalability law as well. These load the server fully.

Exit code 1: nothing is predicted (the text says why).";

/// Send a ladder of rates, and predict from it what more load or more cores would mean.
///
/// Warning: it loads the server up to half of what its cores can do. Use a replica that nobody needs
/// meanwhile.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LadderArgs {
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    target: TargetArgs,
    /// Length of a step.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = fleet::parse_duration)]
    step: Duration,
    /// Rounds of all steps.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=50))]
    rounds: u32,
    /// Rates in transactions a second [default: 10 to 50 % of what the cores can do].
    #[arg(long, value_name = "PER_SECOND", value_delimiter = ',')]
    rates: Vec<f64>,
    /// Closed loops of these numbers of clients too, for the scalability law.
    #[arg(long, value_name = "CLIENTS", value_delimiter = ',')]
    clients: Vec<u32>,
    /// Connections of the open loops.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Cores that the server may use [default: read from its process, where it runs here].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    cores: Option<u32>,
    #[command(flatten)]
    growth: GrowthArgs,
    #[command(flatten)]
    keep: KeepArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Does it.
pub(crate) async fn run(args: LadderArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let plan = args.plan(environment)?;
    let ladder = Ladder {
        step: args.step,
        rounds: args.rounds,
        rates: args.rates.clone(),
        clients: args.clients.clone(),
        cores: args.cores,
    };
    let (workload, subject) = (plan.workload.name.clone(), args.target.words());
    let who = args.target.login();
    let who = credentials_as(who.0, who.1, environment)?;
    let address = plan.target.readers.first().cloned();
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    tokio::spawn(async move {
        term::interrupted().await;
        flag.store(true, Ordering::Relaxed);
    });
    terminal::complain(&format!("about {:.0} s", ladder.length().as_secs_f64()));
    let climbed = tokio::task::spawn_blocking(move || {
        let mut server = address.and_then(|address| Server::open(&address, &who).ok());
        ladder.climb(&plan, server.as_mut(), &stop, terminal::complain)
    });
    let climbed = climbed.await??;
    climbed.notes.iter().for_each(|note| terminal::complain(note));
    let question = args.growth.question(subject, workload, climbed.cores, &climbed.seen)?;
    finish(&answer(&question, climbed.seen), &args.keep, args.json, environment)
}

impl LadderArgs {
    fn plan(&self, environment: &Environment) -> anyhow::Result<Plan> {
        Ok(Plan::new(
            Arc::new(self.workload.named()?.workload()),
            self.target.resolve(environment)?,
            self.connections,
            self.step,
        ))
    }
}
