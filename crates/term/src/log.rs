//! Log lines on standard error, for people or as JSON. Whoever logs never waits: lines go to a thread that
//! writes them, through a queue that holds this many. What finds no room there (nobody reads the pipe), or on
//! a full disk, is counted, and told of by the first line that finds room again; see [`Lines`].

use crate::no_room::Lines;
use clap::ValueEnum;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt};

/// Lines that wait to be written: at some 200 bytes each, under a megabyte.
const QUEUE: usize = 4096;
/// A line is cut after this, so that what waits has a limit.
const LONGEST: usize = 16 * 1024;
/// What is still to be written when we leave may take this long.
const FAREWELL: Duration = Duration::from_secs(1);
/// What was dropped is told at the latest this long after there is room again.
const TELL_WITHIN: Duration = Duration::from_secs(1);
const NOBODY_READS: &str = "they came faster than they were taken";

/// What sees spans and events beside the log, by a filter of its own.
pub type Beside = Box<dyn Layer<Registry> + Send + Sync>;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Writes what is queued before it goes, as far as somebody takes it.
#[must_use]
pub struct Flush(SyncSender<Item>);

enum Item {
    Line(Vec<u8>),
    /// All before is to be written; then this is answered.
    Flush(SyncSender<()>),
}

impl Drop for Flush {
    fn drop(&mut self) {
        let (done, written) = sync_channel(1);
        // With a full queue nobody is taking anything.
        if self.0.try_send(Item::Flush(done)).is_ok() {
            let _ = written.recv_timeout(FAREWELL);
        }
    }
}

/// Sets up logging. `filter` is the flag or the variable, e.g. `info` or `router=debug`; once per process.
/// Panics are logged too.
///
/// # Errors
/// The filter cannot be understood, or there is no thread.
pub fn start(format: LogFormat, filter: Option<&str>) -> anyhow::Result<Flush> {
    start_beside(None, format, filter)
}

/// The same beside something else, which the log's filter does not hold for.
///
/// # Errors
/// As [`start`].
pub fn start_beside(
    beside: Option<Beside>,
    format: LogFormat,
    filter: Option<&str>,
) -> anyhow::Result<Flush> {
    let filter = filter.unwrap_or("info");
    crate::log_filter::right(filter).map_err(|why| anyhow::anyhow!("HEADROOM_LOG: {why}"))?;
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        anyhow::anyhow!(
            "--log {filter}: {error}; write a level (warn, info, debug) or part=level (router=debug)"
        )
    })?;
    let to = Lines::new(match format {
        LogFormat::Text => missing_in_words,
        LogFormat::Json => missing_as_json,
    });
    let (queue, flush) = writing(to, io::stderr())?;
    let lines = fmt::layer().with_writer(move || queue.clone()).with_target(false);
    let all = tracing_subscriber::registry().with(beside);
    let started = match format {
        LogFormat::Text => all.with(lines.compact().with_ansi(false).with_filter(filter)).try_init(),
        LogFormat::Json => all.with(lines.json().flatten_event(true).with_filter(filter)).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))?;
    // The default writes to standard error itself, and waits for it.
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let words = panic.payload_as_str().unwrap_or("no words");
        tracing::error!(thread = thread.name().unwrap_or("?"), place, "panic: {words}");
    }));
    Ok(flush)
}

/// Takes one event at a time, as a whole line.
#[derive(Clone)]
struct Queue {
    lines: SyncSender<Item>,
    /// Lines that found no room.
    dropped: Arc<AtomicU64>,
}

impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut kept = line[..line.len().min(LONGEST)].to_vec();
        if kept.len() < line.len() {
            kept.extend_from_slice(b"...\n");
        }
        // Nobody else can be told: what is missing is told here, when it can be.
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.lines.try_send(Item::Line(kept))
        {
            self.dropped.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A thread that writes to `out`, and the ends of its queue.
fn writing(to: Lines, out: impl Write + Send + 'static) -> io::Result<(Queue, Flush)> {
    let (lines, inbox) = sync_channel(QUEUE);
    let dropped = Arc::new(AtomicU64::new(0));
    let counted = dropped.clone();
    let run = move || write(&to, out, &inbox, &counted);
    std::thread::Builder::new().name("headroom-log".to_owned()).spawn(run)?;
    Ok((Queue { lines: lines.clone(), dropped }, Flush(lines)))
}

fn write(to: &Lines, mut out: impl Write, inbox: &Receiver<Item>, dropped: &AtomicU64) {
    loop {
        let item = inbox.recv_timeout(TELL_WITHIN);
        to.miss(dropped.swap(0, Relaxed), NOBODY_READS);
        // What could not be written is counted there.
        let _ = match item {
            Ok(Item::Line(line)) => to.write(&mut out, &line),
            Ok(Item::Flush(done)) => {
                let told = to.write(&mut out, b"");
                let _ = done.send(());
                told
            }
            Err(RecvTimeoutError::Timeout) => to.write(&mut out, b""),
            Err(RecvTimeoutError::Disconnected) => return,
        };
    }
}

fn missing_in_words(lines: u64, why: &str) -> String {
    format!("WARN {lines} log lines are missing here: {why}")
}

fn missing_as_json(lines: u64, why: &str) -> String {
    let message = "log lines are missing here";
    serde_json::json!({ "level": "WARN", "message": message, "lines": lines, "why": why }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    #[tokio::test]
    async fn who_logs_does_not_wait_for_who_reads_and_what_is_missing_is_told() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (mut queue, flush) = writing(Lines::new(missing_in_words), ours).unwrap();
        let line = [b"x".repeat(199), b"\n".to_vec()].concat();
        let begun = Instant::now();
        // Far more than the queue and the socket hold, and nobody reads.
        for _ in 0..3 * QUEUE {
            queue.write_all(&line).unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "it would wait for ever");
        // Whoever writes may have taken the count just before it got stuck.
        while queue.dropped.load(Relaxed) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "nothing is dropped");
            queue.write_all(&line).unwrap();
        }
        let reading = std::thread::spawn(move || {
            let mut all = String::new();
            theirs.read_to_string(&mut all).map(|_| all)
        });
        let deadline = Instant::now() + Duration::from_secs(20);
        while queue.write_all(b"the last\n").is_ok() && queue.dropped.load(Relaxed) > 0 {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
        drop((queue, flush));
        let all = reading.join().unwrap().unwrap();
        let told = format!("log lines are missing here: {NOBODY_READS}");
        assert!(all.contains(&told), "{}", &all[all.len() - 500..]);
        let known =
            |line: &str| line.starts_with("xxx") || line.starts_with("the last") || line.contains(&told);
        assert!(all.lines().all(known), "every line is whole");
    }

    #[tokio::test]
    async fn what_is_queued_is_written_at_the_end() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (mut queue, flush) = writing(Lines::new(missing_in_words), ours).unwrap();
        for number in 0..100 {
            queue.write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        drop(flush);
        theirs.set_nonblocking(true).unwrap();
        let mut all = vec![0; 4096];
        let length = theirs.read(&mut all).unwrap();
        assert!(all[..length].ends_with(b"98\n99\n"));
    }
}
