//! Settings of a server that verdicts and their advice need.

use observe::Rows;
use serde::{Deserialize, Serialize};

/// Some global variables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// `max_connections`; 0 when not known.
    pub max_connections: u64,
    /// `innodb_buffer_pool_size`, bytes.
    pub pool_size: u64,
    /// Pages that each part of the pool keeps free ahead (`innodb_lru_scan_depth`).
    pub kept_free: u64,
    /// Parts of the pool (`innodb_buffer_pool_instances`); 0 where the version has but one.
    pub pool_parts: u64,
    /// `innodb_flush_log_at_trx_commit`; `None` when not known.
    pub flush_log_at_commit: Option<u64>,
    /// `sync_binlog`, 0 without a binary log; `None` when not known.
    pub sync_binlog: Option<u64>,
    /// Whether a commit may wait for a flush though neither of the two says so: each write of the redo log
    /// goes through to the disk (`innodb_flush_method = O_DSYNC`, `innodb_log_file_write_through`), or
    /// MyRocks flushes a log of its own (`rocksdb_flush_log_at_trx_commit = 1`).
    pub flushes_otherwise: bool,
    /// Threads that may apply changes in parallel; 0 and 1 both mean one.
    pub parallel_appliers: u64,
    /// `table_open_cache`; 0 when not known.
    pub table_open_cache: u64,
    /// Threads that may be at work at a time: `thread_pool_size` with a pool of threads (MariaDB, Percona
    /// Server), else `innodb_thread_concurrency`; 0 without such a limit.
    pub at_work: u64,
    /// Whether it is the pool of threads that limits them (`thread_handling = pool-of-threads`).
    pub pool_of_threads: bool,
    /// Whether a statement may hold a table's auto-increment lock to its end (`innodb_autoinc_lock_mode` 0 or
    /// 1).
    pub holds_auto_increment: bool,
    /// Whether one session waits for a replica's acknowledgement on behalf of all that commit with it, while
    /// the others say that they commit: always on MySQL, on MariaDB with `rpl_semi_sync_master_wait_point =
    /// AFTER_SYNC`.
    pub acknowledged_together: bool,
    /// Whether it is MySQL: its appliers do not say that they look for a row.
    pub mysql: bool,
    /// Whether `performance_schema` is on.
    pub performance_schema: bool,
    /// `datadir`
    pub datadir: String,
    /// `pid_file`, as it is configured.
    pub pid_file: String,
    /// `hostname`, `port` and `server_id`: together they tell a server from every other, whatever it is
    /// reached by.
    pub hostname: String,
    /// `port`
    pub port: u64,
    /// `server_id`
    pub server_id: u64,
}

impl Settings {
    /// Reads rows of `variable_name`, `value`.
    pub(super) fn read(rows: &Rows) -> Self {
        let mut settings = Self::default();
        let (mut pool, mut after_sync, mut no_binlog) = (0, false, false);
        for row in rows.iter() {
            let value = row.text(&["value"]).unwrap_or_default();
            let number = value.parse().unwrap_or(0);
            let on = value.eq_ignore_ascii_case("on") || value == "1";
            match row.text(&["variable_name"]).unwrap_or_default() {
                "max_connections" => settings.max_connections = number,
                "innodb_buffer_pool_size" => settings.pool_size = number,
                "innodb_lru_scan_depth" => settings.kept_free = number,
                "innodb_buffer_pool_instances" => settings.pool_parts = number,
                "innodb_flush_log_at_trx_commit" => settings.flush_log_at_commit = value.parse().ok(),
                "innodb_log_file_write_through" | "rocksdb_flush_log_at_trx_commit" => {
                    settings.flushes_otherwise |= on;
                }
                "innodb_flush_method" => {
                    settings.flushes_otherwise |= value.eq_ignore_ascii_case("O_DSYNC");
                }
                "sync_binlog" => settings.sync_binlog = value.parse().ok(),
                "log_bin" => no_binlog = !on,
                // MariaDB, MySQL before and after 8.0.26.
                "slave_parallel_threads" | "slave_parallel_workers" | "replica_parallel_workers" => {
                    settings.parallel_appliers = number;
                }
                "table_open_cache" => settings.table_open_cache = number,
                "thread_handling" => {
                    settings.pool_of_threads = value.eq_ignore_ascii_case("pool-of-threads");
                }
                "thread_pool_size" => pool = number,
                "innodb_thread_concurrency" => settings.at_work = number,
                "innodb_autoinc_lock_mode" => settings.holds_auto_increment = matches!(value, "0" | "1"),
                "rpl_semi_sync_master_wait_point" => after_sync = value.eq_ignore_ascii_case("AFTER_SYNC"),
                "version" => settings.mysql = !value.contains("MariaDB"),
                "performance_schema" => settings.performance_schema = on,
                "datadir" => value.clone_into(&mut settings.datadir),
                "pid_file" => value.clone_into(&mut settings.pid_file),
                "hostname" => value.clone_into(&mut settings.hostname),
                "port" => settings.port = number,
                "server_id" => settings.server_id = number,
                _ => {}
            }
        }
        if settings.pool_of_threads {
            settings.at_work = pool;
        }
        if no_binlog {
            settings.sync_binlog = Some(0);
        }
        settings.acknowledged_together = settings.mysql || after_sync;
        settings
    }

