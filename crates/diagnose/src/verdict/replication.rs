//! A replica that falls behind, and why.

use super::{Finding, Name, Unit, Window, greatest, least};

/// Behind by this much, whatever the reason.
const LAG_S: f64 = 10.0;
/// Behind at all, for the question why.
const BEHIND_S: f64 = 1.0;
/// Sessions that wait until the applier has come as far as they ask, of those and the ones at work, and at
/// least.
const WAITED_FOR: (f64, f64) = (0.20, 1.0);
/// One applier at work this share of the time.
const ONE_BUSY: f64 = 0.80;
/// This many appliers wait for a lock, on average, or alter a table.
const LOCKED: f64 = 0.50;
const ALTERING: f64 = 0.50;
/// Of the appliers at work, looking for a row.
const SEARCHING: f64 = 0.50;
/// More than this many at work is parallel.
const PARALLEL: f64 = 1.5;

/// An applier that waits for a session's lock applies nothing, however many there are; nor does one that is
/// stopped. Of that one it is often not known how far behind it is: the server does not tell then.
pub(super) fn lag(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?;
    let replica = server.replica.as_ref()?;
    // Where nothing is received either, it may be no replica any more.
    let stopped = replica.receives && !replica.applies;
    let in_lock = server.appliers_in_lock;
    let waiting = server.for_applier;
    let share = if waiting > 0.0 { waiting / (waiting + server.active) } else { 0.0 };
    // Where nobody waits for it, what is read is old, and nothing is slower.
    let found = |load| Finding::new(Name::ReplicationLag, load, share.max(0.25));
    let finding = match behind_s(window) {
        Some(lag) => {
            let waited_for = least([(lag, BEHIND_S), (share, WAITED_FOR.0), (waiting, WAITED_FOR.1)]);
            let load = greatest([(lag, LAG_S), (waited_for, 1.0)]);
            let from = if waited_for >= 1.0 { BEHIND_S } else { LAG_S };
            found(load).figure("behind", lag, Unit::Seconds, Some(from))
        }
        None if stopped => found(1.0),
        None => return None,
    };
    let holder = server.metadata_blocker.as_ref().or(server.table_blocker.as_ref());
    let why = match holder.filter(|_| in_lock >= LOCKED) {
        _ if !replica.applies => Some("its applier is stopped".to_owned()),
        Some(holder) => Some(format!("its applier waits for {holder}")),
        None if !replica.receives => {
            Some("it receives nothing: its receiver is stopped or does not reach the source".to_owned())
        }
        None if server.appliers_altering >= ALTERING => {
            Some("its applier alters a table: what follows waits for that".to_owned())
        }
        None => None,
    };
    Some(
        finding
            .figure("sessions that wait until it has caught up", waiting, Unit::Count, Some(WAITED_FOR.1))
            .figure("applier threads that wait for a lock", in_lock, Unit::Count, Some(LOCKED))
            .who(why),
    )
}

pub(super) fn single_threaded_apply(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?.with_sessions()?;
    let lag = behind_s(window)?;
    let (busy, all_of_them) = server.appliers;
    // Who waits for another's row would not be helped by company, nor who alters a table.
    let applies = (busy - server.appliers_in_row).max(0.0);
    // Three that have just begun are one on average for a while.
    let alone = busy.max(server.appliers_at_once) <= PARALLEL && server.appliers_altering < ALTERING;
    let load = if alone { least([(lag, BEHIND_S), (applies, ONE_BUSY)]) } else { 0.0 };
    Some(
        Finding::new(Name::SingleThreadedApply, load, 0.3)
            .figure("applier threads at work, on average", busy, Unit::Count, Some(ONE_BUSY))
            .figure("applier threads", all_of_them, Unit::Count, None)
            .figure("that may work in parallel", server.settings.parallel_appliers as f64, Unit::Count, None)
            .figure("behind", lag, Unit::Seconds, Some(BEHIND_S)),
    )
}

/// With a key a row is found at once, and hardly a look falls on that moment. Without one each row of a
/// change is looked for by reading the table. Not judged where appliers decide whose tables are not known.
pub(super) fn apply_without_key(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?.with_sessions()?;
    let lag = behind_s(window)?;
    let (busy, _) = server.appliers;
    let applies = (busy - server.appliers_in_row).max(0.0);
    let of_busy = |appliers: f64| if applies > 0.0 { (appliers / applies).min(1.0) } else { 0.0 };
    let searching = of_busy(server.appliers_searching);
    let at_most = of_busy(server.appliers_searching + server.appliers_untold);
    let load = |searching: f64| least([(lag, BEHIND_S), (busy, ONE_BUSY), (searching, SEARCHING)]);
    if load(searching) < 1.0 && load(at_most) >= 1.0 {
        return None;
    }
    Some(
        Finding::new(Name::ApplyWithoutKey, load(searching), 0.35)
            .figure("looks at which the applier looked for a row", searching, Unit::Share, Some(SEARCHING))
            .figure("applier threads at work, on average", busy, Unit::Count, Some(ONE_BUSY))
            .figure("behind", lag, Unit::Seconds, Some(BEHIND_S))
            .who(server.searched_table.as_ref().map(|table| format!("the table {table}"))),
    )
}

/// By positions where that is known, else by the server's own word; `None` for what is no replica.
fn behind_s(window: &Window) -> Option<f64> {
    let replica = window.server.as_ref()?.replica.as_ref()?;
    let by_position = window.lag_ms.map(|ms| (ms / 1e3 - replica.delay_s).max(0.0));
    by_position.or_else(|| replica.unwanted_lag_s())
}
