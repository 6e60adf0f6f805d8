//! Experiments on hosts that do not exist, with noise that was measured: what the method says where nothing
//! differs, what it finds where something does, what halving costs. The truth is known here, and nowhere
//! else.
//!
//! Noise comes in two kinds. *Played*: the logs of trials of the same settings, in the order in which they
//! were measured. A simulated block begins anywhere in the series and takes what follows, so that it has the
//! tails, the drift and the autocorrelation that were seen. It may also begin where a measured block began,
//! which keeps the settling after a reset; but then what the first trials of a few blocks happened to show
//! counts as if it were always so. *Drawn*: a level for each block, a drift within it, and residuals in any
//! order; for what is assumed, and to see what the order matters.

use crate::halving::{Stage, promote};
use crate::order::{Run, block};
use crate::run::Experiment;
use crate::store::Trial;
use crate::verdict::{Good, Verdict, is_confirmed, is_void, of_the_best, verdicts};
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
    /// Logs of trials of the same settings in the order in which they ran, as deviations from their mean.
    #[serde(default)]
    pub series: Vec<f64>,
    /// Where in the series blocks began.
    #[serde(default)]
    pub starts: Vec<usize>,
}

/// How noise becomes figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Play {
    /// The series, each block from anywhere in it.
    Anywhere,
    /// The series, each block from the start of a measured one.
    Blocks,
    /// Residuals in any order.
    Drawn,
}

impl Noise {
    /// Normal noise of that standard deviation, as quantiles.
    pub fn normal(within: f64, between: f64) -> Self {
        let residuals = (1..200).map(|at| within * plan::student::quantile(f64::from(at) / 200.0, 1e6));
        Self { within: residuals.collect(), between, drift: 0.0, series: Vec::new(), starts: Vec::new() }
    }

    /// What trials of the same settings show: the baselines and A/A cells of an experiment, or all its trials
    /// where its cells are `identical`. Only then there is a series. `None` with fewer than six blocks that
    /// have two of them.
    pub fn of(experiment: &Experiment, trials: &[Trial], identical: bool) -> Option<Self> {
        let mut blocks: std::collections::BTreeMap<(usize, usize, u32), Vec<(usize, f64)>> =
            Default::default();
        let alike = |trial: &&Trial| match trial.run {
            Run::LeadIn => false,
            Run::Baseline | Run::Same => true,
            Run::Cell(_) => identical,
        };
        for trial in trials.iter().filter(alike) {
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
        let (mut series, mut starts) = (Vec::new(), Vec::new());
        // One load alone: another has another level.
        for (_, trials) in blocks.iter().filter(|((load, ..), _)| identical && *load == 0) {
            starts.push(series.len());
            series.extend(trials.iter().map(|(_, log)| log));
        }
        let middle = mean(&series);
        series.iter_mut().for_each(|log| *log -= middle);
        let between: Vec<f64> = levels.iter().filter(|one| one.len() > 1).map(|one| deviation(one)).collect();
        Some(Self { within, between: mean(&between), drift: mean(&drifts), series, starts })
    }

    /// Standard deviation of a trial within its block.
    pub fn within_deviation(&self) -> f64 {
        let n = self.within.len().max(1) as f64;
        (self.within.iter().map(|one| one * one).sum::<f64>() / n).sqrt()
    }

    /// What the series shows of itself; `None` without one.
    pub fn shape(&self) -> Option<Shape> {
        let n = self.series.len();
        if n < 12 || self.starts.len() < 3 {
            return None;
        }
        let deviation = deviation(&self.series).max(f64::MIN_POSITIVE);
        let neighbours = self.series.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / (n - 1) as f64;
        let fourth = self.series.iter().map(|one| (one / deviation).powi(4)).sum::<f64>() / n as f64;
        // How far the first trial of each block is from the rest of it.
        let ends = self.starts.iter().skip(1).copied().chain([n]);
        let firsts: Vec<f64> = self
            .starts
            .iter()
            .zip(ends)
            .map(|(start, end)| self.series[*start] - mean(&self.series[start + 1..end]))
            .collect();
        let log_error = deviation_of_mean(&firsts);
        let effect = plan::Effect { log_mean: mean(&firsts), log_error, blocks: firsts.len() as u32 };
        Some(Shape {
            trials: n,
            deviation,
            neighbours: neighbours / deviation.powi(2),
            excess_kurtosis: fourth - 3.0,
            widest: self.series.iter().fold(0.0, |most: f64, one| most.max(one.abs())) / deviation,
            first: effect.ratio(0.95),
        })
    }
}

/// How a series of trials of the same settings looks.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Shape {
    pub trials: usize,
    /// Standard deviation of the log, with the changes from block to block.
    pub deviation: f64,
    /// Correlation of a trial with the next.
    pub neighbours: f64,
    /// 0 for a normal distribution; more is longer tails.
    pub excess_kurtosis: f64,
    /// The farthest trial, in standard deviations.
    pub widest: f64,
    /// The first trial of a block over the others of it.
    pub first: plan::Interval,
}

