//! One server from the inside: what it did, what its sessions wait for and who blocks them, how far its
//! buffer pool, redo log and connections are used, how its applier keeps up. MySQL, MariaDB and Aurora; reads
//! only.
//!
//! A [`Reading`] is counters and states at a moment; a [`Sample`] is what a row of readings says about the
//! window that they span: counters as rates, states as means. `sampler` asks; `question` has every statement
//! that is sent; the rest are functions of values.
//!
//! What sessions wait for is seen by looking at them once a reading: with n readings a share is known to
//! about 1/sqrt(n * sessions). The sum is the server's *load*: sessions at work on average, which is also
//! statements per second times their mean duration (Little).

mod blocker;
mod latch;
mod latency;
mod question;
mod replica;
mod row_search;
mod sampler;
mod session;
mod setting;
mod status;

pub use blocker::{Blocker, HeldBy};
pub use latch::LatchWait;
pub use latency::{Digest, Digests, Histogram, Quantiles, Range, TopStatement, WithinLimit};
pub use replica::Replica;
pub use row_search::RowSearch;
pub use sampler::Sampler;
pub use session::Sessions;
pub use setting::Settings;
pub use status::Status;

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Below this many statements a second their mean duration is not worked out: our own would weigh.
const ENOUGH: f64 = 20.0;

/// Statements that a sample shows.
const SHOWN: usize = 10;

/// What a server said at a moment.
#[derive(Clone, Debug)]
pub struct Reading {
    /// When, by the clock that neither jumps nor stops.
    pub at: Instant,
    /// Counters and levels.
    pub status: Status,
    pub sessions: Sessions,
    /// Whether the sessions of others could be seen. Otherwise `sessions` has only how many are at work, by
    /// the server's own count.
    pub sessions_seen: bool,
    /// Whom row locks and inserts wait for, when any do.
    pub row_blocker: Option<Blocker>,
    /// Whom metadata locks wait for, when any do.
    pub metadata_blocker: Option<Blocker>,
    /// Whom sessions wait for that want a table of an engine without row locks, when any do.
    pub table_blocker: Option<Blocker>,
    /// The oldest open transaction, looked for while purge is far behind.
    pub oldest_transaction: Option<Blocker>,
    /// Statements that wait until fewer are at work, where there is such a limit; `None` where the server
    /// does not tell.
    pub in_admission: Option<u64>,
    /// Inserts that wait until another statement has its auto-increment values.
    pub in_auto_increment: u64,
    /// Sessions that wait for a latch of InnoDB; `None` where the server does not tell.
    pub in_latch: Option<u64>,
    /// Of those, in their commit.
    pub in_latch_and_commit: u64,
    /// The latch that most of them wait for.
    pub latch: Option<LatchWait>,
    /// Undo logs that purge has not removed, as last asked.
    pub history: Option<u64>,
    /// What it replicates, if it is a replica.
    pub replica: Option<Replica>,
    /// Appliers that look for rows without a key. MySQL is asked while it is behind.
    pub row_search: RowSearch,
    /// Statements by duration since some beginning, where the server counts them.
    pub histogram: Option<Arc<Histogram>>,
    /// The statements that took most of its time, where the server tells them apart.
    pub digests: Arc<Digests>,
    /// The one that took most of the time between the last two times that they were asked.
    pub top: Option<Arc<TopStatement>>,
    /// Settings that matter here.
    pub settings: Arc<Settings>,
    pub round_trip: Duration,
    pub cost: Cost,
    /// What could not be asked and why, in words.
    pub missing: Arc<Vec<String>>,
}

/// What asking cost in one reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    pub statements: u32,
    /// Time until the answers were there, round trips left out: what the server spent at most, milliseconds.
    pub server_ms: f64,
}

