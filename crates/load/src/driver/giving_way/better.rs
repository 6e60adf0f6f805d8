//! Which is better, to take each answer as it comes or to wait for many: found out by doing both in turn, often at first, now
//! and then afterwards.

/// At the beginning so many windows, of each in turn.
const AT_FIRST: u32 = 16;
/// Afterwards, of so many windows
const OF: u32 = 150;
/// the last try the other.
const TRIED: u32 = 3;
/// The weight of a new window in what is known, once that is more than the mean of a few.
const WEIGHT: f64 = 0.1;
/// Fewer answers than this much of the other's are clearly fewer: what is alike must not go to and fro.
const FEWER: f64 = 0.9;
/// The same for what an answer costs, which moves less from window to window.
const CHEAPER: f64 = 0.95;

/// What came of a window, or on average of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Yield {
    /// Answers in a unit of time, any.
    pub(super) answers: f64,
    /// CPU of the thread for each of them, in any unit.
    pub(super) cost: f64,
}

/// What comes of one of the two.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Of the first windows, then weighted.
    mean: Yield,
    windows: u32,
}

/// What came of either, and what is done.
#[derive(Debug, Default)]
pub(super) struct Better {
    /// Of taking, of waiting.
    known: [Known; 2],
    /// What has been found to be better: to wait?
    chosen: bool,
    /// In the present window.
    waits: bool,
    windows: u32,
}

impl Better {
    /// Whether the present window waits for many.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// The present window is over, and this came of it; the next begins.
    pub(super) fn ended(&mut self, found: Yield) {
        self.known[usize::from(self.waits)].add(found);
        let [other, present] = [!self.chosen, self.chosen].map(|waits| self.known[usize::from(waits)]);
        if other.windows > 0 && present.windows > 0 && other.mean.is_clearly_better_than(present.mean) {
            self.chosen = !self.chosen;
        }
        self.windows = self.windows.wrapping_add(1);
        self.waits = match self.windows.checked_sub(AT_FIRST) {
            None => self.windows % 2 == 1,
            Some(since) if since % OF < OF - TRIED => self.chosen,
            Some(_) => !self.chosen,
        };
    }
}

impl Yield {
    /// More gets done, or as much for less.
    fn is_clearly_better_than(self, present: Self) -> bool {
        if present.answers < FEWER * self.answers {
            return true;
        }
        self.answers >= FEWER * present.answers && self.cost < CHEAPER * present.cost
    }
}

impl Known {
    fn add(&mut self, found: Yield) {
        self.windows = self.windows.saturating_add(1);
        let weight = WEIGHT.max(1.0 / f64::from(self.windows));
        self.mean.answers += weight * (found.answers - self.mean.answers);
        self.mean.cost += weight * (found.cost - self.mean.cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn yields(answers: f64, cost: f64) -> Yield {
        Yield { answers, cost }
    }

    /// So many windows where this comes of taking and of waiting, give or take a fifth; how many of them waited.
    fn waited(better: &mut Better, windows: u32, either: [Yield; 2], seed: &mut u64) -> u32 {
        let mut noise = || {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            0.8 + 0.4 * (*seed >> 40) as f64 / (1u64 << 24) as f64
        };
        let mut count = 0;
        for _ in 0..windows {
            count += u32::from(better.waits());
            let of = either[usize::from(better.waits())];
            better.ended(yields(of.answers * noise(), of.cost * noise()));
        }
        count
    }

    proptest! {
        #[test]
        fn what_is_cheaper_is_done_mostly_in_any_noise(
            cost in 1.0..20.0f64, dearer in 1.6..3.0f64, waiting_is_cheaper: bool, mut seed: u64
        ) {
            let (cheap, dear) = (yields(100.0, cost), yields(100.0, cost * dearer));
            let either = if waiting_is_cheaper { [dear, cheap] } else { [cheap, dear] };
            let mut better = Better::default();
            waited(&mut better, AT_FIRST, either, &mut seed);
            let waited = waited(&mut better, 10 * OF, either, &mut seed);
            let right = if waiting_is_cheaper { waited } else { 10 * OF - waited };
            prop_assert!(right >= 8 * OF, "{right} windows of {}", 10 * OF);
        }

        #[test]
        fn however_cheap_it_is_waiting_for_many_is_not_done_where_less_gets_done(
            fewer in 0.3..0.6f64, cost in 0.1..1.0f64, mut seed: u64
        ) {
            let either = [yields(100.0, 1.0), yields(100.0 * fewer, cost)];
            let mut better = Better::default();
            waited(&mut better, AT_FIRST, either, &mut seed);
            let waited = waited(&mut better, 10 * OF, either, &mut seed);
            prop_assert!(waited <= 2 * OF, "{waited}");
        }

        #[test]
        fn what_changes_is_followed_after_a_few_tries(mut seed: u64) {
            let mut better = Better::default();
            waited(&mut better, 3 * OF, [yields(100.0, 13.0), yields(100.0, 7.0)], &mut seed);
            let since = [yields(100.0, 9.0), yields(100.0, 14.0)];
            waited(&mut better, 5 * OF, since, &mut seed);
            let waited = waited(&mut better, OF, since, &mut seed);
            // Its tries, and windows in which noise made it look better.
            prop_assert!(waited <= OF / 2, "{waited}");
        }
    }

    #[test]
    fn what_is_about_the_same_does_not_go_to_and_fro() {
        let mut better = Better::default();
        for _ in 0..100 * OF {
            better.ended(if better.waits() { yields(105.0, 3.9) } else { yields(100.0, 4.0) });
            assert!(!better.chosen);
        }
        assert!(better.known.iter().all(|known| known.windows > 0), "both were tried");
    }
}
