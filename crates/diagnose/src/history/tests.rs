//! The history keeps what it is given, in bounded memory, and says where nothing was read.

use super::*;
use crate::verdict::Name;
use proptest::prelude::*;

type Named = History<&'static str>;

const EPOCH: Duration = Duration::from_secs(1_700_000_000);

struct Watched {
    history: Named,
    began: Instant,
}

fn watched() -> Watched {
    let began = Instant::now();
    Watched { history: History::new(began, SystemTime::UNIX_EPOCH + EPOCH), began }
}

fn figures(first: f32) -> Figures {
    let mut figures = [f32::NAN; WIDTH];
    figures[0] = first;
    figures
}

impl Watched {
    fn at(&self, ms: u64) -> Instant {
        self.began + Duration::from_millis(ms)
    }

    fn tick(&mut self, ms: u64) {
        let calendar = SystemTime::UNIX_EPOCH + EPOCH + Duration::from_millis(ms);
        self.history.tick(self.at(ms), calendar);
    }

    fn add(&mut self, ms: u64, figure: f32) {
        self.tick(ms);
        self.history.add(&"db1", self.at(ms), figures(figure), Outcome::Free);
    }

    fn gaps(&self) -> Vec<(u64, Option<u64>, &str)> {
        let all = self.history.gaps(&"db1", 0, u64::MAX);
        all.map(|gap| (gap.from_ms, gap.to_ms, gap.why.as_str())).collect()
    }
}

proptest! {
    #[test]
    fn memory_stays_below_what_is_promised_however_long_it_runs_and_whoever_comes(
        steps in prop::collection::vec((1u64..200_000, 0usize..200, any::<bool>()), 1..400),
    ) {
        let names: Vec<String> = (0..200).map(|n| format!("db{n}")).collect();
        let began = Instant::now();
        let mut history = History::new(began, SystemTime::UNIX_EPOCH);
        let mut ms = 0;
        for (step, name, lost) in steps {
            ms += step;
            let now = began + Duration::from_millis(ms);
            history.tick(now, SystemTime::UNIX_EPOCH + Duration::from_millis(ms));
            if lost {
                history.lose(&names[name].as_str(), now, "why");
            } else {
                history.add(&names[name].as_str(), now, figures(1.0), Outcome::Free);
            }
            prop_assert!(history.subjects().count() <= MOST_SUBJECTS);
            prop_assert!(history.bytes() <= History::<&str>::most_bytes());
        }
    }

    #[test]
    fn every_reading_of_the_last_hour_is_told_once_and_in_order(
        pauses in prop::collection::vec(1u64..5_000, 1..800),
    ) {
        let mut watched = watched();
        let mut ms = 0;
        let added: Vec<u64> = pauses.iter().map(|pause| { ms += pause; watched.add(ms, ms as f32); ms }).collect();
        let track = watched.history.track(&"db1").unwrap();
        let told: Vec<u64> = track.points(0, u64::MAX).map(|point| point.at_ms).collect();
        prop_assert_eq!(told, added);
        prop_assert!(watched.gaps().is_empty(), "nobody was away for {} ms", GAP_MS);
    }

    #[test]
    fn means_over_minutes_and_over_readings_agree_and_each_second_counts_once(
        values in prop::collection::vec(0.0f32..1000.0, 3_700..7_500),
    ) {
        let mut watched = watched();
        for (second, value) in values.iter().enumerate() {
            watched.add(second as u64 * 1000, *value);
        }
        let track = watched.history.track(&"db1").unwrap();
        let end = values.len() as u64 * 1000;
        let counted: u64 = track.points(0, end).map(|point| u64::from(point.count)).sum();
        prop_assert_eq!(counted, values.len() as u64);
        let told: f64 = track.points(0, end).map(|p| f64::from(p.figures[0]) * f64::from(p.count)).sum();
        let sum: f64 = values.iter().map(|v| f64::from(*v)).sum();
        prop_assert!((told - sum).abs() <= sum * 1e-4 + 1e-3, "{} and {}", told, sum);
        let one = track.means(0, end, end)[0].unwrap();
        prop_assert!((f64::from(one[0]) - sum / values.len() as f64).abs() < 0.1);
    }

    #[test]
    fn a_grid_has_a_mean_where_something_was_read_and_nothing_elsewhere(
        seconds in prop::collection::btree_set(0u64..600, 1..300), step in 1u64..30,
    ) {
        let mut watched = watched();
        for second in &seconds {
            watched.add(second * 1000, *second as f32);
        }
        let means = watched.history.track(&"db1").unwrap().means(0, 600_000, step * 1000);
        for (cell, mean) in means.iter().enumerate() {
            let cell = cell as u64;
            let inside: Vec<u64> = seconds.range(cell * step..(cell + 1) * step).copied().collect();
            prop_assert_eq!(mean.is_some(), !inside.is_empty());
            if let Some(mean) = mean {
                let wanted = inside.iter().sum::<u64>() as f32 / inside.len() as f32;
                prop_assert!((mean[0] - wanted).abs() < 0.01);
                prop_assert!(mean[1].is_nan(), "an unknown figure stays unknown");
            }
        }
    }

    #[test]
    fn spans_are_in_order_without_overlap_and_no_two_neighbours_say_the_same(
        outcome in prop::collection::vec((1u64..9, 0u8..3), 1..400),
    ) {
        let mut watched = watched();
        let mut ms = 0;
        for (pause, outcome) in outcome {
            ms += pause * 1000;
            watched.tick(ms);
            let outcome = [Outcome::Nothing, Outcome::Free, Outcome::Bottleneck(Name::Cpu)][usize::from(outcome)];
            watched.history.add(&"db1", watched.at(ms), figures(1.0), outcome);
        }
        let spans = watched.history.track(&"db1").unwrap().spans(0, u64::MAX);
        for pair in spans.windows(2) {
            prop_assert!(pair[0].from_ms < pair[0].to_ms && pair[0].to_ms <= pair[1].from_ms);
            prop_assert!(pair[0].outcome != pair[1].outcome || pair[0].to_ms < pair[1].from_ms);
        }
    }
}

