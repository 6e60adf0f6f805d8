//! What a long-running command other than the router and the agent says of itself over HTTP, on loopback:
//! `/healthz`, `/metrics` and `/status.json`. Who runs fills the texts in.

use crate::admin::{answers_to, refuse_name};
use crate::exposition::{OPEN_METRICS, negotiated};
use crate::http::{BoundedListener, Limits};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A service as it last said.
#[derive(Clone, Debug)]
pub struct ServiceStatus {
    /// Of the last look: one that is older than `fresh` is stuck.
    pub at: Instant,
    pub fresh: Duration,
    pub json: String,
    /// OpenMetrics.
    pub metrics: String,
}

impl ServiceStatus {
    fn health(&self, now: Instant) -> (StatusCode, String) {
        let age = now.saturating_duration_since(self.at);
        if age <= self.fresh {
            return (StatusCode::OK, "ok\n".to_owned());
        }
        (StatusCode::SERVICE_UNAVAILABLE, format!("the last look was {} s ago\n", age.as_secs()))
    }
}

type Latest = watch::Receiver<ServiceStatus>;

/// Answers until it is dropped.
///
/// # Errors
/// The address stopped answering.
pub async fn serve(listener: TcpListener, latest: Latest) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/healthz", get(async |State(latest): State<Latest>| latest.borrow().health(Instant::now())))
        .route("/metrics", get(metrics))
        .route("/status.json", get(json))
        .with_state(latest)
        .fallback(|| async { (StatusCode::NOT_FOUND, "there are /healthz, /metrics and /status.json\n") })
        .layer(middleware::from_fn(negotiated))
        .layer(middleware::from_fn(this_machine));
    axum::serve(BoundedListener::new(listener, Limits::ADMIN), routes).await
}

/// A page from elsewhere must not read us by a name of its own.
async fn this_machine(request: Request, next: Next) -> Response {
    if !answers_to(request.headers(), &[]) {
        return refuse_name();
    }
    next.run(request).await
}

async fn metrics(State(latest): State<Latest>) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], latest.borrow().metrics.clone()).into_response()
}

async fn json(State(latest): State<Latest>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], latest.borrow().json.clone()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_has_not_looked_for_long_is_not_healthy() {
        let at = Instant::now();
        let fresh = Duration::from_secs(30);
        let status = ServiceStatus { at, fresh, json: String::new(), metrics: String::new() };
        assert_eq!(status.health(at + fresh).0, StatusCode::OK);
        assert_eq!(status.health(at + fresh * 2).0, StatusCode::SERVICE_UNAVAILABLE);
    }
}
