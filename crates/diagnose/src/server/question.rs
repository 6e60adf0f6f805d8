//! Every statement that is sent to watch a server: what it costs there, and how often it is asked.
//!
//! A server may have `ONLY_FULL_GROUP_BY` in its `sql_mode`: what is selected beside sums is grouped by.
//!
//! | asked | how often | cost there |
//! |---|---|---|
//! | counters (`SHOW GLOBAL STATUS`, filtered) | each reading | adds up over all sessions: microseconds for each |
//! | sessions | each reading | one walk over the sessions; no lock on MySQL (`performance_schema.threads`), no temporary table on MariaDB up to [`FEW_SESSIONS`] |
//! | replication | each reading, on a replica | its own threads only |
//! | who holds a row lock | at most every 3 s, only while somebody waits | looks at the lock system |
//! | who holds a metadata or global lock | likewise, by up to three means | |
//! | who holds a table of an engine without row locks | likewise, only up to [`MOST_HANDLES`] open tables and where `performance_schema` is on | two looks at them and at the sessions; an index for each on MySQL |
//! | whether metadata locks are told (MySQL) | likewise, only where no holder was found | one row |
//! | which tables appliers change (MySQL) | each reading, only while a replica is behind and applies | one walk over the threads, and one over the metadata locks for each applier that updates or deletes |
//! | whether such a table has a key (MySQL) | once a minute and table, at most four a reading | a look at its rows of `mysql.innodb_index_stats` |
//! | who waits to be let in | each reading, only where a limit is set | the groups of the thread pool (MariaDB), or one walk over the transactions (MySQL) |
//! | who waits for auto-increment values | each reading, only where a statement may hold that lock to its end and sessions insert | one walk over the transactions |
//! | who waits for a latch of InnoDB | each reading, only where the instruments of latches are on and a session is at work | one walk over the waits of all threads and over the sessions |
//! | which latch, where and in which statement | at most every 3 s, only while somebody waits | the same, and their statements; 200 rows at most |
//! | the oldest transaction | at most every 3 s, only while purge is far behind | one walk over the transactions |
//! | how far purge is behind (MySQL) | every 5 s | one counter of `innodb_metrics` |
//! | durations | every 5 s, where counted | some hundred rows |
//! | statements that take most time | every 5 s, where told apart | two scans of the digest table (10,000 rows at most by default) |
//! | settings | every 15 s | |
//! | whether the instruments of latches are on | every 15 s, only where `performance_schema` is on | one walk over some hundred instruments |
//! | the account's own grants (MariaDB) | every 15 s, only while no session of another account is in sight | |
//!
//! InnoDB tells when a transaction began in the time zone of the system, whatever `time_zone` says: its age
//! is counted to the present moment in that zone.

use super::row_search::Table;
use super::session::COMMIT;
use observe::Dialect;
use std::fmt::Write;

/// Counters and levels. Names that a version does not know bring no row.
pub(super) const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN (\
    'Uptime', 'Questions', 'Com_select', 'Com_insert', 'Com_insert_select', 'Com_update', 'Com_update_multi', \
    'Com_delete', 'Com_delete_multi', 'Com_replace', 'Com_replace_select', 'Com_load', 'Handler_commit', \
    'Binlog_commits', 'Binlog_group_commits', 'Threads_connected', 'Threads_running', 'Threads_created', \
    'Connection_errors_max_connections', 'Created_tmp_tables', 'Created_tmp_disk_tables', \
    'Innodb_row_lock_current_waits', 'Innodb_row_lock_waits', \
    'Innodb_buffer_pool_pages_total', 'Innodb_buffer_pool_pages_free', 'Innodb_buffer_pool_pages_dirty', \
    'Innodb_buffer_pool_read_requests', 'Innodb_buffer_pool_reads', 'Innodb_buffer_pool_read_ahead', \
    'Innodb_buffer_pool_read_ahead_evicted', 'Innodb_buffer_pool_pages_flushed', 'Innodb_buffer_pool_wait_free', \
    'Innodb_buffer_pool_load_status', 'Innodb_os_log_written', 'Innodb_log_waits', 'Innodb_data_fsyncs', \
    'Innodb_data_pending_fsyncs', 'Innodb_os_log_pending_fsyncs', 'Innodb_checkpoint_age', \
    'Innodb_checkpoint_max_age', 'Innodb_redo_log_current_lsn', 'Innodb_redo_log_checkpoint_lsn', \
    'Innodb_redo_log_capacity_resized', 'Innodb_history_list_length', 'Connections', 'Open_tables', \
    'Opened_tables')";

