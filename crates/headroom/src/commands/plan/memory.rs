//! `headroom plan memory`: the buffer pool at several sizes. Flags become an experiment here; the crate
//! `whatif` runs it.

use super::{KeepArgs, none};
use crate::commands::knob::blocking;
use crate::commands::load::{TargetArgs, WorkloadArgs};
use crate::environment::Environment;
use crate::key::KeyArgs;
use crate::reads;
use clap::Args;
use fleet::Address;
use load::replay::Reads;
use load::{Arrivals, Plan};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use term::{exit, terminal};
use whatif::memory::{self, Experiment, MemoryAnswer, MemoryError, PoolServer, SIZES, parse_sizes};
use whatif::pool_load::PoolLoad;
use whatif::words::parse_above_zero;

const EXAMPLES: &str = "\
Examples:
  headroom plan memory shop.toml --server replica3 --database shop --sizes 16G,24G,32G,48G --rate 400
  headroom plan memory oltp_point_select --server replica3 --table-size 2000000 --sizes 64M,128M,256M
  headroom plan memory --server replica3 --sizes 16G,24G,32G --replay monday.hrec --replay-option-file reads.cnf

The server must be able to grow to the largest size: on MariaDB from 10.11.12, 11.4.6 and 11.8.2 on, start it with
innodb_buffer_pool_size_max.

Exit code 1: the pool, or a setting that a killed process left, could not be put back (headroom knob restore tries
again).";

/// Measure what another size of the buffer pool would mean.
///
/// Warning: it resizes the buffer pool of the server again and again and loads it. Use a replica that is out
/// of rotation. The original size is in the journal of settings, on disk, before the first change: it is put
/// back at the end, on Ctrl-C, and after a kill by headroom knob restore.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES, mut_arg("name", |workload| workload.required(false)))]
pub(crate) struct MemoryArgs {
    #[command(flatten)]
    workload: Option<WorkloadArgs>,
    /// Instead of a workload: send the reads of this recording (headroom record), again and again at their
    /// own pace. Nothing that writes is sent, and the server is told to refuse it.
    #[arg(
        long,
        value_name = "RECORDING",
        requires = "replay_option_file",
        conflicts_with_all = ["name", "rate", "think", "clients", "window"]
    )]
    replay: Option<PathBuf>,
    /// Option file with the account that sends them: it may read the tables.
    #[arg(long, value_name = "FILE", requires = "replay")]
    replay_option_file: Option<PathBuf>,
    #[command(flatten)]
    key: KeyArgs,
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
    /// Length of a window; of a recording, one pass.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = fleet::parse_duration)]
    window: Duration,
    /// Windows that are measured at each size.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=100))]
    windows: u32,
    /// A size is warmed up for at most this long [default: 5m; twelve passes of a longer recording].
    #[arg(long, value_name = "DURATION", value_parser = fleet::parse_duration)]
    warm_most: Option<Duration>,
    /// The directory of the journal of settings [default: /var/lib/headroom/knobs for root, else
    /// ~/.local/share/headroom/knobs].
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    #[command(flatten)]
    keep: KeepArgs,
}

/// Does it.
pub(crate) async fn run(args: MemoryArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let address = args.target.server().ok_or_else(|| exit::usage_error("name the server with --server"))?;
    let load = args.load(&address, environment)?;
    let experiment = args.experiment(load.pass())?;
    let workload = load.in_words(&experiment, args.clients);
    let closed = args.replay.is_none() && args.rate.is_none() && args.think.unwrap_or_default().is_zero();
    let subject = args.target.words();
    let who = args.target.credentials(environment)?;
    let journal = args.journal.clone().map_or_else(|| environment.journals("knobs"), Ok)?;
    let command = "headroom plan memory".to_owned();
    let server = PoolServer { address, who, journal, command };
    let listening = term::StopFlag::listen(|| ());
    let stop = listening.flag();
    terminal::complain(&format!("about {:.0} s, and the time to warm up", experiment.length().as_secs_f64()));
    let answer = blocking(move || {
        let measured = experiment.run(&server, &load, &stop, terminal::complain);
        Ok(measured.and_then(|measured| measured.answer(subject, workload)))
    });
    let answer = answer.await?;
    if answer.as_ref().map_or_else(is_not_back, |answer| !answer.is_back) {
        terminal::complain(&format!(
            "to try again to put it back: {}",
            args.target.restore_line(args.journal.as_deref())
        ));
    }
    match answer {
        Ok(answer) => args.keep.finish(&MemoryAnswer { closed, ..answer }, environment),
        Err(why) if is_not_back(&why) => none("prediction", why, args.keep.json),
        Err(why) => Err(why.into()),
    }
}

/// Whether a setting is not as it was: "no" is the answer then, not an error.
fn is_not_back(why: &MemoryError) -> bool {
    matches!(why, MemoryError::NotBack { .. } | MemoryError::LeftBehind { .. })
}

impl MemoryArgs {
    /// `pass`: how long one of a recording takes.
    fn experiment(&self, pass: Option<Duration>) -> anyhow::Result<Experiment> {
        let arrivals = match self.rate {
            None => Arrivals::Closed { think: self.think.unwrap_or_default() },
            Some(rate) => Arrivals::poisson(rate),
        };
        let window = pass.unwrap_or(self.window);
        let warm_most = memory::warm_most(self.warm_most, pass)
            .map_err(|why| exit::usage_error(format!("--warm-most: {why}")))?;
        Ok(Experiment {
            sizes: parse_sizes(&self.sizes, SIZES)
                .map_err(|why| exit::usage_error(format!("--sizes: {why}")))?,
            window,
            windows: self.windows,
            warm_most,
            arrivals,
        })
    }

    fn load(&self, server: &Address, environment: &Environment) -> anyhow::Result<PoolLoad> {
        let Some(workload) = self.workload.as_ref().filter(|_| self.replay.is_none()) else {
            let file = self.replay.as_deref().ok_or_else(|| {
                exit::usage_error(
                    "name a workload, or a recording with --replay; headroom load list names workloads",
                )
            })?;
            let option_file = self.replay_option_file.as_deref();
            let Reads { script, plan } = reads::open(file, &self.key, server, option_file, environment)?;
            let name = file.file_name().unwrap_or(file.as_os_str()).display().to_string();
            return Ok(PoolLoad::Recording { name, script, plan });
        };
        let workload = Arc::new(workload.named()?.workload());
        let target = self.target.resolve(environment)?;
        // Mirrored or generated reads: whatever changes data has no place here.
        Ok(PoolLoad::Workload(Plan {
            read_only: true,
            ..Plan::new(workload, target, self.clients, self.window)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_not_as_it_was_is_no_for_an_answer_whoever_left_it() {
        let why = knob::Refusal::Denied { why: "w".to_owned() };
        assert!(is_not_back(&MemoryError::LeftBehind { knobs: "k".to_owned(), why }));
        assert!(is_not_back(&MemoryError::NotBack { why: Box::new(MemoryError::Interrupted) }));
        assert!(!is_not_back(&MemoryError::Interrupted));
    }
}
