//! A command under way, and the text of its statement: out of a whole packet, or gathered while it comes in pieces.

use crate::ledger::{READ, TAIL, Text, Told};
use std::time::Instant;
use wire::{Command, attributes};

/// A command under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) command: Command,
    pub(super) started: Instant,
    pub(super) first_byte: Option<Instant>,
    /// What it counts as.
    pub(super) told: Told,
    /// What it prepares.
    pub(super) prepares: Told,
    pub(super) bytes: u64,
    pub(super) in_transaction: bool,
}

/// A statement in pieces: its first bytes, then its last ones.
#[derive(Debug)]
pub(super) struct Coming {
    pub(super) kept: Vec<u8>,
    pub(super) attributes: bool,
}

impl Coming {
    pub(super) fn add(&mut self, body: &[u8]) {
        let room = READ.saturating_sub(self.kept.len()).min(body.len());
        let (start, rest) = body.split_at(room);
        self.kept.extend_from_slice(start);
        // Of what comes beyond only the end matters.
        self.kept.extend_from_slice(&rest[rest.len().saturating_sub(TAIL)..]);
        if self.kept.len() > READ + 2 * TAIL {
            let end = self.kept.len() - TAIL;
            self.kept.drain(READ..end);
        }
    }

    pub(super) fn text(&self) -> Text<'_> {
        let (start, tail) = self.kept.split_at(self.kept.len().min(READ));
        Text { tail: &tail[tail.len().saturating_sub(TAIL)..], ..text(start, self.attributes) }
    }
}

/// A statement's text from what follows the command byte.
pub(super) fn text(body: &[u8], attributes: bool) -> Text<'_> {
    let parsed = if attributes { attributes::of_query(body) } else { None };
    let (attributes, start) = match parsed {
        Some((attributes, text)) => (Some(attributes), text),
        None => (None, body),
    };
    let (start, rest) = start.split_at(start.len().min(READ));
    Text { start, tail: &rest[rest.len().saturating_sub(TAIL)..], attributes }
}
