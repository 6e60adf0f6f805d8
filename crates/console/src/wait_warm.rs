//! `headroom status --wait-warm SERVER`: until a router counts a server as fully warm.
//!
//! A router may not have noticed yet that the server was restarted a moment ago, and count it as warm from
//! before. So it must do so at every look for as long as two of its visits take, and two samples of the
//! server's counters: these say that it was restarted, and how cold it is.

use crate::admin_client::AdminClient;
use crate::status_view::StatusView;
use anyhow::bail;
use serde::Serialize;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use term::{Seconds, exit, terminal};

/// Time between two looks at the router.
const EVERY: Duration = Duration::from_millis(500);
/// It must be warm for two visits of the router, two samples of its counters, and for this long.
const LEAST: Duration = Duration::from_secs(2);
/// A router that is restarted, or hands over to its successor, answers nothing for a moment, and then knows
/// only the servers that it was told of. A wait of minutes does not end for that.
const MISSED: Duration = Duration::from_secs(10);

/// How far a server is.
#[derive(Clone, Debug, PartialEq)]
enum Standing {
    /// It takes reads and is warm. It must be so for this long.
    Warm {
        for_at_least: Duration,
        /// Why the clock alone says so, where it does.
        by_clock: Option<String>,
    },
    /// Not yet, and why.
    Waiting { warmth: Option<f64>, why: String },
}

/// What came of it: with `--json`.
#[derive(Debug, Serialize)]
struct Outcome<'a> {
    server: &'a str,
    /// Whether it is warm.
    warm: bool,
    /// How warm it was at the last look, 0 to 1; `null` while that is not known.
    warmth: Option<f64>,
    waited_s: f64,
    /// Why the clock alone says that it is warm; `null` where its misses do, and where it is not.
    by_clock: Option<String>,
    /// The same in words.
    text: String,
}

/// Waits. Exit code 0: it is warm; 1: it is not, in time.
pub async fn run(
    router: &AdminClient,
    server: &str,
    timeout: Duration,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let (start, mut progress) = (Instant::now(), Seconds::new(timeout));
    let mut warm_since: Option<Instant> = None;
    let mut last_good: Option<Instant> = None;
    let outcome = loop {
        let looked = router.status().await.and_then(|status| standing(&status, server));
        let (now, waited) = (Instant::now(), start.elapsed());
        let standing = match looked {
            Ok(standing) => {
                last_good = Some(now);
                standing
            }
            Err(error) => missed(error, last_good, now)?,
        };
        let (done, warmth, by_clock, why) = match standing {
            Standing::Warm { for_at_least, by_clock } => {
                let since = *warm_since.get_or_insert(now);
                let why = format!("{server} is warm, if the router has noticed all that happened to it");
                (now.duration_since(since) >= for_at_least, Some(1.0), by_clock, why)
            }
            Standing::Waiting { warmth, why } => {
                warm_since = None;
                (false, warmth, None, why)
            }
        };
        let waited_s = waited.as_secs_f64();
        if done {
            let text = is_warm(server, waited, by_clock.as_deref());
            break Outcome { server, warm: true, warmth, waited_s, by_clock, text };
        }
        if waited >= timeout {
            let text = format!("{server} is not warm after {}: {why}", fleet::long(waited));
            break Outcome { server, warm: false, warmth, waited_s, by_clock: None, text };
        }
        progress.show(waited, || why);
        tokio::time::sleep(EVERY.min(timeout.saturating_sub(waited))).await;
    };
    drop(progress);
    if json {
        terminal::print_json(&outcome)?;
    } else if outcome.warm {
        terminal::print(&format!("{}.\n", outcome.text))?;
    } else {
        terminal::complain(&format!("headroom: {}", outcome.text));
    }
    Ok(if outcome.warm { exit::DONE } else { exit::no() })
}

/// That it is warm, and whether only the clock says so: then nobody knows what its disk still has to read.
fn is_warm(server: &str, waited: Duration, by_clock: Option<&str>) -> String {
    let by_clock = by_clock.map(|why| format!("; by the clock alone, {why}")).unwrap_or_default();
    format!("{server} is warm, after {}{by_clock}", fleet::long(waited))
}

/// What a look means that brought nothing: not warm yet.
///
/// # Errors
/// It was the first one, or there was no better one for [`MISSED`].
fn missed(error: anyhow::Error, last_good: Option<Instant>, now: Instant) -> anyhow::Result<Standing> {
    match last_good {
        Some(at) if now.saturating_duration_since(at) < MISSED => {
            Ok(Standing::Waiting { warmth: None, why: format!("{error:#}") })
        }
        _ => Err(error),
    }
}

