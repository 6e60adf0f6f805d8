//! Wakeup: the kernel wakes user space when a server becomes suspect, so that it looks now and not at its
//! next tick.

use crate::bypass::Bypass;
use crate::error::Error;
use crate::layout::Map;
use crate::sys::Ring;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::time::Duration;

/// The user's end of it.
#[derive(Debug)]
pub struct Wakeup {
    ring: Ring,
}

impl Wakeup {
    /// The wakeups of these programs.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn open(bypass: &Bypass) -> Result<Self, Error> {
        let ring = bypass.map(Map::Wakeups).ring().map_err(|e| Error::kernel("listen to its programs", e))?;
        Ok(Self { ring })
    }

    /// Waits for a wakeup, or for `limit`. Wakeups since the last call count as one.
    pub fn wait(&self, limit: Duration) -> bool {
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        let mut fds = [PollFd::from_borrowed_fd(self.ring.as_fd(), PollFlags::IN)];
        // Interrupted is as good as not woken: the caller waits again.
        let woken = poll(&mut fds, Some(&limit)).is_ok_and(|ready| ready > 0);
        if woken {
            // What comes between the two calls is seen by the look that follows.
            self.ring.skip();
        }
        woken
    }
}
