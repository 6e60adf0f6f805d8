//! Record: what clients send, told to whoever asked for it, for a time.
//!
//! Sessions tell (`session_recorder`) and one reader takes; between them stands a queue with a limit. When it
//! is full, events are dropped and counted: the data path never waits for a recording. The reader looks a few
//! hundred times a second, so that nobody who tells has to wake it. While nothing is recorded a session
//! compares one number a chunk, and that is all.
//!
//! One recording at a time. It ends when its time is over, when it is dropped, or with the router.

mod prepared;
mod session_recorder;

use crate::error::Error;
use recording::{Event, RecordingEnd};
use serde::Serialize;
pub(crate) use session_recorder::SessionRecorder;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Events that may wait for the reader.
const EVENTS: usize = 1 << 16;
/// Bytes that they may have together.
const BYTES: usize = 64 << 20;
/// Bytes of prepared statements that all sessions may remember.
const PREPARED_BYTES: usize = 64 << 20;
/// Bytes of commands that all sessions may hold until they are answered.
const HELD: usize = 64 << 20;

/// Where sessions learn whether somebody records, and the recording.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// The number of the recording under way; 0 is none.
    on: AtomicU64,
    /// Bytes of prepared statements that all sessions remember.
    prepared_bytes: AtomicUsize,
    current: Mutex<Current>,
}

#[derive(Debug, Default)]
struct Current {
    last: u64,
    sink: Option<Arc<RecordingSink>>,
}

/// One recording, as sessions see it.
#[derive(Debug)]
pub(crate) struct RecordingSink {
    number: u64,
    wanted: RecordingRequest,
    began: Instant,
    queue: SyncSender<Vec<u8>>,
    queued: AtomicUsize,
    /// Bytes of commands that sessions hold because they are not answered, or not whole.
    held: AtomicUsize,
    /// Sessions that were met; one in this many is recorded.
    met: AtomicU64,
    sessions: AtomicU64,
    commands: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    /// Sessions from before that are in a transaction still.
    waiting: AtomicU64,
    /// Sessions from before that cannot be read.
    unreadable: AtomicU64,
}

/// What is to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RecordingRequest {
    /// One session in this many.
    pub one_in: u32,
    /// For how long.
    pub time: Duration,
}

/// How a recording stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RecordingStatus {
    /// What was asked for.
    pub wanted: RecordingRequest,
    /// For how long it has been going on.
    pub since: Duration,
    /// Sessions recorded.
    pub sessions: u64,
    /// Commands recorded.
    pub commands: u64,
    /// Bytes of events.
    pub bytes: u64,
    /// Events dropped because the queue was full.
    pub lost: u64,
}

/// A recording under way; it ends when this is dropped.
#[derive(Debug)]
pub struct Recording {
    recorder: Arc<Recorder>,
    sink: Arc<RecordingSink>,
    inbox: Receiver<Vec<u8>>,
}

impl Recorder {
    /// Begins a recording.
    ///
    /// # Errors
    /// When one is under way.
    pub(crate) fn start(self: &Arc<Self>, wanted: RecordingRequest) -> Result<Recording, Error> {
        let (queue, inbox) = sync_channel(EVENTS);
        let mut current = self.current();
        if current.sink.is_some() {
            return Err(Error::Recording);
        }
        current.last += 1;
        let sink = Arc::new(RecordingSink {
            number: current.last,
            wanted: RecordingRequest { one_in: wanted.one_in.max(1), ..wanted },
            began: Instant::now(),
            queue,
            queued: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            met: AtomicU64::new(0),
            sessions: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            unreadable: AtomicU64::new(0),
        });
        current.sink = Some(sink.clone());
        self.on.store(sink.number, Relaxed);
        drop(current);
        Ok(Recording { recorder: self.clone(), sink, inbox })
    }

    /// Whether somebody records.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Relaxed) != 0
    }

    /// How the recording under way stands.
    pub(crate) fn status(&self) -> Option<RecordingStatus> {
        self.current().sink.as_ref().map(|sink| sink.status())
    }

    /// The number of the recording under way, 0 for none.
    #[inline]
    fn number(&self) -> u64 {
        self.on.load(Relaxed)
    }

    /// The recording with this number, if it still goes on.
    fn sink(&self, number: u64) -> Option<Arc<RecordingSink>> {
        self.current().sink.clone().filter(|sink| sink.number == number)
    }

    /// Whether this many bytes more of prepared statements may be remembered.
    fn remembers(&self, bytes: usize) -> bool {
        let fits = self.prepared_bytes.fetch_add(bytes, Relaxed) + bytes <= PREPARED_BYTES;
        if !fits {
            self.forgets(bytes);
        }
        fits
    }

    fn forgets(&self, bytes: usize) {
        self.prepared_bytes.fetch_sub(bytes, Relaxed);
    }

    fn stop(&self, number: u64) {
        let mut current = self.current();
        if current.sink.as_ref().is_some_and(|sink| sink.number == number) {
            self.on.store(0, Relaxed);
            current.sink = None;
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        // Only sessions that learn of a recording, its owner and the status come here; every change is whole.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordingSink {
    /// Whether a session that was met is to be recorded.
    fn chooses(&self) -> bool {
        self.met.fetch_add(1, Relaxed).is_multiple_of(u64::from(self.wanted.one_in))
    }

    /// A number for a session that is recorded from now on.
    fn number_session(&self) -> u64 {
        self.sessions.fetch_add(1, Relaxed) + 1
    }

    /// A session from before waits for the end of its transaction, or does not any more.
    fn waits(&self, begins: bool) {
        let count = if begins { 1 } else { u64::MAX };
        self.waiting.fetch_add(count, Relaxed);
    }

    /// A session from before is not recorded because its bytes cannot be read.
    fn cannot_be_read(&self) {
        self.unreadable.fetch_add(1, Relaxed);
    }

    /// Whether this many bytes more may be held until they are told; with [`RecordingSink::release`] for each
    /// that may.
    fn hold(&self, bytes: usize) -> bool {
        let fits = self.held.fetch_add(bytes, Relaxed) + bytes <= HELD;
        if !fits {
            self.release(bytes);
        }
        fits
    }

    fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Relaxed);
    }

    fn push(&self, event: &Event) {
        let mut bytes = Vec::with_capacity(96);
        event.write(&mut bytes);
        let length = bytes.len();
        let fits = self.queued.fetch_add(length, Relaxed) + length <= BYTES;
        if fits && self.queue.try_send(bytes).is_ok() {
            self.bytes.fetch_add(length as u64, Relaxed);
            let is_command = matches!(event, Event::Command(command) if !command.before);
            self.commands.fetch_add(u64::from(is_command), Relaxed);
        } else {
            self.queued.fetch_sub(length, Relaxed);
            self.lost.fetch_add(1, Relaxed);
        }
    }

    fn micros(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.began).as_micros() as u64
    }

    fn status(&self) -> RecordingStatus {
        RecordingStatus {
            wanted: self.wanted,
            since: self.began.elapsed(),
            sessions: self.sessions.load(Relaxed),
            commands: self.commands.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            lost: self.lost.load(Relaxed),
        }
    }
}

