//! What trials say of the limit: how probable every limit is after them.
//!
//! A trial of the rate `r` is good with the probability
//!
//! ```text
//! P(good) = lapse + (1 - 2 lapse) / (1 + (r / limit)^(1 / spread))
//! ```
//!
//! The *limit* is the rate at which half of the trials are good; the *spread* says over how wide a range of
//! rates good and bad ones mix: nine of ten are good at `limit * 9^-spread` and one of ten at `limit *
//! 9^spread`. The *lapse* is the share of trials that something else than the rate decides. Both limit and
//! spread are unknown, so that a server whose trials contradict each other gets a wider interval by itself,
//! and more trials.
//!
//! This is how thresholds of perception are measured, where the same question is asked of a noisy observer:
//! Watson and Pelli, *QUEST: a Bayesian adaptive psychometric method* (1983), for the posterior on a grid and
//! the next trial from it; Kontsevich and Tyler, *Bayesian adaptive estimation of psychometric slope and
//! threshold* (1999), for two unknowns and a look one trial ahead. Unlike there, what is made small is the
//! variance of the logarithm of the limit.
//!
//! Example, a spread of 4 % (nine of ten at 1289 and one of ten at 1528 where half are at 1400): a trial at
//! the limit itself tells most, 1 / (4 spread^2), so that after n of them the limit is known to 2 spread /
//! sqrt(n): 28 trials for a standard deviation of 1.5 %, which is an interval of 90 % that is 5 % wide.

/// What a trial says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    /// Transactions a second.
    pub(super) rate: f64,
    /// It met the objective.
    pub(super) good: bool,
    /// The share of such trials that something else decides.
    pub(super) lapse: f64,
}

/// Every limit and spread that is thought possible, and how probable it is.
#[derive(Debug)]
pub(super) struct Belief {
    /// Natural logarithms of rates, rising in even steps.
    limits: Vec<f64>,
    /// For each limit, for each of [`SPREADS`]; the sum is 1.
    mass: Vec<[f64; SPREADS.len()]>,
}

/// A factor of two apart: finer ones cannot be told apart by some dozens of trials.
const SPREADS: [f64; 7] = [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32];
/// Before any trial a spread is as probable as this power of it: who takes a server for steadier than it is
/// ends too early. Without it intervals of 90 % held the limit in as few as 80 of 100 simulated searches;
/// with it see the table in the tests.
const PRIOR: f64 = 0.5;
/// Where the next trial may lie, as shares of the belief that are below it.
const CANDIDATES: [f64; 11] = [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98];
/// Cells less probable than this do not change any figure.
const NEGLIGIBLE: f64 = 1e-9;

impl Belief {
    /// What is believed after these trials by somebody who before thought every limit from `low` to `high`
    /// equally probable (on the scale of logarithms), in steps of the factor 1 + `step`.
    pub(super) fn after(observations: &[Observation], (low, high): (f64, f64), step: f64) -> Self {
        let observations: Vec<Observation> =
            observations.iter().map(|trial| Observation { rate: trial.rate.ln(), ..*trial }).collect();
        let width = step.ln_1p();
        let steps = ((high / low).ln() / width).ceil().max(1.0) as u32;
        let limits: Vec<f64> = (0..=steps).map(|n| f64::from(n).mul_add(width, low.ln())).collect();
        let of =
            |limit: f64| SPREADS.map(|spread| likelihood(&observations, limit, spread) + PRIOR * spread.ln());
        let mut mass: Vec<[f64; SPREADS.len()]> = limits.iter().map(|limit| of(*limit)).collect();
        let most = mass.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
        mass.iter_mut().flatten().for_each(|cell| *cell = (*cell - most).exp());
        let sum: f64 = mass.iter().flatten().sum();
        mass.iter_mut().flatten().for_each(|cell| *cell /= sum);
        Self { limits, mass }
    }

    /// The rate below which the limit lies with this probability.
    pub(super) fn quantile(&self, probability: f64) -> f64 {
        let mut below = 0.0;
        let reached = self.limits.iter().zip(&self.mass).find(|(_, cells)| {
            below += cells.iter().sum::<f64>();
            below >= probability
        });
        reached.map_or_else(|| self.limits[self.limits.len() - 1], |(limit, _)| *limit).exp()
    }

    /// The rates between which the limit lies, but for this probability on either side.
    pub(super) fn interval(&self, tail: f64) -> (f64, f64) {
        (self.quantile(tail), self.quantile(1.0 - tail))
    }

    /// Over how wide a range good and bad trials mix: the mean of the spread on the scale of logarithms.
    pub(super) fn spread(&self) -> f64 {
        let of = |cells: &[f64; SPREADS.len()]| -> f64 {
            cells.iter().zip(SPREADS).map(|(mass, spread)| mass * spread.ln()).sum()
        };
        self.mass.iter().map(of).sum::<f64>().exp()
    }

