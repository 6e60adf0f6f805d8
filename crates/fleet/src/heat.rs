//! Heat: how far a server's buffer pool is warm, told from the share of its page reads that go to the disk,
//! beside the same share elsewhere. Pure: counters and times are arguments.
//!
//! ```text
//! miss rate = Innodb_buffer_pool_reads / Innodb_buffer_pool_read_requests     over a window
//! heat      = (the others' + FLOOR) / (its own + FLOOR)                       LEAST to 1
//! ```
//!
//! A server that gets this share of its reads asks its disk for about as many pages a second as the others
//! ask theirs: a cold one fills without a queue at its disk. By read requests, not by statements, so that a
//! server with harder statements is not called cold.
//!
//! **The others' rate** is their median, the upper of two: when at least half of the others are as cold
//! (all were restarted, the data outgrew the memory) it is a common cause, and nobody gets less for it.
//!
//! **The floor** is what a warm pool may miss. At four to ten page reads a statement, [`FLOOR`] is one
//! statement in ten to twenty-five that waits for the disk. Far below it a server has no disk reads to speak
//! of, whatever the others have.
//!
//! **Unknown is not zero.** Too few page reads, missing counters or nobody to compare with give `None`.

use std::time::{Duration, Instant};

/// The miss rate below which differences hardly count.
pub const FLOOR: f64 = 0.01;
/// The least heat: a server that gets nothing would never become warm.
pub const LEAST: f64 = 0.1;
/// From here on a server counts as warm.
pub const WARM: f64 = 0.8;
/// Page reads that a miss rate is told from, at least.
const ENOUGH: f64 = 500.0;
/// Time constant in which old page reads are forgotten.
const WINDOW: Duration = Duration::from_secs(5);

/// A server that seems to have started this much later than before was restarted.
const LATER: Duration = Duration::from_secs(3);

/// The status variables that [`PoolCounters::read`] asks for.
pub const VARIABLES: [&str; 4] = [
    "Innodb_buffer_pool_reads",
    "Innodb_buffer_pool_read_requests",
    "Innodb_buffer_pool_load_status",
    "Uptime",
];

/// A buffer pool's counters since the server started, as one answer gives them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolCounters {
    /// When they were read.
    pub at: Instant,
    /// For how long the server has been up.
    pub up: Duration,
    /// Pages asked of the pool.
    pub requests: u64,
    /// Of these, pages that had to be read from the disk.
    pub misses: u64,
    /// What it does with the pages that it remembered when it was stopped.
    pub load: PoolLoad,
}

/// Whether a server reads back the pages that it remembered (`innodb_buffer_pool_load_at_startup`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PoolLoad {
    /// It does not, or does not say.
    None,
    /// It is at it.
    Loading {
        /// The part that is done, 0 to 1.
        part: f64,
    },
    /// It has done so.
    Completed,
}

/// The miss rate of one server, lately.
#[derive(Clone, Copy, Debug, Default)]
pub struct MissRate {
    last: Option<PoolCounters>,
    requests: f64,
    misses: f64,
}

impl PoolCounters {
    /// Reads them from a server's status variables; `None` where one is missing, as without InnoDB.
    pub fn read<'a>(at: Instant, value: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let [misses, requests, load, up] = VARIABLES.map(value);
        Some(Self {
            at,
            up: Duration::from_secs(up?.parse().ok()?),
            requests: requests?.parse().ok()?,
            misses: misses?.parse().ok()?,
            load: load.map_or(PoolLoad::None, PoolLoad::read),
        })
    }

    /// When the server was started.
    pub fn started(&self) -> Option<Instant> {
        self.at.checked_sub(self.up)
    }

    /// Whether the server was restarted since `before`: what it counts begins anew.
    pub fn restarted_since(&self, before: &Self) -> bool {
        let went_back = self.requests < before.requests || self.misses < before.misses;
        // It counts whole seconds, and an answer may be late.
        let began_later = self.started().zip(before.started()).is_some_and(|(now, then)| now > then + LATER);
        went_back || began_later
    }
}