/// How far `server` is.
///
/// # Errors
/// It is none of the router's, or will get no reads: it is drained or reserved, or takes the writes.
fn standing(status: &StatusView, server: &str) -> anyhow::Result<Standing> {
    let servers = &status.fleet.servers;
    let Some((seen, routing)) =
        servers.iter().find(|s| s.name == server).and_then(|s| Some((s, s.routing.as_ref()?)))
    else {
        let known: Vec<&str> = servers.iter().map(|s| s.name.as_str()).collect();
        bail!("this router knows no server {server}; it knows {}", known.join(", "));
    };
    if routing.draining {
        bail!("{server} is being drained and gets no reads: `headroom undrain {server}` first");
    }
    if let Some(rule) = &seen.reserved {
        bail!("{server} is reserved by rule {rule} and gets no reads, so it does not warm up");
    }
    if seen.role == "primary" {
        bail!("{server} is the primary: it gets no reads by which it could warm up");
    }
    let (warmth, reads) = (routing.warmth, &routing.reads);
    if !reads.eligible {
        let why = reads.reason.clone().unwrap_or_else(|| seen.because.clone());
        return Ok(Standing::Waiting { warmth: None, why });
    }
    if let Some(why) = &routing.warming {
        return Ok(Standing::Waiting { warmth, why: why.clone() });
    }
    let two = |every_ms: Option<f64>| Duration::try_from_secs_f64(2.0 * every_ms.unwrap_or(0.0) / 1e3);
    let longest = [seen.asked_every_ms, seen.counted_every_ms].into_iter().flat_map(two).max();
    let for_at_least = longest.unwrap_or(LEAST).max(LEAST);
    Ok(Standing::Warm { for_at_least, by_clock: routing.warm_by_clock.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status_view::{EligibleView, RoutingView, ServerView};

    fn status(change: impl FnOnce(&mut ServerView, &mut RoutingView)) -> StatusView {
        let reads = EligibleView { eligible: true, capacity: 1.0, ..EligibleView::default() };
        let mut routing = RoutingView { reads, warmth: Some(1.0), ..RoutingView::default() };
        let mut server =
            ServerView { name: "db4".to_owned(), role: "replica".to_owned(), ..ServerView::default() };
        change(&mut server, &mut routing);
        server.routing = Some(routing);
        let mut status = StatusView::default();
        status.fleet.servers.push(server);
        status
    }

    #[test]
    fn a_warm_reader_must_be_so_for_two_visits_of_its_router() {
        let warm = |asked_every_ms| {
            standing(&status(|server, _| server.asked_every_ms = asked_every_ms), "db4").unwrap()
        };
        let after = |for_at_least| Standing::Warm { for_at_least, by_clock: None };
        assert_eq!(warm(Some(500.0)), after(LEAST));
        assert_eq!(warm(Some(55_000.0)), after(Duration::from_secs(110)));
        let seldom = status(|server, _| {
            (server.asked_every_ms, server.counted_every_ms) = (Some(3_200.0), Some(33_000.0));
        });
        assert_eq!(standing(&seldom, "db4").unwrap(), after(Duration::from_secs(66)));
    }

    #[test]
    fn one_that_is_warm_by_the_clock_alone_is_said_to_be() {
        let why = "with no other reader to compare with";
        let alone = status(|_, routing| routing.warm_by_clock = Some(why.to_owned()));
        let by_clock = Some(why.to_owned());
        assert_eq!(standing(&alone, "db4").unwrap(), Standing::Warm { for_at_least: LEAST, by_clock });
        let waited = Duration::from_secs(12);
        assert_eq!(is_warm("db4", waited, None), "db4 is warm, after 12 s");
        let words = format!("db4 is warm, after 12 s; by the clock alone, {why}");
        assert_eq!(is_warm("db4", waited, Some(why)), words);
    }

    #[test]
    fn a_cold_one_and_one_that_takes_no_reads_yet_are_waited_for() {
        let cold = status(|_, routing| {
            (routing.warmth, routing.warming) = (Some(0.3), Some("counts as 0.30".to_owned()));
        });
        let why = "counts as 0.30".to_owned();
        assert_eq!(standing(&cold, "db4").unwrap(), Standing::Waiting { warmth: Some(0.3), why });
        let late = status(|_, routing| {
            let reason = Some("12.3 s behind".to_owned());
            routing.reads = EligibleView { reason, ..EligibleView::default() };
        });
        let why = "12.3 s behind".to_owned();
        assert_eq!(standing(&late, "db4").unwrap(), Standing::Waiting { warmth: None, why });
    }

    #[test]
    fn a_router_that_is_restarted_meanwhile_is_missed_for_a_moment_and_not_from_the_start() {
        let (start, error) = (Instant::now(), || anyhow::anyhow!("no headroom route answers"));
        let after = |second: u64, last_good| missed(error(), last_good, start + Duration::from_secs(second));
        let why = "no headroom route answers".to_owned();
        assert_eq!(after(9, Some(start)).unwrap(), Standing::Waiting { warmth: None, why });
        assert!(after(10, Some(start)).is_err() && after(0, None).is_err());
    }

    #[test]
    fn what_cannot_become_warm_is_an_error_that_says_why() {
        let error = |status: &StatusView, server: &str| standing(status, server).unwrap_err().to_string();
        let plain = status(|_, _| ());
        assert_eq!(error(&plain, "db9"), "this router knows no server db9; it knows db4");
        let drained = status(|_, routing| routing.draining = true);
        assert!(error(&drained, "db4").contains("`headroom undrain db4` first"));
        let reserved = status(|server, _| server.reserved = Some("'analytics'".to_owned()));
        assert!(error(&reserved, "db4").contains("reserved by rule 'analytics'"));
        let primary = status(|server, _| server.role = "primary".to_owned());
        assert!(error(&primary, "db4").contains("is the primary"));
    }
}
