//! Which keys are asked for: sysbench's distributions over a range of integers, equal in law to its own.
//!
//! With `n = high - low + 1`, `u` uniform in [0, 1):
//!
//! | name | key |
//! |---|---|
//! | uniform | `low + floor(u n)` |
//! | gaussian | `low + floor(n * mean of 12 u)`: a bell around the middle |
//! | special | 1 in 4 gaussian; the rest uniform in a part of 1 % around `low + 3/4 of that part` (sysbench 1.0's default) |
//! | pareto | `low + floor(n * u^p)` with `p = ln h / ln(1 - h)`: a share h of the keys gets 1 - h of the draws |
//! | zipfian | the k-th key with probability proportional to `k^-s` |
//!
//! The special distribution follows sysbench 1.0.20 to the letter, including what looks unintended in it: the
//! uniform part reuses the number that chose it, which lies above 1/4, so its first quarter is never hit.

use rand::Rng;
use rand_distr::{Distribution as _, Zipf};
use serde::Serialize;

/// How keys are spread over their range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum Distribution {
    /// Each as likely as any other.
    Uniform,
    /// A bell around the middle, as a mean of 12 uniform numbers.
    Gaussian,
    /// A few keys in the middle get most of the draws (sysbench 1.0's default).
    Special,
    /// A share `h` of the keys gets `1 - h` of the draws.
    Pareto {
        /// The share, between 0 and 1 (sysbench: 0.2).
        h: f64,
    },
    /// The k-th key is `k^exponent` times rarer than the first.
    Zipfian {
        /// At least 0 (sysbench: 0.8).
        exponent: f64,
    },
}

/// Numbers that are averaged for a bell (`--rand-spec-iter`).
const ITERATIONS: u32 = 12;
/// Part of the range that is special (`--rand-spec-pct`), as a share.
const SPECIAL_PART: f64 = 0.01;
/// Draws that go to the special part (`--rand-spec-res`), as a share.
const SPECIAL_SHARE: f64 = 0.75;

impl Distribution {
    /// By its name, with sysbench's parameters.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "uniform" => Self::Uniform,
            "gaussian" => Self::Gaussian,
            "special" => Self::Special,
            "pareto" => Self::Pareto { h: 0.2 },
            "zipfian" => Self::Zipfian { exponent: 0.8 },
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Gaussian => "gaussian",
            Self::Special => "special",
            Self::Pareto { .. } => "pareto",
            Self::Zipfian { .. } => "zipfian",
        }
    }

    /// Everything worked out for draws from `low` to `high`, both included. A range the wrong way round is
    /// its low end.
    pub fn over(self, low: u32, high: u32) -> Keys {
        let high = high.max(low);
        let n = f64::from(high - low) + 1.0;
        let shape = match self {
            Self::Uniform => Shape::Uniform,
            Self::Gaussian => Shape::Gaussian,
            Self::Special => Shape::Special,
            Self::Pareto { h } => Shape::Pareto(h.ln() / (1.0 - h).ln()),
            // What is no exponent counts as 0, which is uniform.
            Self::Zipfian { exponent } => Zipf::new(n, exponent).map_or(Shape::Uniform, Shape::Zipfian),
        };
        Keys { low, high, n, shape }
    }
}

/// Keys of one range, ready to be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    low: u32,
    high: u32,
    n: f64,
    shape: Shape,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Uniform,
    Gaussian,
    Special,
    /// The exponent p.
    Pareto(f64),
    Zipfian(Zipf<f64>),
}

impl Keys {
    /// The next key.
    #[inline]
    pub fn draw(&self, rng: &mut impl Rng) -> u32 {
        let offset = match self.shape {
            Shape::Uniform => rng.random::<f64>() * self.n,
            Shape::Gaussian => bell(rng) * self.n,
            Shape::Special => self.special(rng),
            Shape::Pareto(power) => rng.random::<f64>().powf(power) * self.n,
            Shape::Zipfian(zipf) => zipf.sample(rng) - 1.0,
        };
        self.low.saturating_add(offset as u32).min(self.high)
    }

    fn special(&self, rng: &mut impl Rng) -> f64 {
        let width = self.n - 1.0;
        let chosen: f64 = rng.random();
        if chosen < 1.0 - SPECIAL_SHARE {
            return bell(rng) * width;
        }
        chosen * (width * SPECIAL_PART + 1.0) + width / 2.0 - width * SPECIAL_PART / 2.0
    }
}

