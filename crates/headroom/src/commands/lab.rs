//! `headroom lab`: real servers on this machine, brought up, shown, broken on purpose and taken down.

mod up;

use crate::environment::Environment;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use lab::{control, text};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use term::{Paint, exit, terminal};

use up::UpArgs;

const EXAMPLES: &str = "\
Examples:
  headroom lab up --detach
      A primary and a replica in zone a, a replica in b and in c. They run on in the background.
  headroom lab status
      Its servers, and how to connect.
  headroom lab fault b1 freeze
      b1 accepts connections and answers nobody.
  headroom lab down";

/// Real servers with replication, zones, distance and faults on this machine.
#[derive(Subcommand, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) enum LabCommand {
    /// Start servers and replication; Ctrl-C stops them and leaves nothing behind.
    Up(UpArgs),
    /// Stop a lab that was started with --detach, or that was left behind.
    Down(DownArgs),
    /// Show the servers of a running lab and how to connect.
    Status(StatusArgs),
    /// Break something on purpose, or mend it again.
    Fault(FaultArgs),
    /// Print how a server is restarted, for the flag --managed of `headroom knob set` and `headroom trial
    /// run`.
    Managed(ManagedArgs),
}

/// Which lab.
#[derive(Args, Clone, Debug)]
pub(crate) struct WhichArgs {
    /// Directory of the lab; needed only when several run.
    #[arg(long, value_name = "DIR")]
    pub(crate) lab: Option<PathBuf>,
    /// Where labs are kept [default: headroom-lab-<user id> in the directory for temporary files].
    #[arg(long, value_name = "DIR")]
    pub(crate) base: Option<PathBuf>,
}

/// Flags of `headroom lab down`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  headroom lab down")]
pub(crate) struct DownArgs {
    /// Which lab; all of them when several run and none is named.
    #[command(flatten)]
    which: WhichArgs,
    /// Print what went down as JSON.
    #[arg(long)]
    json: bool,
}

/// Flags of `headroom lab status`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  headroom lab status\n  headroom lab status --json | jq -r .credentials.app"
)]
pub(crate) struct StatusArgs {
    /// Which lab.
    #[command(flatten)]
    which: WhichArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Flags of `headroom lab fault`.
#[derive(Args, Clone, Debug)]
#[command(after_help = faults())]
pub(crate) struct FaultArgs {
    /// A server (b1), or two zones (a:b) for what happens to the network.
    target: String,
    /// What happens: one of the words below, with its value.
    #[arg(required = true, num_args = 1..=2, value_name = "FAULT")]
    fault: Vec<String>,
    /// Which lab.
    #[command(flatten)]
    which: WhichArgs,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
}

/// Flags of `headroom lab managed`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  headroom lab managed a1 > a1.toml\n  headroom trial run t.toml --managed \
                        a1.toml"
)]
pub(crate) struct ManagedArgs {
    /// A server (a1).
    server: String,
    /// Which lab.
    #[command(flatten)]
    which: WhichArgs,
}

/// What `headroom lab down --json` prints.
#[derive(Debug, Serialize)]
struct Downed {
    /// Directories of labs that ran.
    down: Vec<PathBuf>,
    /// Directories that dead owners had left behind.
    swept: Vec<PathBuf>,
}

/// What `headroom lab fault --json` prints.
#[derive(Debug, Serialize)]
struct Faulted {
    done: bool,
    lab: PathBuf,
    target: String,
    change: String,
}

/// Runs one of them.
pub(crate) async fn run(command: LabCommand, environment: &Environment) -> anyhow::Result<ExitCode> {
    match command {
        LabCommand::Up(args) => up::run(args, environment).await,
        LabCommand::Down(args) => down(args, environment).await,
        LabCommand::Status(args) => status(args, environment).await,
        LabCommand::Fault(args) => fault(args, environment).await,
        LabCommand::Managed(args) => managed(args, environment).await,
    }
}

async fn down(args: DownArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let base = base(&args.which, environment);
    let labs = match &args.which.lab {
        Some(lab) => vec![lab.clone()],
        None => control::labs(&base)?,
    };
    let say = |text: String| if args.json { Ok(()) } else { terminal::print(&text) };
    for lab in &labs {
        control::down(lab).await?;
        say(format!("{} is down.\n", lab.display()))?;
    }
    let swept = lab::Lab::sweep(&base)?;
    for lab in &swept {
        say(format!("{} was left behind by a process that ended; it is removed now.\n", lab.display()))?;
    }
    // What detaching left: the logs, and the directory if nothing else is in it.
    up::remove_logs(&base, control::labs(&base).is_ok_and(|running| running.is_empty()));
    let _ = std::fs::remove_dir(&base);
    if args.json {
        terminal::print_json(&Downed { down: labs, swept })?;
    } else if labs.is_empty() && swept.is_empty() {
        say(format!("No lab runs in {}.\n", base.display()))?;
    }
    Ok(exit::DONE)
}

async fn status(args: StatusArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let status = control::status(&the_lab(&args.which, environment)?).await?;
    if args.json {
        terminal::print_json(&status)?;
    } else {
        terminal::print(&text::status(
            &status,
            &default_base(environment),
            Paint::for_stdout(environment.no_colour),
        ))?;
    }
    Ok(exit::DONE)
}

async fn fault(args: FaultArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let words = args.fault.join(" ");
    let change: lab::Change = match words.parse() {
        Ok(change) => change,
        Err(error) => {
            terminal::complain(&format!("headroom: {error}"));
            return Ok(exit::usage());
        }
    };
    let lab = the_lab(&args.which, environment)?;
    control::change(&lab, &args.target, change).await?;
    if args.json {
        let change = change.to_string();
        terminal::print_json(&Faulted { done: true, lab, target: args.target, change })?;
    } else {
        terminal::print(&format!("{}: {change}.\n", args.target))?;
    }
    Ok(exit::DONE)
}

async fn managed(args: ManagedArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let status = control::status(&the_lab(&args.which, environment)?).await?;
    let Some(server) = status.servers.iter().find(|server| server.name == args.server) else {
        let names: Vec<&str> = status.servers.iter().map(|server| server.name.as_str()).collect();
        bail!("no server {} in {}; there is {}", args.server, status.dir.display(), names.join(", "))
    };
    let program = std::env::current_exe().context("where this program lies")?;
    terminal::print(&lab::managed::description(&status.dir, server, &program))?;
    Ok(exit::DONE)
}

/// The one lab that is meant.
fn the_lab(which: &WhichArgs, environment: &Environment) -> anyhow::Result<PathBuf> {
    if let Some(lab) = &which.lab {
        return Ok(lab.clone());
    }
    Ok(control::only(&base(which, environment))?)
}

fn base(which: &WhichArgs, environment: &Environment) -> PathBuf {
    which.base.clone().unwrap_or_else(|| default_base(environment))
}

/// A directory of this user, with a short path: sockets lie below it.
pub(crate) fn default_base(environment: &Environment) -> PathBuf {
    let temporary = environment.temporary.as_deref().unwrap_or(Path::new("/tmp"));
    temporary.join(format!("headroom-lab-{}", rustix::process::getuid().as_raw()))
}

/// The table of faults, for help.
fn faults() -> String {
    format!(
        "{}\nExamples:\n  headroom lab fault b1 freeze\n  headroom lab fault b1 heal\n  headroom lab fault a:b slow 30",
        text::faults()
    )
}
