//! `headroom zero-hop status` and `off`: what is pinned in the kernel, of running routers and of those that
//! have ended.

use crate::commands::refused;
use anyhow::Context;
use clap::{Args, Subcommand};
use console::pinned_text;
use std::process::ExitCode;
use term::{exit, terminal};
use zerohop::pins;

const EXAMPLES: &str = "\
Examples:
  headroom zero-hop status
      What is pinned, of running routers and of those that have ended.
  headroom zero-hop off 127.0.0.1:3306
      New connections to this listener go through the router again. It asks first.";

/// Said where this user may not look: that is no answer, and not that nothing is pinned.
const UNSEEN: &str = "what is pinned is not known";

/// What is pinned in the kernel so that connections go straight to a server.
#[derive(Subcommand, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) enum ZeroHopCommand {
    /// Show everything that is pinned, of running processes and of those that have ended.
    #[command(after_help = "Example:\n  headroom zero-hop status --json")]
    Status(ZeroHopStatusArgs),
    /// Remove it: new connections go through the listeners again. Open sessions stay. Shows what will be
    /// removed and asks.
    #[command(
        after_help = "Examples:\n  headroom zero-hop off 127.0.0.1:3306\n  headroom zero-hop off headroom-5f1c0a9be2d34718\n  \
                      headroom zero-hop off --yes"
    )]
    Off(ZeroHopOffArgs),
}

/// Show everything that is pinned.
#[derive(Args, Debug, Clone)]
pub(crate) struct ZeroHopStatusArgs {
    /// Print it as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Remove what is pinned.
#[derive(Args, Debug, Clone)]
pub(crate) struct ZeroHopOffArgs {
    /// Only these: addresses of listeners, or names, as `headroom zero-hop status` shows them. Without any,
    /// everything.
    #[arg(value_name = "LISTENER|NAME")]
    pub(crate) which: Vec<String>,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print what was done as JSON, or {"refused": WHY} where nothing was.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs either.
pub(crate) fn run(command: ZeroHopCommand) -> anyhow::Result<ExitCode> {
    match command {
        ZeroHopCommand::Status(args) => status(&args),
        ZeroHopCommand::Off(args) => off(&args),
    }
}

fn status(args: &ZeroHopStatusArgs) -> anyhow::Result<ExitCode> {
    let all = pins::look().context(UNSEEN)?;
    if args.json {
        terminal::print_json(&all)?;
    } else {
        terminal::print(&pinned_text::all(&all))?;
    }
    Ok(exit::DONE)
}

fn off(args: &ZeroHopOffArgs) -> anyhow::Result<ExitCode> {
    let known = pins::look().context(UNSEEN)?;
    if let Some(unknown) = args.which.iter().find(|which| !known.iter().any(|p| p.is_called(which))) {
        let there = if known.is_empty() {
            "nothing".to_owned()
        } else {
            pinned_text::removable(&known, &[]).join(", ")
        };
        let why = format!("nothing is pinned as '{unknown}'; there is {there}");
        terminal::complain(&format!("headroom: {why}"));
        return refused(&why, args.json);
    }
    let what = pinned_text::removable(&known, &args.which);
    if !args.yes && !what.is_empty() && !confirmed(&what)? {
        let why = "nothing was removed";
        terminal::complain(why);
        return refused(why, args.json);
    }
    let removed = pins::remove_called(&args.which).context("zero-hop could not be removed")?;
    if args.json {
        terminal::print_json(&removed)?;
    } else {
        terminal::print(&pinned_text::removed(&removed))?;
    }
    Ok(exit::DONE)
}

/// Shows what will be removed and asks.
fn confirmed(what: &[String]) -> anyhow::Result<bool> {
    let list = what.iter().map(|line| format!("  {line}\n")).collect::<String>();
    let text = format!(
        "This removes from the kernel what is pinned for\n{list}New connections go through the listeners."
    );
    terminal::ask(&format!("{text} Continue?"))
}
