//! Counters and levels of `SHOW GLOBAL STATUS`, by the names that either flavour gives them. What a version
//! does not have is 0; where that would mislead (the checkpoint's age), the answer is `None`.

use observe::Rows;
use std::collections::HashMap;

/// Counters since the server's start, and levels now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Statements of clients.
    pub questions: u64,
    pub selects: u64,
    /// INSERT, UPDATE, DELETE, REPLACE, LOAD.
    pub writes: u64,
    /// Commits inside the engines, also of single statements and of reads.
    pub commits: u64,
    /// Commits in the binary log, and their groups (MariaDB).
    pub binlog_commits: u64,
    pub binlog_groups: u64,
    /// Sessions now.
    pub connected: u64,
    /// Threads at work now, the server's own and ours among them.
    pub running: u64,
    /// Connections begun, refused ones among them.
    pub connections: u64,
    /// Threads started for connections.
    pub threads_created: u64,
    /// Connections refused because there were too many.
    pub refused: u64,
    pub temporary: u64,
    pub temporary_on_disk: u64,
    /// Sessions that wait for a row lock now.
    pub row_waits_now: u64,
    /// Row-lock waits that began.
    pub row_waits: u64,
    /// Pages of the buffer pool.
    pub pages: u64,
    /// Of those, empty.
    pub pages_free: u64,
    /// Of those, not yet written.
    pub pages_dirty: u64,
    /// Pages asked for.
    pub page_requests: u64,
    /// Pages that had to be read while somebody waited.
    pub page_misses: u64,
    pub read_ahead: u64,
    /// Pages read ahead and dropped unused.
    pub read_ahead_wasted: u64,
    pub pages_flushed: u64,
    /// Waits for a free page.
    pub waits_for_free: u64,
    /// Whether the pool is being filled from a dump.
    pub loading: bool,
    pub redo_bytes: u64,
    /// Waits for room in the redo log's buffer.
    pub log_waits: u64,
    pub fsyncs: u64,
    /// Calls of fsync under way.
    pub fsyncs_pending: u64,
    /// Open tables, and openings that the cache of tables did not spare.
    pub open_tables: u64,
    pub tables_opened: u64,
    /// Undo logs that purge has not removed; `None` where the counters do not tell (MySQL).
    pub history: Option<u64>,
    /// Bytes of redo since the checkpoint, and how many fit.
    pub checkpoint: Option<(u64, u64)>,
}

impl Status {
    /// Reads rows of `variable_name`, `value`.
    pub(super) fn read(rows: &Rows) -> Self {
        let all: HashMap<String, &str> = rows
            .iter()
            .filter_map(|row| {
                Some((row.text(&["variable_name"])?.to_ascii_lowercase(), row.text(&["value"])?))
            })
            .collect();
        let known = |name: &str| all.get(name).and_then(|value| value.parse::<u64>().ok());
        let n = |name: &str| known(name).unwrap_or(0);
        let sum = |names: &[&str]| names.iter().fold(0u64, |sum, name| sum.saturating_add(n(name)));
        let mariadb = known("innodb_checkpoint_age").zip(known("innodb_checkpoint_max_age"));
        let mysql = known("innodb_redo_log_current_lsn").zip(known("innodb_redo_log_checkpoint_lsn"));
        let mysql = mysql.map(|(current, checkpoint)| current.saturating_sub(checkpoint));
        let load = all.get("innodb_buffer_pool_load_status").copied().unwrap_or_default();
        Self {
            uptime_s: n("uptime"),
            questions: n("questions"),
            selects: n("com_select"),
            writes: sum(&[
                "com_insert",
                "com_insert_select",
                "com_update",
                "com_update_multi",
                "com_delete",
                "com_delete_multi",
                "com_replace",
                "com_replace_select",
                "com_load",
            ]),
            commits: n("handler_commit"),
            binlog_commits: n("binlog_commits"),
            binlog_groups: n("binlog_group_commits"),
            connected: n("threads_connected"),
            running: n("threads_running"),
            connections: n("connections"),
            threads_created: n("threads_created"),
            refused: n("connection_errors_max_connections"),
            temporary: n("created_tmp_tables"),
            temporary_on_disk: n("created_tmp_disk_tables"),
            row_waits_now: n("innodb_row_lock_current_waits"),
            row_waits: n("innodb_row_lock_waits"),
            pages: n("innodb_buffer_pool_pages_total"),
            pages_free: n("innodb_buffer_pool_pages_free"),
            pages_dirty: n("innodb_buffer_pool_pages_dirty"),
            page_requests: n("innodb_buffer_pool_read_requests"),
            page_misses: n("innodb_buffer_pool_reads"),
            read_ahead: n("innodb_buffer_pool_read_ahead"),
            read_ahead_wasted: n("innodb_buffer_pool_read_ahead_evicted"),
            pages_flushed: n("innodb_buffer_pool_pages_flushed"),
            waits_for_free: n("innodb_buffer_pool_wait_free"),
            loading: load.starts_with("Loaded ") && load.contains('/') && !load.contains("completed"),
            redo_bytes: n("innodb_os_log_written"),
            log_waits: n("innodb_log_waits"),
            fsyncs: n("innodb_data_fsyncs"),
            fsyncs_pending: sum(&["innodb_data_pending_fsyncs", "innodb_os_log_pending_fsyncs"]),
            open_tables: n("open_tables"),
            tables_opened: n("opened_tables"),
            history: known("innodb_history_list_length"),
            checkpoint: mariadb.or(mysql.zip(known("innodb_redo_log_capacity_resized"))),
        }
    }

