//! Lag without a heartbeat table: how old is the oldest change of the primary that a replica has not applied?
//!
//! We sample the primary's position; a sample knows when that position was first seen and when it was last
//! seen. When a replica tells what it has applied, the samples that it does not cover are behind it, and
//! because positions only grow, they are the last ones. Let `u` be the first uncovered sample and `c` the
//! last covered one. The oldest change not applied was written after `c` was last seen and before `u` was
//! first seen, so at the time of the replica's answer its age was
//!
//! ```text
//! at least   replica.asked    - u.first_seen.answered
//! at most    replica.answered - c.last_seen.asked
//! ```
//!
//! (a question was answered somewhere between being asked and being answered; each bound takes the worse
//! end).
//!
//! Worked example, primary sampled each 500 ms at 0, 500, 1000, 1500 with positions 10, 20, 30, 40, and a
//! replica at 1600 that has applied 25: `c` = 20 (500), `u` = 30 (1000): the oldest missing change is 600 to
//! 1100 ms old.
//!
//! **Order of asking.** If the primary is read first and the replica second, what was written in between is
//! in no sample yet: the estimate can be too low, by that time at most. If the replica is read first, the
//! estimate can only be too high. Both happen, because every server is asked by a task of its own; so a
//! sample taken after the replica's answer never makes it look late (its `at least` would be negative and is
//! 0), and until such a sample shows that nothing was missing, the time since the last sample stays in the
//! uncertainty. An idle primary gives 0.
//!
//! While the primary does not answer, lag is counted against what it was last seen to have: nobody can know
//! what it wrote since, and replicas of a dead primary are as fresh as data gets.
//!
//! Memory is bounded: equal positions are one sample; when a track is full, every other sample of its older
//! half is dropped, which makes old lags less precise in proportion to their age.

use fleet::{Lag, LagSource, Position};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Samples kept of one server.
const SAMPLES: usize = 1024;
/// Intervals (GTID sets can be long) kept of one server, all samples together.
const INTERVALS: usize = 64 * 1024;

/// Bounds wider than this are worth less than the server's own figure, which may be late but not by so much
/// while its receiver runs.
const COARSE: Duration = Duration::from_secs(4);

/// The window in which a question was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
}

/// The positions of one server over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    samples: VecDeque<Sample>,
    size: usize,
}

#[derive(Clone, Debug)]
struct Sample {
    position: Position,
    first: Window,
    last: Window,
}

/// What a track says of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LagBounds {
    Bounds {
        at_least: Duration,
        at_most: Duration,
    },
    /// The oldest sample is already not applied: older than this, nobody knows by how much.
    OlderThan(Duration),
    /// The positions do not compare, or there is no sample.
    Unknown,
}

impl Track {
    /// Adds what the server had at `when`. A position that does not contain the last one (the server was
    /// reset or exchanged) starts a new track.
    pub(crate) fn push(&mut self, position: Position, when: Window) {
        if let Some(last) = self.samples.back_mut() {
            if last.position == position {
                last.last = when;
                return;
            }
            if position.covers(&last.position) != Some(true) {
                self.samples.clear();
                self.size = 0;
            }
        }
        self.size += position.size();
        self.samples.push_back(Sample { position, first: when, last: when });
        while self.samples.len() > 2 && (self.samples.len() > SAMPLES || self.size > INTERVALS) {
            self.thin();
        }
    }

    /// How far behind this track a replica is that had applied `applied` at `when`. With `quiet` the primary
    /// does not answer: the time since its last sample is not counted.
    pub(crate) fn behind(&self, applied: &Position, when: Window, quiet: bool) -> LagBounds {
        let Some(newest) = self.samples.back() else { return LagBounds::Unknown };
        if applied.covers(&newest.position).is_none() {
            return LagBounds::Unknown;
        }
        let covered = self.samples.partition_point(|s| applied.covers(&s.position) == Some(true));
        let Some(missing) = self.samples.get(covered) else {
            // Has all that we saw. What came after the last look at the primary can be no older than that
            // look.
            let at_most = if quiet {
                Duration::ZERO
            } else {
                when.answered.saturating_duration_since(newest.last.asked)
            };
            return LagBounds::Bounds { at_least: Duration::ZERO, at_most };
        };
        let at_least = when.asked.saturating_duration_since(missing.first.answered);
        match covered.checked_sub(1).and_then(|before| self.samples.get(before)) {
            Some(before) => {
                let at_most = when.answered.saturating_duration_since(before.last.asked).max(at_least);
                LagBounds::Bounds { at_least, at_most }
            }
            None => LagBounds::OlderThan(at_least),
        }
    }

