//! Medians, and the ratio of two subjects measured side by side.
//!
//! Two subjects of the same round shared the machine's mood (temperature, neighbours, page cache), so what is compared
//! is the ratio **within** a round, and what is averaged is its logarithm: a ratio of 2 and one of 1/2 cancel.
//! With x(r) = ln(a(r) / b(r)) over n rounds, mean m and standard deviation s (n - 1 in its denominator):
//!
//! ```text
//! ratio    = exp(m)
//! interval = exp(m ± t(n-1) * s / sqrt(n))        t: 97.5 % quantile of Student's distribution
//! ```
//!
//! Example: ratios 1.30, 1.40, 1.35 have m = 0.3000, s = 0.0371, t(2) = 4.303: 1.35, from 1.23 to 1.48.
//!
//! Assumes that the log ratios of different rounds are independent and roughly normal. A bootstrap would be too
//! narrow here: at five rounds its nominal 95 % interval covers about 83 % of the time, the t interval 94 to 96 %.

use serde::Serialize;

/// How many times as large one subject's figure is as another's, over the rounds they shared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Ratio {
    /// Rounds in which both were measured.
    pub(crate) rounds: usize,
    /// The middle ratio: one bad round does not move it.
    pub(crate) median: f64,
    /// The geometric mean: what the interval is about.
    pub(crate) mean: f64,
    /// Lower and upper end of the 95 % interval of `mean`; `None` with a single round, which shows no spread.
    pub(crate) interval: Option<(f64, f64)>,
}

impl Ratio {
    /// Compares pairs `(a, b)` of the same round as a / b. Pairs with a figure that is not positive are left out
    /// (a logarithm would not exist); `None` when no pair is left.
    pub(crate) fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let logs: Vec<f64> =
            pairs.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0).map(|(a, b)| (a / b).ln()).collect();
        let median = median(&logs)?;
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let interval = (logs.len() > 1).then(|| {
            let variance = logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let half = student_975(logs.len() - 1) * (variance / n).sqrt();
            ((mean - half).exp(), (mean + half).exp())
        });
        Some(Self { rounds: logs.len(), median: median.exp(), mean: mean.exp(), interval })
    }
}

/// How a figure changes with time, over blocks of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Slope {
    /// Per second.
    pub(crate) mean: f64,
    /// Lower and upper end of its 95 % interval.
    pub(crate) interval: (f64, f64),
}

impl Slope {
    /// Blocks that a course is cut into.
    const BLOCKS: usize = 12;
    /// The warm-up that is left out: so long, but not more than this share of the whole.
    const WARM_UP: (f64, f64) = (300.0, 0.25);
    /// A block holds at least so many points: buffers that fill up once would pass for growth in a shorter course.
    const IN_A_BLOCK: usize = 60;

    /// The slope of `(seconds, figure)`, in order, without the warm-up; `None` for too few points to tell.
    ///
    /// Points a second apart depend on each other, and a line through all of them would seem far surer than it is. So the
    /// means of twelve blocks are fitted: with mean time t, residuals r and n = 12, slope ± t(n-2) * sqrt(sum r^2 / (n-2) /
    /// sum (t - mean t)^2).
    pub(crate) fn after_warm_up(points: &[(f64, f64)]) -> Option<Self> {
        let (first, last) = (points.first()?.0, points.last()?.0);
        let from = first + Self::WARM_UP.0.min((last - first) * Self::WARM_UP.1);
        let points = &points[points.partition_point(|(at, _)| *at < from)..];
        let size = points.len() / Self::BLOCKS;
        if size < Self::IN_A_BLOCK {
            return None;
        }
        let mean = |block: &[(f64, f64)]| {
            let (at, figure) = block.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
            (at / block.len() as f64, figure / block.len() as f64)
        };
        let blocks: Vec<(f64, f64)> = points.chunks_exact(size).map(mean).collect();
        let (middle, level) = mean(&blocks);
        let spread: f64 = blocks.iter().map(|(at, _)| (at - middle).powi(2)).sum();
        let slope = blocks.iter().map(|(at, figure)| (at - middle) * (figure - level)).sum::<f64>() / spread;
        let rest = |(at, figure): &(f64, f64)| (figure - level - slope * (at - middle)).powi(2);
        let degrees = blocks.len() - 2;
        let variance = blocks.iter().map(rest).sum::<f64>() / degrees as f64 / spread;
        let half = student_975(degrees) * variance.sqrt();
        Some(Self { mean: slope, interval: (slope - half, slope + half) })
    }
}

/// The middle value, or the mean of the two in the middle; `None` for no values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The value at or below which `percent` of the values lie (nearest rank); `None` for no values.
pub(crate) fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * percent / 100.0).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// The 97.5 % quantile of Student's t distribution: exact to three decimals up to 30 degrees of freedom, beyond that
/// the first terms of its expansion around the normal quantile (error below 0.0005).
pub(crate) fn student_975(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    match degrees {
        0 => f64::INFINITY,
        n if n <= TABLE.len() => TABLE[n - 1],
        n => {
            let z: f64 = 1.959_964;
            let n = n as f64;
            z + (z.powi(3) + z) / (4.0 * n) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
        }
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

    #[test]
    fn quantiles_of_students_distribution_join_without_a_step() {
        close(student_975(4), 2.776, 1e-9);
        close(student_975(31), 2.0395, 0.0005);
        close(student_975(60), 2.0003, 0.0005);
        close(student_975(1_000_000), 1.96, 0.0005);
    }

    #[test]
    fn the_middle_and_the_tail_are_ranks_of_the_sorted_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 99.0), Some(99.0));
        assert_eq!(percentile(&hundred, 100.0), Some(100.0));
        assert_eq!(percentile(&[5.0], 50.0), Some(5.0));
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn a_course_that_grows_has_its_slope_in_the_interval_and_a_flat_one_has_zero() {
        let course = |growth: f64| -> Vec<(f64, f64)> {
            // A saw that has nothing to do with the growth, and a warm-up that must not count.
            let figure = |s: f64| 20.0 + growth * s + (s * 0.7).sin() - 10.0 * (-s / 30.0).exp();
            (0..3600).map(f64::from).map(|s| (s, figure(s))).collect()
        };
        let growing = Slope::after_warm_up(&course(0.01)).unwrap();
        assert!(growing.interval.0 <= 0.01 && 0.01 <= growing.interval.1, "{growing:?}");
        close(growing.mean, 0.01, 0.0005);
        let flat = Slope::after_warm_up(&course(0.0)).unwrap();
        assert!(flat.interval.0 < 0.0 && 0.0 < flat.interval.1, "{flat:?}");
        assert_eq!(Slope::after_warm_up(&course(0.0)[..600]), None, "too short to tell");
    }
}
