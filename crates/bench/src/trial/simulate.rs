//! Simulated experiments with noise that was measured.

use crate::promise::Promise;
use crate::report::section::section;
use ::trial::cost::reach;
use ::trial::halving::{Stage, stages, trials};
use ::trial::simulation::{Finding, Host, Noise, Play, landscape};
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

/// True effects; how often each is found is part of the report.
const EFFECTS: [f64; 5] = [0.03, 0.05, 0.10, 0.15, 0.20];

/// Shares of simulated experiments.
#[derive(Debug, Serialize)]
pub(super) struct Simulated {
    pub(super) experiments: u32,
    pub(super) cells: usize,
    /// Blocks of the last stage: enough that an effect of 10 % can be found in this noise.
    pub(super) blocks: u32,
    /// By how the noise was used; the first is what is judged.
    pub(super) by_play: Vec<Played>,
    /// True effect of one cell, and the share of experiments that call it better.
    pub(super) power: Vec<(f64, f64)>,
    /// What `trial plan` calls the effect that is found in nine of ten cases, and the share that finds it.
    pub(super) planned: Option<(f64, f64)>,
    /// Single runs of identical cells: how much better the best looks, on average.
    pub(super) single_best: f64,
    /// Trials of cells, of all cells in as many blocks as the last stage has.
    pub(super) cost: f64,
    pub(super) same_winner: f64,
    pub(super) as_good: f64,
}

/// Shares with noise that is used in one way.
#[derive(Debug, Serialize)]
pub(super) struct Played {
    pub(super) play: Play,
    /// Of identical cells: any better or worse, in an experiment that its A/A cell did not void.
    pub(super) false_verdicts: f64,
    /// The same, whatever the A/A cell says.
    pub(super) before_voiding: f64,
    /// Of identical cells: the A/A cell differs.
    pub(super) void: f64,
    /// Of one cell 10 % better: found.
    pub(super) found: f64,
    /// The 95 % intervals of the last stage that hold the truth.
    pub(super) covered: f64,
}

impl Simulated {
    pub(super) fn judged(&self) -> &Played {
        &self.by_play[0]
    }

    pub(super) fn is_met(&self) -> bool {
        let judged = self.judged();
        judged.before_voiding <= 0.05
            && judged.found >= 0.9
            && (0.93..=0.97).contains(&judged.covered)
            && self.cost <= 0.4
            && self.as_good >= 0.95
    }
}

/// Experiments of one kind, each with a seed of its own.
struct Runs<'a> {
    noise: &'a Noise,
    stages: &'a [Stage],
    experiments: u32,
    play: Play,
}

impl Runs<'_> {
    fn host(&self, truth: Vec<f64>, seed: u64) -> Host<'_> {
        Host::new(truth, self.noise, StdRng::seed_from_u64(seed)).play(self.play)
    }

    fn share(&self, count: usize) -> f64 {
        count as f64 / f64::from(self.experiments.max(1))
    }

    fn seeds(&self) -> std::ops::Range<u64> {
        0..u64::from(self.experiments)
    }

    /// The share in which one cell that is better by `effect` is called better.
    fn found(&self, effect: f64) -> f64 {
        let found = self.seeds().filter(|seed| {
            let mut truth = vec![1.0; CELLS];
            let at = *seed as usize % CELLS;
            truth[at] = 1.0 + effect;
            let finding = self.host(truth, seed + 1_000_000).experiment(self.stages);
            finding.cells.contains(&(at, Verdict::Better))
        });
        self.share(found.count())
    }

    fn played(&self) -> Played {
        let differs = |finding: &Finding| {
            finding.cells.iter().any(|(_, verdict)| matches!(verdict, Verdict::Better | Verdict::Worse))
        };
        let same: Vec<Finding> =
            self.seeds().map(|seed| self.host(vec![1.0; CELLS], seed).experiment(self.stages)).collect();
        let (mut covered, mut all) = (0, 0);
        for seed in self.seeds() {
            let mut rng = StdRng::seed_from_u64(seed + 2_000_000);
            let truth = (0..CELLS).map(|_| rng.random_range(0.8..1.25)).collect();
            let finding = self.host(truth, seed + 3_000_000).experiment(self.stages);
            covered += finding.covered;
            all += finding.cells.len();
        }
        let count = |of: &dyn Fn(&Finding) -> bool| self.share(same.iter().filter(|one| of(one)).count());
        Played {
            play: self.play,
            false_verdicts: count(&|one| differs(one) && !one.void),
            before_voiding: count(&differs),
            void: count(&|one| one.void),
            found: self.found(0.10),
            covered: covered as f64 / all.max(1) as f64,
        }
    }
}