/// Settings that verdicts need.
pub(super) const SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN (\
    'max_connections', 'innodb_buffer_pool_size', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', \
    'slave_parallel_threads', 'slave_parallel_workers', 'replica_parallel_workers', 'performance_schema', \
    'datadir', 'pid_file', 'innodb_lru_scan_depth', 'innodb_buffer_pool_instances', \
    'hostname', 'port', 'server_id', 'table_open_cache', 'thread_handling', 'thread_pool_size', \
    'innodb_thread_concurrency', 'innodb_autoinc_lock_mode', 'rpl_semi_sync_master_wait_point', 'version', \
    'innodb_flush_method', 'innodb_log_file_write_through', 'rocksdb_flush_log_at_trx_commit')";

/// Aurora's own word on itself: CPU and lag.
pub(super) const AURORA_SELF: &str = "SELECT CPU AS cpu, REPLICA_LAG_IN_MILLISECONDS AS lag_ms, \
    SESSION_ID = 'MASTER_SESSION_ID' AS is_writer FROM information_schema.replica_host_status \
    WHERE SERVER_ID = @@aurora_server_id";

/// Up to this many sessions MariaDB is asked for a list of them. `information_schema.PROCESSLIST` could group
/// them there, but MariaDB keeps it in a temporary table on the disk: where that hangs, so does the question,
/// just when the answer matters.
pub(super) const FEW_SESSIONS: u64 = 1_000;

/// Every session, of MariaDB; ours too. Not a word of what it runs beyond 100 characters.
pub(super) const SESSION_LIST: &str = "SHOW PROCESSLIST";

/// What the account may do, of MariaDB.
pub(super) const GRANTS: &str = "SHOW GRANTS";

/// What its sessions do, grouped; ours is left out. Idle ones are counted too: how many are in sight tells
/// whether the account sees those of others. An event that runs has the command of a connection that begins;
/// it is at work like any statement.
pub(super) fn sessions(dialect: Dialect) -> &'static str {
    if dialect.is_mariadb() {
        "SELECT IF(command = 'Connect' AND state NOT IN ('', 'login', 'Receiving from client') \
         AND user NOT IN ('system user', 'unauthenticated user'), 'Query', command) AS command, \
         state AS state, COUNT(*) AS sessions, MAX(time_ms) AS longest_ms, \
         MAX(db) AS db, MAX(user <> SUBSTRING_INDEX(USER(), '@', 1)) AS of_others \
         FROM information_schema.PROCESSLIST WHERE command <> 'Daemon' AND id <> CONNECTION_ID() GROUP BY 1, 2"
    } else {
        "SELECT IF(name LIKE '%/slave_sql' OR name LIKE '%/replica_sql', 'Slave_SQL', \
         IF(name LIKE '%/slave_worker' OR name LIKE '%/replica_worker', 'Slave_worker', \
         IF(name LIKE '%/slave_io' OR name LIKE '%/replica_io', 'Slave_IO', \
         IF(name LIKE '%/event_worker', 'Query', processlist_command)))) AS command, \
         processlist_state AS state, COUNT(*) AS sessions, MAX(processlist_time) * 1000 AS longest_ms \
         FROM performance_schema.threads WHERE processlist_id IS NOT NULL \
         AND (processlist_command <> 'Daemon' OR name LIKE '%/event_worker') \
         AND processlist_id <> CONNECTION_ID() GROUP BY 1, 2"
    }
}

/// Who holds the row lock, or the lock of a table's auto-increment values, that most wait for and waits for
/// none itself. Whoever waits counts once, also where the holder has several locks there, as on a record and
/// on the gap before it. A transaction that was prepared by XA has no session any more.
pub(super) fn row_blocker(dialect: Dialect) -> &'static str {
    if dialect.is_mariadb() {
        "SELECT b.trx_mysql_thread_id AS id, p.user AS user, p.host AS host_port, p.command AS command, \
         TIMESTAMPDIFF(SECOND, b.trx_started, \
         CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) AS age_s, MAX(l.lock_table) AS held, \
         COUNT(DISTINCT w.requesting_trx_id) AS waiting \
         FROM information_schema.INNODB_LOCK_WAITS w \
         JOIN information_schema.INNODB_TRX b ON b.trx_id = w.blocking_trx_id \
         LEFT JOIN information_schema.INNODB_LOCKS l ON l.lock_id = w.requested_lock_id \
         LEFT JOIN information_schema.PROCESSLIST p ON p.id = b.trx_mysql_thread_id \
         GROUP BY b.trx_id, b.trx_mysql_thread_id, b.trx_started, b.trx_wait_started, \
         p.user, p.host, p.command ORDER BY b.trx_wait_started IS NULL DESC, waiting DESC LIMIT 1"
    } else {
        "SELECT IFNULL(t.processlist_id, 0) AS id, t.processlist_user AS user, t.processlist_host AS host, \
         t.processlist_command AS command, TIMESTAMPDIFF(SECOND, b.trx_started, \
         CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) AS age_s, \
         MAX(CONCAT(l.object_schema, '.', l.object_name)) AS held, \
         COUNT(DISTINCT w.requesting_engine_transaction_id) AS waiting \
         FROM performance_schema.data_lock_waits w \
         LEFT JOIN performance_schema.threads t ON t.thread_id = w.blocking_thread_id \
         LEFT JOIN performance_schema.data_locks l ON l.engine_lock_id = w.requesting_engine_lock_id \
         LEFT JOIN information_schema.INNODB_TRX b ON b.trx_id = w.blocking_engine_transaction_id \
         GROUP BY w.blocking_engine_transaction_id, t.thread_id, t.processlist_id, t.processlist_user, \
         t.processlist_host, t.processlist_command, b.trx_started, b.trx_wait_started \
         ORDER BY b.trx_wait_started IS NULL DESC, waiting DESC LIMIT 1"
    }
}

