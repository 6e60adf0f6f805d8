//! Worker: one thread of the data plane. It lets sessions in, on a runtime of its own; then moves their bytes
//! itself, or hands them to the ring's thread beside it (`ring`), which does so for less.

pub(crate) mod context;
mod handle;
pub(crate) mod message;
mod pause;
pub(crate) mod ring;

use crate::catch_panic::{PAUSE, caught};
use crate::fault::Fault;
use crate::heartbeat::{Heartbeat, THREAD};
use crate::session;
use crate::session_span;
use crate::shared_state::SharedState;
use context::WorkerContext;
pub(crate) use handle::WorkerHandle;
use insight::Ledger;
pub(crate) use message::{LedgerRequest, Message, RebalanceCommand};
use pause::{counts_at_most, pause};
use ring::RingThread;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::LocalSet;
use tracing::Instrument;
use uring::Unavailable;

/// A worker that has its handle and not yet its thread.
#[derive(Debug)]
pub(crate) struct Ready {
    shared: Arc<SharedState>,
    thread: usize,
    ring: Option<RingThread>,
    inbox: UnboundedReceiver<Message>,
    heartbeat: Arc<Heartbeat>,
}

/// Makes worker number `thread` ready, and starts the ring's thread beside it if one is wanted.
///
/// # Errors
/// When there is no ring.
pub(crate) fn ready(
    shared: Arc<SharedState>,
    thread: usize,
    with_ring: bool,
) -> Result<(WorkerHandle, Ready), Unavailable> {
    let ring = with_ring.then(|| RingThread::start(&shared, thread)).transpose()?;
    let heartbeat = Heartbeat::new(format!("{THREAD} {thread}"));
    shared.health.watch(heartbeat.clone());
    let (handle, inbox) = WorkerHandle::new(heartbeat.clone());
    Ok((handle, Ready { shared, thread, ring, inbox, heartbeat }))
}

impl Ready {
    /// Gives it a thread of its own.
    pub(crate) fn start(self) -> std::io::Result<JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let name = format!("headroom-{}", self.thread);
        let run = move || {
            LocalSet::new().block_on(&runtime, self.serve());
            // A name that is being looked up delays nobody.
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name(name).spawn(run)
    }

    /// Works in the local set of the current thread, until nobody has its handle any more.
    pub(crate) async fn serve(self) {
        let Self { shared, thread, ring, mut inbox, heartbeat } = self;
        let (registry, pool) = (Rc::default(), Rc::default());
        let ledger = Rc::new(RefCell::new(Ledger::new(shared.insight.clone())));
        let worker = Rc::new(WorkerContext { shared, registry, pool, ledger, thread, ring, heartbeat });
        // Sessions are tasks of their own, and stay whatever happens here; so does what is in the inbox.
        while caught(serve(&worker, &mut inbox)).await.is_err() {
            worker.shared.health.ended(&worker.heartbeat.part, "it panicked");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Takes messages until nobody can send any more.
async fn serve(worker: &Rc<WorkerContext>, inbox: &mut UnboundedReceiver<Message>) {
    // The next look for quiet sessions, while some should leave. Clients that arrive do not put it off.
    let mut look: Option<Instant> = None;
    let looks = || {
        let more = worker.registry.look(Instant::now(), counts_at_most(&worker.shared));
        more.map(|quiet| Instant::now() + pause(&worker.shared, quiet))
    };
    loop {
        if look.is_some_and(|at| at <= Instant::now()) {
            look = looks();
        }
        let message = match look {
            Some(at) => match tokio::time::timeout_at(at.into(), inbox.recv()).await {
                Ok(message) => message,
                Err(_) => continue,
            },
            None => inbox.recv().await,
        };
        match message {
            None => return,
            Some(Message::Arrival(arrival)) => {
                let listener = &arrival.admission.permit.listener.address;
                let span = session_span::open(worker.shared.next_session(), listener);
                tokio::task::spawn_local(session::run(worker.clone(), arrival).instrument(span));
            }
            Some(Message::Beat) => {
                worker.heartbeat.answer();
                let deadline = worker.shared.routing().view.config.peer_deadline;
                worker.registry.ask_after_peers(deadline);
                if let Some(ring) = &worker.ring {
                    ring.beat(deadline);
                }
            }
            Some(Message::Fault(fault)) => match fault {
                Fault::ThreadStalls(_, time) => std::thread::sleep(time),
                Fault::ThreadEnds(_) => return,
                Fault::Ring(_, fault) => {
                    if let Some(ring) = &worker.ring {
                        ring.send_fault(fault);
                    }
                }
                _ => panic!("a fault was asked for"),
            },
            Some(Message::Ledger(count)) => {
                if let Some(ring) = &worker.ring {
                    ring.send_ledger_request(count.clone());
                }
                count.answer(&worker.ledger);
            }
            Some(Message::Rebalance(placement)) => {
                if let Some(ring) = &worker.ring {
                    ring.send_rebalance(placement.clone());
                }
                match placement {
                    RebalanceCommand::Look => look = looks().or(look),
                    cut => cut.cut(&worker.registry),
                }
            }
        }
    }
}
