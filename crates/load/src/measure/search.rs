//! The loop of a search: asks what to send, sends it, judges it, keeps it; until the answer is known or the
//! measurement proves unsound.

use super::trial_file::TrialFile;
use super::{Capacity, Goal, Next, Objective, Trial, Unsound};
use crate::outcome::Totals;
use crate::soundness::nothing_found;
use crate::{Arrivals, Load, LoadError, Plan};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// After a trial that lost too much, the server gets this long to work off what was begun.
const SETTLE: Duration = Duration::from_secs(1);
/// The warm-up's keys and moments: none that a trial has.
const WARM_UP_SEED: u64 = 1 << 40;
/// A search that goes on begins this many bits further for each trial that there is: what was sent before it,
/// trials that did not count and one that was cut short among them, is not sent again. The same values once
/// more would be refused where they must be unique.
const GOES_ON: u32 = 20;

pub struct Search {
    /// How precisely.
    pub goal: Goal,
    /// What is asked.
    pub objective: Objective,
    /// Where trials are kept.
    pub file: Option<TrialFile>,
    /// No trial begins later than this after the first.
    pub longest: Option<Duration>,
}

/// A search under way.
pub struct SearchRun<'a> {
    search: &'a Search,
    load: Load,
    /// The moments of the first trial; each has its own.
    seed: u64,
    begun: Instant,
    /// Trials in a row that did not count.
    unsound: u32,
    /// The errors that made the last bad trial bad, if they did.
    errors: Option<String>,
    /// What it found so far.
    pub findings: Findings,
}

/// What a search has found.
#[derive(Default)]
pub struct Findings {
    /// `None` when it was given up.
    pub capacity: Option<Capacity>,
    pub refused: Option<String>,
    /// Trials that did not count, with the reason.
    pub voided: Vec<String>,
    /// Those that did.
    pub trials: Vec<Trial>,
}

impl Search {
    /// How long it takes, for people.
    fn duration_in_words(&self, trials: &[Trial]) -> String {
        format!(
            "this takes about {}, at most {}; Ctrl-C ends it",
            minutes(self.goal.seconds_left(trials)),
            minutes(self.goal.seconds_at_most(trials))
        )
    }

    /// Searches on from these trials to the end. `say` hears of each.
    ///
    /// # Errors
    /// Whatever keeps the load from being sent at all, and a file that cannot be written.
    pub fn run(
        &self,
        plan: Plan,
        trials: Vec<Trial>,
        stop: &Arc<AtomicBool>,
        mut say: impl FnMut(&str),
    ) -> Result<Findings, LoadError> {
        let mut run = self.begin(plan, trials, stop)?;
        // Not before the server has let us in: what cannot begin takes no time.
        say(&self.duration_in_words(&run.findings.trials));
        while run.step(stop, &mut say)? {}
        Ok(run.findings)
    }

    /// Connects and warms up; the trials are sent step by step.
    ///
    /// # Errors
    /// Whatever keeps the load from being sent at all.
    pub fn begin(
        &self,
        plan: Plan,
        trials: Vec<Trial>,
        stop: &Arc<AtomicBool>,
    ) -> Result<SearchRun<'_>, LoadError> {
        let (seed, warm_up) = (plan.seed.wrapping_add((trials.len() as u64) << GOES_ON), plan.warm_up);
        let load = Load::connect_until(plan, stop)?;
        if !warm_up.is_zero() {
            load.send(&Arrivals::poisson(self.goal.start), warm_up, seed ^ WARM_UP_SEED, stop, |_| ())?;
        }
        let findings = Findings { trials, ..Findings::default() };
        let begun = Instant::now();
        Ok(SearchRun { search: self, load, seed, begun, unsound: 0, errors: None, findings })
    }

    fn line(&self, trial: &Trial, trials: &[Trial]) -> String {
        let left = self.goal.seconds_left(trials);
        let left = if left >= 1.0 { format!(", about {} left", minutes(left)) } else { String::new() };
        let interval = self.goal.interval(trials);
        let interval =
            interval.map_or_else(String::new, |(from, to)| format!(", limit {from:.0} to {to:.0}"));
        // Of nothing that was answered the time is not known.
        let ms = Some(trial.at_objective_ms).filter(|ms| *ms > 0.0);
        format!(
            "{:>9.1} a second for {:>2.0} s: p{} {:>8} ms, {:>6.2} % lost: {}{interval}{left}",
            trial.rate,
            trial.seconds,
            self.objective.percent(),
            ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.2}")),
            trial.loss() * 100.0,
            if trial.loss() > self.goal.loss { "misses it" } else { "meets it" },
        )
    }
}

