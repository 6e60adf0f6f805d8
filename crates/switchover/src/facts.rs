//! What is read of a server before its role changes. Reading is one function ([`read`]), what it means is
//! [`crate::check`].

mod channel;
mod events;
mod grants;
mod purged;
mod schemas;

use crate::Error;
use crate::connection::{BRIEFLY, Connection, Named};
use crate::dialect::Dialect;
pub use channel::Channel;
pub(crate) use channel::channels;
use config::Credentials;
pub(crate) use events::{disabled as disabled_events, enabled as enabled_events};
use fleet::{Address, GtidPosition, GtidSet, ServerName, Version};
pub(crate) use grants::{OwnGrants, read_own_grants};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// What people call it.
    pub server: ServerName,
    pub reach: Address,
    /// The rule of the configuration by which routers never pick it.
    pub reserved: Option<String>,
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
    /// Sessions that would delay a freeze, longest first; `None` where they cannot be read.
    pub blockers: Option<Vec<Blocker>>,
    /// Sessions that hold a lock for which a freeze waits; `None` where the server does not say.
    pub lock_holders: Option<Vec<Blocker>>,
    /// Prepared XA transactions; `None` where they cannot be read.
    pub prepared: Option<Vec<String>>,
    /// Enabled events that it runs itself; `None` where the account may not see them all.
    pub events: Option<Vec<ScheduledEvent>>,
    /// Events that it does not run because it is a replica; `None` as above. A replica calls them so whether
    /// their source runs them or has them disabled.
    pub replica_side_events: Option<Vec<ScheduledEvent>>,
    /// Our own account there (`user@host`), and whether it may name another one as the definer of an event;
    /// `None` where the server does not say.
    #[serde(skip)]
    pub may_set_definer: Option<(String, bool)>,
    /// What our own account may do there; `None` as above.
    #[serde(skip)]
    pub(crate) own_grants: Option<OwnGrants>,
    /// Accounts (`user@host`), where the account may read them, each with a digest of its privileges and
    /// its authentication; `None` for one whose privileges cannot be read.
    #[serde(skip)]
    pub accounts: Option<BTreeMap<String, Option<u64>>>,
    /// Room where it writes; `None` where the server does not say.
    pub disks: Option<Vec<DiskRoom>>,
    /// How far its clock is ahead of ours, milliseconds.
    pub clock_ahead_ms: i64,
    /// What it has, in its own words.
    pub position: String,
    /// What its binary log no longer has; `None` when that cannot be read.
    pub purged: Option<String>,
    /// Databases that it leaves out of its binary log, as `name = value`; `None` as above.
    #[serde(skip)]
    pub binary_log_filters: Option<Vec<String>>,
    /// Schemas that it keeps read-only by itself; `None` as above.
    #[serde(skip)]
    pub read_only_schemas: Option<Vec<String>>,
    /// Servers that read its binary log: addresses as they registered.
    pub replicas: Vec<(String, u16)>,
}

/// Room of a file system in which a server writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiskRoom {
    /// What is written there: `data`, `binary log`, `relay log`, `temporary files`.
    pub holds: Vec<&'static str>,
    /// A directory of these.
    pub directory: String,
    /// Bytes.
    pub total: u64,
    /// Bytes that the server may still write.
    pub available: u64,
}

/// An event that runs on the primary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledEvent {
    pub schema: String,
    pub name: String,
    /// The account as whom it runs, `user@host`; empty where nobody read it.
    #[serde(default)]
    pub definer: String,
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

    /// What it has applied as a replica. The position of MariaDB's binary log has what it wrote itself, too,
    /// and without `log_slave_updates` nothing else.
    pub(crate) fn applied(&self) -> &str {
        self.variable(&["gtid_slave_pos"]).unwrap_or(&self.position)
    }

    /// The `gtid_mode` by which it refuses whoever goes by GTID (`SOURCE_AUTO_POSITION`), though it follows
    /// others so itself; `None` where it refuses nobody. MariaDB has no such switch.
    pub(crate) fn gtid_mode_that_nobody_can_follow(&self) -> Option<&str> {
        self.variable(&["gtid_mode"]).filter(|mode| !mode.eq_ignore_ascii_case("ON"))
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
    let mut facts = read_basics(&mut conn, reach, deadline).await;
    if let Ok(facts) = &mut facts {
        read_the_rest(facts, &mut conn, deadline).await;
    }
    conn.close().await;
    facts
}

