//! Routers: whether they run and take sessions, what they refuse, where sessions go and why they end.

use super::{Choice, Dashboard, Limits, Panel, Row, Unit};

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        path: "deploy/grafana/headroom-router.json",
        uid: "headroom-router",
        title: "Headroom / Routers",
        description: "sessions, refusals, picks and moves of `headroom route`; its own health and what it asks the servers",
        chosen_by: "headroom_uptime_seconds",
        choices: &[Choice { name: "listener", label: "Listener", metric: "headroom_listener_sessions" }],
        rows: vec![health(), listeners(), servers(), bypass(), asking()],
    }
}

fn health() -> Row {
    let routers = Panel::table(
        "Routers",
        Unit::Count,
        &[
            ("instance", "instance"),
            ("version", "version"),
            ("path", "bytes move by"),
            ("Value #C", "seconds up"),
            ("Value #D", "remarks"),
            ("Value #E", "file accepted"),
            ("Value #F", "zero-hop"),
        ],
    );
    Row {
        title: "Health",
        panels: vec![
            Panel::figure("Threads healthy", Unit::Count, "min(headroom_data_plane_well{%})")
                .limits(Limits::Good)
                .says("Whether every thread and task answers, as /healthz says.")
                .guide("configuration.md#in-a-service"),
            Panel::figure("Configuration accepted", Unit::Count, "min(headroom_configuration_accepted{%})")
                .limits(Limits::Good)
                .says("No: a changed file was rejected and the previous one is in force.")
                .guide("configuration.md#changing-it-while-it-runs"),
            Panel::figure("Oldest look at the servers", Unit::Seconds, "max(headroom_snapshot_age_seconds{%})")
                .limits(Limits::Above(5.0, 30.0))
                .says("Age of the oldest snapshot that a router routes by.")
                .guide("who-is-who.md#states"),
            Panel::figure("Writes held", Unit::Count, "sum(headroom_holding{%})")
                .limits(Limits::Zero)
                .says("Writer connections that wait for a primary now.")
                .guide("routing.md#a-writer"),
            Panel::figure("Of the sessions there is room for", Unit::Share, "max(instance:headroom_sessions_of_most:ratio{%})")
                .limits(Limits::Above(0.7, 0.85))
                .says("Relayed sessions over those that the limit of file descriptors leaves room for; the fullest router.")
                .guide("tls.md#limits"),
            Panel::figure("Recording", Unit::Count, "max(headroom_recording{%})")
                .limits(Limits::Bad)
                .says("What clients send is being recorded, literals included.")
                .guide("record.md#record"),
            Panel::figure("Threads restarted today", Unit::Count, "sum(increase(headroom_data_plane_restarts_total{%}[1d]))")
                .limits(Limits::Zero)
                .says("Threads and tasks that ended and were started anew within a day.")
                .guide("configuration.md#in-a-service"),
            routers
                .query("max by (instance, version) (headroom_build_info{%})", "")
                .query("max by (instance, path) (headroom_data_path_info{%})", "")
                .query("max by (instance) (headroom_uptime_seconds{%})", "")
                .query("max by (instance) (headroom_remarks{%})", "")
                .query("min by (instance) (headroom_configuration_accepted{%})", "")
                .query("max by (instance) (headroom_zero_hop_in_force{%})", "")
                .joined_by("instance")
                .wide(24)
                .says("A line for each router. Remarks are on its status page, with what mends them.")
                .guide("routing.md#the-status-page"),
        ],
    }
}

fn listeners() -> Row {
    Row {
        title: "Listeners",
        panels: vec![
            Panel::lines("Sessions", Unit::Count, "sum by (listener, role) (headroom_listener_sessions{%,listener=~\"$listener\"})", "{{role}} {{listener}}")
                .says("Sessions open on a listener, those that bypass the router among them."),
            Panel::lines("New connections", Unit::PerSecond, "sum by (listener, role) (rate(headroom_listener_connections_total{%,listener=~\"$listener\"}[5m]))", "{{role}} {{listener}}")
                .query("sum by (listener) (rate(headroom_listener_accepted_total{%,listener=~\"$listener\"}[5m]))", "accepted by the router on {{listener}}")
                .says("Connections a second. Many for few sessions: the application does not keep connections open."),
            Panel::lines("Refused", Unit::PerSecond, "sum by (listener, reason) (rate(headroom_listener_refused_total{%,listener=~\"$listener\"}[5m])) > 0", "{{listener}}: {{reason}}")
                .limits(Limits::Above(0.1, 1.0))
                .says("Clients refused, by reason. left_at_once are health checks.")
                .guide("routing.md#health-checks-and-refused-clients"),
            Panel::lines("Logging in now", Unit::Count, "sum by (listener) (headroom_listener_connecting{%,listener=~\"$listener\"})", "{{listener}}")
                .says("Clients that have connected and are not logged in yet. A hump: servers are slow to greet, or a client sends nothing.")
                .guide("tls.md#limits"),
            Panel::lines("Logins by transport", Unit::PerSecond, "sum by (transport) (rate(headroom_listener_logins_total{%,listener=~\"$listener\"}[5m]))", "{{transport}}")
                .says("What carried the logins: in the open, TLS that ends at the router, or what the router cannot read.")
                .guide("tls.md"),
            Panel::lines("Writes held", Unit::Count, "sum by (instance) (headroom_holding{%})", "{{instance}}")
                .says("Writer connections that wait for a primary.")
                .guide("routing.md#a-writer"),
        ],
    }
}