    /// Share of what the redo log can hold that the last checkpoint has not freed, 0 to 1.
    pub fn checkpoint_age(&self) -> Option<f64> {
        self.checkpoint.filter(|(_, room)| *room > 0).map(|(age, room)| age as f64 / room as f64)
    }

    /// Whether counters continue from here to `later`: no restart and no reset in between.
    pub(super) fn is_earlier_in_the_run_of(&self, later: &Self) -> bool {
        self.uptime_s <= later.uptime_s
            && self.questions <= later.questions
            && self.row_waits <= later.row_waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(all: &[(&str, &str)]) -> Rows {
        let row = |(name, value): &(&str, &str)| vec![Some((*name).to_owned()), Some((*value).to_owned())];
        Rows::new(["Variable_name".to_owned(), "Value".to_owned()], all.iter().map(row).collect())
    }

    #[test]
    fn the_checkpoint_is_read_in_the_words_of_either_flavour_or_is_not_known() {
        let mariadb = [("Innodb_checkpoint_age", "10"), ("Innodb_checkpoint_max_age", "40")];
        assert_eq!(Status::read(&rows(&mariadb)).checkpoint_age(), Some(0.25));
        let mysql = [
            ("Innodb_redo_log_current_lsn", "1500"),
            ("Innodb_redo_log_checkpoint_lsn", "1000"),
            ("Innodb_redo_log_capacity_resized", "1000"),
        ];
        assert_eq!(Status::read(&rows(&mysql)).checkpoint_age(), Some(0.5));
        assert_eq!(Status::read(&rows(&[("Questions", "5")])).checkpoint_age(), None);
    }

    #[test]
    fn writes_are_added_up_and_a_pool_that_fills_is_seen() {
        let status = Status::read(&rows(&[
            ("Com_insert", "5"),
            ("Com_update_multi", "2"),
            ("Innodb_buffer_pool_load_status", "Loaded 10/1000 pages"),
        ]));
        assert_eq!((status.writes, status.loading), (7, true));
        let done = ("Innodb_buffer_pool_load_status", "Buffer pool(s) load completed at 261120 17:00:00");
        assert!(!Status::read(&rows(&[done])).loading);
    }

    #[test]
    fn a_restart_breaks_the_row_of_readings() {
        let at = |uptime_s, questions| Status { uptime_s, questions, ..Status::default() };
        assert!(at(10, 5).is_earlier_in_the_run_of(&at(11, 6)));
        assert!(!at(10, 5).is_earlier_in_the_run_of(&at(1, 6)));
    }
}
