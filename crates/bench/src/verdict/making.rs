//! What is made: the verdict that is right, where it is looked for, and what it needs. How is `fixture.rs`.

use super::client::Work;
use clap::ValueEnum;
use diagnose::verdict::Name;
use lab::Flavour;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Lag grows by less than a second a second, and is named from 10 s on.
const LAG_TAKES: Duration = Duration::from_secs(40);
/// An interface counts once it has been there for a whole window of 10 s.
const INTERFACE_TAKES: Duration = Duration::from_secs(20);

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Making {
    /// Reads at 30, 40 and 50 % of the rate that the server was found to carry: nothing.
    Healthy,
    /// Durable changes at 30, 40 and 50 % of what the server was found to carry: nothing.
    HealthyWrites,
    /// Nine reads for each change, likewise: nothing.
    HealthyMixed,
    /// Sums over two hundred rows, likewise: nothing.
    HealthyReports,
    /// Point reads likewise, under limits of CPU, memory, threads and files far above what it needs: nothing.
    HealthyLimited,
    /// Durable changes under those limits: nothing.
    HealthyWritesLimited,
    /// Nine reads for each change under those limits: nothing.
    HealthyMixedLimited,
    /// Sums over two hundred rows under those limits: nothing.
    HealthyReportsLimited,
    /// One row that everybody updates.
    RowLocks,
    /// DDL behind a transaction left open, readers behind the DDL.
    MetadataLocks,
    /// A table of an engine without row locks that everybody updates.
    TableLocks,
    /// Statements that insert many rows slowly, and others behind their auto-increment values.
    AutoIncrement,
    /// Small durable transactions.
    FlushBound,
    /// Programs that compute beside the server.
    CpuHog,
    /// Nearly all connections open.
    Connections,
    /// Reads over a table many times as large as the pool.
    BufferPool,
    /// A primary that writes in parallel what its replica must apply one by one.
    SingleThreadedApply,
    /// A primary that writes more than its replica can apply, though that applies in parallel.
    ReplicationLag,
    /// Somebody else's requests on the server's disk, up to what it can do.
    Disk,
    /// Small packets that one CPU has to handle.
    Softirq,
    /// Bursts of packets, longer than the backlog of a CPU.
    PacketDrops,
    /// Segments of the server that get lost, and have to be sent again.
    Retransmits,
    /// A stream of somebody else's, up to what the link carries.
    Nic,
    /// Entries in the table of neighbours, nearly as many as fit.
    NeighbourTable,
    /// Tracked connections, nearly as many as fit.
    ConntrackTable,
    /// An application whose server is in another zone, milliseconds away.
    SlowLink,
    /// An application that takes its time between its statements.
    SlowApplication,
    /// Reads without a pause at a server whose cgroup allows half a core and less.
    CpuLimit,
    /// The same at a server that may run on one CPU only.
    CpuPinned,
    /// Reads of mapped files at a server whose cgroup allows less memory than they take.
    MemoryLimit,
    /// Reads that miss the pool at a server whose cgroup allows few requests a second.
    IoLimit,
    /// A session that holds `FLUSH TABLES WITH READ LOCK`.
    GlobalLock,
    /// Writes that a redo log of 4 MiB (MySQL: 8) holds for some seconds.
    RedoLog,
    /// A snapshot left open while rows change.
    Purge,
    /// GROUP BY over a TEXT column, which the engine for tables in memory does not take.
    TemporaryTables,
    /// A connection for each statement.
    NewConnections,
    /// Many statements at a server that lets few of them work at a time, while its CPUs are idle.
    Admission,
    /// More tables in use than the cache of open tables holds.
    TableCache,
    /// A statement without an index.
    OneStatement,
    /// One session at a long statement, while the other CPUs rest.
    OneSession,
    /// Commits that wait for a replica that no longer acknowledges.
    SemiSync,
    /// A file system that is frozen while sessions commit.
    CommitsHang,
    /// A file system that is nearly full.
    DiskSpace,
    /// Changes of a table without a key: the replica reads the table for each.
    ApplyWithoutKey,
    /// A server that may open hardly more files than it has open.
    OpenFiles,
    /// A server whose cgroup allows hardly more threads than it has.
    ThreadLimit,
}

/// The lab that something is made in. Some settings hold from a server's start on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bed {
    Usual,
    /// MariaDB with a small pool of threads.
    Pooled,
}

/// A setting of a server, and its value.
type Setting = (&'static str, &'static str);

