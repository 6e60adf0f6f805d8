//! Session registry: the sessions of one thread, as far as moving and ending them needs to know.
//!
//! The relay leaves a few facts in its [`SessionHandle`] whenever it has moved bytes (plain stores, same
//! thread). The thread looks at them now and then for the rebalancer, and leaves an order that the relay
//! finds when it is woken.

use crate::close_quota::CloseRequest;
use crate::closed::Closed;
use crate::listener::Listener;
use crate::peer::{self, Debt};
use crate::record::{Recorder, SessionRecorder};
use crate::server_counters::ServerSlot;
use insight::Ledger;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};
use uring::Outstanding;
use wire::{Sticky, Tracker};

/// State that a pooled connection makes for itself again: lost without harm when the pool opens a new one
/// between uses.
pub(crate) const LIGHT: Sticky = Sticky::PREPARED_STATEMENT
    .union(Sticky::LAST_INSERT_ID)
    .union(Sticky::FOUND_ROWS)
    .union(Sticky::NEXT_TRANSACTION)
    .union(Sticky::USER_VARIABLE)
    .union(Sticky::STORED_PROCEDURE);

/// A session in which bytes moved within this time works.
const WORKED: Duration = Duration::from_secs(2);

pub(crate) struct SessionHandle {
    pub(crate) slot: ServerSlot,
    /// Times the session's commands; the relay takes it.
    pub(crate) insight: Cell<insight::Session>,
    /// Its part in a recording; the relay takes it.
    pub(crate) recorder: Cell<SessionRecorder>,
    facts: Cell<Facts>,
    order: Cell<Option<Order>>,
    waker: RefCell<Option<Waker>>,
    /// Moves with every byte relayed.
    activity: Cell<u32>,
    /// The activity at the last ping of its pool, unless a reset came later.
    pinged: Cell<Option<u32>>,
    /// Its place in the registry.
    at: Cell<Option<usize>>,
    /// The activity at the last look, and since when it has been that, by the registry's clock.
    looked: Cell<(u32, Option<Duration>)>,
    /// When a look last found that bytes had moved since the one before.
    worked: Cell<Option<Instant>>,
    /// What the client and the server owe.
    debts: Cell<[Debt; 2]>,
    /// The activity at which nothing was under way to either.
    settled: Cell<Option<u32>>,
}

/// What the tracker knew when bytes last moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Logged in, every command answered, no packet under way.
    pub(crate) idle: bool,
    /// A transaction is open.
    pub(crate) in_transaction: bool,
    /// State that closing would lose.
    pub(crate) sticky: Sticky,
}

/// What placement asks of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Close, unless a byte has come meanwhile.
    CloseIfIdle(Closed),
    /// Close now, whatever it does: a deadline has passed.
    Cut(Closed),
    /// Look whether a peer has been dead for this long.
    AskAfterPeers(Duration),
}

/// All sessions of a thread.
#[derive(Debug, Default)]
pub(crate) struct SessionRegistry {
    sessions: RefCell<Vec<Rc<SessionHandle>>>,
    /// Where the next look after peers begins.
    next: Cell<usize>,
    /// When sessions were last looked at.
    last_look: Cell<Option<Instant>>,
    /// Time as the looks have seen it. A thread that a busy host held back between two of them has seen
    /// nothing, and a client that was held back like it is not at rest.
    seen: Cell<Duration>,
}

/// Keeps a session in the registry until dropped, however the session ends.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: Rc<SessionRegistry>,
    pub(crate) handle: Rc<SessionHandle>,
}

impl Registration {
    pub(crate) fn new(registry: &Rc<SessionRegistry>, handle: Rc<SessionHandle>) -> Self {
        registry.add(handle.clone());
        Self { registry: registry.clone(), handle }
    }
}

/// Chunks of a ping and its answer, and of what drivers often send before the first statement of a
/// transaction (`SET autocommit = 0`).
const PING: u32 = 4;
/// Quiet for which a statement is waited for after a ping, where a switchover is why a session is to go: a
/// busy host lets a client pause for as long between the two.
const AFTER_PING: Duration = Duration::from_millis(200);
/// Chunks since a ping after which it was not for what the client does now: pools with a limit ("was used
/// half a second ago, need not be checked") ping as well.
const LATELY: u32 = 64;

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.remove(&self.handle);
    }
}

impl Facts {
    /// What the tracker says now. An unreadable session (TLS) is never idle as far as we can tell.
    pub(crate) fn of(tracker: &Tracker) -> Self {
        Self { idle: tracker.is_idle(), in_transaction: tracker.in_transaction(), sticky: tracker.sticky() }
    }

