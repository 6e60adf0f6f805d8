//! A server that plays a part: speaks the protocol on a real socket and answers what a script says.
//!
//! For servers that cannot run here (Aurora, RDS Multi-AZ clusters) and for those that misbehave: greet with
//! garbage, refuse with error 1040, hang, close. It logs clients in with `mysql_native_password`, so any
//! driver gets in.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use lab::scripted::{Reply, Script, ScriptedServer};
//! let script = Script::new("8.0.39", |statement, _session| match statement {
//!     "SELECT @@aurora_server_id" => Reply::value("aurora_server_id", "reader-1"),
//!     _ => Reply::Usual,
//! });
//! let server = ScriptedServer::start(script).await?;
//! println!("listening on {}", server.address());
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

mod session;
mod usual;

type AnswerFn = dyn Fn(&str, &Session) -> Reply + Send + Sync;

/// What a scripted server does.
#[derive(Clone)]
pub struct Script {
    version: String,
    login: Option<(String, String)>,
    address: SocketAddrV4,
    opening: Opening,
    answer: Arc<AnswerFn>,
}

/// How a server meets a new connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Opening {
    /// Greets and logs in, as servers do.
    #[default]
    Greet,
    GreetAfter(Duration),
    /// Sends these bytes and waits.
    Garbage(Vec<u8>),
    /// Sends an error in place of a greeting: 1040 (too many connections), 1129 (host is blocked) ...
    Refuse {
        /// The error's number.
        code: u16,
        message: String,
    },
    /// Closes at once.
    Close,
    /// Sends nothing.
    Hang,
    /// Greets, and closes instead of answering the login.
    CloseAtLogin,
    /// Greets, and never answers the login.
    HangAtLogin,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Counts from 1 on each server.
    pub connection_id: u32,
    /// The name given at login.
    pub user: String,
    /// The default database; empty for none.
    pub database: String,
    /// Where the client comes from.
    pub peer: SocketAddr,
    /// Statements on this connection before this one.
    pub statements: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A result set; `None` is NULL.
    Rows {
        /// Names of the columns, at least one.
        columns: Vec<String>,
        /// Their values in text form.
        rows: Vec<Vec<Option<String>>>,
    },
    Ok,
    Err {
        code: u16,
        /// Five characters.
        sqlstate: [u8; 5],
        message: String,
    },
    /// Nothing, ever; the connection stays.
    Hang,
    /// Nothing; the connection is closed.
    Close,
    /// The reply after a while.
    Delay(Duration, Box<Reply>),
    /// What an ordinary server of this version answers: settings that drivers ask for at the start, `SET`,
    /// `SELECT 1`, `SELECT VERSION()`; for all else a syntax error that says the script has no answer.
    Usual,
}

/// A running scripted server; it and its connections end when this is dropped.
pub struct ScriptedServer {
    address: SocketAddr,
    opening: Arc<Mutex<Opening>>,
    connections: Arc<AtomicU32>,
    task: AbortHandle,
}

impl Script {
    /// A server of this version (`8.0.39`, `10.11.6-MariaDB`) that asks `answer` for every statement. Any
    /// user gets in.
    pub fn new(version: &str, answer: impl Fn(&str, &Session) -> Reply + Send + Sync + 'static) -> Self {
        Self {
            version: version.to_owned(),
            login: None,
            address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0),
            opening: Opening::Greet,
            answer: Arc::new(answer),
        }
    }

    /// Lets only this user in; others get error 1045.
    #[must_use]
    pub fn login(mut self, user: &str, password: &str) -> Self {
        self.login = Some((user.to_owned(), password.to_owned()));
        self
    }

    /// Listens here instead of on a free port of 127.0.0.1. Addresses outside 127.0.0.0/8 are refused at the
    /// start.
    #[must_use]
    pub fn on(mut self, address: SocketAddrV4) -> Self {
        self.address = address;
        self
    }

    /// Meets connections like this.
    #[must_use]
    pub fn opening(mut self, opening: Opening) -> Self {
        self.opening = opening;
        self
    }
}

impl Reply {
    /// A result set.
    pub fn rows(columns: &[&str], rows: &[&[Option<&str>]]) -> Self {
        let row = |row: &&[Option<&str>]| row.iter().map(|v| v.map(str::to_owned)).collect();
        Self::Rows {
            columns: columns.iter().map(|c| (*c).to_owned()).collect(),
            rows: rows.iter().map(row).collect(),
        }
    }

    /// One row of one column.
    pub fn value(column: &str, value: &str) -> Self {
        Self::rows(&[column], &[&[Some(value)]])
    }

    /// A general error (SQLSTATE HY000).
    pub fn error(code: u16, message: &str) -> Self {
        Self::Err { code, sqlstate: *b"HY000", message: message.to_owned() }
    }

    /// The same after a while.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self::Delay(delay, Box::new(self))
    }
}

impl ScriptedServer {
    /// Listens and plays.
    pub async fn start(script: Script) -> io::Result<Self> {
        if !script.address.ip().is_loopback() {
            let text = format!("a scripted server listens on loopback only, not on {}", script.address);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(script.address.into())?;
        let listener = socket.listen(1024)?;
        let address = listener.local_addr()?;
        let opening = Arc::new(Mutex::new(script.opening.clone()));
        let connections = Arc::new(AtomicU32::new(0));
        let task = tokio::spawn(play(listener, script, opening.clone(), connections.clone())).abort_handle();
        Ok(Self { address, opening, connections, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections so far.
    pub fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Meets connections from now on like this.
    pub fn set_opening(&self, opening: Opening) {
        *self.opening.lock().unwrap_or_else(PoisonError::into_inner) = opening;
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("version", &self.version).field("opening", &self.opening).finish()
    }
}

impl fmt::Debug for ScriptedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedServer").field("address", &self.address).finish()
    }
}

async fn play(
    listener: TcpListener,
    script: Script,
    opening: Arc<Mutex<Opening>>,
    connections: Arc<AtomicU32>,
) {
    let script = Arc::new(script);
    // Dropped with this task: every connection ends with the server.
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, peer)) = accepted else { continue };
                let number = connections.fetch_add(1, Ordering::Relaxed) + 1;
                let opening = opening.lock().unwrap_or_else(PoisonError::into_inner).clone();
                sessions.spawn(meet(stream, peer, number, script.clone(), opening));
            }
            Some(ended) = sessions.join_next() => {
                if let Ok(Err(error)) = ended {
                    tracing::debug!(%error, "a scripted session ended");
                }
            }
        }
    }
}

async fn meet(
    stream: TcpStream,
    peer: SocketAddr,
    number: u32,
    script: Arc<Script>,
    opening: Opening,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    session::Connection::new(stream).serve(&script, &opening, peer, number).await
}
