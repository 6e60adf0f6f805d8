//! A replica's channel: whom it follows, how far it is, how it protects its connection, and what it leaves
//! out.

use crate::Error;
use crate::connection::{Connection, Named};
use crate::dialect::Dialect;
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
    /// The receiving thread runs.
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
    let errors = [text(["last_io_error", "last_io_error"]), text(["last_sql_error", "last_sql_error"])];
    Channel {
        name: text(["channel_name", "connection_name"]),
        host: text(["source_host", "master_host"]),
        port: text(["source_port", "master_port"]).parse().unwrap_or(0),
        source_id: text(["source_server_id", "master_server_id"]).parse().unwrap_or(0),
        user: text(["source_user", "master_user"]),
        receiver_runs: runs(["replica_io_running", "slave_io_running"]),
        applier_runs: runs(["replica_sql_running", "slave_sql_running"]),
        seconds_behind: text(["seconds_behind_source", "seconds_behind_master"]).parse().ok(),
        by_gtid: match row.get("using_gtid") {
            Some(using) => !using.eq_ignore_ascii_case("no"),
            None => text(["auto_position", "auto_position"]) == "1",
        },
        applier_error: text(["last_sql_error", "last_sql_error"]),
        last_error: errors.into_iter().find(|error| !error.is_empty()).unwrap_or_default(),
        receiver_tries: text(["replica_io_running", "slave_io_running"]).eq_ignore_ascii_case("connecting"),
        received: text(["gtid_io_pos", "retrieved_gtid_set"]).replace(['\n', ' '], ""),
        protection: protection(row),
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

#[cfg(test)]
mod tests {
    use super::*;

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
