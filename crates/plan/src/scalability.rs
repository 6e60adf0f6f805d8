//! The universal scalability law: the throughput X at N transactions at work.
//!
//! X(N) = l N / (1 + s (N - 1) + k N (N - 1)), with l what one alone gets done, s the share that waits for
//! others (contention) and k the cost of agreeing with each of them (coherency). Gunther, *Guerrilla Capacity
//! Planning*, 2007. Its largest throughput is at N* = sqrt((1 - s) / k).
//!
//! By Little's law N / X is the mean response time R, so R(N) = a + b (N - 1) + c N (N - 1) with a = 1/l, b =
//! s/l, c = k/l: linear, and fitted as such. Each observation weighs as the inverse square of its response
//! time, because throughput measured over equal stretches scatters by an equal share.
//!
//! Worked example: l = 1000, s = 0.05, k = 0.001: X(1) = 1000, X(16) = 8060, the most at N* = 31: 8990.
//!
//! Assumptions: one server, one workload, the same hardware at every N; N is what is really at work (not what
//! is connected). Beyond [`REACH`] times the largest N seen nothing is predicted.

use crate::Interval;
use crate::least_squares::{Fit, Parameters, Row, allowance};
use serde::{Deserialize, Serialize};

/// A prediction reaches this many times beyond what was seen.
pub const REACH: f64 = 2.5;
/// Observations at least, and different N among them.
const FEWEST: usize = 6;
const FEWEST_LEVELS: usize = 4;
/// An observation scatters by less than this share, or the law does not describe the server.
const MOST_SCATTER: f64 = 0.15;
/// And by this share, squared, at least.
const LEAST_VARIANCE: f64 = 1e-6;

/// Throughput at a concurrency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Transactions at work at a time, on average.
    pub at_work: f64,
    /// Transactions done a second.
    pub per_s: f64,
}

/// The law fitted to a server.
#[derive(Clone, Debug)]
pub struct Scalability {
    fit: Fit,
    region: Vec<Parameters>,
    /// The largest N seen.
    pub most_seen: f64,
    /// Scatter of an observation about the law, as a share.
    pub scatter: f64,
}

/// Why no law is given.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unfit {
    /// More observations are needed.
    #[error(
        "{observations} observations at {levels} concurrencies are too few for the scalability law; it needs {FEWEST} at {FEWEST_LEVELS}"
    )]
    TooFew {
        /// Observations there are.
        observations: usize,
        /// Different concurrencies among them.
        levels: usize,
    },
    /// The best law has a transaction alone take no time: it was not seen with few at work.
    #[error(
        "from {fewest:.1} at work on, the scalability law cannot tell what one alone gets done; it needs runs with fewer clients too (1, 2, 4)"
    )]
    NoneAlone {
        /// The fewest at work that were seen.
        fewest: f64,
    },
    /// They contradict the law.
    #[error(
        "observations scatter by {:.0} % about the scalability law: it does not describe this server",
        .scatter * 100.0
    )]
    Scatter {
        /// As a share.
        scatter: f64,
    },
}

impl Scalability {
    /// Fits the law; intervals are at `level`.
    ///
    /// # Errors
    /// Too few observations, or such that contradict it.
    pub fn new(seen: &[Throughput], level: f64) -> Result<Self, Unfit> {
        let usable: Vec<&Throughput> = seen
            .iter()
            .filter(|one| one.at_work > 0.0 && one.per_s > 0.0 && one.at_work.is_finite())
            .collect();
        let levels = levels(usable.iter().map(|one| one.at_work));
        let few = Unfit::TooFew { observations: usable.len(), levels };
        if usable.len() < FEWEST || levels < FEWEST_LEVELS {
            return Err(few);
        }
        let mut response: Vec<f64> = usable.iter().map(|one| one.at_work / one.per_s).collect();
        let mut fitted = None;
        // The weights are those of the fitted response time; three rounds settle them.
        for _ in 0..3 {
            let rows: Vec<Row> = usable
                .iter()
                .zip(&response)
                .map(|(one, time)| Row {
                    x: columns(one.at_work),
                    y: one.at_work / one.per_s,
                    weight: 1.0 / (time * time),
                })
                .collect();
            let fit = Fit::new(&rows, 3).ok_or(few.clone())?;
            for (time, one) in response.iter_mut().zip(&usable) {
                *time = time_at(&fit.best, one.at_work).max(f64::MIN_POSITIVE);
            }
            fitted = Some(fit);
        }
        let fit = fitted.ok_or(few)?;
        let degrees = (usable.len() - 3) as f64;
        let variance = fit.misfit / degrees;
        let scatter = variance.sqrt();
        if scatter > MOST_SCATTER {
            return Err(Unfit::Scatter { scatter });
        }
        // One over it is a parameter of the law.
        if fit.best[0] <= 0.0 {
            let fewest = usable.iter().map(|one| one.at_work).fold(f64::INFINITY, f64::min);
            return Err(Unfit::NoneAlone { fewest });
        }
        // Agreement to the last digit is luck of few observations.
        let variance = variance.max(LEAST_VARIANCE);
        let region = fit.region(fit.misfit + allowance(variance, degrees, level));
        let most_seen = usable.iter().map(|one| one.at_work).fold(0.0, f64::max);
        Ok(Self { fit, region, most_seen, scatter })
    }

