//! What is shown, asked or told over HTTP, and over the control sockets of a host: the values that people and
//! programs see (a type for each JSON document, so that what is inside may change), the pages, the metrics,
//! the admin address and its client, objectives with their webhook, commands to a running router.
//!
//! It uses `fleet`, `config`, `zerohop`, `insight`, `diagnose`, `term` and `tls`, never `router`: whoever
//! runs one fills the values in. Read first:
//!
//! * `status_view.rs`: what `/status.json`, the page, the metrics and `headroom status` show;
//! * `admin.rs`: the admin address, read-only;
//! * `control.rs`: how a command of this host reaches a running router.

#![allow(
    missing_docs,
    reason = "used inside this workspace only; fields are documented where a name says too little"
)]

pub mod admin;
pub mod admin_client;
pub mod comparison_view;
pub mod control;
pub mod drain;
pub mod exposition;
pub mod fleet_view;
pub mod history_view;
pub mod http;
pub mod insight_metrics;
pub mod insight_view;
pub mod objectives;
pub mod own_limit;
pub mod page;
pub mod pinned_text;
#[cfg(any(test, feature = "sample"))]
pub mod sample_status;
pub mod sample_view;
pub mod service;
pub mod status_metrics;
pub mod status_text;
pub mod status_view;
pub mod token;
pub mod top;
pub mod wait_warm;
pub mod watch_view;
pub mod web;

/// What statements tell, once it has been asked for; `None` when nothing runs any more.
pub type PendingReport = std::pin::Pin<Box<dyn Future<Output = Option<insight::Report>> + Send>>;