    pub(crate) fn newest(&self) -> Option<&Position> {
        self.samples.back().map(|s| &s.position)
    }

    pub(crate) fn oldest(&self) -> Option<&Position> {
        self.samples.front().map(|s| &s.position)
    }

    /// Drops every other sample of the older half. The oldest stays: it bounds the longest lag.
    fn thin(&mut self) {
        let half = self.samples.len() / 2;
        let mut at = 0;
        let mut size = 0;
        self.samples.retain(|sample| {
            let keep = at >= half.max(2) || at % 2 == 0;
            at += 1;
            size += if keep { sample.position.size() } else { 0 };
            keep
        });
        self.size = size;
    }
}

/// What a replica has applied, completed by what never comes to it and cannot make it late: of MariaDB the
/// domains that its filters leave out, and those it has nothing of although the primary had them before we
/// began to watch; of MySQL all of a source before the first that it has. A replica that was built from a
/// dump without its GTIDs, and told a file and an offset, lacks that for ever.
pub(crate) fn complete(applied: &Position, track: &Track, takes: impl Fn(u32) -> bool) -> Position {
    if let Position::Set(ours) = applied {
        return Position::Set(ours.from_the_first());
    }
    let (Position::Domains(ours), Some(Position::Domains(newest))) = (applied, track.newest()) else {
        return applied.clone();
    };
    let old =
        |domain| matches!(track.oldest(), Some(Position::Domains(oldest)) if oldest.domain(domain).is_some());
    let foreign = newest.only(|domain| !takes(domain) || (ours.domain(domain).is_none() && old(domain)));
    Position::Domains(ours.union(&foreign))
}

/// Makes a lag of what a track says, of the server's own figure, or of both.
///
/// The server's own figure is in whole seconds and jumps, so it is used only where the track does not reach
/// back far enough (we have just started), where there is none, or where servers are asked so seldom that the
/// bounds are wider than [`COARSE`].
pub(crate) fn lag(behind: LagBounds, source: LagSource, seconds_behind: Option<u64>) -> Option<Lag> {
    let own = seconds_behind.map(Duration::from_secs);
    let second = Duration::from_secs(1);
    match (behind, own) {
        (LagBounds::Bounds { at_least, at_most }, Some(own)) if at_most.saturating_sub(at_least) > COARSE => {
            Some(Lag { at_least: at_least.max(own), uncertainty: second, source: LagSource::SecondsBehind })
        }
        (LagBounds::Bounds { at_least, at_most }, _) => {
            Some(Lag { at_least, uncertainty: at_most.saturating_sub(at_least), source })
        }
        (LagBounds::OlderThan(least), Some(own)) => {
            Some(Lag { at_least: least.max(own), uncertainty: second, source: LagSource::SecondsBehind })
        }
        (LagBounds::Unknown, Some(own)) => {
            Some(Lag { at_least: own, uncertainty: second, source: LagSource::SecondsBehind })
        }
        (LagBounds::OlderThan(_) | LagBounds::Unknown, None) => None,
    }
}

/// The lag of a replica of a replica by files and offsets, which mean something only to the two of them: what
/// it lacks of its source, plus what its source lacks. At least the longer of the two, at most both together.
pub(crate) fn through(source: Lag, own: Lag) -> Lag {
    let at_least = source.at_least.max(own.at_least);
    let at_most = source.at_most().saturating_add(own.at_most());
    Lag { at_least, uncertainty: at_most.saturating_sub(at_least), source: own.source }
}

#[cfg(test)]
mod tests;
