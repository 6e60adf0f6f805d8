//! Count: what the kernel counted becomes part of our counters, and a server that failed a session is
//! suspected.
//!
//! **Sessions that a server ends first** are a sign that it died: the kernel leaves the next connections to
//! the ordinary listener for a second, in which `observe` looks. Where servers do that all the time and are
//! healthy (drivers that wait for the server to close, a short `wait_timeout`), it means nothing, and is not
//! minded there for a while.

use super::fit::{MirrorScope, fit};
use super::mirror::TargetNames;
use crate::closed::Closed;
use crate::listener::Listener;
use crate::names::Names;
use crate::server_counters::ServerCounters;
use crate::shared_state::{RoutingState, SharedState};
use config::TlsMode;
use fleet::{ListenerRole, ServerName};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use zerohop::{Bypass, Error, TargetCounters, socket};

/// After this many times that a server closed sessions and was well, its closes mean nothing ...
const USUAL: u32 = 3;
/// ... for this long.
const LENIENT: Duration = Duration::from_secs(60);
/// A server that closed sessions shows within this time whether it is healthy.
const LOOKED: Duration = Duration::from_secs(2);
/// A server that failed a connection is not asked for a login so soon.
const FAILED: Duration = Duration::from_secs(1);
/// A pair that was of no use for this long stands in no page any more, and no `connect()` has just taken it
/// from one.
const UNUSED: Duration = Duration::from_secs(2);
/// How often bytes of live sessions are looked up.
const BYTES_EVERY: Duration = Duration::from_secs(5);
/// How often sessions without a greeting are looked for.
const GREETING_LOOK: Duration = Duration::from_millis(250);

/// What is known of the pairs of listener and server.
#[derive(Debug, Default)]
pub(super) struct KernelCounts {
    records: HashMap<(u32, SocketAddr), TargetRecord>,
    bytes_looked: Option<Instant>,
    greetings_looked: Option<Instant>,
}

/// One pair.
#[derive(Debug)]
struct TargetRecord {
    number: u32,
    counters: TargetCounters,
    server: Option<ServerName>,
    role: ListenerRole,
    /// Bytes of sessions that live, when last looked up: to the server, to the client.
    live: (u64, u64),
    /// Bytes reported so far, which never become less.
    reported: (u64, u64),
    /// Commands as the mirror estimates them, and how many of them were reported.
    commands: u64,
    commands_reported: u64,
    opened_at: Option<Instant>,
    lost_at: Option<Instant>,
    failed_at: Option<Instant>,
    usual: u32,
    lenient_until: Option<Instant>,
    /// Since when it has been of no use.
    unused_since: Option<Instant>,
}

/// A target that is suspect because sessions ended.
pub(super) struct SuspectTarget {
    pub(super) listener: u32,
    pub(super) at: SocketAddr,
    pub(super) server: ServerName,
    /// CLOCK_MONOTONIC, ns.
    pub(super) since: u64,
}

impl KernelCounts {
    /// Begins with what the kernel has counted before us: only what comes now is news.
    pub(super) fn resume(bypass: &Bypass) -> Self {
        let read = |(listener, at, number)| {
            let counters = bypass.counters(number).ok()?;
            Some(((listener, at), TargetRecord::new(number, counters)))
        };
        Self {
            records: bypass.targets().filter_map(read).collect(),
            bytes_looked: None,
            greetings_looked: None,
        }
    }

