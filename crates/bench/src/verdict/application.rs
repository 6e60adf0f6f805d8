//! An application that is always there: requests of three point reads and a little work, a few each second,
//! timed by itself. Made slow, it takes its time between its statements; the database has no part in that.

use diagnose::verdict::Timing;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use plan::quantile::{nearest_rank, sorted};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Clients; each sends a request every [`EVERY`].
const CLIENTS: u32 = 2;
const EVERY: Duration = Duration::from_millis(80);
/// Its own work in a request.
const WORK: Duration = Duration::from_millis(5);
/// Times kept: more than a window has.
const MOST: usize = 8192;

/// The application; dropped, it ends.
pub(super) struct Application {
    slow_ms: Arc<AtomicU64>,
    timings: watch::Receiver<Option<Timing>>,
    statements: Times,
    _stop: DropGuard,
}

/// When something ended, and how long it took.
pub(super) type Times = Arc<Mutex<VecDeque<(Instant, f64)>>>;

impl Application {
    /// Begins; its figures are of the last `window`.
    pub(super) async fn start(server: &Opts, window: Duration) -> anyhow::Result<Self> {
        let (slow_ms, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
        let (requests, statements) = (Times::default(), Times::default());
        for number in 0..CLIENTS {
            let conn = Conn::new(server.clone()).await?;
            let work = serve(conn, number, slow_ms.clone(), requests.clone(), statements.clone());
            let stop = stop.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    ended = work => if let Err(error) = ended {
                        tracing::warn!(%error, "the application lost its connection");
                    }
                }
            });
        }
        let (publish, timings) = watch::channel(None);
        let (stopped, timed) = (stop.clone(), statements.clone());
        tokio::spawn(async move {
            while !stopped.is_cancelled() {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let timing = p99(&requests, window).zip(p99(&statements, window));
                publish.send_replace(
                    timing.map(|(request_p99_ms, statement_p99_ms)| Timing {
                        request_p99_ms,
                        statement_p99_ms,
                    }),
                );
            }
        });
        Ok(Self { slow_ms, timings, statements: timed, _stop: stop.drop_guard() })
    }

    /// How it does.
    pub(super) fn timings(&self) -> watch::Receiver<Option<Timing>> {
        self.timings.clone()
    }

    /// Where others that are part of it note what their statements took.
    pub(super) fn statements(&self) -> Times {
        self.statements.clone()
    }

    /// What else it does between its statements; dropped, it is as fast as before.
    pub(super) fn slow(&self, extra: Duration) -> Slow {
        self.slow_ms.store(u64::try_from(extra.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        Slow(self.slow_ms.clone())
    }
}

/// While it is there the application is slow.
pub(super) struct Slow(Arc<AtomicU64>);

impl Drop for Slow {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

async fn serve(
    mut conn: Conn,
    number: u32,
    slow_ms: Arc<AtomicU64>,
    requests: Times,
    statements: Times,
) -> anyhow::Result<()> {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut at = number * 500;
    loop {
        tick.tick().await;
        let began = Instant::now();
        for step in 0..3 {
            at = (at + 7 + step) % 1000;
            let asked = Instant::now();
            conn.query_drop(format!("SELECT filler FROM app.big WHERE id = {at}")).await?;
            note(&statements, asked);
        }
        tokio::time::sleep(WORK + Duration::from_millis(slow_ms.load(Ordering::Relaxed))).await;
        note(&requests, began);
    }
}

pub(super) fn note(times: &Times, since: Instant) {
    let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
    times.push_back((Instant::now(), since.elapsed().as_secs_f64() * 1e3));
    if times.len() > MOST {
        times.pop_front();
    }
}

fn p99(times: &Times, window: Duration) -> Option<f64> {
    let times = times.lock().unwrap_or_else(PoisonError::into_inner);
    let recent: Vec<f64> = times.iter().filter(|(at, _)| at.elapsed() <= window).map(|(_, ms)| *ms).collect();
    nearest_rank(&sorted(recent), 0.99)
}
