//! A few questions to one server, each a `SELECT` or a `SHOW`.

use super::{ServerFacts, Skew};
use crate::FactsError;
use config::Credentials;
use fleet::Server;
use observe::{ControlConnection, Row};
use std::time::{Duration, Instant, SystemTime};

/// Its clock in microseconds since 1970, whatever time zone the session has.
const CLOCK: &str = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS micros";
const SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
    ('performance_schema', 'userstat', 'report_host', 'max_connections')";
const STATUS: &str = "SHOW STATUS WHERE Variable_name IN ('Ssl_cipher', 'Threads_connected')";

/// Asks it.
///
/// # Errors
/// It did not answer, or not within `deadline` for each question.
pub async fn facts(
    server: &Server,
    who: &Credentials,
    deadline: Duration,
) -> Result<ServerFacts, FactsError> {
    let mut connection = ControlConnection::open(&server.reach, who, deadline).await?;
    let version = connection.recognize(deadline).await?.dialect.version;
    let mut facts = ServerFacts {
        supported: Some(version.mariadb_from((10, 6, 0)) || version.mysql_from((8, 0, 0))),
        remote: !connection.is_on_this_host(),
        ..ServerFacts::default()
    };
    facts.mariadb = version.mariadb_from((5, 0, 0));
    let settings = connection.ask(SETTINGS, deadline).await?;
    for row in settings.iter() {
        match row.text(&["variable_name"]).unwrap_or_default() {
            "performance_schema" => facts.performance_schema = Some(row.is_on(&["value"])),
            "userstat" => facts.userstat = row.is_on(&["value"]),
            "report_host" => facts.report_host = Some(text(row)),
            "max_connections" => facts.max_connections = row.parse(&["value"]),
            _ => {}
        }
    }
    let status = connection.ask(STATUS, deadline).await?;
    for row in status.iter() {
        match row.text(&["variable_name"]).unwrap_or_default() {
            "Ssl_cipher" => facts.cipher = Some(text(row)),
            "Threads_connected" => facts.sessions = row.parse(&["value"]),
            _ => {}
        }
    }
    let (before, asked) = (SystemTime::now(), Instant::now());
    let rows = connection.ask(CLOCK, deadline).await?;
    let uncertainty = asked.elapsed() / 2;
    let micros: Option<f64> = rows.first().and_then(|row| row.parse(&["micros"]));
    let ours =
        (before + uncertainty).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    facts.clock = micros.map(|micros| Skew { ahead_s: micros / 1e6 - ours, uncertainty });
    Ok(facts)
}

fn text(row: Row<'_>) -> String {
    row.text(&["value"]).unwrap_or_default().to_owned()
}
