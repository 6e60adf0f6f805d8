//! Experiments on hosts that do not exist, with noise that was measured: what the method says where nothing
//! differs, what it finds where something does, what halving costs. The truth is known here, and nowhere
//! else.
//!
//! A trial's figure is `level * ratio * exp(drift * position) * exp(e)`: the level changes from block to
//! block, the host drifts within one, and `e` is drawn from residuals that were seen, so that tails are as
//! long as they are.

use crate::halving::{Stage, promote};
use crate::order::{Run, block};
use crate::run::Experiment;
use crate::store::Trial;
use crate::verdict::{Good, Verdict, is_void, verdicts};
use plan::comparison::paired;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand_distr::{Distribution, Normal};
use serde::{Deserialize, Serialize};

/// How a host differs from itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Log residuals of trials of the same settings within a block, as they were seen, of mean 0.
    pub within: Vec<f64>,
    /// Standard deviation of the log of a block's level.
    pub between: f64,
    /// Change of the log from the start of a block to its end.
    pub drift: f64,
}

impl Noise {
    /// Normal noise of that standard deviation, as quantiles.
    pub fn normal(within: f64, between: f64) -> Self {
        let residuals = (1..200).map(|at| within * plan::student::quantile(f64::from(at) / 200.0, 1e6));
        Self { within: residuals.collect(), between, drift: 0.0 }
    }

    /// What the baselines and A/A cells of an experiment show: within their blocks, and from block to block.
    /// `None` with fewer than six blocks that have two of them.
    pub fn of(experiment: &Experiment, trials: &[Trial]) -> Option<Self> {
        let mut blocks: std::collections::BTreeMap<(usize, usize, u32), Vec<(usize, f64)>> =
            Default::default();
        for trial in trials.iter().filter(|trial| matches!(trial.run, Run::Baseline | Run::Same)) {
            if let Some(figure) = trial.outcome.figure() {
                let place = trial.place;
                let block = blocks.entry((place.load, place.stage, place.block)).or_default();
                block.push((place.position, figure.ln()));
            }
        }
        blocks.retain(|_, trials| trials.len() > 1);
        if blocks.len() < 6 {
            return None;
        }
        let (mut within, mut drifts) = (Vec::new(), Vec::new());
        let mut levels = vec![Vec::new(); experiment.spec.load.points().len()];
        for ((load, ..), trials) in &blocks {
            let n = trials.len() as f64;
            let mean = trials.iter().map(|(_, log)| log).sum::<f64>() / n;
            // A mean of few lies near them all; this makes up for it.
            let scale = (n / (n - 1.0)).sqrt();
            within.extend(trials.iter().map(|(_, log)| (log - mean) * scale));
            let (first, last) = (trials[0], trials[trials.len() - 1]);
            drifts.push(last.1 - first.1);
            if let Some(levels) = levels.get_mut(*load) {
                levels.push(mean);
            }
        }
        let between: Vec<f64> = levels.iter().filter(|one| one.len() > 1).map(|one| deviation(one)).collect();
        Some(Self { within, between: mean(&between), drift: mean(&drifts) })
    }

    /// Standard deviation of a trial within its block.
    pub fn within_deviation(&self) -> f64 {
        let n = self.within.len().max(1) as f64;
        (self.within.iter().map(|one| one * one).sum::<f64>() / n).sqrt()
    }
}

/// A host on which each cell has a true ratio to the baseline.
#[derive(Debug)]
pub struct Host<'a> {
    pub truth: Vec<f64>,
    pub noise: &'a Noise,
    pub rng: StdRng,
}

/// What an experiment said.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The cells of the last stage.
    pub cells: Vec<(usize, Verdict)>,
    /// Whether its A/A cell differed.
    pub void: bool,
    /// How many of the last stage's 95 % intervals hold the truth.
    pub covered: usize,
    pub best: usize,
    /// Trials of cells, without baselines.
    pub trials: usize,
}

/// The smallest effect of interest and the share of experiments that may be wrong.
const MARGIN: f64 = 0.03;
const LEVEL: f64 = 0.05;

