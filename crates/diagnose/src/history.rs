//! What was measured, kept for a day in bounded memory: each reading for an hour, the mean of each minute for
//! a day.
//!
//! The order of things is that of the clock that neither jumps nor stops, in milliseconds since the history
//! began. The calendar is only how moments are called: when it jumps, the points stay where they are and the
//! jump is noted.
//!
//! A gap is a stretch without readings, with its reason: a server that did not answer, a watcher that was
//! stopped. Nothing is made up inside it; points before and after it are as good as before. The history is
//! never written to a disk, so a full one does not touch it, and it ends with its process.
//!
//! Memory: a subject takes [`Track::BYTES`] at most, there are [`MOST_SUBJECTS`] at most, gaps and jumps are
//! counted out too.

mod clock;
mod track;

#[cfg(test)]
mod tests;

pub use clock::{Clock, Jump};
pub use track::{Figures, Outcome, Point, Span, Track, WIDTH};

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

/// Two readings further apart than this have a gap between them, milliseconds.
pub const GAP_MS: u64 = 6_000;
/// Subjects (hosts, servers, endpoints) at most.
pub const MOST_SUBJECTS: usize = 96;
/// Gaps kept at most; the oldest is forgotten first.
pub const MOST_GAPS: usize = 512;

/// The history of subjects, each told apart by a key.
#[derive(Debug)]
pub struct History<K> {
    began: Instant,
    clock: Clock,
    ticked_ms: Option<u64>,
    tracks: BTreeMap<K, Track>,
    gaps: VecDeque<Gap<K>>,
    untold: u64,
}

/// A stretch without readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap<K> {
    /// Whose it is; `None` when the watcher itself stood still: then of all.
    pub of: Option<K>,
    /// From the last reading before it, milliseconds of the history.
    pub from_ms: u64,
    /// To the first one after it; `None` while it lasts.
    pub to_ms: Option<u64>,
    pub why: String,
}

impl<K: Ord + Clone> History<K> {
    /// An empty one that begins now.
    pub fn new(now: Instant, calendar: SystemTime) -> Self {
        Self {
            began: now,
            clock: Clock::new(calendar),
            ticked_ms: None,
            tracks: BTreeMap::new(),
            gaps: VecDeque::new(),
            untold: 0,
        }
    }

    /// A moment in milliseconds of the history; 0 for what was before it.
    pub fn ms(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }

    /// To be called at least every few seconds: notes when the watcher stood still, and when the calendar
    /// jumped.
    pub fn tick(&mut self, now: Instant, calendar: SystemTime) {
        let now_ms = self.ms(now);
        self.is_alive(now_ms);
        self.clock.tick(now_ms, calendar);
        let oldest = now_ms.saturating_sub(Track::KEPT_MS);
        self.gaps.retain(|gap| gap.to_ms.is_none_or(|to| to >= oldest));
        let lost = |of: &K| self.gaps.iter().any(|gap| gap.to_ms.is_none() && gap.of.as_ref() == Some(of));
        self.tracks.retain(|of, track| track.newest_ms() >= oldest || lost(of));
    }

    /// Adds a point; one that is not later than the last of its subject is left out, and so is a subject
    /// beyond the limit.
    pub fn add(&mut self, of: &K, at: Instant, figures: Figures, outcome: Outcome) {
        let at_ms = self.ms(at);
        // Whoever comes first after the watcher stood still: it is a gap of all, not one of theirs.
        if self.ticked_ms.is_some_and(|before| at_ms > before) {
            self.is_alive(at_ms);
        }
        if !self.tracks.contains_key(of) && self.tracks.len() >= MOST_SUBJECTS {
            self.untold += 1;
            return;
        }
        let track = self.tracks.entry(of.clone()).or_insert_with(Track::new);
        let before = (!track.is_empty()).then(|| track.newest_ms());
        if before.is_some_and(|before| at_ms <= before) {
            return;
        }
        track.push(Point { at_ms, count: 1, figures, outcome });
        if let Some(gap) = self.open_gap(of) {
            gap.to_ms = Some(at_ms);
        } else if let Some(from_ms) = before.filter(|before| at_ms - before > GAP_MS) {
            // Of a watcher that stood still the reason is known already.
            let known =
                self.gaps.iter().any(|gap| gap.of.is_none() && gap.to_ms.is_some_and(|to| to > from_ms));
            if !known {
                let why = "no reading came".to_owned();
                self.note(Gap { of: Some(of.clone()), from_ms, to_ms: Some(at_ms), why });
            }
        }
    }

