//! Follows one session through the bytes that a relay passes on.
//!
//! The relay feeds [`Tracker::client_bytes`] and [`Tracker::server_bytes`] with exactly what it relays, in
//! the order in which it does so, in chunks of any size. The tracker then knows the session's phase, whether
//! it is idle (the only moment at which it may be moved or closed), whether a transaction is open, and what
//! state it would lose ([`Sticky`]).
//!
//! How it works: [`Framer`]s cut both directions into packets. Every client packet with sequence id 0
//! is a command, and joins a queue of commands not yet answered (clients may send ahead). The server answers
//! in order; `Reply` says what it may send next for the command in front: this is the grammar of the
//! protocol, and needs of every packet the length, the sequence id and the first byte. Rows are skipped by
//! arithmetic. Nothing is allocated for a command on the steady path.
//!
//! Where the protocol goes on in a form that cannot be read (TLS, compression) the tracker says
//! [`Phase::Opaque`] and stays there. When the bytes make no sense it says [`Phase::Lost`] and stays there: a
//! wrong idea of a session's state would be worse than none. In both it costs nothing more.
//!
//! Whoever wants to know more of each command than the counts of [`Progress`] passes an [`Observer`] with the
//! bytes. Without one (`()` sees nothing) none of it is compiled in.
//!
//! Worked example, a point select: the client sends `COM_QUERY` (seq 0): queue 1, [`Progress::started`] 1,
//! phase busy. The server sends a column count (seq 1: [`Progress::answering`] 1), a definition (2), a row
//! (3) and the end of rows (4): [`Progress::completed`] 1, the queue is empty, the status flags of the last
//! packet are the session's, phase idle.

mod body;
mod names;
mod observer;
mod pending;
mod phase;
mod reply;
mod session;
mod state;
mod sticky;
mod why;

use crate::command::Command;
use crate::packet::{Framer, HEADER, Head, Piece};
pub use crate::side::Side;
use crate::status::Status;
pub use observer::{Event, Finish, Observer, Start};
pub use phase::{Phase, Progress};
use session::Session;
use sql::{Sticky, Verb};
pub use why::{ClosedBecause, LostBecause, OpaqueBecause};

/// Follows one session; see the module's text.
#[derive(Debug, Default)]
pub struct Tracker {
    client: Framer,
    server: Framer,
    session: Session,
    answer_bytes: AnswerBytes,
}

/// Bytes that came from the server, kept only while somebody observes.
#[derive(Debug, Default)]
struct AnswerBytes {
    /// So far.
    position: u64,
    /// That at the start of this answer, or the end of the last one.
    from: u64,
}

impl Tracker {
    /// A tracker at the start of a connection, before the server's greeting.
    pub fn new() -> Self {
        Self::default()
    }

    /// These bytes go from the client to the server.
    pub fn client_bytes(&mut self, bytes: &[u8]) {
        self.client_bytes_with(bytes, &mut ());
    }

    /// These bytes go from the client to the server; `observer` sees which commands they hold.
    pub fn client_bytes_with<O: Observer>(&mut self, bytes: &[u8], observer: &mut O) {
        let mut rest = bytes;
        while self.session.is_readable() {
            let Some(piece) = self.client.next(&mut rest) else { break };
            match piece {
                Piece::Head(head) => client_head(&mut self.session, &mut self.answer_bytes, head, observer),
                Piece::Body(more) => {
                    if O::OBSERVES && self.session.receives_command() {
                        observer.event(Event::Body(more));
                    }
                    self.session.client_body(more);
                }
                Piece::Tail { sequence } => {
                    if O::OBSERVES && self.session.receives_command() {
                        observer.event(Event::BodyEnd);
                    }
                    self.session.client_tail(sequence);
                }
                Piece::Broken { expected, got } => self.session.broken(Side::Client, expected, got),
            }
        }
        // A piece of the client's file, or of its login, begins no command.
        if O::OBSERVES && self.client.is_before_head() && self.session.expects_command() {
            observer.event(Event::Packet);
        }
    }

    /// These bytes go from the server to the client.
    pub fn server_bytes(&mut self, bytes: &[u8]) {
        self.server_bytes_with(bytes, &mut ());
    }

    /// These bytes go from the server to the client; `observer` sees which commands they answer.
    pub fn server_bytes_with<O: Observer>(&mut self, bytes: &[u8], observer: &mut O) {
        let mut rest = bytes;
        let before = self.answer_bytes.position;
        while self.session.is_readable() {
            if self.server.is_between() {
                self.session.skip_rows(&mut rest);
            }
            let Some(piece) = self.server.next(&mut rest) else { break };
            if O::OBSERVES {
                self.answer_bytes.position = before + (bytes.len() - rest.len()) as u64;
            }
            match piece {
                Piece::Head(head) => server_head(&mut self.session, &mut self.answer_bytes, head, observer),
                Piece::Body(_) => {}
                Piece::Tail { sequence } => self.session.server_tail(sequence),
                Piece::Broken { expected, got } => self.session.broken(Side::Server, expected, got),
            }
        }
        if self.server.is_before_head() && !bytes.is_empty() {
            // Even a part of a header begins an answer.
            let before = self.session.progress().answering;
            self.session.answer_begins();
            if O::OBSERVES && self.session.progress().answering != before {
                observer.event(Event::Answer);
            }
        }
        if O::OBSERVES {
            self.answer_bytes.position = before + bytes.len() as u64;
        }
    }

