//! Figures of all trials of one run: its middle, how unsteady it was from second to second, and why.

use crate::order::Run;
use crate::store::{Measured, Outcome, Second, Trial};
use plan::quantile::{median, quantile, sorted};
use serde::Serialize;
use std::collections::BTreeMap;

/// Names of the host's figures; the first four are shares.
pub const HOST: [&str; 9] = [
    "CPU busy",
    "in the kernel",
    "soft interrupts",
    "waiting for disks",
    "context switches a transaction",
    "KiB read a transaction",
    "KiB written a transaction",
    "flushes a transaction",
    "soft interrupts, us a transaction",
];

#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// The middle of its transactions a second.
    pub per_second: Option<f64>,
    /// The middle of its p99, ms.
    pub p99_ms: Option<f64>,
    /// Of transactions in a second, over all seconds of all trials; a second in which none ended is one of
    /// them.
    pub seconds: Option<Spread>,
    /// Of p99 in a second, ms, over those in which a transaction ended.
    pub p99_seconds: Option<Spread>,
    /// The middle of the host's figures, in the order of [`HOST`]; the last is missing in experiments that
    /// did not keep how many CPUs there were.
    pub host: Vec<f64>,
    /// What `diagnose` named most often while it ran, and in how many of its trials.
    pub bottleneck: Option<(String, usize)>,
    /// Trials that were measured.
    pub trials: usize,
}

/// Where the middle lies and where nine of ten do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub low: f64,
    pub middle: f64,
    pub high: f64,
}

impl Spread {
    fn of(values: Vec<f64>) -> Option<Self> {
        let values = sorted(values);
        let at = |q| quantile(&values, q);
        Some(Self { low: at(0.05)?, middle: at(0.5)?, high: at(0.95)? })
    }

    /// How far apart nine of ten lie, as a share of the middle: what Pinterest called variance.
    pub fn width(&self) -> f64 {
        if self.middle > 0.0 { (self.high - self.low) / self.middle } else { 0.0 }
    }
}

/// The p99 of a second; in one without a transaction there is none, and not one of 0 ms.
fn known_p99(done: f64, p99_ms: f64) -> Option<f64> {
    (done > 0.0).then_some(p99_ms)
}

pub fn measured(trial: &Trial) -> Option<&Measured> {
    match &trial.outcome {
        Outcome::Measured(measured) => Some(measured),
        _ => None,
    }
}

impl Figures {
    /// Of all trials of a run.
    pub fn of(trials: &[&Trial], run: Run) -> Self {
        let all: Vec<&Measured> =
            trials.iter().filter(|trial| trial.run == run).filter_map(|trial| measured(trial)).collect();
        let middle = |of: &dyn Fn(&Measured) -> f64| median(&sorted(all.iter().map(|one| of(one)).collect()));
        let seconds = |of: fn(&Second) -> Option<f64>| {
            Spread::of(all.iter().flat_map(|one| &one.series).filter_map(of).collect())
        };
        let softirq_us = || {
            // Those of the machine that was measured: another one may render the report.
            let of = |one: &&Measured| {
                Some(one.host.softirq * f64::from(one.host.cpus?) * 1e6 / one.window.per_second.max(1e-9))
            };
            median(&sorted(all.iter().filter_map(of).collect()))
        };
        let host = [
            middle(&|one| one.host.cpu),
            middle(&|one| one.host.system),
            middle(&|one| one.host.softirq),
            middle(&|one| one.host.iowait),
            middle(&|one| one.host.switches),
            middle(&|one| one.host.read_kib),
            middle(&|one| one.host.written_kib),
            middle(&|one| one.host.flushes),
            // The last, so that where it is not known nothing takes its place.
            softirq_us(),
        ];
        let mut named: BTreeMap<&str, usize> = BTreeMap::new();
        for name in all.iter().filter_map(|one| one.bottleneck.as_deref()) {
            *named.entry(name).or_default() += 1;
        }
        Self {
            per_second: middle(&|one| one.window.per_second),
            p99_ms: middle(&|one| one.window.p99_ms),
            seconds: seconds(|second| Some(second.done as f64)),
            p99_seconds: seconds(|second| known_p99(second.done as f64, second.p99_ms)),
            host: host.into_iter().flatten().collect(),
            bottleneck: named
                .into_iter()
                .max_by_key(|(_, count)| *count)
                .map(|(name, n)| (name.to_owned(), n)),
            trials: all.len(),
        }
    }
}

