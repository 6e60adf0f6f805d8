//! Whether a thread of a closed loop gives way to the servers, and how.
//!
//! Beside the servers, on the same cores, it sends a few statements and is interrupted by the threads that it has woken, or (where they
//! are scheduled in another group, as a service is) let in for each single answer. There it costs less when it lets them go first: with
//! the longest slice it is chosen later (`slice.rs`), and answers gather for a moment before it takes them
//! (`sockets/ring.rs`). A thread that has its core for itself is better off without: it would sleep until enough answers are there, where it can
//! take each as it comes. Who shares cores and groups with whom a thread cannot see; so it tries out what is cheaper (`cheaper.rs`).

mod cheaper;

use super::slice;
use super::sockets::Gather;
use super::thread::cpu_time;
use cheaper::{Cheaper, Way};
use std::time::Duration;

/// How long answers gather, at most.
pub const GATHERING: Duration = Duration::from_micros(30);

/// How long a way is kept before its cost is looked at, in ns.
const WINDOW: u64 = 10_000_000;
/// Fewer answers in a window say nothing.
const ENOUGH: u32 = 50;

/// A thread of a closed loop, and whether it gives way.
#[derive(Debug, Default)]
pub(super) struct GivingWay {
    may: bool,
    way: Way,
    cheaper: Cheaper,
    /// The window's begin, and the thread's CPU time then, in ns.
    begun: (u64, u64),
    answers: u32,
    /// For how long it gave way, in ns.
    time: u64,
}

impl GivingWay {
    /// A phase begins at `now`, in ns. `may`: nobody has to be on time, and answers can gather. What was found out in the phases before
    /// still holds.
    pub(super) fn begin(&mut self, may: bool, now: u64) {
        (self.may, self.time) = (may, 0);
        self.set(if may { self.cheaper.way() } else { Way::AsTheyCome });
        self.open(now);
    }

    /// An answer has come.
    #[inline]
    pub(super) fn answered(&mut self) {
        self.answers += 1;
    }

    /// Looks, now and then, what is cheaper; `now` in ns.
    #[inline]
    pub(super) fn look(&mut self, now: u64) {
        let since = now.saturating_sub(self.begun.0);
        if self.may && since >= WINDOW {
            self.judge(since);
            self.open(now);
        }
    }

    /// For how many answers the next call waits, with so many statements under way.
    #[inline]
    pub(super) fn gather(&self, under_way: usize) -> Gather {
        match self.way {
            Way::AsTheyCome => Gather::One,
            Way::MostOfSent => Gather::MostOfSent,
            Way::HalfOfAll => Gather::Many(under_way / 2),
        }
    }

    /// The phase is over; for how much of it it gave way, in ns.
    pub(super) fn end(&mut self) -> u64 {
        self.set(Way::AsTheyCome);
        self.may = false;
        self.time
    }

    fn judge(&mut self, since: u64) {
        self.time += if self.way == Way::AsTheyCome { 0 } else { since };
        let next = if self.answers >= ENOUGH {
            let cpu = cpu_time().saturating_sub(self.begun.1);
            self.cheaper.ended(cpu as f64 / f64::from(self.answers))
        } else {
            Way::AsTheyCome
        };
        self.set(next);
    }

    fn open(&mut self, now: u64) {
        (self.begun, self.answers) = ((now, cpu_time()), 0);
    }

    fn set(&mut self, way: Way) {
        let slice = |way| if way == Way::AsTheyCome { slice::USUAL } else { slice::LONGEST };
        if slice(way) != slice(self.way) {
            slice::ask(slice(way));
        }
        self.way = way;
    }
}
