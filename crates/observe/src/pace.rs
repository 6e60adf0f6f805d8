//! How often one server is asked, so that it costs the same however many routers ask.
//!
//! Routers share nothing, so each counts the others on the server itself. Whoever asks takes a *seat* there,
//! one of [`Budget::seats`] user locks, and keeps it for [`Budget::hold`] after its visit at least: those
//! that visit more often never leave it, those that visit seldom give it back with their connection. A visit
//! that finds `c` other seats taken therefore knows how many visits the server has, `c / hold` a second, and
//! how many routers pay them, if the others are as patient as we are:
//!
//! ```text
//! n = 1 + c * max(interval, hold) / hold
//! ```
//!
//! With `B` visits a second allowed, `n / B` is the fair interval, and that is what is used while all have
//! seats (`n / B <= hold`). Beyond, each knows only the *sum* of all visits: `x = c / (B * hold)` times what
//! is allowed. The interval grows with it, and is drawn a little towards a value that all agree on, or
//! routers that began at different times would keep different shares for ever:
//!
//! ```text
//! interval' = interval * x^0.2 * (hold / interval)^0.01        x^1 where x > 1.7
//! ```
//!
//! The exponents are a compromise: `c` is a random number with an error of about 13 %, which a smaller one
//! evens out; and at rest `x = (interval / hold)^(0.01 / 0.2)`, so that the sum is exceeded a little as
//! routers become more: by 15 % for a thousand. The budget for visits leaves room for that. Half of the seats
//! are taken then, and never more than there are: who finds none closes its connection after the visit.
//!
//! Worked example, 50 statements a second and 100 connections: `B` = 15.5, `hold` = 50 / 15.5 = 3.2 s. Seven
//! routers ask every 500 ms, as one does, 50 every 3.2 s, 1,000 every 55 s: 18 visits of two statements a
//! second.
//!
//! What cannot wait for that: a failure, which one's own sessions meet ([`Pace::after_suspicion`]), and a
//! change of primary, while which all are asked at [`Pace::in_an_event`].

#[cfg(test)]
mod simulation;

use config::FleetConfig;
use fleet::Asking;
use std::time::Duration;

/// Time between two looks at each server while a switchover is announced, for up to eight routers.
pub(crate) const OFTEN: Duration = Duration::from_millis(20);

/// Of the statements allowed, this share is for visits; the rest is for what is asked seldom, and reserve.
const FOR_VISITS: f64 = 0.62;
/// And this one for what is asked seldom.
const FOR_SELDOM: f64 = 0.1;
/// Switches and position, and the replication threads.
const STATEMENTS_A_VISIT: f64 = 2.0;
/// Questions that are asked seldom.
const SELDOM_STATEMENTS: f64 = 3.0;
/// How strongly an interval longer than the hold follows the sum of all visits, and how strongly where that
/// is far too much.
const GAIN: f64 = 0.2;
const FAR_TOO_MUCH: f64 = 1.7;
/// How strongly it is drawn to what all agree on.
const AGREED: f64 = 0.01;
/// Visits a second of all routers together while a primary is being replaced.
const EVENT_VISITS: f64 = 500.0;
/// A new primary is to be known within three seconds, however many ask.
const LONGEST_IN_AN_EVENT: Duration = Duration::from_millis(2_500);
/// Attempts a second of all routers together at a server that fails.
const ATTEMPTS: f64 = 100.0;
/// Nobody asks less often.
const LONGEST: Duration = Duration::from_secs(600);
/// The others are counted this often by those that never leave.
const COUNT_EVERY: Duration = Duration::from_secs(5);

/// What all may ask of one server together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Budget {
    /// The configured interval, which nobody falls below.
    usual: Duration,
    /// Statements a second.
    statements: f64,
    seats: u32,
    counted: bool,
}

/// The seats found on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seats {
    /// All that are taken, ours included.
    pub(crate) taken: u32,
    /// Whether one is ours.
    pub(crate) mine: bool,
}

