//! `headroom knob set`: changes, held until the command ends.

use super::{LoginArgs, PlaceArgs, blocking, profile, restore_command, verdict};
use crate::environment::Environment;
use anyhow::{Context, bail};
use clap::Args;
use knob::action::ProgramAction;
use knob::apply::{self, Change, Manner, Outcome};
use knob::item::Access;
use knob::journal::Author;
use knob::managed::Managed;
use knob::session::{Connect, RestoreOutcome, Session, Which};
use knob::tuner::{self, Tuner};
use knob::view::{Preview, SetReport, Writes};
use knob::{Host, name, text};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;
use term::{exit, terminal};
use tokio::signal::unix::{Signal, SignalKind, signal};

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

Exit code 1 when a knob was refused, is dangerous and not named, or could not be put back.";

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
    #[arg(long, value_name = "NAME", value_parser = profile::known)]
    profile: Option<String>,
    /// What a profile's rows are set on: disk=vda, interface=eth0, mount=/data, dataset=, parent=, pool=.
    /// Repeatable.
    #[arg(long = "for", value_name = "WHAT=NAME", value_parser = profile::placeholder, requires = "profile")]
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
    /// allocator.library@server, cgroup.cpu.max@server. `headroom lab managed` prints one for a lab.
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
    /// Print JSON: what was applied, and in the end what was put back. What the command prints goes to
    /// standard error.
    #[arg(long)]
    json: bool,
    /// Hold the settings while this command runs.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// What was done, and the session that can undo it.
struct Work {
    session: Session,
    recovered: Vec<RestoreOutcome>,
    outcomes: Vec<Outcome>,
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
    let tuners = tuner::running(&host);
    for Tuner { program, pid, why, .. } in &tuners {
        terminal::complain(&format!("{program} (process {pid}) runs here and {why}"));
    }
    let manner = manner(&args, &host)?;
    let restore = restore_command(&args.place, &args.login);
    let connect = args.login.connect(environment)?;
    if args.dry_run {
        return dry_run(args, host, assignments, tuners, manner, connect).await;
    }
    let applying = {
        let (args, tuners, manner) = (args.clone(), tuners.clone(), manner.clone());
        let journals = args.place.journals(environment)?;
        blocking(move || {
            let session = Session::open(host.clone(), &journals, connect)?;
            apply_all(session, &args, &host, &assignments, &tuners, &manner)
        })
    };
    let done = applying.await?;
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
    let Work { mut session, recovered, outcomes } = done;
    let restored = blocking(move || Ok(session.restore(&Which::Own, false))).await?;
    if args.json {
        let (tuners, left_out, recovered) = (&tuners, &left_out, &recovered);
        terminal::print_json(&SetReport {
            tuners,
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

/// Ctrl-C, TERM and HUP, heard from the moment this is made.
struct StopSignals([Signal; 3]);

impl StopSignals {
    fn listen() -> std::io::Result<Self> {
        let [interrupt, terminate, hangup] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
        Ok(Self([interrupt?, terminate?, hangup?]))
    }

    /// Returns when one of them has come; at once if it came before.
    async fn received(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

fn manner(args: &SetArgs, host: &Host) -> anyhow::Result<Manner> {
    let program = match (&args.managed, &args.restart_with) {
        (Some(path), _) => Some(Managed::read(path)?.program()),
        (None, program) => program.as_ref().map(|path| absolute(host, path)).transpose()?,
    };
    let author = Author {
        user: rustix::process::getuid().as_raw().to_string(),
        pid: std::process::id(),
        command: format!("headroom knob set {}", args.assignments.join(" ")),
    };
    Ok(Manner { author, keep: args.keep, restart: program, patience: Duration::from_secs(2) })
}

/// A journal outlives the directory that this command was started in. Below another root a path is that
/// root's.
pub(crate) fn absolute(host: &Host, path: &std::path::Path) -> anyhow::Result<String> {
    let whole = match host.is_this_one() {
        true => path.canonicalize().with_context(|| format!("the program {}", path.display()))?,
        false => path.to_owned(),
    };
    whole.to_str().map(str::to_owned).with_context(|| format!("{} is no UTF-8", whole.display()))
}

fn checked(
    args: &SetArgs,
    host: &Host,
    server: Option<&mut (dyn knob::server::Server + 'static)>,
    assignments: &[String],
    tuners: &[Tuner],
) -> anyhow::Result<Vec<Change>> {
    let changes = apply::check(host, server, assignments, &args.danger)?;
    apply::alone(tuners, &changes, &args.beside)?;
    Ok(changes)
}

fn apply_all(
    mut session: Session,
    args: &SetArgs,
    host: &Host,
    assignments: &[String],
    tuners: &[Tuner],
    manner: &Manner,
) -> anyhow::Result<Work> {
    if let Some(dropped) = session.journal().dropped() {
        terminal::complain(&format!("journal: {dropped}"));
    }
    for action in &args.action {
        let (knob, program) = name::assignment(action)?;
        let program = absolute(host, std::path::Path::new(program))?;
        let action = ProgramAction::new(host.clone(), &program);
        session.act(&name::parse(host, knob)?.to_string(), Box::new(action));
    }
    let address = args.login.address();
    // A dead process may have left the server stopped: then only putting back starts it.
    let down = address.as_deref().is_some_and(|address| session.server(address).is_err());
    let mut recovered = if down { session.recover() } else { Vec::new() };
    let server = address.as_deref().map(|address| session.server(address)).transpose()?;
    let changes = checked(args, host, server, assignments, tuners)?;
    recovered.extend(session.recover());
    let outcomes = session.apply(&changes, address.as_deref(), manner);
    Ok(Work { session, recovered, outcomes })
}

async fn dry_run(
    args: SetArgs,
    host: Host,
    assignments: Vec<String>,
    tuners: Vec<Tuner>,
    manner: Manner,
    mut connect: Connect,
) -> anyhow::Result<ExitCode> {
    let json = args.json;
    let previews = blocking(move || {
        let mut server = args.login.address().map(|address| connect(&address)).transpose()?;
        let changes = checked(&args, &host, server.as_deref_mut(), &assignments, &tuners)?;
        let mut actions = BTreeMap::new();
        let mut access = Access { host: &host, server: server.as_deref_mut(), actions: &mut actions };
        let preview = |change: &Change| Preview {
            knob: change.name.to_string(),
            value: change.value.clone(),
            writes: Result::map_or_else(
                apply::preview(&mut access, change, &manner),
                Writes::Refused,
                Writes::Writes,
            ),
        };
        Ok(changes.iter().map(preview).collect::<Vec<_>>())
    })
    .await?;
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
