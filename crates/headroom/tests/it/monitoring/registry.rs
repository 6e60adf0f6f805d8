//! Every public metric, from expositions of values in which everything is filled: name, type, labels,
//! meaning.

use crate::shapes::filled::filled;
use console::status_view::StatusView;
use insight::{Collector, CommandObserver, Ledger, Session, Shared, Since};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};
use switchover::guard::GuardStatus;
use switchover::guard::decide::{Decision, LockCount};
use wire::response::TextResult;
use wire::{Capabilities, Greeting, Login, Status, Tracker, packet};

/// A family of metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) kind: String,
    pub(crate) help: String,
    pub(crate) labels: BTreeSet<String>,
}

pub(crate) type Metrics = BTreeMap<String, Metric>;

/// The families of an exposition in OpenMetrics.
pub(crate) fn families(exposition: &str) -> Metrics {
    let mut all = Metrics::new();
    for line in exposition.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            all.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
        {
            all.entry(name.to_owned()).or_default().help = help.to_owned();
        } else if !line.starts_with('#') {
            let sample = line.split(['{', ' ']).next().unwrap();
            let of =
                all.keys().filter(|name| sample.starts_with(name.as_str())).max_by_key(|name| name.len());
            let of = of.cloned().unwrap_or_else(|| panic!("of no family: {line}"));
            let inside =
                line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map(|(inside, _)| inside);
            let names = inside.unwrap_or_default().split("\",").filter_map(|pair| pair.split_once('='));
            all.get_mut(&of).unwrap().labels.extend(names.map(|(name, _)| name.to_owned()));
        }
    }
    all
}

/// What a router says.
pub(crate) fn router() -> String {
    let mut status = StatusView {
        objectives: vec![filled()],
        webhook: Some(filled()),
        recording: Some(filled()),
        data_path: "io_uring".into(),
        most_sessions: Some(1),
        fallbacks: filled(),
        ..console::sample_status::status()
    };
    status.fleet.servers.push(filled());
    status.fleet.epoch = filled();
    status.process.held_back = filled();
    status.listeners.push(filled());
    console::status_metrics::text(&status, &measured()).unwrap()
}

/// What an agent says.
pub(crate) fn agent() -> String {
    agent::metrics::text(&filled()).unwrap()
}

/// What a guard says.
pub(crate) fn guard() -> String {
    let status = GuardStatus {
        primary: None,
        active: true,
        lock: LockCount { held: 1, of: 1 },
        decision: Decision::Watch,
        pause: None,
        last_failover: None,
        last_attempt: None,
        left_to_person: None,
        dry_run: false,
        failovers: 1,
        not_done: 1,
        rounds: 1,
    };
    status.metrics()
}

/// Program -> what it says.
pub(crate) fn programs() -> [(&'static str, String); 3] {
    [("headroom route", router()), ("headroom agent", agent()), ("headroom guard", guard())]
}

/// All metrics of all programs.
pub(crate) fn all() -> Metrics {
    let mut all = Metrics::new();
    for (_, exposition) in programs() {
        for (name, metric) in families(&exposition) {
            let known = all.entry(name).or_insert_with(|| metric.clone());
            known.labels.extend(metric.labels);
        }
    }
    all
}

/// The part of insight: a session that sends a statement of a request, whose request is over.
fn measured() -> String {
    let capabilities = Capabilities::ORDINARY.union(Capabilities::DEPRECATE_EOF);
    let shared = Shared::new(config::InsightConfig::default());
    let ledger = Rc::new(RefCell::new(Ledger::new(shared.clone())));
    let mut session = Session::begin(ledger.clone(), "db1", "reader 127.0.0.1:3306");
    let (mut tracker, now) = (Tracker::new(), Instant::now());
    let framed = |mut sequence: u8, payload: &[u8]| {
        let mut bytes = Vec::new();
        packet::write(&mut bytes, &mut sequence, payload);
        bytes
    };
    let greeting = Greeting {
        version: "8.4.3".into(),
        connection_id: 1,
        nonce: vec![1; 20],
        capabilities,
        charset: 45,
        status: Status::AUTOCOMMIT,
        auth_plugin: String::new(),
    };
    let login = Login { capabilities, user: b"shop", ..Login::default() };
    let ok = wire::response::OkPacket { status: Status::AUTOCOMMIT, ..Default::default() };
    let mut rows = Vec::new();
    let result = TextResult { status: Status::AUTOCOMMIT, ..TextResult::of(&["c"]) };
    result.write(&mut rows, &mut 1, capabilities);
    for (from_client, bytes) in [
        (false, framed(0, &greeting.encode())),
        (true, framed(1, &login.encode())),
        (false, framed(2, &ok.encode(capabilities))),
        (true, framed(0, b"\x03SELECT 1 /*endpoint='cart',request_id='r1'*/")),
        (false, rows),
    ] {
        let mut observer = session.observe(&tracker, || now);
        match from_client {
            true => tracker.client_bytes_with(&bytes, &mut observer),
            false => tracker.server_bytes_with(&bytes, &mut observer),
        };
        CommandObserver::finish(observer, &tracker);
    }
    let mut snapshot = [ledger.borrow_mut().snapshot(true)];
    let mut collector = Collector::new(shared, now);
    let later = now + Duration::from_secs(60);
    collector.absorb(&mut snapshot, later);
    console::insight_metrics::text(&collector.report(&snapshot, Since::Start, now, later))
}
