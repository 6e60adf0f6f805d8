//! Steward: the thin loop around `placement`: hears snapshots, says which sessions should leave, keeps the pace.
//!
//! Ten times a second it compares what we hold with what we should hold, and leaves each server's tally a quota: so
//! many sessions may be closed now. The threads of the data plane look for sessions that are idle and quiet and take
//! from the quota. What they do not find, stays in the quota; nothing is closed to fulfil a plan.
//!
//! **How quiet is quiet.** A client that is in the middle of a request pauses as well, for as long as the request computes or its
//! machine is short of processors. So a move for balance first looks for sessions that have been quiet for ten times the configured
//! `quiet`, and comes down to it over five seconds in which none was found. Each session found takes back a fifth of that.
//!
//! **Who goes first.** Servers that are not eligible before those that merely hold too many; among equals the
//! fullest. One whose sessions have been looked at in vain for those five seconds comes after the others: its
//! sessions may all hold state or never rest, and with a pace of a session or two a second it would keep
//! everybody else from leaving. What a move waits for is told in the status ([`Leaving`]).

use crate::board::{Board, Sight};
use crate::closed::Closed;
use crate::placement::{self, Held, Leave, PACED_AFTER, TRIM_AFTER, Urgency};
use crate::supervise::{PAUSE, Pulse, caught};
use crate::tally::{Tally, Wanted};
use crate::worker::{Handle, Message, Placement};
use config::Replace;
use fleet::{ListenerRole, ServerName, Snapshot};
use serde::Serialize;
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
/// Sessions with prepared statements are spared by a move for balance for this long: others may do.
const PREPARED_AFTER: Duration = Duration::from_secs(10);
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
    /// Sessions a second that may be closed.
    pace: f64,
    /// What the last look found to leave.
    leaving: Vec<Leaving>,
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

/// Sessions that should leave a server and have not yet, and what that waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Leaving {
    /// The server.
    pub server: ServerName,
    /// Which sessions.
    pub role: ListenerRole,
    /// How many of them.
    pub sessions: u32,
    /// Why they should leave: the words of [`Closed`].
    pub why: &'static str,
    /// What it waits for, in words.
    pub waits_for: String,
}

#[derive(Debug)]
struct Given {
    tally: Arc<Tally>,
    role: ListenerRole,
    quota: u32,
    paced: bool,
}

/// Runs until the task is dropped, and starts anew when it panics.
pub(crate) async fn keep(
    board: Arc<Board>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    workers: Arc<[Handle]>,
    stopping: Arc<AtomicBool>,
) {
    let pulse = Pulse::new("rebalancer".to_owned());
    board.health.watch(pulse.clone());
    loop {
        let _ = caught(serve(&board, snapshots.clone(), &workers, &stopping, &pulse)).await;
        board.health.ended(&pulse.part, "it panicked");
        tokio::time::sleep(PAUSE).await;
    }
}

async fn serve(
    board: &Board,
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    workers: &[Handle],
    stopping: &AtomicBool,
    pulse: &Pulse,
) {
    // What came while nobody listened.
    snapshots.mark_changed();
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
                    steward.look_and_tell(board, workers, stopping);
                }
            }
            _ = ticks.tick() => {
                pulse.answer();
                assert!(!board.rebalancer_fails.swap(false, Relaxed), "a fault was asked for");
                count = count.wrapping_add(1);
                if count.is_multiple_of(RENEW) {
                    board.renew(None);
                }
                for server in board.overdue_drains(Instant::now()) {
                    workers.iter().for_each(|w| {
                        let _ = w.tell(Message::Placement(Placement::Cut(server.clone(), Closed::DrainDeadline)));
                    });
                }
                steward.look_and_tell(board, workers, stopping);
            }
        }
    }
}

