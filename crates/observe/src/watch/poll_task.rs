//! The task that asks one server: ask, tell the publisher, wait, ask again.
//!
//! The driver reads what a server sends, and a server may be odd or hostile. So a look that panics, or that
//! does not end, is a failed look and no more: the server is told to be failing, and is asked anew by a fresh
//! poller.

use super::caught::caught;
use super::command::Command;
use crate::answer::Answer;
use crate::ask::AskError;
use crate::discovery_scope::DiscoveryScope;
use crate::pace::{Budget, random};
use crate::poll::Poller;
use crate::survey::{AGREEING, Entry, Origin, ServerId};
use crate::switchover::SwitchoverState;
use config::{Credentials, FleetConfig};
use fleet::Address;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Even a server under suspicion is not asked more often than this.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// A suspicion is followed up with a new connection, the way the suspecting client came, but not more often
/// than this.
const NEW_CONNECTION_EVERY: Duration = Duration::from_secs(1);
/// The interval of the first answers of a server that was discovered, unless the configured one is shorter.
const NEWCOMER_INTERVAL: Duration = Duration::from_millis(100);
/// A server that does not answer is tried again after this long at the latest (or after an interval, if
/// longer).
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A running task that asks one server.
pub(super) struct PollTask {
    pub(super) reach: Address,
    pub(super) how: PollTerms,
    /// Where its name must lead.
    pub(super) inside: Option<DiscoveryScope>,
    poke: Arc<Notify>,
    wake: Arc<Notify>,
    stop: CancellationToken,
    /// Set once it is spawned: whether it still runs.
    pub(super) task: Option<AbortHandle>,
}

/// What of the configuration a poll depends on.
#[derive(Clone, PartialEq)]
pub(super) struct PollTerms {
    interval: Duration,
    budget: Budget,
    deadline: Duration,
    /// A look that takes longer than an answer holds has failed.
    longest: Duration,
    who: Credentials,
}

impl PollTerms {
    pub(super) fn of(config: &FleetConfig) -> Self {
        Self {
            interval: config.interval,
            budget: Budget::of(config),
            deadline: config.deadline,
            longest: config.answer_holds(config.interval),
            who: config.credentials.clone(),
        }
    }
}

impl PollTask {
    /// Starts asking; returns the handle and the task to spawn.
    pub(super) fn start(
        entry: &Entry,
        how: PollTerms,
        inside: Option<DiscoveryScope>,
        tell: mpsc::UnboundedSender<Command>,
        announced: Arc<SwitchoverState>,
        stop: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (poke, wake) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (id, reach) = (entry.id, entry.reach.clone());
        let (called, to, who, deadline) =
            (entry.called.clone(), reach.clone(), how.who.clone(), how.deadline);
        let (seen, budget, within) = (announced.clone(), how.budget, inside.clone());
        let poller = move || {
            let (called, to, who) = (called.clone(), to.clone(), who.clone());
            Poller::new(called, to, who, deadline, within.clone(), seen.clone(), budget)
        };
        // One that was discovered must agree with itself a few times before it is picked: no reason to wait
        // for that.
        let newcomer_polls = if entry.origin == Origin::Seed { 0 } else { AGREEING };
        let terms =
            VisitTerms { interval: how.interval, budget: how.budget, longest: how.longest, newcomer_polls };
        let signals = Signals { poke: poke.clone(), wake: wake.clone(), announced, stop: stop.clone() };
        let task = visit_until(id, poller, terms, tell, signals);
        (Self { reach, how, inside, poke, wake, stop, task: None }, task)
    }

    /// Whether its task is over although nobody stopped it.
    pub(super) fn has_ended(&self) -> bool {
        self.task.as_ref().is_some_and(AbortHandle::is_finished)
    }

    /// Asks now, on a new connection: the server is under suspicion.
    pub(super) fn poke(&self) {
        self.poke.notify_one();
    }

    /// Thinks again about when to ask: something has happened at another server.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }
}

impl Drop for PollTask {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// How often, and how long a look may take.
struct VisitTerms {
    interval: Duration,
    budget: Budget,
    longest: Duration,
    /// This many first answers are asked for at a shorter interval.
    newcomer_polls: u32,
}

/// What may come between two visits.
struct Signals {
    poke: Arc<Notify>,
    wake: Arc<Notify>,
    announced: Arc<SwitchoverState>,
    stop: CancellationToken,
}

/// Why a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rested {
    Over,
    Stopped,
    Suspected,
}

