//! Families of `/metrics` as OTLP's message: a counter is a monotonic sum, cumulative since the start; a
//! gauge is a gauge; a histogram has its buckets apart, not added up. Names are those of families: Prometheus
//! adds `_total` again when it takes the message.
//!
//! Values are doubles throughout, as collectors make them of what they scrape: a count that is an integer in
//! one export and none in the next would change the type of its series.

use crate::exposition::{Family, Kind, Part, Sample};
use crate::proto::collector::metrics::v1::ExportMetricsServiceRequest;
use crate::proto::common::v1::KeyValue;
use crate::proto::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, metric::Data, number_data_point,
};
use crate::resource::{Resource, text};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// From when to when is counted, as OTLP has it: nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    started: u64,
    now: u64,
}

impl Times {
    /// Counters count since `started`.
    pub fn new(started: SystemTime, now: SystemTime) -> Self {
        Self { started: nanoseconds(started), now: nanoseconds(now) }
    }
}

/// What OTLP calls a time.
pub(crate) fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The message of these families; one without samples is left out.
pub fn message(families: &[Family], resource: &Resource, times: Times) -> ExportMetricsServiceRequest {
    let metrics = families.iter().filter(|family| !family.samples.is_empty());
    let metrics = metrics.map(|family| metric(family, times)).collect();
    let scope = ScopeMetrics { scope: Some(resource.scope()), metrics, ..ScopeMetrics::default() };
    let resource = ResourceMetrics {
        resource: Some(resource.message()),
        scope_metrics: vec![scope],
        ..ResourceMetrics::default()
    };
    ExportMetricsServiceRequest { resource_metrics: vec![resource] }
}

