//! Prometheus's rules, and promtool's unit tests of them, as YAML. Strings are written as JSON writes them,
//! which YAML reads; nothing else of YAML is needed than lists and maps.

use crate::alert::{Alert, GROUPS, RECORDINGS, Recording, Series};
use serde_json::Value;
use std::fmt::Write;

const HEAD: &str =
    "# Made by `cargo run -p monitoring` from crates/monitoring; a test says that it is current.\n";

/// `headroom.rules.yml`.
pub fn rules() -> String {
    let mut text =
        format!("{HEAD}# What each alert means and what to do: docs/guide/monitoring.md.\ngroups:\n");
    text.push_str("  - name: headroom-recordings\n    rules:\n");
    for recording in RECORDINGS {
        let _ = writeln!(text, "      - record: {}", quoted(recording.name));
        let _ = writeln!(text, "        expr: {}", quoted(recording.expr));
    }
    for group in GROUPS {
        let _ = writeln!(text, "  - name: {}\n    rules:", group.name);
        group.alerts.iter().for_each(|alert| rule(&mut text, alert));
    }
    text
}

fn rule(text: &mut String, alert: &Alert) {
    let _ = writeln!(text, "      - alert: {}", alert.name);
    let _ = writeln!(text, "        expr: {}", quoted(alert.expr));
    if alert.hold != "0m" {
        let _ = writeln!(text, "        for: {}", alert.hold);
    }
    let _ = writeln!(text, "        labels:\n          severity: {}", alert.severity.word());
    let _ = writeln!(text, "        annotations:\n          summary: {}", quoted(alert.summary));
    let _ = writeln!(text, "          first: {}", quoted(alert.first));
    let _ = writeln!(text, "          guide: {}", quoted(&format!("docs/guide/{}", alert.guide)));
}

/// `headroom.rules.test.yml`: every alert once firing and once quiet, every recording once.
pub fn tests() -> String {
    let names: Vec<&str> = GROUPS.iter().map(|group| group.name).collect();
    let mut text = format!("{HEAD}#   promtool test rules headroom.rules.test.yml\n");
    let _ = writeln!(text, "rule_files: [headroom.rules.yml]\nevaluation_interval: 1m");
    let _ = writeln!(text, "group_eval_order: [headroom-recordings, {}]\ntests:", names.join(", "));
    for alert in crate::alert::all() {
        case(&mut text, alert, "fires", alert.fires, &[firing(alert)]);
        case(&mut text, alert, "stays quiet", alert.quiet, &[]);
    }
    RECORDINGS.iter().for_each(|recording| recorded(&mut text, recording));
    text
}

/// The sample of `ALERTS` that it makes when it fires.
fn firing(alert: &Alert) -> String {
    let mut labels =
        vec![("alertname", alert.name), ("alertstate", "firing"), ("severity", alert.severity.word())];
    labels.extend(alert.labels);
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
    format!("ALERTS{{{}}}", labels.join(","))
}

fn case(text: &mut String, alert: &Alert, how: &str, series: &[Series], firing: &[String]) {
    let _ = writeln!(text, "  - name: {} {how}\n    interval: 1m\n    input_series:", alert.name);
    input(text, series);
    let expr = format!("ALERTS{{alertname=\"{}\",alertstate=\"firing\"}}", alert.name);
    let at = format!("{}m", 25 + minutes(alert.hold));
    let samples: Vec<(&str, &str)> = firing.iter().map(|labels| (labels.as_str(), "1")).collect();
    expected(text, &expr, &at, &samples);
}

fn recorded(text: &mut String, recording: &Recording) {
    let _ = writeln!(text, "  - name: {}\n    interval: 1m\n    input_series:", quoted(recording.name));
    input(text, recording.fires);
    let labels = format!("{}{}", recording.name, recording.labels);
    expected(text, recording.name, "25m", &[(&labels, recording.value)]);
}

fn input(text: &mut String, series: &[Series]) {
    for (selector, values) in series {
        let _ = writeln!(text, "      - series: {}\n        values: {}", quoted(selector), quoted(values));
    }
}

fn expected(text: &mut String, expr: &str, at: &str, samples: &[(&str, &str)]) {
    let _ = writeln!(text, "    promql_expr_test:\n      - expr: {}\n        eval_time: {at}", quoted(expr));
    if samples.is_empty() {
        text.push_str("        exp_samples: []\n");
        return;
    }
    text.push_str("        exp_samples:\n");
    for (labels, value) in samples {
        let _ = writeln!(text, "          - labels: {}\n            value: {value}", quoted(labels));
    }
}

/// Of Prometheus's words for a duration, those that are used here: whole minutes, hours and days, or seconds.
fn minutes(hold: &str) -> u32 {
    let (number, unit) = hold.split_at(hold.len() - 1);
    let number: u32 = number.parse().unwrap_or(0);
    match unit {
        "s" => number.div_ceil(60),
        "h" => number * 60,
        "d" => number * 24 * 60,
        _ => number,
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn durations_are_minutes() {
        assert_eq!(["0m", "30s", "90s", "2m", "4h", "1d"].map(minutes), [0, 1, 2, 2, 240, 1440]);
    }

    #[test]
    fn names_are_unique_and_each_alert_says_what_to_do_in_one_line() {
        let names: BTreeSet<_> = crate::alert::all().map(|alert| alert.name).collect();
        assert_eq!(names.len(), crate::alert::all().count());
        for alert in crate::alert::all() {
            assert!(alert.name.starts_with("Headroom") && alert.guide.contains(".md"), "{alert:?}");
            assert!(!alert.summary.is_empty() && !alert.first.is_empty(), "{alert:?}");
            assert!(!alert.fires.is_empty() && !alert.quiet.is_empty(), "{alert:?}");
        }
    }
}
