//! Path: the way that sessions' bytes take through this process, and why that one.
//!
//! io_uring where the kernel allows it, because it costs least; else epoll, which works everywhere. Sessions
//! with TLS that ends here take epoll in any case.

use crate::error::Error;
use config::DataPath;
use uring::Unavailable;

/// The path in force for sessions that can take any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) requested: DataPath,
    /// Why it is epoll although io_uring would be better.
    pub(crate) why_not_ring: Option<String>,
}

/// Threads that let sessions in when none are asked for, on a machine with this many cores: one for every
/// four.
///
/// A thread relays more queries than a server answers on four cores (decision 9), and the fewer threads there
/// are, the more sessions share a system call: with one thread for two cores a query cost a fifth less than
/// with two.
pub(crate) fn threads(cores: usize) -> usize {
    (cores / 4).max(1)
}

impl Path {
    /// What is tried first.
    pub(crate) fn new(requested: DataPath) -> Self {
        Self { requested, why_not_ring: None }
    }

    pub(crate) fn is_ring(&self) -> bool {
        self.requested != DataPath::Epoll && self.why_not_ring.is_none()
    }

    /// In stable words.
    pub(crate) fn name(&self) -> &'static str {
        if self.is_ring() { DataPath::IoUring.as_str() } else { DataPath::Epoll.as_str() }
    }

    /// There is no ring: on with epoll, unless the ring was demanded.
    pub(crate) fn fall_back(&mut self, unavailable: Unavailable) -> Result<(), Error> {
        if self.requested == DataPath::IoUring {
            return Err(Error::NoRing(unavailable));
        }
        let why = unavailable.to_string();
        tracing::warn!(why, "io_uring unavailable: sessions are relayed with epoll, at a higher cost");
        self.why_not_ring = Some(why);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_io_uring_is_forbidden_auto_takes_epoll_and_says_why() {
        let mut path = Path::new(DataPath::Auto);
        assert_eq!((path.name(), path.is_ring()), ("io_uring", true));
        path.fall_back(Unavailable::NotAllowed).unwrap();
        assert_eq!((path.name(), path.is_ring()), ("epoll", false));
        assert!(path.why_not_ring.unwrap().contains("kernel.io_uring_disabled"));
    }

    #[test]
    fn where_io_uring_is_demanded_and_forbidden_the_router_does_not_start() {
        let mut path = Path::new(DataPath::IoUring);
        let error = path.fall_back(Unavailable::TooOld).unwrap_err().to_string();
        assert!(error.contains("6.1") && error.contains("data_path = \"auto\""), "{error}");
    }

    #[test]
    fn epoll_as_asked_for_is_no_fallback() {
        let path = Path::new(DataPath::Epoll);
        assert_eq!((path.name(), path.is_ring(), path.why_not_ring.as_ref()), ("epoll", false, None));
    }
}