/// Locks on everything, or on a schema, that do not hold each other back: those of statements and of DDL
/// (the first), and MariaDB's of the same.
const SIDE_BY_SIDE: &str = "'INTENTION_EXCLUSIVE', 'BACKUP_DML', 'BACKUP_TRANS_DML', 'BACKUP_SYS_DML', \
    'BACKUP_DDL', 'BACKUP_ALTER_COPY', 'BACKUP_COMMIT'";

/// Who holds the metadata lock that most wait for, by `performance_schema` (locks of GET_LOCK, among them
/// Headroom's own, hold back nobody's statements): for as long as its transaction is open, or without one as
/// it has been at what it does.
///
/// Not every lock on a table is in the way of those that wait for it: who has read a table does not hold back
/// those that write to it, `LOCK TABLES ... READ` does. A lock that is in the way goes first, then one whose
/// session does not wait itself, then the one that most wait for, then the oldest. A session that waits is
/// named where there is no other: `FLUSH TABLES WITH READ LOCK` has its lock before it waits for a long
/// SELECT to give its tables back, for which nobody has a metadata lock.
///
/// A transaction that was prepared by XA keeps its locks after its session, whose thread has ended; then one
/// of no session is open.
pub(super) fn locks_of_performance_schema() -> String {
    let in_the_way = format!(
        "CASE WHEN p.lock_type IN ('SHARED_READ', 'SHARED_HIGH_PRIO') \
         THEN g.lock_type IN ('SHARED_NO_READ_WRITE', 'EXCLUSIVE') \
         WHEN p.lock_type LIKE 'SHARED_WRITE%' \
         THEN g.lock_type IN ('SHARED_READ_ONLY', 'SHARED_NO_WRITE', 'SHARED_NO_READ_WRITE', 'EXCLUSIVE') \
         WHEN p.lock_type = 'SHARED_UPGRADABLE' THEN g.lock_type IN ('SHARED_UPGRADABLE', \
         'SHARED_NO_WRITE', 'SHARED_NO_READ_WRITE', 'EXCLUSIVE') \
         WHEN p.lock_type IN ({SIDE_BY_SIDE}) THEN g.lock_type NOT IN ({SIDE_BY_SIDE}) ELSE 1 END"
    );
    format!(
        "SELECT IFNULL(t.processlist_id, 0) AS id, t.processlist_user AS user, t.processlist_host AS host, \
         t.processlist_command AS command, \
         IFNULL(TIMESTAMPDIFF(SECOND, x.trx_started, \
         CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')), t.processlist_time) AS age_s, \
         x.trx_started IS NOT NULL AS in_transaction, \
         MAX(CONCAT(p.object_schema, '.', p.object_name)) AS held, \
         COUNT(DISTINCT p.owner_thread_id) AS waiting, 0 AS guessed \
         FROM performance_schema.metadata_locks p JOIN performance_schema.metadata_locks g \
         ON g.object_type = p.object_type AND g.object_schema <=> p.object_schema \
         AND g.object_name <=> p.object_name AND g.lock_status = 'GRANTED' \
         AND g.owner_thread_id <> p.owner_thread_id \
         LEFT JOIN performance_schema.threads t ON t.thread_id = g.owner_thread_id \
         LEFT JOIN information_schema.INNODB_TRX x ON x.trx_mysql_thread_id = IFNULL(t.processlist_id, 0) \
         WHERE p.lock_status = 'PENDING' AND p.object_type <> 'USER LEVEL LOCK' \
         AND (t.processlist_id IS NOT NULL OR (t.thread_id IS NULL AND x.trx_started IS NOT NULL)) \
         GROUP BY t.thread_id, t.processlist_id, t.processlist_user, t.processlist_host, \
         t.processlist_command, t.processlist_state, t.processlist_time, x.trx_started, x.trx_state \
         ORDER BY MAX({in_the_way}) DESC, IFNULL(t.processlist_state, '') LIKE 'Waiting for%', \
         waiting DESC, IFNULL(x.trx_state, '') = 'LOCK WAIT', age_s DESC LIMIT 1"
    )
}

