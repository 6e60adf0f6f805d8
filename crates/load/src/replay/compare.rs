//! Compare: what came of a replay beside what was recorded, or of two replays beside each other, by digest.
//! Pure.
//!
//! All times are of single commands, kept whole, so quantiles are exact (the nearest rank). *Service* runs
//! from sending to the last byte of the answer, as the recorded time does; *response* from the recorded
//! moment. A command that failed has no time here: a refusal is quick, and would make a server look fast. Row
//! counts are compared command by command: two runs with equal sums and different rows are told apart. What a
//! recording does not tell is compared with nothing, and a note says so.

use super::{CommandOutcome, GroupBy, LeftOut, ReplayOutcome, Script, ScriptStep};
use plan::quantile::nearest_rank;
use serde::Serialize;
use sql::{Dialect, Digester};
use std::collections::{BTreeMap, HashMap};
use wire::Command;

/// Above this a replay did not keep its own moments, whatever the target did.
const OWN_LATE_MS: f64 = 1.0;
/// Above this share of its CPU a thread's lateness shows in the times.
const CPU: f64 = 0.7;

/// Groups of commands: digests, and commands that are no statements.
#[derive(Default)]
pub struct Groups {
    digester: Digester,
    numbers: HashMap<u64, u32>,
    commands: HashMap<u8, u32>,
    names: Vec<String>,
}

impl Groups {
    /// The number of a command's group.
    pub fn of(&mut self, what: GroupBy<'_>) -> u32 {
        match what {
            GroupBy::Statement { text, mariadb } => {
                let hash = self.digester.read(text, Dialect { mariadb, ..Dialect::default() });
                *self.numbers.entry(hash).or_insert_with(|| {
                    self.names.push(self.digester.text());
                    self.names.len() as u32 - 1
                })
            }
            GroupBy::Command(command) => *self.commands.entry(command.byte()).or_insert_with(|| {
                self.names.push(command.to_string());
                self.names.len() as u32 - 1
            }),
        }
    }

    /// The name of a group.
    pub fn name(&self, group: u32) -> &str {
        &self.names[group as usize]
    }
}

/// Everything that came of it.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayView {
    /// Where the recording comes from.
    pub source: String,
    pub recorded_commands: u64,
    /// Events that were lost while recording.
    pub lost_while_recording: u64,
    /// Recorded time over replayed time.
    pub speed: f64,
    /// Commands that could be sent.
    pub commands: u64,
    /// Those that were not, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// One for each target.
    pub runs: Vec<RunView>,
    /// Digests and other commands, most time first.
    pub groups: Vec<GroupView>,
    /// Commands that were answered with other rows than when recorded; of two targets, with other rows than
    /// each other.
    pub rows_differ: u64,
    /// The same of errors.
    pub errors_differ: u64,
    /// Why the figures must not be used.
    pub void: Vec<String>,
    /// What else to know.
    pub notes: Vec<String>,
}

/// One target as a whole.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunView {
    pub target: String,
    pub seconds: f64,
    /// Commands sent and, where they are, answered.
    pub answered: u64,
    pub failed: u64,
    /// How far from its moment each command was sent.
    pub late_p50_ms: f64,
    pub late_p99_ms: f64,
    pub late_max_ms: f64,
    /// The part of it that was ours: the session was free.
    pub own_late_p99_ms: f64,
    pub cpu_share: f64,
    /// Sessions that were lost or never came to be, by reason.
    pub lost_sessions: BTreeMap<String, u64>,
}

/// One digest, or another command.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GroupView {
    pub name: String,
    /// Commands that could be sent.
    pub commands: u64,
    pub recorded: SideView,
    /// At each target.
    pub replayed: Vec<SideView>,
    /// The median service time over the recorded one; of two targets, of the second over the first.
    pub ratio_p50: Option<f64>,
    /// The same at p99.
    pub ratio_p99: Option<f64>,
    pub rows_differ: u64,
    pub errors_differ: u64,
}

