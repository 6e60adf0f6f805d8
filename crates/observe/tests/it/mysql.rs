//! Who is who on a real mysqld, from target/mysql (`make test-mysql` brings it there): the same scenes in the
//! other dialect.

use crate::scene::{Scene, why_unknown, writer};
use fleet::{DemandSource, LagSource, Replication, Role, State, Thread, Zone};
use lab::{Account, Fault, Spec};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::time::Duration;
use testkit::mysqld;

#[tokio::test]
async fn a_mysql_fleet_is_found_judged_and_followed() {
    let mut spec = Spec::new(&[("a", 1), ("b", 1), ("c", 1)]).program(mysqld());
    spec.replicas = vec![("c1".to_owned(), "b1".to_owned())];
    let scene = Scene::up(&spec).await;
    for seed in scene.lab.servers() {
        let snapshot = scene.survey(&seed).await;
        assert_eq!(snapshot.servers.len(), 3, "from {seed}: {snapshot:#?}");
        assert_eq!(writer(&snapshot), Some(scene.name("a1").as_str()), "from {seed}");
        assert!(snapshot.remarks.is_empty(), "{:?}", snapshot.remarks);
    }
    scene.run("a1", "CREATE TABLE app.beat (id INT PRIMARY KEY, n INT)").await;
    scene.run("a1", "INSERT INTO app.beat VALUES (1, 0)").await;
    let mut watching = scene.watch(&["c1"]);
    watching.until_sound("a1").await;
    let in_time =
        |s: &fleet::Server| s.lag.is_some_and(|l| l.at_least.is_zero() && l.source == LagSource::GtidSamples);
    watching.until_server("c1", "is in time", in_time).await;
    let counts = |s: &fleet::Server| s.pool.is_some_and(|pool| pool.requests > 0);
    watching.until_server("b1", "counts its page reads", counts).await;

    scene.lab.fault("b1", Fault::StopApplier).await.unwrap();
    scene.run("a1", "UPDATE app.beat SET n = n + 1").await;
    let stopped =
        |s: &fleet::Server| matches!(&s.replication, Replication::Stopped { thread: Thread::Applier, .. });
    watching.until_server("b1", "does not apply", stopped).await;
    let late = |s: &fleet::Server| s.lag.is_some_and(|l| l.at_least >= Duration::from_secs(1));
    watching.until_server("c1", "is late with its source", late).await;
    scene.lab.heal("b1").await.unwrap();
    watching.until_server("c1", "has caught up", in_time).await;

    scene.lab.fault("b1", Fault::Freeze).await.unwrap();
    watching.until_server("b1", "is silent", |s| matches!(s.state, State::Silent { .. })).await;
    scene.lab.heal("b1").await.unwrap();
    watching.until_sound("a1").await;

    scene.lab.fault("a1", Fault::ReadOnly).await.unwrap();
    let nobody = watching.until("nobody takes writes", |s| writer(s).is_none()).await;
    assert!(why_unknown(&nobody).contains("is read-only"), "{}", why_unknown(&nobody));
    scene.lab.heal("a1").await.unwrap();
    watching.until_sound("a1").await;
    watching.watcher.stop().await;
}

#[tokio::test]
async fn mysql_counts_reads_by_client_host_and_names_missing_privileges() {
    let scene = Scene::up(&Spec::new(&[("a", 1), ("b", 1)]).program(mysqld())).await;
    let mut watching = scene.watch(&["b1"]);
    watching.until_sound("a1").await;
    let mut reader = Conn::new(scene.lab.opts("b", "b1", Account::App).unwrap()).await.unwrap();
    let busy = async {
        loop {
            reader.exec_drop("SELECT ?", (1,)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let counted = watching.until("all reads in b", |s| {
        s.demand.source == DemandSource::StatementCounters && s.demand.share(&Zone::new("b")) > 0.99
    });
    tokio::select! {
        () = busy => {}
        _ = counted => {}
    }
    watching.watcher.stop().await;

    scene.run("a1", "CREATE USER poor@'%' IDENTIFIED BY 'poor'").await;
    let mut config = scene.config(&["a1", "b1"]);
    config.credentials.user = Some("poor".to_owned());
    config.credentials.password = Some("poor".to_owned());
    let mut watching = scene.watch_with(config);
    // The account reaches the replica by replication, so both let it in soon.
    for grant in [
        "GRANT REPLICATION CLIENT ON *.* TO 'poor'@'%'",
        "GRANT REPLICATION SLAVE ON *.* TO 'poor'@'%'",
        "GRANT SELECT ON performance_schema.* TO 'poor'@'%'",
    ] {
        watching.until(grant, |s| s.remarks.iter().any(|r| r.contains(grant))).await;
    }
    let poor = watching.until_server("b1", "cannot tell", |s| s.replication == Replication::Unknown).await;
    assert_ne!(poor.role, Role::Primary);
    watching.watcher.stop().await;
}
