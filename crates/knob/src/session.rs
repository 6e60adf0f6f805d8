//! A process that changes settings: it holds the journal, puts back what a dead one left, and puts back its
//! own changes when it ends, however it ends.

use crate::action::Action;
use crate::apply::{self, Change, Manner, Outcome};
use crate::error::{Error, Refusal};
use crate::host::Host;
use crate::identity::{self, ADDRESS, Facts};
use crate::item::{Access, Item, ItemValue, value_of};
use crate::journal::{End, Entry, Intent, Journal, Phase};
use crate::managed::Managed;
use crate::restore::{self, Undo};
use crate::server::{Connection, Server, ServerError};
use config::Credentials;
use fleet::Address;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// How a server is reached by its address.
pub type Connect = Box<dyn FnMut(&str) -> Result<Box<dyn Server>, ServerError> + Send>;

/// How servers are reached with an account; nobody is asked yet.
pub fn as_account(who: Credentials) -> Connect {
    Box::new(move |address: &str| {
        let unknown = |why: String| ServerError::Unreachable { address: address.to_owned(), why };
        let to: Address = address.parse().map_err(|error| unknown(format!("{error}")))?;
        Ok(Box::new(Connection::open(&to, &who)?) as Box<dyn Server>)
    })
}

/// What became of a state that was to be put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RestoreOutcome {
    /// The knobs that are part of it.
    pub knobs: Vec<String>,
    /// What was there before, by item.
    pub before: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// Why it could not be put back; then it stays in the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<Refusal>,
    /// What tells the device or server from others.
    #[serde(skip)]
    pub facts: Facts,
}

impl RestoreOutcome {
    /// Whether the setting is as it was, or was never ours to put back.
    pub fn is_back(&self) -> bool {
        matches!(self.end, Some(End::Restored | End::Already | End::Restarted | End::Refused { .. }))
    }

    /// The address of the server whose setting it is; `None` for one of this host.
    pub fn server(&self) -> Option<&str> {
        self.facts.get(ADDRESS).map(String::as_str)
    }

    /// Whether it is a setting of this host, or of one of these servers, also by another address of theirs.
    pub fn concerns(&self, servers: &[Facts]) -> bool {
        let Some(address) = self.server() else { return true };
        let is = |server: &Facts| {
            server.get(ADDRESS).is_some_and(|at| at == address)
                || identity::difference(&self.facts, server).is_none()
        };
        servers.iter().any(is)
    }
}

/// Which entries are put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    All,
    /// Those of these knobs, and what is one state with them.
    Knobs(Vec<String>),
    /// Those that a dead process left: not meant to stay, or not finished.
    Left,
    /// Our own that are not meant to stay.
    Own,
    /// Our own that are not meant to stay, of these knobs and of what is one state with them. What was kept
    /// before in the same state stays.
    OwnKnobs(Vec<String>),
}

/// The holder of the journal.
pub struct Session {
    journal: Journal,
    host: Host,
    connect: Connect,
    servers: BTreeMap<String, Box<dyn Server>>,
    actions: BTreeMap<String, Box<dyn Action>>,
    own: Vec<u64>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("journal", &self.journal).finish_non_exhaustive()
    }
}

