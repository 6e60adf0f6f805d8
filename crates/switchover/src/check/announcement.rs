//! Whether routers get to know of the switchover in time: one that looks after the hold has begun is not
//! ready, nobody waits for it, and from the freeze on its writers meet error 1290.
//!
//! Where many routers share a server each asks it less often than configured ([`observe::Rhythm`]). How many
//! they are is counted by their seats, which tells their interval until nearly half of all seats are taken:
//! half is what any number more take, whose interval only they themselves know (`headroom status`).

use super::{Outcome, Situation, pass, warn};
use config::FleetConfig;
use fleet::duration_text;
use observe::Rhythm;
use serde::Serialize;
use std::time::Duration;

/// Routers are told this long before the hold at least, unless a person says otherwise.
const LEAST: Duration = Duration::from_millis(1_500);

/// The routers that ask the primary, as far as they can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AskingRouters {
    /// Those that have a seat there.
    pub seated: u32,
    /// How often each asks.
    pub interval: Duration,
    /// There may be more than these, which ask less often.
    pub maybe_more: bool,
}

impl AskingRouters {
    /// Those that have this many seats, by the interval and the budget of the configuration.
    pub fn of(fleet: &FleetConfig, seated: u32) -> Self {
        let visits = Rhythm::of_seats(fleet, seated).visits;
        // In tenths of a second, and never too short.
        let stretched = Duration::from_millis(100 * (visits.as_millis() as u64).div_ceil(100));
        let interval = if visits > fleet.interval { stretched } else { fleet.interval };
        // Of half of the seats, which many take, a fifth less may be taken at a moment.
        let maybe_more = seated * 5 >= fleet.asking.connections * 2;
        Self { seated, interval, maybe_more }
    }
}

/// How long before the hold routers are told that ask this often.
pub fn told_before(interval: Duration) -> Duration {
    LEAST.max(interval * 2)
}

pub(super) fn announced_in_time(s: &Situation<'_>) -> Outcome {
    let (prepare, primary) = (s.limits.prepare, &s.primary.server);
    let interval = s.limits.routers.map_or(s.limits.interval, |routers| routers.interval);
    let maybe_more = s.limits.routers.is_some_and(|routers| routers.maybe_more);
    let (told, every) = (duration_text(prepare), duration_text(interval));
    let asks = match s.limits.routers {
        Some(routers) if maybe_more => {
            format!("ask every {every} or less often ({} have a seat on {primary})", routers.seated)
        }
        Some(routers) if interval > s.limits.interval => {
            format!("ask every {every} ({} of them share {primary})", routers.seated)
        }
        _ => format!("ask every {every} ([fleet] interval)"),
    };
    let text = format!("routers are told {told} before the hold, and {asks}");
    let enough = duration_text(interval * 2);
    if prepare < interval * 2 {
        return warn(
            format!("{text}: one that has not asked by then does not hold"),
            format!("--prepare {enough} or more, or without --prepare"),
        );
    }
    // A person who says more than what is taken by itself has looked.
    if maybe_more && prepare <= told_before(interval) {
        return warn(
            format!("{text}: one that has not asked by then does not hold"),
            format!(
                "--prepare of more than {enough}: twice the interval at which a router asks {primary}, by \
                 its headroom status"
            ),
        );
    }
    pass(text)
}

#[cfg(test)]
mod tests {
    use super::super::{Level, Limits};
    use super::*;
    use crate::facts::tests::facts;

    /// What is said where routers are told this many milliseconds before the hold.
    fn found(prepare: u64, interval: u64, routers: Option<AskingRouters>) -> Outcome {
        let (primary, candidate) = (facts("a1", "8.4.2"), facts("a2", "8.4.2"));
        let [prepare, interval] = [prepare, interval].map(Duration::from_millis);
        let situation = Situation {
            primary: &primary,
            candidate: &candidate,
            others: &[],
            limits: Limits { prepare, interval, routers, ..Limits::default() },
            has_replication_login: true,
            login: None,
            exposure: None,
        };
        announced_in_time(&situation)
    }

    #[test]
    fn routers_are_told_two_of_their_intervals_before_the_hold() {
        let usual = Limits::default();
        assert_eq!(usual.prepare, told_before(usual.interval));
        assert_eq!(found(1_500, 500, None).0, Level::Pass);
        assert_eq!(found(4_000, 2_000, None).0, Level::Pass);
        let (level, text, mend) = found(1_500, 2_000, None);
        assert!(level == Level::Warn && text.starts_with("routers are told 1.5s before the hold"), "{text}");
        assert!(mend.unwrap().starts_with("--prepare 4s or more"));
    }

    #[test]
    fn many_that_share_the_primary_ask_less_often_and_are_told_sooner() {
        let fleet = FleetConfig::default();
        let few = AskingRouters::of(&fleet, 7);
        assert_eq!((few.interval, few.maybe_more), (fleet.interval, false));
        assert_eq!(found(1_500, 500, Some(few)).0, Level::Pass);
        let some = AskingRouters::of(&fleet, 30);
        assert_eq!((some.interval, some.maybe_more), (Duration::from_secs(2), false));
        let (level, text, mend) = found(1_500, 500, Some(some));
        assert!(level == Level::Warn && text.contains("every 2s (30 of them share a1)"), "{text}");
        assert!(mend.unwrap().starts_with("--prepare 4s or more"));
        assert_eq!(told_before(some.interval), Duration::from_secs(4));
        assert_eq!(found(4_000, 500, Some(some)).0, Level::Pass);
    }

    #[test]
    fn where_half_of_the_seats_are_taken_a_person_has_to_look() {
        let many = AskingRouters::of(&FleetConfig::default(), 50);
        assert!(many.maybe_more && many.interval == Duration::from_millis(3_300), "{many:?}");
        let by_itself = told_before(many.interval).as_millis() as u64;
        let (level, text, mend) = found(by_itself, 500, Some(many));
        assert!(level == Level::Warn && text.contains("or less often (50 have a seat on a1)"), "{text}");
        assert!(mend.unwrap().ends_with("by its headroom status"));
        assert_eq!(found(120_000, 500, Some(many)).0, Level::Pass);
    }
}