/// A server between the first and the last of some readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Length of the window, seconds.
    pub seconds: f64,
    /// Readings in it: how often its sessions were looked at.
    pub looks: usize,
    /// Since the server's start, seconds.
    pub uptime_s: u64,
    /// Statements a second, ours among them.
    pub statements_per_s: f64,
    /// SELECTs a second.
    pub selects_per_s: f64,
    /// INSERT, UPDATE, DELETE, REPLACE and LOAD a second.
    pub writes_per_s: f64,
    /// Commits inside the engines a second (`Handler_commit`): also of each statement of a transaction, and
    /// of reads.
    pub commits_per_s: f64,
    /// Mean duration of a statement, milliseconds: sessions at work over statements. `None` where too few
    /// were seen.
    pub mean_statement_ms: Option<f64>,
    /// Durations of the statements that ended in the window, where the server counts them.
    pub quantiles: Option<Quantiles>,
    /// Sessions at work on average: the load.
    pub active: f64,
    /// What they wait for could not be seen: row locks are by the server's own count, the rest below is not
    /// known and stands at 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sessions_unseen: bool,
    /// Of those, waiting for a row lock, at least: on a replica its appliers may be the ones that wait.
    pub in_row_lock: f64,
    /// The server's count of them cannot be right: they are not known, and stand at 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub row_waits_unknown: bool,
    /// Of those, waiting for a metadata lock or a table flush.
    pub in_metadata_lock: f64,
    /// Of those, waiting for a lock on everything.
    pub in_global_lock: f64,
    /// Of those, waiting for a table of an engine without row locks.
    #[serde(default)]
    pub in_table_lock: f64,
    /// Of those, waiting until another statement has its auto-increment values.
    #[serde(default)]
    pub in_auto_increment: f64,
    /// Of those, waiting for a latch of InnoDB; `None` where the server does not tell.
    #[serde(default)]
    pub in_latch: Option<f64>,
    /// Of those, in their commit, and counted there as well.
    #[serde(default)]
    pub in_latch_and_commit: f64,
    /// The latch that most of them wait for.
    #[serde(default)]
    pub latch: Option<LatchWait>,
    /// Of those, waiting for their commit to be on disk (or acknowledged by a replica).
    pub in_commit: f64,
    /// Of those in their commit, waiting for a replica to acknowledge it, or for nodes of a Galera cluster.
    pub in_semi_sync: f64,
    /// Of those, for a Galera cluster.
    #[serde(default)]
    pub in_galera: f64,
    /// Sessions that wait until the applier has come as far as they ask; not among those at work.
    #[serde(default)]
    pub for_applier: f64,
    /// The longest that a commit which waits for no replica has been under way, with its statement, seconds;
    /// the least of the last three looks, as a long statement may just be at its end at one of them.
    pub longest_commit_s: f64,
    /// Connections that are being authenticated.
    pub in_login: f64,
    /// Statements that wait until fewer are at work; not among those at work. `None` where there is such a
    /// limit and the server does not tell who waits.
    #[serde(default)]
    pub in_admission: Option<f64>,
    /// The longest that anybody at work has been at it, those in SLEEP() left out, seconds.
    pub longest_s: f64,
    /// Row-lock waits that began, a second.
    pub row_waits_per_s: f64,
    /// Whom row locks and inserts wait for.
    pub row_blocker: Option<Blocker>,
    /// Whom metadata and global locks wait for.
    pub metadata_blocker: Option<Blocker>,
    /// Whom those wait for that want a table of an engine without row locks, where it is told.
    #[serde(default)]
    pub table_blocker: Option<Blocker>,
    /// The oldest open transaction, looked for while purge is far behind.
    pub oldest_transaction: Option<Blocker>,
    /// Undo logs that purge has not removed; `None` when not known.
    pub history: Option<u64>,
    /// Sessions connected when it was last read: how full it is, not how full it was.
    pub connected: f64,
    /// How many may be; 0 when not known.
    pub max_connections: u64,
    /// Connections refused a second because there were too many.
    pub refused_per_s: f64,
    /// Connections begun a second.
    pub connections_per_s: f64,
    /// Open tables, how many the cache holds (0 when not known), and openings a second that it did not spare.
    pub tables: (u64, u64),
    pub tables_opened_per_s: f64,
    /// Threads started a second for new connections.
    pub threads_created_per_s: f64,
    pub pool: Pool,
    /// The redo log and the binary log.
    pub log: Log,
    /// Temporary tables made, and those that had to go to disk, a second.
    pub temporary_per_s: (f64, f64),
    pub replica: Option<Replica>,
    /// Threads that apply changes, on average at work and in all.
    pub appliers: (f64, f64),
    /// How many were at work, on average over the looks at which one was.
    #[serde(default)]
    pub appliers_at_once: f64,
    /// Of all, on average waiting for a lock that a session may have, on a table or on everything: those are
    /// not at work.
    #[serde(default)]
    pub appliers_in_lock: f64,
    /// Of those at work, altering a table.
    #[serde(default)]
    pub appliers_altering: f64,
    /// Of those at work, waiting on average for a row that another transaction has.
    #[serde(default)]
    pub appliers_in_row: f64,
    /// Of those at work, looking for the row of a change and not waiting for it.
    pub appliers_searching: f64,
    /// Of those at work, where that is not known.
    #[serde(default)]
    pub appliers_untold: f64,
    /// The table that most of them look in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched_table: Option<String>,
    /// One round trip from here, milliseconds: the shortest of the window.
    pub round_trip_ms: f64,
    /// Of the statements that ended lately those that took most of its time since its start.
    pub digests: Vec<Digest>,
    /// The one that took most of the window, where the server tells them apart.
    pub top: Option<TopStatement>,
    /// Statements are told apart there, and the account may not read them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub digests_refused: bool,
    /// Settings that matter here.
    pub settings: Settings,
    /// What asking costs, a reading.
    pub cost: Cost,
    /// What could not be asked and why.
    pub missing: Vec<String>,
}

