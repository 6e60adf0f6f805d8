//! A primary that answers while its commits hang, made for real: its data directory stands on a small file system
//! of its own, which is frozen. The router names it, and a guard that was told to replaces it.

use super::guard::{Running, ask, until};
use lab::{Account, Fault, Lab, RouterOptions, Spec};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A file system in a file; thawed and unmounted when dropped, so that nothing is left that cannot be killed.
struct SmallFileSystem {
    at: PathBuf,
}

fn ran(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl SmallFileSystem {
    fn new(base: &Path, mib: u64) -> Self {
        let (image, at) = (base.join("image"), base.join("mount"));
        std::fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
        std::fs::create_dir(&at).unwrap();
        ran("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
        ran("mount", &["-o", "loop", image.to_str().unwrap(), at.to_str().unwrap()]);
        Self { at }
    }

    /// The server, which does not run, has its data here from now on.
    fn take_data(&self, directory: &Path) {
        ran("cp", &["-a", directory.to_str().unwrap(), self.at.to_str().unwrap()]);
        let moved = self.at.join("data");
        std::fs::remove_dir_all(directory).unwrap();
        std::os::unix::fs::symlink(moved, directory).unwrap();
    }

    fn freeze(&self) {
        ran("fsfreeze", &["-f", self.at.to_str().unwrap()]);
    }

    fn thaw(&self) {
        let _ = Command::new("fsfreeze").args(["-u", self.at.to_str().unwrap()]).output();
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        self.thaw();
        let _ = Command::new("umount").args(["-l", self.at.to_str().unwrap()]).output();
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

/// Writes through the router, each number in a transaction; those acknowledged are kept.
async fn write(opts: Opts, from: u64, acknowledged: Arc<Mutex<Vec<u64>>>, stop: Arc<AtomicBool>) {
    let mut number = from;
    while !stop.load(Relaxed) {
        let Ok(Ok(mut conn)) = tokio::time::timeout(Duration::from_secs(3), Conn::new(opts.clone())).await
        else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        loop {
            number += 1;
            let transaction = async {
                conn.query_drop("BEGIN").await?;
                conn.query_drop(format!("INSERT INTO app.gray VALUES ({number})")).await?;
                conn.query_drop("COMMIT").await
            };
            match tokio::time::timeout(Duration::from_secs(3), transaction).await {
                Ok(Ok(())) => acknowledged.lock().unwrap().push(number),
                _ => break,
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn a_primary_whose_disk_hangs_is_named_by_the_router_and_replaced_by_a_guard_that_may() {
    if !testkit::root_or_not_tested("a file system that is frozen needs root") {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let disk = SmallFileSystem::new(base.path(), 512);
    let spec = [
        ("slave_net_timeout", "4"),
        ("rpl_semi_sync_master_timeout", "86400000"),
        ("rpl_semi_sync_master_wait_point", "AFTER_SYNC"),
    ]
    .iter()
    .fold(Spec::new(&[("a", 2), ("b", 1)]), |spec, (name, value)| spec.option(name, value));
    let lab = Lab::up(&spec, base.path()).await.unwrap();
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
    let start = |name: &str, arguments: &[&str]| {
        let log = std::fs::File::create(base.path().join(format!("{name}.log"))).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        command.args(arguments).arg("--config").arg(&config).stdout(Stdio::null()).stderr(log);
        if name == "guard" {
            command.arg("--admin-option-file").arg(lab.credentials_file(Account::Admin));
            command.arg("--journal").arg(base.path().join("journals"));
        }
        Running(command.spawn().unwrap())
    };
    let admin: SocketAddr = addresses.admin.into();
    let _router = start("route", &["route"]);
    until(admin, "/status.json", "\"writer\"").await;
    let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (listen, router) = (at.to_string(), admin.to_string());
    let arguments = ["guard", "--confirm", "1s", "--listen", &listen, "--act-on-gray", "--router", &router];
    let _guard = start("guard", &arguments);
    until(at, "/metrics", "headroom_guard_active 1").await;

    let (acknowledged, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
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
    let count = || acknowledged.lock().unwrap().len();
    wait_for("writes", || count() > 50).await;

    disk.freeze();
    let frozen = Instant::now();
    let named = until(admin, "/status.json", "a gray failure").await;
    println!("named after {:?}", frozen.elapsed());
    assert!(named.contains("no commit has ended for"), "{named}");
    assert!(
        until(admin, "/metrics", "headroom_server_commits_hang{server=\"a1\"} 1").await.contains("200 OK")
    );
    let done = until(at, "/status.json", "\"failovers\": 1").await;
    println!("replaced after {:?}", frozen.elapsed());
    assert!(done.contains("takes writes in the place of a1"), "{done}");
    let before = count();
    wait_for("writes on the new primary", || count() > before + 20).await;
    println!("written again after {:?}", frozen.elapsed());
    stop.store(true, Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    let journal = std::fs::read_to_string(base.path().join("journals/guard.jsonl")).unwrap();
    assert!(journal.contains("its commits hang"), "{journal}");

    disk.thaw();
    lab.fault("a1", Fault::Kill).await.unwrap();
    let new = if done.contains("a2 takes writes") { "a2" } else { "b1" };
    let found: Vec<u64> = lab.connect(new).await.unwrap().query("SELECT n FROM app.gray").await.unwrap();
    let found: std::collections::BTreeSet<u64> = found.into_iter().collect();
    let lost: Vec<u64> =
        acknowledged.lock().unwrap().iter().copied().filter(|n| !found.contains(n)).collect();
    assert_eq!(lost, Vec::<u64>::new());
    assert!(ask(at, "/healthz").is_some());
    lab.down().await.unwrap();
}

async fn wait_for(what: &str, is: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < until, "no {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