async fn visit_until(
    id: ServerId,
    poller: impl Fn() -> Poller,
    terms: VisitTerms,
    tell: mpsc::UnboundedSender<Command>,
    signals: Signals,
) {
    let (mut failures, mut answers) = (0u32, 0u32);
    let mut last_new = None;
    let mut asks = poller();
    loop {
        let start = Instant::now();
        let outcome = tokio::select! {
            () = signals.stop.cancelled() => break,
            outcome = bounded(asks.visit(), terms.longest) => outcome,
        };
        match &outcome {
            Ok(_) => (failures, answers) = (0, answers.saturating_add(1)),
            Err(error) => {
                failures = failures.saturating_add(1);
                // In which state the old one was left, nobody knows.
                if matches!(error, AskError::Panicked { .. } | AskError::Overdue { .. }) {
                    asks = poller();
                }
            }
        }
        if tell.send(Command::Polled { id, outcome: Box::new(outcome) }).is_err() {
            break;
        }
        let pace = asks.pace();
        let interval = match (failures, answers < terms.newcomer_polls) {
            (0, true) => terms.interval.min(NEWCOMER_INTERVAL),
            (0, false) => pace.interval(),
            _ => pace.while_it_fails(&terms.budget),
        };
        let usual = pace.spread(pause(interval, failures), random()).saturating_sub(start.elapsed());
        match signals.rest(&mut asks, usual.max(SHORTEST_PAUSE), terms.interval).await {
            Rested::Stopped => break,
            Rested::Over => {}
            Rested::Suspected => {
                let pause = SHORTEST_PAUSE + pace.after_suspicion(random());
                if ends_within(&signals.stop, pause).await {
                    break;
                }
                if last_new.is_none_or(|at: Instant| at.elapsed() >= NEW_CONNECTION_EVERY) {
                    last_new = Some(Instant::now());
                    asks.close();
                }
            }
        }
    }
    asks.close();
}

impl Signals {
    /// Waits for the next visit, and gives up the connection meanwhile where many ask.
    async fn rest(&self, asks: &mut Poller, usual: Duration, alone: Duration) -> Rested {
        let start = Instant::now();
        let pause =
            |asks: &Poller| self.announced.pause(usual, alone, &asks.pace(), std::time::Instant::now());
        let mut visit_at = start + pause(asks);
        let mut woken = false;
        loop {
            let gives_up_at = asks.gives_up_after().filter(|_| asks.is_open()).map(|after| start + after);
            let gives_up_at = gives_up_at.filter(|at| *at < visit_at);
            tokio::select! {
                () = self.stop.cancelled() => return Rested::Stopped,
                () = self.poke.notified() => return Rested::Suspected,
                () = self.wake.notified() => {
                    let (now, pause) = (Instant::now(), pause(asks));
                    // All routers are woken by the same thing: those that were to wait for long come one
                    // after the other.
                    let overdue = start + pause < now && !woken;
                    let at = if overdue { now + pause.mul_f64(random()) } else { start + pause };
                    woken |= overdue;
                    visit_at = visit_at.min(at.max(now));
                }
                () = tokio::time::sleep_until(gives_up_at.unwrap_or(visit_at)) => match gives_up_at {
                    Some(_) => asks.close(),
                    None => return Rested::Over,
                },
            }
        }
    }
}

/// Waits for that long, or until it is to stop, and says whether it is.
async fn ends_within(stop: &CancellationToken, pause: Duration) -> bool {
    tokio::time::timeout(pause, stop.cancelled()).await.is_ok()
}

/// A look that panics or outlasts `longest` is a failed one.
async fn bounded(
    look: impl Future<Output = Result<Answer, AskError>>,
    longest: Duration,
) -> Result<Answer, AskError> {
    match tokio::time::timeout(longest, caught(look)).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(why)) => Err(AskError::Panicked { why }),
        Err(_) => Err(AskError::Overdue { age: longest }),
    }
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

    #[tokio::test]
    async fn a_pause_ends_at_once_when_it_is_to_stop() {
        let stop = CancellationToken::new();
        assert!(!ends_within(&stop, Duration::from_millis(1)).await);
        let (start, ends) = (Instant::now(), stop.clone());
        tokio::spawn(async move { ends.cancel() });
        assert!(ends_within(&stop, Duration::from_secs(60)).await);
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[tokio::test]
    async fn a_look_that_panics_or_never_ends_is_a_failed_one() {
        let longest = Duration::from_millis(20);
        let panics = async { panic!("a server sent nonsense") };
        let why = "a server sent nonsense".to_owned();
        assert_eq!(bounded(panics, longest).await.unwrap_err(), AskError::Panicked { why });
        let hangs = std::future::pending();
        assert_eq!(bounded(hangs, longest).await.unwrap_err(), AskError::Overdue { age: longest });
    }
}
