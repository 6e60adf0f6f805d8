//! A configuration beside the baseline.
//!
//! Both are measured once in each block, close together in time; what changes from block to block (the hour,
//! the neighbours of a cloud host) changes both alike and cancels. The unit is the trial: thousands of
//! requests within one are one number, for they share everything that makes trials differ.
//!
//! With `x[b]` the figure of the configuration in block `b` and `y[b]` that of the baseline, `d[b] = ln(x[b]
//! / y[b])`. The effect is `exp(mean d)`, its interval `exp(mean d +- t[n-1] s / sqrt(n))`: a paired t on log
//! ratios. A ratio is what people compare by ("12 % more"), and its logarithm is what is symmetric: twice and
//! half are equally far from 1.
//!
//! Example: d = 0.10, 0.14, 0.12, mean 0.12, s = 0.02, t(2 df, 97.5 %) = 4.30: 1.127 with [1.073, 1.185].
//!
//! Why not a bootstrap over blocks: with the 3 to 10 blocks of a trial its 95 % interval covers the truth in
//! 73 to 90 of 100 cases. The t interval keeps its word as long as the logarithms are roughly symmetric.
//!
//! *Equivalent* is a claim of its own, by two one-sided tests (TOST; Schuirmann 1987): the effect is above `1
//! / (1 + margin)` and below `1 + margin`, each with the confidence asked for. "No difference found" is not
//! it.

use crate::student;
use serde::{Deserialize, Serialize};

/// A log ratio that is nearer to zero is that of equal figures, one of them a mean. Taken for an effect it
/// would be a sure one: its blocks agree as well.
const ROUNDING: f64 = 1e-12;

/// A figure with the range that holds the truth with the confidence asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// The estimate.
    pub estimate: f64,
    /// Upper end.
    pub high: f64,
}

/// What a configuration makes of the baseline's figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Mean of the log ratios.
    pub log_mean: f64,
    /// Its standard error.
    pub log_error: f64,
    /// Blocks.
    pub blocks: u32,
}

/// The effect over blocks; `None` with fewer than two, or with a figure that is not above zero.
///
/// Each block is the configuration's figure and the baseline's (the mean of several where it ran more than
/// once).
pub fn paired(blocks: &[(f64, f64)]) -> Option<Effect> {
    let sound = |(cell, baseline): &&(f64, f64)| {
        cell.is_finite() && baseline.is_finite() && *cell > 0.0 && *baseline > 0.0
    };
    if blocks.len() < 2 || !blocks.iter().all(|block| sound(&block)) {
        return None;
    }
    let log = |(cell, baseline): &(f64, f64)| {
        let log = (cell / baseline).ln();
        if log.abs() < ROUNDING { 0.0 } else { log }
    };
    let logs: Vec<f64> = blocks.iter().map(log).collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
    Some(Effect { log_mean: mean, log_error: (variance / n).sqrt(), blocks: blocks.len() as u32 })
}

impl Effect {
    /// The ratio with its interval; `confidence` is such as 0.95.
    pub fn ratio(&self, confidence: f64) -> Interval {
        let reach = student::quantile(0.5 + confidence / 2.0, self.degrees()) * self.log_error;
        let at = |shift: f64| (self.log_mean + shift).exp();
        Interval { low: at(-reach), estimate: at(0.0), high: at(reach) }
    }

    /// How probable an effect at least as far from 1 is if there is none (two-sided).
    pub fn p_differs(&self) -> f64 {
        2.0 * self.tail(self.log_mean.abs())
    }

    /// How probable an effect this near to 1 is if it is `margin` or more in truth; TOST, the larger of the
    /// two.
    pub fn p_equivalent(&self, margin: f64) -> f64 {
        let limit = margin.ln_1p();
        // Below the upper limit, and above the lower one.
        self.tail(limit - self.log_mean).max(self.tail(self.log_mean + limit))
    }

    /// Probability of a t at least `distance` standard errors above zero.
    fn tail(&self, distance: f64) -> f64 {
        if self.log_error == 0.0 {
            // All blocks agree to the last digit: there is nothing to be unsure of but the very edge.
            return if distance > 0.0 {
                0.0
            } else if distance < 0.0 {
                1.0
            } else {
                0.5
            };
        }
        student::tail(distance / self.log_error, self.degrees())
    }

