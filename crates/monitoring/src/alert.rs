//! Every alert: when it fires, what to do first, where the guide says more, and two cases that test it.
//!
//! Several routers see the same servers. What they say of a server is put together by `cluster`, `job` and
//! `server`, so that a dead server is one alert and not one a router. `cluster` is a label of your own,
//! where you have one. What concerns a single process keeps its `instance`.
//!
//! Thresholds that the configuration has (`max_lag`, the burn rates of an objective) are not repeated here
//! where a metric already says that they are exceeded.

mod agent;
mod guard;
mod objective;
mod router;
mod server;

/// How soon somebody should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Now, at night too.
    Page,
    /// Today.
    Ticket,
    /// When there is time.
    Notice,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Ticket => "ticket",
            Self::Notice => "notice",
        }
    }
}

/// An alert.
#[derive(Clone, Copy, Debug)]
pub struct Alert {
    pub name: &'static str,
    pub severity: Severity,
    pub expr: &'static str,
    /// How long it must hold before it fires, in Prometheus's words; "0m": at once.
    pub hold: &'static str,
    /// What is wrong, in a line; may use labels and `$value`.
    pub summary: &'static str,
    /// What to do first.
    pub first: &'static str,
    /// Page and heading of the guide.
    pub guide: &'static str,
    /// Series in which it fires after half an hour.
    pub fires: &'static [Series],
    /// The labels that it has then, without name and severity.
    pub labels: &'static [(&'static str, &'static str)],
    /// Series that look alike, in which it does not.
    pub quiet: &'static [Series],
}

/// A series in promtool's words: its selector, and its values a minute apart.
pub type Series = (&'static str, &'static str);

/// An expression that is evaluated once and used by dashboards and alerts.
#[derive(Clone, Copy, Debug)]
pub struct Recording {
    pub name: &'static str,
    pub expr: &'static str,
    pub fires: &'static [Series],
    /// What it gives for them.
    pub labels: &'static str,
    pub value: &'static str,
}

/// Alerts of a subject, which become a group of rules.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    pub name: &'static str,
    pub called: &'static str,
    pub alerts: &'static [Alert],
}

pub const GROUPS: &[Group] = &[
    Group { name: "headroom-router", called: "Routers", alerts: router::ALERTS },
    Group { name: "headroom-server", called: "Servers, as routers see them", alerts: server::ALERTS },
    Group { name: "headroom-objective", called: "Objectives", alerts: objective::ALERTS },
    Group { name: "headroom-agent", called: "Hosts and servers, as agents see them", alerts: agent::ALERTS },
    Group { name: "headroom-guard", called: "Guards", alerts: guard::ALERTS },
];

/// Reads that leave their zone: what is left of all when those that stay are taken away. The flow table has
/// a cell for each pair of zones, and demand a share for each zone; demand with `from` and `to` of its own
/// zone selects the cells of the diagonal.
pub const RECORDINGS: &[Recording] = &[
    Recording {
        name: "instance:headroom_reads_leaving_zone:ratio",
        expr: "1 - sum by (cluster, job, instance) (\
               label_replace(label_replace(headroom_demand_share, \"from\", \"$1\", \"zone\", \"(.+)\"), \"to\", \"$1\", \"zone\", \"(.+)\") \
               * on (cluster, job, instance, from, to) headroom_flow_share) \
               / (sum by (cluster, job, instance) (headroom_demand_share) > 0)",
        fires: &[
            ("headroom_demand_share{job=\"r\",instance=\"x\",zone=\"a\"}", "0.5x40"),
            ("headroom_demand_share{job=\"r\",instance=\"x\",zone=\"b\"}", "0.5x40"),
            ("headroom_flow_share{job=\"r\",instance=\"x\",from=\"a\",to=\"a\"}", "1x40"),
            ("headroom_flow_share{job=\"r\",instance=\"x\",from=\"b\",to=\"a\"}", "0.5x40"),
            ("headroom_flow_share{job=\"r\",instance=\"x\",from=\"b\",to=\"b\"}", "0.5x40"),
        ],
        labels: "{job=\"r\",instance=\"x\"}",
        value: "0.25",
    },
    Recording {
        name: "instance:headroom_sessions_of_most:ratio",
        expr: "(sum by (cluster, job, instance) (headroom_listener_sessions) \
               - sum by (cluster, job, instance) (headroom_listener_sessions_bypassed)) \
               / max by (cluster, job, instance) (headroom_most_sessions)",
        fires: &[
            ("headroom_listener_sessions{job=\"r\",instance=\"x\",listener=\"l\"}", "900x40"),
            ("headroom_listener_sessions_bypassed{job=\"r\",instance=\"x\",listener=\"l\"}", "100x40"),
            ("headroom_most_sessions{job=\"r\",instance=\"x\"}", "1000x40"),
        ],
        labels: "{job=\"r\",instance=\"x\"}",
        value: "0.8",
    },
    Recording {
        name: "server:headroom_reachable_by_routers:ratio",
        expr: "avg by (cluster, job, server) (headroom_server_up)",
        fires: &[
            ("headroom_server_up{job=\"r\",instance=\"x\",server=\"db1\"}", "1x40"),
            ("headroom_server_up{job=\"r\",instance=\"y\",server=\"db1\"}", "0x40"),
        ],
        labels: "{job=\"r\",server=\"db1\"}",
        value: "0.5",
    },
    Recording {
        name: "endpoint:headroom_errors:ratio_rate5m",
        expr: "sum by (cluster, job, endpoint) (rate(headroom_endpoint_errors_total[5m])) \
               / (sum by (cluster, job, endpoint) (rate(headroom_endpoint_duration_seconds_count[5m])) > 0)",
        fires: &[
            ("headroom_endpoint_errors_total{job=\"r\",instance=\"x\",endpoint=\"e\"}", "0+6x40"),
            ("headroom_endpoint_duration_seconds_count{job=\"r\",instance=\"x\",endpoint=\"e\"}", "0+60x40"),
        ],
        labels: "{job=\"r\",endpoint=\"e\"}",
        value: "0.1",
    },
];

/// All alerts, in the order of their groups.
pub fn all() -> impl Iterator<Item = &'static Alert> {
    GROUPS.iter().flat_map(|group| group.alerts)
}
