//! The ring's thread: beside each thread that lets sessions in stands one that does nothing but move their bytes.
//!
//! A thread of its own, because then the kernel's one call that sends, waits and receives is all it ever sleeps in: in a
//! runtime's thread it would sleep in `epoll_wait`, and each batch would take two more system calls. Messages come
//! through a channel, and the ring's bell.

use super::{Count, Placement, SHORTEST_LOOK};
use crate::board::Board;
use crate::closed::Closed;
use crate::fault::RingFault;
use crate::relay::ring::{Driver, Handed};
use crate::supervise::{Pulse, RING};
use arc_swap::ArcSwapOption;
use insight::Ledger;
use rustix::io::Errno;
use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use uring::{Ring, Size, Unavailable, Waker};

/// Requests and completions at a time, beyond which the kernel is called again; chunks are touched one page at a time by small
/// packets, and one after the other, so that they stay in the cache.
const SIZE: Size = Size { requests: 256, completions: 2048, chunks: 64, chunk_bytes: 16 * 1024 };

/// What the thread is told.
#[derive(Debug)]
enum Told {
    Session(Box<Handed>),
    Placement(Placement),
    Count(Count),
    /// Show that you live, and look after peers: they have so long.
    Beat(Duration),
    Fault(RingFault),
}

/// The handle of the thread. It ends, and cuts its sessions, when this is dropped.
#[derive(Debug)]
pub(crate) struct RingThread {
    messages: Option<Sender<Told>>,
    /// Of the ring that the thread has now.
    bell: Arc<ArcSwapOption<Waker>>,
    /// The number of the thread that hands sessions over, for the blocks of the tallies.
    thread: usize,
    /// Its own: after those of the threads that let sessions in.
    number: usize,
    pulse: Arc<Pulse>,
    join: Option<JoinHandle<()>>,
}

/// What the thread has, whatever becomes of its ring.
struct Seated {
    board: Arc<Board>,
    inbox: Receiver<Told>,
    bell: Arc<ArcSwapOption<Waker>>,
    pulse: Arc<Pulse>,
}

/// Why a ring is of no more use.
enum Over {
    /// Nobody hands sessions over any more.
    Unwanted,
    Failed(String),
}

impl RingThread {
    /// Starts the thread and waits until it has its ring.
    ///
    /// # Errors
    /// When there is no ring to be had, with the reason.
    pub(crate) fn start(board: &Arc<Board>, thread: usize) -> Result<Self, Unavailable> {
        let number = board.threads + thread;
        let (messages, inbox) = channel();
        let (ready, outcome) = sync_channel(1);
        let (bell, pulse) = (Arc::<ArcSwapOption<Waker>>::default(), Pulse::new(format!("{RING} {thread}")));
        let seated = Seated { board: board.clone(), inbox, bell: bell.clone(), pulse: pulse.clone() };
        let run = move || match Ring::new(SIZE) {
            Ok(ring) => {
                // Whoever started us waits for this; if it does not, nobody wants the thread.
                let _ = ready.send(Ok(()));
                seated.serve(ring);
            }
            Err(error) => drop(ready.send(Err(error))),
        };
        let name = format!("headroom-ring-{thread}");
        let join = std::thread::Builder::new().name(name).spawn(run).map_err(Unavailable::Failed)?;
        outcome.recv().map_err(|_| Unavailable::Failed(std::io::ErrorKind::BrokenPipe.into()))??;
        board.health.watch(pulse.clone());
        Ok(Self { messages: Some(messages), bell, thread, number, pulse, join: Some(join) })
    }

    /// Whether it takes sessions: it has a ring, and does not stand still.
    pub(crate) fn is_fit(&self) -> bool {
        !self.pulse.is_unfit()
    }

    /// Hands a session over.
    ///
    /// # Errors
    /// The thread has ended; the session comes back.
    pub(crate) fn hand(&self, mut handed: Handed) -> Result<(), Box<Handed>> {
        handed.seat.hand_to(self.number);
        self.tell(Told::Session(Box::new(handed))).map_err(|unsent| match unsent {
            Told::Session(mut handed) => {
                handed.seat.hand_to(self.thread);
                handed
            }
            _ => unreachable!("a session was sent"),
        })
    }

    /// Passes on what placement wants.
    pub(crate) fn tell_placement(&self, placement: Placement) {
        // A thread that has ended has no sessions; the same goes for what follows.
        let _ = self.tell(Told::Placement(placement));
    }

    /// Asks for a copy of the ledger.
    pub(crate) fn tell_count(&self, count: Count) {
        let _ = self.tell(Told::Count(count));
    }

    /// Asks for a sign of life, unless one is outstanding, and for a look after peers that have so long.
    pub(crate) fn beat(&self, peer_deadline: Duration) {
        if self.pulse.ask() {
            let _ = self.tell(Told::Beat(peer_deadline));
        }
    }

    pub(crate) fn tell_fault(&self, fault: RingFault) {
        let _ = self.tell(Told::Fault(fault));
    }

