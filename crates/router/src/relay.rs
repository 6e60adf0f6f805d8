//! Relay: what one session's bytes mean while they pass, until one side leaves or placement says so.
//!
//! Moves no byte itself: a driver does ([`polled`], [`ring`]), and shows every chunk here exactly once,
//! before it passes it on: [`Relay::client_bytes`] what comes from the client, [`Relay::server_bytes`] what
//! comes from the server. All drivers owe the same: a direction is not read again before the other side has
//! taken everything but one further chunk, so that a session never holds more than two chunks a direction,
//! and none while nothing is under way; and per query no allocation and no lock; the clock is read once a
//! chunk, and only where the listener is measured.
//!
//! **Closing in peace.** An order to close is carried out only when the tracker says idle, nothing is under
//! way, and the kernel holds no byte from either side. Then the client's socket is closed, and the server
//! gets `COM_QUIT`, as from any polite client. A byte that has come voids the order. What remains is a
//! request that the client sends in the microseconds between our look and its seeing the end: nothing that
//! may take longer stands between the two. The quiet time makes that rare.
//!
//! **Pool checks.** `COM_PING` and `COM_RESET_CONNECTION` are what pools send before they hand a connection
//! out (or when they take it back), and they are ready for it to fail: then they open a new one and the
//! application sees nothing. So a session that should move is closed *in answer to* such a check, however
//! busy it is otherwise. After a reset the server would have dropped all state of the session anyway.
//!
//! **One side leaves.** A client that closes its half has said its last, and still gets its answer; with
//! nothing to answer the session is over. A server that closes ends the session once the client has been
//! given what it said. After a `COM_QUIT` it closes because its client leaves, and is not the one that left.

pub(crate) mod polled;
pub(crate) mod ring;
#[cfg(test)]
mod tests;

use crate::close_quota::CloseRequest;
use crate::closed::Closed;
use crate::gray::SessionCommits;
use crate::record::SessionRecorder;
use crate::session_registry::{Facts, Order, SessionHandle};
use fleet::ListenerRole;
use insight::CommandObserver;
use std::cell::LazyCell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use uring::Outstanding;
use wire::tracker::{ClosedBecause, Side};
use wire::{Command, Phase, Tracker};

/// How long a server may take to close after its client has left, when we cannot see what it is doing.
pub(crate) const LINGER: Duration = Duration::from_secs(30);

/// A `COM_QUIT` packet.
pub(crate) const QUIT: [u8; 5] = [1, 0, 0, 0, Command::Quit.byte()];

/// One session as far as its bytes tell.
#[derive(Debug)]
pub(crate) struct Relay {
    tracker: Tracker,
    /// Times the commands, where the listener is measured.
    insight: insight::Session,
    /// Tells a recording, while there is one.
    recorder: SessionRecorder,
    handle: Rc<SessionHandle>,
    /// Commits of a writer, for the verdict that they hang.
    commits: CommitMark,
    /// Commands already counted.
    counted: u64,
    /// A change of user is not relayed but handed over: its password has to be translated. One that is sent
    /// ahead of other answers ends the session: nobody would stand between when the password comes.
    hands_over: bool,
}

/// What to do with bytes that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Pass them on.
    Pass,
    /// Pass them on, and read no more: a login begins that is not the relay's.
    PassAndHandOver,
    /// Close the session instead.
    Close(Closed),
}

/// How a driver's work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The session is over.
    Closed(Closed),
    /// The server has been sent a `COM_CHANGE_USER`, and nothing is under way: `login` goes on.
    ChangeUser,
}

/// What becomes of a session whose client has closed its half, when the server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterClient {
    /// There is nothing left to answer.
    Over,
    /// The server finishes what it does.
    Answer,
    /// We cannot see what the server does: it has [`LINGER`] to close.
    Linger,
}

/// A commit under way when the session leaves the relay is given up.
#[derive(Debug)]
struct CommitMark {
    commits: SessionCommits,
    handle: Rc<SessionHandle>,
}

impl Drop for CommitMark {
    fn drop(&mut self) {
        self.commits.gives_up(&self.handle.slot);
    }
}

impl Relay {
    /// Goes on with a session whose start the tracker has seen.
    pub(crate) fn new(tracker: Tracker, handle: Rc<SessionHandle>) -> Self {
        let counted = tracker.commands_completed();
        handle.moved(&tracker);
        let mut recorder = handle.recorder.take();
        recorder.begins(&tracker, &handle.slot);
        let commits = CommitMark { commits: SessionCommits::default(), handle: handle.clone() };
        Self {
            tracker,
            insight: handle.insight.take(),
            recorder,
            handle,
            commits,
            counted,
            hands_over: false,
        }
    }

    /// The same, with every change of user handed over. Only drivers that can do so may have it.
    pub(crate) fn handing_over(self) -> Self {
        Self { hands_over: true, ..self }
    }

    /// What is known of the session, for whoever goes on with it.
    pub(crate) fn into_tracker(self) -> Tracker {
        self.handle.insight.set(self.insight);
        self.handle.recorder.set(self.recorder);
        self.tracker
    }

