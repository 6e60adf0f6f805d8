//! What can go wrong: [`Error`] before anything is touched, [`Refusal`] for one knob while the others go on.

use crate::profile::{PLACEHOLDERS, PROFILES};
use fleet::Blame;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Why nothing was done at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No row of the catalogue has this name.
    #[error("no knob is called '{name}'{near}; `headroom knob list --all` shows all of them")]
    UnknownKnob {
        /// What was asked for.
        name: String,
        /// A similar name, as a hint in words; empty without one.
        near: String,
    },
    /// The part after `@` is missing, not wanted, or not a possible name.
    #[error("{name}: {why}")]
    BadTarget {
        name: String,
        /// What would be right.
        why: String,
    },
    /// No published list of settings has this name.
    #[error("there is {}", PROFILES.iter().map(|profile| profile.name).collect::<Vec<_>>().join(" and "))]
    UnknownProfile {
        /// What was asked for.
        name: String,
    },
    /// Not what a placeholder of such a list stands for, such as `disk=vda`.
    #[error("write disk=vda; the names are {}", PLACEHOLDERS.join(", "))]
    NotAPlaceholder { text: String },
    /// Not of the form `NAME=VALUE`.
    #[error("'{text}' is not of the form NAME=VALUE, for example block.scheduler@vda=none")]
    NotAnAssignment { text: String },
    /// The value is not one the knob can take.
    #[error("{name}={value}: {source}")]
    BadValue { name: String, value: String, source: crate::value::ValueError },
    /// A dangerous value that was not named.
    #[error("{name}={value} is dangerous: {why}; if that is meant, add --danger {flag}")]
    Danger {
        /// The knob with its target.
        name: String,
        value: String,
        /// What can be lost.
        why: String,
        /// What `--danger` must name.
        flag: String,
    },
    /// A running program changes the same settings.
    #[error(
        "{program} (process {pid}) runs and {why}; stop it, or add --beside {program} to go on beside it"
    )]
    Tuner {
        program: String,
        /// Its process id.
        pid: u32,
        /// What it would do.
        why: String,
    },
    /// Somebody else holds the journal.
    #[error("the journal {dir} is in use by {holder}; one process at a time changes settings")]
    InUse {
        dir: PathBuf,
        /// Who, as the lock file says.
        holder: String,
    },
    /// A record before the last one is damaged.
    #[error(
        "the journal {path} is damaged at line {line}: {why}. Original values may be in it: read it by eye, put them \
         back, then move the file away. Nothing was changed"
    )]
    Corrupt {
        path: PathBuf,
        /// From 1.
        line: usize,
        why: String,
    },
    /// Written by a newer version.
    #[error(
        "the journal {path} was written by a newer headroom (format {found}, we know {known}); use that \
         version"
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    /// The journal cannot be read or written.
    #[error("cannot {what} {path}: {source}")]
    Journal {
        /// What was tried.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A description of a server that may be restarted is wrong.
    #[error("{path}: {why}")]
    Managed { path: PathBuf, why: String },
    /// A program that is named is not there.
    #[error("the program {path}: {source}")]
    Program { path: PathBuf, source: std::io::Error },
    /// The journal is text.
    #[error("{path} is no UTF-8")]
    NoText { path: PathBuf },
    /// One name, and settings of several servers.
    #[error("{knob} is changed at several servers: {servers}; say which one with --server")]
    SeveralServers {
        knob: String,
        /// Their addresses.
        servers: String,
    },
    /// The server cannot be asked.
    #[error("server: {0}")]
    Server(#[from] crate::server::ServerError),
}

impl Error {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Server(_) => Blame::Server,
            _ => Blame::Config,
        }
    }

    /// Whether the command line is to blame, as against the host.
    pub fn is_usage(&self) -> bool {
        use Error::{
            BadTarget, BadValue, Managed, NotAPlaceholder, NotAnAssignment, SeveralServers, UnknownKnob,
            UnknownProfile,
        };
        matches!(
            self,
            Managed { .. }
                | UnknownKnob { .. }
                | UnknownProfile { .. }
                | NotAPlaceholder { .. }
                | BadTarget { .. }
                | NotAnAssignment { .. }
                | BadValue { .. }
                | SeveralServers { .. }
        )
    }
}

/// Why one knob was not changed, or not put back. It is never counted as tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum Refusal {
    /// This host does not have it.
    #[error("not here: {what}")]
    Absent { what: String },
    /// The kernel, a program or the server said no.
    #[error("{why}")]
    Denied { why: String },
    /// The server cannot be reached: nothing was told to it.
    #[error("{why}")]
    Unreachable { why: String },
    /// The server was told, and gave no answer: it may happen later. Its entry stays open.
    #[error("{why}")]
    Unanswered { why: String },
    /// It was written, and something else is there.
    #[error("wrote '{wrote}', but {item} reads back '{found}'")]
    ReadsBack { item: String, wrote: String, found: String },
    /// The setting reads back, but its effect does not show.
    #[error("it reads back, but has no effect: {why}")]
    NoEffect {
        /// What was seen.
        why: String,
    },
    /// Its original could not be put back, so it was not touched.
    #[error("not touched, because it could not be put back: {why}")]
    OneWay { why: String },
    /// Something the caller must give first.
    #[error("{what}")]
    Needs { what: String },
    /// The journal could not be written, so the setting was not touched.
    #[error("not touched, because the journal cannot be written: {why}")]
    Journal { why: String },
}
