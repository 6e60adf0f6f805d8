//! What the generator sends on a real server, what it counts, and what it does when things go wrong.

use super::stand::Stand;
use lab::Fault;
use load::workload::file::{BUILT_IN, File};
use load::workload::{Lane, Protocol, Statement, Step, Transaction, Workload, sysbench};
use load::{Account, Arrivals, LoadError, Plan};
use mysql_async::prelude::Queryable;
use std::time::Duration;

#[tokio::test]
async fn every_workload_of_sysbench_runs_without_an_error_in_both_protocols() {
    let stand = Stand::up(false).await;
    stand.prepare(&Stand::options()).await;
    for (name, _) in sysbench::WORKLOADS {
        for protocol in [Protocol::Prepared, Protocol::Text] {
            let options = sysbench::Options { protocol, ..Stand::options() };
            let mut plan = stand.plan(name, &options);
            // Two clients that write the same few rows may well deadlock, which would be no fault.
            plan.clients = 1;
            let outcome = stand.run_some(plan).await;
            assert!(outcome.totals.done > 0, "{name} {protocol:?}: {:?}", outcome.totals);
            assert_eq!(outcome.totals.failed, 0, "{name} {protocol:?}: {:?}", outcome.totals);
            let rows: u64 = outcome.statements.iter().map(|statement| statement.rows).sum();
            let reads = !matches!(name, "oltp_insert" | "oltp_delete" | "oltp_write_only")
                && !name.starts_with("oltp_update");
            assert_eq!(rows > 0, reads, "{name} {protocol:?} gave {rows} rows");
        }
    }
    stand.down().await;
}

#[tokio::test]
async fn the_workloads_that_come_with_the_program_run_without_an_error_in_both_protocols() {
    let stand = Stand::up(false).await;
    for (name, ..) in BUILT_IN {
        for protocol in [Protocol::Prepared, Protocol::Text] {
            let file = File::built_in(name).unwrap().with_protocol(protocol);
            stand.statements(&file.cleanup).await;
            stand.statements(&file.prepare).await;
            let plan = Plan {
                workload: file.workload.into(),
                clients: 1,
                // Long enough for the rarest transaction beside all other tests.
                time: Duration::from_secs(3),
                ..stand.plan("oltp_point_select", &Stand::options())
            };
            let outcome = stand.run(plan).await;
            assert_eq!(outcome.totals.failed, 0, "{name} {protocol:?}: {:?}", outcome.totals);
            for transaction in &outcome.transactions {
                assert!(transaction.done > 0, "{name} {protocol:?}: no {}", transaction.name);
            }
        }
    }
    // What a certificate's steps wrote, they found again: its order ends with a serial.
    let mut root = stand.root().await;
    let orders: Option<(u64, u64)> =
        root.query_first("SELECT COUNT(*), COUNT(certificateSerial) FROM app.orders").await.unwrap();
    let (all, finished) = orders.unwrap();
    assert!(all > 0 && all == finished, "{all} orders, {finished} finished");
    root.disconnect().await.unwrap();
    stand.down().await;
}

#[tokio::test]
async fn a_unix_socket_serves_as_well_as_an_address() {
    let stand = Stand::up(false).await;
    stand.prepare(&Stand::options()).await;
    let mut plan = stand.plan("oltp_read_write", &Stand::options());
    plan.target = load::Target::single(fleet::Address::Unix(stand.socket()), stand.account());
    let outcome = stand.run(plan).await;
    assert!(outcome.totals.done > 0 && outcome.generator.reconnects == 0, "{:?}", outcome.totals);
    stand.down().await;
}

#[tokio::test]
async fn what_keeps_a_client_out_is_said_in_the_servers_words() {
    let stand = Stand::up(false).await;
    let mut plan = stand.plan("oltp_point_select", &Stand::options());
    plan.target.account = Account { password: "wrong".into(), ..stand.account() };
    let error = stand.try_run(plan).await.unwrap_err();
    assert!(matches!(&error, LoadError::Refused { code: 1045, .. }), "{error}");
    assert!(!error.to_string().contains("wrong"), "{error}");

    let error = stand.try_run(stand.plan("oltp_point_select", &Stand::options())).await.unwrap_err();
    assert!(matches!(&error, LoadError::Refused { code: 1146, .. }), "{error}");
    assert!(error.to_string().contains("headroom load prepare"), "{error}");

    let mut plan = stand.plan("oltp_point_select", &Stand::options());
    plan.target = load::Target::single("127.0.0.1:1".parse().unwrap(), stand.account());
    let error = stand.try_run(plan).await.unwrap_err();
    assert!(matches!(&error, LoadError::Connect { .. }), "{error}");
    stand.down().await;
}

#[tokio::test]
async fn errors_are_counted_by_their_code_and_end_nothing() {
    let stand = Stand::up(false).await;
    // Eight clients over five rows: duplicate keys and deadlocks by the hundred.
    let options = sysbench::Options { tables: 1, table_size: 5, ..Stand::options() };
    stand.prepare(&options).await;
    let plan = Plan { clients: 8, ..stand.plan("oltp_write_only", &options) };
    let outcome = stand.run(plan).await;
    let totals = &outcome.totals;
    assert!(totals.done > 0 && totals.failed > 0, "{totals:?}");
    assert!(totals.errors.keys().all(|what| what.starts_with("error 1")), "{totals:?}");
    assert_eq!(totals.failed, totals.errors.values().sum::<u64>());
    // What failed was rolled back: no row was deleted for good.
    let mut root = stand.root().await;
    let left: Option<u32> = root.query_first("SELECT COUNT(*) FROM app.sbtest1").await.unwrap();
    assert_eq!(left, Some(5));
    root.disconnect().await.unwrap();
    stand.down().await;
}

