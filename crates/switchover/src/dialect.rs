//! What is said to a server to move the primary, by flavour and version. Pure.
//!
//! | | MariaDB | MySQL |
//! |---|---|---|
//! | freeze | `read_only = ON`, then `FLUSH TABLES WITH READ LOCK` held until the candidate has all; from 12.0 `read_only = NO_LOCK_NO_ADMIN` | `super_read_only = ON` |
//! | position | `@@gtid_binlog_pos` | `@@gtid_executed` |
//! | applied as a replica | `@@gtid_slave_pos` | `@@gtid_executed` |
//! | wait | `MASTER_GTID_WAIT(pos, s)`, 0 when reached | `WAIT_FOR_EXECUTED_GTID_SET(set, s)`, 0 when reached |
//! | former primary follows | `MASTER_DEMOTE_TO_SLAVE = 1` (10.10), else its own position as `gtid_slave_pos` | `SOURCE_AUTO_POSITION = 1` |

use crate::connection::quoted;
use crate::facts::ScheduledEvent;
use fleet::{Flavour, Thread, Version};

/// Whom a server shall follow, and as whom.
#[derive(Clone, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    /// User and password; `None` keeps those that the server has.
    pub(crate) login: Option<(&'a str, &'a str)>,
    /// How the connection is protected, see [`crate::facts::Channel::protection`]; empty keeps what the
    /// server has.
    pub(crate) protection: &'a [(String, String)],
}

/// The statements of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect(pub(crate) Version);

impl Dialect {
    pub(crate) fn is_mariadb(self) -> bool {
        self.0.flavour == Flavour::MariaDb
    }

    /// Whether administrators are kept out by the switch alone; else the global read lock keeps them out.
    pub(crate) fn read_only_binds_administrators(self) -> bool {
        !self.is_mariadb() || self.0.mariadb_from((12, 0, 0))
    }

    /// Whether replication is spoken of as REPLICA; MariaDB and older servers know SLAVE only.
    fn says_replica(self) -> bool {
        self.0.mysql_from((8, 0, 22))
    }

