//! `headroom lab up`: in the foreground until Ctrl-C, or detached in a process of its own.

use super::{WhichArgs, base, default_base};
use crate::environment::Environment;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use lab::{Lab, Spec, SpecError, Status, text, zone_config};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, TryLockError};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;
use term::{Paint, StopSignals, exit, terminal};
use tokio::io::{AsyncBufReadExt, BufReader};

/// What a detached lab says goes here, in the base directory; of further ones to `lab-2.log` and so on.
const LOG: &str = "lab.log";
/// A detached lab that is not up by then has failed.
const DETACHED_LIMIT: Duration = Duration::from_secs(120);
/// One that is told to end may take this long to take down what it has started.
const FAREWELL: Duration = Duration::from_secs(20);

/// Flags of `headroom lab up`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  headroom lab up                                     a primary and a replica in zone a, a replica in b and in c
  headroom lab up --zones a,b,c --replicas 1,1,0      zone c has no reader
  headroom lab up --config lab.toml --detach          runs on in the background; headroom lab down ends it

Everything is on loopback addresses (127.1.0.0/16 is the first zone) and in one directory; nothing is left behind.")]
pub(crate) struct UpArgs {
    /// Description of the lab.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["zones", "replicas", "round_trip"])]
    config: Option<PathBuf>,
    /// Zones; the primary stands in the first.
    #[arg(long, value_delimiter = ',', value_name = "NAMES", default_value = "a,b,c")]
    zones: Vec<String>,
    /// Replicas in each zone, in the same order; the last number holds for the rest.
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS", default_value = "1")]
    replicas: Vec<u8>,
    /// Round-trip time between zones, e.g. 2ms [default: 0.7ms, as between availability zones].
    #[arg(long, value_name = "DURATION", value_parser = fleet::parse_duration)]
    round_trip: Option<Duration>,
    /// Server program: mariadbd, mysqld, or a wrapper around one [default: the first on this machine].
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// Run on in the background.
    #[arg(long)]
    detach: bool,
    /// Print the lab as JSON once it is up.
    #[arg(long)]
    json: bool,
    /// Where labs are kept [default: headroom-lab-<user id> in the directory for temporary files].
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
}

/// Runs it.
pub(super) async fn run(args: UpArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let base = base(&WhichArgs { lab: None, base: args.base.clone() }, environment);
    // Refused before anything starts, detached or not.
    let spec = spec(&args)?;
    if args.detach {
        return detached(&args, &base, environment).await;
    }
    let outcome = foreground(&args, &spec, &base, environment).await;
    if args.base.is_none() {
        // Made for it; where another lab runs it is not empty, and stays.
        let _ = std::fs::remove_dir(&base);
    }
    outcome
}

