//! Warm-ups of made-up counters: who is cold, who only looks cold, and that shares only rise.

use super::*;
use proptest::prelude::*;

/// Readers that count, second by second.
struct Fleet {
    start: Instant,
    second: u64,
    readers: Vec<Reader>,
    heats: Heats,
    config: RouterConfig,
    ended: Vec<WarmUpEnded>,
}

impl Fleet {
    /// Three readers that have been up for a day.
    fn new() -> Self {
        let start = Instant::now() + Duration::from_secs(200_000);
        let up = Duration::from_secs(86_400);
        let pool = PoolCounters { at: start, up, requests: 1 << 40, misses: 1 << 30, load: PoolLoad::None };
        let reader = |at: usize| Reader {
            name: ServerName::new(&format!("r{at}")),
            back_since: None,
            pool: Some(pool),
            spacing: Duration::ZERO,
            times: None,
        };
        let (readers, config) = ((0..3).map(reader).collect(), RouterConfig::default());
        Self { start, second: 0, readers, heats: Heats::default(), config, ended: Vec::new() }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_secs(self.second)
    }

    /// The reader comes back restarted: all that it counts begins anew.
    fn restart(&mut self, at: usize) {
        let now = self.now();
        let pool = PoolCounters { at: now, up: Duration::ZERO, requests: 0, misses: 0, load: PoolLoad::None };
        let reader = &mut self.readers[at];
        (reader.back_since, reader.pool) = (Some(now), Some(pool));
    }

    /// A second in which each reader is asked for 1,000 pages and misses this share of them.
    fn run(&mut self, missed: [f64; 3]) {
        self.ask(missed.map(|missed| (1000, missed)));
    }

    fn ask(&mut self, pages: [(u64, f64); 3]) {
        self.second += 1;
        let now = self.now();
        for (reader, (requests, missed)) in self.readers.iter_mut().zip(pages) {
            let Some(pool) = &mut reader.pool else { continue };
            pool.requests += requests;
            pool.misses += (requests as f64 * missed) as u64;
            (pool.at, pool.up) = (now, pool.up + Duration::from_secs(1));
        }
        self.ended.extend(self.heats.update(&self.readers, &self.config, now));
    }

    fn warmth(&self, at: usize) -> f64 {
        let reader = &self.readers[at];
        self.heats.of(&reader.name).warmth(reader.back_since, &self.config, self.now())
    }

    fn reason(&self, at: usize) -> Option<String> {
        self.heats.of(&self.readers[at].name).reason(self.warmth(at), self.now())
    }

    fn by_clock(&self, at: usize) -> Option<&'static str> {
        self.heats.of(&self.readers[at].name).by_clock(&self.config)
    }
}

#[test]
fn a_cold_reader_gets_its_share_in_step_with_its_misses_and_not_by_the_clock() {
    let mut fleet = Fleet::new();
    (0..10).for_each(|_| fleet.run([0.002; 3]));
    fleet.restart(0);
    (0..20).for_each(|_| fleet.run([0.4, 0.002, 0.002]));
    assert!(fleet.warmth(0) < 0.17, "the clock alone would say 1: {}", fleet.warmth(0));
    assert_eq!((fleet.warmth(1), fleet.warmth(2)), (1.0, 1.0));
    let reason = fleet.reason(0).unwrap();
    let words = "while it warms up: 40.0 % of its page reads go to the disk, 0.2 % elsewhere, for 20 s";
    assert!(reason.ends_with(words), "{reason}");
    // Until the window has forgotten what was before: (0.2 + 1) / (2 + 1), in steps of a tenth.
    (0..40).for_each(|_| fleet.run([0.02, 0.002, 0.002]));
    assert!((0.36..0.41).contains(&fleet.warmth(0)), "{}", fleet.warmth(0));
    (0..30).for_each(|_| fleet.run([0.003, 0.002, 0.002]));
    assert_eq!((fleet.warmth(0), fleet.reason(0), fleet.by_clock(0)), (1.0, None, None));
    let [ended] = &fleet.ended[..] else { panic!("{:?}", fleet.ended) };
    assert!(!ended.at_the_limit && ended.to_string().contains("r0 is warm after"), "{ended}");
}

impl Fleet {
    /// What statements take on the first one, in times of what they take on the two others.
    fn takes(&mut self, own: Option<f64>) {
        let times = [own, Some(1.0), own.map(|_| 1.0)];
        self.readers.iter_mut().zip(times).for_each(|(reader, times)| reader.times = times);
    }

