//! The tests of `tests/server` once more, over epoll: whoever cannot have io_uring gets the same figures.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "server/counts.rs"]
mod counts;
#[path = "server/course.rs"]
mod course;
#[path = "server/secret.rs"]
mod secret;
#[path = "server/stand.rs"]
mod stand;

use config::DataPath;

const DATA_PATH: DataPath = DataPath::Epoll;
