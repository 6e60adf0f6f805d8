//! `headroom zero-hop status` and `off`: what is pinned in the kernel, of running routers and of those that are gone.

use crate::table::Table;
use crate::{exit, terminal};
use anyhow::Context;
use clap::{Args, Subcommand};
use std::process::ExitCode;
use zerohop::pins::{self, Pinned, Removed};

/// What is pinned in the kernel so that connections go straight to a server.
#[derive(Subcommand, Debug, Clone)]
pub(crate) enum ZeroHopCommand {
    /// Show everything that is pinned, of running processes and of those that are gone.
    #[command(after_help = "Example:\n  headroom zero-hop status --json")]
    Status(ZeroHopStatusArgs),
    /// Remove it: new connections go through the listeners again. Open sessions stay.
    #[command(
        after_help = "Examples:\n  headroom zero-hop off\n  headroom zero-hop off headroom-5f1c0a9be2d34718"
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
    /// Only these, by the names that `headroom zero-hop status` shows.
    pub(crate) names: Vec<String>,
    /// Print what was done as JSON.
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
    let all = pins::list();
    if args.json {
        terminal::print_json(&all)?;
    } else {
        terminal::print(&text(&all))?;
    }
    Ok(exit::DONE)
}

fn off(args: &ZeroHopOffArgs) -> anyhow::Result<ExitCode> {
    let known = pins::list();
    if let Some(unknown) = args.names.iter().find(|name| !known.iter().any(|pinned| pinned.name == **name)) {
        let names: Vec<&str> = known.iter().map(|pinned| pinned.name.as_str()).collect();
        let there = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        terminal::complain(&format!("headroom: nothing is pinned as '{unknown}'; there is {there}"));
        return Ok(exit::no());
    }
    let removed = pins::remove(&args.names).context("zero-hop could not be removed")?;
    if args.json {
        terminal::print_json(&removed)?;
    } else {
        terminal::print(&farewell(&removed))?;
    }
    Ok(exit::DONE)
}

fn text(all: &[Pinned]) -> String {
    if all.is_empty() {
        return "Nothing is pinned: all connections go through the listeners.\n".to_owned();
    }
    let mut text = String::new();
    for pinned in all {
        text.push_str(&format!("{}  {}\n  {}\n", pinned.name, pinned.title, state(pinned)));
        let mut table = Table::new(&["LISTENER", "SERVER", ">OPEN", ">PAST", ">KEPT"]);
        for listener in &pinned.listeners {
            let fate = listener.fate;
            let kept = fate.chosen + fate.doubt + fate.unfit;
            table.row(vec![
                listener.address.to_string(),
                String::new(),
                listener.servers.iter().map(|(_, open)| open).sum::<u64>().to_string(),
                fate.past.to_string(),
                kept.to_string(),
            ]);
            for (server, open) in &listener.servers {
                table.row(vec![
                    String::new(),
                    server.to_string(),
                    open.to_string(),
                    String::new(),
                    String::new(),
                ]);
            }
        }
        text.push_str(&table.text());
    }
    text
}

fn state(pinned: &Pinned) -> String {
    let by = pinned.owner;
    let sessions = pinned.sessions;
    let dir = pinned.directory.display();
    match (pinned.unreadable, pinned.alive, pinned.in_force) {
        (true, ..) => {
            format!("made by another version of headroom; headroom zero-hop off removes it ({dir})")
        }
        (_, true, _) => format!("in force, written by process {by}; {sessions} sessions; {dir}"),
        (_, _, true) => format!(
            "in force, and process {by} is silent: connections go to the servers it picked last; {sessions} sessions; {dir}"
        ),
        _ => format!("process {by} has ended: connections go to the listeners; {sessions} sessions; {dir}"),
    }
}

fn farewell(removed: &Removed) -> String {
    if removed.names.is_empty() {
        return "Nothing was pinned.\n".to_owned();
    }
    let mut text = format!(
        "Removed: {}. New connections go through the listeners; {} open sessions stay.\n",
        removed.names.join(", "),
        removed.sessions
    );
    if removed.unmounted {
        text.push_str("/sys/fs/bpf, which headroom had mounted, is unmounted.\n");
    }
    text
}
