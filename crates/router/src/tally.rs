//! Tally: what this router has on one server, counted without locks.
//!
//! Each thread of the data plane writes only its own block (padded to two cache lines, so that threads do not share
//! one); whoever wants a sum adds the blocks up. Sums are exact once the threads are quiet and otherwise as exact as
//! reading several counters one after the other can be.

use crate::closed::Closed;
use crate::pick::Because;
use fleet::{ListenerRole, ServerName};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counters of one server.
#[derive(Debug)]
pub(crate) struct Tally {
    /// The server.
    pub(crate) name: ServerName,
    blocks: Box<[Block]>,
    wishes: [Wish; 2],
    /// What bypasses the router; one thread writes it.
    pub(crate) past: Past,
    /// Logins broken off since the last that ended well.
    broken_off: AtomicU32,
}

/// So many logins broken off in a row are time for one that ends well: a server blocks a host after `max_connect_errors`, 100 by
/// default, and other routers of this host have their part in them.
const BROKEN_OFF: u32 = 20;

/// Sessions that went straight to the server, as the kernel counts them.
#[derive(Debug, Default)]
pub(crate) struct Past {
    sessions: [AtomicU32; 2],
    pub(crate) connections: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) bytes_to_server: AtomicU64,
    pub(crate) bytes_to_client: AtomicU64,
    /// Estimated from the sessions that are mirrored; 0 where none was.
    pub(crate) commands: AtomicU64,
    pub(crate) closed: [AtomicU64; Closed::WORDS.len()],
    /// Sessions that we ended and that the kernel has not yet counted as ended.
    pub(crate) ended_by_us: AtomicU64,
}

impl Past {
    /// Sessions of one role now.
    pub(crate) fn sessions(&self, role: ListenerRole) -> u32 {
        self.sessions[index(role)].load(Relaxed)
    }

    pub(crate) fn set_sessions(&self, role: ListenerRole, sessions: u32) {
        self.sessions[index(role)].store(sessions, Relaxed);
    }
}

/// One thread's part.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Block {
    sessions: [AtomicU32; 2],
    connections: AtomicU64,
    failures: AtomicU64,
    bytes_to_server: AtomicU64,
    bytes_to_client: AtomicU64,
    commands: AtomicU64,
    picks: [AtomicU64; Because::WORDS.len()],
    closed: [AtomicU64; Closed::WORDS.len()],
}

/// What the steward wants gone from a server, for the sessions of one listener role.
#[derive(Debug, Default)]
pub(crate) struct Wish {
    /// Sessions that may be closed right now.
    quota: AtomicU32,
    /// Sessions that were told to leave and still sit.
    leaving: AtomicU32,
    /// Why, as [`Closed::index`].
    why: AtomicU8,
    /// How long a session must have been quiet, microseconds.
    quiet_us: AtomicU64,
    /// Whether prepared statements no longer matter.
    prepared_too: AtomicBool,
    /// Whether lightly held state (prepared statements, insert ids, variables) no longer matters.
    light_state_too: AtomicBool,
    /// Whether sessions that hold any state may go: they have waited for the limit.
    all_state_too: AtomicBool,
}

/// What may be closed for a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Sessions that may be closed right now.
    pub(crate) quota: u32,
    /// Why.
    pub(crate) why: Closed,
    /// How long a session must have been quiet.
    pub(crate) quiet: Duration,
    /// Prepared statements do not matter.
    pub(crate) prepared_too: bool,
    /// Lightly held state does not matter.
    pub(crate) light_state_too: bool,
    /// No state matters.
    pub(crate) all_state_too: bool,
}

/// Sums over the threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) readers: u32,
    pub(crate) writers: u32,
    pub(crate) past: u32,
    pub(crate) connections: u64,
    pub(crate) failures: u64,
    pub(crate) bytes_to_server: u64,
    pub(crate) bytes_to_client: u64,
    pub(crate) commands: u64,
    pub(crate) commands_past: u64,
    pub(crate) picks: [u64; Because::WORDS.len()],
    pub(crate) closed: [u64; Closed::WORDS.len()],
}

/// A session's place on a server: counted from the pick on, given back when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) tally: Arc<Tally>,
    pub(crate) role: ListenerRole,
    thread: usize,
    /// Told to leave, by right of the quota.
    leaving: Cell<bool>,
}

/// Adds to a counter that only this thread writes: cheaper than a locked addition.
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

fn index(role: ListenerRole) -> usize {
    match role {
        ListenerRole::Reader => 0,
        ListenerRole::Writer => 1,
    }
}

#[cfg(test)]
impl Wanted {
    /// Nothing yet, and every state matters.
    pub(crate) fn of(why: Closed) -> Self {
        let (prepared_too, light_state_too, all_state_too) = (false, false, false);
        Self { quota: 0, why, quiet: Duration::ZERO, prepared_too, light_state_too, all_state_too }
    }
}