    /// The first one misses a lot.
    fn run_cold(&mut self, seconds: u64) -> Vec<f64> {
        let mut second = || {
            self.run([0.4, 0.002, 0.002]);
            self.warmth(0)
        };
        (0..seconds).map(|_| second()).collect()
    }
}

/// Its first page reads are its own and miss nothing, so at first it gets what the clock gives.
fn restarted_with_reads_of_its_own() -> Fleet {
    let mut fleet = Fleet::new();
    (0..10).for_each(|_| fleet.run([0.002; 3]));
    fleet.restart(0);
    (0..3).for_each(|_| fleet.run([0.0, 0.002, 0.002]));
    fleet
}

#[test]
fn a_cold_reader_whose_misses_cost_little_gets_its_share_as_its_statements_show() {
    let mut fleet = restarted_with_reads_of_its_own();
    fleet.takes(Some(1.05));
    let warmth = fleet.run_cold(20);
    assert!(
        warmth.windows(2).all(|two| two[1] >= two[0]),
        "its first miss rates take nothing back: {warmth:.2?}"
    );
    assert!((0.4..0.8).contains(&warmth[8]), "it goes on from what was in force: {warmth:.2?}");
    assert!(fleet.reason(0).is_none(), "it is warm: {warmth:.2?}");
    let [ended] = &fleet.ended[..] else { panic!("{:?}", fleet.ended) };
    assert!(!ended.at_the_limit, "{ended}");
}

#[test]
fn a_cold_reader_whose_statements_wait_gets_what_its_misses_allow() {
    let mut fleet = restarted_with_reads_of_its_own();
    fleet.takes(Some(1.05));
    let before = *fleet.run_cold(4).last().unwrap();
    assert!(before > 0.4, "{before}");
    let reason = fleet.reason(0).unwrap();
    assert!(reason.contains("elsewhere, but its statements hardly wait"), "{reason}");
    fleet.takes(Some(1.5));
    let warmth = fleet.run_cold(40);
    assert!(warmth.windows(2).all(|two| two[1] <= two[0] + 0.01), "{warmth:.2?}");
    assert!(warmth[9] < before / 2.0 && warmth[39] < 0.25, "{warmth:.2?}");
    assert!(fleet.ended.is_empty(), "{:?}", fleet.ended);
    // Nothing is proven by statements that are not there.
    fleet.takes(None);
    assert!(fleet.run_cold(20).iter().all(|warmth| *warmth < 0.33));
}

#[test]
fn a_share_stops_growing_before_times_that_rise_are_long() {
    let mut fleet = restarted_with_reads_of_its_own();
    let mut most: f64 = 0.0;
    for second in 0..10 {
        // 3 % longer each second, and not yet too long.
        fleet.takes(Some(0.9 * 1.03f64.powi(second)));
        most = most.max(fleet.run_cold(1)[0]);
    }
    let mut steady = restarted_with_reads_of_its_own();
    steady.takes(Some(0.9));
    let steady = steady.run_cold(10)[9];
    assert!(most < 0.6 * steady, "{steady} {most}");
}

#[test]
fn statements_count_while_counters_that_come_seldom_are_awaited() {
    let mut seldom = Seldom::new(60);
    (0..180).for_each(|_| seldom.run([0.002; 3]));
    seldom.comes_back(true);
    seldom.fleet.takes(Some(1.0));
    let mut warmth = Vec::new();
    for _ in 0..150 {
        seldom.run([0.4, 0.002, 0.002]);
        warmth.push(seldom.fleet.warmth(0));
    }
    assert!(warmth[40] == 1.0, "{warmth:.2?}");
    assert!(
        warmth[40..].iter().all(|warmth| *warmth == 1.0),
        "late counters show no other restart: {warmth:.2?}"
    );
}

#[test]
fn one_that_was_only_unreachable_is_warm_when_the_clock_allows() {
    let mut fleet = Fleet::new();
    (0..10).for_each(|_| fleet.run([0.002; 3]));
    fleet.readers[0].back_since = Some(fleet.now());
    (0..5).for_each(|_| fleet.run([0.002; 3]));
    assert!((fleet.warmth(0) - 0.55).abs() < 1e-9, "half of the ten seconds of warm_up");
    (0..5).for_each(|_| fleet.run([0.002; 3]));
    assert_eq!(fleet.warmth(0), 1.0);
}

#[test]
fn a_restart_that_nobody_saw_is_noticed_by_the_counters() {
    let mut fleet = Fleet::new();
    (0..5).for_each(|_| fleet.run([0.002; 3]));
    fleet.restart(0);
    fleet.readers[0].back_since = None;
    assert_eq!(fleet.warmth(0), 1.0);
    (0..5).for_each(|_| fleet.run([0.4, 0.002, 0.002]));
    assert!(fleet.warmth(0) < 0.15);
}

