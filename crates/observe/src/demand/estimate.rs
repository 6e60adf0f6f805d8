//! From counts by client host to the share of reads born in each zone.
//!
//! Each server's counts are turned into rates by host and smoothed: with `dt` the time between two samples
//! and a time constant of 5 s, `rate += (1 - exp(-dt / 5 s)) * (new - rate)`; the first rate is taken as it
//! is. A changed demand is 86 % visible after 10 s; with 1,000 reads a second the noise of a share is below 1
//! %.
//!
//! Rates add over servers, so it does not matter which server a zone's reads went to: a router that moves
//! reads from one replica to another changes no sum. That is why routers acting on these figures do not chase
//! each other.
//!
//! A server that falls silent keeps its last rates, fading with the same time constant: its clients turn up
//! elsewhere at the same pace, and the sum stays. Where many routers ask, its samples lie far apart
//! (`Pace::seldom`, half a minute with fifty); so it counts as silent only when two of them should have come,
//! and fades at the pace at which the samples of the others can show its clients.
//!
//! Rates that have all but faded are no measurement: that is unknown, not a fleet without reads.

use crate::answer::{Clients, Counting};
use crate::survey::ServerId;
use fleet::Zone;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Time constant of the smoothing.
const SMOOTHING: Duration = Duration::from_secs(5);
/// A sample this old starts to fade, or one that is twice as old as its spacing, if that is longer.
const FADES_AFTER: Duration = Duration::from_secs(4);
/// Client hosts kept of one server; the smallest beyond are one host that stands nowhere.
const MOST_HOSTS: usize = 4096;
/// Below this many reads a second over the fleet, shares are noise.
const LEAST_READS: f64 = 1.0;

/// Smoothed counts of all servers.
#[derive(Debug, Default)]
pub(crate) struct Estimator {
    servers: HashMap<ServerId, ServerRates>,
}

#[derive(Debug)]
struct ServerRates {
    last: Clients,
    /// Reads a second (or weighted sessions) by host; `None` until two samples exist.
    rates: Option<BTreeMap<String, f64>>,
}

/// What the counts say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Estimate {
    /// Nobody counts, not for long enough, or not any more.
    Unknown,
    /// There is next to nothing to count.
    Idle,
    /// Shares, or that nearly nobody could be placed.
    Measured(Measurement),
}

/// What the counts add up to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measurement {
    /// By zone, summing to 1; empty when nobody could be placed.
    pub(crate) shares: BTreeMap<Zone, f64>,
    /// Reads a second (or weighted sessions) counted.
    pub(crate) total: f64,
    /// Share of `total` whose host stands in no zone we know.
    pub(crate) unplaced: f64,
    /// Whether reads were counted, not sessions.
    pub(crate) reads: bool,
}

impl Estimator {
    /// Takes a server's counts; the same sample twice changes nothing.
    pub(crate) fn take(&mut self, id: ServerId, sample: &Clients) {
        let sample = bounded(sample);
        let Some(server) = self.servers.get_mut(&id) else {
            let rates = (sample.counting == Counting::Sessions).then(|| sample.hosts.clone());
            self.servers.insert(id, ServerRates { last: sample, rates });
            return;
        };
        if server.last.at == sample.at {
            return;
        }
        if server.last.counting == sample.counting {
            let seconds = sample.at.saturating_duration_since(server.last.at).as_secs_f64();
            if let Some(new) = rates(&server.last, &sample, seconds) {
                server.rates = Some(match server.rates.take() {
                    None => new,
                    Some(old) => smooth(old, &new, seconds),
                });
            }
        } else {
            server.rates = None;
        }
        server.last = sample;
    }

    /// Forgets servers that no longer exist.
    pub(crate) fn keep(&mut self, known: impl Fn(ServerId) -> bool) {
        self.servers.retain(|id, _| known(*id));
    }

