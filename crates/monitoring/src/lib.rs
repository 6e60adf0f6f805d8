//! Dashboards of Grafana and rules of Prometheus, from one source.
//!
//! `dashboard.rs` is the vocabulary (panels, queries, units) and makes Grafana's JSON of it; the files under
//! `dashboard/` say what is shown. `alert.rs` has every alert as a value, each with a case in which it fires
//! and one in which it does not; `rules.rs` makes Prometheus's rules and promtool's unit tests of them. What
//! is made is committed under `deploy/`, for people who have no Rust, and a test of `headroom` says that it
//! is current, that every metric and label in it exists, and that every metric of ours is used or
//! documented.

#![allow(missing_docs, reason = "used inside this workspace only")]

pub mod alert;
pub mod dashboard;
pub mod guide;
pub mod rules;

/// A file that is made.
#[derive(Clone, Debug)]
pub struct Document {
    /// From the root of the repository.
    pub path: &'static str,
    pub text: String,
}

/// All of them.
pub fn documents() -> Vec<Document> {
    let mut all: Vec<Document> = dashboard::all()
        .into_iter()
        .map(|dashboard| Document { path: dashboard.path, text: dashboard.text() })
        .collect();
    all.push(Document { path: "deploy/prometheus/headroom.rules.yml", text: rules::rules() });
    all.push(Document { path: "deploy/prometheus/headroom.rules.test.yml", text: rules::tests() });
    all
}
