//! `/proc/net/softnet_stat`: packets that each CPU took from its backlog, dropped because it was full
//! (`net.core.netdev_max_backlog`), and times it stopped with packets left (`net.core.netdev_budget`).
//!
//! Hexadecimal, a line a CPU that is online: 9 columns (2.6.32), 10 and 11 with receive steering and flow
//! limits (2.6.35, 3.11), 13 with the length of the backlog and the CPU's number (5.10, 5.14), 15 (6.4).
//! Before the number was there, the line's place is all there is. The counters have 32 bits.

use super::text::{grown_32, hexadecimal, lines, words};
use serde::{Deserialize, Serialize};

/// One CPU since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// The CPU's number (or the line's place on old kernels).
    pub cpu: u32,
    pub processed: u64,
    /// Packets dropped: the backlog was full.
    pub dropped: u64,
    /// Times it had to stop with packets left.
    pub squeezed: u64,
}

pub type Reading = Vec<Backlog>;

/// One CPU between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The CPU's number.
    pub cpu: u32,
    /// Packets a second.
    pub processed_per_s: f64,
    /// Packets dropped a second.
    pub dropped_per_s: f64,
    /// Times a second that it stopped with packets left.
    pub squeezed_per_s: f64,
}

/// Reads `/proc/net/softnet_stat`.
pub fn parse(bytes: &[u8]) -> Reading {
    lines(bytes).enumerate().filter_map(|(at, line)| backlog(at, line)).collect()
}

fn backlog(at: usize, line: &[u8]) -> Option<Backlog> {
    let mut columns = [None; 13];
    for (column, word) in columns.iter_mut().zip(words(line)) {
        *column = Some(hexadecimal(word)?);
    }
    let cpu = columns[12].and_then(|cpu| u32::try_from(cpu).ok()).or_else(|| u32::try_from(at).ok())?;
    Some(Backlog { cpu, processed: columns[0]?, dropped: columns[1]?, squeezed: columns[2]? })
}

/// What each CPU did since `before`, `seconds` ago.
pub fn since(now: &Reading, before: &Reading, seconds: f64) -> Vec<Sample> {
    let one = |now: &Backlog| {
        let before = before.iter().find(|b| b.cpu == now.cpu)?;
        let per_s = |now, before| grown_32(now, before) as f64 / seconds;
        Some(Sample {
            cpu: now.cpu,
            processed_per_s: per_s(now.processed, before.processed),
            dropped_per_s: per_s(now.dropped, before.dropped),
            squeezed_per_s: per_s(now.squeezed, before.squeezed),
        })
    };
    now.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_width_is_read() {
        let nine = b"0005d7c2 00000003 00000002 00000000 00000000 00000000 00000000 00000000 00000000\n";
        assert_eq!(parse(nine), [Backlog { cpu: 0, processed: 0x5d7c2, dropped: 3, squeezed: 2 }]);
        // The second CPU of this machine is offline: numbers come from column 13, not from the line.
        let thirteen = b"00000001 0 0 0 0 0 0 0 0 0 0 0 00000000\n00000002 0 0 0 0 0 0 0 0 0 0 0 00000002\n";
        assert_eq!(parse(thirteen).iter().map(|b| b.cpu).collect::<Vec<_>>(), [0, 2]);
        let here = parse(include_bytes!("../../tests/recorded/linux-6.18/net_softnet_stat"));
        assert_eq!((here.len(), here[1].cpu, here[0].dropped), (2, 1, 0));
        assert!(parse(b"not hexadecimal\n").is_empty());
    }

    #[test]
    fn a_counter_of_32_bits_may_wrap() {
        let at = |processed| vec![Backlog { cpu: 0, processed, ..Backlog::default() }];
        assert_eq!(since(&at(10), &at(0xffff_fff0), 1.0)[0].processed_per_s, 26.0);
    }
}
