//! Lexer: where words, strings, quoted names and comments of a statement begin and end. The one place that
//! knows; what they mean is for its readers ([`classify`](crate::classify), [`digest`](crate::digest)) to
//! say.
//!
//! A reader walks over code by itself, with [`CLASS`] for each byte. At a byte that may begin something else
//! it calls [`Lexer::begin`], then [`Lexer::read`] with what follows, until the lexer says what it was. A
//! text may come in any number of chunks, cut anywhere; nothing of it is kept and nothing is allocated.
//!
//! The rules are the servers': a comment is `/* ... */`, `# ...`, or `-- ...` with a space or a control
//! character behind the dashes; `/*! ... */` and MariaDB's `/*M! ... */` are code; in strings a backslash
//! takes the next byte as it is, unless the session says `NO_BACKSLASH_ESCAPES`; in names in backticks it
//! does not. A doubled quote ends a string and begins the next.
//!
//! Worked example, `a-1/*x*/`: the word `a` is the reader's. `-` may begin a comment: `begin`, and `read`
//! sees `1` and says [`Lexeme::Symbol`], without taking the `1`. At `/` the same, and `read` says
//! [`Lexeme::Comment`] behind `*/`.

/// What a byte is in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// White space as servers see it.
    Space,
    /// Operators, brackets, control characters.
    Symbol,
    /// Part of a word or of a number.
    Word,
    Semicolon,
    /// Begins a string or a quoted name.
    Quote,
    /// Begins a comment to the end of the line.
    Hash,
    /// May belong to the byte behind it: `@`, `/`, `-`, `*`.
    Pair,
}

impl Class {
    /// More than space, symbol or word: a reader has to look closer.
    #[inline]
    pub(crate) const fn is_special(self) -> bool {
        self as u8 > Self::Word as u8
    }
}

/// The class of each byte. Bytes above 0x7f are parts of words, whatever the character set.
pub(crate) static CLASS: [Class; 256] = classes();

const fn classes() -> [Class; 256] {
    let mut table = [Class::Symbol; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => Class::Space,
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80..=0xff => Class::Word,
            b'\'' | b'"' | b'`' => Class::Quote,
            b'#' => Class::Hash,
            b';' => Class::Semicolon,
            b'@' | b'/' | b'-' | b'*' => Class::Pair,
            _ => Class::Symbol,
        };
        byte += 1;
    }
    table
}

#[inline]
pub(crate) fn is_word(byte: u8) -> bool {
    CLASS[byte as usize] == Class::Word
}

/// Where the word that begins at `at` ends, or the text.
#[inline]
pub(crate) fn word_end(text: &[u8], at: usize) -> usize {
    text[at..].iter().position(|byte| !is_word(*byte)).map_or(text.len(), |n| at + n)
}

/// How a session's text is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Backslash is no escape (`NO_BACKSLASH_ESCAPES`).
    pub(crate) plain_backslash: bool,
    /// Double quotes hold names, in which backslash is no escape (`ANSI_QUOTES`).
    pub(crate) ansi_quotes: bool,
    /// `/*M! ... */` is code: the server is MariaDB, or may be.
    pub(crate) mariadb: bool,
    /// Say [`Lexeme::Doubt`] where a backslash may be half of a letter.
    pub(crate) doubts: bool,
}

/// What [`Lexer::read`] has come to the end of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lexeme {
    /// The byte stands for itself. What follows has not been taken, but for a second dash, with which the
    /// next has begun.
    Symbol,
    /// One `@`: a user's variable or a host follows.
    At,
    /// `@@`: a system variable follows.
    AtAt,
    /// A string or a quoted name.
    Quoted,
    Comment,
    /// The start of a comment that servers execute. What follows, from the version on, is code.
    Executable,
    /// The end of one.
    ExecutableEnd,
    /// In a string, a backslash behind a byte above 0x7f: in GBK, Big5 and Shift-JIS the two may be one
    /// letter. What follows may be string or code; it is read as code.
    Doubt,
}

/// Reads what is not plain code; see the module's text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lexer {
    rules: Rules,
    state: State,
    /// Inside a comment that servers execute.
    executable: bool,
    /// The byte before a backslash that is the first of a chunk.
    last: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Code,
    /// After this byte, which may be the first of two that belong together.
    Pair(u8),
    /// In a string or quoted name that this byte ends.
    Quoted {
        quote: u8,
        escapes: bool,
    },
    /// The same, after a backslash.
    Escaped {
        quote: u8,
    },
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

impl Lexer {
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Is the next byte code?
    #[inline]
    pub(crate) fn is_in_code(&self) -> bool {
        self.state == State::Code
    }