    /// Whether commits wait until a log of theirs is flushed, each or one of several; `None` when not known.
    /// Without that a commit hands its logs to the kernel, or to a thread that flushes them once a second.
    pub fn flushes_at_commit(&self) -> Option<bool> {
        let redo = self.flush_log_at_commit.map(|value| !matches!(value, 0 | 2));
        let binary = self.sync_binlog.map(|value| value > 0);
        match (redo, binary) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(self.flushes_otherwise),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of a server that tells these variables.
    fn told(variables: &[(&str, &str)]) -> Settings {
        let row = |(name, value): &(&str, &str)| vec![Some((*name).to_owned()), Some((*value).to_owned())];
        let names = ["Variable_name", "Value"].map(str::to_owned);
        Settings::read(&Rows::new(names, variables.iter().map(row).collect()))
    }

    #[test]
    fn mysql_is_told_from_mariadb_and_from_what_says_no_version() {
        let mysql = |variables: &[(&str, &str)]| told(variables).mysql;
        assert!(mysql(&[("version", "8.4.3")]));
        assert!(!mysql(&[("version", "10.11.6-MariaDB-log")]) && !mysql(&[("port", "3306")]));
    }

    #[test]
    fn without_a_binary_log_none_is_flushed_whatever_is_set_for_one() {
        let flushes = |log_bin: &str| {
            let settings =
                told(&[("log_bin", log_bin), ("sync_binlog", "1"), ("innodb_flush_log_at_trx_commit", "0")]);
            (settings.sync_binlog, settings.flushes_at_commit())
        };
        assert_eq!((flushes("ON"), flushes("OFF")), ((Some(1), Some(true)), (Some(0), Some(false))));
    }

    #[test]
    fn whether_a_commit_waits_for_a_flush_is_told_by_both_logs_or_not_known() {
        let of = |variables: &[(&str, &str)]| told(variables).flushes_at_commit();
        let redo = |value| ("innodb_flush_log_at_trx_commit", value);
        let binary = |value| ("sync_binlog", value);
        for (of_redo, of_binary, flushes) in
            [("0", "0", false), ("2", "0", false), ("3", "0", true), ("2", "100", true)]
        {
            let found = of(&[redo(of_redo), binary(of_binary)]);
            assert_eq!(found, Some(flushes), "{of_redo} {of_binary}");
        }
        assert_eq!((of(&[]), of(&[redo("2")]), of(&[binary("0")])), (None, None, None));
        assert_eq!(of(&[redo("1")]), Some(true), "whatever the other one is");
        for otherwise in [
            ("innodb_flush_method", "O_DSYNC"),
            ("innodb_log_file_write_through", "ON"),
            ("rocksdb_flush_log_at_trx_commit", "1"),
        ] {
            assert_eq!(of(&[redo("2"), binary("0"), otherwise]), Some(true), "{otherwise:?}");
        }
        assert_eq!(of(&[redo("2"), binary("0"), ("innodb_flush_method", "O_DIRECT")]), Some(false));
    }

    #[test]
    fn who_waits_for_a_replica_on_behalf_of_others_is_told_by_the_version_and_the_point_of_waiting() {
        let together = |version: &str, point: &str| {
            let variables = [("rpl_semi_sync_master_wait_point", point), ("version", version)];
            told(&variables).acknowledged_together
        };
        assert!(together("10.11.6-MariaDB", "AFTER_SYNC") && !together("10.11.6-MariaDB", "AFTER_COMMIT"));
        assert!(together("8.4.3", "AFTER_SYNC") && together("8.4.3", "AFTER_COMMIT"));
    }

    #[test]
    fn with_a_pool_of_threads_it_is_the_pool_that_limits_who_is_at_work() {
        let read = |handling: &str| {
            let variables = [
                ("thread_pool_size", "4"),
                ("thread_handling", handling),
                ("innodb_thread_concurrency", "16"),
                ("version", "8.0.36-28"),
            ];
            let settings = told(&variables);
            (settings.pool_of_threads, settings.at_work)
        };
        assert_eq!(read("pool-of-threads"), (true, 4));
        assert_eq!(read("one-thread-per-connection"), (false, 16));
    }
}
