//! `headroom plan` on a real server: what a recording's reads miss at several sizes of the buffer pool, what
//! an agent's history tells, and the page with what stops the server now.

use crate::support::agent::Agent;
use lab::{Account, DATABASE, Lab, Spec};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Four rows a page: two thousand pages, 32 MiB.
const ROWS: u32 = 8_000;
/// Neighbouring rows that one statement reads.
const EACH: u32 = 125;

async fn headroom(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
    command.args(arguments).env_clear().stdin(Stdio::null());
    let done = tokio::task::spawn_blocking(move || command.output().unwrap());
    let Output { status, stdout, stderr } = done.await.unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// A table of 32 MiB, and the general log of a client that reads all of it once.
async fn logged_reads(lab: &Lab, log: &Path) {
    let mut root = lab.connect("a1").await.unwrap();
    let table = format!("CREATE TABLE {DATABASE}.warm (id INT PRIMARY KEY, pad VARCHAR(3700) NOT NULL)");
    root.query_drop(table + " CHARACTER SET latin1").await.unwrap();
    for first in (0..ROWS).step_by(500) {
        let rows: Vec<String> = (first..first + 500).map(|id| format!("({id}, REPEAT('r', 3700))")).collect();
        root.query_drop(format!("INSERT INTO {DATABASE}.warm VALUES {}", rows.join(", "))).await.unwrap();
    }
    let set = format!("SET GLOBAL general_log_file = '{}', GLOBAL log_output = 'FILE'", log.display());
    root.query_drop(set).await.unwrap();
    root.query_drop("SET GLOBAL general_log = ON").await.unwrap();
    let mut app = Conn::new(lab.opts("a", "a1", Account::App).unwrap()).await.unwrap();
    for first in (0..ROWS).step_by(EACH as usize) {
        let last = first + EACH - 1;
        let sum = format!("SELECT SUM(LENGTH(pad)) FROM {DATABASE}.warm WHERE id BETWEEN {first} AND {last}");
        app.query_drop(sum).await.unwrap();
    }
    app.query_drop(format!("INSERT INTO {DATABASE}.warm VALUES (-1, '')")).await.unwrap();
    root.query_drop("SET GLOBAL general_log = OFF").await.unwrap();
}

#[tokio::test]
async fn a_recordings_reads_are_measured_at_each_size_and_the_page_says_what_stops_the_server() {
    let base = tempfile::tempdir().unwrap();
    let mut spec = Spec::new(&[("a", 1)])
        .option("innodb_buffer_pool_size_max", &(64_u64 << 20).to_string())
        .option("innodb_random_read_ahead", "OFF")
        .option("innodb_read_ahead_threshold", "0");
    spec.server.buffer_pool_mib = 64;
    let lab = Lab::up(&spec, base.path()).await.unwrap();
    let (log, recording) = (base.path().join("general.log"), base.path().join("reads.hrec"));
    logged_reads(&lab, &log).await;
    let (code, _, said) =
        headroom(&["record", "--from-general-log", &text(&log), "--out", &text(&recording)]).await;
    assert_eq!(code, Some(0), "{said}");

    let server = lab.real("a1").unwrap().to_string();
    let file = |account: Account| text(&lab.credentials_file(account));
    let (app, repl) = (file(Account::App), file(Account::Repl));
    // Who may set the size of the pool.
    let mut root = lab.connect("a1").await.unwrap();
    for statement in ["CREATE USER 'plan'@'%'", "GRANT ALL ON *.* TO 'plan'@'%'"] {
        root.query_drop(statement).await.unwrap();
    }
    let admin = text(&base.path().join("plan.cnf"));
    std::fs::write(&admin, "[client]\nuser = plan\npassword = \n").unwrap();
    let (ledger, journal) = (text(&base.path().join("plan.jsonl")), text(&base.path().join("knobs")));
    let plan = |replayed_by: &str| {
        let memory = ["plan", "memory", "--server", &server, "--option-file", &admin, "--json"];
        let size = ["--sizes", "16M,32M,64M", "--windows", "2", "--ledger", &ledger, "--journal", &journal];
        let replay = ["--replay", &text(&recording), "--replay-option-file", replayed_by];
        [&memory[..], &size[..], &replay[..]].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let run = async |arguments: Vec<String>| {
        headroom(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).await
    };
    let pool = async || -> u64 {
        let mut root = lab.connect("a1").await.unwrap();
        root.query_first("SELECT @@innodb_buffer_pool_size").await.unwrap().unwrap()
    };
    // An account that may not read there: the pool is put back, and nothing is answered.
    let (code, _, said) = run(plan(&repl)).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("commands failed at") && said.contains("1142"), "{said}");
    assert_eq!(pool().await, 64 << 20);

    let (code, answered, said) = run(plan(&app)).await;
    assert_eq!(code, Some(0), "{said}");
    let answer: Value = serde_json::from_str(&answered).unwrap();
    let reads = ROWS / EACH;
    let workload = answer["workload"].as_str().unwrap();
    assert!(workload.starts_with(&format!("the {reads} reads of reads.hrec in ")), "{workload}");
    let misses = |at: usize| answer["measured"][at]["miss_ratio"][0].as_f64().unwrap();
    // 64, 32 and 16 MiB for 32 MiB of pages: all fit, and then they do not.
    assert!(misses(0) < 0.002 && misses(2) > 0.01, "{answered}");
    for at in 0..3 {
        let one = &answer["measured"][at];
        let requests = one["requests_each"].as_f64().unwrap();
        assert!(requests > f64::from(EACH) / 4.0, "each reads its pages: {one}");
    }
    assert!(answered.contains("sent again and again"), "{answered}");
    assert_eq!((answer["is_back"].as_bool(), pool().await), (Some(true), 64 << 20));
    let left = format!("SELECT COUNT(*) FROM {DATABASE}.warm WHERE id = -1");
    assert_eq!(root.query_first::<u64, _>(left).await.unwrap(), Some(1), "nothing that writes was sent");

    let watched = base.path().join("now.json");
    let (_, view, said) = headroom(&[
        "watch",
        "--server",
        &server,
        "--option-file",
        &admin,
        "--window",
        "2s",
        "--once",
        "--json",
    ])
    .await;
    assert!(!view.is_empty(), "{said}");
    std::fs::write(&watched, &view).unwrap();
    let html = base.path().join("plan.html");
    let report = ["plan", "report", "--ledger", &ledger, "--watch", &text(&watched), "--html", &text(&html)];
    let (code, page, said) = headroom(&report).await;
    assert_eq!(code, Some(0), "{said}");
    let view: Value = serde_json::from_str(&view).unwrap();
    let verdict = view["servers"][0]["verdict"]["text"].as_str().unwrap();
    assert!(page.contains(&format!(" now: {verdict}")), "{verdict}\n{page}");
    assert!(page.contains("Assumed:"), "{page}");
    let html = std::fs::read_to_string(html).unwrap();
    assert!(html.contains("What stops ") && html.contains("<h3>Memory</h3>"), "{html}");
    std::fs::write(&watched, "{}").unwrap();
    let (code, _, said) = headroom(&report).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("not what headroom watch --once --json prints"), "{said}");
    drop(root);
    lab.down().await.unwrap();
}

