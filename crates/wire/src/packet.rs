//! Packets: a header of four bytes (length in three, sequence id in one), then the payload.
//!
//! A payload of 16 MiB - 1 or more is cut: every piece but the last is exactly [`MAX_PIECE`] bytes long, has
//! a header of its own with the next sequence id, and a last piece shorter than that (maybe empty) ends it.
//! [`Framer`] follows this over a byte stream that arrives in arbitrary chunks. It never holds a payload:
//! only the first [`Framer::PREFIX`] bytes of a packet that a chunk has cut in two. Everything else is lent
//! from the chunk, and what nobody asks for costs nothing.

/// Bytes of a header.
pub const HEADER: usize = 4;

/// The longest piece of a payload.
pub const MAX_PIECE: usize = 0xff_ffff;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of payload that follow, 0 to [`MAX_PIECE`].
    pub length: u32,
    /// Counts the packets of an exchange, both directions, from 0; wraps.
    pub sequence: u8,
}

impl Header {
    /// Reads a header.
    pub const fn parse(bytes: [u8; HEADER]) -> Self {
        let [a, b, c, sequence] = bytes;
        Self { length: u32::from_le_bytes([a, b, c, 0]), sequence }
    }

    /// Writes a header. Lengths above [`MAX_PIECE`] lose their high byte: cut with [`write()`] instead.
    pub const fn encode(self) -> [u8; HEADER] {
        let [a, b, c, _] = self.length.to_le_bytes();
        [a, b, c, self.sequence]
    }
}

/// Appends `payload` to `out` with its header or headers, and moves `sequence` past it.
pub fn write(out: &mut Vec<u8>, sequence: &mut u8, payload: &[u8]) {
    let mut rest = payload;
    loop {
        let (piece, after) = rest.split_at(rest.len().min(MAX_PIECE));
        out.extend_from_slice(&Header { length: piece.len() as u32, sequence: *sequence }.encode());
        out.extend_from_slice(piece);
        *sequence = sequence.wrapping_add(1);
        rest = after;
        if piece.len() < MAX_PIECE {
            return;
        }
    }
}

/// A packet that lies whole in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its sequence id.
    pub sequence: u8,
    /// Its payload.
    pub payload: &'a [u8],
    /// Bytes of the buffer that it takes, header included.
    pub used: usize,
}

/// The first packet of `buffer`, if it is there whole. Payloads of 16 MiB and more come as the pieces they
/// are.
pub fn first(buffer: &[u8]) -> Option<Packet<'_>> {
    let (head, rest) = buffer.split_first_chunk::<HEADER>()?;
    let header = Header::parse(*head);
    let payload = rest.get(..header.length as usize)?;
    Some(Packet { sequence: header.sequence, payload, used: HEADER + payload.len() })
}

/// What [`Framer::next`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A packet starts. Comes once a packet, as soon as its first [`Framer::PREFIX`] bytes or all of it are
    /// there.
    Head(Head<'a>),
    /// More payload of a packet whose head was not whole.
    Body(&'a [u8]),
    /// The end of a packet whose head was not whole.
    Tail {
        /// The sequence id of its last piece.
        sequence: u8,
    },
    /// A continuation has another sequence id than the next: the stream makes no sense from here on.
    Broken {
        /// The id that should have come.
        expected: u8,
        /// The id that came.
        got: u8,
    },
}

/// The start of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// The sequence id of its first piece.
    pub sequence: u8,
    /// Length of its first piece; [`MAX_PIECE`] means that others follow.
    pub length: u32,
    /// Its payload, or the first part of it.
    pub prefix: &'a [u8],
    /// Is `prefix` all of it? Then no body and no tail follow.
    pub whole: bool,
}

