//! Variables of a real MariaDB: set, read back, put back.

pub(crate) mod cases;
mod restart;

use cases::{
    Scene, a_value_that_the_server_bends_is_refused_and_undone,
    after_a_restart_of_the_server_its_entries_are_closed, variables_are_set_and_put_back,
    what_somebody_else_set_stays, wrong_values_are_refused_in_words,
};
use config::Credentials;
use fleet::Address;
use knob::server::{Connection, Server, ServerError};
use lab::Spec;
use lab::scripted::{Reply, Script, ScriptedServer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[tokio::test]
async fn variables_of_mariadb_are_set_read_back_and_put_back() {
    let scene = Scene::up(&Spec::new(&[("a", 1)])).await;
    let changes = [
        "server.innodb_io_capacity=1234",
        "server.innodb_flush_neighbors=0",
        "server.innodb_max_dirty_pages_pct=75",
        "server.innodb_log_write_ahead_size=16384",
        "server.innodb_buffer_pool_size=96M",
        "server.innodb_flush_log_at_trx_commit=0",
        "server.sync_binlog=7",
        "server.sql_mode=ANSI_QUOTES",
        "server.binlog_format=MIXED",
        "server.long_query_time=0.25",
        "server.optimizer_switch=index_merge=off",
        "server.init_connect=SET @told = 'it''s so'",
    ];
    let changes: Vec<&str> =
        changes.into_iter().filter(|change| !change.contains("write_ahead") || has(&scene, change)).collect();
    let dangers =
        ["innodb_flush_log_at_trx_commit", "sync_binlog", "sql_mode", "binlog_format", "init_connect"];
    variables_are_set_and_put_back(&scene, &changes, &dangers).await;
    // One that takes another along: io_capacity raises its most, the most of dirty pages lowers their least.
    let changes = ["server.innodb_io_capacity=5000", "server.innodb_max_dirty_pages_pct=5"];
    scene.root("SET GLOBAL innodb_max_dirty_pages_pct_lwm = 10").await;
    variables_are_set_and_put_back(&scene, &changes, &[]).await;
    wrong_values_are_refused_in_words(&scene, "server.innodb_use_native_aio=OFF");
    what_somebody_else_set_stays(&scene).await;
    a_value_that_the_server_bends_is_refused_and_undone(&scene).await;
    after_a_restart_of_the_server_its_entries_are_closed(&scene).await;
    scene.lab.down().await.unwrap();
}

/// A buffer pool that cannot be made smaller this moment is tried again; what is wrong stays wrong.
#[tokio::test]
async fn a_resize_of_the_buffer_pool_that_is_aborted_is_tried_again() {
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    let aborted = || Reply::Err { code: 1221, sqlstate: *b"HY000", message: "change aborted".to_owned() };
    let script = Script::new("10.11.19-MariaDB", move |statement, _| {
        if !statement.starts_with("SET GLOBAL") {
            return Reply::Usual;
        }
        let first = counted.fetch_add(1, Relaxed) < 2;
        if first || statement.contains("other") { aborted() } else { Reply::Ok }
    });
    let server = ScriptedServer::start(script).await.unwrap();
    let at = Address::tcp(server.address().ip().to_string(), server.address().port());
    let set = |variable: &'static str| {
        let at = at.clone();
        tokio::task::spawn_blocking(move || {
            Connection::open(&at, &Credentials::default()).unwrap().set_global(variable, "33554432")
        })
    };
    assert_eq!(set("innodb_buffer_pool_size").await.unwrap(), Ok(()));
    assert_eq!(tries.load(Relaxed), 3);
    let refused = set("other").await.unwrap();
    assert!(matches!(refused, Err(ServerError::Answered { code: 1221, .. })), "{refused:?}");
    assert_eq!(tries.load(Relaxed), 4);
}

