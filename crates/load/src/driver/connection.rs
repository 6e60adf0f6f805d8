//! One connection: from `connect` over TLS, login and prepares to answers, without ever blocking.

mod trouble;

use super::sealed::Sealed;
use super::shared::Shared;
use super::sockets::Sockets;
use crate::login::{Handshake, LoginStep};
use crate::reply::{Reply, ReplyReader};
use crate::target::Peer;
use crate::workload::{Lane, Prepared};
use std::sync::Arc;
pub(super) use trouble::Trouble;
use wire::{Command, packet};

/// The server cannot prepare this statement (`BEGIN` on some MySQL versions): it is sent as text.
const CANNOT_PREPARE: u16 = 1295;
/// The server refuses what functions and triggers hide from us (error 1792).
const READ_ONLY: &str = "SET SESSION TRANSACTION READ ONLY";

/// One connection of a client.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: Peer,
    lane: Lane,
    /// The number of its socket.
    number: usize,
    stage: Stage,
    /// What is still to be sent, from `sent` on; with TLS, what is still to be encrypted.
    out: Vec<u8>,
    sent: usize,
    sealed: Option<Box<Sealed>>,
    reader: ReplyReader,
    /// By [`Shared::place`]; `None` is sent as text.
    prepared: Vec<Option<Prepared>>,
    /// Whether the server said that a transaction is open.
    pub(super) in_transaction: bool,
}

#[derive(Debug)]
enum Stage {
    Down,
    /// From `connect` on: the server speaks first.
    LoggingIn(Handshake, Vec<u8>),
    /// Telling the server that this session only reads.
    Guarding,
    /// Preparing the n-th statement of the lane.
    Preparing(usize),
    Ready,
    /// A command is out.
    Busy,
}

/// What came of an event.
#[derive(Debug)]
pub(super) enum Got {
    /// It can be used now.
    Ready,
    /// The command that was out is answered.
    Reply(Reply),
}

