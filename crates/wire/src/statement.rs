//! A cheap look at statement text: which state does it leave in the session?
//!
//! This is no parser. It walks over the text once, leaves out strings and comments, and looks at words: the first of
//! each statement, and a handful of others anywhere. The rule for doubt: a find too many only makes a session wait longer
//! before it is moved; a find too few would lose state. So words count wherever they stand, and where quotes cannot
//! be trusted the walk turns *wary*: from there on it reads strings as if they were code. That is so
//! - in `PREPARE` and `EXECUTE IMMEDIATE`, whose strings are code, and in MariaDB's compound statements;
//! - after a backslash that follows a byte above 0x7f inside a string: in GBK, Big5 and Shift-JIS it may be half a letter;
//! - in text that does not start where it should (attributes that could not be read).
//!
//! Comments that servers execute (`/*! ... */`, `/*M! ... */`) are code. What stored programs and triggers do is not visible
//! from here, except that `CALL` is noted. The text may come in any number of chunks, and none is kept.

mod word;

use crate::sticky::Sticky;
pub use word::Verb;
use word::{CLASS, Class, Words};

/// What the walk over a statement found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// State that it leaves or may leave.
    pub leaves: Sticky,
    /// State that it ends, if it is answered without error. Empty when the text holds more than one statement.
    pub ends: Sticky,
    /// The first word of the (first) statement.
    pub verb: Verb,
    /// Number of statements in the text.
    pub statements: u32,
    /// `PREPARE`s in the text.
    pub prepares: u32,
    /// Does it close a text `PREPARE` (`DEALLOCATE PREPARE`, `DROP PREPARE`)? Only when it is the only statement.
    pub deallocates: bool,
    /// Does it ask for what the statement before it left (`LAST_INSERT_ID()`, `@@identity`), or leave such a thing itself?
    pub asks_back: bool,
}

/// Walks over a statement's text; see the module's text.
#[derive(Clone, Debug, Default)]
pub struct Scanner {
    place: Place,
    /// Read strings as code.
    wary: bool,
    /// Backslash is no escape (`NO_BACKSLASH_ESCAPES`).
    plain_backslash: bool,
    /// Inside a comment that servers execute.
    executable: bool,
    /// The byte before a backslash at the end of the last chunk, or before this one.
    last: u8,
    words: Words,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Code,
    /// In code, after this byte, which may be the first of two that belong together.
    After(u8),
    /// Inside a word that a chunk has cut.
    Word,
    /// In a string or quoted name that this byte ends.
    Quoted(u8),
    /// The same, after a backslash.
    Escaped(u8),
    /// After `--`.
    Dashes,
    /// To the end of the line.
    Line,
    /// After `/*` and after `/*M`.
    Opening,
    OpeningM,
    /// In a comment, and there after a `*`.
    Comment,
    Star,
}

/// Walks over a statement that lies whole in `text`. `plain_backslash`: the session's `NO_BACKSLASH_ESCAPES`.
pub fn scan(text: &[u8], plain_backslash: bool) -> Findings {
    let mut scanner = Scanner::new(plain_backslash);
    scanner.feed(text);
    scanner.finish()
}

/// The database that `USE name` names, or `None` for any other statement.
pub fn used_database(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii();
    let (verb, rest) = text.split_at_checked(3)?;
    if !verb.eq_ignore_ascii_case(b"use")
        || !rest.first()?.is_ascii_whitespace() && rest.first() != Some(&b'`')
    {
        return None;
    }
    let name = rest.trim_ascii().strip_suffix(b";").unwrap_or(rest.trim_ascii()).trim_ascii();
    match name {
        [b'`', quoted @ .., b'`'] => Some(quoted),
        [] => None,
        plain => Some(plain),
    }
}

impl Scanner {
    /// A walk that starts at the first byte of a text.
    pub fn new(plain_backslash: bool) -> Self {
        Self { plain_backslash, words: Words::at_start(), ..Self::default() }
    }

    /// A walk over bytes that may not start with the text.
    pub fn wary(plain_backslash: bool) -> Self {
        let mut scanner = Self::new(plain_backslash);
        scanner.turn_wary();
        scanner
    }

    /// Walks on over the next chunk of the text.
    pub fn feed(&mut self, chunk: &[u8]) {
        let mut at = 0;
        while at < chunk.len() {
            at = match self.place {
                Place::Code => self.code(chunk, at),
                Place::Word => self.word(chunk, at),
                Place::After(first) => self.after(first, chunk, at),
                Place::Quoted(quote) => self.quoted(quote, chunk, at),
                Place::Escaped(quote) => {
                    self.place = Place::Quoted(quote);
                    self.last = chunk[at];
                    at + 1
                }
                Place::Dashes => self.dashes(chunk, at),
                Place::Line => self.line(chunk, at),
                Place::Opening | Place::OpeningM => self.opening(chunk, at),
                Place::Comment => self.comment(chunk, at),
                Place::Star => self.star(chunk, at),
            };
        }
    }

    /// What was found. Text that ends inside a string was not read as the server reads it.
    pub fn finish(&mut self) -> Findings {
        if self.place == Place::Word {
            self.end_word(&[]);
        }
        if self.place == Place::After(b'@') {
            self.words.user_variable();
        }
        let mut findings = self.words.findings();
        if matches!(self.place, Place::Quoted(_) | Place::Escaped(_)) {
            findings.leaves |= Sticky::UNREAD;
        }
        findings
    }

