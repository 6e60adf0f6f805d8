//! The scalability law from open loops: an agent's history, or trials of `headroom measure`.
//!
//! In a closed loop N clients are at work, and the throughput X(N) is read off. In an open loop transactions
//! come by themselves, at a rate r; how many are at work follows from that, and fluctuates. Whoever takes its
//! mean for N finds a server near its limit that has room to spare: most of the transactions that queue do so
//! in the moments when many came together.
//!
//! So the fluctuation is part of the model. Transactions come independently of each other; with n at work the
//! server gets X(n) = l n / (1 + s (n - 1) + k n (n - 1)) of them done a second, all n at the same pace.
//! Then the share of the time with n at work is p(n) ~ product over i <= n of r / X(i), whatever the lengths
//! of transactions (a symmetric queue: Kelly, *Reversibility and Stochastic Networks*, 1979), and the mean
//! response time is R(r) = sum n p(n) / r, by Little's law. l, s and k are fitted to R at several rates.
//!
//! Worked examples: s = 1, k = 0 is one server without order, M/M/1: l = 1000 and r = 500 give 2 ms. s = 0, k
//! = 0 never waits: R = 1/l at every rate.
//!
//! **What it cannot tell.** At low rates two are hardly ever at work at a time, and all s and k give the same
//! response times: the region of parameters is wide, and the largest throughput has no upper end. It is told
//! only where the rates reached [`REACHED`] of it ([`OpenLaw::most`]). Clients that come in bursts wait for
//! each other, and look like contention.

use crate::Interval;
use crate::least_squares::allowance;
use crate::queue::Response;
use crate::scalability::levels;

/// The largest throughput is told where the highest rate was this share of it.
pub const REACHED: f64 = 0.6;
/// What a law may be off by at its largest throughput, as a share: servers are not laws.
pub const MODEL_ERROR: f64 = 0.1;
/// Observations at least, and different rates among them.
const FEWEST: usize = 8;
const FEWEST_LEVELS: usize = 4;
/// Observations are put together to at most this many, neighbours in rate.
const GROUPS: usize = 40;
/// An observation scatters by less than this share, or the law does not describe the server.
const MOST_SCATTER: f64 = 0.15;
/// Beyond this many at work the sum is given up: the rate is not carried.
const MOST_AT_WORK: u32 = 5_000;
/// Values that are tried of s and of k.
const STEPS: [usize; 2] = [28, 16];
/// The least that is tried above 0, and the most.
const CONTENTION: (f64, f64) = (0.003, 1.0);
const COHERENCY: (f64, f64) = (2e-5, 0.1);

/// l, s and k.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Law {
    /// Transactions a second of one alone.
    alone: f64,
    /// The share that waits for others.
    contention: f64,
    /// The cost of agreeing with each.
    coherency: f64,
}

/// The law fitted to response times at several rates.
#[derive(Clone, Debug)]
pub struct OpenLaw {
    best: Law,
    region: Vec<Law>,
    /// The highest rate seen, a second.
    pub most_seen: f64,
    /// The most that were at work on average.
    pub most_at_work: f64,
    /// Scatter of an observation about the law, as a share.
    pub scatter: f64,
}

/// Why no law is given.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoLaw {
    /// More observations are needed.
    #[error(
        "{observations} observations at {levels} rates are too few for the scalability law of an open loop; it needs {FEWEST} at {FEWEST_LEVELS}: more trials (headroom measure --trials), or a longer history"
    )]
    TooFew {
        /// Observations there are.
        observations: usize,
        /// Different rates among them.
        levels: usize,
    },
    /// They contradict the law.
    #[error(
        "response times scatter by {:.0} % about the scalability law of an open loop: the mix of statements changes with the rate, or something else waits; headroom plan ladder --clients 1,2,4,8,16 sends one mix",
        .scatter * 100.0
    )]
    Scatter {
        /// As a share.
        scatter: f64,
    },
}

impl Law {
    fn throughput(&self, at_work: f64) -> f64 {
        let more = at_work - 1.0;
        self.alone * at_work / (1.0 + self.contention * more + self.coherency * at_work * more)
    }

