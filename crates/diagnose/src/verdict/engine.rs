//! What the server's inside runs out of: room in its redo log, purge, memory for temporary tables, its cache
//! of tables, threads for new connections, threads that may be at work; and the one statement that costs
//! most.

use super::{Finding, Name, Unit, Window, least};
use crate::server::{self, Blocker};

/// Of the redo log's room, used since the checkpoint: from about here on the engine writes pages in a hurry,
/// then makes statements wait for them. InnoDB's limits are 75 to 94 % by version; MySQL 9 keeps a log that
/// holds half a second of writes at 74 %.
const REDO_USED: f64 = 0.70;
/// A log that holds this much of its writes is no cause: pages are then written by the rates of the last 30 s
/// (`innodb_flushing_avg_loops`), and four times that smooths whatever bursts there are. MariaDB lets any log
/// fill up to 7/8 before it writes pages, so how full it is says nothing by itself.
const REDO_HOLDS_S: f64 = 120.0;
/// Undo logs that purge has left, while a transaction is open this long.
const HISTORY: f64 = 20_000.0;
const OPEN_S: f64 = 10.0;
/// Temporary tables on disk a second, of all, and a SELECT.
const ON_DISK: (f64, f64, f64) = (5.0, 0.25, 0.20);
/// Connections begun a second, and a statement.
const CONNECTS: (f64, f64) = (50.0, 0.20);
/// The CPU is this busy with them, or this many wait to be let in.
const CONNECT_COST: (f64, f64) = (0.70, 1.0);
/// Tables opened a second and a statement, and of what the cache holds are open.
const TABLES: (f64, f64, f64) = (50.0, 0.20, 0.95);
/// Of the time of all statements; rows looked at for a call and for each row sent.
const ONE: (f64, f64, f64) = (0.50, 1000.0, 100.0);
const WAITING: f64 = 0.20;
/// Of the sessions at work, in their commit for a replica.
const ACKNOWLEDGED: f64 = 0.30;
/// Statements that wait to be let in, as a share of those and the ones at work, while this much of the CPU is
/// idle.
const ADMISSION: (f64, f64) = (0.20, 0.25);
/// How much of a statement's text is shown.
const TEXT: usize = 80;

pub(super) fn redo_log(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?;
    let (age, capacity) = (server.log.checkpoint_age?, server.log.capacity?);
    let holds_s = capacity as f64 / server.log.redo_bytes_per_s.max(1.0);
    let short = REDO_HOLDS_S / holds_s.max(0.1);
    // A bulk load is one statement for minutes: it shows in the redo written, in no count of statements.
    let load = least([(age, REDO_USED), (short, 1.0), (server.active, 0.5)]);
    let writing = (server.writes_per_s / server.statements_per_s.max(1.0)).min(1.0);
    Some(
        Finding::new(Name::RedoLog, load, age.min(1.0) * writing.max(0.3) * window.rest())
            .ceiling(if short >= 1.0 { age } else { 0.0 })
            .figure("of the redo log used since the checkpoint", age, Unit::Share, Some(REDO_USED))
            .figure("writes that the log holds", holds_s, Unit::Seconds, Some(REDO_HOLDS_S))
            .figure("the log", capacity as f64, Unit::Bytes, None)
            .figure("redo written", server.log.redo_bytes_per_s, Unit::BytesPerSecond, None)
            .figure("pages written", server.pool.flushed_per_s, Unit::PerSecond, None),
    )
}

pub(super) fn purge(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?;
    let history = server.history? as f64;
    let oldest = server.oldest_transaction.as_ref();
    let open_s = oldest.map_or(0.0, |oldest| oldest.age_s as f64);
    let load = least([(history, HISTORY), (open_s, OPEN_S)]);
    // What it costs grows with what every reader has to step over.
    let weight = (history / HISTORY / 20.0).clamp(0.2, 0.8) * window.rest();
    Some(
        Finding::new(Name::Purge, load, weight)
            .figure("undo logs that purge has not removed", history, Unit::Count, Some(HISTORY))
            .figure("the oldest transaction is open for", open_s, Unit::Seconds, Some(OPEN_S))
            .who(oldest.map(Blocker::to_string)),
    )
}

pub(super) fn temporary_tables(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?;
    let (all, on_disk) = server.temporary_per_s;
    let share = if all > 0.0 { (on_disk / all).min(1.0) } else { 0.0 };
    let of_statements = (on_disk / server.selects_per_s.max(1.0)).min(1.0);
    let load =
        least([(on_disk, ON_DISK.0), (share, ON_DISK.1), (of_statements, ON_DISK.2), (server.active, 0.5)]);
    Some(
        Finding::new(Name::TemporaryTables, load, of_statements * window.rest())
            .figure("temporary tables on disk", on_disk, Unit::PerSecond, Some(ON_DISK.0))
            .figure("of all temporary tables", share, Unit::Share, Some(ON_DISK.1))
            .figure("of SELECTs that need one", of_statements, Unit::Share, Some(ON_DISK.2)),
    )
}

pub(super) fn global_lock(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?.with_sessions()?;
    let share = if server.active > 0.0 { (server.in_global_lock / server.active).min(1.0) } else { 0.0 };
    let load = least([(share, WAITING), (server.in_global_lock, 1.0)]);
    // Where more wait for metadata locks the holder of a table, or the likeliest one, may have been found:
    // who has a lock on everything needs no transaction, and another one would be ended in its place.
    let has_everything = |holder: &&Blocker| !holder.guessed && holder.table.is_none();
    let holder = server.metadata_blocker.as_ref().filter(has_everything);
    Some(
        Finding::new(Name::GlobalLock, load, share)
            .figure("sessions at work that wait for it", share, Unit::Share, Some(WAITING))
            .figure("sessions that wait", server.in_global_lock, Unit::Count, Some(1.0))
            .figure("the longest at it", server.longest_s, Unit::Seconds, None)
            .who(holder.map(|holder| {
                let Blocker { id, user, host, age_s, .. } = holder;
                format!("session {id} of {user}@{host}, for {age_s} s")
            })),
    )
}

