//! What the server sends: the answers to commands, by their grammar.

use super::reply::{ColumnCount, PreparedHead, Reply, after_columns, prepared_columns};
use super::session::{Infile, Session, Stage};
use super::{ClosedBecause, LostBecause, Side};
use crate::capability::Capabilities;
use crate::command::Command;
use crate::packet::{Framer, HEADER, Head, MAX_PIECE};
use crate::response::{Eof, OkPacket, error_code};
use crate::status::Status;

/// The code of a MariaDB progress report, which looks like an error packet.
const PROGRESS: u16 = 0xffff;

/// An EOF packet is shorter than this; a longer packet with its first byte is a row.
const EOF_BELOW: u32 = 9;

/// The length of an EOF packet with its two fields; an OK packet is longer.
const EOF_LENGTH: u32 = 5;

impl Session {
    #[inline]
    pub(super) fn server_head(&mut self, mut head: Head<'_>) {
        // Read no more than a split stream would show, so that the split makes no difference.
        head.prefix = &head.prefix[..head.prefix.len().min(Framer::PREFIX)];
        match self.stage {
            Stage::Commands => self.answer(head),
            Stage::Greeting => self.greeting(head),
            Stage::Login => match error_code(head.prefix) {
                Some(code) => self.stop(Stage::Closing(ClosedBecause::Refused(code))),
                None => self.unexpected(Side::Server, head),
            },
            Stage::Proofs => self.proof_from_server(head),
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
            self.answered.rows += 1;
        }
    }

    pub(super) fn server_tail(&mut self, sequence: u8) {
        self.next_sequence = sequence.wrapping_add(1);
    }

    fn answer(&mut self, head: Head<'_>) {
        if self.queue.is_empty() {
            return match error_code(head.prefix) {
                Some(code) => self.stop(Stage::Closing(ClosedBecause::ServerLeft(code))),
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
            Some(Reply::Rows) if !ends => self.answered.rows += 1,
            Some(Reply::Fields) if !ends => {}
            Some(Reply::Rows | Reply::Fields) => self.end(head),
            Some(Reply::Columns(_)) if ends => self.unexpected(Side::Server, head),
            Some(Reply::Columns(1)) => self.reply = Some(after_columns(self.capabilities)),
            Some(Reply::Columns(left)) => self.reply = Some(Reply::Columns(left - 1)),
            Some(Reply::ColumnsEnd) if ends => self.columns_end(head),
            Some(Reply::Result) => self.result(head, first, ends),
            Some(Reply::Prepared) => self.prepared(head),
            Some(
                Reply::PreparedParameters(..)
                | Reply::PreparedParametersEnd(_)
                | Reply::PreparedColumns(_)
                | Reply::PreparedColumnsEnd
                | Reply::PreparedEnds,
            ) => self.prepared_definition(head, deprecate_eof, ends),
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
            self.answered.affected = self.answered.affected.saturating_add(ok.affected_rows);
            ok.status
        };
        self.end_with(status);
    }

    fn end_with(&mut self, status: Status) {
        let Some(pending) = self.queue.front() else { return };
        let (command, statement) = (pending.command, self.resolve(pending.statement));
        match command {
            Command::StmtExecute if status.contains(Status::CURSOR_EXISTS) => {
                self.left.cursors.add(statement);
            }
            Command::StmtExecute => self.left.cursors.remove(statement),
            Command::StmtFetch if status.contains(Status::LAST_ROW_SENT) => {
                self.left.cursors.remove(statement);
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

    /// The statement that an id means: all ones is the one prepared last (MariaDB).
    fn resolve(&self, statement: u32) -> u32 {
        if statement == u32::MAX { self.left.last_prepared } else { statement }
    }

    fn executed(&mut self, statement: u32) {
        let makes_stale = !self.left.asking.contains(statement);
        if let Some(pending) = self.queue.front_mut() {
            pending.effect.makes_stale = makes_stale;
        }
    }

    /// The EOF packet after column definitions. When a cursor was opened it is the last of the answer: rows are fetched.
    fn columns_end(&mut self, head: Head<'_>) {
        let Ok(eof) = Eof::parse(head.prefix) else {
            return self.lose(LostBecause::Malformed { packet: "EOF" });
        };
        if eof.status.contains(Status::CURSOR_EXISTS) {
            self.take_status(eof.status);
            self.end_with(eof.status);
        } else {
            // MySQL says only here that a result follows the one with OUT parameters; the end of its rows lacks the flag.
            self.more_after_rows =
                eof.status.contains(Status::PS_OUT_PARAMS.union(Status::MORE_RESULTS_EXISTS));
            self.reply = Some(Reply::Rows);
        }
    }

    fn prepared(&mut self, head: Head<'_>) {
        let Some(prepared) = PreparedHead::parse(head.prefix, self.capabilities) else {
            return self.lose(LostBecause::Malformed { packet: "prepared statement" });
        };
        self.left.prepared = self.left.prepared.saturating_add(1);
        self.left.last_prepared = prepared.statement;
        self.left.last_parameters = prepared.parameters;
        if self.queue.front().is_some_and(|pending| pending.asks_back) {
            self.left.asking.add(prepared.statement);
        }
        self.prepared_goes_on(prepared.then(self.capabilities));
    }

    fn prepared_definition(&mut self, head: Head<'_>, deprecate_eof: bool, ends: bool) {
        let next = match self.reply {
            Some(Reply::PreparedParametersEnd(columns)) if ends => prepared_columns(columns),
            Some(Reply::PreparedEnds) if ends => Some(Reply::PreparedColumnsEnd),
            Some(Reply::PreparedColumnsEnd) if ends => None,
            Some(Reply::PreparedParameters(1, columns)) if deprecate_eof => prepared_columns(columns),
            Some(Reply::PreparedParameters(1, columns)) => Some(Reply::PreparedParametersEnd(columns)),
            Some(Reply::PreparedParameters(left, columns)) => {
                Some(Reply::PreparedParameters(left - 1, columns))
            }
            Some(Reply::PreparedColumns(1)) if deprecate_eof => None,
            Some(Reply::PreparedColumns(1)) => Some(Reply::PreparedColumnsEnd),
            Some(Reply::PreparedColumns(left)) => Some(Reply::PreparedColumns(left - 1)),
            _ => return self.unexpected(Side::Server, head),
        };
        self.prepared_goes_on(next);
    }

    fn prepared_goes_on(&mut self, next: Option<Reply>) {
        match next {
            Some(reply) => self.reply = Some(reply),
            None => self.finish(false),
        }
    }

    /// An error ends the answer, wherever it comes, all further results included.
    fn error(&mut self, head: Head<'_>) {
        self.answered.error = error_code(head.prefix).unwrap_or_default();
        // Errors are taken with any sequence id; what follows counts on from theirs, whether they came whole or in pieces.
        self.next_sequence = head.sequence.wrapping_add(1);
        self.more_after_rows = false;
        if self.infile == Infile::Wanted {
            self.infile = Infile::Abandoned;
        }
        self.finish(true);
    }
}
