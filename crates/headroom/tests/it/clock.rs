//! Time that jumps: a wall clock that is set forward and back by years, and a process that stood still.
//! Nobody's session is cut, no server is given up, and everything goes on.

use crate::support::one_server::{Alone, LIMIT};
use crate::support::time::{Clock, YEAR, stands_still};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use rustix::process::Signal;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Two sessions that must stay: one at rest, one in a transaction.
struct Sessions([Conn; 2]);

impl Sessions {
    async fn begin(alone: &Alone) -> Self {
        let mut sessions = [alone.connect().await.unwrap(), alone.connect().await.unwrap()];
        sessions[1].query_drop("BEGIN").await.unwrap();
        Self(sessions)
    }

    /// They are those of before: a session that is connected anew has another number and no transaction.
    async fn are_there(&mut self) {
        for (at, conn) in self.0.iter_mut().enumerate() {
            let (id, begun): (u32, u8) =
                conn.query_first("SELECT CONNECTION_ID(), @@in_transaction").await.unwrap().unwrap();
            assert_eq!((id, usize::from(begun)), (conn.id(), at));
        }
    }
}

/// What must be so whatever the clocks say.
fn is_well(status: &Value) -> bool {
    let server = &status["servers"][0];
    let routing = &server["routing"];
    !status["writer"].is_null() && server["state"] == "answering" && routing["writes"]["eligible"] == true
}

/// Three rounds of questions later than now, everything works.
async fn goes_on(alone: &Alone) -> Value {
    let round = alone.status()["round"].as_u64().unwrap();
    let status = alone.wait_for("three more rounds", |s| s["round"].as_u64() >= Some(round + 3)).await;
    let status = if is_well(&status) { status } else { alone.wait_for("well again", is_well).await };
    let age = status["age_ms"].as_f64().unwrap();
    assert!((0.0..20_000.0).contains(&age), "{age} ms");
    status
}

#[tokio::test]
async fn a_wall_clock_that_jumps_by_years_changes_nothing() {
    let files = tempfile::tempdir().unwrap();
    let clock = Clock::new(files.path());
    let mut alone = Alone::up("").await;
    let mut child = alone.start_with_clock(&clock.shim, &clock.moved);
    alone.ready().await;
    let mut sessions = Sessions::begin(&alone).await;
    for seconds in [10 * YEAR, -10 * YEAR, 3600, -3600, 0] {
        clock.move_by(seconds);
        let status = goes_on(&alone).await;
        assert!(status["process"]["uptime_s"].as_f64().unwrap() < 300.0, "{}", status["process"]);
        sessions.are_there().await;
        let mut fresh = alone.connect().await.unwrap();
        assert_eq!(fresh.query_first("SELECT 1").await.unwrap(), Some(1u8));
        fresh.disconnect().await.unwrap();
    }
    let status = alone.wait_for("the two that stay", |s| s["listeners"][0]["sessions"] == 2).await;
    let closed = status["counters"]["closed"].as_object().unwrap();
    // Those that said goodbye; which end closes first is a matter of moments.
    assert!(closed.keys().all(|why| why == "client left" || why == "server left"), "{closed:?}");
    assert_eq!(closed.values().filter_map(Value::as_u64).sum::<u64>(), 5, "{closed:?}");
    assert!(status["fallbacks"].as_array().unwrap().iter().all(|f| f["name"] != "server_without_tls"));
    // The clock was really moved: the log of a reload has the year.
    clock.move_by(200 * YEAR);
    alone.signal(u64::from(child.id()), Signal::HUP);
    alone.wait_for("the reload", |status| status["process"]["reload"]["accepted"] == true).await;
    // Lines are written beside the work that they tell of.
    let deadline = Instant::now() + Duration::from_secs(30);
    while !alone.words().lines().any(|line| line.starts_with("22")) {
        assert!(Instant::now() < deadline, "the year is of the moved clock:\n{}", alone.words());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    alone.signal(u64::from(child.id()), Signal::TERM);
    // Sessions at rest are closed, the transaction is waited for until it ends.
    sessions.0[1].query_drop("COMMIT").await.unwrap();
    assert_eq!(alone.ended(&mut child).await.code(), Some(0));
}

#[tokio::test]
async fn a_router_that_stood_still_goes_on_where_it_was() {
    let mut alone = Alone::up("").await;
    let mut child = alone.start(&[], None);
    alone.ready().await;
    let mut sessions = Sessions::begin(&alone).await;
    let pid = u64::from(child.id());
    alone.signal(pid, Signal::STOP);
    stands_still(child.id()).await;
    // A client that comes meanwhile waits in the kernel's queue; a statement that is sent meanwhile in the
    // socket.
    let opts = alone.opts();
    let coming = tokio::spawn(Conn::new(opts));
    let mut first = sessions.0[0].query_iter("SELECT SLEEP(0), 7");
    let asked = tokio::time::timeout(Duration::from_secs(3), &mut first).await;
    assert!(asked.is_err(), "nobody answers for longer than any deadline of a question or an attempt");
    alone.signal(pid, Signal::CONT);
    drop(tokio::time::timeout(LIMIT, first).await.unwrap().unwrap().drop_result().await);
    let mut came = tokio::time::timeout(LIMIT, coming).await.unwrap().unwrap().unwrap();
    assert_eq!(came.query_first("SELECT 1").await.unwrap(), Some(1u8));
    let status = goes_on(&alone).await;
    sessions.are_there().await;
    assert_eq!(status["counters"]["closed"], serde_json::json!({}), "nobody was cut");
    assert!(status["listeners"][0]["refused"].as_object().unwrap().values().all(|n| n == 0), "{status}");
    came.disconnect().await.unwrap();
    sessions.0[1].query_drop("COMMIT").await.unwrap();
    alone.signal(pid, Signal::TERM);
    assert_eq!(alone.ended(&mut child).await.code(), Some(0));
}
