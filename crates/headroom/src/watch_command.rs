//! `headroom watch`: this host and its servers, each with what holds it up, and `headroom agent`: the same for other
//! programs.

mod agent;
mod metrics;
mod station;
mod text;
mod view;

use crate::cli::{SourceArgs, WatchArgs};
use crate::environment::Environment;
use crate::probe_command::known_ceilings;
use crate::terminal::{self, Paint};
use crate::{credentials, exit, interrupted, source};
use fleet::config::FleetConfig;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) use agent::run as agent;
pub(crate) use station::{Station, Watching};
pub(crate) use view::{VerdictView, WatchView, figure as words};

/// Windows are judged once this often.
const EVERY: Duration = Duration::from_secs(1);

/// Runs `headroom watch`.
pub(crate) async fn run(args: WatchArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let station = Station::start(
        fleet_of(&args.source, environment)?,
        Watching::against(known_ceilings(environment), args.window),
    );
    let paint = Paint::for_stdout(environment);
    let outcome = tokio::select! {
        outcome = show(&station, &args, paint) => outcome,
        () = interrupted::interrupted() => Ok(exit::DONE),
    };
    station.stop().await;
    outcome
}

async fn show(station: &Station, args: &WatchArgs, paint: Paint) -> anyhow::Result<ExitCode> {
    let mut views = station.views();
    if args.once {
        // A window, and the windows that a verdict needs to be named.
        let until = tokio::time::Instant::now() + args.window + EVERY * 3;
        tokio::time::sleep_until(until).await;
        let view = views.borrow_and_update().clone();
        if args.json {
            terminal::print_json(&*view)?;
        } else {
            terminal::print(&text::text(&view, paint))?;
        }
        return Ok(if view.has_bottleneck() { exit::no() } else { exit::DONE });
    }
    let live = std::io::stdout().is_terminal() && !args.json;
    let mut said = String::new();
    loop {
        views.changed().await?;
        let view = views.borrow_and_update().clone();
        if args.json {
            terminal::print(&(serde_json::to_string(&*view)? + "\n"))?;
        } else if live {
            // Home, the text, and what was longer before is wiped.
            let page = text::text(&view, paint).replace('\n', "\x1b[K\n");
            terminal::print(&format!("\x1b[H{page}\x1b[J"))?;
        } else {
            let lines = text::lines(&view);
            if lines != said {
                terminal::print(&lines)?;
                said = lines;
            }
        }
    }
}

/// The fleet to watch; `None` when no server is named anywhere: then it is this host alone.
fn fleet_of(args: &SourceArgs, environment: &Environment) -> anyhow::Result<Option<FleetConfig>> {
    let sourced = match source::for_fleet(args) {
        Ok(sourced) => sourced,
        Err(error) if error.is_usage() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut config = sourced.config;
    config.fleet.credentials = credentials::resolve(&config, environment)?;
    Ok(Some(config.fleet))
}