/// Reads what a failover decides on, while clients wait: neither accounts and their privileges nor what a
/// planned move waits for, disks and purged logs. These are `None`.
///
/// # Errors
/// See [`read`].
pub async fn read_for_failover(
    server: &ServerName,
    reach: &Address,
    who: &Credentials,
    deadline: Duration,
) -> Result<Facts, Error> {
    let mut conn = Connection::open(server, reach, who, deadline, BRIEFLY).await?;
    let facts = read_basics(&mut conn, reach, deadline).await;
    conn.close().await;
    facts
}

async fn read_the_rest(facts: &mut Facts, conn: &mut Connection, deadline: Duration) {
    let dialect = facts.dialect();
    facts.blockers = blockers(conn, deadline).await.ok();
    facts.lock_holders = lock_holders(conn, dialect, deadline).await;
    facts.prepared = prepared(conn, deadline).await;
    facts.may_set_definer = may_set_definer(conn, dialect, deadline).await;
    facts.own_grants = grants::own(conn, dialect, deadline).await;
    facts.accounts = accounts(conn, dialect, deadline).await;
    facts.disks = disks(conn, dialect, &facts.variables, deadline).await;
    facts.replicas = replicas(conn, dialect, deadline).await;
    facts.purged = purged::purged(conn, dialect, deadline).await;
    facts.binary_log_filters = binary_log_filters(conn, dialect, deadline).await;
    facts.read_only_schemas = schemas::read_only(conn, dialect, deadline).await;
}

async fn read_basics(conn: &mut Connection, reach: &Address, deadline: Duration) -> Result<Facts, Error> {
    let server = conn.server.clone();
    let refused = |why: String| Error::Refused { server: server.clone(), why };
    let version = conn.scalar("SELECT @@version", deadline).await?.unwrap_or_default();
    let version: Version = version.parse().map_err(|error| refused(format!("{error}")))?;
    let dialect = Dialect(version);
    // The position comes first: whoever compares it with a source reads the source later.
    let position = conn.scalar(dialect.position(), deadline).await?.unwrap_or_default().replace('\n', "");
    let variables = pairs(conn.ask("SHOW GLOBAL VARIABLES", deadline).await?);
    let status = pairs(conn.ask("SHOW GLOBAL STATUS", deadline).await?);
    let mut channels = channels(conn, dialect, deadline).await?;
    let net_timeout = variables.get("replica_net_timeout").or(variables.get("slave_net_timeout"));
    let net_timeout = net_timeout.and_then(|seconds| seconds.parse().ok());
    channel::read_settings(conn, &mut channels, dialect, net_timeout, deadline).await;
    let (enabled, replica_side) = events::read(conn, deadline).await;
    let before = now_ms();
    let theirs = conn.scalar("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000 AS SIGNED)", deadline).await?;
    let ours = before.midpoint(now_ms());
    Ok(Facts {
        server: server.clone(),
        reach: reach.clone(),
        reserved: None,
        server_id: variables.get("server_id").and_then(|id| id.parse().ok()).unwrap_or(0),
        channels,
        blockers: None,
        lock_holders: None,
        prepared: None,
        events: enabled,
        replica_side_events: replica_side,
        may_set_definer: None,
        own_grants: None,
        accounts: None,
        disks: None,
        clock_ahead_ms: theirs.and_then(|ms| ms.parse::<i64>().ok()).map_or(0, |theirs| theirs - ours),
        replicas: Vec::new(),
        purged: None,
        binary_log_filters: None,
        read_only_schemas: None,
        position,
        version,
        variables,
        status,
    })
}

