//! One phase: times per endpoint, load per server, reads that cross zones, against the least that could
//! cross.
//!
//! With d[z] the share of reads born in zone z, as this run's applications counted them, and c[z] the share
//! of readers that stand there, the least share that must cross for every reader to carry the same is sum
//! max(0, d[z] - c[z]). Example: readers A2 B1 C0 and even demand: d = 1/3 each, c = 2/3, 1/3, 0; the least
//! is 1/3: the reads of zone c.

use crate::scenario::{Phase, zone_of};
use hdrhistogram::Histogram;
use lab::app::{AppCounts, Endpoint, EndpointTally};
use serde::Serialize;
use std::collections::BTreeMap;

/// Names of servers, by `@@server_id` from 1.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    servers: Vec<String>,
}

/// One slice of a phase.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    /// What the applications counted, by zone.
    pub(crate) zones: BTreeMap<String, AppCounts>,
    /// Share of the machine's CPU time that was used meanwhile, by anybody.
    pub(crate) cpu_busy: f64,
}

/// Figures of one phase.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PhaseFigures {
    /// What was done.
    #[serde(flatten)]
    pub(crate) phase: Phase,
    /// The policy in words.
    pub(crate) placement: String,
    /// Slices.
    pub(crate) rounds: usize,
    /// Share of the machine's CPU time that was used in the busiest of them, by anybody: near 1, times show
    /// queueing for the CPU and not distance.
    pub(crate) cpu_busy: f64,
    /// Reads answered.
    pub(crate) reads: u64,
    /// Requests that failed.
    pub(crate) failed: u64,
    /// What they failed with, at most five.
    pub(crate) failures: Vec<String>,
    /// Per endpoint, in fixed order.
    pub(crate) endpoints: Vec<EndpointFigures>,
    /// Per reader of this phase.
    pub(crate) servers: Vec<ServerFigures>,
    /// Load of the busiest reader relative to the mean.
    pub(crate) busiest_of_mean: f64,
    /// Reads by zone and reader.
    pub(crate) flows: Vec<FlowFigures>,
    /// Share of reads answered in another zone.
    pub(crate) cross_zone: f64,
    /// The least share that must cross for even load.
    pub(crate) least_cross_zone: f64,
}

/// One endpoint; times in ms.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct EndpointFigures {
    /// Method and path.
    pub(crate) route: String,
    /// Requests answered.
    pub(crate) requests: u64,
    /// Requests that failed.
    pub(crate) failed: u64,
    /// Statements per answered request.
    pub(crate) queries_per_request: f64,
    /// Request, from when it was due: median.
    pub(crate) p50_ms: f64,
    /// The same, 99th percentile.
    pub(crate) p99_ms: f64,
    /// Time in reads of one request: median.
    pub(crate) reads_p50_ms: f64,
    /// The same, 99th percentile.
    pub(crate) reads_p99_ms: f64,
    /// The same, mean.
    pub(crate) reads_mean_ms: f64,
    /// One read: median.
    pub(crate) read_p50_ms: f64,
    /// Median time in reads of each slice alone.
    pub(crate) reads_p50_by_round_ms: Vec<f64>,
}

/// One reader.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServerFigures {
    /// Its name.
    pub(crate) name: String,
    /// Reads it answered.
    pub(crate) reads: u64,
    /// Its share of all reads.
    pub(crate) share: f64,
    /// The same relative to the mean of all readers.
    pub(crate) of_mean: f64,
}

/// Reads of one zone that one reader answered.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FlowFigures {
    /// Where they were born.
    pub(crate) from: String,
    /// Who answered.
    pub(crate) server: String,
    /// How many.
    pub(crate) reads: u64,
    /// Their share of all reads.
    pub(crate) share: f64,
}

impl Fleet {
    /// Servers in the order of their ids.
    pub(crate) fn new(servers: Vec<String>) -> Self {
        Self { servers }
    }

    /// The name behind a `@@server_id`.
    pub(crate) fn name(&self, id: u32) -> &str {
        let index = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
        index.and_then(|i| self.servers.get(i)).map_or("unknown", String::as_str)
    }

    /// The `@@server_id` of a name.
    pub(crate) fn id(&self, name: &str) -> Option<u32> {
        let index = self.servers.iter().position(|s| s == name)?;
        u32::try_from(index + 1).ok()
    }
}

