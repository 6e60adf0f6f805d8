//! `headroom route` as a child process on a lab of real servers: clients, status, metrics, drain, reload,
//! end.

use crate::support::route::{Route, connect};
use crate::support::told::{routing, server_of};
use lab::{Account, Lab, Spec};
use mysql_async::prelude::Queryable;
use rustix::process::Signal;
use serde_json::Value;
use std::net::{SocketAddrV4, TcpStream};

#[tokio::test]
async fn clients_are_routed_and_everything_is_shown_changed_and_ended_in_peace() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 2), ("b", 1)]), base.path()).await.unwrap();
    let mut router = in_zone_a(&lab);
    router.start();
    let all_well = |status: &Value| {
        let eligible = |s: &Value| s["routing"]["reads"]["eligible"] == true;
        status["writer"] == "a1"
            && status["servers"].as_array().unwrap().iter().filter(|s| eligible(s)).count() == 2
    };
    router.wait_for("two replicas eligible", all_well).await;
    router.wait_for("that nobody reads", |status| status["demand"]["idle"] == true).await;
    let status = router.status();
    assert_eq!(status["demand"]["source"], "no reads yet: equal shares");
    assert_eq!(status["fallbacks"], serde_json::json!([]), "an idle fleet lacks nothing");

    clients_reach_the_right_servers(&lab, &router).await;
    metrics_agree(&router);
    secrets_stay_secret(&lab, &router);
    a_drained_server_is_empty_until_it_is_undrained(&router).await;
    reload_takes_over_what_is_right_and_refuses_what_is_wrong(&lab, &router).await;
    it_ends_in_peace(&lab, router).await;
    lab.down().await.unwrap();
}

async fn clients_reach_the_right_servers(lab: &Lab, router: &Route) {
    let server_of = async |address: SocketAddrV4| -> String {
        let mut conn = connect(lab, address).await.unwrap();
        let found = server_of(&mut conn).await;
        conn.disconnect().await.unwrap();
        found
    };
    assert_eq!(server_of(router.reader).await, lab.real("a2").unwrap().ip().to_string());
    assert_eq!(server_of(router.writer).await, lab.real("a1").unwrap().ip().to_string());
    let status = router.status();
    let server = |name: &str| {
        status["servers"].as_array().unwrap().iter().find(|s| s["name"] == name).unwrap().clone()
    };
    assert_eq!(status["own_zone"]["zone"], "a");
    assert_eq!(server("a1")["role"], "primary");
    assert_eq!(server("b1")["zone"]["zone"], "b");
    assert!(server("a2")["lag_ms"].is_number(), "{}", server("a2"));
    assert_eq!(server("a2")["routing"]["picks"]["own zone"], 1, "{}", server("a2"));
    assert_eq!(server("a1")["routing"]["reads"]["reason_label"], "is_primary");
    assert_eq!(status["flow"]["zones"], serde_json::json!(["a", "b"]));
    assert_eq!(status["listeners"][0]["accepted"], 1);
}

fn metrics_agree(router: &Route) {
    let metrics = router.get("/metrics");
    assert!(metrics.contains("# TYPE headroom_picks_total counter\n"), "{metrics}");
    for sample in metrics.lines().filter(|line| !line.starts_with('#')) {
        let value = sample.rsplit_once(' ').map(|(_, value)| value.parse::<f64>());
        assert!(matches!(value, Some(Ok(_))), "{sample}");
    }
    for sample in [
        "headroom_writer_known 1.0",
        r#"headroom_server_up{server="b1"} 1.0"#,
        r#"headroom_server_eligible{server="a1",listener="reader",reason="is_primary"} 0.0"#,
        r#"headroom_picks_total{server="a1",because="primary"} 1"#,
    ] {
        assert!(metrics.contains(sample), "{sample} is not in\n{metrics}");
    }
}

fn secrets_stay_secret(lab: &Lab, router: &Route) {
    let command_line = std::fs::read_to_string(format!("/proc/{}/cmdline", router.pid())).unwrap();
    let shown =
        [router.get("/"), router.get("/status.json"), router.get("/metrics"), router.words(), command_line];
    for account in Account::ALL {
        for text in &shown {
            assert!(!text.contains(lab.password(account)), "the password of {account} is in\n{text}");
        }
    }
}

