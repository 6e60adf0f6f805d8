//! What is read of a server before its role changes. Reading is one function ([`read`]), what it means is
//! [`crate::check`].

use crate::Error;
use crate::connection::{BRIEFLY, Connection, Named};
use crate::dialect::Dialect;
use config::Credentials;
use fleet::{Address, GtidPosition, GtidSet, ServerName, Version};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// What people call it.
    pub server: ServerName,
    pub reach: Address,
    /// Flavour and numbers.
    #[serde(skip)]
    pub version: Version,
    /// `server_id`.
    pub server_id: u32,
    #[serde(skip)]
    pub variables: BTreeMap<String, String>,
    #[serde(skip)]
    pub status: BTreeMap<String, String>,
    /// What it replicates from.
    pub channels: Vec<Channel>,
    /// Sessions that would delay a freeze, longest first.
    pub blockers: Vec<Blocker>,
    /// Sessions that hold a lock for which a freeze waits, where the server says so.
    pub lock_holders: Vec<Blocker>,
    /// Prepared XA transactions.
    pub prepared: Vec<String>,
    /// Enabled events that it runs itself: schema and name.
    pub events: Vec<(String, String)>,
    /// Accounts (`user@host`), where the account may read them.
    pub accounts: Option<BTreeSet<String>>,
    /// How far its clock is ahead of ours, milliseconds.
    pub clock_ahead_ms: i64,
    /// What it has, in its own words.
    pub position: String,
    /// What its binary log no longer has; `None` when that cannot be read.
    pub purged: Option<String>,
    /// Servers that read its binary log: addresses as they registered.
    pub replicas: Vec<(String, u16)>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Channel {
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
    /// The receiving thread has lost its source and tries to reach it; one that was stopped does not try.
    pub receiver_tries: bool,
    /// What it has received, applied or not: `Gtid_IO_Pos`, `Retrieved_Gtid_Set`.
    pub received: String,
    /// How it protects its connection: options of `CHANGE MASTER` without their prefix, and values.
    #[serde(skip)]
    pub protection: Vec<(String, String)>,
}

/// A session with an open transaction or a lock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Blocker {
    /// Its number at the server.
    pub session: u64,
    /// Account and host.
    pub who: String,
    /// What it does, without literals.
    pub what: String,
    /// How long, seconds.
    pub seconds: u64,
}

impl Facts {
    /// A variable, by the first of these names that exists.
    pub fn variable(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.variables.get(*name)).map(String::as_str)
    }

    /// Whether a switch is on; `None` when the server does not have it.
    pub fn is_on(&self, names: &[&str]) -> Option<bool> {
        let value = self.variable(names)?;
        Some(!["0", "off", "no", ""].contains(&value.to_ascii_lowercase().as_str()))
    }

    /// Whether it refuses ordinary writes.
    pub fn refuses_writes(&self) -> bool {
        self.is_on(&["read_only"]) == Some(true) || self.is_on(&["super_read_only"]) == Some(true)
    }

    pub fn counter(&self, name: &str) -> Option<u64> {
        self.status.get(&name.to_ascii_lowercase())?.parse().ok()
    }

    /// Whether semi-sync is switched on as a source.
    pub fn semi_sync_source(&self) -> bool {
        self.is_on(&["rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled"]) == Some(true)
    }

    /// Transactions of `self` that `other` does not have, in words; `None` when there are none. Of the two
    /// positions that of `self` must have been read first, or what `other` wrote meanwhile looks as if it
    /// came from here.
    pub fn lacking_in(&self, other: &Self) -> Option<String> {
        beyond(self.version.flavour, &self.position, &other.position)
    }

    pub(crate) fn dialect(&self) -> Dialect {
        Dialect(self.version)
    }
}

/// What is in the position `own` and not in `theirs`, in words; `None` when nothing is.
pub(crate) fn beyond(flavour: fleet::Flavour, own: &str, theirs: &str) -> Option<String> {
    if flavour == fleet::Flavour::MySql {
        let (own, theirs): (GtidSet, GtidSet) = (own.parse().ok()?, theirs.parse().ok()?);
        let errant = own.minus(&theirs);
        return (!errant.is_empty()).then(|| errant.to_string());
    }
    let (own, theirs): (GtidPosition, GtidPosition) = (own.parse().ok()?, theirs.parse().ok()?);
    let beyond = own.only(|domain| {
        let reached = theirs.domain(domain).map_or(0, |last| last.sequence);
        own.domain(domain).is_some_and(|last| last.sequence > reached)
    });
    (!beyond.is_empty()).then(|| beyond.to_string())
}

