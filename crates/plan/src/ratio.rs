//! The ratio of two subjects that were measured side by side, round by round.
//!
//! Two subjects of the same round shared the machine's mood (temperature, neighbours, page cache), so what is
//! compared is the ratio **within** a round, and what is averaged is its logarithm: a ratio of 2 and one of
//! 1/2 cancel. With x(r) = ln(a(r) / b(r)) over n rounds, mean m and standard deviation s (n - 1 in its
//! denominator):
//!
//! ```text
//! ratio    = exp(m)
//! interval = exp(m ± t(n-1) * s / sqrt(n))        t: 97.5 % quantile of Student's distribution
//! ```
//!
//! Example: ratios 1.30, 1.40, 1.35 have m = 0.3000, s = 0.0371, t(2) = 4.303: 1.35, from 1.23 to 1.48.
//!
//! Assumes that the log ratios of different rounds are independent and roughly normal. A bootstrap would be
//! too narrow here: at five rounds its nominal 95 % interval covers about 83 % of the time, the t interval 94
//! to 96 %.

use crate::comparison::paired;
use crate::quantile::median;
use serde::Serialize;

/// How many times as large one subject's figure is as another's, over the rounds they shared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Rounds in which both were measured.
    pub rounds: usize,
    /// The middle ratio: one bad round does not move it.
    pub median: f64,
    /// The geometric mean: what the interval is about.
    pub mean: f64,
    /// Lower and upper end of the 95 % interval of `mean`; `None` with a single round, which shows no spread.
    pub interval: Option<(f64, f64)>,
}

impl Ratio {
    /// Compares pairs `(a, b)` of the same round as a / b. Pairs with a figure that is not positive are left
    /// out (a logarithm would not exist); `None` when no pair is left.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let pairs: Vec<(f64, f64)> = pairs.iter().copied().filter(|(a, b)| *a > 0.0 && *b > 0.0).collect();
        let logs: Vec<f64> = pairs.iter().map(|(a, b)| (a / b).ln()).collect();
        let median = median(&logs)?.exp();
        let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        let interval = paired(&pairs).map(|effect| {
            let interval = effect.ratio(0.95);
            (interval.low, interval.high)
        });
        Some(Self { rounds: pairs.len(), median, mean, interval })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance, "{a} is not {b}");
    }

    #[test]
    fn the_example_of_the_header_holds() {
        let ratio = Ratio::of(&[(1.30, 1.0), (1.40, 1.0), (1.35, 1.0)]).unwrap();
        let (low, high) = ratio.interval.unwrap();
        close(ratio.mean, 1.35, 0.005);
        close(ratio.median, 1.35, 1e-9);
        close(low, 1.23, 0.005);
        close(high, 1.48, 0.005);
    }

    #[test]
    fn a_mood_that_both_subjects_share_does_not_widen_the_interval() {
        let rounds = [(260.0, 200.0), (130.0, 100.0), (26.0, 20.0)];
        let ratio = Ratio::of(&rounds).unwrap();
        let (low, high) = ratio.interval.unwrap();
        close(ratio.mean, 1.3, 1e-9);
        close(low, 1.3, 1e-6);
        close(high, 1.3, 1e-6);
    }

    #[test]
    fn swapping_the_subjects_inverts_the_ratio_and_its_interval() {
        let rounds = [(3.0, 2.0), (5.0, 4.0), (7.0, 5.0), (2.0, 2.1)];
        let there = Ratio::of(&rounds).unwrap();
        let back = Ratio::of(&rounds.map(|(a, b)| (b, a))).unwrap();
        close(there.mean * back.mean, 1.0, 1e-12);
        close(there.interval.unwrap().0 * back.interval.unwrap().1, 1.0, 1e-12);
    }

    #[test]
    fn one_round_has_a_ratio_and_no_interval_and_none_has_neither() {
        let ratio = Ratio::of(&[(3.0, 2.0), (0.0, 1.0)]).unwrap();
        assert_eq!((ratio.rounds, ratio.interval), (1, None));
        assert_eq!(Ratio::of(&[]), None);
        assert_eq!(Ratio::of(&[(0.0, 1.0)]), None);
    }
}
