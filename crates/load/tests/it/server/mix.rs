//! The same workloads as sysbench's: statements by the server's own digests, keys by a chi-square test.
//!
//! sysbench runs here for a number of events, we for a while; both are counted per event.

use super::stand::Stand;
use load::Distribution;
use load::workload::{Protocol, sysbench};
use mysql_async::prelude::Queryable;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const EVENTS: u32 = 300;
const LIMIT: Duration = Duration::from_secs(60);

/// Runs sysbench over the stand's tables.
async fn run_sysbench(stand: &Stand, workload: &str, more: &[&str]) {
    let account = stand.account();
    let options = Stand::options();
    let mut command = Command::new("sysbench");
    command
        .arg(workload)
        .args(["--db-driver=mysql", "--db-ps-mode=disable", "--threads=1", "--time=60"])
        .arg(format!("--events={EVENTS}"))
        .arg(format!("--mysql-socket={}", stand.socket().display()))
        .arg(format!("--mysql-user={}", account.user))
        .arg(format!("--mysql-password={}", account.password))
        .arg(format!("--mysql-db={}", account.database))
        .arg(format!("--tables={}", options.tables))
        .arg(format!("--table-size={}", options.table_size))
        .args(more)
        .arg("run")
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let output = output.expect("sysbench is needed for this test (scripts/install.sh drivers)");
    assert!(output.status.success(), "sysbench: {}", String::from_utf8_lossy(&output.stdout));
}

/// Statements by digest since the last call, without those of others.
async fn digests(stand: &Stand) -> BTreeMap<String, u64> {
    stand.lab.wait_gone("a1", &stand.account().user, Duration::from_secs(60)).await.unwrap();
    let mut root = stand.root().await;
    let found: Vec<(String, u64)> = root
        .query(
            "SELECT DIGEST_TEXT, COUNT_STAR FROM performance_schema.events_statements_summary_by_digest \
             WHERE SCHEMA_NAME = 'app' AND DIGEST_TEXT IS NOT NULL AND DIGEST_TEXT NOT LIKE 'SET%'",
        )
        .await
        .unwrap();
    root.query_drop("TRUNCATE performance_schema.events_statements_summary_by_digest").await.unwrap();
    root.disconnect().await.unwrap();
    // Which of the tables was hit is chance; that both are is tested with the keys.
    let mut folded = BTreeMap::new();
    for (text, count) in found {
        *folded.entry(text.replace("`sbtest2`", "`sbtest1`")).or_default() += count;
    }
    folded
}

#[tokio::test]
async fn the_servers_own_digests_count_the_same_statements_per_event_as_under_sysbench() {
    let stand = Stand::up(true).await;
    stand.prepare(&Stand::options()).await;
    for (workload, _) in sysbench::WORKLOADS {
        let options = sysbench::Options { protocol: Protocol::Text, ..Stand::options() };
        digests(&stand).await;
        if workload.starts_with("select_random") {
            run_sysbench(&stand, workload, &["--tables=1"]).await;
        } else {
            run_sysbench(&stand, workload, &[]).await;
        }
        let theirs = digests(&stand).await;
        // One client: a deadlock would leave an event half done.
        let outcome = stand.run(load::Plan { clients: 1, ..stand.plan(workload, &options) }).await;
        let ours = digests(&stand).await;
        // The end of the run may find one event under way, its statement already counted by the server.
        let under_way = u64::from(outcome.totals.arrivals > outcome.totals.done);
        let more = ours.values().sum::<u64>() - outcome.totals.queries;
        assert!(more <= under_way, "{workload}: {} sent, {ours:#?}", outcome.totals.queries);
        let events = outcome.transactions[0].done + under_way;
        let per_event = |counts: &BTreeMap<String, u64>, events: u64| -> BTreeMap<String, f64> {
            counts.iter().map(|(text, count)| (text.clone(), *count as f64 / events as f64)).collect()
        };
        assert_eq!(
            per_event(&ours, events),
            per_event(&theirs, u64::from(EVENTS)),
            "{workload}: ours (left) and sysbench's (right), per event"
        );
    }
    stand.down().await;
}

/// Keys of point selects that the server's general log has seen since the last call.
async fn keys(stand: &Stand) -> Vec<u32> {
    let mut root = stand.root().await;
    let statements: Vec<String> = root
        .query("SELECT argument FROM mysql.general_log WHERE command_type = 'Query' AND argument LIKE 'SELECT c FROM sbtest_ WHERE id=%'")
        .await
        .unwrap();
    root.query_drop("TRUNCATE mysql.general_log").await.unwrap();
    root.disconnect().await.unwrap();
    statements.iter().map(|sql| sql.rsplit_once('=').unwrap().1.trim().parse().unwrap()).collect()
}

/// Two samples in equal shares of the pooled keys: chi-square over its degrees of freedom, about 1 for the
/// same law.
fn misfit(a: &[u32], b: &[u32]) -> f64 {
    const BINS: usize = 25;
    let mut pooled: Vec<u32> = a.iter().chain(b).copied().collect();
    pooled.sort_unstable();
    let mut edges: Vec<u32> = (1..BINS).map(|n| pooled[n * pooled.len() / BINS]).collect();
    edges.dedup();
    let count = |keys: &[u32]| {
        let mut counts = vec![0.0; edges.len() + 1];
        keys.iter().for_each(|key| counts[edges.partition_point(|edge| edge <= key)] += 1.0);
        counts
    };
    let (left, right) = (count(a), count(b));
    let (n, m) = (a.len() as f64, b.len() as f64);
    let chi: f64 = left
        .iter()
        .zip(&right)
        .filter(|(x, y)| *x + *y > 0.0)
        .map(|(x, y)| (x * (m / n).sqrt() - y * (n / m).sqrt()).powi(2) / (x + y))
        .sum();
    chi / edges.len() as f64
}

#[tokio::test]
async fn the_keys_that_are_asked_for_follow_sysbenchs_distributions() {
    let stand = Stand::up(false).await;
    stand.prepare(&Stand::options()).await;
    let mut root = stand.root().await;
    root.query_drop("SET GLOBAL log_output = 'TABLE'").await.unwrap();
    root.query_drop("SET GLOBAL general_log = 1").await.unwrap();
    root.disconnect().await.unwrap();
    let mut uniform = Vec::new();
    for name in ["uniform", "gaussian", "special", "pareto"] {
        keys(&stand).await;
        run_sysbench(&stand, "oltp_read_only", &["--range-selects=off", &format!("--rand-type={name}")])
            .await;
        let theirs = keys(&stand).await;
        let options = sysbench::Options {
            protocol: Protocol::Text,
            range_selects: false,
            distribution: Distribution::named(name).unwrap(),
            ..Stand::options()
        };
        assert_eq!(theirs.len(), 10 * EVENTS as usize, "{name}");
        // How many a run sends is the machine's affair.
        let (mut ours, deadline) = (Vec::new(), Instant::now() + LIMIT);
        while ours.len() <= 1000 {
            assert!(Instant::now() < deadline, "{name}: {} keys", ours.len());
            stand.run(stand.plan("oltp_read_only", &options)).await;
            ours.extend(keys(&stand).await);
        }
        let found = misfit(&ours, &theirs);
        // 24 degrees of freedom: 2.5 is beyond one chance in 20,000.
        assert!(found < 2.5, "{name}: chi-square {found} per degree of freedom");
        if name == "uniform" {
            uniform = theirs;
        } else {
            assert!(misfit(&ours, &uniform) > 5.0, "{name} would have passed for uniform");
        }
    }
    stand.down().await;
}
