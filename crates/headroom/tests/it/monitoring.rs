//! Dashboards, rules and the table of metrics against the metrics themselves: what they name exists, and what
//! exists is named.

mod pushed;
mod query;
mod real;
pub(crate) mod registry;

use self::registry::{Metric, Metrics};
use monitoring::dashboard::Dashboard;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_files_under_deploy_are_those_that_are_made_now() {
    for document in monitoring::documents() {
        assert!(
            read(document.path) == document.text,
            "{} is not current: cargo run -p monitoring",
            document.path
        );
    }
    let page = read("docs/guide/monitoring.md");
    assert!(
        monitoring::guide::page(&page).as_ref() == Some(&page),
        "its tables are not current: cargo run -p monitoring"
    );
}

/// `docs/guide/metrics.md` has a table for each program. With `INSTA_UPDATE=always` it is written, as the
/// snapshots are.
#[test]
#[allow(clippy::disallowed_methods, reason = "the same variable that writes the other lists of names")]
fn the_guide_has_a_table_of_every_metric() {
    let page = read("docs/guide/metrics.md");
    let mut made = page.clone();
    for (program, exposition) in registry::programs() {
        let mark = program.trim_start_matches("headroom ");
        made = monitoring::guide::between(&made, mark, &table(&registry::families(&exposition)))
            .unwrap_or_else(|| panic!("metrics.md lacks the marks of {mark}"));
    }
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(repository().join("docs/guide/metrics.md"), &made).unwrap();
    }
    assert!(
        page == made,
        "metrics.md is not current: INSTA_UPDATE=always cargo test -p headroom --test it -- monitoring::"
    );
}

fn table(metrics: &Metrics) -> String {
    let mut text = "| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n".to_owned();
    for (name, Metric { kind, help, labels }) in metrics {
        let sample = if kind == "counter" { format!("{name}_total") } else { name.clone() };
        let labels: Vec<_> =
            labels.iter().filter(|label| *label != "le").map(|label| format!("`{label}`")).collect();
        let help = help.trim_end_matches('.').replace('|', "\\|");
        text.push_str(&format!(
            "| `{sample}` | {kind} | {} | {} | {help} |\n",
            unit(name),
            labels.join(", ")
        ));
    }
    text
}

/// By the end of the name, as Prometheus's conventions have it.
fn unit(name: &str) -> &'static str {
    let units = [
        ("_seconds", "seconds"),
        ("_bytes", "bytes"),
        ("_per_second", "a second"),
        ("_share", "0 to 1"),
        ("_ratio", "0 to 1"),
        ("_cores", "CPUs"),
        ("_info", "always 1"),
    ];
    units.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit)
}

/// Labels that Prometheus adds, and one that is the operator's own.
const ADDED: [&str; 3] = ["job", "instance", "cluster"];

/// Queries with where they stand: dashboards with their choices, alerts, recording rules.
fn queries() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for dashboard in monitoring::dashboard::all() {
        all.extend(dashboard.exprs().into_iter().map(|expr| (dashboard.path.to_owned(), expr)));
        let json: Value = serde_json::from_str(&dashboard.text()).unwrap();
        for variable in json["templating"]["list"].as_array().unwrap() {
            if let Some(query) = variable["definition"].as_str() {
                all.push((format!("{} ${}", dashboard.path, variable["name"]), query.to_owned()));
            }
        }
    }
    all.extend(monitoring::alert::all().map(|alert| (alert.name.to_owned(), alert.expr.to_owned())));
    let recordings = monitoring::alert::RECORDINGS.iter();
    all.extend(recordings.map(|recording| (recording.name.to_owned(), recording.expr.to_owned())));
    all
}

/// The family that a sample belongs to.
fn family<'m>(metrics: &'m Metrics, sample: &str) -> Option<(&'m str, &'m Metric)> {
    let of = |name: &str, kind: &str| metrics.get_key_value(name).filter(|(_, metric)| metric.kind == kind);
    let histogram =
        ["_bucket", "_sum", "_count"].iter().find_map(|end| of(sample.strip_suffix(end)?, "histogram"));
    let counter = sample.strip_suffix("_total").and_then(|name| of(name, "counter"));
    let found = of(sample, "gauge").or(counter).or(histogram);
    found.map(|(name, metric)| (name.as_str(), metric))
}

