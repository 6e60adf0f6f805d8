//! Response time at another load, or on another number of cores: a queue before `c` servers.
//!
//! The mean response time at a rate r is R(r) = D + E + V Wq(r), where
//!
//! * D is the demand: the time that one transaction keeps a core busy. c / D is where the server is full;
//! * E is time that does not grow with the load: the way there and back, waiting for the disk;
//! * Wq is the mean wait of M/M/c: Erlang's C(c, rD) times D / (c - rD);
//! * V is the variability (Ca^2 + Cs^2) / 2: 1 for random arrivals and random lengths, 0.5 for equal lengths
//!   (Allen and Cunneen, in Allen, *Probability, Statistics and Queueing Theory*, 1978; Kingman 1961 for
//!   c = 1).
//!
//! Worked example: 4 cores, D = 2 ms, E = 0.5 ms, V = 1, r = 1500 a second: 75 % busy, C = 0.509, Wq = 1.02
//! ms, R = 3.52 ms. At r = 1800: 90 % busy, Wq = 3.9 ms.
//!
//! **The fit.** For a given D the model is linear in E and V; D is walked through. A region of (D, E, V) that
//! the data cannot tell from the best is kept, and any figure's interval is its range over that region
//! (`least_squares.rs`). Where the share of the cores that is busy was measured too, D is known from it (busy
//! = rD / c), and counts as a further observation.
//!
//! **Percentiles.** The time without queueing keeps the shape it had at the lowest rate; the wait is 0 with
//! probability 1 - C and exponential otherwise. A percentile is that of their sum.
//!
//! **Where it is not sound.** Near the edge the mean is ruled by rare long queues, and by all that the model
//! leaves out: beyond [`EDGE`] of the cores busy it refuses. The approximation itself is wrong by up to a
//! tenth or so of the wait (Whitt 1993): [`MODEL_ERROR`] of the wait is added to both ends of an interval.

use crate::Interval;
use crate::least_squares::{Fit, Row, allowance};
use crate::scalability::levels;
use serde::{Deserialize, Serialize};

/// Above this share of the cores busy nothing is predicted but the saturation itself.
pub const EDGE: f64 = 0.85;
/// The same at the unfavourable end of the interval of the demand.
const EDGE_AT_WORST: f64 = 0.95;
/// What the approximation may be wrong by, as a share of the wait.
pub const MODEL_ERROR: f64 = 0.15;
/// A core more may be worth less than the one before: at worst this share less for each doubling.
pub const LOSS_PER_DOUBLING: f64 = 0.08;
/// Without the cores' busy share, a growth that is predicted is at most this.
const GROWTH_BLIND: f64 = 2.0;
const FEWEST: usize = 6;
const FEWEST_LEVELS: usize = 3;
/// Scatter about the model as a share, or it does not describe the server.
const MOST_SCATTER: f64 = 0.25;
/// Where variability was not measured it is taken to be so, give or take.
const USUAL_VARIABILITY: (f64, f64) = (1.0, 0.5);
/// Percentiles of the shape that are kept.
const SHAPE: usize = 50;
/// Demands that are tried.
const STEPS: usize = 40;

/// A mean response time at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Transactions a second.
    pub per_s: f64,
    /// Their mean response time, seconds.
    pub mean_s: f64,
    /// Share of the cores that were busy, where it was measured.
    pub busy: Option<f64>,
}

/// What is known of the server beside its response times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueInputs {
    /// Cores that the server may use.
    pub cores: u32,
    /// (Ca^2 + Cs^2) / 2 and its standard deviation, where measured.
    pub variability: Option<(f64, f64)>,
    /// Percentiles of the time without queueing at equal steps, of any unit; empty where not known.
    pub shape: Vec<f64>,
}

/// Demand, fixed time and variability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// Seconds of a core for each transaction.
    pub demand_s: f64,
    /// Seconds that do not depend on the load.
    pub fixed_s: f64,
    /// (Ca^2 + Cs^2) / 2.
    pub variability: f64,
}

