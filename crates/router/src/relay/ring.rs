//! The ring driver: all sessions of a thread on one io_uring. The cheapest way through the kernel that we
//! know: whatever has come for any session is sent on with one system call for all.
//!
//! A direction has one receive under way, and it is asked for together with the send of the chunk before: so
//! at most one further chunk comes while the other side has not taken the last, and it waits in memory of its
//! own. Nearly always the kernel takes a chunk at once; then nothing waits, and an idle session is two
//! receives without a buffer.
//!
//! A session comes here logged in, with nothing under way, and with both sockets off the runtime. Its end is
//! told to the peers at once; what the kernel still holds of it the ring keeps until that ends.

use super::{Action, AfterClient, LINGER, QUIT, Relay};
use crate::admission::Admission;
use crate::closed::Closed;
use crate::peer;
use crate::record::Recorder;
use crate::server_counters::ServerSlot;
use crate::session_registry::{SessionHandle, SessionRegistry};
use insight::Ledger;
use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uring::{Chunk, Event, Incoming, Ring, Token};
use wire::Tracker;

/// A session on its way here from the thread that let it in.
#[derive(Debug)]
pub(crate) struct Handed {
    pub(crate) client: OwnedFd,
    pub(crate) server: OwnedFd,
    /// Where it stands.
    pub(crate) tracker: Tracker,
    pub(crate) slot: ServerSlot,
    pub(crate) admission: Admission,
}

/// All sessions of a thread.
#[derive(Debug)]
pub(crate) struct Driver {
    ring: Ring,
    pub(crate) registry: SessionRegistry,
    pub(crate) ledger: Rc<RefCell<Ledger>>,
    recorder: Arc<Recorder>,
    sessions: Vec<Option<Box<RingSession>>>,
    free: Vec<u32>,
    count: usize,
    /// Sessions whose servers have this long to close.
    lingering: Vec<(Instant, u32)>,
    /// Where the next look after peers begins.
    next: usize,
}

/// One session.
#[derive(Debug)]
struct RingSession {
    relay: Relay,
    client: Token,
    server: Token,
    up: Half,
    down: Half,
    /// The client's connection is broken: it will not take anything.
    client_broken: bool,
    lingers: bool,
    admission: Admission,
}

/// One direction.
#[derive(Debug, Default)]
struct Half {
    /// What came while the other side had not taken the chunk before.
    next: Option<Vec<u8>>,
    /// The source has said its last.
    ended: bool,
    /// And the target has been told.
    done: bool,
}

/// The two ends of a session, as the owner's number of their sockets says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

impl Driver {
    pub(crate) fn new(ring: Ring, ledger: Rc<RefCell<Ledger>>, recorder: Arc<Recorder>) -> Self {
        Self {
            ring,
            recorder,
            ledger,
            registry: SessionRegistry::default(),
            sessions: Vec::new(),
            free: Vec::new(),
            count: 0,
            lingering: Vec::new(),
            next: 0,
        }
    }

    /// Sessions here.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Takes a session over.
    pub(crate) fn take(&mut self, handed: Handed) {
        let Handed { client, server, tracker, slot, admission } = handed;
        let at = self.free.pop().unwrap_or_else(|| {
            self.sessions.push(None);
            (self.sessions.len() - 1) as u32
        });
        let handle = SessionHandle::at(slot, &admission.permit.listener, &self.ledger, &self.recorder);
        let relay = Relay::new(tracker, handle.clone());
        let added = self.ring.add(client, Side::Client.owner(at)).and_then(|client| {
            let server =
                self.ring.add(server, Side::Server.owner(at)).inspect_err(|_| self.ring.close(client))?;
            Ok((client, server))
        });
        let (client, server) = match added {
            Ok(tokens) => tokens,
            Err(error) => {
                handle.slot.span().in_scope(|| tracing::warn!(%error, "a session's socket cannot be used"));
                handle.slot.ended(Closed::ServerLeft);
                return self.free.push(at);
            }
        };
        self.registry.add(handle);
        let (up, down) = (Half::default(), Half::default());
        let (client_broken, lingers) = (false, false);
        let session = RingSession { relay, client, server, up, down, client_broken, lingers, admission };
        self.sessions[at as usize] = Some(Box::new(session));
        self.count += 1;
        self.ring.receive(client, false);
        self.ring.receive(server, false);
    }