/// Whether MySQL keeps metadata locks.
pub(super) const LOCK_INSTRUMENT: &str = "SELECT enabled AS enabled FROM performance_schema.setup_instruments \
    WHERE name = 'wait/lock/metadata/sql/mdl'";

/// Who is likely to be waited for where no lock tells it: the oldest open transaction that does not wait
/// itself, a single SELECT among them. It is nearly always right, and marked as a guess. MariaDB tells who
/// holds a metadata lock with a plugin only; who has a table open that is flushed neither tells.
pub(super) fn likely_metadata_blocker(dialect: Dialect) -> &'static str {
    if dialect.is_mariadb() {
        "SELECT p.id AS id, p.user AS user, p.host AS host_port, p.command AS command, \
         TIMESTAMPDIFF(SECOND, t.trx_started, \
         CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) AS age_s, NULL AS held, 0 AS waiting, 1 AS guessed \
         FROM information_schema.INNODB_TRX t \
         JOIN information_schema.PROCESSLIST p ON p.id = t.trx_mysql_thread_id \
         WHERE p.id <> CONNECTION_ID() AND t.trx_state <> 'LOCK WAIT' \
         AND IFNULL(p.state, '') NOT LIKE 'Waiting for%' ORDER BY t.trx_started, t.trx_id LIMIT 1"
    } else {
        "SELECT p.processlist_id AS id, p.processlist_user AS user, p.processlist_host AS host, \
         p.processlist_command AS command, TIMESTAMPDIFF(SECOND, t.trx_started, \
         CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) AS age_s, \
         NULL AS held, 0 AS waiting, 1 AS guessed FROM information_schema.INNODB_TRX t \
         JOIN performance_schema.threads p ON p.processlist_id = t.trx_mysql_thread_id \
         WHERE p.processlist_id <> CONNECTION_ID() AND t.trx_state <> 'LOCK WAIT' \
         AND IFNULL(p.processlist_state, '') NOT LIKE 'Waiting for%' \
         ORDER BY t.trx_started, t.trx_id LIMIT 1"
    }
}

/// Who holds what sessions wait for, by MariaDB's plugin `metadata_lock_info`; an error where it is not
/// installed. The plugin tells what is granted and not what is asked for. A lock on everything (`global`) is
/// known by its kind, whatever else its session has. Who holds a table is known where one that waits for a
/// metadata lock has another lock on it already (DDL has, before it waits); whoever waits for something else,
/// as for a lock on everything in its commit, has locks on tables that are free. What readers and DROP TABLE
/// wait for is not told: then it is the session with the strongest lock, then the oldest one, marked as a
/// guess.
pub(super) fn lock_plugin(global: bool) -> String {
    let (held, told) = if global {
        let kinds = "i.lock_mode LIKE 'MDL_BACKUP_FTWRL%' OR i.lock_mode LIKE 'MDL_BACKUP_WAIT%' \
                     OR (i.lock_type IN ('Global read lock', 'Commit lock') AND i.lock_mode = 'MDL_SHARED')";
        ("NULL", kinds)
    } else {
        let table = "IFNULL(MAX(CONCAT(w.table_schema, '.', w.table_name)), \
                     MAX(NULLIF(CONCAT_WS('.', NULLIF(i.table_schema, ''), NULLIF(i.table_name, '')), '')))";
        (table, "w.table_name IS NOT NULL")
    };
    format!(
        "SELECT p.id AS id, p.user AS user, p.host AS host_port, p.command AS command, \
         IFNULL(TIMESTAMPDIFF(SECOND, MAX(x.trx_started), \
         CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')), p.time) AS age_s, \
         MAX(x.trx_started) IS NOT NULL AS in_transaction, {held} AS held, 0 AS waiting, \
         NOT MAX({told}) AS guessed FROM information_schema.METADATA_LOCK_INFO i \
         JOIN information_schema.PROCESSLIST p ON p.id = i.thread_id \
         LEFT JOIN information_schema.INNODB_TRX x ON x.trx_mysql_thread_id = p.id \
         LEFT JOIN (SELECT DISTINCT m.table_schema, m.table_name \
         FROM information_schema.METADATA_LOCK_INFO m \
         JOIN information_schema.PROCESSLIST q ON q.id = m.thread_id \
         WHERE (q.state LIKE 'Waiting for % metadata lock' OR q.state LIKE 'Waiting for table flush%') \
         AND m.table_name <> '') w \
         ON w.table_schema = i.table_schema AND w.table_name = i.table_name \
         WHERE p.id <> CONNECTION_ID() AND i.lock_type NOT LIKE 'User%' \
         AND IFNULL(p.state, '') NOT LIKE 'Waiting for%' \
         GROUP BY p.id, p.user, p.host, p.command, p.time ORDER BY guessed, \
         MAX(i.lock_mode IN ('MDL_EXCLUSIVE', 'MDL_SHARED_NO_READ_WRITE', 'MDL_SHARED_NO_WRITE', \
         'MDL_SHARED_READ_ONLY')) DESC, age_s DESC LIMIT 1"
    )
}