pub(super) fn new_connections(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?;
    let per_statement = server.connections_per_s / server.statements_per_s.max(1.0);
    let busy = busy(window);
    let cost = super::greatest([(busy.unwrap_or(0.0), CONNECT_COST.0), (server.in_login, CONNECT_COST.1)]);
    let load = least([(server.connections_per_s, CONNECTS.0), (per_statement, CONNECTS.1), (cost, 1.0)]);
    let finding =
        Finding::new(Name::NewConnections, load, (0.5 + per_statement / 2.0).min(1.0) * window.rest())
            .figure("connections begun", server.connections_per_s, Unit::PerSecond, Some(CONNECTS.0))
            .figure("connections a statement", per_statement, Unit::Count, Some(CONNECTS.1))
            .figure("being let in", server.in_login, Unit::Count, Some(CONNECT_COST.1));
    let finding = match busy {
        Some(busy) => finding.figure("CPU busy", busy, Unit::Share, Some(CONNECT_COST.0)),
        None => finding,
    };
    Some(finding.figure("threads started", server.threads_created_per_s, Unit::PerSecond, None))
}

pub(super) fn table_cache(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?;
    let (open, most) = server.tables;
    if most == 0 {
        return None;
    }
    let full = open as f64 / most as f64;
    let of_statements = (server.tables_opened_per_s / server.statements_per_s.max(1.0)).min(1.0);
    let load = least([
        (server.tables_opened_per_s, TABLES.0),
        (of_statements, TABLES.1),
        (full, TABLES.2),
        (server.active, 0.5),
    ]);
    Some(
        Finding::new(Name::TableCache, load, of_statements * window.rest())
            .figure("tables opened", server.tables_opened_per_s, Unit::PerSecond, Some(TABLES.0))
            .figure("of table_open_cache in use", full.min(1.0), Unit::Share, Some(TABLES.2))
            .figure("openings a statement", of_statements, Unit::Count, Some(TABLES.1)),
    )
}

/// A limit of threads at work is there to keep the CPU from being overrun: while that is busy, waiting is
/// what was asked for.
pub(super) fn admission(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref().filter(|server| server.settings.at_work > 0)?;
    let waiting = server.in_admission?;
    let share = waiting / (waiting + server.active).max(1.0);
    let idle = (1.0 - busy(window)?).max(0.0);
    let load = least([(waiting, 1.0), (share, ADMISSION.0), (idle, ADMISSION.1)]);
    Some(
        Finding::new(Name::Admission, load, share.max(0.5))
            .figure("statements that wait to be let in", waiting, Unit::Count, Some(1.0))
            .figure("of those and the ones at work", share, Unit::Share, Some(ADMISSION.0))
            .figure("may be at work", server.settings.at_work as f64, Unit::Count, None)
            .figure("CPU idle", idle, Unit::Share, Some(ADMISSION.1)),
    )
}

/// Of the CPUs that the server may run on, or of its quota where more of that is used, the share that works;
/// `None` without a host. A quota may be exceeded for a moment.
fn busy(window: &Window) -> Option<f64> {
    let own = window.own_cpus()?.busy;
    let quota = window.limits.as_ref().and_then(|limits| limits.cpu.as_ref());
    Some(quota.map_or(own, |limit| own.max(limit.used / limit.cpus.max(1e-3))))
}

pub(super) fn one_statement(window: &Window) -> Option<Finding> {
    let told_apart = |server: &&server::Sample| server.settings.performance_schema && !server.digests_refused;
    let server = window.server.as_ref().filter(told_apart)?;
    let Some(top) = &server.top else { return Some(Finding::new(Name::OneStatement, 0.0, 0.0)) };
    let for_each = top.rows_examined / top.rows_sent.max(1.0);
    let load =
        least([(top.share, ONE.0), (top.rows_examined, ONE.1), (for_each, ONE.2), (server.active, 1.0)]);
    let text: String = top.text.chars().take(TEXT).collect();
    Some(
        Finding::new(Name::OneStatement, load, top.share.min(1.0) * window.rest())
            .figure("of the time of all statements", top.share, Unit::Share, Some(ONE.0))
            .figure("rows looked at for a call", top.rows_examined, Unit::Count, Some(ONE.1))
            .figure("rows looked at for each row sent", for_each, Unit::Count, Some(ONE.2))
            .figure("a call takes", top.mean_ms, Unit::Milliseconds, None)
            .who(Some(text)),
    )
}

pub(super) fn semi_sync(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?.with_sessions()?;
    let share = if server.active > 0.0 { (server.in_semi_sync / server.active).min(1.0) } else { 0.0 };
    let load = least([(share, ACKNOWLEDGED), (server.in_semi_sync, 0.5)]);
    let (counted, commits_per_s) = server.commits();
    let of_cluster = server.in_galera > 0.0 && server.in_galera >= server.in_semi_sync / 2.0;
    let waiting = if of_cluster {
        "sessions at work that wait for the cluster"
    } else {
        "sessions at work that wait for a replica"
    };
    Some(
        Finding::new(Name::SemiSync, load, share)
            .figure(waiting, share, Unit::Share, Some(ACKNOWLEDGED))
            .figure("sessions that wait", server.in_semi_sync, Unit::Count, Some(0.5))
            .figure(counted, commits_per_s, Unit::PerSecond, None)
            .who(of_cluster.then(|| "the nodes of its Galera cluster: the slowest one counts".to_owned())),
    )
}
