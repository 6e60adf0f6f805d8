//! Runs of the history: one or two as a page, many as a list.

use crate::arrivals::Arrivals;
use crate::outcome::{KindOutcome, Moment, Outcome, Times};
use crate::store::Run;
use chart::{Line, Lines, escape};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;
use term::Table;
use time::OffsetDateTime;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1c2128;\
background:#fff}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;width:100%;\
font-variant-numeric:tabular-nums}td,th{padding:.25rem .6rem;border-bottom:1px solid #d8dee4;text-align:right}\
td:first-child,th:first-child{text-align:left}\
.void{background:#ffebe9;border:1px solid #cf222e;padding:.6rem 1rem}.note{color:#57606a}\
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}td,th{border-color:#30363d}\
.note{color:#8b949e}.void{background:#3c1618}}";

/// Percentile curves show these.
const CURVE: [(f64, &str); 7] = [
    (0.0, "0 %"),
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
    (0.99999, "99.999 %"),
];

/// One or two runs.
pub fn html(runs: &[Run]) -> String {
    let title = match runs {
        [one] => format!("{}, run {}", one.outcome.workload, one.id),
        [a, b, ..] => format!("Run {} and run {}", a.id, b.id),
        [] => String::new(),
    };
    let title = escape(&title);
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}{}</style><h1>{title}</h1>\n",
        chart::STYLE
    );
    for run in runs {
        for void in &run.outcome.void {
            let _ = writeln!(page, "<p class=\"void\">Run {} is void: {}</p>", run.id, escape(void));
        }
        for note in &run.outcome.notes {
            let _ = writeln!(page, "<p class=\"note\">Run {}: {}</p>", run.id, escape(note));
        }
    }
    page.push_str(&summary(runs));
    page.push_str(&courses(runs));
    page.push_str(&curves(runs));
    for run in runs {
        page.push_str(&kinds(run, runs.len() > 1));
    }
    page
}

/// A run of the history, as `headroom report --list --json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct RunView<'a> {
    /// Its number, from 1.
    pub run: i64,
    /// Seconds since 1970 UTC.
    pub ended_epoch_s: u64,
    pub workload: &'a str,
    /// What it was made with beside its name.
    pub options: &'a str,
    pub target: &'a str,
    /// What the operator called it.
    pub label: &'a str,
    /// Transactions done a second.
    pub per_second: f64,
    /// Of response times.
    pub p99_ms: f64,
    /// Whether its figures may be used.
    pub sound: bool,
}

/// A page that was written, as `headroom report --json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct PageView {
    pub page: PathBuf,
    /// The runs on it, by number.
    pub runs: Vec<i64>,
}

impl<'a> From<&'a Run> for RunView<'a> {
    fn from(run: &'a Run) -> Self {
        let outcome = &run.outcome;
        Self {
            run: run.id,
            ended_epoch_s: run.at,
            workload: &outcome.workload,
            options: &outcome.options,
            target: &run.target,
            label: &run.label,
            per_second: outcome.totals.per_second,
            p99_ms: outcome.response.p99_ms,
            sound: outcome.is_sound(),
        }
    }
}

/// A line for each run, for people.
pub fn list(runs: &[Run]) -> String {
    let mut table =
        Table::new(&[">run", "when (UTC)", "workload", "target", "label", ">tx/s", ">p99 ms", "sound"]);
    for (run, p99) in runs.iter().map(|run| (RunView::from(run), shown(P99, &run.outcome.response))) {
        table.row(vec![
            run.run.to_string(),
            moment(run.ended_epoch_s),
            run.workload.to_owned(),
            run.target.to_owned(),
            run.label.to_owned(),
            format!("{:.1}", run.per_second),
            p99,
            if run.sound { "yes" } else { "VOID" }.to_owned(),
        ]);
    }
    table.text()
}

/// `2026-11-20 16:05:09`.
pub fn moment(at: u64) -> String {
    let at = i64::try_from(at).ok().and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok());
    let when = at.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    format!("{} {:02}:{:02}:{:02}", when.date(), when.hour(), when.minute(), when.second())
}

