//! What came of a run, as values: for tables, JSON, the history and the page alike.
//!
//! All times are in ms. Histograms are HdrHistogram's V2 encoding (not compressed), base64, values in ns: any
//! tool that reads that format can merge them and take other percentiles.

pub mod text;

use crate::arrivals::Arrivals;
use crate::counts::{Failure, KindCounts, PhaseCounts, Second};
use crate::meaning::meaning;
use crate::workload::{Protocol, Workload};
use base64::Engine;
use config::DataPath;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fewer times than this tell nothing of how far they scatter.
const FEWEST: u64 = 10;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What was sent.
    pub workload: String,
    /// What it was made with beside its name.
    #[serde(default)]
    pub options: String,
    pub arrivals: Arrivals,
    pub protocol: Protocol,
    /// Clients: the most transactions at a time.
    pub clients: u32,
    /// Connections beyond those of the clients: idle until it is their turn.
    #[serde(default)]
    pub idle: u32,
    /// Threads that sent.
    pub threads: usize,
    /// From which keys and moments follow.
    pub seed: u64,
    /// Length of the measurement in seconds.
    pub seconds: f64,
    /// Why these figures must not be used; empty when they may.
    pub void: Vec<String>,
    /// What to know beside the figures.
    pub notes: Vec<String>,
    /// All transactions together.
    pub totals: Totals,
    /// Response time of all transactions: from the intended start in an open loop, from the actual in a
    /// closed one.
    pub response: Times,
    /// From the actual start; only in an open loop.
    pub service: Option<Times>,
    pub transactions: Vec<KindOutcome>,
    pub statements: Vec<KindOutcome>,
    /// Second by second.
    pub series: Vec<Moment>,
    /// What it cost to send.
    pub generator: Generator,
}

/// Counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Transactions that were due (open loop) or begun.
    pub arrivals: u64,
    /// Answered without error.
    pub done: u64,
    /// Of these, a second.
    pub per_second: f64,
    /// Statements that were answered, with or without error.
    pub queries: u64,
    /// Of these, a second.
    pub queries_per_second: f64,
    /// Ended with an error.
    pub failed: u64,
    /// Answered later than the objective.
    pub late: u64,
    /// Of these, such as would have been in time without the generator's own lateness: theirs is the
    /// generator's fault.
    #[serde(default)]
    pub excused: u64,
    /// Begun and not answered by the end.
    pub unfinished: u64,
    /// Due and never begun, because every client was busy.
    pub not_started: u64,
    /// Errors by what they were.
    pub errors: BTreeMap<String, u64>,
    /// What those errors mean and what to do, where that is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub meanings: BTreeMap<String, String>,
}

/// A distribution of times, in ms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    pub count: u64,
    /// The shortest.
    pub min_ms: f64,
    /// The arithmetic mean.
    pub mean_ms: f64,
    /// Half are shorter.
    pub p50_ms: f64,
    /// 90 % are shorter.
    pub p90_ms: f64,
    /// 95 % are shorter.
    pub p95_ms: f64,
    /// 99 % are shorter.
    pub p99_ms: f64,
    /// 99.9 % are shorter.
    pub p999_ms: f64,
    /// 99.99 % are shorter.
    pub p9999_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// Everything, in HdrHistogram's V2 encoding, base64, in ns.
    pub histogram: String,
}

impl Times {
    /// All times in ns, to be merged with others; `None` when there is no histogram or it is damaged.
    pub fn whole(&self) -> Option<Histogram<u64>> {
        let bytes = base64::engine::general_purpose::STANDARD.decode(&self.histogram).ok()?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
    }

    /// The time in ms below which this share lies, from the whole histogram; `None` when there is none or it
    /// is damaged.
    pub fn at(&self, quantiles: &[f64]) -> Option<Vec<f64>> {
        let histogram = self.whole()?;
        Some(quantiles.iter().map(|q| histogram.value_at_quantile(*q) as f64 / 1e6).collect())
    }

    /// The standard error of the median, as a share of it, whatever the distribution: the rank of a sample's
    /// median moves by half of the square root of its size. `None` with too few times to tell.
    pub fn median_error(&self) -> Option<f64> {
        let root = self.root()?;
        let ends = self.at(&[0.5 - 0.5 / root, 0.5 + 0.5 / root])?;
        Some((ends.last()? - ends.first()?) / 2.0 / self.p50_ms)
    }

    /// The standard error of how many ended in a given time, as a share of it, where one begins as another
    /// ends (renewal theory: the variance of the count is `count (deviation / mean)^2`; with exponential
    /// times that is Poisson's). `None` with too few times to tell.
    pub fn count_error(&self) -> Option<f64> {
        let (root, all) = (self.root()?, self.whole()?);
        Some(all.stdev() / all.mean() / root)
    }

    /// Whether a time lies beyond this quantile. Where none does, its percentile is the longest time again;
    /// of no time at all it would be 0.
    pub(crate) fn reaches(&self, quantile: f64) -> bool {
        self.count > 0 && (1.0 - quantile) * self.count as f64 > 1.0 - 1e-6
    }

