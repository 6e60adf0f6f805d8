//! Digest: what a statement is when its literals are left out, and when two statements are the same.
//!
//! Two statements have the same digest here if and only if they have the same digest on the server, whose rules these
//! are (performance_schema's, of either flavour): literals become `?`; `?, ?` becomes `?, ...`; `(?)` and `(?, ...)` are one
//! token each, and a list of such rows is one token again, so that `VALUES (1),(2)` and `VALUES (3),(4),(5)` are the same
//! and `VALUES (1)` is not; keywords fold their case and their synonyms, names do not; comments and space do not count; a
//! sign before a number belongs to it where no operand can stand before it. MySQL makes one thing of `IN (1)` and
//! `IN (1, 2)`, MariaDB two.
//!
//! Worked example: `select a from t where id in (1, 2) -- x` is read as the tokens `SELECT`, name `a`, `FROM`, name `t`,
//! `WHERE`, name `id`, `IN`, `(`, `?`; then `, 2` turns `? , ?` into `?, ...`, and `)` turns the parenthesis into `(...)`.
//!
//! As on the servers, tokens beyond [`LIMIT`] bytes do not count. The text is made only for a digest not seen before;
//! reading and hashing allocate nothing.
//!
//! Not seen from here, so grouped apart from the server: what stored programs run, text beyond what was kept of a
//! very long statement, several statements in one packet (one digest for us, one each for the server), and double quotes
//! as names where MySQL does not say that they are (`ANSI_QUOTES`).

mod keyword;
mod lexer;
mod text;
mod words;

use crate::fold;
use keyword::{Keyword, Keywords};

/// Bytes of tokens that count, as on servers with their defaults (`max_digest_length`).
pub const LIMIT: usize = 1024;

/// How a server reads text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    /// MariaDB's rules, else MySQL's.
    pub mariadb: bool,
    /// Backslash is no escape (`NO_BACKSLASH_ESCAPES`).
    pub plain_backslash: bool,
    /// Double quotes are names (`ANSI_QUOTES`).
    pub ansi_quotes: bool,
}

/// A comment's content, as offsets into the text.
pub type Span = (usize, usize);

/// Comments of a statement that are remembered: the last ones.
const COMMENTS: usize = 4;

/// Reads statements; holds the last one's tokens. One a thread.
pub struct Digester {
    words: Keywords,
    known: Known,
    mariadb: bool,
    /// Tokens as the servers store them: two bytes each; a name is followed by two bytes of length and itself.
    tokens: Vec<u8>,
    /// Where the last name ends: tokens before it are not looked back at.
    after_name: usize,
    full: bool,
    /// The statement defines something: `NULL` is then no value.
    defines: bool,
    comments: [Span; COMMENTS],
    comment_count: usize,
}

/// Tokens that rules ask for.
#[derive(Debug)]
struct Known {
    is_in: u16,
    null: u16,
    is: u16,
    not: u16,
    default: u16,
    create: u16,
    alter: u16,
}

/// Tokens above single characters and below keywords.
mod token {
    pub(super) const NONE: u16 = 0;
    pub(super) const NAME: u16 = 256;
    pub(super) const VALUE: u16 = 257;
    pub(super) const VALUES: u16 = 258;
    pub(super) const ROW: u16 = 259;
    pub(super) const ROWS: u16 = 260;
    pub(super) const LONG_ROW: u16 = 261;
    pub(super) const LONG_ROWS: u16 = 262;
    pub(super) const CHARSET: u16 = 263;
    pub(super) const HINT: u16 = 264;
    pub(super) const HINT_END: u16 = 265;
    pub(super) const ASSIGN: u16 = 266;
    pub(super) const NULL_SAFE: u16 = 267;
    pub(super) const LESS_EQUAL: u16 = 268;
    pub(super) const GREATER_EQUAL: u16 = 269;
    pub(super) const NOT_EQUAL: u16 = 270;
    pub(super) const SHIFT_LEFT: u16 = 271;
    pub(super) const SHIFT_RIGHT: u16 = 272;
    pub(super) const AND: u16 = 273;
    pub(super) const OR: u16 = 274;
    pub(super) const ARROW: u16 = 275;
    pub(super) const LONG_ARROW: u16 = 276;
    pub(super) const HEX: u16 = 277;
}

impl Default for Digester {
    fn default() -> Self {
        Self::new()
    }
}

impl Digester {
    /// A reader with nothing read.
    pub fn new() -> Self {
        let words = Keywords::new();
        let known = Known {
            is_in: words.named("IN"),
            null: words.named("NULL"),
            is: words.named("IS"),
            not: words.named("NOT"),
            default: words.named("DEFAULT"),
            create: words.named("CREATE"),
            alter: words.named("ALTER"),
        };
        Self {
            words,
            known,
            mariadb: false,
            tokens: Vec::with_capacity(LIMIT),
            after_name: 0,
            full: false,
            defines: false,
            comments: [(0, 0); COMMENTS],
            comment_count: 0,
        }
    }

    /// Reads a statement. Returns its digest's number, the same in every process.
    pub fn read(&mut self, text: &[u8], dialect: Dialect) -> u64 {
        self.tokens.clear();
        self.after_name = 0;
        self.full = false;
        self.defines = false;
        self.comment_count = 0;
        self.mariadb = dialect.mariadb;
        lexer::walk(self, text, dialect);
        if self.last() == u16::from(b';') && !self.full {
            self.pop(1);
        }
        fold::hash(&self.tokens)
    }

