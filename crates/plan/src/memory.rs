//! What another size of the buffer pool would make of reads and response times.
//!
//! The miss ratio is the share of page requests that had to read from the disk. It falls with the pool's size
//! and is measured at a few sizes; between them the curve is a monotone cubic over the logarithm of the size
//! (Fritsch and Carlson 1980), which never swings beyond what was measured. Its interval adds three things:
//! the scatter of the measurement, the distance to the straight line between neighbours, and a share of their
//! difference ([`BETWEEN`]), since any falling curve may pass between them.
//!
//! A size with a single window is left out: nothing tells how far that scatters.
//!
//! Nothing is said outside of the sizes measured: less memory has to be measured, and more as well. One thing
//! is known beyond the largest: where next to nothing misses already, more buys nothing.
//!
//! A size whose miss ratio was still falling when it was measured ([`Measured::steady`]) is an upper bound
//! and no more: from it down to the next steady size the lower end is that of the next larger steady size, or
//! 0.
//!
//! Worked example: 40 % at 1 GiB, 20 % at 2 GiB, 10 % at 4 GiB: about 14 % at 2.8 GiB.

use crate::{Interval, quantile, student};
use serde::{Deserialize, Serialize};

/// What the curve may be off by between two sizes, as a share of their difference.
pub const BETWEEN: f64 = 0.12;
/// Below this miss ratio everything that is used fits.
pub const FITS: f64 = 0.002;

/// Windows that tell how far a figure scatters.
pub const WINDOWS: usize = 2;

/// What was measured at one size, window by window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Of the pool.
    pub bytes: u64,
    /// Share of the page requests that read from the disk.
    pub miss_ratio: Vec<f64>,
    /// 99 % of the response times are shorter, ms; none where the load's own figures must not be used.
    pub p99_ms: Vec<f64>,
    /// Transactions a second.
    pub per_s: Vec<f64>,
    /// Page requests a transaction.
    pub requests_each: f64,
    /// Whether the miss ratio had stopped to fall before the first window.
    #[serde(default = "steady")]
    pub steady: bool,
}

fn steady() -> bool {
    true
}

/// The curve through the sizes measured.
#[derive(Clone, Debug)]
pub struct Curve {
    misses: Monotone,
    /// Of the sizes that have it, where those are two at least.
    p99: Option<Monotone>,
    /// Time for each transaction, ln s: of steady sizes whose load was sound, where those are two at least.
    each: Option<Monotone>,
    largest_fits: bool,
}

/// What is predicted at a size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Of the pool.
    pub bytes: u64,
    /// Share of page requests.
    pub miss_ratio: Interval,
    /// Milliseconds; `None` where none was measured on both sides.
    pub p99_ms: Option<Interval>,
    /// Transactions a second; in a closed loop this is what the pool changes. `None` where none was measured
    /// on both sides, from a size that was steady.
    #[serde(default)]
    pub per_s: Option<Interval>,
    /// Whether that size was measured.
    pub measured: bool,
}

/// Why there is no curve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCurve {
    /// Three sizes are the least.
    #[error("{sizes} sizes were measured in {WINDOWS} windows or more; a curve needs 3")]
    TooFew {
        /// Sizes there are.
        sizes: usize,
    },
}

impl Curve {
    /// Through what was measured; each size once.
    ///
    /// # Errors
    /// Fewer than three sizes.
    pub fn new(measured: &[Measured], level: f64) -> Result<Self, NoCurve> {
        let mut sizes: Vec<&Measured> =
            measured.iter().filter(|one| one.miss_ratio.len() >= WINDOWS && one.bytes > 0).collect();
        sizes.sort_by_key(|one| one.bytes);
        sizes.dedup_by_key(|one| one.bytes);
        if sizes.len() < 3 {
            return Err(NoCurve::TooFew { sizes: sizes.len() });
        }
        let points = |of: fn(&Measured) -> &Vec<f64>, scale: fn(f64) -> f64| -> Vec<Point> {
            let each = sizes.iter().filter(|one| of(one).len() >= WINDOWS).map(|one| {
                let values: Vec<f64> = of(one).iter().map(|value| scale(*value)).collect();
                Point {
                    x: (one.bytes as f64).ln(),
                    y: quantile::median(&values).unwrap_or(0.0),
                    reach: reach(&values, level),
                    steady: one.steady,
                }
            });
            each.collect()
        };
        let misses = points(|one| &one.miss_ratio, |value| value);
        let p99 = points(|one| &one.p99_ms, |value| value.max(1e-3).ln());
        let largest_fits = misses.last().is_some_and(|last| last.y < FITS);
        let p99 = (p99.len() >= 2).then(|| Monotone::new(p99));
        let sound =
            |one: &&&Measured| one.steady && one.p99_ms.len() >= WINDOWS && one.per_s.len() >= WINDOWS;
        let each = sizes.iter().filter(sound).map(|one| {
            let values: Vec<f64> = one.per_s.iter().map(|rate| -rate.max(1e-9).ln()).collect();
            let (y, reach) = (quantile::median(&values).unwrap_or(0.0), reach(&values, level));
            Point { x: (one.bytes as f64).ln(), y, reach, steady: true }
        });
        let each: Vec<Point> = each.collect();
        let each = (each.len() >= 2).then(|| Monotone::new(each));
        Ok(Self { misses: Monotone::new(misses), p99, each, largest_fits })
    }

