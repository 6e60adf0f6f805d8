//! Response times with another disk: transactions of CPU and of reads simulated on the disk they were seen
//! on, fitted, and simulated again on the other.
//!
//! A transaction comes at random, takes turns between a core and the disk (its CPU spread evenly between its
//! reads), and may end with waits until its logs are durable, one after the other. A disk is two things: the
//! time of a request when nobody else asks ([`Latency`], a lognormal law through its mean and its 99th
//! percentile), any number of them at a time; and a ceiling of requests a second, before which requests
//! queue. Flushes are made one at a time, and each takes with it all that wait for one (group commit).
//!
//! **The fit.** What was seen on the present disk is simulated on it. The part of the mean response time that
//! the simulation does not have is the fixed time of a transaction (the way there and back, the parser). What
//! still differs is the scatter: above [`MOST_SCATTER`] the model does not describe the server, and nothing
//! is predicted.
//!
//! **The interval** moves reads, CPU, the latency of the disk and the fixed time by what they may be off, one
//! by one and over the same random numbers, and adds [`MODEL_ERROR`] of the time that the disk takes.
//!
//! Worked example: 2 cores, 1 ms of CPU, 4 reads of 5 ms on a disk of 200 a second, 20 transactions a second:
//! the disk is 40 % busy, a transaction takes some 25 ms. On a disk of 0.1 ms and 20,000 a second: 1.4 ms.

use crate::{Interval, quantile};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Scatter about the model as a share, or it does not describe the server.
pub const MOST_SCATTER: f64 = 0.25;
/// What the simulation may be wrong by, as a share of the time that the disk takes.
pub const MODEL_ERROR: f64 = 0.15;
/// Above this share of a ceiling nothing but the ceiling is predicted.
pub const EDGE: f64 = 0.85;
/// A disk that was measured twice differs by about this share.
const DISK_OFF: f64 = 0.10;
/// Transactions of one simulation, and those before it is counted.
const COUNTED: usize = 20_000;
const BEFORE: usize = 2_000;
const SEED: u64 = 0x5DEE_CE66_D1CE_4E5B;

/// The time of a request while nobody else asks, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// On average.
    pub mean_ms: f64,
    /// 99 of 100 take at most this long.
    pub p99_ms: f64,
}

/// What a disk does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Of a read of a page.
    pub read: Latency,
    /// Reads a second at most.
    pub reads_per_s: f64,
    /// Of making a small write durable.
    pub flush: Latency,
}

/// What a transaction asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Demand {
    /// Of a core, ms.
    pub cpu_ms: f64,
    /// Reads of the disk.
    pub reads: f64,
    /// Waits until a log is durable, one after the other: 0 for one that only reads.
    pub flushes: f64,
}

/// What a server did at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRate {
    /// Transactions a second.
    pub per_s: f64,
    /// Their mean response time.
    pub mean_ms: f64,
    /// CPU of a transaction, ms.
    pub cpu_ms: f64,
    /// Reads of the disk for a transaction.
    pub reads: f64,
}

/// Response times at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// On average.
    pub mean_ms: f64,
    /// 99 of 100 take at most this long.
    pub p99_ms: f64,
    /// Part of the mean that is the disk's.
    pub disk_ms: f64,
}

/// The model fitted to a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Disks {
    here: Disk,
    cores: u32,
    demand: Demand,
    /// What CPU and reads of a transaction may be off by, as shares.
    off: [f64; 2],
    fixed_ms: f64,
    fixed_off_ms: f64,
    /// About the model, as a share.
    pub scatter: f64,
}

/// Why nothing is predicted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Too little was seen.
    #[error("{seen} sound steps are too few; it needs 6")]
    TooFew {
        /// How many.
        seen: usize,
    },
    /// No reads, no flushes.
    #[error(
        "a transaction reads {reads:.3} pages from the disk and waits for no flush: another disk changes nothing"
    )]
    NoDisk {
        /// For each transaction.
        reads: f64,
    },
    /// It does not describe this server.
    #[error(
        "response times scatter by {:.0} % about the simulation of the present disk: the model does not describe this server",
        .scatter * 100.0
    )]
    Scatter {
        /// As a share.
        scatter: f64,
    },
    /// Near a ceiling.
    #[error("the {what} would be {:.0} % busy: near the edge a small error of the rate is a large one of the response time", .busy * 100.0)]
    NearTheEdge {
        /// Disk or cores.
        what: &'static str,
        /// As a share.
        busy: f64,
    },
}

