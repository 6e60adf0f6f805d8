//! Worker: one thread of the data plane, with its own runtime, buffers and roster. Sessions never leave their thread.

use crate::board::Board;
use crate::buffer::Pool;
use crate::closed::Closed;
use crate::roster::Roster;
use crate::session::{self, Arrival};
use fleet::ServerName;
use insight::{Ledger, Snapshot};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

/// The shortest time between two looks for quiet sessions.
const SHORTEST_LOOK: Duration = Duration::from_millis(2);

/// What a thread is told. Unbounded in form; arrivals are bounded by the listeners' `max_sessions`.
#[derive(Debug)]
pub(crate) enum Message {
    /// A client.
    Arrival(Arrival),
    /// Some server has sessions that should leave: look for quiet ones.
    Look,
    /// Cut the sessions on this server.
    Cut(ServerName, Closed),
    /// Cut everything.
    CutAll(Closed),
    /// Hand over what was counted of commands.
    Count(Count),
}

/// Asks for a copy of a thread's ledger.
#[derive(Debug)]
pub(crate) struct Count {
    /// With its cells, which is most of it.
    pub(crate) cells: bool,
    pub(crate) reply: std::sync::mpsc::Sender<Snapshot>,
}

/// A thread's own things; only its tasks touch them.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) board: Arc<Board>,
    pub(crate) roster: Roster,
    pub(crate) pool: Rc<Pool>,
    pub(crate) ledger: Rc<RefCell<Ledger>>,
    /// Its number, for the blocks of the tallies.
    pub(crate) thread: usize,
}

/// The handle that others have of a thread. The thread ends when its last handle is dropped and its sessions are gone.
#[derive(Debug)]
pub(crate) struct Handle {
    messages: UnboundedSender<Message>,
    sessions: Arc<AtomicUsize>,
}

/// One more session on a thread, until dropped.
struct Counted(Arc<AtomicUsize>);

impl Handle {
    /// Sessions on this thread, arrivals under way included.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.load(Relaxed)
    }

    /// Tells the thread; `false` when it has ended.
    pub(crate) fn tell(&self, message: Message) -> bool {
        if matches!(message, Message::Arrival(_)) {
            self.sessions.fetch_add(1, Relaxed);
        }
        self.messages.send(message).is_ok()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Starts thread number `thread`.
pub(crate) fn start(board: Arc<Board>, thread: usize) -> std::io::Result<(Handle, JoinHandle<()>)> {
    let (messages, inbox) = unbounded_channel();
    let sessions = Arc::new(AtomicUsize::new(0));
    let handle = Handle { messages, sessions: sessions.clone() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let join = std::thread::Builder::new().name(format!("headroom-{thread}")).spawn(move || {
        let ledger = Rc::new(RefCell::new(Ledger::new(board.insight.clone())));
        let worker =
            Rc::new(Worker { board, roster: Roster::default(), pool: Rc::default(), ledger, thread });
        LocalSet::new().block_on(&runtime, serve(worker, inbox, sessions));
    })?;
    Ok((handle, join))
}

/// Takes messages until nobody can send any more.
async fn serve(worker: Rc<Worker>, mut inbox: UnboundedReceiver<Message>, sessions: Arc<AtomicUsize>) {
    let mut looking = false;
    loop {
        let quiet = worker.board.sight().view.config.replace.quiet;
        let pause = (quiet / 2).max(SHORTEST_LOOK);
        let message = if looking {
            match tokio::time::timeout(pause, inbox.recv()).await {
                Ok(message) => message,
                Err(_) => {
                    looking = worker.roster.look(Instant::now());
                    continue;
                }
            }
        } else {
            inbox.recv().await
        };
        match message {
            None => return,
            Some(Message::Arrival(arrival)) => {
                let counted = Counted(sessions.clone());
                let worker = worker.clone();
                tokio::task::spawn_local(async move {
                    session::run(worker, arrival).await;
                    drop(counted);
                });
            }
            Some(Message::Look) => looking |= worker.roster.look(Instant::now()),
            Some(Message::Cut(server, why)) => {
                let sessions = worker.roster.cut(why, |seat| seat.tally.name == server);
                if sessions > 0 {
                    tracing::warn!(%server, sessions, why = why.words(), "sessions cut");
                }
            }
            Some(Message::Count(Count { cells, reply })) => {
                // Whoever asked may have given up.
                let _ = reply.send(worker.ledger.borrow_mut().snapshot(cells));
            }
            Some(Message::CutAll(why)) => {
                let sessions = worker.roster.cut(why, |_| true);
                if sessions > 0 {
                    tracing::warn!(sessions, why = why.words(), "sessions cut");
                }
            }
        }
    }
}
