//! The fleet: what is wrong, with which server, since when. The page to open first.

use super::{Dashboard, Kind, Limits, Panel, Row, Unit};

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        path: "deploy/grafana/headroom-fleet.json",
        uid: "headroom-fleet",
        title: "Headroom / Fleet",
        description: "what is wrong, with which server, since when; servers, zones, replication, guards",
        chosen_by: "headroom_uptime_seconds",
        choices: &[super::Choice { name: "zone", label: "Zone", metric: "headroom_server_info" }],
        rows: vec![wrong(), servers(), zones(), replication(), guards()],
    }
}

fn wrong() -> Row {
    let alerts = Panel::table(
        "Alerts that fire",
        Unit::Date,
        &[
            ("Value", "since"),
            ("alertname", "alert"),
            ("severity", "severity"),
            ("server", "server"),
            ("instance", "instance"),
            ("name", "verdict"),
            ("objective", "objective"),
        ],
    );
    Row {
        title: "Is anything wrong?",
        panels: vec![
            Panel::figure("Pages", Unit::Count, "count(ALERTS{alertname=~\"Headroom.*\",alertstate=\"firing\",severity=\"page\"}) or vector(0)")
                .limits(Limits::Zero)
                .says("Alerts that should wake somebody. What each means and what to do first is in the table of the guide.")
                .guide("monitoring.md#the-alerts"),
            Panel::figure("Primary known", Unit::Count, "max(headroom_writer_known{%})")
                .limits(Limits::Good)
                .says("Whether any router knows a primary. Without one new writes wait, then fail.")
                .guide("who-is-who.md#roles"),
            Panel::figure("Servers silent", Unit::Count, "count(max by (server) (headroom_server_up{%}) == 0) or vector(0)")
                .limits(Limits::Zero)
                .says("Servers that answer no router.")
                .guide("who-is-who.md#states"),
            Panel::figure("Replicas in use", Unit::Count, "count(max by (server) (headroom_server_eligible{%,listener=\"reader\"}) == 1) or vector(0)")
                .limits(Limits::Below(1.0))
                .says("Servers that a router may pick for reads.")
                .guide("routing.md#why-a-server-is-not-eligible"),
            Panel::figure("Commits hang", Unit::Count, "max(headroom_server_commits_hang{%})")
                .limits(Limits::Bad)
                .says("A server answers, but commits that routers relay to it do not end (a gray failure).")
                .guide("failover.md#when-it-answers-and-its-commits-hang"),
            Panel::figure("Routers silent", Unit::Count, "count(up{%,job=~\"headroom-router.*\"} == 0) or vector(0)")
                .limits(Limits::Zero)
                .says("Routers that Prometheus cannot read.")
                .guide("configuration.md#in-a-service"),
            Panel::figure("Reads leaving their zone", Unit::Share, "avg(instance:headroom_reads_leaving_zone:ratio{%})")
                .limits(Limits::Above(0.1, 0.3))
                .says("Share of all reads that the flow table sends to another zone.")
                .guide("routing.md#a-reader"),
            Panel::figure("Incidents open", Unit::Count, "sum(max by (objective) (headroom_incident_open)) or vector(0)")
                .limits(Limits::Zero)
                .says("Objectives whose incident is open, of routers and agents.")
                .guide("objectives.md#when-an-incident-opens"),
            alerts
                .query("1000 * ALERTS_FOR_STATE{alertname=~\"Headroom.*\"} and ignoring (alertstate) ALERTS{alertname=~\"Headroom.*\",alertstate=\"firing\"}", "")
                .wide(24)
                .says("Each alert with what it is about and since when its condition has held. The rules are in deploy/prometheus.")
                .guide("monitoring.md#the-alerts"),
        ],
    }
}

