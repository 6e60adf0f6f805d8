//! The ring's thread: beside each thread that lets sessions in stands one that does nothing but move their
//! bytes.
//!
//! A thread of its own, because then the kernel's one call that sends, waits and receives is all it ever
//! sleeps in: in a runtime's thread it would sleep in `epoll_wait`, and each batch would take two more system
//! calls. Messages come through a channel, and the ring's waker.

use super::message::{LedgerRequest, RebalanceCommand};
use super::pause::{counts_at_most, pause};
use crate::closed::Closed;
use crate::fault::RingFault;
use crate::heartbeat::{Heartbeat, RING};
use crate::relay::ring::{Driver, Handed};
use crate::shared_state::SharedState;
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

/// Requests and completions at a time, beyond which the kernel is called again; chunks are touched one page
/// at a time by small packets, and one after the other, so that they stay in the cache.
const SIZE: Size = Size { requests: 256, completions: 2048, chunks: 64, chunk_bytes: 16 * 1024 };

/// What the thread is sent.
#[derive(Debug)]
enum RingMessage {
    Session(Box<Handed>),
    Rebalance(RebalanceCommand),
    Ledger(LedgerRequest),
    /// Show that you live, and look after peers: they have this long.
    Beat(Duration),
    Fault(RingFault),
}

/// The handle of the thread. It ends, and cuts its sessions, when this is dropped.
#[derive(Debug)]
pub(crate) struct RingThread {
    messages: Option<Sender<RingMessage>>,
    /// Of the ring that the thread has now.
    waker: Arc<ArcSwapOption<Waker>>,
    /// The number of the thread that hands sessions over, for the shards of the counters.
    thread: usize,
    /// Its own: after those of the threads that let sessions in.
    number: usize,
    heartbeat: Arc<Heartbeat>,
    join: Option<JoinHandle<()>>,
}

/// What the thread has, whatever becomes of its ring.
struct RingWorker {
    shared: Arc<SharedState>,
    inbox: Receiver<RingMessage>,
    waker: Arc<ArcSwapOption<Waker>>,
    heartbeat: Arc<Heartbeat>,
}

/// Why a ring is of no more use.
enum RingEnd {
    /// Nobody hands sessions over any more.
    Unwanted,
    Failed(String),
}

impl RingThread {
    /// Starts the thread and waits until it has its ring.
    ///
    /// # Errors
    /// When there is no ring, with the reason.
    pub(crate) fn start(shared: &Arc<SharedState>, thread: usize) -> Result<Self, Unavailable> {
        let number = shared.threads + thread;
        let (messages, inbox) = channel();
        let (ready, outcome) = sync_channel(1);
        let (waker, heartbeat) =
            (Arc::<ArcSwapOption<Waker>>::default(), Heartbeat::new(format!("{RING} {thread}")));
        let worker =
            RingWorker { shared: shared.clone(), inbox, waker: waker.clone(), heartbeat: heartbeat.clone() };
        let run = move || match Ring::new(SIZE) {
            Ok(ring) => {
                // Whoever started us waits for this; if it does not, nobody wants the thread.
                let _ = ready.send(Ok(()));
                worker.serve(ring);
            }
            Err(error) => drop(ready.send(Err(error))),
        };
        let name = format!("headroom-ring-{thread}");
        let join = std::thread::Builder::new().name(name).spawn(run).map_err(Unavailable::Failed)?;
        outcome.recv().map_err(|_| Unavailable::Failed(std::io::ErrorKind::BrokenPipe.into()))??;
        shared.health.watch(heartbeat.clone());
        Ok(Self { messages: Some(messages), waker, thread, number, heartbeat, join: Some(join) })
    }

    /// Whether it takes sessions: it has a ring, and does not stand still.
    pub(crate) fn is_fit(&self) -> bool {
        !self.heartbeat.is_unfit()
    }

    /// Hands a session over.
    ///
    /// # Errors
    /// The thread has ended; the session comes back.
    pub(crate) fn hand(&self, mut handed: Handed) -> Result<(), Box<Handed>> {
        handed.slot.hand_to(self.number);
        self.send(RingMessage::Session(Box::new(handed))).map_err(|unsent| match unsent {
            RingMessage::Session(mut handed) => {
                handed.slot.hand_to(self.thread);
                handed
            }
            _ => unreachable!("a session was sent"),
        })
    }

    /// Passes on what placement wants.
    pub(crate) fn send_rebalance(&self, placement: RebalanceCommand) {
        // A thread that has ended has no sessions; the same goes for what follows.
        let _ = self.send(RingMessage::Rebalance(placement));
    }

    /// Asks for a copy of the ledger.
    pub(crate) fn send_ledger_request(&self, count: LedgerRequest) {
        let _ = self.send(RingMessage::Ledger(count));
    }

