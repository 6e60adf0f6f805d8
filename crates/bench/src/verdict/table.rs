//! The confusion table: what was made down, what was named across.

use super::{Making, NotMade, Outcome, Run};
use diagnose::verdict::Name;
use plan::quantile::median;
use std::collections::BTreeMap;

/// Share of the makings after which the right verdict was in force, 0 to 1.
pub(super) fn right(outcomes: &[Outcome]) -> f64 {
    let right = outcomes.iter().filter(|outcome| outcome.is_right()).count();
    if outcomes.is_empty() { 0.0 } else { right as f64 / outcomes.len() as f64 }
}

/// What a verdict is called in tables; `None` is that nothing was named.
pub(super) fn called(name: Option<Name>) -> &'static str {
    name.map_or("none", |name| name.rule().called)
}

/// How many of each strength were right.
fn by_strength(outcomes: &[Outcome]) -> String {
    let mut counts: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for outcome in outcomes {
        let (right, all) = counts.entry(outcome.strength).or_default();
        *right += usize::from(outcome.is_right());
        *all += 1;
    }
    let words =
        counts.iter().map(|(strength, (right, all))| format!("{right} of {all} at strength {strength}"));
    words.collect::<Vec<_>>().join(", ")
}

/// A bottleneck should be named this soon after it began, seconds.
const SOON_S: f64 = 15.0;

/// How many were named right before anything else was, and how many of these soon.
fn first(outcomes: &[Outcome]) -> String {
    // Parts of a run that are older do not tell.
    let tells = |one: &&Outcome| one.named_first.is_some() || one.named.is_none();
    let made: Vec<&Outcome> =
        outcomes.iter().filter(|one| one.made.expected().is_some()).filter(tells).collect();
    if made.is_empty() {
        return String::new();
    }
    let right = || made.iter().filter(|one| one.named_first == one.made.expected());
    let soon = right().filter(|one| one.named_after_s.is_some_and(|s| s <= SOON_S)).count();
    format!(
        "Of {} bottlenecks the right one was named before any other in {}, within {SOON_S:.0} s in {soon}. ",
        made.len(),
        right().count()
    )
}

/// How long each was made: parts of a run may differ.
fn times(run: &Run) -> String {
    let told = || run.outcomes.iter().map(|outcome| outcome.seconds).filter(|seconds| *seconds > 0);
    match (told().min().unwrap_or(run.seconds), told().max().unwrap_or(run.seconds)) {
        (least, most) if least == most => format!("{most} s"),
        (least, most) => format!("{least} to {most} s"),
    }
}

/// Of so much steal on a verdict is worth less, as a share of the CPUs.
const MUCH_STEAL: f64 = 0.10;

/// How much of the CPUs the host took away while something was made.
fn steal(outcomes: &[Outcome]) -> String {
    let known: Vec<f64> = outcomes.iter().filter_map(|outcome| outcome.steal).collect();
    let Some(typical) = median(&known) else {
        return "How much of its CPUs the host took away meanwhile (steal) is not known.".to_owned();
    };
    format!(
        "Steal while something was made: {:.0} % (median), {:.0} % or more in {} of {} makings.",
        typical * 100.0,
        MUCH_STEAL * 100.0,
        known.iter().filter(|share| **share >= MUCH_STEAL).count(),
        known.len()
    )
}

/// Whether the machine was idle but for what was made.
fn idle(busy: f64, outcomes: &[Outcome]) -> &'static str {
    let known: Vec<f64> = outcomes.iter().filter_map(|outcome| outcome.steal).collect();
    match median(&known) {
        _ if busy > 0.3 => "this machine was not idle, so that the CPU is a bottleneck of its own",
        Some(steal) if steal >= MUCH_STEAL => "idle, but not given all of its CPUs",
        _ => "idle enough",
    }
}

/// How long nothing was made, and what was named all the same.
fn healthy(outcomes: &[Outcome]) -> String {
    let of_these = || outcomes.iter().filter(|outcome| outcome.made.is_healthy());
    let seconds: u64 = of_these().map(|outcome| outcome.seconds).sum();
    let mut looks: BTreeMap<&str, u32> = BTreeMap::new();
    for (name, count) in of_these().flat_map(|outcome| &outcome.looks) {
        *looks.entry(name).or_default() += count;
    }
    let all: u32 = looks.values().sum();
    if all == 0 {
        return String::new();
    }
    let quiet = looks.remove(called(None)).unwrap_or(0);
    let others: Vec<String> = looks.iter().map(|(name, count)| format!("{name} at {count}")).collect();
    let words = if others.is_empty() { "nothing else ever".to_owned() } else { others.join(", ") };
    let minutes = seconds as f64 / 60.0;
    format!("\nHealthy for {minutes:.1} min in all: nothing was named at {quiet} of {all} looks, {words}.\n")
}

/// Rules that nothing was made for.
fn not_made(all: &[NotMade]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let row = |one: &NotMade| format!("| {} | {} |\n", one.rule.rule().called, one.why);
    let rows: String = all.iter().map(row).collect();
    format!(
        "\nNot made here; these rules are tested on readings in the kernel's and the servers' own words \
         (`cargo test -p diagnose verdict`).\n\n| rule | why |\n|---|---|\n{rows}"
    )
}

