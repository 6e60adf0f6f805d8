//! Close: ends bypassed sessions that placement wants moved, as the relay does with its own.
//!
//! **A session is closed only when its state is known** (`mirror` has followed it from its first byte): it is
//! idle, in no transaction, and holds no state that the request has to respect. That is true up to two byte
//! counts; `zerohop::close` holds back what the client sends, looks whether the socket still has these counts
//! and nothing under way, and only then ends it. So a statement that is sent in this moment is either seen,
//! and the session stays, or never reaches the server.
//!
//! **What is not known stays**: sessions in TLS or compressed, those that began before this process came, and
//! those that the kernel lost a piece of. They end by themselves, and the status says how many there are.
//!
//! **Whatever it does, a session is cut at the deadline of a drain only**, which somebody has asked for. That
//! a server may not be read from any more is no such reason, however long it lasts: a session may be in a
//! transaction. Nor is that a primary was demoted: it refuses the writes of those that stay.
//!
//! **A server that does not answer** ends no session here either that is in use: only those that are idle,
//! and those that it has never greeted.

use super::count::KernelCounts;
use super::mirror_handle::{ObservedState, States};
use crate::close_quota::CloseRequest;
use crate::closed::Closed;
use crate::server_counters::ServerCounters;
use crate::shared_state::{RoutingState, SharedState};
use fleet::{ListenerRole, ServerName, State};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use zerohop::socket::Socket;
use zerohop::{Bypass, CloseOutcome, Error, Session, close_session, socket};

/// Quiet for this long, a session on a server that does not answer is ended.
const QUIET_ON_SILENT: Duration = Duration::from_millis(200);
/// Moves for balance ask for this many times the configured quiet at least; see [`careful`].
const CAREFUL: f64 = 2.5;
/// The program that holds sessions back looks at every packet: without a request for this long, it is taken
/// out.
const HOLD_AFTER: Duration = Duration::from_secs(10);
/// Where it is not available, it is tried again after this long.
const HOLD_AGAIN: Duration = Duration::from_secs(10);

/// Closes bypassed sessions; what it carries from look to look.
pub(super) struct BypassCloser {
    asked: HashMap<(ServerName, ListenerRole), PendingStates>,
    /// Sessions that should leave and whose state is not known, as last counted.
    unknown: BTreeMap<(ServerName, ListenerRole), usize>,
    wanted: HashSet<(ServerName, ListenerRole)>,
    cut: HashSet<(ServerName, Instant)>,
    answered: Arc<Notify>,
    /// When a session last should have left.
    requested_at: Option<Instant>,
    /// Why sessions cannot be held back, and since when.
    cannot_hold: Option<(String, Instant)>,
}

/// What is known of a server's sessions, once it is there.
type PendingStates = Arc<Mutex<Option<States>>>;

/// Sessions of one role that should leave a server.
struct CloseTask {
    counters: Arc<ServerCounters>,
    role: ListenerRole,
    request: CloseRequest,
    answers: bool,
}

/// A session with its socket.
struct LiveSession {
    session: Session,
    socket: Socket,
}

impl BypassCloser {
    /// `answered` is notified when the state of sessions has come.
    pub(super) fn new(answered: Arc<Notify>) -> Self {
        Self {
            asked: HashMap::new(),
            unknown: BTreeMap::new(),
            wanted: HashSet::new(),
            cut: HashSet::new(),
            answered,
            requested_at: None,
            cannot_hold: None,
        }
    }

    /// One look; cheap while nobody should leave.
    pub(super) fn look(
        &mut self,
        bypass: &mut Bypass,
        shared: &SharedState,
        counts: &KernelCounts,
    ) -> Result<(), Error> {
        let (routing, now) = (shared.routing(), Instant::now());
        let overdue: Vec<ServerName> = self.overdue(shared, now);
        let tasks = self.tasks(shared, &routing);
        let wanted = |key: &(ServerName, ListenerRole)| {
            tasks.iter().any(|w| w.counters.name() == key.0 && w.role == key.1)
        };
        self.asked.retain(|key, _| wanted(key));
        self.unknown.retain(|key, _| self.wanted.contains(key));
        self.hold(bypass, !tasks.is_empty(), now);
        if tasks.is_empty() && overdue.is_empty() {
            return Ok(());
        }
        let live = live(bypass)?;
        for name in overdue {
            let of =
                |l: &&LiveSession| counts.of(l.session.target).is_some_and(|(server, _)| *server == name);
            let counters = routing.counters.iter().find(|t| t.name() == name);
            let ended = live.iter().filter(of).filter(|l| cut(bypass, l)).count();
            if let Some(counters) = counters {
                counters.bypassed.closed[Closed::DrainDeadline.index()].fetch_add(ended as u64, Relaxed);
                counters.bypassed.ended_by_us.fetch_add(ended as u64, Relaxed);
            }
            if ended > 0 {
                tracing::warn!(server = %name, sessions = ended, "bypassed sessions cut at the drain deadline");
            }
        }
        for task in &tasks {
            let is =
                |l: &&LiveSession| counts.of(l.session.target) == Some((&task.counters.name(), task.role));
            let theirs: Vec<&LiveSession> = live.iter().filter(is).collect();
            self.one(bypass, shared, task, &theirs);
        }
        Ok(())
    }

