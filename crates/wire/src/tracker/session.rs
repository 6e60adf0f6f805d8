//! The state of a session: what each packet of either side means in it, and what may be asked of it.

use super::body::{becomes, statement_id, text_behind_attributes};
use super::names::{Identity, name};
use super::pending::{Becomes, Effect, Pending, Queue};
use super::phase::{Phase, Progress};
use super::reply::{ColumnCount, PreparedHead, Reply, Unexpected, after_columns};
use super::state::{Infile, Receiving, SessionState};
use super::sticky::StickyState;
use super::why::{ClosedBecause, LostBecause, OpaqueBecause};
use crate::capability::Capabilities;
use crate::command::Command;
use crate::error::WireError;
use crate::greeting::{Flavour, Greeting};
use crate::login::{Login, opening};
use crate::packet::{Framer, HEADER, Head, MAX_PIECE};
use crate::response::{Eof, OkPacket, SessionChange, error_code};
use crate::side::Side;
use crate::status::Status;
use sql::{Findings, Scanner, Sticky, Verb, used_database};

/// The code of a MariaDB progress report, which looks like an error packet.
const PROGRESS: u16 = 0xffff;

/// An EOF packet is shorter than this; a longer packet with its first byte is a row.
const EOF_BELOW: u32 = 9;

/// The length of an EOF packet with its two fields; an OK packet is longer.
const EOF_LENGTH: u32 = 5;

#[derive(Debug, Default)]
pub(super) struct Session {
    state: SessionState,
    /// What the server offers, then what both sides have.
    offered: Capabilities,
    capabilities: Capabilities,
    status: Status,
    /// An error came while `autocommit` was off, or from several statements: a transaction may have begun.
    transaction_unknown: bool,
    /// The sequence id that the next packet carries, whoever sends it.
    next_sequence: u8,
    queue: Queue,
    /// What the server may send next for the command in front of the queue.
    reply: Option<Reply>,
    /// Another result follows whatever the end of the rows says.
    more_after_rows: bool,
    infile: Infile,
    receiving: Receiving,
    /// The walk over the text of the command that is coming in pieces.
    scanner: Option<Scanner>,
    progress: Progress,
    identity: Identity,
    sticky: StickyState,
    answer: AnswerFacts,
    /// The server greeted as MariaDB.
    mariadb: bool,
}

/// What was read of the answer under way, or of the last one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnswerFacts {
    pub(super) rows: u64,
    pub(super) affected: u64,
    pub(super) error: u16,
}

impl Session {
    pub(super) fn phase(&self) -> Phase {
        match self.state {
            SessionState::Greeting => Phase::Greeting,
            SessionState::Login => Phase::Login,
            SessionState::Proofs => Phase::Authenticating,
            SessionState::Commands if self.infile == Infile::Wanted => Phase::Infile,
            SessionState::Commands if self.queue.is_empty() && self.infile == Infile::None => Phase::Idle,
            SessionState::Commands => Phase::Busy,
            SessionState::Streaming => Phase::Streaming,
            SessionState::Closing(because) => Phase::Closing(because),
            SessionState::Opaque(because) => Phase::Opaque(because),
            SessionState::Lost(because) => Phase::Lost(because),
        }
    }

    #[inline]
    pub(super) fn is_readable(&self) -> bool {
        !matches!(
            self.state,
            SessionState::Streaming
                | SessionState::Closing(_)
                | SessionState::Opaque(_)
                | SessionState::Lost(_)
        )
    }

    pub(super) fn in_transaction(&self) -> bool {
        self.status.in_transaction() || self.transaction_unknown
    }

    pub(super) fn sticky(&self) -> Sticky {
        self.sticky.sticky()
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress
    }

    pub(super) fn command(&self) -> Option<Command> {
        self.queue.front().map(|pending| pending.command)
    }

    /// Is a change of user one of several commands that are not answered, or has it come whole?
    pub(super) fn changes_user_among_others(&self) -> bool {
        let others = self.queue.len() > 1 || !self.receives_command();
        others && self.queue.iter().any(|pending| pending.command == Command::ChangeUser)
    }

    pub(super) fn user(&self) -> Option<&str> {
        self.identity.user.as_deref()
    }

