//! Commands over the control socket: drain, undrain and record, from a program of this host that runs as the
//! router's user.
//!
//! Not over the admin address, which has no password: a drain ends sessions, and what is recorded are
//! people's data. A command is one line of JSON ([`Request`]), and so is the answer; after that of `record`
//! events follow.

use super::{ControlListener, Directory, Purpose, Unavailable, check_peer, reach};
use crate::admin_client;
use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::net::ToSocketAddrs;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long a command has to say what it wants, and to take what it is sent.
const WORD: Duration = Duration::from_secs(10);
/// Between two looks whether we still serve, and tries for a name that another process has.
const SELDOM: Duration = Duration::from_millis(500);
/// A process before us has left the name after this long; if not, somebody is told.
const NAME: Duration = Duration::from_secs(10);
/// Commands at the same time; more are closed unheard.
const MOST: usize = 16;
/// A request and an answer are one short line.
const LINE: usize = 4096;

/// What a command asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Empty a server.
    Drain(DrainRequest),
    /// Let it take sessions again.
    Undrain {
        /// Which.
        server: String,
    },
    /// Record what clients send.
    Record(RecordRequest),
}

/// Which server to empty, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// Its name.
    pub server: String,
    /// Empty after this long; the configured deadline where absent.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
    /// Also the primary, and the last server that takes reads.
    #[serde(default)]
    pub force: bool,
}

/// What to record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordRequest {
    /// One session in this many.
    pub one_in: u32,
    /// For how long.
    pub for_ms: u64,
}

/// The answer to a drain and an undrain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainAnswer {
    /// Whether it was done.
    pub done: bool,
    /// In words.
    pub text: String,
}

/// What carries commands out: a running router.
pub trait Controlled: Send + Sync + 'static {
    /// Empties a server.
    ///
    /// # Errors
    /// Why not, and what would be right: the command shows it.
    fn drain(&self, request: &DrainRequest) -> anyhow::Result<()>;
    /// Lets it take sessions again.
    ///
    /// # Errors
    /// As [`Self::drain`].
    fn undrain(&self, server: &str) -> anyhow::Result<()>;
    /// Answers a command that wants to record, and sends it what clients send until it has enough or `over`
    /// is set.
    ///
    /// # Errors
    /// The command is not reached any more.
    fn record(&self, command: &UnixStream, request: &RecordRequest, over: &AtomicBool) -> anyhow::Result<()>;
}

/// Serves, on a thread of its own, until `over` is set; or until `moved` is, because another thread answers
/// under another address: what was begun here goes on.
///
/// # Errors
/// No thread can be started.
pub fn serve(
    directory: Directory,
    address: String,
    controlled: Arc<dyn Controlled>,
    over: Arc<AtomicBool>,
    moved: Arc<AtomicBool>,
) -> std::io::Result<()> {
    let run = move || {
        let ends = || over.load(Relaxed) || moved.load(Relaxed);
        let Some(listener) = bind(&directory, &address, ends) else { return };
        let open = Arc::new(AtomicUsize::new(0));
        while !ends() {
            if !readable(listener.listener(), SELDOM) {
                continue;
            }
            let Ok((stream, _)) = listener.listener().accept() else {
                std::thread::sleep(SELDOM);
                continue;
            };
            if open.load(Relaxed) >= MOST {
                tracing::warn!("a command was closed unheard: {MOST} are being carried out");
                continue;
            }
            open.fetch_add(1, Relaxed);
            let (controlled, over, done) = (controlled.clone(), over.clone(), open.clone());
            let talk = move || {
                if let Err(error) = talk(&stream, &*controlled, &over) {
                    tracing::warn!("a command ended early: {error:#}");
                }
                done.fetch_sub(1, Relaxed);
            };
            if let Err(error) = std::thread::Builder::new().name("headroom-command".to_owned()).spawn(talk) {
                open.fetch_sub(1, Relaxed);
                tracing::warn!(%error, "no thread for a command");
            }
        }
    };
    std::thread::Builder::new().name("headroom-control".to_owned()).spawn(run).map(drop)
}

/// The name, once the process before us has left it.
fn bind(directory: &Directory, address: &str, ends: impl Fn() -> bool) -> Option<ControlListener> {
    let (begun, mut said) = (Instant::now(), false);
    while !ends() {
        match ControlListener::bind(directory, Purpose::Command, address) {
            Ok(listener) => return Some(listener),
            Err(error @ Unavailable::InUse { .. }) => {
                if begun.elapsed() > NAME && !said {
                    said = true;
                    tracing::warn!("no command reaches this process yet: {error}; it waits for the name");
                }
                std::thread::sleep(SELDOM);
            }
            Err(error) => {
                tracing::error!("no command reaches this process (drain, undrain, record): {error}");
                return None;
            }
        }
    }
    None
}

