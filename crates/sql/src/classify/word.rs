//! The words of a statement that say which state it leaves.

use crate::sticky::Sticky;

/// What the walk over a statement found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// State that it leaves or may leave.
    pub leaves: Sticky,
    /// State that it ends, if it is answered without error. Empty when the text holds more than one
    /// statement.
    pub ends: Sticky,
    /// The first word of the (first) statement.
    pub verb: Verb,
    /// Number of statements in the text.
    pub statements: u32,
    /// `PREPARE`s in the text.
    pub prepares: u32,
    /// Does it close a text `PREPARE` (`DEALLOCATE PREPARE`, `DROP PREPARE`)? Only when it is the only
    /// statement.
    pub deallocates: bool,
    /// Does it ask for what the statement before it left (`LAST_INSERT_ID()`, `@@identity`), or leave such a
    /// thing itself?
    pub asks_back: bool,
}

macro_rules! verbs {
    ($( $(#[$doc:meta])* $name:ident = $text:literal; )*) => {
        /// The first word of a statement, as far as it matters here.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum Verb {
            $( $(#[$doc])* $name, )*
            /// No statement yet: an empty text.
            #[default]
            None,
            /// Any other word.
            Other,
        }

        impl Verb {
            fn of(word: &[u8]) -> Self {
                let mut upper = [0; LONGEST_VERB];
                let Some(upper) = upper.get_mut(..word.len()) else { return Self::Other };
                upper.copy_from_slice(word);
                upper.make_ascii_uppercase();
                match &*upper {
                    $( $text => Self::$name, )*
                    _ => Self::Other,
                }
            }
        }
    };
}

const LONGEST_VERB: usize = 10;

verbs! {
    Select = b"SELECT";
    Insert = b"INSERT";
    Update = b"UPDATE";
    Delete = b"DELETE";
    Replace = b"REPLACE";
    With = b"WITH";
    Begin = b"BEGIN";
    Start = b"START";
    Commit = b"COMMIT";
    Rollback = b"ROLLBACK";
    Set = b"SET";
    Use = b"USE";
    Call = b"CALL";
    Lock = b"LOCK";
    Unlock = b"UNLOCK";
    Flush = b"FLUSH";
    Backup = b"BACKUP";
    Handler = b"HANDLER";
    Prepare = b"PREPARE";
    Execute = b"EXECUTE";
    Deallocate = b"DEALLOCATE";
    Drop = b"DROP";
    Xa = b"XA";
    /// IF (MariaDB runs compound statements outside procedures too)
    If = b"IF";
    Case = b"CASE";
    Loop = b"LOOP";
    Repeat = b"REPEAT";
    While = b"WHILE";
    For = b"FOR";
}

impl Verb {
    /// Does it read or change rows? Such a statement makes what the one before it left stale.
    pub const fn is_data(self) -> bool {
        matches!(self, Self::Select | Self::Insert | Self::Update | Self::Delete | Self::Replace | Self::With)
    }

    /// May it run several other statements: those of a body (`BEGIN NOT ATOMIC`, `IF`, loops: MariaDB), or
    /// whatever was prepared by text?
    pub const fn may_run_others(self) -> bool {
        self.holds_others() && !matches!(self, Self::Prepare) || matches!(self, Self::Begin)
    }

    /// Does its second word matter?
    const fn has_second(self) -> bool {
        matches!(self, Self::Lock | Self::Unlock | Self::Drop | Self::Xa | Self::Begin | Self::Set)
    }

    /// Does it hold other statements, in its strings or in its body?
    const fn holds_others(self) -> bool {
        matches!(
            self,
            Self::Prepare
                | Self::Execute
                | Self::If
                | Self::Case
                | Self::Loop
                | Self::Repeat
                | Self::While
                | Self::For
        )
    }

    /// What the first word alone leaves.
    const fn leaves(self) -> Sticky {
        match self {
            Self::Call => Sticky::STORED_PROCEDURE,
            Self::Handler => Sticky::HANDLER,
            Self::Backup => Sticky::BACKUP_LOCK,
            _ => Sticky::empty(),
        }
    }
}

/// Which word is awaited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    /// The first of a statement.
    First,
    /// The second of a statement that starts with this verb.
    Second(Verb),
    /// Any other.
    #[default]
    Any,
}

/// Gathers findings word by word.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    next: Next,
    /// The verb of the current statement.
    verb: Verb,
    /// Every word may be the first of a statement.
    wary: bool,
    /// The start of a word that a chunk has cut.
    cut: [u8; LONGEST_WORD],
    cut_len: usize,
    found: Findings,
}

/// The lengths of the words that count wherever they stand, see [`Words::anywhere`]: a bit each.
const ANYWHERE: u32 = 1 << 4 | 1 << 6 | 1 << 8 | 1 << 9 | 1 << 14 | 1 << 17 | 1 << 19;

/// Longer words are none of ours; one byte more, so that a longer word cannot look like one of ours.
const LONGEST_WORD: usize = 20;

impl Words {
    pub(super) fn at_start() -> Self {
        Self { next: Next::First, ..Self::default() }
    }

    pub(super) fn every_word_may_be_first(&mut self) {
        self.wary = true;
    }

    /// The lengths of words that would be looked at now, a bit each; bit 31 stands for all longer ones.
    #[inline]
    pub(super) fn wanted(&self) -> u32 {
        if self.wary || self.next != Next::Any { !1 } else { ANYWHERE }
    }

    /// Keeps the start of a word that goes on in the next chunk.
    pub(super) fn keep(&mut self, part: &[u8]) {
        let room = &mut self.cut[self.cut_len..];
        let n = part.len().min(room.len());
        room[..n].copy_from_slice(&part[..n]);
        self.cut_len += n;
    }

    /// A word ends, with these bytes. Should strings be read as code from here on?
    #[inline]
    pub(super) fn end_word(&mut self, word: &[u8]) -> bool {
        if self.cut_len == 0 {
            return self.whole(word);
        }
        self.keep(word);
        let (cut, len) = (self.cut, self.cut_len);
        self.cut_len = 0;
        self.whole(&cut[..len])
    }

    pub(super) fn end_statement(&mut self) {
        self.next = Next::First;
    }

    pub(super) fn user_variable(&mut self) {
        self.found.leaves |= Sticky::USER_VARIABLE;
    }

    pub(super) fn findings(&self) -> Findings {
        let mut found = self.found;
        // What a statement gives back and takes is taken, whatever the order.
        found.ends.remove(found.leaves);
        if found.statements != 1 || self.wary {
            found.ends = Sticky::empty();
            found.deallocates = false;
        }
        found
    }

    #[inline]
    fn whole(&mut self, word: &[u8]) -> bool {
        match self.next {
            // The digits of `/*!40101` come before the first word.
            Next::First if !word.first().is_some_and(u8::is_ascii_digit) => return self.first(word),
            Next::Second(verb) => self.second(verb, word),
            Next::First | Next::Any => {}
        }
        self.anywhere(word);
        if self.wary {
            self.maybe_first(word);
        }
        false
    }

    fn first(&mut self, word: &[u8]) -> bool {
        let verb = Verb::of(word);
        self.verb = verb;
        self.next = if verb.has_second() { Next::Second(verb) } else { Next::Any };
        if self.found.statements == 0 {
            self.found.verb = verb;
        }
        self.found.statements = self.found.statements.saturating_add(1);
        self.found.leaves |= verb.leaves();
        match verb {
            Verb::Prepare => self.found.prepares = self.found.prepares.saturating_add(1),
            Verb::Deallocate => self.found.deallocates = true,
            _ => {}
        }
        verb.holds_others()
    }

    fn second(&mut self, verb: Verb, word: &[u8]) {
        self.next = Next::Any;
        let is = |text: &[u8]| word.eq_ignore_ascii_case(text);
        let tables = is(b"TABLES") || is(b"TABLE");
        match verb {
            Verb::Lock if tables => self.found.leaves |= Sticky::TABLE_LOCK,
            Verb::Lock => self.found.leaves |= Sticky::BACKUP_LOCK,
            Verb::Unlock if tables => self.found.ends |= Sticky::TABLE_LOCK,
            Verb::Drop if is(b"PREPARE") => self.found.deallocates = true,
            Verb::Xa if is(b"START") || is(b"BEGIN") => self.found.leaves |= Sticky::XA,
            // BEGIN NOT ATOMIC ... END, and SET STATEMENT ... FOR ...
            Verb::Begin if is(b"NOT") => self.wary = true,
            Verb::Set if is(b"STATEMENT") => self.wary = true,
            Verb::Set if is(b"TRANSACTION") => {
                self.found.leaves |= Sticky::NEXT_TRANSACTION;
                self.found.asks_back = true;
            }
            Verb::Xa if is(b"COMMIT") || is(b"ROLLBACK") => self.found.ends |= Sticky::XA,
            _ => {}
        }
    }

    /// Words that count wherever they stand.
    #[inline]
    fn anywhere(&mut self, word: &[u8]) {
        let is = |text: &[u8]| word.eq_ignore_ascii_case(text);
        match word.len() {
            4 | 6 if self.verb == Verb::Flush && (is(b"LOCK") || is(b"EXPORT")) => {
                self.found.leaves |= Sticky::TABLE_LOCK;
            }
            8 if is(b"GET_LOCK") => self.found.leaves |= Sticky::NAMED_LOCK,
            8 if is(b"IDENTITY") => self.found.asks_back = true,
            9 if is(b"TEMPORARY") => self.found.leaves |= Sticky::TEMPORARY_TABLE,
            14 if is(b"LAST_INSERT_ID") => {
                self.found.leaves |= Sticky::LAST_INSERT_ID;
                self.found.asks_back = true;
            }
            17 if is(b"RELEASE_ALL_LOCKS") => self.found.ends |= Sticky::NAMED_LOCK,
            19 if is(b"SQL_CALC_FOUND_ROWS") => {
                self.found.leaves |= Sticky::FOUND_ROWS;
                self.found.asks_back = true;
            }
            _ => {}
        }
    }

    /// A word that may start a statement inside a string.
    fn maybe_first(&mut self, word: &[u8]) {
        let verb = Verb::of(word);
        self.found.leaves |= verb.leaves();
        match verb {
            Verb::Lock => self.found.leaves |= Sticky::TABLE_LOCK,
            Verb::Xa => self.found.leaves |= Sticky::XA,
            Verb::Prepare => self.found.prepares = self.found.prepares.saturating_add(1),
            _ => {}
        }
    }
}
