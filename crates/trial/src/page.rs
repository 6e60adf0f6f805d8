//! The report as one page that needs nothing else: no script, no font, no network.

use crate::report::{CellReport, HOST, LoadReport, Report, Standing};
use crate::text::{length, percent, settings, standing, warnings};
use crate::verdict::Verdict;
use chart::{Axis, Tone, escape};
use std::fmt::Write;
use std::time::Duration;

const STYLE: &str = include_str!("page.css");

/// The page.
pub fn html(report: &Report) -> String {
    let title = escape(&report.name);
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title}</title><style>{}{STYLE}</style><h1>{title}</h1>\n\
         <p class=\"soft\">{}, on {}: {} trials in {}. Ratios are to the baseline of the same block, with 95 % \
         intervals; verdicts are adjusted for looking at several cells (Holm, {:.0} %); the smallest effect of \
         interest is {:.1} %.</p>\n",
        chart::STYLE,
        escape(report.metric.words()),
        escape(&report.server),
        report.trials,
        length(Duration::from_secs_f64(report.seconds.max(0.0))),
        report.level * 100.0,
        report.smallest_effect * 100.0,
    );
    for (knob, then, now) in report.differ.iter().flatten() {
        let words = format!("{knob} was {then} and is {now}");
        let _ = writeln!(page, "<p class=\"said bad\">{}</p>", escape(&words));
    }
    for load in &report.loads {
        one_load(&mut page, report, load);
    }
    if !report.refused.is_empty() {
        page.push_str("<h2>Refused, never tried</h2>\n<table><tr><th>level</th><th>why</th></tr>\n");
        for level in &report.refused {
            let words = format!("{}={}", level.knob, level.level);
            let _ = writeln!(page, "<tr><td><code>{}</code><td>{}</tr>", escape(&words), escape(&level.why));
        }
        page.push_str("</table>\n");
    }
    page.push_str("<h2>Baseline</h2>\n<table>\n");
    for (knob, value) in &report.baseline {
        let _ = writeln!(page, "<tr><td><code>{}</code><td>{}</tr>", escape(knob), escape(value));
    }
    let _ = writeln!(
        page,
        "</table>\n<h2>To repeat it</h2>\n<p class=\"soft\">headroom {}, seed {}.</p>\n<pre>{}</pre>",
        escape(&report.version),
        report.seed,
        escape(&report.spec)
    );
    page
}

fn one_load(page: &mut String, report: &Report, load: &LoadReport) {
    let _ = writeln!(page, "<h2>{}</h2>", escape(&load.words));
    for warning in warnings(report, load) {
        let class = if load.void { "bad" } else { "warn" };
        let _ = writeln!(page, "<p class=\"said {class}\">{}</p>", escape(&warning));
    }
    match &load.winner {
        Some(winner) => {
            let _ = writeln!(
                page,
                "<p class=\"said good\"><b>Confirmed: <code>{}</code></b> {} (95 %: {} to {}). To set it for \
                 good:</p>\n<pre>{}</pre>",
                escape(&settings(&winner.settings)),
                percent(winner.ratio.estimate),
                percent(winner.ratio.low),
                percent(winner.ratio.high),
                escape(&winner.snippet)
            );
        }
        None if report.ended => {
            page.push_str("<p class=\"said\">No cell is confirmed better than the baseline.</p>\n");
        }
        None => {}
    }
    if let (Some(middle), Some((low, high))) = (load.baseline, load.baseline_range) {
        let _ = write!(page, "<p>Baseline: {middle:.1} ({low:.1} to {high:.1})");
        if let Some(noise) = load.noise {
            let _ = write!(page, "; noise of a trial {:.1} %", noise * 100.0);
        }
        if let Some(back) = load.back {
            let _ = write!(page, "; after everything {}", percent(back));
        }
        page.push_str(".</p>\n");
    }
    ranking(page, load);
    details(page, load);
    if !load.void_trials.is_empty() {
        page.push_str("<details><summary>Void trials</summary><table>\n");
        for (run, why) in &load.void_trials {
            let _ = writeln!(page, "<tr><td><code>{}</code><td>{}</tr>", escape(run), escape(why));
        }
        page.push_str("</table></details>\n");
    }
}

