//! What clients sent and when, with what came of it: the material of a replay.
//!
//! A recording is a sequence of [`Event`]s. A router writes them while sessions are under way; [`log`] reads
//! them from what a server has logged. [`Writer`] puts them into a file that stays readable however the
//! writing ends, sealed if a [`Key`] is given; [`Reader`] gives them back. [`take`] fills a file on disk, the
//! [`Output`], with events as they come. No sockets. May use `fleet` (whom
//! to blame) and `sql` (which statements are never kept). The three files to read first: `event.rs`,
//! `file.rs`, `log.rs`.
//!
//! | question | file |
//! |---|---|
//! | what is kept of a session, a command, an answer | `event` |
//! | how is an event written | `event/code.rs` |
//! | how is the file laid out, what survives a crash | `file` |
//! | how is it sealed, which keys | `seal` |
//! | how is a server's log read | `log` |
//! | how do events become a file on disk, and who may read that | `take`, `output` |
//! | what is said of it in the end | `summary` |

mod error;
mod event;
mod file;
pub mod log;
mod output;
mod seal;
mod summary;
pub mod take;

pub use error::RecordingError;
pub use event::{Answer, Event, RecordedCommand, RecordingEnd, RecordingStart, SessionEnd, SessionStart};
pub use file::{Ending, Reader, Writer};
pub use output::Output;
pub use seal::Key;
pub use summary::RecordingSummary;
