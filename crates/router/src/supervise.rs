//! Supervision: a part of the data plane that ends or stands still is seen within a second, and made good or said.
//!
//! | part | when it panics | when it stands still |
//! |---|---|---|
//! | thread that lets sessions in | goes on with the next message; its sessions stay | new sessions go to other threads |
//! | ring's thread | its sessions are cut, it starts anew; after [`MOST_RESTARTS`] in a minute new sessions are polled | new sessions are polled |
//! | listener | accepts again, on the same socket | its thread stands still |
//! | rebalancer | starts anew | said |
//!
//! A thread on which nothing can be started any more, or that stands still for [`HOPELESS`] beats, ends the process: its sessions hang,
//! and whoever supervises the process (systemd, a container's runtime) starts it anew.
//!
//! A thread of its own asks each part for a sign of life, four times a second; an answer has been through the part's own loop. That
//! beat is also the clock by which threads look after their sessions' peers (`peer`). When the whole process was stopped
//! (a suspended machine) the beat was too, and nothing is missed.

use crate::worker::{Handle, Message};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Between two signs of life.
pub(crate) const BEAT: Duration = Duration::from_millis(250);
/// A part stands still that has not answered after so many.
const MISSED: u32 = 3;
/// And it will not come back after so many (20 s).
const HOPELESS: u32 = 80;
/// A part that ended more often than this within [`LATELY`] is in trouble, although it was started anew each time.
pub(crate) const MOST_RESTARTS: usize = 3;
const LATELY: Duration = Duration::from_secs(60);
/// Before something that panicked starts anew, so that what always panics does not take a core.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// How one part shows that it lives.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// What it is called: `thread 0`, `ring 0`, `rebalancer`.
    pub(crate) part: String,
    asked: AtomicU64,
    answered: AtomicU64,
    stalled: AtomicBool,
    /// It is gone for good, and that is known.
    retired: AtomicBool,
}

impl Pulse {
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

    fn is_answered(&self) -> bool {
        self.answered.load(Relaxed) == self.asked.load(Relaxed)
    }

    /// Whether new work should go elsewhere.
    pub(crate) fn is_unfit(&self) -> bool {
        self.stalled.load(Relaxed) || self.retired.load(Relaxed)
    }

    /// It is gone for good.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Relaxed);
        self.stalled.store(false, Relaxed);
    }
}

/// How the parts of one router are.
#[derive(Debug)]
pub(crate) struct Health {
    watched: Mutex<Vec<Watched>>,
    /// When each part ended lately.
    ends: Mutex<BTreeMap<String, VecDeque<Instant>>>,
    /// Parts that do nothing, and why.
    idle: Mutex<BTreeMap<String, String>>,
    /// Rings that are gone for good, and why.
    rings_lost: Mutex<BTreeMap<String, String>>,
    restarts: AtomicU64,
    /// Beats that every part has answered.
    rounds: watch::Sender<u64>,
    /// Why the process had better end.
    failure: watch::Sender<Option<String>>,
}

#[derive(Debug)]
struct Watched {
    pulse: Arc<Pulse>,
    missed: u32,
}

/// What a part's silence means, each time it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    /// None, or too short to mean anything.
    Nothing,
    /// It has just become too long.
    Stalls,
    /// It is over.
    Over,
    /// It will not end.
    Hopeless,
}

impl Watched {
    fn look(&mut self) -> Silence {
        let before = self.missed;
        self.missed = if self.pulse.is_answered() { 0 } else { before + 1 };
        match self.missed {
            0 if before >= MISSED => Silence::Over,
            MISSED => Silence::Stalls,
            HOPELESS => Silence::Hopeless,
            _ => Silence::Nothing,
        }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self {
            watched: Mutex::default(),
            ends: Mutex::default(),
            idle: Mutex::default(),
            rings_lost: Mutex::default(),
            restarts: AtomicU64::new(0),
            rounds: watch::Sender::new(0),
            failure: watch::Sender::new(None),
        }
    }
}

