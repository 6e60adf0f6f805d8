//! Whether two samples come from one law: a chi-square test on shares of the pooled sample.
//!
//! The pooled values are cut into at most 25 parts of equal size; a value that is more frequent than a part
//! is one by itself. With a(i) and b(i) of the n and m values in part i,
//!
//! ```text
//! chi^2 = sum (a(i) sqrt(m/n) - b(i) sqrt(n/m))^2 / (a(i) + b(i))        degrees of freedom: parts - 1
//! p     = Q(degrees / 2, chi^2 / 2)              the upper tail of the chi-square distribution
//! ```
//! p is how often two samples of one law differ by as much or more. Example: 21.03 at 12 degrees has p =
//! 0.05. Assumes independent values and about five or more in each part.

use serde::Serialize;
use statrs::distribution::{ChiSquared, ContinuousCDF};

const PARTS: usize = 25;

/// How two samples differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The statistic.
    pub chi_square: f64,
    /// Its degrees of freedom.
    pub degrees: usize,
    /// How often two samples of one law differ by as much or more.
    pub p: f64,
}

/// Compares two samples; `None` when one is empty or all values are the same.
pub fn compare(a: &[u32], b: &[u32]) -> Option<Difference> {
    let mut pooled: Vec<u32> = a.iter().chain(b).copied().collect();
    pooled.sort_unstable();
    let mut edges: Vec<u32> =
        (1..PARTS).filter_map(|n| pooled.get(n * pooled.len() / PARTS).copied()).collect();
    edges.dedup();
    // What equals an edge is above it: below the least value there is nothing.
    edges.retain(|edge| Some(edge) != pooled.first());
    if a.is_empty() || b.is_empty() || edges.is_empty() {
        return None;
    }
    let count = |values: &[u32]| {
        let mut counts = vec![0.0; edges.len() + 1];
        values.iter().for_each(|value| counts[edges.partition_point(|edge| edge <= value)] += 1.0);
        counts
    };
    let (n, m) = (a.len() as f64, b.len() as f64);
    let parts = count(a).into_iter().zip(count(b)).filter(|(x, y)| x + y > 0.0);
    let chi_square =
        parts.map(|(x, y): (f64, f64)| (x * (m / n).sqrt() - y * (n / m).sqrt()).powi(2) / (x + y)).sum();
    let degrees = edges.len();
    Some(Difference { chi_square, degrees, p: tail(chi_square, degrees as f64) })
}

/// How often chi-square is larger than this.
fn tail(chi_square: f64, degrees: f64) -> f64 {
    // There is at least one degree; without any nothing could differ.
    ChiSquared::new(degrees).map_or(1.0, |law| law.sf(chi_square))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn chi_squares_of_the_books_have_the_p_of_the_books() {
        for (chi, degrees, p) in [
            (3.841, 1.0, 0.05),
            (21.026, 12.0, 0.05),
            (42.980, 24.0, 0.01),
            (9.886, 24.0, 0.995),
            (0.0, 5.0, 1.0),
        ] {
            let found = tail(chi, degrees);
            assert!((found - p).abs() < 5e-5, "{chi} at {degrees}: {found}, not {p}");
        }
    }

    fn sample(seed: u64, count: usize, draw: impl Fn(&mut SmallRng) -> u32) -> Vec<u32> {
        let mut rng = SmallRng::seed_from_u64(seed);
        (0..count).map(|_| draw(&mut rng)).collect()
    }

    #[test]
    fn samples_of_one_law_have_a_p_that_is_spread_evenly_and_of_two_laws_a_tiny_one() {
        let even = |rng: &mut SmallRng| rng.random_range(1..=10_000_u32);
        let small = (0..200)
            .filter(|n| compare(&sample(*n, 3000, even), &sample(n + 1000, 5000, even)).unwrap().p < 0.1)
            .count();
        // A tenth of 200, give or take three standard deviations.
        assert!((8..=32).contains(&small), "{small}");
        let skewed = |rng: &mut SmallRng| even(rng).min(even(rng).max(even(rng)));
        let found = compare(&sample(1, 3000, even), &sample(2, 5000, skewed)).unwrap();
        assert!(found.p < 1e-9, "{found:?}");
    }

    #[test]
    fn a_value_that_half_of_all_have_is_a_part_of_its_own() {
        let often = |rng: &mut SmallRng| if rng.random() { 1 } else { rng.random_range(2..100_u32) };
        let found = compare(&sample(1, 4000, often), &sample(2, 4000, often)).unwrap();
        assert!(found.degrees < 24 && found.p > 0.001, "{found:?}");
        assert_eq!(compare(&[7, 7], &[7]), None);
        assert_eq!(compare(&[], &[7]), None);
    }
}
