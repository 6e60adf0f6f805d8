//! Zero-hop: `connect()` on a listener's address goes straight to a server, by programs in the kernel.
//!
//! The way of a connection: the application calls `connect()` on a listener's address; the program on
//! `cgroup/connect4` or `connect6` takes the next pick of that listener from a page that user space has
//! written, and puts the server's address in its place. `getpeername()` still says what was dialled. Where a
//! page has no pick, or the picked server has just failed, the address stays as it is and the ordinary
//! listener, on that very address, has the connection.
//!
//! This crate is the mechanism and decides nothing: which server is picked is its user's (`router`). All of
//! it stays in the kernel, pinned, when this process ends, until it is taken over by the next one or removed.
//! It uses no other crate of ours; `sys` and `sys/ring` are its only files with `unsafe`.
//!
//! Start with `bpf/zero_hop.c` (what the programs do), `bypass` (how they get into the kernel, are taken over
//! and are told what to do) and `layout` (what both sides agree on, byte for byte).
//!
//! | question | file |
//! |---|---|
//! | what the programs do | `bpf/zero_hop.c` |
//! | what is in the maps | `bpf/layout.h`, `layout`, `maps` |
//! | how programs get into the kernel, and are taken over | `bypass`, `attach`, `object`, `sys` |
//! | what is pinned where, and how it is removed | `pins`, `pin_files`, `mounts` |
//! | how user space learns at once of a suspect server | `wakeup` |
//! | how bypassing sessions are followed | `bpf/mirror.h`, `mirror` |
//! | how a connection is looked at and ended from outside | `socket` |
//! | how a session is closed without losing a statement | `close`, `bpf/hold.h` |

#![allow(missing_docs, reason = "for this workspace alone: a name that says it all needs no comment")]

mod attach;
mod bypass;
mod bytes;
mod clock;
mod close;
mod error;
mod layout;
mod maps;
mod mirror;
mod mounts;
mod object;
mod pin_files;
pub mod pins;
mod router_pins;
pub mod socket;
mod sys;
mod wakeup;

pub use bypass::{Bypass, Page, Spec, Target, Terms, possible, possible_in};
pub use clock::monotonic_ns;
pub use close::{CloseOutcome, close_session};
pub use error::Error;
pub use layout::{ConnectCounts, LISTENERS, SLOTS, Session, TARGETS, TargetCounters};
pub use mirror::{Mirror, Piece, PieceKind};
pub use object::BUILT;
pub use router_pins::RouterPins;
pub use sys::take_listening;
pub use wakeup::Wakeup;
