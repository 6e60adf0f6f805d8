//! Time that jumps, and a process that stands still.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Seconds.
pub(crate) const YEAR: i64 = 365 * 86_400;

/// The wall clock of a program that is started with `LD_PRELOAD` = `shim` and `CLOCK_MOVED_BY` = `moved`.
pub(crate) struct Clock {
    pub(crate) shim: PathBuf,
    pub(crate) moved: PathBuf,
}

impl Clock {
    /// One that shows the right time; its files are in `dir`.
    pub(crate) fn new(dir: &Path) -> Self {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/clock.c");
        let (shim, moved) = (dir.join("clock.so"), dir.join("moved"));
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(&shim).arg(source);
        assert!(cc.status().unwrap().success(), "cc, which links this project too");
        std::fs::write(&moved, 0i64.to_ne_bytes()).unwrap();
        Self { shim, moved }
    }

    /// From now on it is wrong by this many seconds.
    pub(crate) fn move_by(&self, seconds: i64) {
        // In place: the file is in the program's memory.
        let file = std::fs::OpenOptions::new().write(true).open(&self.moved).unwrap();
        file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }
}

/// Waits until every thread of a process has stopped.
pub(crate) async fn stands_still(pid: u32) {
    let stopped = |task: std::io::Result<std::fs::DirEntry>| {
        // One that has ended meanwhile stands still for good.
        let Ok(stat) = std::fs::read_to_string(task.unwrap().path().join("stat")) else { return true };
        stat.rsplit_once(')').unwrap().1.trim_start().starts_with('T')
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(stopped) {
        assert!(Instant::now() < deadline, "it does not stop");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
