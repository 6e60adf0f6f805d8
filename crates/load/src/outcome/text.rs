//! An outcome as text for people.

use crate::Outcome;
use crate::arrivals::{Arrivals, Spacing};
use crate::outcome::{KindOutcome, Times};
use std::fmt::Write;
use term::{Paint, Table};

/// Everything a person wants to know of a run.
pub fn outcome(outcome: &Outcome, paint: Paint) -> String {
    // What must not be used says so before its figures.
    let mut text = String::new();
    for void in &outcome.void {
        let _ = writeln!(text, "{}", paint.red(&format!("VOID: {void}")));
    }
    text.push_str(&head(outcome));
    let totals = &outcome.totals;
    let _ = writeln!(
        text,
        "{:.1} transactions/s, {:.0} queries/s: {} done, {} failed, {} late, {} unfinished, {} not started, of {}",
        totals.per_second,
        totals.queries_per_second,
        totals.done,
        totals.failed,
        totals.late,
        totals.unfinished,
        totals.not_started,
        totals.arrivals
    );
    for (what, times) in &totals.errors {
        let meaning = totals.meanings.get(what).map_or_else(String::new, |meaning| format!(" ({meaning})"));
        let _ = writeln!(text, "  {what}: {times}{meaning}");
    }
    text.push('\n');
    text.push_str(&times(outcome));
    let generator = &outcome.generator;
    let _ = writeln!(
        text,
        "\nThe generator used {:.2} us of CPU a query, {:.0} % of its threads{}{}.",
        generator.cpu_us_per_query,
        generator.cpu_share * 100.0,
        generator.lateness.as_ref().map_or_else(String::new, |late| format!(
            "; it began its transactions {:.3} ms late at p99 and {:.3} ms at p99.9",
            late.p99_ms, late.p999_ms
        )),
        generator.own.as_ref().map_or_else(String::new, |own| format!(
            "; of each response time {:.3} ms at p99 are its own (begun late, read late)",
            own.p99_ms
        ))
    );
    for note in &outcome.notes {
        let _ = writeln!(text, "{}", paint.yellow(&format!("note: {note}")));
    }
    text
}

fn head(outcome: &Outcome) -> String {
    let arrivals = match &outcome.arrivals {
        Arrivals::Closed { think } if think.is_zero() => "closed loop".to_owned(),
        Arrivals::Closed { think } => format!("closed loop, {think:?} between transactions"),
        Arrivals::Open(open) => {
            let how = match open.spacing {
                Spacing::Poisson => "Poisson",
                Spacing::Even => "even",
                Spacing::Recorded(_) => "recorded",
            };
            format!("open loop, {} transactions/s, {how}", open.rate)
        }
    };
    let idle = match outcome.idle {
        0 => String::new(),
        idle => format!(" and {idle} idle connections"),
    };
    format!(
        "{}: {arrivals}, {} clients{idle}, {} threads, {:.1} s, seed {}\n",
        outcome.workload, outcome.clients, outcome.threads, outcome.seconds, outcome.seed
    )
}

fn times(outcome: &Outcome) -> String {
    let headings =
        ["time in ms", ">count", ">errors", ">mean", ">p50", ">p95", ">p99", ">p99.9", ">p99.99", ">max"];
    let mut table = Table::new(&headings);
    let mut row = |name: String, failed: u64, times: &Times| {
        let mut cells = vec![name, times.count.to_string(), failed.to_string()];
        cells.extend(figures(times));
        table.row(cells);
    };
    row("response".to_owned(), outcome.totals.failed, &outcome.response);
    if let Some(service) = &outcome.service {
        row("service".to_owned(), outcome.totals.failed, service);
    }
    let several = outcome.transactions.len() > 1;
    let kinds = outcome.transactions.iter().filter(|_| several).chain(&outcome.statements);
    for KindOutcome { name, failed, response, .. } in kinds {
        row(format!("  {name}"), *failed, response);
    }
    table.text()
}

/// The cells of a distribution: mean, percentiles, the longest. Those that nothing tells have a dash.
fn figures(times: &Times) -> [String; 7] {
    let all = [
        (0.0, times.mean_ms),
        (0.5, times.p50_ms),
        (0.95, times.p95_ms),
        (0.99, times.p99_ms),
        (0.999, times.p999_ms),
        (0.9999, times.p9999_ms),
        (0.0, times.max_ms),
    ];
    all.map(|(quantile, ms)| if times.reaches(quantile) { format!("{ms:.3}") } else { "-".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(all: impl IntoIterator<Item = u64>) -> [String; 7] {
        let mut histogram = crate::counts::histogram();
        all.into_iter().for_each(|ms| histogram.saturating_record(ms * 1_000_000));
        figures(&Times::of(&histogram))
    }

    #[test]
    fn percentiles_beyond_the_longest_time_and_times_of_nothing_have_a_dash() {
        let known = |cells: [String; 7]| cells.map(|cell| cell != "-");
        assert_eq!(known(cells([])), [false; 7]);
        assert_eq!(known(cells([7])), [true, false, false, false, false, false, true]);
        assert_eq!(known(cells(1..=99)), [true, true, true, false, false, false, true]);
        assert_eq!(known(cells(1..=100)), [true, true, true, true, false, false, true]);
        assert_eq!(known(cells(1..=10_000)), [true; 7]);
    }
}