    /// The text of the statement read last, its literals left out.
    pub fn text(&self) -> String {
        text::of(&self.tokens, &self.words)
    }

    /// The contents of the comments of the statement read last, the last one first; at most four.
    pub fn comments(&self) -> impl Iterator<Item = Span> + '_ {
        let kept = self.comment_count.min(COMMENTS);
        (1..=kept).map(move |back| self.comments[(self.comment_count - back) % COMMENTS])
    }

    fn comment(&mut self, span: Span) {
        self.comments[self.comment_count % COMMENTS] = span;
        self.comment_count += 1;
    }

    fn push(&mut self, token: u16) {
        if self.full || self.tokens.len() + 2 > LIMIT {
            self.full = true;
            return;
        }
        self.tokens.extend_from_slice(&token.to_le_bytes());
    }

    fn pop(&mut self, count: usize) {
        self.tokens.truncate(self.tokens.len() - 2 * count);
    }

    /// The token `back` places from the end; 0 is the last. [`token::NONE`] at the start and beyond a name.
    fn peek(&self, back: usize) -> u16 {
        let Some(at) = self.tokens.len().checked_sub(2 * (back + 1)) else { return token::NONE };
        match self.tokens.get(at..at + 2) {
            Some(&[low, high]) if at >= self.after_name => u16::from_le_bytes([low, high]),
            _ => token::NONE,
        }
    }

    fn last(&self) -> u16 {
        self.peek(0)
    }

    /// A name, quoted or not. Servers keep its case, so do we.
    fn name(&mut self, name: &[u8]) {
        let name = &name[..name.len().min(LIMIT)];
        if self.full || self.tokens.len() + 4 + name.len() > LIMIT {
            self.full = true;
            return;
        }
        self.tokens.extend_from_slice(&token::NAME.to_le_bytes());
        self.tokens.extend_from_slice(&(name.len() as u16).to_le_bytes());
        self.tokens.extend_from_slice(name);
        self.after_name = self.tokens.len();
    }

    /// A literal. A sign before a number is part of it where no operand stands before the sign.
    fn value(&mut self, number: bool) {
        if self.full {
            return;
        }
        while number
            && (self.last() == u16::from(b'-') || self.last() == u16::from(b'+'))
            && self.before_sign(self.peek(1))
        {
            self.pop(1);
        }
        let listed = matches!(self.peek(1), token::VALUE | token::VALUES) && self.last() == u16::from(b',');
        if listed {
            self.pop(2);
        }
        self.push(if listed { token::VALUES } else { token::VALUE });
    }

    fn keyword(&mut self, word: Keyword) {
        if word.token == self.known.null && self.null_is_value() {
            return self.value(false);
        }
        if self.tokens.is_empty() {
            self.defines = word.token == self.known.create || word.token == self.known.alter;
        }
        self.push(word.token);
    }

    /// `NULL` is a value but after `IS`, and where columns are defined.
    fn null_is_value(&self) -> bool {
        let (last, before) = (self.last(), self.peek(1));
        let punctuation = last != token::NONE && last < 128 && last != u16::from(b')');
        if last == self.known.is || last == self.known.not && before == self.known.is {
            return false;
        }
        !self.defines || last == self.known.default || punctuation
    }

    /// A closing parenthesis: around values it makes a row of them, and with a row before it a list of rows.
    fn close(&mut self) {
        if self.full {
            return;
        }
        let (row, rows) = match (self.peek(1), self.last()) {
            (open, token::VALUE) if open == u16::from(b'(') => (token::ROW, token::ROWS),
            (open, token::VALUES) if open == u16::from(b'(') => (token::LONG_ROW, token::LONG_ROWS),
            _ => return self.push(u16::from(b')')),
        };
        self.pop(2);
        let before = self.peek(1);
        if self.last() == u16::from(b',') && (before == row || before == rows) {
            self.pop(2);
            return self.push(rows);
        }
        let any_length = !self.mariadb && self.last() == self.known.is_in;
        self.push(if any_length { token::LONG_ROW } else { row });
    }

    /// Whether a sign after this token belongs to the number that follows.
    fn before_sign(&self, before: u16) -> bool {
        if before >= keyword::FIRST {
            let word = self
                .words
                .shown(before)
                .and_then(|word| self.words.find(word.as_bytes(), self.mariadb, true));
            return word.is_some_and(|k| if self.mariadb { k.before_sign } else { k.before_sign_mysql });
        }
        if let Ok(character) = u8::try_from(before) {
            return b"(,|&+-*/%^".contains(&character) || !self.mariadb && b"=<>".contains(&character);
        }
        match before {
            token::SHIFT_LEFT | token::SHIFT_RIGHT | token::AND | token::OR => true,
            token::NULL_SAFE | token::LESS_EQUAL | token::GREATER_EQUAL | token::NOT_EQUAL => !self.mariadb,
            _ => false,
        }
    }
}

impl std::fmt::Debug for Digester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Digester").field("text", &self.text()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "digest/tests.rs"]
mod tests;
