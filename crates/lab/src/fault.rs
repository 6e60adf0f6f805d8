//! What a lab does to a server, or to the network between two zones, and how it is undone.
//!
//! Every fault has a word and a word that undoes it ([`FAULTS`] is the one table for parsing, help and docs).
//! Faults in force on the same link add up: the strongest decides (see `link::Mode`).

use crate::Error;
use crate::layout::Layout;
use crate::link::Mode;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

mod apply;
mod promote;

pub(crate) use apply::InForce;

/// Something goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The process is killed without a word (SIGKILL).
    Kill,
    /// The server shuts down in order.
    Stop,
    /// The process stands still (SIGSTOP): its system accepts connections, nobody answers.
    Freeze,
    /// The links take connections and deliver nothing, in either direction. At a server this concerns who
    /// comes to it: what it fetches itself from its source still flows.
    Blackhole,
    /// The links do not answer connection attempts and deliver nothing.
    Drop,
    /// The links refuse connections; what is connected stays.
    Refuse,
    /// A replica applies changes only this many seconds after they were made.
    Lag { seconds: u32 },
    /// The primary refuses writes.
    ReadOnly,
    /// A replica takes writes beside the primary.
    Writable,
    /// A replica receives changes and does not apply them.
    StopApplier,
    /// A replica becomes the primary, the others follow it; the old primary stays, refuses writes and follows
    /// nobody.
    Promote,
    /// A replica thinks it is the primary and follows nobody; nobody else knows.
    PromoteAlone,
    /// The round trip takes this long.
    Slow {
        /// Microseconds.
        round_trip_us: u32,
    },
}

/// A fault begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Begin(Fault),
    /// It ends; its numbers do not matter.
    End(Fault),
    /// Everything that is wrong there ends.
    Heal,
}

/// Where something goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Server(usize),
    /// The network between two zones, by index, the smaller first.
    Zones(usize, usize),
}

/// One row of the table of faults.
#[derive(Clone, Copy, Debug)]
pub struct FaultWords {
    /// Makes it happen.
    pub begin: &'static str,
    pub end: &'static str,
    /// The value that follows `begin`, if any, for help.
    pub value: Option<&'static str>,
    pub means: &'static str,
    fault: Fault,
}

/// Every fault, in the words of the command line.
pub const FAULTS: &[FaultWords] = &[
    row("kill", "start", None, Fault::Kill, "kill -9: connections break, new ones are refused"),
    row("stop", "start", None, Fault::Stop, "shut down in order"),
    row("freeze", "thaw", None, Fault::Freeze, "SIGSTOP: accepts connections, answers nobody"),
    row("blackhole", "deliver", None, Fault::Blackhole, "accepts, delivers nothing (server or zone:zone)"),
    row("drop", "answer", None, Fault::Drop, "no answer to connect (server or zone:zone)"),
    row("refuse", "accept", None, Fault::Refuse, "refuses new connections (server or zone:zone)"),
    row(
        "lag",
        "catch-up",
        Some("<seconds>"),
        Fault::Lag { seconds: 0 },
        "a replica is late by whole seconds",
    ),
    row("read-only", "read-write", None, Fault::ReadOnly, "the primary refuses writes"),
    row("writable", "not-writable", None, Fault::Writable, "a replica takes writes beside the primary"),
    row("stop-applier", "start-applier", None, Fault::StopApplier, "a replica receives and does not apply"),
    row("promote", "demote", None, Fault::Promote, "a replica takes over, the old one is read-only"),
    row("promote-alone", "demote", None, Fault::PromoteAlone, "a second primary; nobody follows it"),
    row(
        "slow",
        "fast",
        Some("<ms>"),
        Fault::Slow { round_trip_us: 0 },
        "another round-trip time (zone:zone)",
    ),
];

const fn row(
    begin: &'static str,
    end: &'static str,
    value: Option<&'static str>,
    fault: Fault,
    means: &'static str,
) -> FaultWords {
    FaultWords { begin, end, value, means, fault }
}

/// Why words name no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{words}' is no fault{}; faults are {}, and 'heal' ends all", .hint.as_deref().unwrap_or(""), known())]
pub struct FaultError {
    words: String,
    hint: Option<String>,
}

impl Fault {
    /// Whether it is the same fault, whatever its number.
    pub fn is_same_kind(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// What it does to links; `None` when it happens elsewhere.
    pub(crate) fn mode(self) -> Option<Mode> {
        match self {
            Self::Blackhole => Some(Mode::Silent),
            Self::Drop => Some(Mode::Dropping),
            Self::Refuse => Some(Mode::Refusing),
            _ => None,
        }
    }

    /// The round-trip time it sets, if that is what it does.
    pub(crate) fn round_trip(self) -> Option<Duration> {
        match self {
            Self::Slow { round_trip_us } => Some(Duration::from_micros(round_trip_us.into())),
            _ => None,
        }
    }

    fn words(self) -> &'static FaultWords {
        FAULTS.iter().find(|w| w.fault.is_same_kind(self)).unwrap_or(&FAULTS[0])
    }