/// The queue fitted to a server.
#[derive(Clone, Debug)]
pub struct Queue {
    known: QueueInputs,
    shape: Vec<f64>,
    best: Parameters,
    region: Vec<Parameters>,
    most_seen: f64,
    busy_known: bool,
    /// Scatter of an observation about the model, as a share.
    pub scatter: f64,
}

/// Why nothing is predicted.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "refused", rename_all = "snake_case")]
pub enum Refusal {
    /// Too little was seen.
    #[error(
        "{observations} observations at {levels} rates are too few; it needs {FEWEST} at {FEWEST_LEVELS}"
    )]
    TooFew {
        /// Observations there are.
        observations: usize,
        /// Different rates among them.
        levels: usize,
    },
    /// It does not describe this server.
    #[error("response times scatter by {:.0} % about the queueing model: it does not describe this server", .scatter * 100.0)]
    Scatter {
        /// As a share.
        scatter: f64,
    },
    /// Near the edge.
    #[error(
        "the cores would be {:.0} % busy ({:.0} % at worst): near the edge a small error of the rate is a large one of the response time",
        .busy * 100.0, .at_worst * 100.0
    )]
    NearTheEdge {
        /// Share busy, by the estimate.
        busy: f64,
        /// At the unfavourable end.
        at_worst: f64,
    },
    /// Too far from what was seen.
    #[error(
        "{per_s:.0} a second is {:.1} times the highest rate seen, and how busy the cores were is not known",
        .per_s / .most_seen
    )]
    TooFar {
        /// The rate asked for.
        per_s: f64,
        /// The highest seen.
        most_seen: f64,
    },
    /// Percentiles need the shape of response times.
    #[error("no histogram of response times was given: a percentile would be a guess")]
    NoShape,
}

impl Queue {
    /// Fits the model; intervals are at `level`.
    ///
    /// # Errors
    /// Too little was seen, or it contradicts the model.
    pub fn new(seen: &[Response], known: QueueInputs, level: f64) -> Result<Self, Refusal> {
        let usable: Vec<Response> =
            seen.iter().copied().filter(|one| one.per_s > 0.0 && one.mean_s > 0.0).collect();
        let levels = levels(usable.iter().map(|one| one.per_s));
        let few = Refusal::TooFew { observations: usable.len(), levels };
        if usable.len() < FEWEST || levels < FEWEST_LEVELS {
            return Err(few);
        }
        let cores = f64::from(known.cores.max(1));
        let most_seen = usable.iter().map(|one| one.per_s).fold(0.0, f64::max);
        let measured = demand(&usable, cores);
        let least = usable.iter().map(|one| one.mean_s).fold(f64::INFINITY, f64::min);
        let (from, to) = match measured {
            Some((mean, sd)) => ((mean - 4.0 * sd).max(mean * 0.2), mean + 4.0 * sd),
            None => (least * 1e-3, least * 1.5),
        };
        let to = to.min(0.998 * cores / most_seen);
        if from >= to {
            return Err(Refusal::NearTheEdge { busy: from * most_seen / cores, at_worst: 1.0 });
        }
        let demands: Vec<f64> =
            (0..=STEPS).map(|at| from * (to / from).powf(at as f64 / STEPS as f64)).collect();
        // First the scatter alone, then with what else is known weighed by it.
        let degrees = (usable.len() - 3) as f64;
        let mut times: Vec<f64> = usable.iter().map(|one| one.mean_s).collect();
        let mut variance = f64::INFINITY;
        // The weights are those of fitted times: an outlier must not weigh by itself.
        for _ in 0..2 {
            let plain = demands
                .iter()
                .filter_map(|demand| Some((*demand, fit(&usable, &times, *demand, cores, None)?)));
            let Some((demand, fit)) = plain.min_by(|a, b| a.1.misfit.total_cmp(&b.1.misfit)) else {
                return Err(few);
            };
            variance = fit.misfit / degrees;
            let [fixed, variability, _] = fit.best;
            for (time, one) in times.iter_mut().zip(&usable) {
                *time = demand + fixed + variability * mean_wait(one.per_s, demand, known.cores.max(1));
            }
        }
        if !variance.is_finite() {
            return Err(few);
        }
        let scatter = variance.sqrt();
        if scatter > MOST_SCATTER {
            return Err(Refusal::Scatter { scatter });
        }
        // Agreement to the last digit is luck of few observations.
        let variance = variance.max(1e-6);
        let prior = Some((known.variability.unwrap_or(USUAL_VARIABILITY), variance));
        let penalty =
            |demand: f64| measured.map_or(0.0, |(mean, sd)| variance * ((demand - mean) / sd).powi(2));
        let fits: Vec<(f64, Fit)> = demands
            .iter()
            .filter_map(|demand| fit(&usable, &times, *demand, cores, prior).map(|fit| (*demand, fit)))
            .collect();
        let cost = |(demand, fit): &(f64, Fit)| fit.misfit + penalty(*demand);
        let best = fits.iter().min_by(|a, b| cost(a).total_cmp(&cost(b))).ok_or(few)?;
        let limit = cost(best) + allowance(variance, degrees, level);
        let parameters = |demand: f64, point: &[f64; 3]| Parameters {
            demand_s: demand,
            fixed_s: point[0],
            variability: point[1],
        };
        let inside = fits.iter().filter(|one| cost(one) <= limit);
        let region = inside.flat_map(|(demand, fit)| {
            let points = fit.region(limit - penalty(*demand));
            extremes(&points, *demand, known.cores.max(1))
                .into_iter()
                .map(|point| parameters(*demand, &point))
                .collect::<Vec<_>>()
        });
        let shape = thinned(&known.shape);
        Ok(Self {
            shape,
            best: parameters(best.0, &best.1.best),
            region: region.collect(),
            most_seen,
            busy_known: measured.is_some(),
            scatter,
            known,
        })
    }

