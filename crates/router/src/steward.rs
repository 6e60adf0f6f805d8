//! Steward: the thin loop around `placement`: hears snapshots, says which sessions should leave, keeps the pace.
//!
//! Ten times a second it compares what we hold with what we should hold, and leaves each server's tally a quota: so
//! many sessions may be closed now. The threads of the data plane look for sessions that are idle and quiet and take
//! from the quota. What they do not find, stays in the quota; nothing is closed to fulfil a plan.
//!
//! **How quiet is quiet.** A client that is in the middle of a request pauses as well, for as long as the request computes or its
//! machine is short of processors. So a move for balance first looks for sessions that have been quiet for ten times the configured
//! `quiet`, and comes down to it over five seconds in which none was found. Each session found takes back a fifth of that.

use crate::board::{Board, Sight};
use crate::closed::Closed;
use crate::placement::{self, Held, Leave, PACED_AFTER, TRIM_AFTER, Urgency};
use crate::tally::{Tally, Wanted};
use crate::worker::{Handle, Message, Placement};
use fleet::config::Replace;
use fleet::{ListenerRole, ServerName, Snapshot};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// Time between two looks.
const TICK: Duration = Duration::from_millis(100);
/// The sight is renewed at least once in so many ticks: warm-up grows and suspicions end by the clock.
const RENEW: u32 = 5;
/// How long a number of sessions is remembered; see `placement`.
const REMEMBER: Duration = Duration::from_secs(3);
/// A move first looks for sessions that were quiet for so many times the configured time ...
const MOST_QUIET: f64 = 10.0;
/// ... and comes down to it over this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// The slowest pace: one session a second, however few there are.
const SLOWEST: f64 = 1.0;

/// What the steward carries from look to look.
#[derive(Debug, Default)]
struct Steward {
    /// Sessions that may be closed now within the pace; fractions add up.
    tokens: f64,
    /// What was allowed at the last look.
    given: Vec<Given>,
    /// Sessions that have been wanted gone for a while.
    wants: HashMap<(ServerName, ListenerRole), Want>,
    /// Reader sessions lately, as (when, how many), falling.
    recent: VecDeque<(Instant, u32)>,
    /// When it looked last.
    last: Option<Instant>,
}

/// Sessions of one role that are wanted gone from a server.
#[derive(Clone, Copy, Debug)]
struct Want {
    /// Since when.
    since: Instant,
    /// Time spent looking without finding a session quiet enough.
    searched: Duration,
}

#[derive(Debug)]
struct Given {
    tally: Arc<Tally>,
    role: ListenerRole,
    quota: u32,
    paced: bool,
}

/// Runs until the snapshots end or the task is dropped.
pub(crate) async fn serve(
    board: Arc<Board>,
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    workers: Arc<[Handle]>,
    stopping: Arc<AtomicBool>,
) {
    let mut steward = Steward::default();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut count = 0u32;
    let mut fed = true;
    loop {
        tokio::select! {
            changed = snapshots.changed(), if fed => {
                fed = changed.is_ok();
                let snapshot = snapshots.borrow_and_update().clone();
                board.renew(Some(snapshot));
                // Clients wait while writes are held: no tick is waited for.
                if board.sight().view.held_primary().is_some() {
                    steward.look_and_tell(&board, &workers, &stopping);
                }
            }
            _ = ticks.tick() => {
                count = count.wrapping_add(1);
                if count.is_multiple_of(RENEW) {
                    board.renew(None);
                }
                for server in board.overdue_drains(Instant::now()) {
                    workers.iter().for_each(|w| {
                        w.tell(Message::Placement(Placement::Cut(server.clone(), Closed::DrainDeadline)));
                    });
                }
                steward.look_and_tell(&board, &workers, &stopping);
            }
        }
    }
}

impl Steward {
    fn look_and_tell(&mut self, board: &Board, workers: &[Handle], stopping: &AtomicBool) {
        if self.look(board, stopping.load(Relaxed), Instant::now()) {
            workers.iter().for_each(|w| {
                w.tell(Message::Placement(Placement::Look));
            });
        }
        board.writes_drained.store(is_drained(&board.sight()), Relaxed);
    }

