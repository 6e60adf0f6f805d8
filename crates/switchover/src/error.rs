//! What can go wrong, as facts.

use fleet::{Blame, ServerName};
use observe::AskError;
use std::path::PathBuf;

/// Why a switchover cannot go on, or not begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server did not do what it was told.
    #[error("{server}: {what}: {source}")]
    Server {
        server: ServerName,
        /// The statement, without secrets.
        what: String,
        /// The server's or the system's words.
        source: AskError,
    },
    /// A condition did not come about in time.
    #[error("{server}: {what} within {seconds} s{detail}")]
    TooLate {
        server: ServerName,
        /// What was waited for.
        what: String,
        /// How long, in seconds.
        seconds: f64,
        /// What stands in the way, or empty.
        detail: String,
    },
    /// The server answered, and the answer rules this out.
    #[error("{server}: {why}")]
    Refused {
        server: ServerName,
        /// Why, and what to do.
        why: String,
    },
    /// Somebody asked for the end while it could still be undone.
    #[error("interrupted")]
    Interrupted,
    /// There is a primary: nothing to fail over.
    #[error("{server}: {why}")]
    HasPrimary { server: ServerName, why: String },
    /// Starting its threads would throw away what it has received, which nobody else may have.
    #[error("{server}: {why}")]
    LosesRelayLogs { server: ServerName, why: String },
    /// The journal cannot be read or written.
    #[error("the journal {path}: {source}")]
    Journal { path: PathBuf, source: JournalError },
}

/// Why a journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("line {line}: {source}")]
    Record { line: usize, source: serde_json::Error },
    #[error("it does not begin with a plan")]
    NoPlan,
}

impl Error {
    /// Whether the server cannot read what it kept of its source (`ER_MASTER_INFO`).
    pub(crate) fn is_unreadable_source(&self) -> bool {
        matches!(self, Self::Server { source: AskError::Answered { code: 1201, .. }, .. })
    }

    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Server { .. }
            | Self::TooLate { .. }
            | Self::Refused { .. }
            | Self::HasPrimary { .. }
            | Self::LosesRelayLogs { .. } => Blame::Server,
            Self::Interrupted => Blame::Client,
            Self::Journal { .. } => Blame::Config,
        }
    }
}
