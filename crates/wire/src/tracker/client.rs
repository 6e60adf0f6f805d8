//! What the client sends once it is logged in: commands, files, proofs.

use super::names::{Identity, name};
use super::pending::{Becomes, Effect, Pending};
use super::reply::Reply;
use super::session::{Infile, Session, Stage};
use super::{ClosedBecause, LostBecause, Side};
use crate::attributes;
use crate::capability::Capabilities;
use crate::command::Command;
use crate::packet::{Framer, Head};
use crate::read::Reader;
use crate::status::Status;
use sql::{Findings, Scanner, Verb, used_database};

impl Session {
    #[inline]
    pub(super) fn client_head(&mut self, head: Head<'_>) {
        match self.stage {
            Stage::Commands if head.sequence == 0 && self.infile == Infile::None => self.command_head(head),
            Stage::Commands => self.continued(head),
            Stage::Login => self.login(head),
            Stage::Proofs => self.proof_from_client(head),
            Stage::Greeting => self.unexpected(Side::Client, head),
            _ => {}
        }
    }

    pub(super) fn client_body(&mut self, more: &[u8]) {
        if let Some(scanner) = &mut self.scanner {
            scanner.feed(more);
        }
    }

    pub(super) fn client_tail(&mut self, sequence: u8) {
        let Some(number) = self.receiving.take() else {
            self.next_sequence = sequence.wrapping_add(1);
            return;
        };
        if let Some(pending) = self.queue.newest(number) {
            pending.answer_sequence = sequence.wrapping_add(1);
        }
        if let Some(mut scanner) = self.scanner.take() {
            let findings = scanner.finish();
            self.found(number, findings, None);
        }
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
            return self.stop(Stage::Streaming);
        }
        match command {
            Command::Quit => self.stop(Stage::Closing(ClosedBecause::ClientQuit)),
            Command::StmtClose => self.close_statement(statement_id(body)),
            _ if !command.is_answered() => {}
            _ => self.push(command, head, body),
        }
        if !head.whole && !command.is_answered() {
            // Its tail concerns no answer; a number that is never given makes the tail find nothing.
            self.receiving = Some(u64::MAX);
        }
    }

    fn close_statement(&mut self, statement: u32) {
        self.left.prepared = self.left.prepared.saturating_sub(1);
        self.left.cursors.remove(statement);
        self.left.asking.remove(statement);
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
            becomes: self.becomes(command, body),
            begun: false,
            asks_back: false,
            gave_insert_id: false,
        };
        if let Err(limit) = self.queue.push(pending) {
            return self.lose(LostBecause::TooManyCommands { limit });
        }
        self.receiving = (!head.whole).then_some(number);
        if matches!(command, Command::Query | Command::StmtPrepare) {
            self.statement_head(number, command, body, head.whole);
        }
    }

    fn becomes(&self, command: Command, body: &[u8]) -> Option<Becomes> {
        match command {
            Command::InitDb => Some(Becomes::Database(name(body))),
            Command::ChangeUser => {
                let identity = changed_identity(body, self.capabilities).unwrap_or_default();
                Some(Becomes::Identity(Box::new(identity)))
            }
            _ => None,
        }
    }

    /// The text of a statement, or the start of it.
    fn statement_head(&mut self, number: u64, command: Command, body: &[u8], whole: bool) {
        let plain_backslash = self.status.contains(Status::NO_BACKSLASH_ESCAPES);
        let attributes = self.capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        // Attributes are looked for where a split stream shows them too, so that the split makes no difference.
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
        self.left.bits |= findings.leaves;
        self.left.text_prepared = self.left.text_prepared.saturating_add(findings.prepares);
        let Some(pending) = self.queue.newest(number) else { return };
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
}

/// The statement's id at the start of most commands about prepared statements.
fn statement_id(body: &[u8]) -> u32 {
    Reader::new(body).u32().unwrap_or_default()
}

/// The account and database that `COM_CHANGE_USER` asks for.
fn changed_identity(body: &[u8], capabilities: Capabilities) -> Option<Identity> {
    let mut r = Reader::new(body);
    let user = r.until_nul()?;
    if capabilities.contains(Capabilities::SECURE_CONNECTION) {
        let length = r.u8()?;
        r.skip(usize::from(length))?;
    } else {
        r.until_nul()?;
    }
    let database = r.until_nul().unwrap_or(r.rest());
    Some(Identity { user: name(user), database: name(database) })
}

/// Where the text starts behind query attributes. `None` when they do not parse.
fn text_behind_attributes(body: &[u8]) -> Option<usize> {
    attributes::of_query(body).map(|(_, text)| body.len() - text.len())
}
