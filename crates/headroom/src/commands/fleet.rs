//! `headroom fleet`: one look at the servers, printed.

use crate::environment::Environment;
use crate::source::{self, SourceArgs};
use clap::Args;
use console::fleet_view;
use console::status_view::{FleetView, ServerView};
use std::process::ExitCode;
use std::time::Instant;
use term::{Paint, exit, terminal};

const FLEET_EXAMPLES: &str = "\
Examples:
  headroom fleet --server db1:3306
  headroom fleet --config headroom.toml --json | jq -r '.servers[] | [.name, .role, .zone] | @tsv'

Exit code 1 when no primary can be named, or a server answers and its role is not known.";

/// Ask the servers once: who is primary, how far behind, in which zone.
///
/// Prints each server with role, zone, lag and state, and why; below, what the operator should know. It needs
/// no running router and changes nothing.
#[derive(Args, Debug, Clone)]
#[command(after_help = FLEET_EXAMPLES)]
pub(crate) struct FleetArgs {
    /// Where the fleet is found.
    #[command(flatten)]
    source: SourceArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `headroom fleet`.
pub(crate) async fn run(args: FleetArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let config = source::with_account(&args.source, environment)?;
    let snapshot = observe::survey(&config.fleet).await;
    let view = fleet_view::view(&snapshot, Instant::now());
    if args.json {
        terminal::print_json(&view)?;
    } else {
        terminal::print(&fleet_view::text(&view, Paint::for_stdout(environment.no_colour)))?;
    }
    Ok(if is_whole(&view) { exit::DONE } else { exit::no() })
}

/// Whether every server that answers could be given a role, and one of them takes writes. A role that is not
/// known, for want of a privilege or because servers contradict each other, is no answer.
fn is_whole(fleet: &FleetView) -> bool {
    let unknown = |server: &ServerView| server.state == "answering" && server.role == "unknown";
    fleet.writer.is_some() && !fleet.servers.iter().any(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_answers_and_has_no_role_is_no_answer() {
        let server = |role: &str, state: &str| ServerView {
            role: role.to_owned(),
            state: state.to_owned(),
            ..ServerView::default()
        };
        let with = |server: ServerView| FleetView {
            writer: Some("a1".to_owned()),
            servers: vec![server],
            ..FleetView::default()
        };
        assert!(is_whole(&with(server("replica", "answering"))));
        assert!(is_whole(&with(server("unknown", "failing"))), "one that is down has a reason of its own");
        assert!(!is_whole(&with(server("unknown", "answering"))));
        assert!(!is_whole(&FleetView::default()));
    }
}
