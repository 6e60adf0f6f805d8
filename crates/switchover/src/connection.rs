//! A connection that may write: each statement with a deadline, answers read by column name.

use crate::Error;
use crate::dialect::{Dialect, Source};
use config::Credentials;
use fleet::{Address, ServerName};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row, Value};
use observe::AskError;
use std::collections::BTreeMap;
use std::time::Duration;

/// An open connection to one server.
pub(crate) struct Connection {
    pub(crate) server: ServerName,
    conn: Conn,
}

/// Long enough for a connection that is used at once.
pub(crate) const BRIEFLY: Duration = Duration::from_secs(30);

/// A row by column name in lower case; NULL is absent.
pub(crate) type Named = BTreeMap<String, String>;

impl Connection {
    /// Connects. The session ends by itself after `idle` without a statement, so that its locks do not
    /// outlive us for long when our host vanishes without a word.
    pub(crate) async fn open(
        server: &ServerName,
        to: &Address,
        who: &Credentials,
        deadline: Duration,
        idle: Duration,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Server { server: server.clone(), what: "connecting".to_owned(), source };
        let conn = observe::connect(to, who, deadline).await.map_err(failed)?;
        let mut connection = Self { server: server.clone(), conn };
        let seconds = idle.as_secs().max(1);
        connection.run(&session(seconds), deadline).await?;
        Ok(connection)
    }

    /// The server's number for this session.
    pub(crate) fn id(&self) -> u32 {
        self.conn.id()
    }

    /// Runs a statement that returns nothing of interest.
    pub(crate) async fn run(&mut self, statement: &str, deadline: Duration) -> Result<(), Error> {
        let ran = tokio::time::timeout(deadline, self.conn.query_drop(statement)).await;
        self.outcome(statement, deadline, ran)
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn ask(&mut self, statement: &str, deadline: Duration) -> Result<Vec<Named>, Error> {
        let asked = tokio::time::timeout(deadline, self.conn.query::<Row, _>(statement)).await;
        Ok(self.outcome(statement, deadline, asked)?.into_iter().map(named).collect())
    }

    /// The first column of the first row.
    pub(crate) async fn scalar(
        &mut self,
        statement: &str,
        deadline: Duration,
    ) -> Result<Option<String>, Error> {
        let asked = tokio::time::timeout(deadline, self.conn.query_first::<Row, _>(statement)).await;
        let row = self.outcome(statement, deadline, asked)?;
        Ok(row.and_then(|row| row.as_ref(0).and_then(text)))
    }

    /// Says goodbye.
    /// A former primary follows `source` from now on.
    pub(crate) async fn follow(
        &mut self,
        dialect: Dialect,
        source: &Source<'_>,
        deadline: Duration,
    ) -> Result<(), Error> {
        for statement in dialect.demote(source) {
            let mut told = self.run(&statement, deadline).await;
            // An attempt while its disk was full left empty files, which MariaDB cannot read: nothing in them
            // is worth keeping.
            if told.as_ref().is_err_and(Error::is_unreadable_source) {
                self.run(dialect.forget_source(), deadline).await?;
                told = self.run(&statement, deadline).await;
            }
            told?;
        }
        self.run(dialect.start_replication(), deadline).await
    }

    pub(crate) async fn close(self) {
        let _ = tokio::time::timeout(Duration::from_secs(1), self.conn.disconnect()).await;
    }

    fn outcome<T>(
        &self,
        statement: &str,
        deadline: Duration,
        outcome: Result<Result<T, mysql_async::Error>, tokio::time::error::Elapsed>,
    ) -> Result<T, Error> {
        let what = without_secrets(statement);
        let source = match outcome {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => AskError::from(error),
            Err(_) => AskError::Silent { what: what.clone(), deadline },
        };
        Err(Error::Server { server: self.server.clone(), what, source })
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({}, {})", self.server, self.conn.id())
    }
}

/// What our statements need whatever the server's defaults are: commits at once, backslashes that escape,
/// quotes that are quotes, and no limit but our own deadlines.
fn session(wait_timeout: u64) -> String {
    format!(
        "SET SESSION wait_timeout = {wait_timeout}, net_read_timeout = 30, autocommit = 1, \
         sql_mode = 'STRICT_ALL_TABLES'{STATEMENT_TIME}"
    )
}

/// MariaDB alone reads the first comment; it skips the second, which is for MySQL from 5.7.8 on.
const STATEMENT_TIME: &str = " /*M!100101 , max_statement_time = 0 */ /*!50708 , max_execution_time = 0 */";

/// A statement as errors and logs may show it: nothing that stands in quotes.
pub(crate) fn without_secrets(statement: &str) -> String {
    let mut shown = String::new();
    let mut quoted = false;
    for character in statement.chars().take(200) {
        if character == '\'' {
            quoted = !quoted;
            shown.push_str(if quoted { "'..." } else { "'" });
        } else if !quoted {
            shown.push(character);
        }
    }
    shown
}

/// Text in quotes for a statement.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

fn named(row: Row) -> Named {
    let names: Vec<String> =
        row.columns_ref().iter().map(|column| column.name_str().to_ascii_lowercase()).collect();
    names.into_iter().zip(row.unwrap()).filter_map(|(name, value)| Some((name, text(&value)?))).collect()
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        other => Some(other.as_sql(true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_quotes_shows_nowhere() {
        let shown =
            without_secrets("CHANGE MASTER TO MASTER_USER = 'repl', MASTER_PASSWORD = 'se''cret', X = 1");
        assert!(!shown.contains("cret") && !shown.contains("repl"), "{shown}");
        assert!(shown.ends_with("X = 1"), "{shown}");
        assert_eq!(quoted("it's"), "'it''s'");
    }
}
