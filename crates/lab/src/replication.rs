//! Replication in the words of each flavour: statements are pure, [`Standing`] is what a replica answers.

use crate::Error;
use crate::program::Flavour;
use crate::server::Server;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row, Value};
use std::net::SocketAddrV4;

/// What a replica says of its replication; columns are read by name, whichever name the version has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Standing {
    /// Address it fetches from.
    pub(crate) source: String,
    pub(crate) receiver_runs: bool,
    pub(crate) applier_runs: bool,
    /// Its own figure; `None` while a thread does not run.
    pub(crate) seconds_behind: Option<u64>,
    pub(crate) last_error: String,
}

/// Makes a server follow `source` from the position it has, and starts.
pub(crate) fn follow(flavour: Flavour, source: SocketAddrV4, password: &str, delay_s: u32) -> Vec<String> {
    let (host, port) = (source.ip(), source.port());
    match flavour {
        Flavour::MariaDb => vec![
            "STOP SLAVE".to_owned(),
            format!(
                "CHANGE MASTER TO MASTER_HOST = '{host}', MASTER_PORT = {port}, MASTER_USER = 'repl', \
                 MASTER_PASSWORD = '{password}', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1, \
                 MASTER_HEARTBEAT_PERIOD = 2, MASTER_DELAY = {delay_s}"
            ),
            "START SLAVE".to_owned(),
        ],
        Flavour::MySql => vec![
            "STOP REPLICA".to_owned(),
            format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{host}', SOURCE_PORT = {port}, SOURCE_USER = 'repl', \
                 SOURCE_PASSWORD = '{password}', SOURCE_AUTO_POSITION = 1, SOURCE_CONNECT_RETRY = 1, \
                 SOURCE_RETRY_COUNT = 86400, SOURCE_HEARTBEAT_PERIOD = 2, SOURCE_DELAY = {delay_s}, \
                 GET_SOURCE_PUBLIC_KEY = 1"
            ),
            "START REPLICA".to_owned(),
        ],
    }
}

/// Makes a server follow nobody, and forget whom it followed.
pub(crate) fn forget(flavour: Flavour) -> Vec<String> {
    each(flavour, &["STOP SLAVE", "RESET SLAVE ALL"], &["STOP REPLICA", "RESET REPLICA ALL"])
}

/// A server that was a primary takes its own position as the one to go on from. Only before [`follow`].
pub(crate) fn take_own_position(flavour: Flavour) -> Vec<String> {
    each(flavour, &["SET GLOBAL gtid_slave_pos = @@gtid_current_pos"], &[])
}

/// Stops applying; receiving goes on.
pub(crate) fn stop_applier(flavour: Flavour) -> Vec<String> {
    each(flavour, &["STOP SLAVE SQL_THREAD"], &["STOP REPLICA SQL_THREAD"])
}

/// Starts what does not run.
pub(crate) fn start(flavour: Flavour) -> Vec<String> {
    each(flavour, &["START SLAVE"], &["START REPLICA"])
}

/// Delays applying by this many seconds (0: not at all).
pub(crate) fn delay(flavour: Flavour, seconds: u32) -> Vec<String> {
    match flavour {
        Flavour::MariaDb => vec![
            "STOP SLAVE".to_owned(),
            format!("CHANGE MASTER TO MASTER_DELAY = {seconds}"),
            "START SLAVE".to_owned(),
        ],
        Flavour::MySql => vec![
            "STOP REPLICA SQL_THREAD".to_owned(),
            format!("CHANGE REPLICATION SOURCE TO SOURCE_DELAY = {seconds}"),
            "START REPLICA SQL_THREAD".to_owned(),
        ],
    }
}

/// Refuses or takes writes.
pub(crate) fn read_only(flavour: Flavour, on: bool) -> Vec<String> {
    match (flavour, on) {
        (Flavour::MariaDb, true) => vec!["SET GLOBAL read_only = ON".to_owned()],
        (Flavour::MySql, true) => vec!["SET GLOBAL super_read_only = ON".to_owned()],
        // On MySQL this takes super_read_only off too.
        (_, false) => vec!["SET GLOBAL read_only = OFF".to_owned()],
    }
}

/// What the server says; `None` when it follows nobody.
pub(crate) async fn standing(
    flavour: Flavour,
    server: &Server,
    conn: &mut Conn,
) -> Result<Option<Standing>, Error> {
    let ask = match flavour {
        Flavour::MariaDb => "SHOW SLAVE STATUS",
        Flavour::MySql => "SHOW REPLICA STATUS",
    };
    let row: Option<Row> = conn.query_first(ask).await.map_err(|e| server.sql_error(ask, &e))?;
    Ok(row.map(|row| read_standing(&row)))
}

/// Everything the server has executed, as text that only [`has_all`] reads.
pub(crate) async fn position(flavour: Flavour, server: &Server, conn: &mut Conn) -> Result<String, Error> {
    let ask = match flavour {
        Flavour::MariaDb => "SELECT @@GLOBAL.gtid_current_pos",
        Flavour::MySql => "SELECT @@GLOBAL.gtid_executed",
    };
    let position: Option<String> = conn.query_first(ask).await.map_err(|e| server.sql_error(ask, &e))?;
    Ok(position.unwrap_or_default())
}

/// Whether the server has executed everything up to `position`, asked of the server itself.
pub(crate) async fn has_all(
    flavour: Flavour,
    server: &Server,
    conn: &mut Conn,
    position: &str,
) -> Result<bool, Error> {
    if position.is_empty() {
        return Ok(true);
    }
    // With no time to wait both answer at once: 0 is "reached".
    let (ask, reached) = match flavour {
        Flavour::MariaDb => (format!("SELECT MASTER_GTID_WAIT('{position}', 0)"), 0),
        Flavour::MySql => (format!("SELECT GTID_SUBSET('{position}', @@GLOBAL.gtid_executed)"), 1),
    };
    let answer: Option<Option<i64>> = conn.query_first(&ask).await.map_err(|e| server.sql_error(&ask, &e))?;
    Ok(answer.flatten() == Some(reached))
}

fn each(flavour: Flavour, mariadb: &[&str], mysql: &[&str]) -> Vec<String> {
    let statements = match flavour {
        Flavour::MariaDb => mariadb,
        Flavour::MySql => mysql,
    };
    statements.iter().map(|s| (*s).to_owned()).collect()
}

fn read_standing(row: &Row) -> Standing {
    let text = |names: [&str; 2]| match column(row, names) {
        Some(Value::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    };
    let runs = |names| text(names).eq_ignore_ascii_case("yes");
    let errors = [text(["Last_IO_Error", "Last_IO_Error"]), text(["Last_SQL_Error", "Last_SQL_Error"])];
    Standing {
        source: text(["Source_Host", "Master_Host"]),
        receiver_runs: runs(["Replica_IO_Running", "Slave_IO_Running"]),
        applier_runs: runs(["Replica_SQL_Running", "Slave_SQL_Running"]),
        seconds_behind: text(["Seconds_Behind_Source", "Seconds_Behind_Master"]).parse().ok(),
        last_error: errors.into_iter().find(|e| !e.is_empty()).unwrap_or_default(),
    }
}

fn column<'r>(row: &'r Row, names: [&str; 2]) -> Option<&'r Value> {
    let index = names.iter().find_map(|name| row.columns_ref().iter().position(|c| c.name_str() == *name));
    index.and_then(|i| row.as_ref(i))
}
