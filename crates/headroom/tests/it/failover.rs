//! `headroom failover` as it is typed: it stops where something could be lost, says what, promotes when that
//! is accepted, and brings the old primary back.

use crate::support::told::Told;
use lab::{Account, Fault, Lab, RouterOptions, Spec};
use mysql_async::prelude::Queryable;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

#[tokio::test]
async fn it_stops_where_something_could_be_lost_and_goes_on_when_that_is_accepted() {
    let base = tempfile::tempdir().unwrap();
    let spec = Spec::new(&[("a", 2), ("b", 1)]).option("slave_net_timeout", "4");
    let lab = Lab::up(&spec, base.path()).await.unwrap();
    let config = base.path().join("headroom.toml");
    std::fs::write(&config, lab.status().await.router_config("a", &RouterOptions::default()).unwrap())
        .unwrap();
    let journals = base.path().join("journals");
    let headroom = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        command.arg("failover").args(arguments).arg("--config").arg(&config);
        command.arg("--admin-option-file").arg(lab.credentials_file(Account::Admin));
        command.arg("--replication-option-file").arg(lab.credentials_file(Account::Repl));
        command.arg("--journal").arg(&journals);
        command
    };
    let alive = output(headroom(&["--check"])).await;
    assert_ne!(alive.status.code(), Some(0), "{alive:?}");
    assert!(text(&alive).contains("takes writes: there is a primary"), "{}", text(&alive));

    lab.fault("a1", Fault::Kill).await.unwrap();
    let quick = ["--yes", "--confirm", "600ms", "--within", "20s"];
    let stopped = output(headroom(&quick)).await;
    assert_eq!(stopped.status.code(), Some(1), "{}", text(&stopped));
    assert!(
        text(&stopped).contains("is dead") && text(&stopped).contains("--accept-loss"),
        "{}",
        text(&stopped)
    );
    assert!(!Path::new(&journals).exists(), "nothing was begun");

    let done =
        output(headroom(&[&quick[..], &["--fence", "test -n \"$1\"", "--accept-loss"]].concat())).await;
    assert_eq!(done.status.code(), Some(0), "{}", text(&done));
    assert!(text(&done).contains("takes writes (epoch 1)"), "{}", text(&done));
    let rejoin =
        text(&done).lines().find_map(|line| line.split("--rejoin ").nth(1).map(str::to_owned)).unwrap();

    lab.heal("a1").await.unwrap();
    // The flags are printed with it; here they are added to each command.
    let (rejoin, flags) = rejoin.split_once(' ').unwrap();
    assert!(flags.starts_with("--config ") && flags.contains(" --journal "), "{flags}");
    let back = output(headroom(&["--rejoin", rejoin])).await;
    assert_eq!(back.status.code(), Some(0), "{}", text(&back));
    let mut conn = lab.connect("a1").await.unwrap();
    let read_only: Option<String> = conn.query_first("SELECT @@GLOBAL.read_only").await.unwrap();
    assert_eq!(read_only.as_deref(), Some("1"));
    lab.down().await.unwrap();
}

/// The seeds are a1 and a2: with a1 dead, nothing leads to b1 but what a router remembers.
#[tokio::test]
async fn a_running_router_is_asked_for_replicas_that_only_the_dead_primary_could_name() {
    let base = tempfile::tempdir().unwrap();
    let spec = Spec::new(&[("a", 2), ("b", 1)]).option("slave_net_timeout", "4");
    let lab = Lab::up(&spec, base.path()).await.unwrap();
    let (config, log) = (base.path().join("headroom.toml"), base.path().join("route.log"));
    let status = lab.status().await;
    let options = RouterOptions { zero_hop: Some("off"), ..RouterOptions::default() };
    std::fs::write(&config, status.router_config("a", &options).unwrap()).unwrap();
    let told = Told { admin: status.router_addresses("a").unwrap().admin.into(), log: log.clone() };
    let log = std::fs::File::create(log).unwrap();
    let mut router = tokio::process::Command::new(env!("CARGO_BIN_EXE_headroom"))
        .kill_on_drop(true)
        .args(["route", "--config"])
        .arg(&config)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let knows_all = || {
        let status: Value = serde_json::from_str(&told.try_get("/status.json").ok()?).ok()?;
        (status["writer"] == "a1" && status["servers"].as_array()?.len() == 3).then_some(())
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while knows_all().is_none() {
        assert!(Instant::now() < deadline, "the router never knew all: {}", told.words());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    lab.fault("a1", Fault::Kill).await.unwrap();
    let failover = async |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        command.args(["failover", "--confirm", "600ms", "--within", "20s"]).args(arguments);
        command.arg("--config").arg(&config);
        command.arg("--admin-option-file").arg(lab.credentials_file(Account::Admin));
        command.arg("--replication-option-file").arg(lab.credentials_file(Account::Repl));
        command.arg("--journal").arg(base.path().join("journals"));
        output(command).await
    };
    let checked = async |arguments: &[&str]| -> Value {
        let output = failover(&[&["--check", "--json"], arguments].concat()).await;
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)))
    };
    let alone = checked(&["--router", "127.0.0.1:1"]).await;
    assert_eq!((&alone["replicas"], &alone["asked_router"]), (&serde_json::json!(["a2"]), &Value::Null));
    let both = checked(&[]).await;
    // Beside them stands the dead one, as b1 calls it: nobody can tell any more that it is the same.
    let knows = |name: &str| both["replicas"].as_array().unwrap().iter().any(|one| one == name);
    assert!(knows("a2") && knows("b1"), "{both}");
    assert_eq!(both["asked_router"], told.admin.to_string());

    let done = failover(&["a2", "--yes", "--fence", "test -n \"$1\"", "--accept-loss"]).await;
    assert_eq!(done.status.code(), Some(0), "{}", text(&done));
    let mut primary = lab.connect("a2").await.unwrap();
    primary.query_drop("CREATE TABLE app.after (id INT PRIMARY KEY)").await.unwrap();
    lab.wait_applied("b1", "a2", Duration::from_secs(60)).await.unwrap();
    router.kill().await.unwrap();
    lab.down().await.unwrap();
}

async fn output(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