    /// The smallest and the largest size measured.
    pub fn range(&self) -> (u64, u64) {
        let at = |point: Option<&Point>| point.map_or(0, |point| point.x.exp().round() as u64);
        (at(self.misses.points.first()), at(self.misses.points.last()))
    }

    /// At a size; `None` outside of what was measured, unless everything fits there already.
    pub fn at(&self, bytes: u64) -> Option<Predicted> {
        let (least, most) = self.range();
        let within = if bytes > most && self.largest_fits { most } else { bytes };
        if within < least || within > most {
            return None;
        }
        let x = (within as f64).ln();
        let misses = self.misses.at(x);
        let p99 = self.p99.as_ref().filter(|p99| p99.reaches(x)).map(|p99| p99.at(x));
        let measured = self.misses.points.iter().any(|point| (point.x - x).abs() < 1e-6) && within == bytes;
        Some(Predicted {
            bytes,
            miss_ratio: Interval {
                low: misses.low.max(0.0),
                estimate: misses.estimate,
                high: misses.high.min(1.0),
            },
            p99_ms: p99.map(|p99| Interval {
                low: p99.low.exp(),
                estimate: p99.estimate.exp(),
                high: p99.high.exp(),
            }),
            per_s: self.each.as_ref().filter(|each| each.reaches(x)).map(|each| {
                let each = each.at(x);
                Interval {
                    low: (-each.high).exp(),
                    estimate: (-each.estimate).exp(),
                    high: (-each.low).exp(),
                }
            }),
            measured,
        })
    }

    /// The knee: beyond it each further doubling saves less than the ones before did on average. The point of
    /// the curve that is farthest below the straight line between its ends; `None` where it has no bend, or
    /// where a size did not become steady: the bend may be that size's.
    pub fn knee(&self) -> Option<u64> {
        if self.misses.points.iter().any(|point| !point.steady) {
            return None;
        }
        let (first, last) = (self.misses.points.first()?, self.misses.points.last()?);
        let fall = first.y - last.y;
        if fall < 0.02 {
            return None;
        }
        let below = |share: f64| {
            let x = first.x + share * (last.x - first.x);
            (1.0 - share) - (self.misses.at(x).estimate - last.y) / fall
        };
        let shares = (0..=200).map(|at| f64::from(at) / 200.0);
        let best = shares.max_by(|a, b| below(*a).total_cmp(&below(*b)))?;
        (below(best) > 0.05).then(|| (first.x + best * (last.x - first.x)).exp().round() as u64)
    }
}

/// The standard error of a median as a multiple of that of a mean: of few values less, of many the root of pi
/// over 2.
const OF_MEDIAN: f64 = 1.2533;

/// Half the interval of a median of few windows, [`WINDOWS`] or more.
fn reach(values: &[f64], level: f64) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    // The median of two is their mean.
    let wider = if values.len() > 2 { OF_MEDIAN } else { 1.0 };
    wider * student::quantile(f64::midpoint(1.0, level), count - 1.0) * (variance / count).sqrt()
}

#[derive(Clone, Copy, Debug)]
struct Point {
    x: f64,
    y: f64,
    /// Half its interval.
    reach: f64,
    /// Else `y` is an upper bound.
    steady: bool,
}

/// A falling curve through points in the order of x.
#[derive(Clone, Debug)]
struct Monotone {
    points: Vec<Point>,
    slopes: Vec<f64>,
}

