//! Tracked: a server's factor, followed step by step. Pure, as [`crate::speed`] is, which says why it follows
//! so.

use super::{
    Beside, DOWN, DOWN_BY_TAIL, EQUAL, HELD, LEAST, LONGEST_TAIL, NOISE, NOISE_AVERAGE, NOISE_EQUAL,
    NOISE_SLOW, OWN_TAIL, STEP, STEP_ALONE, STEP_SLOW, SUSTAINED, SUSTAINED_BY_SECONDS, Speed, TAIL, UP,
    UP_AFTER_TAIL, UP_SHORT,
};
use std::time::{Duration, Instant};

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
