//! Close quota: how many sessions of a role the rebalancer lets the data plane close on a server now, and
//! which may go.

use crate::closed::Closed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What the rebalancer wants gone from a server, for the sessions of one listener role.
#[derive(Debug, Default)]
pub(crate) struct CloseQuota {
    /// Sessions that may be closed right now.
    quota: AtomicU32,
    /// Sessions that were told to leave and have not ended.
    leaving: AtomicU32,
    /// Why, as [`Closed::index`].
    why: AtomicU8,
    /// How long a session must have been quiet, microseconds.
    quiet_us: AtomicU64,
    /// Whether only sessions may go that have been seen to work.
    working_only: AtomicBool,
    /// The same for one whose pool checks it, microseconds.
    checked_quiet_us: AtomicU64,
    /// Whether prepared statements no longer matter.
    prepared_too: AtomicBool,
    /// Whether lightly held state (prepared statements, insert ids, variables) no longer matters.
    light_state_too: AtomicBool,
    /// Whether sessions that hold any state may go: they have waited for the limit.
    all_state_too: AtomicBool,
}

/// What the rebalancer asks for, and which sessions may be closed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CloseRequest {
    /// Sessions that may be closed right now.
    pub(crate) quota: u32,
    pub(crate) why: Closed,
    /// How long a session must have been quiet.
    pub(crate) quiet: Duration,
    /// Only sessions that have been seen to work: it is their work that is too much.
    pub(crate) working_only: bool,
    /// The same for one whose pool checks it: it gives itself up at its next check.
    pub(crate) checked_quiet: Duration,
    /// Prepared statements do not matter.
    pub(crate) prepared_too: bool,
    /// Lightly held state does not matter.
    pub(crate) light_state_too: bool,
    /// No state matters.
    pub(crate) all_state_too: bool,
}

#[cfg(test)]
impl CloseRequest {
    /// Nothing yet, and every state matters.
    pub(crate) fn of(why: Closed) -> Self {
        let (prepared_too, light_state_too, all_state_too) = (false, false, false);
        let quiet = Duration::ZERO;
        Self {
            quota: 0,
            why,
            quiet,
            checked_quiet: quiet,
            working_only: false,
            prepared_too,
            light_state_too,
            all_state_too,
        }
    }
}

impl CloseQuota {
    /// Says what is wanted from now on; `quota` replaces what was left.
    pub(crate) fn set(&self, request: Option<CloseRequest>) {
        let Some(request) = request else {
            self.quota.store(0, Relaxed);
            return;
        };
        self.why.store(request.why.index() as u8, Relaxed);
        self.quiet_us.store(request.quiet.as_micros() as u64, Relaxed);
        self.working_only.store(request.working_only, Relaxed);
        self.checked_quiet_us.store(request.checked_quiet.as_micros() as u64, Relaxed);
        self.prepared_too.store(request.prepared_too, Relaxed);
        self.light_state_too.store(request.light_state_too, Relaxed);
        self.all_state_too.store(request.all_state_too, Relaxed);
        self.quota.store(request.quota, Relaxed);
    }

    /// What is wanted now, if anything is.
    pub(crate) fn now(&self) -> Option<CloseRequest> {
        let quota = self.quota.load(Relaxed);
        (quota > 0).then(|| CloseRequest {
            quota,
            why: Closed::from_index(usize::from(self.why.load(Relaxed))),
            quiet: Duration::from_micros(self.quiet_us.load(Relaxed)),
            working_only: self.working_only.load(Relaxed),
            checked_quiet: Duration::from_micros(self.checked_quiet_us.load(Relaxed)),
            prepared_too: self.prepared_too.load(Relaxed),
            light_state_too: self.light_state_too.load(Relaxed),
            all_state_too: self.all_state_too.load(Relaxed),
        })
    }

    /// What is left of the quota.
    pub(crate) fn remaining(&self) -> u32 {
        self.quota.load(Relaxed)
    }

    /// Claims the right to close a session, which counts as leaving until [`CloseQuota::unclaim`] or
    /// [`CloseQuota::left`].
    pub(crate) fn claim(&self) -> bool {
        let taken = self.take();
        if taken {
            self.leaving.fetch_add(1, Relaxed);
        }
        taken
    }

    /// Gives a claimed right back.
    pub(crate) fn unclaim(&self) {
        self.leaving.fetch_sub(1, Relaxed);
        self.put_back();
    }

    /// A session that was told to leave has ended.
    pub(crate) fn left(&self) {
        self.leaving.fetch_sub(1, Relaxed);
    }

    /// Sessions that were told to leave and have not ended.
    pub(crate) fn leaving(&self) -> u32 {
        self.leaving.load(Relaxed)
    }

    /// Takes the right to close one session; at most as many succeed as the quota says.
    pub(crate) fn take(&self) -> bool {
        self.quota.fetch_update(Relaxed, Relaxed, |q| q.checked_sub(1)).is_ok()
    }

    /// Gives the right back: the session was not closed after all.
    pub(crate) fn put_back(&self) {
        self.quota.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_sessions_are_closed_than_the_quota_says() {
        let quota = CloseQuota::default();
        assert!(!quota.take() && quota.now().is_none());
        let quiet = Duration::from_millis(20);
        let request =
            CloseRequest { quota: 2, quiet, checked_quiet: quiet * 2, ..CloseRequest::of(Closed::Balance) };
        quota.set(Some(request));
        assert_eq!(quota.now(), Some(request));
        assert!(quota.take() && quota.take() && !quota.take());
        quota.put_back();
        assert!(quota.take());
    }
}
