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

impl Manner {
    /// Of this author: put back when the process ends, with nothing restarted, and the usual patience.
    pub fn of(author: Author) -> Self {
        Self { author, keep: false, restart: None, patience: Duration::from_secs(2) }
    }
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
        let bad = |wrong| {
            let source = match name::disks_below(host, &name) {
                Some(below) => ValueError::OnOthers { wrong: Box::new(wrong), below },
                None => wrong,
            };
            Error::BadValue { name: name.to_string(), value: text.to_owned(), source }
        };
        let value = match name.knob.values {
            Values::Server => of_server(server.as_deref_mut(), &name, text)?.map_err(bad)?,
            Values::IoMax => resolve::io_max(text).map_err(bad)?,
            values => {
                let (now, offered) = offered(host, &name);
                let (cpus, page) = (host.cpus(), rustix::param::page_size() as u64);
                let online = host.online();
                let facts = Facts { now: now.as_deref(), offered: &offered, cpus, online: &online, page };
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
    changes.sort_by_key(|change| {
        let rank = resolve::rank(&change.name);
        (rank.is_none(), rank)
    });
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
    let host = access.host;
    let status =
        status.unwrap_or_else(|refusal| Status::Refused { refusal: on_others(host, &change.name, refusal) });
    (Outcome { knob: change.name.to_string(), value: change.value.clone(), before, status }, id)
}

/// The refusal, with where it is to be set instead if the device passes its requests on to others.
fn on_others(host: &Host, name: &Name, refusal: Refusal) -> Refusal {
    let Some(below) = name::disks_below(host, name) else { return refusal };
    match refusal {
        Refusal::Absent { what } => Refusal::Absent { what: format!("{what}; {below}") },
        Refusal::Denied { .. } | Refusal::ReadsBack { .. } | Refusal::NoEffect { .. } => {
            Refusal::Denied { why: format!("{refusal}; {below}") }
        }
        other => other,
    }
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
    let Preparation { setting, before, current, writes, .. } =
        prepare(access, change, manner, Trying::Allowed)?;
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
        // What reads as before now may change later: only who restores afterwards can tell.
        if let Refusal::Unanswered { why } = refusal {
            return Refusal::Unanswered {
                why: format!("{why}; it stays in the journal until it is put back"),
            };
        }
        // What cannot be undone now stays in the journal as open, and is tried again by whoever restores.
        match restore::write_back(access, &before, setting.twins) {
            Ok(()) => {
                // A full disk may refuse the note as well: then the entry is found to be back already.
                let _ = journal.close(&[entry], &End::Refused { why: refusal.to_string() }, now);
                refusal
            }
            Err(stuck) => {
                let why = format!("{refusal}; and it could not be undone yet: {stuck}");
                match stuck {
                    Refusal::Unreachable { .. } => Refusal::Unreachable { why },
                    _ => Refusal::Denied { why },
                }
            }
        }
    })
}

/// Whether a change that was so already still is.
///
/// # Errors
/// What is there by now, or why that cannot be read.
pub(crate) fn still(access: &mut Access<'_>, change: &Change, manner: &Manner) -> Result<(), Refusal> {
    let Preparation { current, writes, .. } = prepare(access, change, manner, Trying::Forbidden)?;
    verify::read_back(&writes, &current)
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
    /// What is not known without trying.
    note: Option<String>,
}

/// Whether a server may be asked by setting a variable to what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trying {
    Allowed,
    /// Nothing may be written.
    Forbidden,
}

/// How a setting is written.
enum Restart {
    /// By itself, while the server runs.
    NotNeeded,
    /// By this program, which restarts the server or stands for something else that does.
    By(String),
    /// Only trying would tell.
    Unknown,
}

