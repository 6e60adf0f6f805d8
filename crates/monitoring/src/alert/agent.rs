//! What agents say: the bottleneck in force, how much room is left, whether they see anything at all.

use super::{Alert, Severity};

pub(super) const ALERTS: &[Alert] = &[
    Alert {
        name: "HeadroomAgentDown",
        severity: Severity::Ticket,
        expr: "up{job=~\"headroom-agent.*\"} == 0",
        hold: "5m",
        summary: "The agent {{ $labels.instance }} does not answer; nobody watches its host and servers",
        first: "On that host: systemctl status headroom-agent, then its last log lines",
        guide: "watch.md#several-hosts",
        fires: &[("up{job=\"headroom-agent\",instance=\"db1\"}", "0x40")],
        labels: &[("job", "headroom-agent"), ("instance", "db1")],
        quiet: &[("up{job=\"headroom-agent\",instance=\"db1\"}", "1x40")],
    },
    Alert {
        name: "HeadroomBottleneck",
        severity: Severity::Ticket,
        expr: "headroom_bottleneck == 1",
        hold: "10m",
        summary: "{{ with $labels.server }}{{ . }}{{ else }}The host{{ end }} ({{ $labels.instance }}) has had a bottleneck for ten minutes: {{ $labels.name }}",
        first: "headroom watch there: it has the evidence and what to try first; headroom watch --explain {{ $labels.name }}",
        guide: "watch.md#how-a-verdict-is-found",
        fires: &[(
            "headroom_bottleneck{job=\"a\",instance=\"db1\",server=\"db1\",name=\"cpu-limit\"}",
            "1x40",
        )],
        labels: &[("job", "a"), ("instance", "db1"), ("server", "db1"), ("name", "cpu-limit")],
        quiet: &[(
            "headroom_bottleneck{job=\"a\",instance=\"db1\",server=\"db1\",name=\"cpu-limit\"}",
            "1x5 _x35",
        )],
    },
    Alert {
        name: "HeadroomLittleHeadroom",
        severity: Severity::Notice,
        expr: "max by (cluster, job, instance, server, name) (headroom_tightest_ceiling_share) > 0.9 \
               unless on (cluster, job, instance, server) headroom_bottleneck",
        hold: "30m",
        summary: "{{ with $labels.server }}{{ . }}{{ else }}The host{{ end }} ({{ $labels.instance }}) uses {{ $value | humanizePercentage }} of its tightest ceiling: {{ $labels.name }}",
        first: "headroom measure finds how much more it can serve; headroom plan what more of it would buy",
        guide: "measure.md",
        fires: &[(
            "headroom_tightest_ceiling_share{job=\"a\",instance=\"db1\",server=\"\",name=\"cpu\"}",
            "0.95x80",
        )],
        labels: &[("job", "a"), ("instance", "db1"), ("name", "cpu")],
        quiet: &[(
            "headroom_tightest_ceiling_share{job=\"a\",instance=\"db1\",server=\"\",name=\"cpu\"}",
            "0.6x80",
        )],
    },
    Alert {
        name: "HeadroomWatchedServerSilent",
        severity: Severity::Ticket,
        expr: "headroom_watched_server_up == 0",
        hold: "5m",
        summary: "The agent {{ $labels.instance }} gets no answer from {{ $labels.server }}",
        first: "Its log and its page quote the error: the server's state, or the account's password and privileges",
        guide: "watch.md#the-account",
        fires: &[("headroom_watched_server_up{job=\"a\",instance=\"db1\",server=\"db1\"}", "0x40")],
        labels: &[("job", "a"), ("instance", "db1"), ("server", "db1")],
        quiet: &[("headroom_watched_server_up{job=\"a\",instance=\"db1\",server=\"db1\"}", "1x40")],
    },
    Alert {
        name: "HeadroomAgentStandsStill",
        severity: Severity::Notice,
        expr: "delta(headroom_watch_gaps[1h]) > 5",
        hold: "0m",
        summary: "The agent {{ $labels.instance }} missed readings {{ $value | humanize }} times within an hour",
        first: "/history.json of the agent has the reason of each gap: a frozen host, a server that was restarted",
        guide: "watch.md#the-history",
        fires: &[("headroom_watch_gaps{job=\"a\",instance=\"db1\"}", "0+1x80")],
        labels: &[("job", "a"), ("instance", "db1")],
        quiet: &[("headroom_watch_gaps{job=\"a\",instance=\"db1\"}", "3x80")],
    },
];
