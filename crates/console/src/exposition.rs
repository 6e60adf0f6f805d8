//! `/metrics` in the format that its reader names: OpenMetrics where `Accept` has it, as Prometheus's does,
//! else Prometheus's older text format, as its own libraries answer.
//!
//! The two differ in what they call a counter: OpenMetrics names the family (`headroom_picks`) and its
//! sample (`headroom_picks_total`), the older format knows the sample alone. Whoever reads the one as the
//! other finds counters without type and without help.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::fmt::Write;

/// OpenMetrics 1.0.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
const LONGEST: usize = 64 << 20;

/// Turns an answer in OpenMetrics into the older format unless the request names OpenMetrics. Stands outside
/// of a cache, which holds one answer for all readers.
pub async fn negotiated(request: Request, next: Next) -> Response {
    let open = names_open_metrics(request.headers());
    let response = next.run(request).await;
    let is_open = |headers: &HeaderMap| {
        headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/openmetrics-text"))
    };
    if open || !is_open(response.headers()) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let Ok(body) = to_bytes(body, LONGEST).await else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be made whole\n").into_response();
    };
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CLASSIC));
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, Body::from(classic(&String::from_utf8_lossy(&body))))
}

fn names_open_metrics(headers: &HeaderMap) -> bool {
    let all = headers.get_all(header::ACCEPT);
    all.iter()
        .any(|accept| accept.to_str().is_ok_and(|accept| accept.contains("application/openmetrics-text")))
}

/// An exposition in OpenMetrics, in the older text format.
pub fn classic(open: &str) -> String {
    let mut text = String::with_capacity(open.len() + open.len() / 16);
    let mut lines = open.lines().peekable();
    while let Some(line) = lines.next() {
        let help = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '));
        let kind = |line: &str| {
            line.strip_prefix("# TYPE ")?.split_once(' ').map(|(n, k)| (n.to_owned(), k.to_owned()))
        };
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        } else if let Some((name, words)) = help {
            let counts = lines
                .peek()
                .and_then(|next| kind(next))
                .is_some_and(|(of, kind)| of == name && kind == "counter");
            let _ = writeln!(text, "# HELP {name}{} {words}", if counts { "_total" } else { "" });
        } else if let Some((name, kind)) = kind(line) {
            let suffix = if kind == "counter" { "_total" } else { "" };
            let kind = if kind == "unknown" { "untyped" } else { &kind };
            let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
        } else {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_called_as_its_sample_and_the_rest_stays() {
        let open = "# HELP a_b Words of it.\n# TYPE a_b counter\na_b_total{x=\"# EOF\"} 1\n\
                    # HELP c Of c.\n# TYPE c gauge\n# UNIT c seconds\nc 2\n# EOF\n";
        let older = "# HELP a_b_total Words of it.\n# TYPE a_b_total counter\na_b_total{x=\"# EOF\"} 1\n\
                     # HELP c Of c.\n# TYPE c gauge\nc 2\n";
        assert_eq!(classic(open), older);
    }

    #[test]
    fn open_metrics_is_for_readers_who_name_it() {
        let accepts = |accept: &'static str| {
            names_open_metrics(&[(header::ACCEPT, HeaderValue::from_static(accept))].into_iter().collect())
        };
        assert!(accepts("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"));
        assert!(!accepts("*/*") && !accepts("text/plain") && !names_open_metrics(&HeaderMap::new()));
    }
}
