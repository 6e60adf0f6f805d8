//! The task that asks one server: ask, tell the keeper, wait, ask again.

use super::keeper::Command;
use crate::announced::Announced;
use crate::survey::{Entry, ServerId};
use crate::visit::Visitor;
use fleet::Address;
use fleet::config::{Credentials, FleetConfig};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Even a server under suspicion is not asked more often than this.
const BREATH: Duration = Duration::from_millis(50);
/// A suspicion is followed up with a new connection, the way the suspecting client came, but not more often than this.
const NEW_CONNECTION_EVERY: Duration = Duration::from_secs(1);
/// A server that does not answer is tried again after this long at the latest (or after an interval, if longer).
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A running task that asks one server.
pub(super) struct Visiting {
    pub(super) reach: Address,
    pub(super) how: How,
    poke: Arc<Notify>,
    stop: CancellationToken,
}

/// What of the configuration a visiting task depends on.
#[derive(Clone, PartialEq)]
pub(super) struct How {
    interval: Duration,
    deadline: Duration,
    who: Credentials,
}

impl How {
    pub(super) fn of(config: &FleetConfig) -> Self {
        Self { interval: config.interval, deadline: config.deadline, who: config.credentials.clone() }
    }
}

impl Visiting {
    /// Starts asking; returns the handle and the task to spawn.
    pub(super) fn start(
        entry: &Entry,
        how: How,
        tell: mpsc::UnboundedSender<Command>,
        announced: Arc<Announced>,
        stop: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let poke = Arc::new(Notify::new());
        let (id, reach) = (entry.id, entry.reach.clone());
        let visitor = Visitor::new(
            entry.called.clone(),
            reach.clone(),
            how.who.clone(),
            how.deadline,
            announced.clone(),
        );
        let task = visit_until(id, visitor, how.interval, poke.clone(), tell, announced, stop.clone());
        (Self { reach, how, poke, stop }, task)
    }

    /// Asks now.
    pub(super) fn poke(&self) {
        self.poke.notify_one();
    }
}

impl Drop for Visiting {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn visit_until(
    id: ServerId,
    mut visitor: Visitor,
    interval: Duration,
    poke: Arc<Notify>,
    tell: mpsc::UnboundedSender<Command>,
    announced: Arc<Announced>,
    stop: CancellationToken,
) {
    let mut failures = 0u32;
    let mut last_new = None;
    loop {
        let start = Instant::now();
        let outcome = tokio::select! {
            () = stop.cancelled() => break,
            outcome = visitor.visit() => outcome,
        };
        failures = if outcome.is_ok() { 0 } else { failures.saturating_add(1) };
        if tell.send(Command::Visited { id, outcome: Box::new(outcome) }).is_err() {
            break;
        }
        let usual = pause(interval, failures).saturating_sub(start.elapsed()).max(BREATH);
        let pause = announced.pause(usual, std::time::Instant::now());
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(pause) => {}
            () = poke.notified() => {
                tokio::time::sleep(BREATH).await;
                if last_new.is_none_or(|at: Instant| at.elapsed() >= NEW_CONNECTION_EVERY) {
                    last_new = Some(Instant::now());
                    visitor.close();
                }
            }
        }
    }
    visitor.close();
}

/// Twice as long with every failure, up to the longest pause.
fn pause(interval: Duration, failures: u32) -> Duration {
    let longest = LONGEST_PAUSE.max(interval);
    interval.saturating_mul(1 << failures.saturating_sub(1).min(8)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_failures_up_to_a_limit() {
        let half = Duration::from_millis(500);
        let pauses: Vec<u128> = (0..6).map(|failures| pause(half, failures).as_millis()).collect();
        assert_eq!(pauses, [500, 500, 1000, 2000, 2000, 2000]);
        assert_eq!(pause(Duration::from_secs(10), 9), Duration::from_secs(10));
    }
}
