//! The live page, and the history that it shows: served by `headroom agent`, and of several agents by
//! `headroom watch --listen`.

use super::Views;
use super::compare::{ComparisonView, Question};
use super::history::{HistoryView, Kept, Stretch};
use crate::admin::{MARKUP, SCRIPT, STYLE, page};
use crate::http::{Cache, cached};
use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router, middleware};

/// The parts of the page: where, what, and the text.
const PARTS: &[(&str, &str, &str)] = &[
    ("/", MARKUP, include_str!("../page/watch.html")),
    ("/page.css", STYLE, include_str!("../page/status.css")),
    ("/watch.css", STYLE, include_str!("../page/watch.css")),
    ("/watch.js", SCRIPT, include_str!("../page/watch.js")),
    ("/element.js", SCRIPT, include_str!("../page/element.js")),
    ("/watch/chart.js", SCRIPT, include_str!("../page/watch/chart.js")),
    ("/watch/hosts.js", SCRIPT, include_str!("../page/watch/hosts.js")),
    ("/watch/compare.js", SCRIPT, include_str!("../page/watch/compare.js")),
    ("/watch/map.js", SCRIPT, include_str!("../page/watch/map.js")),
    ("/watch/panel.js", SCRIPT, include_str!("../page/watch/panel.js")),
    ("/watch/timeline.js", SCRIPT, include_str!("../page/watch/timeline.js")),
    ("/watch/word.js", SCRIPT, include_str!("../page/watch/word.js")),
];

/// The routes, to be merged with those of whoever listens.
pub(super) fn routes(views: Views, kept: Kept) -> Router {
    let now = Router::new()
        .route("/watch.json", get(|State(views): State<Views>| async move { Json(views.borrow().clone()) }))
        .with_state(views);
    let data = Router::new()
        .route("/history.json", get(history))
        .route("/compare.json", get(compare))
        .with_state(kept)
        .merge(now)
        .layer(middleware::from_fn_with_state(Cache::new(|| Cache::AGE), cached));
    PARTS.iter().fold(data, |routes, &(path, kind, text)| routes.route(path, get(move || page(kind, text))))
}

async fn history(State(kept): State<Kept>, Query(stretch): Query<Stretch>) -> Json<HistoryView> {
    Json(kept.view(&stretch))
}

async fn compare(State(kept): State<Kept>, Query(question): Query<Question>) -> Json<ComparisonView> {
    Json(kept.compare(&question))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_page_is_from_elsewhere_and_every_part_that_it_names_is_there() {
        for (path, _, text) in PARTS {
            let foreign: Vec<_> = text
                .match_indices("//")
                .filter(|(at, _)| text[..*at].ends_with("http:") || text[..*at].ends_with("https:"))
                .map(|(at, _)| &text[at..(at + 24).min(text.len())])
                .filter(|address| {
                    !address.starts_with("//www.w3.org/") && !address.starts_with("//127.0.0.1")
                })
                .collect();
            assert!(foreign.is_empty(), "{path}: {foreign:?}");
            for (at, _) in text.match_indices("from \".") {
                let rest = &text[at + 6..];
                let name = rest[..rest.find('"').unwrap()].rsplit('/').next().unwrap();
                assert!(PARTS.iter().any(|(part, ..)| part.ends_with(name)), "{path} names {name}");
            }
        }
    }

    #[test]
    fn no_text_becomes_markup() {
        for (path, _, text) in PARTS {
            for way in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " onclick="]
            {
                assert!(!text.contains(way), "{path} has {way}");
            }
        }
    }
}
