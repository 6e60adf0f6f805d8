//! The table of rules: what each is called, what must hold, where its thresholds come from, what it explains,
//! what to try next. Help, docs and the terminal view are made from it.
//!
//! Sources: *N* Netdata's stock alarms (health.d), *K* the kernel's documentation, *I* reasoning that awaits
//! calibration (`headroom-bench verdict` on an idle machine).

use super::{Finding, Name, Window, compute, elsewhere, engine, limit, lock, network, replication, storage};
use Name::{
    Admission, ApplyWithoutKey, AutoIncrement, BufferPool, CommitsHang, Connections, ConntrackTable, Cpu,
    CpuLimit, CpuPinned, CrossZone, DiskLatency, DiskSpace, FlushBound, GlobalLock, HostMemory, IoLimit,
    Latches, MemoryLimit, MetadataLocks, NeighbourTable, NewConnections, Nic, NotTheDatabase, OneSession,
    OneStatement, OpenFiles, PacketDrops, Purge, RedoLog, ReplicationLag, Retransmits, RowLocks, SemiSync,
    SingleThreadedApply, SoftirqOnOneCpu, Steal, TableCache, TableLocks, TemporaryTables, ThreadLimit,
};

#[derive(Debug)]
pub struct Rule {
    pub name: Name,
    /// Its name for people.
    pub called: &'static str,
    /// What must hold, and the source of it.
    pub when: &'static str,
    /// Bottlenecks that are its effects.
    pub explains: &'static [Name],
    /// What to try, the cheapest first.
    pub next: &'static [&'static str],
    /// Finds it; `None` for want of evidence.
    pub judge: fn(&Window) -> Option<Finding>,
}

