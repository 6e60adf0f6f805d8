//! `headroom knob set`: changes, held until the command ends.

use super::{LoginArgs, PlaceArgs, blocking, restore_command, session, verdict};
use crate::environment::Environment;
use anyhow::bail;
use clap::Args;
use knob::apply::{self, Manner, Outcome};
use knob::journal::Author;
use knob::managed::Managed;
use knob::session::{Connect, Which};
use knob::set::{SetRequest, SetWork};
use knob::tuner::{self, Tuner};
use knob::view::{Preview, SetReport};
use knob::{Host, text};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;
use term::{StopSignals, exit, terminal};

/// A command that was told to end has this long before it is killed.
const FAREWELL: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  headroom knob set block.scheduler@vda=none block.nr_requests@vda=64
      Until Ctrl-C.
  headroom knob set memory.thp=never -- sysbench oltp_read_write run
      While the command runs; its exit code is the result.
  headroom knob set server.innodb_io_capacity=2000 --server 127.0.0.1:3306 --keep
      Until `headroom knob restore`, or the server's restart.
  headroom knob set server.sync_binlog=0 --server 127.0.0.1:3306 --danger sync_binlog
      Dangerous values are named one by one.
  headroom knob set --profile pinterest --for disk=nvme0n1 --for interface=eth0 --dry-run
      What would be written; nothing is.

Exit code 1 when a knob was refused, is dangerous and not named, is also changed by a program that runs
here and is not named (--beside), or could not be put back.";

/// Change settings, and put them back when the command ends.
///
/// Each original is in the journal, on disk, before its setting is written; each setting is read back, and
/// what reads back differently is refused and undone. The rest goes on without it. After a crash, a kill or a
/// power loss the next `headroom knob set` or `restore` puts back what is left.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SetArgs {
    /// Settings: block.scheduler@vda=none
    #[arg(value_name = "NAME=VALUE", required_unless_present = "profile")]
    assignments: Vec<String>,
    /// The rows of a profile that can be set.
    #[arg(long, value_name = "NAME", value_parser = knob::profile::parse_name)]
    profile: Option<String>,
    /// What a profile's rows are set on: disk=vda, interface=eth0, mount=/data, dataset=, parent=, pool=.
    /// Repeatable.
    #[arg(long = "for", value_name = "WHAT=NAME", value_parser = knob::profile::parse_placeholder, requires = "profile")]
    given: Vec<(String, String)>,
    /// A dangerous setting that is meant, by its name. Repeatable.
    #[arg(long, value_name = "NAME")]
    danger: Vec<String>,
    /// A program that changes the same settings by itself, and may go on running. Repeatable.
    #[arg(long, value_name = "PROGRAM")]
    beside: Vec<String>,
    /// Leave the settings changed when this command ends.
    #[arg(long, conflicts_with = "command")]
    keep: bool,
    /// Show every write, and make none.
    #[arg(long)]
    dry_run: bool,
    /// For server variables that need a restart: a program, called as PROGRAM NAME VALUE, that sets it and
    /// restarts the server.
    #[arg(long, value_name = "PROGRAM")]
    restart_with: Option<PathBuf>,
    /// How the server is restarted, for what needs that: server variables, file_system.type@server,
    /// allocator.library@server, numa.policy@server, cgroup.cpu.max@server. `headroom lab managed` prints one
    /// for a lab.
    #[arg(long, value_name = "FILE", conflicts_with = "restart_with")]
    managed: Option<PathBuf>,
    /// For a knob that a program of yours changes (file_system.type@X, allocator.library@X): called as
    /// PROGRAM read and PROGRAM apply VALUE. Repeatable.
    #[arg(long, value_name = "KNOB=PROGRAM")]
    action: Vec<String>,
    #[command(flatten)]
    login: LoginArgs,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print JSON: what was applied, and in the end what was put back; {"refused": WHY} where nothing was
    /// touched, for a danger or a program that is not named. What the command prints goes to standard error.
    #[arg(long)]
    pub(super) json: bool,
    /// Hold the settings while this command runs.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(super) async fn set(args: SetArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    // From here on nobody ends us in the middle of the writing: whoever tries gets it undone.
    let mut stop = StopSignals::listen()?;

    let host = args.place.host();
    let (mut assignments, left_out) = match &args.profile {
        Some(profile) => knob::profile::assignments(profile, &args.given),
        None => (Vec::new(), Vec::new()),
    };
    assignments.extend(args.assignments.clone());
    for words in &left_out {
        terminal::complain(&format!("left out: {words}"));
    }
    let unknown = tuner::doubt(&host, assignments.iter().map(String::as_str));
    let request = request(&args, &host, assignments)?;
    let tuners = request.tuners.clone();
    for Tuner { program, pid, why, .. } in &tuners {
        terminal::complain(&format!("{program} (process {pid}) runs here and {why}"));
    }
    if let Some(unknown) = &unknown {
        terminal::complain(unknown);
    }
    let restore = restore_command(&args.place, &args.login);
    let connect = args.login.connect(environment)?;
    if args.dry_run {
        return dry_run(request, host, connect, args.json).await;
    }
    let journals = args.place.journals(environment)?;
    let done = blocking(move || {
        let session = session(host.clone(), &journals, connect)?;
        Ok(request.apply(&host, session)?)
    })
    .await?;
    if !args.json {
        if !done.recovered.is_empty() {
            terminal::print("Left by a process that is dead:\n")?;
            terminal::print(&text::restored(&done.recovered, &restore))?;
        }
        terminal::print(&text::outcomes(&done.outcomes))?;
    }
    let any = done.outcomes.iter().any(|outcome| matches!(outcome.status, apply::Status::Applied { .. }));
    let mut status = None;
    if !args.command.is_empty() {
        status = Some(run(&args.command, args.json, &mut stop).await?);
    } else if !args.keep && any {
        terminal::complain("held; Ctrl-C puts everything back");
        stop.received().await;
    }
    let SetWork { mut session, recovered, outcomes } = done;
    let restored = blocking(move || Ok(session.restore(&Which::Own, false))).await?;
    if args.json {
        let (tuners, left_out, recovered) = (&tuners, &left_out, &recovered);
        terminal::print_json(&SetReport {
            tuners,
            tuners_unknown: unknown.as_deref(),
            left_out,
            recovered,
            outcomes: &outcomes,
            restored: &restored,
        })?;
    } else if args.keep && any {
        terminal::print(&format!("To put them back: {restore}\n"))?;
    } else {
        terminal::print(&text::restored(&restored, &restore))?;
    }
    Ok(match status.map(code) {
        Some(code) if code != 0 => ExitCode::from(code),
        _ if !outcomes.iter().all(Outcome::is_in_force) => exit::no(),
        _ => verdict(&restored),
    })
}

