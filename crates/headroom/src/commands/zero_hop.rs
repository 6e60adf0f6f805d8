//! `headroom zero-hop status` and `off`: what is pinned in the kernel, of running routers and of those that
//! have ended.

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use term::{Table, exit, terminal};
use zerohop::pins::{self, PinSet, Removal};

/// What is pinned in the kernel so that connections go straight to a server.
#[derive(Subcommand, Debug, Clone)]
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
    if let Some(unknown) = args.which.iter().find(|which| !known.iter().any(|p| is_part(p, which))) {
        let there = if known.is_empty() { "nothing".to_owned() } else { what(&known, &[]).join(", ") };
        terminal::complain(&format!("headroom: nothing is pinned as '{unknown}'; there is {there}"));
        return Ok(exit::no());
    }
    let what = what(&known, &args.which);
    if !args.yes && !what.is_empty() && !confirmed(&what)? {
        return Ok(exit::no());
    }
    let removed = remove(&args.which, args.which.is_empty()).context("zero-hop could not be removed")?;
    if args.json {
        terminal::print_json(&removed)?;
    } else {
        terminal::print(&farewell(&removed))?;
    }
    Ok(exit::DONE)
}

/// Whether `which` names these pins, or one of their listeners.
fn is_part(pinned: &PinSet, which: &str) -> bool {
    let address = which.parse::<SocketAddr>().ok();
    pinned.name == which || pinned.listeners.iter().any(|listener| Some(listener.address) == address)
}

/// What would be removed, a line each; all without `which`.
fn what(known: &[PinSet], which: &[String]) -> Vec<String> {
    let whole = |p: &PinSet| which.is_empty() || which.contains(&p.name);
    let mut lines = Vec::new();
    for pinned in known {
        let of = format!("{} ({})", pinned.name, pinned.title);
        if pinned.listeners.is_empty() && whole(pinned) {
            lines.push(of.clone());
        }
        for address in pinned.listeners.iter().map(|listener| listener.address.to_string()) {
            if whole(pinned) || which.contains(&address) {
                lines.push(format!("{address} of {of}"));
            }
        }
    }
    lines
}

/// Shows what will be removed and asks; without a terminal there is nobody to ask.
fn confirmed(what: &[String]) -> anyhow::Result<bool> {
    let list = what.iter().map(|line| format!("  {line}\n")).collect::<String>();
    let text = format!(
        "This removes from the kernel what is pinned for\n{list}New connections go through the listeners."
    );
    if !std::io::stdin().is_terminal() {
        bail!("{text} Say that this is meant with --yes.");
    }
    terminal::print(&format!("{text} Continue? [y/N] "))?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn remove(which: &[String], all: bool) -> std::io::Result<Removal> {
    let addresses: Vec<SocketAddr> = which.iter().filter_map(|which| which.parse().ok()).collect();
    let names: Vec<String> = which.iter().filter(|w| w.parse::<SocketAddr>().is_err()).cloned().collect();
    let mut removed = if all || !names.is_empty() { pins::remove(&names)? } else { Removal::default() };
    if !addresses.is_empty() {
        let alone = pins::remove_listeners(&addresses)?;
        removed.names.extend(alone.names);
        removed.listeners.extend(alone.listeners);
        removed.sessions += alone.sessions;
        removed.unmounted |= alone.unmounted;
    }
    Ok(removed)
}

fn text(all: &[PinSet]) -> String {
    if all.is_empty() {
        return "Nothing is pinned: all connections go through the listeners.\n".to_owned();
    }
    let mut text = String::new();
    for pinned in all {
        text.push_str(&format!("{}  {}\n  {}\n", pinned.name, pinned.title, state(pinned)));
        let mut table = Table::new(&["LISTENER", "SERVER", ">OPEN", ">PAST", ">KEPT"]);
        for listener in &pinned.listeners {
            let counts = listener.counts;
            let kept = counts.chosen + counts.suspect + counts.unfit;
            table.row(vec![
                listener.address.to_string(),
                String::new(),
                listener.servers.iter().map(|(_, open)| open).sum::<u64>().to_string(),
                counts.bypassed.to_string(),
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

fn state(pinned: &PinSet) -> String {
    let by = pinned.owner;
    let sessions = pinned.sessions;
    let dir = pinned.directory.display();
    match (pinned.unreadable, pinned.alive, pinned.in_force) {
        (true, ..) => {
            format!("made by another version of headroom; headroom zero-hop off removes it ({dir})")
        }
        (_, true, _) => format!("in force, written by process {by}; {sessions} sessions; {dir}"),
        (_, _, true) => format!(
            "in force, and process {by} is silent: readers go to the servers it picked last, writers to their listener; \
             {sessions} sessions; {dir}"
        ),
        _ => format!(
            "inactive since process {by} ended: connections go to the listeners; {sessions} sessions; {dir}"
        ),
    }
}

fn farewell(removed: &Removal) -> String {
    let alone = removed.listeners.iter().map(SocketAddr::to_string);
    let all: Vec<String> = removed.names.iter().cloned().chain(alone).collect();
    if all.is_empty() {
        return "Nothing was pinned.\n".to_owned();
    }
    let mut text = format!(
        "Removed: {}. New connections go through the listeners; {} open sessions stay.\n",
        all.join(", "),
        removed.sessions
    );
    if removed.unmounted {
        text.push_str("/sys/fs/bpf, which headroom had mounted, is unmounted.\n");
    }
    text
}