    /// Where the session stands.
    pub fn phase(&self) -> Phase {
        self.session.phase()
    }

    /// Is the session logged in, every command answered, and no packet under way in either direction? Only
    /// then may it be closed or moved without cutting a statement. What it would lose then,
    /// [`Tracker::in_transaction`] and [`Tracker::sticky`] say.
    pub fn is_idle(&self) -> bool {
        self.phase() == Phase::Idle && self.client.is_between() && self.server.is_between()
    }

    /// Is a transaction open, by the server's last word? With `autocommit` off also after an error, which
    /// carries no status, and in any case after one of a stored procedure, a compound statement or an
    /// `EXECUTE`. While a command is outstanding this is the state before it.
    pub fn in_transaction(&self) -> bool {
        self.session.in_transaction()
    }

    /// The state that would be lost if the session were closed now.
    pub fn sticky(&self) -> Sticky {
        self.session.sticky()
    }

    /// With which word a prepared statement writes or commits: `INSERT`, `UPDATE`, `DELETE`, `REPLACE` or
    /// `COMMIT`. `None` when it does neither, or that is not known (too many in one session).
    pub fn prepared_write(&self, statement: u32) -> Option<Verb> {
        self.session.prepared_write(statement)
    }

    /// How many commands have come, are being answered, are done.
    pub fn progress(&self) -> Progress {
        self.session.progress()
    }

    /// Commands answered whole: [`Progress::completed`].
    pub fn commands_completed(&self) -> u64 {
        self.session.progress().completed
    }

    /// The command that the server is answering or will answer next.
    pub fn command(&self) -> Option<Command> {
        self.session.command()
    }

    /// Has a `COM_CHANGE_USER` come whole, and is its answer due? What follows is a login again.
    pub fn changes_user(&self) -> bool {
        self.client.is_between() && self.session.command() == Some(Command::ChangeUser)
    }

    /// Is a `COM_CHANGE_USER` under way behind other commands, or is another coming in pieces behind it? Then
    /// [`Tracker::changes_user`] may tell of it only after its answer has begun.
    pub fn changes_user_among_others(&self) -> bool {
        self.session.changes_user_among_others() && !self.changes_user()
    }

    /// The name the client logged in with, at most 256 bytes; `None` before the login.
    pub fn user(&self) -> Option<&str> {
        self.session.user()
    }

    /// The default database as far as it is known, at most 256 bytes.
    pub fn database(&self) -> Option<&str> {
        self.session.database()
    }

    /// The flags of the session: what both sides can do. Empty before the login.
    pub fn capabilities(&self) -> crate::Capabilities {
        self.session.capabilities()
    }

    /// Does the server speak MariaDB's dialect, by its greeting?
    pub fn is_mariadb(&self) -> bool {
        self.session.is_mariadb()
    }

    /// The status flags that the server sent last.
    pub fn status(&self) -> Status {
        self.session.status()
    }

    /// The sequence id that the server's next packet would carry if it answered now. For an ERR packet of our
    /// own to a client whose command was not relayed.
    pub fn next_sequence(&self) -> u8 {
        self.session.next_sequence()
    }
}

/// Lets the session read a client's packet, and tells whether it is a command.
#[inline]
fn client_head<O: Observer>(
    session: &mut Session,
    answer_bytes: &mut AnswerBytes,
    head: Head<'_>,
    observer: &mut O,
) {
    if !O::OBSERVES {
        return session.client_head(head);
    }
    let before = session.progress().started;
    let (commands, first) = (session.expects_command(), head.prefix.first().copied());
    session.client_head(head);
    let start = Start {
        command: Command::from_byte(first.unwrap_or(0)),
        body: head.prefix.get(1..).unwrap_or_default(),
        whole: head.whole,
        attributes: session.has_query_attributes(),
        bytes: u64::from(head.length) + HEADER as u64,
    };
    if session.progress().started != before {
        if before == session.progress().completed {
            // What came before belongs to no answer: the handshake, the rest of a last packet.
            answer_bytes.from = answer_bytes.position;
        }
        observer.event(Event::Command(start));
    } else if commands && head.sequence == 0 && !start.command.is_answered() {
        observer.event(Event::Command(start));
    }
}

/// Lets the session read a server's packet, and tells what it began and ended.
#[inline]
fn server_head<O: Observer>(
    session: &mut Session,
    answer_bytes: &mut AnswerBytes,
    head: Head<'_>,
    observer: &mut O,
) {
    if !O::OBSERVES {
        return session.server_head(head);
    }
    let before = session.progress();
    let preparing = session.command() == Some(Command::StmtPrepare);
    session.server_head(head);
    let after = session.progress();
    if after.answering != before.answering {
        observer.event(Event::Answer);
    }
    if after.completed != before.completed {
        let failed = after.failed != before.failed;
        let (facts, prepared) = (session.answer_facts(), session.last_prepared());
        let prepared = (preparing && !failed).then_some(prepared);
        let finish = Finish {
            error: failed.then_some(facts.error),
            rows: facts.rows,
            affected: facts.affected,
            bytes: answer_bytes.position - answer_bytes.from,
            prepared: prepared.map(|(statement, _)| statement),
            parameters: prepared.map_or(0, |(_, parameters)| parameters),
        };
        answer_bytes.from = answer_bytes.position;
        observer.event(Event::AnswerEnd(finish));
    }
}
