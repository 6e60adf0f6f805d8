//! The order of the trials of a block.
//!
//! A block begins with a *lead-in*: a run of the baseline that counts for nothing. The first run after data
//! were made anew is unlike the others (measured: 28 % slower, in each of 8 blocks of equal cells). Were it
//! the baseline's, every cell would seem better.
//!
//! Then the block holds every live cell once, in random order, and the baseline twice: after a quarter and
//! after three quarters of them, so that a steady drift within the block moves the mean of the two as much as
//! that of the cells. One more run of the baseline is an ordinary cell of the block, the *A/A cell*: it
//! differs from the baseline in nothing, and an experiment in which it seems to is void.
//!
//! *Whole plots.* A factor that takes a restart or a new file system is not changed for every trial: within a
//! block the cells that share its levels are a plot; plots are in random order, and the cells within each. It
//! costs precision for that factor (its levels are compared by plots, and there are few of them) and saves
//! most of the restarts.
//!
//! *Hosts* are the opposite: what differs by nothing but the host runs one after the other, so that hosts are
//! compared at the same time of a block, whatever drifts between them. The baselines stand before the first
//! of these groups and in the middle: between two hosts they would follow the slower one more often than
//! cells do, and whatever runs after an idle stretch is slower.

use crate::design::Levels;
use crate::spec::{Factor, HOST};
use rand::Rng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

/// One trial of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Run {
    /// The baseline's settings, first in the block: not compared with anything.
    LeadIn,
    /// The baseline, against which the block's cells are held.
    Baseline,
    /// The baseline in the place of a cell.
    Same,
    /// A cell, by its number in the design.
    Cell(usize),
}

/// The order of one block; `live` are the cells that go on, by number.
pub fn block(
    cells: &[Levels],
    live: &[usize],
    factors: &[Factor],
    baseline: &Levels,
    rng: &mut impl Rng,
) -> Vec<Run> {
    let levels = |run: Run| match run {
        Run::Cell(at) => &cells[at],
        Run::LeadIn | Run::Baseline | Run::Same => baseline,
    };
    let mut plots: Vec<(Vec<usize>, Vec<Run>)> = Vec::new();
    for run in live.iter().map(|at| Run::Cell(*at)).chain([Run::Same]) {
        let plot = plot(factors, levels(run));
        match plots.iter_mut().find(|(other, _)| *other == plot) {
            Some((_, runs)) => runs.push(run),
            None => plots.push((plot, vec![run])),
        }
    }
    plots.shuffle(rng);
    let mut order = Vec::new();
    for (_, mut runs) in plots {
        runs.shuffle(rng);
        order.extend(runs);
    }
    let cells = order.len();
    let (first, second) =
        if compares_hosts(factors) { (0, cells.div_ceil(2)) } else { (cells / 4, (3 * cells).div_ceil(4)) };
    order.insert(second, Run::Baseline);
    order.insert(first, Run::Baseline);
    order.insert(0, Run::LeadIn);
    order
}

fn compares_hosts(factors: &[Factor]) -> bool {
    factors.iter().any(|factor| factor.knob == HOST)
}

/// Levels of the factors that are expensive to change; where hosts are compared, of all but those.
fn plot(factors: &[Factor], levels: &Levels) -> Vec<usize> {
    if compares_hosts(factors) {
        let others = factors.iter().zip(levels).filter(|(factor, _)| factor.knob != HOST);
        return others.map(|(_, level)| *level).collect();
    }
    factors.iter().zip(levels).filter(|(factor, _)| factor.whole_plot).map(|(_, level)| *level).collect()
}