    /// Client hosts that count now.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.servers.values().flat_map(|server| server.last.hosts.keys().map(String::as_str))
    }

    /// Adds up the servers that `counts` says yes to. Counted reads come before sessions: where one server
    /// counts reads, servers that do not are left out. `place` says where a client host of a server stands.
    pub(crate) fn measure(
        &self,
        now: Instant,
        counts: impl Fn(ServerId) -> bool,
        place: impl Fn(ServerId, &str) -> Option<Zone>,
    ) -> Estimate {
        let counted = || self.servers.iter().filter(|(id, server)| counts(**id) && server.rates.is_some());
        let reads = counted().any(|(_, server)| server.last.counting != Counting::Sessions);
        let mut by_zone: BTreeMap<Zone, f64> = BTreeMap::new();
        let (mut total, mut placed, mut before_fading) = (0.0, 0.0, 0.0);
        for (id, server) in counted().filter(|(_, s)| (s.last.counting != Counting::Sessions) == reads) {
            let fade = server.last.fade(now);
            for (host, rate) in server.rates.iter().flatten() {
                before_fading += rate;
                let rate = rate * fade;
                total += rate;
                if let Some(zone) = place(*id, host) {
                    placed += rate;
                    *by_zone.entry(zone).or_default() += rate;
                }
            }
        }
        if counted().next().is_none() {
            return Estimate::Unknown;
        }
        let is_idle = |total: f64| total <= 0.0 || (reads && total < LEAST_READS);
        if is_idle(total) {
            return if is_idle(before_fading) { Estimate::Idle } else { Estimate::Unknown };
        }
        by_zone.retain(|_, rate| *rate > 0.0);
        by_zone.values_mut().for_each(|rate| *rate /= placed);
        let unplaced = ((total - placed) / total).clamp(0.0, 1.0);
        Estimate::Measured(Measurement { shares: by_zone, total, unplaced, reads })
    }
}

impl Clients {
    /// What a sample still counts for, 0 to 1, as it grows old.
    fn fade(&self, now: Instant) -> f64 {
        let holds = FADES_AFTER.max(self.spacing * 2);
        let stale = now.saturating_duration_since(self.at).saturating_sub(holds);
        (-stale.as_secs_f64() / SMOOTHING.max(self.spacing).as_secs_f64()).exp()
    }
}

/// Counts between two samples, per second; `None` where a counter went back (the server was restarted).
fn rates(before: &Clients, after: &Clients, seconds: f64) -> Option<BTreeMap<String, f64>> {
    if after.counting == Counting::Sessions {
        return Some(after.hosts.clone());
    }
    if seconds <= 0.0 {
        return None;
    }
    let went_back = after.hosts.iter().any(|(host, n)| before.hosts.get(host).is_some_and(|b| n < b));
    if went_back {
        return None;
    }
    let rate =
        |(host, n): (&String, &f64)| (host.clone(), (n - before.hosts.get(host).unwrap_or(&0.0)) / seconds);
    Some(after.hosts.iter().map(rate).collect())
}

fn smooth(
    mut old: BTreeMap<String, f64>,
    new: &BTreeMap<String, f64>,
    seconds: f64,
) -> BTreeMap<String, f64> {
    let weight = 1.0 - (-seconds / SMOOTHING.as_secs_f64()).exp();
    for (host, rate) in new {
        old.entry(host.clone()).or_insert(0.0);
        if let Some(smoothed) = old.get_mut(host) {
            *smoothed += weight * (rate - *smoothed);
        }
    }
    for (host, smoothed) in &mut old {
        if !new.contains_key(host) {
            *smoothed *= 1.0 - weight;
        }
    }
    old.retain(|_, rate| *rate > 1e-6);
    old
}

