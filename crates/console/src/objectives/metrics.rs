//! Objectives in `/metrics`. Labels are names from the configuration.

use super::view::{ObjectiveView, WebhookView};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

type Labels = Vec<(&'static str, String)>;

/// Adds them.
pub fn register(objectives: &[ObjectiveView], webhook: Option<&WebhookView>, registry: &mut Registry) {
    let burns = objectives.iter().flat_map(|one| {
        let burn = one.burn;
        [
            ("fast", burn.fast),
            ("fast_short", burn.fast_short),
            ("slow", burn.slow),
            ("slow_short", burn.slow_short),
        ]
        .into_iter()
        .filter_map(|(window, burn)| Some((of(one, &[("window", window)]), burn?)))
    });
    gauge(
        registry,
        "objective_burn_rate",
        "How fast the budget of an objective is spent; 1 is allowed",
        burns,
    );
    let open = objectives.iter().map(|one| (of(one, &[]), f64::from(u8::from(one.incident.is_some()))));
    gauge(registry, "incident_open", "Whether an incident of an objective is under way", open);
    let week = objectives.iter().map(|one| (of(one, &[]), one.by_week.first().copied().unwrap_or(0) as f64));
    gauge(registry, "incidents_of_the_week", "Incidents opened in the last seven days", week);
    let opened = objectives.iter().map(|one| (of(one, &[]), one.opened));
    counter(registry, "incidents_opened", "Incidents opened since the start", opened);
    let closed = objectives.iter().map(|one| (of(one, &[]), one.closed));
    counter(registry, "incidents_closed", "Incidents closed since the start", closed);
    let Some(webhook) = webhook else { return };
    let outcomes =
        [("delivered", webhook.delivered), ("tried_again", webhook.tried_again), ("lost", webhook.lost)]
            .map(|(outcome, count)| (vec![("outcome", outcome.to_owned())], count));
    counter(registry, "webhook_calls", "Calls of the webhook, by outcome", outcomes);
}

fn of(one: &ObjectiveView, more: &[(&'static str, &str)]) -> Labels {
    let more = more.iter().map(|(name, value)| (*name, (*value).to_owned()));
    std::iter::once(("objective", one.name.clone())).chain(more).collect()
}

fn gauge(registry: &mut Registry, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, f64)>) {
    let family = Family::<Labels, Gauge<f64, AtomicU64>>::default();
    registry.register(name, help, family.clone());
    for (labels, value) in values {
        family.get_or_create(&labels).set(value);
    }
}

fn counter(registry: &mut Registry, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, u64)>) {
    let family = Family::<Labels, Counter>::default();
    registry.register(name, help, family.clone());
    for (labels, value) in values {
        family.get_or_create(&labels).inc_by(value);
    }
}