/// Reads a server.
///
/// # Errors
/// When it cannot be reached, or a statement that everything depends on is refused.
pub async fn read(
    server: &ServerName,
    reach: &Address,
    who: &Credentials,
    deadline: Duration,
) -> Result<Facts, Error> {
    let mut conn = Connection::open(server, reach, who, deadline, BRIEFLY).await?;
    let facts = read_from(&mut conn, reach, deadline).await;
    conn.close().await;
    facts
}

async fn read_from(conn: &mut Connection, reach: &Address, deadline: Duration) -> Result<Facts, Error> {
    let server = conn.server.clone();
    let refused = |why: String| Error::Refused { server: server.clone(), why };
    let version = conn.scalar("SELECT @@version", deadline).await?.unwrap_or_default();
    let version: Version = version.parse().map_err(|error| refused(format!("{error}")))?;
    let dialect = Dialect(version);
    // The position comes first: whoever compares it with a source reads the source later.
    let position = conn.scalar(dialect.position(), deadline).await?.unwrap_or_default().replace('\n', "");
    let variables = pairs(conn.ask("SHOW GLOBAL VARIABLES", deadline).await?);
    let status = pairs(conn.ask("SHOW GLOBAL STATUS", deadline).await?);
    let channels = channels(conn, dialect, deadline).await?;
    let before = now_ms();
    let theirs = conn.scalar("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000 AS SIGNED)", deadline).await?;
    let ours = before.midpoint(now_ms());
    Ok(Facts {
        server: server.clone(),
        reach: reach.clone(),
        server_id: variables.get("server_id").and_then(|id| id.parse().ok()).unwrap_or(0),
        channels,
        blockers: blockers(conn, deadline).await,
        lock_holders: lock_holders(conn, dialect, deadline).await,
        prepared: conn
            .ask("XA RECOVER", deadline)
            .await
            .unwrap_or_default()
            .iter()
            .map(|row| row.get("data").cloned().unwrap_or_default())
            .collect(),
        events: events(conn, deadline).await,
        accounts: accounts(conn, deadline).await,
        clock_ahead_ms: theirs.and_then(|ms| ms.parse::<i64>().ok()).map_or(0, |theirs| theirs - ours),
        replicas: replicas(conn, dialect, deadline).await,
        purged: purged(conn, dialect, deadline).await,
        position,
        version,
        variables,
        status,
    })
}

/// Open transactions and locks at this moment, longest first; our own sessions are left out. Empty where it
/// cannot be asked.
pub(crate) async fn blockers(conn: &mut Connection, deadline: Duration) -> Vec<Blocker> {
    const ASK: &str = "SELECT p.id AS id, CONCAT(p.user, '@', p.host) AS who, \
        CONCAT(p.command, COALESCE(CONCAT(', ', p.state), '')) AS state, \
        CAST(COALESCE(TIMESTAMPDIFF(SECOND, t.trx_started, NOW()), p.time) AS UNSIGNED) AS seconds, \
        t.trx_id IS NOT NULL AS open \
        FROM information_schema.PROCESSLIST p \
        LEFT JOIN information_schema.INNODB_TRX t ON t.trx_mysql_thread_id = p.id \
        WHERE p.id <> CONNECTION_ID() AND p.user NOT IN ('system user', 'event_scheduler') \
        AND p.command NOT LIKE 'Binlog Dump%' AND (t.trx_id IS NOT NULL OR p.command NOT IN ('Sleep', 'Daemon')) \
        ORDER BY seconds DESC LIMIT 50";
    let rows = conn.ask(ASK, deadline).await.unwrap_or_default();
    let blocker = |row: &Named| {
        let open = row.get("open").is_some_and(|open| open == "1");
        let state = row.get("state").cloned().unwrap_or_default();
        Some(Blocker {
            session: row.get("id")?.parse().ok()?,
            who: row.get("who").cloned().unwrap_or_default(),
            what: if open { format!("an open transaction ({state})") } else { state },
            seconds: row.get("seconds").and_then(|seconds| seconds.parse().ok()).unwrap_or(0),
        })
    };
    rows.iter().filter_map(blocker).collect()
}

