//! A MySQL or MariaDB server whose global variables are set and read back.
//!
//! The crate blocks, the driver does not: the connection lives on a thread with a runtime of its own. So a
//! variable can be put back from wherever a change has to be put back, a panic included.

use crate::error::Refusal;
use crate::identity::{ADDRESS, Facts, STARTED, STARTED_SINCE_BOOT};
use crate::value::ValueError;
use config::Credentials;
use fleet::Address;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row, Value};
use observe::AskError;
use rustix::time::{ClockId, clock_gettime};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Connecting and each statement may take this long, but for those that resize.
const DEADLINE: Duration = Duration::from_secs(60);
/// Resizing is the slowest change: pages in use are waited for, dirty ones are written.
const RESIZE: Duration = Duration::from_secs(600);
const BUFFER_POOL: &str = "innodb_buffer_pool_size";
/// MariaDB resizes its log while it runs (10.9), and answers when all pages that were dirty are written.
/// Given up before, the log stays as it was.
const LOG_FILE: &str = "innodb_log_file_size";
/// MySQL's since 8.0.30. Where nobody sets it and one of the older two is set, their product is in force, and
/// it says its default.
const REDO_LOG: &str = "innodb_redo_log_capacity";
const OLDER: [&str; 2] = [LOG_FILE, "innodb_log_files_in_group"];
/// A resize that shows no sign for this time has ended, as far as can be seen.
const QUIET: Duration = Duration::from_secs(10);
/// A server that restarts, or cannot resize its buffer pool yet, is tried again this often.
const AGAIN: Duration = Duration::from_millis(200);
/// MariaDB's "innodb_buffer_pool_size change aborted": pages that it would give up are in use or not written.
const RESIZE_ABORTED: u16 = 1221;
/// MySQL's "Cannot change buffer pool size, because it is being resized".
const RESIZE_UNDER_WAY: u16 = 3014;

/// What went wrong with a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// No connection, or it broke.
    #[error("{address}: {why}")]
    Unreachable {
        address: String,
        /// In the system's words.
        why: String,
    },
    /// A statement was sent, and no answer came: the server may carry it out all the same.
    #[error("{address}: {why}; whether it takes effect is not known")]
    Unanswered {
        address: String,
        /// In the system's words.
        why: String,
    },
    /// The server said no.
    #[error("error {code}: {message}{hint}")]
    Answered {
        /// MySQL's error number.
        code: u16,
        /// The server's words.
        message: String,
        /// What can be done about it.
        hint: &'static str,
    },
}

impl From<ServerError> for Refusal {
    fn from(error: ServerError) -> Self {
        match &error {
            ServerError::Answered { code: 1193, message, .. } => Self::Absent { what: message.clone() },
            ServerError::Unanswered { .. } => Self::Unanswered { why: error.to_string() },
            ServerError::Unreachable { .. } => Self::Unreachable { why: error.to_string() },
            ServerError::Answered { .. } => Self::Denied { why: error.to_string() },
        }
    }
}

/// What a variable takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A number in a range.
    Number { min: f64, max: f64 },
    /// ON or OFF.
    Switch,
    /// One of these words (their numbers are taken too).
    Words(Vec<String>),
    /// Anything else.
    Text,
}

/// What the server says of a variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    pub kind: Kind,
    /// Whether it can be set without a restart; `None` where only trying tells (MySQL).
    pub dynamic: Option<bool>,
}

pub trait Server: Send {
    /// Who it is, where it was reached, and when it was started.
    ///
    /// # Errors
    /// It cannot be asked.
    fn identity(&mut self) -> Result<Facts, ServerError>;

    /// What it says of a variable; `None` if it has none of that name.
    ///
    /// # Errors
    /// It cannot be asked.
    fn describe(&mut self, variable: &str) -> Result<Option<Variable>, ServerError>;

    /// The global value.
    ///
    /// # Errors
    /// It cannot be asked, or has no such variable.
    fn global(&mut self, variable: &str) -> Result<String, ServerError>;

