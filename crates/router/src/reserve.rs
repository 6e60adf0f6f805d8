//! Reserve: file descriptors are counted ahead, and one is kept back, so that a client can be told that there
//! are no more.
//!
//! A session takes two. Beyond [`most_sessions`] clients are refused in words, while everything that runs
//! still has the descriptors it needs. Should they run out all the same, because something else in this
//! process or on this machine takes them, the reserve remains:
//!
//! A process that has run out of descriptors cannot accept, and the client it cannot accept waits in the
//! kernel's queue and keeps the listener readable: a loop that only tries again is either busy or blind. With
//! one descriptor in reserve the client is accepted, told in MySQL's words and closed, each at the cost of
//! one round of the loop.

use crate::listener::{Listener, ListeningSocket};
use crate::refuse;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Descriptors that are not for sessions: control connections to servers, the admin address (16 at most),
/// files, and for each thread its runtime.
const SPARE: usize = 48;
const SPARE_A_THREAD: usize = 4;

/// How many sessions the limit of descriptors leaves room for, with this many threads; `None` where there is
/// no limit.
pub(crate) fn most_sessions(threads: usize) -> Option<usize> {
    let limit = getrlimit(Resource::Nofile).current.and_then(|n| usize::try_from(n).ok());
    limit.map(|limit| limit.saturating_sub(SPARE + SPARE_A_THREAD * threads) / 2)
}

/// Logged at most once in this time, with how often it happened.
const LOG_EVERY: Duration = Duration::from_secs(5);

/// The descriptor, and when its use was last logged.
pub(crate) struct Reserve {
    descriptor: Option<OwnedFd>,
    logged_at: Option<Instant>,
    unlogged: u64,
}

/// Whether this process or this machine is out of descriptors.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    let exhausted = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| exhausted.contains(&number))
}

impl Reserve {
    pub(crate) fn new() -> Self {
        Self { descriptor: take(), logged_at: None, unlogged: 0 }
    }

    /// Accepts one client with the descriptor in reserve, tells it, and takes the descriptor back. `false`
    /// when that is not possible either: then only a pause helps.
    pub(crate) fn refuse_one(&mut self, socket: &ListeningSocket) -> bool {
        drop(self.descriptor.take());
        let accepted = socket.accept_now();
        let refused = match &accepted {
            Ok(client) => {
                let error = refuse::own_fault("no file descriptor is left (ulimit -n, LimitNOFILE=)");
                // One small packet into a fresh socket always fits.
                let _ = rustix::io::write(client, &error.before_greeting());
                true
            }
            // The client has left meanwhile.
            Err(Errno::AGAIN | Errno::CONNABORTED) => true,
            Err(_) => false,
        };
        drop(accepted);
        self.descriptor = take();
        refused
    }

    /// Takes a descriptor into reserve again, if somebody was faster the last time.
    pub(crate) fn restock(&mut self) {
        self.descriptor = self.descriptor.take().or_else(take);
    }

    /// Logs it, now and then.
    pub(crate) fn log(&mut self, listener: &Listener, error: &io::Error) {
        self.unlogged += 1;
        if self.logged_at.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            let times = std::mem::take(&mut self.unlogged);
            self.logged_at = Some(Instant::now());
            tracing::warn!(address = %listener.address, %error, times, "cannot accept clients, refusing them");
        }
    }
}

fn take() -> Option<OwnedFd> {
    open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}
