//! Collect: asks the threads of the data plane what they have counted, once a second and whenever somebody
//! wants to know.
//!
//! On a thread of its own, because adding up takes milliseconds and nothing that serves clients should wait
//! for that. A thread of the data plane is asked by a message like any other, and answers with a copy of its
//! ledger. While one of them is stuck nothing is told: counters would go back, and its whole past would come
//! on top when it goes on. Whoever asks waits.

use crate::shared_state::SharedState;
use crate::speed::Times;
use crate::worker::{LedgerRequest, Message, WorkerHandle};
use crate::zero_hop::mirror_handle::MirrorHandle;
use fleet::ServerName;
use insight::{Collector, OTHER, Report, Since, Snapshot};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How often requests are taken over from the threads.
const EVERY: Duration = Duration::from_secs(1);
/// How often the servers' times are compared, at most.
const COMPARE_EVERY: Duration = Duration::from_millis(900);
/// A thread that has not answered after this long is stuck; its part is missing until it goes on.
const PATIENCE: Duration = Duration::from_secs(5);
/// A thread whose part was missing for longer does not come back: see [`crate::health::HOPELESS`].
const MISSING: Duration = Duration::from_secs(30);
/// The name of the thread.
const THREAD: &str = "headroom-insight";
/// What is wrong when it has ended. It is not started anew: its sums would begin again, and with them
/// counters and objectives.
const ENDED: &str = "it has ended: what statements tell is not known and objectives are not judged, until \
                     the router is started again; sessions go on";

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
    let run = move || {
        // It leaves nothing behind but what it has asked the threads for.
        if catch_unwind(AssertUnwindSafe(|| serve(&shared, &workers, &inbox))).is_err() {
            tracing::error!(part = THREAD, "{ENDED}");
            shared.health.set_idle(THREAD, Some(ENDED.to_owned()));
        }
    };
    std::thread::Builder::new().name(THREAD.to_owned()).spawn(run)?;
    Ok(Insight { requests })
}

