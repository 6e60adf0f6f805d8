//! Several comparisons at once. Of 62 configurations that are all the same, the best looks 16 % better after
//! one run each: whoever looks at many must ask more of each.
//!
//! * [`holm`]: Holm's step-down adjustment (1979): the smallest of `m` probabilities counts `m`-fold, the
//!   next `m - 1`-fold, and so on. It holds however the comparisons depend on each other.

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
