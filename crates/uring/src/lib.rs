//! Sockets on io_uring: many receives and sends a system call, on one thread.
//!
//! The only home of the unsafe code that this takes; its interface is safe. A [`Ring`] owns the sockets given
//! to it and all memory that the kernel reads or writes, for as long as it may do so.
//!
//! **Receiving.** [`Ring::receive`] asks for what comes next on a socket, once. The bytes land in one of a
//! few [`Chunk`]s that all sockets share, chosen when bytes have come: ten thousand waiting sockets need no
//! buffer. A chunk goes back when it is dropped. When all are out, a receive waits until the next
//! [`Ring::enter`] has brought some back.
//!
//! **Sending.** [`Ring::send`] hands a chunk to the kernel with the next [`Ring::enter`]. Nearly always it
//! takes all of it at once, and then nothing is heard of it again: no event, and the chunk is free. Else the
//! rest is copied to memory of its own, so that a peer that does not read holds no chunk, and sent as the
//! peer makes room; [`Ring::is_sending`] says so, and [`Event::Sent`] ends it.
//!
//! **One system call a batch.** [`Ring::enter`] starts everything asked for since the last one, sleeps until
//! something has happened, and fetches it; [`Ring::event`] hands it out. The kernel works only inside that
//! call (`IORING_SETUP_DEFER_TASKRUN`), so between two calls nothing moves behind the caller's back: what a
//! look at a socket's queue shows is all there is, once the events have been handed out.
//!
//! **Completions that find no room.** When more happens in one call than the queue of completions holds, the
//! kernel keeps the rest, in order. [`Ring::enter`] calls again until it has all of them, before it takes any
//! send for done.
//!
//! Uses no other crate of ours. Read first: `ring.rs` (the one call), `chunk.rs` (memory that the kernel
//! fills), `ring/sending.rs`.
//!
//! Wants Linux 6.1 and a system that allows io_uring; [`Ring::new`] says what is missing.

#![allow(unsafe_code, reason = "memory shared with the kernel; every use says why it is sound")]

mod chunk;
mod event;
mod kernel;
mod outstanding;
mod ring;
mod table;
mod waker;

pub use chunk::Chunk;
pub use event::{Event, Incoming, Token};
pub use kernel::{Size, Unavailable};
pub use outstanding::{Outstanding, outstanding};
pub use ring::Ring;
pub use waker::Waker;