#[test]
fn a_server_that_is_lost_has_a_gap_with_its_reason_that_ends_with_its_next_reading() {
    let mut watched = watched();
    watched.add(1_000, 1.0);
    watched.add(2_000, 1.0);
    watched.tick(4_000);
    watched.history.lose(&"db1", watched.at(4_000), "connection refused");
    watched.history.lose(&"db1", watched.at(5_000), "still refused");
    assert_eq!(watched.gaps(), [(2_000, None, "connection refused")]);
    watched.tick(7_000);
    watched.add(9_000, 2.0);
    assert_eq!(watched.gaps(), [(2_000, Some(9_000), "connection refused")]);
    let spans = watched.history.track(&"db1").unwrap().spans(0, 20_000);
    assert_eq!(spans.len(), 2, "nothing is said of a gap: {spans:?}");
}

#[test]
fn a_server_that_was_never_read_is_in_the_history_as_a_gap_however_long_it_lasts() {
    let mut watched = watched();
    watched.tick(1_000);
    watched.history.lose(&"db1", watched.at(1_000), "connection refused");
    assert_eq!(watched.history.subjects().map(|(of, _)| *of).collect::<Vec<_>>(), ["db1"]);
    for hour in 1..50 {
        watched.tick(hour * 3_600_000);
    }
    assert_eq!(watched.history.subjects().count(), 1);
    assert!(watched.gaps().contains(&(1_000, None, "connection refused")), "{:?}", watched.gaps());
    watched.add(49 * 3_600_000 + 1_000, 1.0);
    assert!(watched.gaps().contains(&(1_000, Some(49 * 3_600_000 + 1_000), "connection refused")));
}

