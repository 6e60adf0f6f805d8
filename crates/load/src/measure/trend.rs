//! Whether a row of figures rises or falls, by the test of Mann and Kendall: it asks only which of each two
//! is larger, so that neither outliers nor the form of the distribution matter.
//!
//! S = pairs that rise - pairs that fall. Without a trend S has mean 0 and variance n (n - 1) (2n + 5) / 18,
//! and from 8 figures on is nearly normal. The slope is that of Theil and Sen, the median over all pairs.
//!
//! Example: 1, 2, 3, 4, 5, 6, 7, 8 has S = 28 and z = 27 / sqrt(65.3) = 3.3: by chance once in a thousand
//! times.

/// From fewer figures nothing is said.
pub(super) const FEWEST: usize = 8;
/// Chance alone is beyond this z once in a hundred times.
const SIGNIFICANT: f64 = 2.576;

/// The slope of a row that rises or falls beyond chance, for each step; `None` where it does not, or is too
/// short.
pub(super) fn slope(row: &[f64]) -> Option<f64> {
    if row.len() < FEWEST {
        return None;
    }
    let pairs = || (0..row.len()).flat_map(|i| (i + 1..row.len()).map(move |j| (i, j)));
    let s: f64 =
        pairs().map(|(i, j)| (row[j] - row[i]).partial_cmp(&0.0).map_or(0.0, |o| f64::from(o as i8))).sum();
    let n = row.len() as f64;
    let z = (s.abs() - 1.0) / (n * (n - 1.0) * 2.0_f64.mul_add(n, 5.0) / 18.0).sqrt();
    if z < SIGNIFICANT {
        return None;
    }
    let slopes: Vec<f64> = pairs().map(|(i, j)| (row[j] - row[i]) / (j - i) as f64).collect();
    plan::quantile::median(&slopes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn a_row_that_rises_has_its_slope_and_one_that_does_not_has_none() {
        let rising: Vec<f64> = (0..10).map(|n| 1.0 + 0.5 * f64::from(n)).collect();
        assert!((slope(&rising).unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(slope(&[3.0; 10]), None);
        assert_eq!(slope(&rising[..7]), None);
    }

    #[test]
    fn chance_passes_for_a_trend_once_in_a_hundred_times() {
        let mut rng = SmallRng::seed_from_u64(1);
        let found = (0..10_000).filter(|_| slope(&[(); 10].map(|()| rng.random::<f64>())).is_some()).count();
        assert!((30..=130).contains(&found), "{found} of 10,000");
    }
}
