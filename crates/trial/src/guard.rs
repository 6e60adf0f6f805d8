//! When a warm-up is over, and when a cell is given up. Both are decided from windows of the load: figures of
//! a second or so.

use crate::spec::Guard;
use crate::store::{HostFigures, Second};
use serde::{Deserialize, Serialize};

/// This many windows must agree.
const WINDOWS: usize = 3;
/// Within this share of their mean, in transactions a second.
const AGREE: f64 = 0.10;
/// The same in their median response time, which an open loop is judged by.
const AGREE_IN_TIME: f64 = 0.20;
/// Three figures of a steady load lie no further apart in 19 of 20 cases, in standard errors of one: the
/// studentized range of three, where the error is known.
const BY_CHANCE: f64 = 3.314;
/// In an open loop, this share of transactions may not be begun or answered in time.
const MISSING: f64 = 0.01;

/// What gives a cell up must be more than is allowed by this many standard deviations of a count of things
/// that come by chance: of 60 transactions one is more than 1 % and says nothing.
const MORE_BY_CHANCE: f64 = 3.0;

/// Figures of a stretch of load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Transactions a second.
    pub per_second: f64,
    /// Half of the response times are shorter, ms.
    pub p50_ms: f64,
    /// 99 % are shorter, ms.
    pub p99_ms: f64,
    /// Share of transactions that failed.
    pub failed: f64,
    /// Share of transactions that were due and not begun or not answered in time.
    pub missing: f64,
    /// Transactions that the shares are of; 0 where that was not kept.
    #[serde(default)]
    pub transactions: u64,
}

/// A window of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmUpWindow {
    pub window: Window,
    /// How far chance alone moves its figure: the standard error of the throughput of a closed loop, of the
    /// median response time of an open one, as a share of it. `None` where that is not known.
    pub error: Option<f64>,
}

/// Whether the load is steady: the last windows agree in their throughput. That of an open loop is its rate
/// from the first window on, however cold the cache is: there they agree in their median response time.
///
/// A window of few transactions differs from the next by chance. Where that is more than may be between
/// windows that agree, three parts of two windows each are looked at, of three and so on, as far as there are
/// windows. What differs by more than it may and chance together is unsteady all the same; else it is `None`:
/// nobody can tell.
pub fn is_steady(windows: &[WarmUpWindow], is_open: bool) -> Option<bool> {
    let agree = if is_open { AGREE_IN_TIME } else { AGREE };
    let mut differ = false;
    for length in 1..=windows.len() / WINDOWS {
        let last = &windows[windows.len() - WINDOWS * length..];
        let parts = last.chunks(length).map(|part| together(part, is_open));
        let Some(parts) = parts.collect::<Option<Vec<(f64, f64)>>>() else { continue };
        let mean = parts.iter().map(|(value, _)| value).sum::<f64>() / WINDOWS as f64;
        let square = parts.iter().map(|(_, error)| error * error).sum::<f64>() / WINDOWS as f64;
        let most = parts.iter().map(|(value, _)| *value).fold(f64::MIN, f64::max);
        let least = parts.iter().map(|(value, _)| *value).fold(f64::MAX, f64::min);
        let (apart, chance) = ((most - least) / mean, BY_CHANCE * square.sqrt() / mean);
        if chance <= agree {
            return Some(apart <= agree);
        }
        differ |= apart > agree + chance;
    }
    differ.then_some(false)
}

/// The figure of windows of the same length together, and its standard error.
fn together(windows: &[WarmUpWindow], is_open: bool) -> Option<(f64, f64)> {
    let value = |one: &WarmUpWindow| if is_open { one.window.p50_ms } else { one.window.per_second };
    let squares = windows.iter().map(|one| Some((value(one) * one.error?).powi(2))).sum::<Option<f64>>()?;
    let mean = windows.iter().map(value).sum::<f64>() / windows.len() as f64;
    (mean > 0.0).then(|| (mean, squares.sqrt() / windows.len() as f64))
}

