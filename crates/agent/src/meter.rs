//! What watching costs this host: CPU and memory of this process.

use console::watch_view::Cost;
use std::time::{Duration, Instant};

/// Since when, and what it had used then.
pub(crate) struct Meter {
    since: Instant,
    cpu: Duration,
}

impl Meter {
    /// Begins now.
    pub(crate) fn start() -> Self {
        Self { since: Instant::now(), cpu: cpu_time() }
    }

    /// Since the start: a second alone says too little.
    pub(crate) fn read(&self) -> Cost {
        let wall = self.since.elapsed().as_secs_f64().max(1e-3);
        let cpu_share = cpu_time().saturating_sub(self.cpu).as_secs_f64() / wall;
        Cost { cpu_share, resident_bytes: resident() }
    }
}

/// CPU time of this process.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Resident memory of this process, bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}
