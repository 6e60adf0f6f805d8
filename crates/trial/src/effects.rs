//! What each factor does on average over the others, and which pairs do more or less together than apart:
//! least squares on the log ratios of the first stage, in which every cell stands once and none was chosen.
//!
//! A column for each level beside the baseline's, centred; for two factors their product. So a factor's
//! figure is its mean over the levels of all others, not its effect at the baseline alone. Not of cells in
//! which one level at a time is changed: there it would be the cell's own figure.

use crate::order::Run;
use crate::run::Experiment;
use crate::schedule::pairs;
use crate::spec::Kind;
use crate::store::Trial;
use crate::verdict::{Verdict, verdicts};
use plan::regression::fit;
use plan::{Effect, Interval};
use serde::Serialize;

/// Fewer degrees of freedom than this are left to the residuals: then pairs are not looked at.
const SPARE: usize = 8;

#[derive(Clone, Debug, Serialize)]
pub struct Effects {
    pub main: Vec<FactorEffect>,
    /// The strongest first; empty where the design or the number of cells does not tell them apart.
    pub pairs: Vec<PairEffect>,
    /// Trials that it is made of.
    pub trials: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct FactorEffect {
    pub knob: String,
    pub from: String,
    pub to: String,
    /// The figure at `to` over that at `from`, as a mean over all else.
    pub ratio: Interval,
    pub p_differs: f64,
    /// Of all factors as one family (Holm).
    pub verdict: Verdict,
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
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    for run in runs {
        for (figure, baseline) in pairs(&first, Some(0), run) {
            levels.push(experiment.levels(run).clone());
            values.push((figure / baseline).ln());
        }
    }
    let columns: Vec<Column> = (0..spec.factors.len())
        .flat_map(|factor| (0..spec.factors[factor].levels.len()).map(move |level| (factor, level)))
        .filter(|(factor, level)| *level != spec.factors[*factor].baseline)
        .collect();
    let n = values.len() as f64;
    let centred = |(factor, level): Column| -> Vec<f64> {
        let on: Vec<f64> = levels.iter().map(|cell| f64::from(u8::from(cell[factor] == level))).collect();
        let mean = on.iter().sum::<f64>() / n;
        on.into_iter().map(|on| on - mean).collect()
    };
    let main: Vec<Vec<f64>> = columns.iter().map(|column| centred(*column)).collect();
    let mut couples: Vec<(usize, usize)> = Vec::new();
    if !matches!(spec.design, Kind::PlackettBurman { .. }) {
        let all = (0..columns.len()).flat_map(|a| (a + 1..columns.len()).map(move |b| (a, b)));
        couples.extend(all.filter(|(a, b)| columns[*a].0 != columns[*b].0));
    }
    if values.len() < 1 + columns.len() + couples.len() + SPARE {
        couples.clear();
    }
    let row = |at: usize| -> Vec<f64> {
        let own = main.iter().map(|column| column[at]);
        let both = couples.iter().map(|(a, b)| main[*a][at] * main[*b][at]);
        std::iter::once(1.0).chain(own).chain(both).collect()
    };
    let rows: Vec<Vec<f64>> = (0..values.len()).map(row).collect();
    let fit = fit(&rows, &values)?;
    let (own, both) = fit.estimates.get(1..)?.split_at(columns.len());
    let name = |(factor, level): Column| {
        let factor = &spec.factors[factor];
        (factor.knob.clone(), factor.levels[level].clone())
    };
    let known: Vec<(Column, Effect)> =
        columns.iter().copied().zip(own).filter_map(|(column, effect)| Some((column, (*effect)?))).collect();
    let family: Vec<Effect> = known.iter().map(|(_, effect)| *effect).collect();
    let verdicts = verdicts(&family, spec.metric.good(), spec.smallest_effect, spec.level);
    let of_factor = |((column, effect), verdict): (&(Column, Effect), Verdict)| {
        let (knob, to) = name(*column);
        let from = name((column.0, spec.factors[column.0].baseline)).1;
        let (ratio, p_differs) = (effect.ratio(0.95), effect.p_differs());
        FactorEffect { knob, from, to, ratio, p_differs, verdict }
    };
    let of_pair = |((a, b), effect): (&(usize, usize), &Option<Effect>)| {
        let effect = (*effect)?;
        let (one, other) = (name(columns[*a]), name(columns[*b]));
        Some(PairEffect { one, other, ratio: effect.ratio(0.95), p_differs: effect.p_differs() })
    };
    let mut pairs: Vec<PairEffect> = couples.iter().zip(both).filter_map(of_pair).collect();
    pairs.sort_by(|a, b| a.p_differs.total_cmp(&b.p_differs));
    let main = known.iter().zip(verdicts).map(of_factor).collect();
    Some(Effects { main, pairs, trials: values.len() })
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
            let run = match position {
                0 | 1 => Run::Baseline,
                2 => Run::Same,
                _ => Run::Cell(position - 3),
            };
            let cell = experiment.levels(run);
            let noise = 1.0 + (position * 7 % 11) as f64 / 2_000.0;
            let ratio = if cell[0] == 1 { 1.3 } else { 1.0 } * if cell[1] + cell[2] == 2 { 1.2 } else { 1.0 };
            let place = crate::schedule::TrialSlot { load: 0, stage: 0, block: 0, position, attempt: 0 };
            trials.push(trial(Next { place, run }, measured(100.0 * ratio * noise)));
        }
        let trials: Vec<&Trial> = trials.iter().collect();
        let found = effects(&experiment, &trials).unwrap();
        let near = |ratio: &Interval, truth: f64| (ratio.estimate / truth - 1.0).abs() < 0.01;
        assert!(near(&found.main[0].ratio, 1.3) && near(&found.main[3].ratio, 1.0), "{found:?}");
        assert_eq!((found.main[0].verdict, found.main[3].verdict), (Verdict::Better, Verdict::Equivalent));
        let first = &found.pairs[0];
        assert_eq!((first.one.0.as_str(), first.other.0.as_str()), ("server.b", "server.c"));
        assert!(near(&first.ratio, 1.2), "{first:?}");
        // On average over c it is half of what it is with it.
        assert!(near(&found.main[1].ratio, 1.2_f64.sqrt()), "{found:?}");
    }
}