    /// l, s and k, each with its interval.
    pub fn parameters(&self) -> [Interval; 3] {
        let part = |of: fn(&Parameters) -> f64| self.range(of);
        [part(|p| 1.0 / p[0]), part(|p| p[1] / p[0]), part(|p| p[2] / p[0])]
    }

    /// Throughput with this many at work; `None` too far beyond what was seen.
    pub fn throughput(&self, at_work: f64) -> Option<Interval> {
        (at_work > 0.0 && at_work <= REACH * self.most_seen)
            .then(|| self.range(|p| at_work / time_at(p, at_work)))
    }

    /// The largest throughput at any concurrency; its upper end may be infinite, where no limit is in sight.
    pub fn most(&self) -> Interval {
        self.range(most)
    }

    /// The concurrency of the largest throughput; may be infinite.
    pub fn best_concurrency(&self) -> Interval {
        self.range(
            |p| if p[2] > 0.0 { ((p[0] - p[1]).max(0.0) / p[2]).sqrt().max(1.0) } else { f64::INFINITY },
        )
    }

    fn range(&self, of: impl Fn(&Parameters) -> f64) -> Interval {
        range(&self.region, &self.fit.best, of)
    }
}

/// The range of a figure over a region, about its value at the best parameters.
pub(crate) fn range(region: &[Parameters], best: &Parameters, of: impl Fn(&Parameters) -> f64) -> Interval {
    let estimate = of(best);
    let mut interval = Interval { estimate, low: estimate, high: estimate };
    // Where the first parameter is 0, a transaction alone would take no time: no server does.
    for value in region.iter().filter(|point| point[0] > 0.0).map(of).filter(|value| !value.is_nan()) {
        interval.low = interval.low.min(value);
        interval.high = interval.high.max(value);
    }
    interval
}

/// How many clearly different values there are: 5 % apart and more.
pub(crate) fn levels(values: impl Iterator<Item = f64>) -> usize {
    let sorted = crate::quantile::sorted(values.collect());
    let mut last = f64::NEG_INFINITY;
    sorted
        .iter()
        .filter(|value| {
            if **value > last * 1.05 || last < 0.0 {
                last = **value;
                true
            } else {
                false
            }
        })
        .count()
}

fn columns(at_work: f64) -> Parameters {
    [1.0, at_work - 1.0, at_work * (at_work - 1.0)]
}

fn time_at(p: &Parameters, at_work: f64) -> f64 {
    p.iter().zip(columns(at_work)).map(|(p, x)| p * x).sum()
}

