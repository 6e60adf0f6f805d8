//! A connection that may write: each statement with a deadline, answers read by column name.
//!
//! **A connection whose last answer was not read is of no more use**: the next statement would read that
//! answer for its own. So from the sending of a statement until its answer is there the connection counts as
//! late; a deadline that passes, or a caller that stops waiting, leaves it so, and nothing more is said over
//! it.

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
    /// A statement was sent whose answer nobody has read.
    late: bool,
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
        let mut connection = Self { server: server.clone(), conn, late: false };
        let seconds = idle.as_secs().max(1);
        connection.run(&session(seconds), deadline).await?;
        Ok(connection)
    }

    /// The server's number for this session.
    pub(crate) fn id(&self) -> u32 {
        self.conn.id()
    }

    /// Whether the answer to an earlier statement is still due: then another connection has to be opened.
    pub(crate) fn is_late(&self) -> bool {
        self.late
    }

    /// Runs a statement that returns nothing of interest.
    pub(crate) async fn run(&mut self, statement: &str, deadline: Duration) -> Result<(), Error> {
        self.begin(statement)?;
        let ran = tokio::time::timeout(deadline, self.conn.query_drop(statement)).await;
        self.outcome(statement, deadline, ran)
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn ask(&mut self, statement: &str, deadline: Duration) -> Result<Vec<Named>, Error> {
        self.begin(statement)?;
        let asked = tokio::time::timeout(deadline, self.conn.query::<Row, _>(statement)).await;
        Ok(self.outcome(statement, deadline, asked)?.into_iter().map(named).collect())
    }

    /// The first column of the first row.
    pub(crate) async fn scalar(
        &mut self,
        statement: &str,
        deadline: Duration,
    ) -> Result<Option<String>, Error> {
        self.begin(statement)?;
        let asked = tokio::time::timeout(deadline, self.conn.query_first::<Row, _>(statement)).await;
        let row = self.outcome(statement, deadline, asked)?;
        Ok(row.and_then(|row| row.as_ref(0).and_then(text)))
    }

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

    /// Makes a table of the database `headroom`, and that database. Only where it is not there: a definition
    /// replicates even when it changes nothing, and a MariaDB replica that is killed while it applies one may
    /// apply it twice, and stop.
    pub(crate) async fn make_table(
        &mut self,
        name: &str,
        definition: &str,
        deadline: Duration,
    ) -> Result<(), Error> {
        let is_there = format!(
            "SELECT COUNT(*) FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = 'headroom' AND TABLE_NAME = {}",
            quoted(name)
        );
        if self.scalar(&is_there, deadline).await?.as_deref() == Some("1") {
            return Ok(());
        }
        self.run("CREATE DATABASE IF NOT EXISTS headroom", deadline).await?;
        self.run(&format!("CREATE TABLE IF NOT EXISTS headroom.{name} {definition}"), deadline).await
    }

    /// Says goodbye, where the server listens.
    pub(crate) async fn close(self) {
        if self.late {
            return;
        }
        let _ = tokio::time::timeout(Duration::from_secs(1), self.conn.disconnect()).await;
    }

    /// From here on the connection is late, until [`Self::outcome`] sees the answer.
    fn begin(&mut self, statement: &str) -> Result<(), Error> {
        if self.late {
            let why = "an earlier statement of this connection was not answered in time".to_owned();
            let (server, what) = (self.server.clone(), without_secrets(statement));
            return Err(Error::Server { server, what, source: AskError::Broken { why } });
        }
        self.late = true;
        Ok(())
    }

    fn outcome<T>(
        &mut self,
        statement: &str,
        deadline: Duration,
        outcome: Result<Result<T, mysql_async::Error>, tokio::time::error::Elapsed>,
    ) -> Result<T, Error> {
        self.late = outcome.is_err();
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
    use lab::scripted::{Reply, Script, ScriptedServer};

    #[tokio::test]
    async fn an_answer_that_comes_too_late_is_not_read_as_that_of_the_next_statement() {
        let script = Script::new("10.11.6-MariaDB", |statement, _| match statement {
            "SELECT GET_LOCK('l', 0)" => Reply::value("l", "1").after(Duration::from_millis(200)),
            "SELECT 2" => Reply::value("2", "2"),
            _ => Reply::Usual,
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let address = Address::tcp("127.0.0.1".to_owned(), server.address().port());
        let (name, who) = (ServerName::new("a1"), Credentials::default());
        let (long, brief) = (Duration::from_secs(60), Duration::from_millis(50));
        let open = async || Connection::open(&name, &address, &who, long, BRIEFLY).await.unwrap();
        let mut connection = open().await;
        assert_eq!(connection.scalar("SELECT 2", long).await.unwrap().as_deref(), Some("2"));
        assert!(connection.scalar("SELECT GET_LOCK('l', 0)", brief).await.is_err() && connection.is_late());
        tokio::time::sleep(Duration::from_millis(300)).await;
        let next = connection.scalar("SELECT 2", long).await;
        assert!(next.as_ref().is_err_and(|error| error.to_string().contains("not answered")), "{next:?}");
        // One that a caller stopped waiting for counts the same.
        let mut connection = open().await;
        let waiting = connection.scalar("SELECT GET_LOCK('l', 0)", long);
        assert!(tokio::time::timeout(brief, waiting).await.is_err() && connection.is_late());
        // A refusal is an answer.
        let mut connection = open().await;
        assert!(connection.run("NONSENSE", long).await.is_err() && !connection.is_late());
    }

    #[test]
    fn what_stands_in_quotes_shows_nowhere() {
        let shown =
            without_secrets("CHANGE MASTER TO MASTER_USER = 'repl', MASTER_PASSWORD = 'se''cret', X = 1");
        assert!(!shown.contains("cret") && !shown.contains("repl"), "{shown}");
        assert!(shown.ends_with("X = 1"), "{shown}");
        assert_eq!(quoted("it's"), "'it''s'");
    }
}
