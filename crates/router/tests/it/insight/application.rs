//! Endpoints, requests and times against what an application counted from its own side.

use super::stand::Stand;
use config::InsightConfig;
use insight::{Dimension, Filter, Since};
use lab::Spec;
use lab::app::{self, App, AppSpec, DataSize, Rates};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Pool};
use std::time::{Duration, Instant};

const DATA: DataSize = DataSize { accounts: 100, items: 500 };

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn endpoint_counts_are_those_of_the_application() {
    let base = tempfile::tempdir().unwrap();
    let stand = Stand::up(base.path(), Spec::new(&[("a", 2)]), InsightConfig::default()).await;
    app::load(&mut stand.lab.connect("a1").await.unwrap(), DATA).await.unwrap();
    until("the rows reach the replica", async || {
        app::is_ready(&mut stand.lab.connect("a2").await.unwrap()).await.unwrap()
    })
    .await;
    let app = App::open(AppSpec {
        zone: "a".into(),
        readers: vec![stand.address(0)],
        writer: stand.address(1),
        reader_sessions: 8,
        writer_sessions: 4,
        order: lab::app::PoolOrder::default(),
        password: stand.lab.password(lab::Account::App).to_owned(),
        statement_deadline: Duration::from_secs(10),
        connect_deadline: Duration::from_secs(5),
        data: DATA,
        epoch: Instant::now(),
    })
    .await
    .unwrap();
    let traffic = app.begin(Rates { timeline: 10.0, orders: 20.0, profile: 20.0 }, 1);
    let mut tally = app::AppCounts::default();
    until("every endpoint has answered often", async || {
        tally.add(app.take());
        tally.endpoints.len() == 3 && tally.endpoints.values().all(|e| e.requests >= 20)
    })
    .await;
    traffic.stop().await;
    tally.add(app.take());
    assert!(tally.failures.is_empty(), "{:?}", tally.failures);

    // BEGIN and COMMIT carry no tag of their own and count where their transaction does.
    let counts = stand.counts(Dimension::Endpoint).await;
    for (endpoint, counted) in &tally.endpoints {
        assert_eq!(counts[endpoint.name()], counted.statements, "{endpoint}");
    }
    // The same by server: readers sit on a2, writers on a1.
    let report = stand.report().await;
    let filter = Filter { endpoint: Some("timeline".to_owned()), ..Filter::default() };
    let servers = report.rows(Dimension::Server, &filter);
    assert_eq!(servers.len(), 1);
    assert_eq!(servers[0].figures.count, tally.endpoints[&app::Endpoint::Timeline].statements);
    assert_eq!(report.total(&Filter::default()).0.count, counts.values().sum::<u64>());
    assert_eq!((report.counts().lost, report.counts().unanswered), (0, 0));
    app.close().await;
    stand.down().await;
}

#[tokio::test]
async fn queries_of_a_request_are_counted_over_sessions_and_threads() {
    let base = tempfile::tempdir().unwrap();
    let quiet = Duration::from_millis(500);
    let config = InsightConfig { request_quiet: quiet, ..InsightConfig::default() };
    let stand = Stand::up(base.path(), Spec::new(&[("a", 2)]), config).await;
    let pool = Pool::new(stand.opts(0));
    // Ten requests of one query and ten of thirty, each over four sessions at a time: two threads serve them.
    for (endpoint, queries) in [("lean", 1u64), ("greedy", 30)] {
        for request in 0..10 {
            let mut conns: Vec<Conn> = Vec::new();
            for _ in 0..4 {
                conns.push(pool.get_conn().await.unwrap());
            }
            for query in 0..queries {
                let trace = format!("{request:030x}{queries:02x}");
                let sql = format!(
                    "SELECT {query} /*endpoint='{endpoint}',traceparent='00-{trace}-00f067aa0ba902b7-01'*/"
                );
                conns[query as usize % 4].query_drop(sql).await.unwrap();
            }
        }
    }
    let insight = stand.router.insight();
    let requests = async || insight.report(Since::Start).await.unwrap().requests();
    until("all requests are over", async || requests().await.iter().map(|(_, f)| f.count).sum::<u64>() == 20)
        .await;
    for (endpoint, figures) in requests().await {
        let queries = if endpoint == "lean" { 1 } else { 30 };
        assert_eq!((figures.count, figures.commands), (10, 10 * queries), "{endpoint}");
        assert_eq!(figures.commands_quantile(0.5), Some(queries), "{endpoint}");
        assert!(figures.time_quantile_ns(0.99).unwrap() > 0);
    }
    pool.disconnect().await.unwrap();
    stand.down().await;
}

/// A statement that sleeps on the server: the time counted is that sleep, and what the client saw is no less.
#[tokio::test]
async fn times_lie_between_the_server_s_and_the_client_s() {
    let base = tempfile::tempdir().unwrap();
    let stand = Stand::up(base.path(), Spec::new(&[("a", 2)]), InsightConfig::default()).await;
    let mut conn = Conn::new(stand.opts(0)).await.unwrap();
    let mut seen = Duration::ZERO;
    for _ in 0..5 {
        let begun = Instant::now();
        conn.query_drop("SELECT SLEEP(0.05)").await.unwrap();
        seen += begun.elapsed();
    }
    let rows = stand.report().await.rows(Dimension::Digest, &Filter::default());
    let slept = rows.iter().find(|row| row.name.contains("SLEEP") || row.name.contains("sleep")).unwrap();
    let counted = Duration::from_nanos(slept.figures.time_ns);
    assert!(counted >= Duration::from_millis(250), "{counted:?}");
    assert!(counted <= seen, "{counted:?} of {seen:?}");
    conn.disconnect().await.unwrap();
    stand.down().await;
}
