//! When transactions begin.
//!
//! **Closed**: each client begins the next when the last has ended (after its think time). Simple, comparable
//! with sysbench, and blind to stalls: while the server stands still nothing is asked, so nothing is
//! measured.
//!
//! **Open**: transactions begin at moments fixed in advance, whatever the server does, as the users of a site
//! do. The n-th moment follows from the seed alone, not from threads, clients or the server; two runs with
//! the same seed ask the same things at the same times. Response time counts from that moment, so waiting for
//! a free client is part of it.
//!
//! Poisson arrivals have exponential gaps. With a ramp the rate grows in a straight line from `from` to
//! `rate` over the ramp's time T: the n-th moment is where `from t + (rate - from) t^2 / 2T` reaches the sum
//! of n unit exponential gaps (of n ones for even arrivals).

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::Exp1;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// When transactions begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "loop")]
pub enum Arrivals {
    /// As soon as a client is free and has thought.
    Closed {
        /// Between the end of a transaction and the beginning of the next.
        think: Duration,
    },
    /// At moments fixed in advance.
    Open(Open),
}

/// Moments fixed in advance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// Transactions a second once the ramp is over; above 0.
    pub rate: f64,
    /// The rate at the very beginning, with the time in which it becomes `rate`.
    pub ramp: Option<(f64, Duration)>,
    /// How the moments are spread.
    pub spacing: Spacing,
}

/// How moments are spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    /// As independent users: exponential gaps.
    Poisson,
    /// Equal gaps.
    Even,
    /// These moments, in order, counted from the start; repeated from the beginning when they are used up.
    /// `rate` is not looked at.
    #[serde(skip)]
    Recorded(Arc<[Duration]>),
}

impl Arrivals {
    /// Poisson arrivals at a steady rate.
    pub fn poisson(rate: f64) -> Self {
        Self::Open(Open { rate, ramp: None, spacing: Spacing::Poisson })
    }

    /// A closed loop without think time.
    pub const fn closed() -> Self {
        Self::Closed { think: Duration::ZERO }
    }

    /// Whether the moments are fixed in advance.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }
}

