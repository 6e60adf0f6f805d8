//! What is shown of an application's requests: how many queries each sends, how long it takes as far as its
//! statements show, and which part of that is the database's.

use super::{By, Question, ROWS, ms};
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

/// Said where requests are shown and the question names a server or a digest.
const ALL_SERVERS: &str = "requests are told apart by endpoint only: these are of all servers and statements";

/// Those that a question is about, and how many of them are left out. Beside other rows nothing is left out:
/// the limit is for those.
pub(super) fn asked(mut requests: Vec<RequestView>, question: &Question) -> (Vec<RequestView>, usize) {
    if let Some(endpoint) = &question.endpoint {
        requests.retain(|request| request.endpoint == *endpoint);
    }
    if question.by != By::Request {
        return (requests, 0);
    }
    let limit = if question.limit == 0 { ROWS } else { question.limit };
    let more = requests.len().saturating_sub(limit);
    requests.truncate(limit);
    (requests, more)
}

/// What a person who asks for requests must know of them.
pub(super) fn notes(question: &Question) -> Vec<String> {
    let of_one = question.server.is_some() || question.digest.is_some();
    [SPANS].into_iter().chain(of_one.then_some(ALL_SERVERS)).map(str::to_owned).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_of_the_endpoint_and_as_many_as_were_asked_for() {
        let of = |endpoint: &str| RequestView { endpoint: endpoint.to_owned(), ..RequestView::default() };
        let shown = |question: &Question| {
            let (requests, more) = asked(["cart", "checkout", "search"].map(of).to_vec(), question);
            (requests.into_iter().map(|request| request.endpoint).collect::<Vec<_>>(), more)
        };
        let by = By::Request;
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let one = Question { by, endpoint: Some("checkout".to_owned()), ..Question::default() };
        assert_eq!(shown(&one), (names(&["checkout"]), 0));
        let few = Question { by, limit: 2, ..Question::default() };
        assert_eq!(shown(&few), (names(&["cart", "checkout"]), 1));
        let beside = Question { by: By::Endpoint, limit: 1, ..Question::default() };
        assert_eq!(shown(&beside).0.len(), 3, "the limit is for the endpoints");
    }

    #[test]
    fn requests_of_one_server_are_not_told_apart_and_that_is_said() {
        assert_eq!(notes(&Question::default()), [SPANS]);
        let server = Some("db2".to_owned());
        assert_eq!(notes(&Question { server, ..Question::default() }), [SPANS, ALL_SERVERS]);
    }
}
