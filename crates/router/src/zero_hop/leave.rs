//! Leave: ends sessions that go past this process when placement wants them gone, as the relay does with its own.
//!
//! There is no tracker in the path. **Idle** is what three witnesses say: the server (its session waits for a statement,
//! outside a transaction), the kernel (nothing unread, nothing unacknowledged, quiet for as long as placement asks), and
//! the byte counts, which are the same before the server was asked, after it answered, and once more right before the socket
//! is ended. A statement that is sent in the ten or so microseconds between this last look and the end is lost; a look after which
//! this process was interrupted is not the last.
//!
//! What nobody here can see is state that a session holds (temporary tables, locks, prepared statements, variables).
//!
//! **A server that does not answer** cannot be a witness, and a statement sent to it would hang: sessions whose last word
//! was the server's, and that were quiet for a while, are ended. **A server that will not tell** (a privilege is missing):
//! sessions end by themselves, or at the drain deadline where they must go; the status says so.

use super::count::Counts;
use super::{Idle, Role, Witness};
use crate::board::{Board, Sight};
use crate::closed::Closed;
use crate::tally::{Tally, Wanted};
use fleet::{ListenerRole, ServerName, State};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use zerohop::socket::Socket;
use zerohop::{Bypass, Error, Session, socket};

/// Quiet for so long, a session on a server that does not answer is ended.
const QUIET_ON_SILENT: Duration = Duration::from_millis(200);
/// Moves for balance ask for so many times the configured quiet at least; see [`careful`].
const CAREFUL: f64 = 2.5;
/// A server reads what was sent to it within this time.
const LONG: Duration = Duration::from_secs(1);
/// A server that would not tell is asked again after this long.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// What is under way.
pub(super) struct Leaving {
    asked: HashMap<ServerName, Asked>,
    refused: BTreeMap<ServerName, (String, Instant)>,
    since: HashMap<(ServerName, ListenerRole), Instant>,
    cut: HashSet<(ServerName, Instant)>,
    answered: Arc<Notify>,
}

/// A question to a server.
struct Asked {
    /// Bytes of each of its sessions before it was asked.
    before: HashMap<u64, (u64, u64)>,
    answer: Arc<Mutex<Option<Result<Idle, String>>>>,
}

/// Sessions of one role that should leave a server.
struct Want {
    tally: Arc<Tally>,
    role: Role,
    wanted: Wanted,
    answers: bool,
    /// They must go at the latest then, whatever they do.
    deadline: Option<Instant>,
}

/// A session with its socket.
struct Live {
    session: Session,
    socket: Socket,
}

impl Leaving {
    /// `answered` is told when a server has answered.
    pub(super) fn new(answered: Arc<Notify>) -> Self {
        Self {
            asked: HashMap::new(),
            refused: BTreeMap::new(),
            since: HashMap::new(),
            cut: HashSet::new(),
            answered,
        }
    }

    /// One look; cheap while nobody should leave.
    pub(super) fn look(
        &mut self,
        bypass: &Bypass,
        board: &Board,
        witness: &Arc<dyn Witness>,
        counts: &Counts,
    ) -> Result<(), Error> {
        let (sight, now) = (board.sight(), Instant::now());
        let overdue: Vec<ServerName> = self.overdue(board, now);
        let wants = self.wants(board, &sight, now);
        self.asked.retain(|name, _| wants.iter().any(|want| want.tally.name == *name));
        if wants.is_empty() && overdue.is_empty() {
            return Ok(());
        }
        let live = live(bypass)?;
        for name in overdue {
            let of = |l: &&Live| counts.of(l.session.target).is_some_and(|(server, _)| *server == name);
            let tally = sight.tallies.iter().find(|t| t.name == name);
            let cut = live.iter().filter(of).filter(|l| end(bypass, l, end_anyway)).count();
            if let Some(tally) = tally {
                tally.past.closed[Closed::DrainDeadline.index()].fetch_add(cut as u64, Relaxed);
                tally.past.ended_by_us.fetch_add(cut as u64, Relaxed);
            }
            if cut > 0 {
                tracing::warn!(server = %name, sessions = cut, "sessions that bypass the router were cut at the drain deadline");
            }
        }
        for want in &wants {
            let is = |l: &&Live| counts.of(l.session.target) == Some((&want.tally.name, want.role));
            let theirs: Vec<&Live> = live.iter().filter(is).collect();
            self.one(bypass, want, &theirs, witness, now);
        }
        Ok(())
    }

