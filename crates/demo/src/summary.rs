//! The figures for a terminal: one table over all phases, then asked and measured.

use crate::figures::{FaultFigures, MoveFigures, PhaseFigures, Report, steps_in_words};
use std::fmt::Write;
use term::{Paint, Table};

/// Everything a person wants to see first.
pub(crate) fn text(report: &Report, paint: Paint) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ =
        writeln!(text, "{}\n{}", paint.bold("Requests of each endpoint"), endpoints(&report.phases).text());
    let _ =
        writeln!(text, "{}\n{}", paint.bold("Reads over zones and replicas"), loads(&report.phases).text());
    if !report.faults.is_empty() {
        let _ = writeln!(
            text,
            "{}\n{}",
            paint.bold("(e) A reader fails and comes back"),
            faults(&report.faults).text()
        );
    }
    if !report.moves.is_empty() {
        let title = "(f) The primary is moved while the application writes";
        let _ = writeln!(text, "{}\n{}", paint.bold(title), moves(&report.moves).text());
    }
    let _ = writeln!(text, "{}", paint.bold("Asked and measured"));
    for verdict in &report.verdicts {
        let mark = if verdict.met { paint.green("met   ") } else { paint.red("MISSED") };
        let _ = writeln!(text, "  {mark} ({}) {}", verdict.part, verdict.asked);
        let _ = writeln!(text, "             {}", paint.bold(&verdict.measured));
    }
    for line in failures(report) {
        let _ = writeln!(text, "{line}");
    }
    if let Some(busy) = report.too_busy() {
        let _ = writeln!(
            text,
            "\n{}",
            paint.yellow(&format!(
                "The machine's CPU was {:.0} % busy: times show queueing for it rather than distance. Run it again alone.",
                busy * 100.0
            ))
        );
    }
    let about = &report.about;
    let _ = writeln!(
        text,
        "\n{} of {} met. {}, {} ms within a zone, {} ms between zones (simulated), {} cores; {:.0} s in all.",
        report.met(),
        report.verdicts.len(),
        about.servers,
        about.within_zone_ms,
        about.between_zones_ms,
        about.cores,
        about.took_s
    );
    if !about.sessions.is_empty() {
        let _ = writeln!(text, "Sessions that headroom placed: {}.", about.sessions);
    }
    if about.newest_first {
        let _ = writeln!(
            text,
            "Pools handed out their newest session first: load is what sessions did, not how many there were."
        );
    }
    text
}

fn endpoints(phases: &[PhaseFigures]) -> Table {
    let mut table = Table::new(&[
        "phase",
        "endpoint",
        ">requests",
        ">queries each",
        ">p50 ms",
        ">p99 ms",
        ">reads p50 ms",
        ">failed",
    ]);
    for phase in phases {
        for (n, endpoint) in phase.endpoints.iter().enumerate() {
            table.row(vec![
                if n == 0 { name(phase) } else { String::new() },
                endpoint.route.clone(),
                endpoint.requests.to_string(),
                format!("{:.0}", endpoint.queries_per_request),
                format!("{:.1}", endpoint.p50_ms),
                format!("{:.1}", endpoint.p99_ms),
                format!("{:.1}", endpoint.reads_p50_ms),
                endpoint.failed.to_string(),
            ]);
        }
    }
    table
}

fn loads(phases: &[PhaseFigures]) -> Table {
    let mut table = Table::new(&[
        "phase",
        ">reads",
        ">cross-zone",
        ">least",
        ">busiest",
        ">failed",
        "load of each replica / mean",
    ]);
    for phase in phases {
        let load = phase.servers.iter().map(|s| format!("{} {:.2}", s.name, s.of_mean));
        table.row(vec![
            name(phase),
            phase.reads.to_string(),
            format!("{:.1} %", phase.cross_zone * 100.0),
            format!("{:.1} %", phase.least_cross_zone * 100.0),
            format!("{:.2} x", phase.busiest_of_mean),
            phase.failed.to_string(),
            load.collect::<Vec<_>>().join("  "),
        ]);
    }
    table
}

