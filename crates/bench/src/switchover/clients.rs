//! Writers with an ordinary pool each router: sessions are looked at when they are handed out and reset when
//! they come back. Arrivals are open-loop: a transaction that is late counts from when it should have begun.

use super::history::{Answer, Client};
use mysql_async::prelude::Queryable;
use mysql_async::{Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts, TxOpts};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// A client reads its register back after this many transactions.
const READ_EVERY: u64 = 4;
/// How long a pool keeps a session that is not used.
const KEPT: Duration = Duration::from_secs(3600);

/// One transaction as its client saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    /// When it should have begun.
    pub(super) due: Instant,
    /// From then to its end.
    pub(super) took: Duration,
    /// Whether it is said to have happened.
    pub(super) acknowledged: bool,
}

/// What clients saw.
#[derive(Debug, Default)]
pub(super) struct ClientReport {
    pub(super) clients: BTreeMap<u32, Client>,
    pub(super) responses: Vec<Response>,
    /// Errors by what was being done and the server's or driver's words, with how often and when the first
    /// was seen.
    pub(super) errors: BTreeMap<String, u64>,
}

/// Running writers.
pub(super) struct Writers {
    tasks: JoinSet<(u32, Client, Vec<Response>, Vec<String>)>,
    stop: Arc<AtomicBool>,
}

impl Writers {
    /// `clients` writers, spread over `routers`, that together begin `rate` transactions a second. A
    /// transaction that takes longer than `patience` is given up: whether it happened is not known then.
    pub(super) fn start(routers: &[OptsBuilder], clients: u32, rate: f64, patience: Duration) -> Self {
        Self::start_from(0, routers, clients, rate, patience)
    }

    /// The same; the clients are called by the numbers after `before`.
    pub(super) fn start_from(
        before: u32,
        routers: &[OptsBuilder],
        clients: u32,
        rate: f64,
        patience: Duration,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let pools: Vec<Pool> = routers
            .iter()
            .map(|opts| {
                let most = clients.div_ceil(routers.len() as u32) as usize;
                let constraints = PoolConstraints::new(0, most).unwrap_or_default();
                // Without a time a pool closes every session that is given back.
                let options =
                    PoolOpts::default().with_constraints(constraints).with_inactive_connection_ttl(KEPT);
                Pool::new(Opts::from(opts.clone().pool_opts(options)))
            })
            .collect();
        let mut tasks = JoinSet::new();
        let every = Duration::from_secs_f64(f64::from(clients) / rate);
        for client in 1..=clients {
            let pool = pools[client as usize % pools.len()].clone();
            let first = Instant::now() + every.mul_f64(f64::from(client) / f64::from(clients));
            tasks.spawn(write(before + client, pool, first, every, patience, stop.clone()));
        }
        Self { tasks, stop }
    }

    /// Lets each finish what it does.
    pub(super) async fn stop(mut self) -> ClientReport {
        self.stop.store(true, Relaxed);
        let mut seen = ClientReport::default();
        while let Some(Ok((name, client, responses, errors))) = self.tasks.join_next().await {
            seen.clients.insert(name, client);
            seen.responses.extend(responses);
            for error in errors {
                *seen.errors.entry(error).or_default() += 1;
            }
        }
        seen
    }
}

async fn write(
    name: u32,
    pool: Pool,
    first: Instant,
    every: Duration,
    patience: Duration,
    stop: Arc<AtomicBool>,
) -> (u32, Client, Vec<Response>, Vec<String>) {
    let (mut client, mut responses, mut errors) = (Client::default(), Vec::new(), Vec::new());
    let (mut due, mut number, mut acknowledged) = (first, 0, 0);
    while !stop.load(Relaxed) {
        tokio::time::sleep_until(due.into()).await;
        number += 1;
        let (answer, error) = match tokio::time::timeout(patience, append(&pool, name, number)).await {
            Ok(Ok(())) => (Answer::Acknowledged, None),
            Ok(Err((answer, error))) => (answer, Some(error)),
            Err(_) => (Answer::Unknown, Some(format!("no answer for {} s", patience.as_secs()))),
        };
        errors.extend(error);
        client.appends.push((number, answer));
        let acknowledged_now = answer == Answer::Acknowledged;
        responses.push(Response { due, took: due.elapsed(), acknowledged: acknowledged_now });
        if acknowledged_now {
            acknowledged = number;
        }
        if number % READ_EVERY == 0 {
            match tokio::time::timeout(patience, read(&pool, name)).await {
                Ok(Ok(read)) => client.reads.push((acknowledged, read)),
                Ok(Err(error)) => errors.push(format!("read: {}", words(&error))),
                Err(_) => errors.push(format!("read: no answer for {} s", patience.as_secs())),
            }
        }
        due += every;
    }
    (name, client, responses, errors)
}

/// One transaction. What fails before the commit is sent did not happen; a commit whose answer is lost may
/// have.
async fn append(pool: &Pool, name: u32, number: u64) -> Result<(), (Answer, String)> {
    let failed = |doing: &'static str| {
        move |error: mysql_async::Error| (Answer::Failed, format!("{doing}: {}", words(&error)))
    };
    let mut conn = pool.get_conn().await.map_err(failed("connect"))?;
    let mut transaction = conn.start_transaction(TxOpts::default()).await.map_err(failed("begin"))?;
    let insert = format!("INSERT INTO app.appends (client, number) VALUES ({name}, {number})");
    transaction.query_drop(insert).await.map_err(failed("statement"))?;
    let set = format!("REPLACE INTO app.registers (client, number) VALUES ({name}, {number})");
    transaction.query_drop(set).await.map_err(failed("statement"))?;
    transaction.commit().await.map_err(|error| {
        let answer =
            if matches!(error, mysql_async::Error::Server(_)) { Answer::Failed } else { Answer::Unknown };
        (answer, format!("commit: {}", words(&error)))
    })
}

async fn read(pool: &Pool, name: u32) -> Result<u64, mysql_async::Error> {
    let mut conn = pool.get_conn().await?;
    let number = conn.query_first(format!("SELECT number FROM app.registers WHERE client = {name}")).await?;
    Ok(number.unwrap_or(0))
}

/// The kind of an error: the server's number and words, or what became of the connection.
fn words(error: &mysql_async::Error) -> String {
    match error {
        mysql_async::Error::Server(error) => format!("error {}: {}", error.code, error.message),
        other => other.to_string(),
    }
}
