//! A replica's channel: whom it follows, how far it is, how it protects its connection, and what it leaves
//! out.

use crate::Error;
use crate::connection::{Connection, Named};
use crate::dialect::Dialect;
use fleet::Thread;
use observe::without_statement;
use serde::Serialize;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Channel {
    /// `Connection_name`, `Channel_Name`; empty for the default one, which every statement means.
    pub name: String,
    pub host: String,
    pub port: u16,
    /// `server_id` of the source as it says itself; 0 before the first contact.
    pub source_id: u32,
    /// The account that reads.
    pub user: String,
    /// The receiving thread runs, and is connected.
    pub receiver_runs: bool,
    /// The applying thread runs.
    pub applier_runs: bool,
    /// Seconds behind by the server's own figure.
    pub seconds_behind: Option<u64>,
    /// Whether it goes by GTID.
    pub by_gtid: bool,
    /// The last error, or empty.
    pub last_error: String,
    /// The applying thread's, or empty.
    #[serde(skip)]
    pub applier_error: String,
    /// The receiving thread has lost its source and tries to reach it; one that was stopped does not try.
    pub receiver_tries: bool,
    /// What it has received, applied or not: `Gtid_IO_Pos`, `Retrieved_Gtid_Set`.
    pub received: String,
    /// How it protects its connection and how often it tries: options of `CHANGE MASTER` without their
    /// prefix, and values.
    #[serde(skip)]
    pub protection: Vec<(String, String)>,
    /// Settings that whoever follows next in this channel's place is not told, as `NAME = value`: they name
    /// the network of its own host, or an account that applies. `None` where the server does not say.
    #[serde(skip)]
    pub left_to_person: Option<Vec<String>>,
    /// What it leaves out, as `name = value`: filters of replication. Positions go on over what is left out,
    /// so nothing else tells that data are missing.
    pub filters: Vec<String>,
    /// Seconds that it waits on purpose before it applies (`SQL_Delay`).
    pub delay_s: u64,
}

/// A failover waits for what a replica has received. It does not wait longer than this for one that is late
/// on purpose.
const LONG_DELAY_S: u64 = 60;

impl Channel {
    /// Why what it applies is not the whole of its source; `None` when it is.
    pub(crate) fn leaves_out(&self) -> Option<String> {
        (!self.filters.is_empty())
            .then(|| format!("it leaves out what its filters say: {}", self.filters.join(", ")))
    }

    /// The same, or that it would be applied too late for a failover.
    pub(crate) fn withholds(&self) -> Option<String> {
        let late = || format!("it applies everything {} s late on purpose", self.delay_s);
        self.leaves_out().or_else(|| (self.delay_s > LONG_DELAY_S).then(late))
    }

    /// Whether its connection is encrypted; `None` where the server does not say.
    pub(crate) fn encrypts(&self) -> Option<bool> {
        let option = self.protection.iter().find(|(option, _)| option == "SSL");
        option.map(|(_, switch)| switch == "1")
    }

    /// The threads that somebody has stopped: they do not run, and no error says why. One that has lost its
    /// source is none of them.
    pub(crate) fn stopped_by_hand(&self) -> Option<Thread> {
        let receives = self.receiver_runs || self.receiver_tries;
        match (receives, self.applier_runs) {
            _ if !self.last_error.is_empty() => None,
            (true, true) => None,
            (true, false) => Some(Thread::Applier),
            (false, true) => Some(Thread::Receiver),
            (false, false) => Some(Thread::Both),
        }
    }

    /// The same where its source is dead. That the receiver alone stands says nothing then: it has given up,
    /// or a failover that was cut off has stopped it. None stops an applying thread but its candidate's.
    pub(crate) fn stopped_beside_the_dead(&self) -> Option<Thread> {
        if self.applier_runs || !self.applier_error.is_empty() {
            return None;
        }
        // An error that is not the applier's is one of reaching the source.
        let receives = self.receiver_runs || self.receiver_tries || !self.last_error.is_empty();
        Some(if receives { Thread::Applier } else { Thread::Both })
    }

    /// The seconds by which it applies later than it could, where it runs and waits on purpose.
    pub(crate) fn is_late_on_purpose(&self) -> Option<u64> {
        let runs = self.receiver_runs && self.applier_runs && self.last_error.is_empty();
        (runs && self.delay_s > 0).then_some(self.delay_s)
    }
}

pub(crate) async fn channels(
    conn: &mut Connection,
    dialect: Dialect,
    deadline: Duration,
) -> Result<Vec<Channel>, Error> {
    let rows = conn.ask(dialect.replication_status(), deadline).await?;
    Ok(rows.iter().map(channel).collect())
}