    /// What keeps sessions where they are, for the status.
    pub(super) fn limits(&self) -> Vec<String> {
        let words = |(server, (why, _)): (&ServerName, &(String, Instant))| {
            format!(
                "{server} does not tell which sessions are idle ({why}): those that bypass the router end at deadlines only"
            )
        };
        self.refused.iter().map(words).collect()
    }

    fn one(
        &mut self,
        bypass: &Bypass,
        want: &Want,
        theirs: &[&Live],
        witness: &Arc<dyn Witness>,
        now: Instant,
    ) {
        if want.deadline.is_some_and(|deadline| deadline <= now) {
            close(bypass, want, theirs.iter().copied(), end_anyway);
            return;
        }
        if !want.answers {
            let quiet = want.wanted.quiet.max(QUIET_ON_SILENT);
            let gone = |l: &&Live| answered_or_both_at_once(l) && !l.socket.busy && l.socket.quiet >= quiet;
            close(bypass, want, theirs.iter().copied().filter(gone), Socket::end_if_unused_since);
            return;
        }
        let name = &want.tally.name;
        let answer = self
            .asked
            .get(name)
            .map(|asked| asked.answer.lock().unwrap_or_else(PoisonError::into_inner).take());
        match answer {
            Some(None) => {}
            Some(Some(Ok(idle))) => {
                self.refused.remove(name);
                let before = self.asked.remove(name).map(|asked| asked.before).unwrap_or_default();
                let may = |l: &&Live| may_end(l, &idle, want.wanted.quiet, &before);
                close(bypass, want, theirs.iter().copied().filter(may), Socket::end_if_unused_since);
            }
            Some(Some(Err(why))) => {
                self.asked.remove(name);
                if !self.refused.contains_key(name) {
                    tracing::warn!(server = %name, why, "it does not tell which sessions are idle; those that bypass the router end at deadlines only");
                }
                self.refused.insert(name.clone(), (why, now));
            }
            None => {
                let refused =
                    self.refused.get(name).is_some_and(|(_, at)| now.duration_since(*at) < ASK_AGAIN);
                let hope = theirs.iter().any(|l| !l.socket.busy && l.socket.quiet >= want.wanted.quiet);
                if hope && !refused {
                    self.ask(name, theirs, witness);
                }
            }
        }
    }

    fn ask(&mut self, name: &ServerName, theirs: &[&Live], witness: &Arc<dyn Witness>) {
        let before = theirs.iter().map(|l| (l.session.cookie, (l.socket.sent, l.socket.received))).collect();
        let answer = Arc::new(Mutex::new(None));
        let (slot, done, question) = (answer.clone(), self.answered.clone(), witness.idle(name));
        tokio::spawn(async move {
            let said = question.await;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
            done.notify_one();
        });
        self.asked.insert(name.clone(), Asked { before, answer });
    }

    /// Who should leave now.
    fn wants(&mut self, board: &Board, sight: &Sight, now: Instant) -> Vec<Want> {
        let mut wants = Vec::new();
        let limit = sight.view.config.replace.drain_deadline;
        let departed = board.departed();
        for tally in sight.tallies.iter().chain(&departed) {
            let at = sight.view.index(&tally.name);
            let answers = at.is_some_and(|at| sight.view.snapshot.servers[at].state == State::Answering);
            for role in [ListenerRole::Reader, ListenerRole::Writer] {
                let Some(wanted) = tally.wish(role).now() else { continue };
                // Sessions that go past us do not end when we do: that is their point.
                if tally.past.sessions(role) == 0 || wanted.why == Closed::Stopping {
                    continue;
                }
                let least = careful(wanted.why, sight.view.config.replace.quiet);
                let wanted = Wanted { quiet: wanted.quiet.max(least), ..wanted };
                let since = *self.since.entry((tally.name.clone(), role)).or_insert(now);
                // For balance alone nobody is cut; a drain has a deadline of its own.
                let must = matches!(wanted.why, Closed::NotEligible | Closed::NotPrimary);
                let deadline = must.then(|| since + limit);
                wants.push(Want { tally: tally.clone(), role, wanted, answers, deadline });
            }
        }
        // A quota that is spent is not a wish that is gone: forgotten only when there is nobody left.
        let has = |(name, role): &(ServerName, ListenerRole)| {
            let mut all = sight.tallies.iter().chain(&departed);
            all.any(|t| t.name == *name && t.past.sessions(*role) > 0 && self.asked_for(t, *role, sight))
        };
        let kept: Vec<_> = self.since.keys().filter(|key| has(key)).cloned().collect();
        self.since.retain(|key, _| kept.contains(key));
        wants
    }