/// One digest in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SideView {
    pub answered: u64,
    /// `None` where nothing was answered, or it is not known of each command.
    pub errors: Option<u64>,
    /// By number.
    pub error_codes: BTreeMap<u16, u64>,
    pub rows: u64,
    /// `None` where it is not known of each command.
    pub affected: Option<u64>,
    pub service_p50_ms: Option<f64>,
    pub service_p99_ms: Option<f64>,
    /// From the recorded moment; not for the recording itself.
    pub response_p50_ms: Option<f64>,
    pub response_p99_ms: Option<f64>,
}

/// Why nothing of a recording can be sent.
pub fn why_nothing(script: &Script) -> String {
    if script.commands == 0 {
        return format!(
            "it holds no command ({} sessions, {:.0} s); what headroom record said when it ended tells why",
            script.sessions.len(),
            script.length_us as f64 / 1e6
        );
    }
    let all = reasons(&script.left_out);
    all.iter().map(|(why, count)| format!("{count} {why}")).collect::<Vec<_>>().join(", ")
}

/// What is not sent, in words.
fn reasons(left_out: &LeftOut) -> BTreeMap<&'static str, u64> {
    let all = [
        ("change data, or may (--write-too)", left_out.writes),
        ("administer the server or need what is not recorded", left_out.administers),
        ("held a password or were too long", left_out.not_kept),
        ("were prepared before recording began", left_out.prepared_before),
        ("cannot be sent again", left_out.unfit),
    ];
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Puts it together.
pub fn view(script: &Script, groups: &Groups, speed: f64, runs: &[(String, ReplayOutcome)]) -> ReplayView {
    let mut by_group: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, step) in script.steps.iter().enumerate() {
        by_group.entry(step.group).or_default().push(at);
    }
    let each = |(group, steps): (&u32, &Vec<usize>)| {
        (time_ns(script, steps, runs), of_group(script, groups.name(*group), steps, runs))
    };
    let mut all: Vec<(u64, GroupView)> = by_group.iter().map(each).collect();
    all.sort_by(|(a_ns, a), (b_ns, b)| b_ns.cmp(a_ns).then_with(|| a.name.cmp(&b.name)));
    let all: Vec<GroupView> = all.into_iter().map(|(_, group)| group).collect();
    let views: Vec<_> = runs.iter().map(|(target, run)| run_view(target, run)).collect();
    ReplayView {
        source: script.began.source.clone(),
        recorded_commands: script.commands,
        lost_while_recording: script.lost,
        speed,
        commands: script.steps.len() as u64,
        left_out: reasons(&script.left_out),
        rows_differ: all.iter().map(|group| group.rows_differ).sum(),
        errors_differ: all.iter().map(|group| group.errors_differ).sum(),
        void: runs
            .iter()
            .flat_map(|(target, run)| void(target, run).into_iter().chain(mostly_failed(script, target, run)))
            .collect(),
        notes: notes(script, &views),
        groups: all,
        runs: views,
    }
}

/// The time that these steps took at the last target together: many times the median is not that where some
/// take long.
fn time_ns(script: &Script, steps: &[usize], runs: &[(String, ReplayOutcome)]) -> u64 {
    let command = |at: &usize| match runs.last() {
        Some((_, run)) => run.outcomes[*at],
        None => script.steps[*at].recorded.map(as_outcome),
    };
    steps.iter().filter_map(command).map(|command| command.service_ns).sum()
}

