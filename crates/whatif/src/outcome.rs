//! What was predicted beside what came: the share of intervals that held, model by model.

use crate::baseline::Unit;
use crate::ledger::{Entry, Kind, Observed, Prediction};
use crate::replicas::ON_DAY;
use crate::words::{bytes, figure, interval};
use plan::Interval;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use term::Table;

/// A prediction is of the same load as an observation when both lie this close, as a share.
const SAME: f64 = 0.03;
/// A model with fewer is not judged.
const FEWEST: usize = 5;
/// A model does badly when as few intervals as held, or fewer, would hold this seldom if it kept its level.
/// Not one in twenty: several models are judged at once, and predictions along one curve go together.
const CHANCE: f64 = 0.01;

/// A prediction that can be judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    pub model: String,
    pub what: String,
    pub subject: String,
    /// Where: a rate a second; bytes of the pool (`memory`, `estimate`); a day (`growth`).
    pub at: f64,
    /// Of a rate: what it counts.
    pub unit: Option<Unit>,
    pub predicted: Interval,
    /// The median of what was seen there later.
    pub came: f64,
    pub held: bool,
}

impl Judged {
    /// Where it was predicted, with its unit.
    fn at_in_words(&self) -> String {
        match (self.model.as_str(), self.unit) {
            (_, Some(unit)) => format!("{} {}/s", figure(self.at), unit.many()),
            ("growth", None) => format!("day {}", self.at),
            (_, None) => bytes(self.at as u64),
        }
    }
}

/// What the rates of an answer count; `None` where it is about sizes or days.
fn unit_of(entry: &Entry) -> Option<Unit> {
    let stated = || Unit::deserialize(&entry.answer["baseline"]["unit"]).unwrap_or_default();
    matches!(entry.kind, Kind::Load | Kind::Disks).then(stated)
}

/// How a model did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    pub model: String,
    pub predictions: usize,
    /// Share whose interval held.
    pub held: f64,
    /// Share that should.
    pub level: f64,
    /// Fewer hold than should, by more than chance.
    pub does_badly: bool,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Check {
    pub judged: Vec<Judged>,
    pub scores: Vec<Score>,
    /// Predictions that nothing has been seen of yet.
    pub open: usize,
}

/// Judges predictions by what later entries saw of the same subject, workload, figure and cores; of a disk,
/// on whichever server stands on that host. What an entry up to that of the prediction saw already is no
/// outcome, though a later one is made from it again: the same runs can be asked twice.
pub fn check(entries: &[Entry]) -> Check {
    let mut check = Check::default();
    let mut levels: BTreeMap<String, f64> = BTreeMap::new();
    for (at, entry) in entries.iter().enumerate() {
        for prediction in &entry.predictions {
            let later = entries[at + 1..].iter().filter(|later| {
                // Another host's disk is seen on another server: the figure names the host.
                let same = later.subject == entry.subject || entry.kind == Kind::Disks;
                later.kind == entry.kind && same && later.workload == entry.workload
            });
            let known = |seen: &Observed| entries[..=at].iter().any(|before| before.seen.contains(seen));
            let same = later.flat_map(|later| &later.seen);
            let same = same.filter(|seen| is_nearest(entry, prediction, seen) && !known(seen));
            let came: Vec<f64> = same.map(|seen| seen.value).collect();
            let Some(came) = plan::quantile::median(&came) else {
                check.open += 1;
                continue;
            };
            levels.insert(prediction.model.clone(), prediction.level);
            check.judged.push(Judged {
                model: prediction.model.clone(),
                what: prediction.what.clone(),
                subject: entry.subject.clone(),
                at: prediction.at,
                unit: unit_of(entry),
                predicted: prediction.value,
                came,
                held: (prediction.value.low..=prediction.value.high).contains(&came),
            });
        }
    }
    check.scores = levels
        .into_iter()
        .map(|(model, level)| {
            let own: Vec<&Judged> = check.judged.iter().filter(|one| one.model == model).collect();
            let held = own.iter().filter(|one| one.held).count();
            Score {
                predictions: own.len(),
                held: held as f64 / own.len().max(1) as f64,
                level,
                does_badly: own.len() >= FEWEST && at_most(held, own.len(), level) < CHANCE,
                model,
            }
        })
        .collect();
    check
}

