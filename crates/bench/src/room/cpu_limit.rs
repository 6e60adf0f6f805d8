//! A limit of a server's CPU time: a cgroup of its own, version 2 or 1. Periods are short, so that a limited
//! server looks like a slower machine rather than like one that stands still now and then.

use anyhow::Context;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PERIOD: Duration = Duration::from_millis(20);

/// A process in a cgroup of its own; the cgroup goes once the process has ended or left.
#[derive(Debug)]
pub(super) struct CpuLimit {
    root: PathBuf,
    directory: PathBuf,
    pid: u32,
    version_2: bool,
}

impl CpuLimit {
    /// Puts the process into a cgroup called `name`, without a limit yet.
    pub(super) fn new(name: &str, pid: u32) -> anyhow::Result<Self> {
        let unified = Path::new("/sys/fs/cgroup");
        let controllers = std::fs::read_to_string(unified.join("cgroup.controllers")).unwrap_or_default();
        let version_2 = controllers.split_ascii_whitespace().any(|controller| controller == "cpu");
        let root = if version_2 { unified.to_owned() } else { unified.join("cpu") };
        if version_2 {
            let enable = root.join("cgroup.subtree_control");
            std::fs::write(&enable, "+cpu")
                .with_context(|| format!("writing {} (root is needed)", enable.display()))?;
        }
        let directory = root.join(format!("headroom-bench-{}-{name}", std::process::id()));
        std::fs::create_dir(&directory)
            .with_context(|| format!("making the cgroup {} (root is needed)", directory.display()))?;
        let limit = Self { root, directory, pid, version_2 };
        limit.write("cgroup.procs", &pid.to_string())?;
        Ok(limit)
    }

    /// Lets it use this much of one core.
    pub(super) fn set(&self, cores: f64) -> anyhow::Result<()> {
        let period = PERIOD.as_micros();
        let quota = (cores * period as f64).round() as u64;
        if self.version_2 {
            return self.write("cpu.max", &format!("{quota} {period}"));
        }
        self.write("cpu.cfs_period_us", &period.to_string())?;
        self.write("cpu.cfs_quota_us", &quota.to_string())
    }

    fn write(&self, file: &str, value: &str) -> anyhow::Result<()> {
        let path = self.directory.join(file);
        std::fs::write(&path, value).with_context(|| format!("writing {value} to {}", path.display()))
    }
}

impl Drop for CpuLimit {
    fn drop(&mut self) {
        // The process may have ended; then the cgroup is empty already.
        let _ = std::fs::write(self.root.join("cgroup.procs"), self.pid.to_string());
        let _ = std::fs::remove_dir(&self.directory);
    }
}