/// Transactions that are open at this moment, longest first; those of replication threads are not counted.
pub(crate) async fn open_transactions(
    conn: &mut Connection,
    deadline: Duration,
) -> Result<Vec<Blocker>, Error> {
    const ASK: &str = "SELECT t.trx_mysql_thread_id AS id, COALESCE(CONCAT(p.user, '@', p.host), '') AS who, \
        CAST(TIMESTAMPDIFF(SECOND, t.trx_started, NOW()) AS UNSIGNED) AS seconds \
        FROM information_schema.INNODB_TRX t \
        LEFT JOIN information_schema.PROCESSLIST p ON p.id = t.trx_mysql_thread_id \
        WHERE t.trx_mysql_thread_id <> CONNECTION_ID() AND COALESCE(p.user, '') <> 'system user' \
        AND t.trx_mysql_thread_id > 0 ORDER BY t.trx_started LIMIT 50";
    let rows = conn.ask(ASK, deadline).await?;
    let open = |row: &Named| {
        Some(Blocker {
            session: row.get("id")?.parse().ok()?,
            who: row.get("who").cloned().unwrap_or_default(),
            what: "an open transaction".to_owned(),
            seconds: row.get("seconds").and_then(|seconds| seconds.parse().ok()).unwrap_or(0),
        })
    };
    Ok(rows.iter().filter_map(open).collect())
}

/// Sessions of clients that have changed something and not committed it, or wait for a global lock to change
/// something.
pub(crate) async fn queued_writes(conn: &mut Connection, deadline: Duration) -> Result<Vec<Blocker>, Error> {
    const ASK: &str = "SELECT p.id AS id, CONCAT(p.user, '@', p.host) AS who, COALESCE(p.state, '') AS what, \
        p.time AS seconds FROM information_schema.PROCESSLIST p \
        LEFT JOIN information_schema.INNODB_TRX t ON t.trx_mysql_thread_id = p.id \
        WHERE p.id <> CONNECTION_ID() AND p.user NOT IN ('system user', 'event_scheduler') \
        AND (t.trx_rows_modified > 0 OR p.state LIKE 'Waiting for%backup lock%' \
        OR p.state LIKE 'Waiting for global read lock%' OR p.state LIKE 'Waiting for commit lock%')";
    let rows = conn.ask(ASK, deadline).await?;
    let queued = |row: &Named| {
        Some(Blocker {
            session: row.get("id")?.parse().ok()?,
            who: row.get("who").cloned().unwrap_or_default(),
            what: row.get("what").cloned().unwrap_or_default(),
            seconds: row.get("seconds").and_then(|seconds| seconds.parse().ok()).unwrap_or(0),
        })
    };
    Ok(rows.iter().filter_map(queued).collect())
}

async fn events(conn: &mut Connection, deadline: Duration) -> Vec<(String, String)> {
    let ask =
        "SELECT EVENT_SCHEMA AS s, EVENT_NAME AS n FROM information_schema.EVENTS WHERE STATUS = 'ENABLED'";
    let rows = conn.ask(ask, deadline).await.unwrap_or_default();
    rows.into_iter().filter_map(|mut row| Some((row.remove("s")?, row.remove("n")?))).collect()
}

async fn accounts(conn: &mut Connection, deadline: Duration) -> Option<BTreeSet<String>> {
    let ask = "SELECT CONCAT(user, '@', host) AS account FROM mysql.user";
    let rows = conn.ask(ask, deadline).await.ok()?;
    Some(rows.into_iter().filter_map(|mut row| row.remove("account")).collect())
}

/// On MariaDB the position at which the oldest log begins.
async fn purged(conn: &mut Connection, dialect: Dialect, deadline: Duration) -> Option<String> {
    let ask = if dialect.is_mariadb() {
        let logs = conn.ask("SHOW BINARY LOGS", deadline).await.ok()?;
        let oldest = logs.first()?.get("log_name")?;
        format!("SELECT BINLOG_GTID_POS({}, 4)", crate::connection::quoted(oldest))
    } else {
        "SELECT @@GLOBAL.gtid_purged".to_owned()
    };
    // MariaDB answers NULL where it cannot tell.
    Some(conn.scalar(&ask, deadline).await.ok()??.replace(['\n', ' '], ""))
}

