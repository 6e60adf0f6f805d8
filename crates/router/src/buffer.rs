//! Buffers: memory for bytes in flight, lent from a pool that each thread has for itself.
//!
//! A session has a buffer only while the other side has not taken all of it, so a thousand idle sessions have
//! none.

use std::cell::RefCell;

/// Bytes of one buffer: enough for a result of a few hundred rows in one read.
pub(crate) const SIZE: usize = 16 * 1024;
/// Free buffers a pool keeps; beyond that they go back to the allocator.
const KEEP: usize = 64;

/// Free buffers of one thread.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: RefCell<Vec<Box<[u8]>>>,
}

impl Pool {
    /// A buffer of [`SIZE`] bytes with arbitrary content.
    pub(crate) fn take(&self) -> Box<[u8]> {
        self.free.borrow_mut().pop().unwrap_or_else(|| vec![0; SIZE].into_boxed_slice())
    }

    /// Gives a buffer back.
    pub(crate) fn give(&self, buffer: Box<[u8]>) {
        let mut free = self.free.borrow_mut();
        if free.len() < KEEP {
            free.push(buffer);
        }
    }
}
