//! The names that programs rely on: keys and types of every public JSON document, and the metrics. Values do
//! not matter, so each document is filled once, with an element in each list, and its shape is held against
//! the one in `snapshots/` that was reviewed. After a change: `INSTA_UPDATE=always cargo test -p headroom
//! --test it shapes::`, read the difference, and list what changed in CHANGELOG.md.

pub(crate) mod filled;

use crate::monitoring::registry::{self, Metric};
use console::history_view::{self, HistoryView, JumpView, KeptView, SpanView, Subject, SubjectView};
use console::insight_view::{FiguresView, InsightView, Question, RequestView, RowView, Sort};
use console::status_view::StatusView;
use console::watch_view::WatchView;
use filled::filled;
use knob::view::{KnobView, Preview, SetReport, Writes};
use load::measure::MeasureReport;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use trial::effects::{Effects, FactorEffect, FactorStanding, Mixture, PairEffect};
use trial::figures::{Figures, Moment, Spread};
use trial::report::{CellReport, LoadReport, Report, Same, Standing, Winner};

/// A line for each key: its path and the types of its values.
fn shape(value: &impl Serialize) -> String {
    let mut keys = BTreeMap::new();
    collect("", &serde_json::to_value(value).unwrap(), &mut keys);
    let line = |(path, kinds): (String, BTreeSet<&str>)| {
        format!("{path}: {}\n", kinds.into_iter().collect::<Vec<_>>().join(" | "))
    };
    keys.into_iter().map(line).collect()
}

fn collect(path: &str, value: &Value, keys: &mut BTreeMap<String, BTreeSet<&'static str>>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(all) => {
            all.iter().for_each(|one| collect(&format!("{path}[]"), one, keys));
            "array"
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(key, one)| collect(&format!("{path}.{key}"), one, keys));
            "object"
        }
    };
    keys.entry(if path.is_empty() { ".".to_owned() } else { path.to_owned() }).or_default().insert(kind);
}

/// Name, type and labels of each family, from an exposition.
fn families(exposition: &str) -> String {
    let line = |(name, metric): (&String, &Metric)| {
        let labels: Vec<&str> = metric.labels.iter().map(String::as_str).collect();
        format!("{name} {} {{{}}}\n", metric.kind, labels.join(","))
    };
    registry::families(exposition).iter().map(line).collect()
}

fn watch() -> WatchView {
    filled()
}

#[test]
fn json_of_doctor_and_check_keeps_its_keys() {
    let lost = doctor::Finding::warn("this host", "io_uring", "forbidden").costs("CPU").mend("allow it");
    let passed = doctor::Finding::pass("this host", "kernel", "Linux 6.12");
    insta::assert_snapshot!("doctor", shape(&doctor::Report { findings: vec![lost, passed] }));
}

#[test]
fn json_of_a_router_keeps_its_keys() {
    let sample = console::sample_status::status();
    let objectives = vec![filled()];
    let leaving = vec![filled()];
    let mut status = StatusView { objectives, leaving, ..sample };
    status.fleet.servers.push(filled());
    insta::assert_snapshot!("status", shape(&status));
    insta::assert_snapshot!("fleet", shape(&status.fleet));
    let row = RowView { name: "n".into(), id: "i".into(), example: Some("e".into()), figures: filled() };
    let question = Question {
        sort: Some(Sort::Time),
        digest: Some("d".into()),
        endpoint: Some("e".into()),
        server: Some("s".into()),
        ..Question::default()
    };
    let top = InsightView {
        question,
        total: FiguresView { error_codes: BTreeMap::new(), ..filled() },
        rows: vec![row],
        requests: vec![RequestView::default()],
        not_measured: Some("why".into()),
        notes: vec!["note".into()],
        ..InsightView::default()
    };
    insta::assert_snapshot!("top", shape(&top));
}

