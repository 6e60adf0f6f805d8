//! The page of several agents: all hosts at a glance, and each of them as its own agent shows it, with the
//! agent's longer history.
//!
//! What is asked of a host is passed on to its agent with our token, so a browser needs none. So it answers
//! this machine only.

use super::{Agents, FollowedAgents};
use crate::page;
use crate::serve::this_machine;
use anyhow::{Context, bail};
use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use console::http::{BoundedListener, Limits};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// What an agent is asked for on behalf of a page.
const PASSED_ON: [&str; 3] = ["watch.json", "history.json", "compare.json"];

/// Takes the address of the page.
///
/// # Errors
/// It can be reached from other machines, or is taken.
pub async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    if !address.ip().is_loopback() {
        let port = address.port();
        bail!(
            "--listen {address}: whoever reaches this page reads all agents without their token, so it answers this \
             machine only: --listen 127.0.0.1:{port}, and from elsewhere ssh -L {port}:127.0.0.1:{port}"
        );
    }
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}: choose another with --listen"))
}

/// Serves it.
///
/// # Errors
/// The address stopped answering.
pub async fn serve(
    listener: TcpListener,
    agents: Arc<Agents>,
    followed: &FollowedAgents,
) -> anyhow::Result<()> {
    let one = Router::new().route("/hosts/{host}/{part}", get(pass_on)).with_state(agents);
    let routes = page::routes(followed.views.clone(), followed.kept.clone())
        .merge(one)
        .fallback(|| async {
            let known = "there are /, /watch.json, /history.json, /compare.json, and the same of a host at /hosts/0/\n";
            (StatusCode::NOT_FOUND, known)
        })
        .layer(middleware::from_fn_with_state(true, this_machine));
    Ok(axum::serve(BoundedListener::new(listener, Limits::AGENT), routes).await?)
}

async fn pass_on(
    State(agents): State<Arc<Agents>>,
    Path((host, part)): Path<(usize, String)>,
    RawQuery(question): RawQuery,
) -> Response {
    if !PASSED_ON.contains(&part.as_str()) {
        return (StatusCode::NOT_FOUND, format!("of a host there are {}\n", PASSED_ON.join(", ")))
            .into_response();
    }
    let target = question.map_or(format!("/{part}"), |question| format!("/{part}?{question}"));
    match agents.read(host, &target).await {
        Some(Ok(body)) => {
            let kind =
                [(header::CONTENT_TYPE, "application/json"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
            (kind, body).into_response()
        }
        Some(Err(error)) => (StatusCode::BAD_GATEWAY, format!("{error}\n")).into_response(),
        None => (StatusCode::NOT_FOUND, "there is no such host\n").into_response(),
    }
}