    /// The concurrency of the largest throughput.
    fn peak(&self) -> f64 {
        if self.coherency > 0.0 {
            ((1.0 - self.contention).max(0.0) / self.coherency).sqrt().max(1.0)
        } else {
            f64::INFINITY
        }
    }

    /// The largest throughput.
    fn most(&self) -> f64 {
        let peak = self.peak();
        if peak.is_finite() {
            self.throughput(peak)
        } else if self.contention > 0.0 {
            self.alone / self.contention
        } else {
            f64::INFINITY
        }
    }

    /// Mean response time at a rate, seconds; `None` where the rate is not carried. Beyond its peak a server
    /// is taken to get done as much as there: what it really does then is not in a mean.
    fn mean_s(&self, per_s: f64) -> Option<f64> {
        if per_s >= 0.999 * self.most() {
            return None;
        }
        let peak = self.peak();
        let (mut share, mut all, mut at_work) = (1.0, 1.0, 0.0);
        for n in 1..=MOST_AT_WORK {
            let ratio = per_s / self.throughput(f64::from(n).min(peak));
            share *= ratio;
            all += share;
            at_work += f64::from(n) * share;
            if ratio < 1.0 && share * f64::from(n) < 1e-9 * at_work * (1.0 - ratio) {
                return Some(at_work / all / per_s);
            }
            if !all.is_finite() {
                return None;
            }
        }
        None
    }

    /// Squares of the relative misfit.
    fn misfit(&self, seen: &[Group]) -> f64 {
        let each = seen.iter().map(|one| {
            let square = |mean: f64| one.weight * (one.mean_s / mean).ln().powi(2);
            self.mean_s(one.per_s).map_or(f64::INFINITY, square)
        });
        each.sum()
    }

    /// The time of one alone for which the misfit is least, with this contention and coherency.
    fn fitted(contention: f64, coherency: f64, seen: &[Group]) -> (Self, f64) {
        let of = |time: f64| {
            let law = Self { alone: 1.0 / time, contention, coherency };
            (law, law.misfit(seen))
        };
        let longest = seen.iter().map(|one| one.mean_s).fold(f64::INFINITY, f64::min) * 1.2;
        // A golden section over its logarithm.
        let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
        let (mut low, mut high) = ((longest * 0.02).ln(), longest.ln());
        let inner = |low: f64, high: f64| {
            let (a, b) = (high - golden * (high - low), low + golden * (high - low));
            ((a, of(a.exp())), (b, of(b.exp())))
        };
        let (mut a, mut b) = inner(low, high);
        for _ in 0..20 {
            // A rate that is not carried has no misfit to compare: a shorter time carries it.
            if a.1.1 <= b.1.1 {
                high = b.0;
                let at = high - golden * (high - low);
                (b, a) = (a, (at, of(at.exp())));
            } else {
                low = a.0;
                let at = low + golden * (high - low);
                (a, b) = (b, (at, of(at.exp())));
            }
        }
        if a.1.1 <= b.1.1 { a.1 } else { b.1 }
    }
}

/// Neighbours in rate, put together.
#[derive(Clone, Copy, Debug)]
struct Group {
    per_s: f64,
    mean_s: f64,
    weight: f64,
}