#[test]
fn json_of_an_agent_keeps_its_keys() {
    insta::assert_snapshot!("watch", shape(&watch()));
    let series =
        history_view::SeriesView { name: "n", label: "l", unit: filled(), values: vec![Some(1.0), None] };
    let subject = SubjectView {
        subject: Subject::Server("db1".into()),
        series: vec![series],
        verdicts: vec![SpanView { from_s: 1.0, to_s: 2.0, name: Some(filled()), called: "c" }],
        gaps: vec![history_view::GapView { from_s: 1.0, to_s: Some(2.0), why: "w".into() }],
    };
    let host = SubjectView {
        subject: Subject::Host,
        series: Vec::new(),
        verdicts: vec![SpanView { from_s: 1.0, to_s: 2.0, name: None, called: "c" }],
        gaps: vec![history_view::GapView { from_s: 1.0, to_s: None, why: "w".into() }],
    };
    let kept = KeptView { readings_s: 1, minutes_s: 1, bytes: 1, bytes_at_most: 1, untold: 0 };
    let history = HistoryView {
        now_s: 1.0,
        now_epoch_s: 1.0,
        from_s: 1.0,
        to_s: 1.0,
        step_s: 1.0,
        subjects: vec![subject, host],
        jumps: vec![JumpView { at_s: 1.0, by_s: 1.0 }],
        kept,
    };
    insta::assert_snapshot!("history", shape(&history));
    insta::assert_snapshot!("watch_explain", shape(&agent::RuleView::find("cpu-limit").unwrap()));
}

#[test]
fn json_of_load_and_measure_keeps_its_keys() {
    let outcome = load::Outcome {
        workload: "w".into(),
        options: "o".into(),
        arrivals: load::Arrivals::poisson(1.0),
        protocol: filled(),
        clients: 1,
        idle: 1,
        threads: 1,
        seed: 1,
        seconds: 1.0,
        void: filled(),
        notes: filled(),
        totals: filled(),
        response: filled(),
        service: filled(),
        transactions: filled(),
        statements: filled(),
        series: filled(),
        generator: filled(),
    };
    insta::assert_snapshot!("load", shape(&outcome));
    let run = load::store::Run { id: 1, at: 1, label: "l".into(), target: "t".into(), outcome };
    insta::assert_snapshot!("report_list", shape(&[load::report::RunView::from(&run)]));
    let page = load::report::PageView { page: "p".into(), runs: vec![1] };
    insta::assert_snapshot!("report_page", shape(&page));
    insta::assert_snapshot!("load_list", shape(&load::workload::named::all()));
    let tables = load::tables::TablesReport {
        done: load::tables::TablesChange::Prepared,
        workload: "w".into(),
        target: "t".into(),
        database: "d".into(),
        tables: vec!["t".into()],
        rows_each: Some(1),
        statements: 1,
    };
    insta::assert_snapshot!("load_tables", shape(&tables));
    let objective: load::measure::Objective = filled();
    let capacity = load::measure::Capacity {
        rate: Some(1.0),
        lower: Some(1.0),
        upper: Some(1.0),
        nine_of_ten: Some(1.0),
        one_of_ten: Some(1.0),
    };
    let measured = MeasureReport {
        workload: "w".into(),
        target: "t".into(),
        objective,
        goal: load::measure::Goal::new(objective, std::time::Duration::from_secs(1), 1.0, 2.0),
        capacity: Some(capacity),
        refused: Some("why".into()),
        current: Some(1.0),
        current_from: Some("f".into()),
        headroom: Some(1.0),
        noise_ms: 1.0,
        too_few_clients: true,
        voided: filled(),
        trials: filled(),
    };
    insta::assert_snapshot!("measure", shape(&measured));
}

