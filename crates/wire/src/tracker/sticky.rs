//! What the commands of a session left on its server.

use super::pending::Pending;
use crate::command::Command;
use sql::{Sticky, Verb};

/// What would be lost with the session.
#[derive(Debug, Default)]
pub(super) struct StickyState {
    /// What statements left, by their texts.
    left: Sticky,
    /// Open prepared statements: by the protocol, and by text.
    prepared: u32,
    text_prepared: u32,
    last_prepared: u32,
    /// Parameters of that one.
    last_parameters: u16,
    /// Statements with an open cursor.
    cursors: Ids,
    /// Prepared statements that ask for what the one before them left.
    asking: Ids,
    /// Prepared statements that write or commit.
    writes: Writes,
}

impl StickyState {
    /// All of it.
    pub(super) fn sticky(&self) -> Sticky {
        let mut sticky = self.left;
        if self.has_prepared() {
            sticky |= Sticky::PREPARED_STATEMENT;
        }
        if !self.cursors.is_empty() {
            sticky |= Sticky::CURSOR;
        }
        sticky
    }

    /// A statement was sent that leaves this, and prepares this many by text.
    pub(super) fn add(&mut self, leaves: Sticky, prepares: u32) {
        self.left |= leaves;
        self.text_prepared = self.text_prepared.saturating_add(prepares);
    }

    /// A statement was prepared.
    pub(super) fn prepare(&mut self, statement: u32, parameters: u16, asks_back: bool, verb: Verb) {
        self.prepared = self.prepared.saturating_add(1);
        (self.last_prepared, self.last_parameters) = (statement, parameters);
        if asks_back {
            self.asking.add(statement);
        }
        self.writes.prepared(statement, verb);
    }

    /// A prepared statement was closed.
    pub(super) fn close(&mut self, statement: u32) {
        self.prepared = self.prepared.saturating_sub(1);
        self.cursors.remove(statement);
        self.asking.remove(statement);
        self.writes.remove(statement);
    }

    /// The statement prepared last and how many parameters it has.
    pub(super) fn last_prepared(&self) -> (u32, u16) {
        (self.last_prepared, self.last_parameters)
    }

    /// The statement that an id means: all ones is the one prepared last (MariaDB).
    pub(super) fn resolve(&self, statement: u32) -> u32 {
        if statement == u32::MAX { self.last_prepared } else { statement }
    }

    /// Does this prepared statement ask for what the one before it left?
    pub(super) fn asks_back(&self, statement: u32) -> bool {
        self.asking.contains(statement)
    }

    /// With which word this prepared statement writes or commits, as far as it is known.
    pub(super) fn prepared_write(&self, statement: u32) -> Option<Verb> {
        self.writes.verb(self.resolve(statement))
    }

    pub(super) fn open_cursor(&mut self, statement: u32) {
        self.cursors.add(statement);
    }

    pub(super) fn close_cursor(&mut self, statement: u32) {
        self.cursors.remove(statement);
    }

    /// This command was answered without error. Those of `ahead` were sent after it and are not answered yet:
    /// what it ends was there before them, so what they leave stays.
    pub(super) fn succeed<'p>(&mut self, pending: &Pending, ahead: impl Iterator<Item = &'p Pending>) {
        if matches!(pending.command, Command::ResetConnection | Command::ChangeUser) {
            *self = Self::default();
            ahead.for_each(|later| self.add(later.leaves, later.prepares));
            return;
        }
        let before = self.left;
        if pending.effect.makes_stale && !pending.gave_insert_id {
            self.left.remove(Sticky::LAST_INSERT_ID | Sticky::FOUND_ROWS | Sticky::NEXT_TRANSACTION);
        }
        // A prepared statement may take again what a text statement gives back.
        if !self.has_prepared() {
            self.left.remove(pending.effect.ends);
        }
        if pending.effect.deallocates {
            self.text_prepared = self.text_prepared.saturating_sub(1);
        }
        if pending.command == Command::StmtReset {
            self.cursors.remove(pending.statement);
        }
        if self.left != before {
            ahead.for_each(|later| self.left |= later.leaves);
        }
    }

    fn has_prepared(&self) -> bool {
        self.prepared > 0 || self.text_prepared > 0
    }
}

/// A small set of statement ids. When it overflows it holds every id, until it is emptied.
#[derive(Debug, Default)]
struct Ids {
    known: Vec<u32>,
    overflowed: bool,
}

impl Ids {
    const LIMIT: usize = 32;

    fn add(&mut self, id: u32) {
        if self.contains(id) {
            return;
        }
        if self.known.len() == Self::LIMIT {
            self.overflowed = true;
        } else {
            self.known.push(id);
        }
    }

    fn remove(&mut self, id: u32) {
        self.known.retain(|known| *known != id);
    }

    fn contains(&self, id: u32) -> bool {
        self.overflowed || self.known.contains(&id)
    }

    fn is_empty(&self) -> bool {
        self.known.is_empty() && !self.overflowed
    }
}

/// Prepared statements that write or commit, each with its first word. What does not fit is not known.
#[derive(Debug, Default)]
struct Writes {
    /// In the order of the ids.
    known: Vec<(u32, Verb)>,
}

impl Writes {
    const LIMIT: usize = 256;

    fn prepared(&mut self, id: u32, verb: Verb) {
        self.remove(id);
        let matters =
            matches!(verb, Verb::Insert | Verb::Update | Verb::Delete | Verb::Replace | Verb::Commit);
        if matters && self.known.len() < Self::LIMIT {
            let at = self.known.partition_point(|(known, _)| *known < id);
            self.known.insert(at, (id, verb));
        }
    }

    fn remove(&mut self, id: u32) {
        if let Ok(at) = self.position(id) {
            self.known.remove(at);
        }
    }

    fn verb(&self, id: u32) -> Option<Verb> {
        self.position(id).ok().map(|at| self.known[at].1)
    }

    fn position(&self, id: u32) -> Result<usize, usize> {
        self.known.binary_search_by_key(&id, |(known, _)| *known)
    }
}
