//! sysbench as the load: its arguments, and what it says afterwards, as values.
//!
//! Point selects in the text protocol (`--db-ps-mode=disable`): one small packet there and one back is where
//! a relay weighs most; prepared statements would make the server cheaper and change nothing for the relay,
//! which sees packets. p50 and p99 come from the histogram of one run. Its buckets are 1.8 % wide, so a
//! difference below 2 % between two percentiles of single runs means nothing.

use load::{Account, Target};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::Path;

/// Account without a password and database that the load uses; both live in the lab alone.
pub(crate) const ACCOUNT: &str = "bench";
/// See [`ACCOUNT`].
pub(crate) const DATABASE: &str = "bench";

/// The same server, account and database for our own generator.
pub(crate) fn target(address: SocketAddr) -> Target {
    let account = Account { user: ACCOUNT.to_owned(), database: DATABASE.to_owned(), ..Account::default() };
    Target::single(fleet::Address::tcp(address.ip().to_string(), address.port()), account)
}

/// What sysbench found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Outcome {
    /// Queries answered.
    pub(crate) queries: u64,
    /// Time in which they were.
    pub(crate) seconds: f64,
    /// Queries a second.
    pub(crate) qps: f64,
    /// Half of the queries were answered in this time, in ms.
    pub(crate) p50_ms: f64,
    /// All but one in a hundred were.
    pub(crate) p99_ms: f64,
    /// All but one in a thousand were. It prints one percentile a run, a whole number; this comes from its
    /// histogram.
    pub(crate) p999_ms: f64,
    /// The slowest.
    pub(crate) max_ms: f64,
    /// Buckets: middle in ms, queries in it. Everything above can be computed again from them.
    pub(crate) histogram: Vec<(f64, u64)>,
}

/// Why there is no outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// It gave up; its own words.
    #[error("sysbench gave up: {0}")]
    Fatal(String),
    /// Its report lacks something.
    #[error("sysbench's report has no '{0}': is it sysbench 1.0 or 1.1?")]
    Missing(&'static str),
    /// Some queries failed; a figure that hides errors is worth nothing.
    #[error("{errors} errors and {reconnects} reconnects during the load; none are allowed")]
    Errors {
        /// Errors that it ignored.
        errors: u64,
        /// Connections that it opened anew.
        reconnects: u64,
    },
}

/// Said once all clients are connected: the load begins.
pub(crate) const STARTED: &str = "Threads started!";

/// A number of events may take this long.
const EVENTS_SECONDS: u32 = 60;

/// Arguments that create and fill the table.
pub(crate) fn prepare(server: SocketAddr, rows: u32) -> Vec<String> {
    with_command(server, rows, &[], "prepare")
}

/// Arguments of one load.
pub(crate) fn run(target: SocketAddr, rows: u32, clients: u32, seconds: u32) -> Vec<String> {
    let load = [
        format!("--threads={clients}"),
        format!("--time={seconds}"),
        "--events=0".to_owned(),
        "--rand-type=uniform".to_owned(),
        "--db-ps-mode=disable".to_owned(),
        "--mysql-ignore-errors=none".to_owned(),
        "--histogram=on".to_owned(),
        "--percentile=99".to_owned(),
    ];
    with_command(target, rows, &load, "run")
}

/// Arguments of this many events by one client, keys spread in one of its ways.
pub(crate) fn events(target: SocketAddr, rows: u32, script: &str, events: u32, keys: &str) -> Vec<String> {
    let mut arguments = run(target, rows, 1, EVENTS_SECONDS);
    script.clone_into(&mut arguments[0]);
    for argument in &mut arguments {
        if argument.starts_with("--events=") {
            *argument = format!("--events={events}");
        } else if argument.starts_with("--rand-type=") {
            *argument = format!("--rand-type={keys}");
        }
    }
    arguments
}

/// The same over a unix socket.
pub(crate) fn over_socket(arguments: &mut Vec<String>, socket: &Path) {
    arguments
        .retain(|argument| !argument.starts_with("--mysql-host=") && !argument.starts_with("--mysql-port="));
    arguments.insert(1, format!("--mysql-socket={}", socket.display()));
}

fn with_command(target: SocketAddr, rows: u32, more: &[String], command: &str) -> Vec<String> {
    let mut arguments = vec![
        "oltp_point_select".to_owned(),
        "--db-driver=mysql".to_owned(),
        format!("--mysql-host={}", target.ip()),
        format!("--mysql-port={}", target.port()),
        format!("--mysql-user={ACCOUNT}"),
        format!("--mysql-db={DATABASE}"),
        "--tables=1".to_owned(),
        format!("--table-size={rows}"),
    ];
    arguments.extend_from_slice(more);
    arguments.push(command.to_owned());
    arguments
}