impl Monotone {
    fn new(mut points: Vec<Point>) -> Self {
        // An upper bound that lies above a smaller size's figure tells nothing of that size.
        for at in 1..points.len() {
            if !points[at].steady {
                points[at].y = points[at].y.min(points[at - 1].y);
            }
        }
        pool(&mut points);
        let chords: Vec<f64> =
            points.windows(2).map(|pair| (pair[1].y - pair[0].y) / (pair[1].x - pair[0].x)).collect();
        let ends = |at: usize| chords.get(at).copied().unwrap_or(0.0);
        let slopes = (0..points.len()).map(|at| match at {
            0 => ends(0),
            last if last == points.len() - 1 => ends(last - 1),
            // The harmonic mean of both sides never overshoots (Fritsch and Butland 1984).
            _ if chords[at - 1] * chords[at] <= 0.0 => 0.0,
            _ => 2.0 / (1.0 / chords[at - 1] + 1.0 / chords[at]),
        });
        let slopes = slopes.collect();
        Self { points, slopes }
    }

    /// Whether `x` lies within its points.
    fn reaches(&self, x: f64) -> bool {
        let ends = self.points.first().zip(self.points.last());
        ends.is_some_and(|(first, last)| (first.x - 1e-9..=last.x + 1e-9).contains(&x))
    }

    fn at(&self, x: f64) -> Interval {
        let at = self.points.partition_point(|point| point.x < x).clamp(1, self.points.len() - 1);
        let (left, right) = (self.points[at - 1], self.points[at]);
        let width = right.x - left.x;
        let t = ((x - left.x) / width).clamp(0.0, 1.0);
        let (t2, t3) = (t * t, t * t * t);
        let y = (2.0 * t3 - 3.0 * t2 + 1.0) * left.y
            + (t3 - 2.0 * t2 + t) * width * self.slopes[at - 1]
            + (3.0 * t2 - 2.0 * t3) * right.y
            + (t3 - t2) * width * self.slopes[at];
        let line = left.y + t * (right.y - left.y);
        let scatter = left.reach + t * (right.reach - left.reach);
        let fall = left.y - right.y;
        // Nothing is added at a size that was measured, the most in the middle between two.
        let between = ((y - line).abs() + BETWEEN * fall) * (4.0 * t * (1.0 - t)).sqrt();
        let reach = scatter + between;
        let low = (y - reach).max(right.y - scatter);
        // At a size that was measured its neighbour does not count.
        let bound = (t < 1.0 && !left.steady) || (t > 0.0 && !right.steady);
        Interval {
            low: if bound { low.min(self.floor(x)) } else { low },
            estimate: y,
            high: (y + reach).min(left.y + scatter),
        }
    }

    /// The lower end of the next larger size that was steady; without one it is open.
    fn floor(&self, x: f64) -> f64 {
        let larger = self.points.iter().find(|point| point.steady && point.x >= x - 1e-9);
        larger.map_or(f64::NEG_INFINITY, |point| point.y - point.reach)
    }
}

