//! From samples to the summary: medians of each subject, ratios inside rounds, and what is remarkable.

use super::sample::{Metric, Sample};
use super::schedule::{Condition, Plan, Subject};
use plan::Ratio;
use plan::quantile::median;
use probe::Machine;
use serde::Serialize;
use std::collections::BTreeMap;

mod goal;
pub(crate) mod markdown;
pub(crate) mod section;

/// The clients at which HAProxy measured twice is compared with itself.
const CONTROL_CLIENTS: u32 = 16;

/// All that is kept of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Report {
    /// `YYYY-MM-DD`, UTC.
    pub(crate) date: String,
    /// Where.
    pub(crate) machine: Machine,
    /// What was asked for.
    pub(crate) plan: Plan,
    /// What a reader must know before the figures.
    pub(crate) warnings: Vec<String>,
    /// One entry a condition and subject.
    pub(crate) summary: Vec<Row>,
    /// Everything that was measured.
    pub(crate) samples: Vec<Sample>,
}

/// A subject under a condition, over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// Under what.
    pub(crate) condition: Condition,
    /// Who.
    pub(crate) subject: Subject,
    /// Median over the rounds.
    pub(crate) medians: BTreeMap<Metric, f64>,
    /// To each other subject in the same round.
    pub(crate) to: BTreeMap<Subject, BTreeMap<Metric, Ratio>>,
}

impl Row {
    /// A figure of this subject as a multiple of another's.
    pub(crate) fn ratio(&self, other: Subject, metric: Metric) -> Option<Ratio> {
        self.to.get(&other)?.get(&metric).copied()
    }
}

impl Report {
    /// Summarises the samples.
    pub(crate) fn new(date: String, machine: Machine, plan: Plan, samples: Vec<Sample>) -> Self {
        let summary = summarise(&plan, &samples);
        let mut warnings = warnings(&machine, &plan);
        warnings.extend(control_failed(&summary));
        Self { date, machine, plan, warnings, summary, samples }
    }

    /// The row of a subject under a condition.
    pub(crate) fn row(&self, condition: Condition, subject: Subject) -> Option<&Row> {
        self.summary.iter().find(|row| row.condition == condition && row.subject == subject)
    }
}

fn warnings(machine: &Machine, plan: &Plan) -> Vec<String> {
    let mut warnings = machine.warnings();
    if plan.rounds < 3 || plan.rounds * plan.seconds < 30 {
        warnings.push(format!(
            "a smoke run ({}): it shows that everything works, not how fast",
            plan.rounds_in_words()
        ));
    }
    warnings
}

/// The control is the same program as what it is compared with: an interval without 1 in it is a false alarm,
/// about one time in twenty, or a fault of the method.
fn control_failed(summary: &[Row]) -> Option<String> {
    let control = Condition::Load { clients: CONTROL_CLIENTS, idle: 0 };
    let row = summary.iter().find(|row| row.condition == control && row.subject == Subject::HaproxyAgain)?;
    let (low, high) = row.ratio(Subject::Haproxy, Metric::Qps)?.interval?;
    (low > 1.0 || high < 1.0).then(|| {
        format!(
            "HAProxy measured twice differs from itself ({low:.2} to {high:.2} at {CONTROL_CLIENTS} clients): \
             do not trust this run's intervals"
        )
    })
}

fn summarise(plan: &Plan, samples: &[Sample]) -> Vec<Row> {
    let mut rows = Vec::new();
    for &condition in &plan.conditions {
        let here: Vec<&Sample> = samples.iter().filter(|sample| sample.condition == condition).collect();
        for &subject in &plan.subjects {
            let medians = Metric::ALL.iter().filter_map(|&metric| {
                let values: Vec<f64> =
                    here.iter().filter(|s| s.subject == subject).filter_map(|s| s.value(metric)).collect();
                Some((metric, median(&values)?))
            });
            let others = plan.subjects.iter().filter(|&&other| other != subject);
            let to = others.map(|&other| (other, ratios(&here, subject, other))).collect();
            rows.push(Row { condition, subject, medians: medians.collect(), to });
        }
    }
    rows
}

/// Every metric of `subject` to that of `other` in the same round.
fn ratios(samples: &[&Sample], subject: Subject, other: Subject) -> BTreeMap<Metric, Ratio> {
    let of = |who: Subject, round: u32| samples.iter().find(|s| s.subject == who && s.round == round);
    let rounds: Vec<u32> = samples.iter().filter(|s| s.subject == subject).map(|s| s.round).collect();
    let ratio = |metric: Metric| {
        let pair =
            |&round: &u32| Some((of(subject, round)?.value(metric)?, of(other, round)?.value(metric)?));
        let pairs: Vec<(f64, f64)> = rounds.iter().filter_map(pair).collect();
        Some((metric, Ratio::of(&pairs)?))
    };
    Metric::ALL.iter().filter_map(|&metric| ratio(metric)).collect()
}