    /// Asks for a sign of life, unless one is outstanding, and for a look after peers that have this long.
    pub(crate) fn beat(&self, peer_deadline: Duration) {
        if self.heartbeat.ask() {
            let _ = self.send(RingMessage::Beat(peer_deadline));
        }
    }

    pub(crate) fn send_fault(&self, fault: RingFault) {
        let _ = self.send(RingMessage::Fault(fault));
    }

    fn send(&self, message: RingMessage) -> Result<(), RingMessage> {
        let Some(messages) = &self.messages else { return Err(message) };
        messages.send(message).map_err(|unsent| unsent.0)?;
        self.ring();
        Ok(())
    }

    /// Wakes the thread. A waker that was exchanged since the message was sent need not be heard: with the
    /// new one the inbox is looked into.
    fn ring(&self) {
        if let Some(waker) = &*self.waker.load() {
            waker.wake();
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

impl RingWorker {
    /// Moves bytes until nobody hands sessions over any more, with a new ring when one fails; or until there
    /// is none.
    fn serve(self, mut ring: Ring) {
        let ledger = Rc::new(RefCell::new(Ledger::new(self.shared.insight.clone())));
        loop {
            self.waker.store(Some(ring.waker()));
            let driver = Driver::new(ring, ledger.clone(), self.shared.recorder.clone());
            let RingEnd::Failed(why) = self.drive(driver) else { return };
            let part = &self.heartbeat.part;
            if self.shared.health.ended(part, &why) {
                return self.give_up(&why);
            }
            match Ring::new(SIZE) {
                Ok(next) => ring = next,
                Err(error) => return self.give_up(&error.to_string()),
            }
        }
    }

    /// Until the ring is of no more use. Its sessions end with it: what the kernel has taken or sent of them
    /// is not known any more.
    fn drive(&self, mut driver: Driver) -> RingEnd {
        let served =
            catch_unwind(AssertUnwindSafe(|| serve(&self.shared, &self.inbox, &self.heartbeat, &mut driver)));
        let why = match served {
            Ok(Ok(())) => return RingEnd::Unwanted,
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
            part = self.heartbeat.part,
            sessions,
            whole,
            "sessions cut: the io_uring thread that relayed them failed"
        );
        RingEnd::Failed(why)
    }

    /// New sessions are polled from now on.
    fn give_up(self, why: &str) {
        self.heartbeat.retire();
        self.shared.health.ring_lost(&self.heartbeat.part, why);
        self.waker.store(None);
        // Those that were handed over a moment ago.
        while let Ok(message) = self.inbox.try_recv() {
            if let RingMessage::Session(handed) = message {
                handed.slot.ended(Closed::ThreadFailed);
            }
        }
    }
}

/// Moves bytes and takes messages until nobody can send any more.
fn serve(
    shared: &SharedState,
    inbox: &Receiver<RingMessage>,
    heartbeat: &Heartbeat,
    driver: &mut Driver,
) -> io::Result<()> {
    // The next look for quiet sessions, while some should leave.
    let mut look: Option<Instant> = None;
    // What was sent while there was no waker to ring.
    if !take(inbox, heartbeat, driver, &mut look)? {
        return Ok(());
    }
    loop {
        let patience = look.map(|at| at.saturating_duration_since(Instant::now()));
        let rung = driver.turn(patience)?;
        if rung && !take(inbox, heartbeat, driver, &mut look)? {
            return Ok(());
        }
        if look.is_some_and(|at| at <= Instant::now()) {
            let more = driver.registry.look(Instant::now(), counts_at_most(shared));
            look = more.map(|quiet| Instant::now() + pause(shared, quiet));
            driver.obey();
        }
    }
}

/// Takes what is in the inbox. Returns whether more can come.
fn take(
    inbox: &Receiver<RingMessage>,
    heartbeat: &Heartbeat,
    driver: &mut Driver,
    look: &mut Option<Instant>,
) -> io::Result<bool> {
    loop {
        match inbox.try_recv() {
            Ok(RingMessage::Session(handed)) => driver.take(*handed),
            Ok(RingMessage::Ledger(count)) => count.answer(&driver.ledger),
            Ok(RingMessage::Rebalance(RebalanceCommand::Look)) => *look = Some(Instant::now()),
            Ok(RingMessage::Rebalance(cut)) => {
                cut.cut(&driver.registry);
                driver.obey();
            }
            Ok(RingMessage::Beat(peer_deadline)) => {
                heartbeat.answer();
                driver.ask_after_peers(peer_deadline);
            }
            Ok(RingMessage::Fault(RingFault::Panics)) => panic!("a fault was asked for"),
            Ok(RingMessage::Fault(RingFault::Stalls(time))) => std::thread::sleep(time),
            Ok(RingMessage::Fault(RingFault::Refused)) => return Err(Errno::PERM.into()),
            Err(TryRecvError::Empty) => return Ok(true),
            Err(TryRecvError::Disconnected) => return Ok(false),
        }
    }
}