#[test]
fn what_dashboards_and_rules_name_exists_with_these_labels() {
    let metrics = registry::all();
    let recorded: BTreeSet<&str> =
        monitoring::alert::RECORDINGS.iter().map(|recording| recording.name).collect();
    for (place, query) in queries() {
        let mut known: BTreeSet<&str> =
            ADDED.into_iter().chain(["le", "alertname", "alertstate", "severity"]).collect();
        for selector in query::selectors(&query) {
            if recorded.contains(selector.metric.as_str()) {
                known.extend(["server", "endpoint"]);
                continue;
            }
            let Some((_, metric)) = family(&metrics, &selector.metric) else {
                panic!("{place}: no metric is called {} (of this kind): {query}", selector.metric);
            };
            known.extend(metric.labels.iter().map(String::as_str));
            for label in &selector.labels {
                let is_known = ADDED.contains(&label.as_str()) || metric.labels.contains(label);
                assert!(is_known, "{place}: {} has no label {label}: {query}", selector.metric);
            }
        }
        let groups = query::grouping(&query);
        // What label_replace makes is named in the query.
        let strange: Vec<_> = groups
            .iter()
            .filter(|label| !known.contains(label.as_str()) && !query.contains(&format!("\"{label}\"")))
            .collect();
        assert!(strange.is_empty(), "{place}: no metric in it has {strange:?}: {query}");
    }
}

#[test]
fn every_metric_stands_in_a_dashboard_or_a_rule() {
    let metrics = registry::all();
    let named: BTreeSet<String> = queries()
        .iter()
        .flat_map(|(_, query)| query::selectors(query))
        .filter_map(|selector| family(&metrics, &selector.metric).map(|(name, _)| name.to_owned()))
        .collect();
    let left: Vec<_> = metrics.keys().filter(|name| !named.contains(*name)).collect();
    assert!(left.is_empty(), "in no dashboard and no rule: {left:?}");
}

#[test]
fn pages_that_alerts_and_panels_lead_to_have_these_headings() {
    let mut pages: BTreeSet<&str> = monitoring::alert::all().map(|alert| alert.guide).collect();
    let dashboards = monitoring::dashboard::all();
    pages.extend(dashboards.iter().flat_map(Dashboard::pages));
    for page in pages {
        let (file, anchor) = page.split_once('#').unwrap_or((page, ""));
        let text = read(&format!("docs/guide/{file}"));
        let mut headings = text.lines().filter(|line| line.starts_with('#')).map(slug);
        assert!(
            anchor.is_empty() || headings.any(|heading| heading == anchor),
            "docs/guide/{file} has no #{anchor}"
        );
    }
}

/// A heading as its anchor is made of it.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>().replace(' ', "-")
}

#[test]
fn dashboards_are_what_grafana_reads() {
    let metrics = registry::all();
    let mut uids = BTreeSet::new();
    for dashboard in monitoring::dashboard::all() {
        let json: Value = serde_json::from_str(&dashboard.text()).unwrap();
        let place = dashboard.path;
        assert!(uids.insert(dashboard.uid) && dashboard.uid.len() <= 40, "{place}");
        assert_eq!(json["schemaVersion"], 39, "{place}");
        let variables = json["templating"]["list"].as_array().unwrap();
        let variables: BTreeSet<&str> = variables.iter().map(|one| one["name"].as_str().unwrap()).collect();
        let mut taken = BTreeMap::new();
        let mut ids = BTreeSet::new();
        for panel in json["panels"].as_array().unwrap() {
            let title = panel["title"].as_str().unwrap();
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{place}: {title}");
            let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            assert!(at("x") + at("w") <= 24 && at("h") > 0, "{place}: {title}");
            for x in at("x")..at("x") + at("w") {
                for y in at("y")..at("y") + at("h") {
                    let other = taken.insert((x, y), title);
                    assert!(other.is_none(), "{place}: {title} lies on {other:?}");
                }
            }
            let kinds = ["row", "stat", "timeseries", "state-timeline", "table", "text"];
            assert!(kinds.contains(&panel["type"].as_str().unwrap()), "{place}: {title}");
            for target in panel["targets"].as_array().into_iter().flatten() {
                assert_eq!(target["datasource"]["uid"], "${datasource}", "{place}: {title}");
                let legend = target["legendFormat"].as_str().unwrap();
                let query = target["expr"].as_str().unwrap();
                legend_labels_exist(place, legend, query, &metrics);
                let named = query
                    .split('$')
                    .skip(1)
                    .map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap());
                named.for_each(|name| {
                    assert!(variables.contains(name), "{place}: {title}: no variable ${name}");
                });
            }
        }
    }
}

