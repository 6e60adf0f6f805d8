//! Bell: the kernel rings it when a server comes to be in doubt, so that user space looks now and not at its next tick.

use crate::Bypass;
use crate::error::Error;
use crate::layout::Map;
use crate::sys::Ring;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::time::Duration;

/// The user's end of it.
#[derive(Debug)]
pub struct Bell {
    ring: Ring,
}

impl Bell {
    /// Waits until it rings, or for `limit`. What rang since the last call counts, once.
    pub fn wait(&self, limit: Duration) -> bool {
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        let mut fds = [PollFd::from_borrowed_fd(self.ring.as_fd(), PollFlags::IN)];
        // Interrupted is as good as not rung: whoever waits calls again.
        let rung = poll(&mut fds, Some(&limit)).is_ok_and(|ready| ready > 0);
        if rung {
            // What rings between the two calls is looked at by whoever looks now.
            self.ring.skip();
        }
        rung
    }
}

impl Bypass {
    /// The bell of these programs.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn bell(&self) -> Result<Bell, Error> {
        let ring = Ring::open(self.map(Map::Bell)).map_err(|e| Error::kernel("listen to its programs", e))?;
        Ok(Bell { ring })
    }
}