/// Baselines that a cell's p99 is held against: where trials are short, one alone differs from the next by as
/// much as the guard's limit.
const BASELINES: usize = 3;

/// What a cell is held against, from the load's baselines so far, the newest first: the last one, with the
/// largest p99 of the last three.
pub fn held_against(newest_first: impl Iterator<Item = Window>) -> Option<Window> {
    let last: Vec<Window> = newest_first.take(BASELINES).collect();
    let p99_ms = last.iter().map(|window| window.p99_ms).fold(0.0, f64::max);
    last.first().map(|newest| Window { p99_ms, ..*newest })
}

/// Why a cell is given up at once, after its warm-up or its measurement; `None` to go on. `baseline` is what
/// it is held against; without one (it is the baseline itself) only memory and overload are looked at.
/// `memory` is the share in use on the server's host, or of the limit of its cgroup where that is the larger,
/// where that host is seen.
pub fn gives_up(
    guard: &Guard,
    window: &Window,
    memory: Option<f64>,
    baseline: Option<&Window>,
) -> Option<String> {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    if let Some(memory) = memory.filter(|memory| *memory > guard.memory) {
        return Some(format!(
            "{} of the host's memory, or of the limit of the server's cgroup, is in use (limit {}: memory in \
             [guard])",
            percent(memory),
            percent(guard.memory)
        ));
    }
    let is_more = |share: f64, allowed: f64| {
        let count = window.transactions as f64;
        let beyond_chance = count * (share - allowed) > MORE_BY_CHANCE * (count * allowed).sqrt();
        share > allowed && (beyond_chance || window.transactions == 0)
    };
    if is_more(window.missing, MISSING) {
        return lacks(window);
    }
    let baseline = baseline?;
    if is_more(window.failed, baseline.failed + guard.errors) {
        return Some(format!(
            "{} of the transactions failed (baseline: {})",
            percent(window.failed),
            percent(baseline.failed)
        ));
    }
    None
}

/// Why a measurement is no figure although it lacks no more than chance makes of so few transactions: those
/// that were not answered would be its slowest.
pub fn lacks(window: &Window) -> Option<String> {
    (window.missing > MISSING).then(|| {
        format!("{:.1} % of the transactions were not begun or not answered in time", window.missing * 100.0)
    })
}

/// Why a cell is too slow to go on with; `None` if it is not. It counts when it is seen twice: once it may be
/// the host's.
pub fn is_slow(guard: &Guard, window: &Window, baseline: Option<&Window>) -> Option<String> {
    let baseline = baseline?;
    let times = window.p99_ms / baseline.p99_ms;
    (times > guard.latency).then(|| {
        format!(
            "p99 of {:.1} ms is {times:.1} times the {:.1} ms of the slowest of the last baselines (limit {})",
            window.p99_ms, baseline.p99_ms, guard.latency
        )
    })
}

/// A limit of CPU may hold somebody back for this share of the time.
const THROTTLED: f64 = 0.05;
/// Throughput of the last third of a measurement may differ from the first by this share.
const DRIFT: f64 = 0.30;
/// And by this many standard deviations of the difference of two counts of things that come by chance.
const DRIFT_BY_CHANCE: f64 = 3.0;

/// Why a measurement must not be used although its load was sent as it should be. A drift counts only where
/// the warm-up did not become steady either, and only once: a setting that makes a server unsteady twice is a
/// finding.
pub fn voids(guard: &Guard, host: &HostFigures, series: &[Second], excused: bool) -> Option<String> {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    if host.steal > guard.steal {
        return Some(format!(
            "the hypervisor took {} of the CPU away (limit {}: steal in [guard])",
            percent(host.steal),
            percent(guard.steal)
        ));
    }
    if host.throttled > THROTTLED {
        return Some(format!(
            "throttled: a limit of CPU held it back for {} of the time",
            percent(host.throttled)
        ));
    }
    let third = series.len() / 3;
    if excused || third < 2 {
        return None;
    }
    let sum = |part: &[Second]| part.iter().map(|second| second.done as f64).sum::<f64>();
    let (first, last) = (sum(&series[..third]), sum(&series[series.len() - third..]));
    let apart = (last / first.max(1.0) - 1.0).abs();
    let by_chance = DRIFT_BY_CHANCE * (first + last).sqrt();
    (apart > DRIFT && (last - first).abs() > by_chance).then(|| {
        format!(
            "not stationary: its last third has {} of the throughput of its first",
            percent(last / first.max(1.0))
        )
    })
}

