//! Worker: one thread of the data plane. It lets sessions in, on a runtime of its own; then moves their bytes itself, or
//! hands them to the ring's thread beside it (`ring`), which does so for less.

pub(crate) mod ring;

use crate::board::Board;
use crate::buffer::Pool;
use crate::closed::Closed;
use crate::door::Place;
use crate::fault::Fault;
use crate::roster::Roster;
use crate::session::{self, Arrival};
use crate::supervise::{PAUSE, Pulse, THREAD, caught};
use fleet::ServerName;
use insight::{Ledger, Snapshot};
use ring::RingThread;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;
use uring::Unavailable;

/// The shortest time between two looks for quiet sessions.
const SHORTEST_LOOK: Duration = Duration::from_millis(2);

/// What a thread is told. Unbounded in form; arrivals are bounded by the listeners' `max_sessions`.
#[derive(Debug)]
pub(crate) enum Message {
    /// A client.
    Arrival(Arrival),
    /// Something about sessions that it has.
    Placement(Placement),
    /// Hand over what was counted of commands.
    Count(Count),
    /// Show that you live, and look after sessions.
    Beat,
    /// Meet a fault, so that a test sees it made good.
    Fault(Fault),
}

/// What placement wants of a thread.
#[derive(Clone, Debug)]
pub(crate) enum Placement {
    /// Some server has sessions that should leave: look for quiet ones.
    Look,
    /// Cut the sessions on this server.
    Cut(ServerName, Closed),
    /// Cut everything.
    CutAll(Closed),
}

/// Asks for copies of the ledgers of a thread and of the ring's thread beside it.
#[derive(Clone, Debug)]
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
    /// The ring's thread, where there is one.
    pub(crate) ring: Option<RingThread>,
    pulse: Arc<Pulse>,
}

/// The handle that others have of a thread. The thread ends when its last handle is dropped and its sessions are gone.
#[derive(Debug)]
pub(crate) struct Handle {
    messages: UnboundedSender<Message>,
    sessions: Arc<AtomicUsize>,
    pulse: Arc<Pulse>,
}

/// One more session on a thread, until dropped.
#[derive(Debug)]
pub(crate) struct Counted(Arc<AtomicUsize>);

/// A session is counted, at its listener and on its thread, until this is dropped.
#[derive(Debug)]
pub(crate) struct Stay {
    pub(crate) place: Place,
    #[allow(dead_code, reason = "counts until it is dropped")]
    pub(crate) counted: Counted,
}

impl Stay {
    /// Counted nowhere that anybody looks.
    #[cfg(test)]
    pub(crate) fn nowhere() -> Self {
        Self { place: Place::nowhere(), counted: Counted(Arc::default()) }
    }
}

impl Handle {
    /// Sessions on this thread, arrivals under way included.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.load(Relaxed)
    }

    /// One more session on this thread, until what is given is dropped.
    pub(crate) fn count(&self) -> Counted {
        self.sessions.fetch_add(1, Relaxed);
        Counted(self.sessions.clone())
    }

    /// Tells the thread.
    ///
    /// # Errors
    /// It has ended; the message comes back.
    pub(crate) fn tell(&self, message: Message) -> Result<(), Message> {
        self.messages.send(message).map_err(|unsent| unsent.0)
    }

    /// How the thread shows that it lives.
    pub(crate) fn pulse(&self) -> &Pulse {
        &self.pulse
    }
}

impl Count {
    /// Hands over a copy of this ledger.
    pub(crate) fn answer(&self, ledger: &RefCell<Ledger>) {
        // Whoever asked may have given up.
        let _ = self.reply.send(ledger.borrow_mut().snapshot(self.cells));
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Placement {
    /// Cuts the sessions that it names.
    fn cut(&self, roster: &Roster) {
        match self {
            Self::Look => {}
            Self::Cut(server, why) => {
                let sessions = roster.cut(*why, |seat| seat.tally.name == *server);
                if sessions > 0 {
                    tracing::warn!(%server, sessions, why = why.words(), "sessions cut");
                }
            }
            Self::CutAll(why) => {
                let sessions = roster.cut(*why, |_| true);
                if sessions > 0 {
                    tracing::warn!(sessions, why = why.words(), "sessions cut");
                }
            }
        }
    }
}

/// A worker that has its handle and not yet its thread.
#[derive(Debug)]
pub(crate) struct Ready {
    board: Arc<Board>,
    thread: usize,
    ring: Option<RingThread>,
    inbox: UnboundedReceiver<Message>,
    pulse: Arc<Pulse>,
}

/// Makes worker number `thread` ready, and starts the ring's thread beside it if one is wanted.
///
/// # Errors
/// When there is no ring to be had.
pub(crate) fn ready(
    board: Arc<Board>,
    thread: usize,
    with_ring: bool,
) -> Result<(Handle, Ready), Unavailable> {
    let ring = with_ring.then(|| RingThread::start(&board, thread)).transpose()?;
    let (messages, inbox) = unbounded_channel();
    let pulse = Pulse::new(format!("{THREAD} {thread}"));
    board.health.watch(pulse.clone());
    let handle = Handle { messages, sessions: Arc::default(), pulse: pulse.clone() };
    Ok((handle, Ready { board, thread, ring, inbox, pulse }))
}

impl Ready {
    /// Gives it a thread of its own.
    pub(crate) fn start(self) -> std::io::Result<JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let name = format!("headroom-{}", self.thread);
        let run = move || {
            LocalSet::new().block_on(&runtime, self.serve());
            // A name that is being looked up holds nobody up.
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name(name).spawn(run)
    }

    /// Works in the local set of the current thread, until nobody has its handle any more.
    pub(crate) async fn serve(self) {
        let Self { board, thread, ring, mut inbox, pulse } = self;
        let (roster, pool) = (Roster::default(), Rc::default());
        let ledger = Rc::new(RefCell::new(Ledger::new(board.insight.clone())));
        let worker = Rc::new(Worker { board, roster, pool, ledger, thread, ring, pulse });
        // Sessions are tasks of their own, and stay whatever happens here; so does what is in the inbox.
        while caught(serve(&worker, &mut inbox)).await.is_err() {
            worker.board.health.ended(&worker.pulse.part, "it panicked");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Takes messages until nobody can send any more.
async fn serve(worker: &Rc<Worker>, inbox: &mut UnboundedReceiver<Message>) {
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
                tokio::task::spawn_local(session::run(worker.clone(), arrival));
            }
            Some(Message::Beat) => {
                worker.pulse.answer();
                let deadline = worker.board.sight().view.config.peer_deadline;
                worker.roster.ask_after_peers(deadline);
                if let Some(ring) = &worker.ring {
                    ring.beat(deadline);
                }
            }
            Some(Message::Fault(fault)) => match fault {
                Fault::ThreadStalls(_, time) => std::thread::sleep(time),
                Fault::ThreadEnds(_) => return,
                Fault::Ring(_, fault) => {
                    if let Some(ring) = &worker.ring {
                        ring.tell_fault(fault);
                    }
                }
                _ => panic!("a fault was asked for"),
            },
            Some(Message::Count(count)) => {
                if let Some(ring) = &worker.ring {
                    ring.tell_count(count.clone());
                }
                count.answer(&worker.ledger);
            }
            Some(Message::Placement(placement)) => {
                if let Some(ring) = &worker.ring {
                    ring.tell_placement(placement.clone());
                }
                match placement {
                    Placement::Look => looking |= worker.roster.look(Instant::now()),
                    cut => cut.cut(&worker.roster),
                }
            }
        }
    }
}
