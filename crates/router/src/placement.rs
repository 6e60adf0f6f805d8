//! Placement: how many sessions should leave which server now, and how urgently. A pure function, run a few
//! times a second.
//!
//! **Balance.** Of `n` reader sessions a server should hold `n x share`. Sessions leave when the server holds
//! at least one more than that, and at least 3 % more: rounding to whole sessions and noise in the measured
//! demand then move nobody. This is also what keeps a move from going back and forth: the server left behind
//! still holds its share rounded up, so [`pick`](crate::pick) will not choose it for the session that
//! returns.
//!
//! **Trim.** Less than one session too many is still too many when every router errs to the same side, as
//! routers do that opened all their sessions before demand was measured: twenty of them with half a session
//! each are ten. So a server that for a while holds more than the router's own whole number for it (see
//! [`apportion`](crate::apportion): rounded down or up by a phase that differs from router to router, without
//! bias over all of them) gives one up, unless it is within a quarter of a session of its share.
//!
//! **`n` is remembered for a few seconds**: pools open what we close when they need it, not at once. If `n`
//! fell with each close, the other servers would seem to hold too many.
//!
//! **Not eligible.** Sessions leave a server that lags, was reserved or lost its role at the ordinary pace; a
//! server that does not answer, or a former primary in the case of writers, at once: their next statement
//! would fail or hang. A server that merely failed one session keeps its own until `observe` has looked. One
//! whose lag or role is not known is left at the pace, too, once that has lasted: the flow table sends nobody
//! there, and sessions follow it. Nobody leaves when there is nowhere to go, except from a server drained by
//! command.

use crate::closed::Closed;
use crate::eligible::Reason;
use crate::view::{Candidate, View};
use fleet::ListenerRole;
use std::time::Duration;

/// What a server may hold beyond its share before anybody leaves, as a part of its share; one session at
/// least.
const BAND: f64 = 0.03;

/// How long a server must have held too many before sessions leave it for balance: one odd measurement moves
/// nobody.
pub const PACED_AFTER: Duration = Duration::from_secs(1);
/// The same for less than a whole session too many.
pub const TRIM_AFTER: Duration = Duration::from_secs(10);

/// Our sessions on a server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Held {
    /// Of reader listeners.
    pub readers: u32,
    /// What these are, in average sessions (see [`crate::work`]).
    pub load: f64,
    /// Of writer listeners.
    pub writers: u32,
}

/// Sessions that should leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leave {
    /// Index of the candidate.
    pub server: usize,
    /// Which sessions.
    pub role: ListenerRole,
    /// How many of them.
    pub sessions: u32,
    pub why: Closed,
    /// How fast.
    pub urgency: Urgency,
    /// Its sessions are not too many but do too much: those that work should go.
    pub working: bool,
}

/// A server this close to its share is not trimmed: measured demand is not that exact.
const CLOSE: f64 = 0.25;

/// How fast they should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Within the router's pace, once it has been so for [`TRIM_AFTER`]: less than a session too many, or a
    /// doubt that may pass.
    Trim,
    /// Within the router's pace, once it has been so for [`PACED_AFTER`].
    Paced,
    /// So that a drain is done well before its deadline.
    Draining,
    /// As soon as they are idle.
    AtOnce,
}

