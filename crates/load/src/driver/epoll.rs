//! Waiting for sockets: one epoll instance a thread, edge-triggered, with deadlines finer than a millisecond.

use crate::error::LoadError;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Events that one wait may bring.
const EVENTS: usize = 256;
/// epoll itself counts whole milliseconds; what is nearer than this is waited for with `ppoll`, which counts
/// ns.
const FINE: Duration = Duration::from_millis(20);

/// What a thread waits with.
pub(crate) struct Epoll {
    epoll: OwnedFd,
    events: Vec<Event>,
}

/// What a socket is ready for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readiness {
    /// What it was registered with.
    pub(crate) token: u64,
    /// Bytes, an end or an error can be read.
    pub(crate) readable: bool,
    /// There is room to write, or the connection is made.
    pub(crate) writable: bool,
}

impl Epoll {
    pub(crate) fn new() -> Result<Self, LoadError> {
        let epoll =
            epoll::create(CreateFlags::CLOEXEC).map_err(LoadError::io("creating an epoll instance"))?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS) })
    }

    /// Watches a socket: for input, and for room to write when `write` is set.
    pub(crate) fn watch(&self, socket: &OwnedFd, token: u64, write: bool) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, socket, EventData::new_u64(token), flags(write))
    }

    /// Watches it for room to write, or no longer.
    pub(crate) fn rewatch(&self, socket: &OwnedFd, token: u64, write: bool) -> rustix::io::Result<()> {
        epoll::modify(&self.epoll, socket, EventData::new_u64(token), flags(write))
    }

    /// Waits until something happens or `longest` has passed; returns how many sockets are ready.
    pub(crate) fn wait(&mut self, longest: Duration) -> Result<usize, LoadError> {
        let failed = LoadError::io("waiting for sockets");
        let mut timeout = timespec(longest);
        if longest > Duration::ZERO && longest < FINE {
            let mut fds = [PollFd::from_borrowed_fd(self.epoll.as_fd(), PollFlags::IN)];
            match rustix::event::poll(&mut fds, Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(self.none()),
                Ok(_) => timeout = timespec(Duration::ZERO),
                Err(error) => return Err(failed(error)),
            }
        }
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::INTR) => Ok(self.none()),
            Err(error) => Err(failed(error)),
        }
    }

    fn none(&mut self) -> usize {
        self.events.clear();
        0
    }

    /// The `n`-th socket that the last wait has brought.
    pub(crate) fn ready(&self, n: usize) -> Readiness {
        let event = self.events[n];
        let flags = event.flags;
        let ends = EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP;
        Readiness {
            token: event.data.u64(),
            readable: flags.intersects(EventFlags::IN | ends),
            writable: flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR),
        }
    }
}

fn flags(write: bool) -> EventFlags {
    let read = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    if write { read | EventFlags::OUT } else { read }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

impl std::fmt::Debug for Epoll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoll").finish_non_exhaustive()
    }
}
