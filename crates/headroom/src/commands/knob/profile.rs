//! `headroom knob profile`: published settings as knobs.

use clap::Args;
use knob::profile::{self, PROFILES};
use knob::text;
use std::process::ExitCode;
use term::{exit, terminal};

/// Settings that others have published, with their reasons and what is stale today.
///
/// A starting point for measurements, not advice. `headroom knob set --profile NAME` sets the rows that can
/// be set.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  headroom knob profile pinterest\n  headroom knob profile letsencrypt --json"
)]
pub(crate) struct ProfileArgs {
    /// Which one; without it, their names.
    #[arg(value_parser = profile::parse_name)]
    name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn profile(args: &ProfileArgs) -> anyhow::Result<ExitCode> {
    match args.name.as_deref().and_then(profile::find) {
        None if args.json => terminal::print_json(&PROFILES)?,
        None => {
            let lines = PROFILES.iter().map(|profile| format!("{}  {}\n", profile.name, profile.title));
            terminal::print(&lines.collect::<String>())?;
        }
        Some(profile) if args.json => terminal::print_json(profile)?,
        Some(profile) => terminal::print(&text::profile(profile))?,
    }
    Ok(exit::DONE)
}