fn servers() -> Row {
    Row {
        title: "Where sessions go, and why they end",
        panels: vec![
            Panel::areas("Sessions on servers", Unit::Count, "sum by (server, listener) (headroom_server_sessions{%})", "{{server}} ({{listener}})")
                .says("Sessions of these routers on each server."),
            Panel::lines("Should and is", Unit::Share, "avg by (server) (headroom_server_share{%})", "{{server}} should have")
                .query("sum by (server) (headroom_server_sessions{%,listener=\"reader\"}) / ignoring (server) group_left sum(headroom_server_sessions{%,listener=\"reader\"})", "{{server}} has of the sessions")
                .says("The share of these routers' reads that should go to a server, beside its share of their reader sessions.")
                .guide("routing.md#sessions-move-by-themselves"),
            Panel::lines("Capacity", Unit::Count, "avg by (server) (headroom_server_capacity{%})", "{{server}}")
                .says("Weight times speed times warmth of a server that may be picked for reads, else 0.")
                .guide("routing.md#a-slow-replica-gets-less"),
            Panel::lines("Picks by reason", Unit::PerSecond, "sum by (because) (rate(headroom_picks_total{%}[5m]))", "{{because}}")
                .says("Why servers were picked: own zone, another zone, the last resort.")
                .guide("routing.md#when-the-first-choice-is-not-available"),
            Panel::lines("Ends by reason", Unit::PerSecond, "sum by (reason) (rate(headroom_sessions_closed_total{%}[5m]))", "{{reason}}")
                .says("Why sessions ended: by themselves, moved, drained, cut. Cut ones had a statement under way.")
                .guide("routing.md#sessions-move-by-themselves"),
            Panel::lines("Connections that failed", Unit::PerSecond, "sum by (server) (rate(headroom_server_connection_failures_total{%}[5m]))", "{{server}}")
                .query("sum by (server) (rate(headroom_server_connections_total{%}[5m]))", "{{server}} made")
                .limits(Limits::Above(0.1, 1.0))
                .says("Connections to a server that failed before the client saw a byte (another server was tried), beside those that were made.")
                .guide("routing.md#when-the-first-choice-is-not-available"),
            Panel::lines("Commands", Unit::PerSecond, "sum by (server, path) (rate(headroom_server_commands_total{%}[5m]))", "{{server}} {{path}}")
                .says("Commands that servers answered. Of sessions that bypass the router it is an estimate from those that are measured.")
                .guide("insight.md#when-not-every-session-is-measured"),
            Panel::lines("Bytes", Unit::BytesPerSecond, "sum by (server, direction) (rate(headroom_server_bytes_total{%}[5m]))", "{{server}} {{direction}}")
                .says("Bytes of sessions, those that bypass the router among them."),
            Panel::states("Draining, hanging or held back", "max by (server) (headroom_server_draining{%}) == 1", "{{server}} drains")
                .query("max by (server) (headroom_server_commits_hang{%}) == 1", "{{server}}: commits hang")
                .query("max by (instance) (headroom_held_back{%}) == 1", "{{instance}} is held back")
                .wide(8)
                .limits(Limits::Bad)
                .says("Servers that are emptied by command, servers that answer while the commits relayed to them do not end, and routers that the CPU limit of their own cgroup holds back: raise it.")
                .guide("failover.md#when-it-answers-and-its-commits-hang"),
        ],
    }
}

fn bypass() -> Row {
    Row {
        title: "Zero-hop, recordings",
        panels: vec![
            Panel::states("Zero-hop", "min by (listener) (headroom_listener_zero_hop{%,listener=~\"$listener\"})", "{{listener}}")
                .wide(8)
                .limits(Limits::Good)
                .says("Whether new connections of a listener go straight to a server.")
                .guide("zero-hop.md#requirements"),
            Panel::lines("Sessions that bypass the router", Unit::Count, "sum by (listener) (headroom_listener_sessions_bypassed{%,listener=~\"$listener\"})", "{{listener}}")
                .query("sum by (listener) (rate(headroom_listener_connections_bypassed_total{%,listener=~\"$listener\"}[5m]))", "{{listener}} new a second")
                .says("Sessions between application and server without the router in between.")
                .guide("zero-hop.md"),
            Panel::lines("Left to the listener", Unit::PerSecond, "sum by (reason) (rate(headroom_listener_connections_kept_total{%,listener=~\"$listener\"}[5m]))", "{{reason}}")
                .says("Connections that the kernel left to the router, by reason.")
                .guide("zero-hop.md#which-connections-still-come-through-the-listener"),
            Panel::lines("Recording", Unit::Count, "sum by (instance) (headroom_recording_commands{%})", "{{instance}}: commands in it")
                .query("sum by (instance) (headroom_recording_lost_events{%})", "{{instance}}: events lost")
                .says("The recording under way. Events are lost when its reader cannot keep up.")
                .guide("record.md#record"),
        ],
    }
}

fn asking() -> Row {
    Row {
        title: "What routers ask",
        panels: vec![
            Panel::lines(
                "Age of the last look",
                Unit::Seconds,
                "max by (instance) (headroom_snapshot_age_seconds{%})",
                "{{instance}}",
            )
            .limits(Limits::Above(5.0, 30.0))
            .says("How old the picture is that a router routes by.")
            .guide("who-is-who.md#states"),
            Panel::lines(
                "Time between two questions",
                Unit::Seconds,
                "max by (server) (headroom_server_asked_interval_seconds{%})",
                "{{server}}",
            )
            .says("Longer than `interval` where many routers share the budget of a server.")
            .guide("who-is-who.md#many-routers"),
            Panel::lines(
                "Routers that ask",
                Unit::Count,
                "max by (server) (headroom_server_routers{%})",
                "{{server}}",
            )
            .says("Routers that ask a server, as counted there.")
            .guide("who-is-who.md#many-routers"),
        ],
    }
}