impl PoolLoad {
    /// Reads `Innodb_buffer_pool_load_status`; both flavours have the same words.
    pub fn read(status: &str) -> Self {
        if status.contains("load completed") {
            return Self::Completed;
        }
        let pages = || {
            let (loaded, all) = status.strip_prefix("Loaded ")?.split_once('/')?;
            let all: f64 = all.split_whitespace().next()?.parse().ok()?;
            Some((loaded.trim().parse::<f64>().ok()? / all.max(1.0)).clamp(0.0, 1.0))
        };
        match pages() {
            Some(part) => Self::Loading { part },
            None if status.starts_with("Loading buffer pool") => Self::Loading { part: 0.0 },
            None => Self::None,
        }
    }
}

impl MissRate {
    /// Takes in what a server counted; the same answer twice changes nothing. Whether the server was
    /// restarted since the last one: then what was known is forgotten.
    pub fn take(&mut self, now: &PoolCounters) -> bool {
        let Some(last) = self.last.replace(*now) else { return false };
        if last.at >= now.at {
            self.last = Some(last);
            return false;
        }
        if now.restarted_since(&last) {
            (self.requests, self.misses) = (0.0, 0.0);
            return true;
        }
        let keep = (-now.at.duration_since(last.at).as_secs_f64() / WINDOW.as_secs_f64()).exp();
        self.requests = self.requests * keep + (now.requests - last.requests) as f64;
        self.misses = self.misses * keep + (now.misses - last.misses) as f64;
        false
    }

    /// The share of page reads that went to the disk, 0 to 1; `None` while too few are known.
    pub fn value(&self) -> Option<f64> {
        (self.requests >= ENOUGH).then(|| (self.misses / self.requests).clamp(0.0, 1.0))
    }

    /// What the server last counted.
    pub fn last(&self) -> Option<&PoolCounters> {
        self.last.as_ref()
    }
}

