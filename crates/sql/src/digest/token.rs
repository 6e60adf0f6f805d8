//! Tokens: what a digest is made of, and the rules by which the servers fold them as they come: lists of
//! values, rows of them, signs before numbers, `NULL`.

use super::keyword::{FIRST, Keyword, Keywords};

/// Bytes of tokens that count, as on servers with their defaults (`max_digest_length`).
pub const LIMIT: usize = 1024;

// Tokens above single characters and below keywords.
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

/// The tokens of one statement.
pub(super) struct Tokens {
    keywords: Keywords,
    rules: RuleTokens,
    mariadb: bool,
    /// Two bytes each, as servers store them; a name is followed by two bytes of length and itself.
    stored: Vec<u8>,
    /// Where the last name ends: tokens before it are not looked back at.
    after_name: usize,
    full: bool,
    /// The statement defines something: `NULL` is then no value.
    defines: bool,
}

/// Tokens that rules ask for.
#[derive(Debug)]
struct RuleTokens {
    is_in: u16,
    null: u16,
    is: u16,
    not: u16,
    default: u16,
    create: u16,
    alter: u16,
}

impl Tokens {
    pub(super) fn new() -> Self {
        let keywords = Keywords::new();
        let rules = RuleTokens {
            is_in: keywords.named("IN"),
            null: keywords.named("NULL"),
            is: keywords.named("IS"),
            not: keywords.named("NOT"),
            default: keywords.named("DEFAULT"),
            create: keywords.named("CREATE"),
            alter: keywords.named("ALTER"),
        };
        let stored = Vec::with_capacity(LIMIT);
        Self { keywords, rules, mariadb: false, stored, after_name: 0, full: false, defines: false }
    }

    /// Those of a statement that begins, by the rules of this server.
    pub(super) fn begin(&mut self, mariadb: bool) {
        self.stored.clear();
        self.after_name = 0;
        self.full = false;
        self.defines = false;
        self.mariadb = mariadb;
    }

    /// The statement has ended: a semicolon behind it does not count.
    pub(super) fn end(&mut self) {
        if self.last() == u16::from(b';') && !self.full {
            self.pop(1);
        }
    }

    /// The tokens as they are stored, at most [`LIMIT`] bytes.
    pub(super) fn stored(&self) -> &[u8] {
        &self.stored
    }

    /// The words that the tokens stand for.
    pub(super) fn keywords(&self) -> &Keywords {
        &self.keywords
    }

    /// The keyword that a word is; `call` when a parenthesis follows at once.
    pub(super) fn find(&self, word: &[u8], call: bool) -> Option<Keyword> {
        self.keywords.find(word, self.mariadb, call)
    }

    /// Was a name stored last?
    pub(super) fn ends_with_name(&self) -> bool {
        self.after_name == self.stored.len()
    }

    pub(super) fn push(&mut self, token: u16) {
        if self.full || self.stored.len() + 2 > LIMIT {
            self.full = true;
            return;
        }
        self.stored.extend_from_slice(&token.to_le_bytes());
    }

    fn pop(&mut self, count: usize) {
        self.stored.truncate(self.stored.len() - 2 * count);
    }

    /// The token `back` places from the end; 0 is the last. [`NONE`] at the start and beyond a name.
    fn peek(&self, back: usize) -> u16 {
        let Some(at) = self.stored.len().checked_sub(2 * (back + 1)) else { return NONE };
        match self.stored.get(at..at + 2) {
            Some(&[low, high]) if at >= self.after_name => u16::from_le_bytes([low, high]),
            _ => NONE,
        }
    }

    fn last(&self) -> u16 {
        self.peek(0)
    }

    /// A name, quoted or not. Servers keep its case, so do we.
    pub(super) fn name(&mut self, name: &[u8]) {
        let name = &name[..name.len().min(LIMIT)];
        if self.full || self.stored.len() + 4 + name.len() > LIMIT {
            self.full = true;
            return;
        }
        self.stored.extend_from_slice(&NAME.to_le_bytes());
        self.stored.extend_from_slice(&(name.len() as u16).to_le_bytes());
        self.stored.extend_from_slice(name);
        self.after_name = self.stored.len();
    }

    /// A literal. A sign before a number is part of it where no operand stands before the sign.
    pub(super) fn value(&mut self, number: bool) {
        if self.full {
            return;
        }
        while number
            && (self.last() == u16::from(b'-') || self.last() == u16::from(b'+'))
            && self.before_sign(self.peek(1))
        {
            self.pop(1);
        }
        let listed = matches!(self.peek(1), VALUE | VALUES) && self.last() == u16::from(b',');
        if listed {
            self.pop(2);
        }
        self.push(if listed { VALUES } else { VALUE });
    }

    pub(super) fn keyword(&mut self, word: Keyword) {
        if word.token == self.rules.null && self.null_is_value() {
            return self.value(false);
        }
        if self.stored.is_empty() {
            self.defines = word.token == self.rules.create || word.token == self.rules.alter;
        }
        self.push(word.token);
    }

    /// `NULL` is a value but after `IS`, and where columns are defined.
    fn null_is_value(&self) -> bool {
        let (last, before) = (self.last(), self.peek(1));
        let punctuation = last != NONE && last < 128 && last != u16::from(b')');
        if last == self.rules.is || last == self.rules.not && before == self.rules.is {
            return false;
        }
        !self.defines || last == self.rules.default || punctuation
    }

    /// A closing parenthesis: around values it makes a row of them, and with a row before it a list of rows.
    pub(super) fn close(&mut self) {
        if self.full {
            return;
        }
        let (row, rows) = match (self.peek(1), self.last()) {
            (open, VALUE) if open == u16::from(b'(') => (ROW, ROWS),
            (open, VALUES) if open == u16::from(b'(') => (LONG_ROW, LONG_ROWS),
            _ => return self.push(u16::from(b')')),
        };
        self.pop(2);
        let before = self.peek(1);
        if self.last() == u16::from(b',') && (before == row || before == rows) {
            self.pop(2);
            return self.push(rows);
        }
        let any_length = !self.mariadb && self.last() == self.rules.is_in;
        self.push(if any_length { LONG_ROW } else { row });
    }

    /// Whether a sign after this token belongs to the number that follows.
    fn before_sign(&self, before: u16) -> bool {
        if before >= FIRST {
            let word = self.keywords.shown(before).and_then(|word| self.find(word.as_bytes(), true));
            return word.is_some_and(|k| if self.mariadb { k.before_sign } else { k.before_sign_mysql });
        }
        if let Ok(character) = u8::try_from(before) {
            return b"(,|&+-*/%^".contains(&character) || !self.mariadb && b"=<>".contains(&character);
        }
        match before {
            SHIFT_LEFT | SHIFT_RIGHT | AND | OR => true,
            NULL_SAFE | LESS_EQUAL | GREATER_EQUAL | NOT_EQUAL => !self.mariadb,
            _ => false,
        }
    }
}
