//! Wakes a thread that sleeps in its ring.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};

/// Wakes a ring from any thread; the ring hands out [`Event::Woken`](crate::Event::Woken). Woken twice before
/// it has noticed counts once.
#[derive(Debug)]
pub struct Waker {
    counter: OwnedFd,
    woken: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        // Blocking on purpose: the ring would not wait on a descriptor that says it must not be waited on.
        Ok(Self { counter: eventfd(0, EventfdFlags::CLOEXEC)?, woken: AtomicBool::new(false) })
    }

    /// Wakes the ring. What was written before is seen by the thread that wakes up.
    pub fn wake(&self) {
        if !self.woken.swap(true, AcqRel) {
            // An eventfd refuses only at 2^64 - 1, and the ring takes the count back to zero each time.
            let _ = rustix::io::write(&self.counter, &1u64.to_ne_bytes());
        }
    }

    /// From here on a new wake-up counts anew. Called before what the ring was woken for is fetched.
    pub(crate) fn reset(&self) {
        self.woken.swap(false, AcqRel);
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.counter.as_raw_fd()
    }
}
