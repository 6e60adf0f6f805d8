//! Rebalancer: the thin loop around `placement`: takes snapshots, says which sessions should leave, keeps the
//! pace.
//!
//! Ten times a second it compares what we hold with what we should hold, and leaves each server's counters a
//! quota: this many sessions may be closed now. The threads of the data plane look for sessions that are idle
//! and quiet and take from the quota. What they do not find, stays in the quota; nothing is closed to fulfil
//! a plan.
//!
//! **How quiet is quiet.** A client that is in the middle of a request pauses as well, for as long as the
//! request computes or its machine is short of processors. So a move for balance first looks for sessions
//! that have been quiet for ten times the configured `quiet`, and comes down to it over four seconds in which
//! none was found, by the same part in each of them. Each session found takes back a fifth of that.
//!
//! **Who goes first.** Servers that are not eligible before those that merely hold too many; among equals the
//! fullest. One whose sessions have been looked at in vain for those four seconds comes after the others: its
//! sessions may all hold state or never rest, and with a pace of a session or two a second it would keep
//! everybody else from leaving. What a move waits for is shown in the status ([`PendingMove`]).

use crate::catch_panic::{PAUSE, caught};
use crate::close_quota::CloseRequest;
use crate::closed::Closed;
use crate::heartbeat::Heartbeat;
use crate::pending_move::{PendingMove, waits_for};
use crate::placement::{self, Held, Leave, PACED_AFTER, TRIM_AFTER, Urgency};
use crate::server_counters::ServerCounters;
use crate::shared_state::{RoutingState, SharedState};
use crate::work;
use crate::worker::{Message, RebalanceCommand, WorkerHandle};
use config::Rebalance;
use fleet::{ListenerRole, ServerName, Snapshot};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// Time between two looks.
const TICK: Duration = Duration::from_millis(100);
/// The routing state is renewed at least once in this many ticks: warm-up grows and suspicions end by the
/// clock.
const RENEW: u32 = 5;
/// How long a number of sessions is remembered; see `placement`.
const REMEMBER: Duration = Duration::from_secs(3);
/// A move first looks for sessions that were quiet for this many times the configured time ...
const MOST_QUIET: f64 = 10.0;
/// ... and comes down to it over this time.
const PATIENCE: Duration = Duration::from_secs(4);
/// Sessions with prepared statements are spared by a move for balance for this long: others may do.
const PREPARED_AFTER: Duration = Duration::from_secs(10);
/// The slowest pace: one session a second, however few there are.
const SLOWEST: f64 = 1.0;

/// What the rebalancer carries from look to look.
#[derive(Debug, Default)]
struct Rebalancer {
    /// Sessions that may be closed now within the pace; fractions add up.
    tokens: f64,
    /// What was allowed at the last look.
    grants: Vec<Grant>,
    /// Sessions that should leave, and how long they have been looked for.
    searches: HashMap<(ServerName, ListenerRole), Search>,
    /// Reader sessions lately, as (when, how many), falling.
    recent: VecDeque<(Instant, u32)>,
    /// Sessions a second that may be closed.
    pace: f64,
    /// What the last look found to leave.
    pending: Vec<PendingMove>,
    /// When it looked last.
    last: Option<Instant>,
}

/// The search for sessions of one role that may leave a server.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// Since when.
    since: Instant,
    /// Time spent looking without finding a session quiet enough.
    searched: Duration,
}

/// Sessions of one role that should leave one server, a server that is no longer in the view among them.
#[derive(Clone, Debug)]
struct MoveTask {
    counters: Arc<ServerCounters>,
    role: ListenerRole,
    sessions: u32,
    why: Closed,
    urgency: Urgency,
    /// Those that work should go rather than those that rest.
    working: bool,
}

/// How many of them may be closed until the next look.
#[derive(Debug)]
struct Grant {
    counters: Arc<ServerCounters>,
    role: ListenerRole,
    quota: u32,
    paced: bool,
}

