//! Collect: asks the threads of the data plane what they have counted, once a second and whenever somebody
//! wants to know.
//!
//! On a thread of its own, because adding up takes milliseconds and nothing that serves clients should wait
//! for that. A thread of the data plane is asked by a message like any other, and answers with a copy of its
//! ledger.

use crate::shared_state::SharedState;
use crate::speed::Times;
use crate::worker::{LedgerRequest, Message, WorkerHandle};
use crate::zero_hop::mirror_handle::MirrorHandle;
use fleet::ServerName;
use insight::{Collector, OTHER, Report, Since, Snapshot};
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How often requests are taken over from the threads.
const EVERY: Duration = Duration::from_secs(1);
/// How often the servers' times are compared, at most.
const COMPARE_EVERY: Duration = Duration::from_millis(900);
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
pub(crate) fn start(shared: Arc<SharedState>, workers: &Arc<[WorkerHandle]>) -> std::io::Result<Insight> {
    let (requests, inbox) = channel();
    let workers = Arc::downgrade(workers);
    let run = move || serve(&shared, &workers, &inbox);
    std::thread::Builder::new().name("headroom-insight".to_owned()).spawn(run)?;
    Ok(Insight { requests })
}

fn serve(shared: &SharedState, workers: &Weak<[WorkerHandle]>, inbox: &Receiver<ReportRequest>) {
    let started = Instant::now();
    let mut collector = Collector::new(shared.insight.clone(), started);
    let (mut books, mut compared) = (Books::default(), started);
    loop {
        let request = match inbox.recv_timeout(EVERY) {
            Ok(request) => Some(request),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let Some(workers) = workers.upgrade() else { return };
        let now = Instant::now();
        let mark = collector.wants_mark(now);
        let mut snapshots = count(&workers, &shared.mirror, mark || request.is_some());
        drop(workers);
        if now.duration_since(compared) >= COMPARE_EVERY {
            let fresh = books.since_the_last(&snapshots, shared);
            shared.compare(&fresh, &readable(&snapshots), now.duration_since(compared), now);
            compared = now;
        }
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

/// The times of each digest on each server, by their numbers, when last looked at.
#[derive(Debug, Default)]
struct Books(HashMap<(u32, u32), Sums>);

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: u64,
    of_all: u64,
    log_sum: u64,
}

impl Books {
    fn since_the_last(&mut self, snapshots: &[Snapshot], shared: &SharedState) -> Vec<Times> {
        let mut sums: HashMap<(u32, u32), Sums> = HashMap::new();
        for times in snapshots.iter().flat_map(Snapshot::times) {
            let sum = sums.entry((times.digest(), times.server())).or_default();
            sum.count += times.count;
            sum.of_all += times.count * u64::from(times.one_in());
            sum.log_sum += times.log_sum;
        }
        let before = std::mem::replace(&mut self.0, sums);
        let servers = shared.insight.registry.servers.names();
        let fresh = self.0.iter().filter_map(|(at, sums)| {
            let (digest, server) = *at;
            // A digest met only now has no time before it; one that gave up its place is among the others.
            let earlier = before.get(at).copied().unwrap_or_default();
            let count = sums.count.checked_sub(earlier.count)?;
            let of_all = sums.of_all.checked_sub(earlier.of_all)? as f64;
            let log_sum = sums.log_sum.checked_sub(earlier.log_sum)?;
            let name = servers.get(&server).filter(|_| digest != OTHER && count > 0)?;
            // From binary logarithms in 1/1024 to natural ones.
            let log_sum = log_sum as f64 / 1024.0 * std::f64::consts::LN_2;
            Some(Times { server: ServerName::new(name), digest, count: count as f64, of_all, log_sum })
        });
        fresh.collect()
    }
}

/// How many sessions the readable ones on each server stand for.
fn readable(snapshots: &[Snapshot]) -> HashMap<ServerName, f64> {
    let mut sessions = HashMap::new();
    for (name, here) in snapshots.iter().flat_map(Snapshot::readable) {
        *sessions.entry(ServerName::new(name)).or_default() += *here as f64;
    }
    sessions
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
