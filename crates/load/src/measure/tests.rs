//! The search against queues with exact theory: simulated arrivals and service, no time passes.

use super::*;
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::Exp1;

fn goal(objective: &str, start: f64) -> Goal {
    Goal::new(Objective::parse(objective).unwrap(), Duration::from_secs(60), start, 1e6)
}

/// Runs the search with `trial` as the world; the answer and how many seconds it took.
fn search(goal: &Goal, mut trial: impl FnMut(f64, f64) -> (u64, u64)) -> (Capacity, f64) {
    let mut trials = Vec::new();
    loop {
        match goal.next(&trials) {
            Next::Done(capacity) => return (capacity, trials.iter().map(|t: &Trial| t.seconds).sum()),
            Next::Send { rate, seconds } => {
                let (due, lost) = trial(rate, seconds);
                trials.push(Trial { rate, seconds, due, lost, ..Trial::default() });
                assert!(trials.len() < 200, "no end: {:?}", &trials[190..]);
            }
        }
    }
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
    // M/M/1: P(T > t) = exp(-(m - r) t). With m = 1000 and 1 % above 20 ms: r = 1000 - ln(100) / 0.02 = 769.7.
    let exact = 1000.0 - 100.0_f64.ln() / 0.02;
    for seed in 0..4 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (found, _) = search(&goal("p99 < 20ms", 100.0), |rate, seconds| {
            queue(&mut rng, 1, 0.020, |rng| rng.sample::<f64, _>(Exp1) / 1000.0, (rate, seconds))
        });
        let lower = found.lower.unwrap();
        assert!((lower / exact - 1.0).abs() < 0.03, "seed {seed}: {lower}, exactly {exact}");
        assert!(found.upper.unwrap() > lower);
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
        let lower = found.lower.unwrap();
        assert!((lower / low - 1.0).abs() < 0.03, "seed {seed}: {lower}, its long run says {low}");
    }
}

#[test]
fn a_server_that_can_do_everything_or_nothing_ends_the_search_too() {
    let goal = Goal { most: 5000.0, ..goal("p99 < 15ms", 100.0) };
    let (found, _) = search(&goal, |rate, seconds| ((rate * seconds) as u64, 0));
    assert_eq!(found, Capacity { lower: Some(5000.0), upper: None });
    let (found, _) =
        search(&goal, |rate, seconds| ((rate * seconds) as u64 + 1, (rate * seconds) as u64 + 1));
    assert!(found.lower.is_none() && found.upper.is_some());
}

#[test]
fn a_short_trial_that_was_wrong_by_little_costs_one_step_and_not_half_the_range() {
    let goal = goal("p99 < 15ms", 400.0);
    let short =
        |rate: f64, lost: u64| Trial { rate, seconds: goal.short, due: 1000, lost, ..Trial::default() };
    let full = |rate: f64, lost: u64| Trial { seconds: goal.trial, ..short(rate, lost) };
    let mut trials = vec![short(400.0, 0), short(800.0, 5), short(1600.0, 900)];
    trials.extend(vec![full(1000.0, 900); 3]);
    trials.extend(vec![full(800.0, 20); 3]);
    let Next::Send { rate, .. } = goal.next(&trials) else { panic!("an end") };
    assert!((rate - 800.0 / 1.03_f64.powi(2)).abs() < 1e-9, "{rate}");
    trials.extend(vec![full(rate, 20); 3]);
    let Next::Send { rate: further, .. } = goal.next(&trials) else { panic!("an end") };
    assert!((further - rate / 1.03_f64.powi(4)).abs() < 1e-9, "{further}");
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
fn a_lucky_trial_above_the_limit_does_not_raise_the_answer() {
    let goal = goal("p99 < 15ms", 400.0);
    let full =
        |rate: f64, lost: u64| Trial { rate, seconds: goal.trial, due: 1000, lost, ..Trial::default() };
    let mut trials = vec![Trial { rate: 400.0, seconds: 20.0, due: 1000, lost: 0, ..Trial::default() }];
    trials.push(Trial { rate: 800.0, seconds: 20.0, due: 1000, lost: 900, ..Trial::default() });
    trials.extend(vec![full(900.0, 0); 3]);
    trials.extend(vec![full(500.0, 500); 3]);
    trials.extend(vec![full(490.0, 0); 3]);
    assert_eq!(goal.next(&trials), Next::Done(Capacity { lower: Some(490.0), upper: Some(500.0) }));
}

#[test]
fn trials_that_contradict_each_other_by_more_than_the_width_are_told() {
    let goal = goal("p99 < 15ms", 100.0);
    let trial = |rate: f64, lost: u64| Trial { rate, seconds: 60.0, due: 1000, lost, ..Trial::default() };
    let steady = [trial(1000.0, 0), trial(1025.0, 20), trial(1025.0, 5), trial(1050.0, 30)];
    assert_eq!(goal.contradiction(&steady), None, "a rate at the limit does both");
    let short = Trial { seconds: 20.0, ..trial(500.0, 30) };
    assert_eq!(goal.contradiction(&[&steady[..], &[short]].concat()), None, "short trials only bracket");
    let moved = [&steady[..], &[trial(1200.0, 3)]].concat();
    assert_eq!(goal.contradiction(&moved), Some(Contradiction { missed: 1025.0, met: 1200.0 }));
}

proptest! {
    #[test]
    fn a_sharp_limit_anywhere_is_bracketed(limit in 1.0..50_000.0_f64, start in 1.0..5_000.0_f64) {
        let goal = goal("p99 < 15ms", start);
        let (found, seconds) = search(&goal, |rate, seconds| {
            let due = (rate * seconds) as u64 + 1;
            (due, if rate > limit { due } else { 0 })
        });
        let (lower, upper) = (found.lower.unwrap(), found.upper.unwrap());
        prop_assert!(lower <= limit && limit <= upper && upper <= lower * 1.0301, "{lower} {limit} {upper}");
        prop_assert!(seconds < 60.0 * 60.0, "{seconds} s");
    }

    #[test]
    fn whatever_the_trials_say_the_search_ends_and_its_bounds_are_in_order(seed in 0..2000_u64) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let goal = Goal { most: 1e5, ..goal("p95 < 15ms", 100.0) };
        let (found, _) = search(&goal, |rate, seconds| {
            let due = (rate * seconds) as u64 + 1;
            // Noise around a limit near 1000: the nearer, the more a coin decides.
            let bad = rng.random::<f64>() < 1.0 / (1.0 + (-(rate / 1000.0).ln() * 8.0).exp());
            (due, if bad { due } else { 0 })
        });
        if let (Some(lower), Some(upper)) = (found.lower, found.upper) {
            prop_assert!(lower < upper);
        }
    }
}
