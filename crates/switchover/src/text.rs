//! What a person reads of a switchover.

use crate::Flags;
use crate::check::{Finding, Level};
use crate::failover;
use crate::perform::{Kind, Outcome, Plan, Progress};
use crate::step::{Event, STEPS, State};
use fleet::ServerName;
use serde::Serialize;
use std::path::Path;
use term::{Paint, Table};

/// `--check --json`.
#[derive(Serialize)]
pub struct Checked<'a> {
    pub plan: &'a Plan,
    pub findings: &'a [Finding],
    pub silent: &'a [(ServerName, String)],
}

/// The table of checks.
pub fn checks(findings: &[Finding], silent: &[(ServerName, String)], paint: Paint) -> String {
    let mut table = Table::new(&["CHECK", "", "FACTS"]);
    for finding in findings {
        let level = match finding.level {
            Level::Pass => paint.green("pass"),
            Level::Warn => paint.yellow("WARN"),
            Level::Stop => paint.red("STOP"),
        };
        table.row(vec![finding.check.to_owned(), level, finding.facts.clone()]);
        if let Some(mend) = &finding.mend {
            table.row(vec![String::new(), String::new(), paint.dim(&format!("-> {mend}"))]);
        }
    }
    let mut text = table.text();
    for (server, why) in silent {
        text.push_str(&format!(
            "{} {server} was not read and will not be moved: {why}\n",
            paint.yellow("WARN")
        ));
    }
    let count = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    text.push_str(&format!(
        "{} pass, {} warn, {} stop\n",
        count(Level::Pass),
        count(Level::Warn),
        count(Level::Stop)
    ));
    text
}

/// `--dry-run`: what would be done, in order.
pub fn steps(plan: &Plan) -> String {
    let mut table = Table::new(&["STEP", "WRITES", "UNDONE BY"]);
    for about in STEPS {
        let waits = if about.writes_wait { "wait" } else { "go on" };
        let undo = match about.undo {
            Some(undo) => undo,
            None if about.step.is_before_the_point_of_no_return() => "nothing to undo",
            None => "no way back",
        };
        table.row(vec![about.name.to_owned(), waits.to_owned(), undo.to_owned()]);
    }
    format!("\n{} -> {}, epoch {}\n{}", plan.primary.name, plan.candidate.name, plan.epoch, table.text())
}

/// A line for each step that ended.
pub fn progress(plan: &Plan, progress: &Progress<'_>) -> Option<String> {
    let Progress::Ended { step, undo, event, took } = progress else { return None };
    let doing = if *undo { "undo " } else { "" };
    let ms = took.as_secs_f64() * 1e3;
    let step = plan.kind.name(*step);
    Some(match event {
        Event::Done => format!("{doing}{step}: {ms:.0} ms"),
        Event::Failed { why } | Event::Unknown { why } => {
            format!("{doing}{step}: FAILED after {ms:.0} ms: {why}")
        }
    })
}