#[test]
fn json_of_knob_keeps_its_keys() {
    let view = KnobView {
        knob: "k".into(),
        family: knob::catalogue::Family::Server,
        value: Some("v".into()),
        unreadable: Some("u".into()),
        takes: "t".into(),
        danger: Some("d".into()),
        change: knob::catalogue::Change::Dynamic,
        proof: knob::catalogue::Proof::ReadBack,
        state_with: Some("s".into()),
        source: "s",
        help: "h",
    };
    insta::assert_snapshot!("knob_list", shape(&[view]));
    let refusal = || knob::Refusal::Absent { what: "w".into() };
    let outcome = |status| knob::apply::Outcome {
        knob: "k".into(),
        value: "v".into(),
        before: Some("b".into()),
        status,
    };
    let restored = |end, failed| knob::session::RestoreOutcome {
        knobs: vec!["k".into()],
        before: vec!["b".into()],
        end,
        failed,
        facts: knob::identity::Facts::new(),
    };
    let tuner = knob::tuner::Tuner { program: "p".into(), pid: 1, why: "w".into(), rewrites: Vec::new() };
    let outcomes = [
        outcome(knob::apply::Status::Applied { note: Some("n".into()) }),
        outcome(knob::apply::Status::Refused { refusal: refusal() }),
    ];
    let left = knob::journal::End::Left { why: "w".into() };
    let restored = [restored(Some(left), None), restored(None, Some(refusal()))];
    let left_out = ["l".to_owned()];
    let report = SetReport {
        tuners: &[tuner],
        tuners_unknown: Some("w"),
        left_out: &left_out,
        recovered: &restored,
        outcomes: &outcomes,
        restored: &restored,
    };
    insta::assert_snapshot!("knob_set", shape(&report));
    let write =
        knob::apply::Write { item: "i".into(), from: "f".into(), to: "t".into(), note: Some("n".into()) };
    let preview = |writes| Preview { knob: "k".into(), value: "v".into(), writes };
    let previews = [preview(Writes::Writes(vec![write])), preview(Writes::Refused(refusal()))];
    insta::assert_snapshot!("knob_dry_run", shape(&previews));
}

#[test]
fn json_of_switchover_keeps_its_keys() {
    use switchover::perform::{Kind, Plan};
    let plan = Plan {
        kind: Kind::Switchover,
        epoch: 1,
        primary: filled(),
        primary_id: 1,
        candidate: filled(),
        others: filled(),
        events: filled(),
        events_left: filled(),
        events_enabled: filled(),
        events_unknown: false,
        semi_sync: true,
        semi_sync_stays_off: false,
        protection: filled(),
        deadlines: filled(),
        by: "b".into(),
    };
    let finding = switchover::check::Finding {
        check: "c",
        level: switchover::check::Level::Pass,
        facts: "f".into(),
        mend: Some("m".into()),
    };
    let checked = switchover::text::Checked {
        plan: &plan,
        findings: std::slice::from_ref(&finding),
        silent: &[(fleet::ServerName::new("s"), "w".to_owned())],
    };
    insta::assert_snapshot!("switchover_check", shape(&checked));
    let failover = switchover::failover::text::Checked {
        dead: "d".into(),
        candidate: Some("c".into()),
        why_nobody: Some("w".into()),
        nothing_lost_because: Some("n".into()),
        could_be_lost: Some("c".into()),
        semi_sync_stays_off: false,
        events_left: vec!["e".to_owned()],
        events_enabled: vec!["e".to_owned()],
        events_unknown: false,
        silent: vec![fleet::ServerName::new("s")],
        replicas: vec![fleet::ServerName::new("r")],
        replicas_complete: false,
        asked_router: Some("127.0.0.1:9306".to_owned()),
        own_privileges: finding.clone(),
    };
    insta::assert_snapshot!("failover_check", shape(&failover));
    let not_done = switchover::failover::text::NotDone { done: false, why: "w".into() };
    insta::assert_snapshot!("switchover_not_done", shape(&not_done));
    let pause = switchover::guard::record::Pause {
        by: "b".into(),
        why: "w".into(),
        left: Some(std::time::Duration::from_secs(1)),
    };
    let primary = fleet::ServerName::new("p");
    let written = switchover::guard::status::PauseReport {
        primary,
        pause: Some(pause),
        late: Vec::new(),
        generation: 7,
    };
    insta::assert_snapshot!("guard_pause", shape(&written));
}