impl Connection {
    pub(super) fn new(peer: Peer, lane: Lane, number: usize) -> Self {
        Self {
            peer,
            lane,
            number,
            stage: Stage::Down,
            out: Vec::with_capacity(512),
            sent: 0,
            sealed: None,
            reader: ReplyReader::default(),
            prepared: Vec::new(),
            in_transaction: false,
        }
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(self.stage, Stage::Down)
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready)
    }

    /// A command is out.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.stage, Stage::Busy)
    }

    /// On its way from `connect` to ready.
    pub(super) fn is_connecting(&self) -> bool {
        matches!(self.stage, Stage::LoggingIn(..) | Stage::Guarding | Stage::Preparing(_))
    }

    /// Begins to connect.
    pub(super) fn open(&mut self, sockets: &mut Sockets, shared: &Shared) -> Result<(), Trouble> {
        sockets.open(self.number, &self.peer.at).map_err(Trouble::Io)?;
        self.stage =
            Stage::LoggingIn(Handshake::new(self.peer.transport(shared.secrecy.as_ref())), Vec::new());
        self.out.clear();
        self.sent = 0;
        self.sealed = None;
        self.in_transaction = false;
        Ok(())
    }

    /// Closes at once. The server ends what it was doing for us when it notices.
    pub(super) fn close(&mut self, sockets: &mut Sockets) {
        sockets.close(self.number);
        self.stage = Stage::Down;
    }

    /// Says goodbye and closes.
    pub(super) fn quit(&mut self, sockets: &mut Sockets) {
        if self.is_ready() {
            self.command(Command::Quit, &[]);
            let number = self.number;
            if let Ok(out) = self.sealed_out() {
                sockets.send_last(number, out);
            }
        }
        self.close(sockets);
    }

    /// Sends a statement; the connection is busy until its answer.
    #[inline]
    pub(super) fn send(
        &mut self,
        sockets: &mut Sockets,
        shared: &Shared,
        statement: usize,
        variant: usize,
        draws: &mut crate::workload::ClientDraws<'_>,
    ) -> Result<(), Trouble> {
        let slot = &mut self.prepared[shared.place(statement, variant)];
        shared.workload.encode(statement, variant, *slot, draws, &mut self.out);
        if let Some(prepared) = slot {
            prepared.bound = true;
        }
        self.stage = Stage::Busy;
        self.flush(sockets)
    }

    /// Sends a command as text.
    pub(super) fn send_text(&mut self, sockets: &mut Sockets, text: &str) -> Result<(), Trouble> {
        self.command(Command::Query, text.as_bytes());
        self.stage = Stage::Busy;
        self.flush(sockets)
    }

    /// Takes bytes that came.
    #[inline]
    pub(super) fn take(
        &mut self,
        sockets: &mut Sockets,
        shared: &Shared,
        bytes: &[u8],
    ) -> Result<Option<Got>, Trouble> {
        if self.sealed.is_some() {
            self.unseal(sockets, shared, bytes)
        } else {
            self.understand(sockets, shared, bytes)
        }
    }

    #[inline]
    fn understand(
        &mut self,
        sockets: &mut Sockets,
        shared: &Shared,
        mut bytes: &[u8],
    ) -> Result<Option<Got>, Trouble> {
        if let Stage::LoggingIn(..) = self.stage {
            return self.log_in(sockets, shared, bytes);
        }
        while let Some(reply) = self.reader.feed(&mut bytes).map_err(Trouble::Wire)? {
            if let Some(got) = self.answered(sockets, shared, reply)? {
                return Ok(Some(got));
            }
        }
        Ok(None)
    }

    /// The same for bytes of TLS.
    fn unseal(
        &mut self,
        sockets: &mut Sockets,
        shared: &Shared,
        bytes: &[u8],
    ) -> Result<Option<Got>, Trouble> {
        let Some(sealed) = &mut self.sealed else { return Ok(None) };
        let mut plain = sealed.open(bytes).map_err(Trouble::Tls)?;
        let got = if plain.is_empty() { None } else { self.understand(sockets, shared, &plain)? };
        plain.clear();
        if let Some(sealed) = &mut self.sealed {
            sealed.give_back(plain);
        }
        // The handshake has something to say, and so may a change of keys.
        self.flush(sockets)?;
        Ok(got)
    }

    #[inline]
    fn answered(
        &mut self,
        sockets: &mut Sockets,
        shared: &Shared,
        reply: Reply,
    ) -> Result<Option<Got>, Trouble> {
        match self.stage {
            Stage::Busy => {
                self.stage = Stage::Ready;
                if reply.error.is_none() {
                    self.in_transaction = reply.status.contains(wire::Status::IN_TRANS);
                }
                Ok(Some(Got::Reply(reply)))
            }
            Stage::Guarding => match reply.error {
                None => self.prepare(sockets, shared, 0),
                Some(code) => Err(Trouble::Prepare(code, READ_ONLY.to_owned())),
            },
            Stage::Preparing(place) => {
                let (statement, variant) = shared.prepares(self.lane)[place];
                let slot = &mut self.prepared[shared.place(statement, variant)];
                *slot = match reply.error {
                    None => Some(Prepared { id: reply.statement, bound: false }),
                    Some(CANNOT_PREPARE) => None,
                    Some(code) => {
                        let sql = shared.workload.statements[statement].sql(variant).to_owned();
                        return Err(Trouble::Prepare(code, sql));
                    }
                };
                self.prepare(sockets, shared, place + 1)
            }
            _ => Ok(None),
        }
    }

    fn log_in(
        &mut self,
        sockets: &mut Sockets,
        shared: &Shared,
        bytes: &[u8],
    ) -> Result<Option<Got>, Trouble> {
        let Stage::LoggingIn(handshake, input) = &mut self.stage else { return Ok(None) };
        input.extend_from_slice(bytes);
        let mut done = None;
        let mut used = 0;
        while let Some(found) = packet::first(&input[used..]) {
            used += found.used;
            let step = handshake.packet(&shared.account, found.sequence, found.payload, &mut self.out);
            match step.map_err(Trouble::Login)? {
                LoginStep::Wait => {}
                LoginStep::BeginTls => {
                    // The SSLRequest goes in the clear, what follows it does not.
                    let request = std::mem::take(&mut self.out);
                    handshake.secured(&shared.account, &mut self.out).map_err(Trouble::Login)?;
                    let sealed = Sealed::begin(shared.secrecy.as_ref(), &self.peer.address, request);
                    self.sealed = Some(Box::new(sealed.map_err(Trouble::Tls)?));
                }
                LoginStep::Done(capabilities) => done = Some(capabilities),
            }
        }
        input.drain(..used);
        if let Some(capabilities) = done {
            self.reader = ReplyReader::new(capabilities);
            self.prepared.clear();
            self.prepared.resize(shared.places(), None);
            if !shared.read_only {
                return self.prepare(sockets, shared, 0);
            }
            self.command(Command::Query, READ_ONLY.as_bytes());
            self.stage = Stage::Guarding;
        }
        self.flush(sockets)?;
        Ok(None)
    }

    fn prepare(
        &mut self,
        sockets: &mut Sockets,
        shared: &Shared,
        place: usize,
    ) -> Result<Option<Got>, Trouble> {
        let Some(&(statement, variant)) = shared.prepares(self.lane).get(place) else {
            self.stage = Stage::Ready;
            return Ok(Some(Got::Ready));
        };
        self.stage = Stage::Preparing(place);
        self.reader.expect_prepared();
        let shared: &Arc<crate::workload::Workload> = &shared.workload;
        self.command(Command::StmtPrepare, shared.statements[statement].sql(variant).as_bytes());
        self.flush(sockets)?;
        Ok(None)
    }

    fn command(&mut self, command: Command, body: &[u8]) {
        packet::write(&mut self.out, &mut 0, &[&[command.byte()], body].concat());
    }

    /// Sends what is left to send. What is not taken goes with the next room.
    #[inline]
    pub(super) fn flush(&mut self, sockets: &mut Sockets) -> Result<(), Trouble> {
        let (number, sent) = (self.number, self.sent);
        let out = self.sealed_out()?;
        if sent == out.len() {
            return Ok(());
        }
        let sent = sent + sockets.send(number, &out[sent..]).map_err(Trouble::Io)?;
        if sent < out.len() {
            self.sent = sent;
        } else {
            out.clear();
            self.sent = 0;
        }
        Ok(())
    }

    /// What is to be sent, as it goes out.
    #[inline]
    fn sealed_out(&mut self) -> Result<&mut Vec<u8>, Trouble> {
        match &mut self.sealed {
            None => Ok(&mut self.out),
            Some(sealed) => {
                sealed.seal(&self.out).map_err(Trouble::Tls)?;
                self.out.clear();
                Ok(sealed.out())
            }
        }
    }
}
