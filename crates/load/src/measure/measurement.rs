//! A measurement as a whole: the machine is listened to, the search goes on from the trials that there are,
//! and what it finds stands beside today's rate.

use super::{Findings, Goal, Heading, MeasureReport, Objective, Search, TrialFile, noise};
use crate::{LoadError, Plan};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long the machine is listened to before anything is sent.
const NOISE: Duration = Duration::from_secs(2);

/// What is to be found out.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// How precisely.
    pub goal: Goal,
    /// What must hold.
    pub objective: Objective,
    /// Where the load goes, in words.
    pub target: String,
    /// The file of trials: those in it count, and others are added.
    pub trials: Option<PathBuf>,
    /// The headroom over it is told.
    pub today: Option<TodaysRate>,
}

/// Today's rate, by whoever knows it.
#[derive(Clone, Debug, PartialEq)]
pub enum TodaysRate {
    /// Transactions a second, as somebody says.
    Stated { per_second: f64 },
    /// Statements a second that a server counted.
    Statements {
        per_second: f64,
        /// The server.
        at: String,
    },
}

impl Measurement {
    /// Listens to the machine, then searches. `say` hears of each trial.
    ///
    /// # Errors
    /// Whatever keeps the load from being sent at all, and a file of trials that cannot be used.
    pub fn run(
        &self,
        plan: Plan,
        stop: &Arc<AtomicBool>,
        mut say: impl FnMut(&str),
    ) -> Result<MeasureReport, LoadError> {
        let Self { goal, objective, target, .. } = self.clone();
        let workload = plan.workload.name.clone();
        // Tables of another size are another measurement, and so is a file that was changed.
        let clients = Some(plan.clients);
        let heading = Heading { workload: plan.workload.in_words(), target, objective, clients };
        let (file, trials) = match &self.trials {
            Some(path) => TrialFile::open(path, &heading).map(|(file, trials)| (Some(file), trials))?,
            None => (None, Vec::new()),
        };
        if !trials.is_empty() {
            say(&format!("{} trials are there already", trials.len()));
        }
        let noise = noise::probe(NOISE);
        let found = match noise.forbids(objective) {
            Some(why) => Findings { trials, refused: Some(why), ..Findings::default() },
            None => Search { goal, objective, file, longest: None }.run(plan, trials, stop, say)?,
        };
        let today = self.today.as_ref().and_then(|today| today.transactions(&found));
        let (current, current_from) = today.unzip();
        let lower = found.capacity.and_then(|capacity| capacity.lower);
        Ok(MeasureReport {
            workload,
            target: heading.target,
            objective,
            goal,
            capacity: found.capacity,
            refused: found.refused,
            current,
            current_from,
            headroom: lower.zip(current.filter(|now| *now > 0.0)).map(|(lower, now)| lower / now),
            noise_ms: noise.at(objective.quantile),
            too_few_clients: goal.too_few_clients(&found.trials, objective),
            voided: found.voided,
            trials: found.trials,
        })
    }
}

impl TodaysRate {
    /// In transactions a second, and how that is known; `None` where no trial tells how many statements a
    /// transaction has.
    fn transactions(&self, found: &Findings) -> Option<(f64, String)> {
        match self {
            Self::Stated { per_second } => Some((*per_second, "stated".to_owned())),
            Self::Statements { per_second, at } => {
                let known = found.trials.iter().rev().map(|trial| trial.queries_each);
                let each = known.filter(|each| *each > 0.0).map(|each| each.max(1.0)).next()?;
                let from = format!("{per_second:.0} statements a second at {at}, {each:.1} a transaction");
                Some((per_second / each, from))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Trial;

    #[test]
    fn statements_are_no_transactions_where_no_trial_tells_how_many_one_has() {
        let statements = TodaysRate::Statements { per_second: 2_000.0, at: "db1".to_owned() };
        let of = |each: &[f64]| {
            let trial = |queries_each: &f64| Trial { queries_each: *queries_each, ..Trial::default() };
            let findings = Findings { trials: each.iter().map(trial).collect(), ..Findings::default() };
            statements.transactions(&findings).map(|(per_second, _)| per_second)
        };
        assert_eq!(of(&[]), None, "nothing was sent");
        assert_eq!(of(&[0.0]), None, "of a time when it was not kept");
        assert_eq!((of(&[20.0, 0.0]), of(&[10.0, 20.0])), (Some(100.0), Some(100.0)));
        let stated = TodaysRate::Stated { per_second: 50.0 }.transactions(&Findings::default());
        assert_eq!(stated.map(|(per_second, _)| per_second), Some(50.0));
    }
}