#[test]
fn json_of_trial_keeps_its_keys() {
    let settings = || vec![("k".to_owned(), "v".to_owned())];
    let spread = Spread { low: 1.0, middle: 1.0, high: 1.0 };
    let run = || Figures {
        per_second: Some(1.0),
        p99_ms: Some(1.0),
        seconds: Some(spread),
        p99_seconds: Some(spread),
        host: vec![1.0],
        bottleneck: Some(("b".into(), 1)),
        trials: 1,
    };
    let cell = |standing| CellReport {
        cell: 1,
        settings: settings(),
        standing,
        effect: Some(filled()),
        ratio: Some(filled()),
        seen: Some(1.0),
        run: run(),
        figures: vec![(1, 1, 1.0)],
    };
    let (knob, from, to) = ("k".into(), "f".into(), "t".into());
    let verdict = trial::verdict::Verdict::Better;
    let standing = FactorStanding::Judged { ratio: filled(), p_differs: 1.0, verdict };
    let factor = FactorEffect { knob, from, to, estimate: 1.0, standing };
    let level = || ("k".to_owned(), "v".to_owned());
    let pair = PairEffect { one: level(), other: level(), ratio: filled(), p_differs: 1.0 };
    let mixture = Mixture { what: "w".into(), with: vec!["o".into()] };
    let moment = Moment { minute: 1.0, per_second: 1.0, p99_ms: 1.0 };
    let winner = || Winner {
        cell: 1,
        settings: settings(),
        dangerous: true,
        ratio: filled(),
        confidence: 0.95,
        compared: 1,
        snippet: "s".into(),
    };
    let load = LoadReport {
        point: filled(),
        words: "w".into(),
        baseline: Some(1.0),
        baseline_range: Some((1.0, 2.0)),
        noise: Some(1.0),
        same: Some(Same { effect: filled(), ratio: filled(), p_differs: 1.0 }),
        void: true,
        void_trials: settings(),
        unsteady: 1,
        undetermined: 1,
        back: Some(1.0),
        back_differs: true,
        baseline_run: run(),
        effects: Some(Effects { main: vec![factor], pairs: vec![pair], mixed: vec![mixture], trials: 1 }),
        courses: vec![("c".into(), vec![moment])],
        cells: vec![
            cell(Standing::Judged { verdict: trial::verdict::Verdict::Better }),
            cell(Standing::Dropped { stage: 1 }),
            cell(Standing::Refused { why: "w".into() }),
        ],
        winner: Some(winner()),
        safe: Some(winner()),
    };
    let report = Report {
        name: "n".into(),
        metric: trial::spec::Metric::P99,
        smallest_effect: 1.0,
        level: 1.0,
        seed: 1,
        server: "s".into(),
        setup: settings(),
        elsewhere: true,
        version: "v".into(),
        begun: 1,
        seconds: 1.0,
        trials: 1,
        left: 1,
        ended: true,
        complete: true,
        stages: filled(),
        baseline: settings(),
        refused: filled(),
        differ: Some(filled()),
        loads: vec![load],
        spec: "s".into(),
    };
    insta::assert_snapshot!("trial_report", shape(&report));
}

#[test]
fn metrics_keep_their_names_and_labels() {
    let status = StatusView {
        objectives: vec![filled()],
        webhook: Some(filled()),
        ..console::sample_status::status()
    };
    let router = console::status_metrics::text(&status, "").unwrap();
    insta::assert_snapshot!("router_metrics", families(&router));
    insta::assert_snapshot!("agent_metrics", families(&agent::metrics::text(&watch()).unwrap()));
}
