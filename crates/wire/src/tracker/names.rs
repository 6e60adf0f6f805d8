//! The names of a session, kept short whatever a client sends.

/// Longest name kept, in bytes: 64 characters of four bytes, the most a database name may have.
const LONGEST: usize = 256;

/// A name from bytes: cut to the longest we keep, odd bytes replaced; `None` when empty.
pub(super) fn name(bytes: &[u8]) -> Option<Box<str>> {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]);
    (!text.is_empty()).then(|| text[..text.floor_char_boundary(LONGEST)].into())
}

/// Who is logged in, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) user: Option<Box<str>>,
    pub(super) database: Option<Box<str>>,
}
