//! Phase (f): what a planned move of the primary did to the requests of the application.
//!
//! What is counted is all that was answered or failed from the moment the command was given until a second
//! after it ended. A request's time counts from when it was due.

use super::Verdict;
use lab::app::{AppCounts, Endpoint};
use serde::{Deserialize, Serialize};

/// A request may take this long while the primary moves, ms.
const LONGEST_MS: f64 = 1_000.0;
/// Failures that are shown.
const SHOWN: usize = 5;

/// Figures of one move.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MoveFigures {
    /// Who took writes before, and after.
    pub(crate) from: String,
    pub(crate) to: String,
    /// Whether it was done, with everybody following the new primary.
    pub(crate) done: bool,
    /// How long writes were held, by the command's own clock, ms.
    pub(crate) held_ms: Option<f64>,
    /// Routers that held writes.
    pub(crate) routers: u64,
    /// From the command to its end, s.
    pub(crate) took_s: f64,
    /// Milliseconds of each step, in order.
    pub(crate) steps: Vec<(String, f64)>,
    /// Requests that write, answered from the command to a second after its end.
    pub(crate) writing_requests: u64,
    /// The slowest of them, ms.
    pub(crate) longest_ms: f64,
    /// The slowest of the two seconds before, ms.
    pub(crate) longest_before_ms: f64,
    /// Requests of any kind that failed.
    pub(crate) failed: u64,
    /// What failed, at most five; what the command remarked.
    pub(crate) remarks: Vec<String>,
}

/// What `headroom switchover --json` says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SwitchoverOutcome {
    state: SwitchoverState,
    steps: Vec<StepTime>,
    writes_held_ms: Option<f64>,
    routers: RouterCount,
    remarks: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SwitchoverState {
    is: String,
    why: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct StepTime {
    step: String,
    ms: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RouterCount {
    holding: u64,
}

/// What applications counted over a while.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    writing: u64,
    longest_ns: u64,
    failed: u64,
    failures: Vec<String>,
}

impl SwitchoverOutcome {
    /// Whether the primary was moved.
    pub(crate) fn is_done(&self) -> bool {
        self.state.is == "done"
    }
}

impl Window {
    pub(crate) fn add(&mut self, counts: &AppCounts) {
        for (endpoint, tally) in &counts.endpoints {
            self.failed += tally.failed;
            if matches!(endpoint, Endpoint::Orders | Endpoint::Profile) {
                self.writing += tally.requests;
                self.longest_ns = self.longest_ns.max(tally.request_ns.max());
            }
        }
        let room = SHOWN.saturating_sub(self.failures.len());
        let said = counts
            .failures
            .iter()
            .map(|(endpoint, f)| format!("{}: {}: {}", endpoint.route(), f.kind, f.said));
        self.failures.extend(said.take(room));
    }

    fn longest_ms(&self) -> f64 {
        self.longest_ns as f64 / 1e6
    }
}

impl MoveFigures {
    pub(crate) fn new(
        from: &str,
        to: &str,
        outcome: SwitchoverOutcome,
        took_s: f64,
        before: &Window,
        during: Window,
    ) -> Self {
        let done = outcome.is_done() && outcome.remarks.is_empty();
        let why = outcome.state.why.into_iter();
        Self {
            from: from.to_owned(),
            to: to.to_owned(),
            done,
            held_ms: outcome.writes_held_ms,
            routers: outcome.routers.holding,
            took_s,
            steps: outcome.steps.into_iter().map(|step| (step.step.replace('_', " "), step.ms)).collect(),
            writing_requests: during.writing,
            longest_ms: during.longest_ms(),
            longest_before_ms: before.longest_ms(),
            failed: during.failed,
            remarks: why.chain(outcome.remarks).chain(during.failures).collect(),
        }
    }
}

/// What is promised of the moves; nothing where none was made.
pub(crate) fn verdicts(moves: &[MoveFigures]) -> Vec<Verdict> {
    if moves.is_empty() {
        return Vec::new();
    }
    let longest = moves.iter().map(|m| m.longest_ms).fold(0.0, f64::max);
    let before = moves.iter().map(|m| m.longest_before_ms).fold(0.0, f64::max);
    let failed: u64 = moves.iter().map(|m| m.failed).sum();
    let writing: u64 = moves.iter().map(|m| m.writing_requests).sum();
    let done = moves.iter().filter(|m| m.done).count();
    let path: Vec<&str> = moves.iter().map(|m| m.to.as_str()).collect();
    let moved = format!("primary moved {done} of {} times (to {})", moves.len(), path.join(", to "));
    vec![
        Verdict {
            part: 'f',
            asked: format!(
                "while the primary moves under write load, no request that writes takes longer than {:.0} s",
                LONGEST_MS / 1e3
            ),
            measured: format!("{moved}: longest wait {:.2} s (before: {:.2} s)", longest / 1e3, before / 1e3),
            met: done == moves.len() && writing > 0 && longest <= LONGEST_MS,
            how: format!(
                "the slowest of {writing} requests with writes, from when each was due, from the command to a second after \
                 its end"
            ),
        },
        Verdict {
            part: 'f',
            asked: "and no request fails".to_owned(),
            measured: format!("{failed} errors"),
            met: done == moves.len() && writing > 0 && failed == 0,
            how: "requests of all endpoints that failed from the command to a second after its end"
                .to_owned(),
        },
    ]
}

/// Milliseconds of each step, for the table.
pub(crate) fn steps_in_words(figures: &MoveFigures) -> String {
    figures.steps.iter().map(|(step, ms)| format!("{step} {ms:.0}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = r#"{"state":{"is":"done"},"steps":[{"step":"catch_up","undo":false,"ms":3.2}],
        "writes_held_ms":180.0,"routers":{"ready":3,"holding":3},"remarks":[]}"#;

    fn window(longest_ms: u64, failed: u64) -> Window {
        Window { writing: 40, longest_ns: longest_ms * 1_000_000, failed, failures: Vec::new() }
    }

    fn figures(said: &str, during: Window) -> MoveFigures {
        let outcome = serde_json::from_str(said).unwrap();
        MoveFigures::new("a1", "a2", outcome, 3.0, &window(20, 0), during)
    }

    #[test]
    fn a_move_that_nobody_notices_meets_both() {
        let figures = figures(SAID, window(240, 0));
        assert_eq!((figures.done, figures.held_ms, figures.routers), (true, Some(180.0), 3));
        assert_eq!(steps_in_words(&figures), "catch up 3");
        assert!(verdicts(&[figures]).iter().all(|verdict| verdict.met));
    }

    #[test]
    fn a_stall_an_error_a_remark_and_silence_are_each_missed() {
        let met =
            |said: &str, during| verdicts(&[figures(said, during)]).iter().map(|v| v.met).collect::<Vec<_>>();
        assert_eq!(met(SAID, window(1_001, 0)), [false, true]);
        assert_eq!(met(SAID, window(240, 1)), [true, false]);
        let undone = SAID.replace(r#"{"is":"done"}"#, r#"{"is":"undone","why":"a2 is late"}"#);
        assert_eq!(met(&undone, window(240, 0)), [false, false]);
        assert_eq!(figures(&undone, window(1, 0)).remarks, ["a2 is late"]);
        assert_eq!(met(&SAID.replace("[]", "[\"b1 does not follow\"]"), window(1, 0)), [false, false]);
        assert_eq!(met(SAID, Window::default()), [false, false], "nobody wrote");
        assert!(verdicts(&[]).is_empty());
    }
}
