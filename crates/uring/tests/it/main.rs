//! The ring on this machine's kernel.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sockets;
