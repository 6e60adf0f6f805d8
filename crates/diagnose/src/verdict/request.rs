//! What an application's requests spend where, by a router that sees their statements, and which endpoint's
//! have become slower than usual. A router sees a request's *span*: from the start of its first statement to
//! the end of its last.

use super::usual::RecentWindows;
use std::collections::BTreeMap;
use term::printable;

/// Windows kept of an endpoint: a quarter of an hour, where the router is asked every three seconds.
const MOST: usize = 300;
/// Endpoints remembered at most: memory is bounded.
const ENDPOINTS: usize = 64;
/// Fewer requests in a window are too few to judge by.
const LEAST: u64 = 10;

/// The requests of an endpoint that ended in one window.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointRequests {
    pub endpoint: String,
    pub count: u64,
    pub spent: RequestTimes,
}

/// What requests spend where.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestTimes {
    /// Span of the median request, milliseconds.
    pub span_p50_ms: f64,
    /// Mean span, milliseconds.
    pub span_ms: f64,
    /// Of the mean, what passed with a statement under way, at most, milliseconds.
    pub database_ms: f64,
    /// Statements of a request, mean.
    pub statements: f64,
}

/// Requests beside what is usual for their endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestComparison {
    pub now: EndpointRequests,
    /// Usually: the median of each figure.
    pub usual: RequestTimes,
}

/// What is usual for each endpoint.
#[derive(Clone, Debug, Default)]
pub struct RequestBaseline {
    endpoints: BTreeMap<String, EndpointHistory>,
    windows: u64,
}

#[derive(Clone, Debug)]
struct EndpointHistory {
    past: RecentWindows<RequestTimes>,
    /// The window it was last in.
    heard: u64,
}

impl RequestBaseline {
    /// One more window. Of the endpoints for which something is usual, the one whose requests together take
    /// most time beyond that; `None` when there is none.
    pub fn next(&mut self, window: &[EndpointRequests]) -> Option<RequestComparison> {
        self.windows += 1;
        let enough = window.iter().filter(|requests| requests.count >= LEAST);
        let compared: Vec<RequestComparison> = enough.filter_map(|requests| self.compare(requests)).collect();
        let beyond = |c: &RequestComparison| c.now.count as f64 * (c.now.spent.span_ms - c.usual.span_ms);
        compared.into_iter().max_by(|a, b| beyond(a).total_cmp(&beyond(b)))
    }

    fn compare(&mut self, requests: &EndpointRequests) -> Option<RequestComparison> {
        if !self.endpoints.contains_key(&requests.endpoint) && self.endpoints.len() >= ENDPOINTS {
            let oldest = self.endpoints.iter().min_by_key(|(_, known)| known.heard);
            let oldest = oldest.map(|(endpoint, _)| endpoint.clone())?;
            self.endpoints.remove(&oldest);
        }
        let known = self
            .endpoints
            .entry(requests.endpoint.clone())
            .or_insert_with(|| EndpointHistory { past: RecentWindows::new(MOST), heard: 0 });
        known.heard = self.windows;
        let usual = known.past.is_known().then(|| RequestTimes {
            span_p50_ms: known.past.median(|spent| spent.span_p50_ms),
            span_ms: known.past.median(|spent| spent.span_ms),
            database_ms: known.past.median(|spent| spent.database_ms),
            statements: known.past.median(|spent| spent.statements),
        });
        known.past.push(requests.spent);
        Some(RequestComparison { now: requests.clone(), usual: usual? })
    }
}

impl RequestComparison {
    /// How many times as long as usual the median request takes.
    pub fn times(&self) -> f64 {
        self.now.spent.span_p50_ms / self.usual.span_p50_ms.max(1e-3)
    }

    /// Of what requests take more than usual, the share that they think between statements, 0 to 1; 0 where
    /// they take no more.
    pub fn thinking(&self) -> f64 {
        let more = self.now.spent.span_ms - self.usual.span_ms;
        let of_that_database = self.now.spent.database_ms - self.usual.database_ms;
        if more > 0.0 { (1.0 - of_that_database / more).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// `of 120 ms a request of checkout, 9.0 ms are the database's`.
    pub fn text(&self) -> String {
        let ms = |ms: f64| if ms < 9.95 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") };
        let RequestTimes { span_ms, database_ms, .. } = self.now.spent;
        let endpoint = printable(&self.now.endpoint);
        format!("of {} a request of {endpoint}, {} are the database's", ms(span_ms), ms(database_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(endpoint: &str, span_ms: f64, database_ms: f64) -> EndpointRequests {
        let spent = RequestTimes { span_p50_ms: span_ms, span_ms, database_ms, statements: 3.0 };
        EndpointRequests { endpoint: endpoint.to_owned(), count: 50, spent }
    }

    #[test]
    fn the_endpoint_that_takes_most_beyond_the_usual_is_told_and_what_it_takes_more() {
        let mut usual = RequestBaseline::default();
        let calm = [requests("cart", 20.0, 9.0), requests("search", 500.0, 400.0)];
        (0..10).for_each(|_| assert_eq!(usual.next(&calm), None, "nothing is usual yet"));
        let told = usual.next(&[requests("cart", 120.0, 9.0), requests("search", 510.0, 400.0)]).unwrap();
        assert_eq!((told.now.endpoint.as_str(), told.times(), told.thinking()), ("cart", 6.0, 1.0));
        assert_eq!(told.text(), "of 120 ms a request of cart, 9.0 ms are the database's");
        // The database's time has grown along: that is not thinking.
        let told = usual.next(&[requests("search", 1000.0, 900.0)]).unwrap();
        assert_eq!((told.times(), told.thinking()), (2.0, 0.0));
        let few = EndpointRequests { count: LEAST - 1, ..requests("cart", 900.0, 9.0) };
        assert_eq!(usual.next(&[few]), None);
    }

    #[test]
    fn an_endpoint_that_a_client_named_commands_no_terminal() {
        let now = requests("che\nckout\u{1b}[2J", 120.0, 9.0);
        let told = RequestComparison { usual: now.spent, now }.text();
        assert_eq!(told, "of 120 ms a request of che ckout [2J, 9.0 ms are the database's");
    }

    #[test]
    fn a_flood_of_endpoints_forgets_those_not_heard_of_for_longest() {
        let mut usual = RequestBaseline::default();
        for n in 0..500 {
            usual.next(&[requests("kept", 20.0, 9.0), requests(&format!("e{n}"), 20.0, 9.0)]);
        }
        assert_eq!(usual.endpoints.len(), ENDPOINTS);
        assert!(usual.endpoints["kept"].past.is_known());
    }
}
