//! Which trial is next, given those that were run. Nothing else is remembered: an experiment that was killed
//! goes on from its lines on disk, and the same seed with the same figures is the same experiment.
//!
//! Loads are experiments of their own, one after the other; in each the stages, in each stage its blocks. The
//! order of a block follows from the seed, the load, the stage and the block. A cell that was refused or
//! given up is not tried again. A void trial is tried once more; one that was too slow is void the first
//! time.

use crate::design::Design;
use crate::halving::{self, Stage};
use crate::order::{self, Run};
use crate::spec::Spec;
use crate::store::{Outcome, Trial};
use knob::{Host, catalogue, name};
use plan::comparison::paired;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A void trial is tried so often altogether.
const ATTEMPTS: u32 = 2;

/// Where in the experiment a trial stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TrialSlot {
    /// Which load, from 0.
    pub load: usize,
    /// Which stage, from 0.
    pub stage: usize,
    /// Which block of the stage, from 0.
    pub block: u32,
    /// Which trial of the block, from 0.
    pub position: usize,
    /// Which attempt at it, from 0.
    pub attempt: u32,
}

/// What is to be run next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub place: TrialSlot,
    pub run: Run,
    /// The attempt before was too slow.
    pub slow_before: bool,
}

/// What can be said of an experiment that is under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The next trial; `None` when all are done.
    pub next: Option<Next>,
    /// Trials that are left, as far as is known.
    pub left: usize,
    /// Trials that will not be run because the time of their load is over.
    pub cut: usize,
    /// The cells of each stage that was reached, by load.
    pub stages: Vec<Vec<Vec<usize>>>,
}

/// The stages of an experiment: the first has every cell, and none has more than there are.
pub fn stages(spec: &Spec, cells: usize) -> Vec<Stage> {
    let mut stages = spec.stages.clone().unwrap_or_else(|| halving::stages(cells));
    for (at, stage) in stages.iter_mut().enumerate() {
        stage.cells = if at == 0 { cells } else { stage.cells.min(cells) };
    }
    stages
}

/// Looks at what was run. `possible` are the cells that nothing refused before the first trial.
pub fn progress(spec: &Spec, design: &Design, possible: &[usize], trials: &[Trial]) -> Progress {
    let stages = stages(spec, possible.len());
    let loads = spec.load.points().len();
    let mut progress = Progress { next: None, left: 0, cut: 0, stages: Vec::new() };
    for load in 0..loads {
        let of_load: Vec<&Trial> = trials.iter().filter(|trial| trial.place.load == load).collect();
        let (next, left) = (progress.next, progress.left);
        let mut reached = Vec::new();
        let mut live = possible.to_vec();
        for (at, stage) in stages.iter().enumerate() {
            if progress.next.is_some() {
                progress.left += (stage.cells.min(live.len()) + crate::cost::EXTRA) * stage.blocks as usize;
                continue;
            }
            if at > 0 {
                // What was measured since does not change who came this far.
                let before: Vec<&Trial> =
                    of_load.iter().copied().filter(|trial| trial.place.stage < at).collect();
                let scores = scores(spec, &live, &before);
                live = halving::promote_safe(&scores, stage.cells, |cell| !is_dangerous(spec, design, cell));
            }
            reached.push(live.clone());
            for block in 0..stage.blocks {
                walk(spec, design, &live, &of_load, (load, at, block), &mut progress);
            }
        }
        progress.stages.push(reached);
        // Each load has its share of the budget, so that the last one is not what a slow one costs. Time
        // alone decides, no figure does.
        let spent: f64 = of_load.iter().map(|trial| trial.seconds).sum();
        let share = spec.budget.map(|budget| budget.as_secs_f64() / loads as f64);
        if share.is_some_and(|share| spent >= share) {
            progress.cut += progress.left - left;
            (progress.next, progress.left) = (next, left);
        }
    }
    progress
}

