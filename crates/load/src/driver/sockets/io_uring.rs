//! Sockets on io_uring: everything that is sent goes to the kernel with the call that waits for what comes.

use super::{Bytes, SocketEvent};
use crate::error::LoadError;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::time::Duration;
use uring::{Event, Incoming, Ring, Size, Token, Unavailable};

/// Sends of 64 clients go with one call. A chunk is a little more than four pages, so that chunks do not
/// begin at the same place of a cache.
const SIZE: Size = Size { requests: 64, completions: 4096, chunks: 64, chunk_bytes: 16 * 1024 + 320 };

/// A ring and its sockets by number.
#[derive(Debug)]
pub(in super::super) struct RingSockets {
    ring: Ring,
    tokens: Vec<Option<Token>>,
    /// Slow sends that were reported.
    reported: u64,
}

impl RingSockets {
    pub(super) fn new() -> Result<Self, Unavailable> {
        Ok(Self { ring: Ring::new(SIZE)?, tokens: Vec::new(), reported: 0 })
    }

    pub(super) fn add(&mut self, number: usize, socket: OwnedFd) -> rustix::io::Result<()> {
        let failed = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let token = self.ring.add(socket, number as u32).map_err(failed)?;
        // What comes is looked at at once and needs no room: nobody has to be held back.
        self.ring.receive_all(token);
        if self.tokens.len() <= number {
            self.tokens.resize(number + 1, None);
        }
        self.tokens[number] = Some(token);
        Ok(())
    }

    #[inline]
    pub(super) fn send(&mut self, number: usize, bytes: &[u8]) -> rustix::io::Result<usize> {
        let token = self.token(number).ok_or(Errno::NOTCONN)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        if self.ring.is_sending(token) {
            self.ring.notify_when_sent(token);
            return Ok(0);
        }
        self.ring.send_bytes(token, bytes);
        Ok(bytes.len())
    }

    pub(super) fn send_last(&mut self, number: usize, bytes: &[u8]) {
        if let Some(token) = self.token(number) {
            self.ring.send_now(token, bytes);
        }
    }

    pub(super) fn close(&mut self, number: usize) {
        if let Some(token) = self.tokens.get_mut(number).and_then(Option::take) {
            self.ring.close(token);
        }
    }

    pub(super) fn wait(&mut self, longest: Duration) -> Result<bool, LoadError> {
        let sends = self.ring.waiting_requests();
        self.ring
            .enter(Some(longest))
            .map_err(|source| LoadError::Io { doing: "waiting for sockets", source })?;
        Ok(sends > 0 || self.ring.has_events())
    }

    #[inline]
    pub(super) fn event(&mut self) -> Option<SocketEvent> {
        loop {
            return Some(match self.ring.event()? {
                Event::Received { owner, incoming } => match incoming {
                    Incoming::Bytes { chunk, .. } => SocketEvent::Bytes {
                        number: owner as usize,
                        bytes: Bytes::Chunk(chunk),
                        waited_ns: None,
                    },
                    Incoming::End => SocketEvent::Over(owner as usize, None),
                    Incoming::Broken(error) => SocketEvent::Over(owner as usize, Some(error)),
                },
                Event::Sent { owner } => SocketEvent::Room(owner as usize),
                Event::Broken { owner } => SocketEvent::Over(owner as usize, None),
                Event::Woken => continue,
            });
        }
    }

    pub(super) fn saturated(&mut self) -> u64 {
        let all = self.ring.slow_sends();
        all - std::mem::replace(&mut self.reported, all)
    }

    #[inline]
    fn token(&self, number: usize) -> Option<Token> {
        self.tokens.get(number).copied().flatten()
    }
}