fn serve(shared: &SharedState, workers: &Weak<[WorkerHandle]>, inbox: &Receiver<ReportRequest>) {
    let started = Instant::now();
    let mut collector = Collector::new(shared.insight.clone(), started);
    let (mut books, mut compared) = (Books::default(), started);
    let mut waiting: Vec<ReportRequest> = Vec::new();
    loop {
        match inbox.recv_timeout(EVERY) {
            Ok(request) => waiting.push(request),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let Some(workers) = workers.upgrade() else { return };
        assert!(!shared.insight_fails.swap(false, Relaxed), "a fault was asked for");
        let now = Instant::now();
        let mark = collector.wants_mark(now);
        let mut snapshots = count(&workers, &shared.mirror, mark || !waiting.is_empty());
        drop(workers);
        collector.absorb(&mut snapshots, now);
        if !books.is_whole(snapshots.len(), now) {
            continue;
        }
        if now.duration_since(compared) >= COMPARE_EVERY {
            let fresh = books.since_the_last(&snapshots, shared);
            shared.compare(&fresh, &readable(&snapshots), now.duration_since(compared), now);
            compared = now;
        }
        if mark {
            collector.mark(&snapshots, now);
        }
        for ReportRequest { since, reply } in waiting.drain(..) {
            // Whoever asked may have left.
            let _ = reply.send(collector.report(&snapshots, since, started, now));
        }
    }
}

/// The times of each digest on each server, by their numbers, when last looked at.
#[derive(Debug, Default)]
struct Books {
    sums: HashMap<(u32, u32), Sums>,
    /// How many ledgers these are of.
    ledgers: usize,
    /// Since when fewer have been handed over.
    missing_since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    count: u64,
    of_all: u64,
    log_sum: u64,
    sum_ns: u64,
}

impl Sums {
    fn add(&mut self, more: Self) {
        self.count += more.count;
        self.of_all += more.of_all;
        self.log_sum += more.log_sum;
        self.sum_ns = self.sum_ns.saturating_add(more.sum_ns);
    }

    /// `None` where there was more before.
    fn since(self, earlier: Self) -> Option<Self> {
        Some(Self {
            count: self.count.checked_sub(earlier.count)?,
            of_all: self.of_all.checked_sub(earlier.of_all)?,
            log_sum: self.log_sum.checked_sub(earlier.log_sum)?,
            sum_ns: self.sum_ns.checked_sub(earlier.sum_ns)?,
        })
    }
}

impl Books {
    /// Whether this many ledgers are all. Without one of them nothing is compared or told: when it came back,
    /// all that it ever counted would be taken for new.
    fn is_whole(&mut self, ledgers: usize, now: Instant) -> bool {
        if ledgers < self.ledgers {
            let since = *self.missing_since.get_or_insert(now);
            if now.saturating_duration_since(since) < MISSING {
                return false;
            }
        }
        (self.ledgers, self.missing_since) = (ledgers, None);
        true
    }

    fn since_the_last(&mut self, snapshots: &[Snapshot], shared: &SharedState) -> Vec<Times> {
        let mut sums: HashMap<(u32, u32), Sums> = HashMap::new();
        for times in snapshots.iter().flat_map(Snapshot::times) {
            let of_all = times.count * u64::from(times.one_in());
            let more = Sums { count: times.count, of_all, log_sum: times.log_sum, sum_ns: times.sum_ns };
            sums.entry((times.digest(), times.server())).or_default().add(more);
        }
        let servers = shared.insight.registry.servers.names();
        let times = |((digest, server), sums): ((u32, u32), Sums)| {
            let server = ServerName::new(servers.get(&server)?);
            // From binary logarithms in 1/1024 to natural ones.
            let log_sum = sums.log_sum as f64 / 1024.0 * std::f64::consts::LN_2;
            let (count, of_all, sum_ns) = (sums.count as f64, sums.of_all as f64, sums.sum_ns as f64);
            Some(Times { server, digest, count, of_all, log_sum, sum_ns })
        };
        self.fresh(sums).into_iter().filter_map(times).collect()
    }

    /// What was not in the sums before, by digest and server. A digest that gave up its place is among the
    /// others, with all that it ever counted: so what is new of them is what is new of all, less the rest.
    fn fresh(&mut self, sums: HashMap<(u32, u32), Sums>) -> Vec<((u32, u32), Sums)> {
        let before = std::mem::replace(&mut self.sums, sums);
        let earlier = by_server(&before);
        let new = |(server, all): (u32, Sums)| {
            Some((server, all.since(earlier.get(&server).copied().unwrap_or_default())?))
        };
        let mut others: HashMap<u32, Sums> = by_server(&self.sums).into_iter().filter_map(new).collect();
        let mut fresh = Vec::new();
        for (at, sums) in self.sums.iter().filter(|((digest, _), _)| *digest != OTHER) {
            // A digest met only now has no time before it.
            let Some(new) = sums.since(before.get(at).copied().unwrap_or_default()) else { continue };
            if let Some(rest) = others.get(&at.1).and_then(|others| others.since(new)) {
                others.insert(at.1, rest);
            }
            fresh.push((*at, new));
        }
        fresh.extend(others.into_iter().map(|(server, new)| ((OTHER, server), new)));
        fresh.retain(|(_, new)| new.count > 0);
        fresh
    }
}

/// All digests of each server.
fn by_server(sums: &HashMap<(u32, u32), Sums>) -> HashMap<u32, Sums> {
    let mut all: HashMap<u32, Sums> = HashMap::new();
    sums.iter().for_each(|((_, server), sums)| all.entry(*server).or_default().add(*sums));
    all
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(of: &[((u32, u32), u64)]) -> HashMap<(u32, u32), Sums> {
        let one = |(at, count): &((u32, u32), u64)| {
            (*at, Sums { count: *count, of_all: 16 * count, log_sum: 20 * count, sum_ns: 30 * count })
        };
        of.iter().map(one).collect()
    }

    /// Counts of what is new, in the order of digests and servers.
    fn fresh(books: &mut Books, of: &[((u32, u32), u64)]) -> Vec<((u32, u32), u64)> {
        let mut fresh = books.fresh(sums(of));
        assert!(fresh.iter().all(|(_, new)| new.of_all == 16 * new.count && new.log_sum == 20 * new.count));
        fresh.sort_unstable_by_key(|(at, _)| *at);
        fresh.into_iter().map(|(at, new)| (at, new.count)).collect()
    }

    #[test]
    fn what_is_new_of_the_others_is_known_also_where_a_digest_has_joined_them() {
        let mut books = Books::default();
        fresh(&mut books, &[((OTHER, 1), 100), ((7, 1), 5000), ((8, 1), 10), ((8, 2), 3)]);
        // Digest 7 gives up its place, having come twice more; three others came, and 8 twice.
        let after = [((OTHER, 1), 5105), ((8, 1), 12), ((8, 2), 3)];
        assert_eq!(fresh(&mut books, &after), [((OTHER, 1), 5), ((8, 1), 2)]);
        assert!(fresh(&mut books, &after).is_empty());
        // A thread began anew: nothing is known of this time.
        assert_eq!(fresh(&mut books, &[((OTHER, 1), 1), ((8, 1), 2), ((8, 2), 4)]), [((8, 2), 1)]);
    }

    #[test]
    fn without_the_ledger_of_a_thread_nothing_is_compared_until_it_is_back_or_given_up() {
        let (mut books, start) = (Books::default(), Instant::now());
        let mut is_whole = |ledgers, second| books.is_whole(ledgers, start + Duration::from_secs(second));
        assert!(is_whole(4, 0) && is_whole(5, 1), "one more has begun");
        assert!(!is_whole(4, 2) && !is_whole(4, 20) && is_whole(5, 21));
        assert!(!is_whole(4, 22) && !is_whole(4, 51) && is_whole(4, 52) && is_whole(4, 53));
    }
}