impl Recording {
    /// Appends the events that wait to `out`, until it has at least `enough` bytes; see [`Event::read`].
    pub fn drain(&self, out: &mut Vec<u8>, enough: usize) {
        while out.len() < enough {
            let Ok(bytes) = self.inbox.try_recv() else { return };
            self.sink.queued.fetch_sub(bytes.len(), Relaxed);
            out.extend_from_slice(&bytes);
        }
    }

    /// Whether its time is over.
    pub fn is_over(&self) -> bool {
        self.sink.began.elapsed() >= self.sink.wanted.time
    }

    /// How it stands.
    pub fn status(&self) -> RecordingStatus {
        self.sink.status()
    }

    /// Ends it: what is still waiting, then the event that says that it is the end, and which sessions are
    /// not in it.
    pub fn finish(self, why: &str) -> Vec<u8> {
        let at_us = self.sink.micros(Instant::now());
        let mut why = why.to_owned();
        let missing = [
            (&self.sink.waiting, "were in a transaction or a stream all the time and are not in it"),
            (
                &self.sink.unreadable,
                "cannot be read (TLS that passes through, compression) and are not in it",
            ),
        ];
        for (count, words) in missing {
            match count.load(Relaxed) {
                0 => {}
                count => why += &format!("; {count} sessions from before {words}"),
            }
        }
        self.recorder.stop(self.sink.number);
        let mut rest = Vec::new();
        self.drain(&mut rest, usize::MAX);
        let RecordingStatus { commands, lost, .. } = self.status();
        Event::RecordingEnd(RecordingEnd { at_us, commands, lost, why }).write(&mut rest);
        rest
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.recorder.stop(self.sink.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: RecordingRequest = RecordingRequest { one_in: 3, time: Duration::from_secs(1) };

    #[test]
    fn one_recording_at_a_time_and_dropping_it_ends_it() {
        let recorder = Arc::new(Recorder::default());
        let first = recorder.start(WANTED).unwrap();
        assert!(matches!(recorder.start(WANTED), Err(Error::Recording)));
        assert!(recorder.is_on() && recorder.sink(first.sink.number).is_some());
        drop(first);
        assert!(!recorder.is_on() && recorder.status().is_none());
        assert!(recorder.start(WANTED).is_ok());
    }

    #[test]
    fn one_session_in_three_is_chosen_and_numbers_have_no_holes() {
        let recorder = Arc::new(Recorder::default());
        let recording = recorder.start(WANTED).unwrap();
        let sink = &recording.sink;
        let chosen = (0..7).map(|_| sink.chooses().then(|| sink.number_session()));
        assert_eq!(chosen.collect::<Vec<_>>(), [Some(1), None, None, Some(2), None, None, Some(3)]);
    }

    #[test]
    fn what_does_not_fit_into_the_queue_is_dropped_and_counted_and_nobody_waits() {
        let recorder = Arc::new(Recorder::default());
        let recording = recorder.start(WANTED).unwrap();
        let event = Event::SessionEnd(recording::SessionEnd { session: 1, at_us: 1 });
        for _ in 0..EVENTS + 5 {
            recording.sink.push(&event);
        }
        assert_eq!(recording.status().lost, 5);
        let mut out = Vec::new();
        recording.drain(&mut out, 10);
        recording.sink.push(&event);
        assert_eq!(recording.status().lost, 5, "there is room again");
        let rest = recording.finish("test");
        let mut rest = [out, rest].concat();
        let (mut read, mut events) = (rest.as_mut_slice() as &[u8], Vec::new());
        while let Some(event) = Event::read(&mut read) {
            events.push(event);
        }
        assert!(matches!(events.last(), Some(Event::RecordingEnd(stopped)) if stopped.lost == 5));
        assert_eq!(events.len(), EVENTS + 2);
    }
}
