//! What each factor does on average over the others, and which pairs do more or less together than apart:
//! least squares on the log ratios of the first stage, in which every cell stands once and none was chosen.
//!
//! A column for each level beside the baseline's, centred; for two factors their product. So a factor's
//! figure is its mean over the levels of all others, not its effect at the baseline alone. Not of cells in
//! which one level at a time is changed: there it would be the cell's own figure.
//!
//! *Mixed.* Half of the cells of three factors tell a factor from no pair of the other two, half of those of
//! four no pair from the pair of the other two: both are in one figure. Such figures are withheld, and named.
//!
//! *Blocks.* What its baselines happened to be is the same for all runs of a block: of several blocks each
//! has a mean of its own.
//!
//! *Whole plots.* A factor that takes a restart is the same for all runs of a plot (see `order.rs`), and
//! what a restart does to them by itself (a cold cache, another layout of memory) is the same for all of
//! them, too. Its unit is the plot, not the run: 40 runs after one restart are one figure. So what varies
//! within plots is fitted with a mean for each plot, and then, with that taken off, the plots' means are
//! fitted by blocks and what varies between them (a split-plot analysis). With fewer than two degrees of
//! freedom of the plots its effect has an estimate, and neither interval nor verdict.
//!
//! Example: two levels, one block. That is two plots, a mean and a difference: nothing is left to judge it
//! by. Three blocks are six plots less three blocks and one difference: two degrees of freedom.

use crate::design::Levels;
use crate::order::Run;
use crate::run::Experiment;
use crate::schedule::pairs_by_block;
use crate::spec::Kind;
use crate::store::Trial;
use crate::verdict::{Verdict, verdicts};
use plan::regression::{dependencies, estimates, fit};
use plan::{Effect, Interval};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Fewer degrees of freedom than this are left to the residuals: then pairs are not looked at.
const SPARE: usize = 8;
/// Fewer degrees of freedom of the plots than this judge nothing: the t of one is 12.7.
const PLOTS: u32 = 2;
/// Means of a column that are nearer to zero than this are zero.
const ROUNDING: f64 = 1e-9;

#[derive(Clone, Debug, Serialize)]
pub struct Effects {
    pub main: Vec<FactorEffect>,
    /// The strongest first; empty where the design or the number of cells does not tell them apart.
    pub pairs: Vec<PairEffect>,
    /// Factors and pairs without a figure, because the cells do not tell them from others.
    pub mixed: Vec<Mixture>,
    /// Trials that it is made of.
    pub trials: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct FactorEffect {
    pub knob: String,
    pub from: String,
    pub to: String,
    /// The figure at `to` over that at `from`, as a mean over all else.
    pub estimate: f64,
    /// How sure that is.
    #[serde(flatten)]
    pub standing: FactorStanding,
}

/// A factor's level or a pair that the cells do not tell from others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mixture {
    pub what: String,
    pub with: Vec<String>,
}

/// What can be said of a factor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "standing", rename_all = "snake_case")]
pub enum FactorStanding {
    Judged {
        /// The estimate with its 95 % interval.
        ratio: Interval,
        p_differs: f64,
        /// Of all factors as one family (Holm).
        verdict: Verdict,
    },
    /// It takes a restart, and there were too few of them to know by how much restarts differ by themselves.
    TooFewRestarts,
}

impl FactorStanding {
    /// The 95 % interval, if there is one.
    pub fn ratio(&self) -> Option<Interval> {
        match self {
            Self::Judged { ratio, .. } => Some(*ratio),
            Self::TooFewRestarts => None,
        }
    }

