//! Tracked: a server's factor, followed step by step. Pure, as [`crate::speed`] is, which says what is
//! compared and when a difference counts.
//!
//! **From times to a factor.** A server whose statements take `k` times as long as those of the fastest
//! quarter aims at `1/k`, at least [`LEAST`]. A server that is given less is also less busy and becomes
//! faster, which would give it more: a loop with a delay. So the factor follows slowly, down with [`DOWN`]
//! and up with [`UP`], and what is shown and used changes in steps. `router`'s tests have twenty routers do
//! that at once.
//!
//! **What fits is kept.** A server with a CPU quota is as fast as the others until the quota is used up. At
//! the share that fits it does not look slow any more, and would be given more until it does. So the factor
//! of a slow server rises only where it is as fast as the fastest, within [`EQUAL`] and [`NOISE_EQUAL`]
//! errors; between that and slow it stays. One that has recovered is less busy than the others, and so it is
//! faster. And it rises only where its statements are as fast on average, too: nearly all are at a server
//! that uses most of its quota, and the few that come when it is used up wait for a tenth of a second. The
//! typical time does not show these, and they are the tail of the tier. A tail that stays however little the
//! server is given is its own, of a smaller buffer pool, say: it does not count from [`OWN_TAIL`] on. And it
//! rises slowly ([`UP_SHORT`]) while whole sessions of its share have not come yet: that it is fast without
//! them says little of what it is with them.
//!
//! **Unknown is not fast.** A slow server may end no statement at all (a table is locked, its disk stands
//! still), or get too few to be compared. So its factor is held while that is not known, and returns with
//! [`HELD`] only, to be tried again. The same holds where our own questions alone find it fast and its
//! statements were slow: questions touch no table. And for [`ABSENT`](super::ABSENT) where a slow server does
//! not answer: one that is so slow that it misses our questions would come back with all of its share, and go
//! again.

use super::{Beside, Speed, WINDOW};
use std::time::{Duration, Instant};

/// The lowest factor.
pub const LEAST: f64 = 0.25;
/// Time constants with which the factor follows.
const DOWN: Duration = Duration::from_secs(6);
const UP: Duration = Duration::from_secs(15);
/// And down while a few statements of a slow server wait for long.
const DOWN_BY_TAIL: Duration = Duration::from_secs(12);
/// And up after that at most by this much of the logarithm a second, and by this much more with the square of
/// the seconds since: where the quota begins is found again by trying, and sessions follow late.
const UP_AFTER_TAIL: (f64, f64) = (0.004, 0.000_022);
/// And up while sessions of its share have not come yet: they may not be free to move.
const UP_SHORT: Duration = Duration::from_secs(60);
/// And up while nothing says that the server is fast again.
const HELD: Duration = Duration::from_secs(180);
/// A tail that was there for so much longer than it was not is no matter of the share: the server has it
/// whatever it is given.
const OWN_TAIL: Duration = Duration::from_mins(5);
/// A server that counted for all of its weight is slow once it has been found so for this long.
pub(super) const SUSTAINED: Duration = WINDOW;
/// And for this long by how its times differ from second to second. Without noise that is no later: what
/// takes twice as long all at once is beyond it after six seconds.
pub(super) const SUSTAINED_BY_SECONDS: Duration = Duration::from_secs(3);
/// Statements that take less than this many times as long as elsewhere are not slow.
pub(super) const STEP: f64 = 1.25;
/// The same where only our own questions are compared.
const STEP_ALONE: f64 = 1.5;
/// A server that counts as slow already changes in smaller steps.
const STEP_SLOW: f64 = 1.08;
/// A slow server is given more where its statements take no more than this many times as long as elsewhere.
const EQUAL: f64 = 1.1;
/// A slow server's statements take this many times as long on average as they take typically, beside the same
/// ones elsewhere: its share does not fit. And what counts of that at most, for one pause is no quota.
const TAIL: f64 = 1.25;
const LONGEST_TAIL: f64 = 1.5;
/// How many standard errors make a difference, how many keep one, and within how many two are equal. The last
/// is for the fastest of several, which is faster than the mean of them by about one error.
pub(super) const NOISE: f64 = 3.0;
pub(super) const NOISE_SLOW: f64 = 1.0;
const NOISE_EQUAL: f64 = 1.5;
/// The error of an average in those of a typical time: the long ones come together.
const NOISE_AVERAGE: f64 = 2.0;

/// A server's factor as it is followed, and as it is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrackedSpeed {
    /// The logarithm of the factor, followed without steps.
    log: f64,
    /// How long it has been found slow without a break, and so also by how its times differ from second to
    /// second.
    pub(super) slow_for: Duration,
    pub(super) slow_by_seconds_for: Duration,
    /// When it was last seen, while it counted for less, that a few of its statements wait for long.
    tail_before: Option<Duration>,
    /// For how much longer that was so than it was not.
    tail_for: Duration,
    /// When it was last there to be compared.
    pub(super) here_at: Instant,
    pub(super) speed: Speed,
}