/// Runs until the task is dropped, and starts again when it panics.
pub(crate) async fn keep(
    shared: Arc<SharedState>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    workers: Arc<[WorkerHandle]>,
    stopping: Arc<AtomicBool>,
) {
    let heartbeat = Heartbeat::new("rebalancer".to_owned());
    shared.health.watch(heartbeat.clone());
    loop {
        let _ = caught(serve(&shared, snapshots.clone(), &workers, &stopping, &heartbeat)).await;
        shared.health.ended(&heartbeat.part, "it panicked");
        tokio::time::sleep(PAUSE).await;
    }
}

async fn serve(
    shared: &SharedState,
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    workers: &[WorkerHandle],
    stopping: &AtomicBool,
    heartbeat: &Heartbeat,
) {
    // What came while nobody listened.
    snapshots.mark_changed();
    let mut rebalancer = Rebalancer::default();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut count = 0u32;
    let mut fed = true;
    loop {
        tokio::select! {
            changed = snapshots.changed(), if fed => {
                fed = changed.is_ok();
                let snapshot = snapshots.borrow_and_update().clone();
                shared.renew(Some(snapshot));
                // Clients wait while writes are held: no tick is waited for.
                if shared.routing().view.held_primary().is_some() {
                    rebalancer.look_and_send(shared, workers, stopping);
                }
            }
            _ = ticks.tick() => {
                heartbeat.answer();
                assert!(!shared.rebalancer_fails.swap(false, Relaxed), "a fault was asked for");
                count = count.wrapping_add(1);
                if count.is_multiple_of(RENEW) {
                    shared.renew(None);
                }
                for server in shared.overdue_drains(Instant::now()) {
                    let cut = RebalanceCommand::Cut(server, Closed::DrainDeadline);
                    workers.iter().for_each(|w| {
                        let _ = w.send(Message::Rebalance(cut.clone()));
                    });
                }
                rebalancer.look_and_send(shared, workers, stopping);
            }
        }
    }
}

impl Rebalancer {
    fn look_and_send(&mut self, shared: &SharedState, workers: &[WorkerHandle], stopping: &AtomicBool) {
        if self.look(shared, stopping.load(Relaxed), Instant::now()) {
            workers.iter().for_each(|w| {
                let _ = w.send(Message::Rebalance(RebalanceCommand::Look));
            });
        }
        shared.writes_drained.store(is_drained(&shared.routing()), Relaxed);
    }

    /// Sets every quota anew; `true` when some session may be closed.
    fn look(&mut self, shared: &SharedState, stopping: bool, now: Instant) -> bool {
        let routing = shared.routing();
        let rebalance = routing.view.config.rebalance;
        let departed = shared.departed();
        for (counters, seen) in routing.counters.iter().zip(&routing.view.snapshot.servers) {
            counters.look_for_gray(seen.state == fleet::State::Answering, now);
        }
        let mut held: Vec<Held> = routing.counters.iter().map(held).collect();
        let staying: Vec<u32> = held.iter().map(|held| held.readers).collect();
        let loads = work::loads(&staying, &routing.per_session);
        held.iter_mut().zip(loads).for_each(|(held, load)| held.load = load);
        let all = || routing.counters.iter().chain(&departed);
        let [readers, writers] = [ListenerRole::Reader, ListenerRole::Writer]
            .map(|role| all().map(|counters| counters.sessions(role)).sum::<u32>());
        let elapsed =
            self.last.replace(now).map_or(TICK, |last| now.saturating_duration_since(last).min(TICK));
        self.earn(&rebalance, readers + writers, elapsed);
        let remembered = self.remember(readers, now);
        let mut tasks: Vec<MoveTask> = placement::decide(&routing.view, &held, remembered, shared.phase)
            .into_iter()
            .map(|leave| MoveTask::new(&routing.counters[leave.server], leave))
            .chain(
                departed.iter().flat_map(|counters| leave_all(counters, Closed::NotEligible, Urgency::Paced)),
            )
            .collect();
        let mut pending = Vec::new();
        if !rebalance.enabled {
            let off = "[router.rebalance] enabled is false";
            let stays = tasks.extract_if(.., |task| task.is_optional());
            pending.extend(stays.map(|task| task.pending(off.to_owned())));
        }
        if stopping {
            let everybody = |counters| leave_all(counters, Closed::Stopping, Urgency::AtOnce);
            tasks = routing.counters.iter().chain(&departed).flat_map(everybody).collect();
        }
        let drains = shared.drains();
        let ends = |counters: &ServerCounters| drains.get(&counters.name()).map_or(now, |d| d.deadline);
        let may_close = self.grant(tasks, &rebalance, stopping, ends, now);
        pending.append(&mut self.pending);
        shared.set_pending_moves(pending);
        may_close
    }

