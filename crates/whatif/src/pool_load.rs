//! What is sent to a server while its buffer pool is resized: a workload, or the reads of a recording.
//!
//! A recording is sent as a whole in each window, at its own pace: windows are then of the same reads, and
//! what differs between them is the pool. Only what reads is in the script, and the sessions are read-only
//! for the server too.
//!
//! **What that cannot show.** The reads of a recording come again in the same order, pass after pass. A page
//! that real clients read once in a day is read once in each pass, so that a pool that holds all that the
//! recording touches seems to miss nothing. The longer the recording, the less that matters; the answer says
//! how long it was.

use crate::memory::{Experiment, MemoryError};
use load::replay::{self, ReplayPlan, Script, compare};
use load::{Arrivals, Load, LoadError, Plan};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What is sent at each size.
#[derive(Debug)]
pub enum PoolLoad {
    Workload(Plan),
    Recording {
        /// Its file's.
        name: String,
        /// Of its reads alone.
        script: Script,
        plan: ReplayPlan,
    },
}

/// What came of one window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sent {
    /// Transactions done, or commands answered.
    pub done: f64,
    pub per_s: f64,
    /// `None` where nothing was answered.
    pub p99_ms: Option<f64>,
    /// Why the times must not be used.
    pub unsound: Option<String>,
}

/// Ready to send.
pub(crate) enum Sender<'a> {
    Workload { load: Box<Load>, arrivals: &'a Arrivals, window: Duration },
    Recording { script: &'a Script, plan: &'a ReplayPlan },
}

impl PoolLoad {
    /// The length of a pass: that of a window, for a recording.
    pub fn pass(&self) -> Option<Duration> {
        match self {
            Self::Workload(_) => None,
            Self::Recording { script, .. } => Some(length(script)),
        }
    }

    /// What is sent, in words: answers about another load are not compared. `clients` are those of a
    /// workload.
    pub fn in_words(&self, experiment: &Experiment, clients: u32) -> String {
        match self {
            Self::Workload(plan) => {
                format!("{}, {}", plan.workload.in_words(), experiment.load_in_words(clients))
            }
            Self::Recording { name, script, .. } => {
                let (reads, seconds) = (script.steps.len(), experiment.window.as_secs_f64());
                format!("the {reads} reads of {name} in {seconds:.0} s")
            }
        }
    }

    /// `arrivals` and `window` are of a workload; a recording has its own.
    ///
    /// # Errors
    /// A workload whose clients cannot be connected.
    pub(crate) fn connect<'a>(
        &'a self,
        arrivals: &'a Arrivals,
        window: Duration,
        stop: &AtomicBool,
    ) -> Result<Sender<'a>, LoadError> {
        Ok(match self {
            Self::Workload(plan) => {
                let load = Box::new(Load::connect_until(plan.clone(), stop)?);
                Sender::Workload { load, arrivals, window }
            }
            Self::Recording { script, plan, .. } => Sender::Recording { script, plan },
        })
    }
}

impl Sender<'_> {
    /// What to know beside the figures.
    pub(crate) fn notes(&self) -> Vec<String> {
        match self {
            Self::Workload { .. } => Vec::new(),
            Self::Recording { script, .. } => vec![format!(
                "the {:.0} s of the recording are sent again and again: a pool that holds all pages that they read misses nothing, and clients that read others, or more rarely, miss more",
                length(script).as_secs_f64()
            )],
        }
    }

    /// Sends one window.
    ///
    /// # Errors
    /// A fault of our own; of a recording also that most of its commands failed.
    pub(crate) fn send(&self, seed: u64, stop: &Arc<AtomicBool>) -> Result<Sent, MemoryError> {
        match self {
            Self::Workload { load, arrivals, window } => {
                let outcome = load.send(arrivals, *window, seed, stop, |_| {})?;
                Ok(Sent {
                    done: outcome.totals.per_second * window.as_secs_f64(),
                    per_s: outcome.totals.per_second,
                    p99_ms: (outcome.response.count > 0).then_some(outcome.response.p99_ms),
                    unsound: (!outcome.is_sound()).then(|| outcome.void.join("; ")),
                })
            }
            Self::Recording { script, plan } => {
                let outcome = replay::once(script, plan, stop)?;
                let done = outcome.answered() as f64;
                let mut void = compare::void(&plan.target.to_string(), &outcome);
                let failed = script.steps.len() - outcome.answered();
                if failed * 100 > script.steps.len() {
                    void.push(format!("{failed} of {} commands failed", script.steps.len()));
                }
                Ok(Sent {
                    done,
                    per_s: done / outcome.seconds.max(1e-9),
                    p99_ms: outcome.response_ms(0.99),
                    unsound: (!void.is_empty()).then(|| void.join("; ")),
                })
            }
        }
    }
}

fn length(script: &Script) -> Duration {
    Duration::from_micros(script.length_us)
}
