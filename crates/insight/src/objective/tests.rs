//! Properties of burn rates and incidents.

use super::*;
use config::Target;
use proptest::prelude::*;

fn objective(share: f64) -> Objective {
    Objective::new("x".into(), Target::Endpoint("x".into()), Duration::from_millis(15), share)
}

/// Seconds of traffic: statements and how many of them were bad; the changes with their seconds.
fn run(
    tracked: &mut Tracked,
    start: Instant,
    seconds: impl IntoIterator<Item = (u64, u64)>,
) -> Vec<(u64, Change)> {
    let (mut good, mut all, mut changes) = (0, 0, Vec::new());
    changes.extend(tracked.next(start, 0, 0).map(|change| (0, change)));
    for (second, (count, bad)) in (1..).zip(seconds) {
        all += count;
        good += count - bad.min(count);
        let now = start + Duration::from_secs(second);
        changes.extend(tracked.next(now, good, all).map(|change| (second, change)));
    }
    changes
}

#[test]
fn the_worked_example_opens_after_eight_minutes_and_closes_when_it_has_been_calm() {
    let mut tracked = Tracked::new(objective(0.99));
    let hour = std::iter::repeat_n((100, 0), 3600);
    let trouble = std::iter::repeat_n((100, 100), 900);
    let after = std::iter::repeat_n((100, 0), 7200);
    let changes = run(&mut tracked, Instant::now(), hour.chain(trouble).chain(after));
    let [(opened, Change::Opened(open)), (closed, Change::Closed(end))] = changes[..] else {
        panic!("{changes:?}");
    };
    let into_it = opened - 3600;
    assert!((510..=560).contains(&into_it), "14.4 % of an hour is 518 s: {into_it}");
    assert_eq!((open.pace, end.worst.round()), (Pace::Fast, 100.0));
    let recovered = 3600 + 900;
    assert!(
        (900..=1000).contains(&(closed - recovered)),
        "five minutes clean, ten calm: {}",
        closed - recovered
    );
    assert_eq!((tracked.book().opened(), tracked.book().closed()), (1, 1));
}

#[test]
fn what_smoulders_for_hours_is_found_by_the_slow_windows() {
    let mut tracked = Tracked::new(objective(0.99));
    // A burn rate of 8: too slow for the fast windows.
    let changes = run(
        &mut tracked,
        Instant::now(),
        std::iter::repeat_n((100, 0), 21_600).chain(std::iter::repeat_n((100, 8), 18_000)),
    );
    let [(second, Change::Opened(open))] = changes[..] else { panic!("{changes:?}") };
    assert_eq!(open.pace, Pace::Slow);
    assert!(
        (15_000..=17_500).contains(&(second - 21_600)),
        "three quarters of six hours: {}",
        second - 21_600
    );
}

#[test]
fn a_start_makes_nobody_nervous_and_what_is_over_opens_nothing() {
    let mut tracked = Tracked::new(objective(0.99));
    let minute = std::iter::repeat_n((100, 100), 60).chain(std::iter::repeat_n((0, 0), 7200));
    assert_eq!(run(&mut tracked, Instant::now(), minute), []);
    let mut tracked = Tracked::new(objective(0.99));
    let changes = run(&mut tracked, Instant::now(), std::iter::repeat_n((100, 100), 600));
    assert!(
        matches!(changes[..], [(510..=560, Change::Opened(_))]),
        "as in the middle of a day: {changes:?}"
    );
}

#[test]
fn what_comes_and_goes_within_the_calm_is_one_incident() {
    let mut tracked = Tracked::new(objective(0.99));
    let quiet = std::iter::repeat_n((100, 0), 60);
    // Ten minutes bad, eight good, five times.
    let flapping = (0..5 * 18 * 60).map(|second| (100, if second % (18 * 60) < 600 { 100 } else { 0 }));
    let after = std::iter::repeat_n((100, 0), 14_400);
    let changes = run(&mut tracked, Instant::now(), quiet.chain(flapping).chain(after));
    assert_eq!(changes.len(), 2, "{changes:?}");
    assert_eq!(tracked.book().by_week(Instant::now()), [1, 0, 0, 0]);
}

#[test]
fn a_handful_of_statements_opens_nothing_and_silence_ends_an_incident() {
    let mut tracked = Tracked::new(objective(0.99));
    assert_eq!(run(&mut tracked, Instant::now(), std::iter::repeat_n((1, 1), LEAST as usize - 1)), []);
    let mut tracked = Tracked::new(objective(0.99));
    let burst = std::iter::repeat_n((100, 100), 700).chain(std::iter::repeat_n((0, 0), 7200));
    let changes = run(&mut tracked, Instant::now(), burst);
    assert!(matches!(changes[..], [(_, Change::Opened(_)), (_, Change::Closed(_))]), "{changes:?}");
}