#[test]
fn a_restart_that_nobody_saw_is_followed_by_the_clock_where_page_reads_are_too_few() {
    for came_back_before in [false, true] {
        let mut fleet = Fleet::new();
        fleet.readers[0].back_since = came_back_before.then(|| fleet.now());
        (0..400).for_each(|_| fleet.run([0.002; 3]));
        let back_since = fleet.readers[0].back_since;
        fleet.restart(0);
        fleet.readers[0].back_since = back_since;
        (0..4).for_each(|_| fleet.ask([(0, 0.0), (1000, 0.002), (1000, 0.002)]));
        assert!((fleet.warmth(0) - 0.46).abs() < 1e-9, "not warm at once: {}", fleet.warmth(0));
        assert!(fleet.reason(0).unwrap().contains("by the clock alone, with too few page reads"));
        (0..6).for_each(|_| fleet.ask([(0, 0.0), (1000, 0.002), (1000, 0.002)]));
        assert_eq!(fleet.warmth(0), 1.0);
    }
}

#[test]
fn a_reader_that_is_up_for_long_has_a_small_buffer_pool_and_not_a_cold_one() {
    let mut fleet = Fleet::new();
    (0..60).for_each(|_| fleet.run([0.4, 0.002, 0.002]));
    assert_eq!(fleet.warmth(0), 1.0);
}

#[test]
fn a_tier_that_is_cold_as_a_whole_goes_by_the_clock_alone() {
    let mut fleet = Fleet::new();
    (0..3).for_each(|at| fleet.restart(at));
    (0..11).for_each(|_| fleet.run([0.4, 0.5, 0.45]));
    assert_eq!([0, 1, 2].map(|at| fleet.warmth(at)), [1.0; 3]);
}

#[test]
fn unknown_heat_leaves_the_clock_and_says_so() {
    let mut fleet = Fleet::new();
    fleet.restart(0);
    (0..4).for_each(|_| fleet.ask([(0, 0.0), (1000, 0.0), (1000, 0.0)]));
    assert!((fleet.warmth(0) - 0.46).abs() < 1e-9);
    assert!(fleet.reason(0).unwrap().contains("by the clock alone, with too few page reads"));
    fleet.readers[0].pool = None;
    fleet.run([0.0; 3]);
    assert!((fleet.warmth(0) - 0.55).abs() < 1e-9);
    assert!(fleet.reason(0).unwrap().contains("shows no counters"));

    let mut alone = Fleet::new();
    alone.restart(0);
    alone.readers.truncate(1);
    (0..4).for_each(|_| alone.run([0.4; 3]));
    assert!((alone.warmth(0) - 0.46).abs() < 1e-9);
    assert!(alone.reason(0).unwrap().contains("no other reader"));
    // It is warm as soon as the clock says so, and by nothing else.
    (0..10).for_each(|_| alone.run([0.4; 3]));
    assert_eq!((alone.warmth(0), alone.reason(0)), (1.0, None));
    assert_eq!(alone.by_clock(0), Some("with no other reader to compare with"));
    (0..300).for_each(|_| alone.run([0.4; 3]));
    assert!(alone.by_clock(0).unwrap().starts_with("warm_up_limit was over"));
}

#[test]
fn heat_that_was_known_once_stays_while_no_page_reads_come() {
    let mut fleet = Fleet::new();
    fleet.run([0.0; 3]);
    fleet.restart(0);
    (0..10).for_each(|_| fleet.run([0.4, 0.0, 0.0]));
    let before = fleet.warmth(0);
    (0..30).for_each(|_| fleet.ask([(0, 0.0), (1000, 0.0), (1000, 0.0)]));
    assert!(fleet.warmth(0) < before + 0.1, "not 1, as the clock would have it: {}", fleet.warmth(0));
    assert!(fleet.reason(0).unwrap().contains("when last compared"));
}

#[test]
fn what_a_server_reads_for_itself_at_its_start_does_not_make_it_warm() {
    let mut fleet = Fleet::new();
    fleet.run([0.0; 3]);
    fleet.restart(0);
    (0..2).for_each(|_| fleet.run([0.0; 3]));
    (0..20).for_each(|_| fleet.run([0.4, 0.0, 0.0]));
    assert!(fleet.warmth(0) < 0.2, "{}", fleet.warmth(0));
    assert!(fleet.ended.is_empty(), "{:?}", fleet.ended);
}

