//! The sockets of a thread, by their connections' numbers: on io_uring, with one system call for all that is sent and
//! received between two looks at the clock, or on epoll where io_uring is not to be had.
//!
//! Both say the same in the same order, so that connections and clients need not know which it is: bytes as they come, room
//! once what was not taken at once has gone out, and the end.

mod polled;
mod ring;
mod stamped;

use crate::error::LoadError;
use crate::target::Place;
use config::DataPath;
use polled::Polled;
use ring::Ringed;
use rustix::io::Errno;
use std::ops::Deref;
use std::time::Duration;
use uring::Chunk;

/// The sockets of a thread.
#[derive(Debug)]
pub(super) enum Sockets {
    Ring(Box<Ringed>),
    Polled(Box<Polled>),
}

/// For how many answers a call waits before one is enough, where answers can gather. Best not for all that are to come: while the
/// last ones are made, the first are to be followed by the next statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gather {
    /// One is enough from the beginning.
    One,
    /// Most of as many as the call itself sends statements.
    MostOfSent { within: Duration },
    /// So many.
    Many { many: usize, within: Duration },
}

/// What has happened to the socket with a number.
#[derive(Debug)]
pub(super) enum Event {
    /// Bytes came.
    Bytes {
        number: usize,
        /// To be given back with [`Sockets::give_back`].
        bytes: Bytes,
        /// For how long, in ns, the last of them had been there, where that is known.
        waited: Option<u64>,
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
    /// The way that is asked for, or the next best, and then why it is not the best. `stamped`: bytes tell for how long they
    /// had been there; on epoll and over TCP alone.
    ///
    /// # Errors
    /// io_uring was demanded and is not to be had; the system refuses even epoll.
    pub(super) fn new(asked: DataPath, stamped: bool) -> Result<(Self, Option<String>), LoadError> {
        let why = match asked {
            DataPath::Epoll => None,
            DataPath::Auto | DataPath::IoUring => match Ringed::new() {
                Ok(ring) => return Ok((Self::Ring(Box::new(ring)), None)),
                Err(why) if asked == DataPath::IoUring => return Err(LoadError::NoRing(why)),
                Err(why) => Some(why.to_string()),
            },
        };
        Ok((Self::Polled(Box::new(Polled::new(stamped)?)), why))
    }

    /// Begins to connect. The first bytes, or the end, tell what has come of it: a server of MySQL speaks first.
    pub(super) fn open(&mut self, number: usize, place: &Place) -> rustix::io::Result<()> {
        let socket = place.connect()?;
        match self {
            Self::Ring(ring) => ring.add(number, socket),
            Self::Polled(polled) => polled.add(number, socket),
        }
    }

    /// Sends bytes; returns how many were taken. Those that were not are to be sent again after [`Event::Room`].
    #[inline]
    pub(super) fn send(&mut self, number: usize, bytes: &[u8]) -> rustix::io::Result<usize> {
        match self {
            Self::Ring(ring) => ring.send(number, bytes),
            Self::Polled(polled) => polled.send(number, bytes),
        }
    }

    /// Sends last words, as far as they are taken now.
    pub(super) fn send_last(&mut self, number: usize, bytes: &[u8]) {
        match self {
            Self::Ring(ring) => ring.send_last(number, bytes),
            // It goes away either way.
            Self::Polled(polled) => drop(polled.send(number, bytes)),
        }
    }

    /// Closes at once. Nothing more is heard of it.
    pub(super) fn close(&mut self, number: usize) {
        match self {
            Self::Ring(ring) => ring.close(number),
            Self::Polled(polled) => polled.close(number),
        }
    }

    /// Whether answers can gather: on io_uring, from Linux 6.12 on.
    pub(super) fn gathers(&self) -> bool {
        match self {
            Self::Ring(ring) => ring.gathers(),
            Self::Polled(_) => false,
        }
    }

    /// From now on what goes to servers on this thread's core is sent first, on io_uring; to be asked for again now and then, since threads
    /// move. Returns whether it is known where any of them is.
    pub(super) fn near_first(&mut self) -> bool {
        match self {
            Self::Ring(ring) => ring.near_first(),
            Self::Polled(_) => false,
        }
    }

    /// From now on everything is sent in the order in which it came.
    pub(super) fn as_asked(&mut self) {
        if let Self::Ring(ring) = self {
            ring.as_asked();
        }
    }

    /// Sends what is to be sent, and waits until something happens or `longest` has passed. Returns whether anything was
    /// sent or has happened.
    pub(super) fn wait(&mut self, longest: Duration, gather: Gather) -> Result<bool, LoadError> {
        match self {
            Self::Ring(ring) => ring.wait(longest, gather),
            Self::Polled(polled) => polled.wait(longest),
        }
    }

    /// The next thing that happened.
    #[inline]
    pub(super) fn event(&mut self) -> Option<Event> {
        match self {
            Self::Ring(ring) => ring.event(),
            Self::Polled(polled) => polled.event(),
        }
    }

    /// Takes back the memory of bytes that were looked at.
    #[inline]
    pub(super) fn give_back(&mut self, bytes: Bytes) {
        if let (Self::Polled(polled), Bytes::Buffer(buffer, _)) = (self, bytes) {
            polled.give_back(buffer);
        }
    }

    /// How often since the last call a send was not taken at once.
    pub(super) fn saturated(&mut self) -> u64 {
        match self {
            Self::Ring(ring) => ring.saturated(),
            Self::Polled(polled) => polled.saturated(),
        }
    }
}