pub(super) fn channel(row: &Named) -> Channel {
    let text = |names: [&str; 2]| names.iter().find_map(|name| row.get(*name)).cloned().unwrap_or_default();
    let runs = |names| text(names).eq_ignore_ascii_case("yes");
    // "Preparing" of MariaDB: it has logged in at its source, and asks what it needs before it reads.
    let prepares = text(["replica_io_running", "slave_io_running"]).eq_ignore_ascii_case("preparing");
    let applier_error = without_statement(&text(["last_sql_error", "last_sql_error"])).to_owned();
    let errors = [text(["last_io_error", "last_io_error"]), applier_error.clone()];
    Channel {
        name: text(["channel_name", "connection_name"]),
        host: text(["source_host", "master_host"]),
        port: text(["source_port", "master_port"]).parse().unwrap_or(0),
        source_id: text(["source_server_id", "master_server_id"]).parse().unwrap_or(0),
        user: text(["source_user", "master_user"]),
        receiver_runs: prepares || runs(["replica_io_running", "slave_io_running"]),
        applier_runs: runs(["replica_sql_running", "slave_sql_running"]),
        seconds_behind: text(["seconds_behind_source", "seconds_behind_master"]).parse().ok(),
        by_gtid: match row.get("using_gtid") {
            Some(using) => !using.eq_ignore_ascii_case("no"),
            None => text(["auto_position", "auto_position"]) == "1",
        },
        applier_error,
        last_error: errors.into_iter().find(|error| !error.is_empty()).unwrap_or_default(),
        receiver_tries: text(["replica_io_running", "slave_io_running"]).eq_ignore_ascii_case("connecting"),
        received: text(["gtid_io_pos", "retrieved_gtid_set"]).replace(['\n', ' '], ""),
        protection: protection(row),
        left_to_person: row.contains_key("using_gtid").then(Vec::new),
        filters: filters(row),
        delay_s: text(["sql_delay", "sql_delay"]).parse().unwrap_or(0),
    }
}

/// Every column that begins so and says something: `Replicate_Do_DB`, `Replicate_Wild_Ignore_Table`,
/// `Replicate_Do_Domain_Ids` and whatever else versions have.
fn filters(row: &Named) -> Vec<String> {
    let names = |column: &str| {
        let rest = column.strip_prefix("replicate_")?;
        ["do_", "ignore_", "wild_", "rewrite_"].iter().any(|kind| rest.starts_with(kind)).then_some(())
    };
    let filter = |(column, value): (&String, &String)| {
        names(column)?;
        (!value.trim().is_empty()).then(|| format!("{column} = {value}"))
    };
    row.iter().filter_map(filter).collect()
}

/// What whoever follows next in this channel's place must be told too, or it connects unprotected, or not at
/// all.
fn protection(row: &Named) -> Vec<(String, String)> {
    let value = |name: &str| {
        let names = [format!("source_{name}"), format!("master_{name}")];
        names.iter().find_map(|name| row.get(name)).filter(|value| !value.is_empty())
    };
    let switch = |value: &String| if value.eq_ignore_ascii_case("no") { "0" } else { "1" }.to_owned();
    let mut options = Vec::new();
    if let Some(allowed) = value("ssl_allowed") {
        options.push(("SSL".to_owned(), switch(allowed)));
        if !allowed.eq_ignore_ascii_case("no") {
            let verify =
                value("ssl_verify_server_cert").map(|verify| ("SSL_VERIFY_SERVER_CERT", switch(verify)));
            options.extend(verify.map(|(name, value)| (name.to_owned(), value)));
            let files = [
                ("ssl_ca_file", "SSL_CA"),
                ("ssl_ca_path", "SSL_CAPATH"),
                ("ssl_cert", "SSL_CERT"),
                ("ssl_key", "SSL_KEY"),
                ("ssl_cipher", "SSL_CIPHER"),
                ("tls_version", "TLS_VERSION"),
            ];
            let file = |(column, option): (&str, &str)| {
                Some((option.to_owned(), crate::connection::quoted(value(column)?)))
            };
            options.extend(files.into_iter().filter_map(file));
        }
    }
    let path = row.get("source_public_key_path").or(row.get("master_public_key_path"));
    if let Some(path) = path.filter(|path| !path.is_empty()) {
        options.push(("PUBLIC_KEY_PATH".to_owned(), crate::connection::quoted(path)));
    }
    let seconds = value("connect_retry").or(row.get("connect_retry"));
    if let Some(seconds) = seconds.and_then(|seconds| seconds.parse::<u32>().ok()) {
        options.push(("CONNECT_RETRY".to_owned(), seconds.to_string()));
    }
    // MySQL gives up after that many attempts, ten by default from 8.4 on; MariaDB says its own elsewhere.
    if let Some(times) = value("retry_count").and_then(|times| times.parse::<u32>().ok()) {
        options.push(("RETRY_COUNT".to_owned(), times.to_string()));
    }
    if row.get("get_source_public_key").or(row.get("get_master_public_key")).is_some_and(|asks| asks == "1") {
        options.push(("GET_PUBLIC_KEY".to_owned(), "1".to_owned()));
    }
    options
}

