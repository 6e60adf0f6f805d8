//! Apportion: whole sessions from fractional shares, without bias and without coin flips.
//!
//! `n` sessions are laid side by side, each zone (or server) owns a stretch of the line of length `n *
//! share`, and marks stand at `k - phase` for whole k: a stretch gets as many sessions as marks fall into it.
//!
//! ```text
//! C[j] = n * (share[0] + ... + share[j])         count[j] = floor(C[j] + phase) - floor(C[j-1] + phase)
//! ```
//!
//! **Why.** Every count is `n * share` rounded down or up, so one router with 30 sessions is as even as whole
//! numbers allow; independent coin flips would be off by 5 and more. And over routers that each drew their
//! own `phase` uniformly from 0..1, the expected count is exactly `n * share`: twenty routers with one
//! session each still spread by the shares, which rounding to the nearest would not do. (This is systematic
//! sampling from survey statistics.)
//!
//! **Example.** Shares 0.5, 0.3, 0.2 and n = 1: phases from 0.5 up choose the first, 0.2 to 0.5 the second,
//! those below 0.2 the third.

/// How many of `n` sessions belong to each share. Shares must sum to 1 (or be all 0: then nobody gets any).
pub(crate) fn apportion(shares: &[f64], n: usize, phase: f64) -> Vec<u32> {
    let sum: f64 = shares.iter().sum();
    if sum <= 0.0 {
        return vec![0; shares.len()];
    }
    let mut before = phase.floor();
    let mut along = 0.0;
    let last = shares.iter().rposition(|s| *s > 0.0);
    shares
        .iter()
        .enumerate()
        .map(|(at, share)| {
            along += share / sum;
            // The end of the line is exact by definition; adding up fractions may miss it by a rounding
            // error.
            let end =
                if Some(at) == last { n as f64 + phase.floor() } else { (along * n as f64 + phase).floor() };
            let count = (end - before).max(0.0);
            before = before.max(end);
            count as u32
        })
        .collect()
}

/// A phase for the stretch inside zone number `zone`, as good as independent of the phase over the zones.
pub(crate) fn phase_within(phase: f64, zone: usize) -> f64 {
    (phase * 1_000_003.0 * (zone + 1) as f64).fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn over_all_phases_each_share_gets_its_exact_part_even_of_one_session() {
        let shares = [0.5, 0.3, 0.2];
        for n in [1usize, 2, 3, 7] {
            let mut sums = [0u32; 3];
            for step in 0..10_000 {
                let counts = apportion(&shares, n, f64::from(step) / 10_000.0);
                sums.iter_mut().zip(counts).for_each(|(s, c)| *s += c);
            }
            for (sum, share) in sums.iter().zip(shares) {
                assert!((f64::from(*sum) / 10_000.0 - share * n as f64).abs() < 0.001, "{n}: {sums:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn counts_sum_to_n_and_are_the_share_rounded_down_or_up(
            raw in proptest::collection::vec(0.0..1.0f64, 1..8), n in 0usize..500, phase in 0.0..1.0f64
        ) {
            let sum: f64 = raw.iter().sum();
            prop_assume!(sum > 1e-3);
            let shares: Vec<f64> = raw.iter().map(|s| s / sum).collect();
            let counts = apportion(&shares, n, phase);
            prop_assert_eq!(counts.iter().sum::<u32>() as usize, n);
            for (count, share) in counts.iter().zip(&shares) {
                let exact = share * n as f64;
                prop_assert!(f64::from(*count) >= (exact - 1e-6).floor());
                prop_assert!(f64::from(*count) <= (exact + 1e-6).ceil());
            }
        }
    }
}
