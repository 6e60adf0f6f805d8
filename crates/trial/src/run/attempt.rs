//! One trial: its attempts, and what is measured in each.

use super::{Event, Experiment, Restore, Rig, RigError, RunError, Stretch, outage};
use crate::guard::{self, WarmUpWindow, Window};
use crate::order::Run;
use crate::spec::{Every, Metric, Point, Spec};
use crate::store::{self, Measured, Outcome, Second};
use load::Seed;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A warm-up is looked at in this many windows: twice as many as must agree, so that those of few
/// transactions can be taken together in pairs, and all of its time counts.
const WINDOWS: u32 = 6;
/// Each is as long as this at least, and at most.
const WINDOW: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3));

/// A trial is run again so often because no server answered. A cell whose settings were in force each time is
/// given up by then: they may be why.
const OUTAGES: u32 = 3;

/// A trial before it is made.
#[derive(Clone, Copy)]
pub(super) struct PlannedTrial {
    pub(super) run: Run,
    pub(super) point: Point,
    /// No other trial of the load draws the same keys: they would be in the cache.
    pub(super) seed: Seed,
    /// Whether the data are made as they were first.
    pub(super) data: bool,
    /// Whether a lead-in comes before it and counts for nothing: the first run of this process, or after the
    /// data were made anew, is unlike the rest.
    pub(super) lead_in: bool,
    /// Whether it is a second attempt: a measurement that is not stationary then counts.
    pub(super) again: bool,
    /// Whether the attempt before was too slow: then this one gives the cell up if it is, too.
    pub(super) slow_before: bool,
}

/// A trial that was made.
pub(super) struct Made {
    /// When it began, seconds since 1970.
    pub(super) at: u64,
    /// How long it took, without what was waited for a server.
    pub(super) seconds: f64,
    pub(super) outcome: Outcome,
}

/// One trial: reset, apply, measure, put back; once more where no server answered, after a lead-in: the cache
/// of a server that was restarted is empty. `None` when everything is to end.
pub(super) fn trial(
    experiment: &Experiment,
    wanted: PlannedTrial,
    baseline: Option<&Window>,
    rig: &mut dyn Rig,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Event<'_>),
) -> Result<Option<Made>, RunError> {
    let (mut outages, mut always_applied) = (0, true);
    let mut now = wanted;
    loop {
        if stop.load(Ordering::Relaxed) {
            outage::settle(Restore::All, rig, stop, tell)?;
            return Ok(None);
        }
        if now.lead_in {
            tell(&Event::LeadIn);
        }
        let (at, began) = (store::now(), Instant::now());
        let attempt = attempt(experiment, now, baseline, rig);
        let seconds = began.elapsed().as_secs_f64();
        let (why, applied) = match attempt {
            Attempt::Over(outcome) if now.lead_in => {
                outage::settle(left_by(&outcome), rig, stop, tell)?;
                let data = now.data && experiment.spec.reset.every == Every::Trial;
                now = PlannedTrial { lead_in: false, data, ..now };
                continue;
            }
            Attempt::Over(outcome) => {
                let stopped = stop.load(Ordering::Relaxed);
                outage::settle(if stopped { Restore::All } else { left_by(&outcome) }, rig, stop, tell)?;
                // What was broken off is no figure.
                return Ok((!stopped).then_some(Made { at, seconds, outcome }));
            }
            Attempt::Unanswered { why, applied } => (why, applied && !now.lead_in),
            Attempt::Hindered(why) => {
                outage::settle(Restore::All, rig, stop, tell)?;
                return Err(RunError::Hindered(why));
            }
        };
        outages += 1;
        always_applied &= applied;
        let words =
            format!("its settings were in force when the server stopped answering, {outages} times: {why}");
        if outages == OUTAGES && !(always_applied && matches!(wanted.run, Run::Cell(_))) {
            return Err(outage::unanswered(why, rig.restore(Restore::All)));
        }
        if !outage::wait(why, rig, stop, tell)? {
            return Ok(None);
        }
        if outages == OUTAGES {
            return Ok(Some(Made { at, seconds, outcome: Outcome::GivenUp { why: words } }));
        }
        tell(&Event::Again);
        now = PlannedTrial { lead_in: wanted.run != Run::LeadIn, ..wanted };
    }
}

/// What is put back after a trial: after one that went wrong everything is the baseline's before the next
/// begins.
fn left_by(outcome: &Outcome) -> Restore {
    if matches!(outcome, Outcome::Measured(_)) { Restore::NotHeld } else { Restore::All }
}

/// What one attempt at a trial came to.
enum Attempt {
    Over(Outcome),
    /// No server answered, or it was started anew: that is no outcome.
    Unanswered {
        why: RigError,
        /// Whether its settings were set by then, or about to be.
        applied: bool,
    },
    /// No cell can be set any more: that is no outcome of this one.
    Hindered(RigError),
}

fn attempt(
    experiment: &Experiment,
    wanted: PlannedTrial,
    baseline: Option<&Window>,
    rig: &mut dyn Rig,
) -> Attempt {
    let seed = Seed { keys: !wanted.seed.keys, ..wanted.seed };
    let lead_in = PlannedTrial { run: Run::LeadIn, again: true, slow_before: false, seed, ..wanted };
    let (wanted, baseline) = if wanted.lead_in { (lead_in, None) } else { (wanted, baseline) };
    let void = |error: RigError| Outcome::void(error.to_string());
    let refused = |error: RigError| Outcome::Refused { why: error.to_string() };
    if let Err(why) = rig.answers() {
        return Attempt::Unanswered { why, applied: false };
    }
    if let Err(error) = rig.reset(wanted.data) {
        return failed(error, false, void, rig);
    }
    if let Err(error) = rig.apply(&experiment.assignments(wanted.run)) {
        return failed(error, true, refused, rig);
    }
    let measured = measure(&experiment.spec, wanted, baseline, rig);
    rig.disconnect();
    match measured.map(|outcome| (outcome, rig.ran_through())) {
        Ok((outcome, Ok(()))) => Attempt::Over(outcome),
        Ok((_, Err(why))) => Attempt::Unanswered { why, applied: true },
        Err(error) => failed(error, true, void, rig),
    }
}

