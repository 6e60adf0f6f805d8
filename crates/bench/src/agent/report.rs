//! What was measured: every trial as it was, medians with their range, ratios within rounds, what is asked
//! beside what came of it.

use super::super::report::section::section;
use super::fixture::Subject;
use plan::Ratio;
use plan::quantile::median;
use probe::Machine;
use serde::Serialize;

/// What is asked of the agent.
const ASKED_SHARE: f64 = 0.005;
const ASKED_MIB: f64 = 20.0;

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Trial {
    pub(super) round: u32,
    pub(super) subject: &'static str,
    /// User and system time over time: 1 is one core.
    pub(super) cpu_share: f64,
    /// The same of the server that is watched, its own work included.
    pub(super) server_cpu_share: f64,
    /// The most that was resident.
    pub(super) resident_kib: u64,
    /// The most of its own data alone.
    pub(super) anonymous_kib: u64,
    pub(super) scrapes: u32,
    pub(super) failed: u32,
    /// Of one scrape.
    pub(super) bytes: usize,
    pub(super) seconds: f64,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    pub(super) date: String,
    pub(super) machine: Machine,
    pub(super) rounds: u32,
    pub(super) seconds: u32,
    pub(super) warm_up: u32,
    pub(super) tables: u32,
    pub(super) rate: u32,
    pub(super) trials: Vec<Trial>,
}

/// A figure of a trial, and how it is written.
struct Column {
    head: &'static str,
    of: fn(&Trial) -> f64,
    text: fn(f64) -> String,
}

const COLUMNS: [Column; 4] = [
    Column { head: "CPU, % of a core", of: |t| t.cpu_share * 100.0, text: |v| format!("{v:.3}") },
    Column { head: "resident MiB", of: |t| t.resident_kib as f64 / 1024.0, text: |v| format!("{v:.1}") },
    Column { head: "own data MiB", of: |t| t.anonymous_kib as f64 / 1024.0, text: |v| format!("{v:.1}") },
    Column { head: "server CPU, %", of: |t| t.server_cpu_share * 100.0, text: |v| format!("{v:.2}") },
];

impl Run {
    /// Whether the agent costs at most what is asked, by medians, and answered every scrape.
    pub(super) fn kept(&self) -> bool {
        let within =
            |column: &Column, most: f64| self.median(Subject::Agent, column).is_some_and(|v| v <= most);
        within(&COLUMNS[0], ASKED_SHARE * 100.0)
            && within(&COLUMNS[1], ASKED_MIB)
            && self.trials.iter().all(|trial| trial.failed == 0)
    }

    /// Tables for people.
    pub(super) fn markdown(&self) -> String {
        let Self { date, rounds, seconds, warm_up, tables, rate, machine, .. } = self;
        let mut text = format!(
            "# The agent beside the exporters, {date}\n\n{rounds} rounds; in each the agent, then node_exporter and mysqld_exporter \
             together, {seconds} s after {warm_up} s of warm-up, scraped once a second. A server with {tables} tables and {rate} statements a \
             second. Medians, least and most in brackets. CPU is counted in ticks of 10 ms.\n\n{}, {} cores, {:.0} GiB, Linux {}, {}. {}\n\n",
            machine.cpu,
            machine.cores,
            machine.memory_gib,
            machine.kernel,
            machine.system,
            machine
                .programs
                .iter()
                .map(|(name, version)| format!("{name} {version}"))
                .collect::<Vec<_>>()
                .join("; "),
        );
        if machine.was_busy() {
            text.push_str(&format!(
                "**Others used {:.0} % of the CPUs just before: these figures are not the programs' alone.**\n\n",
                machine.busy_before * 100.0
            ));
        }
        let heads: Vec<String> = std::iter::once("subject".to_owned())
            .chain(COLUMNS.iter().map(|c| format!(">{}", c.head)))
            .collect();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let row = |subject: Subject| {
            let cells = COLUMNS.iter().map(|column| self.cell(subject, column));
            std::iter::once(subject.name().to_owned()).chain(cells).collect()
        };
        text.push_str(&section("Cost", &heads, Subject::ALL.into_iter().map(row)));
        let ratios = COLUMNS.iter().map(|column| vec![column.head.to_owned(), self.ratio(column)]);
        text.push_str(&section("Exporters over agent", &["figure", ">ratio"], ratios));
        let asked = [
            ("CPU of the agent, % of a core", ASKED_SHARE * 100.0, &COLUMNS[0]),
            ("resident memory of the agent, MiB", ASKED_MIB, &COLUMNS[1]),
        ];
        let asked = asked.map(|(what, most, column)| {
            let found = self.median(Subject::Agent, column);
            let kept = found.is_some_and(|found| found <= most);
            vec![
                what.to_owned(),
                format!("at most {most}"),
                found.map_or("-".to_owned(), column.text),
                if kept { "yes" } else { "NO" }.to_owned(),
            ]
        });
        text.push_str(&section("Asked", &["what", ">asked", ">measured", "kept"], asked.into_iter()));
        text
    }

