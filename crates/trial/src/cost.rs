//! What an experiment costs and what it can find, told before anything is touched.
//!
//! The log ratio of a cell to the mean of the two baselines of its block has the standard deviation `noise
//! sqrt(1 + 1/2)` where `noise` is that of the logarithm of one trial. Over `n` blocks its mean is known to
//! `t[n-1] noise sqrt(1.5 / n)`.

use crate::halving::Stage;
use plan::Effect;
use serde::Serialize;
use std::time::Duration;

/// The lead-in of a block, its two baselines and its A/A cell.
pub const EXTRA: usize = 4;

/// What a trial takes beside its warm-up and measurement: settings are applied, read back, journaled and put
/// back, clients are connected, dirty pages are written.
pub const AROUND: Duration = Duration::from_millis(700);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// Settings and data as they were.
    pub reset: Duration,
    /// Until the load is steady, at most.
    pub warm_up: Duration,
    pub measure: Duration,
    /// A restart of the server, or a new file system.
    pub restart: Duration,
}

impl Timing {
    pub fn trial(&self) -> Duration {
        self.reset + self.warm_up + self.measure + AROUND
    }
}

/// Trials and time of stages, for each load (a number of threads or a rate) that is tried. `restarts` in each
/// block.
pub fn cost(stages: &[Stage], timing: &Timing, loads: u32, restarts: u32) -> (usize, Duration) {
    let mut trials = 0;
    let mut time = Duration::ZERO;
    for stage in stages {
        let blocks = stage.blocks * loads;
        let in_block = stage.cells + EXTRA;
        trials += in_block * blocks as usize;
        time += (timing.trial() * in_block as u32 + timing.restart * restarts) * blocks;
    }
    (trials, time)
}

/// What the last stage can find.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reach {
    /// Half the width of a ratio's 95 % interval: 0.04 is 4 %.
    pub half_width: f64,
    /// The effect that is found in nine of ten cases.
    pub found: f64,
}

/// The reach of this many blocks, with `cells` compared at once at `level`; `noise` of one trial (0.04 is 4
/// %).
pub fn reach(noise: f64, blocks: u32, cells: u32, level: f64) -> Option<Reach> {
    if blocks < 2 || cells == 0 {
        return None;
    }
    let log_error = noise.ln_1p() * (1.5 / f64::from(blocks)).sqrt();
    let effect = Effect { log_mean: 0.0, log_error, blocks };
    let half_width = effect.ratio(0.95).high - 1.0;
    // The first of Holm's steps, and a normal tail of one in ten.
    let needed = effect.ratio(1.0 - level / f64::from(cells)).high.ln() + 1.282 * log_error;
    Some(Reach { half_width, found: needed.exp_m1() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::halving::stages;

    #[test]
    fn sixty_two_cells_of_ten_minutes_take_more_than_a_day_and_the_figure_says_so() {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let timing =
            Timing { reset: minutes(2), warm_up: minutes(3), measure: minutes(5), restart: Duration::ZERO };
        let (trials, time) = cost(&stages(62), &timing, 1, 0);
        assert_eq!(trials, 182 + 4 * (1 + 3 + 10));
        assert_eq!(time, (minutes(10) + AROUND) * 238);
        let (twice, _) = cost(&stages(62), &timing, 2, 0);
        assert_eq!(twice, trials * 2);
    }

    #[test]
    fn more_blocks_reach_further_and_more_cells_less_far() {
        let found = |blocks, cells| reach(0.04, blocks, cells, 0.05).unwrap().found;
        assert!(found(3, 6) > found(5, 6) && found(5, 6) > found(8, 6));
        assert!(found(8, 62) > found(8, 6));
        let eight = reach(0.04, 8, 6, 0.05).unwrap();
        assert!((0.03..0.06).contains(&eight.half_width) && (0.06..0.11).contains(&eight.found), "{eight:?}");
        assert_eq!(reach(0.04, 1, 6, 0.05), None);
    }
}
