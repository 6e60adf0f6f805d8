//! One connection: from `connect` over TLS, login and prepares to answers, without ever blocking.

mod trouble;

use super::poll::{Happened, Poll};
use super::sealed::Sealed;
use super::shared::Shared;
use crate::login::{Handshake, LoginStep};
use crate::reply::{Reply, ReplyReader};
use crate::target::{Peer, Place};
use crate::workload::{Lane, Prepared};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::os::fd::OwnedFd;
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
    token: u64,
    socket: Option<OwnedFd>,
    stage: Stage,
    /// What is still to be sent, from `sent` on; with TLS, what is still to be encrypted.
    out: Vec<u8>,
    sent: usize,
    sealed: Option<Box<Sealed>>,
    /// Registered for room to write.
    writes: bool,
    reader: ReplyReader,
    /// By [`Shared::place`]; `None` is sent as text.
    prepared: Vec<Option<Prepared>>,
    /// Whether the server said that a transaction is open.
    pub(super) in_transaction: bool,
    /// How often the send buffer was full.
    pub(super) saturated: u64,
}

#[derive(Debug)]
enum Stage {
    Down,
    Connecting,
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
    pub(super) fn new(peer: Peer, lane: Lane, token: u64) -> Self {
        Self {
            peer,
            lane,
            token,
            socket: None,
            stage: Stage::Down,
            out: Vec::with_capacity(512),
            sent: 0,
            sealed: None,
            writes: false,
            reader: ReplyReader::default(),
            prepared: Vec::new(),
            in_transaction: false,
            saturated: 0,
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
        matches!(self.stage, Stage::Connecting | Stage::LoggingIn(..) | Stage::Guarding | Stage::Preparing(_))
    }

    /// Begins to connect.
    pub(super) fn open(&mut self, poll: &Poll) -> Result<(), Trouble> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let family = match &self.peer.at {
            Place::Unix(_) => AddressFamily::UNIX,
            Place::Tcp(address) if address.is_ipv4() => AddressFamily::INET,
            Place::Tcp(_) => AddressFamily::INET6,
        };
        let socket =
            rustix::net::socket_with(family, SocketType::STREAM, flags, None).map_err(Trouble::Io)?;
        let connected = match &self.peer.at {
            Place::Tcp(address) => {
                // A statement is one segment; waiting to fill one would only cost time.
                sockopt::set_tcp_nodelay(&socket, true).map_err(Trouble::Io)?;
                rustix::net::connect(&socket, address)
            }
            Place::Unix(path) => rustix::net::SocketAddrUnix::new(path.as_path())
                .and_then(|address| rustix::net::connect(&socket, &address)),
        };
        match connected {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(Trouble::Io(error)),
        }
        poll.watch(&socket, self.token, true).map_err(Trouble::Io)?;
        self.writes = true;
        self.socket = Some(socket);
        self.stage = Stage::Connecting;
        self.out.clear();
        self.sent = 0;
        self.sealed = None;
        self.in_transaction = false;
        Ok(())
    }

    /// Closes at once. The server ends what it was doing for us when it notices.
    pub(super) fn close(&mut self) {
        self.socket = None;
        self.stage = Stage::Down;
    }

    /// Says goodbye and closes.
    pub(super) fn quit(&mut self, poll: &Poll) {
        if self.is_ready() {
            self.out.extend_from_slice(&[1, 0, 0, 0, Command::Quit.byte()]);
            // It goes away either way.
            let _ = self.flush(poll);
        }
        self.close();
    }

    /// Sends a statement; the connection is busy until its answer.
    #[inline]
    pub(super) fn send(
        &mut self,
        poll: &Poll,
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
        self.flush(poll)
    }

    /// Sends a command as text.
    pub(super) fn send_text(&mut self, poll: &Poll, text: &str) -> Result<(), Trouble> {
        self.command(Command::Query, text.as_bytes());
        self.stage = Stage::Busy;
        self.flush(poll)
    }

    /// Takes what an event brought. `buffer` is anybody's.
    #[inline]
    pub(super) fn take(
        &mut self,
        happened: Happened,
        poll: &Poll,
        shared: &Shared,
        buffer: &mut [u8],
    ) -> Result<Option<Got>, Trouble> {
        if happened.writable && self.writes {
            if matches!(self.stage, Stage::Connecting) {
                self.connected(shared)?;
            }
            self.flush(poll)?;
        }
        if happened.readable && !matches!(self.stage, Stage::Connecting | Stage::Down) {
            return self.read(poll, shared, buffer);
        }
        Ok(None)
    }

    fn connected(&mut self, shared: &Shared) -> Result<(), Trouble> {
        let Some(socket) = &self.socket else { return Err(Trouble::Closed) };
        sockopt::socket_error(socket).map_err(Trouble::Io)?.map_err(Trouble::Io)?;
        self.stage =
            Stage::LoggingIn(Handshake::new(self.peer.transport(shared.secrecy.as_ref())), Vec::new());
        Ok(())
    }

