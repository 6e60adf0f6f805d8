//! The catalogue beside what this host has: what `headroom knob list` and `show` show and print as JSON, and
//! what `set` prints as JSON.

use crate::apply::{self, Outcome, Write};
use crate::catalogue::{CATALOGUE, Change, Danger, Family, Group, Knob, Place, Proof};
use crate::error::{Error, Refusal};
use crate::item::Access;
use crate::managed::Managed;
use crate::name::{self, Name};
use crate::server::{Kind, Server};
use crate::session::RestoreOutcome;
use crate::tuner::Tuner;
use crate::{Host, resolve};
use serde::Serialize;
use std::collections::BTreeMap;

/// A row of the catalogue, and what it is on this host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KnobView {
    pub knob: String,
    pub family: Family,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    pub takes: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub danger: Option<String>,
    pub change: Change,
    pub proof: Proof,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_with: Option<String>,
    pub source: &'static str,
    pub help: &'static str,
}

/// The rows that match `block@vda` (names that contain what stands before the `@`, on the target behind it):
/// those that this host has, or `all` of the catalogue.
pub fn rows(host: &Host, pattern: &str, all: bool) -> Vec<KnobView> {
    let (wanted, target) = pattern.split_once('@').unwrap_or((pattern, ""));
    let mut rows = Vec::new();
    for knob in CATALOGUE
        .iter()
        .filter(|knob| knob.name.contains(wanted) || wanted.starts_with(knob.name.trim_end_matches('*')))
    {
        if all {
            let name = Name { knob, rest: String::new(), target: String::new() };
            rows.push(KnobView { knob: knob.name.to_owned(), ..shown(&name, None, &[]) });
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
                let (value, offered) = apply::offered(host, &name);
                if resolve::resolve(host, &name, None).is_ok() {
                    let value = value.map(Ok).unwrap_or_else(|| present(host, None, None, &name));
                    rows.push(shown(&name, Some(value), &offered));
                }
            }
        }
    }
    rows
}

/// What a knob is now.
fn present(
    host: &Host,
    managed: Option<&Managed>,
    server: Option<&mut (dyn Server + 'static)>,
    name: &Name,
) -> Result<String, Refusal> {
    let program = managed.map(Managed::program);
    let setting = resolve::resolve(host, name, resolve::managed(name, program.as_deref()))?;
    let mut actions = BTreeMap::new();
    let mut access = Access { host, server, actions: &mut actions };
    let values: Vec<String> =
        setting.written.iter().map(|item| access.read(item)).collect::<Result<_, _>>()?;
    Ok(setting.together(&values))
}

/// A row with what was read of it.
fn shown(name: &Name, value: Option<Result<String, Refusal>>, offered: &[String]) -> KnobView {
    let Knob { family, change, proof, source, help, .. } = *name.knob;
    let danger = match name.knob.danger {
        Danger::No => None,
        Danger::Always(why) => Some(why.to_owned()),
        Danger::Except(safe, why) => Some(format!("unless it is {}: {why}", safe.join(" or "))),
        Danger::ByName => Some("some names and values".to_owned()),
    };
    let state_with = match name.knob.group {
        Group::Alone => resolve::state_of(name).map(|variables| variables.join(", ")),
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
    KnobView {
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

/// A knob by its name; `None` when there is none such. Without a target the row of the catalogue is shown,
/// as it is nowhere; `server` is asked for a variable of its own.
///
/// # Errors
/// The name or its target is not right, or the server cannot be asked.
pub fn one(
    host: &Host,
    text: &str,
    managed: Option<&Managed>,
    server: impl FnOnce() -> Result<Option<Box<dyn Server>>, Error>,
) -> Result<Option<KnobView>, Error> {
    let name = match name::parse(host, text) {
        Err(Error::BadTarget { .. }) if !text.contains('@') => {
            let is_it = |row: &KnobView| row.knob == text || text.starts_with(row.knob.trim_end_matches('*'));
            return Ok(rows(host, text, true).into_iter().find(is_it));
        }
        other => other?,
    };
    let mut server = server()?;
    let (_, offered) = apply::offered(host, &name);
    let described = match &mut server {
        Some(server) if name.knob.place == Place::Variable => server.describe(&name.rest)?,
        _ => None,
    };
    let value = present(host, managed, server.as_deref_mut(), &name);
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
    Ok(Some(row))
}

/// What `headroom knob set --json` prints.
#[derive(Debug, Serialize)]
pub struct SetReport<'a> {
    pub tuners: &'a [Tuner],
    /// Why it is not known whether others run; `None` where it is known.
    pub tuners_unknown: Option<&'a str>,
    pub left_out: &'a [String],
    pub recovered: &'a [RestoreOutcome],
    pub outcomes: &'a [Outcome],
    pub restored: &'a [RestoreOutcome],
}

/// What `--dry-run` shows of one change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Preview {
    pub knob: String,
    pub value: String,
    #[serde(flatten)]
    pub writes: Writes,
}

/// What would be written, or why nothing can be.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Writes {
    Writes(Vec<Write>),
    Refused(Refusal),
}

impl Preview {
    pub fn is_refused(&self) -> bool {
        matches!(self.writes, Writes::Refused(_))
    }
}