#[tokio::test]
async fn clients_whose_connections_are_killed_come_back() {
    let stand = Stand::up(false).await;
    stand.prepare(&Stand::options()).await;
    let plan = Plan { time: Duration::from_secs(3), ..stand.plan("oltp_read_only", &Stand::options()) };
    let clients = plan.clients;
    let mut root = stand.root().await;
    let run = stand.run(plan);
    let kill = async {
        stand.is_under_way(clients).await;
        root.query_drop("KILL USER 'app'@'%'").await.unwrap();
    };
    let (outcome, ()) = tokio::join!(run, kill);
    let clients = u64::from(clients);
    assert_eq!(outcome.generator.reconnects, clients, "{:?}", outcome.totals);
    assert!(outcome.totals.errors.get("connection lost").is_some_and(|n| *n <= clients));
    let last = outcome.series.last().unwrap();
    assert!(last.done > 0 && last.failed == 0, "{last:?}");
    root.disconnect().await.unwrap();
    stand.down().await;
}

#[tokio::test]
async fn a_frozen_server_shows_in_full_in_an_open_loop_and_hardly_in_a_closed_one() {
    let stand = Stand::up(false).await;
    stand.prepare(&Stand::options()).await;
    let plan = Plan { time: Duration::from_secs(3), ..stand.plan("oltp_point_select", &Stand::options()) };
    let open = Plan { arrivals: Arrivals::poisson(300.0), ..plan.clone() };
    let freeze = Duration::from_millis(500);
    let closed = stand.run_frozen(plan, freeze).await;
    let open = stand.run_frozen(open, freeze).await;
    // Half a second of 300 arrivals a second waited, 250 ms on average: one in six of all.
    assert!(open.response.p999_ms > 400.0, "{:?}", open.response.p999_ms);
    assert!(open.response.p95_ms > 100.0, "{:?}", open.response.p95_ms);
    // Each client waited once, however long it took: thousands of others were quick.
    assert!(closed.response.max_ms > 400.0, "{:?}", closed.response.max_ms);
    assert!(closed.response.p99_ms < 100.0, "{:?}", closed.response.p99_ms);
    stand.down().await;
}

#[tokio::test]
async fn overload_is_a_result() {
    let stand = Stand::up(false).await;
    stand.prepare(&Stand::options()).await;
    let plan = Plan {
        clients: 2,
        arrivals: Arrivals::poisson(100_000.0),
        grace: Duration::from_millis(100),
        objective: Some(Duration::from_millis(5)),
        ..stand.plan("oltp_read_only", &Stand::options())
    };
    let outcome = stand.run(plan).await;
    let totals = &outcome.totals;
    assert!(totals.not_started > totals.done && totals.late > 0, "{totals:?}");
    assert_eq!(totals.arrivals, totals.done + totals.failed + totals.unfinished + totals.not_started);
    assert!(totals.arrivals > 28_000, "{totals:?}");
    assert!(outcome.notes.iter().any(|note| note.starts_with("overload")));
    stand.down().await;
}

/// A statement and rows that are much longer than what is sent or received at a time.
#[tokio::test]
async fn long_statements_and_long_rows_come_through() {
    let stand = Stand::up(false).await;
    let long = format!("SELECT LENGTH('{}')", "x".repeat(3_000_000));
    let rows = "SELECT REPEAT('y', 2500000) UNION ALL SELECT REPEAT('z', 2500000)".to_owned();
    let statement = |name, sql| Statement::new(name, Lane::Reader, Protocol::Text, [sql], Vec::new());
    let send = |statement| Step::Send { statement, variant: None };
    let steps = vec![send(0), send(1)];
    let workload = Workload {
        name: "long".to_owned(),
        options: String::new(),
        protocol: Protocol::Text,
        statements: vec![statement("rows", rows), statement("words", long)],
        transactions: vec![Transaction { name: "long".to_owned(), weight: 1, steps }],
        slots: 0,
        writes: false,
    };
    let plan = Plan { workload: workload.into(), ..stand.plan("oltp_point_select", &Stand::options()) };
    let outcome = stand.run(Plan { time: Duration::from_secs(1), ..plan }).await;
    assert!(outcome.totals.done > 0 && outcome.totals.failed == 0, "{:?}", outcome.totals);
    let of = |name: &str| outcome.statements.iter().find(|kind| kind.name == name).unwrap();
    assert_eq!((of("rows").rows, of("words").rows), (2 * of("rows").done, of("words").done));
    stand.down().await;
}

#[tokio::test]
async fn a_server_that_dies_is_counted_until_the_end() {
    let stand = Stand::up(false).await;
    stand.prepare(&Stand::options()).await;
    let plan = Plan { time: Duration::from_secs(3), ..stand.plan("oltp_point_select", &Stand::options()) };
    let clients = plan.clients;
    let kill = async {
        stand.is_under_way(clients).await;
        stand.lab.fault("a1", Fault::Kill).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(stand.run(plan), kill);
    let totals = &outcome.totals;
    assert!(totals.done > 0 && totals.failed > 0, "{totals:?}");
    assert_eq!(totals.errors.keys().collect::<Vec<_>>(), ["connection lost"], "{totals:?}");
    // Each client tries again and again.
    assert!(outcome.generator.reconnects > 8, "{:?}", outcome.generator);
    assert_eq!(outcome.series.last().unwrap().done, 0);
    stand.down().await;
}
