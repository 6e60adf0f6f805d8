//! Today's rate, from the server that carries it: its counter of statements, twice.

use anyhow::{Context, anyhow};
use config::Credentials;
use fleet::Address;
use mysql_async::prelude::Queryable;
use observe::AskError;
use std::time::{Duration, Instant};

/// Long enough for a mean, short enough to wait for.
const TIME: Duration = Duration::from_secs(10);
/// For the login, and for each answer: the server may be a busy one.
const DEADLINE: Duration = Duration::from_secs(10);
/// `Questions` counts what clients sent; `Queries` also what stored programs did.
const COUNTER: &str = "SHOW GLOBAL STATUS LIKE 'Questions'";

/// Statements a second that its clients send to a server.
///
/// # Errors
/// A server that cannot be asked, or does not answer within [`DEADLINE`].
pub(super) async fn queries_per_second(address: &Address, who: &Credentials) -> anyhow::Result<f64> {
    let asking = || format!("asking {address} for its current rate");
    let mut conn = observe::connect(address, who, DEADLINE).await.with_context(asking)?;
    let mut count = async || -> anyhow::Result<(u64, Instant)> {
        let answer = tokio::time::timeout(DEADLINE, conn.query_first::<(String, u64), _>(COUNTER)).await;
        let silent = |_| anyhow!("no answer within {} s", DEADLINE.as_secs());
        let answer = answer.map_err(silent).with_context(asking)?;
        let found = answer.map_err(AskError::from).with_context(asking)?;
        let (_, count) = found.with_context(|| format!("{address} has no counter of statements"))?;
        Ok((count, Instant::now()))
    };
    let (before, from) = count().await?;
    tokio::time::sleep(TIME).await;
    let (after, to) = count().await?;
    conn.disconnect().await.ok();
    // Our own question is among them.
    Ok(after.saturating_sub(before + 1) as f64 / (to - from).as_secs_f64())
}
