//! Experiments beside each other: two hosts, two versions, two dates; and the baseline over the history.
//!
//! Two experiments share no block, so what a paired comparison cancels within one stays between two. Two
//! things are compared: the baseline's figure, block by block (a host or a version is faster), and each
//! cell's gain over its own baseline (a setting does more here than there). Both are differences of mean
//! logs, with Welch's error, which does not assume that both are equally noisy.
//!
//! There is no verdict. The interval is made of what differs within each of the two runs; what differs from
//! day to day, with nothing changed, is not in it and often larger. Whether the baseline changes over time is
//! judged by [`drift`], whose unit is the experiment.

use crate::order::Run;
use crate::past::Past;
use crate::report::{LoadReport, Report};
use crate::run::Experiment;
use crate::schedule::{pairs, stages};
use crate::spec::Spec;
use crate::store::{History, Trial};
use knob::server::is_same_value;
use plan::regression::fit;
use plan::{Effect, Interval};
use serde::Serialize;
use std::collections::BTreeMap;

/// An experiment with its name.
#[derive(Debug)]
pub struct Side<'a> {
    pub name: String,
    pub experiment: &'a Experiment,
    pub history: &'a History,
    pub report: &'a Report,
}

#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    pub one: String,
    pub other: String,
    /// What they ran on, where that differs: what it is, the one's, the other's.
    pub setups: Vec<(String, String, String)>,
    pub loads: Vec<LoadComparison>,
    /// What does not fit together, in words.
    pub warnings: Vec<String>,
}

