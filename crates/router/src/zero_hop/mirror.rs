//! Mirror: what bypassed sessions do. The kernel copies what they send and receive (`zerohop::mirror`); here it is put in order
//! and shown to a tracker, and of the sessions that insight measures to insight, as the relay shows what it moves.
//!
//! **State.** So it is known of each session whether it may be closed ([`Known`]): idle, in a transaction, or holding something.
//! That is true up to the byte counts that come with it, and only of a session that was followed from its first byte.
//!
//! On a thread of its own, with a ledger of its own: nobody waits for it. It looks every few milliseconds, and the times
//! of commands are those at which the kernel saw their bytes, at the client's host. When it cannot keep up, pieces are lost:
//! their sessions go on as before and are counted as not followed any more.

mod in_order;

use super::fit::{Mirrors, measured};
use crate::board::Board;
use crate::door::Door;
use crate::roster::Facts;
use crate::worker::Count;
use fleet::ServerName;
use in_order::InOrder;
use insight::{Ledger, Session, Shared};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use wire::{Phase, Tracker};
use zerohop::{Bypass, Mirror, Piece, What, monotonic_ns};

/// Between two looks while there is something to hear ...
const SOON: Duration = Duration::from_millis(10);
/// ... and while there has not been for a while.
const LATER: Duration = Duration::from_millis(50);
/// So many looks in vain are a while.
const IN_VAIN: u32 = 20;
/// A process that was here before has stopped listening after this long.
const HANDED_OVER: Duration = Duration::from_millis(500);
/// For so long after pieces were lost, bytes that come too early are not waited for: those before them are gone.
const LOST: Duration = Duration::from_secs(1);
/// How often sessions are looked for whose end was missed.
const SWEEP: Duration = Duration::from_secs(60);

/// Who the targets are. Written before the kernel may use one.
pub(super) type Named = Arc<Mutex<HashMap<u32, Target>>>;

/// A server as a listener's sessions reach it.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) server: ServerName,
    /// What people call the listener.
    pub(super) listener: String,
    /// One session in so many is mirrored; at least 1.
    pub(super) mirrored: u32,
    /// One session in so many is measured; 0 is none.
    pub(super) measured: u32,
    /// Commands that all its sessions sent, as far as those that were mirrored stand for the others.
    pub(super) commands: Arc<AtomicU64>,
}

impl Target {
    /// Of the sessions that are mirrored, one in so many is measured; 0 is none.
    fn measured_of_mirrored(&self) -> u32 {
        self.measured.div_ceil(self.mirrored.max(1))
    }
}

/// What is known of a session that was followed from its first byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) facts: Facts,
    /// The client's bytes up to which that is true.
    pub(crate) sent: u64,
    /// The server's.
    pub(crate) received: u64,
}

/// What is known of sessions, by the kernel's name of their sockets; those that are not in it are not known.
pub(crate) type States = HashMap<u64, Known>;

/// Where the thread is reached, from when it is first needed to the end of the router.
#[derive(Debug, Default)]
pub(crate) struct Line(OnceLock<Sender<Message>>);

/// What the thread is told.
pub(crate) enum Message {
    /// Listen to this from now on, or to nothing.
    Listen(Option<Box<Mirror>>),
    /// Hand over what was counted of commands.
    Count(Count),
    /// Say what is known of these sessions, up to now.
    States(Vec<u64>, Box<dyn FnOnce(States) + Send>),
}

impl Line {
    /// Asks for a copy of its ledger; without a thread there is nothing to copy.
    pub(crate) fn count(&self, count: Count) {
        if let Some(line) = self.0.get() {
            // One that has ended has nothing to say.
            let _ = line.send(Message::Count(count));
        }
    }

    /// Has `answer` called with what is known of these sessions; at once where nobody follows any.
    pub(super) fn states(&self, of: Vec<u64>, answer: impl FnOnce(States) + Send + 'static) {
        let message = Message::States(of, Box::new(answer));
        let left = match self.0.get() {
            Some(line) => line.send(message).err().map(|error| error.0),
            None => Some(message),
        };
        if let Some(Message::States(_, answer)) = left {
            answer(States::new());
        }
    }

    /// Listens to `mirror` from now on; starts the thread if there is none.
    pub(super) fn listen(
        &self,
        mirror: Option<Mirror>,
        shared: &Arc<Shared>,
        named: &Named,
    ) -> std::io::Result<()> {
        if self.0.get().is_none() {
            if mirror.is_none() {
                return Ok(());
            }
            let (line, inbox) = channel();
            let (shared, named) = (shared.clone(), named.clone());
            let run = move || serve(&inbox, shared, named);
            std::thread::Builder::new().name("headroom-mirror".to_owned()).spawn(run)?;
            let _ = self.0.set(line);
        }
        if let Some(line) = self.0.get() {
            // One that has ended listens to nothing.
            let _ = line.send(Message::Listen(mirror.map(Box::new)));
        }
        Ok(())
    }
}