/// A ratio with its interval.
fn shown(ratio: &Ratio) -> String {
    match ratio.interval {
        Some((low, high)) => format!("{:.2} [{low:.2}, {high:.2}]", ratio.mean),
        None => format!("{:.2}", ratio.mean),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::output::json_to_keep;
    use super::super::process::Memory;
    use super::super::sample::{Cost, Found};
    use super::super::sysbench::Outcome;
    use super::*;

    const SIXTEEN: Condition = Condition::Load { clients: 16, idle: 0 };
    const IDLE: Condition = Condition::Load { clients: 16, idle: 1000 };
    const CONNECT: Condition = Condition::Connect { cycles: 1000 };

    fn load(round: u32, subject: Subject, condition: Condition, qps: f64) -> Sample {
        let memory = |resident_kib| Memory { resident_kib, anonymous_kib: resident_kib / 2 };
        let cost =
            Cost { cpu_us: 1e6 / qps, empty: memory(8000), idle: memory(24_000), loaded: memory(26_000) };
        let clients = Outcome {
            queries: (qps * 8.0) as u64,
            seconds: 8.0,
            qps,
            p50_ms: 16e3 / qps,
            p99_ms: 40e3 / qps,
            p999_ms: 50e3 / qps,
            max_ms: 9.0,
            histogram: vec![(0.5, 3), (0.6, 4)],
        };
        let cost = (subject != Subject::Direct).then_some(cost);
        Sample {
            round,
            position: 1,
            subject,
            condition,
            found: Found::Load { clients, server_cpu_us: 20.0, cost },
        }
    }

    /// Three rounds in which the machine slows down while the ratios stay.
    pub(crate) fn report() -> Report {
        let subjects = vec![Subject::Direct, Subject::Haproxy, Subject::Headroom];
        let conditions = vec![SIXTEEN, IDLE, CONNECT];
        let plan = Plan { subjects, conditions, rounds: 3, seconds: 8, warm_up_seconds: 1, seed: 7 };
        let mut samples = Vec::new();
        for (round, mood) in [(1, 1.0), (2, 0.8), (3, 0.5)] {
            for (subject, qps) in
                [(Subject::Headroom, 35_000.0), (Subject::Haproxy, 25_000.0), (Subject::Direct, 60_000.0)]
            {
                samples.push(load(round, subject, SIXTEEN, qps * mood));
                samples.push(load(round, subject, IDLE, qps * mood));
                let found = Found::Connect { p50_us: 6e6 / qps, p99_us: 9e6 / qps };
                samples.push(Sample { round, position: 2, subject, condition: CONNECT, found });
            }
        }
        let machine = Machine {
            cpu: "a CPU".into(),
            cores: 2,
            memory_gib: 7.8,
            kernel: "6.1.0".into(),
            system: "Debian".into(),
            programs: vec![("headroom".into(), "0.1.0 (release build)".into())],
            busy_before: 0.01,
        };
        Report::new("2026-11-20".into(), machine, plan, samples)
    }

    #[test]
    fn ratios_are_taken_inside_rounds_so_a_machine_that_slows_down_does_not_move_them() {
        let report = report();
        let row = report.row(SIXTEEN, Subject::Headroom).unwrap();
        let ratio = row.ratio(Subject::Haproxy, Metric::Qps).unwrap();
        assert!((ratio.mean - 1.4).abs() < 1e-9 && ratio.rounds == 3, "{ratio:?}");
        assert!((row.medians[&Metric::Qps] - 28_000.0).abs() < 1e-6);
        assert!((row.ratio(Subject::Direct, Metric::P99Ms).unwrap().mean - 60.0 / 35.0).abs() < 1e-9);
    }

    #[test]
    fn a_direct_connection_has_no_process_and_nobody_is_compared_with_itself() {
        let report = report();
        let direct = report.row(SIXTEEN, Subject::Direct).unwrap();
        assert!(!direct.medians.contains_key(&Metric::CpuUs) && !direct.to.contains_key(&Subject::Direct));
        let headroom = report.row(SIXTEEN, Subject::Headroom).unwrap();
        assert_eq!(headroom.ratio(Subject::Direct, Metric::CpuUs), None);
        assert!(headroom.ratio(Subject::Haproxy, Metric::CpuUs).is_some());
    }

    #[test]
    fn idle_sessions_have_a_memory_of_their_own_only_where_there_are_any() {
        let report = report();
        let with = report.row(IDLE, Subject::Headroom).unwrap();
        assert_eq!(with.medians[&Metric::SessionsKib], 16_000.0);
        let without = report.row(SIXTEEN, Subject::Headroom).unwrap();
        assert!(!without.medians.contains_key(&Metric::SessionsKib));
    }

    #[test]
    fn the_file_is_json_with_every_sample_on_a_line_of_its_own() {
        let report = report();
        let text = json_to_keep(&report).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["samples"].as_array().unwrap().len(), report.samples.len());
        assert_eq!(value["samples"][0]["condition"]["clients"], 16);
        assert_eq!(value["summary"].as_array().unwrap().len(), 9);
        assert_eq!(text.lines().filter(|line| line.contains("\"position\"")).count(), report.samples.len());
    }

    #[test]
    fn a_control_that_differs_from_itself_is_reported() {
        let mut row = report().row(SIXTEEN, Subject::Headroom).unwrap().clone();
        row.subject = Subject::HaproxyAgain;
        assert!(control_failed(&[row.clone()]).unwrap().contains("1.40 to 1.40"));
        let even = Ratio { rounds: 3, median: 1.0, mean: 1.0, interval: Some((0.97, 1.03)) };
        row.to.get_mut(&Subject::Haproxy).unwrap().insert(Metric::Qps, even);
        assert_eq!(control_failed(&[row]), None);
    }

    #[test]
    fn a_smoke_run_and_a_busy_machine_say_so() {
        let mut report = report();
        report.machine.busy_before = 0.4;
        report.plan.rounds = 1;
        let warnings = warnings(&report.machine, &report.plan);
        assert!(
            warnings.iter().any(|w| w.contains("others used 40 %"))
                && warnings.iter().any(|w| w.contains("smoke"))
        );
    }
}