fn servers() -> Row {
    let all = Panel::table(
        "Servers",
        Unit::Count,
        &[
            ("server", "server"),
            ("role", "role"),
            ("zone", "zone"),
            ("version", "version"),
            ("reserved", "reserved"),
            ("Value #B", "answers"),
            ("Value #C", "lag at most (s)"),
            ("Value #D", "sessions"),
            ("Value #E", "share of reads"),
            ("Value #F", "statements/s"),
            ("Value #G", "speed factor"),
            ("Value #H", "draining"),
        ],
    );
    Row {
        title: "Servers",
        panels: vec![
            all.query("max by (server, role, zone, version, reserved) (headroom_server_info{%,zone=~\"$zone\"})", "")
                .query("avg by (server) (headroom_server_up{%})", "")
                .query("max by (server) (headroom_server_lag_at_most_seconds{%})", "")
                .query("sum by (server) (headroom_server_sessions{%})", "")
                .query("avg by (server) (headroom_server_load_share{%})", "")
                .query("max by (server) (headroom_server_statements_per_second{%})", "")
                .query("min by (server) (headroom_server_speed_factor{%})", "")
                .query("max by (server) (headroom_server_draining{%})", "")
                .joined_by("server")
                .wide(24)
                .says("Every server as the routers see it: answers is the share of routers that it answers; a speed factor below 1 means that the same statements take longer there.")
                .guide("who-is-who.md#roles"),
            Panel::states("Answers", "max by (server) (headroom_server_up{%})", "{{server}}")
                .limits(Limits::Good)
                .says("Whether a server answers any router. The beginning of a red bar is when it went silent.")
                .guide("who-is-who.md#states"),
            Panel::states("Why a server gets no reads", "max by (server, reason) (headroom_server_eligible{%,listener=\"reader\",reason!=\"\"} == bool 0) == 1", "{{server}}: {{reason}}")
                .limits(Limits::Bad)
                .says("A bar for each reason that keeps a server from being picked for reads. is_primary and reserved are as they should be.")
                .guide("routing.md#why-a-server-is-not-eligible"),
            Panel::states("Takes writes", "max by (server) (headroom_server_eligible{%,listener=\"writer\"})", "{{server}}")
                .limits(Limits::Good)
                .says("Which server routers send writes to. Where the bar changes from one server to another, the primary moved.")
                .guide("switchover.md"),
            Panel::lines("Epochs", Unit::Count, "max by (instance) (headroom_epoch{%})", "seen by {{instance}}")
                .query("max by (server, claim) (headroom_ignored_claim_epoch{%})", "of {{server}}, whose claim ({{claim}}) is ignored")
                .query("sum(increase(headroom_ignored_claims_total{%}[5m]))", "claims newly ignored in 5 min")
                .query("max(headroom_epoch_unknown_servers{%})", "servers that do not say theirs")
                .says("Each switchover and failover counts the epoch up by one. A server of a lower epoch is a former primary: it gets no writer session.")
                .guide("switchover.md#epochs"),
            Panel::states("Fallbacks", "max by (fallback) (headroom_fallback_in_force{%})", "{{fallback}}")
                .limits(Limits::Bad)
                .says("What is done instead of what was asked for, by name.")
                .guide("routing.md#when-the-first-choice-is-not-available"),
            Panel::lines("Statements", Unit::PerSecond, "max by (server) (headroom_server_statements_per_second{%})", "{{server}}")
                .says("Statements a second by each server's own count, whoever sent them."),
            Panel::lines("Share of the reads of all replicas", Unit::Share, "avg by (server) (headroom_server_load_share{%})", "{{server}}")
                .says("Each replica's share of the statements of all replicas, by their own counts."),
            Panel::lines("Speed factor", Unit::Count, "min by (server) (headroom_server_speed_factor{%})", "{{server}}")
                .says("How fast a replica is beside the others on the same statements: its weight is multiplied by this, or by its warmth if that is lower.")
                .guide("routing.md#a-slow-replica-gets-less"),
            Panel::lines("Warmth", Unit::Share, "min by (server) (headroom_server_warmth_ratio{%})", "{{server}}")
                .query("max by (server) (headroom_server_warm_by_clock{%}) > 0", "{{server}} by the clock")
                .says("How far a replica that came back has warmed up: its weight is multiplied by this, or by its speed factor if that is lower. A line at 1 by the clock: the clock, and not its misses, says so.")
                .guide("routing.md#a-cold-replica-warms-up"),
        ],
    }
}

