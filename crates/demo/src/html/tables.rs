//! All figures as tables.

use super::name;
use crate::figures::{FaultFigures, MoveFigures, PhaseFigures, Report, steps_in_words};
use chart::escape;
use std::fmt::Write;

/// Endpoints, loads, flows, faults.
pub(super) fn all(report: &Report) -> String {
    format!("{}\n{}\n{}", endpoints(&report.phases), flows(&report.phases), faults(&report.faults))
}

fn endpoints(phases: &[PhaseFigures]) -> String {
    let mut rows = String::new();
    for phase in phases {
        for (n, e) in phase.endpoints.iter().enumerate() {
            let first = if n == 0 { escape(&name(phase)) } else { String::new() };
            // Writing to a String cannot fail.
            let _ = writeln!(
                rows,
                "<tr><td>{first}</td><td>{}</td>{}</tr>",
                escape(&e.route),
                numbers(&[
                    e.requests.to_string(),
                    format!("{:.0}", e.queries_per_request),
                    format!("{:.2}", e.p50_ms),
                    format!("{:.2}", e.p99_ms),
                    format!("{:.2}", e.reads_p50_ms),
                    format!("{:.2}", e.reads_mean_ms),
                    format!("{:.3}", e.read_p50_ms),
                    e.failed.to_string(),
                ])
            );
        }
    }
    table(
        "Per endpoint (times in ms)",
        &[
            "phase",
            "endpoint",
            "requests",
            "queries each",
            "p50",
            "p99",
            "reads p50",
            "reads mean",
            "one read p50",
            "failed",
        ],
        2,
        &rows,
    )
}

fn flows(phases: &[PhaseFigures]) -> String {
    let mut rows = String::new();
    for phase in phases {
        for (n, server) in phase.servers.iter().enumerate() {
            let first = if n == 0 { escape(&name(phase)) } else { String::new() };
            let from = phase.flows.iter().filter(|f| f.server == server.name);
            let from: Vec<String> = from.map(|f| format!("{} {:.1} %", f.from, f.share * 100.0)).collect();
            let _ = writeln!(
                rows,
                "<tr><td>{first}</td><td>{}</td>{}<td>{}</td></tr>",
                escape(&server.name),
                numbers(&[
                    server.reads.to_string(),
                    format!("{:.1} %", server.share * 100.0),
                    format!("{:.2}", server.of_mean),
                ]),
                escape(&from.join(", "))
            );
        }
    }
    table("Per server", &["phase", "server", "reads", "share", "of mean", "from zone"], 2, &rows)
}

fn faults(faults: &[FaultFigures]) -> String {
    let mut rows = String::new();
    let seconds = |s: Option<f64>, none: &str| s.map_or_else(|| none.to_owned(), |s| format!("{s:.1} s"));
    for f in faults {
        let _ = writeln!(
            rows,
            "<tr><td>{}</td>{}</tr>",
            escape(&f.title),
            numbers(&[
                f.requests.to_string(),
                format!("{:.0} ms", f.slowest_request_ms),
                f.failed_on_it.to_string(),
                f.failed_opening.to_string(),
                f.failed_other.to_string(),
                seconds(f.avoided_after_s, "at once"),
                format!("{:.0} ms", f.slowest_ms),
                seconds(f.first_read_s, "never"),
                seconds(f.back_s, "never"),
                f.cut_after_return.to_string(),
            ])
        );
        for said in &f.failures {
            let _ = writeln!(rows, "<tr><td colspan=\"11\" class=\"small\">{}</td></tr>", escape(said));
        }
    }
    table(
        "(e)",
        &[
            "fault",
            "answered",
            "slowest",
            "failed on it",
            "opening to it",
            "failed otherwise",
            "new sessions avoid it",
            "slowest of them",
            "first read back",
            "traffic back",
            "sessions cut",
        ],
        1,
        &rows,
    )
}

/// The moves of (f).
pub(super) fn moves(moves: &[MoveFigures]) -> String {
    let mut rows = String::new();
    for one in moves {
        let undone = if one.done { "" } else { " (not done)" };
        // Writing to a String cannot fail.
        let _ = writeln!(
            rows,
            "<tr><td>{} → {}{undone}</td>{}<td class=\"small\">{}</td></tr>",
            escape(&one.from),
            escape(&one.to),
            numbers(&[
                format!("{:.0} ms", one.longest_ms),
                format!("{:.0} ms", one.longest_before_ms),
                one.failed.to_string(),
                one.writing_requests.to_string(),
                one.held_ms.map_or("-".to_owned(), |ms| format!("{ms:.0} ms")),
                one.routers.to_string(),
            ]),
            escape(&steps_in_words(one))
        );
        for said in &one.remarks {
            let _ = writeln!(rows, "<tr><td colspan=\"8\" class=\"small\">{}</td></tr>", escape(said));
        }
    }
    table(
        "(f) there and back",
        &[
            "move",
            "longest wait",
            "the same before",
            "errors",
            "requests with writes",
            "writes held",
            "routers that held",
            "steps, ms",
        ],
        1,
        &rows,
    )
}

fn numbers(cells: &[String]) -> String {
    cells.iter().map(|cell| format!("<td class=\"n\">{}</td>", escape(cell))).collect()
}

/// The first `texts` columns are set to the left.
fn table(title: &str, headings: &[&str], texts: usize, rows: &str) -> String {
    let heading = |(n, h): (usize, &&str)| {
        let class = if n < texts || ["from zone", "steps, ms"].contains(h) { "" } else { " class=\"n\"" };
        format!("<th{class}>{}</th>", escape(h))
    };
    let head: String = headings.iter().enumerate().map(heading).collect();
    format!(
        "<h3>{}</h3>\n<div class=\"scroll\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>",
        escape(title)
    )
}