    /// Whether the session may be closed between two commands for this request.
    pub(crate) fn may_close(self, request: CloseRequest) -> bool {
        let held = match (request.light_state_too, request.prepared_too) {
            (true, _) => self.sticky.difference(LIGHT),
            (false, true) => self.sticky.difference(Sticky::PREPARED_STATEMENT),
            (false, false) => self.sticky,
        };
        self.idle && !self.in_transaction && (request.all_state_too || held.is_empty())
    }
}

impl std::fmt::Debug for SessionHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionHandle")
            .field("slot", &self.slot)
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

impl SessionHandle {
    /// A session that is not measured.
    #[cfg(test)]
    pub(crate) fn new(slot: ServerSlot) -> Rc<Self> {
        Self::measured(slot, insight::Session::off(), SessionRecorder::default())
    }

    /// A session of this listener, measured in the thread's ledger if the listener is.
    pub(crate) fn at(
        slot: ServerSlot,
        listener: &Arc<Listener>,
        ledger: &Rc<RefCell<Ledger>>,
        recorder: &Arc<Recorder>,
    ) -> Rc<Self> {
        let insight = match listener.insight() {
            Some(listener) => {
                insight::Session::begin(ledger.clone(), slot.counters.name().as_str(), &listener)
            }
            None => insight::Session::off(),
        };
        Self::measured(slot, insight, SessionRecorder::new(recorder, listener))
    }

    fn measured(slot: ServerSlot, insight: insight::Session, recorder: SessionRecorder) -> Rc<Self> {
        let facts = Facts { idle: false, in_transaction: false, sticky: Sticky::empty() };
        Rc::new(Self {
            slot,
            insight: Cell::new(insight),
            recorder: Cell::new(recorder),
            facts: Cell::new(facts),
            order: Cell::new(None),
            waker: RefCell::new(None),
            activity: Cell::new(0),
            pinged: Cell::new(None),
            at: Cell::new(None),
            looked: Cell::new((0, None)),
            worked: Cell::new(None),
            debts: Cell::default(),
            settled: Cell::new(None),
        })
    }

    /// The relay has moved bytes.
    pub(crate) fn moved(&self, tracker: &Tracker) {
        self.activity.set(self.activity.get().wrapping_add(1));
        self.facts.set(Facts::of(tracker));
    }

    pub(crate) fn facts(&self) -> Facts {
        self.facts.get()
    }

    /// Gives an order and wakes the relay.
    pub(crate) fn order(&self, order: Order) {
        self.order.set(Some(order));
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// The order that stands, if any.
    pub(crate) fn standing_order(&self) -> Option<Order> {
        self.order.get()
    }

    /// The order has been carried out.
    pub(crate) fn order_done(&self) {
        self.order.set(None);
    }

    /// Something other than bytes is under way to a peer: the end of a stream.
    pub(crate) fn unsettle(&self) {
        self.settled.set(None);
    }

    /// Whether a look after the peers can find nothing new.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.get() == Some(self.activity.get())
    }

    /// Whether one of the peers is dead, by what is under way to the client and to the server.
    pub(crate) fn gone(
        &self,
        outstanding: [Option<Outstanding>; 2],
        deadline: Duration,
        now: Instant,
    ) -> Option<Closed> {
        let mut debts = self.debts.get();
        let [client, server] = [0, 1].map(|at| debts[at].look(outstanding[at], deadline, now));
        self.debts.set(debts);
        let pending = |o: &Outstanding| o.is_owed() || o.unsent > 0;
        self.settled.set((!outstanding.iter().flatten().any(pending)).then(|| self.activity.get()));
        match (client, server) {
            (true, _) => Some(Closed::ClientSilent),
            (_, true) => Some(Closed::ServerSilent),
            _ => None,
        }
    }

    /// A byte came: the order to close when idle is void, and the right to close goes back.
    pub(crate) fn cancel(&self) {
        if matches!(self.order.get(), Some(Order::CloseIfIdle(_))) {
            self.order.set(None);
            self.slot.stay();
        }
    }

    /// The relay is about to wait; this is how to wake it.
    pub(crate) fn waits(&self, waker: &Waker) {
        let mut kept = self.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|w| w.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }

    /// A pool has checked the session: with a ping before it hands it out, or with a reset after it took it
    /// back.
    pub(crate) fn checked(&self, by_ping: bool) {
        self.pinged.set(by_ping.then(|| self.activity.get()));
    }

    /// How long this session must have been quiet. One that was pinged lately is in use until its next check,
    /// at which it can be closed without anybody noticing; right after a ping a statement is sure to come.
    fn quiet_for(&self, request: CloseRequest) -> Duration {
        match self.pinged.get().map(|at| self.activity.get().wrapping_sub(at)) {
            Some(0..=PING) if request.why == Closed::Switchover => AFTER_PING.max(request.checked_quiet * 5),
            Some(0..=PING) => request.checked_quiet * 5,
            Some(0..=LATELY) => request.checked_quiet,
            _ => request.quiet,
        }
    }

