//! A real mysqld (target/mysql, see mysql.rs) under real waits, as its sampler sees it.

use crate::server::scene::Scene;
use crate::server::waits::{
    a_transaction_of_no_session_that_holds_a_row_is_named, an_event_that_runs_is_at_work,
    changes_without_a_key_are_seen, inserts_behind_another_statements_values_are_seen,
    metadata_locks_that_are_not_kept_are_said_to_be, of_two_that_have_a_table_the_one_in_the_way_is_named,
    sessions_that_are_hidden_are_said_to_be, until, waits_are_seen_and_their_blocker_is_named,
    waits_for_latches_are_told_where_their_instruments_are_on, who_holds_a_whole_table_is_named,
    whom_a_flush_of_tables_waits_for_is_likely,
};
use lab::Spec;
use std::time::Duration;

#[tokio::test]
async fn mysql_tells_what_its_sessions_wait_for_with_quantiles() {
    let spec = Spec::new(&[("a", 1), ("b", 1)]).program(testkit::mysqld());
    let scene = Scene::up(&spec.option("innodb_autoinc_lock_mode", "1")).await;
    waits_are_seen_and_their_blocker_is_named(&scene, true).await;
    a_transaction_of_no_session_that_holds_a_row_is_named(&scene).await;
    metadata_locks_that_are_not_kept_are_said_to_be(&scene).await;
    of_two_that_have_a_table_the_one_in_the_way_is_named(&scene).await;
    whom_a_flush_of_tables_waits_for_is_likely(&scene).await;
    an_event_that_runs_is_at_work(&scene).await;
    inserts_behind_another_statements_values_are_seen(&scene).await;
    who_holds_a_whole_table_is_named(&scene).await;
    waits_for_latches_are_told_where_their_instruments_are_on(&scene).await;
    sessions_that_are_hidden_are_said_to_be(&scene).await;
    changes_without_a_key_are_seen(&scene).await;
    let mut replica = scene.sampler("b1", Duration::from_secs(5));
    let reading = until(&mut replica, "a replica that applies", |r| r.sessions.appliers > 0).await;
    assert!(reading.replica.unwrap().receives);
    if reading.settings.performance_schema {
        let histogram = reading.histogram.unwrap();
        let counted = histogram.quantiles().unwrap();
        assert!(counted.p99_ms >= counted.p50_ms, "{counted:?}");
        // Its ranges are so fine that any limit can be promised.
        for limit_ms in [0.7, 15.0, 42.0, 3000.0] {
            let within = histogram.within(limit_ms).unwrap();
            assert!(within.good > 0 && within.all == counted.statements, "{limit_ms}: {within:?}");
        }
        assert!(!reading.digests.lately.is_empty() && reading.digests.all_ms > 0.0);
    }
    scene.lab.down().await.unwrap();
}