fn summary(runs: &[Run]) -> String {
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    let mut row = |name: &str, value: &dyn Fn(&Run) -> String| {
        rows.push((name.to_owned(), runs.iter().map(value).collect()));
    };
    row("when (UTC)", &|run| moment(run.at));
    row("label", &|run| escape(&run.label));
    row("target", &|run| escape(&run.target));
    row("workload", &|run| escape(&run.outcome.workload));
    row("arrivals", &|run| arrivals(&run.outcome));
    row("clients, threads, seconds, seed", &|run| {
        let Outcome { clients, threads, seconds, seed, .. } = &run.outcome;
        format!("{clients}, {threads}, {seconds:.1}, {seed}")
    });
    row("transactions a second", &|run| format!("{:.1}", run.outcome.totals.per_second));
    row("queries a second", &|run| format!("{:.0}", run.outcome.totals.queries_per_second));
    row("done, failed, late, unfinished, not started", &|run| {
        let t = &run.outcome.totals;
        format!("{}, {}, {}, {}, {}", t.done, t.failed, t.late, t.unfinished, t.not_started)
    });
    for figure in FIGURES {
        row(&format!("response {}, ms", figure.0), &|run| shown(figure, &run.outcome.response));
    }
    row("generator: CPU us a query, share of its threads", &|run| {
        let g = &run.outcome.generator;
        format!("{:.2}, {:.0} %", g.cpu_us_per_query, g.cpu_share * 100.0)
    });
    let mut table = String::from("<table><tr><th></th>");
    for run in runs {
        let _ = write!(table, "<th>run {}</th>", run.id);
    }
    let two = runs.len() == 2;
    table.push_str(if two { "<th>second / first</th></tr>\n" } else { "</tr>\n" });
    for (name, values) in rows {
        let _ = write!(table, "<tr><td>{name}</td>");
        for value in &values {
            let _ = write!(table, "<td>{value}</td>");
        }
        if two {
            let number = |text: &String| text.parse::<f64>().ok().filter(|number| *number > 0.0);
            let ratio = number(&values[1]).zip(number(&values[0])).map(|(b, a)| format!("{:.3}", b / a));
            let _ = write!(table, "<td>{}</td>", ratio.unwrap_or_default());
        }
        table.push_str("</tr>\n");
    }
    table + "</table>\n"
}

