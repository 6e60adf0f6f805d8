//! Peer: when the other end of a connection is dead, although nobody has said so.
//!
//! The kernel asks an idle peer whether it is there (keepalive), but does not while something is under way to
//! it: then it sends that again and again, for a quarter of an hour. So each thread looks at its sessions now
//! and then, and ends those whose peer has owed an acknowledgement for the whole of `peer_deadline` and given
//! none. A peer that is there and does not read acknowledges all that it has room for, and answers when it is
//! asked whether it has room again: it owes nothing, however long it rests.
//!
//! The clock is the supervisor's beat: no turn of a thread is for this alone, and no query pays for it. A
//! session on which no byte has moved since a look found nothing under way is not looked at.
//!
//! A peer that vanishes while it has no room is asked at growing intervals, two minutes at most: so much
//! later it is found.

use crate::heartbeat::BEAT;
use std::time::{Duration, Instant};
use uring::Outstanding;

/// All sessions are looked at this many times in a `peer_deadline`.
const LOOKS: u32 = 4;

/// Since when a peer owes an acknowledgement, as far as looks have shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Debt(Option<Instant>);

impl Debt {
    /// Takes note of what is under way now. Returns whether the peer has owed it for `deadline` without a
    /// sign of life.
    pub(crate) fn look(
        &mut self,
        outstanding: Option<Outstanding>,
        deadline: Duration,
        now: Instant,
    ) -> bool {
        let Some(owed) = outstanding.filter(|outstanding| outstanding.is_owed()) else {
            self.0 = None;
            return false;
        };
        // What was seen first may have been sent just before; what was acknowledged since is no longer owed.
        let heard = now.checked_sub(owed.last_heard);
        let since = self.0.map_or(now, |since| heard.map_or(since, |heard| since.max(heard)));
        self.0 = Some(since);
        now.saturating_duration_since(since) >= deadline
    }
}

/// How many of this many sessions are looked at with one beat.
pub(crate) fn share(sessions: usize, deadline: Duration) -> usize {
    let beats = (deadline / LOOKS).as_millis() / BEAT.as_millis();
    sessions.div_ceil((beats as usize).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn look(debt: &mut Debt, begun: Instant, at_s: u64, segments: u32, probes: u8, heard_s: u64) -> bool {
        let last_heard = Duration::from_secs(heard_s);
        let outstanding = Outstanding { segments, probes, unsent: 0, last_heard };
        debt.look(Some(outstanding), LIMIT, begun + Duration::from_secs(at_s))
    }

    #[test]
    fn a_peer_that_owes_and_is_silent_for_the_whole_of_the_deadline_is_gone() {
        let (mut debt, begun) = (Debt::default(), Instant::now());
        // Silent for ten minutes, because nothing was sent; then something is.
        assert!(!look(&mut debt, begun, 600, 1, 0, 600));
        assert!(!look(&mut debt, begun, 629, 1, 0, 629));
        assert!(look(&mut debt, begun, 630, 1, 0, 630));
    }

    #[test]
    fn one_that_acknowledges_something_or_answers_a_probe_has_as_long_again() {
        let (mut debt, begun) = (Debt::default(), Instant::now());
        assert!(!look(&mut debt, begun, 600, 9, 0, 0));
        assert!(!look(&mut debt, begun, 640, 9, 0, 15), "heard at 625");
        assert!(!look(&mut debt, begun, 654, 9, 0, 29));
        assert!(look(&mut debt, begun, 655, 9, 0, 30));
        assert!(!look(&mut debt, begun, 656, 0, 0, 31), "has acknowledged all");
        assert!(!look(&mut debt, begun, 700, 0, 1, 75), "asked whether there is room, just now");
        assert!(!look(&mut debt, begun, 729, 0, 1, 104));
        assert!(look(&mut debt, begun, 730, 0, 2, 105));
    }

    #[test]
    fn a_socket_without_acknowledgements_never_owes_any() {
        let mut debt = Debt::default();
        assert!(!debt.look(None, Duration::ZERO, Instant::now()));
    }

    #[test]
    fn all_sessions_are_looked_at_four_times_in_a_deadline_a_few_at_a_time() {
        assert_eq!(share(10_000, LIMIT), 334);
        assert_eq!((share(1, LIMIT), share(0, LIMIT)), (1, 0));
        assert_eq!(share(100, Duration::from_millis(1)), 100);
    }
}