    /// The best parameters.
    pub fn parameters(&self) -> Parameters {
        self.best
    }

    /// The demand of a transaction, seconds of a core.
    pub fn demand_s(&self) -> Interval {
        self.range(|p| p.demand_s)
    }

    /// The rate at which this many cores are full; the number that the server has where `cores` is that. The
    /// lower end allows for cores that are worth less the more there are.
    pub fn saturation(&self, cores: u32) -> Interval {
        let wide = self.range(|p| f64::from(cores) / p.demand_s);
        Interval { low: wide.low / self.loss(cores), ..wide }
    }

    /// Mean response time at a rate on this many cores, seconds.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn mean_s(&self, per_s: f64, cores: u32) -> Result<Interval, Refusal> {
        self.sound(per_s, cores)?;
        Ok(self.with_model_error(cores, |p, wait| {
            p.demand_s + p.fixed_s + wait * p.variability * mean_wait(per_s, p.demand_s, cores)
        }))
    }

    /// A percentile of the response time, seconds.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn quantile_s(&self, quantile: f64, per_s: f64, cores: u32) -> Result<Interval, Refusal> {
        self.sound(per_s, cores)?;
        if self.shape.is_empty() {
            return Err(Refusal::NoShape);
        }
        Ok(self.with_model_error(cores, |p, wait| {
            let waits = erlang_c(per_s * p.demand_s, cores);
            let mean = wait * p.variability * mean_wait(per_s, p.demand_s, cores);
            sum_quantile(&self.shape, p.demand_s + p.fixed_s, waits, mean / waits.max(1e-12), quantile)
        }))
    }

    /// Share of the cores that would be busy.
    pub fn busy(&self, per_s: f64, cores: u32) -> Interval {
        let wide = self.range(|p| per_s * p.demand_s / f64::from(cores));
        Interval { high: wide.high * self.loss(cores), ..wide }
    }

    fn sound(&self, per_s: f64, cores: u32) -> Result<(), Refusal> {
        let busy = self.busy(per_s, cores);
        if busy.estimate > EDGE || busy.high > EDGE_AT_WORST {
            return Err(Refusal::NearTheEdge { busy: busy.estimate, at_worst: busy.high });
        }
        if !self.busy_known && per_s > GROWTH_BLIND * self.most_seen {
            return Err(Refusal::TooFar { per_s, most_seen: self.most_seen });
        }
        Ok(())
    }

    /// By how much more a transaction may cost on more cores than it was seen on.
    fn loss(&self, cores: u32) -> f64 {
        let doublings = (f64::from(cores) / f64::from(self.known.cores.max(1))).log2();
        1.0 + LOSS_PER_DOUBLING * doublings.max(0.0)
    }

    fn range(&self, of: impl Fn(&Parameters) -> f64) -> Interval {
        let estimate = of(&self.best);
        let mut interval = Interval { estimate, low: estimate, high: estimate };
        for value in self.region.iter().map(of) {
            interval.low = interval.low.min(value);
            interval.high = interval.high.max(value);
        }
        interval
    }

    /// The range of a figure with the wait shorter and longer by the model's own error.
    fn with_model_error(&self, cores: u32, of: impl Fn(&Parameters, f64) -> f64) -> Interval {
        let loss = self.loss(cores);
        let costlier = |p: &Parameters| Parameters { demand_s: p.demand_s * loss, ..*p };
        let plain = self.range(|p| of(p, 1.0));
        let low = self.range(|p| of(p, 1.0 - MODEL_ERROR)).low;
        let high = self.range(|p| of(&costlier(p), 1.0 + MODEL_ERROR)).high;
        Interval { low, estimate: plain.estimate, high }
    }
}

