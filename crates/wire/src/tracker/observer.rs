//! What a tracker finds in the bytes it is shown, for whoever wants to know more of each command than its
//! counts: its start with its text, its answer's start and its end.
//!
//! Told while the bytes are read, in the order of the bytes. Ends of answers come in the order of the
//! commands, one for each (but for commands that the session does not live to see answered).

use crate::command::Command;

/// Sees what happens in a session. `()` sees nothing and costs nothing, nor does `None`.
pub trait Observer {
    /// Whether it looks at all; if not, nothing is worked out for it.
    const OBSERVES: bool = true;

    /// Something was found.
    fn event(&mut self, event: Event<'_>);
}

/// What a tracker has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The first bytes of a packet of the client that may be a command, too few to tell what it is.
    /// [`Event::Command`] may follow. Not told of a login and of a file (`LOAD DATA LOCAL`).
    Packet,
    /// A command. One that is not answered ([`Command::is_answered`]) has no [`Event::Answer`] and
    /// [`Event::AnswerEnd`].
    Command(Start<'a>),
    /// More of the body of the command that came last, which was not whole.
    Body(&'a [u8]),
    /// The end of that body.
    BodyEnd,
    /// The first byte of the answer to the oldest command not answered yet.
    Answer,
    /// The end of that answer.
    AnswerEnd(Finish),
}

/// The start of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start<'a> {
    /// Which.
    pub command: Command,
    /// What follows the command byte: at least the first 511 bytes of it, or all.
    pub body: &'a [u8],
    /// Is `body` all of it? Else [`Event::Body`] and [`Event::BodyEnd`] follow.
    pub whole: bool,
    /// Does `COM_QUERY` carry query attributes, and `COM_STMT_EXECUTE` the names of its parameters?
    pub attributes: bool,
    /// Bytes of the packet with its header, as far as its header says: 16 MiB for longer ones.
    pub bytes: u64,
}

impl Start<'_> {
    /// The prepared statement that most commands about such statements begin with.
    #[inline]
    pub fn statement(&self) -> Option<u32> {
        self.body.first_chunk().map(|id| u32::from_le_bytes(*id))
    }

    /// The prepared statement that is forgotten with this command.
    #[inline]
    pub fn closes(&self) -> Option<u32> {
        if self.command == Command::StmtClose { self.statement() } else { None }
    }
}

/// The end of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finish {
    /// The number of the error, if it is one.
    pub error: Option<u16>,
    /// Rows sent, over all results.
    pub rows: u64,
    /// Rows changed, over all results, as the server counts them.
    pub affected: u64,
    /// Bytes of the answer, headers included.
    pub bytes: u64,
    /// The id of the statement that was prepared.
    pub prepared: Option<u32>,
    /// How many parameters that has.
    pub parameters: u16,
}

impl Observer for () {
    const OBSERVES: bool = false;

    #[inline]
    fn event(&mut self, _: Event<'_>) {}
}

/// Two that see the same, the first one first.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const OBSERVES: bool = A::OBSERVES || B::OBSERVES;

    #[inline]
    fn event(&mut self, event: Event<'_>) {
        self.0.event(event);
        self.1.event(event);
    }
}

impl<O: Observer> Observer for &mut O {
    const OBSERVES: bool = O::OBSERVES;

    #[inline]
    fn event(&mut self, event: Event<'_>) {
        (**self).event(event);
    }
}

impl<O: Observer> Observer for Option<O> {
    const OBSERVES: bool = O::OBSERVES;

    #[inline]
    fn event(&mut self, event: Event<'_>) {
        if let Some(observer) = self {
            observer.event(event);
        }
    }
}
