//! A real server under real waits, as its sampler sees it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "fleet/scene.rs"]
#[allow(dead_code, reason = "shared with the tests of the fleet, which use all of it")]
mod scene;

use lab::{Account, Spec};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use observe::server::{Held, Reading, Sample, Sampler};
use scene::Scene;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn mysqld() -> PathBuf {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mysql/mysqld"));
    assert!(path.exists(), "no mysqld in {}: run scripts/mysql-root.sh (or make test-mysql)", path.display());
    path
}

async fn app(scene: &Scene) -> Conn {
    let opts: Opts = scene.lab.opts("a", "a1", Account::App).unwrap();
    Conn::new(opts).await.unwrap()
}

fn sampler(scene: &Scene, server: &str) -> Sampler {
    let config = scene.config(&[server]);
    Sampler::new(scene.address(server), config.credentials, Duration::from_secs(5))
}

/// Reads until a reading is as `holds` wants it.
async fn until(sampler: &mut Sampler, what: &str, holds: impl Fn(&Reading) -> bool) -> Reading {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let reading = sampler.read().await.unwrap();
        if holds(&reading) {
            return reading;
        }
        assert!(Instant::now() < deadline, "never seen: {what}; last seen:\n{reading:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn waits_are_seen_and_their_blocker_is_named(scene: &Scene, certain: bool) {
    scene.run("a1", "CREATE TABLE app.stock (id INT PRIMARY KEY, n INT)").await;
    scene.run("a1", "INSERT INTO app.stock VALUES (1, 1)").await;
    let mut watching = sampler(scene, "a1");
    let quiet = watching.read().await.unwrap();
    assert_eq!(quiet.missing.as_slice(), [""; 0]);
    assert_eq!((quiet.status.row_waits_now, quiet.sessions.metadata_lock), (0, 0));
    assert!(quiet.settings.max_connections > 0 && quiet.settings.pool_size > 0 && quiet.replica.is_none());
    assert!(quiet.cost.statements <= 4, "{:?}", quiet.cost);

    let mut holder = app(scene).await;
    holder.query_drop("BEGIN").await.unwrap();
    holder.query_drop("UPDATE app.stock SET n = n + 1 WHERE id = 1").await.unwrap();
    let mut waiter = app(scene).await;
    let waits =
        tokio::spawn(async move { waiter.query_drop("UPDATE app.stock SET n = n + 1 WHERE id = 1").await });
    let locked = until(&mut watching, "a row lock and its blocker", |r| r.row_blocker.is_some()).await;
    let blocker = locked.row_blocker.clone().unwrap();
    assert_eq!((blocker.id, blocker.held), (u64::from(holder.id()), Held::ByAnIdleClient), "{blocker}");
    assert_eq!(blocker.table.as_deref(), Some("app.stock"), "{blocker}");
    let sample = Sample::over(&[Arc::new(quiet), Arc::new(locked)]).unwrap();
    assert!(sample.in_row_lock > 0.0 && sample.row_waits_per_s > 0.0, "{sample:#?}");

    let mut altering = app(scene).await;
    let alters =
        tokio::spawn(async move { altering.query_drop("ALTER TABLE app.stock ADD COLUMN m INT").await });
    let locked =
        until(&mut watching, "a metadata lock and its blocker", |r| r.metadata_blocker.is_some()).await;
    let blocker = locked.metadata_blocker.unwrap();
    assert_eq!((blocker.id, blocker.guessed), (u64::from(holder.id()), !certain), "{blocker}");
    holder.query_drop("COMMIT").await.unwrap();
    waits.await.unwrap().unwrap();
    alters.await.unwrap().unwrap();
    until(&mut watching, "nobody waits", |r| r.status.row_waits_now == 0 && r.sessions.metadata_lock == 0)
        .await;
}

#[tokio::test]
async fn mariadb_tells_what_its_sessions_wait_for_and_how_its_replica_does() {
    let scene = Scene::up(&Spec::new(&[("a", 1), ("b", 1)])).await;
    waits_are_seen_and_their_blocker_is_named(&scene, false).await;
    let mut replica = sampler(&scene, "b1");
    let reading = until(&mut replica, "a replica that applies", |r| r.sessions.appliers > 0).await;
    let own = reading.replica.unwrap();
    assert!(own.receives && own.applies && own.unwanted_lag_s().is_some(), "{own:?}");
    scene.lab.down().await.unwrap();
}

#[tokio::test]
async fn mysql_tells_what_its_sessions_wait_for_with_quantiles() {
    let scene = Scene::up(&Spec::new(&[("a", 1), ("b", 1)]).program(mysqld())).await;
    waits_are_seen_and_their_blocker_is_named(&scene, true).await;
    let mut replica = sampler(&scene, "b1");
    let reading = until(&mut replica, "a replica that applies", |r| r.sessions.appliers > 0).await;
    assert!(reading.replica.unwrap().receives);
    if reading.settings.performance_schema {
        let counted = reading.histogram.and_then(|histogram| histogram.quantiles());
        assert!(counted.is_some_and(|q| q.p99_ms >= q.p50_ms), "{counted:?}");
        assert!(!reading.digests.is_empty());
    }
    scene.lab.down().await.unwrap();
}
