//! The two sides of a session.

use fleet::Blame;
use std::fmt;

/// Which side sent a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The client.
    Client,
    /// The server.
    Server,
}

impl Side {
    /// Who is to blame for what this side sent.
    pub const fn blame(self) -> Blame {
        match self {
            Self::Client => Blame::Client,
            Self::Server => Blame::Server,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}