async fn a_drained_server_is_empty_until_it_is_undrained(router: &Route) {
    let output = router.headroom(&["drain", "nobody"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there are a1, a2, b1"), "{output:?}");
    router.post("/drain", r#"{"server":"a2","deadline_ms":0}"#);
    router.post("/drain", r#"{"server":"a1","deadline_ms":0}"#);
    let refused = router.headroom(&["drain", "a1"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains("a1 is the primary") && words.contains("--force"), "{words}");
    let nobody = |status: &Value| {
        status["servers"].as_array().unwrap().iter().all(|server| server["routing"]["draining"] == false)
    };
    assert!(nobody(&router.status()), "{}", router.status());
    assert!(router.headroom(&["drain", "a2", "--deadline", "5s"]).status.success());
    let drained = |status: &Value| routing(status, "a2")["reads"]["reason_label"] == "draining";
    router.wait_for("a2 draining", drained).await;
    let shown = router.headroom(&["status"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("drained by command"), "{shown:?}");
    let last = router.headroom(&["drain", "b1", "--json"]);
    assert_eq!(last.status.code(), Some(1), "{last:?}");
    let answer: Value = serde_json::from_slice(&last.stdout).unwrap();
    assert!(answer["text"].as_str().unwrap().contains("last server that takes reads"), "{answer}");
    assert!(router.headroom(&["drain", "b1", "--force"]).status.success());
    router.wait_for("b1 draining", |status| routing(status, "b1")["draining"] == true).await;
    assert!(router.headroom(&["undrain", "b1"]).status.success());
    assert!(router.headroom(&["undrain", "a2"]).status.success());
    router.wait_for("b1 back", |status| routing(status, "b1")["reads"]["eligible"] == true).await;
    router.wait_for("a2 back", |status| routing(status, "a2")["reads"]["eligible"] == true).await;
}

async fn reload_takes_over_what_is_right_and_refuses_what_is_wrong(lab: &Lab, router: &Route) {
    let mut kept = connect(lab, router.reader).await.unwrap();
    let right = std::fs::read_to_string(&router.file).unwrap();
    let wrong = right.replace("role = \"writer\"", "role = \"wirter\"");
    std::fs::write(&router.file, wrong).unwrap();
    router.signal(Signal::HUP);
    router.wait_for("a refused reload", |status| status["process"]["reload"]["accepted"] == false).await;
    let note = router.status()["process"]["reload"]["notes"][0].as_str().unwrap().to_owned();
    assert!(note.contains("route.toml:") && note.contains("did you mean \"writer\"?"), "{note}");
    assert!(router.get("/metrics").contains("headroom_configuration_accepted 0.0"));
    assert!(connect(lab, router.writer).await.is_ok(), "the old configuration is in force");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let elsewhere = right.replace(
        &format!("[admin]\naddress = \"{}\"", router.admin),
        &format!("[admin]\naddress = \"{address}\""),
    );
    assert_ne!(elsewhere, right);
    let b1 = lab.real("b1").unwrap();
    std::fs::write(&router.file, format!("{elsewhere}\n[[server]]\nmatch = \"{b1}\"\nreserved = true\n"))
        .unwrap();
    router.signal(Signal::HUP);
    let no_room = |status: &Value| {
        let note = &status["process"]["reload"]["notes"][0];
        note.as_str().is_some_and(|note| note.contains("cannot listen on the admin address"))
    };
    let status = router.wait_for("a reload without an admin address", no_room).await;
    assert_eq!(routing(&status, "b1")["reads"]["eligible"], true, "nothing of it is in force: {status}");

    let reserved = format!("{right}\n[[server]]\nmatch = \"{}\"\nreserved = true\n", lab.real("b1").unwrap());
    std::fs::write(&router.file, reserved).unwrap();
    router.signal(Signal::HUP);
    router
        .wait_for("b1 reserved", |status| routing(status, "b1")["reads"]["reason_label"] == "reserved")
        .await;
    let status = router.status();
    assert_eq!(status["process"]["reload"]["accepted"], true, "{}", status["process"]);
    let still: Option<u8> = kept.query_first("SELECT 1").await.unwrap();
    assert_eq!(still, Some(1), "a session outlives a reload");
    kept.disconnect().await.unwrap();
}

async fn it_ends_in_peace(lab: &Lab, mut router: Route) {
    let mut last = connect(lab, router.writer).await.unwrap();
    last.query_drop("BEGIN").await.unwrap();
    router.signal(Signal::TERM);
    let stops = |status: &Value| status["process"]["stopping"] == true;
    let status = router.wait_for("that it says it stops", stops).await;
    assert_eq!(routing(&status, "a1")["writers"], 1, "a transaction is waited for, and seen: {status}");
    assert_eq!(status["listeners"].as_array().unwrap().len(), 2);
    last.query_drop("COMMIT").await.unwrap();
    assert_eq!(router.end().await.code(), Some(0), "{}", router.words());
    assert!(TcpStream::connect(router.reader).is_err(), "nobody listens any more");
}

/// Servers are reached through the lab's links.
fn in_zone_a(lab: &Lab) -> Route {
    let mut servers = format!("[fleet]\nseeds = [\"{}\"]\n", lab.reach("a", "a1").unwrap());
    for ((says, reach), name) in lab.address_map("a").unwrap().into_iter().zip(lab.servers()) {
        servers.push_str(&format!("[[map]]\nsays = \"{says}\"\nreach = \"{reach}\"\n"));
        servers.push_str(&format!("[[server]]\nmatch = \"{says}\"\nname = \"{name}\"\n"));
    }
    Route::new(lab, "zero_hop = \"off\"", "", &servers)
}