    /// Sets the global value.
    ///
    /// # Errors
    /// It cannot be asked, or says no.
    fn set_global(&mut self, variable: &str, value: &str) -> Result<(), ServerError>;

    /// Connects anew, to a server that is being restarted.
    ///
    /// # Errors
    /// It does not come back.
    fn reconnect(&mut self) -> Result<(), ServerError>;

    /// Takes a user lock of the server, until this connection ends; the session that has it, where that is
    /// another one. One that has no such locks always says yes.
    ///
    /// # Errors
    /// It cannot be asked.
    fn claim(&mut self, _lock: &str) -> Result<Option<String>, ServerError> {
        Ok(None)
    }
}

/// Checks a value against what the server says; the canonical text.
///
/// # Errors
/// What would be right, in words.
pub fn check(variable: &Variable, value: &str) -> Result<String, ValueError> {
    match &variable.kind {
        Kind::Number { min, max } => {
            let text = crate::value::size(value).map_or_else(|| value.to_owned(), |bytes| bytes.to_string());
            let range = || format!("{min} to {max}");
            let number: f64 = text.parse().map_err(|_| ValueError::NotANumber(range()))?;
            if (*min..=*max).contains(&number) { Ok(text) } else { Err(ValueError::ServerTakes(range())) }
        }
        Kind::Switch => match value.to_ascii_lowercase().as_str() {
            "on" | "1" | "true" => Ok("ON".to_owned()),
            "off" | "0" | "false" => Ok("OFF".to_owned()),
            _ => Err(ValueError::ServerTakes("ON or OFF".to_owned())),
        },
        Kind::Words(words) => {
            if words.iter().any(|word| word.eq_ignore_ascii_case(value)) {
                return Ok(value.to_owned());
            }
            // It reads back as its word.
            let numbered = value.parse::<usize>().ok().and_then(|at| words.get(at));
            let unknown = || ValueError::ServerTakes(format!("one of: {}", words.join(", ")));
            numbered.cloned().ok_or_else(unknown)
        }
        Kind::Text => Ok(value.to_owned()),
    }
}

/// Whether two texts are the same value to a server: `ON` is `1`, `0.5` is `0.500000`, and a list of switches
/// is the same when all that were asked for stand as asked.
pub(crate) fn same(asked: &str, found: &str) -> bool {
    let switch = |text: &str| match text.to_ascii_lowercase().as_str() {
        "on" | "1" | "yes" | "true" => Some(true),
        "off" | "0" | "no" | "false" => Some(false),
        _ => None,
    };
    let number = |text: &str| text.parse::<f64>().ok();
    let switches = || {
        let all: Vec<&str> = found.split(',').collect();
        asked.contains('=') && asked.split(',').all(|one| all.contains(&one.trim()))
    };
    asked.eq_ignore_ascii_case(found)
        || (switch(asked).is_some() && switch(asked) == switch(found))
        || (number(asked).is_some() && number(asked) == number(found))
        || switches()
}

/// Whether two values that can be asked for are the same one.
pub fn is_same_value(one: &str, other: &str) -> bool {
    let bytes = |text: &str| crate::value::size(text);
    // A list of switches may be a part of the other.
    (same(one, other) && same(other, one)) || (bytes(one).is_some() && bytes(one) == bytes(other))
}

/// Whether the server was started anew since, as its facts then and now tell; or its clock was set back,
/// which shortens its uptime as well. `same_boot`: our host was not.
pub fn restarted(then: &Facts, now: &Facts, same_boot: bool) -> bool {
    // Uptime is in whole seconds, and both ends of it are rounded.
    let (key, tolerance) = if same_boot { (STARTED_SINCE_BOOT, 3) } else { (STARTED, 60) };
    let seconds = |facts: &Facts| facts.get(key).and_then(|text| text.parse::<i64>().ok());
    matches!((seconds(then), seconds(now)), (Some(then), Some(now)) if now > then + tolerance)
}

