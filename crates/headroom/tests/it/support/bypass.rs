//! `headroom route` with zero-hop in front of a lab, and what has to hold of it on any server.

use crate::support::connecting::Connecting;
use crate::support::route::{Route, connect};
use crate::support::time::stands_still;
use crate::support::told::{LIMIT, POLL, options, routing, server_of};
use lab::{Change, Fault, Lab};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use rustix::process::Signal;
use serde_json::Value;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

pub(crate) fn root() -> bool {
    testkit::root_or_not_tested("zero-hop needs root")
}

/// Servers are reached at their own addresses, without the lab's links: a server then sees its clients' own
/// ports.
pub(crate) fn in_zone_a(lab: &Lab, zero_hop: &str, insight: &str) -> Route {
    let mut servers = format!("[fleet]\nseeds = [\"{}\"]\n", lab.real("a1").unwrap());
    for name in lab.servers() {
        let at = lab.real(&name).unwrap();
        servers.push_str(&format!("[[server]]\nmatch = \"{at}\"\nname = \"{name}\"\n"));
    }
    // Reads stay in the zone of the router.
    let router = format!("warm_up = \"0s\"\nzero_hop = \"{zero_hop}\"\nslack = 10.0");
    Route::new(lab, &router, &format!("insight = \"{insight}\""), &servers)
}

pub(crate) async fn sessions_are_past_and_counted(lab: &Lab, route: &Route) {
    let mut session = connect(lab, route.reader).await.unwrap();
    assert_eq!(
        server_of(&mut session).await,
        lab.real("a2").unwrap().ip().to_string(),
        "the nearest replica"
    );
    let mut writer = connect(lab, route.writer).await.unwrap();
    assert_eq!(server_of(&mut writer).await, lab.real("a1").unwrap().ip().to_string());
    let counted = |status: &Value| {
        routing(status, "a2")["bypassed"] == 1
            && routing(status, "a1")["writers"] == 1
            && status["listeners"][0]["zero_hop"]["bypassed"] == 1
    };
    route.wait_for("the sessions are counted", counted).await;
    let status = route.status();
    assert_eq!(status["zero_hop"]["in_force"], true, "{status}");
    let listener = &status["listeners"][0];
    assert_eq!(listener["zero_hop"]["text"], "all new sessions bypass the router");
    assert_eq!(
        (&listener["accepted"], &listener["zero_hop"]["bypassed"]),
        (&0.into(), &1.into()),
        "{listener}"
    );
    let socket = TcpStream::connect(route.reader).unwrap();
    assert_eq!(socket.peer_addr().unwrap(), SocketAddr::from(route.reader), "what was dialled");
    let metrics = route.get("/metrics");
    assert!(metrics.contains("headroom_zero_hop_in_force 1.0"), "{metrics}");
    let shown = route.headroom(&["status"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("zero-hop: all new sessions bypass the router"), "{text}");
    let ours = pinned(route);
    assert_eq!((&ours["alive"], &ours["programs"].as_array().unwrap().len()), (&true.into(), &8));
    session.disconnect().await.unwrap();
    writer.disconnect().await.unwrap();
}

/// Insight hears what bypasses the router: every statement, row and error, of text and prepared statements,
/// of small and of large results.
pub(crate) async fn statements_past_are_counted(lab: &Lab, route: &Route) {
    const EACH: usize = 40;
    const LARGE: &str = "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 900) \
        SELECT REPEAT('x', 3000) FROM s";
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(connect(lab, route.reader).await.unwrap());
    }
    for session in &mut sessions {
        for n in 0..EACH {
            session.query_drop(format!("SELECT {n} /*endpoint='GET /past'*/")).await.unwrap();
            let squared: Option<usize> = session.exec_first("SELECT ? * ?", (n, n)).await.unwrap();
            assert_eq!(squared, Some(n * n));
        }
        let large: Vec<String> = session.query(LARGE).await.unwrap();
        assert_eq!(large.len(), 900);
        session.query_drop("SELECT nonsense").await.unwrap_err();
    }
    // The kernel's counts are read now and then; three sessions on a fast machine are done sooner.
    route.wait_for("they are counted", |status| status["listeners"][0]["zero_hop"]["bypassed"] == 3).await;
    let status = route.status();
    let listener = &status["listeners"][0];
    assert_eq!(listener["zero_hop"]["text"], "all new sessions bypass the router, mirrored for insight");
    assert_eq!(listener["accepted"], 0, "{listener}");
    let row = |told: &Value, name: &str| -> (u64, u64, u64) {
        let rows = told["rows"].as_array().unwrap();
        let figure = |row: &Value, what: &str| row[what].as_u64().unwrap();
        let found = rows.iter().find(|row| {
            row["name"].as_str().is_some_and(|n| n == name || n.starts_with(&format!("{name} RECURSIVE")))
        });
        found.map_or((0, 0, 0), |r| (figure(r, "count"), figure(r, "rows_sent"), figure(r, "errors")))
    };
    let all = 3 * EACH as u64;
    let by_digest = "/insight.json?by=digest&limit=50&since=start";
    let told = route
        .wait_until("the last statement is told", by_digest, |told| row(told, "SELECT `nonsense`").0 == 3)
        .await;
    assert_eq!(row(&told, "SELECT ? * ?"), (all, all, 0), "{told}");
    assert_eq!(row(&told, "SELECT ?"), (all, all, 0), "{told}");
    assert_eq!(row(&told, "WITH"), (3, 2700, 0), "{told}");
    assert_eq!(row(&told, "SELECT `nonsense`"), (3, 0, 3), "{told}");
    assert_eq!(told["notes"], serde_json::json!([]), "{told}");
    let by_endpoint = "/insight.json?by=endpoint&since=start";
    let told = route.wait_until("by endpoint", by_endpoint, |told| row(told, "GET /past").0 == all).await;
    let p50 =
        told["rows"].as_array().unwrap().iter().find(|r| r["name"] == "GET /past").unwrap()["p50_ms"].clone();
    assert!(p50.as_f64().is_some_and(|ms| ms > 0.0), "{p50}");
    for session in sessions {
        session.disconnect().await.unwrap();
    }
}

