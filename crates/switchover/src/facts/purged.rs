//! What a server's binary logs no longer have.
//!
//! On MariaDB the oldest one begins with the list of what came before it. On a server that was made from a
//! backup that list is as empty as on one that has everything since the first transaction: its log began
//! before it replicated anything. There the first transaction in its logs tells: they have nothing that came
//! before it in its domain.

use crate::connection::{Connection, Named, quoted};
use crate::dialect::Dialect;
use fleet::GtidPosition;
use std::time::Duration;

/// A server that was restarted some times before it replicated anything has as many logs without a
/// transaction.
const LOGS: usize = 20;

/// On MariaDB the last transaction of each domain that is not there; `None` where the server does not say.
pub(super) async fn purged(conn: &mut Connection, dialect: Dialect, deadline: Duration) -> Option<String> {
    if !dialect.is_mariadb() {
        return ask(conn, "SELECT @@GLOBAL.gtid_purged", deadline).await;
    }
    let rows = conn.ask("SHOW BINARY LOGS", deadline).await.ok()?;
    let logs: Vec<&String> = rows.iter().filter_map(|row| row.get("log_name")).collect();
    let oldest = format!("SELECT BINLOG_GTID_POS({}, 4)", quoted(logs.first()?));
    // It answers NULL where it cannot tell.
    let listed = ask(conn, &oldest, deadline).await?;
    if !listed.is_empty() {
        return Some(listed);
    }
    let more = logs.len() > LOGS;
    for log in logs.into_iter().take(LOGS) {
        let events = format!("SHOW BINLOG EVENTS IN {} LIMIT 20", quoted(log));
        let events = conn.ask(&events, deadline).await.ok()?;
        if let Some(first) = events.iter().find_map(transaction) {
            return Some(before(&first));
        }
    }
    if more {
        return None;
    }
    // No transaction at all: what it has replicated, or was restored with, is in none of its logs.
    ask(conn, "SELECT @@GLOBAL.gtid_current_pos", deadline).await
}

async fn ask(conn: &mut Connection, statement: &str, deadline: Duration) -> Option<String> {
    Some(conn.scalar(statement, deadline).await.ok()??.replace(['\n', ' '], ""))
}

/// The transaction that an event begins: `BEGIN GTID 0-1-7 cid=12`, `GTID 0-1-7`.
fn transaction(event: &Named) -> Option<GtidPosition> {
    if event.get("event_type")? != "Gtid" {
        return None;
    }
    let mut words = event.get("info")?.split_whitespace().skip_while(|word| *word != "GTID");
    words.nth(1)?.parse().ok()
}

/// The one before it; nothing before the first of all.
fn before(first: &GtidPosition) -> String {
    let missing = first.domains().filter(|(_, first)| first.sequence > 1);
    let missing = missing.map(|(domain, first)| format!("{domain}-{}-{}", first.server, first.sequence - 1));
    missing.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::BRIEFLY;
    use config::Credentials;
    use fleet::{Address, ServerName};
    use lab::scripted::{Reply, Script, ScriptedServer};

    /// Of a server with two logs at 0-1-100000: what the list of the first says, and how the second one
    /// begins, if with a transaction.
    async fn found(listed: &'static str, begins: Option<&'static str>) -> Option<String> {
        let script = Script::new("10.11.6-MariaDB", move |statement, _| match (statement, begins) {
            ("SHOW BINARY LOGS", _) => Reply::rows(&["Log_name"], &[&[Some("b.01")], &[Some("b.02")]]),
            ("SELECT BINLOG_GTID_POS('b.01', 4)", _) => Reply::value("position", listed),
            ("SHOW BINLOG EVENTS IN 'b.01' LIMIT 20", Some(_)) => Reply::rows(
                &["Event_type", "Info"],
                &[&[Some("Format_desc"), Some("Server ver: 10.11.6")], &[Some("Gtid_list"), Some("[]")]],
            ),
            ("SHOW BINLOG EVENTS IN 'b.02' LIMIT 20", Some(begins)) => Reply::rows(
                &["Event_type", "Info"],
                &[&[Some("Gtid_list"), Some("[]")], &[Some("Gtid"), Some(begins)]],
            ),
            (_, None) if statement.starts_with("SHOW BINLOG EVENTS") => Reply::error(1227, "Access denied"),
            ("SELECT @@GLOBAL.gtid_current_pos", _) => Reply::value("position", "0-1-100000"),
            _ => Reply::Usual,
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let address = Address::tcp("127.0.0.1".to_owned(), server.address().port());
        let (name, who, deadline) = (ServerName::new("a2"), Credentials::default(), Duration::from_secs(5));
        let mut conn = Connection::open(&name, &address, &who, deadline, BRIEFLY).await.unwrap();
        purged(&mut conn, Dialect("10.11.6-MariaDB".parse().unwrap()), deadline).await
    }

    #[tokio::test]
    async fn a_server_that_was_made_from_a_backup_lacks_what_came_before_its_first_transaction() {
        assert_eq!(found("0-1-70", None).await.as_deref(), Some("0-1-70"), "nothing else is asked");
        let begins = Some("BEGIN GTID 0-1-100001 cid=12");
        assert_eq!(found("", begins).await.as_deref(), Some("0-1-100000"));
        assert_eq!(found("", Some("GTID 0-1-1")).await.as_deref(), Some(""), "it has everything");
        assert_eq!(found("", None).await, None, "it does not say");
        assert_eq!(found("", Some("")).await.as_deref(), Some("0-1-100000"), "it has logged nothing yet");
    }
}
