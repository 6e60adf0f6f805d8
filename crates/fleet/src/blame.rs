//! Whose fault an error is. Every error that can end a session, a command or a start answers `blame()` with
//! one of these, and what happens next follows from it alone, never from the error's text:
//!
//! | blame | example | tried again elsewhere? | log level | a person who can help |
//! |---|---|---|---|---|
//! | [`Client`](Blame::Client) | hung up before its login, sent a packet that is no MySQL | no: it would do the same again | debug | the application's author |
//! | [`Server`](Blame::Server) | refuses the account, answers with an error, has too many connections | yes, on the next server | warn | the database's operator |
//! | [`Network`](Blame::Network) | connection refused or reset, no answer within the deadline | yes, on the next server, later on the same one | warn | whoever runs the network or the host |
//! | [`Config`](Blame::Config) | a file that cannot be read, a missing certificate, a privilege nobody granted | no: a reload has to change something first | error | whoever wrote `headroom.toml` |
//! | [`Bug`](Blame::Bug) | a state that the code takes for impossible | no | error | the authors of Headroom |
//!
//! Three rules decide in doubt:
//!
//! - Who has to change something so that it works next time is to blame, not who noticed first. A server that
//!   refuses our password answers correctly: the configuration is to blame.
//! - A peer that is silent or gone is the network's fault until it says something: nobody can tell a dead
//!   host from a cut cable.
//! - An error that wraps another has the inner one's blame.

use serde::Serialize;
use std::fmt;

/// Whose fault an error is: what is done next follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Blame {
    /// The client of a session, or what it sent.
    Client,
    /// A database server, or what it answered.
    Server,
    /// Nobody answered, or the connection ended on its way.
    Network,
    /// The configuration, a file that it names, or a privilege that is missing.
    Config,
    /// Headroom itself.
    Bug,
}

impl Blame {
    /// Every blame.
    pub const ALL: [Self; 5] = [Self::Client, Self::Server, Self::Network, Self::Config, Self::Bug];

    /// Its word in logs, metrics and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Network => "network",
            Self::Config => "config",
            Self::Bug => "bug",
        }
    }

    /// Whether the same attempt may succeed on another server.
    pub fn may_succeed_elsewhere(self) -> bool {
        matches!(self, Self::Server | Self::Network)
    }
}

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_and_networks_are_tried_again_elsewhere() {
        let again: Vec<_> = Blame::ALL.into_iter().filter(|blame| blame.may_succeed_elsewhere()).collect();
        assert_eq!(again, [Blame::Server, Blame::Network]);
    }
}
