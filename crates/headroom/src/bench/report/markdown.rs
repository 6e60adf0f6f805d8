//! The summary as a page of Markdown, and the part of it that a terminal shows.

use super::section::section;
use super::{GOAL, GOAL_CLIENTS, Report, Row};
use crate::bench::plan::{Condition, Subject};
use crate::bench::sample::Metric;
use crate::bench::statistics::Ratio;
use std::fmt::Write;

const NONE: &str = "-";

/// The whole page: warnings, tables, goal, machine.
pub(crate) fn page(report: &Report) -> String {
    let mut page = format!("# The relay beside HAProxy and a direct connection, {}\n\n", report.date);
    page += &tables(report);
    page += &facts(report);
    page
}

/// Warnings, tables and goal: what the terminal shows.
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
    page += &goal(report);
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
    let others = report
        .plan
        .subjects
        .iter()
        .filter(|s| !matches!(s, Subject::Headroom | Subject::HeadroomZeroHop | Subject::HaproxyAgain));
    let mut columns: Vec<(Metric, Subject)> = others.map(|&other| (Metric::Qps, other)).collect();
    columns.extend([
        (Metric::P99Ms, Subject::Direct),
        (Metric::P99Ms, Subject::Haproxy),
        (Metric::CpuUs, Subject::Haproxy),
    ]);
    let mut head = vec![">clients".to_owned(), "through".to_owned()];
    head.extend(columns.iter().map(|(metric, other)| format!(">{} to {other}", short(*metric))));
    let rows = loads(report).filter(|row| row.subject != Subject::Direct).map(|row| {
        let mut line = vec![clients(row.condition), row.subject.to_string()];
        line.extend(columns.iter().map(|&(metric, other)| ratio(row, other, metric)));
        line
    });
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    section("Ratios", &head, rows)
}

fn short(metric: Metric) -> &'static str {
    match metric {
        Metric::Qps => "QPS",
        Metric::P99Ms => "p99",
        Metric::CpuUs => "CPU",
        _ => "figure",
    }
}

fn memory(report: &Report) -> String {
    let head = [">idle sessions", "through", ">empty MiB", ">with them MiB", ">they add MiB", ">KiB each"];
    let rows = report.summary.iter().filter_map(|row| {
        let Condition::Load { idle, .. } = row.condition else { return None };
        let added = row.medians.get(&Metric::SessionsKib)?;
        Some(vec![
            idle.to_string(),
            row.subject.to_string(),
            mebibytes(row, Metric::EmptyKib),
            mebibytes(row, Metric::IdleKib),
            mebibytes(row, Metric::SessionsKib),
            format!("{:.1}", added / f64::from(idle)),
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

/// The goal and whether the interval lies on one side of it.
fn goal(report: &Report) -> String {
    let Some(ratio) = report.goal() else { return String::new() };
    let verdict = match ratio.interval {
        None => "one round cannot tell",
        Some((low, _)) if low >= GOAL => "met: all of the interval is there",
        Some((_, high)) if high < GOAL => "missed: all of the interval is below",
        Some(_) if ratio.mean >= GOAL => "met on average, but the interval reaches below",
        Some(_) => "missed on average, but the interval reaches it",
    };
    format!(
        "Goal: at least {GOAL} x HAProxy's QPS at {GOAL_CLIENTS} clients on two cores. Measured {} on {} cores: {verdict}.\n\n",
        shown(&ratio),
        report.machine.cores
    )
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

fn shown(ratio: &Ratio) -> String {
    match ratio.interval {
        Some((low, high)) => format!("{:.2} [{low:.2}, {high:.2}]", ratio.mean),
        None => format!("{:.2}", ratio.mean),
    }
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
    fn the_page_has_every_subject_its_ratios_and_the_goal() {
        let page = page(&report());
        for expected in [
            "|        16 | headroom | 28,000 |",
            "| 16 + 1000 idle |",
            "1.40 [1.40, 1.40]",
            "Goal: at least 1.3 x HAProxy's QPS at 16 clients",
            "met: all of the interval is there",
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