    /// A byte in code that may begin something else: a [`Class::Quote`], [`Class::Hash`] or [`Class::Pair`].
    #[inline]
    pub(crate) fn begin(&mut self, byte: u8) {
        self.state = match CLASS[byte as usize] {
            Class::Quote => {
                let escapes = match byte {
                    b'`' => false,
                    b'"' => !self.rules.plain_backslash && !self.rules.ansi_quotes,
                    _ => !self.rules.plain_backslash,
                };
                self.last = byte;
                State::Quoted { quote: byte, escapes }
            }
            Class::Hash => State::Line,
            _ => State::Pair(byte),
        };
    }

    /// A quote in code behind which backslash is no escape, whatever the session says: of a hexadecimal
    /// literal.
    pub(crate) fn begin_without_escapes(&mut self, quote: u8) {
        self.state = State::Quoted { quote, escapes: false };
    }

    /// A comment of hints has begun, which is code up to its `*/`.
    pub(crate) fn begin_hints(&mut self) {
        self.executable = true;
    }

    /// Reads on at `at` to the end of what was begun. Returns where it ends and what it was, or the end of
    /// the chunk and `None` while it goes on.
    pub(crate) fn read(&mut self, chunk: &[u8], mut at: usize) -> (usize, Option<Lexeme>) {
        while at < chunk.len() {
            let lexeme;
            (at, lexeme) = match self.state {
                State::Code => return (at, Some(Lexeme::Symbol)),
                State::Pair(first) => self.pair(first, chunk[at], at),
                State::Quoted { quote, escapes } => self.quoted(quote, escapes, chunk, at),
                State::Escaped { quote } => {
                    self.state = State::Quoted { quote, escapes: true };
                    self.last = chunk[at];
                    (at + 1, None)
                }
                State::Dashes if chunk[at] <= b' ' => {
                    self.state = State::Line;
                    (at, None)
                }
                State::Dashes => {
                    // The first dash was a minus; the second may be the first of another two.
                    self.state = State::Pair(b'-');
                    (at, Some(Lexeme::Symbol))
                }
                State::Line => match memchr::memchr(b'\n', &chunk[at..]) {
                    Some(end) => self.end(at + end + 1, Lexeme::Comment),
                    None => (chunk.len(), None),
                },
                State::Opening | State::OpeningM => self.opening(chunk[at], at),
                State::Comment => match memchr::memchr(b'*', &chunk[at..]) {
                    Some(star) => {
                        self.state = State::Star;
                        (at + star + 1, None)
                    }
                    None => (chunk.len(), None),
                },
                State::Star if chunk[at] == b'/' => self.end(at + 1, Lexeme::Comment),
                State::Star => {
                    self.state = State::Comment;
                    (at, None)
                }
            };
            if lexeme.is_some() {
                return (at, lexeme);
            }
        }
        (at, None)
    }

    /// The text has ended: what was begun and not read to its end, and what it comes to.
    pub(crate) fn finish(&mut self) -> Option<Lexeme> {
        match std::mem::take(&mut self.state) {
            State::Code => None,
            State::Pair(b'@') => Some(Lexeme::At),
            State::Pair(_) => Some(Lexeme::Symbol),
            State::Quoted { .. } | State::Escaped { .. } => Some(Lexeme::Quoted),
            State::Dashes | State::Line | State::Opening | State::OpeningM | State::Comment | State::Star => {
                Some(Lexeme::Comment)
            }
        }
    }

    fn end(&mut self, at: usize, lexeme: Lexeme) -> (usize, Option<Lexeme>) {
        self.state = State::Code;
        (at, Some(lexeme))
    }

    /// Do `first` and the byte behind it belong together?
    fn pair(&mut self, first: u8, second: u8, at: usize) -> (usize, Option<Lexeme>) {
        match (first, second) {
            (b'/', b'*') => self.state = State::Opening,
            (b'-', b'-') => self.state = State::Dashes,
            (b'*', b'/') if self.executable => {
                self.executable = false;
                return self.end(at + 1, Lexeme::ExecutableEnd);
            }
            (b'@', b'@') => return self.end(at + 1, Lexeme::AtAt),
            (b'@', _) => return self.end(at, Lexeme::At),
            _ => return self.end(at, Lexeme::Symbol),
        }
        (at + 1, None)
    }

    fn quoted(&mut self, quote: u8, escapes: bool, chunk: &[u8], at: usize) -> (usize, Option<Lexeme>) {
        let rest = &chunk[at..];
        let found = if escapes { memchr::memchr2(quote, b'\\', rest) } else { memchr::memchr(quote, rest) };
        let Some(found) = found else {
            self.last = rest.last().copied().unwrap_or(self.last);
            return (chunk.len(), None);
        };
        let behind = at + found + 1;
        if rest[found] == quote {
            return self.end(behind, Lexeme::Quoted);
        }
        let before = if found == 0 { self.last } else { rest[found - 1] };
        if self.rules.doubts && before >= 0x80 {
            return self.end(behind, Lexeme::Doubt);
        }
        self.state = State::Escaped { quote };
        (behind, None)
    }

