//! The way to a server: how long one small packet takes there and back, and how many a second go through when
//! many do. A server answers a ping without looking at any table, so that this is the way and little else.

use anyhow::Context;
use config::Credentials;
use fleet::Address;
use observe::ControlConnection;
use plan::quantile::{nearest_rank, sorted};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Connections for the rate.
const MANY: u32 = 16;
/// Who has not answered after this long is not measured.
const DEADLINE: Duration = Duration::from_secs(5);

/// The way to one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Way {
    /// Which server.
    pub server: String,
    /// Round trips, one at a time: half of them took at most this long, milliseconds.
    pub round_trip_p50_ms: f64,
    /// 99 of 100.
    pub round_trip_p99_ms: f64,
    /// Round trips a second over sixteen connections: as many small packets each way.
    pub round_trips_per_s: f64,
}

/// Measures for twice `each`.
///
/// # Errors
/// The server cannot be reached or refuses the account.
pub(crate) async fn measure(server: &Address, who: &Credentials, each: Duration) -> anyhow::Result<Way> {
    let connect = || async {
        let way = ControlConnection::open(server, who, DEADLINE).await;
        way.with_context(|| format!("connecting to {server} for round trips"))
    };
    let alone = sorted(pings(connect().await?, each).await?);
    let mut all = JoinSet::new();
    for _ in 0..MANY {
        all.spawn(pings(connect().await?, each));
    }
    let mut count = 0;
    while let Some(one) = all.join_next().await {
        count += one??.len();
    }
    Ok(Way {
        server: server.to_string(),
        round_trip_p50_ms: nearest_rank(&alone, 0.5).unwrap_or(0.0),
        round_trip_p99_ms: nearest_rank(&alone, 0.99).unwrap_or(0.0),
        round_trips_per_s: count as f64 / each.as_secs_f64(),
    })
}

/// How long each took, milliseconds.
async fn pings(mut way: ControlConnection, time: Duration) -> anyhow::Result<Vec<f64>> {
    let (start, mut took) = (Instant::now(), Vec::new());
    while start.elapsed() < time {
        took.push(way.ping(DEADLINE).await?.as_secs_f64() * 1e3);
    }
    Ok(took)
}
