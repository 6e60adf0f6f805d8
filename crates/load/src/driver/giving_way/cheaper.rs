//! Which of the ways costs least, found out by going all of them in turn: often at first, now and then afterwards.

/// How a thread takes answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Way {
    /// Each as it comes.
    #[default]
    AsTheyCome,
    /// It gives way, and waits for a moment until most of what it has just sent is answered.
    MostOfSent,
    /// It gives way, and waits for a moment until half of all that is under way is answered.
    HalfOfAll,
}

/// In the order in which they are tried; a later one has to be clearly cheaper.
const WAYS: [Way; 3] = [Way::AsTheyCome, Way::MostOfSent, Way::HalfOfAll];
/// At the beginning each is gone for so many windows, in turn.
const AT_FIRST: u32 = 4;
/// Afterwards, of so many windows
const OF: u32 = 100;
/// the last go to one of the others.
const TRIED: u32 = 2;
/// The weight of a new window in what a way is known to cost.
const WEIGHT: f64 = 0.3;
/// Another way must cost less than this much of the present one's to be taken: what is alike must not go to and fro.
const CLEARLY: f64 = 0.9;

/// What each way costs, and which is gone.
#[derive(Debug, Default)]
pub(super) struct Cheaper {
    /// Smoothed, in any unit.
    costs: [Option<f64>; 3],
    chosen: Way,
    /// The way of the present window.
    way: Way,
    windows: u32,
}

impl Cheaper {
    /// The way of the present window.
    pub(super) fn way(&self) -> Way {
        self.way
    }

    /// A window of the present way is over, and each answer has cost so much; returns the way of the next window.
    pub(super) fn ended(&mut self, cost: f64) -> Way {
        let known = &mut self.costs[self.way as usize];
        *known = Some(known.map_or(cost, |known| known + WEIGHT * (cost - known)));
        for way in WAYS {
            if let (Some(cost), Some(present)) = (self.costs[way as usize], self.costs[self.chosen as usize])
                && cost < CLEARLY * present
            {
                self.chosen = way;
            }
        }
        self.windows = self.windows.wrapping_add(1);
        self.way = self.next();
        self.way
    }

    fn next(&self) -> Way {
        let ways = WAYS.len() as u32;
        let Some(since) = self.windows.checked_sub(AT_FIRST * ways) else {
            return WAYS[(self.windows % ways) as usize];
        };
        if since % OF < OF - TRIED {
            return self.chosen;
        }
        // The others in turn.
        let step = 1 + since / OF % (ways - 1);
        WAYS[((self.chosen as u32 + step) % ways) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Goes so many windows where the ways cost so much, give or take a fifth; how many of them went each way.
    fn gone(cheaper: &mut Cheaper, windows: u32, costs: [f64; 3], seed: &mut u64) -> [u32; 3] {
        let mut gone = [0; 3];
        for _ in 0..windows {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let noise = 0.8 + 0.4 * (*seed >> 40) as f64 / (1u64 << 24) as f64;
            let way = cheaper.way() as usize;
            gone[way] += 1;
            cheaper.ended(noise * costs[way]);
        }
        gone
    }

    proptest! {
        #[test]
        fn the_cheapest_way_is_gone_nearly_always(
            cost in 1.0..20.0f64, cheapest in 0usize..3, dearer in 1.5..3.0f64, mut seed: u64
        ) {
            let mut costs = [cost * dearer; 3];
            costs[cheapest] = cost;
            let mut cheaper = Cheaper::default();
            gone(&mut cheaper, AT_FIRST * 3, costs, &mut seed);
            let gone = gone(&mut cheaper, 10 * OF, costs, &mut seed);
            prop_assert!(gone[cheapest] >= 9 * OF, "{gone:?}");
        }

        #[test]
        fn what_changes_is_followed_after_a_few_tries(mut seed: u64) {
            let mut cheaper = Cheaper::default();
            gone(&mut cheaper, 3 * OF, [6.5, 4.5, 4.6], &mut seed);
            gone(&mut cheaper, 8 * OF, [9.0, 14.0, 15.0], &mut seed);
            let gone = gone(&mut cheaper, OF, [9.0, 14.0, 15.0], &mut seed);
            prop_assert!(gone[0] >= OF - TRIED, "{gone:?}");
        }
    }

    #[test]
    fn ways_that_cost_about_the_same_do_not_go_to_and_fro() {
        let mut cheaper = Cheaper::default();
        for _ in 0..100 * OF {
            let cost = [4.0, 3.8, 3.7][cheaper.way() as usize];
            cheaper.ended(cost);
            assert_eq!(cheaper.chosen, Way::AsTheyCome);
        }
        assert!(cheaper.costs.iter().all(Option::is_some), "all were tried");
    }
}