impl Tally {
    pub(crate) fn new(name: ServerName, threads: usize) -> Self {
        let blocks = (0..threads).map(|_| Block::default()).collect();
        Self {
            name,
            blocks,
            wishes: Default::default(),
            past: Past::default(),
            broken_off: AtomicU32::new(0),
        }
    }

    /// A login ended well: the server holds nothing against this host any more.
    pub(crate) fn logged_in(&self) {
        if self.broken_off.load(Relaxed) > 0 {
            self.broken_off.store(0, Relaxed);
        }
    }

    /// A login was broken off, which the server counts against this host. Whether it is time for one of ours that ends well.
    pub(crate) fn broken_off(&self) -> bool {
        (self.broken_off.fetch_add(1, Relaxed) + 1).is_multiple_of(BROKEN_OFF)
    }

    /// Sessions of one role, over all threads and past them.
    pub(crate) fn sessions(&self, role: ListenerRole) -> u32 {
        let relayed: u32 = self.blocks.iter().map(|b| b.sessions[index(role)].load(Relaxed)).sum();
        relayed + self.past.sessions(role)
    }

    /// Sessions of one role that have not been told to leave: closing one takes its time, and whoever counted it still would
    /// close another for it.
    pub(crate) fn staying(&self, role: ListenerRole) -> u32 {
        self.sessions(role).saturating_sub(self.wish(role).leaving.load(Relaxed))
    }

    /// The wish for sessions of this role.
    pub(crate) fn wish(&self, role: ListenerRole) -> &Wish {
        &self.wishes[index(role)]
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut sum = Totals {
            readers: self.sessions(ListenerRole::Reader),
            writers: self.sessions(ListenerRole::Writer),
            past: self.past.sessions(ListenerRole::Reader) + self.past.sessions(ListenerRole::Writer),
            connections: self.past.connections.load(Relaxed),
            failures: self.past.failures.load(Relaxed),
            bytes_to_server: self.past.bytes_to_server.load(Relaxed),
            bytes_to_client: self.past.bytes_to_client.load(Relaxed),
            commands_past: self.past.commands.load(Relaxed),
            ..Totals::default()
        };
        sum.closed.iter_mut().zip(&self.past.closed).for_each(|(s, c)| *s += c.load(Relaxed));
        for block in &self.blocks {
            sum.connections += block.connections.load(Relaxed);
            sum.failures += block.failures.load(Relaxed);
            sum.bytes_to_server += block.bytes_to_server.load(Relaxed);
            sum.bytes_to_client += block.bytes_to_client.load(Relaxed);
            sum.commands += block.commands.load(Relaxed);
            sum.picks.iter_mut().zip(&block.picks).for_each(|(s, p)| *s += p.load(Relaxed));
            sum.closed.iter_mut().zip(&block.closed).for_each(|(s, c)| *s += c.load(Relaxed));
        }
        sum
    }
}

impl Wish {
    /// Says what is wanted from now on; `quota` replaces what was left.
    pub(crate) fn set(&self, wanted: Option<Wanted>) {
        let Some(wanted) = wanted else {
            self.quota.store(0, Relaxed);
            return;
        };
        self.why.store(wanted.why.index() as u8, Relaxed);
        self.quiet_us.store(wanted.quiet.as_micros() as u64, Relaxed);
        self.prepared_too.store(wanted.prepared_too, Relaxed);
        self.light_state_too.store(wanted.light_state_too, Relaxed);
        self.all_state_too.store(wanted.all_state_too, Relaxed);
        self.quota.store(wanted.quota, Relaxed);
    }

    /// What is wanted now, if anything is.
    pub(crate) fn now(&self) -> Option<Wanted> {
        let quota = self.quota.load(Relaxed);
        (quota > 0).then(|| Wanted {
            quota,
            why: Closed::from_index(usize::from(self.why.load(Relaxed))),
            quiet: Duration::from_micros(self.quiet_us.load(Relaxed)),
            prepared_too: self.prepared_too.load(Relaxed),
            light_state_too: self.light_state_too.load(Relaxed),
            all_state_too: self.all_state_too.load(Relaxed),
        })
    }

    /// What is left of the quota.
    pub(crate) fn left(&self) -> u32 {
        self.quota.load(Relaxed)
    }

    /// Takes the right to close one session; at most as many succeed as the quota says.
    pub(crate) fn take(&self) -> bool {
        self.quota.fetch_update(Relaxed, Relaxed, |q| q.checked_sub(1)).is_ok()
    }

    /// Gives the right back: the session was not closed after all.
    pub(crate) fn put_back(&self) {
        self.quota.fetch_add(1, Relaxed);
    }
}