impl Latency {
    /// The two parameters of the lognormal law: of the logarithm, mean and standard deviation.
    fn law(&self) -> (f64, f64) {
        const Z: f64 = 2.326_348;
        // p99 / mean = exp(Z s - s^2 / 2), which has its largest value at s = Z.
        let ratio = (self.p99_ms / self.mean_ms.max(1e-9)).max(1.0).ln();
        let sigma = Z - (Z * Z - 2.0 * ratio).max(0.0).sqrt();
        (self.mean_ms.max(1e-9).ln() - sigma * sigma / 2.0, sigma)
    }

    fn times(&self, factor: f64) -> Self {
        Self { mean_ms: self.mean_ms * factor, p99_ms: self.p99_ms * factor }
    }
}

impl Disk {
    /// The same, with another time for each request.
    fn slower(&self, factor: f64) -> Self {
        Self { read: self.read.times(factor), flush: self.flush.times(factor), ..*self }
    }
}

impl Disks {
    /// Fits the model to what was seen on the disk `here`.
    ///
    /// # Errors
    /// Too little was seen, or it contradicts the model.
    pub fn new(seen: &[MeasuredRate], here: Disk, cores: u32, flushes: f64) -> Result<Self, Refusal> {
        let usable: Vec<MeasuredRate> =
            seen.iter().copied().filter(|one| one.per_s > 0.0 && one.mean_ms > 0.0).collect();
        if usable.len() < 6 {
            return Err(Refusal::TooFew { seen: usable.len() });
        }
        let middle = |of: fn(&MeasuredRate) -> f64| {
            let values: Vec<f64> = usable.iter().map(of).collect();
            let middle = quantile::median(&values).unwrap_or(0.0);
            let away: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
            (middle, quantile::median(&away).unwrap_or(0.0) / middle.max(1e-9))
        };
        let ((cpu_ms, cpu_off), (reads, reads_off)) = (middle(|one| one.cpu_ms), middle(|one| one.reads));
        if reads < 0.01 && flushes < 0.01 {
            return Err(Refusal::NoDisk { reads });
        }
        // The reads of each step are its own: the pool may have warmed up between them.
        let model = |one: &MeasuredRate| {
            let demand = Demand { cpu_ms: one.cpu_ms, reads: one.reads, flushes };
            simulate(&demand, &here, cores, one.per_s)
        };
        let sound = |one: &&MeasuredRate| one.reads * one.per_s < EDGE * here.reads_per_s;
        let pairs: Vec<(MeasuredRate, Simulated)> =
            usable.iter().filter(sound).map(|one| (*one, model(one))).collect();
        if pairs.len() < 6 {
            return Err(Refusal::TooFew { seen: pairs.len() });
        }
        let rest: Vec<f64> = pairs.iter().map(|(one, model)| one.mean_ms - model.mean_ms).collect();
        let fixed_ms = quantile::median(&rest).unwrap_or(0.0).max(0.0);
        let away: Vec<f64> = rest.iter().map(|rest| (rest - fixed_ms).abs()).collect();
        let relative =
            pairs.iter().map(|(one, model)| ((model.mean_ms + fixed_ms) / one.mean_ms - 1.0).abs());
        let scatter = quantile::median(&relative.collect::<Vec<_>>()).unwrap_or(0.0);
        if scatter > MOST_SCATTER {
            return Err(Refusal::Scatter { scatter });
        }
        Ok(Self {
            here,
            cores,
            demand: Demand { cpu_ms, reads, flushes },
            off: [cpu_off.max(0.02), reads_off.max(0.02)],
            fixed_ms,
            fixed_off_ms: quantile::median(&away).unwrap_or(0.0),
            scatter,
        })
    }

