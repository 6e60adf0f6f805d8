//! What a ring says has happened, to whose socket, and how a completion tells which request it belongs to.

use crate::chunk::Chunk;
use rustix::io::Errno;

/// A socket of the ring, until it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub(crate) u32);

/// What has happened. `owner` is what the socket was added with.
#[derive(Debug)]
pub enum Event {
    /// A receive has ended.
    Received { owner: u32, incoming: Incoming },
    /// All has been taken by the kernel that was being sent when [`Ring::is_sending`] was last seen to be
    /// true.
    Sent { owner: u32 },
    /// A send has failed: the peer has left.
    Broken { owner: u32 },
    /// [`Waker::wake`](crate::Waker::wake) was called.
    Woken,
}

/// What a receive brought.
#[derive(Debug)]
pub enum Incoming {
    /// Bytes; `more` when others wait behind them.
    Bytes {
        /// The bytes, at least one.
        chunk: Chunk,
        /// Whether the next receive need not wait.
        more: bool,
    },
    /// The peer has closed its half.
    End,
    /// The connection is broken, or could not be made.
    Broken(Errno),
}

/// What a completion belongs to. A request's tag holds the kind in 2 bits, above them the socket's number in
/// 32, above them the generation in 30: numbers of sockets come again, and one socket sends often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Receive,
    AtOnce,
    Patient,
    Wake,
}

/// Generations until they begin anew.
pub(crate) const GENERATIONS: u32 = 1 << 30;

impl Kind {
    /// What a request carries, so that its completion can be told: the kind and the socket's number.
    pub(crate) fn tag(self, number: u32) -> u64 {
        self.tag_of(number, 0)
    }

    /// The same, with which of the socket's requests it is. Of the generation 30 bits count.
    pub(crate) fn tag_of(self, number: u32, generation: u32) -> u64 {
        u64::from(generation) << 34 | u64::from(number) << 2 | self as u64
    }

    /// The generation that a completion carries.
    pub(crate) fn generation(tag: u64) -> u32 {
        (tag >> 34) as u32
    }

    /// The number of the socket that a completion carries.
    pub(crate) fn number(tag: u64) -> u32 {
        (tag >> 2) as u32
    }

    /// The kind that a completion carries.
    pub(crate) fn of(tag: u64) -> Self {
        match tag & 3 {
            0 => Self::Receive,
            1 => Self::AtOnce,
            2 => Self::Patient,
            _ => Self::Wake,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_says_of_which_kind_socket_and_generation_it_is() {
        for (number, generation) in [(0, 0), (7, 1), (u32::MAX, GENERATIONS - 1)] {
            let tag = Kind::AtOnce.tag_of(number, generation);
            assert_eq!(
                (Kind::of(tag), Kind::number(tag), Kind::generation(tag)),
                (Kind::AtOnce, number, generation)
            );
        }
    }
}