/// How often a block changes a factor that is expensive to change; `before` is what the host is set to as it
/// begins.
pub fn restarts(order: &[Run], cells: &[Levels], factors: &[Factor], baseline: &Levels) -> usize {
    let levels = |run: &Run| match run {
        Run::Cell(at) => plot(factors, &cells[*at]),
        Run::LeadIn | Run::Baseline | Run::Same => plot(factors, baseline),
    };
    // Servers of several hosts are not restarted.
    if compares_hosts(factors) {
        return 0;
    }
    order.windows(2).filter(|pair| levels(&pair[0]) != levels(&pair[1])).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::design;
    use crate::spec::Kind;
    use crate::spec::tests::factor;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    proptest! {
        #[test]
        fn a_block_has_a_lead_in_each_live_cell_once_the_baseline_twice_and_one_cell_that_is_the_baseline(
            seed in any::<u64>(), keep in 1_usize..11, whole in any::<bool>(),
        ) {
            let mut factors = [factor("a", 3), factor("b", 2), factor("c", 2)];
            factors[1].whole_plot = whole;
            let design = design(&factors, &[], Kind::Full).unwrap();
            let live: Vec<usize> = (0..keep).collect();
            let mut rng = StdRng::seed_from_u64(seed);
            let order = block(&design.cells, &live, &factors, &design.baseline, &mut rng);
            prop_assert_eq!(order[0], Run::LeadIn);
            let at = |run| order.iter().enumerate().filter(move |(_, one)| **one == run).map(|(at, _)| at);
            let baselines: Vec<usize> = at(Run::Baseline).collect();
            prop_assert_eq!((baselines.len(), at(Run::LeadIn).count()), (2, 1));
            // A drift moves both means alike, but for the rounding of places.
            let middle = |sum: usize, count: usize| sum as f64 / count as f64;
            let of_cells = middle((1..order.len()).sum::<usize>() - baselines[0] - baselines[1], order.len() - 3);
            let off = middle(baselines[0] + baselines[1], 2) - of_cells;
            prop_assert!(off.abs() <= 1.0, "{baselines:?} of {}: {off}", order.len());
            let mut rest: Vec<Run> =
                order[1..].iter().copied().filter(|run| *run != Run::Baseline).collect();
            prop_assert_eq!(order.len(), rest.len() + 3);
            rest.sort_by_key(|run| match run { Run::Cell(at) => *at, _ => usize::MAX });
            let expected: Vec<Run> = live.iter().map(|at| Run::Cell(*at)).chain([Run::Same]).collect();
            prop_assert_eq!(rest, expected);
            // Two plots after the lead-in, with the baseline looked in on twice: six changes at most.
            if whole {
                prop_assert!(restarts(&order, &design.cells, &factors, &design.baseline) <= 6);
            }
        }
    }

    #[test]
    fn the_same_seed_is_the_same_order_and_another_is_another() {
        let factors = [factor("a", 4), factor("b", 4)];
        let design = design(&factors, &[], Kind::Full).unwrap();
        let live: Vec<usize> = (0..design.cells.len()).collect();
        let order =
            |seed| block(&design.cells, &live, &factors, &design.baseline, &mut StdRng::seed_from_u64(seed));
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn cells_that_differ_by_the_host_alone_run_one_after_the_other() {
        let mut factors = [factor(HOST, 3), factor("server.a", 3)];
        factors[0].knob = HOST.to_owned();
        let design = design(&factors, &[], Kind::Full).unwrap();
        let live: Vec<usize> = (0..design.cells.len()).collect();
        for seed in 0..20 {
            let mut rng = StdRng::seed_from_u64(seed);
            let order = block(&design.cells, &live, &factors, &design.baseline, &mut rng);
            // The A/A cell stands with the hosts at the baseline's settings; the baseline may part them.
            let settings = |run: &Run| match run {
                Run::Cell(at) => Some(design.cells[*at][1]),
                Run::Same => Some(0),
                Run::LeadIn | Run::Baseline => None,
            };
            let mut groups: Vec<usize> = order.iter().filter_map(settings).collect();
            groups.dedup();
            assert_eq!(groups.len(), 3, "{order:?}");
        }
    }
}
