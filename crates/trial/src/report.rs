//! What came of an experiment, as values: for the page, JSON, CSV and the terminal alike.
//!
//! Only the last stage is published with an interval and a verdict: its blocks do not share the luck by which
//! its cells were chosen. Verdicts are given when all is run or the time is over, not before: whoever looks
//! after each block and stops when it looks good finds too much.

use crate::effects::{Effects, FactorEffect, effects};
use crate::figures::{Figures, Moment, course, measured};
use crate::halving::Stage;
use crate::order::Run;
use crate::run::{Assignment, Experiment};
use crate::schedule::{self, pairs};
use crate::snippet::snippet;
use crate::spec::{HOST, Metric, Point};
use crate::store::{History, Measured, Outcome, RefusedLevel, Trial};
use crate::verdict::{Verdict, is_confirmed, is_void, of_the_best, verdicts};
use knob::Host;
use knob::server::is_same_value;
use plan::comparison::paired;
use plan::quantile::{median, sorted};
use plan::{Effect, Interval};
use serde::Serialize;
use std::collections::BTreeMap;

/// Of intervals.
const CONFIDENCE: f64 = 0.95;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub name: String,
    /// What cells are judged by.
    pub metric: Metric,
    /// Less than this is of no interest.
    pub smallest_effect: f64,
    /// Share of experiments that may be wrong.
    pub level: f64,
    pub seed: u64,
    pub server: String,
    /// On what: this machine, the version of each server, and what is sent, in words.
    pub setup: Vec<(String, String)>,
    /// Whether figures of the host are those of the machine that sends, not of the server's.
    pub elsewhere: bool,
    /// The version of the program.
    pub version: String,
    /// When it was begun, seconds since 1970.
    pub begun: u64,
    /// Time of all trials, seconds.
    pub seconds: f64,
    /// Trials that were run.
    pub trials: usize,
    pub left: usize,
    /// Whether it is over; else nothing is judged.
    pub ended: bool,
    /// Whether all of it was run.
    pub complete: bool,
    pub stages: Vec<Stage>,
    /// The baseline: knob and value.
    pub baseline: Vec<(String, String)>,
    /// Levels that could not be set here.
    pub refused: Vec<RefusedLevel>,
    /// Knobs that were not as before in the end: knob, then, now. `None` until it is over.
    pub differ: Option<Vec<(String, String, String)>>,
    /// Each load, an experiment of its own.
    pub loads: Vec<LoadReport>,
    /// The spec, to repeat it.
    pub spec: String,
}

