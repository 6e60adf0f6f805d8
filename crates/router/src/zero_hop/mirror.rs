//! Mirror: what bypassed sessions do. The kernel copies what they send and receive (`zerohop::mirror`); here
//! it is put in order and shown to a tracker, and of the sessions that insight measures to insight, as the
//! relay shows what it moves.
//!
//! **State.** So it is known of each session whether it may be closed ([`ObservedState`]): idle, in a
//! transaction, or holding something. That is true up to the byte counts that come with it, and only of a
//! session that was followed from its first byte.
//!
//! On a thread of its own, with a ledger of its own: nobody waits for it. It looks every few milliseconds,
//! and the times of commands are those at which the kernel saw their bytes, at the client's host. When it
//! cannot keep up, pieces are lost: their sessions go on as before and are counted as not followed any more.

mod in_order;

use super::fit::{MirrorScope, measured};
use super::mirror_handle::{MirrorMessage, ObservedState, States};
use crate::listener::Listener;
use crate::session_registry::Facts;
use crate::shared_state::SharedState;
use fleet::ServerName;
use in_order::InOrder;
use insight::{CommandObserver, Ledger, Session, Shared};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wire::tracker::ClosedBecause;
use wire::{Phase, Tracker};
use zerohop::{Bypass, Mirror, Piece, PieceKind, monotonic_ns};

/// Between two looks while events come ...
const SOON: Duration = Duration::from_millis(10);
/// ... and while there has not been for a while.
const LATER: Duration = Duration::from_millis(50);
/// This many looks in vain are a while.
const IN_VAIN: u32 = 20;
/// A process that was here before has stopped listening after this long.
const HANDED_OVER: Duration = Duration::from_millis(500);
/// For this long after pieces were lost, bytes that come too early are not waited for: those before them are
/// lost.
const LOST: Duration = Duration::from_secs(1);
/// How often sessions are looked for whose end was missed.
const SWEEP: Duration = Duration::from_secs(60);

/// Which server each target is, by its number. Written before the kernel may use one.
pub(super) type TargetNames = Arc<Mutex<HashMap<u32, Target>>>;

/// A server as a listener's sessions reach it.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) server: ServerName,
    /// What people call the listener.
    pub(super) listener: String,
    /// One session in this many is mirrored; at least 1.
    pub(super) mirrored: u32,
    /// One session in this many is measured; 0 is none.
    pub(super) measured: u32,
    /// Commands that all its sessions sent, as far as those that were mirrored stand for the others.
    pub(super) commands: Arc<AtomicU64>,
    pub(super) refusals: Arc<Refusals>,
}

/// Mirrored sessions that the server refused with an error instead of a greeting, since the last look: it has
/// too many connections, or blocks this host. To the kernel they are connections that came about.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    sessions: AtomicU64,
    /// The last one's.
    code: AtomicU16,
}

impl Refusals {
    fn add(&self, code: u16) {
        self.code.store(code, Relaxed);
        self.sessions.fetch_add(1, Relaxed);
    }

    /// How many there were and the code of the last one; counts from zero again.
    pub(super) fn take(&self) -> Option<(u64, u16)> {
        let sessions = self.sessions.swap(0, Relaxed);
        (sessions > 0).then(|| (sessions, self.code.load(Relaxed)))
    }
}

impl Target {
    /// Of the sessions that are mirrored, one in this many is measured; 0 is none.
    fn measured_of_mirrored(&self) -> u32 {
        self.measured.div_ceil(self.mirrored.max(1))
    }
}

/// Whether the kernel mirrors, and whether somebody listens.
#[derive(Debug, Default)]
pub(super) struct Mirroring {
    target_names: TargetNames,
    /// Whether any listener is measured; unknown at first.
    wanted: Option<bool>,
    works: bool,
    listen_at: Option<Instant>,
}

impl Mirroring {
    /// Which server each target is.
    pub(super) fn target_names(&self) -> TargetNames {
        self.target_names.clone()
    }

