//! `headroom-bench soak` on real servers, ended early as a person would: it finds nothing wrong, and keeps
//! what there is.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Servers come up, the load begins, and the first fault comes after ten seconds of it.
const LIMIT: Duration = Duration::from_secs(120);
/// This many seconds of load, the first fault among them.
const LOOKED: usize = 18;

/// Ended when dropped: its lab and its router end with it.
struct Soak(Child);

impl Drop for Soak {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_soak_that_is_interrupted_has_changed_nothing_explained_everything_and_kept_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let (out, log) = (dir.path().join("soak"), dir.path().join("log"));
    let child = Command::new(env!("CARGO_BIN_EXE_headroom-bench"))
        .args(["soak", "--seconds", "600", "--clients", "8", "--rate", "100", "--json", "--out"])
        .arg(&out)
        .env_clear()
        .env("TMPDIR", dir.path())
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(dir.path().join("out")).unwrap())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut soak = Soak(child);
    let words = || std::fs::read_to_string(&log).unwrap_or_default();
    wait(&words, || lines(&out.join("samples.csv")) > LOOKED || soak.0.try_wait().unwrap().is_some());
    let pid = Pid::from_raw(soak.0.id().cast_signed()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    wait(&words, || soak.0.try_wait().unwrap().is_some());
    let ended = soak.0.wait().unwrap();
    assert_eq!(ended.code(), Some(1), "not to the end is no: {}", words());

    let run: Value = serde_json::from_slice(&std::fs::read(dir.path().join("out")).unwrap()).unwrap();
    assert_eq!(run["cut_short"], "interrupted", "{}", words());
    let summary = std::fs::read_to_string(out.join("summary.md")).unwrap();
    for none in ["wrong", "unexplained"] {
        assert_eq!(run["counted"][none], 0, "{summary}");
    }
    assert!(run["counted"]["statements"].as_u64() > Some(300), "{summary}");
    assert_eq!((&run["written"]["lost"], &run["written"]["twice"]), (&0.into(), &0.into()), "{summary}");
    assert!(run["written"]["acknowledged"].as_u64() > Some(0), "{summary}");
    assert_eq!(run["faults"].as_array().map(Vec::len), Some(1), "{summary}");
    assert!(summary.contains("too short to tell"), "{summary}");
    assert!(["route.log", "route.log.gz"].iter().any(|log| out.join(log).is_file()));
}

fn wait(words: &dyn Fn() -> String, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !so() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}:\n{}", words());
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn lines(file: &Path) -> usize {
    std::fs::read_to_string(file).map_or(0, |text| text.lines().count())
}
