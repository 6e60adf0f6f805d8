//! What an agent knows, for other programs, over HTTP. On loopback to everybody of this machine;
//! beyond it with a token and TLS, and never with less.

use crate::keys::Keys;
use crate::monitor::Monitor;
use crate::tls_acceptor::TlsListener;
use crate::{Views, guard, metrics, page};
use anyhow::{Context, bail};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use console::admin::{answers_to, refuse_name};
use console::exposition::{OPEN_METRICS, negotiated};
use console::http::{BoundedListener, Cache, Limits, cached};
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// An address that may be answered at, with what it takes to be let in.
///
/// # Errors
/// Others can reach the address and a token or TLS is missing, or it is taken.
pub async fn bind(listen: SocketAddr, keys: &Keys) -> anyhow::Result<TcpListener> {
    if let Err(why) = guard::may_listen(listen, keys.token().is_some(), keys.config().is_some()) {
        bail!("{why}");
    }
    TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen}: choose another with --listen"))
}

/// Serves what `monitor` publishes until `stop`.
///
/// # Errors
/// The address stopped answering.
pub async fn serve(
    listener: TcpListener,
    keys: &Keys,
    monitor: &Monitor,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let address = listener.local_addr()?;
    let (tls, token) = (keys.config().is_some(), keys.token().is_some());
    tracing::info!(%address, tls, token, "the agent answers: a page at /, /watch.json, /history.json, /metrics");
    let routes = guard::guarded(routes(monitor, address.ip().is_loopback()), keys.tokens());
    match keys.configs() {
        Some(configs) => {
            let door = TlsListener::open(listener, configs)?;
            axum::serve(door, routes).with_graceful_shutdown(stop).await?;
        }
        None => {
            let listener = BoundedListener::new(listener, Limits::AGENT);
            axum::serve(listener, routes).with_graceful_shutdown(stop).await?;
        }
    }
    Ok(())
}

fn routes(monitor: &Monitor, loopback: bool) -> Router {
    Router::new()
        .route("/metrics", get(openmetrics))
        .layer(middleware::from_fn_with_state(Cache::new(|| Cache::AGE), cached))
        .layer(middleware::from_fn(negotiated))
        .route("/healthz", get(|| async { "ok\n" }))
        .with_state(monitor.views())
        .merge(page::routes(monitor.views(), monitor.history()))
        .fallback(|| async {
            (
                StatusCode::NOT_FOUND,
                "there are /, /watch.json, /history.json, /compare.json, /metrics and /healthz\n",
            )
        })
        .layer(middleware::from_fn_with_state(loopback, this_machine))
}

/// On loopback a page from elsewhere must not read us by a name of its own; beyond it the token stands
/// against that.
pub(crate) async fn this_machine(State(loopback): State<bool>, request: Request, next: Next) -> Response {
    if loopback && !answers_to(request.headers(), &[]) {
        return refuse_name();
    }
    next.run(request).await
}

async fn openmetrics(State(views): State<Views>) -> Response {
    let view = views.borrow().clone();
    match metrics::text(&view) {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
