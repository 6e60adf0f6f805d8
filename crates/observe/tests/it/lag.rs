//! Lag by our own samples, against replicas that are made late.

use crate::scene::Scene;
use fleet::LagSource;
use lab::{Fault, Spec};
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_late_replica_is_late_by_what_it_was_made_late_and_an_idle_fleet_is_not() {
    let mut spec = Spec::new(&[("a", 1), ("b", 1), ("c", 1)]);
    spec.replicas = vec![("c1".to_owned(), "b1".to_owned())];
    let scene = Scene::up(&spec).await;
    scene.run("a1", "CREATE TABLE app.beat (id INT PRIMARY KEY, n INT)").await;
    scene.run("a1", "INSERT INTO app.beat VALUES (1, 0)").await;
    let mut watching = scene.watch(&["a1"]);
    watching.until_sound("a1").await;
    let in_time =
        |s: &fleet::Server| s.lag.is_some_and(|l| l.at_least.is_zero() && l.source == LagSource::GtidSamples);
    watching.until_server("b1", "is in time", in_time).await;
    watching.until_server("c1", "is in time", in_time).await;

    scene.lab.fault("b1", Fault::StopApplier).await.unwrap();
    let start = Instant::now();
    scene.run("a1", "UPDATE app.beat SET n = n + 1").await;
    let late = |s: &fleet::Server| s.lag.is_some_and(|l| l.at_least >= Duration::from_secs(2));
    let behind = watching.until_server("b1", "is two seconds late", late).await;
    let lag = behind.lag.unwrap();
    assert!(lag.at_least <= start.elapsed(), "no later than since the write: {lag:?}");
    assert_eq!(lag.source, LagSource::GtidSamples);
    // Its own replica applies all that it gets, and is late all the same.
    watching.until_server("c1", "is late too", late).await;
    scene.lab.heal("b1").await.unwrap();
    watching.until_server("b1", "has caught up", in_time).await;
    watching.until_server("c1", "has caught up", in_time).await;
    watching.watcher.stop().await;
}
