//! Whether a candidate is as warm as the primary: the share of logical reads that go to disk **now**, on
//! both, and waiting until they are near each other.
//!
//! A rate since the start says nothing of a server that runs for months, so two looks at the counters are
//! compared. `Innodb_buffer_pool_read_requests` counts reads of pages, `Innodb_buffer_pool_reads` those
//! that went to disk; what replication reads to apply changes counts too, which is as it should be: those
//! pages are written after the move. A server that reads almost nothing says nothing.
//!
//! Worked example: the primary misses 0.2 % of its reads, the candidate 3 %: not near. Later it misses 0.6
//! %: within half a percentage point, so near; twice in a row, so warm.

use crate::Error;
use crate::connection::{BRIEFLY, Connection, Named};
use config::Credentials;
use fleet::{Address, ServerName};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Fewer reads of pages in a window say nothing.
const ENOUGH: u64 = 1_000;
/// A candidate that misses at most this many times as often as the primary is near it ...
const TIMES: f64 = 1.5;
/// ... and so is one that misses at most this much more, as a share of its reads.
const MORE: f64 = 0.005;
/// Windows in a row that must be near.
pub const IN_A_ROW: u32 = 2;
/// From one look to the next.
const WINDOW: Duration = Duration::from_secs(2);
const ASK: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_buffer_pool_read_requests', 'Innodb_buffer_pool_reads')";

/// The counters of one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    pub requests: u64,
    pub from_disk: u64,
}

/// What one window says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Warmth {
    /// Share of reads that went to disk; `None` where too little was read.
    pub primary: Option<f64>,
    pub candidate: Option<f64>,
}

/// How the waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Waited {
    /// The candidate is as warm as the primary.
    Warm { last: Warmth },
    /// Time is up, or somebody interrupted.
    NotWarm { last: Option<Warmth> },
}

impl Counters {
    /// The share that went to disk since an earlier look; `None` where too little was read, or the server was
    /// restarted between.
    pub fn miss_rate_since(self, before: Self) -> Option<f64> {
        let requests = self.requests.checked_sub(before.requests)?;
        let from_disk = self.from_disk.checked_sub(before.from_disk)?;
        (requests >= ENOUGH).then(|| from_disk as f64 / requests as f64)
    }
}

impl Warmth {
    /// Whether the candidate is near the primary. One that reads nothing is not: nobody knows.
    pub fn is_near(self) -> bool {
        match (self.primary, self.candidate) {
            (Some(primary), Some(candidate)) => candidate <= (primary * TIMES).max(primary + MORE),
            // A primary that reads nothing has nothing to lose.
            (None, Some(candidate)) => candidate <= MORE,
            (_, None) => false,
        }
    }

    /// For a line of progress.
    pub fn text(self) -> String {
        let rate = |rate: Option<f64>| match rate {
            Some(rate) => format!("{:.2} %", rate * 100.0),
            None => "too few to tell".to_owned(),
        };
        let hint = match self.candidate {
            Some(_) => "",
            None => ". Let routers send it reads: no reserved rule, full weight",
        };
        format!(
            "reads from disk: {} on the candidate, {} on the primary{hint}",
            rate(self.candidate),
            rate(self.primary)
        )
    }
}

/// Looks at both until the candidate is warm, `patience` has passed, or `interrupted` says so.
///
/// # Errors
/// A server does not answer.
pub async fn wait(
    servers: [(&ServerName, &Address); 2],
    who: &Credentials,
    deadline: Duration,
    patience: Duration,
    interrupted: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Warmth),
) -> Result<Waited, Error> {
    let [primary, candidate] = servers;
    let mut primary = Connection::open(primary.0, primary.1, who, deadline, BRIEFLY).await?;
    let mut candidate = Connection::open(candidate.0, candidate.1, who, deadline, BRIEFLY).await?;
    let until = Instant::now() + patience;
    let mut before = [look(&mut primary, deadline).await?, look(&mut candidate, deadline).await?];
    let (mut near, mut last) = (0, None);
    let waited = loop {
        if Instant::now() >= until || interrupted() {
            break Waited::NotWarm { last };
        }
        tokio::time::sleep(WINDOW.min(until.saturating_duration_since(Instant::now()))).await;
        let now = [look(&mut primary, deadline).await?, look(&mut candidate, deadline).await?];
        let rate = |at: usize| now[at].miss_rate_since(before[at]);
        let warmth = Warmth { primary: rate(0), candidate: rate(1) };
        before = now;
        last = Some(warmth);
        progress(warmth);
        near = if warmth.is_near() { near + 1 } else { 0 };
        if near == IN_A_ROW {
            break Waited::Warm { last: warmth };
        }
    };
    primary.close().await;
    candidate.close().await;
    Ok(waited)
}

async fn look(connection: &mut Connection, deadline: Duration) -> Result<Counters, Error> {
    let rows = connection.ask(ASK, deadline).await?;
    let value = |name: &str| {
        let is = |row: &&Named| row.get("variable_name").is_some_and(|n| n.eq_ignore_ascii_case(name));
        rows.iter().find(is).and_then(|row| row.get("value")?.parse().ok()).unwrap_or(0)
    };
    Ok(Counters {
        requests: value("Innodb_buffer_pool_read_requests"),
        from_disk: value("Innodb_buffer_pool_reads"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(requests: u64, from_disk: u64) -> Counters {
        Counters { requests, from_disk }
    }

    #[test]
    fn a_rate_is_of_the_window_and_needs_enough_reads() {
        let start = counters(1_000_000, 50_000);
        assert_eq!(counters(1_002_000, 50_100).miss_rate_since(start), Some(0.05));
        assert_eq!(counters(1_000_999, 50_100).miss_rate_since(start), None, "too few");
        assert_eq!(counters(5_000, 10).miss_rate_since(start), None, "restarted");
    }

    #[test]
    fn near_is_half_as_much_again_or_half_a_point_more() {
        let near = |primary, candidate| Warmth { primary, candidate }.is_near();
        assert!(near(Some(0.002), Some(0.006)) && !near(Some(0.002), Some(0.03)));
        assert!(near(Some(0.10), Some(0.15)) && !near(Some(0.10), Some(0.16)));
        assert!(near(None, Some(0.004)) && !near(None, Some(0.01)));
        assert!(!near(Some(0.5), None), "whoever reads nothing is not warm for it");
    }

    #[test]
    fn one_that_reads_nothing_is_told_what_would_help() {
        let text = Warmth { primary: Some(0.01), candidate: None }.text();
        assert!(text.contains("too few to tell") && text.contains("send it reads"), "{text}");
    }
}
