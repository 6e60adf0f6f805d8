//! `SHOW REPLICA STATUS` and its kin in every spelling: where a server replicates from, and who replicates
//! from it.

use crate::rows::{Row, Rows, client_host};
use fleet::{Address, FilePosition};
use std::collections::BTreeSet;

/// One channel a server replicates through.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Channel {
    /// Empty for the default channel.
    pub(crate) name: String,
    /// The source, as the replica reaches it.
    pub(crate) source: Address,
    /// The source's `server_id`; 0 until it connected once.
    pub(crate) source_id: u32,
    /// The source's uuid (MySQL).
    pub(crate) source_uuid: Option<String>,
    pub(crate) receiver: Runs,
    pub(crate) applier: Runs,
    /// Last error of each thread, empty when none; without the statement that failed.
    pub(crate) receiver_error: String,
    pub(crate) applier_error: String,
    /// The server's own figure, seconds.
    pub(crate) seconds_behind: Option<u64>,
    /// How far it has applied, in the files of its source.
    pub(crate) executed: Option<FilePosition>,
    /// Delay by configuration, seconds.
    pub(crate) delay: u64,
    /// MariaDB's `Using_Gtid: Current_Pos`: what it wrote itself counts as applied.
    pub(crate) counts_own_writes: bool,
    /// MariaDB domains that never come through here.
    pub(crate) domains: Domains,
}

/// Whether a replication thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    Yes,
    /// Started, but not connected to the source.
    Connecting,
    No,
    /// The server does not say.
    Unknown,
}

/// Which replication domains a channel takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Domains {
    /// Only these, if any.
    pub(crate) only: BTreeSet<u32>,
    pub(crate) ignored: BTreeSet<u32>,
}

/// A replica that a server told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegisteredReplica {
    /// Its address; `None` when it says none (`report_host` is not set).
    pub(crate) address: Option<Address>,
    pub(crate) port: u16,
    pub(crate) server_id: u32,
    /// Its uuid (MySQL).
    pub(crate) uuid: Option<String>,
    /// Guessed from a session rather than told.
    pub(crate) guessed: bool,
}

impl Channel {
    /// The same without what only a present answer can say.
    pub(crate) fn as_it_was(&self) -> Self {
        Self {
            receiver: Runs::Unknown,
            applier: Runs::Unknown,
            receiver_error: String::new(),
            applier_error: String::new(),
            seconds_behind: None,
            executed: None,
            ..self.clone()
        }
    }
}

impl Domains {
    /// Whether changes of a domain come through.
    pub(crate) fn take(&self, domain: u32) -> bool {
        !self.ignored.contains(&domain) && (self.only.is_empty() || self.only.contains(&domain))
    }
}

/// Reads the channels. A channel without a source host is none (MySQL keeps an empty row after a reset).
pub(crate) fn channels(rows: &Rows) -> Vec<Channel> {
    rows.iter().filter_map(channel).collect()
}

fn channel(row: Row<'_>) -> Option<Channel> {
    let host = row.filled(&["source_host", "master_host"])?;
    let port = row.parse(&["source_port", "master_port"]).unwrap_or(fleet::DEFAULT_PORT);
    let error = |names: &[&str]| without_statement(row.text(names).unwrap_or_default()).trim().to_owned();
    let file = row.filled(&["relay_source_log_file", "relay_master_log_file"]);
    let offset = row.parse(&["exec_source_log_pos", "exec_master_log_pos"]);
    let domains = |name: &str| {
        row.filled(&[name])
            .map(|list| list.split(',').filter_map(|d| d.trim().parse().ok()).collect())
            .unwrap_or_default()
    };
    Some(Channel {
        name: row.text(&["connection_name", "channel_name"]).unwrap_or_default().to_owned(),
        source: Address::tcp(host, port),
        source_id: row.parse(&["source_server_id", "master_server_id"]).unwrap_or(0),
        source_uuid: row.filled(&["source_uuid", "master_uuid"]).map(str::to_owned),
        receiver: runs(row, &["replica_io_running", "slave_io_running"]),
        applier: runs(row, &["replica_sql_running", "slave_sql_running"]),
        receiver_error: error(&["last_io_error"]),
        applier_error: error(&["last_sql_error"]),
        seconds_behind: row.parse(&["seconds_behind_source", "seconds_behind_master"]),
        executed: file.zip(offset).map(|(file, offset)| FilePosition::new(file, offset)),
        delay: row.parse(&["sql_delay"]).unwrap_or(0),
        counts_own_writes: row.filled(&["using_gtid"]).is_some_and(|u| u.eq_ignore_ascii_case("Current_Pos")),
        domains: Domains {
            only: domains("replicate_do_domain_ids"),
            ignored: domains("replicate_ignore_domain_ids"),
        },
    })
}

/// Why a replication thread has stopped, by a server's word, without the statement that failed: its values
/// are somebody's data, and the words are shown to whoever may see a page, and logged.
pub fn without_statement(error: &str) -> &str {
    error.split_once(" Query: '").map_or(error, |(why, _)| why)
}

