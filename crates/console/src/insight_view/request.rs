//! What is shown of an application's requests: how many queries each sends, how long it takes as far as its
//! statements show, and which part of that is the database's.

use super::ms;
use insight::{Report, RequestFigures};
use serde::{Deserialize, Serialize};

/// What a span is, and what of a request nobody here can see.
pub const SPANS: &str = "a span runs from a request's first statement to the end of its last: what the request does before \
     and after is not seen; thinking is the share of it without a statement under way, at least";

/// Finished requests of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestView {
    pub endpoint: String,
    pub requests: u64,
    pub queries: u64,
    pub queries_mean: f64,
    pub queries_p50: u64,
    pub queries_p99: u64,
    /// Most of one request since the start.
    pub queries_most: u64,
    /// Time of its queries together; those that ran side by side count each.
    pub time_mean_ms: f64,
    pub time_p50_ms: f64,
    pub time_p99_ms: f64,
    /// From the start of its first statement to the end of its last; what comes before and after is not seen.
    pub span_mean_ms: f64,
    pub span_p50_ms: f64,
    pub span_p99_ms: f64,
    /// Share of the spans that passed without a statement under way, 0 to 1, at least.
    pub thinking: f64,
}

impl RequestView {
    /// Mean time of a span with a statement under way, at most, ms.
    pub fn database_ms(&self) -> f64 {
        self.span_mean_ms * (1.0 - self.thinking)
    }
}

/// By endpoint, those of the most queries each first.
pub(super) fn all(report: &Report) -> Vec<RequestView> {
    let mut requests: Vec<RequestView> = report.requests().into_iter().map(request).collect();
    requests
        .sort_by(|a, b| b.queries_mean.total_cmp(&a.queries_mean).then_with(|| a.endpoint.cmp(&b.endpoint)));
    requests
}

fn request((endpoint, f): (String, RequestFigures)) -> RequestView {
    let count = f.count.max(1) as f64;
    RequestView {
        endpoint,
        requests: f.count,
        queries: f.commands,
        queries_mean: f.commands as f64 / count,
        queries_p50: f.commands_quantile(0.5).unwrap_or(0),
        queries_p99: f.commands_quantile(0.99).unwrap_or(0),
        queries_most: f.most_commands,
        time_mean_ms: ms(f.time_ns) / count,
        time_p50_ms: f.time_quantile_ns(0.5).map_or(0.0, ms),
        time_p99_ms: f.time_quantile_ns(0.99).map_or(0.0, ms),
        span_mean_ms: ms(f.span_ns) / count,
        span_p50_ms: f.span_quantile_ns(0.5).map_or(0.0, ms),
        span_p99_ms: f.span_quantile_ns(0.99).map_or(0.0, ms),
        thinking: f.thinking_ns as f64 / f.span_ns.max(1) as f64,
    }
}
