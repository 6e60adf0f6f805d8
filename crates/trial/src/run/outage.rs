//! A server that does not answer: it is waited for, and settings are put back when it is there again.
//!
//! A restart takes seconds. A trial that fails meanwhile fails at once: without waiting, all that are left
//! would have failed before the server is back. What a restart itself puts back counts as put back.

use super::{Event, Restore, Rig, RigError, RunError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A server is waited for this long.
const PATIENCE: Duration = Duration::from_secs(60);
/// It is asked this often.
const EVERY: Duration = Duration::from_secs(1);
/// The wait is named anew after this many questions.
const NAMED: u32 = 15;

/// Puts back what is named; where a server does not answer, everything as soon as it does.
///
/// # Errors
/// See [`wait`].
pub(super) fn settle(
    what: Restore,
    rig: &mut dyn Rig,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Event<'_>),
) -> Result<(), RunError> {
    match rig.restore(what) {
        Err(why) if why.is_unanswered() => wait(why, rig, stop, tell).map(|_| ()),
        restored => restored.map_err(RunError::NotBack),
    }
}

/// The end of a run that nobody answers, with what `restored` says of its settings.
pub(super) fn unanswered(why: RigError, restored: Result<(), RigError>) -> RunError {
    RunError::Unanswered { why: Box::new(why), left: restored.err().map(Box::new) }
}

/// Waits until every server answers, and puts everything back. `false` if everything is to end; then all is
/// back as well.
///
/// # Errors
/// A setting is not back. No server answers in time: what can be put back is.
pub(super) fn wait(
    why: RigError,
    rig: &mut dyn Rig,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Event<'_>),
) -> Result<bool, RunError> {
    let began = Instant::now();
    for question in 0.. {
        let stopped = stop.load(Ordering::Relaxed);
        let waited = (EVERY * question).max(began.elapsed());
        let last = stopped || waited >= PATIENCE;
        // The last time in any case: a server that the experiment itself has stopped is started by that.
        if last || rig.answers().is_ok() {
            let restored = rig.restore(Restore::All);
            match restored {
                Err(error) if !error.is_unanswered() => return Err(RunError::NotBack(error)),
                Ok(()) if stopped => return Ok(false),
                Ok(()) if rig.answers().is_ok() => return Ok(true),
                restored if last => {
                    return Err(unanswered(why, restored));
                }
                _ => {}
            }
        }
        if question % NAMED == 0 {
            tell(&Event::Unanswered { why: &why, left: PATIENCE.saturating_sub(waited) });
        }
        rig.pause(EVERY);
    }
    Ok(true)
}