/// Commits that nobody waits for.
const QUICK_COMMITS: [Setting; 2] = [("innodb_flush_log_at_trx_commit", "0"), ("sync_binlog", "0")];

impl Making {
    /// All of them.
    pub(super) fn every() -> &'static [Self] {
        Self::value_variants()
    }

    /// The verdict that is right.
    pub(super) fn expected(self) -> Option<Name> {
        Some(match self {
            Self::Healthy
            | Self::HealthyWrites
            | Self::HealthyMixed
            | Self::HealthyReports
            | Self::HealthyLimited
            | Self::HealthyWritesLimited
            | Self::HealthyMixedLimited
            | Self::HealthyReportsLimited => return None,
            Self::RowLocks => Name::RowLocks,
            Self::MetadataLocks => Name::MetadataLocks,
            Self::TableLocks => Name::TableLocks,
            Self::AutoIncrement => Name::AutoIncrement,
            Self::FlushBound => Name::FlushBound,
            Self::CpuHog => Name::Cpu,
            Self::Connections => Name::Connections,
            Self::BufferPool => Name::BufferPool,
            Self::SingleThreadedApply => Name::SingleThreadedApply,
            Self::ReplicationLag => Name::ReplicationLag,
            Self::Disk => Name::DiskLatency,
            Self::Softirq => Name::SoftirqOnOneCpu,
            Self::PacketDrops => Name::PacketDrops,
            Self::Retransmits => Name::Retransmits,
            Self::Nic => Name::Nic,
            Self::NeighbourTable => Name::NeighbourTable,
            Self::ConntrackTable => Name::ConntrackTable,
            Self::SlowLink => Name::CrossZone,
            Self::SlowApplication => Name::NotTheDatabase,
            Self::CpuLimit => Name::CpuLimit,
            Self::CpuPinned => Name::CpuPinned,
            Self::MemoryLimit => Name::MemoryLimit,
            Self::IoLimit => Name::IoLimit,
            Self::GlobalLock => Name::GlobalLock,
            Self::RedoLog => Name::RedoLog,
            Self::Purge => Name::Purge,
            Self::TemporaryTables => Name::TemporaryTables,
            Self::NewConnections => Name::NewConnections,
            Self::Admission => Name::Admission,
            Self::TableCache => Name::TableCache,
            Self::OneStatement => Name::OneStatement,
            Self::OneSession => Name::OneSession,
            Self::SemiSync => Name::SemiSync,
            Self::CommitsHang => Name::CommitsHang,
            Self::DiskSpace => Name::DiskSpace,
            Self::ApplyWithoutKey => Name::ApplyWithoutKey,
            Self::OpenFiles => Name::OpenFiles,
            Self::ThreadLimit => Name::ThreadLimit,
        })
    }

    /// Of a load without a bottleneck: what is sent, and whether under limits far above what it needs.
    pub(super) fn healthy(self) -> Option<(Work, bool)> {
        match self {
            Self::Healthy => Some((Work::Reads, false)),
            Self::HealthyWrites => Some((Work::Writes, false)),
            Self::HealthyMixed => Some((Work::Mixed, false)),
            Self::HealthyReports => Some((Work::Reports, false)),
            Self::HealthyLimited => Some((Work::Reads, true)),
            Self::HealthyWritesLimited => Some((Work::Writes, true)),
            Self::HealthyMixedLimited => Some((Work::Mixed, true)),
            Self::HealthyReportsLimited => Some((Work::Reports, true)),
            _ => None,
        }
    }

    /// Whether it is a load that nothing slows down.
    pub(super) fn is_healthy(self) -> bool {
        self.healthy().is_some()
    }

    /// Whether it is made by sessions and settings of a server alone, and found by what that server tells: so
    /// the other family of servers has to name it as well.
    pub(super) fn is_of_the_server(self) -> bool {
        matches!(
            self,
            Self::RowLocks
                | Self::MetadataLocks
                | Self::TableLocks
                | Self::AutoIncrement
                | Self::FlushBound
                | Self::Connections
                | Self::BufferPool
                | Self::SingleThreadedApply
                | Self::ReplicationLag
                | Self::GlobalLock
                | Self::RedoLog
                | Self::Purge
                | Self::TemporaryTables
                | Self::NewConnections
                | Self::Admission
                | Self::TableCache
                | Self::OneStatement
                | Self::OneSession
                | Self::SemiSync
                | Self::CommitsHang
                | Self::ApplyWithoutKey
        ) || self.is_healthy()
    }

    /// How long it takes at least until it can be named.
    pub(super) fn takes(self) -> Duration {
        match self {
            Self::ReplicationLag => LAG_TAKES,
            Self::Nic => INTERFACE_TAKES,
            _ => Duration::ZERO,
        }
    }

    /// The lab that it is made in.
    pub(super) fn bed(self, flavour: Flavour) -> Bed {
        let pooled = self == Self::Admission && flavour == Flavour::MariaDb;
        if pooled { Bed::Pooled } else { Bed::Usual }
    }

    /// Settings of a1 while it is made.
    pub(super) fn settings(self, flavour: Flavour) -> Vec<Setting> {
        // The log alone shall be short: nobody waits for a flush.
        let quick = |more: Setting| [vec![more], QUICK_COMMITS.to_vec()].concat();
        match (self, flavour) {
            (Self::RedoLog, Flavour::MariaDb) => quick(("innodb_log_file_size", "4194304")),
            (Self::RedoLog, Flavour::MySql) => quick(("innodb_redo_log_capacity", "8388608")),
            (Self::Purge, _) | (Self::ReplicationLag, Flavour::MariaDb) => QUICK_COMMITS.to_vec(),
            // MySQL applies in parallel what was committed together.
            (Self::ReplicationLag, Flavour::MySql) => quick(("binlog_group_commit_sync_delay", "20000")),
            (Self::TableCache, _) => vec![("table_open_cache", "50")],
            (Self::MemoryLimit, _) => vec![("myisam_use_mmap", "1")],
            // Its own engine keeps a TEXT column in memory, whatever tmp_table_size says.
            (Self::TemporaryTables, Flavour::MySql) => vec![("internal_tmp_mem_storage_engine", "MEMORY")],
            (Self::Admission, Flavour::MySql) => vec![("innodb_thread_concurrency", "2")],
            _ => Vec::new(),
        }
    }

    /// How many threads of b1 apply in parallel while it is made, where that is not as usual.
    pub(super) fn appliers(self, flavour: Flavour) -> Option<u32> {
        match (self, flavour) {
            (Self::ReplicationLag, _) => Some(3),
            (Self::SingleThreadedApply, Flavour::MySql) => Some(1),
            _ => None,
        }
    }

    /// The server at which it is looked for.
    pub(super) fn server(self) -> &'static str {
        let replica = matches!(
            self,
            Self::SingleThreadedApply | Self::ReplicationLag | Self::SlowLink | Self::ApplyWithoutKey
        );
        if replica { "b1" } else { "a1" }
    }
}

