//! Server counters: what this router has on one server, counted without locks.
//!
//! Each thread of the data plane writes only its own shard (padded to two cache lines, so that threads do not
//! share one); whoever wants a sum adds the shards up. Sums are exact once the threads are quiet and
//! otherwise as exact as reading several counters one after the other can be.

use crate::close_quota::CloseQuota;
use crate::closed::Closed;
use crate::gray::{Commits, Gray, GrayWatch, Kind};
use crate::pick::Because;
use crate::session_span;
use arc_swap::ArcSwap;
use fleet::{ListenerRole, ServerName};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tracing::Span;

#[derive(Debug)]
pub(crate) struct ServerCounters {
    /// What the server is called now: a reload may give it another name.
    name: ArcSwap<ServerName>,
    shards: Box<[ThreadShard]>,
    close_quotas: [CloseQuota; 2],
    /// What bypasses the router; one thread writes it.
    pub(crate) bypassed: BypassCounters,
    /// Logins broken off since the last that ended well.
    broken_off: AtomicU32,
    /// What its commits showed at the last look; the rebalancer writes it, status pages read it.
    gray: Mutex<(GrayWatch, Option<Gray>)>,
}

/// This many logins broken off in a row are time for one that ends well: a server blocks a host after
/// `max_connect_errors`, 100 by default, and other routers of this host have their part in them.
const BROKEN_OFF: u32 = 20;

/// Sessions that went straight to the server, as the kernel counts them.
#[derive(Debug, Default)]
pub(crate) struct BypassCounters {
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

impl BypassCounters {
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
pub(crate) struct ThreadShard {
    sessions: [AtomicU32; 2],
    connections: AtomicU64,
    failures: AtomicU64,
    bytes_to_server: AtomicU64,
    bytes_to_client: AtomicU64,
    commands: AtomicU64,
    picks: [AtomicU64; Because::WORDS.len()],
    closed: [AtomicU64; Closed::WORDS.len()],
    /// Of transactions and alone, as [`Kind`] counts.
    commits_begun: [AtomicU64; 2],
    commits_ended: [AtomicU64; 2],
    commits_given_up: [AtomicU64; 2],
}

/// Sums over the threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) readers: u32,
    pub(crate) writers: u32,
    pub(crate) bypassed: u32,
    pub(crate) connections: u64,
    pub(crate) failures: u64,
    pub(crate) bytes_to_server: u64,
    pub(crate) bytes_to_client: u64,
    pub(crate) commands: u64,
    pub(crate) commands_bypassed: u64,
    pub(crate) picks: [u64; Because::WORDS.len()],
    pub(crate) closed: [u64; Closed::WORDS.len()],
}

/// A session's place on a server: counted from the pick on, given back when dropped.
#[derive(Debug)]
pub(crate) struct ServerSlot {
    pub(crate) counters: Arc<ServerCounters>,
    pub(crate) role: ListenerRole,
    thread: usize,
    /// It has claimed a right to close from the quota.
    leaving: Cell<bool>,
    /// Says in each log line whose session it is.
    span: Span,
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

impl ServerCounters {
    pub(crate) fn new(name: ServerName, threads: usize) -> Self {
        let shards = (0..threads).map(|_| ThreadShard::default()).collect();
        Self {
            name: ArcSwap::from_pointee(name),
            shards,
            close_quotas: Default::default(),
            bypassed: BypassCounters::default(),
            broken_off: AtomicU32::new(0),
            gray: Mutex::default(),
        }
    }

    pub(crate) fn name(&self) -> ServerName {
        ServerName::clone(&self.name.load())
    }

    /// The server is called so from now on; its sessions stay what they are.
    pub(crate) fn rename(&self, name: ServerName) {
        self.name.store(Arc::new(name));
    }

    /// Looks whether commits hang; tells it once when it begins and when it ends.
    pub(crate) fn look_for_gray(&self, answers: bool, now: Instant) {
        let mut commits = Commits::default();
        for shard in &self.shards {
            for (sum, counters) in [
                (&mut commits.begun, &shard.commits_begun),
                (&mut commits.ended, &shard.commits_ended),
                (&mut commits.given_up, &shard.commits_given_up),
            ] {
                sum.iter_mut().zip(counters).for_each(|(sum, counter)| *sum += counter.load(Relaxed));
            }
        }
        let mut state = self.gray.lock().unwrap_or_else(PoisonError::into_inner);
        let found = state.0.look(&commits, answers, now);
        match (&state.1, &found) {
            (None, Some(gray)) => {
                tracing::warn!(server = %self.name(), "its commits hang (gray failure): {gray}. headroom failover --gray");
            }
            (Some(_), None) => {
                tracing::warn!(server = %self.name(), "its commits no longer hang, or nobody commits");
            }
            _ => {}
        }
        state.1 = found;
    }

