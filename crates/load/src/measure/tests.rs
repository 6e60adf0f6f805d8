//! The search against queues with exact theory, and against worlds that contradict themselves: everything is
//! simulated, no time passes.

use super::*;
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::Exp1;

fn goal(objective: &str, start: f64) -> Goal {
    Goal::new(Objective::parse(objective).unwrap(), Duration::from_secs(60), start, 1e6)
}

/// Runs the search with `trial` as the world: what it found and what it sent.
fn search(goal: &Goal, mut trial: impl FnMut(f64, f64) -> (u64, u64)) -> (Capacity, Vec<Trial>) {
    let mut trials = Vec::new();
    loop {
        match goal.next(&trials) {
            Next::Done(capacity) => return (capacity, trials),
            Next::Send { rate, seconds } => {
                let (due, lost) = trial(rate, seconds);
                trials.push(Trial { rate, seconds, due, lost, ..Trial::default() });
                assert!(trials.len() < 200, "no end: {:?}", &trials[190..]);
            }
        }
    }
}

/// A world in which half of the trials at `limit` are good, nine of ten at `limit * 9^-spread`, and so on.
fn mixed(rng: &mut SmallRng, limit: f64, spread: f64, rate: f64) -> (u64, u64) {
    let good = 1.0 / (1.0 + ((rate / limit).ln() / spread).exp());
    (1000, if rng.random::<f64>() < good { 0 } else { 500 })
}

/// A queue with `servers` places; how many of the arrivals of a trial took longer than `within`.
fn queue(
    rng: &mut SmallRng,
    servers: usize,
    within: f64,
    mut service: impl FnMut(&mut SmallRng) -> f64,
    (rate, seconds): (f64, f64),
) -> (u64, u64) {
    let (mut now, mut due, mut lost) = (0.0, 0, 0);
    let mut free = vec![0.0_f64; servers];
    loop {
        now += rng.sample::<f64, _>(Exp1) / rate;
        if now > seconds {
            return (due, lost);
        }
        let first = (0..servers).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap();
        free[first] = free[first].max(now) + service(rng);
        due += 1;
        lost += u64::from(free[first] - now > within);
    }
}

#[test]
fn the_capacity_of_a_queue_with_exponential_service_is_found_within_three_percent() {
    // M/M/1: P(T > t) = exp(-(m - r) t). With m = 1000 and 1 % above 20 ms: r = 1000 - ln(100) / 0.02 =
    // 769.7.
    let exact = 1000.0 - 100.0_f64.ln() / 0.02;
    for seed in 0..4 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (found, _) = search(&goal("p99 < 20ms", 100.0), |rate, seconds| {
            queue(&mut rng, 1, 0.020, |rng| rng.sample::<f64, _>(Exp1) / 1000.0, (rate, seconds))
        });
        let rate = found.rate.unwrap();
        assert!((rate / exact - 1.0).abs() < 0.03, "seed {seed}: {rate}, exactly {exact}");
    }
}

#[test]
fn the_capacity_of_several_places_with_constant_service_is_found_within_three_percent() {
    // M/D/4 with 10 ms each: no closed form that is worth having, so its own long run is the reference.
    let at = |rate: f64| {
        let mut rng = SmallRng::seed_from_u64(99);
        let (due, lost) = queue(&mut rng, 4, 0.030, |_| 0.010, (rate, 20_000.0));
        lost as f64 / due as f64
    };
    let (mut low, mut high) = (200.0, 400.0);
    while high - low > 0.5 {
        let middle = f64::midpoint(low, high);
        if at(middle) > 0.05 { high = middle } else { low = middle }
    }
    for seed in 0..2 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (found, _) = search(&goal("p95 < 30ms", 1000.0), |rate, seconds| {
            queue(&mut rng, 4, 0.030, |_| 0.010, (rate, seconds))
        });
        let rate = found.rate.unwrap();
        assert!((rate / low - 1.0).abs() < 0.03, "seed {seed}: {rate}, its long run says {low}");
    }
}

#[test]
fn a_server_that_can_do_everything_or_nothing_ends_the_search_too() {
    let goal = Goal { most: 5000.0, ..goal("p99 < 15ms", 100.0) };
    let (found, _) = search(&goal, |rate, seconds| ((rate * seconds) as u64, 0));
    let most = Some(5000.0);
    assert_eq!(found, Capacity { rate: most, lower: most, upper: None, nine_of_ten: most, one_of_ten: None });
    let (found, _) =
        search(&goal, |rate, seconds| ((rate * seconds) as u64 + 1, (rate * seconds) as u64 + 1));
    assert_eq!(found, Capacity::default());
}

