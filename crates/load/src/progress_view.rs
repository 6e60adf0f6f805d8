//! What a person sees while a load runs, on standard error: a bar on a terminal, a line a second elsewhere.

use crate::outcome::Moment;
use crate::{Plan, Progress};

/// The bar, or lines.
pub struct ProgressView {
    bar: term::Progress,
}

impl ProgressView {
    /// For this run.
    pub fn new(plan: &Plan) -> Self {
        let seconds = (plan.warm_up + plan.time).as_secs().max(1);
        Self { bar: term::Progress::new(seconds, "{bar:30} {pos}/{len} s  {msg}") }
    }

    /// Something has happened.
    pub fn show(&self, progress: &Progress) {
        match progress {
            Progress::Connected => self.bar.doing("connected".to_owned()),
            Progress::WarmingUp(moment) => self.second("warm-up", moment),
            Progress::Measuring(moment) => self.second("", moment),
        }
    }

    fn second(&self, phase: &str, moment: &Moment) {
        let Moment { done, queries, failed, p50_ms, p99_ms, max_ms, .. } = moment;
        let times = if *done == 0 {
            "no answer".to_owned()
        } else {
            format!("p50 {p50_ms:.3}  p99 {p99_ms:.3}  max {max_ms:.3} ms")
        };
        let line =
            format!("{phase:<8}{done:>7} transactions/s {queries:>8} queries/s  {times}  failed {failed}");
        self.bar.step();
        self.bar.doing_or_line(line.clone(), || line.trim_start().to_owned());
    }
}