/// Every rule.
pub static RULES: &[Rule] = &[
    Rule {
        name: HostMemory,
        called: "memory of the host",
        when: "the kernel looks for memory of the host, and everybody waits for memory >= 2 % of the time, or somebody >= 15 % while pages come back from swap or a program was killed (K, I)",
        explains: &[DiskLatency, BufferPool, Cpu, FlushBound, Latches],
        next: &[
            "see who grew: ps -eo rss,comm --sort=-rss | head",
            "lower innodb_buffer_pool_size until the host has 5 % available; swap is slower than a smaller pool",
        ],
        judge: compute::host_memory,
    },
    Rule {
        name: MemoryLimit,
        called: "the memory limit of its cgroup",
        when: "the limit is met, and in the cgroup somebody waits for memory >= 15 % of the time or everybody >= 2 % (K, I), or a process was killed (where that was the server: for a minute after it came back); version 1: the limit is met >= 100 times a second while >= 20 pages a second come back from the disk (I)",
        // The host counts what waits in it.
        explains: &[HostMemory, DiskLatency, BufferPool, Cpu, CpuLimit, FlushBound, Latches],
        next: &[
            "raise the limit of the container or service that is named, or lower innodb_buffer_pool_size below it: the pool, 1 MB a connection and temporary tables must fit",
            "let InnoDB bypass the page cache: innodb_flush_method = O_DIRECT",
        ],
        judge: limit::memory,
    },
    Rule {
        name: CpuLimit,
        called: "the CPU limit of its cgroup",
        when: ">= 85 % of the CPU time that the limit allows is used, and it is held back in >= 25 % of the periods (K, I)",
        // Who is held back keeps the latches that it has.
        explains: &[Cpu, Latches],
        next: &[
            "raise the limit of the container or service that is named, or take it away and keep the request: the host has CPU left",
            "the statements that take most time: an index saves more than a core",
            "send reads to a replica with room",
        ],
        judge: limit::cpu,
    },
    Rule {
        name: CpuPinned,
        called: "the CPUs that it may run on",
        when: "the server may run on some of the CPUs only, those are busy >= 85 % (N), somebody waits for a CPU >= 20 % of the time (I), and the others are idle >= 25 % (I)",
        explains: &[Cpu],
        next: &[
            "give it more CPUs: AllowedCPUs= or CPUAffinity= of the service, --cpuset-cpus of the container, or taskset, whichever pins it",
            "the statements that take most time: an index saves more than a core",
        ],
        judge: compute::cpu_pinned,
    },
    Rule {
        name: IoLimit,
        called: "the IO limit of its cgroup",
        when: ">= 90 % of the bytes or requests a second that io.max of its cgroup (version 2) allows, while sessions are at work (I)",
        explains: &[DiskLatency, FlushBound, BufferPool, RedoLog, CommitsHang, Latches],
        next: &[
            "raise io.max of the container or service that is named, if the device has room: headroom probe measures it",
            "reads: a larger buffer pool; writes: a larger redo log, so that pages are written less often",
        ],
        judge: limit::io,
    },
    Rule {
        name: ThreadLimit,
        called: "its limit of threads",
        when: ">= 95 % of the threads are there that pids.max of its cgroup allows, or, by its own alone, ulimit -u (I); or the cgroup refused one (K)",
        explains: &[Connections],
        next: &[
            "raise the one that is named: TasksMax= of the service or pids of the container (cgroup), LimitNPROC= (ulimit -u); each connection is a thread",
            "fewer connections: smaller pools in the applications; thread_handling = pool-of-threads (MariaDB)",
        ],
        judge: limit::threads,
    },
    Rule {
        name: OpenFiles,
        called: "its limit of open files",
        when: ">= 90 % of the files that its process may open are open, connections included (I)",
        explains: &[],
        next: &[
            "raise it: LimitNOFILE= of the service and open_files_limit; once it is reached no table can be opened and no client let in",
            "see what holds them: ls -l /proc/PID/fd; table_open_cache and connections count",
        ],
        judge: limit::files,
    },
    Rule {
        name: Steal,
        called: "a noisy neighbour",
        when: "steal >= 10 % of CPU time (N)",
        explains: &[Cpu],
        next: &["move the guest, or take an instance whose CPUs are its own (not a burstable one)"],
        judge: compute::steal,
    },
    Rule {
        name: SoftirqOnOneCpu,
        called: "packets on one CPU",
        when: "one CPU >= 70 % in soft interrupts while the others are <= 20 % on average (I)",
        explains: &[PacketDrops, Cpu],
        next: &[
            "spread receive queues: ethtool -L NIC combined N; see /proc/interrupts and smp_affinity",
            "one queue only: receive packet steering, /sys/class/net/NIC/queues/rx-0/rps_cpus",
            "fewer interrupts: ethtool -C NIC adaptive-rx on",
        ],
        judge: network::softirq_on_one_cpu,
    },
    Rule {
        name: NeighbourTable,
        called: "the neighbour (ARP) table",
        when: "it refuses entries, or is >= 95 % full (I)",
        explains: &[],
        next: &[
            "raise net.ipv4.neigh.default.gc_thresh3 (and thresh2) above the number of hosts in the subnet",
        ],
        judge: network::neighbours,
    },
    Rule {
        name: ConntrackTable,
        called: "the connection-tracking table",
        when: "it drops connections, or is >= 95 % full (I)",
        explains: &[],
        next: &[
            "raise net.netfilter.nf_conntrack_max",
            "do not track the database's port: nft ... notrack; or keep connections open instead of reconnecting",
        ],
        judge: network::conntrack,
    },
    Rule {
        name: GlobalLock,
        called: "a lock on everything",
        when: ">= 20 % of the sessions at work, and at least one, wait for a global read lock or a backup lock (I)",
        explains: &[Connections, RowLocks, MetadataLocks],
        next: &[
            "end the session that is named: FLUSH TABLES WITH READ LOCK, BACKUP STAGE or a dump with --lock-all-tables",
            "take backups that hold no lock: mariadb-backup, xtrabackup, mysqldump --single-transaction",
            "who holds it is not named: INSTALL SONAME 'metadata_lock_info' (MariaDB)",
        ],
        judge: engine::global_lock,
    },
    Rule {
        name: MetadataLocks,
        called: "metadata locks",
        when: ">= 20 % of the sessions at work, and at least one, wait for a metadata lock or table flush (I)",
        explains: &[Connections, RowLocks],
        next: &[
            "end the transaction that is named, which holds the table, or the DDL that waits in front of the others",
            "run DDL with a short lock_wait_timeout, so that it gives up instead of queueing everybody",
        ],
        judge: lock::metadata_locks,
    },
    Rule {
        name: TableLocks,
        called: "table locks",
        when: ">= 20 % of the sessions at work, and at least one, wait for a whole table, as engines without row locks have it (MyISAM, Aria, MEMORY) (I)",
        explains: &[Connections],
        next: &[
            "look at the session that is named, else at the statement that has been at that table longest (SHOW PROCESSLIST): the others wait for it",
            "ALTER TABLE ... ENGINE = InnoDB, which locks rows: SELECT table_schema, table_name, engine FROM information_schema.tables WHERE engine IN ('MyISAM', 'Aria', 'MEMORY')",
        ],
        judge: lock::table_locks,
    },
    Rule {
        name: AutoIncrement,
        called: "auto-increment values",
        when: ">= 20 % of the sessions at work, and at least one, wait until a statement that inserts many rows has all of its auto-increment values (I)",
        explains: &[Connections],
        next: &[
            "insert fewer rows at a time with the statement that is named (INSERT ... SELECT, LOAD DATA): until it ends nobody else gets a value",
            "innodb_autoinc_lock_mode = 2 and a restart, if binlog_format is ROW: values of one statement then have gaps",
        ],
        judge: lock::auto_increment,
    },
    Rule {
        name: RowLocks,
        called: "row locks",
        when: ">= 20 % of the sessions at work, and at least one, wait for a row (I)",
        explains: &[Connections],
        next: &[
            "look at the session that is named, which holds the row: an idle one has a transaction left open",
            "shorten the transaction: update the hot row last, commit at once",
            "split the hot row (counters in several rows), or queue the work",
        ],
        judge: lock::row_locks,
    },
    Rule {
        name: Latches,
        called: "InnoDB's latches",
        when: ">= 20 % of the sessions at work, and at least two, wait for a latch, a short lock inside of InnoDB (I); needs performance_schema, UPDATE performance_schema.setup_instruments SET enabled = 'YES' WHERE name LIKE 'wait/synch/%lock/innodb/%', and the same of setup_consumers WHERE name = 'events_waits_current'",
        explains: &[Connections],
        next: &[
            "see which latch and statement are named: the tree of an index is held while pages split, or for as long as CHECK TABLE looks through it: end that, or let it run when nobody writes",
            "inserts at random places split pages all over the tree: insert in the order of the key, drop indexes that nobody reads, or spread the table (PARTITION BY HASH), which gives each part a tree of its own",
            "a hot page (all insert at the same end, or count in the same row): a key that spreads, a counter in several rows",
            "the adaptive hash index (btr_search_latch): SET GLOBAL innodb_adaptive_hash_index = OFF",
            "transactions, rollback segments, row locks: smaller transactions, and end those that are long open",
        ],
        judge: lock::latches,
    },
    Rule {
        name: SemiSync,
        called: "acknowledgements of replicas",
        when: ">= 30 % of the sessions at work wait for a replica to acknowledge their commit, or for the nodes of a Galera cluster (certification, flow control, DDL in isolation) (I)",
        explains: &[FlushBound],
        next: &[
            "look at the nearest replica: its disk, and the round trip to it; the fastest one that acknowledges counts; of a Galera cluster at the slowest node: wsrep_local_recv_queue and wsrep_flow_control_sent on each",
            "a semi-synchronous replica in the same zone as the primary",
            "larger transactions: one acknowledgement each",
        ],
        judge: engine::semi_sync,
    },
    Rule {
        name: CommitsHang,
        called: "commits that do not end",
        when: "at each of the last three looks a commit has been under way for >= 5 s, with its statement, and at least one is on average, none of them waiting for a replica (I)",
        explains: &[FlushBound, DiskLatency, RowLocks, Connections, Latches],
        next: &[
            "look at the disk with the data and the binary log: is it full (df), does it answer (iostat -x 1, dmesg)?",
            "it stays: headroom failover --gray --check confirms it and says who would take over",
        ],
        judge: storage::commits_hang,
    },
    Rule {
        name: RedoLog,
        called: "a redo log too small",
        when: ">= 70 % of the redo log is used since the checkpoint, it holds less than 120 s of what is written, and sessions are at work (I)",
        explains: &[FlushBound, DiskLatency],
        next: &[
            "raise innodb_log_file_size (MariaDB, while running from 10.9 on) or innodb_redo_log_capacity (MySQL) until it holds an hour of writes",
            "raise innodb_io_capacity if the disk has room: pages are then written before they must be",
        ],
        judge: engine::redo_log,
    },
    Rule {
        name: FlushBound,
        called: "flushes of commits",
        when: ">= 30 % of the sessions at work wait for their commit, and either >= 2 of them while the disk flushes \
               >= 30 % of the time, or it flushes >= 60 % of it; without sight of the disk, or of one without a cache \
               to flush, >= 50 % of the sessions and >= 2; the two that ask for >= 2 only with >= 1.5 commits to a \
               flush, where MariaDB counts them (sync_binlog = 1); none of that where nothing is flushed at a commit \
               (innodb_flush_log_at_trx_commit 0 or 2, and sync_binlog 0 or no binary log); or, with one in its commit \
               half of the time, somebody waits each second for room in the redo log's buffer (I)",
        explains: &[],
        next: &[
            "a disk with power-loss protection, whose flush is free",
            "larger transactions, or group commit: binlog_commit_wait_usec / binlog_group_commit_sync_delay",
            "innodb_flush_log_at_trx_commit = 2 where losing the last second is allowed",
            "waits for room in the redo log's buffer: raise innodb_log_buffer_size",
        ],
        judge: storage::flush_bound,
    },
    Rule {
        name: BufferPool,
        called: "a buffer pool too small",
        when: "the pool is full and warm, reading missed pages is >= 20 % of the sessions' time, and those are >= 50 % of \
               the disk's reads (I)",
        // Who reads a missed page keeps the latches that it has.
        explains: &[DiskLatency, Latches],
        next: &[
            "raise innodb_buffer_pool_size if the host has memory: while running, in newer MariaDB up to innodb_buffer_pool_size_max",
            "find what reads so much: the statements that examine most rows",
        ],
        judge: storage::buffer_pool,
    },
    Rule {
        name: DiskLatency,
        called: "the disk",
        when: "its reads or writes take >= 3 times what they take when idle (without that: >= 10 ms), with >= 2 under way \
               and a session at work, and somebody waits for it >= 10 % of the time where the kernel counts that; of a \
               disk that was measured it must also do >= 85 % of that, or take >= 10 ms (I)",
        explains: &[FlushBound, Latches],
        next: &[
            "see who else uses the disk: pidstat -d 1",
            "compare with its ceiling: provisioned IOPS and MB/s of a cloud volume, the burst balance",
        ],
        judge: storage::disk_latency,
    },
    Rule {
        name: OneStatement,
        called: "one statement",
        when: "one statement takes >= 50 % of the time of all, looks at >= 1000 rows a call and at >= 100 for each row it sends (I); needs performance_schema",
        explains: &[OneSession, Cpu, CpuLimit, CpuPinned, BufferPool, DiskLatency],
        next: &[
            "look at the plan of the statement that is named (EXPLAIN), and add the index that it lacks",
            "headroom top shows which endpoint sends it",
        ],
        judge: engine::one_statement,
    },
    Rule {
        name: OneSession,
        called: "one session on one CPU",
        when: "about one session is at work (0.8 to 1.5), at the same statement for >= 5 s, and about one CPU is busy with it (>= 0.85) while others are idle (I)",
        explains: &[],
        next: &[
            "more CPUs do not help it, faster ones do: look at the statement's plan (EXPLAIN)",
            "split a batch into parts that run side by side, or run it when nobody waits for it",
        ],
        judge: compute::one_session,
    },
    Rule {
        name: NewConnections,
        called: "new connections",
        when: ">= 50 a second, >= 1 for five statements, while the CPU is >= 70 % busy or somebody waits to be let in (I)",
        explains: &[Cpu, CpuLimit, CpuPinned],
        next: &[
            "keep connections open: a pool in the application",
            "thread_cache_size above the connections begun in a second; skip_name_resolve where DNS is slow",
        ],
        judge: engine::new_connections,
    },
    Rule {
        name: TemporaryTables,
        called: "temporary tables on disk",
        when: ">= 5 a second, >= 25 % of all temporary tables and one for >= 20 % of SELECTs, while sessions are at work (I)",
        explains: &[Cpu, CpuLimit, CpuPinned, DiskLatency],
        next: &[
            "select fewer columns, above all TEXT and BLOB, in statements with GROUP BY, DISTINCT or UNION",
            "raise tmp_table_size and max_heap_table_size (MariaDB), temptable_max_ram (MySQL)",
        ],
        judge: engine::temporary_tables,
    },
    Rule {
        name: Admission,
        called: "a limit of threads at work",
        when: ">= 1 statement, and >= 20 % of those and the ones at work, wait to be let in by the pool of threads (MariaDB) or innodb_thread_concurrency (MySQL), while >= 25 % of the CPU is idle (I)",
        explains: &[],
        next: &[
            "raise thread_pool_size (MariaDB, while running), or set innodb_thread_concurrency = 0 (MySQL)",
            "those that are let in wait for something else: see what their sessions do (SHOW PROCESSLIST)",
        ],
        judge: engine::admission,
    },
    Rule {
        name: TableCache,
        called: "the cache of open tables",
        when: ">= 50 tables opened a second, >= 1 for five statements, with >= 95 % of table_open_cache in use (I)",
        explains: &[Cpu, CpuLimit, CpuPinned],
        next: &["raise table_open_cache, and open_files_limit with it"],
        judge: engine::table_cache,
    },
    Rule {
        name: Purge,
        called: "purge held back",
        when: ">= 20,000 undo logs are not purged while a transaction is open for >= 10 s (I)",
        explains: &[],
        next: &[
            "end the transaction that is named: an idle session, a long report, mysqldump --single-transaction",
            "long reports on a replica of their own; innodb_max_purge_lag only slows writers down",
        ],
        judge: engine::purge,
    },
    Rule {
        name: Cpu,
        called: "the CPU",
        when: "busy >= 85 % (N) and somebody waits for a CPU >= 20 % of the time (I)",
        explains: &[],
        next: &[
            "see who uses it: top; if it is not the database, move it away",
            "far below their highest frequency, or throttled for heat: the cooling, the power profile of the firmware, the governor (cpupower frequency-info)",
            "the statements that take most time: an index saves more than a core",
            "many statements a request (N+1)? headroom top --by request finds it: one that fetches all rows costs less",
            "send reads to a replica with room",
        ],
        judge: compute::cpu,
    },
    Rule {
        name: Retransmits,
        called: "segments sent again",
        when: ">= 2 % of TCP segments, >= 20 a second (I)",
        explains: &[],
        next: &[
            "look where they are lost: ss -ti; drops of the interface (ethtool -S), a full link, a firewall between",
        ],
        judge: network::retransmits,
    },
    Rule {
        name: PacketDrops,
        called: "dropped packets",
        when: ">= 10 a second (N) and >= 2 % of the packets dropped, by backlogs or an interface (I)",
        explains: &[],
        next: &["raise net.core.netdev_max_backlog and the ring (ethtool -G)", "spread packets over CPUs"],
        judge: network::packet_drops,
    },
    Rule {
        name: Nic,
        called: "the network interface",
        when: ">= 80 % of what the link carries, either way (I)",
        explains: &[],
        next: &[
            "fetch fewer columns and rows; compress the protocol between zones",
            "a larger link or instance",
        ],
        judge: network::nic,
    },
    Rule {
        name: DiskSpace,
        called: "a disk nearly full",
        when: "the file system with the data is >= 95 % full (N), or >= 80 % and full within 4 hours if it goes on as in the last 10 minutes or more, if it filled in both halves of them (I); from 98 % on it is the cause of commits that wait",
        explains: &[CommitsHang, FlushBound],
        next: &[
            "see what grows: binary logs (expire_logs_days, binlog_expire_logs_seconds), undo and temporary tablespaces, logs",
            "enlarge the volume before it is full: once it is, every write waits or fails",
        ],
        judge: limit::space,
    },
    Rule {
        name: Connections,
        called: "connections",
        when: ">= 90 % of max_connections in use (N), or connections refused",
        explains: &[],
        next: &[
            "smaller pools in the applications: idle connections cost, waiting ones do not help",
            "raise max_connections if memory allows (each may take some MB)",
        ],
        judge: lock::connections,
    },
    Rule {
        name: SingleThreadedApply,
        called: "one applier thread",
        when: "lag >= 1 s and one thread applies changes of rows >= 80 % of the time while the others have nothing to do (I)",
        explains: &[ReplicationLag],
        next: &[
            "apply in parallel: slave_parallel_threads and slave_parallel_mode = optimistic (MariaDB), \
             replica_parallel_workers (MySQL)",
            "split large transactions on the primary",
        ],
        judge: replication::single_threaded_apply,
    },
    Rule {
        name: ApplyWithoutKey,
        called: "changes applied without a key",
        when: "lag >= 1 s, the applier is at work >= 80 % of the time, and at >= 50 % of the looks it looks for the row of a change (MariaDB says so), or updates or deletes rows of a table that has neither a primary key nor a unique one without NULLs (MySQL; needs SELECT on performance_schema.* and on mysql.innodb_index_stats) (I)",
        explains: &[SingleThreadedApply, ReplicationLag],
        next: &[
            "give the table that is named, or whichever changes, a primary key: SELECT t.table_schema, t.table_name FROM information_schema.tables t LEFT JOIN information_schema.table_constraints c USING (table_schema, table_name) WHERE t.engine = 'InnoDB' GROUP BY 1, 2 HAVING SUM(c.constraint_type IN ('PRIMARY KEY', 'UNIQUE')) IS NULL OR SUM(c.constraint_type IN ('PRIMARY KEY', 'UNIQUE')) = 0",
            "it has one: its pages are read from a slow disk; a larger buffer pool on the replica",
        ],
        judge: replication::apply_without_key,
    },
    Rule {
        name: ReplicationLag,
        called: "replication lag",
        when: "lag >= 10 s beyond what is wanted (N), or >= 1 s while >= 20 % of the sessions, and at least one, wait for the applier (MASTER_GTID_WAIT, WAIT_FOR_EXECUTED_GTID_SET, SOURCE_POS_WAIT) (I); where it is not known, an applier that is stopped while changes are received (I)",
        explains: &[],
        next: &[
            "a thread that is stopped: see why (SHOW REPLICA STATUS), then START REPLICA; a session that is named: end it, or let it end, as the applier waits for its lock; else see what the applier is at: SHOW PROCESSLIST on the replica",
            "a table that is altered: change it on each replica first (sql_log_bin = 0), or in small steps (pt-online-schema-change, gh-ost)",
            "take reads off this replica until it caught up",
        ],
        judge: replication::lag,
    },
    Rule {
        name: CrossZone,
        called: "round trips between zones",
        when: "statements go from this zone to a server in another one, by a router's flow or an application's own timing, and the round trip is >= 3 times the statement itself, >= 0.3 ms (I)",
        explains: &[],
        next: &[
            "read from a replica in your own zone (headroom route)",
            "fewer statements a request: joins, batches; headroom top --by request finds who sends many (N+1)",
        ],
        judge: elsewhere::cross_zone,
    },
    Rule {
        name: NotTheDatabase,
        called: "not the database",
        when: "requests take >= 2 times as long as usual and not because of statements: by a router, >= 80 % of what is added is \
               thinking between them; by the application's own timing, statements take <= 1.2 times the usual, or <= 2 % of \
               what requests take more, and less than 0.3 sessions a CPU that the server may use are at work (I)",
        explains: &[],
        next: &[
            "look at the application: its own CPU, its pool of connections, other services it calls",
            "many statements a request, with a little thinking after each (N+1)? headroom top --by request finds it: fetch \
             the rows together",
        ],
        judge: elsewhere::not_the_database,
    },
];

/// The row of a name.
pub(super) fn of(name: Name) -> &'static Rule {
    // Every name has a row; a test holds that.
    RULES.iter().find(|rule| rule.name == name).unwrap_or(&RULES[0])
}

impl Name {
    /// Its row in the table.
    pub fn rule(self) -> &'static Rule {
        of(self)
    }

    /// All names, in the order of the table.
    pub fn every() -> impl Iterator<Item = Self> {
        RULES.iter().map(|rule| rule.name)
    }
}