#[test]
fn after_the_limit_a_server_counts_as_warm_whatever_it_misses() {
    let mut fleet = Fleet::new();
    fleet.run([0.0; 3]);
    fleet.restart(0);
    (0..150).for_each(|_| fleet.run([0.9, 0.0, 0.0]));
    assert!((0.5..0.6).contains(&fleet.warmth(0)), "half of the limit is over: {}", fleet.warmth(0));
    (0..150).for_each(|_| fleet.run([0.9, 0.0, 0.0]));
    assert_eq!(fleet.warmth(0), 1.0);
    assert!(fleet.by_clock(0).unwrap().starts_with("warm_up_limit was over"));
    assert!(
        fleet.ended[0].at_the_limit && fleet.ended[0].to_string().contains("90.0 %"),
        "{:?}",
        fleet.ended
    );
}

#[test]
fn a_pool_that_is_read_back_counts_for_what_is_there_until_its_misses_are_known() {
    let mut fleet = Fleet::new();
    fleet.restart(0);
    fleet.readers[0].pool.as_mut().unwrap().load = PoolLoad::Loading { part: 0.3 };
    (0..20).for_each(|_| fleet.ask([(0, 0.0), (1000, 0.0), (1000, 0.0)]));
    assert!((fleet.warmth(0) - 0.3).abs() < 1e-9, "{}", fleet.warmth(0));
    assert!(fleet.reason(0).unwrap().contains("has read back 30.0 % of its buffer pool"));
}

#[test]
fn switched_off_the_clock_is_all_there_is() {
    let mut fleet = Fleet::new();
    fleet.config.capacity.heat = false;
    fleet.run([0.0; 3]);
    fleet.restart(0);
    (0..11).for_each(|_| fleet.run([0.9, 0.0, 0.0]));
    assert_eq!((fleet.warmth(0), fleet.by_clock(0)), (1.0, Some("as heat = false wants it")));
}

/// A fleet whose counters come every `spacing` seconds. The counters go on; what is published of them stands
/// still in between.
struct Seldom {
    fleet: Fleet,
    spacing: u64,
    counted: [PoolCounters; 3],
}

impl Seldom {
    fn new(spacing: u64) -> Self {
        let mut fleet = Fleet::new();
        fleet.readers.iter_mut().for_each(|reader| reader.spacing = Duration::from_secs(spacing));
        let counted = [0, 1, 2].map(|at| fleet.readers[at].pool.unwrap());
        Self { fleet, spacing, counted }
    }

    /// The first one comes back; restarted or not, what is known of its counters is from before.
    fn comes_back(&mut self, restarted: bool) {
        let now = self.fleet.now();
        self.fleet.readers[0].back_since = Some(now);
        if restarted {
            let up = Duration::ZERO;
            self.counted[0] = PoolCounters { at: now, up, requests: 0, misses: 0, load: PoolLoad::None };
        }
    }

    fn run(&mut self, missed: [f64; 3]) {
        self.fleet.second += 1;
        let now = self.fleet.now();
        for (at, (counted, missed)) in self.counted.iter_mut().zip(missed).enumerate() {
            counted.requests += 1000;
            counted.misses += (1000.0 * missed) as u64;
            (counted.at, counted.up) = (now, counted.up + Duration::from_secs(1));
            if (self.fleet.second + 7 * at as u64).is_multiple_of(self.spacing) {
                self.fleet.readers[at].pool = Some(*counted);
            }
        }
        let ended = self.fleet.heats.update(&self.fleet.readers, &self.fleet.config, now);
        self.fleet.ended.extend(ended);
    }
}

#[test]
fn a_cold_reader_gets_no_full_share_before_counters_that_come_seldom_can_tell() {
    for spacing in [12, 30, 60, 120] {
        let mut seldom = Seldom::new(spacing);
        (0..3 * spacing).for_each(|_| seldom.run([0.002; 3]));
        seldom.comes_back(true);
        let mut last = 0.0;
        for second in 0..2 * spacing + 40 {
            seldom.run([0.4, 0.002, 0.002]);
            let warmth = seldom.fleet.warmth(0);
            let slow = 0.1 + 0.9 * (second + 1) as f64 / 300.0;
            assert!(warmth <= slow + 0.001, "every {spacing} s, second {second}: {warmth}, not {slow}");
            assert!(warmth >= last, "every {spacing} s, second {second}: {warmth} after {last}");
            last = warmth;
            if second == 5 {
                let reason = seldom.fleet.reason(0).unwrap();
                assert!(reason.contains("by the slow clock until its misses are known"), "{reason}");
            }
        }
        assert!(seldom.fleet.reason(0).unwrap().contains("40.0 % of its page reads"), "every {spacing} s");
        let warm = [seldom.fleet.warmth(1), seldom.fleet.warmth(2)];
        assert_eq!(warm, [1.0; 2], "every {spacing} s");
    }
}

