//! The nouns of Headroom: zones, servers, roles, lag, positions, versions, units, and whose fault an error
//! is.
//!
//! Uses no other crate of ours. Nothing here does I/O, reads a clock or draws a random number. Every other
//! crate speaks in these words, so a word means one thing in code, TOML, metrics, logs and docs. Read first:
//! `server.rs` (a server as last seen), `snapshot.rs` (the whole fleet), `gtid.rs` (positions that can be
//! compared).

#![warn(missing_docs)]

mod address;
pub mod announcement;
mod asking;
mod blame;
mod demand;
mod duration;
mod epoch;
mod gtid;
pub mod heat;
mod lag;
mod lasting;
mod position;
mod role;
mod server;
mod snapshot;
mod units;
mod version;
mod zone;

pub use address::{Address, AddressError, DEFAULT_PORT};
pub use announcement::Announcement;
pub use asking::Asking;
pub use blame::Blame;
pub use demand::{Demand, DemandSource, ZoneShare};
pub use duration::{DurationError, duration_text, parse_duration};
pub use epoch::{Claim, EpochSource, EpochStatus, IgnoredClaim};
pub use gtid::{GtidError, GtidPosition, GtidSet, GtidSource, Transaction};
pub use lag::{Lag, LagSource, bounds};
pub use lasting::long;
pub use position::{FilePosition, Position};
pub use role::{ListenerRole, Role};
pub use server::{
    KnownZone, Lack, Load, Newcomer, Replication, Server, ServerName, State, Thread, ZoneSource,
};
pub use snapshot::{Snapshot, WriterStatus};
pub use units::{UnitError, Weight};
pub use version::{Flavour, Version, VersionError};
pub use zone::Zone;
