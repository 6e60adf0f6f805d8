//! Close: ends a bypassed session so that no statement is executed and left without an answer.
//!
//! Somebody who knows what passed on the session (`Mirror`) says that it holds nothing, and up to which byte that is true. Then:
//!
//! 1. The program `hold` drops what the client sends from now on, before it leaves the host.
//! 2. The socket is looked at. The kernel reads the counts under the socket's lock, so a client that was sending when the
//!    hold began is seen: its bytes are unacknowledged, unsent or counted. Only if both counts are those that were known,
//!    and nothing is under way, everything that the session ever did is known, and the server has nothing of it left to do.
//! 3. The socket is ended. What the client wrote after step 1 has not reached the server: it meets a reset, and may be sent again
//!    on another connection. The reset itself carries no data and passes.
//!
//! A session that turns out to be in use is released; TCP sends what was dropped again (after its retransmission timeout,
//! 200 ms at least), and nobody notices anything else.

use crate::attach::{self, HOLD};
use crate::bypass::{Bypass, monotonic_ns};
use crate::error::Error;
use crate::layout::{Map, Session, u64_at};
use crate::socket::Socket;
use crate::{mounts, object};
use std::io;
use std::time::Duration;

/// Who dies between the hold and the end leaves a session held back for this long at most. Who is stopped for longer between the
/// look and the end could end a session that is in use.
const HOLD_FOR: Duration = Duration::from_secs(30);

/// What became of a session that was to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is closed, and the client had sent nothing.
    Closed,
    /// It is closed. What the client sent meanwhile has not left the host.
    ClosedBeforeStatement,
    /// It is in use, or was used since it was looked at: it stays.
    InUse,
}

impl Bypass {
    /// Brings the program that holds back what clients send into the cgroup, or takes it out: as long as it is there, each packet
    /// of the cgroup is looked at.
    ///
    /// # Errors
    /// What the kernel said; then it is not there.
    pub fn set_holding(&mut self, on: bool) -> Result<(), Error> {
        if self.holding == Some(on) {
            return Ok(());
        }
        self.holding = Some(false);
        let mut programs = object::programs().map_err(|why| Error::NoProgram { why })?;
        programs.retain(|program| program.name == HOLD);
        let done = if on {
            let (cgroup, _) = mounts::cgroup(Some(&self.cgroup))?;
            attach::put_in_force(&programs, &self.maps, &self.directory, &cgroup)
        } else {
            Ok(())
        };
        if !on || done.is_err() {
            attach::put_out_of_force([HOLD].into_iter(), &self.directory);
        }
        self.holding = Some(on && done.is_ok());
        done
    }

    /// Whether sessions can be held back, and so be closed.
    pub fn holds(&self) -> bool {
        self.holding == Some(true)
    }

    /// Closes a session of which everything up to what `socket` says is known, unless it is used.
    ///
    /// # Errors
    /// `Unsupported` without [`Bypass::set_holding`] or when the kernel cannot end sockets; whatever else the system said. The session
    /// stays then.
    pub fn close(&self, session: &Session, socket: &Socket) -> io::Result<Outcome> {
        if !self.holds() {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        // From here on its end is our doing, no failure of its server.
        if !self.will_end(session) {
            return Ok(Outcome::InUse);
        }
        let ended = self.hold(session).and_then(|()| socket.end_if_unused_since());
        let dropped = self.release(session) > 0;
        if !matches!(ended, Ok(true)) {
            self.will_not_end(session);
        }
        ended.map(|ended| match (ended, dropped) {
            (true, false) => Outcome::Closed,
            (true, true) => Outcome::ClosedBeforeStatement,
            (false, _) => Outcome::InUse,
        })
    }

    /// From here on nothing that the client sends leaves the host, for [`HOLD_FOR`] at most.
    ///
    /// # Errors
    /// What the system said; then nothing is held back.
    pub fn hold(&self, session: &Session) -> io::Result<()> {
        let until = monotonic_ns() + HOLD_FOR.as_nanos() as u64;
        let entry = [until.to_ne_bytes(), [0; 8]].concat();
        self.map(Map::Held).update(&session.cookie.to_ne_bytes(), &entry, false)
    }

    /// Ends that. Returns how many packets with data were dropped: TCP sends them again if the session is still there.
    pub fn release(&self, session: &Session) -> u64 {
        let key = session.cookie.to_ne_bytes();
        let entry = self.map(Map::Held).lookup(&key).ok().flatten();
        // Absent is as good as removed.
        let _ = self.map(Map::Held).delete(&key);
        entry.map_or(0, |entry| u64_at(&entry, 8))
    }
}