/// Up to this many open tables who holds one is asked for: `table_handles` has a row for each.
pub(super) const MOST_HANDLES: u64 = 10_000;

/// Who holds the table, of an engine that locks whole tables, that most wait for, and waits for none itself,
/// on either flavour; of several who may write, then the one that is at its statement longest. Who waits has
/// its lock on the table here, too, so both are told apart by what their session does. Two that read do not
/// hold each other back.
pub(super) const TABLE_BLOCKER: &str = "SELECT t.processlist_id AS id, t.processlist_user AS user, \
    t.processlist_host AS host, t.processlist_command AS command, IFNULL(t.processlist_time, 0) AS age_s, \
    0 AS in_transaction, CONCAT(w.object_schema, '.', w.object_name) AS held, w.waiting AS waiting, \
    0 AS guessed FROM (SELECT h.object_schema, h.object_name, COUNT(*) AS waiting, \
    MAX(h.internal_lock LIKE 'WRITE%') AS wants_write FROM (SELECT thread_id FROM performance_schema.threads \
    WHERE processlist_state LIKE 'Waiting for table level lock%' LIMIT 200) q \
    JOIN performance_schema.table_handles h ON h.owner_thread_id = q.thread_id \
    WHERE h.internal_lock IS NOT NULL GROUP BY h.object_schema, h.object_name ORDER BY waiting DESC \
    LIMIT 5) w JOIN performance_schema.table_handles g ON g.object_schema = w.object_schema \
    AND g.object_name = w.object_name AND g.internal_lock IS NOT NULL \
    JOIN performance_schema.threads t ON t.thread_id = g.owner_thread_id \
    WHERE t.processlist_id IS NOT NULL AND IFNULL(t.processlist_state, '') NOT LIKE 'Waiting for%' \
    AND (w.wants_write OR g.internal_lock LIKE 'WRITE%') \
    ORDER BY w.waiting DESC, g.internal_lock LIKE 'WRITE%' DESC, age_s DESC LIMIT 1";

/// Whether the server keeps which session has a lock on a table.
pub(super) const TABLE_INSTRUMENT: &str = "SELECT enabled AS enabled FROM performance_schema.setup_instruments \
    WHERE name = 'wait/lock/table/sql/handler'";

/// Statements that wait until fewer are at work: in the queues of the pool of threads, or before the engine
/// (`innodb_thread_concurrency`). `None` where the server does not tell: Percona Server has MariaDB's pool
/// without its table of groups, and who waits in a pool's queue is not counted by the engine.
pub(super) fn admission(dialect: Dialect, pool_of_threads: bool) -> Option<&'static str> {
    match (pool_of_threads, dialect.is_mariadb()) {
        (true, true) => {
            Some("SELECT SUM(QUEUE_LENGTH) AS waiting FROM information_schema.THREAD_POOL_GROUPS")
        }
        (true, false) => None,
        (false, _) => Some(
            "SELECT COUNT(*) AS waiting FROM information_schema.INNODB_TRX \
             WHERE trx_operation_state = 'sleeping before entering InnoDB'",
        ),
    }
}

/// Inserts that wait until another statement has all of its auto-increment values. The engine does not count
/// them among the waits for rows.
pub(super) const AUTO_INCREMENT: &str = "SELECT COUNT(*) AS waiting FROM information_schema.INNODB_TRX \
    WHERE trx_operation_state = 'setting auto-inc lock'";

/// Appliers of MySQL that update or delete rows, each with the tables that it holds for writing. Its own
/// tables, where it keeps its position, are left out.
pub(super) const CHANGED_TABLES: &str = "SELECT t.thread_id AS applier, m.object_schema AS in_schema, \
    m.object_name AS in_table FROM performance_schema.threads t LEFT JOIN performance_schema.metadata_locks m \
    ON m.owner_thread_id = t.thread_id AND m.object_type = 'TABLE' AND m.lock_type LIKE 'SHARED_WRITE%' \
    AND m.lock_status = 'GRANTED' AND m.object_schema <> 'mysql' \
    WHERE (t.name LIKE '%/slave_sql' OR t.name LIKE '%/replica_sql' OR t.name LIKE '%/slave_worker' \
    OR t.name LIKE '%/replica_worker') AND (t.processlist_state LIKE '%row changes (update)%' \
    OR t.processlist_state LIKE '%row changes (delete)%') LIMIT 1000";