/// Reads the report.
///
/// # Errors
/// What it complained of, what is missing, or the errors it counted.
pub(crate) fn parse(report: &str) -> Result<Outcome, Unreadable> {
    if let Some(fatal) = report.lines().find(|line| line.starts_with("FATAL")) {
        return Err(Unreadable::Fatal(fatal.trim_start_matches("FATAL:").trim().to_owned()));
    }
    let queries = count(report, "queries:")?;
    let errors = count(report, "ignored errors:")?;
    let reconnects = count(report, "reconnects:")?;
    if errors + reconnects > 0 {
        return Err(Unreadable::Errors { errors, reconnects });
    }
    let seconds: f64 = number(report, "total time:")?;
    let histogram = histogram(report);
    let percentile =
        |percent: f64| at_percent(&histogram, percent).ok_or(Unreadable::Missing("Latency histogram"));
    Ok(Outcome {
        queries,
        seconds,
        qps: queries as f64 / seconds,
        p50_ms: percentile(50.0)?,
        p99_ms: percentile(99.0)?,
        p999_ms: percentile(99.9)?,
        max_ms: number(report, "max:")?,
        histogram,
    })
}

/// `name   139704 (46500.18 per sec.)`: how many; the rate beside it is rounded and not needed.
fn count(report: &str, name: &'static str) -> Result<u64, Unreadable> {
    let first = after(report, name).and_then(|text| text.split_ascii_whitespace().next());
    first.and_then(|word| word.parse().ok()).ok_or(Unreadable::Missing(name))
}

fn number(report: &str, name: &'static str) -> Result<f64, Unreadable> {
    let text = after(report, name).ok_or(Unreadable::Missing(name))?;
    text.trim_end_matches('s').parse().map_err(|_| Unreadable::Missing(name))
}

fn after<'a>(report: &'a str, name: &str) -> Option<&'a str> {
    report.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim)
}

/// Lines `0.036 |****   7` after the headline, up to the first that is not one.
fn histogram(report: &str) -> Vec<(f64, u64)> {
    let bucket = |line: &str| {
        let (value, rest) = line.split_once('|')?;
        Some((value.trim().parse().ok()?, rest.trim_start_matches('*').trim().parse().ok()?))
    };
    report
        .lines()
        .skip_while(|line| !line.starts_with("Latency histogram"))
        .skip(2)
        .map_while(bucket)
        .collect()
}

/// As sysbench counts it: the bucket in which the n-th event lies, n = count * percent / 100, rounded.
fn at_percent(histogram: &[(f64, u64)], percent: f64) -> Option<f64> {
    let all: u64 = histogram.iter().map(|(_, count)| count).sum();
    let rank = (all as f64 * percent / 100.0).round() as u64;
    let mut below = 0;
    histogram.iter().find_map(|(value, count)| {
        below += count;
        (below >= rank).then_some(*value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = include_str!("golden/one-client.txt");
    const SIXTEEN: &str = include_str!("golden/sixteen-clients.txt");
    const KILLED: &str = include_str!("golden/server-killed.txt");

    #[test]
    fn a_real_report_of_sixteen_clients_is_read() {
        let outcome = parse(SIXTEEN).unwrap();
        assert_eq!(outcome.queries, 139_704);
        assert!((outcome.qps - 46_500.18).abs() < 10.0, "{}", outcome.qps);
        assert_eq!((outcome.p50_ms, outcome.max_ms), (0.307, 75.88));
        assert_eq!(outcome.histogram.iter().map(|(_, n)| n).sum::<u64>(), outcome.queries);
    }

    #[test]
    fn our_99th_percentile_is_the_one_that_sysbench_prints() {
        for report in [ONE, SIXTEEN] {
            let theirs = number(report, "99th percentile:").unwrap();
            let ours = parse(report).unwrap().p99_ms;
            assert!((ours - theirs).abs() < 0.006, "{ours} is not {theirs}");
        }
    }

    #[test]
    fn a_load_whose_server_died_has_no_figures_but_a_reason() {
        let error = parse(KILLED).unwrap_err();
        assert!(error.to_string().contains("Lost connection to server"), "{error}");
    }

    #[test]
    fn a_report_with_errors_in_it_is_refused() {
        let with_errors =
            ONE.replace("ignored errors:                      0", "ignored errors:                      3");
        assert_eq!(parse(&with_errors), Err(Unreadable::Errors { errors: 3, reconnects: 0 }));
    }

    #[test]
    fn a_report_that_stops_early_says_what_is_missing() {
        let cut = SIXTEEN.split("General statistics").next().unwrap();
        assert_eq!(parse(cut), Err(Unreadable::Missing("total time:")));
        assert_eq!(parse(""), Err(Unreadable::Missing("queries:")));
    }

    #[test]
    fn the_load_is_point_selects_in_the_text_protocol_and_stops_at_the_first_error() {
        let arguments = run("127.0.0.1:4000".parse().unwrap(), 100_000, 16, 8);
        for expected in ["--mysql-host=127.0.0.1", "--mysql-port=4000", "--threads=16", "--time=8"] {
            assert!(arguments.iter().any(|a| a == expected), "{expected}");
        }
        for expected in ["--db-ps-mode=disable", "--mysql-ignore-errors=none", "--histogram=on"] {
            assert!(arguments.iter().any(|a| a == expected), "{expected}");
        }
        assert_eq!(arguments.last().unwrap(), "run");
    }
}
