//! Clients of one zone with one pool, which looks at a session before it hands it out and opens a new one
//! when the other side has closed it. Open loop: what is late counts from when it should have begun. Closed
//! loop: each client asks again at once.

use mysql_async::prelude::Queryable;
use mysql_async::{Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How long a pool keeps a session that is not used.
const KEPT: Duration = Duration::from_secs(3600);

/// Which session a pool hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The one returned last, as Go's database/sql does.
    NewestFirst,
    OldestFirst,
}

/// When clients ask.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// This many statements a second.
    Open(f64),
    /// Clients, each again when it is answered.
    Closed(usize),
}

/// What clients of a zone do.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub(super) sessions: usize,
    pub(super) order: Order,
    pub(super) pace: Pace,
    pub(super) statement: Arc<str>,
    pub(super) seed: u64,
}

#[derive(Debug)]
struct Shared {
    slots: Mutex<VecDeque<Pool>>,
    free: Semaphore,
    order: Order,
    statement: Arc<str>,
    stop: AtomicBool,
    answers: Mutex<Answers>,
}

/// What clients saw since the last look.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Of each statement, ms.
    pub(super) times_ms: Vec<f64>,
    pub(super) errors: Vec<String>,
}

/// Running clients; they end when this is dropped.
#[derive(Debug)]
pub(super) struct Clients {
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

impl Clients {
    /// Opens every session, then begins.
    pub(super) async fn start(opts: &OptsBuilder, demand: &Demand) -> anyhow::Result<Self> {
        // Without a time a pool closes every session that is given back.
        let one = PoolOpts::default()
            .with_constraints(PoolConstraints::new(0, 1).unwrap_or_default())
            .with_inactive_connection_ttl(KEPT)
            .with_reset_connection(false);
        let pool = || Pool::new(Opts::from(opts.clone().pool_opts(one.clone())));
        let slots: VecDeque<Pool> = (0..demand.sessions).map(|_| pool()).collect();
        for slot in &slots {
            drop(slot.get_conn().await?);
        }
        let shared = Arc::new(Shared {
            slots: Mutex::new(slots),
            free: Semaphore::new(demand.sessions),
            order: demand.order,
            statement: demand.statement.clone(),
            stop: AtomicBool::new(false),
            answers: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        match demand.pace {
            Pace::Open(rate) => drop(tasks.spawn(arrive(shared.clone(), rate, demand.seed))),
            Pace::Closed(clients) => {
                (0..clients).for_each(|_| drop(tasks.spawn(again_and_again(shared.clone()))));
            }
        }
        Ok(Self { shared, _tasks: tasks })
    }

    /// What was seen since the last time.
    pub(super) fn take(&self) -> Answers {
        std::mem::take(&mut *self.shared.answers())
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
    }
}

/// Poisson arrivals.
async fn arrive(shared: Arc<Shared>, rate: f64, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut due = Instant::now();
    let mut under_way = JoinSet::new();
    while !shared.stop.load(Relaxed) {
        due += Duration::from_secs_f64(-(1.0 - rng.random_range(0.0..1.0f64)).ln() / rate);
        tokio::time::sleep_until(due.into()).await;
        let shared = shared.clone();
        under_way.spawn(async move { shared.ask(due).await });
        while under_way.try_join_next().is_some() {}
    }
}

async fn again_and_again(shared: Arc<Shared>) {
    while !shared.stop.load(Relaxed) {
        shared.ask(Instant::now()).await;
    }
}

impl Shared {
    async fn ask(&self, due: Instant) {
        let Ok(_permit) = self.free.acquire().await else { return };
        let slot = {
            let mut slots = self.slots();
            if self.order == Order::NewestFirst { slots.pop_back() } else { slots.pop_front() }
        };
        let Some(slot) = slot else { return };
        // A close that has arrived is seen before the session is used.
        tokio::task::yield_now().await;
        let asked = async {
            let mut conn = slot.get_conn().await?;
            conn.query_drop(&*self.statement).await
        };
        let outcome = asked.await;
        self.slots().push_back(slot);
        let mut answers = self.answers();
        match outcome {
            Ok(()) => answers.times_ms.push(due.elapsed().as_secs_f64() * 1e3),
            Err(error) => answers.errors.push(error.to_string()),
        }
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, VecDeque<Pool>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answers(&self) -> std::sync::MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
