//! A real MariaDB under real waits, as its sampler sees it.

mod gap;
pub(crate) mod scene;
pub(crate) mod waits;

use lab::Spec;
use scene::Scene;
use std::time::Duration;
use waits::{
    a_holder_that_is_not_told_is_said_to_be_so_in_each_reading, an_event_that_runs_is_at_work,
    inserts_behind_another_statements_values_are_seen, sessions_that_are_hidden_are_said_to_be,
    the_lock_plugin_names_who_holds_the_table_that_is_waited_for, until,
    waits_are_seen_and_their_blocker_is_named, waits_for_latches_are_told_where_their_instruments_are_on,
    who_holds_a_whole_table_is_named,
};

#[tokio::test]
async fn mariadb_tells_what_its_sessions_wait_for_and_how_its_replica_does() {
    let scene = Scene::up(&Spec::new(&[("a", 1), ("b", 1)])).await;
    waits_are_seen_and_their_blocker_is_named(&scene, false).await;
    a_holder_that_is_not_told_is_said_to_be_so_in_each_reading(&scene).await;
    an_event_that_runs_is_at_work(&scene).await;
    inserts_behind_another_statements_values_are_seen(&scene).await;
    who_holds_a_whole_table_is_named(&scene).await;
    waits_for_latches_are_told_where_their_instruments_are_on(&scene).await;
    sessions_that_are_hidden_are_said_to_be(&scene).await;
    the_lock_plugin_names_who_holds_the_table_that_is_waited_for(&scene).await;
    let mut replica = scene.sampler("b1", Duration::from_secs(5));
    let reading = until(&mut replica, "a replica that applies", |r| r.sessions.appliers > 0).await;
    let own = reading.replica.unwrap();
    assert!(own.receives && own.applies && own.unwanted_lag_s().is_some(), "{own:?}");
    if reading.settings.performance_schema {
        assert!(!reading.digests.lately.is_empty() && reading.digests.all_ms > 0.0, "{:?}", reading.digests);
    }
    gap::a_gap_is_a_gap_and_nothing_else_breaks(&scene).await;
    scene.lab.down().await.unwrap();
}
