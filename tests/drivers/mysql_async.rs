//! mysql_async's work through a router, unchanged: what the other runners of this folder do for their
//! drivers. It is compiled into the test that runs them all (`crates/headroom/tests/it/support/driven.rs`),
//! by which the driver comes from its registry.

use anyhow::{Context, Result, bail, ensure};
use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{
    ChangeUserOpts, Conn, Error, IsolationLevel, OptsBuilder, Pool, PoolConstraints, PoolOpts, Row, SslOpts,
    TxOpts, WhiteListFsHandler, params,
};
use serde_json::{Value, json};
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SCHEMA: &str = "drivers_rust";
const DEADLINE: Duration = Duration::from_secs(20);
/// The reader leads to several replicas, and each is as late as it is: this many sessions in a row meet all
/// of them.
const IN_A_ROW: usize = 12;
const BIG: usize = 17 << 20;

/// The addresses under test: the router's reader and writer, and the primary itself.
pub(crate) struct Tier {
    pub(crate) reader: SocketAddrV4,
    pub(crate) writer: SocketAddrV4,
    pub(crate) direct: SocketAddrV4,
    pub(crate) reader_socket: PathBuf,
    pub(crate) user: &'static str,
    pub(crate) password: &'static str,
}

/// Runs every check; the value is the line of JSON that the other runners print.
pub(crate) async fn run(tier: &Tier, version: &str) -> Value {
    let mut checks = Vec::new();
    if let Err(why) = prepare(tier).await {
        checks.push(result("the tier can be reached", Err(why), Duration::ZERO));
    } else {
        // In this order: later checks read tables of earlier ones.
        macro_rules! check {
            ($name:literal, $function:ident) => {
                let began = Instant::now();
                let outcome = $function(tier).await;
                checks.push(result($name, outcome, began.elapsed()));
            };
        }
        check!("text statements and their types", types);
        check!("statements are prepared once and executed often", prepared);
        check!("several results come in order", several_results);
        check!("packets of 17 MiB pass both ways", big_packets);
        check!("LOAD DATA LOCAL sends a file", load_data);
        check!("transactions commit and roll back", transactions);
        check!("a changed user is somebody else", changed_user);
        check!("a reset session has forgotten its state", reset_session);
        check!("a pool gives each task its own answers", pool);
        check!("rows are streamed and may be left half read", streamed);
        check!("a batch is executed row by row", batch);
        check!("errors keep their codes and the session goes on", errors);
        check!("a killed query and a killed session end with an error", killed);
        check!("TLS reaches the server end to end", tls);
        check!("a unix socket serves as well", socket);
    }
    let count = |state: &str| checks.iter().filter(|check| check["state"] == state).count();
    let (passed, failed, skipped) = (count("passed"), count("failed"), count("skipped"));
    json!({ "driver": "mysql_async", "version": version, "passed": passed, "failed": failed, "skipped": skipped, "checks": checks })
}

fn result(name: &str, outcome: Result<()>, took: Duration) -> Value {
    let (state, why) = match outcome {
        Ok(()) => ("passed", String::new()),
        Err(error) => ("failed", format!("{error:#}")),
    };
    json!({ "name": name, "state": state, "why": why, "took_ms": took.as_millis() as u64 })
}

async fn prepare(tier: &Tier) -> Result<()> {
    let mut writer = Conn::new(tier.opts(tier.writer).db_name(None::<String>)).await?;
    writer.query_drop(format!("DROP DATABASE IF EXISTS {SCHEMA}")).await?;
    writer.query_drop(format!("CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4")).await?;
    writer.disconnect().await?;
    // On the schema: it has reached every reader.
    tier.same_everywhere("SELECT 1").await
}

async fn types(tier: &Tier) -> Result<()> {
    let mut writer = tier.open(tier.writer).await?;
    writer.query_drop("CREATE TABLE kinds (id INT PRIMARY KEY, big BIGINT UNSIGNED, words TEXT, raw VARBINARY(64), at DATETIME(6), gone INT)").await?;
    let raw: Vec<u8> = (0..64).collect();
    let row =
        params! { "big" => u64::MAX, "words" => "Grüße 🦀 '\\", "raw" => raw.clone(), "gone" => None::<i32> };
    writer
        .exec_drop(
            "INSERT INTO kinds VALUES (1, :big, :words, :raw, '1999-12-31 23:59:59.999999', :gone)",
            row,
        )
        .await?;
    tier.same_everywhere("SELECT * FROM kinds").await?;
    let mut reader = tier.open(tier.reader).await?;
    type Kinds = (i32, u64, String, Vec<u8>, mysql_async::Value, Option<i32>);
    for row in [
        reader.query_first("SELECT * FROM kinds").await?,
        reader.exec_first("SELECT * FROM kinds", ()).await?,
    ] {
        let (id, big, words, bytes, _, gone): Kinds = row.context("a row")?;
        ensure!((id, big, words.as_str(), gone) == (1, u64::MAX, "Grüße 🦀 '\\", None) && bytes == raw);
    }
    Ok(())
}

