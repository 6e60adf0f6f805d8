//! Recorder: lets `headroom record` on this host take what clients send through a running router.
//!
//! Over the control socket ([`console::control`]), which only the router's own user reaches: what is recorded
//! are people's data.
//!
//! | command | router |
//! |---|---|
//! | connects, sends a line of JSON: [`RecordRequest`] | answers a line of JSON: [`RecordAnswer`] |
//! | reads events | sends events as they come, the last one `RecordingEnd`, and closes |
//! | sends `S`: that is enough | stops at once, the same way |
//! | closes | stops |
//!
//! The command writes the file, so it belongs to whoever asked, its key never comes near the router, and a
//! full disk ends the command and not the router. A command that does not read makes the queue overflow,
//! which is counted.

use crate::error::EngineError;
use console::control::Directory;
use console::control::server::{Reached, RecordRequest, Request, ask, readable, say};
use router::{Recording, RecordingRequest};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The longest a recording may take.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Between two looks at the queue. Short, so that arrivals on disk are never far behind; long enough to cost
/// nothing.
const LOOK: Duration = Duration::from_millis(4);
/// Sent at once.
const CHUNK: usize = 256 * 1024;
const ENOUGH: u8 = b'S';

/// What it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordAnswer {
    /// Why not; `null` when it begins.
    pub refused: Option<String>,
    /// The version that answers.
    pub headroom: String,
    /// What will not be in it.
    #[serde(flatten)]
    pub missing: Missing,
}

/// Sessions as a recording begins, by whether it can have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Sessions that bypass the router and are not recorded.
    pub bypassed: u64,
    /// Sessions that are relayed: recorded from their next command outside a transaction.
    pub relayed: u64,
}

/// Records for the command at the other end, until it has enough; `begin` begins a recording, and says what
/// it will not have or why there is none.
///
/// # Errors
/// The command is not reached any more.
pub fn record(
    command: &UnixStream,
    request: &RecordRequest,
    over: &AtomicBool,
    begin: impl FnOnce(RecordingRequest) -> Result<(Recording, Missing), EngineError>,
) -> anyhow::Result<()> {
    let wanted = RecordingRequest {
        one_in: request.one_in.max(1),
        time: Duration::from_millis(request.for_ms).min(LONGEST),
    };
    let begun = begin(wanted);
    let (refused, missing) = match &begun {
        Ok((_, missing)) => (None, *missing),
        Err(why) => (Some(why.to_string()), Missing::default()),
    };
    say(command, &RecordAnswer { refused, headroom: env!("CARGO_PKG_VERSION").to_owned(), missing })?;
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

/// A running router, asked to record.
pub struct RecordingRouter {
    pub stream: UnixStream,
    /// What the router is known by.
    pub address: String,
    pub answer: RecordAnswer,
}

/// Asks the router of this name (`--router`, else as [`ask`] finds it).
///
/// # Errors
/// None is there, it runs as another user, or it refuses; in words.
pub fn begin(
    router: Option<&str>,
    directory: &Directory,
    request: RecordRequest,
) -> anyhow::Result<RecordingRouter> {
    let Reached { stream, address, answer } =
        ask::<RecordAnswer>(router, directory, &Request::Record(request))?;
    if let Some(why) = answer.refused {
        anyhow::bail!("{why}");
    }
    Ok(RecordingRouter { stream, address, answer })
}

/// Says that it is enough.
pub fn enough(mut stream: &UnixStream) {
    // It may have ended by itself.
    let _ = stream.write_all(&[ENOUGH]);
}