    /// Sets every quota anew; `true` when some session may be closed.
    fn look(&mut self, board: &Board, stopping: bool, now: Instant) -> bool {
        let sight = board.sight();
        let replace = sight.view.config.replace;
        let departed = board.departed();
        let held: Vec<Held> = sight.tallies.iter().map(held).collect();
        let all = || sight.tallies.iter().chain(&departed);
        let [readers, writers] = [ListenerRole::Reader, ListenerRole::Writer]
            .map(|role| all().map(|tally| tally.sessions(role)).sum::<u32>());
        let elapsed =
            self.last.replace(now).map_or(TICK, |last| now.saturating_duration_since(last).min(TICK));
        self.earn(&replace, readers + writers, elapsed);
        let remembered = self.remember(readers, now);
        let mut leaves: Vec<(Arc<Tally>, Leave)> =
            placement::decide(&sight.view, &held, remembered, board.phase)
                .into_iter()
                .filter(|leave| replace.enabled || leave.urgency == Urgency::Draining)
                .map(|leave| (sight.tallies[leave.server].clone(), leave))
                .collect();
        leaves.extend(departed.iter().filter(|_| replace.enabled).flat_map(gone));
        if stopping {
            leaves = sight.tallies.iter().chain(&departed).flat_map(everybody).collect();
        }
        let drains = board.drains();
        let ends = |tally: &Tally| drains.get(&tally.name).map_or(now, |d| d.deadline);
        self.grant(leaves, &replace, stopping, ends, now)
    }

    /// Takes what was closed since the last look off the pace, and adds what time has earned.
    fn earn(&mut self, replace: &Replace, sessions: u32, elapsed: Duration) {
        for given in &self.given {
            let closed = given.quota.saturating_sub(given.tally.wish(given.role).left());
            if given.paced {
                self.tokens -= f64::from(closed);
            }
            if let Some(want) = self.wants.get_mut(&(given.tally.name.clone(), given.role))
                && given.quota > 0
            {
                want.searched = if closed > 0 { want.searched * 4 / 5 } else { want.searched + elapsed };
            }
        }
        let pace = (replace.pace_per_second * f64::from(sessions)).max(SLOWEST);
        self.tokens = (self.tokens + pace * elapsed.as_secs_f64()).min((pace / 2.0).max(1.0));
    }

    /// The most reader sessions there were lately.
    fn remember(&mut self, readers: u32, now: Instant) -> u32 {
        while self.recent.back().is_some_and(|(_, n)| *n <= readers) {
            self.recent.pop_back();
        }
        self.recent.push_back((now, readers));
        while self.recent.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > REMEMBER) {
            self.recent.pop_front();
        }
        self.recent.front().map_or(readers, |(_, n)| *n)
    }

    fn grant(
        &mut self,
        mut leaves: Vec<(Arc<Tally>, Leave)>,
        replace: &Replace,
        stopping: bool,
        drained_by: impl Fn(&Tally) -> Instant,
        now: Instant,
    ) -> bool {
        for given in self.given.drain(..) {
            given.tally.wish(given.role).set(None);
        }
        self.wants
            .retain(|(name, role), _| leaves.iter().any(|(t, leave)| t.name == *name && leave.role == *role));
        // The fullest first: with one session a second, order matters.
        leaves.sort_by_key(|(_, leave)| std::cmp::Reverse(leave.sessions));
        let mut budget = self.tokens.max(0.0).floor() as u32;
        for (tally, leave) in leaves {
            let new = Want { since: now, searched: Duration::ZERO };
            let want = *self.wants.entry((tally.name.clone(), leave.role)).or_insert(new);
            let waited = now.saturating_duration_since(want.since);
            let paced = matches!(leave.urgency, Urgency::Paced | Urgency::Trim);
            let quota = match leave.urgency {
                Urgency::AtOnce => leave.sessions,
                Urgency::Draining => drain_share(leave.sessions, drained_by(&tally), now),
                Urgency::Paced if waited < PACED_AFTER => 0,
                Urgency::Trim if waited < TRIM_AFTER => 0,
                Urgency::Paced | Urgency::Trim => leave.sessions.min(budget),
            };
            if paced {
                budget -= quota;
            }
            let wanted = Wanted {
                quota,
                why: leave.why,
                quiet: quiet(replace.quiet, leave.urgency, want.searched),
                light_state_too: !paced,
                all_state_too: stopping || replace.sticky_limit.is_some_and(|limit| waited >= limit),
            };
            tally.wish(leave.role).set(Some(wanted));
            self.given.push(Given { tally, role: leave.role, quota, paced });
        }
        self.given.iter().any(|g| g.quota > 0)
    }
}

/// Whether writes are held and no writer session, relayed or bypassed, is left on the server that they are held from.
fn is_drained(sight: &Sight) -> bool {
    let held = sight.view.held_primary().and_then(|server| sight.tallies.get(server));
    held.is_some_and(|tally| tally.sessions(ListenerRole::Writer) == 0)
}

fn held(tally: &Arc<Tally>) -> Held {
    Held { readers: tally.staying(ListenerRole::Reader), writers: tally.staying(ListenerRole::Writer) }
}

/// Everybody on a server that is no longer part of the fleet.
fn gone(tally: &Arc<Tally>) -> Vec<(Arc<Tally>, Leave)> {
    leave_all(tally, Closed::NotEligible, Urgency::Paced)
}

