//! While a server announces that its role moves: all servers are asked often, and we answer with locks of our
//! own.
//!
//! What is announced, and why by locks: [`fleet::announcement`]. The locks are those of the control
//! connection that saw the announcement; they end with it at the latest, and nothing on the server is changed
//! by them.

use crate::ask::{AskError, ControlConnection};
use crate::pace::{OFTEN, Pace};
use fleet::Announcement;
use fleet::announcement::{holding, ready};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Asked often for this long after the last announcement was seen: the end of one is as interesting as its
/// beginning.
const LINGER: Duration = Duration::from_secs(2);

/// Shared by all tasks that ask servers.
#[derive(Debug)]
pub(crate) struct SwitchoverState {
    base: Instant,
    /// Milliseconds after `base` until which all servers are asked often.
    often_until_ms: AtomicU64,
    /// The same while a primary is looked for.
    looking_until_ms: AtomicU64,
    /// The highest epoch that any server has shown.
    highest: AtomicU64,
    /// Set by the router: writes are held, and no writer session is left on the server that announces.
    drained: OnceLock<Arc<AtomicBool>>,
}

impl SwitchoverState {
    pub(crate) fn new(now: Instant) -> Arc<Self> {
        Arc::new(Self {
            base: now,
            often_until_ms: AtomicU64::new(0),
            looking_until_ms: AtomicU64::new(0),
            highest: AtomicU64::new(0),
            drained: OnceLock::new(),
        })
    }

    /// Whoever holds writes says here when it has none left. Only the first one given counts.
    pub(crate) fn confirm_with(&self, drained: Arc<AtomicBool>) {
        let _ = self.drained.set(drained);
    }

    pub(crate) fn saw(&self, announced: Announcement, now: Instant) {
        if announced != Announcement::Nothing {
            self.often_until_ms.fetch_max(self.ms(now + LINGER), Relaxed);
        }
    }

    /// An operation holds its lock on a server that takes writes: its end is near.
    pub(crate) fn saw_operation(&self, now: Instant) {
        self.often_until_ms.fetch_max(self.ms(now + LINGER), Relaxed);
    }

    /// Whether all servers are asked often now.
    pub(crate) fn is_near(&self, now: Instant) -> bool {
        self.ms(now) < self.often_until_ms.load(Relaxed)
    }

    /// The highest epoch that any server has shown; it never goes back.
    pub(crate) fn raise(&self, epoch: u64) {
        self.highest.fetch_max(epoch, Relaxed);
    }

    pub(crate) fn highest(&self) -> u64 {
        self.highest.load(Relaxed)
    }

    /// No primary is known, or the one we know is under suspicion: a new one is looked for.
    pub(crate) fn looks_for_a_primary(&self, now: Instant) {
        self.looking_until_ms.fetch_max(self.ms(now + LINGER), Relaxed);
    }

    /// Time until the next look at a server; `usual` when nothing is under way. `alone` is the configured
    /// interval.
    pub(crate) fn pause(&self, usual: Duration, alone: Duration, pace: &Pace, now: Instant) -> Duration {
        let now = self.ms(now);
        if now < self.often_until_ms.load(Relaxed) {
            usual.min(pace.in_an_event(OFTEN))
        } else if now < self.looking_until_ms.load(Relaxed) {
            usual.min(pace.in_an_event(alone))
        } else {
            usual
        }
    }

    /// `None` without a router: a guard or an agent holds nothing, and nobody may wait for it.
    fn is_drained(&self) -> Option<bool> {
        self.drained.get().map(|drained| drained.load(Relaxed))
    }

    fn ms(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.base).as_millis() as u64
    }
}

/// What one control connection has answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    ready: bool,
    holding: bool,
}

impl Acknowledgement {
    /// What to say next to a server that announces this: statements, and what will have been answered then.
    /// Whoever routes nothing (`drained` is `None`) says nothing: a switchover waits for each that is ready,
    /// while writes are held. Pure.
    fn next(self, announced: Announcement, drained: Option<bool>, connection: u64) -> (Vec<String>, Self) {
        let wanted = Self {
            ready: drained.is_some() && announced != Announcement::Nothing,
            holding: announced == Announcement::Hold && drained == Some(true),
        };
        let mut statements = Vec::new();
        for (has, wants, lock) in [
            (self.ready, wanted.ready, ready(connection)),
            (self.holding, wanted.holding, holding(connection)),
        ] {
            match (has, wants) {
                (false, true) => statements.push(format!("DO GET_LOCK('{lock}', 0)")),
                (true, false) => statements.push(format!("DO RELEASE_LOCK('{lock}')")),
                _ => {}
            }
        }
        (statements, wanted)
    }

    /// Answers an announcement on the connection that saw it.
    pub(crate) async fn answer(
        &mut self,
        connection: &mut ControlConnection,
        announced: Announcement,
        id: Option<u64>,
        all: &SwitchoverState,
        deadline: Duration,
    ) -> Result<(), AskError> {
        let Some(id) = id else { return Ok(()) };
        let (statements, then) = self.next(announced, all.is_drained(), id);
        for statement in statements {
            connection.ask(&statement, deadline).await?;
        }
        *self = then;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Budget;

    #[test]
    fn all_servers_are_asked_often_from_an_announcement_until_some_time_after_its_end() {
        let now = Instant::now();
        let announced = SwitchoverState::new(now);
        let usual = Duration::from_millis(500);
        let pace = Pace::new(&Budget::of(&config::FleetConfig::default()));
        let pause = |now| announced.pause(usual, usual, &pace, now);
        assert_eq!(pause(now), usual);
        announced.saw(Announcement::Prepare, now);
        announced.saw(Announcement::Nothing, now + Duration::from_secs(1));
        assert_eq!(pause(now + Duration::from_secs(1)), OFTEN);
        assert_eq!(pause(now + Duration::from_secs(3)), usual);
    }

    #[test]
    fn a_hold_is_confirmed_only_once_it_is_drained_and_withdrawn_with_the_announcement() {
        let (said, ready) = Acknowledgement::default().next(Announcement::Prepare, Some(true), 7);
        assert_eq!(said, ["DO GET_LOCK('headroom.ready.7', 0)"]);
        assert_eq!(ready.next(Announcement::Prepare, Some(true), 7).0, Vec::<String>::new());
        assert_eq!(ready.next(Announcement::Hold, Some(false), 7).0, Vec::<String>::new());
        let (said, holds) = ready.next(Announcement::Hold, Some(true), 7);
        assert_eq!(said, ["DO GET_LOCK('headroom.holding.7', 0)"]);
        let (said, nothing) = holds.next(Announcement::Nothing, Some(true), 7);
        assert_eq!(said, ["DO RELEASE_LOCK('headroom.ready.7')", "DO RELEASE_LOCK('headroom.holding.7')"]);
        assert_eq!(nothing, Acknowledgement::default());
    }

    #[test]
    fn whoever_routes_nothing_is_waited_for_by_nobody() {
        let guard = SwitchoverState::new(Instant::now());
        for announced in [Announcement::Prepare, Announcement::Hold] {
            let (said, answered) = Acknowledgement::default().next(announced, guard.is_drained(), 7);
            assert_eq!((said, answered), (Vec::new(), Acknowledgement::default()));
        }
        let router = SwitchoverState::new(Instant::now());
        router.confirm_with(Arc::default());
        let (said, _) = Acknowledgement::default().next(Announcement::Hold, router.is_drained(), 7);
        assert_eq!(said, ["DO GET_LOCK('headroom.ready.7', 0)"], "its sessions have not left");
    }
}