    fn values(&self, subject: Subject, column: &Column) -> Vec<f64> {
        self.trials.iter().filter(|t| t.subject == subject.name()).map(|t| (column.of)(t)).collect()
    }

    fn median(&self, subject: Subject, column: &Column) -> Option<f64> {
        median(&self.values(subject, column))
    }

    fn cell(&self, subject: Subject, column: &Column) -> String {
        let values = self.values(subject, column);
        let Some(middle) = median(&values) else { return "-".to_owned() };
        let end = |of: fn(f64, f64) -> f64| (column.text)(values.iter().copied().fold(middle, of));
        format!("{} [{}, {}]", (column.text)(middle), end(f64::min), end(f64::max))
    }

    fn ratio(&self, column: &Column) -> String {
        let exporters = self.values(Subject::Exporters, column);
        let pairs: Vec<(f64, f64)> = exporters.into_iter().zip(self.values(Subject::Agent, column)).collect();
        match Ratio::of(&pairs) {
            Some(Ratio { mean, interval: Some((from, to)), .. }) => format!("{mean:.2} [{from:.2}, {to:.2}]"),
            Some(Ratio { mean, .. }) => format!("{mean:.2}"),
            None => "-".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(round: u32, subject: Subject, cpu_share: f64, mib: u64) -> Trial {
        Trial {
            round,
            subject: subject.name(),
            cpu_share,
            server_cpu_share: 0.02,
            resident_kib: mib * 1024,
            anonymous_kib: mib * 512,
            scrapes: 60,
            failed: 0,
            bytes: 10_000,
            seconds: 60.0,
        }
    }

    fn run(share: f64, mib: u64) -> Run {
        let machine = Machine {
            cpu: "a CPU".into(),
            cores: 2,
            memory_gib: 16.0,
            kernel: "6.1".into(),
            system: "Debian".into(),
            programs: vec![],
            busy_before: 0.0,
        };
        let trials = (1..=3).flat_map(|round| {
            [trial(round, Subject::Agent, share, mib), trial(round, Subject::Exporters, 0.04, 60)]
        });
        let trials = trials.collect();
        Run {
            date: "2026-11-22".into(),
            machine,
            rounds: 3,
            seconds: 60,
            warm_up: 15,
            tables: 1000,
            rate: 100,
            trials,
        }
    }

    #[test]
    fn what_is_asked_is_kept_by_medians_and_the_ratio_is_the_exporters_over_the_agent() {
        let good = run(0.004, 15);
        assert!(good.kept());
        let text = good.markdown();
        assert!(text.contains("10.00 [10.00, 10.00]") && text.contains("0.400 [0.400, 0.400]"), "{text}");
        assert!(!run(0.006, 15).kept() && !run(0.004, 21).kept());
        assert!(run(0.006, 15).markdown().contains("NO"));
    }
}