    /// What a transaction asks for.
    pub fn demand(&self) -> Demand {
        self.demand
    }

    /// CPU (ms) and reads of a transaction, with what they may be off by.
    pub fn demand_intervals(&self) -> [Interval; 2] {
        let of = |value: f64, off: f64| Interval {
            low: (value * (1.0 - 2.0 * off)).max(0.0),
            estimate: value,
            high: value * (1.0 + 2.0 * off),
        };
        [of(self.demand.cpu_ms, self.off[0]), of(self.demand.reads, self.off[1])]
    }

    /// Share of a disk's reads that a rate takes.
    pub fn busy(&self, disk: &Disk, per_s: f64) -> Interval {
        let [_, reads] = self.demand_intervals();
        let share = |reads: f64, off: f64| per_s * reads / (disk.reads_per_s * off).max(1e-9);
        Interval {
            low: share(reads.low, 1.0 + DISK_OFF),
            estimate: share(reads.estimate, 1.0),
            high: share(reads.high, 1.0 - DISK_OFF),
        }
    }

    /// The disk that it was seen on.
    pub fn here(&self) -> Disk {
        self.here
    }

    /// The rate at which the disk or the cores are full, and which of them is.
    pub fn saturation(&self, disk: &Disk) -> (Interval, &'static str) {
        let at = |cpu: f64, reads: f64| {
            let by_cores = f64::from(self.cores) * 1e3 / (self.demand.cpu_ms * cpu).max(1e-9);
            let by_disk = disk.reads_per_s / (self.demand.reads * reads).max(1e-9);
            (by_cores.min(by_disk), if by_disk < by_cores { "disk" } else { "cores" })
        };
        let [cpu, reads] = self.off;
        let (estimate, what) = at(1.0, 1.0);
        let (low, high) =
            (at(1.0 + 2.0 * cpu, 1.0 + 2.0 * reads).0, at(1.0 - 2.0 * cpu, 1.0 - 2.0 * reads).0);
        // A ceiling that was measured for two seconds is not more sure than this.
        (Interval { low: low * (1.0 - DISK_OFF), estimate, high: high * (1.0 + DISK_OFF) }, what)
    }

    /// Mean and 99th percentile of the response time on a disk at a rate, ms.
    ///
    /// # Errors
    /// The disk or the cores would be nearly full.
    pub fn at(&self, disk: &Disk, per_s: f64) -> Result<(Interval, Interval), Refusal> {
        let busy_cores = per_s * self.demand.cpu_ms / 1e3 / f64::from(self.cores.max(1));
        let busy_disk = per_s * self.demand.reads / disk.reads_per_s.max(1e-9);
        for (what, busy) in [("disk", busy_disk), ("cores", busy_cores)] {
            if busy > EDGE {
                return Err(Refusal::NearTheEdge { what, busy });
            }
        }
        let run = |demand: &Demand, disk: &Disk| simulate(demand, disk, self.cores, per_s);
        let base = run(&self.demand, disk);
        let [cpu, reads] = self.off.map(|off| 1.0 + 2.0 * off);
        let others = [
            run(&Demand { cpu_ms: self.demand.cpu_ms * cpu, ..self.demand }, disk),
            run(&Demand { reads: self.demand.reads * reads, ..self.demand }, disk),
            run(&self.demand, &disk.slower(1.0 + 2.0 * DISK_OFF)),
        ];
        let interval = |of: fn(&Simulated) -> f64| {
            let estimate = of(&base) + self.fixed_ms;
            let moved = others.iter().map(|other| (of(other) - of(&base)).powi(2)).sum::<f64>();
            // The disk's part of a percentile is not known apart: it is taken to be that of the mean.
            let share = base.disk_ms / base.mean_ms.max(1e-9);
            let model = MODEL_ERROR * share * of(&base);
            let reach = (moved + model.powi(2) + (2.0 * self.fixed_off_ms).powi(2)).sqrt();
            Interval { low: (estimate - reach).max(0.0), estimate, high: estimate + reach }
        };
        Ok((interval(|one| one.mean_ms), interval(|one| one.p99_ms)))
    }
}

