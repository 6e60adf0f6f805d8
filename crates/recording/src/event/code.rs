//! Code: events as bytes. Numbers have seven bits a byte, least first; texts and bodies their length in
//! front.
//!
//! An event tells its own length, so a frame is events one behind the other. The first byte says which; one
//! that is not known ends the reading with an error, so new kinds are a new version of the format.

use super::{Answer, Event, RecordedCommand, RecordingEnd, RecordingStart, SessionEnd, SessionStart};

const RECORDING_START: u8 = 1;
const SESSION_START: u8 = 2;
const COMMAND: u8 = 3;
const SESSION_END: u8 = 4;
const RECORDING_END: u8 = 5;

/// Bits of a [`RecordedCommand`].
const ANSWERED: u8 = 1;
const LEFT_OUT: u8 = 2;
const FAILED: u8 = 4;
const PREPARED: u8 = 8;
const BEFORE: u8 = 16;
/// How many rows were changed is not known; 0 stands in its place, as for whoever does not know this bit.
const UNCOUNTED: u8 = 32;
/// Whether it failed is not known; it succeeded for whoever does not know this bit.
const UNJUDGED: u8 = 64;

/// Bits of an [`SessionStart`].
const FRESH: u8 = 1;
const MARIADB: u8 = 2;
const SEVERAL: u8 = 4;

impl Event {
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::RecordingStart(start) => {
                out.push(RECORDING_START);
                number(out, start.unix_us);
                text(out, &start.source);
                number(out, u64::from(start.one_in));
                number(out, start.resolution_us);
                text(out, &start.headroom);
            }
            Self::SessionStart(start) => start.write(out),
            Self::Command(command) => command.write(out),
            Self::SessionEnd(end) => {
                out.push(SESSION_END);
                number(out, end.session);
                number(out, end.at_us);
            }
            Self::RecordingEnd(end) => {
                out.push(RECORDING_END);
                number(out, end.at_us);
                number(out, end.commands);
                number(out, end.lost);
                text(out, &end.why);
            }
        }
    }

    /// Takes the first event off `bytes`; `None` when they are no event, or not all of one.
    pub fn read(bytes: &mut &[u8]) -> Option<Self> {
        let mut rest = *bytes;
        let read = &mut rest;
        let event = match take(read, 1)?[0] {
            RECORDING_START => Self::RecordingStart(RecordingStart {
                unix_us: read_number(read)?,
                source: read_text(read)?,
                one_in: u32::try_from(read_number(read)?).ok()?,
                resolution_us: read_number(read)?,
                headroom: read_text(read)?,
            }),
            SESSION_START => Self::SessionStart(SessionStart::read(read)?),
            COMMAND => Self::Command(RecordedCommand::read(read)?),
            SESSION_END => {
                Self::SessionEnd(SessionEnd { session: read_number(read)?, at_us: read_number(read)? })
            }
            RECORDING_END => Self::RecordingEnd(RecordingEnd {
                at_us: read_number(read)?,
                commands: read_number(read)?,
                lost: read_number(read)?,
                why: read_text(read)?,
            }),
            _ => return None,
        };
        *bytes = rest;
        Some(event)
    }
}

impl SessionStart {
    fn write(&self, out: &mut Vec<u8>) {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        out.push(SESSION_START);
        out.push(bit(self.fresh, FRESH) | bit(self.mariadb, MARIADB) | bit(self.several_statements, SEVERAL));
        number(out, self.session);
        number(out, self.at_us);
        for name in [&self.user, &self.database, &self.listener, &self.server] {
            text(out, name);
        }
    }

    fn read(read: &mut &[u8]) -> Option<Self> {
        let bits = take(read, 1)?[0];
        Some(Self {
            session: read_number(read)?,
            at_us: read_number(read)?,
            fresh: bits & FRESH != 0,
            mariadb: bits & MARIADB != 0,
            several_statements: bits & SEVERAL != 0,
            user: read_text(read)?,
            database: read_text(read)?,
            listener: read_text(read)?,
            server: read_text(read)?,
        })
    }
}