/// How likely at most `held` of `all` intervals hold, when each does with probability `level`: the lower tail
/// of the binomial distribution. For example 3 of 5 at 0.95: 0.023.
fn at_most(held: usize, all: usize, level: f64) -> f64 {
    if held >= all || level <= 0.0 {
        return 1.0;
    }
    if level >= 1.0 {
        return 0.0;
    }
    let odds = (level / (1.0 - level)).ln();
    // Of no interval; each further one follows from the one before. In logarithms: of many it is tiny.
    let mut one = all as f64 * (1.0 - level).ln();
    let mut sum = one.exp();
    for at in 0..held {
        one += ((all - at) as f64 / (at + 1) as f64).ln() + odds;
        sum += one.exp();
    }
    sum.min(1.0)
}

/// Whether something was seen where it was predicted.
fn is_of(seen: &Observed, prediction: &Prediction) -> bool {
    let near = if prediction.what == ON_DAY {
        (seen.at - prediction.at).abs() <= 0.5
    } else {
        (seen.at / prediction.at - 1.0).abs() <= SAME
    };
    near && seen.what == prediction.what && seen.cores == prediction.cores
}

/// Whether it is of this prediction, and of no other of the same answer and model that is nearer: sizes along
/// a curve lie so close that one measurement would be the outcome of several, and a model would be judged by
/// it alone.
fn is_nearest(entry: &Entry, prediction: &Prediction, seen: &Observed) -> bool {
    let same = entry.predictions.iter().filter(|one| one.model == prediction.model && is_of(seen, one));
    let away = |one: &Prediction| (seen.at - one.at).abs();
    let nearest = same.min_by(|a, b| away(a).total_cmp(&away(b)));
    nearest.is_some_and(|nearest| std::ptr::eq(nearest, prediction))
}

impl Check {
    /// Whether something was judged, and no model does badly.
    pub fn is_good(&self) -> bool {
        !self.judged.is_empty() && self.scores.iter().all(|score| !score.does_badly)
    }

    /// As text.
    pub fn text(&self) -> String {
        if self.judged.is_empty() {
            return format!(
                "{} predictions are open: nothing has been seen of them yet. Measure again what was predicted, and check again.\n",
                self.open
            );
        }
        let mut text = String::new();
        for score in &self.scores {
            let _ = writeln!(
                text,
                "{}: {:.0} % of {} intervals held ({:.0} % should){}",
                score.model,
                score.held * 100.0,
                score.predictions,
                score.level * 100.0,
                if score.does_badly { ". This model does badly here: do not buy by it" } else { "" }
            );
        }
        let _ = writeln!(text, "{} predictions are open.\n", self.open);
        let mut table = Table::new(&["model", "what", ">at", ">predicted", ">came", "held"]);
        for one in &self.judged {
            let held = if one.held { "yes" } else { "NO" };
            table.row(vec![
                one.model.clone(),
                one.what.clone(),
                one.at_in_words(),
                interval(&one.predicted),
                figure(one.came),
                held.to_owned(),
            ]);
        }
        text + &table.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Kind, Observed, Prediction};

    fn entry(at: u64, predicted: &[(f64, f64)], seen: &[(f64, f64)]) -> Entry {
        let value = |low: f64| Interval { low, estimate: low + 1.0, high: low + 2.0 };
        let prediction = |(at, low): &(f64, f64)| Prediction {
            model: "queue".into(),
            what: "p99_ms".into(),
            at: *at,
            cores: Some(2),
            value: value(*low),
            level: 0.95,
        };
        let observed = |(at, value): &(f64, f64)| Observed {
            what: "p99_ms".into(),
            at: *at,
            cores: Some(2),
            value: *value,
        };
        Entry {
            at,
            kind: Kind::Load,
            subject: "db1".into(),
            workload: "w".into(),
            predictions: predicted.iter().map(prediction).collect(),
            seen: seen.iter().map(observed).collect(),
            answer: serde_json::Value::Null,
        }
    }

    #[test]
    fn a_prediction_is_judged_by_what_came_later_and_not_by_what_it_was_made_from() {
        let entries = [
            entry(1, &[(100.0, 5.0), (200.0, 9.0), (300.0, 1.0)], &[(200.0, 99.0)]),
            entry(2, &[], &[(101.0, 6.0), (199.0, 20.0)]),
        ];
        let check = check(&entries);
        assert_eq!((check.judged.len(), check.open), (2, 1));
        assert_eq!(check.judged.iter().map(|one| one.held).collect::<Vec<_>>(), [true, false]);
        assert_eq!(check.scores[0].held, 0.5);
    }

