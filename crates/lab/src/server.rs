//! One server of a lab: its files, its process, and asking it things.

use crate::account::{Account, Passwords};
use crate::children::Children;
use crate::error::driver_words;
use crate::layout::ServerSlot;
use crate::option_file::{self, Individual};
use crate::program::Program;
use crate::{Error, ServerSpec, account, datadir};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde::{Deserialize, Serialize};
use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest path of a unix socket.
pub(crate) const SOCKET_PATH_LIMIT: usize = 107;
const POLL: Duration = Duration::from_millis(10);
/// By then all threads have stopped, also those that wait for a disk.
const FREEZE_LIMIT: Duration = Duration::from_secs(10);
const FREEZE_POLL: Duration = Duration::from_millis(1);
/// How much of an error log an error shows.
const LOG_TAIL_LINES: usize = 15;

/// Options beyond the description's, in the server's directory; read at each start.
pub(crate) const OVERRIDE: &str = "override.cnf";
/// `NAME=VALUE` lines, the same.
pub(crate) const ENVIRONMENT: &str = "environment";

/// One server of a lab.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) place: ServerSlot,
    pub(crate) real: SocketAddrV4,
    pub(crate) dir: PathBuf,
    server_id: usize,
    spec: Arc<ServerSpec>,
    program: Arc<Program>,
    passwords: Arc<Passwords>,
    process: Mutex<Process>,
}

/// What became of the process.
#[derive(Debug)]
enum Process {
    None,
    Running(Child),
    Frozen(Child),
    Ended(String),
}

/// Whether a server's process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessState {
    /// It runs (and may still not answer: see the faults in force).
    Running,
    /// Stopped by SIGSTOP: its kernel accepts connections, nobody answers.
    Frozen,
    /// No process.
    Dead,
}

/// What all servers of a lab share.
pub(crate) struct Shared {
    pub(crate) spec: Arc<ServerSpec>,
    pub(crate) program: Arc<Program>,
    pub(crate) passwords: Arc<Passwords>,
}

