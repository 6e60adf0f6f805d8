//! Trials that count and trials that do not.

use super::*;
use crate::outcome::Totals;
use std::time::Duration;

const OBJECTIVE: Objective = Objective { quantile: 0.99, within: Duration::from_millis(15) };

/// 10 s of 1000 a second, some of them late.
fn outcome(late: u64, excused: u64) -> Outcome {
    let moment = |second| Moment {
        second,
        done: 1000,
        queries: 1000,
        failed: 0,
        late: late / 10,
        p50_ms: 2.0 + [0.1, -0.1][second as usize % 2],
        p95_ms: 5.0,
        p99_ms: 10.0,
        max_ms: 20.0,
    };
    Outcome {
        arrivals: crate::Arrivals::poisson(1000.0),
        clients: 64,
        totals: Totals {
            arrivals: 10_000,
            done: 10_000,
            queries: 10_000,
            late,
            excused,
            ..Totals::default()
        },
        series: (0..10).map(moment).collect(),
        ..Outcome::quiet()
    }
}

fn of(outcome: &Outcome) -> Result<Trial, Unsound> {
    Trial::of(outcome, 1000.0, 10.0, OBJECTIVE)
}

#[test]
fn the_generators_lateness_voids_a_trial_only_where_it_turns_good_into_bad() {
    assert_eq!(of(&outcome(90, 90)).unwrap().lost, 90, "good, however late the generator was");
    assert_eq!(of(&outcome(130, 10)).unwrap().lost, 130, "bad without its part too");
    assert!(matches!(of(&outcome(130, 50)), Err(Unsound::Generator { lost: 130, excused: 50, .. })));
}

#[test]
fn a_busy_generator_may_say_good_and_not_bad() {
    let busy = |late| {
        let mut outcome = outcome(late, 0);
        outcome.generator.cpu_share = 0.8;
        of(&outcome)
    };
    assert!(busy(50).is_ok());
    assert!(matches!(busy(150), Err(Unsound::Busy { .. })));
}

#[test]
fn a_trial_that_turns_from_good_to_bad_or_back_is_not_steady() {
    let ramp = |late: u64, of_second: &dyn Fn(u64) -> (f64, u64)| {
        let mut outcome = outcome(late, 0);
        for moment in &mut outcome.series {
            (moment.p50_ms, moment.late) = of_second(moment.second);
        }
        of(&outcome)
    };
    // Filling up: 90 of 10,000 is good, 90 of the last 3000 would be bad.
    let filling = ramp(90, &|second| (2.0 + second as f64 / 10.0, if second > 6 { 40 } else { 0 }));
    assert!(matches!(filling, Err(Unsound::Drifting { .. })), "{filling:?}");
    // Warming up.
    let warming = ramp(300, &|second| (9.0 - second as f64 / 2.0, if second < 3 { 100 } else { 0 }));
    assert!(matches!(warming, Err(Unsound::Drifting { .. })), "{warming:?}");
    // A queue that grows, and is not long enough yet.
    let growing = ramp(0, &|second| (2.0 + second as f64, 0));
    assert!(matches!(growing, Err(Unsound::Drifting { .. })), "{growing:?}");
    // Too high a rate gets worse and worse, and is simply bad.
    assert!(ramp(9000, &|second| (20.0 * (1 + second) as f64, 900)).is_ok());
    // A slow drift that changes nothing.
    assert!(ramp(0, &|second| (2.0 + second as f64 / 100.0, 0)).is_ok());
}

#[test]
fn a_trial_in_which_nothing_was_due_is_not_good() {
    let mut none = outcome(0, 0);
    (none.totals.arrivals, none.totals.done) = (0, 0);
    let why = of(&none).unwrap_err();
    assert!(matches!(why, Unsound::NothingDue { .. }) && why.lasts(), "{why}");
    assert!(why.to_string().contains("within 10.0 s"), "{why}");
    none.totals.arrivals = 1;
    assert!(of(&none).is_ok(), "one says little, and something");
}

#[test]
fn a_restart_is_no_measurement_and_one_lost_connection_is() {
    let mut found = outcome(0, 0);
    found.generator.reconnects = 1;
    assert!(of(&found).is_ok());
    found.generator.reconnects = 64;
    assert!(of(&found).unwrap_err().to_string().contains("restarted"));
}
