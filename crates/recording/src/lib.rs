//! What clients sent and when, with what came of it: the material of a replay.
//!
//! A recording is a sequence of [`Event`]s. A router tells them while sessions speak; [`log`] reads them from
//! what a server has logged. [`Writer`] keeps them in a file that stays readable however the writing ends,
//! sealed if a [`Key`] is given; [`Reader`] gives them back. No sockets; which statements are never kept,
//! `sql` says.
//!
//! | question | file |
//! |---|---|
//! | what is kept of a session, a command, an answer | `event` |
//! | how is an event written | `event/code.rs` |
//! | how is the file laid out, what survives a crash | `file` |
//! | how is it sealed, which keys | `seal` |
//! //! | how is a server's log read | `log` |

mod error;
mod event;
mod file;
pub mod log;
mod seal;

pub use error::RecordingError;
pub use event::{Answer, Event, RecordedCommand, RecordingEnd, RecordingStart, SessionEnd, SessionStart};
pub use file::{Ending, Reader, Writer};
pub use seal::Key;
