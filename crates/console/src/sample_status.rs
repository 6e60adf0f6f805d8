//! A status that never changes, for tests of everything that shows one.

#![allow(clippy::unwrap_used, reason = "a sample that only tests show")]

use crate::PendingReport;
use crate::admin::Live;
use crate::objectives::view::{BurnView, IncidentView, ObjectiveView, WebhookView};
use crate::status_view::*;
use config::AdminAccess;
use insight::Since;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A router of three zones: one without a reader, one replica silent, one lagging.
pub fn status() -> StatusView {
    let mut status = StatusView {
        process: ProcessView {
            version: "0.1.0".into(),
            pid: 4711,
            stopping: false,
            uptime_s: 7_512.0,
            config: Some("/etc/headroom/headroom.toml".into()),
            reload: None,
            held_back: None,
        },
        ..StatusView::default()
    };
    status.fleet = FleetView {
        round: 15_022,
        age_ms: 212.0,
        own_zone: Some(zone("us-east-1a")),
        writer: Some("db1".into()),
        writer_unknown_because: None,
        epoch: crate::status_view::EpochView::default(),
        demand: DemandView {
            source: "statement counters by client host".into(),
            reads_per_second: Some(18_420.0),
            idle: false,
            unplaced: 0.012,
            zones: [("us-east-1a", 0.40), ("us-east-1b", 0.35), ("us-east-1c", 0.25)].map(|(z, s)| (z.to_owned(), s)).into(),
        },
        servers: vec![
            server("db1", "primary", "us-east-1a", 0, None),
            server("db2", "replica", "us-east-1a", 31, Some(0.50)),
            server("db3", "replica", "us-east-1b", 17, Some(0.50)),
            server("db4", "replica", "us-east-1b", 0, Some(0.0)),
            server("analytics", "replica", "us-east-1b", 0, None),
        ],
        remarks: vec!["db3: the account headroom may not read performance_schema; GRANT SELECT ON performance_schema.* TO 'headroom'@'%'".into()],
    };
    status.fleet.servers[0].lag_ms = None;
    let silent = &mut status.fleet.servers[3];
    silent.state = "silent".into();
    silent.state_because = Some("accepts TCP and sent no greeting within 1s".into());
    silent.lag_ms = None;
    (silent.state_for_s, silent.lag_unknown_for_s) = (Some(252.0), Some(252.0));
    ineligible(silent, "silent", "silent: accepts TCP and sent no greeting within 1s");
    let analytics = &mut status.fleet.servers[4];
    analytics.reserved = Some("[[server]] match = \"analytics*\"".into());
    ineligible(analytics, "reserved", "reserved by [[server]] match = \"analytics*\"");
    for server in &mut status.fleet.servers {
        server.lag_text = crate::fleet_view::lag(server);
    }
    let event = |age_s: f64, severity: &str, kind: &str, subject: &str, text: &str, lasted_s| EventView {
        at_ms: 1_764_000_000_000 - (age_s * 1e3) as u64,
        age_s,
        severity: severity.into(),
        kind: kind.into(),
        subject: subject.into(),
        text: text.into(),
        lasted_s,
    };
    let why = "db4 does not answer: accepts TCP and sent no greeting within 1s";
    status.events = vec![
        event(
            41.0,
            "info",
            "flow",
            "us-east-1c",
            "reads born in us-east-1c go to us-east-1a 100 % (before 60 %)",
            Some(7_300.0),
        ),
        event(252.0, "warn", "state", "db4", why, Some(90_000.0)),
    ];
    status.leaving = vec![LeavingView {
        server: "db3".into(),
        role: "reader".into(),
        sessions: 3,
        why: "moved: balance".into(),
        waits_for: "the pace of 2.4 sessions a second".into(),
    }];
    status.objectives = vec![ObjectiveView {
        name: "checkout".into(),
        promise: "99 % of statements of endpoint checkout within 15ms".into(),
        not_judged: None,
        burn: BurnView { fast: Some(17.2), fast_short: Some(22.0), slow: Some(3.1), slow_short: Some(8.0) },
        incident: Some(IncidentView {
            for_s: 312.0,
            pace: "fast".into(),
            worst_burn: 41.5,
            calm_for_s: None,
        }),
        opened: 3,
        closed: 2,
        by_week: vec![1, 2, 0, 0],
    }];
    status.webhook = Some(WebhookView {
        to: "https://hooks.example:443".into(),
        delivered: 5,
        tried_again: 1,
        ..WebhookView::default()
    });
    status.flow = FlowView {
        zones: ["us-east-1a", "us-east-1b", "us-east-1c"].map(str::to_owned).into(),
        demand: vec![0.40, 0.35, 0.25],
        capacity: vec![0.5, 0.5, 0.0],
        rows: vec![vec![1.0, 0.0, 0.0], vec![0.0, 1.0, 0.0], vec![0.4, 0.6, 0.0]],
    };
    let listener = |address: &str, role: &str, sessions| ListenerView {
        address: address.into(),
        role: role.into(),
        sessions,
        max_sessions: 10_000,
        open: sessions,
        accepted: sessions * 41,
        connections: sessions * 41,
        tls: "passthrough".into(),
        refused: [("max_sessions".to_owned(), 0)].into(),
        ..ListenerView::default()
    };
    status.listeners =
        vec![listener("127.0.0.1:3306", "reader", 48), listener("127.0.0.1:3307", "writer", 12)];
    status.fallbacks = vec![FallbackView {
        name: "servers_without_zone".into(),
        text: "db9 stands in no known zone and gets reads as if it were far away".into(),
    }];
    status.counters = CountersView {
        holding: 0,
        closed: [("client left".to_owned(), 3120), ("moved: balance".to_owned(), 12)].into(),
    };
    status
}

