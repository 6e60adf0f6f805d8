//! The server's answer to one command, read as it arrives: how it ended, and how many rows came. Rows are
//! skipped.
//!
//! The reader is fed with whatever a socket gave and holds no payload, so that a result of any size costs the
//! same memory. Which packet may come next follows from what came before:
//!
//! ```text
//! command ─► OK or ERR                                                      the end, unless more results follow
//!         └► column count ─► definitions ─► (EOF) ─► rows ─► EOF, OK or ERR
//! prepare ─► OK of a prepare ─► parameter definitions ─► (EOF) ─► column definitions ─► (EOF)
//! ```
//! The EOF packets in brackets are left out with `DEPRECATE_EOF`; MariaDB leaves out definitions that we have
//! already seen (`MARIADB_CACHE_METADATA`), which it says in a byte behind the column count.

use wire::packet::{Framer, Head, MAX_PIECE, Piece};
use wire::read::Reader;
use wire::response::{Eof, OkPacket};
use wire::{Capabilities, Status, WireError};

/// How a command ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    /// Rows of all result sets.
    pub(crate) rows: u64,
    /// What AUTO_INCREMENT gave, or 0.
    pub(crate) last_insert_id: u64,
    /// The session's status; unchanged by an error, which has none.
    pub(crate) status: Status,
    /// The number of a prepared statement.
    pub(crate) statement: u32,
    /// The error's number.
    pub(crate) error: Option<u16>,
}