    /// Why it is not known whether the factor does anything by itself; `None` if that is known.
    pub fn doubt(&self) -> Option<&'static str> {
        match self {
            Self::Judged { verdict: Verdict::Undecided, .. } | Self::TooFewRestarts => {
                Some(crate::text::factor_standing(self))
            }
            Self::Judged { .. } => None,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct PairEffect {
    pub one: (String, String),
    pub other: (String, String),
    /// Both together over what the two would be by themselves.
    pub ratio: Interval,
    pub p_differs: f64,
}

/// A level beside the baseline's: factor and level.
type Column = (usize, usize);

/// Of one load's trials.
pub fn effects(experiment: &Experiment, trials: &[&Trial]) -> Option<Effects> {
    let spec = &experiment.spec;
    if spec.design == Kind::OneAtATime {
        return None;
    }
    let first: Vec<&Trial> = trials.iter().copied().filter(|trial| trial.place.stage == 0).collect();
    let runs = experiment.possible.iter().map(|cell| Run::Cell(*cell)).chain([Run::Same]);
    let mut rows = Rows::default();
    for run in runs {
        for (block, (figure, baseline)) in pairs_by_block(&first, Some(0), run) {
            rows.levels.push(experiment.levels(run).clone());
            rows.blocks.push(block);
            rows.values.push((figure / baseline).ln());
        }
    }
    let columns: Vec<Column> = (0..spec.factors.len())
        .flat_map(|factor| (0..spec.factors[factor].levels.len()).map(move |level| (factor, level)))
        .filter(|(factor, level)| *level != spec.factors[*factor].baseline)
        .collect();
    let centred: Vec<Vec<f64>> = columns.iter().map(|column| rows.centred(*column)).collect();
    let whole = |at: usize| spec.factors[columns[at].0].whole_plot;
    let plots = rows.plots(|factor| spec.factors[factor].whole_plot);
    let inside: Vec<usize> = (0..columns.len()).filter(|at| !whole(*at)).collect();
    let all = (0..columns.len()).flat_map(|a| (a + 1..columns.len()).map(move |b| (a, b)));
    let all: Vec<(usize, usize)> = all.filter(|(a, b)| columns[*a].0 != columns[*b].0).collect();
    let mut couples: Vec<(usize, usize)> = Vec::new();
    if !matches!(spec.design, Kind::PlackettBurman { .. }) {
        // A pair of two that are the same within a plot is no matter of single runs.
        couples.extend(all.iter().copied().filter(|(a, b)| !(whole(*a) && whole(*b))));
    }
    if rows.values.len() < plots.len() + inside.len() + couples.len() + SPARE {
        couples.clear();
    }
    // Half of the cells mix what they mix, whether there are enough runs to look at pairs or not.
    let terms = Terms { columns: &columns, couples: if spec.design == Kind::Half { &all } else { &couples } };
    let mixed = rows.mixtures(&terms);
    let product = |(a, b): &(usize, usize), at: usize| centred[*a][at] * centred[*b][at];
    let within: Vec<Vec<f64>> = (0..rows.values.len())
        .map(|at| {
            let plot = plots.iter().map(|plot| f64::from(u8::from(plot.contains(&at))));
            let own = inside.iter().map(|column| centred[*column][at]);
            plot.chain(own).chain(couples.iter().map(|couple| product(couple, at))).collect()
        })
        .collect();
    let fitted = fit(&within, &rows.values).map(|fit| fit.estimates).unwrap_or_default();
    let (own, both) = fitted.get(plots.len()..).unwrap_or_default().split_at_checked(inside.len())?;
    let single: Vec<(usize, Effect)> =
        inside.iter().zip(own).filter_map(|(column, effect)| Some((*column, (*effect)?))).collect();
    // What is known within plots is taken off before the plots are compared: they need not be balanced.
    let rest: Vec<f64> = (0..rows.values.len())
        .map(|at| {
            let own: f64 = single.iter().map(|(column, effect)| effect.log_mean * centred[*column][at]).sum();
            let both = couples
                .iter()
                .zip(both)
                .map(|(couple, effect)| effect.map_or(0.0, |effect| effect.log_mean * product(couple, at)));
            rows.values[at] - own - both.sum::<f64>()
        })
        .collect();
    let between: Vec<usize> =
        (0..columns.len()).filter(|at| single.iter().all(|(known, _)| known != at)).collect();
    let mut known: Vec<(usize, Estimate)> =
        single.into_iter().map(|(column, effect)| (column, Estimate::Judged(effect))).collect();
    known.extend(compare_plots(&plots, &rows.blocks, &rest, &between, &centred));
    known.retain(|(column, _)| !mixed.contains_key(&Term::Main(*column)));
    known.sort_by_key(|(column, _)| *column);
    let name = |(factor, level): Column| {
        let factor = &spec.factors[factor];
        (factor.knob.clone(), factor.levels[level].clone())
    };
    let family: Vec<Effect> = known.iter().filter_map(|(_, estimate)| estimate.judged()).collect();
    let mut verdicts = verdicts(&family, spec.metric.good(), spec.smallest_effect, spec.level).into_iter();
    let of_factor = |(column, estimate): &(usize, Estimate)| {
        let column = columns[*column];
        let (knob, to) = name(column);
        let from = name((column.0, spec.factors[column.0].baseline)).1;
        let (estimate, standing) = match estimate {
            Estimate::Alone(log) => (log.exp(), FactorStanding::TooFewRestarts),
            Estimate::Judged(effect) => {
                let (ratio, p_differs, verdict) = (effect.ratio(0.95), effect.p_differs(), verdicts.next()?);
                (ratio.estimate, FactorStanding::Judged { ratio, p_differs, verdict })
            }
        };
        Some(FactorEffect { knob, from, to, estimate, standing })
    };
    let main = known.iter().filter_map(of_factor).collect();
    let of_pair = |((a, b), effect): (&(usize, usize), &Option<Effect>)| {
        let effect = (*effect).filter(|_| !mixed.contains_key(&Term::Pair(*a, *b)))?;
        let (one, other) = (name(columns[*a]), name(columns[*b]));
        Some(PairEffect { one, other, ratio: effect.ratio(0.95), p_differs: effect.p_differs() })
    };
    let mut pairs: Vec<PairEffect> = couples.iter().zip(both).filter_map(of_pair).collect();
    pairs.sort_by(|a, b| a.p_differs.total_cmp(&b.p_differs));
    let words = |term: &Term| {
        let one = |column: usize| {
            let (knob, level) = name(columns[column]);
            format!("{knob}={level}")
        };
        match *term {
            Term::Main(column) => one(column),
            Term::Pair(a, b) => format!("{} with {}", one(a), one(b)),
        }
    };
    let mixture = |(term, with): (&Term, &Vec<Term>)| Mixture {
        what: words(term),
        with: with.iter().map(words).collect(),
    };
    let mixed = mixed.iter().map(mixture).collect();
    Some(Effects { main, pairs, mixed, trials: rows.values.len() })
}

/// What may have a figure: a column, or the product of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Term {
    Main(usize),
    Pair(usize, usize),
}

/// The columns, and the couples of them that are looked at.
struct Terms<'a> {
    columns: &'a [Column],
    couples: &'a [(usize, usize)],
}

