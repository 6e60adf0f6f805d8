//! What `headroom agent` tells of times in which nothing could be read: its server killed or frozen, itself
//! frozen, a log that finds no room or is rotated away, the server's disk full, a clock that jumps. Each is a
//! gap with its reason (or a jump), and then all goes on by itself.

use crate::support::agent::{Agent, headroom};
use crate::support::small_disk::SmallDisk;
use crate::support::time::{Clock, YEAR, stands_still};
use lab::{Account, Fault, Lab, Spec};
use mysql_async::prelude::Queryable;
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const HISTORY: &str = "/history.json?from=-600&to=0&step=1";

async fn one_server(base: &Path) -> Lab {
    Lab::up(&Spec::new(&[("a", 1)]), base).await.unwrap()
}

/// How a program is told to watch the lab's server.
fn watching(lab: &Lab) -> Vec<String> {
    let (at, file) = (lab.real("a1").unwrap().to_string(), lab.credentials_file(Account::Headroom));
    ["--server", &at, "--option-file", &file.display().to_string(), "--window", "5s", "--router", "off"]
        .map(str::to_owned)
        .to_vec()
}

fn start_by(command: Command, dir: &Path, lab: &Lab) -> Agent {
    let args = watching(lab);
    let args: Vec<&str> =
        ["--listen", "127.0.0.1:0"].into_iter().chain(args.iter().map(String::as_str)).collect();
    Agent::start_by(command, dir, "agent", &args)
}

fn start(dir: &Path, lab: &Lab) -> Agent {
    start_by(headroom(dir), dir, lab)
}

fn of_kind<'a>(history: &'a Value, kind: &str) -> Option<&'a Value> {
    history["subjects"].as_array()?.iter().find(|subject| subject["kind"] == kind)
}

/// The gaps of the host or the server.
fn gaps(history: &Value, kind: &str) -> Vec<Value> {
    of_kind(history, kind).and_then(|subject| subject["gaps"].as_array().cloned()).unwrap_or_default()
}

/// Seconds of the history at which the first figure of the host or the server was read.
fn read_at(history: &Value, kind: &str) -> Vec<f64> {
    let number = |value: &Value| value.as_f64().unwrap();
    let (from, step) = (number(&history["from_s"]), number(&history["step_s"]));
    let Some(values) = of_kind(history, kind).and_then(|subject| subject["series"][0]["values"].as_array())
    else {
        return Vec::new();
    };
    let cells = values.iter().enumerate().filter(|(_, value)| !value.is_null());
    cells.map(|(cell, _)| from + cell as f64 * step).collect()
}

/// Host and server have been read `count` times from `from_s` on, and the server has a verdict.
async fn is_read(agent: &Agent, from_s: f64, count: usize) -> Value {
    let judged = |view: &Value| {
        let server = &view["servers"][0];
        server["unanswered"].is_null() && !server["verdict"]["text"].as_str().unwrap_or_default().is_empty()
    };
    agent.wait_until("a verdict", "/watch.json", judged).await;
    let read = |history: &Value| {
        ["host", "server"]
            .iter()
            .all(|kind| read_at(history, kind).iter().filter(|at| **at >= from_s).count() >= count)
    };
    agent.wait_until("new readings", HISTORY, read).await
}

/// The server's `count`-th gap is open, for this reason.
async fn lost(agent: &Agent, count: usize, why: &str) -> Value {
    let open = |history: &Value| {
        let gaps = gaps(history, "server");
        gaps.len() == count && gaps[count - 1]["to_s"].is_null()
    };
    let history = agent.wait_until("an open gap", HISTORY, open).await;
    let gap = gaps(&history, "server").pop().unwrap();
    assert!(gap["why"].as_str().unwrap().to_lowercase().contains(why), "{why} is not in {gap}");
    // What is now is told once a second.
    let away = |view: &Value| view["servers"][0]["unanswered"].is_string();
    agent.wait_until("it does not answer", "/watch.json", away).await;
    history
}

/// That gap has ended, nothing is told inside it, and reading goes on.
async fn found(agent: &Agent, count: usize) -> Value {
    let closed = |history: &Value| {
        let gaps = gaps(history, "server");
        gaps.len() == count && gaps[count - 1]["to_s"].is_number()
    };
    let history = agent.wait_until("the end of the gap", HISTORY, closed).await;
    let gap = gaps(&history, "server").pop().unwrap();
    let (from, to) = (gap["from_s"].as_f64().unwrap(), gap["to_s"].as_f64().unwrap());
    // Cells of a second begin where the second does.
    let inside = |at: &f64| *at > from && *at + 1.0 < to;
    let history = is_read(agent, to, 3).await;
    assert!(!read_at(&history, "server").iter().any(inside), "{gap}: {:?}", read_at(&history, "server"));
    assert!(!gaps_of_everybody(&history), "the agent was there all the while: {history:#}");
    history
}

fn gaps_of_everybody(history: &Value) -> bool {
    gaps(history, "host").iter().any(|gap| gap["why"].as_str().unwrap().contains("stood still"))
}

