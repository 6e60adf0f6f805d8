//! ReplayConnection: one session of a replay, from `connect` over TLS and login to its end, without ever
//! blocking. The tracker of `wire` reads its answers, as the router's did while recording, so that rows are
//! counted alike.

use super::prepared::{PreparedNumbers, REFUSED};
use super::script::{ScriptSession, ScriptStep};
use super::{CommandOutcome, ReplayContext};
use crate::driver::epoll::Epoll;
use crate::driver::{ConnectionError, TlsChannel};
use crate::login::{Account, Handshake, LoginStep};
use crate::target::Peer;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use wire::{Command, Event, Finish, Observer, Tracker, packet};

/// The server refuses what changes data, whatever the text says.
const READ_ONLY: &[u8] = b"SET SESSION TRANSACTION READ ONLY";
/// `COM_SET_OPTION`: several statements in one command, from now on.
const SEVERAL: [u8; 2] = [0, 0];

/// One session.
pub(super) struct ReplayConnection<'a> {
    pub(super) script: &'a ScriptSession,
    /// The step that comes next, as an index into the session's steps.
    pub(super) next: usize,
    pub(super) state: State,
    /// Since when it could send the next step.
    pub(super) free_since_ns: u64,
    token: u64,
    socket: Option<OwnedFd>,
    tracker: Tracker,
    /// What is still to be sent; with TLS, what is still to be encrypted.
    out: Vec<u8>,
    sent: usize,
    tls: Option<Box<TlsChannel>>,
    /// The server's first packet.
    greeting: Vec<u8>,
    /// Registered for room to write.
    writes: bool,
    /// What is sent before the next step; a prepare with the number it had in the recording.
    pub(super) setup: VecDeque<(Command, Vec<u8>, Option<u32>)>,
    /// The number of the prepare that is out.
    preparing: Option<u32>,
    pub(super) prepared: PreparedNumbers,
    read_only: bool,
}

/// Where it stands.
pub(super) enum State {
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
        due_ns: u64,
        sent_ns: u64,
    },
    /// It has ended.
    Over,
}

/// What came of an event.
pub(super) enum Progress {
    /// Nothing that matters yet.
    Nothing,
    /// It can be used.
    Ready,
    /// A step was answered.
    Answered(u32, CommandOutcome),
}

/// Catches the end of the answer that is due.
#[derive(Default)]
struct AnswerEnd(Option<Finish>);

impl Observer for AnswerEnd {
    fn event(&mut self, event: Event<'_>) {
        if let Event::AnswerEnd(finish) = event {
            self.0 = Some(finish);
        }
    }
}

impl<'a> ReplayConnection<'a> {
    pub(super) fn new(script: &'a ScriptSession, token: u64, read_only: bool) -> Self {
        Self {
            script,
            next: 0,
            state: State::Down,
            free_since_ns: 0,
            token,
            socket: None,
            tracker: Tracker::new(),
            out: Vec::new(),
            sent: 0,
            tls: None,
            greeting: Vec::new(),
            writes: false,
            setup: VecDeque::new(),
            preparing: None,
            prepared: PreparedNumbers::new(),
            read_only,
        }
    }

    pub(super) fn is_connecting(&self) -> bool {
        matches!(self.state, State::Connecting | State::LoggingIn(..) | State::SettingUp)
    }

    /// Begins to connect.
    pub(super) fn open(&mut self, peer: &Peer, epoll: &Epoll) -> Result<(), ConnectionError> {
        let socket = peer.socket_address.connect()?;
        epoll.watch(&socket, self.token, true)?;
        self.writes = true;
        self.socket = Some(socket);
        self.state = State::Connecting;
        Ok(())
    }

    /// Ends it. A session that is free says goodbye.
    pub(super) fn close(&mut self, epoll: &Epoll) {
        if matches!(self.state, State::Ready) {
            self.command(Command::Quit, &[]);
            // It goes away either way.
            let _ = self.flush(epoll);
        }
        self.socket = None;
        self.state = State::Over;
    }

