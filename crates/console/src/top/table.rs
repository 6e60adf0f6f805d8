//! The answer as a plain table, and the words for figures that the screen uses too.

use crate::insight_view::{By, FiguresView, InsightView, RequestView};
use insight::Since;
use term::{Paint, Table, printable};

/// Characters of a statement shown in a row.
const STATEMENT: usize = 110;

/// The whole answer as text.
pub fn text(view: &InsightView, paint: Paint) -> String {
    let mut text = format!("{}\n\n", paint.bold(&headline(view)));
    text.push_str(&if view.question.by == By::Request { requests(view) } else { rows(view) });
    if view.more > 0 {
        text.push_str(&paint.dim(&format!("... and {} more (--limit)\n", view.more)));
    }
    for note in &view.notes {
        text.push_str(&format!("{} {note}\n", paint.yellow("!")));
    }
    text
}

/// One line on everything that matches.
pub(super) fn headline(view: &InsightView) -> String {
    let f = &view.total;
    let span = match view.question.since {
        Since::Recent => format!("last {:.0} s", view.span_s),
        Since::Start => format!("since the start, {}", age(view.span_s)),
    };
    let mut only = String::new();
    let filters = [
        ("endpoint", &view.question.endpoint),
        ("server", &view.question.server),
        ("digest", &view.question.digest),
    ];
    for (name, value) in filters {
        if let Some(value) = value {
            only.push_str(&format!(", only {name} {value}"));
        }
    }
    if let Some(why) = &view.not_measured {
        return format!("{why} ({span}{only})");
    }
    // Nothing has no percentiles: they would be 0.
    if f.count == 0 {
        return format!("no statement ({span}{only})");
    }
    let from = if f.one_in > 1 { format!("from 1 session in {}, ", f.one_in) } else { String::new() };
    format!(
        "{}/s, p50 {}, p99 {}, {} under way on average, {} errors ({from}{span}{only})",
        per_second(f),
        known_ms(f.p50_ms),
        known_ms(f.p99_ms),
        decimal(f.load),
        count(f.errors),
    )
}

fn rows(view: &InsightView) -> String {
    let name = view.question.by.word().to_uppercase();
    let mut table = Table::new(&[
        ">TIME", ">PER S", ">MEAN", ">P50", ">P95", ">P99", ">P99.9", ">ROWS", ">ERRORS", &name,
    ]);
    for row in &view.rows {
        let f = &row.figures;
        let times = [f.mean_ms, f.p50_ms, f.p95_ms, f.p99_ms, f.p999_ms].map(known_ms);
        let mut cells = vec![percent(f.share), per_second(f)];
        cells.extend(times);
        cells.extend([rows_each(f), count(f.errors), shortened(&row.name, STATEMENT)]);
        table.row(cells);
    }
    match (&view.not_measured, view.rows.is_empty()) {
        (Some(why), _) => format!("{why}.\n"),
        (None, true) => "Nothing was measured in this time.\n".to_owned(),
        (None, false) => table.text(),
    }
}

fn requests(view: &InsightView) -> String {
    let headings = [
        ">REQUESTS",
        ">QUERIES MEAN",
        ">P50",
        ">P99",
        ">MOST",
        ">DB TIME MEAN",
        ">P50",
        ">P99",
        ">SPAN P50",
        ">P99",
        ">THINKING",
        "ENDPOINT",
    ];
    let mut table = Table::new(&headings);
    for request in &view.requests {
        table.row(request_cells(request));
    }
    if view.requests.is_empty() {
        "No request was finished in this time. Requests are told by a tag: traceparent, or [router.insight] request_keys.\n"
            .to_owned()
    } else {
        table.text()
    }
}

/// The cells of a row about requests.
pub(super) fn request_cells(r: &RequestView) -> Vec<String> {
    vec![
        count(r.requests),
        decimal(r.queries_mean),
        count(r.queries_p50),
        count(r.queries_p99),
        count(r.queries_most),
        ms(r.time_mean_ms),
        ms(r.time_p50_ms),
        ms(r.time_p99_ms),
        ms(r.span_p50_ms),
        ms(r.span_p99_ms),
        percent(r.thinking),
        printable(&r.endpoint),
    ]
}

