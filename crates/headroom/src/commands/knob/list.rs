//! `headroom knob list` and `show`: the catalogue beside what this host has.

use super::{LoginArgs, PlaceArgs, blocking};
use crate::environment::Environment;
use clap::Args;
use knob::managed::Managed;
use knob::{text, view};
use std::path::PathBuf;
use std::process::ExitCode;
use term::{exit, terminal};

const LIST_EXAMPLES: &str = "\
Examples:
  headroom knob list                 what this host has, with present values
  headroom knob list block@vda       names that contain 'block', of vda
  headroom knob list --all           every row of the catalogue

Exit code 1: nothing matches.";

/// What can be changed here, with the present values.
#[derive(Args, Debug, Clone)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListArgs {
    /// Only names that contain this; behind @ a target.
    pattern: Option<String>,
    /// The whole catalogue, whether this host has it or not.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One knob: what it does, takes and is now, and where that is documented.
#[derive(Args, Debug, Clone)]
#[command(after_help = "Examples:\n  headroom knob show block.scheduler@vda\n  headroom knob show \
                  server.innodb_io_capacity --server db1:3306 --json\n\nExit code 1: its value \
                  cannot be read.")]
pub(crate) struct ShowArgs {
    /// The knob; with @TARGET its present value is shown.
    knob: String,
    /// How the server is restarted, for knobs of @server.
    #[arg(long, value_name = "FILE")]
    managed: Option<PathBuf>,
    #[command(flatten)]
    login: LoginArgs,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn list(args: ListArgs, _environment: &Environment) -> anyhow::Result<ExitCode> {
    let (host, pattern) = (args.place.host(), args.pattern.unwrap_or_default());
    let (all, wanted) = (args.all, pattern.clone());
    let rows = blocking(move || Ok(view::rows(&host, &wanted, all))).await?;
    if args.json {
        terminal::print_json(&rows)?;
    } else if rows.is_empty() {
        terminal::complain(&format!("headroom: {}", nothing(&pattern, all)));
    } else {
        terminal::print(&text::list(&rows))?;
    }
    Ok(if rows.is_empty() { exit::no() } else { exit::DONE })
}

/// Why nothing is listed, and what to type instead. The server's variables are no rows: only it knows them.
fn nothing(pattern: &str, all: bool) -> String {
    let (what, next) = if all {
        ("the catalogue has", "headroom knob list --all shows all of it")
    } else {
        ("this host has", "headroom knob list --all shows the whole catalogue")
    };
    format!(
        "{what} no knob like '{pattern}'; {next}; a variable of a server is shown by headroom knob show \
         server.VARIABLE --server HOST:PORT"
    )
}

pub(super) async fn show(args: ShowArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let (host, knob) = (args.place.host(), args.knob);
    let (mut connect, address) = (args.login.connect(environment)?, args.login.address());
    let managed = args.managed.map(|path| Managed::read(&path)).transpose()?;
    let found = blocking(move || {
        let server = || Ok(address.map(|address| connect(&address)).transpose()?);
        Ok(view::one(&host, &knob, managed.as_ref(), server)?)
    });
    let Some(row) = found.await? else { return Ok(exit::no()) };
    if args.json {
        terminal::print_json(&row)?;
    } else {
        terminal::print(&text::one(&row))?;
    }
    Ok(if row.unreadable.is_some() { exit::no() } else { exit::DONE })
}