/// Cuts a byte stream into packets, however it is split. See the module's text.
#[derive(Debug, Default)]
pub struct Framer {
    /// Header bytes that came so far, when a chunk ended inside a header.
    header: [u8; HEADER],
    header_have: u8,
    /// Sequence id of the piece we are in.
    sequence: u8,
    /// Sequence id and length of the packet's first piece.
    first: (u8, u32),
    /// Payload bytes of the current piece that are still to come.
    left: u32,
    /// The current piece is full, so another follows.
    continues: bool,
    state: FramerState,
    prefix: Vec<u8>,
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum FramerState {
    /// Between two packets.
    #[default]
    Between,
    /// In a packet, its head not told yet: `prefix` grows.
    Head,
    /// In a packet, its head told.
    Body,
}

impl Framer {
    /// At least this much of every packet is shown in its [`Head`].
    pub const PREFIX: usize = 512;

    /// A framer at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Is everything that came part of a complete packet?
    pub const fn is_between(&self) -> bool {
        matches!(self.state, FramerState::Between) && self.header_have == 0
    }

    /// Has the start of a packet come, and not yet enough of it for its head?
    pub const fn is_before_head(&self) -> bool {
        match self.state {
            FramerState::Between => self.header_have > 0,
            FramerState::Head => true,
            FramerState::Body => false,
        }
    }

    /// The next piece of the stream, taken from the front of `bytes`; `None` when `bytes` is used up.
    #[inline]
    pub fn next<'a, 'b: 'a>(&'a mut self, bytes: &mut &'b [u8]) -> Option<Piece<'a>> {
        if self.is_between()
            && let Some(whole) = first(bytes).filter(|packet| packet.payload.len() < MAX_PIECE)
        {
            *bytes = &bytes[whole.used..];
            let length = whole.payload.len() as u32;
            return Some(Piece::Head(Head {
                sequence: whole.sequence,
                length,
                prefix: whole.payload,
                whole: true,
            }));
        }
        self.next_cut(bytes)
    }

    /// The slow path: the packet is not whole in this chunk, or is longer than a piece.
    fn next_cut<'a, 'b: 'a>(&'a mut self, bytes: &mut &'b [u8]) -> Option<Piece<'a>> {
        loop {
            if self.left == 0
                && !self.piece_is_over()
                && let Some(broken) = self.take_header(bytes)?
            {
                return Some(broken);
            }
            let taken = take(bytes, self.left as usize, self.room());
            self.left -= taken.len() as u32;
            let over = self.left == 0 && !self.continues;
            match self.state {
                FramerState::Body => {
                    if !taken.is_empty() {
                        return Some(Piece::Body(taken));
                    }
                    if over {
                        self.state = FramerState::Between;
                        self.prefix.clear();
                        return Some(Piece::Tail { sequence: self.sequence });
                    }
                }
                FramerState::Head | FramerState::Between => {
                    self.prefix.extend_from_slice(taken);
                    if over || self.prefix.len() == Self::PREFIX {
                        return Some(self.head(over));
                    }
                }
            }
            if bytes.is_empty() && !(self.state == FramerState::Body && over) {
                return None;
            }
        }
    }

    fn head(&mut self, whole: bool) -> Piece<'_> {
        self.state = if whole { FramerState::Between } else { FramerState::Body };
        let (sequence, length) = self.first;
        Piece::Head(Head { sequence, length, prefix: &self.prefix, whole })
    }

    /// In a packet whose last byte has come, but whose tail has not been told?
    fn piece_is_over(&self) -> bool {
        self.state == FramerState::Body && !self.continues && self.header_have == 0
    }

    /// How much of the payload may be taken at once.
    fn room(&self) -> usize {
        if self.state == FramerState::Body { usize::MAX } else { Self::PREFIX - self.prefix.len() }
    }

    /// Completes a header; `None` when `bytes` does not hold its end.
    fn take_header(&mut self, bytes: &mut &[u8]) -> Option<Option<Piece<'static>>> {
        let have = usize::from(self.header_have);
        let taken = take(bytes, HEADER - have, usize::MAX);
        self.header[have..have + taken.len()].copy_from_slice(taken);
        self.header_have += taken.len() as u8;
        if usize::from(self.header_have) < HEADER {
            return None;
        }
        self.header_have = 0;
        let Header { length, sequence } = Header::parse(self.header);
        let expected = self.sequence.wrapping_add(1);
        if self.state == FramerState::Between {
            self.prefix.clear();
            self.first = (sequence, length);
            self.state = FramerState::Head;
        } else if sequence != expected {
            return Some(Some(Piece::Broken { expected, got: sequence }));
        }
        self.sequence = sequence;
        self.left = length;
        self.continues = length as usize == MAX_PIECE;
        Some(None)
    }
}

