//! A privilege that we miss: what is not known because of it, and the statement that mends it.

use crate::dialect::Dialect;
use fleet::Lack;

/// What was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// The state of its replication threads.
    Replication,
    /// Who replicates from it.
    Replicas,
    /// File and offset of its binary log.
    FilePosition,
    Sessions,
    Counters,
    /// `mysql.rds_topology`.
    RdsTopology,
    /// `headroom.switchover`.
    Epoch,
}

/// One missing privilege on one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) purpose: Purpose,
    pub(crate) grant: String,
}

impl Missing {
    /// What to grant to `account` (as `CURRENT_USER()` shows it).
    pub(crate) fn new(purpose: Purpose, dialect: Dialect, account: &str) -> Self {
        Self { purpose, grant: format!("GRANT {} TO {}", privilege(purpose, dialect), quoted(account)) }
    }

    /// What is not known, and what mends it.
    pub(crate) fn words(&self) -> String {
        format!("{}; to mend it: {};", self.unknown(), self.grant)
    }

    /// The same in two.
    pub(crate) fn lack(&self) -> Lack {
        Lack { unknown: self.unknown().to_owned(), grant: self.grant.clone() }
    }

    fn unknown(&self) -> &'static str {
        match self.purpose {
            Purpose::Replication => "whether and how far it replicates is not known",
            Purpose::Replicas => "the replicas it serves are not known from it",
            Purpose::FilePosition => {
                "its binary log position is not known, so lag without GTIDs is not either"
            }
            Purpose::Sessions => "the sessions of other accounts are not seen",
            Purpose::Counters => "reads by client host are not counted",
            Purpose::Epoch => "whether it is a former primary cannot be told by its epoch",
            Purpose::RdsTopology => "the other instances of its cluster are not known from it",
        }
    }
}

fn privilege(purpose: Purpose, dialect: Dialect) -> &'static str {
    let mariadb = dialect.is_mariadb();
    match purpose {
        Purpose::Replication if dialect.version.mariadb_from((10, 5, 9)) => "SLAVE MONITOR ON *.*",
        Purpose::FilePosition if mariadb => "BINLOG MONITOR ON *.*",
        Purpose::Replication | Purpose::FilePosition => "REPLICATION CLIENT ON *.*",
        Purpose::Replicas if mariadb => "REPLICATION MASTER ADMIN ON *.*",
        Purpose::Replicas => "REPLICATION SLAVE ON *.*",
        Purpose::Sessions if mariadb => "PROCESS ON *.*",
        Purpose::Sessions | Purpose::Counters => "SELECT ON performance_schema.*",
        Purpose::RdsTopology => "SELECT ON mysql.rds_topology",
        Purpose::Epoch => "SELECT ON headroom.*",
    }
}

/// `user@host` -> `'user'@'host'`; the host is what follows the last at sign.
fn quoted(account: &str) -> String {
    let quote = |text: &str| format!("'{}'", text.replace('\'', "''"));
    match account.rsplit_once('@') {
        Some((user, host)) => format!("{}@{}", quote(user), quote(host)),
        None => quote(account),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grant_fits_flavour_and_version() {
        let of = |version: &str, purpose| {
            let dialect = Dialect { version: version.parse().unwrap(), aurora: false };
            Missing::new(purpose, dialect, "watch@10.0.%").grant
        };
        assert_eq!(
            of("10.11.6-MariaDB", Purpose::Replication),
            "GRANT SLAVE MONITOR ON *.* TO 'watch'@'10.0.%'"
        );
        assert_eq!(of("8.4.0", Purpose::Replication), "GRANT REPLICATION CLIENT ON *.* TO 'watch'@'10.0.%'");
        assert_eq!(
            of("12.0.1-MariaDB", Purpose::Replicas),
            "GRANT REPLICATION MASTER ADMIN ON *.* TO 'watch'@'10.0.%'"
        );
        assert_eq!(of("9.1.0", Purpose::Replicas), "GRANT REPLICATION SLAVE ON *.* TO 'watch'@'10.0.%'");
    }

    #[test]
    fn accounts_are_quoted() {
        assert_eq!(quoted("o'neil@%"), "'o''neil'@'%'");
    }
}
