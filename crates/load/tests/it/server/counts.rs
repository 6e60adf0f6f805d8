//! What the client counted is what the servers counted: by their own counters of statements, on several
//! servers, with idle connections, with values from tables.

use super::stand::Stand;
use fleet::Address;
use lab::Spec;
use load::workload::file::File;
use load::workload::{Lane, Workload};
use load::{LoadError, Outcome, Plan, PlanError, Target};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

const VERBS: [&str; 6] = ["SELECT", "INSERT", "UPDATE", "DELETE", "BEGIN", "COMMIT"];

/// Statements by their first word, since the server started. The session must have been there before: a new
/// one asks something itself.
async fn counted(session: &mut Conn) -> BTreeMap<&'static str, u64> {
    let found: Vec<(String, u64)> = session.query("SHOW GLOBAL STATUS LIKE 'Com\\_%'").await.unwrap();
    let of = |verb: &str| {
        let name = format!("Com_{}", verb.to_lowercase());
        found.iter().find(|(found, _)| *found == name).map_or(0, |(_, count)| *count)
    };
    VERBS.map(|verb| (verb, of(verb))).into()
}

fn since(
    before: &BTreeMap<&'static str, u64>,
    after: &BTreeMap<&'static str, u64>,
) -> BTreeMap<&'static str, u64> {
    after.iter().map(|(verb, count)| (*verb, count - before[verb])).collect()
}

/// What the client counted on a lane.
fn sent(workload: &Workload, outcome: &Outcome, lane: Option<Lane>) -> BTreeMap<&'static str, u64> {
    let mut counts: BTreeMap<&'static str, u64> = VERBS.map(|verb| (verb, 0)).into();
    for (statement, kind) in workload.statements.iter().zip(&outcome.statements) {
        if lane.is_none_or(|lane| statement.lane == lane) {
            let verb = VERBS.into_iter().find(|verb| statement.sql(0).starts_with(verb)).unwrap();
            *counts.get_mut(verb).unwrap() += kind.done + kind.failed;
        }
    }
    counts
}

/// A primary and its replica.
async fn pair() -> Stand {
    Stand::with(Spec::new(&[("a", 2)])).await
}

fn address(stand: &Stand, server: &str) -> Address {
    let at = stand.lab.real(server).unwrap();
    Address::tcp(at.ip().to_string(), at.port())
}

