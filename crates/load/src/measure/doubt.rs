//! Whether a search that has ended measured one thing: not when the limit moved meanwhile, nor when nobody
//! could say where it is.

use super::{Capacity, FEWEST, Goal, Trial};

/// An interval wider than this says too little to be a figure.
const COARSEST: f64 = 0.2;
/// Intervals of 99 % are compared: where nothing moved two of them miss each other three times in ten
/// thousand.
const TAIL: f64 = 0.005;
/// At this number of places the trials are divided into earlier and later ones.
const DIVISIONS: usize = 12;

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
