//! The MySQL and MariaDB client/server protocol as bytes.
//!
//! No sockets, no clock and no policy: functions from bytes to values and back, and one state machine, the
//! [`Tracker`], that is fed with what a relay passes on and knows where the session stands. Every parser is
//! total: any input gives a value or an error, never a panic, and memory stays bounded whatever a peer sends.
//!
//! The way in: [`packet`] cuts a byte stream into packets; [`greeting`], [`login`] and [`response`] read and
//! write the packets that matter to us; [`tracker`] follows a session, and asks `sql` which state its
//! statements leave behind.
//!
//! May use `fleet` (whom to blame) and `sql`. The three files to read first: `packet.rs`, `tracker.rs` with
//! `tracker/session.rs`, `bridge.rs`.

#![warn(missing_docs)]

pub mod attributes;
pub mod auth;
pub mod bridge;
pub mod capability;
pub mod command;
mod error;
pub mod greeting;
pub mod login;
pub mod packet;
pub mod proxy;
pub mod read;
pub mod response;
mod side;
pub mod status;
pub mod tracker;
pub mod write;

pub use capability::Capabilities;
pub use command::Command;
pub use error::WireError;
pub use greeting::Greeting;
pub use login::Login;
pub use response::ErrPacket;
pub use sql::Sticky;
pub use status::Status;
pub use tracker::{Event, Finish, Observer, Phase, Progress, Start, Tracker};
