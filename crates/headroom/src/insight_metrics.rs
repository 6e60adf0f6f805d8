//! Insight in OpenMetrics: a classic histogram by endpoint and one by server, and counters by endpoint.
//!
//! Bounded: an endpoint is a label only as long as `[router.insight] endpoints` has room, all others are `(other)`; so there
//! are at most (endpoints + 1) times eighteen series, and as many for servers. Digests have no series: there may be a
//! thousand, and `/insight.json` has them. The bounds of the buckets are powers of two nanoseconds, because those are
//! counted exactly.

use insight::{Dimension, Figures, Filter, Report, Row};
use std::fmt::Write;

/// Bounds as powers of two nanoseconds: 65 us to 17 s, each four times the one before but for those where most fall.
const BOUNDS: [u32; 14] = [16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 28, 30, 32, 34];

/// The part of `/metrics` that insight has.
pub(crate) fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut endpoints = report.rows(Dimension::Endpoint, &Filter::default());
    let mut servers = report.rows(Dimension::Server, &Filter::default());
    endpoints.sort_by(|a, b| a.name.cmp(&b.name));
    servers.sort_by(|a, b| a.name.cmp(&b.name));
    let help =
        "Time from the first byte of a command to the last byte of its answer, by the endpoint that sent it";
    histogram(&mut text, "headroom_endpoint_duration_seconds", help, "endpoint", &endpoints);
    let help =
        "Time from the first byte of a command to the last byte of its answer, by the server that answered";
    histogram(&mut text, "headroom_answer_duration_seconds", help, "server", &servers);
    counter(&mut text, "headroom_endpoint_errors", "Commands answered with an error", &endpoints, |f| {
        f.errors
    });
    counter(&mut text, "headroom_endpoint_rows", "Rows sent to clients", &endpoints, |f| f.rows);
    unseen(&mut text, report);
    text
}

fn histogram(text: &mut String, name: &str, help: &str, label: &str, rows: &[Row]) {
    head(text, name, "histogram", help);
    for row in rows {
        let value = escaped(&row.name);
        let mut line = |suffix: &str, le: &str, count: f64| {
            let _ = writeln!(text, "{name}_{suffix}{{{label}=\"{value}\"{le}}} {count}");
        };
        for bound in BOUNDS {
            let le = format!(",le=\"{}\"", (1u64 << bound) as f64 / 1e9);
            line("bucket", &le, row.figures.latency.at_most_power(bound) as f64);
        }
        line("bucket", ",le=\"+Inf\"", row.figures.count as f64);
        line("sum", "", row.figures.time_ns as f64 / 1e9);
        line("count", "", row.figures.count as f64);
    }
}

fn counter(text: &mut String, name: &str, help: &str, rows: &[Row], value: fn(&Figures) -> u64) {
    head(text, name, "counter", help);
    for row in rows {
        let _ = writeln!(text, "{name}_total{{endpoint=\"{}\"}} {}", escaped(&row.name), value(&row.figures));
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