/// The buffer pool in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// Bytes.
    pub size: u64,
    /// Share of its pages that hold nothing, 0 to 1.
    pub free: f64,
    /// The same without the pages that the server keeps free ahead for what it reads next: those are no room.
    pub room: f64,
    /// Share of its pages that are not yet written, 0 to 1.
    pub dirty: f64,
    /// Pages asked for a second.
    pub requests_per_s: f64,
    /// Pages that were not there and were read while somebody waited, a second.
    pub misses_per_s: f64,
    /// Pages read ahead a second.
    pub read_ahead_per_s: f64,
    /// Pages read ahead and dropped unused, a second.
    pub read_ahead_wasted_per_s: f64,
    /// Pages written a second.
    pub flushed_per_s: f64,
    /// Times a second that somebody waited for a free page.
    pub waits_for_free_per_s: f64,
    /// Whether it is being filled after a start.
    pub loading: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Log {
    /// Bytes of redo a second.
    pub redo_bytes_per_s: f64,
    /// Age of the checkpoint as a share of what the log can hold, 0 to 1; `None` where the server does not
    /// tell.
    pub checkpoint_age: Option<f64>,
    /// Bytes of redo that fit before the oldest must be freed.
    pub capacity: Option<u64>,
    /// Times a second that somebody waited for room in the log's buffer.
    pub waits_per_s: f64,
    /// Calls of fsync that the engine made a second.
    pub fsyncs_per_s: f64,
    /// Of those, under way on average.
    pub fsyncs_pending: f64,
    /// Commits written to the binary log a second, and their groups (MariaDB; 0 elsewhere).
    #[serde(default)]
    pub binlog_commits_per_s: f64,
    pub binlog_groups_per_s: f64,
}

impl Log {
    /// How many commits the binary log takes with one flush, on average; `None` where the server does not
    /// tell.
    pub fn commits_in_group(&self) -> Option<f64> {
        let known = self.binlog_commits_per_s > 0.0 && self.binlog_groups_per_s > 0.0;
        known.then(|| self.binlog_commits_per_s / self.binlog_groups_per_s)
    }
}

impl Reading {
    /// Sessions that wait for a row, by the server's count; `None` where that says more than there can be: on
    /// some versions it goes below 0 and wraps, or is stuck.
    fn row_waits(&self) -> Option<u64> {
        // Threads that apply changes wait for rows, too, and are no clients; whoever is busy may wait.
        let waits = self.status.row_waits_now.saturating_sub(self.sessions.appliers_busy);
        let connected = Some(self.status.connected).filter(|connected| *connected > 0);
        match (self.sessions_seen, connected) {
            (_, Some(connected)) if waits > connected => None,
            (true, _) => Some(waits.min(self.sessions.active)),
            (false, Some(_)) => Some(waits),
            (false, None) => (waits == 0).then_some(0),
        }
    }

    /// Appliers that wait for a row, by the server's count. MariaDB's say meanwhile that they look for it.
    fn appliers_in_row(&self) -> u64 {
        let Sessions { appliers, appliers_busy, .. } = self.sessions;
        let waits = self.status.row_waits_now;
        if waits > self.status.connected + appliers { 0 } else { waits.min(appliers_busy) }
    }

    /// Sessions in their commit that wait for a replica. Where one of a group waits on behalf of all, those
    /// that commit meanwhile wait with it or behind it.
    fn in_semi_sync(&self) -> u64 {
        let Sessions { commit, semi_sync, galera, .. } = self.sessions;
        if semi_sync > 0 && self.settings.acknowledged_together { commit } else { semi_sync + galera }
    }

    /// The longest that a commit which waits for no replica has been under way, seconds.
    fn longest_commit_s(&self) -> f64 {
        let all_wait = self.in_semi_sync() >= self.sessions.commit;
        if all_wait { 0.0 } else { self.sessions.longest_commit_ms / 1e3 }
    }
}

