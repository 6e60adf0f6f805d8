//! The generator on a real server, over io_uring. `tests/epoll.rs` has the same tests over epoll.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod counts;
mod course;
mod mix;
mod secret;
mod stand;

use config::DataPath;

/// Demanded: a machine without it fails these tests.
const DATA_PATH: DataPath = DataPath::IoUring;
