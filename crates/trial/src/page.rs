//! The report as one page that needs nothing else: no script, no font, no network.

use crate::effects::{FactorEffect, FactorStanding, PairEffect};
use crate::figures::{Figures, HOST, Moment, Spread};
use crate::report::{CellReport, LoadReport, Report, Standing, Winner};
use crate::spec::Metric;
use crate::text::{
    factor_standing, length, mixed, no_winner, not_looked_at, percent, standing, warnings, winner_range,
};
use crate::verdict::Verdict;
use chart::{Axis, Line, Lines, Tone, escape};
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
    if let Some(words) = not_looked_at(report) {
        let _ = writeln!(page, "<p class=\"said bad\">{}</p>", escape(words));
    }
    summary(&mut page, report);
    for load in &report.loads {
        one_load(&mut page, report, load);
    }
    next_steps(&mut page, report);
    if !report.refused.is_empty() {
        page.push_str("<h2>Refused, never tried</h2>\n<table><tr><th>level</th><th>why</th></tr>\n");
        for level in &report.refused {
            let words = format!("{}={}", level.knob, level.level);
            let _ = writeln!(page, "<tr><td><code>{}</code><td>{}</tr>", escape(&words), escape(&level.why));
        }
        page.push_str("</table>\n");
    }
    if report.elsewhere {
        page.push_str(
            "<p class=\"said warn\">CPU, memory and disk figures are those of the machine that sent the load, not of \
             the server's: that one is another machine. Its memory was not watched.</p>\n",
        );
    }
    page.push_str("<h2>Baseline</h2>\n<table>\n");
    for (knob, value) in &report.baseline {
        let _ = writeln!(page, "<tr><td><code>{}</code><td>{}</tr>", escape(knob), escape(value));
    }
    let _ = writeln!(
        page,
        "</table>\n<h2>To repeat it</h2>\n<p class=\"soft\">headroom {}, seed {}.</p>",
        escape(&report.version),
        report.seed,
    );
    for (what, words) in &report.setup {
        let _ = writeln!(page, "<p class=\"soft\">{}: {}</p>", escape(what), escape(words));
    }
    let _ = writeln!(page, "<pre>{}</pre>", escape(&report.spec));
    page
}

/// What came of each load, in a line.
fn summary(page: &mut String, report: &Report) {
    page.push_str("<div class=\"cards\">\n");
    for load in &report.loads {
        let unit = match report.metric {
            Metric::Throughput => "a second",
            Metric::P99 => "ms",
        };
        let base = load.baseline.map_or_else(String::new, |base| format!("from {base:.0} {unit}"));
        let (tone, figure, what) = match (&load.winner, load.void) {
            (_, true) => ("bad", "void".to_owned(), "the A/A cell differs from the baseline".to_owned()),
            (Some(winner), _) => {
                ("good", percent(winner.ratio.estimate), format!("{}, {base}", winner_range(winner)))
            }
            (None, _) if report.ended && !load.is_compared() => {
                ("warn", "not compared".to_owned(), "no cell was compared with the baseline".to_owned())
            }
            (None, _) if report.ended => {
                ("plain", "no gain".to_owned(), format!("no cell is confirmed better; baseline {base}"))
            }
            (None, _) => ("warn", "not over".to_owned(), format!("{} trials are left", report.left)),
        };
        let _ = writeln!(
            page,
            "<section class=\"card {tone}\"><h3>{}</h3><p class=\"figure\">{figure}</p><p class=\"soft\">{}</p>",
            escape(&load.words),
            escape(&what)
        );
        if let Some(winner) = load.winner.as_ref().filter(|_| !load.void) {
            page.push_str(&chips(&winner.settings));
            if winner.dangerous {
                page.push_str("<p><b class=\"bad\">It can lose data.</b></p>");
            }
        }
        if let Some(safe) = &load.safe {
            let ratio = percent(safe.ratio.estimate);
            let _ = writeln!(page, "<p>Without such settings: <b>{ratio}</b></p>{}", chips(&safe.settings));
        }
        page.push_str("</section>\n");
    }
    page.push_str("</div>\n");
}

