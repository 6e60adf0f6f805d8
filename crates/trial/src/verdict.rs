//! What is said of each cell of the last stage: better, worse, equivalent, undecided. Never "no difference":
//! that is either equivalent, shown by a test of its own, or undecided.
//!
//! Cells are compared with the baseline as a family: probabilities are adjusted by Holm, so that an
//! experiment in which all cells are the baseline in disguise calls any of them better or worse in at most
//! `level` of all cases. Equivalence is adjusted likewise. A cell that differs for sure by less than anybody
//! cares for is *equivalent*.
//!
//! The A/A cell is no part of the family: it is held to `level` alone, and a difference there makes the
//! experiment void.

use plan::multiplicity::holm;
use plan::{Effect, Interval};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Good {
    More,
    Less,
}

impl Good {
    /// A log ratio turned so that more is better.
    pub fn score(self, log_ratio: f64) -> f64 {
        match self {
            Self::More => log_ratio,
            Self::Less => -log_ratio,
        }
    }
}

/// What is said of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better than the baseline.
    Better,
    /// Worse than the baseline.
    Worse,
    /// Within the smallest effect of interest, either way.
    Equivalent,
    /// More blocks are needed.
    Undecided,
}

/// The verdicts of a family, in the order given. `margin` is the smallest effect of interest (0.03), `level`
/// the share of experiments that may be wrong (0.05).
pub fn verdicts(effects: &[Effect], good: Good, margin: f64, level: f64) -> Vec<Verdict> {
    let differs = holm(&effects.iter().map(Effect::p_differs).collect::<Vec<_>>());
    let equal = holm(&effects.iter().map(|effect| effect.p_equivalent(margin)).collect::<Vec<_>>());
    let verdict = |(effect, (differs, equal)): (&Effect, (&f64, &f64))| {
        if *equal < level {
            Verdict::Equivalent
        } else if *differs >= level {
            Verdict::Undecided
        } else if good.score(effect.log_mean) > 0.0 {
            Verdict::Better
        } else {
            Verdict::Worse
        }
    };
    effects.iter().zip(differs.iter().zip(&equal)).map(verdict).collect()
}

/// The interval of the best of a family, which was chosen by its figure: all intervals of the family together
/// hold their truths in all but `level` of all cases (Bonferroni), so the one that is shown does, too.
pub fn of_the_best(effect: &Effect, family: usize, level: f64) -> Interval {
    effect.ratio(1.0 - level / family.max(1) as f64)
}

/// Whether that interval excludes no effect. Holm asks less of all but the smallest probability, so a cell
/// may be better by it and have an interval that includes no effect.
pub fn is_confirmed(effect: &Effect, family: usize, level: f64) -> bool {
    let Interval { low, high, .. } = of_the_best(effect, family, level);
    low > 1.0 || high < 1.0
}

/// Whether the A/A cell shows an effect, which voids the experiment.
pub fn is_void(same: &Effect, level: f64) -> bool {
    same.p_differs() < level
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(log_mean: f64, log_error: f64) -> Effect {
        Effect { log_mean, log_error, blocks: 8 }
    }

    #[test]
    fn verdicts_follow_from_effect_error_and_the_direction_that_is_good() {
        let effects = [effect(0.10, 0.01), effect(-0.10, 0.01), effect(0.001, 0.003), effect(0.03, 0.03)];
        use Verdict::{Better, Equivalent, Undecided, Worse};
        assert_eq!(verdicts(&effects, Good::More, 0.03, 0.05), [Better, Worse, Equivalent, Undecided]);
        assert_eq!(verdicts(&effects, Good::Less, 0.03, 0.05), [Worse, Better, Equivalent, Undecided]);
    }

    #[test]
    fn the_interval_of_the_best_of_several_is_wider_and_that_of_one_alone_is_not() {
        let one = effect(0.1, 0.02);
        let (alone, best) = (of_the_best(&one, 1, 0.05), of_the_best(&one, 6, 0.05));
        assert_eq!(alone, one.ratio(0.95));
        // Seven degrees of freedom: the 97.5 % point is 2.365, the 99.58 % point 3.61.
        let reach = |ratio: Interval| (ratio.high / ratio.estimate).ln() / 0.02;
        assert!((reach(alone) - 2.365).abs() < 0.01 && (reach(best) - 3.61).abs() < 0.03, "{best:?}");
    }

    #[test]
    fn a_cell_that_is_better_by_a_later_step_of_holm_alone_is_not_confirmed() {
        // Seven degrees of freedom: 2.6 errors are p = 0.035, which is enough at the second step of two.
        let effects = [effect(0.2, 0.2 / 2.6), effect(0.1, 0.01)];
        assert_eq!(verdicts(&effects, Good::More, 0.03, 0.05), [Verdict::Better; 2]);
        assert_eq!(effects.map(|one| is_confirmed(&one, 2, 0.05)), [false, true]);
        assert!(is_confirmed(&effect(-0.1, 0.01), 2, 0.05), "less may be good");
    }

    #[test]
    fn a_sure_difference_below_the_smallest_effect_of_interest_is_equivalent() {
        assert_eq!(verdicts(&[effect(0.01, 0.001)], Good::More, 0.03, 0.05), [Verdict::Equivalent]);
    }

    #[test]
    fn what_is_found_alone_may_be_undecided_among_many() {
        let alone = effect(0.05, 0.018);
        assert_eq!(verdicts(&[alone], Good::More, 0.001, 0.05), [Verdict::Better]);
        let many = [alone, effect(0.0, 0.02), effect(0.01, 0.02), effect(-0.01, 0.02), effect(0.0, 0.02)];
        assert_eq!(verdicts(&many, Good::More, 0.001, 0.05)[0], Verdict::Undecided);
        assert!(is_void(&alone, 0.05) && !is_void(&effect(0.01, 0.02), 0.05));
    }
}