    /// Takes what was closed since the last look off the pace, and adds what time has earned.
    fn earn(&mut self, rebalance: &Rebalance, sessions: u32, elapsed: Duration) {
        for grant in &self.grants {
            let closed = grant.quota.saturating_sub(grant.counters.close_quota(grant.role).remaining());
            if grant.paced {
                self.tokens -= f64::from(closed);
            }
            if let Some(search) = self.searches.get_mut(&(grant.counters.name(), grant.role))
                && grant.quota > 0
            {
                search.searched =
                    if closed > 0 { search.searched * 4 / 5 } else { search.searched + elapsed };
            }
        }
        let pace = (rebalance.pace_per_second * f64::from(sessions)).max(SLOWEST);
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
        mut tasks: Vec<MoveTask>,
        rebalance: &Rebalance,
        stopping: bool,
        drained_by: impl Fn(&ServerCounters) -> Instant,
        now: Instant,
    ) -> bool {
        self.pending.clear();
        for grant in self.grants.drain(..) {
            grant.counters.close_quota(grant.role).set(None);
        }
        self.searches
            .retain(|(name, role), _| tasks.iter().any(|t| t.counters.name() == *name && t.role == *role));
        // With one session a second, order matters.
        tasks.sort_by_key(|task| {
            let search = self.searches.get(&(task.counters.name(), task.role));
            let in_vain = search.is_some_and(|search| search.searched >= PATIENCE);
            (in_vain, task.why == Closed::Balance, std::cmp::Reverse(task.sessions))
        });
        let pace = self.pace;
        let mut budget = self.tokens.max(0.0).floor() as u32;
        for task in tasks {
            let new = Search { since: now, searched: Duration::ZERO };
            let search = *self.searches.entry((task.counters.name(), task.role)).or_insert(new);
            let waited = now.saturating_duration_since(search.since);
            let paced = matches!(task.urgency, Urgency::Paced | Urgency::Trim);
            let quota = match task.urgency {
                Urgency::AtOnce => task.sessions,
                Urgency::Draining => drain_share(task.sessions, drained_by(&task.counters), now),
                Urgency::Paced if waited < PACED_AFTER => 0,
                Urgency::Trim if waited < TRIM_AFTER => 0,
                Urgency::Paced | Urgency::Trim => task.sessions.min(budget),
            };
            if paced {
                budget -= quota;
            }
            let (quiet, checked_quiet) = match task.why {
                Closed::Switchover => quiet_while_held(rebalance.quiet, waited),
                _ => {
                    let quiet = quiet(rebalance.quiet, task.urgency, search.searched);
                    (quiet, quiet)
                }
            };
            let request = CloseRequest {
                quota,
                why: task.why,
                quiet,
                checked_quiet,
                working_only: task.working && search.searched < PATIENCE * 2,
                // Drivers prepare and keep the statement for the life of the connection: to spare such
                // sessions for long means that an application that prepares is never moved. On a reader
                // that may not be read from, not at all.
                prepared_too: task.why == Closed::NotEligible || waited >= PREPARED_AFTER,
                light_state_too: !paced,
                all_state_too: stopping || rebalance.sticky_limit.is_some_and(|limit| waited >= limit),
            };
            let left = match task.urgency {
                Urgency::Paced => PACED_AFTER.saturating_sub(waited),
                Urgency::Trim => TRIM_AFTER.saturating_sub(waited),
                Urgency::Draining | Urgency::AtOnce => Duration::ZERO,
            };
            self.pending.push(task.pending(waits_for(&request, left, pace, search.searched)));
            task.counters.close_quota(task.role).set(Some(request));
            self.grants.push(Grant { counters: task.counters, role: task.role, quota, paced });
        }
        self.grants.iter().any(|g| g.quota > 0)
    }
}