impl Server {
    /// A server to be, `server_id` distinct in the lab.
    pub(crate) fn new(
        place: ServerSlot,
        real: SocketAddrV4,
        lab: &Path,
        server_id: usize,
        shared: &Shared,
    ) -> Self {
        Self {
            dir: lab.join(place.name.as_str()),
            place,
            real,
            server_id,
            spec: shared.spec.clone(),
            program: shared.program.clone(),
            passwords: shared.passwords.clone(),
            process: Mutex::new(Process::None),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.place.name.as_str()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("sock")
    }

    /// Makes its directory from the template. Blocks.
    pub(crate) fn prepare(&self, template: &Path) -> Result<(), Error> {
        let tmpdir = self.dir.join("tmp");
        fs::create_dir_all(&tmpdir).map_err(Error::io(format!("make {}", tmpdir.display())))?;
        datadir::copy(template, &self.dir.join("data"))?;
        let init = account::statements(self.program.flavour, &self.passwords);
        write_private(&self.init_file(), &init)
    }

    /// Starts the process; `read_only` is what it comes up with. The first start makes the accounts.
    pub(crate) fn start(&self, children: &Children, read_only: bool) -> Result<(), Error> {
        let mut process = self.lock();
        if matches!(process.state(), ProcessState::Running | ProcessState::Frozen) {
            return Ok(());
        }
        let option_file = self.dir.join("my.cnf");
        let individual = Individual { dir: &self.dir, real: self.real, server_id: self.server_id, read_only };
        let mut text = option_file::server(&self.program, &self.spec, &individual);
        // What somebody who varies the server has put beside it comes last, and wins.
        text += &fs::read_to_string(self.dir.join(OVERRIDE)).unwrap_or_default();
        write_private(&option_file, &text)?;
        let mut arguments = vec![format!("--defaults-file={}", option_file.display())];
        if self.init_file().exists() {
            arguments.push(format!("--init-file={}", self.init_file().display()));
        }
        let environment = fs::read_to_string(self.dir.join(ENVIRONMENT)).unwrap_or_default();
        let child = children.spawn(&self.program.path, &arguments, &environment, &self.log());
        *process = Process::Running(child.map_err(Error::io(format!("start server {}", self.name())))?);
        Ok(())
    }

    /// Waits until it answers; fails at once when the process ends.
    pub(crate) async fn wait_ready(&self, limit: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        loop {
            let attempt = tokio::time::timeout(Duration::from_secs(2), self.connect()).await;
            let last = match attempt {
                Ok(Ok(conn)) => {
                    close(conn).await;
                    // It holds passwords and its work is done.
                    let _ = fs::remove_file(self.init_file());
                    return Ok(());
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it accepts but does not answer".to_owned(),
            };
            if let Some(status) = self.exit_status() {
                return Err(Error::Died { server: self.name().to_owned(), status, log: self.log_tail() });
            }
            if Instant::now() > deadline {
                let what = format!("an answer from server {}", self.name());
                return Err(Error::TooLate { what, limit, last });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// A connection of root over the unix socket: no link, no fault of a link touches it.
    pub(crate) async fn connect(&self) -> Result<Conn, Error> {
        let opts = options().socket(self.socket().to_str()).user(Some(Account::Root.user()));
        let opts = opts.pass(Some(self.passwords.of(Account::Root)));
        Conn::new(opts).await.map_err(|e| self.sql_error("connecting over its socket", &e))
    }

    /// Waits until a user has no session any more.
    pub(crate) async fn wait_gone(&self, user: &str, limit: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        let mut conn = self.connect().await?;
        loop {
            let asked = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = ?";
            let found = conn.exec_first(asked, (user,)).await;
            let left: u32 = found.map_err(|e| self.sql_error(asked, &e))?.unwrap_or_default();
            if left == 0 {
                close(conn).await;
                return Ok(());
            }
            if Instant::now() > deadline {
                let what = format!("the end of the sessions of '{user}' on server {}", self.name());
                return Err(Error::TooLate { what, limit, last: format!("{left} are left") });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Runs statements in order on one connection, all within `limit`.
    pub(crate) async fn run(&self, statements: &[String], limit: Duration) -> Result<(), Error> {
        let work = async {
            let mut conn = self.connect().await?;
            for statement in statements {
                let done = conn.query_drop(statement).await;
                done.map_err(|e| self.sql_error(&account::without_passwords(statement), &e))?;
            }
            close(conn).await;
            Ok(())
        };
        let late = |_| Error::TooLate {
            what: format!("server {} running {} statements", self.name(), statements.len()),
            limit,
            last: "no answer".to_owned(),
        };
        tokio::time::timeout(limit, work).await.map_err(late)?
    }

    pub(crate) fn sql_error(&self, doing: &str, error: &mysql_async::Error) -> Error {
        let why = driver_words(error);
        Error::Sql { server: self.name().to_owned(), doing: doing.to_owned(), why }
    }

    /// Kills it as a crash would (SIGKILL) and waits until it has ended.
    pub(crate) fn kill(&self) {
        let mut process = self.lock();
        if let Some(child) = process.child() {
            let ended = child.kill().and_then(|()| child.wait());
            *process = Process::Ended(ended.map_or_else(|e| e.to_string(), |status| status.to_string()));
        }
    }

    /// Asks it to shut down.
    pub(crate) fn ask_to_stop(&self) {
        // A stopped process would not hear it.
        self.signal(Signal::CONT);
        self.signal(Signal::TERM);
    }

    /// Asks it to shut down and waits; kills it at the limit.
    pub(crate) async fn stop(&self, limit: Duration) {
        self.ask_to_stop();
        let deadline = Instant::now() + limit;
        while self.state() != ProcessState::Dead {
            if Instant::now() > deadline {
                tracing::warn!(server = self.name(), "did not shut down in time and was killed");
                return self.kill();
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Stops its process where it stands (SIGSTOP) and waits until all its threads do: a thread under way
    /// stops a moment after the signal was sent. `false` when it does not run.
    pub(crate) async fn freeze(&self) -> Result<bool, Error> {
        if self.state() == ProcessState::Dead || !self.signal(Signal::STOP) {
            return Ok(false);
        }
        let deadline = Instant::now() + FREEZE_LIMIT;
        while !self.lock().stands_still() {
            if self.state() == ProcessState::Dead {
                return Ok(false);
            }
            if Instant::now() > deadline {
                self.signal(Signal::CONT);
                let what = format!("server {} standing still", self.name());
                let last = "a thread still runs".to_owned();
                return Err(Error::TooLate { what, limit: FREEZE_LIMIT, last });
            }
            tokio::time::sleep(FREEZE_POLL).await;
        }
        let mut process = self.lock();
        match std::mem::replace(&mut *process, Process::None) {
            Process::Running(child) => *process = Process::Frozen(child),
            other => *process = other,
        }
        Ok(true)
    }

    /// Lets a frozen process go on.
    pub(crate) fn thaw(&self) -> bool {
        let done = self.state() == ProcessState::Frozen && self.signal(Signal::CONT);
        let mut process = self.lock();
        match std::mem::replace(&mut *process, Process::None) {
            Process::Frozen(child) if done => *process = Process::Running(child),
            other => *process = other,
        }
        done
    }

    pub(crate) fn state(&self) -> ProcessState {
        self.lock().state()
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        let mut process = self.lock();
        match process.state() {
            ProcessState::Dead => None,
            _ => process.child().map(|c| c.id()),
        }
    }

    fn exit_status(&self) -> Option<String> {
        let mut process = self.lock();
        match (process.state(), &*process) {
            (ProcessState::Dead, Process::Ended(status)) => Some(status.clone()),
            (ProcessState::Dead, _) => Some("not started".to_owned()),
            _ => None,
        }
    }

    fn signal(&self, signal: Signal) -> bool {
        let mut process = self.lock();
        // Held while signalling: the child cannot be reaped, and its id reused, in between.
        process.id().is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    fn init_file(&self) -> PathBuf {
        self.dir.join("init.sql")
    }

    fn log(&self) -> PathBuf {
        self.dir.join("error.log")
    }

    fn log_tail(&self) -> String {
        let text = fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    fn lock(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Process {
    fn child(&mut self) -> Option<&mut Child> {
        match self {
            Self::Running(child) | Self::Frozen(child) => Some(child),
            Self::None | Self::Ended(_) => None,
        }
    }

    fn id(&mut self) -> Option<Pid> {
        self.child().and_then(|c| i32::try_from(c.id()).ok()).and_then(Pid::from_raw)
    }

    /// Whether all its threads are stopped: what the kernel tells the parent once the last of them is.
    fn stands_still(&mut self) -> bool {
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.id().is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), stopped), Ok(Some(_))))
    }

    /// Looks whether it ended meanwhile.
    fn state(&mut self) -> ProcessState {
        if let Some(Ok(Some(status))) = self.child().map(Child::try_wait) {
            *self = Self::Ended(status.to_string());
        }
        match self {
            Self::Running(_) => ProcessState::Running,
            Self::Frozen(_) => ProcessState::Frozen,
            Self::None | Self::Ended(_) => ProcessState::Dead,
        }
    }
}

/// Connection options of the lab: nothing is asked of the server on its own account, and a TCP connection
/// stays one.
pub(crate) fn options() -> OptsBuilder {
    let opts = OptsBuilder::default().prefer_socket(false);
    opts.max_allowed_packet(Some(16 << 20)).wait_timeout(Some(28_800))
}

/// Says goodbye; whether the server heard it does not matter.
pub(crate) async fn close(conn: Conn) {
    if let Err(error) = conn.disconnect().await {
        tracing::debug!(%error, "a connection of the lab did not close in order");
    }
}

/// Writes a file that only we can read.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let file = fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut f| f.write_all(text.as_bytes()))
        .map_err(Error::io(format!("write {}", path.display())))
}
