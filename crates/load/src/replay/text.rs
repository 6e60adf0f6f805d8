//! A replay as text for people.

use crate::replay::compare::{GroupView, ReplayView, SideView};
use std::fmt::Write;
use term::{Paint, Table, printable};

/// Characters of a statement that are shown.
const SHOWN: usize = 60;

/// Everything a person wants to know of it.
pub fn view(view: &ReplayView, limit: usize, paint: Paint) -> String {
    let mut text = format!(
        "{} of {} recorded commands ({}), at {}x\n",
        view.commands, view.recorded_commands, view.source, view.speed
    );
    for (why, count) in &view.left_out {
        let _ = writeln!(text, "  not sent: {count} that {why}");
    }
    for run in &view.runs {
        let _ = writeln!(
            text,
            "{}: {} answered in {:.1} s, {} with an error; sent {:.3} ms late at p50, {:.3} at p99, {:.3} at most \
             (by ourselves {:.3} at p99)",
            run.target,
            run.answered,
            run.seconds,
            run.failed,
            run.late_p50_ms,
            run.late_p99_ms,
            run.late_max_ms,
            run.own_late_p99_ms
        );
    }
    let against = if view.runs.len() > 1 { "than at the other" } else { "than when recorded" };
    let _ = writeln!(
        text,
        "{} commands were answered with other row counts {against}, {} with another error or none\n",
        view.rows_differ, view.errors_differ
    );
    text += &table(view, limit);
    if view.groups.len() > limit {
        let _ = writeln!(text, "and {} more (--limit, --json)", view.groups.len() - limit);
    }
    for note in &view.notes {
        let _ = writeln!(text, "{}", paint.yellow(&format!("note: {note}")));
    }
    for void in &view.void {
        let _ = writeln!(text, "{}", paint.red(&format!("VOID: {void}")));
    }
    text
}

fn table(view: &ReplayView, limit: usize) -> String {
    let two = view.runs.len() > 1;
    let names = if two { ["1st", "2nd"] } else { ["recorded", "now"] };
    let mut headings = vec![">sent".to_owned(), ">errors".to_owned(), ">rows differ".to_owned()];
    headings.extend(names.map(|name| format!(">{name} p50 ms")));
    headings.push(">ratio".to_owned());
    headings.extend(names.map(|name| format!(">{name} p99 ms")));
    headings.push(">ratio".to_owned());
    headings.push(">from its moment p99 ms".to_owned());
    headings.push("statement (service times)".to_owned());
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    for group in view.groups.iter().take(limit) {
        table.row(row(group, two));
    }
    table.text()
}

fn row(group: &GroupView, two: bool) -> Vec<String> {
    let none = SideView::default();
    let last = group.replayed.last().unwrap_or(&none);
    let first = if two { group.replayed.first().unwrap_or(&none) } else { &group.recorded };
    let ms = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.3}"));
    let times = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
    let count = |errors: Option<u64>| errors.map_or_else(|| "-".to_owned(), |errors| errors.to_string());
    let errors = match first.errors == last.errors {
        true => count(last.errors),
        false => format!("{} -> {}", count(first.errors), count(last.errors)),
    };
    let whole = printable(&group.name);
    let name: String = match whole.chars().count() > SHOWN {
        true => whole.chars().take(SHOWN - 1).chain(['…']).collect(),
        false => whole,
    };
    vec![
        last.answered.to_string(),
        errors,
        group.rows_differ.to_string(),
        ms(first.service_p50_ms),
        ms(last.service_p50_ms),
        times(group.ratio_p50),
        ms(first.service_p99_ms),
        ms(last.service_p99_ms),
        times(group.ratio_p99),
        ms(last.response_p99_ms),
        name,
    ]
}