    /// Has sessions mirrored where insight measures any, or where their state decides whether they may be
    /// closed (`follow`); says what the kernel does of it.
    pub(super) fn look(
        &mut self,
        bypass: &mut Bypass,
        shared: &SharedState,
        listeners: &[Arc<Listener>],
        follow: bool,
    ) -> MirrorScope {
        let wanted = follow || listeners.iter().any(|listener| measured(&listener.config()) > 0);
        if self.wanted != Some(wanted) {
            self.wanted = Some(wanted);
            let set = bypass.set_mirroring(wanted);
            self.works = wanted && set.is_ok();
            self.warn(set.map_err(|error| error.to_string()));
            let wait = if bypass.inherited() { HANDED_OVER } else { Duration::ZERO };
            self.listen_at = self.works.then(|| Instant::now() + wait);
            if !self.works {
                self.warn(self.listen(shared, None));
            }
        }
        if self.listen_at.is_some_and(|at| at <= Instant::now()) {
            self.listen_at = None;
            let mirror = Mirror::open(bypass).map_err(|error| error.to_string());
            let listens = mirror.and_then(|mirror| self.listen(shared, Some(mirror)));
            self.works = listens.is_ok();
            if !self.works {
                // Nobody would read the events.
                self.warn(bypass.set_mirroring(false).map_err(|error| error.to_string()));
            }
            self.warn(listens);
        }
        match (self.works, follow) {
            (false, _) => MirrorScope::None,
            (true, false) => MirrorScope::Measured,
            (true, true) => MirrorScope::All,
        }
    }

    /// As far as we can tell nothing is mirrored any more, or it is another process that listens.
    pub(super) fn stop(&mut self, shared: &SharedState) {
        if self.wanted.take().is_some() {
            self.listen_at = None;
            self.works = false;
            self.warn(self.listen(shared, None));
        }
    }

    fn listen(&self, shared: &SharedState, mirror: Option<Mirror>) -> Result<(), String> {
        let start = |inbox: Receiver<MirrorMessage>| {
            let (insight, target_names) = (shared.insight.clone(), self.target_names.clone());
            let run = move || serve(&inbox, insight, target_names);
            std::thread::Builder::new().name("headroom-mirror".to_owned()).spawn(run).map(drop)
        };
        shared.mirror.listen(mirror, start).map_err(|error| error.to_string())
    }

    fn warn(&self, done: Result<(), String>) {
        if let Err(why) = done {
            tracing::warn!(
                why,
                "bypassed sessions cannot be followed: those that insight measures pass through, and the others stay where they \
                 are"
            );
        }
    }
}

fn serve(inbox: &Receiver<MirrorMessage>, insight: Arc<Shared>, target_names: TargetNames) {
    let ledger = Rc::new(RefCell::new(Ledger::new(insight)));
    let mut mirror: Option<Box<Mirror>> = None;
    let mut mirrored = MirroredSessions::new(ledger.clone(), target_names);
    let mut in_vain = 0;
    loop {
        let message = match &mirror {
            None => inbox.recv().map_err(|_| TryRecvError::Disconnected),
            Some(_) => inbox.try_recv(),
        };
        match message {
            Ok(MirrorMessage::Ledger(count)) => {
                count.answer(&ledger);
                continue;
            }
            Ok(MirrorMessage::States(of, answer)) => {
                if let Some(mirror) = &mut mirror {
                    mirrored.read(mirror);
                }
                answer(mirrored.states(&of));
                continue;
            }
            Ok(MirrorMessage::Listen(other)) => {
                mirror = other;
                mirrored.sessions.clear();
                continue;
            }
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {}
        }
        let Some(mirror) = &mut mirror else { continue };
        mirror.wait(if in_vain < IN_VAIN { SOON } else { LATER });
        let read = mirrored.read(mirror);
        in_vain = if read == 0 { in_vain.saturating_add(1) } else { 0 };
    }
}

struct MirroredSessions {
    ledger: Rc<RefCell<Ledger>>,
    target_names: TargetNames,
    /// By the kernel's name of the client's socket; `None` is one that cannot be read.
    sessions: HashMap<u64, Option<Box<MirroredSession>>>,
    clock: Clock,
    swept: Instant,
    /// Pieces there was no room for, as last counted, and until when that explains a hole.
    missed: u64,
    holes_stay_until: Option<Instant>,
    /// Sessions that are no longer wanted.
    enough: Vec<u64>,
    sample: Sample,
    /// Sessions from before this process, and those of them that have not been counted yet.
    earlier: u32,
    uncounted: u32,
}