fn prepare(
    access: &mut Access<'_>,
    change: &Change,
    manner: &Manner,
    trying: Trying,
) -> Result<Preparation, Refusal> {
    let Change { name, value } = change;
    if let Some(why) = catalogue::one_way(name) {
        return Err(Refusal::OneWay { why });
    }
    let (restart, note) = match restart_needed(access, change, manner, trying)? {
        Restart::NotNeeded => (None, None),
        Restart::By(program) => (Some(program), None),
        Restart::Unknown => (None, Some("whether that takes a restart shows when it is tried".to_owned())),
    };
    let mut setting = resolve::resolve(access.host, name, restart.as_deref())?;
    remember_program(access, &mut setting);
    if name.knob.place == Place::Variable {
        // MariaDB has no super_read_only.
        setting.members.retain(|item| !matches!(access.read(item), Err(Refusal::Absent { .. })));
    }
    for item in &setting.written {
        if let crate::item::Item::Action { knob, program } = item {
            access.action(knob, program.as_deref())?.check(value)?;
        }
    }
    let before = state(access, &setting.members)?;
    let current = state(access, &setting.written)?;
    let writes = writes(&setting, value, &current)?;
    Ok(Preparation { setting, before, current, writes, note })
}

/// One write that a change would make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Write {
    pub item: String,
    pub from: String,
    /// What would be written.
    pub to: String,
    /// What is not known without trying it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The writes of a change, without making them; none if it is so already. Nothing is written.