/// Who should leave. `remembered` is the number of reader sessions lately, at least as many as there are now;
/// `phase` is this router's.
pub fn decide(view: &View, held: &[Held], remembered: u32, phase: f64) -> Vec<Leave> {
    let shares = view.shares(view.own_zone.as_ref());
    let targets = view.targets(view.own_zone.as_ref(), remembered as usize, phase);
    let reads_elsewhere = shares.iter().any(|s| *s > 0.0);
    let (writer, held_primary) = (view.writer(), view.held_primary());
    let reads_on_primary = writer.is_some() && view.config.reads_on_primary;
    let mut leaves = Vec::new();
    for (server, (candidate, held)) in view.candidates.iter().zip(held).enumerate() {
        let working = candidate.reads.is_eligible() && held.load > f64::from(held.readers) + 0.5;
        let mut leave = |role, sessions, (why, urgency)| {
            if sessions > 0 {
                let working = working && why == Closed::Balance;
                leaves.push(Leave { server, role, sessions, why, urgency, working });
            }
        };
        if candidate.reads.is_eligible() {
            let share = shares[server] * f64::from(remembered);
            let (sessions, urgency) = excess(held.load, share, targets[server]);
            // What one session that works does is not known: one after the other.
            let sessions = sessions.min(if working { 1 } else { held.readers });
            leave(ListenerRole::Reader, sessions, (Closed::Balance, urgency));
        } else if let Some(how) = readers_leave(candidate, reads_elsewhere, reads_on_primary) {
            leave(ListenerRole::Reader, held.readers, how);
        }
        let writers = match held_primary == Some(server) {
            // Each client comes back as a new session, and is held until the new primary takes writes.
            true => Some((Closed::Switchover, Urgency::AtOnce)),
            false => writers_leave(candidate, server, writer),
        };
        if let Some(how) = writers {
            leave(ListenerRole::Writer, held.writers, how);
        }
    }
    leaves
}

/// Sessions beyond the share, once that is worth a move.
fn excess(load: f64, share: f64, target: u32) -> (u32, Urgency) {
    // A share that is a whole number may come out of the arithmetic a little above it.
    let beyond = load - share + 1e-6;
    if beyond >= (BAND * share).max(1.0) {
        (beyond.floor() as u32, Urgency::Paced)
    } else if load.round() as u32 > target && (CLOSE..1.0).contains(&beyond) {
        (1, Urgency::Trim)
    } else {
        (0, Urgency::Trim)
    }
}