/// Takes at most `want` and at most `room` bytes from the front of `bytes`.
fn take<'a>(bytes: &mut &'a [u8], want: usize, room: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(bytes.len().min(want).min(room));
    *bytes = rest;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every packet as (sequence, whole payload, last sequence), fed in chunks of `step` bytes.
    fn packets(stream: &[u8], step: usize) -> Vec<(u8, Vec<u8>, u8)> {
        let mut framer = Framer::new();
        let mut found = Vec::new();
        let mut open = None;
        for mut chunk in stream.chunks(step) {
            while let Some(piece) = framer.next(&mut chunk) {
                match piece {
                    Piece::Head(head) if head.whole => {
                        found.push((head.sequence, head.prefix.to_vec(), head.sequence));
                    }
                    Piece::Head(head) => open = Some((head.sequence, head.prefix.to_vec())),
                    Piece::Body(more) => open.as_mut().expect("a head came before").1.extend_from_slice(more),
                    Piece::Tail { sequence } => {
                        let (first, payload) = open.take().expect("a head came before");
                        found.push((first, payload, sequence));
                    }
                    Piece::Broken { expected, got } => panic!("expected {expected}, got {got}"),
                }
            }
        }
        assert!(framer.is_between());
        found
    }

    #[test]
    fn packets_are_the_same_however_the_stream_is_split() {
        let mut stream = Vec::new();
        let mut sequence = 254;
        let payloads: Vec<Vec<u8>> =
            [0, 1, 5, 511, 512, 513, 3000].iter().map(|n| vec![*n as u8; *n]).collect();
        for payload in &payloads {
            write(&mut stream, &mut sequence, payload);
        }
        for step in [1, 2, 3, 4, 5, 7, 64, 511, 512, 513, 600, stream.len()] {
            let found = packets(&stream, step);
            let expected: Vec<_> = payloads
                .iter()
                .enumerate()
                .map(|(i, p)| (254u8.wrapping_add(i as u8), p.clone(), 254u8.wrapping_add(i as u8)))
                .collect();
            assert_eq!(found, expected, "in steps of {step}");
        }
    }

    #[test]
    fn a_payload_of_sixteen_mebibytes_is_one_packet_of_two_pieces() {
        for length in [MAX_PIECE, MAX_PIECE + 1] {
            let mut stream = Vec::new();
            let mut sequence = 3;
            write(&mut stream, &mut sequence, &vec![7; length]);
            write(&mut stream, &mut sequence, b"next");
            assert_eq!(sequence, 6);
            for step in [65_536, stream.len()] {
                let found = packets(&stream, step);
                assert_eq!(found.len(), 2);
                assert_eq!((found[0].0, found[0].1.len(), found[0].2), (3, length, 4));
                assert_eq!(found[1], (5, b"next".to_vec(), 5));
            }
        }
    }

    #[test]
    fn a_continuation_out_of_sequence_is_told() {
        let mut stream = Vec::new();
        write(&mut stream, &mut 3, &vec![7; MAX_PIECE]);
        let last = stream.len() - 1;
        stream[last] = 9;
        let mut framer = Framer::new();
        let mut rest = stream.as_slice();
        let mut broken = None;
        while let Some(piece) = framer.next(&mut rest) {
            if let Piece::Broken { expected, got } = piece {
                broken = Some((expected, got));
            }
        }
        assert_eq!(broken, Some((4, 9)));
    }

    #[test]
    fn half_a_header_is_not_between_packets() {
        let mut framer = Framer::new();
        assert_eq!(framer.next(&mut [5u8, 0].as_slice()), None);
        assert!(!framer.is_between());
    }
}
