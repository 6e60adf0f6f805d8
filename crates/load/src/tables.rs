//! Tables, made and removed. sysbench's have the same columns, indexes and kind of contents as `sysbench
//! prepare` makes, so that either tool can prepare and both can run.

mod own;

pub use own::check_own;

use crate::error::LoadError;
use crate::login::Account;
use crate::session::Session;
use crate::target::{Peer, Target, TlsClient};
use crate::workload::sysbench::{C, Options, PAD};
use crate::workload::{Cells, Lane};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Bytes of an INSERT, about: below `max_allowed_packet` wherever that is not very small.
const BATCH: usize = 512 * 1024;
/// A statement that is to end is waited for at most this time.
const END: Duration = Duration::from_secs(10);
/// How many characters of a statement tell it from others.
const WORDS: usize = 60;
/// A server's error for a statement that was ended.
const QUERY_INTERRUPTED: u16 = 1317;

/// What was done with the tables of a workload, as `headroom load prepare` and `cleanup` print it with
/// `--json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TablesReport {
    pub done: TablesChange,
    pub workload: String,
    /// Where they are, for people.
    pub target: String,
    pub database: String,
    /// sysbench's tables; empty where the workload has statements of its own for its tables.
    pub tables: Vec<String>,
    /// Rows of each, where sysbench's were made.
    pub rows_each: Option<u32>,
    /// How many statements of its own were sent.
    pub statements: usize,
}

/// What is done with tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TablesChange {
    /// Made and filled.
    Prepared,
    Removed,
}

/// The names of sysbench's tables.
pub fn names(options: &Options) -> Vec<String> {
    (1..=options.tables).map(|table| format!("sbtest{table}")).collect()
}

/// Makes and fills the tables, `sessions` at a time. `made` is called for each that is ready. One that cannot
/// be filled is removed again, where the server lets us.
///
/// # Errors
/// The server's words; error 1050 when a table is there already, which is left as it is.
pub fn prepare(
    target: &Target,
    options: &Options,
    sessions: u32,
    seed: u64,
    made: impl Fn(u32) + Sync,
) -> Result<(), LoadError> {
    prepare_until(target, options, sessions, seed, &AtomicBool::new(false), made)
}

/// The same, until somebody asks for the end: what the server is at is ended there, and tables that are not
/// whole are removed again.
///
/// # Errors
/// As [`prepare`], and [`LoadError::Interrupted`] or [`LoadError::StillRunning`].
pub fn prepare_until(
    target: &Target,
    options: &Options,
    sessions: u32,
    seed: u64,
    stop: &AtomicBool,
    made: impl Fn(u32) + Sync,
) -> Result<(), LoadError> {
    each_table(target, options, sessions, stop, |session, table| {
        make(session, table, options, seed)?;
        made(table);
        Ok(())
    })
}

/// Sends statements one after the other over one session: what a workload of your own needs around it.
///
/// # Errors
/// The server's words to the first that fails.
pub fn statements(target: &Target, statements: &[String]) -> Result<(), LoadError> {
    statements_until(target, statements, &AtomicBool::new(false))
}

/// The same, until somebody asks for the end: the one that runs is ended at the server, and no further one is
/// sent then.
///
/// # Errors
/// As [`statements`], and [`LoadError::Interrupted`] or [`LoadError::StillRunning`].
pub fn statements_until(target: &Target, statements: &[String], stop: &AtomicBool) -> Result<(), LoadError> {
    let (peers, tls) = (target.resolve(Lane::Writer)?, target.tls_client()?);
    let way = Way::new(&peers[0], &target.account, tls.as_ref());
    let mut session = StoppableSession::connect(way, stop)?;
    statements.iter().try_for_each(|sql| session.query(sql))
}

/// Removes the tables.
///
/// # Errors
/// The server's words.
pub fn cleanup(target: &Target, options: &Options) -> Result<(), LoadError> {
    cleanup_until(target, options, &AtomicBool::new(false))
}