    /// What keeps sessions where they are, for the status.
    pub(super) fn limits(&self) -> Vec<String> {
        let unknown = self.unknown.iter().filter(|(_, sessions)| **sessions > 0).map(|((server, _), n)| {
            format!(
                "{n} sessions should leave {server} and stay until they end or a drain's deadline passes: what they hold is \
                 not known (TLS, compression, or begun before this process)"
            )
        });
        let hold =
            self.cannot_hold.iter().map(|(why, _)| format!("bypassed sessions cannot be closed ({why})"));
        unknown.chain(hold).collect()
    }

    /// Keeps the program in force that closing needs, while some session should leave.
    fn hold(&mut self, bypass: &mut Bypass, requested: bool, now: Instant) {
        if requested {
            self.requested_at = Some(now);
        }
        let wanted = self.requested_at.is_some_and(|at| now.duration_since(at) < HOLD_AFTER);
        let tired = self.cannot_hold.as_ref().is_some_and(|(_, at)| now.duration_since(*at) < HOLD_AGAIN);
        if wanted && tired {
            return;
        }
        let before = self.cannot_hold.take();
        if let Err(error) = bypass.set_holding(wanted) {
            let why = error.to_string();
            if before.is_none() {
                tracing::warn!(
                    why,
                    "bypassed sessions cannot be closed: they end by themselves or at a drain's deadline"
                );
            }
            self.cannot_hold = Some((why, now));
        }
    }

    fn one(&mut self, bypass: &Bypass, shared: &SharedState, task: &CloseTask, theirs: &[&LiveSession]) {
        let quiet = if task.answers { task.request.quiet } else { task.request.quiet.max(QUIET_ON_SILENT) };
        let rests = |l: &LiveSession| !l.socket.busy && l.socket.quiet >= quiet;
        let key = (task.counters.name(), task.role);
        let answer = self.asked.get(&key).map(|a| a.lock().unwrap_or_else(PoisonError::into_inner).take());
        match answer {
            Some(None) => {}
            Some(Some(states)) => {
                self.asked.remove(&key);
                let known = |l: &LiveSession| states.get(&l.session.cookie).copied();
                self.unknown.insert(key, theirs.iter().filter(|l| known(l).is_none()).count());
                let may = |l: &&LiveSession| {
                    let passed = (l.socket.data_sent(), l.socket.received);
                    rests(l) && may_close(known(l), passed, task.request, task.answers)
                };
                close(task, theirs.iter().copied().filter(may), |live| close_held(bypass, live));
            }
            None if bypass.holds() && theirs.iter().any(|l| rests(l)) => {
                let answer = PendingStates::default();
                let (slot, done) = (answer.clone(), self.answered.clone());
                let cookies = theirs.iter().map(|l| l.session.cookie).collect();
                self.asked.insert(key, answer);
                shared.mirror.states(cookies, move |states| {
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(states);
                    done.notify_one();
                });
            }
            None => {}
        }
    }

    /// The sessions that should leave now.
    fn tasks(&mut self, shared: &SharedState, routing: &RoutingState) -> Vec<CloseTask> {
        let mut tasks = Vec::new();
        let departed = shared.departed();
        for counters in routing.counters.iter().chain(&departed) {
            let at = routing.view.index(&counters.name());
            let answers = at.is_some_and(|at| routing.view.snapshot.servers[at].state == State::Answering);
            for role in [ListenerRole::Reader, ListenerRole::Writer] {
                let Some(request) = counters.close_quota(role).now() else { continue };
                // Bypassed sessions do not end when this process does: that is the point of them.
                if counters.bypassed.sessions(role) == 0 || request.why == Closed::Stopping {
                    continue;
                }
                let least = careful(request.why, routing.view.config.rebalance.quiet);
                let request = CloseRequest { quiet: request.quiet.max(least), ..request };
                self.wanted.insert((counters.name(), role));
                tasks.push(CloseTask { counters: counters.clone(), role, request, answers });
            }
        }
        // A spent quota is not a withdrawn request: forgotten only when no session is left.
        let has = |(name, role): &(ServerName, ListenerRole)| {
            let mut all = routing.counters.iter().chain(&departed);
            all.any(|t| {
                t.name() == *name && t.bypassed.sessions(*role) > 0 && self.asked_for(t, *role, routing)
            })
        };
        let kept: Vec<_> = self.wanted.iter().filter(|key| has(key)).cloned().collect();
        self.wanted.retain(|key| kept.contains(key));
        tasks
    }

