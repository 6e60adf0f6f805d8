//! The demo leaves nothing behind when it is interrupted. What it measures is not asserted here: figures
//! depend on the machine, and the demo says itself which promises it met.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Killed when the test ends early.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_interrupted_demo_takes_servers_and_routers_and_files_along() {
    let base = tempfile::tempdir().unwrap();
    let report = base.path().join("report.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
    command.args(["demo", "--rounds", "1", "--report"]).arg(&report).env("TMPDIR", base.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut demo = Demo(command.spawn().unwrap());
    let mut said = Vec::new();
    for line in BufReader::new(demo.0.stderr.take().unwrap()).lines() {
        said.push(line.unwrap());
        // By now servers and routers run.
        if said.last().is_some_and(|line| line.contains("warming up")) {
            break;
        }
    }
    assert!(said.last().is_some_and(|line| line.contains("warming up")), "{said:?}");
    assert!(!processes_on(base.path()).is_empty());
    let mut status = Command::new(env!("CARGO_BIN_EXE_headroom"));
    let found = status.args(["lab", "status", "--json"]).env("TMPDIR", base.path()).output().unwrap();
    assert!(found.status.success(), "headroom lab finds its servers: {found:?}");

    kill_process(Pid::from_child(&demo.0), Signal::INT).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = demo.0.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "the demo does not end");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(status.code(), Some(2), "there is no result");
    let left = std::fs::read_dir(base.path()).unwrap().flatten().map(|e| e.path()).collect::<Vec<_>>();
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
    while !processes_on(base.path()).is_empty() {
        assert!(Instant::now() < deadline, "{:?} still run", processes_on(base.path()));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Command lines that name something below `dir`, the demo's own left out.
fn processes_on(dir: &Path) -> Vec<String> {
    let needle = format!("{}/headroom-lab-", dir.display());
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&needle)).collect()
}