/// A connection to a server.
pub struct Connection {
    address: Address,
    questions: mpsc::Sender<Question>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("address", &self.address).finish_non_exhaustive()
    }
}

type Rows = Vec<Vec<Option<String>>>;

struct Question {
    /// `None` is a new connection.
    statement: Option<String>,
    limit: Duration,
    answer: mpsc::Sender<Result<Rows, ServerError>>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached or refuses the account.
    pub fn open(address: &Address, who: &Credentials) -> Result<Self, ServerError> {
        let (questions, asked) = mpsc::channel();
        let (to, login) = (address.clone(), who.clone());
        let thread = std::thread::Builder::new().name("knob-server".to_owned());
        thread
            .spawn(move || serve(&to, &login, &asked))
            .map_err(|error| unreachable(address, error.to_string()))?;
        let connection = Self { address: address.clone(), questions };
        connection.put(None, DEADLINE)?;
        Ok(connection)
    }

    fn put(&self, statement: Option<String>, limit: Duration) -> Result<Rows, ServerError> {
        let (answer, answered) = mpsc::channel();
        let gone = || unreachable(&self.address, "its thread has ended".to_owned());
        self.questions.send(Question { statement, limit, answer }).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }

    fn ask(&self, statement: &str) -> Result<Rows, ServerError> {
        self.put(Some(statement.to_owned()), DEADLINE)
    }

    /// Asks what only reads. That the connection has ended since the last question, because the server was
    /// restarted or had waited for too long, shows only now: it is asked once more, over a new one.
    fn read(&self, statement: &str) -> Result<Rows, ServerError> {
        let begun = Instant::now();
        match self.ask(statement) {
            // A server that has let the time pass would do so again.
            Err(ServerError::Unanswered { .. }) if begun.elapsed() < DEADLINE => self.ask(statement),
            answer => answer,
        }
    }

    /// The first field of the first row.
    fn one(&self, statement: &str) -> Result<Option<String>, ServerError> {
        Ok(self.read(statement)?.into_iter().next().and_then(|row| row.into_iter().next()).flatten())
    }
}

/// How far a resize of the buffer pool has come.
#[derive(Clone, Debug, Default, PartialEq)]
struct Pool {
    /// What the variable says, bytes.
    size: u64,
    /// What it has of pages, bytes; 0 where the server does not say.
    pages: u64,
    /// What the server says of the resize.
    status: String,
}

impl Pool {
    /// A pool has a few pages less than its size: descriptors take their place.
    fn is_resized(&self, asked: u64) -> bool {
        self.size == asked && (self.pages == 0 || self.pages.abs_diff(asked) < asked / 20)
    }
}

impl Connection {
    /// Waits until the buffer pool has the size that was asked for: MySQL, and MariaDB before 10.11.12,
    /// answer at once and resize it behind that. A size that the server rounds shows by nothing moving any
    /// more.
    fn resized(&self, asked: u64) -> Result<(), ServerError> {
        let begun = Instant::now();
        let (mut last, mut moved) = (Pool::default(), begun);
        // What cannot be asked is left to the read-back.
        while let Ok(pool) = self.pool() {
            if pool.is_resized(asked) || moved.elapsed() > QUIET {
                break;
            }
            if begun.elapsed() > RESIZE {
                let why = format!("{BUFFER_POOL} is still being resized after {} s", RESIZE.as_secs());
                return Err(unanswered(&self.address, why));
            }
            if pool != last {
                (last, moved) = (pool, Instant::now());
            }
            std::thread::sleep(AGAIN);
        }
        Ok(())
    }

