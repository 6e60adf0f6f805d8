//! Commands sent and not yet answered, in order.

use super::names::Identity;
use crate::command::Command;
use sql::{Sticky, Verb};
use std::collections::VecDeque;

/// A command that the server has not answered whole.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) command: Command,
    /// Counts the commands of the session.
    pub(super) number: u64,
    /// The sequence id that the first packet of its answer carries.
    pub(super) answer_sequence: u8,
    /// The prepared statement it is about.
    pub(super) statement: u32,
    pub(super) effect: Effect,
    /// What its statement may leave, and how many it prepares by text: noted when it was sent, and still to
    /// come after what the commands before it end.
    pub(super) leaves: Sticky,
    pub(super) prepares: u32,
    /// The names that hold from its success on.
    pub(super) becomes: Option<Becomes>,
    /// The server has begun to answer.
    pub(super) begun: bool,
    /// It prepares a statement that asks for what the one before it left.
    pub(super) asks_back: bool,
    /// The first word of its statement, or of the one that it prepares.
    pub(super) verb: Verb,
    /// One of its results carried an insert id.
    pub(super) gave_insert_id: bool,
}

/// What a statement does to the session when it succeeds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Effect {
    /// State it ends.
    pub(super) ends: Sticky,
    /// Closes a text `PREPARE`.
    pub(super) deallocates: bool,
    /// A statement on rows that does not ask for what the one before it left: that is stale after it.
    pub(super) makes_stale: bool,
}

/// New names for the session.
#[derive(Debug)]
pub(super) enum Becomes {
    Database(Option<Box<str>>),
    Identity(Box<Identity>),
}

/// The queue, oldest first. Bounded: see [`Queue::LIMIT`].
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Pending>,
}

impl Queue {
    /// No client we know sends more than some hundred commands ahead.
    pub(super) const LIMIT: usize = 1024;

    pub(super) fn push(&mut self, pending: Pending) -> Result<(), usize> {
        if self.waiting.len() >= Self::LIMIT {
            return Err(Self::LIMIT);
        }
        self.waiting.push_back(pending);
        Ok(())
    }

    pub(super) fn front(&self) -> Option<&Pending> {
        self.waiting.front()
    }

    pub(super) fn front_mut(&mut self) -> Option<&mut Pending> {
        self.waiting.front_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.waiting.iter()
    }

    pub(super) fn pop(&mut self) -> Option<Pending> {
        self.waiting.pop_front()
    }

    /// The newest command, if it is this one and not answered yet.
    pub(super) fn newest(&mut self, number: u64) -> Option<&mut Pending> {
        self.waiting.back_mut().filter(|pending| pending.number == number)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