    /// Takes over what has been counted since the last look.
    pub(super) fn take(
        &mut self,
        bypass: &mut Bypass,
        shared: &SharedState,
        listeners: &[Arc<Listener>],
        mirroring: (MirrorScope, &TargetNames),
    ) -> Result<(), Error> {
        let (mirrors, target_names) = mirroring;
        let (routing, now) = (shared.routing(), Instant::now());
        let names = names(&routing, &shared.names);
        let roles = roles(bypass, listeners, routing.view.config.tls.tls.mode, mirrors);
        let targets: Vec<_> = bypass.targets().collect();
        for (listener, at, number) in targets {
            let counters = bypass.counters(number)?;
            let record = self
                .records
                .entry((listener, at))
                .or_insert_with(|| TargetRecord::new(number, TargetCounters::default()));
            record.role = roles.get(&listener).copied().unwrap_or(record.role);
            record.server = names.get(&at).cloned().or(record.server.take());
            record.news(counters, shared, now);
            let refusals;
            (record.commands, refusals) = {
                let target_names = target_names.lock().unwrap_or_else(PoisonError::into_inner);
                target_names
                    .get(&number)
                    .map_or((0, None), |target| (target.commands.load(Relaxed), target.refusals.take()))
            };
            if let Some((sessions, code)) = refusals {
                record.refused(sessions, code, shared, now);
            }
            let of_use = names.contains_key(&at) && roles.contains_key(&listener);
            if record.may_forget(of_use, now) && bypass.sessions_on(number)? == 0 {
                bypass.forget_target(listener, at);
                self.records.remove(&(listener, at));
            }
        }
        self.look_for_greetings(bypass, shared, routing.view.config.attempt_deadline, now);
        if self.bytes_looked.is_none_or(|at| now.duration_since(at) > BYTES_EVERY) {
            self.bytes_looked = Some(now);
            self.look_at_bytes(bypass);
        }
        self.publish(&routing, &shared.departed());
        Ok(())
    }

    /// Nothing bypasses the router any more, as far as we can tell.
    pub(super) fn clear(&mut self, shared: &SharedState) {
        self.records.clear();
        self.publish(&shared.routing(), &shared.departed());
    }

    pub(super) fn sessions_of(&self, listener: u32) -> usize {
        let of = |((number, _), record): (&(u32, SocketAddr), &TargetRecord)| {
            (*number == listener).then(|| record.counters.open())
        };
        self.records.iter().filter_map(of).sum::<u64>() as usize
    }

    /// Whether sessions that this server ends first are usual.
    pub(super) fn closes_mean_nothing(&self, listener: u32, at: SocketAddr) -> bool {
        self.records.get(&(listener, at)).is_some_and(|record| record.lenient_until.is_some())
    }

    /// The targets that are suspect because sessions ended, and for nothing else.
    pub(super) fn suspects(&self, bypass: &Bypass) -> impl Iterator<Item = SuspectTarget> {
        self.records.iter().filter_map(move |((listener, at), record)| {
            let since = record.counters.suspect_since()?;
            let void = bypass.healthy_at(*listener, *at) >= since;
            let failed = record.failed_at.is_some_and(|at| at.elapsed() < FAILED);
            let server = record.server.clone().filter(|_| !void && !failed)?;
            Some(SuspectTarget { listener: *listener, at: *at, server, since })
        })
    }

    /// The server and the role of a target.
    pub(super) fn of(&self, target: u32) -> Option<(&ServerName, ListenerRole)> {
        let record = self.records.values().find(|record| record.number == target)?;
        Some((record.server.as_ref()?, record.role))
    }

    /// A server that accepts and says nothing fails new sessions as one that refuses does. Looked for only
    /// while sessions are being opened.
    fn look_for_greetings(
        &mut self,
        bypass: &Bypass,
        shared: &SharedState,
        deadline: Duration,
        now: Instant,
    ) {
        let soon = |at: Instant| now.duration_since(at) < deadline + GREETING_LOOK * 2;
        let young = self.records.values().any(|record| record.opened_at.is_some_and(soon));
        if !young || self.greetings_looked.is_some_and(|at| now.duration_since(at) < GREETING_LOOK) {
            return;
        }
        self.greetings_looked = Some(now);
        // What cannot be read now is read the next time.
        let (Ok(sessions), Ok(sockets)) = (bypass.sessions(), socket::established()) else { return };
        let open: HashMap<u64, _> = sessions.iter().filter(|s| s.open).map(|s| (s.cookie, s)).collect();
        for socket in sockets.iter().filter(|socket| socket.received == 0) {
            let session = open.get(&socket.cookie).filter(|s| s.age() >= deadline);
            if let Some((server, _)) = session.and_then(|s| self.of(s.target)) {
                let words = format!(
                    "connected, but no greeting for {} ms (bypassing the router)",
                    deadline.as_millis()
                );
                shared.suspect(server, &words);
            }
        }
    }

