//! From what was counted to figures, and from figures to "asked and measured". Pure: nothing here measures.

mod fault;
mod moved;
mod observations;
mod phase;
mod series;
mod verdict;

pub(crate) use fault::{FaultFigures, FaultKind, Lapse};
pub(crate) use moved::{MoveFigures, SwitchoverOutcome, Window, steps_in_words};
pub(crate) use observations::{FailedRequest, Observations, Probe};
pub(crate) use phase::{EndpointFigures, Fleet, PhaseFigures, Round};
pub(crate) use series::{Mark, TimeSeries};
pub(crate) use verdict::{Verdict, verdicts, won_back_by_slices};

#[cfg(test)]
pub(crate) use {
    phase::{FlowFigures, ServerFigures},
    series::Point,
};

use serde::Serialize;

/// Everything the demo found, as tables, JSON and the page show it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// On what, when, how much.
    pub(crate) about: About,
    /// Phases (a) to (d), in order.
    pub(crate) phases: Vec<PhaseFigures>,
    /// The faults of (e), in order.
    pub(crate) faults: Vec<FaultFigures>,
    /// Reads per second of each server during (e).
    pub(crate) series: Option<TimeSeries>,
    /// The moves of (f), in order.
    pub(crate) moves: Vec<MoveFigures>,
    /// What was asked and what was measured.
    pub(crate) verdicts: Vec<Verdict>,
}

/// On what, when, how much: without it no figure means anything.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct About {
    /// `YYYY-MM-DD`, UTC.
    pub(crate) date: String,
    /// Flavour and version of the servers.
    pub(crate) servers: String,
    /// Version and build of this program.
    pub(crate) headroom: String,
    /// CPU model.
    pub(crate) cpu: String,
    /// Logical CPUs that everything shared: servers, links, routers, applications.
    pub(crate) cores: usize,
    /// Simulated round-trip time within a zone, ms.
    pub(crate) within_zone_ms: f64,
    /// Simulated round-trip time between zones, ms.
    pub(crate) between_zones_ms: f64,
    /// Zones, and the servers in each.
    pub(crate) zones: Vec<(String, Vec<String>)>,
    /// The server that took the writes.
    pub(crate) primary: String,
    /// Slices each phase of the first group was cut into.
    pub(crate) rounds: u32,
    /// Length of a slice, s.
    pub(crate) slice_s: f64,
    /// Sessions that each application kept for reads.
    pub(crate) reader_sessions: usize,
    /// Seed of arrivals and keys.
    pub(crate) seed: u64,
    /// Which way the sessions of the phases with headroom went, and why.
    pub(crate) sessions: String,
    /// The applications' pools handed out their newest session first.
    pub(crate) newest_first: bool,
    /// How long the servers took to come up and replicate, s.
    pub(crate) lab_up_s: f64,
    /// From start to here, s.
    pub(crate) took_s: f64,
}

impl Report {
    /// A phase by its id.
    pub(crate) fn phase(&self, id: &str) -> Option<&PhaseFigures> {
        self.phases.iter().find(|p| p.phase.id == id)
    }

    /// The share of what (b) lost against (a) that (c) wins back, if (b) lost anything.
    pub(crate) fn won_back(&self) -> Option<f64> {
        let timeline = |id: &str| self.phase(id)?.endpoint(lab::app::Endpoint::Timeline);
        won_back_by_slices([timeline("a")?, timeline("b")?, timeline("c")?]).map(|(share, _)| share)
    }

    /// The busiest slice's share of the machine's CPU time, when it was so busy that times mean little.
    pub(crate) fn too_busy(&self) -> Option<f64> {
        const TOO_BUSY: f64 = 0.85;
        let busiest = self.phases.iter().map(|p| p.cpu_busy).fold(0.0, f64::max);
        (busiest > TOO_BUSY).then_some(busiest)
    }

    /// How many of the verdicts say yes.
    pub(crate) fn met(&self) -> usize {
        self.verdicts.iter().filter(|v| v.met).count()
    }
}