fn of_group(script: &Script, name: &str, steps: &[usize], runs: &[(String, ReplayOutcome)]) -> GroupView {
    let recorded: Vec<Option<CommandOutcome>> =
        steps.iter().map(|at| script.steps[*at].recorded.map(as_outcome)).collect();
    let of_run = |run: &ReplayOutcome| steps.iter().map(|at| run.outcomes[*at]).collect::<Vec<_>>();
    let replayed: Vec<Vec<Option<CommandOutcome>>> = runs.iter().map(|(_, run)| of_run(run)).collect();
    let (before, after) = match replayed.as_slice() {
        [one, other] => (one, other),
        [one] => (&recorded, one),
        _ => (&recorded, &recorded),
    };
    let both = || before.iter().zip(after).filter_map(|(a, b)| Some(((*a)?, (*b)?)));
    let judged = |a: &CommandOutcome, b: &CommandOutcome| !a.error_unknown && !b.error_unknown;
    let differ = both().filter(|(a, b)| a.error == b.error && have_other_rows(a, b)).count();
    let errors = both().filter(|(a, b)| judged(a, b) && a.error != b.error).count();
    let (one, other) = (side(before, false), side(after, true));
    let ratio = |a: Option<f64>, b: Option<f64>| Some(b? / a.filter(|a| *a > 0.0)?);
    GroupView {
        name: name.to_owned(),
        commands: steps.len() as u64,
        recorded: side(&recorded, false),
        replayed: replayed.iter().map(|command| side(command, true)).collect(),
        ratio_p50: ratio(one.service_p50_ms, other.service_p50_ms),
        ratio_p99: ratio(one.service_p99_ms, other.service_p99_ms),
        rows_differ: differ as u64,
        errors_differ: errors as u64,
    }
}

/// What is not known of one of them is no difference.
fn have_other_rows(one: &CommandOutcome, other: &CommandOutcome) -> bool {
    one.rows != other.rows || one.affected.zip(other.affected).is_some_and(|(one, other)| one != other)
}

fn as_outcome(answer: recording::Answer) -> CommandOutcome {
    CommandOutcome {
        service_ns: answer.took_us * 1000,
        error: answer.error,
        error_unknown: answer.error_unknown,
        rows: answer.rows,
        affected: answer.affected,
        ..CommandOutcome::default()
    }
}

fn side(all: &[Option<CommandOutcome>], with_response: bool) -> SideView {
    let done: Vec<&CommandOutcome> = all.iter().flatten().collect();
    let times = |of: fn(&CommandOutcome) -> u64| {
        let timed = done.iter().filter(|t| t.service_ns > 0 && t.error.is_none());
        sorted(timed.map(|t| of(t)))
    };
    let service = times(|command| command.service_ns);
    let response = if with_response { times(|command| command.response_ns) } else { Vec::new() };
    let mut side = SideView {
        answered: done.len() as u64,
        rows: done.iter().map(|command| command.rows).sum(),
        affected: done.iter().map(|command| command.affected).sum(),
        service_p50_ms: quantile(&service, 0.5),
        service_p99_ms: quantile(&service, 0.99),
        response_p50_ms: quantile(&response, 0.5),
        response_p99_ms: quantile(&response, 0.99),
        ..SideView::default()
    };
    for code in done.iter().filter_map(|command| command.error) {
        *side.error_codes.entry(code).or_default() += 1;
    }
    let known = !done.is_empty() && done.iter().all(|command| !command.error_unknown);
    side.errors = known.then(|| side.error_codes.values().sum());
    side
}

fn run_view(target: &str, run: &ReplayOutcome) -> RunView {
    let late = sorted(run.outcomes.iter().flatten().map(|command| command.late_ns));
    let own = sorted(run.outcomes.iter().flatten().map(|command| command.own_late_ns));
    let of = |times: &[u64], q| quantile(times, q).unwrap_or(0.0);
    RunView {
        target: target.to_owned(),
        seconds: run.seconds,
        answered: late.len() as u64,
        failed: run.outcomes.iter().flatten().filter(|command| command.error.is_some()).count() as u64,
        late_p50_ms: of(&late, 0.5),
        late_p99_ms: of(&late, 0.99),
        late_max_ms: of(&late, 1.0),
        own_late_p99_ms: of(&own, 0.99),
        cpu_share: run.cpu_share,
        lost_sessions: run.lost_sessions.clone(),
    }
}