/// Whether a table of MySQL lacks a key by which a row is found at once; NULL where nothing is told of it. A
/// table in parts has rows for each of them, `name#p#part`.
pub(super) fn lacks_key(table: &Table) -> String {
    let name = &table.name;
    let (schema, whole) = (literal(&table.schema), literal(name));
    let parts = ["#P", "#p"].map(|part| {
        let (from, to) = (literal(&format!("{name}{part}#")), literal(&format!("{name}{part}$")));
        format!("(table_name >= {from} AND table_name < {to})")
    });
    format!(
        "SELECT MAX(index_name = 'GEN_CLUST_INDEX') AND NOT MAX(index_name = 'PRIMARY') AS lacks_key \
         FROM mysql.innodb_index_stats WHERE database_name = {schema} AND (table_name = {whole} OR {} OR {})",
        parts[0], parts[1]
    )
}

/// A text in a statement, whatever is in it.
fn literal(text: &str) -> String {
    let mut literal = "_utf8mb4 X'".to_owned();
    for byte in text.bytes() {
        // Writing into a string does not fail.
        let _ = write!(literal, "{byte:02X}");
    }
    literal + "'"
}

/// Whether each session's wait is kept, and how many of InnoDB's latches have an instrument that is on. Those
/// of mutexes are not asked for: the ones that are on count as well.
pub(super) const LATCH_INSTRUMENTS: &str = "SELECT (SELECT COUNT(*) FROM performance_schema.setup_consumers \
    WHERE name IN ('global_instrumentation', 'thread_instrumentation', 'events_waits_current') \
    AND enabled = 'YES') AS consumers, COUNT(*) AS latches, SUM(enabled = 'YES') AS enabled \
    FROM performance_schema.setup_instruments WHERE name LIKE 'wait/synch/%lock/innodb/%'";

/// Waits of sessions for a latch of InnoDB that go on: theirs has no end yet. `timer_end` does not tell, as
/// MySQL has the present time there. Those of appliers and of the engine's own threads are left out.
const LATCH_WAITERS: &str = "w.end_event_id IS NULL AND (w.event_name LIKE 'wait/synch/%lock/innodb/%' \
    OR w.event_name LIKE 'wait/synch/mutex/innodb/%') AND t.processlist_id IS NOT NULL \
    AND t.processlist_id <> CONNECTION_ID() AND t.name NOT LIKE 'thread/sql/slave%' \
    AND t.name NOT LIKE 'thread/sql/replica%' AND t.name NOT LIKE 'thread/sql/rpl%'";

/// Sessions that wait for a latch of InnoDB, and those of them that are in their commit: these are counted
/// among the sessions in their commit as well.
pub(super) fn in_latch() -> String {
    let states = COMMIT.map(|state| format!("'{state}'")).join(", ");
    format!(
        "SELECT COUNT(DISTINCT w.thread_id) AS waiting, \
         COUNT(DISTINCT CASE WHEN t.processlist_state IN ({states}) THEN w.thread_id END) AS committing \
         FROM performance_schema.events_waits_current w \
         JOIN performance_schema.threads t ON t.thread_id = w.thread_id WHERE {LATCH_WAITERS}"
    )
}

/// The same, one by one: for which latch, at which table and in which statement, its literals left out.
/// Nothing is grouped or sorted there, so that no temporary table is needed.
pub(super) fn latch_waits() -> String {
    format!(
        "SELECT t.processlist_id AS id, w.event_name AS event, w.object_instance_begin AS instance, \
         CONCAT(m.object_schema, '.', m.object_name) AS held, LEFT(s.digest_text, 100) AS statement \
         FROM performance_schema.events_waits_current w \
         JOIN performance_schema.threads t ON t.thread_id = w.thread_id \
         LEFT JOIN performance_schema.events_waits_current m ON m.thread_id = w.thread_id \
         AND m.event_name = 'wait/io/table/sql/handler' AND m.end_event_id IS NULL \
         LEFT JOIN performance_schema.events_statements_current s ON s.thread_id = w.thread_id \
         AND s.end_event_id IS NULL WHERE {LATCH_WAITERS} LIMIT 200"
    )
}

/// The oldest open transaction: purge keeps all that it may still read. One prepared by XA may have no
/// session any more.
pub(super) fn oldest_transaction(dialect: Dialect) -> &'static str {
    if dialect.is_mariadb() {
        "SELECT t.trx_mysql_thread_id AS id, p.user AS user, p.host AS host_port, p.command AS command, \
         TIMESTAMPDIFF(SECOND, t.trx_started, \
         CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) AS age_s, NULL AS held, 0 AS waiting, 0 AS guessed \
         FROM information_schema.INNODB_TRX t \
         LEFT JOIN information_schema.PROCESSLIST p ON p.id = t.trx_mysql_thread_id \
         ORDER BY t.trx_started LIMIT 1"
    } else {
        "SELECT t.trx_mysql_thread_id AS id, p.processlist_user AS user, p.processlist_host AS host, \
         p.processlist_command AS command, TIMESTAMPDIFF(SECOND, t.trx_started, \
         CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) AS age_s, NULL AS held, \
         0 AS waiting, 0 AS guessed FROM information_schema.INNODB_TRX t \
         LEFT JOIN performance_schema.threads p ON p.processlist_id = t.trx_mysql_thread_id \
         ORDER BY t.trx_started LIMIT 1"
    }
}

