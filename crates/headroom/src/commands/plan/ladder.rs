//! `headroom plan ladder`: more load or more cores, from a ladder of rates that is sent to a server.

use super::load::GrowthArgs;
use super::{KeepArgs, none};
use crate::commands::knob::blocking;
use crate::commands::load::{TargetArgs, WorkloadArgs};
use crate::environment::Environment;
use clap::Args;
use load::Plan;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use term::{StopFlag, terminal};
use whatif::ladder::{Ladder, LadderError, ServerObservations};
use whatif::words::parse_above_zero;

/// Statements of others are counted this long, for today's load.
const COUNT_OTHERS_S: u32 = 5;

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
    climb: ClimbArgs,
    /// Closed loops of these numbers of clients too, for the scalability law.
    #[arg(long, value_name = "CLIENTS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: Vec<u32>,
    #[command(flatten)]
    growth: GrowthArgs,
    #[command(flatten)]
    keep: KeepArgs,
}

/// The ladder that is sent.
#[derive(Args, Debug, Clone)]
pub(crate) struct ClimbArgs {
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Length of a step.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = fleet::parse_duration)]
    step: Duration,
    /// Rounds of all steps.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=50))]
    rounds: u32,
    /// Rates in transactions a second [default: 10 to 50 % of what the server can do].
    #[arg(long, value_name = "PER_SECOND", value_delimiter = ',', value_parser = parse_above_zero)]
    rates: Vec<f64>,
    /// Connections of the open loops.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Cores that the server may use [default: read from its process, where it runs here].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    cores: Option<u32>,
}

/// Does it.
pub(crate) async fn run(args: LadderArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    match args.climb.climb(args.clients.clone(), None, args.growth.current, environment).await {
        Ok(climbed) => args.keep.finish(&args.growth.answer(climbed.cores, climbed.of), environment),
        Err(error) => refused(error, args.keep.json),
    }
}

/// A server that others keep too busy is an answer; whatever else went wrong is an error.
pub(super) fn refused(error: anyhow::Error, json: bool) -> anyhow::Result<ExitCode> {
    if matches!(error.downcast_ref(), Some(LadderError::Others { .. })) {
        return none("prediction", error, json);
    }
    Err(error)
}

impl ClimbArgs {
    pub(super) async fn climb(
        &self,
        clients: Vec<u32>,
        disk_reads_per_s: Option<f64>,
        current: Option<f64>,
        environment: &Environment,
    ) -> anyhow::Result<ServerObservations> {
        let listening = StopFlag::listen(|| ());
        let stop = listening.flag();
        let workload = Arc::new(self.workload.named()?.workload());
        let target = self.target.resolve(environment)?;
        let plan = Plan::new(workload, target, self.connections, self.step);
        let (step, rounds, rates, cores) = (self.step, self.rounds, self.rates.clone(), self.cores);
        let count_others_s = current.is_none().then_some(COUNT_OTHERS_S);
        let ladder = Ladder { step, rounds, rates, clients, cores, disk_reads_per_s, count_others_s };
        let subject = self.target.words();
        let who = self.target.credentials(environment)?;
        terminal::complain(&format!("about {:.0} s", ladder.length().as_secs_f64()));
        let observed =
            blocking(move || Ok(ladder.observe(&plan, &who, subject, &stop, terminal::complain)?));
        let observed = observed.await?;
        observed.of.notes.iter().for_each(|note| terminal::complain(note));
        Ok(observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct PlanLadder {
        #[command(flatten)]
        ladder: LadderArgs,
    }

    #[test]
    fn rates_and_clients_that_no_load_can_have_are_refused_before_anything_is_sent() {
        let read = |flag: &str| {
            let words = ["headroom", "oltp_read_only", "--server", "db1:3306", flag];
            PlanLadder::try_parse_from(words).map(|line| (line.ladder.climb.rates, line.ladder.clients))
        };
        // Of a rate of 0 or below every arrival is due at once, and the step would never end.
        for flag in
            ["--rates=0", "--rates=100,-50", "--rates=nan", "--rates=inf", "--clients=0", "--clients=8,0"]
        {
            assert!(read(flag).is_err(), "{flag}");
        }
        assert_eq!(read("--rates=100,50.5").unwrap().0, [100.0, 50.5]);
        assert_eq!(read("--clients=1,16").unwrap().1, [1, 16]);
    }

    #[test]
    fn a_server_that_others_keep_busy_is_no_for_an_answer_and_no_error() {
        assert!(refused(LadderError::Others { share: 0.3 }.into(), false).is_ok());
        assert!(refused(LadderError::Interrupted.into(), false).is_err());
    }
}
