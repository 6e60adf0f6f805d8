//! `headroom plan memory`: the buffer pool at several sizes. Flags become an experiment here; the crate
//! `whatif` runs it.

use super::KeepArgs;
use crate::commands::knob::{blocking, credentials_as};
use crate::commands::load::{TargetArgs, WorkloadArgs};
use crate::environment::Environment;
use anyhow::Context;
use clap::Args;
use load::{Arrivals, Plan};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use term::{exit, terminal};
use whatif::memory::{Experiment, PoolServer, SIZES, answer, parse_sizes};
use whatif::words::parse_above_zero;

const EXAMPLES: &str = "\
Examples:
  headroom plan memory shop.toml --server replica3 --database shop --sizes 16G,24G,32G,48G --rate 400
  headroom plan memory oltp_point_select --server replica3 --table-size 2000000 --sizes 64M,128M,256M

The server must be able to grow to the largest size: on MariaDB from 10.11.12, 11.4.6 and 11.8.2 on, start it with
innodb_buffer_pool_size_max.

Exit code 1: the pool could not be put back (headroom knob restore tries again).";

/// Measure what another size of the buffer pool would mean.
///
/// Warning: it resizes the buffer pool of the server again and again and loads it. Use a replica that is out
/// of rotation. The original size is in the journal of settings, on disk, before the first change: it is put
/// back at the end, on Ctrl-C, and after a kill by headroom knob restore.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MemoryArgs {
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    target: TargetArgs,
    /// Sizes of the pool, 3 to 7, such as 16G; today's should be among them.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', required = true)]
    sizes: Vec<String>,
    /// Transactions a second (open loop) [default: a closed loop].
    #[arg(long, value_name = "PER_SECOND", value_parser = parse_above_zero)]
    rate: Option<f64>,
    /// Pause of a client between two transactions (closed loop).
    #[arg(long, value_name = "DURATION", value_parser = fleet::parse_duration, conflicts_with = "rate")]
    think: Option<Duration>,
    /// Clients: the most transactions at a time.
    #[arg(long, short, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: u32,
    /// Length of a window.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = fleet::parse_duration)]
    window: Duration,
    /// Windows that are measured at each size.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=100))]
    windows: u32,
    /// A size is warmed up for at most this long.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = fleet::parse_duration)]
    warm_most: Duration,
    /// The directory of the journal of settings [default: /var/lib/headroom/knobs for root, else
    /// ~/.local/share/headroom/knobs].
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    #[command(flatten)]
    keep: KeepArgs,
}

/// Does it.
pub(crate) async fn run(args: MemoryArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let experiment = args.experiment()?;
    let plan = args.plan(environment)?;
    let address = plan.target.readers.first().cloned().context("name the server with --server")?;
    let workload = format!("{}, {}", plan.workload.in_words(), experiment.load_in_words(args.clients));
    let subject = args.target.words();
    let (user, file) = args.target.login();
    let who = credentials_as(user, file, environment)?;
    let journal = args.journal.clone().map_or_else(|| environment.journals("knobs"), Ok)?;
    let command = "headroom plan memory".to_owned();
    let server = PoolServer { address, who, journal, command };
    let listening = term::StopFlag::listen(|| ());
    let stop = listening.flag();
    terminal::complain(&format!("about {:.0} s, and the time to warm up", experiment.length().as_secs_f64()));
    let measured = blocking(move || Ok(experiment.run(&server, &plan, &stop, terminal::complain)?)).await?;
    args.keep.finish(&answer(subject, workload, measured)?, environment)
}

impl MemoryArgs {
    fn experiment(&self) -> anyhow::Result<Experiment> {
        let arrivals = match self.rate {
            None => Arrivals::Closed { think: self.think.unwrap_or_default() },
            Some(rate) => Arrivals::poisson(rate),
        };
        Ok(Experiment {
            sizes: parse_sizes(&self.sizes, SIZES)
                .map_err(|why| exit::usage_error(format!("--sizes: {why}")))?,
            window: self.window,
            windows: self.windows,
            warm_most: self.warm_most,
            arrivals,
        })
    }

    fn plan(&self, environment: &Environment) -> anyhow::Result<Plan> {
        let workload = Arc::new(self.workload.named()?.workload());
        let target = self.target.resolve(environment)?;
        // Mirrored or generated reads: whatever changes data has no place here.
        Ok(Plan { read_only: true, ..Plan::new(workload, target, self.clients, self.window) })
    }
}
