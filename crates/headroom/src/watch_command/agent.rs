//! `headroom agent`: what `headroom watch` shows, for other programs, over HTTP. On loopback to everybody of this machine;
//! beyond it with a token and TLS, and never with less.

mod door;
mod guard;
mod keys;

use super::AgentArgs;
use super::station::Asked;
use super::{Sight, metrics, page, sight_of};
use crate::admin::{answers_to, refuse_name};
use crate::commands::probe::known_ceilings;
use crate::environment::Environment;
use crate::http::{Bounded, Cache, Limits, cached};
use crate::objectives::{Hook, Objectives};
use crate::{core_dump, log};
use anyhow::{Context, bail};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use door::Sealed;
use keys::Keys;
use std::process::ExitCode;
use term::{exit, interrupted};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// Runs `headroom agent`.
pub(crate) async fn run(args: AgentArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let _log = log::start(args.log_format, environment.log.as_deref())?;
    core_dump::forbid(environment);
    let keys = Keys::read(&args, environment)?;
    if let Err(why) = guard::may_listen(args.listen, keys.token().is_some(), keys.config().is_some()) {
        bail!("{why}");
    }
    let Sight { fleet, router, objectives, webhook } = sight_of(&args.sight, environment)?;
    let hook = webhook.as_ref().map(Hook::start).transpose()?;
    let objectives = Objectives::new(&objectives, hook);
    let has_fleet = fleet.is_some();
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}: choose another with --listen", args.listen))?;
    let address = listener.local_addr()?;
    let watching = super::Watching::against(known_ceilings(environment), args.sight.window)
        .asking(router)
        .promising(objectives.clone());
    let station = super::Station::start(fleet, watching);
    let hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(again(hang_up, args, environment.clone(), station.changes(), objectives, has_fleet));
    let (tls, token) = (keys.config().is_some(), keys.token().is_some());
    tracing::info!(%address, tls, token, "the agent answers: a page at /, /watch.json, /history.json, /metrics");
    let routes = guard::guarded(routes(&station, address.ip().is_loopback()), keys.tokens());
    let stop = interrupted();
    let served = match keys.configs() {
        Some(configs) => {
            let door = Sealed::open(listener, configs)?;
            axum::serve(door, routes).with_graceful_shutdown(stop).await
        }
        None => {
            let listener = Bounded::new(listener, Limits::AGENT);
            axum::serve(listener, routes).with_graceful_shutdown(stop).await
        }
    };
    station.stop().await;
    served?;
    Ok(exit::DONE)
}

/// Reads the configuration again on HUP and takes it over, or says why not and changes nothing.
async fn again(
    mut hang_up: Signal,
    args: AgentArgs,
    environment: Environment,
    changes: mpsc::Sender<Asked>,
    objectives: Objectives,
    mut has_fleet: bool,
) {
    while hang_up.recv().await.is_some() {
        let read = sight_of(&args.sight, &environment).and_then(|sight| {
            if has_fleet && sight.fleet.is_none() {
                bail!("nothing says where the servers are any more");
            }
            let hook = sight.webhook.as_ref().map(Hook::start).transpose()?;
            Ok((sight, hook))
        });
        match read {
            Ok((Sight { fleet, router, objectives: promised, .. }, hook)) => {
                has_fleet = fleet.is_some();
                objectives.change(&promised, hook);
                if changes.send(Asked { fleet, router }).await.is_err() {
                    return;
                }
                tracing::info!("configuration read again");
            }
            Err(error) => tracing::error!("reload rejected, keeping the previous configuration: {error:#}"),
        }
    }
}

fn routes(station: &super::Station, loopback: bool) -> Router {
    Router::new()
        .route("/metrics", get(openmetrics))
        .layer(middleware::from_fn_with_state(Cache::new(|| Cache::AGE), cached))
        .route("/healthz", get(|| async { "ok\n" }))
        .with_state(station.views())
        .merge(page::routes(station.views(), station.history()))
        .fallback(|| async {
            (
                StatusCode::NOT_FOUND,
                "there are /, /watch.json, /history.json, /compare.json, /metrics and /healthz\n",
            )
        })
        .layer(middleware::from_fn_with_state(loopback, this_machine))
}

/// On loopback a page from elsewhere must not read us by a name of its own; beyond it the token stands against that.
pub(super) async fn this_machine(State(loopback): State<bool>, request: Request, next: Next) -> Response {
    if loopback && !answers_to(request.headers(), &[]) {
        return refuse_name();
    }
    next.run(request).await
}

async fn openmetrics(State(views): State<super::Views>) -> Response {
    let view = views.borrow().clone();
    match metrics::text(&view) {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