/// Whether the kernel mirrors, and whether somebody listens.
#[derive(Debug, Default)]
pub(super) struct Mirroring {
    named: Named,
    /// Whether any listener is measured; unknown at first.
    wanted: Option<bool>,
    works: bool,
    listen_at: Option<Instant>,
}

impl Mirroring {
    /// Where is written who the targets are.
    pub(super) fn named(&self) -> Named {
        self.named.clone()
    }

    /// Has sessions mirrored where insight measures any, or where their state decides whether they may be closed (`follow`); says
    /// what the kernel does of it.
    pub(super) fn look(
        &mut self,
        bypass: &mut Bypass,
        board: &Board,
        doors: &[Arc<Door>],
        follow: bool,
    ) -> Mirrors {
        let wanted = follow || doors.iter().any(|door| measured(&door.listener()) > 0);
        if self.wanted != Some(wanted) {
            self.wanted = Some(wanted);
            let set = bypass.set_mirroring(wanted);
            self.works = wanted && set.is_ok();
            self.warn(set.map_err(|error| error.to_string()));
            let wait = if bypass.inherited() { HANDED_OVER } else { Duration::ZERO };
            self.listen_at = self.works.then(|| Instant::now() + wait);
            if !self.works {
                self.warn(self.listen(board, None));
            }
        }
        if self.listen_at.is_some_and(|at| at <= Instant::now()) {
            self.listen_at = None;
            let mirror = bypass.mirror().map_err(|error| error.to_string());
            let listens = mirror.and_then(|mirror| self.listen(board, Some(mirror)));
            self.works = listens.is_ok();
            if !self.works {
                // Nobody would read what is told.
                self.warn(bypass.set_mirroring(false).map_err(|error| error.to_string()));
            }
            self.warn(listens);
        }
        match (self.works, follow) {
            (false, _) => Mirrors::None,
            (true, false) => Mirrors::Measured,
            (true, true) => Mirrors::All,
        }
    }

    /// As far as we can tell nothing is mirrored any more, or it is another process that listens.
    pub(super) fn stop(&mut self, board: &Board) {
        if self.wanted.take().is_some() {
            self.listen_at = None;
            self.works = false;
            self.warn(self.listen(board, None));
        }
    }

