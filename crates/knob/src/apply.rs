//! How a setting is changed: checked, announced in the journal, written, read back. What is refused, or reads
//! back differently, is undone at once and never counts as tried.

use crate::catalogue::{self, Place};
use crate::error::{Error, Refusal};
use crate::host::Host;
use crate::identity;
use crate::item::{Access, ItemValue};
use crate::journal::{Author, End, Intent, Journal};
use crate::name::{self, Name};
use crate::resolve::{self, Setting, same};
use crate::server::Server;
use crate::tuner::Tuner;
use crate::value::{self, Facts, ValueError, Values};
use crate::{mount, restore, server, verify};
use serde::Serialize;
use std::time::Duration;

/// A change that was checked: nothing but the host itself can refuse it.
#[derive(Clone, Debug)]
pub struct Change {
    pub name: Name,
    pub value: String,
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The knob with its target.
    pub knob: String,
    /// What was asked for.
    pub value: String,
    /// What was there; `None` where that could not be read.
    pub before: Option<String>,
    #[serde(flatten)]
    pub status: Status,
}

/// What happened to a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Status {
    Applied {
        /// What else there is to know.
        note: Option<String>,
    },
    /// It was so already; nothing was written.
    Already,
    /// It is not in force, and what was there is there.
    Refused { refusal: Refusal },
}

impl Outcome {
    /// Whether the setting is as it was asked for.
    pub fn is_in_force(&self) -> bool {
        !matches!(self.status, Status::Refused { .. })
    }
}

/// How changes are made.
#[derive(Clone, Debug)]
pub struct Manner {
    /// Who makes them.
    pub author: Author,
    /// Whether they stay when the process ends.
    pub keep: bool,
    /// The program that sets a server variable and restarts the server, or
    /// [`crate::managed::Managed::program`].
    pub restart: Option<String>,
    /// How long interrupts are waited for.
    pub patience: Duration,
}

