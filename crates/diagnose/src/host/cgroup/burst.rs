//! The burst of a quota of CPU time: what earlier periods left of it may be used beyond it in a later one.
//!
//! Sources: the kernel's `cgroup-v2.rst` (`cpu.max.burst`; `nr_bursts` and `burst_usec` of `cpu.stat`) and
//! `scheduler/sched-bwc.rst` (version 1: `cpu.cfs_burst_us`, and `burst_time` in nanoseconds).

use super::Version;
use super::files::{bytes, first, named};
use crate::host::text::grown;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What was drawn of it between two readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// CPU seconds that may be saved up.
    pub allowed_s: f64,
    /// Share of the periods with work in which some of it was used, 0 to 1.
    pub periods: f64,
    /// CPU seconds a second that were used beyond the quota of their period.
    pub cpus: f64,
}

/// What had been drawn at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drawn {
    periods: u64,
    us: u64,
}

/// Microseconds that may be saved up; `None` where there is no burst (an old kernel, or 0, as by default).
pub(super) fn allowed_us(dir: &Path, version: Version) -> Option<u64> {
    let file = match version {
        Version::Two => "cpu.max.burst",
        Version::One => "cpu.cfs_burst_us",
    };
    first(&bytes(dir, file)).filter(|us| *us > 0)
}

impl Drawn {
    /// Reads `cpu.stat`.
    pub(super) fn read(stat: &[u8]) -> Option<Self> {
        let in_ns = || named(stat, b"burst_time").map(|ns| ns / 1000);
        Some(Self { periods: named(stat, b"nr_bursts")?, us: named(stat, b"burst_usec").or_else(in_ns)? })
    }

    /// What was drawn since `before`, `seconds` ago, of what is allowed; the number of periods in which
    /// something ran.
    pub(super) fn since(self, before: Self, allowed_us: u64, periods: u64, seconds: f64) -> Burst {
        let bursts = grown(self.periods, before.periods) as f64;
        Burst {
            allowed_s: allowed_us as f64 / 1e6,
            periods: if periods > 0 { (bursts / periods as f64).min(1.0) } else { 0.0 },
            cpus: grown(self.us, before.us) as f64 / 1e6 / seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{host, limits};
    use super::Drawn;
    use std::time::Duration;

    #[test]
    fn what_is_drawn_of_a_burst_is_told_and_nothing_where_there_is_none() {
        let sample = |burst: Option<&str>| {
            let stat = |used: u64, periods: u64, bursts: u64, us: u64| {
                format!(
                    "usage_usec {used}\nuser_usec 1\nsystem_usec 1\nnr_periods {periods}\n\
                     nr_throttled 0\nthrottled_usec 0\nnr_bursts {bursts}\nburst_usec {us}\n"
                )
            };
            let before = stat(0, 100, 5, 1_000_000);
            let mut files = vec![("cg/db/cpu.max", "50000 100000\n"), ("cg/db/cpu.stat", &*before)];
            files.extend(burst.map(|burst| ("cg/db/cpu.max.burst", burst)));
            let root = host("0::/db\n", &[("cg", "cgroup2", "rw")], &files);
            let limits = limits(&root).unwrap();
            let first = limits.read().earlier(Duration::from_secs(10));
            let now = stat(5_000_000, 200, 25, 3_000_000);
            std::fs::write(root.path().join("cg/db/cpu.stat"), now).unwrap();
            limits.between(&first, &limits.read()).unwrap().cpu.unwrap().burst
        };
        let burst = sample(Some("20000\n")).unwrap();
        assert_eq!((burst.allowed_s, burst.periods), (0.02, 0.2));
        assert!((burst.cpus - 0.2).abs() < 0.01, "{burst:?}");
        assert_eq!((sample(Some("0\n")), sample(None)), (None, None));
    }

    #[test]
    fn version_1_counts_it_in_nanoseconds() {
        let stat = b"nr_periods 9\nnr_throttled 1\nthrottled_time 7\nnr_bursts 4\nburst_time 8000\n";
        assert_eq!(Drawn::read(stat), Some(Drawn { periods: 4, us: 8 }));
        assert_eq!(Drawn::read(b"nr_periods 9\nnr_throttled 1\n"), None);
    }
}
