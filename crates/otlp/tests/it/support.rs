//! Settings and a source as a router has them.

use console::sample_status;
use otlp::span::Names;
use otlp::{Pending, Resource, Settings, Source};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// Settings by these variables, and an endpoint at this port.
pub(crate) fn settings(scheme: &str, port: u16, more: &[(&str, &str)]) -> Settings {
    let endpoint = format!("{scheme}://localhost:{port}");
    let find = |name: &str| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(endpoint.clone()),
        _ => more.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()),
    };
    Settings::read(find).unwrap().unwrap()
}

/// The same with an interval that variables do not allow, for a test that does not wait a second each time.
pub(crate) fn often(mut settings: Settings, interval: Duration) -> Settings {
    settings.interval = interval;
    settings
}

/// What a router says: the sample of the console, with this many sessions on its first listener.
pub(crate) fn exposition(sessions: u64) -> String {
    let mut status = sample_status::status();
    status.listeners[0].open = sessions;
    let measured = "# HELP headroom_answer_duration_seconds Time of an answer, by server.\n\
                    # TYPE headroom_answer_duration_seconds histogram\n\
                    headroom_answer_duration_seconds_bucket{server=\"db2\",le=\"0.000065536\"} 3\n\
                    headroom_answer_duration_seconds_bucket{server=\"db2\",le=\"17.179869184\"} 40\n\
                    headroom_answer_duration_seconds_bucket{server=\"db2\",le=\"+Inf\"} 41\n\
                    headroom_answer_duration_seconds_sum{server=\"db2\"} 30.25\n\
                    headroom_answer_duration_seconds_count{server=\"db2\"} 41\n";
    console::status_metrics::text(&status, measured).unwrap()
}

/// A router whose sessions are one more at each look, and the count of looks.
pub(crate) fn source(superseded: Pending<()>) -> (Source, Arc<AtomicU64>) {
    let looks = Arc::<AtomicU64>::default();
    let counted = looks.clone();
    let exposition = move || -> Pending<Option<String>> {
        let text = exposition(counted.fetch_add(1, Relaxed));
        Box::pin(std::future::ready(Some(text)))
    };
    let source = Source {
        resource: Resource::new("headroom-route", "app1/127.0.0.1:9306", "app1", "0.1.0", &[]),
        started: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000),
        exposition: Box::new(exposition),
        names: Box::new(|| Names::of(&sample_status::status())),
        superseded,
    };
    (source, looks)
}

pub(crate) fn never() -> Pending<()> {
    Box::pin(std::future::pending())
}