impl Open {
    /// The moments themselves, counted from the start, as they follow from a seed: endless.
    pub fn moments(&self, seed: u64) -> impl Iterator<Item = Duration> + use<> {
        let mut schedule = Schedule::new(self, seed, 0, 1);
        std::iter::from_fn(move || Some(Duration::from_nanos(schedule.take()?.at_ns)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Counts from 0 over all threads.
    pub(crate) number: u64,
    /// After the start.
    pub(crate) at_ns: u64,
}

/// The arrivals that one of several threads takes, in order.
#[derive(Debug)]
pub(crate) struct Schedule {
    open: Open,
    rng: SmallRng,
    number: u64,
    /// Sum of the unit gaps so far.
    sum: f64,
    share: (u64, u64),
    /// `None`: there are none.
    next: Option<Arrival>,
}

impl Schedule {
    /// The arrivals `thread`, `thread + threads`, ... of those that follow from the seed.
    pub(crate) fn new(open: &Open, seed: u64, thread: usize, threads: usize) -> Self {
        let share = (thread as u64, threads.max(1) as u64);
        let mut schedule = Self {
            open: open.clone(),
            rng: SmallRng::seed_from_u64(seed),
            number: 0,
            sum: 0.0,
            share,
            next: None,
        };
        schedule.advance();
        schedule
    }

    /// The next arrival, left where it is.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Arrival> {
        self.next
    }

    /// Takes the next arrival.
    pub(crate) fn take(&mut self) -> Option<Arrival> {
        let taken = self.next;
        self.advance();
        taken
    }

    fn advance(&mut self) {
        loop {
            self.next = self.moment_ns().map(|at_ns| Arrival { number: self.number, at_ns });
            self.number += 1;
            if self.next.is_none_or(|arrival| arrival.number % self.share.1 == self.share.0) {
                return;
            }
        }
    }

    fn moment_ns(&mut self) -> Option<u64> {
        if let Spacing::Recorded(moments) = &self.open.spacing {
            let last = moments.last()?;
            let length = moments.len() as u64;
            let round = as_ns(*last).saturating_mul(self.number / length);
            return Some(round.saturating_add(as_ns(moments[(self.number % length) as usize])));
        }
        self.sum += match self.open.spacing {
            Spacing::Poisson => self.rng.sample::<f64, _>(Exp1),
            _ => 1.0,
        };
        Some((self.time_of(self.sum) * 1e9) as u64)
    }

    /// When the expected number of arrivals reaches `n`, in seconds.
    fn time_of(&self, n: f64) -> f64 {
        let rate = self.open.rate;
        let Some((from, ramp)) = self.open.ramp else { return n / rate };
        let length = ramp.as_secs_f64();
        let within = f64::midpoint(from, rate) * length;
        if n >= within {
            return length + (n - within) / rate;
        }
        // a t^2 + from t = n, in the form that stays exact when a is tiny or 0.
        let a = (rate - from) / (2.0 * length);
        2.0 * n / (from + (from * from + 4.0 * a * n).max(0.0).sqrt())
    }
}

fn as_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(open: &Open, count: usize, thread: usize, threads: usize) -> Vec<Arrival> {
        let mut schedule = Schedule::new(open, 5, thread, threads);
        (0..count).filter_map(|_| schedule.take()).collect()
    }

    fn open(rate: f64, spacing: Spacing) -> Open {
        Open { rate, ramp: None, spacing }
    }

    #[test]
    fn the_moments_are_the_same_however_many_threads_share_them() {
        let open = open(1000.0, Spacing::Poisson);
        let alone = moments(&open, 300, 0, 1);
        let mut shared: Vec<Arrival> = (0..3).flat_map(|thread| moments(&open, 100, thread, 3)).collect();
        shared.sort_by_key(|arrival| arrival.number);
        assert_eq!(alone, shared);
    }

    #[test]
    fn poisson_gaps_are_exponential_and_even_gaps_equal() {
        let arrivals = moments(&open(1000.0, Spacing::Poisson), 100_000, 0, 1);
        let gaps: Vec<f64> = arrivals.windows(2).map(|w| (w[1].at_ns - w[0].at_ns) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.02 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
        let even = moments(&open(1000.0, Spacing::Even), 10, 0, 1);
        assert!(even.windows(2).all(|w| w[1].at_ns - w[0].at_ns == 1_000_000));
    }

    #[test]
    fn a_ramp_reaches_its_rate_and_has_half_the_arrivals_on_the_way() {
        let ramp = Some((0.0, Duration::from_secs(10)));
        let open = Open { rate: 100.0, ramp, spacing: Spacing::Even };
        let arrivals = moments(&open, 1500, 0, 1);
        let during = arrivals.iter().filter(|a| a.at_ns <= 10_000_000_000).count();
        assert!((499..=501).contains(&during), "{during}");
        assert!(arrivals[600..].windows(2).all(|w| (w[1].at_ns - w[0].at_ns).abs_diff(10_000_000) < 10));
        assert!(arrivals.windows(2).all(|w| w[0].at_ns < w[1].at_ns));
    }

    #[test]
    fn recorded_moments_begin_again_when_they_are_used_up() {
        let recorded = [1, 5, 10].map(Duration::from_millis);
        let open = open(1.0, Spacing::Recorded(recorded.as_slice().into()));
        let at: Vec<u64> = moments(&open, 6, 0, 1).iter().map(|a| a.at_ns / 1_000_000).collect();
        assert_eq!(at, [1, 5, 10, 11, 15, 20]);
    }

    #[test]
    fn nothing_recorded_is_nothing_to_send() {
        let open = open(1.0, Spacing::Recorded([].into()));
        assert_eq!(moments(&open, 1, 0, 1), []);
        assert_eq!(open.moments(1).next(), None);
    }
}
