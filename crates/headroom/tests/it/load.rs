//! `headroom load` as the guide shows it, on a real server: the example is copied out of the page, prepared,
//! sent and removed, and the server's own counters say what came.

use lab::{Account, DATABASE, Lab, Spec};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const GUIDE: &str = include_str!("../../../../docs/guide/load.md");

/// The first block of this language on the page.
fn example(language: &str) -> &'static str {
    let (_, rest) = GUIDE.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

fn headroom(lab: &Lab, file: &Path, words: &str, more: &[&str]) -> Output {
    command(lab, file, words, more).output().unwrap()
}

fn command(lab: &Lab, file: &Path, words: &str, more: &[&str]) -> Command {
    let socket = lab.socket("a1").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
    command
        .arg("load")
        .args(words.split(' '))
        .arg(file)
        .args(["--server", socket.to_str().unwrap(), "--database", DATABASE])
        .args(more)
        .env_clear()
        .env("HEADROOM_USER", Account::App.user())
        .env("HEADROOM_PASSWORD", lab.password(Account::App))
        .stdin(Stdio::null());
    command
}

async fn count(root: &mut Conn, what: &str) -> u64 {
    let found: Option<(String, u64)> =
        root.query_first(format!("SHOW GLOBAL STATUS LIKE '{what}'")).await.unwrap();
    found.unwrap().1
}

#[tokio::test]
async fn the_guides_example_is_prepared_sent_and_removed_and_the_server_counted_the_same() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 1)]), base.path()).await.unwrap();
    let file = base.path().join("shop.toml");
    std::fs::write(&file, example("toml")).unwrap();
    let mut root = lab.connect("a1").await.unwrap();

    let early = headroom(&lab, &file, "run", &["--no-store"]);
    assert_eq!(early.status.code(), Some(2), "{early:?}");
    assert!(String::from_utf8_lossy(&early.stderr).contains("item"), "{early:?}");
    let prepared = headroom(&lab, &file, "prepare", &["--json"]);
    assert!(prepared.status.success(), "{prepared:?}");
    let prepared: Value = serde_json::from_slice(&prepared.stdout).unwrap();
    assert_eq!((&prepared["done"], &prepared["statements"]), (&"prepared".into(), &3.into()), "{prepared:#}");
    let refused = headroom(&lab, &file, "run", &["--no-store", "--read-only"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("may only read"), "{refused:?}");

    let before = (count(&mut root, "Com_select").await, count(&mut root, "Com_update").await);
    // One client: two that write the same few rows might deadlock, which would be no fault.
    let ran = headroom(
        &lab,
        &file,
        "run",
        &["--no-store", "--json", "--clients", "1", "--idle", "3", "--time", "1s", "--warm-up", "0s"],
    );
    assert!(ran.status.success(), "{ran:?}");
    let outcome: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((&outcome["totals"]["failed"], &outcome["idle"]), (&0.into(), &3.into()));
    let done = |words: &str| -> u64 {
        let all = outcome["statements"].as_array().unwrap();
        let named = all.iter().filter(|kind| kind["name"].as_str().unwrap().ends_with(words));
        named.map(|kind| kind["done"].as_u64().unwrap()).sum()
    };
    assert!(done(": write") > 0 && done(": read") > 9 * done(": write"), "{outcome:#}");
    // Two more: the query that gives the values, and that for its session's number, to end it by.
    let after = (count(&mut root, "Com_select").await, count(&mut root, "Com_update").await);
    assert_eq!(after.0 - before.0, done(": read") + 2);
    assert_eq!(after.1 - before.1, done(": write"));

    let cleaned = headroom(&lab, &file, "cleanup", &["--json"]);
    assert!(cleaned.status.success(), "{cleaned:?}");
    let cleaned: Value = serde_json::from_slice(&cleaned.stdout).unwrap();
    assert_eq!((&cleaned["done"], &cleaned["statements"]), (&"removed".into(), &1.into()), "{cleaned:#}");
    let left: Option<u64> = root
        .query_first("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'app'")
        .await
        .unwrap();
    assert_eq!(left, Some(0));

    // sysbench's own tables are told by their names.
    let tables = ["--tables", "2", "--table-size", "100", "--json"];
    for (words, done, rows) in
        [("prepare", "prepared", Value::from(100)), ("cleanup", "removed", Value::Null)]
    {
        let output = headroom(&lab, Path::new("oltp_read_only"), words, &tables);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&report["done"], &report["rows_each"]), (&done.into(), &rows), "{report:#}");
        assert_eq!(report["tables"], serde_json::json!(["sbtest1", "sbtest2"]), "{report:#}");
    }
    root.disconnect().await.unwrap();
    lab.down().await.unwrap();
}

#[tokio::test]
async fn figures_are_shown_where_the_history_cannot_be_written_any_more() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 1)]), base.path()).await.unwrap();
    let workload = Path::new("oltp_point_select");
    let prepared = headroom(&lab, workload, "prepare", &["--table-size", "100"]);
    assert!(prepared.status.success(), "{prepared:?}");

    let (kept, shown) = (base.path().join("kept"), base.path().join("shown.json"));
    let history = kept.join("history.sqlite");
    let more = ["--table-size", "100", "--json", "--time", "3s", "--store", history.to_str().unwrap()];
    let mut run = command(&lab, workload, "run", &more);
    let mut child = run.stdout(File::create(&shown).unwrap()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    said.find(|line| line.contains("transactions/s")).unwrap();
    std::fs::remove_dir_all(&kept).unwrap();
    let rest: Vec<String> = said.collect();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("history.sqlite")), "{rest:?}");
    let outcome: Value = serde_json::from_slice(&std::fs::read(&shown).unwrap()).unwrap();
    assert!(outcome["totals"]["done"].as_u64().unwrap() > 0, "{outcome:#}");
    lab.down().await.unwrap();
}
