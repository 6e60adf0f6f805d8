//! Reads of each server in time, with what happened when.

use super::Fleet;
use super::observations::{Observations, tick_s};
use serde::Serialize;

/// Reads of each server in time.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TimeSeries {
    /// Length of a point, s.
    pub(crate) step_s: f64,
    /// Order of the figures in each point.
    pub(crate) servers: Vec<String>,
    /// In order, without gaps.
    pub(crate) points: Vec<Point>,
    /// What happened when.
    pub(crate) marks: Vec<Mark>,
}

/// A step of the series.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    /// Its start, s since traffic began.
    pub(crate) t_s: f64,
    /// Reads per second of each server.
    pub(crate) reads_per_s: Vec<f64>,
    /// Requests that failed in it.
    pub(crate) failed: u64,
}

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Mark {
    /// When, s since traffic began.
    pub(crate) t_s: f64,
    /// What.
    pub(crate) label: String,
}

impl TimeSeries {
    /// Sums ticks up to steps of half a second.
    pub(crate) fn new(readers: &[&str], fleet: &Fleet, observed: &Observations, marks: Vec<Mark>) -> Self {
        const TICKS: u32 = 5;
        let step_s = f64::from(TICKS) * tick_s();
        let last = observed.ticks.keys().next_back().copied().unwrap_or(0);
        let ids: Vec<Option<u32>> = readers.iter().map(|r| fleet.id(r)).collect();
        let point = |n: u32| {
            let ticks = || observed.ticks.range(n * TICKS..(n + 1) * TICKS).map(|(_, tick)| tick);
            let reads = |id: &Option<u32>| {
                let id = id.unwrap_or(0);
                ticks().map(|t| t.reads.get(&id).copied().unwrap_or(0)).sum::<u64>() as f64 / step_s
            };
            Point {
                t_s: f64::from(n) * step_s,
                reads_per_s: ids.iter().map(reads).collect(),
                failed: ticks().map(|t| t.failed).sum(),
            }
        };
        // The last step is not full.
        let points = (0..last / TICKS).map(point).collect();
        Self { step_s, servers: readers.iter().map(|r| (*r).to_owned()).collect(), points, marks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::app::Tick;
    use std::collections::BTreeMap;

    #[test]
    fn the_series_sums_ticks_up() {
        let fleet = Fleet::new(crate::scenario::servers());
        let reads: BTreeMap<u32, u64> = [("a2", 10), ("b1", 100)]
            .into_iter()
            .filter_map(|(server, reads)| Some((fleet.id(server)?, reads)))
            .collect();
        let tick = |n| (n, Tick { requests: 1, failed: 0, reads: reads.clone() });
        let observed = Observations { ticks: (0..200).map(tick).collect(), ..Observations::default() };
        let series = TimeSeries::new(&["a2", "b1"], &fleet, &observed, Vec::new());
        assert!((series.points[0].reads_per_s[1] - 1000.0).abs() < 1e-9);
        assert!((series.points[0].reads_per_s[0] - 100.0).abs() < 1e-9);
        assert_eq!(series.points.len(), 39);
    }
}