impl Seat {
    /// Takes a seat; counted from now on.
    pub(crate) fn take(tally: Arc<Tally>, role: ListenerRole, thread: usize) -> Self {
        tally.blocks[thread].sessions[index(role)].fetch_add(1, Relaxed);
        Self { tally, role, thread, leaving: Cell::new(false) }
    }

    /// From here on another thread counts what this session does, in a block of its own.
    pub(crate) fn hand_to(&mut self, thread: usize) {
        let before = std::mem::replace(&mut self.thread, thread);
        let sessions = |thread: usize| &self.tally.blocks[thread].sessions[index(self.role)];
        sessions(thread).fetch_add(1, Relaxed);
        sessions(before).fetch_sub(1, Relaxed);
    }

    /// Takes the right to close this session, if the quota has one left.
    pub(crate) fn leave(&self) -> bool {
        let wish = self.tally.wish(self.role);
        let may = !self.leaving.get() && wish.take();
        if may {
            self.leaving.set(true);
            wish.leaving.fetch_add(1, Relaxed);
        }
        may
    }

    /// Gives the right back: the session stays after all.
    pub(crate) fn stay(&self) {
        if self.leaving.replace(false) {
            let wish = self.tally.wish(self.role);
            wish.leaving.fetch_sub(1, Relaxed);
            wish.put_back();
        }
    }

    fn block(&self) -> &Block {
        &self.tally.blocks[self.thread]
    }

    /// The server greeted: a session begins.
    pub(crate) fn connected(&self, because: &Because) {
        bump(&self.block().connections, 1);
        bump(&self.block().picks[because.index()], 1);
    }

    /// The server failed this session before it began.
    pub(crate) fn failed(&self) {
        bump(&self.block().failures, 1);
    }

    /// Bytes were relayed to the server.
    pub(crate) fn to_server(&self, bytes: usize) {
        bump(&self.block().bytes_to_server, bytes as u64);
    }

    /// Bytes were relayed to the client, and so many commands were answered whole.
    pub(crate) fn to_client(&self, bytes: usize, commands: u64) {
        bump(&self.block().bytes_to_client, bytes as u64);
        bump(&self.block().commands, commands);
    }

    /// The session is over.
    pub(crate) fn closed(&self, why: Closed) {
        bump(&self.block().closed[why.index()], 1);
    }

    /// The session is over: counted, and logged.
    pub(crate) fn ended(&self, why: Closed) {
        self.closed(why);
        let server = &self.tally.name;
        match why {
            Closed::ClientLeft | Closed::ServerLeft => {
                tracing::trace!(%server, why = why.words(), "session ends");
            }
            _ => tracing::debug!(%server, why = why.words(), "session closed"),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.leaving.get() {
            self.tally.wish(self.role).leaving.fetch_sub(1, Relaxed);
        }
        self.block().sessions[index(self.role)].fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_counted_from_the_pick_to_the_end() {
        let tally = Arc::new(Tally::new(ServerName::new("r1"), 2));
        let one = Seat::take(tally.clone(), ListenerRole::Reader, 0);
        let two = Seat::take(tally.clone(), ListenerRole::Reader, 1);
        one.to_client(10, 2);
        two.to_client(5, 1);
        two.closed(Closed::ClientLeft);
        drop(one);
        let totals = tally.totals();
        assert_eq!((totals.readers, totals.writers, totals.bytes_to_client, totals.commands), (1, 0, 15, 3));
        assert_eq!(totals.closed[Closed::ClientLeft.index()], 1);
    }

    #[test]
    fn who_was_told_to_leave_stays_no_longer_and_sits_until_gone() {
        let tally = Arc::new(Tally::new(ServerName::new("r1"), 1));
        let role = ListenerRole::Reader;
        let seats: Vec<Seat> = (0..3).map(|_| Seat::take(tally.clone(), role, 0)).collect();
        let quiet = Duration::ZERO;
        let wanted = Wanted { quota: 2, quiet, ..Wanted::of(Closed::Balance) };
        tally.wish(role).set(Some(wanted));
        assert!(seats[0].leave() && !seats[0].leave() && seats[1].leave() && !seats[2].leave());
        assert_eq!((tally.sessions(role), tally.staying(role)), (3, 1));
        seats[0].stay();
        assert_eq!((tally.staying(role), tally.wish(role).left()), (2, 1));
        drop(seats);
        assert_eq!((tally.sessions(role), tally.staying(role)), (0, 0));
    }

    #[test]
    fn no_more_sessions_are_closed_than_the_quota_says() {
        let wish = Wish::default();
        assert!(!wish.take() && wish.now().is_none());
        let quiet = Duration::from_millis(20);
        let wanted = Wanted { quota: 2, quiet, ..Wanted::of(Closed::Balance) };
        wish.set(Some(wanted));
        assert_eq!(wish.now(), Some(wanted));
        assert!(wish.take() && wish.take() && !wish.take());
        wish.put_back();
        assert!(wish.take());
    }
}
