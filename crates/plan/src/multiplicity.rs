//! Several comparisons at once. Of 62 configurations that are all the same, the best looks 16 % better after
//! one run each: whoever looks at many must ask more of each.
//!
//! * [`holm`]: Holm's step-down adjustment (1979): the smallest of `m` probabilities counts `m`-fold, the
//!   next `m - 1`-fold, and so on. It holds however the comparisons depend on each other.
//! * [`dunnett`]: Dunnett's critical value (1955) for `k` configurations compared with one baseline, whose
//!   share in all of them makes the comparisons correlated. It asks a little less than Holm, and presumes one
//!   common noise.

use statrs::distribution::{Continuous, ContinuousCDF, Normal};
use statrs::function::gamma::ln_gamma;

/// Holm's adjusted probabilities, in the order given: each may be held against the level of the whole family.
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let mut adjusted = vec![1.0; probabilities.len()];
    let mut least = 0.0_f64;
    for (rank, at) in order.into_iter().enumerate() {
        let times = (probabilities.len() - rank) as f64;
        // Never smaller than that of a more probable one.
        least = least.max((probabilities[at] * times).min(1.0));
        adjusted[at] = least;
    }
    adjusted
}

/// The two-sided critical value: with it in the place of a t, all `k` comparisons together are wrong with
/// probability `level` at most. `degrees` of the common noise; `correlation` of two comparisons, `n / (n +
/// m)` with `n` runs of each configuration and `m` of the baseline: 1/2 with equal numbers, 1/3 with the
/// baseline twice.
pub fn dunnett(k: u32, degrees: f64, correlation: f64, level: f64) -> f64 {
    let (mut low, mut high) = (0.0, 64.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if all_within(middle, k, degrees, correlation) < 1.0 - level { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Probability that all `k` comparisons stay within `limit`: over the noise that was estimated (`s`, a chi
/// over its degrees) and the baseline's own luck (`z`), given which the comparisons are independent.
fn all_within(limit: f64, k: u32, degrees: f64, correlation: f64) -> f64 {
    let normal = Normal::standard();
    let (shared, own) = (correlation.sqrt(), (1.0 - correlation).sqrt());
    let given = |s: f64| {
        simpson(-8.0, 8.0, 80, |z| {
            let upper = normal.cdf((shared * z + limit * s) / own);
            let lower = normal.cdf((shared * z - limit * s) / own);
            normal.pdf(z) * (upper - lower).powi(k.cast_signed())
        })
    };
    if degrees.is_infinite() {
        return given(1.0);
    }
    // The density of s, whose square times the degrees is a chi-square.
    let constant =
        (degrees / 2.0) * degrees.ln() - (degrees / 2.0 - 1.0) * 2.0_f64.ln() - ln_gamma(degrees / 2.0);
    let density = |s: f64| (constant + (degrees - 1.0) * s.ln() - degrees * s * s / 2.0).exp();
    let reach = 8.0 / (2.0 * degrees).sqrt();
    simpson((1.0 - reach).max(1e-6), 1.0 + reach, 80, |s| density(s) * given(s))
}

/// Simpson's rule over an even number of parts.
fn simpson(from: f64, to: f64, parts: u32, f: impl Fn(f64) -> f64) -> f64 {
    let step = (to - from) / f64::from(parts);
    let at = |i: u32| f(from + step * f64::from(i));
    let inner = (1..parts).map(|i| at(i) * if i % 2 == 1 { 4.0 } else { 2.0 });
    (at(0) + at(parts) + inner.sum::<f64>()) * step / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn holm_counts_the_smallest_most() {
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close(&holm(&[0.01, 0.04, 0.03]), &[0.03, 0.06, 0.06]));
        assert!(close(&holm(&[0.5, 0.9]), &[1.0, 1.0]));
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn critical_values_are_those_of_dunnetts_table() {
        // Two-sided, 5 %, equal numbers (correlation 1/2): Dunnett, Biometrics 20 (1964).
        for (k, degrees, expected) in [
            (1, 5.0, 2.57),
            (2, 5.0, 3.03),
            (5, 5.0, 3.62),
            (1, 10.0, 2.23),
            (3, 10.0, 2.76),
            (5, 10.0, 2.99),
            (2, 20.0, 2.38),
            (5, 20.0, 2.73),
            (1, f64::INFINITY, 1.96),
            (5, f64::INFINITY, 2.51),
        ] {
            let value = dunnett(k, degrees, 0.5, 0.05);
            assert!((value - expected).abs() < 0.01, "{k} comparisons, {degrees} degrees: {value}");
        }
    }

    proptest! {
        #[test]
        fn holm_keeps_the_order_and_never_asks_less_than_no_adjustment(p in proptest::collection::vec(0.0..1.0_f64, 1..20)) {
            let adjusted = holm(&p);
            for i in 0..p.len() {
                prop_assert!(adjusted[i] >= p[i] && adjusted[i] <= 1.0);
                for j in 0..p.len() {
                    prop_assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}
