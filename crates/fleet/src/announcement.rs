//! How a switchover is announced, without a control plane: by user locks (`GET_LOCK`) on the server that all
//! routers ask anyway.
//!
//! A lock is held by a connection and ends with it: when whoever moves the primary is killed, the
//! announcement ends and routers go on as before. Any account may look (`IS_USED_LOCK`), on every version, on
//! a read-only server too, and nothing is written to the binary log.
//!
//! | lock | held by | on | means |
//! |---|---|---|---|
//! | [`PREPARE`] | the switchover | the primary | ask the servers often; no new writer session bypasses the router |
//! | [`HOLD`] | the switchover | the primary | hold new writes; close writer sessions when they rest |
//! | [`ready`] | a router's control connection | the primary | this router has seen *prepare* |
//! | [`holding`] | a router's control connection | the primary | this router holds, and has no writer session left |
//! | [`seat`] | a router's control connection | every server | one router asks this server |
//! | [`OPERATION`] | the switchover or failover | every server | one operation at a time; its candidate waits for its epoch |
//! | [`FREEZE`] | the switchover | the primary | this session holds the global read lock |

use serde::Serialize;

/// A switchover is near.
pub const PREPARE: &str = "headroom.switchover.prepare";
/// Writes are held.
pub const HOLD: &str = "headroom.switchover.hold";
/// One operation at a time.
pub const OPERATION: &str = "headroom.switchover";
/// Held by the session that keeps the primary from writing, so that it is found when its program is lost.
pub const FREEZE: &str = "headroom.switchover.freeze";

/// What a server announces of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Announcement {
    /// Nothing: the usual case.
    #[default]
    Nothing,
    /// Its role moves soon.
    Prepare,
    /// New writes wait until it has moved.
    Hold,
}

/// The lock by which the control connection with this id says that its router has seen [`PREPARE`].
pub fn ready(connection_id: u64) -> String {
    format!("headroom.ready.{connection_id}")
}

/// The lock by which it says that its router holds writes and has no writer session left.
pub fn holding(connection_id: u64) -> String {
    format!("headroom.holding.{connection_id}")
}

/// The lock by which a control connection takes one of the seats of those that ask a server. Routers count
/// each other by these.
pub fn seat(number: u32) -> String {
    format!("headroom.asks.{number}")
}
