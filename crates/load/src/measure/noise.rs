//! How late this machine wakes up who sleeps, while it has nothing to do for us: what no generator on it can
//! be better than.
//!
//! The probe sleeps a millisecond at a time, as an open loop does, and looks at the clock. Virtual machines
//! whose host is busy, power saving and a neighbour's load all show.

use super::Objective;
use plan::quantile::{nearest_rank, sorted};
use std::time::{Duration, Instant};

const SLEEP: Duration = Duration::from_millis(1);
/// More of the objective's time than this must not be the machine's own.
const MOST: f64 = 0.5;

/// How late wake-ups were, in ms, sorted.
#[derive(Clone, Debug, PartialEq)]
pub struct Noise(Vec<f64>);

/// Sleeps a millisecond at a time, for the time given.
pub fn probe(time: Duration) -> Noise {
    let sleeper = std::thread::spawn(move || {
        // Without it a wake-up may be 50 us late by right.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let begin = Instant::now();
        let mut late = Vec::new();
        while begin.elapsed() < time {
            let before = Instant::now();
            std::thread::sleep(SLEEP);
            late.push(before.elapsed().saturating_sub(SLEEP).as_secs_f64() * 1e3);
        }
        late
    });
    // A sleeper has nothing to panic about.
    Noise::of(sleeper.join().unwrap_or_default())
}

impl Noise {
    fn of(late: Vec<f64>) -> Self {
        Self(sorted(late))
    }

    /// By how much wake-ups were late at most in this share of cases, in ms.
    pub fn at(&self, quantile: f64) -> f64 {
        nearest_rank(&self.0, quantile).unwrap_or_default()
    }

    /// Why an objective cannot be measured on this machine, if so.
    pub fn forbids(&self, objective: Objective) -> Option<String> {
        let late = self.at(objective.quantile);
        let within = objective.within.as_secs_f64() * 1e3;
        (late > MOST * within).then(|| {
            format!(
                "this machine is too noisy: it wakes up {late:.2} ms late at p{}, with nothing sent yet, and the objective \
                 has {within} ms in all; stop what else runs here, or use another machine",
                objective.percent()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_finer_than_the_machine_is_refused_in_words() {
        let objective = |within| Objective { quantile: 0.99, within: Duration::from_millis(within) };
        let noise = Noise::of((0..100).map(|n| f64::from(n) / 20.0).collect());
        assert!((noise.at(0.99) - 4.9).abs() < 1e-9);
        assert_eq!(noise.forbids(objective(15)), None);
        assert!(noise.forbids(objective(5)).unwrap().contains("too noisy"));
        assert_eq!(Noise::of(Vec::new()).forbids(objective(1)), None);
    }
}
