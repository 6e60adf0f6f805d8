//! Bound: what is asked of a figure, and whether an interval says that it is so.
//!
//! It is met when all of the interval is on the right side, missed when all of it is on the wrong one. In
//! between a run cannot tell, and says on which side the mean is: more rounds make the interval narrower.

/// What is asked of a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

/// [`Bound::verdict`] of what is kept.
pub(crate) const MET: &str = "met";

impl Bound {
    /// In words, for people.
    pub(crate) fn words(self) -> String {
        match self {
            Self::AtLeast(bound) => format!("at least {bound}"),
            Self::AtMost(bound) => format!("at most {bound}"),
        }
    }

    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }

    /// What an interval says of it, and its mean where it cannot tell.
    pub(crate) fn verdict(self, mean: f64, interval: Option<(f64, f64)>) -> &'static str {
        let Some((low, high)) = interval else { return "one round cannot tell" };
        match (self.holds(low) && self.holds(high), self.holds(mean)) {
            (true, _) => MET,
            (_, true) => "met on average, the interval reaches beyond",
            _ if self.reached_by(low, high) => "missed on average, the interval reaches it",
            _ => "missed",
        }
    }

    /// Whether any value of the interval would do.
    fn reached_by(self, low: f64, high: f64) -> bool {
        match self {
            Self::AtLeast(bound) => high >= bound,
            Self::AtMost(bound) => low <= bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bound::{AtLeast, AtMost};

    #[test]
    fn a_goal_is_met_only_when_all_of_the_interval_is_there() {
        let (met, leans, reaches, missed) = (
            "met",
            "met on average, the interval reaches beyond",
            "missed on average, the interval reaches it",
            "missed",
        );
        for (bound, mean, low, high, expected) in [
            (AtLeast(1.3), 1.5, 1.3, 1.7, met),
            (AtLeast(1.3), 1.4, 1.2, 1.6, leans),
            (AtLeast(1.3), 1.2, 1.0, 1.4, reaches),
            (AtLeast(1.3), 1.1, 1.0, 1.2, missed),
            (AtMost(0.6), 0.5, 0.4, 0.6, met),
            (AtMost(0.6), 0.8, 0.7, 0.9, missed),
        ] {
            assert_eq!(bound.verdict(mean, Some((low, high))), expected, "{bound:?} {mean}");
        }
        assert_eq!(AtLeast(1.0).verdict(2.0, None), "one round cannot tell");
    }
}