impl PhaseFigures {
    /// Sums up the slices of a phase.
    pub(crate) fn new(phase: &Phase, readers: &[&str], fleet: &Fleet, rounds: Vec<Round>) -> Self {
        let endpoints = Endpoint::ALL.iter().map(|e| endpoint_figures(*e, &rounds)).collect();
        let number = rounds.len();
        let cpu_busy = rounds.iter().map(|r| r.cpu_busy).fold(0.0, f64::max);
        let by_zone = by_zone(rounds);
        let flows = flows(&by_zone, fleet);
        let reads = flows.iter().map(|f| f.reads).sum();
        let servers = server_figures(readers, &flows, reads);
        let failures = by_zone.values().flat_map(|t| &t.failures);
        Self {
            placement: phase.policy.title().to_owned(),
            rounds: number,
            cpu_busy,
            reads,
            failed: by_zone.values().flat_map(|t| t.endpoints.values()).map(|e| e.failed).sum(),
            failures: failures.take(5).map(|(e, f)| format!("{e}: {}: {}", f.kind, f.said)).collect(),
            endpoints,
            busiest_of_mean: servers.iter().map(|s| s.of_mean).fold(0.0, f64::max),
            cross_zone: flows
                .iter()
                .filter(|f| f.from != zone_of(&f.server))
                .map(|f| f.share)
                .fold(0.0, |sum, share| sum + share),
            least_cross_zone: least_cross_zone(&flows, readers, 1.0),
            servers,
            flows,
            phase: phase.clone(),
        }
    }

    /// One endpoint.
    pub(crate) fn endpoint(&self, endpoint: Endpoint) -> Option<&EndpointFigures> {
        self.endpoints.iter().find(|e| e.route == endpoint.route())
    }
}

fn by_zone(rounds: Vec<Round>) -> BTreeMap<String, AppCounts> {
    let mut sum: BTreeMap<String, AppCounts> = BTreeMap::new();
    for (zone, tally) in rounds.into_iter().flat_map(|round| round.zones) {
        sum.entry(zone).or_default().add(tally);
    }
    sum
}

fn endpoint_figures(endpoint: Endpoint, rounds: &[Round]) -> EndpointFigures {
    let of_round = |round: &Round| {
        let mut sum = AppCounts::default();
        round.zones.values().for_each(|tally| sum.add(tally.clone()));
        sum.endpoints.remove(&endpoint).unwrap_or_default()
    };
    let each: Vec<EndpointTally> = rounds.iter().map(of_round).collect();
    let mut all = AppCounts::default();
    rounds.iter().flat_map(|round| round.zones.values()).for_each(|tally| all.add(tally.clone()));
    let all = all.endpoints.remove(&endpoint).unwrap_or_default();
    EndpointFigures {
        route: endpoint.route().to_owned(),
        requests: all.requests,
        failed: all.failed,
        queries_per_request: ratio(all.statements, all.requests),
        p50_ms: quantile_ms(&all.request_ns, 0.5),
        p99_ms: quantile_ms(&all.request_ns, 0.99),
        reads_p50_ms: quantile_ms(&all.reads_ns, 0.5),
        reads_p99_ms: quantile_ms(&all.reads_ns, 0.99),
        reads_mean_ms: all.reads_ns.mean() / 1e6,
        read_p50_ms: quantile_ms(&all.read_ns, 0.5),
        reads_p50_by_round_ms: each.iter().map(|t| quantile_ms(&t.reads_ns, 0.5)).collect(),
    }
}

fn flows(by_zone: &BTreeMap<String, AppCounts>, fleet: &Fleet) -> Vec<FlowFigures> {
    let total: u64 = by_zone.values().map(AppCounts::reads).sum();
    let of_zone = |(zone, tally): (&String, &AppCounts)| {
        let flow = |(id, reads): (u32, u64)| FlowFigures {
            from: zone.clone(),
            server: fleet.name(id).to_owned(),
            reads,
            share: ratio(reads, total),
        };
        tally.reads_per_server().into_iter().map(flow).collect::<Vec<_>>()
    };
    by_zone.iter().flat_map(of_zone).collect()
}

fn server_figures(readers: &[&str], flows: &[FlowFigures], total: u64) -> Vec<ServerFigures> {
    // Whoever answered reads is shown, also one that should not have.
    let mut names: Vec<&str> = readers.to_vec();
    let mut strangers: Vec<&str> =
        flows.iter().map(|f| f.server.as_str()).filter(|s| !readers.contains(s)).collect();
    strangers.sort_unstable();
    strangers.dedup();
    names.extend(strangers);
    let figures = |name: &str| {
        let reads = flows.iter().filter(|f| f.server == name).map(|f| f.reads).sum();
        let share = ratio(reads, total);
        ServerFigures { name: name.to_owned(), reads, share, of_mean: share * readers.len() as f64 }
    };
    names.into_iter().map(figures).collect()
}

