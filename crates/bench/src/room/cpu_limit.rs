//! A limit of a server's CPU time: a cgroup of its own, version 2 or 1. Periods are short, so that a limited
//! server looks like a slower machine rather than like one that stands still now and then.

use crate::cgroup::{Group, Hierarchy};
use anyhow::Context;
use std::time::Duration;

const PERIOD: Duration = Duration::from_millis(20);

/// A process in a cgroup of its own; dropped, it is back where it was.
#[derive(Debug)]
pub(super) struct CpuLimit(Group);

impl CpuLimit {
    /// Puts the process into a cgroup called `name`, without a limit yet.
    pub(super) fn new(name: &str, pid: u32) -> anyhow::Result<Self> {
        let hierarchy = Hierarchy::of("cpu").context("no cgroup of cpu is mounted")?;
        let group = hierarchy.around(pid, &format!("headroom-bench-{}-{name}", std::process::id()))?;
        group.enter()?;
        Ok(Self(group))
    }

    /// Lets it use this much of one core.
    pub(super) fn set(&self, cores: f64) -> anyhow::Result<()> {
        let period = PERIOD.as_micros();
        let quota = (cores * period as f64).round() as u64;
        if self.0.is_version_2() {
            return self.0.write("cpu.max", &format!("{quota} {period}"));
        }
        self.0.write("cpu.cfs_period_us", &period.to_string())?;
        self.0.write("cpu.cfs_quota_us", &quota.to_string())
    }
}