    /// Refuse writes.
    pub(crate) fn freeze(self) -> &'static str {
        if self.0.mariadb_from((12, 0, 0)) {
            "SET GLOBAL read_only = 'NO_LOCK_NO_ADMIN'"
        } else if self.is_mariadb() {
            "SET GLOBAL read_only = ON"
        } else {
            "SET GLOBAL super_read_only = ON"
        }
    }

    /// The switch that [`Self::freeze`] sets.
    pub(crate) fn freeze_switch(self) -> &'static str {
        if self.is_mariadb() { "@@GLOBAL.read_only" } else { "@@GLOBAL.super_read_only" }
    }

    /// Whether the freeze holds, by the value of that switch, and by whether its session is there: on servers
    /// where the switch alone does not bind administrators it has the read lock.
    pub(crate) fn is_frozen(self, switch: &str, locked: bool) -> bool {
        let on = ["1", "ON"].iter().any(|on| switch.eq_ignore_ascii_case(on));
        if self.0.mariadb_from((12, 0, 0)) {
            switch.eq_ignore_ascii_case("NO_LOCK_NO_ADMIN")
        } else {
            on && (locked || self.read_only_binds_administrators())
        }
    }

    /// Take writes. On MySQL this takes `super_read_only` off too.
    pub(crate) fn thaw(self) -> &'static str {
        "SET GLOBAL read_only = OFF"
    }

    /// What a replica refuses writes with.
    pub(crate) fn refuse_as_replica(self) -> &'static str {
        if self.is_mariadb() { "SET GLOBAL read_only = ON" } else { "SET GLOBAL super_read_only = ON" }
    }

    /// Everything it has written to its binary log: one value.
    pub(crate) fn position(self) -> &'static str {
        if self.is_mariadb() { "SELECT @@GLOBAL.gtid_binlog_pos" } else { "SELECT @@GLOBAL.gtid_executed" }
    }

    /// Everything that it has applied as a replica: one value, for which [`Self::wait_for`] waits.
    pub(crate) fn applied(self) -> &'static str {
        if self.is_mariadb() { "SELECT @@GLOBAL.gtid_slave_pos" } else { self.position() }
    }

    /// Waits on the server itself until it has everything up to `position`: "0" when reached.
    pub(crate) fn wait_for(self, position: &str, seconds: f64) -> String {
        let position = quoted(&position.replace(['\n', ' '], ""));
        if self.is_mariadb() {
            format!("SELECT MASTER_GTID_WAIT({position}, {seconds:.3})")
        } else {
            // Whole seconds before 8.0.27, and 0 is for ever.
            format!("SELECT WAIT_FOR_EXECUTED_GTID_SET({position}, {})", seconds.ceil().max(1.0))
        }
    }

    pub(crate) fn stop_replication(self) -> &'static str {
        if self.says_replica() { "STOP REPLICA" } else { "STOP SLAVE" }
    }

    pub(crate) fn start_replication(self) -> &'static str {
        if self.says_replica() { "START REPLICA" } else { "START SLAVE" }
    }

    /// The same for a replica where somebody had stopped these threads: they stay so. `None` where nothing
    /// is left to start.
    pub(crate) fn start_but(self, stopped: Option<Thread>) -> Option<&'static str> {
        match stopped {
            None => Some(self.start_replication()),
            Some(Thread::Applier) => Some(self.start_receiving()),
            Some(Thread::Receiver) if self.says_replica() => Some("START REPLICA SQL_THREAD"),
            Some(Thread::Receiver) => Some("START SLAVE SQL_THREAD"),
            Some(Thread::Both) => None,
        }
    }

    /// Receive no more; what was received is applied.
    pub(crate) fn stop_receiving(self) -> &'static str {
        if self.says_replica() { "STOP REPLICA IO_THREAD" } else { "STOP SLAVE IO_THREAD" }
    }

    /// Receive again.
    pub(crate) fn start_receiving(self) -> &'static str {
        if self.says_replica() { "START REPLICA IO_THREAD" } else { "START SLAVE IO_THREAD" }
    }

    /// Forget whom it followed.
    pub(crate) fn forget_source(self) -> &'static str {
        if self.says_replica() { "RESET REPLICA ALL" } else { "RESET SLAVE ALL" }
    }

    /// The same of a channel with a name.
    pub(crate) fn forget_channel(self, name: &str) -> String {
        if self.is_mariadb() {
            format!("RESET SLAVE {} ALL", quoted(name))
        } else {
            format!("{} FOR CHANNEL {}", self.forget_source(), quoted(name))
        }
    }

    pub(crate) fn replication_status(self) -> &'static str {
        if self.is_mariadb() {
            "SHOW ALL SLAVES STATUS"
        } else if self.says_replica() {
            "SHOW REPLICA STATUS"
        } else {
            "SHOW SLAVE STATUS"
        }
    }

    /// What it leaves out of its binary log stands beside where that ends.
    pub(crate) fn binary_log_status(self) -> &'static str {
        if self.0.mysql_from((8, 2, 0)) { "SHOW BINARY LOG STATUS" } else { "SHOW MASTER STATUS" }
    }

    /// A former primary follows the new one, from what it wrote itself.
    pub(crate) fn demote(self, source: &Source<'_>) -> Vec<String> {
        if !self.is_mariadb() {
            return vec![self.change_source(source, &["SOURCE_AUTO_POSITION = 1"])];
        }
        if self.0.mariadb_from((10, 10, 0)) {
            let options = ["MASTER_USE_GTID = slave_pos", "MASTER_DEMOTE_TO_SLAVE = 1"];
            return vec![self.change_source(source, &options)];
        }
        vec![
            "SET GLOBAL gtid_slave_pos = @@gtid_current_pos".to_owned(),
            self.change_source(source, &["MASTER_USE_GTID = slave_pos"]),
        ]
    }

    /// A replica follows another source, from the position that it has.
    pub(crate) fn repoint(self, source: &Source<'_>) -> String {
        let position =
            if self.is_mariadb() { "MASTER_USE_GTID = slave_pos" } else { "SOURCE_AUTO_POSITION = 1" };
        self.change_source(source, &[position])
    }

    /// How a replica that goes by file and offset is made to go by GTID, for a person to type.
    pub(crate) fn go_by_gtid(self) -> &'static str {
        if self.is_mariadb() {
            "STOP SLAVE; CHANGE MASTER TO MASTER_USE_GTID = slave_pos; START SLAVE"
        } else if self.0.mysql_from((8, 0, 23)) {
            "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 1; START REPLICA"
        } else {
            "STOP SLAVE; CHANGE MASTER TO MASTER_AUTO_POSITION = 1; START SLAVE"
        }
    }

    /// How a replica that waits on purpose is made to apply at once, for a person to type.
    pub(crate) fn apply_at_once(self) -> &'static str {
        if self.0.mysql_from((8, 0, 23)) {
            "CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 0"
        } else {
            "CHANGE MASTER TO MASTER_DELAY = 0"
        }
    }

    /// How a replica is made to encrypt its connection, for a person to type.
    pub(crate) fn encrypt(self) -> &'static str {
        if self.0.mysql_from((8, 0, 23)) {
            "CHANGE REPLICATION SOURCE TO SOURCE_SSL = 1"
        } else {
            "CHANGE MASTER TO MASTER_SSL = 1"
        }
    }

    /// Enables an event.
    pub(crate) fn enable_event(self, event: &ScheduledEvent) -> String {
        self.alter_event(event, "ENABLE")
    }

    /// Disables an event: nobody is shown it as one that a replica does not run.
    pub(crate) fn disable_event(self, event: &ScheduledEvent) -> String {
        self.alter_event(event, "DISABLE")
    }

    /// Keeps an event from running there, as if it had come from a source.
    pub(crate) fn disable_event_on_replica(self, event: &ScheduledEvent) -> String {
        let replica = if self.0.mysql_from((8, 2, 0)) { "REPLICA" } else { "SLAVE" };
        self.alter_event(event, &format!("DISABLE ON {replica}"))
    }

    /// The event keeps its definer: without one named whoever alters an event becomes it.
    fn alter_event(self, event: &ScheduledEvent, state: &str) -> String {
        let name = |text: &str| format!("`{}`", text.replace('`', "``"));
        let definer = match event.definer.rsplit_once('@') {
            _ if event.definer.is_empty() => String::new(),
            Some((role, "")) if self.is_mariadb() => format!("DEFINER = {} ", quoted(role)),
            Some((user, host)) => format!("DEFINER = {}@{} ", quoted(user), quoted(host)),
            None => format!("DEFINER = {} ", quoted(&event.definer)),
        };
        format!("ALTER {definer}EVENT {}.{} {state}", name(&event.schema), name(&event.name))
    }

    /// The bytes of a password by which a server can be told to follow another one; the account itself may
    /// have a longer one. MySQL refuses it with error 3056, MariaDB with error 1470 (measured with 10.11).
    pub(crate) fn longest_replication_password(self) -> usize {
        if self.is_mariadb() { 96 } else { 32 }
    }

    fn change_source(self, source: &Source<'_>, options: &[&str]) -> String {
        let (statement, prefix) = if self.is_mariadb() {
            ("CHANGE MASTER TO", "MASTER")
        } else if self.0.mysql_from((8, 0, 23)) {
            ("CHANGE REPLICATION SOURCE TO", "SOURCE")
        } else {
            ("CHANGE MASTER TO", "MASTER")
        };
        let mut parts = vec![
            format!("{prefix}_HOST = {}", quoted(source.host)),
            format!("{prefix}_PORT = {}", source.port),
        ];
        if let Some((user, password)) = source.login {
            parts.push(format!("{prefix}_USER = {}", quoted(user)));
            parts.push(format!("{prefix}_PASSWORD = {}", quoted(password)));
        }
        let public_key = format!("GET_{prefix}_PUBLIC_KEY");
        // One that a server is too old for would be refused, and with it the whole statement.
        let knows = |option: &str| match option {
            "COMPRESSION_ALGORITHMS" | "ZSTD_COMPRESSION_LEVEL" => self.0.mysql_from((8, 0, 18)),
            "TLS_CIPHERSUITES" => self.0.mysql_from((8, 0, 19)),
            _ => true,
        };
        let protection = source.protection.iter().filter(|(option, _)| knows(option));
        parts.extend(protection.map(|(option, value)| match option.as_str() {
            "GET_PUBLIC_KEY" => format!("{public_key} = {value}"),
            _ => format!("{prefix}_{option} = {value}"),
        }));
        parts.extend(options.iter().map(|option| option.replace("SOURCE_", &format!("{prefix}_"))));
        format!("{statement} {}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialect(version: &str) -> Dialect {
        Dialect(version.parse().unwrap())
    }

    #[test]
    fn an_event_keeps_its_definer() {
        let event = |definer: &str| ScheduledEvent {
            schema: "app".to_owned(),
            name: "night`ly".to_owned(),
            definer: definer.to_owned(),
        };
        let enable = |version: &str, definer: &str| dialect(version).enable_event(&event(definer));
        assert_eq!(
            enable("8.4.2", "o'brien@x@10.0.%"),
            "ALTER DEFINER = 'o''brien@x'@'10.0.%' EVENT `app`.`night``ly` ENABLE"
        );
        assert_eq!(
            enable("10.11.6-MariaDB", "batch@"),
            "ALTER DEFINER = 'batch' EVENT `app`.`night``ly` ENABLE"
        );
        assert_eq!(enable("8.4.2", ""), "ALTER EVENT `app`.`night``ly` ENABLE");
        let disable = |version: &str| dialect(version).disable_event_on_replica(&event(""));
        assert!(disable("8.4.2").ends_with("DISABLE ON REPLICA"));
        assert!(disable("8.0.36").ends_with("DISABLE ON SLAVE"));
        assert!(disable("11.8.2-MariaDB").ends_with("DISABLE ON SLAVE"));
    }

    #[test]
    fn each_version_is_spoken_to_in_its_own_words() {
        let protection = [("SSL".to_owned(), "1".to_owned()), ("GET_PUBLIC_KEY".to_owned(), "1".to_owned())];
        let source = Source { host: "db2", port: 3306, login: Some(("repl", "pa'ss")), protection: &[] };
        let demote = |version: &str| dialect(version).demote(&source).join("; ");
        assert!(demote("10.11.6-MariaDB").contains("MASTER_DEMOTE_TO_SLAVE = 1"));
        assert!(demote("10.6.18-MariaDB").starts_with("SET GLOBAL gtid_slave_pos"));
        assert!(demote("8.4.2").contains("SOURCE_PASSWORD = 'pa''ss', SOURCE_AUTO_POSITION = 1"));
        assert!(demote("8.0.21").starts_with("CHANGE MASTER TO MASTER_HOST"));
        assert!(demote("8.0.21").contains("MASTER_AUTO_POSITION = 1"));
        for older in ["8.0.21", "5.7.44", "11.8.2-MariaDB"] {
            assert_eq!(dialect(older).stop_replication(), "STOP SLAVE", "{older}");
            assert_eq!(dialect(older).start_replication(), "START SLAVE", "{older}");
            assert_eq!(dialect(older).stop_receiving(), "STOP SLAVE IO_THREAD", "{older}");
            assert_eq!(dialect(older).start_receiving(), "START SLAVE IO_THREAD", "{older}");
            assert_eq!(dialect(older).forget_source(), "RESET SLAVE ALL", "{older}");
        }
        assert_eq!(dialect("8.0.22").stop_replication(), "STOP REPLICA");
        for (stopped, mariadb, mysql) in [
            (None, Some("START SLAVE"), Some("START REPLICA")),
            (Some(Thread::Applier), Some("START SLAVE IO_THREAD"), Some("START REPLICA IO_THREAD")),
            (Some(Thread::Receiver), Some("START SLAVE SQL_THREAD"), Some("START REPLICA SQL_THREAD")),
            (Some(Thread::Both), None, None),
        ] {
            assert_eq!(dialect("10.11.6-MariaDB").start_but(stopped), mariadb);
            assert_eq!(dialect("8.4.2").start_but(stopped), mysql);
        }
        assert_eq!(dialect("8.0.36").binary_log_status(), "SHOW MASTER STATUS");
        assert_eq!(dialect("8.4.2").binary_log_status(), "SHOW BINARY LOG STATUS");
        assert_eq!(dialect("12.1.2-MariaDB").binary_log_status(), "SHOW MASTER STATUS");
        assert_eq!(dialect("8.0.22").start_receiving(), "START REPLICA IO_THREAD");
        assert_eq!(dialect("12.1.2-MariaDB").freeze(), "SET GLOBAL read_only = 'NO_LOCK_NO_ADMIN'");
        assert!(!dialect("11.8.2-MariaDB").read_only_binds_administrators());
        let protected = Source { protection: &protection, ..source.clone() };
        let last = dialect("8.4.2").demote(&protected).pop().unwrap();
        assert!(last.contains("SOURCE_SSL = 1, GET_SOURCE_PUBLIC_KEY = 1"), "{last}");
        assert!(dialect("10.11.6-MariaDB").repoint(&protected).contains("MASTER_SSL = 1"));
        let zstd = [("COMPRESSION_ALGORITHMS".to_owned(), "'zstd'".to_owned())];
        let compressed = Source { protection: &zstd, ..source.clone() };
        assert!(dialect("8.4.2").repoint(&compressed).contains("SOURCE_COMPRESSION_ALGORITHMS = 'zstd'"));
        assert!(!dialect("8.0.17").repoint(&compressed).contains("COMPRESSION"));
        let keeps = Source { login: None, ..source };
        assert!(!dialect("8.4.2").repoint(&keeps).contains("PASSWORD"));
    }
}
