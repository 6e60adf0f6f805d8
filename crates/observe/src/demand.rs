//! Demand: how many reads are born in each zone, from what the servers count by client host.

mod estimate;

use crate::dialect::Dialect;
use crate::rows::{Rows, client_host};
use config::FleetConfig;
use fleet::{Demand, DemandSource, Role, Server, Zone, ZoneShare};
use std::collections::BTreeMap;
use std::time::Instant;

pub(crate) use estimate::{Estimate, Estimator};

/// How a server counts what its client hosts ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Counting {
    /// performance_schema, statements by account and event: SELECT, and executions of prepared statements (which are
    /// not counted under SELECT, in either flavour).
    Statements,
    /// MariaDB's `userstat`.
    UserStatistics,
    /// Sessions open now.
    Sessions,
}

/// What one server counted, by client host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Clients {
    pub(crate) counting: Counting,
    pub(crate) at: Instant,
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
                "SELECT SUBSTRING_INDEX(host, ':', 1) AS host, SUM(IF(command = 'Sleep', 1, 5)) AS reads_or_sessions \
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
    pub(crate) fn read(counting: Counting, rows: &Rows, at: Instant) -> Self {
        let mut hosts: BTreeMap<String, f64> = BTreeMap::new();
        for row in rows.iter() {
            if let (Some(host), Some(count)) =
                (row.filled(&["host"]), row.parse::<f64>(&["reads_or_sessions"]))
            {
                *hosts.entry(client_host(host).to_owned()).or_default() += count;
            }
        }
        Self { counting, at, hosts }
    }
}

/// Above this share of reads from hosts that stand in no known zone, the rest says too little.
const MOST_UNPLACED: f64 = 0.5;

/// The demand to act on: measured, else as configured, else equal; with what should be said about it.
pub(crate) fn decide(
    estimate: Estimate,
    config: &FleetConfig,
    servers: &[Server],
    own: Option<&Zone>,
) -> (Demand, Vec<String>) {
    let mut remarks = Vec::new();
    let idle = estimate == Estimate::Idle;
    if let Estimate::Measured(measured) = estimate {
        if measured.unplaced <= MOST_UNPLACED {
            let source =
                if measured.reads { DemandSource::StatementCounters } else { DemandSource::Sessions };
            let reads_per_second = if measured.reads { measured.total } else { 0.0 };
            let zones = measured.shares.into_iter().map(|(zone, share)| ZoneShare { zone, share }).collect();
            return (Demand { zones, source, reads_per_second, unplaced: measured.unplaced, idle }, remarks);
        }
        remarks.push(format!(
            "{:.0} % of reads come from hosts that stand in no known zone, so demand is not measured; \
             give the zones the networks of their client hosts",
            measured.unplaced * 100.0
        ));
    }
    let configured: f64 = config.zones.iter().filter_map(|zone| zone.demand).sum();
    let (source, weights): (_, BTreeMap<Zone, f64>) = if configured > 0.0 {
        let stated = config.zones.iter().filter_map(|rule| Some((rule.zone.clone(), rule.demand?)));
        (DemandSource::Configured, stated.filter(|(_, share)| *share > 0.0).collect())
    } else {
        let with_reader = servers.iter().filter(|s| s.role == Role::Replica && s.reserved.is_none());
        let zones = with_reader.filter_map(|s| s.zone_name().cloned()).chain(own.cloned());
        (DemandSource::Equal, zones.map(|zone| (zone, 1.0)).collect())
    };
    let total: f64 = weights.values().sum();
    let zones = weights.into_iter().map(|(zone, weight)| ZoneShare { zone, share: weight / total }).collect();
    (Demand { zones, source, reads_per_second: 0.0, unplaced: 0.0, idle }, remarks)
}
