//! A router as a running process: the watcher and the data plane together, what it says of itself, and how it
//! gets on with systemd, signals and whoever records.
//!
//! Uses `fleet`, `config`, `zerohop`, `insight`, `observe`, `router` and `console`. Read first: `engine.rs`
//! (started, changed and stopped together), `router_view.rs` (what people see of it), `systemd.rs` (ready,
//! watched, its sockets kept over a crash).

pub mod core_dump;
pub mod engine;
mod error;
pub mod listen;
pub mod recorder;
mod router_view;
pub mod signals;
pub mod systemd;
pub mod watchdog;

pub use error::EngineError;