/// The command's own exit code; of one that a signal has ended 128 and the signal's number, as a shell has
/// it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(2)
}

/// All that the flags ask for.
fn request(args: &SetArgs, host: &Host, assignments: Vec<String>) -> Result<SetRequest, knob::Error> {
    let author = Author::here(format!("headroom knob set {}", args.assignments.join(" ")));
    let restart = Managed::restart_by(host, args.managed.as_deref(), args.restart_with.as_deref())?;
    Ok(SetRequest {
        assignments,
        dangers: args.danger.clone(),
        tuners: tuner::running(host),
        beside: args.beside.clone(),
        actions: args.action.clone(),
        server: args.login.address(),
        manner: Manner { keep: args.keep, restart, ..Manner::of(author) },
    })
}

async fn dry_run(request: SetRequest, host: Host, connect: Connect, json: bool) -> anyhow::Result<ExitCode> {
    let previews = blocking(move || Ok(request.preview(&host, connect)?)).await?;
    if json {
        terminal::print_json(&previews)?;
    } else {
        terminal::print(&text::preview(&previews))?;
        terminal::print("Nothing was written.\n")?;
    }
    Ok(if previews.iter().any(Preview::is_refused) { exit::no() } else { exit::DONE })
}

/// Runs the command; when we are to end, it is told to end first. With `json` our own standard output is for
/// the report alone.
async fn run(command: &[String], json: bool, stop: &mut StopSignals) -> anyhow::Result<ExitStatus> {
    let [program, arguments @ ..] = command else { bail!("no command") };
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).kill_on_drop(true);
    if json {
        command.stdout(std::io::stderr().as_fd().try_clone_to_owned()?);
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            terminal::complain(&format!("headroom: {program}: {error}"));
            // The settings are put back by whoever called.
            return Ok(ExitStatus::from_raw(127 << 8));
        }
    };
    tokio::select! {
        status = child.wait() => return Ok(status?),
        () = stop.received() => {}
    }
    if let Some(pid) = child.id().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed())) {
        // It may have ended this very moment.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    match tokio::time::timeout(FAREWELL, child.wait()).await {
        Ok(status) => Ok(status?),
        Err(_) => {
            child.kill().await?;
            Ok(child.wait().await?)
        }
    }
}
