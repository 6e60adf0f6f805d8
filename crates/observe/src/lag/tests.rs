//! Lag from positions alone: made-up histories, and what holds for any.

use super::*;
use fleet::FilePosition;
use proptest::prelude::*;

fn at(start: Instant, ms: u64) -> Window {
    let moment = start + Duration::from_millis(ms);
    Window { asked: moment, answered: moment }
}

fn place(offset: u64) -> Position {
    Position::File(FilePosition::new("bin.000001", offset))
}

fn ms(at_least: u64, at_most: u64) -> LagBounds {
    LagBounds::Bounds { at_least: Duration::from_millis(at_least), at_most: Duration::from_millis(at_most) }
}

#[test]
fn the_worked_example_holds() {
    let start = Instant::now();
    let mut track = Track::default();
    for (when, position) in [(0, 10), (500, 20), (1000, 30), (1500, 40)] {
        track.push(place(position), at(start, when));
    }
    assert_eq!(track.behind(&place(25), at(start, 1600), false), ms(600, 1100));
    assert_eq!(track.behind(&place(40), at(start, 1600), false), ms(0, 100));
    assert_eq!(track.behind(&place(40), at(start, 1600), true), ms(0, 0));
}

#[test]
fn an_idle_primary_gives_no_lag_and_an_exact_start_of_the_next() {
    let start = Instant::now();
    let mut track = Track::default();
    for when in (0..60_000).step_by(500) {
        track.push(place(10), at(start, when));
    }
    track.push(place(11), at(start, 60_000));
    // The change came between 59.5 and 60 s, not in the minute before.
    assert_eq!(track.behind(&place(10), at(start, 60_200), false), ms(200, 700));
}

#[test]
fn a_sample_after_the_replicas_answer_never_makes_it_late_and_can_clear_it() {
    let start = Instant::now();
    let mut track = Track::default();
    track.push(place(10), at(start, 0));
    track.push(place(20), at(start, 500));
    assert_eq!(track.behind(&place(10), at(start, 400), false), ms(0, 400));
    track.push(place(20), at(start, 1000));
    assert_eq!(track.behind(&place(20), at(start, 900), false), ms(0, 0));
}

#[test]
fn before_the_track_reaches_back_the_servers_own_figure_counts() {
    let start = Instant::now();
    let mut track = Track::default();
    track.push(place(100), at(start, 0));
    let behind = track.behind(&place(50), at(start, 250), false);
    assert_eq!(behind, LagBounds::OlderThan(Duration::from_millis(250)));
    assert_eq!(lag(behind, LagSource::FileSamples, None), None);
    let lag = lag(behind, LagSource::FileSamples, Some(42)).unwrap();
    assert_eq!((lag.at_least, lag.source), (Duration::from_secs(42), LagSource::SecondsBehind));
}

#[test]
fn domains_that_never_come_through_make_no_replica_late() {
    let start = Instant::now();
    let domains = |text: &str| Position::Domains(text.parse().unwrap());
    let mut track = Track::default();
    track.push(domains("0-1-5,7-1-5"), at(start, 0));
    track.push(domains("0-1-5,7-1-9,8-1-2"), at(start, 500));
    let applied = |text: &str, ignored: u32| complete(&domains(text), &track, |domain| domain != ignored);
    // 7 was there before we watched; 8 is new, so it counts unless the replica ignores it.
    assert_eq!(track.behind(&applied("0-1-5", 9), at(start, 600), false), ms(100, 600));
    assert_eq!(track.behind(&applied("0-1-5", 8), at(start, 600), false), ms(0, 100));
}

