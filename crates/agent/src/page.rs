//! The live page, and the history that it shows: served by `headroom agent`, and of several agents by
//! `headroom watch --listen`.

use crate::Views;
use crate::compare::CompareQuery;
use crate::history::{HistoryQuery, HistoryStore};
use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router, middleware};
use console::comparison_view::ComparisonView;
use console::history_view::HistoryView;
use console::http::{Cache, cached};
use console::page::{self, WATCH};

/// The routes, to be merged with those of whoever listens.
pub(crate) fn routes(views: Views, kept: HistoryStore) -> Router {
    let now = Router::new()
        .route("/watch.json", get(|State(views): State<Views>| async move { Json(views.borrow().clone()) }))
        .with_state(views);
    let data = Router::new()
        .route("/history.json", get(history))
        .route("/compare.json", get(compare))
        .with_state(kept)
        .merge(now)
        .layer(middleware::from_fn_with_state(Cache::new(|| Cache::AGE), cached));
    data.merge(page::routes(WATCH))
}

async fn history(State(kept): State<HistoryStore>, Query(stretch): Query<HistoryQuery>) -> Json<HistoryView> {
    Json(kept.view(&stretch))
}

async fn compare(
    State(kept): State<HistoryStore>,
    Query(question): Query<CompareQuery>,
) -> Json<ComparisonView> {
    Json(kept.compare(&question))
}
