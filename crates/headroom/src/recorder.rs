//! Recorder: lets `headroom record` on this host take what clients send through a running router.
//!
//! Not over the admin address, which has no password: what is recorded are people's data. The router waits on an abstract
//! unix socket named like the one for upgrades, and the kernel says who comes: only our own user and root are let in.
//!
//! | command | router |
//! |---|---|
//! | connects, sends a line of JSON: [`Request`] | answers a line of JSON: [`Answer`] |
//! | reads events | sends events as they come, the last one [`recording::Event::Stopped`], and closes |
//! | sends `S`: that is enough | stops at once, the same way |
//! | closes | stops |
//!
//! The command writes the file, so it belongs to whoever asked, its key never comes near the router, and a full disk ends the
//! command and not the router. A command that does not read makes the queue overflow, which is counted.

use crate::upgrade::check_peer;
use router::{Recording, Wanted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The longest a recording may take.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// How long a command has to say what it wants, and to take what it is sent.
const WORD: Duration = Duration::from_secs(10);
/// Between two looks at the queue. Short, so that arrivals on disk are never far behind; long enough to cost nothing.
const LOOK: Duration = Duration::from_millis(4);
/// Between two looks whether we still serve, and tries for a name that another process has.
const SELDOM: Duration = Duration::from_millis(500);
/// Sent at once.
const CHUNK: usize = 256 * 1024;
/// A request is one short line.
const LINE: u64 = 4096;
const ENOUGH: u8 = b'S';

/// What a command asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// One session in so many.
    pub(crate) one_in: u32,
    /// For how long.
    pub(crate) for_ms: u64,
}

/// What it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Why not; `null` when it begins.
    pub(crate) refused: Option<String>,
    /// The version that answers.
    pub(crate) headroom: String,
    /// Sessions that go past the router and are not recorded.
    pub(crate) past: u64,
}

/// What begins recordings.
pub(crate) trait Records: Send + Sync + 'static {
    /// Begins one, and tells how many sessions go past.
    ///
    /// # Errors
    /// Why not, in words.
    fn record(&self, wanted: Wanted) -> Result<(Recording, u64), String>;
}

/// The name under which the router with this admin address (or first listener) is asked.
pub(crate) fn name(address: &str) -> String {
    format!("headroom-record/{address}")
}

/// Serves, on a thread of its own, until `over` is set.
///
/// # Errors
/// No thread is to be had.
pub(crate) fn serve(name: String, records: Arc<dyn Records>, over: Arc<AtomicBool>) -> std::io::Result<()> {
    let run = move || {
        let Some(listener) = bind(&name, &over) else { return };
        while !over.load(Relaxed) {
            if !readable(&listener, SELDOM) {
                continue;
            }
            let Ok((command, _)) = listener.accept() else {
                std::thread::sleep(SELDOM);
                continue;
            };
            let (records, over) = (records.clone(), over.clone());
            let talk = move || {
                if let Err(error) = talk(&command, &*records, &over) {
                    tracing::warn!("a recording ended early: {error:#}");
                }
            };
            if let Err(error) = std::thread::Builder::new().name("headroom-record".to_owned()).spawn(talk) {
                tracing::warn!(%error, "no thread for a recording");
            }
        }
    };
    std::thread::Builder::new().name("headroom-recorder".to_owned()).spawn(run).map(drop)
}

/// The name, once the process before us has left it.
fn bind(name: &str, over: &AtomicBool) -> Option<UnixListener> {
    while !over.load(Relaxed) {
        let bound = SocketAddr::from_abstract_name(name).and_then(|name| UnixListener::bind_addr(&name));
        match bound {
            Ok(listener) => return Some(listener),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => std::thread::sleep(SELDOM),
            Err(error) => {
                tracing::warn!(name, %error, "nothing can be recorded from this process");
                return None;
            }
        }
    }
    None
}