    /// Whether a server is still not where its sessions of this role should be.
    fn asked_for(&self, tally: &Tally, role: ListenerRole, sight: &Sight) -> bool {
        let Some(at) = sight.view.index(&tally.name) else { return true };
        let candidate = &sight.view.candidates[at];
        match role {
            ListenerRole::Reader => !candidate.reads.is_eligible(),
            ListenerRole::Writer => !candidate.writes.is_eligible(),
        }
    }

    /// Servers whose drain deadline has passed and whose sessions past us have not been cut yet.
    fn overdue(&mut self, board: &Board, now: Instant) -> Vec<ServerName> {
        let drains = board.drains();
        self.cut.retain(|(name, deadline)| drains.get(name).is_some_and(|d| d.deadline == *deadline));
        let due = drains.into_iter().filter(|(_, drain)| drain.deadline <= now);
        due.filter_map(|(name, drain)| self.cut.insert((name.clone(), drain.deadline)).then_some(name))
            .collect()
    }
}

/// How quiet a session must have been at least. A byte that arrives cancels no close here, as it does in the relay; so one
/// that is closed only to be placed better should rather not be between two statements of a request. As there, a move
/// first looks for sessions that rest for long (see `steward`) and takes what it finds after a while: a pool that hands its
/// sessions out in turn has none that rests for long, and must not keep all of them where they are.
fn careful(why: Closed, configured: Duration) -> Duration {
    let for_balance = matches!(why, Closed::Balance | Closed::ReplicaBack);
    if for_balance { configured.mul_f64(CAREFUL) } else { configured }
}

/// Whether all three witnesses say that a session is idle.
fn may_end(live: &Live, idle: &Idle, quiet: Duration, before: &HashMap<u64, (u64, u64)>) -> bool {
    let socket = &live.socket;
    let unchanged = before.get(&live.session.cookie) == Some(&(socket.sent, socket.received));
    let client: SocketAddr = socket.local;
    // Sent and answered within one tick look the same as answered and sent: then the statement may be under way still.
    let answered = socket.received_ago < socket.sent_ago;
    let by_server = if idle.idle.contains(&client) {
        // A server that has not read a statement yet says that the session sleeps; not for long.
        answered || socket.quiet >= LONG
    } else {
        // Known there by another address: it does not tell of this one. If nobody at all has a transaction, it has none.
        !idle.busy.contains(&client) && !idle.any_transaction && answered
    };
    unchanged && by_server && !socket.busy && socket.quiet >= quiet
}

/// The last word was the server's, or nobody can tell.
fn answered_or_both_at_once(live: &Live) -> bool {
    live.socket.received_ago <= live.socket.sent_ago
}

/// Ends sessions in this way while the quota lasts, those that were quiet for longest first.
fn close<'a>(
    bypass: &Bypass,
    want: &Want,
    which: impl Iterator<Item = &'a Live>,
    how: fn(&Socket) -> io::Result<bool>,
) {
    let mut which: Vec<&Live> = which.collect();
    which.sort_by_key(|l| std::cmp::Reverse(l.socket.quiet));
    for live in which {
        let wish = want.tally.wish(want.role);
        if !wish.take() {
            return;
        }
        if end(bypass, live, how) {
            want.tally.past.closed[want.wanted.why.index()].fetch_add(1, Relaxed);
            want.tally.past.ended_by_us.fetch_add(1, Relaxed);
            tracing::debug!(server = %want.tally.name, why = want.wanted.why.words(), "session that bypassed the router ended");
        } else {
            wish.put_back();
        }
    }
}

/// `false` when it had ended by itself, was used meanwhile, or cannot be ended.
fn end(bypass: &Bypass, live: &Live, how: fn(&Socket) -> io::Result<bool>) -> bool {
    if !bypass.will_end(&live.session) {
        return false;
    }
    let ended = how(&live.socket)
        .inspect_err(|error| tracing::debug!(%error, "a session could not be ended"))
        .unwrap_or(false);
    if !ended {
        bypass.will_not_end(&live.session);
    }
    ended
}

fn end_anyway(socket: &Socket) -> io::Result<bool> {
    socket.end().map(|()| true)
}

fn live(bypass: &Bypass) -> Result<Vec<Live>, Error> {
    let mut sessions: HashMap<u64, Session> =
        bypass.sessions()?.into_iter().filter(|s| s.open).map(|s| (s.cookie, s)).collect();
    // Without the list nobody can be ended now; the next look tries again.
    let sockets = socket::established().unwrap_or_default().into_iter();
    Ok(sockets
        .filter_map(|socket| Some(Live { session: sessions.remove(&socket.cookie)?, socket }))
        .collect())
}
