//! `headroom record` beside a running `headroom route` on a real server: what clients sent is in the file,
//! sealed or not, and while it goes on everybody can see it.

use crate::support::one_server::{Alone, LIMIT, POLL};
use lab::{Account, Lab, Spec};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use recording::{Ending, Event, Key, Reader, RecordedCommand};
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn headroom(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
    command.args(args).env_clear().env("HEADROOM_TEST_KEY", KEY).stdin(Stdio::null());
    command
}

fn start(alone: &Alone, file: &Path, more: &[&str]) -> Child {
    let admin = alone.admin.to_string();
    let mut args = vec!["record", "--router", &admin, "--json", "--out", file.to_str().unwrap()];
    args.extend(more);
    headroom(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(child: Child) -> Output {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

fn read(file: &Path, key: Option<&Key>) -> (Vec<Event>, Ending) {
    let mut reader = Reader::new(std::fs::File::open(file).unwrap(), key).unwrap();
    let mut events = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        events.push(event);
    }
    (events, reader.ending())
}

fn said(events: &[Event]) -> Vec<&RecordedCommand> {
    events
        .iter()
        .filter_map(|event| if let Event::Command(said) = event { Some(said) } else { None })
        .collect()
}

#[tokio::test]
async fn what_clients_send_is_in_the_file_and_everybody_can_see_that_it_is_recorded() {
    let mut alone = Alone::up("").await;
    let mut router = alone.start(&[], None);
    alone.ready().await;
    let mut before = alone.connect().await.unwrap();
    before.query_drop("SELECT 'before'").await.unwrap();

    let file = alone.lab.dir().join("all.hrec");
    let child = start(&alone, &file, &["--for", "1h", "--key-env", "HEADROOM_TEST_KEY"]);
    let status = alone.wait_for("recording", |status| !status["recording"].is_null()).await;
    assert_eq!(status["recording"]["one_in"], 1);
    let shown = headroom(&["status", "--admin", &alone.admin.to_string()]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("RECORDING"), "{shown:?}");
    let second = alone.lab.dir().join("second.hrec");
    let refused = start(&alone, &second, &[]).wait_with_output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("under way"), "{refused:?}");
    assert!(!second.exists(), "what was not recorded leaves no file");

    before.query_drop("SELECT 'known before'").await.unwrap();
    let mut fresh = alone.connect().await.unwrap();
    fresh.query_drop("USE app").await.unwrap();
    fresh.query_drop("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20))").await.unwrap();
    fresh.exec_drop("INSERT INTO t VALUES (?, ?)", (1, "geheim")).await.unwrap();
    let rows: Vec<(i32, String)> = fresh.exec("SELECT a, b FROM t WHERE a > ?", (0,)).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert!(fresh.query_drop("SELECT * FROM nothing").await.is_err());
    fresh.query_drop("SET PASSWORD FOR nobody@nowhere = PASSWORD('hunter2')").await.unwrap_err();
    fresh.disconnect().await.unwrap();
    alone.wait_for("commands", |status| status["recording"]["commands"].as_u64() > Some(7)).await;

    alone.signal(u64::from(child.id()), Signal::INT);
    let summary: Value = serde_json::from_slice(&end(child).stdout).unwrap();
    assert_eq!((&summary["lost"], &summary["sealed"]), (&Value::from(0), &Value::from(true)));
    assert_eq!(summary["ended"], "it was stopped by hand");
    alone.wait_for("no recording", |status| status["recording"].is_null()).await;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let bytes = std::fs::read(&file).unwrap();
    assert!(!bytes.windows(6).any(|at| at == b"geheim"), "sealed");

    let (events, ending) = read(&file, Some(&Key::parse(KEY).unwrap()));
    assert_eq!(ending, Ending::Whole);
    let said = said(&events);
    assert_eq!(said.len() as u64, summary["commands"].as_u64().unwrap());
    let texts: Vec<_> = said.iter().map(|said| String::from_utf8_lossy(&said.body).into_owned()).collect();
    assert!(!texts.iter().any(|text| text.contains("'before'") || text.contains("hunter2")), "{texts:?}");
    let of = |text: &str| {
        said[texts.iter().position(|t| t == text).unwrap_or_else(|| panic!("{text}: {texts:?}"))]
    };
    assert_eq!(of("SELECT 'known before'").answer.unwrap().rows, 1);
    assert_eq!(of("SELECT * FROM nothing").answer.unwrap().error, Some(1146));
    let insert = of("INSERT INTO t VALUES (?, ?)").answer.unwrap().prepared.unwrap();
    let ran = said.iter().find(|s| s.command == 0x17 && s.body[..4] == insert.to_le_bytes()).unwrap();
    assert_eq!(ran.answer.unwrap().affected, Some(1));
    let fresh: Vec<_> = events
        .iter()
        .filter_map(|e| if let Event::SessionStart(opened) = e { Some(opened.fresh) } else { None })
        .collect();
    assert!(fresh.contains(&true) && fresh.contains(&false), "{fresh:?}");
    before.disconnect().await.unwrap();
    router.kill().unwrap();
    router.wait().unwrap();
    it_is_sent_again(&alone, &file, said.len() as u64);
}

fn replay(alone: &Alone, file: &Path, more: &[&str]) -> Value {
    let server = alone.lab.real("a1").unwrap().to_string();
    let file = file.to_str().unwrap();
    let mut args = vec!["replay", file, "--key-env", "HEADROOM_TEST_KEY", "--server", &server, "--json"];
    args.extend(["--user", Account::App.user(), "--speed", "20"]);
    args.extend(more);
    let mut command = headroom(&args);
    let output = command.env("HEADROOM_PASSWORD", alone.lab.password(Account::App)).output().unwrap();
    // 1 is "void": on a machine that does other things at the same time moments are not kept.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// To the same server, so reads find what they found, and writes find what they have made.
fn it_is_sent_again(alone: &Alone, file: &Path, commands: u64) {
    let replay = |more: &[&str]| replay(alone, file, more);
    let sum = |view: &Value| {
        view["left_out"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>()
    };
    let group = |view: &Value, name: &str| -> Value {
        let groups = view["groups"].as_array().unwrap();
        groups.iter().find(|group| group["name"] == name).unwrap_or_else(|| panic!("{name}: {view}")).clone()
    };

    let view = replay(&[]);
    assert_eq!(view["commands"].as_u64().unwrap() + sum(&view), commands, "{view}");
    assert_eq!(view["runs"][0]["answered"], view["commands"], "{view}");
    assert_eq!((&view["rows_differ"], &view["errors_differ"]), (&Value::from(0), &Value::from(0)), "{view}");
    let select = group(&view, "SELECT `a` , `b` FROM `t` WHERE `a` > ?");
    assert_eq!(
        (&select["recorded"]["rows"], &select["replayed"][0]["rows"]),
        (&Value::from(1), &Value::from(1))
    );
    assert_eq!(group(&view, "SELECT * FROM `nothing`")["replayed"][0]["errors"], 1);
    assert!(!view.to_string().contains("geheim"));

    let view = replay(&["--write-too", "--against", alone.lab.socket("a1").unwrap().to_str().unwrap()]);
    assert_eq!(view["runs"].as_array().unwrap().len(), 2);
    let create = group(&view, "CREATE TABLE `t` ( `a` INT PRIMARY KEY , `b` VARCHAR (?) )");
    assert_eq!(create["replayed"][0]["error_codes"]["1050"], 1, "{create}");
    assert_eq!(view["errors_differ"], 0, "both targets are the same server: {view}");
    assert_eq!(group(&view, "INSERT INTO `t` VALUES (...)")["replayed"][1]["error_codes"]["1062"], 1);
}

/// A pool that was there before: text and prepared statements, one connection in a transaction.
async fn a_running_pool_is_recorded(path: &str) {
    const CONNECTIONS: usize = 6;
    let mut alone = Alone::up("").await;
    let text = std::fs::read_to_string(&alone.file).unwrap();
    let text = text.replace("zero_hop = \"off\"\n", &format!("zero_hop = \"off\"\ndata_path = \"{path}\"\n"));
    std::fs::write(&alone.file, text).unwrap();
    let mut router = alone.start(&[], None);
    let status = alone.ready().await;
    assert!(path == "auto" || status["data_path"] == path, "{status}");
    let mut pool = Vec::new();
    for n in 0..CONNECTIONS {
        let mut conn = alone.connect().await.unwrap();
        conn.query_drop("USE app").await.unwrap();
        if n == 0 {
            conn.query_drop("CREATE TABLE pooled (a INT PRIMARY KEY, b VARCHAR(20))").await.unwrap();
            conn.query_drop("INSERT INTO pooled VALUES (1, 'x'), (2, 'y')").await.unwrap();
        }
        let prepared = conn.prep("SELECT b FROM pooled WHERE a = ?").await.unwrap();
        let _: Option<String> = conn.exec_first(&prepared, (1,)).await.unwrap();
        pool.push((conn, prepared));
    }
    let mut held = alone.connect().await.unwrap();
    held.query_drop("BEGIN").await.unwrap();

    let file = alone.lab.dir().join("pool.hrec");
    let child = start(&alone, &file, &["--for", "1h", "--key-env", "HEADROOM_TEST_KEY"]);
    alone.wait_for("recording", |status| !status["recording"].is_null()).await;
    for round in 0..20 {
        for (conn, prepared) in &mut pool {
            let _: Option<String> = conn.exec_first(&*prepared, (1 + round % 2,)).await.unwrap();
            let _: Option<u8> = conn.query_first(format!("SELECT {round}")).await.unwrap();
        }
    }
    held.query_drop("SELECT 'in the transaction'").await.unwrap();
    let sent = 2 * 20 * CONNECTIONS as u64;
    alone.wait_for("commands", |status| status["recording"]["commands"].as_u64() >= Some(sent)).await;
    alone.signal(u64::from(child.id()), Signal::INT);
    let summary: Value = serde_json::from_slice(&end(child).stdout).unwrap();
    assert_eq!(
        (&summary["commands"], &summary["sessions"]),
        (&sent.into(), &CONNECTIONS.into()),
        "{summary}"
    );
    let ended = summary["ended"].as_str().unwrap();
    assert!(ended.contains("1 sessions from before were in a transaction"), "{ended}");
    let (events, _) = read(&file, Some(&Key::parse(KEY).unwrap()));
    assert!(!said(&events).iter().any(|said| said.body.ends_with(b"'in the transaction'")));
    let before = said(&events).iter().filter(|said| said.before).count();
    assert_eq!(before, CONNECTIONS);
    router.kill().unwrap();
    router.wait().unwrap();

    let view = replay(&alone, &file, &[]);
    let answered = view["runs"][0]["answered"].as_u64().unwrap();
    assert!(answered * 10 > sent * 9, "{answered} of {sent}: {view}");
    assert_eq!(view["left_out"], serde_json::json!({}), "{view}");
    assert_eq!((&view["rows_differ"], &view["errors_differ"]), (&0.into(), &0.into()), "{view}");
    let notes = view["notes"].to_string();
    assert!(notes.contains("6 of 6 sessions were there before recording began: 6 statements"), "{notes}");
}

#[tokio::test]
async fn a_pool_that_runs_already_is_recorded_on_the_ring_and_can_be_sent_again() {
    a_running_pool_is_recorded("auto").await;
}

#[tokio::test]
async fn a_pool_that_runs_already_is_recorded_on_epoll_and_can_be_sent_again() {
    a_running_pool_is_recorded("epoll").await;
}

#[tokio::test]
async fn where_nothing_is_recorded_until_its_time_is_over_the_exit_code_is_1_and_it_says_what_to_do() {
    let mut alone = Alone::up("").await;
    let mut router = alone.start(&[], None);
    alone.ready().await;
    let file = alone.lab.dir().join("empty.hrec");
    let output = start(&alone, &file, &["--for", "1s"]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(summary["advice"][0].as_str().unwrap().contains("no client was connected"), "{summary}");
    assert_eq!(summary["ended"], "its time was over");
    let server = alone.lab.real("a1").unwrap().to_string();
    let args = ["replay", file.to_str().unwrap(), "--server", &server, "--user", "nobody"];
    let output = headroom(&args).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("it holds no command (0 sessions"), "{words}");
    router.kill().unwrap();
    router.wait().unwrap();
}

#[tokio::test]
async fn a_sample_is_whole_sessions_and_a_killed_command_leaves_a_readable_file() {
    let mut alone = Alone::up("").await;
    let mut router = alone.start(&[], None);
    alone.ready().await;
    let file = alone.lab.dir().join("sample.hrec");
    let child = start(&alone, &file, &["--for", "1h", "--sample", "1/3"]);
    alone.wait_for("recording", |status| !status["recording"].is_null()).await;
    for n in 0..9 {
        let mut conn = alone.connect().await.unwrap();
        for m in 0..5 {
            conn.query_drop(format!("SELECT {n}, {m}")).await.unwrap();
        }
        conn.disconnect().await.unwrap();
    }
    let all_said = |status: &Value| {
        status["listeners"][0]["sessions"] == 0 && status["recording"]["commands"].as_u64() >= Some(3 * 5)
    };
    alone.wait_for("the end of all sessions", all_said).await;
    alone.signal(u64::from(child.id()), Signal::INT);
    let summary: Value = serde_json::from_slice(&end(child).stdout).unwrap();
    assert_eq!(summary["sessions"], 3);
    let (events, ending) = read(&file, None);
    assert_eq!(ending, Ending::Whole);
    for session in 1..=3 {
        let count =
            said(&events).iter().filter(|s| s.session == session && s.body.starts_with(b"SELECT ")).count();
        assert!(count >= 5, "session {session} is whole: {count}");
    }

    let file = alone.lab.dir().join("killed.hrec");
    let mut child = start(&alone, &file, &["--for", "1h"]);
    alone.wait_for("recording", |status| !status["recording"].is_null()).await;
    let mut conn = alone.connect().await.unwrap();
    let deadline = Instant::now() + LIMIT;
    // Until some of it is in the file.
    while std::fs::metadata(&file).map_or(0, |found| found.len()) < 400 {
        assert!(Instant::now() < deadline, "nothing was written");
        conn.query_drop("SELECT 'something to write'").await.unwrap();
        tokio::time::sleep(POLL).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (events, ending) = read(&file, None);
    assert_ne!(ending, Ending::Whole);
    assert!(said(&events).iter().any(|said| said.body == b"SELECT 'something to write'"));
    // The router notices that nobody listens any more.
    conn.query_drop("SELECT 1").await.unwrap();
    alone.wait_for("no recording", |status| status["recording"].is_null()).await;
    conn.disconnect().await.unwrap();
    router.kill().unwrap();
    router.wait().unwrap();
}

#[tokio::test]
async fn logs_of_a_real_server_become_recordings() {
    let base = tempfile::tempdir().unwrap();
    let spec = Spec::new(&[("a", 1)]);
    let lab = Lab::up(&spec, base.path()).await.unwrap();
    let mut root = lab.connect("a1").await.unwrap();
    let (general, slow) = (lab.dir().join("general.log"), lab.dir().join("slow.log"));
    for set in [
        format!("general_log_file = '{}'", general.display()),
        format!("slow_query_log_file = '{}'", slow.display()),
        "long_query_time = 0".to_owned(),
        "general_log = 1".to_owned(),
        "slow_query_log = 1".to_owned(),
    ] {
        root.query_drop(format!("SET GLOBAL {set}")).await.unwrap();
    }
    let mut conn = Conn::new(lab.opts("a", "a1", Account::App).unwrap()).await.unwrap();
    conn.query_drop("USE app").await.unwrap();
    conn.query_drop("CREATE TABLE t (a INT)").await.unwrap();
    conn.exec_drop("INSERT INTO t VALUES (?)", (7,)).await.unwrap();
    conn.query_drop("SELECT a,\n a FROM t").await.unwrap();
    // The server answers first and logs then: with the next answer the line is there.
    conn.query_drop("DO 0").await.unwrap();
    conn.disconnect().await.unwrap();
    for set in ["general_log = 0", "slow_query_log = 0"] {
        root.query_drop(format!("SET GLOBAL {set}")).await.unwrap();
    }
    for (flag, log) in [("--from-general-log", &general), ("--from-slow-log", &slow)] {
        let file = log.with_extension("hrec");
        let args = ["record", flag, log.to_str().unwrap(), "--out", file.to_str().unwrap(), "--json"];
        let output = headroom(&args).output().unwrap();
        assert!(output.status.success(), "{output:?}\n{}", std::fs::read_to_string(log).unwrap());
        let (events, ending) = read(&file, None);
        assert_eq!(ending, Ending::Whole);
        let texts: Vec<_> =
            said(&events).iter().map(|said| String::from_utf8_lossy(&said.body).into_owned()).collect();
        for wanted in ["CREATE TABLE t (a INT)", "INSERT INTO t VALUES (7)", "SELECT a,\n a FROM t"] {
            assert!(texts.iter().any(|text| text == wanted), "{flag}: {wanted}: {texts:?}");
        }
        if flag == "--from-slow-log" {
            let select = said(&events).into_iter().find(|said| said.body == b"SELECT a,\n a FROM t").unwrap();
            assert_eq!(select.answer.unwrap().rows, 1);
        }
    }
    root.disconnect().await.unwrap();
    lab.down().await.unwrap();
}