/// Which of the mirrored sessions are measured.
///
/// Of each listener's sessions on each server the first, which stands for itself, and every `n`th after it,
/// which stands for those since the last. So servers can be compared from the first session on, however
/// few a pool has, and no session is counted twice.
#[derive(Debug, Default)]
struct Sample {
    /// Sessions begun.
    begun: HashMap<(String, ServerName), u32>,
}

impl Sample {
    /// A mirrored session begins: for how many it stands if it is measured.
    fn begins(&mut self, target: &Target) -> Option<u32> {
        let key = (target.listener.clone(), target.server.clone());
        let begun = self.begun.entry(key).or_default();
        let before = *begun;
        *begun = begun.wrapping_add(1);
        match (target.measured_of_mirrored(), before) {
            (0, _) => None,
            // The kernel has picked those that it mirrors already.
            (1, _) => Some(target.measured),
            (_, 0) => Some(target.mirrored.max(1)),
            (n, before) => before.is_multiple_of(n).then_some(target.measured),
        }
    }
}

/// A session that is followed.
struct MirroredSession {
    tracker: Tracker,
    insight: Session,
    from_client: InOrder,
    from_server: InOrder,
    /// For how many sessions it stands, itself among them.
    one_in: u32,
    /// What its target's sessions sent, and how many of this one's are in it.
    commands: Option<Arc<AtomicU64>>,
    counted: u64,
    refusals: Option<Arc<Refusals>>,
}

impl MirroredSession {
    /// Counts the commands that were answered since the last time, for all that it stands for.
    fn count(&mut self) {
        let answered = self.tracker.progress().completed;
        if let Some(commands) = &self.commands {
            let new = answered.saturating_sub(self.counted);
            commands.fetch_add(new * u64::from(self.one_in), Relaxed);
        }
        self.counted = answered;
    }
}

impl MirroredSessions {
    fn new(ledger: Rc<RefCell<Ledger>>, target_names: TargetNames) -> Self {
        let sessions = HashMap::new();
        let (clock, swept) = (Clock::new(), Instant::now());
        let (enough, sample, holes_stay_until) = (Vec::new(), Sample::default(), None);
        Self {
            ledger,
            target_names,
            sessions,
            clock,
            swept,
            missed: 0,
            holes_stay_until,
            enough,
            sample,
            earlier: 0,
            uncounted: 0,
        }
    }

    /// What is known of these sessions.
    fn states(&self, of: &[u64]) -> States {
        let known = |cookie: &u64| Some((*cookie, self.sessions.get(cookie)?.as_deref()?.observed()?));
        of.iter().filter_map(known).collect()
    }

    /// Takes the events that came; returns how many bytes of the ring they took.
    fn read(&mut self, mirror: &mut Mirror) -> usize {
        self.notice_losses(mirror);
        let read = mirror.read(|piece| self.on_event(piece));
        if self.uncounted > 0 {
            self.count_earlier();
        }
        for cookie in self.enough.drain(..) {
            mirror.stop(cookie);
        }
        if self.swept.elapsed() > SWEEP {
            self.swept = Instant::now();
            // The end of a session may be among the pieces that were lost. What cannot be read now is read
            // the next time.
            if let Ok(live) = mirror.live() {
                self.sessions.retain(|cookie, _| live.contains(cookie));
            }
        }
        read
    }

    fn notice_losses(&mut self, mirror: &Mirror) {
        // What cannot be read now is read the next time.
        let missed = mirror.missed().unwrap_or(self.missed);
        let now = Instant::now();
        if missed != self.missed {
            tracing::debug!(
                pieces = missed.wrapping_sub(self.missed),
                "packets of mirrored sessions lost: the ring buffer was full"
            );
            self.missed = missed;
            self.holes_stay_until = Some(now + LOST);
        }
        self.holes_stay_until = self.holes_stay_until.filter(|until| *until > now);
    }