/// Undo logs that purge has not removed, where the status counters do not have them.
pub(super) const HISTORY: &str =
    "SELECT count AS value FROM information_schema.INNODB_METRICS WHERE name = 'trx_rseg_history_len'";

/// How many statements took how long, since some beginning: limits of ranges in seconds.
pub(super) fn durations(dialect: Dialect) -> &'static str {
    if dialect.is_mariadb() {
        "SELECT TIME AS upper_s, COUNT AS statements FROM information_schema.QUERY_RESPONSE_TIME"
    } else {
        "SELECT bucket_timer_low / 1e12 AS lower_s, bucket_timer_high / 1e12 AS upper_s, count_bucket AS statements \
         FROM performance_schema.events_statements_histogram_global WHERE count_bucket > 0"
    }
}

/// Of the statements that ended lately those that took most time since the start, with quantiles where the
/// server keeps them, and the time that all took. One that took most of it long ago crowds out none of
/// today's.
pub(super) fn digests(dialect: Dialect) -> String {
    let quantiles = if dialect.is_mariadb() {
        "NULL AS p95_ms, NULL AS p99_ms"
    } else {
        "quantile_95 / 1e9 AS p95_ms, quantile_99 / 1e9 AS p99_ms"
    };
    format!(
        "SELECT schema_name AS in_schema, digest AS digest, LEFT(digest_text, 200) AS text, count_star AS calls, \
         UNIX_TIMESTAMP(first_seen) AS began_s, UNIX_TIMESTAMP() AS asked_s, \
         sum_timer_wait / 1e9 AS ms, {quantiles}, sum_rows_examined AS examined, sum_rows_sent AS sent, \
         (SELECT SUM(sum_timer_wait) / 1e9 FROM performance_schema.events_statements_summary_by_digest) AS all_ms \
         FROM performance_schema.events_statements_summary_by_digest \
         WHERE last_seen >= NOW() - INTERVAL {LATELY_S} SECOND ORDER BY sum_timer_wait DESC LIMIT {MOST_DIGESTS}"
    )
}

