//! Placement: how many sessions should leave which server now, and how urgently. A pure function, run a few times a second.
//!
//! **Balance.** Of `n` reader sessions a server should hold `n x share`. Sessions leave when the server holds at least
//! one more than that, and at least 3 % more: rounding to whole sessions and noise in the measured demand then move
//! nobody. This is also what keeps a move from going back and forth: the server left behind still holds its share
//! rounded up, so [`pick`](crate::pick) will not choose it for the session that returns.
//!
//! **`n` is remembered for a few seconds**: pools open what we close when they need it, not at once. If `n` fell with each
//! close, the other servers would seem to hold too many.
//!
//! **Not eligible.** Sessions leave a server that lags, was reserved or lost its role at the ordinary pace; a server that
//! does not answer, or a former primary in the case of writers, at once: their next statement would fail or hang. A server that
//! merely failed one session keeps its own until `observe` has looked. Nobody leaves when there is nowhere to go,
//! except from a server drained by command.

use crate::closed::Closed;
use crate::eligible::Reason;
use crate::view::{Candidate, View};
use fleet::ListenerRole;

/// What a server may hold beyond its share before anybody leaves, as a part of its share; one session at least.
const BAND: f64 = 0.03;

/// Our sessions on a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) readers: u32,
    pub(crate) writers: u32,
}

/// Sessions that should leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Leave {
    /// Index of the candidate.
    pub(crate) server: usize,
    /// Which sessions.
    pub(crate) role: ListenerRole,
    /// How many of them.
    pub(crate) sessions: u32,
    pub(crate) why: Closed,
    pub(crate) urgency: Urgency,
}

/// How fast they should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Within the router's pace.
    Paced,
    /// So that a drain is done well before its deadline.
    Draining,
    /// As soon as they are idle.
    AtOnce,
}

/// Who should leave. `remembered` is the number of reader sessions lately, at least as many as there are now.
pub(crate) fn decide(view: &View, held: &[Held], remembered: u32) -> Vec<Leave> {
    let shares = view.shares(view.own_zone.as_ref());
    let reads_elsewhere = shares.iter().any(|s| *s > 0.0);
    let writer = view.writer();
    let mut leaves = Vec::new();
    for (server, (candidate, held)) in view.candidates.iter().zip(held).enumerate() {
        let mut leave = |role, sessions, (why, urgency)| {
            if sessions > 0 {
                leaves.push(Leave { server, role, sessions, why, urgency });
            }
        };
        if candidate.reads.is_eligible() {
            let share = shares[server] * f64::from(remembered);
            leave(ListenerRole::Reader, excess(held.readers, share), (Closed::Balance, Urgency::Paced));
        } else if let Some(how) = readers_leave(candidate, reads_elsewhere, writer) {
            leave(ListenerRole::Reader, held.readers, how);
        }
        if let Some(how) = writers_leave(candidate, server, writer) {
            leave(ListenerRole::Writer, held.writers, how);
        }
    }
    leaves
}

/// Whole sessions beyond the share, once that is worth a move.
fn excess(readers: u32, share: f64) -> u32 {
    // A share that is a whole number may come out of the arithmetic a little above it.
    let beyond = f64::from(readers) - share + 1e-6;
    if beyond >= (BAND * share).max(1.0) { beyond.floor() as u32 } else { 0 }
}

fn readers_leave(
    candidate: &Candidate,
    reads_elsewhere: bool,
    writer: Option<usize>,
) -> Option<(Closed, Urgency)> {
    match candidate.reads.reason()? {
        Reason::Draining => Some((Closed::Drained, Urgency::Draining)),
        _ if !reads_elsewhere && writer.is_none() => None,
        Reason::IsPrimary if !reads_elsewhere => None,
        Reason::IsPrimary => Some((Closed::ReplicaBack, Urgency::Paced)),
        Reason::Silent { .. } | Reason::Failing { .. } => Some((Closed::NotEligible, Urgency::AtOnce)),
        Reason::Suspected { .. } | Reason::Unasked | Reason::RoleUnknown { .. } | Reason::LagUnknown => None,
        _ if !reads_elsewhere => None,
        _ => Some((Closed::NotEligible, Urgency::Paced)),
    }
}

