//! Whether a search that has ended measured one thing: not when the limit moved meanwhile, nor when nobody
//! could say where it is.

use super::{Capacity, FEWEST, Goal, Objective, Trial};

/// An interval wider than this says too little to be a figure.
const COARSEST: f64 = 0.2;
/// Intervals of 99 % are compared: where nothing moved two of them miss each other three times in ten
/// thousand.
const TAIL: f64 = 0.005;
/// At this number of places the trials are divided into earlier and later ones.
const DIVISIONS: usize = 12;
/// A server that answers at most this many times as slowly as at a rate this many times lower is not full.
const AS_FAST: f64 = 1.5;
const LOWER_RATE: f64 = 2.0;

/// Why a search has no figure although it ended.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Doubt {
    /// The first trials say something else than the last.
    #[error(
        "the limit moved while it was looked for: {:.0} to {:.0} a second by the first {trials} trials, {:.0} to {:.0} by those \
         after them (each 99 % sure); measure again when nothing else uses server or machine, and caches are warm",
        first.0, first.1, then.0, then.1
    )]
    Moved {
        /// Full trials until then.
        trials: usize,
        /// Where it was, in transactions a second.
        first: (f64, f64),
        /// Where it was afterwards.
        then: (f64, f64),
    },
    /// After all trials it may still be anywhere.
    #[error(
        "after {trials} trials the limit may still be anywhere from {lower:.0} to {upper:.0} a second: trials of the same rate \
         differ too much for so few of them; send more (--at-most) or longer ones (--trial)"
    )]
    Coarse {
        /// Full trials sent.
        trials: usize,
        /// Lower end of the interval.
        lower: f64,
        /// Upper end of it.
        upper: f64,
    },
}

impl Goal {
    /// Why the trials that led to this capacity are no measurement of it, if so.
    pub fn doubt(&self, trials: &[Trial], capacity: &Capacity) -> Option<Doubt> {
        let full: Vec<Trial> = self.full(trials).copied().collect();
        let mut divisions = (1..DIVISIONS).map(|n| n * full.len() / DIVISIONS);
        if let Some(moved) = divisions.find_map(|trials| self.moved(&full, trials)) {
            return Some(moved);
        }
        let (lower, upper) = capacity.lower.zip(capacity.upper)?;
        (upper > lower * (1.0 + COARSEST)).then_some(Doubt::Coarse { trials: full.len(), lower, upper })
    }

    /// Whether the clients were the limit, and not the server: in most trials that miss the objective it
    /// answered about as fast as at half of the rate or less, and within the objective, once it was asked.
    /// They were lost waiting for a free client.
    pub fn too_few_clients(&self, trials: &[Trial], objective: Objective) -> bool {
        let known = trials.iter().filter(|trial| trial.service_at_objective_ms > 0.0);
        let (good, bad): (Vec<&Trial>, Vec<&Trial>) = known.partition(|trial| trial.loss() <= self.loss);
        let Some(calm) = good.into_iter().min_by(|a, b| a.rate.total_cmp(&b.rate)) else { return false };
        let within = objective.within.as_secs_f64() * 1e3;
        let waited = bad.iter().filter(|trial| {
            let service = trial.service_at_objective_ms;
            trial.rate >= calm.rate * LOWER_RATE
                && trial.at_objective_ms > within
                && service <= within.min(calm.service_at_objective_ms * AS_FAST)
        });
        waited.count() * 2 > bad.len()
    }

    /// Whether the first trials exclude what the others say.
    fn moved(&self, full: &[Trial], trials: usize) -> Option<Doubt> {
        let (earlier, later) = full.split_at(trials);
        if earlier.len().min(later.len()) < FEWEST {
            return None;
        }
        let interval = |trials: &[Trial]| self.belief(trials).map(|belief| belief.interval(TAIL));
        let (first, then) = interval(earlier).zip(interval(later))?;
        (first.1 < then.0 || then.1 < first.0).then_some(Doubt::Moved { trials, first, then })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn clients_are_the_limit_where_the_server_answers_as_fast_as_at_a_low_rate() {
        let objective = Objective::parse("p99 < 15ms").unwrap();
        let goal = Goal::new(objective, Duration::from_secs(10), 100.0, 1e6);
        let trial = |rate: f64, lost: u64, response: f64, service: f64| Trial {
            rate,
            due: 1000,
            lost,
            at_objective_ms: response,
            service_at_objective_ms: service,
            ..Trial::default()
        };
        let calm = trial(100.0, 0, 4.0, 4.0);
        let says = |bad: &[Trial]| goal.too_few_clients(&[&[calm][..], bad].concat(), objective);
        assert!(says(&[trial(800.0, 300, 90.0, 5.0), trial(400.0, 20, 18.0, 4.5)]));
        assert!(!says(&[trial(800.0, 300, 90.0, 12.0)]), "slower when it is asked more: the server is full");
        assert!(!says(&[trial(150.0, 300, 90.0, 5.0)]), "too near to compare with");
        assert!(!says(&[trial(800.0, 300, 9.0, 5.0)]), "errors, and no waiting");
        assert!(!says(&[trial(800.0, 300, 90.0, 0.0)]), "of a time when it was not kept");
        assert!(!says(&[]));
    }
}