#[test]
fn what_a_replica_was_built_without_makes_it_no_later() {
    let start = Instant::now();
    let set = |numbers: &str| {
        Position::Set(format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:{numbers}").parse().unwrap())
    };
    let mut track = Track::default();
    track.push(set("1-900"), at(start, 0));
    track.push(set("1-950"), at(start, 500));
    let behind =
        |applied: &str| track.behind(&complete(&set(applied), &track, |_| true), at(start, 600), false);
    assert_eq!(behind("500-950"), ms(0, 100));
    assert_eq!(behind("500-920"), ms(100, 600));
    assert_eq!(behind("1-899:901-950"), LagBounds::OlderThan(Duration::from_millis(600)), "a gap is a gap");
}

#[test]
fn a_server_that_was_reset_starts_anew() {
    let start = Instant::now();
    let mut track = Track::default();
    track.push(place(100), at(start, 0));
    track.push(place(5), at(start, 500));
    assert_eq!(track.samples.len(), 1);
}

#[test]
fn a_replica_of_a_replica_is_at_least_as_late_as_either_and_at_most_both() {
    let of = |least, wide| Lag {
        at_least: Duration::from_millis(least),
        uncertainty: Duration::from_millis(wide),
        source: LagSource::FileSamples,
    };
    let both = through(of(100, 10), of(300, 20));
    assert_eq!((both.at_least, both.at_most()), (Duration::from_millis(300), Duration::from_millis(430)));
}

/// A primary that writes at the given times, sampled every `interval`; a replica that applies with a constant
/// delay.
fn truth_and_estimate(writes: &[u64], interval: u64, delay: u64, look: u64) -> (u64, LagBounds) {
    let start = Instant::now();
    let written = |when: u64| writes.iter().filter(|w| **w <= when).count() as u64;
    let mut track = Track::default();
    for when in (0..=look).step_by(usize::try_from(interval).unwrap()) {
        track.push(place(written(when)), at(start, when));
    }
    let applied = if look >= delay { written(look - delay) } else { 0 };
    let oldest_missing = writes.iter().copied().filter(|w| *w <= look).nth(usize::try_from(applied).unwrap());
    let truth = oldest_missing.map_or(0, |w| look - w);
    (truth, track.behind(&place(applied), at(start, look), false))
}

proptest! {
    #[test]
    fn the_truth_lies_within_the_bounds_and_the_bounds_within_one_interval(
        gaps in proptest::collection::vec(1u64..400, 1..200),
        interval in 50u64..800,
        delay in 0u64..5_000,
        look in 5_000u64..20_000,
    ) {
        let writes: Vec<u64> = gaps.iter().scan(0, |t, gap| { *t += gap; Some(*t) }).collect();
        let (truth, behind) = truth_and_estimate(&writes, interval, delay, look);
        let LagBounds::Bounds { at_least, at_most } = behind else {
            // Only when nothing at all of the track is applied.
            prop_assert!(matches!(behind, LagBounds::OlderThan(_)));
            return Ok(());
        };
        let (least, most) = (at_least.as_millis() as u64, at_most.as_millis() as u64);
        prop_assert!(least <= truth && truth <= most, "{least} <= {truth} <= {most}");
        prop_assert!(most - least <= interval, "{least} to {most} is wider than {interval}");
    }

    #[test]
    fn a_replica_that_has_applied_more_is_never_later(
        gaps in proptest::collection::vec(1u64..400, 1..100),
        a in 0u64..100, b in 0u64..100, look in 0u64..30_000,
    ) {
        let start = Instant::now();
        let mut track = Track::default();
        track.push(place(0), at(start, 0));
        for (i, when) in gaps.iter().scan(0, |t, gap| { *t += gap; Some(*t) }).enumerate() {
            track.push(place(i as u64 + 1), at(start, when));
        }
        let (less, more) = (a.min(b), a.max(b));
        let least = |applied| match track.behind(&place(applied), at(start, look), false) {
            LagBounds::Bounds { at_least, .. } | LagBounds::OlderThan(at_least) => at_least,
            LagBounds::Unknown => unreachable!("the notations are equal"),
        };
        prop_assert!(least(more) <= least(less));
    }

    #[test]
    fn memory_is_bounded_and_old_lags_stay_in_bounds(count in 2_000u64..6_000) {
        let start = Instant::now();
        let mut track = Track::default();
        for i in 0..count {
            track.push(place(i), at(start, i * 100));
        }
        prop_assert!(track.samples.len() <= SAMPLES);
        for applied in [0, count / 3, count / 2, count - 1] {
            let truth = if applied == count - 1 { 0 } else { (count - 1 - (applied + 1)) * 100 };
            let now = at(start, (count - 1) * 100);
            let LagBounds::Bounds { at_least, at_most } = track.behind(&place(applied), now, false) else {
                panic!("the oldest sample is kept");
            };
            prop_assert!(at_least.as_millis() as u64 <= truth && truth <= at_most.as_millis() as u64);
        }
    }
}