impl Sample {
    /// What is counted of commits, and how many a second: the transactions in the binary log where the server
    /// tells, else what the engines count.
    pub(crate) fn commits(&self) -> (&'static str, f64) {
        if self.log.binlog_commits_per_s > 0.0 {
            ("transactions written to the binary log", self.log.binlog_commits_per_s)
        } else {
            ("commits inside the engines, those of reads too", self.commits_per_s)
        }
    }

    /// This, if what its sessions do could be seen.
    pub(crate) fn with_sessions(&self) -> Option<&Self> {
        (!self.sessions_unseen).then_some(self)
    }

    /// What these readings, oldest first, say; `None` of fewer than two of the same run of the server.
    pub fn over(readings: &[Arc<Reading>]) -> Option<Self> {
        let last = readings.last()?;
        let of_this_run = |r: &&Arc<Reading>| r.status.is_earlier_in_the_run_of(&last.status);
        let readings: Vec<&Arc<Reading>> = readings.iter().filter(of_this_run).collect();
        let first = readings.first()?;
        let seconds = last.at.saturating_duration_since(first.at).as_secs_f64();
        if seconds < 1e-3 {
            return None;
        }
        let mean =
            |of: fn(&Reading) -> f64| readings.iter().map(|r| of(r)).sum::<f64>() / readings.len() as f64;
        let per_s =
            |of: fn(&Status) -> u64| of(&last.status).saturating_sub(of(&first.status)) as f64 / seconds;
        let statements_per_s = per_s(|s| s.questions);
        let active = mean(|r| r.sessions.active as f64);
        let newest = |of: fn(&Reading) -> &Option<Blocker>| readings.iter().rev().find_map(|r| of(r).clone());
        // Who has the row is found where somebody waits; a count that is stuck finds nobody.
        let row_blocker = newest(|r| &r.row_blocker);
        let (appliers_in_row, appliers_searching) = if row_blocker.is_some() {
            let searching = mean(|r| r.row_search.appliers.saturating_sub(r.appliers_in_row()) as f64);
            (mean(|r| r.appliers_in_row() as f64), searching)
        } else {
            (0.0, mean(|r| r.row_search.appliers as f64))
        };
        let row_waits: Vec<u64> = readings.iter().filter_map(|r| r.row_waits()).collect();
        let let_in: Vec<u64> = readings.iter().filter_map(|r| r.in_admission).collect();
        let in_latch: Vec<u64> =
            readings.iter().filter_map(|r| Some(r.in_latch?.min(r.sessions.active))).collect();
        // Of the same readings, so that the two can be taken from one another.
        let of_commits = |r: &&Arc<Reading>| {
            Some(r.in_latch_and_commit.min(r.in_latch?).min(r.sessions.commit).min(r.sessions.active))
        };
        let both: Vec<u64> = readings.iter().filter_map(of_commits).collect();
        let counted = first.histogram.as_ref().zip(last.histogram.as_ref());
        Some(Self {
            seconds,
            looks: readings.len(),
            uptime_s: last.status.uptime_s,
            statements_per_s,
            selects_per_s: per_s(|s| s.selects),
            writes_per_s: per_s(|s| s.writes),
            commits_per_s: per_s(|s| s.commits),
            mean_statement_ms: (statements_per_s >= ENOUGH && active > 0.0)
                .then(|| active / statements_per_s * 1e3),
            quantiles: counted.and_then(|(first, last)| last.since(first).quantiles()),
            active,
            sessions_unseen: readings.iter().any(|r| !r.sessions_seen),
            in_row_lock: row_waits.iter().sum::<u64>() as f64 / row_waits.len().max(1) as f64,
            row_waits_unknown: row_waits.is_empty(),
            in_metadata_lock: mean(|r| r.sessions.metadata_lock as f64),
            in_global_lock: mean(|r| r.sessions.global_lock as f64),
            in_table_lock: mean(|r| r.sessions.table_lock as f64),
            in_auto_increment: mean(|r| {
                let most = if r.sessions_seen { r.sessions.insert } else { 0 };
                r.in_auto_increment.min(most) as f64
            }),
            in_latch: (!in_latch.is_empty())
                .then(|| in_latch.iter().sum::<u64>() as f64 / in_latch.len() as f64),
            in_latch_and_commit: both.iter().sum::<u64>() as f64 / both.len().max(1) as f64,
            latch: readings.iter().rev().find_map(|r| r.latch.clone()),
            in_commit: mean(|r| r.sessions.commit as f64),
            in_semi_sync: mean(|r| r.in_semi_sync() as f64),
            in_galera: mean(|r| r.sessions.galera as f64),
            for_applier: mean(|r| r.sessions.for_applier as f64),
            longest_commit_s: readings
                .iter()
                .rev()
                .take(3)
                .map(|r| r.longest_commit_s())
                .fold(f64::INFINITY, f64::min),
            in_login: mean(|r| r.sessions.login as f64),
            in_admission: (!let_in.is_empty())
                .then(|| let_in.iter().sum::<u64>() as f64 / let_in.len() as f64),
            longest_s: last.sessions.longest_ms / 1e3,
            row_waits_per_s: per_s(|s| s.row_waits),
            row_blocker,
            metadata_blocker: newest(|r| &r.metadata_blocker),
            table_blocker: newest(|r| &r.table_blocker),
            oldest_transaction: newest(|r| &r.oldest_transaction),
            history: last.history,
            connected: last.status.connected as f64,
            max_connections: last.settings.max_connections,
            refused_per_s: per_s(|s| s.refused),
            connections_per_s: per_s(|s| s.connections),
            tables: (last.status.open_tables, last.settings.table_open_cache),
            tables_opened_per_s: per_s(|s| s.tables_opened),
            threads_created_per_s: per_s(|s| s.threads_created),
            pool: pool(&last.status, &last.settings, per_s),
            log: Log {
                redo_bytes_per_s: per_s(|s| s.redo_bytes),
                checkpoint_age: last.status.checkpoint_age(),
                capacity: last.status.checkpoint.map(|(_, room)| room),
                waits_per_s: per_s(|s| s.log_waits),
                fsyncs_per_s: per_s(|s| s.fsyncs),
                fsyncs_pending: mean(|r| r.status.fsyncs_pending as f64),
                binlog_commits_per_s: per_s(|s| s.binlog_commits),
                binlog_groups_per_s: per_s(|s| s.binlog_groups),
            },
            temporary_per_s: (per_s(|s| s.temporary), per_s(|s| s.temporary_on_disk)),
            replica: last.replica.clone(),
            appliers: (mean(|r| r.sessions.appliers_busy as f64), mean(|r| r.sessions.appliers as f64)),
            appliers_at_once: mean_where_any(readings.iter().map(|r| r.sessions.appliers_busy)),
            appliers_in_lock: mean(|r| r.sessions.appliers_in_lock() as f64),
            appliers_altering: mean(|r| r.sessions.appliers_altering as f64),
            appliers_in_row,
            appliers_searching,
            appliers_untold: mean(|r| r.row_search.unknown as f64),
            searched_table: readings.iter().rev().find_map(|r| r.row_search.table.clone()),
            round_trip_ms: readings.iter().map(|r| r.round_trip).min()?.as_secs_f64() * 1e3,
            digests: last.digests.lately.iter().take(SHOWN).cloned().collect(),
            digests_refused: last.digests.refused,
            // A window may be shorter than the time from one question for them to the next.
            top: latency::top(&first.digests, &last.digests).or_else(|| last.top.as_deref().cloned()),
            settings: (*last.settings).clone(),
            cost: last.cost,
            missing: last.missing.to_vec(),
        })
    }
}

fn pool(status: &Status, settings: &Settings, per_s: impl Fn(fn(&Status) -> u64) -> f64) -> Pool {
    let share = |pages: u64| if status.pages > 0 { pages as f64 / status.pages as f64 } else { 0.0 };
    Pool {
        size: settings.pool_size,
        free: share(status.pages_free),
        room: share(status.pages_free.saturating_sub(settings.kept_free * settings.pool_parts.max(1))),
        dirty: share(status.pages_dirty),
        requests_per_s: per_s(|s| s.page_requests),
        misses_per_s: per_s(|s| s.page_misses),
        read_ahead_per_s: per_s(|s| s.read_ahead),
        read_ahead_wasted_per_s: per_s(|s| s.read_ahead_wasted),
        flushed_per_s: per_s(|s| s.pages_flushed),
        waits_for_free_per_s: per_s(|s| s.waits_for_free),
        loading: status.loading,
    }
}

/// The mean of those that are not 0; 0 where all are.
fn mean_where_any(counts: impl Iterator<Item = u64>) -> f64 {
    let some: Vec<u64> = counts.filter(|count| *count > 0).collect();
    some.iter().sum::<u64>() as f64 / some.len().max(1) as f64
}

#[cfg(test)]
mod tests;
