//! The generator on a real server, over io_uring. `server_epoll` has the same tests over epoll.

mod counts;
mod course;
mod mix;
mod secret;
pub(crate) mod stand;

use config::DataPath;

/// Demanded: a machine without it fails these tests.
const DATA_PATH: DataPath = DataPath::IoUring;
