//! What is shown of an application's requests: how many queries each sends, how long it takes as far as its
//! statements show, and which part of that is the database's.

use super::{By, Question, ROWS, Sort, ms};
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

/// Said where they are sorted by errors, rows or bytes.
const NOT_COUNTED: &str =
    "errors, rows and bytes are not counted by request: those that send most queries each stand first";

/// Those that a question is about, in its order, and how many of them are left out. Beside other rows nothing
/// is left out: order and limit are for those.
pub(super) fn asked(mut requests: Vec<RequestView>, question: &Question) -> (Vec<RequestView>, usize) {
    if let Some(endpoint) = &question.endpoint {
        requests.retain(|request| request.endpoint == *endpoint);
    }
    if question.by != By::Request {
        return (requests, 0);
    }
    requests.sort_by(|a, b| {
        let (a_is, b_is) = (place(question.order(), a), place(question.order(), b));
        b_is.total_cmp(&a_is).then_with(|| a.endpoint.cmp(&b.endpoint))
    });
    let limit = if question.limit == 0 { ROWS } else { question.limit };
    let more = requests.len().saturating_sub(limit);
    requests.truncate(limit);
    (requests, more)
}

/// What requests are sorted by: a time of each is that of its span, the time of all that of their statements.
fn place(sort: Sort, request: &RequestView) -> f64 {
    match sort {
        Sort::Time => request.time_mean_ms * request.requests as f64,
        Sort::Count => request.requests as f64,
        Sort::Mean => request.span_mean_ms,
        Sort::P99 => request.span_p99_ms,
        Sort::Queries | Sort::Errors | Sort::Rows | Sort::Bytes => request.queries_mean,
    }
}

/// What a person who asks for requests must know of them.
pub(super) fn notes(question: &Question) -> Vec<String> {
    let of_one = question.server.is_some() || question.digest.is_some();
    let not_counted = matches!(question.order(), Sort::Errors | Sort::Rows | Sort::Bytes);
    let more = [of_one.then_some(ALL_SERVERS), not_counted.then_some(NOT_COUNTED)];
    [SPANS].into_iter().chain(more.into_iter().flatten()).map(str::to_owned).collect()
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
    fn requests_stand_in_the_order_that_was_asked_for() {
        let of = |endpoint: &str, requests, queries_mean, span_p99_ms, time_mean_ms| {
            let endpoint = endpoint.to_owned();
            let span_mean_ms = 5.0;
            let times = RequestView { span_mean_ms, span_p99_ms, time_mean_ms, ..RequestView::default() };
            RequestView { endpoint, requests, queries_mean, ..times }
        };
        let all = [
            of("cart", 900, 2.0, 20.0, 1.0),
            of("report", 3, 90.0, 80.0, 40.0),
            of("search", 40, 1.0, 400.0, 30.0),
        ];
        let first = |sort| {
            let question = Question { by: By::Request, sort: Some(sort), ..Question::default() };
            asked(all.to_vec(), &question).0[0].endpoint.clone()
        };
        let firsts = [Sort::Time, Sort::Count, Sort::Mean, Sort::P99, Sort::Queries, Sort::Rows].map(first);
        assert_eq!(firsts, ["search", "cart", "cart", "search", "report", "report"]);
        assert_eq!(Sort::usual(By::Request), Sort::Queries, "the N+1 finder");
        let by_rows = Question { by: By::Request, sort: Some(Sort::Rows), ..Question::default() };
        assert_eq!(notes(&by_rows), [SPANS, NOT_COUNTED]);
    }

    #[test]
    fn requests_of_one_server_are_not_told_apart_and_that_is_said() {
        assert_eq!(notes(&Question::default()), [SPANS]);
        let server = Some("db2".to_owned());
        assert_eq!(notes(&Question { server, ..Question::default() }), [SPANS, ALL_SERVERS]);
    }
}
