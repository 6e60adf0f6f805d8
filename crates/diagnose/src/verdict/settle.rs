//! Keeps verdicts from flapping: one is named when it holds, and kept until it has clearly gone.
//!
//! - Named: the first of the ranking in [`NAMED_AFTER`] windows of the last [`OF`].
//! - Kept: while its load is [`KEPT_ABOVE`] or more; below that for [`GONE_AFTER`] windows it ends.
//! - Replaced: another one is first for [`NAMED_AFTER`] windows of the last [`OF`] and explains [`CLEARLY`]
//!   times as much.
//! - After a gap in the samples: what was named is on probation. It stays if the first window with evidence
//!   of it bears it out, ends with the first that does not, and ends after [`GONE_AFTER`] windows without
//!   any. A machine so starved that a reading comes late does not lose its verdict by that, and one that was
//!   frozen does not keep a stale one.
//!
//! With a window a second and windows of ten seconds a bottleneck is named at the latest 13 seconds after it
//! began.

use super::{Finding, Name, Verdict, find, verdict};
use crate::verdict::Window;
use std::collections::VecDeque;

/// Windows in which it must be first.
const NAMED_AFTER: usize = 3;
/// Of this many.
const OF: usize = 4;
/// Load at which a named one is kept.
const KEPT_ABOVE: f64 = 0.8;
/// Windows below that.
const GONE_AFTER: usize = 5;
/// How much more another one must explain.
const CLEARLY: f64 = 1.25;

/// The verdict in force, and what the last windows said.
#[derive(Clone, Debug, Default)]
pub struct Settler {
    named: Option<Name>,
    firsts: VecDeque<Option<Name>>,
    low: usize,
    /// There was a gap, and no window since then had evidence of what is named.
    on_probation: bool,
}

impl Settler {
    /// The verdict in force after one more window.
    pub fn next(&mut self, window: &Window) -> Verdict {
        let findings = find(window);
        let fresh = verdict(findings.clone());
        let first = fresh.bottleneck.as_ref();
        self.firsts.push_back(first.map(|finding| finding.name));
        if self.firsts.len() > OF {
            self.firsts.pop_front();
        }
        let held = |name: Name| self.firsts.iter().filter(|n| **n == Some(name)).count() >= NAMED_AFTER;
        let kept = self.named.and_then(|name| findings.iter().find(|f| f.name == name));
        let low = kept.is_none_or(|finding| finding.load < KEPT_ABOVE);
        self.low = if low && self.named.is_some() { self.low + 1 } else { 0 };
        if kept.is_some() && std::mem::take(&mut self.on_probation) && low {
            self.named = None;
        }
        match (kept, first) {
            (Some(kept), Some(first)) if first.name != kept.name => {
                let cause = first.explains().contains(&kept.name);
                if held(first.name) && (low || cause || first.weight > kept.weight * CLEARLY) {
                    self.named = Some(first.name);
                }
            }
            (None, Some(first)) if held(first.name) => self.named = Some(first.name),
            _ => {}
        }
        if self.low >= GONE_AFTER && self.named.is_some_and(|name| !held(name)) {
            self.named = None;
        }
        self.in_force(findings, fresh)
    }

    /// A gap in the samples: the windows before say nothing about now.
    pub fn gap(&mut self) {
        self.firsts.clear();
        self.on_probation = self.named.is_some();
    }

    fn in_force(&self, findings: Vec<Finding>, fresh: Verdict) -> Verdict {
        let Some(name) = self.named else {
            // Called once, not yet named: the runner-up until it holds.
            let runner_up = fresh.bottleneck.or(fresh.runner_up);
            return Verdict { bottleneck: None, sure: None, runner_up, ..fresh };
        };
        if fresh.bottleneck.as_ref().is_some_and(|first| first.name == name) {
            return fresh;
        }
        let kept = findings.into_iter().find(|finding| finding.name == name);
        let runner_up = fresh.bottleneck.or(fresh.runner_up).filter(|other| other.name != name);
        let sure = kept.as_ref().map(|_| super::Confidence::Possible);
        Verdict { bottleneck: kept, sure, runner_up, ..fresh }
    }
}