/// Reads what MySQL shows of its channels beside their status, and how often a source that is idle says that
/// it is there. Where that cannot be read the channels go without.
pub(super) async fn read_settings(
    conn: &mut Connection,
    channels: &mut [Channel],
    dialect: Dialect,
    net_timeout: Option<f64>,
    deadline: Duration,
) {
    const ASK: &str = "SELECT c.*, a.* FROM performance_schema.replication_connection_configuration c \
        JOIN performance_schema.replication_applier_configuration a ON a.CHANNEL_NAME = c.CHANNEL_NAME";
    if dialect.is_mariadb() || channels.is_empty() {
        return;
    }
    let rows = conn.ask(ASK, deadline).await.unwrap_or_default();
    let bind = if dialect.0.mysql_from((8, 0, 23)) { "SOURCE_BIND" } else { "MASTER_BIND" };
    for channel in channels {
        let is_it = |row: &&Named| row.get("channel_name").map_or("", String::as_str) == channel.name;
        if let Some(row) = rows.iter().find(is_it) {
            settings(channel, row, bind, net_timeout);
        }
    }
}

fn settings(channel: &mut Channel, row: &Named, bind: &str, net_timeout: Option<f64>) {
    let value = |name: &str| row.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
    let quoted = crate::connection::quoted;
    let protection = &mut channel.protection;
    // SHOW SLAVE STATUS says the names of the CA's files in the place of these.
    for (column, option) in [("ssl_crl_file", "SSL_CRL"), ("ssl_crl_path", "SSL_CRLPATH")] {
        protection.extend(value(column).map(|path| (option.to_owned(), quoted(path))));
    }
    if let Some(suites) = value("tls_ciphersuites") {
        protection.push(("TLS_CIPHERSUITES".to_owned(), quoted(suites)));
    }
    if let Some(algorithms) = value("compression_algorithm").filter(|names| *names != "uncompressed") {
        protection.push(("COMPRESSION_ALGORITHMS".to_owned(), quoted(algorithms)));
        let level = value("zstd_compression_level").and_then(|level| level.parse::<u32>().ok());
        protection.extend(level.map(|level| ("ZSTD_COMPRESSION_LEVEL".to_owned(), level.to_string())));
    }
    protection.extend(heartbeat(value("heartbeat_interval"), net_timeout));
    let own = [
        (bind, value("network_interface")),
        ("NETWORK_NAMESPACE", value("network_namespace")),
        ("PRIVILEGE_CHECKS_USER", value("privilege_checks_user")),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some(format!("{name} = {}", value?)));
    channel.left_to_person = Some(own.collect());
}