/// A drift is looked at where a quarter of the measurement has this many seconds.
const QUARTER: usize = 4;
/// The middle p99 of the seconds of one half may be this many times that of the other.
const DRIFT_IN_TIME: f64 = 1.5;
/// And of all pairs of a second of one half with one of the other this share may be the slower ones: with 15
/// seconds each and no drift it is more in 2 cases of 10,000.
const SLOWER: f64 = 0.9;

/// Why the response times of an open loop, whose throughput is its rate however slow it becomes, are no
/// figure: those of one half of the measurement are not those of the other. Ordinary noise is none of it: the
/// halves must lie far apart, almost second by second, and both quarters of one beyond both of the other, so
/// that no burst does it.
pub fn drifts(series: &[Second]) -> Option<String> {
    let answered = series.iter().filter(|second| second.done > 0 && second.p99_ms > 0.0);
    let times: Vec<f64> = answered.map(|second| second.p99_ms).collect();
    if times.len() < 4 * QUARTER {
        return None;
    }
    let middle = plan::quantile::median;
    let quarters = |half: &[f64]| {
        let (first, second) = half.split_at(half.len() / 2);
        Some((middle(first)?, middle(second)?))
    };
    let (first, second) = times.split_at(times.len() / 2);
    let (before, after) = (middle(first)?, middle(second)?);
    let (low, high) = if after > before { (first, second) } else { (second, first) };
    let slower = low.iter().map(|low| high.iter().filter(|high| *high > low).count()).sum::<usize>();
    let share = slower as f64 / (low.len() * high.len()) as f64;
    let (of_low, of_high) = (quarters(low)?, quarters(high)?);
    let apart = of_low.0.max(of_low.1) < of_high.0.min(of_high.1);
    let times = before.max(after) / before.min(after);
    (times > DRIFT_IN_TIME && share > SLOWER && apart).then(|| {
        format!(
            "not stationary: p99 was {before:.1} ms in its first half and {after:.1} ms in its second (the \
             middle of its seconds)"
        )
    })
}

