//! Whole sessions through the router, between scripted servers and raw clients; their bytes move on io_uring,
//! which this machine must allow. `sessions_epoll` runs the same with epoll.

use config::DataPath;

mod bytes;
mod change;
mod fake;
mod identity;
mod login;
mod place;
mod refuse;
mod sealed;
mod slow;
mod storm;
mod supervise;

/// Demanded, so that no test passes on the other way.
const DATA_PATH: DataPath = DataPath::IoUring;
