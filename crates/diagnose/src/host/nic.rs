//! `/proc/net/dev`: bytes, packets, drops and errors of each network interface.
//!
//! A line is `eth0: ` and 8 figures received, 8 sent; kernels before 2.6.39 write no blank after the colon.
//! Drops of the backlog between the driver and TCP do not show here; they are in `softnet`.

use super::text::{decimal, grown, lines, named, text, words};
use serde::{Deserialize, Serialize};

/// One direction of one interface since it came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub bytes: u64,
    pub packets: u64,
    /// Packets that were broken.
    pub errors: u64,
    /// Packets that found no room.
    pub dropped: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// `eth0`.
    pub name: String,
    pub received: Totals,
    pub sent: Totals,
}

pub type Reading = Vec<Interface>;

/// One direction between two readings, a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Packets a second.
    pub packets_per_s: f64,
    /// Broken packets a second.
    pub errors_per_s: f64,
    /// Packets without room a second.
    pub dropped_per_s: f64,
}

/// One interface between two readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub name: String,
    pub received: Traffic,
    pub sent: Traffic,
    /// What it can carry each way, bytes a second, as the driver says; `None` where it does not (most virtual
    /// ones).
    pub link_bytes_per_s: Option<f64>,
}

/// Reads `/proc/net/dev`.
pub fn parse(bytes: &[u8]) -> Reading {
    lines(bytes).filter_map(interface).collect()
}

/// Reads `/sys/class/net/<name>/speed`: megabits a second, -1 where unknown.
pub fn parse_speed(bytes: &[u8]) -> Option<f64> {
    let megabits = words(bytes).next().and_then(decimal).filter(|speed| (1..10_000_000).contains(speed))?;
    Some(megabits as f64 * 1e6 / 8.0)
}

fn interface(line: &[u8]) -> Option<Interface> {
    let (name, rest) = named(line)?;
    let mut figures = [0; 16];
    let mut count = 0;
    for (figure, word) in figures.iter_mut().zip(words(rest)) {
        *figure = decimal(word)?;
        count += 1;
    }
    let moved = |at: usize| Totals {
        bytes: figures[at],
        packets: figures[at + 1],
        errors: figures[at + 2],
        dropped: figures[at + 3],
    };
    (count == 16).then(|| Interface { name: text(name), received: moved(0), sent: moved(8) })
}

/// What each interface carried since `before`, `seconds` ago.
pub fn since(now: &Reading, before: &Reading, seconds: f64) -> Vec<Sample> {
    let one = |now: &Interface| {
        let before = before.iter().find(|b| b.name == now.name)?;
        Some(Sample {
            name: now.name.clone(),
            received: now.received.since(before.received, seconds),
            sent: now.sent.since(before.sent, seconds),
            link_bytes_per_s: None,
        })
    };
    now.iter().filter_map(one).collect()
}

impl Totals {
    fn since(self, before: Self, seconds: f64) -> Traffic {
        let per_s = |now, before| grown(now, before) as f64 / seconds;
        Traffic {
            bytes_per_s: per_s(self.bytes, before.bytes),
            packets_per_s: per_s(self.packets, before.packets),
            errors_per_s: per_s(self.errors, before.errors),
            dropped_per_s: per_s(self.dropped, before.dropped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_and_an_old_one_without_a_blank_are_read() {
        let here = parse(include_bytes!("../../tests/recorded/linux-6.18/net_dev"));
        assert_eq!(here.iter().map(|i| &*i.name).collect::<Vec<_>>(), ["lo", "ifb0", "ifb1", "eth0"]);
        assert_eq!(here[0].received, here[0].sent);
        let old = parse(
            b"Inter-|   Receive  |  Transmit\n face |bytes packets errs\n\
              eth0:3534461631 91171 1 2 0 0 0 0 5195293 61152 3 4 0 0 0 0\n",
        );
        assert_eq!(old[0].received, Totals { bytes: 3_534_461_631, packets: 91_171, errors: 1, dropped: 2 });
        assert_eq!((old[0].sent.errors, old[0].sent.dropped), (3, 4));
    }

    #[test]
    fn speed_is_megabits_or_unknown() {
        assert_eq!(parse_speed(b"10000\n"), Some(1.25e9));
        assert_eq!(
            (parse_speed(b"-1\n"), parse_speed(b""), parse_speed(b"4294967295\n")),
            (None, None, None)
        );
    }
}
