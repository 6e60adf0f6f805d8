//! `headroom drain` and `undrain`: a running router of this host is told at its control socket.
//!
//! What emptying a server would take away from clients is a pure function, [`takes_away`]. Where that is more
//! than one of several readers, it must be ordered with `--force`.
//!
//! Worked example: db1 is the primary, db2 the only replica that is eligible. Draining db1 ends all writers'
//! sessions and refuses new ones, because Headroom promotes nobody; draining db2 leaves reads to the primary,
//! or to nobody.

use super::status::AdminArgs;
use crate::environment::Environment;
use clap::Args;
use console::control::server::{DrainAnswer, DrainRequest, Request, ask};
use console::status_view::{ServerView, StatusView};
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

/// What a drain of this server would take away; `None` where others take its sessions.
pub(crate) fn takes_away(status: &StatusView, server: &str, reads_on_primary: bool) -> Option<String> {
    let servers = &status.fleet.servers;
    let drained = servers.iter().find(|known| known.name == server)?;
    let reads = |server: &ServerView| server.routing.as_ref().is_some_and(|routing| routing.reads.eligible);
    let sessions = drained.routing.as_ref().map_or(0, |routing| routing.sessions);
    if status.fleet.writer.as_deref() == Some(server) || drained.role == "primary" {
        return Some(format!(
            "{server} is the primary: its {sessions} sessions would end and new ones of writers be refused until another \
             server is the primary, or until headroom undrain {server}"
        ));
    }
    let others = servers.iter().any(|other| other.name != server && reads(other));
    if !reads(drained) || others {
        return None;
    }
    let primary = servers.iter().find(|other| other.role == "primary" && other.state == "answering");
    let then = match primary {
        Some(primary) if reads_on_primary => format!("all reads would go to the primary, {}", primary.name),
        _ => "all reads would be refused".to_owned(),
    };
    Some(format!(
        "{server} is the last server that takes reads: its {sessions} sessions would end and {then} until headroom undrain \
         {server}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::sample_status;

    fn readers(status: &mut StatusView, eligible: &[&str]) {
        for server in &mut status.fleet.servers {
            if let Some(routing) = &mut server.routing {
                routing.reads.eligible = eligible.contains(&server.name.as_str());
            }
        }
    }

    #[test]
    fn the_primary_takes_the_writers_along() {
        let status = sample_status::status();
        let writer = status.fleet.writer.clone().unwrap();
        let words = takes_away(&status, &writer, true).unwrap();
        assert!(words.contains("is the primary") && words.contains("refused"), "{words}");
    }

    #[test]
    fn one_of_several_readers_takes_nothing_away_and_the_last_one_all_reads() {
        let mut status = sample_status::status();
        readers(&mut status, &["db2", "db3"]);
        assert_eq!(takes_away(&status, "db2", true), None);
        readers(&mut status, &["db2"]);
        assert_eq!(takes_away(&status, "db3", true), None, "it takes none now");
        let words = takes_away(&status, "db2", true).unwrap();
        assert!(words.contains("last server") && words.contains("to the primary"), "{words}");
        let words = takes_away(&status, "db2", false).unwrap();
        assert!(words.contains("reads would be refused"), "{words}");
    }

    #[test]
    fn a_server_that_is_not_known_takes_nothing_away() {
        assert_eq!(takes_away(&sample_status::status(), "db99", true), None);
    }
}
