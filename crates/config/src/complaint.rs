//! A complaint: one thing wrong with a configuration, with the place in the file and what would be right.

use fleet::Blame;
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

/// One thing wrong with a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The file as the operator named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    pub wrong: String,
    /// What would be right.
    pub right: String,
}

/// Everything wrong with a configuration, in the order of the file; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaints(pub Vec<Complaint>);

/// Collects complaints about one text, from all its sections.
pub(super) struct Ledger<'a> {
    file: &'a str,
    text: &'a str,
    entries: RefCell<Vec<(usize, Complaint)>>,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, entries: RefCell::default() }
    }

    /// Notes that what stands at `span` is wrong.
    pub(super) fn add(&self, span: &Range<usize>, wrong: impl Into<String>, right: impl Into<String>) {
        let (line, column) = place(self.text, span.start);
        let complaint =
            Complaint { file: self.file.to_owned(), line, column, wrong: wrong.into(), right: right.into() };
        self.entries.borrow_mut().push((span.start, complaint));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.borrow().is_empty()
    }

    /// The complaints in the order of the file.
    pub(super) fn into_complaints(self) -> Complaints {
        let mut entries = self.entries.into_inner();
        entries.sort_by_key(|(at, _)| *at);
        Complaints(entries.into_iter().map(|(_, complaint)| complaint).collect())
    }
}

/// Line and column of a byte offset; an offset past the end is the end.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let start_of_line = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[start_of_line..].chars().count() + 1)
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, wrong, right } = self;
        write!(f, "{file}:{line}:{column}: {wrong}")?;
        if right.is_empty() { Ok(()) } else { write!(f, "; {right}") }
    }
}

impl fmt::Display for Complaints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, complaint) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{complaint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Complaints {}

impl Complaints {
    /// Whose fault it is: always the configuration's.
    pub fn blame(&self) -> Blame {
        Blame::Config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        assert_eq!(place("", 0), (1, 1));
        assert_eq!(place("a\nb", 2), (2, 1));
        assert_eq!(place("ü = x", 3), (1, 3));
        assert_eq!(place("ü", 1), (1, 1));
        assert_eq!(place("ab\n", 99), (2, 1));
    }
}