/// The middle of the last windows, which one hiccup does not move.
pub fn recent(windows: &[Window]) -> Option<Window> {
    let last = windows.get(windows.len().saturating_sub(WINDOWS)..).filter(|last| !last.is_empty())?;
    let middle = |of: fn(&Window) -> f64| {
        let sorted = plan::quantile::sorted(last.iter().map(of).collect());
        plan::quantile::median(&sorted).unwrap_or_default()
    };
    Some(Window {
        per_second: middle(|w| w.per_second),
        p50_ms: middle(|w| w.p50_ms),
        p99_ms: middle(|w| w.p99_ms),
        failed: middle(|w| w.failed),
        missing: middle(|w| w.missing),
        // Of one of them, as the shares are.
        transactions: middle(|w| w.transactions as f64) as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(per_second: f64, p99_ms: f64) -> Window {
        Window { per_second, p99_ms, ..Window::default() }
    }

    #[test]
    fn a_load_is_steady_when_three_windows_in_a_row_agree() {
        let one = |rate: &f64| WarmUpWindow { window: window(*rate, 1.0), error: Some(0.01) };
        let windows = |rates: &[f64]| rates.iter().map(one).collect::<Vec<_>>();
        assert_eq!(is_steady(&windows(&[100.0, 100.0]), false), None, "too few");
        assert_eq!(is_steady(&windows(&[50.0, 80.0, 100.0]), false), Some(false), "it still warms up");
        assert_eq!(is_steady(&windows(&[50.0, 97.0, 100.0, 104.0]), false), Some(true));
        assert_eq!(is_steady(&windows(&[0.0, 0.0, 0.0]), false), None, "nothing is answered");
    }

    #[test]
    fn an_open_loop_is_steady_when_its_response_times_are_and_not_because_its_rate_is() {
        let windows = |times: &[f64]| {
            let one = |p50_ms: &f64| {
                let window = Window { p50_ms: *p50_ms, ..window(100.0, 50.0) };
                WarmUpWindow { window, error: Some(0.02) }
            };
            times.iter().map(one).collect::<Vec<_>>()
        };
        let warming = windows(&[9.0, 6.0, 4.0]);
        assert_eq!(is_steady(&warming, false), Some(true), "the rate that is sent");
        assert_eq!(is_steady(&warming, true), Some(false), "the cache still fills");
        assert_eq!(is_steady(&windows(&[9.0, 4.0, 4.3, 3.9]), true), Some(true));
    }

    #[test]
    fn windows_that_chance_moves_by_more_than_they_may_differ_tell_nothing_unless_they_differ_by_more() {
        let windows = |times: &[f64], error| {
            let one = |p50_ms: &f64| WarmUpWindow {
                window: Window { p50_ms: *p50_ms, ..window(5.0, 50.0) },
                error,
            };
            times.iter().map(one).collect::<Vec<_>>()
        };
        let equal = [4.0, 4.1, 4.0];
        assert_eq!(is_steady(&windows(&equal, Some(0.05)), true), Some(true));
        assert_eq!(is_steady(&windows(&equal, Some(0.1)), true), None, "they agree by chance");
        assert_eq!(is_steady(&windows(&equal, None), true), None);
        assert_eq!(is_steady(&windows(&[4.0, 5.2, 4.6], Some(0.1)), true), None, "they differ by chance");
        assert_eq!(is_steady(&windows(&[9.0, 4.0, 3.0], Some(0.1)), true), Some(false));
        // Three parts of three windows each: 0.1 / root of 3 is less than 0.2 / 3.3.
        let nine = [4.0, 4.4, 4.2, 3.8, 4.2, 4.6, 4.0, 4.2, 4.4];
        assert_eq!(is_steady(&windows(&nine[..8], Some(0.1)), true), None);
        assert_eq!(is_steady(&windows(&nine, Some(0.1)), true), Some(true));
        let falls = [9.0, 8.0, 7.0, 6.0, 6.0, 5.5, 5.0, 5.0, 4.0];
        assert_eq!(is_steady(&windows(&falls, Some(0.1)), true), Some(false));
    }

    /// Transactions that come by chance and take exponential times; nothing changes.
    #[test]
    fn an_open_loop_of_few_transactions_is_not_called_steady_or_unsteady_by_chance() {
        use rand::SeedableRng;
        use rand_distr::{Distribution, Exp1, Poisson};
        let mut rng = rand::rngs::StdRng::seed_from_u64(1);
        let mut verdicts = |mean: f64, windows: usize, times: usize| {
            let mut one = || {
                let count: f64 = Poisson::new(mean).unwrap().sample(&mut rng);
                let all = (0..count as usize).map(|_| Exp1.sample(&mut rng)).collect::<Vec<f64>>();
                let all = plan::quantile::sorted(all);
                let at = |q: f64| plan::quantile::quantile(&all, q).unwrap_or_default();
                let root = count.sqrt();
                let error = (at(0.5 + 0.5 / root) - at(0.5 - 0.5 / root)) / 2.0 / at(0.5);
                let window = Window { p50_ms: at(0.5), ..window(mean, 50.0) };
                WarmUpWindow { window, error: (count >= 10.0).then_some(error) }
            };
            let mut load = || (0..windows).map(|_| one()).collect::<Vec<_>>();
            (0..times).map(|_| is_steady(&load(), true)).collect::<Vec<_>>()
        };
        let share = |all: &[Option<bool>], of: Option<bool>| {
            all.iter().filter(|one| **one == of).count() as f64 / all.len() as f64
        };
        let few = verdicts(20.0, 5, 400);
        assert!(share(&few, Some(false)) < 0.06 && share(&few, None) > 0.9, "{few:?}");
        assert_eq!(share(&verdicts(4.0, 5, 100), None), 1.0);
        let many = verdicts(1_500.0, 3, 60);
        assert!(share(&many, Some(true)) > 0.9, "{many:?}");
        let together = verdicts(40.0, 60, 20);
        assert!(share(&together, Some(true)) > 0.7, "{together:?}");
    }

    #[test]
    fn a_cell_is_given_up_for_latency_errors_memory_and_overload_with_the_figures() {
        let guard = Guard::default();
        let base = window(100.0, 10.0);
        let why = |window: Window, memory| gives_up(&guard, &window, Some(memory), Some(&base));
        let slow = |p99_ms| is_slow(&guard, &window(100.0, p99_ms), Some(&base));
        assert_eq!((why(window(100.0, 19.0), 0.5), slow(19.0)), (None, None));
        assert!(slow(31.0).unwrap().contains("3.1 times the 10.0 ms of the slowest"));
        assert!(
            why(Window { failed: 0.02, ..base }, 0.5).unwrap().contains("2.0 % of the transactions failed")
        );
        let of = |transactions: u64, failed: u64, allowed: f64| {
            let window = Window { transactions, failed: failed as f64 / transactions as f64, ..base };
            gives_up(&guard, &window, Some(0.5), Some(&Window { failed: allowed, ..base }))
        };
        assert_eq!((of(60, 1, 0.0), of(60, 2, 0.0)), (None, None), "chance, of so few");
        assert!(of(60, 3, 0.0).is_some() && of(60_000, 700, 0.0).is_some());
        assert_eq!((of(600, 11, 0.0067), of(60_000, 590, 0.0)), (None, None));
        assert!(of(600, 60, 0.0067).unwrap().contains("10.0 % of the transactions failed"));
        let lacking = |transactions: u64, missing: u64| {
            let missing = missing as f64 / transactions as f64;
            Window { transactions, missing, ..base }
        };
        let one = lacking(60, 1);
        assert_eq!(gives_up(&guard, &one, Some(0.5), None), None, "the baseline is not lost by one of them");
        assert!(lacks(&one).unwrap().starts_with("1.7 % of the transactions were not begun"));
        assert!(gives_up(&guard, &lacking(60, 6), Some(0.5), None).is_some());
        assert_eq!(lacks(&lacking(600, 1)), None);
        let full = why(base, 0.93).unwrap();
        assert!(full.contains("93.0 % of the host's memory") && full.contains("memory in [guard]"), "{full}");
        assert!(why(Window { missing: 0.5, ..base }, 0.5).unwrap().contains("50.0 %"));
        assert_eq!(is_slow(&guard, &window(1.0, 1e9), None), None, "the baseline is no worse than itself");
        assert_eq!(gives_up(&guard, &window(1.0, 1e9), Some(0.5), None), None);
        assert_eq!(gives_up(&guard, &base, None, Some(&base)), None, "another machine's memory is not seen");
    }

    #[test]
    fn a_cell_is_held_against_the_slowest_of_the_last_three_baselines() {
        let baselines = [10.0, 30.0, 20.0, 500.0].map(|p99_ms| window(p99_ms * 2.0, p99_ms));
        let held = held_against(baselines.into_iter()).unwrap();
        assert_eq!((held.per_second, held.p99_ms), (20.0, 30.0), "the newest, but for its p99");
        assert_eq!(
            is_slow(&Guard::default(), &window(1.0, 45.0), Some(&held)),
            None,
            "an equal run may be so"
        );
        assert_eq!(held_against(std::iter::empty()), None);
    }

    #[test]
    fn a_measurement_is_void_for_steal_throttling_and_drift_in_words() {
        let second = |done| Second { done, ..Second::default() };
        let (steady, rising) = ([second(100); 9], (1..=9).map(|at| second(at * 20)).collect::<Vec<_>>());
        let host = HostFigures::default();
        assert_eq!(voids(&Guard::default(), &host, &steady, false), None);
        assert!(
            voids(&Guard::default(), &HostFigures { steal: 0.2, ..host }, &steady, true)
                .unwrap()
                .contains("hypervisor")
        );
        assert!(
            voids(&Guard::default(), &HostFigures { throttled: 0.5, ..host }, &steady, true)
                .unwrap()
                .contains("throttled")
        );
        assert!(voids(&Guard::default(), &host, &rising, false).unwrap().contains("not stationary"));
        assert_eq!(voids(&Guard::default(), &host, &rising, true), None, "twice it is a finding");
        // 12 and 21 transactions: chance alone is so far off in one of ten cases.
        let few = [4, 4, 4, 5, 5, 5, 7, 7, 7].map(second);
        assert_eq!(voids(&Guard::default(), &host, &few, false), None, "too few to tell");
        let stops = [20, 20, 20, 10, 10, 10, 2, 2, 2].map(second);
        assert!(voids(&Guard::default(), &host, &stops, false).is_some());
    }

    #[test]
    fn response_times_that_drift_void_an_open_loop_and_noise_does_not() {
        let series = |p99_ms: &dyn Fn(u32) -> f64| {
            let second = |at| Second { done: 100, p99_ms: p99_ms(at), ..Second::default() };
            (0..30).map(second).collect::<Vec<_>>()
        };
        // A cache that fills, a queue that grows.
        let fills = drifts(&series(&|at| 4.0 + 20.0 * (-f64::from(at) / 10.0).exp())).unwrap();
        assert!(fills.starts_with("not stationary: p99 was 1"), "{fills}");
        assert!(drifts(&series(&|at| 5.0 + f64::from(at))).is_some());
        // Noise, three times as much at most; a slow rise; a burst in one half; one in each second quarter.
        let noise = |at: u32| 5.0 + f64::from(at * 7 % 11);
        assert_eq!(drifts(&series(&noise)), None);
        assert_eq!(drifts(&series(&|at| 10.0 + f64::from(at) / 5.0)), None);
        assert_eq!(drifts(&series(&|at| if (20..27).contains(&at) { 90.0 } else { noise(at) })), None);
        assert_eq!(drifts(&series(&|at| if at % 15 > 7 { 20.0 } else { 5.0 })), None);
        assert_eq!(drifts(&series(&|at| f64::from(at + 1))[..15]), None, "too short to tell");
        let silent = Second { done: 0, p99_ms: 0.0, ..Second::default() };
        assert_eq!(drifts(&[silent; 30]), None, "nothing was answered");
    }

    /// Noise of each second, and of stretches of seconds, as large as a p99 has where few transactions are
    /// sent: what is void is tried once more, so a few in a thousand do no harm.
    #[test]
    fn of_measurements_that_do_not_drift_next_to_none_is_void() {
        use rand::SeedableRng;
        use rand_distr::{Distribution, StandardNormal};
        let mut rng = rand::rngs::StdRng::seed_from_u64(1);
        let mut void = 0;
        for _ in 0..1_000 {
            let mut level = 0.0;
            let second = |_: u32| {
                let slow: f64 = StandardNormal.sample(&mut rng);
                let own: f64 = StandardNormal.sample(&mut rng);
                level = 0.5 * level + 0.2 * slow;
                Second { done: 100, p99_ms: 10.0 * (level + 0.2 * own).exp(), ..Second::default() }
            };
            let series: Vec<Second> = (0..30).map(second).collect();
            void += usize::from(drifts(&series).is_some());
        }
        assert!(void <= 10, "{void} of 1000");
    }

    #[test]
    fn one_hiccup_does_not_end_a_cell() {
        let windows = [window(100.0, 9.0), window(100.0, 500.0), window(100.0, 10.0)];
        assert!((recent(&windows).unwrap().p99_ms - 10.0).abs() < 1e-9);
        assert_eq!(recent(&[]), None);
    }
}
