//! The tests of `server` once more, over epoll: whoever cannot have io_uring gets the same figures.

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
