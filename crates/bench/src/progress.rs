//! What a person sees while it runs, on standard error: a bar on a terminal, plain lines elsewhere.

use super::sample::{Found, Sample};
use super::schedule::Condition;

/// The bar, and lines above it.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: term::Progress,
}

impl Progress {
    /// For this many cells.
    pub(crate) fn new(cells: usize) -> Self {
        let template = "{bar:30} {pos}/{len} {elapsed} (about {eta} left) {msg}";
        Self { bar: term::Progress::new(cells as u64, template) }
    }

    /// What is being done now.
    pub(crate) fn doing(&self, what: String) {
        self.bar.doing(what);
    }

    /// A cell is done.
    pub(crate) fn done(&self, sample: &Sample) {
        self.bar.line(&line(sample));
        self.bar.step();
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
