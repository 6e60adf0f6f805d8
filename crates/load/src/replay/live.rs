//! Live: one session of a replay, from `connect` over TLS and login to its end, without ever blocking. The tracker of `wire`
//! reads its answers, as the router's did while recording, so that rows are counted alike.

use super::prepared::Prepared;
use super::script::{ScriptSession, Step};
use super::{Common, Took};
use crate::driver::poll::Poll;
use crate::driver::sealed::Sealed;
use crate::login::{Account, Handshake, LoginFailure, LoginStep};
use crate::target::Peer;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use wire::{Command, Event, Finish, Observer, Tracker, packet};

/// The server refuses what changes data, whatever the text says.
const READ_ONLY: &[u8] = b"SET SESSION TRANSACTION READ ONLY";
/// A number that no server gives to a prepared statement.
const REFUSED: u32 = u32::MAX - 1;
/// `COM_SET_OPTION`: several statements in one command, from now on.
const SEVERAL: [u8; 2] = [0, 0];

/// One session.
pub(super) struct Live<'a> {
    pub(super) script: &'a ScriptSession,
    /// The step that comes next, as an index into the session's steps.
    pub(super) next: usize,
    pub(super) stage: Stage,
    /// Since when it could send the next step.
    pub(super) free_since: u64,
    token: u64,
    socket: Option<OwnedFd>,
    tracker: Tracker,
    /// What is still to be sent; with TLS, what is still to be encrypted.
    out: Vec<u8>,
    sent: usize,
    sealed: Option<Box<Sealed>>,
    /// The server's first packet.
    greeting: Vec<u8>,
    /// Registered for room to write.
    writes: bool,
    /// What is sent before the next step; a prepare with the number it had in the recording.
    pub(super) setup: VecDeque<(Command, Vec<u8>, Option<u32>)>,
    /// The number of the prepare that is out.
    preparing: Option<u32>,
    pub(super) prepared: Prepared,
    read_only: bool,
}

/// Where it stands.
pub(super) enum Stage {
    /// Not opened yet.
    Down,
    Connecting,
    LoggingIn(Box<Handshake>, Vec<u8>),
    /// A command of ours is out that is no step.
    SettingUp,
    /// Nothing is out.
    Ready,
    /// This step is out: when it was due and when it was sent.
    Busy {
        step: u32,
        due: u64,
        sent: u64,
    },
    /// It has ended.
    Over,
}

/// What came of an event.
pub(super) enum Got {
    /// Nothing that matters yet.
    Nothing,
    /// It can be used.
    Ready,
    /// A step was answered.
    Answered(u32, Took),
}

/// The end of the answer that is due.
#[derive(Default)]
struct AnswerEnd(Option<Finish>);

impl Observer for AnswerEnd {
    fn event(&mut self, event: Event<'_>) {
        if let Event::AnswerEnd(finish) = event {
            self.0 = Some(finish);
        }
    }
}

impl<'a> Live<'a> {
    pub(super) fn new(script: &'a ScriptSession, token: u64, read_only: bool) -> Self {
        Self {
            script,
            next: 0,
            stage: Stage::Down,
            free_since: 0,
            token,
            socket: None,
            tracker: Tracker::new(),
            out: Vec::new(),
            sent: 0,
            sealed: None,
            greeting: Vec::new(),
            writes: false,
            setup: VecDeque::new(),
            preparing: None,
            prepared: Prepared::new(),
            read_only,
        }
    }

    pub(super) fn is_connecting(&self) -> bool {
        matches!(self.stage, Stage::Connecting | Stage::LoggingIn(..) | Stage::SettingUp)
    }

    /// Begins to connect.
    pub(super) fn open(&mut self, peer: &Peer, poll: &Poll) -> Result<(), String> {
        let socket = peer.at.connect().map_err(io)?;
        poll.watch(&socket, self.token, true).map_err(io)?;
        self.writes = true;
        self.socket = Some(socket);
        self.stage = Stage::Connecting;
        Ok(())
    }

    /// Ends it. A session that is free says goodbye.
    pub(super) fn close(&mut self, poll: &Poll) {
        if matches!(self.stage, Stage::Ready) {
            self.command(Command::Quit, &[]);
            // It goes away either way.
            let _ = self.flush(poll);
        }
        self.socket = None;
        self.stage = Stage::Over;
    }

