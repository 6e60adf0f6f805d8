//! What the application saw go wrong, told apart by what it means for whoever stands between it and the
//! servers.

use serde::Serialize;
use std::time::Instant;

/// A statement or a new session that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub kind: FailureKind,
    /// `@@server_id` of the server the session was on; `None` if it never got one.
    pub server: Option<u32>,
    /// When the statement was sent, or the session asked for.
    pub sent: Instant,
    /// When the failure was known.
    pub at: Instant,
    pub said: String,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// No session could be opened.
    Connect,
    /// The session ended while a statement was under way.
    Ended,
    /// No answer within the statement deadline.
    Silent,
    /// The server answered with an error.
    Refused,
}

impl std::fmt::Display for FailureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Connect => "no session could be opened",
            Self::Ended => "the session ended under a statement",
            Self::Silent => "no answer within the statement deadline",
            Self::Refused => "the server answered with an error",
        })
    }
}