    /// Whether a server is still not where its sessions of this role should be.
    fn asked_for(&self, counters: &ServerCounters, role: ListenerRole, routing: &RoutingState) -> bool {
        let Some(at) = routing.view.index(&counters.name()) else { return true };
        let candidate = &routing.view.candidates[at];
        match role {
            ListenerRole::Reader => !candidate.reads.is_eligible(),
            ListenerRole::Writer => !candidate.writes.is_eligible(),
        }
    }

    /// Servers whose drain deadline has passed and whose bypassed sessions have not been cut yet. Named again
    /// while there are any: some were connecting when the others were cut, or could not be ended.
    fn overdue(&mut self, shared: &SharedState, now: Instant) -> Vec<ServerName> {
        let (drains, routing, departed) = (shared.drains(), shared.routing(), shared.departed());
        self.cut.retain(|(name, deadline)| drains.get(name).is_some_and(|d| d.deadline == *deadline));
        let has = |name: &ServerName| {
            let sessions = |t: &ServerCounters| {
                t.bypassed.sessions(ListenerRole::Reader) + t.bypassed.sessions(ListenerRole::Writer)
            };
            let mut all = routing.counters.iter().chain(&departed);
            all.any(|t| t.name() == *name && sessions(t) > 0)
        };
        let due = drains.into_iter().filter(|(_, drain)| drain.deadline <= now);
        due.filter_map(|(name, drain)| {
            let first = self.cut.insert((name.clone(), drain.deadline));
            (first || has(&name)).then_some(name)
        })
        .collect()
    }
}

/// How quiet a session must have been at least. No statement is lost in a close, but its client meets an
/// error; so a session that is closed only to be placed better should rather not be between two statements of
/// a request. As in the relay, a move first looks for sessions that rest for long (see `rebalancer`) and
/// takes what it finds after a while: a pool that hands its sessions out in turn has none that rests for
/// long, and must not keep all of them where they are.
fn careful(why: Closed, configured: Duration) -> Duration {
    let for_balance = matches!(why, Closed::Balance | Closed::ReplicaBack);
    if for_balance { configured.mul_f64(CAREFUL) } else { configured }
}

/// Whether what is known of a session is all that went either way (`passed`: sent and received), and allows
/// the close. One that a server which does not answer has never greeted holds nothing, whatever is known.
fn may_close(known: Option<ObservedState>, passed: (u64, u64), request: CloseRequest, answers: bool) -> bool {
    let never_greeted = !answers && passed == (0, 0);
    never_greeted || known.is_some_and(|k| (k.sent, k.received) == passed && k.facts.may_close(request))
}

/// Ends sessions in this way while the quota lasts, those that were quiet for longest first.
fn close<'a>(
    task: &CloseTask,
    which: impl Iterator<Item = &'a LiveSession>,
    how: impl Fn(&LiveSession) -> bool,
) {
    let mut which: Vec<&LiveSession> = which.collect();
    which.sort_by_key(|l| std::cmp::Reverse(l.socket.quiet));
    for live in which {
        let quota = task.counters.close_quota(task.role);
        if !quota.take() {
            return;
        }
        if how(live) {
            task.counters.bypassed.closed[task.request.why.index()].fetch_add(1, Relaxed);
            task.counters.bypassed.ended_by_us.fetch_add(1, Relaxed);
            tracing::debug!(server = %task.counters.name(), why = task.request.why.words(), "bypassed session closed");
        } else {
            quota.put_back();
        }
    }
}

/// `false` when it had ended by itself, was used meanwhile, or cannot be ended.
fn close_held(bypass: &Bypass, live: &LiveSession) -> bool {
    match close_session(bypass, &live.session, &live.socket) {
        Ok(CloseOutcome::Closed) => true,
        Ok(CloseOutcome::ClosedBeforeStatement) => {
            tracing::debug!(
                "a statement came while its session was being closed: it has not reached the server"
            );
            true
        }
        Ok(CloseOutcome::InUse) => false,
        Err(error) => {
            tracing::debug!(%error, "a session could not be closed");
            false
        }
    }
}