pub(super) fn simulate(noise: &Noise, experiments: u32) -> Simulated {
    let (stages, blocks) = plan(noise);
    let runs = |play| Runs { noise, stages: &stages, experiments, play };
    let plays: &[Play] =
        if noise.series.is_empty() { &[Play::Drawn] } else { &[Play::Anywhere, Play::Blocks, Play::Drawn] };
    let judged = runs(plays[0]);
    let (mut same, mut as_good, mut best) = (0, 0, 0.0);
    for seed in judged.seeds() {
        let truth = landscape(CELLS, &mut StdRng::seed_from_u64(seed + 4_000_000));
        let winner = judged.host(truth.clone(), seed + 5_000_000).experiment(&stages).best;
        let full = judged.host(truth.clone(), seed + 6_000_000).best_of_all(blocks.max(FULL));
        same += usize::from(winner == full);
        as_good += usize::from(truth[winner] >= truth[full] * (1.0 - NEAR));
        let all: Vec<usize> = (0..CELLS).collect();
        let once = judged.host(vec![1.0; CELLS], seed + 7_000_000).block(&all);
        best += once.iter().map(|(_, (figure, baseline))| figure / baseline - 1.0).fold(0.0, f64::max);
    }
    let last = stages.last().map_or(0, |stage| stage.cells as u32);
    let reach = reach(noise.within_deviation().exp_m1(), blocks, last, 0.05);
    Simulated {
        experiments,
        cells: CELLS,
        blocks,
        by_play: plays.iter().map(|play| runs(*play).played()).collect(),
        power: EFFECTS.iter().map(|effect| (*effect, judged.found(*effect))).collect(),
        planned: reach.map(|reach| (reach.found, judged.found(reach.found))),
        single_best: best / f64::from(experiments.max(1)),
        cost: trials(&stages) as f64 / (CELLS * blocks.max(FULL) as usize) as f64,
        same_winner: judged.share(same),
        as_good: judged.share(as_good),
    }
}

/// The usual stages, their blocks as many as this noise asks for if an effect of 10 % is to be found: `trial
/// plan` says the same of a spec.
fn plan(noise: &Noise) -> (Vec<Stage>, u32) {
    let mut stages = stages(CELLS);
    let deviation = noise.within_deviation().exp_m1();
    let usual = 0.04_f64;
    let last = stages.last().map_or(1, |stage| stage.blocks);
    // All stages by the same factor: otherwise the first ones catch up with the last, and nothing is halved.
    let more = (deviation / usual).powi(2).clamp(1.0, f64::from(MOST_BLOCKS) / f64::from(last));
    for stage in &mut stages {
        stage.blocks = (f64::from(stage.blocks) * more).ceil() as u32;
    }
    let blocks = stages.last().map_or(0, |stage| stage.blocks);
    (stages, blocks)
}

