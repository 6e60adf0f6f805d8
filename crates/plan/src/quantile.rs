//! Quantiles of a sample. [`quantile`] interpolates linearly between order statistics: at `q` of `n` values
//! the position is `q (n - 1)` from 0 (type 7 of Hyndman and Fan, *Sample Quantiles in Statistical Packages*,
//! 1996). [`nearest_rank`] is a value of the sample itself (their type 1), as percentiles of response times
//! are told.

/// Sorts a sample; values that are no numbers go last.
pub fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// The quantile of a sorted sample; `None` of an empty one. `q` is from 0 to 1.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (below, part) = (at.floor() as usize, at.fract());
    let (low, high) = (sorted[below], sorted[(below + 1).min(last)]);
    Some(low + part * (high - low))
}

/// The least value that at least the share `q` of a sorted sample does not exceed; `None` of an empty one.
pub fn nearest_rank<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    let rank = (q * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).checked_sub(1)?).copied()
}

/// The middle of a sample, in any order: of an even number of values the mean of the two in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(&sorted(values.to_vec()), 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_interpolate_between_neighbours() {
        let sample = sorted(vec![40.0, 10.0, 30.0, 20.0]);
        assert_eq!(median(&sample), Some(25.0));
        assert_eq!(quantile(&sample, 0.0), Some(10.0));
        assert_eq!(quantile(&sample, 1.0), Some(40.0));
        assert_eq!(quantile(&sample, 0.9), Some(37.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[0.9, -14.0, 0.92]), Some(0.9));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_nearest_rank_is_the_least_value_that_so_many_do_not_exceed() {
        let hundred: Vec<u32> = (1..=100).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|q| nearest_rank(&hundred, q)), [Some(50), Some(99), Some(100)]);
        assert_eq!(nearest_rank(&[5.0], 0.0), Some(5.0));
        assert_eq!(nearest_rank::<f64>(&[], 0.5), None);
    }

    proptest! {
        #[test]
        fn a_quantile_lies_within_the_sample_and_grows_with_q(
            values in proptest::collection::vec(-1e6_f64..1e6, 1..50), a in 0.0..1.0_f64, b in 0.0..1.0_f64,
        ) {
            let sample = sorted(values);
            let (low, high) = (quantile(&sample, a.min(b)).unwrap(), quantile(&sample, a.max(b)).unwrap());
            prop_assert!(low <= high + 1e-9);
            prop_assert!(low >= sample[0] && high <= sample[sample.len() - 1]);
        }
    }
}