async fn foreground(
    args: &UpArgs,
    spec: &Spec,
    base: &Path,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let mut stop = StopSignals::listen()?;
    if !args.json {
        terminal::complain("Starting servers (some seconds) ...");
    }
    // Dropped half way, everything that was started is stopped again.
    let lab = tokio::select! {
        up = Lab::up(spec, base) => up?,
        () = stop.received() => bail!("interrupted; nothing is left behind"),
    };
    let status = lab.status().await;
    zone_config::write_all(&status)?;
    announce(&status, lab.came_up_in(), args.json, environment)?;
    tokio::select! {
        () = lab.asked_down() => {}
        () = stop.received() => {}
    }
    if !args.json {
        terminal::complain("Taking it down ...");
    }
    tokio::select! {
        down = lab.down() => down?,
        // Impatience: dropping the lab kills what is left.
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(exit::DONE)
}

fn announce(status: &Status, took: Duration, json: bool, environment: &Environment) -> anyhow::Result<()> {
    if json {
        // One line, so that whoever waits for it knows where it ends.
        return terminal::print(&(serde_json::to_string(status)? + "\n"));
    }
    let text = text::status(status, &default_base(environment), Paint::for_stdout(environment.no_colour));
    terminal::print(&format!(
        "The lab is up after {:.1} s: {}, {} servers, zones {}. Ctrl-C takes it down.\n\n{text}",
        took.as_secs_f64(),
        status.version,
        status.servers.len(),
        status.zones.join(", "),
    ))
}

/// Starts ourselves again in a process group of its own and waits until that lab is up.
async fn detached(args: &UpArgs, base: &Path, environment: &Environment) -> anyhow::Result<ExitCode> {
    let mut stop = StopSignals::listen()?;
    // Its log is written there before the lab's own process looks whose directory it is.
    lab::make_base(base)?;
    let (log_path, log) = own_log(base)?;
    let mut command =
        std::process::Command::new(std::env::current_exe().context("cannot find our own program")?);
    command.args(["lab", "up", "--json", "--base"]).arg(base);
    match &args.config {
        Some(config) => {
            command.arg("--config").arg(config);
        }
        None => {
            let replicas: Vec<String> = args.replicas.iter().map(ToString::to_string).collect();
            command.args(["--zones", &args.zones.join(","), "--replicas", &replicas.join(",")]);
            if let Some(time) = args.round_trip {
                command.args(["--round-trip", &fleet::duration_text(time)]);
            }
        }
    }
    if let Some(program) = &args.program {
        command.arg("--program").arg(program);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).process_group(0);
    let mut child =
        tokio::process::Command::from(command).spawn().context("cannot start the lab's process")?;
    let out = child.stdout.take().context("the lab's process has no output")?;
    let mut lines = BufReader::new(out).lines();
    // In a process group of its own it does not hear Ctrl-C, and would run on with nobody knowing of it.
    let line = tokio::select! {
        line = tokio::time::timeout(DETACHED_LIMIT, lines.next_line()) => line,
        () = stop.received() => {
            end(&mut child).await;
            let _ = std::fs::remove_file(&log_path);
            let _ = std::fs::remove_dir(base);
            bail!("interrupted; nothing is left behind");
        }
    };
    let line = match line {
        Ok(line) => line?,
        Err(_) => {
            end(&mut child).await;
            bail!("the lab was not up within {} s; see {}", DETACHED_LIMIT.as_secs(), log_path.display());
        }
    };
    let Some(line) = line else {
        let said = std::fs::read_to_string(&log_path).unwrap_or_default();
        bail!("the lab did not come up: {}", said.trim());
    };
    if args.json {
        terminal::print(&(line + "\n"))?;
        return Ok(exit::DONE);
    }
    let status: Status = serde_json::from_str(&line).context("the lab's process is of another version")?;
    let text = text::status(&status, &default_base(environment), Paint::for_stdout(environment.no_colour));
    let count = status.servers.len();
    terminal::print(&format!(
        "The lab is up: {}, {count} servers. It runs on in the background.\n\n{text}",
        status.version
    ))?;
    Ok(exit::DONE)
}

/// A log that no other lab writes to. Its lock goes with the open file to the lab's process, as its standard
/// error, and has ended with that.
fn own_log(base: &Path) -> anyhow::Result<(PathBuf, File)> {
    let mut number = 1u32;
    loop {
        let path = base.join(if number == 1 { LOG.to_owned() } else { format!("lab-{number}.log") });
        let cannot = || format!("cannot write {}", path.display());
        let log = File::options().create(true).append(true).open(&path).with_context(cannot)?;
        if is_written(&log) {
            number += 1;
            continue;
        }
        log.set_len(0).with_context(cannot)?;
        return Ok((path, log));
    }
}

/// Whether another process holds its lock; if not, it is ours from here on.
fn is_written(log: &File) -> bool {
    matches!(log.try_lock(), Err(TryLockError::WouldBlock))
}

fn is_log(name: &str) -> bool {
    let number = name.strip_prefix("lab-").and_then(|rest| rest.strip_suffix(".log"));
    name == LOG || number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Removes the logs of labs that are down: all of them where none runs, else those that nobody writes to.
pub(super) fn remove_logs(base: &Path, none_runs: bool) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(is_log);
        let over = || none_runs || File::open(entry.path()).is_ok_and(|log| !is_written(&log));
        if ours && over() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Lets the lab's process take down what it has started; killed, it would leave its files.
async fn end(child: &mut tokio::process::Child) {
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
        // It may have ended this very moment.
        let _ = kill_process(pid, Signal::TERM);
    }
    if tokio::time::timeout(FAREWELL, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

fn spec(args: &UpArgs) -> anyhow::Result<Spec> {
    let spec = match &args.config {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                anyhow!(
                    "cannot read {}: {error}; name a file that is there, and that this user may read, or none: \
                     --zones and --replicas describe a lab, too",
                    path.display()
                )
            })?;
            Spec::parse(&text, &path.display().to_string())?
        }
        None => spec_of_flags(args).map_err(|error| exit::usage_error(error.to_string()))?,
    };
    Ok(match &args.program {
        Some(program) => spec.program(program),
        None => spec,
    })
}

/// Whatever is wrong here was typed; what is wrong in a file is told with its line.
fn spec_of_flags(args: &UpArgs) -> Result<Spec, SpecError> {
    let mut spec = Spec::with_replicas(&args.zones, &args.replicas)?;
    if let Some(time) = args.round_trip {
        let within = spec.network.within;
        spec = spec.round_trip(within, time);
    }
    spec.check()?;
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_detached_lab_has_a_log_of_its_own_until_it_is_down() {
        let base = tempfile::tempdir().unwrap();
        let other = base.path().join("lab-notes.log");
        std::fs::write(&other, "of somebody").unwrap();
        std::fs::write(base.path().join(LOG), "of one that is down").unwrap();
        let (first, held) = own_log(base.path()).unwrap();
        assert_eq!((first.clone(), held.metadata().unwrap().len()), (base.path().join("lab.log"), 0));
        let (second, held_too) = own_log(base.path()).unwrap();
        assert_eq!(second, base.path().join("lab-2.log"));
        drop(held);
        remove_logs(base.path(), false);
        assert!(!first.exists() && second.exists(), "the other runs on");
        remove_logs(base.path(), true);
        assert!(!second.exists() && other.exists());
        drop(held_too);
    }
}