async fn prepared(tier: &Tier) -> Result<()> {
    let mut reader = tier.open(tier.reader).await?;
    for _ in 0..10 {
        let statement = reader.prep("SELECT ? * 2, ?").await?;
        for n in 0..50 {
            let got: Option<(i64, String)> = reader.exec_first(&statement, (n, format!("n{n}"))).await?;
            ensure!(got == Some((n * 2, format!("n{n}"))), "{got:?}");
        }
        reader.close(statement).await?;
    }
    fails(reader.prep("SELECT * FROM not_there WHERE id = ?").await, &[1146])
}

async fn several_results(tier: &Tier) -> Result<()> {
    let mut reader = tier.open(tier.reader).await?;
    let mut results = reader.query_iter("SELECT 1; DO 0; SELECT 'two'").await?;
    let one: Vec<u8> = results.collect().await?;
    let none: Vec<Row> = results.collect().await?;
    let two: Vec<String> = results.collect().await?;
    ensure!(one == [1] && none.is_empty() && two == ["two"], "{one:?} {none:?} {two:?}");
    drop(results);
    let mut writer = tier.open(tier.writer).await?;
    writer.query_drop("CREATE PROCEDURE twice(n INT) BEGIN SELECT n; SELECT n + 1; END").await?;
    let mut results = writer.exec_iter("CALL twice(?)", (21,)).await?;
    let (first, second): (Vec<i64>, Vec<i64>) = (results.collect().await?, results.collect().await?);
    ensure!(first == [21] && second == [22], "{first:?} {second:?}");
    Ok(())
}

async fn big_packets(tier: &Tier) -> Result<()> {
    let mut writer = Conn::new(tier.opts(tier.writer).max_allowed_packet(Some(64 << 20))).await?;
    let body: String = (0..BIG).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
    let text: Option<(usize, u32)> =
        writer.query_first(format!("SELECT LENGTH('{body}'), CRC32('{body}')")).await?;
    let binary: Option<(usize, u32)> =
        writer.exec_first("SELECT LENGTH(?), CRC32(?)", (&body, &body)).await?;
    ensure!(text == binary && text.is_some_and(|(length, _)| length == BIG), "{text:?} {binary:?}");
    for size in [(1 << 24) - 5, (1 << 24) - 4, BIG] {
        let big: Option<String> = writer.exec_first("SELECT REPEAT('y', ?)", (size,)).await?;
        ensure!(big.is_some_and(|y| y.len() == size), "{size} bytes");
    }
    Ok(())
}

async fn load_data(tier: &Tier) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    let lines: String = (0..20_000).map(|n| format!("{n}\tline {n}\n")).collect();
    std::fs::write(file.path(), lines)?;
    let path = file.path();
    let handler = WhiteListFsHandler::new([path]);
    let mut writer = Conn::new(tier.opts(tier.writer).local_infile_handler(Some(handler))).await?;
    writer.query_drop("CREATE TABLE loaded (id INT PRIMARY KEY, words VARCHAR(40))").await?;
    writer.query_drop(format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE loaded", path.display())).await?;
    ensure!(writer.affected_rows() == 20_000, "{} rows", writer.affected_rows());
    let refused = writer.query_drop("LOAD DATA LOCAL INFILE '/nowhere/at/all' INTO TABLE loaded").await;
    ensure!(refused.is_err(), "a file that was not offered was sent");
    let mut fresh = tier.open(tier.writer).await?;
    let count: Option<u32> = fresh.query_first("SELECT COUNT(*) FROM loaded").await?;
    ensure!(count == Some(20_000));
    tier.same_everywhere("SELECT COUNT(*), SUM(CRC32(CONCAT(id, words))) FROM loaded").await
}

async fn transactions(tier: &Tier) -> Result<()> {
    let mut writer = tier.open(tier.writer).await?;
    writer.query_drop("CREATE TABLE account (id INT PRIMARY KEY, amount INT) ENGINE=InnoDB").await?;
    for (id, commit) in [(1, true), (2, false)] {
        let mut options = TxOpts::default();
        options.with_isolation_level(IsolationLevel::ReadCommitted);
        let mut transaction = writer.start_transaction(options).await?;
        transaction.exec_drop("INSERT INTO account VALUES (?, 100)", (id,)).await?;
        if commit { transaction.commit().await? } else { transaction.rollback().await? }
    }
    let rows: Vec<(i32, i32)> = writer.query("SELECT * FROM account").await?;
    ensure!(rows == [(1, 100)], "{rows:?}");
    tier.same_everywhere("SELECT * FROM account").await
}

