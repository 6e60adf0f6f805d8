//! Who is who in a fleet: which server is primary, how far behind the others are, in which zone, under what
//! demand. Only reads.
//!
//! Uses `fleet`, `config`, `tls` and `wire`. Read first: `judge.rs` (who has which role, and why),
//! `survey.rs` (the whole fleet from any one seed), `watch.rs` (the loop: one task a server, one that
//! publishes snapshots).
//!
//! * `ask` opens control connections and puts questions with deadlines; `dialect` knows which statement a
//!   version understands; `answer` reads what came back.
//! * `survey` finds the fleet; `judge` says who is who; `lag`, `zone` and `demand` estimate. These are
//!   functions of values, without clock or socket.
//! * `epoch` says whose word on who takes writes is out of date, over restarts too.
//! * `pace` says how often, so that a server pays the same for one router and for a thousand.
//! * `visit` asks one server what is due; `watch` is the thin loop around all of them.

mod answer;
mod ask;
mod demand;
mod dialect;
mod discovery_scope;
mod epoch;
mod judge;
mod lag;
mod login;
mod pace;
mod poll;
mod privilege;
mod rows;
mod survey;
mod switchover;
mod view;
mod watch;
mod zone;

pub use answer::without_statement;
pub use ask::{AskError, ControlConnection, Recognized, connect};
pub use dialect::Dialect;
pub use login::{LoginError, LoginProbe};
pub use pace::Rhythm;
pub use rows::{Row, Rows};
pub use survey::{MORE_SERVERS, MOST_SERVERS};
pub use watch::{Suspicion, Watcher, survey};

/// Whether discovery may go to this address: it lies in `discover_within`, or where the seeds show the fleet
/// to be. A name that would have to be looked up first counts as outside.
pub fn lies_inside(config: &config::FleetConfig, address: &fleet::Address) -> bool {
    config.seeds.contains(address)
        || discovery_scope::DiscoveryScope::new(config).follow(address) == discovery_scope::Follow::Yes
}
