//! One connection: from `connect` over TLS, login and prepares to answers, without ever blocking.

use super::connection_error::ConnectionError;
use super::shared::Shared;
use super::sockets::Sockets;
use super::tls_channel::TlsChannel;
use crate::login::{Handshake, LoginStep};
use crate::reply::{Reply, ReplyReader};
use crate::target::Peer;
use crate::workload::{Lane, Prepared};
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
    state: State,
    /// What is still to be sent, from `sent` on; with TLS, what is still to be encrypted.
    out: Vec<u8>,
    sent: usize,
    tls: Option<Box<TlsChannel>>,
    reader: ReplyReader,
    /// By [`Shared::variant_index`]; `None` is sent as text.
    prepared: Vec<Option<Prepared>>,
    /// Whether the server said that a transaction is open.
    pub(super) in_transaction: bool,
}

#[derive(Debug)]
enum State {
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
pub(super) enum Progress {
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
            state: State::Down,
            out: Vec::with_capacity(512),
            sent: 0,
            tls: None,
            reader: ReplyReader::default(),
            prepared: Vec::new(),
            in_transaction: false,
        }
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(self.state, State::Down)
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready)
    }

    /// A command is out.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.state, State::Busy)
    }

    /// Begins to connect.
    pub(super) fn open(&mut self, sockets: &mut Sockets, shared: &Shared) -> Result<(), ConnectionError> {
        sockets.open(self.number, &self.peer.socket_address).map_err(ConnectionError::Io)?;
        self.state = State::LoggingIn(Handshake::new(self.peer.transport(shared.tls.as_ref())), Vec::new());
        self.out.clear();
        self.sent = 0;
        self.tls = None;
        self.in_transaction = false;
        Ok(())
    }

    /// Closes at once. The server ends what it was doing for us when it notices.
    pub(super) fn close(&mut self, sockets: &mut Sockets) {
        sockets.close(self.number);
        self.state = State::Down;
    }

    /// Says goodbye and closes.
    pub(super) fn quit(&mut self, sockets: &mut Sockets) {
        if self.is_ready() {
            self.command(Command::Quit, &[]);
            let number = self.number;
            if let Ok(out) = self.encrypted_out() {
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
    ) -> Result<(), ConnectionError> {
        let slot = &mut self.prepared[shared.variant_index(statement, variant)];
        shared.workload.encode(statement, variant, *slot, draws, &mut self.out);
        if let Some(prepared) = slot {
            prepared.bound = true;
        }
        self.state = State::Busy;
        self.flush(sockets)
    }

    /// Sends a command as text.
    pub(super) fn send_text(&mut self, sockets: &mut Sockets, text: &str) -> Result<(), ConnectionError> {
        self.command(Command::Query, text.as_bytes());
        self.state = State::Busy;
        self.flush(sockets)
    }

    /// Takes bytes that came.
    #[inline]
    pub(super) fn take(
        &mut self,
        sockets: &mut Sockets,
        shared: &Shared,
        bytes: &[u8],
    ) -> Result<Option<Progress>, ConnectionError> {
        if self.tls.is_some() {
            self.decrypt(sockets, shared, bytes)
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
    ) -> Result<Option<Progress>, ConnectionError> {
        if let State::LoggingIn(..) = self.state {
            return self.log_in(sockets, shared, bytes);
        }
        while let Some(reply) = self.reader.feed(&mut bytes).map_err(ConnectionError::Wire)? {
            if let Some(got) = self.answered(sockets, shared, reply)? {
                return Ok(Some(got));
            }
        }
        Ok(None)
    }

    /// The same for bytes of TLS.
    fn decrypt(
        &mut self,
        sockets: &mut Sockets,
        shared: &Shared,
        bytes: &[u8],
    ) -> Result<Option<Progress>, ConnectionError> {
        let Some(tls) = &mut self.tls else { return Ok(None) };
        let mut plain = tls.decrypt(bytes)?;
        let got = if plain.is_empty() { None } else { self.understand(sockets, shared, &plain)? };
        plain.clear();
        if let Some(tls) = &mut self.tls {
            tls.give_back(plain);
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
    ) -> Result<Option<Progress>, ConnectionError> {
        match self.state {
            State::Busy => {
                self.state = State::Ready;
                if reply.error.is_none() {
                    self.in_transaction = reply.status.contains(wire::Status::IN_TRANS);
                }
                Ok(Some(Progress::Reply(reply)))
            }
            State::Guarding => match reply.error {
                None => self.prepare(sockets, shared, 0),
                Some(code) => Err(ConnectionError::Prepare { code, sql: READ_ONLY.to_owned() }),
            },
            State::Preparing(place) => {
                let (statement, variant) = shared.prepares(self.lane)[place];
                let slot = &mut self.prepared[shared.variant_index(statement, variant)];
                *slot = match reply.error {
                    None => Some(Prepared { id: reply.statement, bound: false }),
                    Some(CANNOT_PREPARE) => None,
                    Some(code) => {
                        let sql = shared.workload.statements[statement].sql(variant).to_owned();
                        return Err(ConnectionError::Prepare { code, sql });
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
    ) -> Result<Option<Progress>, ConnectionError> {
        let State::LoggingIn(handshake, input) = &mut self.state else { return Ok(None) };
        input.extend_from_slice(bytes);
        let mut done = None;
        let mut used = 0;
        while let Some(found) = packet::first(&input[used..]) {
            used += found.used;
            let step = handshake.packet(&shared.account, found.sequence, found.payload, &mut self.out);
            match step.map_err(ConnectionError::Login)? {
                LoginStep::Wait => {}
                LoginStep::BeginTls => {
                    // The SSLRequest goes in the clear, what follows it does not.
                    let request = std::mem::take(&mut self.out);
                    handshake.secured(&shared.account, &mut self.out).map_err(ConnectionError::Login)?;
                    let tls = TlsChannel::begin(shared.tls.as_ref(), &self.peer.address, request);
                    self.tls = Some(Box::new(tls?));
                }
                LoginStep::Done(capabilities) => done = Some(capabilities),
            }
        }
        input.drain(..used);
        if let Some(capabilities) = done {
            self.reader = ReplyReader::new(capabilities);
            self.prepared.clear();
            self.prepared.resize(shared.variant_count(), None);
            if !shared.read_only {
                return self.prepare(sockets, shared, 0);
            }
            self.command(Command::Query, READ_ONLY.as_bytes());
            self.state = State::Guarding;
        }
        self.flush(sockets)?;
        Ok(None)
    }

    fn prepare(
        &mut self,
        sockets: &mut Sockets,
        shared: &Shared,
        place: usize,
    ) -> Result<Option<Progress>, ConnectionError> {
        let Some(&(statement, variant)) = shared.prepares(self.lane).get(place) else {
            self.state = State::Ready;
            return Ok(Some(Progress::Ready));
        };
        self.state = State::Preparing(place);
        self.reader.expect_prepared();
        let sql = shared.workload.statements[statement].sql(variant);
        self.command(Command::StmtPrepare, sql.as_bytes());
        self.flush(sockets)?;
        Ok(None)
    }

    fn command(&mut self, command: Command, body: &[u8]) {
        packet::write(&mut self.out, &mut 0, &[&[command.byte()], body].concat());
    }

    /// Sends what is left to send. What is not taken goes with the next room.
    #[inline]
    pub(super) fn flush(&mut self, sockets: &mut Sockets) -> Result<(), ConnectionError> {
        let (number, sent) = (self.number, self.sent);
        let out = self.encrypted_out()?;
        if sent == out.len() {
            return Ok(());
        }
        let sent = sent + sockets.send(number, &out[sent..]).map_err(ConnectionError::Io)?;
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
    fn encrypted_out(&mut self) -> Result<&mut Vec<u8>, ConnectionError> {
        match &mut self.tls {
            None => Ok(&mut self.out),
            Some(tls) => {
                tls.encrypt(&self.out)?;
                self.out.clear();
                Ok(tls.out())
            }
        }
    }
}
