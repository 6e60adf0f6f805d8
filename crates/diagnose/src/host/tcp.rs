//! `/proc/net/snmp` and `/proc/net/netstat`: what TCP had to send twice, and connections that found no room.
//!
//! Pairs of lines, `Tcp: name name ...` and `Tcp: figure figure ...`: columns are found by name, because
//! every kernel adds some.

use super::text::{decimal, grown, lines, named, ratio, words};
use serde::{Deserialize, Serialize};

/// Counters of this network namespace since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub sent: u64,
    pub sent_again: u64,
    /// Connections now.
    pub established: u64,
    /// Times a timer ran out before an answer came.
    pub timeouts: u64,
    /// Connections dropped because the accept queue of a listener was full.
    pub listen_overflows: u64,
    /// Connection requests dropped by a listener, for that or another reason.
    pub listen_drops: u64,
}

/// TCP between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Segments sent a second.
    pub sent_per_s: f64,
    /// Segments sent again a second.
    pub sent_again_per_s: f64,
    /// Share of segments that were sent again, 0 to 1; `None` when nothing was sent.
    pub sent_again_share: Option<f64>,
    /// Connections at the later reading.
    pub established: u64,
    /// Timers that ran out, a second.
    pub timeouts_per_s: f64,
    /// Connections a second that found the accept queue full.
    pub listen_overflows_per_s: f64,
    /// Connection requests dropped by listeners, a second.
    pub listen_drops_per_s: f64,
}

/// Reads both files.
pub fn parse(snmp: &[u8], netstat: &[u8]) -> Reading {
    let mut reading = Reading::default();
    for bytes in [snmp, netstat] {
        each_figure(bytes, |name, figure| match name {
            (b"Tcp", b"OutSegs") => reading.sent = figure,
            (b"Tcp", b"RetransSegs") => reading.sent_again = figure,
            (b"Tcp", b"CurrEstab") => reading.established = figure,
            (b"TcpExt", b"TCPTimeouts") => reading.timeouts = figure,
            (b"TcpExt", b"ListenOverflows") => reading.listen_overflows = figure,
            (b"TcpExt", b"ListenDrops") => reading.listen_drops = figure,
            _ => {}
        });
    }
    reading
}

fn each_figure(bytes: &[u8], mut then: impl FnMut((&[u8], &[u8]), u64)) {
    let mut heading: Option<(&[u8], &[u8])> = None;
    for line in lines(bytes) {
        let Some((family, rest)) = named(line) else { continue };
        match heading.take() {
            Some((of, names)) if of == family => {
                for (name, word) in words(names).zip(words(rest)) {
                    if let Some(figure) = decimal(word) {
                        then((family, name), figure);
                    }
                }
            }
            _ => heading = Some((family, rest)),
        }
    }
}

impl Reading {
    /// What happened since `before`, `seconds` ago.
    pub fn since(&self, before: &Self, seconds: f64) -> Sample {
        let per_s = |of: fn(&Self) -> u64| grown(of(self), of(before)) as f64 / seconds;
        Sample {
            sent_per_s: per_s(|r| r.sent),
            sent_again_per_s: per_s(|r| r.sent_again),
            sent_again_share: ratio(grown(self.sent_again, before.sent_again), grown(self.sent, before.sent)),
            established: self.established,
            timeouts_per_s: per_s(|r| r.timeouts),
            listen_overflows_per_s: per_s(|r| r.listen_overflows),
            listen_drops_per_s: per_s(|r| r.listen_drops),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_on_this_kernel_and_on_an_old_one() {
        let here = parse(
            include_bytes!("../../tests/recorded/linux-6.18/net_snmp"),
            include_bytes!("../../tests/recorded/linux-6.18/net_netstat"),
        );
        assert!(here.sent > here.sent_again && here.sent_again > 0 && here.timeouts > 0);
        let old = parse(
            b"Ip: Forwarding DefaultTTL\nIp: 2 64\nTcp: MaxConn CurrEstab InSegs OutSegs RetransSegs InErrs\n\
              Tcp: -1 12 900 1000 20 0\n",
            b"TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPTimeouts\nTcpExt: 0 3 4 5\nIpExt: a\nIpExt: 1\n",
        );
        let expected = Reading {
            sent: 1000,
            sent_again: 20,
            established: 12,
            timeouts: 5,
            listen_overflows: 3,
            listen_drops: 4,
        };
        assert_eq!(old, expected);
    }
}
