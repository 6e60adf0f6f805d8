//! What a query names: metrics with the labels it asks of them. A reading of PromQL just deep enough for
//! that; whether the rest is PromQL says promtool.

use std::collections::BTreeSet;

/// A metric that a query names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(crate) metric: String,
    pub(crate) labels: BTreeSet<String>,
}

/// Every name of a metric in a query that begins with one of our prefixes, with its matchers.
pub(crate) fn selectors(query: &str) -> Vec<Selector> {
    let mut found = Vec::new();
    let mut rest = query;
    while let Some(at) = rest.find("headroom_") {
        // Names of recorded series have a level before a colon; a name inside quotes is a regular expression.
        let begin = rest[..at].rfind(|c: char| !is_name(c)).map_or(0, |before| before + 1);
        let quoted = rest[..begin].matches('"').count() % 2 == 1;
        let end = at + rest[at..].find(|c: char| !is_name(c)).unwrap_or(rest.len() - at);
        let metric = rest[begin..end].to_owned();
        rest = &rest[end..];
        if quoted {
            // Back to the state outside of quotes.
            rest = rest.split_once('"').map_or("", |(_, after)| after);
            continue;
        }
        let inside = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(inside, _)| inside);
        let matchers = inside.unwrap_or_default().split(',').filter_map(|matcher| {
            let end = matcher.find(['=', '!'])?;
            Some(matcher[..end].trim().to_owned())
        });
        found.push(Selector { metric, labels: matchers.collect() });
    }
    found
}

/// Labels by which a query groups or joins: inside `by (...)`, `on (...)`, `ignoring (...)`.
pub(crate) fn grouping(query: &str) -> BTreeSet<String> {
    let mut labels = BTreeSet::new();
    for word in ["by (", "on (", "ignoring (", "without ("] {
        for part in query.split(word).skip(1) {
            let inside = part.split(')').next().unwrap_or_default();
            labels.extend(
                inside.split(',').map(|label| label.trim().to_owned()).filter(|label| !label.is_empty()),
            );
        }
    }
    labels
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

#[test]
fn names_and_labels_are_found() {
    let query = "sum by (job, server) (rate(headroom_a_total{x=\"1\",y!~\"headroom_b\"}[5m])) / on (zone) instance:headroom_c:ratio > 1";
    let labels = |labels: &[&str]| labels.iter().map(|label| (*label).to_owned()).collect::<BTreeSet<_>>();
    let selector = |metric: &str, of: &[&str]| Selector { metric: metric.to_owned(), labels: labels(of) };
    assert_eq!(
        selectors(query),
        [selector("headroom_a_total", &["x", "y"]), selector("instance:headroom_c:ratio", &[])]
    );
    assert_eq!(grouping(query), labels(&["job", "server", "zone"]));
}