/// How often one server is asked now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    interval: Duration,
    /// How many ask it, ourselves included; `None` where they cannot be counted.
    routers: Option<f64>,
}

/// How often each router asks a server, once all that ask it have found their pace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rhythm {
    /// The time between two visits.
    pub visits: Duration,
    /// The time between two samples of its counters: clients, statements, buffer pool.
    pub counters: Duration,
}

impl Rhythm {
    /// That of this many routers. Exact while all have seats; of more, within a fifth.
    pub fn of(config: &FleetConfig, routers: u32) -> Self {
        let budget = Budget::of(config);
        let pace = Pace { interval: budget.usual, routers: Some(f64::from(routers)) };
        let visits = Duration::from_secs_f64(f64::from(routers) / budget.visits()).max(budget.usual);
        Self { visits, counters: pace.seldom(&budget).max(Duration::from_secs(1)) + visits }
    }

    /// That of the routers, by how many have a seat at a moment: all of them, or a share of those that
    /// visit less often than a seat is kept. Where nearly half of the seats are taken there may be any number
    /// more, whose visits are further apart.
    pub fn of_seats(config: &FleetConfig, taken: u32) -> Self {
        let budget = Budget::of(config);
        let hold = budget.hold().as_secs_f64();
        let routers = f64::from(taken) * budget.usual.as_secs_f64().max(hold) / hold;
        Self::of(config, routers.round().max(1.0) as u32)
    }

    /// The time between two visits of each of this many routers while a switchover is announced.
    pub fn while_announced(routers: u64) -> Duration {
        Pace { interval: LONGEST, routers: Some(routers as f64) }.in_an_event(OFTEN)
    }
}

impl Budget {
    pub(crate) fn of(config: &FleetConfig) -> Self {
        Self {
            usual: config.interval,
            statements: f64::from(config.asking.statements_per_second),
            seats: config.asking.connections,
            counted: config.asking.counted,
        }
    }

    /// How many seats there are, if they are counted.
    pub(crate) fn seats(&self) -> Option<u32> {
        self.counted.then_some(self.seats)
    }

    /// How long a seat is kept after a visit.
    pub(crate) fn hold(&self) -> Duration {
        Duration::from_secs_f64(f64::from(self.seats) / 2.0 / self.visits())
    }

    fn visits(&self) -> f64 {
        self.statements * FOR_VISITS / STATEMENTS_A_VISIT
    }
}

impl Pace {
    /// That of a server not asked yet.
    pub(crate) fn new(budget: &Budget) -> Self {
        Self { interval: budget.usual, routers: None }
    }

    /// The pace after a visit that found these seats; `None`: they could not be counted, and nothing changes.
    pub(crate) fn after(self, budget: &Budget, seats: Option<Seats>) -> Self {
        let Some(seats) = seats else { return self };
        let hold = budget.hold().as_secs_f64();
        let others = f64::from(seats.taken.saturating_sub(u32::from(seats.mine)));
        let routers = 1.0 + others * self.interval.as_secs_f64().max(hold) / hold;
        let fair = routers / budget.visits();
        let now = self.interval.as_secs_f64();
        let interval = if now > hold {
            let sum = (others + 1.0) / (budget.visits() * hold);
            let gain = if sum > FAR_TOO_MUCH { 1.0 } else { GAIN };
            now * sum.powf(gain) * (hold / now).powf(AGREED)
        } else {
            fair
        };
        // What was counted may be a lull: nobody becomes more than twice as fast at once.
        let interval = Duration::from_secs_f64(interval.min(LONGEST.as_secs_f64())).max(self.interval / 2);
        Self { interval: interval.max(budget.usual), routers: Some(routers) }
    }

    /// The time between two visits.
    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// How many ask it as far as is known, ourselves included.
    pub(crate) fn routers(&self) -> f64 {
        self.routers.unwrap_or(1.0)
    }

