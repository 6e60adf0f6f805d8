//! Endpoints of the application: objectives, durations, errors, and whether it is the database.

use super::{Choice, Dashboard, Limits, Panel, Row, Unit};

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        path: "deploy/grafana/headroom-endpoints.json",
        uid: "headroom-endpoints",
        title: "Headroom / Endpoints",
        description: "objectives and their budgets, durations and errors by endpoint and server, and whether it is the database",
        chosen_by: "headroom_uptime_seconds",
        choices: &[
            Choice {
                name: "endpoint",
                label: "Endpoint",
                metric: "headroom_endpoint_duration_seconds_count",
            },
            Choice { name: "server", label: "Server", metric: "headroom_answer_duration_seconds_count" },
        ],
        rows: vec![objectives(), endpoints(), servers(), requests(), measured()],
    }
}

fn objectives() -> Row {
    Row {
        title: "Objectives",
        panels: vec![
            Panel::states("Incidents", "max by (objective) (headroom_incident_open)", "{{objective}}")
                .limits(Limits::Bad)
                .says("An incident is open while the budget of an objective burns too fast, by the objective's own limits. Of routers and agents.")
                .guide("objectives.md#when-an-incident-opens"),
            Panel::lines("Burn rate, fast windows", Unit::Count, "max by (objective) (headroom_objective_burn_rate{window=\"fast\"})", "{{objective}} 1 h")
                .query("max by (objective) (headroom_objective_burn_rate{window=\"fast_short\"})", "{{objective}} 5 min")
                .wide(12)
                .limits(Limits::Above(1.0, 14.4))
                .says("How many times as fast as allowed the budget is spent. An incident opens when both are above 14.4 (fast_burn).")
                .guide("objectives.md#when-an-incident-opens"),
            Panel::lines("Burn rate, slow windows", Unit::Count, "max by (objective) (headroom_objective_burn_rate{window=\"slow\"})", "{{objective}} 6 h")
                .query("max by (objective) (headroom_objective_burn_rate{window=\"slow_short\"})", "{{objective}} 30 min")
                .wide(12)
                .limits(Limits::Above(1.0, 6.0))
                .says("The same over longer windows; an incident opens when both are above 6 (slow_burn).")
                .guide("objectives.md#when-an-incident-opens"),
            Panel::lines("Incidents", Unit::Count, "sum by (objective) (headroom_incidents_of_the_week)", "{{objective}}, last seven days")
                .query("sum by (objective) (increase(headroom_incidents_opened_total[1w]))", "{{objective}} opened, by Prometheus")
                .query("sum by (objective) (increase(headroom_incidents_closed_total[1w]))", "{{objective}} closed, by Prometheus")
                .wide(6)
                .says("Incidents by week. The first forgets what was before a restart.")
                .guide("objectives.md#when-an-incident-opens"),
            Panel::lines("Webhook", Unit::PerSecond, "sum by (outcome) (rate(headroom_webhook_calls_total[1h]))", "{{outcome}}")
                .wide(6)
                .says("Calls of the webhook. Lost ones told nobody.")
                .guide("objectives.md#the-webhook"),
        ],
    }
}

fn endpoints() -> Row {
    Row {
        title: "Statements by endpoint",
        panels: vec![
            Panel::lines("Statements", Unit::PerSecond, "sum by (endpoint) (rate(headroom_endpoint_duration_seconds_count{%,endpoint=~\"$endpoint\"}[5m]))", "{{endpoint}}")
                .says("Statements a second of each endpoint, as its tags name it.")
                .guide("insight.md#whose-a-statement-is"),
            Panel::lines("p99", Unit::Seconds, "histogram_quantile(0.99, sum by (endpoint, le) (rate(headroom_endpoint_duration_seconds_bucket{%,endpoint=~\"$endpoint\"}[5m])))", "{{endpoint}}")
                .says("99 of 100 statements take at most this long, from the first byte of the command to the last byte of its answer.")
                .guide("insight.md#what-the-figures-are"),
            Panel::lines("Median", Unit::Seconds, "histogram_quantile(0.5, sum by (endpoint, le) (rate(headroom_endpoint_duration_seconds_bucket{%,endpoint=~\"$endpoint\"}[5m])))", "{{endpoint}}")
                .says("Half of the statements take at most this long."),
            Panel::areas("Time of the database", Unit::Count, "sum by (endpoint) (rate(headroom_endpoint_duration_seconds_sum{%,endpoint=~\"$endpoint\"}[5m]))", "{{endpoint}}")
                .says("Statements under way on average: which endpoint takes the time.")
                .guide("insight.md"),
            Panel::lines("Errors", Unit::Share, "sum by (endpoint) (rate(headroom_endpoint_errors_total{%,endpoint=~\"$endpoint\"}[5m])) / (sum by (endpoint) (rate(headroom_endpoint_duration_seconds_count{%,endpoint=~\"$endpoint\"}[5m])) > 0)", "{{endpoint}}")
                .limits(Limits::Above(0.001, 0.01))
                .says("Share of the commands that were answered with an error."),
            Panel::lines("Rows a statement", Unit::Count, "sum by (endpoint) (rate(headroom_endpoint_rows_total{%,endpoint=~\"$endpoint\"}[5m])) / (sum by (endpoint) (rate(headroom_endpoint_duration_seconds_count{%,endpoint=~\"$endpoint\"}[5m])) > 0)", "{{endpoint}}")
                .says("Rows sent to the client for each statement."),
        ],
    }
}