/// Why the times of a replay must not be used; nothing where they may be.
pub fn void(target: &str, run: &ReplayOutcome) -> Vec<String> {
    let mut void = Vec::new();
    let own = sorted(run.outcomes.iter().flatten().map(|command| command.own_late_ns));
    let own_late_p99_ms = quantile(&own, 0.99).unwrap_or(0.0);
    if own_late_p99_ms > OWN_LATE_MS {
        void.push(format!(
            "{target}: commands were sent {own_late_p99_ms:.3} ms late by ourselves at p99 (at most {OWN_LATE_MS} ms): this \
             machine is too busy or too noisy for this speed"
        ));
    }
    if run.cpu_share > CPU {
        void.push(format!(
            "{target}: the threads that send used {:.0} % of their CPU (at most {:.0} %); give it more (--threads) or \
             another machine",
            run.cpu_share * 100.0,
            CPU * 100.0
        ));
    }
    if run.stopped {
        void.push(format!("{target}: stopped before its end"));
    }
    void
}

/// Why a target that answered less than half of what it should have answered is not compared: it went away,
/// or is no copy of the recorded server.
fn mostly_failed(script: &Script, target: &str, run: &ReplayOutcome) -> Option<String> {
    let steps = || script.steps.iter().zip(&run.outcomes).filter(|(step, _)| succeeded(step));
    let failing = |outcome: Option<CommandOutcome>| outcome.is_none_or(|outcome| outcome.error.is_some());
    let (all, failed) = (steps().count(), steps().filter(|(_, outcome)| failing(**outcome)).count());
    (failed * 2 > all && !run.stopped).then(|| {
        let error = steps().find_map(|(_, outcome)| outcome.as_ref()?.error);
        let error = error.map_or_else(String::new, |code| format!(" (the first error is {code})"));
        format!(
            "{target}: {failed} of {all} commands that succeeded when recorded failed or were not answered{error}: is it a \
             copy of the recorded server, and was it up?"
        )
    })
}

/// When it was recorded, as far as is known.
fn succeeded(step: &ScriptStep) -> bool {
    step.recorded.is_none_or(|answer| answer.error.is_none())
}

fn notes(script: &Script, views: &[RunView]) -> Vec<String> {
    let mut notes = Vec::new();
    let joined = script.sessions.iter().filter(|session| session.joined).count();
    if joined > 0 {
        let again: usize = script.sessions.iter().map(|session| session.prepared_before.len()).sum();
        notes.push(format!(
            "{joined} of {} sessions were there before recording began: {again} statements that they had prepared are prepared \
             again, but variables and temporary tables that they had are not known and not made again",
            script.sessions.len()
        ));
    }
    match script.ending {
        recording::Ending::Whole => {}
        recording::Ending::Unfinished => {
            notes.push("the recording has no end: whoever made it was ended; all it has is whole".to_owned());
        }
        recording::Ending::Torn { left_out } => notes.push(format!(
            "the recording is torn: its last {left_out} bytes are left out, everything before them is whole"
        )),
    }
    if script.lost > 0 {
        notes.push(format!("{} events were lost while recording", script.lost));
    }
    if script.began.resolution_us > 1000 {
        notes.push(format!(
            "the log knows moments to {} ms only; within that they are spread evenly",
            script.began.resolution_us / 1000
        ));
    }
    if views.len() == 1 {
        notes.extend(not_compared(script));
    }
    for view in views {
        let missing = script.steps.len() as u64 - view.answered;
        if missing > 0 {
            notes.push(format!("{}: {missing} commands were not sent or not answered", view.target));
        }
        for (why, count) in &view.lost_sessions {
            notes.push(format!("{}: {count} sessions lost: {why}", view.target));
        }
    }
    notes
}

