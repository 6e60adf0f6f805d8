//! The parts of the pages, kept in the binary: markup, styles and scripts below `page/`.
//!
//! [`STATUS`] is the page of a router, [`WATCH`] that of an agent and of several agents.

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

/// A part of a page: its path, its media type and its text.
pub type Part = (&'static str, &'static str, &'static str);

const MARKUP: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The page of a router.
pub const STATUS: &[Part] = &[
    ("/", MARKUP, include_str!("page/status.html")),
    ("/page.css", STYLE, include_str!("page/status.css")),
    ("/page.js", SCRIPT, include_str!("page/status.js")),
    ("/element.js", SCRIPT, include_str!("page/element.js")),
];

/// The page of an agent.
pub const WATCH: &[Part] = &[
    ("/", MARKUP, include_str!("page/watch.html")),
    ("/page.css", STYLE, include_str!("page/status.css")),
    ("/watch.css", STYLE, include_str!("page/watch.css")),
    ("/watch.js", SCRIPT, include_str!("page/watch.js")),
    ("/element.js", SCRIPT, include_str!("page/element.js")),
    ("/watch/chart.js", SCRIPT, include_str!("page/watch/chart.js")),
    ("/watch/hosts.js", SCRIPT, include_str!("page/watch/hosts.js")),
    ("/watch/compare.js", SCRIPT, include_str!("page/watch/compare.js")),
    ("/watch/map.js", SCRIPT, include_str!("page/watch/map.js")),
    ("/watch/panel.js", SCRIPT, include_str!("page/watch/panel.js")),
    ("/watch/timeline.js", SCRIPT, include_str!("page/watch/timeline.js")),
    ("/watch/word.js", SCRIPT, include_str!("page/watch/word.js")),
];

/// A route for each part.
pub fn routes<S: Clone + Send + Sync + 'static>(parts: &'static [Part]) -> Router<S> {
    parts
        .iter()
        .fold(Router::new(), |routes, &(path, kind, text)| routes.route(path, get(move || part(kind, text))))
}

/// One part. Nothing from elsewhere may be loaded, run or asked.
async fn part(kind: &'static str, text: &'static str) -> impl IntoResponse {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_page_is_from_elsewhere_and_every_part_that_it_names_is_there() {
        for (path, _, text) in STATUS.iter().chain(WATCH) {
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
                let mut known = STATUS.iter().chain(WATCH);
                assert!(known.any(|(part, ..)| part.ends_with(name)), "{path} names {name}");
            }
        }
    }

    #[test]
    fn no_text_becomes_markup() {
        for (path, _, text) in STATUS.iter().chain(WATCH) {
            for way in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " onclick="]
            {
                assert!(!text.contains(way), "{path} has {way}");
            }
        }
    }

    #[test]
    fn every_bottleneck_has_a_colour_of_the_timeline() {
        let script = WATCH.iter().find(|(path, ..)| *path == "/watch/timeline.js").unwrap().2;
        let colours = &script[script.find("const COLOURS = {").unwrap()..];
        let colours = &colours[..colours.find('}').unwrap()];
        for name in diagnose::verdict::Name::every() {
            let name = serde_json::to_value(name).unwrap();
            let name = name.as_str().unwrap();
            let known = colours.contains(&format!("\"{name}\": ")) || colours.contains(&format!(" {name}: "));
            assert!(known, "{name} would look like round trips between zones");
        }
    }
}
