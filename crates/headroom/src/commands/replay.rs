//! `headroom replay`: a recording sent again, and what is different now: per digest, errors, rows and times
//! beside the recorded ones, or of two targets beside each other.

use crate::commands::load::{account_with_tls, tls::TlsArgs};
use crate::environment::Environment;
use crate::key::KeyArgs;
use anyhow::bail;
use clap::Args;
use fleet::Address;
use load::replay::compare::{self, ReplayView};
use load::replay::{self, ReplayPlan, ScriptOptions};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use term::{Paint, StopFlag, exit, terminal};

const EXAMPLES: &str = "\
Examples:
  headroom replay monday.hrec --key-file record.key --server test-db:3306 --user replay
      At its own pace; only what reads is sent, and the server is told to refuse anything else.
  headroom replay monday.hrec --server old-db --against new-db --user replay
      To one and then to the other: times, errors and row counts per digest, side by side.
  headroom replay monday.hrec --server copy-of-prod --write-too --speed 5 --json > result.json

Every session logs in with the one account named here, because passwords are not recorded. Response times count from
the recorded moment, service times from sending. What is not sent, and why: docs/guide/record.md.
Exit code 1: there are figures, and they must not be used (the text says why).";

/// Send a recording again, and compare.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// The recording.
    file: PathBuf,
    #[command(flatten)]
    key: KeyArgs,
    /// Where it is sent: host:port, or the path of a unix socket.
    #[arg(long, short, value_name = "ADDR")]
    server: Address,
    /// A second target, which gets the same afterwards; then the two are compared.
    #[arg(long, value_name = "ADDR")]
    against: Option<Address>,
    /// Account [default: from the option file, else $HEADROOM_USER].
    #[arg(long, short, value_name = "NAME")]
    user: Option<String>,
    /// Option file with user and password, in the format of ~/.my.cnf (which is the default).
    #[arg(long, value_name = "FILE")]
    option_file: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArgs,
    /// Database of sessions that were in none.
    #[arg(long, short, value_name = "NAME", default_value = "")]
    database: String,
    /// Recorded time over replayed time, 0.1 to 20.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    speed: f64,
    /// Send what changes data, too. Never on servers whose data matter.
    #[arg(long)]
    write_too: bool,
    /// Threads that send [default: one for every 64 sessions, at most one a core].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// After the last moment, what is under way may take this long.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = fleet::parse_duration)]
    grace: Duration,
    /// The recording may take this many megabytes of memory.
    #[arg(long, value_name = "MB", default_value_t = 2048)]
    memory: u64,
    /// Rows of the table.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `headroom replay`.
pub(crate) async fn run(args: ReplayArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let key = args.key.key()?;
    let (account, tls) = account_with_tls(
        args.user.as_deref(),
        args.option_file.as_deref(),
        &args.database,
        &args.tls,
        environment,
    )?;
    let choice = ScriptOptions { read_only: !args.write_too, memory: args.memory << 20 };
    let (script, groups) = replay::open(&args.file, key.as_ref(), choice)?;
    if script.steps.is_empty() {
        bail!("nothing of the recording can be sent: {}", compare::why_nothing(&script));
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let usual = load::Plan::usual_threads(script.sessions.len() as u32, cores);
    let plan = ReplayPlan {
        target: args.server.clone(),
        tls,
        account,
        speed: args.speed,
        read_only: !args.write_too,
        threads: args.threads.map_or(usual, usize::from),
        grace: args.grace,
    };
    let flag = StopFlag::listen(|| ());
    let stop = flag.flag();
    let speed = plan.speed;
    let other = args.against.clone().map(|target| ReplayPlan { target, ..plan.clone() });
    let plans: Vec<_> = std::iter::once(plan).chain(other).collect();
    let json = args.json;
    let view = tokio::task::spawn_blocking(move || -> anyhow::Result<ReplayView> {
        let runs = replay::replay_each(&script, &plans, &stop)?;
        Ok(compare::view(&script, &groups, speed, &runs))
    })
    .await??;
    if json {
        terminal::print_json(&view)?;
    } else {
        terminal::print(&replay::text::view(&view, args.limit, Paint::for_stdout(environment.no_colour)))?;
    }
    Ok(if view.void.is_empty() { exit::DONE } else { exit::no() })
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed| (0.1..=20.0).contains(speed));
    speed.ok_or_else(|| format!("'{text}' is not between 0.1 and 20"))
}
