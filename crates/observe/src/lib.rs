//! Everything that is read: who is who in a fleet, how far behind, in which zone, under what demand. Never writes.
//!
//! * `ask` opens control connections and puts questions with deadlines; `dialect` knows which statement a version
//!   understands; `answer` reads what came back.
//! * `survey` finds the fleet from any one seed; `judge` says who is who; `lag`, `zone` and `demand` estimate.
//!   These are functions of values, without clock or socket.
//! * `host` reads this machine, `server` a server from the inside; `recent` keeps the last readings of both, and `verdict`
//!   names what holds the server up, with evidence.
//! * `history` keeps figures and verdicts for a day, with its gaps.
//! * `watch` is the thin loop around them: one task a server, one that keeps the book and publishes snapshots.

mod announced;
mod answer;
mod ask;
mod demand;
mod dialect;
pub mod history;
pub mod host;
mod idle;
mod judge;
mod lag;
pub mod option_file;
mod ping;
mod privilege;
mod recent;
mod rows;
pub mod server;
mod survey;
pub mod verdict;
mod view;
mod visit;
mod watch;
mod within;
mod zone;

pub use ask::{AskError, connect};
pub use idle::{IdleSessions, Idleness};
pub use ping::Pinger;
pub use recent::Recent;
pub use watch::{Suspicion, Watcher, survey};
