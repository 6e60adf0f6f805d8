//! Roster: the sessions of one thread, as far as placing them anew needs to know.
//!
//! The relay leaves a few facts in its [`Entry`] whenever it has moved bytes (plain stores, same thread); the thread's
//! placement looks at them now and then, and leaves an order that the relay finds when it is woken.

use crate::closed::Closed;
use crate::door::Door;
use crate::peer::{self, Debt};
use crate::record::Recorder;
use crate::record::tap::Tap;
use crate::tally::{Seat, Wanted};
use crate::worker::Worker;
use insight::Ledger;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};
use uring::Outstanding;
use wire::{Sticky, Tracker};

/// State that a pooled connection makes for itself again: lost without harm when the pool opens a new one between uses.
pub(crate) const LIGHT: Sticky = Sticky::PREPARED_STATEMENT
    .union(Sticky::LAST_INSERT_ID)
    .union(Sticky::FOUND_ROWS)
    .union(Sticky::USER_VARIABLE)
    .union(Sticky::STORED_PROCEDURE);

/// One session.
pub(crate) struct Entry {
    /// Where it sits.
    pub(crate) seat: Seat,
    /// Times the session's commands; the relay takes it.
    pub(crate) insight: Cell<insight::Session>,
    /// Its part in a recording; the relay takes it.
    pub(crate) tap: Cell<Tap>,
    facts: Cell<Facts>,
    order: Cell<Option<Order>>,
    waker: RefCell<Option<Waker>>,
    /// Moves with every byte relayed.
    pulse: Cell<u32>,
    /// Its place in the roster.
    at: Cell<usize>,
    /// The pulse at the last look, and since when it has been that.
    looked: Cell<(u32, Option<Instant>)>,
    /// What the client and the server owe.
    debts: Cell<[Debt; 2]>,
    /// The pulse at which nothing was under way to either.
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
    /// Look whether a peer has been gone for so long.
    AskAfterPeers(Duration),
}

/// All sessions of a thread.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    entries: RefCell<Vec<Rc<Entry>>>,
    /// Where the next look after peers begins.
    next: Cell<usize>,
}

/// A session is on a roster until this is dropped, however it ends.
#[derive(Debug)]
pub(crate) struct Listed {
    worker: Rc<Worker>,
    pub(crate) entry: Rc<Entry>,
}

impl Listed {
    pub(crate) fn new(worker: &Rc<Worker>, entry: Rc<Entry>) -> Self {
        worker.roster.add(entry.clone());
        Self { worker: worker.clone(), entry }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.worker.roster.remove(&self.entry);
    }
}

impl Facts {
    /// What the tracker says now. An unreadable session (TLS) is never idle as far as we can tell.
    pub(crate) fn of(tracker: &Tracker) -> Self {
        Self { idle: tracker.is_idle(), in_transaction: tracker.in_transaction(), sticky: tracker.sticky() }
    }