impl MoveTask {
    fn new(counters: &Arc<ServerCounters>, leave: Leave) -> Self {
        let Leave { role, sessions, why, urgency, working, .. } = leave;
        Self { counters: counters.clone(), role, sessions, why, urgency, working }
    }

    /// Whether these stay where `[router.rebalance] enabled` is false. Not those of a drain, which somebody
    /// has asked for, nor writers of a primary that is replaced: each write of theirs fails from then on.
    fn is_optional(&self) -> bool {
        self.urgency != Urgency::Draining && !matches!(self.why, Closed::Switchover | Closed::NotPrimary)
    }

    fn pending(&self, waits_for: String) -> PendingMove {
        let (server, role, sessions) = (self.counters.name(), self.role, self.sessions);
        PendingMove { server, role, sessions, why: self.why.words(), waits_for }
    }
}

/// Whether writes are held and no writer session, relayed or bypassed, is left on the server that they are
/// held from.
fn is_drained(routing: &RoutingState) -> bool {
    let held = routing.view.held_primary().and_then(|server| routing.counters.get(server));
    held.is_some_and(|counters| counters.sessions(ListenerRole::Writer) == 0)
}

fn held(counters: &Arc<ServerCounters>) -> Held {
    let [readers, writers] = [ListenerRole::Reader, ListenerRole::Writer].map(|role| counters.staying(role));
    Held { readers, load: f64::from(readers), writers }
}

/// Everybody on a server.
fn leave_all(counters: &Arc<ServerCounters>, why: Closed, urgency: Urgency) -> Vec<MoveTask> {
    let Held { readers, writers, .. } = held(counters);
    [(ListenerRole::Reader, readers), (ListenerRole::Writer, writers)]
        .into_iter()
        .filter(|(_, sessions)| *sessions > 0)
        .map(|(role, sessions)| MoveTask {
            counters: counters.clone(),
            role,
            sessions,
            why,
            urgency,
            working: false,
        })
        .collect()
}

/// How long a session must have been quiet, after `searched` without finding one.
fn quiet(configured: Duration, urgency: Urgency, searched: Duration) -> Duration {
    let patience = match urgency {
        Urgency::Trim | Urgency::Paced => PATIENCE,
        Urgency::Draining => PATIENCE / 4,
        Urgency::AtOnce => return configured,
    };
    let left = 1.0 - (searched.as_secs_f64() / patience.as_secs_f64()).min(1.0);
    configured.mul_f64(MOST_QUIET.powf(left))
}