    /// The socket can be written.
    pub(super) fn writable(
        &mut self,
        epoll: &Epoll,
        context: &ReplayContext<'_>,
    ) -> Result<(), ConnectionError> {
        if matches!(self.state, State::Connecting) {
            let Some(socket) = &self.socket else { return Ok(()) };
            sockopt::socket_error(socket)??;
            let transport = context.peer.transport(context.tls.as_ref());
            self.state = State::LoggingIn(Box::new(Handshake::new(transport)), Vec::new());
        }
        self.flush(epoll)
    }

    /// Reads what has come. `now_ns` is asked for the time once an answer is whole.
    pub(super) fn readable(
        &mut self,
        epoll: &Epoll,
        context: &ReplayContext<'_>,
        buffer: &mut [u8],
        now_ns: impl Fn() -> u64,
    ) -> Result<Progress, ConnectionError> {
        let mut progress = Progress::Nothing;
        loop {
            let Some(socket) = &self.socket else { return Ok(progress) };
            let count = match rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(ConnectionError::Closed),
                Ok((count, _)) => count,
                Err(Errno::AGAIN) => return Ok(progress),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let found = match &mut self.tls {
                None => self.understand(epoll, context, &buffer[..count], &now_ns)?,
                Some(tls) => {
                    let mut plain = tls.decrypt(&buffer[..count])?;
                    let found = self.understand(epoll, context, &plain, &now_ns)?;
                    plain.clear();
                    if let Some(tls) = &mut self.tls {
                        tls.give_back(plain);
                    }
                    // The handshake has something to say, and so may a change of keys.
                    self.flush(epoll)?;
                    found
                }
            };
            if !matches!(found, Progress::Nothing) {
                progress = found;
            }
        }
    }

    fn understand(
        &mut self,
        epoll: &Epoll,
        context: &ReplayContext<'_>,
        bytes: &[u8],
        now_ns: &impl Fn() -> u64,
    ) -> Result<Progress, ConnectionError> {
        if matches!(self.state, State::LoggingIn(..)) {
            return if self.log_in(bytes, epoll, context)? {
                self.go_on(epoll, now_ns())
            } else {
                Ok(Progress::Nothing)
            };
        }
        let mut end = AnswerEnd::default();
        self.tracker.server_bytes_with(bytes, &mut end);
        match end.0 {
            Some(finish) => self.answered(finish, epoll, now_ns()),
            None => Ok(Progress::Nothing),
        }
    }

    /// Sends a step, due at `due_ns`. A command that is not answered is done at once: its figures are
    /// returned.
    pub(super) fn send(
        &mut self,
        (number, step): (u32, &ScriptStep),
        (due_ns, now_ns): (u64, u64),
        epoll: &Epoll,
    ) -> Result<Option<CommandOutcome>, ConnectionError> {
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
        self.flush(epoll)?;
        if step.command.is_answered() {
            self.state = State::Busy { step: number, due_ns, sent_ns: now_ns };
            return Ok(None);
        }
        Ok(Some(CommandOutcome {
            late_ns: now_ns.saturating_sub(due_ns),
            own_late_ns: now_ns.saturating_sub(due_ns.max(self.free_since_ns)),
            affected: Some(0),
            ..CommandOutcome::default()
        }))
    }