#[test]
fn incidents_are_counted_by_week() {
    let (mut book, start) = (Book::default(), Instant::now());
    let day = Duration::from_secs(24 * 3600);
    for n in [0, 8, 9, 22] {
        let at = start + n * day;
        assert!(book.next(at, Some(Pace::Fast), false, Duration::ZERO, None).is_some());
        assert!(book.next(at, None, true, Duration::ZERO, None).is_some());
    }
    assert_eq!(book.by_week(start + 23 * day), [1, 0, 2, 1]);
    assert_eq!(book.by_week(start + 60 * day), [0; 4]);
}

prop_compose! {
    fn traffic()(seconds in prop::collection::vec((0u64..200, 0u64..200), 1..400)) -> Vec<(u64, u64)> {
        seconds.into_iter().map(|(count, bad)| (count, bad.min(count))).collect()
    }
}

proptest! {
    #[test]
    fn burn_rates_lie_between_nothing_and_everything_bad(seconds in traffic(), share in 0.5f64..0.999) {
        let mut tracked = Tracked::new(objective(share));
        run(&mut tracked, Instant::now(), seconds);
        let Burning { fast, fast_short, slow, slow_short } = tracked.burning();
        for burn in [fast, fast_short, slow, slow_short].into_iter().flatten() {
            prop_assert!((0.0..=1.0 / (1.0 - share) * 1.000_001).contains(&burn), "{burn}");
        }
    }

    #[test]
    fn a_window_counts_what_a_full_memory_would_count_within_a_step(seconds in traffic(), window in 1u64..300) {
        let (start, step) = (Instant::now(), 5);
        let mut windows = Windows::new(Duration::from_secs(step), Duration::from_secs(300));
        let (mut good, mut all) = (0, 0);
        windows.add(start, 0, 0);
        for (second, (count, bad)) in (1..).zip(&seconds) {
            all += count;
            good += count - bad;
            windows.add(start + Duration::from_secs(second), good, all);
        }
        let now = start + Duration::from_secs(seconds.len() as u64);
        let (counted_good, counted, past) = windows.over(now, Duration::from_secs(window)).unwrap();
        prop_assert!((past - (seconds.len() as f64 / window as f64).min(1.0)).abs() < 1e-6);
        let exact = |window: u64| {
            let from = seconds.len().saturating_sub(window as usize);
            seconds[from..].iter().fold((0, 0), |(good, all), (count, bad)| (good + count - bad, all + count))
        };
        let (least, most) = (exact(window), exact(window + step));
        prop_assert!((least.1..=most.1).contains(&counted), "{counted} is not in {least:?} to {most:?}");
        prop_assert!((least.0..=most.0).contains(&counted_good) && counted_good <= counted);
    }

    #[test]
    fn what_is_kept_has_a_limit(times in prop::collection::vec(0u64..5_000, 1..300)) {
        let start = Instant::now();
        let mut windows = Windows::new(Duration::from_millis(1), Duration::from_secs(100_000));
        let mut now = start;
        for (n, ms) in times.iter().cycle().take(20_000).enumerate() {
            now += Duration::from_millis(*ms);
            windows.add(now, n as u64, n as u64);
        }
        prop_assert!(windows.len() <= 4096, "{}", windows.len());
    }

    #[test]
    fn nothing_bad_opens_nothing_and_openings_and_ends_take_turns(seconds in traffic(), clean in any::<bool>()) {
        let small = Objective { fast: Duration::from_secs(12), slow: Duration::from_secs(72), calm: Duration::from_secs(3), ..objective(0.9) };
        let limits = Objective { fast_burn: 5.0, slow_burn: 3.0, ..small };
        let mut tracked = Tracked::new(limits);
        let seconds: Vec<_> = seconds.into_iter().map(|(count, bad)| (count, if clean { 0 } else { bad })).collect();
        let changes = run(&mut tracked, Instant::now(), seconds);
        prop_assert!(!clean || changes.is_empty());
        for (n, (_, change)) in changes.iter().enumerate() {
            prop_assert_eq!(n % 2 == 0, matches!(change, Change::Opened(_)));
        }
        let book = tracked.book();
        prop_assert_eq!(book.opened() - book.closed(), u64::from(book.open().is_some()));
        prop_assert_eq!(changes.len() as u64, book.opened() + book.closed());
    }

    #[test]
    fn counting_that_begins_anew_is_no_trouble(before in traffic(), after in traffic()) {
        let mut tracked = Tracked::new(objective(0.99));
        let start = Instant::now();
        run(&mut tracked, start, before);
        run(&mut tracked, start + Duration::from_secs(1000), after);
    }
}
