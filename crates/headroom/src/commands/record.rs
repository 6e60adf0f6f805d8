//! `headroom record`: what clients send, from a running router or from a server's log, into a file for
//! `headroom replay`.

use crate::environment::Environment;
use crate::key::KeyArgs;
use anyhow::{anyhow, bail};
use clap::Args;
use console::control::server::RecordRequest;
use daemon::recorder::{self, LONGEST};
use recording::log::Kind;
use recording::{Event, Key, Output, RecordingStart, RecordingSummary, take};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use term::{Seconds, StopSignals, exit, terminal};

const EXAMPLES: &str = "\
Examples:
  openssl rand -hex 32 > record.key; chmod 600 record.key
  headroom record --for 60s --out monday.hrec --key-file record.key
      Everything that passes through the router of this host for a minute, sealed.
  headroom record --for 10m --sample 1/10 --out sample.hrec --key-file record.key
      One session in ten, each whole.
  headroom record --from-general-log /var/log/mysql/mysql.log --out log.hrec --key-file record.key
      What a server has logged; moments are as exact as its log.
  headroom replay monday.hrec --key-file record.key --server test-db:3306 --user replay

A recording holds what your clients sent: literals of people's data. Without a key they stand in the file as they are.
Passwords are not knowingly recorded. While it goes on, the router's status page, `headroom status` and the metric
headroom_recording say so, and it ends by itself. Ctrl-C ends it early, with a whole file. What is kept and what is not:
docs/guide/record.md.";

/// Record what clients send, for a replay.
///
/// Takes the commands that pass through a running `headroom route` of this host, with their moments and what
/// came of them, and writes them to a file. Or takes them from what a server has logged.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RecordArgs {
    /// Admin address of the running router (its first listener, if it has none) [default: $HEADROOM_ADMIN,
    /// else 127.0.0.1:9306]. Only its own user may record.
    #[arg(long, value_name = "ADDR")]
    router: Option<String>,
    /// For how long, at most 24h.
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = fleet::parse_duration)]
    time: Duration,
    /// One session in this many, as 1/N.
    #[arg(long, value_name = "1/N", default_value = "1/1", value_parser = sample)]
    sample: u32,
    /// Take it from a slow log of MariaDB or MySQL in place of a router ('-' is standard input).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["router", "time", "sample", "from_general_log"])]
    from_slow_log: Option<PathBuf>,
    /// The same from a general log.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["router", "time", "sample"])]
    from_general_log: Option<PathBuf>,
    /// The file. It is made for you alone (mode 600).
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    key: KeyArgs,
    /// Print what was recorded as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `headroom record`.
pub(crate) async fn run(args: RecordArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    if args.time > LONGEST || args.time.is_zero() {
        let hours = LONGEST.as_secs() / 3600;
        return Err(exit::usage_error(format!("--for must be above 0 and at most {hours}h, such as 60s")));
    }
    let key = args.key.key()?;
    if key.is_none() {
        terminal::complain(
            "note: no key is given, so literals stand in the file as they are (--key-file seals it)",
        );
    }
    let mut summary = match (&args.from_slow_log, &args.from_general_log) {
        (Some(log), _) => from_log(&args, Kind::Slow, log, key.as_ref())?,
        (None, Some(log)) => from_log(&args, Kind::General, log, key.as_ref())?,
        (None, None) => from_router(&args, key.as_ref(), environment).await?,
    };
    summary.advice = summary.advise(args.from_slow_log.is_none() && args.from_general_log.is_none());
    if args.json {
        terminal::print_json(&summary)?;
    } else {
        terminal::print(&summary.text())?;
    }
    Ok(if summary.commands == 0 { exit::no() } else { exit::DONE })
}

/// Reads a log to its end.
fn from_log(
    args: &RecordArgs,
    kind: Kind,
    path: &Path,
    key: Option<&Key>,
) -> anyhow::Result<RecordingSummary> {
    let name = path.display().to_string();
    let variable = match kind {
        Kind::Slow => "slow_query_log_file",
        Kind::General => "general_log_file",
    };
    let unread = |error: std::io::Error| {
        anyhow!(
            "cannot open {name}: {error}; SELECT @@GLOBAL.{variable} names the server's log: run this on its host, as \
             a user that may read it"
        )
    };
    let input: Box<dyn BufRead> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin().lock()),
        _ => Box::new(BufReader::new(File::open(path).map_err(unread)?)),
    };
    Ok(take::log(kind, input, &name, Output::create(&args.out, args.force, key)?)?)
}

/// Records from a running router.
async fn from_router(
    args: &RecordArgs,
    key: Option<&Key>,
    environment: &Environment,
) -> anyhow::Result<RecordingSummary> {
    let mut stop = StopSignals::listen()?;
    let directory = environment.control_directory()?;
    // Before anything is asked of the router, so that a file that cannot be made costs nothing.
    let mut output = Output::create(&args.out, args.force, key)?;
    let request = RecordRequest { one_in: args.sample, for_ms: args.time.as_millis() as u64 };
    let asked = match recorder::begin(environment.router(args.router.as_deref()), &directory, request) {
        Ok(asked) => asked,
        Err(error) => {
            output.discard();
            return Err(error);
        }
    };
    output.begun();
    let unix_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
    output.push(&Event::RecordingStart(RecordingStart {
        unix_us,
        source: format!("router {}", asked.address),
        one_in: args.sample,
        resolution_us: 1,
        headroom: asked.answer.headroom.clone(),
    }))?;
    let summary = RecordingSummary {
        bypassed: asked.answer.missing.bypassed,
        relayed: asked.answer.missing.relayed,
        ended: "the router went away before its end".to_owned(),
        ..RecordingSummary::of(&output)
    };
    let stopper = asked.stream.try_clone()?;
    asked.stream.set_read_timeout(Some(take::FLUSH))?;
    let time = args.time;
    let mut taking = tokio::task::spawn_blocking(move || {
        let mut shown = Seconds::new(time);
        take::live(asked.stream, output, summary, time, move |since, so_far| {
            let RecordingSummary { commands, sessions, .. } = so_far;
            shown.show(since, || format!("{commands} commands of {sessions} sessions recorded"));
        })
    });
    tokio::select! {
        summary = &mut taking => return Ok(summary??),
        () = stop.received() => recorder::enough(&stopper),
    }
    tokio::select! {
        summary = taking => Ok(summary??),
        () = stop.received() => bail!("stopped at once by a second signal; the file is whole up to the last moment"),
    }
}

fn sample(text: &str) -> Result<u32, String> {
    let n = text.strip_prefix("1/").and_then(|n| n.parse().ok()).filter(|n| *n > 0);
    n.ok_or_else(|| format!("'{text}' is no sample; write 1/10 for one session in ten"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_one_in_so_many() {
        assert_eq!((sample("1/1"), sample("1/16")), (Ok(1), Ok(16)));
        for wrong in ["1/0", "0.1", "10", "2/3", ""] {
            assert!(sample(wrong).is_err(), "{wrong}");
        }
    }
}