/// What the recording does not tell of its commands.
fn not_compared(script: &Script) -> Vec<String> {
    let is_statement = |step: &&ScriptStep| matches!(step.command, Command::Query | Command::StmtExecute);
    let statements = || script.steps.iter().filter(is_statement);
    let unanswered = statements().filter(|step| step.recorded.is_none()).count();
    let answers = statements().filter_map(|step| step.recorded);
    let unjudged = answers.filter(|answer| answer.error_unknown).count();
    let mut notes = Vec::new();
    if unanswered > 0 {
        notes.push(format!(
            "of {unanswered} statements the recording does not say how they were answered: they are not compared"
        ));
    }
    if unjudged > 0 {
        notes.push(format!(
            "of {unjudged} statements the log does not say whether they failed: their errors are not \
             compared (MySQL's does with log_slow_extra = ON)"
        ));
    }
    notes
}

fn sorted(times: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut times: Vec<u64> = times.collect();
    times.sort_unstable();
    times
}

/// In milliseconds, of sorted nanoseconds.
fn quantile(sorted: &[u64], q: f64) -> Option<f64> {
    nearest_rank(sorted, q).map(|ns| ns as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::Answer;

    fn script() -> (Script, Groups) {
        let mut groups = Groups::default();
        let mut script = Script::default();
        for (n, text) in ["SELECT 1", "SELECT 2", "SELECT a FROM t"].into_iter().enumerate() {
            let group = groups.of(GroupBy::Statement { text: text.as_bytes(), mariadb: true });
            let recorded = Some(Answer { took_us: 1000, rows: 1, ..Answer::default() });
            let (command, body) = (Command::Query, text.into());
            script.steps.push(ScriptStep { session: 0, at_us: n as u64, command, body, group, recorded });
        }
        (script, groups)
    }

    fn run(all: [(u64, u64, Option<u16>); 3]) -> ReplayOutcome {
        let outcomes = all.map(|(service_ns, rows, error)| {
            Some(CommandOutcome {
                service_ns,
                response_ns: 2 * service_ns,
                rows,
                error,
                ..CommandOutcome::default()
            })
        });
        ReplayOutcome { outcomes: outcomes.to_vec(), seconds: 1.0, ..ReplayOutcome::default() }
    }

    #[test]
    fn one_target_is_held_against_the_recording_and_two_against_each_other() {
        let (script, groups) = script();
        let a =
            ("a".to_owned(), run([(2_000_000, 1, None), (4_000_000, 3, None), (1_000_000, 0, Some(1146))]));
        let b =
            ("b".to_owned(), run([(4_000_000, 1, None), (4_000_000, 3, None), (1_000_000, 0, Some(1146))]));
        let one = view(&script, &groups, 1.0, std::slice::from_ref(&a));
        assert_eq!((one.groups.len(), one.rows_differ, one.errors_differ), (2, 1, 1));
        let select = &one.groups[0];
        assert_eq!((select.name.as_str(), select.commands, select.ratio_p50), ("SELECT ?", 2, Some(2.0)));
        assert_eq!(select.replayed[0].response_p99_ms, Some(8.0));
        assert_eq!(one.groups[1].replayed[0].error_codes, [(1146, 1)].into());
        let two = view(&script, &groups, 1.0, &[a, b]);
        assert_eq!((two.rows_differ, two.errors_differ), (0, 0));
        assert_eq!((two.groups[0].ratio_p50, two.groups[0].ratio_p99), (Some(2.0), Some(1.0)));
    }

    #[test]
    fn a_target_that_refuses_most_of_what_the_recorded_server_answered_is_not_compared() {
        let (mut script, groups) = script();
        let of = |script: &Script, run| view(script, &groups, 1.0, &[("a".to_owned(), run)]);
        let half = [(1_000_000, 1, None), (1, 0, Some(1146)), (1, 0, Some(1146))];
        let void = of(&script, run(half)).void;
        assert!(void[0].contains("2 of 3") && void[0].contains("1146"), "{void:?}");
        assert!(of(&script, ReplayOutcome { stopped: true, ..run(half) }).void[0].contains("stopped"));
        let silent = ReplayOutcome { outcomes: vec![None; 3], ..run(half) };
        assert!(of(&script, silent).void[0].contains("3 of 3"));
        script.steps[2].recorded = Some(Answer { error: Some(1146), ..Answer::default() });
        assert!(of(&script, run(half)).void.is_empty(), "it failed when it was recorded, too");
    }

    #[test]
    fn rows_changed_are_compared_where_both_are_known() {
        let (mut script, groups) = script();
        let of = |script: &Script| {
            let mut replayed = run([(1_000_000, 1, None); 3]);
            replayed.outcomes[0].as_mut().unwrap().affected = Some(2);
            view(script, &groups, 1.0, &[("a".to_owned(), replayed)])
        };
        let unknown = of(&script);
        assert_eq!((unknown.rows_differ, unknown.groups[0].recorded.affected), (0, None));
        for (recorded, differ) in [(2, 0), (0, 1)] {
            let answer = Answer { took_us: 1000, rows: 1, affected: Some(recorded), ..Answer::default() };
            script.steps[0].recorded = Some(answer);
            assert_eq!(of(&script).rows_differ, differ);
        }
    }

    #[test]
    fn what_a_recording_does_not_tell_is_no_success() {
        let (mut script, groups) = script();
        let failed = run([(1_000_000, 1, None), (1, 0, Some(1064)), (1_000_000, 1, None)]);
        let one = [("a".to_owned(), failed)];
        script.steps[1].recorded = Some(Answer { error_unknown: true, ..Answer::default() });
        script.steps[2].recorded = None;
        let found = view(&script, &groups, 1.0, &one);
        let select = found.groups.iter().find(|group| group.name == "SELECT ?").unwrap();
        assert_eq!((found.errors_differ, select.recorded.errors), (0, None));
        assert_eq!(select.replayed[0].errors, Some(1));
        let notes = found.notes.join("\n");
        assert!(notes.contains("of 1 statements the log does not say whether they failed"), "{notes}");
        assert!(notes.contains("of 1 statements the recording does not say how"), "{notes}");
        let text = crate::replay::text::view(&found, 20, term::Paint::off());
        assert!(text.contains("- -> 1"), "{text}");
    }

    #[test]
    fn what_takes_most_time_comes_first_also_where_its_median_is_short() {
        let (script, groups) = script();
        let skewed = run([(1_000_000, 1, None), (100_000_000, 1, None), (5_000_000, 1, None)]);
        let found = view(&script, &groups, 1.0, &[("a".to_owned(), skewed)]);
        let (first, second) = (&found.groups[0], &found.groups[1]);
        assert_eq!((first.name.as_str(), first.replayed[0].service_p50_ms), ("SELECT ?", Some(1.0)));
        assert_eq!(second.replayed[0].service_p50_ms, Some(5.0));
    }

    #[test]
    fn a_command_that_failed_has_no_time() {
        let (script, groups) = script();
        let quick = run([(4_000_000, 1, None), (1_000, 0, Some(1213)), (1_000_000, 1, None)]);
        let found = view(&script, &groups, 1.0, &[("a".to_owned(), quick)]);
        let select = found.groups.iter().find(|group| group.name == "SELECT ?").unwrap();
        assert_eq!((select.replayed[0].answered, select.replayed[0].errors), (2, Some(1)));
        assert_eq!((select.replayed[0].service_p50_ms, select.ratio_p50), (Some(4.0), Some(4.0)));
    }

    #[test]
    fn a_quantile_is_the_least_value_that_so_many_are_not_above() {
        let times: Vec<u64> = (1..=100).map(|n| n * 1_000_000).collect();
        assert_eq!(
            (quantile(&times, 0.5), quantile(&times, 0.99), quantile(&times, 1.0)),
            (Some(50.0), Some(99.0), Some(100.0))
        );
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn a_replay_that_was_late_by_itself_is_void() {
        let (script, groups) = script();
        let mut replayed = run([(1, 1, None); 3]);
        for command in replayed.outcomes.iter_mut().flatten() {
            command.own_late_ns = 5_000_000;
        }
        let void = view(&script, &groups, 1.0, &[("a".to_owned(), replayed)]).void;
        assert!(void[0].contains("late by ourselves"), "{void:?}");
    }
}
