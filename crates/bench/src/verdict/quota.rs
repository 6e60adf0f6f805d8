//! Limits of a process, for as long as they are held: CPU time and threads by a cgroup of its own, CPUs, and
//! open files.

use anyhow::Context;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::path::{Path, PathBuf};

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

/// While it is there, the threads of a process are this share of those that it may have.
pub(super) struct ThreadsAllowed {
    group: PathBuf,
    parent: PathBuf,
    pid: u32,
}

impl ThreadsAllowed {
    /// # Errors
    /// Not root, or no cgroup of threads is mounted.
    pub(super) fn of(pid: u32, share: f64) -> anyhow::Result<Self> {
        let one = PathBuf::from("/sys/fs/cgroup/pids");
        let parent = if one.is_dir() { one } else { PathBuf::from(VERSION_2) };
        let group = parent.join("headroom-bench-threads");
        std::fs::create_dir_all(&group).with_context(|| format!("making {}", group.display()))?;
        let threads = std::fs::read_dir(format!("/proc/{pid}/task"))?.count();
        let held = Self { group, parent, pid };
        write(&held.group.join("cgroup.procs"), &pid.to_string())?;
        write(&held.group.join("pids.max"), &((threads as f64 / share).ceil() as u64).to_string())?;
        Ok(held)
    }
}

impl Drop for ThreadsAllowed {
    fn drop(&mut self) {
        if let Err(error) = write(&self.parent.join("cgroup.procs"), &self.pid.to_string()) {
            tracing::warn!(%error, "the server keeps its limit of threads");
        }
        let _ = std::fs::remove_dir(&self.group);
    }
}

fn write(path: &Path, words: &str) -> anyhow::Result<()> {
    std::fs::write(path, words).with_context(|| format!("writing '{words}' to {}", path.display()))
}

/// While it is there, the open files of a process are this share of those that it may open.
pub(super) struct FilesAllowed {
    pid: Pid,
    usual: Rlimit,
}

impl FilesAllowed {
    /// # Errors
    /// Not root, or the process has ended.
    pub(super) fn of(pid: u32, share: f64) -> anyhow::Result<Self> {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd"))?.count();
        let pid = Pid::from_raw(pid.cast_signed()).context("a process number")?;
        let most = (open as f64 / share).ceil() as u64;
        // What it may raise it to stays.
        let maximum = std::fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_nonzero()))?
            .lines()
            .find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().nth(1)?.parse().ok());
        let usual = prlimit(Some(pid), Resource::Nofile, Rlimit { current: Some(most), maximum })?;
        Ok(Self { pid, usual })
    }
}

impl Drop for FilesAllowed {
    fn drop(&mut self) {
        if let Err(error) = prlimit(Some(self.pid), Resource::Nofile, self.usual) {
            tracing::warn!(%error, "the server keeps its limit of open files");
        }
    }
}

/// While it is there, all threads of a process run on one CPU.
pub(super) struct CpusAllowed {
    pid: u32,
    usual: CpuSet,
}

impl CpusAllowed {
    /// # Errors
    /// Not root, or the process has ended.
    pub(super) fn of(pid: u32, cpu: usize) -> anyhow::Result<Self> {
        let number = Pid::from_raw(pid.cast_signed()).context("a process number")?;
        let held = Self { pid, usual: sched_getaffinity(Some(number))? };
        let mut one = CpuSet::new();
        one.set(cpu);
        held.set(&one)?;
        Ok(held)
    }

    /// Threads that are begun later inherit it from the one that begins them.
    fn set(&self, cpus: &CpuSet) -> anyhow::Result<()> {
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.pid))? {
            let number = thread?.file_name().to_str().and_then(|name| name.parse().ok());
            // No number would mean our own thread.
            if let Some(number) = number.and_then(Pid::from_raw) {
                // One that has just ended needs no CPU.
                let _ = sched_setaffinity(Some(number), cpus);
            }
        }
        Ok(())
    }
}

impl Drop for CpusAllowed {
    fn drop(&mut self) {
        if let Err(error) = self.set(&self.usual) {
            tracing::warn!(%error, "the server stays on one CPU");
        }
    }
}