/// The miss rate that a server is compared with: the median of the others', the upper of two. `None` without
/// others.
pub fn of_the_others(rates: &[f64]) -> Option<f64> {
    let mut rates = rates.to_vec();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

/// How warm a server is, [`LEAST`] to 1, by its own miss rate and the one that it is compared with.
pub fn heat(own: f64, others: f64) -> f64 {
    ((others.max(0.0) + FLOOR) / (own.max(0.0) + FLOOR)).clamp(LEAST, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counters(start: Instant, second: u64, requests: u64, misses: u64) -> PoolCounters {
        let (at, up) = (start + Duration::from_secs(second), Duration::from_secs(1000 + second));
        PoolCounters { at, up, requests, misses, load: PoolLoad::None }
    }

    #[test]
    fn counters_are_read_where_all_are_there() {
        let now = Instant::now();
        let read = |misses: Option<&'static str>| {
            PoolCounters::read(now, |name| match name {
                "Innodb_buffer_pool_reads" => misses,
                "Innodb_buffer_pool_read_requests" => Some("4000"),
                "Uptime" => Some("17"),
                _ => None,
            })
        };
        let counters = read(Some("40")).unwrap();
        assert_eq!((counters.requests, counters.misses, counters.up.as_secs()), (4000, 40, 17));
        assert_eq!(read(None), None, "no InnoDB");
        assert_eq!(read(Some("many")), None);
    }

    #[test]
    fn the_state_of_a_load_is_read() {
        for (status, load) in [
            ("", PoolLoad::None),
            ("Loading of buffer pool not started", PoolLoad::None),
            ("Loading buffer pool(s) from /var/lib/mysql/ib_buffer_pool", PoolLoad::Loading { part: 0.0 }),
            ("Loaded 128/512 pages", PoolLoad::Loading { part: 0.25 }),
            ("Loaded 0/0 pages", PoolLoad::Loading { part: 0.0 }),
            ("Buffer pool(s) load completed at 261125  1:02:03", PoolLoad::Completed),
            ("Buffer pool(s) load aborted on request", PoolLoad::None),
        ] {
            assert_eq!(PoolLoad::read(status), load, "{status}");
        }
    }

    #[test]
    fn a_rate_is_what_was_missed_lately_and_unknown_without_page_reads() {
        let start = Instant::now();
        let mut rate = MissRate::default();
        rate.take(&counters(start, 0, 1_000_000, 900_000));
        assert_eq!(rate.value(), None, "what was before says nothing of now");
        rate.take(&counters(start, 1, 1_000_100, 900_050));
        assert_eq!(rate.value(), None, "too few");
        rate.take(&counters(start, 2, 1_001_100, 900_550));
        assert!((rate.value().unwrap() - 0.5).abs() < 1e-9);
        rate.take(&counters(start, 2, 1_001_100, 900_550));
        assert!((rate.value().unwrap() - 0.5).abs() < 1e-9, "the same answer twice");
        rate.take(&counters(start, 62, 1_101_100, 900_550));
        assert!(rate.value().unwrap() < 1e-3, "a minute ago is forgotten");
        rate.take(&counters(start, 200, 1_101_101, 900_550));
        assert_eq!(rate.value(), None, "nobody reads any more");
    }

    #[test]
    fn counters_that_go_back_are_a_restart_and_what_was_known_is_forgotten() {
        let start = Instant::now();
        let mut rate = MissRate::default();
        rate.take(&counters(start, 0, 10_000, 0));
        rate.take(&counters(start, 1, 20_000, 0));
        assert_eq!(rate.value(), Some(0.0));
        let back = PoolCounters { up: Duration::from_secs(1), ..counters(start, 3, 90_000, 8) };
        assert!(rate.take(&back), "it has been up for a second");
        assert_eq!(rate.value(), None);
        assert!(!rate.take(&PoolCounters { up: Duration::from_secs(2), ..counters(start, 4, 91_000, 500) }));
        assert!((rate.value().unwrap() - 0.492).abs() < 1e-9);
        assert!(rate.take(&counters(start, 5, 10, 1)), "they went back");
    }

    #[test]
    fn one_cold_server_is_beside_warm_ones_and_a_cold_tier_is_a_common_cause() {
        let by = |own: f64, others: &[f64]| of_the_others(others).map(|others| heat(own, others));
        assert_eq!(by(0.5, &[0.0, 0.0]), Some(LEAST));
        assert!((by(0.03, &[0.0, 0.0]).unwrap() - 0.25).abs() < 1e-9);
        assert!(by(0.002, &[0.0, 0.0]).unwrap() > WARM, "no disk reads to speak of");
        assert_eq!(by(0.3, &[0.3, 0.0]), Some(1.0), "two of three are cold: the one left cannot carry all");
        assert_eq!(by(0.3, &[0.3, 0.3]), Some(1.0));
        assert_eq!(by(0.3, &[]), None);
    }

    proptest! {
        #[test]
        fn heat_is_bounded_and_falls_with_the_own_rate_and_rises_with_the_others(
            own in 0.0..1.0f64, more in 0.0..1.0f64, others in 0.0..1.0f64, theirs_more in 0.0..1.0f64
        ) {
            let at = heat(own, others);
            prop_assert!((LEAST..=1.0).contains(&at));
            prop_assert!(heat(own + more, others) <= at);
            prop_assert!(heat(own, others + theirs_more) >= at);
            prop_assert_eq!(heat(own, own), 1.0, "a common cause");
        }

        #[test]
        fn the_rate_of_the_others_is_one_of_them(rates in prop::collection::vec(0.0..1.0f64, 1..9)) {
            let of = of_the_others(&rates).unwrap();
            let below = rates.iter().filter(|rate| **rate <= of).count();
            prop_assert!(rates.contains(&of) && below * 2 > rates.len());
        }

        #[test]
        fn no_order_of_counters_breaks_a_rate(of in prop::collection::vec((0u64..3, 0u64..10_000, 0u64..10_000), 1..30)) {
            let (start, mut rate, mut second) = (Instant::now(), MissRate::default(), 0);
            for (passed, requests, misses) in of {
                second += passed;
                rate.take(&counters(start, second, requests, misses));
                prop_assert!(rate.value().is_none_or(|rate| (0.0..=1.0).contains(&rate)));
            }
        }
    }
}