    /// Commits that hang, at the last look.
    pub(crate) fn gray(&self) -> Option<Gray> {
        self.gray.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// A login ended well: the server holds nothing against this host any more.
    pub(crate) fn logged_in(&self) {
        if self.broken_off.load(Relaxed) > 0 {
            self.broken_off.store(0, Relaxed);
        }
    }

    /// A login was broken off, which the server counts against this host. Whether it is time for one of ours
    /// that ends well.
    pub(crate) fn broken_off(&self) -> bool {
        (self.broken_off.fetch_add(1, Relaxed) + 1).is_multiple_of(BROKEN_OFF)
    }

    /// Sessions of one role, over all threads and past them.
    pub(crate) fn sessions(&self, role: ListenerRole) -> u32 {
        let relayed: u32 = self.shards.iter().map(|b| b.sessions[index(role)].load(Relaxed)).sum();
        relayed + self.bypassed.sessions(role)
    }

    /// Sessions of one role that have not been told to leave: closing one takes its time, and whoever counted
    /// it still would close another for it.
    pub(crate) fn staying(&self, role: ListenerRole) -> u32 {
        self.sessions(role).saturating_sub(self.close_quota(role).leaving())
    }

    /// The quota for sessions of this role.
    pub(crate) fn close_quota(&self, role: ListenerRole) -> &CloseQuota {
        &self.close_quotas[index(role)]
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut sum = Totals {
            readers: self.sessions(ListenerRole::Reader),
            writers: self.sessions(ListenerRole::Writer),
            bypassed: self.bypassed.sessions(ListenerRole::Reader)
                + self.bypassed.sessions(ListenerRole::Writer),
            connections: self.bypassed.connections.load(Relaxed),
            failures: self.bypassed.failures.load(Relaxed),
            bytes_to_server: self.bypassed.bytes_to_server.load(Relaxed),
            bytes_to_client: self.bypassed.bytes_to_client.load(Relaxed),
            commands_bypassed: self.bypassed.commands.load(Relaxed),
            ..Totals::default()
        };
        sum.closed.iter_mut().zip(&self.bypassed.closed).for_each(|(s, c)| *s += c.load(Relaxed));
        for shard in &self.shards {
            sum.connections += shard.connections.load(Relaxed);
            sum.failures += shard.failures.load(Relaxed);
            sum.bytes_to_server += shard.bytes_to_server.load(Relaxed);
            sum.bytes_to_client += shard.bytes_to_client.load(Relaxed);
            sum.commands += shard.commands.load(Relaxed);
            sum.picks.iter_mut().zip(&shard.picks).for_each(|(s, p)| *s += p.load(Relaxed));
            sum.closed.iter_mut().zip(&shard.closed).for_each(|(s, c)| *s += c.load(Relaxed));
        }
        sum
    }
}

impl ServerSlot {
    /// Takes a slot for the session in whose span this runs; counted from now on.
    pub(crate) fn take(counters: Arc<ServerCounters>, role: ListenerRole, thread: usize) -> Self {
        counters.shards[thread].sessions[index(role)].fetch_add(1, Relaxed);
        Self { counters, role, thread, leaving: Cell::new(false), span: Span::current() }
    }

    /// From here on another thread counts what this session does, in a shard of its own.
    pub(crate) fn hand_to(&mut self, thread: usize) {
        let before = std::mem::replace(&mut self.thread, thread);
        let sessions = |thread: usize| &self.counters.shards[thread].sessions[index(self.role)];
        sessions(thread).fetch_add(1, Relaxed);
        sessions(before).fetch_sub(1, Relaxed);
    }

    /// Claims the right to close this session, if the quota has one left.
    pub(crate) fn leave(&self) -> bool {
        let claimed = !self.leaving.get() && self.counters.close_quota(self.role).claim();
        if claimed {
            self.leaving.set(true);
        }
        claimed
    }

    /// Gives the right back: the session stays after all.
    pub(crate) fn stay(&self) {
        if self.leaving.replace(false) {
            self.counters.close_quota(self.role).unclaim();
        }
    }

    fn shard(&self) -> &ThreadShard {
        &self.counters.shards[self.thread]
    }

    /// The server greeted: a session begins.
    pub(crate) fn connected(&self, because: &Because) {
        bump(&self.shard().connections, 1);
        bump(&self.shard().picks[because.index()], 1);
    }

    /// The server failed this session before it began.
    pub(crate) fn failed(&self) {
        bump(&self.shard().failures, 1);
    }

    /// Bytes were relayed to the server.
    pub(crate) fn to_server(&self, bytes: usize) {
        bump(&self.shard().bytes_to_server, bytes as u64);
    }

    /// Bytes were relayed to the client, and this many commands were answered whole.
    pub(crate) fn to_client(&self, bytes: usize, commands: u64) {
        bump(&self.shard().bytes_to_client, bytes as u64);
        bump(&self.shard().commands, commands);
    }

    pub(crate) fn commit_begins(&self, kind: Kind) {
        bump(&self.shard().commits_begun[kind as usize], 1);
    }

    pub(crate) fn commit_ends(&self, kind: Kind) {
        bump(&self.shard().commits_ended[kind as usize], 1);
    }