/// Of transactions and statements. InnoDB tells when a transaction began in the time zone of the system,
/// whatever `time_zone` says. A clock that was set back makes nothing negative.
const BLOCKERS: &str = "SELECT p.id AS id, CONCAT(p.user, '@', p.host) AS who, \
    CONCAT(p.command, COALESCE(CONCAT(', ', p.state), '')) AS state, \
    CAST(GREATEST(COALESCE(TIMESTAMPDIFF(SECOND, t.trx_started, \
    CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')), p.time), 0) AS UNSIGNED) AS seconds, \
    t.trx_id IS NOT NULL AS open \
    FROM information_schema.PROCESSLIST p \
    LEFT JOIN information_schema.INNODB_TRX t ON t.trx_mysql_thread_id = p.id \
    WHERE p.id <> CONNECTION_ID() AND p.user NOT IN ('system user', 'event_scheduler') \
    AND p.command NOT LIKE 'Binlog Dump%' AND (t.trx_id IS NOT NULL OR p.command NOT IN ('Sleep', 'Daemon')) \
    ORDER BY seconds DESC LIMIT 50";
/// The same of transactions alone.
const OPEN_TRANSACTIONS: &str = "SELECT t.trx_mysql_thread_id AS id, \
    COALESCE(CONCAT(p.user, '@', p.host), '') AS who, \
    CAST(GREATEST(TIMESTAMPDIFF(SECOND, t.trx_started, \
    CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')), 0) AS UNSIGNED) AS seconds \
    FROM information_schema.INNODB_TRX t \
    LEFT JOIN information_schema.PROCESSLIST p ON p.id = t.trx_mysql_thread_id \
    WHERE t.trx_mysql_thread_id <> CONNECTION_ID() AND COALESCE(p.user, '') <> 'system user' \
    AND t.trx_mysql_thread_id > 0 ORDER BY t.trx_started LIMIT 50";

/// Open transactions and locks at this moment, longest first; our own sessions are left out.
pub(crate) async fn blockers(conn: &mut Connection, deadline: Duration) -> Result<Vec<Blocker>, Error> {
    let rows = conn.ask(BLOCKERS, deadline).await?;
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
    Ok(rows.iter().filter_map(blocker).collect())
}

