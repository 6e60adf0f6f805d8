//! Sessions that wait for other sessions, and for a place among them.

use super::{Finding, Name, Unit, Window, greatest, least};
use crate::server::{Blocker, LatchWait};

/// Of the sessions at work.
const WAITING: f64 = 0.20;
/// At least this many sessions, on average.
const SESSIONS: f64 = 1.0;
/// One alone that waits for a latch waits behind one alone that works.
const AT_LATCHES: f64 = 2.0;
/// Of `max_connections`.
const CONNECTIONS: f64 = 0.90;

pub(super) fn row_locks(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref().filter(|server| !server.row_waits_unknown)?;
    let share = share(server.in_row_lock, server.active);
    let load = least([(share, WAITING), (server.in_row_lock, SESSIONS)]);
    Some(
        Finding::new(Name::RowLocks, load, share)
            .figure("sessions at work that wait for a row", share, Unit::Share, Some(WAITING))
            .figure("sessions that wait", server.in_row_lock, Unit::Count, Some(SESSIONS))
            .figure("waits begun", server.row_waits_per_s, Unit::PerSecond, None)
            .who(server.row_blocker.as_ref().map(Blocker::to_string)),
    )
}

pub(super) fn metadata_locks(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?.with_sessions()?;
    let share = share(server.in_metadata_lock, server.active);
    let load = least([(share, WAITING), (server.in_metadata_lock, SESSIONS)]);
    Some(
        Finding::new(Name::MetadataLocks, load, share)
            .figure("sessions at work that wait for a table's definition", share, Unit::Share, Some(WAITING))
            .figure("sessions that wait", server.in_metadata_lock, Unit::Count, Some(SESSIONS))
            .figure("the longest at it", server.longest_s, Unit::Seconds, None)
            .who(server.metadata_blocker.as_ref().map(Blocker::to_string)),
    )
}

/// Where nobody tells which session has it: of the statements on that table the one that runs is the longest
/// at it.
pub(super) fn table_locks(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?.with_sessions()?;
    let share = share(server.in_table_lock, server.active);
    let load = least([(share, WAITING), (server.in_table_lock, SESSIONS)]);
    Some(
        Finding::new(Name::TableLocks, load, share)
            .figure("sessions at work that wait for a whole table", share, Unit::Share, Some(WAITING))
            .figure("sessions that wait", server.in_table_lock, Unit::Count, Some(SESSIONS))
            .figure("the longest at it", server.longest_s, Unit::Seconds, None)
            .who(server.table_blocker.as_ref().map(Blocker::to_string)),
    )
}

/// Where rows are waited for as well, who is named may be whom most wait for there.
pub(super) fn auto_increment(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?.with_sessions()?;
    let waiting = server.in_auto_increment;
    let share = share(waiting, server.active);
    let load = least([(share, WAITING), (waiting, SESSIONS)]);
    let blocker = server.row_blocker.as_ref().filter(|_| waiting >= server.in_row_lock);
    Some(
        Finding::new(Name::AutoIncrement, load, share)
            .figure("sessions at work that wait for auto-increment values", share, Unit::Share, Some(WAITING))
            .figure("sessions that wait", waiting, Unit::Count, Some(SESSIONS))
            .figure("the longest at it", server.longest_s, Unit::Seconds, None)
            .who(blocker.map(Blocker::to_string)),
    )
}

/// Where the server does not tell who waits for latches nothing is judged: nobody knows that nobody does.
pub(super) fn latches(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?.with_sessions()?;
    let waiting = server.in_latch?;
    let share = share(waiting, server.active);
    let load = least([(share, WAITING), (waiting, AT_LATCHES)]);
    Some(
        Finding::new(Name::Latches, load, share)
            .figure("sessions at work that wait for a latch", share, Unit::Share, Some(WAITING))
            .figure("sessions that wait", waiting, Unit::Count, Some(AT_LATCHES))
            .figure("the longest at it", server.longest_s, Unit::Seconds, None)
            .who(server.latch.as_ref().map(LatchWait::to_string)),
    )
}

pub(super) fn connections(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref().filter(|server| server.max_connections > 0)?;
    let used = server.connected / server.max_connections as f64;
    let load = greatest([(used, CONNECTIONS), (server.refused_per_s, 0.1)]);
    // Who is refused explains more than who is at work.
    let weight = if server.refused_per_s > 0.0 { 1.0 } else { 0.3 };
    Some(
        Finding::new(Name::Connections, load, weight)
            .ceiling(used)
            .figure("of max_connections in use", used, Unit::Share, Some(CONNECTIONS))
            .figure("connected", server.connected, Unit::Count, None)
            .figure("connections refused", server.refused_per_s, Unit::PerSecond, Some(0.1))
            .figure("sessions at work", server.active, Unit::Count, None),
    )
}

fn share(waiting: f64, active: f64) -> f64 {
    if active > 0.0 { (waiting / active).min(1.0) } else { 0.0 }
}