/// The points of a region at which a response time is shortest or longest, from an idle server to a nearly
/// full one: a mean is E and a multiple of V, and that multiple is the mean wait.
fn extremes(points: &[[f64; 3]], demand: f64, cores: u32) -> Vec<[f64; 3]> {
    let full = f64::from(cores) / demand;
    let waits = [0.0, 0.3, 0.6, 0.8, 0.9].map(|share| mean_wait(share * full, demand, cores));
    let ends = waits.iter().flat_map(|wait| {
        let time = |point: &[f64; 3]| point[0] + point[1] * wait;
        let by = |a: &&[f64; 3], b: &&[f64; 3]| time(a).total_cmp(&time(b));
        [points.iter().min_by(by), points.iter().max_by(by)]
    });
    let mut ends: Vec<[f64; 3]> = ends.flatten().copied().collect();
    ends.dedup();
    ends
}

/// At most [`SHAPE`] percentiles at equal steps, of mean 1.
fn thinned(shape: &[f64]) -> Vec<f64> {
    let count = shape.len().min(SHAPE);
    let sorted = crate::quantile::sorted(shape.to_vec());
    let at = |point: usize| crate::quantile::quantile(&sorted, (point as f64 + 0.5) / count as f64);
    let points: Vec<f64> = (0..count).filter_map(at).collect();
    let mean = shape.iter().sum::<f64>() / shape.len().max(1) as f64;
    points.iter().map(|value| value / mean.max(f64::MIN_POSITIVE)).collect()
}

/// Demand from the busy shares: the mean of busy c / r and its standard error, at least 1 %.
fn demand(seen: &[Response], cores: f64) -> Option<(f64, f64)> {
    let each = seen.iter().filter_map(|one| one.busy.map(|busy| (one.per_s, busy * cores / one.per_s)));
    let each: Vec<(f64, f64)> = each.filter(|(_, demand)| *demand > 0.0).collect();
    if each.len() < FEWEST {
        return None;
    }
    // What is idle anyway weighs less at high rates.
    let total: f64 = each.iter().map(|(weight, _)| weight).sum();
    let mean = each.iter().map(|(weight, demand)| weight * demand).sum::<f64>() / total;
    let spread: f64 =
        each.iter().map(|(weight, demand)| weight * (demand - mean).powi(2)).sum::<f64>() / total;
    Some((mean, (spread / (each.len() - 1) as f64).sqrt().max(0.01 * mean)))
}

