//! The run as Markdown that reads as well on a terminal, and what was asked beside what came of it.

use super::super::promise::{self, Promise};
use super::super::report::section::section;
use super::{Meanwhile, Report, SearchResult};
use plan::quantile::median;

/// What a known limit may be missed by.
const KNOWN: f64 = 0.03;
/// How far the repetitions may lie apart.
const REPEATED: f64 = 0.05;

/// The whole summary.
pub(super) fn markdown(report: &Report) -> String {
    let mut text =
        format!("# headroom measure against known limits, {}\n\n{}\n\n", report.date, report.machine.line());
    for warning in report.machine.warnings() {
        text.push_str(&format!("**{warning}**\n\n"));
    }
    text.push_str(&promise::table(&report.promises));
    let number = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    let rows = report.searches.iter().map(|searched| {
        vec![
            searched.case.clone(),
            searched.objective.clone(),
            number(searched.exact),
            number(searched.rate()),
            number(searched.capacity.and_then(|found| found.lower)),
            number(searched.capacity.and_then(|found| found.upper)),
            number(searched.capacity.and_then(|found| found.nine_of_ten)),
            number(searched.capacity.and_then(|found| found.one_of_ten)),
            searched.trials.len().to_string(),
            searched.voided.len().to_string(),
            format!("{:.0}", searched.trials.iter().map(|trial| trial.seconds).sum::<f64>()),
        ]
    });
    let head = [
        "server",
        "objective",
        ">exact",
        ">found",
        ">90 % from",
        ">to",
        ">nine of ten meet it",
        ">one of ten",
        ">trials",
        ">did not count",
        ">seconds",
    ];
    text.push_str(&section("Searches", &head, rows));
    for searched in &report.searches {
        if let Some(refused) = &searched.refused {
            text.push_str(&format!("{}, no figure: {refused}\n\n", searched.case));
        }
    }
    let rows = report.meanwhile.iter().map(|Meanwhile { case, looks }| {
        let range = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all.first().zip(all.last()).map_or_else(
                || "-".to_owned(),
                |(least, most)| format!("{:.0} ({least:.0} to {most:.0})", median(&all).unwrap_or(f64::NAN)),
            )
        };
        vec![
            case.clone(),
            looks.len().to_string(),
            range(looks.iter().map(|look| look.p99_us).collect()),
            range(looks.iter().map(|look| look.beyond * 1e6).collect()),
        ]
    });
    let head = ["searches", ">looks", ">p99 of a stall, us", ">moments in a million that wait over 50 us"];
    text.push_str(&section("What the machine was like meanwhile: median (least to most)", &head, rows));
    text
}

/// What was asked of the searches.
pub(super) fn promises(searches: &[SearchResult]) -> Vec<Promise> {
    let known = searches.iter().filter_map(|searched| {
        let exact = searched.exact?;
        let rate = searched.rate();
        let off = rate.map(|rate| rate / exact - 1.0);
        Some(Promise {
            asked: format!(
                "{}, {}: {exact:.1} a second, within {:.0} %",
                searched.case,
                searched.objective,
                KNOWN * 100.0
            ),
            measured: match (rate, off) {
                (Some(rate), Some(off)) => format!("{rate:.1} ({:+.1} %)", off * 100.0),
                _ => searched.refused.clone().unwrap_or_default(),
            },
            met: Some(off.is_some_and(|off| off.abs() <= KNOWN)),
        })
    });
    let mut promises: Vec<Promise> = known.collect();
    let mut cases: Vec<&str> = searches.iter().filter(|s| s.exact.is_none()).map(|s| &*s.case).collect();
    cases.dedup();
    for case in cases {
        let of_case: Vec<&SearchResult> = searches.iter().filter(|searched| searched.case == case).collect();
        promises.extend(repeated(&of_case));
    }
    promises
}

/// How far apart the searches for one limit are.
fn repeated(searches: &[&SearchResult]) -> Option<Promise> {
    let first = searches.first()?;
    let mut rates: Vec<f64> = searches.iter().filter_map(|searched| searched.rate()).collect();
    let all: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
    rates.sort_by(f64::total_cmp);
    let apart = rates.first().zip(rates.last()).map(|(least, most)| most / least - 1.0);
    let without = searches.len() - rates.len();
    let mut measured = if rates.is_empty() { "no figure".to_owned() } else { all.join(", ") };
    if let Some(apart) = apart.filter(|_| rates.len() > 1) {
        measured += &format!(": {:.1} % apart", apart * 100.0);
    }
    if without > 0 && !rates.is_empty() {
        measured += &format!(", {without} without a figure");
    }
    Some(Promise {
        asked: format!(
            "{}, {}: {} searches at most {:.0} % apart",
            first.case,
            first.objective,
            searches.len(),
            REPEATED * 100.0
        ),
        measured,
        met: Some(without == 0 && apart.is_some_and(|apart| apart <= REPEATED)),
    })
}