impl SearchRun<'_> {
    /// One trial more; false when the search is over.
    ///
    /// # Errors
    /// Whatever keeps the load from being sent at all, and a file that cannot be written.
    pub fn step(&mut self, stop: &Arc<AtomicBool>, mut say: impl FnMut(&str)) -> Result<bool, LoadError> {
        let (search, findings) = (self.search, &mut self.findings);
        if findings.capacity.is_some() || findings.refused.is_some() {
            return Ok(false);
        }
        let (rate, seconds) = match search.goal.next(&findings.trials) {
            Next::Done(capacity) => {
                let doubt = search.goal.doubt(&findings.trials, &capacity).map(|doubt| doubt.to_string());
                let errors = self.errors.take().filter(|_| capacity.rate.is_none());
                let failing = errors.map(|errors| format!("transactions fail at every rate tried: {errors}"));
                match failing.or(doubt) {
                    Some(why) => findings.refused = Some(why),
                    None => findings.capacity = Some(capacity),
                }
                return Ok(false);
            }
            Next::Send { rate, seconds } => (rate, seconds),
        };
        if let Some(longest) = search.longest.filter(|longest| self.begun.elapsed() > *longest) {
            let longest = minutes(longest.as_secs_f64());
            findings.refused = Some(format!("not found within {longest}: too many trials were needed"));
            return Ok(false);
        }
        let moments = self.seed.wrapping_add((findings.trials.len() + findings.voided.len()) as u64);
        let time = Duration::from_secs_f64(seconds);
        let outcome = self.load.send(&Arrivals::poisson(rate), time, moments, stop, |_| ())?;
        if stop.load(Ordering::Relaxed) {
            let so_far = search.goal.interval(&findings.trials).map_or_else(String::new, |(from, to)| {
                format!(" while the limit was known to lie from {from:.0} to {to:.0} a second")
            });
            findings.refused = Some(format!("interrupted{so_far}; --trials lets the same command go on"));
            return Ok(false);
        }
        if let Some(why) = refused(&outcome.totals, outcome.generator.reconnects) {
            findings.refused = Some(why);
            return Ok(false);
        }
        if findings.trials.is_empty() && findings.voided.is_empty() {
            nothing_found(&outcome).iter().for_each(|note| say(&format!("note: {note}")));
        }
        match Trial::of(&outcome, rate, seconds, search.objective) {
            Ok(trial) => {
                self.unsound = 0;
                if let Some(file) = &search.file {
                    file.push(&trial)?;
                }
                findings.trials.push(trial);
                let errors = errors(&outcome.totals, search.goal.loss);
                let told = errors.as_ref().map_or_else(String::new, |errors| format!("; {errors}"));
                say(&format!("{}{told}", search.line(&trial, &findings.trials)));
                if trial.loss() > search.goal.loss {
                    self.errors = errors;
                    std::thread::sleep(SETTLE);
                }
            }
            Err(unsound) => {
                self.unsound += 1;
                let chances = search.goal.chances(seconds, &unsound);
                let why = format!("{rate:.1} a second: {unsound}");
                say(&format!(
                    "does not count ({} of {chances} in a row that end the search): {why}",
                    self.unsound
                ));
                if self.unsound >= chances {
                    let missed = lowest_missed(&unsound, &findings.trials, search.goal.loss);
                    findings.refused = Some(match (missed, self.errors.take()) {
                        (Some(_), Some(errors)) => format!("transactions fail at every rate tried: {errors}"),
                        (Some(lowest), None) => format!(
                            "not even {lowest:.1} a second, the lowest rate that was tried, meets the objective; {why}"
                        ),
                        (None, _) => format!("{} trials in a row did not count; {why}", self.unsound),
                    });
                }
                findings.voided.push(why);
                if findings.refused.is_some() {
                    return Ok(false);
                }
                std::thread::sleep(SETTLE);
            }
        }
        Ok(true)
    }
}

