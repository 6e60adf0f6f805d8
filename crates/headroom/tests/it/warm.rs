//! A reader that is restarted with an empty buffer pool counts for what its misses say, and
//! `headroom status --wait-warm` waits for it.

use crate::support::route::Route;
use lab::{Account, DATABASE, Lab, RouterOptions, Spec};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Four rows a page: two thousand pages.
const ROWS: u32 = 8_000;

fn routing<'a>(status: &'a Value, name: &str) -> &'a Value {
    let servers = status["servers"].as_array().map_or(&[][..], Vec::as_slice);
    servers.iter().find(|s| s["name"] == name).map_or(&Value::Null, |s| &s["routing"])
}

/// Reads some neighbouring rows, again and again, until it is stopped or its server is.
fn reads(mut conn: Conn) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            let rows = format!(
                "SELECT SUM(LENGTH(t.pad)) FROM (SELECT FLOOR(RAND() * {ROWS}) AS id) k \
                 JOIN {DATABASE}.warm t ON t.id BETWEEN k.id AND k.id + 20"
            );
            if conn.query_drop(rows).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
}

async fn fill(lab: &Lab) -> Conn {
    let mut primary = lab.connect("a1").await.unwrap();
    let table = format!("CREATE TABLE {DATABASE}.warm (id INT PRIMARY KEY, pad VARCHAR(3700) NOT NULL)");
    primary.query_drop(table + " CHARACTER SET latin1").await.unwrap();
    for first in (0..ROWS).step_by(500) {
        let rows: Vec<String> = (first..first + 500).map(|id| format!("({id}, REPEAT('r', 3700))")).collect();
        primary.query_drop(format!("INSERT INTO {DATABASE}.warm VALUES {}", rows.join(", "))).await.unwrap();
    }
    primary
}

#[tokio::test]
async fn a_cold_reader_counts_for_what_its_misses_say_until_it_is_warm() {
    let base = tempfile::tempdir().unwrap();
    let spec = Spec::new(&[("a", 4)])
        .option("innodb_buffer_pool_load_at_startup", "OFF")
        .option("innodb_random_read_ahead", "OFF");
    let lab = Lab::up(&spec, base.path()).await.unwrap();
    // `warm_up` of the router below: from then on only misses make a reader cold.
    let older = tokio::time::sleep(Duration::from_secs(6));
    let primary = fill(&lab).await;
    let readers = ["a2", "a3", "a4"];
    let mut tasks = Vec::new();
    for reader in readers {
        lab.wait_applied(reader, "a1", Duration::from_secs(60)).await.unwrap();
        tasks.push(reads(lab.connect(reader).await.unwrap()));
    }
    let name = |server: &str| {
        let real = lab.real(server).unwrap();
        format!("[[server]]\nmatch = \"{real}\"\nname = \"{server}\"\n")
    };
    let servers: String = ["a1", "a2", "a3", "a4"].map(name).concat();
    let seed = lab.real("a1").unwrap();
    let fleet = format!("{servers}[fleet]\nseeds = [\"{seed}\"]\n");
    let mut router =
        Route::new(&lab, "zero_hop = \"off\"\nwarm_up = \"5s\"\nwarm_up_limit = \"1h\"", "", &fleet);
    older.await;
    router.start();
    let warm = |status: &Value, server: &str| {
        let routing = routing(status, server);
        routing["reads"]["eligible"] == true && routing["warmth"] == 1.0 && routing["warming"].is_null()
    };
    router.wait_for("all are warm", |s| readers.iter().all(|reader| warm(s, reader))).await;
    let waits = async |arguments: &[&str]| {
        let output = router.headroom_beside(&[&["status", "--wait-warm"][..], arguments].concat()).await;
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), text)
    };
    let (code, text) = waits(&["a9"]).await;
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("knows no server a9; it knows a1, a2, a3, a4"), "{text}");
    assert_eq!(waits(&["a1"]).await.0, Some(2), "it is the primary");

    lab.fault("a2", lab::Fault::Stop).await.unwrap();
    lab.heal("a2").await.unwrap();
    tasks.push(reads(lab.connect("a2").await.unwrap()));
    let cold = |status: &Value| {
        let said = routing(status, "a2")["warming"].as_str().unwrap_or_default().to_owned();
        said.contains("of its page reads go to the disk")
    };
    router.wait_for("it is cold and its misses say so", cold).await;
    let metric = r#"headroom_server_warmth_ratio{server="a3"} 1"#;
    assert!(router.get("/metrics").contains(metric), "the others stay warm");
    let (code, text) = waits(&["a2", "--timeout", "1s", "--json"]).await;
    let outcome: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    assert_eq!((code, &outcome["warm"]), (Some(1), &false.into()), "{text}");

    let mut conn = lab.connect("a2").await.unwrap();
    for _ in 0..2 {
        conn.query_drop(format!("SELECT SUM(LENGTH(pad)) FROM {DATABASE}.warm")).await.unwrap();
    }
    let (code, text) = waits(&["a2", "--timeout", "2m"]).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("a2 is warm, after"), "{text}");
    assert!(warm(&router.status(), "a2"));
    tasks.iter().for_each(JoinHandle::abort);
    drop((router, conn, primary));
    lab.down().await.unwrap();
}