/// What was asked of the simulations, and what came of them.
pub(super) fn promises(simulated: &Simulated) -> Vec<Promise> {
    let judged = simulated.judged();
    let covered = (0.93..=0.97).contains(&judged.covered);
    let winners = format!(
        "{} the very same, {} as good within 3 %",
        share(simulated.same_winner),
        share(simulated.as_good)
    );
    vec![
        Promise::new(
            "identical cells, simulated: an experiment with a false better or worse in at most 5 %",
            share(judged.before_voiding),
            judged.before_voiding <= 0.05,
        ),
        Promise::new(
            "an effect of 10 %, simulated: found in at least 90 %",
            share(judged.found),
            judged.found >= 0.9,
        ),
        Promise::new("the 95 % interval covers the truth in 93 to 97 %", share(judged.covered), covered),
        Promise::new(
            "halving costs at most 40 % of all cells at full repeats",
            share(simulated.cost),
            simulated.cost <= 0.4,
        ),
        Promise::new("halving finds the same winner", winners, simulated.as_good >= 0.95),
    ]
}

fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Tables, for people.
pub(super) fn text(noise: &Noise, simulated: &Simulated) -> String {
    let mut text = format!(
        "\n## Noise\n\n{} a trial within a block ({} residuals), {} from block to block, drift within a block {:+.1} %.\n",
        share(noise.within_deviation()),
        noise.within.len(),
        share(noise.between),
        noise.drift * 100.0
    );
    if let Some(shape) = noise.shape() {
        text.push_str(&format!(
            "The series has {} trials of the same settings: standard deviation {}, correlation of neighbours {:+.2}, \
             excess kurtosis {:+.1}, the farthest trial at {:.1} standard deviations; the first trial of a block \
             is {:+.1} % beside the others (95 %: {:+.1} to {:+.1} %).\n",
            shape.trials,
            share(shape.deviation),
            shape.neighbours,
            shape.excess_kurtosis,
            shape.widest,
            (shape.first.estimate - 1.0) * 100.0,
            (shape.first.low - 1.0) * 100.0,
            (shape.first.high - 1.0) * 100.0
        ));
    }
    text.push_str(&format!(
        "\n## Simulated\n\n{} experiments of each kind, of {} cells; the last stage has {} blocks. One run of each of {} \
         identical cells, without any of this: the best looks {} better.\n\n",
        simulated.experiments,
        simulated.cells,
        simulated.blocks,
        simulated.cells,
        share(simulated.single_best)
    ));
    let words = |play| match play {
        Play::Blocks => "the series, from the start of a measured block",
        Play::Anywhere => "the series, from anywhere in it",
        Play::Drawn => "residuals in any order",
    };
    let rows = simulated.by_play.iter().map(|one| {
        let shares = [one.before_voiding, one.false_verdicts, one.void, one.found, one.covered].map(share);
        std::iter::once(words(one.play).to_owned()).chain(shares).collect::<Vec<_>>()
    });
    let heading = ["noise", "false verdict", "of those not void", "void", "10 % found", "covered"];
    text.push_str(&section("By how the noise is used", &heading, rows));
    let planned =
        simulated.planned.iter().map(|(effect, found)| (*effect, *found, " (as `trial plan` says)"));
    let rows = simulated.power.iter().map(|(effect, found)| (*effect, *found, "")).chain(planned);
    let rows = rows.map(|(effect, found, note)| vec![format!("{}{note}", share(effect)), share(found)]);
    text.push_str(&section("Power: one cell of 64 is better by", &["effect", "found"], rows));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_noise_asks_for_more_blocks_and_the_method_keeps_its_word() {
        assert_eq!(plan(&Noise::normal(0.02, 0.1)).1, 10);
        assert!(plan(&Noise::normal(0.06, 0.1)).1 > 20);
        let simulated = simulate(&Noise::normal(0.03, 0.1), 100);
        let judged = simulated.judged();
        assert!(judged.before_voiding <= 0.08 && judged.found >= 0.9, "{simulated:?}");
        assert!(simulated.cost <= 0.4 && (0.9..=0.99).contains(&judged.covered), "{simulated:?}");
    }
}
