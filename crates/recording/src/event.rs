//! Event: one thing that happened while recording.
//!
//! Times are microseconds since recording began. Sessions have numbers that mean nothing outside their
//! recording.

mod code;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Recording began: the first event.
    RecordingStart(RecordingStart),
    /// A session was there, or came.
    SessionStart(SessionStart),
    /// A client sent a command.
    Command(RecordedCommand),
    SessionEnd(SessionEnd),
    /// Recording ended: the last event, where it ended in peace.
    RecordingEnd(RecordingEnd),
}

/// Where a recording comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingStart {
    /// When, in microseconds since 1970.
    pub unix_us: u64,
    /// From what, in words: `router 127.0.0.1:9306`, `slow log /var/log/slow.log`.
    pub source: String,
    /// One session in this many was recorded.
    pub one_in: u32,
    /// Arrivals are known to within this many microseconds; logs often know whole seconds only.
    pub resolution_us: u64,
    /// The version of headroom that wrote it.
    pub headroom: String,
}

/// A session's first appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionStart {
    pub session: u64,
    /// When it was there. 0 for those that were there before.
    pub at_us: u64,
    /// It began while recording; else what was prepared or set before is not known.
    pub fresh: bool,
    /// Its server speaks MariaDB's dialect.
    pub mariadb: bool,
    /// It may send several statements in one command.
    pub several_statements: bool,
    /// The account it logged in with. Never a password.
    pub user: String,
    /// The default database at that moment; empty for none.
    pub database: String,
    /// The listener that it came by.
    pub listener: String,
    /// The server it was given.
    pub server: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedCommand {
    pub session: u64,
    /// When its first byte came.
    pub at_us: u64,
    /// The command byte of the protocol.
    pub command: u8,
    /// What follows it, without query attributes. Empty where it was left out.
    pub body: Vec<u8>,
    /// The body was left out: it held a password, or was too long.
    pub left_out: bool,
    /// A statement that the session had prepared before it was recorded. Not a command of the recording: it
    /// stands there so that the executions behind it can be sent again.
    pub before: bool,
    /// How it was answered, where it is answered and that is known.
    pub answer: Option<Answer>,
}

impl RecordedCommand {
    /// Only the first `kept` bytes of the body stay.
    pub fn leave_out(&mut self, kept: usize) {
        self.body.truncate(kept);
        self.left_out = true;
    }
}

/// What a server said to a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// From the command's first byte to the answer's last, in microseconds.
    pub took_us: u64,
    /// The number of the error, if it is one.
    pub error: Option<u16>,
    /// Whether it is one is not known (most slow logs do not say); `error` is `None` then.
    pub error_unknown: bool,
    pub rows: u64,
    /// Rows changed, as the server counts them; `None` where that is not known (MySQL's slow log does not
    /// say).
    pub affected: Option<u64>,
    /// The number that a statement was prepared under.
    pub prepared: Option<u32>,
}

/// The end of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionEnd {
    pub session: u64,
    pub at_us: u64,
}

/// The end of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingEnd {
    pub at_us: u64,
    pub commands: u64,
    /// Events that were lost because the writer could not keep up.
    pub lost: u64,
    /// Why it ended, in words.
    pub why: String,
}