    fn turn_wary(&mut self) {
        self.wary = true;
        self.words.every_word_may_be_first();
    }

    /// Walks over code. The steady case takes no branch that depends on where words end, because those cannot be predicted:
    /// a word is looked at only if one of its length is wanted.
    fn code(&mut self, chunk: &[u8], from: usize) -> usize {
        let mut wanted = self.words.wanted();
        let (mut start, mut at) = (from, from);
        while let Some(&byte) = chunk.get(at) {
            let class = CLASS[byte as usize];
            let ends = class != Class::Word;
            if u32::from(ends) & wanted >> (at - start).min(31) != 0 {
                self.end_word(&chunk[start..at]);
                wanted = self.words.wanted();
            }
            at += 1;
            if class.is_special() && self.special(byte, class) {
                return at;
            }
            start = if ends { at } else { start };
            if class == Class::Semicolon {
                wanted = self.words.wanted();
            }
        }
        if start < at {
            self.words.keep(&chunk[start..]);
            self.place = Place::Word;
        }
        at
    }

    /// A byte in code that is neither space nor word. Does it end the walk over code?
    fn special(&mut self, byte: u8, class: Class) -> bool {
        match class {
            Class::Semicolon => {
                self.words.end_statement();
                return false;
            }
            Class::Quote if self.wary => return false,
            Class::Quote => {
                self.place = Place::Quoted(byte);
                self.last = byte;
            }
            Class::Hash => self.place = Place::Line,
            _ => self.place = Place::After(byte),
        }
        true
    }

    /// After `@`, `/`, `-` or `*`: do the two belong together?
    fn after(&mut self, first: u8, chunk: &[u8], at: usize) -> usize {
        let second = chunk[at];
        self.place = match (first, second) {
            (b'/', b'*') => Place::Opening,
            (b'-', b'-') => Place::Dashes,
            (b'*', b'/') if self.executable => {
                self.executable = false;
                Place::Code
            }
            (b'@', b'@') => Place::Code,
            (b'@', _) => {
                self.words.user_variable();
                self.place = Place::Code;
                return at;
            }
            _ => {
                self.place = Place::Code;
                return at;
            }
        };
        at + 1
    }

    fn word(&mut self, chunk: &[u8], at: usize) -> usize {
        let end = word_end(chunk, at);
        if end == chunk.len() {
            self.words.keep(&chunk[at..]);
        } else {
            self.end_word(&chunk[at..end]);
            self.place = Place::Code;
        }
        end
    }

    fn end_word(&mut self, word: &[u8]) {
        if self.words.end_word(word) {
            self.turn_wary();
        }
    }

    /// A doubled quote is two strings to us, which comes to the same.
    fn quoted(&mut self, quote: u8, chunk: &[u8], at: usize) -> usize {
        let rest = &chunk[at..];
        let escapes = quote != b'`' && !self.plain_backslash;
        let found = if escapes { memchr::memchr2(quote, b'\\', rest) } else { memchr::memchr(quote, rest) };
        let Some(found) = found else {
            self.last = rest.last().copied().unwrap_or(self.last);
            return chunk.len();
        };
        if rest[found] == quote {
            self.place = Place::Code;
        } else {
            let before = if found == 0 { self.last } else { rest[found - 1] };
            self.place = Place::Escaped(quote);
            if before >= 0x80 {
                self.turn_wary();
                self.place = Place::Code;
            }
        }
        at + found + 1
    }

    /// `--` starts a comment only before a space or a control character.
    fn dashes(&mut self, chunk: &[u8], at: usize) -> usize {
        self.place = if chunk[at] <= b' ' { Place::Line } else { Place::After(b'-') };
        at
    }

    fn line(&mut self, chunk: &[u8], at: usize) -> usize {
        let Some(end) = memchr::memchr(b'\n', &chunk[at..]) else { return chunk.len() };
        self.place = Place::Code;
        at + end + 1
    }

    fn opening(&mut self, chunk: &[u8], at: usize) -> usize {
        self.place = match (self.place, chunk[at]) {
            (_, b'!') => {
                self.executable = true;
                Place::Code
            }
            (Place::Opening, b'M') => Place::OpeningM,
            _ => {
                self.place = Place::Comment;
                return at;
            }
        };
        at + 1
    }

    fn comment(&mut self, chunk: &[u8], at: usize) -> usize {
        let Some(star) = memchr::memchr(b'*', &chunk[at..]) else { return chunk.len() };
        self.place = Place::Star;
        at + star + 1
    }

    fn star(&mut self, chunk: &[u8], at: usize) -> usize {
        if chunk[at] == b'/' {
            self.place = Place::Code;
            return at + 1;
        }
        self.place = Place::Comment;
        at
    }
}

fn word_end(chunk: &[u8], at: usize) -> usize {
    chunk[at..].iter().position(|b| CLASS[*b as usize] != Class::Word).map_or(chunk.len(), |n| at + n)
}

#[cfg(test)]
#[path = "statement/tests.rs"]
mod tests;
