//! A dead primary: is it dead, who takes over, what could be lost, and how the dead one comes back.
//!
//! ```text
//!  confirm: own looks fail, replicas have lost it -> risk: can it still acknowledge? what could be lost?
//!    -> choose: who received most -> steps of [`crate::perform`]: lock -> freeze (stop receivers, fence) -> await (apply
//!       relay logs) -> stop replication -> PROMOTE -> mark -> repoint -> verify
//! ```
//!
//! [`confirm`], [`choose`] and [`risk`] are pure; [`scene`] reads what they decide on; the steps are those of
//! a planned move, with the same journal. [`exposure`] counts, while the primary lives, what a crash would
//! lose without semi-sync; [`source`] asks it whether it waits for acknowledgements. [`rejoin`] brings the
//! old primary back as a replica, or says what nobody else has; [`events`] stops its events then.
//! [`unfinished`] finds in the servers what a failover left behind whose tool was lost, and [`own_writes`]
//! whether its candidate was written to.

pub mod choose;
pub mod confirm;
pub mod events;
pub mod exposure;
pub mod gray;
pub mod own_writes;
pub(crate) mod receiver;
pub mod rejoin;
pub mod risk;
pub mod scene;
pub mod source;
pub mod text;
pub mod unfinished;
