//! What a person sees while it runs, on standard error: a bar on a terminal, plain lines elsewhere.

use super::plan::Condition;
use super::sample::{Found, Sample};
use crate::terminal;
use indicatif::{ProgressBar, ProgressStyle};

/// The bar, and lines above it.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// For this many cells.
    pub(crate) fn new(cells: usize) -> Self {
        let bar = ProgressBar::new(cells as u64);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} (about {eta} left) {msg}");
        Self { bar: bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())) }
    }

    /// What is being done now.
    pub(crate) fn doing(&self, what: String) {
        self.bar.set_message(what);
        self.bar.tick();
    }

    /// A cell is done.
    pub(crate) fn done(&self, sample: &Sample) {
        self.say(&line(sample));
        self.bar.inc(1);
    }

    /// A line of its own.
    pub(crate) fn say(&self, text: &str) {
        if self.bar.is_hidden() {
            terminal::complain(text);
        } else {
            self.bar.println(text);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn line(sample: &Sample) -> String {
    let found = match &sample.found {
        Found::Load { clients, cost, .. } => {
            let cost = cost.map_or_else(String::new, |cost| {
                format!("  {:.1} us CPU  {:.1} MiB", cost.cpu_us, cost.loaded.resident_kib as f64 / 1024.0)
            });
            format!(
                "{:>8.0} QPS  p50 {:.3} ms  p99 {:.3} ms{cost}",
                clients.qps, clients.p50_ms, clients.p99_ms
            )
        }
        Found::Connect { p50_us, p99_us } => format!("p50 {p50_us:.0} us  p99 {p99_us:.0} us"),
    };
    let condition = match sample.condition {
        Condition::Connect { .. } => "connect".to_owned(),
        load @ Condition::Load { .. } => load.to_string(),
    };
    format!("round {}  {condition:<22} {:<14} {found}", sample.round, sample.subject)
}