impl Host<'_> {
    /// The figures of one block: each live cell's beside the baselines' mean; the A/A cell is `None`.
    pub fn block(&mut self, live: &[usize]) -> Vec<(Option<usize>, (f64, f64))> {
        let cells: Vec<Vec<usize>> = (0..self.truth.len()).map(|at| vec![at + 1]).collect();
        let order = block(&cells, live, &[], &vec![0], &mut self.rng);
        let length = order.len().max(1) as f64;
        let level = Normal::new(0.0, self.noise.between).map_or(0.0, |levels| levels.sample(&mut self.rng));
        let (mut baselines, mut figures) = (Vec::new(), Vec::new());
        for (position, run) in order.into_iter().enumerate() {
            let (cell, ratio) = match run {
                Run::Cell(at) => (Some(at), self.truth[at]),
                Run::Baseline | Run::Same => (None, 1.0),
            };
            let residual = self.noise.within.choose(&mut self.rng).copied().unwrap_or_default();
            let log = level + self.noise.drift * position as f64 / length + residual;
            let figure = 5_000.0 * ratio * log.exp();
            if run == Run::Baseline { baselines.push(figure.ln()) } else { figures.push((cell, figure)) }
        }
        let baseline = mean(&baselines).exp();
        figures.into_iter().map(|(cell, figure)| (cell, (figure, baseline))).collect()
    }

    /// A whole experiment of these stages.
    pub fn experiment(&mut self, stages: &[Stage]) -> Finding {
        let mut live: Vec<usize> = (0..self.truth.len()).collect();
        let mut scores = vec![Vec::new(); self.truth.len()];
        let (mut last, mut trials) = (Vec::new(), 0);
        for (at, stage) in stages.iter().enumerate() {
            if at > 0 {
                let score = |cell: &usize| (*cell, (!scores[*cell].is_empty()).then(|| mean(&scores[*cell])));
                live = promote(&live.iter().map(score).collect::<Vec<_>>(), stage.cells);
            }
            last.clear();
            for _ in 0..stage.blocks {
                let figures = self.block(&live);
                trials += live.len();
                for (cell, (figure, baseline)) in &figures {
                    if let Some(cell) = cell {
                        scores[*cell].push((figure / baseline).ln());
                    }
                }
                last.push(figures);
            }
        }
        let of = |wanted: Option<usize>| -> Vec<(f64, f64)> {
            last.iter().flatten().filter(|(cell, _)| *cell == wanted).map(|(_, pair)| *pair).collect()
        };
        let judged: Vec<_> =
            live.iter().filter_map(|cell| Some((*cell, paired(&of(Some(*cell)))?))).collect();
        let effects: Vec<_> = judged.iter().map(|(_, effect)| *effect).collect();
        let said = verdicts(&effects, Good::More, MARGIN, LEVEL);
        let covers = |(cell, effect): &&(usize, plan::Effect)| {
            let ratio = effect.ratio(0.95);
            (ratio.low..=ratio.high).contains(&self.truth[*cell])
        };
        let best = judged.iter().max_by(|a, b| a.1.log_mean.total_cmp(&b.1.log_mean));
        Finding {
            void: paired(&of(None)).is_some_and(|same| is_void(&same, LEVEL)),
            covered: judged.iter().filter(covers).count(),
            best: best.map(|(cell, _)| *cell).unwrap_or_default(),
            cells: judged.iter().map(|(cell, _)| *cell).zip(said).collect(),
            trials,
        }
    }

    /// The best of all cells in that many blocks each: what halving saves.
    pub fn best_of_all(&mut self, blocks: u32) -> usize {
        let all: Vec<usize> = (0..self.truth.len()).collect();
        let mut scores = vec![0.0; self.truth.len()];
        for _ in 0..blocks {
            for (cell, (figure, baseline)) in self.block(&all) {
                if let Some(cell) = cell {
                    scores[cell] += (figure / baseline).ln();
                }
            }
        }
        (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap_or_default()
    }
}

/// A landscape in which most settings do little, some do harm, and a few help.
pub fn landscape(cells: usize, rng: &mut impl Rng) -> Vec<f64> {
    let effect = Normal::new(-0.02, 0.08);
    (0..cells).map(|_| effect.as_ref().map_or(1.0, |effect| f64::exp(effect.sample(rng)))).collect()
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn deviation(values: &[f64]) -> f64 {
    let middle = mean(values);
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    (squares / (values.len().max(2) - 1) as f64).sqrt()
}
