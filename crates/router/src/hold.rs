//! Hold: new writer sessions wait while nobody is known to take writes, instead of failing.
//!
//! What happens to a write during a change of primary: sessions that have begun end when their old server
//! closes them or when they are idle on a former primary; their clients come back as new sessions, and those
//! wait here until `observe` names the new primary, at most `hold_deadline` and at most [`Hold::MOST`] of
//! them.

use crate::stream::{Stream, Waiting};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A session that waits; counted until dropped.
#[derive(Debug)]
pub(crate) struct Hold<'a>(&'a AtomicUsize);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The fleet looks different: try again.
    Changed,
    /// The client has given up.
    ClientLeft,
    /// Time is up.
    Deadline,
}

impl<'a> Hold<'a> {
    /// Sessions that may wait at the same time.
    pub(crate) const MOST: usize = 4096;

    /// A place among those that wait; `None` when all are taken.
    pub(crate) fn take(held: &'a AtomicUsize) -> Option<Self> {
        let room = |n: usize| (n < Self::MOST).then_some(n + 1);
        held.fetch_update(Relaxed, Relaxed, room).ok().map(|_| Self(held))
    }

    /// Waits for a change of the fleet, the client to leave, or `until`.
    pub(crate) async fn wait(
        &self,
        changes: &mut watch::Receiver<u64>,
        client: &Stream,
        until: Instant,
    ) -> Ended {
        tokio::select! {
            biased;
            () = sleep_until(until) => Ended::Deadline,
            changed = changes.changed() => if changed.is_ok() { Ended::Changed } else { Ended::Deadline },
            () = client_leaves(client) => Ended::ClientLeft,
        }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Resolves when the client closes. Clients have nothing to say before the greeting; one that does is not
/// listened to.
async fn client_leaves(client: &Stream) {
    loop {
        if client.readable().await.is_err() || client.waiting() == Waiting::End {
            return;
        }
        // Readiness without an end: a client that speaks early. Look again now and then instead of at once.
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}
