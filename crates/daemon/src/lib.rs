//! A router as a running process: the watcher and the data plane together, what it says of itself, and how it
//! gets on with systemd, signals and whoever records.
//!
//! Uses `fleet`, `config`, `zerohop`, `insight`, `observe`, `router` and `console`. Read first: `engine.rs`
//! (started, changed and stopped together), `process.rs` (the engine with its configuration and admin server:
//! reloaded, handed over), `serve.rs` (from its start to its end), `router_view.rs` (what people see of it),
//! `systemd.rs` (ready, watched, its sockets kept over a crash).

pub mod admin_server;
pub mod control_sockets;
pub mod core_dump;
pub mod descriptors;
pub mod engine;
mod error;
pub mod identity;
pub mod listen;
pub mod process;
pub mod recorder;
mod router_view;
pub mod serve;
pub mod signals;
pub mod systemd;
pub mod watchdog;

pub use error::EngineError;