/// A candidate that nobody reads from is cold for good, unless it is sent the reads of a recording.
#[tokio::test]
async fn a_candidate_is_warmed_by_the_reads_of_a_recording_before_anything_moves() {
    let base = tempfile::tempdir().unwrap();
    let spec = Spec::new(&[("a", 2)])
        .option("innodb_buffer_pool_load_at_startup", "OFF")
        .option("innodb_random_read_ahead", "OFF");
    let lab = Lab::up(&spec, base.path()).await.unwrap();
    let mut primary = fill(&lab).await;
    lab.wait_applied("a2", "a1", Duration::from_secs(60)).await.unwrap();
    // What the recording is of: the primary's log.
    let log = base.path().join("general.log");
    let set = format!("SET GLOBAL general_log_file = '{}', GLOBAL log_output = 'FILE'", log.display());
    primary.query_drop(set).await.unwrap();
    primary.query_drop("SET GLOBAL general_log = ON").await.unwrap();
    let mut app = Conn::new(lab.opts("a", "a1", Account::App).unwrap()).await.unwrap();
    for first in (0..ROWS).step_by(250) {
        let sum = format!(
            "SELECT SUM(LENGTH(pad)) FROM {DATABASE}.warm WHERE id BETWEEN {first} AND {}",
            first + 250
        );
        app.query_drop(sum).await.unwrap();
    }
    app.query_drop(format!("INSERT INTO {DATABASE}.warm VALUES (-1, '')")).await.unwrap();
    app.query_drop("DO 0").await.unwrap();
    primary.query_drop("SET GLOBAL general_log = OFF").await.unwrap();
    lab.fault("a2", lab::Fault::Stop).await.unwrap();
    lab.heal("a2").await.unwrap();

    let config = base.path().join("headroom.toml");
    std::fs::write(&config, lab.status().await.router_config("a", &RouterOptions::default()).unwrap())
        .unwrap();
    let recording = base.path().join("reads.hrec");
    let headroom = async |arguments: &[&str]| -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        command.args(arguments).env_clear().stdin(Stdio::null());
        let done = tokio::task::spawn_blocking(move || command.output().unwrap());
        let Output { status, stdout, stderr } = done.await.unwrap();
        (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
    };
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let (code, said) =
        headroom(&["record", "--from-general-log", &text(&log), "--out", &text(&recording)]).await;
    assert_eq!(code, Some(0), "{said}");
    let admin = text(&lab.credentials_file(Account::Admin));
    let check = ["switchover", "a2", "--check", "--config", &text(&config), "--admin-option-file", &admin];
    let reads = reads(lab.connect("a1").await.unwrap());
    let (code, said) = headroom(&[&check[..], &["--wait-warm=5s"]].concat()).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("a2 is not warm") && said.contains("too few to tell"), "{said}");

    let (app, repl) = (text(&lab.credentials_file(Account::App)), text(&lab.credentials_file(Account::Repl)));
    let with = ["--wait-warm=2m", "--warm-with", &text(&recording), "--warm-option-file"];
    let warmed = headroom(&[&check[..], &with, &[&app]].concat()).await.1;
    assert!(warmed.contains("reads of"), "{warmed}");
    assert!(!warmed.contains("is not warm") && warmed.contains("warmth"), "{warmed}");
    let mut conn = lab.connect("a2").await.unwrap();
    let app_sessions =
        format!("SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{}'", Account::App.user());
    let left: Option<u64> = conn.query_first(app_sessions).await.unwrap();
    assert_eq!(left, Some(0), "its sessions have ended");
    // An account that may not read there: nothing is waited for.
    let (code, said) = headroom(&[&check[..], &with, &[&repl]].concat()).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("commands failed at") && said.contains("1142"), "{said}");
    reads.abort();
    drop((app, conn, primary));
    lab.down().await.unwrap();
}
