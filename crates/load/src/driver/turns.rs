//! How long a thread's turns on its core are.
//!
//! A closed loop beside the servers, on the same cores, sends a few statements and is interrupted by the threads it has woken. Fewer,
//! longer turns cost it less: with the longest slice (`slice.rs`) and answers that gather for a moment (`sockets/ring.rs`). A
//! thread that has its core for itself is better off without: it would sleep until enough answers are there, where it can take each
//! as it comes. Which of the two it is, the kernel tells: who shares a core is interrupted, who does not only sleeps.

use super::slice;
use nix::sys::resource::{UsageWho, getrusage};

/// Between two looks, in ns.
const EVERY: u64 = 10_000_000;
/// Fewer context switches between two looks say nothing.
const ENOUGH: i64 = 10;

/// A thread's turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    may_be_long: bool,
    are_long: bool,
    /// When it last looked, and what it saw.
    looked: u64,
    seen: Switches,
    /// For how long they have been long, in ns.
    long: u64,
}

/// Context switches of a thread since it began.
#[derive(Clone, Copy, Debug, Default)]
struct Switches {
    /// It waited for something.
    slept: i64,
    /// Somebody else was let in.
    interrupted: i64,
}

impl Turns {
    /// A phase begins, with turns as usual; `now` in ns. `may_be_long`: nobody has to be on time.
    pub(super) fn begin(&mut self, may_be_long: bool, now: u64) {
        self.set(false);
        *self = Self { may_be_long, looked: now, seen: Switches::of_this_thread(), ..Self::default() };
    }

    /// Looks, now and then, whether long turns are better; `now` in ns.
    pub(super) fn look(&mut self, now: u64) {
        let since = now.saturating_sub(self.looked);
        if !self.may_be_long || since < EVERY {
            return;
        }
        self.looked = now;
        self.long += if self.are_long { since } else { 0 };
        let switches = Switches::of_this_thread();
        if let Some(crowded) = switches.tell_of_a_crowd(self.seen) {
            self.set(crowded);
        }
        self.seen = switches;
    }

    /// Whether answers may gather.
    #[inline]
    pub(super) fn are_long(&self) -> bool {
        self.are_long
    }

    /// The phase is over; for how much of it turns were long, in ns.
    pub(super) fn end(&mut self) -> u64 {
        self.set(false);
        self.may_be_long = false;
        self.long
    }

    fn set(&mut self, long: bool) {
        if self.are_long != long {
            self.are_long = long;
            slice::ask(if long { slice::LONGEST } else { slice::USUAL });
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
    fn only_a_phase_that_allows_it_has_long_turns() {
        let mut turns = Turns::default();
        for may_be_long in [false, true] {
            turns.begin(may_be_long, EVERY);
            turns.seen.interrupted -= 100;
            turns.look(2 * EVERY - 1);
            assert!(!turns.are_long(), "too early");
            turns.look(2 * EVERY);
            assert_eq!(turns.are_long(), may_be_long);
            turns.seen.slept -= 100;
            turns.seen.interrupted = Switches::of_this_thread().interrupted;
            turns.look(5 * EVERY);
            assert!(!turns.are_long(), "it sleeps now");
            assert_eq!(turns.end(), if may_be_long { 3 * EVERY } else { 0 });
        }
    }
}
