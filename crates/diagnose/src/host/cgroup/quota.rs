//! Limits of CPU time, of every level, and where what is used of them is counted.

use super::burst::allowed_us;
use super::files::{Hierarchies, quotas};
use super::{Limits, Quota, Used, Version};
use std::path::Path;

impl Limits {
    /// Of process `pid` the limits of CPU time alone; `None` where it has none. A look at them takes a small
    /// file a level, whatever else the process has open.
    pub fn of_cpu(pid: u32, proc: &Path) -> Option<Self> {
        let cpu = cpu_quotas(&Hierarchies::of(pid, proc)?, pid, proc);
        if cpu.is_empty() {
            return None;
        }
        let (memory, threads, io) = (Vec::new(), Vec::new(), Vec::new());
        Some(Self { cpu, memory, threads, io, process: None, of_user: None, pinned_to: None })
    }
}

/// The innermost first.
pub(super) fn cpu_quotas(hierarchies: &Hierarchies, pid: u32, proc: &Path) -> Vec<Quota> {
    let Some((dir, mount, version)) = hierarchies.directory("cpu") else { return Vec::new() };
    let used = |dir: &Path| {
        let counted = || {
            let same = hierarchies.directory("cpuacct")?.1.join(dir.strip_prefix(&mount).ok()?);
            same.is_dir().then_some(Used::Counted(same))
        };
        let process = || Used::Process(proc.join(pid.to_string()).join("stat"));
        match version {
            Version::Two => Used::There,
            Version::One => counted().unwrap_or_else(process),
        }
    };
    let burst = |dir: &Path| allowed_us(dir, version);
    let all = quotas(&dir, &mount, version).into_iter();
    all.map(|(dir, cpus)| Quota { used: used(&dir), burst_us: burst(&dir), dir, cpus }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::host;
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_limits_of_cpu_alone_tell_how_often_they_held_back_and_nothing_else() {
        let root = host(
            "0::/pod/route\n",
            &[("cg", "cgroup2", "rw")],
            &[
                ("cg/pod/route/cpu.max", "50000 100000\n"),
                ("cg/pod/route/cpu.stat", "usage_usec 0\nnr_periods 100\nnr_throttled 10\n"),
                ("cg/pod/route/memory.max", "1048576\n"),
                ("cg/pod/pids.max", "40\n"),
            ],
        );
        let limits = Limits::of_cpu(42, &root.path().join("proc")).unwrap();
        let before = limits.read().earlier(Duration::from_secs(10));
        let now = "usage_usec 4000000\nnr_periods 200\nnr_throttled 44\n";
        std::fs::write(root.path().join("cg/pod/route/cpu.stat"), now).unwrap();
        let sample = limits.between(&before, &limits.read()).unwrap();
        assert_eq!(sample.cpu.map(|cpu| (cpu.cpus, cpu.throttled)), Some((0.5, 0.34)));
        assert!(sample.memory.is_none() && sample.threads.is_none() && sample.files.is_none());
        assert_eq!(Limits::of_cpu(43, &root.path().join("proc")), None);
    }

    #[test]
    fn of_two_mounts_the_one_that_has_the_group_counts() {
        let root = host(
            "0::/../../system.slice/db\n",
            &[("own", "cgroup2", "ro"), ("host", "cgroup2", "ro")],
            &[
                ("own/cpu.max", "10000 100000\n"),
                ("host/system.slice/db/cpu.max", "50000 100000\n"),
                ("host/system.slice/cpu.max", "max 100000\n"),
            ],
        );
        let at = root.path().display();
        let tops = format!(
            "36 35 0:30 / {at}/own ro - cgroup2 cgroup ro\n\
             37 35 0:30 /../.. {at}/host ro - cgroup2 cgroup ro\n"
        );
        std::fs::write(root.path().join("proc/self/mountinfo"), tops).unwrap();
        let proc = root.path().join("proc");
        let limits = Limits::of_cpu(42, &proc).unwrap();
        assert_eq!(limits.cpu_quota(), Some((root.path().join("host/system.slice/db").as_path(), 0.5)));
        assert!(!Limits::are_elsewhere(42, &proc));
    }
}
