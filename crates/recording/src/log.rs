//! Log: a server's general log or slow log, read as a recording. MariaDB's and MySQL's formats.
//!
//! | | general log | slow log |
//! |---|---|---|
//! | moments | MySQL: to the microsecond; MariaDB: whole seconds | the same (MySQL logs the end: the time it took is taken off) |
//! | answers | not known | rows sent, time; MariaDB: rows changed; MySQL with `log_slow_extra`, Percona Server: the error |
//! | prepared statements | as text with their values | as text with their values |
//! | sessions | begin and end | by their number; begin with their first statement |
//!
//! Where a log knows whole seconds only, what stands in one second is spread over it evenly, in order. Logs
//! are read as a stream; what is held is a second of it.

mod general;
mod slow;
mod time;

use crate::error::RecordingError;
use crate::event::{Event, RecordedCommand, RecordingEnd, RecordingStart, SessionStart};
use sql::is_secret;
use std::collections::HashSet;
use std::io::BufRead;

/// `COM_INIT_DB` and `COM_QUERY`.
const INIT_DB: u8 = 2;
const QUERY: u8 = 3;
const SECOND: u64 = 1_000_000;
/// A statement that is longer is left out.
const LONGEST: usize = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every statement.
    General,
    /// Statements that took long, or all with `long_query_time = 0`.
    Slow,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::General => "general",
            Self::Slow => "slow",
        }
    }
}

/// Reads a log to its end; `each` gets the events. `source` is what the recording is said to come from.
///
/// # Errors
/// What cannot be read, a text that is no such log, or whatever `each` says.
pub fn read<E: From<RecordingError>>(
    kind: Kind,
    input: impl BufRead,
    source: &str,
    each: impl FnMut(&Event) -> Result<(), E>,
) -> Result<(), E> {
    let mut events = EventWriter::new(source, each);
    let mut lines = Lines { input, line: Vec::new() };
    match kind {
        Kind::General => general::read(&mut lines, &mut events)?,
        Kind::Slow => slow::read(&mut lines, &mut events)?,
    }
    events.end(kind)
}

struct Lines<R> {
    input: R,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<&[u8]>, RecordingError> {
        self.line.clear();
        let read = self.input.read_until(b'\n', &mut self.line);
        match read.map_err(|source| RecordingError::Io { doing: "reading", source })? {
            0 => Ok(None),
            _ => {
                let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
                Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
            }
        }
    }
}

/// The first line of the three that a server writes into its log whenever it starts.
fn is_heading(line: &[u8]) -> bool {
    line.ends_with(b" started with:") && line.windows(11).any(|bytes| bytes == b", Version: ")
}

/// Turns what a log says into events, with moments.
struct EventWriter<'a, F> {
    source: &'a str,
    each: F,
    began: Option<u64>,
    /// Events of the second that is being read, where seconds are all that is known.
    second: (u64, Vec<Event>),
    coarse: bool,
    sessions: HashSet<u64>,
    last: u64,
    commands: u64,
}

impl<'a, E: From<RecordingError>, F: FnMut(&Event) -> Result<(), E>> EventWriter<'a, F> {
    fn new(source: &'a str, each: F) -> Self {
        Self {
            source,
            each,
            began: None,
            second: (0, Vec::new()),
            coarse: false,
            sessions: HashSet::new(),
            last: 0,
            commands: 0,
        }
    }

    /// The moment of what comes next, microseconds of some calendar; `coarse`: whole seconds.
    fn moment(&mut self, at: u64, coarse: bool) -> Result<u64, E> {
        let began = match self.began {
            Some(began) => began,
            None => {
                self.began = Some(at);
                self.coarse = coarse;
                (self.each)(&Event::RecordingStart(RecordingStart {
                    unix_us: at,
                    source: self.source.to_owned(),
                    one_in: 1,
                    resolution_us: if coarse { SECOND } else { 1 },
                    headroom: env!("CARGO_PKG_VERSION").to_owned(),
                }))?;
                at
            }
        };
        let at = at.saturating_sub(began);
        if coarse && at > self.second.0 {
            self.spread()?;
            self.second.0 = at;
        }
        self.last = self.last.max(at);
        Ok(at)
    }

    /// The session is known from here on.
    fn open_session(&mut self, start: SessionStart) -> Result<(), E> {
        self.sessions.insert(start.session);
        self.push(Event::SessionStart(start))
    }

    fn knows(&self, session: u64) -> bool {
        self.sessions.contains(&session)
    }

    fn close_session(&mut self, session: u64, at_us: u64) -> Result<(), E> {
        match self.sessions.remove(&session) {
            true => self.push(Event::SessionEnd(crate::event::SessionEnd { session, at_us })),
            false => Ok(()),
        }
    }

    fn command(&mut self, mut command: RecordedCommand) -> Result<(), E> {
        if is_secret(&command.body) || command.body.len() > LONGEST {
            command.leave_out(0);
        }
        self.commands += 1;
        self.push(Event::Command(command))
    }

    fn push(&mut self, event: Event) -> Result<(), E> {
        if self.coarse {
            self.second.1.push(event);
            return Ok(());
        }
        (self.each)(&event)
    }

    /// Tells the events of a second, each a little later than the one before. What a slow log has of an
    /// earlier second ended in this one or later, and stays in the second in which it began: so late there
    /// that the time it took leads up to this one.
    fn spread(&mut self) -> Result<(), E> {
        let (second, events) = (self.second.0, std::mem::take(&mut self.second.1));
        let count = events.len().max(1) as u64;
        for (n, mut event) in events.into_iter().enumerate() {
            let at = second + n as u64 * SECOND / count;
            let within = |at_us: &mut u64| *at_us = if *at_us < second { *at_us } else { at };
            match &mut event {
                Event::SessionStart(start) if start.at_us > 0 || start.fresh => within(&mut start.at_us),
                Event::Command(command) if command.at_us < second => {
                    let took = command.answer.as_ref().map_or(0, |answer| answer.took_us);
                    let began = command.at_us;
                    command.at_us = second.saturating_sub(took).clamp(began, began + SECOND - 1);
                }
                Event::Command(command) => within(&mut command.at_us),
                Event::SessionEnd(end) => within(&mut end.at_us),
                _ => {}
            }
            self.last = self.last.max(at);
            (self.each)(&event)?;
        }
        Ok(())
    }

    fn end(mut self, kind: Kind) -> Result<(), E> {
        if self.began.is_none() {
            return Err(RecordingError::NoLog { kind: kind.name() }.into());
        }
        self.spread()?;
        let (at_us, commands) = (self.last, self.commands);
        (self.each)(&Event::RecordingEnd(RecordingEnd {
            at_us,
            commands,
            lost: 0,
            why: "the log was read to its end".to_owned(),
        }))
    }
}

#[cfg(test)]
#[path = "log/tests.rs"]
mod tests;