    fn listen(&self, board: &Board, mirror: Option<Mirror>) -> Result<(), String> {
        board.mirror.listen(mirror, &board.insight, &self.named).map_err(|error| error.to_string())
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

fn serve(inbox: &Receiver<Message>, shared: Arc<Shared>, named: Named) {
    let ledger = Rc::new(RefCell::new(Ledger::new(shared)));
    let mut mirror: Option<Box<Mirror>> = None;
    let mut heard = Overheard::new(ledger.clone(), named);
    let mut in_vain = 0;
    loop {
        let message = match &mirror {
            None => inbox.recv().map_err(|_| TryRecvError::Disconnected),
            Some(_) => inbox.try_recv(),
        };
        match message {
            Ok(Message::Count(count)) => {
                count.answer(&ledger);
                continue;
            }
            Ok(Message::States(of, answer)) => {
                if let Some(mirror) = &mut mirror {
                    heard.read(mirror);
                }
                answer(heard.states(&of));
                continue;
            }
            Ok(Message::Listen(other)) => {
                mirror = other;
                heard.sessions.clear();
                continue;
            }
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {}
        }
        let Some(mirror) = &mut mirror else { continue };
        mirror.wait(if in_vain < IN_VAIN { SOON } else { LATER });
        let read = heard.read(mirror);
        in_vain = if read == 0 { in_vain.saturating_add(1) } else { 0 };
    }
}

/// All mirrored sessions.
struct Overheard {
    ledger: Rc<RefCell<Ledger>>,
    named: Named,
    /// By the kernel's name of the client's socket; `None` is one that cannot be read.
    sessions: HashMap<u64, Option<Box<Followed>>>,
    clock: Clock,
    swept: Instant,
    /// Pieces there was no room for, as last told, and until when that explains a hole.
    missed: u64,
    holes_stay_until: Option<Instant>,
    /// Sessions of which no more is wanted.
    enough: Vec<u64>,
    /// Sessions begun, by listener: every so many is measured.
    begun: HashMap<String, u32>,
    /// Sessions from before this process, and those of them that have not been counted yet.
    earlier: u32,
    uncounted: u32,
}

/// A session that is followed.
struct Followed {
    tracker: Tracker,
    insight: Session,
    from_client: InOrder,
    from_server: InOrder,
    /// For how many sessions it stands, itself among them.
    one_in: u32,
    /// What its target's sessions sent, and how much of it this one has told.
    commands: Option<Arc<AtomicU64>>,
    told: u64,
}

impl Followed {
    /// Counts the commands that were answered since the last time, for all that it stands for.
    fn count(&mut self) {
        let answered = self.tracker.progress().completed;
        if let Some(commands) = &self.commands {
            let new = answered.saturating_sub(self.told);
            commands.fetch_add(new * u64::from(self.one_in), Relaxed);
        }
        self.told = answered;
    }
}

impl Overheard {
    fn new(ledger: Rc<RefCell<Ledger>>, named: Named) -> Self {
        let sessions = HashMap::new();
        let (clock, swept) = (Clock::new(), Instant::now());
        let (enough, begun, holes_stay_until) = (Vec::new(), HashMap::new(), None);
        Self {
            ledger,
            named,
            sessions,
            clock,
            swept,
            missed: 0,
            holes_stay_until,
            enough,
            begun,
            earlier: 0,
            uncounted: 0,
        }
    }

    /// What is known of these sessions.
    fn states(&self, of: &[u64]) -> States {
        let known = |cookie: &u64| Some((*cookie, self.sessions.get(cookie)?.as_deref()?.known()?));
        of.iter().filter_map(known).collect()
    }

    /// Hears what came; returns how many bytes of the ring that was.
    fn read(&mut self, mirror: &mut Mirror) -> usize {
        self.notice_losses(mirror);
        let read = mirror.read(|piece| self.hear(piece));
        if self.uncounted > 0 {
            self.count_earlier();
        }
        for cookie in self.enough.drain(..) {
            mirror.stop(cookie);
        }
        if self.swept.elapsed() > SWEEP {
            self.swept = Instant::now();
            // The end of a session may be among the pieces that were lost. What cannot be read now is read the next time.
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
                "the ring of mirrored sessions was full"
            );
            self.missed = missed;
            self.holes_stay_until = Some(now + LOST);
        }
        self.holes_stay_until = self.holes_stay_until.filter(|until| *until > now);
    }

    fn hear(&mut self, piece: Piece<'_>) {
        let Piece { cookie, at, what } = piece;
        match what {
            What::Begins { target, client, server } => {
                let followed = self.begin(target, client, server);
                self.sessions.insert(cookie, Some(Box::new(followed)));
            }
            What::Ends => {
                self.sessions.remove(&cookie);
            }
            What::FromClient { seq, bytes } => self.bytes(cookie, at, seq, bytes, true),
            What::FromServer { seq, bytes } => self.bytes(cookie, at, seq, bytes, false),
        }
    }

    fn begin(&mut self, target: u32, client: u32, server: u32) -> Followed {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner).get(&target).cloned();
        let insight = match &named {
            Some(target)
                if nth(
                    self.begun.entry(target.listener.clone()).or_default(),
                    target.measured_of_mirrored(),
                ) =>
            {
                let ledger = self.ledger.clone();
                Session::begin_one_in(target.measured, ledger, target.server.as_str(), &target.listener)
            }
            _ => Session::off(),
        };
        Followed {
            tracker: Tracker::new(),
            insight,
            one_in: named.as_ref().map_or(1, |target| target.mirrored.max(1)),
            commands: named.map(|target| target.commands),
            told: 0,
            from_client: InOrder::from(client),
            from_server: InOrder::from(server),
        }
    }

    /// Sessions that began before this process are not followed; as many of them would have been measured as of others. How
    /// many that are is known once a page has been written.
    fn count_earlier(&mut self) {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.is_empty() {
            return;
        }
        let shares = named.values().map(Target::measured_of_mirrored);
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
        let Followed { tracker, insight, from_client: up, from_server: down, .. } = followed.as_mut();
        let taken = match from_client {
            true => up.take(seq, bytes, |bytes| insight.client_bytes_at(tracker, bytes, at)),
            false => down.take(seq, bytes, |bytes| insight.server_bytes_at(tracker, bytes, at)),
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

impl Followed {
    /// `None` while bytes are missing.
    fn known(&self) -> Option<Known> {
        let (up, down) = (&self.from_client, &self.from_server);
        let known = Known { facts: Facts::of(&self.tracker), sent: up.passed(), received: down.passed() };
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