/// The same, until somebody asks for the end.
///
/// # Errors
/// As [`cleanup`], and [`LoadError::Interrupted`] or [`LoadError::StillRunning`].
pub fn cleanup_until(target: &Target, options: &Options, stop: &AtomicBool) -> Result<(), LoadError> {
    each_table(target, options, 1, stop, |session, table| {
        session.query(&format!("DROP TABLE IF EXISTS sbtest{table}"))
    })
}

fn each_table(
    target: &Target,
    options: &Options,
    sessions: u32,
    stop: &AtomicBool,
    work: impl Fn(&mut StoppableSession<'_>, u32) -> Result<(), LoadError> + Sync,
) -> Result<(), LoadError> {
    let (peers, tls) = (target.resolve(Lane::Writer)?, target.tls_client()?);
    let way = Way::new(&peers[0], &target.account, tls.as_ref());
    let next = AtomicU32::new(1);
    let one = || -> Result<(), LoadError> {
        let mut session = StoppableSession::connect(way, stop)?;
        loop {
            let table = next.fetch_add(1, Ordering::Relaxed);
            if table > options.tables {
                return Ok(());
            }
            work(&mut session, table)?;
        }
    };
    let outcomes: Vec<Result<(), LoadError>> = std::thread::scope(|scope| {
        let sessions = sessions.clamp(1, options.tables.max(1));
        let threads: Vec<_> = (0..sessions).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|t| t.join().unwrap_or(Err(LoadError::ThreadLost))).collect()
    });
    // What a server still does is said before what was ended.
    let (left, rest): (Vec<_>, Vec<_>) =
        outcomes.into_iter().partition(|outcome| matches!(outcome, Err(LoadError::StillRunning { .. })));
    left.into_iter().chain(rest).collect()
}

/// How one gets to the server.
#[derive(Clone, Copy)]
pub(crate) struct Way<'a> {
    peer: &'a Peer,
    account: &'a Account,
    tls: Option<&'a TlsClient>,
    /// How long a statement that is to end is waited for.
    patience: Duration,
}

/// A session whose statement is ended at the server when somebody asks for the end: a server does not notice
/// that a client has left before it has something to send, which may be hours later.
pub(crate) struct StoppableSession<'a> {
    session: Session,
    way: Way<'a>,
    /// The server's number of it; `None` where it does not say.
    id: Option<u64>,
    stop: &'a AtomicBool,
}

impl<'a> StoppableSession<'a> {
    pub(crate) fn connect(way: Way<'a>, stop: &'a AtomicBool) -> Result<Self, LoadError> {
        let mut session = Session::connect(way.peer.clone(), way.account, way.tls)?;
        let id = session.column("SELECT CONNECTION_ID()").ok();
        let id = id.and_then(|ids| std::str::from_utf8(ids.first()?).ok()?.parse().ok());
        Ok(Self { session, way, id, stop })
    }

    /// Asks and waits for the end of the answer, or until somebody asks for the end.
    fn query(&mut self, sql: &str) -> Result<(), LoadError> {
        self.stoppable(sql, |session, go_on| session.query_while(sql, go_on).map(|_| ()))
    }

    /// The same for the values of the first column, without those that are NULL.
    pub(crate) fn column(&mut self, sql: &str) -> Result<Cells, LoadError> {
        self.stoppable(sql, |session, go_on| session.column_while(sql, go_on))
    }

