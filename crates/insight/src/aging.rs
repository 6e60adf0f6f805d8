//! Aging: which names give up their place when places run short.
//!
//! Names that come once (a temporary table with a number in its name) would take every place for good, and a
//! new statement would be "(other)" from then on. So:
//!
//! - while half of the places are taken, a name gets one only when it comes a second time ([`Doorkeeper`]:
//!   the idea of TinyLFU, Einziger, Friedman and Manes, *TinyLFU: A Highly Efficient Cache Admission Policy*,
//!   2017);
//! - when seven in eight are taken, those that were not seen for [`QUIET`] give theirs up, the longest unseen
//!   first, until three in four are ([`retiring`]). What was counted for them counts as `(other)` from then
//!   on, so that every total stays. Servers and listeners do so too, where names come and go; a server with
//!   a session that can be read keeps its place, as the session keeps its number.
//!
//! Assumption: what is seen at least every two minutes has no more than the places that there are. If it has,
//! nobody gives up a place and the rest is `(other)`, as a note says.

use sql::fold::Map;
use std::time::{Duration, Instant};

/// A name that was seen within this time keeps its place.
pub(crate) const QUIET: Duration = Duration::from_secs(120);
/// Names that a thread remembers to have met once: 32 KiB.
const MET: usize = 4096;

/// When each number was last seen, as far as a look every few seconds tells.
#[derive(Debug, Default)]
pub(crate) struct LastSeen(Map<u32, Instant>);

/// What was met once, a hash in each place: a later one with the same end drives the one before out. A steady
/// name comes back before that: with 1,000 one-shot names a second, one that comes once a second does so with
/// a probability of 78 % each time.
#[derive(Debug)]
pub(crate) struct Doorkeeper(Box<[u64]>);

impl Default for Doorkeeper {
    fn default() -> Self {
        Self(vec![0; MET].into())
    }
}

impl Doorkeeper {
    /// Whether this hash was met before; it is from now on.
    pub(crate) fn knows(&mut self, hash: u64) -> bool {
        let place = &mut self.0[hash as usize % MET];
        std::mem::replace(place, hash) == hash
    }
}

impl LastSeen {
    /// These are in use at all; those not heard of before are new.
    pub(crate) fn follow(&mut self, numbers: impl Iterator<Item = u32>, now: Instant) {
        let before = std::mem::take(&mut self.0);
        self.0 = numbers.map(|number| (number, before.get(&number).copied().unwrap_or(now))).collect();
    }

    pub(crate) fn see(&mut self, number: u32, now: Instant) {
        if let Some(at) = self.0.get_mut(&number) {
            *at = now;
        }
    }

    /// Who gives up a place now, of `limit` places.
    pub(crate) fn retiring(&self, limit: usize, now: Instant) -> Vec<u32> {
        retiring(&self.0, limit, now)
    }
}

/// Who gives up a place: see the head of this file.
fn retiring(seen: &Map<u32, Instant>, limit: usize, now: Instant) -> Vec<u32> {
    if seen.len() * 8 < limit * 7 {
        return Vec::new();
    }
    let quiet = |at: Instant| now.saturating_duration_since(at) >= QUIET;
    let mut unseen: Vec<(Instant, u32)> =
        seen.iter().filter(|(_, at)| quiet(**at)).map(|(number, at)| (*at, *number)).collect();
    unseen.sort_unstable();
    unseen.truncate(seen.len() - limit * 3 / 4);
    unseen.into_iter().map(|(_, number)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unseen_give_up_their_places_when_they_run_short_and_nobody_else() {
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let mut seen: Map<u32, Instant> = (1..=6).map(|n| (n, at(u64::from(n)))).collect();
        assert!(retiring(&seen, 8, at(600)).is_empty(), "there is room");
        seen.insert(7, at(590));
        seen.insert(8, at(599));
        assert_eq!(retiring(&seen, 8, at(600)), [1, 2]);
        assert_eq!(retiring(&seen, 8, at(121)), [1], "the others were seen a moment ago");
        assert!(retiring(&seen, 8, at(119)).is_empty());
    }

    #[test]
    fn a_name_is_known_the_second_time() {
        let mut met = Doorkeeper::default();
        assert!(!met.knows(7) && met.knows(7) && !met.knows(8));
        assert!(!met.knows(7 + MET as u64) && !met.knows(7), "each drove the other out");
    }
}
