//! `/proc/stat`: where the time of each CPU went, how many tasks run and how many wait for a disk.
//!
//! A line is `cpu3 user nice system idle iowait irq softirq steal guest guest_nice`, in ticks since boot.
//! Kernels before 2.6.33 have no `guest_nice`, before 2.6.24 no `guest`, before 2.6.11 no `steal`: what is
//! absent is 0. `guest` is counted in `user` already. `iowait` is idle time and may go back; it is never
//! evidence by itself (an io_uring that waits for nothing counts as iowait too).

use super::text::{decimal, grown, lines, ratio, words};
use serde::{Deserialize, Serialize};

/// Ticks of one CPU, or of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// Ordinary programs, niced ones included.
    pub user: u64,
    pub system: u64,
    /// Nothing to do.
    pub idle: u64,
    /// Nothing to do while somebody waits for a disk.
    pub iowait: u64,
    /// Hard interrupts.
    pub irq: u64,
    /// Soft interrupts: the network's packets, mostly.
    pub softirq: u64,
    /// Taken by the host that this machine is a guest of.
    pub steal: u64,
}

/// What `/proc/stat` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// All CPUs together.
    pub all: Ticks,
    /// Each CPU that is online, with its number.
    pub each: Vec<(u32, Ticks)>,
    /// Context switches since boot.
    pub switches: u64,
    /// Tasks started since boot.
    pub forks: u64,
    /// Tasks that run or could run now, the reader among them.
    pub running: u64,
    /// Tasks that wait for a disk now.
    pub blocked: u64,
}

/// Shares of time between two readings: each 0 to 1, together 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Ordinary programs.
    pub user: f64,
    pub system: f64,
    /// Hard interrupts.
    pub irq: f64,
    /// Soft interrupts.
    pub softirq: f64,
    /// Taken by the host of this guest.
    pub steal: f64,
    /// Idle while somebody waits for a disk.
    pub iowait: f64,
    pub idle: f64,
}

/// CPUs between two readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub all: Shares,
    pub each: Vec<(u32, Shares)>,
    /// Context switches a second.
    pub switches_per_s: f64,
    /// Tasks started a second.
    pub forks_per_s: f64,
    /// Tasks that run or could run, at the later reading.
    pub running: u64,
    /// Tasks that wait for a disk, at the later reading.
    pub blocked: u64,
}

/// Reads `/proc/stat`.
pub fn parse(bytes: &[u8]) -> Reading {
    let mut reading = Reading::default();
    for line in lines(bytes) {
        let mut words = words(line);
        let Some(name) = words.next() else { continue };
        // The line of all interrupts may have thousands of numbers: not looked at.
        let mut first = || words.next().and_then(decimal).unwrap_or(0);
        match name {
            b"ctxt" => reading.switches = first(),
            b"processes" => reading.forks = first(),
            b"procs_running" => reading.running = first(),
            b"procs_blocked" => reading.blocked = first(),
            _ => match name.strip_prefix(b"cpu") {
                Some(b"") => reading.all = ticks(words),
                Some(number) => {
                    if let Some(number) = decimal(number).and_then(|n| u32::try_from(n).ok()) {
                        reading.each.push((number, ticks(words)));
                    }
                }
                None => {}
            },
        }
    }
    reading
}

fn ticks<'a>(words: impl Iterator<Item = &'a [u8]>) -> Ticks {
    let mut at = [0; 8];
    for (place, word) in at.iter_mut().zip(words) {
        *place = decimal(word).unwrap_or(0);
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = at;
    Ticks { user: user.saturating_add(nice), system, idle, iowait, irq, softirq, steal }
}

impl Reading {
    /// What happened since `before`, `seconds` ago.
    pub fn since(&self, before: &Self, seconds: f64) -> Sample {
        let earlier = |number| before.each.iter().find(|(n, _)| *n == number).map(|(_, ticks)| *ticks);
        Sample {
            all: self.all.since(before.all),
            each: self
                .each
                .iter()
                .filter_map(|(number, ticks)| Some((*number, ticks.since(earlier(*number)?))))
                .collect(),
            switches_per_s: grown(self.switches, before.switches) as f64 / seconds,
            forks_per_s: grown(self.forks, before.forks) as f64 / seconds,
            running: self.running,
            blocked: self.blocked,
        }
    }
}

impl Ticks {
    fn since(self, before: Self) -> Shares {
        let parts = [
            grown(self.user, before.user),
            grown(self.system, before.system),
            grown(self.irq, before.irq),
            grown(self.softirq, before.softirq),
            grown(self.steal, before.steal),
            grown(self.iowait, before.iowait),
            grown(self.idle, before.idle),
        ];
        let whole = parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
        let [user, system, irq, softirq, steal, iowait, idle] =
            parts.map(|part| ratio(part, whole).unwrap_or(0.0));
        Shares { user, system, irq, softirq, steal, iowait, idle }
    }
}

impl Shares {
    /// Share of time in which it worked: idle, iowait and steal left out.
    pub fn busy(self) -> f64 {
        self.user + self.system + self.irq + self.softirq
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THIS: &[u8] = include_bytes!("../../tests/recorded/linux-6.18/stat");
    /// A machine of 2.6.18: no guest columns, a hot-plugged CPU 3 and no CPU 2.
    const OLD: &[u8] = b"cpu  100 10 50 800 20 1 2 3\ncpu0 60 5 25 400 10 1 1 1\ncpu3 40 5 25 400 10 0 1 2\n\
        intr 12 3 4\nctxt 500\nbtime 1\nprocesses 7\nprocs_running 2\nprocs_blocked 1\n";

    #[test]
    fn this_kernel_is_read() {
        let reading = parse(THIS);
        assert_eq!(reading.each.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [0, 1]);
        let sum = reading.each.iter().map(|(_, t)| t.softirq).sum::<u64>();
        assert!(reading.all.softirq.abs_diff(sum) <= 2 && reading.switches > 0 && reading.running > 0);
    }

    #[test]
    fn an_old_kernel_is_read() {
        let reading = parse(OLD);
        let all = Ticks { user: 110, system: 50, idle: 800, iowait: 20, irq: 1, softirq: 2, steal: 3 };
        assert_eq!((reading.all, reading.each[1].0, reading.each.len()), (all, 3, 2));
        assert_eq!((reading.switches, reading.forks, reading.running, reading.blocked), (500, 7, 2, 1));
    }

    #[test]
    fn shares_add_up_to_one_and_a_cpu_that_came_later_waits_for_its_second_reading() {
        let before = parse(b"cpu 100 0 100 700 100\ncpu0 100 0 100 700 100\nctxt 10\n");
        let now = parse(b"cpu 130 0 110 750 90 0 20\ncpu0 130 0 110 750 90 0 20\ncpu1 1 1 1 1\nctxt 30\n");
        let sample = now.since(&before, 2.0);
        let Shares { user, system, irq, softirq, steal, iowait, idle } = sample.all;
        assert!((user + system + irq + softirq + steal + iowait + idle - 1.0).abs() < 1e-9);
        assert!((sample.all.busy() - 60.0 / 110.0).abs() < 1e-9, "iowait went back: it counts nothing");
        assert_eq!((sample.each.len(), sample.switches_per_s), (1, 10.0));
    }
}
