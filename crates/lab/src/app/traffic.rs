//! Requests on a schedule that does not wait for earlier ones.

use super::{Endpoint, Shared, request};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Requests per second that one application takes, per endpoint. 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// `GET /timeline`.
    pub timeline: f64,
    /// `POST /orders`.
    pub orders: f64,
    /// `GET /profile`.
    pub profile: f64,
}

/// Requests under way; they go on until [`Traffic::stop`].
#[must_use = "traffic that nobody stops goes on"]
#[derive(Debug)]
pub struct Traffic {
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Rates {
    /// The same mix at another level.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            timeline: self.timeline * factor,
            orders: self.orders * factor,
            profile: self.profile * factor,
        }
    }

    fn of(self, endpoint: Endpoint) -> f64 {
        match endpoint {
            Endpoint::Timeline => self.timeline,
            Endpoint::Orders => self.orders,
            Endpoint::Profile => self.profile,
        }
    }
}

impl Traffic {
    pub(super) fn begin(app: &Arc<Shared>, rates: Rates, seed: u64) -> Self {
        let traffic = Self { stop: CancellationToken::new(), tasks: TaskTracker::new() };
        let mut rng = SmallRng::seed_from_u64(seed);
        for endpoint in Endpoint::ALL {
            let gap = Gap::new(rates.of(endpoint));
            let own_rng = SmallRng::seed_from_u64(rng.next_u64());
            if let Some(gap) = gap {
                let arrivals = arrive(
                    Arc::clone(app),
                    endpoint,
                    gap,
                    own_rng,
                    traffic.stop.clone(),
                    traffic.tasks.clone(),
                );
                traffic.tasks.spawn(arrivals);
            }
        }
        traffic
    }

    /// Takes no further request and waits for those under way; each ends by itself, within its deadlines.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The time from one arrival to the next, on average.
#[derive(Clone, Copy, Debug)]
struct Gap(Duration);

impl Gap {
    fn new(per_second: f64) -> Option<Self> {
        (per_second > 0.0).then(|| Self(Duration::from_secs_f64(1.0 / per_second)))
    }

    /// When arrival `n` is due, after the start: anywhere within the n-th gap. So a span of whole gaps has
    /// exactly as many arrivals as it should, no burst makes a queue of its own, and the zones do not march
    /// in step.
    fn due(self, n: u32, rng: &mut impl Rng) -> Duration {
        self.0 * n + self.0.mul_f64(rng.random_range(0.0..1.0))
    }
}

async fn arrive(
    app: Arc<Shared>,
    endpoint: Endpoint,
    gap: Gap,
    mut rng: SmallRng,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    let start = Instant::now();
    for n in 0.. {
        let due = start + gap.due(n, &mut rng);
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep_until(due.into()) => {}
        }
        let (app, seed) = (Arc::clone(&app), rng.next_u64());
        tasks.spawn(async move { request::run(&app, endpoint, due, seed).await });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_of_whole_gaps_has_exactly_its_arrivals() {
        let gap = Gap::new(5.0).unwrap();
        for seed in 0..20 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let due = (0..100).map(|n| gap.due(n, &mut rng)).filter(|d| *d < Duration::from_secs(4));
            assert_eq!(due.count(), 20);
        }
        assert!(Gap::new(0.0).is_none());
    }
}