    /// After `/*`: is it a comment, or code?
    fn opening(&mut self, byte: u8, at: usize) -> (usize, Option<Lexeme>) {
        match (self.state, byte) {
            (State::Opening, b'!') | (State::OpeningM, b'!') => {
                self.executable = true;
                return self.end(at + 1, Lexeme::Executable);
            }
            (State::Opening, b'M') if self.rules.mariadb => self.state = State::OpeningM,
            _ => {
                self.state = State::Comment;
                return (at, None);
            }
        }
        (at + 1, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, Digester, scan};
    use proptest::prelude::*;

    /// What the lexer comes to in a text, each with where it ends, however the text is cut.
    fn lexemes(text: &[u8], rules: Rules, step: usize) -> Vec<(usize, Lexeme)> {
        let mut lexer = Lexer::new(rules);
        let (mut found, mut from) = (Vec::new(), 0);
        for chunk in text.chunks(step) {
            let mut at = 0;
            while at < chunk.len() {
                if lexer.is_in_code() {
                    if matches!(CLASS[chunk[at] as usize], Class::Quote | Class::Hash | Class::Pair) {
                        lexer.begin(chunk[at]);
                    }
                    at += 1;
                    continue;
                }
                let (end, lexeme) = lexer.read(chunk, at);
                found.extend(lexeme.map(|lexeme| (from + end, lexeme)));
                at = end;
            }
            from += chunk.len();
        }
        found.extend(lexer.finish().map(|lexeme| (from, lexeme)));
        found
    }

    #[test]
    fn comments_strings_and_symbols_end_where_they_end_on_servers() {
        use Lexeme::{At, AtAt, Comment, Doubt, Executable, ExecutableEnd, Quoted, Symbol};
        let mariadb = Rules { mariadb: true, doubts: true, ..Rules::default() };
        for (text, expected) in [
            (&b"a-1/*x*/"[..], &[(2, Symbol), (8, Comment)][..]),
            (b"---- x", &[(2, Symbol), (3, Symbol), (6, Comment)]),
            (b"--\n1 # x\n", &[(3, Comment), (9, Comment)]),
            (b"/*/ */ /***/", &[(6, Comment), (12, Comment)]),
            (b"/*!50000 a */ */", &[(3, Executable), (13, ExecutableEnd), (15, Symbol), (16, Symbol)]),
            (b"/*M! a */", &[(4, Executable), (9, ExecutableEnd)]),
            (b"@a @@b @'c'", &[(1, At), (5, AtAt), (8, At), (11, Quoted)]),
            (br"'it\'s' `a\`", &[(7, Quoted), (12, Quoted)]),
            (b"'a''b'", &[(3, Quoted), (6, Quoted)]),
            (b"'\x95\\'", &[(3, Doubt), (4, Quoted)]),
            (b"'open", &[(5, Quoted)]),
            (b"/* open", &[(7, Comment)]),
            (b"--", &[(2, Comment)]),
        ] {
            assert_eq!(lexemes(text, mariadb, usize::MAX), expected, "{}", text.escape_ascii());
        }
        let plain = Rules { plain_backslash: true, ..Rules::default() };
        assert_eq!(lexemes(br"'a\' /*M! x */", plain, usize::MAX), [(4, Quoted), (14, Comment)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_cut_makes_no_difference(
            text in "[-@'\"`/*M!#;\\\\aé \n]{0,40}", step in 1usize..9, bits in 0u8..16
        ) {
            let rules = Rules {
                plain_backslash: bits & 1 != 0,
                ansi_quotes: bits & 2 != 0,
                mariadb: bits & 4 != 0,
                doubts: bits & 8 != 0,
            };
            prop_assert_eq!(lexemes(text.as_bytes(), rules, step), lexemes(text.as_bytes(), rules, usize::MAX));
        }

        #[test]
        fn what_stands_in_a_string_or_a_comment_counts_for_none_of_the_readers(
            hidden in "[-@/*M!#;a-zA-Z() ]{0,20}", around in 0usize..5, mariadb: bool
        ) {
            // Neither end may appear when the characters around it are taken out.
            let hidden = hidden.replace("*/", "* ").replace("/*", "/ ");
            let (open, close) = [("'", "'"), ("\"", "\""), ("/* ", " */"), ("-- ", "\n"), ("# ", "\n")][around];
            let text = |inside: &str| format!("SELECT a {open}{inside}{close} FROM t").into_bytes();
            prop_assert_eq!(scan(&text(&hidden), false), scan(&text(""), false));
            let (mut digester, dialect) = (Digester::new(), Dialect { mariadb, ..Dialect::default() });
            prop_assert_eq!(digester.read(&text(&hidden), dialect), digester.read(&text(""), dialect));
        }
    }
}