impl Bed {
    pub(super) const ALL: [Self; 2] = [Self::Usual, Self::Pooled];

    /// Options of its servers from their start on. Of two groups of threads each always gets a listener and
    /// one that works; few more are begun, and those end soon.
    pub(super) fn options(self, flavour: Flavour) -> &'static [Setting] {
        match (self, flavour) {
            (Self::Usual, Flavour::MariaDb) => &[],
            // MariaDB's default: a statement holds auto-increment values to its end.
            (Self::Usual, Flavour::MySql) => &[("innodb_autoinc_lock_mode", "1")],
            (Self::Pooled, _) => &[
                ("thread_handling", "pool-of-threads"),
                ("thread_pool_size", "2"),
                ("thread_pool_max_threads", "4"),
                ("thread_pool_idle_timeout", "2"),
                ("loose_thread_pool_dedicated_listener", "ON"),
            ],
        }
    }
}

impl fmt::Display for Making {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().as_ref().map_or("?", |value| value.get_name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_four_healthy_loads_each_with_and_without_limits() {
        let healthy: Vec<_> = Making::every().iter().filter_map(|making| making.healthy()).collect();
        assert_eq!(healthy.len(), 8);
        for work in Work::ALL {
            assert!([false, true].iter().all(|limited| healthy.contains(&(work, *limited))), "{work:?}");
        }
        let unnamed = Making::every().iter().filter(|making| making.expected().is_none());
        assert!(unnamed.clone().all(|making| making.healthy().is_some()) && unnamed.count() == 8);
    }

    #[test]
    fn every_name_that_runs_were_kept_with_is_still_known() {
        for name in ["healthy", "cpu-hog", "single-threaded-apply", "slow-application", "thread-limit"] {
            let making: Making = serde_json::from_str(&format!("\"{name}\"")).unwrap();
            assert_eq!(making.to_string(), name);
        }
    }
}