/// A second of a run within the last stage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// Since the last stage began, minutes.
    pub minute: f64,
    pub per_second: f64,
    pub p99_ms: f64,
}

impl Moment {
    /// Its p99, ms; `None` if no transaction ended in it.
    pub fn p99(&self) -> Option<f64> {
        known_p99(self.per_second, self.p99_ms)
    }
}

/// How a run went in the last stage, second by second.
pub fn course(trials: &[&Trial], stage: usize, run: Run) -> Vec<Moment> {
    let of_stage = || trials.iter().filter(|trial| trial.place.stage == stage);
    let Some(began) = of_stage().map(|trial| trial.at).min() else { return Vec::new() };
    let mut course = Vec::new();
    for trial in of_stage().filter(|trial| trial.run == run) {
        let Some(measured) = measured(trial) else { continue };
        let start = (trial.at - began) as f64 + (trial.seconds - measured.series.len() as f64).max(0.0);
        course.extend(measured.series.iter().enumerate().map(|(at, second)| Moment {
            minute: (start + at as f64) / 60.0,
            per_second: second.done as f64,
            p99_ms: second.p99_ms,
        }));
    }
    course
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Next, TrialSlot};
    use crate::store::HostFigures;
    use crate::store::tests::trial;

    #[test]
    fn a_second_in_which_nothing_ended_counts_as_one_and_has_no_p99() {
        let second = |done, p99_ms| Second { done, p99_ms, ..Second::default() };
        // Every second one stands still.
        let series = [second(100, 5.0), second(0, 0.0)].into_iter().cycle().take(20).collect();
        let measured = Measured { figure: 50.0, series, ..Measured::default() };
        let place = TrialSlot { load: 0, stage: 0, block: 0, position: 0, attempt: 0 };
        let next = Next { place, run: Run::Baseline, slow_before: false };
        let one = trial(next, Outcome::Measured(Box::new(measured)));
        let found = Figures::of(&[&one], Run::Baseline);
        assert_eq!(found.seconds.map(|spread| (spread.low, spread.high)), Some((0.0, 100.0)));
        assert_eq!(found.p99_seconds.map(|spread| (spread.low, spread.high)), Some((5.0, 5.0)));
        let course = course(&[&one], 0, Run::Baseline);
        assert_eq!(course[..2].iter().map(Moment::p99).collect::<Vec<_>>(), [Some(5.0), None]);
    }

    #[test]
    fn soft_interrupts_a_transaction_are_of_the_cpus_that_were_measured() {
        let of = |cpus| {
            let window = crate::guard::Window { per_second: 1_000.0, ..Default::default() };
            let host = HostFigures { softirq: 0.1, cpus, ..HostFigures::default() };
            let measured = Measured { figure: 1_000.0, window, host, ..Measured::default() };
            let place = TrialSlot { load: 0, stage: 0, block: 0, position: 0, attempt: 0 };
            let one = trial(
                Next { place, run: Run::Baseline, slow_before: false },
                Outcome::Measured(Box::new(measured)),
            );
            Figures::of(&[&one], Run::Baseline).host
        };
        // A tenth of 48 CPUs over a thousand transactions a second.
        assert!((of(Some(48))[8] - 4_800.0).abs() < 1e-6, "{:?}", of(Some(48)));
        assert_eq!(of(None).len(), HOST.len() - 1, "an older experiment shows none");
    }
}
