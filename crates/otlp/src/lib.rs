//! OTLP: metrics and spans of sessions, sent to a collector of OpenTelemetry by HTTP, as protobuf. A feature
//! of the binary, off by default (docs/decisions/0077-collectors-scrape.md).
//!
//! It uses `fleet`, `console` and `tls`. The environment is the caller's: settings are read through a
//! function that it gives. Read first:
//!
//! * `settings.rs`: which variables mean what;
//! * `exposition.rs` and `metrics.rs`: the text of `/metrics` read again and put into OTLP's message, so that
//!   the two cannot disagree;
//! * `sessions.rs` and `span.rs`: a session's span from the data plane to its message, without ever waiting;
//! * `exporter.rs`: the tasks that send both, and their end; `retry.rs`: what is tried again, and when.

mod client;
mod error;
mod exporter;
pub mod exposition;
pub mod metrics;
mod pace;
mod resource;
mod retry;
mod sessions;
mod settings;
pub mod span;

pub use client::Signal;
pub use error::OtlpError;
pub use exporter::{Exporter, Pending, Source};
/// OTLP's messages, for whoever reads what is sent.
pub use opentelemetry_proto::tonic as proto;
pub use resource::Resource;
pub use sessions::{Sessions, collect};
pub use settings::Settings;
