//! Zero-hop on MySQL: real drivers do their work unchanged while their sessions bypass the router, idle ones
//! leave a drained server, and restarts lose none. On the mysqld that `scripts/mysql-root.sh` brings (`make
//! test-mysql`).

use crate::support::bypass;
use crate::support::bypass::{in_zone_a, ready, root};
use crate::support::driven;
use lab::Lab;
use serde_json::Value;
use std::path::Path;

#[tokio::test]
async fn drivers_go_past_the_router_to_mysql_and_idle_sessions_leave_a_drained_server() {
    if !root() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    driven::prepare(&folder);
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&driven::spec(&folder, Some(testkit::mysqld())), base.path()).await.unwrap();
    driven::create_account(&lab).await;
    driven::log_in_everywhere(&lab).await;
    let mut route = in_zone_a(&lab, "require", "off");
    route.start();
    ready(&route).await;

    bypass::sessions_are_past_and_counted(&lab, &route).await;
    let before = sessions(&route.status());
    let failures: String = ["pymysql", "go"]
        .map(|runner| {
            let addresses = driven::Addresses { reader: route.reader, writer: route.writer, sockets: false };
            let output = driven::run(&folder, &lab, &addresses, runner);
            driven::failed_checks(&driven::said(runner, &output))
        })
        .concat();
    assert!(failures.is_empty(), "{failures}\n{}", route.words());
    let after = sessions(&route.status());
    let (past, relayed) = (after.0 - before.0, after.1 - before.1);
    // The listener takes over for a second where a server reset a session: the drivers have some killed.
    assert!(past > 50 && past > relayed * 4, "{past} sessions bypassed the router, {relayed} did not");
    bypass::a_drained_server_is_left_idle_first(&lab, &route).await;
    bypass::restarts_lose_no_connection(&lab, &mut route).await;
    bypass::a_take_over_loses_no_connection(&lab, &mut route).await;
    drop(route);
    lab.down().await.unwrap();
}

/// How many sessions of both listeners bypassed the router, and how many came to it.
fn sessions(status: &Value) -> (u64, u64) {
    let listeners = status["listeners"].as_array().unwrap();
    let sum = |count: &dyn Fn(&Value) -> &Value| listeners.iter().map(|l| count(l).as_u64().unwrap()).sum();
    (sum(&|listener| &listener["zero_hop"]["bypassed"]), sum(&|listener| &listener["accepted"]))
}