/// What waits for its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives,
    /// A core has done a slice of this transaction.
    Computed(usize),
    /// Its request came back.
    Read(usize),
    /// The flush that is under way has ended.
    Flushed,
}

#[derive(Clone, Copy, Debug)]
struct Transaction {
    began_ns: u64,
    reads_left: u32,
    slice_ns: u64,
    flushes_left: u32,
    /// When it went to the disk.
    asked_ns: u64,
    disk_ns: u64,
}

/// One server while it is simulated; times in ns, so that events have an order.
struct Simulation<'a> {
    demand: &'a Demand,
    disk: &'a Disk,
    random: Random,
    now: u64,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    all: Vec<Transaction>,
    idle_cores: u32,
    for_core: VecDeque<usize>,
    /// When the next request may pass the ceiling.
    disk_free_ns: u64,
    for_flush: Vec<usize>,
    in_flush: Vec<usize>,
    done: Vec<(f64, f64)>,
}

/// Simulates a server with random arrivals; the same numbers for the same rate.
pub fn simulate(demand: &Demand, disk: &Disk, cores: u32, per_s: f64) -> Simulated {
    let mut simulation = Simulation {
        demand,
        disk,
        random: Random(SEED),
        now: 0,
        events: BinaryHeap::from([Reverse((0, Event::Arrives))]),
        all: Vec::with_capacity(BEFORE + COUNTED),
        idle_cores: cores.max(1),
        for_core: VecDeque::new(),
        disk_free_ns: 0,
        for_flush: Vec::new(),
        in_flush: Vec::new(),
        done: Vec::with_capacity(BEFORE + COUNTED),
    };
    while let Some(Reverse((at, event))) = simulation.events.pop() {
        simulation.now = at;
        simulation.handle(event, per_s);
    }
    let counted = &simulation.done[BEFORE.min(simulation.done.len())..];
    let count = counted.len().max(1) as f64;
    let times = quantile::sorted(counted.iter().map(|(time, _)| *time).collect());
    Simulated {
        mean_ms: times.iter().sum::<f64>() / count,
        p99_ms: quantile::nearest_rank(&times, 0.99).unwrap_or(0.0),
        disk_ms: counted.iter().map(|(_, disk)| disk).sum::<f64>() / count,
    }
}

impl Simulation<'_> {
    fn at(&mut self, ns: u64, event: Event) {
        self.events.push(Reverse((self.now + ns, event)));
    }

    fn handle(&mut self, event: Event, per_s: f64) {
        match event {
            Event::Arrives => {
                let reads = self.random.poisson(self.demand.reads);
                let slice_ms = self.demand.cpu_ms / f64::from(reads + 1);
                let whole = self.demand.flushes.max(0.0).floor();
                let flushes_left = whole as u32 + u32::from(self.random.next() < self.demand.flushes - whole);
                let (began_ns, slice_ns) = (self.now, ns(slice_ms));
                self.all.push(Transaction {
                    began_ns,
                    reads_left: reads,
                    slice_ns,
                    flushes_left,
                    asked_ns: 0,
                    disk_ns: 0,
                });
                self.compute(self.all.len() - 1);
                if self.all.len() < BEFORE + COUNTED {
                    let gap = -(1.0 - self.random.next()).ln() / per_s.max(1e-9);
                    self.at(ns(gap * 1e3), Event::Arrives);
                }
            }
            Event::Computed(one) => {
                match self.for_core.pop_front() {
                    Some(next) => self.at(self.all[next].slice_ns, Event::Computed(next)),
                    None => self.idle_cores += 1,
                }
                self.computed(one);
            }
            Event::Read(one) => {
                self.all[one].disk_ns += self.now - self.all[one].asked_ns;
                self.compute(one);
            }
            Event::Flushed => {
                for one in std::mem::take(&mut self.in_flush) {
                    self.all[one].disk_ns += self.now - self.all[one].asked_ns;
                    self.flush_or_end(one);
                }
                self.flush();
            }
        }
    }

    fn compute(&mut self, one: usize) {
        if self.idle_cores == 0 {
            return self.for_core.push_back(one);
        }
        self.idle_cores -= 1;
        self.at(self.all[one].slice_ns, Event::Computed(one));
    }

    /// After a slice: the next read, a flush, or the end.
    fn computed(&mut self, one: usize) {
        self.all[one].asked_ns = self.now;
        if self.all[one].reads_left > 0 {
            self.all[one].reads_left -= 1;
            let passes = self.disk_free_ns.max(self.now);
            self.disk_free_ns = passes + ns(1e3 / self.disk.reads_per_s.max(1e-9));
            let takes = self.random.lognormal(self.disk.read.law());
            self.at(passes - self.now + ns(takes), Event::Read(one));
        } else {
            self.flush_or_end(one);
            self.flush();
        }
    }

    /// Waits for the next flush that begins, or ends.
    fn flush_or_end(&mut self, one: usize) {
        let Some(left) = self.all[one].flushes_left.checked_sub(1) else { return self.end(one) };
        self.all[one].flushes_left = left;
        self.all[one].asked_ns = self.now;
        self.for_flush.push(one);
    }

    fn flush(&mut self) {
        if self.in_flush.is_empty() && !self.for_flush.is_empty() {
            self.in_flush = std::mem::take(&mut self.for_flush);
            let takes = self.random.lognormal(self.disk.flush.law());
            self.at(ns(takes), Event::Flushed);
        }
    }

    fn end(&mut self, one: usize) {
        let transaction = self.all[one];
        self.done.push(((self.now - transaction.began_ns) as f64 / 1e6, transaction.disk_ns as f64 / 1e6));
    }
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6).round().max(0.0) as u64
}