    fn pool(&self) -> Result<Pool, ServerError> {
        let size = self.one(&format!("SELECT @@GLOBAL.{BUFFER_POOL}"))?;
        let rows = self.read("SHOW GLOBAL STATUS LIKE 'Innodb%'")?;
        let field = |name: &str| {
            let mut found =
                rows.iter().filter(|row| row.first().is_some_and(|one| one.as_deref() == Some(name)));
            found.next().and_then(|row| row.get(1)?.clone()).unwrap_or_default()
        };
        let number = |name: &str| field(name).parse::<u64>().unwrap_or(0);
        Ok(Pool {
            size: size.and_then(|text| text.parse().ok()).unwrap_or(0),
            pages: number("Innodb_buffer_pool_pages_total") * number("Innodb_page_size"),
            status: field("Innodb_buffer_pool_resize_status"),
        })
    }
}

impl Connection {
    /// The size of the redo log where its variable does not say what is in force. Put back as that one says,
    /// it would be another than before.
    fn redo_log_by_older(&self) -> Result<Option<String>, ServerError> {
        let names = [REDO_LOG, OLDER[0], OLDER[1]].map(quoted).join(", ");
        let sources = self.read(&format!(
            "SELECT VARIABLE_NAME, VARIABLE_SOURCE FROM performance_schema.variables_info \
             WHERE VARIABLE_NAME IN ({names})"
        ));
        match sources {
            Ok(sources) if is_by_older(&sources) => {
                self.one(&format!("SELECT @@GLOBAL.{} * @@GLOBAL.{}", OLDER[0], OLDER[1]))
            }
            // Without that table it is no MySQL.
            Ok(_) | Err(ServerError::Answered { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether the older variables decide the size of the redo log, by where each variable has its value from.
fn is_by_older(sources: &[Vec<Option<String>>]) -> bool {
    let set = |name: &str| {
        let is_it = |row: &&Vec<Option<String>>| row.first().is_some_and(|one| one.as_deref() == Some(name));
        let source = sources.iter().find(is_it).and_then(|row| row.get(1)?.as_deref());
        source.map(|source| source != "COMPILED")
    };
    set(REDO_LOG) == Some(false) && OLDER.iter().any(|name| set(name) == Some(true))
}

fn unreachable(address: &Address, why: String) -> ServerError {
    ServerError::Unreachable { address: address.to_string(), why }
}

/// The thread of a connection: one question after the other, until nobody is left to ask.
fn serve(address: &Address, who: &Credentials, asked: &mpsc::Receiver<Question>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let mut conn: Option<Conn> = None;
    for question in asked {
        let answer = match &runtime {
            Err(error) => Err(unreachable(address, error.to_string())),
            Ok(runtime) => runtime.block_on(answer(address, who, &mut conn, &question)),
        };
        // Whoever asked has gone: nobody is left to tell.
        let _ = question.answer.send(answer);
    }
    if let (Ok(runtime), Some(conn)) = (&runtime, conn) {
        let _ = runtime.block_on(conn.disconnect());
    }
}

async fn answer(
    address: &Address,
    who: &Credentials,
    conn: &mut Option<Conn>,
    question: &Question,
) -> Result<Rows, ServerError> {
    let statement = question.statement.as_deref();
    if statement.is_none() {
        *conn = None;
    }
    if conn.is_none() {
        let opened = observe::connect(address, who, DEADLINE).await;
        *conn = Some(opened.map_err(|error| unreachable(address, error.to_string()))?);
    }
    let (Some(open), Some(statement)) = (conn.as_mut(), statement) else { return Ok(Rows::new()) };
    let id = open.id();
    let rows = tokio::time::timeout(question.limit, async {
        let mut result = open.query_iter(statement).await?;
        result.collect::<Row>().await
    });
    match rows.await {
        Ok(Ok(rows)) => Ok(rows.into_iter().map(texts).collect()),
        Ok(Err(mysql_async::Error::Server(error))) => {
            let hint = hint(error.code);
            Err(ServerError::Answered { code: error.code, message: error.message, hint })
        }
        Ok(Err(error)) => {
            *conn = None;
            Err(unanswered(address, AskError::from(error).to_string()))
        }
        Err(_) => {
            *conn = None;
            kill(address, who, id).await;
            Err(unanswered(address, format!("no answer within {} s", question.limit.as_secs())))
        }
    }
}

/// Ends the statement that nobody waits for any more. A server that does not listen goes on with it: the
/// journal's entry stays open for that.
async fn kill(address: &Address, who: &Credentials, id: u32) {
    let killed = tokio::time::timeout(DEADLINE, async {
        let Ok(mut other) = observe::connect(address, who, DEADLINE).await else { return false };
        let killed = other.query_drop(format!("KILL {id}")).await.is_ok();
        killed && other.disconnect().await.is_ok()
    });
    if !killed.await.unwrap_or(false) {
        tracing::warn!(%address, id, "a statement without an answer could not be ended");
    }
}

fn unanswered(address: &Address, why: String) -> ServerError {
    ServerError::Unanswered { address: address.to_string(), why }
}

fn hint(code: u16) -> &'static str {
    match code {
        1227 => {
            "; setting global variables needs GRANT SYSTEM_VARIABLES_ADMIN (MySQL 8) or SUPER and its parts \
             (MariaDB)"
        }
        1238 => {
            "; it needs a restart: name a program that sets it and restarts the server (--restart-with \
             PROGRAM)"
        }
        _ => "",
    }
}

fn texts(row: Row) -> Vec<Option<String>> {
    let text = |value: Value| match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true)),
    };
    row.unwrap().into_iter().map(text).collect()
}

impl Server for Connection {
    fn identity(&mut self) -> Result<Facts, ServerError> {
        let mut facts = Facts::from([(ADDRESS.to_owned(), self.address.to_string())]);
        for variable in ["server_uuid", "server_uid", "hostname", "port", "datadir"] {
            match self.one(&format!("SELECT @@GLOBAL.{variable}")) {
                Ok(value) => drop(facts.insert(variable.to_owned(), value.unwrap_or_default())),
                // One of the first two is the other flavour's.
                Err(ServerError::Answered { code: 1193, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let rows = self.read("SHOW GLOBAL STATUS LIKE 'Uptime'")?;
        let uptime = rows.first().and_then(|row| row.get(1)).cloned().flatten();
        if let Some(uptime) = uptime.and_then(|text| text.parse::<i64>().ok()) {
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
            facts.insert(STARTED.to_owned(), (wall - uptime).to_string());
            facts.insert(
                STARTED_SINCE_BOOT.to_owned(),
                (clock_gettime(ClockId::Boottime).tv_sec - uptime).to_string(),
            );
        }
        Ok(facts)
    }

    fn describe(&mut self, variable: &str) -> Result<Option<Variable>, ServerError> {
        let name = quoted(variable);
        let mariadb = self.read(&format!(
            "SELECT VARIABLE_TYPE, NUMERIC_MIN_VALUE, NUMERIC_MAX_VALUE, ENUM_VALUE_LIST, READ_ONLY, VARIABLE_SCOPE \
             FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_NAME = {name}"
        ));
        match mariadb {
            Ok(rows) => return Ok(rows.into_iter().next().and_then(|row| of_mariadb(&row))),
            // 1109: unknown table, so this is MySQL.
            Err(ServerError::Answered { code: 1109 | 1146, .. }) => {}
            Err(error) => return Err(error),
        }
        let rows = self.read(&format!(
            "SELECT MIN_VALUE, MAX_VALUE FROM performance_schema.variables_info WHERE VARIABLE_NAME = {name}"
        ))?;
        Ok(rows.into_iter().next().map(|row| of_mysql(&row)))
    }

    fn global(&mut self, variable: &str) -> Result<String, ServerError> {
        if variable == REDO_LOG
            && let Some(in_force) = self.redo_log_by_older()?
        {
            return Ok(in_force);
        }
        // The name was checked to be letters, digits, `_` and `.`; a component's variable has a dot.
        let value = self.one(&format!("SELECT @@GLOBAL.{variable}"))?;
        value.ok_or_else(|| ServerError::Answered {
            code: 0,
            message: format!("@@GLOBAL.{variable} is NULL, which no SET puts back"),
            hint: "",
        })
    }

    fn set_global(&mut self, variable: &str, value: &str) -> Result<(), ServerError> {
        let number = value.parse::<f64>().is_ok_and(f64::is_finite);
        let value = if number { value.to_owned() } else { quoted(value) };
        let statement = format!("SET GLOBAL {variable} = {value}");
        if variable != BUFFER_POOL {
            return self.put(Some(statement), longest(variable)).map(drop);
        }
        let begun = Instant::now();
        loop {
            match self.put(Some(statement.clone()), RESIZE) {
                Err(ServerError::Answered { code: RESIZE_ABORTED | RESIZE_UNDER_WAY, .. })
                    if begun.elapsed() < DEADLINE =>
                {
                    std::thread::sleep(AGAIN);
                }
                answered => {
                    answered?;
                    return self.resized(value.parse().unwrap_or(0));
                }
            }
        }
    }

    fn reconnect(&mut self) -> Result<(), ServerError> {
        let begun = Instant::now();
        loop {
            match self.put(None, DEADLINE) {
                Ok(_) => return Ok(()),
                Err(error) if begun.elapsed() > DEADLINE => return Err(error),
                Err(_) => std::thread::sleep(AGAIN),
            }
        }
    }

    fn claim(&mut self, lock: &str) -> Result<Option<String>, ServerError> {
        let lock = quoted(lock);
        if self.one(&format!("SELECT GET_LOCK({lock}, 0)"))?.as_deref() == Some("1") {
            return Ok(None);
        }
        let session = self.one(&format!("SELECT IS_USED_LOCK({lock})"))?;
        Ok(Some(session.unwrap_or_else(|| "not known".to_owned())))
    }
}

/// `None` for one that every session has by itself: there is no global one to set.
fn of_mariadb(row: &[Option<String>]) -> Option<Variable> {
    let field = |at: usize| row.get(at).and_then(Option::as_deref).unwrap_or_default();
    let number = |at: usize| field(at).parse::<f64>().ok();
    let kind = match field(0) {
        "BOOLEAN" => Kind::Switch,
        "ENUM" => Kind::Words(field(3).split(',').map(str::to_owned).collect()),
        kind if kind.contains("INT") || kind == "DOUBLE" => match (number(1), number(2)) {
            (Some(min), Some(max)) => Kind::Number { min, max },
            _ => Kind::Text,
        },
        _ => Kind::Text,
    };
    (field(5) != "SESSION ONLY").then(|| Variable { kind, dynamic: Some(field(4) != "YES") })
}

fn of_mysql(row: &[Option<String>]) -> Variable {
    let field = |at: usize| row.get(at).and_then(Option::as_deref).unwrap_or_default();
    let (min, max) = (field(0).parse::<f64>().unwrap_or(0.0), field(1).parse::<f64>().unwrap_or(0.0));
    // A variable that is ON may take other words too (DETECT_ONLY): MySQL says only what numbers it takes.
    let kind = if max > min { Kind::Number { min, max } } else { Kind::Text };
    Variable { kind, dynamic: None }
}

/// How long a change of a variable may take.
fn longest(variable: &str) -> Duration {
    if [BUFFER_POOL, LOG_FILE].contains(&variable) { RESIZE } else { DEADLINE }
}

/// A string of SQL. Where NO_BACKSLASH_ESCAPES is set a backslash comes out doubled, which the read-back
/// shows.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_by_what_the_server_says() {
        let ok = |kind, value| check(&Variable { kind, dynamic: None }, value);
        assert_eq!(ok(Kind::Number { min: 1.0, max: 1e12 }, "128M").as_deref(), Ok("134217728"));
        assert_eq!(ok(Kind::Number { min: 0.0, max: 99.9 }, "0.5").as_deref(), Ok("0.5"));
        assert!(
            ok(Kind::Number { min: 100.0, max: 200.0 }, "5").unwrap_err().to_string().contains("100 to 200")
        );
        assert_eq!(ok(Kind::Switch, "1").as_deref(), Ok("ON"));
        assert!(ok(Kind::Switch, "2").is_err());
        let words = Kind::Words(vec!["none".into(), "crc32".into()]);
        assert_eq!(ok(words.clone(), "CRC32").as_deref(), Ok("CRC32"));
        assert_eq!(ok(words.clone(), "1").as_deref(), Ok("crc32"), "as it is read back");
        assert!(ok(words, "md5").unwrap_err().to_string().contains("none, crc32"));
    }

    #[test]
    fn a_variable_of_sessions_alone_is_no_global_one_that_needs_a_restart() {
        let row = |scope: &str, read_only: &str| {
            let fields = ["BIGINT UNSIGNED", "0", "10", "", read_only, scope];
            of_mariadb(&fields.map(|field| Some(field.to_owned())))
        };
        assert_eq!(row("SESSION ONLY", "NO"), None);
        assert_eq!(row("SESSION", "NO").unwrap().dynamic, Some(true));
        assert_eq!(row("GLOBAL", "YES").unwrap().dynamic, Some(false));
    }

    #[test]
    fn the_redo_log_that_older_variables_decide_is_told_from_one_that_is_set() {
        let by_older = |sources: &[(&str, &str)]| {
            let text = |one: &str| Some(one.to_owned());
            let rows = sources.iter().map(|(name, source)| vec![text(name), text(source)]);
            is_by_older(&rows.collect::<Vec<_>>())
        };
        let older = [(LOG_FILE, "GLOBAL"), (OLDER[1], "COMPILED")];
        assert!(by_older(&[older[0], older[1], (REDO_LOG, "COMPILED")]));
        assert!(!by_older(&[older[0], older[1], (REDO_LOG, "DYNAMIC")]), "it was set since");
        assert!(!by_older(&[(LOG_FILE, "COMPILED"), older[1], (REDO_LOG, "COMPILED")]));
        assert!(!by_older(&older), "before 8.0.30");
    }

    #[test]
    fn what_waits_for_dirty_pages_is_not_given_up_as_early_as_other_changes() {
        assert_eq!(["innodb_buffer_pool_size", "innodb_log_file_size"].map(longest), [RESIZE; 2]);
        assert_eq!(longest("innodb_io_capacity"), DEADLINE);
    }

    #[test]
    fn the_same_value_is_recognised_in_the_servers_spelling() {
        for (asked, found, expected) in [
            ("ON", "1", true),
            ("OFF", "ON", false),
            ("0.5", "0.500000", true),
            ("ROW", "row", true),
            ("index_merge=off", "index_merge=off,mrr=on", true),
            ("index_merge=off", "index_merge=on,mrr=on", false),
            ("1000", "100", false),
        ] {
            assert_eq!(same(asked, found), expected, "{asked} {found}");
        }
        assert!(is_same_value("1M", "1048576") && is_same_value("ON", "1"));
        assert!(!is_same_value("index_merge=off", "index_merge=off,mrr=on"), "one is a part of the other");
    }

    #[test]
    fn a_restart_is_told_by_the_clock_that_nobody_sets_as_long_as_our_host_did_not_restart() {
        let facts = |wall: &str, boot: &str| {
            Facts::from([
                (STARTED.to_owned(), wall.to_owned()),
                (STARTED_SINCE_BOOT.to_owned(), boot.to_owned()),
            ])
        };
        assert!(!restarted(&facts("1000", "50"), &facts("1001", "51"), true), "rounding");
        assert!(!restarted(&facts("1000", "50"), &facts("9000", "50"), true), "the wall clock was set");
        assert!(restarted(&facts("1000", "50"), &facts("1100", "150"), true));
        assert!(restarted(&facts("1000", "50"), &facts("1100", "7"), false), "the other clock began anew");
    }
}
