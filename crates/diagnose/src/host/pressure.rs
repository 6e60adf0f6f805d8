//! `/proc/pressure/{cpu,memory,io}` and the same files of a cgroup: the share of time in which somebody
//! (`some`) or everybody (`full`) who could work waited for that resource. From Linux 4.20; `full` of the CPU
//! from 5.13.
//!
//! The shares are worked out from the totals over our own window, so that they are exact for it; the kernel's
//! `avg10` to `avg300` decay and lag. `io` alone is no evidence: a thread that waits in an io_uring for
//! nothing counts (MariaDB's own does), and so an idle server can show 100 %.

use super::text::{decimal, grown, lines, words};
use serde::{Deserialize, Serialize};

/// Totals since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Microseconds in which somebody waited.
    pub some_us: u64,
    /// Microseconds in which nobody could work.
    pub full_us: u64,
}

/// Shares of time between two readings, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Somebody waited.
    pub some: f64,
    /// Nobody could work.
    pub full: f64,
}

/// Reads one pressure file; `None` when it holds no total (an empty file, `Operation not supported` as text).
pub fn parse(bytes: &[u8]) -> Option<Reading> {
    let mut reading = None;
    for line in lines(bytes) {
        let mut words = words(line);
        let kind = words.next();
        let total = words.find_map(|word| decimal(word.strip_prefix(b"total=")?));
        let Some(total) = total else { continue };
        let into = reading.get_or_insert(Reading::default());
        match kind {
            Some(b"some") => into.some_us = total,
            Some(b"full") => into.full_us = total,
            _ => {}
        }
    }
    reading
}

impl Reading {
    /// What happened since `before`, `seconds` ago.
    pub fn since(&self, before: &Self, seconds: f64) -> Sample {
        let share = |now, before| (grown(now, before) as f64 / 1e6 / seconds).min(1.0);
        Sample { some: share(self.some_us, before.some_us), full: share(self.full_us, before.full_us) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_one_line_and_with_two_are_read() {
        let this = parse(include_bytes!("../../tests/recorded/linux-6.18/pressure_cpu")).unwrap();
        assert!(this.some_us > 0);
        let old = parse(b"some avg10=0.00 avg60=0.12 avg300=0.50 total=150000\n");
        assert_eq!(old, Some(Reading { some_us: 150_000, full_us: 0 }));
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn the_share_is_of_our_own_window() {
        let before = Reading { some_us: 1_000_000, full_us: 0 };
        let now = Reading { some_us: 1_500_000, full_us: 100_000 };
        let sample = now.since(&before, 2.0);
        assert!((sample.some - 0.25).abs() < 1e-9 && (sample.full - 0.05).abs() < 1e-9);
    }
}
