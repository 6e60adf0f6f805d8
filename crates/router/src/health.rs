//! Health: which parts of the data plane answer, stand still, ended lately, or do nothing.

use crate::heartbeat::{BEAT, Heartbeat, RING, THREAD};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// A part stands still that has not answered after this many beats.
const MISSED: u32 = 3;
/// And it will not come back after this many (20 s).
pub(crate) const HOPELESS: u32 = 80;
/// A part that ended more often than this within [`LATELY`] is in trouble, although it was started again each
/// time.
pub(crate) const MOST_RESTARTS: usize = 3;
const LATELY: Duration = Duration::from_secs(60);

/// How the parts of one router are.
#[derive(Debug)]
pub(crate) struct Health {
    watched: Mutex<Vec<WatchedPart>>,
    /// When each part ended lately.
    ends: Mutex<BTreeMap<String, VecDeque<Instant>>>,
    /// Parts that do nothing, and why.
    idle: Mutex<BTreeMap<String, String>>,
    /// Rings that have ended for good, and why.
    rings_lost: Mutex<BTreeMap<String, String>>,
    restarts: AtomicU64,
    /// Beats that every part has answered.
    rounds: watch::Sender<u64>,
    /// Why the process had better end.
    failure: watch::Sender<Option<String>>,
}

#[derive(Debug)]
struct WatchedPart {
    heartbeat: Arc<Heartbeat>,
    missed: u32,
}

/// What a part's silence means, each time it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    /// None, or too short to mean anything.
    Nothing,
    /// It has just become too long.
    Stalls,
    Over,
    /// It will not end.
    Hopeless,
}

impl WatchedPart {
    fn look(&mut self) -> Silence {
        let before = self.missed;
        self.missed = if self.heartbeat.is_answered() { 0 } else { before + 1 };
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
    pub(crate) fn watch(&self, heartbeat: Arc<Heartbeat>) {
        held(&self.watched).push(WatchedPart { heartbeat, missed: 0 });
    }

    /// A part has ended that should not, and starts again. Returns whether it has done so too often lately.
    pub(crate) fn ended(&self, part: &str, why: &str) -> bool {
        self.restarts.fetch_add(1, Relaxed);
        let now = Instant::now();
        let mut ends = held(&self.ends);
        let ends = ends.entry(part.to_owned()).or_default();
        ends.push_back(now);
        let often = often(ends, now);
        tracing::error!(part, why, times_lately = ends.len(), "part of the data plane failed, restarting it");
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

    /// This ring has ended for good.
    pub(crate) fn ring_lost(&self, part: &str, why: &str) {
        tracing::error!(
            part,
            why,
            "io_uring thread lost: new sessions are relayed with epoll, at a higher cost"
        );
        held(&self.rings_lost).insert(part.to_owned(), why.to_owned());
    }

    /// Rings that have ended for good, and why.
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

    /// What is wrong now, in words; empty when nothing is.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let now = Instant::now();
        let mut troubles: Vec<String> = self.failure.borrow().iter().cloned().collect();
        let stalled = |watched: &&WatchedPart| watched.heartbeat.is_stalled();
        troubles.extend(held(&self.watched).iter().filter(stalled).map(|watched| {
            let seconds = (BEAT * watched.missed).as_secs_f64();
            format!(
                "{} has not answered for {seconds:.1} s: new sessions do not go to it",
                watched.heartbeat.part
            )
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

    /// Looks which parts have answered, and asks those again that have a loop of their own; the others are
    /// asked by messages.
    pub(crate) fn beat(&self) {
        let mut all = true;
        for watched in held(&self.watched).iter_mut().filter(|w| !w.heartbeat.is_retired()) {
            let (silence, part) = (watched.look(), &watched.heartbeat.part);
            all &= watched.missed == 0;
            match silence {
                Silence::Nothing => {}
                Silence::Stalls => {
                    watched.heartbeat.set_stalled(true);
                    tracing::error!(part, "not responding: no new sessions are sent to it");
                }
                Silence::Over => {
                    watched.heartbeat.set_stalled(false);
                    tracing::info!(part, "responding again");
                }
                Silence::Hopeless => {
                    self.fail(format!("{part} has not answered for {} s", (BEAT * HOPELESS).as_secs()));
                }
            }
            if !part.starts_with(THREAD) && !part.starts_with(RING) {
                watched.heartbeat.ask();
            }
        }
        if all {
            self.rounds.send_modify(|rounds| *rounds += 1);
        }
    }
}

/// Whether these are too many within [`LATELY`]; forgets what is longer ago.
fn often(ends: &mut VecDeque<Instant>, now: Instant) -> bool {
    while ends.front().is_some_and(|at| now.saturating_duration_since(*at) > LATELY) {
        ends.pop_front();
    }
    ends.len() >= MOST_RESTARTS
}

fn held<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_misses_three_beats_stalls_and_one_that_answers_again_does_not() {
        let mut watched = WatchedPart { heartbeat: Heartbeat::new("thread 0".to_owned()), missed: 0 };
        assert!(watched.heartbeat.ask());
        let seen: Vec<_> = (0..4).map(|_| watched.look()).collect();
        assert_eq!(seen, [Silence::Nothing, Silence::Nothing, Silence::Stalls, Silence::Nothing]);
        assert!(!watched.heartbeat.ask(), "nothing piles up");
        watched.heartbeat.answer();
        assert_eq!((watched.look(), watched.look()), (Silence::Over, Silence::Nothing));
        watched.heartbeat.ask();
        let hopeless = (0..HOPELESS).map(|_| watched.look()).filter(|s| *s == Silence::Hopeless).count();
        assert_eq!(hopeless, 1);
    }

    #[test]
    fn a_part_that_has_just_stalled_is_said_to_be_silent_for_more_than_nothing() {
        let (health, heartbeat) = (Health::default(), Heartbeat::new("thread 0".to_owned()));
        health.watch(heartbeat.clone());
        held(&health.watched)[0].missed = MISSED;
        heartbeat.set_stalled(true);
        let words = "thread 0 has not answered for 0.8 s: new sessions do not go to it";
        assert_eq!(health.troubles(), [words]);
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

    #[test]
    fn the_first_reason_to_end_stays() {
        let health = Health::default();
        health.fail("first".to_owned());
        health.fail("second".to_owned());
        assert_eq!(*health.failure().borrow(), Some("first".to_owned()));
        assert_eq!(health.troubles(), ["first"]);
    }
}