    fn degrees(&self) -> f64 {
        f64::from(self.blocks.max(2) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use rand_distr::{Distribution, Normal};

    #[test]
    fn the_example_of_the_top() {
        let blocks = [0.10_f64, 0.14, 0.12].map(|log| (200.0 * log.exp(), 200.0));
        let ratio = paired(&blocks).unwrap().ratio(0.95);
        let near = |a: f64, b: f64| (a - b).abs() < 5e-4;
        assert!(
            near(ratio.estimate, 1.1275) && near(ratio.low, 1.0728) && near(ratio.high, 1.1850),
            "{ratio:?}"
        );
    }

    #[test]
    fn probabilities_are_those_of_the_t_distribution() {
        // Three blocks whose mean is 4.303 standard errors from zero: the two-sided 5 % point of t with 2
        // degrees.
        let effect = Effect { log_mean: 4.3027 * 0.01, log_error: 0.01, blocks: 3 };
        assert!((effect.p_differs() - 0.05).abs() < 1e-4);
        // As far below the upper limit as 2.920 standard errors, its one-sided 5 % point.
        let edge = Effect { log_mean: 0.1_f64.ln_1p() - 2.92 * 0.01, log_error: 0.01, blocks: 3 };
        assert!((edge.p_equivalent(0.1) - 0.05).abs() < 1e-4, "{}", edge.p_equivalent(0.1));
    }

    #[test]
    fn no_effect_is_made_of_too_little_or_of_figures_that_are_none() {
        assert_eq!(paired(&[(1.0, 1.0)]), None);
        assert_eq!(paired(&[(1.0, 1.0), (0.0, 1.0)]), None);
        assert_eq!(paired(&[(1.0, 1.0), (f64::NAN, 1.0)]), None);
        let same = paired(&[(2.0, 1.0), (2.0, 1.0)]).unwrap();
        assert_eq!((same.p_differs(), same.ratio(0.95).low), (0.0, 2.0));
    }

    #[test]
    fn equal_figures_have_no_effect_though_the_mean_of_some_is_rounded() {
        let rounded = 100.0_f64.ln().exp();
        assert_ne!(rounded.to_bits(), 100.0_f64.to_bits());
        let same = paired(&[(100.0, rounded), (100.0, rounded), (90.0, 90.0)]).unwrap();
        assert_eq!((same.log_mean, same.p_differs()), (0.0, 1.0));
        assert_eq!(same.p_equivalent(0.01), 0.0);
    }

    /// Blocks of a host whose level wanders by 20 % from block to block, with 4 % of noise in each trial.
    fn blocks(rng: &mut StdRng, count: usize, ratio: f64) -> Vec<(f64, f64)> {
        let (level, noise) = (Normal::<f64>::new(0.0, 0.2).unwrap(), Normal::<f64>::new(0.0, 0.04).unwrap());
        let block = |_| {
            let level = 1_000.0 * level.sample(rng).exp();
            let mut trial = |ratio: f64| level * ratio * noise.sample(rng).exp();
            (trial(ratio), trial(1.0))
        };
        (0..count).map(block).collect()
    }

    #[test]
    fn the_interval_covers_the_truth_as_often_as_it_says() {
        let mut rng = StdRng::seed_from_u64(7);
        for count in [3, 5, 8] {
            let covered = (0..2_000).filter(|_| {
                let truth = rng.random_range(0.8..1.25);
                let ratio = paired(&blocks(&mut rng, count, truth)).unwrap().ratio(0.95);
                (ratio.low..=ratio.high).contains(&truth)
            });
            let share = covered.count() as f64 / 2_000.0;
            assert!((0.935..=0.965).contains(&share), "{count} blocks: {share}");
        }
    }

    #[test]
    fn equivalence_is_claimed_falsely_in_at_most_five_of_a_hundred_at_its_very_edge() {
        let mut rng = StdRng::seed_from_u64(11);
        let claimed =
            (0..2_000).filter(|_| paired(&blocks(&mut rng, 8, 1.03)).unwrap().p_equivalent(0.03) < 0.05);
        let share = claimed.count() as f64 / 2_000.0;
        assert!(share <= 0.065, "{share}");
        let same = (0..500)
            .filter(|_| paired(&blocks(&mut rng, 24, 1.0)).unwrap().p_equivalent(0.03) < 0.05)
            .count();
        assert!(same > 200, "with enough blocks it is found: {same} of 500");
    }
}
