//! When figures must not be used: because they would be those of the generator and not of the server.
//!
//! | rule | why |
//! |---|---|
//! | own lateness at p99.9 above a tenth of the response time's p99 (open loop) | what was late was us |
//! | own CPU above 70 % (open), 95 % (closed) | arrivals and answers wait for us in bursts; the rate is our limit |
//! | send buffers full in more than one of a thousand statements | what we sent did not leave when we say |
//! | more transactions failed than succeeded | the times are those of the lucky ones, or of none |
//!
//! For figures that are shown. A search for the largest rate asks each run for one bit only, and is judged by
//! `measure/sound.rs`.

use crate::outcome::{Outcome, Totals};
use crate::workload::sysbench::POINT_SELECTS;

/// Most of the generator's CPU that an open loop may use: above it, waiting for ourselves shows in the tail.
pub(crate) const CPU_OPEN: f64 = 0.7;
/// In a closed loop only the rate suffers, and only at the very end.
const CPU_CLOSED: f64 = 0.95;
const LATENESS: f64 = 0.1;
/// Most statements that may find the send buffer full.
pub(crate) const SATURATED: f64 = 0.001;
/// Of point selects more than this must not find nothing: others may change the tables meanwhile.
const NOT_FOUND: f64 = 0.01;

/// Puts into words why an outcome is void, and what else its reader should know.
pub(crate) fn judge(outcome: &mut Outcome) {
    let generator = &outcome.generator;
    let mut void = Vec::new();
    void.extend(failures(&outcome.totals));
    let open = outcome.arrivals.is_open();
    let most = if open { CPU_OPEN } else { CPU_CLOSED };
    if generator.cpu_share > most {
        void.push(format!(
            "the generator's threads used {:.0} % of their CPU (at most {:.0} %): the figures are its own limit; \
             give it more threads (--threads) or another machine",
            generator.cpu_share * 100.0,
            most * 100.0
        ));
    }
    if let Some(lateness) = &generator.lateness
        && lateness.p999_ms > LATENESS * outcome.response.p99_ms
        && outcome.response.count > 0
    {
        void.push(format!(
            "the generator began its transactions late by itself: {:.3} ms at p99.9, more than a tenth of the response \
             time's p99 of {:.3} ms; this machine is too busy or too noisy for this rate",
            lateness.p999_ms, outcome.response.p99_ms
        ));
    }
    let saturated = generator.saturated_sends as f64 / outcome.totals.queries.max(1) as f64;
    if saturated > SATURATED {
        void.push(format!(
            "the send buffers were full for {:.1} % of the statements: the network or the server takes them too slowly \
             to say when they were sent",
            saturated * 100.0
        ));
    }
    outcome.void = void;
    outcome.notes = notes(outcome, open);
}

/// First, because nothing else matters then.
fn failures(totals: &Totals) -> Option<String> {
    let why = || totals.main_error().map_or_else(String::new, |error| format!(": {error}"));
    if totals.arrivals == 0 {
        return Some("no transaction was begun: the run was too short, or the rate too low".to_owned());
    }
    if totals.done == 0 {
        return Some(format!("none of {} transactions succeeded{}", totals.arrivals, why()));
    }
    let most = totals.failed > totals.done;
    most.then(|| format!("{} of {} transactions failed{}", totals.failed, totals.arrivals, why()))
}

fn notes(outcome: &Outcome, open: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let totals = &outcome.totals;
    let missing = totals.not_started + totals.unfinished;
    if missing > 0 {
        notes.push(format!(
            "overload: {missing} of {} transactions were not begun or not answered in time; the percentiles are of those \
             that were, so the true ones are higher",
            totals.arrivals
        ));
    }
    if totals.failed > 0 && failures(totals).is_none() {
        notes.push(format!("{} of {} transactions failed", totals.failed, totals.arrivals));
    }
    notes.extend(lost(outcome));
    notes.extend(nothing_found(outcome));
    if let Some(why) = &outcome.generator.why_not_ring {
        notes.push(format!("sent over epoll, at a higher cost of CPU: {why}"));
    }
    if !open {
        notes.push(
            "a closed loop: a stall of the server delays what is asked next, and shows only once a client"
                .into(),
        );
    }
    notes
}

