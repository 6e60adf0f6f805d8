//! Collect: asks the threads of the data plane what they have counted, once a second and whenever somebody
//! wants to know.
//!
//! On a thread of its own, because adding up takes milliseconds and nothing that serves clients should wait
//! for that. A thread of the data plane is asked by a message like any other, and answers with a copy of its
//! ledger.

use crate::worker::{LedgerRequest, Message, WorkerHandle};
use crate::zero_hop::mirror_handle::MirrorHandle;
use insight::{Collector, Report, Shared, Since, Snapshot};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How often requests are taken over from the threads.
const EVERY: Duration = Duration::from_secs(1);
/// A thread that has not answered after this long is stuck; its part is then missing.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where to ask for the figures of statements. Outlives the router, and then has none.
#[derive(Clone, Debug)]
pub struct Insight {
    requests: Sender<ReportRequest>,
}

#[derive(Debug)]
struct ReportRequest {
    since: Since,
    reply: oneshot::Sender<Report>,
}

impl Insight {
    /// The figures of a span of time; `None` when the router has stopped.
    pub async fn report(&self, since: Since) -> Option<Report> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(ReportRequest { since, reply }).ok()?;
        answer.await.ok()
    }
}

/// Starts the thread. It ends by itself when the threads it asks have.
pub(crate) fn start(
    shared: Arc<Shared>,
    workers: &Arc<[WorkerHandle]>,
    mirror: Arc<MirrorHandle>,
) -> std::io::Result<Insight> {
    let (requests, inbox) = channel();
    let workers = Arc::downgrade(workers);
    let run = move || serve(shared, &workers, &mirror, &inbox);
    std::thread::Builder::new().name("headroom-insight".to_owned()).spawn(run)?;
    Ok(Insight { requests })
}

fn serve(
    shared: Arc<Shared>,
    workers: &Weak<[WorkerHandle]>,
    mirror: &MirrorHandle,
    inbox: &Receiver<ReportRequest>,
) {
    let started = Instant::now();
    let mut collector = Collector::new(shared, started);
    loop {
        let request = match inbox.recv_timeout(EVERY) {
            Ok(request) => Some(request),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let Some(workers) = workers.upgrade() else { return };
        let now = Instant::now();
        let mark = collector.wants_mark(now);
        let mut snapshots = count(&workers, mirror, mark || request.is_some());
        drop(workers);
        collector.absorb(&mut snapshots, now);
        if mark {
            collector.mark(&snapshots, now);
        }
        if let Some(ReportRequest { since, reply }) = request {
            // Whoever asked may have left.
            let _ = reply.send(collector.report(&snapshots, since, started, now));
        }
    }
}

fn count(workers: &[WorkerHandle], mirror: &MirrorHandle, cells: bool) -> Vec<Snapshot> {
    let (reply, answers) = channel();
    for worker in workers {
        let _ = worker.send(Message::Ledger(LedgerRequest { cells, reply: reply.clone() }));
    }
    mirror.send_ledger_request(LedgerRequest { cells, reply: reply.clone() });
    // All have answered when nobody holds a reply any more.
    drop(reply);
    let until = Instant::now() + PATIENCE;
    std::iter::from_fn(|| answers.recv_timeout(until.saturating_duration_since(Instant::now())).ok())
        .collect()
}