#[tokio::test]
async fn a_workload_and_a_recording_exclude_each_other() {
    let memory = ["plan", "memory", "--server", "127.0.0.1:1", "--sizes", "16M,32M,64M"];
    let (code, _, said) = headroom(&memory).await;
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("name a workload, or a recording with --replay"), "{said}");
    let both = ["oltp_point_select", "--replay", "a.hrec", "--replay-option-file", "a.cnf"];
    let (code, _, said) = headroom(&[&memory[..], &both].concat()).await;
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("cannot be used with"), "{said}");
}

/// An agent's history gives the law of what its server does, and the demand of the role that runs there.
#[tokio::test]
async fn an_agents_history_tells_the_law_and_what_a_role_wants() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 1)]), base.path()).await.unwrap();
    let server = lab.real("a1").unwrap().to_string();
    let file = |account: Account| text(&lab.credentials_file(account));
    let (admin, app) = (file(Account::Admin), file(Account::App));
    let watch = ["--listen", "127.0.0.1:0", "--server", &server, "--option-file", &admin, "--window", "2s"];
    let agent = Agent::start(base.path(), "agent", &watch);
    let load = ["--server", &server, "--option-file", &app, "--database", DATABASE, "--table-size", "1000"];
    let (code, _, said) = headroom(&[&["load", "prepare", "oltp_point_select"], &load[..]].concat()).await;
    assert_eq!(code, Some(0), "{said}");
    for rate in ["40", "80", "160", "320"] {
        let run = ["load", "run", "oltp_point_select", "--rate", rate, "--time", "6s", "--no-store"];
        let (code, _, said) = headroom(&[&run, &load[..]].concat()).await;
        assert!(code == Some(0) || code == Some(1), "{said}");
    }
    let history = base.path().join("history.json");
    std::fs::write(&history, agent.json("/history.json?from=-60&step=1").to_string()).unwrap();
    let question = ["plan", "load", "--history", &text(&history), "--cores", "2", "--no-keep", "--json"];
    let (_, answered, said) = headroom(&question).await;
    let answer: Value = serde_json::from_str(&answered).unwrap_or_else(|_| panic!("{answered}{said}"));
    // A few hundred selects a second are far from the end, whatever else this machine does meanwhile.
    let refused = answer["law_refused"].as_str().unwrap_or_default();
    assert!(
        answer["law"]["most"].is_null() && (answer["law"]["open"] == true || refused.contains("open loop")),
        "{answered}"
    );

    let (inventory, measured) = (base.path().join("inventory.toml"), base.path().join("measured.toml"));
    let host = |name: &str, agent: &str| {
        format!(
            "[[host]]\nname = \"{name}\"\nzone = \"a\"\ncpu = 512\nmemory = 65536\niops = 1e6\nmb_s = 1e5\n\
             network = 1e5\nprice = 310\n{agent}\n"
        )
    };
    const OTHERS: &str = "memory = 1\niops = 1\nmb_s = 1\nnetwork = 1\n";
    let written = [
        host("h1", &format!("agent = \"http://{}\"", agent.address)),
        host("h2", ""),
        format!("[[role]]\nname = \"r1\"\non = \"h1\"\ncpu = 409.0\n{OTHERS}"),
        format!("[[role]]\nname = \"r2\"\non = \"h2\"\ncpu = 1.5\n{OTHERS}"),
    ];
    std::fs::write(&inventory, written.concat()).unwrap();
    let measure = ["inventory", &text(&inventory), "--measure", &text(&measured), "--stretch", "50s"];
    let (code, table, said) = headroom(&measure).await;
    assert_eq!(code, Some(0), "{table}{said}");
    assert!(table.contains("409 -> ") && table.contains("Not measured: r2: h2 has no agent"), "{table}");
    let roles: toml::Table = toml::from_str(&std::fs::read_to_string(&measured).unwrap()).unwrap();
    let role = |at: usize, what: &str| roles["role"][at][what].as_float().unwrap();
    assert!(0.0 < role(0, "cpu") && role(0, "cpu") < 300.0 && role(0, "memory") > 0.01, "{roles}");
    assert_eq!(role(1, "cpu"), 1.5, "it keeps what is written down");
    // What is there is not written over; and the placement reads it.
    let (code, _, said) = headroom(&measure).await;
    assert_eq!(code, Some(2), "{said}");
    let (code, placed, said) =
        headroom(&["plan", "placement", &text(&measured), "--no-keep", "--time", "1s"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(placed.contains("1 hosts at 310"), "what h1 was said to need filled it alone: {placed}");

    let ledger = text(&base.path().join("plan.jsonl"));
    let replicas = ["plan", "replicas", "--zone", "a=400", "--zone", "b=300", "--reader-per-s", "480,530"];
    let (code, said, _) = headroom(&[&replicas[..], &["--ledger", &ledger]].concat()).await;
    assert_eq!(code, Some(0), "{said}");
    let url = format!("http://{}", agent.address);
    let (code, page, said) = headroom(&["plan", "report", "--ledger", &ledger, "--agent", &url]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(page.contains(" now: ") && page.contains("A further reader carries as much"), "{page}");
    let silent = ["plan", "report", "--ledger", &ledger, "--agent", "http://127.0.0.1:1"];
    let (code, _, said) = headroom(&silent).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("what stops the server now is not known"), "{said}");
    drop(agent);
    lab.down().await.unwrap();
}