    /// Sends what is to be sent, waits for whatever comes, at most for `patience`, and handles it. Returns
    /// whether the waker was used.
    pub(crate) fn turn(&mut self, patience: Option<Duration>) -> io::Result<bool> {
        let linger = self.lingering.iter().map(|(until, _)| *until).min();
        let linger = linger.map(|until| until.saturating_duration_since(Instant::now()));
        let patience = [patience, linger].into_iter().flatten().min();
        self.ring.enter(patience)?;
        let mut rung = false;
        while let Some(event) = self.ring.event() {
            rung |= matches!(event, Event::Woken);
            self.handle(event);
        }
        self.end_lingering();
        Ok(rung)
    }

    /// Carries out the orders that stand. Only right after a turn: then everything that has come has been
    /// seen, and what the kernel shows is the rest.
    pub(crate) fn obey(&mut self) {
        for at in 0..self.sessions.len() as u32 {
            let Some(session) = &self.sessions[at as usize] else { continue };
            let silent = || session.is_silent(&self.ring);
            if let Some(why) = session.relay.due(silent, || [None; 2]) {
                self.end(at, why);
            }
        }
    }

    /// Ends those of the next few sessions whose peers have been dead for this long.
    pub(crate) fn ask_after_peers(&mut self, deadline: Duration) {
        let now = Instant::now();
        for _ in 0..peer::share(self.sessions.len(), deadline) {
            let at = self.next % self.sessions.len();
            self.next = at + 1;
            let Some(session) = &self.sessions[at] else { continue };
            let handle = session.relay.handle();
            if handle.is_settled() {
                continue;
            }
            let outstanding = [session.client, session.server].map(|token| self.ring.outstanding(token));
            if let Some(why) = handle.gone(outstanding, deadline, now) {
                self.end(at as u32, why);
            }
        }
    }

    /// Ends every session, because what moves their bytes has failed.
    pub(crate) fn fail(&mut self) {
        for session in self.sessions.drain(..).flatten() {
            session.relay.handle().slot.ended(Closed::ThreadFailed);
        }
    }

    fn handle(&mut self, event: Event) {
        let (owner, outcome) = match event {
            Event::Received { owner, incoming } => (owner, self.received(owner, incoming)),
            Event::Sent { owner } => (owner, self.sent(owner)),
            Event::Broken { owner } => (owner, self.broken(owner)),
            Event::Woken => return,
        };
        let at = owner / 2;
        let outcome = outcome.or_else(|| self.after_an_end(at));
        if let Some(why) = outcome {
            self.end(at, why);
        }
    }

    /// A receive has ended. Returns why the session is to end, if it is.
    fn received(&mut self, owner: u32, incoming: Incoming) -> Option<Closed> {
        let session = self.sessions.get_mut(owner as usize / 2)?.as_mut()?;
        let side = Side::of(owner);
        match incoming {
            Incoming::Bytes { chunk, more } => {
                match side {
                    Side::Client => {
                        if let Action::Close(why) = session.relay.client_bytes(&chunk) {
                            return Some(why);
                        }
                    }
                    Side::Server => session.relay.server_bytes(&chunk),
                }
                session.pass(&mut self.ring, side, chunk, more);
            }
            Incoming::End => session.half(side).ended = true,
            Incoming::Broken(_) => {
                session.half(side).ended = true;
                session.client_broken |= side == Side::Client;
            }
        }
        None
    }

    /// A side cannot be sent to any more.
    fn broken(&self, owner: u32) -> Option<Closed> {
        let session = self.sessions.get(owner as usize / 2)?.as_ref()?;
        Some(match Side::of(owner) {
            Side::Client => Closed::ClientLeft,
            Side::Server => session.relay.after_server(),
        })
    }

    /// One side has taken everything that was sent to it.
    fn sent(&mut self, owner: u32) -> Option<Closed> {
        let session = self.sessions.get_mut(owner as usize / 2)?.as_mut()?;
        let source = Side::of(owner).other();
        match session.half(source).next.take() {
            Some(bytes) => self.ring.send_patiently(session.token(source.other()), bytes),
            None if !session.half(source).ended => self.ring.receive(session.token(source), true),
            None => {}
        }
        None
    }

