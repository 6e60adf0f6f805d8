//! Tables, made and removed. sysbench's have the same columns, indexes and kind of contents as `sysbench
//! prepare` makes, so that either tool can prepare and both can run.

use crate::error::LoadError;
use crate::login::Account;
use crate::session::Session;
use crate::target::{Peer, Target};
use crate::workload::Lane;
use crate::workload::sysbench::{C, Options, PAD};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Bytes of an INSERT, about: below `max_allowed_packet` wherever that is not very small.
const BATCH: usize = 512 * 1024;

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

/// Makes and fills the tables, `sessions` at a time. `made` is called for each that is ready.
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

/// The same, until somebody asks for the end: the tables are then there by half.
///
/// # Errors
/// As [`prepare`], and [`LoadError::Interrupted`].
pub fn prepare_until(
    target: &Target,
    options: &Options,
    sessions: u32,
    seed: u64,
    stop: &AtomicBool,
    made: impl Fn(u32) + Sync,
) -> Result<(), LoadError> {
    each_table(target, options, sessions, |session, table| {
        make(session, table, options, seed, stop)?;
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

/// The same, until somebody asks for the end: no further one is sent then.
///
/// # Errors
/// As [`statements`], and [`LoadError::Interrupted`].
pub fn statements_until(target: &Target, statements: &[String], stop: &AtomicBool) -> Result<(), LoadError> {
    let peers = target.resolve(Lane::Writer)?;
    let mut session = Session::connect(peers[0].clone(), &target.account, target.tls_client()?.as_ref())?;
    statements.iter().try_for_each(|sql| {
        go_on(stop)?;
        session.query(sql).map(|_| ())
    })
}

fn go_on(stop: &AtomicBool) -> Result<(), LoadError> {
    if stop.load(Ordering::Relaxed) { Err(LoadError::Interrupted) } else { Ok(()) }
}

/// Removes the tables.
///
/// # Errors
/// The server's words.
pub fn cleanup(target: &Target, options: &Options) -> Result<(), LoadError> {
    each_table(target, options, 1, |session, table| {
        session.query(&format!("DROP TABLE IF EXISTS sbtest{table}")).map(|_| ())
    })
}

fn each_table(
    target: &Target,
    options: &Options,
    sessions: u32,
    work: impl Fn(&mut Session, u32) -> Result<(), LoadError> + Sync,
) -> Result<(), LoadError> {
    let peers = target.resolve(Lane::Writer)?;
    let tls = target.tls_client()?;
    let next = AtomicU32::new(1);
    let one = |peer: &Peer, account: &Account| -> Result<(), LoadError> {
        let mut session = Session::connect(peer.clone(), account, tls.as_ref())?;
        loop {
            let table = next.fetch_add(1, Ordering::Relaxed);
            if table > options.tables {
                return Ok(());
            }
            work(&mut session, table)?;
        }
    };
    std::thread::scope(|scope| {
        let sessions = sessions.clamp(1, options.tables.max(1));
        let threads: Vec<_> =
            (0..sessions).map(|_| scope.spawn(|| one(&peers[0], &target.account))).collect();
        let outcomes = threads.into_iter().map(|t| t.join().unwrap_or(Err(LoadError::ThreadLost)));
        outcomes.collect()
    })
}

fn make(
    session: &mut Session,
    table: u32,
    options: &Options,
    seed: u64,
    stop: &AtomicBool,
) -> Result<(), LoadError> {
    go_on(stop)?;
    let id = if options.auto_inc { "INTEGER NOT NULL AUTO_INCREMENT" } else { "INTEGER NOT NULL" };
    session.query(&format!(
        "CREATE TABLE sbtest{table}(id {id}, k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, \
         pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)) ENGINE=InnoDB"
    ))?;
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
        go_on(stop)?;
        session.query(&sql)?;
    }
    go_on(stop)?;
    session.query(&format!("CREATE INDEX k_{table} ON sbtest{table}(k)")).map(|_| ())
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
    use std::sync::Arc;

    #[tokio::test]
    async fn whoever_asks_for_the_end_waits_for_one_statement_and_not_for_all_tables() {
        let (stop, inserts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (asks, counts) = (stop.clone(), inserts.clone());
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
                _ if statement.starts_with("CREATE") => Reply::Ok,
                _ => Reply::Usual,
            }
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let account = Account { user: "load".to_owned(), ..Account::default() };
        let target = Target::single(Address::tcp("127.0.0.1", server.address().port()), account);
        // Some batches each.
        let options = Options { tables: 2, table_size: 20_000, ..Options::default() };
        let (to, asked) = (target.clone(), stop.clone());
        let made = tokio::task::spawn_blocking(move || prepare_until(&to, &options, 1, 1, &asked, |_| ()));
        let made = made.await.unwrap();
        assert!(matches!(made, Err(LoadError::Interrupted)), "{made:?}");
        assert_eq!(inserts.load(Ordering::Relaxed), 2);

        stop.store(false, Ordering::Relaxed);
        let sent = tokio::task::spawn_blocking(move || {
            statements_until(&target, &["SELECT 7".to_owned(), "SELECT 8".to_owned()], &stop)
        });
        assert!(matches!(sent.await.unwrap(), Err(LoadError::Interrupted)));
    }
}