    #[test]
    fn what_was_seen_before_a_prediction_is_no_outcome_when_it_is_asked_again() {
        // Runs at 100 and 200 a second, asked twice: the prediction at 200 was made from them.
        let runs = [(100.0, 5.5), (200.0, 9.5)];
        let (once, twice) = (entry(1, &[(200.0, 9.0)], &runs), entry(2, &[(200.0, 9.0)], &runs));
        let found = check(&[once.clone(), twice.clone()]);
        assert_eq!((found.judged.len(), found.open), (0, 2), "{found:?}");
        assert!(!found.is_good());
        // A run that came since counts, and alone.
        let later = entry(3, &[], &[(100.0, 5.5), (200.0, 9.5), (200.0, 20.0)]);
        let found = check(&[once, twice, later]);
        let came: Vec<f64> = found.judged.iter().map(|one| one.came).collect();
        assert_eq!((came, found.open), (vec![20.0, 20.0], 0), "{found:?}");
    }

    #[test]
    fn one_measurement_is_the_outcome_of_one_point_of_a_curve() {
        let curve: Vec<(f64, f64)> = (0..8).map(|at| (100.0 + f64::from(at), 50.0)).collect();
        let found = check(&[entry(1, &curve, &[]), entry(2, &[], &[(103.2, 6.0)])]);
        let at: Vec<f64> = found.judged.iter().map(|one| one.at).collect();
        assert_eq!((at, found.open), (vec![103.0], 7), "{found:?}");
        assert!(!found.scores[0].does_badly, "one is too few to judge a model by: {found:?}");
    }

    #[test]
    fn what_another_load_does_is_no_outcome() {
        let before = entry(1, &[(100.0, 5.0)], &[]);
        let mut after = entry(2, &[], &[(100.0, 6.0)]);
        assert_eq!(check(&[before.clone(), after.clone()]).judged.len(), 1);
        after.workload = "w (table_size=20000)".into();
        assert_eq!(check(&[before, after]).open, 1);
    }

    #[test]
    fn a_disk_is_judged_by_the_server_that_stands_on_its_host() {
        let mut before = entry(1, &[(100.0, 5.0)], &[]);
        let mut after = entry(2, &[], &[(100.0, 6.0)]);
        after.subject = "db2:3306".into();
        assert_eq!(check(&[before.clone(), after.clone()]).open, 1, "another server's load");
        for entry in [&mut before, &mut after] {
            entry.kind = Kind::Disks;
            entry.predictions.iter_mut().for_each(|one| one.what = "p99_ms on db2".into());
            entry.seen.iter_mut().for_each(|one| one.what = "p99_ms on db2".into());
        }
        let check = check(&[before, after]);
        assert_eq!((check.judged.len(), check.open), (1, 0));
    }

    #[test]
    fn a_model_does_badly_when_chance_does_not_explain_it() {
        let is_near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found}");
        is_near(at_most(3, 5, 0.95), 0.022_592_5);
        is_near(at_most(4, 5, 0.95), 1.0 - 0.95_f64.powi(5));
        is_near(at_most(0, 3, 0.5), 0.125);
        is_near(at_most(5, 5, 0.95), 1.0);
        assert!(at_most(4, 5, 1.0) < CHANCE, "one that should always hold");
        let judged = |held: usize, all: usize| {
            let predicted: Vec<(f64, f64)> = (1..=all).map(|at| (at as f64 * 100.0, 5.0)).collect();
            let came = |at: usize| if at < held { 6.0 } else { 50.0 };
            let seen: Vec<(f64, f64)> =
                predicted.iter().enumerate().map(|(at, (rate, _))| (*rate, came(at))).collect();
            check(&[entry(1, &predicted, &[]), entry(2, &[], &seen)]).scores[0].does_badly
        };
        // Two of five that miss happen once in forty times; as many of a hundred as one in eight do not.
        assert!(!judged(3, 5) && judged(2, 5));
        assert!(!judged(92, 100) && judged(87, 100));
    }

    #[test]
    fn a_model_that_does_badly_says_so() {
        let predicted: Vec<(f64, f64)> = (1..=6).map(|at| (f64::from(at) * 100.0, 5.0)).collect();
        let seen: Vec<(f64, f64)> = predicted.iter().map(|(at, _)| (*at, 50.0)).collect();
        let text = check(&[entry(1, &predicted, &[]), entry(2, &[], &seen)]).text();
        assert!(text.contains("does badly") && text.contains("100 transactions/s"), "{text}");
        let mut history = entry(1, &predicted, &[]);
        history.answer = serde_json::json!({ "baseline": { "unit": "statements" } });
        let text = check(&[history, entry(2, &[], &seen)]).text();
        assert!(text.contains("100 statements/s") && !text.contains("transactions"), "{text}");
    }
}
