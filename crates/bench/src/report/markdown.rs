//! The summary as a page of Markdown, and the part of it that a terminal shows.

use super::section::section;
use super::{Report, Row, goal, shown};
use crate::sample::Metric;
use crate::schedule::{Condition, Subject};
use std::fmt::Write;

const NONE: &str = "-";

/// The whole page: warnings, tables, goals, machine.
pub(crate) fn page(report: &Report) -> String {
    let mut page = format!("# The relay beside HAProxy and a direct connection, {}\n\n", report.date);
    page += &tables(report);
    page += &facts(report);
    page
}

/// Warnings, tables and goals: what the terminal shows.
pub(crate) fn tables(report: &Report) -> String {
    let mut page = String::new();
    for warning in &report.warnings {
        let _ = writeln!(page, "> **Careful:** {warning}.\n");
    }
    let _ = write!(
        page,
        "Point selects in the text protocol; clients, relay and server share {} cores. Figures are medians over {};\n\
         ratios compare within a round: geometric mean [95 % interval].\n\n",
        report.machine.cores,
        report.plan.rounds_in_words()
    );
    page += &load(report);
    page += &ratios(report);
    page += &memory(report);
    page += &connect(report);
    page += &goals(report);
    page
}

fn load(report: &Report) -> String {
    let head = [
        ">clients",
        "through",
        ">QPS",
        ">p50 ms",
        ">p99 ms",
        ">CPU us/query",
        ">server CPU us/query",
        ">resident MiB",
    ];
    let rows = loads(report).map(|row| {
        vec![
            clients(row.condition),
            row.subject.to_string(),
            figure(row, Metric::Qps, 0),
            figure(row, Metric::P50Ms, 3),
            figure(row, Metric::P99Ms, 3),
            figure(row, Metric::CpuUs, 1),
            figure(row, Metric::ServerCpuUs, 1),
            mebibytes(row, Metric::LoadedKib),
        ]
    });
    section("Under load", &head, rows)
}

/// Queries a second to everybody else; tails and CPU to those that people ask about first.
fn ratios(report: &Report) -> String {
    let others = report.plan.subjects.iter().filter(|s| {
        use Subject::{HaproxyAgain, Headroom, HeadroomZeroHop, HeadroomZeroHopInsight};
        !matches!(s, Headroom | HeadroomZeroHop | HeadroomZeroHopInsight | HaproxyAgain)
    });
    let mut columns: Vec<(Metric, Subject)> = others.map(|&other| (Metric::Qps, other)).collect();
    columns.extend([
        (Metric::P99Ms, Subject::Direct),
        (Metric::P99Ms, Subject::Haproxy),
        (Metric::CpuUs, Subject::Haproxy),
    ]);
    let mut head = vec![">clients".to_owned(), "through".to_owned()];
    head.extend(columns.iter().map(|(metric, other)| format!(">{} to {other}", metric.words())));
    let rows = loads(report).filter(|row| row.subject != Subject::Direct).map(|row| {
        let mut line = vec![clients(row.condition), row.subject.to_string()];
        line.extend(columns.iter().map(|&(metric, other)| ratio(row, other, metric)));
        line
    });
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    section("Ratios", &head, rows)
}

fn memory(report: &Report) -> String {
    let head = [">idle sessions", "through", ">empty MiB", ">with them MiB", ">they add MiB", ">KiB each"];
    let rows = report.summary.iter().filter_map(|row| {
        let Condition::Load { idle, .. } = row.condition else { return None };
        let each = row.medians.get(&Metric::IdleSessionKib)?;
        Some(vec![
            idle.to_string(),
            row.subject.to_string(),
            mebibytes(row, Metric::EmptyKib),
            mebibytes(row, Metric::IdleKib),
            mebibytes(row, Metric::SessionsKib),
            format!("{each:.1}"),
        ])
    });
    section("Memory of idle sessions", &head, rows)
}

fn connect(report: &Report) -> String {
    let head = ["through", ">p50 us", ">p99 us", ">p50 to direct", ">p50 to haproxy"];
    let rows =
        report.summary.iter().filter(|row| matches!(row.condition, Condition::Connect { .. })).map(|row| {
            vec![
                row.subject.to_string(),
                figure(row, Metric::ConnectP50Us, 0),
                figure(row, Metric::ConnectP99Us, 0),
                ratio(row, Subject::Direct, Metric::ConnectP50Us),
                ratio(row, Subject::Haproxy, Metric::ConnectP50Us),
            ]
        });
    section("Connect, one query, close", &head, rows)
}

/// What is asked and whether the intervals say that it is so.
fn goals(report: &Report) -> String {
    section("Asked and measured", &["asked", "measured", "verdict"], goal::rows(report))
}

fn facts(report: &Report) -> String {
    let machine = &report.machine;
    let mut page = "## Machine\n\n".to_owned();
    let _ = writeln!(page, "- {}, {} cores, {} GiB", machine.cpu, machine.cores, machine.memory_gib);
    let _ = writeln!(page, "- {}, Linux {}", machine.system, machine.kernel);
    for (name, version) in &machine.programs {
        let _ = writeln!(page, "- {name}: {version}");
    }
    let _ = writeln!(page, "- CPU used by others before the run: {:.0} %", machine.busy_before * 100.0);
    let _ = writeln!(page, "- order drawn from seed {}", report.plan.seed);
    page
}

fn loads(report: &Report) -> impl Iterator<Item = &Row> {
    report.summary.iter().filter(|row| matches!(row.condition, Condition::Load { .. }))
}

fn clients(condition: Condition) -> String {
    match condition {
        Condition::Load { clients, idle: 0 } => clients.to_string(),
        Condition::Load { clients, idle } => format!("{clients} + {idle} idle"),
        Condition::Connect { .. } => NONE.to_owned(),
    }
}

fn figure(row: &Row, metric: Metric, decimals: usize) -> String {
    row.medians.get(&metric).map_or_else(|| NONE.to_owned(), |value| grouped(*value, decimals))
}

fn mebibytes(row: &Row, metric: Metric) -> String {
    row.medians.get(&metric).map_or_else(|| NONE.to_owned(), |kib| format!("{:.1}", kib / 1024.0))
}

fn ratio(row: &Row, other: Subject, metric: Metric) -> String {
    row.ratio(other, metric).map_or_else(|| NONE.to_owned(), |ratio| shown(&ratio))
}

/// `34512.3` -> `34,512`.
fn grouped(value: f64, decimals: usize) -> String {
    if decimals > 0 || value < 1000.0 {
        return format!("{value:.decimals$}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn the_page_has_every_subject_its_ratios_and_the_goals() {
        let page = page(&report());
        for expected in [
            "|        16 | headroom | 28,000 |",
            "| 16 + 1000 idle |",
            "1.40 [1.40, 1.40]",
            "| headroom, 16 clients: QPS at least 1.4 x haproxy's | 1.40 [1.40, 1.40] | met |",
            "| headroom, 16 clients, 1000 idle: KiB a session at most 4 |",
            "- headroom: 0.1.0 (release build)",
        ] {
            let loose = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(loose(&page).contains(&loose(expected)), "{expected} is missing in\n{page}");
        }
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(1_234_567.4, 0), "1,234,567");
        assert_eq!(grouped(999.6, 0), "1000");
        assert_eq!(grouped(0.5251, 3), "0.525");
    }
}
