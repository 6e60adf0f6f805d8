//! Heartbeat: how one part of the data plane shows that it lives: it is asked, and answers from its own loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Between two signs of life.
pub(crate) const BEAT: Duration = Duration::from_millis(250);
/// How the names of parts begin that are asked by messages.
pub(crate) const THREAD: &str = "thread";
pub(crate) const RING: &str = "ring";

/// How one part shows that it lives.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// What it is called: `thread 0`, `ring 0`, `rebalancer`.
    pub(crate) part: String,
    asked: AtomicU64,
    answered: AtomicU64,
    stalled: AtomicBool,
    /// It has ended for good, and that is known.
    retired: AtomicBool,
}

impl Heartbeat {
    pub(crate) fn new(part: String) -> Arc<Self> {
        let (asked, answered) = (AtomicU64::new(0), AtomicU64::new(0));
        let (stalled, retired) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { part, asked, answered, stalled, retired })
    }

    /// Asks once more, if the last question was answered.
    pub(crate) fn ask(&self) -> bool {
        let answered = self.is_answered();
        if answered {
            self.asked.fetch_add(1, Relaxed);
        }
        answered
    }

    /// Answers all questions: from the part's own loop.
    pub(crate) fn answer(&self) {
        self.answered.store(self.asked.load(Relaxed), Relaxed);
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.answered.load(Relaxed) == self.asked.load(Relaxed)
    }

    /// Whether it was seen standing still, and has not answered since.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(Relaxed)
    }

    pub(crate) fn set_stalled(&self, stalled: bool) {
        self.stalled.store(stalled, Relaxed);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Relaxed)
    }

    /// Whether new work should go elsewhere.
    pub(crate) fn is_unfit(&self) -> bool {
        self.stalled.load(Relaxed) || self.retired.load(Relaxed)
    }

    /// It has ended for good.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Relaxed);
        self.stalled.store(false, Relaxed);
    }
}