    fn root(&self) -> Option<f64> {
        (self.count >= FEWEST).then(|| (self.count as f64).sqrt())
    }
}

/// One kind of transaction or statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindOutcome {
    pub name: String,
    /// Answered without error.
    pub done: u64,
    /// Ended with an error or not at all.
    pub failed: u64,
    /// Rows that came.
    pub rows: u64,
    /// Response time.
    pub response: Times,
    /// Time from the actual start, where it differs.
    pub service: Option<Times>,
    /// Errors by what they were.
    pub errors: BTreeMap<String, u64>,
}

/// One second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// From 0.
    pub second: u64,
    /// Transactions that ended well in it.
    pub done: u64,
    /// Statements that were answered in it.
    pub queries: u64,
    /// Transactions that failed in it.
    pub failed: u64,
    /// Transactions that were answered in it, and later than the objective.
    #[serde(default)]
    pub late: u64,
    /// Response time, 50 %.
    pub p50_ms: f64,
    /// Response time, 95 %.
    pub p95_ms: f64,
    /// Response time, 99 %.
    pub p99_ms: f64,
    /// The longest response time.
    pub max_ms: f64,
}

/// What it cost to send, and how well it was done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU time for each statement, in microseconds.
    pub cpu_us_per_query: f64,
    /// CPU time over wall time of the busiest possible: 1 is all threads all the time.
    pub cpu_share: f64,
    /// By how much transactions began late although a client was free, in ms; only in an open loop.
    pub lateness: Option<Times>,
    /// What it added itself to each response time, in ms: it began late although a client was free, and read
    /// answers later than they had arrived by the kernel's time stamps. Known where it never sleeps, over
    /// TCP.
    #[serde(default)]
    pub own: Option<Times>,
    /// Writes that found the send buffer full.
    pub saturated_sends: u64,
    /// How often a connection was lost, or could not be made again: while a server is down, many times each.
    pub reconnects: u64,
    /// How bytes got to the servers and back: `io_uring` or `epoll`. Empty in runs of a time when there was
    /// only epoll.
    #[serde(default)]
    pub data_path: String,
    /// Why that was not io_uring, although it costs less.
    #[serde(default)]
    pub why_not_ring: Option<String>,
}

impl Times {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let ms = |nanos: u64| nanos as f64 / 1e6;
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |quantile: f64| ms(histogram.value_at_quantile(quantile));
        Self {
            count: histogram.len(),
            min_ms: ms(histogram.min()),
            mean_ms: histogram.mean() / 1e6,
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            p9999_ms: at(0.9999),
            max_ms: ms(histogram.max()),
            histogram: encode(histogram),
        }
    }
}

/// Everything that a run was made of, for [`Outcome`].
pub(crate) struct Facts<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) arrivals: &'a Arrivals,
    pub(crate) clients: u32,
    pub(crate) idle: u32,
    pub(crate) threads: usize,
    pub(crate) data_path: DataPath,
    pub(crate) why_not_ring: Option<&'a str>,
    pub(crate) seed: u64,
    pub(crate) seconds: f64,
    pub(crate) counts: &'a PhaseCounts,
    pub(crate) series: &'a BTreeMap<u64, Second>,
}

impl Outcome {
    pub(crate) fn of(facts: &Facts<'_>) -> Self {
        let counts = facts.counts;
        let open = facts.arrivals.is_open();
        let mut response = crate::counts::histogram();
        let mut service = crate::counts::histogram();
        for count in &counts.transactions {
            let _ = response.add(&count.response);
            let _ = service.add(&count.service);
        }
        let names = facts.workload.transactions.iter().map(|transaction| &transaction.name);
        let transactions =
            names.zip(&counts.transactions).map(|(name, count)| KindOutcome::of(name, count, open));
        let names = facts.workload.statements.iter().map(|statement| &statement.name);
        let statements =
            names.zip(&counts.statements).map(|(name, count)| KindOutcome::of(name, count, false));
        let mut outcome = Self {
            workload: facts.workload.name.clone(),
            options: facts.workload.options.clone(),
            arrivals: facts.arrivals.clone(),
            protocol: facts.workload.protocol,
            clients: facts.clients,
            idle: facts.idle,
            threads: facts.threads,
            seed: facts.seed,
            seconds: facts.seconds,
            void: Vec::new(),
            notes: Vec::new(),
            totals: Totals::of(counts, response.len(), facts.seconds),
            response: Times::of(&response),
            service: open.then(|| Times::of(&service)),
            transactions: transactions.collect(),
            statements: statements.collect(),
            series: facts.series.values().map(Moment::of).collect(),
            generator: Generator::of(facts),
        };
        crate::soundness::judge(&mut outcome);
        outcome
    }

    /// Whether the figures may be used.
    pub fn is_sound(&self) -> bool {
        self.void.is_empty()
    }
}

impl Totals {
    /// The error that there was most of, with its meaning: `error 1290: the server refuses writes`.
    pub fn main_error(&self) -> Option<String> {
        let (what, _) = self.errors.iter().max_by_key(|(_, times)| **times)?;
        Some(match self.meanings.get(what) {
            Some(meaning) => format!("{what}: {meaning}"),
            None => what.clone(),
        })
    }

