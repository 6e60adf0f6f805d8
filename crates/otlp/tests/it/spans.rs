//! Spans of sessions from the subscriber of the log to the receiver.

use crate::receiver::{Answer, Receiver};
use crate::support::{never, settings, source};
use otlp::proto::common::v1::any_value::Value;
use otlp::proto::trace::v1::Span;
use otlp::{Exporter, Sessions};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tracing::field::{Empty, display};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

const WITHIN: Duration = Duration::from_secs(20);
const ONLY_TRACES: (&str, &str) = ("OTEL_METRICS_EXPORTER", "none");

/// Sessions as a router has them.
fn sessions(ids: std::ops::Range<u64>) -> Sessions {
    let (layer, sessions) = otlp::collect::<Registry>(1.0);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        for id in ids {
            let session = tracing::info_span!(target: "router::session", "session", id, client = Empty,
                listener = %"127.0.0.1:3306", server = Empty, end = Empty, error = Empty);
            session.record("client", display("10.0.0.5:999"));
            session.record("server", display("db2"));
            session.record(if id % 2 == 0 { "end" } else { "error" }, "why");
        }
    });
    sessions
}

fn attributes(span: &Span) -> BTreeMap<&str, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    let attributes = span.attributes.iter();
    attributes
        .map(|one| (one.key.as_str(), text(one.value.as_ref().unwrap().value.as_ref().unwrap())))
        .collect()
}

fn ids(spans: &[Span]) -> Vec<u64> {
    spans.iter().map(|span| attributes(span)["headroom.session.id"].parse().unwrap()).collect()
}

#[tokio::test]
async fn a_session_arrives_as_a_span_and_one_that_failed_as_an_error() {
    let receiver = Receiver::start();
    let (source, _) = source(never());
    let exporter =
        Exporter::start(settings("http", receiver.port, &[ONLY_TRACES]), source, Some(sessions(6..8)));
    exporter.stop(WITHIN).await;
    let message = receiver.next().traces();
    let spans = &message.resource_spans[0].scope_spans[0].spans;
    let [one, other] = &spans[..] else { panic!("{spans:?}") };
    let wanted = [
        ("client.address", "10.0.0.5"),
        ("client.port", "999"),
        ("db.system.name", "mariadb"),
        ("headroom.listener", "127.0.0.1:3306"),
        ("headroom.server", "db2"),
        ("headroom.server.zone", "us-east-1a"),
        ("headroom.session.end", "why"),
        ("headroom.session.id", "6"),
        ("network.transport", "tcp"),
        ("server.address", "db2.example.net"),
        ("server.port", "3306"),
    ];
    let found = attributes(one);
    for (key, value) in wanted {
        assert_eq!(found.get(key).map(String::as_str), Some(value), "{key}: {found:?}");
    }
    assert!(one.status.is_none() && !found.contains_key("error.type"), "{one:?}");
    assert_eq!(other.status.as_ref().map(|status| (status.code, status.message.as_str())), Some((2, "why")));
    assert_eq!(attributes(other)["error.type"], "why");
    assert_ne!(one.trace_id, other.trace_id);
}

#[tokio::test]
async fn a_batch_that_does_not_arrive_is_sent_again_and_one_that_is_refused_is_not() {
    let receiver = Receiver::start();
    let say = |code, headers| Answer::Say(code, headers, Vec::new());
    receiver.answer([say(503, "retry-after: 0\r\n"), say(200, ""), say(400, "")]);
    let (source, _) = source(never());
    // A full batch, which waits for nothing, and one more.
    let exporter =
        Exporter::start(settings("http", receiver.port, &[ONLY_TRACES]), source, Some(sessions(0..513)));
    let (receiver, times) = tokio::task::spawn_blocking(move || {
        let times = [receiver.next().traces(), receiver.next().traces()];
        (receiver, times)
    })
    .await
    .unwrap();
    let spans = |n: usize| &times[n].resource_spans[0].scope_spans[0].spans;
    assert_eq!(spans(0), spans(1), "the same spans, with the same identities");
    assert_eq!(ids(spans(0)), (0..512).collect::<Vec<u64>>());
    exporter.stop(WITHIN).await;
    assert_eq!(ids(&receiver.next().traces().resource_spans[0].scope_spans[0].spans), [512]);
    assert!(receiver.is_quiet_for(Duration::from_millis(100)), "what is refused is not repeated");
}

#[tokio::test]
async fn whoever_ends_sessions_does_not_wait_for_a_collector_that_is_silent() {
    let receiver = Receiver::start();
    receiver.answer(std::iter::repeat_n(Answer::Silence, 8));
    let (source, _) = source(never());
    let begun = Instant::now();
    let many = sessions(0..100_000);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let exporter = Exporter::start(settings("http", receiver.port, &[ONLY_TRACES]), source, Some(many));
    let begun = Instant::now();
    exporter.stop(Duration::from_millis(300)).await;
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}
