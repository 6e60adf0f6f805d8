//! Whether this process is throttled by the CPU limit of its own cgroup (a container's, a service's). A
//! router that waits for its next period makes every client wait, and no server shows why; an agent reads
//! late.
//!
//! The limit's own count of the periods in which it ended before the work is what is told, over at least ten
//! seconds before the look, as soon as there are that many. Who is asked seldom tells of the time since then.

use diagnose::host::cgroup::{CpuLimit, Limits, Reading};
use diagnose::verdict::{Unit, figure};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often limits are looked up: they may be changed while we run.
const LOOKED_UP_EVERY: Duration = Duration::from_secs(60);
/// What is told is of this many seconds, as soon as there are as many.
const WINDOW_S: f64 = 10.0;
/// Of less nothing is told.
const LEAST_S: f64 = 1.0;
/// Of the periods with work; below it waits are no more than those for a busy CPU.
const HELD_BACK: f64 = 0.05;

/// The CPU limits of a process.
#[derive(Debug)]
pub struct OwnLimit {
    pid: u32,
    proc: PathBuf,
    least_s: f64,
    readings: Mutex<LimitReadings>,
}

/// Its limits when last looked up, and what was counted at them.
#[derive(Debug, Default)]
struct LimitReadings {
    looked_up: Option<Instant>,
    limits: Option<Limits>,
    /// Oldest first; the first is the latest that is as old as the window is long.
    readings: VecDeque<Reading>,
}

impl Default for OwnLimit {
    fn default() -> Self {
        Self::of(std::process::id(), Path::new("/proc"), LEAST_S)
    }
}

impl OwnLimit {
    /// Of process `pid`, from now on.
    fn of(pid: u32, proc: &Path, least_s: f64) -> Self {
        let own = Self { pid, proc: proc.to_owned(), least_s, readings: Mutex::default() };
        own.look(Instant::now());
        own
    }

    /// That this process is held back, in words; `None` where no limit does so.
    pub fn held_back(&self) -> Option<String> {
        let (limit, seconds) = self.look(Instant::now())?;
        words(&limit, seconds)
    }

    /// What happened at the limit that is used most, and over how many seconds.
    fn look(&self, now: Instant) -> Option<(CpuLimit, f64)> {
        let mut kept = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let LimitReadings { looked_up, limits, readings } = &mut *kept;
        if looked_up.is_none_or(|at| now.saturating_duration_since(at) >= LOOKED_UP_EVERY) {
            *looked_up = Some(now);
            let found = Limits::of_cpu(self.pid, &self.proc);
            if *limits != found {
                readings.clear();
                *limits = found;
            }
        }
        let limits = limits.as_ref()?;
        let reading = limits.read();
        while readings.get(1).is_some_and(|next| next.seconds_before(&reading) >= WINDOW_S) {
            readings.pop_front();
        }
        let between = |first: &Reading| {
            let seconds = first.seconds_before(&reading);
            let sample = limits.between(first, &reading).filter(|_| seconds >= self.least_s)?;
            Some((sample.cpu?, seconds))
        };
        let told = readings.front().and_then(between);
        if readings.back().is_none_or(|last| last.seconds_before(&reading) >= self.least_s) {
            readings.push_back(reading);
        }
        told
    }
}

fn words(limit: &CpuLimit, seconds: f64) -> Option<String> {
    let lasts = fleet::long(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let (cpus, periods) = (figure(limit.cpus, Unit::Count), figure(limit.throttled, Unit::Share));
    let text = format!(
        "held back by its own limit of {cpus} CPUs in {periods} of the periods of the last {lasts}: raise it (cgroup {})",
        limit.path
    );
    (limit.throttled >= HELD_BACK).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_its_limit_holds_back_says_so_and_one_without_a_limit_nothing() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let stat = |periods: u64, throttled: u64| {
            let text = format!("usage_usec 1\nnr_periods {periods}\nnr_throttled {throttled}\n");
            write("cg/route/cpu.stat", &text);
        };
        write("42/cgroup", "0::/route\n");
        write("self/mounts", &format!("cgroup2 {} cgroup2 rw 0 0\n", root.path().join("cg").display()));
        write("cg/route/cpu.max", "50000 100000\n");
        stat(100, 50);
        let own = OwnLimit::of(42, root.path(), 0.002);
        let after_a_while = |periods, throttled| {
            stat(periods, throttled);
            std::thread::sleep(Duration::from_millis(5));
            own.held_back()
        };
        assert_eq!(after_a_while(200, 50), None, "what was before is no matter of this process");
        let text = after_a_while(300, 118).unwrap();
        assert!(text.starts_with("held back by its own limit of 0.50 CPUs in 34 % of the periods"), "{text}");
        write("43/cgroup", "0::/\n");
        let free = OwnLimit::of(43, root.path(), 0.0);
        assert_eq!((free.held_back(), free.held_back()), (None, None));
    }

    #[test]
    fn a_period_now_and_then_is_no_news() {
        let limit = |throttled| CpuLimit { cpus: 2.0, throttled, ..CpuLimit::default() };
        assert_eq!(words(&limit(0.01), 10.0), None);
        assert!(words(&limit(0.5), 12.0).unwrap().contains("in 50 % of the periods of the last 12 s"));
    }
}
