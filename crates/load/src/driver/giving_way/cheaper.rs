//! Which costs less, to take each answer as it comes or to wait for many: found out by doing both in turn, often at first, now
//! and then afterwards.

/// At the beginning so many windows, of each in turn.
const AT_FIRST: u32 = 8;
/// Afterwards, of so many windows
const OF: u32 = 100;
/// the last try the other.
const TRIED: u32 = 2;
/// The weight of a new window in what is known.
const WEIGHT: f64 = 0.3;
/// The other must cost less than this much of the present one to be taken: what is alike must not go to and fro.
const CLEARLY: f64 = 0.9;

/// What either costs, and what is done.
#[derive(Debug, Default)]
pub(super) struct Cheaper {
    /// Smoothed, in any unit: of taking, of waiting.
    costs: [Option<f64>; 2],
    /// What has been found to be cheaper: to wait?
    chosen: bool,
    /// In the present window.
    waits: bool,
    windows: u32,
}

impl Cheaper {
    /// Whether the present window waits for many.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// The present window is over, and each answer has cost so much; the next begins.
    pub(super) fn ended(&mut self, cost: f64) {
        let known = &mut self.costs[usize::from(self.waits)];
        *known = Some(known.map_or(cost, |known| known + WEIGHT * (cost - known)));
        let [other, present] = [!self.chosen, self.chosen].map(|waits| self.costs[usize::from(waits)]);
        if let (Some(other), Some(present)) = (other, present)
            && other < CLEARLY * present
        {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// So many windows where taking and waiting cost so much, give or take a fifth; how many of them waited.
    fn waited(cheaper: &mut Cheaper, windows: u32, costs: [f64; 2], seed: &mut u64) -> u32 {
        let mut count = 0;
        for _ in 0..windows {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let noise = 0.8 + 0.4 * (*seed >> 40) as f64 / (1u64 << 24) as f64;
            count += u32::from(cheaper.waits());
            cheaper.ended(noise * costs[usize::from(cheaper.waits())]);
        }
        count
    }

    proptest! {
        #[test]
        fn what_is_cheaper_is_done_nearly_always(
            cost in 1.0..20.0f64, dearer in 1.5..3.0f64, waiting_is_cheaper: bool, mut seed: u64
        ) {
            let costs = if waiting_is_cheaper { [cost * dearer, cost] } else { [cost, cost * dearer] };
            let mut cheaper = Cheaper::default();
            waited(&mut cheaper, AT_FIRST, costs, &mut seed);
            let waited = waited(&mut cheaper, 10 * OF, costs, &mut seed);
            let right = if waiting_is_cheaper { waited } else { 10 * OF - waited };
            prop_assert!(right >= 9 * OF, "{right} windows of {}", 10 * OF);
        }

        #[test]
        fn what_changes_is_followed_after_a_few_tries(mut seed: u64) {
            let mut cheaper = Cheaper::default();
            waited(&mut cheaper, 3 * OF, [13.0, 7.0], &mut seed);
            waited(&mut cheaper, 5 * OF, [9.0, 14.0], &mut seed);
            let waited = waited(&mut cheaper, OF, [9.0, 14.0], &mut seed);
            prop_assert!(waited <= TRIED, "{waited}");
        }
    }

    #[test]
    fn what_costs_about_the_same_does_not_go_to_and_fro() {
        let mut cheaper = Cheaper::default();
        for _ in 0..100 * OF {
            cheaper.ended(if cheaper.waits() { 3.7 } else { 4.0 });
            assert!(!cheaper.chosen);
        }
        assert!(cheaper.costs.iter().all(Option::is_some), "both were tried");
    }
}
