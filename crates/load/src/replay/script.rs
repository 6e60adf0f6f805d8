//! Script: a recording made ready to be sent again: which session sends what, and when, and what is left out.
//!
//! All of it is in memory, because nothing may be read from a disk while moments count; a limit says how much
//! that may be.

use super::kind::{StatementKind, kind};
use crate::error::{LoadError, PlanError};
use recording::{Answer, Ending, Event, Reader, RecordedCommand, RecordingStart, SessionStart};
use std::collections::HashMap;
use std::io::Read;
use wire::Command;

/// GroupBy a command is grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy<'a> {
    /// A statement, as text or prepared; `mariadb`: by that server's rules.
    Statement {
        text: &'a [u8],
        /// Whether its server was a MariaDB.
        mariadb: bool,
    },
    /// Another command.
    Command(Command),
}

/// GroupBy may be sent, and how much may be held.
#[derive(Clone, Copy, Debug)]
pub struct ScriptOptions {
    pub read_only: bool,
    /// Bytes of commands that may be held in memory.
    pub memory: u64,
}

/// A recording that can be sent again.
#[derive(Debug, Default)]
pub struct Script {
    /// Where it comes from.
    pub began: RecordingStart,
    pub ending: Ending,
    /// Sessions, in order of their first appearance.
    pub sessions: Vec<ScriptSession>,
    /// Everything that is sent, in the order of the recording.
    pub steps: Vec<ScriptStep>,
    /// GroupBy is not.
    pub left_out: LeftOut,
    /// Commands in the recording.
    pub commands: u64,
    /// Events that were lost while recording.
    pub lost: u64,
    /// Length of the recording, microseconds.
    pub length_us: u64,
}

#[derive(Debug, Default)]
pub struct ScriptSession {
    /// When it was there; 0 for those that were there before.
    pub at_us: u64,
    /// When it ended, if it did.
    pub closed_us: Option<u64>,
    /// Its default database.
    pub database: String,
    /// It may send several statements in one command.
    pub several_statements: bool,
    /// It was there before: what it had set is not known.
    pub joined: bool,
    /// GroupBy it had prepared before, by the recorded numbers: prepared again before its first step.
    pub prepared_before: Vec<(u32, Vec<u8>)>,
    pub steps: Vec<u32>,
}

/// A command to be sent.
#[derive(Debug)]
pub struct ScriptStep {
    /// By this session of the script.
    pub session: u32,
    pub at_us: u64,
    pub command: Command,
    /// GroupBy follows the command byte, as recorded.
    pub body: Vec<u8>,
    /// Its group, as the caller numbers them.
    pub group: u32,
    /// How it was answered then.
    pub recorded: Option<Answer>,
}

/// Commands of the recording that are not sent, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// They change data, or may.
    pub writes: u64,
    /// They change a server or its accounts, or need what is not recorded.
    pub administers: u64,
    /// They held a password, or were too long to be kept.
    pub not_kept: u64,
    /// Executions of statements prepared before recording began.
    pub prepared_before: u64,
    /// Commands that cannot be sent again (`COM_BINLOG_DUMP` and the like).
    pub unfit: u64,
}

impl LeftOut {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.writes + self.administers + self.not_kept + self.prepared_before + self.unfit
    }
}

/// A session while the recording is read.
#[derive(Default)]
struct SessionReader {
    session: usize,
    mariadb: bool,
    /// By their recorded numbers: the group of each prepared statement, `None` for those that are not sent.
    prepared: HashMap<u32, Option<u32>>,
    last: Option<Option<u32>>,
}

/// Why a command is not sent.
enum Omission {
    Kind(StatementKind),
    NotKept,
    NotKnown,
    Unfit,
}