/// sysbench's point selects each ask for one row that `prepare` has made.
pub(crate) fn nothing_found(outcome: &Outcome) -> Option<String> {
    let selects = outcome.statements.iter().find(|statement| statement.name == POINT_SELECTS)?;
    let missing = selects.done.saturating_sub(selects.rows) as f64 / selects.done.max(1) as f64;
    (missing > NOT_FOUND).then(|| {
        format!(
            "{:.0} % of the point selects found no row, which is quicker than to read one: the tables have fewer rows \
             than --table-size says",
            missing * 100.0
        )
    })
}

/// In a closed loop a server that is down fails one transaction of each client, and then nothing is asked any
/// more: the rate is that of a shorter time, spread over all of it.
fn lost(outcome: &Outcome) -> Option<String> {
    let lost = outcome.generator.reconnects;
    let silent = outcome.series.iter().filter(|second| second.done == 0).count();
    let silence = match silent {
        0 => String::new(),
        _ => format!(
            "; in {silent} of {} s no transaction succeeded, and the rates are of all of them",
            outcome.series.len()
        ),
    };
    let words = || format!("connections were lost, or could not be made again, {lost} times{silence}");
    (lost > 0 && outcome.totals.done > 0).then(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Generator, KindOutcome, Moment, Times};
    use std::collections::BTreeMap;

    fn outcome() -> Outcome {
        Outcome { totals: totals(300, 4), ..Outcome::quiet() }
    }

    #[test]
    fn point_selects_of_tables_that_are_smaller_than_said_are_noted() {
        let selects = |rows| KindOutcome {
            name: POINT_SELECTS.to_owned(),
            done: 1000,
            failed: 0,
            rows,
            response: Times::default(),
            service: None,
            errors: BTreeMap::new(),
        };
        let note = |rows| nothing_found(&Outcome { statements: vec![selects(rows)], ..outcome() });
        assert!(note(100).unwrap().starts_with("90 % of the point selects found no row"));
        assert!(note(0).unwrap().contains("--table-size"));
        assert_eq!((note(995), note(1000), nothing_found(&outcome())), (None, None, None));
    }

    #[test]
    fn a_server_that_went_away_is_noted_with_the_time_in_which_nothing_came() {
        let second = |done| Moment {
            second: 0,
            done,
            queries: done,
            failed: 0,
            late: 0,
            p50_ms: 1.0,
            p95_ms: 1.0,
            p99_ms: 1.0,
            max_ms: 1.0,
        };
        let mut outcome = Outcome {
            series: [300, 0, 0].map(second).to_vec(),
            generator: Generator { reconnects: 84, ..Generator::default() },
            ..outcome()
        };
        let notes = |outcome: &Outcome| notes(outcome, false).join("\n");
        let away = notes(&outcome);
        assert!(away.contains("84 times; in 2 of 3 s no transaction succeeded"), "{away}");
        outcome.series = vec![second(300)];
        assert!(notes(&outcome).contains("84 times\n"), "{}", notes(&outcome));
        outcome.generator.reconnects = 0;
        assert!(!notes(&outcome).contains("connections"));
    }

    fn totals(done: u64, failed: u64) -> Totals {
        let errors =
            [("error 1290".to_owned(), failed)].into_iter().filter(|(_, times)| *times > 0).collect();
        let meanings = [("error 1290".to_owned(), "the server refuses writes".to_owned())].into();
        Totals { arrivals: done + failed, done, failed, errors, meanings, ..Totals::default() }
    }

    #[test]
    fn a_run_of_which_nothing_or_less_than_half_succeeded_is_void_with_the_reason() {
        let none = failures(&totals(0, 175)).unwrap();
        assert_eq!(none, "none of 175 transactions succeeded: error 1290: the server refuses writes");
        assert!(failures(&totals(40, 60)).unwrap().starts_with("60 of 100 transactions failed: error 1290"));
        assert!(failures(&totals(0, 0)).unwrap().contains("no transaction was begun"));
        assert_eq!(failures(&totals(60, 40)), None);
    }
}
