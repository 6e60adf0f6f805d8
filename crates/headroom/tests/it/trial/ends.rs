//! `headroom trial run` that is ended in every way at moments that nobody chose: Ctrl-C, TERM, HUP, kill -9.
//! Each time every variable of the server is as it was, at once or after a restore, and `--resume` goes on to
//! the same end. And its server is restarted under it.

use super::{headroom, text, variables};
use lab::{Account, DATABASE, Lab, Spec};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// For a run to begin its next trial, and to end in order, on a machine that others use too.
const LIMIT: Duration = Duration::from_secs(90);
/// A trial takes about this long.
const TRIAL_MS: u32 = 1_500;

/// What is varied exists in both flavours; two of them can lose data, and are named.
const SPEC: &str = "\
name = \"ends\"
metric = \"throughput\"
seed = 7

[load]
workload = \"oltp_read_write\"
threads = [2]
database = \"{database}\"
tables = 1
table_size = 1000

[guard]                # a busy machine is no reason to give up
latency = 10000.0
errors = 1.0
memory = 1.0
steal = 1.0

[timing]
reset = \"0s\"
warm_up = \"600ms\"
measure = \"400ms\"

[design]
kind = \"plackett-burman\"
folded = false

[[factor]]
knob = \"server.innodb_flush_log_at_trx_commit\"
levels = [\"{flush}\", \"2\"]
danger = true

[[factor]]
knob = \"server.innodb_io_capacity\"
levels = [\"{capacity}\", \"1234\"]

[[factor]]
knob = \"server.innodb_max_dirty_pages_pct\"
levels = [\"{dirty}\", \"55\"]

[[stage]]
cells = 3
blocks = 3
";

struct Scene {
    dir: tempfile::TempDir,
    login: PathBuf,
    address: String,
}

impl Scene {
    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path().join("trial-ends/trials.jsonl")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn run(&self) -> Command {
        let mut args = vec!["trial", "run", "ends.toml", "--server", &self.address, "--json"];
        if !self.lines().is_empty() {
            args.push("--resume");
        }
        headroom(self.path(), &self.login, &args)
    }

    /// What the journal calls open.
    fn open(&self) -> Vec<Value> {
        let journal = self.path().join("knobs").display().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        let output = command.args(["knob", "journal", "--json", "--journal", &journal]).output().unwrap();
        let answer: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
        answer.as_array().unwrap().clone()
    }

    fn restore(&self) -> Output {
        let journal = self.path().join("knobs").display().to_string();
        headroom(self.path(), &self.login, &["knob", "restore", "--left", "--journal", &journal])
            .output()
            .unwrap()
    }
}

/// Runs until one more trial is over, then for some time, so that the end may come at any moment of a trial;
/// `None` if the experiment was over first.
fn until_some_moment(scene: &Scene) -> Option<Child> {
    let before = scene.lines().len();
    let mut child = scene.run().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    // The first line says how it was begun.
    while scene.lines().len() < (before + 1).max(2) {
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        assert!(began.elapsed() < LIMIT, "no trial is over: {:?}", scene.lines().last());
        std::thread::sleep(Duration::from_millis(20));
    }
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos();
    std::thread::sleep(Duration::from_millis(u64::from(nanos / 1_000 % TRIAL_MS)));
    Some(child)
}

fn send(child: &mut Child, signal: rustix::process::Signal) -> Option<i32> {
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(began.elapsed() < LIMIT, "it does not end after {signal:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Tables, and the spec for this server.
async fn prepared(lab: &Lab) -> Scene {
    let (dir, login) = (tempfile::tempdir().unwrap(), lab.credentials_file(Account::Root));
    // Root comes by the socket only.
    let address = lab.socket("a1").unwrap().display().to_string();
    let scene = Scene { dir, login, address };
    let prepare = ["load", "prepare", "oltp_read_write", "--server", &scene.address, "--database", DATABASE];
    let mut prepare = headroom(scene.path(), &scene.login, &prepare);
    let output = prepare.args(["--tables", "1", "--table-size", "1000"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    std::fs::write(scene.path().join("ends.toml"), of_this_server(&variables(lab).await)).unwrap();
    scene
}

pub(crate) async fn however_it_ends_every_variable_is_as_it_was(spec: &Spec) {
    use rustix::process::Signal;
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(spec, base.path()).await.unwrap();
    let scene = prepared(&lab).await;
    let start = variables(&lab).await;

    let mut seen_changed = 0;
    let ends =
        [Signal::KILL, Signal::INT, Signal::KILL, Signal::TERM, Signal::KILL, Signal::HUP, Signal::KILL];
    for (round, signal) in ends.into_iter().enumerate() {
        let Some(mut child) = until_some_moment(&scene) else { break };
        let code = send(&mut child, signal);
        if signal == Signal::KILL {
            seen_changed += usize::from(variables(&lab).await != start);
            // By the restore, or by the next run that goes on.
            if round % 4 == 0 {
                let output = scene.restore();
                assert!(output.status.success(), "{}", text(&output));
                assert_eq!(variables(&lab).await, start, "after {signal:?} and a restore");
                assert!(scene.open().is_empty());
            }
        } else {
            assert_eq!(code, Some(2), "interrupted is an error that says how to go on");
            assert_eq!(variables(&lab).await, start, "after {signal:?}");
            assert!(scene.open().is_empty());
        }
    }
    // No kill may have come while a variable was changed: one more is sent at such a moment.
    while seen_changed == 0 {
        let mut child = scene.run().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        while variables(&lab).await == start {
            let goes_on = began.elapsed() < LIMIT && child.try_wait().unwrap().is_none();
            assert!(goes_on, "no variable was changed: {:?}", scene.lines().last());
        }
        send(&mut child, Signal::KILL);
        seen_changed += usize::from(variables(&lab).await != start);
    }

    let output = scene.run().output().unwrap();
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert!(report["complete"].as_bool().unwrap(), "{report}");
    assert_eq!(report["differ"], Value::Array(Vec::new()), "the return to the baseline finds nothing");
    assert!(report["loads"][0]["back"].is_number(), "{report}");
    assert_eq!(variables(&lab).await, start);
    assert!(scene.open().is_empty());
    each_trial_stands_once(&scene.lines());
    lab.down().await.unwrap();
}

/// The spec, its baseline as this server is.
fn of_this_server(start: &BTreeMap<String, String>) -> String {
    // The lab's servers sync nothing: flush is not at the default.
    let flush = start["innodb_flush_log_at_trx_commit"].clone();
    let dirty = start["innodb_max_dirty_pages_pct"].trim_end_matches('0').trim_end_matches('.').to_owned();
    let dirty = if dirty == "9" { "90".to_owned() } else { dirty };
    let flush_level = if flush == "2" { "0" } else { "2" };
    SPEC.replace("{database}", DATABASE)
        .replace("\"{flush}\", \"2\"", &format!("\"{flush}\", \"{flush_level}\""))
        .replace("{capacity}", &start["innodb_io_capacity"])
        .replace("{dirty}", &dirty)
}

/// However often it was ended: no trial counts twice, and none is missing.
fn each_trial_stands_once(lines: &[String]) {
    let trials: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let trials: Vec<&Value> = trials.iter().filter(|line| line["line"] == "trial").collect();
    let places: BTreeSet<String> = trials.iter().map(|trial| trial["place"].to_string()).collect();
    assert_eq!(places.len(), trials.len(), "a place twice");
    let given_up: Vec<String> = trials
        .iter()
        .filter(|trial| trial["outcome"]["status"] != "measured")
        .map(ToString::to_string)
        .collect();
    let slots = trials.iter().filter(|trial| trial["place"]["attempt"] == 0).count();
    // Three cells, the lead-in, two baselines and the A/A cell in three blocks.
    assert_eq!(slots, 21, "{given_up:?}");
}

#[tokio::test]
async fn a_server_that_is_restarted_in_the_middle_costs_no_trial() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 1)]), base.path()).await.unwrap();
    let scene = prepared(&lab).await;
    let start = variables(&lab).await;
    let mut restarts = 0;
    while restarts < 3 {
        // The moment in a trial is nobody's choice.
        let mut child = until_some_moment(&scene).expect("it is over too early");
        restarts += 1;
        lab.change("a1", "stop".parse().unwrap()).await.unwrap();
        lab.change("a1", "start".parse().unwrap()).await.unwrap();
        let lines = scene.lines().len();
        let began = Instant::now();
        while scene.lines().len() < lines + 2 && child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < LIMIT, "it does not go on: {:?}", scene.lines().last());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        send(&mut child, rustix::process::Signal::INT);
    }
    let output = scene.run().output().unwrap();
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert!(report["complete"].as_bool().unwrap(), "{report}");
    assert_eq!(report["differ"], Value::Array(Vec::new()), "{report}");
    let now = variables(&lab).await;
    // What the lab itself had set is lost by a restart.
    for name in ["innodb_flush_log_at_trx_commit", "innodb_io_capacity", "innodb_max_dirty_pages_pct"] {
        assert_eq!(now[name], start[name], "{name}");
    }
    assert!(scene.open().is_empty());
    for line in scene.lines().iter().filter(|line| line.contains("\"line\":\"trial\"")) {
        let trial: Value = serde_json::from_str(line).unwrap();
        let (status, why) = (trial["outcome"]["status"].as_str(), trial["outcome"]["why"].to_string());
        let of_the_outage = why.contains("onnect") || why.contains("ended");
        assert!(status == Some("measured") || (status == Some("void") && !of_the_outage), "{line}");
    }
    each_trial_stands_once(&scene.lines());
    lab.down().await.unwrap();
}

#[tokio::test]
async fn however_a_run_ends_every_variable_of_mariadb_is_as_it_was_and_it_goes_on() {
    however_it_ends_every_variable_is_as_it_was(&Spec::new(&[("a", 1)])).await;
}
