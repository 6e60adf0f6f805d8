//! Variables of a real mysqld (target/mysql): set, read back, put back.

use crate::server::cases::{
    Scene, a_value_that_the_server_bends_is_refused_and_undone,
    after_a_restart_of_the_server_its_entries_are_closed, variables_are_set_and_put_back,
    what_somebody_else_set_stays, wrong_values_are_refused_in_words,
};
use lab::Spec;
use testkit::mysqld;

#[tokio::test]
async fn variables_of_mysql_are_set_read_back_and_put_back() {
    let scene = Scene::up(&Spec::new(&[("a", 1)]).program(mysqld()).option("innodb_doublewrite", "ON")).await;
    let changes = [
        "server.innodb_io_capacity=1234",
        "server.innodb_flush_neighbors=1",
        "server.innodb_max_dirty_pages_pct=75",
        "server.innodb_doublewrite=DETECT_ONLY",
        "server.innodb_flush_log_at_trx_commit=0",
        "server.sync_binlog=7",
        "server.sql_mode=ANSI_QUOTES",
        "server.long_query_time=0.25",
        "server.optimizer_switch=index_merge=off",
        "server.init_connect=SET @told = 'it''s so'",
    ];
    let dangers =
        ["innodb_doublewrite", "innodb_flush_log_at_trx_commit", "sync_binlog", "sql_mode", "init_connect"];
    variables_are_set_and_put_back(&scene, &changes, &dangers).await;
    wrong_values_are_refused_in_words(&scene, "server.innodb_use_native_aio=OFF");
    what_somebody_else_set_stays(&scene).await;
    a_value_that_the_server_bends_is_refused_and_undone(&scene).await;
    after_a_restart_of_the_server_its_entries_are_closed(&scene).await;
    scene.lab.down().await.unwrap();
}
