//! Digest: what a statement is when its literals are left out, and when two statements are the same.
//!
//! Two statements have the same digest here if and only if they have the same digest on the server, whose
//! rules these are (performance_schema's, of either flavour): literals become `?`; `?, ?` becomes `?, ...`;
//! `(?)` and `(?, ...)` are one token each, and a list of such rows is one token again, so that `VALUES
//! (1),(2)` and `VALUES (3),(4),(5)` are the same and `VALUES (1)` is not; keywords fold their case and their
//! synonyms, names do not; comments and space do not count; a sign before a number belongs to it where no
//! operand can stand before it. MySQL makes one thing of `IN (1)` and `IN (1, 2)`, MariaDB two.
//!
//! Worked example: `select a from t where id in (1, 2) -- x` is read as the tokens `SELECT`, name `a`,
//! `FROM`, name `t`, `WHERE`, name `id`, `IN`, `(`, `?`; then `, 2` turns `? , ?` into `?, ...`, and `)`
//! turns the parenthesis into `(...)`.
//!
//! As on the servers, tokens beyond [`LIMIT`] bytes do not count. The text is made only for a digest not seen
//! before; reading and hashing allocate nothing.
//!
//! Not seen from here, so grouped apart from the server: what stored programs run, text beyond what was kept
//! of a very long statement, several statements in one packet (one digest for us, one each for the server),
//! and double quotes as names where MySQL does not say that they are (`ANSI_QUOTES`).

mod keyword;
mod text;
mod token;
mod words;

use crate::fold;
use crate::lexer::{CLASS, Class, Lexeme, Lexer, Rules, is_word, word_end};
pub use token::LIMIT;
use token::Tokens;

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
    tokens: Tokens,
    comments: Comments,
}

/// Where the last comments of a statement are.
#[derive(Default)]
struct Comments {
    spans: [Span; COMMENTS],
    count: usize,
}

impl Comments {
    fn push(&mut self, span: Span) {
        self.spans[self.count % COMMENTS] = span;
        self.count += 1;
    }
}

impl Default for Digester {
    fn default() -> Self {
        Self::new()
    }
}

impl Digester {
    /// A reader with nothing read.
    pub fn new() -> Self {
        Self { tokens: Tokens::new(), comments: Comments::default() }
    }

    /// Reads a statement. Returns its digest's number, the same in every process.
    pub fn read(&mut self, text: &[u8], dialect: Dialect) -> u64 {
        self.comments.count = 0;
        self.tokens.begin(dialect.mariadb);
        let mut walk = Walk::new(self, text, dialect);
        while walk.at < text.len() {
            walk.step();
        }
        self.tokens.end();
        fold::hash(self.tokens.stored())
    }

    /// The text of the statement read last, its literals left out.
    pub fn text(&self) -> String {
        text::of(self.tokens.stored(), self.tokens.keywords())
    }

    /// The contents of the comments of the statement read last, the last one first; at most four.
    pub fn comments(&self) -> impl Iterator<Item = Span> + '_ {
        let Comments { spans, count } = &self.comments;
        (1..=*count.min(&COMMENTS)).map(move |back| spans[(count - back) % COMMENTS])
    }
}

impl std::fmt::Debug for Digester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Digester").field("text", &self.text()).finish_non_exhaustive()
    }
}

/// One walk over a statement's bytes, telling [`Tokens`] what comes: names, keywords, values, punctuation.
///
/// What is a word or a number follows the servers' scanner: a word after a dot is a name whatever it spells,
/// digits that run into letters are a name, `@x` is a value.
struct Walk<'a> {
    tokens: &'a mut Tokens,
    comments: &'a mut Comments,
    text: &'a [u8],
    dialect: Dialect,
    at: usize,
    lexer: Lexer,
    /// In a comment of optimizer hints (MySQL).
    hint: bool,
    after: After,
}

/// What stood before, where it says how to read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Other,
    /// A dot behind a name: a name follows.
    Dot,
    /// One `@`: the name of a variable or a host follows, which servers count as a value.
    At,
    /// Two of them: a keyword or a name follows.
    AtAt,
    /// A verb that hints may follow.
    Verb,
}

