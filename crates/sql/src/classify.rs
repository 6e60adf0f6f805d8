//! Classify: a cheap look at a statement's text. Which state does it leave in the session?
//!
//! This is no parser. It walks over the text once, leaves out strings and comments ([`lexer`](crate::lexer)),
//! and looks at words: the first of each statement, and a handful of others anywhere. The rule for doubt: a
//! find too many only makes a session wait longer before it is moved; a find too few would lose state. So
//! words count wherever they stand, and where quotes cannot be trusted the walk turns *wary*: from there on
//! it reads strings and comments as if they were code. That is so
//! - in `PREPARE` and `EXECUTE IMMEDIATE`, whose strings are code, and in MariaDB's compound statements;
//! - after a backslash that follows a byte above 0x7f inside a string: in GBK, Big5 and Shift-JIS it may be
//!   half a letter;
//! - in text that does not start where it should (attributes that could not be read).
//!
//! Comments that servers execute (`/*! ... */`, `/*M! ... */`) are code. What stored programs and triggers do
//! is not visible from here, except that `CALL` is noted. The text may come in any number of chunks, and none
//! is kept.

mod word;

use crate::lexer::{CLASS, Class, Lexeme, Lexer, Rules, is_word, word_end};
use crate::sticky::Sticky;
use word::Words;
pub use word::{Findings, Verb};

/// Walks over a statement's text; see the module's text.
#[derive(Clone, Debug, Default)]
pub struct Scanner {
    lexer: Lexer,
    /// The last chunk has ended in a word.
    in_word: bool,
    /// Read strings as code, and comments: they may begin inside a string.
    wary: bool,
    words: Words,
}

/// Walks over a statement that lies whole in `text`. `plain_backslash`: the session's `NO_BACKSLASH_ESCAPES`.
pub fn scan(text: &[u8], plain_backslash: bool) -> Findings {
    let mut scanner = Scanner::new(plain_backslash);
    scanner.feed(text);
    scanner.finish()
}

/// The database that `USE name` names, or `None` for any other statement. Comments may stand anywhere.
pub fn used_database(text: &[u8]) -> Option<&[u8]> {
    let (verb, rest) = after_comments(text).split_at_checked(3)?;
    if !verb.eq_ignore_ascii_case(b"use") || rest.first().is_none_or(|next| is_word(*next)) {
        return None;
    }
    let name = match after_comments(rest) {
        [quote @ (b'`' | b'"'), quoted @ ..] => &quoted[..quoted_end(quoted, *quote)?],
        plain => &plain[..word_end(plain, 0)],
    };
    (!name.is_empty()).then_some(name)
}

/// The text behind the white space and comments that it begins with. What servers execute is no comment.
fn after_comments(mut text: &[u8]) -> &[u8] {
    loop {
        text = text.trim_ascii_start();
        let (from, end) = match text {
            [b'/', b'*', b'!', ..] | [b'/', b'*', b'M', b'!', ..] => return text,
            [b'/', b'*', ..] => (2_usize, &b"*/"[..]),
            [b'#', ..] | [b'-', b'-', 0..=b' ', ..] => (0, &b"\n"[..]),
            _ => return text,
        };
        let Some(at) = text[from..].windows(end.len()).position(|bytes| bytes == end) else { return &[] };
        text = &text[from + at + end.len()..];
    }
}

/// Where a quoted name ends; a quote that is doubled belongs to it.
fn quoted_end(text: &[u8], quote: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text.get(at..)?.iter().position(|byte| *byte == quote)?;
        if text.get(at + 1) != Some(&quote) {
            return Some(at);
        }
        at += 2;
    }
}

impl Scanner {
    /// A walk that starts at the first byte of a text.
    pub fn new(plain_backslash: bool) -> Self {
        // Double quotes hold strings or names: read as strings they hide no less. The server may be MariaDB.
        let rules = Rules { plain_backslash, ansi_quotes: false, mariadb: true, doubts: true };
        Self { lexer: Lexer::new(rules), words: Words::at_start(), ..Self::default() }
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
            at = if !self.lexer.is_in_code() {
                let (end, lexeme) = self.lexer.read(chunk, at);
                self.take(lexeme);
                end
            } else if self.in_word {
                self.word(chunk, at)
            } else {
                self.code(chunk, at)
            };
        }
    }

    /// What was found. Text that ends inside a string was not read as the server reads it.
    pub fn finish(&mut self) -> Findings {
        if self.in_word {
            self.in_word = false;
            self.end_word(&[]);
        }
        let open = self.lexer.finish();
        self.take(open);
        let mut findings = self.words.findings();
        if open == Some(Lexeme::Quoted) {
            findings.leaves |= Sticky::UNREAD;
        }
        findings
    }

    fn take(&mut self, lexeme: Option<Lexeme>) {
        match lexeme {
            Some(Lexeme::At) => self.words.user_variable(),
            Some(Lexeme::Doubt) => self.turn_wary(),
            _ => {}
        }
    }

    fn turn_wary(&mut self) {
        self.wary = true;
        self.words.every_word_may_be_first();
    }

    /// Walks over code. The steady case takes no branch that depends on where words end, because those cannot
    /// be predicted: a word is looked at only if one of its length is wanted.
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
            self.in_word = true;
        }
        at
    }

    /// A byte in code that is neither space nor word. Does it end the walk over code?
    fn special(&mut self, byte: u8, class: Class) -> bool {
        match class {
            Class::Semicolon => {
                self.words.end_statement();
                false
            }
            Class::Quote | Class::Hash if self.wary => false,
            Class::Pair if self.wary && byte != b'@' => false,
            _ => {
                self.lexer.begin(byte);
                true
            }
        }
    }

    /// The rest of a word that a chunk has cut.
    fn word(&mut self, chunk: &[u8], at: usize) -> usize {
        let end = word_end(chunk, at);
        if end == chunk.len() {
            self.words.keep(&chunk[at..]);
        } else {
            self.in_word = false;
            self.end_word(&chunk[at..end]);
        }
        end
    }

    fn end_word(&mut self, word: &[u8]) {
        if self.words.end_word(word) {
            self.turn_wary();
        }
    }
}

#[cfg(test)]
mod tests;