/// A legend shows labels that the query's result has.
fn legend_labels_exist(place: &str, legend: &str, query: &str, metrics: &Metrics) {
    let groups = query::grouping(query);
    let of_metrics: BTreeSet<String> = query::selectors(query)
        .iter()
        .filter_map(|selector| family(metrics, &selector.metric))
        .flat_map(|(_, metric)| metric.labels.clone())
        .collect();
    for part in legend.split("{{").skip(1) {
        let label = part.split("}}").next().unwrap();
        let kept = if query.contains(" by (") {
            groups.contains(label)
        } else {
            of_metrics.contains(label) || ADDED.contains(&label)
        };
        assert!(kept, "{place}: the legend shows {label}, which is not in the result of {query}");
    }
}

/// promtool of the distribution's package prometheus: `scripts/install.sh monitoring`.
fn promtool(args: &[&str], input: &str) -> Output {
    let mut child = Command::new("promtool")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("promtool: {error}; scripts/install.sh monitoring brings it"));
    // It may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn accepted(output: &Output) {
    let words =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
}

#[test]
fn promtool_accepts_the_rules_the_example_and_every_query_of_the_dashboards() {
    let folder = repository().join("deploy/prometheus");
    accepted(&promtool(&["check", "rules", folder.join("headroom.rules.yml").to_str().unwrap()], ""));
    let example = folder.join("scrape.example.yml");
    accepted(&promtool(&["check", "config", "--syntax-only", example.to_str().unwrap()], ""));
    let mut rules = "groups:\n  - name: dashboards\n    rules:\n".to_owned();
    for (number, expr) in monitoring::dashboard::all().iter().flat_map(Dashboard::exprs).enumerate() {
        rules.push_str(&format!("      - record: query:{number}\n        expr: {}\n", Value::from(expr)));
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("queries.yml");
    std::fs::write(&file, rules).unwrap();
    accepted(&promtool(&["check", "rules", file.to_str().unwrap()], ""));
}

#[test]
fn each_alert_fires_in_its_case_and_is_quiet_in_the_one_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("headroom.rules.yml"), monitoring::rules::rules()).unwrap();
    let tests = dir.path().join("headroom.rules.test.yml");
    std::fs::write(&tests, monitoring::rules::tests()).unwrap();
    accepted(&promtool(&["test", "rules", tests.to_str().unwrap()], ""));
    // That promtool compares at all: an alert that is said to fire in the quiet case fails.
    let swapped = monitoring::rules::tests().replacen(
        "exp_samples: []",
        "exp_samples: [{labels: 'ALERTS{}', value: 1}]",
        1,
    );
    let first = swapped.match_indices("  - name:").nth(2).map(|(at, _)| at).unwrap();
    std::fs::write(&tests, &swapped[..first]).unwrap();
    assert!(!promtool(&["test", "rules", tests.to_str().unwrap()], "").status.success());
}

#[test]
fn names_and_help_are_lint_clean() {
    for (program, exposition) in registry::programs() {
        let output = promtool(&["check", "metrics"], &console::exposition::classic(&exposition));
        let words =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && words.trim().is_empty(), "{program}:\n{words}");
    }
}