/// Only one that is shorter than servers take by themselves, half of `replica_net_timeout`: longer ones are
/// left from another timeout, and the next to follow may have a shorter one of its own.
fn heartbeat(interval: Option<&str>, net_timeout: Option<f64>) -> Option<(String, String)> {
    let seconds = interval?.parse::<f64>().ok()?;
    (seconds > 0.0 && seconds * 2.0 < net_timeout?)
        .then(|| ("HEARTBEAT_PERIOD".to_owned(), format!("{seconds:.3}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_for_a_channel_is_told_to_the_next_but_for_what_is_of_its_host() {
        let row = |values: &[(&str, &str)]| -> Named {
            values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let status = [("source_ssl_allowed", "Yes"), ("source_tls_version", "TLSv1.3")];
        let mut read = channel(&row(&status));
        assert_eq!(read.left_to_person, None, "not read yet");
        let encrypts = |status: &[(&str, &str)]| channel(&row(status)).encrypts();
        assert_eq!((encrypts(&status), encrypts(&[])), (Some(true), None));
        assert_eq!(encrypts(&[("master_ssl_allowed", "No")]), Some(false));
        let plain = row(&[("compression_algorithm", "uncompressed"), ("heartbeat_interval", "30.000")]);
        settings(&mut read, &plain, "SOURCE_BIND", Some(60.0));
        let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read.protection, [option("SSL", "1"), option("TLS_VERSION", "'TLSv1.3'")]);
        assert_eq!(read.left_to_person, Some(Vec::new()));
        let set = row(&[
            ("compression_algorithm", "zstd"),
            ("zstd_compression_level", "7"),
            ("tls_ciphersuites", "TLS_AES_256_GCM_SHA384"),
            ("ssl_crl_file", "/etc/mysql/revoked.pem"),
            ("ssl_crl_path", ""),
            ("heartbeat_interval", "2.500"),
            ("network_interface", "10.0.0.7"),
            ("privilege_checks_user", "'applier'@'%'"),
        ]);
        settings(&mut read, &set, "SOURCE_BIND", Some(60.0));
        let expected = [
            option("SSL_CRL", "'/etc/mysql/revoked.pem'"),
            option("TLS_CIPHERSUITES", "'TLS_AES_256_GCM_SHA384'"),
            option("COMPRESSION_ALGORITHMS", "'zstd'"),
            option("ZSTD_COMPRESSION_LEVEL", "7"),
            option("HEARTBEAT_PERIOD", "2.500"),
        ];
        assert_eq!(read.protection[2..], expected);
        let left = read.left_to_person.unwrap();
        assert_eq!(left, ["SOURCE_BIND = 10.0.0.7", "PRIVILEGE_CHECKS_USER = 'applier'@'%'"]);
        assert_eq!(heartbeat(Some("30"), Some(8.0)), None, "left from another timeout");
        assert_eq!(heartbeat(Some("0.000"), Some(60.0)), None);
    }

    #[test]
    fn threads_that_somebody_stopped_are_told_from_those_that_failed() {
        let stopped = |receiver: &str, applier: &str, error: &str| {
            let row =
                [("slave_io_running", receiver), ("slave_sql_running", applier), ("last_sql_error", error)];
            channel(&row.map(|(name, value)| (name.to_owned(), value.to_owned())).into()).stopped_by_hand()
        };
        assert_eq!(stopped("Yes", "Yes", ""), None);
        assert_eq!(stopped("Connecting", "Yes", ""), None);
        assert_eq!(stopped("Preparing", "Yes", ""), None);
        assert_eq!(stopped("Yes", "No", ""), Some(Thread::Applier));
        assert_eq!(stopped("No", "Yes", ""), Some(Thread::Receiver));
        assert_eq!(stopped("No", "No", ""), Some(Thread::Both));
        assert_eq!(stopped("Yes", "No", "Duplicate entry '1'"), None);
    }

    #[test]
    fn what_an_applier_complains_of_is_told_without_the_statement_that_failed() {
        let why = "Error 'Duplicate entry' on query. Default database: 'app'.";
        let error = format!("{why} Query: 'INSERT INTO t VALUES (''secret'')'");
        let read = channel(&[("last_sql_error".to_owned(), error)].into());
        assert_eq!((read.applier_error.as_str(), read.last_error.as_str()), (why, why));
    }

    #[test]
    fn beside_a_dead_source_an_applier_that_somebody_stopped_is_told_from_what_a_failover_stops() {
        let stopped = |receiver: &str, applier: &str, error: (&str, &str)| {
            let row = [("slave_io_running", receiver), ("slave_sql_running", applier), error];
            let row = row.map(|(name, value)| (name.to_owned(), value.to_owned()));
            channel(&row.into()).stopped_beside_the_dead()
        };
        let (none, lost) = (("last_io_error", ""), ("last_io_error", "error reconnecting to master"));
        assert_eq!(stopped("Connecting", "Yes", lost), None);
        assert_eq!(stopped("No", "Yes", none), None, "the fence of a failover");
        assert_eq!(stopped("Connecting", "No", lost), Some(Thread::Applier));
        assert_eq!(stopped("No", "No", lost), Some(Thread::Applier), "it has given up");
        assert_eq!(stopped("No", "No", none), Some(Thread::Both));
        assert_eq!(stopped("Connecting", "No", ("last_sql_error", "Duplicate entry '1'")), None);
    }

    #[test]
    fn filters_and_delays_of_a_replica_are_read() {
        let row = |extra: &[(&str, &str)]| {
            let all = [("master_host", "db1"), ("replicate_do_db", ""), ("sql_delay", "0")];
            let all = all.iter().chain(extra).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            channel(&all.collect())
        };
        assert_eq!(row(&[]).withholds(), None);
        assert_eq!(row(&[("replicate_ignore_server_ids", "")]).withholds(), None);
        let filtered = row(&[("replicate_wild_ignore_table", "app.log%"), ("sql_delay", "60")]);
        assert!(filtered.withholds().unwrap().contains("replicate_wild_ignore_table = app.log%"));
        let late = row(&[("sql_delay", "3600")]);
        assert_eq!(late.withholds().unwrap(), "it applies everything 3600 s late on purpose");
        assert_eq!(late.is_late_on_purpose(), None, "its threads stand");
        let runs = [("sql_delay", "3600"), ("slave_io_running", "Yes"), ("slave_sql_running", "Yes")];
        assert_eq!(row(&runs).is_late_on_purpose(), Some(3600));
        assert_eq!((late.leaves_out(), row(&[("sql_delay", "60")]).withholds()), (None, None));
    }
}