/// What went wrong counts only if a server is there, and if it is this trial's alone.
fn failed(
    error: RigError,
    applied: bool,
    outcome: impl FnOnce(RigError) -> Outcome,
    rig: &mut dyn Rig,
) -> Attempt {
    if error.is_unanswered() || rig.answers().is_err() {
        return Attempt::Unanswered { why: error, applied };
    }
    if error.hinders_all() {
        return Attempt::Hindered(error);
    }
    Attempt::Over(outcome(error))
}

/// # Errors
/// What the rig could not do; what was seen and is no figure is an outcome.
fn measure(
    spec: &Spec,
    wanted: PlannedTrial,
    baseline: Option<&Window>,
    rig: &mut dyn Rig,
) -> Result<Outcome, RigError> {
    let PlannedTrial { point, seed, again, slow_before, .. } = wanted;
    let void = |why: String| Ok(Outcome::void(why));
    let given_up = |why: String| Ok(Outcome::GivenUp { why });
    let slow = |why: String| if slow_before { given_up(why) } else { Ok(Outcome::Void { why, slow: true }) };
    rig.pause(spec.timing.reset);
    rig.connect(point)?;
    let full: std::cell::Cell<Option<f64>> = std::cell::Cell::new(None);
    let fuller =
        |memory: Option<f64>| memory.map_or(full.get(), |now| Some(full.get().unwrap_or(0.0).max(now)));
    let mut go_on = |_: &Second, memory: Option<f64>| {
        full.set(fuller(memory));
        memory.is_none_or(|memory| memory <= spec.guard.memory)
    };
    let (windows, warm_up, steady) = warm_up(spec, point, seed, rig, &mut go_on)?;
    if let Some(recent) = guard::recent(&windows) {
        let words = |why: String| format!("after the warm-up {why}");
        if let Some(why) = guard::gives_up(&spec.guard, &recent, full.get(), baseline) {
            return given_up(words(why));
        }
        if let Some(why) = guard::is_slow(&spec.guard, &recent, baseline) {
            return slow(words(why));
        }
    }
    let stretch = rig.send(spec.timing.measure, seed, &mut go_on)?;
    let memory = fuller(stretch.memory);
    if let Some(why) = guard::gives_up(&spec.guard, &stretch.window, memory, baseline) {
        return given_up(why);
    }
    if let Some(why) = stretch.void.first() {
        return void(why.clone());
    }
    if let Some(why) = guard::lacks(&stretch.window) {
        return void(why);
    }
    if let Some(why) = guard::is_slow(&spec.guard, &stretch.window, baseline) {
        return slow(why);
    }
    let excused = steady == Some(true) || again;
    if let Some(why) = guard::voids(&spec.guard, &stretch.host, &stretch.series, excused) {
        return void(why);
    }
    // Once: a setting that makes a server unsteady twice is a finding. A lead-in is there to drift.
    if point.rate.is_some()
        && !again
        && wanted.run != Run::LeadIn
        && let Some(why) = guard::drifts(&stretch.series)
    {
        return void(why);
    }
    let Stretch { window, notes, series, host, bottleneck, .. } = stretch;
    let figure = match spec.metric {
        Metric::Throughput => window.per_second,
        Metric::P99 => window.p99_ms,
    };
    if !(figure.is_finite() && figure > 0.0) {
        return void(format!("its {} is {figure}", spec.metric.words()));
    }
    let warm_up_s = warm_up.as_secs_f64();
    let measured = Measured { figure, window, warm_up_s, steady, series, host, bottleneck, notes };
    Ok(Outcome::Measured(Box::new(measured)))
}

/// Sends until the load is steady, or the time for that is over; whether it became so, if that can be told.
/// Behind each window the transactions under way are waited for, and that is part of the time: no window is
/// begun that has less than its half within it.
/// Other keys than the measurement's: the same ones would put exactly those into the cache.
fn warm_up(
    spec: &Spec,
    point: Point,
    seed: Seed,
    rig: &mut dyn Rig,
    go_on: &mut dyn FnMut(&Second, Option<f64>) -> bool,
) -> Result<(Vec<Window>, Duration, Option<bool>), RigError> {
    let length = (spec.timing.warm_up / WINDOWS).clamp(WINDOW.0, WINDOW.1);
    let (mut windows, mut sent, mut steady) = (Vec::new(), Duration::ZERO, None);
    let mut passed = Duration::ZERO;
    while sent + length <= spec.timing.warm_up && passed + length / 2 <= spec.timing.warm_up {
        let other = (windows.len() as u64 + 1) << 32;
        let seed = Seed { moments: seed.moments.wrapping_add(other), keys: seed.keys.wrapping_add(other) };
        let Stretch { window, error, took, .. } = rig.send(length, seed, go_on)?;
        windows.push(WarmUpWindow { window, error });
        sent += length;
        passed += took.max(length);
        steady = guard::is_steady(&windows, point.rate.is_some());
        if steady == Some(true) {
            break;
        }
    }
    Ok((windows.into_iter().map(|one| one.window).collect(), passed, steady))
}