/// The least share that must cross if no zone's readers are to carry more than `limit` times their share: 1
/// is equal load. Less than that at 1 is no better: somebody carries more than the others.
pub(crate) fn least_cross_zone(flows: &[FlowFigures], readers: &[&str], limit: f64) -> f64 {
    let mut demand: BTreeMap<&str, f64> = BTreeMap::new();
    for flow in flows {
        *demand.entry(&flow.from).or_default() += flow.share;
    }
    let capacity = |zone: &str| {
        readers.iter().filter(|r| zone_of(r) == zone).count() as f64 / readers.len().max(1) as f64
    };
    demand
        .iter()
        .map(|(zone, share)| (share - limit * capacity(zone)).max(0.0))
        .fold(0.0, |sum, part| sum + part)
}

fn quantile_ms(histogram: &Histogram<u64>, q: f64) -> f64 {
    histogram.value_at_quantile(q) as f64 / 1e6
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use lab::app::PoolName;

    fn counted(reads: &[(u32, u64)]) -> AppCounts {
        let servers = reads.iter().map(|(id, n)| ((PoolName::Readers, *id), *n)).collect();
        AppCounts { servers, ..AppCounts::default() }
    }

    fn phase(id: &str) -> (Phase, Vec<&'static str>) {
        let scenario = Scenario::new(3, 1);
        let group = scenario.groups.iter().find(|g| g.phases.iter().any(|p| p.id == id)).unwrap();
        (group.phases.iter().find(|p| p.id == id).unwrap().clone(), group.readers.clone())
    }

    fn round<const N: usize>(zones: [(String, AppCounts); N]) -> Round {
        Round { zones: zones.into(), cpu_busy: 0.3 }
    }

    fn fleet() -> Fleet {
        Fleet::new(crate::scenario::servers())
    }

    #[test]
    fn first_backup_puts_half_as_much_again_on_one_replica() {
        // Ids: a1 1, a2 2, a3 3, b1 4, c1 5. Zone c has no reader and takes a2 alone.
        let (phase, readers) = phase("d1");
        let slice = round([
            ("a".to_owned(), counted(&[(2, 50), (3, 50)])),
            ("b".to_owned(), counted(&[(4, 100)])),
            ("c".to_owned(), counted(&[(2, 100)])),
        ]);
        let figures = PhaseFigures::new(&phase, &readers, &fleet(), vec![slice]);
        assert!((figures.busiest_of_mean - 1.5).abs() < 1e-9);
        assert!((figures.cross_zone - 1.0 / 3.0).abs() < 1e-9);
        assert!((figures.least_cross_zone - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn ninety_ten_nothing_must_move_what_exceeds_the_capacity_of_zone_a() {
        let (phase, readers) = phase("d6");
        let slice = round([
            ("a".to_owned(), counted(&[(2, 300), (3, 300), (4, 300)])),
            ("b".to_owned(), counted(&[(4, 100)])),
            ("c".to_owned(), AppCounts::default()),
        ]);
        let figures = PhaseFigures::new(&phase, &readers, &fleet(), vec![slice]);
        assert!((figures.least_cross_zone - (0.9 - 2.0 / 3.0)).abs() < 1e-9);
        assert!((figures.busiest_of_mean - 1.2).abs() < 1e-9);
        assert!((figures.cross_zone - 0.3).abs() < 1e-9);
    }

    #[test]
    fn what_may_stay_at_home_if_load_may_be_uneven_crosses_less() {
        let (phase, readers) = phase("d6");
        let slice = round([
            ("a".to_owned(), counted(&[(2, 300), (3, 300), (4, 300)])),
            ("b".to_owned(), counted(&[(4, 100)])),
            ("c".to_owned(), AppCounts::default()),
        ]);
        let figures = PhaseFigures::new(&phase, &readers, &fleet(), vec![slice]);
        let least = least_cross_zone(&figures.flows, &readers, 1.1);
        assert!((least - (0.9 - 1.1 * 2.0 / 3.0)).abs() < 1e-9, "{least}");
    }

    #[test]
    fn a_server_that_should_not_have_answered_is_shown() {
        let (phase, readers) = phase("d3");
        let slice = round([("c".to_owned(), counted(&[(2, 10), (1, 5)]))]);
        let figures = PhaseFigures::new(&phase, &readers, &fleet(), vec![slice]);
        let names: Vec<&str> = figures.servers.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["a2", "a3", "b1", "a1"]);
    }
}
