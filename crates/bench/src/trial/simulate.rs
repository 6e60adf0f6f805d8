//! Simulated experiments with noise that was measured.

use ::trial::halving::{Stage, stages, trials};
use ::trial::simulation::{Finding, Host, Noise, landscape};
use ::trial::verdict::Verdict;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

/// Cells of a simulated experiment.
const CELLS: usize = 64;
/// All cells at full repeats: what halving is held against.
const FULL: u32 = 8;
/// As good as another within this share.
const NEAR: f64 = 0.03;
/// A last stage of more blocks than this is none that anybody waits for.
const MOST_BLOCKS: u32 = 40;

/// Shares of simulated experiments.
#[derive(Debug, Serialize)]
pub(super) struct Simulated {
    pub(super) experiments: u32,
    pub(super) cells: usize,
    /// Blocks of the last stage: enough that an effect of 10 % can be found in this noise.
    pub(super) blocks: u32,
    /// Of identical cells: any better or worse.
    pub(super) false_verdicts: f64,
    /// Of one cell 10 % better: found.
    pub(super) found: f64,
    /// The 95 % intervals of the last stage that hold the truth.
    pub(super) covered: f64,
    /// Trials of cells, of all cells in as many blocks as the last stage has.
    pub(super) cost: f64,
    pub(super) same_winner: f64,
    pub(super) as_good: f64,
}

impl Simulated {
    pub(super) fn is_met(&self) -> bool {
        self.false_verdicts <= 0.05
            && self.found >= 0.9
            && (0.93..=0.97).contains(&self.covered)
            && self.cost <= 0.4
            && self.as_good >= 0.95
    }
}

pub(super) fn simulate(noise: &Noise, experiments: u32) -> Simulated {
    let (stages, blocks) = plan(noise);
    let share = |count: usize| count as f64 / f64::from(experiments.max(1));
    let host = |truth: Vec<f64>, seed: u64| Host { truth, noise, rng: StdRng::seed_from_u64(seed) };
    let differs = |finding: &Finding| {
        finding.cells.iter().any(|(_, verdict)| matches!(verdict, Verdict::Better | Verdict::Worse))
    };
    let seeds = || 0..u64::from(experiments);
    let wrong = seeds().filter(|seed| differs(&host(vec![1.0; CELLS], *seed).experiment(&stages))).count();
    let found = seeds().filter(|seed| {
        let mut truth = vec![1.0; CELLS];
        let at = *seed as usize % CELLS;
        truth[at] = 1.10;
        host(truth, seed + 1_000_000).experiment(&stages).cells.contains(&(at, Verdict::Better))
    });
    let found = found.count();
    let (mut covered, mut all) = (0, 0);
    for seed in seeds() {
        let mut rng = StdRng::seed_from_u64(seed + 2_000_000);
        let truth = (0..CELLS).map(|_| rng.random_range(0.8..1.25)).collect();
        let finding = host(truth, seed + 3_000_000).experiment(&stages);
        covered += finding.covered;
        all += finding.cells.len();
    }
    let (mut same, mut as_good) = (0, 0);
    for seed in seeds() {
        let truth = landscape(CELLS, &mut StdRng::seed_from_u64(seed + 4_000_000));
        let winner = host(truth.clone(), seed + 5_000_000).experiment(&stages).best;
        let full = host(truth.clone(), seed + 6_000_000).best_of_all(blocks.max(FULL));
        same += usize::from(winner == full);
        as_good += usize::from(truth[winner] >= truth[full] * (1.0 - NEAR));
    }
    Simulated {
        experiments,
        cells: CELLS,
        blocks,
        false_verdicts: share(wrong),
        found: share(found),
        covered: f64::from(u32::try_from(covered).unwrap_or(u32::MAX)) / all.max(1) as f64,
        cost: trials(&stages) as f64 / (CELLS * blocks.max(FULL) as usize) as f64,
        same_winner: share(same),
        as_good: share(as_good),
    }
}

/// The usual stages, their blocks as many as this noise asks for if an effect of 10 % is to be found: `trial
/// plan` says the same of a spec.
fn plan(noise: &Noise) -> (Vec<Stage>, u32) {
    let mut stages = stages(CELLS);
    let deviation = noise.within_deviation().exp_m1();
    let usual = 0.04_f64;
    let more = (deviation / usual).powi(2).max(1.0);
    for stage in &mut stages {
        stage.blocks = ((f64::from(stage.blocks) * more).ceil() as u32).min(MOST_BLOCKS);
    }
    let blocks = stages.last().map_or(0, |stage| stage.blocks);
    (stages, blocks)
}

pub(super) fn text(noise: &Noise, simulated: &Simulated) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let Simulated { experiments, cells, blocks, .. } = simulated;
    format!(
        "Noise: {} a trial ({} residuals), {} from block to block\n{experiments} experiments of {cells} cells each \
         kind, the last stage of {blocks} blocks\n  false verdicts            {} (asked: at most 5 %)\n  an effect of \
         10 % is found  {} (at least 90 %)\n  the interval covers       {} (93 to 97 %)\n  cost of halving           {} \
         (at most 40 %)\n  the very same winner      {}; as good within 3 %: {}\n",
        percent(noise.within_deviation()),
        noise.within.len(),
        percent(noise.between),
        percent(simulated.false_verdicts),
        percent(simulated.found),
        percent(simulated.covered),
        percent(simulated.cost),
        percent(simulated.same_winner),
        percent(simulated.as_good),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_noise_asks_for_more_blocks_and_the_method_keeps_its_word() {
        assert_eq!(plan(&Noise::normal(0.02, 0.1)).1, 10);
        assert!(plan(&Noise::normal(0.06, 0.1)).1 > 20);
        let simulated = simulate(&Noise::normal(0.03, 0.1), 100);
        assert!(simulated.false_verdicts <= 0.08 && simulated.found >= 0.9, "{simulated:?}");
        assert!(simulated.cost <= 0.4 && (0.9..=0.99).contains(&simulated.covered), "{simulated:?}");
    }
}
