//! The application simulator on real servers: it counts what it did, and notices what happened to its
//! sessions.

use fleet::Address;
use lab::app::{self, App, AppSpec, DataSize, Endpoint, FailureKind, Rates};
use lab::{Account, Lab, Spec};
use std::time::{Duration, Instant};

const DATA: DataSize = DataSize { accounts: 100, items: 500 };

async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition().await {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn loaded_lab() -> (Lab, tempfile::TempDir) {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 2), ("b", 1)]), base.path()).await.unwrap();
    app::load(&mut lab.connect("a1").await.unwrap(), DATA).await.unwrap();
    for replica in ["a2", "b1"] {
        until("the rows reach every replica", || async {
            app::is_ready(&mut lab.connect(replica).await.unwrap()).await.unwrap()
        })
        .await;
    }
    (lab, base)
}

async fn open(lab: &Lab) -> App {
    let reach = |server| {
        let address = lab.reach("a", server).unwrap();
        Address::tcp(address.ip().to_string(), address.port())
    };
    App::open(AppSpec {
        zone: "a".into(),
        readers: vec![reach("a2"), reach("b1")],
        writer: reach("a1"),
        reader_sessions: 40,
        writer_sessions: 2,
        order: lab::app::PoolOrder::default(),
        password: lab.password(Account::App).to_owned(),
        statement_deadline: Duration::from_secs(20),
        connect_deadline: Duration::from_secs(20),
        data: DATA,
        epoch: Instant::now(),
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn requests_are_counted_per_endpoint_and_server_and_a_dead_server_is_told_from_a_busy_one() {
    let (lab, _base) = loaded_lab().await;
    let app = open(&lab).await;
    let traffic = app.begin(Rates { timeline: 10.0, orders: 10.0, profile: 10.0 }, 1);
    let mut tally = app::AppCounts::default();
    until("every endpoint answers five times", || {
        tally.add(app.take());
        let enough = tally.endpoints.len() == 3 && tally.endpoints.values().all(|e| e.requests >= 5);
        async move { enough }
    })
    .await;
    traffic.stop().await;
    tally.add(app.take());
    assert!(tally.failures.is_empty(), "{:?}", tally.failures);
    let timeline = &tally.endpoints[&Endpoint::Timeline];
    assert_eq!(timeline.statements, timeline.requests * 220);
    assert_eq!(timeline.requests, timeline.reads_ns.len());
    assert!(tally.endpoints.values().all(|e| e.requests > 0 && e.failed == 0));
    let reads = tally.reads_per_server();
    let (a2, b1) = (reads[&2], reads[&3]);
    assert_eq!(a2 + b1, tally.reads());
    // A session that waits for a processor takes fewer turns: a machine that is full shows.
    assert!(a2.min(b1) * 3 > a2.max(b1) * 2, "both carry their share: {reads:?}");

    // A dead server breaks what is under way on it and what connects to it, and nothing else.
    let traffic = app.begin(Rates { timeline: 20.0, ..Rates::default() }, 2);
    let mut root = lab.connect("b1").await.unwrap();
    let _ = mysql_async::prelude::Queryable::query_drop(&mut root, "SHUTDOWN").await;
    let mut seen = app::AppCounts::default();
    until("failures on b1", || {
        seen.add(app.take());
        let found = !seen.failures.is_empty();
        async move { found }
    })
    .await;
    traffic.stop().await;
    for (_, failure) in &seen.failures {
        assert!(failure.server.is_none_or(|s| s == 3), "{failure:?}");
        assert!(
            matches!(failure.kind, FailureKind::Connect | FailureKind::Ended | FailureKind::Refused),
            "{failure:?}"
        );
    }
    app.close().await;
    lab.down().await.unwrap();
}