#[test]
fn one_that_was_only_unreachable_is_warm_once_its_first_counters_say_that_it_was_up() {
    let mut seldom = Seldom::new(30);
    (0..90).for_each(|_| seldom.run([0.002; 3]));
    seldom.comes_back(false);
    (0..29).for_each(|_| seldom.run([0.002; 3]));
    assert!(seldom.fleet.warmth(0) < 0.2, "{}", seldom.fleet.warmth(0));
    seldom.run([0.002; 3]);
    assert_eq!(seldom.fleet.warmth(0), 1.0);
}

#[test]
fn counters_that_do_not_come_are_waited_for_no_longer_than_two_of_them_should_take() {
    let mut fleet = Fleet::new();
    fleet.readers[0].spacing = Duration::from_secs(30);
    let before = fleet.readers[0].pool;
    (0..5).for_each(|_| fleet.run([0.002; 3]));
    fleet.readers[0].back_since = Some(fleet.now());
    let mut warmth_after = |seconds: u64| {
        for _ in 0..seconds {
            // What was last read is from before it came back.
            fleet.readers[0].pool = before;
            fleet.second += 1;
            fleet.heats.update(&fleet.readers, &fleet.config, fleet.now());
        }
        fleet.warmth(0)
    };
    assert!(warmth_after(65) < 0.3);
    assert_eq!(warmth_after(10), 1.0, "two times 30 s and warm_up");
}

proptest! {
    /// Whatever readers miss: warmth stays between a tenth and what the clock alone gives, and once `warm_up`
    /// is over it never falls but when its server is restarted.
    #[test]
    fn warmth_is_bounded_and_in_the_end_only_rises(
        missed in prop::collection::vec((0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64, 0u64..3000), 1..330)
    ) {
        let mut fleet = Fleet::new();
        fleet.run([0.0; 3]);
        fleet.restart(0);
        let mut known: Option<f64> = None;
        for (own, one, other, requests) in missed {
            fleet.ask([(requests, own), (1000, one), (1000, other)]);
            let warmth = fleet.warmth(0);
            let alone = Heat::default().warmth(fleet.readers[0].back_since, &fleet.config, fleet.now());
            prop_assert!((COLD..=alone).contains(&warmth));
            let heat = fleet.heats.of(&fleet.readers[0].name);
            if let Some(before) = known {
                prop_assert!(warmth >= before - 1e-9, "{} after {}", warmth, before);
            }
            let is_late = alone >= 1.0;
            known = (is_late && (heat.share.is_some() || heat.since.is_none())).then_some(warmth);
        }
    }

    /// Whatever its statements take: what is proven makes nobody colder than its misses, nor warmer than the
    /// clock, and falls by no more than a part in a second.
    #[test]
    fn statements_only_add_and_take_back_slowly(
        times in prop::collection::vec((prop::option::of(0.1..10.0f64), 0.0..0.9f64), 1..120)
    ) {
        let new = || {
            let mut fleet = Fleet::new();
            fleet.run([0.0; 3]);
            fleet.restart(0);
            fleet
        };
        let (mut with, mut without, mut last) = (new(), new(), 0.0);
        for (own, missed) in times {
            with.takes(own);
            [&mut with, &mut without].into_iter().for_each(|fleet| fleet.run([missed, 0.002, 0.002]));
            let proven = with.heats.of(&with.readers[0].name).proven;
            let alone = Heat::default().warmth(with.readers[0].back_since, &with.config, with.now());
            prop_assert!((0.0..=1.0).contains(&proven));
            prop_assert!(with.warmth(0) >= without.warmth(0) - 1e-9 && with.warmth(0) <= alone);
            let is_over = with.heats.of(&with.readers[0].name).since.is_none();
            prop_assert!(is_over || proven >= last * 0.7, "{} after {}", proven, last);
            last = proven;
        }
    }

    /// Of two that miss a steady share the one that misses more is never the warmer one.
    #[test]
    fn who_misses_more_is_never_warmer(less in 0.0..0.5f64, more in 0.0..0.5f64, seconds in 1usize..120) {
        let after = |missed: f64| {
            let mut fleet = Fleet::new();
            fleet.run([0.002; 3]);
            fleet.restart(0);
            (0..seconds).for_each(|_| fleet.run([missed, 0.002, 0.002]));
            fleet.warmth(0)
        };
        prop_assert!(after(less + more) <= after(less));
    }
}
