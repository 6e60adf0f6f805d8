//! What a host and its servers allow: `headroom doctor` and `headroom check`. Only looks; nothing is changed,
//! on the host or on a server.
//!
//! Two steps, apart from each other: facts are gathered (`host/gather.rs`, `server/gather.rs`, thin), and
//! findings are made of them (`host.rs`, `server.rs`, `route.rs`: functions of values, without clock, file or
//! socket). A [`Finding`] is a line of the report: what was found, what it costs, and the line that mends it.
//!
//! Uses `fleet`, `config`, `uring`, `zerohop`, `observe`, `diagnose`, `router` and `term`. Read first:
//! `finding.rs` (a line of the report), `host.rs` (what the facts of a host mean), `survey.rs` (all servers,
//! asked at once).

mod error;
mod finding;
pub mod host;
pub mod route;
pub mod server;
mod survey;

pub use error::FactsError;
pub use finding::{Finding, Report, Status};
pub use survey::survey;
