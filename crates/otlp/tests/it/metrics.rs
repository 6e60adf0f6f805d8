//! Metrics: what arrives, over what, how often, and when for the last time.

use crate::lines;
use crate::receiver::{Answer, Receiver, Request};
use crate::support::{exposition, never, often, settings, source};
use otlp::Exporter;
use otlp::proto::collector::metrics::v1::{ExportMetricsPartialSuccess, ExportMetricsServiceResponse};
use otlp::proto::common::v1::any_value::Value;
use prost::Message;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use testkit::certificate::Authority;

const SOON: Duration = Duration::from_millis(50);
const WITHIN: Duration = Duration::from_secs(20);

/// Waits for the next request beside the exporter, whose runtime this is.
async fn next(receiver: Receiver) -> (Receiver, Request) {
    tokio::task::spawn_blocking(move || {
        let request = receiver.next();
        (receiver, request)
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn what_arrives_is_what_the_text_says_and_whose_it_is() {
    let receiver = Receiver::start();
    let settings = often(settings("http", receiver.port, &[("OTEL_TRACES_EXPORTER", "none")]), SOON);
    let (source, _) = source(never());
    let exporter = Exporter::start(settings, source, None);
    let (receiver, first) = next(receiver).await;
    lines::assert_same(&exposition(0), &first.metrics());
    let (_, second) = next(receiver).await;
    lines::assert_same(&exposition(1), &second.metrics());

    let resource = &first.metrics().resource_metrics[0];
    let attributes = resource.resource.as_ref().unwrap().attributes.iter();
    let attributes: Vec<_> = attributes
        .map(|one| match one.value.as_ref().and_then(|value| value.value.clone()) {
            Some(Value::StringValue(text)) => format!("{}={text}", one.key),
            other => panic!("{other:?}"),
        })
        .collect();
    let wanted = [
        "host.name=app1",
        "service.instance.id=app1/127.0.0.1:9306",
        "service.name=headroom-route",
        "service.version=0.1.0",
    ];
    assert_eq!(attributes, wanted);
    exporter.stop(WITHIN).await;
}

#[tokio::test]
async fn a_secret_goes_over_tls_to_whom_the_given_authority_vouches_for_and_to_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, other) = (Authority::new(dir.path(), "ours"), Authority::new(dir.path(), "other"));
    let receiver = Receiver::start_tls(&ours.sign("collector", &["localhost"]));
    let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hunter2%3D");
    for (authority, arrives) in [(&other, false), (&ours, true)] {
        let ca = ("OTEL_EXPORTER_OTLP_CERTIFICATE", authority.ca.to_str().unwrap());
        let gzip = ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "gzip");
        let settings = settings("https", receiver.port, &[headers, ca, gzip]);
        let (source, looks) = source(never());
        Exporter::start(settings, source, None).stop(WITHIN).await;
        assert_eq!(looks.load(Relaxed), 1, "the last values are sent at the end");
        if !arrives {
            assert!(receiver.is_quiet_for(Duration::ZERO), "an authority that nobody named vouched for it");
            continue;
        }
        let request = receiver.next();
        assert_eq!(request.headers["api-key"], "hunter2=");
        assert_eq!(request.headers["content-encoding"], "gzip");
        lines::assert_same(&exposition(0), &request.metrics());
    }
}

#[tokio::test]
async fn a_collector_that_is_busy_gets_newer_values_when_it_says_and_one_that_refuses_at_the_interval() {
    let receiver = Receiver::start();
    let say = |code, headers| Answer::Say(code, headers, Vec::new());
    receiver.answer([say(503, "retry-after: 3\r\n"), say(400, ""), say(429, "")]);
    let settings = often(settings("http", receiver.port, &[]), Duration::from_millis(200));
    let (source, _) = source(never());
    let exporter = Exporter::start(settings, source, None);
    let (mut receiver, mut sent) = (receiver, Vec::new());
    let mut before = Instant::now();
    for number in 0..4 {
        let request;
        (receiver, request) = next(receiver).await;
        lines::assert_same(&exposition(number), &request.metrics());
        sent.push(before.elapsed());
        before = Instant::now();
    }
    // Either may come out shorter or longer by what the machine stood still.
    let between = Duration::from_millis(1_500);
    assert!(sent[1] >= between, "it said in three seconds: {sent:?}");
    assert!(sent[2..].iter().all(|pause| *pause < between), "{sent:?}");
    exporter.stop(WITHIN).await;
}

#[tokio::test]
async fn a_process_that_another_has_taken_over_from_says_its_metrics_once_more_and_then_no_more() {
    let receiver = Receiver::start();
    let settings = often(settings("http", receiver.port, &[]), Duration::from_millis(300));
    let (tell, told) = tokio::sync::oneshot::channel::<()>();
    let (source, looks) = source(Box::pin(async { told.await.unwrap() }));
    let exporter = Exporter::start(settings, source, None);
    tell.send(()).unwrap();
    let (receiver, last) = next(receiver).await;
    lines::assert_same(&exposition(0), &last.metrics());
    tokio::time::sleep(Duration::from_millis(700)).await;
    exporter.stop(WITHIN).await;
    assert!(receiver.is_quiet_for(Duration::ZERO) && looks.load(Relaxed) == 1, "nor at its end");
}

#[tokio::test]
async fn a_collector_that_says_nothing_does_not_keep_the_process() {
    let receiver = Receiver::start();
    receiver.answer([Answer::Silence, Answer::Silence]);
    let settings = often(settings("http", receiver.port, &[]), SOON);
    let (source, _) = source(never());
    let exporter = Exporter::start(settings, source, None);
    let (receiver, _) = next(receiver).await;
    let begun = Instant::now();
    exporter.stop(Duration::from_millis(500)).await;
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    lines::assert_same(&exposition(1), &receiver.next().metrics());
}

#[tokio::test]
async fn one_that_takes_a_part_is_not_sent_the_rest_again() {
    let receiver = Receiver::start();
    let part = ExportMetricsPartialSuccess { rejected_data_points: 3, error_message: "too many".into() };
    let body = ExportMetricsServiceResponse { partial_success: Some(part) }.encode_to_vec();
    receiver.answer([Answer::Say(200, "", body)]);
    let (source, looks) = source(never());
    let settings = often(settings("http", receiver.port, &[]), Duration::from_secs(60));
    Exporter::start(settings, source, None).stop(WITHIN).await;
    assert_eq!(looks.load(Relaxed), 1);
    receiver.next();
    assert!(receiver.is_quiet_for(Duration::from_millis(100)));
}