/// E and V at a demand, each observation weighed by its expected time. The prior is what variability is taken
/// to be, with the variance that its weight is relative to.
fn fit(
    seen: &[Response],
    times: &[f64],
    demand: f64,
    cores: f64,
    prior: Option<((f64, f64), f64)>,
) -> Option<Fit> {
    let mut rows: Vec<Row> = seen
        .iter()
        .zip(times)
        .map(|(one, time)| Row {
            x: [1.0, mean_wait(one.per_s, demand, cores as u32), 0.0],
            y: one.mean_s - demand,
            weight: time.powi(-2),
        })
        .collect();
    rows.extend(prior.map(|((mean, sd), variance)| Row {
        x: [0.0, 1.0, 0.0],
        y: mean,
        weight: variance / (sd * sd),
    }));
    Fit::new(&rows, 2)
}

/// Erlang's C: the probability that an arrival has to wait, with `offered` = r D Erlang before `servers`.
pub fn erlang_c(offered: f64, servers: u32) -> f64 {
    let c = f64::from(servers);
    if offered >= c {
        return 1.0;
    }
    // Erlang's B by its recursion, which never overflows.
    let blocked = (1..=servers).map(f64::from).fold(1.0, |b, n| offered * b / (n + offered * b));
    blocked / (1.0 - offered / c * (1.0 - blocked))
}

/// Mean wait of M/M/c, seconds; infinite where it is full.
pub fn mean_wait(per_s: f64, demand_s: f64, servers: u32) -> f64 {
    let (offered, c) = (per_s * demand_s, f64::from(servers));
    if offered >= c { f64::INFINITY } else { erlang_c(offered, servers) * demand_s / (c - offered) }
}