fn talk(mut command: &UnixStream, records: &dyn Records, over: &AtomicBool) -> anyhow::Result<()> {
    check_peer(command)?;
    command.set_read_timeout(Some(WORD))?;
    command.set_write_timeout(Some(WORD))?;
    let mut line = String::new();
    BufReader::new(command.take(LINE)).read_line(&mut line)?;
    let request: Request = serde_json::from_str(&line)?;
    let wanted =
        Wanted { one_in: request.one_in.max(1), time: Duration::from_millis(request.for_ms).min(LONGEST) };
    let begun = records.record(wanted);
    let (refused, past) = match &begun {
        Ok((_, past)) => (None, *past),
        Err(why) => (Some(why.clone()), 0),
    };
    let answer = Answer { refused, headroom: env!("CARGO_PKG_VERSION").to_owned(), past };
    command.write_all((serde_json::to_string(&answer)? + "\n").as_bytes())?;
    let Ok((recording, _)) = begun else { return Ok(()) };
    tracing::warn!(
        seconds = wanted.time.as_secs_f64(),
        one_in = wanted.one_in,
        "a recording begins: a command on this host receives what clients send, literals included"
    );
    let told = tell(command, recording, over);
    tracing::warn!("the recording is over");
    told
}

fn tell(mut command: &UnixStream, recording: Recording, over: &AtomicBool) -> anyhow::Result<()> {
    let mut chunk = Vec::with_capacity(CHUNK);
    let why = loop {
        if recording.is_over() {
            break "its time was over";
        }
        if over.load(Relaxed) {
            break "the router stopped";
        }
        if readable(command, if chunk.is_empty() { LOOK } else { Duration::ZERO }) {
            let mut word = [0];
            match command.read(&mut word) {
                Ok(1) if word == [ENOUGH] => break "it was stopped by hand",
                // It has left, and what it wanted with it.
                _ => return Ok(()),
            }
        }
        chunk.clear();
        recording.drain(&mut chunk, CHUNK);
        command.write_all(&chunk)?;
    };
    command.write_all(&recording.finish(why))?;
    Ok(())
}

fn readable(socket: impl std::os::fd::AsFd, patience: Duration) -> bool {
    let timeout = Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(patience.subsec_nanos()),
    };
    let mut fds = [PollFd::new(&socket, PollFlags::IN)];
    poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0)
}

/// A running router, asked to record.
pub(crate) struct Asked {
    pub(crate) stream: UnixStream,
    pub(crate) answer: Answer,
}

/// Asks the router of this name.
///
/// # Errors
/// When none is there, or it runs as somebody else, or it refuses; in words.
pub(crate) fn ask(address: &str, request: &Request) -> anyhow::Result<Asked> {
    let socket = SocketAddr::from_abstract_name(name(address))?;
    let mut stream = UnixStream::connect_addr(&socket).map_err(|error| {
        anyhow::anyhow!(
            "no headroom route of this host can be recorded at {address} ({error}); name its admin address with --router \
             (its first listener, if it has none), and run this on its host"
        )
    })?;
    check_peer(&stream).map_err(|error| anyhow::anyhow!("{error}: only its own user and root may record"))?;
    stream.set_read_timeout(Some(WORD))?;
    stream.write_all((serde_json::to_string(request)? + "\n").as_bytes())?;
    // Byte by byte: what comes behind the line is not ours to read yet.
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < LINE as usize {
        let got = stream.read(&mut byte)?;
        anyhow::ensure!(got == 1, "the router ended the conversation; only its own user and root may record");
        if byte == *b"\n" {
            break;
        }
        line.push(byte[0]);
    }
    let answer: Answer = serde_json::from_slice(&line)?;
    if let Some(why) = answer.refused {
        anyhow::bail!("{why}");
    }
    Ok(Asked { stream, answer })
}

/// Says that it is enough.
pub(crate) fn enough(mut stream: &UnixStream) {
    // It may have ended by itself.
    let _ = stream.write_all(&[ENOUGH]);
}