    pub(crate) fn commit_given_up(&self, kind: Kind) {
        bump(&self.shard().commits_given_up[kind as usize], 1);
    }

    /// The session is over.
    pub(crate) fn closed(&self, why: Closed) {
        bump(&self.shard().closed[why.index()], 1);
    }

    /// The span of the session, for whatever is logged of it outside of its login.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// The session is over: counted, logged, and kept in its span.
    pub(crate) fn ended(&self, why: Closed) {
        self.closed(why);
        let (_session, server) = (self.span.enter(), self.counters.name());
        match why {
            Closed::ClientLeft | Closed::ServerLeft => {
                tracing::trace!(%server, why = why.words(), "session ended");
            }
            _ => tracing::debug!(%server, why = why.words(), "session closed"),
        }
        // After the line, which says it already.
        session_span::record_end(&self.span, why.words(), why.is_failure());
    }
}

impl Drop for ServerSlot {
    fn drop(&mut self) {
        if self.leaving.get() {
            self.counters.close_quota(self.role).left();
        }
        self.shard().sessions[index(self.role)].fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::close_quota::CloseRequest;
    use std::time::Duration;

    #[test]
    fn slots_are_counted_from_the_pick_to_the_end() {
        let counters = Arc::new(ServerCounters::new(ServerName::new("r1"), 2));
        let one = ServerSlot::take(counters.clone(), ListenerRole::Reader, 0);
        let two = ServerSlot::take(counters.clone(), ListenerRole::Reader, 1);
        one.to_client(10, 2);
        two.to_client(5, 1);
        two.closed(Closed::ClientLeft);
        drop(one);
        let totals = counters.totals();
        assert_eq!((totals.readers, totals.writers, totals.bytes_to_client, totals.commands), (1, 0, 15, 3));
        assert_eq!(totals.closed[Closed::ClientLeft.index()], 1);
    }

    #[test]
    fn a_session_told_to_leave_is_counted_until_it_has_ended_and_not_as_staying() {
        let counters = Arc::new(ServerCounters::new(ServerName::new("r1"), 1));
        let role = ListenerRole::Reader;
        let slots: Vec<ServerSlot> = (0..3).map(|_| ServerSlot::take(counters.clone(), role, 0)).collect();
        let quiet = Duration::ZERO;
        let request =
            CloseRequest { quota: 2, quiet, checked_quiet: quiet, ..CloseRequest::of(Closed::Balance) };
        counters.close_quota(role).set(Some(request));
        assert!(slots[0].leave() && !slots[0].leave() && slots[1].leave() && !slots[2].leave());
        assert_eq!((counters.sessions(role), counters.staying(role)), (3, 1));
        slots[0].stay();
        assert_eq!((counters.staying(role), counters.close_quota(role).remaining()), (2, 1));
        drop(slots);
        assert_eq!((counters.sessions(role), counters.staying(role)), (0, 0));
    }

    /// Takes the lines of a log.
    #[derive(Clone, Default)]
    struct Lines(Arc<std::sync::Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_logged_at_the_end_of_a_session_says_whose_it_is() {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_ansi(false);
        let log = log.with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(log, || {
            let counters = Arc::new(ServerCounters::new(ServerName::new("r1"), 1));
            let span = tracing::info_span!("session", id = 7, client = "10.0.0.5:999");
            let slot = span.in_scope(|| ServerSlot::take(counters, ListenerRole::Reader, 0));
            slot.ended(Closed::Balance);
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains("session{id=7 client=\"10.0.0.5:999\"}"), "{text}");
        assert!(text.contains("session closed server=r1 why=\"moved: balance\""), "{text}");
    }

    /// Takes what is recorded in spans: `field=value`.
    struct Recorded(Arc<std::sync::Mutex<Vec<String>>>);

    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Recorded {
        fn on_record(
            &self,
            _: &tracing::span::Id,
            values: &tracing::span::Record<'_>,
            _: tracing_subscriber::layer::Context<'_, S>,
        ) {
            values.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
                self.0.lock().unwrap().push(format!("{field}={value:?}"));
            });
        }
    }

    #[test]
    fn the_span_of_a_session_keeps_why_it_ended_and_whether_it_failed() {
        let recorded = Arc::<std::sync::Mutex<Vec<String>>>::default();
        let layer = Recorded(recorded.clone());
        let spans = tracing_subscriber::layer::SubscriberExt::with(tracing_subscriber::registry(), layer);
        tracing::subscriber::with_default(spans, || {
            let counters = Arc::new(ServerCounters::new(ServerName::new("r1"), 1));
            for why in [Closed::Balance, Closed::ServerSilent] {
                let (end, error) = (tracing::field::Empty, tracing::field::Empty);
                let span = tracing::info_span!("session", id = 7, end, error);
                span.in_scope(|| ServerSlot::take(counters.clone(), ListenerRole::Reader, 0)).ended(why);
            }
        });
        assert_eq!(*recorded.lock().unwrap(), ["end=\"moved: balance\"", "error=\"server silent\""]);
    }
}
