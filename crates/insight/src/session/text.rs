//! The text of a statement: out of a whole packet, or gathered while it comes in pieces.

use crate::ledger::{READ, TAIL, Text};
use wire::attributes;

/// A statement in pieces: its first bytes, then its last ones.
#[derive(Debug)]
pub(super) struct PartialStatement {
    bytes: Vec<u8>,
    attributes: bool,
}

impl PartialStatement {
    /// One that begins like this; `buffer` is for its bytes, and empty.
    pub(super) fn begin(mut buffer: Vec<u8>, body: &[u8], attributes: bool) -> Self {
        buffer.extend_from_slice(body);
        Self { bytes: buffer, attributes }
    }

    pub(super) fn push(&mut self, body: &[u8]) {
        let room = READ.saturating_sub(self.bytes.len()).min(body.len());
        let (start, rest) = body.split_at(room);
        self.bytes.extend_from_slice(start);
        // Of what comes beyond only the end matters.
        self.bytes.extend_from_slice(&rest[rest.len().saturating_sub(TAIL)..]);
        if self.bytes.len() > READ + 2 * TAIL {
            let end = self.bytes.len() - TAIL;
            self.bytes.drain(READ..end);
        }
    }

    pub(super) fn text(&self) -> Text<'_> {
        let (start, tail) = self.bytes.split_at(self.bytes.len().min(READ));
        Text { tail: &tail[tail.len().saturating_sub(TAIL)..], ..text(start, self.attributes) }
    }

    /// The buffer, for the next statement.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.bytes
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