impl Comparison {
    /// Whether they have anything that can be compared.
    pub fn is_possible(&self) -> bool {
        !self.loads.is_empty()
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct LoadComparison {
    pub words: String,
    /// The other's baseline over the one's; `None` with too few figures.
    pub baseline: Option<Compared>,
    /// The other's gain over the one's, of each cell of both last stages.
    pub cells: Vec<(String, Compared)>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Compared {
    /// The interval is of what differs within the two runs alone.
    pub ratio: Interval,
}

/// The baseline over several experiments.
#[derive(Clone, Debug, Serialize)]
pub struct Drift {
    pub words: String,
    /// When each was begun, seconds since 1970, and the mean of its baseline.
    pub points: Vec<(u64, f64)>,
    /// The baseline's change in 30 days; `None` with fewer than four experiments.
    pub per_month: Option<Interval>,
    pub p_differs: Option<f64>,
}

/// Several experiments: each of the others beside the first, and from three on also the baseline over time.
#[derive(Clone, Debug, Serialize)]
pub struct Comparisons {
    pub comparisons: Vec<Comparison>,
    pub drift: Vec<Drift>,
}

impl Comparisons {
    /// Of these, each with its name.
    pub fn of(named: &[(String, Past)]) -> Self {
        let sides = named.iter().map(|(name, Past { experiment, history, report })| Side {
            name: name.clone(),
            experiment,
            history,
            report,
        });
        let sides: Vec<Side<'_>> = sides.collect();
        let others = sides.iter().skip(1);
        Self {
            comparisons: others.map(|other| compare(&sides[0], other)).collect(),
            drift: if sides.len() > 2 { drift(&sides) } else { Vec::new() },
        }
    }

    /// Whether each has something that can be compared.
    pub fn is_possible(&self) -> bool {
        self.comparisons.iter().all(Comparison::is_possible)
    }
}

/// Two experiments of the same metric.
pub fn compare(one: &Side<'_>, other: &Side<'_>) -> Comparison {
    let (a, b) = (&one.experiment.spec, &other.experiment.spec);
    let (mut warnings, mut loads) = (differences(a, b), Vec::new());
    for side in [one, other] {
        if !side.report.ended {
            warnings.push(format!("{} is not over", side.name));
        }
        if side.report.loads.iter().any(|load| load.void) {
            warnings.push(format!("{} is void: its A/A cell differs", side.name));
        }
    }
    for (at, load) in one.report.loads.iter().enumerate() {
        let there = other.report.loads.iter().position(|there| there.point == load.point);
        if let Some(there) = there.filter(|_| a.metric == b.metric) {
            loads.push(of_load(one, at, other, there, load));
        }
    }
    if loads.is_empty() && warnings.is_empty() {
        warnings.push("they have no load in common".to_owned());
    }
    let setups = one.history.begun.setup_differs(&other.history.begun.setup);
    Comparison { one: one.name.clone(), other: other.name.clone(), setups, loads, warnings }
}

/// Why the baselines of two experiments are not the same, in words. Of a setting that one of them alone
/// varies it is not known what the other had.
fn differences(one: &Spec, other: &Spec) -> Vec<String> {
    if one.metric != other.metric {
        return vec!["they are judged by different metrics, and are not comparable".to_owned()];
    }
    let mut all = Vec::new();
    let (a, b) = (&one.load, &other.load);
    let same_tables = (a.tables, a.table_size, a.distribution) == (b.tables, b.table_size, b.distribution);
    if a.workload != b.workload || !same_tables {
        all.push("their workloads or tables differ: a difference is not the host's alone".to_owned());
    }
    for here in &one.factors {
        let Some(there) = other.factors.iter().find(|there| there.knob == here.knob) else { continue };
        let (knob, a, b) = (&here.knob, &here.levels[here.baseline], &there.levels[there.baseline]);
        if !is_same_value(a, b) {
            all.push(format!("their baselines differ: {knob} is {a}, and then {b}"));
        }
    }
    all
}

fn of_load(one: &Side<'_>, at: usize, other: &Side<'_>, there: usize, load: &LoadReport) -> LoadComparison {
    let compared =
        |one: &[f64], other: &[f64]| welch(one, other).map(|effect| Compared { ratio: effect.ratio(0.95) });
    let baseline = compared(&baselines(one, at), &baselines(other, there));
    let (here, there) = (gains(one, at), gains(other, there));
    let cells =
        here.iter().filter_map(|(name, logs)| Some((name.clone(), compared(logs, there.get(name)?)?)));
    LoadComparison { words: load.words.clone(), baseline, cells: cells.collect() }
}

fn trials(side: &Side<'_>, load: usize) -> Vec<Trial> {
    side.history.trials.iter().filter(|trial| trial.place.load == load).cloned().collect()
}

/// The mean log of the baselines of each block: what a block shares counts once.
fn baselines(side: &Side<'_>, load: usize) -> Vec<f64> {
    let mut blocks: BTreeMap<(usize, u32), Vec<f64>> = BTreeMap::new();
    for trial in trials(side, load).iter().filter(|trial| trial.run == Run::Baseline) {
        if let Some(figure) = trial.outcome.figure() {
            blocks.entry((trial.place.stage, trial.place.block)).or_default().push(figure.ln());
        }
    }
    blocks.into_values().map(|logs| logs.iter().sum::<f64>() / logs.len() as f64).collect()
}

/// The log gain of each cell of the last stage, block by block, by its settings.
fn gains(side: &Side<'_>, load: usize) -> BTreeMap<String, Vec<f64>> {
    let trials = trials(side, load);
    let trials: Vec<&Trial> = trials.iter().collect();
    let last = stages(&side.experiment.spec, side.experiment.possible.len()).len().saturating_sub(1);
    let gain = |cell: &usize| {
        let pairs = pairs(&trials, Some(last), Run::Cell(*cell));
        let logs: Vec<f64> = pairs.iter().map(|(figure, base)| (figure / base).ln()).collect();
        (side.experiment.words(Run::Cell(*cell)), logs)
    };
    side.experiment.possible.iter().map(gain).collect()
}

/// The other's mean less the one's, with Welch's error and degrees of freedom (rounded down). `None` with
/// fewer than two figures on either side.
fn welch(one: &[f64], other: &[f64]) -> Option<Effect> {
    let moments = |logs: &[f64]| {
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (logs.len() > 1).then_some((mean, variance / n, n))
    };
    let ((mean, error, n), (other_mean, other_error, m)) = (moments(one)?, moments(other)?);
    let sum = error + other_error;
    let below = error.powi(2) / (n - 1.0) + other_error.powi(2) / (m - 1.0);
    let degrees = if below > 0.0 { (sum.powi(2) / below).floor().max(1.0) } else { n + m - 2.0 };
    Some(Effect { log_mean: other_mean - mean, log_error: sum.sqrt(), blocks: degrees as u32 + 1 })
}

/// The baseline of each load of the first, over all that have the same one.
pub fn drift(sides: &[Side<'_>]) -> Vec<Drift> {
    let Some(first) = sides.first() else { return Vec::new() };
    let is_same = |side: &&Side<'_>| differences(&first.experiment.spec, &side.experiment.spec).is_empty();
    let of = |load: &LoadReport| {
        let point = |side: &Side<'_>| {
            let at = side.report.loads.iter().position(|one| one.point == load.point)?;
            let logs = baselines(side, at);
            let mean = (!logs.is_empty()).then(|| logs.iter().sum::<f64>() / logs.len() as f64)?;
            Some((side.history.begun.at, mean))
        };
        let mut points: Vec<(u64, f64)> = sides.iter().filter(is_same).filter_map(point).collect();
        points.sort_by_key(|(at, _)| *at);
        let start = points.first().map_or(0, |(at, _)| *at);
        let month = |at: u64| (at - start) as f64 / (30.0 * 86_400.0);
        let rows: Vec<Vec<f64>> = points.iter().map(|(at, _)| vec![1.0, month(*at)]).collect();
        let logs: Vec<f64> = points.iter().map(|(_, log)| *log).collect();
        let slope = fit(&rows, &logs).filter(|_| points.len() >= 4).and_then(|fit| fit.estimates[1]);
        Drift {
            words: load.words.clone(),
            points: points.iter().map(|(at, log)| (*at, log.exp())).collect(),
            per_month: slope.map(|slope| slope.ratio(0.95)),
            p_differs: slope.map(|slope| slope.p_differs()),
        }
    };
    first.report.loads.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn welch_is_that_of_the_textbook() {
        // Means 0 and 1, variances 1 and 4 over 3 and 4: error sqrt(1/3 + 1), degrees 4.7.
        let effect =
            welch(&[-1.0, 0.0, 1.0], &[-1.0, 1.0, 3.0, 1.0 - 6.0_f64.sqrt() + 6.0_f64.sqrt()]).unwrap();
        assert!((effect.log_mean - 1.0).abs() < 1e-9, "{effect:?}");
        assert!((effect.log_error - (1.0_f64 / 3.0 + 8.0 / 3.0 / 4.0).sqrt()).abs() < 1e-9, "{effect:?}");
        assert_eq!(welch(&[1.0], &[1.0, 2.0]), None);
    }

    #[test]
    fn baselines_that_are_not_the_same_are_told_apart_and_are_no_history() {
        use crate::schedule::{Next, TrialSlot};
        use crate::store::tests::{EXAMPLE, begun, measured, trial};
        let of = |text: &str| {
            let experiment = Experiment::new(Spec::parse(text, "t.toml").unwrap(), &[]).unwrap();
            let place = TrialSlot { load: 0, stage: 0, block: 0, position: 1, attempt: 0 };
            let next = Next { place, run: Run::Baseline, slow_before: false };
            let (spec, trials) = (text.to_owned(), vec![trial(next, measured(100.0))]);
            let history = History { spec, begun: begun(), trials, ended: None };
            let report = crate::report::report(&experiment, &history);
            ("day".to_owned(), Past { experiment, history, report })
        };
        let beside = |from: &str, to: &str| {
            let found = Comparisons::of(&[of(EXAMPLE), of(&EXAMPLE.replacen(from, to, 1)), of(EXAMPLE)]);
            (found.comparisons[0].warnings.join("; "), found.drift[0].points.len())
        };
        for (from, to, words, points) in [
            ("name = \"t\"", "name = \"u\"", "day is not over", 3),
            ("\"throughput\"", "\"p99\"", "different metrics", 2),
            ("threads", "tables = 2\nthreads", "workloads or tables differ", 2),
            ("[\"0\", \"1\"", "[\"1\", \"0\"", "baselines differ: server.a is 0, and then 1", 2),
        ] {
            let (said, found) = beside(from, to);
            assert!(said.contains(words) && found == points, "{to}: {said}; {found}");
        }
    }

    #[test]
    fn two_runs_on_different_days_have_a_ratio_and_no_verdict() {
        use crate::store::tests::{EXAMPLE, begun, measured, trial};
        let experiment = Experiment::new(Spec::parse(EXAMPLE, "t.toml").unwrap(), &[]).unwrap();
        let run = |level: f64| {
            let mut trials = Vec::new();
            loop {
                let cells = (&experiment.design, &experiment.possible);
                let next = crate::schedule::progress(&experiment.spec, cells.0, cells.1, &trials).next;
                let Some(next) = next else { break };
                let noise =
                    1.0 + (next.place.position * 7 + next.place.block as usize) as f64 % 5.0 / 1_000.0;
                trials.push(trial(next, measured(level * noise)));
            }
            History { spec: EXAMPLE.to_owned(), begun: begun(), trials, ended: None }
        };
        // A tenth slower all day, with nothing changed.
        let (monday, tuesday) = (run(100.0), run(90.0));
        let reports = [&monday, &tuesday].map(|history| crate::report::report(&experiment, history));
        let side =
            |history, report| Side { name: "day".to_owned(), experiment: &experiment, history, report };
        let found = compare(&side(&monday, &reports[0]), &side(&tuesday, &reports[1]));
        assert!(found.is_possible());
        let ratio = found.loads[0].baseline.unwrap().ratio;
        assert!((ratio.estimate - 0.9).abs() < 0.01 && ratio.high < 0.95, "sure within the runs: {ratio:?}");
        let json = serde_json::to_value(&found).unwrap();
        assert!(json["loads"][0]["baseline"].get("verdict").is_none(), "{json}");
    }
}