    /// How long after a visit the connection is given up; `None`: it stays.
    pub(crate) fn gives_up_after(&self, budget: &Budget, has_seat: bool) -> Option<Duration> {
        let seldom = budget.counted && self.interval > budget.hold();
        seldom.then(|| if has_seat { budget.hold() } else { Duration::ZERO })
    }

    /// The time between two counts of the others.
    pub(crate) fn counts_every(&self, budget: &Budget) -> Duration {
        if self.interval > budget.hold() { Duration::ZERO } else { COUNT_EVERY }
    }

    /// The shortest time between two rounds of seldom questions.
    pub(crate) fn seldom(&self, budget: &Budget) -> Duration {
        Duration::from_secs_f64(self.routers() * SELDOM_STATEMENTS / (budget.statements * FOR_SELDOM))
    }

    /// Time between two visits while the primary is being replaced; `least` for one router alone.
    pub(crate) fn in_an_event(&self, least: Duration) -> Duration {
        let all = Duration::from_secs_f64(self.routers() / EVENT_VISITS).min(LONGEST_IN_AN_EVENT);
        all.max(least).min(self.interval.max(least))
    }

    /// Time until a suspicion is followed up. The server is avoided meanwhile, so all may take their time:
    /// `random` (0 to 1) spreads them.
    pub(crate) fn after_suspicion(&self, random: f64) -> Duration {
        let all = Duration::from_secs_f64((self.routers() - 1.0) / EVENT_VISITS);
        all.min(LONGEST_IN_AN_EVENT).mul_f64(random)
    }

    /// The interval for a server that fails: its return is noticed sooner than what it says when all answer.
    pub(crate) fn while_it_fails(&self, budget: &Budget) -> Duration {
        Duration::from_secs_f64(self.routers() / ATTEMPTS).max(budget.usual).min(self.interval)
    }

    /// A pause made 10 % longer or shorter, so that routers that began together do not ask together. One that
    /// is alone needs none.
    pub(crate) fn spread(&self, pause: Duration, random: f64) -> Duration {
        if self.routers() < 1.5 { pause } else { pause.mul_f64(0.9 + 0.2 * random) }
    }

    /// What is shown of it; `counters` is the time between two samples of a server's counters.
    pub(crate) fn asking(&self, budget: &Budget, counters: Option<Duration>) -> Asking {
        let routers = self.routers.map(|n| n.round() as u64);
        let because = (self.interval > budget.usual).then(|| match routers {
            Some(0 | 1) | None => format!("at most {} statements a second are allowed", budget.statements),
            Some(routers) => format!(
                "about {routers} routers ask it, and all together may ask {} statements a second",
                budget.statements
            ),
        });
        Asking { interval: self.interval, counters, routers, because }
    }
}