/// A process that comes later cannot read a session whose login it has not seen, and says so; new ones it
/// can.
pub(crate) async fn a_session_from_before_is_told_as_unread(lab: &Lab, route: &mut Route) {
    let mut before = connect(lab, route.reader).await.unwrap();
    // Else the one that comes later may still find its login in the ring.
    before.query_drop("SELECT 'first' /*endpoint='first'*/").await.unwrap();
    let by_endpoint = "/insight.json?by=endpoint&since=start";
    route
        .wait_until("its login is read", by_endpoint, |told| told["rows"].to_string().contains("first"))
        .await;
    route.signal(Signal::KILL);
    route.end().await;
    route.start();
    ready(route).await;
    let mut after = connect(lab, route.reader).await.unwrap();
    let unread = |told: &Value| told["notes"].to_string().contains("began before this process did");
    let deadline = Instant::now() + LIMIT;
    loop {
        before.query_drop("SELECT 'before'").await.unwrap();
        after.query_drop("SELECT 'after' /*endpoint='after'*/").await.unwrap();
        let told: Value = serde_json::from_str(&route.get("/insight.json?by=endpoint&since=start")).unwrap();
        if unread(&told) && told["rows"].to_string().contains("after") {
            break;
        }
        assert!(Instant::now() < deadline, "{told}");
        tokio::time::sleep(POLL).await;
    }
    before.disconnect().await.unwrap();
    after.disconnect().await.unwrap();
}

