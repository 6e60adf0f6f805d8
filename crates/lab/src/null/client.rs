//! One client of the null server: its login, its prepared statements, and its answers, which are always the
//! same bytes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use wire::response::{Column, OkPacket};
use wire::{Capabilities, Command, Greeting, Login, Status, auth, packet, response, write};

pub(super) struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    logged_in: bool,
    capabilities: Capabilities,
    /// Whether each prepared statement reads.
    reads: Vec<bool>,
    /// By [`Answer`], worked out when it logs in: a query allocates nothing.
    answers: [Vec<u8>; 3],
}

/// What a statement is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    Ok,
    TextRow,
    BinaryRow,
}

impl Client {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            input: Vec::new(),
            logged_in: false,
            capabilities: Capabilities::empty(),
            reads: Vec::new(),
            answers: [Vec::new(), Vec::new(), Vec::new()],
        }
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }

    /// What came, behind what was left of before.
    pub(super) fn with_rest(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        input
    }

    /// Keeps what is no packet yet.
    pub(super) fn keep(&mut self, input: Vec<u8>) {
        self.input = input;
    }

    /// Takes a packet; a statement's answer is returned, all else is answered here and at once.
    pub(super) fn take(&mut self, sequence: u8, payload: &[u8]) -> io::Result<Option<Answer>> {
        if !self.logged_in {
            let login = Login::parse(payload).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            self.capabilities = login.capabilities & offered();
            self.logged_in = true;
            self.answers = [Answer::Ok, Answer::TextRow, Answer::BinaryRow].map(|answer| self.bytes(answer));
            self.send(sequence.wrapping_add(1), &[&ok()])?;
            return Ok(None);
        }
        let Some((command, body)) = payload.split_first() else { return Ok(None) };
        match Command::from_byte(*command) {
            Command::Query if reads(body) => Ok(Some(Answer::TextRow)),
            Command::StmtExecute => {
                let number = body.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                let reads = self.reads.get(number as usize).copied().unwrap_or_default();
                Ok(Some(if reads { Answer::BinaryRow } else { Answer::Ok }))
            }
            Command::StmtPrepare => {
                self.prepare(body)?;
                Ok(None)
            }
            Command::Quit => Err(io::ErrorKind::ConnectionAborted.into()),
            Command::StmtClose => Ok(None),
            _ => Ok(Some(Answer::Ok)),
        }
    }

    fn prepare(&mut self, sql: &[u8]) -> io::Result<()> {
        let parameters = sql.iter().filter(|byte| **byte == b'?').count();
        let mut head = vec![0];
        head.extend_from_slice(&(self.reads.len() as u32).to_le_bytes());
        head.extend_from_slice(&[0, 0]);
        head.extend_from_slice(&(parameters as u16).to_le_bytes());
        head.extend_from_slice(&[0, 0, 0]);
        self.reads.push(reads(sql));
        let parameter = Column::text("?").encode();
        let mut parts: Vec<&[u8]> = vec![&head];
        parts.extend(std::iter::repeat_n(parameter.as_slice(), parameters));
        let eof = response::Eof::default().encode();
        if parameters > 0 && !self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            parts.push(&eof);
        }
        self.send(1, &parts)
    }

    /// Sends an answer. They are small, and who does not read them is no concern of a test.
    pub(super) fn answer(&mut self, answer: Answer) -> io::Result<()> {
        self.stream.write_all(&self.answers[answer as usize])
    }

    fn bytes(&self, answer: Answer) -> Vec<u8> {
        let end = OkPacket { status: Status::AUTOCOMMIT, ..OkPacket::default() };
        let column = Column::text("c").encode();
        let end_of_rows = end.encode_end_of_rows(self.capabilities);
        let eof = response::Eof { status: Status::AUTOCOMMIT, ..response::Eof::default() }.encode();
        let row: &[u8] = match answer {
            Answer::Ok => return packets(1, &[&ok()]),
            Answer::TextRow => b"\x011",
            Answer::BinaryRow => b"\0\0\x011",
        };
        if self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            packets(1, &[&[1], &column, row, &end_of_rows])
        } else {
            packets(1, &[&[1], &column, &eof, row, &eof])
        }
    }

    fn send(&mut self, first: u8, payloads: &[&[u8]]) -> io::Result<()> {
        self.stream.write_all(&packets(first, payloads))
    }
}

fn packets(first: u8, payloads: &[&[u8]]) -> Vec<u8> {
    let (mut out, mut sequence) = (Vec::with_capacity(128), first);
    for payload in payloads {
        packet::write(&mut out, &mut sequence, payload);
    }
    out
}

fn reads(sql: &[u8]) -> bool {
    sql.get(..6).is_some_and(|word| word.eq_ignore_ascii_case(b"SELECT"))
}

fn offered() -> Capabilities {
    Capabilities::ORDINARY.union(Capabilities::DEPRECATE_EOF)
}

/// What a new client is greeted with.
pub(super) fn greeting(number: u64) -> Vec<u8> {
    let greeting = Greeting {
        version: "8.0.39-null".to_owned(),
        connection_id: number as u32,
        nonce: vec![b'n'; 20],
        capabilities: offered(),
        charset: 45,
        status: Status::AUTOCOMMIT,
        auth_plugin: auth::NATIVE_PASSWORD.to_owned(),
    };
    let mut out = Vec::new();
    packet::write(&mut out, &mut 0, &greeting.encode());
    out
}

fn ok() -> Vec<u8> {
    let mut out = vec![0];
    write::lenenc(&mut out, 0);
    write::lenenc(&mut out, 0);
    out.extend_from_slice(&Status::AUTOCOMMIT.bits().to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out
}