    /// The socket can be written.
    pub(super) fn writable(&mut self, poll: &Poll, common: &Common<'_>) -> Result<(), String> {
        if matches!(self.stage, Stage::Connecting) {
            let Some(socket) = &self.socket else { return Ok(()) };
            sockopt::socket_error(socket).map_err(io)?.map_err(io)?;
            let transport = common.peer.transport(common.secrecy.as_ref());
            self.stage = Stage::LoggingIn(Box::new(Handshake::new(transport)), Vec::new());
        }
        self.flush(poll)
    }

    /// Reads what has come. `now` tells the time once an answer is whole.
    pub(super) fn readable(
        &mut self,
        poll: &Poll,
        common: &Common<'_>,
        buffer: &mut [u8],
        now: impl Fn() -> u64,
    ) -> Result<Got, String> {
        let mut got = Got::Nothing;
        loop {
            let Some(socket) = &self.socket else { return Ok(got) };
            let count = match rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err("the server closed the connection".to_owned()),
                Ok((count, _)) => count,
                Err(Errno::AGAIN) => return Ok(got),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(io(error)),
            };
            let found = match &mut self.sealed {
                None => self.understand(poll, common, &buffer[..count], &now)?,
                Some(sealed) => {
                    let mut plain = sealed.open(&buffer[..count])?;
                    let found = self.understand(poll, common, &plain, &now)?;
                    plain.clear();
                    if let Some(sealed) = &mut self.sealed {
                        sealed.give_back(plain);
                    }
                    // The handshake has something to say, and so may a change of keys.
                    self.flush(poll)?;
                    found
                }
            };
            if !matches!(found, Got::Nothing) {
                got = found;
            }
        }
    }

    fn understand(
        &mut self,
        poll: &Poll,
        common: &Common<'_>,
        bytes: &[u8],
        now: &impl Fn() -> u64,
    ) -> Result<Got, String> {
        if matches!(self.stage, Stage::LoggingIn(..)) {
            return if self.log_in(bytes, poll, common)? { self.go_on(poll) } else { Ok(Got::Nothing) };
        }
        let mut end = AnswerEnd::default();
        self.tracker.server_bytes_with(bytes, &mut end);
        match end.0 {
            Some(finish) => self.answered(finish, poll, now()),
            None => Ok(Got::Nothing),
        }
    }

    /// Sends a step, due at `due`. A command that is not answered is done at once: its figures are returned.
    pub(super) fn send(
        &mut self,
        (number, step): (u32, &Step),
        (due, now): (u64, u64),
        poll: &Poll,
    ) -> Result<Option<Took>, String> {
        self.next += 1;
        let changes_user = step.command == Command::ChangeUser;
        if changes_user || step.command == Command::ResetConnection {
            // The next session on this connection, as far as a replay by one account can make it so.
            self.command(Command::ResetConnection, &[]);
            self.prepared.forget();
            self.set_up(step.command == Command::ChangeUser, &step.body);
        } else {
            self.step(step);
        }
        self.flush(poll)?;
        if step.command.is_answered() {
            self.stage = Stage::Busy { step: number, due, sent: now };
            return Ok(None);
        }
        let took = Took { late: now.saturating_sub(due), ..Took::default() };
        Ok(Some(Took { own_late: now.saturating_sub(due.max(self.free_since)), ..took }))
    }

    fn step(&mut self, step: &Step) {
        match self.prepared.translated(step) {
            Some(body) => self.command(step.command, &body),
            None => self.command(step.command, &step.body),
        }
    }

    /// What has to be said before the next step.
    fn set_up(&mut self, with_database: bool, database: &[u8]) {
        self.setup.clear();
        if self.script.several_statements {
            self.setup.push_back((Command::SetOption, SEVERAL.to_vec(), None));
        }
        if self.read_only {
            self.setup.push_back((Command::Query, READ_ONLY.to_vec(), None));
        }
        if with_database && !database.is_empty() {
            self.setup.push_back((Command::InitDb, database.to_vec(), None));
        }
    }

    /// Sends what has to be said, or is ready.
    pub(super) fn go_on(&mut self, poll: &Poll) -> Result<Got, String> {
        let Some((command, body, preparing)) = self.setup.pop_front() else {
            self.stage = Stage::Ready;
            return Ok(Got::Ready);
        };
        self.command(command, &body);
        self.preparing = preparing;
        self.stage = Stage::SettingUp;
        self.flush(poll)?;
        Ok(Got::Nothing)
    }

    /// Returns whether it is logged in. The tracker is told of the login as it would be without TLS and proofs.
    fn log_in(&mut self, bytes: &[u8], poll: &Poll, common: &Common<'_>) -> Result<bool, String> {
        let Stage::LoggingIn(handshake, input) = &mut self.stage else { return Ok(false) };
        input.extend_from_slice(bytes);
        let account = match self.script.database.as_str() {
            "" => common.plan.account.clone(),
            database => Account { database: database.to_owned(), ..common.plan.account.clone() },
        };
        let (mut used, mut done) = (0, false);
        while let Some(found) = packet::first(&input[used..]) {
            if !handshake.is_greeted() {
                self.greeting = input[used..used + found.used].to_vec();
            }
            used += found.used;
            match handshake.packet(&account, found.sequence, found.payload, &mut self.out).map_err(refusal)? {
                LoginStep::Wait => {}
                LoginStep::BeginTls => {
                    // The SSLRequest goes in the clear, what follows it does not.
                    let request = std::mem::take(&mut self.out);
                    handshake.secured(&account, &mut self.out).map_err(refusal)?;
                    let sealed = Sealed::begin(common.secrecy.as_ref(), &common.peer.address, request)?;
                    self.sealed = Some(Box::new(sealed));
                }
                LoginStep::Done(_) => {
                    let (mut login, mut ok) = (Vec::new(), Vec::new());
                    packet::write(&mut login, &mut 1, &handshake.in_the_clear(&account));
                    packet::write(&mut ok, &mut 2, found.payload);
                    self.tracker.server_bytes(&self.greeting);
                    self.tracker.client_bytes(&login);
                    self.tracker.server_bytes(&ok);
                    done = true;
                }
            }
        }
        input.drain(..used);
        self.flush(poll)?;
        if done {
            self.set_up(false, &[]);
            let before = self.script.prepared_before.iter();
            self.setup
                .extend(before.map(|(number, text)| (Command::StmtPrepare, text.clone(), Some(*number))));
        }
        Ok(done)
    }

    fn answered(&mut self, finish: Finish, poll: &Poll, now: u64) -> Result<Got, String> {
        match self.stage {
            Stage::Busy { step, due, sent } => {
                if let Some(prepared) = finish.prepared {
                    self.prepared.last(prepared);
                }
                let took = Took {
                    late: sent.saturating_sub(due),
                    own_late: sent.saturating_sub(due.max(self.free_since)),
                    response: now.saturating_sub(due),
                    service: now.saturating_sub(sent),
                    error: finish.error,
                    rows: finish.rows,
                    affected: finish.affected,
                };
                self.free_since = now;
                self.stage = Stage::Ready;
                Ok(Got::Answered(step, took))
            }
            Stage::SettingUp => match finish.error {
                error if self.preparing.is_some() => {
                    if let Some(number) = self.preparing.take() {
                        // Refused here, its executions have to fail, not to meet another statement.
                        self.prepared.last(finish.prepared.filter(|_| error.is_none()).unwrap_or(REFUSED));
                        self.prepared.recorded(number);
                    }
                    self.free_since = now;
                    self.go_on(poll)
                }
                Some(code) => Err(format!("the server refused to set a session up: error {code}")),
                None => {
                    self.free_since = now;
                    self.go_on(poll)
                }
            },
            _ => Ok(Got::Nothing),
        }
    }

    fn command(&mut self, command: Command, body: &[u8]) {
        let from = self.out.len();
        packet::write(&mut self.out, &mut 0, &[&[command.byte()], body].concat());
        self.tracker.client_bytes(&self.out[from..]);
    }

    fn flush(&mut self, poll: &Poll) -> Result<(), String> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let out = match &mut self.sealed {
            None => &mut self.out,
            Some(sealed) => {
                sealed.seal(&self.out)?;
                self.out.clear();
                sealed.out()
            }
        };
        while self.sent < out.len() {
            match rustix::net::send(socket, &out[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(io(error)),
            }
        }
        let full = self.sent < out.len();
        if !full {
            out.clear();
            self.sent = 0;
        }
        if full != self.writes {
            poll.rewatch(socket, self.token, full).map_err(io)?;
            self.writes = full;
        }
        Ok(())
    }
}

fn io(error: Errno) -> String {
    std::io::Error::from(error).to_string()
}

fn refusal(failure: LoginFailure) -> String {
    match failure {
        LoginFailure::Refused(error) => format!("error {}: {}", error.code, error.message),
        LoginFailure::Wire(error) => error.to_string(),
        LoginFailure::Impossible(what) => what,
    }
}
