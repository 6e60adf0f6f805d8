//! Where a session is: what may come next, and from whom.

use super::why::{ClosedBecause, LostBecause, OpaqueBecause};

/// The command that has come in part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Receiving {
    #[default]
    Nothing,
    /// One that will be answered, with its number among the session's commands.
    Command(u64),
    /// One that will not.
    Silent,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SessionState {
    #[default]
    Greeting,
    Login,
    Proofs,
    Commands,
    Streaming,
    Closing(ClosedBecause),
    Opaque(OpaqueBecause),
    Lost(LostBecause),
}

/// The client's file for `LOAD DATA LOCAL`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Infile {
    #[default]
    None,
    /// Every client packet is a piece of it; an empty one ends it.
    Wanted,
    /// The server gave up with an error, but the client goes on to the end.
    Abandoned,
}