    /// What becomes of a session after a side has sent its last byte. Asked again whenever something moves.
    fn after_an_end(&mut self, at: u32) -> Option<Closed> {
        let session = self.sessions.get_mut(at as usize)?.as_mut()?;
        if !session.up.ended && !session.down.ended {
            return None;
        }
        let (to_server, to_client) =
            (session.holds(&self.ring, Side::Client), session.holds(&self.ring, Side::Server));
        if session.up.ended && !session.up.done {
            if to_server {
                self.ring.notify_when_sent(session.server);
            } else if session.client_broken {
                return Some(Closed::ClientLeft);
            } else {
                self.ring.close_half(session.server);
                session.relay.handle().unsettle();
                session.up.done = true;
            }
        }
        if to_client {
            self.ring.notify_when_sent(session.client);
            return None;
        }
        if session.down.ended {
            return Some(if session.up.ended { Closed::ClientLeft } else { session.relay.after_server() });
        }
        if session.up.done {
            match session.relay.after_client() {
                AfterClient::Over => return Some(Closed::ClientLeft),
                AfterClient::Answer => {}
                AfterClient::Linger if session.lingers => {}
                AfterClient::Linger => {
                    session.lingers = true;
                    self.lingering.push((Instant::now() + LINGER, at));
                }
            }
        }
        None
    }

    fn end_lingering(&mut self) {
        if self.lingering.is_empty() {
            return;
        }
        let now = Instant::now();
        let over = |(until, _): &mut (Instant, u32)| *until <= now;
        let over: Vec<_> = self.lingering.extract_if(.., over).collect();
        for (_, at) in over {
            self.end(at, Closed::ClientLeft);
        }
    }

    fn end(&mut self, at: u32, why: Closed) {
        let Some(session) = self.sessions.get_mut(at as usize).and_then(Option::take) else { return };
        let says_goodbye =
            session.relay.may_say_goodbye() && !session.holds(&self.ring, Side::Client) && !session.up.done;
        if session.lingers {
            self.lingering.retain(|(_, lingering)| *lingering != at);
        }
        self.registry.remove(session.relay.handle());
        // Counted before the peers can see it.
        session.relay.handle().slot.ended(why);
        self.free.push(at);
        self.count -= 1;
        drop(session.admission);
        // The client before the server, which wakes others when it is sent something: what a client sends
        // until it sees the end is lost.
        self.ring.close(session.client);
        if says_goodbye {
            self.ring.send_now(session.server, &QUIT);
        }
        self.ring.close(session.server);
    }
}

impl RingSession {
    /// Passes a chunk on and asks for the next, or puts it aside while the other side is not ready for it.
    fn pass(&mut self, ring: &mut Ring, source: Side, chunk: Chunk, more: bool) {
        let (from, to) = (self.token(source), self.token(source.other()));
        if ring.is_sending(to) {
            self.half(source).next = Some(chunk.to_vec());
        } else {
            ring.send(to, chunk);
            ring.receive(from, more);
        }
    }

    /// Whether something from `source` has not been taken by the other side.
    fn holds(&self, ring: &Ring, source: Side) -> bool {
        let (half, to) = match source {
            Side::Client => (&self.up, self.server),
            Side::Server => (&self.down, self.client),
        };
        half.next.is_some() || ring.is_sending(to)
    }

    /// Whether nothing is under way and the kernel holds nothing from either side.
    fn is_silent(&self, ring: &Ring) -> bool {
        !self.holds(ring, Side::Client)
            && !self.holds(ring, Side::Server)
            && ring.is_silent(self.server)
            && ring.is_silent(self.client)
    }

    fn token(&self, side: Side) -> Token {
        match side {
            Side::Client => self.client,
            Side::Server => self.server,
        }
    }

    /// The direction that begins on this side.
    fn half(&mut self, source: Side) -> &mut Half {
        match source {
            Side::Client => &mut self.up,
            Side::Server => &mut self.down,
        }
    }
}

impl Side {
    /// The number that a socket of this side of a session carries in the ring.
    fn owner(self, at: u32) -> u32 {
        at * 2 + self as u32
    }

    fn of(owner: u32) -> Self {
        if owner.is_multiple_of(2) { Self::Client } else { Self::Server }
    }

    fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_session_takes_less_than_two_kibibytes() {
        // Apart from what the tracker keeps elsewhere (the names of user and database), and two sessions in
        // the ring's table.
        let bytes = size_of::<RingSession>() + size_of::<SessionHandle>();
        assert!(bytes < 2048, "{bytes}");
    }
}
