//! The tests of `sessions` once more, with every byte moved by the polled driver.

use config::DataPath;

#[path = "sessions/bytes.rs"]
mod bytes;
#[path = "sessions/change.rs"]
mod change;
#[path = "sessions/fake.rs"]
mod fake;
#[path = "sessions/identity.rs"]
mod identity;
#[path = "sessions/login.rs"]
mod login;
#[path = "sessions/place.rs"]
mod place;
#[path = "sessions/refuse.rs"]
mod refuse;
#[path = "sessions/sealed.rs"]
mod sealed;
#[path = "sessions/slow.rs"]
mod slow;
#[path = "sessions/storm.rs"]
mod storm;
#[path = "sessions/supervise.rs"]
mod supervise;

const DATA_PATH: DataPath = DataPath::Epoll;