/// Rows sent by one command, on average.
pub(super) fn rows_each(f: &FiguresView) -> String {
    decimal((f.rows_sent + f.rows_changed) as f64 / f.count.max(1) as f64)
}

/// A time: `85 us`, `1.2 ms`, `340 ms`, `2.1 s`.
pub(super) fn ms(ms: f64) -> String {
    match ms {
        ms if ms < 0.0995 => format!("{:.0} us", ms * 1e3),
        ms if ms < 9.95 => format!("{ms:.2} ms"),
        ms if ms < 99.5 => format!("{ms:.1} ms"),
        ms if ms < 9_950.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1e3),
    }
}

/// The same, where it is known.
pub(super) fn known_ms(time: Option<f64>) -> String {
    time.map_or_else(|| "-".to_owned(), ms)
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(super) fn rate(per_second: f64) -> String {
    if per_second < 10.0 { format!("{per_second:.1}") } else { count(per_second.round() as u64) }
}

/// Commands a second, with the standard error where they were not all measured: `25 ±4`.
pub(super) fn per_second(f: &FiguresView) -> String {
    match f.per_second_error {
        error if error > 0.0 => format!("{} ±{}", rate(f.per_second), rate(error)),
        _ => rate(f.per_second),
    }
}

pub(super) fn count(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..1_000_000 => format!("{:.1} k", n as f64 / 1e3),
        _ => format!("{:.1} M", n as f64 / 1e6),
    }
}

pub(super) fn decimal(value: f64) -> String {
    if value < 99.95 { format!("{value:.1}") } else { count(value.round() as u64) }
}

pub(super) fn age(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// The first characters of a long text, which a client chose.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let text = printable(text);
    if text.chars().count() <= most {
        return text;
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insight_view::{Question, RowView};

    #[test]
    fn what_is_estimated_says_how_far_off_it_may_be() {
        let error = FiguresView { per_second: 25.2, per_second_error: 3.8, ..FiguresView::default() };
        let f = FiguresView { count: 252, one_in: 16, ..error };
        assert_eq!(per_second(&f), "25 ±3.8");
        let view = InsightView { total: f, ..InsightView::default() };
        let text = text(&view, Paint::default());
        assert!(text.starts_with("25 ±3.8/s, ") && text.contains("(from 1 session in 16, "), "{text}");
    }

    #[test]
    fn what_was_not_measured_is_not_shown_as_zero() {
        let not_measured = Some("not measured: 20 sessions bypass the router".to_owned());
        let text = text(&InsightView { not_measured, ..InsightView::default() }, Paint::default());
        assert!(text.starts_with("not measured: 20") && !text.contains("0.0/s"), "{text}");
    }

    #[test]
    fn a_name_that_a_client_chose_stays_in_its_row_and_commands_no_terminal() {
        let name = "che\nckout\u{1b}[2J".to_owned();
        let row = RowView { name: name.clone(), ..RowView::default() };
        let request = RequestView { endpoint: name, ..RequestView::default() };
        let view = InsightView { rows: vec![row], requests: vec![request], ..InsightView::default() };
        for text in [rows(&view), requests(&view)] {
            assert!(text.ends_with("che ckout [2J\n") && text.lines().count() == 2, "{text:?}");
        }
    }

    #[test]
    fn no_statement_has_no_percentiles() {
        let question = Question { endpoint: Some("checkout".to_owned()), ..Question::default() };
        let view = InsightView { question, span_s: 10.0, ..InsightView::default() };
        assert_eq!(headline(&view), "no statement (last 10 s, only endpoint checkout)");
    }

    #[test]
    fn figures_are_short_enough_for_a_column_whatever_their_size() {
        let shown = [0.0004, 0.0998, 1.234, 12.34, 123.4, 12_345.6].map(ms);
        assert_eq!(shown, ["0 us", "0.10 ms", "1.23 ms", "12.3 ms", "123 ms", "12.3 s"]);
        assert_eq!([7, 12_345, 1_234_567].map(count), ["7", "12.3 k", "1.2 M"]);
        assert_eq!(shortened("abcdef", 4), "abc…");
    }
}
