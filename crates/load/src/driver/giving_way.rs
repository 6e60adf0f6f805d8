//! Whether a thread of a closed loop gives way to the servers, and how.
//!
//! Beside the servers, on the same cores, it sends a few statements and is interrupted by the threads that it has woken. Whether it is so,
//! the kernel tells: who shares a core is interrupted. There it costs less to send what goes to servers on its own core first, wherever it is
//! known where they are (over TCP). Where that is not known it costs less, and both cores have more to do, when it lets them
//! go first: with the longest slice it is chosen later (`slice.rs`), and answers gather for a moment before it takes them (`sockets/ring.rs`).
//!
//! Who is not, either has its core for itself or the servers are scheduled in another group, as a service is: it is let in for each single
//! answer, and mostly better off when it waits for many. Where the servers have room to spare it is not, since a closed loop whose
//! answers wait gets less done. From here all these look alike, and so it is tried out which is better (`better.rs`).

mod better;

use super::slice;
use super::sockets::Gather;
use super::thread::cpu_time;
use better::{Better, Yield};
use nix::sys::resource::{UsageWho, getrusage};
use std::time::Duration;

/// How long answers gather, at most.
pub const GATHERING: Duration = Duration::from_micros(120);

/// For most of what a call has sent it waits no longer than this: who is interrupted all the time takes longer to wait anyway.
const FOR_MOST_OF_SENT: Duration = Duration::from_micros(30);

/// Between two looks, in ns.
const WINDOW: u64 = 10_000_000;
/// Fewer context switches in a window say nothing.
const ENOUGH_SWITCHES: i64 = 10;
/// Nor do fewer answers.
const ENOUGH_ANSWERS: u64 = 50;

/// How a thread takes answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    /// Each as it comes.
    #[default]
    AsTheyCome,
    /// It gives way, and waits for a moment until most of what it has just sent is answered.
    MostOfSent,
    /// It gives way, and waits for a moment until most of all that is under way is answered.
    MostOfAll,
}

/// A thread of a closed loop, and whether it gives way.
#[derive(Debug, Default)]
pub(super) struct GivingWay {
    may: bool,
    gathers: bool,
    way: Way,
    better: Better,
    window: Window,
    /// For how long it gave way, in ns.
    time: u64,
}

/// Between two looks.
#[derive(Debug, Default)]
struct Window {
    /// When it began, in ns.
    begun: u64,
    /// The thread's CPU time then, in ns.
    cpu: u64,
    /// Its context switches then.
    switches: Switches,
    /// Answers since; a large one may count several times.
    answers: u64,
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
    /// A phase begins at `now`, in ns, at first without. `may`: nobody has to be on time. `gathers`: answers can. What was found out in the
    /// phases before still holds.
    pub(super) fn begin(&mut self, may: bool, gathers: bool, now: u64) {
        (self.may, self.gathers, self.time) = (may, gathers, 0);
        self.set(Way::AsTheyCome);
        self.window = Window::begin(now);
    }

    /// An answer has come.
    #[inline]
    pub(super) fn answered(&mut self) {
        self.window.answers += 1;
    }

    /// Looks, now and then, what is better; `now` in ns. `near_first` has the servers on this core served first from then on, and tells
    /// whether it is known where any are.
    #[inline]
    pub(super) fn look(&mut self, now: u64, near_first: impl FnOnce() -> bool) {
        let since = now.saturating_sub(self.window.begun);
        if self.may && since >= WINDOW {
            self.time += if self.way == Way::AsTheyCome { 0 } else { since };
            let switches = Switches::of_this_thread();
            let crowded = switches.tell_of_a_crowd(self.window.switches);
            let next = self.judge(crowded, near_first(), since);
            self.set(next);
            self.window = Window::begin(now);
        }
    }