/// A statement that ended within this many seconds is one of now: six times as long as between two questions.
pub(super) const LATELY_S: u32 = 30;
/// Statements in a list.
pub(super) const MOST_DIGESTS: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    fn dialect(version: &str) -> Dialect {
        Dialect { version: version.parse().unwrap(), aurora: false }
    }

    #[test]
    fn the_queue_of_a_pool_of_threads_is_asked_where_it_is_told_and_not_taken_for_the_engines() {
        let (mariadb, percona) = (dialect("10.11.6-MariaDB"), dialect("8.0.36-28"));
        let asked = |of, pooled| admission(of, pooled).unwrap_or("nothing");
        assert!(asked(mariadb, true).contains("THREAD_POOL_GROUPS"));
        assert_eq!(asked(percona, true), "nothing");
        assert!(asked(percona, false).contains("INNODB_TRX") && asked(mariadb, false).contains("INNODB_TRX"));
    }

    #[test]
    fn of_all_that_have_a_lock_on_a_table_the_one_that_is_in_the_way_of_those_that_wait_goes_first() {
        let asked = locks_of_performance_schema();
        let (_, order) = asked.split_once("ORDER BY ").unwrap();
        // An older transaction that has read the table does not hold back who writes to it.
        assert!(order.starts_with("MAX(CASE WHEN p.lock_type IN ('SHARED_READ', "), "{order}");
        assert!(order.contains("LIKE 'SHARED_WRITE%' THEN g.lock_type IN ('SHARED_READ_ONLY', "), "{order}");
        // Nor does a long UPDATE hold back the DDL that waits for BACKUP STAGE BLOCK_DDL.
        assert!(order.contains("WHEN p.lock_type IN ('INTENTION_EXCLUSIVE', 'BACKUP_DML', "));
        assert!(order.contains("'BACKUP_COMMIT') ELSE 1 END) DESC, "), "{order}");
    }

    #[test]
    fn who_has_a_lock_and_waits_for_something_else_is_named_where_there_is_no_other() {
        let asked = locks_of_performance_schema();
        let (from, order) = asked.split_once(" GROUP BY ").unwrap();
        assert!(!from.contains("NOT LIKE 'Waiting for%'"), "{from}");
        assert!(order.contains("LIKE 'Waiting for%', waiting DESC"), "{order}");
    }

    #[test]
    fn by_the_plugin_a_lock_on_everything_is_known_by_its_kind_and_a_table_by_who_waits_for_it() {
        let (everything, table) = (lock_plugin(true), lock_plugin(false));
        let told = |asked: &str| {
            let (_, rest) = asked.split_once("NOT MAX(").unwrap();
            rest.split_once(" AS guessed").unwrap().0.to_owned()
        };
        // Who is in its commit, and waits for BACKUP STAGE BLOCK_COMMIT, has locks on tables, too.
        let of_everything = told(&everything);
        assert!(of_everything.contains("'MDL_BACKUP_WAIT%'") && !of_everything.contains("w.table_name"));
        assert!(everything.contains("NULL AS held") && !told(&table).contains("MDL_BACKUP"));
        assert!(table.contains("q.state LIKE 'Waiting for % metadata lock' OR "), "{table}");
    }

    #[test]
    fn a_server_that_wants_every_column_grouped_by_tells_who_holds_a_lock_too() {
        let grouped = |asked: &str, columns: &[&str]| {
            let (_, by) = asked.split_once(" GROUP BY ").unwrap();
            let (by, _) = by.split_once(" ORDER BY ").unwrap();
            assert!(columns.iter().all(|column| by.split(", ").any(|by| by == *column)), "{by}");
        };
        let session = ["p.user", "p.host", "p.command"];
        let rows = row_blocker(dialect("10.11.6-MariaDB"));
        grouped(rows, &[&session[..], &["b.trx_mysql_thread_id", "b.trx_started"]].concat());
        grouped(&lock_plugin(true), &[&session[..], &["p.id", "p.time"]].concat());
    }

    #[test]
    fn an_event_that_runs_is_grouped_with_the_statements_of_clients() {
        let [mariadb, mysql] = ["11.4.2-MariaDB", "8.4.3"].map(|version| sessions(dialect(version)));
        assert!(
            mariadb.contains("AND user NOT IN ('system user', 'unauthenticated user'), 'Query', command)")
        );
        assert!(mysql.contains("IF(name LIKE '%/event_worker', 'Query', processlist_command)"), "{mysql}");
    }

    #[test]
    fn whom_a_flush_of_tables_waits_for_is_guessed_at_on_either_flavour() {
        for version in ["10.11.6-MariaDB", "8.4.3"] {
            let asked = likely_metadata_blocker(dialect(version));
            assert!(asked.contains("1 AS guessed") && asked.contains("ORDER BY t.trx_started"), "{asked}");
        }
    }

    #[test]
    fn a_prepared_transaction_whose_session_has_ended_is_named_for_its_metadata_locks_too() {
        let asked = locks_of_performance_schema();
        assert!(asked.starts_with("SELECT IFNULL(t.processlist_id, 0) AS id, "), "{asked}");
        assert!(asked.contains("LEFT JOIN performance_schema.threads t ON "), "{asked}");
        assert!(asked.contains("OR (t.thread_id IS NULL AND x.trx_started IS NOT NULL))"), "{asked}");
    }

    #[test]
    fn whoever_waits_counts_once_however_many_locks_the_holder_has() {
        let rows = ["10.11.6-MariaDB", "8.4.3"].map(|version| row_blocker(dialect(version)).to_owned());
        // A transaction that has read a table and then changed it has two locks on it.
        for asked in rows.into_iter().chain([locks_of_performance_schema()]) {
            assert!(asked.contains("COUNT(DISTINCT ") && !asked.contains("COUNT(*)"), "{asked}");
        }
    }

    #[test]
    fn the_age_of_a_transaction_does_not_depend_on_the_servers_time_zone() {
        let of_both = [dialect("10.11.6-MariaDB"), dialect("8.4.2")].into_iter();
        let mut asked: Vec<String> = of_both
            .flat_map(|of| [row_blocker(of), likely_metadata_blocker(of), oldest_transaction(of)])
            .map(str::to_owned)
            .collect();
        asked.extend([lock_plugin(false), lock_plugin(true)]);
        for ask in asked {
            assert!(ask.contains("CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM'))"), "{ask}");
            assert!(!ask.contains("NOW()"), "{ask}");
        }
    }

    #[test]
    fn a_name_is_no_part_of_the_statement_whatever_it_is() {
        let of =
            |schema: &str, name: &str| lacks_key(&Table { schema: schema.to_owned(), name: name.to_owned() });
        let asked = of("app", "t");
        assert!(
            asked.contains("database_name = _utf8mb4 X'617070' AND (table_name = _utf8mb4 X'74' OR"),
            "{asked}"
        );
        // Parts of `t`: from `t#P#` up to what follows all of them, and not those of `t2`.
        assert!(asked.contains("(table_name >= _utf8mb4 X'74235023' AND table_name < _utf8mb4 X'74235024')"));
        assert!(asked.contains("(table_name >= _utf8mb4 X'74237023' AND table_name < _utf8mb4 X'74237024')"));
        assert!(!of("a' OR '1", "\\").contains("OR '1"));
    }
}
