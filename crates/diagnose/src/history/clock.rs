//! What the calendar calls the moments of a history, and where it jumped.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

/// The calendar and the steady clock drift apart by less than this between two ticks, milliseconds; more is a
/// jump.
const JUMP_MS: i64 = 2_000;
/// Jumps kept at most.
const MOST: usize = 64;

/// The calendar's view of a history.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Milliseconds of the Unix epoch at the beginning of the history, by the calendar of now.
    began_ms: i64,
    jumps: VecDeque<Jump>,
}

/// The calendar was put forward or back, or the machine slept (then the steady clock slept too).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// When it was noticed, milliseconds of the history.
    pub at_ms: u64,
    /// How far, milliseconds; less than 0 is back.
    pub by_ms: i64,
}

impl Clock {
    pub(super) fn new(calendar: SystemTime) -> Self {
        Self { began_ms: epoch_ms(calendar), jumps: VecDeque::new() }
    }

    pub(super) fn tick(&mut self, now_ms: u64, calendar: SystemTime) {
        let began_ms = epoch_ms(calendar) - i64::try_from(now_ms).unwrap_or(i64::MAX);
        let by_ms = began_ms - self.began_ms;
        // Followed also where it only drifts: a thousand small steps are no jump.
        self.began_ms = began_ms;
        if by_ms.abs() > JUMP_MS {
            if self.jumps.len() >= MOST {
                self.jumps.pop_front();
            }
            self.jumps.push_back(Jump { at_ms: now_ms, by_ms });
        }
    }

    /// What the calendar of now calls a moment of the history, milliseconds of the Unix epoch.
    pub fn epoch_ms(&self, at_ms: u64) -> i64 {
        self.began_ms + i64::try_from(at_ms).unwrap_or(i64::MAX)
    }

    /// The moment of the history that the calendar of now calls so.
    pub fn history_ms(&self, epoch_ms: i64) -> u64 {
        u64::try_from(epoch_ms - self.began_ms).unwrap_or(0)
    }

    /// Where it jumped, oldest first.
    pub fn jumps(&self) -> impl Iterator<Item = &Jump> {
        self.jumps.iter()
    }
}

fn epoch_ms(calendar: SystemTime) -> i64 {
    let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    calendar.duration_since(SystemTime::UNIX_EPOCH).map_or_else(|before| -ms(before.duration()), ms)
}