impl<'a> Walk<'a> {
    fn new(digester: &'a mut Digester, text: &'a [u8], dialect: Dialect) -> Self {
        let Digester { tokens, comments } = digester;
        let Dialect { mariadb, plain_backslash, ansi_quotes } = dialect;
        // Read as the server reads it: where it does not doubt, we do not.
        let lexer = Lexer::new(Rules { plain_backslash, ansi_quotes, mariadb, doubts: false });
        Self { tokens, comments, text, dialect, at: 0, lexer, hint: false, after: After::Other }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn step(&mut self) {
        let byte = self.text[self.at];
        let after = std::mem::replace(&mut self.after, After::Other);
        match CLASS[byte as usize] {
            Class::Space => {
                self.at += 1;
                // Space separates `@` from what follows, and does not part a verb from its hints.
                self.after = if after == After::Verb { after } else { After::Other };
            }
            Class::Word if byte.is_ascii_digit() && after != After::Dot && after != After::At => {
                self.number(after);
            }
            Class::Word => self.word(after),
            Class::Quote if byte == b'`' || byte == b'"' && self.dialect.ansi_quotes => {
                self.quoted_name(byte);
            }
            Class::Quote => {
                self.skip_quoted(byte, Lexer::begin);
                self.tokens.value(false);
            }
            Class::Hash => self.comment_or_symbol(byte, after),
            Class::Pair if byte != b'@' => self.comment_or_symbol(byte, after),
            Class::Pair | Class::Symbol | Class::Semicolon => self.punctuation(byte, after),
        }
    }

    fn word(&mut self, after: After) {
        let rest = &self.text[self.at..];
        let length = word_end(rest, 0);
        let word = &rest[..length];
        let next = rest.get(length).copied().unwrap_or(0);
        if next == b'\'' && after == After::Other && self.prefixed_string(word) {
            return;
        }
        if after == After::At {
            // A host or variable: dots belong to it.
            let end = rest.iter().position(|byte| !is_word(*byte) && *byte != b'.').unwrap_or(rest.len());
            self.at += end;
            return self.tokens.value(false);
        }
        self.at += length;
        let dotted = next == b'.' && rest.get(length + 1).is_some_and(|byte| is_word(*byte) || *byte == b'`');
        if after == After::Dot || dotted && after != After::AtAt {
            return self.tokens.name(word);
        }
        match self.tokens.find(word, next == b'(') {
            Some(keyword) => {
                self.tokens.keyword(keyword);
                self.after = if is_verb(word) { After::Verb } else { After::Other };
            }
            None if word[0] == b'_' && is_charset(word, rest) => self.tokens.push(token::CHARSET),
            None => self.tokens.name(word),
        }
    }

    /// `n'...'`, `x'...'`, `b'...'`: values with a letter before the quote.
    fn prefixed_string(&mut self, word: &[u8]) -> bool {
        let [letter] = word else { return false };
        if !matches!(letter.to_ascii_lowercase(), b'n' | b'x' | b'b') {
            return false;
        }
        self.at += 1;
        if self.dialect.mariadb && matches!(letter, b'x' | b'X') {
            // MariaDB does not count it among the values.
            self.skip_quoted(b'\'', Lexer::begin_without_escapes);
            self.tokens.push(token::HEX);
        } else {
            self.skip_quoted(b'\'', Lexer::begin);
            self.tokens.value(false);
        }
        true
    }

    /// A number, or a name that starts with digits.
    fn number(&mut self, after: After) {
        let rest = &self.text[self.at..];
        let run = |from: usize, is: fn(&u8) -> bool| {
            rest[from.min(rest.len())..].iter().take_while(|b| is(b)).count()
        };
        let byte = |at: usize| rest.get(at).copied().unwrap_or(0);
        let mut length = run(0, u8::is_ascii_digit);
        let hex = length == 1 && rest[0] == b'0' && byte(1) == b'x';
        let binary = length == 1 && rest[0] == b'0' && byte(1) == b'b';
        if hex || binary {
            let digits =
                if hex { run(2, u8::is_ascii_hexdigit) } else { run(2, |b| matches!(b, b'0' | b'1')) };
            if digits > 0 && !is_word(byte(2 + digits)) {
                self.at += 2 + digits;
                return self.tokens.value(true);
            }
        }
        let exponent = |at: usize| {
            let sign = usize::from(matches!(byte(at + 1), b'+' | b'-'));
            let digits = run(at + 1 + sign, u8::is_ascii_digit);
            if matches!(byte(at), b'e' | b'E') && digits > 0 { 1 + sign + digits } else { 0 }
        };
        if byte(length) == b'.' {
            length += 1 + run(length + 1, u8::is_ascii_digit);
            length += exponent(length);
        } else if is_word(byte(length)) {
            let tail = exponent(length);
            if tail == 0 {
                return self.word(after);
            }
            length += tail;
        }
        self.at += length;
        self.tokens.value(true);
    }

    fn quoted_name(&mut self, quote: u8) {
        let start = self.at + 1;
        self.skip_quoted(quote, Lexer::begin);
        let end = if self.at > start && self.text[self.at - 1] == quote { self.at - 1 } else { self.at };
        self.tokens.name(&self.text[start..end]);
        if self.peek(0) == b'.' {
            self.tokens.push(u16::from(b'.'));
            self.at += 1;
            self.after = After::Dot;
        }
    }

    /// From the opening quote, with which the lexer is to `begin`, to behind the closing one; a doubled quote
    /// does not close.
    fn skip_quoted(&mut self, quote: u8, begin: fn(&mut Lexer, u8)) {
        loop {
            begin(&mut self.lexer, quote);
            let (end, closed) = self.lexer.read(self.text, self.at + 1);
            self.at = end;
            if closed.is_none() {
                self.lexer.finish();
                return;
            }
            if self.peek(0) != quote {
                return;
            }
        }
    }

    /// A byte that may begin a comment, or end one that servers execute.
    fn comment_or_symbol(&mut self, byte: u8, after: After) {
        let start = self.at;
        if after == After::Verb && !self.dialect.mariadb && self.text[start..].starts_with(b"/*+") {
            self.at += 3;
            self.hint = true;
            self.lexer.begin_hints();
            return self.tokens.push(token::HINT);
        }
        self.lexer.begin(byte);
        let (end, closed) = self.lexer.read(self.text, start + 1);
        match closed.or_else(|| self.lexer.finish()) {
            Some(Lexeme::Comment) => {
                // `#` has one byte, `--` and `/*` two; the end of a line has one, `*/` two.
                let opening = if byte == b'#' { 1 } else { 2 };
                let closing = if byte == b'/' { 2 } else { 1 };
                self.comments.push((start + opening, if closed.is_some() { end - closing } else { end }));
                self.at = end;
                self.after = if byte == b'/' { after } else { After::Other };
            }
            Some(Lexeme::Executable) => {
                let version = self.text[end..].iter().take_while(|b| b.is_ascii_digit()).count();
                self.at = end + version;
            }
            Some(Lexeme::ExecutableEnd) => {
                self.at = end;
                if std::mem::take(&mut self.hint) {
                    self.tokens.push(token::HINT_END);
                }
            }
            _ => {
                self.lexer.finish();
                self.punctuation(byte, after);
            }
        }
    }

    fn punctuation(&mut self, byte: u8, after: After) {
        let (second, third) = (self.peek(1), self.peek(2));
        let (number, length) = match (byte, second, third) {
            (b'<', b'=', b'>') => (token::NULL_SAFE, 3),
            (b'<', b'=', _) => (token::LESS_EQUAL, 2),
            (b'>', b'=', _) => (token::GREATER_EQUAL, 2),
            (b'<', b'>', _) | (b'!', b'=', _) => (token::NOT_EQUAL, 2),
            (b'<', b'<', _) => (token::SHIFT_LEFT, 2),
            (b'>', b'>', _) => (token::SHIFT_RIGHT, 2),
            (b':', b'=', _) => (token::ASSIGN, 2),
            (b'&', b'&', _) => (token::AND, 2),
            (b'|', b'|', _) => (token::OR, 2),
            (b'-', b'>', b'>') if !self.dialect.mariadb => (token::LONG_ARROW, 3),
            (b'-', b'>', _) if !self.dialect.mariadb => (token::ARROW, 2),
            _ => (u16::from(byte), 1),
        };
        if byte == b'.' && after != After::Dot && second.is_ascii_digit() {
            return self.number_from_dot();
        }
        self.at += length;
        match byte {
            b'?' => self.tokens.value(false),
            b')' => self.tokens.close(),
            b'\\' if second == b'N' => {
                self.at += 1;
                self.tokens.value(false);
            }
            _ => self.tokens.push(number),
        }
        self.after = match byte {
            b'.' => After::Dot,
            b'@' if after == After::At => After::AtAt,
            b'@' => After::At,
            _ => After::Other,
        };
    }

    /// `.5`, behind anything but a name.
    fn number_from_dot(&mut self) {
        let named = self.tokens.ends_with_name() && self.at > 0 && is_word(self.text[self.at - 1]);
        if named {
            self.at += 1;
            self.tokens.push(u16::from(b'.'));
            self.after = After::Dot;
            return;
        }
        self.at += 1;
        let rest = &self.text[self.at..];
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        self.at += digits;
        if matches!(self.peek(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            let behind = &self.text[(self.at + 1 + sign).min(self.text.len())..];
            let exponent = behind.iter().take_while(|b| b.is_ascii_digit()).count();
            if exponent > 0 {
                self.at += 1 + sign + exponent;
            }
        }
        self.tokens.value(true);
    }
}

/// Verbs that MySQL takes hints behind.
fn is_verb(word: &[u8]) -> bool {
    [&b"select"[..], b"insert", b"update", b"delete", b"replace"]
        .iter()
        .any(|verb| word.eq_ignore_ascii_case(verb))
}

/// `_utf8mb4 'x'`, `_latin1 0x41`: a name with an underscore, directly before a literal. Servers know their
/// character sets; we take what stands in that place.
fn is_charset(word: &[u8], rest: &[u8]) -> bool {
    let behind = rest[word.len()..].trim_ascii_start();
    matches!(behind, [b'\'' | b'"', ..] | [b'x' | b'X' | b'b' | b'B', b'\'', ..])
}

#[cfg(test)]
mod tests;