/// A host on which each cell has a true ratio to the baseline.
#[derive(Debug)]
pub struct Host<'a> {
    truth: Vec<f64>,
    noise: &'a Noise,
    play: Play,
    rng: StdRng,
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
    /// Whether the interval of the winner, which allows for its being the best, holds the truth; `None` if no
    /// cell is confirmed better.
    pub winner_covered: Option<bool>,
    /// Trials of cells, without baselines.
    pub trials: usize,
}

/// The smallest effect of interest and the share of experiments that may be wrong.
const MARGIN: f64 = 0.03;
const LEVEL: f64 = 0.05;

impl<'a> Host<'a> {
    /// Plays the series, if there is one.
    pub fn new(truth: Vec<f64>, noise: &'a Noise, rng: StdRng) -> Self {
        Self { truth, noise, play: Play::Anywhere, rng }
    }

    #[must_use]
    pub fn play(mut self, play: Play) -> Self {
        self.play = play;
        self
    }

    /// The logs of the noise of a block, trial by trial.
    fn logs(&mut self, length: usize) -> Vec<f64> {
        let Noise { within, between, drift, series, starts } = self.noise;
        let start = match self.play {
            Play::Blocks => starts.choose(&mut self.rng).copied(),
            Play::Anywhere if !series.is_empty() => Some(self.rng.random_range(0..series.len())),
            Play::Anywhere | Play::Drawn => None,
        };
        if let Some(start) = start {
            // Past its end it begins anew.
            return (start..start + length).map(|at| series[at % series.len()]).collect();
        }
        let level = Normal::new(0.0, *between).map_or(0.0, |levels| levels.sample(&mut self.rng));
        let log = |position: usize| {
            let residual = within.choose(&mut self.rng).copied().unwrap_or_default();
            level + drift * position as f64 / length.max(1) as f64 + residual
        };
        (0..length).map(log).collect()
    }

    /// The figures of one block: each live cell's beside the baselines' mean; the A/A cell is `None`.
    pub fn block(&mut self, live: &[usize]) -> Vec<(Option<usize>, (f64, f64))> {
        let cells: Vec<Vec<usize>> = (0..self.truth.len()).map(|at| vec![at + 1]).collect();
        let mut order = block(&cells, live, &[], &vec![0], &mut self.rng);
        order.retain(|run| *run != Run::LeadIn);
        let logs = self.logs(order.len());
        let (mut baselines, mut figures) = (Vec::new(), Vec::new());
        for (run, log) in order.into_iter().zip(logs) {
            let (cell, ratio) = match run {
                Run::Cell(at) => (Some(at), self.truth[at]),
                Run::LeadIn | Run::Baseline | Run::Same => (None, 1.0),
            };
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
        let confirmed = judged
            .iter()
            .zip(&said)
            .filter(|(one, said)| **said == Verdict::Better && is_confirmed(&one.1, judged.len(), LEVEL));
        let winner = confirmed.map(|(one, _)| one).max_by(|a, b| a.1.log_mean.total_cmp(&b.1.log_mean));
        let winner_covered = winner.map(|(cell, effect)| {
            let ratio = of_the_best(effect, judged.len(), LEVEL);
            (ratio.low..=ratio.high).contains(&self.truth[*cell])
        });
        Finding {
            winner_covered,
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

fn deviation_of_mean(values: &[f64]) -> f64 {
    deviation(values) / (values.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn a_block_plays_what_followed_the_start_of_a_measured_block() {
        let series: Vec<f64> = (0..30).map(|at| f64::from(at) / 100.0).collect();
        let noise = Noise { series: series.clone(), starts: vec![0, 10, 20], ..Noise::normal(0.01, 0.0) };
        let mut host = Host::new(vec![1.0; 4], &noise, StdRng::seed_from_u64(1)).play(Play::Blocks);
        for _ in 0..50 {
            let logs = host.logs(7);
            let start = (logs[0] * 100.0).round() as usize;
            assert!([0, 10, 20].contains(&start), "{logs:?}");
            assert_eq!(logs, series[start..start + 7]);
        }
        assert_eq!(host.logs(40).len(), 40, "a longer block begins anew at the end");
        let mut anywhere = Host::new(vec![], &noise, StdRng::seed_from_u64(1));
        let starts: Vec<usize> = (0..50).map(|_| (anywhere.logs(1)[0] * 100.0).round() as usize).collect();
        assert!(starts.iter().any(|start| start % 10 != 0), "{starts:?}");
    }

    #[test]
    fn the_shape_of_a_series_names_a_slow_first_trial_and_neighbours_that_are_alike() {
        // Each block of ten begins 10 % low; the rest alternates.
        let block = (0..10).map(|at| if at == 0 { -0.1 } else { 0.01 * f64::from(at % 2 * 2 - 1) });
        let series: Vec<f64> = block.cycle().take(80).collect();
        let starts = (0..8).map(|at| at * 10).collect();
        let noise = Noise { series, starts, ..Noise::normal(0.01, 0.0) };
        let shape = noise.shape().unwrap();
        assert!(shape.first.high < 0.92 && shape.first.low > 0.88, "{shape:?}");
        assert!(shape.neighbours < 0.0 && shape.excess_kurtosis > 3.0 && shape.widest > 2.5, "{shape:?}");
        assert!(Noise::normal(0.01, 0.0).shape().is_none());
    }
}