/// 1/X = (a - b)/N + (b - c) + c N.
fn most(p: &Parameters) -> f64 {
    let [a, b, c] = *p;
    let least = if c > 0.0 && a > b {
        let best = ((a - b) / c).sqrt().max(1.0);
        time_at(p, best) / best
    } else if a > b {
        b
    } else {
        a
    };
    if least > 0.0 { 1.0 / least } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(l: f64, s: f64, k: f64, n: f64) -> f64 {
        l * n / (1.0 + s * (n - 1.0) + k * n * (n - 1.0))
    }

    fn seen(l: f64, s: f64, k: f64, noise: impl Fn(usize) -> f64) -> Vec<Throughput> {
        let levels = [1.0, 2.0, 4.0, 6.0, 8.0, 12.0];
        let all = levels.iter().cycle().take(18).enumerate();
        all.map(|(at, n)| Throughput { at_work: *n, per_s: law(l, s, k, *n) * noise(at) }).collect()
    }

    #[test]
    fn an_exact_law_is_found_and_its_peak() {
        let found = Scalability::new(&seen(1000.0, 0.05, 0.001, |_| 1.0), 0.95).unwrap();
        let [l, s, k] = found.parameters();
        assert!((l.estimate - 1000.0).abs() < 0.1 && (s.estimate - 0.05).abs() < 1e-4, "{l:?} {s:?}");
        assert!((k.estimate - 0.001).abs() < 1e-5, "{k:?}");
        assert!((found.best_concurrency().estimate - 30.82).abs() < 0.1);
        assert!((found.most().estimate / law(1000.0, 0.05, 0.001, 30.82) - 1.0).abs() < 1e-3);
        assert!(
            (found.throughput(16.0).unwrap().estimate / law(1000.0, 0.05, 0.001, 16.0) - 1.0).abs() < 1e-3
        );
    }

    #[test]
    fn observations_that_agree_to_the_last_digit_do_not_make_the_law_exact() {
        let found = Scalability::new(&seen(1000.0, 0.05, 0.001, |_| 1.0), 0.95).unwrap();
        let at_24 = found.throughput(24.0).unwrap();
        assert!(at_24.high - at_24.low > 0.001 * at_24.estimate, "{at_24:?}");
        assert!(at_24.high - at_24.low < 0.05 * at_24.estimate, "{at_24:?}");
    }

    #[test]
    fn noise_widens_the_interval_and_the_truth_stays_inside() {
        let noise = |at: usize| 1.0 + 0.03 * [1.0, -0.6, 0.3, -1.0, 0.8, -0.2, 0.1][at % 7];
        let found = Scalability::new(&seen(1000.0, 0.05, 0.001, noise), 0.95).unwrap();
        let at_24 = found.throughput(24.0).unwrap();
        let truth = law(1000.0, 0.05, 0.001, 24.0);
        assert!(at_24.low < truth && truth < at_24.high && at_24.low < at_24.high, "{at_24:?} {truth}");
    }

    #[test]
    fn nothing_is_said_far_beyond_what_was_seen_nor_from_few_levels() {
        let found = Scalability::new(&seen(1000.0, 0.05, 0.001, |_| 1.0), 0.95).unwrap();
        assert_eq!(found.throughput(31.0), None);
        let same = vec![Throughput { at_work: 4.0, per_s: 100.0 }; 20];
        assert_eq!(Scalability::new(&same, 0.95).unwrap_err(), Unfit::TooFew { observations: 20, levels: 1 });
    }

    #[test]
    fn a_server_that_still_scales_in_a_straight_line_has_no_limit_in_sight() {
        let found =
            Scalability::new(&seen(1000.0, 0.0, 0.0, |at| 1.0 + 0.02 * [1.0, -1.0][at % 2]), 0.95).unwrap();
        assert_eq!(found.most().high, f64::INFINITY);
    }

    #[test]
    fn a_law_without_a_time_of_one_alone_is_refused_with_what_to_run() {
        // Response times that point below 0 at one alone.
        let response = |n: f64| 0.001 * (n - 1.0) - 0.002;
        let levels = [8.0, 12.0, 16.0, 24.0, 32.0, 48.0];
        let all = levels.iter().cycle().take(18);
        let seen: Vec<Throughput> =
            all.map(|n| Throughput { at_work: *n, per_s: n / response(*n) }).collect();
        let refused = Scalability::new(&seen, 0.95).unwrap_err();
        assert_eq!(refused, Unfit::NoneAlone { fewest: 8.0 });
        assert!(refused.to_string().contains("runs with fewer clients too (1, 2, 4)"), "{refused}");
    }

    #[test]
    fn a_server_that_does_not_follow_the_law_is_refused() {
        let noise = |at: usize| [0.5, 1.6, 1.0][at % 3];
        assert!(matches!(
            Scalability::new(&seen(1000.0, 0.05, 0.001, noise), 0.95),
            Err(Unfit::Scatter { .. })
        ));
    }
}
