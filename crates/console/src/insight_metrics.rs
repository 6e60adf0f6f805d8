//! Insight in OpenMetrics: classic histograms by endpoint (of statements, and of spans of requests) and one
//! by server, and counters by endpoint. Sessions that were measured as one in this many count as many;
//! `/insight.json` has the error of that.
//!
//! A name that gives up its place takes its series along: `(other)` counts what came while it was other, and
//! never jumps.
//!
//! Bounded: an endpoint is a label only as long as `[router.insight] endpoints` has room, all others are
//! `(other)`; so there are at most (endpoints + 1) times forty series, and eighteen for each server. Digests
//! have no series: there may be a thousand, and `/insight.json` has them. The bounds of the buckets are
//! powers of two nanoseconds, because those are counted exactly.

use insight::{Dimension, Figures, Histogram, Report, RequestFigures, Row};
use std::fmt::Write;

/// Bounds as powers of two nanoseconds: 65 us to 17 s, each four times the one before but for those where
/// most fall.
const BOUNDS: [u32; 14] = [16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 28, 30, 32, 34];

/// The times that one label has.
struct Series<'r> {
    label: &'r str,
    times: &'r Histogram,
    count: u64,
    sum_ns: u64,
}

impl<'r> From<&'r Row> for Series<'r> {
    fn from(row: &'r Row) -> Self {
        let figures = &row.figures;
        Self { label: &row.name, times: &figures.latency, count: figures.count, sum_ns: figures.time_ns }
    }
}

impl<'r> From<&'r (String, RequestFigures)> for Series<'r> {
    fn from((endpoint, figures): &'r (String, RequestFigures)) -> Self {
        Self { label: endpoint, times: figures.spans(), count: figures.count, sum_ns: figures.span_ns }
    }
}

/// The part of `/metrics` that insight has.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut endpoints = report.counters(Dimension::Endpoint);
    let mut servers = report.counters(Dimension::Server);
    endpoints.sort_by(|a, b| a.name.cmp(&b.name));
    servers.sort_by(|a, b| a.name.cmp(&b.name));
    let help =
        "Time from the first byte of a command to the last byte of its answer, by the endpoint that sent it";
    histogram(&mut text, "headroom_endpoint_duration_seconds", help, "endpoint", &endpoints);
    let help =
        "Time from the first byte of a command to the last byte of its answer, by the server that answered";
    histogram(&mut text, "headroom_answer_duration_seconds", help, "server", &servers);
    let statements = |of: fn(&Figures) -> u64| {
        endpoints.iter().map(move |row| (row.name.as_str(), of(&row.figures) as f64)).collect::<Vec<_>>()
    };
    counter(
        &mut text,
        "headroom_endpoint_errors",
        "Commands answered with an error",
        &statements(|f| f.errors),
    );
    counter(&mut text, "headroom_endpoint_rows", "Rows sent to clients", &statements(|f| f.rows));
    requests(&mut text, report);
    unseen(&mut text, report);
    text
}

/// Requests that are over, where a tag tells them apart.
fn requests(text: &mut String, report: &Report) {
    let mut requests = report.request_counters();
    requests.sort_by(|a, b| a.0.cmp(&b.0));
    let help = "Time from the first byte of a request's first command to the last byte of its last answer; what the request \
                does before and after is not seen";
    histogram(text, "headroom_request_span_seconds", help, "endpoint", &requests);
    let each = |of: fn(&RequestFigures) -> f64| {
        requests.iter().map(move |(endpoint, figures)| (endpoint.as_str(), of(figures))).collect::<Vec<_>>()
    };
    let name = "headroom_request_commands";
    counter(text, name, "Commands of requests that are over", &each(|f| f.commands as f64));
    let help = "Time of their commands together; those that ran side by side count each";
    counter(text, "headroom_request_database_seconds", help, &each(|f| f.time_ns as f64 / 1e9));
    let help = "Time of their spans without a command under way, at least";
    counter(text, "headroom_request_thinking_seconds", help, &each(|f| f.thinking_ns as f64 / 1e9));
}

fn histogram<'r, T>(text: &mut String, name: &str, help: &str, label: &str, of: &'r [T])
where
    Series<'r>: From<&'r T>,
{
    head(text, name, "histogram", help);
    for series in of.iter().map(Series::from) {
        let value = escaped(series.label);
        let mut line = |suffix: &str, le: &str, count: f64| {
            let _ = writeln!(text, "{name}_{suffix}{{{label}=\"{value}\"{le}}} {count}");
        };
        for bound in BOUNDS {
            let le = format!(",le=\"{}\"", (1u64 << bound) as f64 / 1e9);
            line("bucket", &le, series.times.at_most_power(bound) as f64);
        }
        line("bucket", ",le=\"+Inf\"", series.count as f64);
        line("sum", "", series.sum_ns as f64 / 1e9);
        line("count", "", series.count as f64);
    }
}

fn counter(text: &mut String, name: &str, help: &str, values: &[(&str, f64)]) {
    head(text, name, "counter", help);
    for (endpoint, value) in values {
        let _ = writeln!(text, "{name}_total{{endpoint=\"{}\"}} {value}", escaped(endpoint));
    }
}

/// What is not told apart, so that nobody takes silence for health.
fn unseen(text: &mut String, report: &Report) {
    let counts = report.counts();
    let name = "headroom_insight_unread_sessions";
    head(text, name, "counter", "Sessions that could not be read, by reason");
    let reasons = [
        ("tls", counts.opaque_tls),
        ("compression", counts.opaque_compression),
        ("old protocol", counts.opaque_old),
        ("began earlier", counts.opaque_earlier),
        ("lost", counts.lost),
    ];
    for (reason, count) in reasons {
        let _ = writeln!(text, "{name}_total{{reason=\"{reason}\"}} {count}");
    }
    let name = "headroom_insight_names";
    head(text, name, "gauge", "Names told apart, by kind; beyond the limit they count as (other)");
    for (kind, of) in [("digest", Dimension::Digest), ("endpoint", Dimension::Endpoint)] {
        let _ = writeln!(text, "{name}{{kind=\"{kind}\"}} {}", report.room(of).used);
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
