//! Count: what the kernel counted becomes part of our tallies, and a server that failed a session is suspected.
//!
//! **Sessions that a server ends first** are a sign that it died: the kernel leaves the next connections to the ordinary
//! listener for a second, in which `observe` looks. Where servers do that all the time and are well (drivers that wait
//! for the server to close, a short `wait_timeout`), it means nothing, and is not minded there for a while.

use super::Role;
use super::fit::{Mirrors, fit};
use super::mirror::Named;
use super::resolve::Resolver;
use super::well::Doubted;
use crate::board::{Board, Sight};
use crate::closed::Closed;
use crate::door::Door;
use crate::tally::Tally as Ours;
use config::TlsMode;
use fleet::{ListenerRole, ServerName};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use zerohop::{Bypass, Error, Tally, socket};

/// After so many times that a server closed sessions and was well, its closes mean nothing ...
const USUAL: u32 = 3;
/// ... for this long.
const LENIENT: Duration = Duration::from_secs(60);
/// A server that closed sessions shows within this time whether it is well.
const LOOKED: Duration = Duration::from_secs(2);
/// A server that failed a connection is not asked for a login so soon.
const FAILED: Duration = Duration::from_secs(1);
/// A pair that was of no use for so long stands in no page any more, and no `connect()` has just taken it from one.
const UNUSED: Duration = Duration::from_secs(2);
/// How often bytes of live sessions are looked up.
const BYTES_EVERY: Duration = Duration::from_secs(5);
/// How often sessions without a greeting are looked for.
const GREETING_LOOK: Duration = Duration::from_millis(250);

/// What is known of the pairs of listener and server.
#[derive(Debug, Default)]
pub(super) struct Counts {
    seen: HashMap<(u32, SocketAddr), Seen>,
    bytes_looked: Option<Instant>,
    greetings_looked: Option<Instant>,
}

/// One pair.
#[derive(Debug)]
struct Seen {
    number: u32,
    tally: Tally,
    server: Option<ServerName>,
    role: Role,
    /// Bytes of sessions that live, when last looked up: to the server, to the client.
    live: (u64, u64),
    /// Bytes told so far, which never become less.
    told: (u64, u64),
    /// Commands as the mirror estimates them, and how many of them were told.
    commands: u64,
    commands_told: u64,
    opened_at: Option<Instant>,
    lost_at: Option<Instant>,
    failed_at: Option<Instant>,
    usual: u32,
    lenient_until: Option<Instant>,
    /// Since when it has been of no use.
    unused_since: Option<Instant>,
}

impl Counts {
    /// Begins with what the kernel has counted before us: only what comes now is news.
    pub(super) fn resume(bypass: &Bypass) -> Self {
        let read = |(listener, at, number)| {
            let tally = bypass.tally(number).ok()?;
            Some(((listener, at), Seen::new(number, tally)))
        };
        Self { seen: bypass.targets().filter_map(read).collect(), bytes_looked: None, greetings_looked: None }
    }

    /// Takes over what has been counted since the last look.
    pub(super) fn take(
        &mut self,
        bypass: &mut Bypass,
        board: &Board,
        doors: &[Arc<Door>],
        resolver: &mut Resolver,
        mirroring: (Mirrors, &Named),
    ) -> Result<(), Error> {
        let (mirrors, named) = mirroring;
        let (sight, now) = (board.sight(), Instant::now());
        let names = names(&sight, resolver);
        let roles = roles(bypass, doors, sight.view.config.tls.tls.mode, mirrors);
        let targets: Vec<_> = bypass.targets().collect();
        for (listener, at, number) in targets {
            let tally = bypass.tally(number)?;
            let seen = self.seen.entry((listener, at)).or_insert_with(|| Seen::new(number, Tally::default()));
            seen.role = roles.get(&listener).copied().unwrap_or(seen.role);
            seen.server = names.get(&at).cloned().or(seen.server.take());
            seen.news(tally, board, now);
            seen.commands = {
                let named = named.lock().unwrap_or_else(PoisonError::into_inner);
                named.get(&number).map_or(0, |target| target.commands.load(Relaxed))
            };
            let of_use = names.contains_key(&at) && roles.contains_key(&listener);
            if seen.may_forget(of_use, now) && bypass.sessions_on(number)? == 0 {
                bypass.forget_target(listener, at);
                self.seen.remove(&(listener, at));
            }
        }
        self.look_for_greetings(bypass, board, sight.view.config.attempt_deadline, now);
        if self.bytes_looked.is_none_or(|at| now.duration_since(at) > BYTES_EVERY) {
            self.bytes_looked = Some(now);
            self.look_at_bytes(bypass);
        }
        self.tell(&sight, &board.departed());
        Ok(())
    }