/// Sampled, the measured ones bypass the router like all others.
pub(crate) async fn with_one_in_sixteen_all_go_past(lab: &Lab, route: &mut Route) {
    let text = std::fs::read_to_string(&route.file).unwrap();
    std::fs::write(&route.file, text.replace("insight = \"on\"", "insight = \"sampled\"")).unwrap();
    route.signal(Signal::HUP);
    let sampled = "all new sessions bypass the router, 1 of 16 mirrored for insight";
    let words = |status: &Value| status["listeners"][0]["zero_hop"]["text"] == sampled;
    let status = route.wait_for("one of sixteen is mirrored", words).await;
    let accepted = status["listeners"][0]["accepted"].clone();
    let measured = |told: Value| told["sessions"].as_u64().unwrap();
    let told = || serde_json::from_str(&route.get("/insight.json?by=endpoint&since=start")).unwrap();
    let before = measured(told());
    for _ in 0..64 {
        let mut session = connect(lab, route.reader).await.unwrap();
        session.query_drop("SELECT 1").await.unwrap();
        session.disconnect().await.unwrap();
    }
    let expected = before + 4;
    route
        .wait_until("four of sixty-four are measured", "/insight.json", |told| told["sessions"] == expected)
        .await;
    assert_eq!(route.status()["listeners"][0]["accepted"], accepted, "none came to the listener");
}