/// The report.
pub(super) fn markdown(run: &Run, date: &str) -> String {
    let busy: Vec<f64> = run.outcomes.iter().map(|outcome| outcome.busy_before).collect();
    let busy = median(&busy).unwrap_or(0.0);
    let mut text = format!(
        "# Verdicts, {date}\n\n{}; each made for {}. CPU busy before anything was made: {:.0} % (median): {}. {}\n\n\
         Right in {:.0} % of {} makings: {}. {}Watching took {:.2} % of a core and {} MiB (the program that made the trouble, \
         its clients and threads included).\n\n",
        run.server,
        times(run),
        busy * 100.0,
        idle(busy, &run.outcomes),
        steal(&run.outcomes),
        right(&run.outcomes) * 100.0,
        run.outcomes.len(),
        by_strength(&run.outcomes),
        first(&run.outcomes),
        run.watching_cpu_share * 100.0,
        run.watching_resident_bytes >> 20,
    );
    run.machines.iter().for_each(|machine| text.push_str(&format!("{machine}\n\n")));
    let ms = |ms: Option<f64>| ms.map_or("?".to_owned(), |ms| format!("{ms:.2} ms"));
    if run.capacity > 0.0 {
        text.push_str(&format!(
            "The primary carries {:.0} point reads a second from clients on this machine; healthy is 30, 40 and 50 % of that. ",
            run.capacity
        ));
    }
    text.push_str(&format!(
        "The disk takes {} for a read and {} for a write when idle, and is limited to {} of each a second (not for flushes).\n\n",
        ms(run.ceilings.idle_read_ms),
        ms(run.ceilings.idle_write_ms),
        crate::volume::USUAL_PER_S,
    ));
    let mut rows: BTreeMap<Making, BTreeMap<Option<Name>, u32>> = BTreeMap::new();
    for outcome in &run.outcomes {
        *rows.entry(outcome.made).or_default().entry(outcome.named).or_default() += 1;
    }
    let mut columns: Vec<Option<Name>> = rows.values().flat_map(|row| row.keys().copied()).collect();
    columns.sort_unstable();
    columns.dedup();
    let headings: Vec<&str> = columns.iter().map(|name| called(*name)).collect();
    text.push_str(&format!(
        "| made | named: {} | right after (median) | at the latest |\n",
        headings.join(" | ")
    ));
    text.push_str(&format!("|---|{}---:|---:|\n", "---:|".repeat(columns.len())));
    for (made, row) in &rows {
        let cell = |name: &Option<Name>| {
            let count = row.get(name).copied().unwrap_or(0);
            match (count, *name == made.expected()) {
                (0, _) => String::new(),
                (count, true) => format!("**{count}**"),
                (count, false) => count.to_string(),
            }
        };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        let of_this = run.outcomes.iter().filter(|outcome| outcome.made == *made);
        let times: Vec<f64> = of_this.filter_map(|outcome| outcome.named_after_s).collect();
        let after = match (made.expected(), times.is_empty()) {
            (None, _) | (_, true) => "- | -".to_owned(),
            (Some(_), false) => {
                let latest = times.iter().copied().fold(0.0, f64::max);
                format!("{:.0} s | {latest:.0} s", median(&times).unwrap_or(0.0))
            }
        };
        text.push_str(&format!("| {made} | {} | {after} |\n", cells.join(" | ")));
    }
    text.push_str(&healthy(&run.outcomes));
    text.push_str(&not_made(&run.not_made));
    let stayed = run.outcomes.iter().filter(|outcome| !outcome.gone).count();
    if stayed > 0 {
        text.push_str(&format!("\n{stayed} verdicts were still in force 20 s after their cause had gone.\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_what_was_made_and_what_was_named() {
        let outcome = |made: Making, named| Outcome {
            made,
            strength: 1,
            named,
            text: String::new(),
            runner_up: None,
            evidence: Vec::new(),
            named_first: named.map(|_| Name::RowLocks),
            named_after_s: Some(5.0),
            kept: 1.0,
            gone: true,
            busy_before: 0.1,
            steal: None,
            seconds: 300,
            looks: BTreeMap::from([("none".to_owned(), 298), ("the CPU".to_owned(), 2)]),
            gaps: 0,
        };
        let mut outcomes = vec![
            outcome(Making::Healthy, None),
            outcome(Making::RowLocks, Some(Name::RowLocks)),
            outcome(Making::RowLocks, Some(Name::Cpu)),
        ];
        assert!(steal(&outcomes).ends_with("(steal) is not known."));
        for (outcome, share) in outcomes.iter_mut().zip([0.02, 0.29, 0.31]) {
            outcome.steal = Some(share);
        }
        assert!((right(&outcomes) - 2.0 / 3.0).abs() < 1e-9);
        let run = Run {
            server: "MariaDB 10.11".to_owned(),
            machines: vec!["two cores, headroom 0.1.0".to_owned()],
            seconds: 20,
            outcomes,
            capacity: 9000.0,
            ceilings: diagnose::verdict::Ceilings::default(),
            watching_cpu_share: 0.01,
            watching_resident_bytes: 20 << 20,
            not_made: vec![NotMade { rule: Name::Steal, why: "nobody can".to_owned() }],
        };
        let text = markdown(&run, "2026-11-20");
        assert!(
            text.contains(
                "10 % (median): idle, but not given all of its CPUs. Steal while something was made: 29 % \
                 (median), 10 % or more in 2 of 3 makings."
            ),
            "{text}"
        );
        assert_eq!(idle(0.1, &run.outcomes[..1]), "idle enough");
        assert!(text.contains("| row-locks |  | 1 | **1** | 5 s | 5 s |"), "{text}");
        assert!(text.contains("| healthy | **1** |"), "{text}");
        assert!(text.contains("| a noisy neighbour | nobody can |"), "{text}");
        assert!(text.contains("Right in 67 % of 3 makings: 2 of 3 at strength 1."), "{text}");
        assert!(
            text.contains(
                "Of 2 bottlenecks the right one was named before any other in 2, within 15 s in 2."
            )
        );
        assert!(
            text.contains("Healthy for 5.0 min in all: nothing was named at 298 of 300 looks, the CPU at 2."),
            "{text}"
        );
    }
}
