//! Take: events become a recording on disk, from a running router as they come, or from a server's log.

use crate::error::RecordingError;
use crate::event::Event;
use crate::log::{self, Kind};
use crate::output::Output;
use crate::summary::RecordingSummary;
use std::io::{BufRead, ErrorKind, Read};
use std::time::{Duration, Instant};

/// What has come is in the file after this long at most; a read of a router's events waits no longer.
pub const FLUSH: Duration = Duration::from_millis(200);
/// A router that says nothing for this long while it records has ended.
const SILENCE: Duration = Duration::from_secs(30);
const CHUNK: usize = 256 * 1024;

/// Takes events of a router until it says that it was the last. A read of `stream` ends after [`FLUSH`], with
/// or without events; `time` is how long the router was asked to record. `progress` is shown what there is
/// after so much time.
///
/// # Errors
/// The router breaks off or falls silent, or the file system says no; what came before is in the file.
pub fn live(
    mut stream: impl Read,
    mut output: Output,
    mut summary: RecordingSummary,
    time: Duration,
    mut progress: impl FnMut(Duration, &RecordingSummary),
) -> Result<RecordingSummary, RecordingError> {
    let (begun, mut flushed, mut heard) = (Instant::now(), Instant::now(), Instant::now());
    let (mut pending, mut chunk) = (Vec::new(), vec![0; CHUNK]);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => {
                pending.extend_from_slice(&chunk[..count]);
                heard = Instant::now();
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(source) => return Err(RecordingError::BrokeOff { source }),
        }
        let mut rest = pending.as_slice();
        while let Some(event) = Event::read(&mut rest) {
            summary.count(&event);
            output.push(&event)?;
        }
        let used = pending.len() - rest.len();
        pending.drain(..used);
        if flushed.elapsed() >= FLUSH {
            output.flush()?;
            flushed = Instant::now();
        }
        progress(begun.elapsed(), &summary);
        if begun.elapsed() > time + SILENCE && heard.elapsed() > SILENCE {
            return Err(RecordingError::Silent { silence: SILENCE });
        }
    }
    drop(progress);
    if summary.seconds == 0.0 {
        summary.seconds = begun.elapsed().as_secs_f64();
    }
    summary.bytes = output.finish()?;
    Ok(summary)
}

/// Reads a log to its end; `name` is what it is called.
///
/// # Errors
/// What cannot be read or written, or that is no such log; then no recording is left.
pub fn log(
    kind: Kind,
    input: impl BufRead,
    name: &str,
    mut output: Output,
) -> Result<RecordingSummary, RecordingError> {
    let mut summary = RecordingSummary::of(&output);
    let what = if kind == Kind::Slow { "slow log" } else { "general log" };
    let read = log::read(kind, input, &format!("{what} {name}"), |event: &Event| {
        summary.count(event);
        output.push(event)
    });
    if let Err(source) = read {
        output.discard();
        return Err(RecordingError::Log { log: name.to_owned(), source: Box::new(source) });
    }
    summary.bytes = output.finish()?;
    Ok(summary)
}
