//! The largest rate of Poisson arrivals at which a queue still meets an objective, exactly.
//!
//! **M/M/1**, m served a second: the response time is exponential, `P(T > t) = exp(-(m - r) t)`, so that
//! `r = m - ln(1 / (1 - q)) / t`. Example: m = 1000, p99 < 20 ms: 1000 - 4.605 / 0.02 = 769.7 a second.
//!
//! **M/D/c**, c places of constant time D. Within D exactly those leave that were served at its beginning, so
//! that the number in the system follows `N(t + D) = max(N(t) - c, 0) + Poisson(r D)`; its steady state p is
//! found by iterating. With `Q(m) = p(0) + ... + p(c + m)`, u = k D - x and k the whole number for which (k -
//! 1) D <= x < k D, the waiting time has
//!
//! ```text
//! P(W <= x) = exp(-r u) * sum over j from 0 to k c - 1 of Q(k c - 1 - j) (r u)^j / j!
//! ```
//! (G. J. Franx, A simple solution for the M/D/c waiting time distribution, Operations Research Letters 29,
//! 2001.) Check for c = 1 and x = 0: exp(-r D) (p(0) + p(1)) = 1 - r D, as it must be. The rate is found by
//! halving.

use super::{Service, Time};
use std::time::Duration;

/// Longer queues than this are so rare under any objective worth having that they do not count.
const LONGEST: usize = 400;
/// Arrivals within D beyond which nothing is left of a Poisson distribution.
const TAIL: usize = 120;
const PRECISE: f64 = 1e-12;

/// The largest rate, in statements a second, at which this share of answers comes within a time. `None` where
/// there is no theory for the queue here (several places with exponential times, no queue at all) or no rate
/// meets it.
pub fn largest_rate(service: &Service, quantile: f64, within: Duration) -> Option<f64> {
    let within = within.as_secs_f64();
    let Service::Queue { servers, time } = service else { return None };
    let found = match time {
        Time::Exponential(mean, _) if *servers == 1 => {
            1.0 / mean.as_secs_f64() + (1.0 - quantile).ln() / within
        }
        Time::Exponential(..) => return None,
        Time::Constant(time) => {
            let time = time.as_secs_f64();
            let meets = |load: f64| in_time(*servers, load, within / time - 1.0) >= quantile;
            let (mut low, mut high) = (0.0, 0.995 * *servers as f64);
            while high - low > 1e-4 * high {
                let middle = f64::midpoint(low, high);
                if meets(middle) { low = middle } else { high = middle }
            }
            low / time
        }
    };
    (found > 0.0).then_some(found)
}

/// `P(W <= x)` with D as the unit of time: `load` arrivals within it on average.
fn in_time(servers: usize, load: f64, x: f64) -> f64 {
    if x < 0.0 {
        return 0.0;
    }
    let steady = steady(servers, load);
    let mut sum = 0.0;
    let up_to: Vec<f64> = steady
        .iter()
        .map(|p| {
            sum += p;
            sum
        })
        .collect();
    let k = x.floor() + 1.0;
    let u = load * (k - x);
    let most = k as usize * servers - 1;
    let at = |m: usize| up_to.get(servers + m).copied().unwrap_or(1.0);
    let mut term = (-u).exp();
    let mut found = 0.0;
    for j in 0..=most {
        found += at(most - j) * term;
        term *= u / (j + 1) as f64;
    }
    found
}

/// The steady state of the number in the system.
fn steady(servers: usize, load: f64) -> Vec<f64> {
    let mut term = (-load).exp();
    let arrivals: Vec<f64> = (0..TAIL)
        .map(|n| {
            let this = term;
            term *= load / (n + 1) as f64;
            this
        })
        .collect();
    let mut state = vec![0.0; LONGEST];
    state[0] = 1.0;
    loop {
        let mut next = vec![0.0; LONGEST];
        for (n, p) in state.iter().enumerate().filter(|(_, p)| **p > PRECISE * PRECISE) {
            let left = n.saturating_sub(servers);
            for (more, q) in arrivals.iter().enumerate().take(LONGEST - left) {
                next[left + more] += p * q;
            }
        }
        let whole: f64 = next.iter().sum();
        next.iter_mut().for_each(|p| *p /= whole);
        let moved: f64 = next.iter().zip(&state).map(|(a, b)| (a - b).abs()).sum();
        state = next;
        if moved < PRECISE * 1e3 {
            return state;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Queue;
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn queue(servers: usize, time: Time) -> Service {
        Service::Queue { servers, time }
    }

    #[test]
    fn one_place_with_exponential_times_is_as_in_the_books() {
        let service = queue(1, Time::Exponential(Duration::from_millis(1), 1));
        let found = largest_rate(&service, 0.99, Duration::from_millis(20)).unwrap();
        assert!((found - 769.741).abs() < 0.01, "{found}");
        assert_eq!(largest_rate(&service, 0.99, Duration::from_millis(4)), None);
    }

    #[test]
    fn an_empty_system_is_found_as_often_as_it_must_be() {
        for load in [0.2, 0.9] {
            assert!((in_time(1, load, 0.0) - (1.0 - load)).abs() < 1e-6);
        }
    }

    #[test]
    fn several_places_with_constant_times_do_what_a_long_run_of_the_queue_does() {
        let (time, within) = (Duration::from_millis(4), Duration::from_millis(12));
        let service = queue(4, Time::Constant(time));
        let rate = largest_rate(&service, 0.95, within).unwrap();
        let (mut simulated, mut rng) = (Queue::new(service), SmallRng::seed_from_u64(1));
        let (mut now, mut late) = (Duration::ZERO, 0_u32);
        for _ in 0..2_000_000 {
            now += Duration::from_secs_f64(-(1.0 - rng.random::<f64>()).ln() / rate);
            late += u32::from(simulated.answered(now).unwrap() - now > within);
        }
        let share = f64::from(late) / 2e6;
        assert!((share - 0.05).abs() < 0.004, "{share} late at {rate} a second");
    }
}