    /// Whether no byte has moved for `quiet`, as far as looks have shown, at `time` by the registry's clock;
    /// call it now and then.
    fn is_quiet(&self, quiet: Duration, time: Duration, now: Instant) -> bool {
        let activity = self.activity.get();
        match self.looked.get() {
            (seen, Some(since)) if seen == activity => time.saturating_sub(since) >= quiet,
            (_, before) => {
                self.worked.set(before.map(|_| now));
                self.looked.set((activity, Some(time)));
                quiet.is_zero()
            }
        }
    }
}

impl SessionRegistry {
    pub(crate) fn add(&self, handle: Rc<SessionHandle>) {
        let mut sessions = self.sessions.borrow_mut();
        handle.at.set(Some(sessions.len()));
        sessions.push(handle);
    }

    pub(crate) fn remove(&self, handle: &SessionHandle) {
        let mut sessions = self.sessions.borrow_mut();
        let Some(at) = handle.at.get() else { return };
        if sessions.get(at).is_some_and(|there| std::ptr::eq(&raw const **there, handle)) {
            sessions.swap_remove(at);
            if let Some(moved) = sessions.get(at) {
                moved.at.set(Some(at));
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn first(&self) -> Option<Rc<SessionHandle>> {
        self.sessions.borrow().first().cloned()
    }

    /// Looks for sessions that should move and are quiet, and orders them to close. Returns for how long the
    /// most wanted of those that should still move have to be quiet: another look is worth while before. The
    /// time since the last look counts for `at_most` this.
    pub(crate) fn look(&self, now: Instant, at_most: Duration) -> Option<Duration> {
        let mut more: Option<Duration> = None;
        let since = self.last_look.replace(Some(now)).map(|last| now.saturating_duration_since(last));
        let time = self.seen.get() + since.unwrap_or_default().min(at_most);
        self.seen.set(time);
        for handle in self.sessions.borrow().iter() {
            let Some(request) = handle.slot.counters.close_quota(handle.slot.role).now() else { continue };
            more = Some(more.map_or(request.quiet, |shortest| shortest.min(request.quiet)));
            let works = |handle: &SessionHandle| {
                handle.worked.get().is_some_and(|at| now.saturating_duration_since(at) < WORKED)
            };
            let ready = handle.is_quiet(handle.quiet_for(request), time, now)
                && handle.order.get().is_none()
                && (!request.working_only || works(handle));
            if ready && handle.facts.get().may_close(request) && handle.slot.leave() {
                handle.order(Order::CloseIfIdle(request.why));
            }
        }
        more
    }

    /// Lets the next few sessions look whether a peer is dead.
    pub(crate) fn ask_after_peers(&self, deadline: Duration) {
        let sessions = self.sessions.borrow();
        for _ in 0..peer::share(sessions.len(), deadline) {
            let at = self.next.get() % sessions.len();
            self.next.set(at + 1);
            let handle = &sessions[at];
            if !handle.is_settled() && handle.order.get().is_none() {
                handle.order(Order::AskAfterPeers(deadline));
            }
        }
    }

    /// Cuts the sessions that `of` chooses; returns how many.
    pub(crate) fn cut(&self, why: Closed, of: impl Fn(&ServerSlot) -> bool) -> usize {
        let sessions = self.sessions.borrow();
        sessions.iter().filter(|e| of(&e.slot)).map(|e| e.order(Order::Cut(why))).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_counters::ServerCounters;
    use fleet::{ListenerRole, ServerName};

    #[test]
    fn a_thread_that_was_held_back_has_not_seen_a_session_at_rest() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let counters = Arc::new(ServerCounters::new(ServerName::new("r1"), 1));
        let slot = ServerSlot::take(counters, ListenerRole::Reader, 0);
        let quiet = ms(100);
        let request =
            CloseRequest { quota: 1, quiet, checked_quiet: quiet, ..CloseRequest::of(Closed::Balance) };
        slot.counters.close_quota(slot.role).set(Some(request));
        let (registry, handle) = (SessionRegistry::default(), SessionHandle::new(slot));
        handle.facts.set(Facts { idle: true, in_transaction: false, sticky: Sticky::empty() });
        registry.add(handle.clone());
        let look = |at| {
            registry.look(start + ms(at), ms(20));
            handle.standing_order()
        };
        assert_eq!([look(0), look(10), look(5_000)], [None; 3], "it has been seen for 30 ms");
        let after: Vec<_> = (1..=6).map(|n| look(5_000 + n * 10)).collect();
        assert_eq!(after, [None; 6]);
        assert_eq!(look(5_070), Some(Order::CloseIfIdle(Closed::Balance)), "now for 100");
    }
}