/// Numbers from 0 to 1 (xorshift), the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Knuth's product for small means; a rounded normal law beyond.
    fn poisson(&mut self, mean: f64) -> u32 {
        if mean > 50.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0) as u32;
        }
        let (limit, mut product, mut count) = ((-mean).exp(), self.next(), 0);
        while product > limit {
            product *= self.next();
            count += 1;
        }
        count
    }

    fn normal(&mut self) -> f64 {
        let (a, b) = (1.0 - self.next(), self.next());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    fn lognormal(&mut self, (mean, deviation): (f64, f64)) -> f64 {
        (mean + deviation * self.normal()).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn disk(mean_ms: f64, per_s: f64) -> Disk {
        let latency = Latency { mean_ms, p99_ms: 3.0 * mean_ms };
        Disk { read: latency, reads_per_s: per_s, flush: latency }
    }

    const READER: Demand = Demand { cpu_ms: 1.0, reads: 4.0, flushes: 0.0 };

    fn seen(disk: &Disk, fixed: f64) -> Vec<MeasuredRate> {
        let rates = [10.0, 15.0, 20.0, 25.0, 30.0, 35.0];
        let one = |per_s: f64| {
            let mean_ms = simulate(&READER, disk, 2, per_s).mean_ms + fixed;
            MeasuredRate { per_s, mean_ms, cpu_ms: 1.0, reads: 4.0 }
        };
        rates.map(one).to_vec()
    }

    #[test]
    fn an_idle_disk_takes_its_time_for_each_read() {
        let one = simulate(&READER, &disk(5.0, 1e6), 2, 1.0);
        assert!((one.mean_ms - 21.0).abs() < 0.5, "{one:?}");
        assert!((one.disk_ms - 20.0).abs() < 0.5, "{one:?}");
        assert!(one.p99_ms > 2.0 * one.mean_ms);
    }

    #[test]
    fn before_a_ceiling_requests_queue_as_before_one_server() {
        // Single reads of no time before a ceiling of 100 a second, at 50 %: M/D/1 waits half a service time,
        // 5 ms. Few transactions read twice.
        let demand = Demand { cpu_ms: 0.0, reads: 0.05, flushes: 0.0 };
        let found = simulate(&demand, &disk(0.001, 100.0), 1, 1000.0);
        let wait = found.disk_ms / demand.reads;
        assert!((4.0..7.0).contains(&wait), "{wait} {found:?}");
    }

    #[test]
    fn commits_that_wait_share_a_flush() {
        let demand = Demand { cpu_ms: 0.01, reads: 0.0, flushes: 1.0 };
        let latency = Latency { mean_ms: 2.0, p99_ms: 2.1 };
        let disk = Disk { flush: latency, reads_per_s: 1e6, ..Disk::default() };
        // One at a time it would be full at 500 a second.
        let found = simulate(&demand, &disk, 4, 2000.0);
        assert!(found.mean_ms < 4.5, "{found:?}");
        // Of two logs one after the other, each for all that wait.
        let idle = simulate(&Demand { flushes: 2.0, ..demand }, &disk, 4, 1.0);
        assert!((idle.disk_ms - 4.0).abs() < 0.1, "{idle:?}");
        let busy = simulate(&Demand { flushes: 2.0, ..demand }, &disk, 4, 2000.0);
        assert!((4.5..6.5).contains(&busy.mean_ms), "{busy:?}");
    }

    #[test]
    fn another_disk_is_predicted_within_its_interval() {
        let (slow, fast) = (disk(5.0, 200.0), disk(0.2, 20_000.0));
        let model = Disks::new(&seen(&slow, 0.5), slow, 2, 0.0).unwrap();
        let (mean, p99) = model.at(&fast, 30.0).unwrap();
        let truth = simulate(&READER, &fast, 2, 30.0);
        assert!(mean.low < truth.mean_ms + 0.5 && truth.mean_ms + 0.5 < mean.high, "{mean:?} {truth:?}");
        assert!(p99.low < truth.p99_ms + 0.5 && truth.p99_ms + 0.5 < p99.high, "{p99:?} {truth:?}");
        assert_eq!(model.saturation(&slow).1, "disk");
        assert_eq!(model.saturation(&fast).1, "cores");
        assert!((model.saturation(&slow).0.estimate - 50.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_sound_is_refused_with_its_reason() {
        let slow = disk(5.0, 200.0);
        let model = Disks::new(&seen(&slow, 0.5), slow, 2, 0.0).unwrap();
        assert!(matches!(model.at(&slow, 48.0), Err(Refusal::NearTheEdge { what: "disk", .. })));
        let few = Disks::new(&seen(&slow, 0.5)[..3], slow, 2, 0.0);
        assert_eq!(few, Err(Refusal::TooFew { seen: 3 }));
        let mut other = seen(&slow, 0.5);
        for (at, one) in other.iter_mut().enumerate() {
            one.mean_ms *= if at % 2 == 0 { 0.3 } else { 3.0 };
        }
        assert!(matches!(Disks::new(&other, slow, 2, 0.0), Err(Refusal::Scatter { .. })));
        let none: Vec<MeasuredRate> =
            seen(&slow, 0.5).into_iter().map(|one| MeasuredRate { reads: 0.0, ..one }).collect();
        assert!(Disks::new(&none, slow, 2, 0.0).unwrap_err().to_string().contains("changes nothing"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn a_latency_keeps_its_mean_and_percentile(mean in 0.05..20.0_f64, ratio in 1.05..8.0_f64) {
            let (mu, sigma) = Latency { mean_ms: mean, p99_ms: mean * ratio }.law();
            prop_assert!(((mu + sigma * sigma / 2.0).exp() / mean - 1.0).abs() < 1e-6);
            prop_assert!(((mu + 2.326_348 * sigma).exp() / (mean * ratio) - 1.0).abs() < 1e-6);
        }

        #[test]
        fn a_slower_disk_never_answers_sooner(mean in 0.1..5.0_f64, reads in 0.2..6.0_f64) {
            let demand = Demand { cpu_ms: 0.5, reads, flushes: 0.0 };
            let (fast, slow) = (disk(mean, 5000.0), disk(mean * 2.0, 1000.0));
            let (fast, slow) = (simulate(&demand, &fast, 2, 60.0), simulate(&demand, &slow, 2, 60.0));
            prop_assert!(slow.mean_ms > fast.mean_ms);
        }
    }
}