/// Makes the points fall: neighbours that rise are one at their mean (pool adjacent violators). What moves a
/// point is part of its interval: it still holds what was measured.
fn pool(points: &mut [Point]) {
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for point in points.iter() {
        groups.push((point.y, 1));
        while let [.., (before, n), (after, m)] = groups[..]
            && after > before
        {
            let mean = (before * n as f64 + after * m as f64) / (n + m) as f64;
            groups.truncate(groups.len() - 2);
            groups.push((mean, n + m));
        }
    }
    let flat = groups.iter().flat_map(|(mean, n)| std::iter::repeat_n(*mean, *n));
    for (point, y) in points.iter_mut().zip(flat) {
        point.reach += (y - point.y).abs();
        point.y = y;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    fn at(gib: f64, misses: f64) -> Measured {
        Measured {
            bytes: (gib * GIB as f64) as u64,
            miss_ratio: vec![misses * 0.99, misses, misses * 1.01],
            p99_ms: vec![1.0 + 100.0 * misses; 3],
            per_s: vec![1000.0; 3],
            requests_each: 10.0,
            steady: true,
        }
    }

    #[test]
    fn between_two_sizes_the_curve_passes_between_them() {
        let curve = Curve::new(&[at(4.0, 0.1), at(1.0, 0.4), at(2.0, 0.2)], 0.95).unwrap();
        let found = curve.at((2.8 * GIB as f64) as u64).unwrap();
        assert!((found.miss_ratio.estimate - 0.14).abs() < 0.012, "{found:?}");
        assert!(found.miss_ratio.low < 0.14 && 0.14 < found.miss_ratio.high && !found.measured);
        let seen = curve.at(2 * GIB).unwrap();
        assert!((seen.miss_ratio.estimate - 0.2).abs() < 1e-6 && seen.measured);
        assert!((seen.p99_ms.unwrap().estimate - 21.0).abs() < 1e-6);
    }

    #[test]
    fn a_closed_loop_gets_more_done_with_a_larger_pool_and_a_size_that_was_not_steady_tells_nothing() {
        let done = |gib: f64, misses: f64, rate: f64| Measured { per_s: vec![rate; 3], ..at(gib, misses) };
        let sizes = [done(1.0, 0.4, 100.0), done(2.0, 0.2, 200.0), done(4.0, 0.1, 300.0)];
        let curve = Curve::new(&sizes, 0.95).unwrap();
        let per_s = |curve: &Curve, gib: u64| curve.at(gib * GIB).unwrap().per_s;
        assert!((per_s(&curve, 2).unwrap().estimate - 200.0).abs() < 1e-6);
        let between = per_s(&curve, 3).unwrap();
        assert!(200.0 < between.estimate && between.estimate < 300.0, "{between:?}");
        assert!(between.low < between.estimate && between.estimate < between.high, "{between:?}");
        let [one, two, four] = sizes;
        let curve = Curve::new(&[one, two, Measured { steady: false, ..four }], 0.95).unwrap();
        assert!(per_s(&curve, 2).is_some() && per_s(&curve, 3).is_none());
    }

    #[test]
    fn a_size_without_response_times_has_none_and_is_no_end_of_their_curve() {
        let silent = Measured { p99_ms: Vec::new(), ..at(1.0, 0.4) };
        let curve = Curve::new(&[silent.clone(), at(2.0, 0.2), at(4.0, 0.1)], 0.95).unwrap();
        let at_size = |gib: u64| curve.at(gib * GIB).unwrap();
        assert!((at_size(1).miss_ratio.estimate - 0.4).abs() < 1e-6);
        assert_eq!((at_size(1).p99_ms, at_size(3).p99_ms.is_some()), (None, true));
        let none = Curve::new(&[silent, Measured { p99_ms: Vec::new(), ..at(2.0, 0.2) }, at(4.0, 0.1)], 0.95);
        assert_eq!(none.unwrap().at(2 * GIB).unwrap().p99_ms, None);
    }

    #[test]
    fn a_size_of_a_single_window_is_not_taken_for_one_without_scatter() {
        let single = Measured { miss_ratio: vec![0.2], ..at(2.0, 0.2) };
        let sizes = [at(1.0, 0.4), single.clone(), at(4.0, 0.1)];
        assert_eq!(Curve::new(&sizes, 0.95).unwrap_err(), NoCurve::TooFew { sizes: 2 });
        let curve = Curve::new(&[at(1.0, 0.4), single, at(3.0, 0.15), at(4.0, 0.1)], 0.95).unwrap();
        let found = curve.at(2 * GIB).unwrap();
        assert!(!found.measured && found.miss_ratio.low < found.miss_ratio.high, "{found:?}");
        let silent = Measured { p99_ms: vec![21.0], ..at(2.0, 0.2) };
        let curve = Curve::new(&[at(1.0, 0.4), silent, at(4.0, 0.1)], 0.95).unwrap();
        let p99 = curve.at(2 * GIB).unwrap().p99_ms.unwrap();
        assert!(p99.low < p99.high, "between its neighbours: {p99:?}");
    }

    #[test]
    fn outside_of_what_was_measured_nothing_is_said_unless_all_fits() {
        let curve = Curve::new(&[at(1.0, 0.4), at(2.0, 0.2), at(4.0, 0.1)], 0.95).unwrap();
        assert_eq!(curve.at(GIB / 2), None, "less is not derived from more");
        assert_eq!(curve.at(8 * GIB), None);
        let fits = Curve::new(&[at(1.0, 0.4), at(2.0, 0.2), at(4.0, 0.001)], 0.95).unwrap();
        assert!(fits.at(8 * GIB).unwrap().miss_ratio.estimate < FITS);
        assert_eq!(Curve::new(&[at(1.0, 0.4)], 0.95).unwrap_err(), NoCurve::TooFew { sizes: 1 });
    }

    #[test]
    fn a_step_has_its_knee_where_the_working_set_fits() {
        let sizes = [(8.0, 0.5), (12.0, 0.45), (16.0, 0.40), (24.0, 0.05), (32.0, 0.01), (64.0, 0.005)];
        let curve = Curve::new(&sizes.map(|(gib, misses)| at(gib, misses)), 0.95).unwrap();
        let knee = curve.knee().unwrap() as f64 / GIB as f64;
        assert!((20.0..28.0).contains(&knee), "{knee}");
        let flat = Curve::new(&[at(1.0, 0.02), at(2.0, 0.015), at(4.0, 0.01)], 0.95).unwrap();
        assert_eq!(flat.knee(), None);
    }

    #[test]
    fn noise_that_rises_is_smoothed() {
        let curve = Curve::new(&[at(1.0, 0.3), at(2.0, 0.2), at(3.0, 0.22), at(4.0, 0.1)], 0.95).unwrap();
        let smoothed = curve.at(2 * GIB).unwrap().miss_ratio;
        assert!((smoothed.estimate - 0.21).abs() < 1e-6);
        assert!(smoothed.low < 0.2 && smoothed.high > 0.22, "it holds what was measured: {smoothed:?}");
    }

    /// Noise that is the same at each size: the truth is known.
    #[test]
    fn the_interval_of_a_size_holds_its_truth_as_often_as_it_says() {
        use rand::SeedableRng;
        use rand_distr::{Distribution, Normal};
        let mut rng = rand::rngs::StdRng::seed_from_u64(3);
        let noise = Normal::new(0.0, 0.004).unwrap();
        let mut held = 0;
        for _ in 0..2_000 {
            let mut size = |gib: f64, misses: f64| Measured {
                miss_ratio: (0..5).map(|_| misses + noise.sample(&mut rng)).collect(),
                ..at(gib, misses)
            };
            let curve = Curve::new(&[size(1.0, 0.4), size(2.0, 0.2), size(4.0, 0.1)], 0.95).unwrap();
            let found = curve.at(2 * GIB).unwrap().miss_ratio;
            held += u32::from((found.low..=found.high).contains(&0.2));
        }
        assert!((1_890..=1_960).contains(&held), "{held} of 2000");
    }

    #[test]
    fn a_size_that_did_not_become_steady_is_an_upper_bound_and_bends_no_knee() {
        let sizes = [at(1.0, 0.4), at(2.0, 0.2), at(4.0, 0.1), at(8.0, 0.05)];
        let with = |unsteady: &[usize]| {
            let mut sizes = sizes.clone();
            unsteady.iter().for_each(|at| sizes[*at].steady = false);
            Curve::new(&sizes, 0.95).unwrap()
        };
        let low = |curve: &Curve, gib: f64| curve.at((gib * GIB as f64) as u64).unwrap().miss_ratio.low;
        assert!(with(&[]).knee().is_some());
        let curve = with(&[1]);
        assert_eq!(curve.knee(), None);
        assert!(low(&curve, 2.0) < 0.1 && low(&curve, 1.5) < 0.1 && low(&curve, 3.0) < 0.1);
        assert!(low(&curve, 1.0) > 0.38 && low(&curve, 4.0) > 0.09, "its neighbours are as sure as before");
        let last = with(&[3]);
        assert_eq!((low(&last, 8.0), low(&last, 6.0)), (0.0, 0.0), "nothing larger bounds it");
        assert_eq!(last.at(8 * GIB).unwrap().p99_ms.unwrap().low, 0.0);
        let mut rises = sizes;
        rises[1] = Measured { steady: false, ..at(2.0, 0.6) };
        let found = Curve::new(&rises, 0.95).unwrap().at(GIB).unwrap().miss_ratio;
        assert!((found.estimate - 0.4).abs() < 1e-6, "a cold pool does not raise a smaller size: {found:?}");
    }

    proptest! {
        #[test]
        fn the_curve_never_rises_and_its_interval_holds_it(
            mut misses in proptest::collection::vec(0.0..1.0_f64, 3..8),
        ) {
            misses.sort_by(|a, b| b.total_cmp(a));
            let sizes: Vec<Measured> = misses.iter().enumerate().map(|(n, m)| at((n + 1) as f64, *m)).collect();
            let curve = Curve::new(&sizes, 0.95).unwrap();
            let mut before = f64::INFINITY;
            for step in 0..=60 {
                let gib = 1.0 + (misses.len() - 1) as f64 * f64::from(step) / 60.0;
                let found = curve.at((gib * GIB as f64) as u64).unwrap().miss_ratio;
                prop_assert!(found.estimate <= before + 1e-9);
                prop_assert!(found.low <= found.estimate + 1e-9 && found.estimate <= found.high + 1e-9);
                before = found.estimate;
            }
        }
    }
}