/// One block: the first of its trials that has no figure yet is next, unless another is already.
fn walk(
    spec: &Spec,
    design: &Design,
    live: &[usize],
    trials: &[&Trial],
    (load, stage, block): (usize, usize, u32),
    progress: &mut Progress,
) {
    for (position, run) in order(spec, design, live, (load, stage, block)).into_iter().enumerate() {
        let here = |trial: &&&Trial| {
            let TrialSlot { stage: s, block: b, position: p, .. } = trial.place;
            (s, b, p) == (stage, block, position)
        };
        let attempts: Vec<&&Trial> = trials.iter().filter(here).collect();
        let settled = attempts.iter().any(|trial| !matches!(trial.outcome, Outcome::Void { .. }));
        let attempt = attempts.len() as u32;
        if settled || attempt >= ATTEMPTS || dead(trials).contains(&cell(run)) {
            continue;
        }
        progress.left += 1;
        let place = TrialSlot { load, stage, block, position, attempt };
        let slow_before =
            attempts.iter().any(|trial| matches!(trial.outcome, Outcome::Void { slow: true, .. }));
        progress.next.get_or_insert(Next { place, run, slow_before });
    }
}

/// The runs of a block, by their positions.
fn order(
    spec: &Spec,
    design: &Design,
    live: &[usize],
    (load, stage, block): (usize, usize, u32),
) -> Vec<Run> {
    let words = [spec.seed, load as u64, stage as u64, u64::from(block)];
    let mut seed = [0; 32];
    for (bytes, word) in seed.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let mut rng = StdRng::from_seed(seed);
    order::block(&design.cells, live, &spec.factors, &design.baseline, &mut rng)
}

/// The first trial that is not what stands at its place, and what does: another version wrote it, whose order
/// was another. Gone on with, some cells would be run twice and others never.
pub fn misplaced<'a>(
    spec: &Spec,
    design: &Design,
    possible: &[usize],
    trials: &'a [Trial],
) -> Option<(&'a Trial, Option<Run>)> {
    let (stages, reached) = (stages(spec, possible.len()), progress(spec, design, possible, trials).stages);
    trials.iter().find_map(|trial| {
        let TrialSlot { load, stage, block, position, .. } = trial.place;
        let is_there = stages.get(stage).is_some_and(|stage| block < stage.blocks);
        let live = reached.get(load).and_then(|reached| reached.get(stage)).filter(|_| is_there);
        let here =
            live.and_then(|live| order(spec, design, live, (load, stage, block)).get(position).copied());
        (here != Some(trial.run)).then_some((trial, here))
    })
}

/// Whether a cell has a level that can lose data, be it the baseline's. Where the danger lies in the change
/// (`sql_mode`), the baseline's level has none.
pub fn is_dangerous(spec: &Spec, design: &Design, cell: usize) -> bool {
    let nowhere = Host::new("/nowhere");
    let levels = design.cells[cell].iter().zip(&design.baseline).zip(&spec.factors);
    // A dangerous level is not tried unless its factor says so.
    levels.into_iter().filter(|(_, factor)| factor.danger).any(|((level, base), factor)| {
        let Ok(name) = name::parse(&nowhere, &factor.knob) else { return level != base };
        let can_lose = catalogue::danger(&name, &factor.levels[*level]).is_some();
        can_lose && (level != base || catalogue::is_by_value(&name))
    })
}

fn cell(run: Run) -> Option<usize> {
    match run {
        Run::Cell(cell) => Some(cell),
        Run::LeadIn | Run::Baseline | Run::Same => None,
    }
}

/// Cells that were refused or given up.
fn dead(trials: &[&Trial]) -> BTreeSet<Option<usize>> {
    let over = |trial: &&&Trial| matches!(trial.outcome, Outcome::Refused { .. } | Outcome::GivenUp { .. });
    trials.iter().filter(over).filter_map(|trial| cell(trial.run)).map(Some).collect()
}

/// The mean log ratio of each cell over all blocks so far, turned so that more is better.
fn scores(spec: &Spec, live: &[usize], trials: &[&Trial]) -> Vec<(usize, Option<f64>)> {
    let dead = dead(trials);
    let score = |cell: usize| {
        let pairs = pairs(trials, None, Run::Cell(cell));
        let sum: f64 = pairs.iter().map(|(one, base)| (one / base).ln()).sum();
        let known = !pairs.is_empty() && !dead.contains(&Some(cell));
        known.then(|| spec.metric.good().score(sum / pairs.len() as f64))
    };
    live.iter().map(|cell| (*cell, score(*cell))).collect()
}

/// Stage and block; the figure of a run, and the mean of the block's baselines.
pub type Pair = ((usize, u32), (f64, f64));

