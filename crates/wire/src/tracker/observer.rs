//! What a tracker tells of each command, to whoever listens: its start with its text, its answer's start and its end.
//!
//! Told while the bytes are read, in the order of the bytes. Ends come in the order of starts, one for each (but for
//! commands that the session does not live to see answered).

use super::session::Session;
use crate::command::Command;
use crate::packet::{HEADER, Head};

/// Hears what a session does. `()` hears nothing and costs nothing.
pub trait Observer {
    /// Whether anything is to be told.
    const HEARS: bool = true;

    /// The first bytes of a packet of the client have come, too few to tell what it is. [`Observer::started`] may follow.
    fn begins(&mut self) {}

    /// A command that will be answered.
    fn started(&mut self, start: Start<'_>);

    /// More of the command that started last, which was not whole.
    fn more(&mut self, body: &[u8]);

    /// The end of the command that started last, which was not whole.
    fn whole(&mut self);

    /// The prepared statement with this id is forgotten.
    fn closed(&mut self, statement: u32);

    /// A command that will not be answered, `COM_STMT_CLOSE` among them.
    fn silent(&mut self, _: Start<'_>) {}

    /// More of the command that was told last by [`Observer::silent`], which was not whole.
    fn silent_more(&mut self, _: &[u8]) {}

    /// The end of that command.
    fn silent_whole(&mut self) {}

    /// The first byte of the answer to the oldest command not answered yet.
    fn answering(&mut self);

    /// The end of that answer.
    fn finished(&mut self, finish: Finish);
}

/// The start of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start<'a> {
    /// Which.
    pub command: Command,
    /// What follows the command byte: at least the first 511 bytes of it, or all.
    pub body: &'a [u8],
    /// Is `body` all of it? Else [`Observer::more`] and [`Observer::whole`] follow.
    pub whole: bool,
    /// Does `COM_QUERY` carry query attributes, and `COM_STMT_EXECUTE` the names of its parameters?
    pub attributes: bool,
    /// Bytes of the packet with its header, as far as its header says: 16 MiB for longer ones.
    pub bytes: u64,
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

/// Facts of the answer under way.
#[derive(Debug, Default)]
pub(super) struct Answered {
    pub(super) rows: u64,
    pub(super) affected: u64,
    pub(super) error: u16,
    /// Bytes that came from the server so far, kept only while somebody listens.
    pub(super) position: u64,
    /// That at the start of this answer, or the end of the last one.
    pub(super) from: u64,
}

impl Observer for () {
    const HEARS: bool = false;

    fn started(&mut self, _: Start<'_>) {}

    fn more(&mut self, _: &[u8]) {}

    fn whole(&mut self) {}

    fn closed(&mut self, _: u32) {}

    fn answering(&mut self) {}

    fn finished(&mut self, _: Finish) {}
}

/// Two that hear the same, the first one first.
impl<A: Observer, B: Observer> Observer for (&mut A, &mut B) {
    const HEARS: bool = A::HEARS || B::HEARS;

    fn begins(&mut self) {
        self.0.begins();
        self.1.begins();
    }

    fn started(&mut self, start: Start<'_>) {
        self.0.started(start);
        self.1.started(start);
    }

    fn more(&mut self, body: &[u8]) {
        self.0.more(body);
        self.1.more(body);
    }

    fn whole(&mut self) {
        self.0.whole();
        self.1.whole();
    }

    fn closed(&mut self, statement: u32) {
        self.0.closed(statement);
        self.1.closed(statement);
    }

    fn silent(&mut self, start: Start<'_>) {
        self.0.silent(start);
        self.1.silent(start);
    }

    fn silent_more(&mut self, body: &[u8]) {
        self.0.silent_more(body);
        self.1.silent_more(body);
    }

    fn silent_whole(&mut self) {
        self.0.silent_whole();
        self.1.silent_whole();
    }

    fn answering(&mut self) {
        self.0.answering();
        self.1.answering();
    }

    fn finished(&mut self, finish: Finish) {
        self.0.finished(finish);
        self.1.finished(finish);
    }
}

/// Lets the session read a client's packet and tells whether it started a command.
#[inline]
pub(super) fn client_head<O: Observer>(session: &mut Session, head: Head<'_>, observer: &mut O) {
    if !O::HEARS {
        return session.client_head(head);
    }
    let before = session.progress.started;
    let (commands, first) = (session.expects_command(), head.prefix.first().copied());
    session.client_head(head);
    let start = Start {
        command: Command::from_byte(first.unwrap_or(0)),
        body: head.prefix.get(1..).unwrap_or_default(),
        whole: head.whole,
        attributes: session.has_query_attributes(),
        bytes: u64::from(head.length) + HEADER as u64,
    };
    if session.progress.started != before {
        if before == session.progress.completed {
            // What came before belongs to no answer: the handshake, the rest of a last packet.
            session.answered.from = session.answered.position;
        }
        observer.started(start);
    } else if commands && head.sequence == 0 && !start.command.is_answered() {
        if let [a, b, c, d, ..] = *start.body
            && start.command == Command::StmtClose
        {
            observer.closed(u32::from_le_bytes([a, b, c, d]));
        }
        observer.silent(start);
    }
}

/// Lets the session read a server's packet and tells what it began and ended.
#[inline]
pub(super) fn server_head<O: Observer>(session: &mut Session, head: Head<'_>, observer: &mut O) {
    if !O::HEARS {
        return session.server_head(head);
    }
    let before = session.progress;
    let preparing = session.command() == Some(Command::StmtPrepare);
    session.server_head(head);
    if session.progress.answering != before.answering {
        observer.answering();
    }
    if session.progress.completed != before.completed {
        let failed = session.progress.failed != before.failed;
        let answered = &mut session.answered;
        let finish = Finish {
            error: failed.then_some(answered.error),
            rows: answered.rows,
            affected: answered.affected,
            bytes: answered.position - answered.from,
            prepared: (preparing && !failed).then_some(session.left.last_prepared),
            parameters: if preparing && !failed { session.left.last_parameters } else { 0 },
        };
        answered.from = answered.position;
        observer.finished(finish);
    }
}

/// The same for what begins an answer without a packet's head.
pub(super) fn hears_answering<O: Observer>(
    session: &mut Session,
    observer: &mut O,
    act: impl FnOnce(&mut Session),
) {
    let before = session.progress.answering;
    act(session);
    if O::HEARS && session.progress.answering != before {
        observer.answering();
    }
}