    fn stoppable<T>(
        &mut self,
        sql: &str,
        ask: impl FnOnce(&mut Session, &mut dyn FnMut() -> Result<(), LoadError>) -> Result<T, LoadError>,
    ) -> Result<T, LoadError> {
        let (way, id, stop) = (self.way, self.id, self.stop);
        if stop.load(Ordering::Relaxed) {
            return Err(LoadError::Interrupted);
        }
        let mut since: Option<Instant> = None;
        let mut why = format!("it did not end within {:?} of being told to", way.patience);
        let unseen = "it was not seen there, to be told to end";
        let mut go_on = || match since {
            _ if !stop.load(Ordering::Relaxed) => Ok(()),
            None => {
                since = Some(Instant::now());
                match way.end(id, sql) {
                    Ok(true) => {}
                    Ok(false) => why = unseen.to_owned(),
                    Err(error) => why = format!("it could not be told to end: {error}"),
                }
                Ok(())
            }
            Some(since) if since.elapsed() < way.patience => Ok(()),
            Some(_) => Err(way.still_running(id, sql, &why)),
        };
        let answer = ask(&mut self.session, &mut go_on);
        match answer {
            Err(LoadError::Refused { .. }) if since.is_some() => Err(LoadError::Interrupted),
            answer => answer,
        }
    }

    /// Undoes what was begun, although somebody asked for the end.
    fn take_back(&mut self, sql: &str) -> Result<(), LoadError> {
        let (way, id) = (self.way, self.id);
        let mut once = || {
            let began = Instant::now();
            self.session.query_while(sql, || {
                let why = format!("it takes longer than {:?}", way.patience);
                if began.elapsed() < way.patience { Ok(()) } else { Err(way.still_running(id, sql, &why)) }
            })
        };
        match once() {
            // What was told to end had just ended, and this was told instead.
            Err(LoadError::Refused { code: QUERY_INTERRUPTED, .. }) => once().map(|_| ()),
            undone => undone.map(|_| ()),
        }
    }
}

impl<'a> Way<'a> {
    pub(crate) fn new(peer: &'a Peer, account: &'a Account, tls: Option<&'a TlsClient>) -> Self {
        Self { peer, account, tls, patience: END }
    }

    /// Ends at the server what a session asks; whether it was seen there. Behind a router another session may
    /// be at another server, where the number is somebody else's: only what begins with the same words there
    /// is ended.
    fn end(self, id: Option<u64>, sql: &str) -> Result<bool, LoadError> {
        let Some(id) = id else { return Ok(false) };
        let mut session = Session::connect_within(self.peer.clone(), self.account, self.tls, self.patience)?;
        let (words, mut hex) = (first_words(sql), String::new());
        for byte in words.bytes() {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02X}");
        }
        let length = words.chars().count();
        let runs = session.query(&format!(
            "SELECT ID FROM information_schema.PROCESSLIST \
             WHERE ID = {id} AND HEX(LEFT(INFO, {length})) = '{hex}'"
        ))?;
        if runs.rows == 0 {
            return Ok(false);
        }
        session.query(&format!("KILL QUERY {id}")).map(|_| true)
    }

    fn still_running(self, session: Option<u64>, sql: &str, why: &str) -> LoadError {
        let (address, statement) = (self.peer.address.clone(), first_words(sql).into());
        LoadError::StillRunning { address, statement, session, why: why.into() }
    }
}

/// What a statement begins with, without what a server takes off its ends.
fn first_words(sql: &str) -> String {
    sql.trim().trim_end_matches(';').trim_end().chars().take(WORDS).collect()
}

fn make(
    session: &mut StoppableSession<'_>,
    table: u32,
    options: &Options,
    seed: u64,
) -> Result<(), LoadError> {
    let id = if options.auto_inc { "INTEGER NOT NULL AUTO_INCREMENT" } else { "INTEGER NOT NULL" };
    session.query(&format!(
        "CREATE TABLE sbtest{table}(id {id}, k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, \
         pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)) ENGINE=InnoDB"
    ))?;
    let filled = fill(session, table, options, seed);
    // The next `prepare` would take it for somebody's, and a run for a whole one.
    let take_back = format!("DROP TABLE sbtest{table}");
    match &filled {
        Err(LoadError::Interrupted) => session.take_back(&take_back)?,
        // Why it is not whole (a full disk, say) matters more than that it stays.
        Err(LoadError::Refused { .. }) => {
            let _ = session.take_back(&take_back);
        }
        _ => {}
    }
    filled
}

