//! `headroom fleet`: one look at the servers, printed.

use crate::cli::FleetArgs;
use crate::environment::Environment;
use crate::terminal::{self, Paint};
use crate::{credentials, exit, fleet_view, source};
use std::process::ExitCode;
use std::time::Instant;

/// Runs `headroom fleet`.
pub(crate) async fn run(args: FleetArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let mut config = source::for_fleet(&args.source)?.config;
    config.fleet.credentials = credentials::resolve(&config, environment)?;
    let snapshot = observe::survey(&config.fleet).await;
    let view = fleet_view::view(&snapshot, Instant::now());
    if args.json {
        terminal::print_json(&view)?;
    } else {
        terminal::print(&fleet_view::text(&view, Paint::for_stdout(environment)))?;
    }
    Ok(if view.writer.is_some() { exit::DONE } else { exit::no() })
}
