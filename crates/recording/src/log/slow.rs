//! Slow: entries of lines that begin with `#`, then `use`, `SET timestamp`, and the statement.
//!
//! A `use` stands only where the database is another one than that of the entry before, whoever's that was:
//! MySQL's log has no other word of it, so that a new session without one is taken to be in the database of
//! that entry. One that has no default database looks the same.

use super::time::{moment, number};
use super::{EventWriter, INIT_DB, Lines, QUERY, RecordingError, is_heading};
use crate::event::{Answer, Event, RecordedCommand, SessionStart};
use std::collections::HashMap;
use std::io::BufRead;

/// How commands begin that are no statements.
const ADMINISTRATOR: &[u8] = b"# administrator command:";

/// What is known of an entry so far.
#[derive(Default)]
struct Entry {
    /// Its time line, if it has one of its own: when it ended.
    ended: Option<u64>,
    session: u64,
    user: String,
    /// `None` where the entry does not say; empty for none.
    database: Option<String>,
    took_us: u64,
    /// The number of the error, 0 for none; `None` where the log does not say.
    error: Option<u16>,
    rows: u64,
    affected: Option<u64>,
    /// `SET timestamp`: when it began, in seconds.
    began_s: Option<u64>,
    text: Vec<u8>,
}

pub(super) fn read<E: From<RecordingError>>(
    lines: &mut Lines<impl BufRead>,
    events: &mut EventWriter<'_, impl FnMut(&Event) -> Result<(), E>>,
) -> Result<(), E> {
    let mut entry: Option<Entry> = None;
    let mut databases = Databases::default();
    while let Some(line) = lines.next()? {
        // Unless it stands in a statement, which a semicolon ends: the server was started anew.
        if is_heading(line) && entry.as_ref().is_none_or(Entry::is_whole) {
            if let Some(entry) = entry.take() {
                tell(entry, &mut databases, events)?;
            }
            databases.last.clear();
            continue;
        }
        let new = line.starts_with(b"# Time: ") || line.starts_with(b"# User@Host: ");
        // The user's line follows the time's.
        let goes_on = entry.as_ref().is_some_and(|entry| entry.user.is_empty() && entry.text.is_empty());
        if new && !(goes_on && line.starts_with(b"# User@Host: ")) {
            if let Some(entry) = entry.take() {
                tell(entry, &mut databases, events)?;
            }
            entry = Some(Entry::default());
        }
        let Some(entry) = &mut entry else { continue };
        if let Some(time) = line.strip_prefix(b"# Time: ") {
            // MariaDB's knows seconds, and stands only where they change: SET timestamp knows as much, for
            // each.
            entry.ended = moment(time).filter(|(.., coarse)| !coarse).map(|(at, ..)| at);
        } else if line.starts_with(b"# ") && !line.starts_with(ADMINISTRATOR) && entry.text.is_empty() {
            entry.facts(&String::from_utf8_lossy(line));
        } else {
            entry.line(line);
        }
    }
    match entry {
        Some(entry) => tell(entry, &mut databases, events),
        None => Ok(()),
    }
}

impl Entry {
    fn is_whole(&self) -> bool {
        self.text.is_empty() || self.text.ends_with(b";")
    }

    fn facts(&mut self, line: &str) {
        let mut words = line.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let mut value = || words.peek().copied().unwrap_or_default();
            match word {
                "User@Host:" => self.user = value().split('[').next().unwrap_or_default().to_owned(),
                "Id:" | "Thread_id:" => self.session = number(value().as_bytes()).unwrap_or_default(),
                // An empty one is followed by the next fact.
                "Schema:" if value().ends_with(':') => self.database = Some(String::new()),
                "Schema:" => self.database = Some(value().to_owned()),
                "Query_time:" => {
                    self.took_us = value().parse().map_or(0, |seconds: f64| (seconds * 1e6).max(0.0) as u64);
                }
                "Rows_sent:" => self.rows = value().parse().unwrap_or_default(),
                // Of MySQL with log_slow_extra, and of Percona Server.
                "Errno:" | "Last_errno:" => self.error = value().parse().ok(),
                "Rows_affected:" => self.affected = value().parse().ok(),
                _ => {}
            }
        }
    }

    fn line(&mut self, line: &[u8]) {
        let bare = line.strip_suffix(b";").unwrap_or(line);
        if self.text.is_empty() {
            if let Some(seconds) = bare.strip_prefix(b"SET timestamp=") {
                let whole = seconds.split(|byte| *byte == b'.').next().unwrap_or_default();
                self.began_s = number(whole);
                return;
            }
            if let Some(database) = bare.strip_prefix(b"use ").filter(|_| self.began_s.is_none()) {
                self.database = Some(String::from_utf8_lossy(database.trim_ascii()).replace('`', ""));
                return;
            }
        } else {
            self.text.push(b'\n');
        }
        self.text.extend_from_slice(line);
    }
}

/// The default databases that entries speak of.
#[derive(Default)]
struct Databases {
    /// That of the last entry that named one.
    last: String,
    /// By session.
    of: HashMap<u64, String>,
}

fn tell<E: From<RecordingError>>(
    mut entry: Entry,
    databases: &mut Databases,
    events: &mut EventWriter<'_, impl FnMut(&Event) -> Result<(), E>>,
) -> Result<(), E> {
    if entry.text.ends_with(b";") {
        entry.text.pop();
    }
    if let Some(database) = &entry.database {
        databases.last.clone_from(database);
    }
    let text = entry.text.trim_ascii();
    let changes_database = text == b"# administrator command: Init DB";
    // Quits, pings, prepares: what matters of them stands elsewhere.
    if text.is_empty() || (text.starts_with(ADMINISTRATOR) && !changes_database) {
        return Ok(());
    }
    let (at, coarse) = match (entry.ended, entry.began_s) {
        (Some(ended), _) => (ended.saturating_sub(entry.took_us), false),
        (None, Some(began)) => (began * super::SECOND, true),
        (None, None) => return Ok(()),
    };
    let at_us = events.moment(at, coarse)?;
    let session = entry.session;
    let is_new = !events.knows(session);
    let inherited = (is_new || changes_database).then(|| databases.last.clone());
    let database = entry.database.clone().or(inherited).unwrap_or_default();
    if is_new {
        databases.of.insert(session, database.clone());
        let user = entry.user.clone();
        events.open_session(SessionStart { session, at_us, user, database, ..SessionStart::default() })?;
    } else if !database.is_empty() && databases.of.get(&session) != Some(&database) {
        databases.of.insert(session, database.clone());
        let body = database.into_bytes();
        events.command(RecordedCommand {
            session,
            at_us,
            command: INIT_DB,
            body,
            ..RecordedCommand::default()
        })?;
    }
    if changes_database {
        return Ok(());
    }
    let Entry { took_us, error, rows, affected, .. } = entry;
    let answer = Answer {
        took_us,
        error: error.filter(|code| *code > 0),
        error_unknown: error.is_none(),
        rows,
        affected,
        prepared: None,
    };
    let body = text.to_vec();
    events.command(RecordedCommand {
        session,
        at_us,
        command: QUERY,
        body,
        answer: Some(answer),
        ..RecordedCommand::default()
    })
}
