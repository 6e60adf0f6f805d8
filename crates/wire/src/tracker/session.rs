//! The state of a session, what may be asked of it, and how a command begins and ends.

use super::names::{Identity, name};
use super::observer::Answered;
use super::pending::{Becomes, Pending, Queue};
use super::reply::Reply;
use super::{ClosedBecause, LostBecause, OpaqueBecause, Phase, Progress, Side};
use crate::capability::Capabilities;
use crate::command::Command;
use crate::packet::Head;
use crate::response::{OkPacket, SessionChange};
use crate::status::Status;
use sql::{Scanner, Sticky};

#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) stage: Stage,
    /// What the server offers, then what both sides have.
    pub(super) offered: Capabilities,
    pub(super) capabilities: Capabilities,
    pub(super) status: Status,
    /// An error came while `autocommit` was off: a transaction may have begun with it.
    pub(super) transaction_unknown: bool,
    /// The sequence id that the next packet carries, whoever sends it.
    pub(super) next_sequence: u8,
    pub(super) queue: Queue,
    /// What the server may send next for the command in front of the queue.
    pub(super) reply: Option<Reply>,
    /// Another result follows whatever the end of the rows says.
    pub(super) more_after_rows: bool,
    pub(super) infile: Infile,
    /// The command whose packet is coming in pieces, and the walk over its text.
    pub(super) receiving: Option<u64>,
    pub(super) scanner: Option<Scanner>,
    pub(super) progress: Progress,
    pub(super) identity: Identity,
    pub(super) left: Left,
    pub(super) answered: Answered,
    /// The server greeted as MariaDB.
    pub(super) mariadb: bool,
}

/// What statements left on the server.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) bits: Sticky,
    /// Open prepared statements: by the protocol, and by text.
    pub(super) prepared: u32,
    pub(super) text_prepared: u32,
    pub(super) last_prepared: u32,
    /// Parameters of that one.
    pub(super) last_parameters: u16,
    /// Statements with an open cursor.
    pub(super) cursors: Ids,
    /// Prepared statements that ask for what the one before them left.
    pub(super) asking: Ids,
}

/// A small set of statement ids. When it overflows it holds every id, until it is emptied.
#[derive(Debug, Default)]
pub(super) struct Ids {
    known: Vec<u32>,
    overflowed: bool,
}

impl Ids {
    const LIMIT: usize = 32;

    pub(super) fn add(&mut self, id: u32) {
        if self.contains(id) {
            return;
        }
        if self.known.len() == Self::LIMIT {
            self.overflowed = true;
        } else {
            self.known.push(id);
        }
    }

    pub(super) fn remove(&mut self, id: u32) {
        self.known.retain(|known| *known != id);
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        self.overflowed || self.known.contains(&id)
    }

    fn is_empty(&self) -> bool {
        self.known.is_empty() && !self.overflowed
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Greeting,
    Login,
    Proofs,
    Commands,
    Streaming,
    Closing(ClosedBecause),
    Opaque(OpaqueBecause),
    Lost(LostBecause),
}

/// The client's file for `LOAD DATA LOCAL`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Infile {
    #[default]
    None,
    /// Every client packet is a piece of it; an empty one ends it.
    Wanted,
    /// The server gave up with an error, but the client goes on to the end.
    Abandoned,
}

impl Session {
    pub(super) fn phase(&self) -> Phase {
        match self.stage {
            Stage::Greeting => Phase::Greeting,
            Stage::Login => Phase::Login,
            Stage::Proofs => Phase::Authenticating,
            Stage::Commands if self.infile == Infile::Wanted => Phase::Infile,
            Stage::Commands if self.queue.is_empty() && self.infile == Infile::None => Phase::Idle,
            Stage::Commands => Phase::Busy,
            Stage::Streaming => Phase::Streaming,
            Stage::Closing(because) => Phase::Closing(because),
            Stage::Opaque(because) => Phase::Opaque(because),
            Stage::Lost(because) => Phase::Lost(because),
        }
    }

    #[inline]
    pub(super) fn is_readable(&self) -> bool {
        !matches!(self.stage, Stage::Streaming | Stage::Closing(_) | Stage::Opaque(_) | Stage::Lost(_))
    }

    pub(super) fn in_transaction(&self) -> bool {
        self.status.in_transaction() || self.transaction_unknown
    }

    pub(super) fn sticky(&self) -> Sticky {
        let mut sticky = self.left.bits;
        if self.left.prepared > 0 || self.left.text_prepared > 0 {
            sticky |= Sticky::PREPARED_STATEMENT;
        }
        if !self.left.cursors.is_empty() {
            sticky |= Sticky::CURSOR;
        }
        sticky
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress
    }

