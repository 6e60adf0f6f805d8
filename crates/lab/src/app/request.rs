//! One request from when it was due to its last answer.

use super::counts::Pool as PoolName;
use super::pool::Pool;
use super::{Endpoint, Failure, Shared, Step};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::time::{Duration, Instant};

/// What one request did, gathered apart and added to the tally at its end, so that statements touch nothing
/// shared.
struct RequestLog {
    statements: Vec<AnsweredStatement>,
    reads: Duration,
}

/// A statement that was answered.
struct AnsweredStatement {
    pool: PoolName,
    server: u32,
    at: Instant,
    took: Duration,
}

/// Runs one request and counts it.
pub(super) async fn run(app: &Shared, endpoint: Endpoint, due: Instant, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let steps = endpoint.request(app.spec.data, &mut rng);
    let mut log = RequestLog { statements: Vec::with_capacity(steps.len()), reads: Duration::ZERO };
    let mut failed = None;
    for step in &steps {
        if let Err(failure) = take(app, step, &mut log).await {
            failed = Some(failure);
            break;
        }
    }
    let end = Instant::now();
    app.count(|tally| {
        for statement in &log.statements {
            tally.statement(
                endpoint,
                statement.pool,
                statement.server,
                statement.took,
                app.tick(statement.at),
            );
        }
        match failed {
            None => tally.request(endpoint, end.saturating_duration_since(due), log.reads, app.tick(end)),
            Some(failure) => tally.failed(endpoint, failure, app.tick(end)),
        }
    });
}

async fn take(app: &Shared, step: &Step, log: &mut RequestLog) -> Result<(), Failure> {
    let begun = Instant::now();
    match step {
        Step::Read(sql) => {
            let outcome = run_all(&app.readers, std::slice::from_ref(sql), log).await;
            log.reads += begun.elapsed();
            outcome
        }
        Step::Write(sql) => run_all(&app.writers, sql, log).await,
    }
}

async fn run_all(pool: &Pool, statements: &[String], log: &mut RequestLog) -> Result<(), Failure> {
    let mut session = pool.check_out().await?;
    for sql in statements {
        let sent = Instant::now();
        session.run(sql).await?;
        let at = Instant::now();
        log.statements.push(AnsweredStatement {
            pool: pool.name(),
            server: session.server(),
            at,
            took: at - sent,
        });
    }
    Ok(())
}