fn talk(mut stream: &UnixStream, controlled: &dyn Controlled, over: &AtomicBool) -> anyhow::Result<()> {
    check_peer(stream)?;
    stream.set_read_timeout(Some(WORD))?;
    stream.set_write_timeout(Some(WORD))?;
    let Some(line) = line(stream)? else { return Ok(()) };
    match serde_json::from_slice(&line).context("it is no command of this version of headroom")? {
        Request::Drain(request) => {
            let words = if request.force { ", forced" } else { "" };
            let text = format!(
                "{} is being drained{words}: no new sessions, present ones leave when they can",
                request.server
            );
            say(stream, &answer(controlled.drain(&request), text))?;
        }
        Request::Undrain { server } => {
            let text = format!("{server} takes sessions again");
            say(stream, &answer(controlled.undrain(&server), text))?;
        }
        Request::Record(request) => controlled.record(stream, &request, over)?,
    }
    // What it has not read of us yet must not be lost with a reset.
    let _ = stream.flush();
    Ok(())
}

fn answer(done: anyhow::Result<()>, text: String) -> DrainAnswer {
    match done {
        Ok(()) => {
            tracing::info!("by command: {text}");
            DrainAnswer { done: true, text }
        }
        Err(error) => DrainAnswer { done: false, text: format!("{error:#}") },
    }
}

/// Writes one line of JSON.
pub fn say(mut stream: &UnixStream, what: &impl Serialize) -> anyhow::Result<()> {
    stream.write_all((serde_json::to_string(what)? + "\n").as_bytes())?;
    Ok(())
}

/// One line; `None` when the other side closed before it said anything, as one does that only looks who is
/// there.
///
/// Byte by byte: what comes behind the line is not ours to read yet.
fn line(mut stream: &UnixStream) -> anyhow::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < LINE {
        match stream.read(&mut byte)? {
            0 if line.is_empty() => return Ok(None),
            0 => anyhow::bail!("it closed in the middle of a line"),
            _ if byte == *b"\n" => return Ok(Some(line)),
            _ => line.push(byte[0]),
        }
    }
    anyhow::bail!("it sent a line of more than {LINE} bytes")
}

/// Waits until there is something to read or somebody to accept.
pub fn readable(socket: impl std::os::fd::AsFd, patience: Duration) -> bool {
    let timeout = Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(patience.subsec_nanos()),
    };
    let mut fds = [PollFd::new(&socket, PollFlags::IN)];
    poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0)
}

/// A router that has answered.
pub struct Reached<A> {
    pub stream: UnixStream,
    /// What it is known by.
    pub address: String,
    pub answer: A,
}

/// Asks the running router that is known by this address (by default the usual one) on this host.
///
/// # Errors
/// None is there, it runs as another user, or it did not answer; in words.
pub fn ask<A: DeserializeOwned>(
    named: Option<&str>,
    directory: &Directory,
    request: &Request,
) -> anyhow::Result<Reached<A>> {
    let named = admin_client::address(named);
    let mut found = None;
    for address in addresses(&named) {
        if let Some(stream) = reach(directory, Purpose::Command, &address)? {
            found = Some((stream, address));
            break;
        }
    }
    let (stream, address) = found.with_context(|| {
        format!(
            "no headroom route of this host and this user (number {}) is known by {named} (looked in {}); name its admin \
             address (its first listener, if it has none), and run this as its user: sudo -u USER headroom ...",
            rustix::process::geteuid().as_raw(),
            directory.path().display()
        )
    })?;
    stream.set_read_timeout(Some(WORD))?;
    stream.set_write_timeout(Some(WORD))?;
    say(&stream, request)?;
    let answer = line(&stream)?.context("the router ended the conversation: its log says why")?;
    let answer = serde_json::from_slice(&answer).context("it does not answer like headroom route")?;
    Ok(Reached { stream, address, answer })
}

/// What a router may be known by: the text as it is, and the addresses that a name in it stands for.
fn addresses(named: &str) -> Vec<String> {
    let mut all = vec![named.to_owned()];
    if named.parse::<std::net::SocketAddr>().is_err()
        && let Ok(resolved) = named.to_socket_addrs()
    {
        all.extend(resolved.map(|address| address.to_string()));
    }
    all
}

#[cfg(test)]
#[path = "server/tests.rs"]
mod tests;
