//! What can go wrong in a lab, with the facts and what to do next.

use fleet::Blame;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a lab could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The description of the lab is not possible.
    #[error(transparent)]
    Spec(#[from] crate::SpecError),
    /// No server program on this machine.
    #[error(
        "no mariadbd or mysqld found in {}; install mariadb-server or name one with [server] program",
        display_list(.looked_in)
    )]
    NoProgram {
        /// Directories that were searched.
        looked_in: Vec<PathBuf>,
    },
    /// The server program does not say what it is.
    #[error("{} does not work as a server program: {why}", program.display())]
    Program {
        program: PathBuf,
        /// What it did or said.
        why: String,
    },
    /// A file, directory or process could not be handled.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried, with the path.
        action: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Others may replace what a lab keeps there.
    #[error(
        "{} belongs to user {owner} and has mode {mode:04o}, so others than user {ours} may rename what is in it: remove it, or \
         name another base directory",
        base.display()
    )]
    BaseOfOthers { base: PathBuf, owner: u32, mode: u32, ours: u32 },
    /// A unix socket in the lab would get a path longer than the system allows.
    #[error("{} makes socket paths of {length} bytes, 107 are possible; choose a shorter base directory", base.display())]
    BaseTooLong {
        base: PathBuf,
        /// Length of the longest socket path.
        length: usize,
    },
    /// No port is free on all addresses the lab needs.
    #[error(
        "no port between {first} and {last} is free on all {addresses} loopback addresses of the lab: {source}"
    )]
    NoPort {
        /// First port tried.
        first: u16,
        /// Last port tried.
        last: u16,
        /// How many addresses must have it free.
        addresses: usize,
        /// What the last attempt said.
        source: io::Error,
    },
    /// A program that prepares data directories failed.
    #[error("preparing a data directory with {} failed ({status}): {said}", program.display())]
    Bootstrap {
        program: PathBuf,
        status: String,
        /// The end of what it said.
        said: String,
    },
    /// A server ended while it was expected to run.
    #[error("server {server} ended ({status}); the end of its log:\n{log}")]
    Died {
        server: String,
        status: String,
        /// The last lines of its error log.
        log: String,
    },
    /// A program that we started ended early, or without success.
    #[error("{program} ended by itself ({status}): {said}")]
    Ended {
        program: String,
        status: String,
        /// The end of what it said.
        said: String,
    },
    /// Something took longer than it may.
    #[error("{what} did not happen within {} s: {last}", limit.as_secs())]
    TooLate {
        /// What was waited for.
        what: String,
        limit: Duration,
        /// The last thing seen.
        last: String,
    },
    /// A server answered a statement of the lab with an error.
    #[error("server {server}: {doing}: {why}")]
    Sql {
        server: String,
        /// What was being done.
        doing: String,
        /// The server's or the driver's words.
        why: String,
    },
    /// No such server, zone or pair of zones in this lab.
    #[error("the lab has no '{name}'; it has {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        known: Vec<String>,
    },
    /// The fault makes no sense there or now.
    #[error("cannot {fault} {target}: {why}")]
    Fault {
        fault: String,
        /// The server or pair of zones.
        target: String,
        /// Why not, and what to do.
        why: String,
    },
    #[error("no lab runs in {}; start one with headroom lab up", base.display())]
    NoLab { base: PathBuf },
    /// One of them has to be named.
    #[error(
        "{} labs run; name one with --lab: {}",
        labs.len(), labs.iter().map(|lab| lab.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    SeveralLabs { labs: Vec<PathBuf> },
    /// The lab was taken down meanwhile.
    #[error("the lab is down")]
    Down,
    /// No lab answers under that directory, or it answered with an error.
    #[error("lab {}: {why}", dir.display())]
    Control {
        /// Directory of the lab.
        dir: PathBuf,
        why: String,
    },
}

impl Error {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Spec(_) | Self::NoProgram { .. } | Self::Program { .. } | Self::Io { .. } => Blame::Config,
            Self::BaseOfOthers { .. } | Self::BaseTooLong { .. } | Self::NoPort { .. } => Blame::Config,
            Self::Unknown { .. } | Self::Fault { .. } | Self::Control { .. } | Self::Down => Blame::Config,
            Self::NoLab { .. } | Self::SeveralLabs { .. } => Blame::Config,
            Self::Bootstrap { .. } | Self::Died { .. } | Self::Ended { .. } => Blame::Server,
            Self::TooLate { .. } | Self::Sql { .. } => Blame::Server,
        }
    }

    /// Wraps an I/O error with what was tried; for `map_err`.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}

/// What the driver says. Of an error of the connection its words begin with the same prefix twice.
pub(crate) fn driver_words(error: &mysql_async::Error) -> String {
    match error {
        mysql_async::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

fn display_list(paths: &[PathBuf]) -> String {
    paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_connection_is_called_one_once() {
        let refused = mysql_async::IoError::Io(io::ErrorKind::ConnectionRefused.into());
        let words = driver_words(&mysql_async::Error::Io(refused));
        assert_eq!(words, "Input/output error: connection refused");
    }
}