    /// A subject cannot be read: its gap begins with the last point, or now if there is none, and lasts until
    /// the next point. One that never could is a subject too.
    pub fn lose(&mut self, of: &K, now: Instant, why: &str) {
        if self.open_gap(of).is_some() {
            return;
        }
        let now_ms = self.ms(now);
        if !self.tracks.contains_key(of) && self.tracks.len() < MOST_SUBJECTS {
            self.tracks.insert(of.clone(), Track::new());
        }
        let read = self.tracks.get(of).filter(|track| !track.is_empty());
        let from_ms = read.map_or(now_ms, Track::newest_ms);
        self.note(Gap { of: Some(of.clone()), from_ms, to_ms: None, why: why.to_owned() });
    }

    /// A subject that is not watched any more: what is open of it ends.
    pub fn leave(&mut self, of: &K, now: Instant) {
        let now_ms = self.ms(now);
        if let Some(gap) = self.open_gap(of) {
            gap.to_ms = Some(now_ms);
        }
    }

    pub fn subjects(&self) -> impl Iterator<Item = (&K, &Track)> {
        self.tracks.iter()
    }

    pub fn track(&self, of: &K) -> Option<&Track> {
        self.tracks.get(of)
    }

    /// Gaps of a subject that touch a stretch, those of the watcher among them, oldest first.
    pub fn gaps(&self, of: &K, from_ms: u64, to_ms: u64) -> impl Iterator<Item = &Gap<K>> {
        self.gaps.iter().filter(move |gap| {
            let ours = gap.of.as_ref().is_none_or(|whose| whose == of);
            ours && gap.from_ms <= to_ms && gap.to_ms.is_none_or(|to| to >= from_ms)
        })
    }

    /// What the calendar calls moments of the history.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Points that were left out because there were too many subjects.
    pub fn untold(&self) -> u64 {
        self.untold
    }

    /// Memory taken, bytes; names and reasons left out.
    pub fn bytes(&self) -> usize {
        self.tracks.values().map(Track::bytes).sum::<usize>()
            + self.gaps.capacity() * size_of::<Gap<K>>()
            + size_of::<Self>()
    }

    /// Memory taken at most, whatever happens, bytes; names and reasons left out.
    pub fn most_bytes() -> usize {
        MOST_SUBJECTS * Track::BYTES + 2 * MOST_GAPS * size_of::<Gap<K>>() + size_of::<Self>()
    }

    /// How long points are kept one by one, and how long in minutes.
    pub fn kept() -> (Duration, Duration) {
        (Duration::from_secs(Track::FINE as u64), Duration::from_millis(Track::KEPT_MS))
    }

    /// The watcher does something: notes when it did nothing before for longer than a gap.
    fn is_alive(&mut self, now_ms: u64) {
        if let Some(before) = self.ticked_ms.filter(|before| now_ms.saturating_sub(*before) > GAP_MS) {
            let why = "nothing was read: the watcher or its machine stood still";
            self.note(Gap { of: None, from_ms: before, to_ms: Some(now_ms), why: why.to_owned() });
        }
        self.ticked_ms = Some(now_ms);
    }

    fn open_gap(&mut self, of: &K) -> Option<&mut Gap<K>> {
        self.gaps.iter_mut().rev().find(|gap| gap.to_ms.is_none() && gap.of.as_ref() == Some(of))
    }

    fn note(&mut self, gap: Gap<K>) {
        if self.gaps.len() >= MOST_GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back(gap);
    }
}
