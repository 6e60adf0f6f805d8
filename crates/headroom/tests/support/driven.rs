//! Real drivers through a real router: a lab, `headroom route` as a child process, and the runners of tests/drivers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic where it stands")]

use lab::{Lab, RouterOptions, Spec};
use mysql_async::prelude::Queryable;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Password of the drivers' own account; it lives as long as the lab.
const PASSWORD: &str = "drivers-only-in-the-lab";

/// Starts everything, runs every runner to its end, and fails with what each of them said.
pub(crate) async fn drivers_work_through_the_router(program: Option<PathBuf>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    prepare(&root);
    let base = tempfile::tempdir().unwrap();
    let mut spec =
        Spec::new(&[("a", 2), ("b", 1)]).option("max_allowed_packet", "64M").option("local_infile", "1");
    if let Some(program) = program {
        spec = spec.program(program);
    }
    let lab = Lab::up(&spec, base.path()).await.unwrap();
    create_account(&lab).await;
    let router = Router::start(&lab).await;
    router.wait_ready().await;
    let mut failures = String::new();
    for (runner, more) in [("pymysql", &[][..]), ("go", &[]), ("sysbench", &["--seconds", "3"])] {
        let output = run(&root, &lab, &router, runner, more);
        if !output.status.success() {
            let (said, errors) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            failures += &format!("\n{runner}: {}\n{}\n{errors}", output.status, failed_checks(&said));
        }
    }
    let log = router.stop();
    lab.down().await.unwrap();
    assert!(failures.is_empty(), "{failures}\nthe router's last words:\n{log}");
}

fn prepare(root: &Path) {
    let output = Command::new("tests/drivers/prepare.sh").current_dir(root).output().unwrap();
    assert!(output.status.success(), "drivers are missing: {}", String::from_utf8_lossy(&output.stderr));
}

async fn create_account(lab: &Lab) {
    let mut root = lab.connect("a1").await.unwrap();
    root.query_drop(format!("CREATE USER driver@'%' IDENTIFIED BY '{PASSWORD}'")).await.unwrap();
    root.query_drop("GRANT ALL ON *.* TO driver@'%' WITH GRANT OPTION").await.unwrap();
}

fn run(root: &Path, lab: &Lab, router: &Router, runner: &str, more: &[&str]) -> Output {
    let real = lab.real("a1").unwrap().to_string();
    let socket = |name: &str| lab.dir().join(name).display().to_string();
    Command::new("tests/drivers/run.sh")
        .arg(runner)
        .args([
            "--reader",
            &router.reader.to_string(),
            "--writer",
            &router.writer.to_string(),
            "--direct",
            &real,
        ])
        .args([
            "--reader-socket",
            &socket("reader.sock"),
            "--writer-socket",
            &socket("writer.sock"),
            "--user",
            "driver",
        ])
        .args(more)
        .env("DRIVERS_PASSWORD", PASSWORD)
        .current_dir(root)
        .output()
        .unwrap()
}

/// The checks that failed, with their reasons; everything that was said when it is not the promised line of JSON.
fn failed_checks(said: &str) -> String {
    let Ok(result) = serde_json::from_str::<serde_json::Value>(said.trim()) else { return said.to_owned() };
    let checks = result["checks"].as_array().cloned().unwrap_or_default();
    let failed = checks.iter().filter(|check| check["state"] == "failed");
    failed.map(|check| format!("  {}: {}\n", check["name"], check["why"])).collect()
}

/// `headroom route` in zone a; killed when dropped.
struct Router {
    child: Child,
    reader: SocketAddrV4,
    writer: SocketAddrV4,
    log: PathBuf,
}

impl Router {
    async fn start(lab: &Lab) -> Self {
        let (status, dir) = (lab.status().await, lab.dir());
        let addresses = status.router_addresses("a").unwrap();
        let options = RouterOptions {
            reader_socket: Some(dir.join("reader.sock")),
            writer_socket: Some(dir.join("writer.sock")),
            zero_hop: Some("off"),
            ..RouterOptions::default()
        };
        let text = status.router_config("a", &options).unwrap();
        let (file, log) = (dir.join("drivers.toml"), dir.join("drivers.log"));
        std::fs::write(&file, text).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_headroom"))
            .args(["route", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self { child, reader: addresses.reader, writer: addresses.writer, log }
    }

    /// Waits until the reader sends sessions to a replica and the writer to the primary.
    async fn wait_ready(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let (reader, writer) = (read_only(self.reader).await, read_only(self.writer).await);
            if reader == Some(true) && writer == Some(false) {
                return;
            }
            assert!(Instant::now() < deadline, "not ready: {reader:?} {writer:?}\n{}", self.words());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines()
            .rev()
            .take(20)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .map(|l| l.to_owned() + "\n")
            .collect()
    }

    fn stop(mut self) -> String {
        let words = self.words();
        let alive = self.child.try_wait().unwrap().is_none();
        assert!(alive, "headroom route ended by itself:\n{words}");
        words
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn read_only(address: SocketAddrV4) -> Option<bool> {
    let opts = mysql_async::OptsBuilder::default()
        .ip_or_hostname(address.ip().to_string())
        .tcp_port(address.port())
        .prefer_socket(Some(false))
        .user(Some("driver"))
        .pass(Some(PASSWORD));
    let mut connection = mysql_async::Conn::new(opts).await.ok()?;
    let read_only: Option<i64> = connection.query_first("SELECT @@read_only").await.ok()?;
    let _ = connection.disconnect().await;
    read_only.map(|r| r == 1)
}