/// The runs: their levels, their stage and block, the log of their ratio to the block's baselines.
#[derive(Default)]
struct Rows {
    levels: Vec<Levels>,
    blocks: Vec<(usize, u32)>,
    values: Vec<f64>,
}

impl Rows {
    /// 1 where that level is set and 0 elsewhere, less its mean.
    fn centred(&self, (factor, level): Column) -> Vec<f64> {
        let on = self.levels.iter().map(|cell| f64::from(u8::from(cell[factor] == level)));
        let on: Vec<f64> = on.collect();
        let mean = on.iter().sum::<f64>() / on.len() as f64;
        on.into_iter().map(|on| on - mean).collect()
    }

    /// Terms that these runs do not tell apart: each that a fit would give a figure, with those that are in
    /// that figure, too.
    fn mixtures(&self, terms: &Terms<'_>) -> BTreeMap<Term, Vec<Term>> {
        let levels_of =
            |factor: usize| self.levels.iter().map(|cell| cell[factor]).collect::<BTreeSet<usize>>();
        let ran = |column: usize| {
            let (factor, level) = terms.columns[column];
            let levels = levels_of(factor);
            levels.len() > 1 && levels.contains(&level)
        };
        let mains = (0..terms.columns.len()).filter(|column| ran(*column)).map(Term::Main);
        let pairs = terms.couples.iter().filter(|(a, b)| ran(*a) && ran(*b)).map(|(a, b)| Term::Pair(*a, *b));
        let all: Vec<Term> = mains.chain(pairs).collect();
        // Not centred by the runs: a run that is void must not seem to mix what the design tells apart.
        let on = |cell: &Levels, column: usize| {
            let (factor, level) = terms.columns[column];
            f64::from(u8::from(cell[factor] == level)) - 1.0 / levels_of(factor).len() as f64
        };
        let cells: BTreeSet<&Levels> = self.levels.iter().collect();
        let row = |cell: &&Levels| {
            let value = |term: &Term| match *term {
                Term::Main(column) => on(cell, column),
                Term::Pair(a, b) => on(cell, a) * on(cell, b),
            };
            [1.0].into_iter().chain(all.iter().map(value)).collect::<Vec<f64>>()
        };
        let rows: Vec<Vec<f64>> = cells.iter().map(row).collect();
        let mut mixed: BTreeMap<Term, Vec<Term>> = BTreeMap::new();
        let found = dependencies(&rows).unwrap_or_default();
        for (at, follows) in found.iter().enumerate() {
            // The first is the mean.
            for of in follows.iter().filter(|of| **of > 0) {
                mixed.entry(all[of - 1]).or_default().push(all[at - 1]);
            }
        }
        mixed
    }