/// The quantile of (a time of this shape and mean) + (0, or with probability `waits` an exponential of this
/// mean).
fn sum_quantile(shape: &[f64], mean: f64, waits: f64, mean_wait: f64, quantile: f64) -> f64 {
    let beyond = |time: f64| {
        let each = shape.iter().map(|share| {
            let left = time - share * mean;
            if left < 0.0 { 1.0 } else { waits * (-left / mean_wait.max(1e-12)).exp() }
        });
        each.sum::<f64>() / shape.len() as f64
    };
    let mut high = shape.iter().copied().fold(0.0, f64::max) * mean + mean_wait;
    while beyond(high) > 1.0 - quantile {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..26 {
        let middle = f64::midpoint(low, high);
        if beyond(middle) > 1.0 - quantile { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUTH: Parameters = Parameters { demand_s: 0.002, fixed_s: 0.0005, variability: 1.0 };

    fn seen(cores: u32, rates: &[f64], busy: bool) -> Vec<Response> {
        let noise = [1.01, 0.99, 1.005, 0.995];
        rates
            .iter()
            .enumerate()
            .map(|(at, rate)| Response {
                per_s: *rate,
                mean_s: noise[at % 4]
                    * (TRUTH.demand_s
                        + TRUTH.fixed_s
                        + TRUTH.variability * mean_wait(*rate, TRUTH.demand_s, cores)),
                busy: busy.then(|| noise[(at + 1) % 4] * rate * TRUTH.demand_s / f64::from(cores)),
            })
            .collect()
    }

    fn known(cores: u32) -> QueueInputs {
        let exponential = |at: usize| -(1.0 - (at as f64 + 0.5) / 200.0).ln();
        QueueInputs { cores, variability: Some((1.0, 0.1)), shape: (0..200).map(exponential).collect() }
    }

    #[test]
    fn erlangs_c_is_that_of_the_tables() {
        assert!((erlang_c(0.5, 1) - 0.5).abs() < 1e-12);
        assert!((erlang_c(3.0, 4) - 0.5094).abs() < 1e-4);
        assert!((erlang_c(8.0, 10) - 0.4092).abs() < 1e-4);
        assert!((mean_wait(1500.0, 0.002, 4) - 0.001_018_9).abs() < 1e-6);
        assert_eq!(mean_wait(2000.0, 0.002, 4), f64::INFINITY);
    }

    #[test]
    fn a_server_seen_at_half_its_load_is_predicted_at_three_quarters() {
        let rates = [200.0, 400.0, 600.0, 800.0, 1000.0, 500.0, 300.0, 900.0];
        let queue = Queue::new(&seen(4, &rates, true), known(4), 0.95).unwrap();
        let found = queue.mean_s(1500.0, 4).unwrap();
        let truth = 0.003_518_9;
        assert!(found.low < truth && truth < found.high, "{found:?}");
        assert!((found.estimate / truth - 1.0).abs() < 0.06, "{found:?}");
        let full = queue.saturation(4);
        assert!(full.low < 2000.0 && 2000.0 < full.high && full.high / full.low < 1.2, "{full:?}");
    }

    #[test]
    fn more_cores_carry_more_and_the_interval_allows_for_less_than_in_proportion() {
        let rates = [100.0, 150.0, 200.0, 250.0, 300.0, 350.0];
        let queue = Queue::new(&seen(1, &rates, true), known(1), 0.95).unwrap();
        let (one, two) = (queue.saturation(1), queue.saturation(2));
        assert!((two.estimate / one.estimate - 2.0).abs() < 1e-9);
        assert!(two.low < 2.0 * one.low);
        assert!(queue.mean_s(600.0, 2).unwrap().estimate < queue.mean_s(390.0, 1).unwrap().estimate);
    }

    #[test]
    fn near_the_edge_it_refuses_in_words() {
        let rates = [100.0, 150.0, 200.0, 250.0, 300.0, 350.0];
        let queue = Queue::new(&seen(1, &rates, true), known(1), 0.95).unwrap();
        let why = queue.mean_s(460.0, 1).unwrap_err();
        assert!(matches!(why, Refusal::NearTheEdge { .. }));
        assert!(why.to_string().contains("92 % busy"), "{why}");
    }

    #[test]
    fn without_busy_shares_it_does_not_reach_far() {
        let rates = [100.0, 120.0, 140.0, 160.0, 180.0, 200.0];
        let queue = Queue::new(&seen(4, &rates, false), known(4), 0.95).unwrap();
        assert!(matches!(queue.mean_s(450.0, 4), Err(Refusal::TooFar { .. } | Refusal::NearTheEdge { .. })));
    }

    #[test]
    fn the_percentile_of_a_single_random_server_is_the_exponentials() {
        // M/M/1 at 50 %: response time is exponential with mean 1 / (m - r).
        let rates = [100.0, 150.0, 200.0, 125.0, 175.0, 225.0];
        let truth = Parameters { fixed_s: 0.0, ..TRUTH };
        let seen: Vec<Response> = rates
            .iter()
            .map(|rate| Response {
                per_s: *rate,
                mean_s: 1.0 / (1.0 / truth.demand_s - rate),
                busy: Some(rate * truth.demand_s),
            })
            .collect();
        let queue = Queue::new(&seen, known(1), 0.95).unwrap();
        let found = queue.quantile_s(0.99, 250.0, 1).unwrap();
        let truth = 4.605 / 250.0;
        assert!((found.estimate / truth - 1.0).abs() < 0.05, "{found:?} {truth}");
    }

    #[test]
    fn few_observations_and_such_that_contradict_the_model_are_refused() {
        assert!(matches!(
            Queue::new(&seen(1, &[100.0, 200.0], true), known(1), 0.95),
            Err(Refusal::TooFew { observations: 2, .. })
        ));
        let mut wild = seen(1, &[100.0, 150.0, 200.0, 250.0, 300.0, 350.0], true);
        wild[0].mean_s *= 9.0;
        wild[3].mean_s /= 5.0;
        let found = Queue::new(&wild, known(1), 0.95).map(|queue| (queue.best, queue.scatter));
        assert!(matches!(found, Err(Refusal::Scatter { .. })), "{found:?}");
    }
}