/// Sessions that hold a lock for which the freeze would wait, whatever they do now. Without
/// `performance_schema` (MySQL) or `metadata_lock_info` (MariaDB) nobody can say.
async fn lock_holders(conn: &mut Connection, dialect: Dialect, deadline: Duration) -> Vec<Blocker> {
    const MYSQL: &str = "SELECT t.PROCESSLIST_ID AS id, CONCAT(t.PROCESSLIST_USER, '@', t.PROCESSLIST_HOST) AS who, \
        m.OBJECT_TYPE AS kind, t.PROCESSLIST_TIME AS seconds FROM performance_schema.metadata_locks m \
        JOIN performance_schema.threads t ON t.THREAD_ID = m.OWNER_THREAD_ID WHERE m.LOCK_STATUS = 'GRANTED' \
        AND t.PROCESSLIST_ID <> CONNECTION_ID() AND ((m.OBJECT_TYPE IN ('GLOBAL', 'COMMIT', 'BACKUP LOCK') \
        AND m.LOCK_TYPE = 'SHARED') OR m.LOCK_TYPE = 'SHARED_NO_READ_WRITE')";
    const MARIADB: &str = "SELECT l.THREAD_ID AS id, CONCAT(p.USER, '@', p.HOST) AS who, l.LOCK_TYPE AS kind, \
        p.TIME AS seconds FROM information_schema.METADATA_LOCK_INFO l \
        JOIN information_schema.PROCESSLIST p ON p.ID = l.THREAD_ID WHERE p.ID <> CONNECTION_ID() \
        AND (l.LOCK_MODE LIKE 'MDL_BACKUP_FTWRL%' OR l.LOCK_MODE LIKE 'MDL_BACKUP_WAIT%' \
        OR l.LOCK_MODE = 'MDL_BACKUP_START' OR l.LOCK_MODE = 'MDL_SHARED_NO_READ_WRITE')";
    let ask = if dialect.is_mariadb() { MARIADB } else { MYSQL };
    let rows = conn.ask(ask, deadline).await.unwrap_or_default();
    let holder = |row: &Named| {
        Some(Blocker {
            session: row.get("id")?.parse().ok()?,
            who: row.get("who").cloned().unwrap_or_default(),
            what: format!(
                "holds a lock ({})",
                row.get("kind").map_or("", String::as_str).to_ascii_lowercase()
            ),
            seconds: row.get("seconds").and_then(|seconds| seconds.parse().ok()).unwrap_or(0),
        })
    };
    rows.iter().filter_map(holder).collect()
}

async fn replicas(conn: &mut Connection, dialect: Dialect, deadline: Duration) -> Vec<(String, u16)> {
    let ask = if dialect.0.mysql_from((8, 0, 22)) { "SHOW REPLICAS" } else { "SHOW SLAVE HOSTS" };
    let rows = conn.ask(ask, deadline).await.unwrap_or_default();
    let replica = |row: &Named| Some((row.get("host")?.clone(), row.get("port")?.parse().ok()?));
    rows.iter().filter_map(replica).collect()
}

pub(crate) async fn channels(
    conn: &mut Connection,
    dialect: Dialect,
    deadline: Duration,
) -> Result<Vec<Channel>, Error> {
    let rows = conn.ask(dialect.replication_status(), deadline).await?;
    Ok(rows.iter().map(channel).collect())
}

fn channel(row: &Named) -> Channel {
    let text = |names: [&str; 2]| names.iter().find_map(|name| row.get(*name)).cloned().unwrap_or_default();
    let runs = |names| text(names).eq_ignore_ascii_case("yes");
    let errors = [text(["last_io_error", "last_io_error"]), text(["last_sql_error", "last_sql_error"])];
    Channel {
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
        last_error: errors.into_iter().find(|error| !error.is_empty()).unwrap_or_default(),
        receiver_tries: text(["replica_io_running", "slave_io_running"]).eq_ignore_ascii_case("connecting"),
        received: text(["gtid_io_pos", "retrieved_gtid_set"]).replace(['\n', ' '], ""),
        protection: protection(row),
    }
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
    if row.get("get_source_public_key").or(row.get("get_master_public_key")).is_some_and(|asks| asks == "1") {
        options.push(("GET_PUBLIC_KEY".to_owned(), "1".to_owned()));
    }
    options
}

fn pairs(rows: Vec<Named>) -> BTreeMap<String, String> {
    let pair = |mut row: Named| {
        let name = row.remove("variable_name")?;
        Some((name.to_ascii_lowercase(), row.remove("value").unwrap_or_default()))
    };
    rows.into_iter().filter_map(pair).collect()
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
