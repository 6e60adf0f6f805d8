//! The sockets of a thread, by their connections' numbers: on io_uring, with one system call for all that is
//! sent and received between two looks at the clock, or on epoll where there is none.
//!
//! Both say the same in the same order, so that connections and clients need not know which it is: bytes as
//! they come, room once what was not taken at once has gone out, and the end.

mod epoll;
mod io_uring;
mod timestamp;

use crate::error::LoadError;
use crate::target::SocketAddress;
use config::DataPath;
use epoll::EpollSockets;
use io_uring::RingSockets;
use rustix::io::Errno;
use std::ops::Deref;
use std::time::Duration;
use uring::Chunk;

/// The sockets of a thread.
#[derive(Debug)]
pub(super) enum Sockets {
    Ring(Box<RingSockets>),
    Epoll(Box<EpollSockets>),
}

/// What has happened to the socket with a number.
#[derive(Debug)]
pub(super) enum SocketEvent {
    /// Bytes came.
    Bytes {
        number: usize,
        /// To be given back with [`Sockets::give_back`].
        bytes: Bytes,
        /// For how long the last of them had been there, where that is known.
        waited_ns: Option<u64>,
    },
    /// What was not taken at once has gone out.
    Room(usize),
    /// It is over: with an error, or the peer has closed it.
    Over(usize, Option<Errno>),
}

/// Bytes that came.
#[derive(Debug)]
pub(super) enum Bytes {
    Chunk(Chunk),
    Buffer(Vec<u8>, usize),
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Chunk(chunk) => chunk,
            Self::Buffer(buffer, length) => &buffer[..*length],
        }
    }
}

impl Sockets {
    /// The way that is asked for, or the next best, and then why it is not the best. `timestamps`: bytes say
    /// for how long they had been there; on epoll and over TCP alone.
    ///
    /// # Errors
    /// io_uring was demanded and is not available; the system refuses even epoll.
    pub(super) fn new(asked: DataPath, timestamps: bool) -> Result<(Self, Option<String>), LoadError> {
        let why = match asked {
            DataPath::Epoll => None,
            DataPath::Auto | DataPath::IoUring => match RingSockets::new() {
                Ok(ring) => return Ok((Self::Ring(Box::new(ring)), None)),
                Err(why) if asked == DataPath::IoUring => return Err(LoadError::NoRing(why)),
                Err(why) => Some(why.to_string()),
            },
        };
        Ok((Self::Epoll(Box::new(EpollSockets::new(timestamps)?)), why))
    }

    /// Begins to connect. The first bytes, or the end, tell what has come of it: a server of MySQL speaks
    /// first.
    pub(super) fn open(&mut self, number: usize, address: &SocketAddress) -> rustix::io::Result<()> {
        let socket = address.connect()?;
        match self {
            Self::Ring(ring) => ring.add(number, socket),
            Self::Epoll(epoll) => epoll.add(number, socket),
        }
    }

    /// Sends bytes; returns how many were taken. Those that were not are to be sent again after
    /// [`SocketEvent::Room`].
    #[inline]
    pub(super) fn send(&mut self, number: usize, bytes: &[u8]) -> rustix::io::Result<usize> {
        match self {
            Self::Ring(ring) => ring.send(number, bytes),
            Self::Epoll(epoll) => epoll.send(number, bytes),
        }
    }

    /// Sends last words, as far as they are taken now.
    pub(super) fn send_last(&mut self, number: usize, bytes: &[u8]) {
        match self {
            Self::Ring(ring) => ring.send_last(number, bytes),
            // It goes away either way.
            Self::Epoll(epoll) => drop(epoll.send(number, bytes)),
        }
    }

    /// Closes at once. Nothing more is heard of it.
    pub(super) fn close(&mut self, number: usize) {
        match self {
            Self::Ring(ring) => ring.close(number),
            Self::Epoll(epoll) => epoll.close(number),
        }
    }

    /// Sends what is to be sent, and waits until something happens or `longest` has passed. Returns whether
    /// anything was sent or has happened.
    pub(super) fn wait(&mut self, longest: Duration) -> Result<bool, LoadError> {
        match self {
            Self::Ring(ring) => ring.wait(longest),
            Self::Epoll(epoll) => epoll.wait(longest),
        }
    }

    /// The next thing that happened.
    #[inline]
    pub(super) fn event(&mut self) -> Option<SocketEvent> {
        match self {
            Self::Ring(ring) => ring.event(),
            Self::Epoll(epoll) => epoll.event(),
        }
    }

    /// Takes back the memory of bytes that were looked at.
    #[inline]
    pub(super) fn give_back(&mut self, bytes: Bytes) {
        if let (Self::Epoll(epoll), Bytes::Buffer(buffer, _)) = (self, bytes) {
            epoll.give_back(buffer);
        }
    }

    /// How often since the last call a send was not taken at once.
    pub(super) fn saturated(&mut self) -> u64 {
        match self {
            Self::Ring(ring) => ring.saturated(),
            Self::Epoll(epoll) => epoll.saturated(),
        }
    }
}