impl Script {
    /// Reads a recording to its end. `group` numbers what is sent.
    ///
    /// # Errors
    /// GroupBy is wrong with the recording, or that it is larger than the memory it may take.
    pub fn read<R: Read>(
        mut reader: Reader<R>,
        options: ScriptOptions,
        mut group: impl FnMut(GroupBy<'_>) -> u32,
    ) -> Result<Self, LoadError> {
        let mut script = Self::default();
        let mut readings: HashMap<u64, SessionReader> = HashMap::new();
        let mut held = 0;
        while let Some(event) = reader.next()? {
            match event {
                Event::RecordingStart(began) => script.began = began,
                Event::SessionStart(opened) => {
                    let reading = script.open(&opened);
                    readings.insert(opened.session, reading);
                }
                Event::Command(said) => {
                    script.length_us = script.length_us.max(said.at_us);
                    script.commands += u64::from(!said.before);
                    held += said.body.len() as u64 + size_of::<ScriptStep>() as u64;
                    if held > options.memory {
                        return Err(PlanError::RecordingTooLarge { mib: options.memory >> 20 }.into());
                    }
                    let Some(reading) = readings.get_mut(&said.session) else {
                        // Its beginning was lost.
                        script.left_out.unfit += u64::from(!said.before);
                        continue;
                    };
                    script.say(reading, said, options, &mut group);
                }
                Event::SessionEnd(closed) => {
                    if let Some(reading) = readings.remove(&closed.session) {
                        script.sessions[reading.session].closed_us = Some(closed.at_us);
                    }
                }
                Event::RecordingEnd(stopped) => {
                    script.lost = stopped.lost;
                    script.length_us = script.length_us.max(stopped.at_us);
                }
            }
        }
        script.ending = reader.ending();
        Ok(script)
    }

    fn open(&mut self, opened: &SessionStart) -> SessionReader {
        self.sessions.push(ScriptSession {
            at_us: opened.at_us,
            database: opened.database.clone(),
            several_statements: opened.several_statements,
            joined: !opened.fresh,
            ..ScriptSession::default()
        });
        SessionReader {
            session: self.sessions.len() - 1,
            mariadb: opened.mariadb,
            ..SessionReader::default()
        }
    }

    fn say(
        &mut self,
        reading: &mut SessionReader,
        said: RecordedCommand,
        options: ScriptOptions,
        group: &mut impl FnMut(GroupBy<'_>) -> u32,
    ) {
        if said.before {
            if let Some(id) = reading.prepared_before(&said, options, group) {
                self.sessions[reading.session].prepared_before.push((id, said.body));
            }
            return;
        }
        match reading.group(&said, options, group) {
            Ok(group) => {
                let step = ScriptStep {
                    session: reading.session as u32,
                    at_us: said.at_us,
                    command: Command::from_byte(said.command),
                    body: said.body,
                    group,
                    recorded: said.answer,
                };
                self.sessions[reading.session].steps.push(self.steps.len() as u32);
                self.steps.push(step);
            }
            Err(Omission::Kind(StatementKind::Administers)) => self.left_out.administers += 1,
            Err(Omission::Kind(_)) => self.left_out.writes += 1,
            Err(Omission::NotKept) => self.left_out.not_kept += 1,
            Err(Omission::NotKnown) => self.left_out.prepared_before += 1,
            Err(Omission::Unfit) => self.left_out.unfit += 1,
        }
    }
}

impl SessionReader {
    /// The group that a command counts in, if it is sent.
    fn group(
        &mut self,
        said: &RecordedCommand,
        options: ScriptOptions,
        group: &mut impl FnMut(GroupBy<'_>) -> u32,
    ) -> Result<u32, Omission> {
        let command = Command::from_byte(said.command);
        if said.left_out && command != Command::ChangeUser {
            if let Some(id) = said.answer.and_then(|answer| answer.prepared) {
                self.prepared.insert(id, None);
            }
            return Err(Omission::NotKept);
        }
        match command {
            Command::Query => self.statement(&said.body, options, group),
            Command::StmtPrepare => {
                let numbered = self.statement(&said.body, options, group);
                self.last = Some(numbered.as_ref().ok().copied());
                if let Some(id) = said.answer.and_then(|answer| answer.prepared) {
                    self.prepared.insert(id, numbered.as_ref().ok().copied());
                }
                numbered.map(|_| group(GroupBy::Command(command)))
            }
            Command::StmtExecute => self.known(&said.body)?.ok_or(Omission::Kind(StatementKind::Writes)),
            Command::StmtClose | Command::StmtReset | Command::StmtSendLongData | Command::StmtFetch => {
                self.known(&said.body)?.ok_or(Omission::Kind(StatementKind::Writes))?;
                Ok(group(GroupBy::Command(command)))
            }
            Command::ChangeUser | Command::ResetConnection => {
                self.prepared.clear();
                Ok(group(GroupBy::Command(command)))
            }
            Command::InitDb | Command::Ping | Command::Statistics | Command::SetOption => {
                Ok(group(GroupBy::Command(command)))
            }
            _ => Err(Omission::Unfit),
        }
    }

    /// The recorded number of a statement that was prepared before, if it is prepared again.
    fn prepared_before(
        &mut self,
        said: &RecordedCommand,
        options: ScriptOptions,
        group: &mut impl FnMut(GroupBy<'_>) -> u32,
    ) -> Option<u32> {
        let id = said.answer?.prepared?;
        let numbered = self.statement(&said.body, options, group).ok();
        self.last = Some(numbered);
        self.prepared.insert(id, numbered);
        numbered.map(|_| id)
    }

    fn statement(
        &self,
        text: &[u8],
        options: ScriptOptions,
        group: &mut impl FnMut(GroupBy<'_>) -> u32,
    ) -> Result<u32, Omission> {
        let kind = kind(text);
        let sent = kind == StatementKind::Reads || (kind == StatementKind::Writes && !options.read_only);
        if sent {
            Ok(group(GroupBy::Statement { text, mariadb: self.mariadb }))
        } else {
            Err(Omission::Kind(kind))
        }
    }

    /// The group of the prepared statement that a body names; inner `None`: it is not sent.
    fn known(&self, body: &[u8]) -> Result<Option<u32>, Omission> {
        let id = body.first_chunk().map(|id| u32::from_le_bytes(*id)).ok_or(Omission::Unfit)?;
        // MariaDB's word for the one prepared last.
        let known = if id == u32::MAX { self.last } else { self.prepared.get(&id).copied() };
        known.ok_or(Omission::NotKnown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::{RecordingEnd, SessionEnd, Writer};

    fn said(at_us: u64, command: Command, body: &[u8], prepared: Option<u32>) -> Event {
        let answer = Some(Answer { prepared, ..Answer::default() });
        Event::Command(RecordedCommand {
            session: 7,
            at_us,
            command: command.byte(),
            body: body.to_vec(),
            answer,
            ..RecordedCommand::default()
        })
    }

    fn script(events: &[Event], read_only: bool) -> Script {
        let mut writer = Writer::new(Vec::new(), None).unwrap();
        let opened = SessionStart { session: 7, database: "shop".into(), ..SessionStart::default() };
        writer.push(&Event::SessionStart(opened)).unwrap();
        for event in events {
            writer.push(event).unwrap();
        }
        let bytes = writer.finish().unwrap();
        let mut texts: Vec<String> = Vec::new();
        let group = |what: GroupBy<'_>| {
            let name = match what {
                GroupBy::Statement { text, .. } => String::from_utf8_lossy(text).into_owned(),
                GroupBy::Command(command) => command.to_string(),
            };
            texts.iter().position(|known| *known == name).unwrap_or_else(|| {
                texts.push(name);
                texts.len() - 1
            }) as u32
        };
        let options = ScriptOptions { read_only, memory: 1 << 20 };
        Script::read(Reader::new(bytes.as_slice(), None).unwrap(), options, group).unwrap()
    }

    #[test]
    fn a_prepared_write_is_left_out_with_all_its_executions_and_an_execution_counts_as_its_statement() {
        let events = [
            said(1, Command::StmtPrepare, b"SELECT a FROM t WHERE b = ?", Some(1)),
            said(2, Command::StmtPrepare, b"DELETE FROM t WHERE b = ?", Some(2)),
            said(3, Command::StmtExecute, &[1, 0, 0, 0, 0], None),
            said(4, Command::StmtExecute, &[2, 0, 0, 0, 0], None),
            said(5, Command::StmtExecute, &[9, 0, 0, 0, 0], None),
            said(6, Command::StmtClose, &[2, 0, 0, 0], None),
            said(7, Command::Query, b"SELECT a FROM t WHERE b = ?", None),
            said(8, Command::Query, b"SHUTDOWN", None),
            Event::SessionEnd(SessionEnd { session: 7, at_us: 9 }),
            Event::RecordingEnd(RecordingEnd { at_us: 10, ..RecordingEnd::default() }),
        ];
        let read = script(&events, true);
        assert_eq!(
            read.left_out,
            LeftOut { writes: 3, administers: 1, prepared_before: 1, ..LeftOut::default() }
        );
        let groups: Vec<_> = read.steps.iter().map(|step| (step.at_us, step.group)).collect();
        assert_eq!(groups, [(1, 1), (3, 0), (7, 0)]);
        assert_eq!((read.sessions[0].closed_us, read.length_us, read.ending), (Some(9), 10, Ending::Whole));
        let all = script(&events, false);
        assert_eq!((all.steps.len(), all.left_out.total()), (6, 2));
    }

    #[test]
    fn a_recording_that_takes_more_memory_than_it_may_is_refused_with_the_way_out() {
        let mut writer = Writer::new(Vec::new(), None).unwrap();
        writer.push(&Event::SessionStart(SessionStart { session: 7, ..SessionStart::default() })).unwrap();
        writer.push(&said(1, Command::Query, &[b' '; 2000], None)).unwrap();
        let bytes = writer.finish().unwrap();
        let options = ScriptOptions { read_only: true, memory: 1000 };
        let refused = Script::read(Reader::new(bytes.as_slice(), None).unwrap(), options, |_| 0).unwrap_err();
        assert!(refused.to_string().contains("--memory"), "{refused}");
    }
}