    /// The standard deviation of the limit's logarithm: nearly that of the limit, as a share of it.
    pub(super) fn deviation(&self) -> f64 {
        let mut all = Moments::default();
        self.likely().for_each(|(limit, _, mass)| all.add(limit, mass));
        all.variance().sqrt()
    }

    /// The rate whose trial leaves the least variance, whatever comes of it.
    pub(super) fn most_telling(&self, lapse: f64) -> f64 {
        let rates = CANDIDATES.map(|probability| self.quantile(probability));
        let left = rates.map(|rate| self.variance_after(rate, lapse));
        let least = left.iter().zip(rates).min_by(|(a, _), (b, _)| a.total_cmp(b));
        least.map_or_else(|| self.quantile(0.5), |(_, rate)| rate)
    }

    /// The variance to be expected of the limit's logarithm after one more trial at this rate.
    fn variance_after(&self, rate: f64, lapse: f64) -> f64 {
        let (mut good, mut bad) = (Moments::default(), Moments::default());
        let rate = rate.ln();
        for (limit, spread, mass) in self.likely() {
            let share = good_share(rate, limit, spread, lapse);
            good.add(limit, mass * share);
            bad.add(limit, mass * (1.0 - share));
        }
        good.mass.mul_add(good.variance(), bad.mass * bad.variance())
    }

    /// Limit (its logarithm), spread and mass of every cell that is not negligible.
    fn likely(&self) -> impl Iterator<Item = (f64, f64, f64)> + '_ {
        let cells = self.limits.iter().zip(&self.mass);
        let each = cells.flat_map(|(limit, cells)| {
            cells.iter().zip(SPREADS).map(move |(mass, spread)| (*limit, spread, *mass))
        });
        each.filter(|(_, _, mass)| *mass > NEGLIGIBLE)
    }
}

/// The logarithm of the probability of exactly these trials; rates and limit as logarithms.
fn likelihood(observations: &[Observation], limit: f64, spread: f64) -> f64 {
    let each = observations.iter().map(|trial| {
        let good = good_share(trial.rate, limit, spread, trial.lapse);
        if trial.good { good.ln() } else { (1.0 - good).ln() }
    });
    each.sum()
}

/// The share of trials that are good; rate and limit as logarithms.
fn good_share(rate: f64, limit: f64, spread: f64, lapse: f64) -> f64 {
    2.0_f64.mul_add(-lapse, 1.0) / (1.0 + ((rate - limit) / spread).exp()) + lapse
}

/// Sums for a mean and a variance.
#[derive(Default)]
struct Moments {
    mass: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64, mass: f64) {
        self.mass += mass;
        self.sum = mass.mul_add(value, self.sum);
        self.squares = (mass * value).mul_add(value, self.squares);
    }

    fn variance(&self) -> f64 {
        if self.mass <= 0.0 {
            return 0.0;
        }
        let mean = self.sum / self.mass;
        mean.mul_add(-mean, self.squares / self.mass).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(rate: f64, good: bool) -> Observation {
        Observation { rate, good, lapse: 0.02 }
    }

    #[test]
    fn without_trials_every_limit_is_as_probable() {
        let belief = Belief::after(&[], (100.0, 10_000.0), 0.01);
        assert!((belief.quantile(0.5) / 1000.0 - 1.0).abs() < 0.02, "{}", belief.quantile(0.5));
        assert!((belief.quantile(0.25) / 316.2 - 1.0).abs() < 0.02, "{}", belief.quantile(0.25));
        // A uniform distribution over ln 100: that divided by the root of 12.
        assert!((belief.deviation() / 1.33 - 1.0).abs() < 0.02, "{}", belief.deviation());
    }

    #[test]
    fn the_limit_lies_between_good_and_bad_trials_and_contradictions_widen_its_interval() {
        let agreed: Vec<Observation> =
            (0..8).flat_map(|_| [observation(1000.0, true), observation(1050.0, false)]).collect();
        let agreed = Belief::after(&agreed, (250.0, 4000.0), 0.004);
        assert!(agreed.quantile(0.05) > 995.0 && agreed.quantile(0.95) < 1055.0);
        let mixed: Vec<Observation> =
            (0..16).map(|n| observation(900.0 + 15.0 * f64::from(n), n % 2 == 0)).collect();
        let mixed = Belief::after(&mixed, (250.0, 4000.0), 0.004);
        assert!(mixed.spread() > 3.0 * agreed.spread(), "{} {}", mixed.spread(), agreed.spread());
        assert!(mixed.deviation() > 2.0 * agreed.deviation());
    }

    #[test]
    fn the_next_trial_lies_where_nobody_knows_what_comes_of_it() {
        let belief =
            Belief::after(&[observation(800.0, true), observation(1600.0, false)], (400.0, 3200.0), 0.004);
        let next = belief.most_telling(0.02);
        assert!((900.0..1400.0).contains(&next), "{next}");
    }
}