    fn of(counts: &PhaseCounts, done: u64, seconds: f64) -> Self {
        let mut totals = Self {
            arrivals: counts.arrivals,
            done,
            per_second: done as f64 / seconds,
            queries: counts.queries,
            queries_per_second: counts.queries as f64 / seconds,
            late: counts.late,
            excused: counts.excused,
            not_started: counts.not_started,
            ..Self::default()
        };
        for (failure, times) in counts.transactions.iter().flat_map(|count| &count.failed) {
            if *failure == Failure::Unfinished {
                totals.unfinished += times;
            } else {
                totals.failed += times;
            }
            *totals.errors.entry(failure.to_string()).or_default() += times;
            if let Failure::Code(code) = failure
                && let Some(meaning) = meaning(*code)
            {
                totals.meanings.insert(failure.to_string(), meaning.to_owned());
            }
        }
        totals
    }
}

#[cfg(test)]
impl Outcome {
    /// A closed loop of 4 clients in which nothing happened, for a test to change.
    pub(crate) fn quiet() -> Self {
        Self {
            workload: "w".to_owned(),
            options: String::new(),
            arrivals: Arrivals::closed(),
            protocol: Protocol::Text,
            clients: 4,
            idle: 0,
            threads: 1,
            seed: 1,
            seconds: 10.0,
            void: Vec::new(),
            notes: Vec::new(),
            totals: Totals::default(),
            response: Times::default(),
            service: None,
            transactions: Vec::new(),
            statements: Vec::new(),
            series: Vec::new(),
            generator: Generator::default(),
        }
    }
}

impl KindOutcome {
    fn of(name: &str, count: &KindCounts, with_service: bool) -> Self {
        Self {
            name: name.to_owned(),
            done: count.response.len(),
            failed: count.failed.values().sum(),
            rows: count.rows,
            response: Times::of(&count.response),
            service: with_service.then(|| Times::of(&count.service)),
            errors: count.failed.iter().map(|(failure, times)| (failure.to_string(), *times)).collect(),
        }
    }
}

impl Moment {
    /// The figures of a second.
    pub(crate) fn of(second: &Second) -> Self {
        let at = |quantile| second.response.value_at_quantile(quantile) as f64 / 1e6;
        Self {
            second: second.index,
            done: second.response.len(),
            queries: second.queries,
            failed: second.failed,
            late: second.late,
            p50_ms: at(0.5),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            max_ms: second.response.max() as f64 / 1e6,
        }
    }
}

impl Generator {
    fn of(facts: &Facts<'_>) -> Self {
        let counts = facts.counts;
        Self {
            cpu_us_per_query: counts.cpu_ns as f64 / 1e3 / counts.queries.max(1) as f64,
            cpu_share: counts.cpu_ns as f64 / counts.wall_ns.max(1) as f64,
            lateness: facts.arrivals.is_open().then(|| Times::of(&counts.lateness)),
            own: (!counts.own.is_empty()).then(|| Times::of(&counts.own)),
            saturated_sends: counts.saturated_sends,
            reconnects: counts.reconnects,
            data_path: facts.data_path.to_string(),
            why_not_ring: facts.why_not_ring.map(str::to_owned),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "error {code}"),
            Self::ConnectionLost => f.write_str("connection lost"),
            Self::Unfinished => f.write_str("not answered by the end"),
        }
    }
}

fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    // Writing to memory cannot fail.
    let _ = V2Serializer::new().serialize(histogram, &mut bytes);
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_comes_back_from_its_encoding() {
        let mut histogram = crate::counts::histogram();
        for value in [100_000, 200_000, 5_000_000_000] {
            histogram.saturating_record(value);
        }
        let times = Times::of(&histogram);
        let bytes = base64::engine::general_purpose::STANDARD.decode(&times.histogram).unwrap();
        let mut reader = hdrhistogram::serialization::Deserializer::new();
        let back: Histogram<u64> = reader.deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!(back, histogram);
        assert!((times.max_ms - 5000.0).abs() < 5.0 && times.count == 3);
    }

    #[test]
    fn times_say_how_far_chance_moves_their_median_and_their_number() {
        // Uniform up to 10 ms: the median's error is 0.5 / root * 10 ms, of 5 ms.
        let uniform = |count: u64| {
            let mut histogram = crate::counts::histogram();
            (1..=count).for_each(|at| histogram.saturating_record(at * 10_000_000 / count));
            Times::of(&histogram)
        };
        for count in [100, 10_000] {
            let root = (count as f64).sqrt();
            let times = uniform(count);
            let (median, number) = (times.median_error().unwrap(), times.count_error().unwrap());
            assert!((median * root - 1.0).abs() < 0.15, "{count}: {median}");
            assert!((number * root - 1.0 / 3_f64.sqrt()).abs() < 0.02, "{count}: {number}");
        }
        assert_eq!((uniform(9).median_error(), uniform(9).count_error()), (None, None), "too few");
        assert_eq!(Times::default().median_error(), None);
    }
}
