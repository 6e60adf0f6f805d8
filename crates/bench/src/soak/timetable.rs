//! What goes wrong and when: drawn from a seed, one fault at a time, so that a run can be repeated.
//!
//! One server at a time, and time to come back in between: a reader that cannot be served then is no one's
//! fault but the router's. Replicas meet everything; so do parts of the router itself, which are made to
//! panic (one fault in five); the primary only stands still for a moment, for who is to take its place when
//! it dies is another question than this one.

use lab::Fault;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use std::time::Duration;

/// Nothing goes wrong before this, nor so shortly before the end.
const QUIET: Duration = Duration::from_secs(10);
/// Between the end of one fault and the next, from and to.
const BETWEEN_S: (f64, f64) = (12.0, 30.0);
/// A killed server stays away for this long, from and to; starting it takes some more.
const AWAY_S: (f64, f64) = (1.0, 6.0);

/// A fault that is to come.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Planned {
    /// Seconds from the start of the load.
    pub(super) at_s: f64,
    /// How long it is to last, seconds.
    pub(super) lasts_s: f64,
    /// Which server it happens to.
    pub(super) server: String,
    /// The lab's word.
    pub(super) what: &'static str,
    #[serde(skip)]
    pub(super) fault: Trouble,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Trouble {
    /// To a server.
    Server(Fault),
    /// To the router, in the words of `--faults-from-stdin`.
    Router(&'static str),
}

/// In the place of a server's name.
pub(super) const ROUTER: &str = "router";
/// What happens to the router: one of its parts panics.
const PARTS: [&str; 4] = ["ring 0 panics", "thread 0 panics", "listener 0 panics", "rebalancer panics"];
/// One fault in this many is the router's.
const OF_ROUTER: f64 = 0.2;

/// All that goes wrong in a run of this length. `servers` begins with the primary.
pub(super) fn timetable(servers: &[String], length: Duration, seed: u64) -> Vec<Planned> {
    let mut rng = StdRng::seed_from_u64(seed);
    let Some((primary, replicas)) = servers.split_first() else { return Vec::new() };
    let mut planned = Vec::new();
    let mut at_s = QUIET.as_secs_f64();
    loop {
        let kinds = [("kill", Fault::Kill), ("freeze", Fault::Freeze), ("blackhole", Fault::Blackhole)];
        let mut kinds = kinds.to_vec();
        kinds.push(("refuse", Fault::Refuse));
        let of_primary = replicas.is_empty() || rng.random_bool(0.1);
        let (what, fault) = match kinds.choose(&mut rng) {
            Some(kind) if !of_primary => *kind,
            _ => ("freeze", Fault::Freeze),
        };
        let server = replicas.choose(&mut rng).filter(|_| !of_primary).unwrap_or(primary).clone();
        let lasts_s = match fault {
            Fault::Kill => rng.random_range(AWAY_S.0..AWAY_S.1),
            Fault::Freeze => 2.0,
            _ => 5.0,
        };
        let mut next = Planned { at_s, lasts_s, server, what, fault: Trouble::Server(fault) };
        if rng.random_bool(OF_ROUTER) {
            let what = PARTS.choose(&mut rng).copied().unwrap_or(PARTS[0]);
            let (server, fault) = (ROUTER.to_owned(), Trouble::Router(what));
            next = Planned { at_s, lasts_s: 1.0, server, what, fault };
        }
        let lasts_s = next.lasts_s;
        if at_s + lasts_s + QUIET.as_secs_f64() > length.as_secs_f64() {
            return planned;
        }
        planned.push(next);
        at_s += lasts_s + rng.random_range(BETWEEN_S.0..BETWEEN_S.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour(seed: u64) -> Vec<Planned> {
        let servers = ["a1", "a2", "b1"].map(str::to_owned);
        timetable(&servers, Duration::from_secs(3600), seed)
    }

    #[test]
    fn an_hour_has_every_fault_one_at_a_time_and_the_primary_only_stands_still() {
        let hour = hour(1);
        for what in ["kill", "freeze", "blackhole", "refuse"] {
            assert!(hour.iter().filter(|p| p.what == what && p.server != "a1").count() > 5, "{what}");
        }
        assert!(hour.windows(2).all(|p| p[0].at_s + p[0].lasts_s + BETWEEN_S.0 <= p[1].at_s));
        for part in PARTS {
            assert!(hour.iter().any(|p| p.what == part && p.server == ROUTER), "{part}");
        }
        assert!(hour.iter().all(|p| p.server != "a1" || p.fault == Trouble::Server(Fault::Freeze)));
        assert!(hour.last().is_some_and(|p| p.at_s + p.lasts_s < 3590.0));
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(hour(7), hour(7));
        assert_ne!(hour(7), hour(8));
    }

    #[test]
    fn a_run_too_short_for_a_fault_has_none() {
        assert!(timetable(&["a1".to_owned()], Duration::from_secs(15), 1).is_empty());
    }
}
