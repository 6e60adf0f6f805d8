//! How routers learn of a switchover without a control plane: by user locks (`GET_LOCK`) on the server that they ask anyway.
//!
//! A lock is held by a connection and ends with it: when whoever moves the primary is killed, the announcement is gone
//! and routers go on as before. Any account may look (`IS_USED_LOCK`), on every version, on a read-only server too, and
//! nothing is written to the binary log.
//!
//! | lock | held by | on | means |
//! |---|---|---|---|
//! | [`PREPARE`] | the switchover | the primary | ask this server often; new bypassed writer sessions end |
//! | [`HOLD`] | the switchover | the primary | hold new writes; close writer sessions when they rest |
//! | [`ready`] | a router's control connection | the primary | this router has seen *prepare* |
//! | [`holding`] | a router's control connection | the primary | this router holds |
//! | [`OPERATION`] | the switchover | every server | one operation at a time |

/// A switchover is near.
pub const PREPARE: &str = "headroom.switchover.prepare";
/// Writes are held.
pub const HOLD: &str = "headroom.switchover.hold";
/// One operation at a time.
pub const OPERATION: &str = "headroom.switchover";

/// What a router's control connection with this id takes when it has seen [`PREPARE`].
pub fn ready(connection_id: u64) -> String {
    format!("headroom.ready.{connection_id}")
}

/// What it takes once it holds writes.
pub fn holding(connection_id: u64) -> String {
    format!("headroom.holding.{connection_id}")
}

/// Counts the routers that are ready and those that hold, by the locks of connections that are there now. Needs PROCESS.
pub const COUNT_ROUTERS: &str = "SELECT \
     COALESCE(SUM(IS_USED_LOCK(CONCAT('headroom.ready.', id)) = id), 0) AS ready, \
     COALESCE(SUM(IS_USED_LOCK(CONCAT('headroom.holding.', id)) = id), 0) AS holding \
     FROM information_schema.PROCESSLIST";
