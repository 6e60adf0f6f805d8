//! A quota of CPU time for a process: a cgroup of its own, version 2 where that has the controller, else 1.

use anyhow::Context;
use std::path::PathBuf;

const GROUP: &str = "headroom-bench-cpu";
/// A period of the quota, microseconds: the kernel's default.
const PERIOD_US: u32 = 100_000;
const VERSION_1: &str = "/sys/fs/cgroup/cpu";
const VERSION_2: &str = "/sys/fs/cgroup";

/// While it is there the process is limited.
pub(super) struct Quota {
    group: PathBuf,
    parent: PathBuf,
    pid: u32,
}

impl Quota {
    /// `pid` gets `cpus` CPU seconds a second.
    ///
    /// # Errors
    /// Not root, or no cgroup of CPU time is mounted.
    pub(super) fn of(pid: u32, cpus: f64) -> anyhow::Result<Self> {
        let one = PathBuf::from(VERSION_1);
        let is_one = one.join("cpu.cfs_quota_us").exists() || one.join("cgroup.procs").exists();
        let parent = if is_one { one } else { PathBuf::from(VERSION_2) };
        let group = parent.join(GROUP);
        std::fs::create_dir_all(&group).with_context(|| format!("making {}", group.display()))?;
        let quota = Self { group, parent, pid };
        let allowed = (f64::from(PERIOD_US) * cpus).round();
        if is_one {
            quota.write("cpu.cfs_period_us", &PERIOD_US.to_string())?;
            quota.write("cpu.cfs_quota_us", &allowed.to_string())?;
        } else {
            quota.write("cpu.max", &format!("{allowed} {PERIOD_US}"))?;
        }
        quota.write("cgroup.procs", &pid.to_string())?;
        Ok(quota)
    }

    fn write(&self, file: &str, words: &str) -> anyhow::Result<()> {
        let path = self.group.join(file);
        std::fs::write(&path, words).with_context(|| format!("writing '{words}' to {}", path.display()))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(self.parent.join("cgroup.procs"), self.pid.to_string()) {
            tracing::warn!(%error, "the server keeps its quota");
        }
        let _ = std::fs::remove_dir(&self.group);
    }
}
