//! Objectives end to end on a lab: an endpoint made slow opens an incident, the webhook hears of it over TLS
//! although it fails at first, what recovers is closed, and nothing shows the webhook's secret.

use crate::support::going_on::GoingOn;
use crate::support::receiving::{Receiving, SECRET};
use crate::support::route::{Route, connect};
use crate::support::told::{LIMIT, options};
use lab::{Lab, Spec};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};
use testkit::certificate::Authority;

const GOOD: &str = "SELECT 1 /*endpoint='checkout'*/";
const SLOW: &str = "SELECT SLEEP(0.05) /*endpoint='checkout'*/";

#[tokio::test]
async fn a_slow_endpoint_opens_an_incident_that_is_told_and_closes_when_it_recovers() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 1)]), base.path()).await.unwrap();
    let authority = Authority::new(base.path(), "authority");
    let receiving = Receiving::start(&authority.sign("hooks", &["localhost"]));
    let mut router = promising(&lab, base.path(), &authority.ca, receiving.port);
    router.start();
    router.wait_for("a primary", |status| status["writer"] == "a1").await;

    let mut session = connect(&lab, router.writer).await.unwrap();
    let kept = |status: &Value| {
        let (checkout, all) = (objective(status, "checkout"), objective(status, "all"));
        // One statement may be slow because the machine is.
        let burns_little = |one: &Value| one["burn"]["fast"].as_f64().is_some_and(|burn| burn < 1.0);
        burns_little(&checkout) && checkout["opened"] == 0 && burns_little(&all)
    };
    let deadline = Instant::now() + LIMIT;
    while !kept(&router.status()) {
        assert!(Instant::now() < deadline, "never kept: {}\n{}", router.status(), router.words());
        send(&mut session, GOOD, 10).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let status = router.status();
    assert_eq!(
        objective(&status, "checkout")["promise"],
        "90 % of statements of endpoint checkout within 30ms"
    );

    // Slow for as long as it takes.
    let deadline = Instant::now() + LIMIT;
    while objective(&router.status(), "checkout")["incident"].is_null() {
        assert!(Instant::now() < deadline, "never an incident: {}\n{}", router.status(), router.words());
        send(&mut session, SLOW, 20).await;
    }
    // It stays slow until all is seen: an incident closes a second or two after its end.
    let goes_on = GoingOn::start(options(&lab, *router.writer.ip(), router.writer.port()), SLOW);
    // Refused at first, so it is told twice.
    let opened = receiving.told("opened", 2);
    assert_eq!((&opened["objective"], &opened["pace"]), (&"checkout".into(), &"fast".into()), "{opened}");
    assert!(opened["text"].as_str().unwrap().starts_with("incident opened: checkout: 90 %"), "{opened}");
    assert!(opened["worst_burn"].as_f64().unwrap() >= 5.0, "{opened}");
    let shown = router.headroom(&["status"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("INCIDENT: checkout"), "{shown:?}");
    assert!(router.get("/metrics").contains(r#"headroom_incident_open{objective="checkout"} 1.0"#));
    assert!(objective(&router.status(), "others")["incident"].is_null(), "nobody else is slow");

    // A reload leaves an incident open: what was promised goes on.
    router.signal(Signal::HUP);
    router.wait_for("a reload", |status| status["process"]["reload"]["accepted"] == true).await;
    assert!(objective(&router.status(), "checkout")["incident"].is_object());
    goes_on.end();

    let deadline = Instant::now() + LIMIT * 2;
    while objective(&router.status(), "checkout")["closed"] == 0 {
        assert!(Instant::now() < deadline, "never closed: {}", router.status());
        send(&mut session, GOOD, 20).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let closed = receiving.told("closed", 1);
    assert_eq!(closed["id"], opened["id"], "the same incident");
    let told_all = |status: &Value| status["webhook"]["delivered"] == 2 && status["webhook"]["waiting"] == 0;
    let status = router.wait_for("both to be told", told_all).await;
    assert_eq!(objective(&status, "checkout")["by_week"], serde_json::json!([1, 0, 0, 0]));
    assert!(status["webhook"]["tried_again"].as_u64().unwrap() >= 1, "{}", status["webhook"]);
    assert_eq!(status["webhook"]["failed_because"], Value::Null);

    for shown in [router.words(), status.to_string(), router.get("/metrics"), router.get("/")] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
    assert!(router.words().contains("the webhook was not told, again in 1 s: https://localhost:"));
    session.disconnect().await.unwrap();
    drop(router);
    lab.down().await.unwrap();
}

fn objective(status: &Value, name: &str) -> Value {
    let all = status["objectives"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap().clone()
}

async fn send(session: &mut Conn, statement: &str, times: usize) {
    for _ in 0..times {
        session.query_drop(statement).await.unwrap();
    }
}

fn promising(lab: &Lab, dir: &Path, ca: &Path, port: u16) -> Route {
    let address = dir.join("webhook");
    std::fs::write(&address, format!("https://localhost:{port}/services/{SECRET}\n")).unwrap();
    let writer = std::net::SocketAddrV4::new(lab.client_address("a", 31).unwrap(), lab.port());
    let objective = |name: &str, of: &str, threshold: &str| {
        format!(
            "[[objective]]\nname = \"{name}\"\n{of}\nthreshold = \"{threshold}\"\nshare = 0.9\nfast = \"12s\"\nfast_burn = 5\n\
             slow = \"24s\"\nslow_burn = 4\ncalm = \"1s\"\n"
        )
    };
    let mut more = format!("[fleet]\nseeds = [\"{}\"]\n", lab.reach("a", "a1").unwrap());
    for ((says, reach), name) in lab.address_map("a").unwrap().into_iter().zip(lab.servers()) {
        more.push_str(&format!("[[map]]\nsays = \"{says}\"\nreach = \"{reach}\"\n"));
        more.push_str(&format!("[[server]]\nmatch = \"{says}\"\nname = \"{name}\"\n"));
    }
    more.push_str(&objective("checkout", "endpoint = \"checkout\"", "30ms"));
    more.push_str(&objective("others", "endpoint = \"search\"", "30ms"));
    more.push_str(&objective("all", &format!("listener = \"{writer}\""), "5s"));
    more.push_str(&format!("[webhook]\nurl_file = \"{}\"\nca = \"{}\"\n", address.display(), ca.display()));
    Route::new(lab, "zero_hop = \"off\"", "insight = \"on\"", &more)
}