/// What a reader does now.
fn next_steps(page: &mut String, report: &Report) {
    if !report.ended {
        return;
    }
    page.push_str("<h2>What to do next</h2>\n<ol>\n");
    let void = report.loads.iter().any(|load| load.void);
    let winner = report.loads.iter().any(|load| load.winner.is_some());
    let undecided = report.loads.iter().flat_map(|load| &load.cells);
    // One that is better and not confirmed needs more blocks, too.
    let better = !winner && !void;
    let open = |verdict: Verdict| verdict == Verdict::Undecided || better && verdict == Verdict::Better;
    let undecided =
        undecided.filter(|cell| matches!(cell.standing, Standing::Judged { verdict } if open(verdict)));
    if void {
        page.push_str(
            "<li>Run it again: something beside the settings changed while it ran (the A/A cell differs). That \
             happens to one sound experiment in twenty; if it happens twice, look for what else runs on the \
             host.</li>\n",
        );
    }
    if winner {
        page.push_str(
            "<li>Set the lines of the confirmed cell on one replica, restart it if a line needs that, and compare \
             it with its neighbours for a day: <code>headroom watch</code>.</li>\n\
             <li>Measure what it is worth at your objective: <code>headroom measure</code> before and after.</li>\n",
        );
    }
    if winner && report.loads.iter().any(|load| load.effects.is_some()) {
        page.push_str(
            "<li>Leave out of the confirmed cell what the table of factors does not call better: it came along with \
             the combination.</li>\n",
        );
    }
    let undecided = undecided.count() > 0;
    if undecided {
        page.push_str(
            "<li>Cells that are undecided, or better and not confirmed, need more blocks or longer trials, if \
             they matter: leave only those levels in the spec and run it again.</li>\n",
        );
    }
    let mut cells = report.loads.iter().flat_map(|load| &load.cells);
    let too_few = cells.any(|cell| cell.standing == Standing::TooFew);
    if too_few && !void {
        page.push_str(
            "<li>Cells with too few figures to be compared need a longer budget, fewer levels, or trials that \
             are not void.</li>\n",
        );
    }
    let compared = report.loads.iter().all(LoadReport::is_compared);
    if !winner && !void && !undecided && !too_few && compared {
        page.push_str(
            "<li>Nothing here is worth setting. The bottlenecks above say where else to look: other factors, or \
             <code>headroom plan</code> for hardware.</li>\n",
        );
    }
    page.push_str(
        "<li>Compare with another host, version or date: <code>headroom trial compare DIR OTHER</code>.</li>\n</ol>\n",
    );
}

/// Settings as words that do not break.
fn chips(set: &[(String, String)]) -> String {
    let chip = |(knob, value): &(String, String)| {
        let value = size(value).unwrap_or_else(|| value.clone());
        format!("<code class=\"chip\">{}={}</code> ", escape(short_knob(knob)), escape(&value))
    };
    set.iter().map(chip).collect()
}

/// `33554432` is `32M`.
fn size(value: &str) -> Option<String> {
    const MIB: u64 = 1 << 20;
    let bytes: u64 = value.parse().ok()?;
    (bytes >= MIB && bytes.is_multiple_of(MIB)).then(|| format!("{}M", bytes / MIB))
}

fn confirmed(page: &mut String, winner: &Winner, words: &str) {
    let danger = if winner.dangerous {
        "<p><b class=\"bad\">Warning: a setting of it can lose data.</b></p>"
    } else {
        ""
    };
    let _ = writeln!(
        page,
        "<div class=\"said good\"><p><b>{words}: {}</b> ({})</p><p>{}</p>{danger}\
         <details open><summary>To set it for good</summary><pre>{}</pre></details></div>",
        percent(winner.ratio.estimate),
        winner_range(winner),
        chips(&winner.settings),
        escape(&winner.snippet)
    );
}