///
/// # Errors
/// Why it would be refused, as far as that shows without trying.
pub fn preview(access: &mut Access<'_>, change: &Change, manner: &Manner) -> Result<Vec<Write>, Refusal> {
    let host = access.host;
    let prepared = prepare(access, change, manner, Trying::Forbidden);
    let Preparation { current, writes, note, .. } =
        prepared.map_err(|refusal| on_others(host, &change.name, refusal))?;
    let pairs =
        current.into_iter().zip(writes).filter(|(now, write)| !same(&write.item, &write.value, &now.value));
    Ok(pairs
        .map(|(now, write)| {
            let (item, from, to) = (now.item.to_string(), now.value, write.value);
            Write { item, from, to, note: note.clone() }
        })
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

const DOUBLEWRITE: &str = "innodb_doublewrite";

/// Whether the doublewrite buffer is turned on or off. From 8.0.30 on MySQL lets it be set while the server
/// runs, between values that leave it on (`ON`, `DETECT_AND_RECOVER`, `DETECT_ONLY`); turning it on or off
/// takes a restart all the same, and setting it to what it is does not tell.
fn turns_doublewrite(now: &str, value: &str) -> bool {
    let is_off = |value: &str| matches!(value.to_ascii_uppercase().as_str(), "OFF" | "0" | "FALSE");
    is_off(now) != is_off(value)
}

/// The program that a variable needs because it cannot be set without a restart.
fn restart_needed(
    access: &mut Access<'_>,
    change: &Change,
    manner: &Manner,
    trying: Trying,
) -> Result<Restart, Refusal> {
    let name = &change.name;
    let by = |program: Option<&str>| program.map_or(Restart::NotNeeded, |one| Restart::By(one.to_owned()));
    if name.knob.place != Place::Variable {
        return Ok(by(resolve::managed(name, manner.restart.as_deref())));
    }
    let Some(variable) = access.server()?.describe(&name.rest)? else {
        return Err(Refusal::Absent { what: format!("a global variable {} on this server", name.rest) });
    };
    let mut dynamic = variable.dynamic;
    if dynamic.is_none() && name.rest.eq_ignore_ascii_case(DOUBLEWRITE) {
        let now = access.server()?.global(&name.rest)?;
        dynamic = turns_doublewrite(&now, &change.value).then_some(false);
    }
    match (dynamic, &manner.restart) {
        (Some(false), None) => Err(Refusal::Needs {
            what: format!(
                "{} cannot be set while the server runs: it takes an entry in the option file and a restart. \
                 Say how the server is restarted (--managed FILE), or name a program \
                 that does both (called as PROGRAM {} VALUE): --restart-with PROGRAM",
                name.rest, name.rest
            ),
        }),
        (Some(false), Some(program)) => Ok(by(Some(program))),
        (None, Some(_)) if trying == Trying::Forbidden => Ok(Restart::Unknown),
        // MySQL does not say: setting it to what it is tells.
        (None, Some(program)) => {
            let server = access.server()?;
            let now = server.global(&name.rest)?;
            let refused = server.set_global(&name.rest, &now).err();
            let needed = matches!(refused, Some(server::ServerError::Answered { code: 1238, .. }));
            Ok(by(needed.then_some(program.as_str())))
        }
        _ => Ok(Restart::NotNeeded),
    }
}

/// Whether a change restarts the server: those come first, for a restart undoes what was only set.
pub(crate) fn restarts(access: &mut Access<'_>, change: &Change, manner: &Manner) -> bool {
    let needed = restart_needed(access, change, manner, Trying::Allowed);
    let Ok(Restart::By(program)) = needed else { return false };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Kind, ServerError, Variable};
    use std::collections::BTreeMap;

    /// A MySQL, which does not say what takes a restart; with how often something was set. Its doublewrite
    /// buffer is on.
    struct MySql(std::sync::Arc<std::sync::atomic::AtomicU32>);

    impl Server for MySql {
        fn identity(&mut self) -> Result<identity::Facts, ServerError> {
            Ok(identity::Facts::new())
        }

        fn describe(&mut self, _: &str) -> Result<Option<Variable>, ServerError> {
            Ok(Some(Variable { kind: Kind::Text, dynamic: None }))
        }

        fn global(&mut self, name: &str) -> Result<String, ServerError> {
            Ok(if name == DOUBLEWRITE { "ON" } else { "now" }.to_owned())
        }

        fn set_global(&mut self, _: &str, _: &str) -> Result<(), ServerError> {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        }

        fn reconnect(&mut self) -> Result<(), ServerError> {
            Ok(())
        }
    }

    #[test]
    fn a_preview_writes_nothing_and_says_what_only_trying_tells() {
        let host = Host::new("/nowhere");
        let sets = std::sync::Arc::default();
        let mut server = MySql(std::sync::Arc::clone(&sets));
        let mut actions = BTreeMap::new();
        let mut access = Access { host: &host, server: Some(&mut server), actions: &mut actions };
        let name = name::parse(&host, "server.innodb_log_files_in_group").unwrap();
        let change = Change { name, value: "4".to_owned() };
        let restart = Some("/sbin/restart".to_owned());
        let manner = Manner { author: Author::default(), keep: false, restart, patience: Duration::ZERO };
        let writes = preview(&mut access, &change, &manner).unwrap();
        assert_eq!((writes[0].from.as_str(), writes[0].to.as_str()), ("now", "4"));
        assert!(
            writes[0].note.as_deref().is_some_and(|note| note.contains("when it is tried")),
            "{writes:?}"
        );
        assert_eq!(sets.load(std::sync::atomic::Ordering::Relaxed), 0);
        let manner = Manner { restart: None, ..manner };
        assert_eq!(preview(&mut access, &change, &manner).unwrap()[0].note, None);
    }

    #[test]
    fn turning_the_doublewrite_buffer_of_mysql_on_or_off_takes_a_restart() {
        let host = Host::new("/nowhere");
        let sets = std::sync::Arc::default();
        let mut server = MySql(std::sync::Arc::clone(&sets));
        let mut actions = BTreeMap::new();
        let mut access = Access { host: &host, server: Some(&mut server), actions: &mut actions };
        for (value, by_restart) in
            [("OFF", true), ("0", true), ("DETECT_ONLY", false), ("DETECT_AND_RECOVER", false), ("ON", false)]
        {
            let name = name::parse(&host, "server.innodb_doublewrite").unwrap();
            let change = Change { name, value: value.to_owned() };
            let restart = Some("/sbin/restart".to_owned());
            let manner = Manner { author: Author::default(), keep: false, restart, patience: Duration::ZERO };
            let needed = restart_needed(&mut access, &change, &manner, Trying::Allowed).unwrap();
            assert_eq!(matches!(needed, Restart::By(_)), by_restart, "{value}");
            let manner = Manner { restart: None, ..manner };
            let needed = restart_needed(&mut access, &change, &manner, Trying::Allowed);
            assert_eq!(matches!(needed, Err(Refusal::Needs { .. })), by_restart, "{value}");
        }
        // And back on.
        assert!(turns_doublewrite("off", "DETECT_ONLY") && !turns_doublewrite("OFF", "0"));
    }
}
