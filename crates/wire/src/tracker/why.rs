//! Why a session ends or can no longer be followed, as facts and in words.

use crate::side::Side;
use fleet::Blame;
use std::fmt;

/// Why a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClosedBecause {
    /// The client said `COM_QUIT`.
    ClientQuit,
    /// The server refused to greet or to log in the client, with this error number.
    Refused(u16),
    /// The server ended an idle session with this error number (a timeout, a kill, its own shutdown).
    ServerLeft(u16),
}

/// Why a session cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpaqueBecause {
    /// The client asked for TLS.
    Tls,
    /// Both sides agreed to compress.
    Compression,
    /// One side speaks the protocol from before MySQL 4.1.
    OldProtocol,
}

/// Why a session was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LostBecause {
    /// A packet with another sequence id than the next.
    OutOfSequence {
        /// Who sent it.
        side: Side,
        /// The id that should have come.
        expected: u8,
        /// The id that came.
        got: u8,
    },
    /// A packet that nothing asked for.
    Unexpected {
        /// Who sent it.
        side: Side,
        /// Its first byte; 0 when it is empty.
        first: u8,
    },
    /// A packet that must be readable and is not.
    Malformed {
        /// Which, in words.
        packet: &'static str,
    },
    /// More commands sent ahead than we keep account of.
    TooManyCommands {
        /// How many we keep.
        limit: usize,
    },
}

impl LostBecause {
    /// Who is to blame: the side that broke the protocol. A packet that should be readable may be either
    /// side's, or one that we do not know yet: those are ours.
    pub const fn blame(self) -> Blame {
        match self {
            Self::OutOfSequence { side, .. } | Self::Unexpected { side, .. } => side.blame(),
            Self::Malformed { .. } => Blame::Bug,
            Self::TooManyCommands { .. } => Blame::Client,
        }
    }
}

impl fmt::Display for ClosedBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientQuit => f.pad("the client quit"),
            Self::Refused(code) => write!(f, "the server refused the client with error {code}"),
            Self::ServerLeft(code) => write!(f, "the server ended the session with error {code}"),
        }
    }
}

impl fmt::Display for OpaqueBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tls => "tls",
            Self::Compression => "compression",
            Self::OldProtocol => "protocol from before 4.1",
        })
    }
}

impl fmt::Display for LostBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfSequence { side, expected, got } => {
                write!(f, "a packet of the {side} with sequence id {got} where {expected} was due")
            }
            Self::Unexpected { side, first } => {
                write!(f, "a packet of the {side} that starts with {first:#04x}, which nothing asked for")
            }
            Self::Malformed { packet } => write!(f, "an unreadable {packet} packet"),
            Self::TooManyCommands { limit } => write!(f, "more than {limit} commands sent ahead"),
        }
    }
}