    fn tell(&self, told: Told) -> Result<(), Told> {
        let Some(messages) = &self.messages else { return Err(told) };
        messages.send(told).map_err(|unsent| unsent.0)?;
        self.ring();
        Ok(())
    }

    /// Wakes the thread. A bell that was exchanged since the message was sent need not be heard: with the new one the inbox is looked into.
    fn ring(&self) {
        if let Some(bell) = &*self.bell.load() {
            bell.wake();
        }
    }
}

impl Drop for RingThread {
    fn drop(&mut self) {
        self.messages = None;
        self.ring();
        if let Some(join) = self.join.take() {
            // A thread that panicked has said so.
            let _ = join.join();
        }
    }
}

impl Seated {
    /// Moves bytes until nobody hands sessions over any more, with a new ring when one fails; or until there is none to be had.
    fn serve(self, mut ring: Ring) {
        let ledger = Rc::new(RefCell::new(Ledger::new(self.board.insight.clone())));
        loop {
            self.bell.store(Some(ring.waker()));
            let driver = Driver::new(ring, ledger.clone(), self.board.recorder.clone());
            let Over::Failed(why) = self.drive(driver) else { return };
            let part = &self.pulse.part;
            if self.board.health.ended(part, &why) {
                return self.give_up(&why);
            }
            match Ring::new(SIZE) {
                Ok(next) => ring = next,
                Err(error) => return self.give_up(&error.to_string()),
            }
        }
    }

    /// Until the ring is of no more use. Its sessions end with it: what the kernel has taken or sent of them is not known any more.
    fn drive(&self, mut driver: Driver) -> Over {
        let served =
            catch_unwind(AssertUnwindSafe(|| serve(&self.board, &self.inbox, &self.pulse, &mut driver)));
        let why = match served {
            Ok(Ok(())) => return Over::Unwanted,
            Ok(Err(error)) => format!("the kernel refuses the ring ({error})"),
            Err(_) => "it panicked".to_owned(),
        };
        let sessions = driver.count();
        // What a panic left behind may make this panic too.
        let ended = catch_unwind(AssertUnwindSafe(move || {
            driver.fail();
            drop(driver);
        }));
        let whole = ended.is_ok();
        tracing::error!(
            part = self.pulse.part,
            sessions,
            whole,
            "sessions cut: what moved their bytes has failed"
        );
        Over::Failed(why)
    }

    /// New sessions are polled from now on.
    fn give_up(self, why: &str) {
        self.pulse.retire();
        self.board.health.ring_lost(&self.pulse.part, why);
        self.bell.store(None);
        // Those that were handed over a moment ago.
        while let Ok(told) = self.inbox.try_recv() {
            if let Told::Session(handed) = told {
                handed.seat.ended(Closed::ThreadFailed);
            }
        }
    }
}

/// Moves bytes and takes messages until nobody can send any more.
fn serve(board: &Board, inbox: &Receiver<Told>, pulse: &Pulse, driver: &mut Driver) -> io::Result<()> {
    // The next look for quiet sessions, while some should leave.
    let mut look: Option<Instant> = None;
    // What was sent while there was no bell to ring.
    if !take(inbox, pulse, driver, &mut look)? {
        return Ok(());
    }
    loop {
        let patience = look.map(|at| at.saturating_duration_since(Instant::now()));
        let rung = driver.turn(patience)?;
        if rung && !take(inbox, pulse, driver, &mut look)? {
            return Ok(());
        }
        if look.is_some_and(|at| at <= Instant::now()) {
            let more = driver.roster.look(Instant::now());
            look = more.then(|| Instant::now() + pause(board));
            driver.obey();
        }
    }
}

/// Takes what is in the inbox. Returns whether more can come.
fn take(
    inbox: &Receiver<Told>,
    pulse: &Pulse,
    driver: &mut Driver,
    look: &mut Option<Instant>,
) -> io::Result<bool> {
    loop {
        match inbox.try_recv() {
            Ok(Told::Session(handed)) => driver.take(*handed),
            Ok(Told::Count(count)) => count.answer(&driver.ledger),
            Ok(Told::Placement(Placement::Look)) => *look = Some(Instant::now()),
            Ok(Told::Placement(cut)) => {
                cut.cut(&driver.roster);
                driver.obey();
            }
            Ok(Told::Beat(peer_deadline)) => {
                pulse.answer();
                driver.ask_after_peers(peer_deadline);
            }
            Ok(Told::Fault(RingFault::Panics)) => panic!("a fault was asked for"),
            Ok(Told::Fault(RingFault::Stalls(time))) => std::thread::sleep(time),
            Ok(Told::Fault(RingFault::Refused)) => return Err(Errno::PERM.into()),
            Err(TryRecvError::Empty) => return Ok(true),
            Err(TryRecvError::Disconnected) => return Ok(false),
        }
    }
}

/// Between two looks for quiet sessions.
fn pause(board: &Board) -> Duration {
    (board.sight().view.config.replace.quiet / 2).max(SHORTEST_LOOK)
}
