//! Real MariaDB or MySQL servers on this machine, with GTID replication, zones, links of simulated distance,
//! and faults.
//!
//! ```no_run
//! # async fn example() -> Result<(), lab::Error> {
//! let spec = lab::Spec::new(&[("a", 2), ("b", 1)]);
//! let lab = lab::Lab::up(&spec, std::path::Path::new("/tmp")).await?;
//! let reached = lab.reach("a", "b1")?; // how zone a reaches b1, over a link
//! lab.fault("b1", lab::Fault::Freeze).await?;
//! lab.heal("b1").await?;
//! lab.down().await
//! # }
//! ```
//! Nothing is left behind: [`Lab`] stops everything when dropped, the kernel kills servers whose owner was
//! killed, and the next [`Lab::up`] sweeps what is left all the same. Everything happens on 127.0.0.0/8 and
//! in one directory.
//!
//! May use `fleet`, `wire` and `term`. Read first: `lab.rs` (what a caller does with it), `spec.rs` (what it
//! is asked for), `link.rs` (simulated distance).

mod account;
pub mod app;
mod children;
pub mod control;
mod datadir;
mod dir;
mod error;
mod fault;
mod lab;
mod layout;
mod link;
pub mod managed;
pub mod null;
mod option_file;
mod port;
pub mod process;
mod program;
mod replication;
mod router_config;
mod running;
pub mod scripted;
mod server;
mod spec;
mod status;
pub mod text;
pub mod zone_config;

pub use account::{Account, DATABASE};
pub use dir::make_base;
pub use error::Error;
pub use fault::{Change, FAULTS, Fault, FaultError, FaultWords};
pub use lab::Lab;
pub use link::LinkReport;
pub use program::Flavour;
pub use router_config::{RouterAddresses, RouterOptions};
pub use server::ProcessState;
pub use spec::{Network, ServerSpec, Spec, SpecError};
pub use status::{Answer, Role, ServerStatus, Status};
