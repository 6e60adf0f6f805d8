//! The accounts of a lab, and the statements that make them. Pure.
//!
//! Every server gets the same accounts at its first start, from an init file and without the binary log:
//! nothing about accounts is ever replicated, so a replica may be built from any primary at any time.
//! Passwords are random for each lab and kept in option files that only the owner can read.

use crate::program::Flavour;
use rand::Rng;
use rand::distr::Alphanumeric;
use std::fmt;

/// Who may log in to the servers of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Account {
    /// Everything, from the server's own unix socket only (`root`@`localhost`).
    Root,
    /// The application: everything in the database `app`.
    App,
    /// What Headroom asks servers with: the least that is needed for watching.
    Headroom,
    /// Replicas fetch from their source with it.
    Repl,
    /// What `headroom switchover` changes roles with: the least that is needed for it.
    Admin,
}

/// The database of [`Account::App`].
pub const DATABASE: &str = "app";

/// Random passwords, one an account. Letters and digits only: no statement needs to quote them.
#[derive(Clone)]
pub(crate) struct Passwords(Vec<String>);

impl Account {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Root, Self::App, Self::Headroom, Self::Repl, Self::Admin];

    /// The name it logs in with.
    pub fn user(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::App => "app",
            Self::Headroom => "headroom",
            Self::Repl => "repl",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.user())
    }
}

impl Passwords {
    pub(crate) fn random() -> Self {
        let password = |_| rand::rng().sample_iter(Alphanumeric).take(24).map(char::from).collect();
        Self(Account::ALL.iter().map(password).collect())
    }

    pub(crate) fn of(&self, account: Account) -> &str {
        &self.0[account as usize]
    }
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passwords(hidden)")
    }
}

/// An option file for client programs: `mariadb --defaults-extra-file=<this>`.
pub(crate) fn option_file(account: Account, passwords: &Passwords) -> String {
    format!("[client]\nuser = {}\npassword = {}\n", account.user(), passwords.of(account))
}

/// The init file: one statement a line, as both flavours want it.
pub(crate) fn statements(flavour: Flavour, passwords: &Passwords) -> String {
    let mut lines =
        vec!["SET sql_log_bin = 0".to_owned(), format!("CREATE DATABASE IF NOT EXISTS {DATABASE}")];
    if flavour == Flavour::MariaDb {
        // mariadb-install-db leaves these without a password.
        lines.push("DROP USER IF EXISTS 'root'@'127.0.0.1', 'root'@'::1'".to_owned());
    }
    lines.push(format!("ALTER USER 'root'@'localhost' IDENTIFIED BY '{}'", passwords.of(Account::Root)));
    for account in [Account::App, Account::Headroom, Account::Repl, Account::Admin] {
        let (user, password) = (account.user(), passwords.of(account));
        lines.push(format!("CREATE USER IF NOT EXISTS '{user}'@'%' IDENTIFIED BY '{password}'"));
        lines.extend(grants(flavour, account).iter().map(|what| format!("GRANT {what} TO '{user}'@'%'")));
    }
    lines.iter().fold(String::new(), |text, line| text + line + ";\n")
}

fn grants(flavour: Flavour, account: Account) -> &'static [&'static str] {
    match (account, flavour) {
        (Account::Root, _) => &[],
        (Account::App, _) => &["ALL ON app.*"],
        (Account::Repl, _) => &["REPLICATION SLAVE ON *.*"],
        (Account::Admin, Flavour::MariaDb) => &[
            "READ_ONLY ADMIN, CONNECTION ADMIN, REPLICATION SLAVE ADMIN, REPLICATION MASTER ADMIN, BINLOG MONITOR, \
             SLAVE MONITOR, RELOAD, PROCESS, EVENT ON *.*",
            "SELECT ON mysql.*",
            "ALL ON headroom.*",
        ],
        (Account::Admin, Flavour::MySql) => &[
            "SYSTEM_VARIABLES_ADMIN, CONNECTION_ADMIN, REPLICATION_SLAVE_ADMIN, XA_RECOVER_ADMIN ON *.*",
            "RELOAD, PROCESS, REPLICATION CLIENT, REPLICATION SLAVE, EVENT ON *.*",
            "SELECT ON mysql.*",
            "ALL ON headroom.*",
        ],
        (Account::Headroom, Flavour::MariaDb) => &[
            "BINLOG MONITOR, SLAVE MONITOR, REPLICATION MASTER ADMIN, PROCESS ON *.*",
            "SELECT ON performance_schema.*",
            "SELECT ON headroom.*",
        ],
        (Account::Headroom, Flavour::MySql) => &[
            "REPLICATION CLIENT, REPLICATION SLAVE, PROCESS ON *.*",
            "SELECT ON performance_schema.*",
            "SELECT ON mysql.innodb_index_stats",
            "SELECT ON headroom.*",
        ],
    }
}

/// A statement as an error may show it: what stands in quotes after a password keyword is left out.
pub(crate) fn without_passwords(statement: &str) -> String {
    let Some(at) = statement.find("PASSWORD = '") else { return statement.to_owned() };
    let (before, after) = statement.split_at(at + "PASSWORD = '".len());
    let rest = after.find('\'').map_or("", |end| &after[end..]);
    format!("{before}...{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_shows_in_an_error() {
        let shown = without_passwords("CHANGE MASTER TO MASTER_PASSWORD = 'secret', MASTER_PORT = 1");
        assert_eq!(shown, "CHANGE MASTER TO MASTER_PASSWORD = '...', MASTER_PORT = 1");
    }

    #[test]
    fn accounts_are_made_without_the_binary_log_and_one_statement_a_line() {
        for flavour in [Flavour::MariaDb, Flavour::MySql] {
            let text = statements(flavour, &Passwords::random());
            assert!(text.starts_with("SET sql_log_bin = 0;\n"));
            assert!(text.lines().all(|l| l.ends_with(';')));
        }
    }
}
