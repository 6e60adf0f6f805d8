//! Mirror: what mirrored sessions do, as the kernel tells it.
//!
//! Of these sessions the router sees every byte without being in their way. Pieces are packets: they may come
//! twice or out of order, and what the ring has no room for is lost. To put them in order is up to the
//! reader.

use crate::bypass::Bypass;
use crate::bytes::{u32_at, u64_at};
use crate::error::Error;
use crate::layout::Map;
use crate::maps::sessions;
use crate::sys::{MapFd, Ring};
use rustix::event::{Timespec, epoll};
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Bytes before those that a piece carries.
const PIECE_HEAD: usize = 32;

/// The user's end of it. There must be one reader.
#[derive(Debug)]
pub struct Mirror {
    ring: Ring,
    /// Woken, once, when the ring fills; that it has anything in it does not count.
    waker: OwnedFd,
    mirrored: MapFd,
    sessions: MapFd,
    missed: MapFd,
    record: Vec<u8>,
}

/// Something that a mirrored session did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The kernel's name of its socket.
    pub cookie: u64,
    /// When, CLOCK_MONOTONIC in ns.
    pub at: u64,
    pub kind: PieceKind<'a>,
}

/// What a mirrored session did. Sequence numbers are those of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceKind<'a> {
    /// It was opened.
    Begins {
        /// The number of the listener and server.
        target: u32,
        /// Of the first byte that the client will send.
        client: u32,
        /// Of the first byte that the server will send.
        server: u32,
    },
    /// The client's host sent these, for the first time or once more.
    FromClient {
        /// Of the first.
        seq: u32,
        bytes: &'a [u8],
    },
    /// These came to the client's host, maybe not in order.
    FromServer {
        /// Of the first.
        seq: u32,
        bytes: &'a [u8],
    },
    /// It is over.
    Ends,
}

impl Mirror {
    /// What mirrored sessions do from now on.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn open(bypass: &Bypass) -> Result<Self, Error> {
        let open = || {
            let ring = bypass.map(Map::Pieces).ring()?;
            let waker = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let once = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&waker, &ring, epoll::EventData::new_u64(0), once)?;
            let clone = |map| bypass.map(map).try_clone();
            Ok(Self {
                ring,
                waker,
                mirrored: clone(Map::Mirrored)?,
                sessions: clone(Map::Sessions)?,
                missed: clone(Map::Missed)?,
                record: Vec::new(),
            })
        };
        open().map_err(|e: std::io::Error| Error::kernel("listen to its programs", e))
    }

    /// Waits for `limit`, or until the ring fills.
    pub fn wait(&self, limit: Duration) {
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
        // Interrupted is as good as over: whoever waits reads now.
        let _ = epoll::wait(&self.waker, &mut events[..], Some(&limit));
    }

    /// Hands out what came since the last time, oldest first. Returns how many bytes of the ring it took.
    pub fn read(&mut self, mut each: impl FnMut(Piece<'_>)) -> usize {
        self.ring.read(&mut self.record, |record| {
            // What makes no sense was written by nobody we know.
            if let Some(piece) = piece(record) {
                each(piece);
            }
        })
    }

    /// No more is to be told of this session but its end.
    pub fn stop(&self, cookie: u64) {
        // One that is over is not there any more.
        let _ = self.mirrored.delete(&cookie.to_ne_bytes());
    }

    /// Bypassing sessions that are not over.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn live(&self) -> Result<HashSet<u64>, Error> {
        let all = sessions(&self.sessions).map_err(|e| Error::kernel("read its own maps", e))?;
        Ok(all.iter().map(|session| session.cookie).collect())
    }

    /// How many pieces the ring had no room for, ever.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn missed(&self) -> Result<u64, Error> {
        let found =
            self.missed.lookup(&0u32.to_ne_bytes()).map_err(|e| Error::kernel("read its own maps", e))?;
        Ok(found.map_or(0, |bytes| u64_at(&bytes, 0)))
    }
}

/// A piece as the kernel tells it; `None` for one that makes no sense.
pub(crate) fn piece(bytes: &[u8]) -> Option<Piece<'_>> {
    let (head, body) = bytes.split_at_checked(PIECE_HEAD)?;
    let (seq, length) = (u32_at(head, 20), u32_at(head, 28));
    let body = |length: u32| body.get(..length as usize);
    let kind = match u32_at(head, 16) {
        0 => PieceKind::Begins { target: length, client: seq, server: u32_at(head, 24) },
        1 => PieceKind::FromClient { seq, bytes: body(length)? },
        2 => PieceKind::FromServer { seq, bytes: body(length)? },
        3 => PieceKind::Ends,
        _ => return None,
    };
    Some(Piece { cookie: u64_at(head, 0), at: u64_at(head, 8), kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_has_its_bytes_and_one_that_is_cut_short_is_none() {
        let mut bytes = Vec::new();
        bytes.extend(7u64.to_ne_bytes());
        bytes.extend(8u64.to_ne_bytes());
        for value in [1u32, 100, 0, 3] {
            bytes.extend(value.to_ne_bytes());
        }
        bytes.extend(b"abc, and what the record has beyond");
        let kind = PieceKind::FromClient { seq: 100, bytes: b"abc" };
        assert_eq!(piece(&bytes), Some(Piece { cookie: 7, at: 8, kind }));
        assert_eq!(piece(&bytes[..34]), None);
        assert_eq!(piece(&bytes[..20]), None);
        bytes[16] = 9;
        assert_eq!(piece(&bytes), None);
    }
}