fn servers() -> Row {
    Row {
        title: "Answers by server",
        panels: vec![
            Panel::lines("Answers", Unit::PerSecond, "sum by (server) (rate(headroom_answer_duration_seconds_count{%,server=~\"$server\"}[5m]))", "{{server}}")
                .says("Statements a second that each server answered, of those that are measured."),
            Panel::lines("p99", Unit::Seconds, "histogram_quantile(0.99, sum by (server, le) (rate(headroom_answer_duration_seconds_bucket{%,server=~\"$server\"}[5m])))", "{{server}}")
                .says("One server above the others: look at it with headroom watch. All of them: look at the endpoints.")
                .guide("watch.md"),
            Panel::lines("Mean", Unit::Seconds, "sum by (server) (rate(headroom_answer_duration_seconds_sum{%,server=~\"$server\"}[5m])) / (sum by (server) (rate(headroom_answer_duration_seconds_count{%,server=~\"$server\"}[5m])) > 0)", "{{server}}")
                .says("Mean time of a statement on each server."),
        ],
    }
}

fn requests() -> Row {
    Row {
        title: "Requests: is it the database?",
        panels: vec![
            Panel::lines("Span, p99", Unit::Seconds, "histogram_quantile(0.99, sum by (endpoint, le) (rate(headroom_request_span_seconds_bucket{%,endpoint=~\"$endpoint\"}[5m])))", "{{endpoint}}")
                .wide(6)
                .says("From a request's first statement to its last answer. Needs an id of the request in its statements.")
                .guide("insight.md#is-it-the-database"),
            Panel::lines("Share that is not the database", Unit::Share, "sum by (endpoint) (rate(headroom_request_thinking_seconds_total{%,endpoint=~\"$endpoint\"}[5m])) / (sum by (endpoint) (rate(headroom_request_span_seconds_sum{%,endpoint=~\"$endpoint\"}[5m])) > 0)", "{{endpoint}}")
                .wide(6)
                .says("Share of the span in which no statement of the request is under way: the application thinks.")
                .guide("insight.md#is-it-the-database"),
            Panel::lines("Statements a request", Unit::Count, "sum by (endpoint) (rate(headroom_request_commands_total{%,endpoint=~\"$endpoint\"}[5m])) / (sum by (endpoint) (rate(headroom_request_span_seconds_count{%,endpoint=~\"$endpoint\"}[5m])) > 0)", "{{endpoint}}")
                .wide(6)
                .says("How many statements a request sends: an N+1 is seen here.")
                .guide("insight.md"),
            Panel::lines("Database time a request", Unit::Seconds, "sum by (endpoint) (rate(headroom_request_database_seconds_total{%,endpoint=~\"$endpoint\"}[5m])) / (sum by (endpoint) (rate(headroom_request_span_seconds_count{%,endpoint=~\"$endpoint\"}[5m])) > 0)", "{{endpoint}}")
                .wide(6)
                .says("Time of all statements of a request together.")
                .guide("insight.md#is-it-the-database"),
        ],
    }
}

fn measured() -> Row {
    Row {
        title: "What is not measured",
        panels: vec![
            Panel::lines(
                "Sessions that cannot be read",
                Unit::PerSecond,
                "sum by (reason) (rate(headroom_insight_unread_sessions_total{%}[5m]))",
                "{{reason}}",
            )
            .wide(12)
            .says("Sessions whose statements are not seen, by reason: silence here is not health.")
            .guide("insight.md#what-cannot-be-seen"),
            Panel::lines(
                "Names in use",
                Unit::Count,
                "max by (kind) (headroom_insight_names{%})",
                "{{kind}}",
            )
            .wide(12)
            .says("Digests and endpoints that are told apart; beyond the limit they count as (other).")
            .guide("insight.md#what-it-costs"),
        ],
    }
}