/// The same while writes are held, and that of sessions whose pool pings them. Those give themselves up at
/// the next ping, so what pauses longer than twice as configured is no pool's. A pool that only looks at its
/// sockets uses each of them every few milliseconds, and none rests for as long as configured. All clients
/// wait for the last session, so less is asked the longer that takes. What it costs: a client that keeps a
/// session and pauses between two statements outside a transaction finds it closed.
fn quiet_while_held(configured: Duration, waited: Duration) -> (Duration, Duration) {
    let (at_most, checked) = match waited.as_millis() {
        0..80 => (configured, configured * 2),
        80..200 => (Duration::from_millis(5), configured * 2),
        _ => (Duration::from_millis(2), configured),
    };
    (configured.min(at_most), checked)
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
    use crate::server_counters::ServerSlot;
    use crate::view::tests::snapshot;
    use config::RouterConfig;
    use fleet::{Announcement, Role, WriterStatus};

    fn task(counters: &Arc<ServerCounters>, sessions: u32) -> MoveTask {
        let (role, why) = (ListenerRole::Reader, Closed::Balance);
        MoveTask { counters: counters.clone(), role, sessions, why, urgency: Urgency::Paced, working: false }
    }

    #[test]
    fn no_more_than_the_pace_is_closed_however_many_should_leave() {
        let counters = Arc::new(ServerCounters::new(ServerName::new("r"), 1));
        let mut slots: Vec<ServerSlot> =
            (0..200).map(|_| ServerSlot::take(counters.clone(), ListenerRole::Reader, 0)).collect();
        let (mut rebalancer, mut now, mut closed) = (Rebalancer::default(), Instant::now(), 0);
        for _ in 0..100 {
            now += TICK;
            rebalancer.earn(&Rebalance::default(), 200, TICK);
            let tasks = vec![task(&counters, 100)];
            rebalancer.grant(tasks, &Rebalance::default(), false, |_| now, now);
            while counters.close_quota(ListenerRole::Reader).take() {
                slots.pop();
                closed += 1;
            }
        }
        // 5 % of 200 sessions a second, for ten seconds less the one that the excess must have lasted.
        assert!((90..=100).contains(&closed), "{closed}");
    }

    #[test]
    fn a_server_whose_sessions_cannot_leave_does_not_keep_others_from_leaving() {
        let [stuck, free] =
            ["stuck", "free"].map(|name| Arc::new(ServerCounters::new(ServerName::new(name), 1)));
        let (mut rebalancer, start) = (Rebalancer::default(), Instant::now());
        let mut closed_at = None;
        for tick in 1..200u32 {
            let now = start + TICK * tick;
            rebalancer.earn(&Rebalance::default(), 20, TICK);
            let tasks = vec![task(&stuck, 9), task(&free, 3)];
            rebalancer.grant(tasks, &Rebalance::default(), false, |_| now, now);
            if free.close_quota(ListenerRole::Reader).take() {
                closed_at = Some(TICK * tick);
                break;
            }
        }
        assert!(closed_at.is_some_and(|at| at < Duration::from_secs(8)), "{closed_at:?}");
    }

    #[test]
    fn sessions_on_a_server_that_is_not_eligible_leave_first_and_with_prepared_statements() {
        let [stale, full] =
            ["stale", "full"].map(|name| Arc::new(ServerCounters::new(ServerName::new(name), 1)));
        let mut rebalancer = Rebalancer { tokens: 1.0, ..Rebalancer::default() };
        let start = Instant::now();
        for now in [start, start + PACED_AFTER] {
            let not_eligible = MoveTask { why: Closed::NotEligible, ..task(&stale, 3) };
            let tasks = vec![task(&full, 40), not_eligible];
            rebalancer.grant(tasks, &Rebalance::default(), false, |_| now, now);
        }
        let request = stale.close_quota(ListenerRole::Reader).now().expect("it goes first");
        assert!(request.prepared_too && !request.light_state_too && !request.all_state_too);
        assert_eq!(full.close_quota(ListenerRole::Reader).now(), None);
        let waits = |name: &str| {
            rebalancer
                .pending
                .iter()
                .find(|l| l.server.as_str() == name)
                .map(|l| l.waits_for.clone())
                .unwrap()
        };
        assert!(waits("stale").starts_with("a session that is idle for 200 ms outside a transaction"));
        assert!(waits("full").starts_with("the pace of "), "{}", waits("full"));
    }

    #[test]
    fn writers_leave_a_primary_that_is_replaced_also_where_sessions_are_not_moved() {
        let mut held = snapshot("a", &[("a", 1.0)], &[("a", 1.0)]);
        held.servers[0].announced = Announcement::Hold;
        let mut moved = snapshot("a", &[("a", 1.0)], &[("a", 1.0)]);
        (moved.servers[0].role, moved.servers[1].role) = (Role::Stray, Role::Primary);
        moved.writer = WriterStatus::Known { server: moved.servers[1].name.clone() };
        for (seen, why) in [(held, Closed::Switchover), (moved, Closed::NotPrimary)] {
            let rebalance = Rebalance { enabled: false, ..Rebalance::default() };
            let config = RouterConfig { rebalance, ..RouterConfig::default() };
            let shared = SharedState::new(config, Arc::new(seen), 1, Box::new(|_, _| {}));
            let counters = shared.routing().counters[0].clone();
            let _sessions = [ListenerRole::Writer, ListenerRole::Reader]
                .map(|role| ServerSlot::take(counters.clone(), role, 0));
            assert!(Rebalancer::default().look(&shared, false, Instant::now()));
            let request = counters.close_quota(ListenerRole::Writer).now().expect("the writer leaves");
            assert_eq!((request.why, request.quota), (why, 1));
            assert_eq!(counters.close_quota(ListenerRole::Reader).now(), None);
            let off = |pending: &PendingMove| pending.waits_for == "[router.rebalance] enabled is false";
            assert!(shared.pending_moves().iter().all(|p| off(p) == (p.role == ListenerRole::Reader)));
        }
    }

    #[test]
    fn prepared_statements_hold_a_move_for_balance_for_ten_seconds() {
        let counters = Arc::new(ServerCounters::new(ServerName::new("r"), 1));
        let (mut rebalancer, start) = (Rebalancer { tokens: 1.0, ..Rebalancer::default() }, Instant::now());
        let mut prepared_too = |after: u64| {
            let now = start + Duration::from_secs(after);
            rebalancer.grant(vec![task(&counters, 1)], &Rebalance::default(), false, |_| now, now);
            counters
                .close_quota(ListenerRole::Reader)
                .now()
                .is_some_and(|w| w.prepared_too && !w.light_state_too)
        };
        assert!(!prepared_too(0) && !prepared_too(9) && prepared_too(10));
    }

    #[test]
    fn state_counts_until_the_limit_has_passed() {
        let counters = Arc::new(ServerCounters::new(ServerName::new("r"), 1));
        let (mut rebalancer, start) = (Rebalancer { tokens: 1.0, ..Rebalancer::default() }, Instant::now());
        let mut state_too = |after: u64| {
            let now = start + Duration::from_secs(after);
            rebalancer.grant(vec![task(&counters, 1)], &Rebalance::default(), false, |_| now, now);
            counters.close_quota(ListenerRole::Reader).now().is_some_and(|w| w.all_state_too)
        };
        assert!(!state_too(1) && !state_too(300) && state_too(301));
    }

    #[test]
    fn the_number_of_sessions_is_remembered_for_a_while() {
        let (mut rebalancer, start) = (Rebalancer::default(), Instant::now());
        let mut at = |ms: u64, n: u32| rebalancer.remember(n, start + Duration::from_millis(ms));
        assert_eq!((at(0, 10), at(100, 7), at(2900, 8), at(3100, 8), at(3200, 9)), (10, 10, 10, 8, 9));
    }

    #[test]
    fn a_move_looks_for_very_quiet_sessions_first_and_then_for_quiet_ones() {
        let ms = Duration::from_millis;
        let after = |searched| quiet(ms(20), Urgency::Paced, searched);
        assert_eq!((after(ms(0)), after(ms(9000))), (ms(200), ms(20)));
        assert!((after(ms(2000)).as_secs_f64() - 0.0632).abs() < 1e-4, "{:?}", after(ms(2000)));
        assert_eq!(quiet(ms(20), Urgency::AtOnce, ms(0)), ms(20));
        assert_eq!(quiet(ms(20), Urgency::Draining, ms(1000)), ms(20));
    }

    #[test]
    fn while_writes_are_held_less_and_less_quiet_is_asked_and_never_more_than_configured() {
        let ms = Duration::from_millis;
        let after = |waited| quiet_while_held(ms(20), ms(waited));
        assert_eq!((after(0), after(80), after(500)), ((ms(20), ms(40)), (ms(5), ms(40)), (ms(2), ms(20))));
        assert_eq!(quiet_while_held(ms(1), ms(500)), (ms(1), ms(1)));
    }

    #[test]
    fn a_drain_is_done_in_half_of_its_time() {
        let now = Instant::now();
        assert_eq!(drain_share(100, now + Duration::from_secs(20), now), 1);
        assert_eq!(drain_share(1000, now + Duration::from_secs(20), now), 10);
        assert_eq!(drain_share(7, now, now), 7);
    }
}
