//! What a person sees while it runs, on standard error: a bar on a terminal, a line a second elsewhere.

use crate::terminal;
use indicatif::{ProgressBar, ProgressStyle};
use load::outcome::Moment;
use load::{Plan, Progress};

/// The bar, or lines.
pub(crate) struct View {
    bar: ProgressBar,
}

impl View {
    /// For this run.
    pub(crate) fn new(plan: &Plan) -> Self {
        let bar = ProgressBar::new((plan.warm_up + plan.time).as_secs().max(1));
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} s  {msg}");
        Self { bar: bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())) }
    }

    /// Something has happened.
    pub(crate) fn show(&self, progress: &Progress) {
        match progress {
            Progress::Connected => self.bar.set_message("connected"),
            Progress::WarmingUp(moment) => self.second("warm-up", moment),
            Progress::Measuring(moment) => self.second("", moment),
        }
    }

    fn second(&self, phase: &str, moment: &Moment) {
        let Moment { done, queries, failed, p50_ms, p99_ms, max_ms, .. } = moment;
        let line = format!(
            "{phase:<8}{done:>7} transactions/s {queries:>8} queries/s  p50 {p50_ms:.3}  p99 {p99_ms:.3}  \
             max {max_ms:.3} ms  failed {failed}"
        );
        self.bar.inc(1);
        if self.bar.is_hidden() {
            terminal::complain(line.trim_start());
        } else {
            self.bar.set_message(line);
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