/// Waits until a replica has a row of the primary's.
async fn until(session: &mut Conn, question: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while session.query_first::<u64, _>(question).await.ok().flatten() != Some(1) {
        assert!(Instant::now() < deadline, "never came true: {question}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn issuance_reads_at_the_reader_and_writes_at_the_writer_and_both_counted_the_same() {
    let stand = pair().await;
    let file = File::built_in("issuance").unwrap();
    stand.statements(&file.prepare).await;
    let (mut writer, mut reader) =
        (stand.lab.connect("a1").await.unwrap(), stand.lab.connect("a2").await.unwrap());
    until(&mut reader, "SELECT COUNT(*) = 100 FROM app.crlShards").await;
    let workload = Arc::new(file.workload);
    let before = (counted(&mut writer).await, counted(&mut reader).await);
    let target = Target {
        readers: vec![address(&stand, "a2")],
        writers: vec![address(&stand, "a1")],
        ..stand.target()
    };
    let outcome = stand
        .run(Plan {
            workload: workload.clone(),
            target,
            time: Duration::from_secs(1),
            ..stand.plan("oltp_point_select", &Stand::options())
        })
        .await;
    let after = (counted(&mut writer).await, counted(&mut reader).await);
    assert_eq!(outcome.totals.unfinished, 0, "{:?}", outcome.totals);
    let at_reader = since(&before.1, &after.1)["SELECT"];
    assert_eq!(at_reader, sent(&workload, &outcome, Some(Lane::Reader))["SELECT"], "at the reader");
    let mut at_writer = since(&before.0, &after.0);
    let mut to_writer = sent(&workload, &outcome, Some(Lane::Writer));
    if outcome.totals.failed > 0 {
        // A statement that failed may not have come as far as the server's counter.
        for verb in ["INSERT", "UPDATE"] {
            assert!(at_writer.remove(verb) <= to_writer.remove(verb), "{verb}");
        }
    }
    assert_eq!(at_writer, to_writer, "at the writer");
    for session in [writer, reader] {
        session.disconnect().await.unwrap();
    }
    stand.down().await;
}

#[tokio::test]
async fn several_readers_share_the_clients_evenly() {
    let stand = pair().await;
    stand.prepare(&Stand::options()).await;
    let mut sessions = vec![stand.lab.connect("a1").await.unwrap(), stand.lab.connect("a2").await.unwrap()];
    // Both indexes: a table that changes once more makes the server execute a prepared statement twice.
    until(
        &mut sessions[1],
        "SELECT COUNT(*) = 2 FROM information_schema.statistics WHERE index_name IN ('k_1', 'k_2') AND table_schema = 'app'",
    )
    .await;
    let mut before = Vec::new();
    for session in &mut sessions {
        before.push(counted(session).await);
    }
    let target = Target { readers: vec![address(&stand, "a1"), address(&stand, "a2")], ..stand.target() };
    let plan = stand.plan("oltp_point_select", &Stand::options());
    let (workload, plan) = (plan.workload.clone(), Plan { target, clients: 8, ..plan });
    let outcome = stand.run(plan).await;
    let mut all = 0;
    for (session, before) in sessions.iter_mut().zip(&before) {
        let selects = since(before, &counted(session).await)["SELECT"];
        assert!(selects > 0, "one of the readers was not asked");
        all += selects;
    }
    assert_eq!(all, sent(&workload, &outcome, None)["SELECT"], "{:?}", outcome.totals);
    for session in sessions {
        session.disconnect().await.unwrap();
    }
    stand.down().await;
}

/// Each connection leaves its number, and how often it came.
const SEEN: &str = r#"
name = "seen"
prepare = ["CREATE TABLE app.seen (id BIGINT PRIMARY KEY, times BIGINT NOT NULL)"]
[statements]
come = { sql = "INSERT INTO seen VALUES (CONNECTION_ID(), 1) ON DUPLICATE KEY UPDATE times = times + 1", to = "writer" }
[[transaction]]
name = "come"
steps = ["come"]
"#;

#[tokio::test]
async fn idle_connections_are_open_and_all_of_them_take_turns() {
    let stand = Stand::up(false).await;
    let file = File::parse(SEEN, "seen.toml").unwrap();
    stand.statements(&file.prepare).await;
    let mut root = stand.root().await;
    for arrivals in [load::Arrivals::closed(), load::Arrivals::poisson(400.0)] {
        root.query_drop("TRUNCATE app.seen").await.unwrap();
        let plan = Plan {
            workload: Arc::new(file.workload.clone()),
            clients: 3,
            idle: 45,
            arrivals: arrivals.clone(),
            time: Duration::from_secs(1),
            ..stand.plan("oltp_point_select", &Stand::options())
        };
        let outcome = stand.run(plan).await;
        let seen: Option<(u64, u64, u64)> =
            root.query_first("SELECT COUNT(*), SUM(times), MAX(times) FROM app.seen").await.unwrap();
        let (connections, times, most) = seen.unwrap();
        assert_eq!((connections, times), (48, outcome.totals.queries), "{arrivals:?}");
        // In turn: nobody comes much more often than the others.
        assert!(most * 48 < times * 3, "{most} of {times} by one connection, {arrivals:?}");
        assert_eq!((outcome.clients, outcome.idle), (3, 45));
    }
    root.disconnect().await.unwrap();
    stand.down().await;
}

/// Reads what it wrote itself, by values that a query gives.
const PICKED: &str = r#"
name = "picked"
prepare = [
  "CREATE TABLE app.item (id INT PRIMARY KEY, colour VARCHAR(10) NOT NULL, asked INT NOT NULL DEFAULT 0)",
  "INSERT INTO app.item (id, colour) VALUES (-3, 'red'), (7, 'blue'), (12, 'it''s')",
]
[values]
item = "number from SELECT id FROM item WHERE id > 0"
colour = "text from SELECT colour FROM item"
[statements]
ask = { sql = "UPDATE item SET asked = asked + 1 WHERE id = :item", to = "writer" }
find = { sql = "SELECT id FROM item WHERE colour = :colour" }
[[transaction]]
name = "pick"
steps = ["ask", "find"]
"#;

#[tokio::test]
async fn values_are_drawn_from_a_table_of_the_server() {
    let stand = Stand::up(false).await;
    let file = File::parse(PICKED, "picked.toml").unwrap();
    stand.statements(&file.prepare).await;
    for protocol in [load::workload::Protocol::Prepared, load::workload::Protocol::Text] {
        let workload = file.clone().with_protocol(protocol).workload;
        let plan = Plan {
            workload: workload.into(),
            clients: 1,
            ..stand.plan("oltp_point_select", &Stand::options())
        };
        let outcome = stand.run(plan).await;
        let find = outcome.statements.iter().find(|kind| kind.name == "find").unwrap();
        assert!(find.done > 10 && find.rows == find.done, "{protocol:?}: {find:?}");
    }
    let mut root = stand.root().await;
    let asked: Vec<(i32, u32)> = root.query("SELECT id, asked FROM app.item ORDER BY id").await.unwrap();
    assert!(asked[0] == (-3, 0) && asked[1].1 > 0 && asked[2].1 > 0, "{asked:?}");
    root.query_drop("DELETE FROM app.item").await.unwrap();
    root.disconnect().await.unwrap();
    let plan = Plan { workload: file.workload.into(), ..stand.plan("oltp_point_select", &Stand::options()) };
    let error = stand.try_run(plan).await.unwrap_err();
    assert!(error.to_string().contains("gives no row"), "{error}");
    stand.down().await;
}

/// A read at the reader fails while a transaction is open at the writer.
const HALF: &str = r#"
name = "half"
prepare = ["CREATE TABLE app.half (a INT)"]
[statements]
begin = { sql = "BEGIN", to = "writer" }
put = { sql = "INSERT INTO half VALUES (1)", to = "writer" }
find = { sql = "SELECT 1 FROM nowhere", protocol = "text" }
commit = { sql = "COMMIT", to = "writer" }
[[transaction]]
name = "half"
steps = ["begin", "put", "find", "commit"]
"#;

#[tokio::test]
async fn a_transaction_that_fails_at_the_reader_is_rolled_back_at_the_writer() {
    let stand = Stand::up(false).await;
    let file = File::parse(HALF, "half.toml").unwrap();
    stand.statements(&file.prepare).await;
    let plan = Plan { workload: file.workload.into(), ..stand.plan("oltp_point_select", &Stand::options()) };
    let outcome = stand.run(plan).await;
    assert!(outcome.totals.failed > 1 && outcome.totals.done == 0, "{:?}", outcome.totals);
    assert!(outcome.totals.errors.contains_key("error 1146"), "{:?}", outcome.totals.errors);
    let mut root = stand.root().await;
    let rows: Option<u64> = root.query_first("SELECT COUNT(*) FROM app.half").await.unwrap();
    assert_eq!(rows, Some(0), "the next BEGIN would have committed what was begun");
    root.disconnect().await.unwrap();
    stand.down().await;
}

#[tokio::test]
async fn a_load_that_may_only_read_is_held_to_it_by_us_and_by_the_server() {
    let stand = Stand::up(false).await;
    stand.prepare(&Stand::options()).await;
    let plan = Plan { read_only: true, ..stand.plan("oltp_read_write", &Stand::options()) };
    let error = stand.try_run(plan).await.unwrap_err();
    assert!(matches!(&error, LoadError::Plan(PlanError::WritesRefused { .. })), "{error}");

    // What looks like reading and is not: the server knows better.
    let mut root = stand.root().await;
    root.query_drop("SET GLOBAL log_bin_trust_function_creators = 1").await.unwrap();
    root.query_drop("CREATE TABLE app.hidden (a INT)").await.unwrap();
    root.query_drop(
        "CREATE FUNCTION app.hide() RETURNS INT MODIFIES SQL DATA BEGIN INSERT INTO app.hidden VALUES (1); RETURN 1; END",
    )
    .await
    .unwrap();
    let hides = r#"
name = "hides"
protocol = "text"
[statements]
ask = { sql = "SELECT hide()" }
[[transaction]]
name = "ask"
steps = ["ask"]
"#;
    let workload = File::parse(hides, "hides.toml").unwrap().workload;
    assert!(!workload.writes, "from outside it reads");
    let plan = Plan {
        workload: workload.into(),
        read_only: true,
        ..stand.plan("oltp_point_select", &Stand::options())
    };
    let outcome = stand.run(plan).await;
    assert_eq!(outcome.totals.done, 0, "{:?}", outcome.totals);
    assert!(outcome.totals.errors.contains_key("error 1792"), "{:?}", outcome.totals.errors);
    let rows: Option<u64> = root.query_first("SELECT COUNT(*) FROM app.hidden").await.unwrap();
    assert_eq!(rows, Some(0));
    root.disconnect().await.unwrap();
    stand.down().await;
}