/// Checks every assignment before the first is applied: names, values, dangers. The order is the catalogue's.
///
/// # Errors
/// The first that is wrong, or dangerous and not named in `dangers`.
pub fn check(
    host: &Host,
    mut server: Option<&mut (dyn Server + 'static)>,
    assignments: &[String],
    dangers: &[String],
) -> Result<Vec<Change>, Error> {
    let mut changes = Vec::new();
    for assignment in assignments {
        let (name, text) = name::assignment(assignment)?;
        let name = name::parse(host, name)?;
        let bad = |source| Error::BadValue { name: name.to_string(), value: text.to_owned(), source };
        let value = match name.knob.values {
            Values::Server => of_server(server.as_deref_mut(), &name, text)?.map_err(bad)?,
            Values::IoMax => resolve::io_max(text).map_err(bad)?,
            values => {
                let (now, offered) = offered(host, &name);
                let (cpus, page) = (host.cpus(), rustix::param::page_size() as u64);
                let facts = Facts { now: now.as_deref(), offered: &offered, cpus, page };
                value::check(values, text, &facts).map_err(bad)?
            }
        };
        if let Some((flag, why)) = catalogue::danger(&name, &value) {
            let last = flag.rsplit('.').next().unwrap_or_default();
            if !dangers.iter().any(|named| *named == flag || *named == last) {
                return Err(Error::Danger { name: name.to_string(), value, why, flag });
            }
        }
        changes.push(Change { name, value });
    }
    changes.sort_by_key(|change| resolve::rank(&change.name));
    Ok(changes)
}

/// Running programs that would change one of these settings by themselves, and are not in `beside`.
///
/// # Errors
/// The first of them.
pub fn alone(tuners: &[Tuner], changes: &[Change], beside: &[String]) -> Result<(), Error> {
    let disturbs = |tuner: &&Tuner| {
        // Stopping irqbalance beside irqbalance is the point of it.
        let concerned =
            changes.iter().filter(|change| change.name.knob.place != Place::Service("irqbalance"));
        concerned.map(|change| change.name.knob.family).any(|family| tuner.rewrites.contains(&family))
            && !beside.contains(&tuner.program)
    };
    match tuners.iter().find(disturbs) {
        Some(Tuner { program, pid, why, .. }) => {
            Err(Error::Tuner { program: program.clone(), pid: *pid, why: why.clone() })
        }
        None => Ok(()),
    }
}

/// The value now and the words that the host offers.
pub fn offered(host: &Host, name: &Name) -> (Option<String>, Vec<String>) {
    let items = resolve::resolve(host, name, None).map(|setting| setting.written).unwrap_or_default();
    let Some(crate::item::Item::File { path, form }) = items.first() else { return (None, Vec::new()) };
    let Ok(text) = host.read(path) else { return (None, Vec::new()) };
    let offered = match name.knob.values {
        Values::OfferedBy(other) => {
            host.read(other).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
        }
        _ => form.offered(&text),
    };
    (Some(form.canonical(&text)), offered)
}

/// The canonical value of a server variable; one that the server does not have is refused later, alone.
fn of_server(
    server: Option<&mut (dyn Server + 'static)>,
    name: &Name,
    text: &str,
) -> Result<Result<String, ValueError>, Error> {
    let tidy = value::check(Values::Word, text, &Facts::default());
    let (Some(server), Ok(_)) = (server, &tidy) else { return Ok(tidy) };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if !name.rest.chars().all(plain) {
        let why = "a variable's name has letters, digits, _ and .".to_owned();
        return Err(Error::BadTarget { name: name.to_string(), why });
    }
    match server.describe(&name.rest)? {
        Some(variable) => Ok(server::check(&variable, text)),
        None => Ok(Ok(text.to_owned())),
    }
}

/// Applies one change.
pub(crate) fn apply(
    journal: &mut Journal,
    access: &mut Access<'_>,
    change: &Change,
    manner: &Manner,
    now: u64,
) -> (Outcome, Option<u64>) {
    let mut before = None;
    let mut id = None;
    let status = attempt(journal, access, change, manner, now, &mut before, &mut id);
    let status = status.unwrap_or_else(|refusal| Status::Refused { refusal });
    (Outcome { knob: change.name.to_string(), value: change.value.clone(), before, status }, id)
}

fn attempt(
    journal: &mut Journal,
    access: &mut Access<'_>,
    change: &Change,
    manner: &Manner,
    now: u64,
    was: &mut Option<String>,
    id: &mut Option<u64>,
) -> Result<Status, Refusal> {
    let Change { name, value } = change;
    let Preparation { setting, before, current, writes } = prepare(access, change, manner)?;
    *was = Some(setting.together(&current.iter().map(|one| one.value.clone()).collect::<Vec<_>>()));
    if writes.iter().zip(&current).all(|(write, now)| same(&write.item, &write.value, &now.value)) {
        return Ok(Status::Already);
    }
    let intent = Intent {
        knob: name.to_string(),
        value: value.clone(),
        key: setting.key.clone(),
        twins: setting.twins,
        lasts: setting.lasts,
        writes: writes.clone(),
        before: before.clone(),
        facts: identity::facts(access, name)?,
        boot: access.host.boot_id(),
        at: now,
        author: manner.author.clone(),
        keep: manner.keep,
    };
    let in_journal = |error: Error| Refusal::Journal { why: error.to_string() };
    let entry = journal.announce(intent).map_err(in_journal)?;
    *id = Some(entry);
    let written = write(access, &setting, &writes, value, manner);
    let noted = written.and_then(|(after, note)| {
        journal.written(entry, after).map_err(in_journal)?;
        Ok(Status::Applied { note })
    });
    noted.map_err(|refusal| {
        // What cannot be undone now stays in the journal as open, and is tried again by whoever restores.
        match restore::write_back(access, &before, setting.twins) {
            Ok(()) => {
                // A full disk may refuse the note as well: then the entry is found to be back already.
                let _ = journal.close(&[entry], &End::Refused { why: refusal.to_string() }, now);
                refusal
            }
            Err(stuck) => {
                Refusal::Denied { why: format!("{refusal}; and it could not be undone yet: {stuck}") }
            }
        }
    })
}

/// What is known before anything is written.
struct Preparation {
    setting: Setting,
    /// The whole state.
    before: Vec<ItemValue>,
    /// The items that are written, as they are.
    current: Vec<ItemValue>,
    /// The same, as they shall be.
    writes: Vec<ItemValue>,
}

fn prepare(access: &mut Access<'_>, change: &Change, manner: &Manner) -> Result<Preparation, Refusal> {
    let Change { name, value } = change;
    if let Some(why) = catalogue::one_way(name) {
        return Err(Refusal::OneWay { why });
    }
    let restart = restart_needed(access, name, manner)?;
    let mut setting = resolve::resolve(access.host, name, restart.as_deref())?;
    remember_program(access, &mut setting);
    for item in &setting.written {
        if let crate::item::Item::Action { knob, program } = item {
            access.action(knob, program.as_deref())?.check(value)?;
        }
    }
    let before = state(access, &setting.members)?;
    let current = state(access, &setting.written)?;
    let writes = writes(&setting, value, &current)?;
    Ok(Preparation { setting, before, current, writes })
}

/// One write that a change would make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Write {
    pub item: String,
    pub from: String,
    /// What would be written.
    pub to: String,
}

/// The writes of a change, without making them; none if it is so already.
///
/// # Errors
/// Why it would be refused, as far as that shows without trying.
pub fn preview(access: &mut Access<'_>, change: &Change, manner: &Manner) -> Result<Vec<Write>, Refusal> {
    let Preparation { current, writes, .. } = prepare(access, change, manner)?;
    let pairs =
        current.into_iter().zip(writes).filter(|(now, write)| !same(&write.item, &write.value, &now.value));
    Ok(pairs
        .map(|(now, write)| Write { item: now.item.to_string(), from: now.value, to: write.value })
        .collect())
}

/// Writes, and reads the whole state again.
fn write(
    access: &mut Access<'_>,
    setting: &Setting,
    writes: &[ItemValue],
    value: &str,
    manner: &Manner,
) -> Result<(Vec<ItemValue>, Option<String>), Refusal> {
    for ItemValue { item, value } in writes {
        access.write(item, value)?;
    }
    let found = state(access, &setting.written)?;
    verify::read_back(writes, &found)?;
    let note = verify::effect(access, setting, value, manner.patience)?;
    let members = setting.members_now(access.host);
    Ok((state(access, &members)?, note))
}

/// The values of items that are all there.
pub(crate) fn state(access: &mut Access<'_>, items: &[crate::item::Item]) -> Result<Vec<ItemValue>, Refusal> {
    let read = |item: &crate::item::Item| Ok(ItemValue { item: item.clone(), value: access.read(item)? });
    items.iter().map(read).collect()
}

/// What is written: for a mount all of its options, not only those that were named.
fn writes(setting: &Setting, value: &str, current: &[ItemValue]) -> Result<Vec<ItemValue>, Refusal> {
    if setting.name.knob.place != Place::Mount {
        return Ok(setting.values(value));
    }
    let list = |text: &str| text.split(',').map(|option| option.trim().to_owned()).collect::<Vec<_>>();
    let now = current.first().map(|one| list(&one.value)).unwrap_or_default();
    let wanted = mount::merge(&now, &list(value));
    mount::remount(&wanted, &now).map_err(|error| Refusal::OneWay { why: error.to_string() })?;
    Ok(setting.values(&wanted.join(",")))
}

/// The program that a variable needs because it cannot be set without a restart.
fn restart_needed(access: &mut Access<'_>, name: &Name, manner: &Manner) -> Result<Option<String>, Refusal> {
    if name.knob.place != Place::Variable {
        return Ok(resolve::managed(name, manner.restart.as_deref()).map(str::to_owned));
    }
    let Some(variable) = access.server()?.describe(&name.rest)? else {
        return Err(Refusal::Absent { what: format!("the variable {} on this server", name.rest) });
    };
    match (variable.dynamic, &manner.restart) {
        (Some(false), None) => Err(Refusal::Needs {
            what: format!(
                "{} cannot be set while the server runs: it takes an entry in the option file and a restart. \
                 Say how the server is restarted (--managed FILE), or name a program \
                 that does both (called as PROGRAM {} VALUE): --restart-with PROGRAM",
                name.rest, name.rest
            ),
        }),
        (Some(false), Some(program)) => Ok(Some(program.clone())),
        // MySQL does not say: setting it to what it is tells.
        (None, Some(program)) => {
            let server = access.server()?;
            let now = server.global(&name.rest)?;
            let refused = server.set_global(&name.rest, &now).err();
            let needed = matches!(refused, Some(server::ServerError::Answered { code: 1238, .. }));
            Ok(needed.then(|| program.clone()))
        }
        _ => Ok(None),
    }
}

/// Whether a change restarts the server: those come first, for a restart undoes what was only set.
pub(crate) fn restarts(access: &mut Access<'_>, change: &Change, manner: &Manner) -> bool {
    let Ok(Some(program)) = restart_needed(access, &change.name, manner) else { return false };
    let is_limit = matches!(change.name.knob.place, Place::Cgroup(_));
    crate::managed::Managed::is_program(&program) && !is_limit
}

/// Where an action is a program, the journal keeps its name: a later process can put back what it did.
fn remember_program(access: &Access<'_>, setting: &mut Setting) {
    for item in setting.written.iter_mut().chain(&mut setting.members) {
        if let crate::item::Item::Action { knob, program } = item {
            let named = access.actions.get(knob).and_then(|action| action.program());
            *program = named.or_else(|| program.take());
        }
    }
}