/// Ends it whatever it does: the deadline of a drain has passed. `false` when it had ended by itself, or
/// cannot be ended.
fn cut(bypass: &Bypass, live: &LiveSession) -> bool {
    if !bypass.will_end(&live.session) {
        return false;
    }
    let ended =
        live.socket.end().inspect_err(|error| tracing::debug!(%error, "a session could not be ended"));
    if ended.is_err() {
        bypass.will_not_end(&live.session);
    }
    ended.is_ok()
}

fn live(bypass: &Bypass) -> Result<Vec<LiveSession>, Error> {
    let mut sessions: HashMap<u64, Session> =
        bypass.sessions()?.into_iter().filter(|s| s.open).map(|s| (s.cookie, s)).collect();
    // Without the list nobody can be ended now; the next look tries again.
    let sockets = socket::established().unwrap_or_default().into_iter();
    Ok(sockets
        .filter_map(|socket| Some(LiveSession { session: sessions.remove(&socket.cookie)?, socket }))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_registry::Facts;
    use config::RouterConfig;
    use fleet::{Server, Snapshot};
    use wire::Sticky;

    #[test]
    fn bypassed_sessions_that_were_connecting_when_the_others_were_cut_are_cut_as_well() {
        let (start, name) = (Instant::now(), ServerName::new("r0"));
        let server = Server::unasked(name.clone(), "r0:3306".parse().unwrap());
        let snapshot = Snapshot { servers: vec![server], ..Snapshot::empty(start) };
        let shared = SharedState::new(RouterConfig::default(), Arc::new(snapshot), 1, Box::new(|_, _| {}));
        shared.drain(&name, start);
        let mut closer = BypassCloser::new(Arc::default());
        let mut due = || closer.overdue(&shared, start);
        assert_eq!((due(), due()), (vec![name.clone()], vec![]), "once, where nobody is left");
        let counters = shared.routing().counters[0].clone();
        counters.bypassed.set_sessions(ListenerRole::Reader, 1);
        assert_eq!((due(), due()), (vec![name.clone()], vec![name.clone()]));
        counters.bypassed.set_sessions(ListenerRole::Reader, 0);
        assert!(due().is_empty());
    }

    #[test]
    fn a_session_may_be_closed_only_when_all_that_passed_is_known_and_it_holds_nothing() {
        let request = CloseRequest {
            working_only: false,
            quota: 1,
            why: Closed::Balance,
            quiet: Duration::ZERO,
            checked_quiet: Duration::ZERO,
            prepared_too: false,
            light_state_too: false,
            all_state_too: false,
        };
        let idle = Facts { idle: true, in_transaction: false, sticky: Sticky::empty() };
        let may = |facts, sent, received| {
            let known = ObservedState { facts, sent: 100, received: 200 };
            may_close(Some(known), (sent, received), request, true)
        };
        assert!(may(idle, 100, 200));
        assert!(!may(idle, 101, 200), "a statement has left that nobody has seen yet");
        assert!(!may(idle, 100, 201), "a piece was lost");
        assert!(!may(Facts { idle: false, ..idle }, 100, 200));
        assert!(!may(Facts { in_transaction: true, ..idle }, 100, 200));
        for held in
            [Sticky::TEMPORARY_TABLE, Sticky::NAMED_LOCK, Sticky::PREPARED_STATEMENT, Sticky::USER_VARIABLE]
        {
            assert!(!may(Facts { sticky: held, ..idle }, 100, 200), "{held:?}");
        }
    }

    #[test]
    fn what_is_in_use_or_not_known_stays_on_a_server_that_must_not_be_used() {
        let idle = Facts { idle: true, in_transaction: false, sticky: Sticky::empty() };
        for why in [Closed::NotEligible, Closed::NotPrimary] {
            let request =
                CloseRequest { quota: 9, prepared_too: true, light_state_too: true, ..CloseRequest::of(why) };
            for answers in [true, false] {
                let may = |facts| {
                    let known = ObservedState { facts, sent: 100, received: 200 };
                    may_close(Some(known), (100, 200), request, answers)
                };
                assert!(may(idle));
                assert!(!may(Facts { in_transaction: true, ..idle }));
                assert!(!may(Facts { idle: false, ..idle }));
                assert!(!may(Facts { sticky: Sticky::NAMED_LOCK, ..idle }));
                assert!(!may_close(None, (100, 200), request, answers));
            }
        }
    }

    #[test]
    fn a_session_that_a_silent_server_never_greeted_is_ended() {
        let request = CloseRequest::of(Closed::NotEligible);
        assert!(may_close(None, (0, 0), request, false));
        assert!(!may_close(None, (0, 0), request, true), "its greeting may be on the way");
        assert!(!may_close(None, (0, 80), request, false), "greeted");
    }
}