/// Transactions that are open at this moment, longest first; those of replication threads are not counted.
pub(crate) async fn open_transactions(
    conn: &mut Connection,
    deadline: Duration,
) -> Result<Vec<Blocker>, Error> {
    let rows = conn.ask(OPEN_TRANSACTIONS, deadline).await?;
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

async fn prepared(conn: &mut Connection, deadline: Duration) -> Option<Vec<String>> {
    let rows = conn.ask("XA RECOVER", deadline).await.ok()?;
    Some(rows.into_iter().map(|mut row| row.remove("data").unwrap_or_default()).collect())
}

async fn may_set_definer(
    conn: &mut Connection,
    dialect: Dialect,
    deadline: Duration,
) -> Option<(String, bool)> {
    let account = conn.scalar("SELECT CURRENT_USER()", deadline).await.ok()??;
    let rows = conn.ask("SHOW GRANTS", deadline).await.ok()?;
    Some((account, rows.iter().flat_map(Named::values).any(|grant| lets_set_definer(dialect, grant))))
}

/// Whether a line of SHOW GRANTS lets an account name others as definers.
fn lets_set_definer(dialect: Dialect, grant: &str) -> bool {
    let Some((privileges, _)) = grant.split_once(" ON *.* TO ") else { return false };
    let mut privileges = privileges.trim_start_matches("GRANT ").split(',').map(str::trim);
    privileges.any(|privilege| match privilege {
        "ALL PRIVILEGES" => true,
        "SET USER" => dialect.is_mariadb(),
        // From 11.0 on SUPER of MariaDB means little.
        "SUPER" => !dialect.0.mariadb_from((11, 0, 0)),
        privilege => !dialect.is_mariadb() && ["SET_USER_ID", "SET_ANY_DEFINER"].contains(&privilege),
    })
}

/// More accounts than these are compared by name only: each takes a question or two.
const GRANTS_OF: usize = 1000;

async fn accounts(
    conn: &mut Connection,
    dialect: Dialect,
    deadline: Duration,
) -> Option<BTreeMap<String, Option<u64>>> {
    let rows = conn.ask("SELECT user AS u, host AS h FROM mysql.user", deadline).await.ok()?;
    let mut accounts = BTreeMap::new();
    for (number, mut row) in rows.into_iter().enumerate() {
        let (user, host) = (row.remove("u").unwrap_or_default(), row.remove("h").unwrap_or_default());
        let digest = match number < GRANTS_OF {
            true => grants(conn, dialect, &user, &host, deadline).await,
            false => None,
        };
        accounts.insert(format!("{user}@{host}"), digest);
    }
    Some(accounts)
}

/// A digest of what an account may do and how it logs in: nothing of a password is kept.
async fn grants(
    conn: &mut Connection,
    dialect: Dialect,
    user: &str,
    host: &str,
    deadline: Duration,
) -> Option<u64> {
    let quoted = crate::connection::quoted;
    // A role of MariaDB has no host.
    let account = match host.is_empty() {
        true => quoted(user),
        false => format!("{}@{}", quoted(user), quoted(host)),
    };
    let mut lines = conn.ask(&format!("SHOW GRANTS FOR {account}"), deadline).await.ok()?;
    if !dialect.is_mariadb() {
        // MariaDB's grants name the authentication.
        lines.extend(conn.ask(&format!("SHOW CREATE USER {account}"), deadline).await.ok()?);
    }
    let mut lines: Vec<String> = lines.into_iter().flat_map(BTreeMap::into_values).collect();
    lines.sort();
    let mut digest = DefaultHasher::new();
    lines.hash(&mut digest);
    Some(digest.finish())
}

/// Room of the file systems in which it writes. Only MariaDB can say, with the plugin `disks` and FILE.
async fn disks(
    conn: &mut Connection,
    dialect: Dialect,
    variables: &BTreeMap<String, String>,
    deadline: Duration,
) -> Option<Vec<DiskRoom>> {
    const ASK: &str =
        "SELECT PATH AS path, TOTAL AS total, AVAILABLE AS available FROM information_schema.DISKS";
    if !dialect.is_mariadb() {
        return None;
    }
    let rows = conn.ask(ASK, deadline).await.ok()?;
    let kib = |row: &Named, column: &str| row.get(column)?.parse::<u64>().ok()?.checked_mul(1024);
    let mounts: Vec<(String, u64, u64)> = rows
        .iter()
        .filter_map(|row| Some((row.get("path")?.clone(), kib(row, "total")?, kib(row, "available")?)))
        .collect();
    // Without FILE the plugin answers with nothing.
    (!mounts.is_empty()).then(|| rooms(variables, &mounts))
}

/// Which of these mounts (path, total, available) hold what the server writes. Pure.
fn rooms(variables: &BTreeMap<String, String>, mounts: &[(String, u64, u64)]) -> Vec<DiskRoom> {
    let datadir = variables.get("datadir").map_or("", String::as_str);
    let place = |name: &str, is_file: bool| {
        let value = variables.get(name).filter(|value| !value.is_empty())?;
        let path = std::path::Path::new(datadir).join(value);
        let directory = if is_file { path.parent()? } else { &path };
        Some(directory.to_string_lossy().trim_end_matches('/').to_owned())
    };
    let places = [
        ("data", place("datadir", false)),
        ("redo log", place("innodb_log_group_home_dir", false)),
        ("binary log", place("log_bin_basename", true)),
        ("relay log", place("relay_log_basename", true)),
        ("temporary files", place("tmpdir", false)),
    ];
    let mut rooms: Vec<(&str, DiskRoom)> = Vec::new();
    for (what, directory) in places {
        let Some(directory) = directory else { continue };
        let holds = |(path, ..): &&(String, u64, u64)| std::path::Path::new(&directory).starts_with(path);
        let Some((path, total, available)) = mounts.iter().filter(holds).max_by_key(|(path, ..)| path.len())
        else {
            continue;
        };
        match rooms.iter_mut().find(|(mount, _)| mount == path) {
            Some((_, room)) => room.holds.push(what),
            None => {
                let (total, available) = (*total, *available);
                rooms.push((path, DiskRoom { holds: vec![what], directory, total, available }));
            }
        }
    }
    rooms.into_iter().map(|(_, room)| room).collect()
}

async fn binary_log_filters(
    conn: &mut Connection,
    dialect: Dialect,
    deadline: Duration,
) -> Option<Vec<String>> {
    let rows = conn.ask(dialect.binary_log_status(), deadline).await.ok()?;
    // One that writes no binary log says nothing.
    Some(rows.first().map_or_else(Vec::new, left_out))
}

fn left_out(row: &Named) -> Vec<String> {
    let filter = |name: &&str| {
        let value = row.get(*name).filter(|value| !value.trim().is_empty())?;
        Some(format!("{name} = {value}"))
    };
    ["binlog_do_db", "binlog_ignore_db"].iter().filter_map(filter).collect()
}

/// Sessions that hold a lock for which the freeze would wait, whatever they do now. Without
/// `performance_schema` (MySQL, where it may be off, or its instrument) or `metadata_lock_info` (MariaDB)
/// nobody can say.
async fn lock_holders(conn: &mut Connection, dialect: Dialect, deadline: Duration) -> Option<Vec<Blocker>> {
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
    // Where this is off the list of locks is empty.
    const LISTED: &str = "SELECT COUNT(*) FROM performance_schema.setup_instruments i \
        JOIN performance_schema.setup_consumers c ON c.NAME = 'global_instrumentation' AND c.ENABLED = 'YES' \
        WHERE i.NAME = 'wait/lock/metadata/sql/mdl' AND i.ENABLED = 'YES'";
    if !dialect.is_mariadb() && conn.scalar(LISTED, deadline).await.ok()?.as_deref() != Some("1") {
        return None;
    }
    let ask = if dialect.is_mariadb() { MARIADB } else { MYSQL };
    let rows = conn.ask(ask, deadline).await.ok()?;
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
    Some(rows.iter().filter_map(holder).collect())
}

async fn replicas(conn: &mut Connection, dialect: Dialect, deadline: Duration) -> Vec<(String, u16)> {
    let ask = if dialect.0.mysql_from((8, 0, 22)) { "SHOW REPLICAS" } else { "SHOW SLAVE HOSTS" };
    let rows = conn.ask(ask, deadline).await.unwrap_or_default();
    let replica = |row: &Named| Some((row.get("host")?.clone(), row.get("port")?.parse().ok()?));
    rows.iter().filter_map(replica).collect()
}

pub(crate) fn pairs(rows: Vec<Named>) -> BTreeMap<String, String> {
    let pair = |mut row: Named| {
        let name = row.remove("variable_name")?;
        Some((name.to_ascii_lowercase(), row.remove("value").unwrap_or_default()))
    };
    rows.into_iter().filter_map(pair).collect()
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A server with a known name and version, and nothing else.
    pub(crate) fn facts(server: &str, version: &str) -> Facts {
        Facts {
            server: ServerName::new(server),
            reach: Address::tcp(server.to_owned(), 3306),
            reserved: None,
            version: version.parse().unwrap(),
            server_id: 1,
            variables: BTreeMap::new(),
            status: BTreeMap::new(),
            channels: Vec::new(),
            blockers: None,
            lock_holders: None,
            prepared: None,
            events: None,
            replica_side_events: None,
            may_set_definer: None,
            own_grants: None,
            accounts: None,
            disks: None,
            clock_ahead_ms: 0,
            position: String::new(),
            purged: None,
            binary_log_filters: None,
            read_only_schemas: None,
            replicas: Vec::new(),
        }
    }

    /// A channel that runs.
    pub(crate) fn channel(host: &str, port: u16, source_id: u32) -> Channel {
        let row = [
            ("source_host", host.to_owned()),
            ("source_port", port.to_string()),
            ("source_server_id", source_id.to_string()),
            ("replica_io_running", "Yes".to_owned()),
            ("replica_sql_running", "Yes".to_owned()),
            ("auto_position", "1".to_owned()),
        ];
        channel::channel(&row.map(|(name, value)| (name.to_owned(), value)).into())
    }

    #[test]
    fn whether_an_account_may_name_another_as_definer_is_read_from_its_grants() {
        let may = |version: &str, grant: &str| lets_set_definer(Dialect(version.parse().unwrap()), grant);
        let mariadb = "GRANT RELOAD, SET USER, EVENT ON *.* TO `admin`@`%` IDENTIFIED BY PASSWORD '*'";
        assert!(may("10.11.6-MariaDB", mariadb));
        assert!(!may("8.4.2", mariadb));
        assert!(may("8.4.2", "GRANT SET_ANY_DEFINER,XA_RECOVER_ADMIN ON *.* TO `admin`@`%`"));
        assert!(may("8.0.36", "GRANT SET_USER_ID ON *.* TO `admin`@`%`"));
        assert!(may("10.6.1-MariaDB", "GRANT SUPER ON *.* TO `admin`@`%`"));
        assert!(!may("11.4.2-MariaDB", "GRANT SUPER ON *.* TO `admin`@`%`"));
        assert!(may("11.4.2-MariaDB", "GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION"));
        assert!(!may("8.4.2", "GRANT ALL PRIVILEGES ON `headroom`.* TO `admin`@`%`"));
        assert!(!may("10.11.6-MariaDB", "GRANT RELOAD, EVENT ON *.* TO `SET USER`@`%`"));
    }

    #[test]
    fn how_long_a_transaction_is_open_does_not_depend_on_the_servers_time_zone() {
        for ask in [BLOCKERS, OPEN_TRANSACTIONS] {
            let now = "t.trx_started, CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')";
            assert!(ask.contains(now) && !ask.contains("NOW()"), "{ask}");
            assert!(ask.contains("CAST(GREATEST("), "a negative one would be a very large one: {ask}");
        }
    }

    #[test]
    fn what_a_server_leaves_out_of_its_binary_log_is_read() {
        let row = |ignored: &str| -> Named {
            [("file", "b.01"), ("binlog_do_db", ""), ("binlog_ignore_db", ignored)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into()
        };
        assert_eq!(left_out(&row("")), Vec::<String>::new());
        assert_eq!(left_out(&row("scratch,test")), ["binlog_ignore_db = scratch,test"]);
    }

    #[test]
    fn a_plan_of_before_names_no_definer() {
        let event: ScheduledEvent = serde_json::from_str(r#"["app", "nightly"]"#).unwrap();
        assert_eq!((event.name.as_str(), event.definer.as_str()), ("nightly", ""));
    }

    #[test]
    fn each_file_system_is_counted_once_with_what_is_written_there() {
        let variables = [
            ("datadir", "/data/mysql/"),
            ("innodb_log_group_home_dir", "./"),
            ("log_bin_basename", "/logs/binlog"),
            ("relay_log_basename", "/data/mysql/relay"),
            ("tmpdir", "/tmp"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let mount = |path: &str, available| (path.to_owned(), 100, available);
        let rooms =
            rooms(&variables, &[mount("/", 50), mount("/data", 7), mount("/logs", 9), mount("/log", 1)]);
        let found: Vec<_> = rooms.iter().map(|room| (room.holds.join(", "), room.available)).collect();
        let expected = [("data, redo log, relay log", 7), ("binary log", 9), ("temporary files", 50)];
        assert_eq!(found, expected.map(|(holds, available)| (holds.to_owned(), available)));
    }
}