    pub(super) fn command(&self) -> Option<Command> {
        self.queue.front().map(|pending| pending.command)
    }

    pub(super) fn user(&self) -> Option<&str> {
        self.identity.user.as_deref()
    }

    pub(super) fn database(&self) -> Option<&str> {
        self.identity.database.as_deref()
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    pub(super) fn next_sequence(&self) -> u8 {
        match self.queue.front() {
            Some(pending) if !pending.begun => pending.answer_sequence,
            _ => self.next_sequence,
        }
    }

    /// Would a client's packet with sequence id 0 be a command?
    pub(super) fn expects_command(&self) -> bool {
        self.stage == Stage::Commands && self.infile == Infile::None
    }

    /// Is a command coming in pieces that will be answered?
    pub(super) fn receives_command(&self) -> bool {
        self.receiving.is_some_and(|number| number != u64::MAX)
    }

    /// The same of one that is not answered.
    pub(super) fn receives_silent_command(&self) -> bool {
        self.receiving == Some(u64::MAX)
    }

    pub(super) fn has_query_attributes(&self) -> bool {
        self.capabilities.contains(Capabilities::QUERY_ATTRIBUTES)
    }

    pub(super) fn lose(&mut self, because: LostBecause) {
        self.stop(Stage::Lost(because));
    }

    pub(super) fn unexpected(&mut self, side: Side, head: Head<'_>) {
        self.lose(LostBecause::Unexpected { side, first: head.prefix.first().copied().unwrap_or(0) });
    }

    pub(super) fn broken(&mut self, side: Side, expected: u8, got: u8) {
        self.lose(LostBecause::OutOfSequence { side, expected, got });
    }

    /// Nothing is read from here on; what is not needed any more is freed.
    pub(super) fn stop(&mut self, stage: Stage) {
        self.stage = stage;
        self.queue = Queue::default();
        self.scanner = None;
    }

    /// Checks a packet's sequence id against the next, and moves on. False when the session is lost by it.
    #[inline]
    pub(super) fn in_sequence(&mut self, side: Side, head: Head<'_>) -> bool {
        let expected = self.next_sequence;
        if head.sequence != expected {
            self.broken(side, expected, head.sequence);
            return false;
        }
        self.next_sequence = expected.wrapping_add(1);
        true
    }

    /// The first byte of an answer has come.
    #[inline]
    pub(super) fn answer_begins(&mut self) {
        if let Some(pending) = self.queue.front_mut().filter(|pending| !pending.begun) {
            pending.begun = true;
            self.reply = Some(Reply::to(pending.command));
            self.next_sequence = pending.answer_sequence;
            self.progress.answering += 1;
            (self.answered.rows, self.answered.affected) = (0, 0);
        }
    }

    /// The command in front is answered.
    pub(super) fn finish(&mut self, failed: bool) {
        let Some(pending) = self.queue.pop() else { return };
        self.reply = None;
        self.progress.completed += 1;
        if failed {
            self.progress.failed += 1;
            // An error packet has no status flags. Without autocommit the statement may have opened a transaction.
            self.transaction_unknown |= !self.status.contains(Status::AUTOCOMMIT);
        } else {
            self.succeed(pending);
        }
    }

    fn succeed(&mut self, pending: Pending) {
        let left = &mut self.left;
        if pending.effect.makes_stale && !pending.gave_insert_id {
            left.bits = left.bits.difference(Sticky::LAST_INSERT_ID | Sticky::FOUND_ROWS);
        }
        // A prepared statement may take again what a text statement gives back.
        if left.prepared == 0 && left.text_prepared == 0 {
            left.bits = left.bits.difference(pending.effect.ends);
        }
        if pending.effect.deallocates {
            left.text_prepared = left.text_prepared.saturating_sub(1);
        }
        match pending.command {
            Command::ResetConnection | Command::ChangeUser => self.left = Left::default(),
            Command::StmtReset => left.cursors.remove(pending.statement),
            _ => {}
        }
        match pending.becomes {
            Some(Becomes::Database(database)) => self.identity.database = database,
            Some(Becomes::Identity(identity)) => self.identity = *identity,
            None => {}
        }
    }

    /// Takes over what an OK packet says of the session.
    pub(super) fn take_ok(&mut self, ok: &OkPacket<'_>) {
        self.take_status(ok.status);
        if ok.last_insert_id != 0 {
            self.left.bits |= Sticky::LAST_INSERT_ID;
            if let Some(pending) = self.queue.front_mut() {
                pending.gave_insert_id = true;
            }
        }
        for change in ok.changes() {
            if let SessionChange::Database(database) = change {
                self.identity.database = name(database);
            }
        }
    }

    pub(super) fn take_status(&mut self, status: Status) {
        self.status = status;
        self.transaction_unknown = false;
    }
}