#[tokio::test]
async fn a_connection_that_breaks_is_told_without_the_kinds_of_the_drivers_errors() {
    let script = Script::new("10.11.19-MariaDB", |statement, _| match statement {
        "SET GLOBAL sync_binlog = 7" => Reply::Close,
        _ => Reply::Usual,
    });
    let server = ScriptedServer::start(script).await.unwrap();
    let at = Address::tcp(server.address().ip().to_string(), server.address().port());
    let set = tokio::task::spawn_blocking(move || {
        Connection::open(&at, &Credentials::default()).unwrap().set_global("sync_binlog", "7")
    });
    let error = set.await.unwrap().unwrap_err();
    assert!(matches!(error, ServerError::Unanswered { .. }), "{error:?}");
    let words = error.to_string();
    assert!(!words.contains("Driver error") && !words.contains("Input/output error"), "{words}");
}

/// MySQL answers at once and resizes behind that; the size is read back when it is there.
#[tokio::test]
async fn a_resize_of_the_buffer_pool_behind_the_answer_is_waited_for() {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = asked.clone();
    let script = Script::new("8.0.40", move |statement, _| {
        if statement.starts_with("SET GLOBAL") {
            return Reply::Ok;
        }
        let resized = counted.load(Relaxed) > 2;
        if statement.contains("@@GLOBAL.innodb_buffer_pool_size") {
            return Reply::value("size", if resized { "67108864" } else { "33554432" });
        }
        if statement.starts_with("SHOW GLOBAL STATUS") {
            let pages = if counted.fetch_add(1, Relaxed) > 2 { "4096" } else { "2048" };
            let row = |name, value| [Some(name), Some(value)];
            let (total, page) =
                (row("Innodb_buffer_pool_pages_total", pages), row("Innodb_page_size", "16384"));
            return Reply::rows(&["Variable_name", "Value"], &[&total, &page]);
        }
        Reply::Usual
    });
    let server = ScriptedServer::start(script).await.unwrap();
    let at = Address::tcp(server.address().ip().to_string(), server.address().port());
    let set = tokio::task::spawn_blocking(move || {
        let mut connection = Connection::open(&at, &Credentials::default()).unwrap();
        connection.set_global("innodb_buffer_pool_size", "67108864").unwrap();
        connection.global("innodb_buffer_pool_size").unwrap()
    });
    assert_eq!(set.await.unwrap(), "67108864");
    assert!(asked.load(Relaxed) > 3);
}

/// A setting is held for hours, and the server is restarted meanwhile: what is put back in the end is judged
/// by its answers and not by the connection that it had.
#[tokio::test]
async fn what_only_reads_is_asked_once_more_where_the_connection_has_ended_and_a_change_is_not() {
    let (read, set) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (reads, sets) = (read.clone(), set.clone());
    let script = Script::new("10.11.19-MariaDB", move |statement, _| match statement {
        "SELECT @@GLOBAL.max_connections" if reads.fetch_add(1, Relaxed) == 0 => Reply::Close,
        "SELECT @@GLOBAL.max_connections" => Reply::value("max_connections", "151"),
        "SET GLOBAL max_connections = 77" => {
            sets.fetch_add(1, Relaxed);
            Reply::Close
        }
        _ => Reply::Usual,
    });
    let server = ScriptedServer::start(script).await.unwrap();
    let at = Address::tcp(server.address().ip().to_string(), server.address().port());
    let answers = tokio::task::spawn_blocking(move || {
        let mut connection = Connection::open(&at, &Credentials::default()).unwrap();
        (connection.global("max_connections"), connection.set_global("max_connections", "77"))
    });
    let (value, changed) = answers.await.unwrap();
    assert_eq!((value.as_deref(), read.load(Relaxed)), (Ok("151"), 2));
    assert!(matches!(changed, Err(ServerError::Unanswered { .. })), "{changed:?}");
    assert_eq!(set.load(Relaxed), 1, "whether it was made is not known");
}

/// MariaDB 10.8 to 11.2 have no such variable.
fn has(scene: &Scene, change: &str) -> bool {
    let (name, _) = change.trim_start_matches("server.").split_once('=').unwrap();
    let mut session = scene.session();
    let variable = session.server(&scene.address()).unwrap().describe(name).unwrap();
    variable.is_some_and(|variable| variable.dynamic == Some(true))
}
