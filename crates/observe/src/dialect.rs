//! Which statement asks what, by flavour and version.
//!
//! | asked | MariaDB 10.6 to 12 | MySQL 8.0 to 9.x and later | Aurora MySQL |
//! |---|---|---|---|
//! | switches, position | `@@read_only`, `@@gtid_*_pos` | `@@super_read_only`, `@@gtid_executed` | `@@innodb_read_only` |
//! | replication | `SHOW ALL REPLICAS STATUS` | `SHOW REPLICA STATUS` (8.0.22) | `replica_host_status` |
//! | who replicates | `SHOW REPLICA HOSTS` | `SHOW REPLICAS` (8.0.22) | `replica_host_status` |
//! | file and offset | `SHOW MASTER STATUS` | `SHOW BINARY LOG STATUS` (8.2) | - |
//!
//! The statements that say `SLAVE` went away in MySQL 8.4; MariaDB has had both words since 10.5.1. What is
//! asked every round is cheap on a busy server: variables, and the state of its own replication threads. What
//! walks over all sessions (`SHOW GLOBAL STATUS`, the process list) is asked more seldom.

use crate::poll::seats::Candidates;
use fleet::Version;
use std::borrow::Cow;

/// What is asked first: the rest depends on it. Every MySQL since 4.1 understands it.
pub(crate) const VERSION: &str =
    "SELECT @@version AS version, @@version_comment AS version_comment, CURRENT_USER() AS account";

/// Whether this is Aurora. No error elsewhere: no row.
pub(crate) const AURORA_VERSION: &str = "SHOW GLOBAL VARIABLES LIKE 'aurora\\_version'";

/// Sessions, running statements, statements so far, and how warm it is ([`fleet::heat`]). Adds up over all
/// sessions: not for every round.
pub(crate) const LOAD: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected', 'Threads_running', 'Questions', \
     'Innodb_buffer_pool_reads', 'Innodb_buffer_pool_read_requests', 'Innodb_buffer_pool_load_status', 'Uptime')";

/// Aurora's own topology. Readers see it late, so the writer's copy counts most.
pub(crate) const AURORA_TOPOLOGY: &str = "SELECT SERVER_ID AS server_id, SESSION_ID AS session_id, CPU AS cpu, \
     REPLICA_LAG_IN_MILLISECONDS AS replica_lag_in_milliseconds, LAST_UPDATE_TIMESTAMP AS last_update_timestamp, \
     TIMESTAMPDIFF(SECOND, LAST_UPDATE_TIMESTAMP, NOW()) AS age_s FROM information_schema.replica_host_status";

/// The instances of an RDS Multi-AZ cluster.
pub(crate) const RDS_TOPOLOGY: &str = "SELECT id, endpoint, port FROM mysql.rds_topology";

/// The statements one server understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    pub version: Version,
    pub aurora: bool,
}

/// When it blocks a host whose connections break off, and whether it is a node of a cluster that replicates
/// in its own way: a row a variable, none of those it does not have.
pub(crate) const SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
    ('max_connect_errors', 'skip_name_resolve', 'host_cache_size', 'wsrep_on', \
    'group_replication_group_name')";

/// What is asked together with the vitals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Together<'a> {
    /// Who it is.
    pub(crate) identity: bool,
    /// Those that ask it.
    pub(crate) seats: Option<&'a Candidates>,
}

