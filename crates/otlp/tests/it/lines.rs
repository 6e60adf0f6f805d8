//! An exposition and a message, both as lines of samples, so that they can be compared: the text is taken
//! apart here in its own way, and not by what made the message.

use otlp::proto::collector::metrics::v1::ExportMetricsServiceRequest;
use otlp::proto::common::v1::{KeyValue, any_value::Value};
use otlp::proto::metrics::v1::{HistogramDataPoint, NumberDataPoint, metric::Data, number_data_point};
use std::collections::BTreeMap;

/// A sample's name with its labels in order -> its value.
pub(crate) type Lines = BTreeMap<String, f64>;

/// What `/metrics` says. A label that is empty is one that is absent.
pub(crate) fn of_text(text: &str) -> Lines {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, inside) = series
                .split_once('{')
                .map_or((series, ""), |(name, rest)| (name, rest.strip_suffix('}').unwrap()));
            let labels = inside.split_inclusive("\",").map(|label| label.trim_end_matches(','));
            let labels: Vec<String> = labels.filter(|label| !label.is_empty()).map(number_of_bound).collect();
            (key(name, labels), value.parse().unwrap())
        })
        .collect()
}

/// `le="0.10"` and `le="0.1"` are one bound.
fn number_of_bound(label: &str) -> String {
    match label.strip_prefix("le=\"").and_then(|rest| rest.strip_suffix('"')) {
        Some(bound) => bound_label(bound.parse().unwrap()),
        None => label.to_owned(),
    }
}

fn bound_label(bound: f64) -> String {
    format!("le=\"{bound}\"")
}

fn key(name: &str, mut labels: Vec<String>) -> String {
    labels.retain(|label| !label.ends_with("=\"\""));
    labels.sort_unstable();
    format!("{name}{{{}}}", labels.join(","))
}

/// What `/metrics` would say if it said what is in a message.
pub(crate) fn of_message(message: &ExportMetricsServiceRequest) -> Lines {
    let scopes = message.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
    let mut lines = Lines::new();
    for metric in scopes.flat_map(|scope| &scope.metrics) {
        let name = &metric.name;
        match metric.data.as_ref().unwrap() {
            Data::Gauge(gauge) => lines.extend(gauge.data_points.iter().map(|point| number(name, point))),
            Data::Sum(sum) => {
                assert!(sum.is_monotonic && sum.aggregation_temporality == 2, "{name}");
                let name = format!("{name}_total");
                lines.extend(sum.data_points.iter().map(|point| number(&name, point)));
            }
            Data::Histogram(histogram) => {
                assert_eq!(histogram.aggregation_temporality, 2, "{name}");
                histogram.data_points.iter().for_each(|point| lines.extend(buckets(name, point)));
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    lines
}

fn number(name: &str, point: &NumberDataPoint) -> (String, f64) {
    let Some(number_data_point::Value::AsDouble(value)) = point.value else { panic!("{name}: {point:?}") };
    (key(name, labels(&point.attributes)), value)
}

fn buckets(name: &str, point: &HistogramDataPoint) -> Vec<(String, f64)> {
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1, "{name}");
    assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count, "{name}");
    let bounds = point.explicit_bounds.iter().copied().chain([f64::INFINITY]);
    let mut at_most = 0;
    let mut lines: Vec<_> = bounds
        .zip(&point.bucket_counts)
        .map(|(bound, count)| {
            at_most += count;
            let labels = labels(&point.attributes).into_iter().chain([bound_label(bound)]).collect();
            (key(&format!("{name}_bucket"), labels), at_most as f64)
        })
        .collect();
    lines.push((key(&format!("{name}_count"), labels(&point.attributes)), point.count as f64));
    lines.push((key(&format!("{name}_sum"), labels(&point.attributes)), point.sum.unwrap()));
    lines
}

fn labels(attributes: &[KeyValue]) -> Vec<String> {
    let label = |attribute: &KeyValue| {
        let value = attribute.value.as_ref().and_then(|value| value.value.as_ref());
        let Some(Value::StringValue(value)) = value else { panic!("{attribute:?}") };
        let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{}=\"{escaped}\"", attribute.key)
    };
    attributes.iter().map(label).collect()
}

/// Every sample of the text is in the message with its value, and no other.
pub(crate) fn assert_same(text: &str, message: &ExportMetricsServiceRequest) {
    let (wanted, found) = (of_text(text), of_message(message));
    assert!(!wanted.is_empty(), "nothing is compared");
    for (line, value) in &wanted {
        let same = found.get(line).is_some_and(|found| found == value || found.is_nan() && value.is_nan());
        assert!(same, "{line} is {value} in the text and {:?} in the message", found.get(line));
    }
    let more: Vec<_> = found.keys().filter(|line| !wanted.contains_key(*line)).collect();
    assert!(more.is_empty(), "in the message alone: {more:?}");
}