impl Session {
    /// Takes the journal. Nothing is changed yet: what a dead process left is put back by
    /// [`Session::recover`].
    ///
    /// # Errors
    /// See [`Journal::open`].
    pub fn open(host: Host, directory: &Path, connect: Connect) -> Result<Self, Error> {
        let journal = Journal::open(directory, &host)?;
        let (servers, actions, own) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Ok(Self { journal, host, connect, servers, actions, own })
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The server at an address, connected on first use.
    ///
    /// # Errors
    /// It cannot be reached.
    pub fn server(&mut self, address: &str) -> Result<&mut (dyn Server + 'static), ServerError> {
        if !self.servers.contains_key(address) {
            let server = (self.connect)(address)?;
            self.servers.insert(address.to_owned(), server);
        }
        self.servers.get_mut(address).map(|server| &mut **server).ok_or_else(|| ServerError::Unreachable {
            address: address.to_owned(),
            why: "it is not connected".to_owned(),
        })
    }

    /// Gives a knob the action that changes it.
    pub fn act(&mut self, knob: &str, action: Box<dyn Action>) {
        self.actions.insert(knob.to_owned(), action);
    }

    /// Puts back what a dead process left.
    pub fn recover(&mut self) -> Vec<RestoreOutcome> {
        self.restore(&Which::Left, false)
    }

    /// Applies changes one after the other, whatever becomes of the one before. Those in force, be it
    /// already, are looked at once more in the end: a later change may have undone an earlier one.
    pub fn apply(&mut self, changes: &[Change], server: Option<&str>, manner: &Manner) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        let changes = self.restarts_first(changes, server, manner);
        for change in &changes {
            let now = now();
            let server = server.and_then(|address| self.servers.get_mut(address)).map(|server| &mut **server);
            let mut access = Access { host: &self.host, server, actions: &mut self.actions };
            let (outcome, id) = apply::apply(&mut self.journal, &mut access, change, manner, now);
            self.own.extend(id);
            outcomes.push(outcome);
        }
        for (change, outcome) in changes.iter().zip(&mut outcomes) {
            let server = server.and_then(|address| self.servers.get_mut(address)).map(|server| &mut **server);
            let mut access = Access { host: &self.host, server, actions: &mut self.actions };
            let undone = match outcome.status {
                apply::Status::Applied { .. } => undone(&mut access, &self.journal, change),
                apply::Status::Already => apply::still(&mut access, change, manner).err(),
                apply::Status::Refused { .. } => None,
            };
            if let Some(refusal) = undone {
                outcome.status = apply::Status::Refused { refusal };
            }
        }
        outcomes
    }

    fn restarts_first(&mut self, changes: &[Change], server: Option<&str>, manner: &Manner) -> Vec<Change> {
        let server = server.and_then(|address| self.servers.get_mut(address)).map(|server| &mut **server);
        let mut access = Access { host: &self.host, server, actions: &mut self.actions };
        let mut changes = changes.to_vec();
        if manner.restart.as_deref().is_some_and(Managed::is_program) {
            changes.sort_by_cached_key(|change| !apply::restarts(&mut access, change, manner));
        }
        changes
    }

    /// Puts changes back. With `force` also what somebody else has changed since, be it that an earlier
    /// restore has left it for that.
    pub fn restore(&mut self, which: &Which, force: bool) -> Vec<RestoreOutcome> {
        self.restore_at(which, force, None)
    }

    /// The same. With `server`, of the settings of servers only those of the one at this address; it makes no
    /// difference to settings of this host.
    pub fn restore_at(&mut self, which: &Which, force: bool, server: Option<&str>) -> Vec<RestoreOutcome> {
        if force {
            self.reopen(which, server);
        }
        let boot = self.host.boot_id();
        let entries = self.journal.entries();
        let chosen = self.chosen(which).into_iter().filter(|entry| is_at(entry, server, entries));
        let chosen: Vec<Entry> = chosen.cloned().collect();
        let mut all = Vec::new();
        for undo in restore::plan(chosen.iter(), force) {
            let managed = undo.managed();
            // A server that a dead process has stopped runs again first: it must be asked.
            let failed = managed.as_ref().and_then(|managed| managed.tidy(&self.host).err());
            all.push(match failed {
                Some(refusal) => undo.failed(refusal),
                None => self.put_back(&undo, &boot, force),
            });
            if managed.is_some() {
                self.servers.values_mut().for_each(|server| {
                    if let Err(error) = server.reconnect() {
                        tracing::warn!(%error, "the server does not answer after its restart");
                    }
                });
            }
        }
        all
    }