impl TrackedSpeed {
    /// A server that is met now, and counts for all of its weight.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            log: 0.0,
            slow_for: Duration::ZERO,
            slow_by_seconds_for: Duration::ZERO,
            tail_before: None,
            tail_for: Duration::ZERO,
            here_at: now,
            speed: Speed::default(),
        }
    }

    /// One step towards what was measured; without it, slowly towards 1. None where a slow server is not slow
    /// at the share that it has, and no faster than others either.
    pub(super) fn follow(&mut self, measured: Option<Beside>, elapsed: Duration, now: Instant) {
        let Self { log, slow_for, slow_by_seconds_for, tail_before, tail_for, speed, .. } = self;
        let by_questions = measured.is_some_and(|beside| beside.by_questions);
        // What was found slow by statements is found fast by statements only.
        let unknown = measured.is_none() || (by_questions && speed.factor < 1.0 && !speed.by_questions);
        let step = if by_questions { STEP_ALONE } else { STEP }.ln();
        let noise = if speed.factor < 1.0 { NOISE_SLOW } else { NOISE };
        let slow = measured.filter(|beside| beside.slower >= step.max(noise * beside.error));
        *slow_for = if slow.is_some() { *slow_for + elapsed } else { Duration::ZERO };
        let by_seconds = slow.is_some_and(|beside| beside.slower >= NOISE * beside.error_by_seconds);
        *slow_by_seconds_for = if by_seconds { *slow_by_seconds_for + elapsed } else { Duration::ZERO };
        let sustained = *slow_for >= SUSTAINED && *slow_by_seconds_for >= SUSTAINED_BY_SECONDS;
        let slow = slow.filter(|_| speed.factor < 1.0 || sustained);
        let known = measured.filter(|_| speed.factor < 1.0 && !unknown);
        let tail = known.map(|beside| beside.slower_on_average - beside.slower.max(0.0));
        let tail = tail.filter(|tail| *tail > known.map_or(0.0, |b| TAIL.ln().max(NOISE_AVERAGE * b.error)));
        *tail_for = match tail {
            Some(_) => (*tail_for + elapsed).min(2 * OWN_TAIL),
            None if known.is_some() => tail_for.saturating_sub(elapsed),
            None => *tail_for,
        };
        let is_own = *tail_for >= OWN_TAIL;
        let tail = tail.filter(|_| !is_own);
        let fits = |beside: &Beside| {
            let error = NOISE_EQUAL * beside.error;
            beside.slower > EQUAL.ln().max(error)
                || (!is_own && beside.slower_on_average > EQUAL.ln().max(NOISE_AVERAGE * error))
        };
        let by_tail = tail.map(|tail| (*log - tail.min(LONGEST_TAIL.ln())).max(LEAST.ln()));
        let by_time = match (slow, known) {
            (Some(beside), _) => -beside.slower.min(-LEAST.ln()),
            (None, Some(beside)) if fits(&beside) => *log,
            (None, _) => 0.0,
        };
        let (aim, down) = match by_tail {
            Some(by_tail) if by_tail < by_time => (by_tail, DOWN_BY_TAIL),
            _ => (by_time, DOWN),
        };
        let constant = match aim < *log {
            true => down,
            false if unknown => HELD,
            false if measured.is_some_and(|beside| beside.short) => UP_SHORT,
            false => UP,
        };
        *tail_before = match tail {
            Some(_) => Some(Duration::ZERO),
            None => tail_before.map(|before| before + elapsed),
        };
        let seconds = elapsed.as_secs_f64();
        let step = (aim - *log) * (1.0 - (-seconds / constant.as_secs_f64()).exp());
        let at_most = |since: Duration| UP_AFTER_TAIL.0 + UP_AFTER_TAIL.1 * since.as_secs_f64().powi(2);
        let at_most = tail_before.map_or(f64::INFINITY, at_most);
        *log += step.min(at_most * seconds);
        let shown = speed.factor.ln();
        let recovered = *log > -STEP.ln() / 2.0 && speed.factor < 1.0;
        let step = if speed.factor < 1.0 { STEP_SLOW } else { STEP };
        if (*log - shown).abs() >= step.ln() || recovered {
            speed.factor = if recovered { 1.0 } else { log.exp().clamp(LEAST, 1.0) };
        }
        if speed.factor == 1.0 {
            (*tail_before, *tail_for) = (None, Duration::ZERO);
        }
        speed.since = (speed.factor < 1.0).then(|| speed.since.unwrap_or(now));
        speed.times = measured.filter(|_| !unknown).map(|beside| beside.longer.exp());
        let held_down = known.filter(|_| speed.factor < 1.0 && tail.is_some());
        speed.on_average = held_down.map(|beside| beside.slower_on_average.exp());
        if !unknown {
            speed.by_questions = by_questions;
        } else if speed.factor == 1.0 {
            speed.by_questions = false;
        }
    }
}
