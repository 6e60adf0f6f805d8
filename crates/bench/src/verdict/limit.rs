//! Limits of a process, for as long as they are held: CPU time, memory and threads by cgroups of its own,
//! CPUs, and open files.

use super::super::cgroup::{Group, Hierarchy};
use anyhow::Context;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Of the cgroups.
const GROUP: &str = "headroom-bench-limit";
/// A period of the quota, microseconds: the kernel's default.
const PERIOD_US: u32 = 100_000;

/// What a cgroup allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit {
    /// CPU seconds a second.
    Cpus(f64),
    /// Bytes, the page cache of its files included.
    Memory(u64),
    /// Threads of all its processes.
    Threads(u64),
}

/// While it is there the process is limited.
pub(super) struct Limited(Vec<Group>);

impl Limit {
    fn controller(self) -> &'static str {
        match self {
            Self::Cpus(_) => "cpu",
            Self::Memory(_) => "memory",
            Self::Threads(_) => "pids",
        }
    }

    /// Files of a group, and what they say.
    fn words(self, version_2: bool) -> Vec<(&'static str, String)> {
        match (self, version_2) {
            (Self::Cpus(cpus), true) => vec![("cpu.max", format!("{} {PERIOD_US}", quota_us(cpus)))],
            (Self::Cpus(cpus), false) => vec![
                ("cpu.cfs_period_us", PERIOD_US.to_string()),
                ("cpu.cfs_quota_us", quota_us(cpus).to_string()),
            ],
            (Self::Memory(bytes), true) => vec![("memory.max", bytes.to_string())],
            (Self::Memory(bytes), false) => vec![("memory.limit_in_bytes", bytes.to_string())],
            (Self::Threads(most), _) => vec![("pids.max", most.to_string())],
        }
    }
}

impl Limited {
    /// Limits a process in all of these ways.
    ///
    /// # Errors
    /// Not root, or no cgroup of that kind is mounted.
    pub(super) fn of(pid: u32, limits: &[Limit]) -> anyhow::Result<Self> {
        let mut limited = Self(Vec::new());
        for limit in limits {
            let controller = limit.controller();
            let hierarchy =
                Hierarchy::of(controller).with_context(|| format!("no cgroup of {controller} is mounted"))?;
            let group = limited.group(&hierarchy, pid)?;
            for (file, words) in limit.words(group.is_version_2()) {
                group.write(file, &words)?;
            }
        }
        limited.0.iter().try_for_each(Group::enter)?;
        Ok(limited)
    }

    /// Threads of a process now, as a limit that they are at least this share of.
    pub(super) fn threads(pid: u32, share: f64) -> anyhow::Result<Limit> {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task"))?.count();
        Ok(Limit::Threads((threads as f64 / share).floor() as u64))
    }

    /// Keeps the threads of the process at this share of their limit, until then: a server ends threads that
    /// nobody needs.
    ///
    /// # Errors
    /// The process is no more, or the limit cannot be written.
    pub(super) async fn keep_threads(
        self: Arc<Self>,
        pid: u32,
        share: f64,
        until: Instant,
    ) -> anyhow::Result<()> {
        while Instant::now() < until {
            let limit = Self::threads(pid, share)?;
            for group in &self.0 {
                for (file, words) in limit.words(group.is_version_2()) {
                    group.write(file, &words)?;
                }
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    }

    /// In version 2 a process is in one group: all its limits stand there.
    fn group(&mut self, hierarchy: &Hierarchy, pid: u32) -> anyhow::Result<&Group> {
        let known = self.0.iter().position(|group| group.is_version_2() && hierarchy.is_version_2());
        let at = match known {
            Some(at) => {
                hierarchy.enable()?;
                at
            }
            None => {
                self.0.push(hierarchy.around(pid, GROUP)?);
                self.0.len() - 1
            }
        };
        Ok(&self.0[at])
    }
}

fn quota_us(cpus: f64) -> u64 {
    (f64::from(PERIOD_US) * cpus).round() as u64
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