fn zones() -> Row {
    Row {
        title: "Zones",
        panels: vec![
            Panel::areas("Where reads are born", Unit::Share, "avg by (zone) (headroom_demand_share{%,zone=~\"$zone\"})", "{{zone}}")
                .says("Share of all reads that comes from each zone, measured by the servers' own counters.")
                .guide("who-is-who.md#zones"),
            Panel::areas("Where there is room", Unit::Share, "avg by (zone) (headroom_capacity_share{%,zone=~\"$zone\"})", "{{zone}}")
                .says("Share of the capacity that may be picked in each zone. Less room than demand: reads leave the zone.")
                .guide("routing.md#a-reader"),
            Panel::areas("Where reads go", Unit::Share, "avg by (from, to) (headroom_flow_share{%,from=~\"$zone\"}) > 0", "{{from}} to {{to}}")
                .says("The flow table: share of the reads of one zone that goes to the servers of another.")
                .guide("routing.md#a-reader"),
            Panel::lines("Reads leaving their zone", Unit::Share, "avg(instance:headroom_reads_leaving_zone:ratio{%})", "of all reads")
                .limits(Limits::Above(0.1, 0.3))
                .says("Share of all reads that is served in another zone: slower, and often paid for by the byte.")
                .guide("routing.md#a-reader"),
            Panel::lines("Reads of the whole fleet", Unit::PerSecond, "max(headroom_reads_per_second{%})", "reads")
                .says("Reads a second that the shares of demand stand on."),
            Panel::lines("Round trip", Unit::Seconds, "min by (server) (headroom_server_round_trip_seconds{%})", "{{server}}")
                .says("Shortest recent round trip of the routers' questions; the nearest router's."),
        ],
    }
}

fn replication() -> Row {
    Row {
        title: "Replication",
        panels: vec![
            Panel::lines("Lag at most", Unit::Seconds, "max by (server) (headroom_server_lag_at_most_seconds{%})", "{{server}}")
                .wide(12)
                .limits(Limits::Above(5.0, 10.0))
                .says("How far behind a replica is at most: what max_lag is compared with. A line that ends means that it is not known.")
                .guide("who-is-who.md#lag"),
            Panel::lines("Lag at least", Unit::Seconds, "max by (server) (headroom_server_lag_seconds{%})", "{{server}}")
                .wide(12)
                .says("How far behind a replica is at least.")
                .guide("who-is-who.md#lag"),
        ],
    }
}

fn guards() -> Row {
    Row {
        title: "Guards (automatic failover)",
        panels: vec![
            Panel::figure("A guard is active", Unit::Count, "max(headroom_guard_active)")
                .limits(Limits::Good)
                .says("Whether a guard holds the lock on more than half of the servers. Empty: none runs.")
                .guide("failover.md#by-itself-headroom-guard"),
            Panel::figure("A person is needed", Unit::Count, "max(headroom_guard_person_needed)")
                .limits(Limits::Bad)
                .says("The primary is not healthy and the guard does not act by itself: something acknowledged could be lost, or the last failover was short ago.")
                .guide("failover.md#by-itself-headroom-guard"),
            Panel::figure("Paused", Unit::Count, "max(headroom_guard_paused)")
                .limits(Limits::Bad)
                .says("A person has paused the guards.")
                .guide("failover.md#by-itself-headroom-guard"),
            Panel::figure("Failovers this week", Unit::Count, "sum(increase(headroom_guard_failovers_total[1w]))")
                .says("Failovers that guards completed."),
            Panel::figure("Not done this week", Unit::Count, "sum(increase(headroom_guard_attempts_not_done_total[1w]))")
                .says("Attempts that were refused, not confirmed or undone."),
            Panel::states("What guards do", "headroom_guard_decision == 1", "{{instance}}: {{decision}}")
                .wide(9)
                .says("watch: the active one; standby: another is active; paused, ask and act say what they mean.")
                .guide("failover.md#by-itself-headroom-guard"),
            Panel { kind: Kind::Lines, ..Panel::lines("Locks", Unit::Count, "max(headroom_guard_locks_held)", "held by the one with most") }
                .query("max(headroom_guard_locks_possible)", "servers other than the primary")
                .query("sum by (instance) (rate(headroom_guard_rounds_total[5m]))", "looks a second of {{instance}}")
                .says("A guard may act while it holds more than half of the locks. Looks of 0: it stands still.")
                .guide("failover.md#by-itself-headroom-guard"),
        ],
    }
}