    /// For how many answers the next call waits, with so many statements under way.
    #[inline]
    pub(super) fn gather(&self, under_way: usize) -> Gather {
        match self.way {
            Way::AsTheyCome => Gather::One,
            Way::MostOfSent => Gather::MostOfSent { within: FOR_MOST_OF_SENT },
            Way::MostOfAll => Gather::Many { many: under_way * 5 / 8, within: GATHERING },
        }
    }

    /// The phase is over; for how much of it it gave way, in ns.
    pub(super) fn end(&mut self) -> u64 {
        self.set(Way::AsTheyCome);
        self.may = false;
        self.time
    }

    fn judge(&mut self, crowded: Option<bool>, ordered: bool, since: u64) -> Way {
        match crowded {
            _ if !self.gathers => Way::AsTheyCome,
            None => self.way,
            Some(true) if ordered => Way::AsTheyCome,
            Some(true) => Way::MostOfSent,
            Some(false) if self.window.answers < ENOUGH_ANSWERS => Way::AsTheyCome,
            Some(false) => {
                // A window that went another way tells nothing of this one.
                if self.way == self.tried() {
                    let cpu = cpu_time().saturating_sub(self.window.cpu);
                    let answers = self.window.answers as f64;
                    self.better.ended(Yield { answers: answers / since as f64, cost: cpu as f64 / answers });
                }
                self.tried()
            }
        }
    }

    /// The way of who sleeps.
    fn tried(&self) -> Way {
        if self.better.waits() { Way::MostOfAll } else { Way::AsTheyCome }
    }

    fn set(&mut self, way: Way) {
        let slice = |way| if way == Way::AsTheyCome { slice::USUAL } else { slice::LONGEST };
        if slice(way) != slice(self.way) {
            slice::ask(slice(way));
        }
        self.way = way;
    }
}

impl Window {
    fn begin(now: u64) -> Self {
        Self { begun: now, cpu: cpu_time(), switches: Switches::of_this_thread(), answers: 0 }
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
        (slept + interrupted >= ENOUGH_SWITCHES).then_some(interrupted > slept)
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
    fn only_a_phase_that_allows_it_gives_way_and_only_in_a_crowd_of_whom_nobody_knows_where_they_are_at_once()
    {
        for (may, gathers, ordered) in (0..8).map(|n| (n & 1 > 0, n & 2 > 0, n & 4 > 0)) {
            let mut giving_way = GivingWay::default();
            giving_way.begin(may, gathers, WINDOW);
            let look = |giving_way: &mut GivingWay, now| {
                let mut asked = false;
                giving_way.look(now, || {
                    asked = true;
                    ordered
                });
                (asked, giving_way.gather(16))
            };
            giving_way.window.switches.interrupted -= 100;
            assert_eq!(look(&mut giving_way, 2 * WINDOW - 1), (false, Gather::One), "too early");
            let gives_way = may && gathers && !ordered;
            let gather =
                if gives_way { Gather::MostOfSent { within: FOR_MOST_OF_SENT } } else { Gather::One };
            assert_eq!(look(&mut giving_way, 2 * WINDOW), (may, gather));
            giving_way.window.switches.slept -= 100;
            assert_eq!(
                look(&mut giving_way, 5 * WINDOW),
                (may, Gather::One),
                "it sleeps now, and nothing is answered"
            );
            assert_eq!(giving_way.end(), if gives_way { 3 * WINDOW } else { 0 });
        }
    }

    #[test]
    fn who_sleeps_tries_out_to_wait_for_most_of_what_is_under_way() {
        let mut giving_way = GivingWay::default();
        giving_way.begin(true, true, 0);
        let mut seen = Vec::new();
        for window in 1..=100 {
            giving_way.window.switches.slept -= 100;
            (0..ENOUGH_ANSWERS).for_each(|_| giving_way.answered());
            giving_way.look(window * WINDOW, || true);
            seen.push(giving_way.gather(16));
        }
        assert!(seen.contains(&Gather::Many { many: 10, within: GATHERING }) && seen.contains(&Gather::One));
    }
}