/// Everybody, because the router stops.
fn everybody(tally: &Arc<Tally>) -> Vec<(Arc<Tally>, Leave)> {
    leave_all(tally, Closed::Stopping, Urgency::AtOnce)
}

fn leave_all(tally: &Arc<Tally>, why: Closed, urgency: Urgency) -> Vec<(Arc<Tally>, Leave)> {
    let Held { readers, writers } = held(tally);
    [(ListenerRole::Reader, readers), (ListenerRole::Writer, writers)]
        .into_iter()
        .filter(|(_, sessions)| *sessions > 0)
        .map(|(role, sessions)| (tally.clone(), Leave { server: usize::MAX, role, sessions, why, urgency }))
        .collect()
}

/// How long a session must have been quiet, after `searched` without finding one.
fn quiet(configured: Duration, urgency: Urgency, searched: Duration) -> Duration {
    let patience = match urgency {
        Urgency::Trim | Urgency::Paced => PATIENCE,
        Urgency::Draining => PATIENCE / 5,
        Urgency::AtOnce => return configured,
    };
    let left = 1.0 - (searched.as_secs_f64() / patience.as_secs_f64()).min(1.0);
    configured.mul_f64(1.0 + (MOST_QUIET - 1.0) * left)
}

/// Sessions to close in this tick so that a server is empty after half of the time that is left.
fn drain_share(sessions: u32, deadline: Instant, now: Instant) -> u32 {
    let left = deadline.saturating_duration_since(now).as_secs_f64() / 2.0;
    let share = f64::from(sessions) * TICK.as_secs_f64() / left.max(TICK.as_secs_f64());
    (share.ceil() as u32).clamp(1, sessions.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Seat;

    fn leave(sessions: u32) -> Leave {
        let (role, why) = (ListenerRole::Reader, Closed::Balance);
        Leave { server: 0, role, sessions, why, urgency: Urgency::Paced }
    }

    #[test]
    fn no_more_than_the_pace_is_closed_however_many_should_leave() {
        let tally = Arc::new(Tally::new(ServerName::new("r"), 1));
        let mut seats: Vec<Seat> =
            (0..200).map(|_| Seat::take(tally.clone(), ListenerRole::Reader, 0)).collect();
        let (mut steward, mut now, mut closed) = (Steward::default(), Instant::now(), 0);
        for _ in 0..100 {
            now += TICK;
            steward.earn(&Replace::default(), 200, TICK);
            let leaves = vec![(tally.clone(), leave(100))];
            steward.grant(leaves, &Replace::default(), false, |_| now, now);
            while tally.wish(ListenerRole::Reader).take() {
                seats.pop();
                closed += 1;
            }
        }
        // 5 % of 200 sessions a second, for ten seconds less the one that the excess must have lasted.
        assert!((90..=100).contains(&closed), "{closed}");
    }

    #[test]
    fn state_counts_until_the_limit_has_passed() {
        let tally = Arc::new(Tally::new(ServerName::new("r"), 1));
        let (mut steward, start) = (Steward { tokens: 1.0, ..Steward::default() }, Instant::now());
        let mut state_too = |after: u64| {
            let now = start + Duration::from_secs(after);
            steward.grant(vec![(tally.clone(), leave(1))], &Replace::default(), false, |_| now, now);
            tally.wish(ListenerRole::Reader).now().is_some_and(|w| w.all_state_too)
        };
        assert!(!state_too(1) && !state_too(300) && state_too(301));
    }

    #[test]
    fn the_number_of_sessions_is_remembered_for_a_while() {
        let (mut steward, start) = (Steward::default(), Instant::now());
        let mut at = |ms: u64, n: u32| steward.remember(n, start + Duration::from_millis(ms));
        assert_eq!((at(0, 10), at(100, 7), at(2900, 8), at(3100, 8), at(3200, 9)), (10, 10, 10, 8, 9));
    }

    #[test]
    fn a_move_looks_for_very_quiet_sessions_first_and_then_for_quiet_ones() {
        let ms = Duration::from_millis;
        let after = |searched| quiet(ms(20), Urgency::Paced, searched);
        assert_eq!((after(ms(0)), after(ms(2500)), after(ms(9000))), (ms(200), ms(110), ms(20)));
        assert_eq!(quiet(ms(20), Urgency::AtOnce, ms(0)), ms(20));
        assert_eq!(quiet(ms(20), Urgency::Draining, ms(1000)), ms(20));
    }

    #[test]
    fn a_drain_is_done_in_half_of_its_time() {
        let now = Instant::now();
        assert_eq!(drain_share(100, now + Duration::from_secs(20), now), 1);
        assert_eq!(drain_share(1000, now + Duration::from_secs(20), now), 10);
        assert_eq!(drain_share(7, now, now), 7);
    }
}
