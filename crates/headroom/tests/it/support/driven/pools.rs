//! Real pools under a primary that moves: applications with Go's database/sql, SQLAlchemy, mysql2's pool and
//! HikariCP write through the router while `headroom switchover` moves the primary there and back. What each
//! was told is held against the rows. docs/guide/switchover.md says what each pool sees; this is its test.

use super::router::Router;
use super::{PASSWORD, USER, create_account, log_in_everywhere, prepare, spec};
use lab::{Account, Lab};
use mysql_async::prelude::Queryable;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A pool, and whether it sends a check before it hands a connection out: then no statement may fail.
const POOLS: [(&str, bool); 5] = [
    ("sqlalchemy", true),
    ("hikari-checked", true),
    // Looks whether the socket is closed, and sends nothing: it may be closed the moment after.
    ("go-pool", false),
    // The same, when it comes to it.
    ("mysql2-pool", false),
    // Looks only at those that were idle for half a second.
    ("hikari", false),
];
/// Ids that each pool may write.
const IDS: i64 = 1_000_000;
/// Rows that each pool writes before, between and after the moves.
const ROWS: i64 = 40;
const WITHIN: Duration = Duration::from_secs(60);

/// Moves the primary under all pools at once, there and back.
pub(crate) async fn pools_go_on_while_the_primary_moves(program: Option<PathBuf>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    prepare(&root);
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&spec(&root, program), base.path()).await.unwrap();
    create_account(&lab).await;
    log_in_everywhere(&lab).await;
    let mut primary = lab.connect("a1").await.unwrap();
    primary.query_drop("CREATE TABLE app.writes (id BIGINT NOT NULL PRIMARY KEY)").await.unwrap();
    for replica in ["a2", "b1"] {
        lab.wait_applied(replica, "a1", WITHIN).await.unwrap();
    }
    let router = Router::start(&lab).await;
    router.wait_ready().await;
    let mut pools: Vec<Pool> =
        POOLS.iter().enumerate().map(|(at, _)| Pool::start(&root, &lab, at, &router)).collect();
    wait_for_rows(&lab, "a1", &mut pools).await;
    let drilled = switchover(&lab, "a2", &["--drill"]).await;
    assert!(drilled.contains("a1 still takes writes") && drilled.contains("it was a drill"), "{drilled}");
    wait_for_rows(&lab, "a1", &mut pools).await;
    for to in ["a2", "a1"] {
        switch(&lab, to).await;
        wait_for_rows(&lab, to, &mut pools).await;
    }
    let told: Vec<Value> = pools.into_iter().map(Pool::stop).collect();
    let mut conn = lab.connect("a1").await.unwrap();
    let rows: Vec<i64> = conn.query("SELECT id FROM app.writes ORDER BY id").await.unwrap();
    let rows: BTreeSet<i64> = rows.into_iter().collect();
    let log = router.stop();
    lab.down().await.unwrap();
    let wrong: Vec<String> =
        POOLS.iter().zip(&told).flat_map(|(pool, told)| faults(*pool, told, &rows)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}\nthe router's last words:\n{log}");
    let invented: Vec<&i64> = rows.iter().filter(|id| !told.iter().any(|told| sent(told, **id))).collect();
    assert!(invented.is_empty(), "written by nobody: {invented:?}");
}

struct Pool {
    name: &'static str,
    base: i64,
    child: Child,
    /// What it and its driver complain of.
    log: PathBuf,
    /// Rows seen so far.
    rows: i64,
}

impl Pool {
    fn start(root: &Path, lab: &Lab, at: usize, router: &Router) -> Self {
        let (name, base) = (POOLS[at].0, at as i64 * IDS);
        let log = lab.dir().join(format!("{name}.log"));
        let child = Command::new("tests/drivers/run.sh")
            .args([name, "--writer", &router.writer.to_string(), "--user", USER, "--base", &base.to_string()])
            .env("DRIVERS_PASSWORD", PASSWORD)
            .current_dir(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self { name, base, child, log, rows: 0 }
    }

    /// Its line of JSON, once its standard input has ended.
    fn stop(mut self) -> Value {
        drop(self.child.stdin.take());
        let output = self.child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        serde_json::from_str(text.trim())
            .unwrap_or_else(|error| panic!("{}: {error}: {text}\n{log}", self.name))
    }
}

/// Until each pool has written on this server what was asked for, beyond what it had.
async fn wait_for_rows(lab: &Lab, server: &str, pools: &mut [Pool]) {
    let mut conn = lab.connect(server).await.unwrap();
    let deadline = Instant::now() + WITHIN;
    for pool in pools {
        let ask =
            format!("SELECT COUNT(*) FROM app.writes WHERE id > {} AND id <= {}", pool.base, pool.base + IDS);
        let before = pool.rows;
        while pool.rows < before + ROWS {
            assert!(
                Instant::now() < deadline,
                "{} has written only {} rows on {server}",
                pool.name,
                pool.rows
            );
            assert!(pool.child.try_wait().unwrap().is_none(), "{} has ended", pool.name);
            tokio::time::sleep(Duration::from_millis(50)).await;
            pool.rows = conn.query_first(&ask).await.unwrap().unwrap();
        }
    }
}

async fn switch(lab: &Lab, to: &str) {
    let said = switchover(lab, to, &[]).await;
    assert!(said.contains("1 routers held, of 1 that were ready"), "{said}");
}

/// What it said; it must have ended with 0.
async fn switchover(lab: &Lab, to: &str, more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
    command
        .args(["switchover", to, "--yes", "--hold", "20s", "--drain", "20s", "--freeze", "20s"])
        .args(["--last-writes", "60s", "--max-lag", "60s", "--config"])
        .arg(lab.dir().join("drivers.toml"))
        .args(more)
        .arg("--admin-option-file")
        .arg(lab.credentials_file(Account::Admin))
        .arg("--replication-option-file")
        .arg(lab.credentials_file(Account::Repl))
        .arg("--journal")
        .arg(lab.dir().join("journals"));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert_eq!(output.status.code(), Some(0), "{said}");
    said
}

fn ids(told: &Value, which: &str) -> Vec<i64> {
    told[which].as_array().unwrap().iter().map(|id| id.as_i64().unwrap()).collect()
}

/// A transaction that failed before its commit is in neither list, and was rolled back.
fn sent(told: &Value, id: i64) -> bool {
    ids(told, "acknowledged").contains(&id) || ids(told, "unknown").contains(&id)
}

/// What must not happen to a pool: something acknowledged is lost; a statement fails although the pool looks
/// at connections; an error of another kind than a lost connection.
fn faults((name, checks): (&str, bool), told: &Value, rows: &BTreeSet<i64>) -> Vec<String> {
    let mut wrong = Vec::new();
    let acknowledged = ids(told, "acknowledged");
    let lost: Vec<&i64> = acknowledged.iter().filter(|id| !rows.contains(id)).collect();
    if !lost.is_empty() {
        wrong.push(format!("{name}: acknowledged and lost: {lost:?}"));
    }
    let errors = told["errors"].as_object().unwrap();
    for (error, count) in errors {
        let held = error.starts_with("held: ");
        if !held && (checks || !is_lost_connection(error)) {
            wrong.push(format!("{name}: {count} x {error}"));
        }
    }
    wrong
}

fn is_lost_connection(error: &str) -> bool {
    [
        "Communications link failure",
        "invalid connection",
        "Connection lost",
        "closed state",
        "ECONNRESET",
        "EPIPE",
    ]
    .iter()
    .any(|words| error.contains(words))
}
