//! `headroom knob profile`: published settings as knobs.

use clap::Args;
use knob::profile::{self, PLACEHOLDERS, PROFILES};
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
    #[arg(value_parser = known)]
    name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Refuses other names, with those that there are.
pub(super) fn known(name: &str) -> Result<String, String> {
    let names: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
    if names.contains(&name) { Ok(name.to_owned()) } else { Err(format!("there is {}", names.join(" and "))) }
}

/// `disk=vda`
pub(super) fn placeholder(text: &str) -> Result<(String, String), String> {
    let known = |(name, value): &(&str, &str)| PLACEHOLDERS.contains(name) && !value.is_empty();
    let halves = text.split_once('=').filter(known);
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    halves.map(owned).ok_or_else(|| format!("write disk=vda; the names are {}", PLACEHOLDERS.join(", ")))
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
