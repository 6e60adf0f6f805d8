//! In order: the bytes of one direction from packets that may come twice, overlap or overtake each other.
//! Pure.

/// Bytes that may wait for those before them: what 10 Gbit/s carry while a lost packet is sent again over 0.8
/// ms.
const WAITING: usize = 1 << 20;

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct InOrder {
    /// The sequence number of the byte that comes next.
    next: u32,
    /// Bytes handed out.
    passed: u64,
    /// Packets that came too early, by distance from the first byte there ever was.
    early: Vec<(u32, Vec<u8>)>,
    waiting: usize,
}

/// Bytes are missing and will not come any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap;

impl InOrder {
    /// A direction whose first byte has this sequence number.
    pub(crate) fn from(first: u32) -> Self {
        Self { next: first, passed: 0, early: Vec::new(), waiting: 0 }
    }

    /// A packet came: hands out the bytes whose turn it is, each byte once.
    ///
    /// # Errors
    /// [`Gap`] once so much waits for missing bytes that they must have been lost.
    pub(crate) fn take(&mut self, seq: u32, bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), Gap> {
        if ahead(seq, self.next) > 0 {
            self.waiting += bytes.len();
            self.early.push((seq, bytes.to_vec()));
            return if self.waiting > WAITING { Err(Gap) } else { Ok(()) };
        }
        self.pass(seq, bytes, &mut each);
        while let Some(at) = self.early.iter().position(|(seq, _)| ahead(*seq, self.next) <= 0) {
            let (seq, bytes) = self.early.swap_remove(at);
            self.waiting -= bytes.len();
            self.pass(seq, &bytes, &mut each);
        }
        Ok(())
    }

    /// How many bytes were handed out.
    pub(crate) fn passed(&self) -> u64 {
        self.passed
    }

    /// Whether bytes wait for earlier ones.
    pub(crate) fn has_hole(&self) -> bool {
        !self.early.is_empty()
    }

    /// A packet that begins at or before the byte whose turn it is.
    fn pass(&mut self, seq: u32, bytes: &[u8], each: &mut impl FnMut(&[u8])) {
        let known = self.next.wrapping_sub(seq) as usize;
        if let Some(new) = bytes.get(known..).filter(|new| !new.is_empty()) {
            each(new);
            self.next = self.next.wrapping_add(new.len() as u32);
            self.passed += new.len() as u64;
        }
    }
}

/// How far `seq` is ahead of `of`, on the circle of sequence numbers.
fn ahead(seq: u32, of: u32) -> i32 {
    seq.wrapping_sub(of) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn heard(first: u32, packets: &[(usize, usize)], whole: &[u8]) -> (Vec<u8>, bool) {
        let mut in_order = InOrder::from(first);
        let mut heard: Vec<u8> = Vec::new();
        for (from, to) in packets {
            let seq = first.wrapping_add(*from as u32);
            in_order.take(seq, &whole[*from..*to], |bytes| heard.extend_from_slice(bytes)).unwrap();
        }
        assert_eq!(in_order.passed(), heard.len() as u64);
        (heard, in_order.has_hole())
    }

    proptest! {
        #[test]
        fn however_packets_overlap_repeat_and_overtake_each_byte_is_heard_once_and_in_turn(
            first in any::<u32>(), length in 1usize..400,
            mut packets in proptest::collection::vec((0usize..400, 1usize..80), 0..40),
            seed in any::<u64>()
        ) {
            let whole: Vec<u8> = (0..length).map(|n| (n as u64 ^ seed) as u8).collect();
            // Whatever came before, in the end every byte has been sent once more.
            packets.iter_mut().for_each(|(from, size)| {
                *from %= length;
                *size = (*from + *size).min(length);
            });
            packets.extend((0..length).step_by(37).map(|at| (at, (at + 37).min(length))));
            prop_assert_eq!(heard(first, &packets, &whole), (whole, false));
        }
    }

    #[test]
    fn the_circle_of_numbers_closes_without_a_seam() {
        let whole: Vec<u8> = (0..100).collect();
        let packets = [(0, 30), (60, 100), (20, 60)];
        assert_eq!(heard(u32::MAX - 40, &packets, &whole), (whole.clone(), false));
        assert_eq!(heard(u32::MAX - 40, &packets[..2], &whole), (whole[..30].to_vec(), true));
    }

    #[test]
    fn bytes_that_never_come_are_a_gap() {
        let mut in_order = InOrder::from(0);
        let packet = vec![0; 1 << 17];
        let mut results = (1..=9u32).map(|n| in_order.take(n << 17, &packet, |_| panic!("out of turn")));
        assert!(results.any(|result| result == Err(Gap)));
    }
}
