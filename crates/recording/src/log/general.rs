//! General: `time, id, command, argument`, a line each; an argument may go on over further lines. MariaDB
//! writes a time only when it differs from the one before.

use super::time::{moment, number};
use super::{EventWriter, INIT_DB, Lines, QUERY, RecordingError, is_heading};
use crate::event::{Event, RecordedCommand, SessionStart};
use std::io::BufRead;

/// Words that stand for a command; longer ones first where one begins another.
const COMMANDS: [&str; 22] = [
    "Connect",
    "Query",
    "Quit",
    "Init DB",
    "Prepare",
    "Execute",
    "Close stmt",
    "Reset stmt",
    "Reset connection",
    "Long Data",
    "Fetch",
    "Ping",
    "Statistics",
    "Field List",
    "Change user",
    "Processlist",
    "Kill",
    "Refresh",
    "Set option",
    "Sleep",
    "Binlog Dump",
    "Register Slave",
];

/// A line that begins an entry.
struct Head {
    at: Option<(u64, bool)>,
    session: u64,
    command: &'static str,
    argument: Vec<u8>,
}

pub(super) fn read<E: From<RecordingError>>(
    lines: &mut Lines<impl BufRead>,
    events: &mut EventWriter<'_, impl FnMut(&Event) -> Result<(), E>>,
) -> Result<(), E> {
    let mut entry: Option<Head> = None;
    let mut at = None;
    while let Some(line) = lines.next()? {
        match head(line) {
            Some(next) => {
                if let Some(entry) = entry.take() {
                    tell(entry, &mut at, events)?;
                }
                entry = Some(next);
            }
            // The server was started anew.
            None if is_heading(line) => {
                if let Some(entry) = entry.take() {
                    tell(entry, &mut at, events)?;
                }
            }
            None => {
                if let Some(entry) = &mut entry {
                    entry.argument.push(b'\n');
                    entry.argument.extend_from_slice(line);
                }
            }
        }
    }
    match entry {
        Some(entry) => tell(entry, &mut at, events),
        None => Ok(()),
    }
}

fn tell<E: From<RecordingError>>(
    head: Head,
    at: &mut Option<(u64, bool)>,
    events: &mut EventWriter<'_, impl FnMut(&Event) -> Result<(), E>>,
) -> Result<(), E> {
    *at = head.at.or(*at);
    // What stands before the first time belongs to the end of another log.
    let Some((moment, coarse)) = *at else { return Ok(()) };
    let at_us = events.moment(moment, coarse)?;
    let session = head.session;
    if head.command == "Connect" {
        let (user, database) = connected(&head.argument);
        return events.open_session(SessionStart {
            session,
            at_us,
            fresh: true,
            user,
            database,
            ..SessionStart::default()
        });
    }
    if head.command == "Quit" {
        return events.close_session(session, at_us);
    }
    let command = match head.command {
        // What is executed stands there with its values.
        "Query" | "Execute" => QUERY,
        "Init DB" => INIT_DB,
        _ => return Ok(()),
    };
    if !events.knows(session) {
        events.open_session(SessionStart { session, ..SessionStart::default() })?;
    }
    events.command(RecordedCommand {
        session,
        at_us,
        command,
        body: head.argument,
        ..RecordedCommand::default()
    })
}

fn head(line: &[u8]) -> Option<Head> {
    let (at, rest) = match moment(line) {
        Some((at, used, coarse)) => (Some((at, coarse)), &line[used..]),
        None => (None, line),
    };
    // Behind the time, or where it would stand, comes a tab.
    let rest = rest.strip_prefix(b"\t")?.trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let session = number(&rest[..digits])?;
    let rest = rest[digits..].strip_prefix(b" ")?;
    let command = COMMANDS.into_iter().find(|command| rest.starts_with(command.as_bytes()))?;
    let argument = match &rest[command.len()..] {
        [] => &[],
        [b'\t', argument @ ..] => argument,
        _ => return None,
    };
    Some(Head { at, session, command, argument: argument.to_vec() })
}

/// User and database of `user@host on database using Socket`.
fn connected(argument: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(argument);
    let user = text.split('@').next().unwrap_or_default().to_owned();
    let database = text.split_once(" on ").map_or("", |(_, rest)| rest);
    let database = database.split(" using ").next().unwrap_or_default().trim();
    // Without a database the word after `on` is missing.
    (user, if database.starts_with("using") { String::new() } else { database.to_owned() })
}
