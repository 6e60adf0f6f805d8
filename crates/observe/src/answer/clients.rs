//! What a server counts of its client hosts: the question by the best way it has, and the answer.

use crate::dialect::Dialect;
use crate::rows::{Rows, client_host};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How a server counts what its client hosts ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Counting {
    /// performance_schema, statements by account and event: SELECT, and executions of prepared statements
    /// (which are not counted under SELECT, in either flavour).
    Statements,
    /// MariaDB's `userstat`.
    UserStatistics,
    /// Sessions open now.
    Sessions,
}

/// The host of MariaDB's process list, which has the port behind the last colon: an IPv6 address has others.
const WITHOUT_PORT: &str = "LEFT(host, CHAR_LENGTH(host) - LOCATE(':', REVERSE(host)))";

/// What one server counted, by client host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Clients {
    pub(crate) counting: Counting,
    pub(crate) at: Instant,
    /// The next sample comes after this long, at the latest, if the server answers.
    pub(crate) spacing: Duration,
    /// Statements so far, or weighted sessions now.
    pub(crate) hosts: BTreeMap<String, f64>,
}

impl Counting {
    pub(crate) const BEST_FIRST: [Self; 3] = [Self::Statements, Self::UserStatistics, Self::Sessions];

    /// The statement that asks it; `user` is our own account name, whose sessions do not count.
    pub(crate) fn statement(self, dialect: Dialect, user: &str) -> String {
        let own = user.replace('\\', "\\\\").replace('\'', "''");
        match self {
            Self::Statements => format!(
                "SELECT host AS host, SUM(count_star) AS reads_or_sessions \
                 FROM performance_schema.events_statements_summary_by_account_by_event_name \
                 WHERE event_name IN ('statement/sql/select', 'statement/com/Execute') \
                 AND host IS NOT NULL AND user <> '{own}' GROUP BY host"
            ),
            Self::UserStatistics => "SELECT client AS host, select_commands AS reads_or_sessions \
                 FROM information_schema.CLIENT_STATISTICS"
                .to_owned(),
            Self::Sessions if dialect.is_mariadb() => format!(
                "SELECT {WITHOUT_PORT} AS host, SUM(IF(command = 'Sleep', 1, 5)) AS reads_or_sessions \
                 FROM information_schema.PROCESSLIST WHERE host <> '' AND user NOT IN ('system user', '{own}') \
                 AND command NOT LIKE 'Binlog Dump%' GROUP BY 1"
            ),
            Self::Sessions => format!(
                "SELECT processlist_host AS host, SUM(IF(processlist_command = 'Sleep', 1, 5)) AS reads_or_sessions \
                 FROM performance_schema.threads WHERE type = 'FOREGROUND' AND processlist_host IS NOT NULL \
                 AND processlist_user <> '{own}' AND processlist_command NOT LIKE 'Binlog Dump%' GROUP BY 1"
            ),
        }
    }
}

impl Clients {
    pub(crate) fn read(counting: Counting, rows: &Rows, at: Instant, spacing: Duration) -> Self {
        let mut hosts: BTreeMap<String, f64> = BTreeMap::new();
        for row in rows.iter() {
            if let (Some(host), Some(count)) =
                (row.filled(&["host"]), row.parse::<f64>(&["reads_or_sessions"]))
            {
                *hosts.entry(client_host(host).to_owned()).or_default() += count;
            }
        }
        Self { counting, at, spacing, hosts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_mariadb_are_grouped_by_all_of_an_ipv6_address() {
        let dialect = Dialect { version: "10.11.6-MariaDB".parse().unwrap(), aurora: false };
        let statement = Counting::Sessions.statement(dialect, "watcher");
        assert!(statement.starts_with(&format!("SELECT {WITHOUT_PORT} AS host, ")), "{statement}");
        assert!(!statement.contains("SUBSTRING_INDEX"), "{statement}");
        let rows = Rows::new(
            ["host", "reads_or_sessions"].map(str::to_owned),
            vec![
                vec![Some("2001:db8::5".to_owned()), Some("10".to_owned())],
                vec![Some("10.0.0.5".to_owned()), Some("5".to_owned())],
            ],
        );
        let clients = Clients::read(Counting::Sessions, &rows, Instant::now(), Duration::ZERO);
        let hosts: Vec<(&str, f64)> = clients.hosts.iter().map(|(host, n)| (host.as_str(), *n)).collect();
        assert_eq!(hosts, [("10.0.0.5", 5.0), ("2001:db8::5", 10.0)]);
    }
}