    /// These bytes came from the client. Every chunk once, before it is passed on.
    pub(crate) fn client_bytes(&mut self, bytes: &[u8]) -> Action {
        if let Some(why) = self.pool_check(bytes) {
            return Action::Close(why);
        }
        self.handle.cancel();
        if self.handle.slot.role == ListenerRole::Writer && self.tracker.is_idle() {
            self.commits.commits.command(bytes, &self.tracker, &self.handle.slot);
        }
        self.read(Side::Client, bytes);
        self.handle.slot.to_server(bytes.len());
        self.handle.moved(&self.tracker);
        if self.hands_over && self.tracker.changes_user_among_others() {
            // Its password would pass as it is, into the open if need be.
            tracing::debug!("a change of user was sent ahead of other answers: the session is ended");
            return Action::Close(Closed::NotLoggedIn);
        }
        if self.hands_over && self.tracker.changes_user() { Action::PassAndHandOver } else { Action::Pass }
    }

    /// These bytes came from the server. Every chunk once, before it is passed on.
    pub(crate) fn server_bytes(&mut self, bytes: &[u8]) {
        self.handle.cancel();
        self.read(Side::Server, bytes);
        let completed = self.tracker.commands_completed();
        self.handle.slot.to_client(bytes.len(), completed - self.counted);
        if completed > self.counted {
            self.commits.commits.answered(&self.handle.slot);
        }
        self.counted = completed;
        self.handle.moved(&self.tracker);
    }

    /// Shows the bytes to the tracker, and what it finds in them to insight and to the recorder.
    #[inline]
    fn read(&mut self, side: Side, bytes: &[u8]) {
        // Read by whoever needs it, once.
        let now = LazyCell::new(Instant::now);
        let Self { tracker, insight, recorder, handle, .. } = self;
        let mut measured = insight.observe(tracker, || *now);
        let mut recorded = recorder.observe(tracker, &handle.slot, || *now);
        let mut observer = (&mut measured, &mut recorded);
        match side {
            Side::Client => tracker.client_bytes_with(bytes, &mut observer),
            Side::Server => tracker.server_bytes_with(bytes, &mut observer),
        }
        CommandObserver::finish(measured, tracker);
        recorded.finish(tracker);
    }

    /// Whether an order to close is to be carried out now. `silent` says whether nothing is under way in
    /// either direction and the kernel holds nothing from either side; it is asked only when all else allows
    /// the close. `outstanding` tells what is under way to client and server; it is asked only when the order
    /// is to look after them.
    pub(crate) fn due(
        &self,
        silent: impl FnOnce() -> bool,
        outstanding: impl FnOnce() -> [Option<Outstanding>; 2],
    ) -> Option<Closed> {
        let facts = self.handle.facts();
        match self.handle.standing_order()? {
            Order::Cut(why) => Some(why),
            Order::CloseIfIdle(why) if facts.idle && !facts.in_transaction && silent() => Some(why),
            Order::CloseIfIdle(_) => {
                self.handle.cancel();
                None
            }
            Order::AskAfterPeers(deadline) => {
                self.handle.order_done();
                self.handle.gone(outstanding(), deadline, Instant::now())
            }
        }
    }

    /// Whether the server can be told goodbye as a client would. One small packet into an idle connection
    /// always fits.
    pub(crate) fn may_say_goodbye(&self) -> bool {
        self.handle.facts().idle
    }

    /// The client has closed its half, the server has been told, and the client has been given all that came.
    pub(crate) fn after_client(&self) -> AfterClient {
        let progress = self.tracker.progress();
        match self.tracker.phase() {
            // What was sent ahead of a goodbye is answered first; then the server closes.
            Phase::Closing(ClosedBecause::ClientQuit) if progress.completed < progress.started => {
                AfterClient::Answer
            }
            Phase::Closing(_) => AfterClient::Over,
            Phase::Idle if self.tracker.is_idle() => AfterClient::Over,
            // Idle, but in the middle of a packet: the answer's last, or one that the client broke off.
            Phase::Idle | Phase::Busy | Phase::Infile => AfterClient::Answer,
            _ => AfterClient::Linger,
        }
    }

    /// Who left, now that the server has closed: the client, when it had said goodbye (`COM_QUIT`). A server
    /// closes in answer to that, mostly before the client does.
    pub(crate) fn after_server(&self) -> Closed {
        match self.tracker.phase() {
            Phase::Closing(ClosedBecause::ClientQuit) => Closed::ClientLeft,
            _ => Closed::ServerLeft,
        }
    }

    /// Where orders for this session come in.
    pub(crate) fn handle(&self) -> &Rc<SessionHandle> {
        &self.handle
    }

    /// Whether these bytes are a pool's check on a session that should move and may be closed instead of
    /// answered.
    fn pool_check(&self, bytes: &[u8]) -> Option<Closed> {
        let [1, 0, 0, 0, command] = bytes else { return None };
        let reset = match Command::from_byte(*command) {
            Command::Ping => false,
            Command::ResetConnection => true,
            _ => return None,
        };
        self.handle.checked(!reset);
        let slot = &self.handle.slot;
        // State that a pool makes for itself again does not outlive a check; a reset ends all state,
        // transactions too.
        let request = CloseRequest {
            light_state_too: true,
            all_state_too: reset,
            ..slot.counters.close_quota(slot.role).now()?
        };
        let facts = Facts::of(&self.tracker);
        let allowed = facts.may_close(request) || (reset && facts.idle);
        (allowed && slot.leave()).then_some(request.why)
    }
}