impl Report {
    /// Whether it is over, everything was seen to be as it was before, and no load is void.
    pub fn is_sound(&self) -> bool {
        let as_before = self.differ.as_ref().is_some_and(Vec::is_empty);
        self.ended && as_before && self.loads.iter().all(|load| !load.void)
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct LoadReport {
    pub point: Point,
    pub words: String,
    /// The middle of all of the baseline's figures.
    pub baseline: Option<f64>,
    /// The least and the greatest of them.
    pub baseline_range: Option<(f64, f64)>,
    /// Noise of a trial: how far the two baselines of a block are apart, as a share.
    pub noise: Option<f64>,
    pub same: Option<Same>,
    /// Whether the A/A cell shows an effect: then nothing here counts.
    pub void: bool,
    /// Void trials: what was run, and why they do not count.
    pub void_trials: Vec<(String, String)>,
    /// Trials whose warm-up did not become steady.
    pub unsteady: usize,
    /// Trials whose warm-up had too few transactions to tell whether it became steady.
    pub undetermined: usize,
    /// The baseline after everything, over the middle of before.
    pub back: Option<f64>,
    /// Whether that lies outside of what the baseline was before.
    pub back_differs: bool,
    /// The baseline's figures over all of its trials.
    pub baseline_run: Figures,
    /// What each factor does; `None` where the design does not tell.
    pub effects: Option<Effects>,
    /// The baseline, then the cells of the last stage, the best first: second by second.
    pub courses: Vec<(String, Vec<Moment>)>,
    /// The cells, the best first.
    pub cells: Vec<CellReport>,
    /// The best cell whose interval, wider for its being the best of several, excludes no effect.
    pub winner: Option<Winner>,
    /// The best confirmed cell that cannot lose data, where the winner can.
    pub safe: Option<Winner>,
}

impl LoadReport {
    /// Whether any cell was compared with the baseline: else it is not known of any whether it is better.
    pub fn is_compared(&self) -> bool {
        self.cells.iter().any(|cell| matches!(cell.standing, Standing::Judged { .. }))
    }
}

/// The A/A cell, which differs in nothing.
#[derive(Clone, Debug, Serialize)]
pub struct Same {
    pub effect: Effect,
    pub ratio: Interval,
    /// How probable so large an effect is if there is none.
    pub p_differs: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct CellReport {
    pub cell: usize,
    /// In what it differs from the baseline.
    pub settings: Vec<(String, String)>,
    /// What can be said of it.
    #[serde(flatten)]
    pub standing: Standing,
    /// Its effect in the last stage.
    pub effect: Option<Effect>,
    /// As a ratio to the baseline.
    pub ratio: Option<Interval>,
    /// The mean ratio over all stages so far; of a cell that was dropped it is no finding.
    pub seen: Option<f64>,
    #[serde(flatten)]
    pub run: Figures,
    /// Its figures: stage, block, figure.
    pub figures: Vec<(usize, u32, f64)>,
}

/// What can be said of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "standing", rename_all = "snake_case")]
pub enum Standing {
    /// Compared in the last stage.
    Judged { verdict: Verdict },
    /// Others were better in a stage.
    Dropped {
        /// Which, from 0.
        stage: usize,
    },
    /// A setting was refused.
    Refused { why: String },
    /// A guard broke it off.
    GivenUp { why: String },
    /// It has too few figures.
    TooFew,
    /// The experiment is not over.
    UnderWay,
}

#[derive(Clone, Debug, Serialize)]
pub struct Winner {
    pub cell: usize,
    pub settings: Vec<(String, String)>,
    /// Whether a setting of it can lose data.
    pub dangerous: bool,
    /// Its figure over the baseline's, with an interval that allows for its being the best of several.
    pub ratio: Interval,
    /// How sure the interval is, as a share; all cells' together are as sure as that.
    pub confidence: f64,
    /// Cells that were compared in the last stage.
    pub compared: usize,
    /// Lines to set it for good, with what the baseline changed.
    pub snippet: String,
}

pub fn report(experiment: &Experiment, history: &History) -> Report {
    let spec = &experiment.spec;
    let History { begun, trials, ended, .. } = history;
    let progress = schedule::progress(spec, &experiment.design, &experiment.possible, trials);
    let over = ended.is_some() || progress.next.is_none();
    let loads = spec.load.points().into_iter().enumerate().map(|(at, point)| {
        let of_load: Vec<&Trial> = trials.iter().filter(|trial| trial.place.load == at).collect();
        let back = ended.as_ref().and_then(|ended| *ended.back.get(at)?);
        let reached = progress.stages.get(at).map_or(&[][..], Vec::as_slice);
        of_one_load(experiment, point, &of_load, reached, over, back, &begun.start)
    });
    let baseline =
        spec.factors.iter().map(|factor| (factor.knob.clone(), factor.levels[factor.baseline].clone()));
    Report {
        name: spec.name.clone(),
        metric: spec.metric,
        smallest_effect: spec.smallest_effect,
        level: spec.level,
        seed: spec.seed,
        server: begun.server.clone(),
        setup: begun.setup.clone(),
        elsewhere: begun.elsewhere,
        version: begun.version.clone(),
        begun: begun.at,
        seconds: trials.iter().map(|trial| trial.seconds).sum(),
        trials: trials.len(),
        left: progress.left,
        ended: over,
        complete: progress.next.is_none() && progress.cut == 0,
        stages: schedule::stages(spec, experiment.possible.len()),
        baseline: baseline.collect(),
        refused: begun.refused.clone(),
        differ: ended.as_ref().map(|ended| ended.differ.clone()),
        loads: loads.collect(),
        spec: history.spec.clone(),
    }
}

fn of_one_load(
    experiment: &Experiment,
    point: Point,
    trials: &[&Trial],
    reached: &[Vec<usize>],
    over: bool,
    back: Option<f64>,
    start: &BTreeMap<String, String>,
) -> LoadReport {
    let spec = &experiment.spec;
    let last = schedule::stages(spec, experiment.possible.len()).len().saturating_sub(1);
    let same = paired(&pairs(trials, Some(last), Run::Same)).map(|effect| Same {
        effect,
        ratio: effect.ratio(CONFIDENCE),
        p_differs: effect.p_differs(),
    });
    let void = over && same.as_ref().is_some_and(|same| is_void(&same.effect, spec.level));
    let mut cells: Vec<CellReport> = (0..experiment.design.cells.len())
        .map(|cell| of_one_cell(experiment, cell, trials, reached, last, over))
        .collect();
    judge(experiment, &mut cells, over);
    let good = spec.metric.good();
    cells.sort_by(|a, b| {
        let key = |cell: &CellReport| {
            let judged = matches!(cell.standing, Standing::Judged { .. });
            let score = cell.effect.map(|effect| effect.log_mean).or(cell.seen.map(f64::ln));
            (judged, score.map_or(f64::MIN, |log| good.score(log)))
        };
        let ((a_judged, a_score), (b_judged, b_score)) = (key(a), key(b));
        b_judged.cmp(&a_judged).then(b_score.total_cmp(&a_score)).then(a.cell.cmp(&b.cell))
    });
    let effects = effects(experiment, trials);
    let remark = |knob: &str, value: &str| {
        let of_level = |one: &&FactorEffect| one.knob == knob && one.to == value;
        effects.iter().flat_map(|effects| &effects.main).find(of_level)?.standing.doubt()
    };
    let compared = cells.iter().filter(|cell| cell.effect.is_some()).count();
    let better = cells.iter().filter(|_| !void).filter_map(|cell| {
        let better = cell.standing == Standing::Judged { verdict: Verdict::Better };
        let confirmed = |effect: &Effect| better && is_confirmed(effect, compared, spec.level);
        let (settings, effect) = (cell.settings.clone(), cell.effect.filter(confirmed)?);
        let (ratio, confidence) = (of_the_best(&effect, compared, spec.level), 1.0 - spec.level);
        let dangerous = schedule::is_dangerous(spec, &experiment.design, cell.cell);
        let snippet = snippet(&Host::new("/"), &for_good(experiment, cell, start), remark);
        Some(Winner { cell: cell.cell, settings, dangerous, ratio, confidence, compared, snippet })
    });
    let better: Vec<Winner> = better.collect();
    let winner = better.first().cloned();
    let safe = better.into_iter().find(|one| !one.dangerous);
    let safe = safe.filter(|safe| winner.as_ref().is_some_and(|winner| winner.cell != safe.cell));
    let base = sorted(
        trials.iter().filter(|one| one.run == Run::Baseline).filter_map(|one| one.outcome.figure()).collect(),
    );
    let (baseline, range) = (median(&base), base.first().copied().zip(base.last().copied()));
    let beyond = |figure: f64| {
        range.is_some_and(|(low, high)| {
            figure < low / (1.0 + spec.smallest_effect) || figure > high * (1.0 + spec.smallest_effect)
        })
    };
    let voided = trials.iter().filter_map(|trial| match &trial.outcome {
        Outcome::Void { why, .. } => Some((experiment.words(trial.run), why.clone())),
        _ => None,
    });
    let warmed_up = |steady: Option<bool>| {
        trials.iter().filter_map(|trial| measured(trial)).filter(|one| one.steady == steady).count()
    };
    LoadReport {
        point,
        words: point.words(),
        baseline,
        baseline_range: range,
        noise: noise(trials),
        same,
        void,
        void_trials: voided.collect(),
        unsteady: warmed_up(Some(false)),
        undetermined: warmed_up(None),
        back: back.zip(baseline).map(|(back, before)| back / before),
        back_differs: back.is_some_and(beyond),
        baseline_run: Figures::of(trials, Run::Baseline),
        effects,
        courses: courses(&cells, trials, last),
        cells,
        winner,
        safe,
    }
}

/// What a cell sets, and what its baseline sets otherwise than it was at the start: the cell was measured
/// with all of that in force.
fn for_good(
    experiment: &Experiment,
    cell: &CellReport,
    start: &BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let hosts = &experiment.spec.hosts;
    let is_so = |value: &str, then: &str| {
        let on_each = hosts.iter().map(|host| format!("{value} on {}", host.name)).collect::<Vec<_>>();
        if hosts.is_empty() { is_same_value(value, then) } else { on_each.join(", ") == then }
    };
    let is_meant = |one: &Assignment| {
        let own = cell.settings.iter().any(|(knob, _)| *knob == one.knob);
        own || (one.knob != HOST && start.get(&one.knob).is_some_and(|then| !is_so(&one.value, then)))
    };
    let all = experiment.assignments(Run::Cell(cell.cell));
    all.into_iter().filter(is_meant).map(|one| (one.knob, one.value)).collect()
}

/// The baseline's and those of the cells that came to the last stage.
fn courses(cells: &[CellReport], trials: &[&Trial], last: usize) -> Vec<(String, Vec<Moment>)> {
    let judged = cells.iter().filter(|cell| cell.ratio.is_some());
    let runs = judged.map(|cell| (crate::text::settings(&cell.settings), Run::Cell(cell.cell)));
    let all = std::iter::once(("baseline".to_owned(), Run::Baseline)).chain(runs);
    all.map(|(name, run)| (name, course(trials, last, run)))
        .filter(|(_, course)| !course.is_empty())
        .collect()
}

/// How far the two baselines of a block are apart: the standard deviation of the log of one trial.
fn noise(trials: &[&Trial]) -> Option<f64> {
    let mut squares = Vec::new();
    for (at, trial) in trials.iter().enumerate().filter(|(_, trial)| trial.run == Run::Baseline) {
        let block = |other: &Trial| (other.place.stage, other.place.block);
        let other = trials[at + 1..].iter().find(|other| {
            other.run == Run::Baseline
                && block(other) == block(trial)
                && other.place.position != trial.place.position
                // One that was void at first was run again.
                && other.outcome.figure().is_some()
        });
        if let Some((one, two)) = trial.outcome.figure().zip(other.and_then(|other| other.outcome.figure())) {
            squares.push((one / two).ln().powi(2) / 2.0);
        }
    }
    (!squares.is_empty()).then(|| (squares.iter().sum::<f64>() / squares.len() as f64).sqrt().exp_m1())
}

fn of_one_cell(
    experiment: &Experiment,
    cell: usize,
    trials: &[&Trial],
    reached: &[Vec<usize>],
    last: usize,
    over: bool,
) -> CellReport {
    let run = Run::Cell(cell);
    let own: Vec<&&Trial> = trials.iter().filter(|trial| trial.run == run).collect();
    let effect = paired(&pairs(trials, Some(last), run));
    let all = pairs(trials, None, run);
    let logs: f64 = all.iter().map(|(one, base)| (one / base).ln()).sum();
    let dropped = reached.iter().position(|cells| !cells.contains(&cell));
    let ended = own.iter().rev().find_map(|trial| match &trial.outcome {
        Outcome::Refused { why } => Some(Standing::Refused { why: why.clone() }),
        Outcome::GivenUp { why } => Some(Standing::GivenUp { why: why.clone() }),
        _ => None,
    });
    let standing = match (ended, dropped) {
        (Some(ended), _) => ended,
        (None, _) if !experiment.possible.contains(&cell) => {
            Standing::Refused { why: "a level of it cannot be set here".to_owned() }
        }
        (None, Some(stage)) if stage > 0 => Standing::Dropped { stage: stage - 1 },
        _ if !over => Standing::UnderWay,
        // The verdict comes when all cells are known.
        _ => Standing::TooFew,
    };
    CellReport {
        cell,
        settings: experiment.settings(run),
        effect: effect.filter(|_| standing == Standing::TooFew),
        ratio: effect.filter(|_| standing == Standing::TooFew).map(|effect| effect.ratio(CONFIDENCE)),
        seen: (!all.is_empty()).then(|| (logs / all.len() as f64).exp()),
        standing,
        run: Figures::of(trials, run),
        figures: own
            .iter()
            .filter_map(|trial| Some((trial.place.stage, trial.place.block, trial.outcome.figure()?)))
            .collect(),
    }
}

/// Verdicts of all cells that have an effect, as one family.
fn judge(experiment: &Experiment, cells: &mut [CellReport], over: bool) {
    let spec = &experiment.spec;
    let family: Vec<Effect> = cells.iter().filter_map(|cell| cell.effect).collect();
    let verdicts = verdicts(&family, spec.metric.good(), spec.smallest_effect, spec.level);
    for (cell, verdict) in cells.iter_mut().filter(|cell| cell.effect.is_some()).zip(verdicts) {
        if over {
            cell.standing = Standing::Judged { verdict };
        }
    }
}

/// A line for each trial.
pub fn csv(experiment: &Experiment, history: &History) -> String {
    let mut text = "load,stage,block,position,attempt,run,settings,status,figure,per_second,p99_ms,failed,\
                    cpu,written_kib_per_transaction,steady,why\n"
        .to_owned();
    let points = experiment.spec.load.points();
    for trial in &history.trials {
        let place = &trial.place;
        let (status, why) = match &trial.outcome {
            Outcome::Measured(_) => ("measured", ""),
            Outcome::Refused { why } => ("refused", why.as_str()),
            Outcome::GivenUp { why } => ("given_up", why.as_str()),
            Outcome::Void { why, .. } => ("void", why.as_str()),
        };
        let run = match trial.run {
            Run::LeadIn => "lead_in".to_owned(),
            Run::Baseline => "baseline".to_owned(),
            Run::Same => "same".to_owned(),
            Run::Cell(cell) => cell.to_string(),
        };
        let settings = experiment.settings(trial.run);
        let settings: Vec<String> = settings.iter().map(|(knob, value)| format!("{knob}={value}")).collect();
        let figures = measured(trial).map_or_else(
            || ",,,,,,".to_owned(),
            |one| {
                let Measured { figure, window, host, steady, .. } = one;
                // Nothing where nobody can tell.
                let steady = steady.map_or_else(String::new, |steady| steady.to_string());
                format!(
                    "{figure},{},{},{},{},{},{steady}",
                    window.per_second, window.p99_ms, window.failed, host.cpu, host.written_kib
                )
            },
        );
        let load = points.get(place.load).map(|point| point.words()).unwrap_or_default();
        text.push_str(&format!(
            "{},{},{},{},{},{run},{},{status},{figures},{}\n",
            quoted(&load),
            place.stage,
            place.block,
            place.position,
            place.attempt,
            quoted(&settings.join(" ")),
            quoted(why),
        ));
    }
    text
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Next;
    use crate::spec::Spec;
    use crate::store::tests::{EXAMPLE, begun, measured, trial};
    use crate::store::{Begun, Ended};

    /// Everything run, with this ratio of each run to the baseline, and a little noise.
    fn history(of: impl Fn(Next) -> Outcome) -> (Experiment, History) {
        let experiment = Experiment::new(Spec::parse(EXAMPLE, "t.toml").unwrap(), &[]).unwrap();
        let mut trials: Vec<Trial> = Vec::new();
        while let Some(next) =
            schedule::progress(&experiment.spec, &experiment.design, &experiment.possible, &trials).next
        {
            trials.push(trial(next, of(next)));
        }
        let ended = Ended { at: 9, complete: true, differ: Vec::new(), back: vec![Some(100.0)] };
        (experiment, History { spec: EXAMPLE.to_owned(), begun: begun(), trials, ended: Some(ended) })
    }

    fn figure(next: Next, ratio: f64) -> Outcome {
        let noise = 1.0 + (next.place.position * 7 + next.place.block as usize * 3) as f64 % 5.0 / 1_000.0;
        measured(100.0 * ratio * noise)
    }

    fn plainly(next: Next) -> Outcome {
        figure(
            next,
            match next.run {
                Run::Cell(2) => 1.3,
                Run::Cell(1) => 1.0,
                Run::Cell(_) => 0.8,
                Run::LeadIn => 0.6,
                Run::Baseline | Run::Same => 1.0,
            },
        )
    }

    #[test]
    fn the_confirmed_winner_comes_first_with_its_interval_and_its_lines() {
        let (experiment, history) = history(plainly);
        let report = report(&experiment, &history);
        let load = &report.loads[0];
        assert!(report.ended && report.complete && !load.void && !load.back_differs, "{load:?}");
        assert!(report.is_sound() && crate::text::not_looked_at(&report).is_none());
        assert_eq!(load.cells[0].standing, Standing::Judged { verdict: Verdict::Better });
        assert_eq!(load.cells[1].standing, Standing::Judged { verdict: Verdict::Equivalent });
        assert_eq!(load.cells[2].standing, Standing::Dropped { stage: 0 });
        assert!(load.cells[2].ratio.is_none(), "what was dropped has no interval");
        let winner = load.winner.as_ref().unwrap();
        assert!(winner.ratio.low > 1.25 && winner.ratio.high < 1.35, "{winner:?}");
        let alone = load.cells[0].ratio.unwrap();
        assert_eq!((winner.compared, winner.ratio.estimate), (2, alone.estimate));
        assert!(
            winner.ratio.low < alone.low && winner.ratio.high > alone.high,
            "the best of two: {winner:?}"
        );
        assert_eq!(
            crate::text::confirmed(&report),
            "Confirmed on fresh blocks",
            "its two stages share no blocks"
        );
        let mut one_stage = report.clone();
        one_stage.stages.remove(0);
        assert_eq!(crate::text::confirmed(&one_stage), "Confirmed");
        let words = crate::text::winner_range(winner);
        assert!(words.contains("95 % for the best of 2 cells: +"), "{words}");
        assert!(winner.snippet.ends_with("[mysqld]\nb = 1\n"), "{}", winner.snippet);
    }

    #[test]
    fn the_lines_of_the_winner_have_what_its_baseline_changed_as_well() {
        let (experiment, mut history) = history(plainly);
        history.begun.start.insert("server.a".to_owned(), "9".to_owned());
        let found = report(&experiment, &history).loads[0].winner.clone().unwrap();
        assert_eq!(found.settings, [("server.b".to_owned(), "1".to_owned())]);
        assert!(found.snippet.ends_with("[mysqld]\na = 0\nb = 1\n"), "{}", found.snippet);
    }

    #[test]
    fn cells_that_nobody_has_compared_are_not_said_to_be_worth_nothing() {
        let said = |of: &dyn Fn(Next) -> Outcome| {
            let (experiment, history) = history(of);
            let report = report(&experiment, &history);
            crate::text::report(&report) + &crate::page::html(&report)
        };
        let alike = said(&|next| figure(next, 1.0));
        assert!(alike.contains("No cell is confirmed better") && alike.contains("Nothing here is worth"));
        let cut = said(&|next| match (next.run, next.place.stage) {
            (Run::Cell(_), 1) => Outcome::void("late".to_owned()),
            _ => figure(next, 1.0),
        });
        assert!(cut.contains("No cell was compared") && cut.contains("too few figures to be compared"));
        assert!(!cut.contains("confirmed better") && !cut.contains("Nothing here"), "{cut}");
    }

    #[test]
    fn a_cell_that_is_better_with_an_interval_that_holds_no_effect_is_not_the_winner() {
        // Five errors of two degrees of freedom: p = 0.038, enough at the second step of Holm alone.
        let (experiment, history) = history(|next| {
            let block = f64::from(next.place.block);
            match next.run {
                Run::Cell(2) => measured(100.0 * (0.3 + 0.104 * (block - 1.0)).exp()),
                Run::Cell(1) => measured(120.0 * (1.0 + block / 1_000.0)),
                Run::Cell(_) => measured(80.0),
                Run::LeadIn | Run::Baseline => measured(100.0),
                Run::Same => figure(next, 1.0),
            }
        });
        let report = report(&experiment, &history);
        let load = &report.loads[0];
        let better = Standing::Judged { verdict: Verdict::Better };
        assert_eq!((load.cells[0].cell, load.cells[0].standing.clone()), (2, better.clone()), "{load:?}");
        assert_eq!((load.cells[1].cell, load.cells[1].standing.clone()), (1, better), "{load:?}");
        let winner = load.winner.as_ref().unwrap();
        assert!(winner.cell == 1 && winner.ratio.low > 1.0, "{winner:?}");
    }

    #[test]
    fn a_baseline_that_was_void_at_first_tells_the_noise_as_well() {
        let at = |position, attempt, outcome| {
            let place = schedule::TrialSlot { load: 0, stage: 0, block: 0, position, attempt };
            trial(Next { place, run: Run::Baseline, slow_before: false }, outcome)
        };
        let void = Outcome::void("the hypervisor took 9 % of the CPU away".to_owned());
        let trials = [at(1, 0, measured(100.0)), at(3, 0, void), at(3, 1, measured(110.0))];
        let found = noise(&trials.iter().collect::<Vec<_>>()).unwrap();
        assert!((found - (1.1_f64.ln() / 2.0_f64.sqrt()).exp_m1()).abs() < 1e-9, "{found}");
    }

    #[test]
    fn an_a_a_cell_that_differs_leaves_no_winner() {
        let (experiment, history) = history(|next| match next.run {
            Run::Same => figure(next, 1.2),
            _ => plainly(next),
        });
        let report = report(&experiment, &history);
        assert!(report.loads[0].void && report.loads[0].winner.is_none());
    }

    #[test]
    fn settings_of_the_machine_that_sends_are_named_where_the_server_is_on_another() {
        let (experiment, history) = history(plainly);
        let mut report = report(&experiment, &history);
        report.baseline.push(("block.scheduler@vda".to_owned(), "none".to_owned()));
        let said = |report: &Report| crate::text::warnings(report, &report.loads[0]).join("\n");
        assert!(!said(&report).contains("block.scheduler"), "{}", said(&report));
        report.elsewhere = true;
        assert!(said(&report).starts_with("block.scheduler@vda: set on the machine"), "{}", said(&report));
    }

    #[test]
    fn a_baseline_that_could_not_be_measured_once_more_is_said() {
        let (experiment, mut history) = history(plainly);
        let said = |history: &History| {
            let report = report(&experiment, history);
            crate::text::warnings(&report, &report.loads[0]).join("\n")
        };
        assert!(!said(&history).contains("once more"), "{}", said(&history));
        history.ended = history.ended.map(|ended| Ended { back: vec![None], ..ended });
        assert!(said(&history).contains("is not known"), "{}", said(&history));
    }

    #[test]
    fn nothing_that_a_file_says_is_markup_on_the_page() {
        let odd = || "<script>".to_owned();
        let (experiment, mut history) = history(plainly);
        for trial in &mut history.trials {
            if let Outcome::Measured(measured) = &mut trial.outcome {
                measured.bottleneck = Some(odd());
            }
        }
        let level = RefusedLevel { knob: odd(), level: odd(), why: odd() };
        history.begun =
            Begun { server: odd(), version: odd(), elsewhere: true, refused: vec![level], ..history.begun };
        let mut report = report(&experiment, &history);
        (report.name, report.spec, report.setup) = (odd(), odd(), vec![(odd(), odd())]);
        report.differ = Some(vec![(odd(), odd(), odd())]);
        report.baseline = vec![(odd(), odd())];
        let page = crate::page::html(&report);
        assert!(!page.contains("<script>"), "{page}");
        assert!(page.contains("&lt;script&gt; <span class=\"soft\">("), "the bottleneck of a run: {page}");
    }

    #[test]
    fn nothing_is_judged_before_it_is_over() {
        let (experiment, mut history) = history(plainly);
        history.ended = None;
        history.trials.pop();
        let report = report(&experiment, &history);
        assert_eq!((report.ended, report.left), (false, 1));
        let load = &report.loads[0];
        assert!(load.winner.is_none() && !load.void);
        assert!(load.cells.iter().all(|cell| !matches!(cell.standing, Standing::Judged { .. })), "{load:?}");
    }

    #[test]
    fn settings_that_nobody_has_compared_are_not_taken_to_be_as_they_were() {
        let (experiment, mut history) = history(plainly);
        history.ended = None;
        let report = report(&experiment, &history);
        assert!(report.ended && !report.is_sound(), "{:?}", report.differ);
        let words = crate::text::not_looked_at(&report).unwrap();
        assert!(crate::text::report(&report).contains(words) && crate::page::html(&report).contains(words));
    }

    #[test]
    fn what_was_refused_or_given_up_has_its_reason_and_no_ratio() {
        let (experiment, mut history) = history(|next| match next.run {
            Run::Cell(2) => Outcome::GivenUp { why: "slow".to_owned() },
            Run::Cell(0) => Outcome::Refused { why: "read only".to_owned() },
            _ => plainly(next),
        });
        let level = RefusedLevel { knob: "server.a".into(), level: "9".into(), why: "no".into() };
        history.begun = Begun { refused: vec![level], ..history.begun };
        let report = report(&experiment, &history);
        let of = |cell| report.loads[0].cells.iter().find(|one| one.cell == cell).unwrap();
        assert_eq!(of(2).standing, Standing::GivenUp { why: "slow".to_owned() });
        assert_eq!(of(0).standing, Standing::Refused { why: "read only".to_owned() });
        assert!(of(2).ratio.is_none() && of(0).ratio.is_none());
        let csv = csv(&experiment, &history);
        assert!(csv.contains("\"server.b=1\",given_up,,,,,,,,\"slow\""), "{csv}");
        let columns = |line: &str| line.replace("\"4 threads, closed loop\"", "load").split(',').count();
        assert!(csv.lines().all(|line| columns(line) == 16), "{csv}");
    }
}
