//! Zero-hop: `connect()` on a listener's address goes straight to a server, by programs in the kernel.
//!
//! The way of a connection: the application calls `connect()` on a listener's address; the program on `cgroup/connect4`
//! or `connect6` takes the next pick of that listener from a page that user space has written, and puts the server's
//! address in its place. `getpeername()` still says what was dialled. Where a page has no pick, or the picked server has
//! just failed, the address stays as it is and the ordinary listener, on that very address, has the connection.
//!
//! This crate is the mechanism and decides nothing: which server is picked is its user's (`router`). All of it stays in
//! the kernel, pinned, when this process ends, until it is taken over by the next one or removed.
//!
//! | question | file |
//! |---|---|
//! | what the programs do | `bpf/zero_hop.c` |
//! | what is in the maps | `bpf/layout.h`, `layout`, `maps` |
//! | how programs get into the kernel, and are taken over | `bypass`, `attach`, `object`, `sys` |
//! | what is pinned where, and how it is removed | `pins`, `mounts` |
//! | how user space hears at once of a server in doubt | `bell` |
//! | how sessions that go past are seen all the same | `bpf/mirror.h`, `mirror` |
//! | how a connection is looked at and ended from outside | `socket` |
//! | how a session is closed without losing a statement | `close`, `bpf/hold.h` |

mod attach;
mod bell;
mod bypass;
mod close;
mod error;
mod layout;
mod maps;
mod mirror;
mod mounts;
mod object;
pub mod pins;
mod router_pins;
pub mod socket;
mod sys;

pub use bell::Bell;
pub use bypass::{Bypass, Spec, Targeted, Terms, Wanted, monotonic_ns, possible};
pub use close::Outcome;
pub use error::Error;
pub use layout::{Fate, LISTENERS, SLOTS, Session, TARGETS, Tally};
pub use mirror::{Mirror, Piece, What};
pub use router_pins::RouterPins;
pub use sys::duplicate;
