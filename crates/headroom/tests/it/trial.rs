//! `headroom trial` on a real MariaDB: an experiment that is killed in the middle and goes on, finds a
//! setting that is worse, and leaves the server as it was.

pub(crate) mod ends;
mod hosts;

use lab::{Account, DATABASE, Lab, Spec};
use mysql_async::prelude::Queryable;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// These move by themselves.
const MOVING: [&str; 7] = [
    "gtid_binlog_pos",
    "gtid_executed",
    "gtid_binlog_state",
    "gtid_current_pos",
    "timestamp",
    "innodb_buffer_pool_dump_status",
    "innodb_buffer_pool_load_status",
];

async fn variables(lab: &Lab) -> BTreeMap<String, String> {
    let mut root = lab.connect("a1").await.unwrap();
    let rows: Vec<(String, String)> = root.query("SHOW GLOBAL VARIABLES").await.unwrap();
    root.disconnect().await.unwrap();
    rows.into_iter().filter(|(name, _)| !MOVING.contains(&name.as_str())).collect()
}

fn headroom(dir: &Path, login: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
    command
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("HOME", dir)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    if args[..2] != ["trial", "plan"] && args[..2] != ["trial", "report"] {
        command.arg("--option-file").arg(login);
    }
    if args[..2] == ["trial", "run"] {
        command.arg("--journal").arg(dir.join("knobs"));
    }
    command.stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A commit that waits up to 100 ms for a hundred others, when there are not as many, is harmful on
/// purpose, however busy this machine is.
const SPEC: &str = "\
name = \"short\"
metric = \"throughput\"
seed = 3

[load]
workload = \"oltp_read_write\"
threads = [1]
database = \"{database}\"
tables = 1
table_size = 1000

[guard]                # worse is to be found here, not given up
latency = 10000.0
memory = 1.0
steal = 1.0

[timing]
reset = \"0s\"
warm_up = \"600ms\"
measure = \"500ms\"

[design]
kind = \"one-at-a-time\"

[[factor]]
knob = \"server.binlog_commit_wait_count\"
levels = [\"0\", \"100\"]

[[factor]]
knob = \"server.innodb_flush_neighbors\"
levels = [\"1\", \"0\", \"2\"]

[[factor]]
knob = \"server.innodb_max_dirty_pages_pct\"
levels = [\"90\", \"50\"]

[[stage]]
cells = 4
blocks = 4
";

#[tokio::test]
#[allow(clippy::zombie_processes, reason = "it is waited for right after it is killed")]
async fn an_experiment_that_is_killed_goes_on_finds_what_is_worse_and_leaves_the_server_as_it_was() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 1)]), base.path()).await.unwrap();
    let (scene, login) = (tempfile::tempdir().unwrap(), lab.credentials_file(Account::Root));
    // Root comes by the socket only.
    let (dir, address) = (scene.path(), lab.socket("a1").unwrap().display().to_string());
    let prepare = ["load", "prepare", "oltp_read_write", "--server", &address, "--database", DATABASE];
    let mut prepare = headroom(dir, &login, &prepare);
    let output = prepare.args(["--tables", "1", "--table-size", "1000"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    std::fs::write(dir.join("short.toml"), SPEC.replace("{database}", DATABASE)).unwrap();
    let start = variables(&lab).await;

    let output = headroom(dir, &login, &["trial", "plan", "short.toml", "--json"]).output().unwrap();
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((plan["trials"].as_u64(), plan["cells"].as_array().unwrap().len()), (Some(32), 4), "{plan}");
    let run = ["trial", "run", "short.toml", "--server", &address];
    let output = headroom(dir, &login, &[&run[..], &["--dry-run"]].concat()).output().unwrap();
    assert!(text(&output).contains("0 -> 100"), "{}", text(&output));
    assert!(!dir.join("trial-short").exists() && variables(&lab).await == start, "nothing was touched");

    // Killed while a cell is set, which no process can put back.
    let mut child = headroom(dir, &login, &run).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let lines = || std::fs::read_to_string(dir.join("trial-short/trials.jsonl")).unwrap_or_default();
    let began = Instant::now();
    loop {
        let changed = lines().lines().count() > 6 && variables(&lab).await != start;
        if changed {
            child.kill().unwrap();
            child.wait().unwrap();
            if variables(&lab).await != start {
                break;
            }
            // It was put back between the look and the kill.
            child = headroom(dir, &login, &[&run[..], &["--resume"]].concat())
                .stderr(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
        }
        assert!(began.elapsed() < LIMIT, "{}", lines());
    }
    let before = lines().lines().count();
    assert!(before < 28, "it was to be killed in the middle");
    let output = headroom(dir, &login, &run).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "what is there is not overwritten: {}", text(&output));
    assert!(text(&output).contains("--resume"), "{}", text(&output));

    // As a trial of another host would have it, which no journal here knows of.
    let mut other = lab.connect("a1").await.unwrap();
    other.query_drop("DO GET_LOCK('headroom.trial', 10)").await.unwrap();
    let output = headroom(dir, &login, &[&run[..], &["--resume"]].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    let named = format!("another trial runs on {address}, by its session {}", other.id());
    assert!(text(&output).contains(&named) && variables(&lab).await == start, "{}", text(&output));
    other.disconnect().await.unwrap();

    let output = headroom(dir, &login, &[&run[..], &["--resume", "--json"]].concat()).output().unwrap();
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert_eq!(variables(&lab).await, start);
    assert!(
        report["complete"].as_bool().unwrap() && report["differ"] == Value::Array(Vec::new()),
        "{report}"
    );
    assert!(lines().lines().count() > before);
    let load = &report["loads"][0];
    let cells = load["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4, "{load}");
    let logs = |cell: &&Value| cell["settings"].to_string().contains("commit_wait");
    let harmful = cells.iter().find(logs).unwrap();
    assert_eq!(harmful["verdict"], "worse", "{load}");
    assert!(logs(&cells.last().unwrap()), "it is the last of the ranking: {load}");
    // No verdict is given of the A/A cell; that it differs by chance would happen once in a thousand tests.
    assert!(
        load["same"].get("verdict").is_none() && load["same"]["p_differs"].as_f64() > Some(0.001),
        "{load}"
    );

    let output =
        headroom(dir, &login, &["trial", "report", "trial-short", "--html", "t.html"]).output().unwrap();
    assert!(text(&output).contains("worse"), "{}", text(&output));
    let page = std::fs::read_to_string(dir.join("t.html")).unwrap();
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("binlog_commit_wait_count=100"));
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script"));
    let output = headroom(dir, &login, &["trial", "report", "trial-short", "--csv"]).output().unwrap();
    assert!(output.stdout.iter().filter(|byte| **byte == b'\n').count() > 28);

    let init = ["trial", "init", "--server", &address, "--database", DATABASE, "--budget", "15m"];
    let output = headroom(dir, &login, &init).output().unwrap();
    std::fs::write(dir.join("init.toml"), &output.stdout).unwrap();
    assert!(text(&output).contains("server.innodb_flush_neighbors"), "{}", text(&output));
    let output = headroom(dir, &login, &["trial", "plan", "init.toml"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    lab.down().await.unwrap();
}