#[test]
fn short_trials_that_lie_cost_some_trials_and_not_the_answer() {
    let goal = goal("p99 < 15ms", 100.0);
    for limit_of_short in [250.0, 4000.0] {
        let (found, trials) = search(&goal, |rate, seconds| {
            let limit = if seconds < goal.trial { limit_of_short } else { 1000.0 };
            (1000, if rate > limit { 500 } else { 0 })
        });
        let rate = found.rate.unwrap();
        assert!((rate / 1000.0 - 1.0).abs() < 0.02, "{limit_of_short}: {rate}");
        assert!(trials.len() < 40, "{limit_of_short}: {}", trials.len());
    }
}

#[test]
fn what_loses_exactly_the_share_that_may_be_lost_is_good() {
    for (objective, lost) in [("p80 < 15ms", 20), ("p90 < 15ms", 10), ("p95 < 15ms", 5), ("p99 < 15ms", 1)] {
        let goal = goal(objective, 100.0);
        let trial = |lost| Trial { due: 100, lost, ..Trial::default() };
        assert!(!goal.is_bad(&trial(lost)) && goal.is_bad(&trial(lost + 1)), "{objective}");
    }
}

#[test]
fn objectives_are_read_and_what_is_none_is_refused() {
    let found = Objective::parse("p99.9 <= 1.5s").unwrap();
    assert!((found.quantile - 0.999).abs() < 1e-12 && found.within == Duration::from_millis(1500));
    for wrong in ["", "p99", "p99 < 15", "p0 < 1s", "p100 < 1s", "99 < 15ms", "p99 > 15ms", "p99 < 0s"] {
        assert!(Objective::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_trial_that_went_wrong_by_something_else_does_not_move_the_answer() {
    let goal = goal("p99 < 15ms", 100.0);
    for wrong in 0..10 {
        let mut full = 0;
        let (found, _) = search(&goal, |rate, seconds| {
            full += u32::from(seconds >= goal.trial);
            let bad = (rate > 1000.0) != (full == wrong && seconds >= goal.trial);
            (1000, if bad { 500 } else { 0 })
        });
        let rate = found.rate.unwrap();
        assert!((rate / 1000.0 - 1.0).abs() < 0.04, "trial {wrong}: {rate}");
    }
}

/// What a search costs and gives where trials contradict each other; `--nocapture` prints the table of
/// decision 26.
#[test]
fn where_good_and_bad_trials_mix_the_limit_lies_in_nine_of_ten_intervals() {
    // Each is work of many seconds.
    std::thread::scope(|scope| {
        for spread in [0.005, 0.02, 0.04] {
            scope.spawn(move || the_limit_lies_in_nine_of_ten_intervals(spread));
        }
    });
}

fn the_limit_lies_in_nine_of_ten_intervals(spread: f64) {
    const SEARCHES: u64 = 40;
    let (mut within, mut doubted, mut sent) = (0, 0, 0);
    let mut rates = Vec::new();
    for seed in 0..SEARCHES {
        let mut rng = SmallRng::seed_from_u64(seed);
        // From the same rate all would try the same ones.
        let goal = goal("p99 < 15ms", 100.0 * (seed as f64 / 5.0).fract().exp2());
        let (found, trials) = search(&goal, |rate, _| mixed(&mut rng, 1000.0, spread, rate));
        within += u64::from(found.lower.unwrap() <= 1000.0 && 1000.0 <= found.upper.unwrap());
        doubted += u64::from(goal.doubt(&trials, &found).is_some());
        sent += trials.iter().filter(|trial| goal.is_full(trial)).count() as u64;
        rates.push(found.rate.unwrap());
    }
    let apart = rates.chunks(5).map(|five| {
        let most = five.iter().copied().fold(0.0, f64::max);
        most / five.iter().copied().fold(f64::MAX, f64::min) - 1.0
    });
    let apart = apart.map(|apart| format!("{:.1}", apart * 100.0)).collect::<Vec<_>>().join(", ");
    println!(
        "spread {spread}: {} full trials, {within} of {SEARCHES} intervals hold the limit, {doubted} doubted, each five \
         {apart} % apart",
        sent / SEARCHES
    );
    assert!(within >= SEARCHES * 8 / 10, "spread {spread}: {within} of {SEARCHES}");
    assert!(doubted <= 1, "spread {spread}: {doubted} of {SEARCHES} doubted");
}

#[test]
fn how_widely_good_and_bad_trials_mix_is_told() {
    let mut rng = SmallRng::seed_from_u64(1);
    let goal = Goal { width: 0.02, trials: 150, ..goal("p99 < 15ms", 400.0) };
    let (found, _) = search(&goal, |rate, _| mixed(&mut rng, 1000.0, 0.04, rate));
    // 9^0.04 = 1.092.
    let wide = found.one_of_ten.unwrap() / found.nine_of_ten.unwrap();
    assert!((1.1..1.4).contains(&wide), "{found:?}");
}

#[test]
fn a_limit_that_moves_during_the_search_is_no_figure() {
    let goal = goal("p99 < 15ms", 100.0);
    let mut rng = SmallRng::seed_from_u64(1);
    let mut full = 0;
    let (found, trials) = search(&goal, |rate, seconds| {
        full += u32::from(seconds >= goal.trial);
        mixed(&mut rng, if full <= 20 { 1500.0 } else { 1000.0 }, 0.04, rate)
    });
    let Some(Doubt::Moved { first, then, .. }) = goal.doubt(&trials, &found) else {
        panic!("{found:?} {trials:?}")
    };
    assert!(then.1 < first.0, "{first:?} {then:?}");
}

#[test]
fn what_trials_cannot_tell_is_no_figure() {
    let goal = goal("p99 < 15ms", 100.0);
    let mut rng = SmallRng::seed_from_u64(1);
    let (found, trials) = search(&goal, |rate, _| mixed(&mut rng, 1000.0, 1.5, rate));
    assert!(matches!(goal.doubt(&trials, &found), Some(Doubt::Coarse { .. })), "{found:?}");
}

#[test]
fn what_may_pass_by_itself_is_waited_for_and_what_lasts_is_not() {
    let (full, noisy) = (Unsound::Busy { share: 0.9 }, Unsound::Restarted { lost: 8, clients: 8 });
    for (seconds, lasting, passing) in [(1, [3, 9], [120, 360]), (5, [3, 9], [24, 72]), (60, [3, 9], [3, 9])]
    {
        let trial = Duration::from_secs(seconds);
        let goal = Goal::new(Objective::parse("p99 < 15ms").unwrap(), trial, 100.0, 1e6);
        let chances = |why| [goal.trial, goal.short].map(|seconds| goal.chances(seconds, why));
        assert_eq!((chances(&full), chances(&noisy)), (lasting, passing), "trials of {seconds} s");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_sharp_limit_anywhere_is_found(limit in 1.0..50_000.0_f64, start in 1.0..5_000.0_f64) {
        let goal = goal("p99 < 15ms", start);
        let (found, trials) = search(&goal, |rate, _| (1000, if rate > limit { 500 } else { 0 }));
        let (lower, rate, upper) = (found.lower.unwrap(), found.rate.unwrap(), found.upper.unwrap());
        prop_assert!((rate / limit - 1.0).abs() < 0.04, "{rate} {limit}");
        prop_assert!(lower < rate && rate < upper && upper <= lower * (1.0 + goal.width) * 1.0001);
        prop_assert!(trials.len() < 50, "{}", trials.len());
    }

    #[test]
    fn whatever_the_trials_say_the_search_ends_and_its_bounds_are_in_order(seed in 0..2000_u64, coin in 0.0..1.0_f64) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let goal = Goal { most: 1e5, ..goal("p95 < 15ms", 100.0) };
        let (found, trials) = search(&goal, |_, _| (1000, if rng.random::<f64>() < coin { 500 } else { 0 }));
        if let (Some(lower), Some(rate)) = (found.lower, found.rate) {
            prop_assert!(lower <= rate && found.upper.is_none_or(|upper| rate <= upper), "{found:?}");
        }
        prop_assert!(goal.seconds_left(&trials) <= goal.seconds_at_most(&trials) + goal.trial);
        let _ = goal.doubt(&trials, &found);
    }
}
