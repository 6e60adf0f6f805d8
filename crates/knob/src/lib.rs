//! Everything that is changed and put back: settings of the kernel, of block devices, interrupts, network,
//! memory, file systems, cgroups, OpenZFS and of MySQL and MariaDB servers.
//!
//! * [`catalogue`] is the one table of what can be changed: values, danger, how a change is verified, where
//!   that is documented.
//! * [`managed`] is a server that may be restarted: its allocator, file system, limits, start-up variables.
//! * [`journal`] is written and synced *before* each change, so that a crash, a kill or a power loss loses no
//!   original value.
//! * [`apply`] checks a value, writes it and reads it back; what reads back differently is refused and
//!   undone.
//! * [`set`] is all of that for what somebody asks for at once.
//! * [`verify`] decides whether a change is in force; [`restore`] puts back what is still as we left it, and
//!   leaves what somebody else changed meanwhile.
//!
//! May use `fleet`, `config`, `observe` and `term`. Read first: `catalogue.rs`, `apply.rs`, `restore.rs`.
//!
//! Everything here blocks and nothing here is asynchronous: a change must also be put back while a panic
//! unwinds, and there nobody can await. A server is asked on a thread of its own ([`server`]).

pub mod action;
pub mod apply;
pub mod catalogue;
pub mod command_output;
pub mod error;
pub mod host;
pub mod identity;
pub mod item;
pub mod journal;
pub mod managed;
pub mod mount;
pub mod name;
pub mod profile;
pub mod resolve;
pub mod restore;
pub mod server;
pub mod session;
pub mod set;
pub mod text;
pub mod tuner;
pub mod value;
pub mod verify;
pub mod view;

pub use error::{Error, Refusal};
pub use host::Host;
pub use session::Session;