async fn changed_user(tier: &Tier) -> Result<()> {
    let mut admin = tier.open(tier.writer).await?;
    admin.query_drop("DROP USER IF EXISTS drivers_rust_other").await?;
    admin.query_drop("CREATE USER drivers_rust_other IDENTIFIED BY 'other'").await?;
    admin.query_drop(format!("GRANT SELECT ON {SCHEMA}.* TO drivers_rust_other")).await?;
    let mut session = tier.open(tier.writer).await?;
    let (before, somebody) = (session.id(), "drivers_rust_other".to_owned());
    let other =
        ChangeUserOpts::default().with_user(Some(somebody.clone())).with_pass(Some("other".to_owned()));
    session.change_user(other).await?;
    let now: Option<(String, u32)> =
        session.query_first("SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1), CONNECTION_ID()").await?;
    ensure!(now == Some((somebody, before)), "{now:?}");
    admin.query_drop("DROP USER drivers_rust_other").await?;
    Ok(())
}

async fn reset_session(tier: &Tier) -> Result<()> {
    let mut reader = tier.open(tier.reader).await?;
    reader.query_drop("SET @mine = 1").await?;
    ensure!(reader.reset().await?, "the driver believes that the server cannot");
    let now: Option<(Option<i64>, String)> = reader.query_first("SELECT @mine, DATABASE()").await?;
    ensure!(now == Some((None, SCHEMA.to_owned())), "{now:?}");
    Ok(())
}

