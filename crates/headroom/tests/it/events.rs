//! What a running router tells of what happens, and what is said where nothing is known: log, status,
//! metrics, exit codes.

use crate::support::route::Route;
use lab::{Fault, Lab, Spec};
use mysql_async::prelude::Queryable;
use serde_json::Value;
use std::process::Command;

fn server<'a>(status: &'a Value, name: &str) -> &'a Value {
    status["servers"].as_array().unwrap().iter().find(|s| s["name"] == name).unwrap()
}

fn event<'a>(status: &'a Value, text: &str) -> Option<&'a Value> {
    status["events"].as_array()?.iter().find(|e| e["text"].as_str().unwrap_or_default().contains(text))
}

#[tokio::test]
async fn a_frozen_replica_is_told_by_log_events_status_and_metrics_and_so_is_its_return() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 2), ("b", 1)]), base.path()).await.unwrap();
    let name = |server: &str| {
        let real = lab.real(server).unwrap();
        format!("[[server]]\nmatch = \"{real}\"\nname = \"{server}\"\n")
    };
    let seed = lab.real("a1").unwrap();
    let servers = format!("{}{}{}[fleet]\nseeds = [\"{seed}\"]\n", name("a1"), name("a2"), name("b1"));
    let mut router = Route::new(&lab, "zero_hop = \"off\"", "", &servers);
    router.start();
    let eligible = |status: &Value| server(status, "b1")["routing"]["reads"]["eligible"] == true;
    router
        .wait_for("b1 eligible", |s| s["servers"].as_array().is_some_and(|all| all.len() == 3) && eligible(s))
        .await;
    let lag = r#"headroom_server_lag_seconds{server="b1"}"#;
    assert!(router.get("/metrics").contains(lag));

    lab.fault("b1", Fault::Freeze).await.unwrap();
    router.wait_for("b1 silent", |s| server(s, "b1")["state"] == "silent").await;
    router.wait_for("its event", |s| event(s, "b1 does not answer").is_some()).await;
    let status = router.status();
    let b1 = server(&status, "b1");
    assert!(b1["lag_ms"].is_null() && b1["lag_unknown_for_s"].is_number(), "{b1}");
    assert!(b1["lag_text"].as_str().unwrap().starts_with("unknown since"), "{b1}");
    assert!(b1["state_for_s"].is_number(), "{b1}");
    let death = event(&status, "b1 does not answer").unwrap();
    assert_eq!((&death["severity"], &death["kind"]), (&"warn".into(), &"state".into()), "{death}");
    assert!(death["lasted_s"].is_number(), "it had answered for a while: {death}");
    assert!(!router.get("/metrics").contains(lag), "unknown is not zero");
    let shown = String::from_utf8(router.headroom(&["status"]).stdout).unwrap();
    assert!(shown.contains("silent for") && shown.contains("unknown since"), "{shown}");
    assert!(shown.contains("b1 does not answer"), "{shown}");

    lab.heal("b1").await.unwrap();
    router.wait_for("b1 back", |s| event(s, "b1 answers again").is_some() && eligible(s)).await;
    let log = router.words();
    let line = |words: &str| {
        log.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {log}"))
    };
    assert!(line("b1 does not answer").contains("WARN"), "{log}");
    assert!(line("b1 answers again").contains("INFO"), "{log}");
    drop(router);
    lab.down().await.unwrap();
}

#[tokio::test]
async fn a_fleet_asked_without_privileges_is_no_primary_but_a_grant_and_exit_1() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 1)]), base.path()).await.unwrap();
    let mut root = lab.connect("a1").await.unwrap();
    root.query_drop("CREATE USER poor@'%' IDENTIFIED BY 'poor'").await.unwrap();
    let at = lab.real("a1").unwrap().to_string();
    let fleet = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        command.args(["fleet", "--server", &at]).current_dir(base.path());
        command.env_clear().env("HEADROOM_USER", "poor").env("HEADROOM_PASSWORD", "poor");
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = fleet();
    assert_eq!(code, Some(1), "{text}");
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("No primary is known") && first.contains("GRANT SLAVE MONITOR"), "{text}");
    root.query_drop("GRANT SLAVE MONITOR ON *.* TO poor@'%'").await.unwrap();
    let (code, text) = fleet();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("Writes go to"), "{text}");
    drop(root);
    lab.down().await.unwrap();
}