    fn look_at_bytes(&mut self, bypass: &Bypass) {
        if self.records.values().all(|record| record.counters.open() == 0) {
            self.records.values_mut().for_each(|record| record.live = (0, 0));
            return;
        }
        // What cannot be read now is read the next time; what ended is counted in any case.
        let (Ok(sessions), Ok(sockets)) = (bypass.sessions(), socket::established()) else { return };
        let targets: HashMap<u64, u32> = sessions.iter().map(|s| (s.cookie, s.target)).collect();
        self.records.values_mut().for_each(|record| record.live = (0, 0));
        for socket in sockets {
            let target = targets.get(&socket.cookie);
            if let Some(record) = self.records.values_mut().find(|record| Some(&record.number) == target) {
                record.live.0 += socket.sent;
                record.live.1 += socket.received;
            }
        }
    }

    /// Sets what every server's counters say of bypassed sessions.
    fn publish(&mut self, routing: &RoutingState, departed: &[Arc<ServerCounters>]) {
        for counters in routing.counters.iter().chain(departed) {
            for role in [ListenerRole::Reader, ListenerRole::Writer] {
                let of = |record: &&TargetRecord| {
                    record.server.as_ref() == Some(&counters.name()) && record.role == role
                };
                let open: u64 = self.records.values().filter(of).map(|record| record.counters.open()).sum();
                counters.bypassed.set_sessions(role, u32::try_from(open).unwrap_or(u32::MAX));
            }
        }
        for record in self.records.values_mut() {
            let counters =
                routing.counters.iter().chain(departed).find(|t| Some(&t.name()) == record.server.as_ref());
            if let Some(counters) = counters {
                record.publish(counters);
            }
        }
    }
}

impl TargetRecord {
    fn new(number: u32, counters: TargetCounters) -> Self {
        Self {
            number,
            counters,
            server: None,
            role: ListenerRole::Reader,
            live: (0, 0),
            reported: (counters.to_server, counters.to_client),
            commands: 0,
            commands_reported: 0,
            opened_at: None,
            lost_at: None,
            failed_at: None,
            usual: 0,
            lenient_until: None,
            unused_since: None,
        }
    }

    /// Compares with the last look, and reports what does not look well.
    fn news(&mut self, counters: TargetCounters, shared: &SharedState, now: Instant) {
        let before = std::mem::replace(&mut self.counters, counters);
        let Some(server) = self.server.clone() else { return };
        let routing = shared.routing();
        let Some(at) = routing.view.index(&server) else { return };
        let bypassed = &routing.counters[at].bypassed;
        let add = |counter: &AtomicU64, n: u64| counter.fetch_add(n, Relaxed);
        let (refused, hung) = (counters.refused - before.refused, counters.hung - before.hung);
        let (ended, lost) = (counters.ended - before.ended, counters.lost - before.lost);
        add(&bypassed.connections, counters.opened - before.opened);
        if counters.opened > before.opened {
            self.opened_at = Some(now);
        }
        add(&bypassed.failures, refused);
        if refused + hung > 0 {
            self.failed_at = Some(now);
        }
        let ours = bypassed.ended_by_us.load(Relaxed).min(ended.saturating_sub(lost));
        bypassed.ended_by_us.fetch_sub(ours, Relaxed);
        add(&bypassed.closed[Closed::ClientLeft.index()], ended.saturating_sub(lost + ours));
        add(&bypassed.closed[Closed::ServerLeft.index()], lost);
        if refused > 0 {
            shared.suspect(&server, "connection refused (bypassing the router)");
        } else if hung > 0 {
            shared.suspect(&server, "no answer to a connection for 1 s (bypassing the router)");
        } else if lost > 0 {
            shared.request_check(&server, "it ended sessions");
        }
        self.usual_closes(lost, routing.view.snapshot.servers[at].state == fleet::State::Answering, now);
    }

    /// Mirrored sessions got an error with this code in the place of the greeting. Left to itself the server
    /// would keep its share of the new sessions, and refuse all of them.
    fn refused(&mut self, sessions: u64, code: u16, shared: &SharedState, now: Instant) {
        let Some(server) = &self.server else { return };
        let routing = shared.routing();
        if let Some(at) = routing.view.index(server) {
            routing.counters[at].bypassed.failures.fetch_add(sessions, Relaxed);
        }
        self.failed_at = Some(now);
        shared.suspect(server, &format!("error {code} instead of a greeting (bypassing the router)"));
    }