impl Dialect {
    /// Who it is: one row.
    pub(crate) fn identity(self) -> &'static str {
        if self.is_mariadb() {
            "SELECT @@hostname AS hostname, @@port AS port, @@server_id AS server_id, NULL AS server_uuid, \
             @@datadir AS datadir, @@report_host AS report_host, @@report_port AS report_port, \
             @@performance_schema AS performance_schema, @@userstat AS userstat, 1 AS gtid_mode, \
             @@event_scheduler = 'ON' AS event_scheduler"
        } else if self.aurora {
            "SELECT @@aurora_server_id AS hostname, @@port AS port, @@server_id AS server_id, \
             @@aurora_server_id AS aurora_server_id, NULL AS server_uuid, NULL AS datadir, NULL AS report_host, \
             NULL AS report_port, @@performance_schema AS performance_schema, 0 AS userstat, 0 AS gtid_mode"
        } else {
            "SELECT @@hostname AS hostname, @@port AS port, @@server_id AS server_id, @@server_uuid AS server_uuid, \
             @@datadir AS datadir, @@report_host AS report_host, @@report_port AS report_port, \
             @@performance_schema AS performance_schema, 0 AS userstat, @@global.gtid_mode = 'ON' AS gtid_mode, \
             @@event_scheduler = 'ON' AS event_scheduler"
        }
    }

    /// Whether it takes writes and how far it is: one row, every round.
    pub(crate) fn vitals(self) -> &'static str {
        if self.is_mariadb() {
            "SELECT @@global.read_only AS read_only, @@global.innodb_read_only AS innodb_read_only, \
             @@global.gtid_binlog_pos AS gtid_binlog_pos, @@global.gtid_slave_pos AS gtid_slave_pos, \
             @@global.gtid_current_pos AS gtid_current_pos, \
             IS_USED_LOCK('headroom.switchover') IS NOT NULL AS operation, \
             IS_USED_LOCK('headroom.switchover.prepare') IS NOT NULL AS prepare, \
             IS_USED_LOCK('headroom.switchover.hold') IS NOT NULL AS hold, CONNECTION_ID() AS connection_id"
        } else if self.aurora {
            "SELECT @@global.read_only AS read_only, @@global.innodb_read_only AS innodb_read_only"
        } else {
            "SELECT @@global.read_only AS read_only, @@global.super_read_only AS super_read_only, \
             @@global.innodb_read_only AS innodb_read_only, @@global.gtid_executed AS gtid_executed, \
             @@global.gtid_mode = 'ON' AS gtid_mode, @@global.offline_mode AS offline_mode, \
             IS_USED_LOCK('headroom.switchover') IS NOT NULL AS operation, \
             IS_USED_LOCK('headroom.switchover.prepare') IS NOT NULL AS prepare, \
             IS_USED_LOCK('headroom.switchover.hold') IS NOT NULL AS hold, CONNECTION_ID() AS connection_id"
        }
    }

    /// The same row with more columns: who it is, and those that ask it.
    pub(crate) fn vitals_with(self, more: Together<'_>) -> Cow<'static, str> {
        let mut statement = Cow::Borrowed(self.vitals());
        if more.identity {
            let columns = self.identity().trim_start_matches("SELECT ");
            statement.to_mut().push_str(&format!(", {columns}, @@version AS version"));
        }
        if let Some(seats) = more.seats {
            statement.to_mut().push_str(&format!(", {}", seats.columns()));
        }
        statement
    }

    /// Its replication threads: a row a channel, none when it replicates from nobody. Every round.
    pub fn replication(self) -> Option<&'static str> {
        match (self.aurora, self.is_mariadb()) {
            (true, _) => None,
            (false, true) => Some("SHOW ALL REPLICAS STATUS"),
            (false, false) if self.version.mysql_from((8, 0, 22)) => Some("SHOW REPLICA STATUS"),
            (false, false) => Some("SHOW SLAVE STATUS"),
        }
    }

    /// File and offset of its binary log, where GTIDs are off.
    pub(crate) fn file_position(self) -> &'static str {
        if self.version.mysql_from((8, 2, 0)) { "SHOW BINARY LOG STATUS" } else { "SHOW MASTER STATUS" }
    }

    /// The replicas that registered with it.
    pub(crate) fn replicas(self) -> Option<&'static str> {
        match (self.aurora, self.is_mariadb()) {
            (true, _) => None,
            (false, true) => Some("SHOW REPLICA HOSTS"),
            (false, false) if self.version.mysql_from((8, 0, 22)) => Some("SHOW REPLICAS"),
            (false, false) => Some("SHOW SLAVE HOSTS"),
        }
    }

    /// Who reads its binary log, from the sessions: for replicas that do not say their address.
    pub(crate) fn dump_sessions(self) -> &'static str {
        if self.is_mariadb() {
            "SELECT host AS host FROM information_schema.PROCESSLIST WHERE command LIKE 'Binlog Dump%'"
        } else {
            "SELECT processlist_host AS host FROM performance_schema.threads \
             WHERE processlist_command LIKE 'Binlog Dump%'"
        }
    }

    pub fn is_mariadb(self) -> bool {
        self.version.flavour == fleet::Flavour::MariaDb
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialect(version: &str) -> Dialect {
        Dialect { version: version.parse().unwrap(), aurora: false }
    }

    #[test]
    fn the_counters_of_a_buffer_pool_are_asked_together_with_the_load() {
        for variable in fleet::heat::VARIABLES {
            assert!(LOAD.contains(&format!("'{variable}'")), "{variable}");
        }
    }

    #[test]
    fn the_locks_looked_at_are_those_of_a_switchover() {
        for version in ["8.4.2", "10.11.6-MariaDB"] {
            let asked = dialect(version).vitals();
            use fleet::announcement::{HOLD, OPERATION, PREPARE};
            for lock in [PREPARE, HOLD, OPERATION] {
                assert!(asked.contains(&format!("IS_USED_LOCK('{lock}')")), "{version} {lock}");
            }
        }
    }

    #[test]
    fn no_server_is_asked_in_words_it_has_dropped_or_not_learned_yet() {
        for (version, replication, replicas, file) in [
            ("8.0.21", "SHOW SLAVE STATUS", "SHOW SLAVE HOSTS", "SHOW MASTER STATUS"),
            ("8.0.36-28", "SHOW REPLICA STATUS", "SHOW REPLICAS", "SHOW MASTER STATUS"),
            ("8.4.2", "SHOW REPLICA STATUS", "SHOW REPLICAS", "SHOW BINARY LOG STATUS"),
            ("26.10.0", "SHOW REPLICA STATUS", "SHOW REPLICAS", "SHOW BINARY LOG STATUS"),
            ("10.6.18-MariaDB", "SHOW ALL REPLICAS STATUS", "SHOW REPLICA HOSTS", "SHOW MASTER STATUS"),
            ("12.1.2-MariaDB", "SHOW ALL REPLICAS STATUS", "SHOW REPLICA HOSTS", "SHOW MASTER STATUS"),
        ] {
            let dialect = dialect(version);
            assert_eq!(dialect.replication(), Some(replication), "{version}");
            assert_eq!(dialect.replicas(), Some(replicas), "{version}");
            assert_eq!(dialect.file_position(), file, "{version}");
        }
    }
}
