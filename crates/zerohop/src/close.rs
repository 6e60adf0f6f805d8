//! Close: ends a bypassed session so that no statement is executed and left without an answer.
//!
//! Somebody who knows what passed on the session (`Mirror`) says that it holds nothing, and up to which byte
//! that is true. Then:
//!
//! 1. The program `hold` drops what the client sends from now on, before it leaves the host.
//! 2. The socket is looked at. The kernel reads the counts under the socket's lock, so a client that was
//!    sending when the hold began is seen: its bytes are unacknowledged, unsent or counted. Only if both
//!    counts are those that were known, and nothing is under way, everything that the session ever did is
//!    known, and the server has nothing of it left to do.
//! 3. The socket is ended. What the client wrote after step 1 has not reached the server: it meets a reset,
//!    and may be sent again on another connection. The reset itself carries no data and passes.
//!
//! A session that turns out to be in use is released; TCP sends what was dropped again (after its
//! retransmission timeout, 200 ms at least), and nobody notices anything else.

use crate::bypass::Bypass;
use crate::layout::Session;
use crate::socket::Socket;
use std::io;

/// What became of a session that was to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseOutcome {
    /// It is closed, and the client had sent nothing.
    Closed,
    /// It is closed. What the client sent meanwhile has not left the host.
    ClosedBeforeStatement,
    /// It is in use, or was used since it was looked at: it stays.
    InUse,
}

/// Closes a session that is known up to what `socket` says, unless it is used.
///
/// # Errors
/// `Unsupported` without [`Bypass::set_holding`] or when the kernel cannot end sockets; whatever else the
/// system said. The session stays then.
pub fn close_session(bypass: &Bypass, session: &Session, socket: &Socket) -> io::Result<CloseOutcome> {
    if !bypass.holds() {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    // From here on its end is our doing, no failure of its server.
    if !bypass.will_end(session) {
        return Ok(CloseOutcome::InUse);
    }
    let ended = bypass.hold(session).and_then(|()| socket.end_if_unused_since());
    let dropped = bypass.release(session) > 0;
    if !matches!(ended, Ok(true)) {
        bypass.will_not_end(session);
    }
    ended.map(|ended| match (ended, dropped) {
        (true, false) => CloseOutcome::Closed,
        (true, true) => CloseOutcome::ClosedBeforeStatement,
        (false, _) => CloseOutcome::InUse,
    })
}
