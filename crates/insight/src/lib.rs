//! What the statements that pass through a router tell: which endpoint sends which queries, and how long they
//! take where.
//!
//! No sockets and no policy. Each thread of the data plane has a [`Ledger`]; each session has a [`Session`],
//! which observes what the tracker of `wire` finds in its bytes. A [`Collector`] adds the ledgers up and
//! makes [`Report`]s. Everything has a limit, and what is beyond it is counted and shown. May use `config`,
//! `sql` (digests, tags) and `wire`. The three files to read first: `session.rs`, `ledger.rs`, `report.rs`.
//!
//! | question | file |
//! |---|---|
//! | whose is a statement, how long did it take | `session` |
//! | what is counted, and how are quantiles told | `figures`, `histogram` |
//! | how many queries does a request send | `request` |
//! | what is bounded, and how | `registry`, `ledger` |
//! | which name gives up its place | `aging` |
//! | what did the sessions that were not measured do | `sampling` |
//! | how are figures grouped | `report` |
//! | when is a promise about statements broken | `objective` |

mod aging;
mod figures;
mod histogram;
mod ledger;
pub mod objective;
mod registry;
mod report;
mod request;
mod sampling;
mod session;

pub use figures::Figures;
pub use histogram::Histogram;
pub use ledger::{Counts, Ledger, READ, Shared, Snapshot, TAIL, Time};
pub use registry::{Entry, Names, OTHER, Registry};
pub use report::{Collector, Dimension, Filter, MARK, Report, Room, Row, Sample, Since};
pub use request::RequestFigures;
pub use session::{CommandObserver, Session};
