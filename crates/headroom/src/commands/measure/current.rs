//! Today's rate, from the server that carries it: its counter of statements, twice.

use anyhow::Context;
use fleet::Address;
use load::Account;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use std::time::{Duration, Instant};

/// Long enough for a mean, short enough to wait for.
const TIME: Duration = Duration::from_secs(10);
/// `Questions` counts what clients sent; `Queries` also what stored programs did.
const COUNTER: &str = "SHOW GLOBAL STATUS LIKE 'Questions'";

/// Statements a second that its clients send to a server.
///
/// # Errors
/// A server that cannot be asked.
pub(super) async fn queries_per_second(address: &Address, account: &Account) -> anyhow::Result<f64> {
    let asking = || format!("asking {address} for its current rate");
    let options = OptsBuilder::default()
        .user(Some(account.user.clone()))
        .pass((!account.password.is_empty()).then(|| account.password.clone()))
        .prefer_socket(false);
    let options = match address {
        Address::Unix(path) => options.socket(Some(path.display().to_string())),
        Address::Tcp { host, port } => options.ip_or_hostname(host.clone()).tcp_port(*port),
    };
    let mut conn = Conn::new(options).await.with_context(asking)?;
    let mut count = async || -> anyhow::Result<(u64, Instant)> {
        let found: Option<(String, u64)> = conn.query_first(COUNTER).await.with_context(asking)?;
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
