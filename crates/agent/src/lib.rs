//! The agent, and `watch`, as a library: this host and its servers are read once a second, judged, kept in a
//! history and published as one view, which the terminal, JSON, metrics and the page show alike.
//!
//! It uses `fleet`, `config`, `observe`, `diagnose`, `plan`, `console`, `term` and `tls`. Read first:
//!
//! * `monitor.rs`: the loop, and who is asked;
//! * `evaluator.rs`: what a tick does with what was read;
//! * `serve.rs`: what an agent answers, and to whom.

#![allow(
    missing_docs,
    reason = "used inside this workspace only; fields are documented where a name says too little"
)]

pub mod compare;
mod evaluator;
mod guard;
mod history;
pub mod hosts;
mod keys;
mod meter;
pub mod metrics;
mod monitor;
mod objectives;
mod page;
mod router;
pub mod rule_view;
mod series;
mod serve;
mod server_task;
mod surroundings;
pub mod text;
mod tls_acceptor;
mod watched_server;

pub use compare::{PastStretch, StretchError};
pub use hosts::{Agents, FollowedAgents};
pub use keys::{Files, Keys};
pub use monitor::{Monitor, MonitorOptions, Reconfigure};
pub use rule_view::RuleView;
pub use serve::{bind, serve};

use console::watch_view::WatchView;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Windows are judged once this often.
pub const EVERY: Duration = Duration::from_secs(1);

/// What was last published, and changes of it.
pub type Views = watch::Receiver<Arc<WatchView>>;