fn faults(faults: &[FaultFigures]) -> Table {
    let mut table = Table::new(&[
        "fault",
        ">answered",
        ">slowest",
        ">failed on it",
        ">opening to it",
        ">others",
        ">new sessions avoid it",
        ">first read back",
        ">traffic back",
        ">cut",
    ]);
    let seconds = |s: Option<f64>, none: &str| s.map_or_else(|| none.to_owned(), |s| format!("{s:.1} s"));
    for fault in faults {
        table.row(vec![
            fault.title.clone(),
            fault.requests.to_string(),
            format!("{:.0} ms", fault.slowest_request_ms),
            fault.failed_on_it.to_string(),
            fault.failed_opening.to_string(),
            fault.failed_other.to_string(),
            seconds(fault.avoided_after_s, "at once"),
            seconds(fault.first_read_s, "never"),
            seconds(fault.back_s, "never"),
            fault.cut_after_return.to_string(),
        ]);
    }
    table
}

fn moves(moves: &[MoveFigures]) -> Table {
    let mut table = Table::new(&[
        "move",
        ">requests with writes",
        ">longest wait",
        ">before",
        ">errors",
        ">writes held",
        ">routers",
        "steps, ms",
    ]);
    for one in moves {
        table.row(vec![
            format!("{} -> {}{}", one.from, one.to, if one.done { "" } else { " (not done)" }),
            one.writing_requests.to_string(),
            format!("{:.0} ms", one.longest_ms),
            format!("{:.0} ms", one.longest_before_ms),
            one.failed.to_string(),
            one.held_ms.map_or("-".to_owned(), |ms| format!("{ms:.0} ms")),
            one.routers.to_string(),
            steps_in_words(one),
        ]);
    }
    table
}

fn failures(report: &Report) -> Vec<String> {
    let of_phases =
        report.phases.iter().flat_map(|p| p.failures.iter().map(|f| format!("  ({}) {f}", p.phase.id)));
    let of_faults = report.faults.iter().flat_map(|f| f.failures.iter().map(|said| format!("  (e) {said}")));
    let of_moves = report.moves.iter().flat_map(|m| m.remarks.iter().map(|said| format!("  (f) {said}")));
    let all: Vec<String> = of_phases.chain(of_faults).chain(of_moves).collect();
    if all.is_empty() { all } else { std::iter::once("\nWhat failed:".to_owned()).chain(all).collect() }
}

/// `(d1) zone c has no reader, first backup`.
pub(crate) fn name(phase: &PhaseFigures) -> String {
    format!("({}) {}", phase.phase.id, phase.phase.title)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_report::report;

    #[test]
    fn a_missed_promise_is_not_hidden() {
        let mut report = report();
        let all_met = text(&report, Paint::off());
        assert!(all_met.contains("14 of 14 met") && !all_met.contains("MISSED"), "{all_met}");
        report.verdicts[0].met = false;
        let missed = text(&report, Paint::off());
        assert!(missed.contains("13 of 14 met") && missed.contains("MISSED (c) wins back"), "{missed}");
    }

    #[test]
    fn a_busy_machine_and_every_failure_are_said() {
        let mut report = report();
        report.phases[2].cpu_busy = 0.97;
        report.faults[0].failures = vec!["on a2, sent 0.50 s after the fault".to_owned()];
        let text = text(&report, Paint::off());
        assert!(text.contains("97 % busy") && text.contains("on a2, sent 0.50 s"), "{text}");
    }

    #[test]
    fn each_phase_and_endpoint_has_its_row() {
        let text = text(&report(), Paint::off());
        for part in [
            "(a) one zone",
            "(d6) demand 90/10/0, headroom",
            "GET /timeline",
            "POST /orders",
            "a2 1.50  a3 0.50",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }
}