fn writers_leave(candidate: &Candidate, server: usize, writer: Option<usize>) -> Option<(Closed, Urgency)> {
    match candidate.writes.reason()? {
        Reason::Draining => Some((Closed::Drained, Urgency::Draining)),
        // While nobody is known to take writes, the one that did is the best guess.
        Reason::NotPrimary { .. } | Reason::Reserved { .. } if writer.is_some_and(|w| w != server) => {
            Some((Closed::NotPrimary, Urgency::AtOnce))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::{snapshot, view};
    use fleet::{ServerName, State, WriterStatus};

    fn readers(counts: &[u32]) -> Vec<Held> {
        counts.iter().map(|r| Held { readers: *r, writers: 0 }).collect()
    }

    fn two() -> fleet::Snapshot {
        snapshot("a", &[("a", 1.0), ("a", 1.0)], &[("a", 1.0)])
    }

    #[test]
    fn one_session_beyond_its_share_leaves_and_rounding_does_not() {
        let view = view(two());
        let leaves = decide(&view, &readers(&[0, 7, 1]), 8);
        assert_eq!(leaves.len(), 1);
        assert_eq!((leaves[0].server, leaves[0].sessions, leaves[0].why), (1, 3, Closed::Balance));
        for balanced in [[0, 4, 4], [0, 5, 4], [0, 4, 5], [0, 102, 98]] {
            let n = balanced.iter().sum();
            assert_eq!(decide(&view, &readers(&balanced), n), [], "{balanced:?}");
        }
    }

    #[test]
    fn sessions_closed_a_moment_ago_do_not_make_others_look_full() {
        let view = view(two());
        assert_eq!(decide(&view, &readers(&[0, 5, 2]), 10), []);
    }

    #[test]
    fn a_silent_server_is_left_at_once_and_a_lagging_one_at_the_pace() {
        let mut s = two();
        s.servers[1].state = State::Silent { why: "no answer".to_owned() };
        let leaves = decide(&view(s), &readers(&[0, 5, 5]), 10);
        assert_eq!((leaves[0].sessions, leaves[0].urgency), (5, Urgency::AtOnce));
        let mut s = two();
        s.servers[1].lag.as_mut().unwrap().at_least = std::time::Duration::from_secs(60);
        let leaves = decide(&view(s), &readers(&[0, 5, 5]), 10);
        assert_eq!((leaves[0].sessions, leaves[0].urgency), (5, Urgency::Paced));
    }

    #[test]
    fn nobody_leaves_when_there_is_nowhere_to_go() {
        let mut s = two();
        for server in &mut s.servers {
            server.state = State::Silent { why: "no answer".to_owned() };
        }
        assert_eq!(decide(&view(s), &readers(&[1, 5, 5]), 11), []);
    }

    #[test]
    fn reads_on_the_primary_go_home_when_a_replica_is_back() {
        let leaves = decide(&view(two()), &readers(&[6, 0, 0]), 6);
        assert_eq!((leaves[0].server, leaves[0].sessions, leaves[0].why), (0, 6, Closed::ReplicaBack));
        assert_eq!(decide(&view(snapshot("a", &[], &[])), &readers(&[6]), 6), []);
    }

    #[test]
    fn writers_leave_a_former_primary_at_once_but_not_while_nobody_takes_over() {
        let held = [Held { readers: 0, writers: 3 }, Held::default(), Held::default()];
        let mut s = two();
        s.writer = WriterStatus::Known { server: ServerName::new("r0") };
        let leaves = decide(&view(s), &held, 0);
        assert_eq!((leaves[0].role, leaves[0].urgency), (ListenerRole::Writer, Urgency::AtOnce));
        let mut s = two();
        s.writer = WriterStatus::Unknown { why: "two are writable".to_owned() };
        assert_eq!(decide(&view(s), &held, 0), []);
    }
}