fn fill(
    session: &mut StoppableSession<'_>,
    table: u32,
    options: &Options,
    seed: u64,
) -> Result<(), LoadError> {
    let keys = options.distribution.over(1, options.table_size);
    let mut rng = SmallRng::seed_from_u64(seed ^ u64::from(table));
    let mut row = 1;
    while row <= options.table_size {
        let mut sql = format!("INSERT INTO sbtest{table}(id, k, c, pad) VALUES ");
        while row <= options.table_size && sql.len() < BATCH {
            let comma = if sql.ends_with(' ') { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(sql, "{comma}({row},{},'", keys.draw(&mut rng));
            digits(C, &mut rng, &mut sql);
            sql.push_str("','");
            digits(PAD, &mut rng, &mut sql);
            sql.push_str("')");
            row += 1;
        }
        session.query(&sql)?;
    }
    session.query(&format!("CREATE INDEX k_{table} ON sbtest{table}(k)"))
}

fn digits(template: &str, rng: &mut SmallRng, out: &mut String) {
    out.extend(
        template.chars().map(|c| if c == '#' { char::from(rng.random_range(b'0'..=b'9')) } else { c }),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::Address;
    use lab::scripted::{Reply, Script, ScriptedServer};
    use std::sync::{Arc, Mutex};

    fn target(server: &ScriptedServer) -> Target {
        let account = Account { user: "load".to_owned(), ..Account::default() };
        Target::single(Address::tcp("127.0.0.1", server.address().port()), account)
    }

    #[tokio::test]
    async fn whoever_asks_for_the_end_waits_for_one_statement_and_not_for_all_tables() {
        let (stop, inserts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (asks, counts) = (stop.clone(), inserts.clone());
        let drops = Arc::new(AtomicU32::new(0));
        let dropped = drops.clone();
        let script = Script::new("8.0.39", move |statement, _| {
            if statement.starts_with("INSERT INTO sbtest") {
                asks.store(counts.fetch_add(1, Ordering::Relaxed) == 1, Ordering::Relaxed);
                return Reply::Ok;
            }
            match statement {
                "SELECT 7" => {
                    asks.store(true, Ordering::Relaxed);
                    Reply::value("7", "7")
                }
                "DROP TABLE sbtest1" => {
                    dropped.fetch_add(1, Ordering::Relaxed);
                    Reply::Ok
                }
                _ if statement.starts_with("CREATE") => Reply::Ok,
                _ => Reply::Usual,
            }
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let target = target(&server);
        // Some batches each.
        let options = Options { tables: 2, table_size: 20_000, ..Options::default() };
        let (to, asked) = (target.clone(), stop.clone());
        let made = tokio::task::spawn_blocking(move || prepare_until(&to, &options, 1, 1, &asked, |_| ()));
        let made = made.await.unwrap();
        assert!(matches!(made, Err(LoadError::Interrupted)), "{made:?}");
        assert_eq!(inserts.load(Ordering::Relaxed), 2);
        assert_eq!(drops.load(Ordering::Relaxed), 1, "what is not whole is removed again");

        stop.store(false, Ordering::Relaxed);
        let sent = tokio::task::spawn_blocking(move || {
            statements_until(&target, &["SELECT 7".to_owned(), "SELECT 8".to_owned()], &stop)
        });
        assert!(matches!(sent.await.unwrap(), Err(LoadError::Interrupted)));
    }

    #[tokio::test]
    async fn a_table_that_cannot_be_filled_is_removed_again_and_one_that_was_there_is_not() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let script = Script::new("8.0.39", move |statement, _| {
            log.lock().unwrap().push(statement.chars().take(20).collect::<String>());
            let begins = |with: &str| statement.starts_with(with);
            if begins("CREATE TABLE sbtest2") {
                Reply::error(1050, "it is there")
            } else if begins("INSERT") {
                Reply::error(1114, "The table is full")
            } else if begins("CREATE") || begins("DROP") {
                Reply::Ok
            } else {
                Reply::Usual
            }
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let target = target(&server);
        let options = Options { tables: 2, table_size: 10, ..Options::default() };
        let made = tokio::task::spawn_blocking(move || prepare(&target, &options, 2, 1, |_| ()));
        let why = made.await.unwrap().unwrap_err().to_string();
        assert!(why.contains("error 1114") || why.contains("error 1050"), "{why}");
        let drops: Vec<String> =
            asked.lock().unwrap().iter().filter(|sql| sql.starts_with("DROP")).cloned().collect();
        assert_eq!(drops, ["DROP TABLE sbtest1"]);
    }

    /// A server that is at `SELECT SLEEP` when somebody asks for the end: it ends with this reply, after
    /// `KILL QUERY` of its session or not, and shows the statement to others or not.
    async fn asked_for_the_end(long: Reply, shows: bool) -> (Result<(), LoadError>, Vec<String>) {
        const LONG: &str = " SELECT SLEEP(3600);";
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (asks, log) = (stop.clone(), asked.clone());
        let script = Script::new("8.0.39", move |statement, session| {
            log.lock().unwrap().push(statement.to_owned());
            match statement {
                "SELECT CONNECTION_ID()" => Reply::value("id", &session.connection_id.to_string()),
                LONG => {
                    asks.store(true, Ordering::Relaxed);
                    long.clone()
                }
                _ if statement.starts_with("KILL QUERY") => Reply::Ok,
                // SELECT SLEEP(3600)
                _ if shows && statement.contains("18)) = '53454C45435420534C454550283336303029'") => {
                    Reply::value("ID", "1")
                }
                _ if statement.contains("PROCESSLIST") => Reply::rows(&["ID"], &[]),
                _ => Reply::Usual,
            }
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let target = target(&server);
        let ended = tokio::task::spawn_blocking(move || {
            let peers = target.resolve(Lane::Writer).unwrap();
            let patience = Duration::from_millis(600);
            let way = Way { peer: &peers[0], account: &target.account, tls: None, patience };
            StoppableSession::connect(way, &stop).and_then(|mut session| session.query(LONG))
        });
        let ended = ended.await.unwrap();
        let asked = asked.lock().unwrap().clone();
        (ended, asked)
    }

    #[tokio::test]
    async fn a_long_statement_is_ended_at_the_server_where_it_is_seen() {
        let killed = Reply::error(QUERY_INTERRUPTED, "Query execution was interrupted");
        let (ended, asked) = asked_for_the_end(killed.after(Duration::from_millis(300)), true).await;
        assert!(matches!(ended, Err(LoadError::Interrupted)), "{ended:?}");
        assert_eq!(asked.last().unwrap(), "KILL QUERY 1", "{asked:?}");
    }

    #[tokio::test]
    async fn a_statement_that_does_not_end_is_left_with_what_ends_it_and_nobody_elses_is_ended() {
        let (ended, asked) = asked_for_the_end(Reply::Hang, true).await;
        let words = ended.unwrap_err().to_string();
        assert!(words.contains("still be at 'SELECT SLEEP(3600)': it did not end within 600ms"), "{words}");
        assert!(words.ends_with("; KILL QUERY 1 ends it there"), "{words}");
        assert!(asked.contains(&"KILL QUERY 1".to_owned()));

        // Another server behind the same address, where number 1 is somebody else's.
        let (ended, asked) = asked_for_the_end(Reply::Hang, false).await;
        assert!(ended.unwrap_err().to_string().contains("it was not seen there"));
        assert!(!asked.iter().any(|statement| statement.starts_with("KILL")), "{asked:?}");
    }
}