async fn pool(tier: &Tier) -> Result<()> {
    let size = PoolConstraints::new(1, 8).context("a pool of 1 to 8")?;
    let pool = Pool::new(tier.opts(tier.reader).pool_opts(PoolOpts::default().with_constraints(size)));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..200 {
        let pool = pool.clone();
        tasks.spawn(async move {
            let mut session = pool.get_conn().await?;
            let got: Option<(i64, String)> =
                session.exec_first("SELECT ?, words FROM loaded WHERE id = ?", (n, n)).await?;
            ensure!(got == Some((n, format!("line {n}"))), "{got:?}");
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(pool.disconnect().await?)
}

async fn streamed(tier: &Tier) -> Result<()> {
    let mut sums = Vec::new();
    for address in [tier.direct, tier.reader] {
        let mut session = tier.open(address).await?;
        let mut rows = session.query_iter("SELECT id, words FROM loaded ORDER BY id").await?;
        let mut sum = 0u64;
        while let Some(row) = rows.next().await? {
            let (id, words) = <(u64, String)>::from_row(row);
            sum = words
                .bytes()
                .fold(sum.wrapping_mul(31).wrapping_add(id), |sum, b| sum.wrapping_mul(31) ^ u64::from(b));
        }
        sums.push(sum);
    }
    ensure!(sums[0] == sums[1], "{sums:?}");
    let mut session = tier.open(tier.reader).await?;
    let mut rows = session.query_iter("SELECT a.id FROM loaded a JOIN loaded b ON b.id < 20").await?;
    ensure!(rows.next().await?.is_some());
    // What is left of them is read by the driver before the next statement.
    drop(rows);
    let one: Option<u8> = session.query_first("SELECT 1").await?;
    ensure!(one == Some(1));
    Ok(())
}

async fn batch(tier: &Tier) -> Result<()> {
    let mut writer = tier.open(tier.writer).await?;
    writer.query_drop("CREATE TABLE many (id INT PRIMARY KEY, words VARCHAR(40))").await?;
    let mut transaction = writer.start_transaction(TxOpts::default()).await?;
    transaction
        .exec_batch("INSERT INTO many VALUES (?, ?)", (0..1000).map(|n| (n, format!("row {n}"))))
        .await?;
    transaction.commit().await?;
    tier.same_everywhere("SELECT COUNT(*), SUM(CRC32(words)) FROM many").await
}

async fn errors(tier: &Tier) -> Result<()> {
    let mut writer = tier.open(tier.writer).await?;
    fails(writer.query_drop("INSERT INTO account VALUES (1, 1)").await, &[1062])?;
    fails(writer.query_drop("SELECT * FROM not_there").await, &[1146])?;
    fails(writer.query_drop("SELEKT 1").await, &[1064])?;
    let one: Option<u8> = writer.query_first("SELECT 1").await?;
    ensure!(one == Some(1));
    for address in [tier.reader, tier.writer] {
        fails(Conn::new(tier.opts(address).pass(Some("not it"))).await, &[1045])?;
        fails(Conn::new(tier.opts(address).db_name(Some("drivers_nowhere"))).await, &[1049])?;
    }
    Ok(())
}

async fn killed(tier: &Tier) -> Result<()> {
    for how in ["KILL QUERY", "KILL"] {
        let mut victim = tier.open(tier.writer).await?;
        let id = victim.id();
        let asleep = tokio::spawn(async move {
            let outcome = victim.query_drop("SELECT id FROM loaded WHERE SLEEP(0.1) = 0").await;
            (victim, outcome)
        });
        let mut direct = tier.open(tier.direct).await?;
        let look =
            format!("SELECT 1 FROM information_schema.processlist WHERE id = {id} AND info LIKE '%SLEEP%'");
        let end = Instant::now() + DEADLINE;
        while direct.query_first::<u8, _>(look.as_str()).await?.is_none() {
            ensure!(Instant::now() < end, "the victim does not sleep");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tier.open(tier.writer).await?.query_drop(format!("{how} {id}")).await?;
        let (mut victim, outcome) = asleep.await?;
        if how == "KILL QUERY" {
            fails(outcome, &[1317])?;
            ensure!(victim.query_first::<u8, _>("SELECT 1").await? == Some(1));
        } else {
            ensure!(outcome.is_err(), "a killed session answered");
        }
    }
    Ok(())
}

async fn tls(tier: &Tier) -> Result<()> {
    let any =
        SslOpts::default().with_danger_accept_invalid_certs(true).with_danger_skip_domain_validation(true);
    for address in [tier.reader, tier.writer] {
        let mut session = Conn::new(tier.opts(address).ssl_opts(any.clone())).await?;
        let cipher: Option<(String, String)> = session.query_first("SHOW STATUS LIKE 'Ssl_cipher'").await?;
        ensure!(cipher.is_some_and(|(_, cipher)| !cipher.is_empty()), "no cipher through {address}");
        let rows: Vec<(u32, String)> = session.query("SELECT * FROM loaded").await?;
        ensure!(rows.len() == 20_000);
        ensure!(
            Conn::new(tier.opts(address).ssl_opts(SslOpts::default())).await.is_err(),
            "a stranger's certificate was trusted"
        );
    }
    Ok(())
}

async fn socket(tier: &Tier) -> Result<()> {
    let path = tier.reader_socket.display().to_string();
    let mut session = Conn::new(tier.opts(tier.reader).socket(Some(path))).await?;
    let rows: Option<u32> = session.query_first("SELECT COUNT(*) FROM account").await?;
    ensure!(rows == Some(1));
    Ok(())
}

impl Tier {
    fn opts(&self, address: SocketAddrV4) -> OptsBuilder {
        OptsBuilder::default()
            .ip_or_hostname(address.ip().to_string())
            .tcp_port(address.port())
            .prefer_socket(Some(false))
            .user(Some(self.user))
            .pass(Some(self.password))
            .db_name(Some(SCHEMA))
    }

    async fn open(&self, address: SocketAddrV4) -> Result<Conn, Error> {
        Conn::new(self.opts(address)).await
    }

    async fn rows(&self, address: SocketAddrV4, sql: &str) -> Result<Vec<Vec<mysql_async::Value>>> {
        let mut session = self.open(address).await?;
        let rows: Vec<Row> = session.query(sql).await?;
        Ok(rows.into_iter().map(Row::unwrap).collect())
    }

    async fn same_everywhere(&self, sql: &str) -> Result<()> {
        let truth = self.rows(self.direct, sql).await?;
        until(sql, async || {
            for _ in 0..IN_A_ROW {
                if self.rows(self.reader, sql).await? != truth {
                    return Ok(false);
                }
            }
            Ok(true)
        })
        .await?;
        ensure!(self.rows(self.writer, sql).await? == truth, "the writer answers otherwise to {sql}");
        Ok(())
    }
}

async fn until(what: &str, test: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + DEADLINE;
    loop {
        let last = match test().await {
            Ok(true) => return Ok(()),
            Ok(false) => String::new(),
            Err(error) => error.to_string(),
        };
        ensure!(Instant::now() < end, "not within {DEADLINE:?}: {what} {last}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn fails<T>(outcome: Result<T, Error>, codes: &[u16]) -> Result<()> {
    match outcome {
        Ok(_) => bail!("expected {codes:?}, got no error"),
        Err(Error::Server(error)) if codes.contains(&error.code) => Ok(()),
        Err(error) => bail!("expected {codes:?}, got {error}"),
    }
}

/// The driver's version, as the workspace has locked it.
pub(crate) fn version(root: &Path) -> String {
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).unwrap_or_default();
    let after = lock.split("name = \"mysql_async\"\nversion = \"").nth(1);
    after.and_then(|rest| rest.split('"').next()).unwrap_or("unknown").to_owned()
}