    fn on_event(&mut self, piece: Piece<'_>) {
        let Piece { cookie, at, kind } = piece;
        match kind {
            PieceKind::Begins { target, client, server } => {
                let followed = self.begin(target, client, server);
                self.sessions.insert(cookie, Some(Box::new(followed)));
            }
            PieceKind::Ends => {
                self.sessions.remove(&cookie);
            }
            PieceKind::FromClient { seq, bytes } => self.bytes(cookie, at, seq, bytes, true),
            PieceKind::FromServer { seq, bytes } => self.bytes(cookie, at, seq, bytes, false),
        }
    }

    fn begin(&mut self, target: u32, client: u32, server: u32) -> MirroredSession {
        let target = self.target_names.lock().unwrap_or_else(PoisonError::into_inner).get(&target).cloned();
        let stands_for = target.as_ref().and_then(|target| Some((target, self.sample.begins(target)?)));
        let insight = stands_for.map_or_else(Session::off, |(target, one_in)| {
            Session::begin_one_in(one_in, self.ledger.clone(), target.server.as_str(), &target.listener)
        });
        MirroredSession {
            tracker: Tracker::new(),
            insight,
            one_in: target.as_ref().map_or(1, |target| target.mirrored.max(1)),
            commands: target.as_ref().map(|target| target.commands.clone()),
            counted: 0,
            refusals: target.map(|target| target.refusals),
            from_client: InOrder::from(client),
            from_server: InOrder::from(server),
        }
    }

    /// Sessions that began before this process are not followed; as many of them would have been measured as
    /// of others. How many that are is known once a page has been written.
    fn count_earlier(&mut self) {
        let target_names = self.target_names.lock().unwrap_or_else(PoisonError::into_inner);
        if target_names.is_empty() {
            return;
        }
        let shares = target_names.values().map(Target::measured_of_mirrored);
        let one_in = shares.filter(|n| *n > 0).min().unwrap_or(0);
        for _ in 0..std::mem::take(&mut self.uncounted) {
            if nth(&mut self.earlier, one_in) {
                self.ledger.borrow_mut().began_earlier();
            }
        }
    }

    fn bytes(&mut self, cookie: u64, at: u64, seq: u32, bytes: &[u8], from_client: bool) {
        if !self.sessions.contains_key(&cookie) {
            self.uncounted += 1;
            self.enough.push(cookie);
            self.sessions.insert(cookie, None);
        }
        let Some(session) = self.sessions.get_mut(&cookie) else { return };
        let Some(followed) = session else { return };
        let at = self.clock.instant(at);
        let MirroredSession { tracker, insight, from_client: up, from_server: down, refusals, .. } =
            followed.as_mut();
        let taken = match from_client {
            true => up.take(seq, bytes, |bytes| {
                let mut observer = insight.observe(tracker, || at);
                tracker.client_bytes_with(bytes, &mut observer);
                CommandObserver::finish(observer, tracker);
            }),
            false => down.take(seq, bytes, |bytes| {
                let greeting_is_due = tracker.phase() == Phase::Greeting;
                let mut observer = insight.observe(tracker, || at);
                tracker.server_bytes_with(bytes, &mut observer);
                CommandObserver::finish(observer, tracker);
                if let (true, Phase::Closing(ClosedBecause::Refused(code)), Some(refusals)) =
                    (greeting_is_due, tracker.phase(), refusals.as_ref())
                {
                    refusals.add(code);
                }
            }),
        };
        let lost = taken.is_err() || (self.holes_stay_until.is_some() && (up.has_hole() || down.has_hole()));
        if lost {
            insight.lose();
        }
        let ended = lost || matches!(tracker.phase(), Phase::Opaque(_) | Phase::Lost(_));
        followed.count();
        if ended {
            *session = None;
            self.enough.push(cookie);
        }
    }
}

impl MirroredSession {
    /// `None` while bytes are missing.
    fn observed(&self) -> Option<ObservedState> {
        let (up, down) = (&self.from_client, &self.from_server);
        let known =
            ObservedState { facts: Facts::of(&self.tracker), sent: up.passed(), received: down.passed() };
        (!up.has_hole() && !down.has_hole()).then_some(known)
    }
}

