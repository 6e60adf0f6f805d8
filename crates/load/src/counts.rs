//! What a thread counts while it sends: histograms and errors, per transaction and per statement, and a
//! series by the second. Each thread has its own; they are merged when a phase is over.
//!
//! Histograms count nanoseconds with three significant digits from 100 ns to an hour.

use crate::workload::Workload;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Longest time that is distinguished.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// A histogram of nanoseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(64, LONGEST_NS, 3).expect("constant bounds that the crate documents as right")
}

/// Why something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    /// The server answered with this error.
    Code(u16),
    /// The connection broke, or there was none.
    ConnectionLost,
    /// Not answered before the end of the phase and its grace.
    Unfinished,
}

/// Counts of one kind of transaction or statement.
#[derive(Clone, Debug)]
pub(crate) struct KindCounts {
    /// From the intended start (open loop) or the actual (closed) to the last answer.
    pub(crate) response: Histogram<u64>,
    /// From the actual start; empty in a closed loop, where it is the same.
    pub(crate) service: Histogram<u64>,
    pub(crate) failed: BTreeMap<Failure, u64>,
    pub(crate) rows: u64,
}

/// One second of a phase.
#[derive(Clone, Debug)]
pub(crate) struct Second {
    /// From 0.
    pub(crate) index: u64,
    /// Response times of the transactions that ended in it.
    pub(crate) response: Histogram<u64>,
    pub(crate) queries: u64,
    pub(crate) failed: u64,
    /// Answered later than the objective.
    pub(crate) late: u64,
}

/// Everything a thread counts in a phase.
#[derive(Clone, Debug)]
pub(crate) struct PhaseCounts {
    pub(crate) transactions: Vec<KindCounts>,
    pub(crate) statements: Vec<KindCounts>,
    /// From the intended to the actual start while a client was free: the generator's own lateness. Open loop
    /// only.
    pub(crate) lateness: Histogram<u64>,
    /// What the generator itself added to the response time of each transaction, where it is known.
    pub(crate) own: Histogram<u64>,
    /// How long arrivals had waited that were never begun, or begun and not answered. Their response time is
    /// longer.
    pub(crate) waiting: Histogram<u64>,
    pub(crate) arrivals: u64,
    pub(crate) not_started: u64,
    /// Answers later than the objective.
    pub(crate) late: u64,
    /// Of these, such as would not have been late without the generator's own lateness.
    pub(crate) excused: u64,
    pub(crate) queries: u64,
    pub(crate) reconnects: u64,
    pub(crate) saturated_sends: u64,
    /// CPU time and wall time of the thread in the phase.
    pub(crate) cpu_ns: u64,
    pub(crate) wall_ns: u64,
}

impl KindCounts {
    fn new() -> Self {
        Self { response: histogram(), service: histogram(), failed: BTreeMap::new(), rows: 0 }
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        *self.failed.entry(failure).or_default() += 1;
    }

    fn add(&mut self, other: &Self) {
        merge(&mut self.response, &other.response);
        merge(&mut self.service, &other.service);
        for (failure, times) in &other.failed {
            *self.failed.entry(*failure).or_default() += times;
        }
        self.rows += other.rows;
    }
}

impl PhaseCounts {
    pub(crate) fn new(workload: &Workload) -> Self {
        Self {
            transactions: workload.transactions.iter().map(|_| KindCounts::new()).collect(),
            statements: workload.statements.iter().map(|_| KindCounts::new()).collect(),
            lateness: histogram(),
            own: histogram(),
            waiting: histogram(),
            arrivals: 0,
            not_started: 0,
            late: 0,
            excused: 0,
            queries: 0,
            reconnects: 0,
            saturated_sends: 0,
            cpu_ns: 0,
            wall_ns: 0,
        }
    }

    /// Adds what another thread counted in the same phase.
    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.transactions.iter_mut().zip(&other.transactions) {
            mine.add(theirs);
        }
        for (mine, theirs) in self.statements.iter_mut().zip(&other.statements) {
            mine.add(theirs);
        }
        merge(&mut self.lateness, &other.lateness);
        merge(&mut self.own, &other.own);
        merge(&mut self.waiting, &other.waiting);
        self.arrivals += other.arrivals;
        self.not_started += other.not_started;
        self.late += other.late;
        self.excused += other.excused;
        self.queries += other.queries;
        self.reconnects += other.reconnects;
        self.saturated_sends += other.saturated_sends;
        self.cpu_ns += other.cpu_ns;
        self.wall_ns += other.wall_ns;
    }
}

impl Second {
    pub(crate) fn new(index: u64) -> Self {
        Self { index, response: histogram(), queries: 0, failed: 0, late: 0 }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        merge(&mut self.response, &other.response);
        self.queries += other.queries;
        self.failed += other.failed;
        self.late += other.late;
    }
}

/// All histograms have the same bounds, so that adding them cannot fail.
fn merge(into: &mut Histogram<u64>, from: &Histogram<u64>) {
    if !from.is_empty() {
        let _ = into.add(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_histograms_hold_the_sum_of_both() {
        let (mut a, mut b) = (histogram(), histogram());
        a.saturating_record(1_000);
        b.saturating_record(LONGEST_NS * 2);
        merge(&mut a, &b);
        assert_eq!(a.len(), 2);
        assert!(a.max() >= LONGEST_NS && a.min() <= 1_000);
    }

    #[test]
    fn a_tenth_of_a_millisecond_is_distinguished_to_a_thousandth() {
        let mut found = histogram();
        found.saturating_record(100_000);
        assert!(found.value_at_quantile(0.5).abs_diff(100_000) <= 100);
    }
}