/// The bottleneck of a run and of the baseline.
fn bottlenecks(page: &mut String, load: &LoadReport) {
    let words = |run: &Figures| {
        let (name, count) = run.bottleneck.as_ref()?;
        Some(format!("<b>{}</b> ({count} of {} trials)", escape(name), run.trials))
    };
    let first = load.cells.first().filter(|cell| cell.ratio.is_some());
    let none = || "none named".to_owned();
    if let Some(first) = first {
        let (before, after) = (words(&load.baseline_run), words(&first.run));
        let _ = writeln!(
            page,
            "<p>Bottleneck at the baseline: {}; in the first cell of the ranking: {}.</p>",
            before.unwrap_or_else(none),
            after.unwrap_or_else(none)
        );
    }
}

fn one_load(page: &mut String, report: &Report, load: &LoadReport) {
    let _ = writeln!(page, "<h2>{}</h2>", escape(&load.words));
    for warning in warnings(report, load) {
        let class = if load.void { "bad" } else { "warn" };
        let _ = writeln!(page, "<p class=\"said {class}\">{}</p>", escape(&warning));
    }
    match &load.winner {
        Some(winner) => {
            confirmed(page, winner, crate::text::confirmed(report));
            if let Some(safe) = &load.safe {
                confirmed(page, safe, "The best that cannot lose data");
            }
        }
        None if report.ended => {
            let _ = writeln!(page, "<p class=\"said\">{}</p>", no_winner(load));
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
    bottlenecks(page, load);
    ranking(page, load);
    factors(page, report, load);
    spreads(page, load);
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
        "<h3>Ranking</h3>\n<div class=\"wide\"><table class=\"ranking chart\"><tr><th>cell</th><th>to the baseline</th><th>95 % interval</th><th></th>\
         <th>verdict</th></tr>\n",
    );
    let same = load.same.as_ref().map(|same| same.ratio);
    let logs = load.cells.iter().filter_map(|cell| cell.ratio).chain(same);
    let reach = logs.map(|ratio| ratio.low.ln().abs().max(ratio.high.ln().abs())).fold(0.05, f64::max);
    let axis = Axis::ratio(reach.min(3.0).exp());
    let judged = load.cells.iter().any(|cell| cell.ratio.is_some());
    let mut folded = false;
    for cell in &load.cells {
        // Those of the last stage first; the many others are a click away.
        if judged && !folded && cell.ratio.is_none() {
            same_line(page, load, &axis);
            page.push_str(
                "</table></div>\n<details><summary>Cells that did not come to the last stage</summary>\
                 <table class=\"ranking chart\">\n",
            );
            folded = true;
        }
        let estimate = match (&cell.ratio, cell.seen) {
            (Some(ratio), _) => percent(ratio.estimate),
            // No finding: seen in passing.
            (None, Some(seen)) => format!("<span class=\"soft\">({})</span>", percent(seen)),
            (None, None) => String::new(),
        };
        let (tone, words) = (tone(&cell.standing), standing(&cell.standing));
        line(page, &chips(&cell.settings), &estimate, cell.ratio, &axis, (tone, &escape(&words)));
    }
    if folded {
        page.push_str("</table></details>\n");
    } else {
        same_line(page, load, &axis);
        page.push_str("</table></div>\n");
    }
    page.push_str(
        "<p class=\"soft\">In brackets: seen in a stage that others were chosen in; no finding.</p>\n",
    );
}

fn same_line(page: &mut String, load: &LoadReport, axis: &Axis) {
    if let Some(same) = &load.same {
        let estimate = percent(same.ratio.estimate);
        let words = if load.void { "differs: void" } else { "no verdict" };
        line(page, "A/A cell (the baseline again)", &estimate, Some(same.ratio), axis, (Tone::Plain, words));
    }
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
        "<tr><td>{name}<td class=\"n\">{estimate}<td class=\"n\">{text}<td>{drawn}<td><b \
         class=\"{}\">{words}</b></tr>",
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

/// Why a run is as it is: what it takes of the host for a transaction, beside the baseline.
fn details(page: &mut String, load: &LoadReport) {
    page.push_str(
        "<h3>Why: each run's figures and the host's</h3>\n<div class=\"wide\"><table><tr><th>cell</th>\
         <th>bottleneck</th><th>a second</th><th>p99, ms</th><th>p99 of seconds: width</th>",
    );
    for name in HOST {
        let _ = write!(page, "<th>{name}</th>");
    }
    page.push_str("<th>trials</th></tr>\n");
    row(page, "baseline", &load.baseline_run);
    for cell in load.cells.iter().filter(|cell| cell.ratio.is_some()) {
        row(page, &chips(&cell.settings), &cell.run);
    }
    page.push_str("</table></div>\n<details><summary>The same of all cells</summary><table>\n");
    for cell in load.cells.iter().filter(|cell| cell.ratio.is_none()) {
        row(page, &chips(&cell.settings), &cell.run);
    }
    page.push_str("</table></details>\n<details><summary>Every trial of each cell: stage.block: figure</summary><table>\n");
    for CellReport { settings: set, figures, .. } in &load.cells {
        let all: Vec<String> = figures
            .iter()
            .map(|(stage, block, figure)| format!("{}.{}: {figure:.1}", stage + 1, block + 1))
            .collect();
        let _ = writeln!(page, "<tr><td>{}<td class=\"soft\">{}</tr>", chips(set), all.join(", "));
    }
    page.push_str("</table></details>\n");
}

fn row(page: &mut String, name: &str, run: &Figures) {
    let figure = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.1}"));
    let named = run.bottleneck.as_ref().map_or_else(String::new, |(name, count)| {
        format!("{} <span class=\"soft\">({count} of {})</span>", escape(name), run.trials)
    });
    let _ = write!(
        page,
        "<tr><td>{name}<td>{named}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}",
        figure(run.per_second),
        figure(run.p99_ms),
        run.p99_seconds.map_or_else(String::new, |spread| format!("{:.0} %", spread.width() * 100.0)),
    );
    for (at, _) in HOST.iter().enumerate() {
        let value = run.host.get(at).map(|value| {
            // The first are shares.
            if at < 4 { format!("{:.0} %", value * 100.0) } else { format!("{value:.2}") }
        });
        let _ = write!(page, "<td class=\"n\">{}", value.unwrap_or_default());
    }
    let _ = writeln!(page, "<td class=\"n\">{}</tr>", run.trials);
}

/// What each factor does, and pairs that do more or less together.
fn factors(page: &mut String, report: &Report, load: &LoadReport) {
    let Some(effects) = &load.effects else { return };
    let good = report.metric.good();
    let tone = |ratio: &plan::Interval| match (good.score(ratio.low.ln()), good.score(ratio.high.ln())) {
        (one, other) if one.min(other) > 0.0 => Tone::Good,
        (one, other) if one.max(other) < 0.0 => Tone::Bad,
        _ => Tone::Plain,
    };
    let reach = |ratios: &mut dyn Iterator<Item = plan::Interval>| {
        let logs = ratios.map(|ratio| ratio.low.ln().abs().max(ratio.high.ln().abs()));
        Axis::ratio(logs.fold(0.05, f64::max).min(3.0).exp())
    };
    let mut main: Vec<&FactorEffect> = effects.main.iter().collect();
    main.sort_by(|a, b| b.estimate.ln().abs().total_cmp(&a.estimate.ln().abs()));
    let axis = reach(&mut main.iter().filter_map(|one| one.standing.ratio()));
    page.push_str(
        "<h3>Factors: each as a mean over all others</h3>\n<div class=\"wide\"><table class=\"ranking chart\"><tr>\
         <th>factor</th><th>on average</th><th>95 % interval</th><th></th><th>verdict</th></tr>\n",
    );
    for one in main {
        let level = |level: &String| escape(&size(level).unwrap_or_else(|| level.clone()));
        let name = format!(
            "<code>{}</code> {} to {}",
            escape(short_knob(&one.knob)),
            level(&one.from),
            level(&one.to)
        );
        let tone = match one.standing {
            FactorStanding::Judged { verdict, .. } => self::tone(&Standing::Judged { verdict }),
            FactorStanding::TooFewRestarts => Tone::Plain,
        };
        let verdict = (tone, factor_standing(&one.standing));
        line(page, &name, &percent(one.estimate), one.standing.ratio(), &axis, verdict);
    }
    page.push_str("</table></div>\n");
    let pairs: Vec<&PairEffect> = effects.pairs.iter().take(6).collect();
    if !pairs.is_empty() {
        let axis = reach(&mut pairs.iter().map(|one| one.ratio));
        page.push_str(
            "<h3>Pairs: both together over what each does alone (the six surest)</h3>\n<div class=\"wide\">\
             <table class=\"ranking chart\">\n",
        );
        for one in pairs {
            let name = format!(
                "{}with {}",
                chips(std::slice::from_ref(&one.one)),
                chips(std::slice::from_ref(&one.other))
            );
            let tone = tone(&one.ratio);
            line(page, &name, &percent(one.ratio.estimate), Some(one.ratio), &axis, (tone, ""));
        }
        page.push_str("</table></div>\n");
    }
    for words in mixed(&effects.mixed) {
        let _ = writeln!(page, "<p class=\"soft\">{}</p>", escape(&words));
    }
    let _ = writeln!(
        page,
        "<p class=\"soft\">From the {} trials of the first stage, in which every cell stands once; intervals are \
         95 % each, verdicts of factors are adjusted for their number (Holm). A factor that takes a restart is \
         judged by its restarts, not by the runs between them. Use them to see what matters; what to set is the \
         confirmed cell.</p>",
        effects.trials
    );
}

/// `server.innodb_io_capacity` is `innodb_io_capacity` where there is little room.
fn short_knob(knob: &str) -> &str {
    knob.trim_start_matches("server.")
}

/// p99 beside throughput, and both over time: a point is not all there is to a tail.
fn spreads(page: &mut String, load: &LoadReport) {
    let point = |run: &Figures| run.per_second.zip(run.p99_ms);
    let of = |judged: bool| {
        let cells = load.cells.iter().filter(|cell| cell.ratio.is_some() == judged);
        cells.filter_map(|cell| point(&cell.run)).collect::<Vec<_>>()
    };
    let scatter = Lines::new("p99 beside throughput, the middle of each cell", "ms")
        .x_axis("transactions a second")
        .line(Line::new("other cells", of(false)).dots().colour(0))
        .line(Line::new("last stage", of(true)).dots().colour(2))
        .line(Line::new("baseline", point(&load.baseline_run).into_iter().collect()).dots().colour(1));
    page.push_str(&scatter.html());
    let Some(((_, base), rest)) = load.courses.split_first() else { return };
    let best = rest.first();
    let over_time = |title: &str, unit: &str, value: fn(&Moment) -> Option<f64>| {
        let line = |name: &str, course: &[Moment], colour| {
            let points = course.iter().filter_map(|moment| Some((moment.minute, value(moment)?))).collect();
            Line::new(name, points).dots().colour(colour)
        };
        let lines = Lines::new(title, unit).x_axis("minutes").line(line("baseline", base, 1));
        match best {
            Some((_, course)) => lines.line(line("first of the ranking", course, 2)).html(),
            None => lines.html(),
        }
    };
    page.push_str(&over_time("p99 of each second, last stage", "ms", Moment::p99));
    let per_second = |moment: &Moment| Some(moment.per_second);
    page.push_str(&over_time("Transactions of each second, last stage", "", per_second));
    let first = load.cells.first().filter(|cell| cell.ratio.is_some());
    let mut say = |what: &str, of: fn(&Figures) -> Option<Spread>| {
        let width = |run: &Figures| of(run).map(|spread| spread.width() * 100.0);
        if let Some((base, best)) = width(&load.baseline_run).zip(first.and_then(|cell| width(&cell.run))) {
            let _ = writeln!(
                page,
                "<p>Nine of ten seconds {what} within a range of <b>{best:.0} %</b> of its middle in the first cell \
                 of the ranking, and of {base:.0} % at the baseline.</p>"
            );
        }
    };
    say("have a p99", |run| run.p99_seconds);
    say("have a number of transactions", |run| run.seconds);
}
