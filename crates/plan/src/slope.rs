//! The growth of a figure with time, and whether it is more than noise: does memory leak?

use crate::student;
use serde::Serialize;

/// How a figure changes with time, over blocks of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Slope {
    /// Per second.
    pub mean: f64,
    /// Lower and upper end of its 95 % interval.
    pub interval: (f64, f64),
}

impl Slope {
    /// Blocks that a course is cut into.
    const BLOCKS: usize = 12;
    /// The warm-up that is left out: this long, but not more than this share of the whole.
    const WARM_UP: (f64, f64) = (300.0, 0.25);
    /// A block holds at least this many points: buffers that fill up once would pass for growth in a shorter
    /// course.
    const IN_A_BLOCK: usize = 60;

    /// The slope of `(seconds, figure)`, in order, without the warm-up; `None` for too few points to tell.
    ///
    /// Points a second apart depend on each other, and a line through all of them would seem far surer than
    /// it is. So the means of twelve blocks are fitted: with mean time t, residuals r and n = 12, slope ±
    /// t(n-2) * sqrt(sum r^2 / (n-2) / sum (t - mean t)^2).
    pub fn after_warm_up(points: &[(f64, f64)]) -> Option<Self> {
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
        let half = student::quantile(0.975, degrees as f64) * variance.sqrt();
        Some(Self { mean: slope, interval: (slope - half, slope + half) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_that_grows_has_its_slope_in_the_interval_and_a_flat_one_has_zero() {
        let course = |growth: f64| -> Vec<(f64, f64)> {
            // A saw that has nothing to do with the growth, and a warm-up that must not count.
            let figure = |s: f64| 20.0 + growth * s + (s * 0.7).sin() - 10.0 * (-s / 30.0).exp();
            (0..3600).map(f64::from).map(|s| (s, figure(s))).collect()
        };
        let growing = Slope::after_warm_up(&course(0.01)).unwrap();
        assert!(growing.interval.0 <= 0.01 && 0.01 <= growing.interval.1, "{growing:?}");
        assert!((growing.mean - 0.01).abs() <= 0.0005, "{growing:?}");
        let flat = Slope::after_warm_up(&course(0.0)).unwrap();
        assert!(flat.interval.0 < 0.0 && 0.0 < flat.interval.1, "{flat:?}");
        assert_eq!(Slope::after_warm_up(&course(0.0)[..600]), None, "too short to tell");
    }
}
