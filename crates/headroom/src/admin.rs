//! The admin address: status page, JSON, OpenMetrics. It is read-only: what changes something goes over the control socket
//! ([`crate::control`]).
//!
//! It has no password, so it listens on loopback unless the operator wrote otherwise. A browser on the same machine can reach
//! loopback too; against pages that it shows from elsewhere stands a [`guard`]: a `Host` that no foreign name resolves to. Who asks
//! in a loop, opens many connections or sends slowly is bounded by [`crate::http`].

mod guard;

pub(crate) use guard::{answers_to, refuse_name};

use crate::http::{Bounded, Cache, Limits, cached};
use crate::insight_view::{self, Question};
use crate::view::StatusView;
use crate::{insight_metrics, metrics};
use ::insight::Since;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use config::AdminAccess;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Kinds of a page's parts.
pub(crate) const MARKUP: &str = "text/html; charset=utf-8";
pub(crate) const STYLE: &str = "text/css; charset=utf-8";
pub(crate) const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What the admin address shows: a running router, or a still life in tests.
pub(crate) trait Live: Send + Sync + 'static {
    /// How things stand now.
    fn status(&self) -> StatusView;
    /// What is wrong with our own threads and tasks, in words; nothing when all is well.
    fn troubles(&self) -> Vec<String>;
    /// Where to ask what statements tell; `None` when nothing runs.
    fn insight(&self) -> Option<router::Insight>;
    /// Which names it answers to, and how old an answer may be, as configured now.
    fn access(&self) -> Arc<AdminAccess>;
}

/// Serves until `stop` is cancelled.
pub(crate) async fn serve(listener: TcpListener, live: Arc<dyn Live>, stop: CancellationToken) {
    let listener = Bounded::new(listener, Limits::ADMIN);
    let served = axum::serve(listener, routes(live)).with_graceful_shutdown(stop.cancelled_owned()).await;
    if let Err(error) = served {
        tracing::error!(%error, "the admin address stopped answering; restart headroom route to have it back");
    }
}

/// Takes the admin address.
///
/// # Errors
/// A sentence that says what stands in the way.
pub(crate) async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
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
        .route("/insight.json", get(insight))
        .route("/metrics", get(openmetrics))
        .layer(middleware::from_fn_with_state(cache, cached));
    Router::new()
        .route("/", get(|| page(MARKUP, include_str!("page/status.html"))))
        .route("/page.css", get(|| page(STYLE, include_str!("page/status.css"))))
        .route("/page.js", get(|| page(SCRIPT, include_str!("page/status.js"))))
        .route("/element.js", get(|| page(SCRIPT, include_str!("page/element.js"))))
        .route("/healthz", get(health))
        .merge(answers)
        .fallback(|| async {
            (StatusCode::NOT_FOUND, "there are /, /status.json, /insight.json, /metrics and /healthz\n")
        })
        .layer(middleware::from_fn_with_state(live.clone(), guard::own_names))
        .with_state(live)
}

/// A part of a page that comes from the binary: nothing from elsewhere may be loaded, run or asked.
pub(crate) async fn page(kind: &'static str, text: &'static str) -> impl IntoResponse {
    let policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; \
                  base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text)
}

/// Whether this process serves: of servers it says nothing.
async fn health(State(live): State<Arc<dyn Live>>) -> Response {
    match live.troubles() {
        none if none.is_empty() => "ok\n".into_response(),
        troubles => (StatusCode::SERVICE_UNAVAILABLE, troubles.join("\n") + "\n").into_response(),
    }
}

async fn openmetrics(State(live): State<Arc<dyn Live>>) -> Response {
    let measured = match live.insight() {
        Some(insight) => insight.report(Since::Start).await.map(|report| insight_metrics::text(&report)),
        None => None,
    };
    match metrics::text(&live.status(), measured.as_deref().unwrap_or_default()) {
        Ok(text) => {
            ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
                .into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn insight(State(live): State<Arc<dyn Live>>, Query(question): Query<Question>) -> Response {
    let report = match live.insight() {
        Some(insight) => insight.report(question.since).await,
        None => None,
    };
    match report {
        Some(report) => Json(insight_view::view(&report, &question, &live.status())).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the router has stopped\n").into_response(),
    }
}

#[cfg(test)]
mod tests;