    /// Whether the session may be closed between two commands for this wish.
    pub(crate) fn may_close(self, wanted: Wanted) -> bool {
        let held = match (wanted.light_state_too, wanted.prepared_too) {
            (true, _) => self.sticky.difference(LIGHT),
            (false, true) => self.sticky.difference(Sticky::PREPARED_STATEMENT),
            (false, false) => self.sticky,
        };
        self.idle && !self.in_transaction && (wanted.all_state_too || held.is_empty())
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("seat", &self.seat).field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Entry {
    /// A session that is not measured.
    #[cfg(test)]
    pub(crate) fn new(seat: Seat) -> Rc<Self> {
        Self::measured(seat, insight::Session::off(), Tap::default())
    }

    /// A session of this listener, measured in the thread's ledger if the listener is.
    pub(crate) fn at(
        seat: Seat,
        door: &Arc<Door>,
        ledger: &Rc<RefCell<Ledger>>,
        recorder: &Arc<Recorder>,
    ) -> Rc<Self> {
        let insight = match door.insight() {
            Some(listener) => insight::Session::begin(ledger.clone(), seat.tally.name.as_str(), &listener),
            None => insight::Session::off(),
        };
        Self::measured(seat, insight, Tap::new(recorder, door))
    }

    fn measured(seat: Seat, insight: insight::Session, tap: Tap) -> Rc<Self> {
        let facts = Facts { idle: false, in_transaction: false, sticky: Sticky::empty() };
        Rc::new(Self {
            seat,
            insight: Cell::new(insight),
            tap: Cell::new(tap),
            facts: Cell::new(facts),
            order: Cell::new(None),
            waker: RefCell::new(None),
            pulse: Cell::new(0),
            at: Cell::new(usize::MAX),
            looked: Cell::new((0, None)),
            debts: Cell::default(),
            settled: Cell::new(None),
        })
    }

    /// The relay has moved bytes.
    pub(crate) fn moved(&self, tracker: &Tracker) {
        self.pulse.set(self.pulse.get().wrapping_add(1));
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
    pub(crate) fn ordered(&self) -> Option<Order> {
        self.order.get()
    }

    /// The order has been carried out.
    pub(crate) fn obeyed(&self) {
        self.order.set(None);
    }

    /// Something other than bytes is under way to a peer: the end of a stream.
    pub(crate) fn unsettle(&self) {
        self.settled.set(None);
    }

    /// Whether a look after the peers can find nothing new.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.get() == Some(self.pulse.get())
    }

    /// Whether one of the peers is gone, by what is under way to the client and to the server.
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
        self.settled.set((!outstanding.iter().flatten().any(pending)).then(|| self.pulse.get()));
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
            self.seat.stay();
        }
    }

    /// The relay is about to wait; this is how to wake it.
    pub(crate) fn waits(&self, waker: &Waker) {
        let mut kept = self.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|w| w.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }

    /// Whether no byte has moved for `quiet`, as far as looks have shown; call it now and then.
    fn is_quiet(&self, quiet: Duration, now: Instant) -> bool {
        let pulse = self.pulse.get();
        match self.looked.get() {
            (seen, Some(since)) if seen == pulse => now.saturating_duration_since(since) >= quiet,
            _ => {
                self.looked.set((pulse, Some(now)));
                quiet.is_zero()
            }
        }
    }
}

impl Roster {
    pub(crate) fn add(&self, entry: Rc<Entry>) {
        let mut entries = self.entries.borrow_mut();
        entry.at.set(entries.len());
        entries.push(entry);
    }

    pub(crate) fn remove(&self, entry: &Entry) {
        let mut entries = self.entries.borrow_mut();
        let at = entry.at.get();
        if entries.get(at).is_some_and(|there| std::ptr::eq(&raw const **there, entry)) {
            entries.swap_remove(at);
            if let Some(moved) = entries.get(at) {
                moved.at.set(at);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn first(&self) -> Option<Rc<Entry>> {
        self.entries.borrow().first().cloned()
    }

    /// Looks for sessions that are wanted elsewhere and quiet, and orders them to close. Returns whether anything is
    /// still wanted here, so that another look is worth while.
    pub(crate) fn look(&self, now: Instant) -> bool {
        let mut more = false;
        for entry in self.entries.borrow().iter() {
            let Some(wanted) = entry.seat.tally.wish(entry.seat.role).now() else { continue };
            more = true;
            let ready = entry.is_quiet(wanted.quiet, now) && entry.order.get().is_none();
            if ready && entry.facts.get().may_close(wanted) && entry.seat.leave() {
                entry.order(Order::CloseIfIdle(wanted.why));
            }
        }
        more
    }

    /// Lets the next few sessions look whether a peer is gone.
    pub(crate) fn ask_after_peers(&self, deadline: Duration) {
        let entries = self.entries.borrow();
        for _ in 0..peer::share(entries.len(), deadline) {
            let at = self.next.get() % entries.len();
            self.next.set(at + 1);
            let entry = &entries[at];
            if !entry.is_settled() && entry.order.get().is_none() {
                entry.order(Order::AskAfterPeers(deadline));
            }
        }
    }

    /// Cuts the sessions that `of` chooses; returns how many.
    pub(crate) fn cut(&self, why: Closed, of: impl Fn(&Seat) -> bool) -> usize {
        let entries = self.entries.borrow();
        entries.iter().filter(|e| of(&e.seat)).map(|e| e.order(Order::Cut(why))).count()
    }
}