    pub(super) fn database(&self) -> Option<&str> {
        self.identity.database.as_deref()
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    pub(super) fn next_sequence(&self) -> u8 {
        match self.queue.front() {
            Some(pending) if !pending.begun => pending.answer_sequence,
            _ => self.next_sequence,
        }
    }

    /// Would a client's packet with sequence id 0 be a command?
    pub(super) fn expects_command(&self) -> bool {
        self.state == SessionState::Commands && self.infile == Infile::None
    }

    /// Is a command coming in pieces?
    pub(super) fn receives_command(&self) -> bool {
        self.receiving != Receiving::Nothing
    }

    pub(super) fn is_mariadb(&self) -> bool {
        self.mariadb
    }

    pub(super) fn status(&self) -> Status {
        self.status
    }

    /// Facts of the answer that was read last.
    pub(super) fn answer_facts(&self) -> AnswerFacts {
        self.answer
    }

    /// The statement prepared last and how many parameters it has.
    pub(super) fn last_prepared(&self) -> (u32, u16) {
        self.sticky.last_prepared()
    }

    /// With which word a prepared statement writes or commits; `None` when it does neither, or is not known.
    pub(super) fn prepared_write(&self, statement: u32) -> Option<Verb> {
        self.sticky.prepared_write(statement)
    }

    pub(super) fn has_query_attributes(&self) -> bool {
        self.capabilities.contains(Capabilities::QUERY_ATTRIBUTES)
    }

    #[inline]
    pub(super) fn client_head(&mut self, head: Head<'_>) {
        match self.state {
            SessionState::Commands if head.sequence == 0 && self.infile == Infile::None => {
                self.command_head(head);
            }
            SessionState::Commands => self.continued(head),
            SessionState::Login => self.login(head),
            SessionState::Proofs => self.proof_from_client(head),
            SessionState::Greeting => self.unexpected(Side::Client, head),
            _ => {}
        }
    }

    pub(super) fn client_body(&mut self, more: &[u8]) {
        if let Some(scanner) = &mut self.scanner {
            scanner.feed(more);
        }
    }

    pub(super) fn client_tail(&mut self, sequence: u8) {
        match std::mem::take(&mut self.receiving) {
            Receiving::Nothing => self.next_sequence = sequence.wrapping_add(1),
            // It concerns no answer.
            Receiving::Silent => {}
            Receiving::Command(number) => self.command_tail(number, sequence),
        }
    }

    fn command_tail(&mut self, number: u64, sequence: u8) {
        if let Some(pending) = self.queue.newest(number) {
            pending.answer_sequence = sequence.wrapping_add(1);
        }
        if let Some(mut scanner) = self.scanner.take() {
            let findings = scanner.finish();
            self.found(number, findings, None);
        }
    }

    #[inline]
    pub(super) fn server_head(&mut self, mut head: Head<'_>) {
        // Read no more than a split stream would show, so that the split makes no difference.
        head.prefix = &head.prefix[..head.prefix.len().min(Framer::PREFIX)];
        match self.state {
            SessionState::Commands => self.answer_head(head),
            SessionState::Greeting => self.greeting(head),
            SessionState::Login => match error_code(head.prefix) {
                Some(code) => self.stop(SessionState::Closing(ClosedBecause::Refused(code))),
                None => self.unexpected(Side::Server, head),
            },
            SessionState::Proofs => self.proof_from_server(head),
            _ => {}
        }
    }

    /// Skips rows that lie whole in `bytes`: what the general way does with them, without its detours.
    #[inline]
    pub(super) fn skip_rows(&mut self, bytes: &mut &[u8]) {
        if self.reply != Some(Reply::Rows) {
            return;
        }
        while let [a, b, c, sequence, first, ..] = **bytes {
            let length = u32::from_le_bytes([a, b, c, 0]) as usize;
            let plain = (1..MAX_PIECE).contains(&length) && first < 0xfe && sequence == self.next_sequence;
            let Some(rest) = bytes.get(HEADER + length..).filter(|_| plain) else { return };
            *bytes = rest;
            self.next_sequence = sequence.wrapping_add(1);
            self.answer.rows += 1;
        }
    }

    pub(super) fn server_tail(&mut self, sequence: u8) {
        self.next_sequence = sequence.wrapping_add(1);
    }

    /// The first byte of an answer has come.
    #[inline]
    pub(super) fn answer_begins(&mut self) {
        if let Some(pending) = self.queue.front_mut().filter(|pending| !pending.begun) {
            pending.begun = true;
            self.reply = Some(Reply::to(pending.command));
            self.next_sequence = pending.answer_sequence;
            self.progress.answering += 1;
            (self.answer.rows, self.answer.affected) = (0, 0);
        }
    }

    pub(super) fn broken(&mut self, side: Side, expected: u8, got: u8) {
        self.lose(LostBecause::OutOfSequence { side, expected, got });
    }

    fn greeting(&mut self, head: Head<'_>) {
        if let Some(code) = error_code(head.prefix) {
            return self.stop(SessionState::Closing(ClosedBecause::Refused(code)));
        }
        match Greeting::parse(head.prefix) {
            Ok(greeting) => {
                self.offered = greeting.capabilities;
                self.status = greeting.status;
                self.mariadb = greeting.flavour() == Flavour::MariaDb;
                self.next_sequence = head.sequence.wrapping_add(1);
                self.state = SessionState::Login;
            }
            Err(WireError::TooOld) => self.stop(SessionState::Opaque(OpaqueBecause::OldProtocol)),
            Err(_) => self.lose(LostBecause::Malformed { packet: "greeting" }),
        }
    }

    fn login(&mut self, head: Head<'_>) {
        if !self.in_sequence(Side::Client, head) {
            return;
        }
        match opening(head.prefix) {
            None => return self.stop(SessionState::Opaque(OpaqueBecause::OldProtocol)),
            Some((_, true)) => return self.stop(SessionState::Opaque(OpaqueBecause::Tls)),
            Some((_, false)) => {}
        }
        let Ok(login) = Login::parse(head.prefix) else {
            return self.lose(LostBecause::Malformed { packet: "login" });
        };
        self.capabilities = login.capabilities & self.offered;
        self.identity = Identity { user: name(login.user), database: name(login.database) };
        self.state = SessionState::Proofs;
    }

    /// A packet of either side while proofs are exchanged: only the server's OK and ERR mean something to us.
    fn proof_from_client(&mut self, head: Head<'_>) {
        self.in_sequence(Side::Client, head);
    }

    fn proof_from_server(&mut self, head: Head<'_>) {
        if let Some(code) = error_code(head.prefix) {
            return self.stop(SessionState::Closing(ClosedBecause::Refused(code)));
        }
        if !self.in_sequence(Side::Server, head) || head.prefix.first() != Some(&0) {
            return;
        }
        let Ok(ok) = OkPacket::parse(head.prefix, self.capabilities) else {
            return self.lose(LostBecause::Malformed { packet: "OK" });
        };
        self.take_ok(&ok);
        if self.capabilities.intersects(Capabilities::COMPRESSION) {
            return self.stop(SessionState::Opaque(OpaqueBecause::Compression));
        }
        self.state = SessionState::Commands;
    }

    /// A packet that is no command: a piece of a file, or a proof for `COM_CHANGE_USER`.
    fn continued(&mut self, head: Head<'_>) {
        match self.infile {
            Infile::Wanted => {
                if self.in_sequence(Side::Client, head) && head.length == 0 {
                    self.infile = Infile::None;
                    self.reply = Some(Reply::InfileEnd);
                }
            }
            Infile::Abandoned if head.length == 0 => self.infile = Infile::None,
            Infile::Abandoned => {}
            Infile::None if self.reply == Some(Reply::Proofs) => {
                self.in_sequence(Side::Client, head);
            }
            Infile::None => self.broken(Side::Client, 0, head.sequence),
        }
    }

    fn command_head(&mut self, head: Head<'_>) {
        // Servers read an empty packet as COM_SLEEP, and answer it with an error.
        let (byte, body) = head.prefix.split_first().map_or((0, &[][..]), |(first, rest)| (*first, rest));
        let command = Command::from_byte(byte);
        if command.is_stream() {
            return self.stop(SessionState::Streaming);
        }
        match command {
            Command::Quit => self.stop(SessionState::Closing(ClosedBecause::ClientQuit)),
            Command::StmtClose => self.sticky.close(statement_id(body)),
            _ if !command.is_answered() => {}
            _ => self.push(command, head, body),
        }
        if !head.whole && !command.is_answered() {
            self.receiving = Receiving::Silent;
        }
    }

    fn push(&mut self, command: Command, head: Head<'_>, body: &[u8]) {
        let number = self.progress.started;
        self.progress.started += 1;
        let pending = Pending {
            command,
            number,
            answer_sequence: head.sequence.wrapping_add(1),
            statement: statement_id(body),
            effect: Effect::default(),
            leaves: Sticky::empty(),
            prepares: 0,
            becomes: becomes(command, body, self.capabilities),
            begun: false,
            asks_back: false,
            verb: Verb::None,
            gave_insert_id: false,
        };
        if let Err(limit) = self.queue.push(pending) {
            return self.lose(LostBecause::TooManyCommands { limit });
        }
        self.receiving = if head.whole { Receiving::Nothing } else { Receiving::Command(number) };
        if matches!(command, Command::Query | Command::StmtPrepare) {
            self.statement_head(number, command, body, head.whole);
        }
    }

    /// The text of a statement, or the start of it.
    fn statement_head(&mut self, number: u64, command: Command, body: &[u8], whole: bool) {
        let plain_backslash = self.status.contains(Status::NO_BACKSLASH_ESCAPES);
        let attributes = self.capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        // Attributes are looked for where a split stream shows them too, so that the split makes no
        // difference.
        let shown = &body[..body.len().min(Framer::PREFIX - 1)];
        let after_attributes =
            if attributes && command == Command::Query { text_behind_attributes(shown) } else { Some(0) };
        let (mut scanner, text) = match after_attributes {
            Some(start) => (Scanner::new(plain_backslash), &body[start..]),
            None => (Scanner::wary(plain_backslash), body),
        };
        scanner.feed(text);
        if whole {
            let findings = scanner.finish();
            self.found(number, findings, Some(text));
        } else {
            self.scanner = Some(scanner);
        }
    }

    /// A statement's text has come whole, with these findings; `text` when it is at hand.
    fn found(&mut self, number: u64, findings: Findings, text: Option<&[u8]>) {
        self.sticky.add(findings.leaves, findings.prepares);
        let Some(pending) = self.queue.newest(number) else { return };
        (pending.leaves, pending.prepares) = (findings.leaves, findings.prepares);
        pending.verb = findings.verb;
        if pending.command == Command::StmtPrepare {
            pending.asks_back = findings.asks_back;
            return;
        }
        pending.effect = Effect {
            ends: findings.ends,
            deallocates: findings.deallocates,
            makes_stale: findings.verb.is_data() && !findings.asks_back,
        };
        if findings.verb == Verb::Use && findings.statements == 1 {
            let database = text.and_then(used_database);
            pending.becomes = database.map(|database| Becomes::Database(name(database)));
        }
    }

    fn answer_head(&mut self, head: Head<'_>) {
        if self.queue.is_empty() {
            return match error_code(head.prefix) {
                Some(code) => self.stop(SessionState::Closing(ClosedBecause::ServerLeft(code))),
                None => self.unexpected(Side::Server, head),
            };
        }
        self.answer_begins();
        let first = head.prefix.first().copied();
        if first == Some(0xff) && error_code(head.prefix) != Some(PROGRESS) {
            return self.error(head);
        }
        if !self.in_sequence(Side::Server, head) || first == Some(0xff) {
            return;
        }
        let deprecate_eof = self.capabilities.contains(Capabilities::DEPRECATE_EOF);
        let ends = first == Some(0xfe)
            && if deprecate_eof { head.length < MAX_PIECE as u32 } else { head.length < EOF_BELOW };
        match self.reply {
            Some(Reply::Rows) if !ends => self.answer.rows += 1,
            Some(Reply::Fields) if !ends => {}
            Some(Reply::Rows | Reply::Fields) => self.end(head),
            Some(Reply::Columns(_)) if ends => self.unexpected(Side::Server, head),
            Some(Reply::Columns(1)) => self.reply = Some(after_columns(self.capabilities)),
            Some(Reply::Columns(left)) => self.reply = Some(Reply::Columns(left - 1)),
            Some(Reply::ColumnsEnd) if ends => self.columns_end(head),
            Some(Reply::Result) => self.result(head, first, ends),
            Some(Reply::Prepared) => self.prepared(head),
            Some(
                reply @ (Reply::PreparedParameters(..)
                | Reply::PreparedParametersEnd(_)
                | Reply::PreparedColumns(_)
                | Reply::PreparedColumnsEnd
                | Reply::PreparedEnds),
            ) => match reply.after_definition(deprecate_eof, ends) {
                Ok(next) => self.prepared_goes_on(next),
                Err(Unexpected) => self.unexpected(Side::Server, head),
            },
            Some(Reply::InfileEnd | Reply::Simple) if first == Some(0) || ends => self.end(head),
            Some(Reply::Anything) => self.finish(false),
            Some(Reply::Proofs) if first == Some(0) => self.end(head),
            Some(Reply::Proofs) => {}
            _ => self.unexpected(Side::Server, head),
        }
    }

    fn result(&mut self, head: Head<'_>, first: Option<u8>, ends: bool) {
        match first {
            Some(0) => self.end(head),
            _ if ends => self.end(head),
            // What the client sent ahead would be taken for the file.
            Some(0xfb) if self.queue.len() == 1 => self.infile = Infile::Wanted,
            Some(0xfb) => self.unexpected(Side::Server, head),
            _ => match ColumnCount::parse(head.prefix, self.capabilities) {
                Some(count) => self.reply = Some(count.then(self.capabilities)),
                None => self.lose(LostBecause::Malformed { packet: "column count" }),
            },
        }
    }

    /// An OK or EOF packet that ends a result.
    fn end(&mut self, head: Head<'_>) {
        let status = if head.prefix.first() == Some(&0xfe) && head.length <= EOF_LENGTH {
            let Ok(eof) = Eof::parse(head.prefix) else {
                return self.lose(LostBecause::Malformed { packet: "EOF" });
            };
            self.take_status(eof.status);
            eof.status
        } else {
            let Ok(ok) = OkPacket::parse(head.prefix, self.capabilities) else {
                return self.lose(LostBecause::Malformed { packet: "OK" });
            };
            self.take_ok(&ok);
            self.answer.affected = self.answer.affected.saturating_add(ok.affected_rows);
            ok.status
        };
        self.end_with(status);
    }

    fn end_with(&mut self, status: Status) {
        let Some(pending) = self.queue.front() else { return };
        let (command, statement) = (pending.command, self.sticky.resolve(pending.statement));
        match command {
            Command::StmtExecute if status.contains(Status::CURSOR_EXISTS) => {
                self.sticky.open_cursor(statement);
            }
            Command::StmtExecute => self.sticky.close_cursor(statement),
            Command::StmtFetch if status.contains(Status::LAST_ROW_SENT) => {
                self.sticky.close_cursor(statement);
            }
            _ => {}
        }
        let announced = std::mem::take(&mut self.more_after_rows);
        let more = announced || status.contains(Status::MORE_RESULTS_EXISTS);
        if Reply::to(command) == Reply::Result && more {
            self.reply = Some(Reply::Result);
        } else {
            if matches!(command, Command::StmtExecute | Command::StmtBulkExecute) {
                self.executed(statement);
            }
            self.finish(false);
        }
    }

    fn executed(&mut self, statement: u32) {
        let makes_stale = !self.sticky.asks_back(statement);
        if let Some(pending) = self.queue.front_mut() {
            pending.effect.makes_stale = makes_stale;
        }
    }

    /// The EOF packet after column definitions. When a cursor was opened it is the last of the answer: rows
    /// are fetched.
    fn columns_end(&mut self, head: Head<'_>) {
        let Ok(eof) = Eof::parse(head.prefix) else {
            return self.lose(LostBecause::Malformed { packet: "EOF" });
        };
        if eof.status.contains(Status::CURSOR_EXISTS) {
            self.take_status(eof.status);
            self.end_with(eof.status);
        } else {
            // MySQL says only here that a result follows the one with OUT parameters; the end of its rows
            // lacks the flag.
            self.more_after_rows =
                eof.status.contains(Status::PS_OUT_PARAMS.union(Status::MORE_RESULTS_EXISTS));
            self.reply = Some(Reply::Rows);
        }
    }

    fn prepared(&mut self, head: Head<'_>) {
        let Some(prepared) = PreparedHead::parse(head.prefix, self.capabilities) else {
            return self.lose(LostBecause::Malformed { packet: "prepared statement" });
        };
        let asks_back = self.queue.front().is_some_and(|pending| pending.asks_back);
        let verb = self.queue.front().map(|pending| pending.verb).unwrap_or_default();
        self.sticky.prepare(prepared.statement, prepared.parameters, asks_back, verb);
        self.prepared_goes_on(prepared.then(self.capabilities));
    }

    fn prepared_goes_on(&mut self, next: Option<Reply>) {
        match next {
            Some(reply) => self.reply = Some(reply),
            None => self.finish(false),
        }
    }

    /// An error ends the answer, wherever it comes, all further results included.
    fn error(&mut self, head: Head<'_>) {
        self.answer.error = error_code(head.prefix).unwrap_or_default();
        // Errors are taken with any sequence id; what follows counts on from theirs, whether they came whole
        // or in pieces.
        self.next_sequence = head.sequence.wrapping_add(1);
        self.more_after_rows = false;
        if self.infile == Infile::Wanted {
            self.infile = Infile::Abandoned;
        }
        self.finish(true);
    }

    /// The command in front is answered.
    fn finish(&mut self, failed: bool) {
        let Some(pending) = self.queue.pop() else { return };
        self.reply = None;
        self.progress.completed += 1;
        if failed {
            self.progress.failed += 1;
            // An error packet has no status flags. Without autocommit the statement may have opened a
            // transaction; a procedure may have done so before the statement in it that failed.
            self.transaction_unknown |=
                !self.status.contains(Status::AUTOCOMMIT) || self.may_have_run_others(&pending);
        } else {
            self.succeed(pending);
        }
    }

    /// May this command have run several statements, of a stored procedure or its own? Of prepared statements
    /// it is not kept which one calls.
    fn may_have_run_others(&self, pending: &Pending) -> bool {
        let leaves = match pending.command {
            Command::Query if pending.verb.may_run_others() => return true,
            Command::Query => pending.leaves,
            Command::StmtExecute | Command::StmtBulkExecute => self.sticky.sticky(),
            _ => return false,
        };
        leaves.contains(Sticky::STORED_PROCEDURE)
    }

    fn succeed(&mut self, pending: Pending) {
        self.sticky.succeed(&pending, self.queue.iter());
        match pending.becomes {
            Some(Becomes::Database(database)) => self.identity.database = database,
            Some(Becomes::Identity(identity)) => self.identity = *identity,
            None => {}
        }
    }

    /// Takes over what an OK packet says of the session.
    fn take_ok(&mut self, ok: &OkPacket<'_>) {
        self.take_status(ok.status);
        if ok.last_insert_id != 0 {
            self.sticky.add(Sticky::LAST_INSERT_ID, 0);
            if let Some(pending) = self.queue.front_mut() {
                pending.gave_insert_id = true;
            }
        }
        for change in ok.changes() {
            if let SessionChange::Database(database) = change {
                self.identity.database = name(database);
            }
        }
    }

    fn take_status(&mut self, status: Status) {
        self.status = status;
        self.transaction_unknown = false;
    }

    fn lose(&mut self, because: LostBecause) {
        self.stop(SessionState::Lost(because));
    }

    fn unexpected(&mut self, side: Side, head: Head<'_>) {
        self.lose(LostBecause::Unexpected { side, first: head.prefix.first().copied().unwrap_or(0) });
    }

    /// Nothing is read from here on; what is not needed any more is freed.
    fn stop(&mut self, state: SessionState) {
        self.state = state;
        self.queue = Queue::default();
        self.scanner = None;
    }

    /// Checks a packet's sequence id against the next, and moves on. False when the session is lost by it.
    #[inline]
    fn in_sequence(&mut self, side: Side, head: Head<'_>) -> bool {
        let expected = self.next_sequence;
        if head.sequence != expected {
            self.broken(side, expected, head.sequence);
            return false;
        }
        self.next_sequence = expected.wrapping_add(1);
        true
    }
}
