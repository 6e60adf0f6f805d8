//! Objectives: the two pairs of windows of the SRE workbook, on the burn rates that routers and agents
//! count, and the webhook that would tell the same.
//!
//! The limits are the defaults of `[[objective]]` (14.4 and 6). Who wrote others there has
//! `headroom_incident_open`, which is judged by them.

use super::{Alert, Severity};

pub(super) const ALERTS: &[Alert] = &[
    Alert {
        name: "HeadroomObjectiveBurnsFast",
        severity: Severity::Page,
        expr: "headroom_objective_burn_rate{window=\"fast\"} > 14.4 \
               and ignoring (window) headroom_objective_burn_rate{window=\"fast_short\"} > 14.4",
        hold: "0m",
        summary: "The objective {{ $labels.objective }} is missed on {{ $labels.instance }}: its budget burns {{ $value | humanize }} times as fast as it may",
        first: "Dashboard of endpoints: which one, since when, on which server? Then headroom watch --server there",
        guide: "objectives.md#when-an-incident-opens",
        fires: &[
            (
                "headroom_objective_burn_rate{job=\"r\",instance=\"x\",objective=\"checkout\",window=\"fast\"}",
                "20x40",
            ),
            (
                "headroom_objective_burn_rate{job=\"r\",instance=\"x\",objective=\"checkout\",window=\"fast_short\"}",
                "30x40",
            ),
        ],
        labels: &[("job", "r"), ("instance", "x"), ("objective", "checkout"), ("window", "fast")],
        quiet: &[
            // It is over already.
            (
                "headroom_objective_burn_rate{job=\"r\",instance=\"x\",objective=\"checkout\",window=\"fast\"}",
                "20x40",
            ),
            (
                "headroom_objective_burn_rate{job=\"r\",instance=\"x\",objective=\"checkout\",window=\"fast_short\"}",
                "0.4x40",
            ),
        ],
    },
    Alert {
        name: "HeadroomObjectiveBurnsSlowly",
        severity: Severity::Ticket,
        expr: "headroom_objective_burn_rate{window=\"slow\"} > 6 \
               and ignoring (window) headroom_objective_burn_rate{window=\"slow_short\"} > 6",
        hold: "0m",
        summary: "The objective {{ $labels.objective }} has burned its budget {{ $value | humanize }} times as fast as it may for hours on {{ $labels.instance }}",
        first: "Dashboard of endpoints: compare p99 with last week; headroom watch --compare says whether a change did it",
        guide: "objectives.md#when-an-incident-opens",
        fires: &[
            (
                "headroom_objective_burn_rate{job=\"r\",instance=\"x\",objective=\"checkout\",window=\"slow\"}",
                "7x40",
            ),
            (
                "headroom_objective_burn_rate{job=\"r\",instance=\"x\",objective=\"checkout\",window=\"slow_short\"}",
                "8x40",
            ),
        ],
        labels: &[("job", "r"), ("instance", "x"), ("objective", "checkout"), ("window", "slow")],
        quiet: &[
            (
                "headroom_objective_burn_rate{job=\"r\",instance=\"x\",objective=\"checkout\",window=\"slow\"}",
                "5x40",
            ),
            (
                "headroom_objective_burn_rate{job=\"r\",instance=\"x\",objective=\"checkout\",window=\"slow_short\"}",
                "8x40",
            ),
        ],
    },
    Alert {
        name: "HeadroomIncidentOpen",
        severity: Severity::Ticket,
        expr: "headroom_incident_open == 1",
        hold: "15m",
        summary: "An incident of the objective {{ $labels.objective }} has been open for a quarter of an hour on {{ $labels.instance }}",
        first: "headroom status there has its worst burn rate and since when; it closes by itself after ten calm minutes",
        guide: "objectives.md#when-an-incident-opens",
        fires: &[("headroom_incident_open{job=\"r\",instance=\"x\",objective=\"checkout\"}", "1x40")],
        labels: &[("job", "r"), ("instance", "x"), ("objective", "checkout")],
        quiet: &[("headroom_incident_open{job=\"r\",instance=\"x\",objective=\"checkout\"}", "0x40")],
    },
    Alert {
        name: "HeadroomWebhookLost",
        severity: Severity::Ticket,
        expr: "increase(headroom_webhook_calls_total{outcome=\"lost\"}[1h]) > 0",
        hold: "0m",
        summary: "{{ $labels.instance }} could not deliver an incident to its webhook",
        first: "Its log has the answer of the receiver; try the address from that host with curl",
        guide: "objectives.md#the-webhook",
        fires: &[("headroom_webhook_calls_total{job=\"r\",instance=\"x\",outcome=\"lost\"}", "0x20 1x20")],
        labels: &[("job", "r"), ("instance", "x"), ("outcome", "lost")],
        quiet: &[(
            "headroom_webhook_calls_total{job=\"r\",instance=\"x\",outcome=\"tried_again\"}",
            "0+1x40",
        )],
    },
];