fn bell(rng: &mut impl Rng) -> f64 {
    (0..ITERATIONS).map(|_| rng.random::<f64>()).sum::<f64>() / f64::from(ITERATIONS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    fn counts(distribution: Distribution, low: u32, high: u32, draws: u32) -> Vec<f64> {
        let keys = distribution.over(low, high);
        let mut rng = SmallRng::seed_from_u64(7);
        let mut counts = vec![0.0; (high - low + 1) as usize];
        for _ in 0..draws {
            counts[(keys.draw(&mut rng) - low) as usize] += 1.0;
        }
        counts
    }

    /// Chi-square over its degrees of freedom: about 1 when the law is right; 1.5 is out of reach by chance
    /// at 99 degrees.
    fn misfit(found: &[f64], expected: impl Fn(usize) -> f64) -> f64 {
        let draws: f64 = found.iter().sum();
        let weights: Vec<f64> = (0..found.len()).map(expected).collect();
        let all: f64 = weights.iter().sum();
        let chi: f64 = found
            .iter()
            .zip(&weights)
            .map(|(found, weight)| (found - draws * weight / all).powi(2) / (draws * weight / all))
            .sum();
        chi / (found.len() - 1) as f64
    }

    #[test]
    fn uniform_keys_are_all_as_likely() {
        assert!(misfit(&counts(Distribution::Uniform, 5, 104, 100_000), |_| 1.0) < 1.5);
    }

    #[test]
    fn the_kth_zipfian_key_has_a_weight_of_k_to_the_minus_s() {
        for exponent in [0.0, 0.8, 1.0, 1.5] {
            let found = counts(Distribution::Zipfian { exponent }, 1, 100, 200_000);
            let misfit = misfit(&found, |k| (k as f64 + 1.0).powf(-exponent));
            assert!(misfit < 1.5, "exponent {exponent}: {misfit}");
        }
    }

    #[test]
    fn a_fifth_of_the_pareto_keys_gets_four_fifths_of_the_draws() {
        let h: f64 = 0.2;
        let power = h.ln() / (1.0 - h).ln();
        let found = counts(Distribution::Pareto { h }, 1, 100, 200_000);
        let below = |k: usize| (k as f64 / 100.0).powf(1.0 / power);
        assert!(misfit(&found, |k| below(k + 1) - below(k)) < 1.5);
        assert!((below(20) - 0.8).abs() < 1e-9);
    }

    #[test]
    fn special_keys_lie_in_the_part_that_sysbench_prefers() {
        let found = counts(Distribution::Special, 1, 10_000, 100_000);
        let (from, to) = (4_950 + 25, 4_950 + 101);
        let inside: f64 = found[from - 1..to].iter().sum();
        // 3 of 4 draws, and the little of the bell that falls there too.
        assert!((inside / 100_000.0 - 0.755).abs() < 0.01, "{}", inside / 100_000.0);
    }

    #[test]
    fn gaussian_keys_have_the_spread_of_a_mean_of_twelve() {
        let found = counts(Distribution::Gaussian, 0, 999, 100_000);
        let mean: f64 = found.iter().enumerate().map(|(k, n)| k as f64 * n).sum::<f64>() / 1e5;
        let variance: f64 =
            found.iter().enumerate().map(|(k, n)| (k as f64 - mean).powi(2) * n).sum::<f64>() / 1e5;
        assert!((mean - 499.5).abs() < 2.0, "{mean}");
        assert!((variance.sqrt() - 1000.0 / 12.0).abs() < 2.0, "{}", variance.sqrt());
    }

    #[test]
    fn no_key_lies_outside_its_range() {
        let mut rng = SmallRng::seed_from_u64(1);
        for name in ["uniform", "gaussian", "special", "pareto", "zipfian"] {
            for (low, high) in [(1, 1), (1, 2), (7, 7 + 10), (u32::MAX - 1, u32::MAX), (9, 3)] {
                let keys = Distribution::named(name).unwrap().over(low, high);
                for _ in 0..1000 {
                    let key = keys.draw(&mut rng);
                    assert!(key >= low && key <= high.max(low), "{name}: {key} of {low}..{high}");
                }
            }
        }
    }
}
