//! A real mysqld (target/mysql, see mysql.rs) under real waits, as its sampler sees it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "fleet/scene.rs"]
#[allow(dead_code, reason = "shared with the tests of the fleet, which use all of it")]
mod scene;
#[path = "server/waits.rs"]
mod waits;

use lab::Spec;
use scene::Scene;
use std::path::PathBuf;
use waits::{sampler, until, waits_are_seen_and_their_blocker_is_named};

fn mysqld() -> PathBuf {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mysql/mysqld"));
    assert!(path.exists(), "no mysqld in {}: run scripts/mysql-root.sh (or make test-mysql)", path.display());
    path
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
