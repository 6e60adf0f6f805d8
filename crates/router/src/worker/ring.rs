//! The ring's thread: beside each thread that lets sessions in stands one that does nothing but move their bytes.
//!
//! A thread of its own, because then the kernel's one call that sends, waits and receives is all it ever sleeps in: in a
//! runtime's thread it would sleep in `epoll_wait`, and each batch would take two more system calls. Messages come
//! through a channel, and the ring's bell.

use super::{Count, Placement, SHORTEST_LOOK};
use crate::board::Board;
use crate::relay::ring::{Driver, Handed};
use insight::Ledger;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use uring::{Bell, Ring, Size, Unavailable};

/// Requests and completions at a time, beyond which the kernel is called again; chunks are touched one page at a time by small
/// packets, and one after the other, so that they stay in the cache.
const SIZE: Size = Size { requests: 256, completions: 2048, chunks: 64, chunk_bytes: 16 * 1024 };

/// What the thread is told.
#[derive(Debug)]
enum Told {
    Session(Box<Handed>),
    Placement(Placement),
    Count(Count),
}

/// The handle of the thread. It ends, and cuts its sessions, when this is dropped.
#[derive(Debug)]
pub(crate) struct RingThread {
    messages: Option<Sender<Told>>,
    bell: Arc<Bell>,
    /// Its number, for the blocks of the tallies: after those of the threads that let sessions in.
    number: usize,
    join: Option<JoinHandle<()>>,
}

impl RingThread {
    /// Starts the thread and waits until it has its ring.
    ///
    /// # Errors
    /// When there is no ring to be had, with the reason.
    pub(crate) fn start(board: Arc<Board>, thread: usize) -> Result<Self, Unavailable> {
        let number = board.threads + thread;
        let (messages, inbox) = channel();
        let (ready, outcome) = sync_channel(1);
        let run = move || match Ring::new(SIZE) {
            Ok(ring) => {
                // Whoever started us waits for this; if it does not, nobody wants the thread.
                let _ = ready.send(Ok(ring.bell()));
                let ledger = Ledger::new(board.insight.clone());
                serve(&board, &inbox, Driver::new(ring, ledger, board.recorder.clone()));
            }
            Err(error) => drop(ready.send(Err(error))),
        };
        let name = format!("headroom-ring-{thread}");
        let join = std::thread::Builder::new().name(name).spawn(run).map_err(Unavailable::Failed)?;
        let bell =
            outcome.recv().map_err(|_| Unavailable::Failed(std::io::ErrorKind::BrokenPipe.into()))??;
        Ok(Self { messages: Some(messages), bell, number, join: Some(join) })
    }

    /// Hands a session over.
    pub(crate) fn hand(&self, mut handed: Handed) {
        handed.seat.hand_to(self.number);
        self.tell(Told::Session(Box::new(handed)));
    }

    /// Passes on what placement wants.
    pub(crate) fn tell_placement(&self, placement: Placement) {
        self.tell(Told::Placement(placement));
    }

    /// Asks for a copy of the ledger.
    pub(crate) fn tell_count(&self, count: Count) {
        self.tell(Told::Count(count));
    }

    fn tell(&self, told: Told) {
        if let Some(messages) = &self.messages
            && messages.send(told).is_ok()
        {
            self.bell.ring();
        }
    }
}

impl Drop for RingThread {
    fn drop(&mut self) {
        self.messages = None;
        self.bell.ring();
        if let Some(join) = self.join.take() {
            // A thread that panicked has said so.
            let _ = join.join();
        }
    }
}

/// Moves bytes and takes messages until nobody can send any more.
fn serve(board: &Board, inbox: &Receiver<Told>, mut driver: Driver) {
    // The next look for quiet sessions, while some should leave.
    let mut look: Option<Instant> = None;
    loop {
        let patience = look.map(|at| at.saturating_duration_since(Instant::now()));
        let rung = match driver.turn(patience) {
            Ok(rung) => rung,
            Err(error) => {
                tracing::error!(%error, sessions = driver.count(), "the kernel refuses the ring; its sessions are cut");
                return;
            }
        };
        if rung && !take(inbox, &mut driver, &mut look) {
            return;
        }
        if look.is_some_and(|at| at <= Instant::now()) {
            let more = driver.roster.look(Instant::now());
            look = more.then(|| Instant::now() + pause(board));
            driver.obey();
        }
    }
}

/// Takes what is in the inbox. Returns whether more can come.
fn take(inbox: &Receiver<Told>, driver: &mut Driver, look: &mut Option<Instant>) -> bool {
    loop {
        match inbox.try_recv() {
            Ok(Told::Session(handed)) => driver.take(*handed),
            Ok(Told::Count(count)) => count.answer(&driver.ledger),
            Ok(Told::Placement(Placement::Look)) => *look = Some(Instant::now()),
            Ok(Told::Placement(cut)) => {
                cut.cut(&driver.roster);
                driver.obey();
            }
            Err(TryRecvError::Empty) => return true,
            Err(TryRecvError::Disconnected) => return false,
        }
    }
}

/// Between two looks for quiet sessions.
fn pause(board: &Board) -> Duration {
    (board.sight().view.config.replace.quiet / 2).max(SHORTEST_LOOK)
}