    /// Nothing goes past any more as far as we can tell.
    pub(super) fn clear(&mut self, board: &Board) {
        self.seen.clear();
        self.tell(&board.sight(), &board.departed());
    }

    /// Sessions of a listener now.
    pub(super) fn sessions_of(&self, listener: u32) -> usize {
        let of = |((number, _), seen): (&(u32, SocketAddr), &Seen)| {
            (*number == listener).then(|| seen.tally.open())
        };
        self.seen.iter().filter_map(of).sum::<u64>() as usize
    }

    /// Whether sessions that this server ends first are usual.
    pub(super) fn closes_mean_nothing(&self, listener: u32, at: SocketAddr) -> bool {
        self.seen.get(&(listener, at)).is_some_and(|seen| seen.lenient_until.is_some())
    }

    /// Who is in doubt because sessions ended, and for nothing else.
    pub(super) fn doubted(&self, bypass: &Bypass) -> impl Iterator<Item = Doubted> {
        self.seen.iter().filter_map(move |((listener, at), seen)| {
            let since = seen.tally.doubted_at()?;
            let void = bypass.well_at(*listener, *at) >= since;
            let failed = seen.failed_at.is_some_and(|at| at.elapsed() < FAILED);
            let server = seen.server.clone().filter(|_| !void && !failed)?;
            Some(Doubted { listener: *listener, at: *at, server, since })
        })
    }

    /// The server and the role of a target.
    pub(super) fn of(&self, target: u32) -> Option<(&ServerName, Role)> {
        let seen = self.seen.values().find(|seen| seen.number == target)?;
        Some((seen.server.as_ref()?, seen.role))
    }

    /// A server that accepts and says nothing fails new sessions as one that refuses does. Looked for only while sessions
    /// are being opened.
    fn look_for_greetings(&mut self, bypass: &Bypass, board: &Board, deadline: Duration, now: Instant) {
        let soon = |at: Instant| now.duration_since(at) < deadline + GREETING_LOOK * 2;
        let young = self.seen.values().any(|seen| seen.opened_at.is_some_and(soon));
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
                board.suspect(server, &words);
            }
        }
    }

    fn look_at_bytes(&mut self, bypass: &Bypass) {
        if self.seen.values().all(|seen| seen.tally.open() == 0) {
            self.seen.values_mut().for_each(|seen| seen.live = (0, 0));
            return;
        }
        // What cannot be read now is read the next time; what ended is counted in any case.
        let (Ok(sessions), Ok(sockets)) = (bypass.sessions(), socket::established()) else { return };
        let targets: HashMap<u64, u32> = sessions.iter().map(|s| (s.cookie, s.target)).collect();
        self.seen.values_mut().for_each(|seen| seen.live = (0, 0));
        for socket in sockets {
            let target = targets.get(&socket.cookie);
            if let Some(seen) = self.seen.values_mut().find(|seen| Some(&seen.number) == target) {
                seen.live.0 += socket.sent;
                seen.live.1 += socket.received;
            }
        }
    }

    /// Sets what every server's tally says of sessions that go past.
    fn tell(&mut self, sight: &Sight, departed: &[Arc<Ours>]) {
        for tally in sight.tallies.iter().chain(departed) {
            for role in [ListenerRole::Reader, ListenerRole::Writer] {
                let of = |seen: &&Seen| seen.server.as_ref() == Some(&tally.name) && seen.role == role;
                let open: u64 = self.seen.values().filter(of).map(|seen| seen.tally.open()).sum();
                tally.past.set_sessions(role, u32::try_from(open).unwrap_or(u32::MAX));
            }
        }
        for seen in self.seen.values_mut() {
            let tally = sight.tallies.iter().chain(departed).find(|t| Some(&t.name) == seen.server.as_ref());
            if let Some(tally) = tally {
                seen.tell(tally);
            }
        }
    }
}

impl Seen {
    fn new(number: u32, tally: Tally) -> Self {
        Self {
            number,
            tally,
            server: None,
            role: ListenerRole::Reader,
            live: (0, 0),
            told: (tally.to_server, tally.to_client),
            commands: 0,
            commands_told: 0,
            opened_at: None,
            lost_at: None,
            failed_at: None,
            usual: 0,
            lenient_until: None,
            unused_since: None,
        }
    }