fn ranking(page: &mut String, load: &LoadReport) {
    page.push_str(
        "<table class=\"ranking chart\"><tr><th>cell</th><th>to the baseline</th><th>95 % interval</th><th></th>\
         <th>verdict</th></tr>\n",
    );
    let same = load.same.as_ref().map(|same| same.ratio);
    let logs = load.cells.iter().filter_map(|cell| cell.ratio).chain(same);
    let reach = logs.map(|ratio| ratio.low.ln().abs().max(ratio.high.ln().abs())).fold(0.05, f64::max);
    let axis = Axis::ratio(reach.min(3.0).exp());
    for cell in &load.cells {
        let estimate = match (&cell.ratio, cell.seen) {
            (Some(ratio), _) => percent(ratio.estimate),
            // No finding: seen in passing.
            (None, Some(seen)) => format!("<span class=\"soft\">({})</span>", percent(seen)),
            (None, None) => String::new(),
        };
        let (tone, words) = (tone(&cell.standing), standing(&cell.standing));
        line(page, &settings(&cell.settings), &estimate, cell.ratio, &axis, (tone, &escape(&words)));
    }
    if let Some(ratio) = same {
        let estimate = percent(ratio.estimate);
        let words = if load.void { "differs: void" } else { "no verdict" };
        line(page, "A/A cell (the baseline again)", &estimate, Some(ratio), &axis, (Tone::Plain, words));
    }
    page.push_str("</table>\n<p class=\"soft\">In brackets: seen in a stage that others were chosen in; no finding.</p>\n");
}

fn line(
    page: &mut String,
    name: &str,
    estimate: &str,
    ratio: Option<plan::Interval>,
    axis: &Axis,
    (tone, words): (Tone, &str),
) {
    let text = ratio.map_or_else(String::new, |one| format!("{} to {}", percent(one.low), percent(one.high)));
    let drawn = ratio.map_or_else(String::new, |one| {
        chart::interval(axis, one.estimate, (one.low, one.high), tone, &text)
    });
    let _ = writeln!(
        page,
        "<tr><td><code>{}</code><td class=\"n\">{estimate}<td class=\"n\">{text}<td>{drawn}<td><b \
         class=\"{}\">{words}</b></tr>",
        escape(name),
        tone.class()
    );
}

fn tone(standing: &Standing) -> Tone {
    match standing {
        Standing::Judged { verdict: Verdict::Better } => Tone::Good,
        Standing::Judged { verdict: Verdict::Worse } | Standing::GivenUp { .. } => Tone::Bad,
        Standing::Refused { .. } => Tone::Warn,
        _ => Tone::Plain,
    }
}

fn details(page: &mut String, load: &LoadReport) {
    page.push_str(
        "<details><summary>Each cell: figures and the host</summary><table><tr><th>cell</th><th>a second</th>\
         <th>p99, ms</th>",
    );
    for name in HOST {
        let _ = write!(page, "<th>{name}</th>");
    }
    page.push_str("<th>trials</th></tr>\n");
    for CellReport { settings: set, per_second, p99_ms, host, figures, .. } in &load.cells {
        let figure = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.1}"));
        let _ = write!(
            page,
            "<tr><td><code>{}</code><td class=\"n\">{}<td class=\"n\">{}",
            escape(&settings(set)),
            figure(*per_second),
            figure(*p99_ms)
        );
        for (at, _) in HOST.iter().enumerate() {
            let value = host.get(at).map(|value| {
                // The first are shares.
                if at < 4 { format!("{:.0} %", value * 100.0) } else { format!("{value:.2}") }
            });
            let _ = write!(page, "<td class=\"n\">{}", value.unwrap_or_default());
        }
        let all: Vec<String> = figures
            .iter()
            .map(|(stage, block, figure)| format!("{}.{}: {figure:.1}", stage + 1, block + 1))
            .collect();
        let _ = writeln!(page, "<td class=\"soft\">{}</tr>", all.join(", "));
    }
    page.push_str("</table></details>\n");
}