impl RecordedCommand {
    fn write(&self, out: &mut Vec<u8>) {
        let mut bits = if self.left_out { LEFT_OUT } else { 0 };
        bits |= if self.before { BEFORE } else { 0 };
        if let Some(answer) = &self.answer {
            bits |= ANSWERED;
            bits |= if answer.error.is_some() { FAILED } else { 0 };
            bits |= if answer.prepared.is_some() { PREPARED } else { 0 };
            bits |= if answer.affected.is_none() { UNCOUNTED } else { 0 };
            bits |= if answer.error_unknown { UNJUDGED } else { 0 };
        }
        out.extend_from_slice(&[COMMAND, bits, self.command]);
        number(out, self.session);
        number(out, self.at_us);
        number(out, self.body.len() as u64);
        out.extend_from_slice(&self.body);
        let Some(answer) = &self.answer else { return };
        number(out, answer.took_us);
        number(out, answer.rows);
        number(out, answer.affected.unwrap_or(0));
        if let Some(error) = answer.error {
            number(out, u64::from(error));
        }
        if let Some(prepared) = answer.prepared {
            number(out, u64::from(prepared));
        }
    }

    fn read(read: &mut &[u8]) -> Option<Self> {
        let &[bits, command] = take(read, 2)?.first_chunk()?;
        let (session, at_us) = (read_number(read)?, read_number(read)?);
        let length = usize::try_from(read_number(read)?).ok()?;
        let body = take(read, length)?.to_vec();
        let (left_out, before) = (bits & LEFT_OUT != 0, bits & BEFORE != 0);
        let mut record = Self { session, at_us, command, body, left_out, before, answer: None };
        if bits & ANSWERED != 0 {
            let mut answer = Answer {
                took_us: read_number(read)?,
                rows: read_number(read)?,
                affected: Some(read_number(read)?).filter(|_| bits & UNCOUNTED == 0),
                error_unknown: bits & UNJUDGED != 0,
                ..Answer::default()
            };
            if bits & FAILED != 0 {
                answer.error = Some(u16::try_from(read_number(read)?).ok()?);
            }
            if bits & PREPARED != 0 {
                answer.prepared = Some(u32::try_from(read_number(read)?).ok()?);
            }
            record.answer = Some(answer);
        }
        Some(record)
    }
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn text(out: &mut Vec<u8>, text: &str) {
    number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn read_text(bytes: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(read_number(bytes)?).ok()?;
    String::from_utf8(take(bytes, length)?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> impl Strategy<Value = Event> {
        let count = any::<Option<u64>>();
        let error = (any::<Option<u16>>(), any::<bool>());
        let answer = (any::<u64>(), error, any::<u64>(), count, any::<Option<u32>>());
        let answer = answer.prop_map(|(took_us, (error, error_unknown), rows, affected, prepared)| Answer {
            took_us,
            error,
            error_unknown,
            rows,
            affected,
            prepared,
        });
        (any::<(u64, u64, u8, Vec<u8>, bool, bool)>(), proptest::option::of(answer)).prop_map(
            |((session, at_us, command, body, left_out, before), answer)| {
                Event::Command(RecordedCommand { session, at_us, command, body, left_out, before, answer })
            },
        )
    }

    fn opened() -> impl Strategy<Value = Event> {
        any::<((u64, u64), (bool, bool, bool), [String; 4])>().prop_map(
            |((session, at_us), (fresh, mariadb, several_statements), [user, database, listener, server])| {
                Event::SessionStart(SessionStart {
                    session,
                    at_us,
                    fresh,
                    mariadb,
                    several_statements,
                    user,
                    database,
                    listener,
                    server,
                })
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again_and_nothing_shorter_is(event in prop_oneof![record(), opened()]) {
            let mut bytes = Vec::new();
            event.write(&mut bytes);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(Event::read(&mut rest), Some(event));
            prop_assert!(rest.is_empty());
            for end in 0..bytes.len() {
                prop_assert_eq!(Event::read(&mut &bytes[..end]), None);
            }
        }

        #[test]
        fn any_bytes_are_an_event_or_none_and_nobody_falls_over(bytes in any::<Vec<u8>>()) {
            let mut rest = bytes.as_slice();
            if Event::read(&mut rest).is_none() {
                prop_assert_eq!(rest.len(), bytes.len(), "what is no event is left alone");
            }
        }
    }
}
