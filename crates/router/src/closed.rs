//! Closed: why a session ended. The same words in log, metric label and status page.

use std::fmt;

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The client closed or broke its connection.
    ClientLeft,
    /// The server closed or broke its connection.
    ServerLeft,
    /// Idle; its server had more of our sessions than its share.
    Balance,
    /// Idle; its server is no longer eligible.
    NotEligible,
    /// Idle; its server no longer takes writes.
    NotPrimary,
    /// Idle; it read from the primary as a last resort, and a replica is eligible again.
    ReplicaBack,
    /// Idle; its server is drained by command.
    Drained,
    /// Cut: its server was drained by command and the deadline passed.
    DrainDeadline,
    /// Idle; the router stops.
    Stopping,
    /// Cut: the router stops and the deadline passed.
    StopDeadline,
    /// Idle; a switchover away from its server is under way.
    Switchover,
    /// Refused by us after the server had greeted: no login in time, or none that can go on.
    NotLoggedIn,
    /// The client's host or network is dead: it acknowledged nothing any more.
    ClientSilent,
    /// The server's host or network is dead: it acknowledged nothing any more.
    ServerSilent,
    /// Cut: a thread of ours that had it has failed.
    ThreadFailed,
}

impl Closed {
    /// Every kind, in the order of [`Closed::index`].
    pub const WORDS: [&'static str; 15] = [
        "client left",
        "server left",
        "moved: balance",
        "moved: server not eligible",
        "moved: server is not the primary",
        "moved: a replica is back",
        "drained",
        "cut at the drain deadline",
        "stopping",
        "cut at the stop deadline",
        "switchover",
        "not logged in",
        "client silent",
        "server silent",
        "cut: a thread of ours failed",
    ];

    const ALL: [Self; 15] = [
        Self::ClientLeft,
        Self::ServerLeft,
        Self::Balance,
        Self::NotEligible,
        Self::NotPrimary,
        Self::ReplicaBack,
        Self::Drained,
        Self::DrainDeadline,
        Self::Stopping,
        Self::StopDeadline,
        Self::Switchover,
        Self::NotLoggedIn,
        Self::ClientSilent,
        Self::ServerSilent,
        Self::ThreadFailed,
    ];

    /// Its number, for counters.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The kind with this number; numbers that are none count as the first.
    pub fn from_index(index: usize) -> Self {
        Self::ALL.get(index).copied().unwrap_or(Self::ClientLeft)
    }

    /// Whether it ended in another way than the client, or a rule of ours for idle sessions, meant it to.
    pub fn is_failure(self) -> bool {
        match self {
            Self::ServerLeft
            | Self::DrainDeadline
            | Self::StopDeadline
            | Self::NotLoggedIn
            | Self::ClientSilent
            | Self::ServerSilent
            | Self::ThreadFailed => true,
            Self::ClientLeft
            | Self::Balance
            | Self::NotEligible
            | Self::NotPrimary
            | Self::ReplicaBack
            | Self::Drained
            | Self::Stopping
            | Self::Switchover => false,
        }
    }

    /// In stable words.
    pub fn words(self) -> &'static str {
        Self::WORDS[self.index()]
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_kinds_agree() {
        for (at, kind) in Closed::ALL.into_iter().enumerate() {
            assert_eq!((kind.index(), Closed::from_index(at)), (at, kind));
        }
    }
}
