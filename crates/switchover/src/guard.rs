//! Automatic failover: a guard waits beside the fleet and does what `headroom failover` does when the primary
//! dies, where nobody has to be asked.
//!
//! ```text
//!  snapshot -> primary silent? -> [`decide`]: am I the active one, not paused, no failover a moment ago?
//!    -> confirm (replicas agree) -> nothing acknowledged can be lost? -> choose -> the steps of [`crate::perform`]
//! ```
//!
//! * **One is active**: the one that holds the user lock [`lock::LOCK`] on more than half of the servers
//!   other than the primary. It ends with the guard's connections, and with their short `wait_timeout` when
//!   its host vanishes or it stands still ([`lock`]).
//! * **No second failover without a person**: the last one is recorded on the new primary by its first write,
//!   so every guard reads it, from whichever server is left ([`record`]).
//! * **Never with a loss**: where an acknowledged write could be lost it says so and leaves it to a person.
//!
//! What is decided, and by which evidence, is in [`decide`], which is pure.

mod attempt;
mod cut_off;
pub mod decide;
mod decision_log;
pub mod lock;
pub mod record;
mod run;
mod source;
pub mod status;
mod undone;

pub use run::{Guard, GuardOptions};
pub use status::GuardStatus;
