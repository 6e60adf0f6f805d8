//! What is slowing a server down: hosts and servers are sampled, and the bottleneck is named with its
//! evidence.
//!
//! Uses `fleet`, `config` and `observe` (its control connections). Read first: `verdict/rule.rs` (the table
//! of rules), `host.rs` and `server.rs` (what is sampled).
//!
//! * `host` reads this machine, `server` a server from the inside; both tell a reading from the difference of
//!   two.
//! * `recent` keeps the last readings of both and makes the window that a verdict is found in.
//! * `verdict` names the bottleneck; `history` keeps figures and verdicts for a day, with its gaps.

pub mod history;
pub mod host;
mod recent;
pub mod server;
pub mod verdict;

pub use recent::Recent;