/// A figure of a distribution: its name, the share of times below it, and the figure.
type Figure = (&'static str, f64, fn(&Times) -> f64);
const P99: Figure = ("p99", 0.99, |t| t.p99_ms);
const FIGURES: [Figure; 8] = [
    ("mean", 0.0, |t| t.mean_ms),
    ("p50", 0.5, |t| t.p50_ms),
    ("p90", 0.9, |t| t.p90_ms),
    ("p95", 0.95, |t| t.p95_ms),
    P99,
    ("p99.9", 0.999, |t| t.p999_ms),
    ("p99.99", 0.9999, |t| t.p9999_ms),
    ("max", 0.0, |t| t.max_ms),
];

/// A figure for people; a dash where there are too few times for it.
fn shown((_, quantile, value): Figure, times: &Times) -> String {
    if times.reaches(quantile) { format!("{:.3}", value(times)) } else { "-".to_owned() }
}

fn arrivals(outcome: &Outcome) -> String {
    match &outcome.arrivals {
        Arrivals::Closed { think } if think.is_zero() => "closed loop".to_owned(),
        Arrivals::Closed { think } => format!("closed loop, {think:?} pause"),
        Arrivals::Open(open) => format!("open loop, {} a second", open.rate),
    }
}

/// A figure of each second: its name, whether it is drawn in dashes, and the figure where there is one.
type Curve = (&'static str, bool, fn(&Moment) -> Option<f64>);
/// A second in which nothing was answered has no times: as 0 they would look best where a server hung.
const TIMES: [Curve; 2] = [
    ("p50", true, |m| (m.done > 0).then_some(m.p50_ms)),
    ("p99", false, |m| (m.done > 0).then_some(m.p99_ms)),
];

fn points(series: &[Moment], (_, _, value): Curve) -> Vec<(f64, f64)> {
    series.iter().filter_map(|m| Some((m.second as f64, value(m)?))).collect()
}

fn courses(runs: &[Run]) -> String {
    let lines = |values: &[Curve]| -> Vec<Line> {
        let mut lines = Vec::new();
        for (colour, run) in runs.iter().enumerate() {
            for curve in values {
                let (name, is_dashed, _) = *curve;
                let points = points(&run.outcome.series, *curve);
                let line = Line::new(format!("run {} {name}", run.id), points).colour(colour);
                lines.push(if is_dashed { line.dashed() } else { line });
            }
        }
        lines
    };
    let last = runs.iter().filter_map(|run| run.outcome.series.last()).map(|m| m.second).max().unwrap_or(0);
    let step = (last / 8).max(1);
    let ticks: Vec<(f64, String)> =
        (0..=last).step_by(step as usize).map(|s| (s as f64, format!("{s} s"))).collect();
    let rate = lines(&[("", false, |m| Some(m.done as f64))]);
    let times = lines(&TIMES);
    let failed = lines(&[("", false, |m| Some(m.failed as f64))]);
    let mut text = String::from("<h2>Second by second</h2>\n");
    let chart = |title, unit, lines| Lines::new(title, unit).x_axis("time").lines(lines).ticks(ticks.clone());
    text.push_str(&chart("Transactions", "a second", rate).html());
    text.push_str(&chart("Response time", "ms", times).logarithmic().html());
    text.push_str(&chart("Failed transactions", "a second", failed).html());
    text
}

fn curves(runs: &[Run]) -> String {
    // Every nine is as wide as any other: x is the number of nines.
    let nines = |quantile: f64| -(1.0 - quantile).log10();
    let quantiles: Vec<f64> = (0..=100).map(|n| 1.0 - 10_f64.powf(-5.0 * f64::from(n) / 100.0)).collect();
    let mut lines = Vec::new();
    for (colour, run) in runs.iter().enumerate() {
        let mut line = |name: &str, is_dashed: bool, times: &Times| {
            // The tail beyond the last observation is a flat line that means nothing.
            let known = |quantile: &&f64| (1.0 - **quantile) * times.count as f64 >= 1.0;
            let shown: Vec<f64> = quantiles.iter().filter(known).copied().collect();
            let Some(values) = times.at(&shown) else { return };
            let points = shown.iter().map(|q| nines(*q)).zip(values).collect();
            let line = Line::new(format!("run {} {name}", run.id), points).colour(colour);
            lines.push(if is_dashed { line.dashed() } else { line });
        };
        line("response", false, &run.outcome.response);
        if let Some(service) = &run.outcome.service {
            line("service", true, service);
        }
    }
    let ticks = CURVE.iter().map(|(quantile, label)| (nines(*quantile), (*label).to_owned()));
    let chart = Lines::new("Response time below which that share lies", "ms").x_axis("share").lines(lines);
    format!("<h2>Percentiles</h2>\n{}", chart.ticks(ticks).logarithmic().html())
}

fn kinds(run: &Run, named: bool) -> String {
    let mut text = if named {
        format!("<h2>By transaction and statement, run {}</h2>\n", run.id)
    } else {
        "<h2>By transaction and statement</h2>\n".to_owned()
    };
    text.push_str("<table><tr><th>ms</th><th>done</th><th>failed</th>");
    for (name, ..) in FIGURES {
        let _ = write!(text, "<th>{name}</th>");
    }
    text.push_str("</tr>\n");
    for KindOutcome { name, done, failed, response, errors, .. } in
        run.outcome.transactions.iter().chain(&run.outcome.statements)
    {
        let errors: Vec<String> = errors.iter().map(|(what, times)| format!("{what}: {times}")).collect();
        let _ = write!(
            text,
            "<tr><td>{}</td><td>{done}</td><td title=\"{}\">{failed}</td>",
            escape(name),
            escape(&errors.join(", "))
        );
        for figure in FIGURES {
            let _ = write!(text, "<td>{}</td>", shown(figure, response));
        }
        text.push_str("</tr>\n");
    }
    text + "</table>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates_and_times() {
        assert_eq!(moment(1_795_190_709), "2026-11-20 16:05:09");
    }

    #[test]
    fn a_second_without_an_answer_has_no_times() {
        let second = |second, done, p99_ms| Moment {
            second,
            done,
            queries: done,
            failed: 0,
            late: 0,
            p50_ms: p99_ms,
            p95_ms: p99_ms,
            p99_ms,
            max_ms: p99_ms,
        };
        let series = [second(0, 5, 8.0), second(1, 0, 0.0), second(2, 3, 900.0)];
        for curve in TIMES {
            assert_eq!(points(&series, curve), [(0.0, 8.0), (2.0, 900.0)]);
        }
    }

    #[test]
    fn a_percentile_beyond_the_longest_time_has_a_dash() {
        let times = |count| Times { count, p99_ms: 7.0, ..Times::default() };
        assert_eq!([0, 99, 100].map(|count| shown(P99, &times(count))), ["-", "-", "7.000"]);
    }
}
