//! Where a session stands, and how far its commands are.

use super::why::{ClosedBecause, LostBecause, OpaqueBecause};

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing complete has come: the server speaks first.
    Greeting,
    /// The server has greeted; the client has not logged in.
    Login,
    /// Client and server exchange proofs.
    Authenticating,
    /// Logged in, no command outstanding. (See [`Tracker::is_idle`](super::Tracker::is_idle) for packets that
    /// have come in part.)
    Idle,
    /// A command is outstanding.
    Busy,
    /// The server waits for a file from the client (`LOAD DATA LOCAL`).
    Infile,
    /// The server streams its binary log: never idle again.
    Streaming,
    /// It ends: one side said so.
    Closing(ClosedBecause),
    /// It goes on in a form that cannot be read.
    Opaque(OpaqueBecause),
    /// The bytes made no sense; nothing is known from here on.
    Lost(LostBecause),
}

/// Counts of answered commands, each only ever growing. The n-th command started is the n-th answered and the
/// n-th completed, so a relay that compares them after each feed can time every command. Commands without an
/// answer (`COM_QUIT`, `COM_STMT_CLOSE`, `COM_STMT_SEND_LONG_DATA`) are not counted, nor are those that start
/// a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Commands whose start has come from the client.
    pub started: u64,
    /// Commands whose answer the server has begun.
    pub answering: u64,
    /// Commands answered whole.
    pub completed: u64,
    /// Commands answered with an error; part of `completed`.
    pub failed: u64,
}
