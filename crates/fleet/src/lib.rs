//! The nouns of Headroom: zones, servers, roles, lag, positions, versions and the checked configuration.
//!
//! Nothing here does I/O, reads a clock or draws a random number. Every other crate speaks in these words, so a
//! word means one thing in code, TOML, metrics, logs and docs.

mod address;
pub mod config;
mod demand;
mod lag;
mod role;
mod server;
mod snapshot;
mod units;
mod zone;

pub use address::{Address, AddressError, DEFAULT_PORT};
pub use demand::{Demand, DemandSource, ZoneShare};
pub use lag::{Lag, LagSource};
pub use role::{ListenerRole, Role};
pub use server::{Load, Replication, Server, ServerName, State, Thread, Zoned, ZonedBy};
pub use snapshot::{Snapshot, WriterStatus};
pub use units::{Share, UnitError, Weight};
pub use zone::Zone;
