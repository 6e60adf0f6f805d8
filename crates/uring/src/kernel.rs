//! The kernel's side of a ring: setting it up, or why there is none, and the one system call.

use io_uring::IoUring;
use io_uring::types::{SubmitArgs, Timespec};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Fetch events and do deferred work (`IORING_ENTER_GETEVENTS`).
const GETEVENTS: u32 = 1;

/// How big a ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Requests that are handed over at a time; more take another system call.
    pub requests: u32,
    /// Completions the kernel has room for, at least as many as requests. More are kept by it until there is
    /// room, which costs one more system call for a batch: a queue that is too small is slow, and loses
    /// nothing.
    pub completions: u32,
    /// Chunks, a power of two.
    pub chunks: u16,
    pub chunk_bytes: usize,
}

/// Why there is no ring.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The kernel says no.
    #[error(
        "the system does not allow io_uring (see sysctl kernel.io_uring_disabled; containers forbid it by their seccomp profile)"
    )]
    NotAllowed,
    /// The kernel has none.
    #[error("this kernel has no io_uring")]
    Missing,
    /// The kernel's is too old.
    #[error("this kernel's io_uring is too old: Linux 6.1 is the first that will do")]
    TooOld,
    /// Anything else.
    #[error("io_uring cannot be set up: {0}")]
    Failed(#[source] io::Error),
}

/// For `Debug`, which the kernel's side lacks.
pub(crate) struct Uring(pub(crate) IoUring);

impl Uring {
    /// One for the current thread.
    pub(crate) fn new(size: Size) -> Result<Self, Unavailable> {
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(size.completions)
            .dontfork()
            .build(size.requests)
            .map_err(unavailable)?;
        let params = uring.params();
        let complete = params.is_feature_nodrop()
            && params.is_feature_ext_arg()
            && params.is_feature_skip_cqe_on_success();
        if complete { Ok(Self(uring)) } else { Err(Unavailable::TooOld) }
    }

    /// Whether completions wait in the kernel because there was no room for them.
    pub(crate) fn has_overflown(&mut self) -> bool {
        self.0.submission().cq_overflow()
    }

    /// The system call: sleeps until something has happened, at most for `patience`.
    pub(crate) fn enter(&mut self, patience: Option<Duration>) -> io::Result<()> {
        let waiting = self.0.submission().len() as u32;
        let submitter = self.0.submitter();
        let outcome = match patience {
            // SAFETY: no argument is passed.
            Some(Duration::ZERO) => unsafe { submitter.enter::<u64>(waiting, 0, GETEVENTS, None) },
            None => submitter.submit_and_wait(1),
            Some(patience) => {
                let limit = Timespec::from(patience);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&limit))
            }
        };
        match outcome {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                // Nothing happened in time, or the kernel wants us to fetch what it has first.
                Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IoUring").field("fd", &self.0.as_raw_fd()).finish_non_exhaustive()
    }
}

/// What a failed set-up says about the system.
pub(crate) fn unavailable(error: io::Error) -> Unavailable {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::PERM | Errno::ACCESS) => Unavailable::NotAllowed,
        Some(Errno::NOSYS | Errno::OPNOTSUPP) => Unavailable::Missing,
        Some(Errno::INVAL) => Unavailable::TooOld,
        _ => Unavailable::Failed(error),
    }
}
