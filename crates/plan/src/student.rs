//! Student's t distribution: how far the mean of a few values may be from the truth, in standard errors.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The t below which the share `probability` of the distribution lies; without any degree of freedom it has
/// no end.
pub fn quantile(probability: f64, degrees: f64) -> f64 {
    distribution(degrees).map_or(f64::INFINITY, |t| t.inverse_cdf(probability))
}

/// The probability of a larger t than this one.
pub fn tail(t: f64, degrees: f64) -> f64 {
    distribution(degrees).map_or(0.5, |law| law.sf(t))
}

fn distribution(degrees: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, degrees).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (degrees, expected) in
            [(1.0, 12.706), (2.0, 4.303), (4.0, 2.776), (31.0, 2.0395), (60.0, 2.0003), (1e6, 1.96)]
        {
            let found = quantile(0.975, degrees);
            assert!((found - expected).abs() < 0.0005, "{found} at {degrees}, not {expected}");
        }
        assert_eq!(quantile(0.975, 0.0), f64::INFINITY);
    }

    #[test]
    fn the_tail_beyond_a_quantile_is_what_is_left() {
        assert!((tail(quantile(0.9, 7.0), 7.0) - 0.1).abs() < 1e-9);
    }
}
