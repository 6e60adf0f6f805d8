//! The admin address: status page, JSON, OpenMetrics. It is read-only: what changes something goes over the
//! control socket ([`crate::control`]).
//!
//! It has no password, so it listens on loopback unless the operator wrote otherwise. A browser on the same
//! machine can reach loopback too; against pages that it shows from elsewhere stands a [`guard`]: a `Host`
//! that no foreign name resolves to. Who asks in a loop, opens many connections or sends slowly is bounded by
//! [`crate::http`].

mod guard;

pub use guard::{answers_to, refuse_name};

use crate::PendingReport;
use crate::exposition::{OPEN_METRICS, negotiated};
use crate::http::{BoundedListener, Cache, Limits, cached};
use crate::insight_view::{self, Question};
use crate::page::{self, STATUS};
use crate::status_view::StatusView;
use crate::{insight_metrics, status_metrics};
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use config::AdminAccess;
use insight::Since;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What the admin address shows: a running router, or a sample in tests.
pub trait Live: Send + Sync + 'static {
    /// How things stand now.
    fn status(&self) -> StatusView;
    /// Why we do not serve: what is wrong with our own threads and tasks, or that we stop; nothing when we
    /// do.
    fn troubles(&self) -> Vec<String>;
    /// What statements tell since then; `None` when nothing runs any more.
    fn report(&self, since: Since) -> PendingReport;
    /// Which names it answers to, and how old an answer may be, as configured now.
    fn access(&self) -> Arc<AdminAccess>;
}

/// Serves until `stop` is cancelled.
pub async fn serve(listener: TcpListener, live: Arc<dyn Live>, stop: CancellationToken) {
    let listener = BoundedListener::new(listener, Limits::ADMIN);
    let served = axum::serve(listener, routes(live)).with_graceful_shutdown(stop.cancelled_owned()).await;
    if let Err(error) = served {
        tracing::error!(%error, "the admin address stopped answering; restart headroom route to have it back");
    }
}

/// Takes the admin address.
///
/// # Errors
/// A sentence that says what stands in the way.
pub async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        let advice = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                "another program has it (another headroom route?); choose another with --admin or [admin] address, or --admin off"
            }
            _ => "choose another with --admin or [admin] address, or --admin off",
        };
        anyhow::anyhow!("cannot listen on the admin address {address} ({error}): {advice}")
    })
}

fn routes(live: Arc<dyn Live>) -> Router {
    let configured = live.clone();
    let cache = Cache::new(move || configured.access().cache);
    let answers = Router::new()
        .route("/status.json", get(|State(live): State<Arc<dyn Live>>| async move { Json(live.status()) }))
        .route("/insight.json", get(insight_json))
        .route("/metrics", get(openmetrics))
        .layer(middleware::from_fn_with_state(cache, cached))
        .layer(middleware::from_fn(negotiated));
    page::routes(STATUS)
        .route("/healthz", get(health))
        .merge(answers)
        .fallback(|| async {
            (StatusCode::NOT_FOUND, "there are /, /status.json, /insight.json, /metrics and /healthz\n")
        })
        .layer(middleware::from_fn_with_state(live.clone(), guard::own_names))
        .with_state(live)
}

/// Whether this process serves: of servers it says nothing.
async fn health(State(live): State<Arc<dyn Live>>) -> Response {
    match live.troubles() {
        none if none.is_empty() => "ok\n".into_response(),
        troubles => (StatusCode::SERVICE_UNAVAILABLE, troubles.join("\n") + "\n").into_response(),
    }
}

/// What statements tell is left out of `/metrics` when it takes longer: a thread of the router is stuck, and
/// the rest says so. Shorter than collectors wait.
const REPORT_DEADLINE: Duration = Duration::from_secs(7);

/// What `/metrics` says now, in OpenMetrics.
///
/// # Errors
/// Only if the text cannot be written, which memory alone decides.
pub async fn exposition(live: &dyn Live) -> Result<String, std::fmt::Error> {
    let report = tokio::time::timeout(REPORT_DEADLINE, live.report(Since::Start)).await.ok().flatten();
    let measured = report.map(|report| insight_metrics::text(&report));
    status_metrics::text(&live.status(), measured.as_deref().unwrap_or_default())
}

async fn openmetrics(State(live): State<Arc<dyn Live>>) -> Response {
    match exposition(&*live).await {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn insight_json(State(live): State<Arc<dyn Live>>, Query(question): Query<Question>) -> Response {
    match live.report(question.since).await {
        Some(report) => Json(insight_view::view(&report, &question, &live.status())).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the router has stopped\n").into_response(),
    }
}

#[cfg(test)]
mod tests;
