//! What was seen during all faults of a demo, in seconds since traffic began.

use lab::app::{FailureKind, Tick};
use std::collections::BTreeMap;

/// What was seen during all faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observations {
    /// Requests and reads in time, all zones.
    pub(crate) ticks: BTreeMap<u32, Tick>,
    /// Failed requests.
    pub(crate) failures: Vec<FailedRequest>,
    /// New sessions that were opened only to see where they land.
    pub(crate) probes: Vec<Probe>,
}

/// A failed request.
#[derive(Clone, Debug)]
pub(crate) struct FailedRequest {
    /// What failed in it, in words.
    pub(crate) said: String,
    /// How.
    pub(crate) kind: FailureKind,
    /// The server the session was on.
    pub(crate) server: Option<u32>,
    /// When the failing statement was sent.
    pub(crate) sent: f64,
    /// When the failure was known.
    pub(crate) at: f64,
}

/// A new session.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    /// When it was asked for.
    pub(crate) asked: f64,
    /// How long it took to open and answer.
    pub(crate) took: f64,
    /// The server it landed on; `None` if it failed.
    pub(crate) landed: Option<u32>,
}

impl Observations {
    /// Counts everything from `origin`, which lies before all of it but for a rest of a tick.
    pub(crate) fn start_at(&mut self, origin: f64) {
        let shift = tick_of(origin);
        let ticks = std::mem::take(&mut self.ticks);
        self.ticks = ticks.into_iter().map(|(n, tick)| (n.saturating_sub(shift), tick)).collect();
        for failure in &mut self.failures {
            failure.sent -= origin;
            failure.at -= origin;
        }
        for probe in &mut self.probes {
            probe.asked -= origin;
        }
    }
}

pub(super) fn between(ticks: &BTreeMap<u32, Tick>, from: f64, to: f64) -> impl Iterator<Item = &Tick> {
    ticks.range(tick_of(from)..tick_of(to).max(tick_of(from))).map(|(_, tick)| tick)
}

pub(super) fn tick_of(t: f64) -> u32 {
    // Negative times do not occur; a float beyond u32 saturates.
    (t / tick_s()) as u32
}

pub(super) fn tick_s() -> f64 {
    Tick::LENGTH.as_secs_f64()
}