/// How it ended. `flags` are those that it was started with.
pub fn outcome(plan: &Plan, outcome: &Outcome, journal: &Path, flags: &Flags, paint: Paint) -> String {
    let held =
        outcome.writes_held_ms.map_or(String::new(), |ms| format!("; writes were held for {ms:.0} ms"));
    let routers = outcome.routers;
    let is_failover = plan.kind != Kind::Switchover;
    let mut text = match &outcome.state {
        State::Done if is_failover => {
            format!("{} {} takes writes (epoch {})\n", paint.green("done:"), plan.candidate.name, plan.epoch)
        }
        State::Undone { why } if is_failover => {
            format!("{} nobody was promoted\nbecause {why}\n", paint.yellow("not done:"))
        }
        State::Done => format!(
            "{} {} takes writes (epoch {}){held}; {} routers held, of {} that were ready\n",
            paint.green("done:"),
            plan.candidate.name,
            plan.epoch,
            routers.holding,
            routers.ready
        ),
        State::Undone { why } => {
            let known = primary_in_words(plan, outcome, flags);
            format!("{} {known}{held}\nbecause {why}\n", paint.yellow("not moved:"))
        }
        State::Undecided { why } => format!("{} {why}\n", paint.red("a person has to decide:")),
        State::Forward { .. } | State::Undoing { .. } => String::new(),
    };
    for remark in &outcome.remarks {
        text.push_str(&format!("{} {remark}\n", paint.yellow("look at:")));
    }
    for note in &outcome.notes {
        text.push_str(&format!("{} {note}\n", paint.dim("note:")));
    }
    if is_failover && matches!(outcome.state, State::Done) {
        let old = &plan.primary.name;
        let rejoin = flags.after(&format!("headroom failover --rejoin {old}"));
        text.push_str(&format!("when {old} is back: {rejoin}\n"));
        if let Some(words) = failover::text::events_left(&plan.candidate.name, &plan.statements_of_events()) {
            text.push_str(&format!("{} {words}\n", paint.yellow("look at:")));
        }
        let stop = plan.statements_that_stop_events();
        if let Some(words) = failover::text::events_run(&plan.candidate.name, &stop) {
            text.push_str(&format!("{} {words}\n", paint.yellow("look at:")));
        }
        if plan.events_unknown {
            let words = failover::text::events_unknown(&plan.candidate.name);
            text.push_str(&format!("{} {words}\n", paint.yellow("look at:")));
        }
        if plan.semi_sync_stays_off {
            let words = failover::text::semi_sync_stays_off(&plan.candidate.name);
            text.push_str(&format!("{} {words}\n", paint.yellow("look at:")));
        }
    } else if matches!(outcome.state, State::Done) {
        let back = flags.after(&format!("headroom switchover {}", plan.primary.name));
        text.push_str(&format!("back again: {back}\n"));
    }
    text.push_str(&format!("journal: {}\n", journal.display()));
    text
}

/// What is known of the primary once a switchover was undone: it may have died on the way.
fn primary_in_words(plan: &Plan, outcome: &Outcome, flags: &Flags) -> String {
    let primary = &plan.primary.name;
    match outcome.primary_takes_writes {
        Some(true) if outcome.is_as_before(&plan.kind) => {
            format!("{primary} still takes writes, everything is as before")
        }
        Some(true) => format!("{primary} still takes writes; what may not be as before is named below"),
        Some(false) => format!("{primary} refuses writes"),
        None => format!(
            "whether {primary} takes writes is not known, because it does not say; if it is dead: {}",
            flags.after("headroom failover")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::facts;
    use crate::perform::Deadlines;
    use crate::survey::Survey;

    #[test]
    fn an_undone_move_says_of_the_primary_what_is_known() {
        let version = "10.11.6-MariaDB";
        let plan = Survey {
            primary: facts("db1", version),
            candidate: facts("db2", version),
            others: Vec::new(),
            silent: Vec::new(),
            epoch: 0,
            exposure: None,
            login: None,
        }
        .plan(Deadlines::default(), "test");
        let words = |primary_takes_writes, remarks: &[&str]| {
            let undone = Outcome {
                primary_takes_writes,
                remarks: remarks.iter().map(ToString::to_string).collect(),
                notes: vec!["n".to_owned()],
                ..Outcome::new(State::Undone { why: "w".to_owned() })
            };
            let flags = Flags::new("--config f.toml");
            let text = super::outcome(&plan, &undone, Path::new("j"), &flags, Paint::off());
            assert!(text.contains("because w\n") && text.contains("note: n\n"), "{text}");
            (text, undone.is_as_before(&plan.kind))
        };
        let (text, as_before) = words(Some(true), &[]);
        assert!(text.contains("db1 still takes writes, everything is as before") && as_before, "{text}");
        for (takes_writes, remarks, expected) in [
            (Some(true), ["undoing record: r"].as_slice(), "still takes writes; what may not be as before"),
            (Some(false), &[], "db1 refuses writes"),
            (None, &[], "whether db1 takes writes is not known"),
            (None, &[], "if it is dead: headroom failover --config f.toml"),
        ] {
            let (text, as_before) = words(takes_writes, remarks);
            assert!(text.contains(expected) && !text.contains("everything") && !as_before, "{text}");
        }
    }
}
