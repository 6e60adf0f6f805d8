//! `headroom knob list` and `show`: the catalogue beside what this host has.

use super::{LoginArgs, PlaceArgs, blocking};
use crate::environment::Environment;
use clap::Args;
use knob::catalogue::{CATALOGUE, Change, Danger, Family, Group, Knob, Proof};
use knob::item::Access;
use knob::name::{self, Name};
use knob::server::{Kind, Server};
use knob::{Host, resolve};
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use term::{Table, exit, terminal};

const LIST_EXAMPLES: &str = "\
Examples:
  headroom knob list                 what this host has, with present values
  headroom knob list block@vda       names that contain 'block', of vda
  headroom knob list --all           every row of the catalogue";

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
                  server.innodb_io_capacity --server db1:3306 --json")]
pub(crate) struct ShowArgs {
    /// The knob; with @TARGET its present value is shown.
    knob: String,
    #[command(flatten)]
    login: LoginArgs,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A row of the catalogue, and what it is on this host.
#[derive(Clone, Debug, Serialize)]
struct Row {
    knob: String,
    family: Family,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    takes: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    danger: Option<String>,
    change: Change,
    proof: Proof,
    #[serde(skip_serializing_if = "Option::is_none")]
    state_with: Option<String>,
    source: &'static str,
    help: &'static str,
}

pub(super) async fn list(args: ListArgs, _environment: &Environment) -> anyhow::Result<ExitCode> {
    let (host, pattern) = (args.place.host(), args.pattern.clone().unwrap_or_default());
    let all = args.all;
    let rows = blocking(move || Ok(rows(&host, &pattern, all))).await?;
    if args.json {
        terminal::print_json(&rows)?;
    } else {
        let mut table = Table::new(&["KNOB", "VALUE", "TAKES", "CHANGE", "DANGER"]);
        for row in &rows {
            let value = row.value.clone().unwrap_or_else(|| "-".to_owned());
            let danger = if row.danger.is_some() { "must be named" } else { "" };
            table.row(vec![
                row.knob.clone(),
                value,
                row.takes.clone(),
                row.change.words().to_owned(),
                danger.to_owned(),
            ]);
        }
        terminal::print(&table.text())?;
    }
    Ok(if rows.is_empty() { exit::no() } else { exit::DONE })
}

fn rows(host: &Host, pattern: &str, all: bool) -> Vec<Row> {
    let (wanted, target) = pattern.split_once('@').unwrap_or((pattern, ""));
    let mut rows = Vec::new();
    for knob in CATALOGUE
        .iter()
        .filter(|knob| knob.name.contains(wanted) || wanted.starts_with(knob.name.trim_end_matches('*')))
    {
        if all {
            let name = Name { knob, rest: String::new(), target: String::new() };
            rows.push(Row { knob: knob.name.to_owned(), ..shown(&name, None, &[]) });
            continue;
        }
        for found in
            resolve::targets(host, knob).into_iter().filter(|found| target.is_empty() || found == target)
        {
            let rests = if knob.name.ends_with('*') {
                resolve::names_below(host, knob, &found)
            } else {
                vec![String::new()]
            };
            for rest in rests {
                let name = Name { knob, rest, target: found.clone() };
                let (value, offered) = knob::apply::offered(host, &name);
                if resolve::resolve(host, &name, None).is_ok() {
                    let value = value.map(Ok).unwrap_or_else(|| present(host, None, &name));
                    rows.push(shown(&name, Some(value), &offered));
                }
            }
        }
    }
    rows
}

fn present(
    host: &Host,
    server: Option<&mut (dyn Server + 'static)>,
    name: &Name,
) -> Result<String, knob::Refusal> {
    let setting = resolve::resolve(host, name, None)?;
    let mut actions = BTreeMap::new();
    let mut access = Access { host, server, actions: &mut actions };
    let values: Vec<String> =
        setting.written.iter().map(|item| access.read(item)).collect::<Result<_, _>>()?;
    Ok(setting.together(&values))
}

fn shown(name: &Name, value: Option<Result<String, knob::Refusal>>, offered: &[String]) -> Row {
    let Knob { family, change, proof, source, help, .. } = *name.knob;
    let danger = match name.knob.danger {
        Danger::No => None,
        Danger::Always(why) => Some(why.to_owned()),
        Danger::Except(safe, why) => Some(format!("unless it is {}: {why}", safe.join(" or "))),
        Danger::ByName => Some("some names and values".to_owned()),
    };
    let state_with = match name.knob.group {
        Group::Alone => None,
        Group::Scheduler => {
            Some("the scheduler of the disk, its settings, nr_requests and wbt_lat_usec".to_owned())
        }
        Group::Twins(_, names) => Some(names.join(", ")),
        Group::Files(_, files) => Some(files.iter().map(|(path, _)| *path).collect::<Vec<_>>().join(", ")),
    };
    let takes = if offered.is_empty() { name.knob.values.words() } else { offered.join(", ") };
    let (value, unreadable) = match value {
        Some(Ok(value)) => (Some(value), None),
        Some(Err(refusal)) => (None, Some(refusal.to_string())),
        None => (None, None),
    };
    Row {
        knob: name.to_string(),
        family,
        value,
        unreadable,
        takes,
        danger,
        change,
        proof,
        state_with,
        source,
        help,
    }
}

pub(super) async fn show(args: ShowArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let host = args.place.host();
    // Without a target the row itself is shown.
    let name = match name::parse(&host, &args.knob) {
        Err(knob::Error::BadTarget { .. }) if !args.knob.contains('@') => {
            let all = rows(&host, &args.knob, true);
            let exact = all
                .into_iter()
                .find(|row| row.knob == args.knob || args.knob.starts_with(row.knob.trim_end_matches('*')));
            return exact.map_or_else(|| Ok(exit::no()), |row| print(&row, args.json));
        }
        other => other?,
    };
    let (mut connect, address) = (args.login.connect(environment)?, args.login.address());
    let row = blocking(move || {
        let mut server = address.map(|address| connect(&address)).transpose()?;
        let (_, offered) = knob::apply::offered(&host, &name);
        let described = match &mut server {
            Some(server) if name.knob.family == Family::Server => server.describe(&name.rest)?,
            _ => None,
        };
        let value = present(&host, server.as_deref_mut(), &name);
        let mut row = shown(&name, Some(value), &offered);
        if let Some(variable) = described {
            row.takes = match variable.kind {
                Kind::Number { min, max } => format!("{min} to {max}"),
                Kind::Switch => "ON, OFF".to_owned(),
                Kind::Words(words) => words.join(", "),
                Kind::Text => "text".to_owned(),
            };
            if variable.dynamic == Some(false) {
                row.takes.push_str("; needs a restart");
            }
        }
        Ok(row)
    })
    .await?;
    print(&row, args.json)
}

fn print(row: &Row, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        terminal::print_json(row)?;
        return Ok(if row.unreadable.is_some() { exit::no() } else { exit::DONE });
    }
    let mut text = format!("{}\n  {}\n", row.knob, row.help);
    let mut line = |label: &str, words: &str| text.push_str(&format!("  {label:<9} {words}\n"));
    if let Some(danger) = &row.danger {
        line("Warning", danger);
    }
    match (&row.value, &row.unreadable) {
        (Some(value), _) => line("now", value),
        (None, Some(why)) => line("now", &format!("cannot be read: {why}")),
        (None, None) => {}
    }
    line("takes", &row.takes);
    line("change", row.change.words());
    line("verified", row.proof.words());
    if let Some(with) = &row.state_with {
        line("one state", &format!("with {with}"));
    }
    line("source", row.source);
    terminal::print(&text)?;
    Ok(if row.unreadable.is_some() { exit::no() } else { exit::DONE })
}