/// Why no rate will do: a server that refuses every transaction has no capacity for them, low or high. One
/// that went away meanwhile may come back.
fn refused(totals: &Totals, reconnects: u64) -> Option<String> {
    if totals.done > 0 || totals.failed == 0 || reconnects > 0 {
        return None;
    }
    let why = totals.main_error().map_or_else(String::new, |error| format!(": {error}"));
    Some(format!("none of {} transactions succeeded{why}", totals.arrivals))
}

/// The lowest rate that was tried, where none met the objective and the search went down until nothing was
/// due any more: that is an answer, though trials that did not count ended it.
fn lowest_missed(why: &Unsound, trials: &[Trial], loss: f64) -> Option<f64> {
    let missed = matches!(why, Unsound::NothingDue { .. }) && trials.iter().all(|trial| trial.loss() > loss);
    trials.iter().filter(|_| missed).map(|trial| trial.rate).min_by(f64::total_cmp)
}

/// The errors of a trial, where they alone are more than may be lost: its rate is then not to blame.
fn errors(totals: &Totals, loss: f64) -> Option<String> {
    let alone = totals.failed as f64 > loss * totals.arrivals as f64 && totals.failed >= totals.unfinished;
    let error = totals.main_error().filter(|_| alone)?;
    Some(format!("{} of {} failed: {error}", totals.failed, totals.arrivals))
}

fn minutes(seconds: f64) -> String {
    if seconds < 90.0 { format!("{seconds:.0} s") } else { format!("{:.1} min", seconds / 60.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_refuses_everything_ends_the_search_and_one_that_went_away_does_not() {
        let errors = [("error 1290".to_owned(), 50)].into();
        let totals = Totals { arrivals: 50, failed: 50, errors, ..Totals::default() };
        assert_eq!(refused(&totals, 0).as_deref(), Some("none of 50 transactions succeeded: error 1290"));
        assert_eq!(refused(&totals, 3), None);
        assert_eq!(refused(&Totals { done: 1, ..totals }, 0), None);
        assert_eq!(refused(&Totals::default(), 0), None);
    }

    #[test]
    fn a_trial_in_which_nothing_was_answered_has_no_time() {
        let objective = Objective::parse("p99 < 15ms").unwrap();
        let goal = Goal::new(objective, Duration::from_secs(10), 100.0, 1e6);
        let search = Search { goal, objective, file: None, longest: None };
        let trial = Trial { rate: 100.0, seconds: 3.0, due: 300, lost: 300, ..Trial::default() };
        let line = search.line(&trial, &[trial]);
        assert!(line.contains("p99        - ms, 100.00 % lost: misses it"), "{line}");
        let line = search.line(&Trial { at_objective_ms: 4.0, ..trial }, &[trial]);
        assert!(line.contains("p99     4.00 ms"), "{line}");
    }

    #[test]
    fn a_search_that_went_down_until_nothing_was_due_names_the_lowest_rate() {
        let trial = |rate, lost| Trial { rate, due: 100, lost, ..Trial::default() };
        let nothing = Unsound::NothingDue { seconds: 10.0 };
        let lowest = |why: &Unsound, trials: &[Trial]| lowest_missed(why, trials, 0.01);
        assert_eq!(lowest(&nothing, &[trial(8.0, 90), trial(2.0, 70), trial(4.0, 80)]), Some(2.0));
        assert_eq!(lowest(&nothing, &[trial(8.0, 90), trial(2.0, 1)]), None, "one met it");
        assert_eq!(lowest(&nothing, &[]), None, "nothing was ever due");
        let restarted = Unsound::Restarted { lost: 4, clients: 4 };
        assert_eq!(lowest(&restarted, &[trial(8.0, 90)]), None);
    }

    #[test]
    fn a_trial_that_errors_alone_make_bad_names_them_and_one_that_is_late_does_not() {
        let errors_of = |failed, unfinished| {
            let counted = [("error 1062".to_owned(), failed), ("not answered".to_owned(), unfinished)];
            let totals = Totals { arrivals: 1000, done: 900, failed, unfinished, ..Totals::default() };
            errors(&Totals { errors: counted.into(), ..totals }, 0.01)
        };
        assert_eq!(errors_of(60, 3).as_deref(), Some("60 of 1000 failed: error 1062"));
        assert_eq!(errors_of(10, 0), None, "that many may be lost");
        assert_eq!(errors_of(20, 80), None);
    }
}
