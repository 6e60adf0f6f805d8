//! Keeps the cores from falling asleep while the demo measures.
//!
//! The demo leaves most of the machine idle, and every message between application, router, link and server wakes
//! somebody up. In a virtual machine, waking a core that has gone to sleep costs 50 us and more, which is as much as the
//! distances that are to be seen, and a hop through a router would be charged with it twice. On hosts that carry
//! production load, cores do not sleep. So one busy loop for each core runs at the kernel's idle priority (`SCHED_IDLE`):
//! it gives way to everybody at once and takes only time that nobody wants. It runs in all phases alike. Measured on two
//! virtual cores, a router's hop took 28 us with it and 87 us without.

use crate::bench::child::Program;
use std::path::Path;

const CHRT: [&str; 2] = ["/usr/bin/chrt", "/bin/chrt"];

/// The loops; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Awake {
    _loops: Vec<Program>,
}

impl Awake {
    /// One loop for each core, or `None` where `chrt` (util-linux) is missing. `dir` is for their logs.
    pub(crate) fn start(cores: usize, dir: &Path) -> anyhow::Result<Option<Self>> {
        let Some(chrt) = CHRT.iter().map(Path::new).find(|path| path.exists()) else { return Ok(None) };
        // Nice too, so that the system's figures tell this time from everybody else's.
        let arguments =
            ["--idle", "0", "nice", "-n", "19", "sh", "-c", "while :; do :; done"].map(str::to_owned);
        let start =
            |_| Program::start("a loop that keeps a core awake", chrt, &arguments, &dir.join("awake.log"));
        Ok(Some(Self { _loops: (0..cores).map(start).collect::<anyhow::Result<_>>()? }))
    }
}

/// CPU time used so far and CPU time there was, of all cores, in the system's ticks. Time at lowered priority counts as
/// unused: it gives way.
pub(crate) fn cpu_times() -> (u64, u64) {
    times(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// The share used between two looks.
pub(crate) fn busy(before: (u64, u64), after: (u64, u64)) -> f64 {
    let all = after.1.saturating_sub(before.1);
    if all == 0 { 0.0 } else { after.0.saturating_sub(before.0) as f64 / all as f64 }
}

/// The first line: `cpu user nice system idle iowait irq softirq steal ...`.
fn times(stat: &str) -> (u64, u64) {
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect();
    let at = |n: usize| ticks.get(n).copied().unwrap_or(0);
    let unused = at(1) + at(3) + at(4);
    let all = ticks.iter().sum::<u64>();
    (all - unused, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_at_lowered_priority_and_idle_time_is_unused() {
        let before = times("cpu  100 50 100 1000 10 0 0 0 0 0\ncpu0 1 2 3\n");
        let after = times("cpu  130 120 120 1000 10 0 0 0 0 0\n");
        assert_eq!(before, (200, 1260));
        assert!((busy(before, after) - 50.0 / 120.0).abs() < 1e-9);
        assert!(busy(before, before).abs() < 1e-9);
    }
}
