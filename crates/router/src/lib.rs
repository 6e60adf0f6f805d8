//! The data plane: which server the next session gets, the sessions themselves, and when one is moved.
//!
//! Decides on the snapshots that `observe` publishes and asks no server itself. The way of a connection: `door` accepts
//! and hands it to a `worker` thread; `session` lets [`pick`](pick::pick) choose on the [`View`](view::View) in force,
//! connects (`connect`), carries the `login` through, with `tls` where it is due, and starts the `relay`. Beside that, `steward` hears snapshots, and lets `placement` decide
//! which sessions should leave which server.
//!
//! | question | file |
//! |---|---|
//! | which share of a zone's reads goes where | `flow` |
//! | which server the next session gets, and why | `pick` |
//! | why a server is not eligible | `eligible`, `suspect` |
//! | what has changed, in the log and the list of events | `event` |
//! | when a session is closed so that it comes back elsewhere | `placement`, `steward`, `roster` |
//! | which way bytes take, and why | `path`, `relay` |
//! | what happens to a write while the primary is unknown | `hold` |
//! | when a peer counts as gone | `peer` |
//! | what happens when a thread or task of ours ends or stands still | `supervise` |
//! | what a refused client sees | `refuse` |
//! | who the client is, behind a proxy and to a server | `identity` |
//! | how a server is left whose client has not logged in | `abandon` |
//! | where a host name leads | `names` |
//! | when TLS begins and ends, who is given how long to log in | `login` |
//! | which connections go past this process, and how | `zero_hop` |
//! | who records what clients send, and what is kept of it | `record` |
//! | what statements tell | the `insight` crate; `collect` asks the threads |

mod abandon;
mod apportion;
mod board;
mod buffer;
pub mod closed;
mod collect;
mod connect;
mod door;
pub mod eligible;
mod error;
pub mod event;
#[doc(hidden)]
pub mod fault;
mod find;
pub mod flow;
mod hold;
mod identity;
mod login;
mod names;
mod path;
mod peer;
pub mod pick;
pub mod placement;
mod record;
mod refuse;
mod relay;
mod reserve;
mod roster;
mod router;
mod session;
mod sockets;
pub mod status;
mod steward;
mod stream;
mod supervise;
pub mod suspect;
mod tally;
mod tls;
mod turned_away;
pub mod view;
mod worker;
pub mod zero_hop;

pub use crate::tls::{check as check_tls, passwords_in_clear};
pub use collect::Insight;
pub use error::Error;
pub use record::{Recording, RecordingStatus, Wanted};
pub use router::{Changes, Router};
pub use sockets::Sockets;
pub use status::Status;
pub use steward::Leaving;
pub use turned_away::TurnedAway;
