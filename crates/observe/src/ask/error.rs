//! Why a question to a server has no answer, and whose fault that is.

use fleet::Blame;
use std::net::IpAddr;
use std::time::Duration;

/// No answer that we ask for has more rows: the longest has one for each client host or session.
pub(super) const MOST_ROWS: usize = 100_000;
/// Nor more bytes.
pub(super) const MOST_BYTES: usize = 16 << 20;

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Nothing came within the deadline.
    #[error("no answer to {what} within {} ms", deadline.as_millis())]
    Silent {
        /// What was waited for.
        what: String,
        deadline: Duration,
    },
    /// Its last answer is too old, and nothing came since, not even an error.
    #[error("its last answer is {:.1} s old", age.as_secs_f64())]
    Overdue { age: Duration },
    /// What it sent made the asking itself fail.
    #[error("what it answered broke the asking ({why}); please report it, with the server's version")]
    Panicked {
        /// The panic's words.
        why: String,
    },
    /// It was told of by another server, and its name leads out of the networks that discovery may go to.
    #[error("{host} leads to {ip}, outside {within}; if it is yours, add it to discover_within or seeds")]
    Outside {
        host: String,
        /// Where it leads.
        ip: IpAddr,
        /// What is allowed, in words.
        within: String,
    },
    /// The answer is longer than any honest one.
    #[error("the answer to {what} has more than {MOST_ROWS} rows or {} MiB and was not read further", MOST_BYTES >> 20)]
    TooLong { what: String },
    /// The host name leads nowhere.
    #[error("the host name {host} cannot be resolved: {why}")]
    Unresolved {
        host: String,
        /// The resolver's words.
        why: String,
    },
    /// Refused, reset, or not speaking the protocol.
    #[error("{why}")]
    Broken {
        /// The system's or the driver's words.
        why: String,
    },
    /// What the configuration gives cannot be used for TLS.
    #[error("TLS: {why}")]
    Tls {
        /// The file or name, and why.
        why: String,
        /// Whose fault it is.
        blame: Blame,
    },
    /// TLS is demanded, and the server has none.
    #[error("the server offers no TLS, and ssl_mode demands it")]
    NoTls,
    /// The server answered with an error.
    #[error("error {code} ({state}): {message}")]
    Answered {
        /// MySQL's error number.
        code: u16,
        state: String,
        /// The server's words.
        message: String,
    },
}

impl AskError {
    /// Whether the connection is of no more use.
    pub fn is_fatal(&self) -> bool {
        // 1152 to 1161 and 1927, 3169: the server says that it ends the connection.
        !matches!(self, Self::Answered { code, .. } if ![1053, 1152, 1158, 1159, 1160, 1161, 1927, 3169].contains(code))
    }

    /// Whose fault it is. A server that refuses an account or lacks a privilege answers correctly.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Silent { .. } | Self::Overdue { .. } | Self::Broken { .. } => Blame::Network,
            Self::Panicked { .. } => Blame::Bug,
            Self::Outside { .. } | Self::Unresolved { .. } => Blame::Config,
            Self::Answered { code: 1044 | 1045 | 1142 | 1143 | 1227 | 1370 | 1698 | 3118 | 3159, .. } => {
                Blame::Config
            }
            Self::Tls { blame, .. } => *blame,
            Self::NoTls | Self::TooLong { .. } | Self::Answered { .. } => Blame::Server,
        }
    }

    /// Whether the server understood and refused for want of a privilege.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Answered { code: 1044 | 1142 | 1143 | 1227 | 1370, .. })
    }

    /// Whether it says that there are no user locks for us: a privilege is missing, the functions are, or a
    /// cluster or proxy does not allow them (1105 is Percona XtraDB Cluster's, 1235 MariaDB's with Galera).
    pub(crate) fn refuses_locks(&self) -> bool {
        self.is_denied() || matches!(self, Self::Answered { code: 1064 | 1105 | 1128 | 1235 | 1305, .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_to_change_something_is_to_blame() {
        let answered = |code| AskError::Answered { code, state: String::new(), message: String::new() };
        assert_eq!(answered(1045).blame(), Blame::Config, "a refused password is ours to correct");
        assert_eq!(answered(1040).blame(), Blame::Server, "too many connections");
        let silent = AskError::Silent { what: "a ping".to_owned(), deadline: Duration::from_secs(1) };
        assert_eq!(silent.blame(), Blame::Network, "nobody can tell a dead host from a cut cable");
        assert_eq!(AskError::NoTls.blame(), Blame::Server);
    }

    #[test]
    fn a_statement_that_took_too_long_says_nothing_of_user_locks() {
        let refuses =
            |code| AskError::Answered { code, state: String::new(), message: String::new() }.refuses_locks();
        assert!([1370, 1105, 1235, 1305].into_iter().all(refuses));
        assert!(![1969, 3024, 1205, 3058].into_iter().any(refuses));
    }
}