    /// Closes what is open of these knobs, and of what is one state with them, and puts nothing back: their
    /// server or device is removed for good. With `server` only what was set at the one of this address.
    ///
    /// # Errors
    /// Several servers have it and none is named; the journal cannot be written.
    pub fn forget(&mut self, knobs: &[String], server: Option<&str>) -> Result<Vec<RestoreOutcome>, Error> {
        let address = |entry: &Entry| entry.intent.facts.get(ADDRESS).cloned();
        let mut chosen: Vec<Entry> =
            self.chosen(&Which::Knobs(knobs.to_vec())).into_iter().cloned().collect();
        let entries = self.journal.entries();
        chosen
            .retain(|entry| server.is_none() || (address(entry).is_some() && is_at(entry, server, entries)));
        for entry in &chosen {
            let same_state = || chosen.iter().filter(|other| other.intent.key == entry.intent.key);
            let at = address(entry);
            if !same_state().all(|other| is_at(other, at.as_deref(), entries)) {
                let servers: BTreeSet<String> = same_state().filter_map(address).collect();
                let servers = servers.into_iter().collect::<Vec<_>>().join(", ");
                return Err(Error::SeveralServers { knob: entry.intent.knob.clone(), servers });
            }
        }
        let close = |undo: Undo| -> Result<RestoreOutcome, Error> {
            let end = End::Forgotten { left: undo.left() };
            self.journal.close(&undo.ids, &end, now())?;
            Ok(RestoreOutcome { end: Some(end), ..undo.outcome() })
        };
        restore::plan(chosen.iter(), false).into_iter().map(close).collect()
    }

    /// Announces again what was left as somebody else had changed it, unless we have changed it since.
    fn reopen(&mut self, which: &Which, server: Option<&str>) {
        let left_at = |entry: &Entry| match &entry.phase {
            Phase::Closed { end: End::Left { .. }, at } => Some(*at),
            _ => None,
        };
        let entries = self.journal.entries();
        // The same variable of another server is another state.
        let same_state = |one: &Entry, other: &Entry| {
            one.intent.key == other.intent.key
                && identity::difference(&one.intent.facts, &other.intent.facts).is_none()
        };
        let newest = |entry: &Entry| entries.iter().rfind(|other| same_state(entry, other));
        // Entries of one state were left together.
        let still_left =
            |entry: &&Entry| left_at(entry).is_some() && newest(entry).and_then(left_at) == left_at(entry);
        let left = entries.iter().filter(still_left);
        let left: Vec<&Entry> = left.filter(|entry| is_at(entry, server, entries)).collect();
        let wanted = |entry: &&&Entry| match which {
            Which::All => true,
            Which::Knobs(names) => left
                .iter()
                .any(|other| other.intent.key == entry.intent.key && names.contains(&other.intent.knob)),
            _ => false,
        };
        let intents: Vec<Intent> = left.iter().filter(wanted).map(|entry| entry.intent.clone()).collect();
        for intent in intents {
            if let Err(error) = self.journal.announce(intent) {
                tracing::warn!(%error, "what was left cannot be put back without a note in the journal");
            }
        }
    }

    fn chosen(&self, which: &Which) -> Vec<&Entry> {
        let open: Vec<&Entry> = self.journal.open_entries().collect();
        let own = |entry: &Entry| self.own.contains(&entry.id) && !entry.intent.keep;
        let keys: Vec<&str> = match which {
            Which::Knobs(names) | Which::OwnKnobs(names) => {
                let named = open.iter().filter(|entry| names.contains(&entry.intent.knob));
                named.map(|entry| entry.intent.key.as_str()).collect()
            }
            _ => Vec::new(),
        };
        let wanted = |entry: &&Entry| match which {
            Which::All => true,
            Which::Knobs(_) => keys.contains(&entry.intent.key.as_str()),
            Which::Left => {
                let stays = entry.intent.keep && matches!(entry.phase, Phase::Written { .. });
                !stays && !self.own.contains(&entry.id)
            }
            Which::Own => own(entry),
            Which::OwnKnobs(_) => own(entry) && keys.contains(&entry.intent.key.as_str()),
        };
        open.into_iter().filter(wanted).collect()
    }