/// Of 32 sessions that bypass the router two are measured: everything that shows figures shows those of all,
/// and how far off they may be.
pub(crate) async fn what_two_of_thirty_two_say_is_scaled_to_all(lab: &Lab, route: &Route) {
    let commands = |status: &Value| routing(status, "a2")["commands_bypassed"].as_u64().unwrap_or(0);
    let before = route.status();
    let mut sessions = Vec::new();
    for _ in 0..32 {
        sessions.push(connect(lab, route.reader).await.unwrap());
    }
    for session in &mut sessions {
        for n in 0..25 {
            session.query_drop(format!("SELECT {n} AS sampled")).await.unwrap();
        }
    }
    let row = |told: &Value| -> Value {
        let rows = told["rows"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == "SELECT ? AS `sampled`").cloned().unwrap_or_default()
    };
    // The last answered command of a session is counted with its next one, which tells whose it was.
    for session in &mut sessions {
        session.ping().await.unwrap();
    }
    let by_digest = "/insight.json?by=digest&limit=50";
    let told = route.wait_until("two are measured", by_digest, |told| row(told)["measured"] == 50).await;
    let scaled = row(&told);
    assert_eq!((&scaled["count"], &scaled["one_in"]), (&800.into(), &16.into()), "{scaled}");
    let (per_second, error) =
        (scaled["per_second"].as_f64().unwrap(), scaled["per_second_error"].as_f64().unwrap());
    // Two sessions tell little: about two thirds, and more where their burst fills a part of the span only.
    assert!(error > per_second / 2.0 && error < 3.0 * per_second, "two sessions, one in sixteen: {scaled}");
    assert!(told["notes"].to_string().contains("1 session in 16"), "{told}");

    let counted = |status: &Value| {
        commands(status) >= commands(&before) + 800 && routing(status, "a2")["bypassed"] == 32
    };
    let status = route.wait_for("the server's commands grow by those of all", counted).await;
    let listener = &status["listeners"][0];
    assert_eq!((&listener["sessions"], &listener["open"]), (&0.into(), &32.into()), "{listener}");
    let past = listener["zero_hop"]["bypassed"].as_u64().unwrap();
    assert_eq!(listener["connections"].as_u64().unwrap(), listener["accepted"].as_u64().unwrap() + past);
    let metrics = route.get("/metrics");
    let metric = |name: &str| {
        let line = metrics
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("no {name}\n{metrics}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    assert!(metric("headroom_server_commands_total{server=\"a2\",path=\"bypassed\"}") >= 800.0);
    let address = listener["address"].as_str().unwrap();
    assert_eq!(metric(&format!("headroom_listener_sessions{{listener=\"{address}\"")), 32.0);
    assert!(metric(&format!("headroom_listener_connections_total{{listener=\"{address}\"")) >= 32.0);
    let shown = route.headroom(&["top", "--once"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains(" ±") && text.contains("from 1 session in 16"), "{text}");
    for session in sessions {
        session.disconnect().await.unwrap();
    }
}

pub(crate) async fn a_drained_server_is_left_idle_first(lab: &Lab, route: &Route) {
    let mut idle = connect(lab, route.reader).await.unwrap();
    let mut busy = connect(lab, route.reader).await.unwrap();
    let on_a2 = lab.real("a2").unwrap().ip().to_string();
    assert_eq!([server_of(&mut idle).await, server_of(&mut busy).await], [on_a2.clone(), on_a2]);
    // No statement has followed: the server's own lists of transactions do not have it.
    busy.query_drop("BEGIN").await.unwrap();
    // State that no list of the server's need have either.
    let mut holds = connect(lab, route.reader).await.unwrap();
    holds.query_drop("SELECT GET_LOCK('held', 0)").await.unwrap();
    route.wait_for("all are counted", |status| routing(status, "a2")["bypassed"] == 3).await;
    assert!(route.headroom(&["drain", "a2", "--deadline", "1h"]).status.success());
    route.wait_for("two sessions are left", |status| routing(status, "a2")["bypassed"] == 2).await;
    assert!(idle.query_drop("SELECT 1").await.is_err(), "the idle one was ended");
    busy.query_drop("SELECT 1").await.expect("the transaction was left alone");
    let lock: Option<u8> = holds.query_first("SELECT RELEASE_LOCK('held')").await.unwrap();
    assert_eq!(lock, Some(1), "the lock was left alone");
    // Asked once more, it has another deadline.
    let asked = Instant::now();
    assert!(route.headroom(&["drain", "a2", "--deadline", "1s"]).status.success());
    route.wait_for("nobody is left", |status| routing(status, "a2")["bypassed"] == 0).await;
    assert!(asked.elapsed() >= Duration::from_secs(1), "only at the deadline");
    assert!(busy.query_drop("SELECT 1").await.is_err());
    let closed = routing(&route.status(), "a2")["closed"].clone();
    assert!(closed["drained"].as_u64() >= Some(1), "{closed}");
    assert_eq!(closed["cut at the drain deadline"], 2, "{closed}");
    let mut elsewhere = connect(lab, route.reader).await.unwrap();
    assert_eq!(server_of(&mut elsewhere).await, lab.real("b1").unwrap().ip().to_string());
    elsewhere.disconnect().await.unwrap();
    assert!(route.headroom(&["undrain", "a2"]).status.success());
    route.wait_for("a2 back", |status| routing(status, "a2")["reads"]["eligible"] == true).await;
}

/// A server that nobody drains and that may not be read from keeps the sessions that are in use, however long
/// that lasts; `drain_deadline` is far shorter here.
pub(crate) async fn a_server_that_may_not_be_read_from_keeps_what_is_in_use(lab: &Lab, route: &Route) {
    let mut idle = connect(lab, route.reader).await.unwrap();
    let mut busy = connect(lab, route.reader).await.unwrap();
    let mut holds = connect(lab, route.reader).await.unwrap();
    let on_a2 = lab.real("a2").unwrap().ip().to_string();
    assert_eq!(server_of(&mut idle).await, on_a2);
    busy.query_drop("BEGIN").await.unwrap();
    holds.query_drop("SELECT GET_LOCK('held', 0)").await.unwrap();
    route.wait_for("all are counted", |status| routing(status, "a2")["bypassed"] == 3).await;
    let mut direct = lab.connect("a2").await.unwrap();
    direct.query_drop("STOP SLAVE").await.unwrap();
    route.wait_for("the idle one has left", |status| routing(status, "a2")["bypassed"] == 2).await;
    assert!(idle.query_drop("SELECT 1").await.is_err());
    tokio::time::sleep(Duration::from_secs(4)).await;
    busy.query_drop("SELECT 1").await.expect("the transaction was left alone");
    let lock: Option<u8> = holds.query_first("SELECT RELEASE_LOCK('held')").await.unwrap();
    assert_eq!(lock, Some(1), "the lock was left alone");
    holds.disconnect().await.unwrap();
    busy.query_drop("COMMIT").await.unwrap();
    route.wait_for("both have left", |status| routing(status, "a2")["bypassed"] == 0).await;
    direct.query_drop("START SLAVE").await.unwrap();
    route.wait_for("a2 back", |status| routing(status, "a2")["reads"]["eligible"] == true).await;
    direct.disconnect().await.unwrap();
}

/// New connections all the while, and one that stays: killed and started again, headroom loses none; stopped
/// on purpose, it leaves nothing behind.
pub(crate) async fn restarts_lose_no_connection(lab: &Lab, route: &mut Route) {
    let mut kept = connect(lab, route.reader).await.unwrap();
    let load = Connecting::start(lab, route.reader);
    load.some_more().await;
    route.signal(Signal::KILL);
    route.end().await;
    load.some_more().await;
    let listed = route.headroom(&["zero-hop", "status"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("in force"), "{listed:?}");
    // Who the primary is may have changed since: writers are refused once the last word of the router is a
    // second old.
    let deadline = Instant::now() + LIMIT;
    while TcpStream::connect(route.writer).is_ok() {
        assert!(Instant::now() < deadline, "writers are still sent to the primary known last");
        tokio::time::sleep(POLL).await;
    }
    load.some_more().await;
    route.start();
    ready(route).await;
    load.some_more().await;
    load.end().await;
    kept.query_drop("SELECT 1").await.expect("a session outlives the restart");
    route.signal(Signal::TERM);
    route.end().await;
    kept.query_drop("SELECT 1").await.expect("and the end");
    assert!(pinned_if_any(route).is_none(), "it ended on purpose, and nobody took over");
    assert!(TcpStream::connect(route.reader).is_err(), "nobody listens");
    route.start();
    ready(route).await;
    kept.disconnect().await.unwrap();
}

/// A router dies, and another starts on its addresses from another file: what the first left in the kernel
/// decides nothing any more, whether the second has zero-hop of its own or not, and nothing is left but what
/// is in force.
pub(crate) async fn another_file_decides_on_the_same_address(lab: &Lab, route: &mut Route) {
    let [a2, b1] = ["a2", "b1"].map(|name| lab.real(name).unwrap());
    picks_lead_to(lab, route, "a2", true).await;
    let mut before = connect(lab, route.reader).await.unwrap();
    assert_eq!(server_of(&mut before).await, a2.ip().to_string());
    let first = std::fs::read_to_string(&route.file).unwrap();
    let reserved =
        first.replace(&format!("match = \"{a2}\"\n"), &format!("match = \"{a2}\"\nreserved = true\n"));
    assert_ne!(first, reserved);
    let off = reserved.replace("zero_hop = \"require\"", "zero_hop = \"off\"");
    let titles = |route: &Route| -> Vec<Value> {
        let shown = route.headroom(&["zero-hop", "status", "--json"]);
        let all: Value = serde_json::from_slice(&shown.stdout).unwrap();
        let ours = |p: &&Value| p["listeners"].to_string().contains(&format!("\"{}\"", route.reader));
        all.as_array().unwrap().iter().filter(ours).map(|p| p["title"].clone()).collect()
    };
    for (name, text, zero_hop) in [("two.toml", &reserved, true), ("three.toml", &off, false)] {
        route.signal(Signal::KILL);
        route.end().await;
        assert_eq!(titles(route).len(), 1, "the dead one's is still there");
        route.file = lab.dir().join(name);
        std::fs::write(&route.file, text).unwrap();
        route.start();
        let ready = |status: &Value| {
            routing(status, "b1")["reads"]["eligible"] == true
                && status["process"]["pid"] == route.pid()
                && status["zero_hop"]["in_force"] == zero_hop
        };
        route.wait_for("the next router", ready).await;
        picks_lead_to(lab, route, "b1", zero_hop).await;
        let accepted = |route: &Route| route.status()["listeners"][0]["accepted"].as_u64().unwrap();
        let accepted_before = accepted(route);
        for _ in 0..6 {
            let mut session = connect(lab, route.reader).await.unwrap();
            assert_eq!(server_of(&mut session).await, b1.ip().to_string(), "{name}: a2 is reserved");
            session.disconnect().await.unwrap();
        }
        let accepted = accepted(route) - accepted_before;
        assert_eq!(accepted, if zero_hop { 0 } else { 6 }, "{name}: {}", route.status()["listeners"][0]);
        let expected = if zero_hop { vec![Value::from(route.title())] } else { Vec::new() };
        assert_eq!(titles(route), expected, "{name}: nothing is left of others");
        before.query_drop("SELECT 1").await.expect("open sessions stay");
    }
    before.disconnect().await.unwrap();
}

/// Waits until a new session gets the server that the router knows as the next one, `bypassed` or by the
/// listener. The kernel has the picks a moment after the status shows the servers: until then a session may
/// come to the listener, or to the primary, which takes reads while no replica is known. Never to a reserved
/// server.
async fn picks_lead_to(lab: &Lab, route: &Route, name: &str, bypassed: bool) {
    let [a2, wanted] = ["a2", name].map(|name| lab.real(name).unwrap().ip().to_string());
    let accepted = || route.status()["listeners"][0]["accepted"].as_u64().unwrap();
    let deadline = Instant::now() + LIMIT;
    loop {
        let before = accepted();
        let mut session = connect(lab, route.reader).await.unwrap();
        let met = server_of(&mut session).await;
        // The router may have just ended it: it rests on the wrong server.
        let _ = session.disconnect().await;
        assert!(wanted == a2 || met != a2, "a2 is reserved");
        if met == wanted && (accepted() == before) == bypassed {
            return;
        }
        assert!(Instant::now() < deadline, "sessions come to {met}\n{}", route.words());
        tokio::time::sleep(POLL).await;
    }
}

/// A session that bypasses the router to a2. One that came to the listener, as some do for a second after a
/// failure, would be a process's own, which waits for its transaction.
async fn connect_past(lab: &Lab, route: &Route) -> Conn {
    let deadline = Instant::now() + LIMIT;
    loop {
        let session = connect(lab, route.reader).await.unwrap();
        for _ in 0..50 {
            if routing(&route.status(), "a2")["bypassed"] == 1 {
                return session;
            }
            tokio::time::sleep(POLL).await;
        }
        let status = route.status();
        let told = (routing(&status, "a2"), &status["listeners"][0]);
        assert!(
            Instant::now() < deadline,
            "no session bypasses the router to a2: {told:?}\n{}",
            route.words()
        );
        // The router may have just ended it: it rests, and others may be short of sessions.
        let _ = session.disconnect().await;
    }
}

/// A process that is to take over leaves what is in the kernel to the running one until it is ready; here it
/// never is.
pub(crate) async fn a_take_over_that_fails_changes_nothing(lab: &Lab, route: &mut Route) {
    let mut kept = connect_past(lab, route).await;
    let (owner, given) = (route.pid(), "it is given the listening sockets");
    let before = route.words().matches(given).count();
    route.take_over();
    let deadline = Instant::now() + LIMIT;
    while route.words().matches(given).count() == before {
        assert!(Instant::now() < deadline, "{}", route.words());
        tokio::time::sleep(POLL).await;
    }
    // It looks at the fleet for more than a second before it is ready. It stands still while it is looked at:
    // that takes longer where the machine is slow.
    tokio::time::sleep(Duration::from_millis(400)).await;
    route.signal(Signal::STOP);
    stands_still(route.pid()).await;
    assert_eq!(pinned(route)["owner"], owner);
    route.kill_second();
    let in_force = |status: &Value| status["zero_hop"]["in_force"] == true;
    route.wait_for("the first goes on", in_force).await;
    let pins = pinned(route);
    assert!(pins["owner"] == owner && pins["alive"] == true, "{pins}");
    kept.query_drop("SELECT 1").await.unwrap();
    kept.disconnect().await.unwrap();
    let past = connect_past(lab, route).await;
    past.disconnect().await.unwrap();
}

/// New connections all the while, and one that stays: a second process takes over from the first.
pub(crate) async fn a_take_over_loses_no_connection(lab: &Lab, route: &mut Route) {
    let past =
        |status: &Value| status["listeners"][0]["zero_hop"]["text"] == "all new sessions bypass the router";
    let mut kept = connect_past(lab, route).await;
    kept.query_drop("BEGIN").await.unwrap();
    let load = Connecting::start(lab, route.reader);
    load.some_more().await;
    route.take_over();
    ready(route).await;
    load.some_more().await;
    route.first_end().await;
    load.some_more().await;
    let in_force = |status: &Value| {
        status["zero_hop"]["in_force"] == true
            && past(status)
            && routing(status, "a2")["bypassed"].as_u64() >= Some(1)
    };
    route.wait_for("the second has what the first had", in_force).await;
    // Some seconds, in which what the first one left behind could run out.
    let later = Instant::now() + Duration::from_secs(3);
    while Instant::now() < later {
        load.some_more().await;
    }
    route.wait_for("and keeps it", in_force).await;
    load.end().await;
    kept.query_drop("SELECT 1").await.expect("the transaction is where it was");
    kept.query_drop("COMMIT").await.unwrap();
    // The second has not seen what this session did before, so it does not know whether it may be closed.
    assert!(route.headroom(&["drain", "a2", "--deadline", "1h"]).status.success());
    let says =
        |status: &Value| status["zero_hop"]["limits"].to_string().contains("what they hold is not known");
    route.wait_for("the status says why it stays", says).await;
    kept.query_drop("SELECT 1").await.expect("it stays until the deadline");
    assert!(route.headroom(&["drain", "a2", "--deadline", "1s"]).status.success());
    route
        .wait_for("the second ends what the first saw begin", |status| routing(status, "a2")["bypassed"] == 0)
        .await;
    let closed = routing(&route.status(), "a2")["closed"].clone();
    assert!(closed["cut at the drain deadline"].as_u64() >= Some(1), "{closed}");
    assert!(route.headroom(&["undrain", "a2"]).status.success());
    route.wait_for("a2 back", |status| routing(status, "a2")["reads"]["eligible"] == true).await;
}

/// A session that its server ends while it is healthy is somebody's goodbye: the next one bypasses the router
/// all the same.
pub(crate) async fn a_goodbye_puts_nobody_in_doubt(lab: &Lab, route: &Route) {
    let cleared = || route.words().matches("a test login succeeded: healthy").count();
    let before = cleared();
    let (mut session, opened) = (connect_past(lab, route).await, Instant::now());
    let id: u64 = session.query_first("SELECT CONNECTION_ID()").await.unwrap().unwrap();
    while opened.elapsed() < Duration::from_millis(1100) {
        tokio::time::sleep(POLL).await;
    }
    let a2 = lab.real("a2").unwrap();
    let mut other = Conn::new(options(lab, *a2.ip(), a2.port())).await.unwrap();
    other.query_drop(format!("KILL {id}")).await.unwrap();
    let deadline = Instant::now() + LIMIT;
    while cleared() == before {
        assert!(Instant::now() < deadline, "a2 is suspect\n{}", route.words());
        tokio::time::sleep(POLL).await;
    }
    let accepted = || route.status()["listeners"][0]["accepted"].clone();
    let before = accepted();
    let mut next = connect(lab, route.reader).await.unwrap();
    assert_eq!(server_of(&mut next).await, a2.ip().to_string());
    assert_eq!(accepted(), before, "it bypassed the router");
    for session in [next, other] {
        session.disconnect().await.unwrap();
    }
}

/// From the moment it is killed, nobody who connects meets an error: what the kernel has not yet seen fail,
/// the listener makes up for.
pub(crate) async fn a_killed_server_refuses_nobody(lab: &Lab, route: &Route) {
    let pooled = [connect(lab, route.reader).await.unwrap(), connect(lab, route.reader).await.unwrap()];
    // A close of a younger session could be an application's that says goodbye.
    let opened = Instant::now();
    while opened.elapsed() < Duration::from_millis(1100) {
        tokio::time::sleep(POLL).await;
    }
    lab.change("a2", Change::Begin(Fault::Kill)).await.unwrap();
    for mut session in pooled {
        while session.query_drop("SELECT 1").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    for _ in 0..50 {
        let mut session = connect(lab, route.reader).await.expect("another server, at once");
        assert_eq!(server_of(&mut session).await, lab.real("b1").unwrap().ip().to_string());
        session.disconnect().await.unwrap();
    }
    lab.change("a2", Change::End(Fault::Kill)).await.unwrap();
    route.wait_for("a2 back", |status| routing(status, "a2")["reads"]["eligible"] == true).await;
}

pub(crate) async fn switched_off_the_listener_serves(lab: &Lab, route: &Route) {
    let mut kept = connect(lab, route.reader).await.unwrap();
    let name = pinned(route)["name"].as_str().unwrap().to_owned();
    let asked = route.headroom(&["zero-hop", "off", &name]);
    let words = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(
        !asked.status.success() && words.contains("--yes") && words.contains(&route.reader.to_string()),
        "{words}"
    );
    let one = route.writer.to_string();
    let removed = route.headroom(&["zero-hop", "off", &one, "--yes"]);
    assert!(String::from_utf8_lossy(&removed.stdout).contains(&format!("Removed: {one}")), "{removed:?}");
    let text = |status: &Value, n: usize| status["listeners"][n]["zero_hop"]["text"].to_string();
    route.wait_for("one is off", |status| text(status, 1).contains("switched off")).await;
    assert!(text(&route.status(), 0).contains("all new sessions"), "the other is not");
    let removed = route.headroom(&["zero-hop", "off", &name, "--yes"]);
    assert!(String::from_utf8_lossy(&removed.stdout).contains("Removed: "), "{removed:?}");
    let off = |status: &Value| status["zero_hop"]["in_force"] == false;
    route.wait_for("the router has noticed", off).await;
    let status = route.status();
    assert!(
        status["listeners"][0]["zero_hop"]["text"].as_str().unwrap().contains("switched off"),
        "{status}"
    );
    let before = status["listeners"][0]["accepted"].as_u64().unwrap();
    let mut relayed = connect(lab, route.reader).await.unwrap();
    relayed.query_drop("SELECT 1").await.unwrap();
    assert_eq!(route.status()["listeners"][0]["accepted"], before + 1);
    kept.query_drop("SELECT 1").await.expect("open sessions stay");
    let again = route.headroom(&["zero-hop", "off", &name, "--yes"]);
    assert_eq!(again.status.code(), Some(1));
    kept.disconnect().await.unwrap();
    relayed.disconnect().await.unwrap();
}

pub(crate) async fn ready(route: &Route) {
    let eligible = |status: &Value, name: &str| routing(status, name)["reads"]["eligible"] == true;
    let ready = |status: &Value| {
        status["writer"] == "a1"
            && eligible(status, "a2")
            && eligible(status, "b1")
            && status["process"]["pid"] == route.pid()
    };
    route.wait_for("two replicas and a primary", ready).await;
}

fn pinned(route: &Route) -> Value {
    pinned_if_any(route).unwrap()
}

fn pinned_if_any(route: &Route) -> Option<Value> {
    let shown = route.headroom(&["zero-hop", "status", "--json"]);
    let pinned: Value = serde_json::from_slice(&shown.stdout).unwrap();
    pinned.as_array().unwrap().iter().find(|p| p["title"] == route.title()).cloned()
}
