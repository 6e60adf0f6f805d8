//! Moves the primary: checks, steps with undo, a journal. No acknowledged write is lost, and there are never
//! two writers.
//!
//! * [`step`]: the steps and what follows what, a pure state machine. Start here.
//! * [`check`]: the table of checks before anything is touched, pure functions of [`facts`].
//! * [`warmth`]: whether the candidate misses as few reads as the primary.
//! * [`failover`]: a dead primary; who takes over, and what could be lost.
//! * [`guard`]: fails over by itself, where that was switched on.
//! * [`perform`]: the thin loop that does and undoes steps on the servers, and writes the [`journal`].
//!
//! May use `fleet`, `config`, `observe` and `term`. Read first: `step.rs`, `check.rs`, `perform.rs`. With
//! `knob` it is the only crate that writes to servers.

mod announce;
pub mod check;
mod connection;
mod dialect;
mod error;
pub mod facts;
pub mod failover;
mod flags;
pub mod guard;
pub mod journal;
pub mod login;
pub mod perform;
pub mod semi_sync;
pub mod step;
pub mod survey;
pub mod text;
pub mod warmth;

pub use error::{Error, JournalError};
pub use flags::Flags;