#[tokio::test]
async fn a_server_that_is_killed_or_frozen_is_a_gap_with_its_reason_and_read_again_by_itself() {
    let (base, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lab = one_server(base.path()).await;
    let agent = start(dir.path(), &lab);
    is_read(&agent, 0.0, 3).await;

    lab.fault("a1", Fault::Kill).await.unwrap();
    lost(&agent, 1, "connection").await;
    let hosts = read_at(&agent.json(HISTORY), "host").len();
    let more = |history: &Value| read_at(history, "host").len() > hosts + 2;
    agent.wait_until("the host is read meanwhile", HISTORY, more).await;
    lab.heal("a1").await.unwrap();
    found(&agent, 1).await;

    lab.fault("a1", Fault::Freeze).await.unwrap();
    lost(&agent, 2, "within 5000 ms").await;
    lab.heal("a1").await.unwrap();
    found(&agent, 2).await;
    let gaps = agent.json("/watch.json")["gaps"].as_u64().unwrap();
    assert!(gaps >= 2, "{gaps}");
    lab.down().await.unwrap();
}

#[tokio::test]
async fn an_agent_that_stood_still_says_so_of_everything_it_watches() {
    let (base, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lab = one_server(base.path()).await;
    let agent = start(dir.path(), &lab);
    is_read(&agent, 0.0, 3).await;
    agent.signal(Signal::STOP);
    stands_still(agent.pid()).await;
    // Longer than what counts as a gap, and than every deadline of a question.
    tokio::time::sleep(Duration::from_secs(8)).await;
    agent.signal(Signal::CONT);
    let history = agent.wait_until("a gap", HISTORY, gaps_of_everybody).await;
    for kind in ["host", "server"] {
        let told = gaps(&history, kind);
        assert_eq!(told.len(), 1, "{told:?}");
        let (from, to) = (told[0]["from_s"].as_f64().unwrap(), told[0]["to_s"].as_f64().unwrap());
        assert!(to - from >= 8.0 && told[0]["why"].as_str().unwrap().contains("stood still"), "{told:?}");
    }
    let to = gaps(&history, "host")[0]["to_s"].as_f64().unwrap();
    let history = is_read(&agent, to, 3).await;
    assert_eq!(gaps(&history, "server").len(), 1, "one gap, not one of the server too: {history:#}");
    lab.down().await.unwrap();
}

#[tokio::test]
async fn a_clock_that_jumps_is_told_of_and_makes_no_gap() {
    let (base, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lab = one_server(base.path()).await;
    let clock = Clock::new(dir.path());
    let mut command = headroom(dir.path());
    command.env("LD_PRELOAD", &clock.shim).env("CLOCK_MOVED_BY", &clock.moved);
    let agent = start_by(command, dir.path(), &lab);
    let mut before = is_read(&agent, 0.0, 3).await;
    let mut was = 0;
    let steps = [10 * YEAR, -10 * YEAR, 3600, -3600, 0];
    for (at, seconds) in steps.into_iter().enumerate() {
        clock.move_by(seconds);
        let jumped = |history: &Value| history["jumps"].as_array().unwrap().len() == at + 1;
        let history = agent.wait_until("a jump", HISTORY, jumped).await;
        let jump = history["jumps"][at]["by_s"].as_f64().unwrap();
        assert!((jump - (seconds - was) as f64).abs() < 2.0, "{jump} s");
        was = seconds;
        // What was read before is where it was, and what is read now follows it.
        let now = history["now_s"].as_f64().unwrap();
        let earlier = read_at(&before, "server");
        let later = is_read(&agent, now, 2).await;
        assert!(earlier.iter().all(|at| read_at(&later, "server").contains(at)), "{earlier:?}");
        assert!(later["now_s"].as_f64().unwrap() - now < 90.0, "the history's own time does not jump");
        // The calendar of now finds it too.
        let epoch = later["now_epoch_s"].as_f64().unwrap();
        if epoch > 1e9 {
            let path = format!("/history.json?from={:.0}&to={:.0}&step=1", epoch - 60.0, epoch);
            assert!(!read_at(&agent.json(&path), "server").is_empty(), "{path}");
        }
        before = later;
    }
    for kind in ["host", "server"] {
        assert!(gaps(&before, kind).is_empty(), "{kind}: {:?}", gaps(&before, kind));
    }
    lab.down().await.unwrap();
}

/// The most that a process may write to a file, bytes.
fn limit_files(pid: u32, most: Option<u64>) {
    let pid = Pid::from_raw(pid.cast_signed());
    prlimit(pid, Resource::Fsize, Rlimit { current: most, maximum: None }).unwrap();
}

#[tokio::test]
async fn a_log_that_finds_no_room_or_is_rotated_away_stops_nobody_and_says_what_is_missing() {
    let (base, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lab = one_server(base.path()).await;
    let mut agent = start(dir.path(), &lab);
    is_read(&agent, 0.0, 3).await;
    // Rotated by a name of its own: lines go on to the file that was opened.
    let (log, rotated) = (dir.path().join("agent.log"), dir.path().join("agent.log.1"));
    std::fs::rename(&log, &rotated).unwrap();
    std::fs::write(&log, "").unwrap();
    limit_files(agent.pid(), Some(std::fs::metadata(&rotated).unwrap().len() + 10));
    lab.fault("a1", Fault::Kill).await.unwrap();
    lost(&agent, 1, "connection").await;
    lab.heal("a1").await.unwrap();
    found(&agent, 1).await;

    limit_files(agent.pid(), None);
    lab.fault("a1", Fault::Kill).await.unwrap();
    lost(&agent, 2, "connection").await;
    std::fs::rename(&rotated, &log).unwrap();
    let told = agent.said("log lines are missing here");
    assert!(told.contains("File too large") && told.starts_with('{'), "{told}");
    assert!(agent.said("not answered").to_lowercase().contains("connection"));
    // Deleted: nobody reads it, and nobody misses it.
    std::fs::remove_file(&log).unwrap();
    lab.heal("a1").await.unwrap();
    found(&agent, 2).await;
    lab.down().await.unwrap();
}

#[tokio::test]
async fn lines_of_watch_that_find_no_room_are_told_of_when_there_is_room_again() {
    let (base, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lab = one_server(base.path()).await;
    let file = dir.path().join("lines.json");
    let mut command = headroom(dir.path());
    command.args(["watch", "--json"]).args(watching(&lab)).stdin(Stdio::null());
    let mut child = command.stdout(std::fs::File::create(&file).unwrap()).spawn().unwrap();
    let lines = || std::fs::read_to_string(&file).unwrap();
    let until = async |what: &str, so: &dyn Fn(&str) -> bool| {
        let deadline = std::time::Instant::now() + Duration::from_secs(90);
        while !so(&lines()) {
            assert!(std::time::Instant::now() < deadline, "never: {what}\n{}", lines());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    until("two lines", &|text| text.lines().count() >= 2).await;
    // In the middle of a line to come.
    let most = lines().len() as u64 + 5;
    limit_files(child.id(), Some(most));
    until("no room is left", &|text| text.len() as u64 == most).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
    limit_files(child.id(), None);
    until("what is missing", &|text| text.contains("missing_lines")).await;
    until("lines after it", &|text| {
        text.split_once("missing_lines").is_some_and(|(_, rest)| rest.matches("\"window_s\"").count() >= 2)
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
    let text = lines();
    // Each line is a document but the one that was cut.
    let broken = text.lines().filter(|line| serde_json::from_str::<Value>(line).is_err()).count();
    assert!(broken <= 2, "the cut one, and the last if it was cut by the end: {text}");
    let told = text.lines().find(|line| line.contains("missing_lines")).unwrap();
    let told: Value = serde_json::from_str(told).unwrap();
    assert!(told["missing_lines"].as_u64() >= Some(1) && told["why"].is_string(), "{told}");
    lab.down().await.unwrap();
}

#[tokio::test]
async fn a_server_whose_disk_is_full_is_watched_on_and_so_is_the_agents_own_log_there() {
    let Some(disk) = SmallDisk::make(900) else { return };
    let lab = one_server(disk.path()).await;
    let agent = start(disk.path(), &lab);
    let mut writer = lab.connect("a1").await.unwrap();
    writer
        .query_drop("CREATE TABLE app.full (id INT AUTO_INCREMENT PRIMARY KEY, text LONGTEXT)")
        .await
        .unwrap();
    is_read(&agent, 0.0, 3).await;

    disk.fill();
    let opts = lab.opts("a", "a1", Account::App).unwrap();
    // It fails, or waits for somebody to make room; both must be.
    let writes = tokio::spawn(async move {
        let mut conn = mysql_async::Conn::new(opts).await.unwrap();
        for _ in 0..200 {
            if conn.query_drop("INSERT INTO app.full (text) VALUES (REPEAT('x', 1000000))").await.is_err() {
                return;
            }
        }
        panic!("a full disk took 200 MB");
    });
    let now = agent.json(HISTORY)["now_s"].as_f64().unwrap();
    let hosts = |history: &Value| read_at(history, "host").iter().filter(|at| **at >= now).count() >= 10;
    let history = agent.wait_until("the host is read on", HISTORY, hosts).await;
    // The server is read, or it is said why not.
    let told =
        read_at(&history, "server").iter().any(|at| *at >= now) || !gaps(&history, "server").is_empty();
    assert!(told, "{history:#}");
    disk.free();
    tokio::time::timeout(Duration::from_secs(90), writes).await.unwrap().unwrap();
    // MariaDB may end itself on a full disk: started again, it is read again.
    lab.fault("a1", Fault::Kill).await.unwrap();
    agent.wait_until("a gap", HISTORY, |history| !gaps(history, "server").is_empty()).await;
    lab.heal("a1").await.unwrap();
    let now = agent.json(HISTORY)["now_s"].as_f64().unwrap();
    is_read(&agent, now, 3).await;
    drop(agent);
    lab.down().await.unwrap();
}