#[test]
fn a_watcher_that_stood_still_is_one_gap_of_everybody() {
    let mut watched = watched();
    watched.add(1_000, 1.0);
    watched.add(61_000, 1.0);
    let gaps = watched.gaps();
    assert_eq!(gaps.len(), 1);
    assert_eq!((gaps[0].0, gaps[0].1), (1_000, Some(61_000)));
    assert!(gaps[0].2.contains("stood still"));
}

#[test]
fn whoever_is_read_first_after_the_watcher_stood_still_has_no_gap_of_its_own() {
    let mut watched = watched();
    watched.add(1_000, 1.0);
    watched.history.add(&"db1", watched.at(61_000), figures(1.0), Outcome::Free);
    watched.tick(61_200);
    let gaps = watched.gaps();
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert_eq!((gaps[0].0, gaps[0].1), (1_000, Some(61_000)));
    assert!(gaps[0].2.contains("stood still"));
}

#[test]
fn a_reading_that_is_late_alone_is_a_gap_of_its_own() {
    let mut watched = watched();
    watched.add(1_000, 1.0);
    (2..20).for_each(|second| watched.tick(second * 1000));
    watched.add(20_000, 1.0);
    assert_eq!(watched.gaps(), [(1_000, Some(20_000), "no reading came")]);
}

#[test]
fn a_calendar_that_jumps_is_noted_and_moves_no_point() {
    let mut watched = watched();
    watched.add(1_000, 1.0);
    let calendar = |ms: u64| SystemTime::UNIX_EPOCH + EPOCH + Duration::from_millis(ms);
    watched.history.tick(watched.at(2_000), calendar(3_602_000));
    watched.history.add(&"db1", watched.at(2_000), figures(2.0), Outcome::Free);
    // Slow drift is none.
    watched.history.tick(watched.at(3_000), calendar(3_603_500));
    watched.history.tick(watched.at(4_000), calendar(60_000));
    watched.history.add(&"db1", watched.at(4_000), figures(3.0), Outcome::Free);
    let jumps: Vec<_> = watched.history.clock().jumps().map(|jump| (jump.at_ms, jump.by_ms)).collect();
    assert_eq!(jumps, [(2_000, 3_600_000), (4_000, -3_544_500)]);
    let track = watched.history.track(&"db1").unwrap();
    assert_eq!(track.points(0, u64::MAX).map(|p| p.at_ms).collect::<Vec<_>>(), [1_000, 2_000, 4_000]);
    assert!(watched.gaps().is_empty());
    let now = watched.history.clock().epoch_ms(4_000);
    assert_eq!(now, i64::try_from(EPOCH.as_millis()).unwrap() + 60_000);
    assert_eq!(watched.history.clock().history_ms(now), 4_000);
}

#[test]
fn what_is_older_than_a_day_is_forgotten_and_a_minute_keeps_the_most_frequent_verdict() {
    let mut watched = watched();
    for second in 0..90_000u64 {
        watched.tick(second * 1000);
        let outcome = if second % 60 < 40 { Outcome::Bottleneck(Name::RowLocks) } else { Outcome::Free };
        watched.history.add(&"db1", watched.at(second * 1000), figures(second as f32), outcome);
    }
    let track = watched.history.track(&"db1").unwrap();
    let first = track.points(0, u64::MAX).next().unwrap();
    assert!(90_000_000 - first.at_ms <= Track::KEPT_MS + 60_000, "{first:?}");
    assert_eq!((first.count, first.outcome), (60, Outcome::Bottleneck(Name::RowLocks)));
    assert_eq!(track.fine_from_ms(), 90_000_000 - Track::FINE as u64 * 1000);
    (90_000..200_000u64).step_by(3).for_each(|second| watched.tick(second * 1000));
    assert_eq!(watched.history.subjects().count(), 0, "nobody has heard of it for a day");
}
