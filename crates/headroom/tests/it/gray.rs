//! A primary that answers while its commits hang, made for real: its data directory stands on a small file
//! system of its own, which is frozen. The router names it, and so does whoever looks at the server.

use super::guard::{Running, until};
use lab::{Account, Fault, Lab, RouterOptions, Spec};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use testkit::disk::SmallDisk;

const PATIENCE: Duration = Duration::from_secs(60);

/// Thaws when dropped.
struct Thawed(Arc<SmallDisk>);

impl Drop for Thawed {
    fn drop(&mut self) {
        self.0.thaw();
    }
}

async fn run(lab: &Lab, server: &str, statements: &[&str]) {
    let mut conn = lab.connect(server).await.unwrap();
    for statement in statements {
        conn.query_drop(*statement).await.unwrap();
    }
}

/// Every commit waits for a replica; both replicas acknowledge.
async fn semi_sync(lab: &Lab) {
    for replica in ["a2", "b1"] {
        run(lab, replica, &["SET GLOBAL rpl_semi_sync_slave_enabled = ON", "STOP SLAVE", "START SLAVE"])
            .await;
    }
    run(lab, "a1", &["SET GLOBAL rpl_semi_sync_master_enabled = ON"]).await;
    let mut conn = lab.connect("a1").await.unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        let ask = "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'";
        let clients: Option<(String, String)> = conn.query_first(ask).await.unwrap();
        if clients.as_ref().is_some_and(|(_, clients)| clients == "2") {
            return;
        }
        assert!(Instant::now() < until, "{clients:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Writes through the router, each number in a transaction; those acknowledged are counted.
async fn write(opts: Opts, from: u64, acknowledged: Arc<AtomicUsize>, stop: Arc<AtomicBool>) {
    let mut number = from;
    while !stop.load(Relaxed) {
        let Ok(Ok(mut conn)) = tokio::time::timeout(Duration::from_secs(3), Conn::new(opts.clone())).await
        else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        while !stop.load(Relaxed) {
            number += 1;
            let transaction = async {
                conn.query_drop("BEGIN").await?;
                conn.query_drop(format!("INSERT INTO app.gray VALUES ({number})")).await?;
                conn.query_drop("COMMIT").await
            };
            match tokio::time::timeout(Duration::from_secs(3), transaction).await {
                Ok(Ok(())) => {
                    acknowledged.fetch_add(1, Relaxed);
                }
                _ => break,
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn a_primary_whose_disk_hangs_is_named_by_the_router_and_by_watch() {
    if !testkit::root_or_not_tested("a file system that is frozen needs root") {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let disk = Arc::new(SmallDisk::new(base.path(), 512));
    let spec = [
        ("slave_net_timeout", "4"),
        ("rpl_semi_sync_master_timeout", "86400000"),
        ("rpl_semi_sync_master_wait_point", "AFTER_SYNC"),
    ]
    .iter()
    .fold(Spec::new(&[("a", 2), ("b", 1)]), |spec, (name, value)| spec.option(name, value));
    let lab = Lab::up(&spec, base.path()).await.unwrap();
    // Dropped before the lab: a server on a frozen disk cannot be killed.
    let _thawed = Thawed(disk.clone());
    lab.fault("a1", Fault::Stop).await.unwrap();
    disk.take_data(&lab.dir().join("a1/data"));
    lab.heal("a1").await.unwrap();
    run(&lab, "a1", &["CREATE TABLE app.gray (n BIGINT NOT NULL PRIMARY KEY)"]).await;
    semi_sync(&lab).await;

    // Commits are seen where they are relayed.
    let options = RouterOptions { zero_hop: Some("off"), ..RouterOptions::default() };
    let config = base.path().join("headroom.toml");
    std::fs::write(&config, lab.status().await.router_config("a", &options).unwrap()).unwrap();
    let addresses = lab.status().await.router_addresses("a").unwrap();
    let admin: SocketAddr = addresses.admin.into();
    let mut route = Command::new(env!("CARGO_BIN_EXE_headroom"));
    route.arg("route").arg("--config").arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
    let _router = Running(route.spawn().unwrap());
    until(admin, "/status.json", "\"writer\"").await;
    let (acknowledged, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let to = OptsBuilder::default()
        .ip_or_hostname(addresses.writer.ip().to_string())
        .tcp_port(addresses.writer.port())
        .user(Some(Account::App.user()))
        .pass(Some(lab.password(Account::App).to_owned()))
        .prefer_socket(false)
        .max_allowed_packet(Some(16 << 20))
        .wait_timeout(Some(28_800));
    let writers: Vec<_> = (0..4)
        .map(|client| {
            let opts = Opts::from(to.clone());
            tokio::spawn(write(opts, client * 1_000_000, acknowledged.clone(), stop.clone()))
        })
        .collect();
    let count = || acknowledged.load(Relaxed);
    wait_for("writes", || count() > 50).await;

    disk.freeze();
    let named = until(admin, "/status.json", "a gray failure").await;
    assert!(named.contains("no commit has ended for"), "{named}");
    assert!(
        until(admin, "/metrics", "headroom_server_commits_hang{server=\"a1\"} 1").await.contains("200 OK")
    );
    let from = config.clone();
    let watched = tokio::task::spawn_blocking(move || {
        let mut watch = Command::new(env!("CARGO_BIN_EXE_headroom"));
        watch.args(["watch", "--once", "--json", "--window", "10s", "--router", "off", "--config"]).arg(from);
        watch.output().unwrap()
    });
    let watched = watched.await.unwrap();
    let words = String::from_utf8_lossy(&watched.stdout).into_owned();
    let told: serde_json::Value = serde_json::from_str(&words).unwrap_or_default();
    let servers = told["servers"].as_array().cloned().unwrap_or_default();
    let primary = servers.iter().find(|server| server["name"] == "a1").cloned().unwrap_or_default();
    assert_eq!(primary["verdict"]["bottleneck"]["name"], "commits-hang", "{primary:#}");
    assert_eq!(watched.status.code(), Some(1), "a bottleneck is named");
    disk.thaw();
    stop.store(true, Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    lab.down().await.unwrap();
}

async fn wait_for(what: &str, is: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < until, "no {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