impl OpenLaw {
    /// Fits the law to mean response times of open loops; intervals are at `level`.
    ///
    /// # Errors
    /// Too few observations, or such that contradict it.
    pub fn new(seen: &[Response], level: f64) -> Result<Self, NoLaw> {
        let usable = seen.iter().filter(|one| one.per_s > 0.0 && one.mean_s > 0.0);
        let mut usable: Vec<Response> = usable.copied().collect();
        let levels = levels(usable.iter().map(|one| one.per_s));
        let few = NoLaw::TooFew { observations: usable.len(), levels };
        if usable.len() < FEWEST || levels < FEWEST_LEVELS {
            return Err(few);
        }
        usable.sort_by(|a, b| a.per_s.total_cmp(&b.per_s));
        let groups: Vec<Group> = usable.chunks(usable.len().div_ceil(GROUPS)).map(Group::of).collect();
        let mut fits = Vec::new();
        for contention in steps(CONTENTION, STEPS[0]) {
            for coherency in steps(COHERENCY, STEPS[1]) {
                fits.push(Law::fitted(contention, coherency, &groups));
            }
        }
        let (best, least) = fits.iter().min_by(|a, b| a.1.total_cmp(&b.1)).copied().ok_or(few.clone())?;
        let degrees = groups.len() as f64 - 3.0;
        if !least.is_finite() || degrees < 1.0 {
            return Err(few);
        }
        let variance = (least / degrees).max(1e-6);
        let scatter = variance.sqrt();
        if scatter > MOST_SCATTER {
            return Err(NoLaw::Scatter { scatter });
        }
        let limit = least + allowance(variance, degrees, level);
        let mut region = Vec::new();
        for (law, _) in fits.iter().filter(|(_, misfit)| *misfit <= limit) {
            region.push(*law);
            for factor in [1.005, 1.0 / 1.005] {
                let mut further = *law;
                // The last one outside belongs to the region: the limit lies between.
                while further.misfit(&groups) <= limit {
                    further.alone *= factor;
                    region.push(further);
                }
            }
        }
        let most_seen = groups.iter().map(|one| one.per_s).fold(0.0, f64::max);
        let most_at_work = groups.iter().map(|one| one.per_s * one.mean_s).fold(0.0, f64::max);
        Ok(Self { best, region, most_seen, most_at_work, scatter })
    }

    /// l, s and k, each with its interval.
    pub fn parameters(&self) -> [Interval; 3] {
        [self.range(|law| law.alone), self.range(|law| law.contention), self.range(|law| law.coherency)]
    }

    /// Throughput with this many at work.
    pub fn throughput(&self, at_work: f64) -> Interval {
        self.range(|law| law.throughput(at_work))
    }

    /// The largest throughput, and at how many at work; `None` where the rates seen do not tell it.
    pub fn most(&self) -> Option<(Interval, f64)> {
        let most = self.range(Law::most);
        let told = most.high.is_finite() && self.most_seen >= REACHED * most.high;
        let wide = Interval {
            low: (most.low * (1.0 - MODEL_ERROR)).max(self.most_seen),
            estimate: most.estimate.max(self.most_seen),
            high: most.high * (1.0 + MODEL_ERROR),
        };
        let Law { contention, .. } = self.best;
        // Without a peak, where a twentieth is missing.
        let near = || (19.0 * (1.0 - contention) / contention.max(1e-9)).max(1.0);
        let peak = Some(self.best.peak()).filter(|peak| peak.is_finite());
        told.then(|| (wide, peak.unwrap_or_else(near)))
    }

    fn range(&self, of: impl Fn(&Law) -> f64) -> Interval {
        let estimate = of(&self.best);
        let mut interval = Interval { low: estimate, estimate, high: estimate };
        for value in self.region.iter().map(of) {
            interval.low = interval.low.min(value);
            interval.high = interval.high.max(value);
        }
        interval
    }
}

impl Group {
    /// The means of neighbours; not of none.
    fn of(seen: &[Response]) -> Self {
        let count = seen.len() as f64;
        let per_s = seen.iter().map(|one| one.per_s).sum::<f64>() / count;
        // A transaction counts once: cells of more transactions weigh more.
        let mean_s = seen.iter().map(|one| one.per_s * one.mean_s).sum::<f64>() / (count * per_s);
        Self { per_s, mean_s, weight: 1.0 }
    }
}

