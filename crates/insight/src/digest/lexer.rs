//! Lexer: one walk over a statement's bytes, telling the digester what comes: names, keywords, values, punctuation.
//!
//! What is a word, a number or a comment follows the servers' scanner: a word after a dot is a name whatever it spells,
//! digits that run into letters are a name, `@x` is a value, `--` needs a space behind it, and comments that servers
//! execute (`/*! ... */`, MariaDB's `/*M! ... */`) are code.

use super::{Dialect, Digester, token};

/// Walks over the whole text.
pub(super) fn walk(digester: &mut Digester, text: &[u8], dialect: Dialect) {
    let mut lexer =
        Lexer { digester, text, dialect, at: 0, executable: false, hint: false, after: After::Other };
    while lexer.at < text.len() {
        lexer.step();
    }
}

struct Lexer<'a> {
    digester: &'a mut Digester,
    text: &'a [u8],
    dialect: Dialect,
    at: usize,
    /// In a comment that servers execute.
    executable: bool,
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

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn step(&mut self) {
        let byte = self.text[self.at];
        let after = std::mem::replace(&mut self.after, After::Other);
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => {
                self.at += 1;
                // Space separates `@` from what follows, and does not part a verb from its hints.
                self.after = if after == After::Verb { after } else { After::Other };
            }
            b'0'..=b'9' if after != After::Dot && after != After::At => self.number(after),
            _ if is_word(byte) => self.word(after),
            b'\'' => self.string(b'\''),
            b'"' if !self.dialect.ansi_quotes => self.string(b'"'),
            b'"' | b'`' => self.quoted_name(byte),
            b'#' => self.line_comment(1),
            b'-' if self.peek(1) == b'-' && self.peek(2) <= b' ' => self.line_comment(2),
            b'/' if self.peek(1) == b'*' => self.comment(after),
            b'*' if self.peek(1) == b'/' && (self.executable || self.hint) => self.comment_ends(),
            _ => self.punctuation(byte, after),
        }
    }

    fn word(&mut self, after: After) {
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
        let word = &rest[..length];
        let next = rest.get(length).copied().unwrap_or(0);
        if next == b'\'' && after == After::Other && self.prefixed_string(word) {
            return;
        }
        if after == After::At {
            // A host or variable: dots belong to it.
            let end = rest.iter().position(|byte| !is_word(*byte) && *byte != b'.').unwrap_or(rest.len());
            self.at += end;
            return self.digester.value(false);
        }
        self.at += length;
        let dotted = next == b'.' && rest.get(length + 1).is_some_and(|byte| is_word(*byte) || *byte == b'`');
        if after == After::Dot || dotted && after != After::AtAt {
            return self.digester.name(word);
        }
        match self.digester.words.find(word, self.dialect.mariadb, next == b'(') {
            Some(keyword) => {
                self.digester.keyword(keyword);
                self.after = if is_verb(word) { After::Verb } else { After::Other };
            }
            None if word[0] == b'_' && is_charset(word, rest) => self.digester.push(token::CHARSET),
            None => self.digester.name(word),
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
            self.at += 1;
            self.skip_quoted(b'\'', false);
            self.digester.push(token::HEX);
        } else {
            self.string(b'\'');
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
                return self.digester.value(true);
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
        self.digester.value(true);
    }

    fn string(&mut self, quote: u8) {
        self.at += 1;
        self.skip_quoted(quote, !self.dialect.plain_backslash);
        self.digester.value(false);
    }

    fn quoted_name(&mut self, quote: u8) {
        let start = self.at + 1;
        self.at = start;
        self.skip_quoted(quote, false);
        let end = if self.at > start && self.text[self.at - 1] == quote { self.at - 1 } else { self.at };
        self.digester.name(&self.text[start..end]);
        if self.peek(0) == b'.' {
            self.digester.push(u16::from(b'.'));
            self.at += 1;
            self.after = After::Dot;
        }
    }

    /// To behind the closing quote; a doubled quote does not close.
    fn skip_quoted(&mut self, quote: u8, escapes: bool) {
        loop {
            let rest = &self.text[self.at..];
            let found =
                if escapes { memchr::memchr2(quote, b'\\', rest) } else { memchr::memchr(quote, rest) };
            let Some(found) = found else {
                self.at = self.text.len();
                return;
            };
            let is_quote = rest[found] == quote;
            let doubled = is_quote && rest.get(found + 1) == Some(&quote);
            self.at = (self.at + found + if is_quote && !doubled { 1 } else { 2 }).min(self.text.len());
            if is_quote && !doubled {
                return;
            }
        }
    }

    fn line_comment(&mut self, marker: usize) {
        let start = self.at + marker;
        let end = memchr::memchr(b'\n', &self.text[start..]).map_or(self.text.len(), |n| start + n);
        self.digester.comment((start, end));
        self.at = (end + 1).min(self.text.len());
    }

    fn comment(&mut self, after: After) {
        let behind = &self.text[self.at + 2..];
        let executable = match behind {
            [b'!', ..] => Some(1),
            [b'M', b'!', ..] if self.dialect.mariadb => Some(2),
            _ => None,
        };
        if let Some(marker) = executable {
            let version = behind[marker..].iter().take_while(|b| b.is_ascii_digit()).count();
            self.at += 2 + marker + version;
            self.executable = true;
            return;
        }
        if behind.first() == Some(&b'+') && after == After::Verb && !self.dialect.mariadb {
            self.at += 3;
            self.hint = true;
            return self.digester.push(token::HINT);
        }
        let start = self.at + 2;
        let end = memchr::memmem::find(behind, b"*/").map_or(self.text.len(), |n| start + n);
        self.digester.comment((start, end));
        self.at = (end + 2).min(self.text.len());
        self.after = after;
    }

    fn comment_ends(&mut self) {
        self.at += 2;
        if self.hint {
            self.digester.push(token::HINT_END);
        }
        (self.executable, self.hint) = (false, false);
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
            b'?' => self.digester.value(false),
            b')' => self.digester.close(),
            b'\\' if second == b'N' => {
                self.at += 1;
                self.digester.value(false);
            }
            _ => self.digester.push(number),
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
        let named = self.digester.after_name == self.digester.tokens.len()
            && self.at > 0
            && is_word(self.text[self.at - 1]);
        if named {
            self.at += 1;
            self.digester.push(u16::from(b'.'));
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
        self.digester.value(true);
    }
}

/// Verbs that MySQL takes hints behind.
fn is_verb(word: &[u8]) -> bool {
    [&b"select"[..], b"insert", b"update", b"delete", b"replace"]
        .iter()
        .any(|verb| word.eq_ignore_ascii_case(verb))
}

/// `_utf8mb4 'x'`, `_latin1 0x41`: a name with an underscore, directly before a literal. Servers know their character sets;
/// we take what stands in that place.
fn is_charset(word: &[u8], rest: &[u8]) -> bool {
    let behind = rest[word.len()..].trim_ascii_start();
    matches!(behind, [b'\'' | b'"', ..] | [b'x' | b'X' | b'b' | b'B', b'\'', ..])
}
