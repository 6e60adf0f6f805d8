//! Real drivers through a real router: a lab, `headroom route` as a child process, and the runners of
//! tests/drivers. What they say is compared with the table of docs/guide/drivers.md.

#[path = "../../../../../tests/drivers/mysql_async.rs"]
mod mysql_async_runner;
pub(crate) mod pools;
mod router;

use lab::{Lab, Spec};
use mysql_async::prelude::Queryable;
use router::Router;
use serde_json::{Value, json};
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Password of the drivers' own account; it lives as long as the lab.
const PASSWORD: &str = "drivers-only-in-the-lab";
const USER: &str = "driver";
/// As `tests/drivers/run.sh` calls them, in two lanes: those of the second wait a good deal. mysql_async runs
/// in this process.
const LANES: [&[&str]; 2] = [
    &["pymysql", "mysql-connector-python", "mysql2", "connector-j", "mariadb-connector-j"],
    &["go-suite", "go", "sysbench"],
];

/// Where the drivers find the router.
pub(crate) struct Addresses {
    pub(crate) reader: SocketAddrV4,
    pub(crate) writer: SocketAddrV4,
    /// Whether it is on unix sockets too.
    pub(crate) sockets: bool,
}

/// Starts everything, runs every runner to its end, and fails with what each of them said.
pub(crate) async fn drivers_work_through_the_router(program: Option<PathBuf>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    prepare(&root);
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&spec(&root, program), base.path()).await.unwrap();
    create_account(&lab).await;
    log_in_everywhere(&lab).await;
    let router = Router::start(&lab).await;
    router.wait_ready().await;
    let through = Addresses { reader: router.reader, writer: router.writer, sockets: true };
    let lane = |runners: &[&str]| -> Vec<Value> {
        runners.iter().map(|runner| said(runner, &run(&root, &lab, &through, runner))).collect()
    };
    let mut results: Vec<Value> = std::thread::scope(|scope| {
        let lanes = LANES.map(|runners| scope.spawn(move || lane(runners)));
        lanes.into_iter().flat_map(|lane| lane.join().unwrap()).collect()
    });
    results.push(mysql_async(&root, &lab, &router).await);
    let (version, log) = (lab.version(), router.stop());
    lab.down().await.unwrap();
    let failures: String = results.iter().map(failed_checks).collect();
    assert!(failures.is_empty(), "{failures}\nthe router's last words:\n{log}");
    compare_with_the_guide(&root, &version, &results);
}

/// Servers that do what the drivers ask of them.
pub(crate) fn spec(root: &Path, program: Option<PathBuf>) -> Spec {
    let tls = |file: &str| root.join("target/drivers/tls").join(file).display().to_string();
    let spec = Spec::new(&[("a", 2), ("b", 1)])
        .option("max_allowed_packet", "64M")
        .option("local_infile", "1")
        .option("ssl_cert", &tls("cert.pem"))
        .option("ssl_key", &tls("key.pem"));
    match program {
        Some(program) => spec.program(program),
        None => spec,
    }
}

pub(crate) fn prepare(root: &Path) {
    let output = Command::new("tests/drivers/prepare.sh").current_dir(root).output().unwrap();
    assert!(output.status.success(), "drivers are missing: {}", String::from_utf8_lossy(&output.stderr));
}

pub(crate) async fn create_account(lab: &Lab) {
    let mut root = lab.connect("a1").await.unwrap();
    root.query_drop(format!("CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'")).await.unwrap();
    root.query_drop(format!("GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION")).await.unwrap();
}