/// The figure of a run beside the mean of its block's baselines, for each block that has both. Of one stage,
/// or of all.
pub fn pairs(trials: &[&Trial], stage: Option<usize>, run: Run) -> Vec<(f64, f64)> {
    pairs_by_block(trials, stage, run).into_iter().map(|(_, pair)| pair).collect()
}

/// The same, each with its stage and block.
pub fn pairs_by_block(trials: &[&Trial], stage: Option<usize>, run: Run) -> Vec<Pair> {
    let wanted = |place: &TrialSlot| stage.is_none_or(|stage| place.stage == stage);
    let blocks: BTreeSet<(usize, u32)> = trials
        .iter()
        .filter(|trial| wanted(&trial.place))
        .map(|trial| (trial.place.stage, trial.place.block))
        .collect();
    let figures = |block: (usize, u32), run: Run| -> Vec<f64> {
        let here = |trial: &&&Trial| (trial.place.stage, trial.place.block) == block && trial.run == run;
        trials.iter().filter(here).filter_map(|trial| trial.outcome.figure()).collect()
    };
    let pair = |block: (usize, u32)| {
        let base = figures(block, Run::Baseline);
        // The geometric mean: what is compared is ratios.
        let logs: f64 = base.iter().map(|figure| figure.ln()).sum();
        let mean = (!base.is_empty()).then(|| (logs / base.len() as f64).exp())?;
        Some((block, (*figures(block, run).first()?, mean)))
    };
    blocks.into_iter().filter_map(pair).filter(|(_, pair)| paired(&[*pair, *pair]).is_some()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Factor;
    use crate::store::tests::{EXAMPLE, measured, trial};

    fn scene() -> (Spec, Design, Vec<usize>) {
        let spec = Spec::parse(EXAMPLE, "t.toml").unwrap_or_else(|wrong| panic!("{wrong}"));
        let design = crate::design::design(&spec.factors, &spec.constraints, spec.design).unwrap();
        let possible = (0..design.cells.len()).collect();
        (spec, design, possible)
    }

    /// Runs everything; `outcome` says what comes of each.
    fn all(outcome: impl Fn(Next) -> Outcome) -> (Vec<Trial>, Progress) {
        let (spec, design, possible) = scene();
        let mut trials = Vec::new();
        loop {
            let progress = progress(&spec, &design, &possible, &trials);
            match progress.next {
                None => return (trials, progress),
                Some(next) => trials.push(trial(next, outcome(next))),
            }
            assert!(trials.len() < 1_000, "it does not end");
        }
    }

    fn better(run: Run) -> Outcome {
        measured(match run {
            Run::Cell(2) => 200.0,
            Run::Cell(at) => 90.0 + at as f64,
            // What is unlike the rest counts for nothing.
            Run::LeadIn => 50.0,
            Run::Baseline | Run::Same => 100.0,
        })
    }

    #[test]
    fn every_stage_has_its_blocks_and_the_better_cells_go_on() {
        let (trials, done) = all(|next| better(next.run));
        // 4 cells once with 4 beside them, then 2 cells in 3 blocks.
        assert_eq!((trials.len(), done.left), (8 + 3 * 6, 0));
        assert_eq!(done.stages, [[vec![0, 1, 2, 3], vec![2, 3]]]);
        assert_eq!(trials[0].run, Run::LeadIn, "each block begins with it");
    }

    #[test]
    fn what_is_left_is_known_before_and_falls_to_nothing() {
        let (spec, design, possible) = scene();
        let begun = progress(&spec, &design, &possible, &[]);
        assert_eq!(begun.left, 26);
        let (trials, _) = all(|next| better(next.run));
        for count in 0..trials.len() {
            let progress = progress(&spec, &design, &possible, &trials[..count]);
            assert_eq!(progress.left, 26 - count);
            assert_eq!(progress.next.map(|next| next.place), Some(trials[count].place), "it goes on there");
            assert_eq!(misplaced(&spec, &design, &possible, &trials[..count]), None);
        }
    }

    #[test]
    fn each_load_has_its_share_of_the_budget() {
        let text = EXAMPLE.replace("threads = [4]", "threads = [4, 8]").replacen(
            "[load]",
            "budget = \"20s\"\n[load]",
            1,
        );
        let spec = Spec::parse(&text, "t.toml").unwrap_or_else(|wrong| panic!("{wrong}"));
        let (_, design, possible) = scene();
        let mut trials = Vec::new();
        let end = loop {
            let progress = progress(&spec, &design, &possible, &trials);
            match progress.next {
                None => break progress,
                // A second each.
                Some(next) => trials.push(trial(next, better(next.run))),
            }
        };
        let of = |load| trials.iter().filter(|trial| trial.place.load == load).count();
        assert_eq!((of(0), of(1), end.cut, end.left), (10, 10, 32, 0));
        assert_eq!(misplaced(&spec, &design, &possible, &trials), None);
    }

    #[test]
    fn lines_of_an_order_that_is_not_ours_are_found() {
        let (spec, design, possible) = scene();
        let (trials, _) = all(|next| match next.run {
            Run::Cell(0) => Outcome::void("late".to_owned()),
            Run::Cell(2) if next.place.stage == 1 => Outcome::GivenUp { why: "slow".to_owned() },
            run => better(run),
        });
        let found = |trials: &[Trial]| {
            misplaced(&spec, &design, &possible, trials).map(|(trial, here)| (trial.place.position, here))
        };
        assert_eq!(found(&trials), None, "void and given up trials are part of the order");
        // Two trials of the first block the other way round: what stands before a baseline, and it.
        let (trials, _) = all(|next| better(next.run));
        let mut other = trials.clone();
        (other[1].run, other[2].run) = (trials[2].run, trials[1].run);
        assert_ne!(trials[1].run, trials[2].run);
        assert_eq!(found(&other), Some((1, Some(trials[1].run))));
        // A block more than there is, and a stage.
        for (stage, block) in [(0, 1), (2, 0)] {
            let mut other = trials[..1].to_vec();
            (other[0].place.stage, other[0].place.block) = (stage, block);
            assert_eq!(found(&other), Some((0, None)), "{stage} {block}");
        }
    }

    #[test]
    fn a_void_trial_is_tried_once_more_and_a_refused_cell_never_again() {
        let void = || Outcome::void("late".to_owned());
        let (trials, done) = all(|next| match next.run {
            Run::Cell(0) => void(),
            Run::Cell(2) => Outcome::Refused { why: "no".to_owned() },
            run => better(run),
        });
        let of = |cell| trials.iter().filter(|trial| trial.run == Run::Cell(cell)).count();
        assert_eq!((of(0), of(2)), (2, 1));
        assert_eq!(done.stages[0][1], [3, 1], "neither has a figure");
    }

    #[test]
    fn a_cell_is_held_against_the_baselines_of_its_own_block() {
        let (trials, _) = all(|next| match (next.run, next.place.block) {
            (Run::LeadIn, _) => measured(7.0),
            (Run::Baseline, block) => measured(100.0 * f64::from(block + 1)),
            (_, block) => measured(110.0 * f64::from(block + 1)),
        });
        let trials: Vec<&Trial> = trials.iter().collect();
        let pairs = pairs(&trials, Some(1), Run::Same);
        assert_eq!(pairs.len(), 3);
        assert!(pairs.iter().all(|(one, base)| (one / base - 1.1).abs() < 1e-9), "{pairs:?}");
    }

    #[test]
    fn a_cell_that_keeps_a_dangerous_level_of_the_baseline_can_lose_data_and_one_that_leaves_it_cannot() {
        // With the factor at its baseline and another one changed; with the factor changed alone.
        let dangerous = |knob: &str, levels: [&str; 2]| {
            let (mut spec, _, _) = scene();
            let factor = |knob: &str, levels: [&str; 2], danger| {
                let (knob, levels) = (knob.to_owned(), levels.map(str::to_owned).to_vec());
                Factor { knob, levels, baseline: 0, whole_plot: false, danger }
            };
            spec.factors = vec![factor(knob, levels, true), factor("server.b", ["0", "1"], false)];
            let design = crate::design::design(&spec.factors, &[], spec.design).unwrap();
            let at = |levels: [usize; 2]| design.cells.iter().position(|cell| *cell == levels).unwrap();
            [at([0, 1]), at([1, 0])].map(|cell| is_dangerous(&spec, &design, cell))
        };
        let flush = "server.innodb_flush_log_at_trx_commit";
        assert_eq!(dangerous(flush, ["2", "1"]), [true, false]);
        assert_eq!(dangerous(flush, ["1", "2"]), [false, true]);
        assert_eq!(dangerous(flush, ["2", "0"]), [true, true]);
        assert_eq!(dangerous("file_system.type@server", ["as-it-is", "xfs"]), [false, true]);
    }
}
