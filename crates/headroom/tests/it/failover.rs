//! `headroom failover` as it is typed: it stops where something could be lost, says what, promotes when that
//! is accepted, and brings the old primary back.

use lab::{Account, Fault, Lab, RouterOptions, Spec};
use mysql_async::prelude::Queryable;
use std::path::Path;
use std::process::{Command, Output};

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
    let back = output(headroom(&["--rejoin", rejoin.trim()])).await;
    assert_eq!(back.status.code(), Some(0), "{}", text(&back));
    let mut conn = lab.connect("a1").await.unwrap();
    let read_only: Option<String> = conn.query_first("SELECT @@GLOBAL.read_only").await.unwrap();
    assert_eq!(read_only.as_deref(), Some("1"));
    lab.down().await.unwrap();
}

async fn output(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
