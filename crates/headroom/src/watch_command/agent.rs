//! `headroom agent`: what `headroom watch` shows, for other programs, over HTTP on loopback.

use super::{fleet_of, metrics};
use crate::admin::no_foreign_name;
use crate::cli::AgentArgs;
use crate::environment::Environment;
use crate::probe_command::known_ceilings;
use crate::{exit, interrupted, log};
use anyhow::{Context, bail};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

type Views = watch::Receiver<Arc<super::WatchView>>;

/// Runs `headroom agent`.
pub(crate) async fn run(args: AgentArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    log::start(args.log_format, environment.log.as_deref())?;
    if !args.listen.ip().is_loopback() {
        bail!(
            "the agent listens on loopback only, because it has no password: --listen 127.0.0.1:{}; \
             for scrapes from elsewhere put a proxy with TLS in front of it",
            args.listen.port()
        );
    }
    let fleet = fleet_of(&args.source, environment)?;
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}: choose another with --listen", args.listen))?;
    let station =
        super::Station::start(fleet, super::Watching::against(known_ceilings(environment), args.window));
    tracing::info!(address = %listener.local_addr()?, "the agent answers: /watch.json, /metrics");
    let served = axum::serve(listener, routes(station.views()))
        .with_graceful_shutdown(interrupted::interrupted())
        .await;
    station.stop().await;
    served?;
    Ok(exit::DONE)
}

fn routes(views: Views) -> Router {
    Router::new()
        .route("/watch.json", get(|State(views): State<Views>| async move { Json(views.borrow().clone()) }))
        .route("/metrics", get(openmetrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there are /watch.json, /metrics and /healthz\n") })
        .layer(middleware::from_fn_with_state(false, no_foreign_name))
        .with_state(views)
}

async fn openmetrics(State(views): State<Views>) -> Response {
    let view = views.borrow().clone();
    match metrics::text(&view) {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