fn metric(family: &Family, times: Times) -> Metric {
    let points = |started| {
        let point = |sample: &Sample| NumberDataPoint {
            attributes: attributes(&sample.labels),
            start_time_unix_nano: started,
            time_unix_nano: times.now,
            value: Some(number_data_point::Value::AsDouble(sample.value)),
            ..NumberDataPoint::default()
        };
        family.samples.iter().map(point).collect()
    };
    let data = match family.kind {
        // Only what adds up has a beginning.
        Kind::Gauge => Data::Gauge(Gauge { data_points: points(0) }),
        Kind::Counter => Data::Sum(Sum {
            data_points: points(times.started),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        Kind::Histogram => Data::Histogram(Histogram {
            data_points: histogram(&family.samples, times),
            aggregation_temporality: CUMULATIVE,
        }),
    };
    Metric {
        name: family.name.clone(),
        description: family.help.clone(),
        unit: unit(family).to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

/// In the words of UCUM. Shares have none: of the unit `1` Prometheus makes a new name.
fn unit(family: &Family) -> &str {
    match family.unit.as_str() {
        "seconds" => "s",
        "bytes" => "By",
        "" if family.name.ends_with("_seconds") => "s",
        "" if family.name.ends_with("_bytes") => "By",
        other => other,
    }
}

/// Labels of a sample, each with its value.
type Labels = [(String, String)];

/// A point for each set of labels, in the order of their first lines.
fn histogram(samples: &[Sample], times: Times) -> Vec<HistogramDataPoint> {
    let mut order: BTreeMap<&Labels, usize> = BTreeMap::new();
    let mut all: Vec<(&Labels, Vec<&Sample>)> = Vec::new();
    for sample in samples {
        let at = *order.entry(sample.labels.as_slice()).or_insert(all.len());
        match all.get_mut(at) {
            Some((_, series)) => series.push(sample),
            None => all.push((sample.labels.as_slice(), vec![sample])),
        }
    }
    all.into_iter().map(|(labels, series)| point(labels, &series, times)).collect()
}

/// The buckets of the text hold all that is at most their bound, the message's what is above the bound
/// before, too. The counts add up to the whole, which the message's readers rely on.
fn point(labels: &Labels, series: &[&Sample], times: Times) -> HistogramDataPoint {
    let mut buckets: Vec<(f64, u64)> = Vec::new();
    let (mut sum, mut count) = (None, 0);
    for sample in series {
        match sample.part {
            Part::Bucket { at_most } => buckets.push((at_most, sample.value as u64)),
            Part::Sum => sum = Some(sample.value),
            Part::Count => count = sample.value as u64,
            Part::Value => {}
        }
    }
    buckets.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    buckets.retain(|(bound, _)| bound.is_finite());
    let (mut bucket_counts, mut below) = (Vec::with_capacity(buckets.len() + 1), 0);
    for (_, at_most) in &buckets {
        bucket_counts.push(at_most.saturating_sub(below));
        below = below.max(*at_most);
    }
    bucket_counts.push(count.saturating_sub(below));
    HistogramDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: times.started,
        time_unix_nano: times.now,
        count: bucket_counts.iter().sum(),
        sum,
        bucket_counts,
        explicit_bounds: buckets.into_iter().map(|(bound, _)| bound).collect(),
        ..HistogramDataPoint::default()
    }
}

fn attributes(labels: &[(String, String)]) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| text(name, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::parse;
    use std::time::Duration;

    /// The metrics of an exposition whose counters count since second 1, at second 2.
    fn metrics(lines: &str) -> Vec<Metric> {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let resource = Resource::new("headroom-route", "i", "h", "0", &[]);
        let families = parse(&format!("{lines}# EOF\n")).unwrap();
        let mut message = message(&families, &resource, Times::new(at(1), at(2)));
        message.resource_metrics.remove(0).scope_metrics.remove(0).metrics
    }

    #[test]
    fn a_counter_is_a_monotonic_sum_since_the_start_and_a_gauge_has_no_start() {
        let all = metrics(
            "# HELP a_bytes Of a.\n# TYPE a_bytes counter\na_bytes_total{s=\"r\"} 3\n\
             # TYPE b_share gauge\nb_share 0.5\n# TYPE empty gauge\n",
        );
        let [counter, gauge] = &all[..] else { panic!("one without samples is left out: {all:?}") };
        assert_eq!(
            (counter.name.as_str(), counter.description.as_str(), counter.unit.as_str()),
            ("a_bytes", "Of a.", "By")
        );
        let Some(Data::Sum(sum)) = &counter.data else { panic!("{counter:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality == CUMULATIVE);
        let point = &sum.data_points[0];
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1_000_000_000, 2_000_000_000));
        assert_eq!(point.attributes, [text("s", "r")]);
        assert_eq!(point.value, Some(number_data_point::Value::AsDouble(3.0)));
        let Some(Data::Gauge(points)) = &gauge.data else { panic!("{gauge:?}") };
        assert_eq!((points.data_points[0].start_time_unix_nano, gauge.unit.as_str()), (0, ""));
    }

    #[test]
    fn buckets_are_apart_and_add_up_to_the_count() {
        let series = |server: &str, counts: [u64; 3], sum: f64| {
            let [one, two, all] = counts;
            format!(
                "d_seconds_bucket{{s=\"{server}\",le=\"0.1\"}} {one}\nd_seconds_bucket{{s=\"{server}\",le=\"1.0\"}} {two}\n\
                 d_seconds_bucket{{s=\"{server}\",le=\"+Inf\"}} {all}\nd_seconds_sum{{s=\"{server}\"}} {sum}\n\
                 d_seconds_count{{s=\"{server}\"}} {all}\n"
            )
        };
        let text = format!(
            "# TYPE d_seconds histogram\n{}{}",
            series("a", [1, 3, 4], 2.5),
            series("b", [0, 0, 0], 0.0)
        );
        let all = metrics(&text);
        let Some(Data::Histogram(histogram)) = &all[0].data else { panic!("{all:?}") };
        let [a, b] = &histogram.data_points[..] else { panic!("{histogram:?}") };
        assert_eq!(
            (a.bucket_counts.as_slice(), a.explicit_bounds.as_slice()),
            (&[1, 2, 1][..], &[0.1, 1.0][..])
        );
        assert_eq!((a.count, a.sum, all[0].unit.as_str()), (4, Some(2.5), "s"));
        assert_eq!(
            (a.start_time_unix_nano, a.attributes.as_slice()),
            (1_000_000_000, &[super::text("s", "a")][..])
        );
        assert_eq!((b.count, b.bucket_counts.as_slice()), (0, &[0, 0, 0][..]));
    }

    /// Counts that are estimated need not be in order.
    #[test]
    fn counts_that_contradict_each_other_still_add_up() {
        let all = metrics(
            "# TYPE d histogram\nd_bucket{le=\"1\"} 5\nd_bucket{le=\"2\"} 4\nd_bucket{le=\"+Inf\"} 3\nd_sum 1\nd_count 3\n",
        );
        let Some(Data::Histogram(histogram)) = &all[0].data else { panic!("{all:?}") };
        let point = &histogram.data_points[0];
        assert_eq!((point.count, point.bucket_counts.as_slice()), (5, &[5, 0, 0][..]));
    }
}