fn zone(name: &str) -> ZoneView {
    ZoneView { zone: name.into(), by: "rule".into() }
}

fn server(name: &str, role: &str, zone_name: &str, sessions: u64, share: Option<f64>) -> ServerView {
    let eligible =
        EligibleView { eligible: role == "replica", capacity: 1.0, reason: None, reason_label: None };
    ServerView {
        name: name.into(),
        reach: format!("{name}.example.net:3306"),
        version: Some("MariaDB 10.11.14".into()),
        role: role.into(),
        because: if role == "primary" { "writable, and 4 replicas follow it" } else { "follows db1" }.into(),
        state: "answering".into(),
        zone: Some(zone(zone_name)),
        lag_ms: Some(3.0),
        weight: 1.0,
        replication: "running".into(),
        share_of_load: share,
        round_trip_ms: Some(0.42),
        statements_per_second: 4_000.0,
        routing: Some(RoutingView {
            reads: eligible,
            writes: EligibleView { eligible: role == "primary", ..EligibleView::default() },
            sessions,
            connections: sessions * 40,
            commands: sessions * 10_000,
            bytes_to_server: 1,
            bytes_to_client: 2,
            readers: sessions,
            share: 0.5,
            picks: [("own zone".to_owned(), sessions)].into(),
            closed: [("moved: balance".to_owned(), 12)].into(),
            ..RoutingView::default()
        }),
        ..ServerView::default()
    }
}

fn ineligible(server: &mut ServerView, label: &str, reason: &str) {
    if let Some(routing) = &mut server.routing {
        routing.reads = EligibleView {
            eligible: false,
            capacity: 0.0,
            reason: Some(reason.into()),
            reason_label: Some(label.into()),
        };
    }
}

/// Answers with [`status`], to the names that it is given.
#[derive(Default)]
pub struct SampleRouter {
    access: Mutex<Arc<AdminAccess>>,
    /// How often its status was asked for.
    pub asked: AtomicUsize,
    /// What it says is wrong with itself.
    pub troubles: Mutex<Vec<String>>,
}

impl SampleRouter {
    /// Answers to this name, too.
    pub fn allow(&self, name: &str) {
        let names = vec![name.to_owned()];
        *self.access.lock().unwrap() = Arc::new(AdminAccess { names, ..AdminAccess::default() });
    }

    /// Answers are given again for this long.
    pub fn cache(&self, cache: Duration) {
        *self.access.lock().unwrap() = Arc::new(AdminAccess { cache, ..AdminAccess::default() });
    }
}

impl Live for SampleRouter {
    fn status(&self) -> StatusView {
        self.asked.fetch_add(1, Relaxed);
        status()
    }

    fn troubles(&self) -> Vec<String> {
        self.troubles.lock().unwrap().clone()
    }

    fn report(&self, _: Since) -> PendingReport {
        Box::pin(std::future::ready(None))
    }

    fn access(&self) -> Arc<AdminAccess> {
        self.access.lock().unwrap().clone()
    }
}

/// Writes the status where a browser can be shown it: `HEADROOM_SAMPLE_STATUS=FILE cargo test sample_status`.
#[cfg(test)]
#[test]
#[allow(clippy::disallowed_methods, reason = "a person looks at the page of a sample")]
fn a_sample_status_reads_back() {
    let text = serde_json::to_string_pretty(&status()).unwrap();
    assert_eq!(serde_json::from_str::<StatusView>(&text).unwrap(), status());
    if let Ok(path) = std::env::var("HEADROOM_SAMPLE_STATUS") {
        std::fs::write(path, text).unwrap();
    }
}
