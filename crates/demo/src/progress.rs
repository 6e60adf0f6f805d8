//! What a person sees while the demo runs, on standard error: a bar on a terminal, plain lines elsewhere.

use crate::figures::FaultKind;
use crate::scenario::Phase;
use std::time::Instant;

/// The bar, or lines.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: term::Progress,
    began: Instant,
}

impl Progress {
    /// For this many steps.
    pub(crate) fn new(steps: u64) -> Self {
        let bar = term::Progress::new(steps, "{spinner} {bar:24} {elapsed:>4}  {msg}").ticking();
        Self { bar, began: Instant::now() }
    }

    /// Something begins that takes a while.
    pub(crate) fn say(&self, what: &str) {
        let line = || format!("{:>4.0} s  {what}", self.began.elapsed().as_secs_f64());
        self.bar.doing_or_line(what.to_owned(), line);
    }

    /// A step begins.
    pub(crate) fn step(&self, what: &str) {
        self.say(what);
        self.bar.step();
    }

    /// A slice of a phase begins.
    pub(crate) fn slice(&self, phase: &Phase, round: u32, rounds: u32) {
        let of = if rounds > 1 { format!(" ({round}/{rounds})") } else { String::new() };
        self.step(&format!("({}) {}{of}", &phase.id[..1], phase.title));
    }

    /// A part of a fault begins.
    pub(crate) fn fault(&self, kind: FaultKind, part: &str) {
        let what = match kind {
            FaultKind::Killed => "a reader is killed",
            FaultKind::Blackholed => "a reader is blackholed",
        };
        self.step(&format!("(e) {what}: {part}"));
    }

    /// The bar goes.
    pub(crate) fn done(&self) {
        self.bar.finish();
    }
}
