//! `headroom plan memory`: the buffer pool at several sizes. Flags become an experiment here; the crate
//! `whatif` runs it.

use super::{KeepArgs, verdict};
use crate::commands::knob::{blocking, connect_as, credentials_as};
use crate::commands::load::{TargetArgs, WorkloadArgs};
use crate::environment::Environment;
use anyhow::Context;
use clap::Args;
use knob::apply::Manner;
use knob::journal::{self, Author};
use knob::{Host, Session, value};
use load::Plan;
use load::arrivals::{Arrivals, Open, Spacing};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use term::{exit, terminal};
use whatif::ledger::{Entry, Kind, now};
use whatif::memory::{Experiment, MemoryError, answer, put_back};
use whatif::server::Server;

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
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
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
    /// The directory of the journal of settings.
    #[arg(long, value_name = "DIR", default_value = journal::DIRECTORY)]
    journal: PathBuf,
    #[command(flatten)]
    keep: KeepArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Does it.
pub(crate) async fn run(args: MemoryArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let experiment = args.experiment()?;
    let plan = args.plan(environment)?;
    let address = plan.target.readers.first().cloned().context("name the server with --server")?;
    let (workload, subject) = (plan.workload.name.clone(), args.target.words());
    let (user, file) = args.target.login();
    let who = credentials_as(user, file, environment)?;
    let connect = connect_as(user, file, environment)?;
    let author = Author {
        user: rustix::process::getuid().as_raw().to_string(),
        pid: std::process::id(),
        command: "headroom plan memory".to_owned(),
    };
    let manner = Manner { author, keep: false, restart: None, patience: Duration::from_secs(2) };
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    tokio::spawn(async move {
        term::interrupted().await;
        flag.store(true, Ordering::Relaxed);
    });
    terminal::complain(&format!("about {:.0} s, and the time to warm up", experiment.length().as_secs_f64()));
    let directory = args.journal.clone();
    let (measured, is_back) = blocking(move || {
        let mut session = Session::open(Host::new("/"), &directory, connect)?;
        session.recover();
        let mut server = Server::open(&address, &who)?;
        let address = address.to_string();
        let measured =
            experiment.run(&mut session, &manner, &address, &mut server, &plan, &stop, terminal::complain);
        Ok((measured, put_back(&mut session)))
    })
    .await?;
    if !is_back {
        terminal::complain("headroom: the pool could not be put back; headroom knob restore tries again");
    }
    let (measured, today, notes) = measured.map_err(|error: MemoryError| anyhow::Error::from(error))?;
    let answer = answer(subject.clone(), workload.clone(), today, measured, notes, is_back)?;
    if args.json {
        terminal::print_json(&answer)?;
    } else {
        terminal::print(&answer.text())?;
    }
    let entry = Entry {
        at: now(),
        kind: Kind::Memory,
        subject,
        workload,
        predictions: answer.predictions(),
        seen: answer.observed(),
        answer: serde_json::to_value(&answer)?,
    };
    args.keep.keep(&entry, environment)?;
    Ok(verdict(is_back))
}

impl MemoryArgs {
    fn experiment(&self) -> anyhow::Result<Experiment> {
        let size = |text: &String| {
            let plain = || text.parse().ok();
            let wrong = || exit::usage_error(format!("'{text}' is no size; write for example 16G"));
            value::size(text).or_else(plain).ok_or_else(wrong)
        };
        let sizes = self.sizes.iter().map(size).collect::<anyhow::Result<Vec<u64>>>()?;
        if !(3..=7).contains(&sizes.len()) {
            return Err(exit::usage_error("--sizes takes 3 to 7 sizes"));
        }
        let arrivals = match self.rate {
            None => Arrivals::Closed { think: Duration::ZERO },
            Some(rate) if rate > 0.0 => Arrivals::Open(Open { rate, ramp: None, spacing: Spacing::Poisson }),
            Some(_) => return Err(exit::usage_error("--rate must be above 0")),
        };
        Ok(Experiment {
            sizes,
            window: self.window,
            windows: self.windows,
            warm_most: self.warm_most,
            arrivals,
        })
    }

    fn plan(&self, environment: &Environment) -> anyhow::Result<Plan> {
        Ok(Plan {
            // Mirrored or generated reads: whatever changes data has no place here.
            read_only: true,
            ..Plan::new(
                Arc::new(self.workload.named()?.workload()),
                self.target.resolve(environment)?,
                self.clients,
                self.window,
            )
        })
    }
}