/// 0, and values at equal ratios.
fn steps((least, most): (f64, f64), count: usize) -> impl Iterator<Item = f64> {
    let ratio = (most / least).ln() / (count - 1) as f64;
    std::iter::once(0.0).chain((0..count).map(move |at| least * (ratio * at as f64).exp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(alone: f64, contention: f64, coherency: f64) -> Law {
        Law { alone, contention, coherency }
    }

    /// Normal noise by a generator of its own: the test has no other randomness.
    fn noise(seed: &mut u64) -> f64 {
        let mut uniform = || {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((*seed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        };
        (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
    }

    fn seen(mean: impl Fn(f64) -> f64, up_to: f64, sd: f64, seed: &mut u64) -> Vec<Response> {
        let rates = (0..16).map(|at| up_to * (0.25 + 0.75 * f64::from(at / 2) / 7.0));
        let one = |per_s| Response { per_s, mean_s: mean(per_s) * (sd * noise(seed)).exp(), busy: None };
        rates.map(one).collect()
    }

    #[test]
    fn one_server_waits_as_m_m_1_and_one_without_contention_never() {
        let mean = law(1000.0, 1.0, 0.0).mean_s(500.0).unwrap();
        assert!((mean - 0.002).abs() < 1e-8, "{mean}");
        assert_eq!(law(1000.0, 1.0, 0.0).mean_s(1000.0), None);
        let mean = law(1000.0, 0.0, 0.0).mean_s(20_000.0).unwrap();
        assert!((mean - 0.001).abs() < 1e-9, "{mean}");
    }

    #[test]
    fn the_truth_lies_within_the_interval_of_what_is_told() {
        let mut seed = 7;
        let (mut told, mut held) = (0, 0);
        for at in 0..60 {
            let truth = law(1000.0, [0.05, 0.1, 0.2, 0.4][at % 4], [0.0, 0.0005, 0.003][at % 3]);
            let share = [0.5, 0.75, 0.9][at % 3];
            let all = seen(|rate| truth.mean_s(rate).unwrap(), share * truth.most(), 0.03, &mut seed);
            let found = OpenLaw::new(&all, 0.95).unwrap();
            let Some((most, _)) = found.most() else { continue };
            told += 1;
            held += u32::from(most.low <= truth.most() && truth.most() <= most.high);
        }
        assert!(told >= 15, "{told}");
        assert!(f64::from(held) >= 0.93 * f64::from(told), "{held} of {told}");
    }

    #[test]
    fn low_rates_tell_no_largest_throughput() {
        let truth = law(1000.0, 0.1, 0.001);
        let all = seen(|rate| truth.mean_s(rate).unwrap(), 0.2 * truth.most(), 0.03, &mut 3);
        assert_eq!(OpenLaw::new(&all, 0.95).unwrap().most(), None);
    }

    #[test]
    fn cores_that_are_no_such_law_are_refused_or_their_limit_is_within_the_interval() {
        let mut seed = 11;
        for cores in [1, 2, 4, 8] {
            for share in [0.7, 0.85, 0.95] {
                let (demand, full) = (0.002, f64::from(cores) / 0.002);
                let mean = |rate| demand + crate::queue::mean_wait(rate, demand, cores);
                let all = seen(mean, share * full, 0.02, &mut seed);
                let Ok(found) = OpenLaw::new(&all, 0.95) else { continue };
                let Some((most, _)) = found.most() else { continue };
                assert!(most.low <= full && full <= most.high, "{cores} {share}: {most:?} {full}");
            }
        }
    }

    #[test]
    fn few_observations_and_others_than_the_law_are_refused_with_what_to_run() {
        let few = OpenLaw::new(&[Response { per_s: 10.0, mean_s: 0.1, busy: None }; 20], 0.95);
        assert!(few.unwrap_err().to_string().contains("headroom measure --trials"));
        let truth = law(1000.0, 0.1, 0.001);
        let all = seen(|rate| truth.mean_s(rate).unwrap(), 0.8 * truth.most(), 0.5, &mut 5);
        let refused = OpenLaw::new(&all, 0.95).unwrap_err().to_string();
        assert!(refused.contains("headroom plan ladder --clients"), "{refused}");
    }

    #[test]
    fn a_long_history_is_put_together_by_rate() {
        let truth = law(1000.0, 0.2, 0.0);
        let mut seed = 9;
        let all: Vec<Response> = (0..100)
            .flat_map(|_| seen(|rate| truth.mean_s(rate).unwrap(), 0.85 * truth.most(), 0.1, &mut seed))
            .collect();
        let (most, _) = OpenLaw::new(&all, 0.95).unwrap().most().unwrap();
        assert!(most.low < 5000.0 && 5000.0 < most.high, "{most:?}");
    }
}