/// Reads one answer after the other.
#[derive(Debug, Default)]
pub(crate) struct ReplyReader {
    framer: Framer,
    capabilities: Capabilities,
    expect: Expect,
    reply: Reply,
    /// The answer ends with the packet whose end is still to come.
    ending: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expect {
    #[default]
    First,
    /// The answer to a prepare.
    Prepared,
    /// A number of definitions, then perhaps an EOF, then others of the same kind or rows.
    Definitions {
        left: u32,
        then: AfterDefinitions,
    },
    /// The EOF behind definitions.
    Eof(AfterDefinitions),
    Rows,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterDefinitions {
    Rows,
    /// Column definitions of a prepared statement.
    Columns(u32),
    End,
}

/// What a packet means for the answer.
enum Step {
    More,
    End,
}

impl ReplyReader {
    /// A reader for a session with these capabilities.
    pub(crate) fn new(capabilities: Capabilities) -> Self {
        Self { capabilities, ..Self::default() }
    }

    /// Whether definitions are followed by rows at once.
    pub(crate) fn leaves_out_eof(&self) -> bool {
        self.capabilities.contains(Capabilities::DEPRECATE_EOF)
    }

    /// The next answer is that of a prepare.
    pub(crate) fn expect_prepared(&mut self) {
        self.expect = Expect::Prepared;
    }

    /// Takes bytes from the front of `bytes` until an answer is complete; `None` when more bytes are needed.
    ///
    /// # Errors
    /// What came is no answer; the connection cannot be used any more.
    #[inline]
    pub(crate) fn feed(&mut self, bytes: &mut &[u8]) -> Result<Option<Reply>, WireError> {
        while let Some(piece) = self.framer.next(bytes) {
            let over = match piece {
                Piece::Head(head) => {
                    let step = ReplyState {
                        capabilities: self.capabilities,
                        expect: &mut self.expect,
                        reply: &mut self.reply,
                    }
                    .take(&head)?;
                    let ends = matches!(step, Step::End);
                    self.ending = ends && !head.whole;
                    ends && head.whole
                }
                Piece::Body(_) => false,
                Piece::Tail { .. } => std::mem::take(&mut self.ending),
                Piece::Broken { got, .. } => {
                    return Err(WireError::NotA { packet: "continuation", first: got });
                }
            };
            if over {
                self.expect = Expect::First;
                return Ok(Some(std::mem::take(&mut self.reply)));
            }
        }
        Ok(None)
    }
}

/// The part of a reader that a packet changes; apart from the framer, which lends the packet.
struct ReplyState<'a> {
    capabilities: Capabilities,
    expect: &'a mut Expect,
    reply: &'a mut Reply,
}

impl ReplyState<'_> {
    #[inline]
    fn take(&mut self, head: &Head<'_>) -> Result<Step, WireError> {
        let first = head.prefix.first().copied();
        if first == Some(0xff) && !matches!(self.expect, Expect::Definitions { .. } | Expect::Eof(_)) {
            let code = wire::response::error_code(head.prefix).unwrap_or_default();
            // MariaDB's progress reports look like errors.
            if code == 0xffff {
                return Ok(Step::More);
            }
            self.reply.error = Some(code);
            return Ok(Step::End);
        }
        match *self.expect {
            Expect::Rows => self.row(head, first),
            Expect::First => self.first(head, first),
            Expect::Definitions { left: 1, then } => {
                if self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
                    Ok(self.then(then))
                } else {
                    *self.expect = Expect::Eof(then);
                    Ok(Step::More)
                }
            }
            Expect::Definitions { left, then } => {
                *self.expect = Expect::Definitions { left: left.saturating_sub(1), then };
                Ok(Step::More)
            }
            Expect::Eof(then) => Ok(self.then(then)),
            Expect::Prepared => self.prepared(head),
        }
    }

    #[inline]
    fn row(&mut self, head: &Head<'_>, first: Option<u8>) -> Result<Step, WireError> {
        let deprecated = self.capabilities.contains(Capabilities::DEPRECATE_EOF);
        let shortest_row = if deprecated { MAX_PIECE as u32 } else { 9 };
        if first != Some(0xfe) || head.length >= shortest_row {
            self.reply.rows += 1;
            return Ok(Step::More);
        }
        self.reply.status = if deprecated {
            OkPacket::parse(head.prefix, self.capabilities)?.status
        } else {
            Eof::parse(head.prefix)?.status
        };
        Ok(self.more_results())
    }

    fn first(&mut self, head: &Head<'_>, first: Option<u8>) -> Result<Step, WireError> {
        match first {
            Some(0x00) => {
                let ok = OkPacket::parse(head.prefix, self.capabilities)?;
                self.reply.status = ok.status;
                self.reply.last_insert_id = ok.last_insert_id;
                Ok(self.more_results())
            }
            // LOAD DATA LOCAL: no workload asks for it, and nothing sensible can be answered.
            Some(first @ 0xfb) | Some(first @ 0xfe) => Err(WireError::NotA { packet: "answer", first }),
            _ => {
                let mut reader = Reader::new(head.prefix);
                let columns = reader.lenenc().unwrap_or_default();
                let optional = self.capabilities.contains(Capabilities::MARIADB_CACHE_METADATA);
                let follow = !optional || reader.u8() != Some(0);
                *self.expect = match u32::try_from(columns) {
                    Ok(left) if follow && left > 0 => {
                        Expect::Definitions { left, then: AfterDefinitions::Rows }
                    }
                    // Without definitions there is still the EOF behind them.
                    _ if !self.capabilities.contains(Capabilities::DEPRECATE_EOF) => {
                        Expect::Eof(AfterDefinitions::Rows)
                    }
                    _ => Expect::Rows,
                };
                Ok(Step::More)
            }
        }
    }

    fn prepared(&mut self, head: &Head<'_>) -> Result<Step, WireError> {
        let mut reader = Reader::new(head.prefix);
        let read = (|| {
            reader.u8()?;
            Some((reader.u32()?, reader.u16()?, reader.u16()?))
        })();
        let Some((statement, columns, parameters)) = read else {
            let first = head.prefix.first().copied().unwrap_or_default();
            return Err(WireError::NotA { packet: "answer to a prepare", first });
        };
        self.reply.statement = statement;
        let columns = AfterDefinitions::Columns(u32::from(columns));
        if parameters == 0 {
            return Ok(self.then(columns));
        }
        *self.expect = Expect::Definitions { left: u32::from(parameters), then: columns };
        Ok(Step::More)
    }

    fn then(&mut self, then: AfterDefinitions) -> Step {
        *self.expect = match then {
            AfterDefinitions::Rows => Expect::Rows,
            AfterDefinitions::End | AfterDefinitions::Columns(0) => return Step::End,
            AfterDefinitions::Columns(left) => Expect::Definitions { left, then: AfterDefinitions::End },
        };
        Step::More
    }

    fn more_results(&mut self) -> Step {
        if self.reply.status.contains(Status::MORE_RESULTS_EXISTS) {
            *self.expect = Expect::First;
            Step::More
        } else {
            Step::End
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::packet;
    use wire::response::{ErrPacket, TextResult};

    /// All answers of a stream, whole or in steps of one byte: both must be the same.
    fn replies(stream: &[u8], capabilities: Capabilities, prepared: bool) -> Vec<Reply> {
        let in_steps = |step: usize| {
            let mut reader = ReplyReader::new(capabilities);
            if prepared {
                reader.expect_prepared();
            }
            let mut found = Vec::new();
            for mut chunk in stream.chunks(step) {
                while let Some(reply) = reader.feed(&mut chunk).unwrap() {
                    found.push(reply);
                }
            }
            assert!(reader.framer.is_between() && reader.expect == Expect::First);
            found
        };
        let whole = in_steps(stream.len());
        assert_eq!(whole, in_steps(1));
        assert_eq!(whole, in_steps(7));
        whole
    }

    fn written(parts: &[&[u8]]) -> Vec<u8> {
        let (mut out, mut sequence) = (Vec::new(), 1);
        parts.iter().for_each(|part| packet::write(&mut out, &mut sequence, part));
        out
    }

    #[test]
    fn rows_are_counted_in_every_variant_of_the_protocol() {
        for extra in [
            Capabilities::empty(),
            Capabilities::DEPRECATE_EOF,
            Capabilities::MARIADB_CACHE_METADATA,
            Capabilities::DEPRECATE_EOF | Capabilities::MARIADB_CACHE_METADATA,
        ] {
            let capabilities = Capabilities::ORDINARY | extra;
            let long = "x".repeat(3000);
            let result = TextResult::of(&["a", "b"]).row(&[Some("1"), None]).row(&[Some(&long), Some("")]);
            let mut stream = Vec::new();
            for _ in 0..2 {
                result.write(&mut stream, &mut 1, capabilities);
            }
            let found = replies(&stream, capabilities, false);
            assert_eq!(found.iter().map(|reply| reply.rows).collect::<Vec<_>>(), [2, 2], "{extra:?}");
        }
    }

    #[test]
    fn definitions_that_are_left_out_are_not_waited_for() {
        let capabilities =
            Capabilities::ORDINARY | Capabilities::DEPRECATE_EOF | Capabilities::MARIADB_CACHE_METADATA;
        let stream = written(&[&[2, 0], &[0, 0, 5], &[0xfe, 0, 0, 2, 0, 0, 0]]);
        assert_eq!(replies(&stream, capabilities, false)[0].rows, 1);
    }

    #[test]
    fn several_results_are_one_answer() {
        let more = Status::MORE_RESULTS_EXISTS.bits().to_le_bytes();
        let stream = written(&[&[0, 1, 7, more[0], more[1], 0, 0], &[0, 1, 8, 2, 0, 0, 0]]);
        let found = replies(&stream, Capabilities::ORDINARY, false);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].last_insert_id, 8);
    }

    #[test]
    fn an_error_ends_the_answer_wherever_it_comes() {
        let error = ErrPacket::new(1213, b"40001", "x".repeat(700)).encode(Capabilities::ORDINARY);
        let stream = written(&[&error]);
        assert_eq!(replies(&stream, Capabilities::ORDINARY, false)[0].error, Some(1213));
        let capabilities = Capabilities::ORDINARY | Capabilities::DEPRECATE_EOF;
        let stream = written(&[&[1], b"\x03def", b"\x011", &error]);
        let found = replies(&stream, capabilities, false);
        assert_eq!((found[0].rows, found[0].error), (1, Some(1213)));
    }

    #[test]
    fn the_answer_to_a_prepare_ends_after_its_definitions() {
        for (parameters, columns) in [(0, 0), (2, 0), (0, 3), (2, 3)] {
            for eof in [false, true] {
                let head = [0, 9, 0, 0, 0, columns, 0, parameters, 0, 0, 0, 0];
                let mut parts: Vec<&[u8]> = vec![&head];
                for count in [parameters, columns] {
                    parts.extend((0..count).map(|_| b"\x03def".as_slice()));
                    if count > 0 && eof {
                        parts.push(&[0xfe, 0, 0, 2, 0]);
                    }
                }
                let extra = if eof { Capabilities::empty() } else { Capabilities::DEPRECATE_EOF };
                let found = replies(&written(&parts), Capabilities::ORDINARY | extra, true);
                assert_eq!(found.len(), 1);
                assert_eq!(found[0].statement, 9);
            }
        }
    }
}