    /// What its value may be, where its name does not say so.
    const fn limits(self) -> &'static str {
        match self {
            // As the servers' MASTER_DELAY.
            Self::Lag { .. } => "; the seconds are whole: lag 1",
            Self::Slow { .. } => "; from 0 to 60000",
            _ => "",
        }
    }

    fn with_value(self, value: &str) -> Option<Self> {
        Some(match self {
            Self::Lag { .. } => Self::Lag { seconds: value.parse().ok()? },
            Self::Slow { .. } => {
                let ms: f64 = value.parse().ok().filter(|ms| (0.0..=60_000.0).contains(ms))?;
                // At most 60 million: fits.
                Self::Slow { round_trip_us: (ms * 1e3).round() as u32 }
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.words().begin;
        match self {
            Self::Lag { seconds } => write!(f, "{word} {seconds}"),
            Self::Slow { round_trip_us } => {
                write!(f, "{word} {}", Duration::from_micros((*round_trip_us).into()).as_secs_f64() * 1e3)
            }
            _ => f.pad(word),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin(fault) => write!(f, "{fault}"),
            Self::End(fault) => f.pad(fault.words().end),
            Self::Heal => f.pad("heal"),
        }
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        match text.parse()? {
            Change::Begin(fault) => Ok(fault),
            Change::End(_) | Change::Heal => {
                Err(FaultError { words: text.to_owned(), hint: Some(" but the end of one".to_owned()) })
            }
        }
    }
}

impl FromStr for Change {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let wrong = |hint: Option<String>| FaultError { words: text.to_owned(), hint };
        let words: Vec<&str> = text.split_whitespace().collect();
        let (word, value) = match words[..] {
            [word] => (word, None),
            [word, value] => (word, Some(value)),
            _ => return Err(wrong(None)),
        };
        if word == "heal" && value.is_none() {
            return Ok(Self::Heal);
        }
        if let Some(row) = FAULTS.iter().find(|row| row.begin == word) {
            return match (row.value, value) {
                (None, None) => Ok(Self::Begin(row.fault)),
                (Some(name), Some(value)) => {
                    let hint = || wrong(Some(format!(" ({word} {name}{})", row.fault.limits())));
                    row.fault.with_value(value).map(Self::Begin).ok_or_else(hint)
                }
                (Some(name), None) => Err(wrong(Some(format!(" ({word} {name}{})", row.fault.limits())))),
                (None, Some(_)) => Err(wrong(Some(format!(" ({word} takes no value)")))),
            };
        }
        let ends = FAULTS.iter().find(|row| row.end == word && value.is_none());
        ends.map(|row| Self::End(row.fault)).ok_or_else(|| wrong(None))
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fault {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Target {
    /// Reads `b1` (a server) or `a:b` (two zones, or one with itself).
    pub(crate) fn parse(text: &str, layout: &Layout) -> Result<Self, Error> {
        let found = match text.split_once(':') {
            None => layout.server(text).map(Self::Server),
            Some((a, b)) => match (layout.zone(a), layout.zone(b)) {
                (Some(a), Some(b)) => Some(Self::Zones(a.min(b), a.max(b))),
                _ => None,
            },
        };
        found.ok_or_else(|| {
            let servers = layout.servers.iter().map(|s| s.name.to_string());
            let known = servers.chain(["pairs of its zones, as in a:b".to_owned()]).collect();
            Error::Unknown { name: text.to_owned(), known }
        })
    }

    /// As [`Target::parse`] reads it.
    pub(crate) fn name(self, layout: &Layout) -> String {
        match self {
            Self::Server(index) => layout.servers[index].name.to_string(),
            Self::Zones(a, b) => format!("{}:{}", layout.zones[a], layout.zones[b]),
        }
    }

    /// Whether the link from a zone to a server is part of it.
    pub(crate) fn covers(self, layout: &Layout, from: usize, server: usize) -> bool {
        match self {
            Self::Server(index) => index == server,
            Self::Zones(a, b) => {
                let to = layout.servers[server].zone;
                (from, to) == (a, b) || (from, to) == (b, a)
            }
        }
    }
}

fn known() -> String {
    FAULTS.iter().map(|w| format!("{} (ended by {})", w.begin, w.end)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_reads_back_as_it_is_written() {
        for row in FAULTS {
            let text = row
                .value
                .map_or(row.begin.to_owned(), |_| format!("{} 2.5", row.begin).replace("lag 2.5", "lag 3"));
            let change: Change = text.parse().unwrap();
            assert_eq!(change.to_string(), text);
            assert!(matches!(row.end.parse().unwrap(), Change::End(_)), "{}", row.end);
        }
    }

    #[test]
    fn what_is_no_fault_is_answered_with_what_would_be() {
        for (text, part) in [
            ("explode", "freeze (ended by thaw)"),
            ("lag", "(lag <seconds>; the seconds are whole"),
            ("lag 0.2", "(lag <seconds>; the seconds are whole: lag 1)"),
            ("slow -1", "(slow <ms>; from 0 to 60000)"),
            ("kill 9", "takes no value"),
        ] {
            assert!(text.parse::<Change>().unwrap_err().to_string().contains(part), "{text}");
        }
    }
}