fn readers_leave(
    candidate: &Candidate,
    reads_elsewhere: bool,
    reads_on_primary: bool,
) -> Option<(Closed, Urgency)> {
    match candidate.reads.reason()? {
        Reason::Draining => Some((Closed::Drained, Urgency::Draining)),
        _ if !reads_elsewhere && !reads_on_primary => None,
        Reason::IsPrimary if !reads_elsewhere => None,
        Reason::IsPrimary => Some((Closed::ReplicaBack, Urgency::Paced)),
        Reason::Silent { .. } | Reason::Failing { .. } => Some((Closed::NotEligible, Urgency::AtOnce)),
        Reason::Suspected { .. } | Reason::Unasked => None,
        _ if !reads_elsewhere => None,
        Reason::RoleUnknown { .. } | Reason::LagUnknown | Reason::Newcomer(_) => {
            Some((Closed::NotEligible, Urgency::Trim))
        }
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
    use proptest::prelude::*;

    fn readers(counts: &[u32]) -> Vec<Held> {
        counts.iter().map(|r| Held { readers: *r, load: f64::from(*r), writers: 0 }).collect()
    }

    fn two() -> fleet::Snapshot {
        snapshot("a", &[("a", 1.0), ("a", 1.0)], &[("a", 1.0)])
    }

    #[test]
    fn one_session_beyond_its_share_leaves_and_rounding_does_not() {
        let view = view(two());
        let leaves = decide(&view, &readers(&[0, 7, 1]), 8, 0.5);
        assert_eq!(leaves.len(), 1);
        assert_eq!((leaves[0].server, leaves[0].sessions, leaves[0].why), (1, 3, Closed::Balance));
        for balanced in [[0, 4, 4], [0, 5, 4], [0, 102, 98]] {
            let n = balanced.iter().sum();
            assert_eq!(decide(&view, &readers(&balanced), n, 0.5), [], "{balanced:?}");
        }
    }

    #[test]
    fn sessions_move_also_where_the_router_does_not_know_its_zone() {
        let readers_of = [("a", 1.0), ("a", 1.0), ("b", 2.0)];
        let view = view(snapshot("", &readers_of, &[("a", 0.5), ("b", 0.5)]));
        let leaves = decide(&view, &readers(&[0, 2, 2, 16]), 20, 0.5);
        assert_eq!(leaves.len(), 1);
        assert_eq!((leaves[0].server, leaves[0].sessions, leaves[0].why), (3, 6, Closed::Balance));
    }

    #[test]
    fn sessions_that_work_leave_one_by_one_where_as_many_do_too_much() {
        let view = view(two());
        let held = [(0, 0.0), (10, 15.0), (10, 5.0)];
        let held = held.map(|(readers, load)| Held { readers, load, writers: 0 });
        let leaves = decide(&view, &held, 20, 0.5);
        assert_eq!(leaves.len(), 1);
        assert_eq!((leaves[0].server, leaves[0].sessions, leaves[0].working), (1, 1, true));
        assert_eq!(decide(&view, &readers(&[0, 10, 10]), 20, 0.5), []);
    }

    #[test]
    fn half_a_session_too_many_is_trimmed_in_half_of_the_routers() {
        let view = view(snapshot("a", &[("a", 1.0), ("b", 1.0)], &[("a", 0.6), ("b", 0.4)]));
        // Share of a is 5/6: of nine sessions 7.5. Nine at home is one too many, eight is right for half of
        // the phases.
        let at = |phase: f64, home: u32| decide(&view, &readers(&[0, home, 9 - home]), 9, phase);
        assert_eq!(at(0.1, 9)[0].urgency, Urgency::Paced);
        assert_eq!((at(0.1, 8)[0].sessions, at(0.1, 8)[0].urgency), (1, Urgency::Trim));
        assert_eq!(at(0.9, 8), []);
    }

    #[test]
    fn sessions_closed_a_moment_ago_do_not_make_others_look_full() {
        let view = view(two());
        assert_eq!(decide(&view, &readers(&[0, 5, 2]), 10, 0.5), []);
    }

    #[test]
    fn a_silent_server_is_left_at_once_and_a_lagging_one_at_the_pace() {
        let mut s = two();
        s.servers[1].state = State::Silent { why: "no answer".to_owned() };
        let leaves = decide(&view(s), &readers(&[0, 5, 5]), 10, 0.5);
        assert_eq!((leaves[0].sessions, leaves[0].urgency), (5, Urgency::AtOnce));
        let mut s = two();
        s.servers[1].lag.as_mut().unwrap().at_least = std::time::Duration::from_secs(60);
        let leaves = decide(&view(s), &readers(&[0, 5, 5]), 10, 0.5);
        assert_eq!((leaves[0].sessions, leaves[0].urgency), (5, Urgency::Paced));
    }

    #[test]
    fn a_replica_of_unknown_lag_or_role_is_left_once_that_has_lasted() {
        let mut s = two();
        s.servers[1].lag = None;
        let leaves = decide(&view(s), &readers(&[0, 40, 0]), 40, 0.5);
        assert_eq!((leaves[0].sessions, leaves[0].urgency), (40, Urgency::Trim));
        assert_eq!(leaves[0].why, Closed::NotEligible);
        let mut s = two();
        s.servers[1].role = fleet::Role::Unknown;
        assert_eq!(decide(&view(s), &readers(&[0, 40, 0]), 40, 0.5)[0].sessions, 40);
    }

    #[test]
    fn nobody_leaves_when_there_is_nowhere_to_go() {
        let mut s = two();
        for server in &mut s.servers {
            server.state = State::Silent { why: "no answer".to_owned() };
        }
        assert_eq!(decide(&view(s), &readers(&[1, 5, 5]), 11, 0.5), []);
    }

    #[test]
    fn the_primary_is_somewhere_to_go_only_where_reads_may_go_there() {
        let mut s = two();
        for server in &mut s.servers[1..] {
            server.state = State::Silent { why: "no answer".to_owned() };
        }
        let mut view = view(s);
        let leaving = |view: &View| decide(view, &readers(&[0, 5, 5]), 10, 0.5).len();
        assert_eq!(leaving(&view), 2);
        let config = config::RouterConfig { reads_on_primary: false, ..config::RouterConfig::default() };
        view.config = std::sync::Arc::new(config);
        assert_eq!(leaving(&view), 0, "they would come back to the same server, or be refused");
    }

    #[test]
    fn reads_on_the_primary_go_home_when_a_replica_is_back() {
        let leaves = decide(&view(two()), &readers(&[6, 0, 0]), 6, 0.5);
        assert_eq!((leaves[0].server, leaves[0].sessions, leaves[0].why), (0, 6, Closed::ReplicaBack));
        assert_eq!(decide(&view(snapshot("a", &[], &[])), &readers(&[6]), 6, 0.5), []);
    }

    #[test]
    fn writers_leave_a_former_primary_at_once_but_not_while_nobody_takes_over() {
        let held = [Held { writers: 3, ..Held::default() }, Held::default(), Held::default()];
        let mut s = two();
        s.writer = WriterStatus::Known { server: ServerName::new("r0") };
        let leaves = decide(&view(s), &held, 0, 0.5);
        assert_eq!((leaves[0].role, leaves[0].urgency), (ListenerRole::Writer, Urgency::AtOnce));
        let mut s = two();
        s.writer = WriterStatus::Unknown { why: "two are writable".to_owned() };
        assert_eq!(decide(&view(s), &held, 0, 0.5), []);
    }

    #[test]
    fn writers_leave_a_primary_that_is_to_be_replaced_at_once_also_where_it_is_drained_before() {
        let held = [Held { writers: 3, ..Held::default() }, Held::default(), Held::default()];
        for drained in [false, true] {
            let mut s = two();
            s.servers[0].announced = fleet::Announcement::Hold;
            let mut own = crate::view::OwnState::default();
            own.draining.extend(drained.then(|| ServerName::new("p")));
            let now = std::time::Instant::now();
            let view = View::new(std::sync::Arc::new(s), std::sync::Arc::default(), &own, now);
            assert_eq!((view.held_primary(), view.writer()), (Some(0), None));
            let leaves = decide(&view, &held, 0, 0.5);
            let writers = leaves.iter().find(|leave| leave.role == ListenerRole::Writer).unwrap();
            assert_eq!((writers.why, writers.urgency), (Closed::Switchover, Urgency::AtOnce));
        }
    }

    proptest! {
        /// Where the flow table sends nobody, nobody stays: but for a doubt that the next look settles, or
        /// where nothing is left.
        #[test]
        fn sessions_follow_the_flow_table(
            kinds in proptest::collection::vec(0u8..8, 1..6),
            counts in proptest::collection::vec(0u32..50, 7),
            phase in 0.0..1.0f64,
        ) {
            let readers_of: Vec<(&str, f64)> = kinds.iter().map(|kind| (["a", "b"][usize::from(kind % 2)], 1.0)).collect();
            let mut s = snapshot("a", &readers_of, &[("a", 0.5), ("b", 0.5)]);
            for (server, kind) in s.servers[1..].iter_mut().zip(&kinds) {
                match kind {
                    2 => server.state = State::Silent { why: String::new() },
                    3 => server.lag = None,
                    4 => server.lag.as_mut().unwrap().at_least = Duration::from_secs(60),
                    5 => server.role = fleet::Role::Unknown,
                    6 => server.role = fleet::Role::Stray,
                    7 => server.reserved = Some("a rule".to_owned()),
                    _ => {}
                }
            }
            let view = view(s);
            let held = readers(&counts[..view.candidates.len()]);
            let n = held.iter().map(|h| h.readers).sum();
            let shares = view.shares(view.own_zone.as_ref());
            let elsewhere = shares.iter().any(|share| *share > 0.0);
            let leaves = decide(&view, &held, n, phase);
            for (server, candidate) in view.candidates.iter().enumerate() {
                let leaving = leaves.iter().filter(|l| l.server == server).map(|l| l.sessions).sum::<u32>();
                prop_assert!(leaving <= held[server].readers);
                if elsewhere && shares[server] == 0.0 {
                    prop_assert_eq!(leaving, held[server].readers, "{} {:?}", &candidate.name, &candidate.reads);
                }
            }
        }
    }
}