impl Steward {
    fn look_and_tell(&mut self, board: &Board, workers: &[Handle], stopping: &AtomicBool) {
        if self.look(board, stopping.load(Relaxed), Instant::now()) {
            workers.iter().for_each(|w| {
                let _ = w.tell(Message::Placement(Placement::Look));
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
                .map(|leave| (sight.tallies[leave.server].clone(), leave))
                .chain(departed.iter().flat_map(gone))
                .collect();
        let mut leaving = Vec::new();
        if !replace.enabled {
            let stays = |(_, leave): &(Arc<Tally>, Leave)| leave.urgency != Urgency::Draining;
            let off = || "[router.replace] enabled is false".to_owned();
            leaving.extend(
                leaves.extract_if(.., |leave| stays(leave)).map(|(t, l)| self::leaving(&t, &l, off())),
            );
        }
        if stopping {
            leaves = sight.tallies.iter().chain(&departed).flat_map(everybody).collect();
        }
        let drains = board.drains();
        let ends = |tally: &Tally| drains.get(&tally.name).map_or(now, |d| d.deadline);
        let may_close = self.grant(leaves, &replace, stopping, ends, now);
        leaving.append(&mut self.leaving);
        board.tell_leaving(leaving);
        may_close
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
        self.pace = pace;
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
        self.leaving.clear();
        for given in self.given.drain(..) {
            given.tally.wish(given.role).set(None);
        }
        self.wants
            .retain(|(name, role), _| leaves.iter().any(|(t, leave)| t.name == *name && leave.role == *role));
        // With one session a second, order matters.
        leaves.sort_by_key(|(tally, leave)| {
            let in_vain =
                self.wants.get(&(tally.name.clone(), leave.role)).is_some_and(|w| w.searched >= PATIENCE);
            (in_vain, leave.why == Closed::Balance, std::cmp::Reverse(leave.sessions))
        });
        let pace = self.pace;
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
                // Drivers prepare and keep the statement for the life of the connection: to spare such
                // sessions for long means that an application that prepares is never moved. On a reader
                // that may not be read from, not at all.
                prepared_too: leave.why == Closed::NotEligible || waited >= PREPARED_AFTER,
                light_state_too: !paced,
                all_state_too: stopping || replace.sticky_limit.is_some_and(|limit| waited >= limit),
            };
            let left = match leave.urgency {
                Urgency::Paced => PACED_AFTER.saturating_sub(waited),
                Urgency::Trim => TRIM_AFTER.saturating_sub(waited),
                Urgency::Draining | Urgency::AtOnce => Duration::ZERO,
            };
            self.leaving.push(leaving(&tally, &leave, waits_for(&wanted, left, pace, want.searched)));
            tally.wish(leave.role).set(Some(wanted));
            self.given.push(Given { tally, role: leave.role, quota, paced });
        }
        self.given.iter().any(|g| g.quota > 0)
    }
}

fn leaving(tally: &Tally, leave: &Leave, waits_for: String) -> Leaving {
    let (server, role, sessions) = (tally.name.clone(), leave.role, leave.sessions);
    Leaving { server, role, sessions, why: leave.why.words(), waits_for }
}

/// What keeps the next session from leaving. `left` is how long the reason must still last, `searched` how
/// long no session was found.
fn waits_for(wanted: &Wanted, left: Duration, pace: f64, searched: Duration) -> String {
    let second = Duration::from_secs(1);
    if !left.is_zero() {
        return format!("the reason to last for {:.1} s more", left.as_secs_f64());
    }
    if wanted.quota == 0 {
        return format!("the pace of {pace:.1} sessions a second");
    }
    let state = match (wanted.all_state_too, wanted.light_state_too, wanted.prepared_too) {
        (true, ..) => "",
        (false, true, _) => ", without locks or temporary tables",
        (false, false, true) => ", without locks, temporary tables or user variables",
        (false, false, false) => ", without state of its own (prepared statements count for the first 10 s)",
    };
    let quiet = wanted.quiet.as_millis();
    let long =
        if searched >= second { format!("; none found for {} s", searched.as_secs()) } else { String::new() };
    format!("a session that is idle for {quiet} ms outside a transaction{state}{long}")
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
    fn a_server_whose_sessions_cannot_leave_does_not_keep_others_from_leaving() {
        let [stuck, free] = ["stuck", "free"].map(|name| Arc::new(Tally::new(ServerName::new(name), 1)));
        let (mut steward, start) = (Steward::default(), Instant::now());
        let mut closed_at = None;
        for tick in 1..200u32 {
            let now = start + TICK * tick;
            steward.earn(&Replace::default(), 20, TICK);
            let leaves = vec![(stuck.clone(), leave(9)), (free.clone(), leave(3))];
            steward.grant(leaves, &Replace::default(), false, |_| now, now);
            if free.wish(ListenerRole::Reader).take() {
                closed_at = Some(TICK * tick);
                break;
            }
        }
        assert!(closed_at.is_some_and(|at| at < Duration::from_secs(8)), "{closed_at:?}");
    }

    #[test]
    fn sessions_on_a_server_that_is_not_eligible_leave_first_and_with_prepared_statements() {
        let [stale, full] = ["stale", "full"].map(|name| Arc::new(Tally::new(ServerName::new(name), 1)));
        let mut steward = Steward { tokens: 1.0, ..Steward::default() };
        let start = Instant::now();
        for now in [start, start + PACED_AFTER] {
            let not_eligible = Leave { why: Closed::NotEligible, ..leave(3) };
            let leaves = vec![(full.clone(), leave(40)), (stale.clone(), not_eligible)];
            steward.grant(leaves, &Replace::default(), false, |_| now, now);
        }
        let wanted = stale.wish(ListenerRole::Reader).now().expect("it goes first");
        assert!(wanted.prepared_too && !wanted.light_state_too && !wanted.all_state_too);
        assert_eq!(full.wish(ListenerRole::Reader).now(), None);
        let waits = |name: &str| {
            steward.leaving.iter().find(|l| l.server.as_str() == name).map(|l| l.waits_for.clone()).unwrap()
        };
        assert!(waits("stale").starts_with("a session that is idle for 200 ms outside a transaction"));
        assert!(waits("full").starts_with("the pace of "), "{}", waits("full"));
    }

    #[test]
    fn what_a_move_waits_for_is_said() {
        let ms = Duration::from_millis;
        let (why, quiet) = (Closed::Balance, ms(20));
        let wanted = Wanted { quiet, ..Wanted::of(why) };
        assert_eq!(waits_for(&wanted, ms(700), 2.0, ms(0)), "the reason to last for 0.7 s more");
        assert_eq!(waits_for(&wanted, ms(0), 2.0, ms(0)), "the pace of 2.0 sessions a second");
        let searching = Wanted { quota: 1, ..wanted };
        assert_eq!(
            waits_for(&searching, ms(0), 2.0, ms(12_000)),
            "a session that is idle for 20 ms outside a transaction, without state of its own \
             (prepared statements count for the first 10 s); none found for 12 s"
        );
    }

    #[test]
    fn prepared_statements_hold_a_move_for_balance_for_ten_seconds() {
        let tally = Arc::new(Tally::new(ServerName::new("r"), 1));
        let (mut steward, start) = (Steward { tokens: 1.0, ..Steward::default() }, Instant::now());
        let mut prepared_too = |after: u64| {
            let now = start + Duration::from_secs(after);
            steward.grant(vec![(tally.clone(), leave(1))], &Replace::default(), false, |_| now, now);
            tally.wish(ListenerRole::Reader).now().is_some_and(|w| w.prepared_too && !w.light_state_too)
        };
        assert!(!prepared_too(0) && !prepared_too(9) && prepared_too(10));
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