fn bounded(sample: &Clients) -> Clients {
    let mut sample = sample.clone();
    if sample.hosts.len() > MOST_HOSTS {
        let mut hosts: Vec<(String, f64)> = std::mem::take(&mut sample.hosts).into_iter().collect();
        hosts.sort_by(|a, b| b.1.total_cmp(&a.1));
        let rest = hosts.split_off(MOST_HOSTS).iter().map(|(_, n)| n).sum();
        sample.hosts = hosts.into_iter().collect();
        sample.hosts.insert("(others)".to_owned(), rest);
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: Instant, counting: Counting, hosts: &[(&str, f64)]) -> Clients {
        sampled_every(1, at, counting, hosts)
    }

    fn sampled_every(seconds: u64, at: Instant, counting: Counting, hosts: &[(&str, f64)]) -> Clients {
        let spacing = Duration::from_secs(seconds);
        Clients { counting, at, spacing, hosts: hosts.iter().map(|(h, n)| ((*h).to_owned(), *n)).collect() }
    }

    /// Hosts are called after their zones.
    fn place(_: ServerId, host: &str) -> Option<Zone> {
        (!host.starts_with('?')).then(|| Zone::new(host))
    }

    fn measure(estimator: &Estimator, now: Instant) -> Option<Measurement> {
        match estimator.measure(now, |_| true, place) {
            Estimate::Measured(measured) => Some(measured),
            Estimate::Unknown | Estimate::Idle => None,
        }
    }

    fn share(measured: &Measurement, zone: &str) -> f64 {
        measured.shares.get(&Zone::new(zone)).copied().unwrap_or(0.0)
    }

    #[test]
    fn two_samples_give_the_first_estimate() {
        let (start, mut estimator) = (Instant::now(), Estimator::default());
        estimator.take(1, &sample(start, Counting::Statements, &[("a", 1000.0), ("b", 0.0)]));
        assert_eq!(estimator.measure(start, |_| true, place), Estimate::Unknown);
        let later = start + Duration::from_secs(1);
        estimator.take(1, &sample(later, Counting::Statements, &[("a", 1900.0), ("b", 100.0)]));
        let measured = measure(&estimator, later).unwrap();
        assert!((share(&measured, "a") - 0.9).abs() < 1e-9 && (measured.total - 1000.0).abs() < 1e-6);
    }

    /// Two replicas, total demand 60/40; `split` says how a zone's reads spread over the replicas in a given
    /// second.
    fn run(seconds: u64, demand: impl Fn(u64) -> [f64; 2], split: impl Fn(u64) -> f64) -> Vec<f64> {
        let (start, mut estimator) = (Instant::now(), Estimator::default());
        let mut counts = [[0.0; 2]; 2];
        (0..seconds)
            .filter_map(|second| {
                let now = start + Duration::from_secs(second);
                for (zone, reads) in demand(second).into_iter().enumerate() {
                    counts[0][zone] += reads * split(second);
                    counts[1][zone] += reads * (1.0 - split(second));
                }
                for (id, c) in counts.iter().enumerate() {
                    let hosts = [("a", c[0]), ("b", c[1])];
                    estimator.take(id as ServerId, &sample(now, Counting::Statements, &hosts));
                }
                measure(&estimator, now).map(|m| share(&m, "a"))
            })
            .collect()
    }

    #[test]
    fn where_reads_are_sent_does_not_change_where_they_are_born() {
        let wild = |second: u64| if second.is_multiple_of(2) { 1.0 } else { 0.0 };
        for share in run(60, |_| [600.0, 400.0], wild).iter().skip(10) {
            assert!((share - 0.6).abs() < 0.1, "{share}");
        }
        for share in run(60, |_| [600.0, 400.0], |second| (second as f64 / 60.0).min(1.0)) {
            assert!((share - 0.6).abs() < 1e-9, "{share}");
        }
    }

    #[test]
    fn a_changed_demand_is_seen_within_ten_seconds() {
        let shares = run(41, |second| if second < 30 { [900.0, 100.0] } else { [100.0, 900.0] }, |_| 0.5);
        assert!((shares[28] - 0.9).abs() < 1e-9);
        let after_ten = shares[39];
        assert!((after_ten - 0.1).abs() < 0.8 * 0.15, "{after_ten}");
    }

    #[test]
    fn counters_that_went_back_are_a_restart_and_count_nothing() {
        let (start, mut estimator) = (Instant::now(), Estimator::default());
        for (second, count) in [(0, 1000.0), (1, 2000.0), (2, 5.0), (3, 1005.0)] {
            let now = start + Duration::from_secs(second);
            estimator.take(1, &sample(now, Counting::Statements, &[("a", count)]));
        }
        let measured = measure(&estimator, start + Duration::from_secs(3)).unwrap();
        assert!((measured.total - 1000.0).abs() < 1e-6, "{}", measured.total);
    }

    #[test]
    fn counted_reads_come_before_sessions_and_unknown_hosts_are_named_by_share() {
        let (start, mut estimator) = (Instant::now(), Estimator::default());
        estimator.take(1, &sample(start, Counting::Sessions, &[("b", 10.0)]));
        let sessions = measure(&estimator, start).unwrap();
        assert!(!sessions.reads && (share(&sessions, "b") - 1.0).abs() < 1e-9);
        let later = start + Duration::from_secs(1);
        estimator.take(2, &sample(start, Counting::UserStatistics, &[]));
        estimator.take(2, &sample(later, Counting::UserStatistics, &[("a", 300.0), ("?", 100.0)]));
        let measured = measure(&estimator, later).unwrap();
        assert!(measured.reads && (measured.unplaced - 0.25).abs() < 1e-9);
        assert!((share(&measured, "a") - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_fleet_without_reads_is_idle_and_one_whose_readers_stand_nowhere_is_not() {
        let (start, mut estimator) = (Instant::now(), Estimator::default());
        let later = start + Duration::from_secs(1);
        for (at, count) in [(start, 100.0), (later, 100.0)] {
            estimator.take(1, &sample(at, Counting::Statements, &[("a", count)]));
        }
        assert_eq!(estimator.measure(later, |_| true, place), Estimate::Idle);
        let last = start + Duration::from_secs(2);
        estimator.take(1, &sample(last, Counting::Statements, &[("a", 100.0), ("?", 500.0)]));
        let measured = measure(&estimator, last).unwrap();
        assert!(measured.shares.is_empty() && measured.unplaced == 1.0, "{measured:?}");
    }

    #[test]
    fn a_silent_server_fades_instead_of_vanishing() {
        let (start, mut estimator) = (Instant::now(), Estimator::default());
        for second in 0..2u32 {
            let now = start + Duration::from_secs(second.into());
            for id in 1..3 {
                let host = if id == 1 { "a" } else { "b" };
                estimator.take(id, &sample(now, Counting::Statements, &[(host, f64::from(second) * 100.0)]));
            }
        }
        let at = |seconds| start + Duration::from_secs(seconds);
        for second in 2..20u32 {
            estimator.take(
                2,
                &sample(at(second.into()), Counting::Statements, &[("b", f64::from(second) * 100.0)]),
            );
        }
        let soon = share(&measure(&estimator, at(5)).unwrap(), "a");
        let late = share(&measure(&estimator, at(20)).unwrap(), "a");
        assert!((soon - 0.5).abs() < 1e-9 && late < 0.06, "{soon} {late}");
    }

    /// Two servers of a zone each, with as many reads, that are sampled half a minute apart and in turn: what
    /// fifty routers leave for each of them.
    #[test]
    fn shares_hold_between_samples_that_are_far_apart() {
        let (start, mut estimator) = (Instant::now(), Estimator::default());
        for second in 0..300u32 {
            let now = start + Duration::from_secs(second.into());
            for (id, host, phase) in [(1, "a", 0), (2, "b", 15)] {
                if second % 30 == phase {
                    let counts = [(host, f64::from(second) * 100.0)];
                    estimator.take(id, &sampled_every(30, now, Counting::Statements, &counts));
                }
            }
            if second >= 45 {
                let measured = measure(&estimator, now).unwrap();
                assert!((share(&measured, "a") - 0.5).abs() < 1e-9, "second {second}: {measured:?}");
                assert!((measured.total - 200.0).abs() < 1e-6, "second {second}: {measured:?}");
            }
        }
    }

    #[test]
    fn rates_that_have_faded_are_unknown_and_not_a_fleet_without_reads() {
        let (start, mut estimator) = (Instant::now(), Estimator::default());
        for second in 0..2u32 {
            let now = start + Duration::from_secs(second.into());
            let counts = [("a", f64::from(second) * 100.0)];
            estimator.take(1, &sample(now, Counting::Statements, &counts));
        }
        assert!(measure(&estimator, start + Duration::from_secs(5)).is_some());
        let late = estimator.measure(start + Duration::from_secs(60), |_| true, place);
        assert_eq!(late, Estimate::Unknown);
    }

    #[test]
    fn hosts_beyond_the_limit_are_one_that_stands_nowhere() {
        let hosts = (0..MOST_HOSTS + 10).map(|i| (format!("h{i}"), i as f64)).collect();
        let sample = bounded(&Clients {
            counting: Counting::Sessions,
            at: Instant::now(),
            spacing: Duration::ZERO,
            hosts,
        });
        assert_eq!(sample.hosts.len(), MOST_HOSTS + 1);
        assert_eq!(sample.hosts["(others)"], (0..10).map(f64::from).sum::<f64>());
    }
}