/// A first login on every server. MySQL asks for the password itself while it has not cached it, and
/// mysql-connector-python without TLS sends it then in a form that MySQL refuses (error 1045), with or
/// without a router. Its own first logins reach one replica, and the reader leads to all of them.
pub(crate) async fn log_in_everywhere(lab: &Lab) {
    for server in lab.servers() {
        let real = lab.real(&server).unwrap();
        let opts = mysql_async::OptsBuilder::default()
            .ip_or_hostname(real.ip().to_string())
            .tcp_port(real.port())
            .prefer_socket(Some(false))
            .user(Some(USER))
            .pass(Some(PASSWORD));
        let deadline = Instant::now() + Duration::from_secs(60);
        let connection = loop {
            match mysql_async::Conn::new(opts.clone()).await {
                Ok(connection) => break connection,
                // The account has not come to this replica yet.
                Err(error) => assert!(Instant::now() < deadline, "{server}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        connection.disconnect().await.unwrap();
    }
}

pub(crate) fn run(root: &Path, lab: &Lab, through: &Addresses, runner: &str) -> Output {
    let real = lab.real("a1").unwrap().to_string();
    let (reader, writer) = (through.reader.to_string(), through.writer.to_string());
    let socket = |name: &str| lab.dir().join(name).display().to_string();
    let mut command = Command::new("tests/drivers/run.sh");
    command.arg(runner).args(["--reader", &reader, "--writer", &writer, "--direct", &real, "--user", USER]);
    if through.sockets && !runner.contains("connector") {
        // Neither has sockets in Java, and Connector/Python's runner does without.
        command.args(["--reader-socket", &socket("reader.sock"), "--writer-socket", &socket("writer.sock")]);
    }
    if runner == "sysbench" {
        command.args(["--seconds", "2"]);
    }
    command.env("DRIVERS_PASSWORD", PASSWORD).current_dir(root).output().unwrap()
}

async fn mysql_async(root: &Path, lab: &Lab, router: &Router) -> Value {
    let tier = mysql_async_runner::Tier {
        reader: router.reader,
        writer: router.writer,
        direct: lab.real("a1").unwrap(),
        reader_socket: lab.dir().join("reader.sock"),
        user: USER,
        password: PASSWORD,
    };
    mysql_async_runner::run(&tier, &mysql_async_runner::version(root)).await
}

/// The promised line of JSON; one failed check with everything that was said when it is not.
pub(crate) fn said(runner: &str, output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let result: Option<Value> = serde_json::from_str(text.trim()).ok();
    let right = |result: &Value| output.status.success() == (result["failed"] == 0);
    result.filter(right).unwrap_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        let why = format!("{}: {text}{errors}", output.status);
        json!({ "driver": runner, "checks": [{ "name": "it runs", "state": "failed", "why": why }] })
    })
}

pub(crate) fn failed_checks(result: &Value) -> String {
    let checks = result["checks"].as_array().cloned().unwrap_or_default();
    let failed = checks.iter().filter(|check| check["state"] == "failed");
    failed.map(|check| format!("\n{}: {}: {}", result["driver"], check["name"], check["why"])).collect()
}

/// Every driver has a line `| driver | version | on MariaDB | on MySQL |` in the guide, and it is true. Other
/// versions of the servers than those that head the table may skip more or less, and nothing is claimed of
/// them.
fn compare_with_the_guide(root: &Path, version: &str, results: &[Value]) {
    let guide = std::fs::read_to_string(root.join("docs/guide/drivers.md")).unwrap();
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let table: Vec<Vec<String>> = guide.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    let Some(column) = table[0].iter().position(|heading| version.starts_with(&format!("{heading}."))) else {
        return;
    };
    let mut wrong = String::new();
    for result in results {
        let driver = result["driver"].as_str().unwrap();
        // Go adds the version of its compiler, and sysbench is the distribution's.
        let of = result["version"].as_str().unwrap().split(' ').next().unwrap();
        let count = |what: &str| result[what].as_u64().unwrap();
        let measured = match count("skipped") {
            0 => format!("{} passed", count("passed")),
            skipped => format!("{} passed, {skipped} skipped", count("passed")),
        };
        let row = table.iter().find(|row| row[0] == driver && (row[1] == of || driver == "sysbench"));
        if row.is_none_or(|row| row[column] != measured) {
            wrong += &format!("\n| {driver} | {of} | {measured} |");
        }
    }
    assert!(wrong.is_empty(), "docs/guide/drivers.md says otherwise of {version}:{wrong}");
}
