//! Bell: wakes a thread that sleeps in its ring.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};

/// Rung from any thread; the ring hands out [`Event::Rung`](crate::Event::Rung). Rung twice before it was heard counts once.
#[derive(Debug)]
pub struct Bell {
    counter: OwnedFd,
    rung: AtomicBool,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        // Blocking on purpose: the ring would not wait on a descriptor that says it must not be waited on.
        Ok(Self { counter: eventfd(0, EventfdFlags::CLOEXEC)?, rung: AtomicBool::new(false) })
    }

    /// Wakes the ring. What was written before is seen by whoever hears it.
    pub fn ring(&self) {
        if !self.rung.swap(true, AcqRel) {
            // An eventfd refuses only at 2^64 - 1, and the ring takes the count back to zero each time.
            let _ = rustix::io::write(&self.counter, &1u64.to_ne_bytes());
        }
    }

    /// From here on a new ring is heard anew. Called before what the bell was rung for is fetched.
    pub(crate) fn heard(&self) {
        self.rung.swap(false, AcqRel);
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.counter.as_raw_fd()
    }
}