    fn put_back(&mut self, undo: &Undo, boot: &str, force: bool) -> RestoreOutcome {
        let address = undo.last.intent.facts.get(ADDRESS).cloned();
        let unreachable = address.as_deref().and_then(|address| self.server(address).err());
        let server = address.and_then(|address| self.servers.get_mut(&address)).map(|server| &mut **server);
        let mut access = Access { host: &self.host, server, actions: &mut self.actions };
        let journal = &mut self.journal;
        let announce = || {
            // The setting goes first: a journal on a full disk is no reason to leave it changed.
            if let Err(error) = journal.restoring(&undo.ids) {
                tracing::warn!(%error, "putting a setting back without a note in the journal");
            }
        };
        let result = match unreachable {
            Some(error) => restore::Attempt::Failed(error.into()),
            None => restore::put_back(&mut access, undo, boot, force, announce),
        };
        let mut restored = undo.outcome();
        match result {
            restore::Attempt::Failed(refusal) => restored.failed = Some(refusal),
            restore::Attempt::Ended(end) => {
                if let Err(error) = self.journal.close(&undo.ids, &end, now()) {
                    tracing::warn!(%error, "a setting is put back, and the journal could not note it");
                }
                restored.end = Some(end);
            }
        }
        restored
    }
}

impl Undo {
    fn outcome(&self) -> RestoreOutcome {
        let before = self.before.iter().map(|one| format!("{} = {}", one.item, one.value)).collect();
        let facts = self.last.intent.facts.clone();
        RestoreOutcome { knobs: self.knobs.clone(), before, end: None, failed: None, facts }
    }

    /// What was written and nobody has put back, in words.
    fn left(&self) -> String {
        let read_back = match &self.last.phase {
            Phase::Written { after } => Some(after.as_slice()),
            _ => None,
        };
        let one = |write: &ItemValue| {
            let left = read_back.and_then(|after| value_of(after, &write.item)).unwrap_or(&write.value);
            format!("{} = {left}", write.item)
        };
        let all = self.writes.iter().map(one).collect::<Vec<_>>().join("; ");
        let known = read_back.is_some();
        if known { all } else { format!("{all}, if that was written: nobody has read it back") }
    }

    fn failed(&self, refusal: Refusal) -> RestoreOutcome {
        RestoreOutcome { failed: Some(refusal), ..self.outcome() }
    }

    /// The server whose setting it is, if it is one that may be restarted.
    fn managed(&self) -> Option<Managed> {
        let mut programs = self.writes.iter().filter_map(|one| match &one.item {
            Item::Action { program, .. } => program.as_deref(),
            Item::Variable { restart, .. } => restart.as_deref(),
            _ => None,
        });
        programs.find_map(|program| Managed::of_program(program)?.ok())
    }
}

/// Whether an entry is of this host, or of the server at this address where one is named, be it that it was
/// changed by another address of that server.
fn is_at(entry: &Entry, server: Option<&str>, entries: &[Entry]) -> bool {
    let (Some(server), Some(address)) = (server, entry.intent.facts.get(ADDRESS)) else { return true };
    let is_it = |other: &Entry| {
        other.intent.facts.get(ADDRESS).is_some_and(|at| at == server)
            && identity::difference(&entry.intent.facts, &other.intent.facts).is_none()
    };
    address == server || entries.iter().any(is_it)
}

/// An earlier change that a later one has undone.
fn undone(access: &mut Access<'_>, journal: &Journal, change: &Change) -> Option<Refusal> {
    let knob = change.name.to_string();
    let entry = journal.open_entries().filter(|entry| entry.intent.knob == knob).last()?;
    let items: Vec<Item> = entry.intent.writes.iter().map(|one| one.item.clone()).collect();
    match apply::state(access, &items) {
        Ok(found) => crate::verify::read_back(&entry.intent.writes, &found).err(),
        Err(refusal) => Some(refusal),
    }
}

impl Drop for Session {
    /// Puts back what is ours and not meant to stay; on a panic too.
    fn drop(&mut self) {
        for restored in self.restore(&Which::Own, false) {
            if !restored.is_back() {
                let RestoreOutcome { knobs, end, failed, .. } = &restored;
                tracing::warn!(?knobs, ?end, ?failed, "a setting was not put back");
            }
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
