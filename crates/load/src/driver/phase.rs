//! One stretch of load: when it begins and ends, and what happens to what is left at its end.

use crate::arrivals::Arrivals;
use crate::run::Seed;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// One stretch of load, the same for all threads. Moments count from [`Shared::now_ns`](super::Shared)'s
/// zero.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub(crate) start_ns: u64,
    /// Nothing begins that was due later; in a closed loop nothing begins later.
    pub(crate) end_ns: u64,
    /// What is due before the end may begin and be answered until here.
    pub(crate) grace_ns: u64,
    pub(crate) arrivals: Arrivals,
    pub(crate) seed: Seed,
    /// Later answers than this are counted as late.
    pub(crate) objective_ns: Option<u64>,
    /// Set to end the phase early.
    pub(crate) stop: Arc<AtomicBool>,
}
