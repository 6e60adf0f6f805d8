//! Whether a thread of a closed loop gives way to the servers.
//!
//! Beside the servers, on the same cores, it sends a few statements and is interrupted by the threads that it has woken. There it costs
//! less, and both cores have more to do, when it lets them go first: with the longest slice it is chosen later (`slice.rs`), and
//! answers gather for a moment before it takes them (`sockets/ring.rs`). A thread that has its core for itself is better off without: it
//! would sleep until enough answers are there, where it can take each as it comes. Which of the two it is, the kernel tells: who
//! shares a core is interrupted, who does not only sleeps.

use super::slice;
use nix::sys::resource::{UsageWho, getrusage};
use std::time::Duration;

/// How long answers gather, at most.
pub const GATHERING: Duration = Duration::from_micros(30);

/// Between two looks, in ns.
const EVERY: u64 = 10_000_000;
/// Fewer context switches between two looks say nothing.
const ENOUGH: i64 = 10;

/// A thread of a closed loop, and whether it gives way.
#[derive(Debug, Default)]
pub(super) struct GivingWay {
    may: bool,
    on: bool,
    /// When it last looked, and what it saw.
    looked: u64,
    seen: Switches,
    /// For how long it gave way, in ns.
    time: u64,
}

/// Context switches of a thread since it began.
#[derive(Clone, Copy, Debug, Default)]
struct Switches {
    /// It waited for something.
    slept: i64,
    /// Somebody else was let in.
    interrupted: i64,
}

impl GivingWay {
    /// A phase begins, at first without; `now` in ns. `may`: nobody has to be on time, and answers can gather.
    pub(super) fn begin(&mut self, may: bool, now: u64) {
        self.set(false);
        *self = Self { may, looked: now, seen: Switches::of_this_thread(), ..Self::default() };
    }

    /// Looks, now and then, whether it is better; `now` in ns.
    pub(super) fn look(&mut self, now: u64) {
        let since = now.saturating_sub(self.looked);
        if !self.may || since < EVERY {
            return;
        }
        self.looked = now;
        self.time += if self.on { since } else { 0 };
        let switches = Switches::of_this_thread();
        if let Some(crowded) = switches.tell_of_a_crowd(self.seen) {
            self.set(crowded);
        }
        self.seen = switches;
    }

    /// Whether it gives way: answers may gather.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// The phase is over; for how much of it it gave way, in ns.
    pub(super) fn end(&mut self) -> u64 {
        self.set(false);
        self.may = false;
        self.time
    }

    fn set(&mut self, on: bool) {
        if self.on != on {
            self.on = on;
            slice::ask(if on { slice::LONGEST } else { slice::USUAL });
        }
    }
}

impl Switches {
    fn of_this_thread() -> Self {
        // It cannot fail: the thread is there.
        let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) else { return Self::default() };
        Self { slept: usage.voluntary_context_switches(), interrupted: usage.involuntary_context_switches() }
    }

    /// Whether others wanted the core since `before`; `None` where there is too little to tell.
    fn tell_of_a_crowd(self, before: Self) -> Option<bool> {
        let slept = self.slept - before.slept;
        let interrupted = self.interrupted - before.interrupted;
        (slept + interrupted >= ENOUGH).then_some(interrupted > slept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_interrupted_more_than_it_sleeps_shares_its_core() {
        let before = Switches { slept: 1000, interrupted: 500 };
        let after = |slept: i64, interrupted: i64| {
            Switches { slept: 1000 + slept, interrupted: 500 + interrupted }.tell_of_a_crowd(before)
        };
        // A closed loop of 16 clients for 10 ms, as seen beside a server on the same two cores and with a core of its own.
        assert_eq!(after(4, 40), Some(true));
        assert_eq!(after(290, 1), Some(false));
        assert_eq!(after(4, 5), None, "too few to tell");
        assert_eq!(after(0, 0), None);
    }

    #[test]
    fn only_a_phase_that_allows_it_gives_way() {
        let mut giving_way = GivingWay::default();
        for may in [false, true] {
            giving_way.begin(may, EVERY);
            giving_way.seen.interrupted -= 100;
            giving_way.look(2 * EVERY - 1);
            assert!(!giving_way.is_on(), "too early");
            giving_way.look(2 * EVERY);
            assert_eq!(giving_way.is_on(), may);
            giving_way.seen.slept -= 100;
            giving_way.seen.interrupted = Switches::of_this_thread().interrupted;
            giving_way.look(5 * EVERY);
            assert!(!giving_way.is_on(), "it sleeps now");
            assert_eq!(giving_way.end(), if may { 3 * EVERY } else { 0 });
        }
    }
}