impl Health {
    /// From now on this part is watched.
    pub(crate) fn watch(&self, pulse: Arc<Pulse>) {
        held(&self.watched).push(Watched { pulse, missed: 0 });
    }

    /// A part has ended that should not, and starts anew. Returns whether it has done so too often lately.
    pub(crate) fn ended(&self, part: &str, why: &str) -> bool {
        self.restarts.fetch_add(1, Relaxed);
        let now = Instant::now();
        let mut ends = held(&self.ends);
        let ends = ends.entry(part.to_owned()).or_default();
        ends.push_back(now);
        let often = often(ends, now);
        tracing::error!(
            part,
            why,
            times_lately = ends.len(),
            "a part of the data plane ended and starts anew"
        );
        often
    }

    /// This part does nothing from now on, and why; or, with `None`, does something again.
    pub(crate) fn set_idle(&self, part: &str, why: Option<String>) {
        let mut idle = held(&self.idle);
        match why {
            Some(why) => drop(idle.insert(part.to_owned(), why)),
            None => drop(idle.remove(part)),
        }
    }

    /// This ring is gone for good.
    pub(crate) fn ring_lost(&self, part: &str, why: &str) {
        tracing::error!(part, why, "no ring any more: new sessions are relayed with epoll, at a higher cost");
        held(&self.rings_lost).insert(part.to_owned(), why.to_owned());
    }

    /// Rings that are gone for good, and why.
    pub(crate) fn rings_lost(&self) -> Vec<(String, String)> {
        held(&self.rings_lost).iter().map(|(part, why)| (part.clone(), why.clone())).collect()
    }

    /// The process had better end.
    pub(crate) fn fail(&self, why: String) {
        self.failure.send_if_modified(|failure| {
            let first = failure.is_none();
            if first {
                *failure = Some(why);
            }
            first
        });
    }

    /// What is wrong now, in words; nothing when all is well.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let now = Instant::now();
        let mut troubles: Vec<String> = self.failure.borrow().iter().cloned().collect();
        let stalled = |watched: &&Watched| watched.pulse.stalled.load(Relaxed);
        troubles.extend(held(&self.watched).iter().filter(stalled).map(|watched| {
            let seconds = (BEAT * watched.missed).as_secs();
            format!("{} has not answered for {seconds} s: new sessions do not go to it", watched.pulse.part)
        }));
        troubles.extend(held(&self.ends).iter_mut().filter_map(|(part, ends)| {
            let often = often(ends, now);
            often.then(|| format!("{part} ended {} times within a minute and started anew", ends.len()))
        }));
        troubles.extend(held(&self.idle).iter().map(|(part, why)| format!("{part}: {why}")));
        troubles
    }

    /// Parts that ended and were started anew, ever.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.load(Relaxed)
    }

    pub(crate) fn rounds(&self) -> watch::Receiver<u64> {
        self.rounds.subscribe()
    }

    pub(crate) fn failure(&self) -> watch::Receiver<Option<String>> {
        self.failure.subscribe()
    }

    /// Looks who has answered, and asks again.
    fn beat(&self, workers: &[Handle]) {
        let mut all = true;
        for watched in held(&self.watched).iter_mut().filter(|w| !w.pulse.retired.load(Relaxed)) {
            let (silence, part) = (watched.look(), &watched.pulse.part);
            all &= watched.missed == 0;
            match silence {
                Silence::Nothing => {}
                Silence::Stalls => {
                    watched.pulse.stalled.store(true, Relaxed);
                    tracing::error!(part, "does not answer: new sessions do not go to it");
                }
                Silence::Over => {
                    watched.pulse.stalled.store(false, Relaxed);
                    tracing::info!(part, "answers again");
                }
                Silence::Hopeless => {
                    self.fail(format!("{part} has not answered for {} s", (BEAT * HOPELESS).as_secs()));
                }
            }
            if !part.starts_with(THREAD) && !part.starts_with(RING) {
                watched.pulse.ask();
            }
        }
        if all {
            self.rounds.send_modify(|rounds| *rounds += 1);
        }
        for worker in workers {
            if worker.pulse().ask() && worker.tell(Message::Beat).is_err() {
                self.fail(format!("{} has ended", worker.pulse().part));
            }
        }
    }
}