    /// The runs of each plot: those of a block that share all levels of such factors; without, each block.
    fn plots(&self, is_whole: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
        let mut plots: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        for (at, (levels, block)) in self.levels.iter().zip(&self.blocks).enumerate() {
            let mut key: Vec<usize> = (0..levels.len()).filter(|factor| is_whole(*factor)).collect();
            key.iter_mut().for_each(|factor| *factor = levels[*factor]);
            key.extend([block.0, block.1 as usize]);
            plots.entry(key).or_default().push(at);
        }
        plots.into_values().collect()
    }
}

/// An effect's log, with its error where there is enough to tell it.
enum Estimate {
    Judged(Effect),
    Alone(f64),
}

impl Estimate {
    fn judged(&self) -> Option<Effect> {
        match self {
            Self::Judged(effect) => Some(*effect),
            Self::Alone(_) => None,
        }
    }
}

/// What differs between plots, from their means; blocks may differ by themselves.
fn compare_plots(
    plots: &[Vec<usize>],
    blocks: &[(usize, u32)],
    values: &[f64],
    columns: &[usize],
    centred: &[Vec<f64>],
) -> Vec<(usize, Estimate)> {
    let all: BTreeSet<(usize, u32)> = blocks.iter().copied().collect();
    let mean = |of: &[f64], plot: &[usize]| plot.iter().map(|at| of[*at]).sum::<f64>() / plot.len() as f64;
    let row = |plot: &Vec<usize>| -> Vec<f64> {
        let block = all.iter().map(|block| f64::from(u8::from(blocks[plot[0]] == *block)));
        let own = columns.iter().map(|column| mean(&centred[*column], plot));
        // What is the same in all plots is zero but for rounding, and must not be divided by.
        block.chain(own.map(|one| if one.abs() < ROUNDING { 0.0 } else { one })).collect()
    };
    let rows: Vec<Vec<f64>> = plots.iter().map(row).collect();
    let means: Vec<f64> = plots.iter().map(|plot| mean(values, plot)).collect();
    let judged = fit(&rows, &means).filter(|fit| fit.degrees >= PLOTS);
    let estimates: Vec<Option<Estimate>> = match judged {
        Some(fit) => fit.estimates.into_iter().map(|one| one.map(Estimate::Judged)).collect(),
        None => {
            let logs = estimates(&rows, &means).unwrap_or_default();
            logs.into_iter().map(|one| one.map(Estimate::Alone)).collect()
        }
    };
    let of_columns = estimates.into_iter().skip(all.len());
    columns.iter().zip(of_columns).filter_map(|(column, one)| Some((*column, one?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Next;
    use crate::spec::Spec;
    use crate::store::tests::{measured, trial};

    #[test]
    fn a_factor_and_a_pair_that_do_something_are_found_and_the_others_are_near_one() {
        let mut text =
            "name = \"t\"\nmetric = \"throughput\"\n[load]\nworkload = \"w\"\nthreads = [4]\n".to_owned();
        for knob in ["a", "b", "c", "d", "e"] {
            text.push_str(&format!("[[factor]]\nknob = \"server.{knob}\"\nlevels = [\"0\", \"1\"]\n"));
        }
        let experiment = Experiment::new(Spec::parse(&text, "t.toml").unwrap(), &[]).unwrap();
        let mut trials = Vec::new();
        for position in 0..experiment.design.cells.len() + 3 {
            let run = run_at(position);
            let cell = experiment.levels(run);
            let noise = 1.0 + (position * 7 % 11) as f64 / 2_000.0;
            let ratio = if cell[0] == 1 { 1.3 } else { 1.0 } * if cell[1] + cell[2] == 2 { 1.2 } else { 1.0 };
            let place = crate::schedule::TrialSlot { load: 0, stage: 0, block: 0, position, attempt: 0 };
            trials.push(trial(Next { place, run, slow_before: false }, measured(100.0 * ratio * noise)));
        }
        let trials: Vec<&Trial> = trials.iter().collect();
        let found = effects(&experiment, &trials).unwrap();
        let near = |estimate: f64, truth: f64| (estimate / truth - 1.0).abs() < 0.01;
        assert!(near(found.main[0].estimate, 1.3) && near(found.main[3].estimate, 1.0), "{found:?}");
        assert_eq!(verdict(&found.main[0]), Some(Verdict::Better));
        assert_eq!(verdict(&found.main[3]), Some(Verdict::Equivalent));
        let first = &found.pairs[0];
        assert_eq!((first.one.0.as_str(), first.other.0.as_str()), ("server.b", "server.c"));
        assert!(near(first.ratio.estimate, 1.2), "{first:?}");
        // On average over c it is half of what it is with it.
        assert!(near(found.main[1].estimate, 1.2_f64.sqrt()), "{found:?}");
    }

    /// What stands at a position of a block: two baselines, an equal one, then the cells.
    fn run_at(position: usize) -> Run {
        match position {
            0 | 1 => Run::Baseline,
            2 => Run::Same,
            _ => Run::Cell(position - 3),
        }
    }

    fn verdict(one: &FactorEffect) -> Option<Verdict> {
        match one.standing {
            FactorStanding::Judged { verdict, .. } => Some(verdict),
            FactorStanding::TooFewRestarts => None,
        }
    }

    /// A full design of a factor that takes a restart and three others, in a number of blocks. Nothing does
    /// anything but the second factor; each restart shifts all runs until the next by what `shift` says.
    fn with_restarts(blocks: u32, shift: impl Fn(u32, usize) -> f64) -> Effects {
        let mut text = "name = \"t\"\nmetric = \"throughput\"\n[load]\nworkload = \"w\"\nthreads = [4]\n\
             [design]\nkind = \"full\"\n"
            .to_owned();
        for knob in ["a", "b", "c", "d"] {
            let whole = if knob == "a" { "whole_plot = true\n" } else { "" };
            text.push_str(&format!("[[factor]]\n{whole}knob = \"server.{knob}\"\nlevels = [\"0\", \"1\"]\n"));
        }
        let experiment = Experiment::new(Spec::parse(&text, "t.toml").unwrap(), &[]).unwrap();
        let mut trials = Vec::new();
        for block in 0..blocks {
            for position in 0..experiment.design.cells.len() + 3 {
                let run = run_at(position);
                let cell = experiment.levels(run);
                let noise = 1.0 + ((position * 7 + block as usize * 5) % 11) as f64 / 2_000.0;
                let plot = if run == Run::Baseline { 1.0 } else { shift(block, cell[0]) };
                let ratio = if cell[1] == 1 { 1.3 } else { 1.0 } * plot;
                let place = crate::schedule::TrialSlot { load: 0, stage: 0, block, position, attempt: 0 };
                trials.push(trial(Next { place, run, slow_before: false }, measured(100.0 * ratio * noise)));
            }
        }
        let trials: Vec<&Trial> = trials.iter().collect();
        effects(&experiment, &trials).unwrap()
    }

    #[test]
    fn what_one_restart_shifts_is_no_verdict_on_the_factor_that_took_it() {
        for blocks in [1, 2] {
            let found = with_restarts(blocks, |_, level| if level == 1 { 1.2 } else { 1.0 });
            let [a, b, c, _] = &found.main[..] else { panic!("{found:?}") };
            assert!((a.estimate / 1.2 - 1.0).abs() < 0.01, "{a:?}");
            assert_eq!(a.standing, FactorStanding::TooFewRestarts);
            assert_eq!(verdict(b), Some(Verdict::Better), "single runs judge the others");
            assert_eq!(verdict(c), Some(Verdict::Equivalent));
            let both = |pair: &PairEffect| [pair.one.0.as_str(), pair.other.0.as_str()].contains(&"server.a");
            // One block has too few runs to tell pairs.
            assert_eq!(found.pairs.iter().any(both), blocks == 2, "{found:?}");
        }
    }

    #[test]
    fn restarts_that_differ_by_themselves_leave_their_factor_undecided_and_those_that_agree_decide_it() {
        let scattered =
            |block: u32, level: usize| if level == 1 { [1.3, 0.9, 1.2][block as usize] } else { 1.0 };
        let found = with_restarts(3, scattered);
        assert_eq!(verdict(&found.main[0]), Some(Verdict::Undecided), "{found:?}");
        assert_eq!(verdict(&found.main[1]), Some(Verdict::Better), "{found:?}");
        let found = with_restarts(3, |_, level| if level == 1 { 1.3 } else { 1.0 });
        assert_eq!(verdict(&found.main[0]), Some(Verdict::Better), "{found:?}");
    }

    #[test]
    fn what_the_baselines_of_a_block_happened_to_be_moves_no_effect() {
        let mut text = "name = \"t\"\nmetric = \"throughput\"\n[load]\nworkload = \"w\"\nthreads = [4]\n\
             [design]\nkind = \"full\"\n"
            .to_owned();
        for knob in ["a", "b", "c"] {
            text.push_str(&format!("[[factor]]\nknob = \"server.{knob}\"\nlevels = [\"0\", \"1\"]\n"));
        }
        let experiment = Experiment::new(Spec::parse(&text, "t.toml").unwrap(), &[]).unwrap();
        let mut trials = Vec::new();
        for (block, baseline) in [(0, 1.0), (1, 1.6), (2, 0.7)] {
            for position in 0..experiment.design.cells.len() + 3 {
                let run = run_at(position);
                let cell = experiment.levels(run);
                // Some are void there: the levels of a factor are not equally often in that block.
                if block == 1 && cell[0] == 1 && cell[1] == 1 {
                    continue;
                }
                let noise = 1.0 + ((position * 7 + block as usize * 5) % 11) as f64 / 2_000.0;
                let ratio = match run {
                    Run::Baseline => baseline,
                    _ if cell[0] == 1 => 1.05 * noise,
                    _ => noise,
                };
                let place = crate::schedule::TrialSlot { load: 0, stage: 0, block, position, attempt: 0 };
                trials.push(trial(Next { place, run, slow_before: false }, measured(100.0 * ratio)));
            }
        }
        let found = effects(&experiment, &trials.iter().collect::<Vec<_>>()).unwrap();
        assert!((found.main[0].estimate / 1.05 - 1.0).abs() < 0.005, "{found:?}");
        let verdicts: Vec<Option<Verdict>> = found.main.iter().map(verdict).collect();
        let (better, equivalent) = (Some(Verdict::Better), Some(Verdict::Equivalent));
        assert_eq!(verdicts, [better, equivalent, equivalent], "{found:?}");
    }

    /// The first block of a half design, in which `ratio` says what a cell does.
    fn half(knobs: &[&str], ratio: impl Fn(&Levels) -> f64) -> Effects {
        let mut text = "name = \"t\"\nmetric = \"throughput\"\n[load]\nworkload = \"w\"\nthreads = [4]\n\
             [design]\nkind = \"half\"\n"
            .to_owned();
        for knob in knobs {
            text.push_str(&format!("[[factor]]\nknob = \"server.{knob}\"\nlevels = [\"0\", \"1\"]\n"));
        }
        let experiment = Experiment::new(Spec::parse(&text, "t.toml").unwrap(), &[]).unwrap();
        let mut trials = Vec::new();
        for block in 0..4 {
            for position in 0..experiment.design.cells.len() + 3 {
                let run = run_at(position);
                let noise = 1.0 + ((position * 7 + block as usize * 5) % 11) as f64 / 2_000.0;
                let figure = 100.0 * noise * ratio(experiment.levels(run));
                let place = crate::schedule::TrialSlot { load: 0, stage: 0, block, position, attempt: 0 };
                trials.push(trial(Next { place, run, slow_before: false }, measured(figure)));
            }
        }
        effects(&experiment, &trials.iter().collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn what_half_of_the_cells_does_not_tell_apart_is_withheld_and_named() {
        // Of three factors each is mixed with the pair of the other two; here a pair does something.
        let found = half(&["a", "b", "c"], |cell| if cell[1] + cell[2] == 2 { 1.3 } else { 1.0 });
        assert!(found.main.is_empty() && found.pairs.is_empty(), "{found:?}");
        let a =
            Mixture { what: "server.a=1".to_owned(), with: vec!["server.b=1 with server.c=1".to_owned()] };
        assert!(found.mixed.contains(&a), "{found:?}");

        // Of four each factor is told, and no pair is.
        let found = half(&["a", "b", "c", "d"], |cell| if cell[0] == 1 { 1.3 } else { 1.0 });
        assert_eq!(found.main.len(), 4, "{found:?}");
        assert_eq!(verdict(&found.main[0]), Some(Verdict::Better));
        assert!(found.pairs.is_empty() && found.mixed.len() == 3, "{found:?}");
        let with = &found.mixed[0];
        assert_eq!(with.what, "server.a=1 with server.b=1");
        assert_eq!(with.with, ["server.c=1 with server.d=1"]);

        let found = half(&["a", "b", "c", "d", "e"], |_| 1.0);
        assert!(found.mixed.is_empty() && found.main.len() == 5 && found.pairs.len() == 10, "{found:?}");
    }
}
