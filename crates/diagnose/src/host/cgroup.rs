//! A cgroup (version 2): the limits that a container or service lives under, and how often it met them.
//! `cpu.stat`, `memory.current`, `memory.max`, `memory.events`; its pressure files are read as the host's.

use super::text::{decimal, grown, lines, words};
use serde::{Deserialize, Serialize};

/// What the files say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Microseconds of CPU used.
    pub used_us: u64,
    /// Microseconds in which it was held back by its quota.
    pub throttled_us: u64,
    /// Bytes charged to it now.
    pub memory: u64,
    /// How many it may have; `None`: no limit.
    pub memory_limit: Option<u64>,
    /// Times it met its memory limit.
    pub memory_met: u64,
}

/// Between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// CPUs used on average.
    pub cpus: f64,
    /// Seconds of being held back by the quota, a second: may exceed 1 with several threads.
    pub throttled: f64,
    /// Bytes charged to it.
    pub memory: u64,
    /// How many it may have.
    pub memory_limit: Option<u64>,
    /// Times a second that it met its memory limit.
    pub memory_met_per_s: f64,
}

/// Reads the four files; absent ones are empty.
pub fn parse(cpu_stat: &[u8], current: &[u8], max: &[u8], events: &[u8]) -> Reading {
    let first = |bytes| words(bytes).next().and_then(decimal);
    Reading {
        used_us: figure(cpu_stat, b"usage_usec"),
        throttled_us: figure(cpu_stat, b"throttled_usec"),
        memory: first(current).unwrap_or(0),
        memory_limit: first(max),
        memory_met: figure(events, b"max"),
    }
}

fn figure(bytes: &[u8], wanted: &[u8]) -> u64 {
    lines(bytes)
        .find_map(|line| {
            let mut words = words(line);
            (words.next() == Some(wanted)).then(|| words.next().and_then(decimal)).flatten()
        })
        .unwrap_or(0)
}

impl Reading {
    /// What happened since `before`, `seconds` ago.
    pub fn since(&self, before: &Self, seconds: f64) -> Sample {
        let per_s = |now, before| grown(now, before) as f64 / seconds;
        Sample {
            cpus: per_s(self.used_us, before.used_us) / 1e6,
            throttled: per_s(self.throttled_us, before.throttled_us) / 1e6,
            memory: self.memory,
            memory_limit: self.memory_limit,
            memory_met_per_s: per_s(self.memory_met, before.memory_met),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_their_absence_are_told_apart() {
        let cpu = b"usage_usec 5000000\nuser_usec 1\nnr_throttled 3\nthrottled_usec 250000\n";
        let reading = parse(cpu, b"1048576\n", b"2097152\n", b"low 0\nhigh 0\nmax 7\noom 1\n");
        assert_eq!(
            (reading.throttled_us, reading.memory_limit, reading.memory_met),
            (250_000, Some(2_097_152), 7)
        );
        assert_eq!(parse(b"", b"", b"max\n", b"").memory_limit, None);
        assert_eq!(reading.since(&Reading::default(), 2.0).cpus, 2.5);
    }
}