    /// Whether its number may be given to another pair, if no session has it, connections under way among
    /// them.
    fn may_forget(&mut self, of_use: bool, now: Instant) -> bool {
        if of_use || self.counters.open() > 0 {
            self.unused_since = None;
            return false;
        }
        let since = *self.unused_since.get_or_insert(now);
        now.duration_since(since) >= UNUSED
    }

    fn usual_closes(&mut self, lost: u64, well: bool, now: Instant) {
        if let Some(at) = self.lost_at
            && now.duration_since(at) > LOOKED
        {
            self.lost_at = None;
            self.usual = if well { self.usual + 1 } else { 0 };
            if self.usual >= USUAL {
                self.lenient_until = Some(now + LENIENT);
                self.usual = 0;
            }
        }
        if lost > 0 && self.lost_at.is_none() {
            self.lost_at = Some(now);
        }
        if self.lenient_until.is_some_and(|until| until < now) {
            self.lenient_until = None;
        }
    }

    fn publish(&mut self, counters: &ServerCounters) {
        let now = (self.counters.to_server + self.live.0, self.counters.to_client + self.live.1);
        counters.bypassed.bytes_to_server.fetch_add(now.0.saturating_sub(self.reported.0), Relaxed);
        counters.bypassed.bytes_to_client.fetch_add(now.1.saturating_sub(self.reported.1), Relaxed);
        self.reported = (self.reported.0.max(now.0), self.reported.1.max(now.1));
        counters.bypassed.commands.fetch_add(self.commands.saturating_sub(self.commands_reported), Relaxed);
        self.commands_reported = self.commands;
    }
}

/// Who is reached at which address.
fn names(routing: &RoutingState, names: &Names) -> HashMap<SocketAddr, ServerName> {
    let candidates = routing.view.candidates.iter();
    candidates.filter_map(|c| Some((names.socket_address(&c.reach)?, c.name.clone()))).collect()
}

/// What the clients of each listener, by its number, want.
fn roles(
    bypass: &Bypass,
    listeners: &[Arc<Listener>],
    to_servers: TlsMode,
    mirrors: MirrorScope,
) -> HashMap<u32, ListenerRole> {
    let mut roles = HashMap::new();
    for listener in listeners {
        let fitted = fit(&listener.config(), &listener.bound, to_servers, mirrors);
        for address in fitted.into_iter().flat_map(|fit| fit.dialled) {
            roles.extend(bypass.number_of(address).map(|number| (number, listener.role())));
        }
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_free_only_some_time_after_its_last_use_and_without_an_open_session() {
        let (mut record, start) = (TargetRecord::new(0, TargetCounters::default()), Instant::now());
        let after = |ms: u64| start + Duration::from_millis(ms);
        assert!(!record.may_forget(false, start), "a page may still name it");
        assert!(!record.may_forget(false, after(1900)));
        assert!(!record.may_forget(true, after(1950)));
        assert!(!record.may_forget(false, after(2000)), "it was used in between");
        record.counters.opened = 1;
        assert!(!record.may_forget(false, after(9000)));
        record.counters.ended = 1;
        assert!(!record.may_forget(false, after(9000)));
        assert!(record.may_forget(false, after(11_000)));
    }

    #[test]
    fn closes_of_a_server_that_is_well_mean_nothing_after_the_third_time() {
        let (mut record, start) = (TargetRecord::new(0, TargetCounters::default()), Instant::now());
        let mut lenient = |second: u64, lost: u64, well: bool| {
            record.usual_closes(lost, well, start + Duration::from_secs(second));
            record.lenient_until.is_some()
        };
        for second in (0..9).step_by(3) {
            assert!(!lenient(second, 1, true));
        }
        assert!(lenient(12, 0, true));
        assert!(lenient(70, 0, true) && !lenient(73, 0, true), "a minute later they are minded again");
        assert!(!lenient(74, 1, true) && !lenient(77, 0, false), "a server that was down is no usual close");
    }
}