    fn step(&mut self, step: &ScriptStep) {
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

    /// Sends what has to be said, or is ready, and free from then on: until its login is answered, that it is
    /// late is the target's doing.
    pub(super) fn go_on(&mut self, epoll: &Epoll, now_ns: u64) -> Result<Progress, ConnectionError> {
        let Some((command, body, preparing)) = self.setup.pop_front() else {
            self.free_since_ns = now_ns;
            self.state = State::Ready;
            return Ok(Progress::Ready);
        };
        self.command(command, &body);
        self.preparing = preparing;
        self.state = State::SettingUp;
        self.flush(epoll)?;
        Ok(Progress::Nothing)
    }

    /// Returns whether it is logged in. The tracker sees the login as it would be without TLS and proofs.
    fn log_in(
        &mut self,
        bytes: &[u8],
        epoll: &Epoll,
        context: &ReplayContext<'_>,
    ) -> Result<bool, ConnectionError> {
        let State::LoggingIn(handshake, input) = &mut self.state else { return Ok(false) };
        input.extend_from_slice(bytes);
        let account = match self.script.database.as_str() {
            "" => context.plan.account.clone(),
            database => Account { database: database.to_owned(), ..context.plan.account.clone() },
        };
        let (mut used, mut done) = (0, false);
        while let Some(found) = packet::first(&input[used..]) {
            if !handshake.is_greeted() {
                self.greeting = input[used..used + found.used].to_vec();
            }
            used += found.used;
            match handshake.packet(&account, found.sequence, found.payload, &mut self.out)? {
                LoginStep::Wait => {}
                LoginStep::BeginTls => {
                    // The SSLRequest goes in the clear, what follows it does not.
                    let request = std::mem::take(&mut self.out);
                    handshake.secured(&account, &mut self.out)?;
                    let tls = TlsChannel::begin(context.tls.as_ref(), &context.peer.address, request)?;
                    self.tls = Some(Box::new(tls));
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
        self.flush(epoll)?;
        if done {
            self.set_up(false, &[]);
            let before = self.script.prepared_before.iter();
            self.setup
                .extend(before.map(|(number, text)| (Command::StmtPrepare, text.clone(), Some(*number))));
        }
        Ok(done)
    }

    fn answered(&mut self, finish: Finish, epoll: &Epoll, now_ns: u64) -> Result<Progress, ConnectionError> {
        match self.state {
            State::Busy { step, due_ns, sent_ns } => {
                if let Some(prepared) = finish.prepared {
                    self.prepared.last(prepared);
                }
                let outcome = CommandOutcome {
                    late_ns: sent_ns.saturating_sub(due_ns),
                    own_late_ns: sent_ns.saturating_sub(due_ns.max(self.free_since_ns)),
                    response_ns: now_ns.saturating_sub(due_ns),
                    service_ns: now_ns.saturating_sub(sent_ns),
                    error: finish.error,
                    error_unknown: false,
                    rows: finish.rows,
                    affected: Some(finish.affected),
                };
                self.free_since_ns = now_ns;
                self.state = State::Ready;
                Ok(Progress::Answered(step, outcome))
            }
            State::SettingUp => match finish.error {
                error if self.preparing.is_some() => {
                    if let Some(number) = self.preparing.take() {
                        // Refused here, its executions have to fail, not to meet another statement.
                        self.prepared.last(finish.prepared.filter(|_| error.is_none()).unwrap_or(REFUSED));
                        self.prepared.recorded(number);
                    }
                    self.go_on(epoll, now_ns)
                }
                Some(code) => Err(ConnectionError::SetUp { code }),
                None => self.go_on(epoll, now_ns),
            },
            _ => Ok(Progress::Nothing),
        }
    }

    fn command(&mut self, command: Command, body: &[u8]) {
        let from = self.out.len();
        packet::write(&mut self.out, &mut 0, &[&[command.byte()], body].concat());
        self.tracker.client_bytes(&self.out[from..]);
    }

    fn flush(&mut self, epoll: &Epoll) -> Result<(), ConnectionError> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let out = match &mut self.tls {
            None => &mut self.out,
            Some(tls) => {
                tls.encrypt(&self.out)?;
                self.out.clear();
                tls.out()
            }
        };
        while self.sent < out.len() {
            match rustix::net::send(socket, &out[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let full = self.sent < out.len();
        if !full {
            out.clear();
            self.sent = 0;
        }
        if full != self.writes {
            epoll.rewatch(socket, self.token, full)?;
            self.writes = full;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_free_from_its_login_on_and_not_from_the_start() {
        let script = ScriptSession { at_us: 5_000_000, ..ScriptSession::default() };
        let mut session = ReplayConnection::new(&script, 0, false);
        let progress = session.go_on(&Epoll::new().unwrap(), 5_200_000_000);
        assert!(matches!(progress, Ok(Progress::Ready)));
        assert_eq!(session.free_since_ns, 5_200_000_000, "a login that took 200 ms too long is the target's");
    }
}