fn runs(row: Row<'_>, names: &[&str]) -> Runs {
    match row.text(names) {
        Some(text) if text.eq_ignore_ascii_case("yes") => Runs::Yes,
        Some(text) if text.eq_ignore_ascii_case("no") => Runs::No,
        // "Connecting", MariaDB's "Preparing": started and not there yet.
        Some(_) => Runs::Connecting,
        None => Runs::No,
    }
}

/// Reads who registered as a replica. Whoever registers with port 0 serves nobody: a client that reads the
/// binary log (change data capture), not a server.
pub(crate) fn registered_replicas(rows: &Rows) -> Vec<RegisteredReplica> {
    rows.iter()
        .filter(|row| row.parse::<u16>(&["port"]) != Some(0))
        .map(|row| {
            let port = row.parse(&["port"]).unwrap_or(fleet::DEFAULT_PORT);
            RegisteredReplica {
                address: row.filled(&["host"]).map(|host| Address::tcp(host, port)),
                port,
                server_id: row.parse(&["server_id"]).unwrap_or(0),
                uuid: row.filled(&["replica_uuid", "slave_uuid"]).map(str::to_owned),
                guessed: false,
            }
        })
        .collect()
}

/// Reads the hosts that sessions reading the binary log come from: addresses only, without ports of their
/// servers.
pub(crate) fn dump_hosts(rows: &Rows) -> BTreeSet<String> {
    rows.iter().filter_map(|row| row.filled(&["host"])).map(client_host).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(pairs: &[(&str, &str)]) -> Rows {
        let columns = pairs.iter().map(|(name, _)| (*name).to_owned());
        Rows::new(columns, vec![pairs.iter().map(|(_, value)| Some((*value).to_owned())).collect()])
    }

    #[test]
    fn both_spellings_mean_the_same() {
        let old = rows(&[
            ("Master_Host", "db1"),
            ("Master_Port", "3307"),
            ("Slave_IO_Running", "Connecting"),
            ("Slave_SQL_Running", "Yes"),
            ("Relay_Master_Log_File", "bin.000001"),
            ("Exec_Master_Log_Pos", "17"),
            ("Seconds_Behind_Master", "3"),
            ("Using_Gtid", "Slave_Pos"),
            ("Replicate_Ignore_Domain_Ids", "3, 4"),
        ]);
        let new = rows(&[
            ("Source_Host", "db1"),
            ("Source_Port", "3307"),
            ("Replica_IO_Running", "Connecting"),
            ("Replica_SQL_Running", "Yes"),
            ("Relay_Source_Log_File", "bin.000001"),
            ("Exec_Source_Log_Pos", "17"),
            ("Seconds_Behind_Source", "3"),
        ]);
        let (mut old, new) = (channels(&old), channels(&new));
        assert!(!old[0].domains.take(3) && old[0].domains.take(0));
        old[0].domains = Domains::default();
        assert_eq!(old, new);
        assert_eq!(new[0].receiver, Runs::Connecting);
    }

    #[test]
    fn why_a_thread_has_stopped_is_told_without_the_statement_that_failed() {
        let read = |why: &str| {
            let row = [("Master_Host", "db1"), ("Slave_SQL_Running", "No"), ("Last_SQL_Error", why)];
            channels(&rows(&row)).remove(0).applier_error
        };
        let why = "Error 'Duplicate entry '1' for key 'PRIMARY'' on query. Default database: 'app'.";
        assert_eq!(read(&format!("{why} Query: 'INSERT INTO t VALUES (1, ''secret'')'")), why);
        assert_eq!(read("Could not execute Write_rows_v1 event"), "Could not execute Write_rows_v1 event");
    }

    #[test]
    fn a_row_without_a_source_is_no_channel() {
        assert!(channels(&rows(&[("Source_Host", ""), ("Replica_IO_Running", "No")])).is_empty());
    }

    #[test]
    fn a_reader_of_the_binary_log_that_registers_with_port_0_is_no_server() {
        let of = |port: &str| {
            registered_replicas(&rows(&[("Server_id", "9"), ("Host", "10.0.0.9"), ("Port", port)]))
        };
        assert_eq!(of("0"), []);
        assert_eq!(of("3307")[0].address, Some(Address::tcp("10.0.0.9", 3307)));
        for column in ["Replica_UUID", "Slave_UUID"] {
            let told = registered_replicas(&rows(&[("Server_id", "9"), ("Host", "db9"), (column, "u-9")]));
            assert_eq!(told[0].uuid.as_deref(), Some("u-9"));
        }
    }

    #[test]
    fn client_hosts_lose_their_port_only() {
        for (text, host) in [
            ("10.0.0.1:5000", "10.0.0.1"),
            ("app.example:1", "app.example"),
            ("localhost", "localhost"),
            ("fe80::1", "fe80::1"),
            ("10.0.0.1", "10.0.0.1"),
        ] {
            assert_eq!(client_host(text), host);
        }
    }
}
