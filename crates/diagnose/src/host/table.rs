//! Tables of the kernel that can be full: neighbours (`/proc/net/stat/arp_cache`, `ndisc_cache`) and tracked
//! connections (`/proc/net/stat/nf_conntrack`, `/proc/sys/net/netfilter/nf_conntrack_{count,max}`).
//!
//! The `stat` files have a line of names and then a line a CPU, hexadecimal. `entries` is the same on each
//! line and is taken once; counters are added up. A full table refuses silently: packets to addresses that
//! are not in it vanish, new connections hang.

use super::text::{decimal, grown, hexadecimal, lines, words};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub entries: u64,
    /// How many fit; 0 when not known.
    pub limit: u64,
    /// Entries refused because it was full, since boot.
    pub refused: u64,
}

/// One table between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Entries at the later reading.
    pub entries: u64,
    /// How many fit; 0 when not known.
    pub limit: u64,
    /// Entries refused a second because it was full.
    pub refused_per_s: f64,
}

/// Reads `/proc/net/stat/arp_cache` or `ndisc_cache` and the limit (`gc_thresh3`).
pub fn parse_neighbours(stat: &[u8], limit: &[u8]) -> Reading {
    // `table_fulls` came with 4.18; before, only how full it is can be seen.
    let (entries, refused) = columns(stat, &[b"table_fulls"]);
    Reading { entries, limit: first(limit), refused }
}

/// Reads `/proc/net/stat/nf_conntrack`, the count and the limit.
pub fn parse_conntrack(stat: &[u8], count: &[u8], limit: &[u8]) -> Reading {
    let (_, refused) = columns(stat, &[b"drop", b"early_drop"]);
    Reading { entries: first(count), limit: first(limit), refused }
}

/// `entries` of the first line, and the sum over all lines of these columns.
fn columns(stat: &[u8], refused: &[&[u8]]) -> (u64, u64) {
    let mut all = lines(stat);
    let names: Vec<&[u8]> = words(all.next().unwrap_or_default()).collect();
    let (mut entries, mut sum) = (None, 0u64);
    for line in all {
        for (name, word) in names.iter().zip(words(line)) {
            let Some(figure) = hexadecimal(word) else { continue };
            if *name == b"entries" && entries.is_none() {
                entries = Some(figure);
            } else if refused.contains(name) {
                sum = sum.saturating_add(figure);
            }
        }
    }
    (entries.unwrap_or(0), sum)
}

fn first(bytes: &[u8]) -> u64 {
    words(bytes).next().and_then(decimal).unwrap_or(0)
}

impl Reading {
    /// What happened since `before`, `seconds` ago.
    pub fn since(&self, before: &Self, seconds: f64) -> Sample {
        Sample {
            entries: self.entries,
            limit: self.limit,
            refused_per_s: grown(self.refused, before.refused) as f64 / seconds,
        }
    }
}

impl Sample {
    /// How full it is, 0 to 1 and beyond; `None` without a limit.
    pub fn fill(&self) -> Option<f64> {
        (self.limit > 0).then(|| self.entries as f64 / self.limit as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_counted_once_and_refusals_added_up() {
        let here = parse_neighbours(include_bytes!("../../tests/recorded/linux-6.18/arp_cache"), b"1024\n");
        assert_eq!(here, Reading { entries: 2, limit: 1024, refused: 0 });
        let full = b"entries allocs table_fulls\n00000400 1 0000000a\n00000400 1 00000005\n";
        assert_eq!(parse_neighbours(full, b"1024"), Reading { entries: 1024, limit: 1024, refused: 15 });
        let old = b"entries  allocs destroys\n00000007 00000001 00000000\n";
        assert_eq!(parse_neighbours(old, b""), Reading { entries: 7, limit: 0, refused: 0 });
    }

    #[test]
    fn tracked_connections_have_their_own_count() {
        let stat = include_bytes!("../../tests/recorded/linux-6.18/nf_conntrack");
        assert_eq!(
            parse_conntrack(stat, b"0\n", b"262144\n"),
            Reading { entries: 0, limit: 262_144, refused: 0 }
        );
        let stat = b"entries insert_failed drop early_drop\n10 0 a 1\n10 0 1 0\n";
        let full = parse_conntrack(stat, b"65536\n", b"65536\n");
        assert_eq!(full.refused, 12);
        assert_eq!(full.since(&Reading::default(), 2.0).fill(), Some(1.0));
    }
}