/// A random number from 0 to 1.
pub(crate) fn random() -> f64 {
    use std::hash::{BuildHasher, Hasher};
    // Keys of the standard library's hash maps are random.
    let bits = std::hash::RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn budget() -> Budget {
        Budget::of(&FleetConfig::default())
    }

    fn seats(taken: u32) -> Option<Seats> {
        Some(Seats { taken, mine: true })
    }

    #[test]
    fn few_ask_at_the_configured_interval_and_what_cannot_be_counted_changes_nothing() {
        let pace = Pace::new(&budget());
        assert_eq!(pace.after(&budget(), seats(7)).interval(), Duration::from_millis(500));
        assert_eq!(pace.after(&budget(), None), pace);
        assert_eq!(pace.asking(&budget(), None).because, None);
    }

    #[test]
    fn fifty_keep_their_connections_and_ask_every_three_seconds() {
        let pace = Pace::new(&budget()).after(&budget(), seats(50));
        let seconds = pace.interval().as_secs_f64();
        assert!((3.1..3.4).contains(&seconds), "{seconds}");
        assert_eq!(pace.gives_up_after(&budget(), true), None);
        let asking = pace.asking(&budget(), None);
        assert_eq!(asking.routers, Some(50));
        assert!(asking.because.unwrap().contains("50 routers"));
    }

    #[test]
    fn counters_come_every_minute_where_a_hundred_routers_ask() {
        let rhythm = |routers| Rhythm::of(&FleetConfig::default(), routers);
        let seconds = |routers| rhythm(routers).counters.as_secs_f64();
        assert_eq!(rhythm(1).visits, Duration::from_millis(500));
        assert!((1.4..1.6).contains(&seconds(1)) && (12.0..14.0).contains(&seconds(20)), "{}", seconds(20));
        assert!((60.0..70.0).contains(&seconds(100)), "{}", seconds(100));
    }

    #[test]
    fn the_seats_that_are_taken_tell_how_often_their_routers_visit() {
        let visits = |config: &FleetConfig, taken| Rhythm::of_seats(config, taken).visits.as_secs_f64();
        let usual = FleetConfig::default();
        assert_eq!((visits(&usual, 0), visits(&usual, 7)), (0.5, 0.5));
        assert!((3.1..3.4).contains(&visits(&usual, 50)), "{}", visits(&usual, 50));
        // A seat is kept for 3.2 s: at a moment 20 of 62 routers that visit every ten seconds have one.
        let seldom = FleetConfig { interval: Duration::from_secs(10), ..FleetConfig::default() };
        assert_eq!(visits(&seldom, 20), 10.0);
        assert_eq!(Rhythm::while_announced(0), OFTEN);
        assert_eq!(Rhythm::while_announced(100), Duration::from_millis(200));
        assert_eq!(Rhythm::while_announced(3_000), LONGEST_IN_AN_EVENT);
    }

    #[test]
    fn who_finds_no_seat_leaves_at_once_when_many_ask() {
        let all = Seats { taken: 100, mine: false };
        let pace = Pace::new(&budget()).after(&budget(), Some(all));
        assert_eq!(pace.gives_up_after(&budget(), false), Some(Duration::ZERO));
        assert_eq!(pace.gives_up_after(&budget(), true), Some(budget().hold()));
    }

    proptest! {
        /// More seats taken never make anybody ask more often, and the configured interval is the shortest.
        #[test]
        fn the_interval_grows_with_the_seats(from_ms in 500u64..100_000, a in 1u32..=100, b in 1u32..=100) {
            let before = Pace { interval: Duration::from_millis(from_ms), routers: None };
            let of = |taken| before.after(&budget(), seats(taken)).interval();
            prop_assert!(of(a.min(b)) <= of(a.max(b)));
            prop_assert!(of(a) >= budget().usual && of(a) <= LONGEST);
        }

        /// If all ask at one interval, each visit brings the sum nearer to the budget, and never far beyond.
        #[test]
        fn those_of_one_mind_come_nearer_to_the_budget(n in 60u32..20_000, from_s in 3.1f64..600.0) {
            let hold = budget().hold().as_secs_f64();
            let taken = (f64::from(n) * hold / from_s).round();
            prop_assume!((5.0..100.0).contains(&taken));
            let before = Pace { interval: Duration::from_secs_f64(from_s), routers: None };
            let after = before.after(&budget(), seats(taken as u32));
            let sum = |pace: Pace| f64::from(n) / pace.interval().as_secs_f64() / budget().visits();
            let (was, is) = (sum(before), sum(after));
            // Nearer to 1, or within what is owed to the value that all agree on.
            let at_rest = (after.interval().as_secs_f64() / hold).max(1.0).powf(AGREED / GAIN) * 1.1;
            prop_assert!(is <= was.max(at_rest), "{was} became {is}");
            prop_assert!(is >= was.min(0.85), "{was} became {is}");
        }

        /// Two that differ come nearer to each other with each visit.
        #[test]
        fn differences_shrink(a in 10.0f64..300.0, factor in 1.1f64..4.0, taken in 30u32..100) {
            let of = |seconds: f64| {
                let pace = Pace { interval: Duration::from_secs_f64(seconds), routers: None };
                pace.after(&budget(), seats(taken)).interval().as_secs_f64()
            };
            prop_assert!(of(a * factor) / of(a) <= factor + 1e-6);
        }
    }
}
