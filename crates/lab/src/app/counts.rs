//! What the application counted: requests, statements, failures, and how long they took.

use super::{Endpoint, Failure};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Which pool a statement went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    Readers,
    Writers,
}

/// Everything one application counted in a span of time.
#[derive(Clone, Debug, Default)]
pub struct AppCounts {
    pub endpoints: BTreeMap<Endpoint, EndpointTally>,
    /// Statements answered, per pool and `@@server_id`.
    pub servers: BTreeMap<(Pool, u32), u64>,
    /// The same in time.
    pub ticks: BTreeMap<u32, Tick>,
    /// Failures of requests, in order.
    pub failures: Vec<(Endpoint, Failure)>,
}

/// One endpoint. Times are in nanoseconds, three significant digits.
#[derive(Clone, Debug)]
pub struct EndpointTally {
    /// Requests answered in full.
    pub requests: u64,
    pub failed: u64,
    /// Statements answered, those of failed requests included.
    pub statements: u64,
    /// From when the request was due to its last answer.
    pub request_ns: Histogram<u64>,
    /// The part of it spent in reads, check-out of the session included.
    pub reads_ns: Histogram<u64>,
    /// Single read statements.
    pub read_ns: Histogram<u64>,
}

/// A tenth of a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tick {
    pub requests: u64,
    /// Requests that failed in it.
    pub failed: u64,
    /// Reads answered in it, per `@@server_id`.
    pub reads: BTreeMap<u32, u64>,
}

impl Tick {
    /// How long a tick is.
    pub const LENGTH: Duration = Duration::from_millis(100);
}

impl Default for EndpointTally {
    fn default() -> Self {
        Self {
            requests: 0,
            failed: 0,
            statements: 0,
            request_ns: empty(),
            reads_ns: empty(),
            read_ns: empty(),
        }
    }
}

impl AppCounts {
    /// Counts an answered statement.
    pub(super) fn statement(
        &mut self,
        endpoint: Endpoint,
        pool: Pool,
        server: u32,
        took: Duration,
        tick: u32,
    ) {
        let of_endpoint = self.endpoints.entry(endpoint).or_default();
        of_endpoint.statements += 1;
        *self.servers.entry((pool, server)).or_default() += 1;
        if pool == Pool::Readers {
            record(&mut of_endpoint.read_ns, took);
            *self.ticks.entry(tick).or_default().reads.entry(server).or_default() += 1;
        }
    }

    /// Counts a request answered in full.
    pub(super) fn request(&mut self, endpoint: Endpoint, took: Duration, reads: Duration, tick: u32) {
        let of_endpoint = self.endpoints.entry(endpoint).or_default();
        of_endpoint.requests += 1;
        record(&mut of_endpoint.request_ns, took);
        record(&mut of_endpoint.reads_ns, reads);
        self.ticks.entry(tick).or_default().requests += 1;
    }

    /// Counts a request that failed.
    pub(super) fn failed(&mut self, endpoint: Endpoint, failure: Failure, tick: u32) {
        self.endpoints.entry(endpoint).or_default().failed += 1;
        self.ticks.entry(tick).or_default().failed += 1;
        self.failures.push((endpoint, failure));
    }

    /// Adds another tally, of another application or a later time.
    pub fn add(&mut self, other: Self) {
        for (endpoint, theirs) in other.endpoints {
            self.endpoints.entry(endpoint).or_default().add(&theirs);
        }
        for (key, count) in other.servers {
            *self.servers.entry(key).or_default() += count;
        }
        for (tick, theirs) in other.ticks {
            let ours = self.ticks.entry(tick).or_default();
            ours.requests += theirs.requests;
            ours.failed += theirs.failed;
            for (server, reads) in theirs.reads {
                *ours.reads.entry(server).or_default() += reads;
            }
        }
        self.failures.extend(other.failures);
    }

    /// Reads answered per `@@server_id`.
    pub fn reads_per_server(&self) -> BTreeMap<u32, u64> {
        let reads = self.servers.iter().filter(|((pool, _), _)| *pool == Pool::Readers);
        reads.map(|((_, server), count)| (*server, *count)).collect()
    }

    pub fn reads(&self) -> u64 {
        self.reads_per_server().values().sum()
    }
}

impl EndpointTally {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.statements += other.statements;
        for (ours, theirs) in [
            (&mut self.request_ns, &other.request_ns),
            (&mut self.reads_ns, &other.reads_ns),
            (&mut self.read_ns, &other.read_ns),
        ] {
            // Both resize themselves, so there is nothing that could not be added.
            let _ = ours.add(theirs);
        }
    }
}

fn empty() -> Histogram<u64> {
    // Three digits are within the one to five that the type allows.
    Histogram::new(3).expect("three significant digits are allowed")
}

fn record(histogram: &mut Histogram<u64>, took: Duration) {
    // The histogram grows as needed; only a time beyond 2^63 ns could be refused.
    let _ = histogram.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_add_up_to_what_their_parts_counted() {
        let ms = Duration::from_millis;
        let mut a = AppCounts::default();
        a.statement(Endpoint::Timeline, Pool::Readers, 7, ms(1), 3);
        a.request(Endpoint::Timeline, ms(2), ms(1), 3);
        let mut b = AppCounts::default();
        b.statement(Endpoint::Timeline, Pool::Readers, 7, ms(3), 3);
        b.statement(Endpoint::Orders, Pool::Writers, 1, ms(3), 4);
        a.add(b);
        assert_eq!(a.reads_per_server(), BTreeMap::from([(7, 2)]));
        assert_eq!(a.endpoints[&Endpoint::Timeline].statements, 2);
        assert_eq!(a.endpoints[&Endpoint::Timeline].read_ns.len(), 2);
        assert_eq!(a.endpoints[&Endpoint::Timeline].requests, 1);
        assert!(
            a.endpoints[&Endpoint::Timeline]
                .request_ns
                .equivalent(a.endpoints[&Endpoint::Timeline].request_ns.max(), 2_000_000)
        );
        assert_eq!(a.ticks[&3], Tick { requests: 1, failed: 0, reads: BTreeMap::from([(7, 2)]) });
        assert!(!a.ticks.contains_key(&4), "writes are not reads in time");
    }
}