/// Names of parts that are asked by messages.
pub(crate) const THREAD: &str = "thread";
pub(crate) const RING: &str = "ring";

/// Whether these are too many within [`LATELY`]; forgets what is longer ago.
fn often(ends: &mut VecDeque<Instant>, now: Instant) -> bool {
    while ends.front().is_some_and(|at| now.saturating_duration_since(*at) > LATELY) {
        ends.pop_front();
    }
    ends.len() >= MOST_RESTARTS
}

/// Starts the supervisor's thread. It ends by itself when the threads that it asks have.
pub(crate) fn start(health: Arc<Health>, workers: &Arc<[Handle]>) -> std::io::Result<()> {
    let workers: Weak<[Handle]> = Arc::downgrade(workers);
    let run = move || {
        loop {
            std::thread::sleep(BEAT);
            let Some(workers) = workers.upgrade() else { return };
            health.beat(&workers);
        }
    };
    std::thread::Builder::new().name("headroom-watch".to_owned()).spawn(run).map(drop)
}

/// Something panicked; what it said has gone where panics go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

/// A future that ends with [`Panicked`] instead of taking its thread along. What it shares with others must bear being left in the
/// middle of a poll: everything that uses this shares counters, channels and maps whose every change is one step.
pub(crate) fn caught<F: Future>(future: F) -> Caught<F> {
    Caught(Box::pin(future))
}

/// See [`caught`].
pub(crate) struct Caught<F>(Pin<Box<F>>);

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = &mut self.0;
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    }
}

fn held<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_misses_three_beats_stalls_and_one_that_answers_again_does_not() {
        let mut watched = Watched { pulse: Pulse::new("thread 0".to_owned()), missed: 0 };
        assert!(watched.pulse.ask());
        let seen: Vec<_> = (0..4).map(|_| watched.look()).collect();
        assert_eq!(seen, [Silence::Nothing, Silence::Nothing, Silence::Stalls, Silence::Nothing]);
        assert!(!watched.pulse.ask(), "nothing piles up");
        watched.pulse.answer();
        assert_eq!((watched.look(), watched.look()), (Silence::Over, Silence::Nothing));
        watched.pulse.ask();
        let hopeless = (0..HOPELESS).map(|_| watched.look()).filter(|s| *s == Silence::Hopeless).count();
        assert_eq!(hopeless, 1);
    }

    #[test]
    fn three_ends_within_a_minute_are_too_many() {
        let begun = Instant::now();
        let at = |second| begun + Duration::from_secs(second);
        let mut ends = VecDeque::from([at(0), at(30), at(61)]);
        assert!(!often(&mut ends, at(61)), "the first is longer ago");
        ends.push_back(at(80));
        assert!(often(&mut ends, at(80)));
    }

    #[tokio::test]
    async fn what_panics_is_caught_and_what_ends_has_its_value() {
        assert_eq!(caught(async { 7 }).await, Ok(7));
        let panics = async {
            tokio::task::yield_now().await;
            panic!("on purpose")
        };
        assert_eq!(caught::<_>(panics).await.map(|(): ()| ()), Err(Panicked));
    }

    #[test]
    fn the_first_reason_to_end_stays() {
        let health = Health::default();
        health.fail("first".to_owned());
        health.fail("second".to_owned());
        assert_eq!(*health.failure().borrow(), Some("first".to_owned()));
        assert_eq!(health.troubles(), ["first"]);
    }
}
