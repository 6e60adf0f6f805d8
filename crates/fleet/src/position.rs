//! How far a server has come: what its binary log holds, or what a replica has applied. Three notations; only
//! equal notations compare.

use crate::{GtidPosition, GtidSet};
use std::cmp::Ordering;
use std::fmt;

/// A place in the history of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// MySQL's set of transactions.
    Set(GtidSet),
    /// MariaDB's last transaction per domain.
    Domains(GtidPosition),
    /// File and offset in the binary log of one server; means nothing in another server's log.
    File(FilePosition),
}

/// File and offset in a binary log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePosition {
    /// File name, such as `binlog.000042`.
    pub file: String,
    /// Bytes from the start of the file.
    pub offset: u64,
}

impl Position {
    /// Whether everything up to `other` is contained in `self`; `None` when the notations differ.
    pub fn covers(&self, other: &Self) -> Option<bool> {
        match (self, other) {
            (Self::Set(ours), Self::Set(theirs)) => Some(ours.covers(theirs)),
            (Self::Domains(ours), Self::Domains(theirs)) => Some(ours.covers(theirs)),
            (Self::File(ours), Self::File(theirs)) => ours.partial_cmp(theirs).map(Ordering::is_ge),
            _ => None,
        }
    }

    /// Roughly what keeping it costs, in intervals or domains; at least 1.
    pub fn size(&self) -> usize {
        match self {
            Self::Set(set) => set.intervals().max(1),
            Self::Domains(domains) => domains.domains().count().max(1),
            Self::File(_) => 1,
        }
    }
}

impl FilePosition {
    /// A place in a file.
    pub fn new(file: impl Into<String>, offset: u64) -> Self {
        Self { file: file.into(), offset }
    }
}

/// Files compare by the number behind the last dot (`binlog.1000000` comes after `binlog.999999`); files of
/// different base names do not compare.
impl PartialOrd for FilePosition {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let number = |file: &str| -> Option<(String, u64)> {
            let (base, digits) = file.rsplit_once('.')?;
            Some((base.to_owned(), digits.parse().ok()?))
        };
        let (our_base, our_number) = number(&self.file)?;
        let (their_base, their_number) = number(&other.file)?;
        (our_base == their_base).then(|| (our_number, self.offset).cmp(&(their_number, other.offset)))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(set) => set.fmt(f),
            Self::Domains(domains) => domains.fmt(f),
            Self::File(place) => write!(f, "{}:{}", place.file, place.offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_compare_by_number_not_by_letters() {
        let (early, late) = (FilePosition::new("bin.999999", 900), FilePosition::new("bin.1000000", 4));
        assert!(late > early);
        assert!(FilePosition::new("bin.000002", 10) > FilePosition::new("bin.000002", 9));
        assert_eq!(FilePosition::new("a.000001", 1).partial_cmp(&FilePosition::new("b.000001", 1)), None);
        assert_eq!(FilePosition::new("odd", 1).partial_cmp(&FilePosition::new("odd", 1)), None);
    }

    #[test]
    fn different_notations_do_not_compare() {
        let file = Position::File(FilePosition::new("bin.000001", 4));
        let domains = Position::Domains("0-1-1".parse().unwrap());
        assert_eq!(file.covers(&domains), None);
        assert_eq!(domains.covers(&domains), Some(true));
    }
}
