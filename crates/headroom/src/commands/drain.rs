//! `headroom drain` and `undrain`: a running router of this host is told at its control socket.

use super::status::AdminArgs;
use crate::environment::Environment;
use clap::Args;
use console::control::server::{DrainAnswer, DrainRequest, Request, ask};
use std::process::ExitCode;
use std::time::Duration;
use term::{exit, terminal};

const DRAIN_EXAMPLES: &str = "\
Examples:
  headroom drain db3                    before maintenance of db3
  headroom drain db3 --deadline 10s     after ten seconds also sessions in a transaction are closed
  headroom undrain db3                  afterwards

It is the router of this host that is told, so run it on each application host, as the router's user. The primary, and the last
server that takes reads, are drained with --force only.";

/// Empty a server: no new sessions, and the present ones leave when they can.
///
/// Sessions are closed while they are idle and outside a transaction, so that the application's pool
/// reconnects to another server. What is left at the deadline is closed then.
#[derive(Args, Debug, Clone)]
#[command(after_help = DRAIN_EXAMPLES)]
pub(crate) struct DrainArgs {
    /// The server's name, as `headroom status` shows it.
    pub(crate) server: String,
    /// The server is empty after this long [default: drain_deadline of the configuration, 1m].
    #[arg(long, value_name = "DURATION", value_parser = fleet::parse_duration)]
    pub(crate) deadline: Option<Duration>,
    /// Also if it is the primary or the last server that takes reads: what that would end is said without it.
    #[arg(long)]
    pub(crate) force: bool,
    /// Where the router answers.
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

/// Let a drained server take sessions again.
#[derive(Args, Debug, Clone)]
#[command(after_help = "Example:\n  headroom undrain db3")]
pub(crate) struct UndrainArgs {
    /// The server's name, as `headroom status` shows it.
    pub(crate) server: String,
    /// Where the router answers.
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

/// Runs `headroom drain`.
pub(crate) fn drain(args: DrainArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let deadline_ms = args.deadline.map(|deadline| u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX));
    let request = Request::Drain(DrainRequest { server: args.server, deadline_ms, force: args.force });
    command(&request, args.admin.admin.as_deref(), args.admin.json, environment)
}

/// Runs `headroom undrain`.
pub(crate) fn undrain(args: UndrainArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let request = Request::Undrain { server: args.server };
    command(&request, args.admin.admin.as_deref(), args.admin.json, environment)
}

fn command(
    request: &Request,
    admin: Option<&str>,
    json: bool,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let answer =
        ask::<DrainAnswer>(environment.router(admin), &environment.control_directory()?, request)?.answer;
    if json {
        terminal::print_json(&answer)?;
    } else if answer.done {
        terminal::print(&format!("{}.\n", answer.text))?;
    } else {
        terminal::complain(&format!("headroom: {}", answer.text));
    }
    Ok(if answer.done { exit::DONE } else { exit::no() })
}
