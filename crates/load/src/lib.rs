//! The load generator: what is sent ([`workload`], [`distribution`]), when ([`arrivals`]), by whom (the
//! driver), and what came of it ([`outcome`]).
//!
//! ```no_run
//! # fn example() -> Result<(), load::LoadError> {
//! use load::{Account, Arrivals, Plan, Target, workload::sysbench};
//! let options = sysbench::Options::default();
//! let workload = sysbench::workload("oltp_point_select", &options).expect("one of sysbench's");
//! let plan = Plan {
//!     workload: workload.into(),
//!     target: Target::single("127.0.0.1:3306".parse().expect("an address"), Account::default()),
//!     clients: 16,
//!     idle: 0,
//!     read_only: false,
//!     threads: 1,
//!     busy: false,
//!     data_path: Default::default(),
//!     arrivals: Arrivals::poisson(2000.0),
//!     warm_up: std::time::Duration::from_secs(2),
//!     time: std::time::Duration::from_secs(10),
//!     grace: std::time::Duration::from_secs(1),
//!     seed: 1,
//!     objective: None,
//! };
//! let outcome = load::run(&plan, &Default::default(), |_progress| {})?;
//! println!("p99: {} ms", outcome.response.p99_ms);
//! # Ok(())
//! # }
//! ```
//! No client library is on the timed path: sessions are small state machines over non-blocking sockets, a
//! query allocates nothing, and threads share nothing while they send.
//!
//! May use `fleet`, `config`, `plan`, `chart`, `sql`, `wire`, `tls`, `recording`, `uring` and `term`. Read
//! first: `driver/transactions.rs` (a phase on one thread), `measure.rs` (which rate is tried next),
//! `replay.rs` (a recording sent again).

pub mod arrivals;
mod counts;
pub mod distribution;
mod driver;
mod error;
mod files;
mod login;
mod meaning;
pub mod measure;
pub mod outcome;
mod progress_view;
pub mod replay;
mod reply;
pub mod report;
mod run;
mod session;
mod soundness;
pub mod store;
pub mod tables;
mod target;
pub mod workload;

pub use arrivals::Arrivals;
pub use distribution::Distribution;
pub use driver::TlsChannelError;
pub use error::{LoadError, PlanError};
pub use login::{Account, LoginError};
pub use outcome::Outcome;
pub use progress_view::ProgressView;
pub use run::{Load, Plan, Progress, Seed, run};
pub use target::Target;
pub use workload::Workload;
