//! `[router.insight]`: what is learned from statements, and how much may be remembered of it.

use super::section::Section;
use super::value;
use std::time::Duration;

/// What is learned from the statements that pass through (`[router.insight]`): whose they are, and how much
/// may be remembered. Whether a listener's sessions are measured at all, [`Insight`] says.
#[derive(Clone, Debug, PartialEq)]
pub struct InsightConfig {
    /// Tags that name the endpoint, in the order they are looked for. `a+b` joins the values of two tags.
    pub endpoint_keys: Vec<String>,
    /// Tags that name the request, in the order they are looked for. Of `traceparent` the trace id counts.
    pub request_keys: Vec<String>,
    /// Digests that are told apart; all further statements count as one.
    pub digests: usize,
    /// Endpoints that are told apart; all further ones count as one.
    pub endpoints: usize,
    /// Requests that may be open at a time, a thread; further ones are counted and not measured.
    pub requests: usize,
    /// A request without a statement for this long is over.
    pub request_quiet: Duration,
    /// Whether one statement of each digest is kept as it came, literals and all.
    pub examples: bool,
}

/// Which sessions of a listener are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Insight {
    /// All of them; every session passes through the router.
    On,
    /// All that pass through the router anyway. Where sessions could bypass it, one new session in this many
    /// ([`Listener::insight_one_in`]) passes through and is measured.
    #[default]
    Sampled,
    /// None.
    Off,
}

impl Default for InsightConfig {
    fn default() -> Self {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        Self {
            endpoint_keys: words(&["endpoint", "route", "controller+action"]),
            request_keys: words(&["traceparent", "request_id"]),
            digests: 1000,
            endpoints: 200,
            requests: 4096,
            request_quiet: Duration::from_secs(10),
            examples: false,
        }
    }
}

impl Insight {
    /// Every setting with its word in the configuration.
    pub const ALL: [(&str, Self); 3] = [("on", Self::On), ("sampled", Self::Sampled), ("off", Self::Off)];

    /// The setting as the configuration says it.
    pub fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Sampled => "sampled",
            Self::Off => "off",
        }
    }
}

/// Reads `[router.insight]`.
pub(super) fn read(router: &mut Section<'_>) -> InsightConfig {
    let default = InsightConfig::default();
    let mut section = router.section("insight");
    let read = InsightConfig {
        endpoint_keys: section.list("endpoint_keys", value::tag).unwrap_or(default.endpoint_keys),
        request_keys: section.list("request_keys", value::tag).unwrap_or(default.request_keys),
        digests: section.count("digests", (1, 100_000)).map_or(default.digests, |n| n as usize),
        endpoints: section.count("endpoints", (1, 10_000)).map_or(default.endpoints, |n| n as usize),
        requests: section.count("requests", (1, 1_000_000)).map_or(default.requests, |n| n as usize),
        request_quiet: section
            .duration("request_quiet", Duration::from_millis(100))
            .unwrap_or(default.request_quiet),
        examples: section.flag("examples").unwrap_or(default.examples),
    };
    section.finish();
    read
}