/// Counts one more, and says whether it is every `one_in`th; of 0, none is.
fn nth(count: &mut u32, one_in: u32) -> bool {
    *count = count.wrapping_add(1);
    one_in > 0 && count.is_multiple_of(one_in)
}

/// Times of the kernel as ours.
struct Clock {
    instant: Instant,
    ns: u64,
}

impl Clock {
    fn new() -> Self {
        Self { instant: Instant::now(), ns: monotonic_ns() }
    }

    fn instant(&self, ns: u64) -> Instant {
        match ns.checked_sub(self.ns) {
            Some(later) => self.instant + Duration::from_nanos(later),
            None => self.instant.checked_sub(Duration::from_nanos(self.ns - ns)).unwrap_or(self.instant),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::login_bytes;

    fn target(server: &str, mirrored: u32, measured: u32) -> Target {
        let (server, listener) = (ServerName::new(server), "reader 127.0.0.1:3306".to_owned());
        Target { server, listener, mirrored, measured, commands: Arc::default(), refusals: Arc::default() }
    }

    #[test]
    fn an_error_instead_of_a_greeting_is_a_refusal_and_a_refused_login_is_none() {
        let insight = insight::Shared::new(config::RouterConfig::default().insight);
        let (ledger, names) = (Rc::new(RefCell::new(Ledger::new(insight))), TargetNames::default());
        names.lock().unwrap().insert(3, target("a", 1, 0));
        let refusals = names.lock().unwrap()[&3].refusals.clone();
        let mut mirrored = MirroredSessions::new(ledger, names);
        let mut says = |cookie, pieces: &[(bool, u32, &[u8])]| {
            let begins = PieceKind::Begins { target: 3, client: 0, server: 0 };
            mirrored.on_event(Piece { cookie, at: 0, kind: begins });
            for (client, seq, bytes) in pieces.iter().copied() {
                let kind = match client {
                    true => PieceKind::FromClient { seq, bytes },
                    false => PieceKind::FromServer { seq, bytes },
                };
                mirrored.on_event(Piece { cookie, at: 0, kind });
            }
        };
        let too_many = wire::ErrPacket::new(1040, b"08004", "Too many connections").before_greeting();
        says(1, &[(false, 0, &too_many)]);
        says(2, &[(false, 0, &too_many)]);
        assert_eq!(refusals.take(), Some((2, 1040)));
        let capabilities = wire::Capabilities::PROTOCOL_41 | wire::Capabilities::SECURE_CONNECTION;
        let (greeting, login) = (login_bytes::greeting(capabilities), login_bytes::login(capabilities));
        let denied = wire::ErrPacket::new(1045, b"28000", "Access denied").packet(2, capabilities);
        says(3, &[(false, 0, &greeting), (true, 0, &login), (false, greeting.len() as u32, &denied)]);
        assert_eq!(refusals.take(), None);
    }

    #[test]
    fn the_first_session_on_each_server_is_measured_and_every_sixteenth_after_it() {
        let mut sample = Sample::default();
        let servers = [target("a", 1, 16), target("b", 1, 16), target("c", 1, 16)];
        // A pool of fifteen sessions, five on each server.
        let begun: Vec<Option<u32>> = (0..15).map(|n| sample.begins(&servers[n % 3])).collect();
        assert_eq!(begun[..3], [Some(1); 3]);
        assert_eq!(begun[3..], [None; 12]);
        let stand_for: Vec<u32> = (5..49).filter_map(|_| sample.begins(&servers[0])).collect();
        assert_eq!(stand_for, [16, 16, 16], "of 49 sessions these stand for all, with the first");
    }

    #[test]
    fn sessions_that_the_kernel_picked_are_all_measured_and_none_where_none_is_wanted() {
        let mut sample = Sample::default();
        let begins = |sample: &mut Sample, target| (0..3).map(|_| sample.begins(&target)).collect::<Vec<_>>();
        assert_eq!(begins(&mut sample, target("a", 16, 16)), [Some(16); 3]);
        assert_eq!(begins(&mut sample, target("b", 1, 0)), [None; 3]);
        assert_eq!(begins(&mut sample, target("c", 1, 1)), [Some(1); 3]);
    }
}