    /// Compares with the last look, and reports what does not look well.
    fn news(&mut self, tally: Tally, board: &Board, now: Instant) {
        let before = std::mem::replace(&mut self.tally, tally);
        let Some(server) = self.server.clone() else { return };
        let sight = board.sight();
        let Some(at) = sight.view.index(&server) else { return };
        let past = &sight.tallies[at].past;
        let add = |counter: &AtomicU64, n: u64| counter.fetch_add(n, Relaxed);
        let (refused, hung) = (tally.refused - before.refused, tally.hung - before.hung);
        let (ended, lost) = (tally.ended - before.ended, tally.lost - before.lost);
        add(&past.connections, tally.opened - before.opened);
        if tally.opened > before.opened {
            self.opened_at = Some(now);
        }
        add(&past.failures, refused);
        if refused + hung > 0 {
            self.failed_at = Some(now);
        }
        let ours = past.ended_by_us.load(Relaxed).min(ended.saturating_sub(lost));
        past.ended_by_us.fetch_sub(ours, Relaxed);
        add(&past.closed[Closed::ClientLeft.index()], ended.saturating_sub(lost + ours));
        add(&past.closed[Closed::ServerLeft.index()], lost);
        if refused > 0 {
            board.suspect(&server, "connection refused (bypassing the router)");
        } else if hung > 0 {
            board.suspect(&server, "no answer to a connection for 1 s (bypassing the router)");
        } else if lost > 0 {
            board.doubt(&server, "it ended sessions");
        }
        self.usual_closes(lost, sight.view.snapshot.servers[at].state == fleet::State::Answering, now);
    }

    /// Whether its number may be given to another pair, if no session has it, connections under way among them.
    fn may_forget(&mut self, of_use: bool, now: Instant) -> bool {
        if of_use || self.tally.open() > 0 {
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

    fn tell(&mut self, tally: &Ours) {
        let now = (self.tally.to_server + self.live.0, self.tally.to_client + self.live.1);
        tally.past.bytes_to_server.fetch_add(now.0.saturating_sub(self.told.0), Relaxed);
        tally.past.bytes_to_client.fetch_add(now.1.saturating_sub(self.told.1), Relaxed);
        self.told = (self.told.0.max(now.0), self.told.1.max(now.1));
        tally.past.commands.fetch_add(self.commands.saturating_sub(self.commands_told), Relaxed);
        self.commands_told = self.commands;
    }
}

/// Who is reached at which address.
fn names(sight: &Sight, resolver: &mut Resolver) -> HashMap<SocketAddr, ServerName> {
    let candidates = sight.view.candidates.iter();
    candidates.filter_map(|c| Some((resolver.of(&c.reach)?, c.name.clone()))).collect()
}

/// What the clients of each listener, by its number, want.
fn roles(bypass: &Bypass, doors: &[Arc<Door>], to_servers: TlsMode, mirrors: Mirrors) -> HashMap<u32, Role> {
    let mut roles = HashMap::new();
    for door in doors {
        let fitted = fit(&door.listener(), &door.bound, to_servers, mirrors);
        for address in fitted.into_iter().flat_map(|fit| fit.dialled) {
            roles.extend(bypass.number_of(address).map(|number| (number, door.role())));
        }
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_free_only_some_time_after_its_last_use_and_without_an_open_session() {
        let (mut seen, start) = (Seen::new(0, Tally::default()), Instant::now());
        let after = |ms: u64| start + Duration::from_millis(ms);
        assert!(!seen.may_forget(false, start), "a page may still name it");
        assert!(!seen.may_forget(false, after(1900)));
        assert!(!seen.may_forget(true, after(1950)));
        assert!(!seen.may_forget(false, after(2000)), "it was used in between");
        seen.tally.opened = 1;
        assert!(!seen.may_forget(false, after(9000)));
        seen.tally.ended = 1;
        assert!(!seen.may_forget(false, after(9000)));
        assert!(seen.may_forget(false, after(11_000)));
    }

    #[test]
    fn closes_of_a_server_that_is_well_mean_nothing_after_the_third_time() {
        let (mut seen, start) = (Seen::new(0, Tally::default()), Instant::now());
        let mut lenient = |second: u64, lost: u64, well: bool| {
            seen.usual_closes(lost, well, start + Duration::from_secs(second));
            seen.lenient_until.is_some()
        };
        for second in (0..9).step_by(3) {
            assert!(!lenient(second, 1, true));
        }
        assert!(lenient(12, 0, true));
        assert!(lenient(70, 0, true) && !lenient(73, 0, true), "a minute later they are minded again");
        assert!(!lenient(74, 1, true) && !lenient(77, 0, false), "a server that was down is no usual close");
    }
}
