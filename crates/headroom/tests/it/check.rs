//! `headroom check` on real servers: what passes, what a missing privilege and a dead server are named as,
//! and that no password is shown.

use lab::{Account, Lab, RouterOptions, Spec};
use mysql_async::prelude::Queryable;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

fn headroom(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headroom"))
        .args(args)
        .current_dir(directory)
        .env_clear()
        .output()
        .unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn findings(output: &Output) -> Vec<Value> {
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", words(output)));
    report["findings"].as_array().unwrap().clone()
}

/// The findings about this subject and check.
fn of(findings: &[Value], subject: &str, check: &str) -> Vec<Value> {
    findings.iter().filter(|f| f["subject"] == subject && f["check"] == check).cloned().collect()
}

/// Runs it until `holds`: what a lab's servers say of each other comes within some rounds.
async fn until(directory: &Path, args: &[&str], holds: impl Fn(&[Value]) -> bool) -> (Output, Vec<Value>) {
    let deadline = Instant::now() + LIMIT;
    loop {
        let output = headroom(directory, args);
        let found = findings(&output);
        if holds(&found) {
            return (output, found);
        }
        assert!(Instant::now() < deadline, "{found:#?}");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test]
async fn it_asks_the_servers_and_says_what_each_listener_would_use() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 2), ("b", 1)]), base.path()).await.unwrap();
    let file = lab.dir().join("headroom-a.toml");
    let text = lab.status().await.router_config("a", &RouterOptions::default()).unwrap();
    std::fs::write(&file, text).unwrap();
    let args = ["check", file.to_str().unwrap(), "--json"];
    let reads_stay = |found: &[Value]| found.iter().any(|f| f["check"] == "reader" && f["status"] == "pass");
    // A server that answered late is judged by the next look.
    let sound = |found: &[Value]| reads_stay(found) && found.iter().all(|f| f["status"] != "fail");
    let (output, found) = until(base.path(), &args, sound).await;
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert!(found.iter().all(|f| f["status"] != "fail"), "{found:#?}");
    for server in ["a1", "a2", "b1"] {
        for check in ["login", "role", "privileges", "zone", "counters", "clock", "room"] {
            let one = of(&found, server, check);
            assert!(one.len() == 1 && one[0]["status"] == "pass", "{server} {check}: {one:?}");
        }
    }
    let of_kind = |check: &str| found.iter().find(|f| f["check"] == check).unwrap()["found"].clone();
    assert_eq!(of_kind("writer"), "to a1");
    assert!(of_kind("reader").as_str().unwrap().contains("a2"), "{}", of_kind("reader"));
    assert!(!words(&output).contains(lab.password(Account::Headroom)), "the password is shown");

    // For people: the same on a page, and a dead replica fails.
    let page = headroom(base.path(), &args[..2]);
    assert!(words(&page).contains("writer") && words(&page).contains("pass"), "{}", words(&page));
    lab.fault("b1", "kill".parse().unwrap()).await.unwrap();
    let is_down = |found: &[Value]| of(found, "b1", "login").iter().any(|f| f["status"] == "fail");
    let (output, _) = until(base.path(), &args, is_down).await;
    assert_eq!(output.status.code(), Some(1));
    lab.down().await.unwrap();
}

#[tokio::test]
async fn an_account_without_privileges_is_shown_the_statements_that_grant_them() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 2)]), base.path()).await.unwrap();
    let mut root = lab.connect("a1").await.unwrap();
    root.query_drop("CREATE USER poor@'%' IDENTIFIED BY 'poor-secret'").await.unwrap();
    lab.wait_applied("a2", "a1", LIMIT).await.unwrap();
    let login = base.path().join("poor.cnf");
    std::fs::write(&login, "[client]\nuser = poor\npassword = poor-secret\n").unwrap();
    let (a1, a2) = (lab.reach("a", "a1").unwrap().to_string(), lab.reach("a", "a2").unwrap().to_string());
    let login = login.to_str().unwrap();
    let args = ["check", "--server", &a1, "--server", &a2, "--option-file", login, "--json"];
    let output = headroom(base.path(), &args);
    let found = findings(&output);
    let grants: Vec<String> = found
        .iter()
        .filter(|f| f["check"] == "privileges")
        .filter_map(|f| f["mend"].as_str().map(str::to_owned))
        .collect();
    for privilege in ["SLAVE MONITOR", "SELECT ON performance_schema.*", "REPLICATION MASTER ADMIN"] {
        let is_it = |grant: &String| grant.contains(privilege) && grant.ends_with("TO 'poor'@'%';");
        assert!(grants.iter().any(is_it), "{privilege}: {grants:?}");
    }
    // Without the state of replication the roles are unknown: that is no.
    assert_eq!(output.status.code(), Some(1));
    assert!(!words(&output).contains("poor-secret"), "the password is shown");

    // A wrong password fails, and is not repeated.
    std::fs::write(base.path().join("wrong.cnf"), "[client]\nuser = poor\npassword = not-it\n").unwrap();
    let args = ["check", "--server", &a1, "--option-file", "wrong.cnf"];
    let output = headroom(base.path(), &args);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        words(&output).contains("Access denied") && !words(&output).contains("not-it"),
        "{}",
        words(&output)
    );
    drop(root);
    lab.down().await.unwrap();
}

#[test]
fn a_wrong_file_ends_with_2_before_any_server_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let file = "[fleet]\nsedes = [\"127.0.0.1:1\"]\n";
    std::fs::write(directory.path().join("headroom.toml"), file).unwrap();
    let output = headroom(directory.path(), &["check", "headroom.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(words(&output).contains("headroom.toml:2:1: unknown key 'sedes'"), "{}", words(&output));
    let output = headroom(directory.path(), &["check", "headroom.toml", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(answer["right"] == false && answer["complaints"].as_array().unwrap().len() == 2, "{answer}");
    // Doctor looks at the host all the same.
    let output = headroom(directory.path(), &["doctor", "--json"]);
    let found = findings(&output);
    assert!(found.iter().any(|f| f["subject"] == "configuration" && f["status"] == "fail"), "{found:?}");
    assert!(found.iter().any(|f| f["check"] == "kernel"));
    assert_eq!(output.status.code(), Some(1));
}
