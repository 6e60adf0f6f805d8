//! The data plane: which server the next session gets, the sessions themselves, and when one is moved.
//!
//! Decides on the snapshots that `observe` publishes and queries no server itself. It may use `fleet`, the
//! configuration, the protocol (`wire`), `insight`, `recording`, `tls`, `uring` and `zerohop`, and neither
//! `observe` nor anything that prints.
//!
//! Start with [`pick`] (which server the next session gets: a pure function), `session` (one client's life,
//! in order) and `rebalancer` (when a session is moved).
//!
//! The way of a connection: `accept` takes it off a `listener` and hands it to a `worker` thread; `session`
//! lets [`pick`](pick::pick) choose on the [`View`](view::View) in force, connects (`connect`), carries the
//! `login` through, with `tls` where it is due, and starts the `relay`. Beside that, the `rebalancer` takes
//! snapshots and lets `placement` decide which sessions should leave.
//!
//! | question | file |
//! |---|---|
//! | which share of a zone's reads goes where | `flow` |
//! | which server the next session gets, and why | `pick` |
//! | why a server is not eligible | `eligible`, `suspect` |
//! | what has changed, in the log and the list of events | `event` |
//! | when a session is closed so that it comes back elsewhere | `placement`, `rebalancer`, `session_registry` |
//! | how a client is counted against the limits | `admission` |
//! | which way bytes take, and why | `path`, `relay` |
//! | what happens to a write while the primary is unknown | `hold` |
//! | when the drain of a new primary ends | `last_writer` |
//! | when a peer counts as gone | `peer` |
//! | what happens when a thread or task of ours ends or stands still | `supervise`, `health` |
//! | what a refused client sees, and what is logged of it | `refuse`, `refusal` |
//! | who the client is, behind a proxy and to a server | `identity` |
//! | how a server is left whose client has not logged in | `abandon` |
//! | where a host name leads | `names` |
//! | when TLS begins and ends, who is given how long to log in | `login` |
//! | which connections bypass this process, and how | `zero_hop` |
//! | who records what clients send, and what is kept of it | `record` |
//! | what statements tell | the `insight` crate; `collect` asks the threads |

#![allow(missing_docs, reason = "for this workspace alone: a name that says it all needs no comment")]

mod abandon;
mod accept;
mod admission;
mod apportion;
mod buffer;
pub mod capacity;
mod catch_panic;
mod close_quota;
pub mod closed;
mod collect;
mod connect;
pub mod eligible;
mod error;
pub mod event;
#[doc(hidden)]
pub mod fault;
mod find;
pub mod flow;
pub mod gray;
mod health;
mod heartbeat;
pub mod heat;
mod hold;
mod identity;
mod last_writer;
mod listener;
mod login;
#[cfg(test)]
mod login_bytes;
mod names;
mod path;
mod peer;
mod pending_move;
pub mod pick;
pub mod placement;
mod rebalancer;
mod record;
mod refusal;
mod refuse;
mod relay;
mod reserve;
mod router;
mod server_counters;
mod session;
mod session_registry;
mod session_span;
mod shared_state;
mod sockets;
pub mod speed;
pub mod status;
mod stream;
mod supervise;
pub mod suspect;
mod tls;
pub mod view;
pub mod work;
mod worker;
pub mod zero_hop;

pub use crate::tls::{check as check_tls, passwords_in_clear};
pub use collect::Insight;
pub use error::Error;
pub use pending_move::PendingMove;
pub use record::{Recording, RecordingRequest, RecordingStatus};
pub use refusal::RefusalReason;
pub use router::{Changes, Router};
pub use sockets::{OpenedBy, PausedSocket, Sockets};
pub use status::Status;