    fn read(&mut self, poll: &Poll, shared: &Shared, buffer: &mut [u8]) -> Result<Option<Got>, Trouble> {
        loop {
            let Some(socket) = &self.socket else { return Err(Trouble::Closed) };
            // Goes to the socket directly, where `read` asks the file system layer first.
            let count = match rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(Trouble::Closed),
                Ok((count, _)) => count,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(Trouble::Io(error)),
            };
            let got = if self.sealed.is_some() {
                self.unseal(poll, shared, &buffer[..count])?
            } else {
                self.understand(poll, shared, &buffer[..count])?
            };
            if got.is_some() {
                return Ok(got);
            }
            // A short read has emptied the socket: the next bytes are a new event.
            if count < buffer.len() {
                return Ok(None);
            }
        }
    }

    #[inline]
    fn understand(&mut self, poll: &Poll, shared: &Shared, mut bytes: &[u8]) -> Result<Option<Got>, Trouble> {
        if let Stage::LoggingIn(..) = self.stage {
            return self.log_in(poll, shared, bytes);
        }
        while let Some(reply) = self.reader.feed(&mut bytes).map_err(Trouble::Wire)? {
            if let Some(got) = self.answered(poll, shared, reply)? {
                return Ok(Some(got));
            }
        }
        Ok(None)
    }

    /// The same for bytes of TLS.
    fn unseal(&mut self, poll: &Poll, shared: &Shared, bytes: &[u8]) -> Result<Option<Got>, Trouble> {
        let Some(sealed) = &mut self.sealed else { return Ok(None) };
        let mut plain = sealed.open(bytes).map_err(Trouble::Tls)?;
        let got = if plain.is_empty() { None } else { self.understand(poll, shared, &plain)? };
        plain.clear();
        if let Some(sealed) = &mut self.sealed {
            sealed.give_back(plain);
        }
        // The handshake has something to say, and so may a change of keys.
        self.flush(poll)?;
        Ok(got)
    }

    #[inline]
    fn answered(&mut self, poll: &Poll, shared: &Shared, reply: Reply) -> Result<Option<Got>, Trouble> {
        match self.stage {
            Stage::Busy => {
                self.stage = Stage::Ready;
                if reply.error.is_none() {
                    self.in_transaction = reply.status.contains(wire::Status::IN_TRANS);
                }
                Ok(Some(Got::Reply(reply)))
            }
            Stage::Guarding => match reply.error {
                None => self.prepare(poll, shared, 0),
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
                self.prepare(poll, shared, place + 1)
            }
            _ => Ok(None),
        }
    }

    fn log_in(&mut self, poll: &Poll, shared: &Shared, bytes: &[u8]) -> Result<Option<Got>, Trouble> {
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
                return self.prepare(poll, shared, 0);
            }
            self.command(Command::Query, READ_ONLY.as_bytes());
            self.stage = Stage::Guarding;
        }
        self.flush(poll)?;
        Ok(None)
    }

    fn prepare(&mut self, poll: &Poll, shared: &Shared, place: usize) -> Result<Option<Got>, Trouble> {
        let Some(&(statement, variant)) = shared.prepares(self.lane).get(place) else {
            self.stage = Stage::Ready;
            return Ok(Some(Got::Ready));
        };
        self.stage = Stage::Preparing(place);
        self.reader.expect_prepared();
        let shared: &Arc<crate::workload::Workload> = &shared.workload;
        self.command(Command::StmtPrepare, shared.statements[statement].sql(variant).as_bytes());
        self.flush(poll)?;
        Ok(None)
    }

    fn command(&mut self, command: Command, body: &[u8]) {
        packet::write(&mut self.out, &mut 0, &[&[command.byte()], body].concat());
    }

    /// Writes what is left to write, and asks to be told when there is room for the rest.
    #[inline]
    fn flush(&mut self, poll: &Poll) -> Result<(), Trouble> {
        let Some(socket) = &self.socket else { return Err(Trouble::Closed) };
        let out = match &mut self.sealed {
            None => &mut self.out,
            Some(sealed) => {
                sealed.seal(&self.out).map_err(Trouble::Tls)?;
                self.out.clear();
                sealed.out()
            }
        };
        while self.sent < out.len() {
            match rustix::net::send(socket, &out[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(Trouble::Io(error)),
            }
        }
        let full = self.sent < out.len();
        if full {
            self.saturated += 1;
        } else {
            out.clear();
            self.sent = 0;
        }
        if full != self.writes {
            poll.rewatch(socket, self.token, full).map_err(Trouble::Io)?;
            self.writes = full;
        }
        Ok(())
    }
}
