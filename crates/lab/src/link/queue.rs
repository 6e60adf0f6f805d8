//! What is under way in one direction: bytes and, at last, an end, each with the time at which it arrives.
//! Pure.

use std::collections::VecDeque;

/// Bytes under way in one direction at most. At a round trip of 10 ms that is still 200 MB/s.
const LIMIT: usize = 1 << 20;
/// An empty queue keeps no more memory than this.
const KEEP: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// In order: everything before it was delivered.
    Finished,
    /// Broken off.
    Reset,
}

/// Bytes on their way, in order. Times are nanoseconds of the relay's clock.
#[derive(Debug, Default)]
pub(super) struct Delayed {
    bytes: Vec<u8>,
    /// Bytes before this were delivered.
    start: usize,
    /// (when it arrives, how many bytes), oldest first.
    chunks: VecDeque<(u64, usize)>,
    end: Option<(u64, End)>,
    latest: u64,
}

impl Delayed {
    /// Whether more may be read.
    pub(super) fn has_room(&self) -> bool {
        self.end.is_none() && self.bytes.len() - self.start < LIMIT
    }

    /// Sends bytes off; they arrive at `at`, or with the latest before them.
    pub(super) fn push(&mut self, bytes: &[u8], at: u64) {
        self.latest = self.latest.max(at);
        self.bytes.extend_from_slice(bytes);
        match self.chunks.back_mut() {
            Some((when, length)) if *when == self.latest => *length += bytes.len(),
            _ => self.chunks.push_back((self.latest, bytes.len())),
        }
    }

    /// Sends the end off. The first end counts.
    pub(super) fn finish(&mut self, end: End, at: u64) {
        self.latest = self.latest.max(at);
        self.end.get_or_insert((self.latest, end));
    }

    /// Drops everything under way but an end.
    pub(super) fn discard(&mut self) {
        self.bytes = Vec::new();
        self.start = 0;
        self.chunks.clear();
    }

    /// The bytes that have arrived by `now`.
    pub(super) fn arrived(&self, now: u64) -> &[u8] {
        let length: usize =
            self.chunks.iter().take_while(|(at, _)| *at <= now).map(|(_, length)| length).sum();
        &self.bytes[self.start..self.start + length]
    }

    /// The first `count` bytes were delivered.
    pub(super) fn delivered(&mut self, mut count: usize) {
        self.start += count;
        while let Some((_, length)) = self.chunks.front_mut() {
            if *length > count {
                *length -= count;
                break;
            }
            count -= *length;
            self.chunks.pop_front();
        }
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(KEEP);
            self.start = 0;
        } else if self.start > LIMIT / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }

    /// The end, if it has arrived. An orderly end waits until nothing is left before it, a reset does not.
    pub(super) fn ended(&self, now: u64) -> Option<End> {
        let (at, end) = self.end?;
        (at <= now && (end == End::Reset || self.chunks.is_empty())).then_some(end)
    }

    /// When a reset arrives, if one is under way.
    pub(super) fn reset_at(&self) -> Option<u64> {
        self.end.filter(|(_, end)| *end == End::Reset).map(|(at, _)| at)
    }

    /// When something next arrives.
    pub(super) fn next(&self) -> Option<u64> {
        self.chunks.front().map(|(at, _)| *at).or(self.end.map(|(at, _)| at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_arrives_early_and_nothing_overtakes() {
        let mut queue = Delayed::default();
        queue.push(b"first", 100);
        queue.push(b"second", 50);
        queue.finish(End::Finished, 60);
        assert_eq!(queue.arrived(99), b"");
        assert_eq!(queue.arrived(100), b"firstsecond");
        assert_eq!(queue.ended(100), None);
        queue.delivered(11);
        assert_eq!(queue.ended(100), Some(End::Finished));
    }

    #[test]
    fn the_first_end_counts() {
        let mut queue = Delayed::default();
        queue.finish(End::Reset, 1);
        queue.finish(End::Finished, 2);
        assert_eq!(queue.ended(5), Some(End::Reset));
        assert!(!queue.has_room());
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out_in_order_however_it_is_cut(
            chunks in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..200), 0..1000_u64), 1..50),
            take in prop::collection::vec(1..300_usize, 1..20),
        ) {
            let mut queue = Delayed::default();
            let sent: Vec<u8> = chunks.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
            for (bytes, at) in &chunks {
                queue.push(bytes, *at);
            }
            let mut got = Vec::new();
            let mut cuts = take.iter().cycle();
            while queue.next().is_some() {
                let arrived = queue.arrived(1000);
                let count = arrived.len().min(*cuts.next().unwrap());
                got.extend_from_slice(&arrived[..count]);
                queue.delivered(count);
            }
            prop_assert_eq!(got, sent);
        }
    }
}
